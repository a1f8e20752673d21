"""`biplane trust`: what is played, what is kept, what the page says."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from harness.arms import Skipped
from harness.bugs.book import load_all
from harness.run import Recorded
from harness.scenarios import SCENARIOS
from harness.studies.kept import merged
from harness.studies.ledger import Budget, Entry, Ledger, Play, interval, rate, seconds_of
from harness.studies.playing import Desk
from harness.studies.trust import exit_code, genuine, page, plays, save_page, study
from nodes.mutants import MUTANTS

BUG = next(iter(MUTANTS))
WANTED: dict[str, Any] = {
    "bugs": [BUG],
    "scenarios": ["request-flood"],
    "planes": ["single", "dual"],
    "suts": ["dualplane"],
}


def test_one_seed_of_everything_comes_before_the_next() -> None:
    order = list(plays(seeds=[1, 2], **WANTED))
    assert [p.seed for p in order] == [1, 1, 1, 2, 2, 2]
    assert order == list(plays(seeds=[1, 2], **WANTED))
    for of in (order[:3], order[3:]):
        assert {(p.bug, p.planes) for p in of} == {(BUG, "dual"), ("", "single"), ("", "dual")}


def test_what_comes_first_of_a_seed_is_a_bit_of_everything() -> None:
    of = {**WANTED, "bugs": list(MUTANTS), "scenarios": list(SCENARIOS)}
    every = list(plays(seeds=[1], **of))
    first = every[:30]
    bugs, of_all = (sum(bool(p.bug) for p in some) for some in (first, every))
    assert abs(bugs / len(first) - of_all / len(every)) < 0.2
    assert 0 < bugs < len(first)
    assert {p.planes for p in first if not p.bug} == {"single", "dual"}


class Played:
    """A desk whose runs are made up: those with a bug are invalid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plays: list[Play] = []

    def desk(self, *, later: bool = False) -> Desk:
        return Desk(Ledger(self.folder / "trust.jsonl"), self._record, self._judge, later=later)

    def _record(self, one: Play) -> Recorded:
        self.plays.append(one)
        if one.planes == "single":
            raise Skipped("has no such planes")
        folder = self.folder / f"run-{len(self.plays)}"
        (folder / "data").mkdir(parents=True)
        (folder / "run.json").write_text("{}")
        return Recorded(
            scenario=one.scenario,
            folder=folder,
            log_dirs=[folder / "data"],
            keep_data=False,
            seconds=2.0,
        )

    def _judge(self, folder: Path) -> Future[tuple[dict[str, Any], float]]:
        done: Future[tuple[dict[str, Any], float]] = Future()
        one = self.plays[int(folder.name.removeprefix("run-")) - 1]
        results = {"verdict": "invalid" if one.bug else "valid", "reasons": ["why\nmore"]}
        done.set_result((results, 3.0))
        return done


def test_what_is_in_the_ledger_is_not_played_again(tmp_path: Path) -> None:
    told: list[Entry] = []
    played = Played(tmp_path)
    wanted = list(plays(seeds=[1], **WANTED))
    for _ in range(2):
        assert study(wanted, played.desk(), Budget(60), told.append)
    assert played.plays == wanted
    ledger = Ledger(tmp_path / "trust.jsonl")
    assert {(e.play.bug, e.verdict, e.seconds) for e in told} == {
        (BUG, "invalid", 5.0),
        ("", "valid", 5.0),
    }
    assert [e.verdict for e in ledger if e.play.planes == "single"] == ["skipped"]
    assert exit_code(ledger) == 0
    assert "1/1" in page(list(ledger), "biplane trust")
    assert not list(tmp_path.glob("run-*/data"))  # they would fill the disk


def test_runs_that_wait_for_their_verdict_are_judged_and_not_played_again(tmp_path: Path) -> None:
    told: list[Entry] = []
    played = Played(tmp_path)
    wanted = list(plays(seeds=[1], **WANTED))
    assert study(wanted, played.desk(later=True), Budget(60), told.append)
    assert told == []
    seen = [e.verdict for e in played.desk().entries()]
    assert sorted(seen) == ["skipped", "waiting", "waiting"]
    with (tmp_path / "trust.waiting.jsonl").open("ab") as file:
        file.write(b'{"play": {"scen')  # killed while it wrote
    assert study(wanted, played.desk(), Budget(0), told.append)  # nothing is played any more
    assert played.plays == wanted
    assert {(e.play.bug, e.verdict) for e in told} == {(BUG, "invalid"), ("", "valid")}
    assert [e.verdict for e in played.desk().entries()].count("waiting") == 0


def test_a_run_that_somebody_took_away_before_its_verdict_is_played_again(tmp_path: Path) -> None:
    played = Played(tmp_path)
    wanted = list(plays(seeds=[1], **WANTED))
    assert study(wanted, played.desk(later=True), Budget(60), lambda _e: None)
    gone = next(one for one in wanted if one.planes == "dual")
    shutil.rmtree(tmp_path / f"run-{wanted.index(gone) + 1}")
    assert study(wanted, played.desk(), Budget(60), lambda _e: None)
    assert played.plays == [*wanted, gone]


def test_nothing_is_begun_when_the_budget_is_spent(tmp_path: Path) -> None:
    spent, played = Budget(0, now=lambda: 1.0), Played(tmp_path)
    assert not study(plays(seeds=[1], **WANTED), played.desk(), spent, lambda _e: None)
    assert played.plays == []
    assert exit_code(played.desk().ledger) == 2


@pytest.mark.parametrize(
    ("bug", "sound", "code"),
    [
        (["invalid", "valid"], ["valid"], 0),  # found once: the rate says how often
        (["valid", "unknown"], ["valid"], 1),
        (["invalid"], ["invalid"], 1),
        (["invalid"], ["unknown"], 2),
    ],
)
def test_the_exit_code(bug: list[str], sound: list[str], code: int) -> None:
    entries = [
        Entry(play=Play(scenario="s", seed=i, planes="dual", bug=b), verdict=v)
        for b, of in ((BUG, bug), ("", sound))
        for i, v in enumerate(of)
    ]
    assert exit_code(entries) == code
    text = page(entries, "biplane trust")
    assert ("accused" in text.partition("## Sound systems that")[2]) or "invalid" not in sound
    assert ("Why runs were unknown" in text) == ("unknown" in bug + sound)


@pytest.mark.parametrize(
    ("sut", "rules", "as_bug"),
    [
        ("kafka-zk", ("offsets: time-missed",), ["BIPLANE-2"]),
        (
            "kafka-zk",
            ("recovery: never-in-sync", "offsets: time-missed"),
            ["BIPLANE-1", "BIPLANE-2"],
        ),
        ("kafka-zk", ("offsets: time-missed", "records: duplicate-append"), []),
        ("kafka-zk", ("truncation-loss: acked-all-lost",), []),  # KIP-966's, which is mended
        ("dualplane", ("offsets: time-missed",), []),
    ],
)
def test_an_open_bug_of_kafkas_is_named_beside_it(
    sut: str, rules: tuple[str, ...], as_bug: list[str]
) -> None:
    play = Play(scenario="broker-restart", seed=1, planes="dual", sut=sut)
    found = Entry(play=play, verdict="invalid", rules=rules)
    sound = Entry(play=Play(scenario="s", seed=2, planes="dual", sut=sut), verdict="valid")
    assert genuine(found, load_all()) == as_bug
    assert exit_code([found, sound]) == 1  # a rule's name proves no cause
    text = page([found, sound], "biplane trust")
    assert "Sound runs that were `invalid`: 1/2" in text
    assert (f"(which {', '.join(as_bug)} would break)" in text) is bool(as_bug)


def test_releases_in_which_a_bug_is_mended_are_sound_ones_too(tmp_path: Path) -> None:
    def tried(bug: str, verdict: str, number: int, side: str = "mended") -> Entry:
        sut = "kafka-zk@2.8.1" if side == "mended" else "kafka-zk@2.8.0"
        play = Play(scenario=bug, seed=number, planes="single", sut=sut, bug=side)
        return Entry(play=play, verdict=verdict, extra={"commit": "c"})

    mine = [Entry(play=Play(scenario="s", seed=2, planes="dual"), verdict="valid")]
    out = tmp_path / "trust.md"
    assert "is mended" not in save_page(mine, "biplane trust", out).read_text()
    tries = [tried("K-2", "valid", 1), tried("K-1", "unknown", 1), tried("K-1", "invalid", 2)]
    merged(tmp_path / "track-record.jsonl", [*tries, tried("K-1", "invalid", 3, "broken")])
    text = save_page(mine, "biplane trust", out).read_text()
    assert "| kafka-zk@2.8.1 | single | K-1, K-2 | 1/3 (6% to 79%) | 1 | 1 |" in text
    assert "kafka-zk@2.8.0" not in text
    assert "Sound runs that were `invalid`: 0/1" in text  # counted apart


def test_rates_come_with_their_interval() -> None:
    assert rate(19, 20) == "19/20 (76% to 99%)"
    assert interval(0, 0) == (0.0, 1.0)
    assert interval(20, 20)[1] == 1.0


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("20m", 1200), ("2h", 7200), ("5", 5)])
def test_budgets_are_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "soon", "0s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: a time such as"):
        seconds_of(text)
