"""Who has come back, and is let into no in-sync set, between one fault and the next, for
`checkers.promises.recovery`.

A controller that takes somebody for gone, or for going, who is back refuses every set with him
(KafkaController.processAlterPartition: INELIGIBLE_REPLICA), and elects him for nothing; the next
controller knows better. So it is asked before that one comes.

- ``left-out``: a broker was started anew during the last fault; for `LONG_NS` after it no fault was
  in place, that broker ran and was registered, and nobody new came into office, and all that time
  it was in the in-sync set of none of the partitions that it is a replica of and others lead.

Lawful, and looks similar: who has much to fetch is slow, but not with each of its partitions; one
that leads nothing else, and has no replica but of topics that are deleted. Without ZooKeeper nobody
tells of assignments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.committed import committed
from checkers.facts.faults import faults_of
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import elections, in_order
from checkers.facts.registrations import absences
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.recovery.between_faults import deleted, gaps

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "left-out"
BACK: Final = "brokers that were back before the next fault"
LONG_NS: Final = 8_000_000_000
"""A healthy cluster takes milliseconds, and one on a busy machine two or three seconds."""
_ENDS: Final = ("kill", "stop", "stopped", "exited", "pause")
Trial = tuple[str, int]


def left_out(history: History, outcome: Outcome) -> Iterator[Finding]:
    for trial, spans in gaps(history).items():
        ruled = [election.t for election in elections(history).get(trial, ())]
        for begin, end in spans:
            anew = not ruled or min(ruled) > begin or any(begin < t <= end for t in ruled)
            if end - begin < LONG_NS or anew:
                continue
            for node in sorted(_back(history, trial, begin, end)):
                places = _followed(history, trial, node, begin)
                if not places:
                    continue
                outcome.saw(*trial, BACK)
                if not any(_was_in_sync(history, key, node, begin, end) for key in places):
                    yield _finding(trial, node, places, begin, end)


def _back(history: History, trial: Trial, begin: int, end: int) -> set[int]:
    """Who was started during the last fault before that span (ns), and there all through it."""
    last = max((f for f in faults_of(history, trial) if f.to_t <= begin), key=lambda f: f.to_t)
    found = set()
    for row in sorted(rows_of(history, "node_event", trial), key=lambda one: int(one["t"])):
        if row["event"] == "start" and last.from_t <= row["t"] <= begin:
            found.add(row["node"])
        elif row["event"] in _ENDS and last.from_t <= row["t"] <= end:
            found.discard(row["node"])
    gone = {
        node
        for (*of, node), away in absences(history).items()
        if tuple(of) == trial
        and any(one.from_t < end and (one.to_t is None or one.to_t > begin) for one in away)
    }
    return found - gone


def _followed(history: History, trial: Trial, node: int, at_t: int) -> list[Key]:
    """The partitions that it is a replica of then (ns), and others lead."""
    assigned: Mapping[Key, Any] = {
        key_of(row): row["replicas"]
        for row in in_order(history)
        if (row["arm"], row["trial"]) == trial
        and (row["what"], row["partition"] is not None) == ("topic", True)
        and row["t"] <= at_t
    }
    gone = deleted(history).get(trial, set())
    found = []
    for key, replicas in assigned.items():
        state = committed(history)[key].as_of(at_t) if key in committed(history) else None
        is_led = state is not None and state.row["leader"] not in (-1, node)
        if is_led and node in (replicas or ()) and key[2] not in gone:
            found.append(key)
    return found


def _was_in_sync(history: History, key: Key, node: int, begin: int, end: int) -> bool:
    of = committed(history)[key]
    first = of.as_of(begin)
    states = [] if first is None else [first]
    states += [state for state in of.states if begin < state.t <= end]
    return any(node in (state.row["isr"] or ()) for state in states)


def _finding(trial: Trial, node: int, places: list[Key], begin: int, end: int) -> Finding:
    at = {"topic": places[0][2], "partition": places[0][3]}
    return Finding(
        RULE,
        f"node {node} was back, and in {(end - begin) / 1e9:.1f} s without a fault it came into "
        f"the in-sync set of none of {len(places)} partitions that it follows",
        *trial,
        (
            Pick("node_event", {"node": node}, to_t=begin, rows=3, last=True),
            Pick("fault", {"phase": "healed"}, to_t=begin, rows=1, last=True),
            Pick("controller", {"event": "elected"}, to_t=begin, rows=1, last=True),
            Pick("leadership", at, to_t=end, rows=2, last=True),
        ),
    )
