// The differences between the schemes at the client: the content of a slot, how a slot is written,
// asked for and opened, and what the servers are told about an eviction. The engine (engine.h) does
// everything else, for every scheme. oramcore/schemes/registry.h creates the object.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/client/in_step.h"
#include "oramcore/protocol/label.h"
#include "oramcore/protocol/messages.h"
#include "oramcore/protocol/plan.h"

namespace s3oram {

struct OpenedBlock {
  Label label;
  Bytes content;
};

/// Returns whether all bytes are 0.
bool is_zero(ByteSpan bytes);

/// The place of a bucket's slot on the path of the eviction that wrote it.
struct SlotPlace {
  // The bucket's number on that path (path_buckets()). If the bucket is a leaf of a tree that has
  // grown since, the number may have been smaller, but at least `least`.
  unsigned bucket = 0, least = 0;
  std::uint16_t slot = 0;
  std::optional<std::uint64_t> stamp;  // stamp of the attempt at that eviction, if known
};

/// One server's query in a retrieval that several servers answer together.
struct ServerQuery {
  std::optional<Seed> seed;  // the seed from which the query is expanded
  Bytes given;               // the query itself, if there is no seed
};

/// A root write under way, with one message for each server.
class RootUpload {
 public:
  virtual ~RootUpload() = default;
  virtual Bytes message(Party server) const = 0;
  /// Returns a message with everything that the server needs, for use when another server has not
  /// relayed its part.
  virtual Bytes whole(Party server) const = 0;
  /// Returns the servers that need what this one relays.
  virtual std::vector<Party> relayed_by(Party server) const = 0;
};

/// What the servers' answers show about the rows of an eviction.
struct RowsVerdict {
  /// Errors: servers_disagree, saying what is inconsistent; the text never depends on the plan.
  Status status;
  // If it failed, the servers that differ from what is right; empty if that is not known. Each of
  // them is faulty or lies, except that other servers may have sent it the wrong rows.
  Bytes false_list;  // the server asked for the list of the path has sent another one
  Bytes other_path;  // they had another path than t + 1 servers that agree
  Bytes other_rows;  // they have other rows than the plan prescribes
};

/// Questions to the servers about an eviction that all have prepared, asked before it is decided.
class EvictionCheck {
 public:
  virtual ~EvictionCheck() = default;
  /// Returns the question for a server in step.
  virtual Bytes question(Party server) const = 0;
  /// Returns the question for a server that follows: its new rows must equal those of the servers
  /// in step.
  virtual Bytes question_of_new_rows() const = 0;
  /// Does the work that needs no answer. Must be called once; on any thread.
  virtual void expect() = 0;
  /// Compares the answers of the servers in step, answers[i] from servers[i], with what the plan
  /// prescribes. Must be called after expect(); on any thread.
  virtual RowsVerdict verdict(ByteSpan servers,
                              const std::vector<CertifyAnswer>& answers) const = 0;
};

/// Raw shares of the slots of a path, by server and then in the order of the slots. Holds the
/// shares of the first t + 1 servers, from which those of the others follow.
using PathShares = std::vector<std::vector<Bytes>>;

/// Checks what servers report after they have prepared an eviction.
class ReportCheck {
 public:
  virtual ~ReportCheck() = default;
  /// Does the work that needs no report. Must be called once; on any thread.
  virtual void expect() = 0;
  /// Compares the reports, by server, with what the orders prescribe. Must be called after
  /// expect(). Errors: servers_disagree, saying what is inconsistent; the text never depends on the
  /// plan.
  virtual Status verdict(std::span<const Payload> reports) const = 0;
  /// Returns whether find_liar() may find out more than the verdict says.
  virtual bool can_find_liar() const { return false; }
  /// Returns the server that lied, if the verdict was an error; 0 if that cannot be determined.
  /// `shares` are those with which the servers have computed. Runs on any thread.
  virtual Party find_liar(std::span<const Payload> reports, const PathShares& shares) const {
    static_cast<void>(reports), static_cast<void>(shares);
    return 0;
  }
};

/// The orders of one attempt at an eviction.
struct SchemeOrders {
  std::vector<Bytes> messages;         // PrepareRequest::orders for servers 1 to l
  std::shared_ptr<ReportCheck> check;  // null if the scheme has none
  Bytes workers = {};                  // the servers that make the rows; empty if all do
};

/// Serves one volume. Methods are called on one thread, unless they say otherwise.
class ClientScheme {
 public:
  virtual ~ClientScheme() = default;

  // ---- slots

  /// Returns the bytes that a root write puts into a slot: slot_size() of them.
  virtual Bytes seal(const Label& label, ByteSpan content) = 0;
  /// Opens a whole slot as the servers' answers give it. Takes the same time for all slots of one
  /// size. Runs on any thread. Errors: corrupt.
  virtual Result<OpenedBlock> open(ByteSpan slot) const = 0;
  /// Returns the label of a whole slot, even if the slot holds no block; std::nullopt if no client
  /// made it. Runs on any thread.
  virtual std::optional<Label> label_of(ByteSpan slot) const;
  /// Opens a slot like open(), on threads of `pool` if that takes long. Takes the same time for all
  /// slots of one size with the same `height`, that of the tree. A block is refused, with a
  /// probability below 2^-40, if it has more layers than are usual at this height; it can be opened
  /// without a height.
  virtual Task<Result<OpenedBlock>> open_on(Executor pool, Bytes slot,
                                            std::optional<unsigned> height) const {
    static_cast<void>(pool), static_cast<void>(height);
    co_return open(slot);
  }
  /// Returns whether the slot, as a server shows it, can be the one at that place. Needed where a
  /// single server could show another slot that it holds.
  virtual bool may_be_at(ByteSpan slot, const SlotPlace& place) const {
    static_cast<void>(slot), static_cast<void>(place);
    return true;
  }
  /// Returns how many bytes at the start of a slot hold its label at each server; 0 if the servers
  /// hold shares of labels instead (MessageType::labels).
  virtual std::size_t head_size() const { return 0; }
  /// Returns the label in `head`; std::nullopt if it holds none. Runs on any thread.
  virtual std::optional<Label> label_in(ByteSpan head) const {
    static_cast<void>(head);
    return std::nullopt;
  }

  // ---- accesses

  /// Makes fresh queries for slot `index` of `slots` slots (or for no slot, if `index` >= `slots`).
  /// The first ones are for the workers, one each; the others are for the remaining servers that
  /// can answer alone. Any t of them are independent of `index`.
  virtual std::vector<ServerQuery> queries(WriteNumber write_number, std::size_t slots,
                                           std::size_t index) = 0;
  /// Prepares a root write. `request` is complete except for its content; `slot` is the result of
  /// seal(). The write goes to the takers of `servers`, by way of one that is in step.
  virtual std::unique_ptr<RootUpload> upload(const WriteRootRequest& request, Bytes slot,
                                             const InStep& servers) = 0;

  // ---- evictions

  /// Returns whether servers give marks (share_mark.h) of the buckets that an eviction writes.
  virtual bool keeps_marks() const { return false; }
  /// Returns the key of a server's marks of those buckets. Requires keeps_marks().
  virtual Seed mark_key(std::uint64_t eviction, Party server) const {
    static_cast<void>(eviction), static_cast<void>(server);
    return {};
  }
  /// Makes orders from fresh randomness. Any t servers' orders are independent of the plan. `tries`
  /// is the number of earlier attempts at this eviction. The takers of `servers` take part; those
  /// in step do the work.
  virtual SchemeOrders orders(const EvictionPlan& plan, const EvictionId& id, unsigned height,
                              std::uint64_t epoch, unsigned tries, const InStep& servers,
                              Random& random) = 0;
  /// Returns the questions for the servers in step, or null if the scheme has none. Draws the
  /// questions now, so it must not be called before all servers have prepared. `tries` is that of
  /// orders().
  virtual std::unique_ptr<EvictionCheck> check(const EvictionPlan& plan, const EvictionId& id,
                                               unsigned height, std::uint64_t epoch, unsigned tries,
                                               const InStep& servers) {
    static_cast<void>(plan), static_cast<void>(id), static_cast<void>(servers);
    static_cast<void>(height), static_cast<void>(epoch), static_cast<void>(tries);
    return nullptr;
  }
};

}  // namespace s3oram
