"""What a member hears of a rebalance, for `checkers.promises.groups`.

A group comes together anew when somebody joins it, leaves it in order, or is missed: says nothing
for as long as its session lasts. Its members have only their heartbeats to hear of that
(REBALANCE_IN_PROGRESS, KIP-62): who does not hear goes on with what is to be another's, or is
waited for in vain. Until it joins anew a member may commit what it has read, in the generation that
is ending (GroupCoordinator.doCommitOffsets: Stable, PreparingRebalance); refused, others read all
of it again.

- ``rebalance-untold``: to who says that it lives (``live``) a coordinator answered that all is
  well, `OFTEN` times in a row, `SURE_NS` and more after another had begun to wait there to join
  (``enter``), had left (``part``), or had to be missed (``last``, and its session);
- ``commit-refused``: a member that was told of a rebalance, and had not joined anew, was refused a
  commit (``keep``) because of it.

Lawful, and looks similar: a coordinator that has become it since begins sessions anew, once it has
read the group, and says blindly that all is well while it reads (GroupCoordinator.handleHeartbeat:
whatever else it is asked then is answered COORDINATOR_LOAD_IN_PROGRESS; excused, and counted, for
`_READS_NS` after its leadership was committed); one that stood still
answers in whatever order it likes, once. A member of which nobody hears any more is told that it is
none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.living_groups import (
    REBALANCE_IN_PROGRESS,
    Row,
    group_of,
    living_groups,
)
from checkers.promises.groups.offices import Offices, offices

if TYPE_CHECKING:
    from checkers.history.frames import History

UNTOLD, REFUSED = "rebalance-untold", "commit-refused"
TOLD: Final = "members told to join anew"
KEPT: Final = "commits by who is to join anew"
SURE_NS: Final = 1_500_000_000
"""What takes milliseconds; who has just become the coordinator may need a second to know."""
OFTEN: Final = 3
_LOADED_NS: Final = 1_000_000_000
_SPAN_NS: Final = 500_000_000
_MS: Final = 1_000_000
_LOADING: Final = 14
"""COORDINATOR_LOAD_IN_PROGRESS."""
_READS_NS: Final = 10_000_000_000
_t: Final = itemgetter("t")


class _Cause(NamedTuple):
    """Why a group must come together anew: whose step, and from when on its members are to hear
    (ns)."""

    row: Row
    t: int


def told_members(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    steps = ("enter", "live", "keep", "own", "part", "last")
    yield from living_groups(history, outcome, steps, partial(_of_group, offices(history)))


def _of_group(offices: Offices, rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    arm, trial, _ = key = group_of(rows)
    lives = [row for row in rows if row["step"] == "live"]
    outcome.saw(arm, trial, TOLD, sum(row["error"] == REBALANCE_IN_PROGRESS for row in lives))
    keeps = [row for row in rows if row["step"] == "keep"]
    refused = [row for row in keeps if row["error"] == REBALANCE_IN_PROGRESS]
    outcome.saw(arm, trial, KEPT, sum(row["type"] == "ok" for row in keeps) + len(refused))
    if refused:
        yield _refused(refused[0], len(refused))
    led = {state.row["leader_epoch"]: state.t for state in reversed(offices.of(*key))}
    moves = sorted(led.values())
    reads = [row for row in rows if row["error"] == _LOADING]
    for cause, until in _causes(rows):
        at = bisect_right(moves, until)
        moved = moves[at - 1] if at else 0
        late = _untold(lives, [], cause, moved + _LOADED_NS, until)
        if not late:
            continue
        reading = [row for row in reads if row["invoke_t"] - moved < _READS_NS]
        if not _untold(lives, reading, cause, moved + _LOADED_NS, until):
            outcome.excuse(arm, trial, UNTOLD, "reads-groups", of=TOLD)
            continue
        yield _finding(cause, late)
        return


def _causes(rows: list[Row]) -> Iterator[tuple[_Cause, int]]:
    """And until when it holds, if nobody is told."""
    for row in rows:
        if row["step"] == "enter" and row["type"] != "info":
            yield _Cause(row, row["invoke_t"]), row["t"]
    gone = [row for row in rows if row["step"] in ("part", "last") and row["type"] == "ok"]
    enters = sorted(row["invoke_t"] for row in rows if row["step"] == "enter")
    for row in gone:
        anew = bisect_right(enters, row["t"])
        until = enters[anew] if anew < len(enters) else rows[-1]["t"]
        yield _Cause(row, row["t"] + (row["keep_ms"] or 0) * _MS), until


def _untold(
    lives: list[Row], reading: list[Row], cause: _Cause, moved: int, until: int
) -> list[Row]:
    """The answers of one coordinator in a row that ought to have told, if these are enough.
    ``lives``: in order of their answers; ``reading``: those who say that they have not read the
    group yet; ``moved``: when the last one had become it."""
    since, step = cause.t, cause.row["step"]
    if moved > cause.row["t" if step == "last" else "invoke_t"]:
        # It begins sessions anew when it has read the group, which may take it long: at the latest
        # as it answers as who has.
        later = range(bisect_right(lives, moved, key=_t), len(lives))
        answered = (lives[at]["t"] for at in later if lives[at]["type"] == "ok")
        session_ns = cause.t - cause.row["t"] if step == "last" else 0
        read = max((row["invoke_t"] for row in reading if row["t"] <= until), default=moved)
        since = max(since, max(next(answered, moved), read) + session_ns)
    run: list[Row] = []
    within = slice(bisect_left(lives, since + SURE_NS, key=_t), bisect_right(lives, until, key=_t))
    for row in lives[within]:
        elsewhere = step == "enter" and row["node"] != cause.row["node"]
        if row["invoke_t"] < since + SURE_NS or elsewhere:
            continue
        if row["error"] == REBALANCE_IN_PROGRESS:
            return []
        if row["type"] == "ok":
            if run and run[-1]["node"] != row["node"]:
                run = []
            run.append(row)
        elif run and run[-1]["node"] == row["node"]:
            run = []
        if len(run) >= OFTEN and run[-1]["invoke_t"] - run[0]["t"] > _SPAN_NS:
            return run
    return []


def _finding(cause: _Cause, late: list[Row]) -> Finding:
    row, step = late[-1], cause.row["step"]
    why = {
        "enter": "another began to wait there to join",
        "part": "another had left",
        "last": "another's session was over",
    }[step]
    group = {"group": row["group"]}
    begun = {"step": step, "node": cause.row["node"], "t": cause.row["t"]}
    return Finding(
        UNTOLD,
        f"group {row['group']}: node {row['node']} told a member that all is well "
        f"{(row['invoke_t'] - cause.t) / 1e9:.1f} s after {why}, as it had {len(late) - 1} times "
        "before",
        row["arm"],
        row["trial"],
        (
            Pick("group_step", {**group, **begun}, rows=1),
            Pick("group_step", {**group, "step": "live", "t": row["t"]}, rows=1),
        ),
    )


def _refused(row: Row, n: int) -> Finding:
    group = {"group": row["group"], "node": row["node"]}
    return Finding(
        REFUSED,
        f"group {row['group']}: node {row['node']} refused {n} commits of a member of its present "
        "generation, as a rebalance is in progress, for which that had not joined anew",
        row["arm"],
        row["trial"],
        (
            Pick("group_step", {**group, "step": "live"}, to_t=row["t"], last=True, rows=1),
            Pick("group_step", {**group, "step": "keep", "t": row["t"]}, rows=1),
        ),
    )
