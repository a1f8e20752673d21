"""From when on a broker owes the truth: it is healed, alive, and has had its time.

What a broker does not know while faults are in place, or just after them, says nothing. Once the
last fault is healed it has `needed` ns to hear of everything; who is asked later and still tells
old things was not told, or did not listen.

    needed   what the run says that it can wait for (`expectations.settling_ms` of run.json: a short
             run cannot wait long), where every replica was seen in sync after healing;
             `UNSURE_NS`, and never less, where nobody saw that; both as many times as
             `checkers.facts.strain` says of a busy machine
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from checkers.facts.faults import faults_of
from checkers.facts.forgeries import Forgeries, forgeries
from checkers.facts.segments import fallen, settled, windows
from checkers.facts.strain import patience_of
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

SETTLED_NS: Final = 5_000_000_000
"""What a run that says nothing is given, and ample: a healthy cluster takes milliseconds."""
UNSURE_NS: Final = 10_000_000_000
Node = tuple[str, int, int]
_UP: Final = frozenset({"start", "ready", "resume", "registered"})
_DOWN: Final = frozenset({"kill", "stop", "stopped", "exited", "pause", "unregistered"})


@dataclass(frozen=True, slots=True)
class Calm:
    """``healed_t``: after the last fault; ``needed_ns``: what a broker may take from then on."""

    healed_t: int
    needed_ns: int

    def owed_from(self, *since: int) -> int:
        """After this moment the truth is owed that was committed, or could be heard, at ``since``
        (ns)."""
        return max(self.healed_t, *since) + self.needed_ns


def calm(history: History) -> dict[tuple[str, int], Calm]:
    """By (arm, trial); one with a fault that was never healed is absent: it never came to calm.

    A fault that failed on the way and was healed in the end did end: most often it had waited in
    vain for a broker that came back to serve, which is nothing to let the broker off for."""
    asked_ns = history.run.settling_ns or SETTLED_NS
    patience = patience_of(history)
    found = {
        trial: _calm(healed_t, asked_ns if quiet else UNSURE_NS, patience.get(trial, 1.0))
        for trial, (healed_t, quiet) in settled(history).items()
    }
    for trial in set(history.trials) - set(fallen(history)):
        if trial not in found and all(w.healed for w in windows(history).get(trial, [])):
            ends = [fault.rows[-1] for fault in faults_of(history, trial)]
            if all(row["phase"] == "healed" for row in ends):
                healed_t = max((row["t"] for row in ends), default=0)
                found[trial] = _calm(healed_t, UNSURE_NS, patience.get(trial, 1.0))
    return found


def _calm(healed_t: int, needed_ns: int, patience: float) -> Calm:
    return Calm(healed_t, int(needed_ns * patience))


@dataclass(frozen=True, slots=True)
class Standing:
    """A broker at some moment: whether it was up, and since when (ns; 0: nobody saw it begin)."""

    up: bool
    since_t: int


def brokers(history: History) -> dict[tuple[str, int], set[int]]:
    """Every broker that was ever started or registered, by trial."""
    found: dict[tuple[str, int], set[int]] = {}
    for row in history.rows("node_event"):
        if row["node"] is not None and row["event"] in _UP:
            found.setdefault((row["arm"], row["trial"]), set()).add(row["node"])
    return found


class Debts:
    """Which broker owes what in one history: who was alive at the end of its trial, since when, and
    whether a forger had turned it against its controller. ``end_t``: by trial, when anything was
    heard last (ns). One thread."""

    def __init__(self, history: History, end_t: Mapping[tuple[str, int], int]) -> None:
        self._history, self._end_t = history, end_t
        self._calm, self._lies = calm(history), forgeries(history)
        self._standing: dict[Node, Standing] = {}

    def calm(self, trial: tuple[str, int]) -> Calm | None:
        return self._calm.get(trial)

    def standing(self, node: Node) -> Standing:
        if node not in self._standing:
            self._standing[node] = _standing(self._history, node, self._end_t.get(node[:2], 0))
        return self._standing[node]

    def owed_from(self, node: Node, *since: int) -> int | None:
        """Whoever asks this broker later than this (ns) is owed what was true at ``since``; None:
        nobody is owed anything."""
        calm, now = self.calm(node[:2]), self.standing(node)
        return None if calm is None or not now.up else calm.owed_from(now.since_t, *since)

    def deaf(self, node: Node, asked_t: int) -> bool:
        return self.deafness(node, asked_t)

    @property
    def deafness(self) -> Deafness:
        return Deafness(self._calm, self._lies)


@dataclass(frozen=True, slots=True)
class Deafness:
    """Whether a broker that was asked then could not hear its true controller, by a forger's doing,
    while it should. Plain data."""

    calm: Mapping[tuple[str, int], Calm]
    lies: Forgeries

    def __call__(self, node: Node, asked_t: int) -> bool:
        calm = self.calm.get(node[:2])
        return calm is not None and self.lies.deaf(node, asked_t - calm.needed_ns, asked_t)


def _standing(history: History, node: Node, at_t: int) -> Standing:
    """By the harness's word on its process and ZooKeeper's on its registration; each of the two
    must be up (what nobody spoke of counts as up)."""
    up: dict[bool, bool] = {}
    since_t = 0
    for row in rows_of(history, "node_event", node[:2]):
        if row["node"] != node[2] or row["t"] > at_t:
            continue
        of_registration = row["event"] in ("registered", "unregistered")
        if row["event"] in _UP:
            up[of_registration] = True
            since_t = max(since_t, row["t"])
        elif row["event"] in _DOWN:
            up[of_registration] = False
    return Standing(all(up.values()), since_t)
