// Assembles the attributes of an inode from its row and its cached blocks.
#include "fused/files/attributes.h"

namespace s3oram {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

timespec to_timespec(std::int64_t ns) {
  timespec time{};
  time.tv_sec = ns / kSecond;
  time.tv_nsec = ns % kSecond;
  if (time.tv_nsec < 0) {
    time.tv_nsec += kSecond;
    --time.tv_sec;
  }
  return time;
}

}  // namespace

struct stat attributes_of(const Node& node, const DataCache& cache) {
  struct stat out {};
  out.st_ino = node.ino;
  out.st_mode = node.row.mode;
  out.st_nlink = node.row.nlink;
  out.st_uid = node.row.uid;
  out.st_gid = node.row.gid;
  out.st_rdev = node.row.rdev;
  out.st_size = static_cast<off_t>(node.size);
  out.st_blksize = cache.block_size();
  out.st_blocks = static_cast<blkcnt_t>(cache.bytes_of(node) / 512);
  out.st_atim = to_timespec(node.row.atime);
  out.st_mtim = to_timespec(node.row.mtime);
  out.st_ctim = to_timespec(node.row.ctime);
  return out;
}

}  // namespace s3oram
