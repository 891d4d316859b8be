// Makes vaults: the common part of init, invite and deploy.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/credential_options.h"
#include "cli/gather.h"
#include "cli/server_option.h"
#include "oramcore/protocol/sizing.h"

namespace s3oram {

/// It is wide because it has a field for each option of init.
struct InitOptions {
  std::filesystem::path vault;
  bool local = false;
  std::vector<std::string> servers;  // HOST:PORT,KEY
  std::vector<std::string> invited;  // HOST:PORT, instead of `servers`
  Deliver deliver;                   // hands the invitations out
  bool delivers_again = false;       // even if the vault is made already
  std::string scheme;                // if empty, chosen by the number of servers
  unsigned local_servers = 0;        // if 0, as many as the scheme needs
  std::uint64_t expect = std::uint64_t{8} << 30;
  std::string line;    // UP/DOWN, as parse_line() takes it; empty if not known
  double between = 0;  // Mbit/s; 0 if not known
  std::string privacy = "computational", evictor, security;  // if empty or 0, chosen automatically
  std::uint64_t block_size = 0;
  unsigned evict_every = 0, bucket_size = 0;
  bool allow_overflow = false;
  unsigned first_height = 1;
  unsigned threshold = 1;
  std::optional<std::uint64_t> top_cache;  // bytes; only for ring; chosen if not given
  Patience patience;
  CredentialOptions credential;

  bool invites() const { return !invited.empty(); }
  /// Returns whether lines are measured: those that are not given, unless the servers are local.
  bool measures() const { return !local && (line.empty() || between == 0); }
};

/// Adds the options for the vault's credential, and for the numbers of its volume.
void add_volume_options(CLI::App& app, InitOptions& options);

// The common part of init and migrate.

/// Adds the options for where the volume lies: --local, --server, --servers.
void add_place_options(CLI::App& app, InitOptions& options);
/// Adds the options for the numbers of the volume, except for its block size.
void add_number_options(CLI::App& app, InitOptions& options);
/// Chooses the numbers of the volume, for the lines that the options give, and for the `measured`
/// lines if they do not give them. Errors: usage.
Result<Choice> choose_numbers(const InitOptions& options, const Lines& measured = {});
/// Chooses the numbers of the volume, but takes those that depend on the lines from `params` if the
/// options do not give them. Errors: usage.
Result<Choice> choose_as_in(const InitOptions& options, const VolumeParams& params);
/// Describes a new volume with a random name. Errors: usage (malformed or equal servers).
Result<VaultConfig> describe_volume(const InitOptions& options, const VolumeParams& params,
                                    Random& random);
/// Checks the room on this machine. Servers elsewhere check theirs themselves.
Status check_room(const InitOptions& options, const VolumeParams& params);
/// Makes the volume of `vault` at its servers. Measures the lines to them first, which may change
/// `choice`. Tries until the servers admit the client's key, or for as long as the options say.
/// Calls `shown` when it has shown the key. `again` is the command that continues.
Status make_at_servers(const InitOptions& options, Vault& vault, const VaultKeys& keys,
                       Choice& choice, const std::function<void()>& shown, std::string_view again);
/// Returns notes for the user on what was chosen.
std::string notes_on(const Choice& choice);

/// Makes the vault and its volume, or continues with an unfinished one, and says how to use it.
/// Errors: those of the command.
Status make_vault(InitOptions& options);

}  // namespace s3oram
