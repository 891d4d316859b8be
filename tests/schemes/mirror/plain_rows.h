// An eviction of a mirror on rows in memory, as the servers carry it out together.
#pragma once

#include <vector>

#include "oramcore/field/gf256.h"
#include "oramcore/schemes/mirror/client/mirror.h"
#include "oramcore/schemes/mirror/client/selection.h"

namespace s3oram::test {

/// sh(): moves the header one entry on.
inline Bytes shifted(const Bytes& row) {
  Bytes moved(mirror::kEntry);
  moved.insert(moved.end(), row.begin(), row.begin() + mirror::kHeader - mirror::kEntry);
  moved.insert(moved.end(), row.begin() + mirror::kHeader, row.end());
  return moved;
}

inline std::vector<Bytes> evicted_rows(const std::vector<Bytes>& rows,
                                       const mirror::Selection& selection,
                                       const mirror::LayerKeys& keys,
                                       const mirror::LayerAttempt& attempt, unsigned workers) {
  std::vector<Bytes> made;
  for (std::size_t place = 0; place < selection.size(); ++place) {
    Bytes row = selection[place] ? shifted(rows[*selection[place]]) : Bytes(rows[0].size());
    for (unsigned role = 1; role <= workers; ++role)
      mirror::Mask(keys.of(role, attempt)).add(static_cast<std::uint16_t>(place), 0, row);
    mirror::put_entry(attempt, static_cast<std::uint16_t>(place), row);
    made.push_back(std::move(row));
  }
  return made;
}

}  // namespace s3oram::test
