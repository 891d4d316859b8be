#include "cli/control.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>

#include "oramcore/base/descriptor.h"

namespace s3oram {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestAnswer = 1 << 20;

tl::unexpected<Error> failure(const Vault& vault, Errc code) {
  return fail(code, "{}: its daemon does not answer: {}", vault.directory().string(),
              std::strerror(errno));
}

Result<std::string> talk(const Vault& vault, const std::string& line,
                         std::chrono::seconds patience) {
  // A socket's address is short and a vault's path may be long: go by the directory's descriptor.
  const Descriptor directory(
      ::open(vault.run_directory().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return failure(vault, Errc::not_mounted);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return failure(vault, Errc::failed);
  const timeval limit{static_cast<time_t>(patience.count()), 0};  // zero: none
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = fmt::format("/proc/self/fd/{}/control.sock", directory.get());
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return failure(vault,
                   errno == ENOENT || errno == ECONNREFUSED ? Errc::not_mounted : Errc::failed);
  if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size()))
    return failure(vault, Errc::failed);

  std::string answer;
  char buffer[4096];
  while (answer.find('\n') == std::string::npos && answer.size() < kLongestAnswer) {
    const ssize_t got = ::recv(socket.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN)
      return fail(Errc::unreachable, "{}: its daemon does not answer for {} s",
                  vault.directory().string(), patience.count());
    if (got < 0) return failure(vault, Errc::failed);
    if (got == 0) break;
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  return answer;
}

}  // namespace

Result<json> ask_daemon(const Vault& vault, const std::string& question,
                        std::chrono::seconds patience) {
  auto line = talk(vault, question + "\n", patience);
  if (!line) return fail(std::move(line).error());
  json answer = json::parse(*line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object() || !answer.contains("ok") || !answer["ok"].is_boolean())
    return fail(Errc::failed, "{}: its daemon ended, or answered {} with nonsense",
                vault.directory().string(), question);
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

Result<json> ask_daemon(const Vault& vault, const std::string& question, Progress& progress,
                        std::chrono::seconds patience) {
  auto asked = std::async(std::launch::async, [&]() -> Result<json> {
    auto awake = ask_daemon(vault, "status", kStatusPatience);
    if (!awake) return awake;
    return ask_daemon(vault, question, patience);
  });
  while (asked.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
    progress.update();
  return asked.get();
}

}  // namespace s3oram
