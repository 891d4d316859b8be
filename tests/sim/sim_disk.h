// A party's disk in memory, from power on to power off. It distinguishes what programs see from
// what would survive a power cut. It can fail as disks do, and its power can be cut at any instant.
//
// After the cut the program above lives on as a ghost: it continues to use this object, and nobody
// sees the effects. The next life of the party starts with a new SimDisk, next_life().
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

inline constexpr std::size_t kDiskPage = 4096;   // the unit of allocation
inline constexpr std::size_t kDiskSector = 512;  // the unit that is written whole or not at all

/// The content of a disk while its party is off.
struct DiskImage {
  struct Content {
    Bytes bytes;
    std::vector<bool> pages;  // pages that are allocated
  };
  std::map<std::string, Content> files;  // by path
};

/// The probability that each kind of call fails.
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
  /// Returns the disk of the party's next life: image() after a cut. Without a cut only the process
  /// was killed, so everything that was written is there, and still unsynced.
  std::unique_ptr<SimDisk> next_life();
  ~SimDisk() override;

  Result<std::unique_ptr<File>> open(const std::filesystem::path& path) override;
  bool exists(const std::filesystem::path& path) override { return find(path.string()) != nullptr; }
  std::string sqlite_vfs() const override { return vfs_name_; }
  const PageKey* page_key() const override { return page_key_.get(); }
  /// Seals databases from now on, on this disk and in its next lives.
  void seal_databases(std::shared_ptr<const PageKey> key) { page_key_ = std::move(key); }
  void step(std::string_view name, bool done) override;

  // ---- power

  /// Cuts the power now. Each unsynced write is kept, dropped or torn at sectors, and each new or
  /// removed name survives or does not. A second call does nothing.
  void cut();
  /// Cuts the power at the n-th moment from now (n >= 1). Every write, truncation, sync and change
  /// of a name has two moments, before and after it takes effect.
  void cut_after(std::uint64_t moments) { cut_at_ = moments_ + moments; }
  void never_cut() { cut_at_ = 0; }
  bool is_cut() const { return image_.has_value(); }
  std::uint64_t moments() const { return moments_; }
  /// Returns the content of the disk: what the cut left (empty once the next life has it), or
  /// otherwise everything that was written.
  DiskImage image() const;

  /// Sets all files back to what they were, as a snapshot of the machine does. Nothing may use the
  /// disk meanwhile.
  void put(const DiskImage& image);

  /// Called once, when power is cut.
  std::function<void()> on_cut;
  /// Called for each announced step (Disk::step).
  std::function<void(std::string_view name, bool done)> on_step;

  // ---- faults

  DiskFaults faults;
  /// The next sync fails. What it should have made durable is then lost, except perhaps for a part,
  /// and later syncs do not bring it back, although they succeed.
  void fail_next_sync() { fail_next_sync_ = true; }
  /// Sets how many bytes are free; with std::nullopt there are always enough. Reserved room is not
  /// counted.
  void leave_space(std::optional<std::uint64_t> bytes);
  /// Flips bits of a byte in place.
  void rot(const std::string& path, std::uint64_t offset, std::uint8_t mask);
  /// Makes the range [from, to) of a file unreadable until it is overwritten. (A power cut mends
  /// it.)
  void make_unreadable(const std::string& path, std::uint64_t from, std::uint64_t to);

  /// Returns the file as programs see it; empty if it does not exist.
  Bytes content(const std::string& path) const;
  std::uint64_t syncs() const { return syncs_; }
  /// Counts reads of the files that open() returned; SQLite's reads are not counted.
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
