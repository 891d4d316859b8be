// What one worker of the workload knows of its files: what they hold now, and what a crash may
// leave of them. Rules, for data: what was synced is there; of each granule (4 KiB) written since,
// one of its contents since then, whole; a shortened file never shows again what was cut off,
// unless all that came after the shortening is gone too. For names: those after one of the
// operations since the last sync, with all before it and none after.
//
// A model is kept in a folder outside the mount: what was there when it was last verified, and a
// log of all operations since. One thread.
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

/// The bytes that write number `version` of worker `worker` puts at `offset`: found nowhere else.
std::string pattern(unsigned worker, std::uint64_t version, std::uint64_t offset,
                    std::size_t length);

/// An empty text means that all is well.
using Complaint = std::string;

class FileModel {
 public:
  FileModel() = default;
  /// All of it is durable.
  explicit FileModel(const std::string& content);

  /// `done` false: it failed, and may have happened all the same, even in part.
  void write(std::uint64_t offset, std::string_view data, bool done);
  void truncate(std::uint64_t size, bool done);
  void synced();
  /// Called when a rename has replaced another file with this one, which had the name `former`. A
  /// crash that this rename survives leaves none of the earlier contents.
  void settled(std::string former);
  /// `content` was read. It becomes what is there, if it can be.
  Complaint adopt(const std::string& content);

  /// Of a file that a crash left under the name `path`.
  Complaint check_after_crash(const std::string& path, const std::string& content) const;

  std::uint64_t size() const { return size_; }
  /// Whether all its operations succeeded.
  bool certain() const { return certain_; }
  bool is_settled() const { return !former_.empty(); }

 private:
  using Page = std::shared_ptr<const std::string>;
  struct State {
    Page page;
    unsigned epoch = 0;  // shortenings of the file before it
  };
  struct Granule {
    std::vector<State> states;  // oldest first
    std::size_t certain = 0;    // it is in this state now, or in a later one
  };
  struct Sizes {
    std::uint64_t low, high;  // low: to which the file was cut
  };
  Granule& granule(std::uint64_t index);
  unsigned epoch() const { return static_cast<unsigned>(sizes_.size() - 1); }
  Page as_of(std::uint64_t index, const State& state, unsigned epoch) const;
  /// What the granule may hold from state `from` and epoch `first` on; the last is the newest.
  std::vector<Page> alternatives(std::uint64_t index, std::size_t from, unsigned first,
                                 unsigned last) const;
  static Complaint check_granule(std::uint64_t index, std::string_view seen,
                                 const std::vector<Page>& allowed);

  std::map<std::uint64_t, Granule> granules_;  // none: a hole
  std::vector<Sizes> sizes_{{0, 0}};           // by epoch
  std::uint64_t size_ = 0;
  bool certain_ = true;
  unsigned certain_epoch_ = 0;  // this shortening has happened
  std::string former_;
};

struct Name {
  Ino ino = 0;  // 0: unknown, its making failed
  bool directory = false;
};
/// By path. Prefixes of what is there are there.
using Tree = std::map<std::string, Name>;

struct NameChange {
  char kind = 0;  // 'c'reate, 'm'kdir, 'u'nlink or rmdir, re'n'ame
  std::string path, target;
  Ino ino = 0;
};

class Model {
 public:
  /// As it was left; empty the first time.
  Model(std::filesystem::path folder, unsigned worker);

  unsigned worker() const { return worker_; }
  std::uint64_t next_version() { return ++version_; }
  const Tree& tree() const { return tree_; }
  std::map<Ino, FileModel>& files() { return files_; }
  /// A change of names failed, and nobody knows yet whether it happened.
  bool unsure() const { return unsure_; }

  // Reports of what happened. Each is logged before it returns.
  void change(const NameChange& change, bool done);
  void write(Ino ino, std::uint64_t offset, std::size_t length, std::uint64_t version, bool done);
  void truncate(Ino ino, std::uint64_t size, bool done);
  void synced(Ino ino);
  void names_synced();
  void settled(Ino ino, const std::string& former);

  /// What is there now, without a crash in between, becomes the model's present.
  Complaint look(const Tree& seen);
  Complaint adopt(Ino ino, const std::string& content);

  /// Takes what a crash left. It becomes the model's beginning if all is well.
  Complaint verify(const Tree& seen, const std::map<Ino, std::string>& contents);
  /// The same without a crash.
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
  std::vector<NameChange> changes_;  // since base_
  bool unsure_ = false;
  std::map<Ino, FileModel> files_;
  int log_ = -1;
};

}  // namespace s3oram::workload
