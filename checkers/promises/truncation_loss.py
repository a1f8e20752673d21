"""Truncation loss: which acknowledged records are gone, which of them need not have been?

Guarantee: a record acknowledged with acks=all, or read by a consumer, stays in the log at its
offset; one acknowledged with acks=1 is lost only to a truncation (of its leader, demoted).

Violations:
- ``acked-all-lost`` / ``acked-all-moved``: acknowledged with acks=all and not in the final log (not
  at its offset), without an excuse (`checkers.judging.excuses`);
- ``read-then-gone`` / ``read-then-changed``: a consumer read it, and the final log does not have
  it there;
- ``unexplained-loss``: acknowledged with acks=1 and gone, although no truncation, dropped replica,
  torn log, unreadable broker or excuse accounts for it. Only where brokers trace.

Counted, lawful (acks=1), tied to its truncation (`checkers.facts.cuts`):
- ``before_commit``  appended before the next leader was committed: an in-sync follower lagged;
- ``between``        after that, but before the demoting LeaderAndIsr was sent to the broker;
- ``avoidable``      after it was sent: handled on arrival, it would have saved the record. This is
                     the figure that KIP-291 is about;
- ``edge``           within the clocks' errors of ``send_t``;  ``undated``: no send or commit known.

When a record was appended is known to a span of time: between invocation and acknowledgement, and
within its log append time's millisecond, widened by the error of the tie between the clocks. Both
spans hold, so their intersection does. acks=0 records are counted, never held against anybody.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import accounts, final_leaders
from checkers.facts.cuts import Cut, cuts
from checkers.facts.disputes import disputes
from checkers.facts.leadership import key_of
from checkers.judging.excuses import Excuses, excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column

    from checkers.history.frames import History

ACKED: Final = "acknowledged records"
_NS_PER_MS: Final = 1_000_000
_JUDGED: Final = 200_000
"""So many lost records are classified one by one; more are counted as ``unclassified``."""
_TRACES: Final = ("leader_change", "truncation")


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("log_end") or not final_leaders(history):
        if history.has("produce"):
            outcome.unknowns.append("no final log was read: nothing can be said of any record")
        return outcome
    _count(history, outcome)
    known = excuses(history)
    _judge_lost(history, outcome, known)
    _judge_read(history, outcome, known)
    return outcome


def _count(history: History, outcome: Outcome) -> None:
    """Totals by class; what could not be read makes the check unknown."""
    totals: Counter[tuple[str, str]] = Counter()
    unread: Counter[tuple[str, int]] = Counter()
    for row in accounts(history):
        arm, name, n = row["arm"], row["class"], row["n"]
        if name in ("present", "moved", "absent", "purged", "unread"):
            level = "acked_all" if row["acks"] == -1 else "acked_1"
            outcome.saw(arm, row["trial"], ACKED, n)
            totals[arm, level] += n
            totals[arm, f"{level}_{name}"] += n
            if name == "unread":
                unread[arm, row["trial"]] += n
        else:
            totals[arm, name.replace("unacked", "acks_0").replace("-", "_")] += n
    for (arm, key), n in sorted(totals.items()):
        outcome.arm(arm)[key] = n
    for (arm, trial), n in sorted(unread.items()):
        outcome.unknowns.append(
            f"{arm}, trial {trial}: {n} acknowledged records lie in partitions whose final log "
            "could not be read"
        )


# -- acknowledged and gone ----------------------------------------------------------------------


def _judge_lost(history: History, outcome: Outcome, known: Excuses) -> None:
    names = ("absent", "moved")
    lost = [r for r in accounts(history) if r["class"] in names and r["value"] is not None]
    table: Counter[tuple[Any, ...]] = Counter()
    if lost:
        traced, unreadable = _traced(history), _unreadable(history)
        for row in _operations(history, lost[:_JUDGED]):
            row["cut"] = cut = _taken_by(history, row)
            name = _category(row, known, traced, unreadable)
            kinds = outcome.arm(row["arm"]).setdefault("lost", {})
            kinds[name] = kinds.get(name, 0) + 1
            node = None if cut is None else cut.node
            table[row["arm"], row["trial"], row["topic"], row["partition"], node, name] += 1
            finding = _finding(row, name)
            if finding is not None:
                outcome.add(finding)
    if len(lost) > _JUDGED:
        outcome.unknowns.append(f"of {len(lost)} lost records only {_JUDGED} were classified")
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


def _operations(history: History, lost: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations of lost values, with the span in which each was appended, in order of t."""
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
    found: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["t"], row["value"]))


def _taken_by(history: History, row: dict[str, Any]) -> Cut | None:
    """The truncation that took a record: of the broker that acknowledged it, when that is known;
    else of one that had led; of these the first after it was appended."""
    offset = row["offset"]

    def covers(cut: Cut) -> bool:
        unknown = offset is None or offset < 0  # acknowledged, but nobody was told where
        return unknown or cut.to_offset <= offset < cut.from_offset

    covering = [
        cut
        for cut in cuts(history).get(key_of(row), ())
        if covers(cut) and cut.cut_t >= row["append_from"]
    ]

    def rank(cut: Cut) -> tuple[int, int]:
        if cut.node == row["node"]:
            return (0, cut.cut_t)
        return (1 if cut.led_epoch is not None else 2, cut.cut_t)

    return min(covering, key=rank, default=None)


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


def _category(
    row: Any, known: Excuses, traced: set[tuple[str, int]], unreadable: set[tuple[Any, ...]]
) -> str:
    key = (row["arm"], row["trial"])
    excuse = known.of(*key, row["topic"], row["partition"], row["invoke_t"])
    if excuse is not None:
        return excuse
    if row["acks"] == -1:
        return "acked_all"
    cut = row["cut"]
    if cut is not None:
        return _timing(row, cut)
    torn = known.torn.get(key, set())
    if torn and (row["node"] is None or row["node"] in torn):
        return "damage"
    places = {n for *tp, n in unreadable if tuple(tp) == (*key, row["topic"], row["partition"])}
    if places and (row["node"] is None or row["node"] in places):
        return "stranded"  # its broker is still down: nothing had to be cut
    if key not in traced:
        return "untraced"
    return "unexplained"


def _timing(row: Any, cut: Cut) -> str:
    commit_t, send_t, error = cut.commit_t, cut.send_t, cut.send_error_ns
    if send_t is not None and row["append_from"] > send_t + error:
        return "avoidable"
    if commit_t is not None and row["append_to"] < commit_t:
        return "before_commit"
    if send_t is None:
        return "undated"
    return "between" if row["append_to"] <= send_t - error else "edge"


def _traced(history: History) -> set[tuple[str, int]]:
    """Trials whose brokers say when they truncate."""
    return {(r["arm"], r["trial"]) for kind in _TRACES for r in history.rows(kind)}


def _unreadable(history: History) -> set[tuple[Any, ...]]:
    return {
        (r["arm"], r["trial"], r["topic"], r["partition"], r["node"])
        for r in history.rows("log_end")
        if r["error"] is not None
    }


def _finding(row: Any, name: str) -> Finding | None:
    if name not in ("acked_all", "unexplained"):
        return None
    place = f"{row['topic']}-{row['partition']} offset {row['offset']}"
    moved = row["class"] == "moved"
    if name == "acked_all":
        rule = "acked-all-moved" if moved else "acked-all-lost"
        says = f"value {row['value']} was acknowledged with acks=all at {place} and "
    else:
        rule = "unexplained-loss"
        says = (
            f"value {row['value']} was acknowledged with acks=1 at {place}; no truncation took it, "
        )
        says += "it "
    says += f"is at offset {row['final_offset']} in the end" if moved else "is not in the final log"
    at = {"topic": row["topic"], "partition": row["partition"]}
    cut = row["cut"]
    picks = [
        Pick("produce", {**at, "value": row["value"]}, rows=1),
        Pick("leadership", at, from_t=row["invoke_t"]),
        Pick("log_read", {**at, "offset": row["offset"]}),
        Pick("log_end", {**at, "is_leader": True}, rows=1),
    ]
    if cut is not None:
        offsets = {"from_offset": cut.from_offset, "to_offset": cut.to_offset}
        picks.append(Pick("truncation", {**at, "node": cut.node, **offsets}, rows=1))
    return Finding(rule, says, row["arm"], row["trial"], tuple(picks))


# -- read and gone --------------------------------------------------------------------------------


def _judge_read(history: History, outcome: Outcome, known: Excuses) -> None:
    if not history.has("fetch"):
        return
    rows = [r for r in disputes(history) if r["class"] in ("gone", "changed")]
    for row in sorted(rows, key=lambda r: r["first_read_t"]):
        key = (row["arm"], row["trial"], row["topic"], row["partition"])
        excuse = known.of(*key, row["first_read_t"])
        figures = outcome.arm(row["arm"])
        name = "read_then_lost" if excuse is None else f"read_then_lost_{excuse}"
        figures[name] = figures.get(name, 0) + 1
        if excuse is None:
            outcome.add(_read_finding(row))


def _read_finding(row: Any) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    gone = row["class"] == "gone"
    instead = "nothing is there" if gone else f"value {row['log_value']} is there"
    return Finding(
        "read-then-gone" if gone else "read-then-changed",
        f"a consumer read value {row['read_value']} at {row['topic']}-{row['partition']} offset "
        f"{row['offset']}; in the final log {instead}",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {**at, "value": row["read_value"]}, rows=1),
            Pick("fetch", {**at, "offset": row["offset"]}, rows=2),
            Pick("leadership", at, from_t=row["first_read_t"]),
            Pick("truncation", at, from_t=row["first_read_t"]),
            Pick("log_read", {**at, "offset": row["offset"]}),
            Pick("log_end", {**at, "is_leader": True}, rows=1),
        ),
    )


PROMISE: Final = Promise(
    name="truncation-loss",
    says="What was promised stays; what acks=1 loses is tied to a truncation.",
    source="Kafka's acks; KIP-101, KIP-291 (motivation); Jepsen: lost write",
    rules={
        "acked-all-lost": "A record acknowledged with acks=all stays.",
        "acked-all-moved": "A record acknowledged with acks=all stays at its offset.",
        "read-then-gone": "A record that a consumer has read stays.",
        "read-then-changed": "An offset that a consumer has read holds the same record for ever.",
        "unexplained-loss": "An acks=1 record is lost only to a truncation.",
    },
    evidence={ACKED: "offered with acks=1 or acks=all, and answered"},
    unknown_when=("a partition's final log could not be read",),
    blind=("when acks=0 records went",),
    check=check,
)
