"""Acknowledged and gone: every such record one by one, for `checkers.promises.truncation_loss`.

Where an excuse covers it (`checkers.judging.excuses`), it is counted as excused. Else one that was
acknowledged with acks=all is a violation, and of one acknowledged with acks=1 it is asked how it
can have gone (`checkers.judging.acks_one`); when it was appended says whether that was avoidable.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import accounts, leaders_table
from checkers.facts.cuts import Cut, cuts
from checkers.facts.leadership import SEEN_WITHIN_NS, TP, Key, key_of, leadership
from checkers.facts.lives import is_away
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
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column

    from checkers.history.frames import History

LEVELS: Final = {1: "records acknowledged with acks=1", -1: "records acknowledged with acks=all"}
"""By acks: the evidence of which excused records are a share."""
ACKED_ALL: Final = "acked_all"
JUDGED: Final = 200_000
"""So many lost records are classified one by one, those with acks=all first; more are counted as
``unclassified``, and the check says that it does not know."""
_NS_PER_MS: Final = 1_000_000
_TRACES: Final = ("leader_change", "truncation")
Row = dict[str, Any]


def judge_lost(history: History, outcome: Outcome, known: Excuses) -> None:
    """Findings, excuses and the figures ``lost`` and ``avoidable`` of every arm."""
    names = ("absent", "moved")
    lost = [r for r in accounts(history) if r["class"] in names and r["value"] is not None]
    lost.sort(key=lambda row: (row["acks"] != -1, row["value"]))
    table: Counter[tuple[Any, ...]] = Counter()
    if lost:
        evidence = _Evidence(history, known)
        for row in _operations(history, lost[:JUDGED]):
            name = _judge(row, outcome, known, evidence)
            kinds = outcome.arm(row["arm"]).setdefault("lost", {})
            kinds[name] = kinds.get(name, 0) + 1
            node = None if row["cut"] is None else row["cut"].node
            table[row["arm"], row["trial"], row["topic"], row["partition"], node, name] += 1
    for row in lost[JUDGED:]:
        kinds = outcome.arm(row["arm"]).setdefault("lost", {})
        kinds["unclassified"] = kinds.get("unclassified", 0) + 1
    if len(lost) > JUDGED:
        outcome.unknowns.append(f"of {len(lost)} lost records only {JUDGED} were classified")
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


def _judge(row: Row, outcome: Outcome, known: Excuses, evidence: _Evidence) -> str:
    """What became of one lost record: in a word, for the figures. The cut that took it is added to
    the row (None where there is none)."""
    arm, trial, topic, partition = key_of(row)
    place = f"{topic}-{partition}"
    offset = _offset(row)
    row["cut"], row["why"] = None, ""
    excuse = known.of(arm, trial, topic, partition, row["invoke_t"], offset)
    lost_all = row["acks"] == -1
    if excuse is None and lost_all:
        row["cut"] = evidence.any_cut(row)
        outcome.add(_all_lost(row))
        return ACKED_ALL
    if excuse is None:
        found = evidence.fate(row)
        row["cut"], row["why"] = found.cut, found.why
        if found.name == CUT:
            assert found.cut is not None
            return _timing(row, found.cut)
        if found.name == UNEXPLAINED:
            outcome.add(_unexplained(row))
            return UNEXPLAINED
        if found.name == UNREAD:
            outcome.unknown(arm, trial, f"{place}: a log that may hold lost records was not read")
        elif found.name == UNDECIDED:
            outcome.unknown(arm, trial, f"{place}: records are lost, no leadership was recorded")
        excuse = found.name
    elif excuse == "untold":
        outcome.unknown(arm, trial, f"{place}: {EXCUSES[excuse].because}")
    if excuse in EXCUSES:
        rule = _rule(row) if lost_all else "unexplained-loss"
        outcome.excuse(arm, trial, rule, excuse, of=LEVELS[-1 if lost_all else 1])
    return excuse


def _offset(row: Row) -> int | None:
    """Where the client was told that it is; None where nobody was told."""
    return None if row["offset"] is None or row["offset"] < 0 else row["offset"]


def _operations(history: History, lost: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations of lost values, in order of t, with the span in which each was appended and
    ``holders``: whose log has it there in the end."""
    schema = "arm string, trial int, value bigint, class string, final_offset bigint"
    table = history.table(
        [{k: row[k] for k in ("arm", "trial", "value", "class", "final_offset")} for row in lost],
        schema,
    )
    offers = history.frame("produce").where("type = 'ok' and acks != 0")
    low, high = _append_span(history)
    rows = offers.join(F.broadcast(table), ["arm", "trial", "value"]).select(
        *("arm", "trial", "value", "topic", "partition", "offset", "acks", "t", "invoke_t"),
        *("node", "class", "final_offset"),
        low.alias("append_from"),
        high.alias("append_to"),
    )
    held = (
        history.frame("log_read")
        .join(F.broadcast(table.select("arm", "trial", "value")), ["arm", "trial", "value"])
        .groupBy(*TP, "value", "offset")
        .agg(F.collect_set("node").alias("holders"))
    )
    rows = rows.join(F.broadcast(held), [*TP, "value", "offset"], "left")
    found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["t"], row["value"]))


class _Evidence:
    """What acks=1 losses are held against, gathered once for all of them."""

    def __init__(self, history: History, known: Excuses) -> None:
        self._history, self._known = history, known
        self._partitions: dict[Key, Partition] = {}
        self._roles = _roles(history)
        self._replicas = _replicas(history)
        self._traced = {(r["arm"], r["trial"]) for kind in _TRACES for r in history.rows(kind)}

    def any_cut(self, row: Row) -> Cut | None:
        """The first truncation that covers it, whose ever: for a witness."""
        offset = _offset(row)
        covering = [
            cut
            for cut in cuts(self._history).get(key_of(row), ())
            if (offset is None or cut.to_offset <= offset < cut.from_offset)
            and cut.cut_t >= row["append_from"]
        ]
        return min(covering, key=lambda cut: cut.cut_t, default=None)

    def fate(self, row: Row) -> Fate:
        """How a record acknowledged with acks=1 went."""
        key, offset = key_of(row), _offset(row)
        span = (row["append_from"], max(row["append_from"], row["append_to"]))
        of = self._partition(key)
        nodes = of.roles.keys() | of.replicas.keys()
        lost = Lost(
            node=row["node"],
            offset=offset,
            append_from=span[0],
            append_to=span[1],
            away=frozenset(n for n in nodes if self._away((*key[:2], n), *span)),
            damaged=frozenset(n for n in nodes if self._known.damaged(key, n, offset)),
            holders=frozenset(row["holders"] or ()),
        )
        return fate(lost, of)

    def _away(self, node: tuple[str, int, int], from_t: int, to_t: int) -> bool:
        """A start may be written down a little after it."""
        return is_away(self._history, node, from_t, to_t + SEEN_WITHIN_NS)

    def _partition(self, key: Key) -> Partition:
        if key not in self._partitions:
            self._partitions[key] = Partition(
                leadership=leadership(self._history).get(key),
                cuts=cuts(self._history).get(key, ()),
                roles={node: of for (k, node), of in self._roles.items() if k == key},
                ends=_ends(self._history).get(key, {}),
                replicas=self._replicas.get(key, {}),
                traced=key[:2] in self._traced,
            )
        return self._partitions[key]


def _roles(history: History) -> dict[tuple[Key, int], list[Role]]:
    found: dict[tuple[Key, int], list[Role]] = {}
    for row in history.rows("leader_change"):
        error_ns = row["error_ns"] or 0
        role = Role(
            earliest_t=row["t"] - error_ns,
            latest_t=row["t"] + error_ns,
            leads=row["role"] == "leader",
            leader_epoch=-1 if row["leader_epoch"] is None else row["leader_epoch"],
        )
        found.setdefault((key_of(row), row["node"]), []).append(role)
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


def _append_span(history: History) -> tuple[Column, Column]:
    """The earliest and latest moment (monotonic ns) at which the record was appended."""
    low, high = F.col("invoke_t"), F.col("t")
    offset = history.run.clock_offset_ns
    if offset is None:
        return low, high
    error = history.run.clock_error_ns
    stamped = F.when(
        F.col("log_append_time_ms") > 0, F.col("log_append_time_ms") * _NS_PER_MS + F.lit(offset)
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


def _all_lost(row: Row) -> Finding:
    says = f"value {row['value']} was acknowledged with acks=all at {_place(row)} and {_ended(row)}"
    return Finding(_rule(row), says, row["arm"], row["trial"], _picks(row))


def _unexplained(row: Row) -> Finding:
    says = (
        f"value {row['value']} was acknowledged with acks=1 at {_place(row)}; it {_ended(row)}, "
        f"and nothing explains that: {row['why']}"
    )
    return Finding("unexplained-loss", says, row["arm"], row["trial"], _picks(row))


def _place(row: Row) -> str:
    return f"{row['topic']}-{row['partition']} offset {row['offset']}"


def _ended(row: Row) -> str:
    moved = row["class"] == "moved"
    return f"is at offset {row['final_offset']} in the end" if moved else "is not in the final log"


def _picks(row: Row) -> tuple[Pick, ...]:
    at = {"topic": row["topic"], "partition": row["partition"]}
    picks = [
        Pick("produce", {**at, "value": row["value"]}, rows=1),
        Pick("leadership", at, from_t=row["invoke_t"]),
        Pick("truncation", at, from_t=row["append_from"]),
        Pick("log_read", {**at, "offset": row["offset"]}),
        Pick("log_end", {**at, "is_leader": True}, rows=1),
    ]
    cut = row["cut"]
    if cut is not None and not cut.whole:
        offsets = {"from_offset": cut.from_offset, "to_offset": cut.to_offset}
        picks[2] = Pick("truncation", {**at, "node": cut.node, **offsets}, rows=1)
    return tuple(picks)
