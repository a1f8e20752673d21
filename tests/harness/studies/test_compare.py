"""Comparing rounds: spreads, agreement, the picture; two systems and what explains them."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.report.key_figures import GROUPS
from harness.report.run_folder import RunFolder
from harness.scenarios import SCENARIOS
from harness.settings import PROFILES, Settings, SettingsError
from harness.studies.compare import rounds as playing
from harness.studies.compare.differences import Note, arm_verdict, load_notes, render
from harness.studies.compare.figures import Round, quantile, read_round
from harness.studies.compare.page import compared, ratios
from harness.studies.compare.page import render as render_page
from harness.studies.compare.picture import latency_svg
from harness.studies.compare.play import play_comparison
from harness.studies.compare.rounds import Comparison, without_floods


def comparison(folder: Path, rounds: int) -> Comparison:
    runs = [
        {"scenario": "request-flood", "round": n, "seed": n, "verdict": "valid", "folder": f"r/{n}"}
        for n in range(rounds)
    ]
    return Comparison(folder, ("k",), ("single", "dual"), ("request-flood",), runs)


def measured(number: int, planes: str, p50: float) -> Round:
    values = {"flooded_p50_ms": p50, "flood_per_s": 100.0}
    return Round("request-flood", number, f"k-{planes}", "valid", values, [p50 / 2, p50, p50 * 2])


@pytest.mark.parametrize(
    ("sample", "share", "value"),
    [([], 0.5, None), ([7.0], 0.99, 7.0), ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0)],
)
def test_quantiles_are_values_of_the_sample(
    sample: list[float], share: float, value: float | None
) -> None:
    assert quantile(sample, share) == value


def test_ratios_are_taken_within_a_round() -> None:
    assert ratios({0: 10.0, 1: 30.0, 2: 5.0}, {0: 1.0, 1: 10.0, 3: 1.0}) == [10.0, 3.0]
    assert ratios({0: 1.0}, {0: 0.0}) == []


def test_arms_that_differ_in_one_thing_are_compared() -> None:
    arms = ["a-single", "a-dual", "b-single", "b-dual"]
    assert compared(arms) == [
        ("a-single", "a-dual"),
        ("a-single", "b-single"),
        ("a-dual", "b-dual"),
        ("b-single", "b-dual"),
    ]


def test_the_page_says_what_every_round_says(tmp_path: Path) -> None:
    rounds = [
        measured(number, planes, p50)
        for number, pair in enumerate([(500.0, 5.0), (400.0, 8.0), (300.0, 4.0)])
        for planes, p50 in zip(("single", "dual"), pair, strict=True)
    ]
    page = render_page(comparison(tmp_path, 3), rounds, published=True)
    assert "| p50 | 400 ms [300 ms, 500 ms] | 5 ms [4 ms, 8 ms] | 75" in page.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "single is higher in every round" in page
    assert "- Throughput: request-flood (single higher in 0, dual in 0 of 3 rounds)." in page
    assert "chance alone would do once in 4 times" in page
    assert "no flood" not in page
    assert "--planes=single,dual --scenario=request-flood --rounds=3 --seed=0" in page
    assert "](r/" not in page


def test_rounds_without_floods_are_the_floor_beside_the_others(tmp_path: Path) -> None:
    made = comparison(tmp_path, 2)
    made.runs.append({**made.runs[0], "idle": True})
    rounds = [measured(n, p, v) for n in range(2) for p, v in (("single", 90.0), ("dual", 9.0))]
    rounds += [replace(measured(0, p, 3.0), idle=True) for p in ("single", "dual")]
    page = render_page(made, rounds).replace("\N{NO-BREAK SPACE}", " ")
    assert "|  | single | dual | single / dual | single, no flood | dual, no flood |" in page
    assert "| p50 | 90 ms | 9 ms | 10\N{MULTIPLICATION SIGN} | 3 ms | 3 ms |" in page
    short = next(row for row in page.splitlines() if row.startswith("| Control requests: p50"))
    assert short.split(" | ")[1:] == [
        "90 ms in single",
        "9 ms in dual",
        "10\N{MULTIPLICATION SIGN}",
        "2 of 2",
        "3 ms, 3 ms |",
    ]
    assert "2 rounds of each scenario and 1 round without floods" in page
    assert "Without the flood: 3 ms and 3 ms." in page
    assert "| 1, no flood | request-flood |" in page


def test_scenarios_of_unequal_rounds_are_told_apart(tmp_path: Path) -> None:
    made = comparison(tmp_path, 3)
    made.scenarios = ("request-flood", "topic-deletion")
    made.runs += [{**made.runs[n], "scenario": "topic-deletion"} for n in range(2)]
    page = render_page(made, [measured(n, "single", 9.0) for n in range(3)])
    assert "3 rounds of request-flood and 2 rounds of topic-deletion, arms in turn" in page
    assert "once in 2 times" in page


@pytest.mark.parametrize(("uncut", "inside"), [(0.0, "40"), (3.0, "34")])
def test_losses_are_held_against_the_brokers_own_lines(
    tmp_path: Path, uncut: float, inside: str
) -> None:
    rounds = [
        Round("acks1-truncation", n, "k-single", "valid", {"lost": 20.0, "lost_uncut": uncut}, [])
        for n in range(2)
    ]
    page = render_page(comparison(tmp_path, 2), rounds)
    assert f"Of all 40 lost records of all rounds, {inside} lie in a range" in page


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_an_idle_plan_is_the_same_plan_without_its_floods(name: str) -> None:
    drawn = SCENARIOS[name].plan(random.Random(5), PROFILES["ci"])
    calm = without_floods(drawn)
    assert calm.seed == drawn.seed
    floods = {e.id for e in drawn.entries if e.fault.startswith("flood")}
    assert [e for e in drawn.entries if e.id not in floods] == list(calm.entries)


class Played:
    """Stands in for `harness.run.run`: remembers what was asked, makes an empty run's folder."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, str, tuple[str, ...], bool]] = []

    def __call__(self, scenario: Any, settings: Settings, progress: Any) -> Any:
        plan = scenario.plan(random.Random(1), settings.profile)
        flooded = any(e.fault.startswith("flood") for e in plan.entries)
        planes = tuple(str(p) for p in settings.planes or ())
        self.asked.append((scenario.name, settings.seed, settings.store.name, planes, flooded))
        folder = settings.store / scenario.name / f"{len(self.asked)}"
        folder.mkdir(parents=True)
        arms = {f"kafka-zk-{p}": {"sut": "kafka-zk", "planes": p} for p in planes}
        verdict = {"verdict": "valid", "arms": arms, "checks": {}}
        (folder / "results.json").write_text(json.dumps(verdict))
        (folder / "run.json").write_text(json.dumps({"arms": arms}))
        return SimpleNamespace(verdict="valid", folder=folder)


def play(folder: Path, **more: Any) -> None:
    given: dict[str, Any] = {
        "sut": "kafka-zk", "planes": "single,dual", "scenarios": None, "profile": None,
        "rounds": 0, "seed": None, "time_limit_s": None, "runtime": "process", "overrides": {},
    }  # fmt: skip
    play_comparison(folder, **(given | more))


def test_a_comparison_is_made_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played()
    monkeypatch.setattr(playing, "run", played)
    both = ("single", "dual")
    play(tmp_path, scenarios=["topic-deletion"], rounds=2, idle_rounds=1, seed=7)
    play(tmp_path, scenarios=["leader-unavailability"], rounds=1)
    play(tmp_path, rounds=1)
    assert played.asked == [
        ("topic-deletion", 7, "rounds", both, True),
        ("topic-deletion", 7, "idle", both, False),
        ("topic-deletion", 8, "rounds", both[::-1], True),
        ("leader-unavailability", 7, "rounds", both, True),
        ("topic-deletion", 9, "rounds", both, True),
        ("leader-unavailability", 8, "rounds", both[::-1], True),
    ]
    stored = Comparison.load(tmp_path)
    assert (stored.rounds(), stored.rounds(idle=True), stored.seed) == (3, 1, 7)


def test_what_cannot_be_continued_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playing, "run", Played())
    with pytest.raises(SettingsError, match="--rounds: 0"):
        play(tmp_path)
    with pytest.raises(SettingsError, match="--scenario: 'x'; allowed: "):
        play(tmp_path, scenarios=["x"], rounds=1)
    play(tmp_path, rounds=1, seed=3)
    with pytest.raises(SettingsError, match="--seed: 4; allowed: 3"):
        play(tmp_path, rounds=1, seed=4)


def stored(folder: Path, kind: str, arm: str, rows: list[dict[str, Any]]) -> None:
    place = folder / "history" / f"f={kind}" / f"arm={arm}" / "trial=0"
    place.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), place / "part.parquet")


def test_figures_of_a_stored_round(tmp_path: Path) -> None:
    arm, ms = "k-single", 1_000_000
    stored(tmp_path, "probe", arm, [{"planned_t": t * ms, "t": (t + 5) * ms} for t in (10, 60, 95)])
    faults = [(50, "inject"), (52, "injected"), (90, "heal"), (91, "healed")]
    stored(tmp_path, "fault", arm, [
        {"t": t * ms, "fault": "flood-heavy-produce", "phase": phase, "nodes": [2]}
        for t, phase in faults
    ])  # fmt: skip
    stored(tmp_path, "phase", arm, [
        {"t": t * ms, "name": "chaos", "event": event} for t, event in ((40, "begin"), (99, "end"))
    ])  # fmt: skip
    by_node: dict[str, Any] = {
        n: {"p50_ms": float(n), "p99_ms": 10.0 * int(n)} for n in ("1", "2", "3")
    }
    by_node["4"] = {"count": 0}  # nothing ever had to reach it
    checks = {
        "truncation-loss": {"arms": {arm: {"acked_1": 9, "lost": {"avoidable": 4, "untraced": 1}}}},
        "stale-metadata": {"arms": {arm: {"propagation_applied_by_node": by_node}}},
        "topic-deletion": {"arms": {arm: {"deletion": {"p50_ms": 7.0, "count": 2}}}},
        "availability": {
            "arms": {
                arm: {
                    "leader_ready_by_segment": {
                        "none": {"count": 9, "p50_ms": 1.0, "max_ms": 2.0},
                        "flood-heavy-produce+kill": {"count": 3, "p50_ms": 50.0, "max_ms": 60.0},
                    }
                }
            }
        },
    }
    results = {"verdict": "valid", "arms": {arm: {}}, "checks": checks}
    (tmp_path / "results.json").write_text(json.dumps(results))
    (flooded,) = read_round(tmp_path, "s", 0)
    (idle,) = read_round(tmp_path, "s", 0, idle=True)
    assert (len(flooded.probes), len(idle.probes)) == (1, 2)
    assert flooded.values["before_max_ms"] == 5.0
    assert (flooded.values["lost"], flooded.values["lost_uncut"]) == (5.0, 1.0)
    assert flooded.values["before_commit"] == 0.0
    assert (flooded.values["there_p50_ms"], flooded.values["elsewhere_p99_ms"]) == (2.0, 30.0)
    assert flooded.values["deletion_p50_ms"] == 7.0
    assert flooded.values["leader_ready_p50_ms"] == 50.0
    assert flooded.values["first_produce_acks_1_p50_ms"] is None


def test_the_picture_has_a_line_a_round_and_arm() -> None:
    rounds = [measured(n, planes, 100.0) for n in range(2) for planes in ("single", "dual")]
    picture = latency_svg(rounds)
    assert picture.count("<polyline") == 4
    assert "nan" not in picture
    assert "nothing was probed" in latency_svg([])


def test_a_folder_that_is_no_comparison_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"compare\.json: not a comparison"):
        Comparison.load(tmp_path)
    made = comparison(tmp_path, 2)
    made.save()
    assert Comparison.load(tmp_path).runs == made.runs


# -- two systems ---------------------------------------------------------------------------------


def run_of_two(p50: tuple[float, float], violations: list[dict[str, Any]]) -> RunFolder:
    arms = {f"{sut}-dual": {"sut": sut, "sut_version": "1", "planes": "dual"} for sut in "ab"}
    probe = {
        arm: {"probe": {"p50_ms": value, "p99_ms": value, "max_ms": value, "count": 9}}
        for arm, value in zip(arms, p50, strict=True)
    }
    results = {
        "arms": arms,
        "verdict": "invalid" if violations else "valid",
        "reasons": [],
        "checks": {"controller-latency": {"arms": probe, "violations": violations}},
    }
    facts = {"arms": arms, "scenario": "s", "seed": 1, "conjecture": "c"}
    return RunFolder(Path("x"), facts, {}, results)


_GROUP = next(name for name, figures in GROUPS.items() if figures[0].path[1] == "probe")
_P50 = f"{_GROUP}/p50"


def test_a_difference_is_explained_by_its_note_or_listed() -> None:
    runs = [run_of_two((100.0, 20.0), [])]
    note = Note((_P50, f"{_GROUP}/never"), "because", "Source.scala", scenario="s")
    page = render(runs, [note])
    assert f"- **{_GROUP}: p50; never (s)**: because Witness: Source.scala" in page
    unexplained = page.split("## Unexplained")[1]
    assert "p99" in unexplained
    assert f"{_P50}:" not in unexplained


def test_small_or_near_figures_are_no_difference() -> None:
    for near in ((100.0, 70.0), (4.0, 0.5)):
        assert render([run_of_two(near, [])], []).endswith("## Unexplained\n\nNone.\n")


def test_a_note_that_nothing_called_for_is_named() -> None:
    notes = [Note((_P50,), "because", "Source.scala"), Note(("verdict",), "so", "Other.scala")]
    page = render([run_of_two((100.0, 20.0), [])], notes)
    assert page.endswith("Not needed by these runs: the notes on verdict.\n")
    assert "so Witness" not in page


def test_what_no_figure_shows_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "notes.toml"
    path.write_text('[[note]]\nseen = "x"\nscenario = "s"\nsays = "y"\nwitness = "Z.scala"\n')
    page = render([run_of_two((1.0, 1.0), [])], load_notes(path))
    assert "## Seen besides the figures\n\n- **x (s)**: y Witness: Z.scala\n" in page
    assert "Not needed" not in page
    assert "Seen besides" not in render([run_of_two((1.0, 1.0), [])], [])


def test_shares_of_a_few_are_no_difference() -> None:
    def run(left: float, right: float) -> RunFolder:
        found = run_of_two((1.0, 1.0), [])
        values = zip(found.results["arms"], (left, right), strict=True)
        arms = {arm: {"stale_share": value} for arm, value in values}
        found.results["checks"]["stale-metadata"] = {"arms": arms, "violations": []}
        return found

    assert "stale answers" not in render([run(0.004, 0.0)], []).split("## Unexplained")[1]
    assert "stale answers" in render([run(0.06, 0.01)], []).split("## Unexplained")[1]


def test_verdicts_are_the_arms_own() -> None:
    run = run_of_two((1.0, 1.0), [{"arm": "b-dual", "rule": "r"}])
    assert (arm_verdict(run.results, "a-dual"), arm_verdict(run.results, "b-dual")) == (
        "valid",
        "invalid",
    )
    assert "verdict: a-dual valid, b-dual invalid" in render([run], [])


def test_notes_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.toml"
    path.write_text('[[note]]\nfigure = "x"\n')
    with pytest.raises(SettingsError, match=r"notes\.toml: .*allowed: \[\[note\]\] tables"):
        load_notes(path)
