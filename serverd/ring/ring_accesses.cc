// Carries out a ring's accesses.
#include "serverd/ring/ring_accesses.h"

#include <cstring>

#include "oramcore/field/gf256.h"

namespace s3oram::ring {
namespace {

/// Far more turns than there will ever be, so that adding 1 to a turn cannot overflow.
constexpr Turn kMostTurns = Turn{1} << 63;

}  // namespace

Task<Result<Bytes>> RingAccesses::retrieve(RetrieveRequest request) {
  if (request.asks.size() > kMaxHeight + 1 || request.turn >= kMostTurns) co_return malformed();
  std::vector<BucketVersionRef> refs;
  Status status;
  for (const Ask& ask : request.asks) {
    auto ref = store_.pin(ask.bucket, ask.stamp);
    if (!ref) {
      status = fail(ref.error());
      break;
    }
    refs.push_back(*ref);
  }
  // Recorded before anything is answered, and durable with the turn's own write at the latest.
  for (std::size_t i = 0; i < refs.size() && status; ++i)
    status =
        store_.asked().add(refs[i].bucket_version, request.asks[i].stamp, request.asks[i].point);
  if (status) status = store_.asked().add_turn(request.turn);
  if (status) record_.retrieval(request);
  std::vector<Result<Bytes>> values;
  if (status) {
    std::vector<Task<Result<Bytes>>> evaluating;
    for (std::size_t i = 0; i < refs.size(); ++i)
      evaluating.push_back(value_at(refs[i], request.asks[i]));
    values = co_await all(std::move(evaluating));
  }
  for (const BucketVersionRef& ref : refs) store_.unpin(ref);
  S3O_CO_TRY(status);
  RetrieveAnswer answer;
  for (const auto& value : values) {
    if (!value && value.error().code != Errc::corrupt) co_return fail(value.error());
    answer.values.push_back(value ? ByteSpan(*value) : ByteSpan());
  }
  co_return encode(answer);
}

/// Returns the bucket's value at the requested point. Errors: corrupt (rows of the bucket are
/// lost).
Task<Result<Bytes>> RingAccesses::value_at(BucketVersionRef ref, Ask ask) {
  co_return co_await offload(state_.readers, [this, ref, ask]() -> Result<Bytes> {
    S3O_ASSIGN(const auto version, store_.rows().read(ref, level_of(ask.bucket)));
    std::vector<const std::uint8_t*> rows;
    for (std::size_t row = 0; row < store_.params().bucket_size; ++row)
      rows.push_back(version->slot(row));
    Bytes value(store_.params().row_size);
    gf::inner_product(powers(ask.point, rows.size()), rows, value);
    return value;
  });
}

Result<std::uint64_t> RingAccesses::logged(std::uint32_t slot) {
  if (const auto known = logged_.find(slot); known != logged_.end()) return known->second;
  const auto found = state_.bucket_store->read_slot(kRootBuffer, slot);
  if (!found && found.error().code == Errc::damaged_vault) return fail(found.error());
  // A slot that cannot be read may be overwritten: only an earlier session can have written it, and
  // late requests of that session are refused.
  return logged_[slot] = found && *found ? (*found)->stamp : 0;
}

Task<Result<Bytes>> RingAccesses::write_log(WriteLogRequest request) {
  if (request.access == 0 || request.sealed.size() != store_.params().slot_size ||
      request.turn >= kMostTurns)
    co_return malformed();
  const std::uint32_t slot = store_.params().slot_of(request.turn);
  S3O_CO_ASSIGN(const std::uint64_t before, logged(slot));
  if (request.access < before)
    co_return fail(Errc::bad_request, "the log slot of turn {} has a newer access", request.turn);
  // Recorded again, because a power cut may have come between the retrieval's answer and this.
  S3O_CO_TRY(store_.asked().add_turn(request.turn));
  logged_[slot] = request.access;
  record_.log(RingRecord::Cause::root, RingRecord::Operation::write, slot, 1);
  Bytes content(request.sealed.begin(), request.sealed.end());
  content.resize(store_.params().row_size);
  std::memcpy(content.data() + store_.params().slot_size, &request.turn, sizeof request.turn);
  auto write = [this, slot, content = std::move(content), access = request.access] {
    return state_.bucket_store->write_slot(kRootBuffer, slot, content, access);
  };
  S3O_CO_TRY(co_await state_.sync->write(std::move(write)));
  co_return done();
}

Task<Result<Bytes>> RingAccesses::read_log(ReadLogRequest request) {
  if (request.count > rows_in_message(store_.params()) ||
      request.first >= store_.params().log_slots ||
      request.count > store_.params().log_slots - request.first)
    co_return malformed();
  record_.log(RingRecord::Cause::upkeep, RingRecord::Operation::read, request.first, request.count);
  S3O_CO_ASSIGN(const auto slots, co_await offload(state_.readers, [this, request] {
                  return log_slots(request.first, request.count);
                }));
  ReadLogAnswer answer;
  for (const LogSlot& slot : slots) {
    LoggedBlock& logged = answer.slots.emplace_back();
    if (slot.is_lost) logged.turn = LoggedBlock::kLost;
    if (!slot.content) continue;
    logged.access = slot.content->stamp;
    logged.turn = store_.turn_in(*slot.content);
    logged.sealed = ByteSpan(slot.content->content).first(store_.params().slot_size);
  }
  co_return encode(answer);
}

/// Reads all slots before it fails, so that patience with each of them begins now.
Result<std::vector<RingAccesses::LogSlot>> RingAccesses::log_slots(std::uint32_t first,
                                                                   std::uint32_t count) {
  std::vector<LogSlot> slots;
  Status status;
  for (std::uint32_t slot = first; slot < first + count; ++slot) {
    auto found = state_.bucket_store->read_slot(kRootBuffer, slot);
    if (!found && found.error().code == Errc::damaged_vault) return fail(found.error());
    if (found)
      patience_.end(slot);
    else if (patience_.waits_for(slot))
      status = fail(Errc::failed, "slot {} of the log cannot be read from the disk", slot);
    LogSlot& taken = slots.emplace_back();
    if (found) taken.content = std::move(*found);
    // (If no stamp is given, a slot that was never written counts as foreign.)
    taken.is_lost = !taken.content && !state_.bucket_store->is_foreign(kRootBuffer, slot, {}, {});
  }
  S3O_TRY(status);
  return slots;
}

Task<Result<Bytes>> RingAccesses::layout(LayoutRequest request) {
  if (request.most == 0 || request.most > LayoutRequest::kMost) co_return malformed();
  LayoutAnswer answer;
  for (const auto& [bucket, ref] : state_.control.layout()) {
    if (bucket < request.from) continue;
    if (answer.versions.size() == request.most) break;
    answer.versions.push_back(
        {bucket, *ref.stamp, store_.asked().of(ref.bucket_version, *ref.stamp)});
  }
  co_return encode(answer);
}

}  // namespace s3oram::ring
