// Loads, counts and frees inodes.
#include "fused/files/inodes.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace s3oram {
namespace {

constexpr std::size_t kFreedAtOnce = 8'192;  // blocks of a deleted file

bool is_usable(const InodeRow& row) {
  return is_file_type(row.mode & S_IFMT) && row.size <= kLargestFile &&
         row.target.find('\0') == std::string::npos && S_ISLNK(row.mode) != row.target.empty();
}

}  // namespace

// ---- at the mount -------------------------------------------------------------------------------

Node& Inodes::make_root() {
  auto root = std::make_shared<Node>();
  root->ino = kRootIno;
  root->row.mode = S_IFDIR | 0755;
  root->row.uid = state_.options.root_uid;
  root->row.gid = state_.options.root_gid;
  root->row.nlink = 2;
  root->row.atime = root->row.mtime = root->row.ctime = state_.timing.wall_clock();
  root->row.parent = kRootIno;
  return *nodes_.emplace(kRootIno, root).first->second;
}

Status Inodes::load_root() {
  auto stored = state_.metadata.inodes.find(kRootIno);
  const bool hidden = !stored && stored.error().code == Errc::damaged_vault;
  if (!stored && !hidden && !state_.options.read_only) return fail(stored.error());
  const bool there = stored && *stored;
  if (there && is_usable(**stored) && S_ISDIR((*stored)->mode) && (*stored)->nlink > 0) {
    if (!load(kRootIno)) return fail(Errc::damaged_vault, "the root directory is unreadable");
  } else {
    state_.tell_of_damage(kRootIno, "the attributes of the root directory are damaged");
    if (!there) ++count_;
    Node& root = make_root();
    const auto directories = state_.metadata.number(fmt::format(
        "SELECT COUNT(*) FROM dentries WHERE parent = {} AND type = {}", kRootIno, S_IFDIR));
    if (directories) root.row.nlink += static_cast<std::uint32_t>(*directories);
    if (there) {
      root.row.mode = S_IFDIR | ((*stored)->mode & kPermissions);
      root.row.uid = (*stored)->uid;
      root.row.gid = (*stored)->gid;
      root.row.mtime = (*stored)->mtime;
    } else if (!hidden) {
      state_.store(root);
    }
  }
  references_ = state_.options.references.counts;
  references_[kRootIno] = 1;  // never forgotten
  return {};
}

Status Inodes::number() {
  S3O_ASSIGN(auto last, state_.metadata.largest_ino());
  S3O_ASSIGN(auto reserved, state_.metadata.reserved_inodes());
  numbers_.reset(last, reserved);
  S3O_ASSIGN(auto count, state_.metadata.number("SELECT COUNT(*) FROM inodes"));
  count_ += static_cast<std::uint64_t>(count);
  return {};
}

Status Inodes::free_orphans(Lock& lock) {
  S3O_ASSIGN(auto orphans, state_.metadata.orphans());
  std::size_t freed = 0;
  for (const Ino ino : orphans) {
    auto node = load(ino, true);
    if (node && references_.contains(ino)) continue;
    if (!node || !end(lock, *node))
      spdlog::error("the unlinked inode {} cannot be freed: run s3oramfs fsck", ino);
    ++freed;
  }
  if (freed > 0) spdlog::info("freed {} unlinked files of the last mount", freed);
  for (const Ino ino : state_.options.references.unnamed)
    if (const auto node = nodes_.find(ino); node != nodes_.end()) node->second->unnamed = true;
  return {};
}

// ---- finding nodes ------------------------------------------------------------------------------

Posix<Inodes::NodePtr> Inodes::known(Ino ino) {
  if (!references_.contains(ino)) return posix_error(ESTALE);
  return load(ino);
}

Posix<Inodes::NodePtr> Inodes::known_directory(Ino ino) {
  auto node = known(ino);
  if (node && !S_ISDIR((*node)->row.mode)) return posix_error(ENOTDIR);
  return node;
}

Posix<Inodes::NodePtr> Inodes::load(Ino ino, bool unlinked) {
  if (const auto found = nodes_.find(ino); found != nodes_.end()) return found->second;
  S3O_POSIX_GET(row, state_.metadata.inodes.find(ino));
  if (!row) {
    state_.tell_of_damage(ino, "a name leads to it, but it does not exist");
    return posix_error(EIO);
  }
  if (!is_usable(*row) || (row->nlink == 0 && !unlinked)) {
    state_.tell_of_damage(ino, "its attributes are damaged");
    return posix_error(EIO);
  }
  auto node = std::make_shared<Node>();
  node->ino = ino;
  node->row = *row;
  node->size = row->size;
  node->shrunk = row->ctime;
  nodes_.emplace(ino, node);
  return node;
}

Posix<Inodes::NodePtr> Inodes::named(Ino ino) {
  if (!nodes_.contains(ino)) {
    S3O_POSIX_GET(row, state_.metadata.inodes.find(ino));
    if (!row || row->nlink == 0) return posix_error(ESTALE);
  }
  S3O_POSIX_GET(node, load(ino));
  return node->row.nlink > 0 ? Posix<NodePtr>(node) : posix_error(ESTALE);
}

std::vector<Inodes::NodePtr> Inodes::unflushed() const {
  std::vector<NodePtr> nodes;
  for (const auto& [ino, node] : nodes_)
    if ((node->unflushed > 0 || node->replacement) &&
        (node->row.nlink > 0 || state_.cache.keeps_unlinked))
      nodes.push_back(node);
  return nodes;
}

// ---- making nodes -------------------------------------------------------------------------------

PosixStatus Inodes::reserve_number(Lock& lock) {
  numbers_.want();
  while (!numbers_.is_ready()) S3O_POSIX_TRY(commits_.commit(lock));
  return {};
}

Inodes::NodePtr Inodes::make(const Caller& caller, const Node& directory,
                             const NewNode& what) const {
  const bool inherit = (directory.row.mode & S_ISGID) != 0;
  auto node = std::make_shared<Node>();
  node->ino = numbers_.next();
  node->row.mode = what.mode | (inherit && S_ISDIR(what.mode) ? S_ISGID : 0);
  node->row.uid = caller.uid;
  node->row.gid = inherit ? directory.row.gid : caller.gid;
  node->row.nlink = S_ISDIR(what.mode) ? 2 : 1;
  node->row.rdev = what.rdev;
  node->row.target = what.target;
  node->row.size = node->size = what.target.size();
  node->row.atime = node->row.mtime = state_.timing.wall_clock();
  node->xattr_names = 0;
  return node;
}

void Inodes::add(const NodePtr& node) {
  numbers_.take();
  ++count_;
  nodes_.emplace(node->ino, node);
}

// ---- references, and the end of nodes -----------------------------------------------------------

void Inodes::forget(Lock& lock, Ino ino, std::uint64_t references) {
  const auto counted = references_.find(ino);
  if (counted == references_.end()) return;
  counted->second -= std::min(counted->second, references);
  if (counted->second > 0) return;
  references_.erase(counted);
  const auto found = nodes_.find(ino);
  if (found == nodes_.end()) return;
  const NodePtr node = found->second;
  if (node->row.nlink > 0)
    drop_if_idle(ino);
  else
    end_or_tell(lock, node);
}

std::vector<Ino> Inodes::referenced() const {
  std::vector<Ino> inodes;
  for (const auto& [ino, count] : references_) inodes.push_back(ino);
  return inodes;
}

KernelReferences Inodes::kept() const {
  KernelReferences kept{references_, {}};
  for (const auto& [ino, node] : nodes_)
    if (node->unnamed) kept.unnamed.push_back(ino);
  return kept;
}

PosixStatus Inodes::end(Lock& lock, const NodePtr& node) {
  if (node->row.nlink > 0 || references_.contains(node->ino)) return {};
  idle_.erase(node->ino);
  S3O_POSIX_TRY(state_.cache.settle(*node));
  for (std::uint64_t next = 0;;) {
    S3O_POSIX_GET(more, state_.cache.free_blocks(*node, next, kFreedAtOnce));
    if (!more) break;
    // Waiting for a commit lets other operations run. CommitQueue::end() logs a failure, and the
    // ticker retries.
    std::ignore = commits_.commit(lock);
  }
  std::vector<XattrKey> xattrs;
  S3O_POSIX_TRY(state_.metadata.xattrs.scan({node->ino, {}}, [&](const XattrKey& key, const auto&) {
    xattrs.push_back(key);
    return true;
  }));
  for (const XattrKey& key : xattrs) state_.metadata.xattrs.erase(key);
  state_.metadata.inodes.erase(node->ino);
  --count_;
  nodes_.erase(node->ino);
  return {};
}

void Inodes::end_or_tell(Lock& lock, const NodePtr& node) {
  if (!end(lock, node)) spdlog::warn("unlinked inode {} is freed at the next mount", node->ino);
}

void Inodes::free_nameless(Lock& lock) {
  references_.clear();
  std::vector<NodePtr> nameless;
  for (const auto& [ino, node] : nodes_)
    if (node->row.nlink == 0) nameless.push_back(node);
  for (const NodePtr& node : nameless) end_or_tell(lock, node);
}

// ---- memory -------------------------------------------------------------------------------------

void Inodes::drop_if_idle(Ino ino) {
  const auto found = nodes_.find(ino);
  if (found == nodes_.end() || references_.contains(ino)) {
    idle_.erase(ino);
  } else if (found->second->blocks.empty() && !found->second->replacement) {
    nodes_.erase(found);
    idle_.erase(ino);
  } else {
    idle_.insert(ino);
  }
}

void Inodes::drop_idle() {
  for (const Ino ino : std::vector<Ino>(idle_.begin(), idle_.end())) drop_if_idle(ino);
}

void Inodes::trim() {
  if (nodes_.size() <= state_.options.most_nodes) return;
  std::erase_if(nodes_, [](const auto& entry) {
    const NodePtr& node = entry.second;
    return node.use_count() == 1 && node->ino != kRootIno && node->row.nlink > 0 &&
           node->blocks.empty() && !node->replacement;
  });
}

}  // namespace s3oram
