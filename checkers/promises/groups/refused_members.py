"""Members that are refused what members may do, for `checkers.promises.groups`.

Who is let in is a member until it leaves, or is not heard of for its session, whatever it asks for:
what it is given (SyncGroup, step ``sync``), to keep what it had read before it joins anew
(``keep``), to be let go (``leave``, ``part``), or nothing but to live (``last``). Until somebody
else asks to join, leaves or is missed, no rebalance is in progress, either.

- ``member-refused``: it was told that it is no member (UNKNOWN_MEMBER_ID), or of another generation
  (ILLEGAL_GENERATION); or, as it asked for what it is given, that a rebalance is in progress
  (REBALANCE_IN_PROGRESS).

Rows do not tell which member asked. So a member's time is taken for the shortest of its group's,
and begins where each of them had been heard: as all that join are let in, as the first is given its
part since (of who leaves, lives for the last time, or keeps something), or as the one that stays
was told that all is well (before it keeps something: a rebalance that begins after that waits for
it, whoever comes or leaves).

Lawful, and looks similar: the same once somebody began to wait there to join, or had left; from a
broker that did not lead the group's partition all along, or was kept from answering. What is said
to ``live`` is judged by `known_members` and `told_members`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.living_groups import REBALANCE_IN_PROGRESS, Row, group_of
from checkers.promises.groups.offices import Offices, offices

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "member-refused"
WITHIN: Final = "questions of members within their time"
_MEMBERS: Final = ("sync", "keep", "leave", "part", "last")
_GOING: Final = frozenset({"leave", "part", "last"})
_DENIALS: Final = frozenset({22, 25})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID."""
_BY: Final = ("arm", "trial", "group")
_MS: Final = 1_000_000
_READ_NS: Final = 1_000_000_000
"""How late an answer may be read."""


def refused_members(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    if not history.has("group_step"):
        return
    steps = history.frame("group_step").where("group is not null and node is not null")
    steps = steps.where(steps.step.isin("enter", "live", *_MEMBERS))
    names = (*_BY, "node", "step", "type", "error", "keep_ms", "invoke_t", "t")
    judge = partial(_of_group, offices(history))
    yield from in_courses(outcome, steps.select(*names), _BY, ["t", "invoke_t"], judge)


def _of_group(offices: Offices, rows: list[Row], outcome: Outcome) -> Iterator[Finding]:
    arm, trial, _ = group_of(rows)
    enters = [row for row in rows if row["step"] == "enter"]
    times = [row["keep_ms"] for row in enters if row["keep_ms"]]
    if not times:
        return
    session_ns = min(times) * _MS
    for at, row in enumerate(rows):
        denied = row["error"] in _DENIALS or (
            row["step"] == "sync" and row["error"] == REBALANCE_IN_PROGRESS
        )
        if row["step"] not in _MEMBERS or not (denied or row["type"] == "ok"):
            continue
        since = _heard(rows, at, enters)
        if since is None or row["t"] > _runs_from(rows, since) + session_ns:
            continue
        if not offices.served(row, since["invoke_t"], row["t"]):
            continue
        outcome.saw(arm, trial, WITHIN)
        if denied:
            yield _finding(since, row)


def _runs_from(rows: Sequence[Row], since: Row) -> int:
    """Who is let in once more, as its members wait for what they are given, is told at once of the
    generation that there is: all their times run since the first of them was let in."""
    if since["step"] != "enter":
        return _from(since)
    of = [r for r in rows if r["node"] == since["node"] and r["t"] <= since["t"]]
    given_t = max((r["t"] for r in of if r["step"] == "sync"), default=0)
    in_ = [r for r in of if r["step"] == "enter" and r["type"] == "ok" and r["t"] > given_t]
    return min(map(_from, in_))


def _from(since: Row) -> int:
    """Who waits to be let in is not silent meanwhile."""
    waited = since["t"] - _READ_NS if since["step"] == "enter" else 0
    return int(max(since["invoke_t"], waited))


def _heard(rows: Sequence[Row], at: int, enters: Sequence[Row]) -> Row | None:
    """What shows that who asked (the row at that place) was a member, where nothing that came after
    it can have changed that."""
    row, since = rows[at], None
    stays = row["step"] == "keep"
    for one in (rows[i] for i in range(at - 1, -1, -1)):
        step, ok = one["step"], one["type"] == "ok"
        if step in _GOING and one["type"] != "fail" and not stays:
            return None
        if step in _GOING or one["node"] != row["node"] or one["t"] > row["invoke_t"]:
            continue
        if step == "live" and ok and stays and since is None:
            return one
        if step == "sync":
            if not ok:
                return None
            since = one
        elif step == "enter" and ok:
            if row["step"] in ("sync", "leave"):
                since = one
            joins = (e for e in enters if e["invoke_t"] < row["t"] and e["t"] > one["t"])
            anew = any(e["node"] == row["node"] for e in joins)
            return None if anew and not stays else since
    return None


def _finding(since: Row, row: Row) -> Finding:
    at = {"group": row["group"], "node": row["node"]}
    return Finding(
        RULE,
        f"group {row['group']}: node {row['node']} refused a member ({row['step']}) with error "
        f"{row['error']}, {(row['t'] - _from(since)) / 1e6:.0f} ms after it was heard of as one "
        f"({since['step']}); nobody had joined or left meanwhile",
        row["arm"],
        row["trial"],
        tuple(
            Pick("group_step", {**at, "step": one["step"], "t": one["t"]}, rows=1)
            for one in (since, row)
        ),
    )
