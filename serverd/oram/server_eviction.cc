// One server's part in evictions: prepare, commit, discard, release.
#include <algorithm>
#include <cstring>

#include "oramcore/base/rules.h"
#include "serverd/oram/server.h"

namespace s3oram {
namespace {

// Limits of the subshares of one peer for attempts not yet known here: so many, and at most three
// steps of a whole path.
constexpr std::size_t kEarlySubshares = 4096, kEarlyPaths = 3;

/// Returns the stamp of an attempt's slots: two attempts at one eviction share the same content
/// differently.
std::uint64_t stamp_of(const EvictionId& id) {
  std::uint64_t stamp = 0;
  std::memcpy(&stamp, id.attempt.data(), sizeof stamp);
  return stamp;
}

}  // namespace

Task<Result<Bytes>> Server::reserve(ReserveRequest request, Payload&) {
  // The client may already have decided what is prepared here, or have asked before the tree grew.
  if (request.height > std::min(control_.next_height() + 1u, kMaxHeight)) co_return malformed();
  if (request.height < control_.height()) co_return done();
  if (request.height > control_.height() && !control_.find_ballast(request.height))
    co_return fail(Errc::disk_full, "the disk of server {} is full", self_);
  const auto begun = sync_->begin();
  S3O_CO_TRY(
      co_await offload(background_, [&] { return reserve_bucket_versions(request.height); }));
  S3O_CO_TRY(co_await sync_->sync(begun));
  co_return done();
}

Result<Bytes> Server::room() {
  if (!bucket_store_) return fail(Errc::wrong_volume, "server {} holds no volume", self_);
  const std::uint64_t possible = bucket_store_->possible_bucket_versions();
  unsigned height = control_.height();
  // While the ballast is given up, the disk counts as full: room goes to the ballast first.
  if (control_.find_ballast())
    while (height < kMaxHeight && control_.bucket_versions_needed(height + 1) <= possible) ++height;
  return encode(RoomAnswer{static_cast<std::uint8_t>(height)});
}

Status Server::reserve_bucket_versions(unsigned height) {
  if (!rule_holds(Rule::reserve_space)) return {};
  S3O_TRY(bucket_store_->reserve(control_.bucket_versions_needed(height)));
  reserved_height_ = height;
  return {};
}

Task<Result<Bytes>> Server::prepare(PrepareRequest request, Payload& owner) {
  // Reserves again, because this server may have been restarted since. A session that ends
  // meanwhile does not know of this attempt yet.
  if (request.next_height > reserved_height_ && request.next_height == control_.height() + 1u) {
    if (!control_.find_ballast(request.next_height))
      co_return fail(Errc::disk_full, "the disk of server {} is full", self_);
    S3O_CO_TRY(co_await offload(background_,
                                [&] { return reserve_bucket_versions(request.next_height); }));
    S3O_CO_TRY(check_session(request.epoch));
  }
  if (control_.prepared() == request.id) co_return prepared_answer(request.id);
  if (request.id.eviction != control_.tree_version() || request.height != control_.height() ||
      request.next_height < request.height ||
      request.next_height > std::min(request.height + 1u, kMaxHeight))
    co_return malformed();
  if (eviction_ || control_.prepared())
    co_return fail(Errc::bad_request, "another attempt is under way");
  EvictionInput input{*control_.volume(), request.epoch,    request.id,
                      request.height,     std::move(owner), request.orders};
  auto eviction = scheme_->make_eviction(
      std::move(input), {executor_, background_, clock_, rpc_, random_, [this] { return load(); }});
  if (!eviction) co_return fail(eviction.error());
  BucketRows writes;  // one that only follows may lack them
  if ((*eviction)->reads_path()) {
    S3O_CO_ASSIGN(auto rows, root_buffer_rows(PathSlots::evicted(params(), request.id.eviction,
                                                                 request.height)));
    writes = std::move(rows);
  }
  // The same attempt with fresh masks would give shares that do not fit together.
  if (rule_holds(Rule::attempts)) {
    if (control_.attempted(request.id))
      co_return fail(Errc::failed, "this attempt at eviction {} is over", request.id.eviction);
    S3O_CO_TRY(control_.attempt(request.id));
  }

  eviction_ = std::move(*eviction);
  auto result = co_await carry_out(*eviction_, request, std::move(writes));
  if (result) report_ = {request.id, eviction_->report()};
  eviction_.reset();
  eviction_over_.notify_all();
  // A peer's error must not look like our own answer to the client.
  if (!result)
    co_return fail(result.error().code == Errc::disk_full ? Errc::disk_full : Errc::failed,
                   "eviction {}: {}", request.id.eviction, result.error().message);
  co_return prepared_answer(request.id);
}

Bytes Server::prepared_answer(const EvictionId& id) const {
  if (report_.first != id || report_.second.empty()) return done();
  return encode(PrepareAnswer{report_.second});
}

Task<Status> Server::carry_out(Eviction& eviction, const PrepareRequest& request,
                               BucketRows writes) {
  S3O_CO_TRY(co_await load_path(eviction, request, std::move(writes)));
  for (auto& [from, messages] : early_)
    for (auto& [id, early] : messages) {
      if (id != request.id) continue;
      const auto subshare = decode<SubshareRequest>(early.body());
      eviction.receive(from, *subshare, std::move(early));
    }
  forget_early(request.id);
  S3O_CO_ASSIGN(auto results, co_await eviction.run());
  auto made = params().evictor == Evictor::matrix ? matrix_versions(request, std::move(results))
                                                  : path_versions(request, std::move(results));

  record_versions(made);
  const auto begun = sync_->begin();
  Status status = co_await offload(background_, [&]() -> Status {
    for (auto& [bucket_version, bucket, content] : made.writes)
      S3O_TRY(bucket_store_->write(bucket_version, std::move(content), stamp_of(request.id),
                                   depth_of(bucket)));
    return {};
  });
  if (status && rule_holds(Rule::durable_prepare)) status = co_await sync_->sync(begun);
  if (status) status = control_.prepare(request.id, request.next_height, made.versions);
  for (const auto& write : made.writes) control_.give_back(write.bucket_version);
  co_return status;
}

Server::NewVersions Server::new_versions(const EvictionId& id) const {
  return {
      .stamp = control_.has_stamps() ? Stamp(stamp_of(id)) : Stamp(), .versions = {}, .writes = {}};
}

void Server::add_version(NewVersions& to, BucketIndex bucket,
                         std::shared_ptr<BucketVersion> content) {
  const BucketVersionRef present = *control_.bucket(bucket, control_.tree_version());
  const bool in_place = !rule_holds(Rule::copy_on_write) && present.bucket_version != 0;
  const BucketVersionNumber bucket_version =
      in_place ? control_.reuse(present.bucket_version) : control_.allocate();
  to.writes.push_back({bucket_version, bucket, std::move(content)});
  to.versions.emplace_back(bucket,
                           BucketVersionRef{bucket_version, params().bucket_size, to.stamp});
}

Server::NewVersions Server::path_versions(const PrepareRequest& request, BucketBuffers buffers) {
  NewVersions made = new_versions(request.id);
  std::size_t at = 0;
  for (const BucketIndex bucket : path_buckets(params(), request.id.eviction, request.height))
    add_version(made, bucket, std::move(buffers[at++]));
  return made;
}

// A source bucket's content becomes that of its inner sibling; D_(H-1) is only a source. The
// buckets on the path above the leaf are empty afterwards.
Server::NewVersions Server::matrix_versions(const PrepareRequest& request, BucketBuffers buffers) {
  const unsigned height = request.height;
  NewVersions made = new_versions(request.id);
  const auto on_path = [&](unsigned level) { return bucket_on_path(request.id.eviction, level); };
  for (unsigned level = 1; level < height; ++level) {
    made.versions.emplace_back(on_path(level), BucketVersionRef{});
    add_version(made, sibling_of(on_path(level)), std::move(buffers[level - 1]));
  }
  add_version(made, on_path(height), std::move(buffers[height]));
  add_version(made, sibling_of(on_path(height)), std::move(buffers[height + 1]));
  return made;
}

Task<Status> Server::load_path(Eviction& eviction, const PrepareRequest& request,
                               BucketRows writes) {
  std::vector<BucketIndex> indices = path_buckets(params(), request.id.eviction, request.height);
  if (params().evictor == Evictor::matrix) indices.push_back(sibling_of(indices.back()));
  std::vector<BucketVersionRef> refs;
  for (const BucketIndex bucket : indices) {
    S3O_CO_ASSIGN(auto ref, control_.bucket(bucket, control_.tree_version()));
    refs.push_back(eviction.reads_path() ? ref : BucketVersionRef{});
  }
  record_eviction(PathSlots::evicted(params(), request.id.eviction, request.height), indices, refs);
  std::vector<Task<Result<std::shared_ptr<BucketVersion>>>> reads;
  for (const BucketVersionRef& ref : refs)
    reads.push_back(offload(readers_, [this, ref] { return bucket_store_->copy(ref); }));
  auto found = co_await all(std::move(reads));
  Status status;
  std::vector<PathBucket> path;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) {
      path.push_back({std::move(*found[i]), refs[i].slots});
    } else {
      damaged_.insert(indices[i]);
      status = fail(found[i].error());
    }
  }
  if (status) eviction.start_from(std::move(writes), std::move(path));
  co_return status;
}

// What the eviction made is read from the file: only what is there can be certified. All that this
// reads is of the eviction that is asked about: a commit may end it, and the tree may grow, while
// this waits.
Task<Result<Bytes>> Server::certify(CertifyRequest request, Payload&) {
  if (control_.prepared() != request.id)
    co_return fail(Errc::failed, "eviction {} is not prepared", request.id.eviction);
  const auto path = PathSlots::evicted(params(), request.id.eviction, control_.height());
  const auto checker = scheme_->check_rows(request.seed, path.count());
  if (!checker) co_return malformed();
  const auto buckets = path_buckets(params(), request.id.eviction, control_.height());
  S3O_CO_TRY(co_await check_old_rows(*checker, request.id.eviction, path, buckets));
  if (control_.prepared() != request.id)
    co_return fail(Errc::failed, "eviction {} is not prepared", request.id.eviction);
  S3O_CO_TRY(co_await check_new_rows(*checker, buckets));
  co_return encode(checker->answer(request.with_list));
}

Task<Status> Server::check_old_rows(RowChecker& checker, std::uint64_t tree_version,
                                    const PathSlots& path,
                                    const std::vector<BucketIndex>& buckets) {
  S3O_CO_ASSIGN(const auto writes, root_buffer_rows(path));
  co_await offload(background_, [&] {
    for (std::size_t i = 0; i < writes.rows.size(); ++i) checker.add_old(i, writes.rows[i]);
  });
  std::vector<Task<Status>> work;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    S3O_CO_ASSIGN(const auto ref, control_.bucket(buckets[i], tree_version));
    const std::size_t first = path.writes() + i * params().bucket_size;
    work.push_back(offload(background_, [&, ref, first, bucket = buckets[i]]() -> Status {
      if (ref.bucket_version == 0) return {};
      S3O_ASSIGN(const auto content, bucket_store_->read(ref, depth_of(bucket)));
      for (std::size_t slot = 0; slot < ref.slots; ++slot)
        checker.add_old(first + slot, content->slot(slot));
      return {};
    }));
  }
  auto ended = co_await all(std::move(work));
  Status status;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    if (ended[i]) continue;
    damaged_.insert(buckets[i]);
    status = ended[i];
  }
  co_return status;
}

Task<Status> Server::check_new_rows(RowChecker& checker, const std::vector<BucketIndex>& buckets) {
  std::vector<Task<Status>> work;
  const BucketVersions versions = control_.prepared_versions();  // of another one after an await
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const auto version =
        std::ranges::find(versions, buckets[i], [](const auto& each) { return each.first; });
    if (version == versions.end()) co_return malformed();
    const std::size_t first = i * params().bucket_size;
    work.push_back(offload(background_, [&, ref = version->second, first]() -> Status {
      S3O_ASSIGN(const auto content, bucket_store_->load(ref));
      for (std::size_t slot = 0; slot < ref.slots; ++slot)
        checker.add_new(first + slot, content->slot(slot));
      return {};
    }));
  }
  auto ended = co_await all(std::move(work));
  for (auto& status : ended) S3O_CO_TRY(status);
  co_return Status{};
}

Task<Result<Bytes>> Server::commit(CommitRequest request, Payload&) {
  if (control_.tree_version() == request.id.eviction + 1) co_return done();
  if (control_.prepared() != request.id)
    co_return fail(Errc::bad_request, "eviction {} is not prepared", request.id.eviction);
  S3O_CO_TRY(control_.commit());
  parts_changed_.notify_all();  // what waits for an evicted write waits in vain
  metrics_.evictions.add();
  damaged_.clear();
  early_.clear();
  co_return done();
}

Task<Result<Bytes>> Server::discard(DiscardRequest request, Payload&) {
  while (eviction_ && eviction_->id() == request.id) {
    eviction_->cancel({Errc::failed, "the client discards this attempt"});
    co_await eviction_over_.wait();
  }
  if (control_.prepared() == request.id) S3O_CO_TRY(control_.discard());
  // Or it is installed here, and at too few servers: the client has lost its own decision.
  S3O_CO_ASSIGN(const auto reverted, control_.revert(request.id));
  if (reverted) damaged_.clear();
  forget_freed();
  // Its Prepare may still be on the way.
  if (request.id.eviction == control_.tree_version() && !control_.attempted(request.id))
    S3O_CO_TRY(control_.attempt(request.id));
  forget_early(request.id);
  co_return done();
}

// Waits for retrievals of the tree version before, so that none, not even one that came twice, uses
// a bucket version that is freed.
Task<Result<Bytes>> Server::release(ReleaseRequest request, Payload&) {
  while (retrievals_.contains(request.id.eviction)) co_await handler_ended_.wait();
  if (control_.tree_version() == request.id.eviction + 1) control_.release();
  forget_freed();
  co_return done();
}

Result<Bytes> Server::subshare(Party from, Payload& request) {
  const auto message = decode<SubshareRequest>(request.body());
  if (!message) return malformed();
  S3O_TRY(check_session(message->epoch));
  if (eviction_ && eviction_->id() == message->id) {
    eviction_->receive(from, *message, std::move(request));
  } else if (message->id.eviction >= control_.tree_version() &&
             control_.prepared() != message->id) {
    if (control_.attempted(message->id))
      return fail(Errc::failed, "server {} has given up this attempt", self_);
    // The peer got its Prepare before us.
    auto& early = early_[from];
    std::size_t held = request.message.size();
    for (const auto& [id, other] : early) held += other.message.size();
    const auto path = PathSlots::evicted(params(), control_.tree_version(), control_.height());
    if (early.size() >= kEarlySubshares || held > kEarlyPaths * path.count() * params().slot_size())
      return fail(Errc::bad_request, "too many subshares for an unknown eviction");
    early.emplace_back(message->id, std::move(request));
  }
  return done();
}

void Server::forget_early(const EvictionId& id) {
  for (auto& [from, messages] : early_)
    std::erase_if(messages, [&](const auto& message) { return message.first == id; });
}

}  // namespace s3oram
