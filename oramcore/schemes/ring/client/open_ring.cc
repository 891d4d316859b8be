// The state that the parts of a ring's engine share, and the changes that must be made together.
#include "oramcore/schemes/ring/client/open_ring.h"

#include <spdlog/spdlog.h>

namespace s3oram::ring {

OpenRing::OpenRing(const ClientEnvironment& used, const VolumeId& its_volume,
                   const VolumeParams& its_params, const Seed& sealing_key,
                   std::unique_ptr<File> top, std::function<void(Task<void>)> start_task)
    : environment(used),
      volume(its_params),
      params(its_params),
      sealer(sealing_key, used.random),
      codec(params, sealing_key),
      blank(sealer.seal({}, Bytes(params.block_size))),
      metrics(used.metrics),
      cache(std::move(top), params.slot_size),
      servers(used.executor, used.clock, used.random, used.transport, its_volume, 1),
      start(std::move(start_task)) {}

void OpenRing::die(Error reason) {
  if (dead) return;
  spdlog::error("the volume cannot go on: {}", reason.message);
  dead = std::move(reason);
  servers.stop();
  changed.notify_all();
}

bool OpenRing::is_given_up(BlockId block) const {
  const auto found = unreadable.find(block);
  return found != unreadable.end() && found->second;
}

std::optional<BlockId> OpenRing::last_logged_at(Turn turn) const {
  if (turn < params.log_slots) return std::nullopt;
  const auto found = places.top().find(turn - params.log_slots);
  if (found == places.top().end() || is_given_up(found->second)) return std::nullopt;
  return found->second;
}

void OpenRing::mark_unreadable(BlockId block) {
  unreadable[block] = true;
  pending.unreadable[block] = true;
}

void OpenRing::mark_readable(BlockId block) {
  not_cached.erase(block);
  if (unreadable.erase(block) > 0) pending.unreadable[block] = false;
}

void OpenRing::set_place(BlockId block, const Place& place) {
  const Place before = places.get(block);
  const bool stays = place.kind == Place::Kind::top && place.cache_slot == before.cache_slot;
  if (before.kind == Place::Kind::top && !stays) cache.give_back(before.cache_slot);
  places.set(block, place);
  pending.places[block] = place;
}

}  // namespace s3oram::ring
