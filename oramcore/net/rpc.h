// Requests and answers over a Transport that may lose messages. Every request has a number and is
// resent, byte for byte, until it is answered, so every handler must be idempotent. A request that
// arrives again while its handler is still running is dropped.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"
#include "oramcore/base/random.h"
#include "oramcore/net/transport.h"

namespace s3oram {

struct RpcHeader;

/// Tells Rpc how to treat a question. A protocol numbers its types in an enumeration, and defines
/// question_of(Type) beside it.
struct QuestionType {
  std::uint16_t type = 0;
  MessageKind kind = MessageKind::question;  // the answer is of the matching kind
  /// The time that earlier requests take on a slow line is added to the caller's patience.
  bool waits_in_line = true;
};

/// A received message; body() is the part after its header.
struct Payload {
  Bytes message;
  ByteSpan body() const;
  /// Returns the tag with which a request was sent.
  std::uint16_t tag() const;
};

/// Pauses between resends grow, also with the bytes queued before the request, and become short
/// again when a connection is made.
///
/// One executor; not thread-safe.
class Rpc {
 public:
  /// kind, version, type (2), code (2), tag (2), number (8). A message is built with this many
  /// blank bytes before its body (as encode() in messages.h does), and Rpc fills them in. A message
  /// of another version is answered with `unsupported`; a call whose answer has another version
  /// ends with that error.
  static constexpr std::size_t kHeaderSize = 16;
  static constexpr std::uint8_t kWireVersion = 2;
  static constexpr Duration kFirstResend = std::chrono::seconds(2);
  static constexpr Duration kLastResend = std::chrono::seconds(16);

  Rpc(Executor executor, Clock& clock, Random& random, Transport& transport);
  /// Destroys the coroutines that wait for an answer, in a later turn of the executor.
  ~Rpc();

  /// Asks `to` and waits for its answer. Returns the answer, or the error that the other side
  /// returned (its text says which party sent it), or unreachable after `patience` (plus the time
  /// that earlier requests take on a slow line), or shutting_down after stop(). `tag` is sent with
  /// the question.
  Task<Result<Payload>> call(Party to, QuestionType question, Bytes request,
                             Duration patience = Duration::max(), std::uint16_t tag = 0);
  /// Asks a question whose type belongs to a protocol.
  template <class Type>
  requires std::is_enum_v<Type>
  auto call(Party to, Type type, Bytes request, Duration patience = Duration::max(),
            std::uint16_t tag = 0) {
    return call(to, question_of(type), std::move(request), patience, tag);
  }

  /// Returns the type of the question in a message; std::nullopt if it is not a question, or of
  /// another version.
  static std::optional<std::uint16_t> question_in(ByteSpan message);

  /// Answers requests with `handler`, which returns an encoded answer (with a blank header) or an
  /// error.
  using Handler =
      std::function<Task<Result<Bytes>>(Party from, std::uint16_t type, Payload request)>;
  void serve(Handler handler);

  /// Ends all current and later calls with shutting_down. Requests are no longer handled.
  void stop();
  /// Ends the calls under way for which `ends(to, type)` is true with unreachable, giving `why`.
  void abandon(const std::function<bool(Party to, std::uint16_t type)>& ends,
               const std::string& why);
  /// Returns when the oldest unanswered call to `to` was made, by the clock, among the types for
  /// which `counts` is true.
  std::optional<Duration> waiting_since(
      Party to, const std::function<bool(std::uint16_t type)>& counts = {}) const;
  /// Returns when the last message came from this party, whatever it was, by the clock.
  std::optional<Duration> last_received(Party from) const;
  /// Returns whether a request to `to` has waited for its answer so long that it was resent.
  bool overdue(Party to) const { return overdue_since(to).has_value(); }
  /// Returns when the oldest such request was first sent, by the clock.
  std::optional<Duration> overdue_since(Party to) const;
  /// Returns the oldest request to `to`, among those for which `counts` is true, that has waited
  /// twice as long as the first resend takes. Only the time from `since` on counts as waiting.
  struct Overdue {
    std::uint16_t type = 0;
    Duration asked_at{};
  };
  std::optional<Overdue> long_overdue(Party to, Duration since,
                                      const std::function<bool(const Overdue&)>& counts) const;
  /// Returns the number of requests whose handlers are still running.
  std::size_t handling() const { return handling_.size(); }

 private:
  struct Call;
  void received(Party from, Bytes message);
  void unknown_version(Party from, const RpcHeader& header);
  void handle(Party from, std::uint16_t type, std::uint64_t number, Bytes message);
  void tick();
  /// Returns an upper bound for the bytes of the open requests to `to` and of their answers.
  std::size_t waiting_bytes(Party to) const;
  void connected(Party to);

  Executor executor_;
  Clock& clock_;
  Transport& transport_;
  Handler handler_;
  std::uint64_t next_number_;
  // Bytes, by answering party and type of the question, so that a question with a large answer, or
  // a party that answers too much, does not stretch the deadlines of others.
  std::map<std::pair<Party, std::uint16_t>, std::size_t> largest_answer_;
  std::map<std::uint64_t, std::unique_ptr<Call>> calls_;
  std::set<std::pair<Party, std::uint64_t>> handling_;
  std::map<Party, Duration> last_received_;
  bool ticking_ = false;
  bool stopped_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace s3oram
