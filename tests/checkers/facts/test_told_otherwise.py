"""Roles and their orders, listeners and their planes, run.json and who did what: each at odds, and
what is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.facts.claims import unfounded
from checkers.facts.listeners import of_both_planes
from checkers.facts.told_requests import unordered
from checkers.history.frames import History
from tests.checkers.conftest import Story

pytestmark = pytest.mark.spark
PART = {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 3, "error": 0}


def ordered(t: float = 108, boot: int = 1, seq: int | None = 1, **more: Any) -> Story:
    """Broker 1 was ordered to follow in leader epoch 3, and was asked something else later."""
    story = Story()
    own = {"api": "LEADER_AND_ISR", "correlation_id": 7, "partitions": [PART], "boot": 1, "seq": 0}
    story.handled(110, 1, **own)
    story.handled(500, 1, correlation_id=8, boot=1, seq=9)
    role = {"role": "follower", "leader": 2, "leader_epoch": 3, "correlation_id": 7, **more}
    story.add("leader_change", t, node=1, boot=boot, seq=seq, **role)
    return story


def ordered_in_another_boot() -> Story:
    story = ordered(boot=2)
    story.handled(600, 1, correlation_id=9, boot=2, seq=3)
    return story


ROLES: dict[str, tuple[Story, int]] = {
    "as ordered": (ordered(), 0),
    "before it came": (ordered(t=105), 1),
    "before it came, by less than the error": (ordered(t=105, error_ns=1_000_000), 0),
    "in another epoch": (ordered(leader_epoch=4), 1),
    "of another partition": (ordered(partition=1), 1),
    "by another request": (ordered(correlation_id=8), 1),
    "in another boot, of which nothing is told": (ordered(boot=2), 0),
    "in another boot": (ordered_in_another_boot(), 1),
    "at the last request": (ordered(t=505, leader_epoch=4), 0),
    "within the error": (ordered(t=499, leader_epoch=4, error_ns=2_000_000), 0),
    "of a system's own log": (ordered(seq=None, leader_epoch=4), 0),
    "nobody says which": (ordered(correlation_id=None, leader_epoch=4), 0),
}


def test_roles_that_nobody_ordered(spark: Any) -> None:
    found = unordered(_as_trials(spark, [story for story, _ in ROLES.values()]))
    assert {list(ROLES)[key[1]]: n for key, _, n in found} == {
        name: n for name, (_, n) in ROLES.items() if n
    }


def planes(*told: tuple[str, str, int]) -> Story:
    """(listener, plane, boot) of what one broker counted; its controller came by CONTROLLER."""
    story = Story()
    story.handled(10, 1, listener="CONTROLLER", plane="control", boot=1)
    for listener, plane, boot in told:
        use = {"api": "FETCH", "interval_ns": 1, "requests": 1, "boot": boot}
        story.add("plane_use", 20, node=1, listener=listener, plane=plane, **use)
    return story


LISTENERS: dict[str, tuple[Story, bool]] = {
    "each its own": (planes(("CONTROLLER", "control", 1), ("CLIENT", "data", 1)), False),
    "one of both": (planes(("CONTROLLER", "data", 1), ("CLIENT", "data", 1)), True),
    "one after the other": (planes(("CONTROLLER", "data", 2), ("CLIENT", "data", 1)), False),
    "two of one": (planes(("REPLICATION", "data", 1), ("CLIENT", "data", 1)), False),
}


def test_listeners_of_both_planes(spark: Any) -> None:
    found = of_both_planes(_as_trials(spark, [story for story, _ in LISTENERS.values()]))
    assert [list(LISTENERS)[key[1]] for key, _ in found] == ["one of both"]
    assert "its listener CONTROLLER was served by both planes" in found[0][1]


def claimed(edit: Callable[[Story, dict[str, Any]], Any]) -> Story:
    story = Story()
    trial = {
        "arm": story.arm,
        "topics": {"t": {"assignment": {"0": [1, 2]}}},
        "workloads": [{"process": "r", "role": "metadata-reader", "topics": {}, "nodes": [1, 2]}],
    }
    story.add("zk_write", 1, what="topic", step="created", zxid=1, replicas=[1, 2])
    for node in (1, 2):
        story.read(10, node, 0, process="r")
    edit(story, trial)
    story.run["trials"] = [trial]
    return story


CLAIMS: dict[str, tuple[Story, str]] = {
    "as it was": (claimed(lambda s, t: None), ""),
    "a topic more": (
        claimed(lambda s, t: t["topics"].update(u={"assignment": {"0": [1]}})),
        "run.json has a topic u, and ZooKeeper's log never made it",
    ),
    "a topic that was to be there already": (
        claimed(lambda s, t: t["topics"].update(u={"configs": {}})),
        "",
    ),
    "nobody reads the log": (claimed(lambda s, t: s.rows["zk_write"].clear()), ""),
    "a broker less": (
        claimed(lambda s, t: t["workloads"][0].update(nodes=[1])),
        "r: it asked nodes [2], of which run.json does not know",
    ),
    "a broker that nobody asked": (  # `activity` misses its answers
        claimed(lambda s, t: t["workloads"][0].update(nodes=[1, 2, 3])),
        "",
    ),
    "one that asks nobody by itself": (
        claimed(lambda s, t: t["workloads"][0].update(nodes=[])),
        "",
    ),
}  # fmt: skip


def test_what_run_json_has_and_nobody_saw(spark: Any) -> None:
    stories = [story for story, _ in CLAIMS.values()]
    found = unfounded(_as_trials(spark, stories))
    told = {list(CLAIMS)[key[1]]: why for key, why in found}
    assert told == {name: says for name, (_, says) in CLAIMS.items() if says}


def _as_trials(spark: Any, stories: list[Story]) -> History:
    """Each story a trial of one history: Spark's jobs take long, however small."""
    rows: dict[str, list[dict[str, Any]]] = {}
    trials = []
    for number, story in enumerate(stories):
        trials += [{**one, "trial": number} for one in story.run.get("trials", ())]
        for kind, items in story.rows.items():
            rows.setdefault(kind, []).extend({**row, "trial": number} for row in items)
    return History.of(spark, rows, {**stories[0].run, "trials": trials})
