// The rules that turn a mount's state into problems (health.h).
#include "fused/daemon/health.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oramcore/base/human.h"

namespace s3oram {
namespace {

constexpr double kLongEviction = 60;  // s
constexpr double kLongUnwritten = 60;
constexpr double kLongCommit = 4;

constexpr auto kVolume = "volume", kDisagree = "servers_disagree", kServerSilent = "server_silent",
               kServerFull = "server_full", kServerStore = "server_store",
               kServerFailing = "server_failing", kServerStalled = "server_stalled",
               kDatabase = "vault_db", kNoRoom = "no_room", kFailing = "writes_failing",
               kUnreadable = "unreadable", kLost = "scrub_lost", kBackup = "backup",
               kDamaged = "vault_db_damaged", kLostBlocks = "blocks_lost",
               kEvictionLag = "eviction_lag", kWriteLag = "write_lag", kServerAway = "server_away",
               kServerCatchesUp = "server_catches_up", kMigration = "migration",
               kTopCache = "top_cache", kLineCut = "line_cut",
               kServerUnrepaired = "server_unrepaired", kServerReserve = "server_reserve";

const char* kind_of(Errc code) {
  switch (code) {
    case Errc::disk_full:
      return kServerFull;
    case Errc::wrong_volume:
    case Errc::damaged_vault:
      return kServerStore;
    default:
      return kServerFailing;
  }
}

using Problems = std::vector<Problem>;

void add(Problems& to, const char* kind, std::string text, std::string cause, Party server = 0) {
  to.push_back({kind, server, std::move(text), std::move(cause)});
}
using Place = VolumeStatus::Server::Place;
void add(Problems& to, const char* kind, const std::string& text, Party server = 0) {
  add(to, kind, text, text, server);
}

void warn(Problems& to, const char* kind, const std::string& text, Party server = 0) {
  add(to, kind, text, server);
  to.back().warning = true;
}

constexpr std::string_view kAllWaits = "reading and writing wait";

void add_silent(Problems& to, const VolumeStatus& volume, std::string_view waits = kAllWaits) {
  Party number = 0;
  for (const auto& server : volume.servers) {
    ++number;
    if (server.answering || server.place != Place::in_step) continue;
    const std::string why = server.trouble.empty() ? "" : fmt::format(" (it {})", server.trouble);
    add(to, kServerSilent,
        fmt::format("{} has not answered for {}{}: {}", server.address,
                    human_duration(server.silent_seconds), why, waits),
        fmt::format("{} does not answer{}", server.address, why), number);
  }
}

/// Adds the reason why a migration has not ended although nothing needs its source any more.
void add_end_of_migration(Problems& to, const MountState& state) {
  if (!state.volume.migration || state.migration_end.failure.empty()) return;
  warn(to, kMigration, state.migration_end.failure);
}

void add_troubled(Problems& to, const VolumeStatus& volume) {
  Party number = 0;
  for (const auto& server : volume.servers) {
    ++number;
    if (server.answering && server.place == Place::in_step && !server.trouble.empty())
      add(to, kind_of(server.trouble_code),
          fmt::format("{} has trouble, and its requests are retried: {}", server.address,
                      server.trouble),
          number);
  }
}

/// Adds lines between servers in step, without which these cannot work together.
void add_cut_lines(Problems& to, const VolumeStatus& volume, std::string_view waits = kAllWaits) {
  const auto in_step = [&](Party server) {
    return server >= 1 && server <= volume.servers.size() &&
           volume.servers[server - 1u].answering &&
           volume.servers[server - 1u].place == Place::in_step;
  };
  for (Party one = 1; one <= volume.servers.size(); ++one)
    for (const Party other : volume.servers[one - 1u].cut_from)
      if (one < other && in_step(one) && in_step(other))
        add(to, kLineCut,
            fmt::format("the line between {} and {} is cut, though both answer: {} until it works "
                        "again",
                        volume.servers[one - 1u].address, volume.servers[other - 1u].address,
                        waits));
}

/// Returns why a server is not in step, as an addition to a sentence; empty if that is not known.
std::string why_left_out(const VolumeStatus::Server& server) {
  if (!server.trouble.empty()) return fmt::format(" ({})", server.trouble);
  if (server.cut_from.empty()) return "";
  return fmt::format(" (its line to server {} is cut)", fmt::join(server.cut_from, ", "));
}

/// Returns the possible reasons why these servers are stalled. If there are several, some of them
/// may only wait for another one.
std::string_view why_stalled(const VolumeStatus& volume, std::size_t stalled) {
  if (volume.servers.size() == 1) return "its disk hangs";
  return stalled == 1 ? "its disk, or its line to another server, hangs"
                      : "the disk of one of these servers, or a line between them, hangs";
}

void add_stalled(Problems& to, const VolumeStatus& volume) {
  const auto is_stalled = [](const VolumeStatus::Server& server) {
    return server.answering && server.place == Place::in_step && !server.stalled_at.empty();
  };
  const auto stalled = std::ranges::count_if(volume.servers, is_stalled);
  const auto why = why_stalled(volume, static_cast<std::size_t>(stalled));
  Party number = 0;
  for (const auto& server : volume.servers) {
    ++number;
    if (is_stalled(server))
      add(to, kServerStalled,
          fmt::format("{} answers, but has not finished {} for {}: {}", server.address,
                      server.stalled_at, human_duration(server.stalled_seconds), why),
          fmt::format("{} does not finish {}", server.address, server.stalled_at), number);
  }
}

/// Lets `add_there` add what is wrong with the servers that the vault leaves. Their numbers are not
/// those of the vault's servers, so the problems belong to the migration.
template <class Add>
void add_of_source(Problems& to, const VolumeStatus& volume, Add add_there) {
  if (!volume.migration) return;
  VolumeStatus source;
  source.servers = volume.migration->source_servers;
  const auto before = static_cast<std::ptrdiff_t>(to.size());
  add_there(to, source);
  for (auto added = to.begin() + before; added != to.end(); ++added) {
    added->kind = kMigration;
    added->server = kClient;
  }
}

/// Adds the problems of a migration.
void add_source(Problems& to, const VolumeStatus& volume) {
  if (!volume.migration) return;
  const MigrationStatus& migration = *volume.migration;
  const std::string waits =
      fmt::format("{} blocks have not moved from there yet, and cannot be read", migration.left);
  add_of_source(to, volume, [&waits](Problems& found, const VolumeStatus& source) {
    add_silent(found, source, waits);
    add_troubled(found, source);
    add_cut_lines(found, source, waits);
  });
  if (!migration.hindrance.empty())
    add(to, kMigration, fmt::format("blocks do not move: {}", migration.hindrance));
  if (migration.unreadable > 0)
    add(to, kMigration,
        fmt::format("{} blocks cannot be read where they are, and so do not move: files that need "
                    "them give an error; delete or restore these, and the migration ends",
                    migration.unreadable),
        "blocks cannot be read where they are, and so do not move");
}

/// Returns words to add to a warning; empty if there is a problem, because then they are not true.
std::string_view and_all_goes_on(const Problems& found) {
  return std::ranges::all_of(found, &Problem::warning) ? ", and everything goes on" : "";
}

/// Adds the servers of a mirror that are not in step.
void add_left_out(Problems& to, const VolumeStatus& volume) {
  const auto in_step =
      std::ranges::count(volume.servers, Place::in_step, &VolumeStatus::Server::place);
  const std::string rest = fmt::format("{} of {} servers hold all data{}", in_step,
                                       volume.servers.size(), and_all_goes_on(to));
  Party number = 0;
  for (const auto& server : volume.servers) {
    ++number;
    if (server.place == Place::in_step) continue;
    const std::string why = why_left_out(server);
    const bool away = server.place == Place::away;
    add(to, away ? kServerAway : kServerCatchesUp,
        away ? fmt::format("{} is away{}: {}", server.address, why, rest)
             : fmt::format("{} catches up, with {} slots copied: {}", server.address,
                           server.copied_slots, rest),
        away ? fmt::format("{} is away{}", server.address, why)
             : fmt::format("{} catches up", server.address),
        number);
    to.back().warning = true;
  }
}

/// Warns of each server for which `is_so`. `text` has a place for its address.
void warn_of(Problems& to, const VolumeStatus& volume, const char* kind,
             bool VolumeStatus::Server::*is_so, fmt::format_string<const std::string&> text) {
  Party number = 0;
  for (const auto& server : volume.servers) {
    ++number;
    if (server.*is_so) warn(to, kind, fmt::format(text, server.address), number);
  }
}

/// Adds servers whose repair was cut short. Their shares are healed when accesses meet them, but
/// until then the others' are needed.
void add_unrepaired(Problems& to, const VolumeStatus& volume) {
  if (volume.scrub && volume.scrub->running) return;
  warn_of(
      to, volume, kServerUnrepaired, &VolumeStatus::Server::unrepaired,
      "a repair of {} was begun and has not ended, so it may lack shares: run s3oramfs scrub, or "
      "s3oramfs repair once unmounted");
}

/// Adds servers whose disks are full. They still do their work, but only for as long as the room
/// that they kept back lasts. Of servers on one disk, only the first one is added.
void add_reserves(Problems& to, const VolumeStatus& volume) {
  constexpr auto kIsFull = FMT_STRING(
      "the disk of {} is full, and its reserve is in use: free space there, or enlarge it");
  constexpr auto kUsed = &VolumeStatus::Server::uses_reserve;
  if (!volume.shares_disk) return warn_of(to, volume, kServerReserve, kUsed, kIsFull);
  const auto first = std::ranges::find_if(volume.servers, kUsed);
  if (first != volume.servers.end())
    warn(to, kServerReserve, fmt::format(kIsFull, "the vault"),
         static_cast<Party>(first - volume.servers.begin() + 1));
}

void add_database(Problems& to, const VolumeStatus& volume) {
  if (!volume.database_trouble.empty())
    add(to, kDatabase,
        fmt::format("vault.db cannot be written, and nothing becomes durable: {}",
                    volume.database_trouble));
  else if (volume.committing_seconds > kLongCommit)
    add(to, kDatabase,
        fmt::format("vault.db: its disk has not taken a commit for {}",
                    human_duration(volume.committing_seconds)),
        "vault.db: its disk does not take a commit");
}

/// (The blocks are in the server's log, too.)
void add_top(Problems& to, const VolumeStatus& volume) {
  if (!volume.top || volume.top->trouble.empty()) return;
  add(to, kTopCache,
      fmt::format("top.cache: {}: nothing is lost{}; check this disk", volume.top->trouble,
                  and_all_goes_on(to)),
      fmt::format("top.cache: {}", volume.top->trouble));
  to.back().warning = true;
}

/// Returns the disks without room for a larger tree, as an addition to a sentence; empty if none
/// is known.
std::string on_full_disks(const VolumeStatus& volume) {
  std::vector<std::string> owners;
  for (const auto& server : volume.servers)
    if (server.lacks_room) owners.push_back(server.address);
  if (volume.vault_lacks_room) owners.emplace_back("vault.db");
  if (owners.empty()) return "";
  if (volume.shares_disk) owners = {"the vault"};
  return fmt::format(" on the disk of {}", fmt::join(owners, " and that of "));
}

void add_unwritten(Problems& to, const MountState& state) {
  const FileSystemStatus& files = state.files;
  const std::string where = on_full_disks(state.volume);
  const std::string_view remedy = where.empty() ? "" : ": free space there, or enlarge it";
  if (files.no_room_bytes > 0)
    add(to, kNoRoom,
        fmt::format("{} cannot be written: no room{}{}", human_size(files.no_room_bytes), where,
                    remedy),
        fmt::format("there is no room{} for what is written", where));
  else if (state.free_bytes < state.block_size)
    add(to, kNoRoom, fmt::format("full: no room for another block{}{}", where, remedy));
  if (files.failing_bytes > files.no_room_bytes)
    add(to, kFailing,
        fmt::format("{} could not be written for {}, and will be retried",
                    human_size(files.failing_bytes - files.no_room_bytes),
                    human_duration(seconds(files.failing_for))),
        "data could not be written to the servers");
}

void add_damage(Problems& to, const FileSystemStatus& files) {
  if (files.damage > 0)
    add(to, kDamaged,
        fmt::format(
            "vault.db is damaged ({}{}): what needs the damaged part gives an error, and no "
            "backup of the names replaces the last one; unmount, and run s3oramfs fsck --repair",
            files.first_damage,
            files.damage > 1 ? fmt::format(", and {} more", files.damage - 1) : ""),
        "vault.db is damaged: " + files.first_damage);
  if (files.lost_blocks > 0)
    add(to, kLostBlocks,
        fmt::format("{} {} of files {} lost: vault.db does not say where on the servers; once "
                    "unmounted, s3oramfs fsck names the files",
                    files.lost_blocks, files.lost_blocks == 1 ? "block" : "blocks",
                    files.lost_blocks == 1 ? "is" : "are"),
        "blocks of files are lost: vault.db does not say where on the servers");
}

/// Returns words that are followed by "them intact".
std::string_view lacking(const VolumeStatus& volume) {
  return volume.servers.size() == 1 ? "the server does not have" : "too few servers have";
}
std::string_view beyond_repair(const VolumeStatus& volume) {
  return volume.servers.size() == 1 ? "beyond what the server can rebuild" : "at too many servers";
}

void add_lost(Problems& to, const VolumeStatus& volume) {
  if (volume.unreadable > 0)
    add(to, kUnreadable,
        fmt::format("{0} {1} could not be read: {3} {2} intact; once "
                    "unmounted, s3oramfs fsck names the files that need {2}, if any do",
                    volume.unreadable, volume.unreadable == 1 ? "block" : "blocks",
                    volume.unreadable == 1 ? "it" : "them", lacking(volume)),
        fmt::format("blocks could not be read: {} them intact", lacking(volume)));
  if (volume.scrub && volume.scrub->found.lost > 0)
    add(to, kLost,
        fmt::format("a scrub found {} {} damaged {}, and changed nothing there",
                    volume.scrub->found.lost, volume.scrub->found.lost == 1 ? "slot" : "slots",
                    beyond_repair(volume)),
        fmt::format("a scrub found slots damaged {}", beyond_repair(volume)));
}

}  // namespace

const std::vector<const char*> kProblemKinds = {
    kVolume,          kDisagree,  kServerSilent, kServerFull,  kServerStore,      kServerFailing,
    kServerStalled,   kDatabase,  kNoRoom,       kFailing,     kUnreadable,       kLost,
    kBackup,          kDamaged,   kLostBlocks,   kEvictionLag, kWriteLag,         kServerAway,
    kServerCatchesUp, kMigration, kTopCache,     kLineCut,     kServerUnrepaired, kServerReserve};

double seconds(std::chrono::milliseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

std::vector<Problem> find_problems(const MountState& state) {
  const VolumeStatus& volume = state.volume;
  const FileSystemStatus& files = state.files;
  Problems found;
  if (!volume.failure.empty())
    add(found, kVolume, fmt::format("the volume cannot go on: {}", volume.failure));
  if (!volume.evictions_stopped.empty())
    add(found, kDisagree,
        fmt::format("one of the servers is faulty or lies: evictions have stopped, and soon the "
                    "directory can only be read; {}; have the servers' memory and programs "
                    "checked, or replace the faulty one, then unmount and mount again",
                    volume.evictions_stopped));
  add_silent(found, volume);
  add_source(found, volume);
  add_troubled(found, volume);  // the trouble may be a silent server
  add_cut_lines(found, volume);
  if (found.empty()) {
    // A server that waits for another one is not the cause of a problem found above.
    add_stalled(found, volume);
    add_of_source(found, volume, add_stalled);
  }
  add_database(found, volume);
  add_unwritten(found, state);
  add_damage(found, files);
  add_lost(found, volume);
  // The rest may be a result of the problems above, so it is reported only if there are none.
  if (found.empty() && !files.backup_failure.empty())
    add(found, kBackup,
        fmt::format("the names could not be backed up for {}: {}",
                    human_duration(seconds(files.backup_failing_for)), files.backup_failure),
        "the names could not be backed up: " + files.backup_failure);
  if (found.empty() && volume.evicting_seconds > kLongEviction)
    add(found, kEvictionLag,
        fmt::format("eviction lags: one is under way for {}, {} due",
                    human_duration(volume.evicting_seconds), volume.evictions_due),
        "eviction lags");
  if (found.empty() && seconds(files.lag) > kLongUnwritten)
    add(found, kWriteLag,
        fmt::format("writing lags: data written {} ago is not yet durable",
                    human_duration(seconds(files.lag))),
        "writing lags");
  add_top(found, volume);
  add_left_out(found, volume);
  add_of_source(found, volume, add_left_out);
  add_reserves(found, volume);
  add_unrepaired(found, volume);
  add_end_of_migration(found, state);
  return found;
}

namespace {

std::vector<std::string> texts_of(const MountState& state, bool warnings) {
  std::vector<std::string> texts;
  for (Problem& problem : find_problems(state))
    if (problem.warning == warnings) texts.push_back(std::move(problem.text));
  return texts;
}

}  // namespace

std::vector<std::string> problems(const MountState& state) { return texts_of(state, false); }
std::vector<std::string> warnings(const MountState& state) { return texts_of(state, true); }

Error with_cause(Error unwritten, const MountState& state) {
  const auto causes = problems(state);
  if (causes.empty()) return unwritten;
  if (!state.volume.failure.empty())
    return {Errc::failed,
            fmt::format("{}; what is not durable yet can no longer be written", causes[0])};
  unwritten.message += fmt::format(" ({})", fmt::join(causes, "; "));
  return unwritten;
}

}  // namespace s3oram
