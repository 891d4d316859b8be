// The counters and measurements of an engine. They reveal only how many accesses there are, and
// when, which the servers see too.
#pragma once

#include "oramcore/base/metrics.h"

namespace s3oram {

struct EngineMetrics {
  explicit EngineMetrics(Metrics& m)
      : accesses(
            m.counter("s3oramfs_accesses_total", "Accesses, of which each retrieves and writes.")),
        access_seconds(
            m.histogram("s3oramfs_access_seconds",
                        "Accesses from their start until every server has them durably.")),
        retrieval_seconds(m.histogram("s3oramfs_retrieval_seconds",
                                      "Retrievals, the first part of an access, after which a read "
                                      "is answered.")),
        evictions(m.counter("s3oramfs_evictions_total", "Evictions that have ended.")),
        eviction_seconds(m.histogram("s3oramfs_eviction_seconds",
                                     "Evictions from their start until the servers have released "
                                     "the previous tree version.")),
        eviction_retries(m.counter("s3oramfs_eviction_retries_total",
                                   "Attempts at an eviction that failed and were repeated.")),
        commit_seconds(m.histogram("s3oramfs_commit_seconds", "Commits of vault.db.")),
        commit_failures(m.counter("s3oramfs_commit_failures_total",
                                  "Commits of vault.db that failed; they are tried again.")),
        failed_reads(m.counter("s3oramfs_failed_reads_total",
                               "Blocks that could not be read: shares damaged or altered.")),
        wrong_answers(m.counter("s3oramfs_wrong_answers_total",
                                "Answers to retrievals that did not open, or were not zeros where "
                                "nothing was asked for: a server is faulty or lies.")),
        healed_slots(m.counter("s3oramfs_healed_slots_total",
                               "Damaged slots that were rewritten from other servers' shares.")) {}

  Counter& accesses;
  Histogram& access_seconds;
  Histogram& retrieval_seconds;
  Counter& evictions;
  Histogram& eviction_seconds;
  Counter& eviction_retries;
  Histogram& commit_seconds;
  Counter& commit_failures;
  Counter& failed_reads;
  Counter& wrong_answers;
  Counter& healed_slots;
};

}  // namespace s3oram
