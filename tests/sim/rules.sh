#!/bin/bash
# Leaves out, in turn, every rule that keeps failures recoverable. A test must then fail; a rule
# whose absence no test notices would not be tested.
#
#   rules.sh TESTS     TESTS is the folder of the test programs of a build with
#   -DS3O_RULE_SWITCHES=ON
set -uo pipefail

cd "$1" || exit 1
ulimit -c 0 # programs end by a trap
: "${RUNS:=400}" # at most this many random runs; most missing rules are noticed within ten
missed=0

# noticed RULE PROGRAM [ARGUMENT...]: the program fails without the rule.
noticed() {
  local said code=0
  said=$(S3ORAMFS_LEAVE_OUT=$1 "./${@:2}" 2>&1) || code=$?
  if ((code == 0)); then
    echo "$1: left out, and nothing noticed it: ${*:2}"
    missed=$((missed + 1))
  elif [[ $said == *"no rule is called"* || ! ($said =~ Failure|"replay with") ]]; then
    echo "$1: ${*:2} did not run: ${said:0:500}"
    missed=$((missed + 1))
  else
    echo "$1: $(grep -m 1 -E '^seed|Failure' <<< "$said")"
  fi
}
# Rules that random runs of the simulator notice.
at_random() {
  local rule
  for rule; do noticed "$rule" sim_run --seed 1 --runs "$RUNS"; done
}
# Rules that one test of a program notices. Its first failure ends it, because the rest tells no more.
in_test() { noticed "$1" "$2" --gtest_break_on_failure --gtest_filter="$3"; }

at_random checksums durable-answers acknowledged-positions recovery-first intents copy-on-write \
  durable-prepare decide-first full-sync
in_test checksums store_test 'ControlTest.RefusesRowsThatAreNotAsTheyWereWritten:ControlTest.DamageIsNoticedOrHarmless'
# In random runs the other servers heal what such a server loses.
in_test no-retry-of-failed-sync store_test 'GroupSyncTest.AFailedSyncIsNotAskedForAgain'
in_test former-view protocol_test '*/Protocol.TheFormerTreeVersionIsThereUntilItIsReleased/*'
in_test attempts protocol_test '*/Protocol.AnAttemptIsNeverBegunTwice/*'
in_test epochs engine_test '*EngineTest.FencesAnOlderSession*'
in_test compare-and-set hostile_test '*Refusals.AStaleOrNamelessSessionIsRefused/*'
in_test root-stamps protocol_test '*/Heal.AServerSetBackWithinATreeVersion/*'
in_test hop-check lying_eviction_test 'LyingEviction.WhatItPassesOnPoisonsNothing'
in_test hop-check-of-last lying_eviction_test 'LyingEviction.OneBitOfAnyHop*'
in_test hop-audit tree_test 'HopCheck.ThreeRows*'
in_test hop-keys lying_eviction_test 'LyingEviction.OrdersWithholdAServersOwnKey'
in_test hop-roles lying_eviction_test 'LyingEviction.OneBitOfAnyHop*'
in_test computed-once lying_eviction_test '*LyingRetrieval.AMaskedShareIsSentOnce/*'
in_test zero-answers lying_eviction_test '*LyingRetrieval.AReadOfNothingFindsAWrongShare/*'
in_test fresh-shares lying_eviction_test '*LyingRetrieval.HealingGivesEveryServerAFreshShare/*'
in_test refreshes-recorded lying_eviction_test '*LyingHealing.APowerCutWhileSharesAreRefreshedLosesNothing/*'
in_test share-marks marks_test '*Marks.ShowWhoTellsBothTheSameLie/A2'
in_test reserve-space protocol_test '*/Space.*'
in_test ballast protocol_test '*/Space.*'
in_test oldest-first ring_client_test 'EvictionPlan.OfTheTop*'
in_test own-order ring_client_test 'Points.AreASecretOrderOfAll'
in_test asked-points ring_engine_test '*RingRebuilds.*'
in_test residents-first ring_client_test 'EvictionPlan.Lemma1*'
in_test cache-after-commit ring_client_test 'TopCacheTest.ASlotIsUsedAgain*'
in_test fresh-points ring_engine_test 'RingView.NoPointOfAVersion*'
in_test early-reshuffle ring_engine_test 'RingView.ABucketWithoutDummies*'
in_test verified-answers ring_engine_test 'RingAnswers.*'
in_test log-again ring_engine_test 'RingTurns.LogABlockAgainBeforeItsSlotIsReused'
in_test parallel-evictions ring_engine_test 'RingAnswers.OfTwoEvictionsAreAskedForAtTheSameTime'
in_test empty-level ring_engine_test 'RingView.AGrowingTree*'
in_test durable-answers ring_engine_test 'RingAnswered.AWrite*'
in_test intents ring_engine_test 'RingAnswered.NothingIsAsked*'
in_test parity-row ring_server_test 'RingServer.RebuildsADamagedRow'
in_test zero-answers mirror_sim_test '*ASpoiltAnswerShowsNothing*'
in_test row-check mirror_sim_test '*ALieInAnEvictionIsCaught*'
in_test maintenance mirror_sim_test '*MaintenanceGoesRound*'
((missed == 0))
