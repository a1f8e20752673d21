"""A red report begins with what broke, told for people who did not write the check."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from harness.report.glossary import explained
from harness.report.page import render
from harness.report.run_folder import RunFolder
from harness.report.story import Story
from harness.report.witness_picture import witness_picture
from harness.report.witness_story import (
    Broken,
    WitnessStory,
    _duties,
    _meanwhile,
    first_broken,
    partition_of,
    tell,
)
from tests.harness.report.conftest import CHAOS_S, FLOOD, HEIR, MOVES, TOPIC, VICTIM, S
from tests.harness.report.test_page import A, B, read, results

START = 1000 * S  # of the first trial
ZERO = START + int(CHAOS_S * S)


def violation(rule: str, at_s: float, arm: str = A, **fields: Any) -> dict[str, Any]:
    t = ZERO + int(at_s * S)
    at = {"topic": TOPIC, "partition": 1}
    events = [
        {"f": "produce", "t": t - S, "process": "producer", "type": "ok", "value": 7, "acks": -1}
        | {"offset": 40, "invoke_t": t - S - 1000, **at},
        {"f": "log_end", "t": t, "process": "final-read", "node": HEIR, "log_end_offset": 40}
        | {"log_start_offset": 0, "high_watermark": 40, **at},
    ]
    found = {"rule": rule, "says": f"acks1-1: {rule}", "arm": arm, "trial": 0, "events": events}
    return {**found, **fields}


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder)
    return folder


def judged(folder: Path, *violations: dict[str, Any]) -> Story:
    found = copy.deepcopy(results())
    check = found["checks"]["truncation-loss"]
    check["violations"] = list(violations)
    check["violation_counts"] = {v["rule"]: 3 for v in violations}
    check["rules"] = {"acked-all-lost": "A record acknowledged with acks=all stays."}
    (folder / "results.json").write_text(json.dumps(found))
    return Story.of(RunFolder.open(folder))


def test_it_stands_before_everything_else(run: Path) -> None:
    judged(run, violation("acked-all-lost", 5.0))
    reader = read(render(run))
    ids = reader.ids
    assert ids.index("wrong") < ids.index("plot-witness") < ids.index("run") < ids.index("latency")
    for words in (
        "What should holdA record acknowledged with acks=all stays.",
        "Whereacks1-1, in single",
        "Found bytruncation-loss, rule acked-all-lost",
        "3 times in this run",
        "value 7 offered to acks1-1 with acks=all",
        "acks=allthe broker answers “written” only when every in-sync replica has it",
        "flood-heavy-produce in place",
    ):
        assert words in reader.text, words
    assert "could not be written" not in reader.text


def test_what_is_broken_comes_before_what_is_not_known(run: Path) -> None:
    judged(run, violation("acked-all-lost", 5.0))
    path = run / "results.json"
    found = json.loads(path.read_text())
    doubts = [f"recovery: {A}, trial 0: doubt {n}" for n in range(3)]
    found["reasons"] = [*doubts, "truncation-loss: 3 x acked-all-lost: gone"]
    path.write_text(json.dumps(found))
    page = render(run)
    why = page[page.index('class="why"') : page.index('id="wrong"')]
    assert 0 < why.index("acked-all-lost") < why.index("3 more") < why.index("doubt 0")


def test_a_run_that_is_not_red_has_none(run: Path) -> None:
    judged(run)
    reader = read(render(run))
    assert "wrong" not in reader.ids
    assert "#wrong" not in reader.addresses


def test_the_first_is_the_one_that_was_seen_first(run: Path) -> None:
    late, early = violation("late", 9.0), violation("early", 3.0, arm=B)
    none = violation("no-events", 0.0, events=[])
    for order in ((none, late, early), (early, none, late)):
        broken = first_broken(judged(run, *order))
        assert broken is not None
        assert (broken.rule, broken.arm) == ("early", B)


def test_the_timeline_is_that_of_its_partition(run: Path) -> None:
    story = judged(run, violation("acked-all-lost", MOVES[1] + 2))
    broken = first_broken(story)
    assert broken is not None
    told = tell(story, broken)
    assert told.partition == (TOPIC, 1)
    assert [(lead.leader, lead.leader_epoch) for lead in told.leads] == [(VICTIM, 0), (HEIR, 1)]
    moved = told.leads[1].t
    assert (moved - ZERO) / S == pytest.approx(MOVES[1], abs=0.2), "not another partition's move"
    assert {fault.fault for fault, _, _ in told.faults} >= {"flood-heavy-produce"}
    first, last = told.witness
    assert (first.number, last.number) == (1, 2)
    assert f"node {HEIR} leads (leader epoch 1)" in last.meanwhile
    assert all(f"{TOPIC}-0" not in line.says for line in told.lines)
    times = [line.t for line in told.lines]
    assert times == sorted(times)


def test_before_the_move_another_leads(run: Path) -> None:
    story = judged(run, violation("acked-all-lost", MOVES[1] - 0.3))
    told = tell(story, first_broken(story))  # type: ignore[arg-type]
    assert f"node {VICTIM} leads (leader epoch 0)" in told.witness[-1].meanwhile
    early = judged(run, violation("acked-all-lost", FLOOD[0] - 0.2))
    told = tell(early, first_broken(early))  # type: ignore[arg-type]
    assert "flood" not in told.witness[-1].meanwhile


def test_who_is_down_meanwhile() -> None:
    broken = Broken("c", "", "r", "", "it broke", A, 0, [{"f": "produce", "t": 50}])
    told = WitnessStory(broken, None, 0, 100, down=[(2, 10, 20), (3, 15, 2**62)])
    assert [_meanwhile(told, t) for t in (5, 10, 17, 20)] == [
        "",
        "node 2 is down",
        "node 2 is down; node 3 is down",
        "node 3 is down",
    ]


def test_the_picture_is_sound_for_plotly(run: Path) -> None:
    story = judged(run, violation("acked-all-lost", 5.0))
    told = tell(story, first_broken(story))  # type: ignore[arg-type]
    figure = witness_picture(told, story.clocks[A, 0])
    plain = re.sub(r'"\$[a-z0-9-]+"', '"#123456"', json.dumps(figure, allow_nan=False))
    drawn = go.Figure(json.loads(plain))
    bars, marks = drawn.data
    place = dict(zip(marks.text, marks.y, strict=True))
    assert min(bars.x) >= 0
    lanes = list(drawn.layout.yaxis.ticktext)
    assert "leader, as committed" in lanes
    assert lanes[place["1"]] == "clients and harness"
    assert lanes[place["2"]] == f"node {HEIR}"


def test_marks_that_fall_together_are_one(run: Path) -> None:
    times = (0.0, 1.0, 1.001, 9.0)
    events = [
        {"f": "log_read", "t": ZERO + int(t * S), "process": "p", "node": HEIR, "topic": TOPIC}
        | {"partition": 1, "offset": 3, "value": 4}
        for t in times
    ]
    events[2] |= {"node": VICTIM}
    events.append({**events[3], "t": events[3]["t"] + 1000})
    story = judged(run, violation("acked-all-lost", 0, events=events))
    told = tell(story, first_broken(story))  # type: ignore[arg-type]
    figure = witness_picture(told, story.clocks[A, 0])
    lanes, marks = figure["layout"]["yaxis"]["ticktext"], figure["data"][-1]
    at = {text: lanes[y] for text, y in zip(marks["text"], marks["y"], strict=True)}
    assert at == dict.fromkeys(("1", "2", "4-5"), f"node {HEIR}") | {"3": f"node {VICTIM}"}


def test_who_comes_up_serves_before_it_leads() -> None:
    rows = [
        {"f": "leader_change", "t": 15, "node": 2, "role": "follower"},
        {"f": "leader_change", "t": 30, "node": 2, "role": "leader"},
    ]
    duties = _duties(rows, [(2, 10, 20), (2, 40, 50), (3, 0, 99)], 60)
    assert [(d.role, d.t, d.until_t) for d in duties] == [("follower", 20, 30), ("leader", 30, 40)]


def test_without_a_history_the_witness_is_told(tmp_path: Path) -> None:
    judged(tmp_path, violation("acked-all-lost", 5.0))
    reader = read(render(tmp_path))
    assert "value 7 offered to acks1-1" in reader.text
    assert "plot-witness" not in reader.ids
    assert "could not be written" not in reader.text


def test_a_violation_of_no_partition(run: Path) -> None:
    event = {"f": "controller", "t": ZERO + S, "process": "node-1", "node": 1}
    event |= {"event": "elected", "controller_epoch": 2}
    judged(run, violation("two-controllers", 1.0, events=[event]))
    reader = read(render(run))
    assert "Wherethe cluster, in single" in reader.text
    assert "could not be written" not in reader.text


def test_the_partition_that_a_request_carried() -> None:
    carried = {"f": "control_request", "partitions": [{"topic": "t", "partition": 3}]}
    assert partition_of([carried]) == ("t", 3)
    assert partition_of([carried, {"topic": "u", "partition": 0}]) == ("u", 0)
    assert partition_of([{"f": "fault"}, {"topic": "u"}]) is None


def test_only_the_words_that_are_used_are_explained() -> None:
    said = dict(explained("acknowledged with acks=all in leader epoch 3"))
    assert set(said) == {"acks=all", "leader epoch"}
    assert explained("nothing of the kind") == []


def test_a_long_story_keeps_the_witness_and_what_is_near(run: Path) -> None:
    many = [
        {"f": "log_read", "t": ZERO + 3 * S + i, "process": "final-read", "node": HEIR}
        | {"topic": TOPIC, "partition": 1, "offset": i, "value": i}
        for i in range(45)
    ]
    story = judged(run, violation("acked-all-lost", 3.0, events=many))
    told = tell(story, first_broken(story))  # type: ignore[arg-type]
    assert len(told.witness) == 45
    assert len(told.lines) == 45
    assert told.left_out > 0


def test_old_records_that_go_as_they_should_do_not_bury_it(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RunFolder.rows
    cut = {"arm": A, "trial": 0, "topic": TOPIC, "partition": 1, "node": HEIR, "process": "node-2"}
    cuts = [
        {**cut, "t": ZERO + 4 * S + n, "from_offset": n, "to_offset": n + 1, "reason": reason}
        for n, reason in enumerate(["log start: retention"] * 20 + ["truncated to leader's end"])
    ]

    def rows(folder: RunFolder, kind: str, columns: Any, **equal: str) -> list[Any]:
        return cuts if kind == "truncation" else original(folder, kind, columns, **equal)

    monkeypatch.setattr(RunFolder, "rows", rows)
    story = judged(run, violation("acked-all-lost", 5.0))
    told = tell(story, first_broken(story))  # type: ignore[arg-type]
    assert not any("retention" in line.says for line in told.lines)
    assert any("truncated to leader's end" in line.says for line in told.lines)
