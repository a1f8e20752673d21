"""Batches that were sent once more: each defect beside what is lawful and alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.promises.records import check
from checkers.promises.records.repeats import REPEATED
from tests.checkers.conftest import MS, Story, judged_together


def again(**more: Any) -> Story:
    """Value 1 is at offset 0, and is sent to leader 2, which led from 2,500 ms on, at 3,000."""
    story = Story()
    story.commit(0, 1, 0)
    story.commit(2_500, 2, 1)
    for node in (1, 2):
        story.add("node_event", 1, node=node, event="start")
    story.produce(900, 1, 0, acks=-1)
    story.final_log({0: 1}, node=2)
    fields = {"value": 1, "node": 2, "first_t": 890 * MS, "first_offset": 0, "later": 3}
    fields |= {"invoke_t": 2_990, "offset": 0, **more}
    t = fields.pop("t", 3_000)
    story.add("repeated", t, **fields)
    return story


def refused(error: int = 45, **more: Any) -> Story:
    return again(type="fail", error=error, offset=-1, **more)


def cut(t: float, **more: Any) -> Story:
    story = refused(later=0)
    fields = {"node": 2, "from_offset": 5, "to_offset": 4, "leader_epoch": 1, **more}
    story.add("truncation", t, **fields)
    return story


def started(t: float, *, node: int = 2, **more: Any) -> Story:
    story = refused(**more)
    story.add("node_event", t, node=node, event="start")
    return story


def unclean() -> Story:
    story = refused()
    story.run["topics"] = {"t": {"configs": {"unclean.leader.election.enable": "true"}}}
    story.rows["leadership"][0] |= {"isr": [1]}
    return story


REFUSED: dict[str, Callable[[], Story]] = {
    "out of order": refused,
    "a duplicate": lambda: refused(46),
    "of an older epoch": lambda: refused(47),
    "of nobody": lambda: refused(59),
    "fenced": lambda: refused(90),
    "the last of all, by who was started since": lambda: started(2_000, later=0),
    "by who was started before": lambda: started(800),
    "by who was started afterwards": lambda: started(4_000),
    "another was started": lambda: started(2_000, node=1),
    "by who cut its log before": lambda: cut(800),
    "by who cut its log afterwards": lambda: cut(4_000),
    "another cut its log": lambda: cut(2_000, node=1),
    "another partition was cut": lambda: cut(2_000, partition=1),
}
OTHERWISE: dict[str, Callable[[], Story]] = {
    "later": lambda: again(offset=7),
    "at no offset": lambda: again(offset=-1),
    "at none that is told": lambda: again(offset=None),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "known": again,
    "not the leader": lambda: refused(6),
    "too few replicas": lambda: refused(19),
    "nobody answered": lambda: again(type="info", offset=None, error=None),
    "by the leader of before": lambda: refused(node=1),
    "asked before it led": lambda: refused(invoke_t=2_400),
    "answered after another led": lambda: refused(node=1, invoke_t=2_300, t=2_600),
    "by who was started since": lambda: started(2_000),
    "by who cut its log since": lambda: cut(2_000),
}


def test_the_last_five_batches_of_a_producer_are_known_to_its_leader(spark: Any) -> None:
    stories = {name: made() for name, made in (REFUSED | OTHERWISE | LAWFUL).items()}
    found = judged_together(spark, check, stories)
    wrong = {name: rules for name, (rules, _) in found.items() if rules}
    assert wrong == {
        **{name: {"repeat-refused": 1} for name in REFUSED},
        **{name: {"repeat-told-otherwise": 1} for name in OTHERWISE},
    }
    assert not [why for _, why in found.values() if why]


def test_what_was_lost_lawfully_is_not_known_again(spark: Any) -> None:
    outcome = check(unclean().history(spark))
    assert not outcome.counts
    excused = [(e.rule, e.excuse, e.n) for e in outcome.excuses()]
    assert excused == [("repeat-refused", "unclean", 1)]


def test_who_led_has_to_be_known(spark: Any) -> None:
    story = refused()
    del story.rows["leadership"]
    outcome = check(story.history(spark))
    assert not outcome.counts
    assert "nobody tells who led t-0 as a batch was repeated" in outcome.unknowns[0]


def test_what_was_answered_is_counted(spark: Any) -> None:
    assert {w: n for (_, _, w), n in check(again().history(spark)).evidence.items()}[REPEATED] == 1
    assert REPEATED not in {w for _, _, w in check(refused(6).history(spark)).evidence}
