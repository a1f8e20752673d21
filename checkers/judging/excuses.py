"""What makes the loss of a committed record lawful, and on whose word.

Judged per (arm, trial, topic, partition); each excuse (`EXCUSES`) holds for records offered or read
before its ``until`` (ns), or for ever; damage only for the offsets that were damaged. None rests on
the word of the broker that it excuses: what a broker traces (a StopReplica, a truncation, "no
leader") excuses nothing by itself. Whoever applies one says so to
`checkers.judging.outcome.Outcome.excuse`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from checkers.facts.details import all_details
from checkers.facts.faults import faults
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import (
    SEEN_WITHIN_NS,
    Key,
    Leadership,
    Row,
    key_of,
    leadership,
)

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.history.run_info import RunInfo

FOREVER: Final = 2**62


@dataclass(frozen=True, slots=True)
class Excuse:
    """``because``: why it is lawful; ``witness``: who, other than the suspect, has seen it."""

    because: str
    witness: str


EXCUSES: Final[Mapping[str, Excuse]] = {
    "unclean": Excuse(
        "the topic allows unclean leader elections, and one happened: who was elected may lack "
        "anything",
        "the run's own configuration of the topic, and ZooKeeper's leaders and in-sync sets",
    ),
    "compacted": Excuse("the topic is compacted", "the run's own configuration of the topic"),
    "deleted": Excuse(
        "the topic was deleted",
        "ZooKeeper's log; without ZooKeeper, the topic's id in two copies of the metadata log",
    ),
    "untold": Excuse(
        "leader epochs went back, and nothing says whether the topic was created again",
        "nobody: the trial is unknown",
    ),
    "damage": Excuse(
        "a fault cut these records off the log of a node that was all of the in-sync set then, or "
        "that had acknowledged them alone (acks=1)",
        "the harness's own fault, and ZooKeeper's in-sync sets and leaders",
    ),
    "cut-index": Excuse(
        "entries that a cut took stand in the index of the segment that is written, until others "
        "come",
        "ZooKeeper's leaders, or the metadata log's: another led the partition; or the harness, "
        "which had taken that broker down",
    ),
    "forged": Excuse(
        "a forged LeaderAndIsr or StopReplica was accepted, with a lie that Kafka cannot see, or "
        "cannot see yet",
        "the forger, and controllers, by when they had told that broker of a newer epoch",
    ),
    "probed": Excuse(
        "a prober told that broker who lives, from a list of its own, between two of its answers",
        "the prober, by when it asked and was answered",
    ),
    "stranded": Excuse(
        "acks=1: another leader was committed, and the broker that acknowledged does not run, so "
        "that its log need not have been cut",
        "ZooKeeper, and the harness, which ended or paused it",
    ),
    "held": Excuse(
        "acks=1: another leader was committed, and the broker that acknowledged still holds the "
        "record and has yet to follow",
        "ZooKeeper, and the harness's own reading of that broker's log",
    ),
    "removed": Excuse(
        "acks=1: another leader was committed, and the broker that acknowledged is no replica any "
        "more",
        "ZooKeeper's leaders and replicas",
    ),
    "untraced": Excuse(
        "acks=1: another leader was committed; the system under test tells of no truncation at all",
        "ZooKeeper; of a black box, what its brokers showed",
    ),
    # -- of what brokers do, not of losses ---------------------------------------------------------
    "knows-nobody": Excuse(
        "a forger told a broker that had just begun to follow somebody, before any controller had "
        "told it who lives",
        "the harness, which started it, and controllers, by their answers",
    ),
    "unregistered": Excuse(
        "a follower was given a leader whose registration was gone, and takes it up only when it "
        "hears that it lives",
        "ZooKeeper's log, and its watch of registrations",
    ),
    "session-over": Excuse(
        "the broker's own session was over: what it reads of ZooKeeper to make a log, it cannot",
        "ZooKeeper's log, and its watch of registrations",
    ),
    "succeeded": Excuse(
        "another leader was committed, and the broker that had led tells of its own log until it "
        "hears of that",
        "ZooKeeper's leaders",
    ),
    "has-begun": Excuse(
        "a coordinator of groups had just begun to lead their partition; of its release (Kafka 4) "
        "one answers what its followers are known to have",
        "ZooKeeper's leaders, or the metadata log's, and the run's own record of the release",
    ),
    "reads-groups": Excuse(
        "a coordinator of groups had just begun to lead their partition, and told others that it "
        "reads it: until then it says blindly that all is well",
        "ZooKeeper's leaders, or the metadata log's: it was committed ten seconds before, or less",
    ),
    "given-away": Excuse(
        "a deletion was refused late by who had coordinated the group, and may have been written",
        "ZooKeeper's leaders, or the metadata log's: another led the group's partition meanwhile",
    ),
    "unnamed": Excuse(
        "another broker, that had just begun or knew of fewer, told clients of no such leader: "
        "librdkafka sends again, unasked, what was under way there",
        "the harness, which started that broker, and what it answered to others",
    ),
    "disturbed": Excuse(
        "a fault named the controller, and may have kept it from knowing who was gone",
        "the harness, whose fault it was",
    ),
    "let-in-leaving": Excuse(
        "before KIP-841 a leader lets in who has left, and still fetches as its process ends; no "
        "controller of those releases takes it out again",
        "ZooKeeper's log: the leader's own write, after that registration was gone",
    ),
    "aside-waiting": Excuse(
        "until 2.4 who waits at a leader that puts its replica aside waits until its time is up",
        "the release, as run.json has it",
    ),
    "refusal-untold": Excuse(
        "who asks for positions by OffsetFetch 1 is told of no refusal (KAFKA-19246)",
        "the release, as run.json has it",
    ),
    "taken": Excuse(
        "a fault took from the log, or the disk, of that broker, as far as the log went back",
        "the harness, which took it",
    ),
    "empty": Excuse(
        "a leader that took up the lead with an empty log notes its own leader epoch there",
        "ZooKeeper, which has it as the leader of that epoch, and producers, who had not been "
        "promised a record there",
    ),
    "left-down": Excuse(
        "a node that it needs was taken down by the plan, and left down",
        "the harness, which took it down",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A fault cut [low, high) off the log of one partition (topic-number; None: of any) on a node,
    and the node was back at ``to_t``. A tear that only adds to a log takes nothing, and is none."""

    node: int
    partition: str | None
    low: int
    high: int
    from_t: int
    to_t: int

    def covers(self, topic: str, partition: int, offset: int | None) -> bool:
        here = self.partition in (None, f"{topic}-{partition}")
        return here and (offset is None or self.low <= offset < self.high)

    def overlaps(self, from_t: int, to_t: int) -> bool:
        return self.from_t <= to_t and from_t <= self.to_t


@dataclass(slots=True)
class Excuses:
    """``of`` says which excuse, if any, covers a record of a partition at time ``t``. Plain data,
    so that it can be sent to where suspects are judged (`checkers.judging.tally`)."""

    run: RunInfo
    known: Mapping[Key, Leadership]
    forged: set[Key] = field(default_factory=set)
    deleted: dict[tuple[str, int, str], int] = field(default_factory=dict)
    """By topic, until when (ns) records may have gone with it."""
    damages: dict[tuple[str, int], list[Damage]] = field(default_factory=dict)

    def of(
        self, arm: str, trial: int, topic: str, partition: int, t: int, offset: int | None = None
    ) -> str | None:
        """For a record offered or first read at ``t``; ``offset`` None: any offset that may be."""
        facts = self.run.topic(arm, trial, topic)
        key = (arm, trial, topic, partition)
        known = self.known.get(key)
        if facts.unclean_leader_election and (known is None or known.unclean):
            return "unclean"
        if self.run.compacts_away(arm, trial, topic):
            return "compacted"
        if any(d.covers(topic, partition, offset) and self._alone(d, key) for d in self._at(key)):
            return "damage"
        return self.from_outside(key, t)

    def from_outside(self, key: Key, t: int) -> str | None:
        """What somebody else made its brokers do to the partition at ``t``, if anything."""
        known = self.known.get(key)
        if t <= self.deleted.get(key[:3], -1):
            return "deleted"
        if known is not None and known.unsure:
            return "untold"
        return "forged" if key in self.forged else None

    def damaged(self, key: Key, node: int, offset: int | None) -> bool:
        """Whether a fault cut that offset off the log of that very node."""
        return any(d.node == node and d.covers(key[2], key[3], offset) for d in self._at(key))

    def _at(self, key: Key) -> list[Damage]:
        return self.damages.get(key[:2], [])

    def _alone(self, damage: Damage, key: Key) -> bool:
        """Whether, while it was damaged, only damaged nodes were in sync; or may have been, where
        nobody tells who was."""
        known = self.known.get(key)
        if known is None or known.shown:
            return True
        for from_t, to_t, isr in _in_force([row for life in known.states for row in life]):
            begin, end = max(from_t, damage.from_t), min(to_t, damage.to_t)
            damaged = {d.node for d in self._at(key) if d.overlaps(begin, end)}
            if damage.node in isr and damaged.issuperset(isr):
                return True
        return False


def excuses(history: History) -> Excuses:
    """Gathered once a history."""
    found: Excuses = history.memo("excuses", lambda: _gather(history))
    return found


def _gather(history: History) -> Excuses:
    found = Excuses(history.run, leadership(history))
    for row in taken_in(history):
        if row["api"] in ("LEADER_AND_ISR", "STOP_REPLICA") and row["topic"]:
            found.forged.add(key_of(row))
    _deletions(history, found)
    for place, damage in _damages(history):
        found.damages.setdefault(place, []).append(damage)
    return found


def _deletions(history: History, found: Excuses) -> None:
    """Requested in ZooKeeper: from then on until the topic is gone; where it never is, for ever.
    What nobody asked for excuses nothing."""
    for row in history.rows("topic_deletion"):
        key = (row["arm"], row["trial"], row["topic"])
        if row["step"] == "requested":
            found.deleted[key] = FOREVER
        elif row["step"] == "gone" and key in found.deleted:
            found.deleted[key] = row["t"] + (row["error_ns"] or 0)
    for key_of_partition, of in leadership(history).items():
        if of.reborn_t and not of.unsure:
            key = key_of_partition[:3]
            found.deleted[key] = max(found.deleted.get(key, 0), *of.reborn_t)


def _damages(history: History) -> Iterator[tuple[tuple[str, int], Damage]]:
    for fault in faults(history):
        if not any(
            "torn" in (text or "") for r in fault.rows for text in (r["fault"], r["detail"])
        ):
            continue
        detail = all_details(fault.rows)
        if detail.get("mode", "cut") != "cut":
            continue
        for node in fault.nodes:
            yield (
                fault.trial,
                Damage(
                    node=node,
                    partition=detail.get("partition"),
                    low=detail.get("from_offset", 0),
                    high=detail.get("next_offset", FOREVER),
                    from_t=fault.from_t,
                    to_t=fault.to_t + SEEN_WITHIN_NS,
                ),
            )


def _in_force(states: list[Row]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(from, to, in-sync set) of states in their order, times as wide as they may have been. An
    empty set (KIP-966) stands for the one before it: somebody out of that is elected next."""
    isr: tuple[int, ...] = ()
    for state, after in pairwise([*states, None]):
        assert state is not None
        isr = tuple(state["isr"] or ()) or isr
        yield state["earliest_t"], FOREVER if after is None else after["t"], isr
