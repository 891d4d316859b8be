// Reads everything that the server holds and finds the newest version of each block.
#include "oramcore/schemes/ring/client/ring_rebuild.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/schemes/ring/client/sealed_block.h"

namespace s3oram::ring {

RingRebuild::RingRebuild(const ClientEnvironment& environment, const VolumeId& volume,
                         const VolumeParams& params, const Seed& sealing_key, File& cache,
                         std::optional<FormerRing> former, Asked asked)
    : environment_(environment),
      volume_(volume),
      params_(params),
      sealer_(sealing_key, environment.random),
      codec_(params_, sealing_key),
      cache_(cache),
      former_(std::move(former)),
      servers_(environment.executor, environment.clock, environment.random, environment.transport,
               volume, 1),
      believed_(asked) {}

Task<Result<RingRebuild::Rebuilt>> RingRebuild::run(
    Duration patience, std::function<void(std::uint64_t looked_at, std::uint64_t of)> progress) {
  servers_.do_not_wait_for_stores();
  S3O_CO_ASSIGN(SurveyAnswer stands, co_await survey(patience));
  S3O_CO_TRY(co_await open_session(stands, patience));
  turns_ = stands.asked;
  S3O_CO_TRY(co_await read_log(stands));
  S3O_CO_ASSIGN(const auto versions, co_await layout(stands.height));
  std::uint64_t looked_at = 0;
  for (const HeldVersion& version : versions) {
    count_touches(version);
    S3O_CO_TRY(co_await read_bucket(version));
    if (progress) progress(++looked_at, versions.size());
  }
  co_return co_await finished(stands);
}

Task<Result<SurveyAnswer>> RingRebuild::survey(Duration patience) {
  S3O_CO_ASSIGN(const auto answer,
                co_await servers_.call_opened(1, SurveyRequest::kType,
                                              encode(SurveyRequest{volume_}), patience));
  const auto stands = decode<SurveyAnswer>(answer.body());
  if (!stands || stands->session.epoch + 1 >= kMostEpoch || stands->height < params_.top_levels ||
      stands->height > kMaxHeight || stands->rewrites >> 48 != 0 ||
      !may_have(stands->asked, *stands))
    co_return fail(Errc::corrupt, "server 1 sent an invalid answer");
  co_return *stands;
}

/// Returns whether this many turns can have been reserved. Accesses wait for the evictions that are
/// due, so there cannot be more than end_turn().
bool RingRebuild::may_have(Turn turns, const SurveyAnswer& stands) const {
  return turns <= params_.end_turn(stands.rewrites);
}

bool RingRebuild::is_last(const RingState::Loaded& former, const SurveyAnswer& stands) const {
  return std::ranges::find(former.sessions, stands.session) != former.sessions.end() &&
         stands.asked <= former.turns() && stands.rewrites <= former.tree.tree_version;
}

Task<Status> RingRebuild::open_session(SurveyAnswer& stands, Duration patience) {
  session_.epoch = stands.session.epoch + 1;
  environment_.random.fill(session_.nonce);
  if (former_ && !is_last(former_->loaded, stands)) former_.reset();
  if (former_) {
    // The server may never have heard of the earlier state's last session.
    session_.epoch = std::max(session_.epoch, former_->loaded.sessions.back().epoch + 1);
    S3O_CO_TRY(former_->state.add_session(session_));
  }
  Servers::Reconcile reconcile = [this, &stands](Party, OpenAnswer answer, Duration limit) {
    return settle(answer, stands, limit);
  };
  std::function<void(OpenRequest&)> present = [](OpenRequest& request) { request.root.clear(); };
  std::vector<Session> known{stands.session};
  S3O_CO_TRY(co_await servers_.open(std::move(known), session_, std::move(present),
                                    std::move(reconcile), patience));
  co_return Status{};
}

/// Decides about a prepared rewrite: it counts if the earlier state has decided it. Otherwise it
/// was not decided, and the blocks that it would have moved are still in the old versions and in
/// the log.
Task<Status> RingRebuild::settle(OpenAnswer answer, SurveyAnswer& stands, Duration patience) {
  if (!answer.prepared) co_return Status{};
  const bool decided = former_ && former_->loaded.tree.last_decided == *answer.prepared &&
                       former_->loaded.tree.tree_version == stands.rewrites + 1;
  if (!decided) {
    const DiscardRequest request{session_.epoch, *answer.prepared};
    S3O_CO_TRY(co_await servers_.call_opened(1, DiscardRequest::kType, encode(request), patience));
    co_return Status{};
  }
  const CommitRequest request{session_.epoch, *answer.prepared};
  S3O_CO_TRY(co_await servers_.call_opened(1, MessageType::commit, encode(request), patience));
  stands.rewrites = former_->loaded.tree.tree_version;
  stands.height = static_cast<std::uint8_t>(former_->loaded.tree.height);
  co_return Status{};
}

/// Returns where to record the place of the block with this label, if it is the newest copy so far;
/// otherwise null.
Place* RingRebuild::newest(const Label& label, Place::Kind where) {
  newest_ = std::max(newest_, label.version);
  if (!label.holds_block() || !label.leaf) return nullptr;
  Found& present = blocks_[label.block];
  const bool is_same = present.place.version == label.version;
  if (present.place.version > label.version || (is_same && where == Place::Kind::top))
    return nullptr;
  present.place.leaf = *label.leaf;
  present.place.version = label.version;
  present.backup = label.backup;
  return &present.place;
}

Task<Status> RingRebuild::read_log(const SurveyAnswer& stands) {
  for (std::uint32_t first = 0; first < params_.log_slots;) {
    const std::uint32_t count =
        std::min<std::uint32_t>(rows_in_message(params_), params_.log_slots - first);
    const ReadLogRequest request{session_.epoch, first, count};
    S3O_CO_ASSIGN(const auto answer,
                  co_await servers_.ask(1, ReadLogRequest::kType, encode(request)));
    const auto log = decode<ReadLogAnswer>(answer.body());
    if (!log || log->slots.size() != count)
      co_return fail(Errc::corrupt, "server 1 sent an invalid answer");
    for (const LoggedBlock& logged : log->slots) {
      const std::uint32_t slot = first++;
      LoggedTurn& found = log_.emplace_back();
      found.is_lost = logged.is_lost();
      if (logged.access == 0) continue;
      if (params_.slot_of(logged.turn) != slot || !may_have(logged.turn, stands))
        co_return fail(Errc::corrupt, "server 1 sent an invalid answer");
      found.turn = logged.turn;
      turns_ = std::max(turns_, logged.turn + 1);
      S3O_CO_TRY(take_logged(logged));
    }
  }
  count_lost_writes();
  co_return Status{};
}

/// Returns the last turn that used this slot of the log; std::nullopt if there was none.
std::optional<Turn> RingRebuild::newest_turn_of(std::uint32_t slot) const {
  if (turns_ <= slot) return std::nullopt;
  return turns_ - 1 - (turns_ - 1 - slot) % params_.log_slots;
}

/// Counts the lost writes. Turns that may have been under way count only if their slot is damaged.
void RingRebuild::count_lost_writes() {
  const Turn may_lack = (params_.most_evictions_due() + 1) * Turn{params_.evict_every};
  for (std::uint32_t slot = 0; slot < params_.log_slots; ++slot) {
    LoggedTurn& found = log_[slot];
    const auto newest = newest_turn_of(slot);
    found.is_lost |= newest && *newest + may_lack < turns_ && found.turn != newest;
    if (!found.is_lost) continue;
    ++lost_writes_;
    spdlog::error("the write of turn {} to the log is lost", newest.value_or(slot));
  }
}

/// Writes an empty slot for each turn that has not ended, so that the log has all turns, and a
/// later rebuild does not count them as lost.
Task<Status> RingRebuild::end_turns() {
  std::uint64_t access = first_access(session_.epoch);
  for (std::uint32_t slot = 0; slot < params_.log_slots; ++slot) {
    const auto newest = newest_turn_of(slot);
    if (!newest || log_[slot].is_lost || log_[slot].turn == newest) continue;
    const Label label{.block = kNoBlock, .version = access, .leaf = {}, .backup = {}};
    const Bytes sealed = sealed_block(sealer_, label, Bytes(params_.block_size));
    const WriteLogRequest request{
        .epoch = session_.epoch, .turn = *newest, .access = access++, .sealed = sealed};
    S3O_CO_TRY(co_await servers_.ask(1, WriteLogRequest::kType, encode(request)));
  }
  co_return Status{};
}

/// A block of the log is written to top.cache immediately, because all of them may not fit into
/// memory.
Status RingRebuild::take_logged(const LoggedBlock& logged) {
  const auto opened = sealer_.open(logged.sealed);
  const auto label = opened ? read_label(opened->label) : std::nullopt;
  if (!label) {
    log_.back().is_lost = true;
    return {};
  }
  Place* const place = newest(*label, Place::Kind::top);
  if (!place) return {};
  if (place->kind != Place::Kind::top) place->cache_slot = slots_.take();
  place->kind = Place::Kind::top;
  place->turn = logged.turn;
  return cache_.write(place->cache_slot * std::uint64_t{params_.slot_size}, logged.sealed);
}

Task<Result<std::vector<HeldVersion>>> RingRebuild::layout(unsigned height) {
  std::vector<HeldVersion> all;
  for (BucketIndex from = 0;;) {
    const LayoutRequest request{session_.epoch, from, LayoutRequest::kMost};
    S3O_CO_ASSIGN(const auto answer,
                  co_await servers_.ask(1, LayoutRequest::kType, encode(request)));
    const auto part = decode<LayoutAnswer>(answer.body());
    if (!part) co_return fail(Errc::corrupt, "server 1 sent an invalid answer");
    if (part->versions.empty()) co_return all;
    for (const HeldVersion& version : part->versions) {
      const bool is_bucket = version.bucket >= std::max(from, kRoot);
      const unsigned level = is_bucket ? level_of(version.bucket) : 0;
      if (!is_bucket || level < params_.top_levels || level > height)
        co_return fail(Errc::corrupt, "server 1 sent an invalid answer");
      from = version.bucket + 1;
      all.push_back(version);
    }
  }
}

void RingRebuild::count_touches(const HeldVersion& version) {
  asked_[version.bucket] = version.asked;
  if (believed_ == Asked::everything) {
    held_[version.bucket] = {version.stamp, params_.most_touches()};
    return;
  }
  if (!rule_holds(Rule::asked_points)) {
    asked_[version.bucket] = {};
    held_[version.bucket] = {version.stamp, 0};
    return;
  }
  const Points points = codec_.points(version.bucket, version.stamp);
  unsigned touches = version.asked.count();
  for (unsigned dummy = 0; dummy < params_.dummies(); ++dummy)
    if (version.asked.has(points.of_dummy(params_.bucket_size, dummy)))
      touches = std::max(touches, dummy + 1);
  held_[version.bucket] = {version.stamp, std::min(touches, params_.dummies())};
}

/// Returns whether an access has asked for the point where this block of the tree lies.
bool RingRebuild::was_asked(const Place& place) const {
  const VersionStamp stamp = held_.at(place.bucket()).stamp;
  return asked_.at(place.bucket()).has(codec_.points(place.bucket(), stamp).of_slot(place.slot));
}

/// Returns the part of each row from which the labels are computed.
Task<Result<Bytes>> RingRebuild::fetch_heads(const HeldVersion& version) {
  Bytes heads;
  for (unsigned first = 0; first < params_.bucket_size;) {
    const unsigned count =
        std::min<unsigned>(rows_in_message(params_), params_.bucket_size - first);
    const FetchRowsRequest request{.epoch = session_.epoch,
                                   .bucket = version.bucket,
                                   .stamp = version.stamp,
                                   .first = static_cast<std::uint16_t>(first),
                                   .count = static_cast<std::uint16_t>(count),
                                   .width = OpaqueSealer::kHead};
    S3O_CO_ASSIGN(const auto answer,
                  co_await servers_.ask(1, FetchRowsRequest::kType, encode(request)));
    const auto part = decode<FetchRowsAnswer>(answer.body());
    if (!part || part->rows.size() != count * OpaqueSealer::kHead)
      co_return fail(Errc::bad_request, "server 1 sent an invalid answer");
    heads.insert(heads.end(), part->rows.begin(), part->rows.end());
    first += count;
  }
  co_return heads;
}

Task<Status> RingRebuild::read_bucket(const HeldVersion& version) {
  auto heads = co_await fetch_heads(version);
  if (!heads && heads.error().code == Errc::corrupt) {
    spdlog::error("bucket {}: {}: its content is lost", version.bucket, heads.error().message);
    ++damaged_;
    co_return Status{};
  }
  if (!heads) co_return fail(heads.error());
  constexpr std::size_t kWidth = OpaqueSealer::kHead;
  const std::size_t rows = params_.bucket_size;
  Bytes slots(rows * kWidth);
  std::vector<const std::uint8_t*> from;
  std::vector<std::uint8_t*> to;
  for (std::size_t row = 0; row < rows; ++row) {
    from.push_back(heads->data() + row * kWidth);
    to.push_back(slots.data() + row * kWidth);
  }
  evaluate(from, codec_.points(version.bucket, version.stamp).first(rows), to, kWidth);
  const unsigned level = level_of(version.bucket);
  bool is_whole = true;
  for (std::size_t slot = 0; slot < rows; ++slot) {
    const auto head = sealer_.open_label({to[slot], kWidth});
    const auto label = head ? read_label(*head) : std::nullopt;
    is_whole &= label.has_value();
    if (!label || !label->leaf || bucket_on_path(*label->leaf, level) != version.bucket) continue;
    Place* const place = newest(*label, Place::Kind::tree);
    if (!place) continue;
    place->kind = Place::Kind::tree;
    place->level = static_cast<std::uint8_t>(level);
    place->slot = static_cast<std::uint16_t>(slot);
  }
  if (!is_whole) spdlog::error("bucket {} does not open: its content is lost", version.bucket);
  damaged_ += !is_whole;
  co_return Status{};
}

Task<Result<RingRebuild::Rebuilt>> RingRebuild::finished(const SurveyAnswer& stands) {
  // Otherwise later writes would look older than existing ones.
  if (newest_ >= first_access(session_.epoch))
    co_return fail(Errc::corrupt,
                   "server 1 says that its last session was {}, but holds blocks of later ones: it "
                   "was set back, or lies; bring its newest store back",
                   stands.session.epoch);
  Rebuilt out;
  out.damaged = damaged_ + lost_writes_;
  out.former_was_last = former_.has_value();
  RingTree& tree = out.state.tree;
  tree.tree_version = stands.rewrites;
  tree.height = stands.height;
  tree.written = tree.synced = turns_;
  // Reshuffles are rewrites too, so an eviction that was due may count as done; the next sweep
  // makes up for it.
  tree.evictions = std::min<std::uint64_t>(stands.rewrites, params_.evictions_until(turns_));
  out.state.sessions = {session_};
  for (const auto& [block, each] : blocks_) {
    const Place& place = each.place;
    if (place.kind == Place::Kind::tree && was_asked(place)) {
      HeldBucket& held = held_.at(place.bucket());
      held.touches = std::max(held.touches, params_.most_touches());
      if (lost_writes_ > 0) out.suspect.insert(block);
    }
    out.state.places.set(block, place);
    if (each.backup) out.backup.push_back(block);
  }
  if (!out.suspect.empty())
    spdlog::error("blocks {} had a newer version, which is lost", fmt::join(out.suspect, ", "));
  out.state.unreadable = out.suspect;
  S3O_CO_TRY(cache_.sync());
  S3O_CO_TRY(co_await end_turns());
  out.state.buckets = std::move(held_);
  co_return out;
}

}  // namespace s3oram::ring
