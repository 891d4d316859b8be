// Runs ssh, with a script or a file on its standard input.
#include "cli/remote_host.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <sstream>

#include "oramcore/base/descriptor.h"
#include "oramcore/base/human.h"
#include "oramcore/base/program.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

constexpr std::size_t kMostSaid = 64 << 10;

Result<Descriptor> as_file(const std::string& text) {
  Descriptor file(::memfd_create("script", MFD_CLOEXEC));
  if (file.get() < 0 ||
      ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0)
    return system_failure(errno, "a script in memory");
  return file;
}

}  // namespace

Result<RemoteHost> RemoteHost::parse(const std::string& target, const std::string& ssh,
                                     bool dry_run) {
  RemoteHost made;
  made.target_ = target;
  made.host_ = target.substr(target.rfind('@') + 1);
  made.dry_run_ = dry_run;
  std::istringstream words(ssh);
  for (std::string word; words >> word;) made.ssh_.push_back(word);
  if (made.ssh_.empty()) return fail(Errc::usage, "--ssh: give a command, such as ssh");
  if (target.empty() || target.front() == '-' || made.host_.empty() ||
      made.host_.find_first_of(" \t/,;'\"\\$`") != std::string::npos)
    return fail(Errc::usage, "{}: not of the form USER@HOST", target);
  return made;
}

std::vector<std::string> RemoteHost::words(const std::string& command) const {
  std::vector<std::string> all = ssh_;
  all.insert(all.end(), {"--", target_, command});
  return all;
}

std::string RemoteHost::shown(const std::string& command) const {
  return fmt::format("{} -- {} {}", fmt::join(ssh_, " "), target_, shell_word(command));
}

Result<std::string> RemoteHost::run(const std::string& purpose, const std::string& script) const {
  if (dry_run_) {
    std::cout << "# " << purpose << " " << target_ << "\n"
              << shown("sh -s") << " <<'END'\n"
              << script << "END\n";
    return std::string();
  }
  S3O_ASSIGN(const auto input, as_file(script));
  S3O_ASSIGN(const auto end, run_program(words("sh -s"), STDOUT_FILENO, kMostSaid, input.get()));
  if (!end.succeeded())
    return fail(Errc::failed, "{} {}: failed; see the messages above", purpose, target_);
  return std::string(end.said.begin(), end.said.end());
}

Status RemoteHost::send(const std::string& purpose, const std::string& command,
                        const std::string& file) const {
  if (dry_run_) {
    std::cout << "# " << purpose << " " << target_ << "\n"
              << shown(command) << " < " << shell_word(file) << "\n";
    return {};
  }
  const Descriptor input(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (input.get() < 0) return system_failure(errno, "{}", file);
  S3O_ASSIGN(const auto end, run_program(words(command), -1, 0, input.get()));
  if (!end.succeeded())
    return fail(Errc::failed, "{} {}: failed; see the messages above", purpose, target_);
  return {};
}

}  // namespace s3oram
