"""What ``python -m nodes`` says before it begins."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from nodes.__main__ import main
from nodes.log.checkpoints import CheckpointError
from nodes.log.manager import LogDirError


@pytest.mark.parametrize("platform", ["darwin", "win32", "freebsd14"])
def test_other_systems_are_refused_in_one_line(
    platform: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert main(["server.properties"]) == 1
    said = capsys.readouterr()
    assert said.err == f"a broker runs on Linux only; this is {platform}\n"
    assert not said.out


def test_linux_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It gets as far as its configuration."""
    assert main([str(tmp_path / "missing.properties")]) == 1
    assert "missing.properties" in capsys.readouterr().err


def test_what_no_broker_knows_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """AbstractConfig.logUnused: a name that is misspelt is no control plane, and somebody is told.
    The broker starts all the same."""
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nzookeeper.connect=zoo:1\ncontrol.plane.listner.name=CONTROLLER\n")
    started: list[str] = []

    def run(_config: object, path: str) -> int:
        started.append(path)
        return 0

    monkeypatch.setattr("nodes.__main__._run", run)
    with caplog.at_level(logging.INFO):
        assert main([str(file)]) == 0
    assert started == [str(file)]
    said = [(r.levelname, r.getMessage()) for r in caplog.records]
    text = "The configuration 'control.plane.listner.name' was supplied but isn't a known config."
    assert said == [("WARNING", text)]


_BEGUN = """
import sys
from nodes import __main__ as program

def begun():
    print(sys.modules["hypothesis"], "nodes.broker" in sys.modules)
    sys.exit()

program._Signals = begun
program._run(None, "")
"""


@pytest.mark.slow
def test_a_broker_does_not_pay_for_what_its_tests_need() -> None:
    """kio imports hypothesis where it can: more than a tenth of a second of each broker."""
    done = subprocess.run(
        [sys.executable, "-c", _BEGUN], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["None", "True"]


@pytest.mark.parametrize(
    "error", [LogDirError("log.dirs names one directory twice"), CheckpointError("line 1: x")]
)
def test_what_an_operator_can_mend_is_one_line(
    tmp_path: Path,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def startup(_server: object) -> None:
        raise error

    monkeypatch.setattr("nodes.broker.KafkaServer.startup", startup)
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=1\nzookeeper.connect=zoo:1\nlog.dirs={tmp_path}\n")
    assert main([str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: broker 1 cannot start: {error!r}\n"
