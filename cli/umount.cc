// s3oramfs umount: makes the daemon write everything, unmounts, and waits until the daemon is gone.
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <thread>
#include <vector>

#include "cli/command.h"
#include "cli/mount_control.h"
#include "cli/mount_table.h"
#include "cli/terminal.h"
#include "cli/vault_argument.h"
#include "cli/vault_owner.h"
#include "oramcore/base/human.h"
#include "oramcore/base/program.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

// With --force: the time that the daemon has to write, and then to end.
constexpr auto kForced = 30s;
constexpr auto kEnd = 10s;
// The longest time for which a daemon that was killed, and no longer listens, holds the vault.
constexpr auto kKilled = 5s;
constexpr auto kPoll = 20ms;
// A daemon that still serves the mount after this time will continue to do so, because it gives up
// requests under way sooner than that.
constexpr auto kServed = 60s;
constexpr std::size_t kMostOfUmount = 4096;  // bytes of the unmounting program's messages

struct How {
  bool lazy = false;
  bool force = false;
  bool hangs = false;  // the daemon does not answer; set only with `force`
  bool dead = false;   // the daemon has ended, so programs can no longer use the mount
};

Status require_nothing_inside(const VaultMount& mount) {
  const auto inner = mount_inside(mount.point);
  if (!inner) return {};
  return fail(Errc::bad_mount_point, "{}: something is mounted in it, at {}; unmount that first",
              mount.point.string(), inner->string());
}

Status busy(const VaultMount& mount) {
  S3O_TRY(require_nothing_inside(mount));
  return fail(Errc::bad_mount_point,
              "{}: in use: close the programs that use it (see: fuser -vm {}), or give --lazy",
              mount.point.string(), shell_word(mount.point));
}

// An ordinary user can unmount only with a setuid helper. Root does the same in that user's place,
// because in the user's directories the mount point's name may lead elsewhere at any time. For
// root's own mounts this runs umount(8), which also updates /run/mount/utab, but without its
// helper, which may be this program.
Status unmount(const VaultMount& mount, const How& how) {
  if (is_covered(mount))
    return fail(Errc::bad_mount_point, "{}: another mount lies over it; unmount that first",
                mount.point.string());
  if (::geteuid() == 0 && mount.user != 0)  // otherwise root would have become that user
    return fail(Errc::failed, "{} was mounted just now by user {}; try again", mount.point.string(),
                mount.user);
  if (how.lazy) S3O_TRY(require_nothing_inside(mount));  // it would be unmounted too
  // A program that waits for a hanging daemon uses the mount for a moment longer.
  const bool detach = how.lazy || how.dead || how.hangs;
  std::vector<std::string> words;
  if (::geteuid() == 0) {
    words = {"env", "LC_ALL=C", "umount", "-i"};
    if (detach) words.push_back("-l");
    if (how.hangs) words.push_back("-f");  // otherwise the kernel would wait for the daemon
  } else {
    words = {"fusermount3", detach ? "-uz" : "-u"};
  }
  words.insert(words.end(), {"--", mount.point});
  S3O_ASSIGN(auto end, run_program(std::move(words), STDERR_FILENO, kMostOfUmount));
  if (end.succeeded()) return {};
  std::string said(end.said.begin(), end.said.end());
  if (said.find(" busy") != std::string::npos) return busy(mount);
  while (said.ends_with('\n')) said.pop_back();
  return fail(Errc::failed, "{}: cannot be unmounted: {}", mount.point.string(), said);
}

Result<Question> ask_for_the_end(const Vault& vault) {
  auto end = Question::ask(vault, "end", 0s);
  if (!end) return end;
  if (auto heard = end->answer(); !heard) return fail(std::move(heard).error());
  return end;
}

/// Makes the daemon write everything. If the daemon answers, returns the question that waits for
/// its end.
Result<std::optional<Question>> write_everything(Vault& vault, const VaultMount& mount, How& how) {
  Progress progress(
      fmt::format("writing the data of {} that is still in memory", mount.point.string()));
  const auto sync = [&] { return ask_daemon(vault, "sync", progress, how.force ? kForced : 0s); };
  const auto limit = std::chrono::steady_clock::now() + kKilled;
  auto answer = sync();
  while (!answer && answer.error().code == Errc::not_mounted) {
    S3O_ASSIGN(auto used, Vault::is_in_use(vault.directory()));
    if (!used) {
      std::cerr << "s3oramfs: the daemon of " << mount.point.string() << " is gone\n";
      how.dead = true;
      return std::nullopt;
    }
    if (std::chrono::steady_clock::now() >= limit) break;
    std::this_thread::sleep_for(kPoll);
    answer = sync();
  }
  if (!answer && answer.error().code == Errc::not_mounted)  // in use: the daemon is alive
    answer = fail(Errc::unreachable, "{}", answer.error().message);
  if (!answer && !how.force)
    return fail(answer.error().code,
                "{}: not unmounted, because not everything could be written: "
                "{} (--force unmounts anyway)",
                mount.point.string(), answer.error().message);
  if (!answer)
    std::cerr << fmt::format("s3oramfs: warning: {}: not everything could be written: {}\n",
                             mount.point.string(), answer.error().message);
  how.hangs =
      !answer && answer.error().code == Errc::unreachable && !ask_daemon(vault, "status", 5s);
  if (how.hangs) return std::nullopt;
  // The daemon has already waited for its servers for the whole timeout, so it should not wait
  // again. (A daemon of an earlier version does.)
  if (!answer && !how.lazy) static_cast<void>(ask_daemon(vault, "hurry", 5s));
  auto end = ask_for_the_end(vault);
  if (end) return std::move(*end);
  // A daemon of an earlier version does not know the question.
  if (how.force || end.error().code == Errc::bad_request) return std::nullopt;
  return fail(std::move(end).error());
}

Status wait_until_ended(Vault& vault, const VaultMount& mount, Question& end) {
  const auto since = std::chrono::steady_clock::now();
  Progress progress(fmt::format("waiting until {} is closed", vault.directory().string()));
  while (!end.is_answered(100ms)) {
    progress.update();
    if (std::chrono::steady_clock::now() - since >= kServed && ask_daemon(vault, "status", 5s))
      return fail(Errc::vault_in_use,
                  "{} is unmounted here, but still mounted elsewhere: in another place, or in "
                  "another mount namespace (a container, or a service with one of its own); its "
                  "daemon is running, and serves those too",
                  mount.point.string());
  }
  const auto ended = end.answer();
  // With its last answer the daemon has left the vault. Freeing its memory takes a moment longer.
  end.await_exit(kEnd);
  if (!ended)
    return fail(ended.error().code, "{} is unmounted, but: {} (see {})", mount.point.string(),
                ended.error().message, (vault.run_directory() / "fused.log").string());
  return {};
}

/// Waits for a daemon that cannot report its end.
Status wait_until_left(Vault& vault, const VaultMount& mount, const How& how) {
  const auto limit = std::chrono::steady_clock::now() + kEnd;
  Progress progress(fmt::format("waiting until {} is closed", vault.directory().string()));
  while (true) {
    S3O_ASSIGN(auto used, Vault::is_in_use(vault.directory()));
    if (!used) return {};
    if (how.force && std::chrono::steady_clock::now() >= limit) {
      const Status left = vault.lock();  // the error says by which process
      return left ? left
                  : fail(Errc::vault_in_use,
                         "{} is unmounted, but its daemon hangs ({}): kill -9 that process before "
                         "the vault can be mounted again",
                         mount.point.string(), left.error().message);
    }
    progress.update();
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

Status run_umount(const Args& args) {
  CLI::App app("Writes all pending data, and unmounts.", "s3oramfs umount");
  std::string name;
  How how;
  add_vault(app, "DIRECTORY|VAULT", name, "The mount point, or the mounted vault");
  app.add_flag("--lazy", how.lazy, "Unmount later, once no program uses it");
  app.add_flag("--force", how.force, "Unmount even if not everything could be written");
  S3O_ASSIGN(auto parsed, parse(app, args));
  if (!parsed) return {};

  S3O_TRY(become_owner(name, nullptr, VaultUse::unmount));
  S3O_ASSIGN(auto mount, find_mount(name));
  auto vault = Vault::find(mount.vault);
  if (!vault) how.dead = is_dead(mount.point);
  if (!vault && !how.force && !how.dead)
    return fail(vault.error().code,
                "{} (if it was moved, name the directory where it is now; --force unmounts without "
                "it)",
                vault.error().message);
  std::optional<Question> end;
  if (vault) {
    S3O_ASSIGN(auto written, write_everything(*vault, mount, how));
    end = std::move(written);
  }
  S3O_TRY(unmount(mount, how));
  if (how.lazy) return {};
  if (end) return wait_until_ended(*vault, mount, *end);
  return vault ? wait_until_left(*vault, mount, how) : Status();
}

}  // namespace s3oram
