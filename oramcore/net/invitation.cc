// The text of an invitation, and what is derived from its keys.
#include "oramcore/net/invitation.h"

#include <sodium.h>

#include <algorithm>
#include <cctype>

#include "oramcore/base/codec.h"
#include "oramcore/net/endpoint.h"

namespace s3oram {
namespace {

constexpr std::string_view kTitle = "s3oramfs1-";
constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
constexpr std::size_t kMostAddress = 300, kChecksum = 4;

using Checksum = std::array<std::uint8_t, kChecksum>;

Checksum checksum_of(ByteSpan bytes) {
  std::array<std::uint8_t, crypto_generichash_BYTES> hash;
  crypto_generichash(hash.data(), hash.size(), bytes.data(), bytes.size(), nullptr, 0);
  Checksum sum;
  std::copy_n(hash.begin(), sum.size(), sum.begin());
  return sum;
}

tl::unexpected<Error> not_whole() {
  return fail(Errc::usage,
              "this is not a whole invitation: paste all of the string that s3oramfs invite shows "
              "for this server");
}

}  // namespace

std::string to_text(const Invitation& invitation) {
  Writer writer;
  writer(invitation.server, invitation.servers, invitation.client, invitation.link.secret_key,
         as_bytes(invitation.host_port));
  Bytes bytes = writer.take();
  const Checksum sum = checksum_of(bytes);
  bytes.insert(bytes.end(), sum.begin(), sum.end());
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), bytes.data(), bytes.size(), kVariant);
  text.pop_back();  // the terminating zero
  sodium_memzero(bytes.data(), bytes.size());
  return std::string(kTitle) + text;
}

Result<Invitation> parse_invitation(const std::string& text) {
  std::string word;
  for (const char c : text)
    if (std::isspace(static_cast<unsigned char>(c)) == 0) word += c;
  if (!word.starts_with(kTitle)) return not_whole();
  word.erase(0, kTitle.size());
  Bytes bytes(word.size());
  std::size_t size = 0;
  if (sodium_base642bin(bytes.data(), bytes.size(), word.data(), word.size(), nullptr, &size,
                        nullptr, kVariant) != 0 ||
      size < kChecksum)
    return not_whole();
  bytes.resize(size);
  const ByteSpan content = ByteSpan(bytes).first(size - kChecksum);
  if (!std::ranges::equal(checksum_of(content), ByteSpan(bytes).last(kChecksum)))
    return not_whole();
  Invitation invitation;
  ByteSpan address;
  Reader reader(content);
  reader(invitation.server, invitation.servers, invitation.client, invitation.link.secret_key,
         address);
  invitation.host_port.assign(address.begin(), address.end());
  const bool good = reader.complete() && invitation.server >= 1 &&
                    invitation.server <= invitation.servers && address.size() <= kMostAddress &&
                    parse_endpoint("tcp://" + invitation.host_port);
  if (!good) return not_whole();
  invitation.link = key_pair_of(invitation.link.secret_key);
  sodium_memzero(bytes.data(), bytes.size());
  return invitation;
}

KeyPair invitation_link(const SecretKey& client, Party server) {
  const std::string purpose = fmt::format("s3oramfs invitation of server {}", server);
  SecretKey secret;
  crypto_generichash(secret.data(), secret.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(),
                     client.data(), client.size());
  KeyPair link = key_pair_of(secret);
  sodium_memzero(secret.data(), secret.size());
  return link;
}

std::string fingerprint(const PublicKey& client, const PublicKey& server) {
  // Leaves out letters and digits that look or sound like others.
  constexpr std::string_view kLetters = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
  constexpr std::size_t kGroups = 4, kInGroup = 4;
  Bytes both(client.begin(), client.end());
  both.insert(both.end(), server.begin(), server.end());
  std::array<std::uint8_t, kGroups * kInGroup> hash;
  crypto_generichash(hash.data(), hash.size(), both.data(), both.size(), nullptr, 0);
  std::string text;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    if (i > 0 && i % kInGroup == 0) text += '-';
    text += kLetters[hash[i] % kLetters.size()];
  }
  return text;
}

}  // namespace s3oram
