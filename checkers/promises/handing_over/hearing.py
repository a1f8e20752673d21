"""Who goes and hears nothing, for `checkers.promises.handing_over`.

The controller relieves a broker that is to go in one go: it elects others, takes the broker out of
the in-sync sets in which it follows, and gives it the orders that come of that (LeaderAndIsr,
StopReplica) while it does so. Only when all of that is written it answers; until then the broker
is reached as ever (KafkaServer.shutdown: `controlledShutdown`, then the sockets). A broker that is
not serves whoever still takes it for the leader, and what it acknowledges with acks=1 is lost.

``would-not-hear``: an order was sent to it after it was told to stop, and the connection broke or
was refused, although its controller was still relieving it then: later, and before `WITHIN_NS` were
over, another write of an election, or of a new leader epoch, took it out of an in-sync set.

Lawful, and looks similar: a connection that had broken long before, and of which its controller
learns by this order (so the one before it was answered, and no fault was in place since); what was
sent when all was written, to a broker that need not listen any more; a leader that takes it out of
its set by itself, in the same leader epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.faults import faults_of
from checkers.facts.leadership import Key, key_of

if TYPE_CHECKING:
    from checkers.facts.faults import Fault
    from checkers.history.frames import History

Row = Mapping[str, Any]
STOPS: Final = "arm string, trial int, stopped int, began_t bigint, until_t bigint"

WITHIN_NS: Final = 5_000_000_000
"""Who was not answered asks again then (controlled.shutdown.retry.backoff.ms), and at last goes."""
_APART_NS: Final = 20_000_000
"""Of two clocks."""


def relieving(node: int, began_t: int, gone: Row, rows: Sequence[Row]) -> int:
    """Until when (ns, at the earliest) its controller was still at it: its last such write."""
    sets: dict[Key, Row] = {}
    last_t = began_t
    for row in rows:
        if row["zxid"] >= gone["zxid"] or row["t"] > began_t + WITHIN_NS:
            break
        if row["what"] != "state" or row["topic"] is None:
            continue
        before, sets[key_of(row)] = sets.get(key_of(row)), row
        if before is None or row["step"] == "removed" or node in (row["isr"] or ()):
            continue
        if node in (before["isr"] or ()) and _is_later(row, before):
            last_t = max(last_t, row["t"] - (row["error_ns"] or 0))
    return last_t


def _is_later(row: Row, before: Row) -> bool:
    epochs = row["leader_epoch"], before["leader_epoch"]
    return None not in epochs and epochs[0] > epochs[1]


def unheard(history: History, relieved: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The first answer that did not come, by stop and controller: arm, trial, node (the
    controller), stopped, began_t, lost (t, send_t, api). ``relieved``: `STOPS`' columns."""
    if not (relieved and history.has("control_response")):
        return []
    stops = F.broadcast(history.table(relieved, STOPS))
    answers = history.frame("control_response").withColumnRenamed("to", "stopped")
    rows = answers.join(stops, ["arm", "trial", "stopped"])
    lost = F.struct("t", "send_t", "api", "failure")
    first = rows.groupBy("arm", "trial", "node", "boot", "stopped", "began_t", "until_t").agg(
        F.max(F.when(F.expr("error is not null and t <= began_t"), F.col("t"))).alias("heard_t"),
        F.min(F.when(F.expr("error is null and t > began_t"), lost)).alias("lost"),
    )
    early = first.where(f"lost.send_t > began_t and lost.t + {_APART_NS} < until_t")
    early = early.where("lost.failure = 'disconnect'")
    found: list[Row] = early.orderBy("arm", "trial", "lost.t").toArrow().to_pylist()
    return [row for row in found if not _disturbed(row, faults_of(history, _trial(row)))]


def _trial(row: Row) -> tuple[str, int]:
    return row["arm"], row["trial"]


def _disturbed(row: Row, faults: Sequence[Fault]) -> bool:
    """Its own fault is the one that began last before the stop."""
    own = max((fault.from_t for fault in faults if fault.from_t <= row["began_t"]), default=None)
    others = (fault for fault in faults if fault.from_t != own)
    since_t = row["heard_t"]
    return since_t is None or any(fault.meets(since_t, row["lost"]["t"]) for fault in others)
