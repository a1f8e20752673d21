"""log4j files, line by line.

Every file is written with one pattern, ``[%d{ISO8601}] %p [%t] %m (%c)%n``, in UTC. What such a
file may hold besides whole lines: continuations (a stack trace, a table of configs), a line that
kill -9 cut short, with the next boot's first line glued to it, and a last line without an end.
Continuations belong to the line before and are skipped; torn lines were never said.

Nothing is dropped in silence: `Tally` counts what was read as what, by file, with examples of what
nobody knows. A file of which nothing can be read is another format: `HistoryError`.
"""

from __future__ import annotations

import calendar
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError

_HEADER: Final = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] "
    r"(TRACE|DEBUG|INFO|WARN|ERROR|FATAL) \[([^\[\]]*)\] "
)
_LOGGER: Final = re.compile(r" \(([\w.$]+)\)$")
_EXAMPLES: Final = 5
_STRANGE_SHARE: Final = 0.5
_STRANGE_LEAST: Final = 10


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event of a logger. ``wall_ms`` is a whole millisecond: the event lies within the next."""

    wall_ms: int
    thread: str
    message: str
    logger: str


@dataclass(slots=True)
class Tally:
    """What became of the lines of one node's files."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def count(self, file: str, what: str) -> None:
        self.counts.setdefault(file, Counter())[what] += 1

    def unknown(self, file: str, text: str) -> None:
        """A line that a parser should know and does not."""
        self.count(file, "unknown")
        kept = self.examples.setdefault(file, [])
        if len(kept) < _EXAMPLES:
            kept.append(text[:300])

    def refuse_strangers(self, folder: Path, line_of_kafka: str) -> None:
        """Raise `HistoryError` when a parser knew hardly anything of a file: another Kafka's."""
        for file, counts in self.counts.items():
            strange = counts["unknown"]
            known = counts["known"] + counts["ignored"]
            if strange >= _STRANGE_LEAST and strange > _STRANGE_SHARE * (strange + known):
                raise HistoryError(
                    f"{folder / file}: {strange} of {strange + known} lines are not as Kafka "
                    f"{line_of_kafka.rstrip('.')} writes them, for example "
                    f"{self.examples[file][0]!r}"
                )

    def to_dict(self) -> dict[str, Any]:
        return {
            "lines": {file: dict(counts) for file, counts in sorted(self.counts.items())},
            "unknown": self.examples,
        }


def read_lines(path: Path, tally: Tally) -> Iterator[LogLine]:
    """Every event of a file in the order written; an absent file has none."""
    if not path.exists():
        return
    headers = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, text in enumerate(file, start=1):
            if not text.endswith("\n"):
                tally.count(path.name, "torn")
                return
            line = text.rstrip("\n")
            header = _HEADER.match(line)
            if header is None:
                header = _HEADER.search(line)
                tally.count(path.name, "torn" if header else "continuation")
            if header is None:
                if not headers and line.strip():
                    raise HistoryError(
                        f"{path}, line {number}: {line[:80]!r}; allowed: lines of log4j's pattern "
                        "[%d{ISO8601}] %p [%t] %m (%c)"
                    )
                continue
            headers += 1
            yield _event(header, line)


def _event(header: re.Match[str], line: str) -> LogLine:
    logger = _LOGGER.search(line)
    message = line[header.end() : logger.start() if logger else len(line)]
    wall_ms = _second(header[1]) * 1000 + int(header[2])
    return LogLine(wall_ms, header[4], message, logger[1] if logger else "")


@lru_cache(maxsize=64)
def _second(text: str) -> int:
    date, _, time = text.partition(" ")
    year, month, day = map(int, date.split("-"))
    hour, minute, second = map(int, time.split(":"))
    return calendar.timegm((year, month, day, hour, minute, second))
