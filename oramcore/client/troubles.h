// The failures that keep a volume from reading and writing, as far as its client can tell. Every
// answer of a server and every commit of vault.db is reported here, and status is read from here,
// so no part of the client needs a flag of its own for a failure that it retries.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"
#include "oramcore/protocol/messages.h"

namespace s3oram {

/// A failure that persists: the last attempt at something failed.
struct Trouble {
  Error error;       // error of the last attempt
  Duration since{};  // when the first one failed
  Duration last{};   // when the last one failed
};

/// Failures by place (a server, or kClient for its database) and by operation. A failure is over
/// when the same operation has succeeded, or when nobody has tried it again for kForgotten. That a
/// server was caught lying is no operation, so its next answer does not end it.
///
/// One executor; not thread-safe.
class Troubles {
 public:
  /// Longer than any pause between two attempts at the same operation.
  static constexpr Duration kForgotten = std::chrono::minutes(1);
  /// The greatest age of the last failure of an operation that is tried continuously.
  static constexpr Duration kFresh = std::chrono::seconds(5);

  /// Returns whether the error may pass, so that the same question can be asked again immediately
  /// (need_open, unreachable: of other servers) or later. While a session is open, this includes a
  /// store that is damaged or was rolled back: once the newest store is back, the server works
  /// again.
  static bool may_pass(Errc code) {
    return code == Errc::disk_full || code == Errc::failed || code == Errc::need_open ||
           code == Errc::unreachable || is_of_store(code);
  }
  /// Returns whether the same question can be asked again immediately.
  static bool may_pass_at_once(Errc code) {
    return code == Errc::need_open || code == Errc::unreachable;
  }
  /// Returns whether the server's store has to be put right.
  static bool is_of_store(Errc code) {
    return code == Errc::wrong_volume || code == Errc::damaged_vault;
  }

  void failed(Party at, MessageType doing, Error error, Duration now);
  void worked(Party at, MessageType doing) { troubles_.erase({at, doing}); }
  /// Forgets the failures of all operations, because what was recorded of the server was not true.
  void forget(Party at) {
    std::erase_if(troubles_, [at](const auto& each) {
      return each.first.first == at && each.first.second.has_value();
    });
  }
  void lied(Party who, Error error, Duration now);
  /// Returns the failure that began first, among the fresh ones if there are any, otherwise among
  /// all; std::nullopt if there is none.
  std::optional<Trouble> at(Party where, Duration now) const;

 private:
  using Key = std::pair<Party, std::optional<MessageType>>;  // without an operation: a lie
  void note(const Key& key, Error error, Duration now);

  std::map<Key, Trouble> troubles_;
};

}  // namespace s3oram
