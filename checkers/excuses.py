"""What makes the loss of a committed record lawful.

Judged per (arm, trial, topic, partition); each excuse holds for records offered or read before its
``until`` (ns), or for ever:

    unclean   the topic allows unclean leader elections: whoever is elected may lack anything
    deleted   the topic was deleted (and perhaps created again): a StopReplica for deletion (leader
              epoch -2), a metadata update that says so (leader -2), or a new incarnation in the
              watch's rows
    damage    a fault tore the log of a node that was, at some time, all of the in-sync set
    forged    a forged LeaderAndIsr or StopReplica, with a lie that Kafka cannot see, was accepted
    compacted the topic is compacted
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.leadership import TP, Key, key_of, leadership

if TYPE_CHECKING:
    from checkers.frames import History

FOREVER: Final = 2**62
DELETED_EPOCH: Final = -2
DELETED_LEADER: Final = -2
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
