// An invitation: one string by which the person who runs a server comes to serve a client. It says
// where the server is to listen and which number it has, names the client's public key, and holds
// the secret key of one link. On that link, which only this client may open, the server tells its
// own public key and is told all servers of the volume; then the link's key has served its purpose.
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
  Party server = 0, servers = 0;  // its number, and how many the volume has
  std::string host_port;          // where the client and the other servers reach it
  PublicKey client{};
  KeyPair link;  // the server's on that link
};

/// "s3oramfs1-" and base64url; safe in a shell.
std::string to_text(const Invitation& invitation);
/// White space in the text is skipped, as mail programs add it. Errors: usage.
Result<Invitation> parse_invitation(const std::string& text);

/// Derives the link's keys for server `server` from the client's secret key, so that they are the
/// same each time.
KeyPair invitation_link(const SecretKey& client, Party server);

/// Returns four groups of four letters and digits for two people to read to each other: both have
/// the same if the client knows the right key of the server, and the server that of the client.
std::string fingerprint(const PublicKey& client, const PublicKey& server);

// ---- what is said on the link; the client asks

enum class JoinMessage : std::uint16_t {
  greet = 1,  // asks for the server's public key
  peers = 2,  // tells all servers of the volume
};
inline QuestionType question_of(JoinMessage type) { return {static_cast<std::uint16_t>(type)}; }

struct GreetAnswer {
  PublicKey key{};
  template <class Archive>
  void fields(Archive& archive) {
    archive(key);
  }
};

/// "N=HOST:PORT,KEY" of each server, as the servers' files have them.
struct PeersRequest {
  std::vector<ByteSpan> servers;
  template <class Archive>
  void fields(Archive& archive) {
    archive(servers);
  }
};

}  // namespace s3oram
