// Draws lies, tells them in two volumes in the same way, and compares (lies.h).
#include "tests/sim/lies.h"

#include <fmt/ranges.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cctype>
#include <map>
#include <numeric>
#include <random>

#include "oramcore/protocol/repair_messages.h"
#include "tests/harness/volumes.h"
#include "tests/sim/cluster.h"
#include "tests/sim/lie.h"

namespace s3oram::test {
namespace {

constexpr BlockId kBlocks = 24, kNothing = 5000;
constexpr unsigned kMostSteps = 7;         // accesses and scrubs in a round
constexpr unsigned kMostLies = 4;          // different ones in a round
constexpr unsigned kOneInScrubs = 12;      // of the steps
constexpr unsigned kOneInLosesStore = 12;  // of the rounds
// A lie that persists may keep an access waiting for as long as it is told. It ends after
// kLiesLast, and then everything has to end within kMostWait.
constexpr Duration kLiesLast = std::chrono::minutes(4), kMostWait = std::chrono::minutes(20);
constexpr Duration kLook = Troubles::kForgotten / 6;  // between two looks at the status
// More of them in a second of simulated time are a loop without end.
constexpr unsigned kMostMessages = 50'000;
constexpr std::uint64_t kMostEvents = 20'000'000;

/// What a text says that names a server and leaves open whether that one lies.
constexpr std::array<std::string_view, 5> kLeaveOpen{
    "one of the servers is faulty or lies", "or another one, is faulty or lies",
    "or one that sent it the rows is", "or a server that sent it the rows is",
    "or was repaired from one that lies"};

/// Returns the servers that a text calls liars; none if it calls nobody one.
std::set<Party> accused(const std::string& text) {
  std::set<Party> found;
  if (text.find("lies") == std::string::npos && text.find("faulty") == std::string::npos)
    return found;
  const auto says = [&](std::string_view what) { return text.find(what) != std::string::npos; };
  if (std::ranges::any_of(kLeaveOpen, says)) return found;
  constexpr std::string_view kServer = "server";
  for (std::size_t at = text.find(kServer); at != std::string::npos; at = text.find(kServer, at)) {
    at += kServer.size();
    if (at < text.size() && text[at] == 's') ++at;
    // "server 2", "servers 1 and 3", "servers 1, 2 and 3"
    for (;;) {
      std::size_t next = at;
      for (const std::string_view between : {", ", " and ", " or ", " "})
        if (std::string_view(text).substr(at).starts_with(between)) {
          next = at + between.size();
          break;
        }
      if (next == at || next >= text.size() ||
          !std::isdigit(static_cast<unsigned char>(text[next])))
        break;
      found.insert(static_cast<Party>(text[next] - '0'));
      at = next + 1;
    }
  }
  return found;
}

/// Collects what is logged as a warning or an error while it exists, also if nothing is shown.
class LogWatch final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (message.level >= spdlog::level::warn)
      lines_.emplace_back(message.payload.data(), message.payload.size());
  }
  void flush_() override {}
  std::vector<std::string> lines_;
};

class WatchedLog {
 public:
  WatchedLog() : before_(std::exchange(spdlog::default_logger()->sinks(), {})) {
    // What would be shown still is.
    auto logger = spdlog::default_logger();
    if (logger->level() != spdlog::level::off) logger->sinks() = before_;
    level_ = logger->level();
    if (level_ > spdlog::level::warn) spdlog::set_level(spdlog::level::warn);
    logger->sinks().push_back(watch_);
  }
  ~WatchedLog() {
    spdlog::default_logger()->sinks() = before_;
    spdlog::set_level(level_);
  }
  WatchedLog(const WatchedLog&) = delete;
  WatchedLog& operator=(const WatchedLog&) = delete;
  std::vector<std::string> take() { return watch_->take(); }

 private:
  const std::vector<spdlog::sink_ptr> before_;
  const std::shared_ptr<LogWatch> watch_ = std::make_shared<LogWatch>();
  spdlog::level::level_enum level_ = spdlog::level::off;
};

/// A request of the client, as the servers see it.
struct Seen {
  Party to = 0;
  MessageType type{};
  std::size_t size = 0;
  std::int64_t write = 0;  // of a retrieval or root write: the number, from those before the round
  std::optional<SlotAddress> at = {};  // of a request about a slot
  std::optional<Leaf> leaf = {};       // of a retrieval: the bits that choose its path
  friend bool operator==(const Seen&, const Seen&) = default;
};

std::string text_of(const Seen& seen) {
  return fmt::format("type {} to {}, {} bytes, {}{}", static_cast<int>(seen.type), seen.to,
                     seen.size,
                     seen.at ? fmt::format("slot {}/{}", seen.at->bucket, seen.at->slot)
                             : fmt::format("write {}", seen.write),
                     seen.leaf ? fmt::format(", path {}", *seen.leaf) : "");
}

constexpr Leaf kAllLeaves = (Leaf{1} << kLeafBits) - 1;

/// The client's randomness, in which each number that may become a leaf has the leaf that was set.
/// So the test knows the leaf of each block, and chooses the path of an access to none.
class ScriptedLeaves final : public Random {
 public:
  ScriptedLeaves(std::uint64_t seed, unsigned twin)
      : hidden_(Seed{}, as_bytes(fmt::format("{} {}", seed, twin))) {}
  void fill(MutableByteSpan out) override {
    hidden_.fill(out);
    std::uint64_t number = 0;
    if (out.size() != sizeof number) return;
    std::memcpy(&number, out.data(), sizeof number);
    number = (number & ~kAllLeaves) | leaf;
    std::memcpy(out.data(), &number, sizeof number);
  }
  Leaf leaf = 0;

 private:
  Prg hidden_;
};

/// One volume, its liar, and what its servers see of the client.
class Life {
 public:
  /// Twins with the same seed begin alike, except for what their clients draw and never show.
  Life(const VolumeParams& params, std::uint64_t seed, unsigned twin, Party liar, WatchedLog& log)
      : cluster_(params, seed), random_(seed, twin), twin_(twin), liar_(liar), log_(log) {
    cluster_.client_random = &random_;
    Cluster::require(cluster_.open_client());
    std::mt19937_64 leaves(seed);
    for (std::uint64_t generation = 1; generation <= 2; ++generation)
      for (BlockId block = 0; block < kBlocks; ++block) write(block, leaves() & kAllLeaves);
    // A mirror has maintained the first block, which got the leaf of another one.
    write(0, leaves() & kAllLeaves);
    cluster_.settle();
    written_ = cluster_.engine().status().accesses;
    cluster_.network.observer = [this](Party from, Party to, const Bytes& message) {
      ++messages_;
      if (from == kClient && is_question(message)) note(to, message);
    };
  }

  ~Life() {
    cluster_.network.filter = {};
    cluster_.network.observer = {};
    cluster_.end();
  }

  void begin(std::vector<Lie> lies, bool loses_store) {
    spdlog::debug("---- a round; the liar {} its store", loses_store ? "loses" : "keeps");
    static_cast<void>(log_.take());
    begun_ = cluster_.clock_of(kClient).now();
    written_before_ = written_;
    lies_ = std::move(lies);
    seen_.clear();
    named_ = false;
    shape_ = {cluster_.engine().status().height, cluster_.params().bucket_size};
    if (loses_store) lose_store();
    cluster_.network.filter = [this](Party from, Party to, const Bytes& message) {
      return from != liar_ || !tell(to, message);
    };
  }
  void end() {
    cluster_.network.filter = {};
    rest();
  }
  /// Ends what the step has left to do, unless a lie hinders it.
  void finish() {
    cluster_.settle();
    if (!is_quiet()) pass(std::chrono::seconds(30));
  }
  /// Withheld messages are sent again, and requests that failed are tried again.
  void rest() {
    pass(Troubles::kForgotten);
    await([this] { return is_quiet(); }, "rest");
    cluster_.settle();
    look_who_is_named();
  }

  /// Accesses the block. It gets the leaf `drawn`. The servers see the path of its former leaf, or
  /// that of `drawn` if it is not in the tree.
  void write(BlockId block, Leaf drawn) {
    begin_access(block, drawn);
    const std::uint64_t generation = ++generation_;
    std::optional<Status> status;
    cluster_.engine().write(block, pattern(block, generation, kBlockSize),
                            [&](Status ended) { status.emplace(std::move(ended)); });
    await([&] { return status.has_value(); }, "a write");
    ++accesses;
    auto& possible = contents_[block];
    if (*status) possible.clear();
    possible.insert(generation);
    if (!*status)
      note_failed(fmt::format("a write of block {}", block), status->error(), stopped());
  }
  void read(BlockId block, Leaf drawn) {
    begin_access(block, drawn);
    std::optional<Result<Bytes>> content;
    cluster_.engine().read(block, [&](Result<Bytes> ended) { content.emplace(std::move(ended)); });
    await([&] { return content.has_value(); }, "a read");
    ++accesses;
    if (!*content)
      return note_failed(fmt::format("a read of block {}", block), content->error(), false);
    if (!may_be(block, **content)) problem(fmt::format("block {} brought wrong bytes", block));
  }
  /// Has the servers check what they hold. A server that lies may make this fail.
  void scrub() {
    std::optional<Result<Healed>> healed;
    spawn(cluster_.context.get_executor(),
          [](Engine& engine, std::optional<Result<Healed>>& out) -> Task<void> {
            out.emplace(co_await engine.scrub({}));
          }(cluster_.engine(), healed));
    await([&] { return healed.has_value(); }, "a scrub");
    if (!*healed)
      ++failed_scrubs;
    else if ((*healed)->lost > 0)
      problem(fmt::format("a scrub calls {} slots lost", (*healed)->lost));
  }
  /// Starts the client again if lies have stopped it.
  void reopen() {
    if (!stopped()) return;
    Cluster::require(cluster_.commit());
    cluster_.kill_client();
    Cluster::require(cluster_.open_client());
  }
  /// Checks what can be said when everything has been read.
  void check() {
    rest();
    if (cluster_.engine().status().unreadable > 0) problem("blocks are given up");
    const double even = static_cast<double>(leaves_[0] + leaves_[1] + leaves_[2] + leaves_[3]) / 4;
    double off = 0;  // chi-squared, with three degrees of freedom
    for (const double count : leaves_) off += (count - even) * (count - even) / even;
    if (off > 60) problem(fmt::format("the paths are not random: {}", fmt::join(leaves_, ", ")));
  }
  /// Returns the leaf whose path the last access has shown, if it asked servers for anything.
  std::optional<Leaf> shown() const { return shown_; }
  /// Returns whether an access to the block shows the path of this leaf.
  bool lies_on(BlockId block, Leaf leaf) const {
    return on_path(leaves_of_blocks_.at(block)) == on_path(leaf);
  }
  Leaf leaf_of(BlockId block) const { return leaves_of_blocks_.at(block); }
  /// The client has accessed this block, too, during the last access, and it got the same leaf.
  void maintained(BlockId block) { leaves_of_blocks_[block] = random_.leaf; }
  /// The number of root writes so far, which determines when the next eviction comes.
  WriteNumber written() const { return written_; }
  bool stopped() { return cluster_.engine().status().evictions_stopped.has_value(); }
  /// Returns whether the liar was named in this round.
  bool named() const { return named_; }
  /// Returns the client's requests since begin(), in order.
  const std::vector<Seen>& seen() const { return seen_; }

  std::string failure;
  std::uint64_t lies_told = 0, accesses = 0, failed = 0, stalls = 0, failed_scrubs = 0;

 private:
  void begin_access(BlockId block, Leaf drawn) {
    random_.leaf = drawn;
    leaves_of_blocks_[block] = drawn;
    shown_.reset();
  }
  Leaf on_path(Leaf leaf) const { return leaf & ((Leaf{1} << shape_.height) - 1); }
  void problem(std::string what) {
    if (failure.empty()) failure = std::move(what);
  }
  void note_failed(const std::string& what, const Error& error, bool allowed) {
    ++failed;
    look_at(error.message);
    if (!allowed)
      problem(fmt::format("{} failed: {} (code {})", what, error.message,
                          static_cast<int>(error.code)));
  }
  /// Returns whether no eviction is due, and all servers take part. (Or the volume has ended.)
  bool is_quiet() {
    const auto status = cluster_.engine().status();
    const bool in_step = std::ranges::all_of(
        status.servers, [](const auto& each) { return each.standing == Standing::in_step; });
    return !status.failure.empty() || status.evictions_stopped ||
           (!status.evicting && status.evictions_due == 0 && in_step);
  }
  void pass(Duration time) {
    // Timers may be all that is left to do.
    cluster_.clock.call_after(time, [] {});
    const Duration until = cluster_.clock.now() + time;
    await([&] { return cluster_.clock.now() >= until; }, "rest");
  }
  /// Waits until `done`. A lie may hinder this, but only for as long as it is told.
  void await(const std::function<bool()>& done, std::string_view what) {
    const Duration from = cluster_.clock.now();
    Duration look_at = from, second = from;
    std::uint64_t events = 0;
    messages_ = 0;
    const auto until = [&](Duration end) {
      cluster_.run_until([&] {
        const Duration now = cluster_.clock.now();
        if (now >= second + std::chrono::seconds(1)) {
          second = now;
          events = messages_ = 0;
        }
        if (messages_ > kMostMessages || ++events > kMostEvents)
          throw std::logic_error(fmt::format("{} is a loop without end", what));
        if (now >= look_at) {
          look_at = now + kLook;
          look_who_is_named();
        }
        return done() || now >= end;
      });
    };
    until(from + kLiesLast);
    if (!done()) {
      ++stalls;
      if (!cluster_.network.filter) until(from + kMostWait);
      cluster_.network.filter = {};
      until(cluster_.clock.now() + kMostWait);
    }
    if (!done()) throw std::logic_error(fmt::format("{} hangs", what));
    look_who_is_named();
  }
  /// The liar has an empty store from now on, and takes its place again.
  void lose_store() {
    Cluster::require(cluster_.commit());
    cluster_.kill_client();
    cluster_.kill_server(liar_);
    cluster_.lose(liar_);
    cluster_.start_server(liar_);
    Cluster::require(cluster_.reenrol({liar_}));
    Cluster::require(cluster_.open_client());
  }
  void look_at(const std::string& text) {
    const std::set<Party> who = accused(text);
    if (!who.empty() && !who.contains(liar_))
      problem(fmt::format("an honest server is accused: {}", text));
  }
  /// Notes whether the liar is named. It is a problem if only other servers are. Has to be called
  /// often, because the status forgets who was named (Troubles::kForgotten).
  void look_who_is_named() {
    const auto status = cluster_.engine().status();
    if (!status.failure.empty()) problem("one server ended the volume: " + status.failure);
    for (Party server = 1; server <= status.servers.size(); ++server) {
      const auto& trouble = status.servers[server - 1u].trouble;
      if (!trouble || trouble->last < begun_) continue;
      const std::string& text = trouble->error.message;
      look_at(text);
      if (server != liar_ && text.find("that server is faulty or lies") != std::string::npos)
        problem(fmt::format("server {} is called a liar, and is none: {}", server, text));
      if (!text.starts_with(fmt::format("server {} is faulty or lies", server))) continue;
      named_ |= server == liar_;
      if (server != liar_) problem(fmt::format("server {} is named, and does not lie", server));
    }
    if (status.evictions_stopped) look_at(status.evictions_stopped->message);
    for (const std::string& line : log_.take()) look_at(line);
  }
  bool may_be(BlockId block, const Bytes& content) const {
    const auto written = contents_.find(block);
    if (written == contents_.end()) return content == Bytes(kBlockSize);
    return std::ranges::any_of(written->second, [&](std::uint64_t generation) {
      return content == pattern(block, generation, kBlockSize);
    });
  }
  /// Notes each request once, however often it was sent.
  void note(Party to, const Bytes& message) {
    std::uint64_t number = 0;
    std::memcpy(&number, message.data() + 8, sizeof number);
    Seen seen{.to = to, .type = type_of_message(message), .size = message.size()};
    const ByteSpan body = ByteSpan(message).subspan(Rpc::kHeaderSize);
    if (!numbers_.emplace(to, seen.type, number).second) return;
    if (seen.type == MessageType::write_root) {
      const auto write = decode<WriteRootRequest>(body);
      written_ = std::max(written_, write->write_number + 1);
      seen.write = static_cast<std::int64_t>(write->write_number - written_before_);
    }
    if (seen.type == MessageType::retrieve) note_path(*decode<SharedRetrieveRequest>(body), seen);
    if (const auto read = decode<ReadSlotRequest>(body);
        seen.type == MessageType::read_slot && read)
      seen.at = read->at;
    if (const auto heal = decode<HealSlotRequest>(body);
        seen.type == MessageType::heal_slot && heal)
      seen.at = heal->at;
    if (seen.type == MessageType::traffic || seen.type == MessageType::room ||
        seen.type == MessageType::disk)
      return;
    spdlog::debug(
        "at {} ms, servers of life {} see {}",
        std::chrono::duration_cast<std::chrono::milliseconds>(cluster_.clock.now() - begun_)
            .count(),
        twin_, text_of(seen));
    seen_.push_back(seen);
  }
  void note_path(const SharedRetrieveRequest& retrieval, Seen& seen) {
    const bool numbered = retrieval.write_number != kNoWriteNumber;
    if (numbered) seen.write = static_cast<std::int64_t>(retrieval.write_number - written_before_);
    seen.leaf = on_path(retrieval.leaf);
    if (numbered ? !asked_.insert(retrieval.write_number).second : shown_.has_value()) return;
    shown_ = retrieval.leaf;
    // The last bits of a leaf choose the upper levels; there are more if the tree has grown.
    ++leaves_[retrieval.leaf & 3];
  }
  bool tell(Party to, const Bytes& message) {
    const auto lie =
        std::ranges::find_if(lies_, [&](const Lie& each) { return each.concerns(message, to); });
    Bytes& before = before_[{type_of_message(message), is_answer(message), to}];
    const Bytes last = std::exchange(before, message);
    if (lie == lies_.end()) return false;
    if (lie->skip > 0) {
      --lie->skip;
      return false;
    }
    if (!lie->persists()) --lie->times;
    ++lies_told;
    if (lie->kind == LieKind::withhold) return true;
    cluster_.network.deliver(liar_, to, told(*lie, shape_, last, message));
    if (lie->kind == LieKind::twice) cluster_.network.deliver(liar_, to, message);
    return true;
  }

  Cluster cluster_;
  ScriptedLeaves random_;
  const unsigned twin_;
  const Party liar_;
  WatchedLog& log_;
  std::vector<Lie> lies_;
  Shape shape_;
  Duration begun_{};
  bool named_ = false;
  std::uint64_t messages_ = 0;  // in the second under way
  std::uint64_t generation_ = 0;
  WriteNumber written_ = 0, written_before_ = 0;
  std::map<BlockId, std::set<std::uint64_t>> contents_;
  std::map<std::tuple<MessageType, bool, Party>, Bytes> before_;
  std::vector<Seen> seen_;
  std::map<BlockId, Leaf> leaves_of_blocks_;
  std::optional<Leaf> shown_;
  std::set<WriteNumber> asked_;
  std::array<std::uint64_t, 4> leaves_{};  // retrievals by the last two bits of their leaf
  std::set<std::tuple<Party, MessageType, std::uint64_t>> numbers_;
};

VolumeParams volume_of(Evictor evictor, Party servers, std::uint16_t evict_every) {
  VolumeParams params = safe_volume(evictor, evict_every);
  params.scheme = {1, servers};
  return params;
}

/// Whether each step of a round begins when the one before has ended with all that follows it, or
/// as soon as it has an answer. The order of requests that do not wait for each other is a matter
/// of the client's own speed, so then only those of one type to one server are compared in order.
enum class Steps { in_turn, overlapping };

/// Returns how the two lives differ in what servers see of them; empty if they do not.
std::string difference(const Life& one, const Life& other, Steps steps) {
  std::vector<Seen> here = one.seen(), there = other.seen();
  if (steps == Steps::overlapping)
    for (auto* all : {&here, &there}) {
      // How many root writes have ended when a path is asked for is a matter of time, too.
      for (Seen& each : *all)
        if (each.type == MessageType::retrieve) each.size = 0;
      std::ranges::stable_sort(
          *all, {}, [](const Seen& each) { return std::tuple(each.to, each.type, each.at); });
    }
  const auto [first, second] = std::ranges::mismatch(here, there);
  if (first == here.end() && second == there.end()) return {};
  const auto next = [](const std::vector<Seen>& all, auto from) {
    constexpr std::ptrdiff_t kShown = 6;
    std::string text;
    for (const auto end = from + std::min(kShown, all.end() - from); from != end; ++from)
      text += text_of(*from) + "; ";
    return text;
  };
  return fmt::format("servers see which life it is: request {} is\n  {}\n  {}\n",
                     first - here.begin(), next(here, first), next(there, second));
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
  /// Returns a block if some path leads to it and to a block of the other choice; or else any.
  BlockId block_beside(const Life& life, const Choice& other, const Life& others) {
    for (std::size_t i = taken_; i < blocks_.size(); ++i) {
      const Leaf leaf = life.leaf_of(blocks_[i]);
      if (!other.has_on(others, leaf)) continue;
      std::swap(blocks_[taken_], blocks_[i]);
      break;
    }
    return block();
  }
  /// Returns a block that lies on the path, if there is one.
  std::optional<BlockId> block_on(const Life& life, Leaf leaf) {
    const auto found = find_on(life, leaf);
    if (found == blocks_.end()) return std::nullopt;
    std::swap(blocks_[taken_], blocks_[static_cast<std::size_t>(found - blocks_.begin())]);
    return block();
  }
  BlockId nothing() { return kNothing + nothing_++; }

 private:
  bool has_on(const Life& life, Leaf leaf) const { return find_on(life, leaf) != blocks_.end(); }
  std::array<BlockId, kBlocks>::const_iterator find_on(const Life& life, Leaf leaf) const {
    return std::find_if(blocks_.begin() + static_cast<std::ptrdiff_t>(taken_), blocks_.end(),
                        [&](BlockId block) { return life.lies_on(block, leaf); });
  }

  std::array<BlockId, kBlocks> blocks_{};
  std::size_t taken_ = 0, nothing_ = 0;
};

/// Two lives whose servers see the same paths. Which paths is public, and decides which damage an
/// access meets. So the second life always accesses a block that lies on the path that the first
/// life has shown, or none.
class Twins {
 public:
  Twins(std::uint64_t seed, unsigned rounds, Evictor evictor, Party servers,
        std::function<bool()> go_on)
      : random_(seed),
        rounds_(rounds),
        go_on_(std::move(go_on)),
        params_(volume_of(evictor, servers, static_cast<std::uint16_t>(3 + below(3)))),
        liar_(static_cast<Party>(1 + below(servers))) {
    begin_lives(seed);
  }

  LiesReport live() {
    for (bool last = false; !last && report_.failure.empty(); ++report_.rounds) {
      last = report_.rounds + 1 >= rounds_ || !go_on_();
      std::vector<Lie> lies(1 + below(kMostLies));
      for (Lie& lie : lies) lie = draw_lie(random_, params_);
      try {
        live_through(lies, last);
      } catch (const std::exception& error) {
        report_.failure = error.what();
        // Coroutines that still wait refer to frames that are gone, so they are never destroyed.
        static_cast<void>(one_.release()), static_cast<void>(other_.release());
      }
      if (!report_.failure.empty())
        report_.failure +=
            fmt::format(" (round {}, server {} {}lies{})", report_.rounds, liar_,
                        loses_store_ ? "loses its store and " : "", description_of(lies));
    }
    return report_;
  }

 private:
  std::uint64_t below(std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_);
  }
  Leaf leaf() { return random_() & kAllLeaves; }

  void begin_lives(std::uint64_t seed) {
    one_ = std::make_unique<Life>(params_, seed, 1, liar_, log_);
    other_ = std::make_unique<Life>(params_, seed, 2, liar_, log_);
  }
  void live_through(const std::vector<Lie>& lies, bool last) {
    loses_store_ = below(kOneInLosesStore) == 0;
    reach_maintenance(2 * kMostSteps);
    one_->begin(lies, loses_store_);
    other_->begin(lies, loses_store_);
    const Steps steps = below(2) == 0 ? Steps::in_turn : Steps::overlapping;
    same_kinds_ = true;
    Choice one(random_), other(random_);
    for (std::uint64_t i = 2 + below(kMostSteps - 1); i > 0; --i) {
      if ((loses_store_ && i == 2) || below(kOneInScrubs) == 0) {
        one_->scrub();
        other_->scrub();
      } else {
        access(one, other);
      }
      if (steps == Steps::overlapping) continue;
      one_->finish();
      other_->finish();
    }
    one_->end();
    other_->end();
    report_.named += one_->named() || other_->named();
    report_.stopped += one_->stopped();
    const bool ended = one_->stopped() || other_->stopped();
    if (same_kinds_) report_.failure = difference(*one_, *other_, steps);
    if (ended || report_.rounds % 16 == 15 || last) check(ended);
    for (const Life* life : {one_.get(), other_.get()})
      if (!life->failure.empty()) report_.failure = life->failure;
    count();
    if (ended && report_.failure.empty()) {
      // The blocks that were read meanwhile are in the stash, different ones in each life.
      past_ = report_;
      begin_lives(random_());
    }
  }
  /// A write returns later than a read, so the next access begins later. It may also end a lie that
  /// lasts. Therefore both lives read, or both write.
  void access(Choice& one, Choice& other) {
    const Leaf drawn = leaf();
    const bool writes = below(2) == 0;
    const BlockId first = one.block_beside(*one_, other, *other_);
    if (writes)
      one_->write(first, drawn);
    else
      one_->read(first, drawn);
    const Leaf shown = one_->shown().value_or(drawn);
    std::optional<BlockId> block;
    if (writes || below(3) > 0) block = other.block_on(*other_, shown);
    if (!block)
      other_->read(other.nothing(), shown);
    else if (writes)
      other_->write(*block, shown);
    else
      other_->read(*block, shown);
    same_kinds_ &= block || !writes;
  }
  /// Reads everything, in both lives along the same paths unless that no longer matters.
  void check(bool ended) {
    for (Life* life : {one_.get(), other_.get()}) {
      life->begin({}, false);
      life->reopen();
    }
    if (ended)
      for (Life* life : {one_.get(), other_.get()})
        for (BlockId block = 0; block < kBlocks; ++block) life->read(block, leaf());
    else
      read_everything();
    one_->check();
    other_->check();
    if (!ended && report_.failure.empty())
      report_.failure = difference(*one_, *other_, Steps::overlapping);
  }
  void read_everything() {
    std::vector<BlockId> left(kBlocks);
    std::iota(left.begin(), left.end(), BlockId{0});
    for (BlockId block = 0; block < kBlocks; ++block) {
      reach_maintenance(1);
      const Leaf drawn = leaf();
      one_->read(block, drawn);
      const Leaf shown = one_->shown().value_or(drawn);
      const auto found =
          std::ranges::find_if(left, [&](BlockId each) { return other_->lies_on(each, shown); });
      other_->read(found == left.end() ? kNothing : *found, shown);
      if (found != left.end()) left.erase(found);
    }
    for (const BlockId block : left) {
      reach_maintenance(1);
      read_one(*other_, block, leaf(), *one_);
    }
  }
  /// One life reads the block, and the other one reads nothing along the same path.
  static void read_one(Life& life, BlockId block, Leaf drawn, Life& other) {
    life.read(block, drawn);
    other.read(kNothing, life.shown().value_or(drawn));
    life.finish();
    other.finish();
  }
  /// Lets a mirror maintain a block now if it would do so within so many accesses. It chooses the
  /// same block in both lives, so that gets the same leaf in both before.
  void reach_maintenance(WriteNumber accesses) {
    const WriteNumber every = params_.maintain_every();
    if (every == 0) return;
    one_->finish();
    other_->finish();
    const WriteNumber sweep = one_->written() / every;
    if (one_->written() % every + accesses + 2 < every - 1) return;
    const BlockId block = sweep % kBlocks;
    const Leaf same = leaf();
    read_one(*one_, block, same, *other_);
    read_one(*other_, block, same, *one_);
    while (one_->written() / every == sweep) read_one(*one_, kNothing, leaf(), *other_);
    one_->maintained(block);
    other_->maintained(block);
  }
  void count() {
    report_.lies = past_.lies + one_->lies_told + other_->lies_told;
    report_.accesses = past_.accesses + one_->accesses + other_->accesses;
    report_.failed = past_.failed + one_->failed + other_->failed;
    report_.stalls = past_.stalls + one_->stalls + other_->stalls;
  }

  std::mt19937_64 random_;
  const unsigned rounds_;
  const std::function<bool()> go_on_;
  const VolumeParams params_;
  const Party liar_;
  WatchedLog log_;
  // Of the round under way:
  bool loses_store_ = false, same_kinds_ = true;
  std::unique_ptr<Life> one_, other_;
  LiesReport report_, past_;  // past_: of lives that have ended
};

}  // namespace

LiesReport live_with_lies(std::uint64_t seed, unsigned rounds, Evictor evictor, Party servers,
                          std::function<bool()> go_on) {
  return Twins(seed, rounds, evictor, servers, std::move(go_on)).live();
}

}  // namespace s3oram::test
