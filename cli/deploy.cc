// s3oramfs deploy: makes a vault and its servers, on machines that it reaches over ssh. It hands
// each server an invitation, as a person would paste it. So it can be run again at any time, and
// continues.
#include <arpa/inet.h>

#include <algorithm>
#include <iostream>

#include "cli/command.h"
#include "cli/init.h"
#include "cli/remote_host.h"
#include "oramcore/base/help.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

constexpr int kDeployWait = 60;  // s, for newly started servers to answer

bool is_address(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  return ::inet_pton(AF_INET, host.c_str(), &four) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &six) == 1;
}

/// Finds a program that was copied to the machine.
constexpr const char* kFindProgram = "PATH=$HOME/.local/bin:/usr/local/bin:$PATH\n";
/// The packages of Debian 12 that the program needs if only the program is copied.
constexpr const char* kLibraries =
    "libfmt9 libntl44 libsodium23 libspdlog1.10 libsqlite3-0 libssl3 libsystemd0 libzmq5";

struct DeployOptions {
  InitOptions init;
  std::vector<std::string> targets;
  std::string ssh = "ssh", package, name = "vault";
  unsigned port = 5760;
  bool dry_run = false, bind = false;
};

/// Runs the command with sudo, unless the user on that machine is root.
std::string as_root(const std::string& command) {
  return "if [ \"$(id -u)\" = 0 ]; then " + command + "; else sudo -n " + command + "; fi\n";
}

/// Returns whether the machine lacks nothing. Root's servers are units of the package's, without
/// which a program that was copied is of no use. Errors: usage (such a unit is missing, and there
/// is no package to install).
Result<bool> has_program(const RemoteHost& host, const DeployOptions& options) {
  S3O_ASSIGN(
      const auto said,
      host.run("looking for s3oramfs-serverd at",
               std::string(kFindProgram) +
                   "if [ \"$(id -u)\" = 0 ] && [ -d /run/systemd/system ] &&\n"
                   "  ! systemctl cat s3oramfs-server@.service > /dev/null 2>&1\n"
                   "then echo no unit\n"
                   "elif s3oramfs-serverd --version > /dev/null 2>&1; then echo there; fi\n"));
  if (said == "no unit\n" && options.package.empty())
    return fail(Errc::usage,
                "{}: the service s3oramfs-server@ is not installed there; give the package that "
                "has it (--package FILE), or deploy as a user who is not root",
                host.target());
  return said == "there\n";
}

Status install_package(const RemoteHost& host, const std::string& package) {
  S3O_TRY(
      host.send("sending the package to", "umask 077; cat > /tmp/s3oramfs-server.deb", package));
  S3O_TRY(host.run("installing the package at",
                   "set -e\nchmod 644 /tmp/s3oramfs-server.deb\n" +
                       as_root("env DEBIAN_FRONTEND=noninteractive apt-get install -y "
                               "/tmp/s3oramfs-server.deb >&2") +
                       "rm /tmp/s3oramfs-server.deb\n"));
  return {};
}

/// Copies the program under another name and then renames it, because a running program cannot be
/// overwritten.
Status copy_program(const RemoteHost& host) {
  S3O_ASSIGN(const auto program, program_beside("s3oramfs-serverd"));
  S3O_TRY(host.send("sending s3oramfs-serverd to",
                    "d=$HOME/.local/bin; [ \"$(id -u)\" != 0 ] || d=/usr/local/bin; mkdir -p $d && "
                    "cat > $d/s3oramfs-serverd.new && chmod 755 $d/s3oramfs-serverd.new && "
                    "mv $d/s3oramfs-serverd.new $d/s3oramfs-serverd",
                    program.string()));
  S3O_TRY(host.run("installing what s3oramfs-serverd needs at",
                   std::string(kFindProgram) +
                       "s3oramfs-serverd --version > /dev/null 2>&1 || {\n" +
                       as_root("apt-get update >&2") +
                       as_root(std::string("env DEBIAN_FRONTEND=noninteractive apt-get install -y "
                                           "--no-install-recommends ") +
                               kLibraries + " >&2") +
                       "s3oramfs-serverd --version >&2\n}\n"));
  return {};
}

/// Looks at every machine before it changes one.
Status install(const std::vector<RemoteHost>& hosts, const DeployOptions& options) {
  std::vector<const RemoteHost*> lacking;
  for (const RemoteHost& host : hosts) {
    S3O_ASSIGN(const bool there, has_program(host, options));
    if (!there) lacking.push_back(&host);
  }
  for (const RemoteHost* host : lacking)
    S3O_TRY(options.package.empty() ? copy_program(*host)
                                    : install_package(*host, options.package));
  return {};
}

/// Passes the invitation in the script, because any user of the machine can see a command line.
Status join(const RemoteHost& host, const Invitation& invitation, const DeployOptions& options) {
  const std::string listen =
      options.bind ? " --listen " + shell_word(invitation.host_port) : std::string();
  S3O_ASSIGN(
      const auto said,
      host.run("making the server at",
               std::string(kFindProgram) + "s3oramfs-serverd join --start --name " +
                   shell_word(options.name) + listen + " - <<'INVITATION'\n" +
                   (options.dry_run ? "s3oramfs1-..." : to_text(invitation)) + "\nINVITATION\n"));
  if (!said.empty()) std::cout << host.target() << ":\n" << printable_lines(said) << std::flush;
  return {};
}

Result<std::vector<RemoteHost>> hosts_of(const DeployOptions& options) {
  std::vector<RemoteHost> hosts;
  for (const std::string& target : options.targets) {
    S3O_ASSIGN(auto host, RemoteHost::parse(target, options.ssh, options.dry_run));
    if (options.bind && !is_address(host.host()))
      return fail(
          Errc::usage,
          "{}: {} is a name, and --bind needs the address that the server listens on, as in "
          "USER@192.0.2.1",
          target, host.host());
    for (const RemoteHost& other : hosts)
      if (other.host() == host.host())
        return fail(
            Errc::usage,
            "{} is the same machine as {}, and one machine with two shares would learn everything",
            target, other.target());
    hosts.push_back(std::move(host));
  }
  return hosts;
}

/// Shows what would be done on other machines.
Status show(const std::vector<RemoteHost>& hosts, const DeployOptions& options) {
  S3O_TRY(install(hosts, options));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const Invitation shown{static_cast<Party>(i + 1),
                           static_cast<Party>(hosts.size()),
                           options.init.invited[i],
                           {},
                           {}};
    S3O_TRY(join(hosts[i], shown, options));
  }
  std::cout << "# here: " << options.init.vault.string()
            << " is created, and the servers are told about each other\n";
  return {};
}

Result<bool> parse_options(const Args& args, DeployOptions& options) {
  CLI::App app(
      "Installs and starts a server on each machine over ssh, and creates a vault\n"
      "here. If it is interrupted, run it again: it continues.",
      "s3oramfs deploy");
  app.add_option("VAULT", options.init.vault, "The directory to create, or an empty one")
      ->required();
  app.add_option("TARGET", options.targets, "USER@HOST of each server")
      ->required()
      ->expected(1, 127);
  app.add_option("--port", options.port, "The port that every server listens on")
      ->capture_default_str()
      ->type_name("PORT")
      ->check(CLI::Range(1U, 65535U));
  app.add_flag("--bind", options.bind, "Listen on the address HOST only");
  app.add_option("--name", options.name, "Name of the servers on their machines")
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--package", options.package, "Install this .deb instead of copying the program")
      ->check(CLI::ExistingFile.description(""))
      ->type_name("FILE");
  app.add_option("--ssh", options.ssh, "The ssh command, like \"ssh -p 2222\"")
      ->capture_default_str()
      ->type_name("COMMAND");
  app.add_flag("--dry-run", options.dry_run, "Print each command without running it");
  options.init.credential.add_new_to(app, "");
  app.add_option("--expect", options.init.expect, "How much data you expect")
      ->transform(size_from(1))
      ->default_str(short_size(options.init.expect))
      ->type_name("SIZE");
  return parse(app, args);
}

}  // namespace

Status run_deploy(const Args& args) {
  DeployOptions options;
  S3O_ASSIGN(const auto parsed, parse_options(args, options));
  if (!parsed) return {};
  S3O_ASSIGN(const auto hosts, hosts_of(options));
  for (const RemoteHost& host : hosts)
    options.init.invited.push_back(fmt::format("{}:{}", host.host(), options.port));
  if (options.dry_run) return show(hosts, options);
  S3O_TRY(install(hosts, options));
  options.init.patience.wait = kDeployWait;
  options.init.delivers_again = true;
  options.init.deliver = [&](const std::vector<Invitation>& missing,
                             const std::vector<Invitation>& joined) -> Status {
    for (const auto* invitations : {&joined, &missing})
      for (const Invitation& invitation : *invitations)
        S3O_TRY(join(hosts[invitation.server - 1u], invitation, options));
    return {};
  };
  return make_vault(options.init);
}

}  // namespace s3oram
