"""Plans: what is on disk is what runs, and what cannot run is refused by name."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults import FAULTS, Plan, PlanError, build, mixture
from faults.mixture import PALETTE
from faults.protocol import Capability, Entry


def row(**changes: object) -> dict[str, object]:
    return {"id": "k", "fault": "kill", "at_ms": 5, "duration_ms": 10, "params": {}} | changes


def write(path: Path, *rows: object, **top: object) -> Path:
    path.write_text(json.dumps({"version": 1, "seed": 3, "entries": list(rows)} | top))
    return path


def test_a_saved_plan_is_the_same_plan(tmp_path: Path) -> None:
    plan = mixture(11, duration_ms=60_000)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == plan


def test_entries_come_in_order_of_time(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", row(id="b", at_ms=9), row(id="a", at_ms=2))
    assert [e.id for e in Plan.load(path).entries] == ["a", "b"]
    assert Plan.load(path).duration_ms == 19


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (row(fault="nope"), ["'k'", "'fault'", "'nope'", "allowed", "kill"]),
        (row(at_ms=-1), ["'k'", "'at_ms'", "-1", "allowed"]),
        (row(at_ms=True), ["'at_ms'"]),
        (row(params={"target": "boss"}), ["params.target", "boss", "controller"]),
        (row(params={"targt": "1"}), ["params.targt", "unknown", "target"]),
        (row(params=[]), ["'params'", "object"]),
        (row(extra=1), ["'extra'", "unknown"]),
        (row(after=1), ["'after'", "1"]),
        (row(after="later"), ["'k'", "'after'", "'later'", "none"]),
        (row(id=""), ["#0", "'id'"]),
        (row(fault="toxic", params={"kind": "rain"}), ["params.kind", "rain", "latency"]),
        (
            row(fault="toxic", params={"kind": "latency", "attributes": {"rate": 1}}),
            ["params.attributes", "rate", "jitter"],
        ),
        (row(fault="flood-produce", params={"acks": "2"}), ["params.acks", "all"]),
        (row(fault="move-leadership", params={"to": "x"}), ["params.to", "next"]),
    ],
)
def test_a_bad_entry_is_named(tmp_path: Path, bad: dict[str, object], named: list[str]) -> None:
    path = write(tmp_path / "plan.json", bad)
    with pytest.raises(PlanError) as error:
        Plan.load(path)
    for text in [str(path), *named]:
        assert text in str(error.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "not JSON"),
        ("[]", "object"),
        ('{"seed": 1.5, "entries": []}', "'seed'"),
        ('{"seed": 1, "entries": "no"}', "'entries'"),
        ('{"seed": 1, "entries": [], "version": 2}', "'version'"),
        ('{"seed": 1, "entries": [], "color": 2}', "'color'"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(PlanError, match=named) as error:
        Plan.load(path)
    assert str(path) in str(error.value)


def test_an_entry_comes_after_one_before_it(tmp_path: Path) -> None:
    path = write(tmp_path / "p.json", row(id="a", at_ms=2), row(id="b", at_ms=9, after="a"))
    plan = Plan.load(path)
    assert [entry.after for entry in plan.entries] == ["", "a"]
    plan.save(path)
    assert Plan.load(path) == plan
    path = write(path, row(id="a", at_ms=2, after="b"), row(id="b", at_ms=9))
    with pytest.raises(PlanError, match="'b' is no entry before it"):
        Plan.load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"gone\.json"):
        Plan.load(tmp_path / "gone.json")


def test_ids_are_unique(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="twice"):
        Plan.load(write(tmp_path / "p.json", row(), row()))


def test_what_a_system_lacks_is_left_out_with_the_reason() -> None:
    plan = Plan.of(
        1,
        [
            Entry(id="z", fault="zombie-controller", at_ms=0, duration_ms=1, params={}),
            Entry(id="m", fault="flood-metadata", at_ms=0, duration_ms=1, params={}),
        ],
    )
    kept, skipped = plan.for_capabilities(frozenset({Capability.LINKS}))
    assert [e.id for e in kept.entries] == ["m"]
    assert [(e.id, why) for e, why in skipped] == [("z", "needs zookeeper")]


WITHOUT_DEFAULTS = (
    *("toxic", "frames", "lagged-kill", "unanswered-kill", "lagging-follower", "isr-lag"),
    *("double-failover", "outdated-expansion", "diverging-fetch"),
    *("last-standing", "last-in-sync", "late-epoch-answer", "behind-the-epoch"),
    *("reassign-called-off", "moved-while-asking"),
    *("empty-epoch", "forgotten-expansion", "outlived-answer", "broker-config"),
    *("recreate-topic", "stopped-ahead", "unready-preferred", "joint-death"),
    *("uneven-failover", "lagged-move", "grow-topic", "alter-topic", "unheard-news"),
    *("unseen-settings", "unseen-growth", "hung-broker", "leading-again", "contrary-orders"),
    *("isr-lag-succeeded", "unclean-allowed", "unheard-election", "crossed-epochs"),
    *("forsaken-orders", "namesake"),
)


def test_every_fault_builds_from_its_defaults_or_says_what_it_wants() -> None:
    for name, kind in FAULTS.items():
        assert kind.name == name
        entry = Entry(id="x", fault=name, at_ms=0, duration_ms=1, params={})
        if name in WITHOUT_DEFAULTS:
            with pytest.raises(PlanError, match="is required"):
                build(entry)
        else:
            assert build(entry).id == "x"


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(), duration_ms=st.integers(1, 120_000))
def test_a_mixture_is_its_seed_and_keeps_its_lanes(seed: int, duration_ms: int) -> None:
    plan = mixture(seed, duration_ms=duration_ms)
    assert plan == mixture(seed, duration_ms=duration_ms)
    assert plan == Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert plan.duration_ms <= duration_ms
    lanes = {draw.fault: draw.lane for draw in PALETTE}
    for lane in ("brokers", "flood"):
        inside = [e for e in plan.entries if lanes[e.fault] == lane]
        for before, after in pairwise(inside):
            assert before.at_ms + before.duration_ms < after.at_ms


def test_a_mixture_draws_only_what_is_offered() -> None:
    plan = mixture(5, duration_ms=120_000, offered=[Capability.ELECT_LEADERS])
    assert plan.entries
    assert plan.needs() <= {Capability.ELECT_LEADERS}


def test_a_mixture_takes_fixed_parameters() -> None:
    plan = mixture(
        5, duration_ms=120_000, fixed={"move-leadership": {"partitions": "t-*", "times": 1}}
    )
    moves = [e for e in plan.entries if e.fault == "move-leadership"]
    assert moves
    assert all(e.params["partitions"] == "t-*" and e.params["times"] == 1 for e in moves)
