// Builds the members of the status, and the gauges with the same figures.
#include "fused/daemon/mount_status.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace s3oram {
namespace {

using nlohmann::json;

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

double in_tenths(double value) { return std::round(value * 10) / 10; }

const char* name_of(VolumeStatus::Server::Place place) {
  using Server = VolumeStatus::Server;
  return place == Server::Place::in_step ? "in step"
         : place == Server::Place::away  ? "away"
                                         : "catching up";
}

/// Returns the links of server `i`; none if a migration began between reading the servers and
/// reading the links.
std::vector<LinkTraffic> links_of(const std::vector<std::vector<LinkTraffic>>& links,
                                  std::size_t i) {
  return i < links.size() ? links[i] : std::vector<LinkTraffic>();
}

json server_json(const VolumeStatus::Server& server, const std::vector<LinkTraffic>& traffic) {
  json links = json::array();
  for (const LinkTraffic& link : traffic)
    if (link.party != kClient)
      links.push_back(
          {{"server", link.party}, {"bytes_sent", link.sent}, {"bytes_received", link.received}});
  return {{"address", server.address},
          {"answering", server.answering},
          {"silent_seconds", in_tenths(server.silent_seconds)},
          {"trouble", server.trouble},
          {"place", name_of(server.place)},
          {"missing_buckets", server.missing_buckets},
          {"copied_slots", server.copied_slots},
          {"cut_from", server.cut_from},
          {"lacks_room", server.lacks_room},
          {"uses_reserve", server.uses_reserve},
          {"restarts", server.restarts},
          {"bytes_sent", server.bytes_sent},
          {"bytes_received", server.bytes_received},
          {"links", links}};
}

json top_json(const VolumeStatus& volume) {
  const TopStatus& top = *volume.top;
  return {{"blocks", top.blocks},
          {"slots", top.slots},
          {"bytes", top.bytes},
          {"log_slots", top.log_slots},
          {"not_synced", top.not_synced},
          {"trouble", top.trouble},
          {"evictions_behind", volume.evictions_due},
          {"most_evictions_behind", top.most_evictions_behind}};
}

json shares_json(const std::map<Party, std::uint64_t>& by_server) {
  json all = json::array();
  for (const auto& [server, shares] : by_server)
    all.push_back({{"server", server}, {"shares", shares}});
  return all;
}

json scrub_json(const ScrubStatus& scrub) {
  json failure;
  if (scrub.failure)
    failure = {{"code", static_cast<int>(scrub.failure->code)},
               {"message", scrub.failure->message}};
  return {{"running", scrub.running},
          {"buckets_looked_at", scrub.looked_at},
          {"buckets", scrub.of},
          {"healed", shares_json(scrub.found.healed)},
          {"lost_slots", scrub.found.lost},
          {"lost_at", shares_json(scrub.found.lost_at)},
          {"unproven_buckets", scrub.found.unproven},
          {"hindrance", scrub.found.hindrance},
          {"failure", failure}};
}

json causes_json(const MountState& state) {
  json causes = json::array();
  for (const Problem& problem : find_problems(state))
    causes.push_back({{"kind", problem.kind},
                      {"server", problem.server == kClient ? json() : json(problem.server)},
                      {"cause", problem.cause}});
  return causes;
}

/// Returns null if no migration is under way. `links` lists the volume's servers first.
json migration_json(const MountState& state, const std::vector<std::vector<LinkTraffic>>& links) {
  const VolumeStatus& volume = state.volume;
  if (!volume.migration) return {};
  const MigrationStatus& migration = *volume.migration;
  json servers = json::array();
  for (std::size_t i = 0; i < migration.source_servers.size(); ++i)
    servers.push_back(
        server_json(migration.source_servers[i], links_of(links, volume.servers.size() + i)));
  const auto& left = migration.seconds_left;
  return {{"open", migration.is_open},
          {"from", name_of(kSchemes, migration.from)},
          {"moved", migration.moved},
          {"left", migration.left},
          {"of", migration.moved + migration.left},
          {"unreadable", migration.unreadable},
          {"seconds_left", left ? json(std::round(*left)) : json()},
          {"rate", migration.rate},
          {"hindrance", migration.hindrance},
          {"end_failure", state.migration_end.failure},
          {"end_retried", state.migration_end.is_retried},
          {"source_servers", servers}};
}

}  // namespace

json status_json(const MountIdentity& mount, const MountState& state,
                 const std::vector<std::vector<LinkTraffic>>& links) {
  const VolumeStatus& volume = state.volume;
  const FileSystemStatus& files = state.files;
  json servers = json::array();
  for (std::size_t i = 0; i < volume.servers.size(); ++i)
    servers.push_back(server_json(volume.servers[i], links_of(links, i)));
  const auto found = problems(state);
  return {{"ok", true},
          {"mountpoint", mount.mountpoint},
          {"pid", ::getpid()},
          {"since", mount.since},
          {"health",
           {{"healthy", found.empty()},
            {"problems", found},
            {"warnings", warnings(state)},
            {"causes", causes_json(state)}}},
          {"volume",
           {{"blocks", volume.blocks},
            {"capacity", volume.capacity},
            {"height", volume.height},
            {"block_size", state.block_size},
            {"accesses", volume.accesses},
            {"evictions", volume.evictions},
            {"evicting", volume.evicting},
            {"evicting_seconds", in_tenths(volume.evicting_seconds)},
            {"evictions_due", volume.evictions_due},
            {"stash", volume.stash},
            {"top", volume.top ? top_json(volume) : json()},
            {"unreadable", volume.unreadable},
            {"can_grow", state.room.can_grow},
            {"free_bytes", state.free_bytes},
            {"uncommitted", volume.uncommitted}}},
          {"scrub", volume.scrub ? scrub_json(*volume.scrub) : json()},
          {"migration", migration_json(state, links)},
          {"servers", servers},
          {"cache",
           {{"bytes", files.cache_bytes},
            {"limit", files.cache_limit},
            {"dirty_bytes", files.dirty_bytes},
            {"failing_bytes", files.failing_bytes},
            {"no_room_bytes", files.no_room_bytes}}},
          {"files",
           {{"inodes", files.inodes},
            {"damage", files.damage},
            {"first_damage", files.first_damage},
            {"lost_blocks", files.lost_blocks},
            {"uncommitted", files.uncommitted_rows},
            {"lag_seconds", in_tenths(seconds(files.lag))}}},
          {"backup",
           {{"exists", files.backup.exists},
            {"time", files.backup.time / kNsPerSecond},
            {"current", files.backup.current},
            {"hindered", files.damage > 0},
            {"blocks", files.backup.blocks},
            {"held_blocks", files.backup.held}}}};
}

namespace {

/// Sets one gauge for each kind of problem, or one for each server if the kind concerns servers.
void gauge_problems(const MountState& state, Metrics& metrics) {
  const auto problems = find_problems(state);
  const auto set = [&](const char* kind, Party server) {
    Metrics::Labels labels = {{"kind", kind}};
    if (server != kClient) labels.emplace_back("server", std::to_string(server));
    const bool there = std::ranges::any_of(problems, [&](const Problem& problem) {
      return problem.kind == std::string_view(kind) && problem.server == server;
    });
    metrics.gauge("s3oramfs_problem", "1 if status reports a problem of this kind.", labels)
        .set(there);
  };
  for (const char* kind : kProblemKinds) {
    const bool of_servers = std::string_view(kind).starts_with("server_");
    const auto servers = static_cast<Party>(of_servers ? state.volume.servers.size() : 0);
    for (Party server = of_servers ? 1 : kClient; server <= servers; ++server) set(kind, server);
  }
}

/// Sets gauges by name.
auto setter(Metrics& metrics) {
  return [&metrics](const char* name, const char* help, auto value) {
    metrics.gauge(name, help).set(static_cast<double>(value));
  };
}

void gauge_volume(const MountState& state, Metrics& metrics) {
  const auto set = setter(metrics);
  const VolumeStatus& volume = state.volume;
  set("s3oramfs_blocks", "Blocks that hold data.", volume.blocks);
  set("s3oramfs_capacity_blocks", "Blocks that fit before the tree grows by a level.",
      volume.capacity);
  set("s3oramfs_block_size_bytes", "Bytes of a block.", state.block_size);
  set("s3oramfs_free_bytes",
      "Bytes for which there is room, or for which remote servers may find room.",
      state.free_bytes);
  set("s3oramfs_can_grow", "0 while a disk has no room for a larger tree.", state.room.can_grow);
  set("s3oramfs_tree_height", "Levels of the tree below its root.", volume.height);
  set("s3oramfs_stash_blocks", "Blocks that wait on the client to return to the tree.",
      volume.stash);
  if (volume.top) {
    set("s3oramfs_top_blocks", "Blocks in top.cache, which has the top of a ring's tree.",
        volume.top->blocks);
    set("s3oramfs_top_slots", "Blocks that top.cache has room for.", volume.top->slots);
    set("s3oramfs_top_not_synced",
        "Writes that would be read from the server's log after a power cut.",
        volume.top->not_synced);
    set("s3oramfs_most_evictions_due", "Evictions that may be due before accesses wait.",
        volume.top->most_evictions_behind);
  }
  set("s3oramfs_uncommitted_positions", "Changed places of blocks that no commit holds yet.",
      volume.uncommitted);
  set("s3oramfs_evictions_due", "Evictions that are due, including the one under way.",
      volume.evictions_due);
  set("s3oramfs_eviction_running_seconds", "How long an eviction has been under way; 0 if none is.",
      volume.evicting_seconds);
  set("s3oramfs_unreadable_blocks", "Blocks that could not be read when they were last asked for.",
      volume.unreadable);
}

void gauge_files(const FileSystemStatus& files, Metrics& metrics) {
  const auto set = setter(metrics);
  set("s3oramfs_uncommitted_rows", "Changes of names and attributes that no commit holds yet.",
      files.uncommitted_rows);
  set("s3oramfs_cache_bytes", "File contents in memory.", files.cache_bytes);
  set("s3oramfs_cache_limit_bytes", "The limit of file contents in memory.", files.cache_limit);
  set("s3oramfs_dirty_bytes", "Cached file contents that are not yet durable on the servers.",
      files.dirty_bytes);
  set("s3oramfs_failing_bytes", "The dirty bytes whose last write failed.", files.failing_bytes);
  set("s3oramfs_no_room_bytes", "The failing bytes for which there is no room.",
      files.no_room_bytes);
  set("s3oramfs_unwritten_seconds", "The age beyond which nearly everything is durable.",
      seconds(files.lag));
  set("s3oramfs_inodes", "Files, directories and all other inodes.", files.inodes);
  set("s3oramfs_damage", "Places in vault.db's tables of files that are known to be damaged.",
      files.damage);
  set("s3oramfs_lost_blocks", "Blocks that files name, and for which vault.db has no place.",
      files.lost_blocks);
  set("s3oramfs_backup_time_seconds", "When the names were last backed up, since 1970; 0 if never.",
      files.backup.time / kNsPerSecond);
  set("s3oramfs_backup_current", "1 if the backup has all changes.", files.backup.current);
  set("s3oramfs_backup_held_blocks", "Blocks that are kept only for the last backup.",
      files.backup.held);
}

void gauge_server(std::size_t i, const VolumeStatus::Server& server,
                  const std::vector<LinkTraffic>& links, Metrics& metrics) {
  const Metrics::Labels label = {{"server", std::to_string(i + 1)}};
  metrics.gauge("s3oramfs_server_answering", "1 if the server answers.", label)
      .set(server.answering);
  metrics
      .gauge("s3oramfs_server_silent_seconds", "For how long the server has not answered.", label)
      .set(server.silent_seconds);
  metrics
      .gauge("s3oramfs_server_in_step",
             "1 if the server holds all data; 0 if it is away, or catches up.", label)
      .set(server.place == VolumeStatus::Server::Place::in_step);
  metrics
      .counter("s3oramfs_server_restarts_total",
               "How often a local vault's server ended by itself and was started again.", label)
      .set(server.restarts);
  metrics.counter("s3oramfs_sent_bytes_total", "Messages to the server.", label)
      .set(server.bytes_sent);
  metrics.counter("s3oramfs_received_bytes_total", "Messages from the server.", label)
      .set(server.bytes_received);
  for (const LinkTraffic& link : links)
    if (link.party != kClient)
      metrics
          .counter("s3oramfs_between_servers_bytes_total",
                   "Messages from a server to a peer, another server.",
                   {{"server", std::to_string(i + 1)}, {"peer", std::to_string(link.party)}})
          .set(link.sent);
}

}  // namespace

void gauge(const MountIdentity& mount, const MountState& state,
           const std::vector<std::vector<LinkTraffic>>& links, Metrics& metrics) {
  const auto set = setter(metrics);
  set("s3oramfs_start_time_seconds", "When the vault was mounted, since 1970.", mount.since);
  set("s3oramfs_healthy", "1 if s3oramfs status calls the vault healthy.", problems(state).empty());
  gauge_problems(state, metrics);
  gauge_volume(state, metrics);
  gauge_files(state.files, metrics);
  for (std::size_t i = 0; i < state.volume.servers.size(); ++i)
    gauge_server(i, state.volume.servers[i], links_of(links, i), metrics);
}

}  // namespace s3oram
