"""High watermarks that fell within a broker's life, for `checkers.promises.replicas`.

A broker tells its high watermark of a partition as it takes up a role. As a leader it only raises
it. As a follower it takes over its leader's, as far as its own log goes (ReplicaFetcherThread,
UnifiedLog.maybeUpdateHighWatermark), and a new leader's may lie below what its predecessor had
told. A cut takes it along. So from one role to the next, in one boot, it falls no lower than

- it was, or
- a leader of the leader epochs from the one to the other began with, or
- the log was cut to meanwhile.

- ``high-watermark-fell``: lower. Consumers of such a leader get nothing of what they could have
  had, and whoever falls behind to there counts as in sync.

Lawful, and looks similar: a log that was deleted meanwhile, by a StopReplica or with its topic; a
role that a forger made up. Not judged: where a leader of an epoch in between did not tell with what
it began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.committed import committed
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import Key, key_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.replicas.agreement import Found, place_of

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "high-watermark-fell"
RAISED: Final = "high watermarks held against earlier ones"
_REPORTED_NS: Final = 5_000_000_000
"""So late a broker may say that it has cut its log."""
Row = Mapping[str, Any]
Place = tuple[Key, int, int | None]
"""A partition at a broker, in one boot."""


def fallen_marks(history: History, outcome: Outcome) -> Iterator[Found]:
    gone = {(row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")}
    lied = {key_of(row) for row in taken_in(history) if row["topic"] is not None}
    roles: dict[Place, list[Row]] = {}
    for row in history.rows("leader_change"):
        told = None not in (row["high_watermark"], row["leader_epoch"], row["topic"], row["node"])
        if told and row["high_watermark"] >= 0 and key_of(row)[:3] not in gone:
            roles.setdefault((key_of(row), row["node"], row["boot"]), []).append(row)
    began = _began_with(roles)
    cuts = _by_place(history, "truncation", "to_offset is not null")
    stops = _by_place(history, "replica_stop", "delete")
    for place in sorted(roles, key=lambda p: (p[0], p[1], p[2] or 0)):
        key, node, _ = place
        if key in lied:
            continue
        rows = sorted(roles[place], key=lambda row: row["t"])
        for before, now in pairwise(rows):
            if any(before["t"] <= stop["t"] <= now["t"] for stop in stops.get(place, ())):
                continue
            others = _leaders_marks(history, began, key, node, before, now)
            if others is None:
                continue
            outcome.saw(*key[:2], RAISED)
            to_t = now["t"] + _REPORTED_NS
            cut = [one for one in cuts.get(place, ()) if before["t"] <= one["t"] <= to_t]
            least = min([before["high_watermark"], *others, *(one["to_offset"] for one in cut)])
            if now["high_watermark"] < least:
                yield Found(key, _finding(key, node, before, now, least))


def _began_with(roles: Mapping[Place, list[Row]]) -> dict[tuple[Key, int, int], int]:
    """By partition, leader epoch and leader: the lowest high watermark with which it began."""
    found: dict[tuple[Key, int, int], int] = {}
    for (key, node, _), rows in roles.items():
        for row in rows:
            if row["role"] == "leader":
                at = (key, row["leader_epoch"], node)
                found[at] = min(found.get(at, row["high_watermark"]), row["high_watermark"])
    return found


def _by_place(history: History, kind: str, which: str) -> dict[Place, list[Row]]:
    found: dict[Place, list[Row]] = {}
    if history.has(kind):
        for row in history.frame(kind).where(which).toArrow().to_pylist():
            found.setdefault((key_of(row), row["node"], row["boot"]), []).append(row)
    return found


def _leaders_marks(
    history: History,
    began: Mapping[tuple[Key, int, int], int],
    key: Key,
    node: int,
    before: Row,
    row: Row,
) -> list[int] | None:
    """What the other leaders from the one role to the other began with; None: nobody knows."""
    of = committed(history).get(key)
    marks: list[int] = []
    for epoch in range(before["leader_epoch"], row["leader_epoch"] + 1):
        leaders = of.leaders.get(epoch) if of is not None else None
        if not leaders:
            return None
        for leader in leaders - {node}:
            if leader < 0:
                continue
            mark = began.get((key, epoch, leader))
            if mark is None:
                return None
            marks.append(mark)
    return marks


def _finding(key: Key, node: int, before: Row, row: Row, least: int) -> Finding:
    at = {"topic": key[2], "partition": key[3]}
    return Finding(
        RULE,
        f"node {node} took up leader epoch {row['leader_epoch']} of {place_of(key)} with a high "
        f"watermark of {row['high_watermark']}; it had told {before['high_watermark']} in leader "
        f"epoch {before['leader_epoch']}, and no leader since, and no cut, went below {least}",
        *key[:2],
        (
            Pick("leader_change", {**at, "node": node, "t": before["t"]}, rows=1),
            Pick("leader_change", {**at, "role": "leader"}, from_t=before["t"], to_t=row["t"]),
            Pick("leader_change", {**at, "node": node, "t": row["t"]}, rows=1),
        ),
    )
