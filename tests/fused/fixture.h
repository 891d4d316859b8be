// A file system on a MemoryDevice, in a directory that is removed when the test ends.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "fused/files/file_system.h"
#include "tests/base/temporary_directory.h"
#include "tests/fused/memory_device.h"

namespace s3oram {

inline constexpr std::uint32_t kTestBlock = 4096;

class FileSystemFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    // Nothing happens in the background, unless a test wants it to.
    options.commit_every = std::chrono::hours(1);
    options.cache.limit = 4u << 20;
    options.cache.deadline = std::chrono::seconds(20);
    options.cache.retry = std::chrono::milliseconds(5);
    mount();
  }
  void TearDown() override {
    if (fs) unmount();
  }

  void mount() {
    const std::string database = (folder.path() / "vault.db").string();
    device = std::make_unique<MemoryDevice>(database, kTestBlock);
    auto mounted = FileSystem::mount(*device, database, options);
    ASSERT_TRUE(mounted) << mounted.error().message;
    fs = std::move(*mounted);
  }
  void unmount() {
    const Status status = fs->unmount();
    EXPECT_TRUE(status) << status.error().message;
    crash();
  }
  /// Loses changes that are not committed.
  void crash() {
    EXPECT_EQ(device->violations(), 0u);
    device->stop();
    fs.reset();
    device.reset();
  }
  void remount() {
    unmount();
    mount();
  }

  /// From now on every wait for the device takes this long.
  void remount_with_deadline(std::chrono::milliseconds deadline) {
    unmount();
    options.cache.deadline = deadline;
    mount();
  }

  Ino create(const std::string& name, std::uint32_t mode = S_IFREG | 0644, Ino parent = kRootIno) {
    const auto made = fs->make({}, parent, name, {mode, 0, {}});
    EXPECT_TRUE(made) << name << ": " << made.error();
    return made ? made->st_ino : 0;
  }
  Ino find(const std::string& name, Ino parent = kRootIno) {
    const auto found = fs->lookup(parent, name);
    return found ? found->st_ino : 0;
  }
  void write(Ino ino, std::uint64_t offset, const std::string& text) {
    const auto outcome = fs->write(ino, offset, as_bytes(text), false);
    EXPECT_TRUE(outcome) << outcome.error();
  }
  std::string read(Ino ino, std::uint64_t offset = 0, std::size_t size = 1u << 20) {
    Bytes buffer(size);
    const auto got = fs->read(ino, offset, buffer);
    EXPECT_TRUE(got) << got.error();
    return got ? std::string(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*got))
               : std::string();
  }
  void resize(Ino ino, std::uint64_t size) {
    AttributeChange change;
    change.size = size;
    EXPECT_TRUE(fs->setattr(ino, change));
  }
  void sync(Ino ino) {
    const auto outcome = fs->sync(ino);
    EXPECT_TRUE(outcome) << outcome.error();
  }
  /// Returns the number of accesses since the last call.
  std::uint64_t accesses() {
    const auto now = device->counts().accesses();
    return now - std::exchange(counted_, now);
  }

  TemporaryDirectory folder;
  FileSystemOptions options;
  std::unique_ptr<MemoryDevice> device;
  std::unique_ptr<FileSystem> fs;

 private:
  std::uint64_t counted_ = 0;
};

inline std::string pattern(std::size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  std::uint32_t state = seed * 2654435761u + 1;
  for (char& c : text) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>('a' + (state >> 24) % 26);
  }
  return text;
}

}  // namespace s3oram
