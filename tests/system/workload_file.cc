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

void FileModel::write(std::uint64_t offset, std::string_view data, bool done) {
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t from = (offset + at) % kGranule;
    const std::size_t length = std::min(kGranule - from, data.size() - at);
    Granule& part = granule((offset + at) / kGranule);
    auto page = std::make_shared<std::string>(*part.states.back().page);
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
  if (size >= size_) {
    sizes_.back().high = std::max(sizes_.back().high, size);
  } else {
    sizes_.push_back({size, done ? size : size_});
    for (auto at = granules_.lower_bound(size / kGranule); at != granules_.end(); ++at) {
      const std::uint64_t base = at->first * kGranule;
      Granule& part = at->second;
      auto page = std::make_shared<std::string>(*part.states.back().page);
      const std::size_t left = size > base ? size - base : 0;
      if (left >= kGranule) continue;
      std::fill(page->begin() + static_cast<std::ptrdiff_t>(left), page->end(), '\0');
      part.states.push_back({std::move(page), epoch(), true});
      if (done) part.certain = part.states.size() - 1;
    }
  }
  if (done) size_ = size;
  certain_ = certain_ && done;
}

void FileModel::synced() {
  for (auto& [index, part] : granules_) {
    part.states.erase(part.states.begin(),
                      part.states.begin() + static_cast<std::ptrdiff_t>(part.certain));
    part.certain = 0;
    for (State& state : part.states) {
      state.epoch = 0;
      state.by_cutting = false;
    }
  }
  // An uncertain file has one of several sizes.
  sizes_ = {certain_ ? Sizes{size_, size_} : Sizes{sizes_.back().low, sizes_.back().high}};
  former_.clear();
}

void FileModel::settled(std::string former) { former_ = std::move(former); }

Complaint FileModel::adopt(const std::string& content) {
  if (content.size() < std::min(size_, sizes_.back().low) || content.size() > sizes_.back().high)
    return "its size is " + std::to_string(content.size());
  if (certain_ && content.size() != size_)
    return "its size is " + std::to_string(content.size()) + " instead of " + std::to_string(size_);
  for (std::uint64_t at = 0; at < content.size(); at += kGranule) {
    const std::string_view seen = std::string_view(content).substr(at, kGranule);
    Granule& part = granule(at / kGranule);
    const auto found = std::find_if(
        part.states.begin() + static_cast<std::ptrdiff_t>(part.certain), part.states.end(),
        [&](const State& state) { return std::string_view(*state.page).starts_with(seen); });
    if (found == part.states.end())
      return "bytes " + std::to_string(at) + " and following are not what was written last: " +
             difference(seen, *part.states.back().page);
    if (certain_) continue;
    part.states.push_back({found->page, epoch()});
    part.certain = part.states.size() - 1;
  }
  size_ = content.size();
  certain_ = true;
  return {};
}

Complaint FileModel::check_granule(const Granule& part, std::uint64_t index, std::string_view seen,
                                   unsigned included, std::size_t from) const {
  std::size_t start = from;
  for (std::size_t i = from; i < part.states.size(); ++i)
    if (part.states[i].by_cutting && part.states[i].epoch <= included) start = i;
  for (std::size_t i = start; i < part.states.size(); ++i)
    if (part.states[i].epoch <= included &&
        std::string_view(*part.states[i].page).starts_with(seen))
      return {};
  std::ostringstream out;
  out << "bytes " << index * kGranule << " and following are none of the "
      << part.states.size() - start << " contents that they had since they were synced: ";
  for (std::size_t i = 0; i < part.states.size(); ++i)
    if (std::string_view(*part.states[i].page).starts_with(seen)) {
      out << "they are content " << i << " of " << part.states.size() << ", from before the file "
          << "was shortened";
      return out.str();
    }
  out << "unlike the last " << difference(seen, *part.states.back().page);
  return out.str();
}

Complaint FileModel::check_after_crash(const std::string& path, const std::string& content) const {
  const bool settled = !former_.empty() && path != former_;
  Complaint complaint;
  // Some number of shortenings has survived.
  for (unsigned included = settled ? epoch() : 0; included <= epoch(); ++included) {
    complaint.clear();
    std::uint64_t low = sizes_[0].low;
    for (unsigned i = 0; i <= included; ++i) low = std::min(low, sizes_[i].low);
    if (settled && certain_) low = size_;
    if (content.size() < low || content.size() > sizes_[included].high) {
      complaint = "its size is " + std::to_string(content.size()) + " and not from " +
                  std::to_string(low) + " to " + std::to_string(sizes_[included].high);
      continue;
    }
    for (std::uint64_t at = 0; at < content.size() && complaint.empty(); at += kGranule) {
      const auto found = granules_.find(at / kGranule);
      const std::string_view seen = std::string_view(content).substr(at, kGranule);
      if (found != granules_.end())
        complaint = check_granule(found->second, at / kGranule, seen, included,
                                  settled ? found->second.certain : 0);
      else if (seen.find_first_not_of('\0') != std::string_view::npos)
        complaint = "bytes " + std::to_string(at) + " and following were never written";
    }
    if (complaint.empty()) return {};
  }
  return complaint;
}

}  // namespace s3oram::workload
