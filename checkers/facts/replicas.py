"""Every replica's log at the final read, beside its leader's: what is compared, and up to where.

Records below a high watermark are committed: every replica of the in-sync set has them. What is
known of it at the end, from the one to the other that errs to neither side:

    committed_to   the highest of: the final leader's high watermark, what consumers had read, what
                   was acknowledged with acks=all; but no further than the leader's log goes
    bound          up to where a replica must agree: an in-sync one (by the last committed set) up
                   to ``committed_to``; any other up to the lower of its own high watermark and the
                   leader's, since a follower that has not yet truncated may differ beyond

The span begins at the leader's log start, not at the replica's: a replica that has lost its head
has lost records. And at 0 where nothing may have moved the leader's, whatever it says
(`checkers.facts.accounts.lawful_start`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import final_leaders, lawful_start
from checkers.facts.leadership import SHOWN, TP, Key, key_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica as the final read found it. Offsets; ``in_sync``: of the last committed set."""

    key: Key
    node: int
    leader_node: int
    in_sync: bool
    start: int
    end: int | None
    high_watermark: int | None
    leader_start: int
    committed_to: int
    bound: int
    error: str | None = None
    """Why it could not be read."""

    @property
    def is_leader(self) -> bool:
        return self.node == self.leader_node


def replicas(history: History) -> list[Replica]:
    """All of partitions whose leader's log was read; gathered once a history."""
    found: list[Replica] = history.memo("replicas", lambda: _gather(history))
    return found


def compared(history: History) -> DataFrame:
    """`log_read` rows of readable replicas with ``leader_node``, ``leader_start`` and ``bound``."""
    rows = [
        {
            **dict(zip(TP, one.key, strict=True)),
            "node": one.node,
            "leader_node": one.leader_node,
            "leader_start": one.leader_start,
            "bound": one.bound,
        }
        for one in replicas(history)
        if one.error is None
    ]
    table = history.table(
        rows,
        "arm string, trial int, topic string, partition int, node int, leader_node int, "
        "leader_start bigint, bound bigint",
    )
    return history.frame("log_read").join(F.broadcast(table), [*TP, "node"])


def proved(history: History) -> dict[Key, dict[str, tuple[int, Any]]]:
    """Who proved that records were committed: ``read`` and ``acked``, each the highest offset and
    the row's value there. Gathered once a history."""
    found: dict[Key, dict[str, tuple[int, Any]]] = history.memo("proved", lambda: _proved(history))
    return found


def _proved(history: History) -> dict[Key, dict[str, tuple[int, Any]]]:
    found: dict[Key, dict[str, tuple[int, Any]]] = {}
    sources = {
        "read": ("fetch", "type = 'ok' and offset >= 0 and topic is not null"),
        "acked": ("produce", "type = 'ok' and acks = -1 and offset >= 0"),
    }
    highest = [
        history.frame(kind)
        .where(condition)
        .groupBy(*TP, F.lit(name).alias("name"))
        .agg(F.max("offset").alias("n"), F.max_by("value", "offset").alias("value"))
        for name, (kind, condition) in sources.items()
        if history.has(kind)
    ]
    if highest:
        for row in functools.reduce(lambda a, b: a.unionAll(b), highest).toArrow().to_pylist():
            found.setdefault(key_of(row), {})[row["name"]] = (row["n"], row["value"])
    return found


def last_isrs(history: History) -> dict[Key, frozenset[int]]:
    """The in-sync set that was committed last, by partition; in the store's order of writes. Of a
    black box, what its brokers showed at rest."""
    newest: dict[Key, Mapping[str, Any]] = {}
    for row in history.rows("leadership"):
        before = newest.get(key_of(row))
        if before is None or _written(before) <= _written(row):
            newest[key_of(row)] = row
    at_rest = {
        key_of(row): row["isr"] for row in history.rows("final_state") if row["what"] == "partition"
    }
    return {
        key: frozenset((at_rest.get(key) if row["source"] == SHOWN else row["isr"]) or ())
        for key, row in newest.items()
    }


def _written(row: Mapping[str, Any]) -> tuple[int, int]:
    """Partition epochs begin anew with a topic; the time is what tells two lives apart."""
    return (row["commit_ms"] or 0, row["partition_epoch"] or 0)


def _gather(history: History) -> list[Replica]:
    leaders, known, isrs = final_leaders(history), proved(history), last_isrs(history)
    found = []
    for row in history.rows("log_end"):
        key = key_of(row)
        if key in leaders:
            in_sync = row["node"] in isrs.get(key, frozenset())
            start = lawful_start(history, leaders[key])
            found.append(_replica(row, leaders[key], start, known.get(key, {}), in_sync))
    return found


_NONE: Final = (-1, None)


def _replica(
    row: Mapping[str, Any],
    leader: Mapping[str, Any],
    leader_start: int,
    known: Mapping[str, tuple[int, Any]],
    in_sync: bool,
) -> Replica:
    end = leader["log_end_offset"]
    hw = end if leader["high_watermark"] is None else leader["high_watermark"]
    highest = max(known.get(name, _NONE)[0] for name in ("read", "acked"))
    committed_to = min(max(hw, highest + 1), end)
    own = row["high_watermark"]
    own = row["log_end_offset"] if own is None else own
    is_leader = row["node"] == leader["node"]
    bound = committed_to if in_sync or is_leader else min(own or 0, hw)
    return Replica(
        key=key_of(row),
        node=row["node"],
        leader_node=leader["node"],
        in_sync=in_sync,
        start=row["log_start_offset"] or 0,
        end=row["log_end_offset"],
        high_watermark=row["high_watermark"],
        leader_start=leader_start,
        committed_to=committed_to,
        bound=bound,
        error=row["error"],
    )
