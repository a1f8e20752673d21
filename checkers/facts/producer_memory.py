"""What a leader remembers of idempotent producers, and when it lawfully remembers less.

Of each it knows the last five batches (ProducerStateEntry.NUM_BATCHES_TO_RETAIN), whether they came
from a client or from a leader that it followed. It loads a snapshot when it starts, and when its
log is cut (ProducerStateManager.truncateAndReload): that holds the last batch alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.facts.leadership import Key, key_of, leadership
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History


def leader_at(history: History, key: Key, t: int) -> tuple[int, int | None] | None:
    """(leader epoch, leader, if any) by the last commit before ``t`` (ns); None: nobody tells."""
    of = leadership(history).get(key)
    led = [e for e in of.commits if (e.committed_t or 0) <= t] if of is not None else []
    return (led[-1].leader_epoch, led[-1].leader) if led else None


def loaded_since(
    history: History, key: Key, node: int, from_t: int, to_t: int, *, newest: bool = False
) -> bool:
    """Whether a broker loaded what it knows of a partition's producers after ``from_t`` and up to
    ``to_t`` (ns). ``newest``: only where that may have cost a producer its last batch as well."""
    starts = [
        event
        for event in rows_of(history, "node_event", key[:2])
        if event["event"] == "start" and not newest
    ]
    cuts = [cut for cut in history.rows("truncation") if key_of(cut) == key]
    return any(one["node"] == node and from_t < one["t"] <= to_t for one in (*starts, *cuts))
