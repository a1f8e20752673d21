"""Topics that were given other settings while they were used, and from when on all go by these.

Every broker hears of that (faults ``alter-topic``, ``unseen-settings``): by a notification that it
watches, or, when its ZooKeeper session ended meanwhile, because it looks for what it missed with
the next one (ZkNodeChangeNotificationListener). So once all is calm (`checkers.facts.calm`) every
leader goes by what was said last. Not told of: a topic of which that may not have been done, as
nobody answered; one that was deleted; those of a black box, of which nobody knows what it makes of
configurations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from checkers.facts.calm import calm
from checkers.facts.details import details
from checkers.facts.leadership import black_boxes

if TYPE_CHECKING:
    from checkers.history.frames import History

_ALTERED: Final = ("alter-topic", "unseen-settings")
_FAILED: Final = "failed"
Topic = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Altered:
    """``id``: of the fault; ``configs``: all that the topic has; ``owed_t``: from then on (ns)."""

    id: str
    configs: Mapping[str, str]
    owed_t: int


def altered(history: History) -> dict[Topic, Altered | None]:
    """By (arm, trial, topic), of each that was altered; None: nobody knows by what it goes."""
    boxes, quiet = set(black_boxes(history)), calm(history)
    gone = {(row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")}
    found: dict[Topic, Altered | None] = {}
    for row in history.rows("fault"):
        if row["fault"] not in _ALTERED or row["phase"] not in ("injected", _FAILED):
            continue
        said, then = details(row), quiet.get((row["arm"], row["trial"]))
        topic = (row["arm"], row["trial"], said.get("topic", ""))
        unknown = then is None or row["phase"] == _FAILED or row["arm"] in boxes or topic in gone
        found[topic] = (
            None
            if unknown or then is None
            else Altered(row["id"], said["configs"], then.owed_from(row["t"]))
        )
    return found
