"""All that a broker does about partitions (`desk`), line by line as Kafka 3.9 does it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.nodes.replication import (
    scenarios_isr,
    scenarios_orders,
    scenarios_reads,
    scenarios_roles,
)
from tests.nodes.replication.desk import Desk
from tests.scenarios import expected, play, scenarios_of

ALL = scenarios_of(scenarios_roles, scenarios_orders, scenarios_isr, scenarios_reads)
WARNINGS = {
    "orders: orders_that_are_refused": 7,
    "orders: orders_of_a_later_controller": 3,
    "roles: a_leader_that_is_not_alive": 2,
    "orders: stops_of_every_epoch": 1,
    "orders: an_id_comes_later": 2,
    "orders: is_named_twice": 1,
    "orders: a_stale_order_gives_no_id": 1,
    "roles: cuts_where_its_leader_says": 1,
    "roles: answers_with_errors": 1,
    "roles: is_out_of_its_leaders_range": 1,
}
"""How often an operator is warned, while each is made ready and after: of what is refused, and of
what is lost. (In which words, `test_state_change_lines` says.) In all others never."""


@pytest.mark.parametrize("name", ALL)
def test_it_does_just_this(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk(tmp_path, monkeypatch)
    try:
        with caplog.at_level(logging.WARNING):
            assert play(ALL[name], desk) == expected(ALL[name])
    finally:
        desk.close()
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == WARNINGS.get(name, 0), [record.getMessage() for record in warnings]
