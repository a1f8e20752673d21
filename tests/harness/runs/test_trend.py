"""A regression that was planted in a series of nightlies is found; unchanged ones flag nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli import command
from harness.runs import words
from harness.runs.index import refresh
from harness.runs.rows import Row
from harness.runs.trend import MIN_BEFORE, WINDOWS, Series, Trend, trend
from tests.harness.runs.conftest import DUAL, SINGLE, a_run, noise

NIGHTS = 30


def nightly(
    store: Path,
    seed: int = 1,
    nights: int = NIGHTS,
    since: int | None = None,
    slower: float = 1.5,
    lost: int = 3,
    usual: float = 8.0,
    spread: float = 0.1,
    **changes: Any,
) -> list[Row]:
    """A series in both arms; from night ``since`` on the dual one is ``slower`` and loses."""
    for night in range(nights):
        bad = since is not None and night >= since
        figures = {
            SINGLE: {"control_p99_ms": noise(seed, f"{night}s", 700, spread)},
            DUAL: {
                "control_p99_ms": noise(seed, f"{night}d", usual, spread) * (slower if bad else 1),
                "avoidable_loss": lost if bad else 0,
            },
        }
        a_run(store, night, seed=seed * 1000 + night, figures=figures, **changes)
    return refresh(store, write=False).rows


def of(found: Trend, arm: str) -> Series:
    (series,) = [s for s in found.series if s.key.arm == arm]
    return series


def test_a_planted_regression_is_flagged(store: Path) -> None:
    rows = nightly(store, since=24)
    found = trend(rows)
    assert found.exit_code == 1
    changes = {c.figure: c for c in of(found, DUAL).changes}
    assert set(changes) == {"control_p99_ms", "avoidable_loss"}
    slower, loss = changes["control_p99_ms"], changes["avoidable_loss"]
    assert slower.worse
    assert loss.worse
    assert slower.now / slower.earlier == pytest.approx(1.5, rel=0.2)
    assert (loss.earlier, loss.now) == (0, 3)
    assert loss.since.seed == 1024, "where it began"
    assert of(found, SINGLE).changes == []


def test_what_got_better_is_said_and_fails_nothing(store: Path) -> None:
    found = trend(nightly(store, since=24, slower=0.5, lost=0))
    (change,) = of(found, DUAL).changes
    assert not change.worse
    assert found.exit_code == 0


@pytest.mark.parametrize("seed", range(25))
def test_unchanged_runs_flag_nothing(store: Path, seed: int) -> None:
    """Seeds that stand for nothing: the rate itself is the rank test's, see its tests."""
    found = trend(nightly(store, seed, spread=0.4))
    assert found.exit_code == 0
    assert [c for s in found.series for c in s.changes] == []


@pytest.mark.parametrize(("usual", "slower"), [(800, 1.06), (2, 1.4)])
def test_a_change_that_nobody_would_notice_is_none(
    store: Path, usual: float, slower: float
) -> None:
    found = trend(nightly(store, since=20, slower=slower, lost=0, usual=usual, spread=0.002))
    assert of(found, DUAL).changes == []
    assert found.tests == 2, "it varies, and was looked at"


def test_one_bad_night_is_no_trend(store: Path) -> None:
    assert trend(nightly(store, since=29, lost=0, slower=3)).exit_code == 0


def test_other_hosts_profiles_and_planted_bugs_are_not_compared(store: Path) -> None:
    """The newest runs are slow, but on another machine, in another profile, or by a bug of ours."""
    rows = nightly(store, nights=22)
    for night in range(30, 38):
        slow = {"figures": {DUAL: {"control_p99_ms": 90.0}}}
        a_run(store, night, **slow, run={"machine": {"processors": 2}})
        profile = {"profile": {"name": "smoke", "chaos_s": 8.0, "rounds": 1}}
        a_run(store, night + 10, **slow, settings=profile)
        a_run(store, night + 20, **slow, settings={"mutants": ["never-truncate"]})
        a_run(store, night + 30, **slow, settings={"overrides": {"num.io.threads": "1"}})
        a_run(store, night + 40, **slow, settings={"plan": "mine.json"})
    more = refresh(store, write=False).rows
    found = trend(more)
    assert found.exit_code == 0
    assert len(found.series) == 8
    assert found.aside == 2 * 2 * 8
    # The twin: the same figures of comparable runs.
    for night in range(80, 88):
        a_run(store, night, **slow)
    assert trend(refresh(store, write=False).rows).exit_code == 1
    assert len(rows) == 44


def test_a_new_violation_is_flagged_at_once(store: Path) -> None:
    nightly(store, nights=12)
    a_run(store, 12, seed=77, broken=[(SINGLE, "fencing", "stale-epoch-accepted")])
    found = trend(refresh(store, write=False).rows)
    (broken,) = of(found, SINGLE).broken
    assert broken.new
    assert broken.rules == ("stale-epoch-accepted",)
    assert (broken.earlier, broken.of) == (0, 12)
    assert of(found, DUAL).broken == []
    assert found.exit_code == 1


def test_what_was_broken_all_along_is_known(store: Path) -> None:
    broken = [(DUAL, "fencing", "r")]
    found = trend(nightly(store, nights=14, broken=broken))
    (one,) = of(found, DUAL).broken
    assert not one.new
    assert found.exit_code == 0


def test_runs_that_prove_nothing_any_more_are_a_change(store: Path) -> None:
    nightly(store, nights=24)
    for night in range(24, 30):
        a_run(store, night, doubts=[(DUAL, "truncation-loss")])
    found = trend(refresh(store, write=False).rows)
    assert [c.figure for c in of(found, DUAL).changes if c.worse] == ["unknown"]
    assert found.exit_code == 1


def test_a_figure_that_is_no_longer_measured_is_a_change(store: Path) -> None:
    nightly(store, nights=24)
    for night in range(24, 30):
        a_run(store, night, figures={DUAL: {"control_p99_ms": None}})
    found = trend(refresh(store, write=False).rows)
    assert [c.figure for c in of(found, DUAL).changes] == ["not measured: control_p99_ms"]


def test_too_few_runs_prove_nothing(store: Path) -> None:
    least = MIN_BEFORE + WINDOWS[0]
    assert trend(nightly(store, nights=least - 1)).exit_code == 2
    assert trend([]).exit_code == 2
    a_run(store, least)
    assert trend(refresh(store, write=False).rows).exit_code == 0


# -- the command


@pytest.fixture
def biplane(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*options: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["biplane", "trend", *options])
        code = command()
        return code, *capsys.readouterr()

    return run


def test_the_command_says_what_changed(
    store: Path, biplane: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    nightly(store, since=24)
    code, out, _ = biplane(str(store), "--json", str(tmp_path / "trend.json"))
    assert code == 1
    for part in (
        f"request-flood, {DUAL} (nightly, process, Linux x86_64 4 cpus 16 GiB): 30 valid",
        "WORSE  control latency under faults, p99: ",
        "WORSE  avoidable loss of acks=1 records: 0 -> 3; the newest ",
        "2 series, 1 worse",
        "at most 1% of calls",
    ):
        assert part in out, part
    assert SINGLE not in out
    data = json.loads((tmp_path / "trend.json").read_text())
    assert data["flagged"]
    assert {c["figure"] for s in data["series"] for c in s["changes"]} == {
        "control_p99_ms",
        "avoidable_loss",
    }
    summary = (tmp_path / "summary.md").read_text()
    assert f"| request-flood | {DUAL} | WORSE | control latency" in summary


def test_a_table_alone_will_do(store: Path, biplane: Any, tmp_path: Path) -> None:
    nightly(store, since=24)
    refresh(store)
    table = (store / "runs.parquet").rename(tmp_path / "kept.parquet")
    assert biplane(str(table))[0] == 1
    assert biplane(str(tmp_path / "none.parquet"))[0] == 254


def test_from_a_day_on(store: Path, biplane: Any) -> None:
    """What was accepted is left behind: the day after it is the beginning of what is usual."""
    nightly(store, since=12)
    assert biplane(str(store))[0] == 1
    day = refresh(store).rows[2 * 13]
    assert biplane(str(store), "--since", words.day(day))[0] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--since", "yesterday"], "allowed: a day"),
        (["--last", "500"], "allowed: 8 to 100"),
        (["--alpha", "2"], "between 0 and 1"),
        (["--scenario", "moon"], "allowed: request-flood"),
    ],
)
def test_bad_arguments(store: Path, biplane: Any, options: list[str], says: str) -> None:
    a_run(store, 1)
    code, _, err = biplane(str(store), *options)
    assert code == 254
    assert says in " ".join(err.split())


def test_all_series_are_shown_when_asked(store: Path, biplane: Any) -> None:
    nightly(store, nights=3)
    code, out, _ = biplane(str(store), "--all")
    assert code == 2
    assert "too few runs: 3 of 11" in out
    assert out.count("records acknowledged with acks=1: ... 5,000, 5,000, 5,000") == 2
