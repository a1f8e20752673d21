"""Scenarios of a controller: what there was, what happens, and all that it then does.

A scenario is a generator function: up to its `yield` all is made ready; from there on each line of
what the controllers do counts (`transcript`), and must be what stands at the end of the docstring,
after an empty line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType

from tests.nodes.controller import (
    scenarios_brokers,
    scenarios_elections,
    scenarios_moves,
    scenarios_office,
    scenarios_topics,
)
from tests.nodes.controller.transcript import Office

Scenario = Callable[[Office], Iterator[None]]


def expected(scenario: Scenario) -> list[str]:
    """Indented lines belong to the line before them."""
    _, gap, text = inspect.cleandoc(scenario.__doc__ or "").rpartition("\n\n")
    return text.replace("\n    ", " ").splitlines() if gap else []


def play(scenario: Scenario, office: Office) -> list[str]:
    """The lines that it leads to."""
    steps = scenario(office)
    next(steps)
    office.run()
    office.told()
    for _ in steps:
        raise AssertionError("one yield")
    office.run()
    return office.told()


def _of(module: ModuleType) -> list[Scenario]:
    functions = vars(module).values()
    return [
        f for f in functions if inspect.isgeneratorfunction(f) and f.__module__ == module.__name__
    ]


_MODULES = (
    scenarios_brokers,
    scenarios_topics,
    scenarios_elections,
    scenarios_moves,
    scenarios_office,
)
ALL = {
    f"{module.__name__.rpartition('_')[2]}: {scenario.__name__}": scenario
    for module in _MODULES
    for scenario in _of(module)
}
