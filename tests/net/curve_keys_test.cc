// Tests keys and endpoints in the form of text.
#include "oramcore/base/curve_keys.h"

#include <gtest/gtest.h>

#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

TEST(Keys, RoundTripThroughText) {
  for (int i = 0; i < 100; ++i) {
    const KeyPair pair = generate_key_pair();
    const std::string text = to_text(pair.public_key);
    EXPECT_EQ(text.size(), 43u);
    const auto parsed = parse_public_key(text);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, pair.public_key);
    EXPECT_EQ(key_pair_of(pair.secret_key).public_key, pair.public_key);
  }
}

TEST(Keys, TextIsUrlSafeBase64) {
  PublicKey key;
  key.fill(0xff);
  EXPECT_EQ(to_text(key), std::string(42, '_') + "8");
}

TEST(Keys, RefusesWhatIsNoKey) {
  const std::string good = to_text(generate_key_pair().public_key);
  for (const std::string& bad : {std::string(), good.substr(1), good + "A", good + "=", good + "\n",
                                 " " + good, "+" + good.substr(1), "/" + good.substr(1),
                                 good.substr(0, 42) + "B", std::string("hello")}) {
    const auto parsed = parse_public_key(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, Errc::usage);
    EXPECT_NE(parsed.error().message.find("43"), std::string::npos);
  }
}

TEST(Endpoint, TakesWhatUsersWrite) {
  const std::pair<const char*, const char*> cases[] = {
      {"a.example:5760", "tcp://a.example:5760"},
      {"tcp://10.0.0.1:1", "tcp://10.0.0.1:1"},
      {"[::1]:65535", "tcp://[::1]:65535"},
      {"*:5760", "tcp://*:5760"},
      {"127.0.0.1:*", "tcp://127.0.0.1:*"},
      {"ipc://1.sock", "ipc://1.sock"},
      {"[fe80::1%eth0]:5760", "tcp://[fe80::1%eth0]:5760"},
      {"[::ffff:192.0.2.1]:1", "tcp://[::ffff:192.0.2.1]:1"},
      {"my_host-2.a.example:80", "tcp://my_host-2.a.example:80"},
      {"ipc:///tmp/a folder/1.sock", "ipc:///tmp/a folder/1.sock"},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_endpoint(text);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, expected);
    EXPECT_EQ(is_tcp(*parsed), std::string(expected).starts_with("tcp"));
  }
}

TEST(Endpoint, RefusesAndNamesTheRest) {
  for (const std::string bad :
       {"", "a.example", ":5760", "a.example:", "a.example:0", "a.example:65536", "a.example:57x",
        "::1:5760", "http://a.example:80", "a b:80", "ipc://", "ipc://@abstract", "ipc://*",
        "udp://a:1"}) {
    const auto parsed = parse_endpoint(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, Errc::usage);
    EXPECT_NE(parsed.error().message.find(bad), std::string::npos);
  }
  for (const std::string bad :
       {"[]:80", "[%]:80", "[::1%]:80", "[a.example]:80", "[::1]]:80", "[[::1]:80", "[::g]:80",
        "[::1%a/b]:80", "a]:80", "[::1:80", "h\xc3\xb6st:80"})
    EXPECT_FALSE(parse_endpoint(bad)) << bad;
  EXPECT_TRUE(parse_endpoint("ipc://" + std::string(107, 'x')));
  EXPECT_FALSE(parse_endpoint("ipc://" + std::string(108, 'x')));
}

// Others send us endpoints, which are then shown on a terminal and kept in a file of lines.
TEST(Endpoint, NoByteOfItActsOnATerminal) {
  for (unsigned code = 0; code < 256; ++code) {
    if (code > ' ' && code < 0x7f) continue;
    const std::string byte(1, static_cast<char>(code));
    for (const std::string& bad : {"a" + byte + "b:80", "[" + byte + "]:80", "[::1" + byte + "]:80",
                                   "[::1%" + byte + "]:80", byte + "a:80", "a:80" + byte})
      EXPECT_FALSE(parse_endpoint(bad)) << code;
    EXPECT_EQ(!parse_endpoint("ipc://a" + byte + "b"), code < ' ' || code == 0x7f) << code;
  }
  const auto refused = parse_endpoint("[\x1b[8m]:80\n");
  ASSERT_FALSE(refused);
  for (const char byte : refused.error().message) EXPECT_GE(byte, ' ');
}

}  // namespace
}  // namespace s3oram
