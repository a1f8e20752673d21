"""Where a history lies: a folder of this machine, or any URI that Hadoop's file systems can read.

Local folders are listed and small tables read without Spark, which saves a job each. Everything
else goes through Hadoop's FileSystem in Spark's JVM, so that ``hdfs://``, ``s3a://`` and the like
work wherever the given Spark master can read them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from checkers.history import HistoryError
from checkers.spark import connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def try_writing(folder: Path) -> None:
    """Raises OSError where nothing can be written, before anything is done for it; nothing is left
    of the try."""
    with tempfile.TemporaryFile(dir=folder):
        pass


class Store(Protocol):
    """Paths are relative to the run's folder, with ``/`` between their parts."""

    root: str
    local: Path | None

    def exists(self, path: str) -> bool: ...
    def names(self, path: str) -> list[str]:
        """What lies in a folder; nothing when there is no such folder."""
        ...

    def sizes(self, path: str) -> dict[str, int]:
        """Bytes of each file of a folder, by name; hidden ones (_, .) are left out."""
        ...

    def read_text(self, path: str) -> str: ...
    def write(self, path: str, content: bytes) -> None:
        """Replace a file; a reader sees the old or the new one, never half of it."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or a folder with what is in it; what is not there is fine."""
        ...

    def uri(self, path: str) -> str:
        """What Spark's reader takes."""
        ...


class LocalStore:
    def __init__(self, root: Path) -> None:
        self.local: Path | None = root.absolute()
        self.path = root.absolute()
        self.root = str(root)

    def exists(self, path: str) -> bool:
        return (self.path / path).exists()

    def names(self, path: str) -> list[str]:
        folder = self.path / path
        return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []

    def sizes(self, path: str) -> dict[str, int]:
        files = [p for p in (self.path / path).glob("*") if p.is_file() and p.name[0] not in "_."]
        return {file.name: file.stat().st_size for file in files}

    def write(self, path: str, content: bytes) -> None:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{target.name}.tmp")
        scratch.write_bytes(content)
        scratch.replace(target)

    def remove(self, path: str) -> None:
        target = self.path / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def read_text(self, path: str) -> str:
        try:
            return (self.path / path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise HistoryError(f"{self.path / path}: cannot be read: {error}") from error

    def uri(self, path: str) -> str:
        return f"file://{self.path / path}"  # not as_uri: Hadoop takes %3D for a name's own


class HadoopStore:
    def __init__(self, root: str, spark: SparkSession) -> None:
        self.local: Path | None = None
        self.root = root.rstrip("/")
        jvm: Any = spark._jvm  # no public way to Hadoop's FileSystem
        self._new_path = jvm.org.apache.hadoop.fs.Path
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        from py4j.protocol import Py4JJavaError

        try:
            self._fs: Any = self._new_path(self.root).getFileSystem(configuration)
            self.exists("")
        except Py4JJavaError as error:
            why = str(error.java_exception.getMessage()).partition("\n")[0]
            raise HistoryError(
                f"{self.root}: {why}; allowed: a place that this Spark can read"
            ) from None

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._new_path(self.uri(path))))

    def names(self, path: str) -> list[str]:
        if not self.exists(path):
            return []
        return sorted(
            s.getPath().getName() for s in self._fs.listStatus(self._new_path(self.uri(path)))
        )

    def sizes(self, path: str) -> dict[str, int]:
        if not self.exists(path):
            return {}
        found = self._fs.listStatus(self._new_path(self.uri(path)))
        sizes = {s.getPath().getName(): int(s.getLen()) for s in found if s.isFile()}
        return {name: size for name, size in sizes.items() if name[0] not in "_."}

    def write(self, path: str, content: bytes) -> None:
        target = self._new_path(self.uri(path))
        scratch = self._new_path(target.getParent(), f"_{target.getName()}.tmp")
        stream = self._fs.create(scratch, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        self._fs.delete(target, False)  # Hadoop's rename does not replace
        if not self._fs.rename(scratch, target):
            raise OSError(f"{self.uri(path)}: cannot be put in place")

    def remove(self, path: str) -> None:
        self._fs.delete(self._new_path(self.uri(path)), True)

    def read_text(self, path: str) -> str:
        if not self.exists(path):
            raise HistoryError(f"{self.uri(path)}: there is no such file")
        stream = self._fs.open(self._new_path(self.uri(path)))  # Spark's reader skips hidden files
        try:
            return bytes(stream.readAllBytes()).decode()
        except UnicodeDecodeError as error:
            raise HistoryError(f"{self.uri(path)}: cannot be read: {error}") from error
        finally:
            stream.close()

    def uri(self, path: str) -> str:
        return f"{self.root}/{path}"


def open_store(where: str | Path, spark: SparkSession | None) -> Store:
    """The store for a path or URI; ``file:`` URIs are local paths."""
    text = str(where)
    if text.startswith("file:"):
        text = text.removeprefix("file://").removeprefix("file:")
    if "://" not in text:
        if not text or not Path(text).is_dir():
            raise HistoryError(f"{text}: there is no such folder; allowed: a run's folder or a URI")
        return LocalStore(Path(text))
    if spark is None:
        raise ValueError("a Spark session is needed to read a URI")
    if connected(spark):
        raise HistoryError(
            f"{text}: a client of Spark Connect has no way to files elsewhere; allowed: a folder "
            "that the server sees under the same path"
        )
    return HadoopStore(text, spark)
