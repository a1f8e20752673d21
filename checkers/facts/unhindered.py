"""When nothing stood in a controller's way with one topic: the same controller was in office, who
it needs was there, and no fault was in place.

From ZooKeeper's own log, what the harness saw of brokers, and its faults. Who is there has been
seen ready since it registered: one that comes up registers before it answers anybody. Times are
used only as distances.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.faults import ASKING, faults_of
from checkers.facts.office import in_order
from checkers.facts.timeline import FOREVER, merged
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

_ASKING: Final = ASKING | {"delete-topic-away", "grow-topic", "unclean-allowed"}
"""What these do to brokers, besides asking for something, is in ZooKeeper's log."""
_UP: Final = frozenset({"ready", "resume"})
_DOWN: Final = frozenset({"kill", "stop", "pause", "exited"})
Trial = tuple[str, int]
Row = Mapping[str, Any]
Span = tuple[int, int]
Suffices = Callable[[Set[int], Set[int]], bool]
"""(the replicas, who is there)."""


def all_there(replicas: Set[int], there: Set[int]) -> bool:
    return replicas <= there


def one_there(replicas: Set[int], there: Set[int]) -> bool:
    return bool(replicas & there)


def is_logged(history: History, trial: Trial) -> bool:
    """Whether ZooKeeper's own log tells of that trial."""
    return trial in _logged(history)


def unhindered(
    history: History,
    trial: Trial,
    topic: str,
    within: Span,
    suffices: Suffices,
    *,
    partition: int | None = None,
) -> Span:
    """The longest span (ns) of ``within`` in which nothing changed and nothing was in the way of
    the topic's (or only the partition's) replicas; (0, 0) where there is none."""
    first, last = within
    rows = [*_logged(history).get(trial, ()), *_lives(history).get(trial, ())]
    faults = [f for f in faults_of(history, trial) if f.name not in _ASKING]
    disturbances = [(fault.from_t, fault.to_t) for fault in faults]
    found = [
        (max(begin, first), min(end, last))
        for begin, end in _spans(rows, disturbances, (topic, partition), suffices)
        if begin < last and end > first
    ]
    return max(found, key=lambda span: span[1] - span[0], default=(0, 0))


def looked_until(history: History, trial: Trial) -> int | None:
    """When the load ended (ns): as long what is never done was looked at."""
    phases = rows_of(history, "phase", trial)
    return max((row["t"] for row in phases if row["name"] in ("quiesce", "settle")), default=None)


def _logged(history: History) -> Mapping[Trial, Sequence[Row]]:
    def make() -> dict[Trial, list[Row]]:
        found: dict[Trial, list[Row]] = {}
        for row in in_order(history):
            if row["what"] in ("broker", "controller", "topic"):
                found.setdefault((row["arm"], row["trial"]), []).append(row)
        return found

    known: Mapping[Trial, Sequence[Row]] = history.memo("who and what is in ZooKeeper", make)
    return known


def _lives(history: History) -> Mapping[Trial, Sequence[Row]]:
    def make() -> dict[Trial, list[Row]]:
        found: dict[Trial, list[Row]] = {}
        for row in history.rows("node_event"):
            if row["event"] in _UP | _DOWN:
                found.setdefault((row["arm"], row["trial"]), []).append(row)
        return found

    known: Mapping[Trial, Sequence[Row]] = history.memo("who comes up and goes down", make)
    return known


def _spans(
    rows: Sequence[Row],
    disturbances: Sequence[Span],
    of: tuple[str, int | None],
    suffices: Suffices,
) -> Iterator[Span]:
    """From one event to the next. Nothing changes between two events."""
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
        elif row.get("topic") == of[0] and not is_there:
            replicas = set()
        elif row.get("topic") == of[0] and of[1] in (None, row["partition"]):
            replicas = replicas | {*(row["replicas"] or ())}
        begun = bisect_right(disturbed, t, key=lambda span: span[0])
        is_disturbed = begun > 0 and t < disturbed[begun - 1][1]
        if replicas and controller in there and suffices(replicas, there) and not is_disturbed:
            yield t, until
