"""A record that is twice in the log though its producer sends again only to another leader: for
`checkers.promises.records`.

Two copies of one leader epoch are two appends of one leader. Lawful, and looks similar: while it
was under way another broker told clients of no such leader, and the client sent it again by itself
(`checkers.facts.unnamed`). Counted and shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table, twice_by_one_leader
from checkers.facts.leadership import TP
from checkers.facts.unnamed import Unnamed, unnamed
from checkers.judging.outcome import Outcome
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "duplicate-append"
EXCUSE: Final = "unnamed"
Row = Mapping[str, Any]


def judge_again(history: History, outcome: Outcome, of: str) -> None:
    """``of``: the evidence that what is excused is a share of."""
    names = ["arm", "trial", "value"]
    sent = history.frame("produce").select(*names, "process", "invoke_t", "t")
    leaders = leaders_table(history).select(*TP, "leader_node")
    final = history.frame("log_read").join(F.broadcast(leaders), TP).where("node = leader_node")
    copies = final.join(F.broadcast(twice_by_one_leader(history)), names)
    each = copies.groupBy(*TP, "value", "leader_epoch").agg(
        F.count("*").alias("copies"), F.min("offset").alias("offset")
    )
    found = each.where("copies > 1").join(sent, names)
    judged = tally(found, None, partial(sort, RULE, unnamed(history)))
    for (what, arm, trial), n in judged.in_order():
        outcome.excuse(arm, trial, RULE, what, of=of, n=n)
    add(outcome, judged, _finding)


def sort(rule: str, told: Unnamed, row: Row) -> Sort:
    """That it breaks ``rule``, or is excused and by which excuse (its label). ``row``: of a record
    and one of its copies, with ``invoke_t`` and ``t`` of its produce."""
    order = (row["t"], row["value"])
    key = (row["arm"], row["trial"], row["topic"], row["partition"])
    if told.leader(key, row["leader_epoch"], row["invoke_t"], row["t"]):
        return Sort((EXCUSE, *key[:2]), order)
    return Sort(("", *key[:2]), order, rule, 0)


def _finding(rule: str, row: Row) -> Finding:
    return Finding(
        rule,
        f"value {row['value']}, sent once to each leader, is {row['copies']} times in the final "
        f"log of {row['topic']}-{row['partition']} under leader epoch {row['leader_epoch']}, first "
        f"at offset {row['offset']}",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {"value": row["value"]}, rows=2),
            Pick("fetch", {"value": row["value"]}, rows=2),
            Pick("log_read", {"value": row["value"]}, rows=6),
        ),
    )
