// One server's part in retrievals.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "serverd/oram/server_state.h"
#include "serverd/oram/sums.h"

namespace s3oram {

class ServerRetrieval {
 public:
  ServerRetrieval(ServerState& state, Sums& sums) : state_(state), sums_(sums) {}

  Task<Result<Bytes>> retrieve(SharedRetrieveRequest request, Payload&);
  /// Returns the current load of retrievals, to which evictions give way.
  AccessLoad load() const;
  /// Waits until no retrieval reads this tree version.
  Task<void> until_none_reads(std::uint64_t tree_version);

 private:
  struct PathPart;
  struct PathProduct;
  /// Adds the inner products of the parts. Reads parts that are not in memory.
  void add_parts(PathProduct& to, std::span<const PathPart> parts);
  /// Returns the inner product after a blank header. Counts the retrieval for its tree version.
  Task<Result<Bytes>> product(const RetrieveRequest& request, ByteSpan query);
  /// Returns the servers whose products may be in the sum; std::nullopt if `workers` cannot work
  /// together.
  std::optional<Bytes> summands(const Bytes& workers) const;
  Task<Result<Bytes>> add_up(std::uint64_t epoch, SumOrder order, Bytes summands, Bytes product);

  ServerState& state_;
  Sums& sums_;
  std::map<std::uint64_t, std::size_t> retrievals_;  // under way, by tree version
  Duration last_retrieval_{};                        // when the last retrieval ended
  WriteNumber next_write_number_ = 0;                // the number after all that have retrieved
};

}  // namespace s3oram
