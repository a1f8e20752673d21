"""The page: everything that a run has, and a page that says so when it has nothing."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from checkers.check import write_figures
from checkers.history.store import LocalStore
from harness.report import write
from harness.report.markup import Html
from harness.report.page import _SECTIONS, render
from harness.report.run_folder import RunFolder
from harness.report.script import script_name
from harness.report.story import Story

A, B = "dualplane-single", "dualplane-dual"
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\ud800"
VOID = {"br", "hr", "input", "meta", "wbr", "img", "link"}


class Reader(HTMLParser):
    """Checks that elements nest, and gathers text, tags and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = dict(attrs)
        self.addresses += [v for k in ("src", "href", "action") if (v := named.get(k))]
        self.ids += [v for k, v in attrs if k == "id" and v]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


def read(page: str) -> Reader:
    assert re.search(r"<th[^>]*></th>", page) is None, "a header that says nothing, to the ear"
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def results(**changes: Any) -> dict[str, Any]:
    quantiles = {"count": 90, "p50_ms": 200.0, "p90_ms": 300.0, "p99_ms": 700.0, "max_ms": 743.0}
    quick = {name: value if name == "count" else value / 100 for name, value in quantiles.items()}
    latency = {
        arm: {"probe": own, "request_queue": own, "probe_by_segment": {"none": own}}
        for arm, own in ((A, quantiles), (B, quick))
    }
    witness = [
        {"f": "fault", "t": 1_004_000_000_000, "process": "harness", "id": "flood", "fault": "f"},
        {"f": "truncation", "t": 1_004_000_300_000, "process": "node-2", "node": 2, "topic": "t"},
    ]
    violation = {"rule": "acked-all-lost", "says": "value 7 is gone", "arm": A, "trial": 0}
    return {
        "version": 1,
        "run_id": "r1",
        "scenario": "acks1-truncation",
        "seed": 7,
        "verdict": "invalid",
        "reasons": ["truncation-loss: 9 x acked-all-lost: value 7 is gone"],
        "arms": {
            A: {"sut": "dualplane", "planes": "single"},
            B: {"sut": "dualplane", "planes": "dual"},
        },
        "checks": {
            "controller-latency": {"verdict": "valid", "reasons": [], "arms": latency},
            "truncation-loss": {
                "verdict": "invalid",
                "reasons": ["9 x acked-all-lost: value 7 is gone"],
                "arms": {A: {"acked_1": 10, "avoidable": 3, "lost": {"avoidable": 3}}},
                "violations": [{**violation, "events": witness}],
                "violation_counts": {"acked-all-lost": 9},
                "rules": {"acked-all-lost": "A record acknowledged with acks=all stays."},
                "excused": [
                    {
                        "arm": A,
                        "trial": t,
                        "rule": "acked-all-lost",
                        "excuse": "unclean",
                        "n": 6,
                        "share": 0.012,
                    }
                    for t in (0, 1)
                ],
                "not_judged": ["dualplane-single: who saw nothing"],
            },
        },
        "comparison": {},
        **changes,
    }


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    """A run with a history and hand-made results; tests may change them."""
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder)
    (folder / "results.json").write_text(json.dumps(results()))
    histogram = {"stage": "probe", "bucket": 600, "n": 5, "max_ns": 9}
    lost = {"trial": 0, "topic": "acks1", "partition": 0, "node": 2, "category": "avoidable"}
    figures: dict[str, list[dict[str, Any]]] = {
        "latency": [{"arm": A, **histogram}, {"arm": B, **histogram}],
        "loss": [{"arm": A, **lost, "n": 3}],
    }
    write_figures(LocalStore(folder), figures)
    return folder


def test_every_part_is_there_and_in_order(run: Path) -> None:
    page = write(run).read_text()
    reader = read(page)
    places = [reader.ids.index(name) for name, _, _ in _SECTIONS]
    assert places == sorted(places)
    assert len(reader.ids) == len(set(reader.ids))
    assert "could not be written" not in reader.text
    for words in (
        "invalid",
        "9 violations",
        "biplane run acks1-truncation --seed 7",
        "skip-controller-epoch-check",
        "In single, a control probe took 200 ms at p50",
        "100×",  # noqa: RUF001
        "9 violations, 1 shown",
        "A record acknowledged with acks=all stays.",
        "+300 µs",
        "node 2 cuts t-?",
        "3 avoidable",
        "200 to ",
        "0.500 to 7.400",
        "CLOCK_MONOTONIC",
    ):
        assert words in reader.text, words


def test_nothing_is_fetched(run: Path) -> None:
    page = write(run).read_text()
    reader = read(page)
    (beside,) = [a for a in reader.addresses if not a.startswith("#")]
    assert beside == script_name(), "the script, in the run's own folder"
    inside = {a.removeprefix("#") for a in reader.addresses if a.startswith("#")}
    assert inside <= set(reader.ids)
    assert "link" not in reader.tags
    assert "default-src &#x27;none&#x27;" in page
    assert "@import" not in page.split("</style>")[0]


def test_pictures_are_sound_for_plotly(run: Path) -> None:
    story = Story.of(RunFolder.open(run))
    for _, _, make in _SECTIONS:
        make(story)
    assert set(story.figures) == {
        "plot-witness", "plot-latency", "plot-percentiles", "plot-behind",
    }  # fmt: skip
    assert set(story.figures["plot-latency"]) == {"0", "1"}
    for rounds in story.figures.values():
        for figure in rounds.values():
            text = re.sub(r'"\$[a-z0-9-]+"', '"#123456"', json.dumps(figure, allow_nan=False))
            drawn = go.Figure(json.loads(text))
            assert drawn.data


def test_every_probe_is_drawn(run: Path) -> None:
    story = Story.of(RunFolder.open(run))
    for _, _, make in _SECTIONS:
        make(story)
    traces = story.figures["plot-latency"]["0"]["data"]
    drawn = sum(
        len(t["x"]) for t in traces if t.get("legendgroup") == "probes" and t["x"] != [None]
    )
    assert drawn == 2 * 90


def test_hostile_strings_stay_text(run: Path) -> None:
    found = results(reasons=[f"log: {HOSTILE}", HOSTILE], scenario=HOSTILE)
    check = found["checks"]["truncation-loss"]
    check["violations"][0]["says"] = HOSTILE
    check["violations"][0]["events"][0]["fault"] = HOSTILE
    check["reasons"] = [f"Traceback (most recent call last)\n{HOSTILE}"]
    found["arms"][HOSTILE] = {"sut": HOSTILE, "planes": HOSTILE}
    (run / "results.json").write_text(json.dumps(found))
    reader = read(write(run).read_text())
    assert "img" not in reader.tags
    assert "could not be written" not in reader.text
    assert "</script><img src=x" in reader.text


def test_a_run_in_which_nothing_happened(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(
        json.dumps(
            {
                "verdict": "unknown",
                "scenario": "request-flood",
                "reasons": ["activity: the history has no trial"],
                "arms": {A: {"sut": "dualplane", "planes": "single"}},
                "checks": {"activity": {"verdict": "unknown", "reasons": ["no trial"]}},
            }
        )
    )
    reader = read(write(tmp_path).read_text())
    for words in (
        "This run proves nothing",
        "the history has no trial",
        "run.json is not there",
        "Left outWhat went wrong: no violation with a witness",
        "Comparison: no figure was measured in any arm",
        "Latency: the history is not in this folder",
        "Violations: none was found, which says little in a run that proves nothing",
        "Faults: no fault was planned, and none happened",
    ):
        assert words in reader.text, words
    missing = {"wrong", "comparison", "latency", "metadata", "losses", "violations", "faults"}
    assert not missing & set(reader.ids)
    assert "could not be written" not in reader.text


def test_what_was_not_judged_is_named(tmp_path: Path) -> None:
    """Whole checks by what the arm's system lacks, then what a check left out."""
    arm = {"sut": "box", "planes": "single", "not_judged": {"fencing": "it lacks x"}}
    check = {"verdict": "valid", "not_judged": [f"{A}: there were no truncations"]}
    found = {"verdict": "valid", "scenario": "s", "arms": {A: arm}, "checks": {"lost": check}}
    (tmp_path / "results.json").write_text(json.dumps(found))
    text = read(write(tmp_path).read_text()).text
    assert "What was not judged" in text
    assert f"fencing: {A}: it lacks x" in text
    assert f"lost: {A}: there were no truncations" in text


def test_who_judged_is_named(tmp_path: Path) -> None:
    found = {"verdict": "valid", "scenario": "s", "engine": "Sail 0.5.0; Spark 4.0.1 for epochs"}
    (tmp_path / "results.json").write_text(json.dumps(found))
    assert found["engine"] in read(write(tmp_path).read_text()).text
    del found["engine"]  # older ones do not say
    (tmp_path / "results.json").write_text(json.dumps(found))
    assert "Judged by" not in read(write(tmp_path).read_text()).text


def test_an_empty_folder(tmp_path: Path) -> None:
    reader = read(write(tmp_path).read_text())
    assert "This run was never judged: there is no results.json." in reader.text
    assert "could not be written" not in reader.text


@pytest.mark.parametrize("name", ["run", "plan", "results"])
@pytest.mark.parametrize(
    "text", ["{", "[]", '{"arms": [1], "checks": 3, "trials": 5, "entries": 2}']
)
def test_torn_and_foreign_files_are_named(run: Path, name: str, text: str) -> None:
    (run / f"{name}.json").write_text(text)
    reader = read(write(run).read_text())
    assert f"{name}.json" in reader.text
    assert "could not be written" not in reader.text


def test_a_torn_table_costs_no_more_than_itself(run: Path) -> None:
    (run / "results" / "latency.parquet").write_bytes(b"PAR1 torn")
    next((run / "history" / "f=probe").rglob("*.parquet")).write_bytes(b"PAR1 torn")
    reader = read(write(run).read_text())
    assert "results/latency.parquet cannot be read" in reader.text
    assert "history of 'probe'" in reader.text
    assert "plot-latency" in reader.ids
    assert "could not be written" not in reader.text


def test_a_section_that_fails_does_not_hide_the_others(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_story: Story) -> Html:
        raise KeyError("<no such thing>")

    broken = tuple((i, n, fails if i == "losses" else make) for i, n, make in _SECTIONS)
    monkeypatch.setattr("harness.report.page._SECTIONS", broken)
    reader = read(render(run))
    assert "This section could not be written: KeyError: '<no such thing>'" in reader.text
    assert "environment" in reader.ids


def test_the_page_is_written_whole(run: Path) -> None:
    page = write(run)
    assert page == run / "report.html"
    assert not page.with_suffix(".tmp").exists()


def test_the_flooded_broker_stands_apart_in_the_tables(run: Path) -> None:
    def arm(flooded_ms: float, convergence: dict[str, int]) -> dict[str, Any]:
        late = {"count": 7, "p50_ms": flooded_ms / 7, "max_ms": flooded_ms / 5}
        floor = {"count": 14, "p50_ms": 4.0, "max_ms": 9.0, "stale_time_ms": 60.0}
        return {
            "reads": 300,
            "stale_reads": 3,
            "stale_share": 0.01,
            "reads_by_node": {"1": 100, "2": 200},
            "staleness_by_node": {"2": {"count": 3, "p50_ms": 5.0}},
            "reads_flooded": {"count": 90, "p50_ms": 250.0},
            "propagation_applied": {**floor, "stale_time_ms": flooded_ms + 160},
            "propagation_applied_flooded": {**late, "stale_time_ms": flooded_ms},
            "propagation_applied_beside": floor,
            "convergence": convergence,
        }

    ends = {"converged": 20, "behind": 1, "not_judged": 0}
    unsure = {"converged": 1234, "behind": 0, "not_judged": 3}
    found = results()
    stale = {"verdict": "valid", "arms": {A: arm(1000, ends), B: arm(20, unsure)}}
    found["checks"]["stale-metadata"] = stale
    flood = {"id": "f1", "trial": 0, "node": 3, "seconds": 6.9, "completed": 21_000}
    more = {"completed_per_s": 3043.5, "fewest_connections": 640}
    found["checks"]["activity"] = {"verdict": "valid", "arms": {A: {"floods": [flood | more]}}}
    (run / "results.json").write_text(json.dumps(found))
    text = " ".join(read(write(run).read_text()).text.replace("\N{NO-BREAK SPACE}", " ").split())
    for words in (
        "under flood",
        "beside the flood: the floor",
        "for 1 s in single and 20 ms in dual",
        "250 ms in single and 250 ms in dual at p50",
        "single: 20 of 21; dual: 1,234 of 1,234 (3 not judged",
        "node 1single10000 %",  # cells adjoin: 100 answers, 0 stale, 0 %
        "node 2dual20031.5 %",
        "f1single036.921,0003,043.50640",
    ):
        assert words in text, words
    assert "could not be written" not in text


@pytest.mark.spark
def test_of_a_run_judged_by_the_checkers(judged_run: Path) -> None:
    found = json.loads((judged_run / "results.json").read_text())
    assert found["verdict"] == "invalid", found["reasons"]
    reader = read(write(judged_run).read_text())
    assert "could not be written" not in reader.text
    for words in (
        "stale-controller-epoch-accepted",
        "forged LEADER_AND_ISR to node 3",
        "Avoidable loss (effect).",
        "Stale metadata (effect).",
        "Control latency (effect).",
        "79 avoidable",
    ):
        assert words in reader.text, words
    assert {"plot-latency", "plot-percentiles", "plot-behind"} <= set(reader.ids)
