"""Who was controller, and since when: every election that anybody told of.

Two witnesses: ZooKeeper's log (`zk_write`), in which an election is one transaction that creates
``/controller`` and raises ``/controller_epoch``; and the elected node itself (`controller`). The
first is complete and ordered by zxid; the second has times of its own, and may be missing when the
node died, or was stopped, between its election and saying so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkers.judging.witness import Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

Trial = tuple[str, int]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """``t``: when it was certainly over (ns). ``zxid``: None where only the elected told of it."""

    node: int
    controller_epoch: int
    t: int
    zxid: int | None = None


def elections(history: History) -> dict[Trial, list[Election]]:
    """By trial, in order of controller epochs; ZooKeeper's word first where both told."""
    found: dict[Trial, list[Election]] = history.memo("elections", lambda: _gather(history))
    return found


def in_order(history: History) -> list[Row]:
    """ZooKeeper's log; rows of one transaction in the order of its parts."""

    def make() -> list[Row]:
        return sorted(history.rows("zk_write"), key=lambda r: (r["arm"], r["trial"], r["zxid"]))

    found: list[Row] = history.memo("ZooKeeper's log in order", make)
    return found


def written(row: Row) -> Pick:
    """One row of ZooKeeper's log, for a witness."""
    where = {name: row[name] for name in ("zxid", "what", "topic", "partition")}
    return Pick("zk_write", where, rows=1)


def in_zookeeper(history: History) -> set[Trial]:
    """The trials whose cluster kept its state in ZooKeeper, by anything that was seen there."""

    def make() -> set[Trial]:
        seen = {(r["arm"], r["trial"]) for r in history.rows("zk_write")}
        return seen | {
            (r["arm"], r["trial"]) for r in history.rows("leadership") if r["source"] == "zk"
        }

    found: set[Trial] = history.memo("in_zookeeper", make)
    return found


def _gather(history: History) -> dict[Trial, list[Election]]:
    found: dict[Trial, list[Election]] = {}
    raised = {
        (r["arm"], r["trial"], r["zxid"]): r["controller_epoch"]
        for r in history.rows("zk_write")
        if r["what"] == "controller_epoch" and r["controller_epoch"] is not None
    }
    for row in history.rows("zk_write"):
        epoch = raised.get((row["arm"], row["trial"], row["zxid"]))
        office = row["what"] == "controller" and row["step"] == "created"
        if office and epoch is not None and row["node"] is not None:
            election = Election(
                node=row["node"],
                controller_epoch=epoch,
                t=row["t"] + (row["error_ns"] or 0),
                zxid=row["zxid"],
            )
            found.setdefault((row["arm"], row["trial"]), []).append(election)
    for row in history.rows("controller"):
        if row["event"] == "elected" and None not in (row["controller_epoch"], row["node"]):
            election = Election(
                node=row["node"],
                controller_epoch=row["controller_epoch"],
                t=row["t"] + (row["error_ns"] or 0),
            )
            found.setdefault((row["arm"], row["trial"]), []).append(election)
    for of in found.values():
        of.sort(key=lambda e: (e.controller_epoch, e.zxid is None, e.t))
    return found
