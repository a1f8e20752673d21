"""Whether the stored rows are those that finishing counted: what was lost in the store.

`source` rows say what each live file held when a trial was finished. A broker numbers its rows and
writes nothing but rows that are stored, so that each number up to its file's last one must be
there, and none twice. (A client may write an operation, which is stored once, as two lines: its
numbers say nothing of what is stored.)

Of every file, a client's and the harness's as well, finishing counts how many rows of each kind and
process it stored: so many there must be, no fewer and no more.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.promises.evidence.times import times

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_OF_NODES: Final = (
    *("control_send", "control_response", "control_request", "channel_queue", "plane_use"),
    *("leadership", "leader_change", "replica_stop", "truncation", "metadata_update"),
    *("isr_change", "controller", "exception"),
)
"""All that a broker's trace holds."""
_BOOT: Final = ("arm", "trial", "process", "boot")
Boot = tuple[str, int, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What is stored of one boot of a broker. ``numbers``: how many different ones; ``twice``: rows
    that are there again, to the nanosecond."""

    numbers: int
    twice: int


def traces(history: History) -> dict[Boot, Trace]:
    """By (arm, trial, process, boot), of brokers that number their rows."""
    frames = [
        history.frame(kind)
        .where("boot is not null and seq is not null")
        .select(*_BOOT, "seq", F.lit(kind).alias("kind"), "t")
        for kind in _OF_NODES
        if history.has(kind)
    ]
    if not frames:
        return {}
    rows: DataFrame = functools.reduce(lambda a, b: a.unionAll(b), frames)
    each = rows.groupBy(*_BOOT, "seq", "kind", "t").agg(F.count("*").alias("n"))
    found = each.groupBy(*_BOOT).agg(
        F.count_distinct("seq").alias("numbers"), F.sum(F.col("n") - 1).alias("twice")
    )
    return {
        (row["arm"], row["trial"], row["process"], row["boot"]): Trace(
            numbers=row["numbers"], twice=row["twice"]
        )
        for row in found.toArrow().to_pylist()
    }


# -- how many -------------------------------------------------------------------------------------

Trial = tuple[str, int]
Writer = tuple[str, str]
"""Kind and process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs:
    """``stored`` rows of a kind of one process, of which finishing had stored ``told``."""

    key: Trial
    kind: str
    process: str
    told: int
    stored: int


def unaccounted(history: History) -> Iterator[Differs]:
    """Of trials whose files say how many rows were stored of them."""
    told: dict[Trial, Counter[Writer]] = {}
    for row in history.rows("source"):
        if row["stored"] is not None:
            of = told.setdefault((row["arm"], row["trial"]), Counter())
            for kind, processes in json.loads(row["stored"]).items():
                of.update({(kind, process): n for process, n in processes.items()})
    if not told:
        return
    stored = _stored(history)
    for key, of in sorted(told.items()):
        there = stored.get(key, Counter())
        for kind, process in sorted(of.keys() | there.keys()):
            one = (kind, process)
            if of[one] != there[one]:
                yield Differs(key=key, kind=kind, process=process, told=of[one], stored=there[one])


def _stored(history: History) -> dict[Trial, Counter[Writer]]:
    """How many rows there are, by trial; the accounts themselves are not among them."""
    found: dict[Trial, Counter[Writer]] = {}
    for each in times(history):
        found.setdefault(each.key, Counter())[each.kind, each.process] += each.rows
    return found
