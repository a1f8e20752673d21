"""When brokers that led began to follow, or put their replica aside, and what may keep a broker
from answering its clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.faults import faults_of
from checkers.facts.leadership import TP, Key, key_of
from checkers.facts.timeline import ALWAYS, FOREVER
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

DEMOTED: Final = (
    "arm string, trial int, topic string, partition int, node int, _t bigint, _from bigint, "
    "_to bigint"
)
"""The columns of `demotions` and `removals`, for a table of them."""
_MOVES: Final = frozenset({"move-leadership", "leadership-churn", "reassign"})
_LINKS: Final = frozenset({"toxic", "isr-lag"})
"""They hurt the links that they tell of and nothing else (isr-lag tells of none when it pauses)."""
Row = Mapping[str, Any]


def demotions(history: History) -> Iterator[dict[str, Any]]:
    """Each time a broker that led began to follow: when, and from when to when nothing kept it from
    answering (ns)."""
    leads: dict[tuple[Key, int], bool] = {}
    for row in history.rows("leader_change"):
        key, node = key_of(row), row["node"]
        led = leads.get((key, node), False)
        leads[key, node] = row["role"] == "leader"
        if led and row["role"] == "follower":
            begin, end = _clear(history, key[:2], node, row["t"])
            place = dict(zip(TP, key, strict=True))
            yield {**place, "node": node, "_t": row["t"], "_from": begin, "_to": end}


def removals(history: History) -> Iterator[dict[str, Any]]:
    """Each time a broker that led was told to stop, and to delete: as `demotions`."""
    if not history.has("replica_stop"):
        return
    stops = (row for row in history.rows("replica_stop") if row["delete"])
    leads: set[tuple[Key, int]] = set()
    for row in sorted((*history.rows("leader_change"), *stops), key=lambda row: int(row["t"])):
        key, node = key_of(row), row["node"]
        if row.get("role") == "leader":
            leads.add((key, node))
            continue
        led = (key, node) in leads
        leads.discard((key, node))
        if led and "role" not in row:
            begin, end = _clear(history, key[:2], node, row["t"])
            place = dict(zip(TP, key, strict=True))
            yield {**place, "node": node, "_t": row["t"], "_from": begin, "_to": end}


def _clear(history: History, trial: tuple[str, int], node: int, t: int) -> tuple[int, int]:
    begin, end = ALWAYS, FOREVER
    for from_t, to_t in troubles(history, trial, node):
        if from_t <= t <= to_t:
            return t, t
        if to_t < t:
            begin = max(begin, to_t)
        else:
            end = min(end, from_t)
    return begin, end


def troubles(history: History, trial: tuple[str, int], node: int) -> Iterator[tuple[int, int]]:
    """When a fault was in place that may keep the node from answering its clients, or it was ended,
    stopped or started."""
    for fault in faults_of(history, trial):
        # What it does is told once it is in place.
        if fault.concerns(node) and not all(map(_spares_clients, fault.rows[1:] or fault.rows)):
            yield fault.from_t, fault.to_t
    for row in rows_of(history, "node_event", trial):
        if row["node"] == node and row["event"] not in ("registered", "unregistered"):
            yield row["t"], row["t"]


def _spares_clients(row: Row) -> bool:
    """Of a fault in place: it moves leaders or replicas, or hurts other links than that of clients,
    and nothing else."""
    if row["fault"] in _MOVES:
        return True
    try:
        links = json.loads(row["detail"] or "{}").get("links") or []
    except (ValueError, AttributeError):
        return False
    return row["fault"] in _LINKS and bool(links) and "client" not in links
