"""The ledger beside the page (docs/sensitivity.jsonl): what was judged, of which run, on what.

One line for each column of a run, by what was done to it: the verdict, then the rules that noticed
it, or the first of the doubts. Of entries of one play the newest stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.judging.verdict import Verdict
from harness.studies.kept import without_folders
from harness.studies.ledger import Entry, Play
from harness.studies.sensitivity.breaking import Breakage

_PLAY: Final = ("scenario", "sut", "planes", "seed")
_ORIGIN: Final = ("commit", "date")


def read(path: Path) -> Iterator[Entry]:
    """The entries of the file, none where it is not there."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        body = orjson.loads(line)
        run = dict(zip(_PLAY, body["run"], strict=True))
        for what, (verdict, *says) in body["told"].items():
            noticed = verdict == Verdict.INVALID
            yield Entry(
                play=Play(**run, bug=f"{body['place']}: {what}"),
                verdict=verdict,
                rules=tuple(says) if noticed else (),
                reasons=() if noticed else tuple(says),
                extra={name: body[name] for name in _ORIGIN},
            )


def newest(*several: Iterable[Entry]) -> list[Entry]:
    """One of each play: of the latest day, and of that day the last."""
    every = sorted((e for of in several for e in of), key=lambda e: str(e.extra.get("date", "")))
    return list({entry.play: entry for entry in every}.values())


def write(path: Path, entries: Iterable[Entry]) -> None:
    """The same entries make the same bytes."""
    lines: dict[tuple[Any, ...], dict[str, list[str]]] = {}
    for entry in entries:
        place = Breakage.of(entry.play.bug).place
        run = [getattr(entry.play, name) for name in _PLAY]
        key = (*run, place, *(str(entry.extra.get(name, "")) for name in _ORIGIN))
        says = [without_folders(why) for why in entry.reasons[:1]]
        told = list(entry.rules) if entry.rules else says
        what = entry.play.bug.removeprefix(f"{place}: ")
        lines.setdefault(key, {})[what] = [entry.verdict, *told]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(_line(key, told) for key, told in sorted(lines.items())))


def _line(key: tuple[Any, ...], told: dict[str, list[str]]) -> bytes:
    *run, place, commit, date = key
    body = {"run": run, "place": place, "commit": commit, "date": date}
    return orjson.dumps(
        {**body, "told": dict(sorted(told.items()))}, option=orjson.OPT_APPEND_NEWLINE
    )
