// Random file operations that know what must still be there after a crash (workload_model.h).
//
//   workload run DIRECTORY MODELS SEED SECONDS [WORKERS]
//       works in DIRECTORY/1, /2, ... and continues after errors, until the time is over or the
//       file
//       system is gone; prints what it did, and how long the longest operation took
//   workload verify DIRECTORY MODELS     after a crash and a new mount
//   workload compare DIRECTORY MODELS    without a crash: everything is as it was left
//
// MODELS lies outside the file system under test. Exit codes: 1 something is not as it must be, 2
// the test itself cannot continue, 3 (run) the file system is gone.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "tests/system/workload_model.h"

namespace s3oram::workload {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFiles = 12, kDirectories = 4;
constexpr std::uint64_t kLargest = 256 << 10;

std::atomic<bool> stopping = false;

// ---- reading ------------------------------------------------------------------------------------

/// Adds everything below `root`/`prefix`. Returns 0 or an errno.
int list(const std::string& root, const std::string& prefix, Tree& tree) {
  DIR* directory = ::opendir((root + "/" + prefix).c_str());
  if (!directory) return errno;
  int error = 0;
  errno = 0;
  while (const dirent* entry = error == 0 ? ::readdir(directory) : nullptr) {
    const std::string name = entry->d_name, path = prefix + name;
    if (name == "." || name == "..") continue;
    struct stat found {};
    if (::lstat((root + "/" + path).c_str(), &found) != 0) {
      error = errno;
    } else {
      tree[path] = {found.st_ino, S_ISDIR(found.st_mode)};
      if (S_ISDIR(found.st_mode)) error = list(root, path + "/", tree);
    }
    errno = 0;
  }
  if (error == 0) error = errno;
  ::closedir(directory);
  return error;
}

int read_all(int fd, std::string& content) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return errno;
  content.resize(static_cast<std::size_t>(found.st_size));
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t got =
        ::pread(fd, content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (got < 0) return errno;
    if (got == 0) return EIO;  // the size promised more
    at += static_cast<std::size_t>(got);
  }
  return 0;
}

int read_all(const std::string& path, std::string& content) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = read_all(fd, content);
  ::close(fd);
  return error;
}

// ---- working ------------------------------------------------------------------------------------

class Worker {
 public:
  Worker(const std::string& directory, const std::string& models, unsigned number,
         std::uint64_t seed)
      : root_(directory + "/" + std::to_string(number)),
        model_(models + "/" + std::to_string(number), number),
        random_(seed * 1000 + number) {}
  ~Worker() {
    for (const auto& [ino, fd] : open_) ::close(fd);
  }

  void run(Clock::time_point end) {
    if (::mkdir(root_.c_str(), 0755) == 0) sync_names();  // the first time
    while (!stopping && !gone_ && complaint_.empty() && Clock::now() < end) step();
  }
  bool gone() const { return gone_; }
  const Complaint& complaint() const { return complaint_; }
  std::string summary() const {
    std::ostringstream out;
    out << operations_ << " operations, " << syncs_ << " syncs, longest "
        << std::chrono::duration_cast<std::chrono::milliseconds>(longest_).count() << " ms ("
        << longest_kind_ << ")";
    for (const auto& [error, count] : errors_) out << ", " << count << " x " << strerror(error);
    return out.str();
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  /// Runs `call` and records its outcome. Returns true if it did not fail.
  bool attempt(const char* kind, const std::function<int()>& call) {
    const auto start = Clock::now();
    const int error = call() < 0 ? errno : 0;
    const auto took = Clock::now() - start;
    ++operations_;
    if (took > longest_) {
      longest_ = took;
      longest_kind_ = kind;
    }
    if (error == 0) return true;
    ++errors_[error];
    // A daemon that dies aborts the requests that it has.
    gone_ = gone_ || error == ENOTCONN || error == ECONNABORTED || error == ESTALE;
    return false;
  }

  void step() {
    if (model_.unsure()) return look();
    const auto dice = below(100);
    if (dice < 8) return create();
    if (dice < 45) return write();
    if (dice < 52) return truncate();
    if (dice < 60) return replace();
    if (dice < 67) return rename();
    if (dice < 70) return remove();
    if (dice < 73) return change_directories();
    if (dice < 76) return sync_names();
    if (dice < 88) return sync();
    read();
  }

  std::string path_of(const std::string& name) const { return root_ + "/" + name; }
  /// Returns a random name of that kind, or std::nullopt.
  std::optional<std::pair<std::string, Name>> any(bool directory) {
    std::vector<std::pair<std::string, Name>> all;
    for (const auto& entry : model_.tree())
      if (entry.second.directory == directory) all.push_back(entry);
    if (all.empty()) return std::nullopt;
    return all[below(all.size())];
  }
  std::string new_name() {
    const auto parent = below(2) == 0 ? any(true) : std::nullopt;
    return (parent ? parent->first + "/" : "") + "n" + std::to_string(model_.next_version());
  }
  std::size_t count(bool directory) const {
    std::size_t n = 0;
    for (const auto& [path, name] : model_.tree()) n += name.directory == directory;
    return n;
  }

  /// Half of the files stay open, so that data written to them stays in the kernel for a while.
  int open(const std::string& path, Ino ino) {
    if (const auto found = open_.find(ino); found != open_.end()) return found->second;
    int fd = -1;
    attempt("open", [&] { return fd = ::open(path_of(path).c_str(), O_RDWR | O_CLOEXEC); });
    return fd;
  }
  void done_with(Ino ino, int fd) {
    if (fd < 0 || open_.contains(ino)) return;
    if (open_.size() < kFiles / 2 && below(4) == 0)
      open_[ino] = fd;
    else
      attempt("close", [&] { return ::close(fd); });
  }
  void close(Ino ino) {
    const auto found = open_.find(ino);
    if (found == open_.end()) return;
    attempt("close", [&] { return ::close(found->second); });
    open_.erase(found);
  }

  void create() {
    if (count(false) >= kFiles) return;
    NameChange change{.kind = 'c', .path = new_name(), .target = {}, .ino = 0};
    int fd = -1;
    const bool made = attempt("create", [&] {
      return fd = ::open(path_of(change.path).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    });
    struct stat found {};
    if (made && attempt("stat", [&] { return ::fstat(fd, &found); })) change.ino = found.st_ino;
    model_.change(change, made && change.ino != 0);
    if (fd >= 0) done_with(change.ino, fd);
  }

  /// Returns a file that may be used. If the state of one is not known, it is checked instead.
  std::optional<std::pair<std::string, Ino>> usable() {
    const auto found = any(false);
    if (!found) return std::nullopt;
    const Ino ino = found->second.ino;
    if (!model_.files()[ino].certain()) {
      adopt(found->first, ino);
      return std::nullopt;
    }
    return std::pair(found->first, ino);
  }

  void write_at(Ino ino, int fd, std::uint64_t offset, std::size_t length) {
    const std::uint64_t version = model_.next_version();
    const std::string data = pattern(model_.worker(), version, offset, length);
    ssize_t put = 0;
    const bool done = attempt("write", [&] {
      put = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
      return put < 0 ? -1 : 0;
    });
    if (done && put > 0)
      model_.write(ino, offset, static_cast<std::size_t>(put), version, true);
    else
      model_.write(ino, offset, length, version, false);
  }

  void write() {
    const auto file = usable();
    if (!file || model_.files()[file->second].is_settled()) return;
    const auto& [path, ino] = *file;
    const std::uint64_t size = model_.files()[ino].size();
    std::uint64_t offset = below(size + 1);
    std::size_t length = 1 + below(3000);
    switch (below(4)) {
      case 0:  // whole granules
        offset = offset / kGranule * kGranule;
        length = kGranule * (1 + below(8));
        break;
      case 1:  // at the end
        offset = size;
        break;
      case 2:  // a lot, perhaps after a hole
        offset = below(size + 4 * kGranule);
        length = 1 + below(16 * kGranule);
        break;
      default:
        break;
    }
    if (offset + length > kLargest) return;
    const int fd = open(path, ino);
    if (fd < 0) return;
    write_at(ino, fd, offset, length);
    done_with(ino, fd);
  }

  void truncate() {
    const auto file = usable();
    if (!file || model_.files()[file->second].is_settled()) return;
    const auto& [path, ino] = *file;
    std::uint64_t size = below(model_.files()[ino].size() + 1);
    if (below(5) == 0) size = 0;
    if (below(5) == 0) size = below(kLargest);
    const bool done = attempt("truncate", [&, p = path_of(path)] {
      return ::truncate(p.c_str(), static_cast<off_t>(size));
    });
    model_.truncate(ino, size, done);
  }

  /// Works as careful programs do, but without the fsync that most forget.
  void replace() {
    const auto victim = any(false);
    if (!victim || count(false) > kFiles) return;
    NameChange made{.kind = 'c', .path = new_name(), .target = {}, .ino = 0};
    int fd = -1;
    struct stat found {};
    if (attempt("create",
                [&] {
                  return fd = ::open(path_of(made.path).c_str(),
                                     O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
                }) &&
        attempt("stat", [&] { return ::fstat(fd, &found); }))
      made.ino = found.st_ino;
    model_.change(made, made.ino != 0);
    if (made.ino != 0) write_at(made.ino, fd, 0, 1 + below(6 * kGranule));
    if (fd >= 0 && !attempt("close", [&] { return ::close(fd); })) return;
    if (made.ino == 0 || !model_.files()[made.ino].certain()) return;
    if (rename(made.path, victim->first, victim->second.ino)) model_.settled(made.ino, made.path);
  }

  bool rename(const std::string& from, const std::string& to, Ino replaced) {
    close(replaced);
    const Ino ino = model_.tree().at(from).ino;
    const bool done =
        attempt("rename", [&] { return ::rename(path_of(from).c_str(), path_of(to).c_str()); });
    model_.change({.kind = 'n', .path = from, .target = to, .ino = ino}, done);
    return done;
  }

  void rename() {
    const auto file = any(false);
    if (!file || model_.files()[file->second.ino].is_settled()) return;
    if (below(2) == 0) {
      rename(file->first, new_name(), 0);
    } else if (const auto other = any(false); other && other->first != file->first) {
      rename(file->first, other->first, other->second.ino);
    }
  }

  void remove() {
    const auto file = any(false);
    if (!file) return;
    close(file->second.ino);
    const bool done = attempt("unlink", [&] { return ::unlink(path_of(file->first).c_str()); });
    model_.change({.kind = 'u', .path = file->first, .target = {}, .ino = file->second.ino}, done);
  }

  void change_directories() {
    const auto chosen = any(true);
    if (!chosen || (count(true) < kDirectories && below(2) == 0)) {
      NameChange change{.kind = 'm', .path = new_name(), .target = {}, .ino = 0};
      struct stat found {};
      bool done = attempt("mkdir", [&] { return ::mkdir(path_of(change.path).c_str(), 0755); });
      done = done && attempt("stat", [&] { return ::stat(path_of(change.path).c_str(), &found); });
      change.ino = found.st_ino;
      model_.change(change, done);
      return;
    }
    const auto after = model_.tree().upper_bound(chosen->first + "/");
    const bool empty =
        after == model_.tree().end() || !after->first.starts_with(chosen->first + "/");
    if (empty) {
      const bool done = attempt("rmdir", [&] { return ::rmdir(path_of(chosen->first).c_str()); });
      model_.change({.kind = 'u', .path = chosen->first, .target = {}, .ino = 0}, done);
    } else {
      rename(chosen->first, "d" + std::to_string(model_.next_version()), 0);
    }
  }

  void sync() {
    const auto file = any(false);
    if (!file) return;
    const auto& [path, name] = *file;
    const int fd = open(path, name.ino);
    if (fd < 0) return;
    if (attempt("fsync", [&] { return below(2) == 0 ? ::fsync(fd) : ::fdatasync(fd); })) {
      ++syncs_;
      model_.synced(name.ino);
    }
    done_with(name.ino, fd);
  }

  /// Syncs all directories, because they are committed together.
  void sync_names() {
    const int fd = ::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    if (attempt("fsyncdir", [&] { return ::fsync(fd); })) {
      ++syncs_;
      model_.names_synced();
    }
    ::close(fd);
  }

  void read() {
    const auto file = any(false);
    if (file) adopt(file->first, file->second.ino);
  }

  void adopt(const std::string& path, Ino ino) {
    const int fd = open(path, ino);
    if (fd < 0) return;
    std::string content;
    if (attempt("read", [&] { return (errno = read_all(fd, content)) == 0 ? 0 : -1; }))
      if (auto complaint = model_.adopt(ino, content); !complaint.empty())
        complaint_ = path + " (" + std::to_string(ino) + "): " + complaint;
    done_with(ino, fd);
  }

  void look() {
    Tree seen;
    if (attempt("list", [&] { return (errno = list(root_, "", seen)) == 0 ? 0 : -1; }))
      complaint_ = model_.look(seen);
  }

  const std::string root_;
  Model model_;
  std::mt19937_64 random_;
  std::map<Ino, int> open_;
  bool gone_ = false;
  Complaint complaint_;
  std::uint64_t operations_ = 0, syncs_ = 0;
  Clock::duration longest_{};
  const char* longest_kind_ = "none";
  std::map<int, std::uint64_t> errors_;
};

int run(const std::string& directory, const std::string& models, std::uint64_t seed,
        unsigned seconds, unsigned workers) {
  std::mutex mutex;
  bool gone = false, wrong = false;
  std::vector<std::thread> threads;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  for (unsigned number = 1; number <= workers; ++number)
    threads.emplace_back([&, number] {
      Worker worker(directory, models, number, seed);
      worker.run(end);
      const std::lock_guard lock(mutex);
      gone = gone || worker.gone();
      wrong = wrong || !worker.complaint().empty();
      std::cout << "worker " << number << ": " << worker.summary() << "\n";
      if (!worker.complaint().empty()) std::cout << "WRONG: " << worker.complaint() << "\n";
    });
  for (std::thread& thread : threads) thread.join();
  return wrong ? 1 : gone ? 3 : 0;
}

int check(const std::string& directory, const std::string& models, bool after_crash) {
  std::size_t files = 0, bytes = 0;
  for (unsigned number = 1; std::filesystem::exists(models + "/" + std::to_string(number));
       ++number) {
    const std::string root = directory + "/" + std::to_string(number);
    const auto wrong = [&](const std::string& complaint) {
      std::cout << "WRONG: " << root << ": " << complaint << "\n";
      return 1;
    };
    Model model(models + "/" + std::to_string(number), number);
    Tree seen;
    std::map<Ino, std::string> contents;
    if (const int error = list(root, "", seen); error != 0)
      return wrong(std::string("cannot be listed: ") + strerror(error));
    for (const auto& [path, name] : seen) {
      if (name.directory) continue;
      if (const int error = read_all(root + "/" + path, contents[name.ino]); error != 0)
        return wrong(path + ": cannot be read: " + strerror(error));
      ++files;
      bytes += contents[name.ino].size();
    }
    const auto complaint =
        after_crash ? model.verify(seen, contents) : model.compare(seen, contents);
    if (!complaint.empty()) return wrong(complaint);
  }
  std::cout << files << " files, " << bytes << " bytes are as they must be\n";
  return 0;
}

int main(const std::vector<std::string>& words) {
  struct sigaction stop {};
  stop.sa_handler = [](int) { stopping = true; };
  sigaction(SIGTERM, &stop, nullptr);
  if (words.size() >= 5 && words[0] == "run")
    return run(words[1], words[2], std::stoull(words[3]),
               static_cast<unsigned>(std::stoul(words[4])),
               words.size() > 5 ? static_cast<unsigned>(std::stoul(words[5])) : 3);
  if (words.size() == 3 && (words[0] == "verify" || words[0] == "compare"))
    return check(words[1], words[2], words[0] == "verify");
  std::cerr << "usage: workload run DIRECTORY MODELS SEED SECONDS [WORKERS]\n"
               "       workload verify|compare DIRECTORY MODELS\n";
  return 2;
}

}  // namespace
}  // namespace s3oram::workload

int main(int argc, char** argv) {
  try {
    return s3oram::workload::main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "workload: " << error.what() << "\n";
    return 2;
  }
}
