"""acks=all while too few replicas are in sync: who knew may not acknowledge, and only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.truncation_loss import check
from checkers.promises.truncation_loss.too_few import OFFERED
from tests.checkers.conftest import ARM, Story, judged_together

RULE, APPENDED = "acked-below-min-isr", "appended-below-min-isr"

SHRUNK, KNEW, GROWN = 1_000, 1_010, 2_000
"""When (ms) the set was written smaller, its leader had heard of it, and it was written full."""


def shrunk(*, told: str | None = "isr_change", topic: str = "t") -> Story:
    """Led by 1, whose followers fall out and come back; acknowledged in between: nothing yet."""
    story = Story()
    configs = {"configs": {"min.insync.replicas": "2"}}
    story.run["topics"] = {"t": configs, "alone": configs, "lax": {}}
    replicas = [1] if topic == "alone" else [1, 2, 3]
    one = {"topic": topic, "leader": 1, "controller_epoch": 1}
    story.add("zk_write", 0, what="topic", step="created", zxid=1, replicas=replicas, topic=topic)
    states = [(0, 0, replicas, 0), (SHRUNK, 0, [1], 1), (GROWN, 0, replicas, 2)]
    if told == "leader_change":  # 2 led, and died; 3 is out
        states = [(0, 0, [2, 1], 0), (SHRUNK, 1, [1], 1), (GROWN, 1, [1, 2], 2)]
    for t, epoch, isr, version in states:
        leader = isr[0]
        step = "set" if version else "created"
        story.add(
            "zk_write", t, what="state", zxid=10 + version, isr=isr, partition_epoch=version,
            leader_epoch=epoch, commit_ms=t, **{**one, "leader": leader, "step": step},
        )  # fmt: skip
    if told == "isr_change":
        story.add(
            "isr_change", KNEW, node=1, isr=[1], leader_epoch=0, partition_epoch=1, topic=topic
        )
    elif told == "leader_change":
        story.add("leader_change", KNEW, node=1, role="leader", leader_epoch=1, topic=topic)
    story.final_log({0: 1}, topic=topic)
    return story


def acked(
    story: Story, t: float, invoke_t: float, *, acks: int = -1, topic: str = "t", **more: Any
) -> Story:
    story.produce(t, 1, 0, acks, invoke_t=invoke_t, topic=topic, **more)
    return story


def after_append(t: float, invoke_t: float) -> Story:
    return acked(shrunk(), t, invoke_t, type="info", error=20)


BROKEN: dict[str, Callable[[], Story]] = {
    "in between": lambda: acked(shrunk(), 1_500, 1_490),
    "just after it knew": lambda: acked(shrunk(), 1_012, 1_011),
    "just before it grew": lambda: acked(shrunk(), 1_999, 1_998),
    "offered before, and appended once it knew": lambda: acked(
        shrunk(), 1_500, 1_009, log_append_time_ms=1_200
    ),
    "by who was made leader of so few": lambda: acked(shrunk(told="leader_change"), 1_500, 1_490),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "offered before it knew": lambda: acked(shrunk(), 1_500, 1_009),
    "appended before it knew": lambda: acked(shrunk(), 1_500, 990, log_append_time_ms=1_005),
    "offered before it shrank": lambda: acked(shrunk(), 1_500, 500),
    "answered after it had grown": lambda: acked(shrunk(), 2_001, 1_990),
    "acks=1": lambda: acked(shrunk(), 1_500, 1_490, acks=1),
    "acks=0": lambda: acked(shrunk(), 1_500, 1_490, acks=0),
    "refused": lambda: acked(shrunk(), 1_500, 1_490, type="fail", error=19),
    "it shrank when that was written": lambda: after_append(1_500, 1_009),
    "it grew before that was said": lambda: after_append(2_001, 1_990),
    "acks=1, whatever the answer": lambda: acked(
        shrunk(), 1_500, 1_490, acks=1, type="info", error=20
    ),
    "nobody asks for two": lambda: acked(shrunk(topic="lax"), 1_500, 1_490, topic="lax"),
    "there is one replica": lambda: acked(shrunk(topic="alone"), 1_500, 1_490, topic="alone"),
    "nobody says when it knew": lambda: acked(shrunk(told=None), 1_500, 1_490),
}  # fmt: skip


def test_broken_and_lawful(spark: Any) -> None:
    stories = {name: make() for name, make in {**BROKEN, **LAWFUL}.items()}
    found = judged_together(spark, check, stories)
    rules = {name: found[name][0].get(RULE, 0) for name in stories}
    assert rules == dict.fromkeys(BROKEN, 1) | dict.fromkeys(LAWFUL, 0)
    assert not any(APPENDED in counts for counts, *_ in found.values())


def test_what_cannot_be_safe_is_not_written(spark: Any) -> None:
    stories = {"in between": after_append(1_500, 1_490), "by who knew": after_append(1_012, 1_011)}
    found = judged_together(spark, check, stories)
    assert [found[name][0] for name in stories] == [{APPENDED: 1}] * 2


def test_what_was_refused_is_evidence(spark: Any) -> None:
    outcome = check(LAWFUL["refused"]().history(spark))
    assert outcome.evidence[ARM, 0, OFFERED] == 1
    assert not outcome.counts


def test_who_did_not_say_that_he_knew_is_named(spark: Any) -> None:
    outcome = check(LAWFUL["nobody says when it knew"]().history(spark))
    assert any("nobody says when the leader knew" in what for what in outcome.not_judged)


@pytest.mark.parametrize(("t", "unknown"), [(15_000, True), (5_000, False), (25_000, False)])
def test_silence_excuses_nobody_for_long(spark: Any, t: float, unknown: bool) -> None:
    """The set was written smaller at 1 s, and full at 20 s; its leader never says a word of it."""
    story = shrunk(told=None)
    story.rows["zk_write"][-1] |= {"commit_ms": 20_000, "t": 20_000 * 1_000_000}
    outcome = check(acked(story, t, t - 10).history(spark))
    assert RULE not in outcome.counts
    assert any("never said that it knew" in why for why in outcome.unknowns) == unknown


def test_a_forged_leader_and_isr_excuses_it(spark: Any) -> None:
    story = BROKEN["in between"]()
    story.add(
        "forged", 1_200, node=1, api="LEADER_AND_ISR", lie="future_leader_epoch", error=0,
        leader=1, leader_epoch=9, partition_error=0,
    )  # fmt: skip
    outcome = check(story.history(spark))
    assert RULE not in outcome.counts
    assert [(e.rule, e.excuse) for e in outcome.excuses()] == [(RULE, "forged")]
