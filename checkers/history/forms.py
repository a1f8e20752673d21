"""A stored history in other forms: what is in it, compacted, several as one, or as plain files.

Local folders, by way of Arrow: a batch of rows at a time, never a whole kind. What is rewritten is
put in place as a whole (`checkers.history.writer`); what cannot be read is a `HistoryError`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkers.history.parts import (
    MANIFEST,
    Manifest,
    compare_files,
    files_of,
    is_kind,
    place_of,
    stored_schema,
)
from checkers.history.run_info import RunInfo
from checkers.history.schema import KINDS, VERSION, HistoryError, arrow_schema
from checkers.history.writer import HistoryWriter, recover

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("jsonl", "csv")
_CLOCKS_APART_NS: Final = 1_000_000_000
"""So much may several runs' clocks be tied differently and still be laid beside each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What to take of a kind. Times in ns, both ends included."""

    kinds: Sequence[str] = ()
    arm: str | None = None
    trial: int | None = None
    topic: str | None = None
    partition: int | None = None
    from_t: int | None = None
    to_t: int | None = None

    def condition(self, names: Sequence[str]) -> Any:
        """As Arrow's expression, by which row groups are left unread; None: everything."""
        import pyarrow.dataset as ds

        parts = [
            ds.field(name) == value
            for name in ("arm", "trial", "topic", "partition")
            if (value := getattr(self, name)) is not None and name in names
        ]
        if self.from_t is not None:
            parts.append(ds.field("t") >= self.from_t)
        if self.to_t is not None:
            parts.append(ds.field("t") <= self.to_t)
        whole = None
        for part in parts:
            whole = part if whole is None else whole & part
        return whole


# -- reading --------------------------------------------------------------------------------------


def history_of(run: Path) -> Path:
    """A run's history folder, held against its manifest."""
    history = run / "history"
    if not history.is_dir():
        raise HistoryError(f"{run}: it has no folder 'history'; allowed: a run's folder")
    manifest = manifest_of(history)
    if manifest is not None:
        found = {
            kind: {file.name: file.stat().st_size for file in files_of(history, kind)}
            for kind in kinds_of(history)
        }
        compare_files(manifest, found, str(history))
    return history


def manifest_of(history: Path) -> Manifest | None:
    """None: version 1."""
    path = history / MANIFEST
    return Manifest.parse(path.read_text(), str(path)) if path.exists() else None


def kinds_of(history: Path) -> list[str]:
    names = sorted(p.name for p in history.iterdir() if p.is_dir())
    found = {kind for name in names if (kind := is_kind(name, str(history))) is not None}
    return [kind for kind in KINDS if kind in found]


def batches(history: Path, kind: str, kept: Kept | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a kind with ``arm`` and ``trial``, file by file, as they are stored."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    kept = kept or Kept()
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    layout = ds.ParquetFileFormat(default_fragment_scan_options=options)
    for file in files_of(history, kind):
        place = place_of(file)
        if place is not None and (
            kept.arm not in (None, place[0]) or kept.trial not in (None, place[1])
        ):
            continue
        schema = arrow_schema(kind) if place else stored_schema(kind)
        try:
            data = ds.dataset(file, schema=schema, format=layout)
            for batch in data.to_batches(filter=kept.condition(schema.names)):
                yield _placed(batch, kind, place)
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"{file}: cannot be read: {error}") from error


def _placed(batch: pa.RecordBatch, kind: str, place: tuple[str, int] | None) -> pa.RecordBatch:
    import pyarrow as pa

    if place is None:
        return batch
    arm = pa.repeat(pa.scalar(place[0], pa.string()), batch.num_rows)
    trial = pa.repeat(pa.scalar(place[1], pa.int32()), batch.num_rows)
    return pa.record_batch([*batch.columns, arm, trial], schema=stored_schema(kind))


# -- what is in it --------------------------------------------------------------------------------


def info(run: Path) -> Iterator[str]:
    """In lines: version, trials, and by kind rows, files, bytes and the span of time."""
    import pyarrow.parquet as pq

    history = history_of(run)
    manifest = manifest_of(history)
    version = 1 if manifest is None else VERSION
    yield f"{run}: a history of version {version}"
    head = ("kind", "rows", "files", "bytes", "bytes a row", "from", "to (s)")
    lines: list[tuple[str, ...]] = [head]
    rows = files = size = 0
    trials: set[tuple[str, int]] = set(manifest.trials) if manifest else set()
    for kind in kinds_of(history):
        found = files_of(history, kind)
        footers = [pq.ParquetFile(file).metadata for file in found]
        own, taken = sum(f.num_rows for f in footers), sum(file.stat().st_size for file in found)
        spans = [span for footer in footers for span in _times(footer)]
        trials |= {place for file in found if (place := place_of(file)) is not None}
        lines.append(
            (
                kind,
                f"{own:,}",
                f"{len(found):,}",
                f"{taken:,}",
                f"{taken / own:.1f}" if own else "",
                f"{min(s[0] for s in spans) / 1e9:.3f}" if spans else "",
                f"{max(s[1] for s in spans) / 1e9:.3f}" if spans else "",
            )
        )
        rows, files, size = rows + own, files + len(found), size + taken
    lines.append(("all", f"{rows:,}", f"{files:,}", f"{size:,}", f"{size / max(rows, 1):.1f}"))
    widths = [max(len(line[i]) for line in lines if i < len(line)) for i in range(len(head))]
    for line in lines:
        cells = [c.rjust(width) for c, width in zip(line, widths, strict=False)]
        cells[0] = cells[0].strip().ljust(widths[0])
        yield "  ".join(cells).rstrip()
    for arm in sorted({arm for arm, _ in trials}):
        yield f"{arm}: {sum(1 for a, _ in trials if a == arm)} trials"


def _times(footer: Any) -> Iterator[tuple[int, int]]:
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for index in range(group.num_columns):
            column = group.column(index)
            if column.path_in_schema == "t":
                if column.statistics is not None and column.statistics.has_min_max:
                    yield column.statistics.min, column.statistics.max
                break


# -- writing --------------------------------------------------------------------------------------


def compact(run: Path) -> Manifest:
    """Write the history anew: the newest version, sized and sorted files. The same rows."""
    recover(run / "history")
    history = history_of(run)
    with HistoryWriter(history) as writer:
        for arm, trial in _trials(run, history):
            writer.add_trial(arm, trial)
        for kind in kinds_of(history):
            for batch in batches(history, kind):
                _take(writer, kind, batch)
            writer.flush(kind)
        _keep_rejected(history, writer)
    return writer.manifest


def merge(out: Path, runs: Sequence[Path]) -> Manifest:
    """Several runs of one scenario as one: each arm's trials follow each other, renumbered.

    `HistoryError` when they cannot be laid beside each other: other scenarios, arms or
    expectations, or clocks that were tied too differently (another boot of the machine).
    """
    if len({run.resolve() for run in runs}) < len(runs):
        raise HistoryError("a run is named twice; allowed: each once")
    if (out / "run.json").exists() or (out / "history").exists():
        raise HistoryError(f"{out}: there is a run in it; allowed: a new folder")
    records = [_record(run) for run in runs]
    merged = _merged(records, [str(run) for run in runs])
    out.mkdir(parents=True, exist_ok=True)
    number: dict[tuple[int, str, int], int] = merged.pop("numbers")
    with HistoryWriter(out / "history") as writer:
        histories = [history_of(run) for run in runs]
        for index, (run, history) in enumerate(zip(runs, histories, strict=True)):
            for arm, trial in _trials(run, history):
                writer.add_trial(arm, number[index, arm, trial])
        for kind in KINDS:
            for index, history in enumerate(histories):
                for batch in batches(history, kind):
                    _take(writer, kind, _renumbered(batch, index, number))
            writer.flush(kind)
        for history in histories:
            _keep_rejected(history, writer)
    merged["history"] = {**merged["history"], "rows": writer.manifest.rows}
    (out / "run.json").write_text(json.dumps(merged, indent=2) + "\n")
    return writer.manifest


def _take(writer: HistoryWriter, kind: str, batch: pa.RecordBatch) -> None:
    import pyarrow as pa

    if batch.num_rows:
        writer.add_whole(kind, pa.Table.from_batches([batch]))


def _keep_rejected(history: Path, writer: HistoryWriter) -> None:
    for name in (history / "_rejected.jsonl", history.parent / "rejected.jsonl"):
        if name.is_file():
            with name.open("rb") as lines:
                for line in lines:
                    writer.reject(line)


def _trials(run: Path, history: Path) -> list[tuple[str, int]]:
    manifest = manifest_of(history)
    if manifest is not None:
        return sorted(manifest.trials)
    found = {place_of(file) for kind in kinds_of(history) for file in files_of(history, kind)}
    return sorted(place for place in found if place is not None)


def _record(run: Path) -> dict[str, Any]:
    path = run / "run.json"
    try:
        text = path.read_text()
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error}") from error
    RunInfo.parse(text, str(path))
    found: dict[str, Any] = json.loads(text)
    return found


_SAME: Final = ("scenario", "arms", "settings", "topics")


def _merged(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    first = records[0]
    expected = dict(first.get("expectations") or {})
    numbers: dict[tuple[int, str, int], int] = {}
    used: dict[str, int] = {}
    trials, rounds, rejected, error_ns = [], 0, 0, 0
    offset = (first.get("clock") or {}).get("monotonic_minus_wall_ns")
    reasons: dict[str, int] = {}
    for index, (record, name) in enumerate(zip(records, names, strict=True)):
        for key in _SAME:
            if _comparable(key, record.get(key)) != _comparable(key, first.get(key)):
                raise HistoryError(
                    f"{name}/run.json: field {key!r} is not that of {names[0]}; allowed: runs of "
                    "one scenario, asked for alike"
                )
        own = {k: v for k, v in (record.get("expectations") or {}).items() if k != "rounds"}
        if own != {k: v for k, v in expected.items() if k != "rounds"}:
            raise HistoryError(
                f"{name}/run.json: field 'expectations' is not that of {names[0]}; allowed: the "
                "same"
            )
        clock = record.get("clock") or {}
        apart = abs((clock.get("monotonic_minus_wall_ns") or 0) - (offset or 0))
        if apart > _CLOCKS_APART_NS:
            raise HistoryError(
                f"{name}/run.json: its clock is tied {apart / 1e9:.0f} s otherwise than that of "
                f"{names[0]}; allowed: runs of one boot of one machine"
            )
        error_ns = max(error_ns, apart + (clock.get("error_ns") or 0))
        rounds += (record.get("expectations") or {}).get("rounds") or 1
        stored = record.get("history") or {}
        rejected += stored.get("rejected") or 0
        for why, n in (stored.get("rejected_reasons") or {}).items():
            reasons[why] = reasons.get(why, 0) + n
        for entry in record.get("trials") or []:
            new = used.get(entry["arm"], 0)
            used[entry["arm"]] = new + 1
            numbers[index, entry["arm"], entry["trial"]] = new
            trials.append({**entry, "trial": new})
    return {
        **first,
        "version": VERSION,
        "merged": [record.get("run_id") for record in records],
        "expectations": {**expected, "rounds": rounds},
        "clock": {**(first.get("clock") or {}), "error_ns": error_ns},
        "trials": trials,
        "interrupted": any(record.get("interrupted") for record in records),
        "history": {"version": VERSION, "rejected": rejected, "rejected_reasons": reasons},
        "numbers": numbers,
    }


def _comparable(key: str, value: Any) -> Any:
    """Settings differ in what has no part in judging: the seed and the place of the store."""
    return (value or {}).get("overrides") or {} if key == "settings" else value


def _renumbered(
    batch: pa.RecordBatch, index: int, number: Mapping[tuple[int, str, int], int]
) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    trials = batch.column("trial")
    new = trials
    for (run, arm, trial), to in number.items():
        if run == index and trial != to:
            mine = pc.and_(pc.equal(batch.column("arm"), arm), pc.equal(trials, trial))
            new = pc.if_else(mine, pa.scalar(to, pa.int32()), new)
    return batch.set_column(batch.schema.get_field_index("trial"), "trial", new)


def export(run: Path, out: Path, *, form: str = "jsonl", kept: Kept | None = None) -> Iterator[str]:
    """A file of each kind, ``<out>/<kind>.<form>``; says in lines what it wrote."""
    if form not in FORMATS:
        raise HistoryError(f"--format {form!r}; allowed: {', '.join(FORMATS)}")
    kept = kept or Kept()
    for kind in kept.kinds:
        if kind not in KINDS:
            raise HistoryError(f"--kind {kind!r}; allowed: {', '.join(KINDS)}")
    history = history_of(run)
    _refuse_nothing(kept, run, history)
    out.mkdir(parents=True, exist_ok=True)
    for kind in kept.kinds or kinds_of(history):
        path, rows = out / f"{kind}.{form}", 0
        with path.open("w", newline="") as file:
            table = csv.writer(file) if form == "csv" else None
            if table is not None:
                table.writerow(stored_schema(kind).names)
            for batch in batches(history, kind, kept):
                for row in batch.to_pylist():
                    rows += 1
                    if table is not None:
                        table.writerow([_cell(value) for value in row.values()])
                    else:
                        own = {"f": kind, **{k: v for k, v in row.items() if v is not None}}
                        file.write(json.dumps(own) + "\n")
        yield f"{path}: {rows:,} rows"


def _refuse_nothing(kept: Kept, run: Path, history: Path) -> None:
    """Raises `HistoryError` where no row can be so: a name mistyped is not to look like silence."""
    trials = _trials(run, history)
    for name, value, known in (
        ("arm", kept.arm, {arm for arm, _ in trials}),
        ("trial", kept.trial, {n for arm, n in trials if kept.arm in (None, arm)}),
    ):
        if value is not None and value not in known:
            raise HistoryError(f"--{name} {value}; allowed: {', '.join(map(str, sorted(known)))}")
    if kept.from_t is not None and kept.to_t is not None and kept.from_t > kept.to_t:
        raise HistoryError(f"--from-t {kept.from_t} is after --to-t {kept.to_t}")
    asked = {name for name in ("topic", "partition") if getattr(kept, name) is not None}
    kinds = [k for k in kept.kinds or kinds_of(history) if asked <= KINDS[k].all_columns.keys()]
    part = Kept(topic=kept.topic, partition=kept.partition)
    if asked and not any(
        batch.num_rows for kind in kinds for batch in batches(history, kind, part)
    ):
        named = ", ".join(f"--{name} {getattr(kept, name)}" for name in sorted(asked))
        raise HistoryError(f"{named}: no row has it; allowed: what is in the history")


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value
