// Counts which parties had persisted which steps at power cuts, and prints the table.
#include "tests/sim/coverage.h"

#include <fmt/format.h>

namespace s3oram::test {

void Coverage::persisted(Party party, std::string_view name) {
  const std::string step = (party == kClient ? "client " : "server ") + std::string(name);
  if (party == kClient && (name == "session" || name == "decide"))
    for (auto& [other, subset] : round_) subset = 0;
  round_[step] |= Subset{1} << party;
}

void Coverage::cut() {
  for (const auto& [step, subset] : round_) ++cells_[step][subset];
}

void Coverage::add(const Coverage& other) {
  for (const auto& [step, row] : other.cells_)
    for (const auto& [subset, count] : row) cells_[step][subset] += count;
}

std::uint64_t Coverage::count(const std::string& step, Subset subset) const {
  const auto row = cells_.find(step);
  if (row == cells_.end()) return 0;
  const auto cell = row->second.find(subset);
  return cell == row->second.end() ? 0 : cell->second;
}

std::string Coverage::table(unsigned parties) const {
  std::string text;
  for (const auto& [step, row] : cells_) {
    text += fmt::format("{:24}", step);
    for (const auto& [subset, count] : row)
      if (subset < Subset{1} << parties) text += fmt::format(" {}:{}", name_of(subset), count);
    text += '\n';
  }
  return text;
}

std::string name_of(Coverage::Subset subset) {
  if (subset == 0) return "-";
  std::string name;
  for (unsigned party = 0; party < 32; ++party)
    if (subset >> party & 1) name += party == 0 ? std::string("c") : std::to_string(party);
  return name;
}

}  // namespace s3oram::test
