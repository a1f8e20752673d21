"""How much a read gives, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.offsets import check
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging


def answered(story: Story, *given: tuple[int, int] | None, most: Any = 100, each: int = 80,
             op: int = 1, **more: Any) -> None:  # fmt: skip
    """An answer of broker 1: of each partition the bytes that it gave, and of those the first
    batch's; None: the partition is at its end."""
    for partition, size in enumerate(given):
        has = size is None or size[0] > 0
        read: dict[str, Any] = {"node": 1, "op": op, "partition": partition, "believed_epoch": 2}
        read |= {"offset": 5, "high_watermark": 5 if size is None else 9, "error": 0}
        read |= {"log_start_offset": 0, "found_end": 7 if has and size else -1, "leader_epoch": -1}
        read |= {"max_bytes": most, "partition_max_bytes": each}
        read |= dict(zip(("given_bytes", "first_bytes"), size or (0, 0), strict=True))
        story.add("read_at", 200, **{**read, **more})


MUCH, NOTHING = "given-too-much", "given-nothing"
CASES: dict[str, tuple[Any, dict[str, int]]] = {
    "as much as was asked for": (lambda s: answered(s, (80, 40), (20, 20)), {}),
    "of one alone": (lambda s: answered(s, (80, 40), (0, 0)), {}),
    "one batch, larger than that": (lambda s: answered(s, (500, 500), (0, 0)), {}),
    "larger than its share, and what is left": (lambda s: answered(s, (90, 90), (10, 10)), {}),
    "not the first partition": (lambda s: answered(s, None, (500, 500), None), {}),
    "two batches, larger than that": (lambda s: answered(s, (120, 60), each=200), {MUCH: 1}),
    "two batches, larger than its share": (lambda s: answered(s, (90, 60)), {MUCH: 1}),
    "more in all": (lambda s: answered(s, (80, 40), (40, 40)), {MUCH: 2}),
    "one batch, and another one": (lambda s: answered(s, (500, 500), (10, 10)), {MUCH: 2}),
    "two that are larger than their shares": (
        lambda s: answered(s, (30, 30), (30, 30), each=20),
        {MUCH: 2},
    ),
    "in two answers": (
        lambda s: (answered(s, (80, 40)), answered(s, None, (80, 40), op=2)),
        {},
    ),
    "of two brokers, or two clients": (
        lambda s: (
            answered(s, (80, 40)),
            answered(s, None, (80, 40), node=2),
            answered(s, None, (80, 40), process="q"),
        ),
        {},
    ),
    "nothing at all": (lambda s: answered(s, (0, 0), (0, 0), None), {NOTHING: 2}),
    "nothing, as there is nothing": (lambda s: answered(s, None, None), {}),
    "nothing, being refused": (lambda s: answered(s, (0, 0), type="fail", error=6), {}),
    "something of one": (lambda s: answered(s, None, (0, 0), (30, 30)), {}),
    "nothing in one of two answers": (
        lambda s: (answered(s, (80, 40)), answered(s, None, (0, 0), op=2)),
        {NOTHING: 1},
    ),
    "nothing of what was deleted meanwhile": (
        lambda s: answered(s, (0, 0), log_start_offset=6),
        {},
    ),
    "at its beginning": (lambda s: answered(s, (0, 0), log_start_offset=5), {NOTHING: 1}),
    "to who does not say how much": (
        lambda s: (answered(s, (0, 0), most=None), answered(s, (500, 60), most=None, op=2)),
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_who_reads_is_given_as_much_as_fits_and_at_least_one_batch(name: str) -> Asks:
    tell, wrong = CASES[name]
    story = Story()
    for partition in range(3):
        story.final_log({offset: offset for offset in range(20)}, leader_epoch=2,
                        partition=partition)  # fmt: skip
    tell(story)
    found = yield story
    assert {rule: n for rule, n in found.counts.items() if rule in (MUCH, NOTHING)} == wrong


@judging(check)
def test_what_was_given_is_told_with_it() -> Asks:
    story = Story()
    story.final_log({offset: offset for offset in range(20)}, leader_epoch=2)
    answered(story, (120, 60), each=200)
    found = yield story
    (finding,) = [one for one in found.findings if one.rule == MUCH]
    assert "gave 120 bytes to who had asked for 100 at most, of t-0" in finding.says
