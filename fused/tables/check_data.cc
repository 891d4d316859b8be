// Checks extents: which block holds which part of which file, and that no two extents claim the
// same place.
#include <algorithm>

#include "fused/tables/check_model.h"
#include "fused/tables/place.h"

namespace s3oram {
namespace {

/// An extent whose place belongs to another extent, the winner.
struct Loser {
  ExtentKey key;
  ExtentRow row;
  std::optional<ExtentKey> winner;
};

bool overlap(const ExtentRow& a, const ExtentRow& b) {
  if (block_of(a.block) != block_of(b.block)) return false;
  if (!is_packed(a.block) || !is_packed(b.block)) return true;
  const std::uint64_t from_a = offset_of(a.block), from_b = offset_of(b.block);
  return from_a < from_b + b.valid && from_b < from_a + a.valid;
}

/// "bytes 0-4095, 8192-12287" from ranges given in ascending order.
class Ranges {
 public:
  void add(std::uint64_t from, std::uint64_t to) {
    if (!ranges_.empty() && ranges_.back().second == from)
      ranges_.back().second = to;
    else
      ranges_.emplace_back(from, to);
  }
  bool empty() const { return ranges_.empty(); }
  std::string text() const {
    std::string text = "bytes ";
    for (const auto& [from, to] : ranges_)
      text += fmt::format("{}{}-{}", text.size() > 6 ? ", " : "", from, to - 1);
    return text;
  }

 private:
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;
};

class DataCheck {
 public:
  explicit DataCheck(CheckModel& model)
      : model_(model), block_size_(model.input.block_size), used_(model.input.mapped.size()) {}

  bool run() {
    const std::string unsound = unsound_extent(block_size_);
    const std::string intact = kSqlOf<ExtentTable>.intact();
    const auto each = [this](const ExtentKey& key, const ExtentRow& row) { check(key, row); };
    // Damaged rows come last, so that they cannot take a place from a sound row.
    for (const std::string& others : {"NOT " + intact, intact}) {
      if (!model_.scan<ExtentTable>(fmt::format("({}) OR {}", unsound, others), each)) return false;
      end_file();
    }
    if (!losers_.empty() && !name_winners(unsound)) return false;
    for (auto& [ino, inode] : model_.inodes) check_counts(ino, inode);
    count_unowned();
    return true;
  }

 private:
  void check(const ExtentKey& key, const ExtentRow& row) {
    if (key.ino != file_) end_file();
    file_ = key.ino;
    ++model_.out.blocks;
    CheckedInode& inode = model_.inodes[key.ino];
    const std::uint64_t base = key.index * block_size_;
    const std::uint32_t length = row.valid == 0 ? block_size_ : std::min(row.valid, block_size_);
    if (!S_ISREG(inode.row.mode)) {
      ++strays_;
      return cut(key);
    }
    const BlockId block = block_of(row.block);
    if (block >= used_.size() || !model_.input.mapped[block] ||
        offset_of(row.block) >= block_size_) {
      lost_.add(base, base + length);
      return cut(key);
    }
    const std::uint32_t most = block_size_ - offset_of(row.block);
    std::uint32_t valid = row.valid;
    if (valid == 0 || valid > most) {
      const bool cut_short = inode.row.size > base && inode.row.size <= kLargestFile;
      valid = cut_short
                  ? static_cast<std::uint32_t>(std::min<std::uint64_t>(inode.row.size - base, most))
                  : most;
    }
    if (!claim(row.block, valid)) {
      losers_.push_back({key, {row.block, valid}, std::nullopt});
      return cut(key);
    }
    ++inode.kept;
    if (model_.input.unreadable.contains(block)) unreadable_.add(base, base + valid);
    if (valid != row.valid) {
      lengths_.add(base, base + valid);
      model_.out.extents[key] = ExtentRow{row.block, valid};
    }
    inode.end = std::max(inode.end, base + valid);
  }

  /// Claims a place. Returns false if another extent has claimed part of it.
  bool claim(BlockId place, std::uint32_t valid) {
    const BlockId block = block_of(place);
    if (!is_packed(place)) {
      const bool is_free = !used_[block];
      used_[block] = true;
      return is_free;
    }
    if (used_[block] && !pieces_.contains(block)) return false;  // used as a whole block
    auto& pieces = pieces_[block];                               // end of each, by its start
    const std::uint32_t begin = offset_of(place), end = begin + valid;
    const auto after = pieces.lower_bound(begin);
    if ((after != pieces.end() && after->first < end) ||
        (after != pieces.begin() && std::prev(after)->second > begin))
      return false;
    used_[block] = true;
    pieces.emplace(begin, end);
    return true;
  }

  void cut(const ExtentKey& key) { model_.out.extents[key] = std::nullopt; }

  void end_file() {
    if (!lost_.empty() && !model_.input.all_known)
      model_.found("unknown-data", model_.path(file_),
                   fmt::format("it is not known where {} lie: they may be at the servers that the "
                               "vault leaves, so nothing is given up as lost",
                               lost_.text()),
                   {});
    else if (!lost_.empty())
      model_.found("lost-data", model_.path(file_),
                   fmt::format("{} are lost: it is no longer known where they lie on the servers; "
                               "reading them gives an error",
                               lost_.text()),
                   "these bytes are given up: they read as zeros from then on");
    if (!unreadable_.empty())
      model_.out.findings.push_back(
          {.kind = "unreadable-data",
           .where = model_.path(file_),
           .what = fmt::format(
               "{} could not be read when they were last requested: too few servers "
               "have them intact. Blocks that you delete or overwrite are no longer reported",
               unreadable_.text()),
           .repair = {},
           .at_servers = true});
    if (!lengths_.empty())
      model_.found(
          "length", model_.path(file_),
          fmt::format("it is no longer known how many of the {} are in use", lengths_.text()),
          "all of them count as used; some at the end may be old bytes of this file");
    if (strays_ > 0)
      model_.found("stray-data", model_.path(file_),
                   fmt::format("{} blocks of data belong to something that is not a file", strays_),
                   "they are freed");
    lost_ = unreadable_ = lengths_ = Ranges();
    strays_ = 0;
  }

  /// Reports files that claim the same block. The first file keeps it.
  bool name_winners(const std::string& unsound) {
    std::multimap<BlockId, Loser*> of_block;
    for (Loser& loser : losers_) of_block.emplace(block_of(loser.row.block), &loser);
    const auto each = [&](const ExtentKey& key, const ExtentRow& row) {
      const auto change = model_.out.extents.find(key);
      if (change != model_.out.extents.end() && !change->second) return;
      const auto [first, last] = of_block.equal_range(block_of(row.block));
      for (auto at = first; at != last; ++at)
        if (!at->second->winner && overlap(at->second->row, row)) at->second->winner = key;
    };
    if (!model_.scan<ExtentTable>(unsound, each)) return false;
    for (const Loser& loser : losers_) {
      Ranges range;
      range.add(loser.key.index * block_size_, (loser.key.index + 1) * block_size_);
      const std::string other = loser.winner ? model_.path(loser.winner->ino) : "another file";
      model_.found("shared-block", model_.path(loser.key.ino),
                   fmt::format("its {} are claimed by {} too, and belong to only one of them; "
                               "reading them gives an error",
                               range.text(), other),
                   fmt::format("{} keeps them, and here they read as zeros from then on: compare "
                               "both files with what you know about them",
                               other));
    }
    return true;
  }

  void check_counts(Ino ino, CheckedInode& inode) {
    if (inode.exists && inode.row.blocks != inode.extents)
      model_.found(
          "block-count", model_.path(ino),
          fmt::format("its row says {} blocks, but it has {}{}", inode.row.blocks, inode.extents,
                      inode.row.blocks < inode.extents
                          ? ""
                          : ": if there were others, their content is lost and reads as "
                            "zeros"),
          "the count is corrected");
    inode.row.blocks = inode.kept;
    if (!S_ISREG(inode.row.mode)) return;
    if (inode.row.size >= inode.end && inode.row.size <= kLargestFile) return;
    if (inode.exists)
      model_.found("size", model_.path(ino),
                   fmt::format("its size is {}, and its data ends at byte {}",
                               static_cast<std::int64_t>(inode.row.size), inode.end),
                   fmt::format("the size is set to {}", inode.end));
    inode.row.size = inode.end;
  }

  /// Reports blocks that belong to no file. They stay until a mount knows that no backup names
  /// them.
  void count_unowned() {
    const auto& mapped = model_.input.mapped;
    std::size_t unowned = 0;
    for (BlockId block = 0; block < mapped.size(); ++block)
      unowned += mapped[block] && !used_[block] ? 1 : 0;
    if (unowned == 0) return;
    model_.found("unowned-blocks", "vault.db",
                 fmt::format("{} blocks hold data that belongs to no file", unowned), {});
    model_.out.findings.back().harmless = true;
  }

  CheckModel& model_;
  const std::uint32_t block_size_;
  std::vector<bool> used_;                                            // by block
  std::map<BlockId, std::map<std::uint32_t, std::uint32_t>> pieces_;  // each piece's end, by start
  std::vector<Loser> losers_;
  Ino file_ = 0;                        // the file whose extents are being read
  Ranges lost_, unreadable_, lengths_;  // ranges of that file
  std::uint64_t strays_ = 0;
};

}  // namespace

bool check_data(CheckModel& model) { return DataCheck(model).run(); }

bool check_xattrs(CheckModel& model) {
  std::map<Ino, unsigned> strays;
  const auto each = [&](const XattrKey& key, const XattrRow&) {
    if (model.inodes.contains(key.ino)) return;
    ++strays[key.ino];
    model.out.xattrs[key] = std::nullopt;
  };
  if (!model.scan<XattrTable>(unsound(kSqlOf<XattrTable>), each)) return false;
  for (const auto& [ino, count] : strays)
    model.found("stray-attributes", fmt::format("inode {}", ino),
                fmt::format("{} extended attributes belong to a file that does not exist", count),
                "they are dropped");
  return true;
}

}  // namespace s3oram
