// Sets up a server from an invitation: first its files, then the unit, then the program is started.
#include "serverd/join.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>

#include "oramcore/base/durable_file.h"
#include "oramcore/base/human.h"
#include "oramcore/base/program.h"
#include "oramcore/base/system_error.h"
#include "oramcore/net/invitation.h"
#include "serverd/store_files.h"

namespace s3oram {
namespace {

namespace fs = std::filesystem;

/// The places of the parts of a server. A server that root sets up is a unit of the system.
struct Places {
  Path store, config, unit;  // unit: the file to write; empty if the unit is installed already
  std::string unit_name;     // empty if there is no unit
};

bool is_root() { return ::geteuid() == 0; }

bool has_systemd() {
  std::error_code error;
  return fs::is_directory("/run/systemd/system", error);
}

Result<Path> home_folder(const char* variable, const char* below) {
  if (const char* folder = std::getenv(variable); folder && *folder == '/') return Path(folder);
  const char* home = std::getenv("HOME");
  if (!home || *home != '/') return fail(Errc::failed, "HOME is not set: give --store DIR");
  return Path(home) / below;
}

Result<Places> places_of(const JoinOptions& options) {
  Places places;
  const bool of_system = is_root() && options.store.empty();
  if (of_system) {
    places.store = Path("/var/lib/s3oramfs") / options.name;
    places.config = Path("/etc/s3oramfs/server") / (options.name + ".conf");
    places.unit_name = "s3oramfs-server@" + options.name;
    return places;
  }
  if (options.store.empty()) {
    S3O_ASSIGN(const auto data, home_folder("XDG_DATA_HOME", ".local/share"));
    places.store = data / "s3oramfs" / options.name;
  } else {
    std::error_code error;
    places.store = fs::absolute(options.store, error);
    if (error) return fail(Errc::failed, "store {}: {}", options.store, error.message());
  }
  places.config = places.store / "server.conf";
  if (!is_root()) {
    S3O_ASSIGN(const auto units, home_folder("XDG_CONFIG_HOME", ".config"));
    places.unit_name = "s3oramfs-server-" + options.name;
    places.unit = units / "systemd/user" / (places.unit_name + ".service");
  }
  return places;
}

/// Checks the name, which becomes part of the names of files and units.
Status check_name(const std::string& name) {
  constexpr std::string_view kKnown =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (!name.empty() && name.front() != '-' && name.find_first_not_of(kKnown) == std::string::npos)
    return {};
  return fail(Errc::usage, "--name {}: use letters, digits, _ and -, and do not begin it with -",
              name);
}

Status make_folders(const Path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (error) return fail(Errc::failed, "{}: {}", folder.parent_path().string(), error.message());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return system_failure(errno, "{}", folder.string());
  return {};
}

/// Creates a file. Keeps the content of an existing file, because its owner may have changed it.
/// Everyone may read the file, because the server of a system unit does not run as the user who ran
/// `join`.
Status make_file(const Path& file, const std::string& text) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) return fail(Errc::failed, "{}: {}", file.parent_path().string(), error.message());
  Status made = create_durably(file, as_bytes(text), FileOwner::of_directory);
  if (!made && made.error().code != Errc::exists) return made;
  fs::permissions(file, fs::perms::group_read | fs::perms::others_read, fs::perm_options::add,
                  error);
  if (error && made) return fail(Errc::failed, "{}: {}", file.string(), error.message());
  return {};
}

Result<PublicKey> own_key(const Path& store) {
  if (const auto kept = read_server_key(store)) return kept->public_key;
  const KeyPair keys = generate_key_pair();
  const Status made = create_server_key(store, keys);
  if (made) return keys.public_key;
  if (made.error().code != Errc::exists) return fail(made.error());
  S3O_ASSIGN(const auto kept, read_server_key(store));  // the error says what is wrong with it
  return kept.public_key;
}

/// Refuses to turn one client's server into another client's.
Status check_client(const Path& store, const PublicKey& client) {
  S3O_ASSIGN(const auto clients, read_clients(store));
  if (clients.empty() || std::find(clients.begin(), clients.end(), client) != clients.end())
    return {};
  return fail(Errc::exists,
              "store {} belongs to another client; give --name NAME, or --store DIR, for another "
              "server",
              store.string());
}

/// Returns whether the client has told this server about its peers.
Result<bool> has_joined(const Path& store) {
  S3O_ASSIGN(const auto peers, read_peers(store));
  return !peers.empty();
}

Result<Path> own_program() {
  std::error_code error;
  const Path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail(Errc::failed, "/proc/self/exe: {}", error.message());
  return program;
}

std::string command_of(const Path& program, const Places& places) {
  return fmt::format("{} --config {}", shell_word(program), shell_word(places.config));
}

std::string unit_text(const Path& program, const Places& places) {
  return fmt::format(
      "[Unit]\nDescription=s3oramfs share server\nDocumentation=man:s3oramfs-serverd(8)\n"
      "StartLimitIntervalSec=0\n\n[Service]\nType=notify\nExecStart=\"{}\" --config \"{}\"\n"
      "ExecReload=/bin/kill -HUP $MAINPID\nRestart=on-failure\nRestartSec=10\n"
      "RestartPreventExitStatus=2 12 20\nTimeoutStartSec=15min\nTimeoutStopSec=5min\n"
      "LimitCORE=0\nUMask=0077\n\n[Install]\nWantedBy=default.target\n",
      program.string(), places.config.string());
}

Status systemctl(std::vector<std::string> words) {
  words.insert(words.begin(), "systemctl");
  if (!is_root()) words.insert(words.begin() + 1, "--user");
  S3O_ASSIGN(const auto end, run_program(words));
  if (end.succeeded()) return {};
  return fail(Errc::failed, "systemctl failed: see its message above");
}

/// Starts the server without a service manager. It is not restarted when it ends or when the
/// machine reboots.
Status start_alone(const Path& program, const Places& places) {
  const Path log = places.store / "server.log";
  const pid_t child = ::fork();
  if (child < 0) return system_failure(errno, "starting the server");
  if (child > 0) return {};
  ::setsid();
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  if (in < 0 || out < 0) ::_exit(127);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execl(program.c_str(), program.c_str(), "--config", places.config.c_str(), nullptr);
  ::_exit(127);
}

Result<std::string> own_name() {
  errno = 0;
  const passwd* user = ::getpwuid(::geteuid());
  if (user) return std::string(user->pw_name);
  if (errno != 0) return system_failure(errno, "the name of user {}", ::geteuid());
  return fail(Errc::failed, "user {} has no name on this machine", ::geteuid());
}

/// loginctl fails for a user who is neither logged in nor lingers, and its complaint is not shown.
bool lingers(const std::string& user) {
  constexpr std::size_t kMostSaid = 100;
  const auto end =
      run_program({"sh", "-c", "exec loginctl show-user --property=Linger \"$1\" 2>&1", "sh", user},
                  STDOUT_FILENO, kMostSaid);
  static constexpr std::string_view kYes = "Linger=yes\n";
  return end && end->succeeded() && std::ranges::equal(end->said, kYes);
}

/// Lets the user's services run while the user is not logged in. Without this, systemd stops them
/// some seconds after the last session ends. Users may usually decide that for themselves.
Status stay_after_logout() {
  S3O_ASSIGN(const auto user, own_name());
  if (lingers(user)) return {};
  constexpr std::size_t kMostSaid = 4096;
  // What they say is read and dropped: only what loginctl shows afterwards counts.
  (void)run_program({"loginctl", "--no-ask-password", "enable-linger", user}, STDERR_FILENO,
                    kMostSaid);
  if (lingers(user)) return {};
  (void)run_program({"sudo", "-n", "loginctl", "enable-linger", user}, STDERR_FILENO, kMostSaid);
  if (lingers(user)) return {};
  return fail(Errc::failed,
              "the server would stop when {0} logs out, and never start with the machine; have an "
              "administrator run 'loginctl enable-linger {0}' here, and then run this again",
              user);
}

/// Returns whether a unit of the user's own, which join has written or will write, runs the server.
bool is_users_unit(const Places& places) { return has_systemd() && !places.unit.empty(); }

Status start(const JoinOptions& options, const Places& places, std::ostream& out) {
  S3O_ASSIGN(const auto program, own_program());
  std::error_code unknown;
  if (is_users_unit(places) && (!is_running(places.store) || fs::exists(places.unit, unknown)))
    S3O_TRY(stay_after_logout());
  if (is_running(places.store)) {
    out << "The server is already running.\n";
    return {};
  }
  if (has_systemd() && !places.unit_name.empty()) {
    if (is_users_unit(places)) {
      S3O_TRY(make_file(places.unit, unit_text(program, places)));
      S3O_TRY(systemctl({"daemon-reload"}));
    }
    S3O_TRY(systemctl({"enable", "--now", places.unit_name}));
    out << "The server is running, as the service " << places.unit_name << ".\n";
    return {};
  }
  if (options.start) {
    S3O_TRY(start_alone(program, places));
    out << "The server is running; its log is " << (places.store / "server.log").string()
        << ". There is no systemd here: after a restart of the machine, start it with\n  "
        << command_of(program, places) << "\n";
    return {};
  }
  out << "Start the server, and keep it running:\n  " << command_of(program, places) << "\n";
  return {};
}

}  // namespace

Status join(const JoinOptions& options, std::ostream& out) {
  std::string text = options.invitation;
  if (text == "-") std::getline(std::cin, text);
  S3O_ASSIGN(const auto invitation, parse_invitation(text));
  S3O_TRY(check_name(options.name));
  S3O_ASSIGN(const auto places, places_of(options));
  S3O_TRY(make_folders(places.store));
  S3O_TRY(check_client(places.store, invitation.client));
  S3O_ASSIGN(const auto key, own_key(places.store));
  S3O_ASSIGN(const bool joined, has_joined(places.store));
  if (!joined) {
    S3O_TRY(add_client(places.store, invitation.client));
    S3O_TRY(write_invitation(places.store, invitation));
  }
  const std::string port = invitation.host_port.substr(invitation.host_port.rfind(':') + 1);
  const std::string listen = options.listen.empty() ? "*:" + port : options.listen;
  S3O_TRY(make_file(places.config,
                    fmt::format("store = \"{}\"\nindex = {}\nlisten = \"{}\"\n",
                                places.store.string(), unsigned{invitation.server}, listen)));
  out << fmt::format(
      "This is server {} of {}, at {}.\nStore: {}\nConfiguration: {}\n"
      "Compare by telephone with the vault's owner, before anything is put into the vault:\n  {}\n",
      unsigned{invitation.server}, unsigned{invitation.servers}, invitation.host_port,
      places.store.string(), places.config.string(), fingerprint(invitation.client, key));
  if (joined) out << "It has joined already.\n";
  return start(options, places, out);
}

}  // namespace s3oram
