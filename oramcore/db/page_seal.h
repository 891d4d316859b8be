// Seals pages of a database with XChaCha20-Poly1305 (libsodium). Nonce and tag lie in the bytes
// that SQLite reserves at the end of each page. A page is bound to its number and its database, and
// in the log to its place there too, so that no page can take another's place.
// No files here. The formats are in docs/formats.md ("vault.db").
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "oramcore/base/bytes.h"
#include "oramcore/base/random.h"

namespace s3oram {

/// The key of a database's pages, and the source of their nonces. Thread-safe; wiped on
/// destruction.
class PageKey {
 public:
  /// Nonces come from the system's generator, unless `random` is given (by the simulator).
  explicit PageKey(const Seed& secret, std::unique_ptr<Random> random = nullptr);
  ~PageKey();
  PageKey(const PageKey&) = delete;
  PageKey& operator=(const PageKey&) = delete;

  const Seed& secret() const { return secret_; }
  void draw(MutableByteSpan out) const;

 private:
  Seed secret_;
  const std::unique_ptr<Random> random_;
  mutable std::mutex mutex_;  // of random_
};

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kSealBytes = 40;          // nonce 24, tag 16: at the end of each page
inline constexpr std::size_t kClearHeaderBytes = 100;  // of page 1: SQLite's header

using Page = std::array<std::uint8_t, kPageBytes>;

/// Identifies a database among those of one key: 4 random bytes, and 4 that depend on them and on
/// the key.
using DatabaseId = std::array<std::uint8_t, 8>;

DatabaseId make_database_id(const PageKey& key);
/// Returns whether `id` was made with this key. (An id of another key passes once in 2^32.)
bool is_of_key(const DatabaseId& id, const PageKey& key);

/// Seals page `number`, from 1, of a database's file. Ignores the last kSealBytes of `page`.
Page seal_page(const PageKey& key, const DatabaseId& id, std::uint32_t number, ByteSpan page);
/// Opens a page in place, with zeros where the seal was. Returns false if it was not sealed as this
/// page of this database; `page` is then undefined.
bool open_page(const PageKey& key, const DatabaseId& id, std::uint32_t number,
               MutableByteSpan page);
/// Returns the id in the seal of a page of a database's file.
DatabaseId database_of(ByteSpan sealed_page);

/// The place that a page in the log is bound to. SQLite's log is a list of frames, each a header
/// and a page.
struct FramePlace {
  std::uint32_t index = 0;              // of the frame, from 1
  std::uint32_t page = 0;               // the number of the page in it
  std::array<std::uint8_t, 8> salts{};  // of this filling of the log, as SQLite draws them
};

/// Seals a page of the log. `durable` is how many frames of the log are durable by now: if one of
/// them is broken later, no crash cut it short, so it has changed.
Page seal_frame(const PageKey& key, const DatabaseId& id, const FramePlace& place,
                std::uint32_t durable, ByteSpan page);
/// Opens a page of the log as open_page() does, and returns `durable`; std::nullopt if it does not
/// open.
std::optional<std::uint32_t> open_frame(const PageKey& key, const DatabaseId& id,
                                        const FramePlace& place, MutableByteSpan page);

/// A record behind the last frame that `durable` frames are durable, written after their sync.
inline constexpr std::size_t kLogMarkBytes = 56;
using LogMark = std::array<std::uint8_t, kLogMarkBytes>;
LogMark make_log_mark(const PageKey& key, const DatabaseId& id,
                      const std::array<std::uint8_t, 8>& salts, std::uint32_t durable);
std::optional<std::uint32_t> read_log_mark(const PageKey& key, const DatabaseId& id,
                                           const std::array<std::uint8_t, 8>& salts, ByteSpan mark);

/// Undoes a single changed bit of a sealed page: tries every bit until the page opens. Only the
/// page that was sealed opens. Takes about 0.1 s for a page that it cannot mend.
bool mend_page(const PageKey& key, const DatabaseId& id, std::uint32_t number,
               MutableByteSpan page);
bool mend_frame(const PageKey& key, const DatabaseId& id, const FramePlace& place,
                MutableByteSpan page);

}  // namespace s3oram
