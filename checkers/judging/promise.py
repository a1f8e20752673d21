"""What a promise is: one thing that must hold, and all that is to be known about judging it.

A promise is a module in `checkers.promises`: its rules in a module docstring that says why they are
as they are, a function ``check(history) -> Outcome``, and a `Promise` that says in plain words what
`docs/guarantees.md` and the report show. `checkers.promises` has the one table of them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.judging.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """``rules``: by rule, what should have held. A finding of any other rule is a bug of the check.

    ``evidence``: by name (as given to `Outcome.saw`), what the check judges; an (arm, trial) in
    which it saw nothing of any of it is `unknown`. ``unknown_when``: what else keeps it from
    judging. ``blind``: what it cannot see even then. ``timed``: the rules that hold somebody to a
    time; what they find while the machine stood still, or was busy, proves nothing
    (`checkers.facts.standstills`, `checkers.facts.strain`); ``patient``: those of them that give
    five seconds and more, to which a moment of that does nothing. ``at_rest``: the rules that hold
    one look at a log against another, or against what is to be in the end; what they find while
    records are appended still proves nothing (`checkers.facts.at_rest`).
    """

    name: str
    """Its name in run.json, results.json and on the command line."""
    says: str
    """The guarantee, in one sentence."""
    source: str
    """Where it comes from: KIP and section, Kafka's class, or Jepsen's anomaly."""
    rules: Mapping[str, str]
    evidence: Mapping[str, str]
    unknown_when: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()
    timed: frozenset[str] = frozenset()
    patient: frozenset[str] = frozenset()
    at_rest: frozenset[str] = frozenset()
    check: Callable[[History], Outcome]
