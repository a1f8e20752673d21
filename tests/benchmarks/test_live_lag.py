"""The load of `benchmarks.live_lag` is what workloads write, and wrong only where planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import live_lag
from benchmarks.live_lag import Load
from checkers.live.tail import Tail


def test_each_record_is_acknowledged_and_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_lag, "PLANT_S", 0.1)
    load = Load(tmp_path, rate=4_000)
    rate = load.write(0.5)
    tail = Tail()
    rows = [row for path in sorted(tmp_path.iterdir()) for row in tail.read(path)]
    assert tail.skipped == 0
    assert len(rows) == load.rows
    assert 0 < rate <= 4_000 * 1.1
    done = [row for row in rows if row["type"] == "ok"]
    acked, read = (
        {(row["partition"], row["offset"]): row["value"] for row in done if row["f"] == kind}
        for kind in ("produce", "fetch")
    )
    assert len(acked) == len(read) == load.rows // 4
    wrong = [place for place, value in acked.items() if read[place] != value]
    assert sorted(partition for partition, _ in wrong) == sorted(load.planted)
    assert load.planted
