// The contents of one file as a model holds them, and which contents a crash may leave.
//
// Time is counted in operations that have ended. A commit holds all operations that had ended when
// it was fixed (an Index), none that began later, and of those in between perhaps some of their
// steps, a block each. Of data that no barrier covers it may hold an older version, block by block;
// a block is never a mixture.
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

/// Each block's valid bytes; a block that is missing is a hole.
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
    hole,   // `block` is one from the commit on
    size,   // the file's size is `size`: all beyond is cut
  };
  Kind kind = Kind::write;
  std::uint64_t block = 0;
  std::string bytes;
  std::uint64_t size = 0;            // of the file; of a write: where its block then ends
  Index begins = 0, ends = kNever;   // of its operation
  bool replaces = false;             // cuts the file to nothing, to rewrite it
  std::optional<std::int64_t> at{};  // when, for those that replace; ns
};

class FileHistory {
 public:
  explicit FileHistory(std::uint32_t block_size) : block_size_(block_size) {}
  /// A file of which this, and nothing else, is durable.
  FileHistory(std::uint32_t block_size, Content content)
      : now(content), block_size_(block_size), base_(std::move(content)) {}

  Content now;

  // What operations consist of, in order. They do not change the file.
  std::vector<Step> steps_of_write(std::uint64_t offset, const std::string& bytes) const;
  std::vector<Step> steps_of_punch(std::uint64_t offset, std::uint64_t length) const;
  std::vector<Step> steps_of_resize(std::uint64_t size, std::int64_t at) const;
  /// They have happened.
  void apply(std::vector<Step> steps, Index begins, Index ends);

  std::string read(std::uint64_t offset, std::uint64_t length) const;
  /// How many have happened.
  std::size_t steps() const { return steps_.size(); }

  /// All that ended by `index` is durable.
  void barrier(Index index) { durable_ = std::max(durable_, index); }
  /// The same, unless the content has been replaced later than `settled`: the former one may have
  /// lost what was written last.
  void barrier_of_tick(Index index, std::int64_t settled);
  /// A commit that holds operation `ends` holds all data that ended by `index`.
  void barrier_with(Index ends, Index index) { conditional_.emplace_back(ends, index); }
  /// From `index` on, until end_settling(), the new content of a file that is rewritten may
  /// commit. Gives a number for the end.
  std::size_t begin_settling(Index index);
  void end_settling(std::size_t number, Index index) { settles_[number].second = index; }
  void may_settle(Index index) { end_settling(begin_settling(index), index); }
  /// The device is full: as much of the new content as is there may take the former one's room.
  void may_give_way(Index index) {
    if (gives_way_.empty() || gives_way_.back() != index) gives_way_.push_back(index);
  }

  struct Commit {
    Index index = 0;
    std::int64_t until = 0;     // ns: when it was fixed at the latest
    std::int64_t patience = 0;  // ns: how long a replaced content is held back
  };
  /// Why a file that a crash leaves with `seen` breaks a promise; nothing if it does not.
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
