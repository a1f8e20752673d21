"""What the final read lacks, or tells that cannot be, for `checkers.promises.replicas`.

A replica of which no log was read cannot differ from any other: so each that was in sync in the end
must have been read, of each partition of a topic that was read at all or that the run was about.
And whose log is the leader's must be who led by ZooKeeper (the metadata log), for every other log
is held against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from checkers.facts.committed import committed
from checkers.facts.leadership import Key, key_of
from checkers.facts.replicas import last_isrs
from checkers.facts.topics import is_gone, is_removed

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Why = tuple[str, int, str]


def unread(history: History) -> Iterator[Why]:
    """By (arm, trial), why its logs cannot be judged."""
    yield from _absent(history)
    yield from _contradictions(history)


def _absent(history: History) -> Iterator[Why]:
    """Logs that should have been read: of each partition of a topic that was read at all, or that
    the run was about, that of each replica which was in sync in the end."""
    read: dict[Key, set[int]] = {}
    for row in history.rows("log_end"):
        read.setdefault(key_of(row), set()).add(row["node"])
    topics = {key[:3] for key in read} | set(history.run.topics)
    for key, isr in sorted(last_isrs(history).items()):
        if key[:3] not in topics or is_gone(history, key[:3]):
            continue
        if key not in read:
            yield *key[:2], f"no log of {_place(key)} was read"
        elif isr - read[key]:
            yield *key[:2], f"the log of {_place(key)} on node {min(isr - read[key])} was not read"


def _contradictions(history: History) -> Iterator[Why]:
    """What the final read tells of itself or of the leader, and what cannot be."""
    leaders: dict[Key, list[Row]] = {}
    for row in history.rows("log_end"):
        if row["is_leader"]:
            leaders.setdefault(key_of(row), []).append(row)
        end, hw = row["log_end_offset"], row["high_watermark"]
        if row["error"] is None and is_removed(history, key_of(row)[:3]):
            says = f"a log of {_place(key_of(row))} was read, whose topic is gone"
            yield row["arm"], row["trial"], says
        place = f"the log of {_place(key_of(row))} on node {row['node']}"
        if row["error"] is None and None in (end, hw):
            yield row["arm"], row["trial"], f"{place}: its end or high watermark is not told"
        elif row["error"] is None and hw > end:
            yield row["arm"], row["trial"], f"{place} ends at {end}, below its high watermark {hw}"
    for key, of in sorted(leaders.items()):
        if len(of) > 1:
            yield *key[:2], f"{len(of)} final logs of {_place(key)} are the leader's"
        known = committed(history).get(key)
        state = None if known is None else known.as_of(of[0]["t"])
        leads = None if state is None else state.row["leader"]
        if leads not in (None, of[0]["node"]):
            says = f"the log on node {of[0]['node']} is the leader's, and node {leads} led"
            yield *key[:2], f"of {_place(key)} {says}"


def _place(key: Key) -> str:
    return f"{key[2]}-{key[3]}"
