"""Who cut what the same leader had given it, or what it led with, for `checkers.promises.replicas`.

A broker that begins to follow in a leader epoch cuts its log where it parts from its leader's, and
only then fetches (AbstractFetcherThread: a partition that diverges is truncated, and nothing of
that answer is appended; KIP-101, KIP-595). From then on its log is a beginning of its leader's, and
in that leader epoch it only grows. So no cut begins beyond where the log ended as the broker took
up its role: one that does takes away what this leader had given it, and so would again. A follower
that forgets where leader epochs begin does that; what it lacks meanwhile nobody can count on.

And a leader cuts nothing (`LEADING`): its log is what all others go by, from the moment on at which
it takes up the role (Partition.makeLeader); only followers cut (AbstractFetcherThread).

Lawful, and similar: an answer of the leader before that was under way as the role changed, and is
appended all the same. So only a broker is judged that had none to wait for: it had just been
started, had led itself, or the leader before had been gone for `GONE_NS`. Of brokers that number
what they tell, and say where their logs end; heads of logs are others' matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.cuts import AT_THE_START
from checkers.facts.leadership import Key, key_of
from checkers.facts.lives import is_away
from checkers.judging.witness import Finding, Pick
from checkers.promises.replicas.agreement import Found

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "cut-while-fetching"
LEADING: Final = "cut-while-leading"
GONE_NS: Final = 1_000_000_000
"""Of a leader that has been gone for so long nothing is under way."""
Row = Mapping[str, Any]


def cut_while_fetching(history: History) -> Iterator[Found]:
    """One finding for each such cut."""
    roles: dict[tuple[Key, int, int], list[Row]] = {}
    for row in history.rows("leader_change"):
        if row["seq"] is not None:
            roles.setdefault((key_of(row), row["node"], row["boot"]), []).append(row)
    for cut in history.rows("truncation"):
        low, high = cut["to_offset"], cut["from_offset"]
        at_the_start = (cut["reason"] or "").startswith(AT_THE_START)
        if cut["seq"] is None or None in (low, high) or low >= high or at_the_start:
            continue
        mine = roles.get((key_of(cut), cut["node"], cut["boot"]), [])
        before = sorted((r for r in mine if r["seq"] < cut["seq"]), key=lambda row: row["seq"])
        if before and before[-1]["role"] == "leader":
            yield Found(key_of(cut), _led(cut, before[-1]))
        if not before or not _follows(before[-1], cut["leader_epoch"]):
            continue
        end = before[-1]["log_end_offset"]
        if end is None or not 0 <= end < high or not _undisturbed(history, before):
            continue
        yield Found(key_of(cut), _given(cut, before[-1]))


def _follows(role: Row, leader_epoch: int | None) -> bool:
    return bool(role["role"] == "follower" and role["leader_epoch"] == leader_epoch)


def _undisturbed(history: History, roles: list[Row]) -> bool:
    """Nothing was under way to it from the leader before as it took up the last of these roles."""
    if len(roles) == 1 or roles[-2]["role"] == "leader":
        return True
    now, former = roles[-1], roles[-2]["leader"]
    node = (now["arm"], now["trial"], former)
    return former is not None and is_away(history, node, now["t"] - GONE_NS, now["t"])


def _led(cut: Row, role: Row) -> Finding:
    says = (
        f"node {cut['node']} led {cut['topic']}-{cut['partition']} in leader epoch "
        f"{role['leader_epoch']}, and cut its log from {cut['from_offset']} down to "
        f"{cut['to_offset']}"
    )
    return _finding(LEADING, says, cut, role)


def _given(cut: Row, role: Row) -> Finding:
    says = (
        f"node {cut['node']} began to follow node {role['leader']} in leader epoch "
        f"{role['leader_epoch']} of {cut['topic']}-{cut['partition']} with a log up to offset "
        f"{role['log_end_offset']}, was given more, and cut it from {cut['from_offset']} down to "
        f"{cut['to_offset']}"
    )
    return _finding(RULE, says, cut, role)


def _finding(rule: str, says: str, cut: Row, role: Row) -> Finding:
    own = {"topic": cut["topic"], "partition": cut["partition"], "node": cut["node"]}
    return Finding(
        rule,
        says,
        cut["arm"],
        cut["trial"],
        (
            Pick("leader_change", {**own, "t": role["t"]}, rows=1),
            Pick("truncation", {**own, "t": cut["t"]}, rows=1),
        ),
    )
