"""Deletions that nothing stands in the way of, for `checkers.promises.topic_deletion`.

A deletion waits for whoever has replicas of the topic. When all of them are there and a controller
is in office nothing is left to wait for, and nobody else reminds it: the controller itself goes on,
as a broker comes back (KafkaController.onBrokerStartup) and as it takes office
(onControllerFailover).

- ``deletion-stalled``: for `LIMIT_NS` all brokers with replicas of it were registered and had been
  seen ready since (one that comes up registers before it answers anybody), the same controller was
  in office, no fault was in place, and the topic was still there. That it is gone in the end, when
  another event has reminded the controller, makes it no better. One that is never gone is looked at
  as long as the cluster was.

Read from ZooKeeper's own log, the watch of deletions and what the harness saw of brokers; times are
used only as distances.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.faults import ASKING, faults_of
from checkers.facts.office import in_order
from checkers.facts.timeline import FOREVER, merged
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.promises.topic_deletion import Deletion

RULE: Final = "deletion-stalled"
FREE: Final = "deletions that nothing stood in the way of"
LIMIT_NS: Final = 15_000_000_000
"""It takes some tenths of a second, and seconds of Apache Kafka on a busy machine."""
_ASKING: Final = ASKING | {"delete-topic-away", "grow-topic"}
"""What these do to brokers, besides asking for something, is in ZooKeeper's log."""
_UP: Final = frozenset({"ready", "resume"})
_DOWN: Final = frozenset({"kill", "stop", "pause", "exited"})
Row = Mapping[str, Any]


def stalled(history: History, outcome: Outcome, found: Sequence[Deletion]) -> Iterator[Finding]:
    by_trial: dict[tuple[str, int], list[Row]] = {}
    for row in in_order(history):
        if row["what"] in ("broker", "controller", "topic"):
            by_trial.setdefault((row["arm"], row["trial"]), []).append(row)
    for row in history.rows("node_event"):
        if row["event"] in _UP | _DOWN:
            by_trial.setdefault((row["arm"], row["trial"]), []).append(row)
    for one in found:
        rows = by_trial.get((one.arm, one.trial))
        over_t = _looked_until(history, one) if one.gone is None else one.gone["t"]
        if rows is None or over_t is None:
            continue
        spans = _free(rows, _disturbances(history, one), one.topic)
        own = [
            (max(begin, one.requested["t"]), min(end, over_t))
            for begin, end in spans
            if begin < over_t and end > one.requested["t"]
        ]
        outcome.saw(one.arm, one.trial, FREE, int(bool(own)))
        begin, end = max(own, key=lambda span: span[1] - span[0], default=(0, 0))
        if end - begin > LIMIT_NS:
            yield _finding(one, begin, end)


def _looked_until(history: History, one: Deletion) -> int | None:
    phases = rows_of(history, "phase", (one.arm, one.trial))
    return max((row["t"] for row in phases if row["name"] in ("quiesce", "settle")), default=None)


def _disturbances(history: History, one: Deletion) -> list[tuple[int, int]]:
    of = faults_of(history, (one.arm, one.trial))
    return [(fault.from_t, fault.to_t) for fault in of if fault.name not in _ASKING]


def _free(
    rows: Sequence[Row], disturbances: Sequence[tuple[int, int]], topic: str
) -> Iterator[tuple[int, int]]:
    """From one event to the next (ns), where nothing keeps the topic's replicas from being stopped.
    Nothing changes between two events."""
    edges: list[tuple[int, Row]] = [(t, {}) for span in disturbances for t in span]
    edges.append((FOREVER, {}))
    events = sorted([*((row["t"], row) for row in rows), *edges], key=lambda event: event[0])
    disturbed = merged(disturbances)
    there, replicas = set[int](), set[int]()
    controller: int | None = None
    for (t, row), (until, _) in pairwise(events):
        is_there = row.get("step") != "removed"
        if row.get("event") in _UP:
            there.add(row["node"])
        elif row.get("event") in _DOWN:
            there.discard(row["node"])
        elif row.get("what") == "broker":
            there -= {row["node"]} if row["step"] != "set" else set()
        elif row.get("what") == "controller":
            controller = row["node"] if is_there else None
        elif row.get("topic") == topic:
            replicas = replicas | {*(row["replicas"] or ())} if is_there else set()
        is_whole = bool(replicas) and replicas <= there and controller in there
        begun = bisect_right(disturbed, t, key=lambda span: span[0])
        if is_whole and not (begun and t < disturbed[begun - 1][1]):
            yield t, until


def _finding(one: Deletion, begin: int, end: int) -> Finding:
    return Finding(
        RULE,
        f"topic {one.topic} was to be deleted, and for {(end - begin) / 1e9:.1f} s every broker "
        "with replicas of it was there, a controller was in office, and nothing was done",
        one.arm,
        one.trial,
        (
            Pick("topic_deletion", {"topic": one.topic}),
            Pick("zk_write", {"what": "broker"}, to_t=begin, rows=3, last=True),
            Pick("zk_write", {"what": "controller"}, to_t=begin, rows=1, last=True),
        ),
    )
