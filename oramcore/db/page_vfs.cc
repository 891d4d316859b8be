// Implements SQLite's VFS interface (sqlite3.h: sqlite3_vfs, sqlite3_io_methods). SQLite's file
// formats (https://sqlite.org/fileformat.html) and its code for logs determine which reads and
// writes occur:
//   a database   whole pages; parts of the header of page 1
//   a log        its header; frames' headers, pages, and parts of headers; whole frames
// All others are rejected, so that nothing passes unsealed.
#include "oramcore/db/page_vfs.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "oramcore/db/log_scan.h"

namespace s3oram {
namespace {

enum class Kind { other, database, log };

struct SealedFile {
  sqlite3_file base;  // first, so that SQLite's pointer is ours
  PageVfs* vfs;
  const char* path;  // kept by SQLite while the file is open
  Kind kind;
  bool sealed;
  // For a database.
  bool knows_id;
  DatabaseId id;
  // For a log.
  SealedFile* database;
  bool recovering;  // the header was read, and nothing has been written since
  bool knows_salts;
  Salts salts;
  FrameHeader begun;        // the frame header that was written last
  std::uint32_t committed;  // frames that this connection committed in this filling of the log
  std::uint32_t durable;    // the durable ones among these

  sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  const sqlite3_io_methods& methods() { return *below()->pMethods; }
  int read(void* out, std::size_t size, std::uint64_t offset) {
    return methods().xRead(below(), out, static_cast<int>(size),
                           static_cast<sqlite3_int64>(offset));
  }
  int write(const void* data, std::size_t size, std::uint64_t offset) {
    return methods().xWrite(below(), data, static_cast<int>(size),
                            static_cast<sqlite3_int64>(offset));
  }
  const PageKey& key() const { return vfs->key(); }
};

SealedFile& sealed_file(sqlite3_file* file) { return *reinterpret_cast<SealedFile*>(file); }

int damaged(SealedFile& file, std::string_view what) {
  const char* separator = file.kind == Kind::log ? ": damaged: " : ": ";
  file.vfs->note_damage(fmt::format("{}{}{}", file.path, separator, what));
  return SQLITE_IOERR_DATA;
}

bool is_zero(ByteSpan bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

// ---- a database's pages

/// Reads the id of the database, which is in each page; the id in the first page counts.
int find_id(SealedFile& file) {
  if (file.knows_id) return SQLITE_OK;
  const int rc = file.read(file.id.data(), file.id.size(), kPageBytes - kSealBytes);
  file.knows_id = rc == SQLITE_OK;
  return rc;
}

int read_page(SealedFile& file, std::uint8_t* out, std::uint64_t offset) {
  const auto number = static_cast<std::uint32_t>(offset / kPageBytes + 1);
  int rc = find_id(file);
  if (rc == SQLITE_OK) rc = file.read(out, kPageBytes, offset);
  if (rc == SQLITE_IOERR_SHORT_READ)
    return damaged(file, fmt::format("page {} is missing", number));
  if (rc != SQLITE_OK) return rc;
  if (!open_page(file.key(), file.id, number, {out, kPageBytes}))
    return damaged(file, fmt::format("page {} is damaged", number));
  return SQLITE_OK;
}

int read_database(SealedFile& file, std::uint8_t* out, std::size_t size, std::uint64_t offset) {
  if (size == kPageBytes && offset % kPageBytes == 0) return read_page(file, out, offset);
  if (offset + size <= kClearHeaderBytes) return file.read(out, size, offset);
  return damaged(file, "its header is damaged");  // SQLite took a wrong page size from it
}

int write_database(SealedFile& file, const std::uint8_t* data, std::size_t size,
                   std::uint64_t offset) {
  const ByteSpan page(data, size);
  if (size != kPageBytes || offset % kPageBytes != 0 || !is_zero(page.last(kSealBytes)))
    return SQLITE_IOERR_WRITE;
  if (!file.knows_id && find_id(file) == SQLITE_IOERR_SHORT_READ) {
    file.id = make_database_id(file.key());
    file.knows_id = true;
  }
  if (!file.knows_id) return SQLITE_IOERR_WRITE;
  const auto number = static_cast<std::uint32_t>(offset / kPageBytes + 1);
  const Page sealed = seal_page(file.key(), file.id, number, page);
  return file.write(sealed.data(), sealed.size(), offset);
}

// ---- a log's frames

/// The place of an offset in the log.
struct LogPlace {
  std::uint32_t index;   // number of the frame; 0 for the log's header
  std::uint64_t within;  // offset from its beginning
};
LogPlace place_of(std::uint64_t offset) {
  if (offset < kLogHeaderBytes) return {0, offset};
  const std::uint64_t behind = offset - kLogHeaderBytes;
  return {static_cast<std::uint32_t>(behind / kFrameBytes + 1), behind % kFrameBytes};
}

int read_salts(SealedFile& log) {
  std::array<std::uint8_t, kLogHeaderBytes> header{};
  const int rc = log.read(header.data(), header.size(), 0);
  log.salts = salts_of_log(header);
  log.knows_salts = rc == SQLITE_OK;
  return rc;
}

/// Opens the page of a frame whose header and page are `frame`. The salts come from the log's
/// header, because SQLite leaves them out of the frames of a transaction that is not yet committed.
/// Returns SQLITE_IOERR_DATA if the frame does not open. A header that cannot be read is another
/// error, because it does not say that the frame is broken.
int open_in_place(SealedFile& log, std::uint32_t index, ByteSpan frame, std::uint8_t* out) {
  FramePlace place = read_frame_header(index, frame).place;
  const Salts known = log.salts;
  for (const bool again : {false, true}) {
    if (again || !log.knows_salts) {
      // Another connection may have started the log again since the salts were last read.
      if (const int rc = read_salts(log); rc != SQLITE_OK) return rc;
      if (again && log.salts == known) return SQLITE_IOERR_DATA;
    }
    place.salts = log.salts;
    Page page;
    std::ranges::copy(frame.subspan(kFrameHeaderBytes), page.begin());
    if (!open_frame(log.key(), log.database->id, place, page)) continue;
    std::ranges::copy(page, out);
    return SQLITE_OK;
  }
  return SQLITE_IOERR_DATA;
}

int read_frame_page(SealedFile& log, std::uint8_t* out, std::uint32_t index) {
  std::array<std::uint8_t, kFrameBytes> frame;
  int rc = find_id(*log.database);
  if (rc == SQLITE_OK) rc = log.read(frame.data(), frame.size(), frame_offset(index));
  if (rc == SQLITE_IOERR_SHORT_READ) return damaged(log, fmt::format("frame {} is missing", index));
  if (rc != SQLITE_OK) return rc;
  rc = open_in_place(log, index, frame, out);
  if (rc == SQLITE_IOERR_DATA) return damaged(log, fmt::format("frame {} cannot be read", index));
  return rc;
}

/// Reads a whole frame. SQLite does this for two reasons: to recover a log, where the first broken
/// frame is the end, and to compute new checksums for frames that a transaction has written twice.
int read_frame(SealedFile& log, std::uint8_t* out, std::uint32_t index) {
  int rc = log.read(out, kFrameBytes, frame_offset(index));
  if (rc == SQLITE_OK)
    rc = open_in_place(log, index, ByteSpan(out, kFrameBytes), out + kFrameHeaderBytes);
  if (rc != SQLITE_IOERR_DATA) return rc;
  if (!log.recovering) return damaged(log, fmt::format("frame {} cannot be read", index));
  std::memset(out, 0, kFrameHeaderBytes);  // no frame has page 0
  return SQLITE_OK;
}

/// Scans the log for damage. SQLite reads the log's header when it begins to recover the log, while
/// all other connections are locked out.
int begin_recovery(SealedFile& log) {
  sqlite3_int64 size = 0;
  if (const int rc = log.methods().xFileSize(log.below(), &size); rc != SQLITE_OK) return rc;
  int rc = find_id(*log.database);
  if (rc != SQLITE_OK) return rc;
  const auto read = [&](std::uint64_t offset, MutableByteSpan out) {
    rc = log.read(out.data(), out.size(), offset);
    return rc == SQLITE_OK;
  };
  const auto scan = scan_log(read, static_cast<std::uint64_t>(size), log.key(), log.database->id);
  if (!scan) return rc;
  const auto found = scan->damage();
  if (!found) return SQLITE_OK;
  if (*found == 0) return damaged(log, "its header, although there are frames after it");
  return damaged(log, fmt::format("frame {} of {} that were durable", *found, scan->durable));
}

int read_log(SealedFile& log, std::uint8_t* out, std::size_t size, std::uint64_t offset) {
  const LogPlace at = place_of(offset);
  if (at.index == 0 && at.within == 0 && size == kLogHeaderBytes) {
    if (const int rc = begin_recovery(log); rc != SQLITE_OK) return rc;
    log.recovering = true;
    log.knows_salts = false;
    return log.read(out, size, offset);
  }
  if (at.index == 0 && at.within + size <= kLogHeaderBytes) return log.read(out, size, offset);
  if (at.index != 0 && at.within == 0 && size == kFrameBytes) return read_frame(log, out, at.index);
  if (at.index != 0 && at.within == kFrameHeaderBytes && size == kPageBytes)
    return read_frame_page(log, out, at.index);
  if (at.index != 0 && at.within + size <= kFrameHeaderBytes) return log.read(out, size, offset);
  return SQLITE_IOERR_READ;
}

int write_frame_page(SealedFile& log, ByteSpan page, std::uint32_t index) {
  if (!is_zero(page.last(kSealBytes))) return SQLITE_IOERR_WRITE;
  if (const int rc = find_id(*log.database); rc != SQLITE_OK) return rc;
  FrameHeader header = log.begun;
  if (header.place.index != index) {  // written once more, under the existing header
    std::array<std::uint8_t, kFrameHeaderBytes> bytes{};
    const int rc = log.read(bytes.data(), bytes.size(), frame_offset(index));
    if (rc != SQLITE_OK) return rc;
    header = read_frame_header(index, bytes);
  }
  if (!log.knows_salts)
    if (const int rc = read_salts(log); rc != SQLITE_OK) return rc;
  header.place.salts = log.salts;
  const Page sealed = seal_frame(log.key(), log.database->id, header.place, log.durable, page);
  const int rc = log.write(sealed.data(), sealed.size(), frame_offset(index) + kFrameHeaderBytes);
  if (rc == SQLITE_OK && header.pages != 0) log.committed = index;
  return rc;
}

/// Begins a filling of the log, of which this connection has written nothing yet.
void begin_filling(SealedFile& log, const Salts& salts) {
  log.committed = log.durable = 0;
  log.salts = salts;
  log.knows_salts = true;
}

/// Withdraws a mark, because SQLite is rewriting a durable frame whose commit it has undone.
void retract(SealedFile& log, std::uint32_t index) {
  const LogMark none{};
  static_cast<void>(log.write(none.data(), none.size(), mark_offset(log.durable)));
  log.committed = log.durable = index - 1;
}

int write_log(SealedFile& log, const std::uint8_t* data, std::size_t size, std::uint64_t offset) {
  const LogPlace at = place_of(offset);
  log.recovering = false;
  if (at.index == 0 && at.within == 0 && size == kLogHeaderBytes) {
    begin_filling(log, salts_of_log({data, size}));
    log.begun = {};
    return log.write(data, size, offset);
  }
  if (at.index != 0 && at.within == 0 && size == kFrameHeaderBytes) {
    log.begun = read_frame_header(at.index, {data, size});
    // A frame without salts belongs to a transaction that has already written frames with them.
    const Salts& salts = log.begun.place.salts;
    if (!is_zero(salts) && !(log.knows_salts && salts == log.salts)) begin_filling(log, salts);
    if (at.index <= log.durable) retract(log, at.index);
    return log.write(data, size, offset);
  }
  if (at.index != 0 && at.within == kFrameHeaderBytes && size == kPageBytes)
    return write_frame_page(log, {data, size}, at.index);
  return SQLITE_IOERR_WRITE;
}

/// Records that all commits of this connection are durable. The mark itself does not have to be
/// durable.
void note_durable(SealedFile& log) {
  if (log.committed <= log.durable) return;
  log.durable = log.committed;
  const LogMark mark = make_log_mark(log.key(), log.database->id, log.salts, log.durable);
  static_cast<void>(log.write(mark.data(), mark.size(), mark_offset(log.durable)));
}

// ---- SQLite's methods

int close_file(sqlite3_file* file) {
  SealedFile& f = sealed_file(file);
  return f.methods().xClose(f.below());
}

int read_file(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
  SealedFile& f = sealed_file(file);
  auto* bytes = static_cast<std::uint8_t*>(out);
  const auto count = static_cast<std::size_t>(size);
  const auto at = static_cast<std::uint64_t>(offset);
  if (!f.sealed) return f.read(out, count, at);
  return f.kind == Kind::log ? read_log(f, bytes, count, at) : read_database(f, bytes, count, at);
}

int write_file(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
  SealedFile& f = sealed_file(file);
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  const auto count = static_cast<std::size_t>(size);
  const auto at = static_cast<std::uint64_t>(offset);
  if (!f.sealed) return f.write(data, count, at);
  return f.kind == Kind::log ? write_log(f, bytes, count, at) : write_database(f, bytes, count, at);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  SealedFile& f = sealed_file(file);
  if (f.kind == Kind::log && size == 0) f.committed = f.durable = 0;
  return f.methods().xTruncate(f.below(), size);
}

int sync_file(sqlite3_file* file, int flags) {
  SealedFile& f = sealed_file(file);
  const int rc = f.methods().xSync(f.below(), flags);
  if (!f.sealed || f.kind != Kind::log) return rc;
  if (rc == SQLITE_OK)
    note_durable(f);
  else
    f.committed = f.durable;  // SQLite withdraws it
  return rc;
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  SealedFile& f = sealed_file(file);
  return f.methods().xFileSize(f.below(), size);
}
int lock_file(sqlite3_file* file, int level) {
  SealedFile& f = sealed_file(file);
  return f.methods().xLock(f.below(), level);
}
int unlock_file(sqlite3_file* file, int level) {
  SealedFile& f = sealed_file(file);
  return f.methods().xUnlock(f.below(), level);
}
int check_reserved(sqlite3_file* file, int* reserved) {
  SealedFile& f = sealed_file(file);
  return f.methods().xCheckReservedLock(f.below(), reserved);
}
int control(sqlite3_file* file, int operation, void* argument) {
  SealedFile& f = sealed_file(file);
  return f.methods().xFileControl(f.below(), operation, argument);
}
int sector_size(sqlite3_file* file) {
  SealedFile& f = sealed_file(file);
  return f.methods().xSectorSize(f.below());
}
int characteristics(sqlite3_file* file) {
  SealedFile& f = sealed_file(file);
  return f.methods().xDeviceCharacteristics(f.below());
}
int map_memory(sqlite3_file* file, int region, int size, int extend, void volatile** out) {
  SealedFile& f = sealed_file(file);
  return f.methods().xShmMap(f.below(), region, size, extend, out);
}
int lock_memory(sqlite3_file* file, int offset, int count, int flags) {
  SealedFile& f = sealed_file(file);
  return f.methods().xShmLock(f.below(), offset, count, flags);
}
void memory_barrier(sqlite3_file* file) {
  SealedFile& f = sealed_file(file);
  f.methods().xShmBarrier(f.below());
}
int unmap_memory(sqlite3_file* file, int remove) {
  SealedFile& f = sealed_file(file);
  return f.methods().xShmUnmap(f.below(), remove);
}

// There is no xFetch, so SQLite maps no file and reads all pages through this VFS.
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

struct Behind {
  sqlite3_vfs* below;
  PageVfs* owner;
};
Behind behind(sqlite3_vfs* vfs) { return *static_cast<Behind*>(vfs->pAppData); }

/// Determines the kind of a database: it is sealed if it is new or has reserved bytes. (No single
/// changed bit makes the number of reserved bytes 0.)
int find_kind(SealedFile& file) {
  std::array<std::uint8_t, kClearHeaderBytes> header{};
  const int rc = file.read(header.data(), header.size(), 0);
  if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ) return rc;
  constexpr std::size_t kReserved = 20;
  sqlite3_int64 size = 0;
  if (const int sized = file.methods().xFileSize(file.below(), &size); sized != SQLITE_OK)
    return sized;
  file.sealed = size == 0 || header[kReserved] != 0;
  return SQLITE_OK;
}

int open_file(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  constexpr int kKnown = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL;
  file->pMethods = nullptr;
  if (!name || (flags & kKnown) == 0) return SQLITE_CANTOPEN;
  const auto [below, owner] = behind(vfs);
  auto& f = *new (file) SealedFile{};
  f.vfs = owner;
  f.path = name;
  const int rc = below->xOpen(below, name, f.below(), flags, out_flags);
  if (rc != SQLITE_OK) return rc;
  file->pMethods = &kMethods;
  if ((flags & SQLITE_OPEN_MAIN_DB) != 0) {
    f.kind = Kind::database;
    return find_kind(f);
  }
  if ((flags & SQLITE_OPEN_WAL) != 0) {
    f.kind = Kind::log;
    f.database = &sealed_file(sqlite3_database_file_object(name));
    f.sealed = f.database->sealed;
  }
  return SQLITE_OK;
}

int remove_file(sqlite3_vfs* vfs, const char* name, int sync_names) {
  sqlite3_vfs* below = behind(vfs).below;
  return below->xDelete(below, name, sync_names);
}
int check_access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
  sqlite3_vfs* below = behind(vfs).below;
  return below->xAccess(below, name, flags, result);
}
int full_path(sqlite3_vfs* vfs, const char* name, int size, char* out) {
  sqlite3_vfs* below = behind(vfs).below;
  return below->xFullPathname(below, name, size, out);
}
int randomness(sqlite3_vfs* vfs, int size, char* out) {
  sqlite3_vfs* below = behind(vfs).below;
  return below->xRandomness(below, size, out);
}
int sleep_for(sqlite3_vfs* vfs, int microseconds) {
  sqlite3_vfs* below = behind(vfs).below;
  return below->xSleep(below, microseconds);
}
int julian_days(sqlite3_vfs* vfs, double* now) {
  sqlite3_vfs* below = behind(vfs).below;
  return below->xCurrentTime(below, now);
}
int last_error(sqlite3_vfs* vfs, int size, char* text) {
  sqlite3_vfs* below = behind(vfs).below;
  return below->xGetLastError(below, size, text);
}

}  // namespace

struct PageVfs::Registered {
  sqlite3_vfs vfs{};
  Behind behind{};
};

PageVfs::PageVfs(const PageKey& key, const std::string& base)
    : key_(key), registered_(std::make_unique<Registered>()) {
  static std::atomic<std::uint64_t> count{0};
  name_ = fmt::format("s3oramfs-pages-{}", ++count);
  sqlite3_vfs* below = sqlite3_vfs_find(base.empty() ? nullptr : base.c_str());
  registered_->behind = {below, this};
  sqlite3_vfs& vfs = registered_->vfs;
  vfs.iVersion = 1;
  vfs.szOsFile = static_cast<int>(sizeof(SealedFile)) + below->szOsFile;
  vfs.mxPathname = below->mxPathname;
  vfs.zName = name_.c_str();
  vfs.pAppData = &registered_->behind;
  vfs.xOpen = open_file;
  vfs.xDelete = remove_file;
  vfs.xAccess = check_access;
  vfs.xFullPathname = full_path;
  vfs.xRandomness = randomness;
  vfs.xSleep = sleep_for;
  vfs.xCurrentTime = julian_days;
  vfs.xGetLastError = last_error;
  sqlite3_vfs_register(&vfs, 0);
}

PageVfs::~PageVfs() { sqlite3_vfs_unregister(&registered_->vfs); }

std::string PageVfs::damage() const {
  const std::lock_guard lock(mutex_);
  return damage_;
}

void PageVfs::note_damage(std::string what) {
  const std::lock_guard lock(mutex_);
  damage_ = std::move(what);
}

bool PageVfs::seals(sqlite3* connection) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(connection, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  return file && file->pMethods == &kMethods && sealed_file(file).sealed;
}

const PageVfs* PageVfs::of(sqlite3* connection) {
  sqlite3_vfs* vfs = nullptr;
  sqlite3_file_control(connection, "main", SQLITE_FCNTL_VFS_POINTER, &vfs);
  return vfs && vfs->xOpen == open_file ? behind(vfs).owner : nullptr;
}

}  // namespace s3oram
