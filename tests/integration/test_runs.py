"""Whole runs on real clusters: planted bugs are found with a witness, sound servers are not
accused, and a run that proves nothing says so.

Each run is as short as its point allows. Spark is started once, in this process.
"""

from __future__ import annotations

import dataclasses
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from checkers.judging.verdict import Verdict
from faults.plan import Plan
from faults.protocol import Entry
from harness import live
from harness.progress import Shown
from harness.run import Outcome, conclude, record_run
from harness.runtime.paths import registry_dir
from harness.runtime.registry import records
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from tests.checkers.test_cluster import asked_for

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

BROKEN_S = 10.0
"""What a planted bug has broken for good need not be looked at for longer than `recovery` asks."""
KILL_FIRST = 3
"""A seed whose broker-restart plan begins with a kill of a leader that its followers lag behind."""


def nothing(_where: str, _what: str) -> None:
    pass


def play(
    scenario: str,
    store: Path,
    progress: Callable[[str, str], None] = nothing,
    *checks: str,
    **options: Any,
) -> Outcome:
    """Judged by these ``checks``; by all that the scenario asks for where none is named."""
    settings = Settings.of(store=store, planes="dual", **{"seed": KILL_FIRST, **options})
    recorded = record_run(SCENARIOS[scenario], settings, progress)
    asked_for(recorded.folder, *checks)
    return conclude(recorded, progress)


def rules_of(outcome: Outcome, check: str) -> set[str]:
    return set(outcome.results["checks"][check]["violation_counts"])


def witnesses(outcome: Outcome, check: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = outcome.results["checks"][check]["violations"]
    return found


def test_the_kill_comes_first_with_this_seed(tmp_path: Path) -> None:
    from harness.arms import plan_of

    settings = Settings.of(store=tmp_path, seed=KILL_FIRST, time_limit_s=4)
    plan = plan_of(SCENARIOS["broker-restart"], settings)
    assert [entry.fault for entry in plan.entries] == ["lagged-kill"]


def test_a_zombie_is_refused_and_a_sound_server_is_not_accused(tmp_path: Path) -> None:
    outcome = play("zombie-controller", tmp_path, time_limit_s=6)
    assert outcome.verdict is Verdict.VALID, outcome.reasons
    refused = outcome.results["checks"]["fencing"]["arms"]["dualplane-dual"]["refused"]
    assert refused["11"] > 0  # STALE_CONTROLLER_EPOCH
    assert refused["77"] > 0  # STALE_BROKER_EPOCH
    for name in ("run.json", "plan.json", "results.json", "report.html"):
        assert (outcome.folder / name).stat().st_size > 0


def test_a_server_that_obeys_zombies_is_invalid(tmp_path: Path) -> None:
    """It is told while the run goes on, too, and nothing that judging does not come to."""
    told: list[str] = []
    shown = Shown(nothing, told.append)
    broken = dataclasses.replace(SCENARIOS["zombie-controller"], quiesce_s=BROKEN_S)
    options: dict[str, Any] = {"store": tmp_path, "planes": "dual", "seed": KILL_FIRST}
    options |= {"mutants": "skip-controller-epoch-check", "time_limit_s": 6, "live": True}
    recorded = record_run(broken, Settings.of(**options), shown)
    asked_for(recorded.folder, "fencing", "truncation-loss", "stale-metadata", "epochs", "polls")
    outcome = conclude(recorded, shown)
    assert outcome.verdict is Verdict.INVALID, outcome.reasons
    assert "stale-controller-epoch-accepted" in rules_of(outcome, "fencing")
    assert any("live: fencing: stale-controller-epoch-accepted: node " in line for line in told)
    assert not any("not confirmed" in line for line in told), told
    assert live.read(outcome.folder)[-1]["what"] == "ended"
    events = witnesses(outcome, "fencing")[0]["events"]
    assert len(events) >= 2
    assert [e["t"] for e in events] == sorted(e["t"] for e in events)


def test_a_run_in_which_no_leader_changed_is_unknown(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    few = {"target": "not-controller", "connections": 8, "partitions": 2}
    flood = Entry(id="flood", fault="flood-heavy-produce", at_ms=100, duration_ms=1000, params=few)
    Plan.of(1, [flood]).save(plan)
    outcome = play("request-flood", tmp_path, nothing, "activity", time_limit_s=2, plan=plan)
    assert outcome.verdict is Verdict.UNKNOWN
    reasons = " ".join(outcome.reasons)
    assert "leader" in reasons
    assert "flood" in reasons  # eight connections cannot fill a queue of five hundred


def test_a_flood_that_is_killed_on_the_way_makes_the_run_unknown_and_keeps_the_history(
    tmp_path: Path,
) -> None:
    killed: list[int] = []

    def kill_flood(_where: str, what: str) -> None:
        left = re.match(r"chaos, (\d+) s left", what)
        if left and int(left[1]) <= 4 and not killed:
            killed.extend(flood_workers(tmp_path))
            for pid in killed:
                os.kill(pid, signal.SIGKILL)

    outcome = play("request-flood", tmp_path, kill_flood, "activity", time_limit_s=7)
    assert killed
    assert outcome.verdict is Verdict.UNKNOWN, outcome.reasons
    assert outcome.verdict.exit_code == 2
    # A busy machine may have held the flood up before, which is a reason of its own.
    about_it = [reason for reason in outcome.reasons if "flood-heavy-produce" in reason]
    (why,) = [reason for reason in about_it if " died " in reason]
    assert "on broker" in why
    assert f"ended with signal {int(signal.SIGKILL)}" in why
    (flood,) = outcome.results["checks"]["activity"]["arms"]["dualplane-dual"]["floods"]
    assert f"; {flood['completed']:,} requests were completed by then, none after" in why
    assert flood["fewest_connections"] == 0
    for kind in ("flood", "metadata", "control_request", "leadership"):
        assert (outcome.folder / "history" / f"f={kind}").is_dir()
    assert (outcome.folder / "report.html").is_file()


def flood_workers(store: Path) -> list[int]:
    """The pids of the flood workers whose live files lie below ``store``."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has ended
            if "faults.flood.worker" in words and any(w.startswith(str(store)) for w in words):
                found.append(int(process.name))
    return found


CHAOS_S = 60
"""Of a run that is not to last so long."""


def test_a_toxiproxy_that_dies_makes_the_run_unknown_and_keeps_the_history(
    tmp_path: Path,
) -> None:
    killed: list[int] = []

    def kill_toxiproxy(_where: str, what: str) -> None:
        if what.startswith("chaos") and not killed:
            for _, entry in records(registry_dir()):
                if entry and entry.owner_pid == os.getpid() and "toxiproxy" in entry.name:
                    killed.append(entry.pid)
                    os.kill(entry.pid, signal.SIGKILL)

    outcome = play("broker-restart", tmp_path, kill_toxiproxy, "activity", time_limit_s=CHAOS_S)
    assert killed
    assert outcome.verdict is Verdict.UNKNOWN, outcome.reasons
    assert "toxiproxy" in " ".join(outcome.reasons)
    phases = parquet.read_table(outcome.folder / "history" / "f=phase").to_pylist()
    begun = {row["name"]: row["t"] for row in phases if row["event"] == "begin"}
    # Nobody waits for rest, nor for the end of the plan.
    assert list(begun) == ["start", "warmup", "chaos", "heal", "final_read"]
    assert begun["final_read"] - begun["chaos"] < CHAOS_S * 1e9
    assert (outcome.folder / "history" / "f=produce").is_dir()
    assert (outcome.folder / "report.html").is_file()
