"""When all that a partition lacked were replicas whose brokers were gone, for
`checkers.promises.log_starts`.

A leader waits with a deletion for live replicas alone (Partition.lowWatermarkIfLeader asks the
metadata cache who lives). Who is out of the committed in-sync set and has no registration was taken
out by a controller that had seen it go, and tells leaders so in the same breath.

Not judged: while a fault is in place that may concern the leader or who is in sync, but such as
change no more than settings and leaders, or are refused; and who was given a forger's word for the
cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.faults import faults_within
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import TP, Key, leadership
from checkers.facts.registrations import absences
from checkers.facts.timeline import FOREVER
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

TOLD_NS: Final = 2_000_000_000
"""In which a leader hears who is gone, and its followers fetch again after whatever was."""
_SPARING: Final = frozenset({"move-leadership", "alter-topic", "broker-config", "forged-requests"})
Span = tuple[int, int]


def without_the_gone(history: History, partitions: Collection[Key]) -> Iterator[dict[str, Any]]:
    """By partition, from when (``_since``) until when (``_until``, ns) one leader led it, and every
    replica but those of brokers that were gone was in sync."""
    forged = {(row["arm"], row["trial"], row["node"]) for row in taken_in(history)}
    gone = absences(history)
    led = leadership(history)
    for key in partitions:
        if key not in led or led[key].shown:
            continue
        states = [state for life in led[key].states for state in life]
        replicas = {node for state in states for node in state["isr"] or ()}
        for state, after in pairwise([*states, None]):
            assert state is not None
            here = set(state["isr"] or ())
            lacking = [gone.get((*key[:2], node), []) for node in replicas - here]
            if state["leader"] not in here or not lacking:
                continue
            if any((*key[:2], node) in forged for node in here):
                continue
            end = FOREVER if after is None else after["t"]
            away = [[one for one in of if one.from_t <= state["t"]] for of in lacking]
            if not all(away):
                continue
            backs = [max(FOREVER if one.to_t is None else one.to_t for one in of) for of in away]
            for since, until in _clear(history, key, here, (state["t"], min(end, *backs))):
                yield {**dict(zip(TP, key, strict=True)), "_since": since, "_until": until}


def _clear(history: History, key: Key, nodes: Collection[int], span: Span) -> Iterator[Span]:
    """What is left of a span, some time after whatever may concern these brokers."""
    since, until = span
    troubles = [
        (fault.from_t, fault.to_t)
        for fault in faults_within(history, key[:2], since, until)
        if fault.name not in _SPARING and any(map(fault.concerns, nodes))
    ]
    troubles += [
        (row["t"], row["t"])
        for row in rows_of(history, "node_event", key[:2])
        if row["node"] in nodes and since <= row["t"] < until
    ]
    since += TOLD_NS
    for begin, end in sorted(troubles):
        if since < begin:
            yield since, begin
        since = max(since, end + TOLD_NS)
    if since < until:
        yield since, until
