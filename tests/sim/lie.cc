// Draws lies, and tells them (lie.h).
#include "tests/sim/lie.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "oramcore/protocol/repair_messages.h"
#include "oramcore/sharing/digest.h"

namespace s3oram::test {
namespace {

constexpr std::array kErrors{Errc::bad_request,  Errc::unsupported,   Errc::corrupt,
                             Errc::failed,       Errc::fenced,        Errc::stale_vault,
                             Errc::need_open,    Errc::former_view,   Errc::disk_full,
                             Errc::wrong_volume, Errc::damaged_vault, Errc::servers_disagree,
                             Errc::unreachable,  Errc::shutting_down, Errc::wrong_passphrase};

/// The messages that a server may send, and to whom.
struct Target {
  MessageType type;
  bool answer = true, to_client = true;
};
constexpr Target kTargets[] = {
    {MessageType::retrieve},
    {MessageType::write_root},
    {MessageType::prepare},
    {MessageType::commit},
    {MessageType::release},
    {MessageType::discard},
    {MessageType::withdraw},
    {MessageType::open},
    {MessageType::mark_prepared},
    {MessageType::masked_share, false, false},
    {MessageType::masked_share, true, false},
    {MessageType::relay, false, false},
    {MessageType::relay, true, false},
    {MessageType::subshare, false, false},
    {MessageType::subshare, true, false},
};
/// What it sends where slots are looked for, compared, and healed.
constexpr Target kRepairTargets[] = {
    {MessageType::read_slot}, {MessageType::damage},       {MessageType::digests},
    {MessageType::heal_slot}, {MessageType::check},        {MessageType::contribute},
    {MessageType::mend},      {MessageType::mark_buckets}, {MessageType::disown},
};
constexpr Target kMirrorTargets[] = {
    {MessageType::certify},
    {MessageType::rejoin},
    {MessageType::layout},
};
/// Answers that list slots.
constexpr Target kLists[] = {{MessageType::damage}, {MessageType::check}, {MessageType::digests}};

constexpr unsigned kOneInPersists = 8;

Bytes with_body(const Bytes& message, Bytes body) {
  std::copy_n(message.begin(), Rpc::kHeaderSize, body.begin());
  return body;
}

Bytes invented(const Lie& lie, const Shape& shape, const Bytes& message) {
  std::mt19937_64 random(lie.seed);
  const auto below = [&](std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random);
  };
  // Now and then, slots that no tree has.
  const std::uint64_t buckets = (std::uint64_t{1} << (shape.height + 1)) + (below(8) == 0 ? 9 : 0);
  const std::size_t how_many = 1 + below(below(4) == 0 ? 60 : 4);
  if (lie.type == MessageType::digests) {
    DigestsAnswer answer;
    for (std::size_t i = 0; i < how_many; ++i) {
      SlotDigest& slot = answer.slots.emplace_back();
      slot.slot = static_cast<std::uint16_t>(below(shape.bucket_size));
      slot.digest.resize(below(3) == 0 ? 0 : ShareDigest::kSize);
      for (auto& byte : slot.digest) byte = static_cast<std::uint8_t>(random());
    }
    std::ranges::sort(answer.slots, {}, &SlotDigest::slot);
    return with_body(message, encode(answer));
  }
  DamageAnswer answer;
  for (std::size_t i = 0; i < how_many; ++i)
    answer.slots.push_back({below(4) == 0 ? kRoot : below(buckets),
                            static_cast<std::uint16_t>(below(shape.bucket_size))});
  return with_body(message, encode(answer));
}

}  // namespace

bool Lie::concerns(const Bytes& message, Party to) const {
  return times > 0 && type == type_of_message(message) && answer == is_answer(message) &&
         to_client == (to == kClient);
}

Lie draw_lie(std::mt19937_64& random, const VolumeParams& params) {
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  const auto one_of = [&](const auto& targets) { return targets[below(std::size(targets))]; };
  const std::size_t which = below(8);
  Target target = which < 5 ? one_of(kTargets) : one_of(kRepairTargets);
  if (which == 7 && params.is_mirror()) target = one_of(kMirrorTargets);
  auto kind = static_cast<LieKind>(below(static_cast<std::size_t>(LieKind::count)));
  if (kind == LieKind::invent) target = one_of(kLists);
  const bool persists = below(kOneInPersists) == 0;
  return {
      .type = target.type,
      .answer = target.answer,
      .to_client = target.to_client,
      .kind = kind,
      .code = kErrors[below(kErrors.size())],
      .skip = static_cast<unsigned>(below(4)),
      .times = persists ? Lie::kForever : static_cast<unsigned>(1 + below(below(4) == 0 ? 12 : 3)),
      .place = std::uniform_real_distribution<>(0, 1)(random),
      .bits = static_cast<std::uint8_t>(1 + below(255)),
      .blames = static_cast<Party>(1 + below(params.scheme.servers)),
      .seed = random()};
}

Bytes told(const Lie& lie, const Shape& shape, const Bytes& last, Bytes message) {
  const std::size_t body = message.size() - Rpc::kHeaderSize;
  const auto at =
      Rpc::kHeaderSize + static_cast<std::size_t>(lie.place * static_cast<double>(body));
  switch (lie.kind) {
    case LieKind::flip:
      if (body > 0) message[at] ^= lie.bits;
      break;
    case LieKind::cut:
      message.resize(at);
      break;
    case LieKind::extend:
      message.insert(message.end(), 1 + lie.bits, lie.bits);
      break;
    case LieKind::zeros:
      std::fill(message.begin() + static_cast<std::ptrdiff_t>(at), message.end(), 0);
      break;
    case LieKind::noise: {
      Prg noise(Seed{}, as_bytes(std::to_string(lie.seed)));
      noise.fill(MutableByteSpan(message).subspan(at));
      break;
    }
    case LieKind::replay:
      if (last.size() <= Rpc::kHeaderSize) break;
      message.resize(Rpc::kHeaderSize);
      message.insert(message.end(), last.begin() + Rpc::kHeaderSize, last.end());
      break;
    case LieKind::error: {
      if (!lie.answer) break;
      message.resize(Rpc::kHeaderSize);
      message[4] = static_cast<std::uint8_t>(lie.code);
      message[5] = 0;
      const std::string text = fmt::format("server {} is faulty or lies", lie.blames);
      message.insert(message.end(), text.begin(), text.end());
      break;
    }
    case LieKind::invent:
      return invented(lie, shape, message);
    default:
      break;
  }
  return message;
}

std::string description_of(const std::vector<Lie>& lies) {
  constexpr const char* kKinds[] = {"flip",  "cut",    "extend",   "zeros", "noise",
                                    "error", "replay", "withhold", "twice", "invent"};
  std::string text;
  for (const Lie& lie : lies) {
    text += fmt::format(
        "; type {} {} {}, {}", static_cast<int>(lie.type), lie.answer ? "answer" : "question",
        lie.to_client ? "to the client" : "to a peer", kKinds[static_cast<std::size_t>(lie.kind)]);
    if (lie.kind == LieKind::error) text += fmt::format(" {}", static_cast<int>(lie.code));
    if (lie.persists())
      text += fmt::format(", always after {}", lie.skip);
    else
      text += fmt::format(", {} after {}", lie.times, lie.skip);
    text += fmt::format(", place {:.3f}", lie.place);
  }
  return text;
}

}  // namespace s3oram::test
