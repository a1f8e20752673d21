"""The registry of planted bugs, and what single rules do once they are broken."""

import dataclasses
import re

import pytest

from checkers.promises import promise
from nodes.core.acks import ACKNOWLEDGED
from nodes.core.assignment import ReplicaAssignment
from nodes.core.batching import BatchBuilder
from nodes.core.errors import Errors
from nodes.core.isr import NEVER_MS, FollowerState, committed
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.mutants import MUTANTS, UnknownMutant, rules_with

TP = TopicPartition("t", 0)


def test_without_names_the_rules_are_the_correct_ones() -> None:
    assert rules_with([]) is RULES


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_breaks_exactly_the_rules_it_names(name: str) -> None:
    mutant = MUTANTS[name]
    rules = rules_with([name])
    broken = {
        field.name
        for field in dataclasses.fields(Rules)
        if getattr(rules, field.name) is not getattr(RULES, field.name)
    }
    assert broken == set(mutant.breaks)
    assert mutant.says
    assert re.match(r"(KAFKA-\d+|KIP-\d+)\b.*: \S", mutant.stands_for)


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_names_a_rule_of_the_promise_that_must_find_it(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.rule in promise(mutant.found_by).rules


def test_mutants_add_up() -> None:
    rules = rules_with(["double-append", "never-truncate"])
    assert rules.appends_per_batch() == 2
    assert rules.truncation_for is MUTANTS["never-truncate"].breaks["truncation_for"]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownMutant, match="'off-by-one'; allowed: skip-controller"):
        rules_with(["off-by-one"])


# ---- what broken rules do, beside the correct ones -----------------------------------------------


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("skip-controller-znode-check", "checks_controller_znode"),
        ("drop-torn-tail-check", "verifies_log_tail"),
        ("tell-no-one-of-elections", "tells_all_of_elections"),
        ("never-register-again", "registers_again"),
        ("forget-group-offsets", "loads_groups"),
        ("forget-producers", "keeps_producers"),
        ("remember-last-batches-alone", "remembers_batches"),
        ("lose-isr-changes", "sends_isr_changes"),
        ("remember-followers", "forgets_followers"),
        ("stop-without-handing-over", "hands_over"),
        ("leave-waiting-when-demoted", "answers_at_demotion"),
        ("ignore-heartbeats", "heartbeats_count"),
        ("keep-what-is-erased", "erases_on_load"),
        ("acknowledge-duplicates-at-once", "awaits_duplicates"),
        ("acknowledge-beside-a-refusal", "awaits_beside_refusals"),
        ("confuse-producer-epochs", "tells_producer_epochs_apart"),
        ("wipe-out-overrides", "keeps_overrides"),
        ("go-on-without-a-disk", "halts_without_disks"),
        ("forget-the-dead-at-failover", "looks_for_the_dead"),
        ("remember-groups-of-before", "forgets_at_resignation"),
        ("tell-who-comes-of-its-own-alone", "tells_all_to_who_comes"),
        ("leave-settings-behind", "deletes_settings"),
        ("stop-at-who-cannot-go", "looks_at_all_who_wait"),
        ("let-who-waits-wait", "wakes_who_waits"),
        ("tell-what-is-not-kept", "takes_in_what_is_kept"),
        ("go-on-with-what-is-called-off", "calls_off_moves"),
        ("list-no-moves", "lists_moves"),
        ("answer-out-of-turn", "mutes_who_waits"),
        ("measure-the-other-plane", "measures_own_plane"),
        ("hear-nothing-while-stopping", "hears_until_relieved"),
        ("miss-what-changed-meanwhile", "looks_for_what_it_missed"),
        ("name-what-others-lead", "counts_what_remains"),
        ("keep-what-is-old", "lets_go_of_the_old"),
        ("halt-deletions-for-good", "goes_on_after_moves"),
        ("leave-who-never-led-alone", "tries_new_ones"),
        ("ignore-what-is-allowed", "heeds_what_is_allowed"),
        ("wait-for-who-is-given-up", "gives_up_requests"),
        ("leave-who-waits-for-a-part", "frees_who_syncs"),
        ("forget-who-came-back", "keeps_who_came_back"),
        ("erase-from-memory-alone", "erases_what_expires"),
    ],
)
def test_what_is_left_out(name: str, rule: str) -> None:
    assert getattr(RULES, rule)() is True
    assert getattr(rules_with([name]), rule)() is False


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("append-as-follower", "may_append_as_follower"),
        ("count-diverging-fetch", "counts_diverging_fetches"),
        ("commit-below-min-isr", "commits_below_min_isr"),
    ],
)
def test_what_is_allowed(name: str, rule: str) -> None:
    assert getattr(RULES, rule)() is False
    assert getattr(rules_with([name]), rule)() is True


def test_who_is_gone_is_waited_for() -> None:
    wrong = rules_with(["wait-for-the-gone"])
    assert [RULES.holds_deletions_up(alive) for alive in (True, False)] == [True, False]
    assert wrong.holds_deletions_up(False)
    assert wrong.low_watermark(9, [3]) == 3


def test_what_is_waited_for() -> None:
    wrong = rules_with(["answer-for-what-is-appended"])
    assert (RULES.awaited_end(False, 3, 9), wrong.awaited_end(False, 3, 9)) == (3, 9)
    assert wrong.readable_end(False, 3, 9) == 3, "and given nothing of that"


def test_who_waits_to_be_acknowledged() -> None:
    wrong = rules_with(["let-one-wait-for-all"])
    assert [each for each in (-1, 0, 1) if RULES.awaits_commit(each)] == [-1]
    assert [each for each in (-1, 0, 1) if wrong.awaits_commit(each)] == [-1, 1]


def test_listeners() -> None:
    bypass = rules_with(["bypass-control-listener"])
    assert RULES.controllers_listener("DATA", "CONTROL") == "CONTROL"
    assert bypass.controllers_listener("DATA", "CONTROL") == "DATA"
    assert RULES.controllers_listener("DATA", None) == bypass.controllers_listener("DATA", None)
    wrong = rules_with(["fetch-from-control-listener"])
    assert RULES.replication_listener("DATA", "CONTROL") == "DATA"
    assert wrong.replication_listener("DATA", "CONTROL") == "CONTROL"
    assert wrong.replication_listener("DATA", None) == "DATA"


def test_high_watermarks() -> None:
    slow, fast = (
        FollowerState(end, 0, 0, NEVER_MS, NEVER_MS)  # who they are is all that counts here
        for end in (3, 7)
    )
    followers = [(slow, True, True), (fast, True, True)]
    wrong = rules_with(["commit-with-one-follower"]).leader_high_watermark
    assert RULES.leader_high_watermark(0, 9, followers, now_ms=0, lag_max_ms=1) == 3
    assert wrong(0, 9, followers, now_ms=0, lag_max_ms=1) == 7
    assert wrong(8, 9, followers, now_ms=0, lag_max_ms=1) == 8, "it never goes back either"
    assert RULES.follower_high_watermark(5, 2, 9) == 5
    assert rules_with(["keep-follower-watermark"]).follower_high_watermark(5, 2, 9) == 2


def test_who_fetches_and_never_has_it_all() -> None:
    late = FollowerState(3, 0, 7, 95, 10)  # fetched a moment ago, and caught up long before
    gone = FollowerState(3, 0, 7, 10, 10)
    wrong = rules_with(["keep-who-fetches"]).out_of_sync
    for rule, out in ((RULES.out_of_sync, {2, 3}), (wrong, {3})):
        lag = {"local_id": 1, "leader_end": 9, "now_ms": 100, "lag_max_ms": 50}
        assert rule(committed({1, 2, 3}), {2: late, 3: gone}, **lag) == out


def test_who_lags_for_less_than_the_limit() -> None:
    lagging = FollowerState(3, 0, 7, 80, 80)
    lag = {"local_id": 1, "leader_end": 9, "now_ms": 100, "lag_max_ms": 50}
    wrong = rules_with(["drop-who-lags-for-a-moment"]).out_of_sync
    for rule, out in ((RULES.out_of_sync, set()), (wrong, {2})):
        assert rule(committed({1, 2}), {2: lagging}, **lag) == out


def test_who_is_to_join() -> None:
    wrong = rules_with(["join-when-it-is-agreed"]).proposing_expansion
    for rule, counts in ((RULES.proposing_expansion, {1, 2, 3}), (wrong, {1, 2})):
        state = rule(committed({1, 2}), 3)
        assert (state.isr, state.maximal_isr, state.proposed) == ({1, 2}, counts, {1, 2, 3})


def test_how_far_records_may_be_deleted() -> None:
    assert RULES.deletable_end(5, 9) == 5
    assert rules_with(["delete-what-is-not-committed"]).deletable_end(5, 9) == 9


def test_the_end_of_a_move() -> None:
    assert RULES.move_is_complete((2, 3), (1, 2, 3))
    assert not RULES.move_is_complete((2, 3), (1, 2))
    assert rules_with(["move-at-once"]).move_is_complete((2, 3), (1, 2))


def test_what_a_move_leaves() -> None:
    assert RULES.replicas_after_move((3, 1, 2)) == (3, 1, 2)
    assert rules_with(["move-to-the-same-set"]).replicas_after_move((3, 1, 2)) == (1, 2, 3)


def test_what_a_new_leader_tells() -> None:
    assert [RULES.knows_its_end(hw, 5) for hw in (4, 5, 6)] == [False, True, True]
    assert all(rules_with(["tell-the-end-too-soon"]).knows_its_end(hw, 5) for hw in (4, 5, 6))
    assert RULES.epoch_answered_for(2, 3) == 2
    assert rules_with(["answer-for-the-asked-epoch"]).epoch_answered_for(2, 3) == 3


def test_how_much_a_new_coordinator_reads() -> None:
    assert RULES.groups_upto(5, 9) == 9
    assert rules_with(["load-groups-to-the-watermark"]).groups_upto(5, 9) == 5


def test_preferred_elections() -> None:
    state = LeaderAndIsr(2, (2, 3), leader_epoch=4)
    wrong = rules_with(["elect-any-preferred"]).elect_preferred
    assert RULES.elect_preferred(state, [1, 2, 3], {1, 2, 3}) is None
    elected = wrong(state, [1, 2, 3], {1, 2, 3})
    assert (elected.leader, elected.leader_epoch, elected.isr) == (1, 5, (2, 3))
    assert wrong(state, [1, 2, 3], {2, 3}) is None
    assert wrong(state, [3, 2, 1], {3}) == RULES.elect_preferred(state, [3, 2, 1], {3})


def test_elections() -> None:
    state = LeaderAndIsr(1, (1, 3), leader_epoch=4)
    kept = {"unclean_allowed": False}
    elected = RULES.elect_for_offline(state, (1, 2, 3), (2, 3), **kept)
    assert elected == LeaderAndIsr(3, (3,), leader_epoch=5)
    wrong = rules_with(["elect-outside-isr"]).elect_for_offline
    assert wrong(state, (1, 2, 3), (2, 3), **kept) == LeaderAndIsr(2, (2, 3), leader_epoch=5)
    assert wrong(state, (1, 2, 3), (), **kept) is None
    unclean = rules_with(["elect-when-none-is-in-sync"]).elect_for_offline
    assert unclean(state, (1, 2, 3), (2, 3), **kept) == elected
    assert RULES.elect_for_offline(state, (1, 2, 3), (2,), **kept) is None
    assert unclean(state, (1, 2, 3), (2,), **kept) is not None
    both = LeaderAndIsr(1, (1, 2, 3), leader_epoch=4)
    last = rules_with(["elect-the-last-in-order"]).elect_for_offline
    in_turn = RULES.elect_for_offline(both, (1, 2, 3), (2, 3), **kept)
    assert in_turn == LeaderAndIsr(2, (2, 3), leader_epoch=5)
    assert last(both, (1, 2, 3), (2, 3), **kept) == LeaderAndIsr(3, (2, 3), leader_epoch=5)
    assert last(state, (1, 2, 3), (2,), **kept) is None
    assert RULES.elected_leader_epoch(4, 5) == 5
    assert rules_with(["reuse-leader-epoch"]).elected_leader_epoch(4, 5) == 4


def test_broker_epochs() -> None:
    rules = rules_with(["refuse-newer-broker-epoch"])
    assert RULES.known_broker_epoch(10, 20) == 20
    assert rules.known_broker_epoch(10, 20) == 10
    assert [RULES.broker_epoch_is_stale(n, 10) for n in (-1, 9, 10, 11)] == [0, 1, 0, 0]
    assert [rules.broker_epoch_is_stale(n, 10) for n in (-1, 9, 10, 11)] == [0, 1, 0, 1]


def test_deletions() -> None:
    at_once = rules_with(["forget-replicas-of-deleted"]).deletion_is_complete
    first = rules_with(["gone-at-first-answer"]).deletion_is_complete
    assert [RULES.deletion_is_complete(n, 3) for n in range(4)] == [False, False, False, True]
    assert [at_once(n, 3) for n in range(4)] == [True, True, True, True]
    assert [first(n, 3) for n in range(4)] == [False, True, True, True]
    stops = [RULES, rules_with(["keep-deleted-logs"]), rules_with(["delete-at-every-stop"])]
    assert [[r.stop_deletes(asked) for asked in (False, True)] for r in stops] == [
        [False, True], [False, False], [True, True],
    ]  # fmt: skip


def test_log_starts() -> None:
    assert RULES.follower_log_start(3, 7) == 7
    assert rules_with(["keep-own-log-start"]).follower_log_start(3, 7) == 3
    alone = rules_with(["delete-on-the-leader-alone"]).low_watermark
    assert [RULES.low_watermark(7, of) for of in ([], [9, 3], [8])] == [7, 3, 7]
    assert [alone(7, of) for of in ([], [9, 3], [8])] == [7, 7, 7]


def test_who_knows_of_a_later_leader_epoch() -> None:
    wrong = rules_with(["serve-unheard-epochs"]).client_epoch_error
    fenced, unheard = Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_LEADER_EPOCH
    asked = (-1, 3, 4, 5)
    assert [RULES.client_epoch_error(e, 4) for e in asked] == [0, fenced, 0, unheard]
    assert [wrong(e, 4) for e in asked] == [0, fenced, 0, 0]


def test_who_dies_leaves() -> None:
    wrong = rules_with(["leave-the-dead-in-sync"]).without_replica
    led, followed = LeaderAndIsr(1, (1, 2), leader_epoch=4), LeaderAndIsr(2, (1, 2), leader_epoch=4)
    assert RULES.without_replica(led, 1) == LeaderAndIsr(-1, (2,), leader_epoch=5)
    assert wrong(led, 1) == LeaderAndIsr(-1, (1, 2), leader_epoch=5)
    assert RULES.without_replica(followed, 1) == LeaderAndIsr(2, (2,), leader_epoch=5)
    assert wrong(followed, 1) == LeaderAndIsr(2, (1, 2), leader_epoch=5)


def test_groups_and_producers() -> None:
    same = rules_with(["assign-the-same-to-all"]).assignment_of
    given = {"a": b"0", "b": b"1, 2"}
    assert [RULES.assignment_of(given, member) for member in "abc"] == [b"0", b"1, 2", b""]
    assert [same(given, member) for member in "abc"] == [b"1, 2"] * 3
    assert same({}, "a") == b""
    assert RULES.effective_min_isr(2, 3) == 2
    assert rules_with(["ignore-min-isr"]).effective_min_isr(2, 3) == 1


def test_refusals() -> None:
    stale = Errors.STALE_CONTROLLER_EPOCH
    applies = rules_with(["apply-what-is-refused"]).applies_in_spite_of
    assert not RULES.applies_in_spite_of(stale)
    assert applies(stale)
    assert not applies(Errors.INCONSISTENT_TOPIC_ID)
    wrong = rules_with(["refuse-with-another-error"]).stop_replica_error
    epochs = ((3, 4), (4, 4), (-2, 4))
    fenced = Errors.FENCED_LEADER_EPOCH
    assert [RULES.stop_replica_error(*e) for e in epochs] == [fenced, Errors.NONE, Errors.NONE]
    assert [wrong(*e) for e in epochs] == [stale, Errors.NONE, Errors.NONE]


def test_acknowledgements_and_membership() -> None:
    assert RULES.acknowledgement_after_demotion().error is Errors.NOT_LEADER_OR_FOLLOWER
    deposed = rules_with(["ack-after-demotion"]).acknowledgement_after_demotion()
    assert deposed == ACKNOWLEDGED
    assert RULES.may_join_isr(5, 5, 5)
    assert not rules_with(["never-expand-isr"]).may_join_isr(5, 5, 5)
    below = rules_with(["join-below-the-epoch"]).may_join_isr
    assert [below(5, 5, 9), below(4, 5, 5)] == [True, False]
    assert not RULES.may_join_isr(5, 5, 9)
    assert RULES.skipped_offsets() == 0
    assert rules_with(["skip-an-offset"]).skipped_offsets() == 1


class _View:
    """Two live brokers, and a partition that broker 1 leads."""

    live_or_shutting_down_broker_ids = (1, 2)

    def is_topic_queued_up_for_deletion(self, _topic: str) -> bool:
        return False

    def partition_leadership_info(self, _tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        return LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1, 2)), 1)

    def partition_replica_assignment(self, _tp: TopicPartition) -> tuple[int, ...]:
        return (1, 2)

    def is_replica_online(self, _broker_id: int, _tp: TopicPartition) -> bool:
        return True

    def leader_epoch(self, _tp: TopicPartition) -> int:
        return 0


@pytest.mark.parametrize(("is_new", "tells", "told"), [(0, 1, 1), (0, 0, 0), (1, 0, 1)])
def test_who_is_told_of_elections(is_new: int, tells: int, told: int) -> None:
    builder = BatchBuilder(_View(), tells_all_of_elections=bool(tells))
    info = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1, 2)), 1)
    builder.add_leader_and_isr([1], TP, info, ReplicaAssignment((1, 2)), is_new=bool(is_new))
    batch = builder.take()
    assert list(batch.leader_and_isr) == [1]
    assert bool(batch.update_metadata_brokers) == bool(told)


def test_who_may_speak_for_a_group() -> None:
    wrong = rules_with(["obey-past-generations"]).is_present_generation
    assert [RULES.is_present_generation(g, 2) for g in (1, 2, 3)] == [False, True, False]
    assert all(wrong(g, 2) for g in (1, 2, 3))


def test_which_offsets_are_told() -> None:
    assert RULES.searched_time_ms(5) == 5
    assert rules_with(["list-after-a-time"]).searched_time_ms(5) == 6
    assert RULES.told_epoch_end(3, 9) == 3
    assert rules_with(["end-past-epochs-at-the-log-end"]).told_epoch_end(3, 9) == 9


def test_whom_a_leader_waits_for_that_asks_for_a_smaller_set() -> None:
    wrong = rules_with(["shrink-before-it-is-agreed"]).proposing_shrink
    assert RULES.proposing_shrink(committed({1, 2}), {2}).maximal_isr == {1, 2}
    assert wrong(committed({1, 2}), {2}).maximal_isr == {1}
    assert RULES.proposing_shrink(committed({1, 2}), {2}).proposed == {1}
    assert wrong(committed({1, 2}), {2}).proposed == {1}


def test_who_is_out_of_sync() -> None:

    gone = FollowerState(3, 0, 0, NEVER_MS, NEVER_MS)
    asked = {"local_id": 1, "leader_end": 9, "now_ms": 99, "lag_max_ms": 1}
    wrong = rules_with(["never-shrink-isr"]).out_of_sync
    assert RULES.out_of_sync(committed({1, 2}), {2: gone}, **asked) == {2}
    assert wrong(committed({1, 2}), {2: gone}, **asked) == set()


def test_what_a_new_leader_calls_committed() -> None:
    assert RULES.high_watermark_at_election(3, 9) == 3
    assert rules_with(["take-all-for-committed"]).high_watermark_at_election(3, 9) == 9


def test_whose_endpoints_clients_are_told() -> None:
    assert RULES.clients_listener("CLIENT", "REPLICATION") == "CLIENT"
    wrong = rules_with(["send-clients-elsewhere"]).clients_listener
    assert wrong("CLIENT", "REPLICATION") == "REPLICATION"


def test_who_asks_for_all_topics() -> None:
    right, wrong = RULES, rules_with(["show-old-clients-nothing"])
    asked = [(None, 9), ([], 9), (["t"], 0), ([], 0)]
    assert [right.asks_for_all_topics(*one) for one in asked] == [True, False, False, True]
    assert [wrong.asks_for_all_topics(*one) for one in asked] == [True, False, False, False]


def test_how_long_a_member_may_be_silent() -> None:
    assert RULES.session_timeout_ms(1500) == 1500
    assert rules_with(["wait-for-who-is-gone"]).session_timeout_ms(1500) > 600_000


def test_a_generation_that_is_kept_unless_somebody_is_new() -> None:
    kept = rules_with(["keep-generations"]).next_generation
    assert [RULES.next_generation(4, new) for new in (True, False)] == [5, 5]
    assert [kept(4, new) for new in (True, False)] == [5, 4]
    assert kept(0, False) == 1


def test_a_protocol_that_only_the_first_member_knows() -> None:
    wrong = rules_with(["go-by-the-first-members-favourite"]).chosen_protocol
    for offers, right in (
        ([["sticky", "range"], ["range"]], "range"),
        ([["range"], ["sticky", "range"]], "range"),
        ([["a", "b"], ["b", "a"], ["b", "a"]], "b"),
    ):
        assert RULES.chosen_protocol(offers) == right
        assert wrong(offers) == offers[0][0]


def test_how_long_acks_all_waits() -> None:
    assert RULES.ack_wait_ms(750) == 750
    wrong = rules_with(["wait-beyond-timeouts"]).ack_wait_ms
    assert [wrong(750), wrong(90_000)] == [60_000, 90_000]
