// Walks a file system, and checks that its names and link counts agree.
#include "tests/fused/sim/observed.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "tests/fused/sim/world.h"

namespace s3oram::sim {
namespace {

template <class T>
T require(Posix<T> result, std::string_view what, Ino ino) {
  if (!result) throw Violation(fmt::format("{} of inode {}: errno {}", what, ino, result.error()));
  return std::move(*result);
}

Content content_of(FileSystem& fs, Ino ino, std::uint64_t size, std::uint32_t block_size) {
  Content content{.size = size, .blocks = {}};
  Bytes bytes(size);
  const std::size_t got = require(fs.read(ino, 0, bytes), "read", ino);
  if (got != size) throw Violation(fmt::format("inode {}: {} of {} bytes read", ino, got, size));
  for (std::uint64_t base = 0; base < size; base += block_size) {
    const std::uint64_t end = std::min<std::uint64_t>(size, base + block_size);
    const auto data = fs.seek(ino, base, SEEK_DATA);
    if (!data && data.error() != ENXIO) require(data, "seek", ino);
    std::uint64_t hole = base;
    if (data && *data == base)
      hole = std::min(end, require(fs.seek(ino, base, SEEK_HOLE), "seek", ino));
    if (std::any_of(bytes.begin() + static_cast<std::ptrdiff_t>(hole),
                    bytes.begin() + static_cast<std::ptrdiff_t>(end),
                    [](std::uint8_t byte) { return byte != 0; }))
      throw Violation(fmt::format("inode {}: there are bytes in the hole at {}", ino, hole));
    if (hole > base)
      content.blocks[base / block_size] =
          std::string(bytes.begin() + static_cast<std::ptrdiff_t>(base),
                      bytes.begin() + static_cast<std::ptrdiff_t>(hole));
  }
  return content;
}

class Walk {
 public:
  Walk(FileSystem& fs, std::uint32_t block_size) : fs_(fs), block_size_(block_size) {}

  void enter(Ino ino, const struct stat& stat) {
    const bool first = !seen.names.inodes.contains(ino);
    ++names_[ino];
    if (!first && S_ISDIR(stat.st_mode))
      throw Violation(fmt::format("directory {} has two names", ino));
    if (!first) return;
    Attributes& attributes = seen.names.inodes[ino];
    attributes.mode = stat.st_mode;
    attributes.uid = stat.st_uid;
    attributes.gid = stat.st_gid;
    attributes.nlink = static_cast<std::uint32_t>(stat.st_nlink);
    attributes.mtime = stat.st_mtim.tv_sec * 1'000'000'000 + stat.st_mtim.tv_nsec;
    attributes.ctime = stat.st_ctim.tv_sec * 1'000'000'000 + stat.st_ctim.tv_nsec;
    for (const std::string& name : require(fs_.list_xattrs(ino), "list_xattrs", ino))
      attributes.xattrs[name] = require(fs_.get_xattr(ino, name), "get_xattr", ino);
    if (S_ISLNK(stat.st_mode)) attributes.target = require(fs_.readlink(ino), "readlink", ino);
    if (S_ISREG(stat.st_mode)) {
      const auto size = static_cast<std::uint64_t>(stat.st_size);
      const Content& content = seen.files[ino] = content_of(fs_, ino, size, block_size_);
      const std::uint64_t sectors = block_size_ / 512;
      const auto blocks = (static_cast<std::uint64_t>(stat.st_blocks) + sectors - 1) / sectors;
      if (blocks != content.blocks.size())
        throw Violation(fmt::format("inode {} has {} blocks and counts {}", ino,
                                    content.blocks.size(), blocks));
    }
    if (S_ISDIR(stat.st_mode)) descend(ino);
  }

  /// Compares the names found with the links counted.
  void check_links() {
    for (const auto& [ino, attributes] : seen.names.inodes) {
      std::uint64_t links = names_[ino];
      if (S_ISDIR(attributes.mode)) links = 2 + directories_[ino];
      if (links != attributes.nlink)
        throw Violation(
            fmt::format("inode {} has {} links and counts {}", ino, links, attributes.nlink));
    }
    if (fs_.status().inodes != seen.names.inodes.size())
      throw Violation(fmt::format("{} inodes are named, {} exist", seen.names.inodes.size(),
                                  fs_.status().inodes));
  }

  Observed seen;

 private:
  void descend(Ino directory) {
    for (const DirectoryEntry& entry : require(fs_.list(directory), "list", directory)) {
      if (entry.name == "." || entry.name == "..") continue;
      const auto stat = require(fs_.lookup(directory, entry.name), "lookup", directory);
      if (stat.st_ino != entry.ino || (stat.st_mode & S_IFMT) != entry.type)
        throw Violation(fmt::format("{} in {}: list and lookup differ", entry.name, directory));
      seen.names.entries[{directory, entry.name}] = entry.ino;
      if (entry.type == S_IFDIR) ++directories_[directory];
      enter(entry.ino, stat);
      if (entry.type == S_IFDIR &&
          require(fs_.list(entry.ino), "list", entry.ino)[1].ino != directory)
        throw Violation(fmt::format("the parent of {} is not {}", entry.ino, directory));
      fs_.forget(entry.ino, 1);
    }
  }

  FileSystem& fs_;
  const std::uint32_t block_size_;
  std::map<Ino, std::uint64_t> names_, directories_;
};

}  // namespace

Observed observe(FileSystem& fs, std::uint32_t block_size) {
  Walk walk(fs, block_size);
  walk.enter(kRootIno, require(fs.getattr(kRootIno), "getattr", kRootIno));
  walk.check_links();
  return std::move(walk.seen);
}

}  // namespace s3oram::sim
