"""Copies of a metadata log, held against each other, for `checkers.promises.epochs`.

Every node of a quorum replays the metadata log, and tells of each state of each partition
(`leadership`, source controller). What two have told with one partition epoch was committed
(`checkers.facts.committed`); all others that go on after it have the same there.

- ``copies-differ``: a node told another state with that partition epoch, never the committed one,
  and went on to a later state of that partition. Its brokers go by what was never decided, and it
  decides by that once it is elected.

Lawful, and looks similar: the end of a copy that was cut off and replaced (Raft: its node tells of
both); a node that begins with a snapshot tells of no states before that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.decisions import content_of, from_copies
from checkers.facts.leadership import Key, key_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

COPIED: Final = "states in copies of a metadata log"
Row = Mapping[str, Any]
Life = tuple[Key, str]
"""A partition in one life of its topic, by the topic's id."""


def copies(history: History, outcome: Outcome) -> Iterator[Finding]:
    told: dict[tuple[Life, int], dict[str, list[Row]]] = {}
    newest: dict[tuple[Life, str], int] = {}
    for row in history.rows("leadership"):
        version = row["partition_epoch"]
        if (row["arm"], row["trial"]) not in from_copies(history) or version is None:
            continue
        life = (key_of(row), row["incarnation"] or "")
        told.setdefault((life, version), {}).setdefault(row["process"], []).append(row)
        at = (life, row["process"])
        newest[at] = max(version, newest.get(at, version))
    for (life, version), of in sorted(told.items()):
        outcome.saw(*life[0][:2], COPIED, len(of))
        tellers = Counter(
            content for rows in of.values() for content in {content_of(row) for row in rows}
        )
        committed = {content for content, n in tellers.items() if n > 1}
        for process, rows in sorted(of.items()):
            if not committed or committed & {content_of(row) for row in rows}:
                continue
            if newest[life, process] > version:
                yield _finding(rows[0], process)
                break


def _finding(row: Row, process: str) -> Finding:
    at = {name: row[name] for name in ("topic", "partition", "partition_epoch")}
    return Finding(
        "copies-differ",
        f"the copy of the metadata log on {process} has {row['topic']}-{row['partition']} with "
        f"leader {row['leader']}, leader epoch {row['leader_epoch']} and in-sync set {row['isr']} "
        f"at partition epoch {row['partition_epoch']}; two others have another state there",
        row["arm"],
        row["trial"],
        (Pick("leadership", at, rows=4),),
    )
