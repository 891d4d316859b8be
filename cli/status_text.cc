// Writes the status of a vault for people: problems first, then the figures.
#include "cli/status_text.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "oramcore/base/human.h"

namespace s3oram {
namespace {

using nlohmann::ordered_json;

const ordered_json& member(const ordered_json& object, const char* name) {
  static const ordered_json none = ordered_json::object();
  if (!object.is_object()) return none;
  const auto at = object.find(name);
  return at == object.end() ? none : *at;
}

double real(const ordered_json& object, const char* name) {
  const ordered_json& value = member(object, name);
  return value.is_number() ? value.get<double>() : 0;
}
std::uint64_t number(const ordered_json& object, const char* name) {
  const ordered_json& value = member(object, name);
  return value.is_number() ? value.get<std::uint64_t>() : 0;
}
bool flag(const ordered_json& object, const char* name) {
  const ordered_json& value = member(object, name);
  return value.is_boolean() && value.get<bool>();
}
std::string text(const ordered_json& object, const char* name) {
  const ordered_json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}
std::string size(const ordered_json& object, const char* name) {
  return human_size(number(object, name));
}

std::string plural(std::uint64_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

bool is_ring(const ordered_json& status) { return text(status, "scheme") == "ring"; }

/// Describes the part of a ring's tree that is kept on this machine.
std::string top_text(const ordered_json& top) {
  if (!top.is_object() || top.empty()) return "";
  return fmt::format(
      "\ntop       {} of at most {} in top.cache ({}); of the log's {}, {} not synced here yet; "
      "evictions lag by {} of at most {}",
      plural(number(top, "blocks"), "block"), number(top, "slots"), size(top, "bytes"),
      plural(number(top, "log_slots"), "write"), number(top, "not_synced"),
      number(top, "evictions_behind"), number(top, "most_evictions_behind"));
}

/// Describes a scrub. `piece` is the word for a server's part of a slot.
std::string scrub_text(const ordered_json& scrub, const std::string& piece) {
  if (!scrub.is_object() || scrub.empty()) return "";
  std::uint64_t healed = 0;
  for (const ordered_json& server : member(scrub, "healed")) healed += number(server, "shares");
  const std::string found = fmt::format("{} healed, {} lost", plural(healed, piece),
                                        plural(number(scrub, "lost_slots"), "slot"));
  if (flag(scrub, "running"))
    return fmt::format(
        "\nscrub     at {:.0f} %: {} so far",
        100 * real(scrub, "buckets_looked_at") / std::max(real(scrub, "buckets"), 1.0), found);
  const ordered_json& failure = member(scrub, "failure");
  return fmt::format("\nscrub     {}: {}",
                     failure.is_object() && !failure.empty()
                         ? "ended early: " + text(failure, "message")
                         : "of everything",
                     found);
}

/// Describes a migration under way; empty if there is none.
std::string migration_text(const ordered_json& migration) {
  if (!migration.is_object() || migration.empty()) return "";
  const std::uint64_t of = number(migration, "of");
  std::string servers;
  for (const ordered_json& server : member(migration, "source_servers"))
    servers += (servers.empty() ? "" : ", ") + text(server, "address");
  const ordered_json& left = member(migration, "seconds_left");
  const std::uint64_t rate = number(migration, "rate");
  return fmt::format(
      "\nmoving    from {} ({}): {:.0f} % of {} here{}{}", text(migration, "from"), servers,
      of == 0 ? 100 : 100 * real(migration, "moved") / real(migration, "of"), plural(of, "block"),
      left.is_number() ? ", about " + human_duration(left.get<double>()) + " left" : "",
      rate > 0 ? fmt::format("; at most {} a second", human_size(rate)) : "");
}

std::string mounted_text(const ordered_json& status, std::int64_t now) {
  const ordered_json& volume = member(status, "volume");
  const ordered_json& cache = member(status, "cache");
  const ordered_json& files = member(status, "files");
  const std::uint64_t block = number(status, "block_size");
  const std::uint64_t blocks = number(volume, "blocks");
  std::string out =
      fmt::format("content   {}, {} in {} of {}\n", plural(number(files, "inodes"), "file"),
                  human_size(blocks * block), plural(blocks, "block"), human_size(block));
  out += fmt::format("room      for {}{}; the tree holds {}, and {}\n", size(volume, "free_bytes"),
                     flag(status, "local") ? "" : " at most",
                     human_size(number(volume, "capacity") * block),
                     flag(volume, "can_grow") ? "grows by itself" : "CANNOT GROW");
  out += fmt::format("cache     {} of {}\n", size(cache, "bytes"), size(cache, "limit"));
  const std::uint64_t dirty = number(cache, "dirty_bytes");
  const std::uint64_t rows = number(files, "uncommitted");
  out += "unwritten ";
  if (dirty == 0 && rows == 0)
    out += "nothing: all is durable\n";
  else
    out += fmt::format("{} of contents, {} of names and places; since {}\n", human_size(dirty),
                       plural(rows, "change"), human_duration(real(files, "lag_seconds")));
  const ordered_json& backup = member(status, "backup");
  const auto age = static_cast<double>(now) - real(backup, "time");
  if (!backup.empty())
    out += "backup    " +
           (flag(backup, "current") ? std::string("of everything\n")
            : flag(backup, "exists")
                ? fmt::format("{} old, with changes since{}\n", human_duration(age),
                              flag(backup, "hindered")
                                  ? "; no newer one is made, because vault.db is damaged"
                                  : "")
            : flag(backup, "hindered") ? std::string("none: vault.db is damaged\n")
                                       : std::string("none yet\n"));
  out +=
      fmt::format("accesses  {}; {}, {}", number(volume, "accesses"),
                  plural(number(volume, "evictions"), "eviction"),
                  flag(volume, "evicting")
                      ? fmt::format("{} due, one under way for {}", number(volume, "evictions_due"),
                                    human_duration(real(volume, "evicting_seconds")))
                      : "none due");
  if (const auto stash = number(volume, "stash"); stash > 0)
    out += fmt::format("; {} in the stash", plural(stash, "block"));
  out += top_text(member(volume, "top"));
  out += migration_text(member(status, "migration"));
  out += scrub_text(member(status, "scrub"), is_ring(status) ? "row" : "share");
  const auto since = static_cast<double>(now) - real(status, "since");
  return fmt::format("mounted   on {} for {}, by process {}{}\n", text(status, "mountpoint"),
                     human_duration(since), number(status, "pid"),
                     flag(status, "mounted_here")
                         ? ""
                         : ", but not visible here: unmounted with --lazy and still in use, or "
                           "in another mount namespace") +
         out + "\n";
}

std::string server_text(const ordered_json& server, bool mounted) {
  std::string out = "  " + text(server, "address");
  if (mounted) {
    out += flag(server, "answering") ? "  answers"
                                     : fmt::format("  NOT ANSWERING for {}",
                                                   human_duration(real(server, "silent_seconds")));
    if (const std::string place = text(server, "place"); !place.empty() && place != "in step")
      out += ", " + place;
    if (flag(server, "lacks_room")) out += ", no room on its disk for a larger tree";
    out += fmt::format(", {} sent, {} received", size(server, "bytes_sent"),
                       size(server, "bytes_received"));
  }
  if (const auto restarts = number(server, "restarts"); restarts > 0)
    out += fmt::format(", ended by itself {}", plural(restarts, "time"));
  return out + "\n";
}

/// Returns what so many servers, `together`, can learn from what they see.
std::string who_learns_nothing(std::uint64_t together) {
  return together == 1 ? "none of which learns anything by itself"
                       : fmt::format("of which any {} together learn nothing", together);
}

std::vector<std::string> health_texts(const ordered_json& status, const char* name) {
  std::vector<std::string> found;
  const ordered_json& told = member(member(status, "health"), name);
  if (!told.is_array()) return found;
  for (const ordered_json& each : told)
    if (each.is_string()) found.push_back(each.get<std::string>());
  return found;
}

/// Describes the traffic between servers, in both directions, as far as servers report it.
std::string links_text(const ordered_json& servers) {
  std::string out;
  for (std::size_t i = 0; i < servers.size(); ++i)
    for (const ordered_json& link : member(servers[i], "links")) {
      const std::uint64_t other = number(link, "server");
      const std::uint64_t bytes = number(link, "bytes_sent") + number(link, "bytes_received");
      const bool told =
          other <= servers.size() && other > 0 && !member(servers[other - 1], "links").empty();
      if (other > i + 1 || !told)  // otherwise the other server's report counts
        out += fmt::format("{}{}-{} {}", out.empty() ? "  between them  " : ", ",
                           std::min<std::uint64_t>(i + 1, other),
                           std::max<std::uint64_t>(i + 1, other), human_size(bytes));
    }
  return out.empty() ? out : out + "\n";
}

}  // namespace

std::vector<std::string> status_problems(const ordered_json& status) {
  return health_texts(status, "problems");
}

std::vector<std::string> status_warnings(const ordered_json& status) {
  return health_texts(status, "warnings");
}

bool status_has_problem(const ordered_json& status, std::string_view kind) {
  const ordered_json& causes = member(member(status, "health"), "causes");
  return std::ranges::any_of(
      causes, [kind](const ordered_json& cause) { return text(cause, "kind") == kind; });
}

std::string health_text(const ordered_json& status) {
  if (!flag(status, "mounted"))
    return flag(status, "ready") ? "not mounted\n" : "unfinished: run the same init again\n";
  const auto problems = status_problems(status), warnings = status_warnings(status);
  if (problems.empty() && warnings.empty()) return "healthy\n";
  std::string out;
  for (const std::string& problem : problems) out += problem + "\n";
  for (const std::string& warning : warnings) out += "warning: " + warning + "\n";
  return out;
}

std::string healthy_line(const ordered_json& status) {
  const auto warnings = status_warnings(status);
  return warnings.empty()
             ? "healthy\n"
             : fmt::format("healthy; warning: {}\n", fmt::join(warnings, "; warning: "));
}

std::string status_text(const ordered_json& status, std::int64_t now) {
  const bool mounted = flag(status, "mounted");
  const bool told = mounted && !member(status, "volume").empty();  // the daemon answers
  const ordered_json& servers = member(status, "servers");
  std::string out = health_text(status);
  out += fmt::format("vault     {}\n", text(status, "vault"));
  if (told)
    out += mounted_text(status, now);
  else if (mounted)
    out += fmt::format("mounted   on {}\n", text(status, "mountpoint"));
  if (!told) out += fmt::format("blocks    of {}\n", size(status, "block_size"));
  out += fmt::format("tree      {} slots a bucket, an eviction every {} accesses{}\n",
                     number(status, "bucket_size"), number(status, "evict_every"),
                     is_ring(status) ? fmt::format("; its top {} here",
                                                   plural(number(status, "top_levels"), "level"))
                                     : "");
  if (const std::string from = text(status, "moving_from"); !from.empty() && !told)
    out += fmt::format("moving    from {}: blocks move while the vault is mounted\n", from);
  out += is_ring(status) ? "servers   1, which learns nothing; it has the only copy\n"
                         : fmt::format("servers   {}, {}\n", servers.size(),
                                       who_learns_nothing(number(status, "privacy_threshold")));
  if (const std::string security = text(status, "security"); !security.empty())
    out += fmt::format("          assumed to be {}\n", security);
  for (const ordered_json& server : servers) out += server_text(server, told);
  return out + links_text(servers);
}

}  // namespace s3oram
