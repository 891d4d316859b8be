// Asks other servers for a sign of life.
#include "serverd/oram/peer_lines.h"

namespace s3oram {
namespace {

/// Any answer is a sign of life, also that of an older server, which does not know the question;
/// and so is any other message, because the answer may wait behind it.
Task<PeerLine> line_to(ServerState& state, Party peer) {
  const Duration asked = state.clock.now();
  const auto answer = co_await state.rpc.call(peer, LinesRequest::kType, encode(LinesRequest{}),
                                              LinesAnswer::kWithin);
  const auto heard = state.rpc.last_received(peer);
  const bool answered = answer || answer.error().code != Errc::unreachable;
  const bool silent = !answered && (!heard || *heard < asked);
  co_return PeerLine{peer, silent ? Hearing::silent : Hearing::heard};
}

}  // namespace

Task<Result<Bytes>> peer_lines(ServerState& state, Party from) {
  if (from != kClient) co_return encode(LinesAnswer{});
  std::vector<Task<PeerLine>> asking;
  const Party servers = state.control.volume() ? state.params().scheme.servers : Party{0};
  for (Party peer = 1; peer <= servers; ++peer)
    if (peer != state.self) asking.push_back(line_to(state, peer));
  LinesAnswer answer;
  answer.peers = co_await all(std::move(asking));
  co_return encode(answer);
}

}  // namespace s3oram
