"""A write that failed for certain, though it may have been tried twice: for
`checkers.promises.records`.

A producer that sends again only when its broker is no leader (any more) may have tried before: a
broker that loses the leadership answers NOT_LEADER_OR_FOLLOWER even of what it has appended
(DelayedProduce). So what is in the log under leader epoch e may be of an earlier try, but only if e
was over before the last answer came. Where ZooKeeper (the metadata log) had committed nobody after
e by then, whoever appended it led on to the end, and told of no success: the answer that it wrote
nothing was false.

Lawful, and looks similar: an epoch that may have been over, by the store's clock and its error; and
what its client sent again by itself (`checkers.promises.records.sent_again`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import DELIVERIES, NO_RETRY_NS, definite_failure, leaders_table
from checkers.facts.leadership import ALWAYS, NEVER, TP, leadership
from checkers.facts.unnamed import unnamed
from checkers.judging.outcome import Outcome
from checkers.judging.tally import add, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.records.sent_again import sort

if TYPE_CHECKING:
    from checkers.history.frames import History

_RULE: Final = "failed-write-visible"
Row = Mapping[str, Any]


def judge_failed(history: History, outcome: Outcome, of: str) -> None:
    """Of producers that follow the leader: those that took long enough to have tried twice. ``of``:
    the evidence that what is excused is a share of."""
    own = [
        {"arm": arm, "trial": trial, "process": process}
        for (arm, trial, process), how in history.run.deliveries().items()
        if DELIVERIES.get(how) == DELIVERIES["once-a-leader"]
    ]
    if not own or not history.has("leadership"):
        return
    table = history.table(own, "arm string, trial int, process string")
    failed = history.frame("produce").where(definite_failure())
    failed = failed.where(f"value is not null and t - invoke_t >= {NO_RETRY_NS}")
    failed = failed.join(F.broadcast(table), ["arm", "trial", "process"])
    failed = failed.select(*TP, "value", "process", "error", "invoke_t", "t")
    leaders = leaders_table(history).select(*TP, "leader_node")
    final = history.frame("log_read").join(F.broadcast(leaders), TP).where("node = leader_node")
    final = final.select(*TP, "value", "offset", "leader_epoch")
    ends = F.broadcast(history.table(_ends(history), _ENDS))
    found = failed.join(final, [*TP, "value"]).join(ends, [*TP, "leader_epoch"])
    judged = tally(found.where("over_t > t"), None, partial(sort, _RULE, unnamed(history)))
    for (what, arm, trial), n in judged.in_order():
        outcome.excuse(arm, trial, _RULE, what, of=of, n=n)
    add(outcome, judged, _finding)


_ENDS: Final = "arm string, trial int, topic string, partition int, leader_epoch int, over_t bigint"


def _ends(history: History) -> list[dict[str, Any]]:
    """By leader epoch of topics that lived once, the first moment when it can have been over."""
    rows = []
    for key, of in leadership(history).items():
        if of.incarnations > 1 or of.regressions:
            continue
        begun = {e.leader_epoch: e.earliest_t for e in of.epochs}
        for epoch in begun:
            after = begun.get(epoch + 1, NEVER)
            over_t = ALWAYS if after is None else after
            rows.append(dict(zip(TP, key, strict=True), leader_epoch=epoch, over_t=over_t))
    return rows


def _finding(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        rule,
        f"value {row['value']}, whose write was answered with error {row['error']}, is in the "
        f"final log of {row['topic']}-{row['partition']} at offset {row['offset']}; leader epoch "
        f"{row['leader_epoch']}, in which it was appended, was not over by then",
        row["arm"],
        row["trial"],
        (
            Pick("leadership", {**at, "leader_epoch": row["leader_epoch"]}, rows=1),
            Pick("produce", {"value": row["value"]}, rows=2),
            Pick("log_read", {**at, "value": row["value"]}, rows=3),
        ),
    )
