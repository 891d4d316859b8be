// Seals pages of a database with XChaCha20-Poly1305 (libsodium). Nonce and tag lie in the bytes
// that SQLite reserves at the end of each page. A page is bound to its number and its database, and
// in the log also to its place there, so that no page can replace another.
// This code opens no files. The formats are in docs/formats.md ("vault.db").
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
  /// Nonces come from the system's generator, unless the simulator gives `random`.
  explicit PageKey(const Seed& secret, std::unique_ptr<Random> random = nullptr);
  ~PageKey();
  PageKey(const PageKey&) = delete;
  PageKey& operator=(const PageKey&) = delete;

  const Seed& secret() const { return secret_; }
  void draw(MutableByteSpan out) const;

 private:
  Seed secret_;
  const std::unique_ptr<Random> random_;
  mutable std::mutex mutex_;  // protects random_
};

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kSealBytes = 40;          // nonce 24, tag 16: at the end of each page
inline constexpr std::size_t kClearHeaderBytes = 100;  // bytes of page 1: SQLite's header

using Page = std::array<std::uint8_t, kPageBytes>;

/// Identifies a database among those with the same key: 4 random bytes, and 4 that depend on these
/// and on the key.
using DatabaseId = std::array<std::uint8_t, 8>;

DatabaseId make_database_id(const PageKey& key);
/// Returns whether `id` was made with this key. (An id made with another key passes with a
/// probability of 2^-32.)
bool is_of_key(const DatabaseId& id, const PageKey& key);

/// Seals page `number`, from 1, of a database file. Ignores the last kSealBytes of `page`.
Page seal_page(const PageKey& key, const DatabaseId& id, std::uint32_t number, ByteSpan page);
/// Opens a page in place, with zeros in place of the seal. Returns false if it was not sealed as
/// this page of this database; `page` is then undefined.
bool open_page(const PageKey& key, const DatabaseId& id, std::uint32_t number,
               MutableByteSpan page);
/// Returns the id in the seal of a page of a database file.
DatabaseId database_of(ByteSpan sealed_page);

/// The place to which a page in the log is bound. SQLite's log is a list of frames, each consisting
/// of a header and a page.
struct FramePlace {
  std::uint32_t index = 0;              // number of the frame, from 1
  std::uint32_t page = 0;               // number of the page that the frame holds
  std::array<std::uint8_t, 8> salts{};  // drawn by SQLite for this filling of the log
};

/// Seals a page of the log. `durable` is the number of frames of the log that are durable by now:
/// if one of them is broken later, it was damaged, because no crash can have cut it short.
Page seal_frame(const PageKey& key, const DatabaseId& id, const FramePlace& place,
                std::uint32_t durable, ByteSpan page);
/// Opens a page of the log as open_page() does, and returns `durable`; std::nullopt if it does not
/// open.
std::optional<std::uint32_t> open_frame(const PageKey& key, const DatabaseId& id,
                                        const FramePlace& place, MutableByteSpan page);

/// A record after the last frame, which says that `durable` frames are durable. Written after their
/// sync.
inline constexpr std::size_t kLogMarkBytes = 56;
using LogMark = std::array<std::uint8_t, kLogMarkBytes>;
LogMark make_log_mark(const PageKey& key, const DatabaseId& id,
                      const std::array<std::uint8_t, 8>& salts, std::uint32_t durable);
std::optional<std::uint32_t> read_log_mark(const PageKey& key, const DatabaseId& id,
                                           const std::array<std::uint8_t, 8>& salts, ByteSpan mark);

/// Corrects a single changed bit of a sealed page, by trying every bit until the page opens. Only
/// the page that was sealed opens. Takes about 0.1 s for a page that it cannot correct.
bool mend_page(const PageKey& key, const DatabaseId& id, std::uint32_t number,
               MutableByteSpan page);
bool mend_frame(const PageKey& key, const DatabaseId& id, const FramePlace& place,
                MutableByteSpan page);

}  // namespace s3oram
