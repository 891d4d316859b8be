// The rules that keep every failure recoverable, by name, so that a test can leave one out and show
// that another test then fails. Code that follows a rule asks:
//   if (rule_holds(Rule::free_after_commit)) ...
//
// In the product this is always true and costs nothing. In a build with the CMake option
// S3O_RULE_SWITCHES, rules are left out by leave_out(), or with S3ORAMFS_LEAVE_OUT=name,name in the
// environment (for programs that a test starts; an unknown name ends the program).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace s3oram {

enum class Rule {
  // servers
  checksums,               // a slot that fails its checksum is never computed with
  durable_answers,         // a root write is answered once it would survive a power cut
  acknowledged_positions,  // only writes that all in-sync servers acknowledged become positions
  no_retry_of_failed_sync,
  recovery_first,   // unacknowledged root slots are rewritten before the first retrieval
  access_records,   // an access record is committed before its retrieval is sent
  copy_on_write,    // new bucket versions never overwrite those in use
  durable_prepare,  // a prepare is answered once it would survive a power cut
  decide_first,     // servers install versions only after the client's database has decided
  former_view,      // the previous tree version stays until the client releases it
  attempts,         // messages of another attempt at an eviction are refused
  epochs,           // messages of another session are refused
  compare_and_set,  // an epoch is raised only by a client that knows the one before
  // the client
  decide_never_waits,  // an extent or a size commits only after its data
  full_sync,           // SQLite syncs at every commit
  one_transaction,     // positions and metadata commit together
  free_after_commit,   // a block number is reused only after its freeing has committed
  rename_flush,        // replacing a file, or its content, flushes first
  valid_bytes,         // bytes beyond a block's valid ones read as zero
  fsync_barrier,       // fsync returns after the data and then the commit are durable
  hold_writes,         // data that cannot be written is kept and tried again
  reserve_space,       // the tree grows only after every server has reserved the room
  ballast,             // room is kept back for decisions and deletions
  root_stamps,         // a root slot without the access acknowledged in it is damaged
  // against servers that lie
  hop_check,           // an eviction is decided only after the servers' messages were checked
  hop_check_of_last,   // including the messages of role 1 after the secret permutation
  hop_audit,           // role 3's report of its shares is compared with the others' shares
  hop_keys,            // no server knows the key with which it is checked
  hop_roles,           // the next attempt at an eviction has other roles
  computed_once,       // data that another server sends twice is used only once
  zero_answers,        // a retrieval of nothing must return zeros
  fresh_shares,        // a slot that is healed gets fresh shares at every server
  refreshes_recorded,  // a slot's content is durable before fresh shares replace the old ones
  share_marks,         // a bucket that servers have mended must have the mark of its last eviction
  // ring
  residents_first,     // an eviction places blocks from the server before those from the top
  oldest_first,        // an eviction places the oldest blocks of the top first
  own_order,           // each version of a bucket has its own order of points
  asked_points,        // a rebuild counts the points that the server reports as asked as used
  fresh_points,        // no two accesses ask for one point of a bucket version
  verified_answers,    // an answer that does not match its rows' tags is not used
  parity_row,          // a row that fails its checksum is rebuilt from the others
  early_reshuffle,     // a bucket whose dummies are used up is rewritten before it is asked
  cache_after_commit,  // a slot of the top's cache is used again only after its freeing has
                       // committed
  log_again,           // a block of the top is logged again before its log slot is reused
  parallel_evictions,  // two evictions, which touch no bucket in common, run at the same time
  empty_level,         // a tree grows by an empty level; nothing is asked in place of its buckets
  // mirror
  row_check,    // the result of an eviction is checked before it is decided
  maintenance,  // every block is read and written back before it has too many layers
  count,
};

inline constexpr std::array<std::string_view, static_cast<std::size_t>(Rule::count)> kRuleNames{
    "checksums",
    "durable-answers",
    "acknowledged-positions",
    "no-retry-of-failed-sync",
    "recovery-first",
    "intents",
    "copy-on-write",
    "durable-prepare",
    "decide-first",
    "former-view",
    "attempts",
    "epochs",
    "compare-and-set",
    "decide-never-waits",
    "full-sync",
    "one-transaction",
    "free-after-commit",
    "rename-flush",
    "valid-bytes",
    "fsync-barrier",
    "hold-writes",
    "reserve-space",
    "ballast",
    "root-stamps",
    "hop-check",
    "hop-check-of-last",
    "hop-audit",
    "hop-keys",
    "hop-roles",
    "computed-once",
    "zero-answers",
    "fresh-shares",
    "refreshes-recorded",
    "share-marks",
    "residents-first",
    "oldest-first",
    "own-order",
    "asked-points",
    "fresh-points",
    "verified-answers",
    "parity-row",
    "early-reshuffle",
    "cache-after-commit",
    "log-again",
    "parallel-evictions",
    "empty-level",
    "row-check",
    "maintenance",
};
static_assert(kRuleNames.back() == "maintenance");

constexpr std::string_view name_of(Rule rule) { return kRuleNames[static_cast<std::size_t>(rule)]; }

#ifdef S3O_RULE_SWITCHES
/// Any thread.
bool rule_holds(Rule rule);
/// Leaves the rule out in this process, or puts it back. Only while nothing else runs.
void leave_out(Rule rule, bool out = true);
#else
constexpr bool rule_holds(Rule) { return true; }
#endif

}  // namespace s3oram
