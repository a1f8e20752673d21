"""A flood worker lowers its own weight, and nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_CODE = """
import os, sys
from pathlib import Path
from faults.flood.priority import step_back
before = os.nice(0)
step_back(3, Path(sys.argv[1]))
print(os.nice(0) - before)
"""
STEP = min(3, 19 - os.nice(0))
"""There is no weight below that of nice 19."""


def stepped_back(autogroup: Path, *, own_session: bool) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(autogroup)],
        start_new_session=own_session,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    return done.stdout.strip()


def test_a_worker_with_a_session_of_its_own_lowers_that_too(tmp_path: Path) -> None:
    autogroup = tmp_path / "autogroup"
    autogroup.touch()
    assert stepped_back(autogroup, own_session=True) == str(STEP)
    assert autogroup.read_text() == "3"


def test_a_worker_run_by_hand_leaves_its_session_alone(tmp_path: Path) -> None:
    autogroup = tmp_path / "autogroup"
    autogroup.touch()
    assert stepped_back(autogroup, own_session=False) == str(STEP)
    assert autogroup.read_text() == ""


def test_a_system_without_autogroups_is_fine(tmp_path: Path) -> None:
    assert stepped_back(tmp_path / "no" / "autogroup", own_session=True) == str(STEP)
