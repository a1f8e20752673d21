"""Kinds of rows that should be there and are not, for `checkers.promises.evidence`.

Going by who else wrote them in the run, and by what another kind says that there must have been.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.calm import brokers
from checkers.facts.decisions import from_log
from checkers.facts.leadership import SHOWN
from checkers.facts.office import in_order, in_zookeeper
from checkers.facts.tellers import tellers
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

WATCHED_NS: Final = 2_000_000_000
"""So long after a write its watch tells of it, however busy the machine."""
ELECTED_NS: Final = 5_000_000_000
"""Who is elected says so at once; a busy machine may take a second or two."""
_DOWN: Final = frozenset({"kill", "stop", "stopped", "exited", "pause"})
_HEAD: Final = "log start"
"""So begins why a head is cut off."""
Row = dict[str, Any]
STEADY: Final = ("leader_change", "metadata_update", "plane_use", "control_request")
"""What each broker that traces at all writes down in any trial: it is given partitions, hears of
them, and counts and handles what it is asked."""


def untold(history: History, key: tuple[str, int]) -> Iterator[str]:
    """Kinds of rows that should be there, going by who else wrote them in this run."""
    if key not in history.trials:
        return
    states = rows_of(history, "leadership", key)
    if any(r["source"] == SHOWN for r in states) and not _is_black_box(history, key[0]):
        yield "leaders are known from what brokers showed, of a system that can be asked for them"
    written = bool(states) and all(r["source"] != SHOWN for r in states)
    if written and history.run.arms.get(key[0], {}).get("leaders") == SHOWN:
        yield "run.json says that nobody could read what was committed, and somebody did"
    if any(r["source"] == "zk" for r in states) and key not in from_log(history):
        yield "ZooKeeper's states were watched, and its own log was not read"
    yield from _unwatched(history, key, states)
    dated = any(r["commit_ms"] for r in rows_of(history, "zk_write", key))
    if dated and history.run.clock_offset_ns is None:
        yield "ZooKeeper's clock cannot be compared with others: run.json does not tie it to them"
    system = history.run.arms.get(key[0], {}).get("sut")
    for kind in STEADY:
        told = tellers(history, kind)
        others = [t for t in told if history.run.arms.get(t[0], {}).get("sut") == system]
        if not others and kind not in (history.run.arms.get(key[0], {}).get("traces") or ()):
            continue
        expected = brokers(history).get(key, set())
        if kind == "leader_change":  # who was never in sync may have had no replica
            expected = expected & {n for r in states for n in r["isr"] or ()}
        for node in sorted(expected - told.get(key, set())):
            yield f"node {node} wrote no row of {kind}, as others did"
        if key not in told and not expected:
            yield f"nobody wrote a row of {kind}, as in other trials"
    wrote = {
        r["node"] for r in rows_of(history, "source", key) if r["node"] is not None and r["rows"]
    }
    for node in sorted(wrote - brokers(history).get(key, set())):
        yield f"nobody tells of the life of node {node}"
    yield from _unelected(history, key)
    yield from _unconnected(history, key)
    yield from _beheaded(history, key)
    sent, answered = tellers(history, "control_send"), tellers(history, "control_response")
    for node in sorted(sent.get(key, set()) - answered.get(key, set())):
        yield f"node {node} sent control requests, and tells of no answer"


def _unelected(history: History, key: tuple[str, int]) -> Iterator[str]:
    """Brokers that ZooKeeper's log has as controllers, and that tell of what they lead and follow,
    and of no election; who was ended soon after may have had no time."""
    telling = {row["node"] for row in rows_of(history, "leader_change", key)}
    elected = {r["node"] for r in rows_of(history, "controller", key) if r["event"] == "elected"}
    ends = [r for r in rows_of(history, "node_event", key) if r["event"] in _DOWN]
    silent = set()
    for row in in_order(history):
        if (row["arm"], row["trial"]) != key or row["what"] != "controller":
            continue
        node, t = row["node"], row["t"]
        if row["step"] != "created" or node not in telling - elected:
            continue
        if not any(end["node"] == node and 0 <= end["t"] - t < ELECTED_NS for end in ends):
            silent.add(node)
    for node in sorted(silent):
        yield f"ZooKeeper's log has node {node} as the controller, which tells of no election"


def _unconnected(history: History, key: tuple[str, int]) -> Iterator[str]:
    """Brokers that were never seen connected to ZooKeeper, without which none is ready: where nodes
    are processes of this machine their sockets are looked at every second, from the beginning."""
    arm = history.run.arms.get(key[0], {})
    if arm.get("runtime") != "process" or not arm.get("traces") or key not in in_zookeeper(history):
        return
    seen = {r["node"] for r in rows_of(history, "connection", key) if r["link"] == "zookeeper"}
    ready = {r["node"] for r in rows_of(history, "node_event", key) if r["event"] == "ready"}
    for node in sorted(ready - seen):
        yield f"node {node} was ready, and nobody saw a connection of it to ZooKeeper"


def _beheaded(history: History, key: tuple[str, int]) -> Iterator[str]:
    """Logs that begin later than at 0 in the end, of which a broker that numbers what it tells does
    not tell that it cut their heads: deleted on request, or by retention."""
    telling = {r["node"] for r in rows_of(history, "leader_change", key) if r["seq"] is not None}
    cut = {
        (r["topic"], r["partition"], r["node"])
        for r in rows_of(history, "truncation", key)
        if (r["reason"] or "").startswith(_HEAD)
    }
    for row in rows_of(history, "log_end", key):
        place = (row["topic"], row["partition"], row["node"])
        begins = row["error"] is None and (row["log_start_offset"] or 0) > 0
        if begins and row["node"] in telling and place not in cut:
            log = f"node {row['node']}'s log of {row['topic']}-{row['partition']}"
            yield f"{log} begins later, and it tells of no cut of its head"


def _unwatched(history: History, key: tuple[str, int], watched: list[Row]) -> Iterator[str]:
    """Partitions whose last state, by ZooKeeper's own log, nobody saw: what came last, and when, is
    then not known of them. States in between may be missed; what came in the last moment, too."""
    if not watched:
        return
    seen = {_state(row) for row in watched}
    for (topic, partition), row in sorted(_last_states(history).get(key, {}).items()):
        if row["step"] != "removed" and _state(row) not in seen:
            yield f"ZooKeeper's log has a last state of {topic}-{partition} that nobody saw"


_LastStates = dict[tuple[str, int], dict[tuple[str, int], Mapping[str, Any]]]


def _last_states(history: History) -> _LastStates:
    """By trial and partition, of topics that were not removed since; up to a moment before the
    end."""

    def make() -> _LastStates:
        until_t: dict[tuple[str, int], int] = {}
        for row in history.rows("phase"):
            if row["name"] in ("quiesce", "settle"):
                key = (row["arm"], row["trial"])
                until_t[key] = max(until_t.get(key, 0), row["t"] - WATCHED_NS)
        last: _LastStates = {}
        for one in in_order(history):
            key = (one["arm"], one["trial"])
            of = last.setdefault(key, {})
            if one["what"] == "topic" and one["step"] == "removed":
                for at in [at for at in of if at[0] == one["topic"]]:
                    del of[at]
            elif (
                one["what"] == "state"
                and one["topic"] is not None
                and one["t"] < until_t.get(key, 2**62)
            ):
                of[one["topic"], one["partition"]] = one
        return last

    found: _LastStates = history.memo("last states", make)
    return found


def _is_black_box(history: History, arm: str) -> bool:
    """By run.json: much is not judged of a system that nobody can look into."""
    return history.run.arms.get(arm, {}).get("leaders") == SHOWN


def _state(row: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(row[n] for n in ("topic", "partition", "leader", "leader_epoch"))
