// Parses the options of a mount.
#include "fused/options/options.h"

#include <grp.h>
#include <pwd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "oramcore/base/help.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/metrics_responder.h"
#include "oramcore/base/mountinfo.h"

namespace s3oram {
namespace {

// The kinds of words after -o that have no value. (A word with a value is the long option of that
// name.)
enum class Use {
  kernel,   // is passed to the kernel
  ours,     // read_word() acts on it
  nothing,  // is meant for fstab, or is the default
};
struct Word {
  std::string_view name;
  Use use;
};
constexpr std::array kWords = {Word{"ro", Use::ours},
                               Word{"rw", Use::ours},
                               Word{"atime", Use::ours},
                               Word{"relatime", Use::ours},
                               Word{"noatime", Use::ours},
                               Word{"nodiratime", Use::nothing},
                               Word{"dev", Use::kernel},
                               Word{"nodev", Use::kernel},
                               Word{"suid", Use::kernel},
                               Word{"nosuid", Use::kernel},
                               Word{"exec", Use::kernel},
                               Word{"noexec", Use::kernel},
                               Word{"allow_other", Use::kernel},
                               Word{"nonempty", Use::ours},
                               Word{"default_permissions", Use::nothing},
                               Word{"defaults", Use::nothing},
                               Word{"async", Use::nothing},
                               Word{"auto", Use::nothing},
                               Word{"noauto", Use::nothing},
                               Word{"user", Use::nothing},
                               Word{"nouser", Use::nothing},
                               Word{"users", Use::nothing},
                               Word{"nofail", Use::nothing},
                               Word{"_netdev", Use::nothing}};
constexpr std::uint64_t kLeastCache = kLeastFileCache, kMostCache = std::uint64_t{1} << 40;

bool is_for_others(const std::string& word) {
  return word.empty() || word.starts_with("x-") || word.starts_with("X-") ||
         word.starts_with("comment=") || word.starts_with("user=");
}

std::string known_words() {
  std::string line = " ", text;
  const auto add = [&](std::string_view word) {
    if (line.size() + 1 + word.size() > 78) text += std::exchange(line, " ") + "\n";
    line += " " + std::string(word);
  };
  for (const Word& word : kWords) add(word.name);
  for (const char* name : kMountValues) add(std::string(name) + "=");
  add("comment=");
  add("x-...");
  return text + line;
}

// A number without a unit is in MiB.
std::string read_cache(const std::string& text, std::optional<std::uint64_t>& bytes) {
  const bool alone = text.find_first_not_of("0123456789") == std::string::npos;
  const auto size = parse_size(alone ? text + "M" : text, kLeastCache, kMostCache);
  if (!size) return "cache: " + size.error().message;
  bytes = *size;
  return {};
}

// A number without a unit is in seconds.
std::string read_idle(const std::string& text, std::optional<std::chrono::seconds>& idle) {
  constexpr std::uint64_t kLongest = 366 * 86'400;
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const std::uint64_t seconds = unit.empty() || unit == "s" ? 1
                                : unit == "m"               ? 60
                                : unit == "h"               ? 3600
                                : unit == "d"               ? 86'400
                                                            : 0;
  if (error != std::errc() || seconds == 0 || number == 0 || number > kLongest / seconds)
    return "idle: write a time as 90s, 10m, 2h or 1d";
  idle = std::chrono::seconds(number * seconds);
  return {};
}

// The largest number is not an id: to chown(2) it means "unchanged".
template <class Id>
bool is_number(const std::string& text, std::optional<Id>& id) {
  Id number{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number == static_cast<Id>(-1)) return false;
  id = number;
  return true;
}
std::string read_uid(const std::string& text, std::optional<uid_t>& uid) {
  if (is_number(text, uid)) return {};
  const passwd* user = ::getpwnam(text.c_str());
  if (user) uid = user->pw_uid;
  return user ? "" : fmt::format("uid: there is no user {}", text);
}
std::string read_gid(const std::string& text, std::optional<gid_t>& gid) {
  if (is_number(text, gid)) return {};
  const group* found = ::getgrnam(text.c_str());
  if (found) gid = found->gr_gid;
  return found ? "" : fmt::format("gid: there is no group {}", text);
}

// A later word overrides an earlier one, as with mount(8).
Status read_word(const std::string& word, bool sloppy, MountCommand& command) {
  if (is_for_others(word)) return {};
  if (word == "remount")
    return fail(Errc::usage,
                "-o remount: not possible: unmount it, and mount it again with other options");
  const auto known = std::find_if(kWords.begin(), kWords.end(),
                                  [&](const Word& each) { return each.name == word; });
  if (known == kWords.end()) {
    if (sloppy) return {};
    const std::string name = word.substr(0, word.find('='));
    if (std::ranges::find(kMountValues, name) != kMountValues.end())
      return fail(Errc::usage, "-o {0}: its value is missing: {0}=...", name);
    if (std::ranges::find(kWords, name, &Word::name) != kWords.end())
      return fail(Errc::usage, "-o {}: {} takes no value", word, name);
    return fail(Errc::usage, "-o {}: no such mount option; the known ones are\n{}", word,
                known_words());
  }
  if (known->use == Use::kernel) command.fuse_options.push_back(word);
  command.nonempty |= word == "nonempty";
  if (word == "ro" || word == "rw") command.read_only = word == "ro";
  if (known->use == Use::ours && word.ends_with("atime")) command.update_atime = word != "noatime";
  return {};
}

void make_absolute(MountCommand& command) {
  command.named_vault = command.vault;
  command.named_mountpoint = command.mountpoint;
  std::error_code error;
  // A path that cannot be resolved stays as it was given.
  const auto vault = std::filesystem::weakly_canonical(command.vault, error);
  if (!error)
    command.vault = vault;
  else if (const auto named = std::filesystem::absolute(command.vault, error); !error)
    command.vault = named;
  command.mountpoint = as_mount_point(command.mountpoint);
  if (vault_mounted_at(command.mountpoint)) return;
  // The mount point may be a link that leads into the vault.
  const auto real = std::filesystem::canonical(command.mountpoint, error);
  if (!error) command.mountpoint = real;
}

/// The options of a mount, and where their values go.
struct MountApp {
  MountApp();

  CLI::App app{"Mounts a vault, and returns when it is ready.", "s3oramfs mount"};
  MountCommand command;
  std::vector<std::string> lists;  // the lists after -o
  bool sloppy = false;
  int timeout = static_cast<int>(command.timeout.count());
  int backup = static_cast<int>(command.back_up_every.count());

 private:
  template <class Target>
  CLI::Option* value(const char* name, Target& target, const char* type, const char* what) {
    return app.add_option(std::string("--") + name, target, what)->type_name(type)->take_last();
  }
  template <class Read, class Target>
  void parsed_value(const char* name, Read read, Target& target, const char* type,
                    const char* what) {
    app.add_option_function<std::string>(
           std::string("--") + name,
           [read, &target](const std::string& text) {
             if (std::string wrong = read(text, target); !wrong.empty())
               throw CLI::ValidationError("--" + wrong, CLI::ExitCodes::ValidationError);
           },
           what)
        ->type_name(type)
        ->take_last();
  }
  void add_values();
};

MountApp::MountApp() {
  app.add_option("VAULT", command.vault, "The vault, or a name (man s3oramfs, NAMED MOUNTS)");
  app.add_option("DIRECTORY", command.mountpoint, "Where to mount it");
  app.add_flag("-f,--foreground", command.foreground, "Stay in the foreground; log to stderr");
  const auto* list =
      app.add_option("-o", lists, "Mount options; also the options below, without --")
          ->type_name("OPTION,...")
          ->expected(1)
          ->take_all()
          ->allow_extra_args(false);
  add_values();
  app.add_flag("--fake", command.fake)->group(kSeldomUsed);  // mount -f
  app.add_flag("--sloppy", sloppy)->group(kSeldomUsed);      // mount -s
  app.footer("Mount options:\n" + known_words());
  app.formatter(std::make_shared<HelpFormatter>());
  refuse_empty_values(app, list);
}

void MountApp::add_values() {
  value("passfile", command.passphrase.passfile, "FILE", "The passphrase: the file's first line");
  value("passprog", command.passphrase.passprog, "COMMAND",
        "The passphrase: first line of COMMAND's output");
  value("keyfile", command.keyfile, "FILE", "A key file that opens the vault");
  parsed_value("cache", read_cache, command.cache, "SIZE",
               "Memory for file contents, like 512M (default 256M)");
  value("timeout", timeout, "SECONDS", "Time without progress before requests fail (20)")
      ->check(CLI::Range(1, 3600));
  value("backup", backup, "SECONDS", "Least time between backups of the names (60)")
      ->check(CLI::Range(1, 86400));
  parsed_value("uid", read_uid, command.root_uid, "USER",
               "Owner of the root directory of a new vault");
  parsed_value("gid", read_gid, command.root_gid, "GROUP",
               "Group of the root directory of a new vault");
  parsed_value("idle", read_idle, command.idle, "TIME",
               "Unmount after this time without use: 90s, 10m, 2h");
  value("metrics", command.metrics, "ADDRESS:PORT", "Metrics for Prometheus; local addresses only");
  value("log-level", command.log_level, "LEVEL", "trace, debug, info (default), warning or error")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error"}).description(""));
}

Error usage_error(const CLI::ParseError& error) {
  return {Errc::usage, fmt::format("{}; see s3oramfs mount --help", error.what())};
}

}  // namespace

Result<MountWords> split_mount_words(const std::vector<std::string>& args) {
  MountApp parser;
  MountWords words;
  try {
    parser.app.parse(
        std::vector<std::string>(args.rbegin(), args.rend()));  // CLI11 takes them from the back
  } catch (const CLI::CallForHelp&) {
    words.help = true;
    return words;
  } catch (const CLI::ParseError& error) {
    return fail(usage_error(error));
  }
  words.vault = parser.command.vault;
  words.directory = parser.command.mountpoint;
  for (const CLI::Option* option : parser.app.get_options()) {
    if (option->count() == 0 || option->get_positional()) continue;
    const bool is_long = !option->get_lnames().empty();
    const std::string name =
        is_long ? "--" + option->get_lnames().front() : "-" + option->get_snames().front();
    if (option->get_items_expected_max() == 0) words.options.push_back(name);
    if (option->get_items_expected_max() == 0) continue;
    for (const std::string& value : option->results()) {
      if (is_long) words.options.push_back(fmt::format("{}={}", name, value));
      if (!is_long) words.options.insert(words.options.end(), {name, value});
    }
  }
  return words;
}

std::vector<std::string> words_of_list(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    const std::size_t equals = word.find('=');
    const bool has_value =
        equals != std::string::npos &&
        std::ranges::find(kMountValues, word.substr(0, equals)) != kMountValues.end();
    if (has_value) words.push_back("--" + word);
    if (!has_value) words.insert(words.end(), {"-o", word});
  }
  return words;
}

std::string why_no_mount_option(const std::vector<std::string>& words) {
  std::vector<std::string> all{"s3oramfs mount"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"--", "/", "/"});
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  const auto parsed = parse_mount_command(static_cast<int>(argv.size()), argv.data());
  if (parsed) return {};
  std::string why = parsed.error().message;
  if (const auto advice = why.find("; see s3oramfs mount --help"); advice != std::string::npos)
    why.erase(advice);
  return why;
}

Result<std::variant<MountCommand, std::string>> parse_mount_command(int argc, char** argv) {
  MountApp parser;
  CLI::App& app = parser.app;
  MountCommand& command = parser.command;
  try {
    app.parse(argc, argv);
    std::istringstream words(fmt::format("{}", fmt::join(parser.lists, ",")));
    for (std::string word; std::getline(words, word, ',');) {
      const std::size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      if (equals == std::string::npos ||
          std::find(kMountValues.begin(), kMountValues.end(), name) == kMountValues.end()) {
        S3O_TRY(read_word(word, parser.sloppy, command));
        continue;
      }
      auto* option = app.get_option("--" + name);
      option->add_result(word.substr(equals + 1));
      option->run_callback();
    }
    for (const char* name : {"VAULT", "DIRECTORY"})
      if (app.get_option(name)->empty()) throw CLI::RequiredError(name);
    if (!command.passphrase.passfile.empty() + !command.passphrase.passprog.empty() +
            !command.keyfile.empty() >
        1)
      throw CLI::ExcludesError("only one of passfile, passprog and keyfile can be given",
                               CLI::ExitCodes::ExcludesError);
  } catch (const CLI::CallForHelp&) {
    return std::variant<MountCommand, std::string>(app.help());
  } catch (const CLI::ParseError& error) {
    return fail(usage_error(error));
  }
  if (!command.metrics.empty()) S3O_TRY(check_metrics_address({command.metrics}, "--metrics"));
  if (command.read_only) command.fuse_options.push_back("ro");
  if (!command.update_atime) command.fuse_options.push_back("noatime");
  command.update_atime = command.update_atime && !command.read_only;
  command.timeout = std::chrono::seconds(parser.timeout);
  command.back_up_every = std::chrono::seconds(parser.backup);
  make_absolute(command);
  return std::variant<MountCommand, std::string>(std::move(command));
}

}  // namespace s3oram
