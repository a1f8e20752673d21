"""What is played how often, what counts as found, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from harness.bugs import record
from harness.bugs.book import Bug, load
from harness.bugs.play import BROKEN, MENDED, Try, reproduce, succeeded, witness_of
from harness.run import Outcome
from harness.studies.ledger import Budget, Ledger, Play
from tests.harness.bugs.test_book import GOOD, written

RULE = "never-in-sync"


class Played:
    """Finds the bug in the tries of the broken release that are named, and what else is told."""

    def __init__(self, found: set[int], mended: str = "valid") -> None:
        self.found, self.mended = found, mended
        self.plays: list[tuple[str, int, str]] = []

    def __call__(self, bug: Bug, play: Play) -> Outcome:
        self.plays.append((play.bug, play.seed, play.sut))
        broken = play.seed in self.found if play.bug == BROKEN else self.mended == "invalid"
        verdict = (
            Verdict.INVALID if broken else Verdict(self.mended if play.bug == MENDED else "valid")
        )
        counts = {RULE: 1} if broken else {}
        results = {"checks": {"recovery": {"violation_counts": counts, "violations": []}}}
        return Outcome(
            scenario=bug.id,
            verdict=verdict,
            reasons=[],
            folder=Path("nowhere"),
            results=results,
            seconds=1.0,
        )


@pytest.fixture
def bug(tmp_path: Path) -> Bug:
    return load(written(tmp_path, GOOD))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


def all_of(
    bug: Bug,
    ledger: Ledger,
    played: Played,
    tries: int = 0,
    budget_s: float = 60,
    own_s: float = 60,
) -> list[Try]:
    budget, own = Budget(budget_s), Budget(own_s)
    return list(reproduce(bug, ledger, played, tries=tries, budget=budget, own=own))


def test_until_it_is_found_then_once_where_it_is_mended(bug: Bug, ledger: Ledger) -> None:
    played = Played({3})
    done = all_of(bug, ledger, played)
    assert played.plays == [
        *((BROKEN, n, "kafka-zk@2.5.0") for n in (1, 2, 3)),
        (MENDED, 1, "kafka-zk@2.5.1"),
    ]
    assert [t.found for t in done] == [False, False, True, False]
    assert succeeded(done)


def test_so_many_tries_of_each(bug: Bug, ledger: Ledger) -> None:
    played = Played({1, 2})
    assert succeeded(all_of(bug, ledger, played, tries=2))
    assert [side for side, *_ in played.plays] == [BROKEN] * 2 + [MENDED] * 2


def test_what_is_kept_is_not_played_again(bug: Bug, ledger: Ledger, tmp_path: Path) -> None:
    all_of(bug, ledger, Played({1}), tries=1)
    played = Played({1, 2})
    done = all_of(bug, Ledger(tmp_path / "ledger.jsonl"), played, tries=2)
    assert [(side, n) for side, n, _ in played.plays] == [(BROKEN, 2), (MENDED, 2)]
    assert [t.new for t in done] == [False, True, False, True]


def test_what_another_text_of_the_file_found_says_nothing(bug: Bug, ledger: Ledger) -> None:
    all_of(bug, ledger, Played({1}), tries=1)
    other = replace(bug, digest="another")
    played = Played(set())
    assert not succeeded(all_of(other, ledger, played, tries=1))
    assert len(played.plays) == 2
    assert "0/1" in record._row(other, list(ledger))


@pytest.mark.parametrize("mended", ["invalid", "unknown"])
def test_a_mended_release_that_is_not_valid_is_a_failure(
    bug: Bug, ledger: Ledger, mended: str
) -> None:
    assert not succeeded(all_of(bug, ledger, Played({1}, mended)))


def test_not_found_is_a_failure_however_valid_the_rest(bug: Bug, ledger: Ledger) -> None:
    assert not succeeded(all_of(bug, ledger, Played(set()), tries=2))


def test_budgets_end_it(bug: Bug, ledger: Ledger) -> None:
    played = Played(set())
    assert not succeeded(all_of(bug, ledger, played, budget_s=0.0))
    assert played.plays == []
    all_of(bug, ledger, played, own_s=0.0)  # the bug's own: the mended release all the same
    assert [side for side, *_ in played.plays] == [MENDED]


def test_another_rule_is_not_the_bug(bug: Bug, ledger: Ledger) -> None:
    other = replace(bug, found_by=("records: lost",))
    done = all_of(other, ledger, Played({1}), tries=1)
    assert done[0].entry.verdict == "invalid"
    assert not done[0].found


def test_its_witness_is_the_one_by_which_it_is_known(bug: Bug) -> None:
    def check(rule: str) -> dict[str, Any]:
        return {"violations": [{"rule": rule, "says": rule, "events": []}]}

    results = {"checks": {"epochs": check("went-back"), "recovery": check(RULE)}}
    found = witness_of(bug, results)
    assert found is not None
    assert found[0] == f"recovery: {RULE}"
    assert witness_of(bug, {"checks": {"epochs": check("went-back")}}) is None


def test_the_page_counts_tries_and_links_files(bug: Bug, ledger: Ledger, tmp_path: Path) -> None:
    all_of(bug, ledger, Played({1, 3}), tries=3)
    text = record.write({bug.id: bug}, list(ledger), tmp_path / "p.md").read_text()
    assert "| KAFKA-1 | kafka-zk 2.5.0 | recovery: never-in-sync | 2/3 (" in text
    assert "`biplane reproduce KAFKA-1`" in text
    assert "3/3 (" in text
    assert "(../bugs/KAFKA-1.toml)" in text


def test_an_open_bug_is_played_where_it_is(bug: Bug, ledger: Ledger, tmp_path: Path) -> None:
    still = load(written(tmp_path, GOOD.replace('mended = "2.5.1"\n', "")))
    played = Played({2})
    done = all_of(still, ledger, played)
    assert [side for side, *_ in played.plays] == [BROKEN] * 2
    assert succeeded(done)
    assert not succeeded(done[:1])
    assert any("it is open" in line for line in record.story(still, done))
    text = record.write({still.id: still}, list(ledger), tmp_path / "p.md").read_text()
    assert "1/2 (9% to 91%) | 1 s | open | - |" in text
