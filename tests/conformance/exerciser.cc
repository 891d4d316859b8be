// exerciser DIRECTORY [--seed N] [--operations K] [--remount COMMAND]: runs random operations on
// the data of one file, and compares it with a copy in memory. COMMAND is run now and then, with
// the file closed. Exit codes: 1 the file is not as it must be, 2 the test itself cannot run.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace s3oram::conformance {
namespace {

constexpr std::size_t kLargest = 3u << 20, kMost = 400'000, kPage = 4096, kRemembered = 40;

struct Options {
  std::string directory, remount;
  std::uint64_t seed = std::random_device()(), operations = 10'000;
};

class Exerciser {
 public:
  explicit Exerciser(const Options& options)
      : options_(options),
        path_(options.directory + "/exercised-" + std::to_string(options.seed)),
        random_(options.seed) {
    void* pages = std::aligned_alloc(kPage, kLargest);
    pages_.reset(static_cast<char*>(pages));
  }
  ~Exerciser() {
    if (fd_ >= 0) ::close(fd_);
    if (direct_ >= 0) ::close(direct_);
  }

  int run() {
    const std::uint64_t remount_every =
        options_.remount.empty() ? 0 : std::max<std::uint64_t>(1, options_.operations / 3);
    open();
    for (; done_ < options_.operations && good_; ++done_) {
      if (remount_every > 0 && done_ % remount_every == remount_every - 1) {
        remount();
      } else {
        step();
      }
      if (good_ && done_ % 500 == 499) check_all();
    }
    if (good_) check_all();
    if (!good_) return explain();
    std::cout << "seed " << options_.seed << ": " << done_ << " operations, " << model_.size()
              << " bytes at the end";
    for (const auto& [kind, count] : count_) std::cout << ", " << count << " " << kind;
    std::cout << "\n";
    return ::unlink(path_.c_str()) == 0 ? 0 : 1;
  }

 private:
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void begin(const std::string& kind, std::size_t offset = 0, std::size_t length = 0,
             std::size_t target = 0) {
    ++count_[kind];
    std::ostringstream text;
    text << done_ << ": " << kind << " " << offset << "+" << length << " to " << target
         << " of size " << model_.size();
    last_.push_back(text.str());
    if (last_.size() > kRemembered) last_.pop_front();
  }
  bool require(bool truth, const std::string& what) {
    if (!truth && good_) {
      good_ = false;
      complaint_ = what + (errno != 0 ? std::string(", errno ") + ::strerrorname_np(errno) : "");
    }
    return truth;
  }
  int explain() {
    std::cout << "seed " << options_.seed << ", operation " << done_ << ": WRONG: " << complaint_
              << "\nThe operations before:\n";
    for (const std::string& text : last_) std::cout << "  " << text << "\n";
    return 1;
  }

  void open() {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    direct_ = ::open(path_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
    require(fd_ >= 0 && direct_ >= 0, "open");
  }
  void close() {
    require(::close(fd_) == 0 && ::close(direct_) == 0, "close");
    fd_ = direct_ = -1;
  }

  void step() {
    errno = 0;
    switch (below(14)) {
      case 0:
      case 1:
        return read();
      case 2:
      case 3:
        return write();
      case 4:
        return read_map();
      case 5:
        return write_map();
      case 6:
        return truncate();
      case 7:
        return clear(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, "punch");
      case 8:
        return clear(below(2) ? FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE : FALLOC_FL_ZERO_RANGE,
                     "zero range");
      case 9:
        return copy();
      case 10:
        return read_direct();
      case 11:
        return write_direct();
      case 12:
        return append();
      default:
        return settle();
    }
  }

  /// Chooses ranges of every kind: small, aligned, at the end.
  void choose(std::size_t& offset, std::size_t& length, std::size_t limit) {
    offset = below(below(3) ? std::min(limit, model_.size() + 1) : limit);
    length = 1 + below(below(3) ? 5'000 : kMost);
    if (below(4) == 0) offset = offset / kPage * kPage;
    if (below(4) == 0) length = (length + kPage - 1) / kPage * kPage;
    length = std::min(length, limit - offset);
  }
  void grow(std::size_t end) {
    if (end > model_.size()) model_.resize(end, '\0');
  }
  std::string fresh(std::size_t length) {
    std::string data(length, '\0');
    std::uint64_t state = random_();
    for (char& byte : data) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<char>(state >> 56);
    }
    return data;
  }

  void compare(const char* got, std::size_t length, std::size_t offset, const char* how) {
    for (std::size_t i = 0; i < length; ++i) {
      if (got[i] == model_[offset + i]) continue;
      std::size_t end = i;
      while (end < length && got[end] != model_[offset + end]) ++end;
      errno = 0;
      require(false, std::string(how) + ": bytes from " + std::to_string(offset + i) + " to " +
                         std::to_string(offset + end) + " are wrong, the first is " +
                         std::to_string(static_cast<unsigned char>(got[i])) + ", not " +
                         std::to_string(static_cast<unsigned char>(model_[offset + i])));
      return;
    }
  }

  void read() {
    std::size_t offset = 0, length = 0;
    choose(offset, length, kLargest);
    begin("read", offset, length);
    const std::size_t there = offset < model_.size() ? std::min(length, model_.size() - offset) : 0;
    const ssize_t got = ::pread(fd_, pages_.get(), length, static_cast<off_t>(offset));
    if (require(got == static_cast<ssize_t>(there), "read gave " + std::to_string(got)))
      compare(pages_.get(), there, offset, "read");
  }
  void write() {
    std::size_t offset = 0, length = 0;
    choose(offset, length, kLargest);
    begin("write", offset, length);
    const std::string data = fresh(length);
    const ssize_t put = ::pwrite(fd_, data.data(), length, static_cast<off_t>(offset));
    if (!require(put == static_cast<ssize_t>(length), "write gave " + std::to_string(put))) return;
    grow(offset + length);
    std::copy(data.begin(), data.end(), model_.begin() + static_cast<long>(offset));
  }
  void append() {
    const std::size_t length = std::min(1 + below(3'000), kLargest - model_.size());
    if (length == 0) return;
    begin("append", model_.size(), length);
    const int fd = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    const std::string data = fresh(length);
    require(fd >= 0 && ::write(fd, data.data(), length) == static_cast<ssize_t>(length), "append");
    require(::close(fd) == 0, "close");
    model_.insert(model_.end(), data.begin(), data.end());
  }

  void read_map() {
    if (model_.empty()) return;
    std::size_t offset = 0, length = 0;
    choose(offset, length, model_.size());
    begin("mapped read", offset, length);
    if (char* map = map_file(offset, length, PROT_READ, below(2) ? MAP_SHARED : MAP_PRIVATE)) {
      compare(map + offset % kPage, length, offset, "map");
      // After the end the last page is zero.
      const std::size_t size = model_.size();
      if (offset + length == size && size % kPage != 0)
        for (std::size_t i = size; i % kPage != 0; ++i)
          require(map[i - offset / kPage * kPage] == 0, "the last page is not zero at its end");
      ::munmap(map, offset % kPage + length);
    }
  }
  void write_map() {
    if (model_.empty()) return;
    std::size_t offset = 0, length = 0;
    choose(offset, length, model_.size());
    if (length == 0) return;
    begin("mapped write", offset, length);
    if (char* map = map_file(offset, length, PROT_READ | PROT_WRITE, MAP_SHARED)) {
      const std::string data = fresh(length);
      std::copy(data.begin(), data.end(), map + offset % kPage);
      std::copy(data.begin(), data.end(), model_.begin() + static_cast<long>(offset));
      if (below(2)) require(::msync(map, offset % kPage + length, MS_SYNC) == 0, "msync");
      require(::munmap(map, offset % kPage + length) == 0, "munmap");
    }
  }
  char* map_file(std::size_t offset, std::size_t length, int protection, int flags) {
    const std::size_t start = offset / kPage * kPage;
    void* map =
        ::mmap(nullptr, offset - start + length, protection, flags, fd_, static_cast<off_t>(start));
    return require(map != MAP_FAILED, "mmap") ? static_cast<char*>(map) : nullptr;
  }

  void truncate() {
    std::size_t size = below(kLargest);
    if (below(2)) size = below(model_.size() + 1);
    if (below(10) == 0) size = 0;
    begin("truncate", size);
    const bool by_path = below(2) != 0;
    const auto wanted = static_cast<off_t>(size);
    require((by_path ? ::truncate(path_.c_str(), wanted) : ::ftruncate(fd_, wanted)) == 0,
            "truncate");
    model_.resize(size, '\0');
  }
  void clear(int mode, const char* kind) {
    std::size_t offset = 0, length = 0;
    choose(offset, length, kLargest);
    if (length == 0) return;
    begin(kind, offset, length);
    require(::fallocate(fd_, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0,
            kind);
    if ((mode & FALLOC_FL_KEEP_SIZE) == 0) grow(offset + length);
    const std::size_t end = std::min(offset + length, model_.size());
    for (std::size_t i = offset; i < end; ++i) model_[i] = '\0';
  }
  void copy() {
    std::size_t offset = 0, length = 0;
    if (model_.empty()) return;
    choose(offset, length, model_.size());
    std::size_t target = below(kLargest - length);
    const bool overlap = target < offset + length && offset < target + length;
    if (overlap || length == 0) return;
    begin("copy", offset, length, target);
    auto in = static_cast<off_t>(offset), out = static_cast<off_t>(target);
    for (std::size_t left = length; left > 0;) {
      const ssize_t n = ::copy_file_range(fd_, &in, fd_, &out, left, 0);
      if (!require(n > 0, "copy_file_range gave " + std::to_string(n))) return;
      left -= static_cast<std::size_t>(n);
    }
    const std::vector<char> data(model_.begin() + static_cast<long>(offset),
                                 model_.begin() + static_cast<long>(offset + length));
    grow(target + length);
    std::copy(data.begin(), data.end(), model_.begin() + static_cast<long>(target));
  }

  void read_direct() {
    const std::size_t offset = below(model_.size() + 1) / kPage * kPage;
    const std::size_t length = kPage * (1 + below(60));
    begin("direct read", offset, length);
    const std::size_t there = std::min(length, model_.size() - offset);
    const ssize_t got = ::pread(direct_, pages_.get(), length, static_cast<off_t>(offset));
    if (require(got == static_cast<ssize_t>(there), "direct read gave " + std::to_string(got)))
      compare(pages_.get(), there, offset, "direct read");
  }
  void write_direct() {
    const std::size_t length = kPage * (1 + below(60));
    const std::size_t offset = below(kLargest - length) / kPage * kPage;
    begin("direct write", offset, length);
    const std::string data = fresh(length);
    std::copy(data.begin(), data.end(), pages_.get());
    const ssize_t put = ::pwrite(direct_, pages_.get(), length, static_cast<off_t>(offset));
    if (!require(put == static_cast<ssize_t>(length), "direct write gave " + std::to_string(put)))
      return;
    grow(offset + length);
    std::copy(data.begin(), data.end(), model_.begin() + static_cast<long>(offset));
  }

  void settle() {
    switch (below(4)) {
      case 0:
        begin("fsync");
        require(::fsync(fd_) == 0, "fsync");
        return;
      case 1:
        begin("close");
        close();
        return open();
      case 2:
        begin("drop");
        require(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
        return;
      default:
        begin("seek");
        return seek();
    }
  }
  /// A range that is reported as a hole must be zero.
  void seek() {
    if (model_.empty()) return;
    const auto size = static_cast<off_t>(model_.size());
    for (off_t at = static_cast<off_t>(below(model_.size())); at < size && good_;) {
      const off_t hole = ::lseek(fd_, at, SEEK_HOLE);
      if (!require(hole >= at && hole <= size, "SEEK_HOLE gave " + std::to_string(hole))) return;
      if (hole == size) return;
      errno = 0;
      off_t data = ::lseek(fd_, hole, SEEK_DATA);
      if (data < 0 && errno == ENXIO) data = size;
      if (!require(data > hole && data <= size, "SEEK_DATA gave " + std::to_string(data))) return;
      for (off_t i = hole; i < data && good_; ++i)
        require(model_[static_cast<std::size_t>(i)] == 0,
                "data in a hole at " + std::to_string(i) + " of one from " + std::to_string(hole));
      at = data;
    }
  }

  void check_all() {
    begin("check");
    errno = 0;
    struct stat found {};
    if (!require(::fstat(fd_, &found) == 0 && found.st_size == static_cast<off_t>(model_.size()),
                 "the size is " + std::to_string(found.st_size)))
      return;
    const ssize_t got = ::pread(fd_, pages_.get(), kLargest, 0);
    if (require(got == static_cast<ssize_t>(model_.size()), "read gave " + std::to_string(got)))
      compare(pages_.get(), model_.size(), 0, "check");
  }

  void remount() {
    begin("remount");
    close();
    errno = 0;
    if (!require(std::system(options_.remount.c_str()) == 0, "the remount command failed")) return;
    open();
    if (good_) check_all();
  }

  const Options options_;
  const std::string path_;
  std::mt19937_64 random_;
  std::unique_ptr<char, Free> pages_;
  std::vector<char> model_;
  int fd_ = -1, direct_ = -1;
  std::uint64_t done_ = 0;
  bool good_ = true;
  std::string complaint_;
  std::deque<std::string> last_;
  std::map<std::string, std::uint64_t> count_;
};

}  // namespace
}  // namespace s3oram::conformance

int main(int argc, char** argv) {
  s3oram::conformance::Options options;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i], value = argv[i + 1];
    if (option == "--seed") options.seed = std::strtoull(value.c_str(), nullptr, 10);
    if (option == "--operations") options.operations = std::strtoull(value.c_str(), nullptr, 10);
    if (option == "--remount") options.remount = value;
  }
  if (argc < 2 || argc % 2 != 0) {
    std::cerr << "usage: exerciser DIRECTORY [--seed N] [--operations K] [--remount COMMAND]\n";
    return 2;
  }
  options.directory = argv[1];
  return s3oram::conformance::Exerciser(options).run();
}
