// Reads a log as SQLite's recovery does, and continues where that would stop.
#include "oramcore/db/log_scan.h"

#include <algorithm>

namespace s3oram {
namespace {

std::uint32_t big_endian(ByteSpan bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

Salts salts_at(ByteSpan bytes) {
  Salts salts;
  std::ranges::copy(bytes.first(salts.size()), salts.begin());
  return salts;
}

/// SQLite's running checksum of a log: each frame's checksum continues that of the previous frame.
class Checksum {
 public:
  explicit Checksum(bool big) : big_(big) {}
  void add(ByteSpan bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += 8) {
      first_ += word(bytes.subspan(at)) + second_;
      second_ += word(bytes.subspan(at + 4)) + first_;
    }
  }
  bool is(ByteSpan stored) const {
    return big_endian(stored) == first_ && big_endian(stored.subspan(4)) == second_;
  }

 private:
  std::uint32_t word(ByteSpan b) const {
    if (big_) return big_endian(b);
    return b[0] | b[1] << 8 | b[2] << 16 | static_cast<std::uint32_t>(b[3]) << 24;
  }
  bool big_;
  std::uint32_t first_ = 0, second_ = 0;
};

constexpr std::uint32_t kMagic = 0x377f0682;  // and 1 more if the checksums are big-endian

class Scan {
 public:
  Scan(const LogReader& read, std::uint64_t size, const PageKey& key, const DatabaseId& id)
      : read_(read), size_(size), key_(key), id_(id) {}

  std::optional<LogScan> run() {
    std::array<std::uint8_t, kLogHeaderBytes> header{};
    if (size_ < header.size()) return scan_;
    if (!read_(0, header)) return std::nullopt;
    const std::uint32_t magic = big_endian(header);
    sum_ = Checksum((magic & 1) != 0);
    sum_.add(ByteSpan(header).first(24));
    header_is_whole_ = (magic & ~1u) == kMagic && sum_.is(ByteSpan(header).subspan(24));
    if (header_is_whole_) know_salts(salts_of_log(header));
    goes_on_ = header_is_whole_;
    const auto count = static_cast<std::uint32_t>((size_ - kLogHeaderBytes) / kFrameBytes);
    for (std::uint32_t index = 1; index <= count; ++index)
      if (!look_at(index)) return std::nullopt;
    // The mark lies after the last frame, and may be the last thing in the file.
    if (!look_for_mark(count)) return std::nullopt;
    scan_.salts = salts_;
    return std::move(scan_);
  }

 private:
  bool look_at(std::uint32_t index) {
    std::array<std::uint8_t, kFrameBytes> frame;
    if (!read_(frame_offset(index), frame)) return false;
    const ByteSpan stored = ByteSpan(frame).first(kFrameHeaderBytes);
    LogFrame found{.header = read_frame_header(index, stored)};
    const FramePlace& place = found.header.place;
    if (!knows_salts_ || place.salts == salts_) {
      const MutableByteSpan page = MutableByteSpan(frame).subspan(kFrameHeaderBytes);
      const auto durable = open_frame(key_, id_, place, page);
      found.opens = durable.has_value();
      scan_.durable = std::max(scan_.durable, durable.value_or(0));
      scan_.header_damaged |= found.opens && !header_is_whole_;
      found.accepted = goes_on_ && found.opens && goes_on(stored, page);
      if (found.opens) know_salts(place.salts);
    }
    goes_on_ = found.accepted;
    scan_.accepted += found.accepted;
    scan_.frames.push_back(found);
    return found.opens || look_for_mark(index - 1);
  }

  bool goes_on(ByteSpan stored, ByteSpan page) {
    sum_.add(stored.first(8));
    sum_.add(page);
    return big_endian(stored) != 0 && sum_.is(stored.subspan(16));
  }

  /// Sets the salts, which identify this filling of the log. If the log's header is damaged they
  /// come from the first frame that opens, because the log is filled from its beginning.
  void know_salts(const Salts& salts) {
    knows_salts_ = true;
    salts_ = salts;
  }

  /// Reads the mark that says that `durable` frames are durable, if it exists.
  bool look_for_mark(std::uint32_t durable) {
    if (durable == 0 || mark_offset(durable) + kLogMarkBytes > size_) return true;
    LogMark mark{};
    if (!read_(mark_offset(durable), mark)) return false;
    const auto said = read_log_mark(key_, id_, salts_, mark);
    if (said == durable) scan_.durable = std::max(scan_.durable, durable);
    return true;
  }

  const LogReader& read_;
  const std::uint64_t size_;
  const PageKey& key_;
  const DatabaseId& id_;
  bool header_is_whole_ = false;
  bool goes_on_ = false;  // SQLite accepts every frame so far
  bool knows_salts_ = false;
  Salts salts_{};
  Checksum sum_{false};
  LogScan scan_;
};

}  // namespace

FrameHeader read_frame_header(std::uint32_t index, ByteSpan header) {
  return {
      .place = {.index = index, .page = big_endian(header), .salts = salts_at(header.subspan(8))},
      .pages = big_endian(header.subspan(4))};
}

std::array<std::uint8_t, 8> salts_of_log(ByteSpan header) { return salts_at(header.subspan(16)); }

std::optional<std::uint32_t> LogScan::damage() const {
  if (header_damaged) return 0;
  if (accepted < durable) return accepted + 1;
  return std::nullopt;
}

std::optional<LogScan> scan_log(const LogReader& read, std::uint64_t size, const PageKey& key,
                                const DatabaseId& id) {
  return Scan(read, size, key, id).run();
}

}  // namespace s3oram
