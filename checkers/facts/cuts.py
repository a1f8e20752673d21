"""Truncations, each with the demotion that led to it: what a lost record is tied to.

A broker cuts its log because it follows again. For one that had led before, the demotion is: the
last epoch in which it led below the truncation's leader epoch (``led_epoch``); the commit of the
next one (``commit_t``); and the first LeaderAndIsr to that broker that names another leader with a
higher epoch (``send_t``, from `control_send`). A record appended by that broker after ``send_t``
would have been refused, had the broker handled the request on arrival.

A replica that is deleted (StopReplica with delete) loses everything, which is a cut from 0; so does
one whose broker lost its log directory (the fault ``wipe-disk``).

Times of rows made from log files have an error (`checkers.facts.spans`): ``cut_t`` is the latest
moment that it can mean, ``send_t`` comes with its ``send_error_ns``.

Truncations and commits are few, so this is done on the driver, but for the one pass over what the
controller sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from checkers.facts.leadership import TP, Key, key_of, leadership
from checkers.facts.spans import error

if TYPE_CHECKING:
    from checkers.history.frames import History


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


def cuts(history: History) -> dict[Key, list[Cut]]:
    """By partition, in order of time; gathered once a history."""
    found: dict[Key, list[Cut]] = history.memo("cuts", lambda: _gather(history))
    return found


def _gather(history: History) -> dict[Key, list[Cut]]:
    bare: dict[Key, list[Cut]] = {}
    for row in history.rows("truncation"):
        if row["from_offset"] is not None and row["from_offset"] > row["to_offset"]:
            cut = Cut(
                node=row["node"],
                cut_t=row["t"] + (row["error_ns"] or 0),
                to_offset=row["to_offset"],
                from_offset=row["from_offset"],
                cut_epoch=row["leader_epoch"],
            )
            bare.setdefault(key_of(row), []).append(cut)
    for row in history.rows("replica_stop"):
        if row["delete"]:
            cut = Cut(
                node=row["node"], cut_t=row["t"], to_offset=0, from_offset=2**62, cut_epoch=None
            )
            bare.setdefault(key_of(row), []).append(cut)
    _wiped(history, bare)
    if not bare:
        return {}
    led, sent = _led(history, set(bare)), _demotions(history)
    return {
        key: sorted((_dated(history, key, cut, led, sent) for cut in of), key=lambda c: c.cut_t)
        for key, of in bare.items()
    }


def _wiped(history: History, bare: dict[Key, list[Cut]]) -> None:
    """A broker whose log directory was emptied lost what nobody else had, where it had led."""
    for row in history.rows("fault"):
        if row["fault"] != "wipe-disk" or row["phase"] != "injected":
            continue
        for key, of in leadership(history).items():
            if key[:2] != (row["arm"], row["trial"]):
                continue
            led = {e.leader for e in of.commits if (e.committed_t or 0) <= row["t"]}
            bare_cuts = [
                Cut(node=node, cut_t=row["t"], to_offset=0, from_offset=2**62, cut_epoch=None)
                for node in row["nodes"]
                if node in led
            ]
            if bare_cuts:
                bare.setdefault(key, []).extend(bare_cuts)


_ByNode = dict[tuple[Key, int], list[tuple[int, int, int]]]
"""(partition, node) -> (leader epoch, when in ns, its error in ns)."""


def _dated(history: History, key: Key, cut: Cut, led: _ByNode, sent: _ByNode) -> Cut:
    below = 2**31 if cut.cut_epoch is None else cut.cut_epoch
    own = [e for e, t, off in led.get((key, cut.node), ()) if e < below and t - off <= cut.cut_t]
    if not own:
        return cut
    led_epoch = max(own)
    of = leadership(history).get(key)
    commits = [
        e.committed_t
        for e in (of.commits if of is not None else ())
        if e.leader_epoch > led_epoch and e.committed_t is not None and e.committed_t <= cut.cut_t
    ]
    sends = [
        (t, off)
        for e, t, off in sent.get((key, cut.node), ())
        if e > led_epoch and t - off <= cut.cut_t
    ]
    send_t, send_error_ns = min(sends, default=(None, 0))
    return Cut(
        node=cut.node,
        cut_t=cut.cut_t,
        to_offset=cut.to_offset,
        from_offset=cut.from_offset,
        cut_epoch=cut.cut_epoch,
        led_epoch=led_epoch,
        commit_t=min(commits, default=None),
        send_t=send_t,
        send_error_ns=send_error_ns,
    )


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


def _demotions(history: History) -> _ByNode:
    """Every (partition, broker) to which a LeaderAndIsr with another leader was sent."""
    if not history.has("control_send"):
        return {}
    sent = history.frame("control_send").where("api = 'LEADER_AND_ISR'")
    each = sent.select(
        *("arm", "trial", "t", error().alias("error")),
        F.col("to").alias("node"),
        F.explode("partitions").alias("p"),
    )
    others = each.where("p.leader != node and p.leader_epoch >= 0").select(
        "arm", "trial", "t", "error", "node", "p.topic", "p.partition", "p.leader_epoch"
    )
    found: _ByNode = {}
    first = others.groupBy(*TP, "node", "leader_epoch").agg(
        F.min("t").alias("t"), F.min_by("error", "t").alias("error")
    )
    for row in first.collect():
        demoted = found.setdefault((key_of(row), row["node"]), [])
        demoted.append((row["leader_epoch"], row["t"], row["error"]))
    return found
