"""What tests of bugs share: a folder of their own to be in, where made-up runs are put down."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are there until they are judged."""
    monkeypatch.chdir(tmp_path)
