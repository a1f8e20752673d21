"""Who cut what it had called committed, for `checkers.promises.replicas`.

A broker that takes up a role says how far, as it knows, records are committed (its high watermark).
That much all in sync have, and whoever leads later was in sync: so no leader's log parts from this
one below it, and a follower cuts where they part (KIP-101, KIP-279). In the same life of the broker
no cut goes below what it said: one that does takes away what consumers were given, and a replica
that counts as one of a committed record does not have it until it is fetched again.

Lawful, and similar: high watermarks grow after a role is taken up, and a cut below a later one is
not seen here; a broker that began anew, whose high watermark is as old as its checkpoint; a replica
that was stopped meanwhile; the head of a log; unclean elections (excused). Of brokers that number
what they tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.cuts import AT_THE_START
from checkers.facts.leadership import Key, key_of
from checkers.judging.witness import Finding, Pick
from checkers.promises.replicas.agreement import Found

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "cut-below-watermark"
Row = Mapping[str, Any]
_Log = tuple[Key, int, int]


def cut_below(history: History) -> Iterator[Found]:
    """One finding for each such cut."""
    told: dict[_Log, list[tuple[str, Row]]] = {}
    for kind in ("leader_change", "truncation", "replica_stop"):
        for row in history.rows(kind):
            at_the_start = kind == "truncation" and str(row["reason"]).startswith(AT_THE_START)
            if None not in (row["seq"], row["boot"], row["topic"]) and not at_the_start:
                told.setdefault((key_of(row), row["node"], row["boot"]), []).append((kind, row))
    for (key, _, _), of in sorted(told.items()):
        said: Row | None = None
        for kind, step in sorted(of, key=lambda each: each[1]["seq"]):
            if kind == "replica_stop":
                said = None
            elif kind == "leader_change":
                mark = step["high_watermark"]
                if mark is not None and (said is None or mark > said["high_watermark"]):
                    said = step
            elif said is not None and _takes(step) and step["to_offset"] < said["high_watermark"]:
                yield Found(key, _finding(key, step, said))


def _takes(cut: Row) -> bool:
    return None not in (cut["to_offset"], cut["from_offset"]) and (
        cut["to_offset"] < cut["from_offset"]
    )


def _finding(key: Key, cut: Row, said: Row) -> Finding:
    arm, trial, topic, partition = key
    own = {"topic": topic, "partition": partition, "node": cut["node"]}
    return Finding(
        RULE,
        f"node {cut['node']} cut {topic}-{partition} from offset {cut['from_offset']} down to "
        f"{cut['to_offset']}, and had said in leader epoch {said['leader_epoch']} that it is "
        f"committed up to {said['high_watermark']}",
        arm,
        trial,
        (
            Pick("leader_change", {**own, "t": said["t"]}, rows=1),
            Pick("truncation", {**own, "t": cut["t"]}, rows=1),
        ),
    )
