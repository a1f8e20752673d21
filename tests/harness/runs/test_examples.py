"""The examples for CIs: what they call is there, with those options; what is cheap is run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from harness.cli import app
from harness.runs.index import load, refresh
from harness.scenarios import SCENARIOS
from harness.settings import PROFILES
from tests.harness.runs.conftest import DUAL, a_run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "ci"
FILES = ("github-chaos.yml", "github-nightly.yml", "gitlab-ci.yml")
_SETUP = {"apt-get", "make", "rm", "if", "cp", "mkdir", "[", "fi", "then"}


def parsed(name: str) -> dict[str, Any]:
    found = yaml.safe_load((EXAMPLES / name).read_text())
    assert isinstance(found, dict)
    return found


def jobs(name: str) -> dict[str, dict[str, Any]]:
    found = parsed(name)
    if name.startswith("github"):
        return dict(found["jobs"])
    return {k: v for k, v in found.items() if isinstance(v, dict) and "script" in v}


def scripts(name: str) -> Iterator[tuple[str, str]]:
    """(job, what it runs), line by line."""
    for job, body in jobs(name).items():
        if name.startswith("github"):
            steps = [step["run"] for step in body["steps"] if "run" in step]
        else:
            steps = [*parsed(name)["default"]["before_script"], *body["script"]]
        for step in steps:
            for line in step.splitlines():
                yield job, line.strip()


def commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line of shell, as words; a comment is none."""
    plain = re.sub(r"\$\{\{.*?\}\}", "EXPRESSION", line)
    lexer = shlex.shlex(plain, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("|&;"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def calls(program: str) -> list[Any]:
    found = [
        pytest.param(name, job, words, id=f"{name}:{job}:{' '.join(words)[:40]}")
        for name in FILES
        for job, line in scripts(name)
        for words in commands(line)
        if words and words[0].endswith(program)
    ]
    assert found, program
    return found


def test_every_file_is_looked_at() -> None:
    assert {path.name for path in EXAMPLES.glob("*.yml")} == set(FILES)
    told = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}`" in told for name in FILES)


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_called_that_is_not_known_here(name: str) -> None:
    for _, line in scripts(name):
        for words in commands(line):
            known = words[0] in _SETUP or words[0] in (".venv/bin/pytest", ".venv/bin/biplane")
            assert known, words


@pytest.mark.parametrize(("name", "job", "words"), calls("/biplane"))
def test_biplanes_commands_are_there(name: str, job: str, words: list[str]) -> None:
    group: Any = get_command(app)
    command = group.commands[words[1]]
    command.make_context(words[1], list(words[2:]), resilient_parsing=False)


@pytest.mark.parametrize(("name", "job", "words"), calls("/pytest"))
def test_pytests_options_are_there(name: str, job: str, words: list[str], tmp_path: Path) -> None:
    """What is collected is what would be played; a matrix is filled in with its first."""
    filled = [re.sub(r"EXPRESSION|\$SCENARIO", "request-flood", word) for word in words[1:]]
    here = [re.sub(r"=(junit|artifacts)", rf"={tmp_path}/\1", word) for word in filled]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *here, "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    profile = next(w.partition("=")[2] for w in words if w.startswith("--profile="))
    played = [n for n, s in SCENARIOS.items() if profile in s.profiles and n in filled]
    everything = [n for n, s in SCENARIOS.items() if profile in s.profiles]
    assert done.stdout.count("test_scenario[") == len(played or everything)


@pytest.mark.parametrize(("name", "job", "words"), calls("make"))
def test_makes_targets_are_there(name: str, job: str, words: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(words[1:]) <= set(targets)


def test_nightlies_play_every_scenario() -> None:
    theirs = jobs("github-nightly.yml")["play"]["strategy"]["matrix"]["scenario"]
    (matrix,) = jobs("gitlab-ci.yml")["play"]["parallel"]["matrix"]
    ours = [n for n, s in SCENARIOS.items() if "nightly" in s.profiles]
    assert theirs == matrix["SCENARIO"] == ours, "a new scenario goes into both"
    assert not any(a != b and a in b for a in ours for b in ours), "-k would play both"
    assert "nightly" in PROFILES


@pytest.mark.parametrize("name", FILES)
def test_what_was_found_is_kept_whatever_came_of_it(name: str) -> None:
    for job, body in jobs(name).items():
        if name.startswith("github"):
            (upload,) = [s for s in body["steps"] if "upload-artifact" in s.get("uses", "")]
            assert "!cancelled()" in upload["if"], job
        else:
            assert body["artifacts"]["when"] == "always", job


# -- the nightly's last job, as it stands, on runs that were never played


@pytest.mark.parametrize(
    ("name", "into"), [("github-nightly.yml", "nights"), ("gitlab-ci.yml", "artifacts")]
)
@pytest.mark.parametrize(("bad", "code"), [(False, 0), (True, 1)])
def test_the_trend_job_runs(tmp_path: Path, name: str, into: str, bad: bool, code: int) -> None:
    """The runs of earlier nights are gone but for the table that the CI's cache kept."""
    store = tmp_path / into
    store.mkdir()
    for night in range(24):
        a_run(store, night)
    refresh(store)
    kept = tmp_path / "nights"
    kept.mkdir(exist_ok=True)
    shutil.copy2(store / "runs.parquet", tmp_path / "cached")
    shutil.rmtree(store / "request-flood")
    for night in range(24, 30):
        figures = {DUAL: {"control_p99_ms": 30.0 if bad else 8.0}}
        a_run(store, night, figures=figures)
    refresh(store, only_there=True)  # as the last of the jobs left it
    if name.startswith("gitlab"):
        shutil.copy2(tmp_path / "cached", kept / "runs.parquet")
    link = tmp_path / ".venv" / "bin"
    link.mkdir(parents=True)
    (link / "biplane").write_text(f'#!/bin/sh\nexec {sys.executable} -m harness.cli "$@"\n')
    (link / "biplane").chmod(0o755)
    steps = [line for job, line in scripts(name) if job == "trend"]
    own = [line for line in steps if not line.startswith(("make", "apt-get"))]
    assert len(own) >= 3
    done = None
    for line in own:
        done = subprocess.run(
            ["bash", "-e", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=120,
            check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        if "rm -f" in line and name.startswith("github"):
            shutil.copy2(tmp_path / "cached", store / "runs.parquet")  # what restoring does
        if done.returncode:
            break
    assert done is not None
    assert "biplane trend" in line
    assert done.returncode == code, done.stdout + done.stderr
    assert len(load(store)) == 60, "old nights and new ones"
    assert (store / "index.html").is_file()
    assert (store / "trend.json").is_file()
    if name.startswith("gitlab"):
        assert len(load(kept)) == 60, "kept for the next night, red or not"


@pytest.mark.parametrize("name", ["github-nightly.yml", "gitlab-ci.yml"])
def test_too_few_nights_pass(tmp_path: Path, name: str) -> None:
    (line,) = [text for job, text in scripts(name) if job == "trend" and "biplane trend" in text]
    shell = f"false_two() {{ return 2; }}; {re.sub('^.*(?= [|][|])', 'false_two', line)}"
    assert subprocess.run(["bash", "-e", "-c", shell], check=False).returncode == 0
    shell = shell.replace("return 2", "return 1")
    assert subprocess.run(["bash", "-e", "-c", shell], check=False).returncode == 1
