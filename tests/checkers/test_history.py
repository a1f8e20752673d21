"""Stored histories: both versions, what is missing or spoilt, and what a stranger makes of one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from checkers.check import check_run
from checkers.history import HistoryError, arrow_schema, frames
from checkers.history.frames import History
from checkers.history.parts import MANIFEST, files_of, place_of, verify
from checkers.history.writer import HistoryWriter
from checkers.judging.verdict import Results
from tests.checkers.test_forms import biplane
from tests.checkers.test_made import by_sail


@pytest.fixture(scope="module")
def spark(spark_itself: Any) -> Any:
    return spark_itself


def told(story: Any) -> Any:
    """A small sound history of two trials."""
    for trial in (0, 1):
        story.trial = trial
        story.commit(0, 1, 0)
        story.commit(50, 2, 1)
        for value in range(200):
            partition = {"partition": value % 2}
            story.produce(20 + value, value, value // 2, acks=-1, **partition)
        story.read(60, 1, 1, leader=2)
        for partition in (0, 1):
            log = {n: 2 * n + partition for n in range(100)}
            story.final_log(log, partition=partition)
    said: dict[str, Any] = {"arm": story.arm, "planned": [], "workloads": []}
    story.run["trials"] = [{**said, "trial": n} for n in (0, 1)]
    story.run["expectations"] = {"checks": ["records", "truncation-loss"]}
    return story


def tables(story: Any) -> dict[tuple[str, int], pa.Table]:
    found = {}
    for kind, rows in story.rows.items():
        for trial in sorted({row["trial"] for row in rows}):
            own = [
                {k: v for k, v in r.items() if k not in ("arm", "trial")}
                for r in rows
                if r["trial"] == trial
            ]
            found[kind, trial] = pa.Table.from_pylist(own, schema=arrow_schema(kind))
    return found


def store_1(story: Any, run: Path) -> Path:
    """As version 1 lay: a folder for each arm and trial."""
    for (kind, trial), table in tables(story).items():
        folder = run / f"history/f={kind}/arm={story.arm}/trial={trial}"
        folder.mkdir(parents=True)
        half = table.num_rows // 2
        for number, piece in enumerate((table.slice(0, half), table.slice(half))):
            pq.write_table(piece, folder / f"p-{number}.parquet")
    (run / "run.json").write_text(json.dumps({**story.run, "version": 1}))
    return run


def store_2(story: Any, run: Path, **more: Any) -> Path:
    run.mkdir(exist_ok=True)
    with HistoryWriter(run / "history", **more) as writer:
        for (kind, trial), table in tables(story).items():
            writer.add(kind, table, arm=story.arm, trial=trial)
    rows = {kind: len(of) for kind, of in story.rows.items()}
    record = {**story.run, "version": 2, "history": {"rows": rows}}
    (run / "run.json").write_text(json.dumps(record))
    return run


def test_both_versions_say_the_same(story: Any, spark: Any, tmp_path: Path) -> None:
    told(story)
    store_1(story, tmp_path / "one")
    store_2(story, tmp_path / "two", rows_a_file=90)
    assert len(files_of(tmp_path / "two/history", "produce")) > 1
    verdicts, kinds = [], sorted(story.rows)
    for name in ("one", "two"):
        with History.load(tmp_path / name, spark=spark) as history:
            assert history.trials == [(story.arm, 0), (story.arm, 1)]
            rows = {kind: history.rows(kind) for kind in kinds}
            frames = {
                kind: sorted(
                    str(row.asDict(recursive=True)) for row in history.frame(kind).collect()
                )
                for kind in kinds
            }
        found = check_run(tmp_path / name, spark=spark, out=tmp_path / "out")
        for check in found["checks"].values():
            del check["seconds"]
        verdicts.append((rows, frames, found))
    assert verdicts[0][0] == verdicts[1][0]
    assert verdicts[0][1] == verdicts[1][1]
    assert verdicts[0][2] == verdicts[1][2]
    assert sum(map(len, verdicts[0][0].values())) == sum(map(len, story.rows.values()))


@pytest.mark.parametrize("rows", [0, 200_000], ids=["large", "small"])
def test_what_is_asked_of_a_small_history_is_one_stage(
    story: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Joined, united and grouped without a shuffle or a broadcast, of kinds that lie in the plan
    and of those that are read from files."""
    monkeypatch.setattr(frames, "LIGHT_ROWS", rows)
    monkeypatch.setattr(frames, "_FEW_ROWS", 300)
    run = store_2(told(story), tmp_path)
    with History.load(run, spark=spark) as history:
        named = F.broadcast(history.table([{"arm": story.arm, "_n": 1}], "arm string, _n int"))
        kinds = [history.frame(kind).select("arm", "t") for kind in ("produce", "metadata")]
        both = kinds[0].unionAll(kinds[1]).join(named, "arm").groupBy("arm", "t").count()
        plan = both._jdf.queryExecution().executedPlan().toString()
        there = {row["t"] for kind in ("produce", "metadata") for row in story.rows[kind]}
        assert both.count() == len(there)
    assert ("Exchange" in plan) is not bool(rows)
    assert plan.count("FileScan parquet") == (1 if rows else 2)


def first(run: Path, kind: str) -> Path:
    return files_of(run / "history", kind)[0]


def missing(run: Path) -> None:
    first(run, "log_read").unlink()


def a_kind_is_missing(run: Path) -> None:
    shutil.rmtree(run / "history/f=log_read")


def truncated(run: Path) -> None:
    file = first(run, "log_read")
    file.write_bytes(file.read_bytes()[:-20])


def emptied(run: Path) -> None:
    first(run, "log_read").write_bytes(b"")


def of_another_run(run: Path) -> None:
    shutil.copy(first(run, "log_read"), run / "history/f=log_read/part-00009.parquet")


def of_the_version_before(run: Path) -> None:
    folder = run / "history/f=log_read/arm=a/trial=0"
    folder.mkdir(parents=True)
    shutil.copy(first(run, "log_read"), folder / "part-00009.parquet")


def no_manifest(run: Path) -> None:
    (run / "history" / MANIFEST).unlink()


def torn_manifest(run: Path) -> None:
    path = run / "history" / MANIFEST
    path.write_text(path.read_text()[:-40])


def odd_manifest(run: Path) -> None:
    (run / "history" / MANIFEST).write_text('{"version": 2, "parts": [], "trials": {}}')


def newer_manifest(run: Path) -> None:
    path = run / "history" / MANIFEST
    path.write_text(path.read_text().replace('"version": 2', '"version": 3'))


def newer_run(run: Path) -> None:
    path = run / "run.json"
    path.write_text(path.read_text().replace('"version": 2', '"version": 3'))


def torn_run(run: Path) -> None:
    (run / "run.json").write_text("{")


def of_two_runs(run: Path) -> None:
    """The history of one beside the run.json of another, of the same scenario."""
    record = json.loads((run / "run.json").read_text())
    record["history"]["rows"] |= {"produce": 401, "fetch": 7}
    (run / "run.json").write_text(json.dumps(record))


def no_run(run: Path) -> None:
    (run / "run.json").unlink()


def unfinished(run: Path) -> None:
    (run / "history").replace(run / "history.unfinished")


def wrong_type(run: Path) -> None:
    shutil.rmtree(run / "history")
    folder = run / "history/f=log_read/arm=a/trial=0"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"t": ["soon"]}), folder / "p.parquet")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (missing, r"f=log_read/part-00000.parquet: it is missing"),
        (a_kind_is_missing, r"f=log_read/part-00000.parquet: it is missing"),
        (truncated, r"part-00000.parquet: truncated or changed: \d+ bytes; allowed: \d+"),
        (emptied, r"part-00000.parquet: truncated or changed: 0 bytes"),
        (of_another_run, r"part-00009.parquet: it is no part of this history"),
        (of_the_version_before, r"'log_read': 800.*allowed.*'log_read': 400"),
        (no_manifest, r"_history.json: it is missing"),
        (torn_manifest, r"_history.json: not a history's manifest"),
        (odd_manifest, r"_history.json: not a history's manifest"),
        (newer_manifest, r"_history.json: field 'version': 3: written by a newer biplane"),
        (newer_run, r"run.json: field 'version': 3: written by a newer biplane"),
        (torn_run, r"run.json: not JSON"),
        (of_two_runs, r"not that of its run.json: rows of fetch: 0, and not 7; produce: 400, and"),
        (no_run, r"run.json: cannot be read"),
        (unfinished, r"no folder 'history' \(history.unfinished is there.*biplane history finish"),
        (wrong_type, r"field 't': type string; allowed: int64"),
    ],
)
def test_what_is_spoilt_is_refused_by_name(
    story: Any, spark: Any, tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    run = store_2(told(story), tmp_path)
    History.load(run, spark=spark).close()
    spoil(run)
    with pytest.raises(HistoryError, match=says):
        History.load(run, spark=spark)
    assert biplane("check", str(run)) == 254
    assert not (run / "results.json").exists()


def test_a_byte_that_changed_on_disk_is_no_evidence(story: Any, spark: Any, tmp_path: Path) -> None:
    """In the values that a check reads in Spark: whatever it would have said, it says unknown."""
    told(story)
    for row in story.rows["produce"]:
        row["value"] = row["value"] * 104_729  # values that do not fit their offsets' pattern
    for row in story.rows["log_read"]:
        row["value"] = row["value"] * 104_729
    run = store_2(story, tmp_path)
    assert check_run(run, spark=spark)["checks"]["records"]["verdict"] == "valid"
    assert by_sail(run)["checks"]["records"]["verdict"] == "valid"
    file = first(run, "log_read")
    meta = pq.ParquetFile(file).metadata.row_group(0)
    (column,) = [
        meta.column(i) for i in range(meta.num_columns) if meta.column(i).path_in_schema == "value"
    ]
    content = bytearray(file.read_bytes())
    at = column.data_page_offset + column.total_compressed_size - 3
    content[at] ^= 0x10
    file.write_bytes(bytes(content))
    for found in (check_run(run, spark=spark), by_sail(run)):
        assert found["verdict"] == "unknown"
        assert found["checks"]["records"]["verdict"] == "unknown"
        assert "crashed" in " ".join(found["reasons"])


def tells_no_crc(run: Path) -> None:
    """As histories of before."""
    path = run / "history" / MANIFEST
    told = json.loads(path.read_text())
    for part in (part for parts in told["parts"].values() for part in parts):
        del part["crc"]
    path.write_text(json.dumps(told))


@pytest.mark.parametrize("before", [False, True], ids=["by its CRC", "by its pages' own"])
def test_a_file_that_changed_is_named(story: Any, tmp_path: Path, before: bool) -> None:
    run = store_2(told(story), tmp_path)
    if before:
        tells_no_crc(run)
    file = first(run, "log_read")
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    verify(run / "history", "log_read")
    content = bytearray(file.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 3] ^= 0x10
    file.write_bytes(bytes(content))
    verify(run / "history", "produce")
    with pytest.raises(OSError, match=f"{file}: .*CRC"):
        verify(run / "history", "log_read")


def test_a_file_of_before_has_fewer_columns_and_is_as_sound(story: Any, tmp_path: Path) -> None:
    run = store_2(told(story), tmp_path)
    tells_no_crc(run)
    file = first(run, "log_read")
    pq.write_table(pq.read_table(file).drop_columns(["topic"]), file, write_page_checksum=True)
    verify(run / "history", "log_read")


def test_an_empty_history_is_unknown(spark: Any, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history"):
        pass
    (tmp_path / "run.json").write_text("{}")
    assert biplane("check", str(tmp_path)) == 2
    found = Results.load(tmp_path)
    assert found.verdict == "unknown"
    assert "activity: the history has no trial" in found.reasons


def test_a_stranger_is_told_to_read_a_kind_at_a_time(
    story: Any, spark: Any, tmp_path: Path
) -> None:
    run = store_2(told(story), tmp_path)
    with pytest.raises(Exception, match="each-kind-is-a-table-of-its-own"):
        spark.read.parquet(str(run / "history")).count()
    assert spark.read.parquet(str(run / "history/f=produce")).count() == 400


def test_a_partition_or_a_span_of_time_is_read_alone(tmp_path: Path) -> None:
    """By the statistics of row groups: of 40 partitions and as many files of time, a few."""
    rows, partitions = 400_000, 40
    numbers = pa.arange(0, rows, 1)
    table = pa.table(
        {
            "t": numbers,
            "partition": pa.array([n % partitions for n in range(rows)], pa.int32()),
            "topic": pa.repeat("t", rows),
            "process": pa.repeat("p", rows),
            "value": numbers,
        }
    )
    schema = arrow_schema("produce")
    whole = pa.table(
        [table[f.name] if f.name in table.column_names else pa.nulls(rows, f.type) for f in schema],
        schema=schema,
    )
    with HistoryWriter(tmp_path / "history", rows_a_file=100_000, rows_a_group=5_000) as writer:
        for begin in range(0, rows, 50_000):
            writer.add("produce", whole.slice(begin, 50_000), arm="a", trial=0)
    groups = []
    for file in files_of(tmp_path / "history", "produce"):
        meta = pq.ParquetFile(file).metadata
        names = {meta.schema.column(i).name: i for i in range(meta.num_columns)}
        for n in range(meta.num_row_groups):
            bounds = {
                name: meta.row_group(n).column(names[name]).statistics
                for name in ("t", "partition", "topic", "arm", "trial")
            }
            groups.append({name: (s.min, s.max) for name, s in bounds.items()})
    assert len(groups) == 80
    holding = [g for g in groups if g["partition"][0] <= 7 <= g["partition"][1]]
    assert len(holding) <= 8
    early = [g for g in groups if g["t"][0] < 100_000]
    assert len(early) == 20
    assert all(g["arm"] == ("a", "a") for g in groups)


def test_places_of_version_1(tmp_path: Path) -> None:
    assert place_of(tmp_path / "f=x/arm=a%2Fb/trial=3/p.parquet") == ("a/b", 3)
    assert place_of(tmp_path / "f=x/part-0.parquet") is None
    with pytest.raises(HistoryError, match="arm=<label>/trial=<number>"):
        place_of(tmp_path / "f=x/arm=a/trial=three/p.parquet")


def test_plain_rows_share_what_they_have_in_common(story: Any, spark: Any) -> None:
    for n in range(300):
        story.commit(n, 1 + n % 2, n, isr=[1, 2], process="watch-of-the-store")
    rows = History.of(spark, story.rows).rows("leadership")
    schema = arrow_schema("leadership").names
    assert [row["leader_epoch"] for row in rows] == list(range(300))
    assert all(list(row) == [*schema, "arm", "trial"] for row in rows)
    assert sys.getsizeof(rows[-1]) <= sys.getsizeof(dict(rows[-1])) / 2
    assert rows[0]["process"] is rows[299]["process"]
    assert rows[0]["isr"] is rows[299]["isr"]


def test_nothing_is_kept_of_a_history_that_was_judged(story: Any, spark: Any) -> None:
    story.commit(1, 1, 0)
    with History.of(spark, story.rows) as history:
        first = history.rows("leadership")
    assert history.rows("leadership") is not first
