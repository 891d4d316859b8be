// The disk of dropfs: files as programs see them, and the part of them that a power cut would
// leave.
//
// Data is safe once its file was synced, a name once its directory was synced. Unsafe data is kept,
// dropped or torn when the power is cut: each changed piece of a file independently, and names in
// the order in which they were changed (like a journal). One thread.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace s3oram {

class DropStore {
 public:
  using Ino = std::uint64_t;
  static constexpr Ino kRoot = 1;
  static constexpr std::size_t kPage = 4096, kSector = 512;

  using Page = std::array<char, kPage>;
  struct Content {
    std::uint64_t size = 0;
    std::map<std::uint64_t, std::shared_ptr<Page>> pages;  // by number; a missing page is a hole
  };
  using Names = std::map<std::string, Ino, std::less<>>;
  struct Node {
    struct stat attributes {};  // st_size, st_blocks and st_nlink are not kept here
    std::string target;         // only for a symbolic link
    Content now, safe;
    std::set<std::uint64_t> changed;  // pages that differ, or may differ
    Names names, safe_names;          // only for a directory
    std::uint64_t lookups = 0;
  };
  enum class Survival { nothing, everything, random };

  DropStore();

  /// Returns nullptr if there is no such node (any more).
  Node* find(Ino ino);
  Ino make(const struct stat& attributes);

  /// A change of names. All its edits survive or none does. `ino` 0 removes the name.
  struct Edit {
    Ino directory;
    std::string name;
    Ino ino;
  };
  void change_names(std::vector<Edit> edits);
  void sync_names(Ino directory);
  /// Forgets a node that has neither a name nor a user.
  void drop_unused();

  std::string read(const Node& node, std::uint64_t offset, std::size_t size) const;
  /// write() and allocate() return false if the disk is full, and then change nothing.
  bool write(Node& node, std::uint64_t offset, std::string_view data);
  bool allocate(Node& node, std::uint64_t offset, std::uint64_t length);
  void zero(Node& node, std::uint64_t offset, std::uint64_t length);
  void resize(Node& node, std::uint64_t size);
  void sync(Node& node);

  /// Cuts the power and restores it. Afterwards all nodes except the root have new numbers.
  void cut(Survival survival, std::uint64_t seed);

  std::uint64_t pages() const { return used_; }
  std::uint64_t most_pages = std::uint64_t{16} << 20;  // 64 GiB

 private:
  Page& page_to_change(Node& node, std::uint64_t number);
  void erase_page(Node& node, std::uint64_t number);
  bool has_room(const Node& node, std::uint64_t first, std::uint64_t last) const;
  Content surviving(const Node& node, Survival survival, std::mt19937_64& random) const;
  void apply(const Edit& edit);

  std::unordered_map<Ino, std::unique_ptr<Node>> nodes_;
  std::vector<std::vector<Edit>> unsafe_;  // changes of names, oldest first
  Ino next_ = 16;
  std::uint64_t used_ = 0;
};

}  // namespace s3oram
