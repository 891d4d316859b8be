// One server's part in an eviction, for any evictor. Columns are independent, so the work is split
// into tiles of columns. While one tile waits for other servers, another can be computed: the
// farther away the servers are, the more tiles are under way at a time. While there are accesses,
// no more tiles than these are under way, so that accesses find the processors and the network
// free.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "oramcore/base/async.h"
#include "oramcore/base/random.h"
#include "oramcore/protocol/messages.h"
#include "serverd/store/bucket_store.h"

namespace s3oram {

/// The slots of a bucket, or of the evicted root writes. Slots beyond `rows` are zero.
struct BucketRows {
  std::vector<const std::uint8_t*> rows;
  std::vector<std::shared_ptr<const void>> owners;
};
inline BucketRows rows_of(std::shared_ptr<const BucketVersion> bucket_version, std::size_t slots) {
  BucketRows bucket;
  for (std::size_t slot = 0; slot < slots; ++slot)
    bucket.rows.push_back(bucket_version->slot(slot));
  bucket.owners.push_back(std::move(bucket_version));
  return bucket;
}

/// A bucket of the path, in the eviction's own memory, where the new content replaces the old,
/// column by column. Slots beyond the first `slots` count as zero, whatever the memory holds there.
struct PathBucket {
  std::shared_ptr<BucketVersion> bucket_version;
  std::size_t slots = 0;
};

/// The input of an eviction.
struct EvictionInput {
  VolumeDescription volume;
  std::uint64_t epoch = 0;
  EvictionId id;
  unsigned height = 0;
  Payload request;  // owns `orders`
  ByteSpan orders;  // PrepareRequest's
};

/// The accesses that run beside an eviction.
struct AccessLoad {
  WriteNumber next_write_number = 0;  // the number after all accesses that had a retrieval
  Duration quiet{};                   // time since the last access ended
};

/// The progress of an eviction.
struct EvictionPace {
  std::uint32_t begun = 0, tiles = 1;
  std::uint64_t accesses = 0;        // accesses since it was due
  std::uint32_t evict_every = 1;     // accesses
  Duration quiet{};                  // time without a retrieval
  std::optional<Duration> quickest;  // time of a tile so far
  std::size_t beside_accesses = 1;   // tiles under way while accesses go on
};
/// Returns how many tiles to have under way: `beside_accesses` while accesses go on. It is four if
/// there are no accesses, or if the eviction is late, so that accesses would have to wait for its
/// end. It is none if accesses follow each other closely and the eviction is early, so that it
/// would end before half of the accesses until the next one is due. The farther away the other
/// servers are, the more tiles are added.
std::size_t tiles_at_once(const EvictionPace& pace);

/// The objects that an eviction uses and does not own. All of them must outlive the eviction.
struct EvictionHost {
  Executor executor;
  Executor pool;
  Clock& clock;
  Rpc& peers;
  Random& random;
  std::function<AccessLoad()> load;
};

using BucketBuffers = std::vector<std::shared_ptr<BucketVersion>>;

/// Used on one executor; not thread-safe. A shared_ptr keeps it alive while it runs.
class Eviction : public std::enable_shared_from_this<Eviction> {
 public:
  virtual ~Eviction() = default;

  /// Returns whether this server's shares of the path are used; if not, the path may hold anything.
  virtual bool reads_path() const = 0;
  /// Returns whether this server's shares of the evicted root writes are needed. A server that only
  /// follows may lack them.
  virtual bool reads_writes() const { return reads_path(); }

  /// Sets the current content: the evicted writes, and then the root's stash buckets, the path's
  /// buckets from level 1 on and, for the matrix evictor, the leaf's sibling. Called before run().
  void start_from(BucketRows writes, std::vector<PathBucket> path) {
    writes_ = std::move(writes);
    path_ = std::move(path);
  }

  /// Runs the eviction and returns the new content, in the evictor's order of buckets. Called once.
  Task<Result<BucketBuffers>> run();

  /// Returns what the client needs to check the other servers' messages, once run() has succeeded;
  /// empty if the client does not check them.
  virtual Bytes report() const { return {}; }

  /// Takes a subshare, which may come twice.
  void receive(Party from, const SubshareRequest& subshare, Payload owner);

  /// Makes run() end with an error soon.
  void cancel(Error reason);

  const EvictionId& id() const { return input_.id; }

 protected:
  /// `rows` are those of the largest message; `steps` is how many messages a tile takes.
  Eviction(EvictionInput&& input, const EvictionHost& host, std::size_t rows, std::size_t steps);

  virtual Task<Status> evict_tile(std::uint32_t tile) = 0;
  /// Returns whether this server's part depends on that of `peer`.
  virtual bool needs(Party peer) const {
    static_cast<void>(peer);
    return true;
  }
  /// Returns how many tiles are under way while accesses go on.
  virtual std::size_t tiles_beside_accesses() const { return 1; }
  /// Returns the new content when all tiles are done.
  virtual BucketBuffers take_results();

  void send(Party to, std::size_t step, std::uint32_t tile, ByteSpan share);
  /// Waits for the `size` bytes that `from` sends for the step. The result is valid until forget().
  Task<Result<ByteSpan>> await(Party from, std::size_t step, std::uint32_t tile, std::size_t size);
  void forget(Party from, std::size_t step, std::uint32_t tile) {
    inbox_.erase({step, tile, from});
  }

  std::size_t tile_begin(std::uint32_t tile) const { return tile * tile_width_; }
  std::size_t tile_width(std::uint32_t tile) const;
  const VolumeParams& params() const { return input_.volume.params; }
  Party self() const { return input_.volume.server; }
  std::size_t tile_limit() const { return tile_width_; }

  const EvictionInput input_;
  const EvictionHost host_;
  BucketRows writes_;
  std::vector<PathBucket> path_;

 private:
  struct Subshare {
    Payload owner;
    ByteSpan share;
  };
  void refused(Party peer, const Error& refusal);
  /// Computes the next tile, from beginning to end.
  Task<void> work_off_tile();
  std::size_t most_at_once() const;

  std::size_t steps_, tile_width_, largest_share_;
  std::uint32_t tiles_;
  std::uint32_t next_tile_ = 0;
  std::size_t at_once_ = 0;           // tiles under way
  std::optional<Duration> quickest_;  // time of a tile so far
  std::size_t unanswered_ = 0;        // subshares sent and not yet acknowledged
  std::map<std::tuple<std::size_t, std::uint32_t, Party>, Subshare> inbox_;
  Event changed_;
  std::optional<Error> failure_;
};

}  // namespace s3oram
