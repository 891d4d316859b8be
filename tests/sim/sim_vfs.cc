// The interface is SQLite's: sqlite3.h says what the methods must do (sqlite3_vfs,
// sqlite3_io_methods). Locks follow the rules of https://sqlite.org/lockingv3.html, shared memory
// those of https://sqlite.org/walformat.html.
#include "tests/sim/sim_vfs.h"

#include <sqlite3.h>

#include <cstring>
#include <new>

#include "tests/sim/sim_inode.h"

namespace s3oram::test {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

// ---- open files

struct Handle {
  sqlite3_file base;  // first, so that SQLite's pointer points to this object
  SimDisk* disk;
  std::shared_ptr<SimInode> inode;
  std::string remove_at_close;  // the path of a temporary file
  int level;                    // level of the lock that is held, SQLITE_LOCK_...
  bool sync_names;              // the next sync also syncs names: a log or journal is new
  bool uses_memory;
  unsigned shared_slots, exclusive_slots;  // slots of shared memory, by bit
};

Handle& handle(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }

int code(DiskOutcome outcome, int error) {
  if (outcome == DiskOutcome::ok) return SQLITE_OK;
  return outcome == DiskOutcome::full ? SQLITE_FULL : error;
}

int unlock_to(Handle& h, int level);
int unmap_memory(sqlite3_file* file, int remove);

int close_file(sqlite3_file* file) {
  Handle& h = handle(file);
  {
    Lock lock(h.disk->mutex());
    if (h.uses_memory) unmap_memory(file, 0);
    unlock_to(h, SQLITE_LOCK_NONE);
    if (!h.remove_at_close.empty()) h.disk->remove(h.remove_at_close);
  }
  h.~Handle();
  return SQLITE_OK;
}

int read_file(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
  Handle& h = handle(file);
  Lock lock(h.disk->mutex());
  const auto at = static_cast<std::uint64_t>(offset);
  const auto wanted = static_cast<std::size_t>(size);
  if (h.disk->read(*h.inode, at, {static_cast<std::uint8_t*>(out), wanted}) != DiskOutcome::ok)
    return SQLITE_IOERR_READ;
  return at + wanted > h.inode->live().bytes.size() ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

int write_file(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  Handle& h = handle(file);
  const ByteSpan bytes(static_cast<const std::uint8_t*>(data), static_cast<std::size_t>(size));
  return code(h.disk->write(*h.inode, static_cast<std::uint64_t>(offset), bytes),
              SQLITE_IOERR_WRITE);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  Handle& h = handle(file);
  return code(h.disk->truncate(*h.inode, static_cast<std::uint64_t>(size)), SQLITE_IOERR_TRUNCATE);
}

int sync_file(sqlite3_file* file, int) {
  Handle& h = handle(file);
  const int rc = code(h.disk->sync(*h.inode), SQLITE_IOERR_FSYNC);
  if (rc == SQLITE_OK && std::exchange(h.sync_names, false)) h.disk->sync_names();
  return rc;
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  Handle& h = handle(file);
  Lock lock(h.disk->mutex());
  *size = static_cast<sqlite3_int64>(h.inode->live().bytes.size());
  return SQLITE_OK;
}

// ---- locks

int lock_file(sqlite3_file* file, int level) {
  Handle& h = handle(file);
  Lock lock(h.disk->mutex());
  SimInode& inode = *h.inode;
  if (h.level >= level) return SQLITE_OK;
  if (level == SQLITE_LOCK_SHARED) {
    if (inode.pending_by) return SQLITE_BUSY;
    ++inode.shared_locks;
  } else if (level == SQLITE_LOCK_RESERVED) {
    if (inode.reserved_by) return SQLITE_BUSY;
    inode.reserved_by = &h;
  } else {
    if (inode.pending_by && inode.pending_by != &h) return SQLITE_BUSY;
    inode.pending_by = &h;
    if (inode.shared_locks > 1) {
      h.level = SQLITE_LOCK_PENDING;
      return SQLITE_BUSY;
    }
  }
  h.level = level;
  return SQLITE_OK;
}

int unlock_to(Handle& h, int level) {
  SimInode& inode = *h.inode;
  if (inode.reserved_by == &h) inode.reserved_by = nullptr;
  if (inode.pending_by == &h) inode.pending_by = nullptr;
  if (level == SQLITE_LOCK_NONE && h.level >= SQLITE_LOCK_SHARED) --inode.shared_locks;
  h.level = std::min(h.level, level);
  return SQLITE_OK;
}

int unlock_file(sqlite3_file* file, int level) {
  Handle& h = handle(file);
  Lock lock(h.disk->mutex());
  return unlock_to(h, level);
}

int check_reserved(sqlite3_file* file, int* reserved) {
  Handle& h = handle(file);
  Lock lock(h.disk->mutex());
  *reserved = h.inode->reserved_by != nullptr || h.inode->pending_by != nullptr;
  return SQLITE_OK;
}

int control(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int sector_size(sqlite3_file*) { return 4096; }
// Says what the system's VFS says of every disk: a write that is cut short harms no byte outside
// it.
int characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

// ---- shared memory

int map_memory(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
  Handle& h = handle(file);
  Lock lock(h.disk->mutex());
  auto& memory = h.inode->memory;
  if (!std::exchange(h.uses_memory, true)) ++memory.users;
  *out = nullptr;
  const auto index = static_cast<std::size_t>(region);
  if (memory.regions.size() <= index && !extend) return SQLITE_OK;
  while (memory.regions.size() <= index)
    memory.regions.push_back(std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(size)));
  *out = memory.regions[index].get();
  return SQLITE_OK;
}

int lock_memory(sqlite3_file* file, int offset, int count, int flags) {
  Handle& h = handle(file);
  Lock lock(h.disk->mutex());
  auto& memory = h.inode->memory;
  const auto first = static_cast<std::size_t>(offset);
  const std::size_t end = first + static_cast<std::size_t>(count);
  for (std::size_t slot = first; slot < end; ++slot) {
    const unsigned bit = 1u << slot;
    if (!(flags & SQLITE_SHM_LOCK)) continue;
    if (memory.exclusive[slot] && memory.exclusive[slot] != &h) return SQLITE_BUSY;
    if (flags & SQLITE_SHM_EXCLUSIVE && memory.shared[slot] > (h.shared_slots & bit ? 1 : 0))
      return SQLITE_BUSY;
  }
  for (std::size_t slot = first; slot < end; ++slot) {
    const unsigned bit = 1u << slot;
    if (flags & SQLITE_SHM_UNLOCK) {
      if (h.shared_slots & bit) --memory.shared[slot];
      if (h.exclusive_slots & bit) memory.exclusive[slot] = nullptr;
      h.shared_slots &= ~bit;
      h.exclusive_slots &= ~bit;
    } else if (flags & SQLITE_SHM_SHARED) {
      if (!(h.shared_slots & bit)) ++memory.shared[slot];
      h.shared_slots |= bit;
    } else {
      memory.exclusive[slot] = &h;
      h.exclusive_slots |= bit;
    }
  }
  return SQLITE_OK;
}

void memory_barrier(sqlite3_file* file) { Lock lock(handle(file).disk->mutex()); }

int unmap_memory(sqlite3_file* file, int) {
  Handle& h = handle(file);
  Lock lock(h.disk->mutex());
  if (!std::exchange(h.uses_memory, false)) return SQLITE_OK;
  lock_memory(file, 0, 8, SQLITE_SHM_UNLOCK);
  if (--h.inode->memory.users == 0) h.inode->memory.regions.clear();
  return SQLITE_OK;
}

const sqlite3_io_methods kMethods = {2,
                                     close_file,
                                     read_file,
                                     write_file,
                                     truncate_file,
                                     sync_file,
                                     file_size,
                                     lock_file,
                                     unlock_file,
                                     check_reserved,
                                     control,
                                     sector_size,
                                     characteristics,
                                     map_memory,
                                     lock_memory,
                                     memory_barrier,
                                     unmap_memory,
                                     nullptr,
                                     nullptr};

// ---- the file system

SimDisk& disk_of(sqlite3_vfs* vfs) { return *static_cast<SimDisk*>(vfs->pAppData); }

int open_file(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  SimDisk& disk = disk_of(vfs);
  file->pMethods = nullptr;
  const std::string path = name ? name : "temporary-" + std::to_string(disk.moments());
  auto inode = disk.find(path);
  const bool made = !inode;
  if (made && !(flags & SQLITE_OPEN_CREATE)) return SQLITE_CANTOPEN;
  if (made) inode = disk.find_or_make(path);
  constexpr int kLogs = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
  new (file) Handle{{&kMethods},
                    &disk,
                    std::move(inode),
                    flags & SQLITE_OPEN_DELETEONCLOSE ? path : std::string(),
                    SQLITE_LOCK_NONE,
                    made && (flags & kLogs) != 0,
                    false,
                    0,
                    0};
  if (out_flags) *out_flags = flags;
  return SQLITE_OK;
}

int remove_file(sqlite3_vfs* vfs, const char* name, int sync_names) {
  SimDisk& disk = disk_of(vfs);
  if (!disk.remove(name)) return SQLITE_IOERR_DELETE_NOENT;
  if (sync_names) disk.sync_names();
  return SQLITE_OK;
}

int check_access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
  SimDisk& disk = disk_of(vfs);
  Lock lock(disk.mutex());
  const auto inode = disk.find(name);
  *result = inode && (flags != SQLITE_ACCESS_EXISTS || !inode->live().bytes.empty());
  return SQLITE_OK;
}

int full_path(sqlite3_vfs*, const char* name, int size, char* out) {
  if (std::strlen(name) >= static_cast<std::size_t>(size)) return SQLITE_CANTOPEN;
  std::strcpy(out, name);
  return SQLITE_OK;
}

std::uint64_t g_seed = 0;

int randomness(sqlite3_vfs*, int size, char* out) {
  std::mt19937_64 random(g_seed);
  for (int i = 0; i < size; ++i) out[i] = static_cast<char>(random());
  return size;
}
int no_sleep(sqlite3_vfs*, int microseconds) { return microseconds; }
int julian_days(sqlite3_vfs*, double* now) {
  *now = 2'460'000.5;
  return SQLITE_OK;
}
int no_error(sqlite3_vfs*, int, char*) { return 0; }

struct NamedVfs {
  sqlite3_vfs vfs{};
  std::string name;
};

}  // namespace

void register_sim_vfs(SimDisk& disk, const std::string& name) {
  auto named = std::make_unique<NamedVfs>();
  named->name = name;
  sqlite3_vfs& vfs = named->vfs;
  vfs.iVersion = 1;
  vfs.szOsFile = sizeof(Handle);
  vfs.mxPathname = 512;
  vfs.zName = named->name.c_str();
  vfs.pAppData = &disk;
  vfs.xOpen = open_file;
  vfs.xDelete = remove_file;
  vfs.xAccess = check_access;
  vfs.xFullPathname = full_path;
  vfs.xRandomness = randomness;
  vfs.xSleep = no_sleep;
  vfs.xCurrentTime = julian_days;
  vfs.xGetLastError = no_error;
  sqlite3_vfs_register(&named.release()->vfs, 0);
}

void unregister_sim_vfs(const std::string& name) {
  auto* vfs = sqlite3_vfs_find(name.c_str());
  sqlite3_vfs_unregister(vfs);
  delete reinterpret_cast<NamedVfs*>(vfs);
}

// SQLite seeds its generator from its default VFS, which is the system's except for the randomness.
void seed_sqlite(std::uint64_t seed) {
  static sqlite3_vfs system = [] {
    sqlite3_initialize();
    sqlite3_vfs copy = *sqlite3_vfs_find("unix");
    copy.zName = "unix-seeded";
    copy.xRandomness = randomness;
    return copy;
  }();
  if (sqlite3_vfs_find(nullptr) != &system) sqlite3_vfs_register(&system, 1);
  g_seed = seed;
  sqlite3_randomness(0, nullptr);
}

}  // namespace s3oram::test
