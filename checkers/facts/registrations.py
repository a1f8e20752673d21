"""When a broker's registration was gone, and which there were, by ZooKeeper and nobody else.

Two witnesses: ZooKeeper's own log (`zk_write`), in which a session's end may take a registration
with it without a word of its own; and the watch of registrations (`node_event`). Gone is what
either of them saw go, until either saw it come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.history.frames import History

Node = tuple[str, int, int]
_BACK = {"created": True, "removed": False, "registered": True, "unregistered": False}


@dataclass(frozen=True, slots=True)
class Absence:
    """From when (ns, at the earliest) until when (at the latest; None: for good)."""

    from_t: int
    to_t: int | None


def absences(history: History) -> dict[Node, list[Absence]]:
    """By (arm, trial, node), of brokers that had been registered before; gathered once."""
    found: dict[Node, list[Absence]] = history.memo("absent brokers", lambda: _gather(history))
    return found


def registered_epochs(history: History) -> dict[Node, dict[int, int]]:
    """By (arm, trial, node), the broker epochs that it had, and from when on (ns): the ids of the
    writes that made its registrations (KIP-380), as far back as ZooKeeper's log goes."""
    found: dict[Node, dict[int, int]] = {}
    for row in history.rows("zk_write"):
        if (row["what"], row["step"]) == ("broker", "created") and row["node"] is not None:
            found.setdefault((row["arm"], row["trial"], row["node"]), {})[row["zxid"]] = row["t"]
    return found


def log_begins(history: History) -> dict[tuple[str, int], int]:
    """By (arm, trial), the id of the oldest write that ZooKeeper's log has: from it on nothing is
    missing."""
    found: dict[tuple[str, int], int] = {}
    for row in history.rows("zk_write"):
        trial = row["arm"], row["trial"]
        found[trial] = min(row["zxid"], found.get(trial, row["zxid"]))
    return found


def was_absent(of: Sequence[Absence], at_t: int, heard_ns: int) -> bool:
    """Whether somebody may take the broker for gone at ``at_t`` who hears of its coming back
    ``heard_ns`` later."""
    return any(
        one.from_t <= at_t and (one.to_t is None or at_t < one.to_t + heard_ns) for one in of
    )


def _gather(history: History) -> dict[Node, list[Absence]]:
    steps: dict[Node, list[tuple[int, int, bool]]] = {}
    written = [row for row in history.rows("zk_write") if row["what"] == "broker"]
    for row in (*written, *history.rows("node_event")):
        back = _BACK.get(row["step"] if "zxid" in row else row["event"])
        if back is not None and row["node"] is not None:
            of = steps.setdefault((row["arm"], row["trial"], row["node"]), [])
            of.append((row["t"], row["error_ns"] or 0, back))
    found: dict[Node, list[Absence]] = {}
    for node, of in steps.items():
        spans: list[Absence] = []
        gone_t: int | None = None
        for t, error_ns, back in sorted(of):
            if not back and gone_t is None:
                gone_t = t - error_ns
            elif back and gone_t is not None:
                spans.append(Absence(gone_t, t + error_ns))
                gone_t = None
        found[node] = spans + ([Absence(gone_t, None)] if gone_t is not None else [])
    return found
