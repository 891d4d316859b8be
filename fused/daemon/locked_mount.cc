// Answers requests to a locked mount, and passes a credential on to the thread that opens the
// vault.
#include "fused/daemon/locked_mount.h"

#include <sodium.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "fused/files/file_system.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

std::optional<Bytes> from_hex(const std::string& text) {
  Bytes bytes(text.size() / 2);
  std::size_t size = 0;
  const char* end = nullptr;
  const int failed =
      ::sodium_hex2bin(bytes.data(), bytes.size(), text.data(), text.size(), nullptr, &size, &end);
  if (failed != 0 || end != text.data() + text.size()) return std::nullopt;
  bytes.resize(size);
  return bytes;
}

/// Reads the words after "unlock".
std::optional<Credential> credential_of(const std::string& words) {
  std::istringstream in(words);
  std::string kind, secret;
  in >> kind >> secret;
  auto bytes = from_hex(secret);
  sodium_memzero(secret.data(), secret.size());
  if (!bytes) return std::nullopt;
  if (kind == "key_file") return Credential{Credential::Kind::key_file, {}, {}, std::move(*bytes)};
  if (kind != "passphrase") return std::nullopt;
  Credential credential{Credential::Kind::passphrase, {bytes->begin(), bytes->end()}, {}};
  sodium_memzero(bytes->data(), bytes->size());
  return credential;
}

}  // namespace

void LockedMount::Attempt::answer(Status outcome) {
  if (std::exchange(answered_, true)) return;
  outcome_.set_value(std::move(outcome));
}

LockedMount::LockedMount(LockedState state, std::size_t largest)
    : state_(std::move(state)),
      known_(state_.references),
      loop_(state_.mount.device.get(), largest, state_.references, state_.mount.writers) {}

Result<std::unique_ptr<LockedMount>> LockedMount::start(LockedState state, std::size_t largest,
                                                        const std::string& socket,
                                                        LastWord& last_word) {
  std::unique_ptr<LockedMount> locked(new LockedMount(std::move(state), largest));
  S3O_ASSIGN(
      auto control,
      ControlSocket::create(
          socket, [raw = locked.get()](const std::string& request) { return raw->handle(request); },
          last_word));
  locked->control_ = std::move(control);
  S3O_TRY(locked->loop_.start([raw = locked.get()] {
    const std::lock_guard lock(raw->mutex_);
    raw->ended_ = raw->unmounted_ = true;
    raw->changed_.notify_all();
  }));
  return locked;
}

LockedMount::~LockedMount() {
  end();
  if (attempt_) attempt_->answer(fail(Errc::failed, "{} is no longer locked", state_.mountpoint));
}

std::shared_ptr<LockedMount::Attempt> LockedMount::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || attempt_; });
  return ended_ ? nullptr : std::exchange(attempt_, nullptr);
}

void LockedMount::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

bool LockedMount::is_unmounted() const {
  const std::lock_guard lock(mutex_);
  return unmounted_;
}

HeldMount LockedMount::hand_over(FileSystem& files) {
  loop_.stop();
  const auto& now = loop_.references().counts;
  for (const auto& [ino, count] : known_.counts) {
    const auto left = now.find(ino);
    files.forget(ino, count - (left == now.end() ? 0 : left->second));
  }
  HeldMount mount = std::move(state_.mount);
  mount.writers = loop_.writers();
  return mount;
}

std::string LockedMount::handle(const std::string& request) {
  constexpr std::string_view kUnlock = "unlock ";
  if (request == "status") return control_answer(status());
  if (request.starts_with(kUnlock)) {
    const Status outcome = unlock(request.substr(kUnlock.size()));
    return outcome ? control_answer({{"ok", true}}) : control_failure(outcome.error());
  }
  // Everything is durable, and nothing is in memory.
  for (const char* done : {"lock", "sync", "hurry", "drop"})
    if (request == done) return control_answer({{"ok", true}});
  return control_failure(
      {Errc::failed, fmt::format("{} is locked; run s3oramfs unlock {} first", state_.mountpoint,
                                 shell_word(state_.mountpoint))});
}

nlohmann::json LockedMount::status() const {
  const std::string problem =
      fmt::format("locked: s3oramfs unlock {}", shell_word(state_.mountpoint));
  return {{"ok", true},
          {"locked", true},
          {"mountpoint", state_.mountpoint},
          {"since", state_.since},
          {"pid", ::getpid()},
          {"health",
           {{"healthy", false},
            {"problems", {problem}},
            {"causes", {{{"kind", "locked"}, {"server", nullptr}, {"cause", problem}}}}}}};
}

Status LockedMount::unlock(const std::string& words) {
  auto credential = credential_of(words);
  if (!credential) return fail(Errc::bad_request, "unlock: no credential");
  const auto mine = std::make_shared<Attempt>(*credential);
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return fail(Errc::not_mounted, "{} is being unmounted", state_.mountpoint);
    if (attempt_) return fail(Errc::failed, "another command is already unlocking it");
    attempt_ = mine;
    changed_.notify_all();
  }
  return mine->outcome();
}

}  // namespace s3oram
