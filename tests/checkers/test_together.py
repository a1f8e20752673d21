"""Stories judged in one pass: what each is told, and what it is not told of the others."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding
from checkers.promises import replicas, truncation_loss
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import Asks, apart, judged_apart, judging, play

# ---- the same as alone ---------------------------------------------------------------------------


def lost(how: str) -> Story:
    """Seven records that were acknowledged are not there; three are."""
    story = Story()
    story.commit(0, 1, 0)
    for offset in range(10):
        story.produce(90 + offset, offset, offset, acks=-1, invoke_t=80 + offset)
    story.final_log({offset: offset for offset in range(3)})
    if how == "its topic was deleted":
        story.add("topic_deletion", 92, topic="t", step="requested")
        story.add("topic_deletion", 200, topic="t", step="gone")
    if how == "a partition was not read":
        story.produce(95, 99, 0, acks=-1, partition=1)
    if how == "another run":
        story.run["topics"] = {"t": {"configs": {"cleanup.policy": "compact"}}}
    return story


def differing(how: str) -> Story:
    story = Story()
    for node in (1, 2, 3):
        story.final_log({n: n for n in range(9) if node == 1 or n not in (3, 4)}, node,
                        leader=node == 1)  # fmt: skip
    if how == "holes in the other":
        story.rows["log_read"] = [r for r in story.rows["log_read"] if r["node"] != 2]
    if how == "not read":
        story.add("node_event", 10, node=4, event="kill")
        story.add("log_end", 90_000, node=4, is_leader=False, error="the node does not run")
    return story


STORIES = {
    truncation_loss.check: {how: lost(how) for how in (
        "all", "its topic was deleted", "a partition was not read", "another run")},
    replicas.check: {how: differing(how) for how in ("holes", "holes in the other", "not read")},
}  # fmt: skip


@pytest.mark.parametrize("check", STORIES, ids=["truncation-loss", "replicas"])
def test_each_is_told_what_it_is_told_alone(spark: Any, check: Any) -> None:
    """Findings with their witnesses, counts beyond those that are shown, figures, what is excused
    and what is unknown."""
    stories = STORIES[check]
    alone = {name: check(story.history(spark)) for name, story in stories.items()}
    assert judged_apart(spark, check, stories) == alone
    told = [repr(outcome) for outcome in alone.values()]
    assert len(set(told)) == len(told)  # no two are alike


# ---- tests that ask ------------------------------------------------------------------------------


def says(history: History) -> Outcome:
    """Of each arm, how many phases it has; a phase "crash" it cannot bear."""
    outcome = Outcome()
    for row in history.rows("phase"):
        if row["name"] == "crash":
            raise ValueError("it crashed")
        outcome.saw(row["arm"], row["trial"], "phases")
        outcome.add(Finding(row["name"], f"{row['arm']} has it", row["arm"], row["trial"]), 2)
        outcome.unknown(row["arm"], row["trial"], "who knows")
        outcome.unjudged(row["arm"], "much")
        outcome.arm(row["arm"])["phases"] = 1
    if not history.has("fault"):
        outcome.unknowns.append("no faults")
    return outcome


def phase(story: Story, name: str) -> Story:
    story.add("phase", 1, name=name, event="end")
    return story


class Item:
    def __init__(self, test: Any, **params: Any) -> None:
        self.nodeid, self.obj = test.__name__, test
        if params:
            self.callspec = type("CallSpec", (), {"params": params})


@judging(says)
def asks_twice(story: Any) -> Asks:
    assert (yield phase(story, "a")).counts == {"a": 2}
    found = yield phase(story, "b")
    assert found.counts == {"a": 2, "b": 2}
    assert {(finding.arm, finding.says) for finding in found.findings} == {(ARM, f"{ARM} has it")}
    assert found.evidence == {(ARM, 0, "phases"): 2}
    assert found.arms == {ARM: {"phases": 1}}
    assert found.not_judged == [f"{ARM}: much"]
    assert found.unknowns == [f"{ARM}, trial 0: who knows"] * 2 + ["no faults"]


@judging(says)
def fails_at_once(story: Any) -> Asks:
    raise AssertionError("at once")
    yield story


@judging(says)
def fails_later(story: Any) -> Asks:
    assert not (yield phase(story, "a")).counts


@judging(says, begun=lambda story: phase(story, "c"))
def has_parameters(begun: Any, n: int) -> Asks:
    assert (yield begun).counts == {"c": n}


@judging(says)
def crashes(story: Any) -> Asks:
    with pytest.raises(ValueError, match="it crashed"):
        yield phase(story, "crash")


@judging(says)
def crashes_unawares(story: Any) -> Asks:
    yield phase(story, "crash")


@judging(says)
def has_faults(story: Any) -> Asks:
    story.add("fault", 1, fault="kill", id="a", phase="injected")
    assert not (yield phase(story, "a")).unknowns[1:]


@judging(says)
def is_alone(story: Any) -> Asks:
    assert (yield apart(phase(story, "a"))).unknowns[1:] == ["no faults"]


def failed(spark: Any, *items: Any) -> list[str]:
    return sorted(name for name, error in play(spark, items).items() if error is not None)


def test_each_fails_by_itself(spark: Any) -> None:
    items = [Item(asks_twice), Item(fails_at_once), Item(fails_later), Item(has_parameters, n=2)]
    assert failed(spark, *items) == ["fails_at_once", "fails_later"]
    assert failed(spark, Item(has_parameters, n=1), Item(asks_twice)) == ["has_parameters"]


def test_who_makes_a_check_crash_does_so_alone(spark: Any) -> None:
    items = [Item(crashes), Item(crashes_unawares), Item(asks_twice), Item(fails_later)]
    assert failed(spark, *items) == ["crashes_unawares", "fails_later"]


def test_who_is_apart_has_no_neighbours(spark: Any) -> None:
    assert not failed(spark, Item(has_faults), Item(is_alone))


@pytest.mark.parametrize("n", [2])
@judging(says, begun=lambda story: phase(story, "d"))
def test_of_this_file(begun: Any, n: int) -> Asks:
    assert (yield begun).counts == {"d": n}
