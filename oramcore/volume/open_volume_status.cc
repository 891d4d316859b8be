// Reports the status of an open volume and its servers.
#include <algorithm>

#include "oramcore/volume/open_volume.h"

namespace s3oram {
namespace {

/// Names what a server is asked to do, for use in a sentence.
std::string_view words_of(MessageType type) {
  switch (type) {
    case MessageType::retrieve:
      return "a retrieval";
    case MessageType::write_root:
      return "a root write";
    case MessageType::commit:
      return "the end of an eviction";
    case MessageType::open:
      return "opening the session";
    case MessageType::damage:
    case MessageType::read_slot:
    case MessageType::heal_slot:
    case MessageType::contribute:
    case MessageType::mend:
      return "healing a slot";
    default:
      return "a question";
  }
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

VolumeStatus::Server::Place place_of(Standing standing) {
  using Place = VolumeStatus::Server::Place;
  if (standing == Standing::away || standing == Standing::leaving) return Place::away;
  return standing == Standing::following ? Place::catching_up : Place::in_step;
}

/// Judges a server with no open request by the state of its connection.
std::optional<Duration> silent_for(Connection& connection, Party server,
                                   std::optional<Duration> unanswered) {
  const ZmqTransport& transport = connection.transport();
  if (transport.state(server) == PeerState::connected) return unanswered;
  const Duration lost = std::chrono::steady_clock::now() - transport.state_since(server);
  return std::max(lost, unanswered.value_or(Duration::zero()));
}

}  // namespace

VolumeStatus OpenVolume::status() {
  return thread_->on_thread([this] {
    VolumeStatus status;
    status.failure = failure_;
    if (!here_.engine) {
      status.migration = shut_migration();
      return status;
    }
    const EngineStatus engine = here_.engine->status();
    const Connection& connection = *here_.connection;
    status.blocks = engine.blocks;
    status.capacity = engine.capacity;
    status.height = engine.height;
    status.accesses = engine.accesses;
    status.evictions = engine.evictions;
    status.evicting = engine.evicting;
    status.evictions_due = engine.evictions_due;
    status.evicting_seconds = seconds(engine.evicting_for);
    status.unreadable = engine.unreadable;
    status.failure = connection.named(engine.failure);
    if (engine.evictions_stopped)
      status.evictions_stopped = connection.named(engine.evictions_stopped->message);
    status.database_trouble = trouble_of_database(engine);
    status.committing_seconds = seconds(engine.committing_for);
    status.vault_lacks_room = engine.vault_lacks_room;
    status.shares_disk = local().has_value();
    status.stash = engine.stash;
    status.uncommitted = engine.uncommitted;
    status.top = engine.top;
    status.scrub = scrub_;
    status.servers = servers_of(here_, engine);
    status.migration = migration_status(status);
    return status;
  });
}

std::vector<std::vector<LinkTraffic>> OpenVolume::server_traffic() {
  std::vector<std::vector<LinkTraffic>> links;
  for (OpenPart* const part : {&here_, &source_}) {
    auto answers = thread_->run([&] { return traffic_of(*part); });
    for (auto& answer : answers)
      links.push_back(answer ? std::move(answer->links) : std::vector<LinkTraffic>());
  }
  return links;
}

std::vector<VolumeStatus::Server> OpenVolume::servers_of(const OpenPart& part,
                                                         const EngineStatus& engine) const {
  std::vector<VolumeStatus::Server> servers;
  for (Party server = 1; server <= part.connection->servers(); ++server)
    servers.push_back(status_of(*part.connection, server, engine.servers[server - 1u]));
  return servers;
}

VolumeStatus::Server OpenVolume::status_of(Connection& connection, Party server,
                                           const EngineStatus::Server& told) const {
  const Traffic traffic = connection.transport().traffic(server);
  const auto silent = silent_for(connection, server, told.silent_for);
  VolumeStatus::Server status{.address = connection.name(server),
                              .answering = !silent,
                              .silent_seconds = silent ? seconds(*silent) : 0,
                              .trouble = {},
                              .stalled_at = {},
                              .place = place_of(told.standing),
                              .missing_buckets = told.catching_up.missing,
                              .copied_slots = told.catching_up.copied,
                              .cut_from = told.cut_from,
                              .unrepaired = told.unrepaired,
                              .lacks_room = told.lacks_room,
                              .uses_reserve = told.uses_reserve,
                              .restarts = connection.restarts(server),
                              .bytes_sent = traffic.bytes_sent,
                              .bytes_received = traffic.bytes_received};
  if (silent) {
    status.trouble = connection.refusal(server);
  } else if (told.trouble) {
    status.trouble = connection.with_remedy(told.trouble->error.message);
    status.trouble_code = told.trouble->error.code;
  } else if (told.stall) {
    status.stalled_at = words_of(told.stall->doing);
    status.stalled_seconds = seconds(told.stall->time);
  }
  return status;
}

std::string OpenVolume::trouble_of_database(const EngineStatus& engine) const {
  if (engine.database) return engine.database->error.message;
  const Status there = database_file_.check();
  return there ? std::string() : there.error().message;
}

std::shared_ptr<const MigrationStatus> OpenVolume::shut_migration() const {
  if (!from_) return nullptr;
  auto told = std::make_shared<MigrationStatus>();
  told->is_open = false;
  told->from = from_->volume.params.kind();
  told->rate = from_->rate;
  told->hindrance = failure_.empty() ? "the volume is being opened" : failure_;
  return told;
}

std::shared_ptr<const MigrationStatus> OpenVolume::migration_status(VolumeStatus& status) const {
  const auto progress = device_.progress();
  if (!progress) return nullptr;
  const EngineStatus engine = source_.engine->status();
  if (status.failure.empty()) status.failure = source_.connection->named(engine.failure);
  auto told = std::make_shared<MigrationStatus>();
  told->from = from_->volume.params.kind();
  told->moved = progress->moved;
  told->left = progress->left;
  told->unreadable = progress->unreadable;
  if (progress->takes) told->seconds_left = seconds(*progress->takes);
  told->rate = from_->rate;
  told->hindrance =
      (progress->is_of_source ? source_ : here_).connection->named(progress->hindrance);
  told->source_servers = servers_of(source_, engine);
  return told;
}

Task<std::vector<Result<TrafficAnswer>>> OpenVolume::traffic_of(const OpenPart& part) {
  if (!part.engine) co_return std::vector<Result<TrafficAnswer>>();
  ++asking_;
  auto answers = co_await part.engine->server_traffic();
  if (--asking_ == 0) asked_.notify_all();
  co_return answers;
}

}  // namespace s3oram
