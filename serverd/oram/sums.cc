// Adds up the masked shares of several servers, and sends each of this server's own masked shares
// only once.
#include "serverd/oram/sums.h"

#include <algorithm>
#include <iterator>

#include "oramcore/base/rules.h"
#include "oramcore/field/gf256.h"

namespace s3oram {

// If a slot was healed in between, two masked shares under the same mask would reveal the
// difference of their contents.
std::optional<Result<Bytes>> Sums::begin(std::uint64_t request_id) {
  const auto [masked_share, first] = sent_.try_emplace(request_id, false);
  if (!rule_holds(Rule::computed_once)) return {};
  if (masked_share->second) return done();
  if (!first || request_id < oldest_) return fail(Errc::failed, "this attempt is over");
  return {};
}

Bytes Sums::end(std::uint64_t request_id) {
  if (const auto masked_share = sent_.find(request_id); masked_share != sent_.end())
    masked_share->second = true;
  return done();
}

Task<Status> Sums::send(Party to, std::uint64_t epoch, std::uint64_t request_id,
                        Bytes masked_share) {
  const MaskedShareRequest message{epoch, request_id, masked_share};
  auto answer =
      co_await state_.rpc.call(to, MaskedShareRequest::kType, encode(message), kPeerPatience);
  if (!answer) co_return fail(Errc::failed, "adding up: {}", answer.error().message);
  co_return Status{};
}

Task<Status> Sums::add_up(std::uint64_t epoch, std::uint64_t request_id, Bytes from,
                          std::size_t count, MutableByteSpan sum) {
  std::erase(from, state_.self);
  for (;;) {
    if (!state_.goes_on(epoch)) co_return fail(Errc::need_open, "the session is over");
    if (request_id < oldest_ || sums_[request_id].withdrawn)
      co_return fail(Errc::failed, "this attempt is over");
    const auto& there = sums_[request_id].masked_shares;
    Bytes present;
    std::ranges::copy_if(from, std::back_inserter(present),
                         [&](Party each) { return there.contains(each); });
    if (present.size() >= count) {
      from.assign(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(count));
      break;
    }
    co_await state_.changed.wait();
  }
  for (const Party each : from)
    gf::multiply_add(
        1,
        decode<MaskedShareRequest>(sums_[request_id].masked_shares.at(each).body())->masked_share,
        sum);
  co_return Status{};
}

Task<Result<Bytes>> Sums::receive(Party from, Payload& payload) {
  const auto request = decode<MaskedShareRequest>(payload.body());
  if (!request) co_return malformed();
  S3O_CO_TRY(state_.check_session(request->epoch));
  if (from > state_.params().scheme.servers ||
      request->masked_share.size() != state_.params().slot_size())
    co_return malformed();
  if (request->request_id < oldest_) co_return done();  // no request waits for this sum now
  const auto of_sender = std::ranges::count_if(
      sums_, [from](const auto& sum) { return sum.second.masked_shares.contains(from); });
  if (!sums_.contains(request->request_id) &&
      static_cast<std::size_t>(of_sender) >=
          state_.most_under_way() / (state_.params().scheme.servers - 1u))
    co_return fail(Errc::bad_request, "too many masked shares of server {} for unknown request ids",
                   from);
  sums_[request->request_id].masked_shares.try_emplace(from, std::move(payload));
  state_.changed.notify_all();
  co_return done();
}

Task<Result<Bytes>> Sums::withdraw(WithdrawRequest request, Payload&) {
  if (request.request_id >= oldest_) sums_[request.request_id].withdrawn = true;
  state_.changed.notify_all();
  co_return done();
}

void Sums::forget_before(std::uint64_t oldest) {
  if (oldest <= oldest_) return;
  oldest_ = oldest;
  sums_.erase(sums_.begin(), sums_.lower_bound(oldest));
  sent_.erase(sent_.begin(), sent_.lower_bound(oldest));
  state_.changed.notify_all();
}

void Sums::mended(std::uint64_t request_id) {
  if (request_id >= oldest_) sums_[request_id].mended = true;
}

bool Sums::has_mended(std::uint64_t request_id) const {
  const auto sum = sums_.find(request_id);
  return sum != sums_.end() && sum->second.mended;
}

void Sums::spend(std::uint64_t request_id) {
  sums_[request_id] = {.masked_shares = {}, .withdrawn = true};
}

void Sums::forget_all() {
  sums_.clear();
  oldest_ = 0;
  sent_.clear();
}

}  // namespace s3oram
