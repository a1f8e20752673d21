"""Truncations, each with the demotion that led to it: what a lost record is tied to.

A broker cuts its log because it follows again. For one that had led before, the demotion is: the
last epoch in which it led below the truncation's leader epoch (``led_epoch``); the commit of the
next one (``commit_t``); and the first LeaderAndIsr to that broker that names another leader with a
higher epoch (``send_t``, from `control_send`). A record appended by that broker after ``send_t``
would have been refused, had the broker handled the request on arrival.

A replica that is deleted (StopReplica with delete) loses everything, which is a cut from 0; so does
one whose broker lost its log directory (the fault ``wipe-disk``).

What a broker says that it cut explains a loss only where ZooKeeper (the metadata log) agrees:
``wrong`` says why not. A follower cuts what its leader does not have, so there must be a leader:
the epoch that it follows in was committed by then, with another broker as its leader. A replica is
deleted with its topic, or when it is moved away: then it is no replica of it in the end, as
ZooKeeper told whoever read the logs; or ZooKeeper's own log has the partition without it at that
time, or soon after (a reassignment stops who leaves before it writes that down), or at some time
since the leader epoch that the broker has taken up was committed (it handles late what it was sent
then, but in order), and it was moved back later. A forged request may have brought about either.

Times of rows made from log files have an error (`checkers.facts.spans`): ``cut_t`` is the latest
moment that it can mean, ``send_t`` comes with its ``send_error_ns``.

Truncations and commits are few, so this is done on the driver, but for the one pass over what the
controller sent, of which only the send before each cut comes to it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.faults import faults
from checkers.facts.leadership import (
    SEEN_WITHIN_NS,
    TP,
    Epoch,
    Key,
    Leadership,
    key_of,
    last_sighting,
    leadership,
)
from checkers.facts.office import in_order
from checkers.facts.spans import error
from checkers.facts.unions import united

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
AT_THE_START: Final = "log start"
"""So begins the reason of what was cut off a log's beginning."""
_ALL: Final = 2**62
"""The end of a log that was deleted whole."""
_MOVED_NS: Final = 5_000_000_000
"""So long after a replica was stopped for good an assignment without it is written, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Node ``node`` lost [to_offset, from_offset) at ``cut_t`` (ns), following in ``cut_epoch``."""

    node: int
    cut_t: int
    to_offset: int
    from_offset: int
    cut_epoch: int | None
    led_epoch: int | None = None
    commit_t: int | None = None
    send_t: int | None = None
    send_error_ns: int = 0
    by_fault: bool = False
    """The harness took it: its fault ``wipe-disk``."""
    as_leader: bool = False
    """It had begun to lead in that leader epoch, with a log beyond that, by its rows' numbers."""
    wrong: str | None = None
    """Why it is not lawful; None: it is, or nothing is known against it."""

    @property
    def whole(self) -> bool:
        """The replica was deleted."""
        return self.from_offset == _ALL


def cuts(history: History) -> dict[Key, list[Cut]]:
    """By partition, in order of time; gathered once a history."""
    found: dict[Key, list[Cut]] = history.memo("cuts", lambda: _gather(history))
    return found


def _gather(history: History) -> dict[Key, list[Cut]]:
    bare: dict[Key, list[Cut]] = {}
    begun = _begun(history)
    for row in history.rows("truncation"):
        if (row["reason"] or "").startswith(AT_THE_START):
            continue  # what may go there is told by topics and final logs (`accounts.lawful_start`)
        if row["from_offset"] is not None and row["from_offset"] > row["to_offset"]:
            cut = Cut(
                node=row["node"],
                cut_t=row["t"] + (row["error_ns"] or 0),
                to_offset=row["to_offset"],
                from_offset=row["from_offset"],
                cut_epoch=row["leader_epoch"],
                as_leader=_as_leader(row, begun.get((*key_of(row), *_life(row)))),
            )
            bare.setdefault(key_of(row), []).append(cut)
    for row in history.rows("replica_stop"):
        if row["delete"]:
            cut = Cut(
                node=row["node"], cut_t=row["t"], to_offset=0, from_offset=_ALL, cut_epoch=None
            )
            bare.setdefault(key_of(row), []).append(cut)
    _wiped(history, bare)
    if not bare:
        return {}
    watched, hosts, assigned = last_sighting(history), replicas(history), _assigned(history)
    taken_up = _taken_up(history, bare)
    others = {key: Others(of) for key, of in leadership(history).items() if key in bare}
    found: dict[Key, list[Cut]] = {}
    for key, dated in _dated(history, bare):
        of = others.get(key)
        wrong = None
        if dated.whole and not dated.by_fault:
            since_t = of.since(taken_up(key, dated)) if of else None
            wrong = _wrong_removal(dated, hosts.get(key, set()), assigned.get(key, []), since_t)
        elif not dated.by_fault:
            wrong = wrong_truncation(dated, of, watched.get(key[:2], 0))
        found.setdefault(key, []).append(replace(dated, wrong=wrong))
    return {key: sorted(of, key=lambda cut: cut.cut_t) for key, of in found.items()}


def _life(row: Row) -> tuple[int, int | None, int | None]:
    return row["node"], row["boot"], row["leader_epoch"]


def _begun(history: History) -> dict[tuple[Any, ...], Row]:
    """How brokers that number what they tell took up each lead."""
    return {
        (*key_of(row), *_life(row)): row
        for row in history.rows("leader_change")
        if row["role"] == "leader" and row["seq"] is not None
    }


def _taken_up(history: History, bare: Mapping[Key, Sequence[Cut]]) -> Callable[[Key, Cut], int]:
    """The leader epoch that a broker had taken up last before it deleted its replica; -1: none."""
    wanted = {(key, cut.node) for key, of in bare.items() for cut in of if cut.whole}
    told: dict[tuple[Key, int], list[tuple[int, int]]] = {}
    for row in history.rows("leader_change") if wanted else ():
        place = (key_of(row), row["node"])
        if place in wanted and row["leader_epoch"] is not None:
            told.setdefault(place, []).append((row["t"], row["leader_epoch"]))
    in_time = {place: sorted(of) for place, of in told.items()}

    def last(key: Key, cut: Cut) -> int:
        of = in_time.get((key, cut.node), [])
        before = bisect_right(of, cut.cut_t, key=lambda each: each[0])
        return of[before - 1][1] if before else -1

    return last


def _as_leader(cut: Row, begun: Row | None) -> bool:
    if begun is None or cut["seq"] is None or begun["log_end_offset"] is None:
        return False
    return bool(begun["seq"] < cut["seq"] and begun["log_end_offset"] > cut["to_offset"])


def replicas(history: History) -> dict[Key, set[int]]:
    """Who was a replica in the end: the final read asks ZooKeeper, and every replica."""
    found: dict[Key, set[int]] = {}
    for row in history.rows("log_end"):
        found.setdefault(key_of(row), set()).add(row["node"])
    return found


def wrong_truncation(cut: Cut, of: Others | None, watched_until: int) -> str | None:
    """What ZooKeeper has against a truncation; None where it has nothing, or was not watched.

    Lawful, and similar: a broker that reports its cut only when it was told to lead already; so a
    cut is not held against a leader of less than a second, if another led before it, unless it had
    told of a log beyond that as it took up the lead.
    """
    if of is None:
        return None
    if cut.cut_epoch is None:
        return None if of.led_by(cut) else "no other leader had been committed"
    same = of.epochs.get(cut.cut_epoch)
    if same is None:
        seen = cut.cut_epoch < 0 or cut.cut_t + SEEN_WITHIN_NS < watched_until
        return f"leader epoch {cut.cut_epoch} was never committed" if seen else None
    if any(e.committed_t is None or of.led(e, cut) for e in same):
        return None
    own = [e for e in same if e.leader == cut.node]
    if not own:
        return f"leader epoch {cut.cut_epoch} was committed only later"
    begun = max(e.committed_t for e in own if e.committed_t is not None)
    late = cut.cut_t <= begun + SEEN_WITHIN_NS and not cut.as_leader
    if late and of.led_by(cut, below=cut.cut_epoch):
        return None
    return f"it led in leader epoch {cut.cut_epoch} itself"


class Others:
    """A partition's epochs, asked whether somebody else than who cut led by then. One thread."""

    def __init__(self, of: Leadership) -> None:
        self.epochs: dict[int, list[Epoch]] = {}
        for epoch in of.epochs:
            self.epochs.setdefault(epoch.leader_epoch, []).append(epoch)
        self._commits = sorted(of.commits, key=lambda e: e.leader_epoch)
        self._first: dict[int, tuple[list[int], list[int]]] = {}

    def led(self, epoch: Epoch, cut: Cut) -> bool:
        """Whether that epoch is another's, and can have been committed by then."""
        other = epoch.leader != cut.node and epoch.earliest_t is not None
        return other and (epoch.earliest_t or 0) <= cut.cut_t

    def since(self, leader_epoch: int) -> int | None:
        """When that epoch may have been committed first (ns)."""
        times = (epoch.earliest_t for epoch in self.epochs.get(leader_epoch, ()))
        return min((t for t in times if t is not None), default=None)

    def led_by(self, cut: Cut, below: int = 2**31) -> bool:
        """Whether any epoch below is."""
        if cut.node not in self._first:
            others = [e for e in self._commits if e.leader != cut.node]
            dated = [(e.leader_epoch, e.earliest_t) for e in others if e.earliest_t is not None]
            first = list(accumulate((t for _, t in dated), min))
            self._first[cut.node] = ([epoch for epoch, _ in dated], first)
        numbers, first = self._first[cut.node]
        place = bisect_left(numbers, below)
        return place > 0 and first[place - 1] <= cut.cut_t


def _wrong_removal(
    cut: Cut, hosts: set[int], assigned: list[tuple[int, frozenset[int]]], since_t: int | None
) -> str | None:
    if cut.node not in hosts:
        return None
    before = [(t, replicas) for t, replicas in assigned if t <= cut.cut_t]
    since = [replicas for t, replicas in before if since_t is not None and t >= since_t]
    soon = [replicas for t, replicas in assigned if cut.cut_t < t <= cut.cut_t + _MOVED_NS]
    now = [replicas for _, replicas in before[-1:]]
    if any(cut.node not in replicas for replicas in (*now, *since, *soon)):
        return None
    return "it is a replica to the end"


def _assigned(history: History) -> dict[Key, list[tuple[int, frozenset[int]]]]:
    """Each partition's replicas from when on (ns, as early as it may have been), as ZooKeeper's own
    log has it; those that are to leave among them."""
    found: dict[Key, list[tuple[int, frozenset[int]]]] = {}
    offset_ns = history.run.clock_offset_ns
    for row in in_order(history) if offset_ns is not None else ():
        if row["what"] == "topic" and row["partition"] is not None and row["commit_ms"] is not None:
            t = row["commit_ms"] * 1_000_000 + (offset_ns or 0) - history.run.clock_error_ns
            found.setdefault(key_of(row), []).append((t, frozenset(row["replicas"] or ())))
    return found


def _wiped(history: History, bare: dict[Key, list[Cut]]) -> None:
    """A broker whose log directory was emptied lost what nobody else had, where it had led."""
    for trial, node, wiped_t in _emptied(history):
        for key, of in leadership(history).items():
            led = {e.leader for e in of.commits if (e.committed_t or 0) <= wiped_t}
            if key[:2] == trial and node in led:
                cut = Cut(
                    node=node,
                    cut_t=wiped_t,
                    to_offset=0,
                    from_offset=_ALL,
                    cut_epoch=None,
                    by_fault=True,
                )
                bare.setdefault(key, []).append(cut)


def _emptied(history: History) -> Iterator[tuple[tuple[str, int], int, int]]:
    """(arm, trial), node, and when a fault had emptied its disk (ns)."""
    for fault in faults(history):
        if fault.emptied is not None:
            yield fault.trial, *fault.emptied
        for row in fault.rows if fault.name == "wipe-disk" else ():
            if row["phase"] == "injected":
                yield from ((fault.trial, node, row["t"]) for node in row["nodes"] or ())


_ByNode = dict[tuple[Key, int], list[tuple[int, int, int]]]
"""(partition, node) -> (leader epoch, when in ns, its error in ns)."""


def _dated(history: History, bare: dict[Key, list[Cut]]) -> Iterator[tuple[Key, Cut]]:
    """Each cut with the demotion that led to it."""
    led = _led(history, set(bare))
    for of in led.values():
        of.sort()
    pairs = [(key, cut, _led_epoch(cut, led.get((key, cut.node), []))) for key in bare
             for cut in bare[key]]  # fmt: skip
    sends, commits = _sends(history, pairs), _Commits(history)
    for number, (key, cut, led_epoch) in enumerate(pairs):
        if led_epoch is None:
            yield key, cut
            continue
        send_t, send_error_ns = sends.get(number, (None, 0))
        yield (
            key,
            replace(
                cut,
                led_epoch=led_epoch,
                commit_t=commits.after(key, led_epoch, cut.cut_t),
                send_t=send_t,
                send_error_ns=send_error_ns,
            ),
        )


def _led_epoch(cut: Cut, led: list[tuple[int, int, int]]) -> int | None:
    """The last epoch, ``led`` ascending, in which that node led before it cut."""
    below = 2**31 if cut.cut_epoch is None else cut.cut_epoch
    place = bisect_left(led, below, key=lambda one: one[0])
    return next((e for e, t, off in reversed(led[:place]) if t - off <= cut.cut_t), None)


class _Commits:
    """By partition and leader epoch, when that or a higher one was first committed."""

    def __init__(self, history: History) -> None:
        self._known = leadership(history)
        self._first: dict[Key, tuple[list[int], list[int]]] = {}

    def after(self, key: Key, leader_epoch: int, until_t: int) -> int | None:
        """The first commit of a higher epoch, if it was by then (ns)."""
        if key not in self._first:
            of = self._known.get(key)
            dated = sorted((e.leader_epoch, e.committed_t or 0) for e in (of.commits if of else ()))
            first = list(accumulate((t for _, t in reversed(dated)), min))[::-1]
            self._first[key] = ([epoch for epoch, _ in dated], first)
        epochs, first = self._first[key]
        place = bisect_right(epochs, leader_epoch)
        found = first[place] if place < len(epochs) else None
        return found if found is not None and found <= until_t else None


def _led(history: History, wanted: set[Key]) -> _ByNode:
    """Which broker led in which epoch: as committed, and as the broker itself said."""
    found: _ByNode = {}
    for key in wanted:
        of = leadership(history).get(key)
        for epoch in of.commits if of is not None else ():
            if epoch.leader is not None and epoch.committed_t is not None:
                led = found.setdefault((key, epoch.leader), [])
                led.append((epoch.leader_epoch, epoch.committed_t, 0))
    for row in history.rows("leader_change"):
        if row["role"] == "leader" and key_of(row) in wanted:
            led = found.setdefault((key_of(row), row["node"]), [])
            led.append((row["leader_epoch"], row["t"], row["error_ns"] or 0))
    return found


def _sends(
    history: History, pairs: list[tuple[Key, Cut, int | None]]
) -> dict[int, tuple[int, int]]:
    """By cut, when the first LeaderAndIsr with another leader and a higher epoch than it had led in
    was sent to that broker before it cut, and that time's error (ns)."""
    if not history.has("control_send"):
        return {}
    names = [*TP, "node"]
    asked = history.table(
        [
            {**dict(zip(TP, key, strict=True)), "node": cut.node, "epoch": led, "number": number,
             "cut_t": cut.cut_t}
            for number, (key, cut, led) in enumerate(pairs)
            if led is not None
        ],
        "arm string, trial int, topic string, partition int, node int, epoch int, number int, "
        "cut_t bigint",
    )  # fmt: skip
    sent = history.frame("control_send").where("api = 'LEADER_AND_ISR'")
    each = sent.select(
        *("arm", "trial", "t", error().alias("error")),
        F.col("to").alias("node"),
        F.explode("partitions").alias("p"),
    )
    others = each.where("p.leader != node and p.leader_epoch >= 0").select(
        "arm", "trial", "p.topic", "p.partition", "node", F.col("p.leader_epoch").alias("epoch"),
        F.struct("t", "error").alias("send"),
    )  # fmt: skip
    others = others.join(F.broadcast(asked.select(*names).distinct()), names, "left_semi")
    first = others.groupBy(*names, "epoch").agg(F.min("send").alias("send"))
    both = united(asked, first)
    down = Window.partitionBy(*names).orderBy(F.col("epoch").desc(), F.col("number").isNull())
    above = F.min("send").over(down.rowsBetween(Window.unboundedPreceding, -1))
    found = both.withColumn("_send", above).where("number is not null")
    found = found.where("_send.t - _send.error <= cut_t")
    rows = found.select("number", "_send.t", "_send.error").collect()
    return {row["number"]: (row["t"], row["error"]) for row in rows}
