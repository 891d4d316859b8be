// The names of directories in the order in which they are listed, kept in memory for directories
// that are being read.
//
// A listing continues after the position of the last name that was read. Programs remember
// positions: with telldir() while the directory is open, and an NFS server even across a remount.
// So a position is a hash of the name, which never changes and does not depend on other names: no
// matter what is added, removed or replaced meanwhile, a name that exists all the time is listed
// exactly once. Positions are above 2, and below 2^31, because a 32-bit program cannot handle
// larger ones.
//
// Among a million names, some pairs have the same hash. In that case the name whose inode is newer
// takes the next free position, and keeps it as long as the listing is in memory.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fused/cache/timing.h"
#include "fused/tables/rows.h"

namespace s3oram {

using DirPosition = std::uint64_t;
/// A listing starts at position 0.
inline constexpr DirPosition kPositionOfSelf = 1, kPositionOfParent = 2;

struct DirectoryEntry {
  std::string name;
  Ino ino = 0;
  std::uint32_t type = 0;  // S_IFMT bits
  DirPosition position = 0;
};

/// Returns the position of the name, unless another name has it.
DirPosition usual_position(std::string_view name);

/// The names of one directory, without "." and "..".
class Listing {
 public:
  using HashOf = DirPosition (*)(std::string_view);

  Listing() = default;
  /// `entries` come in any order, without positions. `hash` replaces usual_position() in tests.
  /// `whole` is false if damage may hide other names.
  explicit Listing(std::vector<DirectoryEntry> entries, HashOf hash = usual_position,
                   bool whole = true);

  /// Adds a name. If it exists, it keeps its position, and leads to this inode from now on.
  void put(const std::string& name, Ino ino, std::uint32_t type);
  void erase(const std::string& name);
  /// Appends up to `most` entries that come after position `after`.
  void read(DirPosition after, std::size_t most, std::vector<DirectoryEntry>& entries) const;
  std::size_t size() const { return entries_.size(); }
  bool whole() const { return whole_; }

 private:
  DirPosition place_of(const std::string& name) const;

  HashOf hash_ = usual_position;
  bool whole_ = true;
  std::map<DirPosition, DirectoryEntry> entries_;
  std::unordered_map<std::string, DirPosition> displaced_;  // names that are not at their hash
};

/// The listings of open directories that have been read. They stay for a while after the directory
/// is closed, because an NFS server opens it again for every few names.
class Listings {
 public:
  /// Bounds the listings of directories that are not open. The one used last may have more names.
  static constexpr std::size_t kMostIdleNames = 100'000;
  static constexpr auto kIdle = std::chrono::seconds(30);

  /// Counts an open. Returns whether the directory was not open before.
  bool opened(Ino directory);
  void closed(Ino directory, Timing::Time now);

  /// Returns the listing, or null if it is not in memory. The pointer is valid until the next call
  /// of another function.
  Listing* find(Ino directory);
  Listing& keep(Ino directory, Listing listing, Timing::Time now);

  /// Drops listings of directories that have been closed for kIdle.
  void trim(Timing::Time now);

 private:
  struct Kept {
    Listing listing;
    bool is_idle = false;
    Timing::Time idle_since{};       // these three: only if is_idle
    std::size_t idle_names = 0;      // names when it was closed
    std::list<Ino>::iterator place;  // its place in idle_
  };
  void rest(Ino directory, Kept& kept, Timing::Time now);
  void forget_oldest();

  std::unordered_map<Ino, unsigned> users_;
  std::unordered_map<Ino, Kept> kept_;
  std::list<Ino> idle_;  // longest idle first
  std::size_t idle_names_ = 0;
};

}  // namespace s3oram
