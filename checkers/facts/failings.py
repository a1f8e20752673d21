"""Brokers that failed a client, by their own answers.

UNKNOWN_SERVER_ERROR and KAFKA_STORAGE_ERROR refuse nothing: the broker could not do what it was
asked for (KafkaApis.handleError). Once the harness has broken that broker's disk it may be the
harness's doing; before, and else, nobody can say whose. What an operator asks for is left out: it
fails so as ZooKeeper is away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from checkers.history.frames import History

_BREAKERS: Final = frozenset({"disk-full", "wipe-disk", "torn-tail"})
_FAILED: Final = (-1, 56)
_ASKED: Final = (
    *("produce", "fetch", "metadata", "listed_offset", "epoch_end", "read_below"),
    *("records_deleted", "commit", "committed", "group_step", "coordinator"),
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
    """Of one kind and error, in words. ``broken``: the harness had broken that disk by then."""

    trial: tuple[str, int]
    says: str
    broken: bool


def failed_clients(history: History) -> Iterator[Failing]:
    table = F.broadcast(
        history.table(
            _broken_since(broken_disks(history)),
            "arm string, trial int, named map<int, bigint>, unnamed bigint, first bigint",
        )
    )
    by = ["arm", "trial", "error", "broken"]
    node = F.col("node")
    since = F.when(node.isNull(), F.col("first")).otherwise(
        F.least(F.element_at("named", node), F.col("unnamed"))
    )
    broken = F.coalesce(F.col("t") >= since, F.lit(False))
    for kind in filter(history.has, _ASKED):
        rows = history.frame(kind).where(F.col("error").isin(*_FAILED))
        rows = rows.join(table, ["arm", "trial"], "left").withColumn("broken", broken)
        counted = rows.groupBy(*by).count().toArrow().to_pylist()
        for row in sorted(counted, key=lambda r: [r[name] for name in by]):
            says = f"{row['count']} of {kind} were answered with error {row['error']}"
            yield Failing((row["arm"], row["trial"]), says, row["broken"])


def _broken_since(disks: Iterable[BrokenDisk]) -> list[dict[str, Any]]:
    """By trial, when (ns) the harness first began to break whose disk."""
    since: dict[tuple[str, int], dict[int | None, int]] = {}
    for disk in disks:
        of = since.setdefault(disk.trial, {})
        for node in disk.nodes or {None}:
            of[node] = min(disk.t, of.get(node, disk.t))
    return [
        {
            "arm": arm,
            "trial": trial,
            "named": {node: t for node, t in of.items() if node is not None},
            "unnamed": of.get(None),
            "first": min(of.values()),
        }
        for (arm, trial), of in since.items()
    ]
