// The file of asked points.
#include "serverd/ring/asked_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace s3oram::ring {
namespace {

constexpr std::size_t kRecord = 64, kMapAt = 8, kChecksumAt = kRecord - 8;

std::uint64_t checksum(BucketVersionNumber version, const std::uint8_t* record) {
  return XXH3_64bits_withSeed(record, kChecksumAt, version);
}

}  // namespace

Result<AskedFile::Record> AskedFile::read(BucketVersionNumber version) {
  if (const auto known = known_.find(version); known != known_.end()) return known->second;
  std::array<std::uint8_t, kRecord> bytes;
  S3O_TRY(file_->read(version * std::uint64_t{kRecord}, bytes));
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes.data() + kChecksumAt, sizeof sum);
  Record record;
  if (sum == checksum(version, bytes.data())) {
    std::memcpy(&record.stamp, bytes.data(), sizeof record.stamp);
    std::memcpy(record.asked.bits().data(), bytes.data() + kMapAt, record.asked.bits().size());
  }
  known_[version] = record;
  return record;
}

Status AskedFile::write(BucketVersionNumber version, const Record& record) {
  std::array<std::uint8_t, kRecord> bytes{};
  std::memcpy(bytes.data(), &record.stamp, sizeof record.stamp);
  std::memcpy(bytes.data() + kMapAt, record.asked.bits().data(), record.asked.bits().size());
  const std::uint64_t sum = checksum(version, bytes.data());
  std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof sum);
  known_[version] = record;
  return file_->write(version * std::uint64_t{kRecord}, bytes);
}

Result<Turn> AskedFile::turns() {
  S3O_ASSIGN(const Record record, read(0));
  return record.stamp;
}

Status AskedFile::set_turns(Turn turns) { return write(0, {turns, {}}); }

Result<AskedPoints> AskedFile::of(BucketVersionNumber version, VersionStamp stamp) {
  S3O_ASSIGN(const Record record, read(version));
  return record.stamp == stamp ? record.asked : AskedPoints{};
}

Status AskedFile::add(BucketVersionNumber version, VersionStamp stamp, Point point) {
  S3O_ASSIGN(AskedPoints asked, of(version, stamp));
  if (asked.has(point)) return {};
  asked.add(point);
  return write(version, {stamp, asked});
}

}  // namespace s3oram::ring
