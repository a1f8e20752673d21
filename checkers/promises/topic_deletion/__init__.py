"""Topic deletion: from the request in ZooKeeper until the topic is gone, and its logs with it.

A deletion is a topic's ``requested`` step up to its next ``gone`` step. To be gone, every replica
must have answered a StopReplica that deletes, so the dearest control requests are in a row here:
UpdateMetadata, StopReplica without and with deletion, each behind whatever a broker's queue holds.

    deletion   requested -> gone
    stopped    requested -> the last replica had put its log aside (``replica_stop`` that deletes)

Violations: ``gone-before-stopped``: the topic was gone although a replica put its log aside later.
Only a broker's first stop of a partition counts: a resent request may find nothing left to do.
``gone-unstopped``: the topic was gone, and a replica that ZooKeeper's log had assigned never put
its log aside, though its broker ran all the while and told of others that it did.
``position-outlived-topic``: a group's position is told in a topic that is no more
(`outlived_positions`). ``deletion-stalled``: nothing was left to wait for, and nothing was done
(`stalled`).

Unknown: a trial in which no topic was deleted while faults were played (what the harness deletes
once the load has ended is judged, proves nothing of them, and is not in the figures); each deletion
that was not finished (whether it ever would have been, and whether logs were left behind, is judged
by `recovery`), or was over before it was asked for; a trial in which no replica told of stopping.
Not judged, and counted: replicas of a broker that the harness saw end meanwhile, which may have had
nothing left to stop.
Blind: systems that tell of no stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.clients import chaos
from checkers.facts.faults import faults
from checkers.facts.histogram import Histogram, bucket_number
from checkers.facts.lives import cuts
from checkers.facts.office import in_order
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.topic_deletion.outlived_positions import OUTLIVED, outlived_positions
from checkers.promises.topic_deletion.stalled import FREE, stalled

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = dict[str, Any]
_A_WHILE_NS: Final = 1_000_000_000
_NONE: Final = "no topic was deleted while faults were played"
REPLICAS: Final = "replicas of topics that went"


@dataclass(slots=True)
class Deletion:
    """One deletion of one topic. Times in ns; ``stops``: the first stop of each replica."""

    arm: str
    trial: int
    topic: str
    requested: Row
    gone: Row | None = None
    stops: dict[tuple[int, int], Row] = field(default_factory=dict)

    @property
    def took_ns(self) -> int | None:
        """By ZooKeeper's one clock where it is known, else by the rows' times."""
        if self.gone is None:
            return None
        stamps = (self.requested["commit_ms"], self.gone["commit_ms"])
        if None not in stamps:
            return int(stamps[1] - stamps[0]) * 1_000_000
        return int(self.gone["t"]) - int(self.requested["t"])

    @property
    def stopped_ns(self) -> int | None:
        """None when a replica of it did not say that it stopped."""
        if not self.stops:
            return None
        last_t = max(int(row["t"]) for row in self.stops.values())
        return max(0, last_t - int(self.requested["t"]))


def check(history: History) -> Outcome:
    outcome = Outcome()
    found = deletions(history)
    tried = _while_tried(history, found)
    by_trial: dict[tuple[str, int], list[Deletion]] = {}
    for one in tried:
        by_trial.setdefault((one.arm, one.trial), []).append(one)
    for arm, trial in sorted(set(history.trials) | set(history.run.trials)):
        mine = by_trial.get((arm, trial), [])
        done = [d for d in mine if d.gone is not None]
        outcome.saw(arm, trial, "deletions", len(done))
        if not mine:
            outcome.unknowns.append(f"{arm}, trial {trial}: {_NONE}")
        if done and not any(one.stops for one in mine):
            outcome.unknown(arm, trial, "no replica told that it put its log aside")
    for one in found:
        if one.gone is None:
            outcome.unknown(one.arm, one.trial, f"the deletion of {one.topic} was not finished")
    _figures(outcome, tried, _hindrances(history))
    late = (*_violations(found), *stalled(history, outcome, found))
    for finding in (*late, *_unstopped(history, outcome, found)):
        outcome.add(finding)
    for finding, n in outlived_positions(history, outcome, found):
        outcome.add(finding, n)
    return outcome


def _while_tried(history: History, found: list[Deletion]) -> list[Deletion]:
    """Those that were asked for before the last fault had been played."""
    spans = chaos(history)
    return [
        one
        for one in found
        if (span := spans.get((one.arm, one.trial))) is None or one.requested["t"] <= span[1]
    ]


def deletions(history: History) -> list[Deletion]:
    """Every deletion that was requested, in order of time."""
    found: list[Deletion] = []
    latest: dict[tuple[str, int, str], Deletion] = {}
    for row in sorted(history.rows("topic_deletion"), key=lambda r: (r["t"], r["step"] == "gone")):
        key = (row["arm"], row["trial"], row["topic"])
        if row["step"] == "requested":
            latest[key] = Deletion(*key, requested=row)
            found.append(latest[key])
        elif key in latest and latest[key].gone is None:
            latest[key].gone = row
    by_topic: dict[tuple[str, int, str], list[Deletion]] = {}
    for one in found:
        by_topic.setdefault((one.arm, one.trial, one.topic), []).append(one)
    for row in sorted(history.rows("replica_stop"), key=lambda r: r["t"]):
        if row["delete"]:
            own = by_topic.get((row["arm"], row["trial"], row["topic"]), [])
            begun = [d for d in own if d.requested["t"] - _error(d.requested, row) <= row["t"]]
            if begun:
                begun[-1].stops.setdefault((row["node"], row["partition"]), row)
    return found


def _error(*rows: Row) -> int:
    return sum(row["error_ns"] or 0 for row in rows)


def _hindrances(history: History) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """By trial, when (ns) faults other than floods and deletions were at work."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for fault in faults(history):
        if not fault.name.startswith("flood") and fault.name != "delete-topic":
            found.setdefault(fault.trial, []).append((fault.from_t, fault.rows[-1]["t"]))
    return found


def _figures(
    outcome: Outcome,
    found: list[Deletion],
    hindrances: Mapping[tuple[str, int], list[tuple[int, int]]],
) -> None:
    """Per arm: both spans and how many; the points themselves as a small table. Times are of those
    deletions that nothing hindered but a flood: others measure the hindrance."""

    def free(one: Deletion) -> bool:
        end = one.gone["t"] if one.gone is not None else one.requested["t"]
        return not any(
            begin <= end and one.requested["t"] <= over
            for begin, over in hindrances.get((one.arm, one.trial), [])
        )

    for arm in sorted({d.arm for d in found}):
        mine = [d for d in found if d.arm == arm]
        figures = outcome.arm(arm)
        figures["requested"] = len(mine)
        figures["unfinished"] = sum(d.gone is None for d in mine)
        timed = [d for d in mine if free(d)]
        for name, spans in (
            ("deletion", [d.took_ns for d in timed]),
            ("stopped", [d.stopped_ns for d in timed if d.gone is not None]),
        ):
            histogram = Histogram()
            for span in spans:
                if span is not None:
                    histogram.add(bucket_number(span), 1, span)
            if histogram.count:
                figures[name] = histogram.summary()
    outcome.figures["topic_deletion"] = [
        {
            "arm": d.arm,
            "trial": d.trial,
            "topic": d.topic,
            "took_ns": d.took_ns,
            "stopped_ns": d.stopped_ns,
            "replicas": len(d.stops),
        }
        for d in found
    ]


def _violations(found: list[Deletion]) -> list[Finding]:
    findings = []
    for one in found:
        if one.gone is None:
            continue
        late = [
            row for row in one.stops.values() if row["t"] - one.gone["t"] > _error(row, one.gone)
        ]
        if late:
            findings.append(_gone_before_stopped(one, max(late, key=lambda r: int(r["t"]))))
    return findings


def _unstopped(history: History, outcome: Outcome, found: list[Deletion]) -> Iterator[Finding]:
    """By what was assigned when the topic was removed. A broker that ended meanwhile may have told
    of its stop, and taken that with it."""
    removed = _removed(history)
    telling = {(d.arm, d.trial, node) for d in found for node, _ in d.stops}
    if telling:  # this system tells of stops: so does each of its brokers that numbers its rows
        telling |= {
            (row["arm"], row["trial"], row["node"])
            for row in history.rows("leader_change")
            if row["seq"] is not None
        }
    times: dict[tuple[str, int, str], int] = {}
    for one in found:
        if one.gone is None:
            continue
        topic = (one.arm, one.trial, one.topic)
        number = times.get(topic, 0)
        times[topic] = number + 1
        of = removed.get(topic, [])
        for partition, nodes in sorted(of[number].items()) if number < len(of) else ():
            outcome.saw(one.arm, one.trial, REPLICAS, len(nodes))
            for node in nodes:
                broker = (one.arm, one.trial, node)
                if (node, partition) in one.stops:
                    continue
                if broker not in telling:
                    outcome.unjudged(one.arm, "replicas of brokers that tell of no stop")
                elif _ended(history, broker, one.requested["t"], one.gone["t"]):
                    figures = outcome.arm(one.arm)
                    figures["untold_stops"] = figures.get("untold_stops", 0) + 1
                    what = "replicas of a broker that ended while their topic was deleted"
                    outcome.unjudged(one.arm, f"{what}, and that told of no stop")
                else:
                    yield _gone_unstopped(one, node, partition)


def _removed(history: History) -> dict[tuple[str, int, str], list[dict[int, tuple[int, ...]]]]:
    """By topic, for each time that it was removed: the replicas of each partition, by ZooKeeper."""
    found: dict[tuple[str, int, str], list[dict[int, tuple[int, ...]]]] = {}
    assigned: dict[tuple[str, int, str], dict[int, tuple[int, ...]]] = {}
    for row in in_order(history):
        topic = (row["arm"], row["trial"], row["topic"])
        if row["what"] == "topic" and row["step"] == "removed":
            found.setdefault(topic, []).append(assigned.pop(topic, {}))
        elif row["what"] == "topic" and row["partition"] is not None:
            assigned.setdefault(topic, {})[row["partition"]] = tuple(row["replicas"] or ())
    return found


def _ended(history: History, broker: tuple[str, int, int], from_t: int, to_t: int) -> bool:
    known = cuts(history).get(broker, ())
    return any(from_t - _A_WHILE_NS <= t <= to_t + _A_WHILE_NS for t in known)


def _gone_unstopped(one: Deletion, node: int, partition: int) -> Finding:
    return Finding(
        "gone-unstopped",
        f"topic {one.topic} was gone, and node {node} never put its replica of partition "
        f"{partition} aside",
        one.arm,
        one.trial,
        (
            Pick("zk_write", {"topic": one.topic, "what": "topic"}, rows=2),
            Pick("topic_deletion", {"topic": one.topic}),
            Pick("replica_stop", {"topic": one.topic, "partition": partition}),
        ),
    )


def _gone_before_stopped(one: Deletion, stop: Row) -> Finding:
    at = {"topic": one.topic, "partition": stop["partition"], "node": stop["node"]}
    assert one.gone is not None
    late_ms = (stop["t"] - one.gone["t"]) / 1e6
    return Finding(
        "gone-before-stopped",
        f"topic {one.topic} was gone {late_ms:.0f} ms before node {stop['node']} put its replica "
        f"of partition {stop['partition']} aside",
        one.arm,
        one.trial,
        (
            Pick("topic_deletion", {"topic": one.topic}),
            Pick("replica_stop", at, rows=2),
        ),
    )


PROMISE: Final = Promise(
    name="topic-deletion",
    says="A topic is gone when all of its replicas have stopped, with all that was kept of it.",
    source="Kafka's TopicDeletionManager; GroupCoordinator.handleDeletedPartitions",
    rules={
        "deletion-stalled": "A deletion goes on as soon as nothing is left to wait for.",
        "gone-unstopped": "A topic is gone only when all of its replicas have stopped.",
        "gone-before-stopped": "A topic is gone only when each replica has put its log aside.",
        "position-outlived-topic": "No group has a position in a topic that is gone.",
    },
    evidence={
        "deletions": "requested and finished",
        REPLICAS: "by ZooKeeper's log, as they were assigned when it went",
        FREE: "by ZooKeeper's log, at least for a moment",
        OUTLIVED: "of coordinators that had replicas of it, and coordinated the group before",
    },
    unknown_when=(
        _NONE,
        "a deletion was not finished",
        "no replica told that it put its log aside",
    ),
    blind=(
        "systems whose brokers tell of no stop",
        "positions of groups with members, and what the next coordinator knows of them",
    ),
    check=check,
)
