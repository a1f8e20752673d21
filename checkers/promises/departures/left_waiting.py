"""Left waiting: acks=all that waits at a leader which leads no more, or has no replica any more,
for `checkers.promises.departures`.

A broker that follows another knows that nothing it had appended will be acknowledged by it: whoever
waits for that is answered at once (NOT_LEADER_OR_FOLLOWER; ReplicaManager.makeFollowers completes
what is delayed), and looks for the new leader. A producer was left waiting when it was told that
its time was up (REQUEST_TIMED_OUT) for longer than `WAIT_NS` after the broker had begun to follow,
by a record that it had sent before.

So with a leader that puts its replica aside (StopReplica with deletion): of a partition that is
moved away from it, nothing else tells it that it leads no more (ReplicaManager.stopPartitions
completes what is delayed once the partition is gone; since 2.4).

Lawful, and looks similar: an answer that is late, because its broker is paused, flooded or cut off
from its clients; a request for several partitions, which waits for the last of them (only producers
that name one are judged); a broker that was told to follow one whom it does not know to live, which
takes up nothing (and says so by telling of no new role).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.demotions import DEMOTED, demotions, removals
from checkers.facts.leadership import TP
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "left-waiting"
WAITED: Final = "records that waited at a leader as it began to follow"
WAIT_NS: Final = 2_000_000_000
"""What takes milliseconds, and on a busy machine a second."""
LEAVES: Final = "stopped_leave_waiting"
"""In run.json, of an arm: who puts its replica aside leaves those waiting that wait there."""
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
    if not senders or not history.has("produce"):
        return
    leave = {arm for arm, facts in history.run.arms.items() if facts.get(LEAVES) is True}
    for kind, ceased in (("leader_change", demotions), ("replica_stop", removals)):
        if places := list(ceased(history)):
            for finding in _left(history, outcome, senders, kind, places):
                if kind == "replica_stop" and finding.arm in leave:
                    outcome.excuse(finding.arm, finding.trial, RULE, "aside-waiting", of=WAITED)
                else:
                    yield finding


def _left(
    history: History,
    outcome: Outcome,
    senders: list[dict[str, Any]],
    kind: str,
    ceased: list[dict[str, Any]],
) -> Iterator[Finding]:
    """``kind``: of the rows that tell of it."""
    sent = history.frame("produce").where("acks = -1 and node is not null and topic is not null")
    sent = sent.join(
        F.broadcast(history.table(senders, _SENDERS)), ["arm", "trial", "process"], "left_semi"
    )
    waited = sent.join(F.broadcast(history.table(ceased, DEMOTED)), [*TP, "node"])
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
            yield _finding(row, kind)


def _finding(row: Row, kind: str) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    own = {**at, "node": row["node"]}
    began = "begun to follow another" if kind == "leader_change" else "put its replica aside"
    return Finding(
        RULE,
        f"{row['late']} records of {row['topic']}-{row['partition']} that had been sent to node "
        f"{row['node']} waited there until their time was up, up to "
        f"{(row['last_t'] - row['_t']) / 1e9:.1f} s after it had {began}",
        row["arm"],
        row["trial"],
        (
            Pick(kind, {**own, "t": row["_t"]}, rows=1),
            Pick("produce", {**at, "value": row["value"]}, rows=1),
        ),
    )
