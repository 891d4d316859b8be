// A party's disk in memory, from power on to power off. It keeps apart what programs see and what
// would survive a power cut; it can fail as disks do, and its power can be cut at any instant.
//
// After the cut the program above lives on as a ghost: it goes on with this object, and nobody sees
// it. The next life of the party starts with a new SimDisk, next_life().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "oramcore/base/disk.h"
#include "oramcore/db/page_seal.h"
#include "tests/sim/trace.h"

namespace s3oram::test {

inline constexpr std::size_t kDiskPage = 4096;   // space is given away in pages
inline constexpr std::size_t kDiskSector = 512;  // what is written whole or not at all

/// What a disk holds while its party is off.
struct DiskImage {
  struct Content {
    Bytes bytes;
    std::vector<bool> pages;  // which pages have space of their own
  };
  std::map<std::string, Content> files;  // by path
};

/// Probabilities of each call's failure.
struct DiskFaults {
  double read = 0, write = 0, sync = 0;
};

enum class DiskOutcome { ok, full, error };

/// A file's content, its locks and shared memory for SQLite (sim_vfs.h).
class SimInode;

/// Thread-safe; on_cut and on_step are called with the disk locked, on the caller's thread.
class SimDisk final : public Disk {
 public:
  SimDisk(DiskImage image, std::uint64_t seed, Trace* trace = nullptr);
  /// The disk that the party's next life finds: image() after a cut; without one the process has
  /// been killed and the machine lives on: all that was written is there, and unsynced still.
  std::unique_ptr<SimDisk> next_life();
  ~SimDisk() override;

  Result<std::unique_ptr<File>> open(const std::filesystem::path& path) override;
  bool exists(const std::filesystem::path& path) override { return find(path.string()) != nullptr; }
  std::string sqlite_vfs() const override { return vfs_name_; }
  const PageKey* page_key() const override { return page_key_.get(); }
  /// Has databases sealed from now on, on this disk and in its next lives.
  void seal_databases(std::shared_ptr<const PageKey> key) { page_key_ = std::move(key); }
  void step(std::string_view name, bool done) override;

  // ---- power

  /// Power is cut now. Of what was not synced, each write is kept, dropped or torn at sectors, and
  /// each new or removed name is there or not. Nothing happens the second time.
  void cut();
  /// Cuts at the n-th moment from now (n >= 1): every write, truncation, sync and change of a name
  /// has two of them, before and after it takes effect.
  void cut_after(std::uint64_t moments) { cut_at_ = moments_ + moments; }
  bool is_cut() const { return image_.has_value(); }
  std::uint64_t moments() const { return moments_; }
  /// What is on the disk: what the cut left (empty once the next life has it), or else all that was
  /// written.
  DiskImage image() const;

  /// Puts all files back to what they were, as a snapshot of the machine does. While nothing uses
  /// the disk.
  void put(const DiskImage& image);

  /// Called once, when power is cut.
  std::function<void()> on_cut;
  /// Called for each announced step (Disk::step).
  std::function<void(std::string_view name, bool done)> on_step;

  // ---- faults

  DiskFaults faults;
  /// The next sync fails; what it should have made durable is then gone (some of it may not be),
  /// and later syncs do not bring it back, though they succeed.
  void fail_next_sync() { fail_next_sync_ = true; }
  /// So many bytes are left; nothing: there is always enough. Reserved room is not counted.
  void leave_space(std::optional<std::uint64_t> bytes);
  /// Flips bits of a byte where it lies.
  void rot(const std::string& path, std::uint64_t offset, std::uint8_t mask);
  /// The range [from, to) of a file cannot be read until it is written over. (A power cut mends
  /// it.)
  void make_unreadable(const std::string& path, std::uint64_t from, std::uint64_t to);

  /// The file as programs see it; empty if it is not there.
  Bytes content(const std::string& path) const;
  std::uint64_t syncs() const { return syncs_; }
  /// Of the files that open() gave; what SQLite reads is not counted.
  std::uint64_t file_reads() const { return file_reads_; }

  // ---- for sim_vfs.cc and the files

  void count_file_read() { ++file_reads_; }
  std::shared_ptr<SimInode> find(const std::string& path);
  std::shared_ptr<SimInode> find_or_make(const std::string& path);
  bool remove(const std::string& path);
  void sync_names();
  DiskOutcome read(SimInode& inode, std::uint64_t offset, MutableByteSpan out);
  DiskOutcome write(SimInode& inode, std::uint64_t offset, ByteSpan data);
  DiskOutcome truncate(SimInode& inode, std::uint64_t size);
  DiskOutcome sync(SimInode& inode);
  DiskOutcome reserve(SimInode& inode, std::uint64_t size);
  std::uint64_t largest(SimInode& inode);
  std::uint64_t size(SimInode& inode);
  std::recursive_mutex& mutex() const { return mutex_; }

 private:
  void moment();
  bool chance(double probability);
  bool take_pages(SimInode& inode, std::uint64_t from, std::uint64_t to);
  void add_trace(std::uint64_t operation, std::uint64_t offset, ByteSpan data);

  mutable std::recursive_mutex mutex_;
  std::mt19937_64 random_;
  Trace* trace_;
  std::map<std::string, std::shared_ptr<SimInode>> names_, durable_names_;
  std::optional<std::uint64_t> space_;
  std::uint64_t moments_ = 0, cut_at_ = 0, syncs_ = 0;
  std::atomic<std::uint64_t> file_reads_ = 0;
  bool fail_next_sync_ = false;
  std::optional<DiskImage> image_;
  std::string vfs_name_;
  std::shared_ptr<const PageKey> page_key_;
};

}  // namespace s3oram::test
