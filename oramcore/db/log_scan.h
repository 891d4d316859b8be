// Whether a sealed log is whole as far as it was durable. SQLite takes the first frame whose
// checksum is wrong for the end of a log that a crash cut short, and says nothing: all commits from
// there on would be gone. A frame that was durable is never cut short, so it has changed by itself.
// Which frames were durable say the frames after them and the mark at the end (page_seal.h).
//
// The layout of the log is SQLite's: https://sqlite.org/fileformat.html#the_write_ahead_log.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "oramcore/db/page_seal.h"

namespace s3oram {

inline constexpr std::size_t kLogHeaderBytes = 32, kFrameHeaderBytes = 24;
inline constexpr std::size_t kFrameBytes = kFrameHeaderBytes + kPageBytes;

/// Where frame `index`, from 1, begins in the log.
constexpr std::uint64_t frame_offset(std::uint32_t index) {
  return kLogHeaderBytes + std::uint64_t{index - 1} * kFrameBytes;
}
/// Where the mark lies when `durable` frames are: behind the last of them, in another
/// sector of any disk, so that the loss of one spares the frame or the mark.
constexpr std::uint64_t mark_offset(std::uint32_t durable) {
  constexpr std::uint64_t kSector = 4096;
  return (frame_offset(durable + 1) + kSector - 1) / kSector * kSector;
}

struct FrameHeader {
  FramePlace place;
  std::uint32_t pages = 0;  // of the database after the commit that this frame ends; or 0
};
FrameHeader read_frame_header(std::uint32_t index, ByteSpan header);
std::array<std::uint8_t, 8> salts_of_log(ByteSpan header);

using Salts = std::array<std::uint8_t, 8>;

struct LogFrame {
  FrameHeader header;
  bool opens = false;     // the page is what was sealed there, in this filling of the log
  bool accepted = false;  // by SQLite too
};

struct LogScan {
  std::vector<LogFrame> frames;  // of the file, in order
  Salts salts{};                 // of this filling of the log
  std::uint32_t durable = 0;     // so many of them were
  bool header_damaged = false;   // SQLite takes the log for empty, and it was not
  std::uint32_t accepted = 0;    // so many SQLite takes, from the first on
  /// Of what was durable, the first frame that SQLite would leave out; 0: the log's header.
  std::optional<std::uint32_t> damage() const;
};

/// Reads bytes of a log; false: they could not be read.
using LogReader = std::function<bool(std::uint64_t offset, MutableByteSpan out)>;

/// Of a log of `size` bytes. Nothing: it could not be read.
std::optional<LogScan> scan_log(const LogReader& read, std::uint64_t size, const PageKey& key,
                                const DatabaseId& id);

}  // namespace s3oram
