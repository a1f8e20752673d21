"""Scripts trust the exit codes; people read one line that says what to change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def biplane(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    program = "from harness.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["run", "nosuch"], "allowed: request-flood, acks1-truncation"),
        (["run", "--profile", "weekly"], "allowed: smoke, ci, nightly"),
        (["run", "--runtime", "moon", "request-flood"], "allowed: process, docker"),
        (["run", "--sut", "moon", "request-flood"], "allowed: dualplane"),
        (["run", "--mutants", "moon", "request-flood"], "skip-controller-epoch-check"),
        (["run", "--config", "x", "request-flood"], "allowed: name=value"),
        (["check", "nowhere"], "allowed: a run's folder or a URI"),
        (["report", "nowhere"], "no run.json"),
        (["plan", "nowhere.json"], "cannot be read"),
    ],
)
def test_bad_arguments_end_with_254(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = biplane(*arguments, cwd=tmp_path)
    assert done.returncode == 254, done.stderr
    assert says in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_a_bad_plan_names_entry_and_field(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    entry = {"id": "x", "fault": "floood", "at_ms": 1}
    plan.write_text(json.dumps({"seed": 1, "entries": [entry]}))
    done = biplane("run", "--plan", str(plan), "request-flood", cwd=tmp_path)
    assert done.returncode == 254
    for part in (str(plan), "entry 'x'", "field 'fault'", "flood-heavy-produce"):
        assert part in done.stderr


def test_a_seed_draws_the_same_plan() -> None:
    first = biplane("plan", "request-flood", "--seed", "7")
    again = biplane("plan", "request-flood", "--seed", "7")
    other = biplane("plan", "request-flood", "--seed", "8")
    assert first.returncode == 0
    assert first.stdout == again.stdout != other.stdout


def test_help_teaches_without_loading_spark() -> None:
    done = biplane("--help")
    assert done.returncode == 0
    for part in ("run", "check", "report", "scenarios", "Exit codes"):
        assert part in done.stdout


def test_the_pytest_plugin_refuses_bad_options(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "harness/", "--profile=weekly", "-p", "no:cacheprovider"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 254
    assert "allowed: smoke, ci, nightly" in done.stdout + done.stderr
