"""What studies of many runs write down: one line of JSON a run, appended when it is over, so that a
study that was stopped goes on where it was.

A *play* says what is run; its *entry* what came of it. An entry is never written twice: a play that
is in the ledger is not played again. A store's ledger goes with its machine; what pages are made
from is kept beside them (`harness.studies.kept`).
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.history.parts import read_rows
from checkers.judging.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One run: a scenario with one seed. ``bug``: a planted or generated one, "" for none."""

    scenario: str
    seed: int
    planes: str
    sut: str = "dualplane"
    bug: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What came of a play. ``rules``: those that were broken, as "promise: rule"; ``seconds``: from
    the start of the run to its verdict (0: not known); ``found_ms``: from the start of chaos to the
    last event of the first witness, None when there is none."""

    play: Play
    verdict: str
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    found_ms: float | None = None
    folder: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        return self.verdict == Verdict.INVALID


class Ledger:
    """A file of entries. One process writes it."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self._entries = {e.play: e for e in read(path)}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __contains__(self, play: object) -> bool:
        return play in self._entries

    def get(self, play: Play) -> Entry | None:
        return self._entries.get(play)

    def add(self, entry: Entry) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(orjson.dumps(asdict(entry), option=orjson.OPT_APPEND_NEWLINE))
        self._entries[entry.play] = entry


def read(path: Path) -> Iterator[Entry]:
    """The entries of a file, none where it is not there."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            body = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # the last one, torn: its play is played again
        body["play"] = Play(**body["play"])
        for name in ("rules", "reasons"):
            body[name] = tuple(body.get(name, ()))
        yield Entry(**body)


def entry_of(play: Play, outcome: Any, extra: Mapping[str, Any] | None = None) -> Entry:
    """From a `harness.run.Outcome`."""
    checks = outcome.results.get("checks") or {}
    rules = [
        f"{name}: {rule}"
        for name, check in checks.items()
        for rule in check.get("violation_counts") or {}
    ]
    return Entry(
        play=play,
        verdict=str(outcome.verdict),
        rules=tuple(rules),
        reasons=tuple(str(r).splitlines()[0] for r in outcome.reasons[:5]),
        seconds=round(outcome.seconds, 1),
        found_ms=_found_ms(checks, outcome.folder),
        folder=str(outcome.folder),
        extra=dict(extra or {}),
    )


def _found_ms(checks: Mapping[str, Any], folder: Path) -> float | None:
    """The earliest end of a witness, counted from the trial's chaos."""
    begun = _chaos_begun(folder)
    ends = [
        (violation["events"][-1]["t"] - begun[violation["arm"], violation["trial"]]) / 1e6
        for check in checks.values()
        for violation in check.get("violations") or []
        if violation["events"] and (violation["arm"], violation["trial"]) in begun
    ]
    return round(min(ends), 1) if ends else None


def _chaos_begun(folder: Path) -> dict[tuple[str, int], int]:
    return {
        (str(r["arm"]), int(r["trial"])): r["t"]
        for r in read_rows(folder / "history", "phase")
        if (r["name"], r["event"]) == ("chaos", "begin")
    }


@cache
def commit() -> str:
    """Which sources are being played: the commit of the tree that they lie in, "" when there is
    none; a star tells that something was not committed."""
    here = Path(__file__).parent
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--abbrev=7", "--dirty=*", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip()


def origin() -> dict[str, str]:
    """By what an entry is known beside others of its play: which sources were played, and when
    (the day, UTC)."""
    return {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}


def commits(entries: Iterable[Entry]) -> str:
    """As pages say it: " on commit a" or " on commits a, b"; "" when none is known."""
    names = list(dict.fromkeys(str(e.extra.get("commit") or "") for e in entries))
    known = [name for name in names if name]
    return f" on commit{'s' * (len(known) > 1)} {', '.join(known)}" if known else ""


class Budget:
    """How long a study may go on: no play is begun after that."""

    def __init__(self, seconds: float, now: Any = time.monotonic) -> None:
        self._now, self._end = now, now() + seconds

    @property
    def is_spent(self) -> bool:
        return bool(self._now() >= self._end)


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> float:
    """``90s``, ``20m``, ``2h``, ``7d`` or plain seconds; ValueError says what is allowed."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        value = float(number) * _UNITS[unit]
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise ValueError(f"{text!r}; allowed: a time such as 90s, 20m or 2h")
    return value


def interval(found: int, of: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval of a rate, 95% by default; (0, 1) of nothing."""
    if not of:
        return (0.0, 1.0)
    rate, z2 = found / of, z * z
    middle = (rate + z2 / (2 * of)) / (1 + z2 / of)
    half = z / (1 + z2 / of) * math.sqrt(rate * (1 - rate) / of + z2 / (4 * of * of))
    return (max(0.0, middle - half), min(1.0, middle + half))


def rate(found: int, of: int) -> str:
    """As pages write it: 19/20 (76% to 99%)."""
    low, high = interval(found, of)
    return f"{found}/{of} ({low:.0%} to {high:.0%})" if of else "-"


def by(entries: Iterable[Entry], *names: str) -> dict[tuple[str, ...], list[Entry]]:
    """Entries grouped by fields of their plays, in order of first appearance."""
    found: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        found.setdefault(tuple(str(getattr(entry.play, n)) for n in names), []).append(entry)
    return found
