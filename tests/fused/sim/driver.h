// Runs random operations on a file system in a World, compares every answer with a Tree, cuts the
// power at any moment, and checks that the remaining state is one that the history allows.
#pragma once

#include <list>
#include <set>

#include "fused/files/file_system.h"
#include "tests/fused/sim/observed.h"
#include "tests/fused/sim/tree.h"
#include "tests/fused/sim/world.h"

namespace s3oram::sim {

inline constexpr std::uint32_t kBlock = 512;

struct DriverOptions {
  std::uint64_t operations = 150;
  std::uint64_t most_steps = 400;  // steps before the power is cut, at most
};

/// Keeps an inode in a set for the length of a scope; a power cut may empty the set earlier.
template <class Set>
class Held {
 public:
  Held(Set& set, Ino ino) : set_(set), ino_(ino) { set_.insert(ino); }
  ~Held() {
    if (const auto found = set_.find(ino_); found != set_.end()) set_.erase(found);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  Set& set_;
  Ino ino_;
};

class Driver {
 public:
  Driver(World& world, const DriverOptions& options);

  /// Throws a Violation. At the end everything is deleted.
  void run();

  std::uint64_t cuts() const { return cuts_; }
  /// Returns the last operations, for a report.
  std::string story() const;

 private:
  // driver.cc: mounting and unmounting
  void mount(bool quiet);
  void unmount();
  void recover();
  void check(const Observed& seen);
  void check_same(const Observed& seen);
  void reenrol(const Observed& seen);
  void let_give_way();
  void meanwhile();
  void beat();
  void mount_again(bool quiet);
  void delete_everything();
  void finish();
  void sleep(std::chrono::milliseconds time);

  // operations.cc: each returns whether it did anything
  bool operate();
  bool write(Ino ino, std::uint64_t offset, std::uint64_t length);
  bool resize(Ino ino, std::uint64_t size);
  bool punch(Ino ino, int mode, std::uint64_t offset, std::uint64_t length);
  bool read(Ino ino, std::uint64_t offset, std::uint64_t length);
  bool truncate(Ino ino);
  bool sync(Ino ino);
  bool sync_names();
  bool sync_all();
  bool closed(Ino ino);
  bool rewrite(Ino ino);
  bool replace(const Name& name);

  // names.cc
  bool make(const Name& name, std::uint32_t type);
  bool link(Ino ino, const Name& name);
  bool unlink(const Name& name, bool directory);
  bool rename(const Name& from, const Name& to, unsigned flags);
  void drop(Ino ino);
  bool change_attributes(Ino ino);
  bool change_xattr(Ino ino);
  bool compare(Ino ino);
  bool forget(Ino ino);

  // The part of the kernel: how it uses a file system.
  void know(Ino ino);
  /// Files whose new content may commit while an operation runs.
  using Settling = std::vector<std::pair<Ino, std::size_t>>;
  Settling begin_settling(const std::vector<Ino>& inos);
  void end_settling(const Settling& settling);
  std::vector<Ino> named_files() const;
  Ino any_file();
  Ino any_inode();
  Ino any_directory();
  Name any_name();

  /// An operation that has begun.
  struct Begun {
    Index at = 0;
    bool troubled = false, was_troubled = false;
    std::string what;
    Timing::Time time{};
  };
  Begun begin(std::string what);
  void end();
  /// Returns true if the operation succeeded and should have. Returns false if it failed as it
  /// should have, or as the world's trouble allows.
  bool judge(const Begun& begun, int error, int expected = 0);
  bool may_fail(const Begun& begun, int error) const;
  bool is_still(Ino ino) const { return !exclusive_.contains(ino) && !shared_.contains(ino); }
  void reenrol_times(Ino ino);
  std::string payload(std::uint64_t length);
  std::int64_t time() const;
  std::size_t blocks_of_files();

  World& world_;
  Dice& dice_;
  const DriverOptions options_;
  FileSystemOptions fs_options_;
  Tree tree_;
  std::unique_ptr<FileSystem> fs_;

  std::map<Ino, std::uint64_t> references_;
  std::set<Ino> exclusive_;    // inodes whose data only one operation may change
  std::multiset<Ino> shared_;  // inodes into which single blocks are written
  std::multiset<Ino> busy_;    // inodes in use
  std::multiset<Ino> locked_;  // directories in which names change
  struct Pending {
    Ino ino = 0;
    Index begins = 0;
    std::vector<Step> steps;
  };
  std::list<Pending> pending_;  // operations of several blocks that have begun

  Timing::Time next_beat_{};
  bool quiet_ = true, beating_ = false;
  unsigned depth_ = 0;
  Timing::Time trouble_until_{}, healthy_since_{};
  Trouble trouble_kind_ = Trouble::none;  // of the last trouble
  bool gave_up_ = false;                  // an operation has failed in it
  Timing::Time full_until_{};             // by what the file system knows
  std::uint64_t payloads_ = 0, cuts_ = 0;
  std::vector<std::string> story_;
};

}  // namespace s3oram::sim
