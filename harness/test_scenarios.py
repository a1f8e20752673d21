"""The scenarios, as `pytest harness/` runs them. Choose with -k: `pytest harness/ -k zombie`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.scenarios import SCENARIOS
from harness.scenarios.base import Scenario


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_scenario(scenario: Scenario, play: Callable[[Scenario], None]) -> None:
    play(scenario)
