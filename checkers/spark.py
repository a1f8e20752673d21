"""Spark, started once a process and tuned for what is to be judged.

What is fixed when the JVM starts: heap, collector, class-data archive, no UI, loopback only. What
depends on the history (partitions, code generation) is set on a session of its own, see `tuned`;
sessions share the JVM, and a warm one judges a tiny history many times faster than a cold one.

Measured (Spark 4.3, 2 cores): default start and check of 10k events 27.7 s; UI off and few
partitions 17-20; one partition, C1 compiler and serial collector 12.6; with a class-data archive
10.3; without code generation 7.7. Of a warm JVM a run of 40k events took 128 jobs and 60,000 calls
from Python; as one stage a query, and with what PySpark asks remembered, 59 and 24,000, and half of
the time. At 10M events the other way round: code generation, the
vectorised reader and ParallelGC pay, and shuffle partitions beyond twice the cores cost.

A class-data archive (`checkers.class_archive`) is used when it is there: a JVM ignores one that
does not fit it.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import importlib.util
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from checkers import sail
from checkers.class_archive import NOTHING_OF_ARCHIVES, archive_path
from checkers.jvm import END_S, end_in_order, kill, kill_starting, not_in_vain

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SMALL_ROWS: Final = 1_500_000
"""Up to so many rows, planning and compiling cost more than the rows."""
SAIL_ROWS: Final = 50_000_000
"""Up to so many Sail was seen to judge: in 1.8 GB of load, 3.6 GB of soak."""
_SOON_S: Final = 0.1
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEFAULT_MEMORY: Final = "2g"

# Arrow is used without pandas; Spark's warning about its version is of no concern to a user.
warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)

_ALWAYS: Final = {
    # Hadoop's: pages carry checksums, and a byte that changed on disk is no evidence.
    "parquet.page.verify-checksum.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "32m",
}
_OF_SESSIONS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_UNTRACED: Final = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""Else each column that is made tells the line of Python that made it: half of all that is said to
a JVM. A process asks for it once, of whichever engine it has first."""
CONNECT: Final = "sc://"
"""How a server of Spark Connect is named."""
_CONNECT_PORT: Final = 15_002
_CONNECT_S: Final = 10.0
_PARTITIONS_A_SLOT: Final = 2
"""Of a shuffle: more cost, fewer spread a hot partition worse."""
_SMALL: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.files.maxPartitionBytes": "512m",
    "spark.sql.files.openCostInBytes": "0",
}
_ONE_PARTITION: Final = {
    # Nothing is joined or grouped by way of a shuffle: each query is one stage of one task. To
    # broadcast what it joins would be a job of its own.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
}
_LARGE: Final = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.files.openCostInBytes": "1m",
}


class SparkFailed(RuntimeError):
    """Its JVM did not start. The message says how to mend it."""


def session(
    master: str | None = None,
    *,
    memory: str | None = None,
    conf: Mapping[str, str] | None = None,
    small: bool = True,
) -> SparkSession:
    """The process's Spark session, started when there is none.

    ``small``: start the JVM for tiny histories (C1 only, serial collector). A session that runs
    already is used as it is. ``master`` defaults to ``BIPLANE_SPARK_MASTER``, then to local with as
    many threads as there are cores for this process; under spark-submit to what that was given. As
    ``sc://host:port`` it is a server of Spark Connect: this process has no JVM then, and ``memory``
    is that server's. ``conf``: Spark's settings by name; they win over those of this module.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    _started()
    if not sail.judges():  # whoever began this process may have said so of itself
        os.environ.pop(sail.CLIENT, None)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName("biplane-checkers")
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = master or os.environ.get("BIPLANE_SPARK_MASTER")
    chosen = chosen or (None if submitted else f"local[{cores()}]")
    if chosen == sail.MASTER or sail.judges():
        try:
            return sail_session()
        except sail.Died as error:
            chosen = f"local[{cores()}]"
            logging.getLogger(__name__).warning("Sail: %s; Spark (%s) judges", error, chosen)
    if chosen and chosen.startswith(CONNECT):
        return _connected(chosen, conf or {})
    if chosen:
        builder = builder.master(chosen)
    if chosen and chosen.startswith("local"):  # Python workers judge with the code that runs here
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    named = "SPARK_LOCAL_DIRS" in os.environ or "spark.local.dir" in (conf or {})
    if chosen and chosen.startswith("local") and not submitted and not named:
        _files.append(Path(tempfile.mkdtemp(prefix="biplane-spark-")))
    settings = {**_static(chosen or "", memory or DEFAULT_MEMORY, small), **(conf or {})}
    for name, value in settings.items():
        builder = builder.config(name, value)

    def begun() -> SparkSession:
        _launch(settings if chosen is None else {"spark.master": chosen, **settings})
        return builder.getOrCreate()

    logging.getLogger().addFilter(_not_interrupted)
    # What it raises it logs as well; interrupted, it speaks on to the JVM and logs that, too.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        # Not in the main thread: there Spark takes SIGINT over, to speak to a JVM in the midst of
        # what is being said to it.
        with _signals_later() as came, ThreadPoolExecutor(1, "spark-session") as apart:
            starting = apart.submit(begun)
            while wait([starting], _SOON_S).not_done:
                if came and _files:
                    kill_starting()
            spark: SparkSession = starting.result()
    except PySparkRuntimeError as error:
        raise SparkFailed(
            f"Spark does not start ({error}); what it said is above; "
            "mend it: `java -version` (or that of $JAVA_HOME) must say 17 or newer, and "
            f"{memory or DEFAULT_MEMORY} of memory be free"
        ) from None
    spark.sparkContext.setLogLevel("ERROR")
    _remember(spark)
    jvm: Any = spark._jvm
    for folder in _files:  # where this process dies first, the JVM ends in order
        jvm.java.io.File(str(folder)).deleteOnExit()
    if not (spark.sparkContext.master or "").startswith("local"):
        _ship(spark)
    return spark


def _launch(settings: Mapping[str, str]) -> None:
    """Spark's JVM, where none runs, in a session of its own: what is sent to this process's group,
    or comes of its terminal, is not for the JVM, which `end` ends."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        atexit.register(end)
        conf = SparkConf().setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


def engine(master: str | None = None, *, rows: int, asks_spark: bool = False) -> str | None:
    """The master that judges what lies on this machine: the one that is named, here or by
    ``BIPLANE_SPARK_MASTER``. Where none is, Sail takes up to `SAIL_ROWS` if it is installed, and
    Spark (None) what is larger or asks for its settings. A process has one engine at a time:
    whoever judges first judges on, until `checkers.sail.leave`."""
    if master or os.environ.get("BIPLANE_SPARK_MASTER") or "PYSPARK_GATEWAY_PORT" in os.environ:
        return master
    return sail.MASTER if rows <= SAIL_ROWS and not asks_spark and sail.there() else None


def sail_session() -> SparkSession:
    """A session at a server of Sail's, started when there is none."""
    try:
        own = sail.session({**_OF_SESSIONS, **_UNTRACED})
    except OSError as error:
        raise SparkFailed(
            f"Sail does not start ({error}); mend it: pip install 'biplane[sail]', or take Spark "
            "(--master=local[2])"
        ) from None
    atexit.register(end)
    return own


def _connected(url: str, conf: Mapping[str, str]) -> SparkSession:
    """A session at a server of Spark Connect, whose settings are its own."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it tells of each try on standard error
    settings = {**_OF_SESSIONS, **conf}
    try:
        # PySpark's client would try for ten minutes.
        server = urlsplit(url.partition(";")[0])
        socket.create_connection(
            (server.hostname, server.port or _CONNECT_PORT), _CONNECT_S
        ).close()
        spark: SparkSession = SparkSession.builder.remote(url).getOrCreate()
        for name, value in settings.items():
            spark.conf.set(name, value)
    except ImportError as error:
        raise SparkFailed(f"{error}; mend it: pip install 'biplane[connect]'") from None
    except (PySparkException, OSError, ValueError) as error:
        raise SparkFailed(
            f"{url}: {error}; allowed: sc://host:port of a server that runs"
        ) from None
    with _packed() as archive:
        spark.addArtifacts(str(archive), pyfile=True)
    return spark


class _Remembered:
    """A class of the JVM's, each of whose members is asked for once."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        setattr(self, name, found)
        return found


def _remember(spark: SparkSession) -> None:
    """Spare each column that is made the question whether the JVM has its function: one of two that
    it is asked."""
    jvm: Any = spark._jvm
    if "functions" in vars(jvm):
        return
    functions = _Remembered(jvm.functions)
    for name in ("functions", "org.apache.spark.sql.functions"):  # PySpark asks by either
        setattr(jvm, name, functions)
    for name in ("PythonUtils", "PythonSQLUtils"):
        setattr(jvm, name, _Remembered(getattr(jvm, name)))


def _ship(spark: SparkSession) -> None:
    """Give the workers this package: where suspects are many, its functions judge them there
    (`checkers.judging.tally`). Their Python needs pyarrow besides, and its version to be ours."""
    kept = contextlib.ExitStack()
    atexit.register(kept.close)  # it is served from there until then
    spark.sparkContext.addPyFile(str(kept.enter_context(_packed())))


@contextlib.contextmanager
def _packed() -> Iterator[Path]:
    package = Path(__file__).parent
    with tempfile.TemporaryDirectory(prefix="biplane-", ignore_cleanup_errors=True) as folder:
        archive = Path(folder) / f"{package.name}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for source in sorted(package.rglob("*.py")):
                file.write(source, str(source.relative_to(package.parent)))
        yield archive


@contextlib.contextmanager
def _signals_later() -> Iterator[list[int]]:
    """Signals that end a process are delivered afterwards, and until then those that came: a JVM
    that is being started is to end first."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before: dict[int, Any] = {
        n: signal.signal(n, lambda number, _: came.append(number)) for n in _ENDING
    }
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for one in came:
            signal.raise_signal(one)


_files: Final[list[Path]] = []
"""Where the JVM keeps what it needs for a while, when it has the cores of this machine."""
_ahead: threading.Thread | None = None
_is_there: Final = threading.Event()
"""What was begun ahead has started, or failed."""


def start_ahead(*, rows: int = 0) -> None:
    """Begin to start what will judge about so many rows while something else is waited for, and let
    Spark do a little of everything, so that what it needs is loaded; `session` waits for the start
    alone. What goes wrong is told by `session`, which tries again."""
    global _ahead
    if _ahead is None:
        _ahead = threading.Thread(target=_start, args=(rows,), name="spark-start", daemon=True)
        _ahead.start()


def _start(rows: int) -> None:
    small = rows <= SMALL_ROWS
    with contextlib.suppress(Exception):
        try:
            spark = session(engine(rows=rows), small=small)
        finally:
            _is_there.set()
        if not connected(spark):
            exercise(tuned(spark, 0, one_partition=small))


def _started() -> None:
    if _ahead is not None and _ahead is not threading.current_thread():
        _is_there.wait()


def _not_interrupted(record: logging.LogRecord) -> bool:
    """Py4j logs an interruption with a traceback, by the root logger, and raises it: whoever obeys
    it tells of it."""
    return record.msg != "KeyboardInterrupt while sending command."


def end() -> None:
    """End Spark's JVM, whatever it is at, and return when it is gone, with its workers and its
    files. Safe to repeat, and where none was started; the process cannot start another.

    One that has the cores of this machine, and all its files in a folder of ours, is killed, also
    while it is being started: it only judges, and has nothing to lose. What ends in order tells of
    all that it could not go on with. A cluster is left in order.
    """
    from pyspark import SparkContext

    if _ahead is not None and _ahead is not threading.current_thread():
        while not _is_there.wait(_SOON_S):
            if _files:
                kill_starting()
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:  # else none, or spark-submit's
        logging.getLogger().addFilter(not_in_vain)  # the same again is no second one
        listener: Any = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
        if listener is not None:  # it reads from the JVM, and tells of its end with a traceback
            listener.handle_error = lambda *_: None
        if not _files:
            end_in_order(jvm)
        kill(jvm)
    sail.end()
    if _ahead is not None:
        _ahead.join(END_S)  # it takes its files away
    while _files:
        shutil.rmtree(_files.pop(), ignore_errors=True)


def connected(spark: SparkSession) -> bool:
    """Whether it is a session at a server of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def name_of(spark: SparkSession) -> str:
    """The engine that answers it, and its version."""
    if sail.answers(spark):
        return f"Sail {importlib.metadata.version('pysail')}"
    return f"Spark {spark.version}"


def tuned(spark: SparkSession, rows: int | None, *, one_partition: bool = False) -> SparkSession:
    """A session over the same JVM, set for a history of so many rows (None: large), each of whose
    frames is of ``one_partition``. What was set by whoever started Spark stays as it is."""
    alike: Any = spark
    if sail.answers(spark):
        return spark
    own: SparkSession = alike.cloneSession() if connected(spark) else spark.newSession()
    small = rows is not None and rows <= SMALL_ROWS
    settings = {**_ALWAYS, **(_SMALL if small else _LARGE)}
    if one_partition:
        settings |= _ONE_PARTITION
    if connected(spark):
        given = dict(spark.conf.getAll)
    else:
        given = dict(spark.sparkContext.getConf().getAll())
        if not small:
            slots = spark.sparkContext.defaultParallelism
            settings["spark.sql.shuffle.partitions"] = str(_PARTITIONS_A_SLOT * slots)
    for name, value in settings.items():
        own.conf.set(name, given.get(name, value))
    return own


def local_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """What is in a table, as part of a plan."""
    if table.num_rows:
        return spark.createDataFrame(table)
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def no_rows(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """A frame of nothing. (As a table in the plan Sail may lose sight of its columns.)"""
    if not sail.answers(spark):
        return local_frame(spark, schema.empty_table())
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema

    fields = from_arrow_schema(schema).fields
    return spark.range(0).select(*(F.lit(None).cast(f.dataType).alias(f.name) for f in fields))


def cores() -> int:
    """How many processors this process may use: by affinity, and by its control group's quota."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, min(allowed, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max": no quota
        return allowed


def _static(master: str, memory: str, small: bool) -> dict[str, str]:
    options: dict[str, str] = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": memory,
        **_OF_SESSIONS,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.localRelationThreshold": "64m",
        "spark.cleaner.periodicGC.interval": "10min",
        "spark.sql.catalogImplementation": "in-memory",
        **_UNTRACED,
    }
    if small:
        # By default each small sort or join takes 32 MB of a heap of 2 GB, and what is broadcast
        # keeps them until a full collection: a session of many histories did little else.
        options["spark.buffer.pageSize"] = "256k"
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"] if small else ["-XX:+UseParallelGC"]
    flags.append("-XX:-UsePerfData")  # a file of each JVM, which one that is killed leaves
    # With C1 alone the cache is 48 MB by default, which one long session fills; then nothing more
    # is compiled.
    flags.append("-XX:ReservedCodeCacheSize=192m")
    flags.append(
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    )
    dump = os.environ.get("BIPLANE_CDS_DUMP")
    if dump:
        flags += [f"-XX:ArchiveClassesAtExit={dump}", *NOTHING_OF_ARCHIVES]
    elif archive_path().exists():
        flags += [f"-XX:SharedArchiveFile={archive_path()}", "-Xshare:auto", *NOTHING_OF_ARCHIVES]
    if _files:
        flags.append(f"-Djava.io.tmpdir={_files[-1]}")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else the JVM runs, with flags of its own
        options["spark.driver.extraJavaOptions"] = " ".join(flags)
    if master.startswith("local["):
        options["spark.driver.bindAddress"] = "127.0.0.1"
        options["spark.driver.host"] = "127.0.0.1"
        scratch = _files[-1] if _files else Path(tempfile.gettempdir()) / "biplane-spark"
        options["spark.sql.warehouse.dir"] = scratch.as_uri()
    return options


def exercise(spark: SparkSession) -> None:
    """What a check does, on nothing much: read Parquet, aggregate, join, sort, collect."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "warm"
        frame = spark.range(1000).withColumn("k", F.col("id") % 7).withColumn("s", F.lit("a"))
        frame.write.partitionBy("s").parquet(target.as_uri())
        rows = spark.read.schema("id bigint, k bigint, s string").parquet(target.as_uri())
        rows = rows.coalesce(1)
        sums = rows.groupBy("k", "s").agg(F.sum("id").alias("n"), F.max("id").alias("m"))
        window = Window.partitionBy("s").orderBy("k")
        ranked = sums.withColumn("prev", F.lag("n").over(window))
        rows.join(F.broadcast(ranked), ["k", "s"], "left").where(F.col("prev").isNull()).toArrow()
        spark.createDataFrame(ranked.toArrow()).collect()
