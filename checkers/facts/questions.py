"""Clients that ask several things in turn, and what of it they asked, and of whom.

Such a client goes round: its questions are of different sorts, each broker is asked all of them,
and each time about every partition that it is for. Nobody counts its successes by topic or broker
(`checkers.facts.clients`), and what a whole sort of its questions would have shown nobody misses
when that is not there: so a sort that is nowhere, a broker or a partition that was left out are
told here. A reader of metadata asks of all of its topics at once, whether they are there or not,
and writes down what each answer says of each (`harness.workload.metadata_reader`): where that says
nothing of a topic, what brokers show of it, or no more, is not all there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_TOLD: Final = "type = 'ok'"
_ANSWERED: Final = "error is not null"
_NO_COORDINATOR: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sort:
    """Questions of a kind of rows. ``which``: those that had the answer that shows something;
    ``later``: they can be asked only once a leader epoch after the first is known."""

    says: str
    kind: str
    which: str
    later: bool = False


SORTS: Final[Mapping[str, tuple[_Sort, ...]]] = {
    "offset-reader": (
        _Sort(
            says="where logs end",
            kind="listed_offset",
            which=f"{_TOLD} and asked_ms = -1 and believed_epoch < 0",
        ),
        _Sort(says="where logs begin", kind="listed_offset", which=f"{_TOLD} and asked_ms = -2"),
        _Sort(
            says="where records of a time are",
            kind="listed_offset",
            which=f"{_TOLD} and asked_ms >= 0",
        ),
        _Sort(
            says="anything, as one who believes in another leader epoch",
            kind="listed_offset",
            which=f"{_ANSWERED} and believed_epoch >= 0",
        ),
        _Sort(says="for what is at the end", kind="read_at", which=_TOLD),
        _Sort(says="where leader epochs end", kind="epoch_end", which=_TOLD, later=True),
    ),
    "group-keeper": (
        _Sort(says="to keep a position", kind="group_step", which=f"{_TOLD} and step = 'commit'"),
        _Sort(says="for a position", kind="group_step", which=f"{_TOLD} and step = 'ask'"),
        _Sort(says="to delete a group", kind="group_step", which=f"{_TOLD} and step = 'delete'"),
        _Sort(
            says="to join a group",
            kind="group_step",
            which=f"{_ANSWERED} and error <> {_NO_COORDINATOR} and step = 'join'",
        ),
        _Sort(says="who is in a group", kind="group_step", which=f"{_TOLD} and step = 'look'"),
        _Sort(says="to delete a position", kind="group_step", which=f"{_TOLD} and step = 'clear'"),
    ),
    "group-riser": (
        _Sort(says="to raise a position", kind="group_step", which=f"{_TOLD} and step = 'raise'"),
        _Sort(says="for that position", kind="group_step", which=f"{_TOLD} and step = 'see'"),
    ),
    "group-stranger": (
        _Sort(says="to keep a position", kind="commit", which=_ANSWERED),
        _Sort(says="for a position", kind="committed", which=_TOLD),
        _Sort(says="who coordinates its group", kind="coordinator", which=_TOLD),
    ),
    # Whether it is answered is for `checkers.promises.administration`: older releases know less.
    "refused-asker": tuple(
        _Sort(says=f"for {what}", kind="admin_request", which=f"api = '{api}'")
        for what, api in (
            ("topics that cannot be made", "CREATE_TOPICS"),
            ("the end of no topic", "DELETE_TOPICS"),
            ("fewer partitions", "CREATE_PARTITIONS"),
            ("moves that cannot be made", "ALTER_PARTITION_REASSIGNMENTS"),
            ("elections for no partition", "ELECT_LEADERS"),
            ("settings that there are not", "INCREMENTAL_ALTER_CONFIGS"),
            ("what nobody can read", "DELETE_RECORDS"),
        )
    ),
    "record-deleter": (
        _Sort(says="where logs begin", kind="listed_offset", which=f"{_TOLD} and asked_ms = -2"),
        _Sort(says="to delete records", kind="records_deleted", which=_TOLD),
    ),
}
"""By role: what a client of it asks in turn, as long as the load goes on."""
_OF_ALL: Final = ("listed_offset",)
"""Asked about every partition of a topic each time."""
_BY: Final = ("arm", "trial", "kind", "process", "node", "topic", "partition")
READER: Final = "metadata-reader"
_LAST: Final = 1
"""So many answers may have been written down in part: the last one, as the reader ended."""
_LONG_NS: Final = 4_000_000_000
"""Within so long each broker is asked everything, several times."""
Trial = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Of one client, broker and partition. ``sorts``: how many questions there are of each sort of
    its role; ``later_t``: when it first heard of a later leader epoch (ns)."""

    kind: str
    node: int | None
    topic: str | None
    partition: int | None
    sorts: Mapping[str, int]
    first_t: int
    last_t: int
    later_t: int | None


def left_out(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: what clients of these roles never asked, or whom, or about what. Of
    trials whose clients run.json names; one that left no row is told elsewhere."""
    asked = _asked(history)
    found = []
    for key, workloads in history.run.workloads.items():
        ready = {r["node"] for r in rows_of(history, "node_event", key) if r["event"] == "ready"}
        for workload in workloads:
            rows = asked.get((*key, workload.process), [])
            if not rows or workload.role not in SORTS:
                continue
            lacks = (*_no_sort(workload.role, rows), *_no_broker(rows, ready), *_in_part(rows))
            found += [(key, f"{workload.process} ({workload.role}): {why}") for why in lacks]
    return sorted([*found, *_unread(history)])


def _unread(history: History) -> Iterator[tuple[Trial, str]]:
    """Topics of a reader of metadata of which answers that it had say nothing."""
    if not history.has("metadata"):
        return
    of = ("arm", "trial", "process")
    told = history.frame("metadata").where("topic is not null").groupBy(*of, "topic", "read")
    counted = told.count().groupBy(*of, "topic").agg(F.count("*").alias("n"))
    answers: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in counted.toArrow().to_pylist():
        answers.setdefault(tuple(row[name] for name in of), {})[row["topic"]] = row["n"]
    for key, workloads in history.run.workloads.items():
        for workload in workloads:
            known = answers.get((*key, workload.process))
            if workload.role != READER or known is None:
                continue
            most, who = max(known.values()), f"{workload.process} ({READER})"
            for topic in sorted(workload.topics):
                lacking = most - known.get(topic, 0)
                if lacking == most:
                    yield key, f"{who}: nobody told it of topic {topic}"
                elif lacking > _LAST:
                    yield key, f"{who}: {lacking} of {most} answers say nothing of topic {topic}"


def _no_sort(role: str, rows: list[_Asked]) -> Iterator[str]:
    begun, ended = min(one.first_t for one in rows), max(one.last_t for one in rows)
    later = min((one.later_t for one in rows if one.later_t is not None), default=None)
    for sort in SORTS[role]:
        from_t = later if sort.later else begun
        if from_t is None or ended - from_t < _LONG_NS:
            continue
        if not any(one.sorts.get(sort.says) for one in rows):
            yield f"nobody answered it when it asked {sort.says}"


def _no_broker(rows: list[_Asked], ready: set[int]) -> Iterator[str]:
    """Whom it never asked at all, or nothing of a kind for as long as it asked it other things."""
    whom = {one.node for one in rows} - {None}
    if whom and max(one.last_t for one in rows) - min(one.first_t for one in rows) >= _LONG_NS:
        for node in sorted(ready - whom):
            yield f"it never asked node {node}, or was answered by errors alone"
    for kind in sorted({one.kind for one in rows}):
        of = [one for one in rows if one.kind == kind and one.node is not None]
        for node in sorted(ready & whom - {one.node for one in of}) if of else ():
            begun = max(min(one.first_t for one in some) for some in (of, _at(rows, node)))
            ended = min(max(one.last_t for one in some) for some in (of, _at(rows, node)))
            if ended - begun >= _LONG_NS:
                yield f"it never asked node {node} ({kind}), which it asked other things"


def _at(rows: list[_Asked], node: int) -> list[_Asked]:
    return [one for one in rows if one.node == node]


def _in_part(rows: list[_Asked]) -> Iterator[str]:
    """What was asked of a topic, it was asked of as many partitions as of that by others."""
    of: dict[tuple[str, str], dict[int | None, set[int]]] = {}
    for one in rows:
        if one.kind in _OF_ALL and one.topic is not None and one.partition is not None:
            of.setdefault((one.kind, one.topic), {}).setdefault(one.node, set()).add(one.partition)
    for (_, topic), by_node in sorted(of.items()):
        numbers = set[int]().union(*by_node.values())
        for before, after in pairwise(sorted({-1, *numbers})):
            if after - before > 1:
                more = "" if after - before == 2 else f" to {topic}-{after - 1}"
                yield f"it never asked about {topic}-{before + 1}{more}"
        for node, mine in sorted(by_node.items(), key=str):
            for partition in sorted(numbers - mine):
                yield f"it never asked node {node} about {topic}-{partition}"


def _asked(history: History) -> dict[tuple[str, int, str], list[_Asked]]:
    sorts: dict[str, dict[str, str]] = {}
    for of in SORTS.values():
        for sort in of:
            sorts.setdefault(sort.kind, {})[f"{sort.says}|{sort.which}"] = sort.which
    kinds = [kind for kind in sorts if history.has(kind)]
    found: dict[tuple[str, int, str], list[_Asked]] = {}
    if not kinds:
        return found
    frames = [_sums(history, kind, sorts[kind]) for kind in kinds]
    rows = functools.reduce(lambda one, other: one.unionByName(other), frames)
    for row in rows.toArrow().to_pylist():
        names = [name.partition("|")[0] for name in sorts[row["kind"]]]
        counts: dict[str, int] = {}
        for name, n in zip(names, row["counts"], strict=True):
            counts[name] = max(n, counts.get(name, 0))
        found.setdefault((row["arm"], row["trial"], row["process"]), []).append(
            _Asked(
                kind=row["kind"],
                node=row["node"],
                topic=row["topic"],
                partition=row["partition"],
                sorts=counts,
                first_t=row["first_t"],
                last_t=row["last_t"],
                later_t=row["later_t"],
            )
        )
    return found


def _sums(history: History, kind: str, sorts: Mapping[str, str]) -> DataFrame:
    frame = history.frame(kind)
    for name, of in (("topic", "string"), ("partition", "int")):
        if name not in frame.columns:
            frame = frame.withColumn(name, F.lit(None).cast(of))
    later = F.expr("type = 'ok' and leader_epoch > 0") if kind == "listed_offset" else F.lit(False)
    return frame.groupBy(*_BY[:2], F.lit(kind).alias("kind"), *_BY[3:]).agg(
        F.array(*(F.count(F.when(F.expr(which), 1)) for which in sorts.values())).alias("counts"),
        F.min("invoke_t").alias("first_t"),
        F.max("invoke_t").alias("last_t"),
        F.min(F.when(later, F.col("t"))).alias("later_t"),
    )
