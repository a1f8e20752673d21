"""Brokers that failed a client, by their own answers.

UNKNOWN_SERVER_ERROR and KAFKA_STORAGE_ERROR refuse nothing: the broker could not do what it was
asked for (KafkaApis.handleError). Once the harness has broken that broker's disk it may be the
harness's doing; before, and else, nobody can say whose. What an operator asks for is left out: it
fails so as ZooKeeper is away.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

from checkers.facts.unions import named as named_kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_BREAKERS: Final = frozenset({"disk-full", "wipe-disk", "torn-tail", "fail-disk"})
UNKNOWN_SERVER_ERROR: Final = -1
_FAILED: Final = (UNKNOWN_SERVER_ERROR, 56)
_ASKED: Final = (
    *("produce", "fetch", "metadata", "listed_offset", "epoch_end", "read_below", "read_at"),
    *("records_deleted", "commit", "committed", "group_step", "coordinator", "repeated"),
)


class BrokenDisk(NamedTuple):
    """By a fault, from `t` (ns) on. ``nodes``: whose; none named: anybody's."""

    trial: tuple[str, int]
    nodes: frozenset[int]
    t: int

    def may_fail(self, trial: tuple[str, int], node: int | None, t: int) -> bool:
        """None: a broker that whoever asked it could not name."""
        ours = node is None or not self.nodes or node in self.nodes
        return self.trial == trial and ours and self.t <= t


def broken_disks(history: History) -> list[BrokenDisk]:
    return [
        BrokenDisk((row["arm"], row["trial"]), frozenset(row["nodes"] or ()), row["t"])
        for row in history.rows("fault")
        if row["fault"] in _BREAKERS
    ]


class Failing(NamedTuple):
    """``n`` answers of one kind and error. ``broken``: the harness had broken that disk by then."""

    trial: tuple[str, int]
    kind: str
    error: int
    n: int
    broken: bool

    @property
    def says(self) -> str:
        return f"{self.n} of {self.kind} were answered with error {self.error}"


def failed_clients(history: History) -> list[Failing]:
    """Counted once a history."""
    found: list[Failing] = history.memo("failed clients", lambda: list(_failed(history)))
    return found


def _failed(history: History) -> Iterator[Failing]:
    asked = [
        history.frame(kind)
        .where(F.col("error").isin(*_FAILED))
        .select("arm", "trial", "node", "error", "t", named_kind(kind))
        for kind in _ASKED
        if history.has(kind)
    ]
    if not asked:
        return
    named, any_of = _broken_since(history)
    since = F.when(F.col("node").isNull(), F.col("first_t"))
    since = since.otherwise(F.least("named_t", "unnamed_t"))
    broken = F.coalesce(F.col("t") >= since, F.lit(False))
    rows = functools.reduce(lambda one, other: one.unionAll(other), asked)
    rows = rows.join(F.broadcast(named), ["arm", "trial", "node"], "left")
    rows = rows.join(F.broadcast(any_of), ["arm", "trial"], "left").withColumn("broken", broken)
    by = ("arm", "trial", "kind", "error", "broken")
    for row in rows.groupBy(*by).count().orderBy(*by).toArrow().to_pylist():
        key = (row["arm"], row["trial"])
        yield Failing(key, row["kind"], row["error"], row["count"], row["broken"])


def _broken_since(history: History) -> tuple[DataFrame, DataFrame]:
    """When (ns) the harness first began to break a disk: arm, trial, node, named_t; and arm, trial,
    unnamed_t (of a fault that names nobody), first_t (of any)."""
    named: dict[tuple[str, int, int], int] = {}
    unnamed: dict[tuple[str, int], int] = {}
    first: dict[tuple[str, int], int] = {}
    for trial, nodes, t in sorted(broken_disks(history), key=lambda disk: disk.t):
        first.setdefault(trial, t)
        if not nodes:
            unnamed.setdefault(trial, t)
        for node in nodes:
            named.setdefault((*trial, node), t)
    return (
        history.table(
            [
                {"arm": a, "trial": i, "node": node, "named_t": t}
                for (a, i, node), t in named.items()
            ],
            "arm string, trial int, node int, named_t bigint",
        ),
        history.table(
            [
                {"arm": a, "trial": i, "unnamed_t": unnamed.get((a, i)), "first_t": t}
                for (a, i), t in first.items()
            ],
            "arm string, trial int, unnamed_t bigint, first_t bigint",
        ),
    )
