"""High watermarks beyond what all in sync have, for `checkers.promises.replicas`.

A broker that takes up a role in a leader epoch says how far, as it knows, records are committed
(its high watermark), and where its log ends (`leader_change`). What is committed every member of
the in-sync set has: so of the set with which the epoch was begun nobody's log ends, as that one
takes up its own role in it, below the high watermark of anybody else. Else a leader serves, as
committed, what others lack; consumers read it, and it goes when one of the others leads next.

And an end that a leader told (ListOffsets, of what consumers may read) was its high watermark:
nobody who is in sync as a later leader epoch begins lacks what is before it, whoever told it, and
when: no leader passes those who are in sync with it, and whoever comes into sync has all of that.

It holds whoever takes up his role first: from then on a follower fetches nothing more in the epoch
before, where no high watermark can pass the end of its log, as it is in sync there as well. In the
new epoch high watermarks grow from what they were. Apache Kafka's follower says where its log ends
a moment before it stops to fetch (ReplicaManager.makeFollowers): what others know within
`_FETCHES_NS` of that is not held against it.

Lawful, and similar: a broker out of sync whose log ends below; one that took up the role a second
time, after a restart in the same leader epoch (only the first counts); what a fault took from a
disk takes its broker out of the set before it is back; unclean elections (excused).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.decisions import lives
from checkers.facts.leadership import TP, Key, key_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.replicas.agreement import Found, place_of

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "high-watermark-ahead"
TAKEN: Final = "high watermarks held against the logs of all in sync"
_LATEST: Final = -1
_FETCHES_NS: Final = 3_000_000_000
"""For so long a follower that has told of its log's end may go on fetching as before."""
Row = Mapping[str, Any]


def judge_ahead(history: History, outcome: Outcome) -> Iterator[Found]:
    """One finding for each partition and leader epoch: the highest against the shortest."""
    begun, told = _sets(history), _told(history)
    for (key, epoch), took in sorted(_first_roles(history).items()):
        isr = begun.get((key, epoch))
        if isr is None:
            continue
        members = [row for node, row in sorted(took.items()) if node in isr]
        ends = [row for row in told.get(key, ()) if row["leader_epoch"] < epoch]
        ahead = _furthest(outcome, ends, "offset", members)
        if ahead is not None:
            yield Found(key, _told_ahead(key, epoch, *ahead))
            continue
        claims = [row for row in took.values() if row["high_watermark"] is not None]
        if len(members) < 2 or not claims:
            continue
        outcome.saw(*key[:2], TAKEN, len(claims))
        ahead = _furthest(outcome, claims, "high_watermark", members)
        if ahead is not None:
            yield Found(key, _finding(key, epoch, *ahead))


def _furthest(
    outcome: Outcome, claims: Sequence[Row], name: str, members: Sequence[Row]
) -> tuple[Row, Row] | None:
    """The claim that is furthest beyond the log of a member, and that member's row."""
    beyond = [
        (claim, member)
        for claim in claims
        for member in members
        if claim[name] > member["log_end_offset"]
    ]
    sure = [(claim, member) for claim, member in beyond if not _may_fetch_on(member, claim["t"])]
    if beyond and not sure:
        arm = beyond[0][1]["arm"]
        figures = outcome.arm(arm)
        figures["may_have_fetched_on"] = figures.get("may_have_fetched_on", 0) + len(beyond)
        outcome.unjudged(
            arm, "high watermarks beyond what a follower said that may have fetched on"
        )
    return max(sure, key=lambda one: one[0][name] - one[1]["log_end_offset"], default=None)


def _may_fetch_on(member: Row, t: int) -> bool:
    """Whether a log may have grown by ``t`` beyond what its follower said."""
    if member["role"] != "follower" or member["seq"] is not None:
        return False
    return bool(member["t"] - (member["error_ns"] or 0) <= t <= member["t"] + _FETCHES_NS)


def _sets(history: History) -> dict[tuple[Key, int], frozenset[int]]:
    """The in-sync set with which each leader epoch was begun, of topics with one life: brokers do
    not say of which life they speak."""
    found: dict[tuple[Key, int], frozenset[int]] = {}
    for key, of in lives(history).items():
        for state in of[0] if len(of) == 1 else ():
            if state.isr is not None:
                found.setdefault((key, state.leader_epoch), frozenset(state.isr))
    return found


def _first_roles(history: History) -> dict[tuple[Key, int], dict[int, Row]]:
    """By partition and leader epoch, how each broker took up its role in it for the first time."""
    found: dict[tuple[Key, int], dict[int, Row]] = {}
    for row in sorted(history.rows("leader_change"), key=lambda row: row["t"]):
        if row["log_end_offset"] is None or row["log_end_offset"] < 0:
            continue
        took = found.setdefault((key_of(row), row["leader_epoch"]), {})
        took.setdefault(row["node"], row)
    return found


def _told(history: History) -> dict[Key, list[Row]]:
    """By partition, the highest end that was told in each leader epoch."""
    if not history.has("listed_offset"):
        return {}
    ends = history.frame("listed_offset").where(
        f"type = 'ok' and topic is not null and asked_ms = {_LATEST} and leader_epoch >= 0"
    )
    highest = F.max(F.struct("offset", "node", "t")).alias("end")
    found: dict[Key, list[Row]] = {}
    for row in ends.groupBy(*TP, "leader_epoch").agg(highest).toArrow().to_pylist():
        found.setdefault(key_of(row), []).append(
            {**row["end"], "leader_epoch": row["leader_epoch"]}
        )
    return found


def _told_ahead(key: Key, epoch: int, end: Row, shortest: Row) -> Finding:
    arm, trial, topic, partition = key
    at = {"topic": topic, "partition": partition}
    took = {"node": shortest["node"], "t": shortest["t"]}
    return Finding(
        RULE,
        f"node {end['node']} told {end['offset']} as the end of {place_of(key)} in leader epoch "
        f"{end['leader_epoch']}; the log of node {shortest['node']}, which was in sync as epoch "
        f"{epoch} began, ended at {shortest['log_end_offset']}",
        arm,
        trial,
        (
            Pick("listed_offset", {**at, "node": end["node"], "t": end["t"]}, rows=1),
            Pick("leadership", {**at, "leader_epoch": epoch}, rows=1),
            Pick("leader_change", {**at, **took}, rows=1),
        ),
    )


def _finding(key: Key, epoch: int, highest: Row, shortest: Row) -> Finding:
    arm, trial, topic, partition = key
    at = {"topic": topic, "partition": partition, "leader_epoch": epoch}
    return Finding(
        RULE,
        f"node {highest['node']} took up leader epoch {epoch} of {place_of(key)} with a high "
        f"watermark of {highest['high_watermark']}; the log of node {shortest['node']}, which was "
        f"in sync, ended at {shortest['log_end_offset']} when that one did",
        arm,
        trial,
        (
            Pick("leadership", at, rows=1),
            *(
                Pick("leader_change", {**at, "node": row["node"], "t": row["t"]}, rows=1)
                for row in sorted((highest, shortest), key=lambda row: row["t"])
            ),
        ),
    )
