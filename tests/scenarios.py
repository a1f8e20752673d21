"""Scenarios: what there was, what happens, and all that is then done, line by line.

A scenario is a generator function of a world: up to its `yield` all is made ready; from there on
each line of the world's transcript counts, and must be what stands at the end of the docstring,
after an empty line. There, indented lines belong to the line before them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Protocol


class World(Protocol):
    def run(self) -> None:
        """Do all that is waiting to be done."""

    def told(self) -> list[str]:
        """The lines since the last call."""


Scenario = Callable[[Any], Iterator[None]]


def expected(scenario: Scenario) -> list[str]:
    _, gap, text = inspect.cleandoc(scenario.__doc__ or "").rpartition("\n\n")
    return text.replace("\n    ", " ").splitlines() if gap else []


def play(scenario: Scenario, world: World) -> list[str]:
    """The lines that it leads to."""
    steps = scenario(world)
    next(steps)
    world.run()
    world.told()
    for _ in steps:
        raise AssertionError("one yield")
    world.run()
    return world.told()


def scenarios_of(*modules: ModuleType) -> dict[str, Scenario]:
    """By name, in their order."""
    return {
        f"{module.__name__.rpartition('_')[2]}: {name}": function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isgeneratorfunction(function) and function.__module__ == module.__name__
    }
