// The knowledge of one worker of the workload about its files: their current content, and what a
// crash may leave of it. For data: what was synced is there. Each granule (4 KiB) written later
// holds one of its later contents, whole. A file that was shortened never shows the cut-off bytes
// again, unless everything after the shortening is gone too. For names: they are those after one of
// the operations since the last sync, with all earlier ones and no later ones.
//
// A model is kept in a directory outside the mount: the state at the last verification, and a log
// of all operations since then. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace s3oram::workload {

using Ino = std::uint64_t;
constexpr std::size_t kGranule = 4096;

/// Returns the bytes that write number `version` of worker `worker` puts at `offset`, which occur
/// nowhere else.
std::string pattern(unsigned worker, std::uint64_t version, std::uint64_t offset,
                    std::size_t length);

/// An empty text means that all is well.
using Complaint = std::string;

class FileModel {
 public:
  FileModel() = default;
  /// Makes a model of a file whose content is all durable.
  explicit FileModel(const std::string& content);

  /// If `done` is false, the operation failed, but may still have happened, even in part.
  void write(std::uint64_t offset, std::string_view data, bool done);
  void truncate(std::uint64_t size, bool done);
  void synced();
  /// Called when a rename has replaced another file with this one, which had the name `former`. A
  /// crash that this rename survives leaves none of the earlier contents.
  void settled(std::string former);
  /// `content` was read. It becomes the current content, if that is possible.
  Complaint adopt(const std::string& content);

  /// Checks a file that a crash left under the name `path`.
  Complaint check_after_crash(const std::string& path, const std::string& content) const;

  std::uint64_t size() const { return size_; }
  /// Returns whether all its operations succeeded.
  bool certain() const { return certain_; }
  bool is_settled() const { return !former_.empty(); }

 private:
  using Page = std::shared_ptr<const std::string>;
  struct State {
    Page page;
    unsigned epoch = 0;  // the number of earlier shortenings of the file
  };
  struct Granule {
    std::vector<State> states;  // oldest first
    std::size_t certain = 0;    // the file is in this state now, or in a later one
  };
  struct Sizes {
    std::uint64_t low, high;  // low: the size to which the file was cut
  };
  Granule& granule(std::uint64_t index);
  unsigned epoch() const { return static_cast<unsigned>(sizes_.size() - 1); }
  Page as_of(std::uint64_t index, const State& state, unsigned epoch) const;
  /// Returns what the granule may hold from state `from` and epoch `first` on; the last is the
  /// newest.
  std::vector<Page> alternatives(std::uint64_t index, std::size_t from, unsigned first,
                                 unsigned last) const;
  static Complaint check_granule(std::uint64_t index, std::string_view seen,
                                 const std::vector<Page>& allowed);

  std::map<std::uint64_t, Granule> granules_;  // a missing granule is a hole
  std::vector<Sizes> sizes_{{0, 0}};           // by epoch
  std::uint64_t size_ = 0;
  bool certain_ = true;
  unsigned certain_epoch_ = 0;  // this shortening has certainly happened
  std::string former_;
};

struct Name {
  Ino ino = 0;  // 0 if unknown, because creating it failed
  bool directory = false;
};
/// By path. If a path is in the tree, so are its prefixes.
using Tree = std::map<std::string, Name>;

struct NameChange {
  char kind = 0;  // 'c'reate, 'm'kdir, 'u'nlink or rmdir, re'n'ame
  std::string path, target;
  Ino ino = 0;
};

class Model {
 public:
  /// Loads the state that the last run left; starts empty the first time.
  Model(std::filesystem::path folder, unsigned worker);

  unsigned worker() const { return worker_; }
  std::uint64_t next_version() { return ++version_; }
  const Tree& tree() const { return tree_; }
  std::map<Ino, FileModel>& files() { return files_; }
  /// Returns whether a change of names failed, and it is not yet known whether it happened.
  bool unsure() const { return unsure_; }

  // Reports of operations. Each is logged before it returns.
  void change(const NameChange& change, bool done);
  void write(Ino ino, std::uint64_t offset, std::size_t length, std::uint64_t version, bool done);
  void truncate(Ino ino, std::uint64_t size, bool done);
  void synced(Ino ino);
  void names_synced();
  void settled(Ino ino, const std::string& former);

  /// Without a crash in between, what is seen now becomes the state of the model.
  Complaint look(const Tree& seen);
  Complaint adopt(Ino ino, const std::string& content);

  /// Takes what a crash left. It becomes the model's start if all is well.
  Complaint verify(const Tree& seen, const std::map<Ino, std::string>& contents);
  /// Does the same without a crash.
  Complaint compare(const Tree& seen, const std::map<Ino, std::string>& contents);

 private:
  void replay(const std::string& line);
  void log(const std::string& line);
  std::string history_of(Ino ino) const;
  void begin_anew(const Tree& seen, const std::map<Ino, std::string>& contents);

  std::filesystem::path folder_;
  unsigned worker_;
  std::uint64_t version_ = 0;
  Tree base_, tree_;
  std::vector<NameChange> changes_;  // changes since base_
  bool unsure_ = false;
  std::map<Ino, FileModel> files_;
  int log_ = -1;
};

}  // namespace s3oram::workload
