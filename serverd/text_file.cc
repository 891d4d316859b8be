#include "serverd/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

tl::unexpected<Error> failure(const std::filesystem::path& file, const char* doing, int error) {
  return system_failure(error, "{}: {}", file.string(), doing);
}

Status write_all(int fd, const std::filesystem::path& file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return failure(file, "writing", errno);
    done += static_cast<std::size_t>(wrote);
  }
  if (::fsync(fd) != 0) return failure(file, "making it durable", errno);
  return {};
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

Status sync_folder(const std::filesystem::path& file) {
  const auto folder = folder_of(file);
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0) return failure(folder, "making it durable", errno);
  return {};
}

Status give_to_folder_owner(int fd, const std::filesystem::path& file) {
  struct stat folder {};
  if (::geteuid() != 0) return {};
  if (::stat(folder_of(file).c_str(), &folder) != 0 ||
      ::fchown(fd, folder.st_uid, folder.st_gid) != 0)
    return failure(file, "giving it to the owner of its directory", errno);
  return {};
}

// Writes beside `file`, then `publish` gives the new file its name.
template <class Publish>
Status write_beside(const std::filesystem::path& file, const std::string& text, mode_t mode,
                    Publish publish) {
  std::string beside = file.string() + ".XXXXXX";
  const Descriptor fd(::mkostemp(beside.data(), O_CLOEXEC));
  if (fd.get() < 0) return failure(file, "writing a new file beside it", errno);
  Status status = write_all(fd.get(), file, text);
  if (status && ::fchmod(fd.get(), mode) != 0) status = failure(file, "setting its mode", errno);
  if (status) status = give_to_folder_owner(fd.get(), file);
  if (status) status = publish(beside.c_str());
  if (status) status = sync_folder(file);
  ::unlink(beside.c_str());
  return status;
}

}  // namespace

Result<std::string> read_text(const std::filesystem::path& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || (in.peek() != EOF && !(text << in.rdbuf())) || in.bad())
    return failure(file, "reading", errno);
  return text.str();
}

Status replace_text(const std::filesystem::path& file, const std::string& text, mode_t mode) {
  return write_beside(file, text, mode, [&](const char* beside) -> Status {
    if (::rename(beside, file.c_str()) != 0) return failure(file, "replacing", errno);
    return {};
  });
}

Status create_text(const std::filesystem::path& file, const std::string& text, mode_t mode) {
  return write_beside(file, text, mode, [&](const char* beside) -> Status {
    if (::link(beside, file.c_str()) == 0) return {};
    if (errno == EEXIST) return fail(Errc::exists, "{} is there already", file.string());
    return failure(file, "making", errno);
  });
}

}  // namespace s3oram
