"""What a broker lost without a word, and what it lost lawfully."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises import replicas
from checkers.promises.replicas.kept_logs import kept_logs
from tests.checkers.conftest import Story


def role(story: Any, t: float, end: int | None, node: int = 2, **more: Any) -> None:
    fields = {"role": "follower", "leader": 1, "leader_epoch": 1, **more}
    story.add("leader_change", t, node=node, log_end_offset=end, **fields)


def cut(story: Any, t: float, to: int, node: int = 2, **more: Any) -> None:
    story.add("truncation", t, node=node, from_offset=10, to_offset=to, leader_epoch=1, **more)


def emptied() -> Story:
    """Broker 2 had ten records, and begins its next role with none."""
    story = Story()
    role(story, 1000, 10)
    role(story, 9000, 0)
    return story


def shrunk(story: Any, spark: Any) -> list[tuple[int, int, int]]:
    found = kept_logs(story.history(spark)).shrunk
    return [(one.node, one.before, one.after) for one in found]


def test_a_log_that_ends_earlier_than_before(spark: Any) -> None:
    assert shrunk(emptied(), spark) == [(2, 10, 0)]
    story = Story()
    role(story, 1000, 10)
    story.final_log({v: v for v in range(9)}, node=2, leader=False)
    assert shrunk(story, spark) == [(2, 10, 9)]


def test_a_cut_that_did_not_go_so_far(spark: Any) -> None:
    story = emptied()
    cut(story, 5000, 4)
    assert shrunk(story, spark) == [(2, 10, 0)]


LAWFUL: dict[str, Callable[[Any], None]] = {
    "it was cut": lambda s: cut(s, 5000, 0),
    "its cut was told a little later": lambda s: cut(s, 9100, 0),
    "it was deleted": lambda s: s.add("replica_stop", 5000, node=2, delete=True),
    "its topic was deleted": lambda s: s.add("topic_deletion", 5000, topic="t", step="gone"),
    "its disk was lost": lambda s: s.add("fault", 5000, fault="wipe-disk", nodes=[2]),
    "its tail was torn": lambda s: s.add("fault", 5000, fault="torn-tail", nodes=[2]),
}
NOT_ENOUGH: dict[str, Callable[[Any], None]] = {
    "another was cut": lambda s: cut(s, 5000, 0, node=3),
    "another partition was cut": lambda s: cut(s, 5000, 0, partition=1),
    "it was cut before": lambda s: cut(s, 500, 0),
    "it was cut much later": lambda s: cut(s, 19_000, 0),
    "another's disk was lost": lambda s: s.add("fault", 5000, fault="wipe-disk", nodes=[3]),
    "it was stopped": lambda s: s.add("replica_stop", 5000, node=2, delete=False),
}


@pytest.mark.parametrize("why", [*LAWFUL, *NOT_ENOUGH])
def test_what_explains_it(spark: Any, why: str) -> None:
    story = emptied()
    (LAWFUL | NOT_ENOUGH)[why](story)
    assert bool(shrunk(story, spark)) is (why in NOT_ENOUGH)


TORN = '{"mode":"%s","partition":"%s","from_offset":%d}'


@pytest.mark.parametrize(
    ("detail", "broken", "taken"),
    [
        (TORN % ("cut", "t-0", 0), False, 1),
        (TORN % ("cut", "t-0", 7), True, 0),  # it took 7 to 9, and no more
        (TORN % ("cut", "u-0", 0), True, 0),
        (TORN % ("torn", "t-0", 0), True, 0),  # it added to the log, and took nothing
    ],
)
def test_a_fault_took_what_it_cut(spark: Any, detail: str, broken: bool, taken: int) -> None:
    story = emptied()
    story.add("fault", 5000, id="f", fault="torn-tail", nodes=[2], detail=detail)
    found = kept_logs(story.history(spark))
    assert bool(found.shrunk) is broken
    assert sum(found.taken.values()) == taken


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        ("it is a replica all along", True),
        ("it was moved away", False),
        ("a forger asked for it", False),
        ("a forger asked another", True),
        ("its topic was deleted", False),
    ],
)
def test_its_own_word_that_it_was_deleted(spark: Any, how: str, broken: bool) -> None:
    story = emptied()
    story.add("replica_stop", 5000, node=2, delete=True)
    story.add("zk_write", 10, zxid=1, what="topic", step="created", replicas=[1, 2])
    if how == "it was moved away":
        story.add("zk_write", 20, zxid=2, what="topic", step="set", replicas=[1, 3])
    if "forger" in how:
        story.add("forged", 4990, node=3 if "another" in how else 2, api="STOP_REPLICA", error=0,
                  lie="future_leader_epoch")  # fmt: skip
    if how == "its topic was deleted":
        story.add("topic_deletion", 4000, topic="t", step="gone")
    assert bool(shrunk(story, spark)) is broken


def test_logs_that_grow_or_are_not_told_of(spark: Any) -> None:
    story = Story()
    role(story, 1000, 10)
    role(story, 2000, None)
    role(story, 3000, 10)
    role(story, 4000, 0, node=3)
    role(story, 5000, 0, partition=1)
    role(story, 6000, 12)
    assert shrunk(story, spark) == []
    assert kept_logs(story.history(spark)).compared == {(story.arm, 0): 2}


def test_it_is_the_replicas_promise(spark: Any) -> None:
    story = emptied()
    story.final_log({v: v for v in range(12)}, node=1)
    story.final_log({v: v for v in range(12)}, node=2, leader=False)
    outcome = replicas.check(story.history(spark))
    assert outcome.counts == {"log-went-back": 1}
    says = outcome.findings[0].says
    assert "node 2's log of t-0 had all below 10, and later ended at 0" in says


# ---- what acks=all promised ----------------------------------------------------------------------


def promised(*, out_t: float | None = 5000) -> Story:
    """Broker 2 begins with nothing, is in sync while ten records are acknowledged with acks=all,
    leaves the set, and comes back with nothing."""
    story = Story()
    role(story, 500, 0)
    story.commit(600, 1, 0)
    for value in range(10):
        story.produce(1000 + value, value, value, acks=-1)
    if out_t is not None:
        story.commit(out_t, 1, 0, isr=[1, 3], partition_epoch=1)
    role(story, 9000, 0)
    return story


def test_what_was_promised_of_it_while_it_was_in_sync(spark: Any) -> None:
    assert shrunk(promised(), spark) == [(2, 10, 0)]
    assert shrunk(promised(out_t=None), spark) == [(2, 10, 0)]
    assert shrunk(promised(out_t=1050), spark) == []  # too near to tell


def in_sync_again(story: Any) -> None:
    """What was promised before it left, and while it was away, is another thing."""
    story.commit(8000, 1, 0, isr=[1, 2, 3], partition_epoch=2)


def with_acks_one(story: Any) -> None:
    for row in story.rows["produce"]:
        row["acks"] = 1


def began_before(story: Any) -> None:
    for row in story.rows["produce"]:
        row["invoke_t"] = 100 * 1_000_000


@pytest.mark.parametrize("why", [in_sync_again, with_acks_one, began_before, *LAWFUL.values()])
def test_what_was_not_promised_of_it(spark: Any, why: Callable[[Any], None]) -> None:
    story = promised()
    why(story)
    assert shrunk(story, spark) == []


# ---- what is told of, and may not be ------------------------------------------------------------


def too_far(story: Any, spark: Any) -> list[tuple[int, int, int]]:
    return [(one.node, one.before, one.after) for one in kept_logs(story.history(spark)).cut]


def in_sync_and_cut(to: int, t: float = 7000, **more: Any) -> Story:
    """Broker 2 is in sync while ten records are promised; then it cuts."""
    story = Story()
    story.commit(600, 1, 0, isr=[1, 2])
    for value in range(10):
        story.produce(1000 + value, value, value, acks=-1)
    cut(story, t, to, **more)
    return story


OUTSIDE: dict[str, Callable[[Any], None]] = {
    "its disk was lost": LAWFUL["its disk was lost"],
    "its tail was torn": LAWFUL["its tail was torn"],
    "its topic was deleted": LAWFUL["its topic was deleted"],
    "retention took its beginning": lambda s: s.rows["truncation"][0].update(reason="log start"),
    "there was nothing to be cut": lambda s: s.rows["truncation"][0].update(from_offset=4),
    "with acks=1": with_acks_one,
    "offered before it was in sync": began_before,
    "it was not in sync": lambda s: s.rows["leadership"][0].update(isr=[1, 3]),
}


@pytest.mark.parametrize(
    ("to", "t", "broken"),
    [(4, 7000, True), (9, 7000, True), (10, 7000, False), (4, 1900, False), (4, 900, False)],
)
def test_nobody_cuts_what_was_promised_of_it(spark: Any, to: int, t: float, broken: bool) -> None:
    story = in_sync_and_cut(to, t)
    assert too_far(story, spark) == ([(2, 10, to)] if broken else [])
    assert shrunk(story, spark) == []


@pytest.mark.parametrize("why", OUTSIDE)
def test_what_makes_a_cut_lawful(spark: Any, why: str) -> None:
    story = in_sync_and_cut(4)
    OUTSIDE[why](story)
    assert too_far(story, spark) == []


@pytest.mark.parametrize("lax", [False, True])
def test_a_cut_too_far_is_the_replicas_promise(spark: Any, lax: bool) -> None:
    """But where unclean elections are allowed, and one happened."""
    story = in_sync_and_cut(4)
    story.run["topics"] = {"t": {"unclean.leader.election.enable": str(lax).lower()}}
    story.commit(5000, 3, 1, isr=[3], partition_epoch=1)
    story.final_log({v: v for v in range(10)}, node=3)
    outcome = replicas.check(story.history(spark))
    assert outcome.counts.get("promised-and-cut", 0) == (not lax)
    if not lax:
        says = next(f.says for f in outcome.findings if f.rule == "promised-and-cut")
        assert "node 2 cut t-0 down to offset 4, though acks=all had been given up to 9" in says
