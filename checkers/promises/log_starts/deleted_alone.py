"""Answered before a live replica can have done it, for `checkers.promises.log_starts`.

A deletion is answered with success when no replica whose broker lives begins earlier
(Partition.lowWatermarkIfLeader). A process that the harness had stopped (SIGSTOP) before a deletion
was asked for does nothing until it goes on: where it is in sync, registered all the while, and had
been asked for nothing as high before, an answer that came meanwhile is one of the others alone.

Not judged: topics that lose records by age or size as well, which moves beginnings without asking.
Who has lost its registration need not be waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP, Key, leadership
from checkers.judging.outcome import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

STOOD: Final = "deletions asked for while a replica stood still"
_SPANS: Final = (
    "arm string, trial int, topic string, partition int, _stopped int, _from bigint, _to bigint"
)
_HEARD_NS: Final = 500_000_000
"""A leader may hear of a registration's end so much sooner than who watches ZooKeeper."""
_ASKED: Final = "coalesce(greatest(offset, low_watermark), offset, low_watermark)"


def deleted_alone(
    history: History, outcome: Outcome, answered: DataFrame, partitions: Collection[Key]
) -> DataFrame | None:
    """Deletions that were answered with success while a replica in sync stood still that had not
    been asked for as much: `answered`'s columns, ``_known`` (the highest offset that it had been
    asked for) and ``_stopped`` (the replica); None: nobody stood still."""
    rows = list(_stood_still(history, partitions))
    if not rows:
        return None
    spans = F.broadcast(history.table(rows, _SPANS))
    here = answered.where("type <> 'fail'").join(spans, [*TP])
    before = (
        here.where("invoke_t <= _from")
        .groupBy(*TP, "_stopped", "_from")
        .agg(F.max(F.expr(_ASKED)).alias("_known"))
    )
    meanwhile = here.where("node <> _stopped and invoke_t > _from and invoke_t < _to")
    for row in meanwhile.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], STOOD, row["count"])
    done = meanwhile.where("type = 'ok' and t < _to and low_watermark > 0")
    alone = done.join(before, [*TP, "_stopped", "_from"], "left")
    alone = alone.withColumn("_known", F.coalesce("_known", F.lit(0)))
    return alone.where("low_watermark > _known")


def _stood_still(history: History, partitions: Collection[Key]) -> Iterator[dict[str, Any]]:
    """From when to when (ns) a replica that was in sync was stopped, and registered still."""
    events: dict[tuple[str, int, int], list[tuple[int, str]]] = {}
    for row in history.rows("node_event"):
        if row["node"] is not None:
            of = events.setdefault((row["arm"], row["trial"], row["node"]), [])
            of.append((row["t"], row["event"]))
    led = leadership(history)
    for (arm, trial, node), of in events.items():
        for (from_t, event), (to_t, following) in pairwise(sorted(of)):
            if event != "pause" or following not in ("resume", "unregistered"):
                continue
            alive_t = to_t - (_HEARD_NS if following == "unregistered" else 0)
            for key in partitions:
                if key[:2] != (arm, trial) or key not in led:
                    continue
                states = [s for life in led[key].states for s in life if s["t"] < from_t]
                expires = history.run.topic(*key[:3]).expires
                if states and not expires and node in (states[-1]["isr"] or ()):
                    place = dict(zip(TP, key, strict=True))
                    yield {**place, "_stopped": node, "_from": from_t, "_to": alive_t}
