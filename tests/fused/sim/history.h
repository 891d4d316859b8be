// The contents of one file as a model holds them, and the contents that a crash may leave.
//
// Time is counted in operations that have ended. A commit holds all operations that had ended when
// it was fixed (an Index), and none that began later. Of the operations between these it may hold
// some steps, each of which is one block. If no barrier covers some data, the commit may hold an
// older version of it, block by block; a block is never a mixture.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace s3oram::sim {

using Index = std::uint64_t;
inline constexpr Index kNever = std::numeric_limits<Index>::max();

/// The valid bytes of each block; a block that is missing is a hole.
using Blocks = std::map<std::uint64_t, std::string>;

struct Content {
  std::uint64_t size = 0;
  Blocks blocks;
  friend bool operator==(const Content&, const Content&) = default;
};

/// One step of an operation on a file.
struct Step {
  enum class Kind {
    write,  // `block` holds `bytes`
    hole,   // `block` is a hole from the commit on
    size,   // the file's size is `size`: everything beyond is cut
  };
  Kind kind = Kind::write;
  std::uint64_t block = 0;
  std::string bytes;
  std::uint64_t size = 0;            // size of the file; for a write, where its block then ends
  Index begins = 0, ends = kNever;   // when its operation begins and ends
  bool replaces = false;             // cuts the file to nothing, to rewrite it
  std::optional<std::int64_t> at{};  // when a replacement happened; ns
};

class FileHistory {
 public:
  explicit FileHistory(std::uint32_t block_size) : block_size_(block_size) {}
  /// Makes a file of which exactly this content is durable.
  FileHistory(std::uint32_t block_size, Content content)
      : now(content), block_size_(block_size), base_(std::move(content)) {}

  Content now;

  // The steps of each operation, in order. These functions do not change the file.
  std::vector<Step> steps_of_write(std::uint64_t offset, const std::string& bytes) const;
  std::vector<Step> steps_of_punch(std::uint64_t offset, std::uint64_t length) const;
  std::vector<Step> steps_of_resize(std::uint64_t size, std::int64_t at) const;
  /// Records that these steps have happened.
  void apply(std::vector<Step> steps, Index begins, Index ends);

  std::string read(std::uint64_t offset, std::uint64_t length) const;
  /// Returns the number of steps that have happened.
  std::size_t steps() const { return steps_.size(); }

  /// Records that everything that ended by `index` is durable.
  void barrier(Index index) { durable_ = std::max(durable_, index); }
  /// Does the same, unless the content has been replaced later than `settled`. In that case the
  /// previous content may have lost its last writes.
  void barrier_of_tick(Index index, std::int64_t settled);
  /// Records that a commit that holds operation `ends` also holds all data that ended by `index`.
  void barrier_with(Index ends, Index index) { conditional_.emplace_back(ends, index); }
  /// Records that from `index` until end_settling() the new content of a file that is rewritten may
  /// commit. Returns a number for end_settling().
  std::size_t begin_settling(Index index);
  void end_settling(std::size_t number, Index index) { settles_[number].second = index; }
  void may_settle(Index index) { end_settling(begin_settling(index), index); }
  /// Records that the device is full, so that the new content, as far as it exists, may take the
  /// room of the previous one.
  void may_give_way(Index index) {
    if (gives_way_.empty() || gives_way_.back() != index) gives_way_.push_back(index);
  }

  struct Commit {
    Index index = 0;
    std::int64_t until = 0;     // ns: the latest time at which it was fixed
    std::int64_t patience = 0;  // ns: how long a replaced content is held back
  };
  /// Returns why the file `seen` after a crash breaks a promise; std::nullopt if it breaks none.
  std::optional<std::string> refuses(const Content& seen, const Commit& commit) const;

 private:
  std::optional<std::string> refuses(const Content& seen, const Commit& commit, std::size_t steps,
                                     Index required) const;
  bool is_replacement(const Step& step, Index required) const;

  std::uint32_t block_size_;
  Content base_;  // durable
  std::vector<Step> steps_;
  Index durable_ = 0;
  std::vector<std::pair<Index, Index>> conditional_;
  std::vector<std::pair<Index, Index>> settles_;
  std::vector<Index> gives_way_;  // ascending
};

/// Applies one step.
void take(Content& content, const Step& step, std::uint32_t block_size);

}  // namespace s3oram::sim
