// The names of directories in the order in which they are listed, in memory for those that are
// being read.
//
// A listing goes on after the position of the last name that was read. Programs keep positions:
// telldir() for as long as the directory is open, an NFS server for longer than that, even over a
// remount. A position therefore follows from the name alone, by a hash that never changes, and does
// not depend on what else is in the directory: whatever is added, removed or replaced meanwhile, a
// name that is there all the time is listed exactly once. Positions are above 2, and below 2^31,
// because a 32-bit program cannot take larger ones.
//
// Two of a million names may have one hash. Then the one whose inode is newer takes the next free
// position, and keeps it as long as the listing is in memory.
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
/// Where a listing starts is 0.
inline constexpr DirPosition kPositionOfSelf = 1, kPositionOfParent = 2;

struct DirectoryEntry {
  std::string name;
  Ino ino = 0;
  std::uint32_t type = 0;  // S_IFMT bits
  DirPosition position = 0;
};

/// The position that the name has if no other one has it.
DirPosition usual_position(std::string_view name);

/// One directory without "." and "..".
class Listing {
 public:
  using HashOf = DirPosition (*)(std::string_view);

  Listing() = default;
  /// `entries` in any order, without positions. `hash`: another than usual_position(), for tests.
  /// `whole`: there are no other names than these; if not, damage may hide some.
  explicit Listing(std::vector<DirectoryEntry> entries, HashOf hash = usual_position,
                   bool whole = true);

  /// Adds a name. One that is there keeps its position, and leads to this inode now.
  void put(const std::string& name, Ino ino, std::uint32_t type);
  void erase(const std::string& name);
  /// Appends up to `most` entries that come after the position.
  void read(DirPosition after, std::size_t most, std::vector<DirectoryEntry>& entries) const;
  std::size_t size() const { return entries_.size(); }
  bool whole() const { return whole_; }

 private:
  DirPosition place_of(const std::string& name) const;

  HashOf hash_ = usual_position;
  bool whole_ = true;
  std::map<DirPosition, DirectoryEntry> entries_;
  std::unordered_map<std::string, DirPosition>
      displaced_;  // those that are not where their hash says
};

/// The listings of directories that are open and have been read, and for a while after that: an NFS
/// server opens the directory again for every few names.
class Listings {
 public:
  /// Bounds of those that nobody has open. The one that was used last may have more names.
  static constexpr std::size_t kMostIdleNames = 100'000;
  static constexpr auto kIdle = std::chrono::seconds(30);

  /// The directory is open once more; gives whether it is so for the first time.
  bool opened(Ino directory);
  void closed(Ino directory, Timing::Time now);

  /// Null if it is not in memory. Valid until the next call of a function that is not find().
  Listing* find(Ino directory);
  Listing& keep(Ino directory, Listing listing, Timing::Time now);

  /// Forgets those that nobody has had open for kIdle.
  void trim(Timing::Time now);

 private:
  struct Kept {
    Listing listing;
    bool is_idle = false;
    Timing::Time idle_since{};       // these three: if it is
    std::size_t idle_names = 0;      // as it had when it was closed
    std::list<Ino>::iterator place;  // in idle_
  };
  void rest(Ino directory, Kept& kept, Timing::Time now);
  void forget_oldest();

  std::unordered_map<Ino, unsigned> users_;
  std::unordered_map<Ino, Kept> kept_;
  std::list<Ino> idle_;  // the one that nobody has open for longest is the first
  std::size_t idle_names_ = 0;
};

}  // namespace s3oram
