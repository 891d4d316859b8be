// Takes over a volume, mends its root buffer, and scans all labels.
#include "oramcore/client/rebuild.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "oramcore/client/catch_up.h"
#include "oramcore/client/in_step.h"
#include "oramcore/client/reconcile.h"
#include "oramcore/client/reenrolment.h"
#include "oramcore/client/state_check.h"
#include "oramcore/sharing/shamir.h"

namespace s3oram {
namespace {

constexpr unsigned kAtOnce = 32;  // buckets scanned at a time
constexpr Duration kTellEvery = std::chrono::seconds(1);
constexpr Duration kRejoins = std::chrono::minutes(10), kDescribes = std::chrono::minutes(10);

/// Returns whether at least `witnesses` servers say it.
bool said_by(const Stand& stand, std::size_t witnesses,
             const std::function<bool(const SurveyAnswer&)>& says) {
  const auto saying =
      std::ranges::count_if(stand, [&](const auto& each) { return says(each.second); });
  return static_cast<std::size_t>(saying) >= witnesses;
}

std::string names_of(const std::set<Party>& servers) {
  return fmt::format("{} {}", servers.size() == 1 ? "server" : "servers",
                     fmt::join(servers, " and "));
}

}  // namespace

Result<FormerState> FormerState::load(const std::filesystem::path& file, const VolumeParams& params,
                                      Disk& disk) {
  S3O_ASSIGN(auto state, ClientState::open(file, disk));
  S3O_ASSIGN(auto loaded, state.load(params));
  return FormerState{std::move(state), std::move(loaded)};
}

Rebuild::Rebuild(const ClientEnvironment& environment, const VolumeId& volume,
                 const VolumeParams& params, std::unique_ptr<ClientScheme> scheme,
                 std::optional<FormerState> former)
    : environment_(environment),
      params_(params),
      scheme_(std::move(scheme)),
      servers_(environment.executor, environment.clock, environment.random, environment.transport,
               volume, params.scheme.servers, params.scheme.threshold),
      former_(std::move(former)),
      stamps_(params.root_buffer_slots()) {
  servers_.do_not_wait_for_stores();
}

Task<Result<Rebuilt>> Rebuild::run(Duration patience,
                                   std::function<void(const std::string&)> progress) {
  progress_ = std::move(progress);
  S3O_CO_TRY(co_await find_servers(patience));
  S3O_CO_TRY(co_await take_over(patience));
  // From here on, only this client changes anything.
  S3O_CO_ASSIGN(const auto stand, co_await survey(patience));
  S3O_CO_TRY(judge_former(stand, true));
  S3O_CO_TRY(co_await agree_on_tree_version(stand, patience));
  S3O_CO_TRY(co_await learn_stamps());
  S3O_CO_TRY(co_await mend_root(stand));
  S3O_CO_TRY(co_await scan());

  Rebuilt rebuilt;
  rebuilt.state.tree = *tree_;
  const unsigned every = params_.evict_every;
  for (WriteNumber write_number = first_write_number(tree_->tree_version, every);
       write_number < tree_->written; ++write_number)
    rebuilt.state.access_records.push_back(
        {.write_number = write_number, .access = stamps_[root_slot(write_number, every)]});
  rebuilt.state.sessions = {session_};
  rebuilt.state.positions = std::move(positions_);
  rebuilt.state.left_out = left_out();
  if (!rebuilt.state.left_out.empty()) rebuilt.state.rewritten = std::move(rewritten_);
  rebuilt.backup.assign(backup_.begin(), backup_.end());
  rebuilt.damaged = damaged_;
  rebuilt.former_was_last = former_.has_value();
  co_return rebuilt;
}

// ---- the servers

/// Determines members_. The rest of a mirror's servers are treated like servers that are away, even
/// if they answer, because they hold nothing of the volume.
Task<Status> Rebuild::find_servers(Duration patience) {
  members_.clear();
  for (Party server = 1; server <= servers_.count(); ++server) members_.push_back(server);
  InStep in_step(params_);
  if (!in_step.may_shrink()) co_return Status{};
  if (former_) in_step.load(former_->loaded.left_out);
  const auto enough = [&](const std::set<Party>& some) { return some.size() >= in_step.least(); };
  const auto answering = co_await servers_.roll_call(enough, patience);
  std::set<Party> fit;
  std::string others;
  for (Party server = 1; server <= servers_.count(); ++server) {
    std::string why = "does not answer";
    if (answering.contains(server)) {
      S3O_CO_ASSIGN(why, co_await hindrance(server, patience));
    } else if (!in_step.holds(server)) {
      why += ", and was left out";
    }
    if (why.empty()) {
      fit.insert(server);
      if (in_step.holds(server)) continue;
      why = "was left out according to vault.db";
    }
    others += fmt::format("{}server {} {}", others.empty() ? "" : "; ", server, why);
  }
  if (!in_step.may_open(fit))
    co_return fail(Errc::unreachable,
                   "{}. To restore this volume, {} of its {} servers must answer and hold its "
                   "data, {} of them all data: start those that are missing, and restore again",
                   others, in_step.least(), servers_.count(), in_step.needed());
  members_.assign(fit.begin(), fit.end());
  for (const Party server : left_out())
    spdlog::warn("server {} takes no part in this restore, and catches up later", server);
  co_return Status{};
}

Task<Result<std::string>> Rebuild::hindrance(Party server, Duration patience) {
  const auto answer = co_await servers_.survey_one(server, patience);
  if (answer) co_return std::string();
  if (answer.error().code == Errc::unreachable) co_return std::string("does not answer");
  if (answer.error().code != Errc::wrong_volume) co_return fail(answer.error());
  const auto hello = co_await servers_.hello_one(server, patience);
  if (!hello) co_return std::string("does not answer");
  if (hello->volume && hello->volume->id != servers_.volume()) co_return fail(answer.error());
  co_return std::string(hello->volume ? "has lost its slots" : "holds nothing");
}

std::set<Party> Rebuild::left_out() const {
  std::set<Party> others;
  for (Party server = 1; server <= servers_.count(); ++server)
    if (std::ranges::find(members_, server) == members_.end()) others.insert(server);
  return others;
}

Task<Result<Stand>> Rebuild::survey(Duration patience) {
  auto answers = co_await for_each_of(
      members_, [&](Party server) { return servers_.survey_one(server, patience); });
  Stand stand;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!answers[i]) co_return fail(answers[i].error());
    stand[members_[i]] = std::move(*answers[i]);
  }
  co_return stand;
}

// Learns every server's current session and replaces it, so that messages of the lost client, or of
// an interrupted rebuild, no longer have any effect, even those still in transit. The tree version
// is decided only after that, because a commit of the lost client in between would divide the
// servers.
Task<Status> Rebuild::take_over(Duration patience) {
  S3O_CO_ASSIGN(const auto before, co_await survey(patience));
  std::vector<Session> known;
  for (const auto& [server, answer] : before) {
    if (std::find(known.begin(), known.end(), answer.session) == known.end())
      known.push_back(answer.session);
  }
  S3O_CO_ASSIGN(auto next, next_epoch(before));
  session_.epoch = next;
  environment_.random.fill(session_.nonce);
  S3O_CO_TRY(judge_former(before, false));
  if (former_) {
    // The servers may never have heard of the earlier state's last session.
    session_.epoch = std::max(session_.epoch, former_->loaded.sessions.back().epoch + 1);
    S3O_CO_TRY(former_->state.add_session(session_));
  }
  Servers::Reconcile reconcile = [this](Party server, OpenAnswer answer, Duration) {
    return check_tree_version(server, answer);
  };
  auto present = [this](OpenRequest& request) {
    request.tree_version = tree_ ? tree_->tree_version : 0;
  };
  co_return co_await servers_.open(std::move(known), session_, std::move(present),
                                   std::move(reconcile), patience, left_out());
}

/// Returns an epoch above those of all servers, also of those left out, which may know of a few
/// openings that the others do not. Fails if one server is far above what t + 1 of them have,
/// because such an epoch is made up, and would use up the numbers for all.
Result<std::uint64_t> Rebuild::next_epoch(const Stand& stand) const {
  constexpr std::uint64_t kApart = 1 << 16;    // openings that reached only some of the servers
  constexpr std::uint64_t kUnheard = 1 << 10;  // openings that reached none of those that answer
  std::vector<std::uint64_t> sorted;
  for (const auto& [server, answer] : stand) sorted.push_back(answer.session.epoch);
  std::ranges::sort(sorted, std::greater{});
  for (const auto& [server, answer] : stand)
    if (answer.session.epoch > sorted[many() - 1] + kApart)
      return fail(Errc::corrupt,
                  "server {} reports epoch {}, but others have {}: that cannot be right", server,
                  answer.session.epoch, sorted[many() - 1]);
  return sorted.front() + (left_out().empty() ? 1 : kUnheard);
}

/// Checks that a server that was restarted comes back with the tree version that it had.
Task<Status> Rebuild::check_tree_version(Party server, OpenAnswer answer) {
  if (!tree_) co_return Status{};
  S3O_CO_TRY(due_at(server, answer, *tree_, {}));
  co_return Status{};
}

// ---- the earlier state

bool Rebuild::decided_by_former(const Stand& stand, std::uint64_t tree_version) const {
  const TreeState& tree = former_->loaded.tree;
  return tree.tree_version == tree_version + 1 && said_by(stand, many(), [&](const auto& each) {
           return each.tree_version == tree.tree_version ||
                  (each.tree_version == tree_version && each.prepared == tree.last_decided);
         });
}

Status Rebuild::judge_former(const Stand& stand, bool took_over) {
  if (!former_) return {};
  const auto& sessions = former_->loaded.sessions;
  const auto of_another = [&](const SurveyAnswer& each) {
    return !took_over && std::ranges::find(sessions, each.session) == sessions.end();
  };
  const auto was_used = [&](std::size_t witnesses) {
    return said_by(stand, witnesses, of_another) || used_since_former(stand, witnesses);
  };
  if (was_used(many())) {
    former_.reset();
    return {};
  }
  const auto is_ahead = [&](const SurveyAnswer& each) {
    return each.tree_version > former_->loaded.tree.tree_version;
  };
  if (left_out().empty() || !(was_used(1) || said_by(stand, 1, is_ahead))) return {};
  return fail(Errc::servers_disagree,
              "vault.db may be an old copy: of the servers that answer, fewer than {} say that the "
              "volume was used since, and the others say that it was not. Nothing was changed; "
              "start {}, and restore again. If you know that vault.db is old, move it away",
              many(), names_of(left_out()));
}

bool Rebuild::used_since_former(const Stand& stand, std::size_t witnesses) const {
  const ClientState::Loaded& former = former_->loaded;
  const auto believed = believed_tree_version(stand, params_);
  if (!believed) return false;  // agree_on_tree_version() names the server that is wrong
  const std::uint64_t tree_version = *believed;
  if (former.tree.tree_version != tree_version && !decided_by_former(stand, tree_version))
    return true;
  const auto has_other_slots = [&](const SurveyAnswer& each) {
    return each.root.size() != former.root.size();
  };
  std::vector<SurveyAnswer> answers;
  for (const auto& [server, answer] : stand) answers.push_back(answer);
  return said_by(stand, witnesses, has_other_slots) ||
         wrote_since(answers, former, params_.evict_every, static_cast<unsigned>(witnesses) - 1);
}

// ---- the tree version

// The tree before an eviction is whole until all servers have installed the result of the eviction.
// So an eviction that fewer than t + 1 of them have installed is taken back, unless the earlier
// state has decided it: one server's word must not make the others install what no client has
// checked.
Task<Status> Rebuild::agree_on_tree_version(const Stand& stand, Duration patience) {
  const auto believed = believed_tree_version(stand, params_);
  if (!believed) co_return with_those_away(fail(believed.error()), stand);
  std::uint64_t tree_version = *believed;
  if (former_ && decided_by_former(stand, tree_version)) ++tree_version;
  S3O_CO_TRY(co_await take_back(stand, tree_version));
  S3O_CO_TRY(co_await bring_forward(stand, tree_version));
  co_return with_those_away(co_await confirm(tree_version, patience), stand);
}

Status Rebuild::with_those_away(Status status, const Stand& stand) const {
  if (status || status.error().code != Errc::servers_disagree || left_out().empty()) return status;
  std::string each;
  for (const auto& [server, answer] : stand)
    each += fmt::format("{}server {} has seen {} evictions", each.empty() ? "" : ", ", server,
                        answer.tree_version);
  return fail(Errc::unreachable,
              "too few servers have the newest state ({}): one that has seen fewer is behind or an "
              "old copy, or one that has seen more is faulty or lies. Start {}, and restore again",
              each, names_of(left_out()));
}

/// Rolls back the servers that are ahead. This comes first, because the others can say which
/// attempt it was only while they have it prepared.
Task<Status> Rebuild::take_back(const Stand& stand, std::uint64_t tree_version) {
  std::set<EvictionId> attempts;
  for (const auto& [server, answer] : stand)
    if (answer.prepared && answer.prepared->eviction == tree_version)
      attempts.insert(*answer.prepared);
  for (const auto& [server, answer] : stand) {
    if (answer.tree_version <= tree_version) continue;
    for (const EvictionId& id : attempts)
      S3O_CO_TRY(co_await servers_.ask(server, DiscardRequest::kType,
                                       encode(DiscardRequest{session_.epoch, id})));
  }
  co_return Status{};
}

/// Makes the servers that are one eviction behind install what they have prepared, and the others
/// discard attempts that are not decided.
Task<Status> Rebuild::bring_forward(const Stand& stand, std::uint64_t tree_version) {
  std::map<Party, Due> due;
  Bytes behind;  // only in a mirror, which works without some servers
  for (const auto& [server, each] : stand) {
    // All servers had prepared the same attempt, so the one that a server has prepared is the one
    // decided.
    TreeState tree;
    tree.tree_version = tree_version;
    if (each.prepared && each.prepared->eviction + 1 == tree_version)
      tree.last_decided = *each.prepared;
    const OpenAnswer stands{std::min(each.tree_version, tree_version), each.prepared};
    const auto what = due_at(server, stands, tree, {});
    const bool is_behind = params_.is_mirror() && each.tree_version < tree_version;
    if (!what && !is_behind) co_return fail(what.error());
    if (!what) behind.push_back(server);
    if (what && *what) due[server] = **what;
  }
  for (const auto& [server, what] : due)
    S3O_CO_TRY(co_await servers_.ask(server, what.type, what.message(session_.epoch)));
  co_return co_await catch_up(behind, tree_version);
}

/// Makes servers that a mirror had left out take up the tree version that t + 1 others have. The
/// slots that they lack are found when all slots are read.
Task<Status> Rebuild::catch_up(Bytes behind, std::uint64_t tree_version) {
  if (behind.empty()) co_return Status{};
  Bytes sources;
  for (const Party server : members_)
    if (std::ranges::find(behind, server) == behind.end()) sources.push_back(server);
  if (sources.size() < many())
    co_return fail(Errc::wrong_volume, "only {} servers have everything that was written",
                   sources.size());
  TreeState tree;
  tree.tree_version = tree_version;
  Stand stand;
  for (const Party source : sources) {
    S3O_CO_ASSIGN(auto its, co_await servers_.survey_one(source, Duration::max()));
    stand[source] = std::move(its);
  }
  S3O_CO_ASSIGN(const auto height, believed_height(stand, params_.scheme.threshold));
  tree.height = height;
  for (const Party server : behind) {
    Rejoining rejoining{.server = server,
                        .sources = sources,
                        .session = session_,
                        .tree = tree,
                        .root = {},
                        .limit = kRejoins};
    S3O_CO_TRY(co_await rejoin(environment_, servers_, params_, std::move(rejoining)));
  }
  co_return Status{};
}

/// Checks that all servers now have this tree version, and learns its height.
Task<Status> Rebuild::confirm(std::uint64_t tree_version, Duration patience) {
  S3O_CO_ASSIGN(const auto stand, co_await survey(patience));
  for (const auto& [server, answer] : stand)
    if (const std::uint64_t its = answer.tree_version; its != tree_version)
      co_return fail(Errc::servers_disagree,
                     "server {} reports {} evictions, but {} are known, and it does not go {}: it "
                     "is faulty, lies, or has an older version; upgrade it, or have it looked at",
                     server, its, tree_version, its > tree_version ? "back" : "on");
  S3O_CO_ASSIGN(const auto height, believed_height(stand, params_.scheme.threshold));
  TreeState tree;
  tree.tree_version = tree_version;
  tree.height = height;
  tree.written = end_write_number(tree_version, params_.evict_every);
  if (tree_version > 0) tree.last_decided.eviction = tree_version - 1;
  tree_ = tree;
  positions_.reset(height);
  co_return Status{};
}

/// Asks again if the server was restarted, after another question that opens its session.
Task<Result<Buckets>> Rebuild::layout_of(Party server) {
  for (;;) {
    auto buckets = co_await layout_at(servers_, server, session_.epoch, *tree_, params_,
                                      LayoutRequest::kMost, kDescribes);
    if (buckets || buckets.error().code != Errc::unreachable) co_return buckets;
    const DamageRequest question{session_.epoch, tree_->tree_version, 0};
    S3O_CO_TRY(co_await servers_.ask(server, DamageRequest::kType, encode(question)));
  }
}

/// Learns the stamps of the buckets, in a scheme whose slots are the same at all servers. What one
/// server shows in a bucket counts only if it has the stamp that t + 1 servers report.
Task<Status> Rebuild::learn_stamps() {
  if (scheme_->head_size() == 0) co_return Status{};
  std::map<std::pair<BucketIndex, std::uint64_t>, unsigned> witnesses;
  for (const Party server : members_) {
    S3O_CO_ASSIGN(const auto buckets, co_await layout_of(server));
    for (const BucketShape& each : buckets)
      if (each.stamp && ++witnesses[{each.bucket, *each.stamp}] == many())
        bucket_stamps_[each.bucket] = *each.stamp;
  }
  co_return Status{};
}

// ---- the root's slots for new writes

Task<Status> Rebuild::mend_root(const Stand& stand) {
  for (const auto& [server, answer] : stand)
    if (answer.root.size() != stamps_.size())
      co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
  for (std::uint16_t slot = 0; slot < stamps_.size(); ++slot)
    S3O_CO_TRY(co_await mend_root_slot(slot, stand));
  co_return Status{};
}

/// Returns whether any server reports this write in another slot of the root.
bool Rebuild::is_elsewhere(const Stand& stand, std::uint16_t slot, std::uint64_t stamp) const {
  return said_by(stand, 1, [&](const SurveyAnswer& each) {
    for (std::size_t other = 0; other < each.root.size(); ++other)
      if (other != slot && each.root[other] == stamp) return true;
    return false;
  });
}

// From now on, all slots count as written, so they must be whole. A slot keeps the newest write
// that t + 1 servers have and that opens; the other servers get their shares of it. A write that
// fewer servers report was never acknowledged, or is a lie; the write that it replaced had been
// evicted, so a copy of that one does no harm. In a mirror, a write counts once the servers in step
// have it, and only one of these may be honest. So fewer than t + 1 servers are believed if the
// content that they hold was written to this slot by that access. The numbers of a slot's accesses
// only grow, so this write is the one that counts, or a later one. If there is no such write, the
// slot gets zeros, with a stamp newer than any other.
Task<Status> Rebuild::mend_root_slot(std::uint16_t slot, const Stand& stand) {
  const SlotAddress at{kRoot, slot};
  std::set<std::uint64_t, std::greater<>> stamps;
  for (const auto& [server, answer] : stand) stamps.insert(answer.root[slot]);
  stamps.erase(0);
  for (const std::uint64_t stamp : stamps) {
    Bytes holders;
    for (const auto& [server, answer] : stand)
      if (answer.root[slot] == stamp) holders.push_back(server);
    if (holders.size() < enough()) continue;
    stamps_[slot] = stamp;
    if (holders.size() == members_.size()) co_return Status{};
    S3O_CO_ASSIGN(const auto whole, co_await agree(at, holders));
    // If fewer than t + 1 servers report a stamp, the content must have that stamp. An older label
    // does not name its slot; then no other slot may have the stamp.
    const bool borne_out =
        whole && (holders.size() >= many() ||
                  (whole->label.version == stamp &&
                   (whole->label.root_slot || !is_elsewhere(stand, slot, stamp))));
    if (borne_out) co_return co_await mend(at, stamp, *whole);
    if (holders.size() < many()) continue;
    spdlog::error("slot {} of bucket {} is lost: it differs from what {} servers say was written",
                  slot, kRoot, holders.size());
    ++damaged_;
  }
  stamps_[slot] = blank_stamp(session_.epoch, slot);
  for (const Party server : members_)
    S3O_CO_TRY(co_await write(at, stamps_[slot], server, Bytes(params_.slot_size())));
  co_return Status{};
}

// ---- the scan for labels

Task<Status> Rebuild::scan() {
  std::vector<Task<Status>> workers;
  for (unsigned i = 0; i < kAtOnce; ++i) workers.push_back(scan_some());
  auto ended = co_await all(std::move(workers));
  for (auto& status : ended) S3O_CO_TRY(status);
  tell(true);
  co_return Status{};
}

Task<Status> Rebuild::scan_some() {
  while (!failed_ && next_ <= bucket_count(tree_->height)) {
    auto scanned = co_await scan_bucket(next_++);
    if (!scanned) {
      failed_ = true;
      co_return scanned;
    }
    tell(false);
  }
  co_return Status{};
}

Task<Status> Rebuild::scan_bucket(BucketIndex bucket) {
  if (scheme_->head_size() > 0) co_return co_await scan_heads(bucket);
  auto answers =
      co_await for_each_of(members_, [&](Party server) { return labels(server, bucket); });
  // A slot that a server does not list is zero at that server.
  std::map<std::uint16_t, std::vector<LabelShare>> slots;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) co_return fail(answers[i].error());
    for (const LabelShare& share : *answers[i]) {
      auto& shares = slots[share.slot];
      shares.resize(answers.size());
      shares[i] = share;
    }
  }
  for (const auto& [slot, shares] : slots) {
    const SlotAddress at{bucket, slot};
    S3O_CO_ASSIGN(const auto label, co_await judge(at, shares));
    if (label)
      found(*label, at);
    else
      ++damaged_;
  }
  co_return Status{};
}

Task<Result<std::vector<LabelShare>>> Rebuild::labels(Party server, BucketIndex bucket) {
  const LabelsRequest question{session_.epoch, tree_->tree_version, bucket};
  S3O_CO_ASSIGN(auto answer, co_await servers_.ask(server, LabelsRequest::kType, encode(question)));
  auto read = decode<LabelsAnswer>(answer.body());
  const unsigned slots = bucket == kRoot ? params_.root_slots() : params_.bucket_size;
  if (!read || std::any_of(read->slots.begin(), read->slots.end(),
                           [&](const LabelShare& share) { return share.slot >= slots; }))
    co_return fail(Errc::corrupt, "server {} sent an invalid answer", server);
  co_return std::move(read->slots);
}

/// Returns the label in the slot if enough servers agree on it, and mends the shares of the others.
Task<Result<std::optional<Label>>> Rebuild::judge(SlotAddress at,
                                                  const std::vector<LabelShare>& shares) {
  std::vector<ByteSpan> given;
  bool whole = true;
  for (const LabelShare& share : shares) {
    given.emplace_back(share.share);
    whole &= !share.damaged;
  }
  const ByteSpan few = ByteSpan(members_).first(enough());
  const std::span<const ByteSpan> first = std::span(given).first(enough());
  for (std::size_t i = enough(); whole && i < given.size(); ++i)
    whole = std::ranges::equal(recover_at(members_[i], few, first), given[i]);
  if (whole) {
    LabelBytes bytes;
    std::ranges::copy(recover(few, first), bytes.begin());
    co_return read_label(bytes);
  }
  S3O_CO_ASSIGN(const auto agreed, co_await agree(at, members_));
  if (!agreed) {
    spdlog::error("slot {} of bucket {} is damaged at too many servers: its content is lost",
                  at.slot, at.bucket);
    co_return std::optional<Label>();
  }
  S3O_CO_TRY(co_await mend(at, is_in_root_buffer(at) ? stamps_[at.slot] : 0, *agreed));
  co_return std::optional(agreed->label);
}

/// Scans a bucket in a scheme whose slots are the same at all servers and begin with their labels.
Task<Status> Rebuild::scan_heads(BucketIndex bucket) {
  const HeadsRequest question{session_.epoch, tree_->tree_version, bucket,
                              static_cast<std::uint32_t>(scheme_->head_size())};
  auto answers = co_await for_each_of(members_, [&](Party server) {
    return servers_.ask(server, HeadsRequest::kType, encode(question));
  });
  const unsigned most = bucket == kRoot ? params_.root_slots() : params_.bucket_size;
  std::map<std::uint16_t, std::vector<Bytes>> slots;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) co_return fail(answers[i].error());
    auto read = decode<HeadsAnswer>(answers[i]->body());
    if (!read) co_return fail(Errc::corrupt, "server {} sent an invalid answer", members_[i]);
    for (SlotHead& each : read->slots) {
      if (each.slot >= most)
        co_return fail(Errc::corrupt, "server {} sent an invalid answer", members_[i]);
      // A slot that a server does not list is zero at that server.
      auto& heads =
          slots.try_emplace(each.slot, answers.size(), Bytes(scheme_->head_size())).first->second;
      heads[i] = std::move(each.head);
    }
  }
  for (const auto& [slot, heads] : slots) {
    const SlotAddress at{bucket, slot};
    S3O_CO_ASSIGN(const auto label, co_await judge_heads(at, heads));
    if (label)
      found(*label, at);
    else
      ++damaged_;
  }
  co_return Status{};
}

/// Returns the label in the slot, or std::nullopt if the slot is lost. If the servers' heads
/// differ, or hold no label, settles the whole slot.
Task<Result<std::optional<Label>>> Rebuild::judge_heads(SlotAddress at,
                                                        const std::vector<Bytes>& heads) {
  const bool equal =
      std::ranges::all_of(heads, [&](const Bytes& head) { return head == heads[0]; });
  if (equal) {
    // An eviction leaves no zeros behind, so such a slot was given up, maybe while a server was
    // away that still holds other bytes under the same stamp.
    const bool zeros = std::ranges::all_of(heads[0], [](std::uint8_t byte) { return byte == 0; });
    if (zeros && !is_in_root_buffer(at)) rewritten_.insert(at.bucket);
    if (const auto label = scheme_->label_in(heads[0])) co_return label;
  }
  S3O_CO_ASSIGN(const auto agreed, co_await agree(at, members_));
  if (!agreed) {
    spdlog::error("slot {} of bucket {} is damaged at too many servers: its content is lost",
                  at.slot, at.bucket);
    co_return std::optional<Label>();
  }
  S3O_CO_TRY(co_await mend(at, is_in_root_buffer(at) ? stamps_[at.slot] : 0, *agreed));
  co_return std::optional(agreed->label);
}

/// Records a copy of a block; the newest copy counts. Equally new copies have the same content. An
/// eviction or a growth of the tree left one of them behind, and the one on the path to its leaf
/// counts.
void Rebuild::found(const Label& label, SlotAddress at) {
  if (!label.holds_block()) return;
  const auto most = static_cast<std::uint64_t>(most_blocks(tree_->height, params_));
  if (label.block >= most) {
    spdlog::error("slot {} of bucket {} holds a block with an impossible number", at.slot,
                  at.bucket);
    ++damaged_;
    return;
  }
  const unsigned level = level_of(at.bucket);
  const bool below = label.leaf && bucket_on_path(*label.leaf, level) == at.bucket;
  const Position other = positions_.get(label.block);
  if (other.kind != Position::Kind::unmapped &&
      std::tuple(other.version, !guessed_.contains(label.block), unsigned{other.level}) >=
          std::tuple(label.version, below, level))
    return;
  Leaf leaf = below ? *label.leaf : random_leaf(environment_.random);
  if (!below) leaf = (leaf >> level << level) | (at.bucket ^ BucketIndex{1} << level);
  positions_.set(label.block, {.kind = Position::Kind::tree,
                               .leaf = leaf,
                               .level = static_cast<std::uint8_t>(level),
                               .slot = at.slot,
                               .version = label.version});
  const auto mark = [&](std::set<BlockId>& blocks, bool marked) {
    if (marked)
      blocks.insert(label.block);
    else
      blocks.erase(label.block);
  };
  mark(guessed_, !below);
  mark(backup_, label.backup);
}

void Rebuild::tell(bool now) {
  const Duration time = environment_.clock.now();
  if (!progress_ || (!now && time - told_ < kTellEvery)) return;
  told_ = time;
  const std::uint64_t all = bucket_count(tree_->height);
  progress_(fmt::format("{} of {} buckets, {} blocks", std::min(next_ - 1, all), all,
                        positions_.mapped()));
}

// ---- one whole slot

/// Reads the slot at these servers, and returns what they agree on.
Task<Result<std::optional<Agreement>>> Rebuild::agree(SlotAddress at, Bytes of) {
  const ReadSlotRequest question{session_.epoch, tree_->tree_version, at};
  auto answers = co_await for_all(static_cast<unsigned>(of.size()), [&](Party nth) {
    return servers_.ask(of[nth - 1u], ReadSlotRequest::kType, encode(question));
  });
  Bytes servers;
  std::vector<Bytes> shares;
  const bool in_root_buffer = is_in_root_buffer(at);
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (!answers[i] && answers[i].error().code != Errc::corrupt) co_return fail(answers[i].error());
    if (!answers[i] || answers[i]->body().size() != params_.slot_size()) continue;
    if (!in_root_buffer && !scheme_->may_be_at(answers[i]->body(), slot_place(at))) continue;
    servers.push_back(of[i]);
    shares.emplace_back(answers[i]->body().begin(), answers[i]->body().end());
  }
  // A block that its label confirms takes precedence over zeros, however many servers show zeros. A
  // slot that was given up holds zeros, and a server that lies can show zeros for any slot.
  const auto is_block_here = [&](const Label& label) {
    return label.version != 0 &&
           (!in_root_buffer ||
            (label.version == stamps_[at.slot] && label.root_slot.value_or(at.slot) == at.slot));
  };
  auto block = find_agreement(*scheme_, params_, servers, shares, is_block_here);
  if (block) co_return block;
  co_return find_agreement(*scheme_, params_, servers, shares,
                           [](const Label& label) { return label.version == 0; });
}

bool Rebuild::is_in_root_buffer(SlotAddress at) const {
  return at.bucket == kRoot && at.slot < params_.root_buffer_slots();
}

/// Returns the place of a slot in a bucket of the tree, or in the root's stash part.
SlotPlace Rebuild::slot_place(SlotAddress at) const {
  const unsigned z = params_.bucket_size, of_stash = params_.stash_buckets();
  SlotPlace place;
  BucketIndex bucket = at.bucket;
  if (at.bucket == kRoot) {
    const unsigned in_stash = at.slot - params_.root_buffer_slots();
    bucket = kStashBucket + in_stash / z;
    place.bucket = place.least = in_stash / z;
    place.slot = static_cast<std::uint16_t>(in_stash % z);
  } else {
    const unsigned level = level_of(at.bucket);
    place.bucket = of_stash + level - 1;
    place.least = level == tree_->height ? of_stash : place.bucket;
    place.slot = at.slot;
  }
  if (const auto found = bucket_stamps_.find(bucket); found != bucket_stamps_.end())
    place.stamp = found->second;
  return place;
}

Task<Status> Rebuild::write(SlotAddress at, std::uint64_t access, Party server, Bytes share) {
  const HealSlotRequest request{.epoch = session_.epoch,
                                .tree_version = tree_->tree_version,
                                .at = at,
                                .access = access,
                                .share = share};
  S3O_CO_TRY(co_await servers_.ask(server, HealSlotRequest::kType, encode(request)));
  co_return Status{};
}

/// Sends the right share to each server that has a wrong one or none.
Task<Status> Rebuild::mend(SlotAddress at, std::uint64_t access, const Agreement& agreed) {
  for (const Party server : members_) {
    if (agreed.holds(server)) continue;
    rewritten_.insert(at.bucket);
    spdlog::warn("server {}: slot {} of bucket {} is lost or wrong, and is healed", server, at.slot,
                 at.bucket);
    S3O_CO_TRY(co_await write(at, access, server, agreed.share_of(server)));
  }
  co_return Status{};
}

}  // namespace s3oram
