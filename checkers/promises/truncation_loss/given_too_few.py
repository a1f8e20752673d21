"""Given by too few: what a consumer is given of a partition with too few in sync, for
`checkers.promises.truncation_loss`.

While fewer replicas than ``min.insync.replicas`` are in sync the high watermark stays where it is
(KIP-966, Partition.maybeIncrementLeaderHW since Kafka 3.7): what acks=1 appends then is given to
nobody, for it would be what one broker alone has. When a leader certainly knew that its set was too
small: `checkers.promises.truncation_loss.shortages`.

Lawful, and looks similar: a record that was sent before the set shrank, or given after it had grown
again; older releases, which commit it all the same (run.json says which do).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP
from checkers.judging.excuses import Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.truncation_loss.shortages import TooFew, too_few

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "given-below-min-isr"
TAKEN: Final = "records taken while too few were in sync"
STRICT: Final = "strict_min_isr"
"""In run.json, of an arm: its leaders commit nothing while too few are in sync."""
_SPANS: Final = (
    "arm string, trial int, topic string, partition int, _number int, _from bigint, _to bigint"
)


def judge_given(history: History, outcome: Outcome, known: Excuses) -> None:
    states = []
    for one in too_few(history):
        if one.judged and history.run.arms.get(one.key[0], {}).get(STRICT) is True:
            states.append(one)
        elif one.judged:
            outcome.unjudged(one.key[0], "what is given to consumers while too few are in sync")
    if not states or not history.has("produce") or not history.has("fetch"):
        return
    rows = [
        {
            **dict(zip(TP, one.key, strict=True)),
            **{"_number": number, "_from": one.from_t, "_to": one.to_t},
        }
        for number, one in enumerate(states)
    ]
    spans = F.broadcast(history.table(rows, _SPANS))
    taken = history.frame("produce").where("type = 'ok' and value is not null").join(spans, TP)
    taken = taken.where("invoke_t > _from and t < _to")
    taken = taken.select("arm", "trial", "value", "_number", "_to", F.col("t").alias("_taken"))
    given = history.frame("fetch").where("type = 'ok' and value is not null")
    given = given.select("arm", "trial", "value", F.col("t").alias("_given"))
    both = taken.join(given, ["arm", "trial", "value"], "left")
    early = F.col("_given") < F.col("_to")
    found = both.groupBy("_number").agg(
        F.count_distinct("value").alias("taken"),
        F.count_distinct(F.when(early, F.col("value"))).alias("n"),
        F.min_by("value", F.when(early, F.col("_given"))).alias("value"),
    )
    for row in found.orderBy("_number").toArrow().to_pylist():
        one = states[row["_number"]]
        arm, trial = one.key[:2]
        outcome.saw(arm, trial, TAKEN, row["taken"])
        if not row["n"]:
            continue
        if one.key in known.forged:
            outcome.excuse(arm, trial, RULE, "forged", of=TAKEN, n=row["n"])
            continue
        outcome.add(_finding(one, row), row["n"])


def _finding(one: TooFew, row: dict[str, Any]) -> Finding:
    arm, trial, topic, partition = one.key
    at = {"topic": topic, "partition": partition}
    says = (
        f"{row['n']} records of {topic}-{partition} were given to consumers that had been sent "
        f"while only {list(one.state.isr or ())} were in sync and {one.min_isr} had to be, as "
        f"leader {one.state.leader} knew; the first is value {row['value']}"
    )
    picks = (
        one.state.pick,
        Pick("isr_change", {**at, "partition_epoch": one.state.partition_epoch}, rows=1),
        Pick("produce", {**at, "value": row["value"]}, rows=1),
        Pick("fetch", {**at, "value": row["value"]}, rows=1),
    )
    return Finding(RULE, says, arm, trial, picks)
