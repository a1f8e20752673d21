"""The ledger that a page is made from: a file of the project beside it (docs/*.jsonl), because a
store goes with its machine.

Stores' ledgers are merged into it, again and again: an entry is the same when its play, the commit
that played it and the text that was played (``digest``) are, and the first one stays. The same
entries make the same bytes, so that what was added is all that a diff shows. What says something of
a machine is left out: its folders, in reasons too; and reasons altogether where rules say it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.judging.verdict import Verdict
from harness.studies.ledger import Entry, read

_FOLDERS: Final = re.compile(r"(?<![\w.])/(?:[^\s/:]+/)+")
_ORIGIN: Final = ("date", "commit", "digest")


def merged(path: Path, entries: Iterable[Entry], *, skipped: bool = False) -> list[Entry]:
    """Write what the file holds and those of these entries that were played (with ``skipped``, that
    could not be as well), in their order: by play, then by date."""
    every: dict[tuple[Any, ...], Entry] = {}
    for entry in (*read(path), *entries):
        if skipped or entry.verdict != "skipped":
            every.setdefault(_identity(entry), entry)
    ordered = sorted(every.values(), key=_order)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(_line, ordered)))
    return ordered


def _identity(entry: Entry) -> tuple[Any, ...]:
    return entry.play, entry.extra.get("commit"), entry.extra.get("digest")


def _order(entry: Entry) -> tuple[Any, ...]:
    play = entry.play
    origin = (str(entry.extra.get(name, "")) for name in _ORIGIN)
    return play.scenario, play.bug, play.seed, *astuple(play), *origin


def without_folders(reason: str) -> str:
    return _FOLDERS.sub("", reason)


def _line(entry: Entry) -> bytes:
    body = asdict(entry)
    del body["folder"]
    told = () if entry.verdict == Verdict.INVALID else entry.reasons
    body["reasons"] = [without_folders(reason) for reason in told]
    return orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE)
