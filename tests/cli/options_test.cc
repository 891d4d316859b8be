// Tests sizes and servers in options, and texts that are safe for a shell or a terminal.
#include <gtest/gtest.h>

#include "cli/server_option.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

TEST(ParseSize, TakesNumbersWithAndWithoutUnits) {
  EXPECT_EQ(parse_size("0").value(), 0u);
  EXPECT_EQ(parse_size("4096").value(), 4096u);
  EXPECT_EQ(parse_size("32K").value(), 32768u);
  for (const char* text : {"1M", "1m", "1MB", "1MiB", "1024k"})
    EXPECT_EQ(parse_size(text).value(), 1048576u) << text;
  EXPECT_EQ(parse_size("16777215T").value(), 16777215ull << 40);
}

TEST(ParseSize, RefusesAllElse) {
  for (const char* text : {"", "K", "-1", "1P", "1KK", "1B", "1 K", "1K ", "1.5K", "0x10",
                           "99999999999999999999", "18446744073709551615K", "16777216T"}) {
    auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code, Errc::usage);
  }
}

TEST(ParseSize, SaysFromWhatToWhat) {
  EXPECT_EQ(parse_size("3K", 4096, 1 << 20).error().message, "3K is not a size from 4K to 1M");
  EXPECT_EQ(parse_size("2M", 4096, 1 << 20).error().message, "2M is not a size from 4K to 1M");
  EXPECT_EQ(parse_size("0", 1).error().message, "0 is not a size of 1 or more");
  EXPECT_EQ(parse_size("x").error().message, "x is not a size of 0 or more");
  EXPECT_EQ(parse_size("1M", 4096, 1 << 20).value(), 1u << 20);
}

TEST(Printable, LeavesNothingThatATerminalActsOn) {
  EXPECT_EQ(printable("a\n\x1b[2J\x7f"), "a\\x0a\\x1b[2J\\x7f");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
}

TEST(Printable, KeepsTheLinesOfALongerText) {
  EXPECT_EQ(printable_lines("a\n\tb\x1b]0;x\x07\r"), "a\n\tb\\x1b]0;x\\x07\\x0d");
}

TEST(ShellWord, LeavesNothingThatAShellActsOn) {
  EXPECT_EQ(shell_word("/mnt/a-b_c.1"), "/mnt/a-b_c.1");
  EXPECT_EQ(shell_word("/My \xc3\xbc$(x)"), "/My\\ \xc3\xbc\\$\\(x\\)");
}

TEST(HumanSize, HasAboutThreeDigits) {
  EXPECT_EQ(human_size(0), "0 B");
  EXPECT_EQ(human_size(1023), "1023 B");
  EXPECT_EQ(human_size(1536), "1.5 KiB");
  EXPECT_EQ(human_size(std::uint64_t{300} << 20), "300 MiB");
}

class ParseServers : public testing::Test {
 protected:
  static std::string key(std::uint8_t byte) {
    PublicKey bytes;
    bytes.fill(byte);
    return to_text(bytes);
  }
};

TEST_F(ParseServers, KeepsTheirOrder) {
  auto servers = parse_servers({"a.example:1," + key(1), "[::1]:5760," + key(2)});
  ASSERT_TRUE(servers) << servers.error().message;
  ASSERT_EQ(servers->size(), 2u);
  EXPECT_EQ((*servers)[0].host_port, "a.example:1");
  EXPECT_EQ((*servers)[0].key[0], 1);
  EXPECT_EQ((*servers)[1].host_port, "[::1]:5760");
  EXPECT_EQ((*servers)[1].key[31], 2);
}

TEST_F(ParseServers, RefusesMalformedOnesByName) {
  for (const std::string& option :
       {std::string("a.example:1"), "a.example," + key(1), ":1," + key(1), "a:0," + key(1),
        "a:65536," + key(1), "a:1x," + key(1), std::string("a:1,"), "a:1," + key(1) + "A",
        std::string("a:1,short"), "::1:1," + key(1), "a:*," + key(1), "*:1," + key(1)}) {
    auto servers = parse_servers({option});
    ASSERT_FALSE(servers) << option;
    EXPECT_EQ(servers.error().code, Errc::usage);
    EXPECT_NE(servers.error().message.find(option), std::string::npos) << servers.error().message;
  }
}

// One server with two shares would learn everything.
TEST_F(ParseServers, RefusesTheSameServerTwice) {
  EXPECT_FALSE(parse_servers({"a:1," + key(1), "b:1," + key(1)}));
  EXPECT_FALSE(parse_servers({"a:1," + key(1), "a:1," + key(2)}));
}

}  // namespace
}  // namespace s3oram
