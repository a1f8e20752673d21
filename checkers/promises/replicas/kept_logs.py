"""Where a replica's log ended before, and where it ends now: what a broker lost without a word.

A broker says where its log ends whenever it takes up a role (`leader_change`), and the final read
finds where it ends at last. Before that it certainly had

    what it said itself       the end at an earlier role
    what acks=all promised    any record acknowledged while it was in the committed in-sync set

In between a log grows, or is cut, which its broker tells (`truncation`), or is deleted
(`replica_stop`), or the topic is. A process that is killed loses nothing that it had written: the
operating system still has it.

So a log that ends earlier than it did, with no cut in between that went so far down, was lost: a
controlled shutdown that deletes, a recovery that cuts too much, a role that begins with an emptied
log. A shrunken log is fetched again soon, and agrees with the others; who looks only at the end
sees nothing of it, but while it lasts a record is on fewer disks than was promised. Where it was
filled again with records of a later leader epoch its files show that: they lie where others lay as
their broker began to follow in that epoch.

And a cut that is told of may not go so far: whatever acks=all promised of a broker while it was in
sync, every later leader has (KIP-101: a follower cuts where its leader's epochs part from its own,
and no longer at its high watermark), so that nobody makes it cut that. It is fetched again, and
gone for good if its leader dies meanwhile.

Lawful, and similar: a cut whose report comes just after the role that was taken up meanwhile
(`_REPORTED_NS`). What a fault took from a log (``wipe-disk``, or a story in which a disk is lost;
``torn-tail``, where it cuts) is the harness's doing, and counted: as far as it cut, and no further.
That it deleted a replica excuses no broker by its own word: somebody must have moved it, by
ZooKeeper's log, or deleted the topic, or forged a request.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.cuts import AT_THE_START
from checkers.facts.decisions import from_log
from checkers.facts.details import all_details
from checkers.facts.faults import faults
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import TP, Key, key_of, leadership
from checkers.facts.office import in_order
from checkers.facts.timeline import FROM, TO, Timeline, steps

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Replica = tuple[Key, int]
_REPORTED_NS: Final = 5_000_000_000
"""So late a broker may say that it has cut its log."""
_MARGIN_NS: Final = 100_000_000
"""What is acknowledged so shortly before a set changes, or a role begins, proves nothing."""
_CUT_MARGIN_NS: Final = 1_000_000_000
"""The same of a cut, which may be told of when it is over."""
_TAKERS: Final = frozenset({"wipe-disk", "torn-tail"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """``node``'s log of a partition had the offsets below ``before``, and later ended at ``after``.
    ``had``, of ``had_kind``, proves the one (a `leader_change`, or a `produce`), ``has`` the other
    (a `leader_change`, a `log_end`, a `truncation` down to there, or a `log_folder` with records
    from there on that are newer)."""

    key: Key
    node: int
    before: int
    after: int
    had_kind: str
    had: Row
    has_kind: str
    has: Row


@dataclass(frozen=True, slots=True)
class KeptLogs:
    """``compared``: by trial, how many ends were held against an earlier one."""

    compared: Mapping[tuple[str, int], int]
    shrunk: list[Shrunk]
    cut: list[Shrunk]
    """Cut by its broker's own word, below what had been promised of it."""
    taken: Mapping[tuple[str, int], int]
    """By trial, how many ended earlier by what a fault took from the disk, and no earlier than
    that."""


@dataclass(frozen=True, slots=True)
class _Known:
    """From ``t`` on (ns) a log certainly had the offsets below ``end``."""

    t: int
    end: int
    kind: str
    row: Row


def kept_logs(history: History) -> KeptLogs:
    """Every log that ended earlier than before without a cut."""
    ends: dict[Replica, list[tuple[int, str, Row]]] = {}
    for kind in ("leader_change", "log_end"):
        for row in history.rows(kind):
            if row["log_end_offset"] is not None and row["log_end_offset"] >= 0:
                of = ends.setdefault((key_of(row), row["node"]), [])
                of.append((row["t"], kind, row))
    for of in ends.values():
        of.sort(key=lambda end: end[0])
    told = _told_cuts(history)
    looks = {
        replica: [*ends.get(replica, []), *told.get(replica, [])] for replica in {*ends, *told}
    }
    cut, forgotten, promised = _cuts(history), _forgotten(history), _promised(history, looks)
    torn, refilled = _torn(history), _refilled(history)
    compared: dict[tuple[str, int], int] = {}
    taken: dict[tuple[str, int], int] = {}
    found: list[Shrunk] = []
    too_far: list[Shrunk] = []
    for replica in sorted({*looks, *refilled}):
        of = ends.get(replica, [])
        arm, trial, topic, _ = replica[0]
        gone = [
            *forgotten.get((arm, trial, topic, None), []),
            *forgotten.get(replica, []),
        ]
        for t, kind, one in told.get(replica, ()):
            promise = promised.get((replica, t))
            if promise is None or any(promise.t <= at <= one["t"] for at in gone):
                continue
            compared[arm, trial] = compared.get((arm, trial), 0) + 1
            low = one["to_offset"]
            if low >= promise.end:
                continue
            if _was_taken(torn, replica, promise.t, one["t"], low):
                taken[arm, trial] = taken.get((arm, trial), 0) + 1
                continue
            too_far.append(_shrunk(replica, promise, kind, one, low))
        said: _Known | None = None
        for t, kind, end in of:
            proofs = (said, promised.get((replica, t)))
            if kind == "leader_change":
                said = _Known(t, end["log_end_offset"], kind, end)
            for known in proofs:
                if known is None or any(known.t <= at <= t for at in gone):
                    continue
                compared[arm, trial] = compared.get((arm, trial), 0) + 1
                if _explained(known, t, end["log_end_offset"], cut.get(replica, [])):
                    continue
                if _was_taken(torn, replica, known.t, t, end["log_end_offset"]):
                    taken[arm, trial] = taken.get((arm, trial), 0) + 1
                    continue
                found.append(_shrunk(replica, known, kind, end, end["log_end_offset"]))
                break
        for had, low, files in refilled.get(replica, ()):
            if any(had.t <= at <= files["t"] for at in gone):
                continue
            compared[arm, trial] = compared.get((arm, trial), 0) + 1
            if _explained(had, files["t"], low, cut.get(replica, [])):
                continue
            if _was_taken(torn, replica, had.t, files["t"], low):
                taken[arm, trial] = taken.get((arm, trial), 0) + 1
                continue
            found.append(_shrunk(replica, had, "log_folder", files, low))
            break
    return KeptLogs(compared, found, too_far, taken)


def _refilled(history: History) -> dict[Replica, list[tuple[_Known, int, Row]]]:
    """Where a broker's log ended as it first followed in a leader epoch, and below that the first
    record that its files have of that epoch or a later one: it had been cut there. (Who leads may
    have appended before it says where its log ends.)"""
    first: dict[tuple[Replica, int], Row] = {}
    for row in sorted(history.rows("leader_change"), key=lambda row: row["t"]):
        first.setdefault(((key_of(row), row["node"]), row["leader_epoch"]), row)
    files = {(key_of(row), row["node"]): row for row in history.rows("log_folder")}
    found: dict[Replica, list[tuple[_Known, int, Row]]] = {}
    for (replica, epoch), role in first.items():
        folder, end = files.get(replica), role["log_end_offset"]
        if folder is None or end is None or role["role"] != "follower":
            continue
        begun = (
            each["first_offset"] for each in folder["epochs"] or () if each["leader_epoch"] >= epoch
        )
        low = min(begun, default=end)
        if low < end:
            known = _Known(role["t"], end, "leader_change", role)
            found.setdefault(replica, []).append((known, low, folder))
    return found


def _told_cuts(history: History) -> dict[Replica, list[tuple[int, str, Row]]]:
    """Truncations of a log's end, each from when on (ns) nothing that is promised says anything of
    it."""
    found: dict[Replica, list[tuple[int, str, Row]]] = {}
    for row in history.rows("truncation"):
        low, high = row["to_offset"], row["from_offset"]
        at_the_start = (row["reason"] or "").startswith(AT_THE_START)
        if row["topic"] is not None and None not in (low, high) and low < high and not at_the_start:
            t = row["t"] - (row["error_ns"] or 0) - _CUT_MARGIN_NS + _MARGIN_NS
            found.setdefault((key_of(row), row["node"]), []).append((t, "truncation", row))
    return found


def _was_taken(
    torn: Mapping[Any, list[tuple[int, int]]], replica: Replica, from_t: int, to_t: int, end: int
) -> bool:
    """Whether a fault took from that log, or that disk, and left no more than up to ``end``."""
    (arm, trial, _, _), node = replica
    steps = (*torn.get(replica, ()), *torn.get((arm, trial, node), ()))
    left = [low for at, low in steps if from_t <= at <= to_t]
    return bool(left) and end >= min(left)


def _explained(known: _Known, t: int, end: int, cuts: list[tuple[int, int]]) -> bool:
    """Whether a log that had ``known`` may end at ``end`` at ``t``."""
    return end >= known.end or any(
        known.t <= at <= t + _REPORTED_NS and to_offset <= end for at, to_offset in cuts
    )


def _shrunk(replica: Replica, known: _Known, kind: str, row: Row, after: int) -> Shrunk:
    return Shrunk(
        key=replica[0],
        node=replica[1],
        before=known.end,
        after=after,
        had_kind=known.kind,
        had=known.row,
        has_kind=kind,
        has=row,
    )


def _promised(
    history: History, ends: Mapping[Replica, list[tuple[int, str, Row]]]
) -> dict[tuple[Replica, int], _Known]:
    """By replica and the moment at which its log's end is known: the newest record that acks=all
    had promised while it was in sync, the last time before that."""
    marks: dict[Key, list[_Mark]] = {}
    for replica, of in ends.items():
        spans = sorted(_in_sync(history, *replica))
        for t, _, _ in of:
            place = bisect_left(spans, t, key=lambda span: span[0])
            if place:
                begin, over = spans[place - 1]
                mark = _Mark(replica, t, begin, min(over, t) - _MARGIN_NS)
                marks.setdefault(replica[0], []).append(mark)
    if not marks or not history.has("produce"):
        return {}
    edges = {
        key: sorted({t for mark in of for t in (mark.from_t, mark.until_t)})
        for key, of in marks.items()
    }
    newest = _newest(history, edges)
    return {
        (mark.replica, mark.t): known
        for key, of in marks.items()
        for mark, known in _of_marks(of, edges[key], newest.get(key, []))
    }


@dataclass(frozen=True, slots=True)
class _Mark:
    """``replica``'s log is known at ``t``; what was offered after ``from_t`` and acknowledged
    before ``until_t`` (ns) it must have."""

    replica: Replica
    t: int
    from_t: int
    until_t: int


def _newest(history: History, edges: Mapping[Key, list[int]]) -> dict[Key, list[Row]]:
    """The newest record that acks=all promised, by how many of its partition's edges had passed
    when it was offered (``begun``) and when it was acknowledged (``done``), ascending by ``done``:
    the load is looked at once, however many roles were taken."""
    from pyspark.sql import functions as F

    spans = [
        {**dict(zip(TP, key, strict=True)), FROM: begin, TO: end, "_number": number}
        for key, of in edges.items()
        for number, (begin, end) in enumerate(steps(of))
    ]
    timeline = Timeline(spans, TP, {"_number": "int"})
    rows = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    rows = rows.select(*TP, "invoke_t", "t", "offset", "value")
    for name, at in (("done", F.col("t")), ("begun", F.col("invoke_t") - 1)):
        rows = timeline.at(history, rows, at, "inner").withColumnRenamed("_number", name)
        rows = rows.drop(FROM, TO)
    last = F.max(F.struct("offset", "t", "value")).alias("last")
    found: dict[Key, list[Row]] = {}
    for row in rows.groupBy(*TP, "begun", "done").agg(last).toArrow().to_pylist():
        found.setdefault(key_of(row), []).append(row)
    for of in found.values():
        of.sort(key=lambda row: row["done"])
    return found


def _of_marks(
    marks: list[_Mark], edges: list[int], newest: list[Row]
) -> Iterator[tuple[_Mark, _Known]]:
    """Each mark that anything was promised before, with the newest of it."""
    by_span: dict[int, list[_Mark]] = {}
    for mark in marks:
        by_span.setdefault(mark.from_t, []).append(mark)
    for from_t, of in by_span.items():
        first = bisect_right(edges, from_t)
        place = bisect_left(newest, first, key=lambda row: row["done"])
        best: Row | None = None
        for mark in sorted(of, key=lambda mark: mark.until_t):
            passed = bisect_right(edges, mark.until_t)
            while place < len(newest) and newest[place]["done"] < passed:
                row = newest[place]
                if row["begun"] >= first and (best is None or _order(best) < _order(row["last"])):
                    best = row["last"]
                place += 1
            if best is not None:
                yield mark, _Known(best["t"], best["offset"] + 1, "produce", best)


def _order(last: Row) -> tuple[int, int]:
    return (last["offset"], last["t"])


def _in_sync(history: History, key: Key, node: int) -> list[tuple[int, int]]:
    """When (ns) that broker was certainly in the committed in-sync set: [from, until)."""
    of = leadership(history).get(key)
    spans: list[tuple[int, int]] = []
    for life in of.states if of is not None else ():
        for state, after in pairwise([*life, None]):
            assert state is not None
            if node not in (state["isr"] or ()):
                continue
            until_t = 2**62 if after is None else after["earliest_t"]
            if spans and spans[-1][1] is not None and spans[-1][1] == state["earliest_t"]:
                spans[-1] = (spans[-1][0], until_t)
            else:
                spans.append((state["t"], until_t))
    return spans


def _cuts(history: History) -> dict[Replica, list[tuple[int, int]]]:
    """When (ns, with what its clock may be off) a replica was cut, and down to where."""
    found: dict[Replica, list[tuple[int, int]]] = {}
    for row in history.rows("truncation"):
        at = (row["t"] + (row["error_ns"] or 0), row["to_offset"])
        found.setdefault((key_of(row), row["node"]), []).append(at)
    return found


def _torn(history: History) -> dict[Any, list[tuple[int, int]]]:
    """When a fault took from a log, and what it left of it: of one replica, or of all logs of a
    broker (arm, trial, node)."""
    found: dict[Any, list[tuple[int, int]]] = {}
    for fault in faults(history):
        told = all_details(fault.rows)
        if fault.emptied is not None:
            node, emptied_t = fault.emptied
            found.setdefault((*fault.trial, node), []).append((emptied_t, 0))
        if fault.name not in _TAKERS or told.get("mode", "cut") != "cut":
            continue  # or it only added to the log
        topic, _, partition = str(told.get("partition", "")).rpartition("-")
        for row in fault.rows:
            for node in row["nodes"] or ():
                at: Any = (*fault.trial, node)
                if topic and partition.isdigit():
                    at = ((*fault.trial, topic, int(partition)), node)
                found.setdefault(at, []).append((row["t"], int(told.get("from_offset", 0))))
    return found


def _forgotten(history: History) -> dict[Any, list[int]]:
    """When what was known of a log ceased to hold: of one replica, or of all of a topic's (arm,
    trial, topic, None)."""
    found: dict[Any, list[int]] = {}
    for key, t in _losses(history):
        found.setdefault(key, []).append(t)
    return found


def _losses(history: History) -> Iterator[tuple[Any, int]]:
    away = _moved_off(history)
    for row in history.rows("replica_stop"):
        replica = (key_of(row), row["node"])
        if row["delete"] and (replica in away or replica[0][:2] not in from_log(history)):
            yield replica, row["t"]
    for row in history.rows("topic_deletion"):
        yield (row["arm"], row["trial"], row["topic"], None), row["t"]


def _moved_off(history: History) -> set[Replica]:
    """Replicas that somebody else than their broker may have had deleted: ZooKeeper's log has the
    partition without them at some time, or a forger asked for it."""
    ever: dict[Key, set[int]] = {}
    always: dict[Key, set[int]] = {}
    for row in in_order(history):
        if row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
            nodes = set(row["replicas"])
            ever.setdefault(key_of(row), set()).update(nodes)
            always.setdefault(key_of(row), set(nodes)).intersection_update(nodes)
    found = {(key, node) for key, nodes in ever.items() for node in nodes - always[key]}
    for row in taken_in(history):
        if row["api"] == "STOP_REPLICA" and row["topic"] is not None:
            found.add((key_of(row), row["node"]))
    return found
