// Mounts and unmounts through libfuse, and writes back the kernel's cache before an unmount.
#include "fused/kernel/fuse_mount.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "fused/files/file_system.h"
#include "fused/kernel/fuse_loop.h"
#include "fused/kernel/fuse_ops.h"
#include "fused/kernel/kernel_mount.h"
#include "oramcore/base/program.h"

namespace s3oram {
namespace {

constexpr unsigned kLoopThreads = 64;

/// Logs libfuse's own messages.
void log_fuse(fuse_log_level level, const char* format, va_list arguments) {
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  std::string_view line = text;
  while (line.ends_with('\n')) line.remove_suffix(1);
  spdlog::log(level <= FUSE_LOG_ERR ? spdlog::level::err : spdlog::level::info, "fuse: {}", line);
}

}  // namespace

FuseMount::FuseMount() : context_(std::make_unique<FuseContext>()) {}

Result<std::unique_ptr<FuseMount>> FuseMount::create(FileSystem& files,
                                                     const FuseMountOptions& options,
                                                     Descriptor mounted) {
  std::unique_ptr<FuseMount> mount(new FuseMount);
  fuse_set_log_func(log_fuse);
  mount->mountpoint_ = options.mountpoint;
  std::vector<std::string> words{"s3oramfs", "-o", "default_permissions", "-o", "subtype=s3oramfs"};
  // Commas and backslashes in the path would end libfuse's option.
  std::string source;
  for (const char c : options.source) {
    if (c == ',' || c == '\\') source.push_back('\\');
    source.push_back(c);
  }
  words.insert(words.end(), {"-o", "fsname=" + source});
  for (const std::string& option : options.options) words.insert(words.end(), {"-o", option});
  std::vector<char*> argv = argument_pointers(words);
  fuse_args args = FUSE_ARGS_INIT(static_cast<int>(words.size()), argv.data());
  mount->session_ =
      fuse_session_new(&args, &fuse_ops(), sizeof(fuse_lowlevel_ops), mount->context_.get());
  fuse_opt_free_args(&args);
  if (!mount->session_)
    return fail(Errc::usage, "libfuse refuses the mount options; see its message above");
  mount->context_->files = &files;
  mount->context_->session = mount->session_;
  mount->context_->largest_request = options.largest_request;
  mount->context_->ids = IdMaps::of_this_process();
  for (auto* waiting : {&mount->context_->after_write_back, &mount->context_->before_rename}) {
    S3O_ASSIGN(auto started, AfterWriteBack::start(mount->session_));
    *waiting = std::move(started);
  }
  mount->loop_ = std::make_unique<FuseLoop>(mount->session_);
  mount->by_libfuse_ = mounted.get() < 0;
  const std::string where =
      mount->by_libfuse_ ? options.mountpoint : fmt::format("/dev/fd/{}", mounted.get());
  if (fuse_session_mount(mount->session_, where.c_str()) != 0)
    return fail(Errc::bad_mount_point,
                "{} could not be mounted: see the message above; users other than root need the "
                "program fusermount3 (Debian package fuse3)",
                options.mountpoint);
  mount->mounted_ = true;
  static_cast<void>(mounted.release());  // the session owns it now
  return mount;
}

Result<std::unique_ptr<FuseMount>> FuseMount::resume(FileSystem& files,
                                                     const FuseMountOptions& options,
                                                     HeldMount held) {
  S3O_ASSIGN(auto mount, create(files, options, std::move(held.device)));
  mount->context_->writers.set(held.writers);
  mount->init_ = std::move(held.init);
  // libfuse must see the kernel's first request again. The kernel ignores the answer, because the
  // number is not that of any of its requests (which are even).
  std::string init = mount->init_;
  if (init.size() < sizeof(fuse_in_header))
    return fail(Errc::failed, "the kernel's first request is not known");
  reinterpret_cast<fuse_in_header*>(init.data())->unique = 1;
  fuse_buf request{};
  request.size = init.size();
  request.mem = init.data();
  fuse_session_process_buf(mount->session_, &request);
  return mount;
}

FuseMount::~FuseMount() {
  if (started_ && !ended_) {
    write_back();
    stop_waiting();
    loop_->stop();
    static_cast<void>(loop_->wait());  // the mount is given up for another reason
  }
  const bool ours = mounted_ && !by_libfuse_ && !is_unmounted();
  if (mounted_) fuse_session_unmount(session_);
  context_->before_rename.reset();
  context_->after_write_back.reset();
  if (session_) fuse_session_destroy(session_);
  if (!ours) return;
  // The device is closed, so no program waits for our answers.
  if (const Status done = unmount(mountpoint_); !done) spdlog::warn("{}", done.error().message);
}

/// Returns whether the mount was unmounted by someone else, in which case the device reports an
/// error.
bool FuseMount::is_unmounted() const {
  pollfd device{fuse_session_fd(session_), 0, 0};
  return ::poll(&device, 1, 0) > 0 && (device.revents & POLLERR) != 0;
}

void FuseMount::stop_waiting() {
  context_->before_rename->stop();
  context_->after_write_back->stop();
}

Status FuseMount::start(Descriptor cpu_latency) {
  S3O_TRY(loop_->start(kLoopThreads, std::move(cpu_latency)));
  started_ = true;
  if (!init_.empty()) look_names_up();
  return {};
}

/// Makes the kernel look up the names that withdraw() made it drop. Without them, getcwd(2) fails
/// in directories that are some program's working directory, until a program looks such a name up.
void FuseMount::look_names_up() const {
  const std::vector<Ino> referenced = context_->files->referenced();
  const std::unordered_set<Ino> known(referenced.begin(), referenced.end());
  const auto names = context_->files->list(kRootIno);
  if (!names) return;
  for (const DirectoryEntry& entry : *names) {
    struct stat found {};
    if (entry.name != "." && entry.name != ".." && known.contains(entry.ino))
      static_cast<void>(::lstat((mountpoint_ + "/" + entry.name).c_str(), &found));
  }
}

Status FuseMount::wait() {
  Status outcome = loop_->wait();
  stop_waiting();
  ended_ = true;
  ended_.notify_all();
  return outcome;
}

/// Makes the kernel write back its dirty pages, while the session's threads still serve it. After a
/// lazy unmount the root cannot be opened, but files that programs still have open are still
/// written back.
void FuseMount::write_back() const {
  const unsigned refused = context_->writers.refused();
  const Descriptor root(::open(mountpoint_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto sync = [&] { return ::syncfs(root.get()) != 0 ? errno : 0; };
  int error = root.get() < 0 ? errno : sync();
  const int of_open_files = context_->after_write_back->write_back(context_->writers.all());
  if (of_open_files != 0) error = of_open_files;
  // syncfs does not wait for the write-back of open files (Linux 6.18), and reports earlier
  // failures once more.
  if (context_->writers.refused() != refused)
    error = EIO;
  else if (root.get() >= 0 && of_open_files == 0 && error != 0)
    error = sync();
  if (error != 0)
    spdlog::warn("{}: the kernel's cache could not be written back: {}", mountpoint_,
                 strerror(error));
}

void FuseMount::withdraw() {
  write_back();  // most of the pages, while programs continue
  context_->withdrawn = true;
  // A program may still write a page for which it got attributes before.
  constexpr int kMost = 100;
  for (int i = 0; i < kMost; ++i) {
    const std::uint64_t before = context_->write_backs;
    for (const Ino ino : context_->files->referenced())
      fuse_lowlevel_notify_inval_inode(session_, ino, 0, 0);
    if (context_->write_backs == before) break;
  }
  // When the kernel drops a name, it also drops all names below it.
  const auto names = context_->files->list(kRootIno);
  if (!names) spdlog::warn("the kernel may keep names: {}", std::strerror(names.error()));
  if (names)
    for (const DirectoryEntry& entry : *names)
      if (entry.name != "." && entry.name != "..")
        fuse_lowlevel_notify_inval_entry(session_, kRootIno, entry.name.data(), entry.name.size());
}

void FuseMount::readmit() { context_->withdrawn = false; }

void FuseMount::suspend() {
  suspended_ = true;
  stop_waiting();  // while the session is served
  loop_->stop();
}

std::optional<HeldMount> FuseMount::hold() {
  if (!suspended_ || !ended_ || is_unmounted()) return std::nullopt;
  HeldMount held;
  held.device = Descriptor(::fcntl(fuse_session_fd(session_), F_DUPFD_CLOEXEC, 0));
  if (held.device.get() < 0) return std::nullopt;
  held.init = init_.empty() ? loop_->first_request() : init_;
  held.writers = context_->writers.state();
  mounted_ = false;  // the mount belongs to the caller now
  return held;
}

std::chrono::steady_clock::time_point FuseMount::last_use() const { return loop_->last_use(); }

void FuseMount::stop() {
  if (!ended_) write_back();
  stop_waiting();  // while the session is served
  loop_->stop();
  ended_.wait(false);
}

}  // namespace s3oram
