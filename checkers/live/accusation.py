"""What is found while a run goes on, as it is told and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Accusation:
    """``promise`` and ``rule``: those of `checkers.promises` that judge it in the end; ``t`` (ns):
    when what proves it was complete; ``place``: what it is about, so that it is told once."""

    promise: str
    rule: str
    arm: str
    trial: int
    says: str
    t: int
    place: tuple[Any, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.promise, self.rule, self.arm, self.trial, *self.place)

    def to_dict(self) -> Mapping[str, Any]:
        return {
            "promise": self.promise,
            "rule": self.rule,
            "arm": self.arm,
            "trial": self.trial,
            "says": self.says,
            "t": self.t,
        }
