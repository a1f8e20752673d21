"""What held when, against a scan of all spans."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import functions as F

from checkers.facts.timeline import ALWAYS, FOREVER, FROM, TO, Timeline, merged, steps

TICK = 10_000_000
LONG = (0, 1, 50 * TICK, 3_000 * TICK, 90_000 * TICK)
KEYS = ("arm", "trial", "node")


def spans_of(rng: random.Random, node: int) -> list[dict[str, Any]]:
    """Disjoint, some of them without an end, some of no length; before 0, too."""
    times = sorted(
        TICK * rng.randrange(-5_000, 100_000) for _ in range(rng.choice([0, 1, 2, 9, 200]))
    )
    each = [span for span in steps(times) if rng.random() < 0.8]
    return [
        {"arm": "a", "trial": 0, "node": node, FROM: begin, TO: end, "number": number}
        for number, (begin, end) in enumerate(each)
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_row_finds_its_span(story: Any, spark: Any, seed: int) -> None:
    rng = random.Random(seed)
    spans = [span for node in range(6) for span in spans_of(rng, node)]
    timeline = Timeline(spans, KEYS, {"number": "int"})
    history = story.history(spark)
    edges = [
        t + n for s in spans for t in (s[FROM], s[TO]) if ALWAYS < t < FOREVER for n in (-1, 0)
    ]
    times = [TICK * rng.randrange(-6_000, 400_000) for _ in range(300)]
    times += [rng.choice(edges) for _ in range(200)]
    rows = [
        {"arm": "a", "trial": 0, "node": node, "t": t, "till_t": t + rng.choice(LONG)}
        for t in times
        for node in rng.sample(range(7), 3)
    ]
    frame = history.table(rows, "arm string, trial int, node int, t bigint, till_t bigint")
    found = timeline.at(history, frame, F.col("t")).toArrow().to_pylist()
    assert len(found) == len(rows)
    for row in found:
        true = [s for s in spans if s["node"] == row["node"] and s[FROM] <= row["t"] < s[TO]]
        assert [row["number"]] == ([s["number"] for s in true] or [None])
    met = timeline.during(history, frame, F.col("t"), F.col("till_t")).toArrow().to_pylist()
    expected = [
        (row["node"], row["t"], row["till_t"], span["number"])
        for row in rows
        for span in spans
        if span["node"] == row["node"] and span[FROM] <= row["till_t"] and row["t"] < span[TO]
        if span[FROM] < span[TO]
    ]
    assert sorted((r["node"], r["t"], r["till_t"], r["number"]) for r in met) == sorted(expected)


def test_its_table_is_as_large_as_what_happened() -> None:
    """However long spans last, and whatever their number."""
    for n in (1, 10, 1_000):
        times = [number * 4_000_000_000 for number in range(n)]
        spans = [
            {"arm": "a", "trial": 0, "node": 1, FROM: begin, TO: end} for begin, end in steps(times)
        ]
        assert Timeline(spans, KEYS).listed().num_rows <= 8 * n + 40
    assert merged([(5, 7), (1, 3), (3, 4), (6, 9)]) == [(1, 4), (5, 9)]
    assert steps([3]) == [(ALWAYS, 3), (3, FOREVER)]
