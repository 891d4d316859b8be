// Weighs what servers answer, and records their troubles.
#include "oramcore/client/trust.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace s3oram {
namespace {

// An honest server is not restarted so often that it never fulfils a request.
constexpr unsigned kMostPutOff = 3;

/// The requests for which servers send data to each other.
constexpr MessageType kNeedOthers[] = {MessageType::retrieve, MessageType::write_root,
                                       MessageType::prepare, MessageType::contribute,
                                       MessageType::mend};

/// Returns whether an error says that another client has the volume.
bool deposes(Errc code) { return code == Errc::fenced || code == Errc::stale_vault; }

/// Returns whether an error says nothing about the state of the server, because it belongs to the
/// normal course of the protocol or to a slot that will be healed.
bool is_in_course(Errc code) {
  return code == Errc::need_open || code == Errc::former_view || code == Errc::shutting_down ||
         code == Errc::corrupt || code == Errc::unreachable;
}

/// Returns whether a server that works as it should may answer with this error: it holds damaged
/// slots, or no longer holds that tree version, or has nothing to heal.
bool may_answer(MessageType type, Errc code) {
  const bool is_an_order = type == MessageType::open || type == MessageType::write_root ||
                           type == MessageType::commit || type == MessageType::discard ||
                           type == MessageType::release;
  return code == Errc::need_open ||
         (!is_an_order && (code == Errc::corrupt || code == Errc::former_view)) ||
         (type == MessageType::heal_slot && code == Errc::bad_request);
}

/// Returns whether a volume in use depends on this request. If only one server refuses such a
/// request, that must not end the volume or cost a block.
bool is_vital(MessageType type) {
  switch (type) {
    case MessageType::open:
    case MessageType::write_root:
    case MessageType::retrieve:
    case MessageType::withdraw:
    case MessageType::commit:
    case MessageType::discard:
    case MessageType::release:
    case MessageType::damage:
    case MessageType::read_slot:
    case MessageType::heal_slot:
    case MessageType::contribute:
    case MessageType::mend:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool needs_others(MessageType type) {
  return std::ranges::find(kNeedOthers, type) != std::end(kNeedOthers);
}

Trust::Trust(Clock& clock, unsigned count, unsigned threshold)
    : clock_(clock), count_(count), threshold_(threshold), told_lying_(count + 1) {}

Result<Payload> Trust::weigh(Party server, MessageType type, Result<Payload> answer) {
  if (answer) {
    deposing_.erase(server);
    refusing_[type].erase(server);
    return answer;
  }
  const Errc code = answer.error().code;
  if (!deposes(code)) {
    const bool may_pass_there = Troubles::may_pass(code) && code != Errc::unreachable;
    if (may_pass_there || may_answer(type, code)) return answer;
    if (may_do_without_ && may_do_without_(server))
      return fail(Errc::failed, "{}", answer.error().message);
    if (!is_vital(type) || code == Errc::unreachable) return answer;
    refusing_[type].insert(server);
    if (refusing_[type].size() > threshold_) {
      for (const Party other : refusing_[type]) troubles_.worked(other, type);
      return answer;
    }
    return fail(Errc::failed,
                "{} (the other servers do not refuse it: that server is faulty or lies)",
                answer.error().message);
  }
  deposing_.insert(server);
  const Error& error = answer.error();
  if (deposing_.size() <= threshold_)
    return fail(Errc::failed,
                "{} (too few servers say so to be believed: that server is faulty or lies)",
                error.message);
  // Those that said so first, and were called faulty, were right.
  for (const Party other : deposing_) troubles_.forget(other);
  if (error.code == Errc::stale_vault) return answer;
  return fail(error.code,
              "a newer session, of a copy of this vault, has the volume: unmount one of the two "
              "({})",
              error.message);
}

bool Trust::may_be_of_another(MessageType type, Errc code, Duration asked) const {
  return code == Errc::failed && needs_others(type) &&
         asked < std::max(last_left_out_, last_return_);
}

void Trust::note(Party server, MessageType type, const Status& answer, bool follows) {
  if (answer) {
    put_off_.erase({server, type});
    return troubles_.worked(server, type);
  }
  // A tree that cannot grow still takes blocks that fit, and Engine::room() reports that.
  if (follows || type == MessageType::reserve) return;
  const Errc code = answer.error().code;
  const bool keeps_putting_off =
      Troubles::may_pass_at_once(code) && put_off_[{server, type}] >= kMostPutOff;
  if (is_in_course(code) && !keeps_putting_off) return;
  // A server of an older version knows no marks.
  if (type == MessageType::mark_prepared && answer.error().code == Errc::bad_request) return;
  Error error = answer.error();
  if (keeps_putting_off)
    error.message += fmt::format(" ({} times in succession)", put_off_[{server, type}]);
  troubles_.failed(server, type, std::move(error), clock_.now());
}

void Trust::left_out(Party server) {
  last_left_out_ = clock_.now();
  forget_joint_troubles(server);
}

void Trust::came_back(Party server) {
  last_return_ = clock_.now();
  forget_joint_troubles(server);
}

void Trust::forget_joint_troubles(Party cause) {
  for (Party server = 1; server <= count_; ++server)
    for (const MessageType type : kNeedOthers)
      if (server != cause) troubles_.worked(server, type);
}

Error Trust::found_lying(Party server, std::string_view why) {
  return accuse(server, {Errc::servers_disagree,
                         fmt::format("server {} is faulty or lies ({})", server, why)});
}

Error Trust::accuse(Party server, Error error) {
  const Duration now = clock_.now();
  if (told_lying_[server].pass(now))
    spdlog::error("{}{}", error.message, told_lying_[server].more());
  troubles_.lied(server, error, now);
  return error;
}

}  // namespace s3oram
