"""Sail: an engine for histories of a laptop's size, which speaks Spark's own protocol.

Spark plans and starts for seconds what it then computes in no time: a run of 190,000 rows cost 129
CPU-s, of which its rows were the least. Sail (``pip install pysail``) is a server of Spark Connect
on Apache DataFusion: the same PySpark calls, answered in milliseconds, without a JVM. It is asked
for as a master named ``sail``; what it says is what Spark says, which `tests/checkers` holds
against each other. Clusters, Hadoop's file systems and histories of hours are Spark's.

The server is a process of its own, on loopback, which ends with whoever started it, however that
ends: it reads its standard input, and goes when that is closed. It asks nobody who they are, as no
server of Sail's does, and runs no Python for anybody.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MASTER: Final = "sail"
"""How it is named where a Spark master is asked for."""
CLIENT: Final = "SPARK_CONNECT_MODE_ENABLED"
"""In the environment it says that this process is a client of Spark Connect."""
_PROTOCOL: Final = "4.2.0"
"""The newest release of Spark that this Sail knows; it refuses a newer PySpark. What it takes of it
is the defaults of settings, and how a Python function is packed, which has changed since: see
`checkers.judging.workers`."""


class Died(RuntimeError):
    """The server began, and ended: this process's engine is Spark again."""


def there() -> bool:
    """Whether Sail is installed, with what a client of Spark Connect needs."""
    return all(importlib.util.find_spec(name) for name in ("pysail", "grpc_status", "pandas"))


_MEMORY: Final = 2 << 30
"""For sorts, joins and groups together, as Spark's heap. What does not fit is sorted and grouped by
way of files, or refused, and then Spark's to answer."""
_servers: Final[list[Server]] = []


def session(settings: Mapping[str, str]) -> SparkSession:
    """A session at this process's server, started when there is none; ``settings``: Spark's, by
    name. Raises `OSError` with what the server said in place of starting, `Died` where it is gone
    before it was asked anything."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession as Client

    # What makes a column or a window speaks to a server from now on, and to no JVM.
    os.environ[CLIENT] = "1"
    if not _servers:
        server = Server()
        _servers.append(server)
        own: Any = Client(server.url)
        # It is at hand or gone: who tries again speaks to nobody, and keeps us from ending.
        own.client.disable_reattachable_execute()
        own.client.set_retry_policies([])
        server.session = own
        try:
            for name, value in settings.items():
                own.conf.set(name, value)
        except PySparkException as error:
            own.client.close()
            leave()
            raise Died(f"it ended as soon as it had begun ({type(error).__name__})") from None
        Client._set_default_and_active_session(own)
        _schema_with_the_rows()
    found: SparkSession = _servers[0].session
    return found


def _schema_with_the_rows() -> None:
    """Let `toArrow` take the schema that comes with the rows. PySpark asks for it before, for which
    the server goes through the plan once more: a quarter of what a small history costs it."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.pandas.types import to_arrow_schema

    def to_arrow(self: Any) -> pa.Table:
        table, told = self._to_table()
        schema = to_arrow_schema(
            self.schema if told is None else told,
            error_on_duplicated_field_names_in_struct=True,
            timezone="UTC",
        )
        return table.cast(schema)

    frames: Any = DataFrame
    frames.toArrow = to_arrow


def judges() -> bool:
    """Whether this process's engine is Sail."""
    return bool(_servers) and CLIENT in os.environ


def answers(spark: SparkSession) -> bool:
    """Whether it is a session of Sail's."""
    return bool(_servers) and type(spark).__module__.startswith("pyspark.sql.connect")


def as_read(frame: DataFrame) -> DataFrame:
    """The same rows, for a filter with a lambda in it: Sail takes filters into the files that it
    reads, and there loses sight of a lambda's columns."""
    return frame.limit(2**31 - 1) if answers(frame.sparkSession) else frame


def written(frame: DataFrame) -> tuple[DataFrame, Path]:
    """The same rows, made now and kept in the folder that is given, for whoever reads them again:
    Sail takes `persist` for nothing, and makes a frame anew for each who asks. The folder goes with
    the server at the latest."""
    folder = _kept()
    frame.write.mode("append").parquet(folder.as_uri())
    return frame.sparkSession.read.schema(frame.schema).parquet(folder.as_uri()), folder


def laid_down(spark: SparkSession, table: pa.Table) -> tuple[DataFrame, Path]:
    """The table as a file in the folder that is given, to be read from there. In a plan it would be
    copied several times as that is made, and again each time that it is sent."""
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema

    folder = _kept()
    pq.write_table(table, folder / "part-00000.parquet")
    return spark.read.schema(from_arrow_schema(table.schema)).parquet(folder.as_uri()), folder


def _kept() -> Path:
    return Path(tempfile.mkdtemp(prefix="kept-", dir=_servers[0].scratch))


def leave() -> None:
    """End the server; from now on this process's engine is Spark."""
    end()
    os.environ.pop(CLIENT, None)


def end() -> None:
    """End the server, whatever it is at. Safe to repeat, and where none was started."""
    while _servers:
        _servers.pop().end()


class Server:
    """One server on loopback; ``url``: where a client of Spark Connect finds it."""

    def __init__(self) -> None:
        package = Path(__file__).parent
        told = os.environ.get("PYTHONPATH")
        paths = os.pathsep.join([str(package.parent), *([told] if told else [])])
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self.scratch = Path(tempfile.mkdtemp(prefix="biplane-sail-"))
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(self.scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={
                **os.environ,
                "PYTHONPATH": paths,
                "RUST_LOG": "error",
                "SAIL_RUNTIME__MEMORY_POOL__TYPE": "fair",
                "SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE": str(_MEMORY),
                "SAIL_RUNTIME__TEMPORARY_FILES__PATHS": json.dumps([str(self.scratch)]),
            },
            start_new_session=True,  # what a terminal sends is not for it: `end` ends it
        )
        assert self.process.stdout is not None
        port = self.process.stdout.readline().strip().decode()
        if not port:
            self.end()
            self._said.seek(0)
            raise OSError(self._said.read().decode(errors="replace").strip()[-500:] or "no word")
        self.url = f"sc://127.0.0.1:{port}"
        self.session: Any = None

    def end(self) -> None:
        """Whatever it is at: it only judges, and has nothing to lose."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


def _serve() -> None:
    import pyspark

    pyspark.__version__ = _PROTOCOL
    for name in ("pyspark.cloudpickle", "pyspark.serializers", "pyspark.worker"):
        sys.modules[name] = cast("Any", None)  # no client's Python is run here
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    print(server.listening_address[1], flush=True)
    sys.stdin.read()
    for scratch in sys.argv[1:]:  # who started it was killed, and takes nothing away
        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    _serve()
