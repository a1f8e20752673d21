"""A stored run, watched again: what a watch tells of it, held against what judging all of it said.

The rows are written once more into files such as a run has while it goes on, each when its time has
come, and looked at every few seconds of the run. Nothing waits for those seconds. What is found
must be of rules that the verdict has as broken (`unconfirmed`); and what the verdict has of rules
that leave nothing to the end must have been found (`untold`).
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from checkers.history import HistoryError
from checkers.history.parts import is_kind, read_rows
from checkers.history.run_info import RunInfo
from checkers.live import decided, order
from checkers.live.accusation import Accusation
from checkers.live.offsets import JUDGED_BY
from checkers.live.tail import LiveTrial
from checkers.live.watch import UNCLEAN, Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_NS: Final = 2_000_000_000
_MOST_LOOKS: Final = 200
"""Of one trial; a longer one is looked at less often."""
_OF_HARNESS: Final = frozenset({"harness", "zk-watch"})
"""What the harness writes into one file."""
_LED: Final = "led-by-another"
At = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """``told``: what the watch found, as it found it; ``rows``: so many were judged."""

    told: tuple[Accusation, ...]
    rows: int
    looks: int


def replay(spark: SparkSession, run: Path) -> Replayed:
    """Watch the stored run again. Raises `HistoryError` where there is no history."""
    try:
        told = orjson.loads((run / "run.json").read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise HistoryError(f"{run / 'run.json'}: cannot be read: {error}") from error
    info = RunInfo.from_dict(told)
    unclean = UNCLEAN in ((told.get("settings") or {}).get("overrides") or {})
    found: list[Accusation] = []
    rows = looks = 0
    for (arm, trial), lines in _lines(run / "history").items():
        now_t = 0

        def now() -> int:
            return now_t  # noqa: B023 (a watch ends with its trial)

        watch = Watch(spark, info, now, unclean=unclean)
        with tempfile.TemporaryDirectory(prefix="biplane-replay-") as scratch:
            place = LiveTrial(Path(scratch), arm, trial)
            for now_t, last in _written(lines, place.folder / "live"):  # noqa: B007
                found += watch.look([place], last=last)
                while watch.behind([place]):
                    found += watch.look([place], last=last)
                looks += 1
        rows += watch.rows
    return Replayed(told=tuple(found), rows=rows, looks=looks)


def _lines(history: Path) -> Mapping[At, list[tuple[int, str, bytes]]]:
    """(time, file, line) of each row in order of time, by trial."""
    found: dict[At, list[tuple[int, str, bytes]]] = defaultdict(list)
    for folder in sorted(history.glob("f=*")):
        kind = is_kind(folder.name, str(history))
        if kind is None:
            continue
        for row in read_rows(history, kind):
            at = (row.pop("arm"), row.pop("trial"))
            process = row["process"]
            name = "harness" if process in _OF_HARNESS else process
            said = {"f": kind} | {key: value for key, value in row.items() if value is not None}
            found[at].append((row["t"], name, orjson.dumps(said)))
    if not found:
        raise HistoryError(f"{history}: no history is there")
    for lines in found.values():
        lines.sort(key=lambda line: line[0])
    return found


def _written(lines: list[tuple[int, str, bytes]], live: Path) -> Iterator[tuple[int, bool]]:
    """Writes what has come by then, and answers when (ns) that is, and whether it was all."""
    live.mkdir(parents=True)
    began, over = lines[0][0], lines[-1][0]
    step = max(EVERY_NS, (over - began) // _MOST_LOOKS)
    at, by = 0, began
    while at < len(lines):
        by += step
        texts: dict[str, list[bytes]] = defaultdict(list)
        while at < len(lines) and lines[at][0] <= by:
            texts[lines[at][1]].append(lines[at][2])
            at += 1
        for name, told in texts.items():
            with (live / f"{name}.jsonl").open("ab") as file:
                file.write(b"\n".join(told) + b"\n")
        yield by, at == len(lines)


def broken_rules(results: Mapping[str, Any]) -> frozenset[str]:
    """Those that judging has as broken."""
    checks = results["checks"].values()
    return frozenset(rule for check in checks for rule in check.get("violation_counts") or ())


def is_confirmed(rule: str, broken: Iterable[str]) -> bool:
    """Whether judging came to what the watch said by that rule."""
    return not JUDGED_BY.get(rule, frozenset({rule})).isdisjoint(broken)


def unconfirmed(told: Iterable[Accusation], results: Mapping[str, Any]) -> list[Accusation]:
    """What was told, and judging all of it did not come to."""
    broken = broken_rules(results)
    return [one for one in told if not is_confirmed(one.rule, broken)]


def untold(told: Iterable[Accusation], results: Mapping[str, Any]) -> list[str]:
    """Rules that judging has as broken and of which a watch knows all that there is to know
    (`docs/live.md` has what it leaves to the end), and that it did not tell of."""
    certain = order.RULES | decided.CERTAIN
    missed = broken_rules(results) & certain - {one.rule for one in told}
    return sorted(rule for rule in missed if rule != _LED or not _only_the_log_shows(results))


def _only_the_log_shows(results: Mapping[str, Any]) -> bool:
    """Whether all witnesses of `_LED` are of epochs that were never committed: that no commit of
    one is still to come, only ZooKeeper's own log proves, which is told in the end. One that was
    committed for another leader has that commit as its witness."""
    checks = results["checks"].values()
    found = [v for check in checks for v in check.get("violations") or () if v["rule"] == _LED]
    return bool(found) and all(e["f"] != "leadership" for v in found for e in v["events"])
