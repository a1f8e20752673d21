"""Careless and hostile use of the command line: nothing that was asked for is silently left out,
and what cannot be meant is refused before anything is begun."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness.cli import command
from harness.cli_options import rows_of, seconds

ROOT = Path(__file__).resolve().parents[2]


class Refused:
    """A command of which one line says what to change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> str:
        self._monkeypatch.setattr(sys, "argv", ["biplane", *arguments])
        code = command()
        err = self._capsys.readouterr().err
        assert code == 254, err
        assert "Traceback" not in err
        return " ".join(err.replace("│", " ").split())


@pytest.fixture
def refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Refused:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    (tmp_path / "a-file").write_text("kept")
    return Refused(monkeypatch, capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", ".", "--deadline", "nans"],
        ["check", ".", "--deadline", "infd"],
        ["check", ".", "--since", "nans"],
        ["check", ".", "--out", "a-file/there"],
        ["compare", "--rounds", "-1"],
        ["compare", "--idle", "-1"],
        ["compare", "--time-limit", "nan"],
        ["compare", "--store", "a-file"],
        ["guarantees", "--out", "a-file/page.md"],
        ["guarantees", "--out", "."],
        ["track-record", "--out", "a-file/page.md"],
        ["trend", "--json", "."],
        ["adapter", "schema", "--out", "."],
        ["serve", "--port", "-1"],
        ["serve", "--port", "99999"],
        ["history", "generate", "made", "--rows", "inf"],
        ["history", "generate", "a-file"],
        ["history", "generate", "a-file/made"],
        ["history", "merge", "a-file/merged", "."],
        ["mutants", "--generate", "-1"],
        ["mutants", "skip-leader-epoch-check", "--generate", "3"],
        ["mutants", "--planes", "single", "--generate", "3"],
        ["mutate", "0"],
        ["mutate", "2", "--seeds", "0"],
        ["mutate", "2", "--tries", "0"],
        ["mutate", "2", "--profile", "weekly"],
        ["mutate", "2", "--time-limit", "nan"],
        ["mutate", "2", "--out", "a-file/page.md"],
        ["mutate", "2", "--store", "a-file"],
        ["trust", "--seeds", "0"],
        ["trust", "--planes", ","],
        ["trust", "--sut", "moon"],
        ["trust", "--profile", "weekly"],
        ["trust", "--out", "a-file/page.md"],
        ["reproduce", "KAFKA-9839", "--store", "a-file"],
        ["run", "lone-broker", "--config", "x=1", "--config", "x=2"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_refused_before_it_is_begun(
    refused: Refused, tmp_path: Path, arguments: list[str]
) -> None:
    assert "allowed" in refused(*arguments) or "Invalid value" in refused(*arguments)
    assert (tmp_path / "a-file").read_text() == "kept"
    assert not (tmp_path / "store").exists()


def test_a_page_is_written_into_a_folder_that_is_not_there_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "new" / "pages" / "schema.json"
    monkeypatch.setattr(sys, "argv", ["biplane", "adapter", "schema", "--out", str(page)])
    assert command() == 0
    assert json.loads(page.read_text())["title"]


def test_a_comparison_goes_on_with_what_it_began_with(refused: Refused, tmp_path: Path) -> None:
    began = {"suts": ["dualplane"], "planes": ["single", "dual"], "scenarios": [], "runs": []}
    (tmp_path / "compare.json").write_text(json.dumps(began))
    into = ("compare", "--into", str(tmp_path), "--rounds", "0")
    assert "--sut: kafka-zk; allowed: dualplane" in refused(*into, "--sut", "kafka-zk")
    assert "--planes: dual; allowed: single,dual" in refused(*into, "--planes", "dual")
    assert "--rounds: 0" in refused(*into, "--planes", "dual,single", "--sut", "dualplane")


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "rolling-upgrade"],
        ["run", "rolling-upgrade", "--profile", "soak"],
        ["compare", "--scenario", "rolling-upgrade", "--rounds", "1"],
    ],
    ids=" ".join,
)
def test_what_no_system_can_play_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["biplane", *arguments, "--planes", "priority"])
    assert command() == 2
    told = "".join(capsys.readouterr())
    assert "skipped rolling-upgrade: priority planes are not its own" in told
    assert "Traceback" not in told


def test_spans_of_time_and_numbers_of_rows() -> None:
    assert [seconds(text, "x") for text in ("90", "90s", "2m", "1h", "7d")] == [
        *(90, 90, 120, 3600, 604_800)
    ]
    assert [rows_of(text) for text in ("500", "20k", "1.5M")] == [500, 20_000, 1_500_000]


def played(*options: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "harness/", "-p", "no:cacheprovider", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["-k", "nosuch"], "no scenario was chosen; allowed: request-flood"),
        (["--seed=x"], "--seed: 'x'; allowed: a whole number"),
        (["--rounds=x"], "--rounds: 'x'; allowed: a whole number"),
        (["--time-limit=soon"], "--time-limit: 'soon'; allowed: a time such as 90s"),
        (["--time-limit=-1"], "--time-limit: '-1'; allowed"),
        (["--kafka-home=nowhere"], "--kafka-home: none of these systems is Apache Kafka"),
        (["--artifacts=README.md"], "--artifacts: README.md: "),
        (["-n", "2"], "-n: allowed without"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_pytest_refuses_as_the_command_does(options: list[str], says: str) -> None:
    code, told = played(*options)
    assert code == 254, told
    assert says in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_what_was_skipped_as_a_whole_is_unknown() -> None:
    code, told = played("-k", "rolling-upgrade", "--planes=priority")
    assert code == 2, told
    assert "priority planes are not its own" in told
    assert "biplane: unknown: nothing was played" in told


@pytest.mark.slow
def test_a_time_limit_has_the_units_that_the_command_takes() -> None:
    assert played("--collect-only", "--time-limit=2m", "-q", "-k", "zombie")[0] == 0


@pytest.mark.parametrize("command", ["report", "index", "history compact", "history finish"])
def test_a_folder_that_cannot_be_written_is_refused_before_it_is_read(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    assert "Read-only file system; allowed: a folder that can be" in refused(*command.split(), ".")


def read_only(**_: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "says"),
    [
        (["client_view", "nosuch"], "'nosuch'; allowed: none, kill"),
        (["client_view", "--write", "nowhere"], "no such page"),
        (["tools", "--only", "nosuch"], "--only nosuch: no step is so"),
        (["tools", "--write", "nowhere/page.md"], "no such folder"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_a_study_of_nothing_is_refused(study: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"harness.studies.{study[0]}", *study[1:]],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
