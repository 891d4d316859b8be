// An invitation: one string with which the person who runs a server sets it up to serve a client.
// It says where the server listens and which number it has, names the client's public key, and
// holds the secret key of one link. Only this client may open that link. On it, the server
// announces its own public key and learns all servers of the volume; after that the link's key is
// no longer needed.
#pragma once

#include <string>
#include <vector>

#include "oramcore/base/bytes.h"
#include "oramcore/base/curve_keys.h"
#include "oramcore/base/error.h"
#include "oramcore/base/party.h"
#include "oramcore/net/rpc.h"

namespace s3oram {

struct Invitation {
  Party server = 0, servers = 0;  // the server's number, and how many the volume has
  std::string host_port;          // where the client and the other servers reach the server
  PublicKey client{};
  KeyPair link;  // the server's keys on that link
};

/// Returns the invitation as "s3oramfs1-" and base64url; safe in a shell.
std::string to_text(const Invitation& invitation);
/// Ignores white space in the text, because mail programs add it. Errors: usage.
Result<Invitation> parse_invitation(const std::string& text);

/// Derives the link's keys for server `server` from the client's secret key, so that they are the
/// same each time.
KeyPair invitation_link(const SecretKey& client, Party server);

/// Returns four groups of four letters and digits for two people to read to each other. Both see
/// the same text if the client knows the server's right key, and the server the client's.
std::string fingerprint(const PublicKey& client, const PublicKey& server);

// ---- the messages on the link; the client asks

enum class JoinMessage : std::uint16_t {
  greet = 1,  // asks for the server's public key
  peers = 2,  // tells the server all servers of the volume
};
inline QuestionType question_of(JoinMessage type) { return {static_cast<std::uint16_t>(type)}; }

struct GreetAnswer {
  PublicKey key{};
  template <class Archive>
  void fields(Archive& archive) {
    archive(key);
  }
};

/// "N=HOST:PORT,KEY" for each server, as in the servers' files.
struct PeersRequest {
  std::vector<ByteSpan> servers;
  template <class Archive>
  void fields(Archive& archive) {
    archive(servers);
  }
};

}  // namespace s3oram
