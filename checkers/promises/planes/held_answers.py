"""Answers of a control plane that are ready and do not leave, for `checkers.promises.planes`.

The network thread sleeps until a socket has something for it, for 300 ms at most; whoever has an
answer for it to send wakes it up (Processor.enqueueResponse). Where nobody does, each answer waits
for whatever comes next, and a controller, which has one request under way to each broker, is slowed
down by as much each time, with nothing at work anywhere.

- ``answer-held``: of a broker's answers on its control plane half and more were still there
  `HELD_NS` after they were ready.

Lawful, and looks similar: single answers of a broker that waits for a core, or was stopped (a
seventh of them, of a Java broker on two busy cores); answers of a data plane, whose network threads
do not send while its request queue is full: that is what KIP-291 is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "answer-held"
READY: Final = "answers of control planes that tell when they were ready and when they left"
HELD_NS: Final = 100_000_000
SHARE: Final = 0.5
FEWEST: Final = 20
"""Of fewer, one broker that was stopped for a moment may be half."""


def held_answers(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    if not history.has("control_request"):
        return
    rows = history.frame("control_request").where("plane = 'control' and handled_t > 0")
    held = F.col("t") - F.col("handled_t")
    found = rows.groupBy("arm", "trial", "node").agg(
        F.count("*").alias("n"),
        F.count(F.when(held > HELD_NS, 1)).alias("held"),
        F.percentile_approx(held, 0.5).alias("median_ns"),
        F.max_by("t", held).alias("t"),
    )
    for row in found.orderBy("arm", "trial", "node").toArrow().to_pylist():
        if row["n"] < FEWEST:
            continue
        outcome.saw(row["arm"], row["trial"], READY, row["n"])
        if row["held"] >= SHARE * row["n"]:
            finding = Finding(
                RULE,
                f"{row['held']} of {row['n']} answers of node {row['node']}'s control plane left "
                f"{HELD_NS / 1e6:.0f} ms and more after they were ready, half of them "
                f"{row['median_ns'] / 1e6:.0f} ms",
                row["arm"],
                row["trial"],
                (Pick("control_request", {"node": row["node"], "t": row["t"]}, rows=1),),
            )
            yield finding, row["held"]
