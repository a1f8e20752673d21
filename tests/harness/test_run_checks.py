"""Which checks a run is held to, by what its systems can do."""

from __future__ import annotations

from harness.run import _checks
from harness.scenarios import SCENARIOS
from harness.sut.protocol import Planes
from harness.sut.registry import get
from harness.trial import Arm


def test_nothing_is_fenced_where_no_broker_takes_a_controllers_requests() -> None:
    scenario = SCENARIOS["broker-restart"]
    kraft = Arm(sut=get("kafka-kraft"), planes=Planes.DUAL)
    ours = Arm(sut=get("dualplane"), planes=Planes.DUAL)
    assert "fencing" in _checks(scenario, [kraft, ours])
    alone = _checks(scenario, [kraft])
    assert "truncation-loss" in alone
    assert not {"fencing", "controller-latency"} & set(alone)
