// Sets the pace of accesses.
#include "oramcore/client/write_numbers.h"

#include <algorithm>

#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

constexpr Duration kUplinkQueue = std::chrono::milliseconds(500);  // the lowest limit
constexpr Duration kLeastPace = std::chrono::milliseconds(1), kMostPace = std::chrono::seconds(1);

}  // namespace

void WriteNumbers::open() {
  next_ = state_.tree.written;
  opened_ = true;
}

bool WriteNumbers::is_maintenance(WriteNumber write_number) const {
  const unsigned every = state_.params.maintain_every();
  return every != 0 && write_number % every == every - 1 && rule_holds(Rule::maintenance);
}

// The client's line stays full if the uploads under way take longer than the next access needs
// before its own upload begins: an acknowledgement, a commit and a retrieval, which together take
// about as long as three retrievals. Without a limit, reads would run ahead of their uploads until
// the root is full, and then wait for all of them.
bool WriteNumbers::uplink_full() const {
  const auto uploads = static_cast<Duration::rep>(root_writer_.under_way());
  return uploads > 1 &&
         uploads * root_writer_.time_of_each() > std::max(kUplinkQueue, 3 * last_retrieval_);
}

// An eviction takes about as long as the previous one. Accesses that follow one another faster than
// that fill the root meanwhile, and the next one would wait for the rest of the eviction. So the
// write numbers are spread over that time plus a quarter, because it varies. The first quarter of
// them is available immediately, for accesses that come together. When many accesses are under way
// they wait for each other in any case, so they lose nothing by waiting for the end of an eviction.
Duration WriteNumbers::is_due() const {
  const WriteNumber every = state_.params.evict_every, few = every / 4 + 1;
  const WriteNumber first =
      first_write_number(state_.versions.released + 1, state_.params.evict_every);
  if (!evictions_.under_way() || users_.blocks_in_use() > few) return Duration::min();
  if (next_ <= first + few || next_ >= first + every) return Duration::min();
  const auto part = static_cast<Duration::rep>(next_ - first - few);
  const auto all = static_cast<Duration::rep>(every - few);
  return evictions_.begun() + 5 * evictions_.takes() * part / (4 * all);
}

Task<Result<WriteNumber>> WriteNumbers::reserve() {
  // Sleeps in short parts, because the eviction may end meanwhile, or more accesses may come.
  const Duration part = std::clamp(last_retrieval_ / 4, kLeastPace, kMostPace / 8);
  const Duration limit = state_.now() + std::min(2 * last_retrieval_, kMostPace);
  while (!state_.dead && state_.now() < std::min(limit, is_due()))
    co_await state_.environment.clock.sleep(part);
  const auto in_root = [this] {
    return next_ < end_write_number(state_.versions.released, state_.params.evict_every);
  };
  const auto open = [&] { return opened_ && !uplink_full() && in_root(); };
  const auto used_up = [&] { return evictions_.stopped() && !in_root(); };
  for (;;) {
    while (!state_.dead && !open() && !used_up()) co_await state_.changed.wait();
    if (state_.dead) co_return fail(*state_.dead);
    if (!open()) co_return fail(*evictions_.stopped());
    if (!is_maintenance(next_)) co_return next_++;
    users_.maintain(next_++);
  }
}

}  // namespace s3oram
