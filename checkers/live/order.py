"""Epochs that came after a newer one: requests to be refused, metadata that went back.

The state is one row an epoch at a place (`checkers.facts.epoch_bounds`), folded in Spark with what
is new; it grows with leader changes, not with the load. What is certain of the batch rules:

    fencing         stale-controller-epoch-accepted, stale-broker-epoch-accepted: as they are;
                    stale-leader-epoch-accepted: once a replica was stopped its epochs begin anew,
                    whoever asked for that (`checkers.live.intake`)
    stale-metadata  metadata-went-back: of topics that nobody deleted, and of what no forger told
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.control_requests import all_answered, all_requests
from checkers.facts.epoch_bounds import BOUNDED, bound, bounds, folded, with_newer
from checkers.facts.lives import life_column
from checkers.facts.spans import earliest
from checkers.live.accusation import Accusation
from checkers.live.intake import Intake, Replica

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

FENCING: Final = "fencing"
SHOWN: Final = "metadata"
_WENT_BACK: Final = "metadata-went-back"
_ACCEPTED: Final = "stale-{}-epoch-accepted"
RULES: Final = frozenset({_WENT_BACK, *map(_ACCEPTED.format, ("controller", "broker", "leader"))})
TOLD_BY: Final = frozenset({"control_request", "forged", "leader_change", "metadata"})
_REQUESTS: Final = TOLD_BY - {"metadata"}
Row = Mapping[str, Any]


def fold(
    history: History,
    state: pa.Table | None,
    cuts: Mapping[int, Sequence[int]],
    stops: Mapping[Replica, Set[int]],
) -> pa.Table | None:
    """The state with the history's rows in it, and ``newer_t``. ``history``: what is new; ``cuts``:
    when the lives of brokers end and begin, by node; ``stops``: when replicas were stopped (ns)."""
    rows = []

    def lived(frame: DataFrame, begin: str, end: str) -> DataFrame:
        return frame.withColumn("life", life_column(cuts, F.col(begin), F.col(end)))

    if any(history.has(kind) for kind in _REQUESTS):
        changes = history.frame("leader_change") if history.has("leader_change") else None
        led = lived(all_answered(history).where("error = 0"), "begin_t", "end_t")
        led = _anew(history, led, stops, F.col("begin_t"))
        if changes is not None:
            changes = _anew(history, lived(changes, "t", "t"), stops, earliest(F.col("t")))
        rows.append(bounds(lived(all_requests(history), "begin_t", "end_t"), led, changes))
    if history.has("metadata"):
        reads = history.frame("metadata").where(
            "type = 'ok' and leader_epoch >= 0 and node is not null and topic is not null "
            "and invoke_t is not null"
        )
        reads = lived(reads, "invoke_t", "t").where("life is not null")
        shown = bound(reads, SHOWN, "leader_epoch", F.col("t"), F.col("invoke_t"), at=True)
        rows.append(shown)
    if not rows:
        return state
    if state is not None:
        rows.append(history.spark.createDataFrame(state.drop_columns(["newer_t"])))
    whole = rows[0]
    for more in rows[1:]:
        whole = whole.unionByName(more)
    return with_newer(folded(whole)).toArrow()


def _anew(
    history: History, lived: DataFrame, stops: Mapping[Replica, Set[int]], at: Column
) -> DataFrame:
    """A replica's ``life`` is over when it is stopped, too: the stops before ``at`` are added to
    those of its broker. One that is stopped by what is judged was not yet when that was taken."""
    if not stops:
        return lived
    rows = [
        {"node": node, "topic": topic, "partition": partition, "_stops": sorted(times)}
        for (node, topic, partition), times in stops.items()
    ]
    told = "node int, topic string, partition int, _stops array<bigint>"
    table = F.broadcast(history.table(rows, told))
    before = F.size(F.filter(F.coalesce("_stops", F.array()), lambda stop: stop < at))
    joined = lived.join(table, ["node", "topic", "partition"], "left")
    return joined.withColumn("life", F.col("life") + before).drop("_stops")


def accused(state: pa.Table | None, intake: Intake) -> Iterator[Accusation]:
    """All that the state proves."""
    import pyarrow.compute as pc

    if state is None:
        return
    broken = pc.less(state["newer_t"], state["begin_t"])
    for row in state.filter(pc.fill_null(broken, False)).to_pylist():
        if row["rule"] == SHOWN:
            if not _may_show(row, intake):
                yield _went_back(row)
        else:
            yield _obeyed(row)


def _may_show(row: Row, intake: Intake) -> bool:
    quiet = intake.silenced
    lied = (row["node"], row["topic"], row["partition"]) in quiet.lied
    return lied or row["topic"] in quiet.topics


def _went_back(row: Row) -> Accusation:
    return Accusation(
        promise="stale-metadata",
        rule=_WENT_BACK,
        arm=row["arm"],
        trial=row["trial"],
        says=f"node {row['node']} showed leader epoch {row['epoch']} of "
        f"{row['topic']}-{row['partition']} after it had shown a newer one",
        t=row["begin_t"],
        place=tuple(row[name] for name in (*BOUNDED[3:], "epoch")),
    )


def _obeyed(row: Row) -> Accusation:
    at = f" of {row['topic']}-{row['partition']}" if row["topic"] is not None else ""
    return Accusation(
        promise=FENCING,
        rule=_ACCEPTED.format(row["rule"]),
        arm=row["arm"],
        trial=row["trial"],
        says=f"node {row['node']} obeyed {row['rule']} epoch {row['epoch']}{at} after it had "
        "accepted a newer one",
        t=row["begin_t"],
        place=tuple(row[name] for name in (*BOUNDED[3:], "epoch")),
    )
