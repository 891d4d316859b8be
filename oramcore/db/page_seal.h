// How a page of a database is sealed: XChaCha20-Poly1305 (libsodium), whose nonce and tag lie in
// the bytes that SQLite reserves at the end of each page. A page is bound to its number and to its
// database, a page in the log also to its place there; so none can be put in another's place.
// Pure: no files. The formats are in docs/formats.md ("vault.db").
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
  /// Nonces are the system's random numbers, unless `random` is given (for the simulator).
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

/// Names a database among those of one key: 4 random bytes, and 4 that depend on them and the key.
using DatabaseId = std::array<std::uint8_t, 8>;

DatabaseId make_database_id(const PageKey& key);
/// Whether it was made with this key. (Another key's passes once in 2^32.)
bool is_of_key(const DatabaseId& id, const PageKey& key);

/// Page `number`, from 1, of a database's file. The last kSealBytes of `page` count for nothing.
Page seal_page(const PageKey& key, const DatabaseId& id, std::uint32_t number, ByteSpan page);
/// The page as it was sealed, with zeros where the seal was. False: it is not what was sealed as
/// this page of this database; `page` is then undefined.
bool open_page(const PageKey& key, const DatabaseId& id, std::uint32_t number,
               MutableByteSpan page);
/// The database that a sealed page of its file says that it belongs to.
DatabaseId database_of(ByteSpan sealed_page);

/// What a page in the log is bound to. SQLite's log is a list of frames: a header and a page.
struct FramePlace {
  std::uint32_t index = 0;              // of the frame, from 1
  std::uint32_t page = 0;               // the number of the page in it
  std::array<std::uint8_t, 8> salts{};  // of this filling of the log, as SQLite draws them
};

/// `durable`: so many frames of the log are known to be durable by now. Whoever finds one of them
/// broken knows that it was not cut short by a crash, but has changed afterwards.
Page seal_frame(const PageKey& key, const DatabaseId& id, const FramePlace& place,
                std::uint32_t durable, ByteSpan page);
/// As open_page(); gives `durable`.
std::optional<std::uint32_t> open_frame(const PageKey& key, const DatabaseId& id,
                                        const FramePlace& place, MutableByteSpan page);

/// A note behind the last frame that so many frames are durable; written when they are.
inline constexpr std::size_t kLogMarkBytes = 56;
using LogMark = std::array<std::uint8_t, kLogMarkBytes>;
LogMark make_log_mark(const PageKey& key, const DatabaseId& id,
                      const std::array<std::uint8_t, 8>& salts, std::uint32_t durable);
std::optional<std::uint32_t> read_log_mark(const PageKey& key, const DatabaseId& id,
                                           const std::array<std::uint8_t, 8>& salts, ByteSpan mark);

/// Undoes a single bit that has changed in a sealed page: tries each of them until the page opens,
/// which nothing but what was sealed does. About 0.1 s for a page that it cannot mend.
bool mend_page(const PageKey& key, const DatabaseId& id, std::uint32_t number,
               MutableByteSpan page);
bool mend_frame(const PageKey& key, const DatabaseId& id, const FramePlace& place,
                MutableByteSpan page);

}  // namespace s3oram
