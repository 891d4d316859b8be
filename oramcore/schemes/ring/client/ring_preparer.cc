// Seals, stores and prepares the new versions of a rewrite's buckets.
#include "oramcore/schemes/ring/client/ring_preparer.h"

#include <cstring>

#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {

void RingPreparer::begin_session() {
  next_attempt_ = static_cast<std::uint32_t>(ring_.environment.random.u64());
}

EvictionId RingPreparer::new_attempt(const Rewrite& rewrite) {
  EvictionId id{rewrite.number, {}};
  ring_.environment.random.fill(id.attempt);
  const std::uint64_t stamp = rewrite.number << 32 | next_attempt_++;
  std::memcpy(id.attempt.data(), &stamp, sizeof stamp);
  return id;
}

Task<Status> RingPreparer::store(const Rewrite& rewrite, const EvictionId& id,
                                 const EvictionPlan& plan, Moved& moved) {
  for (unsigned level = rewrite.first; level <= rewrite.last; ++level) {
    const BucketIndex bucket = bucket_on_path(rewrite.leaf, level);
    std::vector<OpenedBlock> contents;
    for (const Candidate& each : plan.buckets[level - rewrite.first]) {
      OpenedBlock& block = contents.emplace_back(std::move(moved.blocks.at(each.block)));
      block.label.leaf = each.leaf;
    }
    // Empty blocks fill the bucket, sealed like others. So sealing takes the same time whatever the
    // bucket holds, and a client that has lost everything else can see whether the whole bucket is
    // readable.
    while (contents.size() < ring_.params.bucket_size)
      contents.push_back({Label{}, Bytes(ring_.params.block_size)});
    const Seed seed = ring_.environment.random.seed();
    Bytes rows = co_await offload(ring_.environment.pool, [&] {
      Prg random(seed, as_bytes("ring bucket"));
      OpaqueSealer sealer(sealing_key_, random);
      std::vector<Bytes> sealed;
      for (const OpenedBlock& each : contents)
        sealed.push_back(sealed_block(sealer, each.label, each.content));
      return ring_.codec.encode(bucket, stamp_of(id.attempt), sealed);
    });
    if (ring_.dead) co_return fail(*ring_.dead);
    S3O_CO_TRY(co_await store_bucket(bucket, id, std::move(rows)));
  }
  co_return Status{};
}

Task<Status> RingPreparer::store_bucket(BucketIndex bucket, const EvictionId& id, Bytes rows) {
  const std::size_t at_once = rows_in_message(ring_.params) * std::size_t{ring_.params.row_size};
  std::vector<Task<Result<Payload>>> asking;
  for (std::size_t at = 0; at < rows.size(); at += at_once) {
    const StoreRowsRequest request{
        .epoch = ring_.session.epoch,
        .id = id,
        .bucket = bucket,
        .first = static_cast<std::uint16_t>(at / ring_.params.row_size),
        .rows = ByteSpan(rows).subspan(at, std::min(at_once, rows.size() - at))};
    asking.push_back(ring_.servers.ask_once(kServer, StoreRowsRequest::kType, encode(request)));
  }
  const auto answers = co_await all(std::move(asking));
  for (const auto& answer : answers) {
    if (answer) continue;
    if (answer.error().code == Errc::bad_request || answer.error().code == Errc::fenced)
      ring_.die(answer.error());
    co_return fail(answer.error());
  }
  co_return Status{};
}

Task<Status> RingPreparer::prepare(const Rewrite& rewrite, const EvictionId& id,
                                   unsigned next_height) {
  PrepareRequest request{.epoch = ring_.session.epoch,
                         .id = id,
                         .next_height = static_cast<std::uint8_t>(next_height),
                         .buckets = {}};
  for (unsigned level = rewrite.first; level <= rewrite.last; ++level)
    request.buckets.push_back(bucket_on_path(rewrite.leaf, level));
  attempt_ = id;
  auto answer = co_await ring_.servers.ask_once(kServer, PrepareRequest::kType, encode(request));
  if (answer) co_return Status{};
  const Errc code = answer.error().code;
  if (code == Errc::fenced || code == Errc::stale_vault || code == Errc::bad_request)
    ring_.die(answer.error());
  co_return fail(answer.error());
}

Task<Status> RingPreparer::discard(const EvictionId& id) {
  S3O_CO_TRY(co_await ring_.servers.ask_all(Bytes(1, kServer), DiscardRequest::kType,
                                            encode(DiscardRequest{ring_.session.epoch, id})));
  attempt_.reset();
  co_return Status{};
}

}  // namespace s3oram::ring
