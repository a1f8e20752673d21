"""A page's ledger: merged again and again, it holds each entry once, and nothing of a machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.studies.kept import merged
from harness.studies.ledger import Entry, Play


def entry(seed: int, commit: str = "a", **other: Any) -> Entry:
    return Entry(
        play=Play(scenario="KAFKA-1", seed=seed, planes="single", sut="kafka-zk@2.5.0"),
        verdict="valid",
        rules=("recovery: stuck",),
        reasons=("evidence of node 1: /somewhere/else/server.log: is gone",),
        seconds=1.5,
        found_ms=20.0,
        folder="/somewhere/store/run",
        extra={"commit": commit, "date": "2026-01-02", "digest": "d", **other},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "docs" / "page.jsonl"


def test_merging_twice_changes_nothing(path: Path) -> None:
    first = merged(path, [entry(2), entry(1)])
    text = path.read_bytes()
    assert [e.play.seed for e in first] == [1, 2]
    again = merged(path, [entry(1), entry(2)])
    assert path.read_bytes() == text
    assert again == merged(path, [])


@pytest.mark.parametrize(
    "other", [entry(1, commit="b"), entry(1, digest="e"), entry(2)], ids=["commit", "text", "seed"]
)
def test_what_was_played_of_something_else_is_another(path: Path, other: Entry) -> None:
    assert len(merged(path, [entry(1), other])) == 2


def test_what_was_first_stays(path: Path) -> None:
    merged(path, [entry(1)])
    (kept,) = merged(path, [replace(entry(1), verdict="invalid", seconds=9.0)])
    assert (kept.verdict, kept.seconds) == ("valid", 1.5)


def test_nothing_of_the_machine_is_in_it(path: Path) -> None:
    merged(path, [entry(1)])
    assert b"somewhere" not in path.read_bytes()
    (kept,) = merged(path, [])
    assert kept == replace(
        entry(1), folder="", reasons=("evidence of node 1: server.log: is gone",)
    )


def test_where_rules_say_it_reasons_do_not(path: Path) -> None:
    merged(path, [replace(entry(1), verdict="invalid")])
    (kept,) = merged(path, [])
    assert (kept.rules, kept.reasons) == (("recovery: stuck",), ())


def test_what_was_skipped_was_not_played(path: Path) -> None:
    left_out = replace(entry(1), verdict="skipped")
    assert merged(path, [left_out]) == []
    assert merged(path, [left_out], skipped=True) == [left_out]
