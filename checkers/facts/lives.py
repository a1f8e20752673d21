"""A broker's lives: what it knew ends with its process.

Epochs that a broker accepted, and metadata that it showed, bind it until it dies. Client-side rows
do not carry the broker's boot number, so a life is counted by what the harness did to the process:
each start, kill, stop and exit of a node begins a new one. Two rows are compared only inside one
life. That errs on the side of silence: a broker that handles requests while it shuts down is not
compared with what it did before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


def _runs(history: History) -> dict[Node, list[tuple[int, bool]]]:
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


def is_away(history: History, node: Node, from_t: int, to_t: int | None = None) -> bool:
    """Whether that process certainly did not run at any moment of the span (ns; to its first moment
    by default): the harness had ended or paused it, and not begun it again."""
    last = False
    for t, runs in _runs(history).get(node, ()):
        if t > from_t:
            if runs and to_t is not None and t <= to_t:
                return False
            continue
        last = not runs
    return last


def with_start(history: History, frame: DataFrame, at: Column) -> DataFrame:
    """Add ``started_t`` (ns): when the harness last started broker ``node`` before ``at``; 0 when
    that is not known. Unlike a life this goes on while the broker shuts down."""
    from pyspark.sql import functions as F

    found: dict[Node, list[int]] = {}
    for row in history.rows("node_event"):
        if row["event"] == "start" and row["node"] is not None:
            found.setdefault((row["arm"], row["trial"], row["node"]), []).append(row["t"])
    rows = [{"arm": a, "trial": t, "node": n, "_starts": c} for (a, t, n), c in found.items()]
    table = history.table(rows, "arm string, trial int, node int, _starts array<bigint>")
    joined = frame.withColumn("_at", at).join(F.broadcast(table), ["arm", "trial", "node"], "left")
    last = F.expr("coalesce(array_max(filter(_starts, c -> c <= _at)), 0L)")
    return joined.withColumn("started_t", last).drop("_at", "_starts")


def with_life(
    history: History, frame: DataFrame, begin: Column, end: Column, node: str = "node"
) -> DataFrame:
    """Add ``life`` (int): the life of broker ``node`` that the span [begin, end] fell in; null when
    it was not one."""
    from pyspark.sql import functions as F

    known = cuts(history)
    if not known:
        return frame.withColumn("life", F.lit(0))
    rows = [{"arm": a, "trial": t, "_node": n, "_cuts": c} for (a, t, n), c in known.items()]
    table = history.table(rows, "arm string, trial int, _node int, _cuts array<bigint>")
    keyed = frame.withColumn("_node", F.col(node)).withColumn("_begin", begin)
    joined = keyed.withColumn("_end", end).join(
        F.broadcast(table), ["arm", "trial", "_node"], "left"
    )
    first = F.expr("coalesce(size(filter(_cuts, c -> c <= _begin)), 0)")
    last = F.expr("coalesce(size(filter(_cuts, c -> c <= _end)), 0)")
    # size(null) is -1 outside ANSI mode: a node without cuts has one life, whatever its number.
    life = F.when(F.col("_cuts").isNull(), F.lit(0)).when(first == last, first)
    return joined.withColumn("life", life).drop("_node", "_begin", "_end", "_cuts")
