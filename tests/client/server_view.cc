// Sorts the messages that a server gets, and the content of its disk, by kind.
#include "tests/client/server_view.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "oramcore/protocol/permutation.h"
#include "oramcore/protocol/repair_messages.h"
#include "oramcore/protocol/signed_hops.h"
#include "serverd/store/bucket_store.h"

namespace s3oram::test {
namespace {

void count(ByteSpan bytes, Histogram& histogram) {
  for (const std::uint8_t byte : bytes) ++histogram[byte];
}

/// An archive (oramcore/base/codec.h) that lists the numbers and lengths in a message. Arrays are
/// seeds, names and digests, and so count as bytes.
struct NumbersOf {
  std::vector<std::uint64_t>& out;

  template <class... Fields>
  void operator()(const Fields&... fields) {
    (put(fields), ...);
  }
  template <Scalar T>
  void put(const T& value) {
    out.push_back(static_cast<std::uint64_t>(value));
  }
  template <std::size_t n>
  void put(const std::array<std::uint8_t, n>&) {}
  void put(ByteSpan value) { out.push_back(value.size()); }
  template <class T>
  void put(const std::vector<T>& list) {
    out.push_back(list.size());
    for (const T& item : list) put(item);
  }
  template <class T>
  void put(const std::optional<T>& item) {
    out.push_back(item.has_value());
    if (item) put(*item);
  }
  template <class T>
  requires requires(T& t, NumbersOf& n) { t.fields(n); }
  void put(const T& value) { const_cast<T&>(value).fields(*this); }
};

}  // namespace

void ServerView::received(Party from, const Bytes& message) {
  const auto type = static_cast<MessageType>(message[2]);
  shape[from].emplace_back(type, message.size());
  if (is_question(message)) add_question(from, type, ByteSpan(message).subspan(Rpc::kHeaderSize));
}

void ServerView::answered(const Bytes& message) {
  if (static_cast<MessageType>(message[2]) == MessageType::retrieve && is_answer(message))
    count(ByteSpan(message).subspan(Rpc::kHeaderSize), bytes["what it computes"]);
}

void ServerView::keeps(const DiskImage& disk) {
  const Bytes& slots = disk.files.at("slots").bytes;
  const std::size_t size = params_.slot_size(), stride = size + BucketVersion::kTrailer;
  for (std::size_t at = 0; at + stride <= slots.size(); at += stride) {
    const ByteSpan share = ByteSpan(slots).subspan(at, size);
    if (std::ranges::any_of(share,
                            [](std::uint8_t byte) { return byte != 0; }))  // was ever written
      count(share, bytes["what it stores"]);
  }
}

void ServerView::add_question(Party from, MessageType type, ByteSpan body) {
  NumbersOf list{numbers[from]};
  list(type);
  switch (type) {
    case MessageType::retrieve: {
      auto request = *decode<SharedRetrieveRequest>(body);
      add_query(request);
      request.leaf = 0;
      return list(request);
    }
    case MessageType::masked_share: {
      const auto request = *decode<MaskedShareRequest>(body);
      add(from, "addends", request.masked_share);
      return list(request);
    }
    case MessageType::withdraw:
      return list(*decode<WithdrawRequest>(body));
    case MessageType::write_root: {
      const auto request = *decode<WriteRootRequest>(body);
      add(from, "writes", request.share);
      for (const SharePart& part : request.parts) {
        add(from, "parts", part.content);
        add(from, "part seeds", part.seed);
        add(from, "part digests", part.digest);
      }
      return list(request);
    }
    case MessageType::relay: {
      const auto request = *decode<RelayRequest>(body);
      add(from, "parts", request.part);
      return list(request);
    }
    case MessageType::prepare: {
      const auto request = *decode<PrepareRequest>(body);
      add_orders(from, request.orders);
      return list(request);
    }
    case MessageType::subshare: {
      const auto request = *decode<SubshareRequest>(body);
      add(from, fmt::format("subshares {}", request.step), request.share);
      return list(request);
    }
    case MessageType::commit:
    case MessageType::discard:
    case MessageType::release:
      return list(*decode<CommitRequest>(body));  // all three have the same fields
    case MessageType::mark_prepared:
      return list(*decode<MarkPreparedRequest>(body));
    case MessageType::reserve:
      return list(*decode<ReserveRequest>(body));
    default:
      ADD_FAILURE() << "a request of type " << static_cast<int>(type)
                    << " that the test does not know";
  }
}

void ServerView::add_query(const RetrieveRequest& request) {
  leaves.push_back(request.leaf);
  add(kClient, "queries", request.query);
  add(kClient, "query seeds", request.query_seed);
  if (request.sum) add(kClient, "answer masks", request.sum->mask);
  // The server knows where the previous access has put its block, which may be wanted again.
  const PathSlots path(params_, request.tree_version, request.written, request.height);
  if (request.query.empty() || path.writes() == 0) return;
  const WriteNumber newest =
      first_write_number(request.tree_version, params_.evict_every) + path.writes() - 1;
  const std::uint8_t wanted = request.query[path.index(0, root_slot(newest, params_.evict_every))];
  tally("query at the newest write: lower half", 16, wanted % 16);
  tally("query at the newest write: upper half", 16, wanted / 16);
}

void ServerView::add(Party from, const std::string& what, ByteSpan sent) {
  if (sent.empty()) return;
  count(sent, bytes[what]);
  if (what.ends_with("seeds") || what.ends_with("masks"))
    drawn_seeds[what].emplace_back(sent.begin(), sent.end());
  const auto before = last_.find({from, what});
  if (before != last_.end()) {
    Bytes sum(sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(
                                               std::min(sent.size(), before->second.size())));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] ^= before->second[i];
    count(sum, bytes[what + " again"]);
  }
  last_[{from, what}] = Bytes(sent.begin(), sent.end());
}

void ServerView::add_orders(Party from, ByteSpan sent) {
  const auto orders = decode_any_shuffle_orders(sent);
  if (!orders) return add(from, "matrices", sent);
  Bytes seeds;
  for (const auto& seed :
       {orders->first, orders->third, orders->mask_first, orders->mask_second, orders->line_of_1,
        orders->line_of_3, orders->check_1, orders->check_2, orders->check_3, orders->audit_mask})
    if (seed) seeds.insert(seeds.end(), seed->begin(), seed->end());
  add(from, "seeds", seeds);
  std::vector<Permutation> known;  // those it knows of the three, in their order
  if (orders->first) known.push_back(drawn(*orders->first, "pi 1"));
  if (!orders->second.empty()) {
    known.emplace_back(orders->second.begin(), orders->second.end());
    add_permutation(known.back(), "pi 2");
  }
  if (orders->third) known.push_back(drawn(*orders->third, "pi 3"));
  ASSERT_EQ(known.size(), 2u);
  add_permutation(then(known[0], known[1]), "all that is known");
}

Permutation ServerView::drawn(const Seed& seed, std::string_view purpose) const {
  Prg prg(seed, as_bytes(purpose));
  return random_permutation(PathSlots::evicted(params_, 0, height_).count(), prg);
}

void ServerView::add_permutation(const Permutation& to, const std::string& what) {
  constexpr std::size_t kBins = 8;
  const auto bin = [&](std::size_t at) { return at * kBins / to.size(); };
  for (std::size_t from = 0; from < to.size(); ++from)
    tally(what + ": roughly from where to where", kBins * kBins, bin(from) * kBins + bin(to[from]));
  // The first of the writes that are evicted, live or not.
  tally(what + ": roughly where the first write goes", kBins, bin(to[0]));
  tally(what + ": that place modulo 8", kBins, to[0] % kBins);
}

void ServerView::tally(const std::string& what, std::size_t of, std::size_t came) {
  auto& counts = outcomes[what];
  counts.resize(of);
  ++counts[came];
}

}  // namespace s3oram::test
