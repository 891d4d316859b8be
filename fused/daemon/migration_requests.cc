// Reads the requests about a migration, and passes them on to the volume.
#include "fused/daemon/migration_requests.h"

#include <charconv>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "fused/daemon/control_socket.h"
#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::string_view kBegin = "migrate ", kRate = "migrate-rate ";

/// Keeps waiting programs from getting an error while the volume's engine is exchanged: the
/// exchange counts as progress, but only for a limited time.
class Forbearance {
 public:
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr int kMost = 120;

  static Result<std::unique_ptr<Forbearance>> start(FileSystem& files) {
    std::unique_ptr<Forbearance> made(new Forbearance);
    S3O_ASSIGN(made->thread_, start_thread("the beginning of a migration",
                                           [it = made.get(), &files] { it->run(files); }));
    return made;
  }
  Forbearance(const Forbearance&) = delete;
  Forbearance& operator=(const Forbearance&) = delete;
  ~Forbearance() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  Forbearance() = default;
  void run(FileSystem& files) {
    std::unique_lock lock(mutex_);
    for (int beat = 0; beat < kMost && !over_; ++beat) {
      lock.unlock();
      files.bear_with_device();
      lock.lock();
      changed_.wait_for(lock, kEvery, [this] { return over_; });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

Result<std::uint64_t> rate_in(const std::string& number) {
  std::uint64_t rate = 0;
  const char* const last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, rate);
  if (error != std::errc() || end != last) return fail(Errc::bad_request, "{}: not a rate", number);
  return rate;
}

/// Makes a backup first: until the migration ends, the source is a second way to restore the files.
Status begin(const Watched& watched, std::uint64_t rate) {
  if (!watched.volume.status().migration) S3O_TRY(back_up_names(watched.files));
  S3O_ASSIGN(const auto forbearance, Forbearance::start(watched.files));
  return watched.volume.begin_migration(rate);
}

Status act_on(const Watched& watched, const std::string& request) {
  const bool begins = request.starts_with(kBegin);
  S3O_ASSIGN(const auto rate, rate_in(request.substr((begins ? kBegin : kRate).size())));
  return begins ? begin(watched, rate) : watched.volume.set_migration_rate(rate);
}

}  // namespace

bool is_about_migration(const std::string& request) {
  return request.starts_with(kBegin) || request.starts_with(kRate);
}

std::string answer_on_migration(const Watched& watched, const std::string& request) {
  const Status done = act_on(watched, request);
  return done ? control_answer({{"ok", true}}) : control_failure(done.error());
}

Status back_up_names(FileSystem& files) {
  const auto made = files.back_up();
  if (made) return {};
  if (made.error() == EROFS)
    return fail(Errc::unsupported, "no backup is made, because the vault is mounted read-only");
  if (made.error() == EUCLEAN)
    return fail(Errc::damaged_vault,
                "no backup is made, because vault.db is damaged ({}), and the last one stays as it "
                "is: unmount, and run s3oramfs fsck --repair",
                files.status().first_damage);
  if (made.error() == ECANCELED)
    return fail(Errc::unreachable, "no backup is made: the mount is about to end");
  return fail(code_of_barrier(made.error()), "no backup could be made: {}; it will be retried",
              std::strerror(made.error()));
}

}  // namespace s3oram
