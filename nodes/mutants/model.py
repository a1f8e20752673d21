"""What a planted bug is; and the wrong rules that several of them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`says`: what the bug is, for reports; `stands_for`: the bug of Kafka's, or the promise of a
    KIP, that it is modelled on; `scenario`: whose whole runs expose it; `found_by`: the check that
    must notice it there, and `rule`: how that calls it; `breaks`: which rules it replaces."""

    name: str
    says: str
    stands_for: str
    scenario: str
    found_by: str
    rule: str
    breaks: Mapping[str, Any]


class UnknownMutant(ValueError):
    """A name that is not in the registry; the message lists those that are."""


def no() -> bool:
    return False
