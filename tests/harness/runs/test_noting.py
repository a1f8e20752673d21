"""Every run puts itself into its store's table at its end; `biplane index` for all the others."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness import run as run_module
from harness.cli import command
from harness.run import Recorded, conclude
from harness.runs.index import INDEX_FILE, load
from tests.harness.runs.conftest import a_run


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ends a recorded run; answers its verdict and what was said meanwhile."""

    def end(folder: Path) -> tuple[str, list[str]]:
        said: list[str] = []
        results = {"verdict": "valid", "reasons": []}
        monkeypatch.setattr(run_module, "judge", lambda _: results)
        monkeypatch.setattr(run_module, "write_report", lambda _: None)
        recorded = Recorded(
            scenario="request-flood", folder=folder, log_dirs=[], keep_data=False, seconds=1.0
        )
        outcome = conclude(recorded, lambda _, what: said.append(what))
        return str(outcome.verdict), said

    return end


def test_a_run_is_in_the_table_at_its_end(store: Path, end: Any) -> None:
    folders = [a_run(store, n) for n in range(2)]
    for number, folder in enumerate(folders):
        verdict, said = end(folder)
        assert verdict == "valid"
        assert not any(INDEX_FILE in what for what in said)
        assert len(load(store)) == 2 + 2 * number or number == 0
    assert len(load(store)) == 4


@pytest.mark.parametrize("broken", ["results", "table", "place"])
def test_a_verdict_stands_without_the_table(store: Path, end: Any, broken: str) -> None:
    folder = a_run(store, 1)
    if broken == "results":
        (folder / "results.json").write_text("{}")
    elif broken == "table":
        newer = pa.table({}).replace_schema_metadata({"biplane.runs.version": "9"})
        pq.write_table(newer, store / INDEX_FILE)
    else:
        (store / ".runs.lock").mkdir()
    verdict, said = end(folder)
    assert verdict == "valid"
    assert any(f"not in {INDEX_FILE}" in what and "biplane index" in what for what in said)


def test_what_a_run_is_played_on_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.runs.machine import machine_facts

    monkeypatch.setenv("BIPLANE_HOST_CLASS", "rack-7")
    facts = machine_facts(os.environ, Path(__file__).parent)
    assert facts["host_class"] == "rack-7"
    assert facts["memory_bytes"] > 1 << 20
    json.dumps(facts)


def test_the_command(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_run(store, 1)
    (a_run(store, 2) / "results.json").unlink()
    monkeypatch.setattr(sys, "argv", ["biplane", "index", str(store)])
    assert command() == 0
    out, err = capsys.readouterr()
    assert f"{store / INDEX_FILE}: 1 run, 2 rows" in out
    assert "no results.json" in err
    monkeypatch.setattr(sys, "argv", ["biplane", "index", str(store / "nowhere")])
    assert command() == 254
    assert "no such folder" in capsys.readouterr().err
