"""The class-data archive (AppCDS) from which Spark's JVM starts sooner: made once by
``python -m checkers.class_archive`` (``make setup`` calls it, where ``--there`` does not find one).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

NOTHING_OF_ARCHIVES: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Hundreds of lines on classes that an archive cannot hold, or why it is passed over."""


def archive_path() -> Path:
    """Where the class-data archive lies, some 180 MB: in the virtual environment, with which it
    goes, or else among the user's caches. One for each place where Spark's jars are, and each Java,
    since a JVM passes over one that was made of other files."""
    spark = importlib.util.find_spec("pyspark")
    java_home = os.environ.get("JAVA_HOME")
    command = f"{java_home}/bin/java" if java_home else "java"
    java = Path(shutil.which(command) or command).resolve()
    made_of: list[object] = [
        importlib.metadata.version("pyspark"),
        spark and spark.origin,
        str(java),
    ]
    made_of.append(java.stat().st_mtime_ns if java.exists() else None)
    name = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]
    folder = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    if sys.prefix != sys.base_prefix:
        folder = sys.prefix
    return Path(folder) / "biplane" / f"spark-{name}.jsa"


def make_archive() -> Path:
    """Run a little of Spark in a JVM that writes its loaded classes down at its end."""
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch) / "spark.jsa"
        env = {**os.environ, "BIPLANE_CDS_DUMP": str(made)}
        subprocess.run([sys.executable, "-m", __spec__.name, "--warm"], env=env, check=True)
        made.replace(path)  # never half an archive
    return path


def _warm() -> None:
    from checkers.spark import exercise, session, tuned

    spark: Any = session()
    exercise(tuned(spark, 0, one_partition=True))
    spark.stop()
    gateway = spark.sparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=120)  # the archive is written while the JVM exits


if __name__ == "__main__":
    if "--warm" in sys.argv:
        _warm()
    elif "--there" in sys.argv:
        sys.exit(not archive_path().exists())
    else:
        print(make_archive())
