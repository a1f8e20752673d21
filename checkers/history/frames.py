"""A stored history as typed Spark frames, one a kind.

    with History.load("store/flood/20250101T000000-1") as history:
        history.frame("produce")      # Spark, lazily read; an empty typed frame when absent
        history.rows("fault")         # small kinds: plain rows on the driver, in order of t
        history.views().sql("SELECT count(*) FROM produce")

The schema is never inferred: it is `checkers.history`'s, so that an absent kind and an absent
column read as nothing and nulls. Files that do not fit it are a `HistoryError` (exit code 254).

Both versions of a stored history are read (`checkers.history.parts`). What a manifest names is held
against the files at once, by their sizes and the rows in their footers.

Kinds whose size does not grow with the load (faults, phases, log ends, ...) may be read with
`rows`: from local folders that takes no Spark job. Kinds that grow with the load must stay frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from checkers import sail
from checkers.history import KINDS, HistoryError, arrow_schema, spark_ddl
from checkers.history.parts import (
    MANIFEST,
    Manifest,
    arrow_table,
    compare_files,
    files_of,
    in_order,
    is_kind,
    place_of,
    read_table,
    stored_schema,
    verify,
)
from checkers.history.playing import is_played
from checkers.history.run_info import RunInfo
from checkers.history.store import LocalStore, Store, open_store
from checkers.spark import SMALL_ROWS, engine, local_frame, no_rows, session, tuned

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_FOOTERS_READ: Final = 200
LIGHT_ROWS: Final = 200_000
"""A kind of so many rows is read as a small history is, whatever the size of the others: its jobs
are planned without compiling code for them. What such a frame is joined or united with is treated
alike; so what is large comes first. A whole history of so many is judged in one partition: every
stage and every broadcast of a query costs more than its rows."""

_FEW_ROWS: Final = 2_000
"""Of a tiny history: so many rows of a kind lie in the plans of what Spark is asked of them. Every
other reader of a file is told the whole of Hadoop's configuration, and reads the file anew. Sail
reads files for next to nothing, and is sent each plan whole (one of 2.8 MB became 0.12)."""


_IN_A_PLAN: Final = 10_000
"""Sail is given more rows as a file."""


class Stopped(Exception):
    """No more of the history is given: the message says why."""


class History:
    """One run's history. Owned by the thread that judges; frames may be used from several.

    ``run`` is what was asked (run.json); ``folder`` where results go (None for a URI).
    """

    def __init__(
        self,
        spark: SparkSession,
        run: RunInfo,
        *,
        name: str,
        folder: Path | None = None,
        store: Store | None = None,
        kinds: Mapping[str, str] | None = None,
        tables: Mapping[str, pa.Table] | None = None,
        counts: Mapping[str, int] | None = None,
        trials: Sequence[tuple[str, int]] | None = None,
        light: SparkSession | None = None,
        tiny: bool = False,
    ) -> None:
        self.spark, self.run, self.name, self.folder = spark, run, name, folder
        self._light = spark if light is None else light
        self._tiny = tiny
        self._store = store
        self._kinds = dict(kinds or {})  # kind -> path below the store's root
        self._tables = dict(tables or {})
        self._counts = dict(counts or {})
        self._trials = trials
        self._frames: dict[str, DataFrame] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._timeless: dict[str, list[dict[str, Any]]] = {}
        self._memo: dict[str, Any] = {}
        self._kept: list[Callable[[], object]] = []
        self._making: dict[str, RLock] = {}
        self._lock = RLock()
        self.unanswered: list[str] = []
        """Checks that asked more than Sail can answer."""
        self.stopped: str | None = None
        """Why nothing more is to be judged; None: go on."""

    # -- making one -----------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        where: str | Path,
        *,
        spark: SparkSession | None = None,
        master: str | None = None,
        memory: str | None = None,
        conf: Mapping[str, str] | None = None,
        judge: bool = False,
    ) -> History:
        """Open a run's folder or URI (one that holds ``run.json`` and ``history/``).

        Validates run.json and the files' schemas at once; reads rows only when asked. Starts
        Spark (``master``, ``memory``, ``conf``: see `checkers.spark`) unless given a session.
        ``judge``: it is for checks alone, which any engine may answer (`checkers.spark.engine`).
        """
        remote = "://" in str(where) and not str(where).startswith("file:")
        if remote:
            spark = spark or session(master, memory=memory, conf=conf, small=False)
        store = open_store(where, spark)
        base = "history"
        if not store.exists(base):
            left = [n for n in (f"{base}.unfinished", f"{base}.old") if store.exists(n)]
            left = left or [n for n in ("trials",) if store.exists(n)]
            hint = f" ({left[0]} is there: finish it with `biplane history finish`)" if left else ""
            if store.local is not None and is_played(store.local):
                hint = " yet (it is being played)"
            told = store.read_text("run.json") if store.exists("run.json") else ""
            if '"evidence_dropped": true' in told:
                hint = " (a soak gave its evidence back; results.json and report.html are kept)"
            raise HistoryError(
                f"{store.root}: it has no folder 'history'{hint}; allowed: a run's folder"
            )
        run = RunInfo.parse(store.read_text("run.json"), f"{store.root}/run.json")
        place = f"{store.root}/{base}"
        names = store.names(base)
        kinds = {kind: f"{base}/{n}" for n in names if (kind := is_kind(n, place)) is not None}
        counts, trials = None, None
        if MANIFEST in names:
            manifest = Manifest.parse(store.read_text(f"{base}/{MANIFEST}"), f"{place}/{MANIFEST}")
            found = {kind: store.sizes(path) for kind, path in kinds.items()}
            compare_files(manifest, found, place)
            counts, trials = manifest.rows, sorted(manifest.trials)
        elif loose := [kind for kind, path in kinds.items() if store.sizes(path)]:
            raise HistoryError(
                f"{place}/{MANIFEST}: it is missing, and f={loose[0]} has files that it should name"
            )
        if isinstance(store, LocalStore):
            seen = _count_and_validate(store.path / base, kinds)
            if counts is not None and any(seen[kind] != counts.get(kind) for kind in seen):
                raise HistoryError(f"{place}: rows {seen}; allowed by {MANIFEST}: {counts}")
            counts = seen
        _of_this_run(run, counts, place)
        total = None if counts is None else sum(counts.values())
        tiny = total is not None and total <= LIGHT_ROWS
        small = (total or 0) <= SMALL_ROWS
        if judge:
            master = engine(master, rows=total or 0, asks_spark=bool(memory or conf))
        spark = spark or session(master, memory=memory, conf=conf, small=small)
        return cls(
            tuned(spark, total, one_partition=tiny),
            run,
            light=None if tiny else tuned(spark, 0),
            tiny=tiny,
            name=store.root,
            folder=store.local,
            store=store,
            kinds=kinds,
            counts=counts,
            trials=trials,
        )

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        rows: Mapping[str, Sequence[Mapping[str, Any]]],
        run: RunInfo | Mapping[str, Any] | None = None,
        *,
        folder: Path | None = None,
    ) -> History:
        """A history of rows in memory: kind -> rows, each with ``arm`` and ``trial``."""
        import pyarrow as pa

        tables: dict[str, pa.Table] = {}
        for kind, items in rows.items():
            if kind not in KINDS:
                raise HistoryError(f"unknown kind {kind!r}; allowed: {', '.join(KINDS)}")
            tables[kind] = pa.Table.from_pylist(list(items), schema=stored_schema(kind))
        info = run if isinstance(run, RunInfo) else RunInfo.from_dict(run or {})
        counts = {kind: len(items) for kind, items in rows.items()}
        total = sum(counts.values())
        tiny = total <= LIGHT_ROWS
        return cls(
            tuned(spark, total, one_partition=tiny),
            info,
            name="rows in memory",
            folder=folder,
            tables=tables,
            counts=counts,
            tiny=tiny,
        )

    # -- reading --------------------------------------------------------------------------------

    def has(self, kind: str) -> bool:
        """Whether there may be rows of the kind (false is certain)."""
        if kind not in KINDS:
            raise HistoryError(f"unknown kind {kind!r}; allowed: {', '.join(KINDS)}")
        return kind in self._tables or (kind in self._kinds and self._counts.get(kind) != 0)

    def many(self, kind: str) -> bool:
        """Whether there are so many rows of a kind that it pays to look at them twice."""
        return self.has(kind) and self._counts.get(kind, LIGHT_ROWS + 1) > LIGHT_ROWS

    def frame(self, kind: str) -> DataFrame:
        """Every row of a kind, with ``arm`` (string) and ``trial`` (int)."""
        self._go_on()
        if kind not in self._frames:
            read = self._read(kind, self.spark if self.many(kind) else self._light)
            self._frames[kind] = self._whole(read)
        return self._frames[kind]

    def _whole(self, frame: DataFrame) -> DataFrame:
        return frame.coalesce(1) if self._tiny else frame

    def views(self) -> SparkSession:
        """The session in which each kind is a view of its name, for whoever asks in SQL."""
        for kind in KINDS:
            self._read(kind, self.spark).createOrReplaceTempView(kind)
        return self.spark

    def _read(self, kind: str, spark: SparkSession) -> DataFrame:
        if not self.has(kind):
            return no_rows(spark, stored_schema(kind))
        if kind in self._tables:
            return local_frame(spark, self._tables[kind])
        assert self._store is not None
        local = self._store.local
        if local is not None and sail.answers(spark):  # Hadoop looks at them itself
            verify(local / "history", kind)
        elif local is not None and self._tiny and self._counts[kind] <= _FEW_ROWS:
            with suppress(HistoryError):  # what cannot be read is told to whoever asks, by Spark
                # In one piece: of tables with empty pieces Spark makes other rows.
                return local_frame(spark, self._collect(kind).combine_chunks())
        return spark.read.schema(spark_ddl(kind)).parquet(self._store.uri(self._kinds[kind]))

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """The rows of a kind that does not grow with the load, in order of ``t``. One without a
        time is no event: see `without_time`."""
        self._go_on()
        if kind not in self._rows:
            found = in_order(self._collect(kind))
            self._timeless[kind] = [row for row in found if row["t"] is None]
            self._rows[kind] = [row for row in found if row["t"] is not None]
        return self._rows[kind]

    def without_time(self, kind: str) -> list[dict[str, Any]]:
        """Rows of such a kind that do not say when; nobody judges them."""
        self.rows(kind)
        return self._timeless[kind]

    def _collect(self, kind: str) -> pa.Table:
        if not self.has(kind):
            return stored_schema(kind).empty_table()
        if kind in self._tables:
            return self._tables[kind]
        if self._store is not None and self._store.local is not None:
            return read_table(self._store.local / "history", kind)
        return self.frame(kind).toArrow()

    # -- shared work ----------------------------------------------------------------------------

    def memo(self, name: str, make: Callable[[], Any]) -> Any:
        """What ``make`` gives, made once a history: for frames that several checks share. Who asks
        while it is being made waits."""
        self._go_on()
        if name in self._memo:  # thousands ask again
            return self._memo[name]
        with self._lock:
            making = self._making.setdefault(name, RLock())
        with making:
            if name not in self._memo:
                self._memo[name] = make()
            return self._memo[name]

    def shared(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A frame upon which several checks build: of a tiny history it is planned but once."""
        found: DataFrame = self.keep(name, make) if self._tiny else self.memo(name, make)
        return found

    def keep(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A frame that several jobs read: made by the first of them, and kept until `close`."""

        def kept() -> DataFrame:
            frame = make()
            if sail.answers(self.spark) and not self._tiny:
                return self._kept_in(*sail.written(frame))
            self._kept.append(frame.persist().unpersist)
            return frame

        found: DataFrame = self.memo(name, kept)
        return found

    def _kept_in(self, frame: DataFrame, folder: Path) -> DataFrame:
        self._kept.append(partial(rmtree, folder, ignore_errors=True))
        return frame

    def table(self, rows: Iterable[Mapping[str, Any]], schema: str) -> DataFrame:
        """A small frame made on the driver, of rows; ``schema`` is DDL."""
        return self.local(arrow_table(rows, schema))

    def local(self, whole: pa.Table) -> DataFrame:
        """The same of a table. By way of Arrow it becomes a local table in the plan: no job is
        needed to read it, and an empty one prunes what joins it."""
        whole = whole.combine_chunks()
        if whole.num_rows > _IN_A_PLAN and sail.answers(self.spark):
            return self._kept_in(*sail.laid_down(self.spark, whole))
        return self._whole(local_frame(self._light, whole))

    def stop(self, why: str) -> None:
        """From now on whoever asks for more of the history gets `Stopped`. From any thread."""
        self.stopped = why

    def cancel(self) -> None:
        """Cancel the jobs that are under way."""
        self.spark.interruptAll()
        self._light.interruptAll()

    def _go_on(self) -> None:
        if self.stopped:
            raise Stopped(self.stopped)

    @property
    def store(self) -> Store | None:
        """Where it lies; None: rows in memory."""
        return self._store

    def close(self) -> None:
        """Forget what was shared between checks. The Spark session lives on."""
        for forget in self._kept:
            forget()
        self._kept.clear()
        for what in (self._memo, self._frames, self._rows, self._timeless):
            what.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- what it is a history of -----------------------------------------------------------------

    @property
    def trials(self) -> list[tuple[str, int]]:
        """Every (arm, trial) of which there is a row."""
        found: list[tuple[str, int]] = self.memo("trials", self._find_trials)
        return found

    def _find_trials(self) -> list[tuple[str, int]]:
        if self._trials is not None:
            return list(self._trials)
        found: set[tuple[str, int]] = set()
        for table in self._tables.values():
            found |= {(r["arm"], r["trial"]) for r in table.select(["arm", "trial"]).to_pylist()}
        for path in self._kinds.values():
            assert self._store is not None
            for arm in self._store.names(path):
                for trial in self._store.names(f"{path}/{arm}"):
                    found.add(_directory_keys(f"{self.name}/{path}", arm, trial))
        return sorted(found)

    def expected(self, check: str) -> list[tuple[str, int]]:
        """Every (arm, trial) that the run was to have and whose system this check can judge."""
        pairs = set(self.trials) | set(self.run.trials)
        return sorted(p for p in pairs if self.run.can_be_judged(p[0], check))

    @property
    def arms(self) -> list[str]:
        return sorted({arm for arm, _ in self.trials} | set(self.run.arms))


def _of_this_run(run: RunInfo, counts: Mapping[str, int] | None, place: str) -> None:
    """Whether run.json and the history are of one run: both say how many rows there are."""
    if run.rows is None or counts is None:
        return
    apart = [
        f"{kind}: {counts.get(kind, 0)}, and not {run.rows.get(kind, 0)}"
        for kind in sorted({*run.rows, *counts})
        if run.rows.get(kind, 0) != counts.get(kind, 0)
    ]
    if apart:
        raise HistoryError(
            f"{place}: it is not that of its run.json: rows of {'; '.join(apart[:3])}; allowed: a "
            "run's own history (made again by `biplane history finish`)"
        )


def _directory_keys(where: str, arm: str, trial: str) -> tuple[str, int]:
    from urllib.parse import unquote

    label, number = arm.removeprefix("arm="), trial.removeprefix("trial=")
    if not arm.startswith("arm=") or not trial.startswith("trial=") or not number.isdigit():
        raise HistoryError(f"{where}/{arm}/{trial}: allowed: arm=<label>/trial=<number>")
    return unquote(label), int(number)


def _count_and_validate(history: Path, kinds: Mapping[str, str]) -> dict[str, int]:
    """Rows by kind from the files' footers; a column of the wrong type is refused by name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts: dict[str, int] = {}
    for kind in kinds:
        counts[kind] = 0
        for number, file in enumerate(files_of(history, kind)):
            wanted = arrow_schema(kind) if place_of(file) else stored_schema(kind)
            try:
                footer = pq.ParquetFile(file)
                counts[kind] += footer.metadata.num_rows
                schema = footer.schema_arrow if number < _FOOTERS_READ else wanted
            except (OSError, pa.ArrowInvalid) as error:
                raise HistoryError(f"{file}: not a Parquet file: {error}") from error
            for column in schema:
                index = wanted.get_field_index(column.name)
                if index >= 0 and not _same_type(wanted.field(index).type, column.type):
                    raise HistoryError(
                        f"{file}: field {column.name!r}: type {column.type}; "
                        f"allowed: {wanted.field(index).type}"
                    )
    return counts


def _same_type(wanted: Any, found: Any) -> bool:
    """Names of list elements differ between writers and mean nothing."""
    import pyarrow as pa

    if pa.types.is_list(wanted) and pa.types.is_list(found):
        return _same_type(wanted.value_type, found.value_type)
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        names = {f.name: f.type for f in found}
        return all(f.name in names and _same_type(f.type, names[f.name]) for f in wanted)
    return bool(wanted == found)
