"""Acknowledged by too few: every acks=all answer that too small an in-sync set gave, for
`checkers.promises.truncation_loss`.

Such a record need not be lost for it, and mostly is not: the promise is that it would survive the
loss of all but one of ``min.insync.replicas`` brokers. Nor may it be appended, and refused only
then: NOT_ENOUGH_REPLICAS_AFTER_APPEND is for a set that shrinks meanwhile, and clients that are
told so send again what readers are given already (Partition.appendRecordsToLeader). When a leader
certainly knew that its set was too small: `checkers.promises.truncation_loss.shortages`.

Unknown: acknowledged long after such a set was committed, by a leader that never said that it knew.
Silence excuses nobody.

Lawful, and looks similar: a record that was offered before the set shrank, or before its leader had
heard of it (unless its own time says that it was appended after that), and one that was answered
after it had grown again. Which node the client talked to
does not matter: a leader of the past cannot fill its own set, for its successor fetches no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.leadership import TP
from checkers.facts.timeline import FROM, TO, Timeline
from checkers.judging.excuses import Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.truncation_loss.lost import LEVELS, append_span
from checkers.promises.truncation_loss.shortages import TooFew, too_few

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "acked-below-min-isr"
APPENDED: Final = "appended-below-min-isr"
OFFERED: Final = "records offered with acks=all while too few were in sync"
_AFTER_APPEND: Final = 20


def judge_too_few(history: History, outcome: Outcome, known: Excuses) -> None:
    found = too_few(history)
    for one in found:
        if not one.judged and not one.untold:
            what = "acks=all while too few were in sync, where nobody says when the leader knew"
            outcome.unjudged(one.key[0], what)
    states = [one for one in found if one.judged or one.untold]
    if not states or not history.has("produce"):
        return
    rows = [
        dict(zip(TP, one.key, strict=True))
        | {FROM: one.late_t if one.untold else one.from_t, TO: one.to_t, "_number": n}
        for n, one in enumerate(states)
    ]
    offers = history.frame("produce").where("acks = -1 and value is not null")
    begun = append_span(history)[0].alias("begun_t")
    offers = offers.select(*TP, "invoke_t", "t", "type", "error", "value", begun)
    spans = Timeline(rows, TP, {"_number": "int"})
    met = spans.during(history, offers, F.col("invoke_t"), F.col("t"))
    answered = {RULE: F.col("type") == "ok", APPENDED: F.col("error") == _AFTER_APPEND}
    counted = (
        met.where(f"begun_t > {FROM} and t < {TO}")
        .groupBy("_number")
        .agg(
            F.count("*").alias("offered"),
            *(F.count(F.when(so, 1)).alias(rule) for rule, so in answered.items()),
            *(
                F.min_by("value", F.when(so, F.col("t"))).alias(f"{rule} value")
                for rule, so in answered.items()
            ),
        )
    )
    for row in counted.toArrow().to_pylist():
        one = states[row["_number"]]
        if one.untold:
            if row[RULE]:
                says = f"{row[RULE]} records were acknowledged with acks=all at {one.key[2]}-"
                says += f"{one.key[3]} while too few were in sync, and its leader never said that "
                outcome.unknown(one.key[0], one.key[1], f"{says}it knew")
            continue
        outcome.saw(one.key[0], one.key[1], OFFERED, row["offered"])
        for rule, n in ((rule, row[rule]) for rule in answered if row[rule]):
            if one.key in known.forged:
                outcome.excuse(one.key[0], one.key[1], rule, "forged", of=LEVELS[-1], n=n)
                continue
            outcome.add(_finding(rule, one, n, row[f"{rule} value"]), n)


def _finding(rule: str, one: TooFew, n: int, value: int) -> Finding:
    arm, trial, topic, partition = one.key
    at = {"topic": topic, "partition": partition}
    leader = {**at, "node": one.state.leader}
    what = "acknowledged with" if rule == RULE else "appended, and only then refused, with"
    says = (
        f"{n} records were {what} acks=all at {topic}-{partition} while only "
        f"{list(one.state.isr or ())} were in sync and {one.min_isr} had to be, as leader "
        f"{one.state.leader} knew; the first is value {value}"
    )
    version = one.state.partition_epoch
    picks = (
        one.state.pick,
        Pick("isr_change", {**leader, "partition_epoch": version}, rows=1),
        Pick("leader_change", {**leader, "leader_epoch": one.state.leader_epoch}, rows=1),
        Pick("produce", {**at, "value": value}, rows=1),
    )
    return Finding(rule, says, arm, trial, picks)
