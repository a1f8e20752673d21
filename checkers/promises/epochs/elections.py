"""Elections by ZooKeeper's own log, for `checkers.promises.epochs`: is who leads next the one whose
turn it is, and is nobody elected for nothing?

Every election takes, in the order of the assignment, the first replica that lives and is in sync
(PartitionLeaderElectionAlgorithms), and the same write takes out of the in-sync set who does not
live or is about to go. So whom that write leaves in sync could have led:

- ``elected-out-of-order``: a leader was elected although a replica before it, in the order of the
  assignment, is in the in-sync set that the election itself wrote;
- ``raised-for-nothing``: a leader epoch rose, and leader and in-sync set are what they were. Every
  raise ends the leader's reign for its clients and followers, and so has a cause: another leader, a
  member less in the set, a reassignment.

Lawful, and looks similar: a reassignment elects from its targets, and raises the leader epoch when
it begins and ends; so nothing is judged near a change of the topic's assignment. A partition whose
last member in sync is away is written again and again, without a leader; and one whose leader,
alone in sync, is gone when a controller comes into office may be left as it is until that leader is
back and elected anew (KAFKA-3143, mended in 2.3; taken from releases whose leaders write in-sync
sets). An unclean election leaves only the leader in sync. Who is dead and was left in sync (before
2.3, `checkers.promises.departures`) could not have led.
Without ZooKeeper nobody tells of the order of replicas.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.in_sync_writes import leaders_write
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order, written
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding

if TYPE_CHECKING:
    from checkers.history.frames import History

ELECTIONS: Final = "raises of leader epochs"
REASSIGNED_MS: Final = 20_000
"""So near a change of a topic's assignment its partitions may be moving."""
Row = Mapping[str, Any]
Topic = tuple[str, int, str]


def elections(history: History, outcome: Outcome) -> Iterator[Finding]:
    changed = _changes(history)
    orders: dict[Key, tuple[int, ...]] = {}
    before: dict[Key, Row] = {}
    left: dict[tuple[str, int, int], int] = {}
    """By broker: zxid of the end of its last registration."""
    gone: set[tuple[str, int, int]] = set()
    for row in in_order(history):
        if row["what"] == "broker":
            broker = (row["arm"], row["trial"], row["node"])
            if row["step"] == "removed":
                left[broker] = row["zxid"]
                gone.add(broker)
            else:
                gone.discard(broker)
        if row["topic"] is None:
            continue
        if row["what"] == "topic":
            _assign(orders, before, row)
        if row["what"] != "state" or row["partition"] is None:
            continue
        key = key_of(row)
        old = before.pop(key, None)
        if row["step"] != "removed" and row["leader_epoch"] is not None:
            before[key] = row
        if old is None or row["step"] != "set" or not _follows(old, row):
            continue
        if _is_near(changed.get(key[:3], ()), row["commit_ms"]):
            continue
        outcome.saw(*key[:2], ELECTIONS)
        away = left.get((*key[:2], old["leader"]), -1) > old["zxid"]
        away = away and leaders_write(history, key[0])
        dead = {node for arm, trial, node in gone if (arm, trial) == key[:2]}
        found = _judge(old, row, orders.get(key, ()), dead, away=away)
        if found is not None:
            rule, says = found
            says = f"{key[2]}-{key[3]} {says}, by controller epoch {row['controller_epoch']}"
            yield Finding(rule, says, *key[:2], (written(old), written(row)))


def _judge(
    old: Row, new: Row, order: Sequence[int], dead: Collection[int], *, away: bool
) -> tuple[str, str] | None:
    """``dead``: who is not registered; ``away``: whether who led before was away meanwhile."""
    leader, isr = new["leader"], frozenset(new["isr"])
    if leader == old["leader"]:
        succeeded = new["controller_epoch"] != old["controller_epoch"]
        came_back = away and succeeded and isr == {leader}
        if leader >= 0 and isr == frozenset(old["isr"]) and not came_back:
            epoch = f"leader epoch {new['leader_epoch']}"
            return "raised-for-nothing", f"was given {epoch} with leader {leader}, as before"
        return None
    if leader not in order or leader not in isr:
        return None  # without a leader, or judged by other rules
    passed = [one for one in order[: order.index(leader)] if one in isr and one not in dead]
    if not passed:
        return None
    return (
        "elected-out-of-order",
        f"was given leader {leader}; its replicas are {list(order)}, and {passed[0]} lives, in the "
        f"in-sync set {sorted(isr)} of that election",
    )


def _follows(old: Row, new: Row) -> bool:
    """Whether nothing was written between, and the leader epoch rose by one."""
    if None in (old["isr"], new["isr"], old["leader"], new["leader"], new["partition_epoch"]):
        return False
    at_once = new["partition_epoch"] == (old["partition_epoch"] or 0) + 1
    return at_once and bool(new["leader_epoch"] == old["leader_epoch"] + 1)


def _assign(orders: dict[Key, tuple[int, ...]], before: dict[Key, Row], row: Row) -> None:
    if row["step"] == "removed":
        topic = (row["arm"], row["trial"], row["topic"])
        for key in [key for key in {*orders, *before} if key[:3] == topic]:
            orders.pop(key, None)
            before.pop(key, None)
    elif row["partition"] is not None:
        orders[key_of(row)] = tuple(row["replicas"] or ())


def _changes(history: History) -> dict[Topic, list[int]]:
    """By topic, when its assignment was written after it was made (ms), ascending."""
    found: dict[Topic, list[int]] = {}
    for row in in_order(history):
        if row["what"] == "topic" and row["step"] == "set" and row["commit_ms"] is not None:
            found.setdefault((row["arm"], row["trial"], row["topic"]), []).append(row["commit_ms"])
    return {topic: sorted(times) for topic, times in found.items()}


def _is_near(times: Sequence[int], commit_ms: int | None) -> bool:
    if commit_ms is None:
        return True
    at = bisect_left(times, commit_ms - REASSIGNED_MS)
    return at < len(times) and times[at] <= commit_ms + REASSIGNED_MS
