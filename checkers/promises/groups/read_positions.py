"""Positions in what a member reads, which stay as long as it does, for `checkers.promises.groups`.

A position may be kept for so long (OffsetCommit 2 to 4), or for ``offsets.retention.minutes``; of a
topic to which a member of the group subscribes it stays all the same, however old it is
(KIP-211, KIP-496; GroupMetadata.removeExpiredOffsets): else whoever reads on a quiet topic begins
anew after the next rebalance. Role group-pair commits such a position for a moment (step ``keep``),
and goes on asking for it (``own``).

- ``read-position-lost``: a coordinator had kept a position of a member, and told a lower one, or
  none, while that was a member.

Rows do not tell which member asked: who hears that it is no member, or asks to join anew without
being one (UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED), has begun anew. So what it was told is held
against what it had only once it has heard, from the same broker, that it is a member still.

Lawful, and looks similar: one of the past, told by who did not keep it; the position of a group
that has lost its members meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "read-position-lost"
READ: Final = "positions of members asked for"
_NO_MEMBER: Final = frozenset({25, 79})
"""UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED."""
_IS_MEMBER: Final = frozenset({0, 27})
"""Said to who lives; REBALANCE_IN_PROGRESS: it is to join anew."""
_BY: Final = ("arm", "trial", "group")
_NAMES: Final = (*_BY, "node", "step", "type", "error", "offset", "invoke_t", "t")
Row = Mapping[str, Any]


def read_positions(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """Each finding, and for how many groups it stands."""
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("group is not null and node is not null")
    groups = steps.where("step = 'own'").select(*_BY).distinct()
    steps = steps.join(groups, list(_BY), "left_semi").where(
        "step in ('enter', 'keep', 'own', 'live', 'sync')"
    )
    yield from in_courses(outcome, steps.select(*_NAMES), _BY, ["t", "invoke_t"], _of_group)


def _of_group(rows: Sequence[Row], outcome: Outcome) -> Iterator[Finding]:
    kept: dict[int, Row] = {}
    lost: dict[int, tuple[Row, Row]] = {}
    for row in rows:
        node, step, error = row["node"], row["step"], row["error"]
        if error in _NO_MEMBER:
            kept, lost = {}, {}
        elif step == "keep" and row["type"] == "ok":
            kept[node] = row
        elif step == "own" and row["type"] == "ok":
            known = kept.get(node)
            if known is None or known["t"] > row["invoke_t"]:
                continue
            outcome.saw(row["arm"], row["trial"], READ)
            if row["offset"] < known["offset"]:
                lost.setdefault(node, (known, row))
        elif step == "live" and error in _IS_MEMBER and node in lost:
            known, told = lost[node]
            if row["invoke_t"] > told["t"]:
                yield _finding(known, told)
                return


def _finding(known: Row, told: Row) -> Finding:
    at = {"group": told["group"], "node": told["node"]}
    return Finding(
        RULE,
        f"node {told['node']} had kept offset {known['offset']} for a member of group "
        f"{told['group']}, in a topic that it reads, and told {told['offset']} "
        f"{(told['invoke_t'] - known['t']) / 1e6:.0f} ms later, while that was a member",
        told["arm"],
        told["trial"],
        tuple(
            Pick("group_step", {**at, "step": one["step"], "t": one["t"]}, rows=1)
            for one in (known, told)
        ),
    )
