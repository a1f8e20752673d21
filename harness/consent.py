"""A cluster that runs already is somebody's: its owner is asked before the first fault.

On a terminal the question names what would be done to which brokers; ``--yes`` is the answer of
scripts. Without either nothing is played: `harness.run` refuses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import typer

from harness.run import NOT_AGREED
from harness.scenarios.base import Scenario
from harness.settings import Settings, SettingsError
from harness.sut.external.asked import warnings
from harness.sut.external.form import COMMANDS
from harness.sut.external.system import ExternalSystem
from harness.sut.registry import EXTERNAL
from harness.sut.registry import get as get_sut


def with_consent(
    settings: Settings,
    scenarios: Sequence[Scenario],
    *,
    asks: Callable[[str], bool] | None = None,
) -> Settings:
    """The settings with the owner's yes, where one is needed and can be had. Raises
    `SettingsError` for a no. ``asks``: puts a question; none: on a terminal, if there is one."""
    clusters = [name for name in settings.suts if name.startswith(EXTERNAL)]
    if not clusters or settings.agreed:
        return settings
    if asks is None:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return settings
        asks = typer.confirm
    for name in clusters:
        sut = get_sut(name)
        assert isinstance(sut, ExternalSystem)
        for line in question(sut, scenarios):
            typer.echo(line)
        if not asks(f"Play faults on the cluster {sut.name}?"):
            raise SettingsError(f"{sut.file}: {NOT_AGREED}")
    return replace(settings, agreed=True)


def question(sut: ExternalSystem, scenarios: Sequence[Scenario]) -> Iterator[str]:
    """What the owner should know."""
    form = sut.form
    yield f"{sut.name}: {form.says or sut.file}"
    for node in form.ids:
        yield f"  broker {node} at {form.address(node)}"
    able = [name for name in COMMANDS if getattr(form.ways, name)]
    yield f"  commands for its brokers: {', '.join(able) or 'none'}"
    yield f"  scenarios: {', '.join(scenario.name for scenario in scenarios)}"
    yield "  load and floods go to topics of the run's own (biplane-*), which are deleted after it"
    for line in warnings(form, sut.seen):
        yield f"  note: {line}"
