#include "fused/restore_files.h"

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <tuple>

#include "fused/backup_format.h"
#include "fused/backup_list.h"
#include "fused/rows.h"

namespace s3oram {
namespace {

/// Parts by index, of the backup of one generation and identity.
struct Found {
  std::map<std::uint32_t, std::pair<BlockId, BackupPart>> parts;

  bool whole() const {
    if (parts.empty()) return false;
    const auto& [index, last] = *parts.rbegin();
    return last.second.count == index + 1 && parts.size() == last.second.count;
  }
};

Result<Bytes> read_now(BlockDevice& device, BlockId block) {
  std::promise<Result<Bytes>> content;
  device.read(block, [&](Result<Bytes> read) { content.set_value(std::move(read)); });
  return content.get_future().get();
}

/// The newest whole one.
std::optional<Found> find_backup(BlockDevice& device, const std::vector<BlockId>& candidates) {
  std::map<std::pair<std::uint64_t, std::array<std::uint8_t, 16>>, Found> backups;
  for (const BlockId block : candidates) {
    const auto content = read_now(device, block);
    auto part = content ? decode_backup_part(*content) : std::nullopt;
    if (!part) continue;
    const auto index = part->index;
    backups[{part->generation, part->identity}].parts[index] = {block, std::move(*part)};
  }
  for (auto at = backups.rbegin(); at != backups.rend(); ++at)
    if (at->second.whole()) return std::move(at->second);
  return std::nullopt;
}

/// Commits the tables, once.
class Restore final : public CommitParticipant {
 public:
  explicit Restore(const Found& backup) : backup_(backup) {}
  std::uint64_t rows() const { return rows_; }

  std::function<Status(Database&)> snapshot() override {
    return [this](Database& database) { return fill(database); };
  }
  void committed(const Status&) override {}

 private:
  Status fill(Database& database) {
    Bytes dump;
    BackupList list;
    for (const auto& [index, found] : backup_.parts) {
      const auto& [block, part] = found;
      dump.insert(dump.end(), part.content.begin(), part.content.end());
      list.generation = part.generation;
      list.time = part.time;
      list.blocks.push_back(block);
    }
    list.used = list.blocks.size();
    S3O_TRY(database.execute(kCreateTables));
    S3O_TRY(database.execute(
        fmt::format("INSERT INTO fs_state (name, value) VALUES ('format', {})", kFormat)));
    auto loaded = load_tables(database, dump);
    if (!loaded) return fail(loaded.error());
    rows_ = *loaded;
    return write_lists(database, {list});
  }

  const Found& backup_;
  std::uint64_t rows_ = 0;
};

}  // namespace

Result<RestoredFiles> restore_files(BlockDevice& device, const std::vector<BlockId>& candidates) {
  const auto backup = find_backup(device, candidates);
  if (!backup)
    return fail(Errc::damaged_vault, "the servers hold no whole backup of the names ({} parts)",
                candidates.size());
  Restore restore(*backup);
  std::promise<Status> committed;
  device.set_participant(&restore);
  device.commit([&](Status status) { committed.set_value(std::move(status)); });
  const Status status = committed.get_future().get();
  device.set_participant(nullptr);
  if (!status) return fail(status.error());
  const BackupPart& part = backup->parts.begin()->second.second;
  return RestoredFiles{part.time, restore.rows(), backup->parts.size()};
}

}  // namespace s3oram
