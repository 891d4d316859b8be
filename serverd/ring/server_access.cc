// Accesses at the server: buckets at points, and the log of the newest writes.
#include <cstring>

#include "oramcore/base/rules.h"
#include "oramcore/field/gf256.h"
#include "serverd/ring/server.h"

namespace s3oram::ring {

Task<Result<Bytes>> Server::retrieve(RetrieveRequest request) {
  if (request.asks.size() > kMaxHeight + 1) co_return malformed();
  std::vector<BucketVersionRef> refs;
  Status status;
  for (const Ask& ask : request.asks) {
    auto ref = pin(ask.bucket, ask.stamp);
    if (!ref) {
      status = fail(ref.error());
      break;
    }
    refs.push_back(*ref);
  }
  // Written down before anything is answered: durable with the turn's own write at the latest.
  for (std::size_t i = 0; i < refs.size() && status; ++i)
    status = asked_->add(refs[i].bucket_version, request.asks[i].stamp, request.asks[i].point);
  if (status) {
    const auto turns = asked_->turns();
    if (turns && *turns <= request.turn) status = asked_->set_turns(request.turn + 1);
    if (!turns) status = fail(turns.error());
  }
  std::vector<Result<Bytes>> values;
  if (status) {
    std::vector<Task<Result<Bytes>>> evaluating;
    for (std::size_t i = 0; i < refs.size(); ++i)
      evaluating.push_back(value_at(refs[i], request.asks[i]));
    values = co_await all(std::move(evaluating));
  }
  for (const BucketVersionRef& ref : refs) unpin(ref);
  S3O_CO_TRY(status);
  RetrieveAnswer answer;
  for (const auto& value : values) {
    if (!value && value.error().code != Errc::corrupt) co_return fail(value.error());
    answer.values.push_back(value ? ByteSpan(*value) : ByteSpan());
  }
  co_return encode(answer);
}

/// Errors: corrupt (rows of the bucket are lost).
Task<Result<Bytes>> Server::value_at(BucketVersionRef ref, Ask ask) {
  co_return co_await offload(readers_, [this, ref, ask]() -> Result<Bytes> {
    S3O_ASSIGN(const auto version, rows_->read(ref, level_of(ask.bucket)));
    std::vector<const std::uint8_t*> rows;
    for (std::size_t row = 0; row < params_->bucket_size; ++row) rows.push_back(version->slot(row));
    Bytes value(params_->row_size);
    gf::inner_product(powers(ask.point, rows.size()), rows, value);
    return value;
  });
}

Result<std::uint64_t> Server::logged(std::uint32_t slot) {
  if (const auto known = logged_.find(slot); known != logged_.end()) return known->second;
  S3O_ASSIGN(const auto found, bucket_store_->read_slot(kRootBuffer, slot));
  return logged_[slot] = found ? found->stamp : 0;
}

Task<Result<Bytes>> Server::write_log(WriteLogRequest request) {
  if (request.access == 0 || request.sealed.size() != params_->slot_size) co_return malformed();
  const std::uint32_t slot = params_->slot_of(request.turn);
  S3O_CO_ASSIGN(const std::uint64_t before, logged(slot));
  if (request.access < before)
    co_return fail(Errc::bad_request, "the log slot of turn {} has a newer access", request.turn);
  logged_[slot] = request.access;
  Bytes content(request.sealed.begin(), request.sealed.end());
  content.resize(params_->row_size);
  std::memcpy(content.data() + params_->slot_size, &request.turn, sizeof request.turn);
  auto write = [this, slot, content = std::move(content), access = request.access]() -> Status {
    S3O_TRY(bucket_store_->write_slot(kRootBuffer, slot, content, access));
    return rule_holds(Rule::durable_answers) ? asked_->sync() : Status{};
  };
  S3O_CO_TRY(co_await sync_->write(std::move(write)));
  co_return done();
}

Task<Result<Bytes>> Server::read_log(ReadLogRequest request) {
  if (request.count > rows_in_message(*params_) || request.first >= params_->log_slots ||
      request.count > params_->log_slots - request.first)
    co_return malformed();
  using Slot = std::optional<BucketStore::StampedSlot>;
  S3O_CO_ASSIGN(const auto slots,
                co_await offload(readers_, [this, request]() -> Result<std::vector<Slot>> {
                  std::vector<Slot> found;
                  for (std::uint32_t i = 0; i < request.count; ++i) {
                    S3O_ASSIGN(auto slot, bucket_store_->read_slot(kRootBuffer, request.first + i));
                    found.push_back(std::move(slot));
                  }
                  return found;
                }));
  ReadLogAnswer answer;
  for (const Slot& slot : slots) {
    LoggedBlock& logged = answer.slots.emplace_back();
    if (!slot) continue;
    logged.access = slot->stamp;
    std::memcpy(&logged.turn, slot->content.data() + params_->slot_size, sizeof logged.turn);
    logged.sealed = ByteSpan(slot->content).first(params_->slot_size);
  }
  co_return encode(answer);
}

Task<Result<Bytes>> Server::layout(LayoutRequest request) {
  if (request.most == 0 || request.most > LayoutRequest::kMost) co_return malformed();
  LayoutAnswer answer;
  for (const auto& [bucket, ref] : control_.layout()) {
    if (bucket < request.from) continue;
    if (answer.versions.size() == request.most) break;
    S3O_CO_ASSIGN(const AskedPoints asked, asked_->of(ref.bucket_version, *ref.stamp));
    answer.versions.push_back({bucket, *ref.stamp, asked});
  }
  co_return encode(answer);
}

}  // namespace s3oram::ring
