"""Moves that were called off, by ZooKeeper's own log, for `checkers.promises.epochs`.

Who calls a move off (AlterPartitionReassignments without replicas, KIP-455) is answered when the
partition is assigned to the replicas that it had before: those that were to be added are none from
then on, however well they catch up.

- ``called-off-in-vain``: after that answer other replicas were assigned.

The harness calls off a move whose new replicas get nothing, and that it has turned elsewhere before
(fault ``reassign-called-off``): those of before are those of before the first. It says when it had
the answer. Lawful, and looks similar: what was assigned before it; the replicas of
before in another order, for a move puts those first that it moves to, and what it leaves when it is
called off is the rest of that list (ReplicaAssignment.originReplicas).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import all_details
from checkers.facts.faults import faults
from checkers.facts.office import in_order, written
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "called-off-in-vain"
CALLED_OFF: Final = "moves that were called off"
_FAULT: Final = "reassign-called-off"
_SURE_NS: Final = 100_000_000
"""By then, by any clock, the answer's commit was written."""


def called_off(history: History, outcome: Outcome) -> Iterator[Finding]:
    for fault in faults(history):
        if fault.name != _FAULT:
            continue
        detail = all_details(fault.rows)
        if "called_off_t" not in detail:
            continue
        topic, _, partition = str(detail["partition"]).rpartition("-")
        known = {"topic": topic, "partition": int(partition)}
        until_t = int(detail["called_off_t"]) + _SURE_NS
        rows: list[Any] = [
            row
            for row in in_order(history)
            if (row["arm"], row["trial"]) == fault.trial
            and row["what"] == "topic"
            and {name: row[name] for name in known} == known
        ]
        before = [row for row in rows if row["t"] - (row["error_ns"] or 0) <= until_t]
        if not before:
            continue
        outcome.saw(*fault.trial, CALLED_OFF)
        # What comes later, while nobody asked for anything, is of the move that was called off.
        later = [row for row in rows if until_t < row["t"] <= fault.to_t]
        for row in (before[-1], *later):
            if set(row["replicas"] or ()) != set(detail["replicas"]):
                yield Finding(
                    RULE,
                    f"a move of {detail['partition']} from {detail['replicas']} to "
                    f"{detail['wanted']}{_turned(detail)} was called off, which was answered with "
                    f"success; after that it was on {list(row['replicas'] or ())}",
                    *fault.trial,
                    (
                        Pick("fault", {"fault": _FAULT}, rows=2),
                        Pick("admin_request", {"about": detail["partition"]}, last=True, rows=1),
                        written(row),
                    ),
                )
                break


def _turned(detail: Mapping[str, Any]) -> str:
    return f", then to {detail['turned']}," if "turned" in detail else ""
