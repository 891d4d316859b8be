// The failures that a client reports (troubles.h).
#include "oramcore/schemes/s3oram/client/troubles.h"

namespace s3oram {

void Troubles::failed(Party at, MessageType doing, Error error, Duration now) {
  const auto [found, first] = troubles_.try_emplace({at, doing});
  Trouble& trouble = found->second;
  if (first || now - trouble.last > kForgotten) trouble.since = now;
  trouble.last = now;
  trouble.error = std::move(error);
}

std::optional<Trouble> Troubles::at(Party where, Duration now) const {
  std::optional<Trouble> first;
  for (const auto& [key, trouble] : troubles_)
    if (key.first == where && now - trouble.last <= kForgotten &&
        (!first || trouble.since < first->since))
      first = trouble;
  return first;
}

}  // namespace s3oram
