"""What was seen of ZooKeeper's znodes while a trial lasted, against its own log read in the end.

The log is whole and in order, so that what anybody saw is in it, as it was seen:

    leadership       each state that a watch saw was written: the leader, epochs, in-sync set, time
    topic_deletion   a topic that was seen to be gone was removed by a write of that time
    node_event       a registration that was seen was made, with its broker epoch; and where any
                     was made, somebody saw one
    isr_change       a leader whose in-sync set was written took it up, if it lived on; and what it
                     took up was written so: the set, by that leader, in that leader epoch
    leader_change    who leads or follows does so under a controller epoch that there was, or that a
                     forger made somebody believe (`checkers.facts.forgeries`)
    fault            who was to be made leader was, by the time that this is said to have been done
    final_state      each partition's state in the end is the last one by then, and of no topic
                     that a log of all there ever was does not have

What came before the log begins is held against nothing. Lawful, and similar: a state that nobody
saw; a write between two looks; a topic that was made again, whose states' versions begin anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import details
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Trial = tuple[str, int]
_LOOKED_NS: Final = 2_000_000_000
"""How long it takes, at most, to look at all partitions in the end."""
_RAISED: Final = ("controller_epoch", "set")
_TOLD_NS: Final = 10_000_000_000
"""A leader that lives so long after the write has heard of it."""


def unlogged(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: how many rows of which kind."""
    writes: dict[Trial, list[Row]] = {}
    for row in in_order(history):
        writes.setdefault((row["arm"], row["trial"]), []).append(row)
    if not writes:
        return
    counts: Counter[tuple[Trial, str]] = Counter()
    for key, log in writes.items():
        begins_ms = min((row["commit_ms"] or 0 for row in log), default=0)
        counts.update((key, what) for what in _of_trial(history, key, log, begins_ms))
    for (key, what), n in sorted(counts.items()):
        yield key, f"{n} {what}, and by ZooKeeper's own log it was not so"


def _of_trial(history: History, key: Trial, log: list[Row], begins_ms: int) -> Iterator[str]:
    states = [row for row in log if row["what"] == "state" and row["isr"] is not None]
    written = {_state(row) for row in states}
    for row in _mine(history, "leadership", key):
        told = row["source"] == "zk" and row["isr"] is not None and row["commit_ms"] is not None
        if told and row["commit_ms"] > begins_ms and _state(row) not in written:
            yield "states of partitions were watched"
    removed = {
        (row["topic"], row["commit_ms"])
        for row in log
        if (row["what"], row["step"]) == ("topic", "removed")
    }
    for row in _mine(history, "topic_deletion", key):
        gone = row["step"] == "gone" and row["commit_ms"] is not None
        if gone and (row["topic"], row["commit_ms"]) not in removed:
            yield "topics were seen to be gone"
    events = _mine(history, "node_event", key)
    yield from _registrations(events, log)
    yield from _taken_up(history, key, states, events)
    yield from _written(history, key, states)
    yield from _moved(_mine(history, "fault", key), states)
    raised = {r["controller_epoch"] for r in log if (r["what"], r["step"]) == _RAISED}
    ruled = raised | {row["controller_epoch"] for row in states}
    lies = {(key_of(row), row["node"], row["controller_epoch"]) for row in taken_in(history)}
    for row in _mine(history, "leader_change", key):
        epoch = row["controller_epoch"]
        lied = (key_of(row), row["node"], epoch) in lies
        if epoch is not None and epoch not in ruled and not lied:
            yield "roles were taken up under controller epochs"
    whole = any((r["what"], r["step"]) == ("controller_epoch", "created") for r in log)
    yield from _last(_mine(history, "final_state", key), states, whole=whole)


def _mine(history: History, kind: str, key: Trial) -> list[Row]:
    return list(rows_of(history, kind, key))


def _state(row: Row) -> tuple[Any, ...]:
    names = ("topic", "partition", "partition_epoch", "leader", "leader_epoch", "controller_epoch")
    return (*(row[name] for name in names), tuple(sorted(row["isr"])), row["commit_ms"])


def _registrations(events: list[Row], log: list[Row]) -> Iterator[str]:
    """Of each broker, no more than there were since the log begins."""
    made: dict[int, list[int]] = {}
    for row in log:
        if (row["what"], row["step"]) == ("broker", "created") and row["node"] is not None:
            made.setdefault(row["node"], []).append(row["zxid"])
    seen = [row for row in events if row["event"] == "registered"]
    if made and not seen:
        yield "brokers were never seen to register"
    since_t = min(row["t"] for row in log) + _LOOKED_NS
    counts: Counter[int] = Counter()
    for row in seen if made else ():
        by = details(dict(row)).get("broker_epoch")
        counts[row["node"]] += row["t"] >= since_t if by is None else by >= log[0]["zxid"]
        if by is not None and by >= log[0]["zxid"] and by not in made.get(row["node"], ()):
            yield f"registrations of node {row['node']} were seen to have broker epoch {by}"
    for node, n in sorted(counts.items()):
        if n > len(made.get(node, ())):
            yield f"registrations of node {node} were seen"


def _taken_up(history: History, key: Trial, states: list[Row], events: list[Row]) -> Iterator[str]:
    """In-sync sets that were written within a leader epoch, and that its leader does not tell of:
    of brokers that number what they tell, and that were not ended about then."""
    sources = _mine(history, "source", key)
    telling = {r["node"] for r in sources if r["node"] is not None and r["last_seq"] is not None}
    told = {
        (*key_of(row), row["node"], row["partition_epoch"])
        for row in _mine(history, "isr_change", key)
    }
    by: dict[Key, list[Row]] = {}
    for row in states:
        by.setdefault(key_of(row), []).append(row)
    for at, of in by.items():
        for before, row, after in zip(of, of[1:], [*of[2:], None], strict=False):
            same = all(before[name] == row[name] for name in ("leader", "leader_epoch"))
            grew = same and row["step"] == "set" and set(before["isr"]) != set(row["isr"])
            one = (*at, row["leader"], row["partition_epoch"])
            if not grew or row["leader"] not in telling or one in told:
                continue
            if not _over(row, after) and not _ended(events, row):
                yield "in-sync sets were not taken up by their leaders"


def _written(history: History, key: Trial, states: list[Row]) -> Iterator[str]:
    """In-sync sets that were taken up, of versions of their states that the log has: of brokers
    that number what they tell."""
    sets: dict[tuple[Any, ...], set[tuple[Any, ...]]] = {}
    for row in (row for row in states if row["partition_epoch"] is not None):
        of = sets.setdefault((*key_of(row), row["partition_epoch"]), set())
        of.add((row["leader"], row["leader_epoch"], tuple(sorted(row["isr"]))))
    for row in _mine(history, "isr_change", key):
        of = sets.get((*key_of(row), row["partition_epoch"]), set())
        one = (row["node"], row["leader_epoch"], tuple(sorted(row["isr"] or ())))
        if row["seq"] is not None and of and one not in of:
            yield "in-sync sets were taken up"


def _over(row: Row, after: Row | None) -> bool:
    """Whether a leader epoch was over so soon that its leader may never have heard the answer."""
    if after is None or after["leader_epoch"] == row["leader_epoch"]:
        return False
    return bool(after["t"] - row["t"] < _TOLD_NS)


def _ended(events: list[Row], row: Row) -> bool:
    """Whether the leader of a state was ended or paused about when that was written."""
    return any(
        event["node"] == row["leader"]
        and event["event"] in ("kill", "stop", "stopped", "exited", "pause")
        and event["t"] > row["t"] - _LOOKED_NS
        and event["t"] < row["t"] + _TOLD_NS
        for event in events
    )


def _moved(faults: list[Row], states: list[Row]) -> Iterator[str]:
    """What the harness says that it moved, and to whom."""
    led = {(f"{row['topic']}-{row['partition']}", row["leader"]): row for row in reversed(states)}
    for row in faults:
        moves = details(dict(row)).get("moves") if row["phase"] == "injected" else None
        for move in moves if isinstance(moves, list) else ():
            if not isinstance(move, dict) or move.get("to") is None or row["took_hold"] is False:
                continue
            state = led.get((str(move.get("partition")), move["to"]))
            if state is None or state["t"] - (state["error_ns"] or 0) > row["t"]:
                yield "moves of leaders were put in place"


def _last(ends: list[Row], states: list[Row], *, whole: bool) -> Iterator[str]:
    by: dict[Key, list[Row]] = {}
    for row in states:
        by.setdefault(key_of(row), []).append(row)
    for row in ends:
        if row["what"] != "partition" or row["isr"] is None:
            continue
        if key_of(row) not in by:
            if whole:
                yield "states of partitions were read in the end"
            continue
        of = by[key_of(row)]
        then = [
            state
            for state, after in zip(of, [*of[1:], None], strict=True)
            if after is None or after["t"] + (after["error_ns"] or 0) > row["t"] - _LOOKED_NS
        ]
        if not any(_shown(row) == _shown(state) for state in then):
            yield "states of partitions were read in the end"


def _shown(row: Row) -> tuple[Any, ...]:
    return (row["leader"], row["leader_epoch"], tuple(sorted(row["isr"])))
