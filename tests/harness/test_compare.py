"""Comparing rounds: spreads, agreement, the picture; two systems and what explains them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.compare.differences import Note, arm_verdict, load_notes, render
from harness.compare.figures import Round, quantile
from harness.compare.page import compared, ratios
from harness.compare.page import render as render_page
from harness.compare.picture import latency_svg
from harness.compare.rounds import Comparison
from harness.report.key_figures import GROUPS
from harness.report.run_folder import RunFolder
from harness.settings import SettingsError


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
    assert "| flooded, p50 | 400 ms [300 ms, 500 ms] | 5 ms [4 ms, 8 ms] | 75" in page.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert "single is higher in every round" in page
    assert "- Throughput: request-flood (single and dual)." in page
    assert "--planes=single,dual --scenario=request-flood --rounds=3 --seed=0" in page
    assert "](r/" not in page


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
    note = Note(_P50, "because", "Source.scala")
    page = render(runs, [note])
    assert f"- **{_P50}**: because Witness: Source.scala" in page
    unexplained = page.split("## Unexplained")[1]
    assert "p99" in unexplained
    assert f"{_P50}:" not in unexplained


def test_small_or_near_figures_are_no_difference() -> None:
    for near in ((100.0, 70.0), (4.0, 0.5)):
        assert render([run_of_two(near, [])], []).endswith("## Unexplained\n\nNone.\n")


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
