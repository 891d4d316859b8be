// Listens for requests to the daemon, and answers each on a thread.
#include "fused/daemon/control_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "oramcore/base/system_error.h"
#include "oramcore/base/threads.h"

namespace s3oram {
namespace {

constexpr std::size_t kLongestRequest = 1024;
constexpr std::size_t kLongestUnlock = (2 << 20) + 1024;  // bytes; room for a key file of 1 MiB
constexpr std::chrono::seconds kPatience{5};  // time to send the line, and to read an answer
constexpr int kAcceptPause = 100;             // ms, after a failed accept
constexpr int kBacklog = 8;
constexpr std::size_t kReady = 4, kMost = 32;  // threads that answer
constexpr const char* kTooMany = "the daemon is busy with too many requests: try again later";

void send_all(int connection, const std::string& text) {
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;  // the client is gone
    sent += static_cast<std::size_t>(n);
  }
}

/// Returns whether the other end has closed the connection.
bool is_left(int connection) {
  pollfd state{connection, 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

/// Sets a timeout, so that a client that does not read its answer cannot keep the daemon from
/// ending.
void limit_sending(int connection) {
  const timeval limit{kPatience.count(), 0};
  ::setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/// Returns the request; std::nullopt if it is not complete within kPatience.
std::optional<std::string> receive_line(int connection, int stop) {
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  std::string request;
  const auto most = [&request] {
    return request.starts_with("unlock ") ? kLongestUnlock : kLongestRequest;
  };
  while (request.size() < most() && !request.ends_with('\n')) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    pollfd wake[2] = {{connection, POLLIN, 0}, {stop, POLLIN, 0}};
    if (left.count() <= 0 || ::poll(wake, 2, static_cast<int>(left.count())) <= 0 ||
        wake[1].revents != 0)
      return std::nullopt;
    char part[4096];
    const ssize_t got = ::recv(connection, part, sizeof part, 0);
    if (got <= 0) return std::nullopt;
    request.append(part, static_cast<std::size_t>(got));
  }
  if (!request.ends_with('\n')) return std::nullopt;
  request.pop_back();
  return request;
}

}  // namespace

std::string control_answer(const nlohmann::json& answer) {
  return answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string control_failure(const Error& error) {
  return control_answer(
      {{"ok", false}, {"code", static_cast<int>(error.code)}, {"message", error.message}});
}

void LastWord::keep(Descriptor connection) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [](const Descriptor& one) { return is_left(one.get()); });
  if (waiting_.size() >= kMostConnections) waiting_.erase(waiting_.begin());
  waiting_.push_back(std::move(connection));
}

void LastWord::say(const Status& outcome) {
  const std::string line =
      (outcome ? control_answer({{"ok", true}}) : control_failure(outcome.error())) + "\n";
  const std::lock_guard lock(mutex_);
  for (const Descriptor& connection : waiting_) send_all(connection.get(), line);
  waiting_.clear();
}

std::size_t LastWord::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

Result<std::unique_ptr<ControlSocket>> ControlSocket::create(const std::string& path,
                                                             ControlHandler handler,
                                                             LastWord& last_word) {
  std::unique_ptr<ControlSocket> control(new ControlSocket(last_word));
  control->path_ = path;
  control->handler_ = std::move(handler);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(Errc::failed, "{}: too long for a socket", path);
  std::memcpy(address.sun_path, path.data(), path.size());
  ::unlink(path.c_str());
  control->socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int socket = control->socket_.get();
  if (socket < 0 || ::fchmod(socket, 0600) != 0 ||
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket, kBacklog) != 0 || !open_pipe(control->stop_))
    return system_failure(errno, "control socket {}", path);
  S3O_TRY(control->start_threads());
  return control;
}

Status ControlSocket::start_threads() {
  while (answering_.size() < kReady) S3O_TRY(add_thread());
  auto listener = start_thread("the control socket", [this] { listen(); });
  if (!listener) return fail(std::move(listener).error());
  listener_ = std::move(*listener);
  return {};
}

Status ControlSocket::add_thread() {
  auto thread = start_thread("answers at the control socket", [this] { answer(); });
  if (!thread) return fail(std::move(thread).error());
  answering_.push_back(std::move(*thread));
  return {};
}

ControlSocket::~ControlSocket() {
  stop_[1].close();
  if (listener_.joinable()) listener_.join();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  asked_.notify_all();
  for (std::thread& thread : answering_) thread.join();
  if (socket_.get() >= 0) ::unlink(path_.c_str());
}

void ControlSocket::listen() {
  while (true) {
    pollfd wake[2] = {{socket_.get(), POLLIN, 0}, {stop_[0].get(), POLLIN, 0}};
    if (::poll(wake, 2, -1) < 0) continue;
    if (wake[1].revents != 0) return;
    Descriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.get() < 0) {  // perhaps too many files are open: pause before the next try
      ::poll(&wake[1], 1, kAcceptPause);
      continue;
    }
    limit_sending(connection.get());
    take(std::move(connection));
  }
}

/// Queues a request. A status must not wait behind a sync, so one more thread is started if all are
/// busy. If the system refuses a thread, the request waits.
void ControlSocket::take(Descriptor connection) {
  bool all_are_busy = false;
  {
    const std::lock_guard lock(mutex_);
    if (serving_ + waiting_.size() >= kMostConnections)
      return send_all(connection.get(), control_failure({Errc::failed, kTooMany}) + "\n");
    waiting_.push_back(std::move(connection));
    all_are_busy = serving_ + waiting_.size() > answering_.size();
  }
  asked_.notify_one();
  if (!all_are_busy || answering_.size() >= kMost) return;
  if (const Status added = add_thread(); !added)
    spdlog::warn("no thread can be started to answer another request, which has to wait: {}",
                 added.error().message);
}

void ControlSocket::answer() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    Descriptor connection = std::move(waiting_.front());
    waiting_.pop_front();
    ++serving_;
    lock.unlock();
    serve(std::move(connection));
    lock.lock();
    --serving_;
  }
}

void ControlSocket::serve(Descriptor connection) const {
  const auto request = receive_line(connection.get(), stop_[0].get());
  if (!request) return;
  if (*request == "end") {
    send_all(connection.get(), control_answer({{"ok", true}}) + "\n");
    return last_word_.keep(std::move(connection));
  }
  std::string answer;
  try {
    answer = handler_(*request);
  } catch (const std::exception& error) {
    answer = control_failure({Errc::failed, fmt::format("{}: {}", *request, reason_of(error))});
  }
  send_all(connection.get(), answer + "\n");
}

}  // namespace s3oram
