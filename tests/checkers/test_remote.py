"""Histories that are no local folders: read, listed, judged and written beside, by way of Hadoop's
FileSystem. The URI is its view file system with a local folder mounted, so no server is needed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from checkers.check import check_run
from checkers.history import HistoryError
from checkers.history.frames import History
from checkers.history.made import make
from checkers.history.runs import runs_at
from checkers.history.store import HadoopStore, LocalStore, Store
from tests.checkers.test_cluster import asked_for
from tests.checkers.test_forms import as_version_1, biplane


@pytest.fixture(scope="module")
def spark(spark_itself: Any) -> Any:
    return spark_itself


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("remote")
    make(home / "s/20260101T000000-1", rows=5_000, plants={"acked-all-lost": 2})
    asked_for(home / "s/20260101T000000-1", "truncation-loss", "controller-latency")
    as_version_1(home / "s/20260101T000000-1", home / "s/20260102T000000-1")
    return home


@pytest.fixture
def uri(spark: Any, home: Path) -> str:
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.viewfs.mounttable.made.link./store", f"file://{home}")
    return "viewfs://made/store"


def test_judged_beside_their_history_whatever_their_version(
    spark: Any, home: Path, uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert biplane("check", uri) == 1
    assert "2 runs were judged, 0 of them valid" in capsys.readouterr().out
    found = []
    for run in ("s/20260101T000000-1", "s/20260102T000000-1"):
        results = json.loads((home / run / "results.json").read_text())
        assert results["checks"]["truncation-loss"]["violation_counts"] == {"acked-all-lost": 2}
        assert (home / run / "results/latency.parquet").exists()
        for check in results["checks"].values():
            del check["seconds"]
        found.append(
            {
                name: [check[key] for key in ("verdict", "violation_counts", "evidence")]
                for name, check in results["checks"].items()
            }
        )
        alone = check_run(home / run, spark=spark, out=home / "out")
        for check in alone["checks"].values():
            del check["seconds"]
        assert results == alone
    assert found[0] == found[1]


def test_rows_are_neither_cut_nor_out_of_order(spark: Any, home: Path, uri: str) -> None:
    run = "s/20260101T000000-1"
    with (
        History.load(f"{uri}/{run}", spark=spark) as far,
        History.load(home / run, spark=spark) as near,
    ):
        assert far.trials == near.trials
        for kind in ("leadership", "log_end", "produce", "fault"):
            assert far.rows(kind) == near.rows(kind)


def test_what_is_spoilt_is_refused_there_too(
    spark: Any, home: Path, uri: str, tmp_path: Path
) -> None:
    run = home / "spoilt" / "run"
    shutil.copytree(home / "s/20260101T000000-1", run)
    try:
        file = run / "history/f=produce/part-00000.parquet"
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(HistoryError, match="truncated or changed"):
            History.load(f"{uri}/spoilt/run", spark=spark)
        (run / "history").replace(run / "history.unfinished")
        with pytest.raises(HistoryError, match=r"history\.unfinished is there"):
            History.load(f"{uri}/spoilt/run", spark=spark)
        (run / "run.json").unlink()
        with pytest.raises(HistoryError, match="there is no run in it"):
            runs_at(f"{uri}/spoilt", spark)
    finally:
        shutil.rmtree(home / "spoilt")


def test_both_stores_do_the_same(spark: Any, home: Path, uri: str, tmp_path: Path) -> None:
    for name, store in (
        ("far", HadoopStore(f"{uri}/both", spark)),
        ("near", LocalStore(tmp_path)),
    ):
        each: Store = store
        assert not each.exists("a/x"), name
        assert each.names("a") == []
        assert each.sizes("a") == {}
        each.write("a/x", b"one")
        each.write("a/x", bytes(range(256)))
        each.write("a/_hidden", b"")
        each.write("b.txt", b"text")
        assert each.exists("a/x")
        assert "x" in each.names("a")
        assert each.sizes("a") == {"x": 256}
        assert each.read_text("b.txt") == "text"
        each.remove("a")
        each.remove("a")
        assert not each.exists("a/x")
        with pytest.raises(HistoryError, match="a/x"):
            each.read_text("a/x")
    assert (home / "both/b.txt").read_text() == "text"


def test_a_place_of_which_spark_knows_nothing_is_refused(spark: Any) -> None:
    with pytest.raises(HistoryError, match=r"^moon://x: .*moon.*; allowed: a place"):
        HadoopStore("moon://x", spark)
