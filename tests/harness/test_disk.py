"""A run that would fill the disk is refused before it begins, and ended before it does."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults.plan import Plan
from faults.protocol import Entry
from harness import disk
from harness import run as run_module
from harness.cluster import cluster as cluster_module
from harness.cluster.cluster import Cluster
from harness.cluster.errors import ClusterError
from harness.scenarios import SCENARIOS
from harness.settings import PROFILES, Settings, SettingsError

_Usage = namedtuple("_Usage", "total used free")


def flood(fault: str, seconds: int) -> Entry:
    params: dict[str, Any] = {"target": "1"}
    return Entry(
        id=f"{fault}-{seconds}", fault=fault, at_ms=1, duration_ms=seconds * 1000, params=params
    )


def test_floods_that_write_need_room_for_one_trial() -> None:
    quiet = Plan.of(1, [flood("flood-metadata", 100)])
    loud = Plan.of(1, [flood("flood-heavy-produce", 7), flood("flood-produce", 3)])
    assert disk.needed_bytes(quiet, 1) == disk.TRIAL_BYTES + disk.SPARE_BYTES
    written = 10 * disk.FLOOD_BYTES_PER_S
    assert disk.needed_bytes(loud, 1) - disk.needed_bytes(quiet, 1) == written
    assert disk.needed_bytes(loud, 5) - disk.needed_bytes(quiet, 5) == written


def test_a_flood_of_minutes_needs_gigabytes() -> None:
    import random

    plan = SCENARIOS["request-flood"].plan(random.Random(1), PROFILES["nightly"])
    assert disk.needed_bytes(plan, 10) > 10 * disk.GIB


@pytest.mark.parametrize(
    ("free", "refused"), [(disk.needed_bytes(Plan.of(1, []), 1), False), (0, True)]
)
def test_before_it_begins(
    free: int, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder that is not there yet it is the one above that tells."""
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: _Usage(0, 0, free))
    plan, told = tmp_path / "plan.json", []
    Plan.of(1, []).save(plan)

    class Began(Exception):
        pass

    def begin(*_: Any) -> None:
        raise Began

    monkeypatch.setattr(run_module, "_play", begin)
    settings = Settings.of(
        store=tmp_path / "a" / "store", planes="dual", seed=1, plan=plan, rounds=1
    )
    with pytest.raises(SettingsError if refused else Began) as caught:
        run_module.run(SCENARIOS["zombie-controller"], settings, lambda _, what: told.append(what))
    assert (tmp_path / "a").exists() is not refused
    words = str(caught.value) if refused else told[0]
    assert "1 trial needs about 572 MB of" in words
    assert ("--time-limit" in words) is refused


@pytest.mark.parametrize(
    ("free", "ended"), [(disk.SPARE_BYTES - 1, True), (disk.SPARE_BYTES, False)]
)
def test_while_it_goes_on(
    free: int, ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "free_bytes", lambda _: free)
    cluster: Any = SimpleNamespace(dir=tmp_path)
    if ended:
        with pytest.raises(ClusterError, match="only 512 MB are free at"):
            Cluster._probe_disk(cluster)
    else:
        Cluster._probe_disk(cluster)


def test_the_logs_of_floods_are_removed_and_no_others(tmp_path: Path) -> None:
    names = ("flood-f-1-0", "flood-f-1-19", "flood-mine-0", "moved-3", "__consumer_offsets-0")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.log").touch()
    (tmp_path / "meta.properties").touch()
    disk.remove_flood_logs([tmp_path, tmp_path / "missing"], {"flood-mine", "moved"})
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"flood-mine-0", "moved-3", "__consumer_offsets-0", "meta.properties"}


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_store_that_cannot_be_written_is_a_refusal(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings.of(store=tmp_path / place, seed=1)
    with pytest.raises(SettingsError, match=r"--store: .*; allowed: a folder that can be written"):
        run_module.run(SCENARIOS["zombie-controller"], settings, lambda *_: None)
