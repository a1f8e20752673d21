"""Planted bugs: single rules of `nodes.core.rules.Rules` swapped for wrong ones.

A checker that has never found anything proves nothing. Each mutant here is a bug that a broker
could plausibly have; in a whole run of its `scenario`, on a cluster that has it (config
``biplane.mutants``), the check named in `found_by` must find a violation, and none without it:
``biplane mutants`` plays them all. A correct broker runs `nodes.core.rules.RULES` and none of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from nodes.core.rules import RULES, Rules
from nodes.mutants.commits import COMMITS
from nodes.mutants.control import CONTROL
from nodes.mutants.fencing import FENCING
from nodes.mutants.groups import GROUPS
from nodes.mutants.logs import LOGS
from nodes.mutants.model import Mutant, UnknownMutant

__all__ = ("MUTANTS", "Mutant", "UnknownMutant", "rules_with")

_ALL: Final = (*FENCING, *COMMITS, *LOGS, *CONTROL, *GROUPS)

MUTANTS: Final[Mapping[str, Mutant]] = MappingProxyType({m.name: m for m in _ALL})


def rules_with(names: Iterable[str]) -> Rules:
    """The correct rules with the named ones broken. Later names win where two break one rule."""
    rules = RULES
    for name in names:
        mutant = MUTANTS.get(name)
        if mutant is None:
            raise UnknownMutant(f"unknown mutant {name!r}; allowed: {', '.join(MUTANTS)}")
        rules = dataclasses.replace(rules, **mutant.breaks)
    return rules
