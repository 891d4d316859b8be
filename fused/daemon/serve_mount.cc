// Starts everything that a mount needs besides its files, and waits for the mount to end.
#include "fused/daemon/serve_mount.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>

#include "fused/daemon/control_requests.h"
#include "fused/daemon/health_watch.h"
#include "fused/daemon/idle_watch.h"
#include "fused/daemon/locker.h"
#include "fused/daemon/metrics_endpoint.h"
#include "fused/daemon/mount_limits.h"
#include "fused/daemon/mounts.h"
#include "fused/daemon/signal_watch.h"
#include "oramcore/base/memory.h"
#include "oramcore/base/memory_limit.h"
#include "oramcore/base/memory_watch.h"

namespace s3oram {
namespace {

/// Makes the cache shrink and grow with the free memory.
Result<std::unique_ptr<MemoryWatch>> watch_memory(FileSystem& files, std::size_t cache) {
  return MemoryWatch::start([&files, cache](unsigned shift) {
    files.set_cache_limit(std::max(cache >> shift, std::min(cache, kLeastFileCache)));
    give_back_freed_memory();
  });
}

void act_on_signal(int signal, FuseMount& mount, Locker& locker) {
  if (signal == SIGXCPU) spdlog::warn("the limit of processor time is near: the mount ends");
  if (signal != SIGUSR1) return mount.stop();
  if (const Status locked = locker.lock(); !locked)
    spdlog::error("the mount is not locked: {}", locked.error().message);
}

bool unmount_idle(const std::filesystem::path& mountpoint) {
  const auto unmounted = unmount_if_unused(mountpoint);
  if (!unmounted) spdlog::warn("{}", unmounted.error().message);
  if (unmounted && *unmounted)
    spdlog::info("unmounted the directory, because nothing was using it");
  if (unmounted && !*unmounted) spdlog::debug("the directory is idle, but in use");
  return unmounted && *unmounted;
}

/// Opens the page of metrics. Returns null if `address` is empty.
Result<std::unique_ptr<MetricsEndpoint>> open_metrics(const std::string& address,
                                                      const Watched& watched) {
  if (address.empty()) return std::unique_ptr<MetricsEndpoint>();
  S3O_ASSIGN(auto metrics,
             MetricsEndpoint::open(address, [&watched] { return metrics_page(watched); }));
  spdlog::info("metrics are at http://{}/metrics", metrics->address());
  return metrics;
}

}  // namespace

Result<std::optional<HeldMount>> serve(const MountCommand& command, const Watched& watched,
                                       Entrance& entrance, Audience& audience) {
  S3O_ASSIGN(const auto mount, entrance.mount(watched.files));
  Locker locker(*mount, watched.files);
  S3O_ASSIGN(
      const auto control,
      ControlSocket::create(kControlSocket, control_handler(watched, locker), audience.at_the_end));
  S3O_ASSIGN(const auto metrics, open_metrics(command.metrics, watched));
  S3O_ASSIGN(const auto memory, watch_memory(watched.files, cache_of(command)));
  SignalWatch signals;
  S3O_TRY(signals.start([&](int signal) { act_on_signal(signal, *mount, locker); }));
  IdleWatch idle;
  if (command.idle)
    S3O_TRY(idle.start(*command.idle, {[&] { return mount->last_use(); },
                                       [&] { return unmount_idle(command.mountpoint); }}));
  const HealthWatch health([&watched] { return look_at_health(watched); });
  S3O_TRY(mount->start(std::move(entrance.cpu_latency)));
  const Status told = entrance.ready();
  if (!told) SignalWatch::end_mount();
  const Status waited = mount->wait();
  watched.files.end_backups();  // the control socket waits for backups that were requested
  S3O_TRY(waited);
  S3O_TRY(told);
  return mount->hold();
}

}  // namespace s3oram
