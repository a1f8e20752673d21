"""A log directory that fails under a broker that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults import build
from faults.failed_disk import give_back, take_away
from faults.protocol import FaultFailed
from tests.faults.situations import elect


def test_nothing_can_be_made_where_a_partition_was(tmp_path: Path) -> None:
    segment = tmp_path / "t-0" / "0.log"
    segment.parent.mkdir()
    segment.write_text("kept")
    (tmp_path / "meta.properties").write_text("x")
    with segment.open("a") as file:
        assert take_away(tmp_path) == ["t-0"]
        with pytest.raises(NotADirectoryError):
            (tmp_path / "t-0" / "1.log").touch()
        with pytest.raises(FileExistsError):
            (tmp_path / "t-0").mkdir(exist_ok=True)
        file.write(", and written on")
    give_back(tmp_path)
    give_back(tmp_path)  # a no-op
    assert segment.read_text() == "kept, and written on"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["meta.properties", "t-0"]


@pytest.mark.parametrize(("halts", "writes"), [(True, False), (False, True), (False, False)])
def test_a_broker_ends_or_goes_on(
    ctx: Any, entry: Any, logs: Any, halts: bool, writes: bool
) -> None:
    """Of one that goes on and has nothing to write nobody knows whether it would have ended."""
    home = Path(ctx.nodes.log_dir(1))

    def told(node: int, why: Callable[[], object], _within_s: float) -> bool:
        segment = next((home / "t-0").glob("*.log"))
        with segment.open("ab") as file:
            why()
            file.write(b"x" * writes)
        ctx.cluster.running[node] = not halts
        return halts

    ctx.cluster.halts = told
    before = sorted(path.name for path in home.iterdir())
    fault = build(entry("fail-disk", target="leader:t-0"))
    fault.inject(ctx)
    assert fault.nodes == [1]
    assert fault.took_hold is (halts or writes)
    assert fault.detail["halted" if halts else "went_on"] == [1]
    assert (home / "t-0").is_file()
    fault.heal(ctx)
    assert sorted(path.name for path in home.iterdir()) == before
    assert (home / "t-0").is_dir()
    assert ctx.cluster.calls == ([] if halts else [("kill", 1)]) + [("start", 1)]


def test_who_is_all_of_a_set_keeps_its_disk(ctx: Any, entry: Any, logs: Any) -> None:
    elect(ctx.cluster, ("t", 0), 1, isr=(1,))
    with pytest.raises(FaultFailed, match="every in-sync set is full"):
        build(entry("fail-disk", target="1", in_sync_ms=20)).inject(ctx)
    assert (Path(ctx.nodes.log_dir(1)) / "t-0").is_dir()
