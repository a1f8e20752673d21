"""What is played how often, what counts as found, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.bugs import record
from harness.bugs.book import Bug, load
from harness.bugs.play import BROKEN, MENDED, Try, play_of, reproduce, succeeded, witness_of
from harness.run import Recorded
from harness.runtime.protocol import SetupError
from harness.studies.ledger import Budget, Ledger, Play
from harness.studies.playing import Desk, Judge
from tests.harness.bugs.test_book import GOOD, written

RULE = "never-in-sync"


class Played:
    """Finds the bug in the tries of the broken release that are named, and what else is told."""

    _runs = count()

    def __init__(self, found: set[int], mended: str = "valid") -> None:
        self.found, self.mended = found, mended
        self.plays: list[tuple[str, int, str]] = []
        self.judged: list[str] = []

    def record(self, play: Play) -> Recorded:
        self.plays.append((play.bug, play.seed, play.sut))
        folder = Path(f"runs/{next(self._runs)}/{play.bug}-{play.seed}")
        folder.mkdir(parents=True)
        return Recorded(
            scenario=play.scenario, folder=folder, log_dirs=(), keep_data=True, seconds=1.0
        )

    def judge(self, folder: Path) -> Future[tuple[dict[str, Any], float]]:
        self.judged.append(folder.name)
        side, seed = folder.name.split("-")[-2:]
        broken = int(seed) in self.found if side == BROKEN else self.mended == "invalid"
        verdict = "invalid" if broken else self.mended if side == MENDED else "valid"
        counts = {RULE: 1} if broken else {}
        results = {
            "verdict": verdict,
            "reasons": [],
            "checks": {"recovery": {"violation_counts": counts, "violations": []}},
        }
        done: Future[tuple[dict[str, Any], float]] = Future()
        done.set_result((results, 0.0))
        return done

    @contextmanager
    def judges(self) -> Iterator[Judge]:
        yield self.judge


@pytest.fixture
def bug(tmp_path: Path) -> Bug:
    return load(written(tmp_path, GOOD))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


def refuse(_bug: Bug, why: SetupError) -> None:
    raise why


def all_of(
    bugs: Bug | list[Bug],
    ledger: Ledger,
    played: Played,
    tries: int = 0,
    mended: int | None = None,
    budget_s: float = 60,
    **desk: bool,
) -> list[Try]:
    return list(
        reproduce(
            bugs if isinstance(bugs, list) else [bugs],
            Desk(ledger, played.record, played.judge, **desk),
            tries=tries,
            mended=mended,
            budget=Budget(budget_s),
            cannot=refuse,
        )
    )


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
    assert [side for side, *_ in played.plays] == [BROKEN, MENDED] * 2


def test_a_number_of_its_own_where_it_is_mended(bug: Bug, ledger: Ledger) -> None:
    played = Played({1, 2})
    assert succeeded(all_of(bug, ledger, played, tries=1, mended=3))
    assert [(side, n) for side, n, _ in played.plays] == [
        *((BROKEN, 1), (MENDED, 1)),
        *((MENDED, 2), (MENDED, 3)),
    ]
    again = Played({1, 2})
    assert not succeeded(all_of(replace(bug, digest="x"), ledger, again, tries=2, mended=0))
    assert [side for side, *_ in again.plays] == [BROKEN, BROKEN]


def test_one_of_every_bug_then_the_next(bug: Bug, ledger: Ledger) -> None:
    other = replace(bug, id="KAFKA-2", mended=None)
    played = Played({1, 2})
    done = all_of([bug, other], ledger, played, tries=2)
    assert [(side, n) for side, n, _ in played.plays] == [
        *((BROKEN, 1), (MENDED, 1), (BROKEN, 1)),
        *((BROKEN, 2), (MENDED, 2), (BROKEN, 2)),
    ]
    assert [(t.bug.id, t.entry.play.seed) for t in done] == [
        *(("KAFKA-1", 1), ("KAFKA-1", 1), ("KAFKA-2", 1)),
        *(("KAFKA-1", 2), ("KAFKA-1", 2), ("KAFKA-2", 2)),
    ]


def test_a_try_is_judged_while_the_next_is_played(bug: Bug, ledger: Ledger) -> None:
    """A number of tries hangs on no verdict; until it is found does."""

    class Slow(Played):
        def record(self, play: Play) -> Recorded:
            self.judged.append(f"played {play.seed}")
            return super().record(play)

    still = replace(bug, mended=None)
    many, few = Slow(set()), Slow({2})
    desk = Desk(ledger, many.record, many.judge)
    tries = reproduce([still], desk, tries=3, budget=Budget(60), cannot=refuse)
    assert next(tries).entry.play.seed == 1
    assert many.judged == ["played 1", "broken-1", "played 2", "broken-2"]  # none is waited for
    assert [t.entry.play.seed for t in tries] == [2, 3]
    all_of(replace(still, digest="another"), ledger, few)
    assert few.judged == ["played 1", "broken-1", "played 2", "broken-2"]


def test_what_was_stopped_before_its_verdict_is_judged_and_not_played_again(
    bug: Bug, ledger: Ledger
) -> None:
    """Where another text of the file was played before, too: its entry is no verdict on this."""
    all_of(replace(bug, digest="another"), ledger, Played({1}), tries=1)
    assert all_of(bug, ledger, Played({1}), tries=1, later=True) == []
    played = Played({1})
    done = all_of(bug, Ledger(ledger.path), played, tries=1)
    assert played.plays == []
    assert [(t.side, t.found, t.new) for t in done] == [(BROKEN, True, True), (MENDED, False, True)]


def test_what_is_kept_is_not_played_again(bug: Bug, ledger: Ledger, tmp_path: Path) -> None:
    all_of(bug, ledger, Played({1}), tries=1)
    played = Played({1, 2})
    done = all_of(bug, Ledger(tmp_path / "ledger.jsonl"), played, tries=2)
    assert [(side, n) for side, n, _ in played.plays] == [(BROKEN, 2), (MENDED, 2)]
    assert [t.new for t in done] == [False, False, True, True]


def test_what_another_text_of_the_file_found_says_nothing(bug: Bug, ledger: Ledger) -> None:
    all_of(bug, ledger, Played({1}), tries=1)
    other = replace(bug, digest="another")
    played = Played(set())
    assert not succeeded(all_of(other, ledger, played, tries=1))
    assert len(played.plays) == 2
    assert "0/1" in record._row(other, list(ledger))
    again = Played({1})
    all_of(other, Ledger(ledger.path), again, tries=1)
    assert again.plays == again.judged == [], "what was judged of the other text is over"


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
    all_of(replace(bug, budget_s=0.0), ledger, played)  # its own: where it is mended all the same
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


def test_tries_that_went_otherwise_are_told_of_one_by_one(
    bug: Bug, ledger: Ledger, tmp_path: Path
) -> None:
    all_of(bug, ledger, Played({1, 3}), tries=3)
    *others, last = list(ledger)
    assert last.play.bug == MENDED
    accused = replace(last, verdict="invalid", rules=("epochs: went-back",), reasons=("a", "b"))
    text = record.write({bug.id: bug}, [*others, accused], tmp_path / "p.md").read_text()
    told = text.partition("## Tries that went otherwise")[2].strip().splitlines()
    assert len(told) == 2
    assert told[0].startswith("- KAFKA-1, not found (kafka-zk@2.5.0, ")
    assert told[1].startswith("- KAFKA-1, where it is mended (kafka-zk@2.5.1, ")
    assert told[1].endswith("): invalid: epochs: went-back")
    kept = [e for e in others if e.play != play_of(bug, BROKEN, 2)]
    text = record.write({bug.id: bug}, kept, tmp_path / "p.md").read_text()
    assert "went otherwise" not in text


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
