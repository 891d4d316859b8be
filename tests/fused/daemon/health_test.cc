// Tests the words for the state of a mounted vault, and the form in which programs get it.
#include "fused/daemon/health.h"

#include <gtest/gtest.h>

#include "fused/daemon/health_watch.h"
#include "fused/daemon/mount_status.h"
#include "tests/harness/exposition.h"

namespace s3oram {
namespace {

using namespace std::chrono_literals;

MountState sound() {
  MountState state;
  state.volume.servers.resize(3);
  for (std::size_t i = 0; i < 3; ++i) {
    state.volume.servers[i].address = "server " + std::to_string(i + 1);
    state.volume.servers[i].answering = true;
  }
  state.block_size = 64 << 10;
  state.free_bytes = 1 << 30;
  return state;
}

struct Case {
  const char* name;
  std::function<void(MountState&)> change;
  std::vector<std::string> words;  // the words for each problem
};

const Case kCases[] = {
    {"sound", [](MountState&) {}, {}},
    {"busy as always",
     [](MountState& s) {
       s.volume.evicting = true;
       s.volume.evicting_seconds = 20;
       s.volume.evictions_due = 2;
       s.volume.stash = 5;
       s.volume.servers[0].restarts = 3;
       s.files.dirty_bytes = 100 << 20;
       s.files.lag = 5s;
     },
     {}},
    {"damaged tables",
     [](MountState& s) {
       s.files.damage = 3;
       s.files.first_damage = "vault.db, table dentries: a row of inode 5 is out of order";
       s.files.lost_blocks = 1;
     },
     {"vault.db is damaged (vault.db, table dentries: a row of inode 5 is out of order, and 2 "
      "more): what needs the damaged part gives an error, and no backup of the names replaces the "
      "last one; unmount, and run s3oramfs fsck --repair",
      "1 block of files is lost: vault.db does not say where on the servers; once unmounted, "
      "s3oramfs fsck names the files"}},
    {"servers that disagree",
     [](MountState& s) { s.volume.evictions_stopped = "the servers disagree on something"; },
     {"one of the servers is faulty or lies: evictions have stopped, and soon the directory can "
      "only be read; the servers disagree on something; have the servers' memory and programs "
      "checked, or replace the faulty one, then unmount and mount again"}},
    {"a silent server",
     [](MountState& s) {
       s.volume.servers[1].answering = false;
       s.volume.servers[1].silent_seconds = 40.2;
     },
     {"server 2 has not answered for 40 s: reading and writing wait"}},
    {"a server that lets nobody in",
     [](MountState& s) {
       s.volume.servers[1].answering = false;
       s.volume.servers[1].silent_seconds = 7;
       s.volume.servers[1].trouble = "does not know this client's key";
     },
     {"server 2 has not answered for 7 s (it does not know this client's key): reading and writing "
      "wait"}},
    {"what follows from a silent server is not said again",
     [](MountState& s) {
       s.volume.servers[2].answering = false;
       s.volume.servers[2].silent_seconds = 300;
       s.volume.evicting_seconds = 300;
       s.files.lag = 300s;
     },
     {"server 3 has not answered for 5 min: reading and writing wait"}},
    {"two silent servers",
     [](MountState& s) {
       s.volume.servers[0].answering = s.volume.servers[2].answering = false;
       s.volume.servers[0].silent_seconds = 1;
       s.volume.servers[2].silent_seconds = 7200;
     },
     {"server 1 has not answered for 1 s: reading and writing wait",
      "server 3 has not answered for 2 h: reading and writing wait"}},
    {"a silent server that the vault is leaving",
     [](MountState& s) {
       auto migration = std::make_shared<MigrationStatus>();
       migration->left = 40;
       migration->source_servers.resize(1);
       migration->source_servers[0].address = "source server 1 (a:1)";
       migration->source_servers[0].silent_seconds = 12;
       s.volume.migration = migration;
     },
     {"source server 1 (a:1) has not answered for 12 s: 40 blocks have not moved from there yet, "
      "and cannot be read"}},
    {"servers with trouble that the vault is leaving",
     [](MountState& s) {
       auto migration = std::make_shared<MigrationStatus>();
       migration->left = 40;
       migration->source_servers.resize(3);
       for (std::size_t i = 0; i < 3; ++i) {
         migration->source_servers[i].address = fmt::format("source server {}", i + 1);
         migration->source_servers[i].answering = true;
       }
       migration->source_servers[0].trouble = "server 1 says: server 1 holds no volume";
       migration->source_servers[0].trouble_code = Errc::wrong_volume;
       migration->source_servers[1].cut_from = {3};
       migration->source_servers[2].stalled_at = "a retrieval";  // follows from the rest
       s.volume.migration = migration;
     },
     {"source server 1 has trouble, and its requests are retried: server 1 says: server 1 holds no "
      "volume",
      "the line between source server 2 and source server 3 is cut, though both answer: 40 blocks "
      "have not moved from there yet, and cannot be read until it works again"}},
    {"a server whose disk hangs that the vault is leaving",
     [](MountState& s) {
       auto migration = std::make_shared<MigrationStatus>();
       migration->source_servers.resize(1);
       migration->source_servers[0].address = "source server 1";
       migration->source_servers[0].answering = true;
       migration->source_servers[0].stalled_at = "a root write";
       migration->source_servers[0].stalled_seconds = 5;
       s.volume.migration = migration;
     },
     {"source server 1 answers, but has not finished a root write for 5 s: its disk hangs"}},
    {"blocks that do not move",
     [](MountState& s) {
       auto migration = std::make_shared<MigrationStatus>();
       migration->hindrance = "there is no room for more blocks";
       migration->unreadable = 2;
       s.volume.migration = migration;
     },
     {"blocks do not move: there is no room for more blocks",
      "2 blocks cannot be read where they are, and so do not move: files that need them give an "
      "error; delete or restore these, and the migration ends"}},
    {"a server with a disk that fails",
     [](MountState& s) { s.volume.servers[1].trouble = "write slots: Input/output error"; },
     {"server 2 has trouble, and its requests are retried: write slots: Input/output error"}},
    {"a server that does not reach another one",
     [](MountState& s) {
       s.volume.servers[0].trouble = "adding up: server 3 does not answer";
       s.volume.servers[2].answering = false;
       s.volume.servers[2].silent_seconds = 60;
     },
     {"server 3 has not answered for 60 s: reading and writing wait",
      "server 1 has trouble, and its requests are retried: adding up: server 3 does not answer"}},
    {"a server that has lost its store",
     [](MountState& s) {
       s.volume.servers[1].trouble = "server 2 lacks its shares: slots is missing";
       s.volume.servers[1].trouble_code = Errc::wrong_volume;
     },
     {"server 2 has trouble, and its requests are retried: server 2 lacks its shares: slots is "
      "missing"}},
    {"a server whose disk hangs",
     [](MountState& s) {
       s.volume.servers[2].stalled_at = "a root write";
       s.volume.servers[2].stalled_seconds = 5;
     },
     {"server 3 answers, but has not finished a root write for 5 s: its disk, or its line to "
      "another "
      "server, hangs"}},
    {"two servers of which one may wait for the other",
     [](MountState& s) {
       for (const std::size_t each : {0, 2}) {
         s.volume.servers[each].stalled_at = "a retrieval";
         s.volume.servers[each].stalled_seconds = 5;
       }
     },
     {"server 1 answers, but has not finished a retrieval for 5 s: the disk of one of these "
      "servers, "
      "or a line between them, hangs",
      "server 3 answers, but has not finished a retrieval for 5 s: the disk of one of these "
      "servers, "
      "or a line between them, hangs"}},
    {"the server of a ring whose disk hangs",
     [](MountState& s) {
       s.volume.servers.resize(1);
       s.volume.servers[0].stalled_at = "a root write";
       s.volume.servers[0].stalled_seconds = 5;
     },
     {"server 1 answers, but has not finished a root write for 5 s: its disk hangs"}},
    {"two servers that do not reach each other",
     [](MountState& s) {
       s.volume.servers[0].cut_from = {2};
       s.volume.servers[1].cut_from = {1};
       s.volume.servers[1].stalled_at = "a retrieval";
       s.volume.servers[1].stalled_seconds = 5;
     },
     {"the line between server 1 and server 2 is cut, though both answer: reading and writing wait "
      "until it works again"}},
    {"who waits for a silent one does not hang",
     [](MountState& s) {
       s.volume.servers[0].answering = false;
       s.volume.servers[0].silent_seconds = 6;
       s.volume.servers[2].stalled_at = "a retrieval";
       s.volume.servers[2].stalled_seconds = 5;
     },
     {"server 1 has not answered for 6 s: reading and writing wait"}},
    {"vault.db cannot be written",
     [](MountState& s) { s.volume.database_trouble = "database vault.db: its disk is full"; },
     {"vault.db cannot be written, and nothing becomes durable: database vault.db: its disk is "
      "full"}},
    {"the disk of vault.db hangs",
     [](MountState& s) { s.volume.committing_seconds = 5; },
     {"vault.db: its disk has not taken a commit for 5 s"}},
    {"the names cannot be backed up",
     [](MountState& s) {
       s.files.backup_failure = "Input/output error";
       s.files.backup_failing_for = 12s;
     },
     {"the names could not be backed up for 12 s: Input/output error"}},
    {"no room for what is written",
     [](MountState& s) {
       s.files.dirty_bytes = s.files.failing_bytes = s.files.no_room_bytes = 2'200'000;
       s.free_bytes = 0;
     },
     {"2.1 MiB cannot be written: no room"}},
    {"no room, and nobody needs it",
     [](MountState& s) { s.free_bytes = (64 << 10) - 1; },
     {"full: no room for another block"}},
    {"no room on a server's disk",
     [](MountState& s) {
       s.files.dirty_bytes = s.files.failing_bytes = s.files.no_room_bytes = 2'200'000;
       s.free_bytes = 0;
       s.volume.servers[1].lacks_room = true;
     },
     {"2.1 MiB cannot be written: no room on the disk of server 2: free space there, or enlarge "
      "it"}},
    {"no room on two disks",
     [](MountState& s) {
       s.free_bytes = 0;
       s.volume.servers[1].lacks_room = s.volume.vault_lacks_room = true;
     },
     {"full: no room for another block on the disk of server 2 and that of vault.db: free space "
      "there, or enlarge it"}},
    {"no room on the one disk of a local vault",
     [](MountState& s) {
       s.free_bytes = 0;
       s.volume.shares_disk = true;
       for (auto& server : s.volume.servers) server.lacks_room = true;
     },
     {"full: no room for another block on the disk of the vault: free space there, or enlarge it"}},
    {"the tree cannot grow, and is not full: there are freed blocks",
     [](MountState& s) {
       s.room = {.blocks = 0, .can_grow = false};
       s.volume.servers[1].lacks_room = true;
       s.free_bytes = 64 << 10;
     },
     {}},
    {"writing fails",
     [](MountState& s) {
       s.files.dirty_bytes = s.files.failing_bytes = 3 << 20;
       s.files.failing_for = 41s;
     },
     {"3.0 MiB could not be written for 41 s, and will be retried"}},
    {"some for want of room, some otherwise",
     [](MountState& s) {
       s.files.failing_bytes = 3 << 20;
       s.files.no_room_bytes = 1 << 20;
       s.files.failing_for = 2s;
     },
     {"1.0 MiB cannot be written: no room",
      "2.0 MiB could not be written for 2 s, and will be retried"}},
    {"lost blocks",
     [](MountState& s) { s.volume.unreadable = 1; },
     {"1 block could not be read: too few servers have it intact; once unmounted, s3oramfs fsck "
      "names the files that need it, if any do"}},
    {"lost slots",
     [](MountState& s) {
       s.volume.scrub.emplace();
       s.volume.scrub->found.lost = 2;
     },
     {"a scrub found 2 slots damaged at too many servers, and changed nothing there"}},
    {"eviction lags",
     [](MountState& s) {
       s.volume.evicting_seconds = 61;
       s.volume.evictions_due = 2;
     },
     {"eviction lags: one is under way for 61 s, 2 due"}},
    {"writing lags",
     [](MountState& s) { s.files.lag = 90s; },
     {"writing lags: data written 90 s ago is not yet durable"}},
    {"the end comes first",
     [](MountState& s) {
       s.volume.failure = "server 1: a newer session has the volume";
       s.volume.servers[0].answering = false;
     },
     {"the volume cannot go on: server 1: a newer session has the volume",
      "server 1 has not answered for 0 s: reading and writing wait"}},
};

TEST(Health, IsToldInWords) {
  for (const Case& each : kCases) {
    MountState state = sound();
    each.change(state);
    EXPECT_EQ(problems(state), each.words) << each.name;
  }
}

// Programs rely on the kind and the server, and the log on the cause, none of which changes.
TEST(Health, HasAKindAndACauseThatDoNotChange) {
  for (const Case& each : kCases) {
    MountState state = sound();
    each.change(state);
    for (const Problem& problem : find_problems(state)) {
      EXPECT_TRUE(std::ranges::any_of(kProblemKinds, [&](const char* kind) {
        return problem.kind == std::string_view(kind);
      })) << each.name;
      EXPECT_EQ(std::string_view(problem.kind).starts_with("server_"), problem.server != kClient)
          << each.name;
    }
  }
  const auto cause_after = [](double seconds) {
    MountState state = sound();
    state.volume.servers[1].answering = false;
    state.volume.servers[1].silent_seconds = seconds;
    return find_problems(state).at(0);
  };
  EXPECT_EQ(cause_after(4).cause, cause_after(400).cause);
  EXPECT_NE(cause_after(4).text, cause_after(400).text);
  EXPECT_EQ(cause_after(4).kind, std::string_view("server_silent"));
  EXPECT_EQ(cause_after(4).server, 2);
}

// A mirror works without the server, so this is not a problem, but it is reported.
TEST(Health, AServerThatIsLeftOutIsAWarning) {
  using Place = VolumeStatus::Server::Place;
  MountState state = sound();
  state.volume.servers[1].answering = false;
  state.volume.servers[1].silent_seconds = 7000;
  state.volume.servers[1].place = Place::away;
  EXPECT_TRUE(problems(state).empty());
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{
                "server 2 is away: 2 of 3 servers hold all data, and everything goes on"});
  auto json = status_json({"/mnt", 1}, state, {{}, {}, {}});
  EXPECT_EQ(json["health"]["healthy"], true);
  EXPECT_EQ(json["health"]["warnings"].size(), 1u);
  EXPECT_EQ(json["health"]["causes"][0]["kind"], "server_away");
  EXPECT_EQ(json["health"]["causes"][0]["server"], 2);
  EXPECT_EQ(json["servers"][0]["place"], "in step");
  EXPECT_EQ(json["servers"][1]["place"], "away");
  EXPECT_EQ(json["servers"][1]["cut_from"].size(), 0u);
  state.volume.servers[1].cut_from = {3};
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{"server 2 is away (its line to server 3 is cut): 2 of 3 "
                                     "servers hold all data, and everything goes on"});

  state.volume.servers[1] = sound().volume.servers[1];
  state.volume.servers[1].place = Place::catching_up;
  state.volume.servers[1].copied_slots = 320;
  EXPECT_TRUE(problems(state).empty());
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{"server 2 catches up, with 320 slots copied: 2 of 3 servers "
                                     "hold all data, and everything goes on"});
  json = status_json({"/mnt", 1}, state, {{}, {}, {}});
  EXPECT_EQ(json["servers"][1]["place"], "catching up");
  EXPECT_EQ(json["servers"][1]["copied_slots"], 320);
  Metrics metrics;
  gauge({"/mnt", 1}, state, {{}, {}, {}}, metrics);
  const Exposition page = read_exposition(metrics.text());
  EXPECT_EQ(page.samples.at("s3oramfs_healthy"), 1);
  EXPECT_EQ(page.samples.at("s3oramfs_server_in_step{server=\"2\"}"), 0);
  EXPECT_EQ(page.samples.at("s3oramfs_problem{kind=\"server_catches_up\",server=\"2\"}"), 1);
}

// So it does without a server of a mirror that the vault leaves.
TEST(Health, AServerThatAMirrorBeingLeftDoesWithoutIsAWarning) {
  MountState state = sound();
  auto migration = std::make_shared<MigrationStatus>();
  migration->source_servers.resize(2);
  migration->source_servers[0].answering = true;
  migration->source_servers[1].address = "source server 2 (a:2)";
  migration->source_servers[1].place = VolumeStatus::Server::Place::away;
  state.volume.migration = migration;
  EXPECT_TRUE(problems(state).empty());
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{"source server 2 (a:2) is away: 1 of 2 servers hold all data, "
                                     "and everything goes on"});
  EXPECT_EQ(find_problems(state)[0].kind, std::string_view("migration"));
  EXPECT_EQ(find_problems(state)[0].server, kClient) << "it is not server 2 of the vault";
}

TEST(Health, ASecondSilentServerMakesAMirrorWait) {
  using Place = VolumeStatus::Server::Place;
  MountState state = sound();
  for (const std::size_t silent : {0, 1}) {
    state.volume.servers[silent].answering = false;
    state.volume.servers[silent].silent_seconds = 60;
  }
  const std::string waits = " has not answered for 60 s: reading and writing wait";
  EXPECT_EQ(problems(state), (std::vector<std::string>{"server 1" + waits, "server 2" + waits}));
  EXPECT_TRUE(warnings(state).empty());
  state.volume.servers[1].place = Place::away;
  EXPECT_EQ(problems(state), std::vector<std::string>{"server 1" + waits});
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{"server 2 is away: 2 of 3 servers hold all data"});
  state.volume.servers[1].answering = true;
  state.volume.servers[1].place = Place::catching_up;
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{
                "server 2 catches up, with 0 slots copied: 2 of 3 servers hold all data"});
}

TEST(Health, AServerThatUsesItsReserveIsAWarning) {
  MountState state = sound();
  state.volume.servers[1].uses_reserve = true;
  EXPECT_TRUE(problems(state).empty());
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{"the disk of server 2 is full, and its reserve is in use: "
                                     "free space there, or enlarge it"});
  const auto json = status_json({"/mnt", 1}, state, {{}, {}, {}});
  EXPECT_EQ(json["health"]["healthy"], true);
  EXPECT_EQ(json["health"]["causes"][0]["kind"], "server_reserve");
  EXPECT_EQ(json["health"]["causes"][0]["server"], 2);
  EXPECT_EQ(json["servers"][1]["uses_reserve"], true);
  Metrics metrics;
  gauge({"/mnt", 1}, state, {{}, {}, {}}, metrics);
  const Exposition page = read_exposition(metrics.text());
  EXPECT_EQ(page.samples.at("s3oramfs_healthy"), 1);
  EXPECT_EQ(page.samples.at("s3oramfs_problem{kind=\"server_reserve\",server=\"2\"}"), 1);
}

TEST(Health, AFullDiskOfAllServersIsOneWarning) {
  MountState state = sound();
  state.volume.shares_disk = true;
  for (auto& server : state.volume.servers) server.uses_reserve = true;
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{"the disk of the vault is full, and its reserve is in use: "
                                     "free space there, or enlarge it"});
  Metrics metrics;
  gauge({"/mnt", 1}, state, {{}, {}, {}}, metrics);
  const Exposition page = read_exposition(metrics.text());
  EXPECT_EQ(page.samples.at("s3oramfs_problem{kind=\"server_reserve\",server=\"1\"}"), 1);
  EXPECT_EQ(page.samples.at("s3oramfs_problem{kind=\"server_reserve\",server=\"2\"}"), 0);
}

TEST(Health, ARepairThatHasNotEndedIsAWarning) {
  MountState state = sound();
  state.volume.servers[2].unrepaired = true;
  EXPECT_TRUE(problems(state).empty());
  ASSERT_EQ(warnings(state).size(), 1u);
  EXPECT_NE(warnings(state)[0].find("a repair of server 3 was begun"), std::string::npos);
  EXPECT_EQ(find_problems(state)[0].kind, std::string_view("server_unrepaired"));
  EXPECT_EQ(find_problems(state)[0].server, 3);
  state.volume.scrub.emplace();
  EXPECT_TRUE(warnings(state).empty()) << "a scrub is under way";
}

// All blocks are in their places, so everything works, but the user has to do something.
TEST(Health, AMigrationThatDoesNotEndIsAWarning) {
  MountState state = sound();
  state.migration_end = {"all blocks have moved, but the migration does not end: why", false};
  EXPECT_TRUE(find_problems(state).empty()) << "the migration has ended since";
  state.volume.migration = std::make_shared<MigrationStatus>();
  EXPECT_TRUE(problems(state).empty());
  EXPECT_EQ(warnings(state), std::vector<std::string>{state.migration_end.failure});
  const auto json = status_json({"/mnt", 1}, state, {{}, {}, {}});
  EXPECT_EQ(json["health"]["causes"][0]["kind"], "migration");
  EXPECT_EQ(json["migration"]["end_failure"], state.migration_end.failure);
  EXPECT_EQ(json["migration"]["end_retried"], false);
}

TEST(Health, ATopCacheThatCannotBeSyncedIsAWarning) {
  MountState state = sound();
  state.volume.top = TopStatus{};
  EXPECT_TRUE(find_problems(state).empty());
  state.volume.top->trouble = "sync top.cache: Input/output error";
  EXPECT_TRUE(problems(state).empty());
  const std::string words =
      "top.cache: sync top.cache: Input/output error: nothing is lost, and everything goes on; "
      "check this disk";
  EXPECT_EQ(warnings(state), std::vector<std::string>{words});
  state.volume.evicting_seconds = 61;
  EXPECT_EQ(problems(state).size(), 1u) << "a warning hides no problem";
  state.volume.servers[0].answering = false;
  EXPECT_EQ(warnings(state),
            std::vector<std::string>{
                "top.cache: sync top.cache: Input/output error: nothing is lost; check this disk"});
}

// umount and lock say it.
TEST(Health, IsTheCauseOfDataThatCannotBeWritten) {
  MountState state = sound();
  const Error unwritten{Errc::unreachable, "not everything is durable yet; it will be retried"};
  EXPECT_EQ(with_cause(unwritten, state).message, unwritten.message);
  state.volume.servers[0].answering = state.volume.servers[2].answering = false;
  EXPECT_EQ(with_cause(unwritten, state).code, Errc::unreachable);
  EXPECT_EQ(with_cause(unwritten, state).message,
            unwritten.message +
                " (server 1 has not answered for 0 s: reading and writing wait; "
                "server 3 has not answered for 0 s: reading and writing wait)");
  state.volume.failure = "a newer session has the volume";
  EXPECT_EQ(with_cause(unwritten, state).code, Errc::failed);
  EXPECT_EQ(with_cause(unwritten, state).message,
            "the volume cannot go on: a newer session has the volume; what is not durable yet can "
            "no longer be written");
}

TEST(Health, IsLoggedOnceWhenItBeginsAndOnceWhenItEnds) {
  HealthLog log;
  MountState state = sound();
  EXPECT_TRUE(log.changes(find_problems(state)).begun.empty());
  state.volume.servers[1].answering = false;
  for (const bool first : {true, false}) {
    state.volume.servers[1].silent_seconds += 3;
    const auto changes = log.changes(find_problems(state));
    EXPECT_EQ(changes.begun.size(), first ? 1u : 0u);
    EXPECT_TRUE(changes.ended.empty());
    EXPECT_FALSE(log.healthy());
  }
  const auto changes = log.changes(find_problems(sound()));
  EXPECT_EQ(changes.ended, std::vector<std::string>{"server 2 does not answer"});
  EXPECT_TRUE(log.healthy());
}

TEST(MountStatus, HasTheNamesThatProgramsUse) {
  MountState state = sound();
  state.volume.servers[1].answering = false;
  state.volume.servers[1].silent_seconds = 40.26;
  state.volume.accesses = 7;
  state.files.dirty_bytes = 123;
  const auto json = status_json({"/mnt", 1700000000}, state, {{{0, 1, 2}, {2, 3, 4}}, {}, {}});
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["mountpoint"], "/mnt");
  EXPECT_EQ(json["since"], 1700000000);
  EXPECT_EQ(json["health"]["healthy"], false);
  EXPECT_EQ(json["health"]["problems"].size(), 1u);
  EXPECT_EQ(json["health"]["causes"][0]["kind"], "server_silent");
  EXPECT_EQ(json["health"]["causes"][0]["server"], 2);
  EXPECT_EQ(json["volume"]["accesses"], 7);
  EXPECT_EQ(json["volume"]["evicting"], false);
  EXPECT_EQ(json["cache"]["dirty_bytes"], 123);
  EXPECT_EQ(json["servers"][1]["answering"], false);
  EXPECT_EQ(json["servers"][1]["silent_seconds"], 40.3);
  EXPECT_EQ(json["servers"][1]["lacks_room"], false);
  ASSERT_EQ(json["servers"][0]["links"].size(), 1u);  // the client's own is not among them
  EXPECT_EQ(json["servers"][0]["links"][0]["server"], 2);
  EXPECT_TRUE(json["scrub"].is_null());
  state.volume.scrub = {.running = false,
                        .looked_at = 3,
                        .of = 7,
                        .found = {.reenrolled = {},
                                  .healed = {{2, 31}},
                                  .lost = 1,
                                  .lost_at = {{3, 1}},
                                  .hindrance = "",
                                  .untold = {}},
                        .failure = Error{Errc::unreachable, "server 3 is gone"}};
  const auto scrub = status_json({"/mnt", 1}, state, {{}, {}, {}})["scrub"];
  EXPECT_EQ(scrub["running"], false);
  EXPECT_EQ(scrub["buckets_looked_at"], 3);
  EXPECT_EQ(scrub["buckets"], 7);
  EXPECT_EQ(scrub["healed"][0]["server"], 2);
  EXPECT_EQ(scrub["healed"][0]["shares"], 31);
  EXPECT_EQ(scrub["lost_slots"], 1);
  EXPECT_EQ(scrub["lost_at"][0]["server"], 3);
  EXPECT_EQ(scrub["failure"]["code"], static_cast<int>(Errc::unreachable));
}

TEST(MountStatus, GaugesFollowTheState) {
  Metrics metrics;
  MountState state = sound();
  state.volume.servers[1].bytes_sent = 12;
  state.files.no_room_bytes = 3;
  state.volume.servers[1].trouble = "no room";
  state.volume.servers[1].trouble_code = Errc::disk_full;
  gauge({"/a secret name", 1}, state, {{{0, 1, 2}, {2, 3, 4}}, {}, {}}, metrics);
  Exposition page = read_exposition(metrics.text());
  EXPECT_EQ(page.samples.at("s3oramfs_healthy"), 0);
  EXPECT_EQ(page.samples.at("s3oramfs_problem{kind=\"no_room\"}"), 1);
  EXPECT_EQ(page.samples.at("s3oramfs_problem{kind=\"server_full\",server=\"2\"}"), 1);
  EXPECT_EQ(page.samples.at("s3oramfs_problem{kind=\"server_full\",server=\"1\"}"), 0);
  EXPECT_EQ(page.samples.at("s3oramfs_sent_bytes_total{server=\"2\"}"), 12);
  EXPECT_EQ(page.samples.at("s3oramfs_between_servers_bytes_total{server=\"1\",peer=\"2\"}"), 3);
  EXPECT_EQ(metrics.text().find("secret"), std::string::npos);
  state = sound();
  state.volume.servers[1].bytes_sent = 15;
  gauge({"/a secret name", 1}, state, {{}, {}, {}}, metrics);
  page = read_exposition(metrics.text());
  EXPECT_EQ(page.samples.at("s3oramfs_healthy"), 1);
  EXPECT_EQ(page.samples.at("s3oramfs_problem{kind=\"server_full\",server=\"2\"}"), 0);
  EXPECT_EQ(page.samples.at("s3oramfs_sent_bytes_total{server=\"2\"}"), 15);
  EXPECT_EQ(page.samples.at("s3oramfs_server_answering{server=\"2\"}"), 1);
}

}  // namespace
}  // namespace s3oram
