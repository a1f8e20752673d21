"""Sail answers what is small, where nobody says who shall; and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema

from checkers import check as checking
from checkers import sail
from checkers.check import check_all, check_run
from checkers.history import frames, parts, writer
from checkers.history.frames import History
from checkers.history.made import make
from checkers.history.made.plants import PLANTS
from checkers.history.parts import files_of
from checkers.judging import tally
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick, attach
from checkers.promises import NAMES, promise
from checkers.spark import SAIL_ROWS, engine, name_of
from tests.checkers.test_cluster import asked_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
AHEAD = """
import sys
from checkers import sail, spark
spark.start_ahead()
if sys.argv[1] == "asked for":
    own = spark.session(spark.engine(rows=1))
    assert spark.session() is own  # a process has one engine
    assert own.range(3).count() == 3
    print(spark.name_of(own))
else:
    spark._started()
    print("not asked")
(server,) = sail._servers
spark.end()
print(server.process.returncode)
spark.end()
"""
LEFT = """
import os, signal
from checkers import sail, spark
spark.session("sail").range(3).count()
print(sail._servers[0].process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def python(code: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    alone = {n: v for n, v in os.environ.items() if n not in (sail.CLIENT, "BIPLANE_SPARK_MASTER")}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=ROOT,
        env={**alone, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("then", ["asked for", "not asked for"])
def test_one_that_was_started_ahead_is_used_and_ended(then: str) -> None:
    done = python(AHEAD, then)
    who, code = done.stdout.splitlines()
    assert who.startswith("Sail " if then == "asked for" else "not asked")
    assert (int(code), done.stderr) == (-signal.SIGKILL, "")


def test_it_goes_with_whoever_is_killed() -> None:
    done = python(LEFT)
    assert done.returncode == -signal.SIGKILL
    server, deadline = Path(f"/proc/{done.stdout.strip()}"), time.monotonic() + 20
    while server.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not server.exists()


def test_one_that_does_not_start_is_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "pysail").mkdir()
    (tmp_path / "pysail/__init__.py").write_text("raise ImportError('spoilt')")
    run = tmp_path / "run"
    make(run, rows=20_000)
    code = "import sys; from harness.cli import main; sys.exit(main())"
    done = python(code, "check", str(run), PYTHONPATH=str(tmp_path))
    assert done.returncode == 254
    assert "Sail does not start" in done.stdout + done.stderr
    assert "--master=local[2]" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout


DIES = """
import os, threading
class SparkConnectServer:
    listening_address = ("127.0.0.1", 9)  # where nobody listens
    def __init__(self, **_): ...
    def start(self, background):
        threading.Timer(0.2, os._exit, (1,)).start()
"""


STEPPED_IN = """
from checkers import spark
own = spark.session(spark.engine(rows=1))
print(spark.name_of(own), own.range(3).count())
spark.end()
"""


@pytest.mark.spark
def test_one_that_dies_after_its_first_word_leaves_it_to_spark(tmp_path: Path) -> None:
    (tmp_path / "pysail").mkdir()
    (tmp_path / "pysail/__init__.py").touch()
    (tmp_path / "pysail/spark.py").write_text(DIES)
    done = python(STEPPED_IN, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Sail: it ended as soon as it had begun" in done.stderr
    assert re.fullmatch(r"Spark [0-9.]+ 3\n", done.stdout)


def test_what_several_ask_for_is_made_once(tmp_path: Path) -> None:
    make(tmp_path / "run", rows=250_000)
    done = python(KEPT, str(tmp_path / "run"))
    assert done.stdout.splitlines() == ["True 1", "0", "False"], done.stderr


KEPT = """
import sys
from checkers import sail, spark
from checkers.history.frames import History
with History.load(sys.argv[1], master="sail") as history:
    whole = history.frame("log_read")
    kept = history.keep("some", lambda: whole.where("offset < 100").select("node", "offset"))
    (server,) = sail._servers
    again = history.keep("some", lambda: whole)
    n = whole.where("offset < 100").count()
    print(kept is again and kept.count() == n > 0, len(list(server.scratch.glob("kept-*"))))
print(len(list(server.scratch.glob("kept-*"))))
spark.end()
print(server.scratch.exists())
"""


def test_who_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BIPLANE_SPARK_MASTER", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert engine(rows=1) == sail.MASTER
    assert engine(rows=SAIL_ROWS + 1) is None, "Spark"
    assert engine(rows=1, asks_spark=True) is None, "--memory and --conf are Spark's"
    assert engine("spark://x:7077", rows=1) == "spark://x:7077"
    monkeypatch.setattr(sail, "there", lambda: False)
    assert engine(rows=1) is None
    assert engine(sail.MASTER, rows=1) == sail.MASTER, "and says what is lacking"
    monkeypatch.setattr(sail, "there", lambda: True)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # spark-submit's
    assert engine(rows=1) is None
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    monkeypatch.setenv("BIPLANE_SPARK_MASTER", "local[1]")
    assert engine(rows=1) is None, "whom it names"


@pytest.mark.spark
def test_a_deadline_ends_it(spark: Any, tmp_path: Path) -> None:
    make(tmp_path / "run", rows=60_000)
    begun = time.monotonic()
    found = check_run(tmp_path / "run", spark=spark, deadline_s=0.01)
    assert time.monotonic() - begun < 15
    assert found["verdict"] == "unknown"
    assert any("not judged within the deadline" in reason for reason in found["reasons"])
    asked_for(tmp_path / "run", "records")
    assert check_run(tmp_path / "run", spark=spark)["verdict"] == "valid", "and the next is judged"


SPARKS = """
from checkers import spark
own = spark.session("local[1]")
print(spark.name_of(own), own.range(3).count())
spark.end()
"""


def test_it_is_not_the_engine_of_what_its_process_starts() -> None:
    done = python(SPARKS, **{sail.CLIENT: "1"})
    assert re.fullmatch(r"Spark [0-9.]+ 3\n", done.stdout), done.stderr


NOT_ANSWERED = """
import sys
from checkers import check
from pyspark.errors import PySparkException

def odd(history):
    if history.spark.version == "4.2.0":  # Sail's
        raise PySparkException("not known here")
    return own(history)

judged = check.promise("replicas")
own = judged.check
object.__setattr__(judged, "check", odd)
found = check.check_run(sys.argv[1])
print(found["verdict"], found["checks"]["replicas"]["violation_counts"])
print(found["engine"])
again = check.check_run(sys.argv[2])
print(again["verdict"])
from checkers import spark
spark.end()
"""


@pytest.mark.spark
def test_what_it_cannot_answer_spark_does(tmp_path: Path) -> None:
    make(tmp_path / "odd", rows=20_000, plants={"replica-differs": 3})
    make(tmp_path / "even", rows=20_000)
    for name in ("odd", "even"):
        asked_for(tmp_path / name, "records", "replicas")
    done = python(NOT_ANSWERED, str(tmp_path / "odd"), str(tmp_path / "even"))
    assert done.returncode == 0, done.stderr
    verdict, who, again = done.stdout.splitlines()
    assert verdict == "invalid {'replica-differs': 3}"
    assert re.fullmatch(r"Sail [0-9.]+; Spark [0-9.]+ for replicas", who)
    assert again == "valid"


@pytest.mark.spark
def test_what_it_cannot_answer_beside_others_it_is_asked_alone(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory was too little for all that was asked at once."""
    make(tmp_path / "run", rows=20_000, plants={"replica-differs": 3})
    course: list[tuple[str, str]] = []

    def full(name: str) -> Promise:
        def judged(history: History) -> Outcome:
            again = ("begun", name) in course
            course.append(("begun", name))
            if not again:
                raise PySparkException("Resources exhausted")
            time.sleep(0.1)
            course.append(("done", name))
            return promise(name).check(history)

        return replace(promise(name), check=judged) if name in odd else promise(name)

    odd = ("replicas", "records")
    monkeypatch.setattr(checking, "promise", full)
    found = check_run(tmp_path / "run", spark=spark)
    assert found["engine"] == name_of(spark)
    assert found["checks"]["replicas"]["violation_counts"] == {"replica-differs": 3}
    assert found["checks"]["records"]["verdict"] == "valid"
    assert found["verdict"] == "invalid"
    assert len(course) == 6
    (_, first), (_, second) = course[2], course[4]
    assert course[2:] == [(step, n) for n in (first, second) for step in ("begun", "done")]


FOREIGN = """
from checkers import sail, spark
own = spark.session("sail")
import pyarrow as pa
def theirs(batches):
    open("/tmp/never", "w")
    yield from batches
try:
    own.range(3).mapInArrow(theirs, "id bigint").collect()
except Exception as error:
    print("refused", "cloudpickle" in str(error) or "pyspark" in str(error))
spark.end()
"""


def test_it_runs_nobodys_python() -> None:
    done = python(FOREIGN)
    assert done.stdout.splitlines() == ["refused True"], done.stderr


@pytest.mark.spark
def test_a_byte_that_changed_on_disk_is_no_evidence(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but its checksum tells: the page is as well formed as before."""
    plain = {"compression": "NONE", "use_dictionary": False, "write_page_checksum": True}
    monkeypatch.setattr(writer, "_options", lambda _: plain)
    make(tmp_path / "run", rows=60_000)
    asked_for(tmp_path / "run", "records")
    assert check_run(tmp_path / "run", spark=spark)["checks"]["records"]["verdict"] == "valid"
    file = files_of(tmp_path / "run/history", "log_read")[0]
    group = pq.ParquetFile(file).metadata.row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    values, content = columns["value"], bytearray(file.read_bytes())
    assert values.num_values > 2_000, "few are read by Arrow"
    content[values.data_page_offset + values.total_compressed_size - 4] ^= 0x10
    file.write_bytes(bytes(content))
    found = check_run(tmp_path / "run", spark=spark)["checks"]["records"]
    assert found["verdict"] == "unknown"
    assert "OSError" in found["reasons"][0]
    assert "CRC" in found["reasons"][0]
    assert str(file) in found["reasons"][0]


@pytest.mark.spark
@pytest.mark.parametrize("which", ["true", "false"])
def test_rows_come_with_their_schema(
    spark: Any, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """The server goes through a plan once, and says what PySpark says of it."""
    frame = spark.range(3).where(which).selectExpr("id", "array('x', null) as of", "bigint(7) as t")
    with monkeypatch.context() as patched:
        patched.setattr(type(spark.client), "schema", None)
        table = frame.toArrow()
    assert table.schema == to_arrow_schema(frame.schema, timezone="UTC")
    assert table.num_rows == (3 if which == "true" else 0)


def test_a_small_kind_is_no_part_of_what_it_is_asked(spark: Any, tmp_path: Path) -> None:
    make(tmp_path / "run", rows=20_000)
    with History.load(tmp_path / "run", spark=spark) as history:
        for kind in ("phase", "fault", "produce"):
            assert history.frame(kind).inputFiles(), kind


@pytest.mark.spark
def test_a_witness_by_what_is_in_a_request(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter with a lambda, of rows that are read from files."""
    monkeypatch.setattr(frames, "LIGHT_ROWS", 0)
    make(tmp_path / "run", rows=20_000)
    with History.load(tmp_path / "run", spark=spark) as history:
        row = next(row for row in history.rows("control_request") if row["partitions"])
        part = row["partitions"][0]
        at = (part["topic"], part["partition"])
        pick = Pick("control_request", {"node": row["node"]}, row["t"], row["t"], at)
        (found,) = attach(history, [Finding("r", "says", row["arm"], row["trial"], (pick,))])
    assert [event["partitions"] for event in found.events] == [[part]]


@pytest.mark.spark
def test_a_larger_one_is_answered_as_well(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folded, from files, and with suspects that are judged one by one where Spark's workers do."""
    monkeypatch.setattr(frames, "LIGHT_ROWS", 0)
    monkeypatch.setattr(tally, "ON_THE_DRIVER", 5)
    plants = {name: 13 + 2 * index for index, name in enumerate(PLANTS)}
    make(tmp_path / "run", rows=20_000, plants=plants)
    with History.load(tmp_path / "run", spark=spark) as history:
        found = check_all(history, NAMES)
        assert not history.unanswered
    counts: Counter[str] = Counter()
    for check in found.checks.values():
        counts.update(check.violation_counts)
    assert counts == plants


@pytest.mark.spark
@pytest.mark.parametrize("at_once", [2, 10_000])
def test_what_the_driver_tells_in_a_table(
    spark: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """A large one is a file, until the history is judged; the rows are the same."""
    monkeypatch.setattr(parts, "_ROWS_AT_ONCE", at_once)
    monkeypatch.setattr(frames, "_IN_A_PLAN", at_once)
    rows = [{"arm": "a", "trial": n, "t": 2**40 + n, "of": [n, None]} for n in range(5)]
    with History.of(spark, {}) as history:
        table = history.table(rows, "arm string, trial int, t bigint, of array<bigint>")
        assert table.orderBy("trial").toArrow().to_pylist() == rows
        assert len(table.inputFiles()) == (at_once < len(rows))
