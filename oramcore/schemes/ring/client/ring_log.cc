// The log of the newest writes at the server, and top.cache, which has the top's blocks here.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/ring_engine.h"

namespace s3oram::ring {
namespace {

OpaqueSealer::SealedLabel packed_label(const Label& label) {
  OpaqueSealer::SealedLabel packed;
  const std::uint64_t back = label_back(label);
  std::memcpy(packed.data(), &label.block, 8);
  std::memcpy(packed.data() + 8, &label.version, 8);
  std::memcpy(packed.data() + kLabelFront, &back, kLabelBack);
  return packed;
}

}  // namespace

Bytes sealed_block(OpaqueSealer& sealer, const Label& label, ByteSpan content) {
  return sealer.seal(packed_label(label), content);
}

Result<OpenedBlock> RingEngine::opened(ByteSpan sealed, BlockId block,
                                       std::uint64_t version) const {
  S3O_ASSIGN(auto found, sealer_.open(sealed));
  const auto label = read_label(found.label);
  if (!label || label->block != block || label->version != version)
    return fail(Errc::corrupt, "block {}: another block or version came back", block);
  return OpenedBlock{*label, std::move(found.content)};
}

Task<Status> RingEngine::write_log(Turn turn, Label label, std::uint64_t replaces, ByteSpan content,
                                   std::function<void(Status)> written) {
  LogWrite write{.block = label.block, .replaces = replaces, .place = {}, .written = {}};
  const std::uint64_t access = next_access_++;
  label.version = access;
  const Bytes sealed = sealed_block(sealer_, label, content);
  std::vector<Task<Status>> both;
  both.push_back(send_log(turn, access, sealed));
  if (label.block != kNoBlock) {
    write.place = {.kind = Place::Kind::top,
                   .leaf = *label.leaf,
                   .version = access,
                   .cache_slot = cache_.take(),
                   .turn = turn};
    both.push_back(keep_in_cache(write.place.cache_slot, sealed));
  }
  auto done = co_await all(std::move(both));
  for (auto& status : done)
    // The turn stays unacknowledged for ever, and with it all that follow.
    if (!status) die(status.error());
  if (dead_) co_return fail(*dead_);
  write.written = std::move(written);
  log_writes_[turn] = std::move(write);
  acknowledge_in_order();
  while (!dead_ && tree_.written <= turn) co_await changed_.wait();
  if (tree_.written <= turn) co_return fail(*dead_);
  co_return Status{};
}

/// Not over the only other copy of a block of the top: that one is being logged again.
Task<Status> RingEngine::send_log(Turn turn, std::uint64_t access, ByteSpan sealed) {
  const WriteLogRequest request{
      .epoch = session_.epoch, .turn = turn, .access = access, .sealed = sealed};
  Bytes message = encode(request);
  const auto still_needed = [this, turn]() -> bool {
    if (turn < params_.log_slots) return false;
    const auto found = places_.top().find(turn - params_.log_slots);
    return found != places_.top().end() && !is_given_up(found->second);
  };
  while (!dead_ && rule_holds(Rule::log_again) && still_needed()) co_await changed_.wait();
  if (dead_) co_return fail(*dead_);
  auto answer = co_await servers_.ask(kServer, WriteLogRequest::kType, std::move(message));
  if (!answer) co_return fail(answer.error());
  co_return Status{};
}

/// Errors of the disk may pass: somebody makes room on it.
Task<Status> RingEngine::keep_in_cache(CacheSlot slot, ByteSpan sealed) {
  for (;;) {
    Status written =
        co_await offload(environment_.pool, [&] { return cache_.write(slot, sealed); });
    if (written) co_return written;
    if (dead_) co_return fail(*dead_);
    if (told_of_cache_.pass(environment_.clock.now()))
      spdlog::error("top.cache: {}; trying again{}", written.error().message,
                    told_of_cache_.more());
    co_await environment_.clock.sleep(Servers::kRetryAfter);
  }
}

void RingEngine::acknowledge_in_order() {
  for (;;) {
    const auto next = log_writes_.find(tree_.written);
    if (next == log_writes_.end()) break;
    LogWrite write = std::move(next->second);
    log_writes_.erase(next);
    pending_.records[tree_.written] = std::nullopt;
    if (write.block != kNoBlock) {
      if (places_.get(write.block).version == write.replaces) {
        set_place(write.block, write.place);
        mark_readable(write.block);
      } else {
        cache_.give_back(write.place.cache_slot);
      }
    }
    ++tree_.written;
    if (write.written) write.written({});
  }
  changed_.notify_all();
  begin_rewrites();
}

// ---- top.cache

/// Errors: corrupt. A slot that has rotted is read from the log, with all others of the log: a
/// single one would show which block is wanted.
Task<Result<OpenedBlock>> RingEngine::read_top(BlockId block, Place place) {
  ++cache_reads_[place.cache_slot];
  co_return co_await read_held(block, place);
}

/// The same of a slot that is held (hold_cached()), and then no more.
Task<Result<OpenedBlock>> RingEngine::read_held(BlockId block, Place place) {
  const auto read = [this, place] { return cache_.read(place.cache_slot); };
  auto sealed = co_await offload(environment_.pool, read);
  Result<OpenedBlock> found =
      sealed ? opened(*sealed, block, place.version) : Result<OpenedBlock>(fail(sealed.error()));
  if (!found && !dead_ && places_.get(block) == place) {
    spdlog::error("top.cache: {}; the log is read again", found.error().message);
    const Turn all = params_.log_slots;
    const Status refilled = co_await refill_cache(tree_.written > all ? tree_.written - all : 0);
    sealed = co_await offload(environment_.pool, read);
    if (refilled && sealed) found = opened(*sealed, block, place.version);
  }
  if (--cache_reads_[place.cache_slot] == 0) {
    cache_reads_.erase(place.cache_slot);
    if (cache_freed_.erase(place.cache_slot) > 0) cache_.give_back(place.cache_slot);
  }
  co_return found;
}

/// Once nobody reads it any more.
void RingEngine::give_back(CacheSlot slot) {
  if (cache_reads_.contains(slot))
    cache_freed_.insert(slot);
  else
    cache_.give_back(slot);
}

/// Writes to the cache what the log has of the turns from `from` on: all of them, whichever blocks
/// are still there. What the log lacks stays as it is in the cache.
Task<Status> RingEngine::refill_cache(Turn from) {
  const Turn until = tree_.written;
  for (Turn turn = from; turn < until;) {
    const std::uint32_t first = params_.slot_of(turn);
    const auto count = static_cast<std::uint32_t>(
        std::min<Turn>({until - turn, params_.log_slots - first, rows_in_message(params_)}));
    const ReadLogRequest request{session_.epoch, first, count};
    S3O_CO_ASSIGN(const auto answer,
                  co_await servers_.ask(kServer, ReadLogRequest::kType, encode(request)));
    const auto log = decode<ReadLogAnswer>(answer.body());
    if (!log || log->slots.size() != count)
      co_return fail(Errc::corrupt, "server {} answers nonsense", kServer);
    for (std::uint32_t i = 0; i < count; ++i, ++turn) {
      const LoggedBlock& logged = log->slots[i];
      const auto found = places_.top().find(turn);
      if (found == places_.top().end() || logged.turn != turn) continue;
      const Place place = places_.get(found->second);
      if (!opened(logged.sealed, found->second, place.version)) continue;
      S3O_CO_TRY(co_await offload(environment_.pool,
                                  [&] { return cache_.write(place.cache_slot, logged.sealed); }));
    }
  }
  co_return co_await sync_cache();
}

/// With the next commit it is known that the cache has durably what is acknowledged now. A sync
/// that failed is not tried again: what it should have made durable may be lost, and is in the log.
Task<Status> RingEngine::sync_cache() {
  const Turn written = tree_.written;
  Status synced = co_await offload(environment_.pool, [this] { return cache_.sync(); });
  if (!synced) {
    die({synced.error().code, fmt::format("top.cache: {}", synced.error().message)});
    co_return fail(*dead_);
  }
  tree_.synced = std::max(tree_.synced, written);
  co_return Status{};
}

}  // namespace s3oram::ring
