// Reads a sealed database page by page, without SQLite.
#include "oramcore/db/gather_pages.h"

#include <algorithm>
#include <map>
#include <memory>

#include "oramcore/base/disk.h"
#include "oramcore/db/database_file.h"
#include "oramcore/db/log_scan.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMostMended = 1000;  // attempts at correcting a bit, a tenth of a second each

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : size;
}

class Gathering {
 public:
  Gathering(const fs::path& from, const PageKey& key) : from_(from), key_(key) {}

  Result<GatheredPages> into(const fs::path& to) {
    S3O_TRY(open());
    if (Status found = find_id(); !found) return fail(found.error());
    S3O_TRY(read_log());
    S3O_ASSIGN(auto made, system_disk().open(to));
    if (pages_ == 0) pages_ = static_cast<std::uint32_t>(size_of(from_) / kPageBytes);
    for (std::uint32_t number = 1; number <= pages_; ++number) S3O_TRY(copy(number, *made));
    S3O_TRY(made->sync());
    found_.pages = pages_;
    return std::move(found_);
  }

 private:
  Status open() {
    S3O_ASSIGN(auto file, system_disk().open(from_));
    file_ = std::move(file);
    if (size_of(log_of(from_)) == 0) return {};
    S3O_ASSIGN(auto log, system_disk().open(log_of(from_)));
    log_ = std::move(log);
    return {};
  }

  /// Takes the id that most pages have, because the first page may be damaged.
  Status find_id() {
    std::map<DatabaseId, unsigned> said;
    constexpr std::uint64_t kMost = 1000;
    const std::uint64_t count = std::min(size_of(from_) / kPageBytes, kMost);
    for (std::uint64_t page = 0; page < count; ++page) {
      Page bytes;
      if (!file_->read(page * kPageBytes, bytes)) continue;
      const DatabaseId id = database_of(bytes);
      if (is_of_key(id, key_)) ++said[id];
    }
    if (said.empty())
      return fail(Errc::damaged_vault, "{}: no page of it was sealed with this vault's key",
                  from_.string());
    id_ = std::ranges::max_element(said, {}, [](const auto& each) { return each.second; })->first;
    return {};
  }

  /// Finds the frame that holds the newest content of each page.
  Status read_log() {
    if (!log_) return {};
    Status read;
    const LogReader reader = [&](std::uint64_t offset, MutableByteSpan out) {
      read = log_->read(offset, out);
      return read.has_value();
    };
    auto scan = scan_log(reader, size_of(log_of(from_)), key_, id_);
    if (!scan) return read;
    const std::uint32_t end = last_commit(*scan);
    for (std::uint32_t index = 1; index <= end; ++index) {
      LogFrame& frame = scan->frames[index - 1];
      if (!frame.opens && !mends(frame.header.place, scan->salts)) {
        found_.lost.push_back(fmt::format(
            "frame {} of vault.db-wal, which held the newest version of a page, is lost", index));
        // The frame's header names the page, unless the header is damaged too.
        newest_.erase(frame.header.place.page);
        stale_.insert_or_assign(frame.header.place.page, index);
        continue;
      }
      newest_.insert_or_assign(frame.header.place.page, frame.header.place);
      stale_.erase(frame.header.place.page);
      if (frame.header.pages != 0) pages_ = frame.header.pages;
    }
    return {};
  }

  /// Returns the last frame that counts: the end of the last commit that was durable or that SQLite
  /// accepts. Frames after it were never committed.
  static std::uint32_t last_commit(const LogScan& scan) {
    std::uint32_t last = scan.durable;
    for (std::uint32_t index = scan.durable + 1; index <= scan.accepted; ++index)
      if (scan.frames[index - 1].header.pages != 0) last = index;
    return std::min<std::uint32_t>(last, static_cast<std::uint32_t>(scan.frames.size()));
  }

  bool read_frame(const FramePlace& place, Page& page) {
    return log_->read(frame_offset(place.index) + kFrameHeaderBytes, page).has_value();
  }

  /// Tries to undo a single changed bit in the frame or in its header.
  bool mends(FramePlace& place, const Salts& salts) {
    Page page;
    if (attempts_++ >= kMostMended || !read_frame(place, page)) return false;
    const FramePlace found = place;
    place.salts = salts;
    for (unsigned bit = 0; bit <= 32; ++bit) {
      place.page = bit < 32 ? found.page ^ 1u << bit : found.page;
      Page attempt = page;
      if (!open_frame(key_, id_, place, attempt)) continue;
      ++found_.mended;
      return true;
    }
    if (!mend_frame(key_, id_, place, page)) return false;
    ++found_.mended;
    return true;
  }

  Status copy(std::uint32_t number, File& to) {
    Page page{};
    if (content_of(number, page)) {
      const Page sealed = seal_page(key_, id_, number, page);
      return to.write(std::uint64_t{number - 1} * kPageBytes, sealed);
    }
    found_.lost.push_back(fmt::format("page {} is lost", number));
    return to.write(std::uint64_t{number - 1} * kPageBytes, Page{});
  }

  bool content_of(std::uint32_t number, Page& page) {
    if (const auto at = newest_.find(number); at != newest_.end()) {
      if (!read_frame(at->second, page)) return false;
      const Page sealed = page;
      if (open_frame(key_, id_, at->second, page)) return true;
      page = sealed;
      return mend_frame(key_, id_, at->second, page);
    }
    if (stale_.contains(number)) return false;  // the file holds an older version of the page
    if (!file_->read(std::uint64_t{number - 1} * kPageBytes, page)) return false;
    const Page sealed = page;
    if (open_page(key_, id_, number, page)) return true;
    constexpr std::uint32_t kLockPage = (1u << 30) / kPageBytes + 1;  // SQLite's, never written
    if (number == kLockPage) return page = {}, true;
    page = sealed;
    if (attempts_++ >= kMostMended || !mend_page(key_, id_, number, page)) return false;
    ++found_.mended;
    return true;
  }

  const fs::path from_;
  const PageKey& key_;
  DatabaseId id_{};
  std::unique_ptr<File> file_, log_;
  std::map<std::uint32_t, FramePlace> newest_;    // by page
  std::map<std::uint32_t, std::uint32_t> stale_;  // pages whose newest frame is lost
  std::uint32_t pages_ = 0;
  unsigned attempts_ = 0;
  GatheredPages found_;
};

}  // namespace

Result<GatheredPages> gather_pages(const fs::path& from, const fs::path& to, const PageKey& key) {
  return Gathering(from, key).into(to);
}

}  // namespace s3oram
