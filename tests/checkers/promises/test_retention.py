"""What goes from a log by its age and size: histories that are caught beside ones that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.promises.retention import LOGS, ROLLED, TAKEN, TOLD, check
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import Asks, judging

BYTES, SECONDS = {"retention.bytes": "8000"}, {"retention.ms": "5000"}
READ = 90_000.0
"""When the folder was read (ms)."""


def segments(*sizes: int, newest: float = 80_000) -> list[dict[str, int]]:
    """Ten records each; the last has the latest time, ``newest`` that of the first (ms)."""
    return [
        {"base_offset": 100 + 10 * n, "bytes": size, "newest_ms": int(newest + 1_000 * n)}
        for n, size in enumerate(sizes)
    ]


def log(
    kept: list[dict[str, int]],
    configs: dict[str, str] = BYTES,
    *,
    start: int = 100,
    committed: int | None = None,
    began: float = 1_000,
    leads: bool = True,
    deleted: int | None = None,
    acked: tuple[int, float] | None = None,
    first_look_ms: int | None = None,
    **more: Any,
) -> Story:
    """The log of a leader that began at ``began`` (ms), as it was read. ``acked``: one record's
    offset and append time (ms). Clocks are one."""
    story = Story()
    facts = {**story.run["arms"].get(ARM, {}), "first_look_ms": first_look_ms}
    story.run["arms"] = {**story.run["arms"], ARM: facts}
    story.run["topics"] = {"t": {"configs": configs}}
    story.add("node_event", began, node=1, event="start")
    end = 100 + 10 * len(kept)
    bounds = {"log_start_offset": start, "log_end_offset": end, "is_leader": leads}
    high_watermark = end if committed is None else committed
    story.add("log_end", READ - 1, node=1, high_watermark=high_watermark, **bounds)
    if deleted is not None:
        story.add("records_deleted", 5_000, node=1, offset=deleted)
    if acked is not None:
        offset, at_ms = acked
        story.produce(at_ms + 1, offset, offset, 1, log_append_time_ms=int(at_ms))
    told = {"segments": len(kept), "end_offset": end, "kept": kept, **more}
    story.add("log_folder", READ, node=1, **told)
    return story


FULL = segments(4_000, 4_000, 4_000)
OLD = segments(500, 500, newest=70_000)
FRESH = segments(500, 500, newest=86_000)
CASES: dict[str, tuple[Story, str | None]] = {
    "the oldest can go": (log(FULL), "kept-beyond-size"),
    "and it is the first": (log(FULL, start=0), "kept-beyond-size"),
    "without it there is too little": (log(segments(4_000, 4_000, 3_999)), None),
    "one that is written to": (log(segments(90_000)), None),
    "what is not committed stays": (log(FULL, committed=109), None),
    "its broker began a moment ago": (log(FULL, began=60_000), None),
    "its broker looks soon": (log(FULL, began=60_000, first_look_ms=1_000), "kept-beyond-size"),
    "and began just now": (log(FULL, began=85_000, first_look_ms=1_000), None),
    "a follower's": (log(FULL, leads=False), None),
    "without a limit": (log(FULL, {}), None),
    "a compacted topic": (log(FULL, {**BYTES, "cleanup.policy": "compact"}), None),
    "nobody could read it": (log(FULL, error="no folder"), None),
    "too little is left": (log(segments(4_000, 3_999)), "expired-too-soon"),
    "nothing is left": (log([]), "expired-too-soon"),
    "enough is left": (log(segments(4_000, 4_000)), None),
    "it never had more": (log(segments(400), start=0), None),
    "somebody deleted the rest": (log(segments(400), deleted=100), None),
    "either limit may have taken it": (log(segments(400), BYTES | SECONDS), None),
    "it is old": (log(OLD, SECONDS), "kept-beyond-time"),
    "it is old, and alone": (log(OLD[:1], SECONDS), "kept-beyond-time"),
    "it will be old in a moment": (log(FRESH, SECONDS), None),
    "it is old, and was not looked at": (log(OLD, SECONDS, began=60_000), None),
    "it is empty": (log([{**OLD[0], "newest_ms": -1}], SECONDS), None),
    "old enough, or nearly": (log(FRESH, SECONDS, acked=(99, 84_500)), None),
    "it was young": (log(FRESH, SECONDS, acked=(99, 86_500)), "expired-too-soon"),
    "it is young, and there": (log(FRESH, SECONDS, acked=(100, 86_500)), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_a_log_loses_what_is_too_old_or_too_much_and_nothing_else(name: str) -> Asks:
    story, rule = CASES[name]
    outcome = yield story
    assert outcome.counts == ({} if rule is None else {rule: 1})


@judging(check)
def test_what_was_read_counts() -> Asks:
    outcome = yield log(segments(4_000, 4_000))
    assert outcome.evidence == {(ARM, 0, LOGS): 1, (ARM, 0, TAKEN): 1}


@judging(check)
def test_of_nothing_that_expires_there_is_nothing_to_judge() -> Asks:
    outcome = yield log(FULL, {})
    assert not outcome.evidence


@judging(check)
def test_who_began_a_moment_ago_is_said_to_be_unjudged() -> Asks:
    outcome = yield log(FULL, began=60_000)
    assert any("began shortly before" in why for why in outcome.not_judged)


def told(t: float, begin: int = 100, configs: dict[str, str] = SECONDS, **more: Any) -> Story:
    """Offset 99 was appended at 50 s, and at ``t`` its leader tells where its log begins."""
    story = log(segments(500, newest=86_000), configs, acked=(99, 50_000))
    of = {"node": 1, "asked_ms": -2, "believed_epoch": -1, "found_ms": -1, "leader_epoch": 0}
    story.add("listed_offset", t, **{"offset": begin, "error": 0, **of, **more})
    return story


def read(t: float, begin: int | None, **more: Any) -> Story:
    story = told(t, 0)
    of = {"node": 1, "offset": 5, "believed_epoch": 0, "high_watermark": 9, "found_end": -1}
    story.add("read_at", t, **{"log_start_offset": begin, "error": 0, **of, **more})
    return story


BEGINNINGS: dict[str, tuple[Story, bool]] = {
    "too soon": (told(53_000), True),
    "soon, or nearly": (told(54_100), False),
    "in its time": (told(56_000), False),
    "before it": (told(53_000, 99), False),
    "at the very beginning": (told(53_000, 0), False),
    "an end": (told(53_000, asked_ms=-1), False),
    "refused": (told(53_000, type="fail", error=6), False),
    "of so many bytes": (told(53_000, configs={"retention.bytes": "400"}), False),
    "of either": (told(53_000, configs=BYTES | SECONDS), False),
    "of what is kept": (told(53_000, configs={}), False),
    "to who reads, too soon": (read(53_000, 100), True),
    "to who reads": (read(56_000, 100), False),
    "to who reads, refused": (read(53_000, 100, type="fail", error=6), False),
    "to who reads, and not told": (read(53_000, None), False),
}


@pytest.mark.parametrize("name", BEGINNINGS)
@judging(check)
def test_what_is_told_to_be_gone_is_old_by_then(name: str) -> Asks:
    story, broken = BEGINNINGS[name]
    outcome = yield story
    assert outcome.counts == ({"expired-too-soon": 1} if broken else {})
    if broken:
        assert outcome.evidence[ARM, 0, TOLD]


@judging(check)
def test_what_somebody_deletes_may_go_at_once() -> Asks:
    story = told(53_000)
    story.add("records_deleted", 52_000, node=1, offset=100)
    outcome = yield story
    assert not outcome.counts


@judging(check)
def test_what_a_topic_that_is_altered_keeps_nobody_says() -> Asks:
    story = told(53_000)
    alters(story, 51_000, {"retention.ms": "1000"}, "alter-topic", "injected")
    outcome = yield story
    assert not outcome.counts


DATED = {"segment.ms": "1000", "message.timestamp.type": "LogAppendTime"}


def rolled(
    spans_ms: int, configs: dict[str, str] = DATED, *, alone_from: int = 100, leads: bool = True
) -> Story:
    """A log of two segments, at 100 and 110; the second has records of that long a time. Its leader
    has written what begins at ``alone_from`` in its last leader epoch."""
    epochs = [
        {"leader_epoch": 3, "first_offset": 100, "last_offset": alone_from - 1},
        {"leader_epoch": 4, "first_offset": alone_from, "last_offset": 119},
    ]
    kept = segments(500, 500)
    kept[1]["newest_ms"] = 80_000 + spans_ms
    story = log(kept, configs, leads=leads, epochs=epochs)
    for offset, ms in ((100, 79_500), (110, 80_000)):
        own = {"offset": offset, "value": offset, "append_time_ms": ms, "leader_epoch": 4}
        story.add("log_read", 90_000, node=1, **own)
    return story


def alters(story: Story, at_ms: float, configs: dict[str, str], fault: str, phase: str) -> None:
    told = {"id": fault, "fault": fault}
    said = json.dumps({"topic": "t", "configs": configs})
    story.add("fault", at_ms, detail=said, phase=phase, **told)
    story.add("fault", at_ms + 1, phase="healed", **told)


def altered(
    spans_ms: int, at_ms: float, configs: dict[str, str] = DATED, phase: str = "injected"
) -> Story:
    """The same of a topic that was made without settings and is given these; ten seconds later, as
    nobody tells of calm, its leader goes by them."""
    story = rolled(spans_ms, {})
    alters(story, at_ms, configs, "alter-topic", phase)
    return story


def altered_twice(spans_ms: int, first: dict[str, str], second: dict[str, str]) -> Story:
    story = altered(spans_ms, 60_000, first)
    alters(story, 65_000, second, "unseen-settings", "injected")
    return story


def by_no_clock() -> Story:
    story = altered(2_500, 60_000)
    del story.run["clock"]
    return story


SEGMENTS: dict[str, tuple[Story, bool]] = {
    "longer than it may be": (rolled(2_500), True),
    "as long as it may be": (rolled(1_000), False),
    "a little longer, by another clock": (rolled(1_900), False),
    "begun by a leader of before": (rolled(9_000, alone_from=111), False),
    "of who does not lead": (rolled(9_000, leads=False), False),
    "dated by those who sent them": (rolled(9_000, {"segment.ms": "1000"}), False),
    "as old as may be": (rolled(9_000, {"message.timestamp.type": "LogAppendTime"}), False),
    "with jitter": (rolled(9_000, {**DATED, "segment.jitter.ms": "9000"}), False),
    "longer than it may be by now": (altered(2_500, 65_000), True),
    "longer, and there before": (altered(4_000, 72_000), True),
    "as long as it may be by now": (altered(1_000, 65_000), False),
    "a little longer than what was there may be": (altered(2_500, 72_000), False),
    "altered otherwise": (altered(9_000, 60_000, {"segment.ms": "1000"}), False),
    "perhaps altered": (altered(9_000, 60_000, phase="failed"), False),
    "altered by nobody's clock": (by_no_clock(), False),
    "longer than it may be in the end": (altered_twice(2_500, {}, DATED), True),
    "and no more in the end": (altered_twice(9_000, DATED, {}), False),
}


@pytest.mark.parametrize("name", SEGMENTS)
@judging(check)
def test_how_old_a_segment_grows(name: str) -> Asks:
    story, late = SEGMENTS[name]
    outcome = yield story
    assert bool(outcome.counts.get("rolled-too-late")) == late
    counts = name.startswith(("longer", "as long", "a lit"))
    assert bool(outcome.evidence[ARM, 0, ROLLED]) == counts
