// Asks the daemon of a mounted vault over its control socket.
#include "cli/mount_control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "oramcore/base/process.h"

namespace s3oram {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestAnswer = 1 << 20, kShown = 200;
constexpr std::chrono::milliseconds kLook{100};      // pause between checks of the daemon's process
constexpr std::chrono::milliseconds kStopped{1500};  // stopped for this long: report it

/// Returns the code for an errno: not_mounted if no daemon listens, or if it ended before it read
/// the question.
Errc code_of_connection(int error) {
  const bool gone =
      error == ENOENT || error == ECONNREFUSED || error == ECONNRESET || error == EPIPE;
  return gone ? Errc::not_mounted : Errc::failed;
}

}  // namespace

Question::Question(const Vault& vault, std::string text, std::chrono::seconds patience)
    : vault_(vault.directory().string()), text_(std::move(text)), patience_(patience) {}

tl::unexpected<Error> Question::failure(Errc code) const {
  return fail(code, "{}: its daemon does not answer: {}", vault_, std::strerror(errno));
}

tl::unexpected<Error> Question::silence() const {
  return fail(Errc::unreachable, "{}: its daemon has not answered for {} s", vault_,
              patience_.count());
}

Result<Question> Question::ask(const Vault& vault, std::string question,
                               std::chrono::seconds patience) {
  Question asked(vault, std::move(question), patience);
  S3O_TRY(asked.send(vault));
  return asked;
}

Status Question::send(const Vault& vault) {
  // A socket's address is short and a vault's path may be long, so use the directory's descriptor.
  const Descriptor directory(
      ::open(vault.run_directory().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return failure(Errc::not_mounted);
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket_.get() < 0) return failure(Errc::failed);
  const timeval limit{static_cast<time_t>(patience_.count()), 0};  // zero: none
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = fmt::format("/proc/self/fd/{}/control.sock", directory.get());
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return failure(code_of_connection(errno));
  ucred daemon{};
  socklen_t size = sizeof daemon;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &daemon, &size) == 0 && daemon.pid > 0) {
    process_ = daemon.pid;
    daemon_ = open_process(process_);
  }
  const std::string line = text_ + "\n";
  if (::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size()))
    return failure(code_of_connection(errno));
  return {};
}

// A daemon that is stopped only for a moment, as at a terminal, does not count as hanging.
Status Question::await_word(const std::function<void()>& meanwhile) const {
  using SteadyClock = std::chrono::steady_clock;
  const auto begun = SteadyClock::now();
  auto ran = begun;  // the last time that the daemon was not stopped
  pollfd readable{socket_.get(), POLLIN, 0};
  while (::poll(&readable, 1, static_cast<int>(kLook.count())) <= 0) {
    meanwhile();
    const auto now = SteadyClock::now();
    if (process_ < 0 || !is_stopped(process_)) ran = now;
    if (now - ran >= kStopped)
      return fail(Errc::unreachable,
                  "{}: its daemon does not answer: process {} is stopped; kill -CONT {} resumes "
                  "it",
                  vault_, process_, process_);
    if (patience_.count() > 0 && now - begun >= patience_) return silence();
  }
  return {};
}

/// Returns a line, or the part of it that has come if the daemon is gone.
Result<std::string> Question::receive_line() {
  char buffer[4096];
  const auto since = std::chrono::steady_clock::now();
  while (received_.find('\n') == std::string::npos && received_.size() < kLongestAnswer) {
    S3O_TRY(await_word([] {}));
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    const bool late = patience_.count() > 0 && std::chrono::steady_clock::now() - since > patience_;
    if (late) return silence();  // a daemon that sends a byte now and then is late, too
    if (got < 0) return failure(code_of_connection(errno));
    if (got == 0) break;
    received_.append(buffer, static_cast<std::size_t>(got));
  }
  const std::size_t end = std::min(received_.find('\n'), received_.size());
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

Result<json> Question::answer() {
  S3O_ASSIGN(auto line, receive_line());
  if (line.empty()) return fail(Errc::failed, "{}: its daemon ended before it answered", vault_);
  json answer = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object() || !answer.contains("ok") || !answer["ok"].is_boolean())
    return fail(Errc::failed, "{}: its daemon's answer to {} cannot be read: \"{}\"", vault_, text_,
                line.substr(0, kShown));
  if (answer["ok"].get<bool>()) return answer;
  const auto code = answer.find("code");
  const auto message = answer.find("message");
  return fail(code != answer.end() && code->is_number_integer()
                  ? static_cast<Errc>(code->get<int>())
                  : Errc::failed,
              "{}",
              message != answer.end() && message->is_string() ? message->get<std::string>()
                                                              : answer.dump());
}

bool Question::is_answered(std::chrono::milliseconds wait) const {
  pollfd readable{socket_.get(), POLLIN, 0};
  return !received_.empty() || ::poll(&readable, 1, static_cast<int>(wait.count())) > 0;
}

// Polls on the caller's thread, because starting another may fail.
Status Question::await(Progress& progress) const {
  if (!received_.empty()) return {};
  return await_word([&] { progress.update(); });
}

void Question::await_exit(std::chrono::milliseconds most) const {
  pollfd exited{daemon_.get(), POLLIN, 0};
  if (daemon_.get() >= 0) ::poll(&exited, 1, static_cast<int>(most.count()));
}

Result<json> ask_daemon(const Vault& vault, const std::string& question,
                        std::chrono::seconds patience) {
  S3O_ASSIGN(auto asked, Question::ask(vault, question, patience));
  return asked.answer();
}

Result<json> ask_daemon(const Vault& vault, const std::string& question, Progress& progress,
                        std::chrono::seconds patience) {
  const auto ask = [&](const std::string& text, std::chrono::seconds most) -> Result<json> {
    S3O_ASSIGN(auto asked, Question::ask(vault, text, most));
    S3O_TRY(asked.await(progress));
    return asked.answer();
  };
  auto awake = ask("status", kStatusPatience);
  return awake ? ask(question, patience) : awake;
}

}  // namespace s3oram
