// Checks inodes and names: the type of each inode, the names that lead to it, and that every path
// starts at the root.
#include <algorithm>
#include <set>

#include "fused/tables/check_model.h"
#include "fused/tables/inode_numbers.h"

namespace s3oram {
namespace {

constexpr const char* kLostAndFound = "lost+found";

const char* called(std::uint32_t mode) {
  return S_ISREG(mode)                    ? "a file"
         : S_ISDIR(mode)                  ? "a directory"
         : S_ISLNK(mode)                  ? "a symbolic link"
         : S_ISFIFO(mode)                 ? "a fifo"
         : S_ISSOCK(mode)                 ? "a socket"
         : S_ISBLK(mode) || S_ISCHR(mode) ? "a device"
                                          : "nothing that exists";
}

/// Returns the file type in the inode's mode. If the mode has no valid type, or if the name and the
/// content agree on another one, returns that type instead. A symbolic link without a target counts
/// as a regular file.
std::uint32_t type_of(Ino ino, const CheckedInode& inode) {
  if (ino == kRootIno) return S_IFDIR;
  const std::uint32_t content = inode.children > 0 ? S_IFDIR : inode.extents > 0 ? S_IFREG : 0;
  std::uint32_t type = inode.row.mode & S_IFMT;
  if (!is_file_type(type))
    type = content != 0 ? content : is_file_type(inode.name_type) ? inode.name_type : S_IFREG;
  else if (content != 0 && content == inode.name_type)
    type = content;
  return S_ISLNK(type) && inode.row.target.empty() ? std::uint32_t{S_IFREG} : type;
}

void make_again(CheckModel& model, Ino ino, CheckedInode& inode) {
  const bool directory = ino == kRootIno || inode.children > 0;
  InodeRow& row = inode.row;
  row.mode = directory ? S_IFDIR | 0700 : S_IFREG | 0600;
  row.nlink = directory ? 2 : 1;
  const auto root = model.inodes.find(kRootIno);
  const bool rooted = root != model.inodes.end() && root->second.exists;
  row.uid = rooted ? root->second.row.uid : model.input.uid;
  row.gid = rooted ? root->second.row.gid : model.input.gid;
  row.atime = row.mtime = row.ctime = model.input.now;
  row.parent = ino == kRootIno || !inode.name ? kRootIno : inode.name->parent;
  model.found("missing-inode", model.path(ino),
              fmt::format("its attributes (owner, permissions, times) are lost; {}",
                          directory ? "the names in it are there" : "its content is there"),
              "it is recreated, and only its owner may use it");
}

void check_attributes(CheckModel& model, Ino ino, CheckedInode& inode) {
  InodeRow& row = inode.row;
  const std::uint32_t mode = type_of(ino, inode) | (row.mode & kPermissions);
  if (mode != row.mode) {
    const bool retyped = ((mode ^ row.mode) & S_IFMT) != 0;
    model.found(retyped ? "wrong-type" : "bad-mode", model.path(ino),
                retyped ? fmt::format("its mode {:o} says that it is {}, which it cannot be",
                                      row.mode, called(row.mode))
                        : fmt::format("its mode {:o} has bits that mean nothing", row.mode),
                fmt::format("it becomes {} of mode {:o}", called(mode), mode));
    row.mode = mode;
  }
  if (S_ISREG(row.mode)) return;  // check_data.cc
  const std::uint64_t size = S_ISLNK(row.mode) ? row.target.size() : 0;
  if (row.size != size) {
    model.found("size", model.path(ino), fmt::format("its size is wrong ({})", row.size),
                fmt::format("it is set to {}", size));
    row.size = size;
  }
}

void drop(CheckModel& model, CheckedName& name, std::string kind, std::string what,
          std::string repair) {
  model.found(std::move(kind), model.path(name.key), std::move(what), std::move(repair));
  name.kept = false;
}

void check_name(CheckModel& model, CheckedName& name) {
  const auto inode = model.inodes.find(name.row.ino);
  if (inode == model.inodes.end())
    return drop(model, name, "dangling-name",
                "the name leads to a file that does not exist; opening it gives an error",
                "the name is removed");
  const char* const lost =
      "the name is removed; a file that has no other name moves to /lost+found";
  if (!model.is_directory(name.key.parent))
    return drop(model, name, "misplaced-name",
                fmt::format("the name is in inode {}, which is not a directory", name.key.parent),
                lost);
  if (const char* problem = name_problem(name.key.name))
    return drop(model, name, "bad-name", fmt::format("the name is impossible: {}", problem), lost);
  if (name.row.ino == kRootIno)
    return drop(model, name, "loop", "the name leads back to the root directory",
                "the name is removed");
  const std::uint32_t type = inode->second.row.mode & S_IFMT;
  if (name.row.type == type) return;
  model.found("name-type", model.path(name.key),
              fmt::format("its directory says that it is {}, but it is {}", called(name.row.type),
                          called(type)),
              "the type in its directory is corrected");
  name.row.type = type;
  model.out.dentries[name.key] = name.row;
}

/// Leaves each directory only one name.
void check_directory_names(CheckModel& model) {
  std::map<Ino, std::vector<CheckedName*>> names;
  for (CheckedName& name : model.names)
    if (name.kept && model.is_directory(name.row.ino)) names[name.row.ino].push_back(&name);
  for (const auto& [ino, all] : names) {
    if (all.size() == 1) continue;
    const Ino parent = model.inodes[ino].row.parent;
    const auto right = std::find_if(all.begin(), all.end(), [&](const CheckedName* name) {
      return name->key.parent == parent;
    });
    CheckedName* const kept = right == all.end() ? all.front() : *right;
    for (CheckedName* name : all)
      if (name != kept)
        drop(model, *name, "extra-name",
             fmt::format("a second name of the directory {}", model.path(kept->key)),
             "the name is removed");
  }
}

/// Breaks every loop of directories that contain each other, by removing one of its names.
void cut_loops(CheckModel& model) {
  std::set<Ino> sound;
  for (auto& [start, inode] : model.inodes) {
    std::set<Ino> way;
    Ino ino = start;
    while (model.is_directory(ino) && ino != kRootIno && model.inodes[ino].name &&
           !sound.contains(ino) && way.insert(ino).second)
      ino = model.inodes[ino].name->parent;
    if (way.contains(ino) && !sound.contains(ino)) {
      CheckedInode& cut = model.inodes[ino];
      if (CheckedName* name = model.find_name(*cut.name)) {
        name->kept = false;
        model.out.dentries.erase(name->key);
      }
      cut.name = nullptr;
      model.found("loop", fmt::format("inode {}", ino),
                  "the directory lies within itself: no path leads to it or to what is in it",
                  "it goes to /lost+found");
      cut.attached = true;
    }
    sound.merge(way);
  }
}

class LostAndFound {
 public:
  explicit LostAndFound(CheckModel& model) : model_(model) {}

  void attach(Ino ino, CheckedInode& inode) {
    const Ino directory = here();
    const DentryKey key = free_name(directory, fmt::format("#{}", ino));
    const auto entry =
        model_.out.dentries.insert_or_assign(key, DentryRow{ino, inode.row.mode & S_IFMT}).first;
    inode.name = &entry->first;
    inode.attached = true;
    if (S_ISDIR(inode.row.mode)) inode.row.parent = directory;
  }

 private:
  Ino here() {
    if (ino_ != 0) return ino_;
    const CheckedName* there = model_.find_name({kRootIno, kLostAndFound});
    if (there && there->kept && model_.is_directory(there->row.ino)) return ino_ = there->row.ino;
    const DentryKey key = free_name(kRootIno, kLostAndFound);
    // The number comes after the largest new one, so that later inodes can follow it.
    auto next = model_.inodes.upper_bound(kLargestNewIno);
    ino_ = std::max(std::prev(next)->first + 1, read_reserved(model_.database).value_or(0));
    CheckedInode& made = model_.inodes[ino_];
    const InodeRow& root = model_.inodes[kRootIno].row;
    made.row.mode = S_IFDIR | 0700;
    made.row.uid = root.uid;
    made.row.gid = root.gid;
    made.row.nlink = 2;
    made.row.atime = made.row.mtime = made.row.ctime = model_.input.now;
    made.row.parent = kRootIno;
    made.attached = true;
    made.name = &model_.out.dentries.insert_or_assign(key, DentryRow{ino_, S_IFDIR}).first->first;
    return ino_;
  }
  DentryKey free_name(Ino parent, const std::string& wanted) {
    DentryKey key{parent, wanted};
    for (unsigned n = 2; taken(key); ++n) key.name = fmt::format("{}-{}", wanted, n);
    return key;
  }
  bool taken(const DentryKey& key) {
    const CheckedName* stored = model_.find_name(key);
    const auto added = model_.out.dentries.find(key);
    return (stored && stored->kept) || (added != model_.out.dentries.end() && added->second);
  }

  CheckModel& model_;
  Ino ino_ = 0;
};

}  // namespace

void check_inodes(CheckModel& model) {
  for (auto at = model.inodes.begin(); at != model.inodes.end();) {
    auto& [ino, inode] = *at;
    if (inode.exists)
      check_attributes(model, ino, inode);
    else if (ino == kRootIno || inode.children > 0 || inode.extents > 0)
      make_again(model, ino, inode);
    else {
      at = model.inodes.erase(at);
      continue;
    }
    ++at;
  }
  if (!model.inodes.contains(kRootIno)) make_again(model, kRootIno, model.inodes[kRootIno]);
}

void check_names(CheckModel& model) {
  for (CheckedName& name : model.names) check_name(model, name);
  check_directory_names(model);
  for (auto& [ino, inode] : model.inodes) {
    inode.name = nullptr;
    inode.children = 0;
  }
  for (const CheckedName& name : model.names) {
    if (!name.kept) {
      model.out.dentries.erase(name.key);
      continue;
    }
    ++model.inodes[name.key.parent].children;
    CheckedInode& inode = model.inodes[name.row.ino];
    if (!inode.name) inode.name = &name.key;
  }
}

void check_tree(CheckModel& model) {
  cut_loops(model);
  LostAndFound found(model);
  std::vector<Ino> nameless;
  for (const auto& [ino, inode] : model.inodes)
    if (ino != kRootIno && !inode.name) nameless.push_back(ino);
  for (const Ino ino : nameless) {
    CheckedInode& inode = model.inodes[ino];
    if (CheckModel::unlinked(inode)) {
      model.found("unlinked", fmt::format("inode {}", ino),
                  "a file that was deleted while a program had it open", {});
      model.out.findings.back().harmless = true;
      continue;
    }
    const bool told = inode.attached;
    found.attach(ino, inode);
    if (!told)
      model.found("nameless", fmt::format("inode {}", ino),
                  fmt::format("{} without a name: no path leads to it", called(inode.row.mode)),
                  fmt::format("it appears as {}", model.path(ino)));
  }
}

void check_links(CheckModel& model) {
  struct Count {
    std::uint32_t names = 0, subdirectories = 0;
    Ino parent = kRootIno;
  };
  std::map<Ino, Count> before, after;  // without and with the content of lost+found
  const auto count = [&](std::map<Ino, Count>& counts, const DentryKey& key, const DentryRow& row) {
    ++counts[row.ino].names;
    counts[row.ino].parent = key.parent;
    if (S_ISDIR(row.type)) ++counts[key.parent].subdirectories;
  };
  for (const CheckedName& name : model.names) {
    if (!name.kept) continue;
    count(before, name.key, name.row);
    count(after, name.key, name.row);
  }
  for (const auto& [key, row] : model.out.dentries)
    if (const CheckedName* stored = model.find_name(key); row && (!stored || !stored->kept))
      count(after, key, *row);
  for (auto& [ino, inode] : model.inodes) {
    if (ino != kRootIno && CheckModel::unlinked(inode)) continue;
    const bool directory = S_ISDIR(inode.row.mode);
    const auto links = [&](const Count& counts) {
      return directory ? 2 + counts.subdirectories : counts.names;
    };
    const std::uint32_t right = links(before[ino]);
    if (inode.exists && !inode.attached && inode.row.nlink != right)
      model.found("link-count", model.path(ino),
                  fmt::format("its link count is {} instead of {}", inode.row.nlink, right),
                  "the count is corrected");
    inode.row.nlink = links(after[ino]);
    if (!directory) continue;
    const Ino parent = after[ino].parent;
    if (inode.exists && !inode.attached && inode.row.parent != parent)
      model.found(
          "parent", model.path(ino),
          fmt::format("it names inode {} as the directory that it lies in", inode.row.parent),
          "it is set to the right one");
    inode.row.parent = parent;
  }
}

}  // namespace s3oram
