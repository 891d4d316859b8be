// Runs the steps of a check in order, and applies the repair.
#include "fused/tables/check_files.h"

#include <algorithm>

#include "fused/tables/check_model.h"

namespace s3oram {
namespace {

/// Returns a name in a form that is safe to show on a terminal.
std::string shown(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte == 0x7f ? fmt::format("\\{:03o}", byte) : std::string(1, c);
  }
  return text;
}

}  // namespace

std::string CheckModel::path(const DentryKey& key) const {
  std::string text = "/" + shown(key.name);
  // A path with more steps than there are inodes is a loop.
  Ino ino = key.parent;
  for (std::size_t steps = 0; ino != kRootIno; ++steps) {
    const auto found = inodes.find(ino);
    if (found == inodes.end() || !found->second.name || steps > inodes.size())
      return fmt::format("inode {}{}", ino, text);
    text = fmt::format("/{}{}", shown(found->second.name->name), text);
    ino = found->second.name->parent;
  }
  return text;
}

std::string CheckModel::path(Ino ino) const {
  if (ino == kRootIno) return "/";
  const auto found = inodes.find(ino);
  if (found == inodes.end() || !found->second.name) return fmt::format("inode {}", ino);
  return path(*found->second.name);
}

CheckedName* CheckModel::find_name(const DentryKey& key) {
  const auto at = std::lower_bound(
      names.begin(), names.end(), key,
      [](const CheckedName& name, const DentryKey& wanted) { return name.key < wanted; });
  return at != names.end() && at->key == key ? &*at : nullptr;
}

bool CheckModel::refuse(const std::string& table, const Error& error) {
  out.refused = error;
  found("unreadable-table", "vault.db, table " + table,
        error.message + ": the files cannot be checked further", {});
  return false;
}

FileCheck check_files(Database& database, const FileCheckInput& input) {
  FileCheck out;
  CheckModel model{database, input, out, {}, {}};
  if (!check_tables(model) || !check_rows(model) || !read_model(model)) return out;
  check_inodes(model);
  if (!check_xattrs(model)) return out;
  check_names(model);
  check_tree(model);
  check_links(model);
  if (!check_data(model)) return out;
  for (auto& [ino, inode] : model.inodes)
    if (!inode.exists || inode.row != inode.stored) out.inodes[ino] = inode.row;
  for (const CheckedName& name : model.names)
    if (!name.kept) out.dentries.try_emplace(name.key, std::nullopt);
  out.files = model.inodes.size();
  out.names = model.names.size();
  return out;
}

Status repair_files(Database& database, const FileCheck& check) {
  for (const std::string& sql : check.statements) S3O_TRY(database.execute(sql));
  S3O_TRY(Table<InodeTable>::apply(database, check.inodes));
  S3O_TRY(Table<DentryTable>::apply(database, check.dentries));
  S3O_TRY(Table<ExtentTable>::apply(database, check.extents));
  return Table<XattrTable>::apply(database, check.xattrs);
}

}  // namespace s3oram
