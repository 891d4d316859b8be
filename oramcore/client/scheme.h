// What differs between the schemes at the client: what a slot holds, and so how one is written,
// asked for and opened, and what the servers are told of an eviction. Everything else is the
// engine's (engine.h), whichever scheme a volume has. oramcore/schemes/registry.h makes one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "oramcore/client/in_step.h"
#include "oramcore/protocol/label.h"
#include "oramcore/protocol/messages.h"
#include "oramcore/protocol/plan.h"

namespace s3oram {

struct OpenedBlock {
  Label label;
  Bytes content;
};

/// Whether all of them are 0.
bool is_zero(ByteSpan bytes);

/// Where a slot of a bucket lies on the path of the eviction that wrote it.
struct SlotPlace {
  // The bucket's number on that path (path_buckets()). At a leaf of a tree that has grown since it
  // may have been less, but not less than `least`.
  unsigned bucket = 0, least = 0;
  std::uint16_t slot = 0;
  std::optional<std::uint64_t> stamp;  // of that eviction's attempt, if it is known
};

/// A query of a retrieval for one of the servers that answer together.
struct ServerQuery {
  std::optional<Seed> seed;  // what it is expanded from,
  Bytes given;               // or the query itself
};

/// A root write on its way, in one message to each server.
class RootUpload {
 public:
  virtual ~RootUpload() = default;
  virtual Bytes message(Party server) const = 0;
  /// Returns a message with all that the server needs, for when another server did not do its part.
  virtual Bytes whole(Party server) const = 0;
  /// The servers that cannot do theirs without this one.
  virtual std::vector<Party> relayed_by(Party server) const = 0;
};

/// What the servers are asked about an eviction that all have prepared, before it is decided.
class EvictionCheck {
 public:
  virtual ~EvictionCheck() = default;
  /// The question for a server in step.
  virtual Bytes question(Party server) const = 0;
  /// The question for one that follows: its new rows must be those of the servers in step.
  virtual Bytes question_of_new_rows() const = 0;
  /// Compares the answers of the servers in step, answers[i] from servers[i], with what the plan
  /// prescribes. Any thread. Errors: servers_disagree, with what does not fit; never a reason that
  /// depends on the plan.
  virtual Status verdict(ByteSpan servers, const std::vector<CertifyAnswer>& answers) const = 0;
};

/// Raw shares of the slots of a path, by server and then in the order of the slots: those of the
/// first t + 1 servers, from which the others' follow.
using PathShares = std::vector<std::vector<Bytes>>;

/// The check of what servers report when they have prepared an eviction.
class ReportCheck {
 public:
  virtual ~ReportCheck() = default;
  /// Work that needs no report. Once; any thread.
  virtual void expect() = 0;
  /// Compares the reports, by server, with what the orders prescribe; after expect(). Errors:
  /// servers_disagree, with what does not fit; never a reason that depends on the plan.
  virtual Status verdict(std::span<const Payload> reports) const = 0;
  /// Whether find_liar() may say more than the verdict.
  virtual bool can_find_liar() const { return false; }
  /// Returns the server that lied, if the verdict was not good; 0 if nobody can tell. `shares` are
  /// those with which the servers have computed. Any thread.
  virtual Party find_liar(std::span<const Payload> reports, const PathShares& shares) const {
    static_cast<void>(reports), static_cast<void>(shares);
    return 0;
  }
};

/// What servers are told of one attempt at an eviction.
struct SchemeOrders {
  std::vector<Bytes> messages;         // PrepareRequest::orders for servers 1 to l
  std::shared_ptr<ReportCheck> check;  // null where there is none
};

/// Serves one volume. Methods are called on one thread, unless they say otherwise.
class ClientScheme {
 public:
  virtual ~ClientScheme() = default;

  // ---- slots

  /// What a root write puts into a slot: slot_size() bytes.
  virtual Bytes seal(const Label& label, ByteSpan content) = 0;
  /// Opens a whole slot as the servers' answers give it. Takes the same time for all that is as
  /// long. Any thread. Errors: corrupt.
  virtual Result<OpenedBlock> open(ByteSpan slot) const = 0;
  /// The label of a whole slot, also of one that holds nothing; std::nullopt if no client made it.
  /// Any thread.
  virtual std::optional<Label> label_of(ByteSpan slot) const;
  /// Returns how many bytes open() draws or combines besides the slot itself.
  virtual std::size_t work_to_open() const { return 0; }
  /// Whether the slot, as a server shows it, can be the one at that place: where a server alone
  /// could show another one that it holds.
  virtual bool may_be_at(ByteSpan slot, const SlotPlace& place) const {
    static_cast<void>(slot), static_cast<void>(place);
    return true;
  }
  /// Bytes at a slot's start that hold its label at each server; 0: servers have shares of labels
  /// (MessageType::labels).
  virtual std::size_t head_size() const { return 0; }
  /// The label in such a head; std::nullopt if it holds none. Any thread.
  virtual std::optional<Label> label_in(ByteSpan head) const {
    static_cast<void>(head);
    return std::nullopt;
  }

  // ---- accesses

  /// Fresh queries for `index` of `slots` slots (or, from `slots` on, for nothing): one for each of
  /// the workers first, and then for each other server that can answer for itself. Any t of them
  /// are independent of `index`.
  virtual std::vector<ServerQuery> queries(WriteNumber write_number, std::size_t slots,
                                           std::size_t index) = 0;
  /// `request` is complete but for its content; `slot` is what seal() gave. It goes to the takers
  /// of `servers`, by way of one in step.
  virtual std::unique_ptr<RootUpload> upload(const WriteRootRequest& request, Bytes slot,
                                             const InStep& servers) = 0;

  // ---- evictions

  /// Makes orders from fresh randomness. Any t servers' orders are independent of the plan. `tries`
  /// says how many attempts at this eviction there were before. The takers of `servers` take part;
  /// those in step do the work.
  virtual SchemeOrders orders(const EvictionPlan& plan, const EvictionId& id, unsigned height,
                              std::uint64_t epoch, unsigned tries, const InStep& servers,
                              Random& random) = 0;
  /// Null where the scheme has none. Draws its questions now: not before all have prepared. They
  /// are for the servers in step.
  virtual std::unique_ptr<EvictionCheck> check(const EvictionPlan& plan, const EvictionId& id,
                                               unsigned height, std::uint64_t epoch,
                                               const InStep& servers) {
    static_cast<void>(plan), static_cast<void>(id), static_cast<void>(servers);
    static_cast<void>(height), static_cast<void>(epoch);
    return nullptr;
  }
};

}  // namespace s3oram
