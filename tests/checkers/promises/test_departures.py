"""Departures, both ways: who is gone is replaced, by a controller that can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.facts.in_sync_writes import MAY_JOIN
from checkers.judging.verdict import Verdict
from checkers.promises.departures import ELECTED, MADE, REPLACED, check
from tests.checkers.conftest import ARM, Story, judged_together


class Zoo(Story):
    """ZooKeeper's log of three brokers; broker 3 is the controller, and 1 leads t-0."""

    def __init__(self) -> None:
        super().__init__()
        self._zxid = 0
        for node in (1, 2, 3):
            self.broker(100, node)
        self.write(200, "controller", "created", node=3)
        self.state(300, 1, [1, 2, 3])
        self.phase(60_000)

    def phase(self, t: float) -> None:
        self.rows["phase"] = []
        self.add("phase", t, name="settle", event="end")

    def write(self, t: float, what: str, step: str, **more: Any) -> None:
        self._zxid += 1
        place = {"topic": None, "partition": None}
        self.add("zk_write", t, zxid=self._zxid, what=what, step=step, **{**place, **more})

    def broker(self, t: float, node: int, step: str = "created") -> None:
        self.write(t, "broker", step, node=node)

    def gone(self, t: float, node: int) -> None:
        self.broker(t, node, "removed")

    def state(self, t: float, leader: int, isr: list[int], **more: Any) -> None:
        fields = {"topic": "t", "partition": 0, "leader_epoch": 1, "partition_epoch": 1, **more}
        self.write(t, "state", "set", leader=leader, isr=isr, **fields)

    def fault(self, from_t: float, to_t: float | None, *nodes: int) -> None:
        for t, phase in ((from_t, "inject"), (from_t + 5, "injected"), (to_t, "healed")):
            if t is not None:
                named = list(nodes) if phase != "inject" else []  # known only once it took aim
                self.add("fault", t, id="f", fault="x", phase=phase, nodes=named)


def left_alone() -> Zoo:
    """Broker 1 goes, and nobody does anything about it for long."""
    story = Zoo()
    story.gone(1000, 1)
    story.state(20_000, 2, [2, 3])
    return story


def watched() -> Zoo:
    """The end of a session is no write of its own: only who watched tells of it."""
    story = Zoo()
    story.add("node_event", 1000, node=2, event="unregistered")
    story.add("node_event", 9000, node=2, event="registered")
    return story


def follower_stays() -> Zoo:
    story = Zoo()
    story.gone(1000, 2)
    story.state(1100, 1, [1, 2, 3])
    story.broker(9000, 2)
    return story


def never_ends() -> Zoo:
    story = Zoo()
    story.gone(1000, 1)
    return story


def new_controller_forgets() -> Zoo:
    story = Zoo()
    story.gone(1000, 1)
    story.write(1500, "controller", "removed", node=3)
    story.gone(1500, 3)
    story.write(1600, "controller", "created", node=2)
    story.broker(9000, 3)
    return story


def dead_elected(t: float = 3500) -> Zoo:
    """Broker 1 was all of the set: nobody is there to lead, and it least of all."""
    story = Zoo()
    story.state(500, 1, [1])
    story.gone(1000, 1)
    story.state(1100, -1, [1])
    story.state(t, 1, [1])
    return story


def dead_elected_by_a_new_one() -> Zoo:
    story = dead_elected()
    story.write(2500, "controller", "removed", node=3)
    story.write(2600, "controller", "created", node=2)
    return story


def let_in(may_join: bool | None = True, since: float = 1100, leader_epoch: int = 1) -> Zoo:
    """Broker 2 leaves in order, and its leader takes it in once more while its process ends."""
    story = Zoo()
    if may_join is not None:
        facts = story.run["arms"].get(story.arm, {})
        story.run["arms"][story.arm] = {**facts, MAY_JOIN: may_join}
    story.state(900, 1, [1, 3])
    story.gone(1000, 2)
    story.state(since, 1, [1, 2, 3], leader_epoch=leader_epoch)
    story.broker(9000, 2)
    return story


BROKEN: dict[str, tuple[Callable[[], Zoo], dict[str, int]]] = {
    "left alone": (left_alone, {"dead-leads": 1}),
    "a follower stays in sync": (follower_stays, {"dead-in-sync": 1}),
    "a session's end": (watched, {"dead-in-sync": 1}),
    "until the end": (never_ends, {"dead-leads": 1}),
    "a new controller forgets": (
        new_controller_forgets,
        {"dead-leads": 1, "dead-in-sync": 1},  # its predecessor as well
    ),
    "the dead are elected": (dead_elected, {"dead-elected": 1}),
}


def replaced() -> Zoo:
    story = Zoo()
    story.gone(1000, 1)
    story.state(1200, 2, [2, 3])
    return story


def back_soon() -> Zoo:
    story = Zoo()
    story.gone(1000, 1)
    story.broker(5500, 1)
    story.state(5600, 1, [1, 2, 3], leader_epoch=2, partition_epoch=2)
    return story


def last_member() -> Zoo:
    story = Zoo()
    story.state(500, 1, [1])
    story.gone(1000, 1)
    return story


def no_controller() -> Zoo:
    """Each successor is in office for a short while."""
    story = Zoo()
    story.gone(1000, 1)
    for n, node in enumerate((2, 3, 2, 3)):
        story.write(3000 * n + 2000, "controller", "removed", node=node)
        story.write(3000 * n + 2500, "controller", "created", node=node)
    story.state(13_000, 2, [2, 3])
    return story


def troubled(*nodes: int) -> Callable[[], Zoo]:
    def made() -> Zoo:
        story = Zoo()
        story.gone(1000, 1)
        story.fault(900, 9000, *nodes)
        story.state(12_000, 2, [2, 3])
        return story

    return made


def paused(node: int, until: float = 9000) -> Callable[[], Zoo]:
    """By a fault that names only whom it was aimed at (`faults.unseen_bounce`)."""

    def made() -> Zoo:
        story = Zoo()
        story.fault(800, 10_000, 1)
        story.add("node_event", 900, node=node, event="pause")
        story.gone(1000, 1)
        story.add("node_event", until, node=node, event="resume")
        story.state(12_000, 2, [2, 3])
        return story

    return made


def dying() -> Zoo:
    story = Zoo()
    story.add("topic_deletion", 900, topic="t", step="requested")
    story.gone(1000, 1)
    return story


def all_stopped_in_the_end() -> Zoo:
    story = Zoo()
    story.phase(5000)
    story.gone(5100, 1)
    story.gone(20_000, 2)
    return story


LAWFUL: dict[str, Callable[[], Zoo]] = {
    "replaced": replaced,
    "back soon": back_soon,
    "the last member": last_member,
    "no controller for long": no_controller,
    "a fault at the controller": troubled(3),
    "a fault that names nobody": troubled(),
    "a controller that is paused": paused(3),
    "a topic that is deleted": dying,
    "stopped for good": all_stopped_in_the_end,
    "elected before that is known": lambda: dead_elected(2500),
    "elected by one who is new in office": dead_elected_by_a_new_one,
}


def test_who_is_gone_is_replaced(spark: Any) -> None:
    stories = {name: made() for name, (made, _) in BROKEN.items()}
    stories |= {name: made() for name, made in LAWFUL.items()}
    # A fault that names only others keeps nobody from deciding.
    stories["a fault elsewhere"] = troubled(2)()
    stories["another is paused"] = paused(2)()
    stories["the controller was paused for a moment"] = paused(3, 1100)()
    found = judged_together(spark, check, stories)
    assert {name: rules for name, (rules, _) in found.items() if rules} == {
        **{name: rules for name, (_, rules) in BROKEN.items()},
        "a fault elsewhere": {"dead-leads": 1},
        "another is paused": {"dead-leads": 1},
        "the controller was paused for a moment": {"dead-leads": 1},
    }
    assert not any("too early" in why for _, reasons in found.values() for why in reasons)


def test_what_was_judged_counts(spark: Any) -> None:
    outcome = check(replaced().history(spark))
    assert outcome.verdict([(ARM, 0)]) == (Verdict.VALID, [])
    assert outcome.evidence[ARM, 0, REPLACED] == 1
    assert outcome.evidence[ARM, 0, ELECTED] == 2
    assert check(back_soon().history(spark)).evidence[ARM, 0, REPLACED] == 0
    with_nobody = Story()
    with_nobody.commit(1000, 1, 0)
    assert check(with_nobody.history(spark)).not_judged


def elected_by_a_disturbed_one() -> Zoo:
    story = dead_elected(4500)
    story.fault(900, 9000, 3)
    return story


def never_able() -> Zoo:
    """The controller's fault goes on to the end."""
    story = Zoo()
    story.gone(1000, 1)
    story.fault(900, None, 3)
    return story


def just_gone() -> Zoo:
    story = Zoo()
    story.gone(58_000, 1)
    return story


LET_IN: dict[str, tuple[dict[str, Any], bool]] = {
    "by its leader": ({}, True),
    "where no leader may": ({"may_join": False}, False),
    "where nobody says who may": ({"may_join": None}, False),
    "before it was gone": ({"since": 950}, False),
    "by an election": ({"leader_epoch": 2}, False),
}


@pytest.mark.parametrize("name", LET_IN)
def test_who_leaves_may_be_let_in_once_more(spark: Any, name: str) -> None:
    """Before KIP-841, by a leader that it still fetches from."""
    how, lawful = LET_IN[name]
    outcome = check(let_in(**how).history(spark))
    assert outcome.counts == ({} if lawful else {"dead-in-sync": 1})
    excused = [(one.rule, one.excuse, one.n) for one in outcome.excuses()]
    assert excused == ([("dead-in-sync", "let-in-leaving", 1)] if lawful else [])


def test_what_cannot_be_held_against_anybody_is_counted(spark: Any) -> None:
    for story, rule in (
        (elected_by_a_disturbed_one(), "dead-elected"),
        (never_able(), "dead-leads"),
    ):
        outcome = check(story.history(spark))
        assert not outcome.counts
        assert [(e.rule, e.excuse, e.n) for e in outcome.excuses()] == [(rule, "disturbed", 1)]
        assert outcome.verdict([(ARM, 0)])[0] is Verdict.UNKNOWN  # too large a share of so little
    outcome = check(just_gone().history(spark))
    assert not outcome.counts
    assert "t-0 still named who was gone, 2.0 s after it could be known" in outcome.unknowns[0]


def made_away(t: float, isr: list[int], *, at: float = 3000, gone_t: float = 1000) -> Zoo:
    """Broker 2 is gone, and a partition is made that it is assigned to, and ``t`` later led."""
    story = Zoo()
    story.state(900, 1, [1, 3], leader_epoch=2, partition_epoch=2)
    story.gone(gone_t, 2)
    new = {"topic": "new", "partition": 0}
    story.write(at, "topic", "created", replicas=[2, 3], **new)
    first = {**new, "leader": 3, "isr": isr, "leader_epoch": 0, "partition_epoch": 0}
    story.write(at + t, "state", "created", **first)
    return story


def made_as_it_came_back() -> Zoo:
    story = made_away(400, [2, 3])
    story.broker(3200, 2)
    story.state(3300, 1, [1, 3], leader_epoch=3, partition_epoch=3)
    story.rows["zk_write"].sort(key=lambda row: row["t"])
    for n, row in enumerate(story.rows["zk_write"]):
        row["zxid"] = n + 1
    return story


def made_by_one_disturbed() -> Zoo:
    story = made_away(400, [2, 3])
    story.fault(900, 9000, 3)
    return story


def made_after_a_session_ended() -> Zoo:
    story = made_away(50, [3, 2], gone_t=30_000)
    story.add("node_event", 1000, node=2, event="unregistered")
    return story


def test_nothing_is_made_with_who_is_away_in_sync(spark: Any) -> None:
    stories = {
        "with who is away": made_away(50, [3, 2]),
        "by a controller with a fault": made_by_one_disturbed(),
        "with one whose session had ended": made_after_a_session_ended(),
        "with who lives": made_away(50, [3]),
        "as it went": made_away(50, [3, 2], at=1200),
        "as it came back": made_as_it_came_back(),
    }
    found = judged_together(spark, check, stories)
    wrong = {name: rules for name, (rules, _) in found.items() if "dead-made-in-sync" in rules}
    assert list(wrong) == list(stories)[:3]
    assert check(made_away(50, [3]).history(spark)).evidence[ARM, 0, MADE] == 1


# ---- who is named --------------------------------------------------------------------------------


def named(t: float, node: int = 2, *brokers: int, back: float = 10_000, **more: Any) -> Zoo:
    """Broker 1 is gone from 1000 ms until it is ``back``; a client asks at ``t``."""
    story = Zoo()
    story.gone(1000, 1)
    story.state(1200, 2, [2, 3])
    story.broker(back, 1)
    alive = list(brokers or (1, 2, 3))
    story.add("metadata", t, node=node, leader=2, leader_epoch=1, brokers=alive, **more)
    return story


def with_a_fault(story: Zoo, *nodes: int, to_t: float = 9000) -> Zoo:
    story.fault(900, to_t, *nodes)
    return story


def named_by_one_that_was_gone(t: float) -> Zoo:
    """So was broker 2, until 4000 ms, and hears of all that when it is back."""
    story = named(t)
    story.rows["zk_write"] = [row for row in story.rows["zk_write"] if row.get("leader") != 2]
    story.gone(1000, 2)
    story.state(1200, 3, [3])
    story.broker(4000, 2)
    return story


def succeeded(story: Zoo, t: float) -> Zoo:
    """Another controller, which has everything to tell everybody."""
    story.write(t, "controller", "removed", node=3)
    story.write(t + 20, "controller", "created", node=2)
    return story


def test_who_is_gone_is_not_named(spark: Any) -> None:
    stories = {
        "by one that came back long before": named_by_one_that_was_gone(9500),
        "named for long": named(7500),
        "a controller that was elected long before": succeeded(named(12_500, back=13_000), 2000),
        "by another": named(7500, 3),
        "with a fault at who is gone": with_a_fault(named(7500), 1),
        "with a fault that was over": with_a_fault(named(8000), 2, to_t=950),
        "by itself": named(7500, 1),
        "by one that was gone, too": named_by_one_that_was_gone(3900),
        "by one that just came back": named_by_one_that_was_gone(8500),
        "not named": named(7500, 2, 2, 3),
        "not yet told, by who is new in office": named(6500),
        "asked before": named(7300, invoke_t=7100),
        "back again": named(10_500),
        "by a controller that was elected meanwhile": succeeded(named(9500), 2000),
        "a fault at who answers": with_a_fault(named(7500), 2),
        "a fault at the controller": with_a_fault(named(7500), 3),
    }
    found = judged_together(spark, check, stories)
    assert [name for name, (rules, _) in found.items() if rules] == list(stories)[:6]
    assert found["named for long"][0] == {"dead-named": 1}


def test_replicas_of_who_is_gone_are_told_to_be_offline(spark: Any) -> None:
    def told(t: float, *offline: int, replicas: tuple[int, ...] = (1, 2, 3), **more: Any) -> Zoo:
        return named(t, 2, 2, 3, replicas=list(replicas), offline=list(offline), **more)

    def dying() -> Zoo:
        story = told(7500)
        story.add("topic_deletion", 900, topic="t", step="requested")
        return story

    def heard(t: float, named_t: float = 2500) -> Zoo:
        """At 2600 ms it names the gone one no more; and may do so again."""
        story = told(t)
        story.add("metadata", 2600, node=2, leader=2, leader_epoch=1, brokers=[2, 3])
        story.add("metadata", named_t, node=2, leader=2, leader_epoch=1, brokers=[1, 2, 3])
        return story

    stories = {
        "long after it was named no more": heard(5000),
        "none for long": told(7500),
        "another": told(7500, 3),
        "with a fault at who is gone": with_a_fault(told(7500), 1),
        "it is": told(7500, 1),
        "soon after it was named no more": heard(4400),
        "named again meanwhile": heard(5000, named_t=3500),
        "not yet told": told(5500),
        "asked before": told(7300, invoke_t=7100),
        "back again": told(10_500),
        "no replica of it": told(7500, replicas=(2, 3)),
        "a reader that does not say": named(7500, 2, 2, 3),
        "a topic that is deleted": dying(),
        "a fault at who answers": with_a_fault(told(7500), 2),
        "a fault at the controller": with_a_fault(told(7500), 3),
    }
    found = judged_together(spark, check, stories)
    assert [name for name, (rules, _) in found.items() if rules] == list(stories)[:4]
    assert found["long after it was named no more"][0] == {"dead-not-offline": 1}
    assert found["none for long"][0] == {"dead-not-offline": 1}
