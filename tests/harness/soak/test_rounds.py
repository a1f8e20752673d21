"""Rounds follow each other with new seeds until there is a reason to end; what was judged by then
is told, and of sound rounds only the newest keep their evidence."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import signal
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.history import HistoryError
from checkers.history.frames import History
from checkers.judging.verdict import Verdict
from harness import disk, interrupts
from harness.progress import Shown
from harness.run import Outcome, Stopped
from harness.runs.index import note, refresh
from harness.scenarios import SCENARIOS
from harness.settings import Settings, SettingsError
from harness.soak import keeping
from harness.soak.account import Account, Round, load
from harness.soak.rounds import Soak, Wish, seed_of
from harness.soak.words import round_line, summary
from tests.harness.runs.conftest import DUAL, SINGLE, a_run

MIXTURE = SCENARIOS["mixture"]
_Usage = namedtuple("_Usage", "total used free")


class Played:
    """Plays nothing: each round ends as ``ends`` has it (an exception is raised), and takes
    ``takes_s`` of the clock that `now` reads."""

    def __init__(self, *ends: str | BaseException, takes_s: float = 100.0) -> None:
        self._ends, self._takes_s = list(ends), takes_s
        self.seeds: list[int] = []
        self.scenarios: list[str] = []
        self.clock_s = 0.0

    def now(self) -> float:
        return self.clock_s

    def __call__(self, scenario: Any, settings: Settings, progress: Any) -> Outcome:
        self.seeds.append(settings.seed)
        self.scenarios.append(scenario.name)
        self.clock_s += self._takes_s
        end = self._ends.pop(0) if self._ends else "valid"
        progress("mixture a 1/2", "chaos")
        if isinstance(end, BaseException):
            raise end
        folder = a_run(
            settings.store.absolute(), len(self.seeds), scenario=scenario.name, seed=settings.seed,
            broken=[(DUAL, "fencing", "stale-epoch")] if end == "invalid" else [],
            doubts=[(SINGLE, "fencing")] if end == "unknown" else [],
            figures={DUAL: {"control_p99_ms": 8.0 + len(self.seeds)}},
        )  # fmt: skip
        (folder / "history" / "f=phase").mkdir(parents=True)
        (folder / "trials" / "a-0" / "live").mkdir(parents=True)
        (folder / "plan.json").write_text("{}")
        note(settings.store.absolute(), folder)
        results = json.loads((folder / "results.json").read_text())
        return Outcome(
            scenario=scenario.name, verdict=Verdict(results["verdict"]), folder=folder,
            reasons=results["reasons"], results=results, seconds=self._takes_s,
        )  # fmt: skip


@pytest.fixture
def soak(tmp_path: Path) -> Callable[..., tuple[Soak, list[str]]]:
    def make(played: Played, scenarios: Any = (MIXTURE,), **wish: Any) -> tuple[Soak, list[str]]:
        settings = Settings.of(profile="soak", seed=7, store=tmp_path / "store")
        told: list[str] = []
        shown = Shown(lambda *_: None, told.append)
        asked = Wish(**{"limit_s": 1000.0, **wish})
        one = Soak(scenarios, settings, asked, shown, play=played, now=played.now)
        return one, told

    return make


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    interrupts.forget()
    signal.signal(signal.SIGTERM, before)


def plain(account: Account) -> Any:
    return json.loads(json.dumps(dataclasses.asdict(account)))


def evidence(store: Path, account: Account) -> list[int]:
    """The rounds that have it."""
    found = []
    for one in account.rounds:
        there = {name: (store / one.path / name).exists() for name in keeping.DROPPED}
        assert len(set(there.values())) == 1, there
        assert set(there.values()) == {not one.dropped}
        assert all((store / one.path / n).exists() for n in ("run.json", "results.json"))
        assert (store / one.path / "report.html").exists()
        found += [one.number] if all(there.values()) else []
    return found


def test_it_plays_new_seeds_until_its_time_is_up(soak: Any, tmp_path: Path) -> None:
    played = Played(takes_s=300.0)
    one, told = soak(played)
    account = one.run()
    assert played.seeds == [7, seed_of(7, 2), seed_of(7, 3)]
    assert len(set(played.seeds)) == 3
    assert (account.ended, account.whole, account.exit_code) == ("its time is up", True, 0)
    assert told[0].startswith("about ")
    assert " that are free" in told[0]
    assert [line.split(",")[0] for line in told[1:]] == ["round 1", "round 2", "round 3"]
    assert plain(load(one.folder)) == plain(account)
    assert len(refresh(tmp_path / "store").rows) == 6  # rounds are runs like any other


def test_a_seed_repeats_a_soak_and_another_one_does_not() -> None:
    assert [seed_of(7, n) for n in range(1, 9)] == [seed_of(7, n) for n in range(1, 9)]
    assert not {seed_of(7, n) for n in range(1, 99)} & {seed_of(8, n) for n in range(1, 99)}


def test_scenarios_take_turns(soak: Any) -> None:
    played = Played()
    soak(played, [MIXTURE, SCENARIOS["broker-restart"]], most_rounds=3)[0].run()
    assert played.scenarios == ["mixture", "broker-restart", "mixture"]


def test_the_first_invalid_round_ends_it_with_everything_kept(soak: Any, tmp_path: Path) -> None:
    one, told = soak(Played("valid", "invalid"), keep=1)
    account = one.run()
    assert (len(account.rounds), account.exit_code) == (2, 1)
    assert account.ended == "round 2 is invalid"
    assert evidence(tmp_path / "store", account) == [1, 2]
    assert "invalid" in told[-1]
    assert "stale-epoch" in told[-1]
    assert account.rounds[1].path in told[-1]


def test_it_goes_on_when_told_and_the_worst_counts(soak: Any, tmp_path: Path) -> None:
    ends = ("invalid", "valid", "unknown", "valid", "invalid", "valid")
    one, _ = soak(Played(*ends), keep_going=True, most_rounds=6, keep=1)
    account = one.run()
    assert [r.verdict for r in account.rounds] == list(ends)
    assert (account.whole, account.exit_code) == (True, 1)
    assert evidence(tmp_path / "store", account) == [1, 3, 5, 6]


@pytest.mark.parametrize(("keep", "left"), [(0, []), (1, [7]), (2, [6, 7]), (9, list(range(1, 8)))])
def test_the_newest_valid_rounds_keep_their_evidence(
    keep: int, left: list[int], soak: Any, tmp_path: Path
) -> None:
    one, _ = soak(Played(), most_rounds=7, keep=keep)
    account = one.run()
    assert evidence(tmp_path / "store", account) == left
    dropped = tmp_path / "store" / account.rounds[0].path
    if keep < 7:
        assert json.loads((dropped / "run.json").read_text())["evidence_dropped"] is True
        with pytest.raises(HistoryError, match="a soak gave its evidence back"):
            History.load(dropped)


def test_of_unknown_rounds_the_first_keep_theirs(soak: Any, tmp_path: Path) -> None:
    one, _ = soak(Played(*["unknown"] * 5), most_rounds=5, keep=2)
    account = one.run()
    assert evidence(tmp_path / "store", account) == [1, 2]
    assert account.exit_code == 2


def test_a_signal_within_a_round_keeps_what_was_judged(soak: Any, tmp_path: Path) -> None:
    unfinished = tmp_path / "store" / "mixture" / "stopped"
    one, _ = soak(Played("valid", Stopped(unfinished)))
    account = one.run()
    assert (account.ended, account.unfinished) == ("it was interrupted", "mixture/stopped")
    assert (len(account.rounds), account.exit_code) == (1, 2)
    assert plain(load(one.folder)) == plain(account)
    assert any("mixture/stopped" in line for line in summary(account, one.folder))


def test_a_signal_between_rounds_ends_it_and_no_bookkeeping_is_done_by_half(
    soak: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts.install()
    drop = keeping.drop

    def signalled(run: Path) -> None:
        signal.raise_signal(signal.SIGTERM)
        drop(run)

    monkeypatch.setattr(keeping, "drop", signalled)
    one, told = soak(Played(), keep=1)
    account = one.run()
    assert account.ended == "it was interrupted"
    assert len(account.rounds) == 2
    assert evidence(tmp_path / "store", account) == [2]
    assert told[-1].startswith("round 2")  # what was being told is told
    assert plain(load(one.folder)) == plain(account)


def test_an_invalid_round_outweighs_an_interruption(soak: Any) -> None:
    one, _ = soak(Played("invalid", KeyboardInterrupt()), keep_going=True)
    assert one.run().exit_code == 1


def test_a_crash_is_passed_on_and_the_rounds_before_are_kept(soak: Any) -> None:
    one, _ = soak(Played("valid", RuntimeError("out of luck")))
    with pytest.raises(RuntimeError, match="out of luck"):
        one.run()
    kept = load(one.folder)
    assert (len(kept.rounds), kept.ended) == (1, "RuntimeError: out of luck")


def test_a_refusal_of_the_first_round_is_the_users(soak: Any) -> None:
    one, _ = soak(Played(SettingsError("--store: full")))
    with pytest.raises(SettingsError):
        one.run()
    assert not one.folder.exists()


def test_a_refusal_later_ends_it(soak: Any) -> None:
    one, _ = soak(Played("valid", SettingsError("--store: full")))
    account = one.run()
    assert (account.ended, account.whole, account.exit_code) == ("--store: full", False, 2)


def test_a_soak_that_would_fill_the_disk_is_refused(
    soak: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played()
    one, _ = soak(played, limit_s=20_000.0, keep=5)
    plan = MIXTURE.plan(random.Random("7:mixture"), Settings.of(profile="soak").profile)
    rounds = int(20_000 / (2 * (2 + 60 + 9 + 25) + 20)) + 1
    needed = keeping.needed(plan, trials=2, keep=5, rounds=rounds)
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: _Usage(0, 0, needed - 1))
    with pytest.raises(SettingsError, match="--keep-rounds"):
        one.run()
    assert not played.seeds
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: _Usage(0, 0, needed))
    soak(Played("invalid"), limit_s=20_000.0, keep=5)[0].run()


def test_it_ends_before_the_disk_is_full(soak: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played()
    one, _ = soak(played)
    tight = keeping.is_tight
    monkeypatch.setattr(keeping, "is_tight", lambda *_: len(played.seeds) == 2)
    account = one.run()
    assert (len(account.rounds), account.exit_code) == (2, 2)
    assert account.ended == "the disk has no room for another round"
    least = 2 * keeping.KEPT_BYTES + 2 * disk.SPARE_BYTES
    for free, is_so in ((least, False), (least - 1, True)):
        monkeypatch.setattr(disk.shutil, "disk_usage", lambda _, free=free: _Usage(0, 0, free))
        assert tight(Path("/"), 2) is is_so


def test_more_that_is_kept_and_more_rounds_need_more_room() -> None:
    plan = MIXTURE.plan(random.Random(1), Settings.of(profile="soak").profile)
    few = keeping.needed(plan, trials=2, keep=3, rounds=100)
    assert keeping.needed(plan, trials=2, keep=4, rounds=100) - few == 4 * keeping.KEPT_BYTES
    assert keeping.needed(plan, trials=2, keep=3, rounds=200) - few == 100 * keeping.ROUND_BYTES
    assert keeping.needed(plan, trials=2, keep=9, rounds=1) < few


@pytest.mark.parametrize(
    ("trials", "rounds", "says"),
    [(1, 1, "about 1 round of 1 trial: "), (2, 3, "about 3 rounds of 2 trials: ")],
)
def test_room_is_told_in_words(trials: int, rounds: int, says: str, tmp_path: Path) -> None:
    plan = MIXTURE.plan(random.Random(1), Settings.of(profile="soak").profile)
    told = keeping.room(tmp_path, plan, trials=trials, keep=1, rounds=rounds)
    assert told.startswith(says)


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"limit_s": 0.5}, "--time-limit"),
        ({"most_rounds": 0}, "--rounds"),
        ({"keep": -1}, "--keep-rounds"),
    ],
)
def test_bad_wishes_are_refused_by_name(wish: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Wish(**wish)


def test_figures_of_all_rounds_are_summed_up(soak: Any, tmp_path: Path) -> None:
    one, told = soak(Played(), most_rounds=3)
    account = one.run()
    spread = account.spread("control_p99_ms", DUAL)
    assert spread is not None
    assert (spread.least, spread.median, spread.most) == (9.0, 10.0, 11.0)
    lines = list(summary(account, one.folder))
    assert "soak, seed 7: 3 rounds: 3 valid" in lines[0]
    (latency,) = [line for line in lines if f"{DUAL}: control latency under faults" in line]
    assert latency.endswith("median 10 ms, 9 ms to 11 ms")
    assert "control_p99_ms 9 ms" in told[1]
    page = (one.folder / "soak.html").read_text()
    for round_ in account.rounds:
        href = f"../../{round_.path}/report.html"
        assert f'href="{href}"' in page
        assert (one.folder / href).resolve().is_file()
    assert "its time" not in page
    assert "all rounds were played" in page


def test_a_line_is_plain_and_a_page_is_escaped(soak: Any) -> None:
    one = Round(
        number=1, scenario="mixture", seed=1, verdict="unknown", seconds=1.0, path="mixture/x",
        reasons=("<b>\x1b[31m no\nend é",),
    )  # fmt: skip
    assert round_line(one).isascii()
    assert "\n" not in round_line(one)
    from harness.soak.page import render

    made = soak(Played())[0].account
    made = dataclasses.replace(made, rounds=[one])
    assert "<b>" not in render(made, "..")
    assert "\x1b" not in render(made, "..")


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "rounds": 1}'])
def test_what_is_no_soak_is_refused(body: str, tmp_path: Path) -> None:
    (tmp_path / "soak.json").write_text(body)
    with pytest.raises(HistoryError, match=r"soak\.json"):
        load(tmp_path)


def test_taking_evidence_away_may_be_repeated(soak: Any, tmp_path: Path) -> None:
    one, _ = soak(Played(), most_rounds=1)
    run = tmp_path / "store" / one.run().rounds[0].path
    keeping.drop(run)
    left = sorted(path.name for path in run.iterdir())
    keeping.drop(run)
    assert sorted(path.name for path in run.iterdir()) == left
    shutil.rmtree(run / "results", ignore_errors=True)
    assert set(left) <= set(keeping.KEPT)
