// s3oramfs init: makes the vault, then the volume on its servers.
//
// Remote servers must know the new client's key before they make a volume for it, and the key
// exists only once the vault does. So a vault may be unfinished ("ready": false) for a while: init
// shows the key and tries until all servers admit it; run again, it goes on with the same vault.
#include <bit>
#include <iostream>
#include <set>

#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/server_option.h"
#include "cli/volume_options.h"
#include "oramcore/base/disk_room.h"
#include "oramcore/base/help.h"
#include "oramcore/base/human.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/schemes/s3oram/protocol/sizing.h"
#include "oramcore/schemes/s3oram/protocol/store_size.h"
#include "oramcore/vault/vault_draft.h"
#include "oramcore/vault/vault_place.h"

namespace s3oram {
namespace {

/// Its table of buckets takes a gigabyte of memory here and at every server.
constexpr unsigned kMostFirstHeight = 24;

namespace fs = std::filesystem;

struct InitOptions {
  fs::path vault;
  bool local = false;
  std::vector<std::string> servers;
  std::uint64_t expect = std::uint64_t{8} << 30;
  std::string privacy = "computational", evictor, security;  // empty, 0: to be chosen
  std::uint64_t block_size = 0;
  unsigned evict_every = 0, bucket_size = 0;
  bool allow_overflow = false;
  unsigned first_height = 1;
  unsigned threshold = 1;
  Patience patience;
  CredentialOptions credential;
};

Result<bool> parse_options(const Args& args, InitOptions& options) {
  CLI::App app("Makes a vault: a directory with the keys and the state of one private directory.",
               "s3oramfs init");
  app.add_option("VAULT", options.vault, "The directory to make; may exist if it is empty")
      ->required();
  auto* local =
      app.add_flag("--local", options.local, "In the vault, by three servers on this machine")
          ->group("Where the blocks lie (one of the two)");
  app.add_option("--server", options.servers, "By these; once for each, three times or more")
      ->type_name("HOST:PORT,KEY")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)
      ->group(local->get_group())
      ->excludes(local);
  options.credential.add_new_to(app, "");
  app.add_option("--expect", options.expect, "How much data; what is not given is chosen for it")
      ->transform(size_from(1))
      ->default_str(short_size(options.expect))
      ->type_name("SIZE");
  app.add_option("--block-size", options.block_size, "A power of two, 4K to 1M; default: chosen")
      ->transform(size_from(4096, 1 << 20))
      ->type_name("SIZE");
  app.add_option("--privacy", options.privacy, "computational (default) or information-theoretic")
      ->type_name("KIND");
  app.add_option("--evictor", options.evictor, "shuffle or matrix; default: shuffle if possible")
      ->type_name("KIND");
  app.add_option("--security", options.security,
                 "malicious or honest-but-curious; default: malicious if possible")
      ->type_name("KIND");
  app.add_option("--privacy-threshold", options.threshold, "Any T servers together learn nothing")
      ->capture_default_str()
      ->type_name("T")
      ->check(CLI::Range(1, 63));
  app.add_option("--evict-every", options.evict_every,
                 "Accesses between two evictions; default: chosen")
      ->type_name("A")
      ->check(CLI::Range(1U, kMostEvictEvery));
  app.add_option("--bucket-size", options.bucket_size, "Slots of a bucket; default: chosen")
      ->type_name("Z")
      ->check(CLI::Range(1U, kMostBucketSize));
  app.add_flag("--allow-overflow", options.allow_overflow,
               "Accept a smaller Z, whose overflows servers can see");
  app.add_option("--first-height", options.first_height,
                 "Levels of the new tree; it grows by itself")
      ->capture_default_str()
      ->type_name("H")
      ->check(CLI::Range(1U, kMostFirstHeight));
  options.patience.add_to(app);
  auto parsed = parse(app, args);
  if (parsed && *parsed && !options.local && options.servers.empty())
    return fail(Errc::usage,
                "give --local, or --server for each server (see: s3oramfs init --help)");
  return parsed;
}

Result<Choice> choose(const InitOptions& options) {
  Wishes wishes;
  wishes.local = options.local;
  wishes.allow_overflow = options.allow_overflow;
  const std::size_t servers = options.local ? 2 * options.threshold + 1 : options.servers.size();
  if (servers < 2 * options.threshold + 1 || servers > 127)
    return fail(Errc::usage, "{} server{}: --privacy-threshold {} needs {} to 127 of them", servers,
                servers == 1 ? "" : "s", options.threshold, 2 * options.threshold + 1);
  wishes.scheme = {static_cast<std::uint8_t>(options.threshold),
                   static_cast<std::uint8_t>(servers)};
  wishes.expect = options.expect;
  S3O_TRY(take_name(kPrivacies, "--privacy", options.privacy, wishes.privacy));
  if (!options.evictor.empty())
    S3O_TRY(take_name(kEvictors, "--evictor", options.evictor, wishes.evictor));
  if (options.block_size != 0 && !std::has_single_bit(options.block_size))
    return fail(Errc::usage, "--block-size {}: not a power of two", options.block_size);
  if (options.block_size != 0) wishes.block_size = static_cast<std::uint32_t>(options.block_size);
  if (options.bucket_size) wishes.bucket_size = static_cast<std::uint16_t>(options.bucket_size);
  if (options.evict_every) wishes.evict_every = static_cast<std::uint16_t>(options.evict_every);
  S3O_ASSIGN(auto choice, choose_params(wishes));
  choice.params.first_height = static_cast<std::uint8_t>(options.first_height);
  if (choice.params.evictor == Evictor::shuffle) choice.params.security = Security::malicious;
  if (!options.security.empty())
    S3O_TRY(take_name(kSecurities, "--security", options.security, choice.params.security));
  S3O_TRY(check_params(choice.params));
  return choice;
}

Result<VaultConfig> config_of(const InitOptions& options, const VolumeParams& params,
                              Random& random) {
  VaultConfig config;
  random.fill(config.volume);
  config.params = params;
  config.local = options.local;
  config.servers.resize(config.params.scheme.servers);
  if (options.local) return config;
  S3O_ASSIGN(auto servers, parse_servers(options.servers));
  config.servers = std::move(servers);
  return config;
}

bool same_request(const VaultConfig& a, const VaultConfig& b) {
  return a.params == b.params && a.local == b.local && a.servers == b.servers;
}

/// Of this machine; servers elsewhere look for themselves.
Status check_room(const InitOptions& options, const VolumeParams& params) {
  const std::uint64_t servers = options.local ? params.scheme.servers : 0;
  return check_disk_room(options.vault,
                         kNewVaultBytes + servers * store_bytes(params, params.first_height),
                         kNewVaultFiles + servers * kStoreFiles);
}

// A vault being made, or an unfinished one found; removed again unless kept.
class Unfinished {
 public:
  static Result<Unfinished> start(InitOptions& options, const VolumeParams& params) {
    SystemRandom random;
    S3O_ASSIGN(auto config, config_of(options, params, random));
    auto found = Vault::find(options.vault);
    if (found || found.error().code != Errc::not_a_vault) return resume(options, config, found);

    std::error_code error;
    const bool existed = fs::exists(options.vault, error);
    S3O_TRY(
        VaultDraft::check(options.vault));  // these two: before anyone is asked for a passphrase
    S3O_TRY(check_room(options, params));
    S3O_ASSIGN(auto credential, NewCredential::make(options.credential));
    auto vault = Vault::create(options.vault, config, credential.get(), random);
    if (!vault) {
      S3O_TRY(credential.undo());
      return fail(std::move(vault).error());
    }
    Unfinished made{std::move(*vault), std::move(credential)};
    made.made_directory_ = !existed;
    made.remove_ = true;
    return made;
  }

  Unfinished(Unfinished&& other) noexcept
      : vault(std::move(other.vault)),
        credential(std::move(other.credential)),
        made_directory_(other.made_directory_),
        remove_(std::exchange(other.remove_, false)) {}
  Unfinished& operator=(Unfinished&&) = delete;

  void keep() { remove_ = false; }
  bool kept() const { return !remove_; }
  ~Unfinished() {
    if (!remove_) return;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(vault.directory(), error))
      fs::remove_all(entry, error);
    if (made_directory_) fs::remove(vault.directory(), error);
    const Status undone = credential.undo();
    if (error || !undone)
      std::cerr << "s3oramfs: what is left of " << vault.directory().string()
                << " could not be removed\n";
  }

  Vault vault;
  NewCredential credential;

 private:
  Unfinished(Vault v, NewCredential c) : vault(std::move(v)), credential(std::move(c)) {}

  static Result<Unfinished> resume(const InitOptions& options, const VaultConfig& config,
                                   Result<Vault>& found) {
    if (!found) return fail(found.error().code, "{}; it is not overwritten", found.error().message);
    if (found->config().ready)
      return fail(Errc::exists, "{}: holds a vault already, and is not overwritten",
                  options.vault.string());
    if (!same_request(found->config(), config))
      return fail(Errc::exists,
                  "{}: holds an unfinished vault with other servers or sizes: run init as before, "
                  "or remove it",
                  options.vault.string());
    S3O_ASSIGN(auto credential, existing_credential(options.credential, *found));
    return Unfinished{std::move(*found), NewCredential(std::move(credential))};
  }

  bool made_directory_ = false;
  bool remove_ = false;
};

// Tries until the servers admit the key, or as long as the options say.
Status create_volume(const InitOptions& options, Unfinished& making, const VaultKeys& keys) {
  Progress progress("making the volume");
  S3O_ASSIGN(const auto how, volume_options(making.vault, options.patience.timeout, progress));
  bool shown = false;
  Status made = until_admitted(options.patience, [&] {
    Status outcome = Volume::create(making.vault, keys, how);
    if (outcome || outcome.error().code != Errc::refused_key) return outcome;
    if (!std::exchange(shown, true)) show_client_key("This client's key is", keys.curve.public_key);
    making.keep();  // someone will admit this very key
    return outcome;
  });
  if (made || made.error().code != Errc::refused_key) return made;
  return fail(Errc::refused_key,
              "{}; {} is kept: once all servers admit its key, run the same init again",
              made.error().message, making.vault.directory().string());
}

/// What a local vault's disk has room for, beside the empty stores that are there.
std::string room_on(std::uint64_t available, const VolumeParams& params) {
  const unsigned stores = params.scheme.servers;
  const std::uint64_t taken = stores * store_bytes(params, params.first_height);
  const double full = stored_per_byte(params);
  return fmt::format(
      "The disk has room for about {} of data. All stores together take {:.0f} to {:.0f} times as "
      "much: they double whenever they are full.\n",
      human_size(data_that_fits(params, stores, available + taken)), full, 2 * full);
}

}  // namespace

Status run_init(const Args& args) {
  InitOptions options;
  S3O_ASSIGN(auto parsed, parse_options(args, options));
  if (!parsed) return {};

  S3O_ASSIGN(const auto choice, choose(options));
  S3O_TRY(VaultPlace::check_new(options.vault));
  S3O_ASSIGN(auto making, Unfinished::start(options, choice.params));
  if (Status locked = making.vault.lock(); !locked) {
    making.keep();  // whoever has it goes on with it
    return locked;
  }
  S3O_ASSIGN(auto keys, making.vault.unlock(making.credential.get()));
  S3O_TRY(create_volume(options, making, keys));
  making.keep();

  const fs::path& directory = making.vault.directory();
  const std::string vault = directory.string();
  if (options.credential.no_passphrase)
    std::cout << "Without a passphrase, whoever can read " << vault << " can read all files.\n";
  std::cout << choice.why;
  if (choice.params.security == Security::honest_but_curious)
    std::cout << "Its servers are taken for honest-but-curious: one that lies in an eviction can "
                 "spoil blocks unnoticed.\n";
  if (options.local) {
    std::error_code unknown;
    if (const auto disk = fs::space(directory, unknown); !unknown)
      std::cout << room_on(disk.available, choice.params);
  }
  std::cout << "Made " << vault << ". Keep it: without it nothing can be read. To mount it:\n"
            << "  s3oramfs mount " << shell_word(options.vault) << " DIRECTORY\n";
  return {};
}

}  // namespace s3oram
