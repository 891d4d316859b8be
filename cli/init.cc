// s3oramfs init: makes the vault, then the volume on its servers.
//
// Remote servers must know the new client's key before they make a volume for it, and the key
// exists only once the vault does. So a vault may be unfinished ("ready": false) for a while: init
// shows the key, and tries until all servers admit it. If it is run again, it continues with the
// same vault.
#include "cli/init.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <iostream>
#include <set>

#include "cli/choose_by_lines.h"
#include "cli/command.h"
#include "cli/credential_options.h"
#include "cli/gather.h"
#include "cli/server_option.h"
#include "cli/volume_options.h"
#include "oramcore/base/disk_room.h"
#include "oramcore/base/help.h"
#include "oramcore/base/human.h"
#include "oramcore/oram/geometry.h"
#include "oramcore/protocol/sizing.h"
#include "oramcore/protocol/store_size.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/vault_draft.h"
#include "oramcore/vault/vault_place.h"

namespace s3oram {
namespace {

/// A tree of this height has a table of buckets that takes a gigabyte of memory, here and at every
/// server.
constexpr unsigned kMostFirstHeight = 24;

namespace fs = std::filesystem;

Result<bool> parse_options(const Args& args, InitOptions& options) {
  CLI::App app("Creates a vault (keys and state, kept here) and its volume on the servers.",
               "s3oramfs init");
  app.add_option("VAULT", options.vault, "The directory to create, or an empty one")->required();
  add_place_options(app, options);
  add_volume_options(app, options);
  options.patience.add_to(app);
  auto parsed = parse(app, args);
  if (parsed && *parsed && !options.local && options.servers.empty())
    return fail(Errc::usage,
                "give --local, or --server for each server (see: s3oramfs init --help)");
  return parsed;
}

/// The possible numbers of servers of a scheme, if any `threshold` of them may work together.
struct ServerRange {
  std::size_t least, most;
};
ServerRange servers_of(SchemeKind kind, unsigned threshold) {
  switch (kind) {
    case SchemeKind::ring:
      return {1, 1};
    case SchemeKind::mirror:
      return {threshold + std::size_t{1}, kMostMirrors};
    case SchemeKind::s3oram:
      break;
  }
  return {2 * std::size_t{threshold} + 1, 127};
}

/// Returns the requested scheme; if none is requested, the usual one for this number of servers (0:
/// not given).
Result<SchemeKind> scheme_of(const InitOptions& options, std::size_t servers) {
  SchemeKind kind = servers == 1   ? SchemeKind::ring
                    : servers == 2 ? SchemeKind::mirror
                                   : SchemeKind::s3oram;
  if (!options.scheme.empty()) S3O_TRY(take_name(kSchemes, "--scheme", options.scheme, kind));
  return kind;
}

/// Checks options that only some schemes have.
Status check_scheme_options(const InitOptions& options, SchemeKind kind) {
  const std::string_view scheme = name_of(kSchemes, kind);
  if (kind != SchemeKind::s3oram && !options.evictor.empty())
    return fail(Errc::usage, "--evictor {}: a {} has an evictor of its own", options.evictor,
                scheme);
  if (kind != SchemeKind::ring && options.top_cache)
    return fail(Errc::usage, "--top-cache: only a ring keeps a part of its tree here, not {}",
                scheme);
  if (kind == SchemeKind::ring && options.threshold != 1)
    return fail(Errc::usage, "--privacy-threshold {}: a ring has one server, which learns nothing",
                options.threshold);
  if (kind != SchemeKind::s3oram && !options.security.empty() && options.security != "malicious")
    return fail(Errc::usage, "--security {}: a {}'s client checks every answer in any case",
                options.security, scheme);
  return {};
}

/// Says how the options give this number of servers.
std::string how_many(const InitOptions& options, std::size_t servers) {
  if (options.local) return fmt::format("--servers {}", servers);
  const std::string_view what = options.invites() ? "address of a server" : "--server";
  return fmt::format("{} is given {} time{}", what, servers, servers == 1 ? "" : "s");
}

/// Adds the options that give numbers to an error about numbers, unless it names some itself.
Error naming_options(const InitOptions& options, Error error) {
  if (error.code != Errc::usage || error.message.find("--") != std::string::npos) return error;
  std::string given;
  const auto add = [&](const char* name, const auto& value) {
    if (value) given += fmt::format("{}{} {}", given.empty() ? "" : " ", name, value);
  };
  add("--block-size", options.block_size);
  add("--evict-every", options.evict_every);
  add("--bucket-size", options.bucket_size);
  add("--first-height", options.first_height == 1 ? 0 : options.first_height);
  if (options.top_cache) add("--top-cache", *options.top_cache);
  if (options.threshold != 1) add("--privacy-threshold", options.threshold);
  const auto add_name = [&](const char* name, const std::string& value, std::string_view usual) {
    if (value != usual) given += fmt::format("{}{} {}", given.empty() ? "" : " ", name, value);
  };
  add_name("--privacy", options.privacy, "computational");
  add_name("--evictor", options.evictor, "");
  add_name("--security", options.security, "");
  if (!given.empty()) error.message = given + ": " + error.message;
  return error;
}

Result<Wishes> wishes_of(const InitOptions& options) {
  Wishes wishes;
  wishes.local = options.local;
  wishes.allow_overflow = options.allow_overflow;
  const std::size_t given = options.local       ? options.local_servers
                            : options.invites() ? options.invited.size()
                                                : options.servers.size();
  S3O_ASSIGN(wishes.kind, scheme_of(options, given));
  S3O_TRY(check_scheme_options(options, wishes.kind));
  const auto [least, most] = servers_of(wishes.kind, options.threshold);
  const std::size_t servers = options.local && given == 0 ? least : given;
  if (servers < least || servers > most)
    return fail(Errc::usage, "{}: {}{} needs {} server{}", how_many(options, servers),
                name_of(kSchemes, wishes.kind),
                wishes.kind == SchemeKind::ring
                    ? ""
                    : fmt::format(" with --privacy-threshold {}", options.threshold),
                least == most ? std::to_string(least) : fmt::format("{} to {}", least, most),
                most == 1 ? "" : "s");
  const bool ring = wishes.kind == SchemeKind::ring;
  wishes.scheme = {static_cast<std::uint8_t>(ring ? 0 : options.threshold),
                   static_cast<std::uint8_t>(servers)};
  wishes.expect = options.expect;
  if (!options.line.empty()) {
    const auto line = parse_line(options.line);
    if (!line) return fail(Errc::usage, "--line: {}", line.error().message);
    wishes.lines = *line;
  }
  wishes.lines.between = options.between * kMegabit;
  S3O_TRY(take_name(kPrivacies, "--privacy", options.privacy, wishes.privacy));
  if (!options.evictor.empty())
    S3O_TRY(take_name(kS3oramEvictors, "--evictor", options.evictor, wishes.evictor));
  if (options.block_size != 0 && !std::has_single_bit(options.block_size))
    return fail(Errc::usage, "--block-size {}: not a power of two", options.block_size);
  if (options.block_size != 0) wishes.block_size = static_cast<std::uint32_t>(options.block_size);
  if (options.bucket_size) wishes.bucket_size = static_cast<std::uint16_t>(options.bucket_size);
  if (options.evict_every) wishes.evict_every = static_cast<std::uint16_t>(options.evict_every);
  wishes.top_cache = options.top_cache;
  wishes.free = disk_room(options.vault);
  return wishes;
}

Result<Choice> choose(const InitOptions& options, const Wishes& wishes) {
  auto chosen = choose_volume(wishes);
  if (!chosen) return fail(naming_options(options, std::move(chosen).error()));
  Choice choice = *std::move(chosen);
  choice.params.first_height =
      std::max(choice.params.first_height, static_cast<std::uint8_t>(options.first_height));
  // The client can rely on this, because these schemes check the servers in any case.
  if (choice.params.evictor == Evictor::shuffle || choice.params.is_ring())
    choice.params.security = Security::malicious;
  if (!options.security.empty() && choice.params.kind() == SchemeKind::s3oram)
    S3O_TRY(take_name(kSecurities, "--security", options.security, choice.params.security));
  if (auto checked = check_params(choice.params); !checked)
    return fail(naming_options(options, std::move(checked).error()));
  return choice;
}

}  // namespace

Result<Choice> choose_numbers(const InitOptions& options, const Lines& measured) {
  S3O_ASSIGN(auto wishes, wishes_of(options));
  Lines& lines = wishes.lines;
  if (options.line.empty()) {
    lines.up = measured.up;
    lines.down = measured.down;
    lines.round_trip = measured.round_trip;
  }
  if (options.between == 0) lines.between = measured.between;
  return choose(options, wishes);
}

Result<Choice> choose_as_in(const InitOptions& options, const VolumeParams& params) {
  S3O_ASSIGN(auto wishes, wishes_of(options));
  if (!wishes.block_size) wishes.block_size = params.block_size;
  if (!wishes.bucket_size) wishes.bucket_size = params.bucket_size;
  if (!wishes.evict_every) wishes.evict_every = params.evict_every;
  return choose(options, wishes);
}

Result<VaultConfig> describe_volume(const InitOptions& options, const VolumeParams& params,
                                    Random& random) {
  VaultConfig config;
  random.fill(config.volume);
  config.params = params;
  config.local = options.local;
  config.servers.resize(config.params.scheme.servers);
  if (options.local) return config;
  if (options.invites()) {
    for (std::size_t i = 0; i < options.invited.size(); ++i)
      config.servers[i] = {options.invited[i],
                           unknown_key(config.volume, static_cast<Party>(i + 1))};
    return config;
  }
  S3O_ASSIGN(auto servers, parse_servers(options.servers));
  config.servers = std::move(servers);
  return config;
}

namespace {

/// Returns whether `found`, the numbers of an unfinished vault, suit the options. They may differ
/// from `now` if measured lines chose them.
bool same_numbers(const InitOptions& options, const VolumeParams& found, const VolumeParams& now) {
  if (found == now || !options.measures()) return found == now;
  const auto choice = choose_as_in(options, found);
  return choice && choice->params == found;
}

/// Invited servers tell their keys only later, so their keys are not compared.
bool same_servers(const InitOptions& options, const VaultConfig& found, const VaultConfig& now) {
  const auto same_server = [&](const ServerAddress& one, const ServerAddress& other) {
    return options.invites() ? one.host_port == other.host_port : one == other;
  };
  return found.local == now.local && std::ranges::equal(found.servers, now.servers, same_server);
}

/// Returns whether both describe the same vault.
bool same_request(const InitOptions& options, const VaultConfig& found, const VaultConfig& now) {
  return same_numbers(options, found.params, now.params) && same_servers(options, found, now);
}

}  // namespace

Status check_room(const InitOptions& options, const VolumeParams& params) {
  const std::uint64_t servers = options.local ? params.scheme.servers : 0;
  return check_disk_room(options.vault,
                         kNewVaultBytes + volume_kind(params).bytes_beside(params) +
                             servers * store_bytes(params, params.first_height),
                         kNewVaultFiles + servers * kStoreFiles);
}

namespace {

// A vault being made, or an unfinished one that was found. It is removed again unless keep() is
// called.
class Unfinished {
 public:
  static Result<Unfinished> start(InitOptions& options, const VolumeParams& params) {
    SystemRandom random;
    S3O_ASSIGN(auto config, describe_volume(options, params, random));
    auto found = Vault::find(options.vault);
    if (found || found.error().code != Errc::not_a_vault) return resume(options, config, found);

    std::error_code error;
    const bool existed = fs::exists(options.vault, error);
    S3O_TRY(VaultDraft::check(options.vault));  // these two before the user is asked
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
    if (found->config().ready &&
        !(options.delivers_again && same_servers(options, found->config(), config)))
      return fail(Errc::exists, "{} already holds a vault, and is not overwritten",
                  options.vault.string());
    if (!found->config().ready && !same_request(options, found->config(), config))
      return fail(Errc::exists,
                  "{} holds an unfinished vault with other servers or sizes; run init as before, "
                  "or remove it",
                  options.vault.string());
    S3O_ASSIGN(auto opened, unlock_vault(options.credential, *found));
    return Unfinished{std::move(*found), NewCredential(opened.credential)};
  }

  bool made_directory_ = false;
  bool remove_ = false;
};

Status create_volume(const InitOptions& options, Unfinished& making, const VaultKeys& keys,
                     Choice& choice) {
  if (options.invites()) {
    making.keep();  // the invitations are about to be used
    S3O_TRY(gather_servers(making.vault, keys, options.patience, options.deliver));
  }
  // Once the key is shown, servers will admit exactly this key.
  return make_at_servers(
      options, making.vault, keys, choice, [&] { making.keep(); }, "init");
}

/// Returns a text about what a local vault's disk has room for, besides the empty stores that exist
/// already.
std::string room_on(std::uint64_t available, const VolumeParams& params, std::uint64_t expect) {
  const unsigned stores = params.scheme.servers;
  const std::uint64_t taken = stores * store_bytes(params, params.first_height);
  const std::uint64_t fitting = data_that_fits(params, stores, available + taken);
  const double full = stored_per_byte(params);
  return fmt::format(
             "The disk has room for about {} of data. All stores together take {:.0f} to {:.0f} "
             "times as "
             "much: they double whenever they are full.\n",
             human_size(fitting), full, 2 * full) +
         (fitting < expect ? fmt::format("Warning: that is less than the {} that these numbers are "
                                         "for (--expect): make room, or expect less.\n",
                                         human_size(expect))
                           : "");
}

}  // namespace

Status make_at_servers(const InitOptions& options, Vault& vault, const VaultKeys& keys,
                       Choice& choice, const std::function<void()>& shown, std::string_view again) {
  Progress progress("making the volume");
  S3O_ASSIGN(const auto how, volume_options(vault, options.patience.timeout, progress));
  bool told = false, chosen = false;
  Status made = until_admitted(options.patience, [&] {
    Status outcome;
    if (!chosen) outcome = choose_by_lines(options, vault, keys, how, choice);
    chosen = chosen || outcome;
    if (outcome) outcome = Volume::create(vault, keys, how);
    if (outcome || outcome.error().code != Errc::refused_key) return outcome;
    if (!std::exchange(told, true)) show_client_key("This client's key is", keys.curve.public_key);
    shown();
    return outcome;
  });
  if (made || made.error().code != Errc::refused_key) return made;
  return fail(Errc::refused_key,
              "{}; {} is kept: once all servers admit its key, run the same {} again",
              made.error().message, vault.directory().string(), again);
}

std::string notes_on(const Choice& choice) {
  return choice.why +
         (choice.params.kind() == SchemeKind::s3oram &&
                  choice.params.security == Security::honest_but_curious
              ? "Its servers are assumed to be honest-but-curious: one that lies in an "
                "eviction can spoil blocks unnoticed.\n"
              : "");
}

namespace {

/// Returns an error for a text that is not a positive number. (That of CLI11 names the range of a
/// double, in 300 digits.)
std::string why_not_positive(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number > 0 && std::isfinite(number) ? "" : text + " is not a number above 0";
}

}  // namespace

void add_place_options(CLI::App& app, InitOptions& options) {
  auto* local = app.add_flag("--local", options.local, "In the vault, by servers on this machine")
                    ->group("Where the blocks are stored (one of these)");
  app.add_option("--server", options.servers, "On this server; repeat for each server")
      ->type_name("HOST:PORT,KEY")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false)
      ->group(local->get_group())
      ->excludes(local);
  app.add_option("--servers", options.local_servers,
                 "With --local, number of servers; default: the least")
      ->type_name("N")
      ->check(CLI::Range(1U, 127U))
      ->group(local->get_group())
      ->needs(local);
}

void add_volume_options(CLI::App& app, InitOptions& options) {
  options.credential.add_new_to(app, "");
  app.add_option("--block-size", options.block_size, "A power of two, 4K to 1M; default: automatic")
      ->transform(size_from(4096, 1 << 20))
      ->type_name("SIZE");
  add_number_options(app, options);
}

void add_number_options(CLI::App& app, InitOptions& options) {
  app.add_option("--scheme", options.scheme, "ring, mirror or s3oram; default: by server count")
      ->type_name("KIND");
  app.add_option("--expect", options.expect, "How much data you expect; other defaults follow it")
      ->transform(size_from(1))
      ->default_str(short_size(options.expect))
      ->type_name("SIZE");
  app.add_option("--line", options.line, "Line in Mbit/s, like 5/29; default: measured")
      ->type_name("UP/DOWN");
  app.add_option("--between", options.between, "Speed between servers in Mbit/s")
      ->type_name("RATE")
      ->check(CLI::Validator(why_not_positive, ""))
      ->group(kSeldomUsed);
  app.add_option("--privacy", options.privacy, "computational (default) or information-theoretic")
      ->type_name("KIND");
  app.add_option("--evictor", options.evictor,
                 "shuffle or matrix (s3oram only); default: automatic")
      ->type_name("KIND");
  app.add_option("--security", options.security,
                 "malicious or honest-but-curious; default: automatic")
      ->type_name("KIND");
  app.add_option("--privacy-threshold", options.threshold, "Any T servers together learn nothing")
      ->capture_default_str()
      ->type_name("T")
      ->check(CLI::Range(1, 63));
  app.add_option("--evict-every", options.evict_every,
                 "Accesses between evictions; default: automatic")
      ->type_name("A")
      ->check(CLI::Range(1U, kMostEvictEvery));
  app.add_option("--bucket-size", options.bucket_size, "Slots in a bucket; default: automatic")
      ->type_name("Z")
      ->check(CLI::Range(1U, kMostBucketSize));
  app.add_flag("--allow-overflow", options.allow_overflow,
               "Accept a smaller Z, whose overflows servers can see")
      ->group(kSeldomUsed);
  app.add_option("--top-cache", options.top_cache,
                 "Part of a ring's tree kept here; default: automatic")
      ->transform(size_from(1))
      ->type_name("SIZE");
  app.add_option("--first-height", options.first_height,
                 "Levels of the new tree; it grows by itself")
      ->group(kSeldomUsed)
      ->capture_default_str()
      ->type_name("H")
      ->check(CLI::Range(1U, kMostFirstHeight));
}

Status run_init(const Args& args) {
  InitOptions options;
  S3O_ASSIGN(auto parsed, parse_options(args, options));
  if (!parsed) return {};
  return make_vault(options);
}

namespace {

/// Needs no lock, because it changes nothing in the vault, which may be mounted.
Status deliver_made(const InitOptions& options, Unfinished& made) {
  S3O_ASSIGN(const auto keys, made.vault.unlock(made.credential.get()));
  S3O_TRY(deliver_again(made.vault, keys, options.deliver));
  std::cout << made.vault.directory().string()
            << " is made already. Servers that had stopped were started again.\n";
  return {};
}

}  // namespace

Status make_vault(InitOptions& options) {
  S3O_ASSIGN(auto choice, choose_numbers(options));
  S3O_TRY(VaultPlace::check_new(options.vault));
  S3O_ASSIGN(auto making, Unfinished::start(options, choice.params));
  if (making.vault.config().ready) return deliver_made(options, making);
  if (Status locked = making.vault.lock(); !locked) {
    making.keep();  // a later init continues with it
    return locked;
  }
  S3O_ASSIGN(auto keys, making.vault.unlock(making.credential.get()));
  S3O_TRY(create_volume(options, making, keys, choice));
  making.keep();

  const fs::path& directory = making.vault.directory();
  const std::string vault = directory.string();
  if (options.credential.no_passphrase)
    std::cout << "Without a passphrase, anyone who can read " << vault << " can read all files.\n";
  std::cout << notes_on(choice);
  if (options.local) {
    std::error_code unknown;
    if (const auto disk = fs::space(directory, unknown); !unknown)
      std::cout << room_on(disk.available, choice.params, options.expect);
  }
  std::cout << "Made " << vault << ". Keep it: without it nothing can be read. To mount it:\n"
            << "  s3oramfs mount " << shell_word(options.vault) << " DIRECTORY\n";
  return {};
}

}  // namespace s3oram
