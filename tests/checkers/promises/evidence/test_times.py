"""Rows that lack something: of many rows of a kind the engine looks first."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from checkers.promises.evidence.times import times

TIMES = import_module("checkers.promises.evidence.times")


@pytest.fixture(scope="module")
def spark(spark_itself: Any) -> Any:
    return spark_itself


@pytest.mark.parametrize("lacking", [0, 2])
@pytest.mark.parametrize("many", [10, 1_000], ids=["the engine first", "one by one"])
def test_who_lacks_what(
    story: Any, spark: Any, monkeypatch: pytest.MonkeyPatch, many: int, lacking: int
) -> None:
    looked_at: list[str] = []

    def lacks(kind: str, row: Any) -> Any:
        looked_at.append(kind)
        return looked_into(kind, row)

    looked_into = TIMES.lacks
    monkeypatch.setattr(TIMES, "lacks", lacks)
    monkeypatch.setattr(TIMES, "_MANY", many)
    for n in range(50):
        story.commit(n, 1, n, process="watch", controller_epoch=1)
    for n in range(lacking):
        story.commit(60 + n, 1, 60 + n, source=None, process="other", controller_epoch=1)
    story.add("phase", 1, name="chaos", event="begin", process="harness")
    found = {
        one.process: (one.rows, one.lacking, one.columns) for one in times(story.history(spark))
    }
    expected: dict[str, Any] = {"watch": (50, 0, ()), "harness": (1, 0, ())}
    if lacking:
        expected["other"] = (lacking, lacking, ("source",))
    assert found == expected
    assert ("leadership" in looked_at) == (bool(lacking) or many == 1_000)
    assert "phase" in looked_at
