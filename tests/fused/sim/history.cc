// Records the steps of operations on a file, and judges what a crash has left of it.
#include "tests/fused/sim/history.h"

#include <fmt/format.h>

#include <algorithm>

namespace s3oram::sim {
namespace {

void keep(Blocks& blocks, std::uint64_t index, std::uint64_t valid) {
  const auto found = blocks.find(index);
  if (found == blocks.end()) return;
  if (valid == 0)
    blocks.erase(found);
  else if (found->second.size() > valid)
    found->second.resize(valid);
}

/// Returns how many bytes of block `index` remain in a file of `size` bytes.
std::uint64_t inside(std::uint64_t size, std::uint64_t index, std::uint32_t block_size) {
  const std::uint64_t base = index * block_size;
  return size <= base ? 0 : std::min<std::uint64_t>(size - base, block_size);
}

/// A state of one block that a commit may hold.
struct Version {
  std::string bytes;
  std::size_t step = 0;  // the step that wrote it, counted from 1; 0 for the base
};

}  // namespace

void take(Content& content, const Step& step, std::uint32_t block_size) {
  switch (step.kind) {
    case Step::Kind::write:
      content.blocks[step.block] = step.bytes;
      content.size = std::max(content.size, step.size);
      break;
    case Step::Kind::hole:
      content.blocks.erase(step.block);
      break;
    case Step::Kind::size:
      std::vector<std::uint64_t> beyond;
      for (auto at = content.blocks.lower_bound(step.size / block_size); at != content.blocks.end();
           ++at)
        beyond.push_back(at->first);
      for (const std::uint64_t index : beyond)
        keep(content.blocks, index, inside(step.size, index, block_size));
      content.size = step.size;
  }
}

std::vector<Step> FileHistory::steps_of_write(std::uint64_t offset,
                                              const std::string& bytes) const {
  std::vector<Step> steps;
  const std::uint64_t end = offset + bytes.size();
  for (std::uint64_t start = offset; start < end;) {
    const std::uint64_t index = start / block_size_;
    const std::uint64_t stop = std::min<std::uint64_t>(end, (index + 1) * block_size_);
    const auto found = now.blocks.find(index);
    std::string block = found == now.blocks.end() ? std::string() : found->second;
    const std::uint64_t from = start - index * block_size_, to = stop - index * block_size_;
    if (block.size() < to) block.resize(to);
    block.replace(from, to - from, bytes, start - offset, to - from);
    const std::uint64_t reach = index * block_size_ + block.size();
    steps.push_back(
        {.kind = Step::Kind::write, .block = index, .bytes = std::move(block), .size = reach});
    start = stop;
  }
  return steps;
}

/// Whole blocks disappear with the commit. When a part of a block is punched, its data is
/// rewritten. (The end of a block that is not being written disappears with the commit too.)
std::vector<Step> FileHistory::steps_of_punch(std::uint64_t offset, std::uint64_t length) const {
  std::vector<Step> steps;
  const std::uint64_t end = offset + length;
  for (auto at = now.blocks.lower_bound(offset / block_size_); at != now.blocks.end(); ++at) {
    const std::uint64_t base = at->first * block_size_;
    if (base >= end) break;
    const std::uint64_t valid = at->second.size();
    const std::uint64_t from = offset > base ? offset - base : 0;
    const std::uint64_t to = std::min<std::uint64_t>(end - base, block_size_);
    if (from >= valid) continue;
    if (from == 0 && to >= valid) {
      steps.push_back({.kind = Step::Kind::hole, .block = at->first, .bytes = {}});
      continue;
    }
    std::string block = at->second;
    if (to >= valid)
      block.resize(from);
    else
      block.replace(from, to - from, to - from, '\0');
    const std::uint64_t reach = base + block.size();
    steps.push_back(
        {.kind = Step::Kind::write, .block = at->first, .bytes = std::move(block), .size = reach});
  }
  return steps;
}

std::vector<Step> FileHistory::steps_of_resize(std::uint64_t size, std::int64_t at) const {
  return {{.kind = Step::Kind::size,
           .bytes = {},
           .size = size,
           .replaces = size == 0 && now.size > 0,
           .at = at}};
}

void FileHistory::apply(std::vector<Step> steps, Index begins, Index ends) {
  for (Step& step : steps) {
    step.begins = begins;
    step.ends = ends;
    take(now, step, block_size_);
    steps_.push_back(std::move(step));
  }
}

void FileHistory::barrier_of_tick(Index index, std::int64_t settled) {
  for (const Step& step : steps_)
    if (step.replaces && step.ends > durable_ && *step.at > settled) return;
  barrier(index);
}

std::size_t FileHistory::begin_settling(Index index) {
  settles_.emplace_back(index, kNever);
  return settles_.size() - 1;
}

std::string FileHistory::read(std::uint64_t offset, std::uint64_t length) const {
  if (offset >= now.size) return {};
  std::string out(std::min(length, now.size - offset), '\0');
  for (auto at = now.blocks.lower_bound(offset / block_size_); at != now.blocks.end(); ++at) {
    const std::uint64_t base = at->first * block_size_;
    if (base >= offset + out.size()) break;
    const std::uint64_t from = std::max(base, offset);
    const std::uint64_t to = std::min(base + at->second.size(), offset + out.size());
    if (from < to) out.replace(from - offset, to - from, at->second, from - base, to - from);
  }
  return out;
}

// ---- after a crash -----------------------------------------------------------------------------

bool FileHistory::is_replacement(const Step& step, Index required) const {
  return step.replaces && step.ends > required;
}

std::optional<std::string> FileHistory::refuses(const Content& seen, const Commit& commit) const {
  Index required = durable_;
  for (const auto& [ends, index] : conditional_)
    if (ends <= commit.index) required = std::max(required, index);
  // Content that is replaced (truncated to nothing and rewritten) gives way as a whole: a commit
  // holds either the previous content, or everything that was written when the new one was first
  // allowed to settle.
  std::vector<std::size_t> replaced;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (is_replacement(steps_[i], required) && steps_[i].ends <= commit.index)
      replaced.push_back(i);
  auto reason = refuses(seen, commit, replaced.empty() ? steps_.size() : replaced[0], required);
  for (std::size_t k = 0; k < replaced.size() && reason; ++k) {
    const Step& replacement = steps_[replaced[k]];
    const bool last = k + 1 == replaced.size();
    const std::size_t count = last ? steps_.size() : replaced[k + 1];
    const Index next = last ? kNever : steps_[replaced[k + 1]].ends;
    Index settled = kNever;
    for (const auto& [from, to] : settles_)
      if (to >= replacement.ends && from < next && from <= commit.index)
        settled = std::min(settled, std::max(from, replacement.ends));
    if (commit.until >= *replacement.at + commit.patience) settled = replacement.ends;
    for (const Index index : gives_way_)
      if (index >= replacement.ends && index <= commit.index) settled = replacement.ends;
    if (settled == kNever) {
      *reason += "; or rewritten: too early";
      continue;
    }
    settled = std::max(settled, required);
    if (auto refused = refuses(seen, commit, count, settled); refused)
      *reason += "; or rewritten: " + *refused;
    else
      return {};
  }
  return reason;
}

/// Considers only the first `count` steps, of which those that ended by `required` are durable.
std::optional<std::string> FileHistory::refuses(const Content& seen, const Commit& commit,
                                                std::size_t count, Index required) const {
  Content base = base_;
  std::size_t first = 0;
  for (; first < count && steps_[first].ends <= required; ++first)
    take(base, steps_[first], block_size_);

  std::map<std::uint64_t, std::vector<Version>> versions;
  for (const auto& [index, bytes] : base.blocks) versions[index] = {{bytes, 0}};
  std::uint64_t least = base.size;  // the smallest size that the file can have
  struct Reason {
    std::uint64_t size = 0;
    std::size_t step = 0;
    std::optional<std::uint64_t> block;  // the block whose data must have been committed with it
  };
  std::vector<Reason> sizes;
  for (std::size_t i = first; i < count; ++i) {
    const Step& step = steps_[i];
    if (step.begins > commit.index) continue;
    const bool certain = step.ends <= commit.index;
    const auto cut = [&](std::vector<Version>& all, std::uint64_t valid) {
      std::vector<Version> shorter = all;
      for (Version& version : shorter)
        if (version.bytes.size() > valid) version.bytes.resize(valid);
      if (certain) all.clear();
      all.insert(all.end(), shorter.begin(), shorter.end());
    };
    switch (step.kind) {
      case Step::Kind::write: {
        auto& all = versions.try_emplace(step.block, std::vector<Version>{Version()}).first->second;
        all.push_back({step.bytes, i + 1});
        sizes.push_back({step.size, i + 1, step.block});
        break;
      }
      case Step::Kind::hole:
        if (const auto found = versions.find(step.block); found != versions.end())
          cut(found->second, 0);
        sizes.push_back({step.block * block_size_, 1, step.block});
        break;
      case Step::Kind::size:
        if (!certain) break;  // a resize is one step, and this one has not happened
        for (auto& [index, all] : versions) cut(all, inside(step.size, index, block_size_));
        least = std::min(least, step.size);
        for (Reason& reason : sizes) reason.size = std::min(reason.size, step.size);
        sizes.push_back({step.size, i + 1, {}});
    }
  }

  std::map<std::uint64_t, std::size_t> newest;  // the newest step from which each block may come
  for (const auto& [index, bytes] : seen.blocks)
    versions.try_emplace(index, std::vector<Version>{Version()});
  for (const auto& [index, all] : versions) {
    const auto found = seen.blocks.find(index);
    const std::string bytes = found == seen.blocks.end() ? std::string() : found->second;
    bool matches = false;
    for (const Version& version : all) {
      if (version.bytes != bytes) continue;
      matches = true;
      newest[index] = std::max(newest[index], version.step);
    }
    if (matches) continue;
    std::string lengths;
    for (const Version& version : all)
      lengths += fmt::format(" {} bytes of step {},", version.bytes.size(), version.step);
    return fmt::format("block {} holds {} bytes that are none of:{} size {}", index, bytes.size(),
                       lengths, seen.size);
  }
  if (seen.size < least)
    return fmt::format("the size is {}, and {} bytes were durable", seen.size, least);
  if (seen.size == least) return {};
  for (const Reason& reason : sizes)
    if (reason.size == seen.size && (!reason.block || newest[*reason.block] >= reason.step))
      return {};
  return fmt::format("the size is {} without the data that gave it; {} bytes were durable",
                     seen.size, least);
}

}  // namespace s3oram::sim
