"""What a broker tells of one log while it lives, row by row: its roles, its cuts, its end.

Who leads or follows says in which leader epoch, and how far its log goes (`leader_change`); who
cuts its log says where it ended, and in which leader epoch it follows (`truncation`). Of one boot
that numbers its rows these are one course: a cut of a log's end is in a leader epoch of which its
broker took up a role in that boot, and from no lower than where the log ended by the role, or the
cut, before.

Lawful, and similar: a cut that is told of after the next role was taken up, by another thread; what
goes at a log's beginning; a replica that was stopped, and is wanted again. A high watermark that
falls: a follower takes its leader's, and a new leader may not have heard of the last one (KIP-207).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.cuts import AT_THE_START

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = dict[str, Any]
Trial = tuple[str, int]
_LOG: Final = ("arm", "trial", "node", "boot", "topic", "partition")
_KINDS: Final = ("leader_change", "truncation", "replica_stop")


def out_of_course(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: how many cuts of each broker."""
    counts: Counter[tuple[Trial, int]] = Counter()
    for of in _told(history).values():
        for row in _odd_cuts(of):
            counts[(row["arm"], row["trial"]), row["node"]] += 1
    for (key, node), n in sorted(counts.items()):
        says = "in a leader epoch of which it took up no role, or from where its log did not end"
        yield key, f"node {node} tells of {n} cuts {says}"


def _told(history: History) -> dict[tuple[Any, ...], list[tuple[str, Row]]]:
    """By log and boot, in the order in which it was told."""
    found: dict[tuple[Any, ...], list[tuple[str, Row]]] = {}
    for kind in _KINDS:
        for row in history.rows(kind):
            at_the_start = kind == "truncation" and str(row["reason"]).startswith(AT_THE_START)
            if None not in (row["seq"], row["boot"], row["topic"]) and not at_the_start:
                found.setdefault(tuple(row[name] for name in _LOG), []).append((kind, row))
    for of in found.values():
        of.sort(key=lambda told: told[1]["seq"])
    return found


def _odd_cuts(of: list[tuple[str, Row]]) -> Iterator[Row]:
    epochs = {row["leader_epoch"] for kind, row in of if kind == "leader_change"}
    end: int | None = None
    epoch: int | None = None
    for kind, row in of:
        if kind == "replica_stop":
            end = epoch = None
        elif kind == "leader_change":
            end, epoch = row["log_end_offset"], row["leader_epoch"]
        elif row["leader_epoch"] not in epochs:
            yield row
        elif row["leader_epoch"] == epoch and None not in (row["from_offset"], row["to_offset"]):
            if end is not None and row["from_offset"] < end:
                yield row
            end = row["to_offset"]
