"""The mutants: one rule broken in each, and the test that must fail then (run.py)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    breaks: str  # the rule, as docs/mutants.md shows it
    file: str
    old: str     # occurs once in the file
    new: str
    program: str
    tests: str   # a filter of GoogleTest


ENGINE = "oramcore/client/"
RING, RING_TEST = "oramcore/schemes/ring/client/", "ring_engine_test"
LYING = "lying_eviction_test"
JOINT = "*JointViews.NothingThatGoesOutFollowsFromWhatGoesOut/*"

MUTANTS = [
    # ---- what servers see together
    Mutant(
        "leaves-from-the-nonce", "No server can derive a leaf from what it knows",
        ENGINE + "root_writer.cc",
        "label.leaf = random_leaf(state_.environment.random);",
        "Writer known;\n  known(state_.session.nonce, access);\n"
        "  Prg from_public(Seed{}, known.take());\n  label.leaf = random_leaf(from_public);",
        "shares_test", JOINT),
    Mutant(
        "leaf-kept", "Each access gives its block a fresh leaf",
        ENGINE + "root_writer.cc",
        "label.leaf = random_leaf(state_.environment.random);",
        "label.leaf = state_.positions.get(label.block).kind == Position::Kind::tree\n"
        "                 ? state_.positions.get(label.block).leaf\n"
        "                 : random_leaf(state_.environment.random);",
        "shares_test", "*Shares.LeavesOfLaterAccessesTellNothing/shuffle1"),
    Mutant(
        "orders-from-the-attempt", "No server can derive a permutation or mask from what it knows",
        ENGINE + "preparer.cc",
        "Prg prg(state_.environment.random.seed(), context.take());",
        "Prg prg(Seed{}, context.take());",
        "shares_test", JOINT),
    Mutant(
        "answer-mask-known", "The aggregator cannot take the masks off an answer",
        ENGINE + "slot_query.cc",
        "request.sum->mask = state_.environment.random.seed();",
        "request.sum->mask = Seed{};",
        "shares_test", JOINT),
    Mutant(
        "query-seeds-of-a-retry", "A retrieval that is tried again has fresh seeds",
        "oramcore/schemes/s3oram/s3oram.cc",
        "const Seed seed = random_.seed();",
        "static std::map<WriteNumber, Seed> kept;\n"
        "      const Seed seed = kept.try_emplace(write_number, random_.seed()).first->second;",
        "shares_test", "*JointViews.WhatIsDrawnIsSentForOneUse/shuffle*"),
    Mutant(
        "mirror-query-seeds-of-a-retry", "A mirror's retrieval that is tried again has fresh seeds",
        "oramcore/schemes/mirror/client/mirror.cc",
        "query.seed = random_.seed();",
        "static std::map<std::pair<WriteNumber, std::ptrdiff_t>, Seed> kept;\n"
        "    const std::pair key{write_number, &query - queries.data()};\n"
        "    query.seed = kept.try_emplace(key, random_.seed()).first->second;",
        "mirror_test", "MirrorViews.NoSeedIsUsedTwice"),
    Mutant(
        "mirror-query-known", "A mirror's query seeds are drawn at random",
        "oramcore/schemes/mirror/client/mirror.cc",
        "query.seed = random_.seed();",
        "query.seed = Seed{};",
        "shares_test", JOINT),
    Mutant(
        "mirror-matrix-known", "A mirror's shares of the matrix are drawn at random",
        "oramcore/schemes/mirror/client/mirror.cc",
        "own.matrix_seed = random.seed();",
        "own.matrix_seed = (static_cast<void>(random.seed()), Seed{});",
        "shares_test", JOINT),
    Mutant(
        "row-seed-known", "No server knows the seed of its rows' digests before it has stored them",
        "oramcore/schemes/mirror/client/mirror.cc",
        "std::move(prescribed), layers_, random_.seed(), id, epoch",
        "std::move(prescribed), layers_, Seed{}, id, epoch",
        "shares_test", JOINT),
    Mutant(
        "digest-seed-known", "No server knows in advance the seed by which shares are compared",
        ENGINE + "settler.cc",
        "state_.environment.random.seed()}", "Seed{}}",
        "shares_test", JOINT),
    Mutant(
        "healing-masks-known", "A healed slot is shared again with fresh masks",
        ENGINE + "healer.cc",
        "create_shares(state_.params.scheme, content, state_.environment.random);",
        "[&] {\n    Prg known(Seed{}, as_bytes(\"known\"));\n"
        "    return create_shares(state_.params.scheme, content, known);\n  }();",
        "shares_test", "*JointViews.HealingMasksAreDrawn/*"),
    Mutant(
        "mending-masks-known", "Servers that mend a share mask what they send",
        ENGINE + "healer.cc",
        "masks[i].push_back(state_.environment.random.seed());", "masks[i].push_back(Seed{});",
        "shares_test", JOINT),
    Mutant(
        "one-permutation-known", "Role 2 does not know the third permutation",
        "oramcore/schemes/s3oram/eviction_orders.cc",
        "      orders.third.reset();\n", "",
        "shares_test", "*Shares.PermutationsAndQueriesAreUniform/shuffle*"),
    Mutant(
        "one-seed-for-two", "The first and the third permutation have different seeds",
        "oramcore/schemes/s3oram/eviction_orders.cc",
        "const Seed first = random.seed(), third = random.seed();",
        "const Seed first = random.seed(), third = first;",
        "shares_test", "*JointViews.WhatIsDrawnIsSentForOneUse/shuffle*"),
    Mutant(
        "sealed-under-a-counter", "Every byte of a mirror's slot looks random",
        "oramcore/oram/opaque_sealer.cc",
        "  random_.fill(MutableByteSpan(sealed).first(kNonce));\n",
        "  random_.fill(MutableByteSpan(sealed).first(kNonce));\n"
        "  static std::uint64_t sealings = 0;\n  ++sealings;\n"
        "  std::memcpy(sealed.data(), &sealings, sizeof sealings);\n",
        "opaque_sealer_test", "OpaqueSealerTest.EveryByteLooksRandom"),
    # ---- lies in answers
    Mutant(
        "zeros-not-looked-at", "A dummy retrieval must return zeros",
        ENGINE + "retriever.cc",
        "!rule_holds(Rule::zero_answers) || is_zero(answer->slot)", "true",
        LYING, "*LyingRetrieval.AReadOfNothingFindsAWrongShare/*"),
    Mutant(
        "only-blocks-are-looked-up",
        "What the client does after a wrong answer does not depend on what was wanted",
        ENGINE + "retriever.cc",
        "if (again == 1 || (!answer && !state_.dead))",
        "if (state_.is_found_by(leaf, block) && (again == 1 || (!answer && !state_.dead)))",
        LYING, "*LyingRetrieval.AWrongAnswerIsAskedForAgainWhateverIsRead/*"),
    Mutant(
        "answers-not-decoded", "If there are enough servers, their answers show which of them lies",
        ENGINE + "retriever.cc",
        "query_.can_ask_each() ? Asked::each : Asked::together", "Asked::together",
        LYING, "*FiveServers.TheOneThatAnswersWronglyIsNamedWhateverIsRead/*"),
    Mutant(
        "answers-judged-by-now", "An answer is compared with what was asked for",
        ENGINE + "retriever.cc",
        "judged.opened->label.version == answer->version",
        "judged.opened->label.version == state_.positions.get(block).version",
        LYING, "*Overflowing.AnAnswerThatWasRightWhenItWasAskedForIsRight/*"),
    Mutant(
        "needless-answers-unjudged", "A liar does not see which blocks have moved to the stash",
        ENGINE + "retriever.cc",
        "  co_return judged;\n}\n\nstd", "  judged.right = judged.right || in_stash;\n  co_return judged;\n}\n\nstd",
        LYING, "*Overflowing.AWrongAnswerIsFoundAlthoughItIsNotNeeded/*"),
    Mutant(
        "masked-share-twice", "Whatever is sent under a mask is computed once",
        "serverd/oram/sums.cc",
        "if (!rule_holds(Rule::computed_once)) return {};", "return {};",
        LYING, "*LyingRetrieval.AMaskedShareIsSentOnce/*"),
    Mutant(
        "old-shares-kept", "A slot that is healed gets fresh shares at every server",
        ENGINE + "healer.cc",
        "!rule_holds(Rule::fresh_shares))", "true)",
        LYING, "*LyingRetrieval.HealingGivesEveryServerAFreshShare/*"),
    Mutant(
        "one-key-of-marks", "No server knows the key of another one's marks",
        "oramcore/schemes/s3oram/s3oram.cc",
        'use(as_bytes("share marks"), eviction, server);',
        'use(as_bytes("share marks"), eviction, server > 0);',
        "shares_test", "*JointViews.WhatIsDrawnIsSentForOneUse/shuffle*"),
    Mutant(
        "marks-of-old-shares", "The marks of a bucket are forgotten before its shares are replaced",
        ENGINE + "healer.cc",
        "  S3O_CO_TRY(co_await prover_.forget(at));\n  Bytes content", "  Bytes content",
        "marks_test", "*Marks.AreForgottenBeforeFreshSharesAreWritten/*"),
    Mutant(
        "marks-of-one-child", "When the tree grows, marks stay with the content of all buckets",
        ENGINE + "mark_table.cc",
        "if (before && before->was_leaf(bucket))", "if (false && before->was_leaf(bucket))",
        "positions_test", "MarkTableTest.MarksStayWithTheContentWhenTheTreeGrows"),
    Mutant(
        "marks-forgotten-meanwhile", "Nobody is named for shares that a healing has just replaced",
        ENGINE + "prover.cc",
        "if (still != row) co_return Status{};", "static_cast<void>(still);",
        "marks_test", "*Marks.AreForgottenBeforeFreshSharesAreWritten/*"),
    Mutant(
        "unbelievable-marks", "Marks that more servers contradict than may lie are not believed",
        ENGINE + "prover.cc",
        "if (shown->named.size() > state_.params.scheme.threshold) {",
        "if (shown->named.size() > state_.servers.count()) {",
        "marks_test", "*Marks.ThatFitNoServerAreNotBelieved/*"),
    Mutant(
        "unproven-after-a-cut", "What a repair that was cut short has restored is recorded before",
        ENGINE + "scrubber.cc",
        "  S3O_CO_TRY(co_await record_.add(to_be_proven(damage)));\n", "",
        "marks_test", "*Marks.ProveWhatARepairThatWasCutShortHasLeft/*"),
    Mutant(
        "unproven-at-a-mount", "No volume is mounted with shares of a repair that was cut short",
        ENGINE + "engine.cc",
        "if (evictions == Evictions::as_due) S3O_CO_TRY(co_await scrubber_.prove_cut_repair());",
        "static_cast<void>(scrubber_);",
        "marks_test", "*Marks.ProveWhatARepairThatWasCutShortHasLeft/*"),
    Mutant(
        "unproven-at-an-eviction", "Nothing is decided before all restored shares are proven",
        ENGINE + "eviction_loop.cc",
        "!state_.repairs.unproven.empty()", "false",
        "marks_test", "*Marks.AreComparedBeforeTheNextEviction/*"),
    Mutant(
        "restored-unseen", "repair --server N compares all buckets of server N with their marks",
        ENGINE + "prover.cc",
        ".asked = repaired;", ".asked = {};",
        "marks_test", "*Marks.AreAskedForOfAWholeRepairedServer/*"),
    Mutant(
        "liar-not-healed", "A liar's wrong shares are replaced where the right ones are known",
        ENGINE + "prover.cc",
        "const auto healed = co_await put_right_at(server, proof, *shown);",
        "const Result<std::size_t> healed = std::size_t{0};",
        "marks_test", "*Marks.HealALiarAtTheNextMount/*"),
    Mutant(
        "own-shares-disowned", "A server disowns only what others have sent it",
        ENGINE + "prover.cc",
        "if (shown.shows(server, slot)) unproven.push_back(slot);",
        "for (std::uint16_t each = 0; each < right.size(); ++each) unproven.push_back(each);",
        "marks_test", "*Marks.HealALiarBesideASlotThatWasDamagedBefore/*"),
    Mutant(
        "damage-hides-a-lie", "Restored shares that cannot be compared are not used",
        ENGINE + "prover.cc",
        "(damaged && !proof.restored.contains(server))", "damaged",
        "marks_test", "*Marks.DoNotLetDamageHideALie/*"),
    Mutant(
        "damage-hides-liars", "A server that lies is named though others show no whole bucket",
        ENGINE + "prover.cc",
        "if (shown->named.size() > state_.params.scheme.threshold) {",
        "if (shown->fitting.empty()) {",
        "marks_test", "*Marks.ShowALiarBesideAServerWithDamagedSlots/*"),
    Mutant(
        "header-not-looked-at", "No entry of a mirror's header may change unnoticed",
        "oramcore/schemes/mirror/protocol/layers.cc",
        "sound_ = rest == 0;", "sound_ = rest == 0 || layers < kLayers;",
        "mirror_test", "LayersTest.NoEntryOfAHeaderMayChange"),
    Mutant(
        "layers-seen", "Opening a mirror's block takes the same time for any number of layers",
        "oramcore/schemes/mirror/protocol/layers.cc",
        "layer < drawn;", "layer < drawn && !ended;",
        "mirror_test", "LayersTest.AsManyStreamsAreDrawnWhateverTheSlotHolds"),
    Mutant(
        "anyones-summand", "A sum has the products of the workers, and of no other server",
        "serverd/oram/server_retrieval.cc",
        "if (workers.empty()) return all;", "if (!workers.empty() || workers.empty()) return all;",
        "mirror_sim_test", "*NoSummandOfAServerThatDoesNotWorkIsTaken/T1L3"),
    # ---- lies in evictions
    Mutant(
        "hops-not-checked", "An eviction is decided only after what servers passed on is checked",
        ENGINE + "preparer.cc",
        "rule_holds(Rule::hop_check) ? std::move(orders.check) : nullptr",
        "std::shared_ptr<ReportCheck>()",
        LYING, "LyingEviction.WhatItPassesOnPoisonsNothing"),
    Mutant(
        "lies-without-end", "Evictions stop when as many attempts have failed as may fail",
        ENGINE + "eviction_loop.cc",
        "++failures.disagreements == std::max(kMostDisagreements, state_.servers.count());",
        "++failures.disagreements == 1 + std::max(kMostDisagreements, state_.servers.count());",
        LYING, "LyingEviction.AServerThatAlwaysLiesStopsEvictionsAndLosesNothing"),
    Mutant(
        "last-hop-not-checked", "What role 1 passes on after the secret permutation is checked too",
        "oramcore/protocol/hop_check.cc",
        "r < kept && rule_holds(Rule::hop_check_of_last)", "r < kept && kept == 0",
        LYING, "LyingEviction.OneBitOfAnyHop*"),
    Mutant(
        "no-audit", "Role 3's report of its shares is compared with the others'",
        "oramcore/protocol/hop_check.cc",
        "verdict.audit = first.audit[0] == audited;", "static_cast<void>(audited);",
        "tree_test", "HopCheck.ThreeRows*"),
    Mutant(
        "own-key-known", "No server knows the key by which it is checked",
        "oramcore/schemes/s3oram/eviction_orders.cc",
        "if (rule_holds(Rule::hop_keys)) orders.check_2.reset();", "",
        LYING, "LyingEviction.OrdersWithholdAServersOwnKey"),
    Mutant(
        "roles-stay", "The next attempt has other roles",
        "oramcore/schemes/s3oram/eviction_orders.cc",
        "static_cast<Party>(1 + tries % params.scheme.servers)",
        "static_cast<Party>(1 + 0 * tries)",
        LYING, "LyingEviction.OneBitOfAnyHop*"),
    Mutant(
        "rows-not-checked", "A mirror's eviction is decided only after its rows are checked",
        ENGINE + "preparer.cc",
        "if (!check || !rule_holds(Rule::row_check)) co_return Status{};", "co_return Status{};",
        "mirror_sim_test", "*ALieInAnEvictionIsCaught*/T1L2"),
    Mutant(
        "attempt-kept", "The next attempt at an eviction has a number, and thus masks, of its own",
        ENGINE + "eviction_loop.cc",
        "    state_.environment.random.fill(id.attempt);",
        "    if (tries == 0) state_.environment.random.fill(id.attempt);",
        "mirror_sim_test", "*ALieInAnEvictionIsCaught*/T1L2"),
    Mutant(
        "list-on-trust", "A list of old rows counts only if it has the digest that its server gives",
        "oramcore/schemes/mirror/client/row_verdict.cc",
        " || digest_of(sent) != answers[i].list_digest)", ")",
        "mirror_test", "*RowCheckTest.FalseReportsDoNotPass/*"),
    Mutant(
        "other-new-rows", "The new rows of every server are checked",
        "oramcore/schemes/mirror/client/row_verdict.cc",
        "if (answers[i].sum != right) wrong",
        "if (answers[i].sum != right && i == 0) wrong",
        "mirror_test", "*RowCheckTest.RowsThatDifferAmongServersDoNotPass/*"),
    Mutant(
        "other-old-rows", "Servers with different paths before an eviction do not agree on it",
        "oramcore/schemes/mirror/client/row_verdict.cc",
        "if (answers[i].list_digest != usual) different",
        "if (answers[i].list_digest != usual && i > answers.size()) different",
        "mirror_test", "*RowCheckTest.OldRowsThatDifferDoNotPass/*"),
    Mutant(
        "path-not-settled", "A wrong share or copy on the path is found and replaced",
        ENGINE + "arbiter.cc",
        "if (auto settled = co_await settle_path(); !settled && !state_.dead)",
        "if (Status settled; !settled && !state_.dead)",
        "mirror_sim_test", "*AWrongCopyIsReplacedAndEvictionsGoOn/T1L2"),
    Mutant(
        "mirror-workers-stay", "The next attempt at a mirror's eviction has other workers",
        "oramcore/schemes/mirror/client/mirror.cc",
        "servers.workers(id.eviction + tries, workers)",
        "servers.workers(id.eviction + 0 * tries, workers)",
        "mirror_sim_test", "*AWorkerThatAlwaysLies*/T1L3"),
    Mutant(
        "liar-in-check-stays", "A server that is shown to lie in a check is named and left out",
        ENGINE + "preparer.cc",
        "bool goes_on = do_without_proven(verdict.status.error());",
        "bool goes_on = false;",
        "mirror_sim_test", "*OneServerThatLiesInTheCheck*/T1L3"),
    Mutant(
        "certify-only-followers", "Rows of a server that comes into step meanwhile are certified, too",
        ENGINE + "preparer.cc",
        "state_.in_step.of(servers[i]) != Standing::away",
        "state_.in_step.of(servers[i]) == Standing::following",
        "away_test", "*RowsOfAServerThatComesIntoStepMeanwhileAreCertified*"),
    Mutant(
        "signatures-not-wanted", "In a signed attempt, a message without a signature is not accepted",
        "serverd/s3oram/shuffle_eviction.cc",
        "  if (!right)\n", "  if (!right && tile > 1000000)\n",
        LYING, "LyingEviction.WhatIsNotSignedIsNotTaken"),
    Mutant(
        "receipts-on-trust", "A receiver that cannot show the sender's signature is the liar",
        "oramcore/schemes/s3oram/hop_suspects.cc",
        "if (!is_signed(orders_.shuffle.verify(from), receipt->hash, receipt->signature)) return to;",
        "static_cast<void>(is_signed);",
        LYING, "LyingEviction.AReceiverCannotForgeReceipts"),
    Mutant(
        "healed-unopened", "A slot is healed only from shares that open, or on which more than t + 1 agree",
        ENGINE + "healer.cc",
        "  if (enough == 1 ||\n", "  if (enough > 0 ||\n",
        LYING, "*LyingRetrieval.FalseDamageCostsNoBlock/*"),
    Mutant(
        "relayed-on-trust", "What a server relays is taken only if the client's digest fits",
        "serverd/oram/server_root.cc",
        "if (content.size() != part_size || digest != *part.digest)",
        "if (content.size() != part_size)",
        LYING, "*RelayedParts.ThatWereAlteredAreNotTaken/*"),
    Mutant(
        "raw-shares-unread", "A server that refuses an answer costs no block",
        ENGINE + "retriever.cc",
        "if (!answer && !state_.dead) {", "if (!answer && !state_.dead && state_.dead) {",
        LYING, "*LyingRetrieval.AnswersThatAreNoneCostNoBlock/*"),
    Mutant(
        "helpers-on-trust", "Shares that servers recreate for another server are compared with their own",
        ENGINE + "scrubber.cc",
        "state_.params.security == Security::malicious;", "false;",
        "repair_test", "*RepairTest.AHelperThatLiesSpoilsNoShare/*"),
    Mutant(
        "sums-waited-for", "Nobody waits forever for a sum that a server only says it has sent",
        ENGINE + "slot_query.cc",
        "kSumPatience = std::chrono::minutes(1);", "kSumPatience = std::chrono::hours(1000);",
        LYING, "*LyingRetrieval.WhatWasNotSentIsNotWaitedForForEver/*"),
    Mutant(
        "relays-waited-for", "Nobody waits forever for a part that a server only says it has relayed",
        ENGINE + "root_writer.cc",
        "kRelayPatience = std::chrono::seconds(5);", "kRelayPatience = std::chrono::hours(1000);",
        LYING, "*LyingRetrieval.APartThatIsOnlySaidToBeRelayedIsNotWaitedForForEver/*"),
    Mutant(
        "evictions-waited-for", "Nobody waits forever for what servers pass on in an eviction",
        ENGINE + "preparer.cc",
        "kAttemptPatience = std::chrono::minutes(10);",
        "kAttemptPatience = std::chrono::hours(1000);",
        LYING, "*LyingRetrieval.WhatWasNotSentIsNotWaitedForForEver/*"),
    Mutant(
        "impossible-slots-read", "A slot that does not exist counts against the server that lists it",
        ENGINE + "settler.cc",
        "if (!state_.has_slot({bucket, each.slot}))", "if (false)",
        LYING, "*PersistentLies.ASlotThatDoesNotExistIsHeldAgainstTheServerThatListsIt/*"),
    Mutant(
        "discarded-blamed", "That a server fails because an eviction is ended is no trouble with it",
        ENGINE + "preparer.cc",
        "if (const auto joint = attempt.lock()) joint->failed = true;", "",
        LYING, "LyingEviction.AServerThatPassesNothingOnStopsEvictionsAndBlamesNobody"),
    Mutant(
        "restarts-without-pause", "A server that always says that it was restarted is asked with pauses",
        ENGINE + "volume_state.cc",
        "if (again) co_await environment.clock.sleep(Servers::kRetryAfter);", "",
        LYING, "*PersistentLies.RestartsWithoutEndAreFollowedAtLeisureAndNamed/*"),
    Mutant(
        "put-off-unseen", "The status shows a server that always gives a reason that may pass",
        ENGINE + "servers.cc",
        "if (is_put_off) trust_.put_off(server, type);", "static_cast<void>(is_put_off);",
        LYING, "*PersistentLies.RestartsWithoutEndAreFollowedAtLeisureAndNamed/*"),
    Mutant(
        "hidden-shares-protect", "A liar that shows false shares is named, too",
        ENGINE + "arbiter.cc",
        "if (!agreement) {", "if (!agreement || !read.contradicted.empty()) {",
        LYING, "LyingEviction.ALiarThatHidesItsSharesIsNamedToo"),
    Mutant(
        "tried-in-vain", "Evictions stop if attempts fail again and again without damage",
        ENGINE + "eviction_loop.cc",
        "if (failures.in_vain == kMostInVain)", "if (false)",
        LYING, "LyingEviction.MessagesOfAWrongSizeStopEvictionsWithAReason"),
    Mutant(
        "marks-waited-for", "An eviction does not wait for ever for marks",
        ENGINE + "marker.cc",
        "kMarksWithin = std::chrono::minutes(1);", "kMarksWithin = std::chrono::hours(1000);",
        LYING, "*PersistentLies.MarksThatNeverComeAreDoneWithout/*"),
    # ---- what one server says
    Mutant(
        "one-refusal-counts", "A refusal by one server, which the others do not share, ends nothing",
        ENGINE + "trust.cc",
        "if (refusing_[type].size() > threshold_)", "if (!refusing_[type].empty())",
        LYING, "*LyingRetrieval.ARefusalOfOneServerEndsNothing/*"),
    Mutant(
        "damage-refusal-counts", "A server that does not say which slots are damaged ends nothing",
        ENGINE + "healer.cc",
        "++refusing > state_.params.scheme.threshold)\n      co_return fail(error);",
        "++refusing > 0)\n      co_return fail(error);",
        LYING, "*LyingHealing.ARefusalToReportDamageEndsNothing/*"),
    Mutant(
        "healed-share-refusal-counts", "A server that refuses a healed share ends nothing",
        ENGINE + "healer.cc",
        "if (refusing.size() > state_.params.scheme.threshold) co_return written;",
        "if (!refusing.empty()) co_return written;",
        LYING, "*LyingHealing.ARefusalOfAHealedShareEndsNothing/*"),
    Mutant(
        "damage-anywhere", "Nothing is healed in a root slot that no write has reached",
        ENGINE + "healer.cc",
        "if (settler_.is_settled(at))", "if (settler_.is_settled(at) || at.slot < 100)",
        LYING, "*NewVolume.DamageInSlotsThatDoNotExistEndsNothing/*"),
    Mutant(
        "damage-without-end", "A server reports no more damage than an honest one does at a time",
        ENGINE + "healer.cc",
        "found->slots.size() > most", "found->slots.size() > 100 * most",
        LYING, "*LyingHealing.MoreDamageThanAServerReportsAtATimeIsNotBelieved/*"),
    Mutant(
        "marks-not-made-again", "False damage takes away no other server's marks",
        ENGINE + "healer.cc",
        "  if (status) status = co_await prover_.mark_again();\n", "",
        "marks_test", "*Marks.AreMadeAgainAfterAHealing/*"),
    Mutant(
        "proof-refusal-counts", "A server that refuses its own right share ends nothing",
        ENGINE + "prover.cc",
        "if (!written && !SlotShares::is_refusal(written.error().code))", "if (!written)",
        "marks_test", "*Marks.ARefusalOfARightShareEndsNothing/*"),
    Mutant(
        "reopening-believed", "What one server says when its session is opened again ends nothing",
        ENGINE + "servers.cc",
        "answer = weigh(server, OpenRequest::kType, fail(reopened.error()));",
        "answer = fail(reopened.error());",
        LYING, "*LyingRetrieval.OneServerCannotEndASessionWhenItIsOpenedAgain/*"),
    Mutant(
        "one-decides", "A tree version counts when t + 1 servers have it",
        ENGINE + "testimony.cc",
        "  if (ahead.empty()) return agreed;", "  if (ahead.empty()) return reached.front();",
        "rebuild_test", "*LyingServer.OneServerCannotDecideAnEviction/*"),
    Mutant(
        "hidden-prepare-accuses", "Who hides what it has prepared accuses no other server alone",
        ENGINE + "testimony.cc",
        "if (may_be_right && !unprepared.empty()", "if (false && may_be_right && !unprepared.empty()",
        "rebuild_test", "*LyingServer.OneThatHidesWhatItPreparedAccusesNobodyAlone/*"),
    Mutant(
        "silence-hides-old-copies", "A server that does not say what it holds hides no old copy",
        ENGINE + "volume_sessions.cc",
        "answer = as_here;", "co_return Status{};",
        "rebuild_test", "*LyingServer.OneThatDoesNotSayWhatItHoldsHidesNoOldCopy/*"),
    Mutant(
        "other-copy-on-one-word", "Another copy has used the volume when t + 1 servers say so",
        ENGINE + "testimony.cc",
        "  if (others.size() > threshold)", "  if (!others.empty())",
        "rebuild_test", "*LyingServer.OneServerCannotMakeTheVaultAnOldCopy/*"),
    Mutant(
        "old-copy-on-one-word", "A vault is an old copy when t + 1 servers have later evictions",
        ENGINE + "testimony.cc",
        "if (ahead.size() > threshold || wrote_since", "if (!ahead.empty() || wrote_since",
        "rebuild_test", "*LyingServer.OneServerCannotMakeTheVaultAnOldCopy/*"),
    Mutant(
        "no-way-back", "A server that is one version ahead takes its commit back",
        "serverd/oram/server_eviction.cc",
        "S3O_CO_ASSIGN(const auto reverted, state_.control.revert(request.id));",
        "const bool reverted = false;",
        "rebuild_test", "*LyingServer.OneServerThatIsRightlyAheadGoesBack/*"),
    Mutant(
        "back-over-an-attempt", "A commit is taken back only while nothing has overwritten it",
        "serverd/oram/store_database.cc",
        "|| prepared_ || !attempts_.empty()) return false;", "|| prepared_) return false;",
        "store_test", "ControlTest.NoCommitIsTakenBackOnceAnotherAttemptHasBegun"),
    Mutant(
        "one-height", "A tree's height counts when t + 1 servers report it",
        ENGINE + "testimony.cc",
        "if (same.size() > threshold) believed = height;", "believed = height;",
        "rebuild_test", "*LyingServer.AnotherHeightIsRefused/*"),
    Mutant(
        "any-epoch", "A restore refuses an epoch that is far above that of t + 1 servers",
        ENGINE + "rebuild.cc",
        "if (answer.session.epoch > sorted[many() - 1] + kApart)",
        "if (answer.session.epoch > sorted.front() + kApart)",
        "rebuild_test", "*LyingServer.AnEpochThatNobodyCouldFollowIsRefused/*"),
    Mutant(
        "one-ends-the-session", "A client gives its session up when t + 1 servers say so",
        ENGINE + "trust.cc",
        "if (deposing_.size() <= threshold_)", "if (deposing_.size() < threshold_)",
        "rebuild_test", "*LyingServer.OneServerCannotEndASession/*"),
    Mutant(
        "words-of-nobody", "What a server says is shown as its own words",
        "oramcore/net/rpc.cc",
        'fmt::format("server {} says: {}", from,', 'fmt::format("{1}", from,',
        "rebuild_test", "*LyingServer.ItsWordsAreShownAsItsOwn/*"),
    Mutant(
        "patience-for-all", "An answer to one request extends no deadline of another",
        "oramcore/net/rpc.cc",
        "largest_answer_[{from, found->second->type}]", "largest_answer_[{from, 4}]",
        "rpc_test", "RpcTest.AGiantAnswerToOneQuestionMakesNobodyElsePatient"),
    Mutant(
        "right-share-refusal-counts", "A server that refuses the right share costs no read",
        ENGINE + "settler.cc",
        "if (!written && !SlotShares::is_refusal(written.error().code))", "if (!written)",
        LYING, "*LyingRetrieval.ARefusalOfARightShareCostsNoRead/*"),
    Mutant(
        "any-block-settles", "A slot is settled only on the block that belongs in it",
        ENGINE + "volume_state.cc",
        "return label.block == resident.block && label.version == resident.version;",
        "return label.block == label.block;",
        "mirror_sim_test", "*AnotherBlockInASlotIsNotSettledOn/T1L2"),
    Mutant(
        "copies-on-trust", "A copy that a server is given is compared with a third server's",
        ENGINE + "settler.cc",
        "return state_.params.enough() == 1 && state_.servers.count() > 2;", "return false;",
        "mirror_sim_test", "*ACopyIsComparedWithMoreThanItsSource/T1L3"),
    # ---- a mirror without one of its servers
    Mutant(
        "left-out-unrecorded", "A server is left out only after vault.db says so",
        ENGINE + "attendance.cc",
        "  S3O_CO_TRY(co_await owner_.commit());\n  in_step_.leave(server);",
        "  in_step_.leave(server);",
        "away_test", "*AwayOfThree.APowerCutAtAnyStepLosesNothing/T1L3"),
    Mutant(
        "followers-work", "Only servers in step answer, and make the rows of an eviction",
        ENGINE + "in_step.cc",
        "return those([](Standing standing) { return standing == Standing::in_step; });",
        "return those([](Standing standing) { return standing != Standing::away; });",
        "positions_test", "InStep.OneThatComesBackCountsWhenItIsRecorded"),
    Mutant(
        "back-too-early", "A server that was away counts when it has all that it lacked",
        ENGINE + "catch_up.cc",
        "    if (slots == 0) co_return Status{};", "    if (slots < 1u << 20) co_return Status{};",
        "away_test", "*AwayOfThree.OneThatIsBackCountsWhenItLacksNothing/T1L3"),
    Mutant(
        "offline-client", "If no server answers, the client is offline, and none is left out",
        ENGINE + "attendance.cc",
        "else if (well >= in_step_.needed() && in_step_.may_leave(server))",
        "else if (in_step_.may_leave(server))",
        "away_test", "*AwayTest.AClientWithoutALineLeavesNobodyOut/T1L3"),
    Mutant(
        "followers-on-trust", "A server that follows has the rows of those in step, or is dropped",
        ENGINE + "preparer.cc",
        "(!answers[i] || answers[i]->sum != right.sum)", "!answers[i]",
        "away_test", "*AwayTest.RowsOfAServerThatFollowsAreCertified/T1L3"),
    Mutant(
        "one-describes-the-tree", "What a returning server lacks is not one server's word",
        ENGINE + "catch_up.cc",
        "if (of_a && of_b && *a == *b)", "if (of_a && of_b)",
        "away_test", "*AwayOfThree.NoServerHidesWhatAnotherOneLacks/T1L3"),
    Mutant(
        "given-up-not-compared", "A slot that was given up while a server was away is compared",
        "oramcore/client/returning_servers.cc",
        "  if (slots == 0) buckets = state_.rewritten;", "",
        "away_test", "*GivenUp.IsComparedWithWhatOneBringsBack/T1L3"),
    Mutant(
        "copies-waited-for", "Nobody waits for a copy to a server that has gone away again",
        ENGINE + "servers.cc",
        " || what == MessageType::contribute;", ";",
        "away_test", "*AwayOfThree.OneThatGoesAwayWhileItIsSentWhatItLacksIsNotWaitedFor/T1L3"),
    Mutant(
        "copies-tried-again", "A copy to a server that has gone away again is not tried again",
        ENGINE + "healer.cc",
        "if (state_.servers.is_left_out(to))", "if (false)",
        "away_test", "*AwayOfThree.OneThatGoesAwayWhileItIsSentWhatItLacksIsNotWaitedFor/T1L3"),
    Mutant(
        "back-ends-all", "A server that was left out ends nothing when it is back",
        ENGINE + "stragglers.cc",
        "  if (!answer && !state_.servers.is_left_out(server))",
        "  while (!question->members.empty())\n"
        "    co_await state_.environment.clock.sleep(std::chrono::milliseconds(100));\n"
        "  if (!answer && !state_.servers.is_left_out(server))",
        "away_test", "*AwayOfThree.OneThatIsBackBeforeTheOthersAnswerEndsNothing/T1L3"),
    Mutant(
        "one-suspect-at-a-time", "While the client looks for one server, it notices the absence of others",
        ENGINE + "attendance.cc",
        "if (!looking_[server] && is_suspect(server))",
        "if (std::count(looking_.begin(), looking_.end(), true) == 0 && is_suspect(server))",
        "line_test", "*LinesOfFour.ASecondAbsenceIsNoticedInTime/T1L4"),
    Mutant(
        "half-opens", "Any two sets of servers that open a volume have one in common",
        ENGINE + "in_step.cc",
        "std::max({count() / 2 + 1, count() - needed_ + 1, needed_})", "needed_",
        "positions_test", "InStep.WhoOpensAVolumeMeetsOneOfThoseInStepLast"),
    Mutant(
        "set-back-in-step", "A server in step that was set back is refused",
        ENGINE + "reconcile.cc",
        "if (stands.tree_version != tree.tree_version)",
        "if (stands.tree_version > tree.tree_version)",
        "away_test", "*AwayOfThree.AnOldStateOfTheLastSessionIsRefused/T1L3"),
    Mutant(
        "left-out-unheard", "A vault is an old copy, too, if a server that it left out shows it",
        ENGINE + "volume_sessions.cc",
        "testimony.push_back(answer ? *answer : as_here);",
        "testimony.push_back(may_lack ? as_here : *answer);",
        "away_test",
        "*AwayOfThree.AnOldCopyOfTheVaultIsRefusedOnTheWordOfAServerThatItLeftOut/T1L3"),
    Mutant(
        "any-root-slot", "A restore takes no root write for that of another slot",
        ENGINE + "root_writer.cc",
        "if (state_.params.is_mirror()) label.root_slot = slot;", "",
        "away_test", "*AwayOfThree.ARestoreTakesNoRootWriteForThatOfAnotherSlot/T1L3"),
    Mutant(
        "zeros-before-blocks", "A restore takes no zeros where one server has the block",
        ENGINE + "rebuild.cc",
        "  if (block) co_return block;\n",
        "  if (const auto none = find_agreement(*scheme_, params_, servers, shares,\n"
        "                                       [](const Label& label) {\n"
        "                                         return label.version == 0;\n"
        "                                       }))\n"
        "    co_return none;\n  if (block) co_return block;\n",
        "away_test", "*ZerosShown.AreNotTakenForWhatOneServerHolds/T1L3"),
    Mutant(
        "former-on-one-word", "If a server is away, none of the others contradicts a former vault.db",
        ENGINE + "rebuild.cc",
        "if (left_out().empty() || !(", "if (true || left_out().empty() || !(",
        "away_test", "*AwayOfThree.AnEarlierStateCountsIfNoServerContradictsIt/T1L3"),
    Mutant(
        "epochs-without-a-gap", "A restore leaves a gap for sessions that only servers away know",
        ENGINE + "rebuild.cc",
        "(left_out().empty() ? 1 : kUnheard)", "(left_out().empty() ? 1 : kUnheard / kUnheard)",
        "away_test", "*AwayOfThree.OneThatIsAheadComesBackAfterARestore/T1L3"),
    Mutant(
        "given-up-not-listed", "A restore lists the slots that were given up for servers away",
        ENGINE + "rebuild.cc",
        "if (zeros && !is_in_root_buffer(at))", "if (zeros && false && !is_in_root_buffer(at))",
        "away_test", "*GivenUp.IsComparedAfterARestoreToo/T1L3"),
    Mutant(
        "rebuilt-from-one", "A store is rebuilt from fewer than t + 1 only if all servers answer",
        ENGINE + "reenrolment.cc",
        "if (absent.empty() || enough(answering))", "if (true || absent.empty() || enough(answering))",
        "away_test", "*AwayTest.AStoreIsRebuiltWithoutOneOfTheOthers/T1L3"),
    Mutant(
        "any-place-in-a-restore", "A restore takes no slot for that of another place",
        ENGINE + "rebuild.cc",
        "!in_root_buffer && !scheme_->may_be_at",
        "!in_root_buffer && of.empty() && !scheme_->may_be_at",
        "away_test", "*AwayOfThree.ARestoreBindsWhatOneServerShowsToItsPlace/T1L3"),
    Mutant(
        "stragglers-waited-for", "Nobody waits for a server that does not end its part",
        ENGINE + "stragglers.cc",
        "kLaterBy = std::chrono::seconds(2);", "kLaterBy = std::chrono::hours(1000);",
        "line_test", "*LinesOfThree.OneThatNeverEndsItsPartIsLeftOut/T1L3"),
    Mutant(
        "one-accuses", "No server keeps another one out by what it says of the line",
        ENGINE + "line_watch.cc",
        "if (do_without_(chosen, why(chosen))) judge_.left_out(chosen);",
        "static_cast<void>(do_without_(chosen, why(chosen)));",
        "line_test", "*CutLinesOfThree.NoServerKeepsAnotherOneOutByWhatItSaysOfTheLine/T1L3"),
    # ---- a ring
    Mutant(
        "ring-leaf-kept", "An access to a ring gives its block a fresh leaf",
        RING + "ring_engine.cc",
        "return place.has_leaf() && place.leaf != shown ? place.leaf",
        "static_cast<void>(shown);\n  return place.has_leaf() ? place.leaf",
        RING_TEST, "RingView.AnAccessGivesItsBlockAFreshLeaf"),
    Mutant(
        "ring-leaf-redrawn", "A block keeps a leaf that was not shown",
        RING + "ring_engine.cc",
        "return place.has_leaf() && place.leaf != shown ? place.leaf",
        "return false && place.leaf != shown ? place.leaf",
        RING_TEST, "RingTurns.LogABlockAgainBeforeItsSlotIsReused"),
    Mutant(
        "ring-top-at-random", "An access to a block in the top asks along the block's own path",
        RING + "access_records.cc",
        "place.has_leaf() && path == Path::of_block",
        "place.kind == Place::Kind::tree && path == Path::of_block",
        RING_TEST, "RingView.APathDoesNotTellWhetherItsBlockHasLeftTheTop"),
    Mutant(
        "ring-own-path", "The client's own accesses ask along random paths",
        RING + "ring_engine.cc",
        "start(access_alone(turn, std::move(own), Path::random));",
        "start(access_alone(turn, std::move(own), Path::of_block));",
        RING_TEST, "RingTurns.LogABlockAgainBeforeItsSlotIsReused"),
    Mutant(
        "ring-fewer-asks", "An access to nothing asks for as many values as any other",
        RING + "access_records.cc",
        "if (held == ring_.held.end()) continue;",
        "if (held == ring_.held.end()) continue;\n"
        "    if (place.kind == Place::Kind::unmapped && level == ring_.tree.height) continue;",
        RING_TEST, "RingView.ReadsWritesAndAccessesToNothingLookAlike"),
    Mutant(
        "ring-points-redrawn", "An access that is repeated asks for the same points of a version",
        RING + "access_records.cc",
        "asked != before.end() ? *asked", "asked != before.end() && level > 99 ? *asked",
        RING_TEST, "RingView.AnAccessThatIsRepeatedAsksForTheSamePoints"),
    Mutant(
        "ring-cache-reads", "An eviction reads as much of the cache whatever leaves the top",
        RING + "bucket_fetcher.cc",
        "(reads == 0 || reads % at_least != 0)", "reads > at_least",
        RING_TEST, "RingView.AnEvictionReadsAsMuchOfTheCacheWhateverLeavesTheTop"),
    Mutant(
        "ring-one-cache-read", "An access reads a random slot of the cache beside its block's own",
        RING + "ring_retriever.cc",
        "ring_.start(read_cache(block, std::nullopt, other));",
        "if (query.holds_cache)\n    other.ended = true;\n  else\n"
        "    ring_.start(read_cache(block, std::nullopt, other));",
        RING_TEST, "RingView.AnEvictionReadsAsMuchOfTheCacheWhateverLeavesTheTop"),
    Mutant(
        "ring-needed-writes-only",
        "At the opening the client verifies all of the log since the last sync",
        RING + "top_refill.cc",
        "if (access && !is_reused &&",
        "if (ring_.places.top().contains(turn) && access && !is_reused &&",
        RING_TEST, "RingLogs.AreVerifiedAtOpeningWhateverIsNeeded"),
    Mutant(
        "ring-log-not-checked", "At the opening the client verifies what the log has of each turn",
        RING + "top_refill.cc",
        "if (access && !is_reused &&", "if (access && is_reused &&",
        RING_TEST, "RingLogs.AreVerifiedAtOpeningWhateverIsNeeded"),
    Mutant(
        "ring-verdict-on-wanted", "What follows a wrong answer does not depend on what was wanted",
        RING + "ring_retriever.cc",
        "if (std::ranges::count(each, Verdict::altered) > 0) {",
        "if (query.wanted && each[*query.wanted] == Verdict::altered) {",
        RING_TEST, "RingAnswers.ThatNeverFitStopTheVolumeWhateverIsWanted"),
    Mutant(
        "ring-one-stamp", "No two attempts at a ring's rewrite have the same stamp",
        RING + "ring_preparer.cc",
        "rewrite.number << 32 | next_attempt_++;", "rewrite.number << 32 | next_attempt_;",
        RING_TEST, "RingView.AStampDoesNotRepeat"),
    Mutant(
        "ring-bucket-of-wanted", "A bucket that has lost rows is rewritten, wanted or not",
        RING + "ring_retriever.cc",
        "if (std::ranges::count(each, Verdict::lost) == 0)",
        "if (!query.wanted || each[*query.wanted] != Verdict::lost)",
        RING_TEST, "RingAnswers.OfLostRowsHaveTheBucketWrittenAgainWhateverIsWanted"),
    Mutant(
        "ring-no-maintenance", "Every 256th turn belongs to the client",
        RING + "turns.cc",
        "{ return turn % kMaintenanceEvery == kMaintenanceEvery - 1; }",
        "{ return turn > ~Turn{0} - kMaintenanceEvery; }",
        "ring_parts_test", "RingParts.ATurnOfMaintenanceBelongsToTheClientWhateverIsDue"),
    Mutant(
        "ring-last-turn-for-another", "The last turn that can log a block logs no other",
        RING + "turns.cc",
        "return last.value_or(block);", "return block;",
        RING_TEST, "*LastTurnOfAWantedBlock.LogsIt/0"),
    Mutant(
        "ring-log-wins", "Of two copies with one version, a rebuild takes the bucket's",
        RING + "ring_rebuild.cc",
        "(is_same && where == Place::Kind::top)", "(is_same && where == Place::Kind::tree)",
        RING_TEST, "RingLostWrites.AreNotThoseOfBlocksThatHaveLeftTheTop"),
    Mutant(
        "ring-denied-points", "A restore that believes nothing asks for no point again",
        RING + "ring_rebuild.cc",
        "if (believed_ == Asked::everything) {",
        "if (believed_ == Asked::everything && version.stamp == 0) {",
        RING_TEST, "RingRebuild.AsksForNoPointAgainWhateverTheServerSays"),
    Mutant(
        "ring-asked-turns", "A vault that knows fewer turns than have asked is an old copy",
        "serverd/ring/ring_server.cc",
        "|| request.root[0] < asked)", "|| (asked == 0 && request.root[0] != 0))",
        "ring_server_test", "RingServer.RefusesAnOldCopy"),
    Mutant(
        "ring-set-back", "A ring's server that was set back is refused",
        RING + "ring_session.cc",
        "if (found.asked >= acknowledged) return {};",
        "if (found.asked + acknowledged >= acknowledged) return {};",
        RING_TEST, "RingSetBack.IsNoticedWhenTheVolumeIsOpened"),
    # ---- sessions and attempts
    Mutant(
        "epochs", "Messages of another session are refused",
        "serverd/oram/server_state.cc",
        "epoch != control.session().epoch && rule_holds(Rule::epochs)", "false",
        "engine_test", "*EngineTest.FencesAnOlderSession*"),
    Mutant(
        "attempt-twice", "An attempt is begun at most once",
        "serverd/oram/server_eviction.cc",
        "  if (rule_holds(Rule::attempts)) {", "  if (request.epoch == 0) {",
        "protocol_test", "*/Protocol.AnAttemptIsNeverBegunTwice/*"),
]
