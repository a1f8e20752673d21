"""What proves leaderships of a black box: that some client was shown them.

Where nobody can read what was committed, a leader epoch that a broker shows was committed by then:
this is the first sighting of each, as `leadership` rows of source "shown". A watch asks all brokers
all the time, so that a partition of which no workload reads is watched as well; and when the load
has ended, what its clients were shown is added, for they may have seen it sooner, or what no watch
saw. A row proves that its leader epoch had been committed by ``t``; not when, nor with which
in-sync set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from harness.cluster.errors import StateUnreadable
from harness.cluster.quorum_view import QuorumView
from harness.cluster.record import Record

SOURCE: Final = "shown"
_EVERY_S: Final = 0.2
_Sighting = tuple[str, int, int, int]
"""(topic, partition, leader epoch, leader)."""


class ShownWatch:
    """Asks until it is stopped. A thread of its own."""

    def __init__(self, view: QuorumView, record: Record) -> None:
        self._view, self._record = view, record
        self._seen: set[_Sighting] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shown-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            try:
                told = self._view.told()
            except StateUnreadable:
                continue
            t = time.monotonic_ns()
            for node, state in told:
                sighting = (state.topic, state.partition, state.leader_epoch, state.leader)
                if is_proof(sighting) and sighting not in self._seen:
                    self._seen.add(sighting)
                    self._record("leadership", **shown_row(sighting, node, t))


def is_proof(sighting: _Sighting) -> bool:
    """Whether it names a leader and an epoch: a broker that knows no epochs shows -1."""
    return sighting[2] >= 0 and sighting[3] >= 0


def shown_row(sighting: _Sighting, node: int, t: int) -> dict[str, Any]:
    """``node``: who showed it."""
    topic, partition, leader_epoch, leader = sighting
    return {
        "t": t,
        "process": "shown-watch",
        "node": node,
        "topic": topic,
        "partition": partition,
        "leader": leader,
        "leader_epoch": leader_epoch,
        "source": SOURCE,
    }


def shown_to_clients(live: Path) -> Iterator[Mapping[str, Any]]:
    """The first sighting of each leadership by any client that asks brokers for metadata, as rows;
    ``live``: the trial's live files. What was torn is passed over: `evidence` judges that."""
    first: dict[_Sighting, tuple[int, int]] = {}
    for path in sorted(live.rglob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                if b'"metadata"' not in line:
                    continue
                found = _sighting(line)
                if found is not None:
                    sighting, seen = found
                    first[sighting] = min(seen, first.get(sighting, seen))
    for sighting, (t, node) in sorted(first.items(), key=lambda item: item[1]):
        yield shown_row(sighting, node, t)


def _sighting(line: bytes) -> tuple[_Sighting, tuple[int, int]] | None:
    try:
        row = orjson.loads(line)
        if row["f"] != "metadata" or row["type"] != "ok" or row.get("partition") is None:
            return None
        sighting = (row["topic"], row["partition"], row["leader_epoch"], row["leader"])
        return (sighting, (row["t"], row["node"])) if is_proof(sighting) else None
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
