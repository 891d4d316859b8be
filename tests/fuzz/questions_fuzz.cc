// Servers that get the requests in the input, from the client, from each other and from nobody.
// They keep running, and the client that comes afterwards finds every block.
//
//   volume 1, then requests: from 1, to 1, type 1, length 1, body; before the body comes the epoch
//   of the session if `from` has its top bit set
#include <spdlog/spdlog.h>

#include "oramcore/protocol/messages.h"
#include "tests/fuzz/fuzzed_volume.h"
#include "tests/fuzz/input.h"

namespace s3oram::fuzz {
namespace {

constexpr std::size_t kMostQuestions = 16;

constexpr std::uint64_t kEpoch = 1;  // epoch of a volume that was opened once

// Sends one request. Returns whether the client sent it.
bool ask(test::Cluster& cluster, Input& input, std::uint64_t number) {
  const std::uint8_t who = input.byte();
  const auto from = static_cast<Party>((who & 0x7f) % (cluster.servers() + 2));  // one is nobody's
  const auto to = static_cast<Party>(1 + input.byte() % cluster.servers());
  const std::uint8_t type = input.byte();
  const ByteSpan body = input.bytes(input.byte());
  if (from == to) return false;
  Writer writer(Rpc::kHeaderSize);
  if (who & 0x80) writer(kEpoch);
  Bytes message = writer.take();
  message.insert(message.end(), body.begin(), body.end());
  message[0] = static_cast<std::uint8_t>(MessageKind::question);
  message[1] = Rpc::kWireVersion;
  message[2] = type;
  std::memcpy(message.data() + 8, &number, sizeof number);
  cluster.inject(from, to, message);
  cluster.settle();
  return from == kClient;
}

}  // namespace
}  // namespace s3oram::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace s3oram;
  using namespace s3oram::fuzz;
  spdlog::set_level(spdlog::level::off);
  Input input(data, size);
  FuzzedVolume volume(input.byte());
  volume.fill();
  volume.cluster().kill_client();
  bool client_asked = false;
  for (std::size_t i = 0; i < kMostQuestions && !input.empty(); ++i)
    client_asked |= ask(volume.cluster(), input, 1'000'000 + i);
  // A request of the client itself may end its volume.
  if (!client_asked) volume.expect_all_there();
  return 0;
}
