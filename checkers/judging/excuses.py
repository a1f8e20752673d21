"""What makes the loss of a committed record lawful, and on whose word.

Judged per (arm, trial, topic, partition); each excuse (`EXCUSES`) holds for records offered or read
before its ``until`` (ns), or for ever. None rests on the word of the broker that it excuses alone.
Whoever applies one says so to `checkers.judging.outcome.Outcome.excuse`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from checkers.facts.leadership import TP, Key, key_of, leadership

if TYPE_CHECKING:
    from checkers.history.frames import History

FOREVER: Final = 2**62
DELETED_EPOCH: Final = -2
DELETED_LEADER: Final = -2


@dataclass(frozen=True, slots=True)
class Excuse:
    """``because``: why it is lawful; ``witness``: who, other than the suspect, has seen it."""

    because: str
    witness: str


EXCUSES: Final[Mapping[str, Excuse]] = {
    "unclean": Excuse(
        "the topic allows unclean leader elections: whoever is elected may lack anything",
        "the run's own configuration of the topic",
    ),
    "compacted": Excuse("the topic is compacted", "the run's own configuration of the topic"),
    "deleted": Excuse("the topic was deleted", "ZooKeeper, or the controller's requests"),
    "damage": Excuse(
        "a fault tore the log of a node that was, at some time, all of the in-sync set",
        "the harness's own fault, and ZooKeeper's in-sync sets",
    ),
    "forged": Excuse(
        "a forged LeaderAndIsr or StopReplica, with a lie that Kafka cannot see, was accepted",
        "the forger",
    ),
}
_SEEN_LIES: Final = ("stale_controller_epoch", "stale_broker_epoch", "stale_leader_epoch")


@dataclass(slots=True)
class Excuses:
    """``of`` says which excuse, if any, covers a record of a partition at time ``t``."""

    history: History
    by_partition: dict[Key, dict[str, int]] = field(default_factory=dict)
    torn: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    """Nodes whose log a fault tore, by (arm, trial)."""

    def of(self, arm: str, trial: int, topic: str, partition: int, t: int) -> str | None:
        facts = self.history.run.topic(arm, trial, topic)
        if facts.unclean_leader_election:
            return "unclean"
        if facts.compacted:
            return "compacted"
        for name, until in self.by_partition.get((arm, trial, topic, partition), {}).items():
            if t <= until:
                return name
        return None

    def add(self, key: Key, name: str, until: int) -> None:
        known = self.by_partition.setdefault(key, {})
        known[name] = max(known.get(name, 0), until)


def excuses(history: History) -> Excuses:
    """Gathered once a history."""
    found: Excuses = history.memo("excuses", lambda: _gather(history))
    return found


def _gather(history: History) -> Excuses:
    found = Excuses(history)
    for row in history.rows("fault"):
        torn = "torn" in (row["fault"] or "") or "torn" in (row["detail"] or "")
        if torn and row["phase"] in ("injected", "healed") and row["nodes"]:
            found.torn.setdefault((row["arm"], row["trial"]), set()).update(row["nodes"])
    for row in history.rows("forged"):
        accepted = row["error"] == 0 or (row["error"] is None and row["type"] == "info")
        applied = not row["partition_error"]
        acts = row["api"] in ("LEADER_AND_ISR", "STOP_REPLICA")
        if acts and accepted and applied and row["lie"] not in _SEEN_LIES and row["topic"]:
            found.add(key_of(row), "forged", FOREVER)
    _deletions(history, found)
    _torn(history, found)
    return found


def _deletions(history: History, found: Excuses) -> None:
    for row in history.rows("replica_stop"):
        if row["delete"] and row["leader_epoch"] == DELETED_EPOCH:
            found.add(key_of(row), "deleted", row["t"])
    if history.has("metadata_update"):
        from pyspark.sql import functions as F

        rows = history.frame("metadata_update").where(f"leader = {DELETED_LEADER}")
        for last in rows.groupBy(*TP).agg(F.max("t").alias("t")).collect():
            found.add(key_of(last), "deleted", last["t"])
    for key, of in leadership(history).items():
        for t in of.reborn_t:
            found.add(key, "deleted", t)


def _torn(history: History, found: Excuses) -> None:
    if not found.torn:
        return
    for row in history.rows("leadership"):
        torn = found.torn.get((row["arm"], row["trial"]), set())
        known = row["topic"] is not None and (row["leader_epoch"] or 0) >= 0
        # A set that nobody told may have been one of them, too.
        isr = row["isr"] or ()
        if torn and known and len(isr) <= 1 and torn.issuperset(isr):
            found.add(key_of(row), "damage", FOREVER)
