// Tests which passphrases cause a warning.
#include "oramcore/vault/passphrase_strength.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

bool says(const char* passphrase, const char* word) {
  return weakness_of(passphrase).find(word) != std::string::npos;
}

TEST(PassphraseStrength, KnowsWhatIsTriedFirst) {
  for (const char* text : {"password", "Password123!", "qwerty", "1234letmein", "CHANGEME",
                           "Summer2026", "correcthorsebatterystaple"})
    EXPECT_TRUE(says(text, "first")) << text;
}

TEST(PassphraseStrength, KnowsShortOnesRepetitionsAndSequences) {
  for (const char* text :
       {"a", "cat", "kitchen", "xK7#pq", "0123456789", "20261126", "aaaaaaaaaaaaaaaaaaaaaaaa",
        "abcdefghijklmnopqrstuvwxyz", "lolalolalolalolalolalola", "98765432109876543210"})
    EXPECT_TRUE(says(text, "guess")) << text;
}

TEST(PassphraseStrength, SaysNothingOfStrongOnes) {
  for (const char* text :
       {"correct horse battery staple", "xK7#pq9!vB2", "mumpsimus grackle tundra", "k3fx0w7qz9mb",
        "\xc3\xa4\xc3\xb6 fjord \xc3\xbc quarks"})
    EXPECT_EQ(weakness_of(text), "") << text;
}

TEST(PassphraseStrength, HoldsNothingOfThePassphrase) {
  for (const char* text : {"zebra7", "kwyjibo"}) {
    ASSERT_NE(weakness_of(text), "");
    EXPECT_FALSE(says(text, text));
  }
}

}  // namespace
}  // namespace s3oram
