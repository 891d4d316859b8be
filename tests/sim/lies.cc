// Draws lies, tells them in two volumes in the same way, and compares (lies.h).
#include "tests/sim/lies.h"

#include <fmt/ranges.h>

#include <map>
#include <numeric>
#include <random>

#include "oramcore/net/rpc.h"
#include "oramcore/protocol/repair_messages.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"

namespace s3oram::test {
namespace {

constexpr BlockId kBlocks = 24, kNothing = 5000;
constexpr unsigned kMostAccesses = 7;  // accesses in a round

enum class Kind { flip, cut, extend, zeros, noise, error, replay, withhold, twice, count };
constexpr std::array kErrors{Errc::bad_request,  Errc::unsupported,   Errc::corrupt,
                             Errc::failed,       Errc::fenced,        Errc::stale_vault,
                             Errc::need_open,    Errc::former_view,   Errc::disk_full,
                             Errc::wrong_volume, Errc::damaged_vault, Errc::servers_disagree};

/// A lie: what it changes, and how. It is the same in both volumes.
struct Lie {
  MessageType type{};
  bool answer = true, to_client = true;
  Kind kind = Kind::flip;
  Errc code = Errc::failed;
  unsigned skip = 0, times = 1;  // messages of that type
  double place = 0;              // place in the message's body, from 0 to 1
  std::uint8_t bits = 1;
  std::uint64_t seed = 0;
};

MessageType type_of(const Bytes& message) { return static_cast<MessageType>(message[2]); }

/// The messages that a server may send, and to whom.
struct Target {
  MessageType type;
  bool answer, to_client;
};
constexpr Target kTargets[] = {
    {MessageType::retrieve, true, true},      {MessageType::write_root, true, true},
    {MessageType::prepare, true, true},       {MessageType::commit, true, true},
    {MessageType::release, true, true},       {MessageType::discard, true, true},
    {MessageType::read_slot, true, true},     {MessageType::damage, true, true},
    {MessageType::digests, true, true},       {MessageType::heal_slot, true, true},
    {MessageType::open, true, true},          {MessageType::masked_share, false, false},
    {MessageType::masked_share, true, false}, {MessageType::relay, false, false},
    {MessageType::relay, true, false},        {MessageType::subshare, false, false},
    {MessageType::subshare, true, false},     {MessageType::mark_prepared, true, true},
    {MessageType::certify, true, true},  // for mirrors
};

/// One volume, its liar, and what its servers see of the client.
class Life {
 public:
  Life(const VolumeParams& params, std::uint64_t seed, Party liar)
      : cluster_(params, seed), liar_(liar) {
    Cluster::require(cluster_.open_client());
    for (std::uint64_t generation = 1; generation <= 2; ++generation)
      for (BlockId block = 0; block < kBlocks; ++block) write(block);
    cluster_.settle();
    cluster_.network.observer = [this](Party from, Party to, const Bytes& message) {
      if (from == kClient && is_question(message)) note(to, message);
    };
  }

  ~Life() {
    cluster_.network.filter = {};
    cluster_.network.observer = {};
    cluster_.end();
  }

  void begin(std::vector<Lie> lies) {
    lies_ = std::move(lies);
    seen_.clear();
    named_ = false;
    begun_ = cluster_.clock_of(kClient).now();
    cluster_.network.filter = [this](Party from, Party to, const Bytes& message) {
      return from != liar_ || !tell(to, message);
    };
  }
  void end() {
    cluster_.network.filter = {};
    rest();
  }
  /// Withheld messages are sent again, and requests that failed are tried again.
  void rest() {
    constexpr Duration kLook = Troubles::kForgotten / 6;
    for (Duration passed{}; passed < Troubles::kForgotten; passed += kLook) {
      const Duration until = cluster_.clock_of(kClient).now() + kLook;
      cluster_.clock_of(kClient).call_after(kLook, [] {});
      cluster_.run_until([&] { return cluster_.clock_of(kClient).now() >= until; });
      look_who_is_named();
    }
    cluster_.run_until([this] {
      const auto status = cluster_.engine().status();
      const bool in_step = std::ranges::all_of(
          status.servers, [](const auto& each) { return each.standing == Standing::in_step; });
      return status.evictions_stopped || (!status.evicting && status.evictions_due == 0 && in_step);
    });
    cluster_.settle();
    look_who_is_named();
  }

  void write(BlockId block) {
    const std::uint64_t generation = ++generation_;
    const auto status = cluster_.write(block, pattern(block, generation, kBlockSize));
    ++accesses;
    auto& possible = contents_[block];
    if (status) possible.clear();
    if (!status) ++failed;
    possible.insert(generation);
    look_who_is_named();
  }
  void read(BlockId block) {
    const auto content = cluster_.read(block);
    ++accesses;
    look_who_is_named();
    if (!content) {
      ++failed;
      return;
    }
    if (!may_be(block, *content)) problem(fmt::format("block {} brought wrong bytes", block));
  }
  /// Checks that everything that was written is there. Starts the client again if lies have stopped
  /// it.
  void check() {
    const auto status = cluster_.engine().status();
    if (!status.failure.empty()) problem("one server ended the volume: " + status.failure);
    if (status.evictions_stopped) {
      Cluster::require(cluster_.commit());
      cluster_.kill_client();
      Cluster::require(cluster_.open_client());
    }
    for (const auto& [block, possible] : contents_) {
      const auto content = cluster_.read(block);
      if (!content)
        problem(fmt::format("block {} is lost: {}", block, content.error().message));
      else if (!may_be(block, *content))
        problem(fmt::format("block {} has wrong bytes", block));
    }
    if (cluster_.engine().status().unreadable > 0) problem("blocks are given up");
    rest();
  }
  /// The number of root writes so far, which determines when the next eviction comes.
  WriteNumber written() const { return written_; }
  bool stopped() { return cluster_.engine().status().evictions_stopped.has_value(); }
  /// Returns whether the liar was named in this round.
  bool named() const { return named_; }
  /// Returns the client's requests since begin(), by size, and how many of each there were.
  const std::map<std::tuple<Party, MessageType, std::size_t>, unsigned>& seen() const {
    return seen_;
  }

  std::string failure;
  std::uint64_t lies_told = 0, accesses = 0, failed = 0;

 private:
  void problem(std::string what) {
    if (failure.empty()) failure = std::move(what);
  }
  /// Notes whether the liar is named. It is a problem if another server is. Has to be called often,
  /// because the status forgets who was named (Troubles::kForgotten).
  void look_who_is_named() {
    const auto servers = cluster_.engine().status().servers;
    for (Party server = 1; server <= servers.size(); ++server) {
      const auto& trouble = servers[server - 1u].trouble;
      if (!trouble || trouble->last < begun_) continue;
      const std::string& text = trouble->error.message;
      if (!text.starts_with(fmt::format("server {} is faulty or lies", server))) continue;
      named_ |= server == liar_;
      if (server != liar_) problem(fmt::format("server {} is named, and does not lie", server));
    }
  }
  bool may_be(BlockId block, const Bytes& content) const {
    const auto written = contents_.find(block);
    if (written == contents_.end()) return content == Bytes(kBlockSize);
    return std::ranges::any_of(written->second, [&](std::uint64_t generation) {
      return content == pattern(block, generation, kBlockSize);
    });
  }
  /// Counts each request once, however often it was sent. Retrievals are left out: a query is as
  /// long as the path, and so depends on how many writes have ended, which is a matter of time.
  void note(Party to, const Bytes& message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.data() + 8, sizeof number);
    // The number of slots in the root that are read depends on the same.
    if (const auto read = decode<ReadSlotRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
        type_of(message) == MessageType::read_slot && read && read->at.bucket == kRoot)
      return;
    // If an answer is late, a root write may be sent again as a whole.
    if (const auto write = decode<WriteRootRequest>(ByteSpan(message).subspan(Rpc::kHeaderSize));
        type_of(message) == MessageType::write_root && write) {
      number = write->write_number;
      written_ = std::max(written_, number + 1);
    }
    const bool any_size =
        type_of(message) == MessageType::retrieve || type_of(message) == MessageType::write_root;
    if (type_of(message) == MessageType::traffic || type_of(message) == MessageType::room ||
        type_of(message) == MessageType::disk ||
        !numbers_.emplace(to, type_of(message), number).second)
      return;
    ++seen_[{to, type_of(message), any_size ? 0 : message.size()}];
  }
  bool tell(Party to, const Bytes& message) {
    const bool answer = is_answer(message);
    const auto lie = std::ranges::find_if(lies_, [&](const Lie& each) {
      return each.times > 0 && each.type == type_of(message) && each.answer == answer &&
             each.to_client == (to == kClient);
    });
    Bytes& before = before_[{type_of(message), answer, to}];
    const Bytes last = std::exchange(before, message);
    if (lie == lies_.end()) return false;
    if (lie->skip > 0) {
      --lie->skip;
      return false;
    }
    --lie->times;
    ++lies_told;
    Bytes changed = message;
    change(*lie, last, changed);
    if (lie->kind == Kind::withhold) return true;
    cluster_.network.deliver(liar_, to, changed);
    if (lie->kind == Kind::twice) cluster_.network.deliver(liar_, to, message);
    return true;
  }
  static void change(const Lie& lie, const Bytes& last, Bytes& message) {
    const std::size_t body = message.size() - Rpc::kHeaderSize;
    const auto at =
        Rpc::kHeaderSize + static_cast<std::size_t>(lie.place * static_cast<double>(body));
    Prg noise(Seed{}, as_bytes(std::to_string(lie.seed)));
    switch (lie.kind) {
      case Kind::flip:
        if (body > 0) message[at] ^= lie.bits;
        break;
      case Kind::cut:
        message.resize(at);
        break;
      case Kind::extend:
        message.insert(message.end(), 1 + lie.bits, lie.bits);
        break;
      case Kind::zeros:
        std::fill(message.begin() + static_cast<std::ptrdiff_t>(at), message.end(), 0);
        break;
      case Kind::noise:
        noise.fill(MutableByteSpan(message).subspan(at));
        break;
      case Kind::replay:
        if (last.size() <= Rpc::kHeaderSize) break;
        message.resize(Rpc::kHeaderSize);
        message.insert(message.end(), last.begin() + Rpc::kHeaderSize, last.end());
        break;
      case Kind::error:
        if (!lie.answer) break;
        message.resize(Rpc::kHeaderSize);
        message[4] = static_cast<std::uint8_t>(lie.code);
        message[5] = 0;
        break;
      default:
        break;
    }
  }

  Cluster cluster_;
  const Party liar_;
  std::vector<Lie> lies_;
  Duration begun_{};
  bool named_ = false;
  std::uint64_t generation_ = 0;
  WriteNumber written_ = 0;
  std::map<BlockId, std::set<std::uint64_t>> contents_;
  std::map<std::tuple<MessageType, bool, Party>, Bytes> before_;
  std::map<std::tuple<Party, MessageType, std::size_t>, unsigned> seen_;
  std::set<std::tuple<Party, MessageType, std::uint64_t>> numbers_;
};

VolumeParams volume_of(Evictor evictor, std::uint16_t evict_every) {
  VolumeParams params = safe_volume(evictor, evict_every);
  params.scheme = {1, 3};
  return params;
}

Lie draw_lie(std::mt19937_64& random, bool is_mirror) {
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const Target& target = kTargets[below(std::size(kTargets) - (is_mirror ? 0 : 1))];
  return {.type = target.type,
          .answer = target.answer,
          .to_client = target.to_client,
          .kind = static_cast<Kind>(below(static_cast<std::size_t>(Kind::count))),
          .code = kErrors[below(kErrors.size())],
          .skip = static_cast<unsigned>(below(4)),
          .times = static_cast<unsigned>(1 + below(below(4) == 0 ? 12 : 3)),
          .place = std::uniform_real_distribution<>(0, 1)(random),
          .bits = static_cast<std::uint8_t>(1 + below(255)),
          .seed = random()};
}

std::string difference(const Life& one, const Life& other) {
  for (const auto& [what, times] : one.seen()) {
    const auto found = other.seen().find(what);
    const unsigned there = found == other.seen().end() ? 0 : found->second;
    if (there != times)
      return fmt::format(
          "servers see which life it is: {} and {} questions of type {} and {} bytes "
          "to server {}",
          times, there, static_cast<int>(std::get<1>(what)), std::get<2>(what), std::get<0>(what));
  }
  return {};
}

}  // namespace

namespace {

std::string told(const std::vector<Lie>& lies) {
  std::string text;
  for (const Lie& lie : lies)
    text += fmt::format("; type {} {} {}, kind {}, code {}, {} after {}, place {:.3f}",
                        static_cast<int>(lie.type), lie.answer ? "answer" : "question",
                        lie.to_client ? "to the client" : "to a peer", static_cast<int>(lie.kind),
                        static_cast<int>(lie.code), lie.times, lie.skip, lie.place);
  return text;
}

/// Returns the blocks that one life accesses in a round. Each occurs once, because a second access
/// waits for the first, and servers may see that (docs/leakage.md).
class Choice {
 public:
  explicit Choice(std::mt19937_64& random) {
    std::iota(blocks_.begin(), blocks_.end(), BlockId{0});
    std::ranges::shuffle(blocks_, random);
  }
  BlockId block() { return blocks_[taken_++]; }
  BlockId nothing() { return kNothing + taken_++; }

 private:
  std::array<BlockId, kBlocks> blocks_{};
  std::size_t taken_ = 0;
};

class Twins {
 public:
  Twins(std::uint64_t seed, unsigned rounds, Evictor evictor, std::function<bool()> go_on)
      : random_(seed),
        rounds_(rounds),
        go_on_(std::move(go_on)),
        params_(volume_of(evictor, static_cast<std::uint16_t>(3 + below(3)))),
        liar_(static_cast<Party>(1 + below(3))),
        one_(std::make_unique<Life>(params_, seed, liar_)),
        other_(std::make_unique<Life>(params_, seed, liar_)) {}

  LiesReport live() {
    for (bool last = false; !last && report_.failure.empty(); ++report_.rounds) {
      last = report_.rounds + 1 >= rounds_ || !go_on_();
      std::vector<Lie> lies(1 + below(2));
      for (Lie& lie : lies) lie = draw_lie(random_, params_.is_mirror());
      try {
        live_through(lies, last);
      } catch (const std::exception& error) {
        report_.failure = error.what();
        // Coroutines that still wait refer to frames that are gone, so they are never destroyed.
        static_cast<void>(one_.release()), static_cast<void>(other_.release());
      }
      if (!report_.failure.empty())
        report_.failure +=
            fmt::format(" (round {}, server {} lies{})", report_.rounds, liar_, told(lies));
    }
    return report_;
  }

 private:
  std::uint64_t below(std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_);
  }
  void live_through(const std::vector<Lie>& lies, bool last) {
    one_->begin(lies);
    other_->begin(lies);
    Choice one(random_), other(random_);
    for (std::uint64_t i = 2 + below(kMostAccesses - 1); i > 0; --i) {
      if (below(2) == 0) {
        one_->write(one.block());
        other_->write(other.block());
      } else {
        one_->read(one.block());
        other_->read(below(3) == 0 ? other.nothing() : other.block());
      }
    }
    one_->end();
    other_->end();
    const bool named = one_->named(), named_too = other_->named();
    report_.named += named || named_too;
    report_.stopped += one_->stopped();
    report_.failure = difference(*one_, *other_);
    if (report_.failure.empty()) report_.failure = difference(*other_, *one_);
    const bool ended = one_->stopped() || other_->stopped();
    if (ended || report_.rounds % 16 == 15 || last) {
      one_->check();
      other_->check();
      // Blocks that were read while evictions had stopped return to the tree. Dummy reads do not.
      while (one_->written() % params_.evict_every != other_->written() % params_.evict_every)
        other_->read(kNothing);
      other_->rest();
    }
    for (const Life* life : {one_.get(), other_.get()})
      if (!life->failure.empty()) report_.failure = life->failure;
    report_.lies = one_->lies_told + other_->lies_told;
    report_.accesses = one_->accesses + other_->accesses;
    report_.failed = one_->failed + other_->failed;
  }

  std::mt19937_64 random_;
  const unsigned rounds_;
  const std::function<bool()> go_on_;
  const VolumeParams params_;
  const Party liar_;
  std::unique_ptr<Life> one_, other_;
  LiesReport report_;
};

}  // namespace

LiesReport live_with_lies(std::uint64_t seed, unsigned rounds, Evictor evictor,
                          std::function<bool()> go_on) {
  return Twins(seed, rounds, evictor, std::move(go_on)).live();
}

}  // namespace s3oram::test
