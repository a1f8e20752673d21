"""The terminal's summary: plain, aligned, complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkers.judging.verdict import Verdict
from harness.report.terminal import describe, summarise
from harness.run import Outcome

A, B = "dualplane-single", "dualplane-dual"


def results(reasons: list[str] | None = None) -> dict[str, Any]:
    def arm(p50: float) -> dict[str, Any]:
        return {"probe": {"count": 9, "p50_ms": p50, "p99_ms": 2 * p50, "max_ms": 3 * p50}}

    return {
        "run_id": "r1",
        "scenario": "request-flood",
        "verdict": "unknown",
        "reasons": reasons or [],
        "arms": {
            A: {"sut": "dualplane", "planes": "single"},
            B: {"sut": "dualplane", "planes": "dual"},
        },
        "checks": {
            "controller-latency": {"verdict": "valid", "arms": {A: arm(200), B: arm(2)}},
            "log": {"verdict": "unknown", "required": False, "violation_counts": {"x": 2}},
        },
    }


def outcome(reasons: list[str] | None = None) -> Outcome:
    found = results(reasons)
    return Outcome(
        scenario="request-flood",
        verdict=Verdict.UNKNOWN,
        reasons=found["reasons"],
        folder=Path("store/request-flood/r1"),
        results=found,
        seconds=61.7,
    )


def test_a_run_has_a_row_an_arm_and_the_ratios() -> None:
    lines = list(summarise([outcome()]))
    assert lines[0].split()[:3] == ["scenario", "verdict", "arm"]
    assert lines[1].split()[:3] == ["request-flood", "UNKNOWN", "single"]
    assert "200 ms" in lines[1]
    assert lines[3].split()[:4] == ["single", "/", "dual", "100x"]
    assert lines[-1] == "  report: store/request-flood/r1/report.html"
    ends = {len(line) for line in lines[:4]}
    assert len(ends) == 1, "figures are set flush right"


def test_nothing_was_run() -> None:
    assert list(summarise([])) == []


def test_hostile_reasons_stay_on_their_line() -> None:
    reasons = ["log: \x1b[2Jgone\r\nsecond", "log: Traceback (most recent call last):\n  secret"]
    text = "\n".join([*summarise([outcome(reasons)]), *describe(results(reasons))])
    assert text.isascii()
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\\x1b[2Jgone" in text
    assert "secret" not in text


def test_many_reasons_are_counted() -> None:
    lines = list(summarise([outcome([f"log: reason {i}" for i in range(30)])]))
    assert "  ... and 22 more: see the report" in lines


def test_a_judged_run_is_described() -> None:
    text = "\n".join(describe(results(["log: there was nothing to judge"])))
    assert text.startswith("request-flood r1: unknown\n  - log: there was nothing to judge\n")
    assert "unknown (not asked)" in text
    assert "In single, a control probe took 200 ms at p50" in text


def test_without_probes_the_controllers_own_requests_are_shown_and_marked() -> None:
    run = outcome()
    for figures in run.results["checks"]["controller-latency"]["arms"].values():
        figures["round_trip"] = figures.pop("probe")
    lines = list(summarise([run]))
    assert "200 ms*" in lines[1]
    assert "100x*" in lines[3]
    assert lines[4].startswith("  * of the controller's own requests")


def test_a_crash_leaves_results_without_arms() -> None:
    run = Outcome(
        scenario="x",
        verdict=Verdict.UNKNOWN,
        reasons=[],
        folder=Path("store/x/1"),
        results={"verdict": "unknown"},
        seconds=0.0,
    )
    assert any("UNKNOWN" in line for line in summarise([run]))
    assert list(describe({}))


def test_what_a_system_shows_nothing_for_is_named() -> None:
    found = outcome()
    why = {"fencing": "it lacks x", "planes": "it lacks x", "succession": "nobody tells"}
    found.results["arms"][B]["not_judged"] = why
    for lines in (list(summarise([found])), list(describe(found.results))):
        assert f"  - {B}: not judged: fencing, planes (it lacks x)" in lines
        assert f"  - {B}: not judged: succession (nobody tells)" in lines
        assert not any(f"{A}: not judged" in line for line in lines)


def test_who_stepped_in_for_the_engine_is_named_and_nobody_else() -> None:
    found = results()
    one = outcome()
    assert "answered by" not in "\n".join([*describe(found), *summarise([one])])
    for each in (found, one.results):
        each["engine"] = "Sail 0.5.0"
    assert "answered by" not in "\n".join([*describe(found), *summarise([one])])
    for each in (found, one.results):
        each["engine"] = "Sail 0.5.0; Spark 4.0.1 for epochs, polls"
    told = "  - answered by Sail 0.5.0; Spark 4.0.1 for epochs, polls"
    assert told in describe(found)
    assert told in summarise([one])
