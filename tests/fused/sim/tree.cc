// Computes what operations on names must answer, and compares trees.
#include "tests/fused/sim/tree.h"

#include <fmt/format.h>
#include <linux/fs.h>

#include <cerrno>

namespace s3oram::sim {

namespace {

std::string difference(Ino ino, const Attributes& expected, const Attributes& seen) {
  std::string all;
  const auto compare = [&](std::string_view what, auto before, auto after) {
    if (before != after) all += fmt::format(" {} of {}: {} not {};", what, ino, after, before);
  };
  compare("mode", expected.mode, seen.mode);
  compare("uid", expected.uid, seen.uid);
  compare("gid", expected.gid, seen.gid);
  compare("nlink", expected.nlink, seen.nlink);
  compare("mtime", expected.mtime, seen.mtime);
  compare("ctime", expected.ctime, seen.ctime);
  compare("target", expected.target, seen.target);
  compare("xattrs", expected.xattrs.size(), seen.xattrs.size());
  return all.empty() ? fmt::format(" xattrs of {};", ino) : all;
}

}  // namespace

std::string difference(const Names& expected, const Names& seen) {
  std::string all;
  for (const auto& [name, ino] : expected.entries)
    if (!seen.entries.contains(name))
      all += fmt::format(" {}/{} is missing;", name.first, name.second);
    else if (seen.entries.at(name) != ino)
      all +=
          fmt::format(" {}/{} is {} not {};", name.first, name.second, seen.entries.at(name), ino);
  for (const auto& [name, ino] : seen.entries)
    if (!expected.entries.contains(name))
      all += fmt::format(" {}/{} is unexpected;", name.first, name.second);
  for (const auto& [ino, attributes] : expected.inodes)
    if (seen.inodes.contains(ino) && seen.inodes.at(ino) != attributes)
      all += difference(ino, attributes, seen.inodes.at(ino));
  return all;
}

Tree::Tree(std::uint32_t block_size, Names names, const std::map<Ino, Content>& contents)
    : now(std::move(names)), block_size_(block_size) {
  for (const auto& [ino, content] : contents) files.emplace(ino, FileHistory(block_size, content));
}

Ino Tree::find(const Name& name) const {
  const auto found = now.entries.find(name);
  return found == now.entries.end() ? 0 : found->second;
}

std::vector<Name> Tree::names_of(Ino ino) const {
  std::vector<Name> names;
  for (const auto& [name, at] : now.entries)
    if (at == ino) names.push_back(name);
  return names;
}

bool Tree::is_within(Ino ino, Ino directory) const {
  while (ino != directory) {
    if (ino == kRootIno) return false;
    const auto names = names_of(ino);
    if (names.empty()) return false;
    ino = names.front().first;
  }
  return true;
}

int Tree::check_make(const Name& name) const {
  if (find(name) != 0) return EEXIST;
  return now.inodes.at(name.first).nlink == 0 ? ENOENT : 0;
}

void Tree::make(const Name& name, Ino ino, const Attributes& attributes) {
  now.inodes[ino] = attributes;
  now.entries[name] = ino;
  if (is_directory(ino)) ++now.inodes.at(name.first).nlink;
  if (is_file(ino)) files.emplace(ino, FileHistory(block_size_));
}

int Tree::link(Ino ino, const Name& name) {
  if (is_directory(ino)) return EPERM;
  if (now.inodes.at(ino).nlink == 0) return ENOENT;
  if (const int error = check_make(name); error != 0) return error;
  now.entries[name] = ino;
  ++now.inodes.at(ino).nlink;
  return 0;
}

void Tree::drop_name(const Name& name) {
  const Ino ino = find(name);
  now.entries.erase(name);
  if (is_directory(ino)) {
    --now.inodes.at(name.first).nlink;
    now.inodes.at(ino).nlink = 0;
  } else {
    --now.inodes.at(ino).nlink;
  }
}

int Tree::unlink(const Name& name) {
  const Ino ino = find(name);
  if (ino == 0) return ENOENT;
  if (is_directory(ino)) return EISDIR;
  drop_name(name);
  return 0;
}

int Tree::rmdir(const Name& name) {
  const Ino ino = find(name);
  if (ino == 0) return ENOENT;
  if (!is_directory(ino)) return ENOTDIR;
  const auto first = now.entries.lower_bound({ino, ""});
  if (first != now.entries.end() && first->first.first == ino) return ENOTEMPTY;
  drop_name(name);
  return 0;
}

int Tree::rename(const Name& from, const Name& to, unsigned flags) {
  const Ino ino = find(from), other = find(to);
  if (ino == 0) return ENOENT;
  if (now.inodes.at(to.first).nlink == 0) return ENOENT;
  if ((flags & RENAME_EXCHANGE) != 0) {
    if (other == 0) return ENOENT;
    now.inodes.at(from.first).nlink += is_directory(other) - is_directory(ino);
    now.inodes.at(to.first).nlink += is_directory(ino) - is_directory(other);
    std::swap(now.entries.at(from), now.entries.at(to));
    return 0;
  }
  if (other != 0) {
    if ((flags & RENAME_NOREPLACE) != 0) return EEXIST;
    if (other == ino) return 0;
    if (is_directory(other) && !is_directory(ino)) return EISDIR;
    if (!is_directory(other) && is_directory(ino)) return ENOTDIR;
    const int error = is_directory(other) ? rmdir(to) : unlink(to);
    if (error != 0) return error;
  }
  now.entries.erase(from);
  now.entries[to] = ino;
  if (is_directory(ino)) {
    --now.inodes.at(from.first).nlink;
    ++now.inodes.at(to.first).nlink;
  }
  return 0;
}

void Tree::end(Ino ino) { now.inodes.erase(ino); }

void Tree::end_operation(std::int64_t time) {
  Names named = now;
  std::erase_if(named.inodes, [](const auto& inode) { return inode.second.nlink == 0; });
  if (!instants_.empty() && *instants_.back().names == named)
    instants_.push_back({instants_.back().names, time});
  else
    instants_.push_back({std::make_shared<const Names>(std::move(named)), time});
}

}  // namespace s3oram::sim
