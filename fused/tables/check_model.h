// The file system as a check sees it: it has all inodes and names in memory, and only counts
// extents. Each step of check_files() adds findings and repairs to it.
#pragma once

#include <sys/stat.h>

#include <map>
#include <string>
#include <vector>

#include "fused/tables/check_files.h"

namespace s3oram {

struct CheckedInode {
  InodeRow row;                     // the row as the repair leaves it
  InodeRow stored;                  // the row as it is now
  bool exists = false;              // it is in the table
  bool attached = false;            // gets a name in lost+found
  std::uint64_t extents = 0;        // rows that name it
  std::uint64_t children = 0;       // names in it
  const DentryKey* name = nullptr;  // one of its names
  std::uint32_t name_type = 0;      // the type that this name gives it
  std::uint64_t kept = 0, end = 0;  // extents that stay; where the last of them ends, in bytes
};

struct CheckedName {
  DentryKey key;
  DentryRow row;
  bool kept = true;
};

struct CheckModel {
  Database& database;
  const FileCheckInput& input;
  FileCheck& out;
  std::map<Ino, CheckedInode> inodes;
  std::vector<CheckedName> names;  // in the order of their keys; not resized after reading

  bool is_directory(Ino ino) const {
    const auto found = inodes.find(ino);
    return found != inodes.end() && S_ISDIR(found->second.row.mode);
  }
  /// Returns whether the inode was unlinked while open. The next mount frees it.
  static bool unlinked(const CheckedInode& inode) {
    return !inode.name && inode.row.nlink == 0 && inode.children == 0;
  }
  CheckedName* find_name(const DentryKey& key);
  /// For messages: "/a/b", or "inode 12" for an inode without a name.
  std::string path(Ino ino) const;
  std::string path(const DentryKey& key) const;

  void found(std::string kind, std::string where, std::string what, std::string repair) {
    out.findings.push_back({std::move(kind), std::move(where), std::move(what), std::move(repair)});
  }
  /// Calls each(key, row) for the sound rows of a table. Returns false, and sets out.refused, if
  /// reading failed.
  template <class T, class Each>
  bool scan(const std::string& unsound, Each each) {
    auto rows = database.prepare(fmt::format("SELECT {} FROM {} WHERE NOT ({}) ORDER BY {}",
                                             T::kColumns, T::kName, unsound, T::kKey));
    if (!rows) return refuse(T::kName, rows.error());
    while (true) {
      auto more = rows->step();
      if (!more) return refuse(T::kName, more.error());
      if (!*more) return true;
      each(T::key(*rows), T::row(*rows, T::kKeyWidth));
    }
  }
  bool refuse(const std::string& table, const Error& error);
};

// The steps, in their order. A step returns false if the check cannot continue.

/// check_rows.cc. Reports rows that hold impossible values, and leaves them out.
bool check_tables(CheckModel& model);
bool check_rows(CheckModel& model);
bool read_model(CheckModel& model);
/// check_names.cc
void check_inodes(CheckModel& model);
/// check_data.cc
bool check_xattrs(CheckModel& model);
/// check_names.cc
void check_names(CheckModel& model);
void check_tree(CheckModel& model);
void check_links(CheckModel& model);
/// check_data.cc
bool check_data(CheckModel& model);

}  // namespace s3oram
