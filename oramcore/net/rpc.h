// Requests and answers over a Transport that may lose messages. Every request has a number and is
// sent again, byte for byte, until it is answered; so every handler must be idempotent. A request
// that arrives again while its handler still runs is dropped.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"
#include "oramcore/base/random.h"
#include "oramcore/net/transport.h"

namespace s3oram {

struct RpcHeader;

/// What Rpc knows of a question. A protocol numbers its types in an enumeration and defines
/// question_of(Type) beside it.
struct QuestionType {
  std::uint16_t type = 0;
  MessageKind kind = MessageKind::question;  // the answer goes back the same way
  /// Whether the caller's patience is extended by the time that earlier requests take on a slow
  /// line.
  bool waits_in_line = true;
};

/// A received message and the part of it after the header.
struct Payload {
  Bytes message;
  ByteSpan body() const;
  /// Of a request: the tag it was sent with.
  std::uint16_t tag() const;
};

/// Pauses grow from one sending to the next and with what waits in front on a slow line, and begin
/// anew when a connection comes about.
///
/// One executor; not thread-safe.
class Rpc {
 public:
  /// kind, version, type (2), code (2), tag (2), number (8). A body is built behind this many
  /// blank bytes (encode() in messages.h does) and Rpc fills them in. A message of another version
  /// is answered by `unsupported`; a call that is answered in another version ends so.
  static constexpr std::size_t kHeaderSize = 16;
  static constexpr std::uint8_t kWireVersion = 2;
  static constexpr Duration kFirstResend = std::chrono::seconds(2);
  static constexpr Duration kLastResend = std::chrono::seconds(16);

  Rpc(Executor executor, Clock& clock, Random& random, Transport& transport);
  /// Who waits for an answer is destroyed, in a later turn of the executor.
  ~Rpc();

  /// Asks `to` and waits for its answer: the answer's body, or the error that the other side
  /// returned, or unreachable after `patience` (and the time that what waits in front takes on a
  /// slow line), or shutting_down after stop(). `tag` goes with the question.
  Task<Result<Payload>> call(Party to, QuestionType question, Bytes request,
                             Duration patience = Duration::max(), std::uint16_t tag = 0);
  /// Asks a question of a protocol's type.
  template <class Type>
  requires std::is_enum_v<Type>
  auto call(Party to, Type type, Bytes request, Duration patience = Duration::max(),
            std::uint16_t tag = 0) {
    return call(to, question_of(type), std::move(request), patience, tag);
  }

  /// Answers requests. The handler gives an encoded answer (header blank) or an error.
  using Handler =
      std::function<Task<Result<Bytes>>(Party from, std::uint16_t type, Payload request)>;
  void serve(Handler handler);

  /// Ends every call with shutting_down, now and later; requests are no longer handled.
  void stop();
  /// Whether a request to `to` has been waiting for its answer for so long that it was sent again.
  bool overdue(Party to) const { return overdue_since(to).has_value(); }
  /// When the oldest of them was asked first, by the clock.
  std::optional<Duration> overdue_since(Party to) const;
  /// The oldest request to `to` of a type that `counts` and that should have been answered long
  /// ago: twice the time has passed after which it was sent again first.
  struct Overdue {
    std::uint16_t type = 0;
    Duration asked_at{};
  };
  std::optional<Overdue> long_overdue(Party to,
                                      const std::function<bool(std::uint16_t type)>& counts) const;
  /// Requests whose handlers still run.
  std::size_t handling() const { return handling_.size(); }

 private:
  struct Call;
  void received(Party from, Bytes message);
  void unknown_version(Party from, const RpcHeader& header);
  void handle(Party from, std::uint16_t type, std::uint64_t number, Bytes message);
  void tick();
  /// Of requests to `to` and, at most, of the answers to them.
  std::size_t waiting_bytes(Party to) const;
  void connected(Party to);

  Executor executor_;
  Clock& clock_;
  Transport& transport_;
  Handler handler_;
  std::uint64_t next_number_;
  std::map<Party, std::size_t> largest_answer_;  // of those we waited for, so far
  std::map<std::uint64_t, std::unique_ptr<Call>> calls_;
  std::set<std::pair<Party, std::uint64_t>> handling_;
  bool ticking_ = false;
  bool stopped_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace s3oram
