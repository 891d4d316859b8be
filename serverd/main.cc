// s3oramfs-serverd: one of the share servers, and the commands that set it up.
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>

#include "oramcore/base/curve_keys.h"
#include "oramcore/base/directory.h"
#include "oramcore/base/exit_code.h"
#include "oramcore/base/help.h"
#include "oramcore/base/identity.h"
#include "oramcore/base/limits.h"
#include "oramcore/base/memory.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/output.h"
#include "oramcore/base/process.h"
#include "oramcore/service/log.h"
#include "serverd/commands.h"
#include "serverd/config.h"
#include "serverd/join.h"
#include "serverd/run_server.h"
#include "serverd/store_status.h"

namespace {

using s3oram::Errc;
using s3oram::Status;

/// Reports an error. Returns the exit code.
int report(const Status& status) {
  if (status) return 0;
  if (s3oram::stderr_is_journal())
    spdlog::error("{}", status.error().message);
  else
    std::cerr << "s3oramfs-serverd: " << status.error().message << std::endl;
  return s3oram::exit_code(status.error());
}

/// If the user is root, becomes the owner of the store before a command reads or writes in it. If
/// the store does not exist yet, the command creates it.
Status become_owner_of(const std::filesystem::path& store) {
  std::error_code error;
  if (::geteuid() != 0 || !std::filesystem::is_directory(store, error)) return {};
  const auto opened = s3oram::open_directory(store);
  if (!opened) return s3oram::fail(opened.error());
  if (opened->status.st_uid == ::geteuid()) return {};
  const auto owner = s3oram::find_user(opened->status.st_uid, opened->status.st_gid);
  return owner ? s3oram::become(*owner) : s3oram::fail(owner.error());
}

/// Returns the arguments as CLI11 needs them. A key may begin with a dash, and must not be mistaken
/// for an option.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto keys =
      std::stable_partition(arguments.begin(), arguments.end(), [](const std::string& argument) {
        return !argument.starts_with('-') || !s3oram::parse_public_key(argument);
      });
  if (keys != arguments.end() && std::find(arguments.begin(), keys, "--") == keys)
    arguments.insert(keys, "--");
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

/// The arguments of the commands for a store's files, besides the store.
struct Given {
  std::string key;
  bool rotate = false, update = false;
  std::vector<std::string> servers;
};

Status carry_out(const std::string& command, const std::filesystem::path& store,
                 const Given& given) {
  if (store.empty())
    return s3oram::fail(Errc::usage, "no directory for the server's files: give --store DIR");
  if (command == "keygen") return s3oram::keygen(store, std::cout, given.rotate);
  if (command == "authorize") return s3oram::authorize(store, given.key, std::cout);
  if (command == "revoke") return s3oram::revoke(store, given.key, std::cout);
  if (command == "status") return s3oram::show_status(store, std::cout);
  return s3oram::peers(store, given.servers, std::cout, given.update);
}

CLI::App* add_join(CLI::App& app, s3oram::JoinOptions& invited) {
  auto* join = app.add_subcommand("join", "Set up the server of an invitation");
  join->add_option("STRING", invited.invitation,
                   "What s3oramfs invite printed; - reads standard input")
      ->required();
  join->add_option("--store", invited.store, "Directory for its files; default: by the name")
      ->type_name("DIR");
  join->add_option("--listen", invited.listen, "Where to listen; default: the invitation's port")
      ->type_name("HOST:PORT");
  join->add_option("--name", invited.name, "Name of this server on this machine")
      ->capture_default_str()
      ->type_name("NAME");
  join->add_flag("--start", invited.start, "Start it even if there is no systemd");
  join->formatter(std::make_shared<s3oram::HelpFormatter>());
  return join;
}

int run(int argc, char** argv) {
  s3oram::Options options;
  Given given;
  CLI::App app("Keeps one server's shares of an s3oramfs volume.", "s3oramfs-serverd");
  s3oram::add_options(app, options);
  app.set_version_flag("--version", "s3oramfs-serverd " S3O_VERSION, "Show the version");
  app.require_subcommand(0, 1);
  app.fallthrough();  // options may follow the command
  app.formatter(std::make_shared<s3oram::HelpFormatter>());
  auto* keygen = app.add_subcommand("keygen", "Create this server's key; print the public key");
  keygen->add_flag("--rotate", given.rotate, "Replace the key with a new one");
  auto* authorize = app.add_subcommand("authorize", "Let a client connect");
  authorize->add_option("KEY", given.key, "The client's public key")->required();
  auto* revoke = app.add_subcommand("revoke", "Stop letting a client connect");
  revoke->add_option("KEY", given.key, "The client's public key")->required();
  s3oram::JoinOptions invited;
  const auto* join = add_join(app, invited);
  auto* status_of =
      app.add_subcommand("status", "Show what is stored, for which client and since when");
  auto* peers = app.add_subcommand("peers", "Set or print the list of the volume's servers");
  peers->add_option("SERVER", given.servers, "N=HOST:PORT,KEY");
  peers->add_flag("--update", given.update, "Keep listed servers that are not given");
  for (auto* command : {keygen, authorize, revoke, peers, status_of}) {
    command->add_option("--store", options.store, "Directory with this server's shares and keys")
        ->type_name("DIR");
    command->formatter(std::make_shared<s3oram::HelpFormatter>("--store DIR"));
  }

  app.failure_message([](const CLI::App* program, const CLI::Error& error) {
    return "s3oramfs-serverd: " + CLI::FailureMessage::simple(program, error);
  });
  try {
    app.parse(arguments_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return static_cast<int>(Errc::usage);
    return report(s3oram::output_written());
  }
  s3oram::log_to_stderr("s3oramfs-serverd");
  spdlog::set_level(spdlog::level::from_str(options.log_level));

  Status status;
  if (join->parsed()) {
    if (!invited.store.empty()) status = become_owner_of(invited.store);
    if (status) status = s3oram::join(invited, std::cout);
    return report(status ? s3oram::output_written() : status);
  }
  if (!app.get_subcommands().empty()) status = become_owner_of(options.store);
  if (!status) return report(status);
  if (app.get_subcommands().empty())
    status = s3oram::serve(options);
  else
    status = carry_out(app.get_subcommands().front()->get_name(), options.store, given);
  return report(status ? s3oram::output_written() : status);
}

}  // namespace

int main(int argc, char** argv) {
  s3oram::open_standard_streams();
  s3oram::settle_limits();
  s3oram::forbid_core_dumps();  // a core would hold the server's key
  s3oram::keep_freed_memory(s3oram::usable_memory());
  s3oram::share_freed_memory();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "s3oramfs-serverd: " << s3oram::reason_of(error) << std::endl;
    return static_cast<int>(Errc::failed);
  }
}
