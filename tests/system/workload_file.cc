// Models the content of one file, and checks what a crash has left of it.
#include <algorithm>
#include <sstream>

#include "tests/system/workload_model.h"

namespace s3oram::workload {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9u;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebu;
  return x ^ (x >> 31);
}

// Names the first difference.
std::string difference(std::string_view seen, std::string_view wanted) {
  const auto at = std::mismatch(seen.begin(), seen.end(), wanted.begin()).first - seen.begin();
  std::ostringstream out;
  out << "from its byte " << at << " on";
  if (std::all_of(seen.begin() + at, seen.end(), [](char c) { return c == 0; })) out << " (zeros)";
  return out.str();
}

}  // namespace

std::string pattern(unsigned worker, std::uint64_t version, std::uint64_t offset,
                    std::size_t length) {
  std::string out(length, '\0');
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const std::uint64_t at = offset + i;
    if (i == 0 || at % 8 == 0) word = mix(mix(version * 256 + worker) + at / 8);
    out[i] = static_cast<char>(word >> (at % 8 * 8) | 1);  // never zero
  }
  return out;
}

FileModel::FileModel(const std::string& content) : size_(content.size()) {
  sizes_[0] = {size_, size_};
  for (std::uint64_t at = 0; at < content.size(); at += kGranule) {
    std::string page = content.substr(at, kGranule);
    page.resize(kGranule);
    granules_[at / kGranule].states.push_back({std::make_shared<std::string>(std::move(page))});
  }
}

FileModel::Granule& FileModel::granule(std::uint64_t index) {
  static const Page zeros = std::make_shared<std::string>(kGranule, '\0');
  Granule& granule = granules_[index];
  if (granule.states.empty()) granule.states.push_back({zeros});
  return granule;
}

// Returns the state after the shortenings between it and `epoch`.
FileModel::Page FileModel::as_of(std::uint64_t index, const State& state, unsigned epoch) const {
  std::uint64_t left = kGranule;
  for (unsigned i = state.epoch + 1; i <= epoch; ++i) {
    const std::uint64_t base = index * kGranule;
    left = std::min(left, sizes_[i].low > base ? sizes_[i].low - base : 0);
  }
  if (left == kGranule) return state.page;
  auto page = std::make_shared<std::string>(*state.page);
  std::fill(page->begin() + static_cast<std::ptrdiff_t>(left), page->end(), '\0');
  return page;
}

std::vector<FileModel::Page> FileModel::alternatives(std::uint64_t index, std::size_t from,
                                                     unsigned first, unsigned last) const {
  std::vector<Page> all;
  const auto found = granules_.find(index);
  if (found == granules_.end()) return {std::make_shared<std::string>(kGranule, '\0')};
  for (unsigned epoch = first; epoch <= last; ++epoch)
    for (std::size_t i = from; i < found->second.states.size(); ++i)
      if (const State& state = found->second.states[i]; state.epoch <= epoch)
        all.push_back(as_of(index, state, epoch));
  return all;
}

// ---- operations

void FileModel::write(std::uint64_t offset, std::string_view data, bool done) {
  for (std::size_t at = 0; at < data.size();) {
    const std::uint64_t index = (offset + at) / kGranule;
    const std::size_t from = (offset + at) % kGranule;
    const std::size_t length = std::min(kGranule - from, data.size() - at);
    Granule& part = granule(index);
    auto page = std::make_shared<std::string>(*as_of(index, part.states.back(), epoch()));
    page->replace(from, length, data.substr(at, length));
    part.states.push_back({std::move(page), epoch()});
    if (done) part.certain = part.states.size() - 1;
    at += length;
  }
  const std::uint64_t end = offset + data.size();
  sizes_.back().high = std::max(sizes_.back().high, end);
  if (done) size_ = std::max(size_, end);
  certain_ = certain_ && done;
}

void FileModel::truncate(std::uint64_t size, bool done) {
  if (size < size_)
    sizes_.push_back({size, done ? size : size_});
  else
    sizes_.back().high = std::max(sizes_.back().high, size);
  if (done) {
    size_ = size;
    certain_epoch_ = epoch();
  }
  certain_ = certain_ && done;
}

void FileModel::synced() {
  for (auto& [index, part] : granules_) {
    std::vector<State> left;
    for (Page& page : alternatives(index, part.certain, certain_epoch_, epoch()))
      left.push_back({std::move(page)});
    part = {std::move(left)};
  }
  // An uncertain file has one of several sizes.
  sizes_ = {certain_ ? Sizes{size_, size_} : Sizes{sizes_.back().low, sizes_.back().high}};
  certain_epoch_ = 0;
  former_.clear();
}

void FileModel::settled(std::string former) { former_ = std::move(former); }

// ---- checks

Complaint FileModel::adopt(const std::string& content) {
  if (certain_ ? content.size() != size_
               : content.size() < std::min(size_, sizes_.back().low) ||
                     content.size() > sizes_.back().high)
    return "its size is " + std::to_string(content.size()) + " instead of " + std::to_string(size_);
  for (std::uint64_t at = 0; at < content.size(); at += kGranule) {
    const std::uint64_t index = at / kGranule;
    const std::string_view seen = std::string_view(content).substr(at, kGranule);
    Granule& part = granule(index);
    auto complaint =
        check_granule(index, seen, alternatives(index, part.certain, certain_epoch_, epoch()));
    if (!complaint.empty()) return complaint;
    if (certain_) continue;
    auto page = std::make_shared<std::string>(seen);
    page->resize(kGranule);
    part.states.push_back({std::move(page), epoch()});
    part.certain = part.states.size() - 1;
  }
  size_ = content.size();
  certain_ = true;
  certain_epoch_ = epoch();
  return {};
}

Complaint FileModel::check_granule(std::uint64_t index, std::string_view seen,
                                   const std::vector<Page>& allowed) {
  for (const Page& page : allowed)
    if (std::string_view(*page).starts_with(seen)) return {};
  std::ostringstream out;
  out << "bytes " << index * kGranule << " and following are none of " << allowed.size()
      << " contents: unlike the last " << difference(seen, *allowed.back());
  return out.str();
}

Complaint FileModel::check_after_crash(const std::string& path, const std::string& content) const {
  const bool settled = !former_.empty() && path != former_;
  Complaint all;
  // Some number of shortenings has survived.
  for (unsigned included = settled ? epoch() : 0; included <= epoch(); ++included) {
    Complaint complaint;
    std::uint64_t low = sizes_[0].low;
    for (unsigned i = 0; i <= included; ++i) low = std::min(low, sizes_[i].low);
    if (settled && certain_) low = size_;
    if (content.size() < low || content.size() > sizes_[included].high)
      complaint = "its size is " + std::to_string(content.size()) + " and not from " +
                  std::to_string(low) + " to " + std::to_string(sizes_[included].high);
    for (std::uint64_t at = 0; at < content.size() && complaint.empty(); at += kGranule) {
      const std::uint64_t index = at / kGranule;
      const auto found = granules_.find(index);
      const std::size_t from = settled && found != granules_.end() ? found->second.certain : 0;
      complaint = check_granule(index, std::string_view(content).substr(at, kGranule),
                                alternatives(index, from, included, included));
    }
    if (complaint.empty()) return {};
    all += "\n  with " + std::to_string(included) + " of " + std::to_string(epoch()) +
           " shortenings: " + complaint;
  }
  return all;
}

}  // namespace s3oram::workload
