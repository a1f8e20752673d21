"""What is made in its turn, for `checkers.promises.administration`.

A controller hears of new topics, and of new partitions of old ones, from ZooKeeper's watches, in
the order in which they were written, and does one thing at a time (ControllerEventManager). So who
has elected a first leader for a topic's partition has done so for all that was written before it.

- ``made-out-of-turn``: a partition that a topic was given has no state yet, though the controller
  that was in office all the time has made one of a topic that was written later, and a broker of
  the partition's replicas is there to lead it. Who does not watch a topic for more partitions is
  not missed otherwise, where the next controller reads everything anew.

Lawful, and looks similar: several topics written before the controller looked, which it makes in
any order; a topic that is to be deleted; whatever a controller that had lost ZooKeeper for a moment
heard in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Final

from checkers.facts.office import written
from checkers.judging.witness import Finding

RULE: Final = "made-out-of-turn"
MADE_IN_TURN: Final = "partitions of topics that were made after all before them"
Row = Mapping[str, Any]
Trial = tuple[str, int]


def in_turn(
    trial: Trial,
    rows: Sequence[Row],
    dying: Container[str],
    is_fit: Callable[[int, int, int], bool],
    saw: Callable[[], object],
) -> Iterator[Finding]:
    """``rows``: ZooKeeper's own log, in its order; ``is_fit``: of a controller, and from when until
    when (ns), whether nothing can have kept it from hearing; ``saw``: of each that is judged. One
    finding a topic."""
    known: dict[str, set[int]] = {}
    waiting: dict[tuple[str, int], Row] = {}
    made: dict[str, Row] = {}
    registered: set[int] = set()
    told: set[str] = set()
    holder: int | None = None
    for row in rows:
        what, step, topic = row["what"], row["step"], row["topic"]
        if what == "controller":
            holder = None if step == "removed" else row["node"]
            waiting, made = {}, {}
        elif what == "broker":
            (registered.discard if step == "removed" else registered.add)(row["node"])
        elif what == "topic" and step == "removed":
            known.pop(topic, None)
            made.pop(topic, None)
            waiting = {key: one for key, one in waiting.items() if key[0] != topic}
        elif what == "topic" and row["partition"] is not None:
            of = known.setdefault(topic, set())
            if step == "created":
                made[topic] = row
            elif row["partition"] not in of and topic not in dying:
                waiting[topic, row["partition"]] = row
            of.add(row["partition"])
        elif what == "state" and step == "created":
            waiting.pop((topic, row["partition"]), None)
            later = made.get(topic)
            if later is None or holder is None:
                continue
            for (grown, _), one in waiting.items():
                able = set(one["replicas"] or ()) & registered
                if one["zxid"] >= later["zxid"] or not able or grown in told:
                    continue
                if not is_fit(holder, one["t"], row["t"]):
                    continue
                told.add(grown)
                yield _finding(trial, one, later, row)
            if not any(one["zxid"] < later["zxid"] for one in waiting.values()):
                saw()


def _finding(trial: Trial, one: Row, later: Row, row: Row) -> Finding:
    return Finding(
        RULE,
        f"topic {one['topic']} was given partition {one['partition']}, and the controller made "
        f"topic {later['topic']}, which was written {(later['t'] - one['t']) / 1e9:.1f} s later, "
        "while that had no state",
        *trial,
        (written(one), written(later), written(row)),
    )
