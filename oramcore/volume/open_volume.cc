// Opens, closes and scrubs a volume, and exchanges its servers.
#include "oramcore/volume/open_volume.h"

#include <spdlog/spdlog.h>

#include "oramcore/base/human.h"
#include "oramcore/schemes/registry.h"
#include "oramcore/vault/advice.h"
#include "oramcore/volume/migration.h"
#include "oramcore/volume/vault_volume.h"

namespace s3oram {

RepairedVolume repaired(const Healed& healed) {
  return {.reenrolled = {},
          .healed = healed.shares,
          .lost = healed.lost,
          .lost_at = healed.lost_at,
          .unproven = healed.unproven,
          .hindrance = healed.hindrance,
          .untold = {}};
}

OpenVolume::OpenVolume(Vault& vault, const VaultKeys& keys, const VolumeOptions& options,
                       std::shared_ptr<NetworkThread> thread)
    : vault_(vault),
      keys_(keys),
      options_(options),
      disk_(keys.pages),
      thread_(std::move(thread)),
      device_(thread_->executor(), thread_->clock(), vault.config().params.block_size) {}

OpenVolume::~OpenVolume() {
  if (!closed_) static_cast<void>(close());
}

Status OpenVolume::start(VolumeEngine::Evictions evictions) {
  const bool serves = evictions == VolumeEngine::Evictions::as_due;
  const auto& source = vault_.config().source;
  if (source) S3O_TRY(check_places(vault_, disk_));
  OpenPart here, there;
  S3O_TRY(open(vault_, here, *options_.metrics, evictions));
  if (source && serves) {
    const Vault from = vault_.source();
    Status opened = check_owner(from, keys_.of(from.config()));
    if (opened) opened = open(from, there, unread_metrics(), evictions);
    if (!opened) static_cast<void>(close(here, false));
    if (!opened && opened.error().code == Errc::unreachable)
      return fail(Errc::unreachable,
                  "{}: some blocks have not moved from there yet, so the vault waits for it (if it "
                  "is gone for good: s3oramfs restore --moved --force {})",
                  opened.error().message, shell_word(vault_.directory()));
    S3O_TRY(opened);
  }
  database_file_ = FileWatch(vault_.database());
  const VaultConfig& config = vault_.config();
  {
    const std::lock_guard lock(local_mutex_);
    local_ = config.local ? std::optional(config.params) : std::nullopt;
  }
  thread_->on_thread([&] {
    here_ = std::move(here);
    source_ = std::move(there);
    from_ = source;
    failure_.clear();
    if (source_.engine)
      device_.serve(*here_.engine, *source_.engine, from_->rate);
    else if (serves)
      device_.serve(*here_.engine);
  });
  options_.progress = {};  // it belongs to the caller that opens the volume
  return {};
}

void OpenVolume::begin_scrub() {
  thread_->on_thread([this] {
    if (here_.engine && !is_scrubbing() && !exchanging_) begin_scrub_of({});
  });
}

Result<std::vector<Party>> OpenVolume::replace_server(Party server, const ServerAddress& address) {
  const std::lock_guard lock(changing_);
  S3O_TRY(check_replaceable(vault_, server));
  if (!thread_->on_thread([this] { return here_.engine != nullptr; }))
    return fail(Errc::unreachable, "the volume is not open: {}", failure_);
  S3O_TRY(here_.connection->check_newcomer(server, address, kNewcomerAnswers));
  return thread_->run([&]() -> Task<Result<std::vector<Party>>> {
    Connection& connection = *here_.connection;
    if (is_scrubbing())
      co_return fail(Errc::vault_in_use, "a scrub is under way: wait until it has ended");
    VolumeEngine::Replacement replacement{
        server, [&] { return connection.exchange(vault_, server, address); },
        peer_text(server, address)};
    auto untold = co_await here_.engine->replace(std::move(replacement));
    if (!untold) co_return fail(connection.explain(fail(std::move(untold).error())).error());
    begin_scrub_of({server});
    co_return untold;
  });
}

Result<Healed> OpenVolume::scrub(const std::set<Party>& servers,
                                 const std::function<void(const std::string&)>& progress) {
  return thread_->run([&]() -> Task<Result<Healed>> {
    VolumeEngine::ScrubProgress told;
    if (progress)
      told = [&](std::uint64_t looked_at, std::uint64_t of, const Healed& healed) {
        progress(fmt::format("{} of {} buckets, {} shares healed", looked_at, of, healed.total()));
      };
    auto healed = co_await here_.engine->scrub(servers, told);
    if (!healed) co_return fail(here_.connection->explain(fail(std::move(healed).error())).error());
    co_return healed;
  });
}

std::optional<VolumeParams> OpenVolume::local() const {
  const std::lock_guard lock(local_mutex_);
  return local_;
}

Status OpenVolume::close() {
  closed_ = true;
  thread_->on_thread([this] { device_.stop_copying(); });
  Status status = thread_->run([this]() -> Task<Status> {
    Status closed = co_await close_engine(here_, true);
    const Status left = co_await close_engine(source_, true);
    co_await device_.close();
    co_return closed ? left : closed;
  });
  for (OpenPart* const part : {&here_, &source_})
    if (const Status stopped = close(*part, false); status) status = stopped;
  database_.join();
  arithmetic_.join();
  return status;
}

Status OpenVolume::open(const Vault& vault, OpenPart& part, Metrics& metrics,
                        VolumeEngine::Evictions evictions) {
  const VaultKeys keys = keys_.of(vault.config());
  VolumeOptions options = options_;
  if (&vault != &vault_) options.record.clear();
  S3O_ASSIGN(part.connection, Connection::make(vault, keys, options, thread_));
  Connection& connection = *part.connection;
  S3O_TRY(connection.run([&]() -> Task<Status> {
    Servers servers(connection.executor(), connection.clock(), connection.random(),
                    connection.transport(), vault.config().volume, connection.servers());
    co_return co_await connection.await_servers(servers, options_,
                                                InStep(vault.config().params).least());
  }));
  auto made = connection.on_thread([&] {
    const ClientEnvironment environment{connection.executor(),
                                        database_.executor(),
                                        arithmetic_.executor(),
                                        connection.clock(),
                                        connection.random(),
                                        connection.transport(),
                                        metrics};
    return kind_of(vault).engine(client_volume(vault, keys), environment, disk_);
  });
  if (!made) return fail(advise_on_database(made.error(), vault.directory()));
  part.engine = std::move(*made);
  const Status opened =
      connection.run([&] { return part.engine->open(options_.deadline, evictions); });
  if (opened) return {};
  const Status explained = connection.explain(opened);
  static_cast<void>(close(part, false));
  return fail(advise_on_database(explained.error(), vault.directory()));
}

Task<Status> OpenVolume::close_engine(OpenPart& part, bool with_commit) {
  if (!part.engine) co_return Status{};
  co_return co_await part.engine->close(with_commit);
}

Status OpenVolume::close(OpenPart& part, bool with_commit) {
  Status status = thread_->run([&]() -> Task<Status> {
    auto closed = co_await close_engine(part, with_commit);
    while (asking_ > 0) co_await asked_.wait();
    part.engine.reset();
    co_return closed;
  });
  // By the time the connection is destroyed, nothing reads its status.
  const auto connection = thread_->on_thread([&] { return std::move(part.connection); });
  if (!connection) return status;
  Status stopped = connection->stop_servers();
  return status ? stopped : status;
}

void OpenVolume::begin_scrub_of(std::set<Party> servers) {
  scrub_.emplace();
  spawn(thread_->executor(), scrub_beside(std::move(servers)));
}

Task<void> OpenVolume::scrub_beside(std::set<Party> servers) {
  spdlog::info("scrub started on {}",
               servers.empty() ? "all servers" : fmt::format("server {}", *servers.begin()));
  const auto healed = co_await here_.engine->scrub(
      std::move(servers), [this](std::uint64_t looked_at, std::uint64_t of, const Healed& so_far) {
        scrub_->looked_at = looked_at;
        scrub_->of = of;
        scrub_->found = repaired(so_far);
      });
  scrub_->running = false;
  if (healed)
    spdlog::info("scrub ended: {} shares were healed, and {} slots are lost", healed->total(),
                 healed->lost);
  else if (here_.connection)
    scrub_->failure = here_.connection->explain(fail(healed.error())).error();
  else  // a migration began
    scrub_->failure = healed.error();
}

}  // namespace s3oram
