"""acks=all does not wait for who is out of sync: each defect beside what is lawful and alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.promises.departures import check
from checkers.promises.departures.held_up import OFFERED
from tests.checkers.conftest import ARM, Story, judged_together

DROPPED, GROWN = 10_000, 15_000
"""When (ms) broker 2 was committed out of the set, and into it again."""


def one_out(
    acks_all: str = "info",
    *,
    acks_1: str = "ok",
    grown: float = GROWN,
    isr: tuple[int, ...] = (1, 3),
    late: bool = False,
    epoch: int = 0,
) -> Story:
    """Broker 2 is stopped from 8 s on. A record every 50 ms with acks=all, and one with acks=1; the
    first is answered when the set is whole again, or only written then (``late``)."""
    story = Story()
    story.run["topics"] = {"t": {"configs": {"min.insync.replicas": "2"}}}
    story.add("zk_write", 0, what="topic", step="created", zxid=1, replicas=[1, 2, 3])
    for version, (t, members) in enumerate([(100, [1, 2, 3]), (DROPPED, isr), (grown, [1, 3, 2])]):
        story.add(
            "zk_write", t, what="state", step="set" if version else "created", zxid=10 + version,
            leader=1, leader_epoch=0, controller_epoch=1, partition_epoch=version, commit_ms=t,
            isr=list(members),
        )  # fmt: skip
    fault(story, "lag", 7_990, grown - 10, 2)
    for number in range(200):
        t = 9_000 + 50 * number
        wait = 5 if acks_all == "ok" or t > grown else max(5, grown + 5 - t)
        answered = acks_all if t < grown else "ok"
        story.produce(t + wait, 2 * number, 2 * number, -1, invoke_t=t, type=answered)
        story.produce(
            t + 5, 2 * number + 1, 2 * number + 1, 1, invoke_t=t, type=acks_1,
            log_append_time_ms=t + 2,
        )  # fmt: skip
        for value, at in ((2 * number, t + wait - 1 if late else t + 2), (2 * number + 1, t + 2)):
            story.add(
                "log_read", 90_000, node=1, offset=value, value=value, leader_epoch=epoch,
                append_time_ms=int(at),
            )  # fmt: skip
    return story


def fault(story: Story, name: str, from_t: float, to_t: float, *nodes: int) -> Story:
    for t, phase in ((from_t, "inject"), (from_t + 5, "injected"), (to_t, "healed")):
        named = list(nodes) if phase != "inject" else []
        story.add("fault", t, id=name, fault=name, phase=phase, nodes=named)
    return story


def one_acked() -> Story:
    story = one_out()
    row = next(r for r in story.rows["produce"] if r["acks"] == -1 and r["invoke_t"] > 11e9)
    row |= {"type": "ok", "t": row["invoke_t"] + 2_000_000_000}
    return story


def restarted(node: int) -> Story:
    story = one_out()
    story.add("node_event", 12_500, node=node, event="resume")
    return story


def given(value: int, t: float) -> Story:
    """To a consumer: it was committed by then."""
    story = one_out()
    story.add("fetch", t, offset=value, value=value, poll=0, process="c", leader_epoch=0)
    return story


BROKEN: dict[str, Callable[[], Story]] = {
    "what was written before is given": lambda: given(10, 12_600),
    "it is given as the set is whole": lambda: given(120, 14_900),
    "nothing until it is back": one_out,
    "refused": lambda: one_out("fail"),
    "a fault at who is out": lambda: fault(one_out(), "toxic", 12_000, 13_000, 2),
    "a fault that is over": lambda: fault(one_out(), "toxic", 9_000, 10_700, 3),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "it is slow, and gives what was written meanwhile": lambda: given(120, 14_000),
    "acknowledged": lambda: one_out("ok"),
    "one late": one_acked,
    "written when it is back": lambda: one_out(late=True),
    "written by another leader": lambda: one_out(epoch=1),
    "its leader takes nothing": lambda: one_out(acks_1="info"),
    "back soon": lambda: one_out(grown=DROPPED + 2_900),
    "too few": lambda: one_out("fail", isr=(1,)),
    "a fault at another member": lambda: fault(one_out(), "toxic", 12_000, 13_000, 3),
    "a fault that names nobody": lambda: fault(one_out(), "toxic", 12_000, 13_000),
    "a member was stopped": lambda: restarted(3),
}


def test_nobody_waits_for_who_is_out_of_sync(spark: Any) -> None:
    stories = {name: made() for name, made in (BROKEN | LAWFUL).items()}
    found = judged_together(spark, check, stories)
    wrong = {name: rules for name, (rules, _) in found.items() if rules}
    assert wrong == {name: {"held-up": 1} for name in BROKEN}


def test_a_slow_set_is_named(spark: Any) -> None:
    slow = check(given(120, 14_000).history(spark))
    assert slow.arms[ARM]["slow_sets"] == 1
    assert any("slow, or acks=all unanswered" in what for what in slow.not_judged)
    assert "slow_sets" not in check(one_out().history(spark)).arms.get(ARM, {})


def test_offers_that_were_not_held_up_count(spark: Any) -> None:
    assert check(one_out("ok").history(spark)).evidence[ARM, 0, OFFERED] > 10
    assert not check(one_out(acks_1="info").history(spark)).evidence[ARM, 0, OFFERED]
