"""All that a broker does about partitions (`desk`), line by line as Kafka 3.9 does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nodes.replication import scenarios_isr, scenarios_reads, scenarios_roles
from tests.nodes.replication.desk import Desk
from tests.scenarios import expected, play, scenarios_of

ALL = scenarios_of(scenarios_roles, scenarios_isr, scenarios_reads)


@pytest.mark.parametrize("name", ALL)
def test_it_does_just_this(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path, monkeypatch)
    try:
        assert play(ALL[name], desk) == expected(ALL[name])
    finally:
        desk.close()
