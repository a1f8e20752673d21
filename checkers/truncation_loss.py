"""Truncation loss: which acknowledged records are gone, which of them need not have been?

Guarantee: a record acknowledged with acks=all, or read by a consumer, stays in the log at its
offset; one acknowledged with acks=1 is lost only to a truncation (of its leader, demoted).

Violations:
- ``acked-all-lost`` / ``acked-all-moved``: acknowledged with acks=all and not in the final log (not
  at its offset), without an excuse (`checkers.excuses`);
- ``read-then-gone`` / ``read-then-changed``: a consumer read it, and the final log does not have
  it there;
- ``unexplained-loss``: acknowledged with acks=1 and gone, although no truncation, dropped replica,
  torn log, unreadable broker or excuse accounts for it. Only where brokers trace.

Counted, lawful (acks=1), tied to its truncation (`checkers.cuts`):
- ``before_commit``  appended before the next leader was committed: an in-sync follower lagged;
- ``between``        after that, but before the demoting LeaderAndIsr was sent to the broker;
- ``avoidable``      after it was sent: handled on arrival, it would have saved the record. This is
                     the figure that KIP-291 is about;
- ``edge``           within the clock's error of ``send_t``;  ``undated``: no send or commit known.

When a record was appended is known to a span of time: between invocation and acknowledgement, and
within its log append time's millisecond, widened by the error of the tie between the clocks. Both
spans hold, so their intersection does. acks=0 records are counted, never held against anybody.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.accounts import accounts, final_leaders
from checkers.cuts import cuts
from checkers.disputes import disputes
from checkers.excuses import Excuses, excuses
from checkers.outcome import Outcome
from checkers.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.frames import History

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
    rows = accounts(history).groupBy("arm", "trial", "class", "acks").agg(F.sum("n").alias("n"))
    totals: Counter[tuple[str, str]] = Counter()
    for row in rows.collect():
        arm, name = row["arm"], row["class"]
        figures = outcome.arm(arm)
        if name in ("present", "moved", "absent", "purged", "unread"):
            outcome.looked_at += row["n"]
            level = "acked_all" if row["acks"] == -1 else "acked_1"
            totals[arm, level] += row["n"]
            totals[arm, f"{level}_{name}"] += row["n"]
            if name == "unread":
                outcome.unknowns.append(
                    f"{arm}, trial {row['trial']}: {row['n']} acknowledged records lie in "
                    "partitions whose final log could not be read"
                )
        else:
            key = name.replace("unacked", "acks_0").replace("-", "_")
            figures[key] = figures.get(key, 0) + row["n"]
    for (arm, key), n in sorted(totals.items()):
        outcome.arm(arm)[key] = n


# -- acknowledged and gone ----------------------------------------------------------------------


def _judge_lost(history: History, outcome: Outcome, known: Excuses) -> None:
    lost = accounts(history).where("class in ('absent', 'moved') and value is not null")
    rows = _with_cut(history, lost)
    traced = _traced(history)
    unreadable = _unreadable(history)
    table: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        name = _category(row, known, traced, unreadable)
        figures = outcome.arm(row["arm"])
        figures.setdefault("lost", {}).setdefault(name, 0)
        figures["lost"][name] += 1
        table[row["arm"], row["trial"], row["topic"], row["partition"], row["cut_node"], name] += 1
        finding = _finding(row, name)
        if finding is not None:
            outcome.add(finding)
    for arm, figures in outcome.arms.items():
        lost_1 = figures.get("lost", {})
        figures["avoidable"] = lost_1.get("avoidable", 0)
        figures["avoidable_at_most"] = figures["avoidable"] + lost_1.get("edge", 0)
        figures["avoidable_share"] = _share(figures["avoidable"], figures.get("acked_1", 0))
        figures["clock_error_ms"] = round(history.run.clock_error_ns / 1e6, 4)
        if len(rows) >= _JUDGED:
            outcome.unknowns.append(f"{arm}: more than {_JUDGED} lost records: some unclassified")
    names = ("arm", "trial", "topic", "partition", "cut_node", "category")
    outcome.figures["loss"] = [dict(zip(names, k, strict=True), n=n) for k, n in table.items()]


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


def _with_cut(history: History, lost: DataFrame) -> list[Any]:
    """Each lost record with its operation and the truncation that took it, if one did."""
    if not lost.limit(1).count():
        return []
    lost = lost.select("arm", "trial", "value", "class", "final_offset").limit(_JUDGED)
    offers = history.frame("produce").where("type = 'ok' and acks != 0 and offset >= 0")
    ops = offers.join(lost, ["arm", "trial", "value"])
    low, high = _append_span(history)
    ops = ops.withColumn("append_from", low).withColumn("append_to", high)
    ops = ops.withColumnRenamed("node", "_node")
    taken = cuts(history)
    joined = ops.alias("o").join(
        taken.alias("c"),
        (F.col("o.arm") == F.col("c.arm"))
        & (F.col("o.trial") == F.col("c.trial"))
        & (F.col("o.topic") == F.col("c.topic"))
        & (F.col("o.partition") == F.col("c.partition"))
        & (F.col("o.offset") >= F.col("c.to_offset"))
        & (F.col("o.offset") < F.col("c.from_offset"))
        & (F.col("c.cut_t") >= F.col("o.append_from")),
        "left",
    )
    # The broker that acknowledged it, when known; else one that had led; of these the first.
    rank = (
        F.when(F.col("_node") == F.col("c.node"), 0)
        .when(F.col("c.led_epoch").isNotNull(), 1)
        .otherwise(2)
    )
    cut = F.struct(
        rank.alias("rank"),
        "c.cut_t",
        F.col("c.node").alias("node"),
        "c.cut_epoch",
        "c.led_epoch",
        "c.commit_t",
        "c.send_t",
    )
    names = ["arm", "trial", "value", "topic", "partition", "offset", "acks", "t", "invoke_t"]
    by_op = joined.groupBy(*[F.col(f"o.{n}") for n in names]).agg(
        F.min(F.when(F.col("c.cut_t").isNotNull(), cut)).alias("cut"),
        F.max("class").alias("class"),
        F.max("final_offset").alias("final_offset"),
        F.max("_node").alias("op_node"),
        F.max("append_from").alias("append_from"),
        F.max("append_to").alias("append_to"),
    )
    return by_op.select("*", F.col("cut.node").alias("cut_node")).orderBy("t").collect()


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
    if torn and (row["op_node"] is None or row["op_node"] in torn):
        return "damage"
    places = {n for *tp, n in unreadable if tuple(tp) == (*key, row["topic"], row["partition"])}
    if places and (row["op_node"] is None or row["op_node"] in places):
        return "stranded"  # its broker is still down: nothing had to be cut
    if key not in traced:
        return "untraced"
    return "unexplained"


def _timing(row: Any, cut: Any) -> str:
    commit_t, send_t = cut["commit_t"], cut["send_t"]
    if send_t is not None and row["append_from"] > send_t:
        return "avoidable"
    if commit_t is not None and row["append_to"] < commit_t:
        return "before_commit"
    if send_t is None:
        return "undated"
    return "between" if row["append_to"] <= send_t else "edge"


def _traced(history: History) -> set[tuple[str, int]]:
    """Trials whose brokers say when they truncate."""
    found: set[tuple[str, int]] = set()
    for kind in _TRACES:
        if history.has(kind):
            pairs = history.frame(kind).select("arm", "trial").distinct().collect()
            found |= {(r["arm"], r["trial"]) for r in pairs}
    return found


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
    cut_t = row["cut"]["cut_t"] if row["cut"] is not None else None
    picks = [
        Pick("produce", {**at, "value": row["value"]}, rows=1),
        Pick("leadership", at, from_t=row["invoke_t"]),
        Pick("log_read", {**at, "offset": row["offset"]}),
        Pick("log_end", {**at, "is_leader": True}, rows=1),
    ]
    if cut_t is not None:
        picks.append(Pick("truncation", {**at, "node": row["cut_node"]}, cut_t, cut_t, rows=1))
    return Finding(rule, says, row["arm"], row["trial"], tuple(picks))


# -- read and gone --------------------------------------------------------------------------------


def _judge_read(history: History, outcome: Outcome, known: Excuses) -> None:
    if not history.has("fetch"):
        return
    rows = disputes(history).where("class in ('gone', 'changed')")
    for row in rows.orderBy("first_read_t").limit(_JUDGED).collect():
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
