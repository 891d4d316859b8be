// Tests the text that s3oramfs status prints for each state of a vault.
#include "cli/status_text.h"

#include <gtest/gtest.h>

namespace s3oram {
namespace {

using nlohmann::ordered_json;

ordered_json unmounted() {
  return {{"vault", "/v"},
          {"ready", true},
          {"mounted", false},
          {"local", true},
          {"block_size", 65536},
          {"bucket_size", 40},
          {"evict_every", 20},
          {"privacy_threshold", 1},
          {"servers", {{{"address", "local"}}, {{"address", "local"}}, {{"address", "local"}}}}};
}

ordered_json server(unsigned number, bool answering, ordered_json links) {
  return {{"address", "server " + std::to_string(number)},
          {"answering", answering},
          {"silent_seconds", answering ? 0 : 40},
          {"restarts", 0},
          {"bytes_sent", 1024},
          {"bytes_received", 2048},
          {"links", std::move(links)}};
}

ordered_json link(unsigned other, std::uint64_t sent) {
  return {{"server", other}, {"bytes_sent", sent}, {"bytes_received", 0}};
}

ordered_json mounted() {
  ordered_json status = unmounted();
  status["mounted"] = true;
  status["mounted_here"] = true;
  status["mountpoint"] = "/mnt";
  status["pid"] = 12;
  status["since"] = 1000;
  status["health"] = {{"healthy", true}, {"problems", ordered_json::array()}};
  status["volume"] = {{"blocks", 16},         {"capacity", 1600}, {"accesses", 41},
                      {"evictions", 2},       {"evicting", true}, {"evicting_seconds", 3.2},
                      {"evictions_due", 1},   {"stash", 0},       {"can_grow", true},
                      {"free_bytes", 1 << 30}};
  status["cache"] = {{"bytes", 1 << 20}, {"limit", 256 << 20}, {"dirty_bytes", 2 << 20}};
  status["files"] = {{"inodes", 3}, {"uncommitted", 1}, {"lag_seconds", 4.0}};
  status["backup"] = {{"exists", true}, {"current", false}, {"time", 1030}};
  status["servers"] = {server(1, true, {link(2, 1024), link(3, 1024)}),
                       server(2, true, {link(1, 1024), link(3, 2048)}),
                       server(3, true, {link(1, 1024), link(2, 2048)})};
  return status;
}

TEST(StatusText, OfARingSaysWhatLiesHere) {
  ordered_json status = mounted();
  status["scheme"] = "ring";
  status["top_levels"] = 4;
  status["servers"] = {server(1, true, {})};
  status["volume"]["top"] = {
      {"blocks", 77},     {"slots", 855},          {"bytes", 53 << 20},         {"log_slots", 2944},
      {"not_synced", 12}, {"evictions_behind", 1}, {"most_evictions_behind", 4}};
  status["scrub"] = {{"running", false},
                     {"healed", {{{"server", 1}, {"shares", 2}}}},
                     {"lost_slots", 0},
                     {"failure", nullptr}};
  const std::string text = status_text(status, 1030);
  EXPECT_NE(
      text.find("top       77 blocks of at most 855 in top.cache (53.0 MiB); of the log's 2944 "
                "writes, 12 not synced here yet; evictions lag by 1 of at most 4\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("an eviction every 20 accesses; its top 4 levels here\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("servers   1, which learns nothing; it has the only copy\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("scrub     of everything: 2 rows healed, 0 slots lost\n"), std::string::npos)
      << text;
}

TEST(StatusText, BeginsWithTheHealth) {
  EXPECT_EQ(health_text(mounted()), "healthy\n");
  EXPECT_EQ(health_text(unmounted()), "not mounted\n");
  ordered_json status = unmounted();
  status["ready"] = false;
  EXPECT_EQ(health_text(status), "unfinished: run the same init again\n");
  status = mounted();
  status["health"]["problems"] = {"one thing", "another"};
  EXPECT_EQ(health_text(status), "one thing\nanother\n");
  EXPECT_FALSE(status_has_problem(status, "servers_disagree"));
  status["health"]["causes"] = {{{"kind", "servers_disagree"}, {"server", nullptr}}};
  EXPECT_TRUE(status_has_problem(status, "servers_disagree"));
  EXPECT_FALSE(status_has_problem(status, "volume"));
  EXPECT_EQ(status_problems(status), (std::vector<std::string>{"one thing", "another"}));
}

TEST(StatusText, HasOneLineForScripts) {
  ordered_json status = mounted();
  EXPECT_EQ(healthy_line(status), "healthy\n");
  status["health"]["warnings"] = {"one thing", "another"};
  EXPECT_EQ(healthy_line(status), "healthy; warning: one thing; warning: another\n");
}

TEST(StatusText, SaysAllAtAGlance) {
  EXPECT_EQ(status_text(mounted(), 1060),
            "healthy\n"
            "vault     /v\n"
            "mounted   on /mnt for 60 s, by process 12\n"
            "content   3 files, 1.0 MiB in 16 blocks of 64.0 KiB\n"
            "room      for 1.0 GiB; the tree holds 100 MiB, and grows by itself\n"
            "cache     1.0 MiB of 256 MiB\n"
            "unwritten 2.0 MiB of contents, 1 change of names and places; since 4 s\n"
            "backup    30 s old, with changes since\n"
            "accesses  41; 2 evictions, 1 due, one under way for 3 s\n"
            "tree      40 slots a bucket, an eviction every 20 accesses\n"
            "servers   3, none of which learns anything by itself\n"
            "  server 1  answers, 1.0 KiB sent, 2.0 KiB received\n"
            "  server 2  answers, 1.0 KiB sent, 2.0 KiB received\n"
            "  server 3  answers, 1.0 KiB sent, 2.0 KiB received\n"
            "  between them  1-2 1.0 KiB, 1-3 1.0 KiB, 2-3 2.0 KiB\n");
}

TEST(StatusText, TellsOfAScrub) {
  ordered_json status = mounted();
  status["scrub"] = nullptr;
  EXPECT_EQ(status_text(status, 1060).find("scrub"), std::string::npos);
  const auto scrub = [&] {
    const std::string text = status_text(status, 1060);
    const auto at = text.find("scrub     ");
    return at == std::string::npos ? "" : text.substr(at + 10, text.find('\n', at) - at - 10);
  };
  status["scrub"] = {{"running", true},
                     {"buckets_looked_at", 16},
                     {"buckets", 64},
                     {"healed", {{{"server", 2}, {"shares", 30}}, {{"server", 3}, {"shares", 1}}}},
                     {"lost_slots", 1},
                     {"hindrance", ""},
                     {"failure", nullptr}};
  EXPECT_EQ(scrub(), "at 25 %: 31 shares healed, 1 slot lost so far");
  status["scrub"]["running"] = false;
  EXPECT_EQ(scrub(), "of everything: 31 shares healed, 1 slot lost");
  status["scrub"]["failure"] = {{"code", 15}, {"message", "no room"}};
  EXPECT_EQ(scrub(), "ended early: no room: 31 shares healed, 1 slot lost");
}

TEST(StatusText, TellsOfAMigration) {
  ordered_json status = mounted();
  status["migration"] = nullptr;
  EXPECT_EQ(status_text(status, 1060).find("moving"), std::string::npos);
  const auto moving = [&] {
    const std::string text = status_text(status, 1060);
    const auto at = text.find("moving    ");
    return at == std::string::npos ? "" : text.substr(at + 10, text.find('\n', at) - at - 10);
  };
  status["migration"] = {{"from", "ring"},
                         {"moved", 25},
                         {"left", 75},
                         {"of", 100},
                         {"unreadable", 0},
                         {"seconds_left", nullptr},
                         {"rate", 0},
                         {"hindrance", ""},
                         {"source_servers", {{{"address", "source server 1 (a:1)"}}}}};
  EXPECT_EQ(moving(), "from ring (source server 1 (a:1)): 25 % of 100 blocks here");
  status["migration"]["seconds_left"] = 7200;
  status["migration"]["rate"] = 2048;
  EXPECT_EQ(moving(),
            "from ring (source server 1 (a:1)): 25 % of 100 blocks here, about 2 h left; at most "
            "2.0 KiB a second");
  status = {{"vault", "/v"}, {"ready", true}, {"mounted", false}, {"moving_from", "ring"}};
  EXPECT_EQ(moving(), "from ring: blocks move while the vault is mounted");
}

TEST(StatusText, ASilentServerTellsNothingOfItsLinks) {
  ordered_json status = mounted();
  status["servers"][2] = server(3, false, ordered_json::array());
  const std::string text = status_text(status, 1060);
  EXPECT_NE(text.find("  server 3  NOT ANSWERING for 40 s,"), std::string::npos) << text;
  EXPECT_NE(text.find("  between them  1-2 1.0 KiB, 1-3 1.0 KiB, 2-3 2.0 KiB\n"), std::string::npos)
      << text;
}

TEST(StatusText, NamesAServerWithoutRoom) {
  ordered_json status = mounted();
  status["servers"][1]["lacks_room"] = true;
  const std::string text = status_text(status, 1060);
  EXPECT_NE(text.find("  server 2  answers, no room on its disk for a larger tree, 1.0 KiB sent"),
            std::string::npos)
      << text;
}

TEST(StatusText, SaysOnlyWhatIsKnownOfAMountWhoseDaemonIsGone) {
  ordered_json status = unmounted();
  status["mounted"] = true;
  status["mounted_here"] = true;
  status["mountpoint"] = "/mnt";
  status["health"] = {{"healthy", false}, {"problems", ordered_json::array({"it is gone"})}};
  EXPECT_EQ(status_text(status, 1060),
            "it is gone\n"
            "vault     /v\n"
            "mounted   on /mnt\n"
            "blocks    of 64.0 KiB\n"
            "tree      40 slots a bucket, an eviction every 20 accesses\n"
            "servers   3, none of which learns anything by itself\n"
            "  local\n  local\n  local\n");
}

// A daemon of another version sends other members.
TEST(StatusText, TakesWhatIsThere) {
  ordered_json status = unmounted();
  status["mounted"] = true;
  status["mounted_here"] = true;
  status["volume"] = {{"blocks", 1}};
  EXPECT_NE(status_text(status, 0).find("accesses  0; 0 evictions, none due\n"), std::string::npos);
  status["volume"] = "nonsense";
  status["servers"][0]["links"] = {1, "two", nullptr};
  status["health"] = {{"problems", {1, nullptr}}};
  EXPECT_EQ(status_text(status, 0).substr(0, 8), "healthy\n");
  EXPECT_EQ(status_text(ordered_json::object(), 0).substr(0, 10), "unfinished");
}

}  // namespace
}  // namespace s3oram
