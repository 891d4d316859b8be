// Compares some of the buckets in `slots` with what control.db says about them, and notices whether
// a store's files are being changed.
#include "serverd/oram/store_check.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "oramcore/base/human.h"
#include "oramcore/base/rules.h"

namespace s3oram {
namespace {

constexpr std::size_t kSampled = 64;     // buckets, besides those of the last eviction
constexpr std::size_t kFewSlots = 4;     // with fewer slots the file cannot be judged
constexpr unsigned kSlotsOfABucket = 4;  // checked if there are few buckets

/// Returns whether most of these bucket versions are foreign, judged by their first slots or, if
/// there are few versions, by several slots of each.
bool most_are_foreign(const VolumeDescription& volume, BucketStore& store,
                      const std::vector<BucketVersionRef>& bucket_versions) {
  std::vector<Bytes> others;
  for (Party server = 1; server <= volume.params.scheme.servers; ++server)
    if (server != volume.server) others.push_back(owner_of(volume.id, server));
  const unsigned of_each = bucket_versions.size() < kFewSlots ? kSlotsOfABucket : 1;
  std::size_t looked_at = 0, foreign = 0;
  for (const BucketVersionRef& ref : bucket_versions) {
    for (unsigned i = 0; i < std::min<unsigned>(of_each, ref.slots); ++i) {
      ++looked_at;
      foreign += store.is_foreign(ref.bucket_version, i * ref.slots / of_each, ref.stamp, others);
    }
  }
  return looked_at >= kFewSlots && 2 * foreign > looked_at;
}

/// Returns the buckets that were written last, because these reveal an older copy of the file.
std::set<BucketIndex> newest_buckets(const Control& control) {
  const auto& recorded = control.newest_buckets();
  std::set<BucketIndex> newest(recorded.begin(), recorded.end());
  if (!newest.empty() || control.tree_version() == 0) return newest;
  // The program that installed them did not record which buckets they are.
  for (const BucketIndex bucket :
       path_buckets(control.volume()->params, control.tree_version() - 1, control.height())) {
    newest.insert(bucket);
    const bool with_sibling = bucket < kStashBucket && !control.volume()->params.is_ring();
    if (with_sibling) newest.insert(sibling_of(bucket));
  }
  return newest;
}

/// Returns where the last slot that must be in the file ends.
std::uint64_t end_of_slots(const VolumeParams& params, const BucketVersions& layout,
                           const BucketStore& store) {
  // Where room cannot be reserved, a file from an older version of the program may end before the
  // root's last slot. (Rings did not exist then.)
  const bool may_be_short = layout.empty() && !params.is_ring();
  std::uint64_t end = may_be_short ? 1 : store.end_of(kRootBuffer, params.newest_slots());
  for (const auto& [bucket, ref] : layout)
    end = std::max(end, store.end_of(ref.bucket_version, ref.slots));
  return end;
}

}  // namespace

Result<std::string> missing_slots(const Control& control, BucketStore& store, File& file) {
  const BucketVersions layout = control.layout();
  if (!rule_holds(Rule::checksums)) return std::string();
  const VolumeDescription& volume = *control.volume();
  S3O_ASSIGN(const auto size, file.size());
  const std::uint64_t end = end_of_slots(volume.params, layout, store);
  if (size < end)
    return size == 0 && layout.empty()
               ? std::string("is empty")
               : fmt::format("has {}, but the root and {} buckets need {}", human_size(size),
                             layout.size(), human_size(end));
  const std::set<BucketIndex> newest = newest_buckets(control);
  std::vector<BucketVersionRef> last, sample;
  const std::size_t every = layout.size() / kSampled + 1;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (control.missing().contains(layout[i].first)) continue;  // its content is still to come
    if (newest.contains(layout[i].first)) last.push_back(layout[i].second);
    if (i % every == 0) sample.push_back(layout[i].second);
  }
  if (most_are_foreign(volume, store, sample))
    return std::string("is not the file that control.db describes");
  if (most_are_foreign(volume, store, last))
    return std::string("is older than control.db: it was set back");
  return std::string();
}

Status make_slots_whole(const VolumeParams& params, BucketStore& store, File& file) {
  const std::uint64_t newest = store.end_of(kRootBuffer, params.newest_slots());
  S3O_ASSIGN(const auto size, file.size());
  return size < newest ? file.truncate(newest) : Status();
}

bool StoreChanges::have_ended() {
  std::string present = describe();
  if (std::exchange(seen_, present) != present) return false;
  return disk_.exists(store_ / "control.db");
}

std::string StoreChanges::describe() const {
  std::string all;
  for (const char* name : {"control.db", "control.db-wal", "slots"}) {
    struct stat found {};
    if (::stat((store_ / name).c_str(), &found) != 0) continue;
    all += fmt::format("{} {} {} {}.{} ", name, found.st_ino, found.st_size, found.st_mtim.tv_sec,
                       found.st_mtim.tv_nsec);
  }
  return all;
}

Result<Control> open_control(const std::filesystem::path& store, Disk& disk) {
  constexpr auto kAdvice =
      "put the newest copy of the whole store back, or an empty store in its place, and have the "
      "client run s3oramfs repair";
  auto control = Control::open(store / "control.db", disk);
  if (!control && control.error().code == Errc::damaged_vault)
    return fail(Errc::damaged_vault, "store {}: {}; {}", store.string(), control.error().message,
                kAdvice);
  if (!control) return control;
  std::error_code error;
  const auto slots = std::filesystem::file_size(store / "slots", error);
  if (!control->volume() && !error && slots > 0)
    return fail(Errc::damaged_vault,
                "store {} has shares (slots), but control.db does not say of which volume; {}",
                store.string(), kAdvice);
  return control;
}

}  // namespace s3oram
