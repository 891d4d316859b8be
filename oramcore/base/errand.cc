// The two processes of an errand are connected by a pair of sockets. One message is sent; one comes
// back, with a byte for the code, the error's text, and the files.
#include "oramcore/base/errand.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

constexpr std::size_t kMostSaid = 4096;

union FilesMessage {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(Errand::kMostFiles * sizeof(int))];
};

bool send_answer(int socket, const Status& done, const std::vector<Descriptor>& files) {
  std::string said(1, static_cast<char>(done ? Errc::ok : done.error().code));
  if (!done) said += done.error().message.substr(0, kMostSaid - 1);
  iovec part{said.data(), said.size()};
  FilesMessage control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (done && !files.empty()) {
    const std::size_t count = std::min(files.size(), Errand::kMostFiles);
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) {
      const int fd = files[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

/// Runs in the errand's process: reads only the content, and does only the work.
[[noreturn]] void wait_and_work(const Descriptor& socket, const Errand::Work& work) {
  Bytes content(Errand::kMostContent);
  ssize_t got = 0;
  do got = ::recv(socket.get(), content.data(), content.size(), 0);
  while (got < 0 && errno == EINTR);
  if (got <= 0) ::_exit(0);  // the other end is closed, perhaps because its process ended
  Status done;
  std::vector<Descriptor> files;
  try {  // the first byte is not content: an empty message means that the other end is closed
    done = work(ByteSpan(content).first(static_cast<std::size_t>(got)).subspan(1), files);
  } catch (const std::exception& error) {
    done = fail(Errc::failed, "{}", error.what());
  }
  ::_exit(send_answer(socket.get(), done, files) ? 0 : 1);
}

std::vector<Descriptor> files_of(const msghdr& message) {
  std::vector<Descriptor> files;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      files.emplace_back(fd);
    }
  }
  return files;
}

}  // namespace

Result<Errand> Errand::prepare(Work work) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_failure(errno, "socketpair");
  Descriptor ours(ends[0]), theirs(ends[1]);
  const pid_t process = ::fork();
  if (process < 0) return system_failure(errno, "fork");
  if (process == 0) {
    ours.close();
    wait_and_work(theirs, work);
  }
  Errand errand;
  errand.socket_ = std::move(ours);
  errand.process_ = process;
  return errand;
}

Errand::Errand(Errand&& other) noexcept
    : socket_(std::move(other.socket_)), process_(std::exchange(other.process_, -1)) {}

Errand& Errand::operator=(Errand&& other) noexcept {
  end();
  socket_ = std::move(other.socket_);
  process_ = std::exchange(other.process_, -1);
  return *this;
}

Errand::~Errand() { end(); }

void Errand::end() {
  // Another errand's process may also have this end open.
  if (socket_.get() >= 0) ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.close();
  if (process_ < 0) return;
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
}

Result<std::vector<Descriptor>> Errand::run(ByteSpan content) {
  if (content.size() >= kMostContent)
    return fail(Errc::failed, "{} bytes are too many to be passed to root", content.size());
  Bytes request(1);
  request.insert(request.end(), content.begin(), content.end());
  Bytes said(kMostSaid);
  iovec part{said.data(), said.size()};
  FilesMessage control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t got = ::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL);
  while (got >= 0 && (got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC)) < 0 &&
         errno == EINTR)
    got = 0;
  const int error = errno;
  std::vector<Descriptor> files = got > 0 ? files_of(message) : std::vector<Descriptor>();
  end();
  if (got < 0) return system_failure(error, "root's part of the work");
  if (got == 0) return fail(Errc::failed, "the process that does root's part of the work has died");
  const auto code = static_cast<Errc>(said[0]);
  if (code == Errc::ok) return files;
  return fail(code, "{}", std::string(said.begin() + 1, said.begin() + got));
}

}  // namespace s3oram
