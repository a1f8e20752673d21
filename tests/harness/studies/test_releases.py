"""`biplane releases`: what is played, which lines are counted, what the page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from harness.studies.ledger import Entry, Play
from harness.studies.releases import LINES_OF_RELEASES, page, plays, with_lines
from harness.sut.registry import get

SCENARIO = "broker-restart"


def entry(sut: str, verdict: str = "valid", scenario: str = SCENARIO, **other: Any) -> Entry:
    play = Play(scenario=scenario, seed=1, planes="single", sut=sut)
    return Entry(play=play, verdict=verdict, **other)


def skipped(sut: str, scenario: str) -> Entry:
    return entry(sut, "skipped", scenario, reasons=(f"{scenario}: {sut} lacks x",))


def test_every_line_is_a_system_in_planes_that_it_has() -> None:
    for play in plays(LINES_OF_RELEASES, ["broker-restart"], [1]):
        assert play.planes in get(play.sut).plane_modes


def test_lines_of_all_brokers_and_trials_are_counted(tmp_path: Path) -> None:
    server = {"known": 90, "ignored": 7, "unknown": 1, "torn": 5, "continuation": 400}
    evidence = {"1": {"lines": {"server.log": server, "state-change.log": {"known": 2}}}}
    evidence["2"] = {"lines": {"server.log": {"unknown": 1}}}
    run = {"trials": [{"evidence": evidence}, {"evidence": None}]}
    (tmp_path / "run.json").write_bytes(orjson.dumps(run))
    counted = with_lines(entry("kafka-zk@2.8.2", folder=str(tmp_path)))
    assert counted.extra["lines"] == {"known": 92, "ignored": 7, "unknown": 2}
    assert with_lines(entry("kafka-zk@2.8.2", folder=str(tmp_path / "gone"))).extra == {}


def test_the_page_goes_from_old_to_new_and_says_why() -> None:
    known = {"lines": {"known": 990, "ignored": 0, "unknown": 10}}
    text = page(
        [
            entry("kafka-zk@3.9.2", "invalid", rules=("epochs: went-back",)),
            entry("kafka-zk@2.8.2", extra=known),
            entry("kafka-kraft@3.3.2", "unknown", reasons=("nothing happened",)),
            skipped("kafka-zk@2.1.1", SCENARIO),
            skipped("kafka-zk@2.1.1", "mixture"),
            skipped("kafka-zk@3.9.2", SCENARIO),
        ]
    )
    rows = [line for line in text.splitlines() if line.startswith("| kafka")]
    assert rows == [
        "| kafka-zk 2.8.2 | broker-restart | 1 | 0 | 0 | 1000 | 1.00% |",
        "| kafka-kraft 3.3.2 | broker-restart | 0 | 1 | 0 | - | - |",
        "| kafka-zk 3.9.2 | broker-restart | 0 | 0 | 1 (epochs: went-back) | - | - |",
    ]
    assert "- kafka-kraft@3.3.2, broker-restart, seed 1: nothing happened" in text
    assert "- kafka-zk@2.1.1 lacks x: broker-restart, mixture" in text
    assert "3.9.2 lacks" not in text  # it was played another time


def test_what_is_a_known_bug_of_that_release_is_named() -> None:
    rules = ("departures: dead-in-sync", "epochs: went-back")
    releases = ("2.1.1", "2.3.0")
    played = [entry(f"kafka-zk@{release}", "invalid", rules=rules) for release in releases]
    beyond = ("offsets: given-beyond-end",)
    played += [entry(f"kafka-zk@{of}", "invalid", rules=beyond) for of in ("2.3.1", "2.5.0")]
    played.append(entry("kafka-zk@2.4.1", extra={"note": "a busy machine"}))
    causes = [line for line in page(played).splitlines() if line.startswith("- ")]
    assert causes == [
        "- kafka-zk@2.1.1, departures: dead-in-sync: KAFKA-3143, mended in 2.3.0",
        "- kafka-zk@2.4.1, broker-restart, seed 1: a busy machine",
        "- kafka-zk@2.5.0, offsets: given-beyond-end: KAFKA-9838, mended in 2.5.1",
    ]
