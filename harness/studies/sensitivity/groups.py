"""A group: broken copies of one recorded trial, laid beside each other as trials of one history.

The first trial is the sound one, which has to stay so. Where a copy spoils a promise's judging of
all, that promise is asked of halves of the group until the copy is alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError
from checkers.history.forms import Kept, batches, history_of, kinds_of
from checkers.history.parts import stored_schema
from checkers.history.schema import KINDS, VERSION, arrow_schema
from checkers.history.writer import HistoryWriter
from harness.studies.sensitivity.breaking import Breakage, Tables
from harness.studies.sensitivity.judging import Judged, Spoilt, Trial, judge

SOUND: Final = 0
"""The trial of a group that nothing was done to."""
Copies = Mapping[Breakage, Tables]
"""By breakage, the kinds whose rows say something else."""

Judging = Callable[[Path, Collection[str]], tuple[dict[Trial, Judged], Spoilt]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The first trial of a recorded run."""

    run: Path
    record: Mapping[str, Any]
    arm: str
    tables: Tables

    @classmethod
    def load(cls, run: Path) -> Source:
        """Raises `HistoryError`."""
        import pyarrow as pa

        history = history_of(run)
        try:
            record = json.loads((run / "run.json").read_text())
            first = record["trials"][0]
        except (OSError, ValueError, LookupError) as error:
            raise HistoryError(
                f"{run / 'run.json'}: no trial can be read of it: {error!r}"
            ) from error
        kept = Kept(arm=first["arm"], trial=first["trial"])
        tables = {}
        for kind in kinds_of(history):
            rows = pa.Table.from_batches(batches(history, kind, kept), stored_schema(kind))
            if rows.num_rows:
                tables[kind] = rows.select(arrow_schema(kind).names).combine_chunks()
        return cls(run=run, record=record, arm=first["arm"], tables=tables)

    @property
    def scenario(self) -> str:
        return str(self.record["scenario"])

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables.values())


def judged(
    source: Source,
    copies: Copies,
    scratch: Path,
    names: Collection[str] = (),
    judging: Judging = judge,
) -> dict[Breakage | None, Judged]:
    """By breakage; None: the sound one. By these promises, none: all that the run was held to."""
    try:
        _write(source, list(copies.items()), scratch)
        trials, spoilt = judging(scratch, names)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    found: dict[Breakage | None, Judged] = {None: trials[source.arm, SOUND]}
    for number, one in enumerate(copies, start=SOUND + 1):
        found[one] = trials[source.arm, number]
    if spoilt and len(copies) < 2:
        for each, judgement in found.items():
            if each is not None or not copies:
                judgement.unknown += spoilt.values()
    elif spoilt:
        every = list(copies.items())
        half = len(every) // 2
        for part in (every[:half], every[half:]):
            more = judged(source, dict(part), scratch, list(spoilt), judging)
            for one in dict(part):
                found[one].add(more[one])
    return found


def _write(source: Source, copies: Sequence[tuple[Breakage, Tables]], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    numbers = range(SOUND, SOUND + 1 + len(copies))
    with HistoryWriter(folder / "history") as writer:
        for kind in KINDS:
            whole = source.tables.get(kind)
            if whole is not None:
                writer.add(kind, whole, arm=source.arm, trial=SOUND)
                for number, (_, changed) in enumerate(copies, start=SOUND + 1):
                    mine = changed.get(kind, whole)
                    writer.add(kind, mine, arm=source.arm, trial=number)
                writer.flush(kind)
    record = dict(source.record)
    first = record["trials"][0]
    record["merged"] = [record.get("run_id")]
    record["arms"] = {arm: of for arm, of in record["arms"].items() if arm == source.arm}
    record["trials"] = [{**first, "trial": number} for number in numbers]
    record["expectations"] = {**record.get("expectations", {}), "rounds": len(record["trials"])}
    record["history"] = {"version": VERSION, "rejected": 0, "rejected_reasons": {}}
    (folder / "run.json").write_text(json.dumps(record))
