// Tests that messages are written as documented, and that malformed ones are refused.
#include "oramcore/base/codec.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/harness/samples.h"

namespace s3oram {
namespace {

using test::Sample;

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

// Bytes that decode as a message must be exactly that message: encoding it gives the same bytes.
void expect_refused_or_exact(const Sample& type, const Bytes& bytes) {
  const auto copy = type.copy(bytes);
  if (copy) {
    EXPECT_EQ(*copy, bytes);
  }
}

TEST(Codec, WritesEveryFieldInItsPlace) {
  for (const Sample& sample : test::samples())
    EXPECT_EQ(sample.body, from_hex(sample.documented)) << sample.documented;
}

TEST(Codec, ReadsEveryFieldBack) {
  for (const Sample& sample : test::samples())
    EXPECT_EQ(sample.copy(sample.body), sample.body) << sample.documented;
}

TEST(Codec, RefusesEveryTruncationAndEveryAddition) {
  for (const Sample& sample : test::samples()) {
    const Bytes& bytes = sample.body;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      // A copy of its own, so that a sanitizer sees every byte read after the end.
      const Bytes part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(sample.copy(part)) << size << " bytes of " << sample.documented;
    }
    for (std::size_t more = 1; more <= 40; ++more) {
      Bytes longer = bytes;
      longer.resize(bytes.size() + more);
      EXPECT_FALSE(sample.copy(longer)) << more << " bytes behind " << sample.documented;
    }
  }
}

TEST(Codec, TakesFlippedBitsForWhatTheyAreOrRefusesThem) {
  for (const Sample& sample : test::samples()) {
    Bytes bytes = sample.body;
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
      bytes[bit / 8] ^= mask;
      expect_refused_or_exact(sample, bytes);
      bytes[bit / 8] ^= mask;
    }
  }
}

TEST(Codec, TakesNoRandomBytesForSomethingElse) {
  std::mt19937_64 random(1);
  for (const Sample& sample : test::samples()) {
    const Bytes& valid = sample.body;
    for (int round = 0; round < 3000; ++round) {
      Bytes bytes(random() % 100);
      for (auto& byte : bytes)  // small numbers make lengths that fit
        byte = static_cast<std::uint8_t>(round % 2 ? random() : random() % 3);
      expect_refused_or_exact(sample, bytes);
      // Random bytes after a valid beginning.
      const std::size_t keep = valid.empty() ? 0 : random() % valid.size();
      std::copy_n(valid.begin(), std::min(keep, bytes.size()), bytes.begin());
      expect_refused_or_exact(sample, bytes);
    }
  }
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
  const Bytes bytes = test::body_of(RelayRequest{.part = share});
  const auto message = decode<RelayRequest>(bytes);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->part.data(), bytes.data() + bytes.size() - share.size());
}

}  // namespace
}  // namespace s3oram
