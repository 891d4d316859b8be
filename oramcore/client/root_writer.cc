// Sends root writes to the servers, and counts them in order.
#include "oramcore/client/root_writer.h"

#include <algorithm>

#include "oramcore/base/rules.h"
#include "oramcore/client/overdue.h"

namespace s3oram {
namespace {

// A server that has what another one relays says so immediately.
constexpr Duration kRelayPatience = std::chrono::seconds(5);

/// The servers that have not answered a root write yet.
using Waiting = std::shared_ptr<std::set<Party>>;

Task<Status> noting(Party server, Waiting waiting, Task<Status> sent,
                    std::function<void()> when_done) {
  Status status = co_await std::move(sent);
  waiting->erase(server);
  if (status) when_done();
  co_return status;
}

/// Sends the message only once: by the time it arrives the write may be over, and is then refused.
Task<void> send_late(Servers& servers, Party to, Bytes message) {
  static_cast<void>(co_await servers.ask_once(to, WriteRootRequest::kType, std::move(message)));
}

/// Returns a function to call when a server has said that it has relayed something to `receivers`,
/// because it may say so without having done it. Receivers that have still not answered some time
/// later are passed to `send`.
std::function<void()> expecting(Clock& clock, const Waiting& waiting, std::vector<Party> receivers,
                                std::function<void(Party)> send) {
  return [&clock, receivers = std::move(receivers), send = std::move(send),
          late = std::weak_ptr(waiting)] {
    for (const Party receiver : receivers)
      when_overdue(clock, kRelayPatience, late, [late, send, receiver] {
        const auto there = late.lock();
        if (there && there->contains(receiver)) send(receiver);
      });
  };
}

}  // namespace

RootWriter::RootWriter(VolumeState& state, std::function<void()> acknowledged)
    : state_(state),
      acknowledged_(std::move(acknowledged)),
      root_(state.params.root_buffer_slots()) {}

/// Asks until the server has the write or is left out.
Task<Status> RootWriter::send_whole(Party server, const RootUpload& upload) {
  auto answer = co_await state_.servers.ask(server, WriteRootRequest::kType, upload.whole(server));
  if (!answer && !state_.servers.is_left_out(server)) co_return fail(answer.error());
  co_return Status{};
}

/// Sends the server its message. If that fails, sends all servers concerned everything that they
/// need.
Task<Status> RootWriter::send_upload(Party server, const RootUpload& upload,
                                     std::shared_ptr<Servers::JointAttempt> attempt) {
  auto answer = co_await state_.servers.ask_once(server, WriteRootRequest::kType,
                                                 upload.message(server), std::move(attempt));
  if (answer) co_return Status{};
  if (!Troubles::may_pass(answer.error().code)) co_return fail(answer.error());
  std::vector<Task<Status>> again;
  again.push_back(send_whole(server, upload));
  for (const Party waiting : upload.relayed_by(server))
    again.push_back(send_whole(waiting, upload));
  auto sent = co_await all(std::move(again));
  for (auto& status : sent) S3O_CO_TRY(status);
  co_return Status{};
}

// Protocol 2, steps 2 to 10: writes fresh shares to the next root slot, under a fresh leaf.
Task<Status> RootWriter::write(WriteNumber write_number, Label label, std::uint64_t replaces,
                               ByteSpan content, std::function<void(Status)> written) {
  const std::uint64_t access = next_access_++;
  const std::uint16_t slot = root_slot(write_number, state_.params.evict_every);
  label.version = access;
  label.leaf = random_leaf(state_.environment.random);
  if (state_.params.is_mirror()) label.root_slot = slot;
  const auto acknowledged = [&] {
    root_[slot] = {.acknowledged = true,
                   .block = label.block,
                   .replaces = replaces,
                   .leaf = *label.leaf,
                   .version = access,
                   .written = std::move(written)};
  };
  if (!rule_holds(Rule::acknowledged_positions)) {
    acknowledged();
    acknowledge_in_order();
  }
  const WriteRootRequest request{.epoch = state_.session.epoch,
                                 .write_number = write_number,
                                 .access = access,
                                 .share = {},
                                 .parts = {},
                                 .relay_to = kClient};
  begun_ = std::max(begun_, write_number + 1);
  const Duration begun = state_.now();
  const std::size_t before = ++uploads_;
  const std::shared_ptr<const RootUpload> upload =
      state_.scheme->upload(request, state_.scheme->seal(label, content), state_.in_step);
  const Bytes takers = state_.in_step.takers();
  const auto waiting = std::make_shared<std::set<Party>>(takers.begin(), takers.end());
  const auto expect_relayed = [&](Party server) {
    return expecting(state_.environment.clock, waiting, upload->relayed_by(server),
                     [this, what = std::weak_ptr(upload)](Party receiver) {
                       if (const auto sent = what.lock(); sent && !state_.dead)
                         state_.start(send_late(state_.servers, receiver, sent->whole(receiver)));
                     });
  };
  const auto attempt = std::make_shared<Servers::JointAttempt>();
  auto answers = co_await for_each_of(takers, [&](Party server) {
    return noting(server, waiting, send_upload(server, *upload, attempt), expect_relayed(server));
  });
  // Writes that began later shared the line with this one, too.
  const auto sharing = static_cast<Duration::rep>(std::max(before, uploads_--));
  upload_each_ = (state_.now() - begun) / sharing;
  state_.changed.notify_all();
  for (auto& answer : answers) {
    if (answer) continue;
    // This write is never acknowledged, and neither are those that follow it.
    state_.die(answer.error());
    co_return fail(*state_.dead);
  }
  if (state_.dead) co_return fail(*state_.dead);
  if (rule_holds(Rule::acknowledged_positions)) acknowledged();
  acknowledge_in_order();
  while (!state_.dead && state_.tree.written <= write_number) co_await state_.changed.wait();
  if (state_.tree.written <= write_number) co_return fail(*state_.dead);
  co_return Status{};
}

// A retrieval covers the root writes before `written`, so they count in order.
void RootWriter::acknowledge_in_order() {
  for (;;) {
    const std::uint16_t slot = root_slot(state_.tree.written, state_.params.evict_every);
    if (!root_[slot].acknowledged) break;
    RootWrite write = std::exchange(root_[slot], {});
    state_.access_records[slot].access = write.version;
    state_.pending.access_records[slot] = state_.access_records[slot];
    if (write.block != kNoBlock && state_.positions.get(write.block).version == write.replaces) {
      state_.set_position(write.block, {.kind = Position::Kind::tree,
                                        .leaf = write.leaf,
                                        .level = 0,
                                        .slot = slot,
                                        .version = write.version});
      state_.mark_readable(write.block);
    }
    ++state_.tree.written;
    if (write.written) write.written({});
  }
  state_.changed.notify_all();
  acknowledged_();
}

Task<Status> RootWriter::await_begun() {
  const WriteNumber until = begun_;
  while (!state_.dead && state_.tree.written < until) co_await state_.changed.wait();
  if (state_.dead) co_return fail(*state_.dead);
  co_return Status{};
}

}  // namespace s3oram
