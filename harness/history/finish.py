"""Finishing: a run's live JSONL files become its history: sized, sorted Parquet files by kind.

Live files are written by many processes, any of which may have been killed in the middle of a
line. Nothing is lost in silence: a line that cannot be read or does not fit the schema goes to
``history/_rejected.jsonl`` with the reason and is counted. An invocation without a completion (its
process died, or the run ended first) becomes an `info` row: nobody knows what came of it. What each
file held and what of it is missing becomes rows of kind ``source`` (`harness.history.account`).

Layout: `checkers.history.parts`. The history appears as a whole when it is done; live files stay
where they are, so that finishing that was cut off, or a history that was spoilt, can be repeated
from them (``biplane history finish``) and gives the same rows.

Memory does not grow with the files: rows pass through in batches, and what is gathered for a file
of a kind is bounded (`checkers.history.writer`). Only invocations without completion are kept to
the end of their live file.

Rows are checked by Arrow's own conversion, column by column; only a batch that it refuses is looked
at row by row with `checkers.history.problem_with`, to name the offender.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from checkers.history import KINDS, OPERATIONS, arrow_schema, problem_with
from checkers.history.writer import HistoryWriter
from harness.history.account import SourceAccount

_BATCH_ROWS: Final = 8_192
_ALLOWED: Final = {name: frozenset(kind.all_columns) | {"f"} for name, kind in KINDS.items()}
Row = dict[str, Any]


@dataclass(slots=True)
class FinishReport:
    """What finishing saw. ``rows`` counts stored rows by kind."""

    rows: Counter[str] = field(default_factory=Counter)
    rejected: int = 0
    torn_lines: int = 0  # an unreadable *last* line: its writer was killed while writing it
    orphans: int = 0  # invocations that became `info`
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class LiveTrial:
    """A trial's live files; ``end_t`` (ns) closes invocations that nobody completed."""

    live: Path
    arm: str
    trial: int
    end_t: int


def finish(out: Path, trials: Sequence[LiveTrial]) -> FinishReport:
    """Convert every ``*.jsonl`` below the trials' folders into the history ``out``, in the place of
    one that may be there."""
    report = FinishReport()
    with HistoryWriter(out) as writer:
        for trial in trials:
            writer.add_trial(trial.arm, trial.trial)
            for source in sorted(trial.live.rglob("*.jsonl")):
                stem = "-".join(source.relative_to(trial.live).with_suffix("").parts)
                aside = _Aside(report, writer, SourceAccount(stem))
                tables = _Tables(writer, trial, aside)
                for row in _completed(_rows(source, aside), trial.end_t, aside):
                    tables.add(row)
                tables.close()
                for row in aside.account.to_rows(trial.end_t):
                    tables.add(row)
                tables.close()
    return report


@dataclass(slots=True)
class _Aside:
    """Where what does not become a row of its own is counted and kept."""

    report: FinishReport
    writer: HistoryWriter
    account: SourceAccount

    def reject(self, line: bytes, why: str) -> None:
        self.report.rejected += 1
        self.report.reasons[why] += 1
        self.account.reasons[why] += 1
        entry = {"why": why, "line": line.decode("utf-8", "replace").rstrip("\n")}
        self.writer.reject(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))

    def torn(self) -> None:
        self.report.torn_lines += 1
        self.account.torn += 1

    def orphan(self) -> None:
        self.report.orphans += 1
        self.account.orphans += 1


def _rows(source: Path, aside: _Aside) -> Iterator[Row]:
    """The readable events of one live file."""
    with source.open("rb") as lines:
        for line in lines:
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError:
                if not line.endswith(b"\n"):
                    aside.torn()
                else:
                    aside.reject(line, f"{source.name}: not JSON")
                continue
            if isinstance(row, dict):
                aside.account.add(row)
            allowed = _ALLOWED.get(str(row.get("f"))) if isinstance(row, dict) else None
            if allowed is None or not row.keys() <= allowed:
                why = problem_with(row) if isinstance(row, dict) else "not an object"
                aside.reject(line, f"{source.name}: {why}")
                continue
            if row["f"] != "source":  # its writer's last word is part of the account
                yield row


def _completed(rows: Iterable[Row], end_t: int, aside: _Aside) -> Iterator[Row]:
    """Drop invocations that were completed; turn the others into `info` rows at ``end_t``.

    One invocation may have several completion rows (a poll delivers many records): the first
    completes it, all pass through.
    """
    pending: dict[tuple[str, str, int], Row] = {}
    for row in rows:
        if row["f"] not in OPERATIONS or "op" not in row:
            yield row
            continue
        key = (row["f"], row.get("process", ""), row["op"])
        if row.get("type") == "invoke":
            pending[key] = row
            continue
        invoked = pending.pop(key, None)
        if invoked is not None and row.get("invoke_t") is None:
            row["invoke_t"] = invoked["t"]
        yield row
    for row in pending.values():
        aside.orphan()
        yield {
            **row,
            "type": "info",
            "invoke_t": row["t"],
            "t": max(end_t, row["t"]),
            "error_ns": max(end_t - row["t"], 0),  # nobody read that off a clock
            "failure": "no completion was recorded",
        }


class _Tables:
    """Buffers rows by kind and hands them on in batches of `_BATCH_ROWS`."""

    def __init__(self, writer: HistoryWriter, trial: LiveTrial, aside: _Aside) -> None:
        self._writer, self._trial, self._aside = writer, trial, aside
        self._buffers: dict[str, list[Row]] = {}

    def add(self, row: Row) -> None:
        buffer = self._buffers.setdefault(row["f"], [])
        buffer.append(row)
        if len(buffer) >= _BATCH_ROWS:
            self._hand_on(row["f"], buffer)
            buffer.clear()

    def close(self) -> None:
        for kind, buffer in self._buffers.items():
            if buffer:
                self._hand_on(kind, buffer)
        self._buffers.clear()

    def _hand_on(self, kind: str, rows: list[Row]) -> None:
        schema = arrow_schema(kind)
        try:
            table = pa.Table.from_pylist(rows, schema=schema)
            sound = table["t"].null_count == 0 and table["process"].null_count == 0
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            sound = False
        if not sound:
            rows = self._only_sound(rows)
            if not rows:
                return
            table = pa.Table.from_pylist(rows, schema=schema)
        self._writer.add(kind, table, arm=self._trial.arm, trial=self._trial.trial)
        self._aside.report.rows[kind] += table.num_rows
        self._aside.account.keep(kind, (row["process"] for row in rows))

    def _only_sound(self, rows: list[Row]) -> list[Row]:
        sound = []
        for row in rows:
            why = problem_with(row) or _arrow_problem(row)
            if why is None:
                sound.append(row)
            else:
                line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
                self._aside.reject(line, why)
        return sound


def _arrow_problem(row: Row) -> str | None:
    """What Arrow has against a row whose plain types are right: a range, a nested field."""
    try:
        pa.Table.from_pylist([row], schema=arrow_schema(row["f"]))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        return f"kind {row['f']!r}: {error}"
    return None
