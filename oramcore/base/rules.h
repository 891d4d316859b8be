// The rules that keep every failure recoverable, by name, so that a test can leave one out and show
// that something then notices. Where a rule lives, it asks:
//
//   if (rule_holds(Rule::free_after_commit)) ...
//
// In a product this is always true and costs nothing. In a build with the CMake option
// S3O_RULE_SWITCHES, leave_out() or S3ORAMFS_LEAVE_OUT=name,name in the environment (read once, for
// programs that a test starts; an unknown name ends the program) take rules out.
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
  access_records,   // what is about to be retrieved is committed first
  copy_on_write,    // new bucket versions never overwrite those in use
  durable_prepare,  // a prepare is answered once it would survive a power cut
  decide_first,     // servers flip versions only after the client's database has decided
  former_view,      // the former versions stay until the client releases them
  attempts,         // messages of another attempt at an eviction are refused
  epochs,           // messages of another session are refused
  compare_and_set,  // an epoch is raised only by whoever knows the one before
  // the client
  decide_never_waits,  // an extent or a size commits only after its data
  full_sync,           // SQLite syncs at every commit
  one_transaction,     // positions and metadata commit together
  free_after_commit,   // a block number is reused only after its freeing has committed
  rename_flush,        // replacing a file, or its content, flushes first
  valid_bytes,         // what lies beyond a block's valid bytes reads zero
  fsync_barrier,       // fsync returns after the data and then the commit are durable
  hold_writes,         // data that cannot be written is kept and tried again
  reserve_space,       // the tree grows only after every server has reserved the room
  ballast,             // room is kept back for decides and deletes
  root_stamps,         // a root slot without the access acknowledged in it is damaged
  hop_check,           // an eviction is decided only after what servers passed on was checked
  hop_check_of_last,   // also what role 1 passes on behind the secret permutation
  hop_audit,           // role 3's report of its shares is compared with the others' shares
  hop_keys,            // no server knows the key by which it is checked
  hop_roles,           // the next attempt at an eviction has other roles
  computed_once,       // what another server sends a second time is not computed with again
  zero_answers,        // a retrieval of nothing must bring zeros
  fresh_shares,        // a slot that is healed gets fresh shares at every server
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
};
static_assert(kRuleNames.back() == "fresh-shares");

constexpr std::string_view name_of(Rule rule) { return kRuleNames[static_cast<std::size_t>(rule)]; }

#ifdef S3O_RULE_SWITCHES
/// Any thread.
bool rule_holds(Rule rule);
/// Takes the rule out of this process, or puts it back. While nothing else runs.
void leave_out(Rule rule, bool out = true);
#else
constexpr bool rule_holds(Rule) { return true; }
#endif

}  // namespace s3oram
