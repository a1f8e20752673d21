"""Partitions that a controller left without a leader, by ZooKeeper's own log, for
`checkers.promises.epochs`.

A leader that goes (it died, it is stopped, a move takes its replica away) has a successor first:
elections come before replicas are taken out of in-sync sets (KafkaController,
onReplicasBecomeOffline; onPartitionReassignment moves the leader, then stops what is removed). A
set that is written with no leader has the members who could have been elected:

- ``left-without-leader``: no leader (-1) was committed, beside an in-sync set with a member that
  was registered all the while.

Lawful, and looks similar: a controller that comes into office takes the dead out of in-sync sets
before it elects anybody (ReplicaStateMachine.startup); so it is judged from its first election on.
Who has registered a moment ago is not yet alive for the controller, and who stops in order is not
any more; a topic that is deleted has no leaders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order, written
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "left-without-leader"
LEADERLESS: Final = "writes of no leader, with somebody in sync"
KNOWN_MS: Final = 5_000
"""As soon a controller knows of a registration, on a busy machine too."""
STOPS_MS: Final = 30_000
"""As long before it is gone a broker may have been about to stop."""
NO_LEADER: Final = -1
_NOT_YET: Final = "partitions without a leader as a controller comes into office"
_DELETED: Final = "partitions without a leader whose topic is deleted"
Row = Mapping[str, Any]
Node = tuple[str, int, int]


def without_leader(history: History, outcome: Outcome) -> Iterator[Finding]:
    ends = _ends(history)
    deleted = {(r["arm"], r["trial"], r["topic"]) for r in history.rows("topic_deletion")}
    since: dict[Node, int] = {}
    """By registered broker, since when (ms)."""
    before: dict[Key, Row] = {}
    elected: set[tuple[str, int, int]] = set()
    """Controller epochs that have elected somebody."""
    for row in in_order(history):
        if row["what"] == "broker" and row["commit_ms"] is not None:
            node = row["arm"], row["trial"], row["node"]
            if row["step"] == "created":
                since[node] = row["commit_ms"]
            elif row["step"] == "removed":
                since.pop(node, None)
        if row["what"] != "state" or row["partition"] is None or row["leader"] is None:
            continue
        key = key_of(row)
        old = before.pop(key, None)
        if row["step"] == "removed":
            continue
        before[key] = row
        in_office = *key[:2], row["controller_epoch"]
        if row["leader"] != NO_LEADER:
            if old is None or old["leader"] != row["leader"]:
                elected.add(in_office)
            continue
        if old is None or old["leader"] == NO_LEADER:
            continue
        if in_office not in elected or key[:3] in deleted:
            outcome.unjudged(key[0], _NOT_YET if in_office not in elected else _DELETED)
            continue
        outcome.saw(*key[:2], LEADERLESS)
        for member in sorted(set(row["isr"] or ()) - {old["leader"]}):
            node = (*key[:2], member)
            if _lives(since.get(node), ends.get(node, ()), row["commit_ms"]):
                says = (
                    f"{key[2]}-{key[3]}, led by {old['leader']}, was left without a leader by "
                    f"controller epoch {row['controller_epoch']}, with {sorted(row['isr'])} in "
                    f"sync, of whom {member} is registered"
                )
                yield Finding(RULE, says, *key[:2], (written(old), written(row)))
                break


def _lives(since_ms: int | None, ends: list[int] | tuple[()], at_ms: int | None) -> bool:
    """Whether its registration was known by then, and did not end soon after."""
    if since_ms is None or at_ms is None or at_ms < since_ms + KNOWN_MS:
        return False
    return not any(at_ms <= end_ms <= at_ms + STOPS_MS for end_ms in ends)


def _ends(history: History) -> dict[Node, list[int]]:
    """When registrations ended (ms)."""
    found: dict[Node, list[int]] = {}
    for row in in_order(history):
        removed = row["what"] == "broker" and row["step"] == "removed"
        if removed and row["commit_ms"] is not None:
            found.setdefault((row["arm"], row["trial"], row["node"]), []).append(row["commit_ms"])
    return found
