// A client, one of whose servers changes its answers as the input says: in accesses, evictions,
// scrubs, openings and restores. No read returns wrong content, and once the server is honest
// again, nothing is lost.
//
//   volume 1, liar 1, then steps of two bytes: what, argument; a lie has four bytes more
#include <spdlog/spdlog.h>

#include <deque>

#include "oramcore/protocol/messages.h"
#include "tests/fuzz/fuzzed_volume.h"
#include "tests/fuzz/input.h"

namespace s3oram::fuzz {
namespace {

constexpr std::size_t kMostSteps = 24;

struct Lie {
  std::uint8_t after = 0;  // the number of answers that are left alone first
  std::uint8_t kind = 0;
  std::uint16_t offset = 0;
  std::uint8_t value = 0;
};

class Liar {
 public:
  Liar(test::Cluster& cluster, Party server) : cluster_(cluster) {
    cluster_.network.filter = [this, server](Party from, Party to, const Bytes& message) {
      if (from != server || to != kClient || !is_answer(message)) return true;
      if (lies_.empty() || lies_.front().after-- > 0) return true;
      Bytes changed = change(message, lies_.front());
      lies_.pop_front();
      cluster_.network.deliver(from, to, std::move(changed));
      return false;
    };
  }
  void plan(const Lie& lie) { lies_.push_back(lie); }
  void tell_the_truth() { cluster_.network.filter = {}; }

 private:
  /// Returns `message` with the lie in it. Anything except the number of the request may change.
  static Bytes change(const Bytes& message, const Lie& lie) {
    Bytes changed = message;
    const std::size_t body = changed.size() - Rpc::kHeaderSize;
    switch (lie.kind % 5) {
      case 0:
        if (body != 0) changed[Rpc::kHeaderSize + lie.offset % body] ^= lie.value;
        break;
      case 1:
        changed.resize(Rpc::kHeaderSize + (body == 0 ? 0 : lie.offset % body));
        break;
      case 2:  // an error with a text
        changed[4] = lie.value;
        changed.resize(Rpc::kHeaderSize + std::min<std::size_t>(body, lie.offset));
        break;
      case 3:
        std::fill(changed.begin() + Rpc::kHeaderSize, changed.end(), lie.value);
        break;
      default:  // a number of eight bytes
        for (std::size_t i = 0; i < 8 && body > 8; ++i)
          changed[Rpc::kHeaderSize + lie.offset % (body - 8) + i] = i == 0 ? lie.value : 0;
    }
    return changed;
  }

  test::Cluster& cluster_;
  std::deque<Lie> lies_;
};

void rebuild(FuzzedVolume& volume) {
  test::Cluster& cluster = volume.cluster();
  if (cluster.runs(kClient)) cluster.kill_client();
  cluster.lose_client();
  while (!cluster.rebuild_client()) {
    cluster.network.filter = {};  // without lies the step succeeds
    cluster.lose_client();
  }
  static_cast<void>(cluster.open_client());
}

void scrub(test::Cluster& cluster) {
  if (cluster.runs(kClient)) static_cast<void>(cluster.run(cluster.engine().scrub({})));
}

void step(FuzzedVolume& volume, Liar& liar, Input& input) {
  const std::uint8_t what = input.byte();
  const std::uint8_t argument = input.byte();
  const BlockId block = argument % FuzzedVolume::kBlocks;
  switch (what % 8) {
    case 0:
      return volume.write(block);
    case 1:
      return volume.read(block);
    case 2:
      return scrub(volume.cluster());
    case 3:
      static_cast<void>(volume.reopen());
      return;
    case 4:
      return rebuild(volume);
    default:
      liar.plan({argument, input.byte(), input.u16(), input.byte()});
  }
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
  const auto server = static_cast<Party>(1 + input.byte() % volume.cluster().servers());
  Liar liar(volume.cluster(), server);
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) step(volume, liar, input);
  liar.tell_the_truth();
  volume.expect_all_there();
  return 0;
}
