"""A broker's lives: what it knew ends with its process.

Epochs that a broker accepted, and metadata that it showed, bind it until it dies. Client-side rows
do not carry the broker's boot number, so a life is counted by what the harness did to the process:
each start, kill, stop and exit of a node begins a new one. Two rows are compared only inside one
life. That errs on the side of silence: a broker that handles requests while it shuts down is not
compared with what it did before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from checkers.facts.timeline import FROM, TO, Timeline, steps

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

ENDS: Final = frozenset({"start", "kill", "stop", "stopped", "exited"})


def cuts(history: History) -> dict[tuple[str, int, int], list[int]]:
    """By (arm, trial, node): the times (ns) at which a life ends or begins, ascending."""
    found: dict[tuple[str, int, int], list[int]] = {}
    for row in history.rows("node_event"):
        if row["event"] in ENDS and row["node"] is not None:
            found.setdefault((row["arm"], row["trial"], row["node"]), []).append(row["t"])
    return found


_RUNS: Final = {"start": True, "resume": True} | dict.fromkeys(
    ("kill", "stopped", "exited", "pause"), False
)
"""Rows are written once a process has ended and before it goes on. A ``stop`` is the beginning of a
controlled shutdown, in which a broker serves on."""
Node = tuple[str, int, int]
_NODE: Final = ("arm", "trial", "node")


def runs(history: History) -> dict[Node, list[tuple[int, bool]]]:
    """By (arm, trial, node): when the harness let that process run (true) or not, ascending."""

    def make() -> dict[Node, list[tuple[int, bool]]]:
        found: dict[Node, list[tuple[int, bool]]] = {}
        for row in history.rows("node_event"):
            if row["event"] in _RUNS and row["node"] is not None:
                of = found.setdefault((row["arm"], row["trial"], row["node"]), [])
                of.append((row["t"], _RUNS[row["event"]]))
        return found

    known: dict[Node, list[tuple[int, bool]]] = history.memo("runs", make)
    return known


def was_away(of: Sequence[tuple[int, bool]], from_t: int, to_t: int | None = None) -> bool:
    """`is_away`, by one node's `runs`."""
    place = bisect_right(of, from_t, key=lambda step: step[0])
    last = place > 0 and not of[place - 1][1]
    until = place if to_t is None else bisect_right(of, to_t, key=lambda step: step[0])
    return last and not any(begun for _, begun in of[place:until])


def is_away(history: History, node: Node, from_t: int, to_t: int | None = None) -> bool:
    """Whether that process certainly did not run at any moment of the span (ns; to its first moment
    by default): the harness had ended or paused it, and not begun it again."""
    return was_away(runs(history).get(node, ()), from_t, to_t)


def with_start(history: History, frame: DataFrame, at: Column) -> DataFrame:
    """Add ``started_t`` (ns): when the harness last started broker ``node`` before ``at``; 0 when
    that is not known. Unlike a life this goes on while the broker shuts down."""
    from pyspark.sql import functions as F

    def make() -> Timeline:
        found: dict[Node, list[int]] = {}
        for row in history.rows("node_event"):
            if row["event"] == "start" and row["node"] is not None:
                found.setdefault((row["arm"], row["trial"], row["node"]), []).append(row["t"])
        return Timeline(
            [
                {"arm": arm, "trial": trial, "node": node, FROM: begin, TO: end}
                for (arm, trial, node), times in found.items()
                for begin, end in steps(times)[1:]
            ],
            _NODE,
        )

    timeline: Timeline = history.memo("starts", make)
    joined = timeline.at(history, frame, at)
    return joined.withColumn("started_t", F.coalesce(F.col(FROM), F.lit(0))).drop(FROM, TO)


def life_column(cuts: Mapping[int, Sequence[int]], begin: Column, end: Column) -> Column:
    """The same as `with_life` without a join, for one trial and few ``cuts`` (by node, ns): what is
    looked at again and again in small parts costs more in jobs than in rows."""
    from pyspark.sql import functions as F

    def by(ends: Column, t: Column) -> Column:
        return F.size(F.filter(ends, lambda cut: cut <= t))

    life = F.lit(None).cast("int")
    for node, times in sorted(cuts.items()):
        first, last = by(F.lit(list(times)), begin), by(F.lit(list(times)), end)
        life = F.when((F.col("node") == node) & (first == last), first).otherwise(life)
    known = F.col("node").isin(*cuts) if cuts else F.lit(False)
    return F.when(known, life).otherwise(F.lit(0))


def with_life(history: History, frame: DataFrame, begin: Column, end: Column) -> DataFrame:
    """Add ``life`` (int): the life of broker ``node`` that the span [begin, end] fell in; null when
    it was not one."""
    from pyspark.sql import functions as F

    def make() -> Timeline:
        return Timeline(
            [
                {"arm": arm, "trial": trial, "node": node, FROM: since, TO: until, "_life": number}
                for (arm, trial, node), times in cuts(history).items()
                for number, (since, until) in enumerate(steps(times))
            ],
            _NODE,
            {"_life": "int"},
        )

    timeline: Timeline = history.memo("lives", make)
    if not timeline.rows:
        return frame.withColumn("life", F.lit(0))
    joined = timeline.at(history, frame.select("*", end.alias("_ends")), begin)
    # A node that nobody ended or began has one life, whatever its number.
    life = F.when(F.col(FROM).isNull(), F.lit(0))
    life = life.when(F.col("_ends").between(F.col(FROM), F.col(TO) - 1), F.col("_life"))
    return joined.withColumn("life", life).drop(FROM, TO, "_life", "_ends")
