"""Fault segments: a trial's time cut where a fault begins or ends.

Faults overlap. Cutting at every ``injected`` and ``healed`` gives disjoint segments, each named by
the faults that were in place ("flood", "flood+restart", "none"), so that an operation belongs to
one segment and figures of segments can be added up. A fault that was never healed lasts to the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

QUIET: Final = "none"
_FOREVER: Final = 2**62
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Window:
    """One fault's time in place, in ns."""

    id: str
    fault: str
    from_t: int
    to_t: int
    healed: bool


def windows(history: History) -> dict[tuple[str, int], list[Window]]:
    """Every fault that took place, by (arm, trial)."""
    opened: dict[tuple[str, int, str], dict[str, Any]] = {}
    found: dict[tuple[str, int], list[Window]] = {}
    for row in history.rows("fault"):
        key = (row["arm"], row["trial"], row["id"] or row["fault"] or "?")
        if row["phase"] == "injected":
            opened.setdefault(key, row)
        elif row["phase"] == "healed" and key in opened:
            begun = opened.pop(key)
            window = Window(key[2], begun["fault"] or "?", begun["t"], row["t"], True)
            found.setdefault(key[:2], []).append(window)
    for key, begun in opened.items():
        window = Window(key[2], begun["fault"] or "?", begun["t"], _FOREVER, False)
        found.setdefault(key[:2], []).append(window)
    return found


def segments(faults: list[Window]) -> list[tuple[int, int, str]]:
    """(from_t, to_t, name): disjoint, ascending, only where some fault is in place."""
    edges = sorted({edge for w in faults for edge in (w.from_t, w.to_t)})
    cut = []
    for begin, end in pairwise(edges):
        active = sorted({w.fault for w in faults if w.from_t <= begin and end <= w.to_t})
        if active:
            cut.append((begin, end, "+".join(active)))
    return cut


def with_segment(history: History, frame: DataFrame, at: Column) -> DataFrame:
    """Add ``segment``: the name of the segment that time ``at`` falls in.

    An equi-join on the second (each segment is listed for every second that it touches) instead of
    a range join, whose cost grows with the number of segments.
    """
    from pyspark.sql import functions as F

    faults = windows(history)
    if not faults:
        return frame.withColumn("segment", F.lit(QUIET))
    table: DataFrame = history.memo("segments", lambda: _table(history, faults))
    keyed = frame.withColumn("_at", at).withColumn("_second", F.expr(f"_at div {_SECOND_NS}"))
    joined = keyed.alias("l").join(
        F.broadcast(table).alias("r"),
        (F.col("l.arm") == F.col("r._arm"))
        & (F.col("l.trial") == F.col("r._trial"))
        & (F.col("l._second") == F.col("r._sec"))
        & (F.col("l._at") >= F.col("r._from"))
        & (F.col("l._at") < F.col("r._to")),
        "left",
    )
    named = joined.withColumn("segment", F.coalesce(F.col("_segment"), F.lit(QUIET)))
    return named.drop("_arm", "_trial", "_sec", "_from", "_to", "_segment", "_at", "_second")


def _table(history: History, faults: dict[tuple[str, int], list[Window]]) -> DataFrame:
    end_t = _end(history)
    rows = []
    for (arm, trial), placed in faults.items():
        for begin, end, name in segments(placed):
            stop = min(end, end_t)
            for second in range(begin // _SECOND_NS, stop // _SECOND_NS + 1):
                rows.append(
                    {
                        "_arm": arm,
                        "_trial": trial,
                        "_sec": second,
                        "_from": begin,
                        "_to": end,
                        "_segment": name,
                    }
                )
    return history.table(
        rows, "_arm string, _trial int, _sec bigint, _from bigint, _to bigint, _segment string"
    )


def _end(history: History) -> int:
    """Where a fault that was never healed stops mattering: the run's last milestone."""
    times = [row["t"] for kind in ("phase", "fault", "node_event") for row in history.rows(kind)]
    return max(times, default=0)


def settled(history: History) -> dict[tuple[str, int], tuple[int, bool]]:
    """By (arm, trial): when the last fault was healed, and whether every replica then caught up
    (the harness saw full in-sync sets: its quiesce phase ended without a ``timeout`` row).

    A trial with a fault that was never healed, or could not be, is absent: nothing that lasts in
    it can be held against the system.
    """
    known = windows(history)
    failed = {(r["arm"], r["trial"]) for r in history.rows("fault") if r["phase"] == "failed"}
    found: dict[tuple[str, int], tuple[int, bool]] = {}
    for key in history.trials:
        placed = known.get(key, [])
        if key in failed or not all(w.healed for w in placed):
            continue
        phases = [r for r in history.rows("phase") if (r["arm"], r["trial"]) == key]
        quiesced = [r["event"] for r in phases if r["name"] == "quiesce"]
        quiet = "end" in quiesced and "timeout" not in quiesced
        chaos = [r["t"] for r in phases if r["name"] in ("chaos", "heal") and r["event"] == "end"]
        found[key] = (max([w.to_t for w in placed] + chaos, default=0), quiet)
    return found
