"""What ``python -m nodes`` says before it begins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nodes.__main__ import main


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
