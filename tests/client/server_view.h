// Collects everything that a server learns: its requests, its results for the client, and its
// store.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oramcore/protocol/messages.h"
#include "tests/sim/cluster.h"

namespace s3oram::test {

using Histogram = std::array<std::uint64_t, 256>;  // how often each byte occurs

struct ServerView {
  /// For a tree that keeps its height meanwhile.
  ServerView(const VolumeParams& params, unsigned height) : params_(params), height_(height) {}

  /// Takes a message to the server, or its answer to the client.
  void received(Party from, const Bytes& message);
  void answered(const Bytes& message);
  /// Takes what its disk holds in the end.
  void keeps(const DiskImage& disk);

  using Shape = std::vector<std::pair<MessageType, std::size_t>>;  // type, size
  std::map<Party, Shape> shape;                                    // by sender
  /// Every number in every request except leaves, and every length.
  std::map<Party, std::vector<std::uint64_t>> numbers;
  std::vector<Leaf> leaves;  // leaves of retrievals, in order
  /// Bytes that should be uniform, by kind. "... again" is the sum with what the same party sent
  /// before, which is not uniform if a mask was used twice.
  std::map<std::string, Histogram> bytes;
  /// Counts of several equally likely outcomes, by kind.
  std::map<std::string, std::vector<std::uint64_t>> outcomes;

  /// Seeds in the order in which they arrived, by kind.
  std::map<std::string, std::vector<Bytes>> drawn_seeds;

  std::size_t leaves_of_tree() const { return std::size_t{1} << height_; }

 private:
  void add_question(Party from, MessageType type, ByteSpan body);
  void add_query(const RetrieveRequest& request);
  void add_orders(Party from, ByteSpan sent);
  template <class Array>
  void add(Party from, const std::string& what, const std::optional<Array>& sent) {
    if (sent) add(from, what, ByteSpan(*sent));
  }
  void add(Party from, const std::string& what, ByteSpan sent);
  Permutation drawn(const Seed& seed, std::string_view purpose) const;
  void add_permutation(const Permutation& to, const std::string& what);
  /// Counts one of `of` outcomes.
  void tally(const std::string& what, std::size_t of, std::size_t came);

  VolumeParams params_;
  unsigned height_;
  std::map<std::pair<Party, std::string>, Bytes> last_;
};

}  // namespace s3oram::test
