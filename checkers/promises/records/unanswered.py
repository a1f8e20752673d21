"""Records sent with acks=0 once all is calm, for `checkers.promises.records`.

Nobody answers who asks for no answer (acks=0), and Kafka promises nothing of what it sends: it is
lost with a connection, a broker, a leadership. Where none of them goes it is appended like any
other: all there is to lose it is the broker. So what such a client handed to its connection once
all was calm (`checkers.facts.calm`), for a partition that had its leader and in-sync set for as
long by then, is in the final log.

Lawful, and looks similar: what the client could not send, or does not say that it sent; its last
second, of which its connection may have been closed before it was read; a log that begins later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.facts.calm import calm
from checkers.facts.committed import committed
from checkers.facts.leadership import TP
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "sent-in-vain"
SENT: Final = "records sent with acks=0 once all was calm"
_LAST_NS: Final = 1_000_000_000


def judge_unanswered(history: History, outcome: Outcome) -> None:
    sent = history.frame("produce").where(
        "acks = 0 and type = 'info' and failure = 'unanswered' and value is not null"
    )
    over = sent.groupBy("arm", "trial", "process").agg(F.max("t").alias("_over"))
    mine = sent.join(F.broadcast(_owed(history)), TP).where("invoke_t > _from")
    mine = mine.join(F.broadcast(over), ["arm", "trial", "process"])
    mine = mine.where(F.col("t") < F.col("_over") - _LAST_NS)
    leaders = leaders_table(history).where("log_start = 0").select(*TP, "leader_node")
    logs = history.frame("log_read").join(F.broadcast(leaders), TP).where("node = leader_node")
    there = logs.select(*TP, "value").distinct().withColumn("_there", F.lit(True))
    rows = mine.join(F.broadcast(leaders), TP).join(there, [*TP, "value"], "left")
    lost = F.col("_there").isNull()
    sums = rows.groupBy(*TP).agg(
        F.count("*").alias("sent"),
        F.count(F.when(lost, 1)).alias("n"),
        F.min(F.when(lost, F.struct("t", "value"))).alias("first"),
    )
    for row in sums.orderBy(*TP).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], SENT, row["sent"])
        if row["n"]:
            outcome.add(_finding(row), row["n"])


def _owed(history: History) -> DataFrame:
    """From when on (``_from``) each partition's leader is owed every record."""
    rest = calm(history)
    rows = [
        {
            **dict(zip(TP, key, strict=True)),
            "_from": rest[key[:2]].owed_from(of.states[-1].t),
        }
        for key, of in committed(history).items()
        if key[:2] in rest and of.states
    ]
    return history.table(rows, "arm string, trial int, topic string, partition int, _from bigint")


def _finding(row: dict[str, Any]) -> Finding:
    first, at = row["first"], {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        RULE,
        f"{row['n']} of {row['sent']} records that were sent to {row['topic']}-{row['partition']} "
        f"with acks=0 once all was calm are not in its log, first value {first['value']}",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {**at, "value": first["value"]}, rows=2),
            Pick("leadership", at, last=True, rows=1),
        ),
    )
