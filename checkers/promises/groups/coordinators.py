"""Coordinators: does every broker name the one that a group has, for `checkers.promises.groups`?

A group's coordinator is who leads its partition of ``__consumer_offsets``: by the hash of its id
(GroupMetadataManager.partitionFor). Clients ask any broker for it (FindCoordinator), which answers
from its metadata: so a live broker names the present one, in each answer, once all is calm and it
has had its time (`checkers.facts.calm`), and does not say that there is none
(COORDINATOR_NOT_AVAILABLE). A client that is sent to another is answered NOT_COORDINATOR there,
asks again, and its group stands still for as long as that lasts. Until then it may name one of the
past, or none, and never one that has not led that partition.

Lawful, and looks similar: a broker that has not heard of the last leader yet; a question that
nobody answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.calm import Debts
from checkers.facts.committed import State, committed
from checkers.facts.leadership import SHOWN
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.offices import OFFSETS_TOPIC, offices

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "coordinator-superseded"
NEVER: Final = "coordinator-never-led"
UNTOLD: Final = "coordinator-untold"
NAMED: Final = "coordinators named once all was calm"
_NONE: Final = 15
"""COORDINATOR_NOT_AVAILABLE."""
_COMMIT_NS: Final = 1_000_000_000
"""A watch may see a commit so late."""
_OWED: Final = "arm string, trial int, group string, node int, _owed bigint"


def coordinators(history: History, outcome: Outcome) -> Iterator[Finding]:
    if not history.has("coordinator"):
        return
    named = history.frame("coordinator").where("node is not null and group is not null")
    by = ["arm", "trial", "group", "node"]
    asked = named.groupBy(*by).agg(F.max("t").alias("last_t")).toArrow().to_pylist()
    ends: dict[tuple[str, int], int] = {}
    for row in asked:
        trial = (row["arm"], row["trial"])
        ends[trial] = max(row["last_t"], ends.get(trial, 0))
    yield from _never_led(history, {(row["arm"], row["trial"], row["group"]) for row in asked})
    debts, owed = Debts(history, ends), []
    leaders: dict[tuple[str, int, str], State] = {}
    for row in asked:
        group = (row["arm"], row["trial"], row["group"])
        state = _leader(history, *group)
        if state is None:
            continue
        leaders[group] = state
        since = debts.owed_from((*group[:2], row["node"]), state.t)
        if since is not None:
            owed.append({**{name: row[name] for name in by}, "_owed": since})
    if not owed:
        return
    present = history.table(
        [
            {**row, "_leader": leaders[row["arm"], row["trial"], row["group"]].row["leader"]}
            for row in owed
        ],
        f"{_OWED}, _leader int",
    )
    late = named.where(f"type = 'ok' or error = {_NONE}").join(F.broadcast(present), by)
    answer = F.struct("t", "coordinator")
    other = F.expr("type = 'ok' and coordinator != _leader")
    late = (
        late.where("invoke_t > _owed")
        .groupBy(*by)
        .agg(
            F.count("*").alias("n"),
            F.max_by(answer, F.when(other, F.col("t"))).alias(RULE),
            F.max_by(answer, F.when(F.col("error") == _NONE, F.col("t"))).alias(UNTOLD),
        )
    )
    for row in late.orderBy(*by).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], NAMED, row["n"])
        state = leaders[row["arm"], row["trial"], row["group"]]
        place = {name: state.row[name] for name in ("topic", "partition", "leader_epoch")}
        for rule, whom in ((RULE, "node {coordinator}"), (UNTOLD, "nobody")):
            if row[rule] is not None:
                yield Finding(
                    rule,
                    f"node {row['node']} names {whom.format(**row[rule])} as the coordinator of "
                    f"group {row['group']} once all is calm; node {state.row['leader']} has led "
                    f"{place['topic']}-{place['partition']} for long",
                    row["arm"],
                    row["trial"],
                    (
                        Pick("leadership", place, rows=1),
                        Pick("coordinator", {"node": row["node"], "t": row[rule]["t"]}, rows=1),
                    ),
                )


def _never_led(history: History, groups: set[tuple[str, int, str]]) -> Iterator[Finding]:
    """Of partitions of which anything was committed; by then, as far as clocks go. Of a black box
    nobody knows who led before it was shown."""
    led: dict[tuple[str, int, str], dict[int, int]] = {}
    for group in sorted(groups):
        of = led.setdefault(group, {})
        for state in offices(history).of(*group):
            leader, t = state.row["leader"], state.t - (state.row["error_ns"] or 0) - _COMMIT_NS
            if leader is not None and state.row["source"] != SHOWN:
                of[leader] = min(t, of.get(leader, t))
    named = history.frame("coordinator").where("type = 'ok' and coordinator >= 0")
    by = ["arm", "trial", "group", "node", "coordinator"]
    rows = named.where("node is not null").groupBy(*by).agg(F.min("t").alias("t"))
    for row in rows.orderBy(*by).toArrow().to_pylist():
        known = led.get((row["arm"], row["trial"], row["group"]))
        if not known or known.get(row["coordinator"], row["t"] + 1) <= row["t"]:
            continue
        yield Finding(
            NEVER,
            f"node {row['node']} named node {row['coordinator']} as the coordinator of group "
            f"{row['group']}, whose partition that had not led",
            row["arm"],
            row["trial"],
            (Pick("coordinator", {"node": row["node"], "t": row["t"]}, rows=1),),
        )


def partitions_of_groups(history: History, arm: str, trial: int) -> int:
    """How many partitions groups are kept in, by what was committed; 1 where nothing was."""
    return max((key[3] for key in committed(history) if _is_its(key, arm, trial)), default=0) + 1


def _leader(history: History, arm: str, trial: int, group: str) -> State | None:
    """The last that was committed of the group's partition, if it has a leader."""
    states = offices(history).of(arm, trial, group)
    leads = states[-1].row["leader"] if states else None
    return states[-1] if leads is not None and leads >= 0 else None


def _is_its(key: tuple[str, int, str, int], arm: str, trial: int) -> bool:
    return key[:3] == (arm, trial, OFFSETS_TOPIC)
