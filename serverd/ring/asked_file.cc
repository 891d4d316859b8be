// Reads and writes the records of the file `asked`.
#include "serverd/ring/asked_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace s3oram::ring {
namespace {

constexpr std::size_t kRecord = 64, kMapAt = 8, kChecksumAt = kRecord - 8;
constexpr BucketVersionNumber kTurns = 0;  // the record of turns

using Lock = std::lock_guard<std::mutex>;

std::uint64_t checksum(BucketVersionNumber version, const std::uint8_t* record) {
  return XXH3_64bits_withSeed(record, kChecksumAt, version);
}

AskedPoints every_point() {
  AskedPoints all;
  all.bits().fill(0xff);
  return all;
}

}  // namespace

const AskedFile::Record& AskedFile::read(BucketVersionNumber version) {
  if (const auto known = known_.find(version); known != known_.end()) return known->second;
  std::array<std::uint8_t, kRecord> bytes;
  const std::uint64_t at = version * std::uint64_t{kRecord};
  const bool readable = file_->read(at, bytes) || file_->read(at, bytes);  // a failure may pass
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + kChecksumAt, sizeof sum);
  Record record;
  if (readable && sum == checksum(version, bytes.data())) {
    std::memcpy(&record.stamp, bytes.data(), sizeof record.stamp);
    std::memcpy(record.asked.bits().data(), bytes.data() + kMapAt, record.asked.bits().size());
  } else {
    record.is_sound =
        readable && std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
    if (version == kTurns) record.is_sound = false;
  }
  return known_[version] = record;
}

Status AskedFile::write(BucketVersionNumber version, const Record& record) {
  known_[version] = record;
  return write_again(version);
}

Status AskedFile::write_again(BucketVersionNumber version) {
  const Record& record = known_[version];
  std::array<std::uint8_t, kRecord> bytes{};
  std::memcpy(bytes.data(), &record.stamp, sizeof record.stamp);
  std::memcpy(bytes.data() + kMapAt, record.asked.bits().data(), record.asked.bits().size());
  const std::uint64_t sum = checksum(version, bytes.data());
  std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
  unwritten_.insert(version);
  S3O_TRY(file_->write(version * std::uint64_t{kRecord}, bytes));
  unwritten_.erase(version);
  unsynced_.insert(version);
  return {};
}

bool AskedFile::is_written(BucketVersionNumber version, std::uint64_t stamp) {
  const Record& record = read(version);
  return record.is_sound && record.stamp == stamp && !unwritten_.contains(version);
}

// ---- turns

bool AskedFile::knows_turns() {
  Lock lock(mutex_);
  return read(kTurns).is_sound;
}

Status AskedFile::set_turns(Turn turns) {
  Lock lock(mutex_);
  return write(kTurns, {.stamp = turns, .asked = {}});
}

Turn AskedFile::turns() {
  Lock lock(mutex_);
  return read(kTurns).stamp;
}

Status AskedFile::add_turn(Turn turn) {
  Lock lock(mutex_);
  const Turn turns = std::max(read(kTurns).stamp, turn + 1);
  if (is_written(kTurns, turns)) return {};
  return write(kTurns, {.stamp = turns, .asked = {}});
}

// ---- points

AskedPoints AskedFile::asked_of(BucketVersionNumber version, VersionStamp stamp) {
  const Record& record = read(version);
  if (!record.is_sound) return every_point();
  return record.stamp == stamp ? record.asked : AskedPoints{};
}

AskedPoints AskedFile::of(BucketVersionNumber version, VersionStamp stamp) {
  Lock lock(mutex_);
  return asked_of(version, stamp);
}

Status AskedFile::add(BucketVersionNumber version, VersionStamp stamp, Point point) {
  Lock lock(mutex_);
  AskedPoints asked = asked_of(version, stamp);
  if (asked.has(point) && is_written(version, stamp)) return {};
  asked.add(point);
  return write(version, {.stamp = stamp, .asked = asked});
}

Status AskedFile::add_all(BucketVersionNumber version, VersionStamp stamp) {
  Lock lock(mutex_);
  return write(version, {.stamp = stamp, .asked = every_point()});
}

// ---- the file

// A later sync that succeeds does not bring back what an earlier sync has lost. So after a failure,
// everything that the failed sync should have covered is written again.
Status AskedFile::sync() {
  std::set<BucketVersionNumber> covered;
  {
    Lock lock(mutex_);
    for (const BucketVersionNumber version : std::set(unwritten_)) S3O_TRY(write_again(version));
    covered = std::exchange(unsynced_, {});
  }
  Status synced = file_->still_there();
  if (synced) synced = file_->sync();
  if (!synced) {
    Lock lock(mutex_);
    unwritten_.merge(covered);
  }
  return synced;
}

Status AskedFile::reserve(std::uint64_t bucket_versions) {
  return file_->reserve((bucket_versions + 1) * kRecord);
}

}  // namespace s3oram::ring
