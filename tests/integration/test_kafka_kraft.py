"""Apache Kafka without ZooKeeper, for all that clients can see: verdicts, and no ZooKeeper started.

Skipped, with what would bring it, where Kafka 4 is not on the machine.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from harness.run import Outcome, run
from harness.runtime.protocol import SetupError
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from harness.sut.kafka_jars import KRAFT_LINE, libs_dir

pytestmark = [pytest.mark.cluster, pytest.mark.spark]
ARM = "kafka-kraft-dual"
BROKEN_OFF = re.compile(r"\(flood-[a-z-]+\) on broker \d (fell silent|stalled|ran thin) ")


def play(scenario: str, store: Path, time_limit_s: float) -> Outcome:
    try:
        libs_dir(KRAFT_LINE)
    except SetupError as lacking:
        pytest.skip(str(lacking))
    settings = Settings.of(store=store, sut="kafka-kraft", seed=5, time_limit_s=time_limit_s)
    outcome = run(SCENARIOS[scenario], settings, lambda _where, _what: None)
    assert not any(check["violations"] for check in outcome.results["checks"].values())
    # A machine that cannot keep a flood up makes the run `unknown`, and rightly; nothing else may.
    others = [reason for reason in outcome.reasons if not BROKEN_OFF.search(reason)]
    assert outcome.verdict is Verdict.VALID or (outcome.reasons and not others), outcome.reasons
    assert not list(outcome.folder.glob("trials/*/zookeeper"))
    return outcome


def figures(outcome: Outcome, check: str) -> dict[str, Any]:
    found: dict[str, Any] = outcome.results["checks"][check]["arms"][ARM]
    return found


def test_a_flood_and_how_metadata_spread_under_it(tmp_path: Path) -> None:
    outcome = play("request-flood", tmp_path, 6)
    assert not {"fencing", "controller-latency"} & set(outcome.results["checks"])
    spread = figures(outcome, "stale-metadata")
    assert spread["propagation_applied"]["count"] > 0  # the metadata log, broker by broker
    assert spread["propagation_shown"]["count"] > 0  # and as clients see it
    (trial,) = json.loads((outcome.folder / "run.json").read_text())["trials"]
    assert trial["skipped_roles"] == ["prober (prober): kafka-kraft lacks control-requests"]


def test_an_active_controller_that_is_paused_and_one_that_is_cut_off(tmp_path: Path) -> None:
    outcome = play("controller-pause", tmp_path, 8)
    succession = figures(outcome, "succession")
    assert succession["elections"] >= 3  # the first, and one for each of the two
    assert succession["takeover"]["count"] == 2
    assert figures(outcome, "truncation-loss")["acked_all"] > 0
