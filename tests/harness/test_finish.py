"""Finishing loses nothing in silence."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.history.parts import MANIFEST, Manifest, read_rows
from harness.history import FinishReport, LiveTrial
from harness.history import finish as finish_files


def produce(kind: str, op: int, t: int, **more: Any) -> dict[str, Any]:
    row = {"f": "produce", "t": t, "process": "p", "type": kind, "op": op, "topic": "t"}
    return {**row, "partition": 0, "value": op, "acks": 1, **more}


def finish(tmp_path: Path, *lines: dict[str, Any] | str) -> tuple[FinishReport, Path]:
    live = tmp_path / "live"
    live.mkdir()
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    (live / "p.jsonl").write_text(text)
    out = tmp_path / "history"
    return finish_files(out, [LiveTrial(live, "a-single", 3, 1_000)]), out


def stored(out: Path, kind: str) -> list[dict[str, Any]]:
    return read_rows(out, kind)


def test_a_completed_operation_is_one_row_with_its_invocation_time(tmp_path: Path) -> None:
    report, out = finish(tmp_path, produce("invoke", 1, 10), produce("ok", 1, 20), "")
    rows = stored(out, "produce")
    assert [(r["type"], r["invoke_t"], r["t"]) for r in rows] == [("ok", 10, 20)]
    assert (report.rows["produce"], report.orphans, report.rejected) == (1, 0, 0)


def test_an_operation_that_nobody_completed_is_info(tmp_path: Path) -> None:
    report, out = finish(tmp_path, produce("invoke", 1, 10), "")
    (row,) = stored(out, "produce")
    assert (row["type"], row["invoke_t"], row["t"]) == ("info", 10, 1_000)
    assert row["error_ns"] == 990  # its end was read off no clock: it may be after its file's
    assert row["value"] == 1
    assert report.orphans == 1


def test_several_rows_may_complete_one_poll(tmp_path: Path) -> None:
    base = {"f": "fetch", "process": "c", "op": 9, "poll": 9, "topic": "t", "partition": 0}
    rows = [
        {**base, "type": "invoke", "t": 1},
        {**base, "type": "ok", "t": 5, "invoke_t": 1, "offset": 0, "value": 7},
        {**base, "type": "ok", "t": 5, "invoke_t": 1, "offset": 1, "value": 8},
    ]
    report, out = finish(tmp_path, *rows, "")
    assert [r["offset"] for r in stored(out, "fetch")] == [0, 1]
    assert report.orphans == 0


def test_a_torn_last_line_is_counted_and_the_rest_kept(tmp_path: Path) -> None:
    report, out = finish(tmp_path, produce("ok", 1, 20, invoke_t=1), '{"f":"prod')
    assert len(stored(out, "produce")) == 1
    assert (report.torn_lines, report.rejected) == (1, 0)


def test_what_does_not_fit_is_kept_aside_with_the_reason(tmp_path: Path) -> None:
    report, out = finish(
        tmp_path,
        "not json at all",
        {"f": "nonsense", "t": 1, "process": "p"},
        produce("ok", 1, 20, invoke_t=1, colour="red"),
        produce("ok", 2, 20, invoke_t=1, offset="ten"),
        produce("ok", 3, 20, invoke_t=1, partition=2**40),
        {"f": "phase", "process": "p", "name": "chaos", "event": "begin"},
        produce("ok", 4, 20, invoke_t=1),
        "",
    )
    assert [r["op"] for r in stored(out, "produce")] == [4]
    assert report.rejected == 6
    rejected = [json.loads(x) for x in (out / "_rejected.jsonl").read_text().splitlines()]
    assert len(rejected) == 6
    reasons = " | ".join(entry["why"] for entry in rejected)
    for part in ("not JSON", "unknown kind 'nonsense'", "'colour'", "'offset'", "'t'"):
        assert part in reasons


def test_finishing_again_gives_the_same_history(tmp_path: Path) -> None:
    _, out = finish(tmp_path, produce("invoke", 1, 10), produce("ok", 1, 20), "nonsense", "")
    before = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert len(before["_rejected.jsonl"].splitlines()) == 1
    finish_files(out, [LiveTrial(tmp_path / "live", "a-single", 3, 1_000)])
    after = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert after == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["history", "live"]


def test_files_have_a_size_and_an_order_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many live files and trials one file a kind, by partition and time."""
    live = tmp_path / "live"
    live.mkdir()
    for writer in range(5):
        rows = [produce("ok", op, 900 - op, process=f"p{writer}") for op in range(20)]
        text = "".join(json.dumps({**r, "partition": r["op"] % 3}) + "\n" for r in rows)
        (live / f"p{writer}.jsonl").write_text(text)
    out = tmp_path / "history"
    trials = [LiveTrial(live, arm, trial, 1_000) for arm in ("b", "a") for trial in (1, 0)]
    report = finish_files(out, trials)
    assert report.rows["produce"] == 400
    manifest = Manifest.parse((out / MANIFEST).read_text(), "")
    (part,) = manifest.parts["produce"]
    assert (part.rows, part.name) == (400, "part-00000.parquet")
    assert manifest.trials["b", 1] == {"produce": 100, "source": 5}
    (file,) = (out / "f=produce").iterdir()
    table = pq.ParquetFile(file).read().to_pylist()
    keys = [(r["arm"], r["trial"], r["topic"], r["partition"], r["t"]) for r in table]
    assert keys == sorted(keys)


_KILLED = """
import os, signal, sys
from pathlib import Path
import checkers.history.writer as writer
from harness.history import LiveTrial, finish
left = [int(sys.argv[3])]
def dying(call):
    def die(*given, **named):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return call(*given, **named)
    return die
import pyarrow.parquet as pq
pq.write_table = dying(pq.write_table)
Path.replace = dying(Path.replace)
Path.write_text = dying(Path.write_text)
writer.ROWS_A_FILE = 40
writer.HistoryWriter.__init__.__kwdefaults__["rows_a_file"] = 40
finish(Path(sys.argv[2]), [LiveTrial(Path(sys.argv[1]), "a", 0, 1000)])
"""


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True])
def test_finishing_that_is_killed_loses_nothing(tmp_path: Path, before: bool) -> None:
    """Killed in every step that writes, then done again: the same rows, and never half of them
    in between."""
    live, out = tmp_path / "live", tmp_path / "history"
    live.mkdir()
    lines = [json.dumps(produce("ok", op, 100 + op, seq=op)) for op in range(100)]
    (live / "p.jsonl").write_text("\n".join([*lines, "nonsense", ""]))
    trials = [LiveTrial(live, "a", 0, 1_000)]
    finish_files(tmp_path / "whole", trials)
    rows = {kind: read_rows(tmp_path / "whole", kind) for kind in ("produce", "source")}
    deaths = 0
    for step in range(30):
        shutil.rmtree(out, ignore_errors=True)
        if before:
            finish_files(out, trials)
        command = [sys.executable, "-c", _KILLED, str(live), str(out), str(step)]
        done = subprocess.run(command, timeout=120, check=False)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        deaths += 1
        there = out if out.exists() else tmp_path / "history.old"
        if before or out.exists():
            assert read_rows(there, "produce") == rows["produce"]
            Manifest.parse((there / MANIFEST).read_text(), "")
        finish_files(out, trials)
        for kind, whole in rows.items():
            assert read_rows(out, kind) == whole
        assert len((out / "_rejected.jsonl").read_text().splitlines()) == 1
        left = sorted(p.name for p in tmp_path.iterdir())
        assert left == ["history", "live", "whole"]
    assert deaths >= 7, "it was not killed in every step"


def test_a_full_disk_leaves_the_history_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out = finish(tmp_path, produce("ok", 1, 20, invoke_t=10), "")
    before = stored(out, "produce")
    live = tmp_path / "live"
    noise = random.Random(1).randbytes
    (live / "q.jsonl").write_text(
        "".join(
            json.dumps(produce("ok", op, 20, failure=noise(400).hex())) + "\n" for op in range(500)
        )
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            finish_files(out, [LiveTrial(live, "a-single", 3, 1_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert stored(out, "produce") == before
    assert not (tmp_path / "history.unfinished").exists()
    finish_files(out, [LiveTrial(live, "a-single", 3, 1_000)])
    assert len(stored(out, "produce")) == 501


@pytest.mark.slow
def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    """Ten times the rows, the same peak but for a little."""
    peaks = []
    for rows in (20_000, 200_000):
        live = tmp_path / str(rows)
        live.mkdir()
        with (live / "p.jsonl").open("w") as file:
            for op in range(rows):
                file.write(json.dumps(produce("ok", op, op, invoke_t=op)) + "\n")
        command = [sys.executable, "-c", _PEAK, str(live), str(tmp_path / "history")]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True).stdout))
    assert peaks[1] - peaks[0] < 40 << 20, peaks


_PEAK = """
import sys
from pathlib import Path
import checkers.history.writer as writer
writer.HistoryWriter.__init__.__kwdefaults__["rows_a_file"] = 10_000
from harness.history import LiveTrial, finish
finish(Path(sys.argv[2]), [LiveTrial(Path(sys.argv[1]), "a", 0, 1000)])
status = Path("/proc/self/status").read_text()
print(1024 * int(status.partition("VmHWM:")[2].split()[0]))
"""


# ---- what each file held, and what of it is missing ----------------------------------------------


def numbered(*seqs: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"f": "infra", "t": 100 + i, "process": "p", "seq": seq, **more}
        for i, seq in enumerate(seqs)
    ]


def source(tmp_path: Path, *lines: dict[str, Any] | str) -> dict[str, Any]:
    _, out = finish(tmp_path, *lines)
    (row,) = stored(out, "source")
    return row


CLOSED = {"f": "source", "t": 900, "process": "p", "closed": True}


def test_a_whole_file(tmp_path: Path) -> None:
    """Invocations are dropped, and rows of several threads change places: nothing is missing."""
    lines = [{**produce("invoke", 1, 10), "seq": 0}, {**produce("ok", 1, 20), "seq": 2}]
    row = source(tmp_path, *lines, {**produce("info", 0, 15, invoke_t=1), "seq": 1},
                 {**CLOSED, "seq": 3}, "")  # fmt: skip
    assert (row["source"], row["process"], row["boot"]) == ("p", "p", None)
    assert (row["rows"], row["unnumbered"], row["last_seq"]) == (4, 0, 3)
    assert (row["missing"], row["repeated"], row["rejected"], row["torn"]) == (0, 0, 0, 0)
    assert (row["first_t"], row["t"], row["backwards_ns"]) == (10, 900, 5)
    assert row["closed"] is True


@pytest.mark.parametrize(
    ("seqs", "missing", "repeated"),
    [
        ([0, 1, 3], 1, 0),
        ([2, 3], 2, 0),  # at the beginning
        ([0, 1, 1, 2], 0, 1),
        ([0, 1, 1, 3], 0, 1),  # one in the place of another
        ([], 0, 0),
    ],
)
def test_gaps_and_repetitions(tmp_path: Path, seqs: list[int], missing: int, repeated: int) -> None:
    row = source(tmp_path, *numbered(*seqs), "")
    assert (row["missing"], row["repeated"]) == (missing, repeated)
    assert row["closed"] is False


def test_rows_without_numbers_are_no_gap(tmp_path: Path) -> None:
    row = source(tmp_path, {"f": "infra", "t": 1, "process": "p"}, "")
    assert (row["rows"], row["unnumbered"], row["missing"], row["last_seq"]) == (1, 1, 0, None)


def test_a_line_that_is_refused_is_not_missing_as_well(tmp_path: Path) -> None:
    odd = {"f": "infra", "t": 101, "process": "p", "seq": 1, "colour": "red"}
    wrong = {"f": "infra", "t": 102, "process": "p", "seq": 2, "reason": 5}
    row = source(tmp_path, *numbered(0), odd, wrong, *numbered(3), '{"f":"inf')
    assert (row["rejected"], row["missing"], row["torn"]) == (2, 0, 1)
    assert "'colour'" in row["reasons"]


def test_the_boots_of_a_node_number_apart(tmp_path: Path) -> None:
    first = numbered(0, 1, process="node-2", node=2, boot=1)
    second = numbered(0, 2, process="node-2", node=2, boot=2)
    _, out = finish(tmp_path, *first, *second, "")
    rows = stored(out, "source")
    assert [(r["node"], r["boot"], r["missing"]) for r in rows] == [(2, 1, 0), (2, 2, 1)]


def test_what_the_harness_says_of_a_nodes_boot_is_its_own(tmp_path: Path) -> None:
    told = [{**row, "f": "node_event"} for row in numbered(0, 1, node=2, boot=1)]
    row = source(tmp_path, *told, *numbered(2), "")
    assert (row["process"], row["node"], row["boot"], row["missing"]) == ("p", None, None, 0)


def test_a_clock_that_went_back_is_seen_and_what_a_log_tells_later_is_not(tmp_path: Path) -> None:
    late = {"f": "leadership", "t": 1, "process": "zk-watch", "seq": 1}
    parsed = {"f": "infra", "t": 2, "process": "p", "seq": 2, "error_ns": 9}
    row = source(tmp_path, *numbered(0), late, parsed, "")
    assert row["backwards_ns"] == 0
    back = {"f": "infra", "t": 40, "process": "p", "seq": 1}
    (tmp_path / "again").mkdir()
    assert source(tmp_path / "again", *numbered(0), back, "")["backwards_ns"] == 60


def test_an_empty_file_is_there(tmp_path: Path) -> None:
    row = source(tmp_path, "")
    assert (row["rows"], row["t"], row["process"]) == (0, 1_000, "p")


def test_what_was_stored_of_a_file_is_counted_by_kind_and_process(tmp_path: Path) -> None:
    """An operation is one row, completed or not; what was refused is none; of a file with several
    boots its first account tells it."""
    operations = [produce("invoke", 1, 10), produce("ok", 1, 20), produce("invoke", 2, 30)]
    wrong = {"f": "infra", "t": 102, "process": "p", "reason": 5}
    boots = [*numbered(0, process="node-2", node=2, boot=1),
             *numbered(0, process="node-2", node=2, boot=2)]  # fmt: skip
    _, out = finish(tmp_path, *operations, wrong, *boots, "")
    told = [json.loads(row["stored"]) for row in stored(out, "source") if row["stored"]]
    assert told == [{"produce": {"p": 2}, "infra": {"node-2": 2}}]
