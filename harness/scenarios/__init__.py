"""The scenarios: one conjecture a file. A new one is registered here and nowhere else."""

from collections.abc import Mapping
from typing import Final

from harness.scenarios.acks1_truncation import ACKS1_TRUNCATION
from harness.scenarios.base import Scenario
from harness.scenarios.broker_restart import BROKER_RESTART
from harness.scenarios.request_flood import REQUEST_FLOOD
from harness.scenarios.zombie_controller import ZOMBIE_CONTROLLER

SCENARIOS: Final[Mapping[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (REQUEST_FLOOD, ACKS1_TRUNCATION, BROKER_RESTART, ZOMBIE_CONTROLLER)
}

__all__ = ["SCENARIOS", "Scenario"]
