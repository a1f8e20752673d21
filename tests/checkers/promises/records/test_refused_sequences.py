"""Idempotent producers that had to give up: each defect beside what is lawful and alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.promises.records import check
from tests.checkers.conftest import ARM, Story, judged_together

OUT_OF_ORDER = 45


def given_up(
    *,
    error: int | None = OUT_OF_ORDER,
    process: str = "i",
    invoke_t: float = 900,
    in_flight: int | None = None,
) -> Story:
    """Leader 1 dies at 1,000 ms; 2 refuses, at 3,000, what was first sent at 900."""
    story = Story()
    workloads = [
        {"process": "i", "role": "producer", "delivery": "idempotent", "in_flight": in_flight},
        {"process": "p", "role": "producer", "delivery": "once"},
    ]
    story.run["trials"] = [{"arm": ARM, "trial": n, "workloads": workloads} for n in range(16)]
    story.commit(0, 1, 0)
    story.commit(2_500, 2, 1)
    for node in (1, 2):
        story.add("node_event", 1, node=node, event="start")
    story.add("node_event", 1_000, node=1, event="kill")
    story.produce(10, 1, 0, acks=-1, process="i")
    for value in (2, 3):
        story.produce(
            3_000, value, None, acks=-1, process=process, type="info", error=error,
            invoke_t=invoke_t + value,
        )  # fmt: skip
    story.final_log({0: 1}, node=2)
    return story


def started(node: int, t: float, *, in_flight: int | None = None) -> Story:
    story = given_up(in_flight=in_flight)
    story.add("node_event", t, node=node, event="start")
    return story


def cut(node: int, t: float, **more: Any) -> Story:
    story = given_up()
    story.add("truncation", t, node=node, from_offset=5, to_offset=4, leader_epoch=1, **more)
    return story


def unclean() -> Story:
    story = given_up()
    configs = {"unclean.leader.election.enable": "true"}
    story.run["topics"] = {"t": {"configs": configs}}
    story.rows["leadership"][0] |= {"isr": [1]}
    return story


BROKEN: dict[str, Callable[[], Story]] = {
    "refused by the next leader": given_up,
    "another was started": lambda: started(1, 2_000),
    "started before that was sent": lambda: started(2, 800),
    "started since, and there was one batch": lambda: started(2, 2_000, in_flight=1),
    "cut before that was sent": lambda: cut(2, 800),
    "started after it was refused": lambda: started(2, 4_000),
    "cut after it was refused": lambda: cut(2, 4_000),
    "another partition was cut": lambda: cut(2, 2_000, partition=1),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "nothing is known of an error": lambda: given_up(error=None),
    "its leader was started since": lambda: started(2, 2_000),
    "started since, and there were five": lambda: started(2, 2_000, in_flight=5),
    "its leader cut its log since": lambda: cut(2, 2_000),
}


def test_a_producer_is_not_refused_what_comes_next(spark: Any) -> None:
    stories = {name: made() for name, made in (BROKEN | LAWFUL).items()}
    found = judged_together(spark, check, stories)
    wrong = {name: rules for name, (rules, _) in found.items() if rules}
    assert wrong == {name: {"sequence-refused": 1} for name in BROKEN}
    assert [name for name, (_, why) in found.items() if any("had loaded" in w for w in why)] == (
        list(LAWFUL)[1:]
    )


def test_who_is_not_idempotent_has_no_sequences_to_be_refused_for(spark: Any) -> None:
    counts = check(given_up(process="p").history(spark)).counts
    assert counts == {"refused-for-nothing": 1}


def test_what_was_lost_lawfully_takes_its_sequences_along(spark: Any) -> None:
    outcome = check(unclean().history(spark))
    assert not outcome.counts
    assert [(e.rule, e.excuse, e.n) for e in outcome.excuses()] == [
        ("sequence-refused", "unclean", 2)
    ]
