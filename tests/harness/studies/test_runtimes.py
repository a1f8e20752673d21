"""The comparison of two runtimes, on histories written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.judging.verdict import Verdict
from harness.arms import Skipped
from harness.run import Outcome
from harness.runtime.protocol import SetupError
from harness.scenarios import SCENARIOS
from harness.studies import runtimes
from harness.studies.runtimes import injections, table, throughput

_MS = 1_000_000
_ARM = "dualplane-dual"


def write(folder: Path, kind: str, rows: list[dict[str, Any]]) -> None:
    where = folder / "history" / f"f={kind}" / f"arm={_ARM}" / "trial=0"
    where.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), where / "part.parquet")


def stored(folder: Path, *, kill_ms: float, took_hold: bool, produced: int) -> Path:
    """A run of 4 s of chaos, one fault, ``produced`` acknowledged records in it and one outside."""
    start = 1000 * _MS
    write(
        folder,
        "phase",
        [
            {"t": start, "name": "chaos", "event": "begin"},
            {"t": start + 4000 * _MS, "name": "chaos", "event": "end"},
        ],
    )
    kill = {"id": "k", "fault": "kill", "took_hold": None}
    at = start + int(kill_ms * _MS)
    write(
        folder,
        "fault",
        [
            {**kill, "t": at, "phase": "inject"},
            {**kill, "t": at + _MS, "phase": "injected", "took_hold": took_hold},
        ],
    )
    inside = [{"t": start + n * _MS, "type": "ok"} for n in range(produced)]
    outside = [{"t": start - 1, "type": "ok"}, {"t": start + 1, "type": "info"}]
    write(folder, "produce", inside + outside)
    return folder


def outcome(folder: Path, verdict: Verdict, p99_ms: float) -> Outcome:
    latency = {"arms": {_ARM: {"round_trip": {"p50_ms": 1.0, "p99_ms": p99_ms}}}}
    return Outcome(
        scenario="s",
        verdict=verdict,
        reasons=[],
        folder=folder,
        results={"checks": {"controller-latency": latency}},
        seconds=10.0,
    )


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return stored(tmp_path / "one", kill_ms=500, took_hold=True, produced=400)


def test_what_was_injected_and_when(one: Path) -> None:
    (found,) = injections(one)
    assert (found.arm, found.trial, found.id, found.fault) == (_ARM, 0, "k", "kill")
    assert found.offset_ms == pytest.approx(500)
    assert found.took_hold
    assert throughput(one) == {_ARM: pytest.approx(100)}


def test_the_same_in_both(one: Path, tmp_path: Path) -> None:
    other = stored(tmp_path / "other", kill_ms=520, took_hold=True, produced=200)
    lines, differences = table(
        {
            "process": outcome(one, Verdict.VALID, 10.0),
            "docker": outcome(other, Verdict.VALID, 20.0),
        }
    )
    assert differences == []
    assert f"| {_ARM}: control round trip p99, ms | 10.0 | 20.0 | 2.00 |" in lines
    assert f"| {_ARM}: acknowledged produces, 1/s | 100.0 | 50.0 | 0.50 |" in lines
    assert any("(kill), injected after ms | 500 | 520 |" in line for line in lines)


@pytest.mark.parametrize(
    ("kill_ms", "took_hold", "verdict", "says"),
    [
        (900, True, Verdict.VALID, "came at 500 and 900 ms"),
        (500, False, Verdict.VALID, "was not the same in both"),
        (500, True, Verdict.INVALID, "verdict valid in process, invalid in docker"),
    ],
)
def test_what_must_not_differ(
    one: Path, tmp_path: Path, kill_ms: float, took_hold: bool, verdict: Verdict, says: str
) -> None:
    other = stored(tmp_path / "other", kill_ms=kill_ms, took_hold=took_hold, produced=1)
    _, differences = table(
        {"process": outcome(one, Verdict.VALID, 1.0), "docker": outcome(other, verdict, 1.0)}
    )
    assert len(differences) == 1
    assert says in differences[0]


def test_a_scenario_that_is_skipped_does_not_end_the_others(
    one: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = list(SCENARIOS)[:2]
    seeds = []

    def play(scenario: Any, settings: Any, _progress: Any) -> Outcome:
        seeds.append(settings.seed)
        if scenario.name == first:
            raise Skipped(f"{first}: it lacks something")
        return outcome(one, Verdict.VALID, 1.0)

    monkeypatch.setattr(runtimes, "run", play)
    monkeypatch.setattr("sys.argv", ["compare", first, second])
    assert runtimes.main() == 0
    said = capsys.readouterr().out
    assert f"skipped {first}: it lacks something" in said
    assert "| verdict | valid | valid | |" in said
    assert len(seeds) == 3
    assert len(set(seeds)) == 1


def test_a_machine_that_lacks_something_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def play(*_: Any) -> Outcome:
        raise SetupError("no Docker engine answers")

    monkeypatch.setattr(runtimes, "run", play)
    monkeypatch.setattr("sys.argv", ["compare", next(iter(SCENARIOS))])
    assert runtimes.main() == 254
    assert capsys.readouterr().err.splitlines()[-1] == "compare: no Docker engine answers"
