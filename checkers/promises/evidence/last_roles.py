"""Roles that nobody tells of: who is in sync in the last leader epoch has taken up a role in it.

A broker that leads or follows writes that down, once in each leader epoch and each life at the
least (`leader_change`). Who is in sync under the last state that was committed, ran to the end and
had its time (`checkers.facts.calm`), and tells of no role in that leader epoch, has taken up none,
or what it told was lost: of its cuts, its log's end and what it answers in that epoch nobody could
judge it. Of systems that tell of roles; those that number their rows besides show the gap.

Not of topics that are being deleted, nor where the load ended too soon after the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checkers.facts.answers import deletion_steps
from checkers.facts.calm import Debts
from checkers.facts.committed import State, committed
from checkers.facts.leadership import SHOWN, Key, key_of

if TYPE_CHECKING:
    from checkers.history.frames import History

Trial = tuple[str, int]
_ENDS: Final = ("quiesce", "settle")


def without_roles(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words."""
    roles = {
        (*key_of(row), row["node"], row["leader_epoch"]) for row in history.rows("leader_change")
    }
    telling = {role[:2] for role in roles}
    ends: dict[Trial, int] = {}
    for row in history.rows("phase"):
        trial = (row["arm"], row["trial"])
        if row["name"] in _ENDS and trial in telling:
            ends[trial] = max(row["t"], ends.get(trial, 0))
    if not ends:
        return
    debts, gone = Debts(history, ends), deletion_steps(history)
    for key, of in sorted(committed(history).items()):
        state = None if key[:3] in gone or key[:2] not in ends else of.as_of(ends[key[:2]])
        if state is None or state.row["source"] == SHOWN or not state.row["isr"]:
            continue
        epoch = state.row["leader_epoch"]
        # Since when there is that leader epoch, and each has been in sync.
        by_then = (one for one in of.states if one.t <= ends[key[:2]])
        own = [one for one in by_then if one.row["leader_epoch"] == epoch]
        for node in sorted(set(state.row["isr"])):
            owed_t = debts.owed_from((*key[:2], node), _since(own, node))
            if owed_t is not None and owed_t < ends[key[:2]] and (*key, node, epoch) not in roles:
                yield key[:2], _says(key, node, epoch)


def _since(states: list[State], node: int) -> int:
    """From when on it was in sync in all of them to the last (ns)."""
    since_t = states[-1].t
    for state in reversed(states):
        if node not in (state.row["isr"] or ()):
            break
        since_t = state.t
    return since_t


def _says(key: Key, node: int, epoch: int) -> str:
    says = f"node {node} tells of no role in leader epoch {epoch} of {key[2]}-{key[3]}"
    return f"{says}, the last one, in which it was in sync to the end"
