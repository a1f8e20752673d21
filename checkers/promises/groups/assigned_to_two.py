"""A partition that two members of a group hold at once, for `checkers.promises.groups`.

Who is to join anew gives up what it had before it asks to be let in, and is waited for: so nobody
is given a partition that another member still holds (eager rebalancing, KIP-62). Only who is a
member no more, since nobody heard of it, may believe for a while that it holds something. Once
every fault is healed, and brokers have had their time (`checkers.facts.calm`), that is nobody who
polls (`thrown_out`).

- ``assigned-to-two``: a member was given a partition that another one had been given then, had not
  given up, and polled for, before and after.

Lawful, and looks similar: the other one had gone without a word, or polls too seldom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.thrown_out import POLLS_NS

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "assigned-to-two"
GIVEN: Final = "partitions given to members once all was calm"
Row = Mapping[str, Any]


def assigned_to_two(history: History, outcome: Outcome) -> Iterator[Finding]:
    since = {
        trial: of.healed_t + of.needed_ns for trial, of in calm(history).items() if of.healed_t
    }
    holders: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in sorted(history.rows("assignment"), key=lambda row: row["t"]):
        trial = (row["arm"], row["trial"])
        held = holders.setdefault((*trial, row["group"], row["topic"], row["partition"]), {})
        if row["event"] != "assigned":
            held.pop(row["process"], None)
            continue
        if row["t"] > since.get(trial, row["t"]):
            outcome.saw(*trial, GIVEN)
            for process, other in held.items():
                late = other["t"] > since[trial] and process != row["process"]
                if late and _polled_on(history, other, row["t"]):
                    yield _finding(other, row)
        held[row["process"]] = row


def _polled_on(history: History, other: Row, t: int) -> bool:
    """Whether that member polled from when it was given its partition until after ``t``."""
    if not history.has("fetch"):
        return False
    polls = history.frame("fetch").where(
        (F.col("arm") == other["arm"])
        & (F.col("trial") == other["trial"])
        & (F.col("process") == other["process"])
        & F.col("t").between(other["t"], t + POLLS_NS)
    )
    ends = sorted(row["t"] for row in polls.select("t").distinct().toArrow().to_pylist())
    times = [other["t"], *ends]
    gaps = (b - a for a, b in zip(times, ends, strict=False))
    return bool(ends) and ends[-1] > t and all(gap < POLLS_NS for gap in gaps)


def _finding(other: Row, row: Row) -> Finding:
    at = {name: row[name] for name in ("group", "topic", "partition")}
    return Finding(
        RULE,
        f"{row['process']} was given {row['topic']}-{row['partition']} of group {row['group']}, "
        f"which {other['process']} had been given {(row['t'] - other['t']) / 1e9:.1f} s before, "
        "had not given up, and polled for",
        row["arm"],
        row["trial"],
        tuple(
            Pick("assignment", {**at, "process": one["process"], "t": one["t"]}, rows=1)
            for one in (other, row)
        ),
    )
