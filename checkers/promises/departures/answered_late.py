"""Answered late: what is committed, of a partition that works, for `checkers.promises.departures`.

Once all is healed nobody is out of sync, and acks=all takes as long as a fetch. Who sent one record
after the other to a partition, and was told of the later one, is told of the earlier one as well:
what lies before a committed record is committed, and a broker answers what comes by one connection
in the order in which it came (SocketServer mutes it meanwhile). Its own answers show that the
client was there to hear them.

Lawful, and looks similar: all of a partition's answers that are late together, on a slow machine; a
record that was sent again, or to another leader, before all was healed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.facts.leadership import TP
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "answered-late"
IN_TURN: Final = "records acknowledged once all was healed"
LATE_NS: Final = 2_000_000_000
Row = Mapping[str, Any]


def answered_late(history: History, outcome: Outcome) -> Iterator[Finding]:
    spans = [
        {"arm": arm, "trial": trial, "_healed_t": one.healed_t}
        for (arm, trial), one in calm(history).items()
    ]
    if not spans or not history.has("produce"):
        return
    table = F.broadcast(history.table(spans, "arm string, trial int, _healed_t bigint"))
    sent = history.frame("produce").where("type = 'ok' and acks <> 0 and offset >= 0")
    sent = sent.join(table, ["arm", "trial"]).where("invoke_t > _healed_t")
    down = Window.partitionBy(*TP, "process").orderBy(F.col("offset").desc())
    later = F.min("t").over(down.rowsBetween(Window.unboundedPreceding, -1))
    each = sent.select(*TP, "process", "value", "offset", "t", later.alias("later_t"))
    by = F.col("t") - F.col("later_t")
    late = by > LATE_NS
    found = each.groupBy(*TP, "process").agg(
        F.count("*").alias("sent"),
        F.count(F.when(late, 1)).alias("n"),
        F.max(F.when(late, F.struct(by.alias("by"), "value", "later_t"))).alias("last"),
    )
    for row in found.orderBy(*TP, "process").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], IN_TURN, row["sent"])
        if row["n"]:
            yield _finding(row)


def _finding(row: Row) -> Finding:
    last, at = row["last"], {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        RULE,
        f"{row['process']} was told of {row['n']} records of {row['topic']}-{row['partition']} up "
        f"to {last['by'] / 1e9:.1f} s after it had been told of later ones",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {**at, "process": row["process"], "t": last["later_t"]}, rows=1),
            Pick("produce", {**at, "process": row["process"], "value": last["value"]}, rows=1),
        ),
    )
