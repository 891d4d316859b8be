// Little-endian encoding of messages. A message type lists its fields once, in
//   template <class Archive> void fields(Archive& archive) { archive(a, b, c); }
// which is used for writing and for reading. Reading checks every length, and that no bytes are
// left.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "oramcore/base/bytes.h"

namespace s3oram {

template <class T>
concept Scalar = std::integral<T> || std::is_enum_v<T>;

class Writer {
 public:
  /// Starts with `reserved` bytes for a header.
  explicit Writer(std::size_t reserved = 0) : bytes_(reserved) {}

  template <class... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }
  Bytes take() { return std::move(bytes_); }

 private:
  template <Scalar T>
  void put(const T& value) {
    static_assert(std::endian::native == std::endian::little);
    append(&value, sizeof value);
  }
  template <std::size_t n>
  void put(const std::array<std::uint8_t, n>& value) {
    append(value.data(), n);
  }
  void put(ByteSpan value) {
    put(static_cast<std::uint32_t>(value.size()));
    append(value.data(), value.size());
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const T& item : list) put(item);
  }
  template <class T>
  void put(const std::optional<T>& item) {
    put(item.has_value());
    if (item) put(*item);
  }
  template <class T>
  requires requires(T& t, Writer& w) { t.fields(w); }
  void put(const T& value) {
    const_cast<T&>(value).fields(*this);  // fields() only reads through a Writer
  }
  void append(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }

  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(ByteSpan bytes) : left_(bytes) {}

  template <class... Fields>
  void operator()(Fields&... fields) {
    (get(fields), ...);
  }
  /// Returns whether everything could be read and no bytes are left.
  bool complete() const { return !failed_ && left_.empty(); }

 private:
  template <Scalar T>
  void get(T& value) {
    if constexpr (std::same_as<T, bool>) {
      std::uint8_t byte = 0;
      get(byte);
      failed_ |= byte > 1;
      value = byte == 1;
    } else {
      take(&value, sizeof value);
    }
  }
  template <std::size_t n>
  void get(std::array<std::uint8_t, n>& value) {
    take(value.data(), n);
  }
  /// Reads a span of the message, valid as long as the message.
  void get(ByteSpan& value) {
    std::uint32_t size = 0;
    get(size);
    if (failed_ || size > left_.size()) {
      failed_ = true;
      return;
    }
    value = left_.first(size);
    left_ = left_.subspan(size);
  }
  template <class T>
  void get(std::vector<T>& list) {
    std::uint32_t size = 0;
    get(size);
    // An item takes at least one byte, so a false length cannot make us reserve memory.
    if (failed_ || size > left_.size()) {
      failed_ = true;
      return;
    }
    for (std::uint32_t i = 0; i < size && !failed_; ++i) get(list.emplace_back());
  }
  template <class T>
  void get(std::optional<T>& item) {
    bool there = false;
    get(there);
    if (there) get(item.emplace());
  }
  template <class T>
  requires requires(T& t, Reader& r) { t.fields(r); }
  void get(T& value) { value.fields(*this); }
  void take(void* to, std::size_t size) {
    if (failed_ || size > left_.size()) {
      failed_ = true;
      return;
    }
    std::memcpy(to, left_.data(), size);
    left_ = left_.subspan(size);
  }

  ByteSpan left_;
  bool failed_ = false;
};

/// Reads a message. Returns std::nullopt if `bytes` are not exactly one message.
template <class T>
std::optional<T> decode(ByteSpan bytes) {
  T value;
  Reader reader(bytes);
  value.fields(reader);
  if (!reader.complete()) return std::nullopt;
  return value;
}

}  // namespace s3oram
