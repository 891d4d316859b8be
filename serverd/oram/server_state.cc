// Checks whether a request belongs to the open session and to the current tree.
#include "serverd/oram/server_state.h"

#include <utility>

#include "oramcore/base/rules.h"

namespace s3oram {

ServerState::ServerState(Control opened, std::filesystem::path store, Party number,
                         const ServerEnvironment& environment)
    : control(std::move(opened)),
      directory(std::move(store)),
      self(number),
      executor(environment.executor),
      pool(environment.pool),
      background(environment.background),
      readers(environment.readers),
      clock(environment.clock),
      random(environment.random),
      disk(environment.disk),
      transport(environment.transport),
      memory(environment.memory),
      cache_bytes(environment.cache_bytes),
      metrics(environment.metrics),
      record(environment.record, control),
      root_buffer(number),
      rpc(executor, clock, random, environment.transport) {}

Status ServerState::check_open() const {
  if (!open) return fail(Errc::need_open, "the server was restarted");
  return {};
}

Status ServerState::check_session(std::uint64_t epoch) const {
  S3O_TRY(check_open());
  if (epoch != control.session().epoch && rule_holds(Rule::epochs))
    return fail(epoch < control.session().epoch ? Errc::fenced : Errc::need_open,
                "epoch {} is not open here; epoch {} is", epoch, control.session().epoch);
  return {};
}

Status ServerState::check_evictions_until(std::uint64_t tree_version) const {
  if (tree_version <= control.tree_version()) return {};
  return fail(Errc::wrong_volume,
              "server {} has lost evictions {} to {}: its store was set back to an old state", self,
              control.tree_version(), tree_version - 1);
}

Status ServerState::check_tree_version(std::uint64_t tree_version) const {
  S3O_TRY(check_evictions_until(tree_version));
  if (tree_version != control.tree_version())
    return fail(Errc::bad_request, "tree version {} is not the current one, {}", tree_version,
                control.tree_version());
  return {};
}

std::size_t ServerState::most_under_way() const {
  constexpr std::size_t kMostUnderWay = 4096, kBytesUnderWay = 128 << 20;
  const std::size_t fitting = kBytesUnderWay / params().slot_size();
  return std::max<std::size_t>(2 * params().root_buffer_slots(), std::min(kMostUnderWay, fitting));
}

}  // namespace s3oram
