// Operations on the contents of files.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>

#include "tests/fused/sim/driver.h"

namespace s3oram::sim {
namespace {

constexpr std::uint64_t kLongest = 12 * kBlock;

std::uint64_t blocks_of(std::uint64_t offset, std::uint64_t length) {
  return (offset + length - 1) / kBlock - offset / kBlock + 1;
}

}  // namespace

std::string Driver::payload(std::uint64_t length) {
  std::uint64_t state = ++payloads_;
  std::string bytes(length, '\0');
  for (char& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(1 + (state >> 33) % 255);
  }
  return bytes;
}

bool Driver::write(Ino ino, std::uint64_t offset, std::uint64_t length) {
  const bool single = blocks_of(offset, length) == 1;
  if (exclusive_.contains(ino) || (!single && !is_still(ino))) return false;
  know(ino);
  const Held busy(busy_, ino);
  std::optional<Held<std::set<Ino>>> alone;
  std::optional<Held<std::multiset<Ino>>> together;
  if (single)
    together.emplace(shared_, ino);
  else
    alone.emplace(exclusive_, ino);
  const auto begun = begin(fmt::format("write {} at {}: {} bytes", ino, offset, length));
  const std::string bytes = payload(length);
  FileHistory& file = tree_.files.at(ino);
  const auto pending =
      pending_.insert(pending_.end(), {ino, begun.at, file.steps_of_write(offset, bytes)});
  const bool from_page_cache = dice_.one_in(2);
  const auto outcome = fs_->write(ino, offset, as_bytes(bytes), from_page_cache);
  auto steps = file.steps_of_write(offset, bytes);
  bool was_quiet = quiet_;
  std::uint64_t cut_in = 0;
  if (!judge(begun, outcome ? 0 : outcome.error())) {
    // The first blocks may have been written; nothing else happens until this is known.
    world_.set_trouble(Trouble::none);
    was_quiet = std::exchange(quiet_, true);
    cut_in = std::exchange(world_.cut_in, 0);
    std::size_t written = 0;
    std::uint64_t at = offset;
    for (; written < steps.size(); ++written) {
      const std::uint64_t stop = std::min(offset + length, (at / kBlock + 1) * kBlock);
      Bytes found(stop - at);
      const auto got = fs_->read(ino, at, found);
      if (!got) throw Violation("a read after a failed write fails");
      if (std::string(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(*got)) !=
          bytes.substr(at - offset, stop - at))
        break;
      at = stop;
    }
    steps.resize(written);
  }
  file.apply(std::move(steps), begun.at, tree_.ended() + 1);
  // The kernel has already extended the file.
  if (!outcome && from_page_cache && file.now.size < offset + length)
    file.apply(file.steps_of_resize(offset + length, time()), begun.at, tree_.ended() + 1);
  quiet_ = was_quiet;
  if (cut_in > 0) world_.cut_in = cut_in;
  pending_.erase(pending);
  reenrol_times(ino);
  end();
  return true;
}

bool Driver::resize(Ino ino, std::uint64_t size) {
  if (!is_still(ino)) return false;
  know(ino);
  const Held busy(busy_, ino);
  const Held alone(exclusive_, ino);
  const auto begun = begin(fmt::format("truncate {} to {}", ino, size));
  AttributeChange change;
  change.size = size;
  if (size == 0) tree_.files.at(ino).may_settle(begun.at);
  const auto outcome = fs_->setattr(ino, change);
  if (judge(begun, outcome ? 0 : outcome.error())) {
    FileHistory& file = tree_.files.at(ino);
    file.apply(file.steps_of_resize(size, time()), begun.at, tree_.ended() + 1);
  }
  reenrol_times(ino);
  end();
  return true;
}

bool Driver::truncate(Ino ino) {
  const std::uint64_t size = tree_.files.at(ino).now.size;
  switch (dice_.below(5)) {
    case 0:
      return resize(ino, 0);
    case 1:
      return resize(ino, dice_.below(size + 1));
    case 2:
      return resize(ino, dice_.below(size + 1) / kBlock * kBlock);
    case 3:
      return resize(ino, size + dice_.below(3 * kBlock));
    default:
      return resize(ino, dice_.below(kLongest));
  }
}

bool Driver::punch(Ino ino, int mode, std::uint64_t offset, std::uint64_t length) {
  if (!is_still(ino) || world_.trouble() != Trouble::none) return false;
  know(ino);
  const Held busy(busy_, ino);
  const Held alone(exclusive_, ino);
  const auto begun =
      begin(fmt::format("fallocate {} mode {} at {}: {}", ino, mode, offset, length));
  FileHistory& file = tree_.files.at(ino);
  std::vector<Step> steps;
  if (mode != 0 && mode != FALLOC_FL_KEEP_SIZE) steps = file.steps_of_punch(offset, length);
  if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && offset + length > file.now.size) {
    const auto growth = file.steps_of_resize(offset + length, time());
    steps.insert(steps.end(), growth.begin(), growth.end());
  }
  std::list<Pending>::iterator pending = pending_.end();
  if (!steps.empty()) pending = pending_.insert(pending_.end(), {ino, begun.at, steps});
  const auto outcome = fs_->fallocate(ino, mode, offset, length);
  if (!judge(begun, outcome ? 0 : outcome.error())) steps.clear();
  if (pending != pending_.end()) pending_.erase(pending);
  file.apply(std::move(steps), begun.at, tree_.ended() + 1);
  reenrol_times(ino);
  end();
  return true;
}

bool Driver::read(Ino ino, std::uint64_t offset, std::uint64_t length) {
  if (exclusive_.contains(ino)) return false;
  know(ino);
  const Held busy(busy_, ino);
  const auto begun = begin(fmt::format("read {} at {}: {} bytes", ino, offset, length));
  const FileHistory& file = tree_.files.at(ino);
  const auto before = file.steps();
  Bytes bytes(length);
  const auto got = fs_->read(ino, offset, bytes);
  // The result of a read that runs beside a write is not specified.
  if (judge(begun, got ? 0 : got.error()) && file.steps() == before && !exclusive_.contains(ino) &&
      std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(*got)) !=
          file.read(offset, length))
    throw Violation(begun.what + ": the bytes differ from those written");
  end();
  return true;
}

Driver::Settling Driver::begin_settling(const std::vector<Ino>& inos) {
  Settling settling;
  for (const Ino ino : inos)
    if (const auto file = tree_.files.find(ino); file != tree_.files.end())
      settling.emplace_back(ino, file->second.begin_settling(tree_.ended()));
  return settling;
}

void Driver::end_settling(const Settling& settling) {
  for (const auto& [ino, number] : settling)
    tree_.files.at(ino).end_settling(number, tree_.ended());
}

bool Driver::sync(Ino ino) {
  know(ino);
  const Held busy(busy_, ino);
  const auto begun = begin(fmt::format("fsync {}", ino));
  const auto settling = begin_settling({ino});
  const auto outcome = fs_->sync(ino);
  end_settling(settling);
  if (judge(begun, outcome ? 0 : outcome.error())) {
    tree_.barrier(begun.at);
    if (tree_.is_file(ino)) tree_.files.at(ino).barrier(begun.at);
  }
  end();
  return true;
}

bool Driver::sync_names() {
  const auto begun = begin("fsyncdir");
  const auto outcome = fs_->sync_names();
  if (judge(begun, outcome ? 0 : outcome.error())) tree_.barrier(begun.at);
  end();
  return true;
}

bool Driver::sync_all() {
  const auto begun = begin("sync");
  const auto named = named_files();
  const auto settling = begin_settling(named);
  const auto outcome = fs_->sync_all();
  end_settling(settling);
  if (judge(begun, outcome ? 0 : outcome.error())) {
    tree_.barrier(begun.at);
    for (const Ino ino : named) tree_.files.at(ino).barrier(begun.at);
  }
  end();
  return true;
}

bool Driver::closed(Ino ino) {
  know(ino);
  const auto begun = begin(fmt::format("close {}", ino));
  tree_.files.at(ino).may_settle(begun.at);
  fs_->closed(ino);
  end();
  return true;
}

/// Acts like an editor that truncates the file and rewrites it.
bool Driver::rewrite(Ino ino) {
  if (!is_still(ino)) return false;
  know(ino);
  const Held busy(busy_, ino);
  if (!resize(ino, 0)) return false;
  std::uint64_t at = 0;
  for (std::uint64_t writes = dice_.between(1, 3); writes > 0; --writes) {
    const std::uint64_t length = dice_.between(1, 2 * kBlock);
    if (!write(ino, at, length)) return true;
    at += length;
    if (depth_ == 0 && dice_.one_in(2)) sleep(std::chrono::milliseconds(dice_.between(1, 200)));
  }
  return closed(ino);
}

/// Acts like an editor that writes a new file and renames it over the old one.
bool Driver::replace(const Name& name) {
  const Name other{name.first, "new"};
  know(name.first);
  const Held directory(busy_, name.first);  // someone may remove it meanwhile
  if (tree_.find(other) == 0 && !make(other, S_IFREG)) return false;
  const Ino ino = tree_.find(other);
  if (ino == 0 || !tree_.is_file(ino)) return true;
  know(ino);
  const Held busy(busy_, ino);
  if (!write(ino, 0, dice_.between(1, 3 * kBlock))) return true;
  if (dice_.one_in(3)) sync(ino);
  closed(ino);
  return rename(other, name, 0);
}

bool Driver::operate() {
  const std::uint64_t kind = dice_.below(100);
  const Ino file = any_file();
  const std::uint64_t length =
      dice_.one_in(2) ? dice_.between(1, kBlock / 2) : dice_.between(1, 4 * kBlock);
  std::uint64_t offset = dice_.below(kLongest);
  if (dice_.one_in(3)) offset = offset / kBlock * kBlock;
  if (kind < 48 && file != 0) {
    const std::uint64_t size = tree_.files.at(file).now.size;
    if (kind < 16) return write(file, offset, length);
    if (kind < 20) return size < 2 * kLongest && write(file, size, length);
    if (kind < 25) return truncate(file);
    if (kind < 27) return punch(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
    if (kind < 29) return punch(file, FALLOC_FL_ZERO_RANGE, offset, length);
    if (kind < 30) return punch(file, dice_.one_in(2) ? 0 : FALLOC_FL_KEEP_SIZE, offset, length);
    if (kind < 38) return read(file, offset, length);
    if (kind < 42) return sync(file);
    if (kind < 43) return closed(file);
    if (kind < 46) return rewrite(file);
    return compare(file);
  }
  const Ino inode = any_inode();
  if (kind < 50) return sync_names();
  if (kind < 52) return sync_all();
  if (kind < 59) return make(any_name(), S_IFREG);
  if (kind < 62) return make(any_name(), S_IFDIR);
  if (kind < 64) return make(any_name(), S_IFLNK);
  if (kind < 67) return link(inode, any_name());
  if (kind < 72) return unlink(any_name(), false);
  if (kind < 74) return unlink(any_name(), true);
  if (kind < 80) return rename(any_name(), any_name(), static_cast<unsigned>(dice_.below(3)));
  if (kind < 84) return replace(any_name());
  if (kind < 87) return change_attributes(inode);
  if (kind < 91) return change_xattr(inode);
  if (kind < 95) return compare(inode);
  return forget(inode);
}

}  // namespace s3oram::sim
