"""Brokers that answer in another's place, for `checkers.promises.epochs`.

Once all is calm, and a broker has had its time to hear of it (`checkers.facts.calm`), it answers
nobody about a partition that another one leads by the last that was committed: not where its log
begins, or what is in it at some time, does not let it begin later, takes no record
(ReplicaManager.getPartitionOrException, fetchOnlyFromLeader). Of the answers with which a leader
epoch is told, or believed in, `acting` says so by that epoch, whenever it was. And at no time does
that who has not led the partition yet.

Who has records deleted by a follower loses them there alone, and is told that they are gone.

Nor does it say that there is no such partition (``partition-denied``): who does not lead it, with a
replica or without one, sends its clients elsewhere (NOT_LEADER_OR_FOLLOWER, as long as its
MetadataCache has the partition). They would take it for deleted.

Lawful: topics that are being deleted; a broker that a forger made believe something else (counted).
Clients that do not say whom they asked, and black boxes, are not judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps
from checkers.facts.calm import brokers
from checkers.facts.calm_leaders import calm_leaders
from checkers.facts.decisions import from_log
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import SEEN_WITHIN_NS, TP, Key, key_of, leadership
from checkers.facts.timeline import ALWAYS, FOREVER, FROM, TO, Timeline
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.epochs.denials import questions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "served-by-another"
DENIED: Final = "partition-denied"
OTHERS: Final = "questions to who does not lead, once all was calm"
_ERRORS: Final = {RULE: (0,), DENIED: (3, 5, 100)}
"""None; UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_ID."""


def in_anothers_place(history: History, outcome: Outcome) -> Iterator[Finding]:
    rows = questions(history)
    if rows is None:
        return
    nodes = brokers(history)
    lied = {(key_of(row), row["node"]) for row in taken_in(history) if row["topic"]}
    yield from _before_it_led(history, rows, nodes, lied)
    spans: list[dict[str, Any]] = []
    leaders: dict[tuple[Any, ...], int] = {}
    for key, leader, since_t, debts in calm_leaders(history, rows):
        leaders[key] = leader
        for node in sorted(nodes.get(key[:2], set()) - {leader}):
            owed = debts.owed_from((*key[:2], node), since_t)
            if owed is not None:
                place = dict(zip((*TP, "node"), (*key, node), strict=True))
                spans.append({**place, FROM: owed, TO: FOREVER})
    if not spans:
        return
    asked = Timeline(spans, (*TP, "node")).at(history, rows, F.col("invoke_t"), "inner")
    odd_t = {
        rule: F.when(F.col("error").isin(*errors), F.col("t")) for rule, errors in _ERRORS.items()
    }
    sums = asked.groupBy(*TP, "node").agg(
        F.count("*").alias("asked"),
        *(
            F.struct(
                F.count(t).alias("n"),
                F.min(t).alias("t"),
                F.min_by("kind", t).alias("kind"),
                F.min_by("error", t).alias("error"),
            ).alias(rule)
            for rule, t in odd_t.items()
        ),
    )
    for row in sums.orderBy(*TP, "node").toArrow().to_pylist():
        key = key_of(row)
        outcome.saw(*key[:2], OTHERS, row["asked"])
        for rule in _ERRORS:
            n = row[rule]["n"]
            if n and (key, row["node"]) in lied:
                outcome.excuse(*key[:2], rule, "forged", of=OTHERS, n=n)
            elif n:
                yield _finding(rule, row | row[rule], leaders[key])


def _before_it_led(
    history: History,
    rows: DataFrame,
    nodes: Mapping[tuple[str, int], set[int]],
    lied: Collection[tuple[Key, int]],
) -> Iterator[Finding]:
    """Of partitions of which the store told, and that nobody deletes."""
    gone, first_led = deletion_steps(history), _first_led(history)
    spans = [
        {**dict(zip((*TP, "node"), (*key, node), strict=True)), FROM: ALWAYS, TO: led_t}
        for key, led in first_led.items()
        for node in sorted(nodes.get(key[:2], ()))
        if key[:3] not in gone and (key, node) not in lied
        if (led_t := led.get(node, FOREVER)) > ALWAYS
    ]
    if not spans:
        return
    early = Timeline(spans, (*TP, "node")).at(history, rows, F.col("t"), "inner")
    served = early.where("error = 0").groupBy(*TP, "node").agg(
        F.count("*").alias("n"), F.min("t").alias("t"), F.min_by("kind", "t").alias("kind")
    )  # fmt: skip
    for row in served.orderBy(*TP, "node").toArrow().to_pylist():
        at = {"topic": row["topic"], "partition": row["partition"]}
        yield Finding(
            RULE,
            f"node {row['node']} answered {row['n']} times ({row['kind']}) for {row['topic']}-"
            f"{row['partition']} as if it led that, and had not led it yet",
            row["arm"],
            row["trial"],
            (
                Pick("leadership", at, to_t=row["t"], last=True, rows=1),
                Pick(row["kind"], {**at, "node": row["node"], "t": row["t"]}, rows=1),
            ),
        )


def _first_led(history: History) -> dict[Key, dict[int, int]]:
    """By partition and broker, when it can have led at the earliest (ns), by all that was ever
    written of it. Not of those of which brokers alone showed anything, or of which a watch missed a
    leader that no log tells."""
    logged = from_log(history)
    found: dict[Key, dict[int, int]] = {}
    for key, of in leadership(history).items():
        missed = key[:2] not in logged and len(of.commits) < len(of.epochs)
        for epoch in () if of.shown or missed else of.commits:
            if epoch.leader is not None and epoch.leader >= 0 and epoch.earliest_t is not None:
                _note(found.setdefault(key, {}), epoch.leader, epoch.earliest_t)
    for row in history.rows("zk_write"):
        if row["what"] == "state" and row["leader"] is not None and key_of(row) in found:
            t = row["t"] - (row["error_ns"] or 0) - SEEN_WITHIN_NS
            _note(found[key_of(row)], row["leader"], t)
    return found


def _note(led: dict[int, int], node: int, t: int) -> None:
    led[node] = min(t, led.get(node, t))


def _finding(rule: str, row: dict[str, Any], leader: int) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    what = "as if it led that" if rule == RULE else f"that there is none (error {row['error']})"
    return Finding(
        rule,
        f"node {row['node']} answered {row['n']} of {row['asked']} times ({row['kind']}) for "
        f"{row['topic']}-{row['partition']} {what}, long after all was healed; node {leader} leads "
        "it",
        row["arm"],
        row["trial"],
        (
            Pick("leadership", {**at, "leader": leader}, last=True, rows=1),
            Pick(row["kind"], {**at, "node": row["node"], "t": row["t"]}, rows=1),
        ),
    )
