// Tests that messages are written as documented, and that malformed ones are refused.
#include "oramcore/base/codec.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/harness/samples.h"

namespace s3oram {
namespace {

using test::for_each_sample;

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

template <class T>
Bytes body_of(const T& message) {
  const Bytes encoded = encode(message);
  return Bytes(encoded.begin() + Rpc::kHeaderSize, encoded.end());
}

// Bytes that decode as a message must be exactly that message: encoding it gives the same bytes.
template <class T>
void expect_refused_or_exact(ByteSpan bytes) {
  const auto message = decode<T>(bytes);
  if (message) {
    EXPECT_EQ(body_of(*message), Bytes(bytes.begin(), bytes.end()));
  }
}

TEST(Codec, WritesEveryFieldInItsPlace) {
  for_each_sample([](const auto& message, const std::string& hex) {
    EXPECT_EQ(body_of(message), from_hex(hex)) << hex;
    EXPECT_EQ(encode(message).size(), Rpc::kHeaderSize + hex.size() / 2);
  });
}

TEST(Codec, ReadsEveryFieldBack) {
  for_each_sample([]<class T>(const T&, const std::string& hex) {
    const Bytes bytes = from_hex(hex);
    const auto message = decode<T>(bytes);
    ASSERT_TRUE(message) << hex;
    EXPECT_EQ(body_of(*message), bytes);
  });
}

TEST(Codec, RefusesEveryTruncationAndEveryAddition) {
  for_each_sample([]<class T>(const T& message, const std::string& hex) {
    const Bytes bytes = body_of(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      // A copy of its own, so that a sanitizer sees every byte read after the end.
      const Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(decode<T>(part)) << size << " bytes of " << hex;
    }
    for (std::size_t more = 1; more <= 40; ++more) {
      Bytes longer = bytes;
      longer.resize(bytes.size() + more);
      EXPECT_FALSE(decode<T>(longer)) << more << " bytes behind " << hex;
    }
  });
}

TEST(Codec, TakesFlippedBitsForWhatTheyAreOrRefusesThem) {
  for_each_sample([]<class T>(const T& message, const std::string&) {
    Bytes bytes = body_of(message);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
      bytes[bit / 8] ^= mask;
      expect_refused_or_exact<T>(bytes);
      bytes[bit / 8] ^= mask;
    }
  });
}

TEST(Codec, TakesNoRandomBytesForSomethingElse) {
  std::mt19937_64 random(1);
  for_each_sample([&]<class T>(const T& message, const std::string&) {
    const Bytes valid = body_of(message);
    for (int round = 0; round < 3000; ++round) {
      Bytes bytes(random() % 100);
      for (auto& byte : bytes)  // small numbers make lengths that fit
        byte = static_cast<std::uint8_t>(round % 2 ? random() : random() % 3);
      expect_refused_or_exact<T>(bytes);
      // Random bytes after a valid beginning.
      const std::size_t keep = valid.empty() ? 0 : random() % valid.size();
      std::copy_n(valid.begin(), std::min(keep, bytes.size()), bytes.begin());
      expect_refused_or_exact<T>(bytes);
    }
  });
}

TEST(Codec, ReadsTruthValuesOnlyAsZeroAndOne) {
  for (int value = 0; value < 256; ++value) {
    const Bytes bytes{3, static_cast<std::uint8_t>(value)};
    EXPECT_EQ(decode<HelloAnswer>(bytes).has_value(), value == 0) << value;
  }
}

// A length that exceeds the remaining bytes must not make the reader allocate memory.
TEST(Codec, ReservesNothingForALyingLength) {
  for (const std::uint32_t length : {0xffffffffu, 0x80000000u, 1000000u, 97u, 96u}) {
    Writer writer;
    writer(length);
    Bytes bytes = writer.take();
    bytes.resize(bytes.size() + 96);  // four sessions' worth
    std::vector<Session> sessions;
    Reader reader(bytes);
    reader(sessions);
    EXPECT_FALSE(reader.complete()) << length;
    EXPECT_LE(sessions.capacity(), 8u) << length;
  }
}

TEST(Codec, GivesByteSpansIntoTheMessage) {
  const Bytes share(1000, 7);
  const Bytes bytes = body_of(RelayRequest{.part = share});
  const auto message = decode<RelayRequest>(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->part.data(), bytes.data() + bytes.size() - share.size());
}

}  // namespace
}  // namespace s3oram
