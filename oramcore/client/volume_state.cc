// The state that the parts of an engine share, and the changes that must be made together.
#include "oramcore/client/volume_state.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {

VolumeState::VolumeState(const ClientEnvironment& used, const VolumeId& volume,
                         const VolumeParams& its_params, std::unique_ptr<ClientScheme> its_scheme,
                         std::function<void(Task<void>)> start_task)
    : environment(used),
      params(its_params),
      scheme(std::move(its_scheme)),
      servers(used.executor, used.clock, used.random, used.transport, volume,
              its_params.scheme.servers, its_params.scheme.threshold),
      in_step(its_params),
      metrics(used.metrics),
      start(std::move(start_task)),
      access_records(its_params.root_buffer_slots()) {
  servers.set_may_do_without(
      [this](Party server) { return in_step.may_shrink() && in_step.may_do_without(server); });
}

void VolumeState::die(Error reason) {
  if (dead) return;
  spdlog::error("the volume cannot go on: {}", reason.message);
  dead = std::move(reason);
  servers.stop();
  changed.notify_all();
}

bool VolumeState::is_given_up(BlockId block) const {
  const auto found = unreadable.find(block);
  return found != unreadable.end() && found->second;
}

void VolumeState::mark_unreadable(BlockId block) {
  unreadable[block] = true;
  pending.unreadable[block] = true;
}

void VolumeState::mark_unreadable(SlotAddress at) {
  for (const Resident& resident : positions.contents(at.bucket))
    if (resident.slot == at.slot) mark_unreadable(resident.block);
}

void VolumeState::mark_readable(BlockId block) {
  if (unreadable.erase(block) > 0) pending.unreadable[block] = false;
}

void VolumeState::set_position(BlockId block, const Position& position) {
  if (positions.get(block).kind == Position::Kind::stash &&
      position.kind != Position::Kind::stash) {
    stash.erase(block);
    pending.stash[block].reset();
  }
  positions.set(block, position);
  pending.positions[block] =
      StateChanges::Row{PositionMap::pack(position, tree.height), position.version};
}

bool VolumeState::forget(BlockId block) {
  mark_readable(block);
  if (positions.get(block).kind == Position::Kind::unmapped) return false;
  positions.set(block, {});
  pending.positions[block].reset();
  if (stash.erase(block) > 0) pending.stash[block].reset();
  return true;
}

void VolumeState::keep_in_stash(BlockId block, const OpenedBlock* content) {
  Position position = positions.get(block);
  Bytes sealed;
  if (content) {
    Label label = content->label;
    label.leaf = position.leaf;
    sealed = scheme->seal(label, content->content);
  }
  position.kind = Position::Kind::stash;
  position.level = 0;
  position.slot = 0;
  set_position(block, position);
  pending.stash[block] = sealed;
  stash[block] = std::move(sealed);
}

Leaf VolumeState::leaf_of(BlockId block) {
  const Position position = positions.get(block);
  return position.kind == Position::Kind::tree ? position.leaf : random_leaf(environment.random);
}

bool VolumeState::is_found_by(Leaf leaf, BlockId block) const {
  const Position position = positions.get(block);
  return position.kind == Position::Kind::stash ||
         (position.kind == Position::Kind::tree && position.leaf == leaf);
}

bool VolumeState::is_newest(BlockId block, const Label& label) const {
  return label.block == block && label.version == positions.get(block).version;
}

bool VolumeState::is_resident(const Label& label, SlotAddress at) const {
  for (const Resident& resident : positions.contents(at.bucket))
    if (resident.slot == at.slot)
      return label.block == resident.block && label.version == resident.version;
  return true;
}

bool VolumeState::has_slot(SlotAddress at) const {
  return at.bucket >= kRoot && at.bucket <= bucket_count(tree.height) &&
         at.slot < (at.bucket == kRoot ? params.root_slots() : params.bucket_size);
}

Position VolumeState::position_read(BlockId block) const {
  Position position = positions.get(block);
  const auto moved = versions.former.find(block);
  if (moved != versions.former.end() && moved->second.version == position.version)
    return moved->second;
  position.level =
      static_cast<std::uint8_t>(std::min<unsigned>(position.level, versions.read.height));
  return position;
}

Task<Result<Payload>> VolumeState::ask_again(Party server, MessageType type, Bytes message,
                                             Duration patience) {
  const Duration begun = now();
  for (bool again = false;; again = true) {
    auto answer = co_await servers.ask_once(server, type, message, {}, patience);
    if (answer || dead || answer.error().code != Errc::need_open) co_return answer;
    if (now() - begun >= patience) co_return answer;
    if (again) co_await environment.clock.sleep(Servers::kRetryAfter);
  }
}

std::set<Party> VolumeState::servers_in_step() const {
  const Bytes members = in_step.members();
  return {members.begin(), members.end()};
}

std::vector<std::uint64_t> VolumeState::acknowledged_root(std::uint64_t from) const {
  std::vector<std::uint64_t> root;
  for (WriteNumber write_number = first_write_number(from, params.evict_every);
       write_number < tree.written; ++write_number)
    root.push_back(access_records[root_slot(write_number, params.evict_every)].access);
  return root;
}

void VolumeState::note_rewritten(BucketIndex bucket) {
  if (rewritten.insert(bucket).second) pending.rewritten = rewritten;
}

void VolumeState::forget_rewritten() {
  if (rewritten.empty()) return;
  rewritten.clear();
  pending.rewritten = rewritten;
}

}  // namespace s3oram
