"""Left waiting: acks=all that waits at a leader which leads no more, for
`checkers.promises.departures`.

A broker that follows another knows that nothing it had appended will be acknowledged by it: whoever
waits for that is answered at once (NOT_LEADER_OR_FOLLOWER; ReplicaManager.makeFollowers completes
what is delayed), and looks for the new leader. A producer was left waiting when it was told that
its time was up (REQUEST_TIMED_OUT) for longer than `WAIT_NS` after the broker had begun to follow,
by a record that it had sent before.

Lawful, and looks similar: an answer that is late, because its broker is paused, flooded or cut off
from its clients; a request for several partitions, which waits for the last of them (only producers
that name one are judged); a broker that was told to follow one whom it does not know to live, which
takes up nothing (and says so by telling of no new role).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.demotions import DEMOTED, demotions
from checkers.facts.leadership import TP
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "left-waiting"
WAITED: Final = "records that waited at a leader as it began to follow"
WAIT_NS: Final = 2_000_000_000
"""What takes milliseconds, and on a busy machine a second."""
_TIMED_OUT: Final = 7
_SENDERS: Final = "arm string, trial int, process string"
Row = Mapping[str, Any]


def left_waiting(history: History, outcome: Outcome) -> Iterator[Finding]:
    senders = [
        {"arm": arm, "trial": trial, "process": one.process}
        for (arm, trial), workloads in history.run.workloads.items()
        for one in workloads
        if one.role == "direct-producer" and one.acks == -1
    ]
    demoted = list(demotions(history)) if senders and history.has("produce") else []
    if not demoted:
        return
    sent = history.frame("produce").where("acks = -1 and node is not null and topic is not null")
    sent = sent.join(
        F.broadcast(history.table(senders, _SENDERS)), ["arm", "trial", "process"], "left_semi"
    )
    waited = sent.join(F.broadcast(history.table(demoted, DEMOTED)), [*TP, "node"])
    waited = waited.where("invoke_t < _t and t > _t and invoke_t > _from and t < _to")
    late = F.col("error").eqNullSafe(_TIMED_OUT) & (F.col("t") > F.col("_t") + WAIT_NS)
    found = waited.groupBy(*TP, "node", "_t").agg(
        F.count("*").alias("n"),
        F.count(F.when(late, 1)).alias("late"),
        F.max(F.when(late, F.col("t"))).alias("last_t"),
        F.min_by("value", F.when(late, F.col("t"))).alias("value"),
    )
    for row in found.orderBy(*TP, "_t").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], WAITED, row["n"])
        if row["late"]:
            yield _finding(row)


def _finding(row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    own = {**at, "node": row["node"]}
    return Finding(
        RULE,
        f"{row['late']} records of {row['topic']}-{row['partition']} that had been sent to node "
        f"{row['node']} waited there until their time was up, up to "
        f"{(row['last_t'] - row['_t']) / 1e9:.1f} s after it had begun to follow another",
        row["arm"],
        row["trial"],
        (
            Pick("leader_change", {**own, "t": row["_t"]}, rows=1),
            Pick("produce", {**at, "value": row["value"]}, rows=1),
        ),
    )
