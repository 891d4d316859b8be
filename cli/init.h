// Making a vault: what init, invite and deploy have in common.
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
  std::vector<std::string> invited;  // HOST:PORT, instead of them
  Deliver deliver;                   // hands the invitations out
  std::string scheme;                // empty: by the number of servers
  unsigned local_servers = 0;        // 0: as many as the scheme needs
  std::uint64_t expect = std::uint64_t{8} << 30;
  std::string line;    // UP/DOWN, as parse_line() takes it; empty: not known
  double between = 0;  // Mbit/s; 0: not known
  std::string privacy = "computational", evictor, security;  // empty, 0: to be chosen
  std::uint64_t block_size = 0;
  unsigned evict_every = 0, bucket_size = 0;
  bool allow_overflow = false;
  unsigned first_height = 1;
  unsigned threshold = 1;
  std::optional<std::uint64_t> top_cache;  // of ring; else chosen
  Patience patience;
  CredentialOptions credential;

  bool invites() const { return !invited.empty(); }
  /// Whether lines are measured, of servers that there are.
  bool measures() const { return !local && (line.empty() || between == 0); }
};

/// What opens the vault, and the numbers of its volume.
void add_volume_options(CLI::App& app, InitOptions& options);

// What init and migrate have in common.

/// Where the volume lies: --local, --server, --servers.
void add_place_options(CLI::App& app, InitOptions& options);
/// The numbers of the volume, all but the size of its blocks.
void add_number_options(CLI::App& app, InitOptions& options);
/// Chooses the numbers of the volume, for lines that the options give or that were measured.
/// Errors: usage.
Result<Choice> choose_numbers(const InitOptions& options, const Lines& measured = {});
/// Chooses them as they are in `params`, where lines may have decided. Errors: usage.
Result<Choice> choose_as_in(const InitOptions& options, const VolumeParams& params);
/// Describes a new volume with a random name. Errors: usage (malformed or equal servers).
Result<VaultConfig> describe_volume(const InitOptions& options, const VolumeParams& params,
                                    Random& random);
/// Checks the room of this machine; servers elsewhere look for themselves.
Status check_room(const InitOptions& options, const VolumeParams& params);
/// Makes the volume of `vault` at its servers, once the lines to them have been measured and have
/// changed the `choice`. Tries until they admit the client's key, or as long as the options say.
/// Calls `shown` when it has shown the key. `again` is the command that goes on with it.
Status make_at_servers(const InitOptions& options, Vault& vault, const VaultKeys& keys,
                       Choice& choice, const std::function<void()>& shown, std::string_view again);
/// What is to be said of what was chosen.
std::string notes_on(const Choice& choice);

/// Makes the vault and its volume, or goes on with one that is unfinished, and says what to do with
/// it. Errors: as a command's.
Status make_vault(InitOptions& options);

}  // namespace s3oram
