"""Lost records with the truncation that took them, and how that truncation came about.

The checker's table ``loss`` says which broker's cut took how many records of which partition and
why they count as they do; the history says when that broker cut, and before it: when the next
leader was committed, when the LeaderAndIsr that demotes was sent, when the broker obeyed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.report.run_folder import RunFolder

Place = tuple[str, int, str, int]  # arm, trial, topic, partition


@dataclass(slots=True)
class Cut:
    """One truncation. Times are ns; None where no row says so."""

    cut_t: int
    from_offset: int
    to_offset: int
    leader_epoch: int | None
    reason: str
    commit_t: int | None = None
    send_t: int | None = None
    obeyed_t: int | None = None

    @property
    def exposed_ns(self) -> int | None:
        """How long the demoted leader went on as one after it had been written to."""
        if self.send_t is None or self.obeyed_t is None:
            return None
        return max(0, self.obeyed_t - self.send_t)


@dataclass(slots=True)
class Loss:
    """The records of one partition that one broker's cuts took (node None: no cut is known)."""

    place: Place
    node: int | None
    by_cause: dict[str, int] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)


def losses(folder: RunFolder) -> list[Loss]:
    """By arm, trial, partition and broker; the most records first within an arm."""
    found: dict[tuple[Place, int | None], Loss] = {}
    for row in folder.figure("loss"):
        key = (_place(row), row["node"])
        loss = found.setdefault(key, Loss(*key))
        loss.by_cause[row["category"]] = loss.by_cause.get(row["category"], 0) + row["n"]
    if found:
        _add_cuts(folder, found)
    return sorted(
        found.values(), key=lambda x: (x.place[:2], -sum(x.by_cause.values()), x.place, x.node or 0)
    )


def _place(row: Mapping[str, Any]) -> Place:
    return row["arm"], row["trial"], row["topic"], row["partition"]


def _add_cuts(folder: RunFolder, found: dict[tuple[Place, int | None], Loss]) -> None:
    columns = ("node", "topic", "partition", "leader_epoch", "from_offset", "to_offset", "reason")
    commits, sends, changes = _commits(folder), _demotions(folder), _changes(folder)
    for row in folder.rows("truncation", columns):
        place, node = _place(row), row["node"]
        loss = found.get((place, node))
        if loss is None or row["from_offset"] <= row["to_offset"]:
            continue
        cut = Cut(
            row["t"],
            row["from_offset"],
            row["to_offset"],
            row["leader_epoch"],
            row["reason"] or "",
        )
        demotion = _demotion(changes.get((place, node), []), cut.cut_t)
        leader_epoch = cut.leader_epoch
        if demotion is not None:
            cut.obeyed_t, leader_epoch = demotion
        if leader_epoch is not None:
            cut.commit_t = commits.get((place, leader_epoch))
            cut.send_t = sends.get((place, node, leader_epoch))
        loss.cuts.append(cut)


def _commits(folder: RunFolder) -> dict[tuple[Place, int], int]:
    found: dict[tuple[Place, int], int] = {}
    for row in folder.rows("leadership", ("topic", "partition", "leader", "leader_epoch")):
        found.setdefault((_place(row), row["leader_epoch"]), row["t"])
    return found


def _demotions(folder: RunFolder) -> dict[tuple[Place, int | None, int], int]:
    """When a LeaderAndIsr that names another leader was first sent to a broker, by leader epoch."""
    found: dict[tuple[Place, int | None, int], int] = {}
    for row in folder.rows("control_send", ("to", "partitions"), api="LEADER_AND_ISR"):
        for state in row["partitions"] or ():
            if state["leader"] != row["to"]:
                place = (row["arm"], row["trial"], state["topic"], state["partition"])
                found.setdefault((place, row["to"], state["leader_epoch"]), row["t"])
    return found


def _changes(folder: RunFolder) -> dict[tuple[Place, int | None], list[tuple[int, int, str]]]:
    """(t, leader epoch, role) of every LeaderAndIsr that a broker obeyed, in order of time."""
    found: dict[tuple[Place, int | None], list[tuple[int, int, str]]] = defaultdict(list)
    columns = ("node", "topic", "partition", "leader_epoch", "role")
    for row in folder.rows("leader_change", columns):
        found[_place(row), row["node"]].append((row["t"], row["leader_epoch"], row["role"]))
    return dict(found)


def _demotion(changes: list[tuple[int, int, str]], cut_t: int) -> tuple[int, int] | None:
    """(t, leader epoch) of the first change to follower since the broker last led."""
    found: tuple[int, int] | None = None
    for t, leader_epoch, role in changes:
        if t > cut_t:
            break
        if role == "leader":
            found = None
        elif found is None:
            found = (t, leader_epoch)
    return found
