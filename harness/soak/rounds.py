"""Plays rounds until the time is up, a round is invalid, or somebody ends it.

The first round has the soak's own seed, each further one a seed that is drawn from it: any of them
can be played again by itself, and the whole soak by its seed. A round is begun only while there is
time for one as long as they took so far, and room on the disk for it.

However it ends, what was judged by then is told and kept: the bookkeeping of a round is never done
by half (`harness.interrupts`), and a run that is stopped on its way keeps its history.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from checkers.judging.verdict import Verdict
from harness.arms import arms_of, plan_of
from harness.interrupts import check, interruptible, uninterrupted
from harness.progress import tolerant
from harness.run import Outcome, Progress, Stopped, run
from harness.scenarios.base import Scenario
from harness.settings import Settings, SettingsError
from harness.soak import keeping
from harness.soak.account import FOLDER, Account, Round, round_of, save
from harness.soak.page import write as write_page
from harness.soak.words import round_line

PROFILE: Final = "soak"
DEFAULT_S: Final = 3600.0
_OVERHEAD_S: Final = 25.0
"""Of a trial, besides its phases: start, rest, final read, stop. A first guess."""
_JUDGING_S: Final = 20.0
Play = Callable[[Scenario, Settings, Progress], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """``keep``: of how many valid rounds (and unknown ones) the evidence is kept."""

    limit_s: float = DEFAULT_S
    most_rounds: int | None = None
    keep_going: bool = False
    keep: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.limit_s <= 30 * 86_400:
            raise SettingsError(f"--time-limit: {self.limit_s:g} s; allowed: 1s to 720h of soak")
        if self.most_rounds is not None and not 1 <= self.most_rounds <= 100_000:
            raise SettingsError(f"--rounds: {self.most_rounds}; allowed: 1 to 100000 rounds")
        if not 0 <= self.keep <= 1000:
            raise SettingsError(f"--keep-rounds: {self.keep}; allowed: 0 to 1000")


def seed_of(seed: int, number: int) -> int:
    """Of the ``number``-th round (from 1)."""
    return seed if number == 1 else random.Random(f"soak:{seed}:{number}").randrange(2**31)


class Soak:
    """One soak; owned by the main thread. ``play``, ``now``: for tests."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        settings: Settings,
        wish: Wish,
        shown: Progress,
        *,
        play: Play = run,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scenarios, self._settings, self._wish = list(scenarios), settings, wish
        self._shown, self._play, self._now = tolerant(shown), play, now
        self._began = now()
        self.account = Account(
            scenarios=[scenario.name for scenario in scenarios],
            seed=settings.seed,
            limit_s=wish.limit_s,
            most_rounds=wish.most_rounds,
            keep=wish.keep,
            started_at_ms=time.time_ns() // 1_000_000,
            options={**settings.to_dict(), "keep_going": wish.keep_going},
        )
        stamp = time.strftime("%Y%m%dT%H%M%S")
        self.folder = settings.store / FOLDER / f"{stamp}-{settings.seed}"

    def run(self) -> Account:
        """Play until it ends; a signal ends it, too. Raises what `harness.run.run` does where that
        is no round's outcome, and then has told of the rounds before."""
        self._shown.say(self._room())
        account = self.account
        with uninterrupted():
            try:
                while account.ended is None:
                    with interruptible():
                        check()
                        number, outcome = self._round()
                    if outcome is not None:
                        self._book(round_of(outcome, number, self._seed(number), self._store))
                    self._end_if_due()
            except Stopped as stopped:
                account.unfinished = stopped.folder.relative_to(self._store).as_posix()
                account.ended = "it was interrupted"
            except KeyboardInterrupt:
                account.ended = "it was interrupted"
            except BaseException as error:
                account.ended = f"{type(error).__name__}: {error}"
                raise
            finally:
                if account.rounds or account.ended == "it was interrupted":
                    self._save()
        return account

    @property
    def _store(self) -> Path:
        return self._settings.store.absolute()

    def _seed(self, number: int) -> int:
        return seed_of(self._settings.seed, number)

    def _scenario(self, number: int) -> Scenario:
        return self._scenarios[(number - 1) % len(self._scenarios)]

    def _round(self) -> tuple[int, Outcome | None]:
        """The next round; None when it cannot be played any more, which has been noted."""
        number = len(self.account.rounds) + 1
        settings = replace(self._settings, seed=self._seed(number))

        def progress(where: str, what: str) -> None:
            self._shown(f"round {number}, {where}", what)

        shown = replace(self._shown, report=progress)
        try:
            return number, self._play(self._scenario(number), settings, shown)
        except SettingsError as error:
            if number == 1:
                raise  # nothing was played yet: that is for the user to mend
            self.account.ended = str(error)
            return number, None

    def _book(self, one: Round) -> None:
        """A round's outcome: kept, told, and the evidence of older ones given back."""
        account = self.account
        account.rounds.append(one)
        self._save()
        dropped = keeping.to_drop(account.rounds, self._wish.keep)
        for old in dropped:
            keeping.drop(self._store / old.path)
        if dropped:
            account.drop([old.number for old in dropped])
            self._save()
        self._shown.say(round_line(one))

    def _end_if_due(self) -> None:
        account, wish = self.account, self._wish
        if account.ended is not None:
            return
        last = account.rounds[-1]
        left_s = wish.limit_s - (self._now() - self._began)
        usual_s = statistics.median(one.seconds for one in account.rounds)
        if last.verdict == Verdict.INVALID and not wish.keep_going:
            account.ended, account.whole = f"round {last.number} is invalid", True
        elif wish.most_rounds is not None and len(account.rounds) >= wish.most_rounds:
            account.ended, account.whole = "all rounds were played", True
        elif left_s < usual_s:
            account.ended, account.whole = "its time is up", True
        elif keeping.is_tight(self._store, self._trials(len(account.rounds) + 1)):
            account.ended = "the disk has no room for another round"

    def _trials(self, number: int) -> int:
        return len(arms_of(self._scenario(number), self._settings)) * self._settings.profile.rounds

    def _room(self) -> str:
        """What it will need of the disk: asked before anything is made."""
        profile = self._settings.profile
        trials = max(self._trials(n) for n in range(1, len(self._scenarios) + 1))
        a_trial_s = profile.warmup_s + profile.chaos_s + profile.settle_s + _OVERHEAD_S
        rounds = int(self._wish.limit_s / (trials * a_trial_s + _JUDGING_S)) + 1
        rounds = min(rounds, self._wish.most_rounds or rounds)
        plan = plan_of(self._scenario(1), self._settings)
        return keeping.room(self._store, plan, trials=trials, keep=self._wish.keep, rounds=rounds)

    def _save(self) -> None:
        save(self.account, self.folder)
        write_page(self.account, self.folder, self._settings.store)
