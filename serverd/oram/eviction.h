// One server's part in an eviction, for any evictor. Columns are independent, so the work goes in
// tiles of columns. While one tile waits for other servers, another can be computed: the farther
// away they are, the more at a time. While accesses go on there are no more than that, so that they
// find the processors and the lines free.
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

/// A bucket of the path, in memory of the eviction's own: the new content takes the old one's
/// place, column by column. Slots beyond the first `slots` are zero, whatever the memory holds
/// there.
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

/// The accesses beside an eviction.
struct AccessLoad {
  WriteNumber next_write_number = 0;  // after all that have been retrieved for
  Duration quiet{};                   // since the last one ended
};

/// How far an eviction is.
struct EvictionPace {
  std::uint32_t begun = 0, tiles = 1;
  std::uint64_t accesses = 0;        // since it was due
  std::uint32_t evict_every = 1;     // accesses
  Duration quiet{};                  // without a retrieval
  std::optional<Duration> quickest;  // tile so far
};
/// Returns how many tiles to have under way: one while accesses go on; more if there are none, or
/// if so many accesses would come before the last tile that they would wait for the end; none if
/// accesses follow each other and the last tile would come before half as many. The farther away
/// the other servers are, the more tiles are added.
std::size_t tiles_at_once(const EvictionPace& pace);

/// What an eviction uses and does not own. All of it must outlive the eviction.
struct EvictionHost {
  Executor executor;
  Executor pool;
  Clock& clock;
  Rpc& peers;
  Random& random;
  std::function<AccessLoad()> load;
};

using BucketBuffers = std::vector<std::shared_ptr<BucketVersion>>;

/// One executor; not thread-safe. Kept alive by a shared_ptr while it runs.
class Eviction : public std::enable_shared_from_this<Eviction> {
 public:
  virtual ~Eviction() = default;

  /// Whether this server's shares of the path are used; otherwise the path may hold anything.
  virtual bool reads_path() const = 0;
  /// Whether it needs this server's shares of the root writes that are evicted. One that only
  /// follows may lack them.
  virtual bool reads_writes() const { return reads_path(); }

  /// Sets the present content: the writes that are evicted, and the root's stash buckets, the
  /// path's buckets from level 1 on and, for the matrix evictor, the leaf's sibling. Called before
  /// run().
  void start_from(BucketRows writes, std::vector<PathBucket> path) {
    writes_ = std::move(writes);
    path_ = std::move(path);
  }

  /// Runs the eviction and returns the new content, in the evictor's order of buckets. Called once.
  Task<Result<BucketBuffers>> run();

  /// What the client checks the others' messages by, once run() has ended well; empty if it does
  /// not want to.
  virtual Bytes report() const { return {}; }

  /// Takes a subshare. It may come twice.
  void receive(Party from, const SubshareRequest& subshare, Payload owner);

  /// Makes run() end with an error soon.
  void cancel(Error reason);

  const EvictionId& id() const { return input_.id; }

 protected:
  /// `rows`: of the largest message; `steps`: how many messages a tile takes.
  Eviction(EvictionInput&& input, const EvictionHost& host, std::size_t rows, std::size_t steps);

  virtual Task<Status> evict_tile(std::uint32_t tile) = 0;
  /// Whether this server's part depends on that one's.
  virtual bool needs(Party peer) const {
    static_cast<void>(peer);
    return true;
  }
  /// Returns the new content when all tiles are done.
  virtual BucketBuffers take_results();

  void send(Party to, std::size_t step, std::uint32_t tile, ByteSpan share);
  /// Waits for what `from` sends for the step, `size` bytes. Valid until forget().
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
  /// Works on the next tile, from beginning to end.
  Task<void> work_off_tile();
  std::size_t most_at_once() const;

  std::size_t steps_, tile_width_, largest_share_;
  std::uint32_t tiles_;
  std::uint32_t next_tile_ = 0;
  std::size_t at_once_ = 0;           // tiles under way
  std::optional<Duration> quickest_;  // tile so far
  std::size_t unanswered_ = 0;        // subshares sent and not yet acknowledged
  std::map<std::tuple<std::size_t, std::uint32_t, Party>, Subshare> inbox_;
  Event changed_;
  std::optional<Error> failure_;
};

}  // namespace s3oram
