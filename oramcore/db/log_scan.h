// Checks that a sealed log is whole as far as it was durable. SQLite treats the first frame with a
// wrong checksum as the end of a log that a crash cut short, and reports nothing, so all commits
// from that frame on would be lost. A crash never cuts a durable frame short, so such a frame is
// damaged. Later frames and the mark at the end show which frames were durable (page_seal.h).
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

/// Returns where frame `index`, from 1, begins in the log.
constexpr std::uint64_t frame_offset(std::uint32_t index) {
  return kLogHeaderBytes + std::uint64_t{index - 1} * kFrameBytes;
}
/// Returns where the mark for `durable` frames lies: after the last of them, in another sector on
/// any disk, so that the loss of one sector spares either the frame or the mark.
constexpr std::uint64_t mark_offset(std::uint32_t durable) {
  constexpr std::uint64_t kSector = 4096;
  return (frame_offset(durable + 1) + kSector - 1) / kSector * kSector;
}

struct FrameHeader {
  FramePlace place;
  std::uint32_t pages = 0;  // pages of the database after the commit that this frame ends, or 0
};
FrameHeader read_frame_header(std::uint32_t index, ByteSpan header);
std::array<std::uint8_t, 8> salts_of_log(ByteSpan header);

using Salts = std::array<std::uint8_t, 8>;

struct LogFrame {
  FrameHeader header;
  bool opens = false;     // the page was sealed for this place and this filling of the log
  bool accepted = false;  // SQLite accepts the frame too
};

struct LogScan {
  std::vector<LogFrame> frames;  // the file's frames, in order
  Salts salts{};                 // salts of this filling of the log
  std::uint32_t durable = 0;     // frames that were durable, from the first on
  bool header_damaged = false;   // SQLite would treat the log as empty although it has frames
  std::uint32_t accepted = 0;    // frames that SQLite accepts, from the first on
  /// Returns the first durable frame that SQLite would leave out, or 0 if that is the log's header;
  /// std::nullopt if there is none.
  std::optional<std::uint32_t> damage() const;
};

/// Reads bytes of a log. Returns false if they could not be read.
using LogReader = std::function<bool(std::uint64_t offset, MutableByteSpan out)>;

/// Scans a log of `size` bytes. Returns std::nullopt if it could not be read.
std::optional<LogScan> scan_log(const LogReader& read, std::uint64_t size, const PageKey& key,
                                const DatabaseId& id);

}  // namespace s3oram
