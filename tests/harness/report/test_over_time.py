"""timeline, behind, truncations: what is drawn is what the history says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checkers.check import write_figures
from checkers.history.store import LocalStore
from harness.report import timeline
from harness.report.behind import behind
from harness.report.run_folder import RunFolder
from harness.report.truncations import losses

SINGLE, DUAL = ("dualplane-single", 0), ("dualplane-dual", 0)


@pytest.fixture(scope="module")
def folder(finished_run: Path) -> RunFolder:
    return RunFolder.open(finished_run)


def test_moments_count_from_chaos(folder: RunFolder) -> None:
    clock = timeline.clocks(folder)[SINGLE]
    assert clock.chaos_t is not None
    assert clock.seconds(clock.chaos_t) == 0
    assert clock.since_start_s(clock.chaos_t) == 4.0


def test_faults_as_they_happened(folder: RunFolder) -> None:
    clock = timeline.clocks(folder)[SINGLE]
    flood, *moves = timeline.faults(folder)[SINGLE]
    span = flood.span(clock.end_t)
    assert span is not None
    assert [round(clock.seconds(t), 3) for t in span] == [0.801, 7.402]
    assert (flood.took_hold, flood.nodes, flood.detail) == (True, [2], {"connections": {"2": 640}})
    assert [m.id for m in moves] == ["move-0", "move-1", "move-2"]


def test_moves_are_commits_of_another_leader(folder: RunFolder) -> None:
    found = [c for c in timeline.commits(folder)[SINGLE] if c.moved]
    assert [(c.partition, c.before, c.leader) for c in found] == [(0, 2, 3), (1, 2, 3), (2, 2, 3)]


def test_probes_count_from_their_plan(folder: RunFolder) -> None:
    found = timeline.probes(folder)[SINGLE]
    assert len(found) == 90
    (lost,) = [p for p in found if not p.answered]
    assert lost.took_ns == 2_000_000_000


def test_the_flooded_broker_was_behind(folder: RunFolder) -> None:
    clocks = timeline.clocks(folder)
    found, kind = behind(folder, clocks, timeline.commits(folder))
    assert kind == "metadata_update"
    single, dual = found[SINGLE][2], found[DUAL][2]
    assert single.total_ns > 20 * dual.total_ns
    assert max(n for _, n in single.steps) == 1
    assert single.steps[-1][1] == 0


def test_the_time_that_a_broker_was_down_does_not_count(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks, commits = timeline.clocks(folder), timeline.commits(folder)
    whole = behind(folder, clocks, commits)[0][SINGLE][2]
    down = {(*SINGLE, 2): [(0, commits[SINGLE][-1].t)]}
    monkeypatch.setattr("harness.report.behind.down_spans", lambda _folder: down)
    part = behind(folder, clocks, commits)[0][SINGLE][2]
    assert 0 < part.total_ns < whole.total_ns


def test_a_loss_has_its_truncation(finished_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished_run, run)
    lost = {"arm": SINGLE[0], "trial": 0, "topic": "acks1", "partition": 0}
    rows = [{**lost, "node": 2, "category": c, "n": n} for c, n in (("avoidable", 56), ("edge", 1))]
    rows.append({**lost, "node": None, "category": "stranded", "n": 2})
    write_figures(LocalStore(run), {"loss": rows})
    stranded, cut = sorted(losses(RunFolder.open(run)), key=lambda x: x.node or 0)
    assert (stranded.node, stranded.cuts) == (None, [])
    assert cut.by_cause == {"avoidable": 56, "edge": 1}
    (made,) = cut.cuts
    assert made.commit_t is not None
    assert made.send_t is not None
    assert made.obeyed_t is not None
    assert made.commit_t <= made.send_t < made.obeyed_t < made.cut_t
    assert made.exposed_ns == made.obeyed_t - made.send_t
    assert made.from_offset > made.to_offset == 200
