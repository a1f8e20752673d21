"""Who came into sync and cut its log afterwards, for `checkers.promises.replicas`.

A leader takes a follower into the in-sync set when that has fetched up to where the leader's log
is committed (Partition.maybeExpandIsr), and from its own leader epoch on: by then its log is a
beginning of the leader's, record by record, and its fetches in that leader epoch only append to it.
So as long as it lives, and stays in the set, it cuts nothing more in that leader epoch. One that
does was counted in sync while its log parted from its leader's: whoever was told that a record is
safe with it was told too much, whether or not anything is lost by it.

Lawful, and similar: a member of the set with which the leader epoch was begun, which cuts what was
never committed; whoever left the set meanwhile, or began anew; the head of a log. Of brokers that
number what they tell: they cut, and tell of it, before they fetch again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.cuts import AT_THE_START
from checkers.facts.leadership import Key, key_of, leadership
from checkers.facts.lives import cuts as lives_cuts
from checkers.judging.witness import Finding, Pick
from checkers.promises.replicas.agreement import Found

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "cut-in-sync"
Row = Mapping[str, Any]


def cut_in_sync(history: History) -> Iterator[Found]:
    """One finding for each such cut."""
    for row in history.rows("truncation"):
        low, high = row["to_offset"], row["from_offset"]
        at_the_start = (row["reason"] or "").startswith(AT_THE_START)
        if row["seq"] is None or row["topic"] is None or at_the_start:
            continue
        if None in (low, high, row["leader_epoch"]) or low >= high:
            continue
        key = key_of(row)
        of = leadership(history).get(key)
        joined = _joined(() if of is None else of.states, row)
        if joined is None or _began_anew(history, row, joined["t"]):
            continue
        yield Found(key, _finding(key, row, joined))


def _joined(lives: Iterable[Iterable[Row]], cut: Row) -> Row | None:
    """The committed state by which the cut's broker came into sync in the cut's leader epoch, if it
    certainly had come by then, and certainly not left."""
    for life in lives:
        joined: Row | None = None
        inside: bool | None = None
        for state in life:
            if state["leader_epoch"] != cut["leader_epoch"] or state["earliest_t"] > cut["t"]:
                continue
            member = cut["node"] in (state["isr"] or ())
            if not member:
                joined = None
            elif inside is False and state["t"] < cut["t"]:
                joined = state
            inside = member
        if joined is not None:
            return joined
    return None


def _began_anew(history: History, cut: Row, since_t: int) -> bool:
    ends = lives_cuts(history).get((cut["arm"], cut["trial"], cut["node"]), [])
    return bisect_right(ends, since_t) != bisect_right(ends, cut["t"])


def _finding(key: Key, cut: Row, joined: Row) -> Finding:
    arm, trial, topic, partition = key
    at = {"topic": topic, "partition": partition}
    version = {"partition_epoch": joined["partition_epoch"]}
    return Finding(
        RULE,
        f"node {cut['node']} cut {topic}-{partition} from offset {cut['from_offset']} down to "
        f"{cut['to_offset']} in leader epoch {cut['leader_epoch']}, in which it had come into sync",
        arm,
        trial,
        (
            Pick("leadership", {**at, **version}, rows=1),
            Pick("truncation", {**at, "node": cut["node"], "t": cut["t"]}, rows=1),
        ),
    )
