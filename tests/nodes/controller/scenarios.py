"""All scenarios of a controller."""

from __future__ import annotations

from tests.nodes.controller import (
    scenarios_brokers,
    scenarios_disks,
    scenarios_elections,
    scenarios_moves,
    scenarios_office,
    scenarios_races,
    scenarios_topics,
)
from tests.scenarios import scenarios_of

ALL = scenarios_of(
    scenarios_brokers,
    scenarios_disks,
    scenarios_topics,
    scenarios_elections,
    scenarios_moves,
    scenarios_office,
    scenarios_races,
)
