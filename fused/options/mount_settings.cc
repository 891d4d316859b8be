// Finds and reads the settings of named mounts. Each setting is checked by the rules of the option
// that it sets, so that an error can name the line.
#include "fused/options/mount_settings.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "fused/options/options.h"
#include "oramcore/base/config_file.h"
#include "oramcore/base/descriptor.h"
#include "oramcore/base/directory.h"
#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/system_error.h"

namespace s3oram {
namespace {

namespace stdfs = std::filesystem;

constexpr std::size_t kLargestSettings = 1 << 16;

std::string home() {
  const char* text = std::getenv("HOME");
  if (text && *text == '/') return text;
  const passwd* user = ::getpwuid(::geteuid());
  return user ? user->pw_dir : "/";
}

bool is_name(std::string_view text) {
  // NAME.env belongs to systemd's s3oramfs@NAME, and editors leave NAME~ behind.
  return !text.empty() && !text.starts_with('.') && !text.ends_with(".env") &&
         !text.ends_with('~') && text.find('/') == std::string_view::npos;
}

bool is_path(std::string_view setting) {
  return setting == "vault" || setting == "directory" || setting == "passfile" ||
         setting == "keyfile";
}

/// Expands ~ at the start of a path, because a path must not depend on where the command is run.
std::string expanded(const std::string& path) {
  if (path == "~") return home();
  return path.starts_with("~/") ? home() + path.substr(1) : path;
}

/// Checks a setting, given as an option with its value. Throws CLI::ParseError.
void try_setting(const std::string& option) {
  const auto equals = option.find('=');
  const std::string name = option.substr(2, equals - 2), value = option.substr(equals + 1);
  const auto refuse = [&](const std::string& why) {
    throw CLI::ValidationError(why, CLI::ExitCodes::ValidationError);
  };
  if (value.empty()) refuse("its value is empty");
  if (is_path(name) && !expanded(value).starts_with('/'))
    refuse("write a path that begins with / or ~/");
  if (name == "vault" || name == "directory") return;
  const auto words =
      name == "options" ? std::vector<std::string>{"-o", value} : std::vector<std::string>{option};
  if (std::string why = why_no_mount_option(words); !why.empty()) {
    if (const std::string prefix = "--" + name + ": "; why.starts_with(prefix))
      why.erase(0, prefix.size());
    refuse(why);
  }
}

/// Returns the file's content. Errors: usage (a user other than this one and root owns the file, or
/// others may write to it).
Result<std::string> read_own_file(const stdfs::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (opened.get() < 0 || ::fstat(opened.get(), &status) != 0)
    return fail(Errc::usage, "{}: {}", file.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return fail(Errc::usage, "{}: not a regular file", file.string());
  if (status.st_uid != ::geteuid() && !is_roots(status.st_uid))
    return fail(Errc::usage,
                "{} belongs to user {}, who could make it run any command; make it yours",
                file.string(), status.st_uid);
  if ((status.st_mode & 022) != 0)
    return fail(Errc::usage, "{0}: others may change it (mode {1:04o}): chmod go-w {2}",
                file.string(), status.st_mode & 07777, shell_word(file));
  S3O_ASSIGN(const auto content,
             read_small_file(fmt::format("/proc/self/fd/{}", opened.get()), kLargestSettings));
  return std::string(content.begin(), content.end());
}

void take(const CLI::ConfigItem& item, MountSettings& settings) {
  const std::string value =
      is_path(item.name) ? expanded(item.inputs.front()) : item.inputs.front();
  if (item.name == "vault") settings.vault = value;
  if (item.name == "directory") settings.directory = value;
  if (item.name == "passfile") settings.passphrase.passfile = value;
  if (item.name == "passprog") settings.passphrase.passprog = value;
  if (item.name == "keyfile") settings.keyfile = value;
  if (item.name == "vault" || item.name == "directory") return;
  const auto words =
      item.name == "options" ? words_of_list(value) : std::vector{"--" + item.name + "=" + value};
  settings.options.insert(settings.options.end(), words.begin(), words.end());
}

Result<MountSettings> read_settings(const stdfs::path& file) {
  S3O_ASSIGN(const auto content, read_own_file(file));
  CLI::App app;
  std::string ignored;
  for (const char* name : {"vault", "directory", "options"})
    app.add_option(std::string("--") + name, ignored);
  for (const char* name : kMountValues) app.add_option(std::string("--") + name, ignored);
  MountSettings settings;
  settings.file = file;
  std::istringstream in(content);
  try {
    for (const CLI::ConfigItem& item :
         ConfigFile(app, try_setting, "man s3oramfs").read(in, file.string()))
      take(item, settings);
  } catch (const CLI::ConfigError& error) {
    return fail(Errc::usage, "{}", error.what());
  }
  if (settings.vault.empty())
    return fail(Errc::usage, "{}: it names no vault; add vault = \"PATH\"", file.string());
  // Each setting is valid by itself, but some exclude each other.
  if (const std::string why = why_no_mount_option(settings.options); !why.empty())
    return fail(Errc::usage, "{}: {}", file.string(), why);
  return settings;
}

}  // namespace

stdfs::path settings_folder() {
  const char* configured = std::getenv("XDG_CONFIG_HOME");
  const bool given = configured && *configured == '/';  // ignores relative ones (XDG)
  return stdfs::path(given ? configured : home() + "/.config") / "s3oramfs";
}

std::vector<std::string> mount_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : stdfs::directory_iterator(settings_folder(), error)) {
    const std::string name = entry.path().filename();
    if (is_name(name) && entry.is_regular_file(error)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

Result<std::optional<MountSettings>> find_mount_settings(const std::string& name) {
  if (!is_name(name)) return std::nullopt;
  const stdfs::path file = settings_folder() / name;
  std::error_code error;
  if (!stdfs::exists(file, error)) return std::nullopt;
  S3O_ASSIGN(auto settings, read_settings(file));
  return std::optional(std::move(settings));
}

}  // namespace s3oram
