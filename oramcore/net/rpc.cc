// Sends requests until they are answered, and runs the handlers of those that arrive.
#include "oramcore/net/rpc.h"

#include <algorithm>
#include <cstring>

#include "oramcore/base/codec.h"
#include "oramcore/base/human.h"

namespace s3oram {
namespace {

// The most by which a call may end later than its patience says.
constexpr Duration kTick = std::chrono::milliseconds(100);
// Time assumed for each byte that is queued before a request, in both directions, because that wait
// on a slow line is no reason to send the request twice.
constexpr Duration kTimeOfByte = std::chrono::microseconds(10);
constexpr std::size_t kMostWords = 1024;  // bytes

/// Returns the text of an error that a party sent, made safe to print, because it may contain
/// anything.
std::string words_of(ByteSpan text) {
  return printable(std::string(
      text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), kMostWords))));
}

}  // namespace

// The header has the same form in every version, so that a party can answer a version that it does
// not know.
struct RpcHeader {
  MessageKind kind{};
  std::uint8_t version = Rpc::kWireVersion;
  std::uint16_t type = 0;
  std::uint16_t code = 0;  // in an answer: 0, or an Errc whose text is the body
  std::uint16_t tag = 0;   // used only in requests
  std::uint64_t number = 0;
  template <class A>
  void fields(A& a) {
    a(kind, version, type, code, tag, number);
  }
};

namespace {

MessageKind answer_to(MessageKind question) {
  return question == MessageKind::question ? MessageKind::answer : MessageKind::bulk_answer;
}

Bytes with_header(RpcHeader header, Bytes message) {
  Writer writer;
  header.fields(writer);
  const Bytes bytes = writer.take();
  std::copy(bytes.begin(), bytes.end(), message.begin());
  return message;
}

}  // namespace

ByteSpan Payload::body() const { return ByteSpan(message).subspan(Rpc::kHeaderSize); }

std::uint16_t Payload::tag() const {
  return decode<RpcHeader>(ByteSpan(message).first(Rpc::kHeaderSize))->tag;
}

struct Rpc::Call {
  Party to;
  std::uint16_t type = 0;
  Bytes request;
  Duration asked_at;
  Duration due_after;  // waiting for this long makes it long overdue
  Duration resend_at;
  Duration resend_after = kFirstResend;
  bool resent = false;
  Duration give_up_at;
  bool ended = false;
  std::optional<Result<Payload>>* answer;  // lies in the caller's frame, which waits for `answered`
  Event answered;

  void finish(Result<Payload> result) {
    ended = true;
    answer->emplace(std::move(result));
    answered.notify_all();
  }
};

Rpc::Rpc(Executor executor, Clock& clock, Random& random, Transport& transport)
    : executor_(std::move(executor)),
      clock_(clock),
      transport_(transport),
      next_number_(random.u64()) {
  transport_.on_message([this](Party from, Bytes message) { received(from, std::move(message)); });
  transport_.on_connection([this](Party to) { connected(to); });
}

Rpc::~Rpc() {
  *alive_ = false;
  transport_.on_message([](Party, Bytes) {});
  transport_.on_connection([](Party) {});
}

Task<Result<Payload>> Rpc::call(Party to, QuestionType question, Bytes request, Duration patience,
                                std::uint16_t tag) {
  if (stopped_) co_return fail(Errc::shutting_down, "stopped");
  RpcHeader header{.kind = question.kind, .type = question.type, .tag = tag};
  header.number = next_number_++;
  const Duration now = clock_.now();
  const Duration waiting = (question.waits_in_line ? waiting_bytes(to) : 0) * kTimeOfByte;
  std::optional<Result<Payload>> answer;
  // Only calls_ owns the call. A coroutine that owned the call on which it waits would own itself.
  const auto call = calls_.emplace(header.number, std::make_unique<Call>()).first->second.get();
  call->to = to;
  call->type = question.type;
  call->request = with_header(header, std::move(request));
  call->resend_after += waiting;
  call->asked_at = now;
  call->due_after = 2 * call->resend_after;
  call->resend_at = now + call->resend_after;
  call->give_up_at = patience == Duration::max() ? patience : now + patience + waiting;
  call->answer = &answer;
  transport_.send(to, call->request);
  if (!ticking_) tick();
  const auto alive = alive_;  // `this` may be gone when the caller resumes
  if (!answer) co_await call->answered.wait();
  if (*alive) calls_.erase(header.number);
  co_return std::move(*answer);
}

// Resends at the next tick, because the transport may not be able to send yet.
void Rpc::connected(Party to) {
  for (auto& [number, call] : calls_) {
    if (call->to != to || call->ended) continue;
    call->resend_after = kFirstResend / 2;  // tick() doubles it
    call->resend_at = clock_.now();
  }
}

std::optional<Duration> Rpc::overdue_since(Party to) const {
  std::optional<Duration> since;
  for (const auto& [number, call] : calls_)
    if (call->to == to && !call->ended && call->resent)
      since = std::min(since.value_or(call->asked_at), call->asked_at);
  return since;
}

std::optional<Rpc::Overdue> Rpc::long_overdue(
    Party to, Duration since, const std::function<bool(const Overdue&)>& counts) const {
  std::optional<Overdue> oldest;
  const Duration now = clock_.now();
  for (const auto& [number, call] : calls_) {
    const Overdue request{call->type, call->asked_at};
    const Duration waited = now - std::max(call->asked_at, since);
    if (call->to == to && !call->ended && waited >= call->due_after && counts(request) &&
        (!oldest || request.asked_at < oldest->asked_at))
      oldest = request;
  }
  return oldest;
}

std::size_t Rpc::waiting_bytes(Party to) const {
  std::size_t bytes = 0;
  for (const auto& [number, call] : calls_) {
    if (call->to != to) continue;
    const auto largest = largest_answer_.find({to, call->type});
    bytes += call->request.size() + (largest == largest_answer_.end() ? 0 : largest->second);
  }
  return bytes;
}

void Rpc::tick() {
  ticking_ = true;
  clock_.call_after(kTick, [this, alive = alive_] {
    if (!*alive) return;
    ticking_ = false;
    if (calls_.empty()) return;
    const Duration now = clock_.now();
    for (auto& [number, call] : calls_) {
      if (call->ended) continue;
      if (now >= call->give_up_at) {
        call->finish(fail(Errc::unreachable, "server {} does not answer", call->to));
      } else if (now >= call->resend_at) {
        call->resend_after = std::max(std::min(2 * call->resend_after, kLastResend),
                                      Duration(waiting_bytes(call->to) * kTimeOfByte));
        call->resent = true;
        call->resend_at = now + call->resend_after;
        transport_.send(call->to, call->request);
      }
    }
    tick();
  });
}

std::optional<std::uint16_t> Rpc::question_in(ByteSpan message) {
  if (message.size() < kHeaderSize || !is_question(message)) return std::nullopt;
  const auto header = decode<RpcHeader>(message.first(kHeaderSize));
  if (!header || header->version != kWireVersion) return std::nullopt;
  return header->type;
}

void Rpc::serve(Handler handler) { handler_ = std::move(handler); }

void Rpc::stop() {
  stopped_ = true;
  for (auto& [number, call] : calls_)
    if (!call->ended) call->finish(fail(Errc::shutting_down, "stopped"));
}

void Rpc::abandon(const std::function<bool(Party to, std::uint16_t type)>& ends,
                  const std::string& why) {
  for (auto& [number, call] : calls_)
    if (!call->ended && ends(call->to, call->type))
      call->finish(fail(Errc::unreachable, "{}", why));
}

std::optional<Duration> Rpc::waiting_since(
    Party to, const std::function<bool(std::uint16_t type)>& counts) const {
  std::optional<Duration> since;
  for (const auto& [number, call] : calls_)
    if (call->to == to && !call->ended && (!counts || counts(call->type)))
      since = std::min(since.value_or(call->asked_at), call->asked_at);
  return since;
}

std::optional<Duration> Rpc::last_received(Party from) const {
  const auto found = last_received_.find(from);
  return found == last_received_.end() ? std::nullopt : std::optional(found->second);
}

void Rpc::received(Party from, Bytes message) {
  if (message.size() < kHeaderSize) return;
  const auto header = decode<RpcHeader>(ByteSpan(message).first(kHeaderSize));
  if (!header) return;
  last_received_[from] = clock_.now();
  if (header->version != kWireVersion) return unknown_version(from, *header);
  if (is_question(message)) {
    handle(from, header->type, header->number, std::move(message));
  } else if (is_answer(message)) {
    const auto found = calls_.find(header->number);
    if (found == calls_.end() || found->second->ended || found->second->to != from) return;
    if (header->code == 0) {
      auto& largest = largest_answer_[{from, found->second->type}];
      largest = std::max(largest, message.size());
      found->second->finish(Payload{std::move(message)});
    } else {
      const bool known = header->code <= static_cast<int>(Errc::former_view);
      found->second->finish(
          fail(Error{known ? static_cast<Errc>(header->code) : Errc::failed,
                     fmt::format("server {} says: {}", from,
                                 words_of(ByteSpan(message).subspan(kHeaderSize)))}));
    }
  }
}

// Answers a question with `unsupported`, and ends a call whose answer is in another version.
void Rpc::unknown_version(Party from, const RpcHeader& header) {
  const Bytes kind{static_cast<std::uint8_t>(header.kind)};
  if (is_question(kind) && handler_ && !stopped_) {
    RpcHeader answer{.kind = answer_to(header.kind), .type = header.type, .number = header.number};
    answer.code = static_cast<std::uint16_t>(Errc::unsupported);
    const std::string text = fmt::format(
        "it speaks version {} of the protocol and was asked in version {}: install the same "
        "version of s3oramfs on the client and on all servers",
        kWireVersion, header.version);
    Bytes reply(kHeaderSize);
    reply.insert(reply.end(), text.begin(), text.end());
    transport_.send(from, with_header(answer, std::move(reply)));
  } else if (is_answer(kind)) {
    const auto found = calls_.find(header.number);
    if (found == calls_.end() || found->second->ended || found->second->to != from) return;
    found->second->finish(fail(
        Errc::unsupported,
        "server {} speaks version {} of the protocol, and this program version {}: install the "
        "same version of s3oramfs on the client and on all servers",
        from, header.version, kWireVersion));
  }
}

void Rpc::handle(Party from, std::uint16_t type, std::uint64_t number, Bytes message) {
  if (stopped_ || !handler_ || !handling_.emplace(from, number).second) return;
  spawn(executor_,
        [](Rpc& rpc, std::shared_ptr<bool> alive, Party to, std::uint16_t kind, std::uint64_t id,
           Bytes request) -> Task<void> {
          const MessageKind asked = kind_of(request);
          Payload payload{std::move(request)};
          auto answer = co_await rpc.handler_(to, kind, std::move(payload));
          if (!*alive) co_return;
          rpc.handling_.erase({to, id});
          RpcHeader header{.kind = answer_to(asked), .type = kind, .number = id};
          Bytes reply;
          if (answer) {
            reply = std::move(*answer);
          } else {
            if (answer.error().code == Errc::shutting_down) co_return;
            header.code = static_cast<std::uint16_t>(answer.error().code);
            const auto& text = answer.error().message;
            reply.resize(kHeaderSize);
            reply.insert(reply.end(), text.begin(), text.end());
          }
          rpc.transport_.send(to, with_header(header, std::move(reply)));
        }(*this, alive_, from, type, number, std::move(message)));
}

}  // namespace s3oram
