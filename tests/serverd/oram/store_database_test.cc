// Tests a server's control state: evictions, growth, re-enrolment, checksums and damage.
#include "serverd/oram/store_database.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "tests/base/good.h"
#include "tests/base/temporary_directory.h"
#include "tests/harness/volumes.h"

namespace s3oram {
namespace {

VolumeDescription description(std::uint8_t tag) {
  VolumeDescription volume{.params = test::shuffle_volume(8, 4, 16), .server = 2};
  volume.id.fill(tag);
  return volume;
}

EvictionId attempt(std::uint64_t eviction, std::uint8_t tag) {
  EvictionId id{.eviction = eviction};
  id.attempt.fill(tag);
  return id;
}

using Buckets = std::map<BucketIndex, BucketVersionRef>;

Bytes read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_all(const std::filesystem::path& file, const Bytes& content) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
  ASSERT_TRUE(out.flush());
}

class ControlTest : public testing::Test {
 protected:
  ControlTest() { reopen(); }
  void reopen() {
    control_.reset();
    auto opened = Control::open(directory_ / "control.db");
    if (!opened) throw std::runtime_error(opened.error().message);
    control_.emplace(std::move(*opened));
  }
  Buckets buckets(std::uint64_t tree_version, unsigned height) const {
    Buckets found;
    std::vector<BucketIndex> all{kStashBucket, kStashBucket + 1};
    for (BucketIndex bucket = 1; bucket <= bucket_count(height); ++bucket) all.push_back(bucket);
    for (const BucketIndex bucket : all) {
      auto ref = control_->bucket(bucket, tree_version);
      EXPECT_TRUE(ref) << ref.error().message;
      if (ref && ref->bucket_version != 0) found[bucket] = *ref;
    }
    return found;
  }
  Buckets present() const { return buckets(control_->tree_version(), control_->height()); }
  /// Prepares `versions` in new bucket versions and returns the reservations, as the server does.
  BucketVersions prepare_fresh(const EvictionId& id, unsigned next_height,
                               const std::vector<BucketIndex>& which) {
    BucketVersions versions;
    for (const BucketIndex bucket : which)
      versions.push_back({bucket, {control_->numbers().allocate(), 8}});
    EXPECT_TRUE(control_->prepare(id, next_height, versions));
    for (const auto& version : versions)
      control_->numbers().give_back(version.second.bucket_version);
    return versions;
  }

  TemporaryDirectory directory_;
  std::optional<Control> control_;
};

TEST_F(ControlTest, IsEmptyAtFirst) {
  for (int i = 0; i < 2; ++i, reopen()) {
    EXPECT_FALSE(control_->volume());
    EXPECT_EQ(control_->session(), Session{});
    EXPECT_FALSE(control_->prepared());
  }
}

TEST_F(ControlTest, RemembersTheVolumeAndTheSession) {
  ASSERT_GOOD(control_->create(description(7)));
  Session session{.epoch = 5};
  session.nonce.fill(9);
  ASSERT_GOOD(control_->set_session(session));
  for (int i = 0; i < 2; ++i, reopen()) {
    ASSERT_TRUE(control_->volume());
    EXPECT_EQ(control_->volume()->id, description(7).id);
    VolumeParams told = description(7).params;
    told.security = {};  // only the client knows it
    EXPECT_EQ(control_->volume()->params, told);
    EXPECT_EQ(control_->volume()->server, 2);
    EXPECT_EQ(control_->session(), session);
    EXPECT_EQ(control_->tree_version(), 0u);
    EXPECT_EQ(control_->height(), 1u);
    EXPECT_EQ(present(), Buckets{});
  }
}

// An eviction that grows the tree writes a row for each leaf, which must not fail for lack of room.
TEST_F(ControlTest, RoomIsKeptForTheRowsOfAGrownTree) {
  ASSERT_GOOD(control_->create(description(7)));
  const auto kept = [&] { return std::filesystem::file_size(directory_ / "control.db-ballast"); };
  const auto usual = kept();
  EXPECT_TRUE(control_->find_ballast(2));
  EXPECT_EQ(kept(), usual);
  EXPECT_TRUE(control_->find_ballast(17));
  EXPECT_GE(kept(), std::uintmax_t{128} << 17);
  const auto enlarged = kept();
  EXPECT_TRUE(control_->find_ballast(3));
  EXPECT_EQ(kept(), enlarged);
}

TEST_F(ControlTest, CreateForgetsWhatWasThere) {
  ASSERT_GOOD(control_->create(description(7)));
  prepare_fresh(attempt(0, 1), 2, {kStashBucket, 2, 3});
  ASSERT_GOOD(control_->commit());
  prepare_fresh(attempt(1, 1), 2, {kStashBucket + 1, 2});
  ASSERT_GOOD(control_->create(description(8)));
  for (int i = 0; i < 2; ++i, reopen()) {
    EXPECT_EQ(control_->volume()->id, description(8).id);
    EXPECT_EQ(control_->session(), Session{});
    EXPECT_EQ(control_->tree_version(), 0u);
    EXPECT_EQ(control_->height(), 1u);
    EXPECT_FALSE(control_->prepared());
    EXPECT_EQ(present(), Buckets{});
    const BucketVersionNumber next = control_->numbers().allocate();
    EXPECT_EQ(next, 1u);
    control_->numbers().give_back(next);
  }
}

TEST_F(ControlTest, PreparedVersionsAreSeenOnlyAfterTheCommit) {
  ASSERT_GOOD(control_->create(description(7)));
  const auto versions = prepare_fresh(attempt(0, 1), 1, {kStashBucket, 2, 3});
  for (int i = 0; i < 2; ++i, reopen()) {
    EXPECT_EQ(control_->prepared(), attempt(0, 1));
    EXPECT_EQ(control_->tree_version(), 0u);
    EXPECT_EQ(present(), Buckets{});
  }
  ASSERT_GOOD(control_->commit());
  const Buckets wanted(versions.begin(), versions.end());
  EXPECT_EQ(buckets(0, 1), Buckets{}) << "the previous tree version is still there";
  for (int i = 0; i < 2; ++i, reopen()) {
    EXPECT_FALSE(control_->prepared());
    EXPECT_EQ(control_->tree_version(), 1u);
    EXPECT_EQ(present(), wanted);
  }
}

TEST_F(ControlTest, ReleaseLetsTheFormerTreeVersionGo) {
  ASSERT_GOOD(control_->create(description(7)));
  prepare_fresh(attempt(0, 1), 1, {kStashBucket, 2, 3});
  ASSERT_GOOD(control_->commit());
  prepare_fresh(attempt(1, 1), 1, {kStashBucket, 3});
  ASSERT_GOOD(control_->commit());
  ASSERT_TRUE(control_->bucket(kStashBucket, 1));
  EXPECT_EQ(control_->bucket(kStashBucket, 1)->bucket_version, 1u);
  EXPECT_FALSE(control_->bucket(kStashBucket, 0)) << "only one previous tree version is kept";
  control_->numbers().take_freed();
  control_->release();
  EXPECT_EQ(control_->numbers().take_freed().size(), 2u) << "those of the stash and of bucket 3";
  EXPECT_TRUE(control_->numbers().take_freed().empty());
  const auto former = control_->bucket(kStashBucket, 1);
  ASSERT_FALSE(former);
  EXPECT_EQ(former.error().code, Errc::former_view);
  EXPECT_FALSE(control_->bucket(kStashBucket, 3));
  EXPECT_EQ(control_->numbers().allocate(), 1u)
      << "the number of its bucket version can be used again";
  control_->release();
}

TEST_F(ControlTest, DiscardLeavesNothing) {
  ASSERT_GOOD(control_->create(description(7)));
  prepare_fresh(attempt(0, 1), 2, {kStashBucket, 2, 3});
  reopen();
  EXPECT_EQ(control_->prepared(), attempt(0, 1));
  ASSERT_GOOD(control_->discard());
  for (int i = 0; i < 2; ++i, reopen()) {
    EXPECT_FALSE(control_->prepared());
    EXPECT_EQ(control_->tree_version(), 0u);
    EXPECT_EQ(control_->height(), 1u);
    EXPECT_EQ(present(), Buckets{});
    EXPECT_EQ(control_->numbers().allocate(), 1u);
  }
  prepare_fresh(attempt(0, 2), 1, {kStashBucket + 1, 2});
  EXPECT_EQ(control_->prepared(), attempt(0, 2));
}

TEST_F(ControlTest, ACommitIsTakenBackAlsoAfterARestart) {
  ASSERT_GOOD(control_->create(description(7)));
  std::uint64_t eviction = 0;
  for (const bool restarted : {false, true})
    for (const unsigned grows : {0u, 1u}) {
      SCOPED_TRACE(fmt::format("restarted {}, grows {}", restarted, grows));
      const unsigned height = control_->height();
      prepare_fresh(attempt(eviction, 1), height, {kStashBucket, 2, 3});
      ASSERT_GOOD(control_->commit());
      control_->release();
      const Buckets before = present();
      const EvictionId id = attempt(++eviction, 2);
      prepare_fresh(id, height + grows, {kStashBucket, kStashBucket + 1, 2});
      ASSERT_GOOD(control_->commit());
      if (restarted) reopen();
      const auto other = control_->revert(attempt(eviction, 3));
      ASSERT_GOOD(other);
      EXPECT_FALSE(*other);
      const auto reverted = control_->revert(id);
      ASSERT_GOOD(reverted);
      EXPECT_TRUE(*reverted);
      for (int again = 0; again < 2; ++again, reopen()) {
        EXPECT_EQ(control_->tree_version(), eviction);
        EXPECT_EQ(control_->height(), height);
        EXPECT_EQ(present(), before);
        EXPECT_TRUE(control_->attempted(id));
      }
      std::set<BucketVersionNumber> used;
      for (const auto& [bucket, ref] : before) used.insert(ref.bucket_version);
      const BucketVersionNumber fresh = control_->numbers().allocate();
      EXPECT_FALSE(used.contains(fresh));
      control_->numbers().give_back(fresh);
      prepare_fresh(attempt(eviction, 4), height + grows, {kStashBucket, 2});
      ASSERT_GOOD(control_->commit());
      ++eviction;
    }
}

// The attempt may have written where the versions before the commit lie.
TEST_F(ControlTest, NoCommitIsTakenBackOnceAnotherAttemptHasBegun) {
  ASSERT_GOOD(control_->create(description(7)));
  prepare_fresh(attempt(0, 1), 1, {kStashBucket, 2});
  ASSERT_GOOD(control_->commit());
  ASSERT_GOOD(control_->attempt(attempt(1, 1)));
  for (int again = 0; again < 2; ++again, reopen()) {
    const auto reverted = control_->revert(attempt(0, 1));
    ASSERT_GOOD(reverted);
    EXPECT_FALSE(*reverted);
    EXPECT_EQ(control_->tree_version(), 1u);
  }
}

TEST_F(ControlTest, GrowingGivesALeafsBucketVersionToBothItsChildren) {
  ASSERT_GOOD(control_->create(description(7)));
  prepare_fresh(attempt(0, 1), 1, {kStashBucket, 2, 3});
  ASSERT_GOOD(control_->commit());
  const Buckets before = present();
  // Leaf 3 gets a new version in the eviction that grows the tree; leaf 2 keeps its version.
  const auto versions = prepare_fresh(attempt(1, 1), 2, {kStashBucket, 3});
  ASSERT_GOOD(control_->commit());
  EXPECT_EQ(buckets(1, 1), before);
  for (int i = 0; i < 2; ++i, reopen()) {
    EXPECT_EQ(control_->height(), 2u);
    const BucketVersionRef leaf2 = before.at(2), leaf3 = versions[1].second;
    EXPECT_EQ(present(), (Buckets{{kStashBucket, versions[0].second},
                                  {child_of(2, 0), leaf2},
                                  {child_of(2, 1), leaf2},
                                  {child_of(3, 0), leaf3},
                                  {child_of(3, 1), leaf3}}));
  }
  // A shared bucket version stays until the second of its two buckets no longer uses it.
  const BucketVersionNumber shared = present().at(child_of(2, 0)).bucket_version;
  for (std::uint64_t tree_version = 2; tree_version <= 3; ++tree_version) {
    prepare_fresh(attempt(tree_version, 1), 2, {kStashBucket, child_of(2, tree_version % 2)});
    ASSERT_GOOD(control_->commit());
    control_->release();
    std::vector<BucketVersionNumber> taken;
    for (int i = 0; i < 10; ++i) taken.push_back(control_->numbers().allocate());
    EXPECT_EQ(std::count(taken.begin(), taken.end(), shared), tree_version == 3 ? 1 : 0);
    for (const BucketVersionNumber bucket_version : taken)
      control_->numbers().give_back(bucket_version);
  }
}

TEST_F(ControlTest, RefusesADamagedTable) {
  ASSERT_GOOD(control_->create(description(7)));
  const char* const damages[] = {
      "UPDATE volume SET height = 0",
      "UPDATE volume SET height = 60",
      "UPDATE volume SET description = x'00'",
      "UPDATE volume SET session = x'0000'",
      "INSERT INTO buckets VALUES (9, 2, 0, 0)",
      "INSERT INTO buckets VALUES (-1, 2, 0, 0)",
      "INSERT INTO buckets VALUES (2, -1, 0, 0)",
      "INSERT INTO buckets VALUES (2, 2, 9, 0)",
      "INSERT INTO prepared_buckets VALUES (9, 2, 0, 0)",
      "INSERT INTO prepared_buckets VALUES (2, 4294967297, 0, 0)",
      "INSERT INTO prepared VALUES (1, x'00', 1)",
      "INSERT INTO prepared VALUES (1, zeroblob(24), 3)",
      "INSERT INTO buckets VALUES (1, 2, 8, 0)",
      "INSERT INTO buckets VALUES ((1 << 40) + 2, 2, 8, 0)",
      "INSERT INTO prepared_buckets VALUES ((1 << 40) + 2, 2, 8, 0)",
      "UPDATE volume SET format = 1",
      "UPDATE volume SET format = 4",
  };
  control_.reset();
  for (const char* damage : damages) {
    const auto file = directory_ / "damaged.db";
    std::filesystem::copy_file(directory_ / "control.db", file,
                               std::filesystem::copy_options::overwrite_existing);
    {
      auto database = Database::open(file.string(), Database::Mode::read_write);
      ASSERT_GOOD(database);
      ASSERT_GOOD(database->execute(damage));
    }
    const auto opened = Control::open(file);
    ASSERT_FALSE(opened) << damage;
    const bool other = std::string_view(damage).find("format") != std::string_view::npos;
    EXPECT_EQ(opened.error().code, other ? Errc::unsupported : Errc::damaged_vault) << damage;
    std::filesystem::remove(file);
  }
  reopen();
}

// The rows are as plausible as those that were written; only their checksum shows the change.
TEST_F(ControlTest, RefusesRowsThatAreNotAsTheyWereWritten) {
  ASSERT_GOOD(control_->create(description(7)));
  ASSERT_GOOD(control_->set_session({3, {}}));
  prepare_fresh(attempt(1, 1), 1, {2, 3, kStashBucket});
  ASSERT_GOOD(control_->commit());
  ASSERT_GOOD(control_->attempt(attempt(2, 1)));
  prepare_fresh(attempt(2, 2), 2, {2, 3});
  control_.reset();
  const char* const damages[] = {
      "UPDATE buckets SET frame = 3 - frame WHERE bucket <= 3",
      "UPDATE buckets SET slots = slots - 1 WHERE bucket = 2",
      "UPDATE buckets SET stamp = 5 WHERE bucket = 3",
      "DELETE FROM buckets WHERE bucket = 3",
      "INSERT OR REPLACE INTO buckets VALUES ((1 << 40) + 1, 1, 8, NULL)",
      "UPDATE prepared_buckets SET frame = 2 WHERE bucket = 2",
      "DELETE FROM prepared_buckets WHERE bucket = 2",
      "DROP TRIGGER eviction_discarded; DELETE FROM prepared; DELETE FROM prepared_buckets",
      "DROP TRIGGER eviction_discarded; DELETE FROM prepared",
      "UPDATE prepared SET next_height = 1",
      "DELETE FROM attempts",
      "DROP TRIGGER volume_changed; UPDATE volume SET format = 2",
      "DROP TRIGGER volume_changed; UPDATE volume SET view = 0",
      "DROP TRIGGER volume_changed; UPDATE volume SET height = 2",
      "DROP TRIGGER volume_changed; UPDATE volume SET session = zeroblob(24)",
      "DELETE FROM volume",
      "UPDATE sums SET buckets = buckets - 1",
  };
  for (const char* damage : damages) {
    const auto file = directory_ / "damaged.db";
    std::filesystem::copy_file(directory_ / "control.db", file,
                               std::filesystem::copy_options::overwrite_existing);
    {
      auto database = Database::open(file.string(), Database::Mode::read_write);
      ASSERT_GOOD(database);
      ASSERT_GOOD(database->execute(damage));
    }
    const auto opened = Control::open(file);
    ASSERT_FALSE(opened) << damage;
    EXPECT_EQ(opened.error().code, Errc::damaged_vault) << damage;
    std::filesystem::remove(file);
  }
  reopen();
  EXPECT_EQ(control_->tree_version(), 1u);
}

// A program that knows no checksums changes the rows without them.
TEST_F(ControlTest, RowsThatAnOlderProgramHasChangedAreTakenAndHaveChecksumsAgain) {
  ASSERT_GOOD(control_->create(description(7)));
  control_.reset();
  const std::string file = (directory_ / "control.db").string();
  {
    auto database = Database::open(file, Database::Mode::read_write);
    ASSERT_GOOD(database);
    ASSERT_GOOD(
        database->execute("BEGIN; INSERT INTO buckets VALUES (2, 1, 8, 5);"
                          "UPDATE volume SET view = 1; COMMIT"));
  }
  reopen();
  EXPECT_EQ(present(), (Buckets{{2, {1, 8, 5}}}));
  control_.reset();
  {
    auto database = Database::open(file, Database::Mode::read_write);
    ASSERT_GOOD(database);
    ASSERT_GOOD(database->execute("UPDATE buckets SET stamp = 6"));
  }
  EXPECT_EQ(Control::open(file).error().code, Errc::damaged_vault);
}

// Every step of a store's life leaves rows and checksums that match.
TEST_F(ControlTest, IsSoundAfterEachChange) {
  ASSERT_GOOD(control_->create(description(7)));
  reopen();
  ASSERT_GOOD(control_->set_session({3, {}}));
  reopen();
  ASSERT_GOOD(control_->attempt(attempt(1, 1)));
  reopen();
  prepare_fresh(attempt(1, 1), 2, {2, 3, kStashBucket});
  reopen();
  ASSERT_GOOD(control_->discard());
  reopen();
  const auto versions = prepare_fresh(attempt(1, 2), 2, {2, kStashBucket});
  ASSERT_GOOD(control_->commit());  // grows: both children of 2 have its bucket version
  reopen();
  const Buckets wanted{{child_of(2, 0), versions[0].second},
                       {child_of(2, 1), versions[0].second},
                       {kStashBucket, versions[1].second}};
  EXPECT_EQ(present(), wanted);
  ASSERT_GOOD(
      control_->prepare(attempt(2, 1), 2, {{child_of(2, 0), {}}}));  // a bucket that is empty again
  reopen();
  ASSERT_GOOD(control_->commit());
  reopen();
  EXPECT_EQ(present().size(), 2u);
}

// A bit that flips anywhere in the file, or a page from an earlier time, is either noticed or
// changes nothing that is loaded.
TEST_F(ControlTest, DamageIsNoticedOrHarmless) {
  ASSERT_GOOD(control_->create(description(7)));
  std::uint64_t write_number = 0;
  const auto evict = [&](unsigned height) {
    std::vector<BucketIndex> path{kStashBucket, kStashBucket + 1};
    for (unsigned level = 1; level <= control_->height(); ++level)
      path.push_back(bucket_on_path(write_number * 7, level));
    prepare_fresh(attempt(++write_number, 1), height, path);
    ASSERT_GOOD(control_->commit());
    control_->release();
  };
  for (unsigned height = 1; height <= 7; ++height) evict(height);
  for (int i = 0; i < 40; ++i) evict(7);
  control_.reset();
  const auto file = directory_ / "control.db", earlier = directory_ / "earlier.db";
  std::filesystem::copy_file(file, earlier);
  reopen();
  for (int i = 0; i < 5; ++i) evict(7);
  ASSERT_GOOD(control_->attempt(attempt(99, 1)));
  const Buckets wanted = present();
  const auto tree_version = control_->tree_version();
  control_.reset();

  const Bytes sound = read_all(file), before = read_all(earlier);
  constexpr std::size_t kPage = 4096;
  const auto check = [&](const Bytes& content, const std::string& what) {
    const auto damaged = directory_ / "damaged.db";
    write_all(damaged, content);
    auto opened = Control::open(damaged);
    if (opened) {
      control_.emplace(std::move(*opened));
      EXPECT_TRUE(control_->volume() && control_->tree_version() == tree_version &&
                  present() == wanted && control_->attempted(attempt(99, 1)))
          << what;
      control_.reset();
    }
    for (const char* more : {"", "-wal", "-shm", "-ballast"})
      std::filesystem::remove(damaged.string() + more);
    return opened.has_value();
  };
  std::mt19937_64 random(1);
  for (int i = 0; i < 400; ++i) {
    Bytes content = sound;
    const std::size_t bit = random() % (8 * content.size());
    content[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
    check(content, fmt::format("bit {} of byte {}", bit % 8, bit / 8));
  }
  unsigned stale = 0;
  for (std::size_t page = 0; page < before.size(); page += kPage) {
    Bytes content = sound;
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(page), kPage,
                content.begin() + static_cast<std::ptrdiff_t>(page));
    if (content != sound) stale += !check(content, fmt::format("a stale page at {}", page));
  }
  EXPECT_GE(stale, 2u);
}

TEST_F(ControlTest, ANewerStoreIsLeftAsItIs) {
  const auto file = directory_ / "newer.db";
  {
    auto database = Database::open(file.string(), Database::Mode::create);
    ASSERT_GOOD(database);
    ASSERT_GOOD(
        database->execute("CREATE TABLE volume (format INTEGER); INSERT INTO volume VALUES (4)"));
  }
  const auto opened = Control::open(file);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unsupported);
  EXPECT_NE(opened.error().message.find("newer.db: its format 4 is newer than this program, which "
                                        "knows format 3"),
            std::string::npos)
      << opened.error().message;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "newer.db-ballast"));
  auto database = Database::open(file.string(), Database::Mode::read_only);
  ASSERT_GOOD(database);
  auto tables = database->prepare("SELECT count(*) FROM sqlite_master");
  ASSERT_GOOD(tables);
  ASSERT_TRUE(*tables->step());
  EXPECT_EQ(tables->integer(0), 1);
}

// Random evictions, discards, growth and restarts, compared with a plain model. The number of a
// bucket version that is used by the current tree version, the previous one or a prepared attempt
// is never given out, and no number is lost.
TEST_F(ControlTest, NeitherReusesNorLosesABucketVersion) {
  ASSERT_GOOD(control_->create(description(7)));
  std::mt19937_64 random(1);
  Buckets now, former;
  bool has_former = false;
  BucketVersionNumber highest = 0;
  unsigned height = 1;
  const auto in_use = [&] {
    std::set<BucketVersionNumber> bucket_versions;
    for (const auto& [bucket, ref] : now) bucket_versions.insert(ref.bucket_version);
    if (has_former)
      for (const auto& [bucket, ref] : former) bucket_versions.insert(ref.bucket_version);
    return bucket_versions;
  };
  for (std::uint64_t tree_version = 0; tree_version < 2000;) {
    const unsigned next_height = height < 5 && random() % 100 == 0 ? height + 1 : height;
    std::set<BucketVersionNumber> used = in_use();
    BucketVersions versions;
    std::vector<BucketVersionNumber> reserved;
    const auto fresh = [&] {
      const BucketVersionNumber bucket_version = control_->numbers().allocate();
      EXPECT_TRUE(used.insert(bucket_version).second) << "frame " << bucket_version << " is in use";
      highest = std::max(highest, bucket_version);
      reserved.push_back(bucket_version);
      return bucket_version;
    };
    // Does what evictions of either kind do: some buckets become empty; siblings and the stash part
    // are new.
    for (unsigned level = 1; level <= height; ++level) {
      const BucketIndex on_path = bucket_on_path(tree_version, level);
      versions.push_back(
          {on_path, level < height ? BucketVersionRef{} : BucketVersionRef{fresh(), 8}});
      versions.push_back({sibling_of(on_path), {fresh(), 8}});
    }
    if (random() % 2) versions.push_back({kStashBucket, {fresh(), 8}});
    versions.push_back({kStashBucket + 1, {fresh(), 8}});
    ASSERT_GOOD(control_->prepare(attempt(tree_version, static_cast<std::uint8_t>(random())),
                                  next_height, versions));
    for (const BucketVersionNumber bucket_version : reserved)
      control_->numbers().give_back(bucket_version);
    const bool restarted = random() % 20 == 0;
    if (restarted) {
      reopen();
      has_former = false;
    }
    // A prepared eviction keeps its bucket versions.
    used = in_use();
    for (const auto& version : versions) used.insert(version.second.bucket_version);
    const BucketVersionNumber other = control_->numbers().allocate();
    ASSERT_FALSE(used.contains(other)) << "frame " << other << " is in use";
    highest = std::max(highest, other);
    control_->numbers().give_back(other);

    if (random() % 5 == 0) {
      ASSERT_GOOD(control_->discard());
    } else {
      ASSERT_GOOD(control_->commit());
      former = now;
      has_former = true;
      for (const auto& [bucket, ref] : versions) now[bucket] = ref;
      if (next_height > height) {
        for (BucketIndex leaf = BucketIndex{1} << height; leaf < BucketIndex{2} << height; ++leaf) {
          now[child_of(leaf, 0)] = now[child_of(leaf, 1)] = now[leaf];
          now.erase(leaf);
        }
        height = next_height;
      }
      std::erase_if(now, [](const auto& entry) { return entry.second.bucket_version == 0; });
      ++tree_version;
    }
    if (random() % 20 == 0) {
      reopen();
      has_former = false;
    }
    ASSERT_EQ(control_->tree_version(), tree_version);
    ASSERT_EQ(control_->height(), height);
    ASSERT_EQ(present(), now) << "view " << tree_version;
    if (has_former) {
      ASSERT_EQ(buckets(tree_version - 1, height), former) << "view " << tree_version;
    }
    if (random() % 2 == 0) {
      control_->release();
      has_former = false;
    }
  }
  EXPECT_EQ(height, 5u);
  control_->release();
  has_former = false;
  // Every number up to the highest is in use or can be allocated.
  std::set<BucketVersionNumber> all = in_use();
  while (all.size() < highest) {
    const BucketVersionNumber bucket_version = control_->numbers().allocate();
    ASSERT_LE(bucket_version, highest) << "the number of a bucket version has been lost";
    ASSERT_TRUE(all.insert(bucket_version).second);
  }
  EXPECT_LE(highest, 4 * bucket_count(height)) << "the numbers of bucket versions are used again";
}

ReenrolRequest reenrolment() {
  return {.volume = description(1),
          .session = {7, {}},
          .tree_version = 9,
          .height = 3,
          .buckets = {
              {2, 2, 8, 11}, {4, 4, 8, 12}, {6, 4, 8, 12}, {kStashBucket, kStashBucket, 8, 13}}};
}

TEST_F(ControlTest, ReenrolsAVolumeInUse) {
  ASSERT_GOOD(control_->reenrol(reenrolment()));
  for (int life = 0; life < 2; ++life, reopen()) {
    EXPECT_EQ(control_->tree_version(), 9u);
    EXPECT_EQ(control_->height(), 3u);
    EXPECT_EQ(control_->session().epoch, 7u);
    const Buckets found = buckets(9, 3);
    ASSERT_EQ(found.size(), 4u);
    EXPECT_EQ(found.at(4), found.at(6)) << "the tree had grown";
    EXPECT_NE(found.at(2).bucket_version, found.at(4).bucket_version);
    EXPECT_EQ(found.at(2), (BucketVersionRef{found.at(2).bucket_version, 8, 11}));
    EXPECT_EQ(control_->layout().size(), 4u);
  }
}

/// Returns a part of the request: its buckets from `from` to `end`.
ReenrolRequest part_of(ReenrolRequest all, std::size_t from, std::size_t end) {
  all.last = end == all.buckets.size();
  all.from = from;
  all.buckets = {all.buckets.begin() + static_cast<std::ptrdiff_t>(from),
                 all.buckets.begin() + static_cast<std::ptrdiff_t>(end)};
  return all;
}

TEST_F(ControlTest, ReenrolsInParts) {
  const ReenrolRequest all = reenrolment();
  const auto reenrol = [&](std::size_t from, std::size_t end) {
    return control_->reenrol(part_of(all, from, end));
  };
  ASSERT_GOOD(reenrol(0, 2));
  EXPECT_FALSE(control_->volume());
  ASSERT_GOOD(reenrol(0, 2));  // the same part came twice
  ASSERT_FALSE(reenrol(3, 4)) << "one part is missing";
  ASSERT_GOOD(reenrol(2, 3));
  ASSERT_FALSE(reenrol(0, 2)) << "it came late, and is no longer the newest";
  EXPECT_FALSE(control_->volume());
  ASSERT_GOOD(reenrol(3, 4));
  for (int life = 0; life < 2; ++life, reopen()) {
    EXPECT_EQ(control_->tree_version(), 9u);
    const Buckets found = buckets(9, 3);
    ASSERT_EQ(found.size(), 4u);
    EXPECT_EQ(found.at(4), found.at(6)) << "of another part";
  }
}

TEST_F(ControlTest, ReenrolsFromTheBeginningInItsNextLife) {
  const ReenrolRequest all = reenrolment();
  ASSERT_GOOD(control_->reenrol(part_of(all, 0, 2)));
  reopen();
  const Status reenrolled = control_->reenrol(part_of(all, 2, 4));
  ASSERT_FALSE(reenrolled);
  EXPECT_EQ(reenrolled.error().code, Errc::need_open);
  ASSERT_GOOD(control_->reenrol(all));
}

TEST_F(ControlTest, AnotherSessionReenrolsFromTheBeginning) {
  ReenrolRequest all = reenrolment();
  ASSERT_GOOD(control_->reenrol(part_of(all, 0, 2)));
  all.session = {8, {}};
  ASSERT_FALSE(control_->reenrol(part_of(all, 2, 4)));
  ASSERT_GOOD(control_->reenrol(part_of(all, 0, 3)));
  ASSERT_GOOD(control_->reenrol(part_of(all, 3, 4)));
  EXPECT_EQ(control_->session().epoch, 8u);
  EXPECT_EQ(control_->layout().size(), 4u);
}

TEST_F(ControlTest, RejoinsWithWhatItHasByStamps) {
  ReenrolRequest all = reenrolment();
  all.volume.params = test::mirror_volume(8, 4, 16, {1, 3});
  ASSERT_GOOD(control_->reenrol(all));
  EXPECT_EQ(control_->missing().size(), 4u) << "nothing has been copied yet";
  ASSERT_GOOD(control_->found({2, 4, 6}));
  const auto kept = control_->bucket(4, 9), old = control_->bucket(2, 9);
  // While the server was away, bucket 2 was written again, 12 was added, and the tree grew by a
  // level.
  ReenrolRequest later = all;
  later.tree_version = 12;
  later.height = 4;
  later.buckets = {
      {2, 2, 8, 21}, {4, 4, 8, 12}, {12, 12, 8, 22}, {kStashBucket, kStashBucket, 8, 13}};
  ASSERT_GOOD(control_->rejoin(part_of(later, 0, 2)));
  EXPECT_EQ(control_->tree_version(), 9u) << "not before the last part";
  ASSERT_GOOD(control_->rejoin(part_of(later, 0, 2)));  // cut short, and begun again
  ASSERT_GOOD(control_->rejoin(part_of(later, 2, 4)));
  for (int life = 0; life < 2; ++life, reopen()) {
    EXPECT_EQ(control_->tree_version(), 12u);
    EXPECT_EQ(control_->height(), 4u);
    EXPECT_EQ(control_->bucket(4, 12)->bucket_version, kept->bucket_version);
    EXPECT_EQ(control_->missing(), (std::set<BucketIndex>{2, 12, kStashBucket}))
        << "the stash part never came";
    std::set<BucketVersionNumber> numbers;
    for (const auto& [bucket, ref] : control_->layout()) numbers.insert(ref.bucket_version);
    EXPECT_EQ(numbers.size(), 4u) << "no two share a version";
    EXPECT_LE(*numbers.rbegin(), 4u) << "versions that went out of use are used again";
  }
  // An eviction writes one of the missing buckets.
  ASSERT_GOOD(control_->attempt(attempt(12, 5)));
  ASSERT_GOOD(control_->prepare(attempt(12, 5), 4, {{2, {control_->numbers().allocate(), 8, 23}}}));
  ASSERT_GOOD(control_->commit());
  EXPECT_EQ(control_->missing(), (std::set<BucketIndex>{12, kStashBucket}));
}

TEST_F(ControlTest, WhatWasALeafIsFoundUnderItsChildren) {
  ReenrolRequest all = reenrolment();
  all.volume.params = test::mirror_volume(8, 4, 16, {1, 3});
  all.height = 2;
  all.buckets = {{5, 5, 8, 11}};
  ASSERT_GOOD(control_->reenrol(all));
  ASSERT_GOOD(control_->found({5}));
  const BucketVersionNumber kept = control_->bucket(5, 9)->bucket_version;
  all.tree_version = 10;
  all.height = 3;
  const BucketIndex left = child_of(5, 0), right = child_of(5, 1);
  all.buckets = {{left, left, 8, 11}, {right, left, 8, 11}};
  ASSERT_GOOD(control_->rejoin(all));
  EXPECT_TRUE(control_->missing().empty());
  EXPECT_EQ(control_->bucket(left, 10)->bucket_version, kept);
  EXPECT_EQ(control_->bucket(right, 10)->bucket_version, kept);
}

TEST_F(ControlTest, ReenrolsNoBucketThatCannotBe) {
  const BucketShape impossible[] = {
      {1, 1, 8, 1},                                // the root
      {16, 16, 8, 1},                              // too deep
      {7, 3, 8, 1},                                // the same as one that does not exist
      {7, 7, 9, 1},                                // larger than a bucket
      {7, 7, 0, 1},                                // or empty
      {kStashBucket + 2, kStashBucket + 2, 8, 1},  // beyond the stash part
  };
  for (const BucketShape& shape : impossible) {
    ReenrolRequest request = reenrolment();
    request.buckets.insert(request.buckets.begin() + 3, shape);
    if (shape.bucket >= kStashBucket) std::swap(request.buckets[3], request.buckets[4]);
    const Status reenrolled = control_->reenrol(request);
    ASSERT_FALSE(reenrolled) << "bucket " << shape.bucket;
    EXPECT_EQ(reenrolled.error().code, Errc::bad_request);
    EXPECT_FALSE(control_->volume());
  }
  ReenrolRequest twice = reenrolment();
  twice.buckets.push_back(twice.buckets.back());
  EXPECT_FALSE(control_->reenrol(twice));
}

}  // namespace
}  // namespace s3oram
