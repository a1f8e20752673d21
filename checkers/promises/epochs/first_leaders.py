"""Partitions that never had a leader, by ZooKeeper's own log, for `checkers.promises.epochs`.

A new partition is led as soon as one of its replicas lives: the controller looks as a topic is made
or grows (KafkaController.onNewPartitionCreation), and for those that are New or Offline each time
that a broker comes or goes, and as it takes office (triggerOnlinePartitionStateChange). Until then
no broker that is asked names a leader.

- ``made-without-leader``: for `LIMIT_NS` one of its replicas was registered and had been seen ready
  since, the same controller was in office, no fault was in place, and nothing had been committed of
  a partition that had been made. That the next controller does it makes it no better.

Lawful, and looks similar: all of its replicas are away; the controller is paused, or cut off; its
topic is to be deleted before that. One of a topic of which ZooKeeper's log lacks the beginning may
have been led before. Without ZooKeeper a partition is made with its leader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order, written
from checkers.facts.unhindered import looked_until, one_there, unhindered
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "made-without-leader"
FIRST: Final = "partitions that were made"
LIMIT_NS: Final = 5_000_000_000
"""It takes some tenths of a second, also of Apache Kafka on a busy machine."""
Row = Mapping[str, Any]


def first_leaders(history: History, outcome: Outcome) -> Iterator[Finding]:
    dying = _dying(history)
    for made, begun_t in _made(history):
        key = key_of(made)
        outcome.saw(*key[:2], FIRST)
        ends = [begun_t if begun_t is not None else looked_until(history, key[:2])]
        ends += [t for t in dying.get(key[:3], ()) if t >= made["t"]]
        until_t = min((t for t in ends if t is not None), default=0)
        if until_t - made["t"] <= LIMIT_NS:
            continue
        within = made["t"], until_t
        begin, end = unhindered(history, key[:2], key[2], within, one_there, partition=key[3])
        if end - begin > LIMIT_NS:
            yield _finding(made, begin, end)


def _made(history: History) -> Iterator[tuple[Row, int | None]]:
    """Each time that a partition was made, and when it had its first state, or was gone (ns); None:
    never."""
    waiting: dict[Key, Row] = {}
    known: set[Key] = set()
    topics: set[tuple[str, int, str]] = set()
    for row in in_order(history):
        if row["topic"] is None:
            continue
        topic = row["arm"], row["trial"], row["topic"]
        if (row["what"], row["step"]) == ("topic", "removed"):
            for key in [key for key in waiting if key[:3] == topic]:
                yield waiting.pop(key), row["t"]
            known -= {key for key in known if key[:3] == topic}
        elif row["what"] == "topic" and row["partition"] is not None:
            if row["step"] == "created":
                topics.add(topic)
            if topic in topics and key_of(row) not in known:
                known.add(key_of(row))
                waiting[key_of(row)] = row
        elif (row["what"], row["step"]) == ("state", "created"):
            known.add(key_of(row))
            if key_of(row) in waiting:
                yield waiting.pop(key_of(row)), row["t"]
    for row in waiting.values():
        yield row, None


def _dying(history: History) -> dict[tuple[str, int, str], list[int]]:
    """By topic, when its deletion was asked for (ns)."""
    found: dict[tuple[str, int, str], list[int]] = {}
    for row in history.rows("topic_deletion"):
        if row["step"] == "requested":
            found.setdefault((row["arm"], row["trial"], row["topic"]), []).append(row["t"])
    return found


def _finding(made: Row, begin: int, end: int) -> Finding:
    arm, trial, topic, partition = key_of(made)
    state = {"what": "state", "topic": topic, "partition": partition}
    return Finding(
        RULE,
        f"{topic}-{partition} was made, and for {(end - begin) / 1e9:.1f} s one of its replicas "
        f"{list(made['replicas'] or ())} was there, a controller was in office, and nobody led it",
        arm,
        trial,
        (
            written(made),
            Pick("zk_write", {"what": "broker"}, to_t=end, rows=3, last=True),
            Pick("zk_write", {"what": "controller"}, to_t=begin, rows=1, last=True),
            Pick("zk_write", state, from_t=begin, rows=1),
        ),
    )
