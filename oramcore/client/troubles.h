// What keeps a volume from reading and writing, as far as its client can tell. Every answer of a
// server, and every commit of vault.db, is reported here, and status asks here: no part of the
// client has a flag of its own for a failure that it tries again.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "oramcore/base/async.h"
#include "oramcore/base/error.h"
#include "oramcore/protocol/messages.h"

namespace s3oram {

/// A failure that goes on: the last attempt at something failed.
struct Trouble {
  Error error;       // of the last attempt
  Duration since{};  // when the first one failed
  Duration last{};   // when the last one failed
};

/// Failures by where they are (a server, or kClient: its database) and by what was being done. One
/// is over when the same thing has worked, or when nobody has tried it again for kForgotten.
///
/// One executor; not thread-safe.
class Troubles {
 public:
  /// Longer than any pause between two attempts at the same thing.
  static constexpr Duration kForgotten = std::chrono::minutes(1);
  /// What is tried all the time has failed within this.
  static constexpr Duration kFresh = std::chrono::seconds(5);

  void failed(Party at, MessageType doing, Error error, Duration now);
  void worked(Party at, MessageType doing) { troubles_.erase({at, doing}); }
  /// Of those that are fresh, or else of all, the one that began first; std::nullopt if there is
  /// none.
  std::optional<Trouble> at(Party where, Duration now) const;

 private:
  std::map<std::pair<Party, MessageType>, Trouble> troubles_;
};

}  // namespace s3oram
