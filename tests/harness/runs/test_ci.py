"""What a CI is given: JUnit with the verdict in it, a summary, and a folder that is a store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.runs import ci
from harness.runs.index import load
from tests.harness.runs.played import BROKEN, CRASHES, SKIPPED, UNSURE

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow


def played(
    home: Path, names: list[str], *options: str, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "harness/", "-p", "no:cacheprovider"),
            *("-p", "no:hypothesispytest", "-p", "tests.harness.runs.played", *options),
            *("-k", " or ".join(names), f"--artifacts={home / 'artifacts'}"),
            *(f"--store={home / 'store'}", "--seed=7"),
        ],
        cwd=ROOT,
        env={**os.environ, "GITHUB_STEP_SUMMARY": str(home / "summary.md"), **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """`pytest harness/` with what a CI asks for, over scenarios that end at once."""
    home = tmp_path_factory.mktemp("ci")
    names = ["request-flood", BROKEN, UNSURE, CRASHES, SKIPPED]
    done = played(home, names, f"--junitxml={home / 'junit.xml'}")
    suite = ElementTree.parse(home / "junit.xml").getroot()
    cases = {
        str(case.get("name")).partition("[")[2].rstrip("]"): case for case in suite.iter("testcase")
    }
    return SimpleNamespace(home=home, done=done, suite=suite, cases=cases)


def properties(case: ElementTree.Element) -> dict[str, str]:
    return {str(p.get("name")): str(p.get("value")) for p in case.iterfind("properties/property")}


def test_the_worst_exit_code_wins(session: Any) -> None:
    assert session.done.returncode == 1, session.done.stdout + session.done.stderr


@pytest.mark.parametrize(("step", "code"), [("told", 0), ("played", 2)])
def test_a_signal_while_the_outcome_is_told_changes_nothing(
    step: str, code: int, tmp_path: Path
) -> None:
    """The twin: one that comes while a scenario is being played ends it."""
    more = ("-p", "tests.harness.runs.interrupted")
    done = played(tmp_path, ["request-flood"], *more, BIPLANE_INTERRUPTED=step)
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert ("biplane: SIGTERM" in told) == (step == "played")
    assert (tmp_path / "summary.md").exists() == (step == "told")
    assert "Traceback" not in told


def test_nothing_is_warned_of(session: Any) -> None:
    assert "Warning" not in session.done.stdout


def test_each_case_carries_its_verdict(session: Any) -> None:
    found = {name: properties(case) for name, case in session.cases.items()}
    assert found["request-flood"]["verdict"] == "valid"
    assert found[BROKEN]["verdict"] == "invalid"
    assert found[UNSURE]["verdict"] == "unknown"
    assert found[CRASHES]["verdict"] == "crash"
    assert "verdict" not in found[SKIPPED]
    assert session.cases[SKIPPED].find("skipped") is not None
    for name in (BROKEN, UNSURE):
        assert session.cases[name].find("failure") is not None
    assert session.cases["request-flood"].find("failure") is None
    broken = found[BROKEN]
    assert broken["seed"] == "7"
    assert Path(broken["report"]).is_file()
    assert broken["check fencing"] == "invalid"
    assert broken["dualplane-dual control_p99_ms"] == "8.25"
    assert broken["repeat"].startswith(f"biplane run {BROKEN} --seed 7 --profile nightly")
    asked = {p.get("name"): p.get("value") for p in session.suite.iter("property")}
    assert asked["profile"] == "smoke"


def test_the_summary_says_what_broke_first(session: Any) -> None:
    text = (session.home / "summary.md").read_text()
    assert "seed 7, profile smoke" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert "| request-flood | ✅ **valid** | dualplane-single | 8 ms | 0 | 12 s |" in rows
    assert "|  |  | dualplane-dual | 8.25 ms | 0 |  |" in rows
    assert len({row.count(" | ") for row in rows}) == 1
    broken = text[text.index(f"**{BROKEN}: invalid**") :]
    assert broken.splitlines()[2] == "> it broke."
    assert "- fencing: 7 x stale-epoch: it broke" in broken
    assert f"`biplane run {BROKEN} --seed 7" in broken
    assert "RuntimeError('out of luck')" in text
    assert "**request-flood: valid**" not in text


def test_artefacts_are_a_store(session: Any) -> None:
    into = session.home / "artifacts"
    assert f"artefacts: {into / 'index.html'}" in session.done.stdout
    assert {row.scenario for row in load(into)} == {"request-flood", BROKEN, UNSURE}
    for name, red in (("request-flood", False), (BROKEN, True), (UNSURE, True)):
        (run,) = (into / name).iterdir()
        for file in ("report.html", "results.json", "run.json", "plan.json"):
            assert (run / file).is_file(), (name, file)
        assert (run / "history" / "_history.json").is_file() == red
        assert (run / "trials" / "a-0" / "node-1" / "server.log").is_file() == red
        assert not (run / "trials" / "a-0" / "node-1" / "data").exists(), "no records"
    page = (into / "index.html").read_text()
    assert f"{BROKEN}/" in page


def test_without_a_summary_nothing_is_written(tmp_path: Path) -> None:
    ci.append_summary(None, "x")
    ci.append_summary("", "x")
    ci.append_summary(str(tmp_path / "no" / "such" / "folder"), "x")
    assert list(tmp_path.iterdir()) == []


def test_two_steps_share_a_summary(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    ci.append_summary(str(path), "one")
    ci.append_summary(str(path), "two\n\n\n")
    assert path.read_text() == "one\n\ntwo\n\n"


def test_markdown_shows_text_as_it_is() -> None:
    assert ci._plain("a|b <img> `c`\nd") == "a\\|b &lt;img> \\`c\\` d"


def test_long_logs_keep_their_end(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"begin" + b"x" * (3 << 20) + b"the end")
    ci._copy_end(log, tmp_path / "kept" / "server.log")
    kept = (tmp_path / "kept" / "server.log").read_bytes()
    assert len(kept) == 2 << 20
    assert kept.endswith(b"the end")
