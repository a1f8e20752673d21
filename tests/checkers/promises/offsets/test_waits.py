"""Reads that wait where a log ends, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.offsets import check
from checkers.promises.offsets.waits import WAITS
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

SOON, LITTLE, LATE = "answered-too-soon", "answered-with-too-little", "answered-late"
LATEST, EARLIEST = -1, -2


def reads(story: Story, asked: float, t: float, offset: int, *, to: int | None = None,
          end: int = 10, **more: Any) -> None:  # fmt: skip
    """Broker 1 is asked for t-0 from ``offset`` on, and gives 100 bytes a record up to ``to``."""
    size = 0 if to is None else 100 * (to - offset)
    row: dict[str, Any] = {"node": 1, "partition": 0, "believed_epoch": 2, "error": 0}
    row |= {"offset": offset, "high_watermark": end, "log_start_offset": 0, "leader_epoch": -1}
    row |= {"found_end": -1 if to is None else to, "given_bytes": size, "first_bytes": size}
    row |= {"max_bytes": 60_000, "partition_max_bytes": 60_000}
    story.add("read_at", t, invoke_t=asked, **{**row, **more})


def waits(story: Story, asked: float, t: float, offset: int, *, least: int = 1,
          **more: Any) -> None:  # fmt: skip
    """The same of one who waits for 1.5 s."""
    reads(story, asked, t, offset, **{"min_bytes": least, "max_wait_ms": 1_500, **more})


def soon(story: Story, **more: Any) -> None:
    """What is before offset 10 was given; who waits for what is next is answered 300 ms later."""
    reads(story, 1_000, 1_010, 5, to=10)
    waits(story, 1_011, **{"t": 1_311, "offset": 10, **more})


def told(story: Story, asked_ms: int) -> None:
    """Offset 10, and then somebody waits there who has read nothing."""
    of = {"node": 1, "believed_epoch": -1, "asked_ms": asked_ms, "found_ms": -1, "error": 0}
    story.add("listed_offset", 900, offset=10, leader_epoch=2, **of)
    waits(story, 1_011, 1_311, 10)


def little(story: Story, *, then: tuple[int, int] | None = (8, 14), **more: Any) -> None:
    """Of 2000 bytes that it waits for 200 are given; later ``then`` (from, to) in one answer."""
    reads(story, 1_000, 1_010, 5, to=10)
    waits(story, 1_011, **{"t": 1_311, "offset": 10, "to": 12, "least": 2_000, "end": 12, **more})
    if then is not None:
        reads(story, 2_000, 2_010, then[0], to=then[1], end=14)


def little_and_much_later(story: Story) -> None:
    little(story, then=None)
    reads(story, 7_000, 7_010, 8, to=14, end=14)


def late(story: Story, *, known: float = 20_400, healed: float = 5_000, **more: Any) -> None:
    """Once all is calm one waits for offset 10 until the time is up; an end of 12 was ``known``."""
    story.add("phase", healed, name="chaos", event="end")
    story.add("phase", healed + 500, name="quiesce", event="end")
    reads(story, known - 10, known, 8, to=10, end=12)
    waits(story, **{"asked": 20_000, "t": 21_501, "offset": 10, "to": 12, "end": 12, **more})


def beside(story: Story, *, of: dict[str, Any], op: int = 77, **more: Any) -> None:
    """As `soon`, or `little` where something is given; the same answer tells ``of`` u-0, too."""
    reads(story, 1_000, 1_010, 5, to=10)
    reads(story, 1_000, 1_010, 5, to=10, topic="u")
    both = {"op": op, "least": 2_000, "end": 12}
    waits(story, 1_011, 1_311, 10, **{**both, **more})
    waits(story, 1_011, 1_311, 10, topic="u", **{**both, **of})
    reads(story, 2_000, 2_010, 8, to=14, end=14)


CASES: dict[str, tuple[Any, str | None]] = {
    "it waits": (lambda s: soon(s, t=2_512), None),
    "nothing, before the time is up": (soon, SOON),
    "nothing, a moment before": (lambda s: soon(s, t=2_503), None),
    "a record": (lambda s: soon(s, to=11, end=11), None),
    "who wants several": (lambda s: soon(s, least=2_000), SOON),
    "who wants not to wait": (lambda s: soon(s, max_wait_ms=0, min_bytes=0), None),
    "who does not say how long": (lambda s: soon(s, max_wait_ms=None, min_bytes=None), None),
    "who wants nothing": (lambda s: soon(s, least=0), None),
    "refused": (lambda s: soon(s, type="fail", error=6), None),
    "beyond the high watermark": (lambda s: soon(s, end=9), None),
    "beyond what was committed by then": (lambda s: soon(s, offset=11, end=11), None),
    "of another leader epoch": (lambda s: soon(s, believed_epoch=3), None),
    "of another broker": (lambda s: soon(s, node=2), None),
    "of who believes in none": (lambda s: soon(s, believed_epoch=-1), None),
    "an end was told": (lambda s: told(s, LATEST), SOON),
    "a beginning was told": (lambda s: told(s, EARLIEST), None),
    "too little": (little, LITTLE),
    "too little, as the time is up": (lambda s: little(s, t=2_512), None),
    "as much as was asked for": (lambda s: little(s, given_bytes=2_000), None),
    "as much as may come": (lambda s: little(s, partition_max_bytes=200), None),
    "as much as may come in all": (lambda s: little(s, max_bytes=150), None),
    "a segment ends there": (lambda s: little(s, then=(12, 14)), None),
    "a segment ends there, and before": (lambda s: little(s, then=(8, 12)), None),
    "a segment begins there": (lambda s: little(s, then=(10, 14)), None),
    "nothing was read afterwards": (lambda s: little(s, then=None), None),
    "read much later": (little_and_much_later, None),
    "another partition gives enough": (lambda s: beside(s, of={"given_bytes": 2_000}), None),
    "another gives the rest": (lambda s: beside(s, to=12, of={"given_bytes": 1_800}), None),
    "another does not give the rest": (
        lambda s: beside(s, to=12, of={"given_bytes": 1_799}),
        LITTLE,
    ),
    "another answer gives enough": (
        lambda s: beside(s, to=12, of={"given_bytes": 2_000, "op": 78}),
        LITTLE,
    ),
    "another partition is refused": (lambda s: beside(s, of={"type": "fail", "error": 6}), None),
    "late": (late, LATE),
    "not late": (lambda s: late(s, known=20_600), None),
    "in the end it did not wait so long": (lambda s: late(s, t=21_400), None),
    "who wants several may wait": (lambda s: late(s, least=2_000), None),
    "what was told ends there": (lambda s: late(s, offset=12, to=None), None),
    "not calm yet": (lambda s: late(s, healed=19_000), None),
    "long enough after the last fault": (lambda s: late(s, healed=17_900), LATE),
    "told by another broker": (lambda s: late(s, node=2), None),
    "told in another leader epoch": (lambda s: late(s, believed_epoch=3), None),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_waits_is_answered_when_there_is_enough_or_the_time_is_up(name: str) -> Asks:
    tell, rule = CASES[name]
    story = Story()
    story.final_log({offset: offset for offset in range(20)}, leader_epoch=2)
    tell(story)
    found = yield story
    seen = {r: n for r, n in found.counts.items() if r in (SOON, LITTLE, LATE)}
    assert seen == ({} if rule is None else {rule: 1})


@judging(check)
def test_reads_that_waited_are_counted_and_what_was_wrong_is_told() -> Asks:
    story = Story()
    story.final_log({offset: offset for offset in range(20)}, leader_epoch=2)
    soon(story)
    found = yield story
    assert found.evidence[story.arm, 0, WAITS] == 1
    (finding,) = [one for one in found.findings if one.rule == SOON]
    assert "nothing of t-0 from offset 10 on" in finding.says
    assert "wait 1500 ms" in finding.says


@judging(check)
def test_of_a_topic_that_is_deleted_nothing_is_said() -> Asks:
    story = Story()
    story.add("topic_deletion", 500, topic="t", step="requested")
    soon(story)
    found = yield story
    assert SOON not in found.counts
