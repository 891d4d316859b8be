// Mounts the file system, drives a run, and checks the state that a power cut leaves.
#include "tests/fused/sim/driver.h"

#include <fmt/format.h>

#include <algorithm>

namespace s3oram::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

const std::size_t kStory = getenv("STORY") ? 4000 : 40;  // operations that a report shows

FileSystemOptions random_options(World& world) {
  Dice& dice = world.dice;
  FileSystemOptions options;
  options.own_ticker = false;
  options.commit_every = milliseconds(dice.between(200, 5'000));
  options.update_atime = dice.one_in(2);
  if (dice.one_in(3)) options.most_uncommitted = dice.between(4'000, 20'000);
  options.most_nodes = dice.one_in(2) ? dice.between(1, 20) : 50'000;
  options.cache.limit = kBlock * dice.between(8, 64);
  options.cache.in_flight = static_cast<unsigned>(dice.between(1, 8));
  options.cache.read_ahead = static_cast<unsigned>(dice.between(0, 8));
  options.cache.deadline = milliseconds(dice.between(5'000, 20'000));
  options.cache.retry = milliseconds(dice.between(100, 1'000));
  options.cache.timing = &world;
  options.cache.free_bytes = [&world] { return world.free_bytes(); };
  return options;
}

}  // namespace

Driver::Driver(World& world, const DriverOptions& options)
    : world_(world),
      dice_(world.dice),
      options_(options),
      fs_options_(random_options(world)),
      tree_(kBlock) {
  world_.meanwhile = [this] { meanwhile(); };
}

std::int64_t Driver::time() const { return world_.now().time_since_epoch().count(); }

std::string Driver::story() const {
  std::string all;
  for (const std::string& line : story_) all += line + "\n";
  return all;
}

Driver::Begun Driver::begin(std::string what) {
  story_.push_back(
      fmt::format("{:6} {} {:>{}}{}", tree_.ended(), time() / 1000000, "", 2 * depth_, what));
  if (story_.size() > kStory) story_.erase(story_.begin());
  let_give_way();
  // A block that found no room reports this until it is tried again.
  const bool was_troubled = healthy_since_ > Timing::Time() &&
                            world_.now() < healthy_since_ + 5 * fs_options_.cache.retry;
  return {tree_.ended(), world_.trouble() != Trouble::none, was_troubled, std::move(what),
          world_.now()};
}

bool Driver::judge(const Begun& begun, int error, int expected) {
  if (error == expected) return error == 0;
  if (!may_fail(begun, error))
    throw Violation(fmt::format("{}: errno {} instead of {}", begun.what, error, expected));
  gave_up_ = true;
  return false;
}

/// Returns whether the world's trouble explains an error. A device that is only silent lets no
/// operation fail before its deadline. (A read that follows one that has failed may fail earlier.)
bool Driver::may_fail(const Begun& begun, int error) const {
  if (error == ENOSPC && begun.was_troubled) return true;
  if (!begun.troubled || (error != EIO && error != ENOSPC)) return false;
  return trouble_kind_ != Trouble::silent || gave_up_ ||
         world_.now() - begun.time >= fs_options_.cache.deadline;
}

void Driver::end() { tree_.end_operation(time()); }

void Driver::sleep(milliseconds time) {
  const auto until = world_.now() + time;
  while (world_.now() < until) world_.pass(until);
}

void Driver::let_give_way() {
  if (world_.trouble() == Trouble::full) full_until_ = world_.now() + 5 * fs_options_.cache.retry;
  if (world_.now() >= full_until_) return;
  for (auto& [ino, file] : tree_.files) file.may_give_way(tree_.ended());
}

/// Does what other threads of the file system, and other users, might do while an operation waits.
void Driver::meanwhile() {
  if (world_.trouble() != Trouble::none) {
    healthy_since_ = world_.now();
    if (world_.now() >= trouble_until_) world_.set_trouble(Trouble::none);
  }
  let_give_way();
  if (quiet_) return;
  ++depth_;
  if (!beating_ && world_.now() >= next_beat_) beat();
  if (depth_ < 4 && dice_.one_in(4 * world_.grain())) operate();
  --depth_;
}

/// A healthy file system commits in the background.
void Driver::beat() {
  beating_ = true;
  const auto start = world_.now();
  const Index index = tree_.ended();
  const auto named = named_files();
  next_beat_ = fs_->beat();
  const bool committed = next_beat_ > start + fs_options_.commit_every;
  if (committed && healthy_since_ < start) {
    tree_.barrier(index);
    const auto settled = (start - fs_options_.commit_every).time_since_epoch();
    for (const Ino ino : named) tree_.files.at(ino).barrier_of_tick(index, settled.count());
  }
  static_cast<void>(begin(
      fmt::format("a beat that began after {} ends{}", index, committed ? " with a commit" : "")));
  beating_ = false;
}

// ---- mounting ----------------------------------------------------------------------------------

/// With `quiet`, nothing happens in the background.
void Driver::mount(bool quiet) {
  quiet_ = true;
  FileSystemOptions options = fs_options_;
  if (quiet) options.update_atime = false;
  auto mounted = FileSystem::mount(world_.device(), world_.database(), options, world_.disk());
  if (!mounted) throw Violation("mounting fails: " + mounted.error().message);
  fs_ = std::move(*mounted);
  references_ = {{kRootIno, 1}};
  next_beat_ = world_.now();
  quiet_ = quiet;
}

void Driver::unmount() {
  static_cast<void>(begin("unmount"));
  for (auto& [ino, file] : tree_.files) file.may_settle(tree_.ended());
  quiet_ = true;
  const Status status = fs_->unmount();
  if (!status) throw Violation("unmounting fails: " + status.error().message);
  world_.check_use();
  world_.power_off();
  fs_.reset();
  std::vector<Ino> nameless;
  for (const auto& [ino, attributes] : tree_.now.inodes)
    if (attributes.nlink == 0) nameless.push_back(ino);
  for (const Ino ino : nameless) tree_.end(ino);
  end();
  tree_.barrier(tree_.ended());
  for (auto& [ino, file] : tree_.files) file.barrier(tree_.ended());
}

void Driver::check_same(const Observed& seen) {
  const std::string names = difference(*tree_.instants().back().names, seen.names);
  if (!names.empty()) throw Violation("after a new mount: " + names);
  for (const auto& [ino, content] : seen.files)
    if (content != tree_.files.at(ino).now)
      throw Violation(fmt::format("the content of inode {} is not what it was", ino));
}

/// Takes over what was observed, all of which is durable.
void Driver::reenrol(const Observed& seen) {
  tree_ = Tree(kBlock, seen.names, seen.files);
  tree_.end_operation(time());
}

void Driver::check(const Observed& seen) {
  const auto& instants = tree_.instants();
  std::string reason;
  for (Index index = tree_.ended() + 1; index-- > tree_.durable();) {
    if (*instants[index].names != seen.names) continue;
    const FileHistory::Commit commit{
        .index = index,
        .until = index == tree_.ended() ? time() : instants[index + 1].time,
        .patience = nanoseconds(fs_options_.commit_every).count()};
    bool fits = true;
    for (const auto& [ino, content] : seen.files) {
      const auto refused = tree_.files.at(ino).refuses(content, commit);
      if (!refused) continue;
      if (reason.empty())
        reason = fmt::format("as after operation {}, but inode {}: {}", index, ino, *refused);
      fits = false;
      break;
    }
    if (fits) return;
  }
  if (reason.empty()) {
    reason =
        fmt::format("the names do not match any state after operations {} to {}:", tree_.durable(),
                    tree_.ended());
    for (Index index = tree_.durable(); index <= tree_.ended(); ++index)
      reason += fmt::format("\n  {}: {}", index, difference(*instants[index].names, seen.names));
  }
  throw Violation("after a crash: " + reason);
}

/// The power is gone. Mounts what is left, and checks it.
void Driver::recover() {
  story_.push_back("crash");
  quiet_ = true;
  beating_ = false;
  depth_ = 0;
  for (Pending& pending : pending_) {
    // The last step of an operation is done without waiting.
    pending.steps.pop_back();
    tree_.files.at(pending.ino).apply(std::move(pending.steps), pending.begins, kNever);
  }
  pending_.clear();
  exclusive_.clear();
  shared_.clear();
  busy_.clear();
  locked_.clear();
  while (true) {
    ++cuts_;
    if (world_.cut_in == 0 && dice_.one_in(3))
      world_.cut_in = dice_.between(1, 60 * world_.grain());
    if (fs_) world_.check_use();
    world_.power_off();
    fs_.reset();
    world_.set_trouble(Trouble::none);
    try {
      world_.power_on();
      mount(true);
      const Observed seen = observe(*fs_, kBlock);
      check(seen);
      if (!fs_->sync_all()) throw Violation("sync fails after a crash");
      if (world_.mapped() != blocks_of_files())
        throw Violation(fmt::format("files have {} blocks, the device has {}", blocks_of_files(),
                                    world_.mapped()));
      reenrol(seen);
      mount_again(true);
      check_same(observe(*fs_, kBlock));
      mount_again(false);
      return;
    } catch (const Cut&) {
      story_.push_back("crash during recovery");
    }
  }
}

// ---- a run -------------------------------------------------------------------------------------

void Driver::mount_again(bool quiet) {
  world_.check_use();
  world_.power_off();
  fs_.reset();
  world_.power_on();
  mount(quiet);
}

void Driver::delete_everything() {
  while (!tree_.now.entries.empty()) {
    auto at = tree_.now.entries.begin();
    while (true) {
      const auto inside = tree_.now.entries.lower_bound({at->second, ""});
      if (inside == tree_.now.entries.end() || inside->first.first != at->second) break;
      at = inside;
    }
    const Name name = at->first;
    unlink(name, tree_.is_directory(at->second));
    // If this were left to the ticker, it would make room for more changes.
    if (!fs_->sync_names()) throw Violation("the deletions do not commit");
  }
}

void Driver::finish() {
  world_.cut_in = 0;
  world_.set_trouble(Trouble::none);
  unmount();
  world_.power_on();
  mount(true);
  check_same(observe(*fs_, kBlock));
  sleep(std::chrono::seconds(2));  // blocks that are read ahead arrive
  delete_everything();
  unmount();
  world_.power_on();
  mount(true);
  if (world_.mapped() != 0 || fs_->status().inodes != 1)
    throw Violation(fmt::format("{} blocks and {} inodes are left of no file", world_.mapped(),
                                fs_->status().inodes));
  world_.power_off();
  fs_.reset();
}

/// The blocks of files as committed: their own, and those of packs.
std::size_t Driver::blocks_of_files() {
  auto database = Database::open(world_.database(), Database::Mode::read_only, world_.disk());
  if (!database) throw Violation(database.error().message);
  auto rows = database->prepare("SELECT block FROM extents");
  if (!rows) throw Violation(rows.error().message);
  std::set<BlockId> blocks;
  while (*rows->step()) blocks.insert(block_of(static_cast<BlockId>(rows->integer(0))));
  return blocks.size();
}

void Driver::run() {
  world_.power_on();
  mount(true);
  if (!fs_->sync_all()) throw Violation("a new file system does not commit");
  Names empty;
  empty.inodes[kRootIno] = observe(*fs_, kBlock).names.inodes.at(kRootIno);
  reenrol({empty, {}});
  quiet_ = false;
  for (std::uint64_t i = 0; i < options_.operations; ++i) {
    try {
      if (world_.cut_in == 0 && dice_.one_in(30))
        world_.cut_in = dice_.between(1, options_.most_steps * world_.grain());
      operate();
      if (dice_.one_in(3)) sleep(milliseconds(dice_.between(1, 30)));
      if (dice_.one_in(40)) sleep(milliseconds(dice_.between(100, 12'000)));
      world_.check_use();
      if (world_.trouble() != Trouble::none) continue;
      const auto kind = static_cast<Trouble>(dice_.between(1, 5));
      if (dice_.one_in(25) && world_.can(kind)) {
        story_.push_back(fmt::format("trouble {}", static_cast<int>(kind)));
        trouble_until_ = world_.now() + milliseconds(dice_.between(100, 30'000));
        healthy_since_ = world_.now();
        trouble_kind_ = kind;
        gave_up_ = false;
        world_.set_trouble(kind);
      } else if (dice_.one_in(50)) {
        unmount();
        world_.power_on();
        mount(true);
        const Observed seen = observe(*fs_, kBlock);
        check_same(seen);
        reenrol(seen);
        mount_again(false);
      }
    } catch (const Cut&) {
      recover();
    }
  }
  for (bool ended = false; !ended;) {
    try {
      finish();
      ended = true;
    } catch (const Cut&) {
      recover();
    }
  }
}

}  // namespace s3oram::sim
