// Tests the text of an invitation: its content, and the texts that are refused.
#include "oramcore/net/invitation.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

Invitation sample() {
  const KeyPair client = generate_key_pair();
  Invitation made{2, 3, "b.example:5760", client.public_key, {}};
  made.link = invitation_link(client.secret_key, 2);
  return made;
}

TEST(Invitation, SurvivesItsTextAndAMailProgram) {
  const Invitation invitation = sample();
  const std::string text = to_text(invitation);
  for (const std::string& pasted : {text, " " + text.substr(0, 40) + "\r\n  " + text.substr(40)}) {
    const auto parsed = parse_invitation(pasted);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->server, 2);
    EXPECT_EQ(parsed->servers, 3);
    EXPECT_EQ(parsed->host_port, "b.example:5760");
    EXPECT_EQ(parsed->client, invitation.client);
    EXPECT_EQ(parsed->link.secret_key, invitation.link.secret_key);
    EXPECT_EQ(parsed->link.public_key, invitation.link.public_key);
  }
}

TEST(Invitation, AMissingOrChangedLetterIsNoticed) {
  const std::string text = to_text(sample());
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(parse_invitation(text.substr(0, i))) << i;
    std::string changed = text;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    const bool may_mean_nothing = i + 1 == text.size();  // the last letter holds fewer bits
    EXPECT_TRUE(may_mean_nothing || !parse_invitation(changed)) << i;
  }
}

TEST(Invitation, RefusesNumbersAndAddressesThatNoVolumeHas) {
  Invitation invitation = sample();
  invitation.server = 4;
  EXPECT_FALSE(parse_invitation(to_text(invitation)));
  invitation = sample();
  invitation.server = 0;
  EXPECT_FALSE(parse_invitation(to_text(invitation)));
  invitation = sample();
  for (const char* address : {"no port", "[\x1b[8m]:5760", "[a\nb]:5760",
                              "[\x9b"
                              "8m]:5760"}) {
    invitation.host_port = address;
    EXPECT_FALSE(parse_invitation(to_text(invitation)));
  }
}

TEST(Invitation, LinksDifferByClientAndServer) {
  const KeyPair one = generate_key_pair(), other = generate_key_pair();
  EXPECT_EQ(invitation_link(one.secret_key, 1).public_key,
            invitation_link(one.secret_key, 1).public_key);
  EXPECT_NE(invitation_link(one.secret_key, 1).public_key,
            invitation_link(one.secret_key, 2).public_key);
  EXPECT_NE(invitation_link(one.secret_key, 1).public_key,
            invitation_link(other.secret_key, 1).public_key);
}

TEST(Invitation, FingerprintsAreOfBothKeys) {
  const PublicKey a = generate_key_pair().public_key, b = generate_key_pair().public_key;
  EXPECT_EQ(fingerprint(a, b).size(), 19u);
  EXPECT_EQ(fingerprint(a, b), fingerprint(a, b));
  EXPECT_NE(fingerprint(a, b), fingerprint(b, a));
}

}  // namespace
}  // namespace s3oram
