// Operations on names and attributes.
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>

#include "tests/fused/sim/driver.h"

namespace s3oram::sim {
namespace {

std::int64_t to_ns(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

template <class T>
int error_of(const Posix<T>& outcome) {
  return outcome ? 0 : outcome.error();
}

}  // namespace

// ---- what the kernel does ----------------------------------------------------------------------

/// Looks the inode up, if the kernel does not know it.
void Driver::know(Ino ino) {
  if (references_[ino] > 0) return;
  const auto names = tree_.names_of(ino);
  if (names.empty()) throw std::logic_error("the driver lost an inode");
  know(names.front().first);
  const auto found = fs_->lookup(names.front().first, names.front().second);
  if (!found || found->st_ino != ino)
    throw Violation(fmt::format("lookup of {} gives errno {}", ino, error_of(found)));
  ++references_[ino];
}

std::vector<Ino> Driver::named_files() const {
  std::vector<Ino> named;
  for (const auto& [ino, attributes] : tree_.now.inodes)
    if (S_ISREG(attributes.mode) && attributes.nlink > 0) named.push_back(ino);
  return named;
}

Ino Driver::any_inode() {
  std::vector<Ino> all;
  for (const auto& [ino, attributes] : tree_.now.inodes)
    if (attributes.nlink > 0 || references_[ino] > 0) all.push_back(ino);
  return all[dice_.below(all.size())];
}

Ino Driver::any_file() {
  std::vector<Ino> all;
  for (const auto& [ino, attributes] : tree_.now.inodes)
    if (S_ISREG(attributes.mode) && (attributes.nlink > 0 || references_[ino] > 0))
      all.push_back(ino);
  return all.empty() ? 0 : all[dice_.below(all.size())];
}

Ino Driver::any_directory() {
  std::vector<Ino> all;
  for (const auto& [ino, attributes] : tree_.now.inodes)
    if (S_ISDIR(attributes.mode) && (attributes.nlink > 0 || references_[ino] > 0))
      all.push_back(ino);
  return all[dice_.below(all.size())];
}

Name Driver::any_name() {
  if (!tree_.now.entries.empty() && dice_.one_in(2)) {
    auto at = tree_.now.entries.begin();
    std::advance(at, dice_.below(tree_.now.entries.size()));
    return at->first;
  }
  return {any_directory(), std::string(1, static_cast<char>('a' + dice_.below(6)))};
}

/// Adopts the times that the file system shows; everything else must be as it was.
void Driver::reenrol_times(Ino ino) {
  const auto shown = fs_->getattr(ino);
  if (!shown) throw Violation(fmt::format("getattr of {}: errno {}", ino, shown.error()));
  Attributes& known = tree_.now.inodes.at(ino);
  known.mtime = to_ns(shown->st_mtim);
  known.ctime = to_ns(shown->st_ctim);
}

// ---- names -------------------------------------------------------------------------------------

bool Driver::make(const Name& name, std::uint32_t type) {
  if (tree_.now.inodes.size() > 25 || locked_.contains(name.first)) return false;
  know(name.first);
  const Held lock(locked_, name.first);
  const Held busy(busy_, name.first);
  const Attributes parent = tree_.now.inodes.at(name.first);  // others work meanwhile (seed 595)
  Attributes made;
  made.mode = type | static_cast<std::uint32_t>(dice_.below(01000)) |
              (type == S_IFDIR && dice_.one_in(4) ? S_ISGID : 0u);
  const bool inherits = (parent.mode & S_ISGID) != 0;
  const Caller caller{static_cast<std::uint32_t>(dice_.below(3)),
                      static_cast<std::uint32_t>(dice_.below(3))};
  if (type == S_IFLNK) made.target = std::string(dice_.between(1, 30), 'l');
  const auto begun = begin(fmt::format("make {}/{} type {:o}", name.first, name.second, type));
  const auto outcome = fs_->make(caller, name.first, name.second, {made.mode, 0, made.target});
  if (judge(begun, error_of(outcome), tree_.check_make(name))) {
    if (inherits && type == S_IFDIR) made.mode |= S_ISGID;
    made.uid = caller.uid;
    made.gid = inherits ? parent.gid : caller.gid;
    made.nlink = type == S_IFDIR ? 2 : 1;
    if (tree_.now.inodes.contains(outcome->st_ino) || tree_.files.contains(outcome->st_ino))
      throw Violation(fmt::format("inode number {} is in use", outcome->st_ino));
    tree_.make(name, outcome->st_ino, made);
    ++references_[outcome->st_ino];
    reenrol_times(outcome->st_ino);
  }
  reenrol_times(name.first);
  end();
  return true;
}

bool Driver::link(Ino ino, const Name& name) {
  if (locked_.contains(name.first)) return false;
  know(ino);
  know(name.first);
  const Held lock(locked_, name.first);
  const Held busy(busy_, ino), parent_busy(busy_, name.first);
  const auto begun = begin(fmt::format("link {} as {}/{}", ino, name.first, name.second));
  const auto outcome = fs_->link(ino, name.first, name.second);
  const Names before = tree_.now;
  const int expected = tree_.link(ino, name);
  if (judge(begun, error_of(outcome), expected))
    ++references_[ino];
  else
    tree_.now = before;
  reenrol_times(ino);
  reenrol_times(name.first);
  end();
  return true;
}

bool Driver::unlink(const Name& name, bool directory) {
  if (locked_.contains(name.first)) return false;
  const Ino ino = tree_.find(name);
  if (ino != 0 && locked_.contains(ino)) return false;
  know(name.first);
  if (ino != 0 && !dice_.one_in(4)) know(ino);
  const Held lock(locked_, name.first), lock_too(locked_, ino);
  const Held busy(busy_, name.first), busy_too(busy_, ino);
  const auto begun =
      begin(fmt::format("{} {}/{}", directory ? "rmdir" : "unlink", name.first, name.second));
  const auto outcome =
      directory ? fs_->rmdir(name.first, name.second) : fs_->unlink(name.first, name.second);
  const Names before = tree_.now;
  const int expected = directory ? tree_.rmdir(name) : tree_.unlink(name);
  if (judge(begun, error_of(outcome), expected))
    drop(ino);
  else
    tree_.now = before;
  reenrol_times(name.first);
  end();
  return true;
}

bool Driver::rename(const Name& from, const Name& to, unsigned flags) {
  if (locked_.contains(from.first) || locked_.contains(to.first)) return false;
  const Ino ino = tree_.find(from), other = tree_.find(to);
  if ((ino != 0 && locked_.contains(ino)) || (other != 0 && locked_.contains(other))) return false;
  // The kernel refuses to put a directory into itself.
  if (ino != 0 && tree_.is_directory(ino) && tree_.is_within(to.first, ino)) return false;
  if (other != 0 && tree_.is_directory(other) && tree_.is_within(from.first, other)) return false;
  know(from.first);
  know(to.first);
  if (other != 0 && !dice_.one_in(4)) know(other);
  const Held lock(locked_, from.first), lock_to(locked_, to.first);
  const Held lock_ino(locked_, ino), lock_other(locked_, other);
  const Held busy(busy_, from.first), busy_to(busy_, to.first);
  const Held busy_ino(busy_, ino), busy_other(busy_, other);
  const auto begun = begin(fmt::format("rename {}/{} to {}/{} flags {}", from.first, from.second,
                                       to.first, to.second, flags));
  const auto settling = begin_settling({ino, other});
  const auto outcome = fs_->rename(from.first, from.second, to.first, to.second, flags);
  end_settling(settling);
  const Names before = tree_.now;
  const int expected = tree_.rename(from, to, flags);
  if (!judge(begun, error_of(outcome), expected)) {
    tree_.now = before;
  } else {
    // A file that replaces another commits together with its content.
    if (other != 0 && other != ino)
      for (const Ino each : {ino, (flags & RENAME_EXCHANGE) != 0 ? other : ino})
        if (tree_.is_file(each)) tree_.files.at(each).barrier_with(tree_.ended() + 1, begun.at);
    if (other != 0 && (flags & RENAME_EXCHANGE) == 0) drop(other);
    for (const Ino each : {ino, other})
      if (each != 0 && tree_.now.inodes.contains(each) &&
          (references_[each] > 0 || tree_.now.inodes.at(each).nlink > 0)) {
        know(each);
        reenrol_times(each);
      }
  }
  reenrol_times(from.first);
  reenrol_times(to.first);
  end();
  return true;
}

/// A name of `ino` is gone, perhaps its last.
void Driver::drop(Ino ino) {
  if (!tree_.now.inodes.contains(ino)) return;
  if (references_[ino] > 0)
    reenrol_times(ino);
  else if (tree_.now.inodes.at(ino).nlink == 0)
    tree_.end(ino);
  else {
    know(ino);
    reenrol_times(ino);
  }
}

// ---- attributes --------------------------------------------------------------------------------

bool Driver::change_attributes(Ino ino) {
  if (locked_.contains(ino)) return false;  // locked by the kernel while names in it change
  know(ino);
  const Held lock(locked_, ino);
  const Held busy(busy_, ino);
  const auto begun = begin(fmt::format("setattr {}", ino));
  AttributeChange change;
  if (dice_.one_in(2)) change.mode = dice_.below(01000);
  if (dice_.one_in(4)) change.uid = dice_.below(5);
  if (dice_.one_in(4)) change.gid = dice_.below(5);
  if (dice_.one_in(3)) change.mtime = static_cast<std::int64_t>(dice_.below(1u << 30));
  if (dice_.one_in(3)) change.atime = static_cast<std::int64_t>(dice_.below(1u << 30));
  const auto outcome = fs_->setattr(ino, change);
  if (judge(begun, error_of(outcome))) {
    Attributes& known = tree_.now.inodes.at(ino);
    if (change.mode) known.mode = (known.mode & S_IFMT) | *change.mode;
    known.uid = change.uid.value_or(known.uid);
    known.gid = change.gid.value_or(known.gid);
    if (change.mtime && to_ns(outcome->st_mtim) != *change.mtime)
      throw Violation(begun.what + ": the mtime differs");
  }
  reenrol_times(ino);
  end();
  return true;
}

bool Driver::change_xattr(Ino ino) {
  know(ino);
  const Held busy(busy_, ino);
  const std::string name = dice_.one_in(2) ? "user.a" : "user.b";
  if (dice_.one_in(3)) {
    const auto begun = begin(fmt::format("remove xattr of {}", ino));
    const auto outcome = fs_->remove_xattr(ino, name);
    auto& xattrs = tree_.now.inodes.at(ino).xattrs;
    if (judge(begun, error_of(outcome), xattrs.contains(name) ? 0 : ENODATA)) xattrs.erase(name);
  } else {
    const int flags = dice_.one_in(3) ? XATTR_CREATE : dice_.one_in(2) ? XATTR_REPLACE : 0;
    const std::string value = payload(dice_.between(0, 40));
    const auto begun = begin(fmt::format("set xattr of {}", ino));
    const auto outcome = fs_->set_xattr(ino, name, value, flags);
    auto& xattrs = tree_.now.inodes.at(ino).xattrs;
    const bool exists = xattrs.contains(name);
    const int expected = flags == XATTR_CREATE && exists     ? EEXIST
                         : flags == XATTR_REPLACE && !exists ? ENODATA
                                                             : 0;
    if (judge(begun, error_of(outcome), expected)) xattrs[name] = value;
  }
  reenrol_times(ino);
  end();
  return true;
}

/// Compares everything except the data.
bool Driver::compare(Ino ino) {
  know(ino);
  const auto begun = begin(fmt::format("compare {}", ino));
  const auto differs = [&](std::string_view what) {
    throw Violation(fmt::format("inode {}: its {} differ", ino, what));
  };
  const Attributes& known = tree_.now.inodes.at(ino);
  const auto shown = fs_->getattr(ino);
  if (!shown) throw Violation(fmt::format("getattr of {}: errno {}", ino, shown.error()));
  if (shown->st_mode != known.mode || shown->st_uid != known.uid || shown->st_gid != known.gid ||
      shown->st_nlink != known.nlink)
    differs(fmt::format("attributes mode {:o} {:o} uid {} {} gid {} {} nlink {} {}", shown->st_mode,
                        known.mode, shown->st_uid, known.uid, shown->st_gid, known.gid,
                        shown->st_nlink, known.nlink));
  if (to_ns(shown->st_mtim) != known.mtime || to_ns(shown->st_ctim) != known.ctime)
    differs("times");
  if (tree_.is_file(ino) && !exclusive_.contains(ino)) {
    const Content& content = tree_.files.at(ino).now;
    if (static_cast<std::uint64_t>(shown->st_size) != content.size) differs("size");
    if (static_cast<std::uint64_t>(shown->st_blocks) != content.blocks.size() * (kBlock / 512))
      differs("blocks");
  }
  auto xattrs = fs_->list_xattrs(ino);
  if (!xattrs || xattrs->size() != known.xattrs.size()) differs("xattrs");
  for (const auto& [name, value] : known.xattrs) {
    const auto found = fs_->get_xattr(ino, name);
    if (!found || *found != value) differs("xattrs");
  }
  if (tree_.is_directory(ino)) {
    std::map<std::string, Ino> names;
    for (auto at = tree_.now.entries.lower_bound({ino, ""});
         at != tree_.now.entries.end() && at->first.first == ino; ++at)
      names[at->first.second] = at->second;
    const auto listed = fs_->list(ino);
    if (!listed || listed->size() != names.size() + 2) {
      differs("names");
      return true;
    }
    for (auto at = listed->begin() + 2; at != listed->end(); ++at)
      if (!names.contains(at->name) || names[at->name] != at->ino) differs("names");
  }
  if (depth_ == 0 && fs_->status().inodes != tree_.now.inodes.size())
    throw Violation(
        fmt::format("{} inodes instead of {}", fs_->status().inodes, tree_.now.inodes.size()));
  end();
  return true;
}

bool Driver::forget(Ino ino) {
  if (ino == kRootIno || references_[ino] == 0 || busy_.contains(ino)) return false;
  static_cast<void>(begin(fmt::format("forget {}", ino)));
  if (tree_.files.contains(ino)) tree_.files.at(ino).may_settle(tree_.ended());
  fs_->forget(ino, references_[ino]);
  references_.erase(ino);
  if (tree_.now.inodes.at(ino).nlink == 0) tree_.end(ino);
  end();
  return true;
}

}  // namespace s3oram::sim
