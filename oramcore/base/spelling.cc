// Computes the distance between two words (Levenshtein).
#include "oramcore/base/spelling.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace s3oram {
namespace {

/// Returns how many letters must be inserted, omitted or changed to turn one word into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_word(std::string_view typed, const std::vector<std::string>& words) {
  std::string nearest;
  std::size_t best = 3;  // with a larger distance it is not a typing error
  for (const std::string& word : words) {
    const std::size_t off = distance(typed, word);
    if (off >= best || off >= word.size() / 2 + 1) continue;
    best = off;
    nearest = word;
  }
  return nearest;
}

}  // namespace s3oram
