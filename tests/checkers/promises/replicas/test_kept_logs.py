"""What a broker lost without a word, and what it lost lawfully."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.promises import replicas
from checkers.promises.replicas.kept_logs import kept_logs
from tests.checkers.conftest import MS, Story
from tests.checkers.together import Asks, judging


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


def check(history: History) -> Outcome:
    """What was found, as figures and evidence."""
    kept, outcome = kept_logs(history), Outcome()
    for what, logs in (("shrunk", kept.shrunk), ("cut", kept.cut)):
        outcome.figures[what] = [
            {"arm": one.key[0], "log": (one.node, one.before, one.after)} for one in logs
        ]
    for what, counts in (("compared", kept.compared), ("taken", kept.taken)):
        for (arm, trial), n in counts.items():
            outcome.saw(arm, trial, what, n)
    return outcome


def shrunk(outcome: Outcome) -> list[tuple[int, int, int]]:
    return [row["log"] for row in outcome.figures["shrunk"]]


@judging(check)
def test_a_log_that_ends_earlier_than_before() -> Asks:
    assert shrunk((yield emptied())) == [(2, 10, 0)]
    story = Story()
    role(story, 1000, 10)
    story.final_log({v: v for v in range(9)}, node=2, leader=False)
    assert shrunk((yield story)) == [(2, 10, 9)]


@judging(check)
def test_a_cut_that_did_not_go_so_far() -> Asks:
    story = emptied()
    cut(story, 5000, 4)
    assert shrunk((yield story)) == [(2, 10, 0)]


def story_of(node: int, t_ms: float) -> dict[str, Any]:
    """A fault that ends later than it empties a disk, and names another broker, too."""
    told = {"emptied": {"node": node, "t": int(t_ms * MS)}}
    return {"fault": "outdated-expansion", "nodes": [2, 3], "detail": json.dumps(told)}


LAWFUL: dict[str, Callable[[Any], None]] = {
    "it was cut": lambda s: cut(s, 5000, 0),
    "its cut was told a little later": lambda s: cut(s, 9100, 0),
    "it was deleted": lambda s: s.add("replica_stop", 5000, node=2, delete=True),
    "its topic was deleted": lambda s: s.add("topic_deletion", 5000, topic="t", step="gone"),
    "its disk was lost": lambda s: s.add("fault", 5000, fault="wipe-disk", nodes=[2]),
    "a story emptied its disk": lambda s: s.add("fault", 9500, **story_of(2, 5000)),
    "its tail was torn": lambda s: s.add("fault", 5000, fault="torn-tail", nodes=[2]),
}
NOT_ENOUGH: dict[str, Callable[[Any], None]] = {
    "another was cut": lambda s: cut(s, 5000, 0, node=3),
    "another partition was cut": lambda s: cut(s, 5000, 0, partition=1),
    "it was cut before": lambda s: cut(s, 500, 0),
    "it was cut much later": lambda s: cut(s, 19_000, 0),
    "another's disk was lost": lambda s: s.add("fault", 5000, fault="wipe-disk", nodes=[3]),
    "a story emptied another's disk": lambda s: s.add("fault", 5000, **story_of(3, 5000)),
    "a story emptied its disk later": lambda s: s.add("fault", 5000, **story_of(2, 9500)),
    "it was stopped": lambda s: s.add("replica_stop", 5000, node=2, delete=False),
}


@pytest.mark.parametrize("why", [*LAWFUL, *NOT_ENOUGH])
@judging(check)
def test_what_explains_it(why: str) -> Asks:
    story = emptied()
    (LAWFUL | NOT_ENOUGH)[why](story)
    assert bool(shrunk((yield story))) is (why in NOT_ENOUGH)


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
@judging(check)
def test_a_fault_took_what_it_cut(detail: str, broken: bool, taken: int) -> Asks:
    story = emptied()
    story.add("fault", 5000, id="f", fault="torn-tail", nodes=[2], detail=detail)
    outcome = yield story
    assert bool(shrunk(outcome)) is broken
    assert outcome.evidence[story.arm, 0, "taken"] == taken


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
@judging(check)
def test_its_own_word_that_it_was_deleted(how: str, broken: bool) -> Asks:
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
    assert bool(shrunk((yield story))) is broken


@judging(check)
def test_logs_that_grow_or_are_not_told_of() -> Asks:
    story = Story()
    role(story, 1000, 10)
    role(story, 2000, None)
    role(story, 3000, 10)
    role(story, 4000, 0, node=3)
    role(story, 5000, 0, partition=1)
    role(story, 6000, 12)
    outcome = yield story
    assert shrunk(outcome) == []
    assert outcome.evidence == {(story.arm, 0, "compared"): 2}


@judging(replicas.check)
def test_it_is_the_replicas_promise() -> Asks:
    story = emptied()
    story.final_log({v: v for v in range(12)}, node=1)
    story.final_log({v: v for v in range(12)}, node=2, leader=False)
    outcome = yield story
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


@judging(check)
def test_what_was_promised_of_it_while_it_was_in_sync() -> Asks:
    assert shrunk((yield promised())) == [(2, 10, 0)]
    assert shrunk((yield promised(out_t=None))) == [(2, 10, 0)]
    assert shrunk((yield promised(out_t=1050))) == []  # too near to tell


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
@judging(check)
def test_what_was_not_promised_of_it(why: Callable[[Any], None]) -> Asks:
    story = promised()
    why(story)
    assert shrunk((yield story)) == []


# ---- what is told of, and may not be ------------------------------------------------------------


def too_far(outcome: Outcome) -> list[tuple[int, int, int]]:
    return [row["log"] for row in outcome.figures["cut"]]


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
@judging(check)
def test_nobody_cuts_what_was_promised_of_it(to: int, t: float, broken: bool) -> Asks:
    story = in_sync_and_cut(to, t)
    outcome = yield story
    assert too_far(outcome) == ([(2, 10, to)] if broken else [])
    assert shrunk(outcome) == []


@pytest.mark.parametrize("why", OUTSIDE)
@judging(check)
def test_what_makes_a_cut_lawful(why: str) -> Asks:
    story = in_sync_and_cut(4)
    OUTSIDE[why](story)
    assert too_far((yield story)) == []


@pytest.mark.parametrize("lax", [False, True])
@judging(replicas.check)
def test_a_cut_too_far_is_the_replicas_promise(lax: bool) -> Asks:
    """But where unclean elections are allowed, and one happened."""
    story = in_sync_and_cut(4)
    story.run["topics"] = {"t": {"unclean.leader.election.enable": str(lax).lower()}}
    story.commit(5000, 3, 1, isr=[3], partition_epoch=1)
    story.final_log({v: v for v in range(10)}, node=3)
    outcome = yield story
    assert outcome.counts.get("promised-and-cut", 0) == (not lax)
    if not lax:
        says = next(f.says for f in outcome.findings if f.rule == "promised-and-cut")
        assert "node 2 cut t-0 down to offset 4, though acks=all had been given up to 9" in says


def filled_again(first: int, *more: Callable[[Any], None], **taken_up: Any) -> Story:
    """Broker 2 had ten records as it began to follow in leader epoch 1, and has 20 in the end; of
    that epoch from ``first`` on."""
    story = Story()
    role(story, 500, 0, leader_epoch=0)
    role(story, 1000, 10, **taken_up)
    for tell in more:
        tell(story)
    story.final_log({v: v for v in range(20)}, node=2, leader=False)
    epochs = [(0, 0, first - 1), (1, first, 19)]
    told = [{"leader_epoch": e, "first_offset": b, "last_offset": t} for e, b, t in epochs]
    story.add("log_folder", 91_000, node=2, epochs=told)
    return story


REFILLED: dict[str, tuple[Story, list[tuple[int, int, int]]]] = {
    "it grew": (filled_again(10), []),
    "nobody tells of a cut": (filled_again(7), [(2, 10, 7)]),
    "of one that did not go so far": (filled_again(7, lambda s: cut(s, 1_100, 8)), [(2, 10, 7)]),
    "of one before": (filled_again(7, lambda s: cut(s, 900, 7)), [(2, 10, 7)]),
    "it tells of it": (filled_again(7, lambda s: cut(s, 1_100, 7)), []),
    "as a leader": (filled_again(7, role="leader", leader=2), []),
    "not for the first time": (filled_again(7, lambda s: role(s, 800, 7)), []),
    "its topic was made again": (
        filled_again(7, lambda s: s.add("topic_deletion", 5_000, topic="t", step="gone")),
        [],
    ),
}


@pytest.mark.parametrize("name", REFILLED)
@judging(check)
def test_a_log_that_was_cut_and_filled_again(name: str) -> Asks:
    story, found = REFILLED[name]
    assert shrunk((yield story)) == found
