"""Who began anew: what it led is decided about again, for `checkers.promises.departures`.

A broker that registers anew has forgotten what it was told, and may have less in its logs than its
followers saw. So the controller takes it for one that failed and then started, even if it saw
neither (KIP-380, KAFKA-7235: only the broker epoch tells): whatever it led is led by another, or by
itself, in a later leader epoch (KafkaController.processBrokerChange).

- ``led-on``: `LIMIT_NS` after a broker's new registration, with the same controller in office that
  had been there before, and nothing wrong with that one meanwhile, a partition that the broker led
  before is led by it in the same leader epoch.

Lawful, and looks similar: who is new in office knows of no registration before; what was handed
over before the broker stopped, and a topic that is being deleted, are left as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order, written
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "led-on"
ANEW: Final = "partitions led by who began anew"
LIMIT_NS: Final = 5_000_000_000
"""A controller decides in milliseconds; on a busy machine in a second."""
SUCCEEDS_NS: Final = 5_000_000_000
"""Who succeeds another decides nothing before it has read everything anew, and told everybody."""
Row = Mapping[str, Any]
Trial = tuple[str, int]
Besides = Callable[[Trial], Iterable[tuple[int, str, Any]]]


@dataclass(slots=True)
class _Owed:
    """``state``: as it was before; ``registered``: anew; ``since_t``: from when on the controller
    could decide (ns), None while it cannot."""

    state: Row
    registered: Row
    since_t: int | None = None


@dataclass(slots=True)
class _Cluster:
    known: set[int] = field(default_factory=set)
    """Brokers that were registered once."""
    controller: int | None = None
    had_controller: bool = False
    able_t: int = 0
    """From when on who is in office decides."""
    states: dict[Key, Row] = field(default_factory=dict)
    dying: set[str] = field(default_factory=set)
    disturbed: dict[int | None, int] = field(default_factory=dict)
    owed: dict[Key, _Owed] = field(default_factory=dict)

    @property
    def can_decide(self) -> bool:
        wrong = self.disturbed.get(self.controller) or self.disturbed.get(None)
        return self.controller is not None and not wrong


def began_anew(
    history: History, outcome: Outcome, besides: Besides, end_of: Callable[[Trial], int | None]
) -> Iterator[Finding]:
    """``besides``: what the harness knows besides ZooKeeper's log; ``end_of``: when the load ended,
    and brokers were stopped for good (ns)."""
    by_trial: dict[Trial, list[tuple[int, int, str, Any]]] = {}
    for number, row in enumerate(in_order(history)):
        by_trial.setdefault((row["arm"], row["trial"]), []).append((row["t"], number, "row", row))
    for trial, events in by_trial.items():
        events += [(t, -1, step, what) for t, step, what in besides(trial)]
        cluster, end_t = _Cluster(), end_of(trial)
        for t, _, step, what in sorted(events, key=lambda event: event[:2]):
            if end_t is not None and t > end_t:
                break
            yield from _late(outcome, trial, cluster, t)
            if step == "row":
                _take(outcome, trial, cluster, what)
            elif step in ("begun", "over"):
                for node in what:
                    change = 1 if step == "begun" else -1
                    cluster.disturbed[node] = cluster.disturbed.get(node, 0) + change
            elif step == "dying":
                cluster.dying.add(what)
            for one in cluster.owed.values():
                since_t = one.since_t or max(t, cluster.able_t)
                one.since_t = since_t if cluster.can_decide else None
        if end_t is not None:
            yield from _late(outcome, trial, cluster, end_t)


def _late(outcome: Outcome, trial: Trial, cluster: _Cluster, t: int) -> Iterator[Finding]:
    for key, one in list(cluster.owed.items()):
        if one.since_t is None or t - one.since_t < LIMIT_NS or key[2] in cluster.dying:
            continue
        del cluster.owed[key]
        outcome.saw(*trial, ANEW)
        node, epoch = one.state["leader"], one.state["leader_epoch"]
        yield Finding(
            RULE,
            f"{key[2]}-{key[3]} is led by node {node} in leader epoch {epoch}, as before that one "
            f"registered anew, {(t - one.registered['t']) / 1e9:.1f} s ago; node "
            f"{cluster.controller} was the controller all the while",
            *trial,
            (written(one.state), written(one.registered)),
        )


def _take(outcome: Outcome, trial: Trial, cluster: _Cluster, row: Row) -> None:
    what, step = row["what"], row["step"]
    if what == "controller":
        if step == "removed":
            cluster.controller, cluster.able_t = None, 0
        else:
            cluster.controller, cluster.able_t = row["node"], row["t"]
            cluster.able_t += SUCCEEDS_NS if cluster.had_controller else 0
            cluster.had_controller = True
        cluster.owed.clear()
    elif what == "broker" and step == "created" and row["node"] is not None:
        if row["node"] in cluster.known:
            for key, state in cluster.states.items():
                if state["leader"] == row["node"] and state["leader_epoch"] is not None:
                    cluster.owed[key] = _Owed(state, row)
        cluster.known.add(row["node"])
    elif what == "state" and row["topic"] is not None:
        _decided(outcome, trial, cluster, row)
    elif what == "topic" and step == "removed":
        for key in [key for key in cluster.states if key[2] == row["topic"]]:
            del cluster.states[key]
            cluster.owed.pop(key, None)
        cluster.dying.discard(row["topic"])


def _decided(outcome: Outcome, trial: Trial, cluster: _Cluster, row: Row) -> None:
    key = key_of(row)
    if row["step"] == "removed":
        cluster.states.pop(key, None)
        cluster.owed.pop(key, None)
        return
    cluster.states[key] = row
    one = cluster.owed.get(key)
    if one is not None and (row["leader_epoch"] or 0) > one.state["leader_epoch"]:
        del cluster.owed[key]
        outcome.saw(*trial, ANEW)
