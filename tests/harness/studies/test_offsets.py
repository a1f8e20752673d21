"""When a plan's faults began in each arm, on histories written by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.history import HistoryError
from faults.plan import Plan
from faults.protocol import Entry
from harness.studies.offsets import read_offsets, table

MS = 1_000_000
START = 5_000 * MS
PLAN = Plan.of(
    1,
    [
        Entry(id="k", fault="kill", at_ms=300, duration_ms=500, params={"target": "1"}),
        Entry(id="p", fault="pause", at_ms=900, duration_ms=100, params={"target": "2"}),
    ],
)


def write(folder: Path, kind: str, arm: str, rows: Sequence[dict[str, Any]]) -> None:
    where = folder / "history" / f"f={kind}" / f"arm={arm}" / "trial=0"
    where.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), where / "part.parquet")


def played(entry: str, begun_ms: float, healed_ms: float, *, held: bool = True) -> list[Any]:
    steps = [("inject", begun_ms, None), ("injected", begun_ms + 40, held)]
    steps += [("heal", healed_ms, None), ("healed", healed_ms + 1, held)]
    return [
        {"t": START + int(ms * MS), "id": entry, "phase": phase, "took_hold": took}
        for phase, ms, took in steps
    ]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    PLAN.save(tmp_path / "plan.json")
    for arm, off_ms in (("ours-dual", 0.5), ("kafka-dual", 3.0)):
        write(tmp_path, "phase", arm, [{"t": START, "name": "chaos", "event": "begin"}])
        rows = played("k", 300 + off_ms, 800) + played("p", 900 + off_ms, 1000)
        write(tmp_path, "fault", arm, rows)
    return tmp_path


def test_the_same_plan_at_the_same_offsets(run: Path) -> None:
    found = read_offsets(run)
    assert not found.differences()
    assert found.arms == ["kafka-dual", "ours-dual"]
    assert found.deviation_ms("kafka-dual") == pytest.approx(3.0)
    lines = table(found)
    assert "| k | kill | 300 | 800 | 303 (+3), 40, 800 (+0) | 300 (+0), 40, 800 (+0) |" in lines
    assert lines[-1].endswith("| 3.0 | 0.5 |")


def test_what_was_not_done_as_planned_is_said(run: Path) -> None:
    write(run, "phase", "slow-dual", [{"t": START, "name": "chaos", "event": "begin"}])
    write(run, "fault", "slow-dual", played("k", 300, 800, held=False))
    write(run, "phase", "late-dual", [{"t": START, "name": "chaos", "event": "begin"}])
    write(run, "fault", "late-dual", played("k", 700, 800) + played("p", 900, 1000))
    found = read_offsets(run)
    assert found.differences() == [
        "late-dual: k (kill) began at 700 ms, planned at 300",
        "slow-dual: k (kill) did not take hold",
        "slow-dual: p (pause) never began",
    ]
    assert "never" in "".join(table(found))


def test_an_entry_is_due_when_the_one_before_it_has_been_healed(run: Path) -> None:
    ahead, after = PLAN.entries
    Plan.of(1, [ahead, replace(after, after="k")]).save(run / "plan.json")
    for arm, begun_ms in (("in-turn", 1600), ("idle", 2500), ("soon", 1200)):
        write(run, "phase", arm, [{"t": START, "name": "chaos", "event": "begin"}])
        write(run, "fault", arm, played("k", 300, 1500) + played("p", begun_ms, begun_ms + 100))
    assert read_offsets(run).differences() == [
        "idle: p (pause) began at 2500 ms, planned at 900",
        "soon: p (pause) began at 1200 ms, planned at 900",
    ]


def test_a_trial_that_never_came_to_its_chaos_is_not_passed_by(run: Path) -> None:
    trials = [{"arm": arm, "trial": 0} for arm in ("ours-dual", "kafka-dual", "kafka-single")]
    (run / "run.json").write_text(json.dumps({"trials": trials}))
    assert read_offsets(run).differences() == [
        f"kafka-single: {entry} never began" for entry in ("k (kill)", "p (pause)")
    ]


def test_a_run_of_which_nothing_was_played_is_refused(run: Path) -> None:
    shutil.rmtree(run / "history")
    with pytest.raises(HistoryError, match="no chaos phase"):
        read_offsets(run)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"no plan\.json; allowed: a run's folder"):
        read_offsets(tmp_path)
