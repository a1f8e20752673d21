"""Leaders that live, and are taken from their partition for nobody, for
`checkers.promises.departures`.

A partition loses its leader to nobody when that one is gone, when its disk is, and when its topic
goes. Whoever else is to lead no more (its replica is moved away, it is to stop) has another lead in
its place first, if any is in sync (KafkaController.moveReassignedPartitionLeaderIfRequired,
doControlledShutdown), and is taken out of the in-sync set then. The other way round clients are
turned away until the next election.

- ``deposed-for-nobody``: the leader's registration was there all along, for `HEARD_NS` before that
  as well, and another registered broker was in the in-sync set that was left.

Lawful, and looks similar: a topic that is deleted, now or later; a broker of which a fault took a
disk; the last one in sync.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.committed import committed
from checkers.facts.faults import faults_of
from checkers.facts.registrations import absences, log_begins, was_absent
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "deposed-for-nobody"
HEARD_NS: Final = 10_000_000_000
"""Who is back for so long is known to be back by every controller, of however busy a machine."""
_SEEN_NS: Final = 1_000_000_000
"""A watch may see so late that a registration is gone."""
_NOBODY: Final = -1
Row = Mapping[str, Any]
_OF_DISKS: Final = frozenset({"fail-disk", "disk-full", "wipe-disk"})


def led_by_nobody(history: History) -> Iterator[Finding]:
    deleted = {(r["arm"], r["trial"], r["topic"]) for r in history.rows("topic_deletion")}
    known = log_begins(history)
    for (arm, trial, topic, partition), of in sorted(committed(history).items()):
        if (arm, trial) not in known or (arm, trial, topic) in deleted:
            continue
        for before, after in pairwise(of.states):
            led, isr = before.row["leader"], after.row["isr"] or ()
            if after.row["leader"] != _NOBODY or led is None or led == _NOBODY:
                continue
            live = [node for node in (led, *isr) if _is_there(history, (arm, trial, node), after.t)]
            others = [node for node in live if node != led]
            if led in live and others and not _lost_disk(history, (arm, trial), led):
                yield Finding(
                    RULE,
                    f"{topic}-{partition} was taken from node {led} for nobody, though that one "
                    f"lives, and node {others[0]} in sync",
                    arm,
                    trial,
                    (
                        _of_state(topic, partition, before.row),
                        _of_state(topic, partition, after.row),
                    ),
                )


def _is_there(history: History, node: tuple[str, int, int], t: int) -> bool:
    away = absences(history).get(node, ())
    return not was_absent(away, t + _SEEN_NS, HEARD_NS + _SEEN_NS)


def _of_state(topic: str, partition: int, row: Row) -> Pick:
    epoch = row["leader_epoch"]
    return Pick("leadership", {"topic": topic, "partition": partition, "leader_epoch": epoch})


def _lost_disk(history: History, trial: tuple[str, int], node: int) -> bool:
    return any(
        fault.name in _OF_DISKS and fault.concerns(node) for fault in faults_of(history, trial)
    )
