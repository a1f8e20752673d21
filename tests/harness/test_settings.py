"""Options are refused by name, with what is allowed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.settings import PROFILES, Settings, SettingsError


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"profile": "weekly"}, "--profile: 'weekly'; allowed: smoke, ci, nightly, soak"),
        ({"planes": "single,triple"}, "--planes: 'single,triple'; allowed: single, dual, priority"),
        ({"time_limit_s": 0}, "--time-limit: 0; allowed: 1 to 86400"),
        ({"rounds": 0}, "--rounds: 0; allowed"),
        ({"seed": -1}, "--seed: -1; allowed"),
        ({"sut": " , "}, "--sut"),
    ],
)
def test_a_bad_option_names_itself_and_what_is_allowed(
    options: dict[str, object], says: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.of(**options)  # type: ignore[arg-type]
    assert says in str(refused.value)


def test_the_time_limit_overrides_the_profile() -> None:
    settings = Settings.of(profile="ci", time_limit_s=3, planes="dual", seed=5)
    assert settings.profile.chaos_s == 3
    assert settings.planes == ("dual",)
    assert json.loads(json.dumps(settings.to_dict()))["seed"] == 5


def test_a_seed_is_drawn_when_none_is_given() -> None:
    assert Settings.of().seed != Settings.of().seed


def test_a_run_asks_for_no_more_settling_than_it_looks_on_for() -> None:
    for profile in PROFILES.values():
        settling_ms = profile.settling_ms
        assert settling_ms is not None
        assert settling_ms < 1000 * profile.settle_s
    assert PROFILES["nightly"].settling_ms == 5000
    assert replace(PROFILES["ci"], settle_s=0.0).settling_ms is None


def test_a_slow_system_is_given_its_time_and_looked_at_after_it() -> None:
    smoke = PROFILES["smoke"]
    assert smoke.patient(0.0) is smoke
    assert smoke.patient(5.0) is smoke
    assert smoke.settling_ms == 2000
    slow = smoke.patient(10.0)
    assert (slow.settling_ms, slow.settle_s) == (10_000, 14.0)
    assert PROFILES["nightly"].patient(10.0).settle_s == 14.0
    assert slow.patient(2.0) is slow
