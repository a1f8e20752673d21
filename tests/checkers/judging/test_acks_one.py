"""How an acks=1 record may be gone, without Spark: each explanation, and what speaks against it.

Node 1 leads leader epoch 0 from 0 ms; node 2 leads epoch 1 from 100 ms. A record was appended at
offset 12, between 50 and 60 ms, and is not in the final log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from checkers.facts.cuts import Cut, Others, wrong_truncation
from checkers.facts.leadership import Epoch, Leadership
from checkers.judging.acks_one import Lost, Partition, Role, fate

MS = 1_000_000
LOST = Lost(node=1, offset=12, append_from=50 * MS, append_to=60 * MS)
CUT = Cut(node=1, cut_t=200 * MS, to_offset=10, from_offset=20, cut_epoch=1)
READ = {1: "read", 2: "read"}


def led(*leaders: int) -> Leadership:
    """One leader epoch each, every 100 ms."""
    epochs = [
        Epoch(
            leader_epoch=number,
            incarnation=0,
            committed_t=100 * MS * number,
            earliest_t=100 * MS * number - MS,
            leader=leader,
        )
        for number, leader in enumerate(leaders)
    ]
    return Leadership(epochs=epochs)


def role(t_ms: float, leader_epoch: int, *, leads: bool) -> Role:
    t = int(t_ms * MS)
    return Role(earliest_t=t, latest_t=t, leads=leads, leader_epoch=leader_epoch)


def partition(*leaders: int, **more: Any) -> Partition:
    known = {"leadership": led(*leaders or (1, 2)), "replicas": READ, **more}
    return Partition(**known)


def test_a_truncation_after_a_demotion_takes_it() -> None:
    found = fate(LOST, partition(cuts=[CUT]))
    assert (found.name, found.cut) == ("cut", CUT)


def test_nothing_took_it() -> None:
    found = fate(LOST, partition())
    assert (found.name, found.why) == ("unexplained", "no truncation took it")


@pytest.mark.parametrize(
    "cut",
    [
        replace(CUT, node=3),  # a follower's
        replace(CUT, to_offset=13),
        replace(CUT, from_offset=12),
        replace(CUT, cut_t=40 * MS),  # before it was appended
        replace(CUT, wrong="nobody demoted it"),
    ],
)
def test_a_truncation_that_is_none_of_it(cut: Cut) -> None:
    assert fate(LOST, partition(cuts=[cut])).name == "unexplained"
    anybody = replace(LOST, node=None)
    assert fate(anybody, partition(cuts=[cut])).name == "unexplained"


@pytest.mark.parametrize("leaders", [(1,), (1, -1), (1, 1)])
def test_without_another_leader_no_truncation_is_lawful(leaders: tuple[int, ...]) -> None:
    found = fate(LOST, partition(*leaders, cuts=[CUT]))
    assert found.name == "unexplained"
    assert "no other leader" in found.why


def test_a_broker_that_never_led_cannot_have_acknowledged() -> None:
    assert fate(replace(LOST, node=3), partition(cuts=[replace(CUT, node=3)])).why.startswith(
        "no leader was committed"
    )


def test_a_leader_to_be_cannot_have_acknowledged() -> None:
    """Node 2 was committed only after the record was appended."""
    of = partition(1, 2, 3, cuts=[replace(CUT, node=2)])
    assert fate(replace(LOST, node=2), of).name == "unexplained"


@pytest.mark.parametrize(("end", "name"), [(11, "cut"), (12, "unexplained"), (30, "unexplained")])
def test_the_final_log_goes_on_in_that_epoch(end: int, name: str) -> None:
    """Whoever has a later record of the only writer must have this one."""
    assert fate(LOST, partition(cuts=[CUT], ends={0: end, 1: 40})).name == name


def test_an_offset_that_nobody_knows_is_not_held_against_the_final_log() -> None:
    of = partition(cuts=[CUT], ends={0: 30})
    assert fate(replace(LOST, offset=None), of).name == "cut"


def test_an_epoch_in_the_same_reign_is_the_same_writer() -> None:
    """A controller that takes a dead follower out of the in-sync set counts the leader epoch up."""
    cut = replace(CUT, cut_epoch=2, cut_t=300 * MS)
    late = replace(LOST, append_from=95 * MS, append_to=105 * MS)  # epoch 0 or 1
    assert fate(late, partition(1, 1, 2, cuts=[cut], ends={1: 12})).name == "unexplained"
    assert fate(late, partition(1, 1, 2, cuts=[cut], ends={2: 40})).name == "cut"


def test_where_the_reign_is_uncertain_nothing_is_said() -> None:
    """Node 1 led epochs 0 and 2: the record may be of either, and only the other one survived."""
    cut = replace(CUT, cut_epoch=3, cut_t=400 * MS)
    late = replace(LOST, append_from=150 * MS, append_to=250 * MS)
    assert fate(late, partition(1, 2, 1, 2, cuts=[cut], ends={0: 30})).name == "cut"


def test_a_brokers_word_on_its_roles_is_taken_against_it() -> None:
    """It said that it followed, before the record was appended: then it cannot have appended it."""
    of = partition(cuts=[CUT], roles={1: [role(45, 1, leads=False)]})
    assert fate(LOST, of).name == "unexplained"
    of = partition(cuts=[CUT], roles={1: [role(55, 1, leads=False)]})
    assert fate(LOST, of).name == "cut"


def test_the_epoch_that_it_says_it_led_narrows_the_reign() -> None:
    cut = replace(CUT, cut_epoch=3, cut_t=400 * MS)
    late = replace(LOST, append_from=210 * MS, append_to=250 * MS)
    of = partition(1, 2, 1, 2, cuts=[cut], ends={2: 30}, roles={1: [role(205, 2, leads=True)]})
    assert fate(late, of).name == "unexplained"


def test_a_process_that_did_not_run_acknowledged_nothing() -> None:
    away = replace(LOST, node=None, away=frozenset({1}))
    assert fate(away, partition(cuts=[CUT])).name == "unexplained"
    assert fate(replace(away, away=frozenset({2})), partition(cuts=[CUT])).name == "cut"


def test_where_the_client_was_not_told_any_leader_will_do() -> None:
    assert fate(replace(LOST, node=None), partition(cuts=[CUT])).name == "cut"


@pytest.mark.parametrize(
    ("lost", "more", "name"),
    [
        (LOST, {"replicas": {1: "down", 2: "read"}}, "stranded"),
        (LOST, {"replicas": {1: "unread", 2: "read"}}, "unread"),
        (LOST, {"replicas": {2: "read"}}, "removed"),
        (LOST, {"traced": False}, "untraced"),
        (replace(LOST, damaged=frozenset({1})), {}, "damage"),
        (replace(LOST, holders=frozenset({1})), {}, "held"),
        (replace(LOST, damaged=frozenset({2})), {}, "unexplained"),
        (replace(LOST, holders=frozenset({2})), {}, "unexplained"),
        (LOST, {"replicas": {1: "read", 2: "down"}}, "unexplained"),
        (LOST, {"leadership": None}, "undecided"),
    ],
)
def test_other_ways_to_go(lost: Lost, more: dict[str, Any], name: str) -> None:
    """Each needs the demotion all the same; the broker's own state, not another's."""
    assert fate(lost, partition(**more)).name == name
    if more.get("leadership", 1) is not None:
        alone = {**more, "leadership": led(1)}
        assert fate(lost, partition(**alone)).name == "unexplained"


def test_a_replica_that_was_deleted_and_is_one_to_the_end_explains_nothing() -> None:
    whole = replace(CUT, to_offset=0, from_offset=2**62, cut_epoch=None)
    assert fate(LOST, partition(cuts=[whole])).name == "removed"
    wrong = replace(whole, wrong="it is a replica to the end")
    assert "replica to the end" in fate(LOST, partition(cuts=[wrong])).why


# -- truncations by themselves ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cut_ms", "epoch", "wrong"),
    [
        (200, 1, None),
        (99.5, 1, None),  # the watch saw the commit only then
        (90, 1, "only later"),
        (200, 0, "it led in leader epoch 0 itself"),
        (200, 5, "never committed"),
        (200, -1, "never committed"),
        (200, None, None),
        (90, None, "no other leader"),
    ],
)
def test_a_follower_cuts_for_a_committed_leader(
    cut_ms: float, epoch: int | None, wrong: str | None
) -> None:
    cut = replace(CUT, cut_t=int(cut_ms * MS), cut_epoch=epoch)
    found = wrong_truncation(cut, Others(led(1, 2)), 10_000 * MS)
    assert (found is None) == (wrong is None)
    assert wrong is None or wrong in str(found)


def test_an_epoch_that_the_watch_did_not_live_to_see_is_not_held_against_it() -> None:
    assert wrong_truncation(replace(CUT, cut_epoch=5), Others(led(1, 2)), 300 * MS) is None


def test_a_cut_may_be_reported_just_after_its_broker_was_told_to_lead() -> None:
    known = led(2, 1)
    assert wrong_truncation(replace(CUT, cut_t=150 * MS), Others(known), 0) is None
    assert wrong_truncation(replace(CUT, cut_t=1200 * MS), Others(known), 0) is not None


def test_an_epoch_that_was_missed_may_have_had_any_leader() -> None:
    known = led(1, 1)
    known.epochs[1] = replace(known.epochs[1], committed_t=None, earliest_t=None, leader=None)
    assert wrong_truncation(CUT, Others(known), 10_000 * MS) is None
    assert wrong_truncation(CUT, None, 10_000 * MS) is None
