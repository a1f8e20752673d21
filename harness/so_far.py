"""What a trial's live files tell while it goes on: for who waits; no verdict rests on it.

How many records are acknowledged a second, and how late 99 in 100 of the controller requests that
probers sent were answered. Only what is new is read, at most `MOST_BYTES` of a file a look: of a
file that grows faster the rest is passed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from harness.report import units

LOOK_S: Final = 1.0
MOST_BYTES: Final = 4 << 20
_PRODUCERS: Final = "*producer*.jsonl"
_PROBERS: Final = "*prober*.jsonl"
_ACKNOWLEDGED: Final = b'"type":"ok"'


class SoFar:
    """One trial's. Not thread-safe."""

    def __init__(self, live: Path) -> None:
        self._live = live
        self._read: dict[Path, int] = {}
        self._last_s: float | None = None
        self._latencies_ms: list[float] = []
        self._words: list[str] = []

    def words(self, now_s: float) -> list[str]:
        """What there is to say: those of the last look, if that was less than `LOOK_S` ago."""
        if self._last_s is not None and now_s - self._last_s < LOOK_S:
            return self._words
        lines = [line for line in self._new(_PRODUCERS) if _ACKNOWLEDGED in line]
        self._latencies_ms += [late for line in self._new(_PROBERS) for late in _late_ms(line)]
        words = []
        if self._last_s is not None:
            words.append(f"{len(lines) / (now_s - self._last_s):,.0f} records/s")
        if self._latencies_ms:
            p99 = sorted(self._latencies_ms)[math.ceil(len(self._latencies_ms) * 0.99) - 1]
            words.append(f"control p99 {units.ms(p99, ascii_only=True)}")
        self._words, self._last_s = words, now_s
        return words

    def _new(self, pattern: str) -> Iterator[bytes]:
        """Whole lines that were not there before."""
        for path in self._live.glob(pattern):
            at = self._read.get(path, 0)
            try:
                with path.open("rb") as file:
                    end = file.seek(0, 2)
                    file.seek(max(at, end - MOST_BYTES))
                    data = file.read(MOST_BYTES)
            except OSError:
                continue
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = end - len(data) + len(whole)
            yield from whole.splitlines()


def _late_ms(line: bytes) -> Iterator[float]:
    """Of one probe that was answered or given up."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return  # begun in the midst of a line
    if row.get("f") == "probe" and row.get("type") in ("ok", "fail"):
        yield (row["t"] - row.get("planned_t", row["t"])) / 1e6
