"""Acknowledged and gone: every such record one by one, for `checkers.promises.truncation_loss`.

Where an excuse covers it (`checkers.judging.excuses`), it is counted as excused. Else one that was
acknowledged with acks=all is a violation, and of one acknowledged with acks=1 it is asked how it
can have gone (`checkers.judging.acks_one`); when it was appended says whether that was avoidable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import GONE, accounts, gone, leaders_table
from checkers.facts.cuts import Cut, cuts
from checkers.facts.leadership import SEEN_WITHIN_NS, TP, Key, key_of, leadership
from checkers.facts.lives import Node, is_away, runs, was_away
from checkers.facts.told_numbers import monotonic_ns
from checkers.judging.acks_one import (
    CUT,
    UNDECIDED,
    UNEXPLAINED,
    UNREAD,
    Fate,
    Lost,
    Partition,
    Role,
    fate,
)
from checkers.judging.excuses import EXCUSES, Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.tally import ON_THE_DRIVER, Sort, add, tally
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

LEVELS: Final = {1: "records acknowledged with acks=1", -1: "records acknowledged with acks=all"}
"""By acks: the evidence of which excused records are a share."""
ACKED_ALL: Final = "acked_all"
_NS_PER_MS: Final = 1_000_000
_TRACES: Final = ("leader_change", "truncation")
Row = Mapping[str, Any]


def judge_lost(history: History, outcome: Outcome, known: Excuses) -> None:
    """Findings, excuses and the figures ``lost`` and ``avoidable`` of every arm."""
    table: Counter[tuple[Any, ...]] = Counter()
    n = sum(row["n"] for row in accounts(history) if row["class"] in GONE)
    if n:
        evidence = _evidence(history, known)
        found = tally(_operations(history, n), n, evidence.sort)
        add(outcome, found, partial(_finding, evidence))
        for label, count in found.in_order():
            _count(outcome, label, count)
            table[label[:6]] += count
    for figures in outcome.arms.values():
        kinds = figures.get("lost", {})
        figures["avoidable"] = kinds.get("avoidable", 0)
        figures["avoidable_at_most"] = figures["avoidable"] + kinds.get("edge", 0)
        figures["avoidable_share"] = _share(figures["avoidable"], figures.get("acked_1", 0))
        figures["clock_error_ms"] = round(history.run.clock_error_ns / 1e6, 4)
    fields = ("arm", "trial", "topic", "partition", "node", "category")
    outcome.figures["loss"] = [dict(zip(fields, k, strict=True), n=n) for k, n in table.items()]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def _count(outcome: Outcome, label: tuple[Any, ...], n: int) -> None:
    """``n`` lost records of one sort: for the figures, the excuses, and what nobody can say."""
    arm, trial, topic, partition, _, name, lost_all, rule = label
    kinds = outcome.arm(arm).setdefault("lost", {})
    kinds[name] = kinds.get(name, 0) + n
    place = f"{topic}-{partition}"
    if name == UNREAD:
        outcome.unknown(arm, trial, f"{place}: a log that may hold lost records was not read")
    elif name == UNDECIDED:
        outcome.unknown(arm, trial, f"{place}: records are lost, no leadership was recorded")
    elif name == "untold":
        outcome.unknown(arm, trial, f"{place}: {EXCUSES[name].because}")
    if name in EXCUSES:
        outcome.excuse(arm, trial, rule, name, of=LEVELS[-1 if lost_all else 1], n=n)


def _offset(row: Row) -> int | None:
    """Where the client was told that it is; None where nobody was told."""
    return None if row["offset"] is None or row["offset"] < 0 else row["offset"]


def _operations(history: History, n: int) -> DataFrame:
    """The operations of lost values, with the span in which each was appended and ``holders``:
    whose log has it there in the end."""
    values = gone(history)
    if n <= ON_THE_DRIVER:  # spares Spark to find them twice, and to sort the load for a few
        values = F.broadcast(history.spark.createDataFrame(values.toArrow().combine_chunks()))
    offers = history.frame("produce").where("type = 'ok' and acks != 0")
    low, high = append_span(history)
    rows = offers.join(values, ["arm", "trial", "value"]).select(
        *("arm", "trial", "value", "topic", "partition", "offset", "acks", "t", "invoke_t"),
        *("node", "class", "final_offset"),
        low.alias("append_from"),
        high.alias("append_to"),
    )
    held = (
        history.frame("log_read")
        .join(values.select("arm", "trial", "value"), ["arm", "trial", "value"], "left_semi")
        .groupBy(*TP, "value", "offset")
        .agg(F.collect_set("node").alias("holders"))
    )
    return rows.join(held, [*TP, "value", "offset"], "left")


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What losses are held against, gathered once for all of them: plain data."""

    known: Excuses
    cuts: Mapping[Key, Sequence[Cut]]
    partitions: Mapping[Key, Partition]
    runs: Mapping[Node, Sequence[tuple[int, bool]]]

    def sort(self, row: Row) -> Sort:
        """What became of one lost record: where, by whose cut, in a word; whether acks=all promised
        it, and which rule it would break."""
        name, cut, broken, _ = self.fate(row)
        node = None if cut is None else cut.node
        lost_all = row["acks"] == -1
        rule = _rule(row) if lost_all else "unexplained-loss"
        label = (*key_of(row), node, name, lost_all, rule)
        return Sort(label, (row["t"], row["value"]), rule if broken else None)

    def fate(self, row: Row) -> tuple[str, Cut | None, bool, str]:
        """In a word, the cut that took it, whether that is a violation, and why."""
        key, offset = key_of(row), _offset(row)
        excuse = self.known.of(*key, row["invoke_t"], offset)
        if excuse is not None:
            return excuse, None, False, ""
        if row["acks"] == -1:
            return ACKED_ALL, self._any_cut(row), True, ""
        found = self._fate(row, key, offset)
        if found.name == CUT:
            assert found.cut is not None
            return _timing(row, found.cut), found.cut, False, ""
        return found.name, found.cut, found.name == UNEXPLAINED, found.why

    def _any_cut(self, row: Row) -> Cut | None:
        """The first truncation that covers it, whose ever: for a witness."""
        offset = _offset(row)
        covering = [
            cut
            for cut in self.cuts.get(key_of(row), ())
            if (offset is None or cut.to_offset <= offset < cut.from_offset)
            and cut.cut_t >= row["append_from"]
        ]
        return min(covering, key=lambda cut: cut.cut_t, default=None)

    def _fate(self, row: Row, key: Key, offset: int | None) -> Fate:
        """How a record acknowledged with acks=1 went."""
        span = (row["append_from"], max(row["append_from"], row["append_to"]))
        of = self.partitions[key]
        nodes = of.roles.keys() | of.replicas.keys()
        lost = Lost(
            node=row["node"],
            offset=offset,
            append_from=span[0],
            append_to=span[1],
            away=frozenset(n for n in nodes if self._away((*key[:2], n), *span)),
            damaged=frozenset(n for n in nodes if self.known.damaged(key, n, offset)),
            holders=frozenset(row["holders"] or ()),
        )
        return fate(lost, of)

    def _away(self, node: Node, from_t: int, to_t: int) -> bool:
        """A start may be written down a little after it."""
        return was_away(self.runs.get(node, ()), from_t, to_t + SEEN_WITHIN_NS)


class _Partitions(dict[Key, Partition]):
    """One of which nothing is known is one without leadership."""

    def __missing__(self, key: Key) -> Partition:
        return Partition(leadership=None)


def _evidence(history: History, known: Excuses) -> _Evidence:
    roles, ends, read = _roles(history), _ends(history), _replicas(history)
    traced = {(r["arm"], r["trial"]) for kind in _TRACES for r in history.rows(kind)}
    led = leadership(history)
    partitions = _Partitions(
        {
            key: Partition(
                leadership=led.get(key),
                cuts=cuts(history).get(key, ()),
                roles=roles.get(key, {}),
                ends=ends.get(key, {}),
                replicas=read.get(key, {}),
                traced=key[:2] in traced,
            )
            for key in {*led, *cuts(history), *roles, *ends, *read}
        }
    )
    return _Evidence(known, cuts(history), partitions, runs(history))


def _roles(history: History) -> dict[Key, dict[int, list[Role]]]:
    found: dict[Key, dict[int, list[Role]]] = {}
    for row in history.rows("leader_change"):
        error_ns = row["error_ns"] or 0
        role = Role(
            earliest_t=row["t"] - error_ns,
            latest_t=row["t"] + error_ns,
            leads=row["role"] == "leader",
            leader_epoch=-1 if row["leader_epoch"] is None else row["leader_epoch"],
        )
        found.setdefault(key_of(row), {}).setdefault(row["node"], []).append(role)
    return found


def _replicas(history: History) -> dict[Key, dict[int, str]]:
    """What could be made of each replica's log. Whether its node ran, only the harness says: an
    error is the broker's own answer, or a want of time."""
    found: dict[Key, dict[int, str]] = {}
    for row in history.rows("log_end"):
        if row["error"] is None:
            state = "read"
        elif is_away(history, (row["arm"], row["trial"], row["node"]), row["t"]):
            state = "down"
        else:
            state = "unread"
        found.setdefault(key_of(row), {})[row["node"]] = state
    return found


def _ends(history: History) -> dict[Key, dict[int, int]]:
    """Of the final logs, by leader epoch, the offset of its last record."""

    def make() -> dict[Key, dict[int, int]]:
        rows = history.frame("log_read").join(F.broadcast(leaders_table(history)), TP)
        last = rows.where("node = leader_node and leader_epoch >= 0")
        ends: dict[Key, dict[int, int]] = {}
        for row in last.groupBy(*TP, "leader_epoch").agg(F.max("offset").alias("end")).collect():
            ends.setdefault(key_of(row), {})[row["leader_epoch"]] = row["end"]
        return ends

    found: dict[Key, dict[int, int]] = history.memo("log_ends_by_epoch", make)
    return found


def append_span(history: History) -> tuple[Column, Column]:
    """The earliest and latest moment (monotonic ns) at which the record was appended."""
    low, high = F.col("invoke_t"), F.col("t")
    offset = history.run.clock_offset_ns
    if offset is None:
        return low, high
    error = history.run.clock_error_ns
    stamped = F.when(
        F.col("log_append_time_ms") > 0, monotonic_ns(F.col("log_append_time_ms"), offset)
    )
    # greatest and least skip nulls: without a stamp the operation's own span remains.
    return F.greatest(low, stamped - error), F.least(high, stamped + (_NS_PER_MS + error))


def _timing(row: Any, cut: Cut) -> str:
    commit_t, send_t, error = cut.commit_t, cut.send_t, cut.send_error_ns
    if send_t is not None and row["append_from"] > send_t + error:
        return "avoidable"
    if commit_t is not None and row["append_to"] < commit_t:
        return "before_commit"
    if send_t is None:
        return "undated"
    return "between" if row["append_to"] <= send_t - error else "edge"


def _rule(row: Row) -> str:
    return "acked-all-moved" if row["class"] == "moved" else "acked-all-lost"


def _finding(evidence: _Evidence, rule: str, row: Row) -> Finding:
    _, cut, _, why = evidence.fate(row)
    says = f"value {row['value']} was acknowledged with acks=all at {_place(row)} and {_ended(row)}"
    if row["acks"] != -1:
        says = (
            f"value {row['value']} was acknowledged with acks=1 at {_place(row)}; it {_ended(row)},"
            f" and nothing explains that: {why}"
        )
    return Finding(rule, says, row["arm"], row["trial"], _picks(row, cut))


def _place(row: Row) -> str:
    return f"{row['topic']}-{row['partition']} offset {row['offset']}"


def _ended(row: Row) -> str:
    moved = row["class"] == "moved"
    return f"is at offset {row['final_offset']} in the end" if moved else "is not in the final log"


def _picks(row: Row, cut: Cut | None) -> tuple[Pick, ...]:
    at = {"topic": row["topic"], "partition": row["partition"]}
    picks = [
        Pick("produce", {**at, "value": row["value"]}, rows=1),
        Pick("leadership", at, from_t=row["invoke_t"]),
        Pick("truncation", at, from_t=row["append_from"]),
        Pick("log_read", {**at, "offset": row["offset"]}),
        Pick("log_end", {**at, "is_leader": True}, rows=1),
    ]
    if cut is not None and not cut.whole:
        offsets = {"from_offset": cut.from_offset, "to_offset": cut.to_offset}
        picks[2] = Pick("truncation", {**at, "node": cut.node, **offsets}, rows=1)
    return tuple(picks)
