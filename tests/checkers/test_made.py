"""Made histories: clean ones valid by every promise, planted ones broken as often as planted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from checkers.check import check_all, check_run
from checkers.history import HistoryError, frames
from checkers.history.frames import History
from checkers.history.made import CHECKS, SHAPES, make
from checkers.history.made.plants import PLANTS, parse
from checkers.history.parts import read_rows
from checkers.judging import tally
from checkers.promises import NAMES, promises
from tests.checkers.test_cluster import ROOT, asked_for, judged


def by_sail(run: Path) -> Any:
    """What Sail says of it, in a process of its own."""
    command = [sys.executable, "-m", "harness.cli", "check", str(run), "--out", str(run.parent)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads((run.parent / "results.json").read_text())
    # Alone: what it could not answer Spark would have, and nobody would have seen the difference.
    assert re.fullmatch(r"Sail [0-9.]+", found["engine"]), done.stdout + done.stderr
    return found


@pytest.mark.spark
@pytest.mark.parametrize("shape", ["soak", "wide"])  # load: what is planted below, by Spark too
def test_clean_ones_are_valid_by_every_promise(spark: Any, tmp_path: Path, shape: str) -> None:
    truth = make(tmp_path / "run", rows=20_000, shape=shape)
    with History.load(tmp_path / "run", spark=spark) as history:
        assert set(history.run.checks or ()) == set(CHECKS)
        found = check_all(history, NAMES).to_dict()
        assert not history.unanswered
    checks = found["checks"]
    verdicts = {name: check["verdict"] for name, check in checks.items()}
    asked = {name: verdicts[name] for name in CHECKS}
    assert asked == dict.fromkeys(CHECKS, "valid"), found["reasons"]
    assert "invalid" not in verdicts.values(), found["reasons"]
    assert not any(check["excused"] for check in checks.values())
    for arm in checks["truncation-loss"]["arms"].values():
        assert arm["acked_1"] == truth.trials // 2 * truth.acked_1


@pytest.mark.spark
def test_what_is_planted_is_found_as_often(spark_itself: Any, tmp_path: Path) -> None:
    """All at once, each another number of times; nothing else is."""
    plants = {name: 3 + 2 * index for index, name in enumerate(PLANTS)}
    make(tmp_path / "run", rows=20_000, shape="load", plants=plants)
    found = check_run(tmp_path / "run", spark=spark_itself)
    counts: dict[str, int] = {}
    for check in found["checks"].values():
        for rule, n in check["violation_counts"].items():
            counts[rule] = counts.get(rule, 0) + n
    assert counts == plants
    # All else is numbered as its writers would have done it.
    (why,) = found["checks"]["evidence"]["reasons"]
    n = plants["metadata-never-committed"]
    assert f"node 1 showed {n} leader epochs that it does not tell of having taken in" in why
    alike = (json.dumps(judged(results)) for results in (by_sail(tmp_path / "run"), found))
    assert len(set(alike)) == 1


@pytest.mark.spark
def test_what_is_planted_and_what_is_told_besides_agree(tmp_path: Path) -> None:
    """But for a broker that shows what it never took in, as its own rows say."""
    plants = {name: 5 for name in PLANTS if name != "metadata-never-committed"}
    make(tmp_path / "run", rows=20_000, shape="load", plants=plants)
    asked_for(tmp_path / "run", "evidence")
    assert by_sail(tmp_path / "run")["checks"]["evidence"]["verdict"] == "valid"


@pytest.mark.spark
def test_what_is_planted_in_a_larger_one_is_counted_as_well(
    spark_itself: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged as one of millions of rows is: folded, and suspects by Spark's workers."""
    monkeypatch.setattr(frames, "LIGHT_ROWS", 0)
    monkeypatch.setattr(tally, "ON_THE_DRIVER", 50)
    plants = {name: 70 + 20 * index for index, name in enumerate(PLANTS)}
    make(tmp_path / "run", rows=60_000, shape="load", plants=plants)
    own = [one.name for one in promises() if not PLANTS.keys().isdisjoint(one.rules)]
    with History.load(tmp_path / "run", spark=spark_itself) as history:
        assert history.many("probe")
        found = check_all(history, own)
    counts: Counter[str] = Counter()
    for check in found.checks.values():
        counts.update(check.violation_counts)
        assert all(violation.events for violation in check.violations)
    assert counts == plants


@pytest.mark.slow
def test_about_as_many_rows_as_asked_for(tmp_path: Path) -> None:
    for shape in SHAPES:
        truth = make(tmp_path / shape, rows=50_000, shape=shape)
        assert 0.8 < truth.rows / 50_000 < 1.25, shape
        stored = sum(
            len(read_rows(tmp_path / shape / "history", kind, ["t"]))
            for kind in ("produce", "fetch", "log_read", "metadata", "probe")
        )
        assert 0.5 * truth.rows < stored <= truth.rows


@pytest.mark.slow
def test_the_same_words_make_the_same_history(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        make(tmp_path / name, rows=20_000, plants={"replica-differs": 3})
        files = sorted(p for p in (tmp_path / name).rglob("*") if p.is_file())
        made.append([(str(p.relative_to(tmp_path / name)), p.read_bytes()) for p in files])
    assert made[0] == made[1]


def test_what_cannot_be_made_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="allowed: load, soak, wide"):
        make(tmp_path / "a", rows=20_000, shape="round")
    with pytest.raises(HistoryError, match="--rows 100; allowed for shape load: at least"):
        make(tmp_path / "a", rows=100)
    with pytest.raises(HistoryError, match="allowed with these rows: up to"):
        make(tmp_path / "a", rows=20_000, plants={"acked-all-lost": 10**6})
    with pytest.raises(HistoryError, match="'nonsense'; allowed: acked-all-lost"):
        parse("nonsense=1")
    with pytest.raises(HistoryError, match="a number from 1 on"):
        parse("acked-all-lost=none")
    assert parse("acked-all-lost=3, replica-differs=2") == {
        "acked-all-lost": 3,
        "replica-differs": 2,
    }
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(HistoryError, match="it is not empty"):
        make(tmp_path / "full", rows=20_000)
