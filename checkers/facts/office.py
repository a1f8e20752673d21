"""Who was controller, and since when: every election that anybody told of.

Two witnesses: ZooKeeper's log (`zk_write`), in which an election is one transaction that creates
``/controller`` and raises ``/controller_epoch`` (two of them until 2.1, KAFKA-6082); and the
elected node itself (`controller`). The first is complete and ordered by zxid; the second has times
of its own, and may be missing when the node died, or was stopped, between its election and saying
so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.judging.witness import Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

EPOCH_LATER: Final = "epoch_after_office"
"""In run.json, of an arm: its controllers take office first and raise the epoch then."""
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


def taken(history: History) -> list[tuple[Row, Row | None]]:
    """Each taking of the office, as ZooKeeper's log has it, with the write that raised the
    controller epoch for it: of the same transaction, or (`EPOCH_LATER`) the next one before anybody
    else took office. None where there is none."""
    raised = {
        (r["arm"], r["trial"], r["zxid"]): r
        for r in in_order(history)
        if r["what"] == "controller_epoch" and r["controller_epoch"] is not None
    }
    found: list[tuple[Row, Row | None]] = []
    waiting: dict[Trial, int] = {}
    for row in in_order(history):
        trial = (row["arm"], row["trial"])
        own = raised.get((*trial, row["zxid"]))
        if row["what"] == "controller" and row["step"] != "removed":
            if own is None and raises_later(history, row["arm"]):
                waiting[trial] = len(found)
            found.append((row, own))
        elif own is row and trial in waiting:
            place = waiting.pop(trial)
            found[place] = (found[place][0], row)
    return found


def raises_later(history: History, arm: str) -> bool:
    return bool(history.run.arms.get(arm, {}).get(EPOCH_LATER))


def _gather(history: History) -> dict[Trial, list[Election]]:
    found: dict[Trial, list[Election]] = {}
    for row, raised in taken(history):
        if raised is not None and row["step"] == "created" and row["node"] is not None:
            election = Election(
                node=row["node"],
                controller_epoch=raised["controller_epoch"],
                t=raised["t"] + (raised["error_ns"] or 0),
                zxid=raised["zxid"],
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
