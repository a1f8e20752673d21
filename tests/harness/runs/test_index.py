"""The table of runs: every run in it once, made anew from folders to the same, and what is broken
is named."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
from pathlib import Path

import duckdb
import pytest

from checkers.history import HistoryError
from harness.runs.index import INDEX_FILE, load, note, refresh
from harness.runs.machine import commit_of, host_class
from harness.runs.rows import NotARun, rows_of
from tests.harness.runs.conftest import DUAL, FIRST_MS, SINGLE, a_run


def test_a_run_is_a_row_an_arm(store: Path) -> None:
    folder = a_run(store, 3, figures={SINGLE: {"control_p99_ms": 700.0, "avoidable_loss": 9}})
    single, dual = rows_of(folder, "request-flood/x")
    assert (single.arm, dual.arm) == (SINGLE, DUAL)
    assert single.figures["control_p99_ms"] == 700.0
    assert single.figures["avoidable_loss"] == 9
    assert dual.figures["avoidable_loss"] == 0, "none is a figure"
    assert "unavailable_p99_ms" not in dual.figures, "not measured is none"
    assert single.started_at_ms == FIRST_MS + 3 * 86_400_000
    assert single.played_s == 100.0
    assert single.host_class == "Linux x86_64 4 cpus 16 GiB"
    assert single.commit == f"{3:040x}"
    assert (single.profile, single.chaos_s, single.rounds) == ("nightly", 120.0, 5)


def test_each_arm_answers_for_itself(store: Path) -> None:
    folder = a_run(
        store, 1,
        broken=[(SINGLE, "fencing", "stale-epoch-accepted")],
        doubts=[(DUAL, "truncation-loss")],
    )  # fmt: skip
    single, dual = rows_of(folder, "x")
    assert single.run_verdict == dual.run_verdict == "invalid"
    assert (single.verdict, dual.verdict) == ("invalid", "unknown")
    assert single.checks == {
        "controller-latency": "valid",
        "truncation-loss": "valid",
        "fencing": "invalid",
    }
    assert dual.checks["truncation-loss"] == "unknown"
    assert dual.checks["fencing"] == "valid"
    assert single.broken == ("fencing: stale-epoch-accepted",)
    assert dual.broken == ()
    assert single.violations == 7


def test_a_doubt_that_names_no_arm_is_everybodys(store: Path) -> None:
    folder = a_run(store, 1, broken=[(SINGLE, "fencing", "rule")])
    path = folder / "results.json"
    results = json.loads(path.read_text())
    results["checks"]["fencing"]["reasons"].append("the checker crashed: ValueError")
    path.write_text(json.dumps(results))
    assert [row.checks["fencing"] for row in rows_of(folder, "x")] == ["invalid", "unknown"]


def test_what_nobody_asked_for_and_nothing_showed_is_left_out(store: Path) -> None:
    folder = a_run(store, 1, doubts=[(DUAL, "fencing")])
    path = folder / "results.json"
    results = json.loads(path.read_text())
    results["checks"]["fencing"]["required"] = False
    path.write_text(json.dumps(results))
    dual = rows_of(folder, "x")[1]
    assert "fencing" not in dual.checks
    assert dual.verdict == "valid"


def test_noted_and_made_anew_are_the_same(store: Path) -> None:
    folders = [a_run(store, n, broken=[(DUAL, "fencing", "r")] * (n == 1)) for n in (2, 0, 1)]
    folders.append(a_run(store / "compare", 5, settings={"overrides": {"a": "b"}}))
    for folder in folders:
        note(store, folder)
    noted = load(store)
    assert [row.started_at_ms for row in noted] == sorted(row.started_at_ms for row in noted)
    assert len(noted) == 8
    (store / INDEX_FILE).unlink()
    assert refresh(store).rows == noted == load(store)
    assert {row.path.split("/")[0] for row in noted} == {"request-flood", "compare"}


def test_a_run_that_is_judged_again_is_in_it_once(store: Path) -> None:
    folder = a_run(store, 1)
    note(store, folder)
    path = folder / "results.json"
    path.write_text(path.read_text().replace('"p99_ms": 8.0', '"p99_ms": 9.5'))
    note(store, folder)
    assert [row.figures["control_p99_ms"] for row in load(store)] == [9.5, 9.5]


def test_others_read_it(store: Path) -> None:
    a_run(store, 1, broken=[(DUAL, "fencing", "r")])
    refresh(store)
    found = duckdb.sql(
        f"select arm, checks['fencing'], control_p99_ms, year(started_at) "
        f"from '{store / INDEX_FILE}' order by arm"
    ).fetchall()
    assert found == [(DUAL, "invalid", 8.0, 2025), (SINGLE, "valid", 8.0, 2025)]


def test_what_is_broken_is_named_and_the_rest_is_there(store: Path) -> None:
    sound = a_run(store, 0)
    torn = a_run(store, 1)
    (torn / "results.json").write_text('{"version": 1, "run_id"')
    unjudged = a_run(store, 2)
    (unjudged / "results.json").unlink()
    begun = a_run(store, 3)
    for name in ("results.json", "run.json"):
        (begun / name).unlink()
    (begun / "plan.json").write_text("{}")
    odd = a_run(store, 4)
    (odd / "results.json").write_text('{"arms": {"x": {}}}')
    listed = a_run(store, 5)
    (listed / "run.json").write_text("[]")
    found = refresh(store)
    assert {row.path for row in found.rows} == {sound.relative_to(store).as_posix()}
    left_out = dict(found.left_out)
    assert len(left_out) == 5
    for folder, why in (
        (torn, "results.json cannot be read"),
        (unjudged, "no results.json"),
        (begun, "no run.json"),
        (odd, "not one: KeyError"),
        (listed, "run.json is not an object"),
    ):
        assert why in left_out[folder.relative_to(store).as_posix()]


def test_a_run_that_can_no_longer_be_read_loses_its_rows(store: Path) -> None:
    """A row that its folder does not bear out is not kept."""
    folder = a_run(store, 1)
    refresh(store)
    (folder / "results.json").write_text("torn")
    with pytest.raises(NotARun):
        note(store, folder)
    assert refresh(store).rows == []


def test_rows_outlive_their_folders_unless_told_otherwise(store: Path) -> None:
    gone, stays = a_run(store, 0), a_run(store, 1)
    refresh(store)
    shutil.rmtree(gone)
    found = refresh(store)
    assert found.kept == 2
    assert len(found.rows) == 4
    there = refresh(store, only_there=True)
    assert {row.path for row in there.rows} == {stays.relative_to(store).as_posix()}
    assert len(load(store)) == 2


def test_a_torn_table_is_set_aside_and_made_again(store: Path) -> None:
    folders = [a_run(store, n) for n in range(3)]
    refresh(store)
    whole = (store / INDEX_FILE).read_bytes()
    (store / INDEX_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(HistoryError, match="biplane index"):
        load(store)
    note(store, folders[0])
    assert len(load(store)) == 6
    (store / INDEX_FILE).write_bytes(b"")
    assert refresh(store).aside == store / f"{INDEX_FILE}.torn-2"


def test_a_newer_table_is_left_alone(store: Path) -> None:
    import pyarrow.parquet as pq

    folder = a_run(store, 1)
    refresh(store)
    path = store / INDEX_FILE
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"biplane.runs.version": "2"}), path)
    before = path.read_bytes()
    for action in (lambda: refresh(store), lambda: note(store, folder)):
        with pytest.raises(HistoryError, match="version is 2"):
            action()
    assert path.read_bytes() == before


def test_an_older_table_without_a_figure_is_read(store: Path) -> None:
    import pyarrow.parquet as pq

    a_run(store, 1)
    refresh(store)
    path = store / INDEX_FILE
    pq.write_table(pq.read_table(path).drop_columns(["acked_1", "reasons"]), path)
    rows = load(store)
    assert "acked_1" not in rows[0].figures
    assert rows[0].reasons == ()


def test_runs_that_end_at_once_lose_nothing(store: Path) -> None:
    folders = [a_run(store, n) for n in range(8)]
    threads = [threading.Thread(target=note, args=(store, folder)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load(store)) == 16
    assert [p.name for p in store.iterdir() if p.name.startswith(f".{INDEX_FILE}")] == []


def test_no_store_no_table(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no such folder"):
        refresh(tmp_path / "nowhere")
    with pytest.raises(HistoryError, match="no such store"):
        load(tmp_path / "nowhere.parquet")
    assert load(tmp_path) == []


def test_hosts_of_a_class() -> None:
    machine = {"system": "Linux 6.1", "architecture": "x86_64", "processors": 4}
    assert host_class(machine | {"memory_bytes": 16_700_000_000}) == "Linux x86_64 4 cpus 16 GiB"
    assert host_class(machine | {"memory_bytes": 15_900_000_000}) == "Linux x86_64 4 cpus 16 GiB"
    assert host_class(machine | {"system": "Linux 6.2-az"}) == host_class(machine)
    assert host_class(machine | {"processors": 2}) != host_class(machine)
    assert host_class(machine | {"host_class": "ubuntu-24.04"}) == "ubuntu-24.04"
    assert host_class({}) == "? ? cpus"


def test_the_commit_that_is_tested(tmp_path: Path) -> None:
    assert commit_of({"GITHUB_SHA": "abc"}, tmp_path) == "abc"
    assert commit_of({"CI_COMMIT_SHA": "def"}, tmp_path) == "def"
    assert commit_of({}, tmp_path) is None


def test_rows_are_all_that_is_stored(store: Path) -> None:
    """A field that the table does not keep would be lost at the first rewrite."""
    a_run(store, 1, settings={"mutants": ["x"], "plan": "p.json", "overrides": {"k": "v"}})
    found = refresh(store)
    for before, after in zip(found.rows, load(store), strict=True):
        assert dataclasses.asdict(before) == dataclasses.asdict(after)
        assert after.own_plan
        assert after.mutants == ("x",)
