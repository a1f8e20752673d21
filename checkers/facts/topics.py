"""Which topics are there in the end, by ZooKeeper's own log: whom a deletion took, and did not; and
since when, if they were made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.facts.answers import Topic, deletion_steps
from checkers.facts.decisions import from_log
from checkers.facts.office import in_order

if TYPE_CHECKING:
    from checkers.history.frames import History


def is_removed(history: History, topic: Topic) -> bool:
    """Whether the last that ZooKeeper's log has of it is that it was removed."""

    def make() -> dict[Topic, str]:
        return {
            (row["arm"], row["trial"], row["topic"]): row["step"]
            for row in in_order(history)
            if row["what"] == "topic"
        }

    last: dict[Topic, str] = history.memo("topics in the end", make)
    return last.get(topic) == "removed"


def is_gone(history: History, topic: Topic) -> bool:
    """Whether it was deleted, or may have been; one that was made again is there."""
    steps = deletion_steps(history).get(topic)
    if not steps:
        return False
    asked = steps[-1]["step"] == "requested"
    return asked or is_removed(history, topic) or topic[:2] not in from_log(history)


def made_again(history: History) -> dict[Topic, int]:
    """Of topics that were removed and made again: when the last of their lives began, at the
    earliest (ns)."""
    found: dict[Topic, int] = {}
    removed: set[Topic] = set()
    for row in in_order(history):
        topic = (row["arm"], row["trial"], row["topic"])
        if row["what"] == "topic" and row["step"] == "removed":
            removed.add(topic)
        elif (row["what"], row["step"]) == ("topic", "created") and topic in removed:
            removed.discard(topic)
            found[topic] = row["t"] - (row["error_ns"] or 0)
    return found
