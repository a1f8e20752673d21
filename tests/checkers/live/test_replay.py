"""A stored run is watched again, and held against what judging it said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkers.history import HistoryError
from checkers.history.parts import stored_schema
from checkers.history.writer import HistoryWriter
from checkers.live.replay import replay, unconfirmed, untold
from tests.checkers.conftest import Story
from tests.checkers.live.test_live import old_controller, went_back

WENT_BACK = "metadata-went-back"


def stored(folder: Path, *stories: Story) -> Path:
    with HistoryWriter(folder / "history") as writer:
        for story in stories:
            for kind, rows in story.rows.items():
                plain = [{k: v for k, v in r.items() if k not in ("arm", "trial")} for r in rows]
                schema = stored_schema(kind)
                schema = pa.schema([f for f in schema if f.name not in ("arm", "trial")])
                table = pa.Table.from_pylist(plain, schema=schema)
                writer.add(kind, table, arm=story.arm, trial=story.trial)
    (folder / "run.json").write_text(json.dumps(stories[0].run))
    return folder


def judged(*rules: str) -> dict[str, Any]:
    return {"checks": {"c": {"violation_counts": dict.fromkeys(rules, 1)}}}


def test_what_is_told_of_a_stored_run(spark: Any, tmp_path: Path) -> None:
    """Two trials; what happened in one is not told of the other."""
    broken, sound = Story(), Story(trial=1)
    went_back(broken)
    old_controller(broken, error=11)
    sound.read(1_000, 1, 4, process="reader")
    sound.read(60_000, 1, 4, process="reader")
    seen = replay(spark, stored(tmp_path, broken, sound))
    assert [(one.trial, one.rule) for one in seen.told] == [(0, WENT_BACK)]
    assert seen.looks > 30, "the run's minute is looked at every two seconds"
    assert unconfirmed(seen.told, judged(WENT_BACK)) == []
    assert untold(seen.told, judged(WENT_BACK)) == []
    assert [one.rule for one in unconfirmed(seen.told, judged("never-converged"))] == [WENT_BACK]
    obeyed = "stale-controller-epoch-accepted"
    assert untold(seen.told, judged(WENT_BACK, obeyed)) == [obeyed]
    assert untold(seen.told, judged(WENT_BACK, "never-converged")) == [], "it is left to the end"


def test_an_epoch_that_was_never_committed_is_left_to_the_end() -> None:
    """Only ZooKeeper's own log, which is told then, proves it; a commit for another is known."""
    own, other = {"f": "leader_change", "node": 1}, {"f": "leadership", "leader": 2}
    found = judged("led-by-another")

    def witnessed(*events: list[dict[str, Any]]) -> dict[str, Any]:
        each = [{"rule": "led-by-another", "events": of} for of in events]
        return {"checks": {"c": {**found["checks"]["c"], "violations": each}}}

    assert untold([], witnessed([own], [own])) == []
    assert untold([], witnessed([own], [other, own])) == ["led-by-another"]
    assert untold([], found) == ["led-by-another"], "nothing is known of it"


def test_a_folder_without_a_history(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"run\.json"):
        replay(spark, tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(HistoryError, match="no history is there"):
        replay(spark, tmp_path)
