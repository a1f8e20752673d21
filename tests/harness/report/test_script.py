"""Plotly's script: once in a store, and yet beside every report, wherever its folder is taken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.report import script, write
from tests.harness.report.test_page import read, results


@pytest.fixture
def runs(finished_run: Path, tmp_path: Path) -> list[Path]:
    """Two runs of a store, with a picture each."""
    folders = [tmp_path / "store" / "acks1-truncation" / name for name in ("r1", "r2")]
    for folder in folders:
        shutil.copytree(finished_run, folder)
        (folder / "results.json").write_text(json.dumps(results()))
    return folders


def beside(folder: Path) -> Path:
    (name,) = [a for a in read(write(folder).read_text()).addresses if not a.startswith("#")]
    return folder / name


def test_runs_of_a_store_share_one_file(runs: list[Path]) -> None:
    first, second = (beside(folder) for folder in runs)
    store = runs[0].parents[1]
    assert first.samefile(second)
    assert first.samefile(store / "assets" / first.name)
    assert first.stat().st_nlink == 3
    assert first.stat().st_size > 1 << 20
    assert all((folder / "report.html").stat().st_size < 1 << 20 for folder in runs)


def test_a_folder_that_is_taken_elsewhere_has_its_own(runs: list[Path], tmp_path: Path) -> None:
    shared = beside(runs[0])
    taken = tmp_path / "elsewhere" / "a run"
    shutil.copytree(runs[0], taken)
    shutil.rmtree(tmp_path / "store")
    assert (taken / shared.name).read_bytes().startswith(b"/**")
    again = beside(taken)
    assert again.stat().st_size > 1 << 20
    assert not (tmp_path / "assets").exists(), "nothing is put beside strangers"
    assert not (tmp_path / "elsewhere" / "assets").exists()


def test_where_no_link_can_be_made_there_is_a_copy(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: object) -> None:
        raise OSError("Invalid cross-device link")

    monkeypatch.setattr("os.link", no_link)
    first, second = (beside(folder) for folder in runs)
    assert not first.samefile(second)
    assert first.read_bytes() == second.read_bytes()


def test_a_torn_script_is_mended_for_all(runs: list[Path]) -> None:
    whole = beside(runs[0]).read_bytes()
    shared = runs[0].parents[1] / "assets" / script.script_name()
    shared.unlink()
    shared.write_bytes(whole[:1000])
    (runs[0] / shared.name).unlink()
    (runs[0] / shared.name).hardlink_to(shared)
    first, second = (beside(folder) for folder in runs)
    assert first.samefile(second)
    assert first.read_bytes() == whole


def test_a_page_to_be_mailed_has_it_inside(runs: list[Path]) -> None:
    page = write(runs[0], standalone=True)
    assert all(a.startswith("#") for a in read(page.read_text()).addresses)
    assert page.stat().st_size > 1 << 20
    assert not (runs[0] / script.script_name()).exists()


def test_a_page_without_pictures_needs_none(tmp_path: Path) -> None:
    write(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
