"""What is asked for is compared, or it is said why not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faults.plan import PlanError
from harness.arms import arms_and_lacking, arms_of, plan_of
from harness.scenarios import SCENARIOS
from harness.settings import Settings, SettingsError

LONE, FLOOD = SCENARIOS["lone-broker"], SCENARIOS["request-flood"]


def asked(**options: object) -> Settings:
    return Settings.of(seed=1, **options)  # type: ignore[arg-type]


def described(folder: Path, name: str, more: str = "") -> str:
    file = folder / f"{name}.yaml"
    file.write_text(f"adapter: 1\nname: mine\nnodes: 1\nstart: {{argv: [x]}}\n{more}")
    return f"file:{file}"


def test_systems_and_planes_that_are_left_out_are_named(tmp_path: Path) -> None:
    mine = described(tmp_path, "mine")
    arms, lacking = arms_and_lacking(FLOOD, asked(sut=f"dualplane,{mine}"))
    assert [arm.label for arm in arms] == ["dualplane-single", "dualplane-dual"]
    assert any("has 1 of the 3 brokers" in why for why in lacking)
    arms, lacking = arms_and_lacking(FLOOD, asked(sut="kafka-kraft", planes="single,dual"))
    assert [arm.label for arm in arms] == ["kafka-kraft-dual"]
    assert lacking == ["kafka-kraft has no single planes"]


def test_planes_that_nobody_asked_for_are_not_missed() -> None:
    assert arms_and_lacking(FLOOD, asked(sut="kafka-kraft"))[1] == []
    assert arms_and_lacking(FLOOD, asked(planes="single,priority,dual"))[1] == []


def test_two_systems_of_one_name_would_be_one_arm(tmp_path: Path) -> None:
    both = f"{described(tmp_path, 'a')},{described(tmp_path, 'b')}"
    with pytest.raises(SettingsError, match="2 systems are called mine-single"):
        arms_of(LONE, asked(sut=both))


def test_a_config_that_no_system_can_be_told_is_refused(tmp_path: Path) -> None:
    mute = described(tmp_path, "mine", "files: {x: {text: y}}\n")
    for sut, config in (("dualplane", "num.io.thread"), (mute, "num.io.threads")):
        with pytest.raises(SettingsError, match=f"--config {config}: .* cannot be told"):
            arms_of(LONE, asked(sut=sut, overrides={config: "3"}))


def test_a_config_that_one_of_them_may_know_is_taken(tmp_path: Path) -> None:
    for config in ("num.io.threads", "biplane.mutants"):
        assert arms_of(LONE, asked(overrides={config: "3"}))
    assert arms_of(FLOOD, asked(sut="dualplane,kafka-zk", overrides={"a.plugins": "x"}))
    takes = described(tmp_path, "mine", "files: {x: {properties: {a: b}, takes_configs: true}}\n")
    assert arms_of(LONE, asked(sut=takes, overrides={"whatever": "3"}))


@pytest.mark.parametrize(("at_s", "for_s", "field"), [(180, 9, "duration_ms"), (189, 0, "at_ms")])
def test_a_plan_that_outlasts_the_run_is_refused(
    at_s: int, for_s: int, field: str, tmp_path: Path
) -> None:
    """Eight seconds, and three minutes more for what is under way."""
    file = tmp_path / "plan.json"
    entry = {"id": "late", "fault": "pause", "at_ms": 1000 * at_s, "duration_ms": 1000 * for_s}
    entry["params"] = {"target": "1"}
    file.write_text(json.dumps({"seed": 1, "entries": [entry]}))
    with pytest.raises(PlanError, match=f"'late', field '{field}': it ends 189 s after .* 188 s"):
        plan_of(LONE, asked(plan=file))
    assert plan_of(LONE, asked(plan=file, time_limit_s=9))
