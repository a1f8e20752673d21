"""key_figures: effects that are there, effects that are not, and why."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report import units
from harness.report.key_figures import Effect, effects, pairs, short_names, value

A, B = "dualplane-single", "dualplane-dual"


def results(**checks: dict[str, Any]) -> dict[str, Any]:
    arms = {a: {"sut": "dualplane", "planes": a.removeprefix("dualplane-")} for a in (B, A)}
    named = {name.replace("_", "-"): {"arms": body} for name, body in checks.items()}
    return {"arms": arms, "checks": named}


def one(found: dict[str, Any], question: str) -> Effect:
    return next(e for e in effects(found) if e.question == question)


def probe(p50: float, p99: float, **stages: float) -> dict[str, Any]:
    by_stage = {name: {"p99_ms": ms} for name, ms in stages.items()}
    return {"probe": {"count": 9, "p50_ms": p50, "p99_ms": p99}, **by_stage}


def test_single_stands_before_dual() -> None:
    assert pairs(results()) == [(A, B)]
    assert short_names(results()) == {A: "single", B: "dual"}


def test_systems_are_named_when_there_are_several() -> None:
    found = results()
    found["arms"]["kafka-dual"] = {"sut": "kafka", "planes": "dual"}
    assert short_names(found)["kafka-dual"] == "kafka-dual"
    assert pairs(found) == [(A, B)]


def test_a_latency_effect() -> None:
    found = one(results(controller_latency={A: probe(200, 700), B: probe(2, 4)}), "control latency")
    assert found.sign == "seen"
    assert "100×" in found.says  # noqa: RUF001


@pytest.mark.parametrize(("count", "sign"), [(4, "unmeasured"), (5, "seen")])
def test_a_handful_of_probes_compares_nothing(count: int, sign: str) -> None:
    few = probe(2, 4)
    few["probe"]["count"] = count
    found = one(results(controller_latency={A: probe(200, 700), B: few}), "control latency")
    assert found.sign == sign
    assert ("4 probes in an arm: too few" in found.says) is (sign == "unmeasured")


def own(body: dict[str, Any], p50: float, count: int = 9) -> dict[str, Any]:
    return {**body, "own": {"count": count, "p50_ms": p50, "p99_ms": 2 * p50}}


def test_the_controllers_own_requests_bear_the_probes_out() -> None:
    figures = {A: own(probe(200, 700), 150), B: own(probe(2, 4), 3)}
    found = one(results(controller_latency=figures), "control latency")
    assert found.sign == "seen"
    assert f"own requests there took {units.ms(150)} and {units.ms(3)} at p50" in found.says
    assert "disagree" not in found.says


@pytest.mark.parametrize("b50", [140.0, 160.0, 900.0])
def test_probes_that_the_controllers_own_requests_do_not_bear_out_claim_nothing(b50: float) -> None:
    """As of a controller that goes past the control listener that the probes are sent to."""
    figures = {A: own(probe(200, 700), 150), B: own(probe(2, 4), b50)}
    found = one(results(controller_latency=figures), "control latency")
    assert found.sign == "absent"
    assert "The two disagree" in found.says


def test_a_handful_of_requests_bears_nothing_out() -> None:
    figures = {A: own(probe(200, 700), 150), B: own(probe(2, 4), 150, count=4)}
    found = one(results(controller_latency=figures), "control latency")
    assert found.sign == "seen"
    assert "too few to say the same (4 requests in an arm)" in found.says


def test_no_latency_effect_because_nothing_queued() -> None:
    figures = {A: probe(2, 4, request_queue=0.3), B: probe(2, 4, request_queue=0.2)}
    activity = {A: {"faults": {"flood-heavy-produce": 1}}}
    found = one(results(controller_latency=figures, activity=activity), "control latency")
    assert found.sign == "absent"
    assert "the flood did not fill the request queue" in found.says


def test_no_latency_effect_because_time_went_elsewhere() -> None:
    figures = {A: probe(50, 90, request_queue=80), B: probe(50, 85, handler=70, request_queue=1)}
    found = one(results(controller_latency=figures), "control latency")
    assert found.sign == "absent"
    assert "longest in its handler" in found.says


def test_a_slower_control_plane_is_said_to_be_slower() -> None:
    found = one(results(controller_latency={A: probe(2, 4), B: probe(4, 40)}), "control latency")
    assert found.sign == "reverse"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"avoidable": 0, "acked_1": 0}, "nothing was acknowledged with acks=1"),
        ({"avoidable": 0, "acked_1": 9, "lost": {"before_commit": 4}}, "lawful lag"),
        ({"avoidable": 0, "acked_1": 9}, "no leader changed"),
    ],
)
def test_no_avoidable_loss_and_why(body: dict[str, Any], words: str) -> None:
    found = one(results(truncation_loss={A: body, B: body}), "avoidable loss")
    assert found.sign == "absent"
    assert words in found.says


def test_avoidable_loss() -> None:
    bodies = {
        A: {"avoidable": 37, "avoidable_at_most": 39, "acked_1": 812},
        B: {"avoidable": 0, "avoidable_at_most": 0, "acked_1": 820},
    }
    found = one(results(truncation_loss=bodies), "avoidable loss")
    assert found.sign == "seen"
    assert "37 of 812 in single, 0 of 820 in dual (and at most 2 and 0 more" in found.says


def test_a_check_that_crashed_is_named_as_the_reason() -> None:
    found = results()
    found["checks"]["stale-metadata"] = {"arms": {}, "reasons": ["the checker crashed: Boom\nmore"]}
    effect = one(found, "stale metadata")
    assert effect.sign == "unmeasured"
    assert effect.says.endswith("the checker crashed: Boom")


def test_stale_time() -> None:
    bodies = {a: {"propagation_applied": {"stale_time_ms": ms}} for a, ms in ((A, 8530), (B, 347))}
    found = one(results(stale_metadata=bodies), "stale metadata")
    assert found.sign == "seen"


def told_late(flooded: float, beside_p50: float, whole: float, epochs: int = 7) -> dict[str, Any]:
    return {
        "propagation_applied": {"stale_time_ms": whole},
        "propagation_applied_flooded": {"count": epochs, "stale_time_ms": flooded},
        "propagation_applied_beside": {"count": 2 * epochs, "p50_ms": beside_p50},
    }


def test_the_flooded_broker_is_what_planes_are_for_and_the_rest_is_told_apart() -> None:
    bodies = {A: told_late(1065, 4.8, 1236), B: told_late(21.6, 4.1, 179)}
    found = one(results(stale_metadata=bodies), "stale metadata")
    assert found.sign == "seen"
    says = found.says.replace(units.NO_BREAK, " ")
    assert "for 1.06 s in single and 21.6 ms in dual (single over dual: 49×)." in says  # noqa: RUF001
    assert "the whole run it is 1.24 s and 179 ms (6.9×)" in says  # noqa: RUF001
    assert "without a flood add 171 ms and 157 ms" in says
    assert "is 4.8 ms and 4.1 ms at p50" in says
    assert "less than" not in says


def test_a_ratio_below_the_promised_one_says_what_stands_in_its_way() -> None:
    bodies = {A: told_late(140, 5, 400), B: told_late(40, 4, 300)}
    found = one(results(stale_metadata=bodies), "stale metadata")
    assert found.sign == "seen"
    says = found.says.replace(units.NO_BREAK, " ")
    assert says.endswith(
        "3.5× is less than 10×: the floor makes 70 % of what is left in dual, and in "  # noqa: RUF001
        "single an epoch was 20 ms late on average, 4.0× its floor."  # noqa: RUF001
    )


def test_counts_that_are_only_written_when_there_are_any() -> None:
    found = results(truncation_loss={A: {"acked_1": 5}, B: {}})
    path = ("truncation-loss", "lost", "before_commit")
    assert value(found, A, path) == 0
    assert value(found, B, path) is None
