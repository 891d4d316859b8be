// The failures that a client reports (troubles.h).
#include "oramcore/client/troubles.h"

namespace s3oram {

void Troubles::failed(Party at, MessageType doing, Error error, Duration now) {
  note({at, doing}, std::move(error), now);
}

void Troubles::lied(Party who, Error error, Duration now) {
  note({who, std::nullopt}, std::move(error), now);
}

void Troubles::note(const Key& key, Error error, Duration now) {
  const auto [found, first] = troubles_.try_emplace(key);
  Trouble& trouble = found->second;
  if (first || now - trouble.last > kForgotten) trouble.since = now;
  trouble.last = now;
  trouble.error = std::move(error);
}

std::optional<Trouble> Troubles::at(Party where, Duration now) const {
  std::optional<Trouble> found;
  const auto is_fresh = [now](const Trouble& trouble) { return now - trouble.last <= kFresh; };
  const auto goes_before = [&](const Trouble& one, const Trouble& other) {
    return is_fresh(one) != is_fresh(other) ? is_fresh(one) : one.since < other.since;
  };
  for (const auto& [key, trouble] : troubles_)
    if (key.first == where && now - trouble.last <= kForgotten &&
        (!found || goes_before(trouble, *found)))
      found = trouble;
  return found;
}

}  // namespace s3oram
