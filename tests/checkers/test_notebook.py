"""examples/history.ipynb and docs/history.md tell the truth: cells run, the table is compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.history.schema import described

ROOT = Path(__file__).parents[2]
QUESTIONS = ("latency", "lost", "stale", "gaps", "harm")


@pytest.fixture(scope="module")
def spark(spark_itself: Any) -> Any:
    return spark_itself


def cells() -> list[str]:
    book = json.loads((ROOT / "examples/history.ipynb").read_text())
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]


@pytest.mark.spark
def test_the_notebook_answers_its_questions(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BIPLANE_RUN", raising=False)
    *asked, close = cells()
    names: dict[str, Any] = {}
    for cell in asked:
        exec(cell, names)
    found = {name: names[name].collect() for name in QUESTIONS}
    exec(close, names)

    assert all(found.values()), "a question without an answer"
    assert {row.plane for row in found["latency"]} == {"control", "data"}
    assert sum(row.lost for row in found["lost"] if row.acks == -1) == 3, "those that were planted"
    assert all(row.max_ms >= row.p50_ms >= 0 for row in found["stale"])
    assert all(row.longest_ms > 0 for row in found["gaps"])
    writes = sum(row.writes for row in found["harm"])
    assert writes == sum(row.ok + row.failed + row.unknown for row in found["harm"])
    assert {row.fault for row in found["harm"]} > {"none"}, "no write met a fault"


def test_the_page_has_the_table_of_kinds() -> None:
    assert (ROOT / "docs/history.md").read_text().endswith("\n".join(described()) + "\n"), (
        "biplane history kinds"
    )
