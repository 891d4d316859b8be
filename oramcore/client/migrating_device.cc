// Serves requests with one engine, or with the two engines of a migration, and copies blocks from
// one to the other.
#include "oramcore/client/migrating_device.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

namespace s3oram {
namespace {

constexpr std::size_t kCopiers = 4;
/// The largest number of copies begun by reads; further reads leave their blocks at the source.
constexpr std::size_t kMostCopiesOfReads = 16;
constexpr Duration kNap = std::chrono::milliseconds(100);       // a sleep checks this often
constexpr Duration kLookAfter = std::chrono::seconds(1);        // when no block can be copied
constexpr Duration kRetryCopyAfter = std::chrono::seconds(10);  // pause after a failed copy
constexpr Duration kRereadAfter = std::chrono::seconds(60);     // a block that could not be read

/// Passes a value from a callback of an engine to a coroutine of the same executor.
template <class T>
class Answer {
 public:
  void set(T value) {
    value_.emplace(std::move(value));
    arrived_.notify_all();
  }
  Task<T> get() {
    while (!value_) co_await arrived_.wait();
    co_return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  Event arrived_;
};

}  // namespace

/// Marks a use of the engines; pause() waits until there is none.
class MigratingDevice::InUse {
 public:
  explicit InUse(MigratingDevice& device) : device_(device) { ++device_.in_use_; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse() {
    if (--device_.in_use_ == 0) device_.changed_.notify_all();
  }

 private:
  MigratingDevice& device_;
};

MigratingDevice::MigratingDevice(Executor executor, Clock& clock, std::uint32_t block_size)
    : QueuedDevice(executor),
      executor_(std::move(executor)),
      clock_(clock),
      block_size_(block_size) {}

// ---- engines

void MigratingDevice::use(VolumeEngine* volume, VolumeEngine* source) {
  const std::lock_guard lock(mutex_);
  if (volume_) last_room_ = room_now();
  volume_ = volume;
  source_ = source;
  if (volume_) volume_->set_participant(participant_);
}

void MigratingDevice::serve(VolumeEngine& volume) {
  auto mapped = volume.mapped();
  if (!given_mapped_) mapped_ = std::move(mapped);
  use(&volume, nullptr);
  go_on();
}

void MigratingDevice::serve(VolumeEngine& volume, VolumeEngine& source, std::uint64_t rate) {
  const auto here = volume.mapped(), there = source.mapped();
  std::vector<BlockId> left, all;
  std::ranges::set_difference(there, here, std::back_inserter(left));
  std::ranges::set_union(there, here, std::back_inserter(all));
  at_source_ = {};
  for (const BlockId block : left) at_source_.insert(block);
  left_ = at_source_.size();
  if (!given_mapped_) mapped_ = std::move(all);
  use(&volume, &source);
  set_rate(rate);
  go_on();
}

void MigratingDevice::go_on() {
  held_ = false;
  for (const BlockId block : std::exchange(discarded_, {})) forget(block);
  kept_ = 0;
  changed_.notify_all();
  start_copiers();
}

void MigratingDevice::begin_copying() {
  wants_copies_ = true;
  start_copiers();
}

void MigratingDevice::stop_copying() { wants_copies_ = copying_ = false; }

void MigratingDevice::start_copiers() {
  if (!wants_copies_ || !source_ || held_ || closed_ || std::exchange(copying_, true)) return;
  begin_average();
  next_copy_ = clock_.now();
  // If no block is left, each copier ends within start().
  for (std::size_t number = copiers_; number < kCopiers; ++number) {
    ++copiers_;
    start(copy_all());
  }
}

void MigratingDevice::begin_average() {
  copied_ = 0;
  copying_since_ = clock_.now();
}

void MigratingDevice::set_rate(std::uint64_t rate) {
  const bool slower = rate > 0 && (rate_ == 0 || rate <= rate_);
  if (!slower) begin_average();  // otherwise the new rate bounds what the old average says
  rate_ = rate;
  next_copy_ = clock_.now();
}

Task<void> MigratingDevice::await_source_unused() {
  copying_ = false;
  while (copiers_ > 0 || source_in_use_ > 0) co_await changed_.wait();
}

Task<Status> MigratingDevice::pause(Duration patience) {
  copying_ = false;
  held_ = true;
  std::size_t uses = in_use_;
  Duration until = clock_.now() + patience;
  while (in_use_ > 0 || copiers_ > 0) {
    if (std::exchange(uses, in_use_) > in_use_) until = clock_.now() + patience;
    if (clock_.now() >= until) {
      go_on();
      co_return fail(Errc::unreachable, "requests under way do not end: a server does not answer");
    }
    co_await clock_.sleep(kNap);
  }
  co_return Status{};
}

// Nothing is acknowledged during the pause. So whatever an engine changes later (the places of
// blocks that an eviction moves) can be found again by any engine.
Task<Status> MigratingDevice::commit_paused() {
  const auto answer = std::make_shared<Answer<Status>>();
  volume_->commit([answer](Status status) { answer->set(std::move(status)); });
  S3O_CO_TRY(co_await answer->get());
  const std::string failure = volume_->status().failure;
  if (!failure.empty()) co_return fail(Errc::failed, "the volume cannot go on: {}", failure);
  co_return Status{};
}

void MigratingDevice::let_go() {
  use(nullptr, nullptr);
  at_source_ = {};
  left_ = 0;
  unreadable_.clear();
  hindrance_.clear();
}

Task<void> MigratingDevice::close() {
  closed_ = true;
  copying_ = false;
  changed_.notify_all();
  co_await ended();
  use(nullptr, nullptr);
}

std::optional<MigrationProgress> MigratingDevice::progress() const {
  if (!source_) return std::nullopt;
  MigrationProgress progress;
  progress.moved = volume_->status().blocks;
  progress.left = at_source_.size();
  progress.unreadable = unreadable_.size();
  progress.hindrance = hindrance_;
  progress.is_of_source = is_of_source_;
  if (copied_ > 0)
    progress.takes = std::max<Duration>((clock_.now() - copying_since_) / copied_ * progress.left,
                                        least_time_for(progress.left));
  return progress;
}

/// Returns how long the rate makes the copies of so many blocks take.
Duration MigratingDevice::least_time_for(std::uint64_t blocks) const {
  constexpr Duration kMost = std::chrono::hours(24) * 36500;  // a century, which fits a Duration
  if (rate_ == 0) return {};
  const std::chrono::duration<double> least(static_cast<double>(blocks) * block_size_ /
                                            static_cast<double>(rate_));
  return least < kMost ? std::chrono::duration_cast<Duration>(least) : kMost;
}

// ---- the device

std::vector<BlockId> MigratingDevice::mapped() {
  given_mapped_ = true;
  return std::exchange(mapped_, {});
}

void MigratingDevice::set_participant(CommitParticipant* participant) {
  const std::lock_guard lock(mutex_);
  participant_ = participant;
  if (volume_) volume_->set_participant(participant);
}

Room MigratingDevice::room() {
  const std::lock_guard lock(mutex_);
  return volume_ ? room_now() : last_room_;
}

// It may be smaller after an exchange of engines; that is a change, too.
std::uint64_t MigratingDevice::steps() const {
  const std::lock_guard lock(mutex_);
  return (volume_ ? volume_->steps() : 0) + (source_ ? source_->steps() : 0);
}

/// Returns the room, less one block for each that is still at the source. Blocks that were
/// discarded here count as free, although the engine has not been told yet.
Room MigratingDevice::room_now() const {
  Room room = volume_->room();
  room.blocks += discarding() + kept_;
  const std::uint64_t left = left_, found = std::min(left, room.blocks);
  room.blocks -= found;
  room.more -= std::min(left - found, room.more);
  return room;
}

void MigratingDevice::refresh_room() {
  const std::lock_guard lock(mutex_);
  if (volume_) volume_->refresh_room();
}

void MigratingDevice::look_for_room() {
  const std::lock_guard lock(mutex_);
  if (volume_) volume_->look_for_room();
}

void MigratingDevice::forget(BlockId block) {
  if (held_) {
    discarded_.push_back(block);
    kept_ = discarded_.size();
    return;
  }
  leave_source(block);
  volume_->discard(block);
}

void MigratingDevice::leave_source(BlockId block) {
  at_source_.erase(block);
  unreadable_.erase(block);
  left_ = at_source_.size();
}

Task<void> MigratingDevice::access(Request request) {
  while (held_ && !closed_) co_await changed_.wait();
  if (closed_) {
    const Error closing{Errc::shutting_down, "the volume is being closed"};
    if (request.read) request.read(fail(closing));
    if (request.written) request.written(fail(closing));
    co_return;
  }
  const InUse in_use(*this);
  if (request.content)
    static_cast<void>(co_await write_to_volume(std::move(request)));
  else if (at_source_.contains(request.block))
    co_await read_and_copy(std::move(request));
  else
    static_cast<void>(co_await read_from(*volume_, request.block, std::move(request.read)));
}

/// Reads a block. Calls `read` with the content first, within the engine's call.
Task<Result<Bytes>> MigratingDevice::read_from(VolumeEngine& engine, BlockId block,
                                               std::function<void(Result<Bytes>)> read) {
  const auto answer = std::make_shared<Answer<Result<Bytes>>>();
  engine.read(block, [answer, read = std::move(read)](Result<Bytes> content) {
    if (read) read(content);
    answer->set(std::move(content));
  });
  co_return co_await answer->get();
}

/// Calls `written` within the engine's callback, so that the next commit of the engine includes
/// what the caller records there.
Task<Status> MigratingDevice::write_to_volume(Request request) {
  const auto answer = std::make_shared<Answer<Status>>();
  const auto write = request.backup ? &VolumeEngine::write_backup : &VolumeEngine::write;
  auto done = [this, answer, block = request.block,
               written = std::move(request.written)](const Status& status) {
    if (status && at_source_.contains(block)) {
      leave_source(block);
      ++copied_;
    }
    if (written) written(status);
    answer->set(status);
  };
  (volume_->*write)(request.block, std::move(*request.content), std::move(done));
  co_return co_await answer->get();
}

Task<void> MigratingDevice::read_and_copy(Request request) {
  const BlockId block = request.block;
  ++source_in_use_;
  auto content = co_await read_from(*source_, block, std::move(request.read));
  if (--source_in_use_ == 0) changed_.notify_all();
  if (!content || copies_of_reads_ >= kMostCopiesOfReads) co_return;
  ++copies_of_reads_;
  static_cast<void>(co_await take_over(block, std::move(*content)));
  --copies_of_reads_;
}

void MigratingDevice::commit(std::function<void(Status)> done) {
  asio::post(executor_,
             [this, done = std::move(done)]() mutable { start(commit_and_tell(std::move(done))); });
}

Task<void> MigratingDevice::commit_and_tell(std::function<void(Status)> done) {
  while (held_ && !closed_) co_await changed_.wait();
  if (closed_) co_return done(fail(Errc::shutting_down, "the volume is being closed"));
  const InUse in_use(*this);
  const auto answer = std::make_shared<Answer<Status>>();
  volume_->commit([answer, done = std::move(done)](const Status& status) {
    done(status);
    answer->set(status);
  });
  static_cast<void>(co_await answer->get());
}

// ---- copies

Task<Status> MigratingDevice::take_over(BlockId block, Bytes content) {
  Request request{.block = block, .content = std::move(content), .read = {}, .written = {}};
  co_return co_await write_to_volume(std::move(request));
}

/// Returns a block at the source that is not in use.
std::optional<BlockId> MigratingDevice::next_to_copy() {
  const BlockId end = at_source_.end();
  for (BlockId passed = 0; passed < end; ++passed) {
    const BlockId block = cursor_ < end ? cursor_ : 0;
    cursor_ = block + 1;
    if (!at_source_.contains(block) || in_use(block)) continue;
    const auto failed = unreadable_.find(block);
    if (failed == unreadable_.end() || failed->second <= clock_.now()) return block;
  }
  return std::nullopt;
}

Task<void> MigratingDevice::copy_all() {
  while (copying_ && at_source_.size() > 0) {
    co_await await_turn();
    const auto block = copying_ ? next_to_copy() : std::nullopt;
    if (!block) {
      co_await sleep(kLookAfter);
      continue;
    }
    claim(*block);
    const Status copied = co_await copy(*block);
    start(QueuedDevice::serve(*block));  // not awaited: in a pause it would wait for this copier
    if (!copied) co_await sleep(kRetryCopyAfter);
  }
  if (--copiers_ == 0) changed_.notify_all();
}

/// Errors: those that hinder all copies; a block that cannot be read is not one.
Task<Status> MigratingDevice::copy(BlockId block) {
  const InUse in_use(*this);
  ++source_in_use_;
  auto content = co_await read_from(*source_, block);
  if (--source_in_use_ == 0) changed_.notify_all();
  if (!content && content.error().code == Errc::corrupt) {
    unreadable_[block] = clock_.now() + kRereadAfter;
    co_return Status{};
  }
  Status status;
  if (content)
    status = co_await take_over(block, std::move(*content));
  else
    status = fail(content.error());
  if (!status && hindrance_.empty() && copying_)
    spdlog::error("the migration cannot go on: {}{}; trying again",
                  content ? "" : "reading from the source: ", status.error().message);
  is_of_source_ = !content;
  hindrance_ = status ? std::string() : status.error().message;
  co_return status;
}

/// Waits until the rate, which may change meanwhile, allows another copy.
Task<void> MigratingDevice::await_turn() {
  while (copying_ && rate_ > 0) {
    const Duration now = clock_.now();
    if (now < next_copy_) {
      co_await clock_.sleep(std::min(kNap, next_copy_ - now));
      continue;
    }
    const double seconds = static_cast<double>(block_size_) / static_cast<double>(rate_);
    next_copy_ = std::max(next_copy_, now - kNap) +
                 std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    co_return;
  }
}

/// Sleeps for `time`, or until copying is stopped.
Task<void> MigratingDevice::sleep(Duration time) {
  const Duration until = clock_.now() + time;
  while (copying_ && clock_.now() < until)
    co_await clock_.sleep(std::min(kNap, until - clock_.now()));
}

}  // namespace s3oram
