"""Kept groups: positions of groups without members, groups that were deleted, and positions whose
time is over, for `checkers.promises.groups`.

Who has no members keeps its positions like any other group, and who deletes it (DeleteGroups,
KIP-229) deletes them: the coordinator writes a tombstone, and nobody who coordinates the group
afterwards may know them any more.

- ``kept-offset-lost``: asked for a position that it had acknowledged, whose group nobody had tried
  to delete and whose time was not over, the coordinator has another, or none; or, who is the first
  that is to delete something of it, that there is no such group;
- ``deleted-group-back``: the coordinator tells of a position of a group whose deletion was
  acknowledged `SURE_NS` before, or longer;
- ``deleted-position-back``: the same of a position that was deleted without its group
  (OffsetDelete, KIP-496); a group's other positions stay (``kept-offset-lost``);
- ``expired-offset-kept``: once all is calm (`checkers.facts.calm`) the coordinator tells of a
  position whose time, which its commit had named, was over before coordinators last looked for such
  (GroupMetadata.removeExpiredOffsets, every ``offsets.retention.check.interval.ms``);
- ``expired-offset-back``: whoever leads the group's partition tells of a position of which an
  earlier leader had told, its time being over, that there is none: it was removed from memory, and
  is still in the log.

Lawful, and looks similar: who tells of less than it has read as it begins (`positions_told_late`);
the tombstone is not waited for. So the group (or the position) may be back with the next
coordinator, where the one that deleted it died before its followers had that (`DEATH_NS`; a fault
may keep them from it for as long), or its partition of ``__consumer_offsets`` was just given to
another (`MOVED_NS`, or as long as a fault was in place that kept them from it), of which it need
not have heard (seen on Apache Kafka 3.9.2). A commit of which nobody heard may come late. Who
coordinates a group no more fails what it had written of it and what its followers had not
(NOT_COORDINATOR; CoordinatorRuntime of Kafka 4): such a deletion may have been done, where another
was committed as the leader meanwhile; excused, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.offices import Offices, offices, told_late

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

ASKED: Final = "positions of groups without members asked for"
GONE: Final = "deleted groups and positions asked for"
EXPIRED: Final = "positions asked for after their time"
LOST, BACK, STALE = "kept-offset-lost", "deleted-group-back", "expired-offset-kept"
CLEARED: Final = "deleted-position-back"
EXPIRED_BACK: Final = "expired-offset-back"
CHECK_INTERVAL: Final = "offsets.retention.check.interval.ms"
_CHECK_INTERVAL_MS: Final = 600_000
"""Kafka's default."""
_NO_GROUP: Final = 69
"""GROUP_ID_NOT_FOUND."""
_MS: Final = 1_000_000
_SENT_AWAY: Final = (14, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR: nothing was done, but see `_given_away`."""
AT_ONCE_NS: Final = 20 * _MS
"""Who says later than that that it does not coordinate the group, and did before, may have written
it, and lost its partition as it waited for its followers."""
_ROUNDED_NS: Final = 10 * _MS
"""Coordinators count milliseconds, by the wall clock."""
SURE_NS: Final = 2_000_000_000
"""Who is asked so much later knows of it."""
DEATH_NS: Final = 4_000_000_000
MOVED_NS: Final = 1_000_000_000
_BY: Final = ["arm", "trial", "group"]
_TOLD: Final = 20
"""Of a group, so many that tell of what had been over are looked at."""
Row = Mapping[str, Any]


def kept_groups(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("group is not null and step is not null")
    ok = F.col("type") == "ok"
    commits, deletes = F.col("step") == "commit", F.col("step").isin("delete", "clear")
    served = steps.where(ok).groupBy(*_BY, "node").agg(F.min("t").alias("_served_t"))
    steps = steps.join(served, [*_BY, "node"], "left")
    late = F.col("t") - F.col("invoke_t") > AT_ONCE_NS
    written = (F.col("error") == _SENT_AWAY[1]) & (F.col("_served_t") <= F.col("invoke_t")) & late
    sent_away = F.coalesce(F.col("error").isin(*_SENT_AWAY), F.lit(False))
    lives = steps.groupBy(*_BY).agg(
        F.min(F.when(commits & ok, F.col("t"))).alias("kept_t"),
        F.max(F.when(commits & ok, F.col("offset"))).alias("kept"),
        F.min(F.when(commits, F.col("invoke_t") + F.col("keep_ms") * _MS)).alias("until_t"),
        F.max(F.when(commits, F.col("t") + F.col("keep_ms") * _MS)).alias("over_t"),
        F.count(F.when(commits & (F.col("type") == "info"), 1)).alias("vague"),
        F.min(F.when(deletes & ~sent_away, F.col("invoke_t"))).alias("tried_t"),
        F.min(F.when(deletes & written, F.struct("invoke_t", "t", "node"))).alias("refused"),
        F.min(F.when(deletes & ok, F.col("t"))).alias("gone_t"),
        F.min_by("node", F.when(deletes & ok, F.col("t"))).alias("by"),
        F.min_by("step", F.when(deletes & ok, F.col("t"))).alias("how"),
    )
    no_group = f"error = {_NO_GROUP} and step in ('spare', 'clear', 'delete')"
    told = steps.where(f"(type = 'ok' and step = 'ask') or ({no_group})").join(lives, _BY)
    told = told.withColumn("offset", F.when(F.expr(no_group), -1).otherwise(F.col("offset")))
    told = told.join(F.broadcast(when_calm(history)), ["arm", "trial"], "left")
    asked = "step = 'ask' and invoke_t > kept_t and tried_t is null and vague = 0"
    over = F.expr(f"{asked} and t > until_t - {_ROUNDED_NS}")
    none = F.min(F.when(over & (F.col("offset") < 0), F.struct("t", "node")))
    told = told.withColumn("none", none.over(Window.partitionBy(*_BY)))
    is_kept = F.expr(
        "invoke_t > kept_t and (invoke_t = tried_t or t < coalesce(tried_t, t + 1)) and vague = 0 "
        f"and t < coalesce(until_t - {_ROUNDED_NS}, t + 1)"
    )
    is_gone = F.expr(f"invoke_t > gone_t + {SURE_NS} and vague = 0")
    owed = "over_t is not null and invoke_t > greatest(over_t + looked_ns, healed_t) + needed_ns"
    is_over = F.expr(f"{owed} and vague = 0")
    lost, tells = is_kept & (F.col("offset") != F.col("kept")), F.col("offset") >= 0

    def first(wrong: Column) -> Column:
        return F.min(F.when(wrong, F.struct("t", "node", "offset")))

    again = over & (F.col("offset") >= 0) & (F.col("invoke_t") > F.col("none.t"))
    those = F.sort_array(F.collect_list(F.when(again, F.struct("t", "node", "offset", "invoke_t"))))
    surely = lost & F.expr("refused is null or t < refused.invoke_t")
    lives_of = ("kept", "gone_t", "by", "how", "refused", "over_t", "none")
    found = told.groupBy(*_BY, *lives_of).agg(
        F.count(F.when(is_kept, 1)).alias("kept_n"),
        F.count(F.when(is_gone, 1)).alias("gone_n"),
        F.count(F.when(is_over, 1)).alias("over_n"),
        first(lost).alias(LOST),
        F.count(F.when(lost, 1)).alias("lost_n"),
        F.count(F.when(surely, 1)).alias("surely_n"),
        first(is_gone & tells).alias(BACK),
        first(is_over & tells).alias(STALE),
        F.count(F.when(F.expr("invoke_t > none.t"), 1)).alias("none_n"),
        F.slice(those, 1, _TOLD).alias("again"),
    )
    judge = partial(_of_group, offices(history), told_late(history))
    yield from in_courses(outcome, found, _BY, (), judge)


def _of_group(
    offices: Offices, late: frozenset[str], rows: list[Row], outcome: Outcome
) -> Iterator[Finding]:
    (row,) = rows
    outcome.saw(row["arm"], row["trial"], ASKED, row["kept_n"])
    if row["gone_n"] and not was_replaced(offices, row, row["by"], row["gone_t"]):
        outcome.saw(row["arm"], row["trial"], GONE, row["gone_n"])
        if row[BACK] is not None:
            yield _finding(CLEARED if row["how"] == "clear" else BACK, row)
    outcome.saw(row["arm"], row["trial"], EXPIRED, max(row["over_n"], row["none_n"]))
    if row[LOST] is not None:
        if row["surely_n"] or not _given_away(offices, row):
            yield _finding(LOST, row)
        else:
            outcome.excuse(row["arm"], row["trial"], LOST, "given-away", of=ASKED, n=row["lost_n"])
    if row[STALE] is not None:
        yield _finding(STALE, row)
    elif row["again"] and _held(offices, row) and row["arm"] not in late:
        led = [one for one in row["again"] if _leads(offices, row, one)]
        if led:
            yield _finding(EXPIRED_BACK, {**row, EXPIRED_BACK: led[0]})


def when_calm(history: History) -> DataFrame:
    """From when on coordinators owe the truth, and how often they look for what is over: arm,
    trial, healed_t, needed_ns, looked_ns."""
    looked_ns = int(history.run.brokers.get(CHECK_INTERVAL, _CHECK_INTERVAL_MS)) * _MS
    rows = [
        {
            **{"arm": arm, "trial": trial, "looked_ns": looked_ns},
            **{"healed_t": of.healed_t, "needed_ns": of.needed_ns},
        }
        for (arm, trial), of in calm(history).items()
    ]
    names = "looked_ns bigint, healed_t bigint, needed_ns bigint"
    return history.table(rows, f"arm string, trial int, {names}")


def _given_away(offices: Offices, row: Row) -> bool:
    """Whether another was committed as the leader of the group's partition while who refused the
    deletion, late, may have waited for its followers."""
    refused = row["refused"]
    return refused is not None and any(
        refused["invoke_t"] - MOVED_NS <= state.t <= refused["t"] + MOVED_NS
        for state in offices.of(row["arm"], row["trial"], row["group"])
        if state.row["leader"] != refused["node"]
    )


def _leads(offices: Offices, row: Row, told: Row) -> bool:
    """Whether who told it led the group's partition as it was asked, and when it answered."""
    states = offices.of(row["arm"], row["trial"], row["group"])
    before = [state.row["leader"] for state in states if state.t <= told["invoke_t"]][-1:]
    during = [s.row["leader"] for s in states if told["invoke_t"] < s.t <= told["t"]]
    return bool(before) and {*before, *during} == {told["node"]}


def _held(offices: Offices, row: Row) -> bool:
    """Whether who told that a position is gone had that in the log of a partition that it led, and
    went on to: whatever is in that, its successor has."""
    by, gone_t = row["none"]["node"], row["none"]["t"]
    states = offices.of(row["arm"], row["trial"], row["group"])
    led = next((state for state in reversed(states) if state.t <= gone_t), None)
    return (
        led is not None
        and led.row["leader"] == by
        and not _ended(offices, row, by, gone_t)
        and not any(abs(s.t - gone_t) < MOVED_NS and s.row["leader"] != by for s in states)
    )


def _ended(offices: Offices, row: Row, by: int, gone_t: int) -> bool:
    ends = offices.ends.get((row["arm"], row["trial"], by), ())
    return any(-MOVED_NS < t - gone_t < DEATH_NS for t in ends)


def was_replaced(offices: Offices, row: Row, by: int, gone_t: int) -> bool:
    """Whether who did it, ``by``, to the row's group may have died, or lost its partition, before
    others had that; or nobody knows whose partition it was."""
    arm, trial = row["arm"], row["trial"]
    if _ended(offices, row, by, gone_t):
        return True
    states = offices.of(arm, trial, row["group"])
    led = next((state for state in reversed(states) if state.t <= gone_t), None)
    if led is None or led.row["leader"] != by:
        return True  # it had not heard yet that another coordinates the group
    # As long as a fault is in place that concerns it, it may have kept that from its followers.
    spans = offices.troubles.get((arm, trial, by), ())
    held = [to_t for from_t, to_t in spans if from_t - MOVED_NS < gone_t <= to_t]
    until_t = max([gone_t, *held]) + MOVED_NS
    return any(gone_t - MOVED_NS < state.t < until_t for state in states)


def _finding(rule: str, row: Row) -> Finding:
    one = row[BACK if rule == CLEARED else rule]
    after = {
        BACK: "whose deletion had been acknowledged before",
        CLEARED: "whose deletion had been acknowledged before",
        LOST: f"for which {row['kept']} had been acknowledged",
        STALE: "whose time was over before coordinators last looked",
        EXPIRED_BACK: "whose time was over, and which there had been none of for an earlier one",
    }[rule]
    group = {"group": row["group"]}
    return Finding(
        rule,
        f"node {one['node']} told offset {one['offset']} of group {row['group']}, {after}",
        row["arm"],
        row["trial"],
        (
            Pick("group_step", {**group, "step": "commit", "type": "ok"}, rows=1),
            Pick("group_step", {**group, "step": row["how"] or "delete", "type": "ok"}, rows=1),
            Pick("group_step", {**group, "node": one["node"], "t": one["t"]}, rows=1),
        ),
    )
