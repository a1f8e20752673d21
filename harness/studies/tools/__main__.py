"""``python -m harness.studies.tools``: Apache Kafka's command-line tools against this broker, and
against Apache Kafka itself, step by step; ``--write docs/tools.md`` makes the page.

Needs Kafka 3.9's jars with its tools among them (``make kafka``). A step costs a JVM's start; one
system takes some minutes. ``--keep`` stores what was seen, so that systems can be looked at one
after the other.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.cluster.cluster import Cluster
from harness.interrupts import in_order
from harness.runtime.protocol import SetupError
from harness.runtime.select import get_runtime
from harness.studies.tools.steps import FILES, STEPS, TOPIC, Step
from harness.sut.kafka_jars import ZOOKEEPER_LINE, libs_dir, version_in
from harness.sut.protocol import UnknownSystem
from harness.sut.registry import get as get_sut

OURS: Final = "dualplane"
KAFKA: Final = "kafka-zk"
_JVM: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_DEADLINE_S: Final = 90
_TRIES: Final = 3
"""Of a step that looks at what another has begun: a move takes its time."""
_NOISE: Final = re.compile(r"SLF4J|log4j|^\s+at |WARN|Picked up")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a step did. `works`: it ended and said as a right answer does."""

    exit: int
    said: str
    works: bool


class Tools:
    """Runs steps against one cluster."""

    def __init__(self, libs: Path, cluster: Cluster, folder: Path) -> None:
        self._libs, self._cluster, self._folder = libs, cluster, folder
        for name, text in FILES.items():
            (folder / name).write_text(text)
        (folder / "log4j.properties").write_text("log4j.rootLogger=ERROR\n")

    def look(self, step: Step) -> Seen:
        for attempt in range(_TRIES):
            seen = self._run(step)
            if seen.works or not step.waits:
                break
            time.sleep(attempt)
        return seen

    def _run(self, step: Step) -> Seen:
        command = [
            "java",
            *_JVM,
            f"-Dlog4j.configuration=file:{self._folder}/log4j.properties",
            "-cp",
            f"{self._libs}/*",
            step.main,
            *step.command_line(**self._places()),
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Seen(-1, f"no end within {_DEADLINE_S} s", works=False)
        lines = [line for line in done.stdout.splitlines() if not _NOISE.search(line)]
        said = "\n".join(lines)
        return Seen(done.returncode, said[:4000], step.works(done.returncode, said))

    def _places(self) -> dict[str, object]:
        addresses = self._cluster.bootstrap(direct=True)
        segment = self._find(f"{TOPIC}-0/*.log")
        return {
            "bootstrap": ",".join(f"{host}:{port}" for host, port in addresses),
            "folder": self._folder,
            "segment": segment,
            "index": segment.with_suffix(".index"),
            "offsets": self._find("__consumer_offsets-*/*.log"),
        }

    def _find(self, pattern: str) -> Path:
        """The first segment of that name in any node's logs, of several the largest."""
        found = [
            path
            for node in self._cluster.node_ids
            for path in self._cluster.layout(node).dir.rglob(pattern)
        ]
        found.sort(key=lambda path: (path.name, -path.stat().st_size))
        return found[0] if found else Path("none.log")


@contextmanager
def cluster_of(system: str, folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(
        get_runtime("process"),
        get_sut(system),
        "dual",
        dir=folder,
        record=_unrecorded,
        rng=random.Random(1),
    )
    with cluster:
        yield cluster


def _unrecorded(_kind: str, /, **_fields: Any) -> None:
    """Nothing is judged here."""


def look(system: str, libs: Path, steps: Sequence[Step]) -> dict[str, Seen]:
    """Key of a step -> what was seen."""
    found: dict[str, Seen] = {}
    with (
        tempfile.TemporaryDirectory(prefix="biplane-tools-") as scratch,
        cluster_of(system, Path(scratch) / "cluster") as cluster,
    ):
        tools = Tools(libs, cluster, Path(scratch))
        for step in steps:
            seen = tools.look(step)
            word = "works" if seen.works else f"exit {seen.exit}: {seen.said[:300]!r}"
            print(f"{system}: {step.tool} {step.arguments}: {word}", flush=True)
            found[key(step)] = seen
    return found


def kept(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Seen]:
    """What was seen of today's steps: right then, or as they are judged today (by what is kept of
    what was said)."""
    return {
        key(step): Seen(
            row["exit"],
            row["said"],
            row["works"] or step.works(row["exit"], row["said"]),
        )
        for step in STEPS
        if (row := rows.get(key(step))) is not None
    }


def key(step: Step) -> str:
    return f"{STEPS.index(step)} {step.tool} {step.arguments}"


def jars() -> Path:
    """Kafka's jars, its tools' among them. Raises SetupError."""
    libs = libs_dir(ZOOKEEPER_LINE)
    if not list(libs.glob("kafka-tools-3*.jar")):
        raise SetupError(f"{libs} lacks Kafka's command-line tools; bring them with: make kafka")
    return libs


def page(found: Mapping[str, Mapping[str, Seen]], version: str) -> str:
    """Markdown: what was asked, what came of it here and with Apache Kafka."""
    ours, kafka = found.get(OURS, {}), found.get(KAFKA, {})
    count = sum(seen.works for seen in ours.values())
    lacks = sorted(
        {s.lacks for s in STEPS if s.lacks and key(s) in ours and not ours[key(s)].works}
    )
    lines = [
        "# Kafka's command-line tools against this broker",
        "",
        f"The tools of Apache Kafka {version}, run against three brokers with dual planes by"
        " `python -m harness.studies.tools --write docs/tools.md`, which made this page. *works*:"
        " the tool ended and said as a right answer does, refusals included where Kafka refuses,"
        " too. The last column is the same step against Apache Kafka itself in ZooKeeper mode.",
        "",
        f"{count} of {len(ours)} steps work."
        + (f" This broker has none of: {'; '.join(lacks)}." if lacks else ""),
        "",
        "| tool | arguments | exit | result | said | Kafka itself |",
        "|---|---|---|---|---|---|",
    ]
    for step in STEPS:
        seen, other = ours.get(key(step)), kafka.get(key(step))
        if seen is None:
            continue
        result = (
            ("works" if step.exit == 0 else "refused, as it should be")
            if seen.works
            else ("**not here**" if step.lacks else "**differs**")
        )
        beside = (
            "-"
            if other is None
            else "the same"
            if other.works == seen.works
            else ("works" if other.works else _line(step, other))
        )
        arguments = step.arguments.replace("|", "\\|")
        lines.append(
            f"| {step.tool} | `{arguments}` | {seen.exit} | {result} | {_line(step, seen)} |"
            f" {beside} |"
        )
    return "\n".join(lines) + "\n"


def _line(step: Step, seen: Seen) -> str:
    """The line that matters of what a tool said."""
    match = re.search(step.says, seen.said) if seen.works else None
    error = re.search(r"[^\n]*Exception[^\n]*", seen.said)
    at = match.start() if match else error.start() if error else 0
    text = seen.said[at:].strip().splitlines()[:1]
    line = re.sub(r"/\S*/", "", text[0] if text else "(nothing)")
    line = re.sub(r"^.*\b(?:java|org)\.[a-z.]+\.(\w+Exception)", r"\1", line)
    line = re.sub(r"\b127\.0\.0\.1:\d+", "(address)", line).replace("|", "\\|")
    return line if len(line) <= 120 else line[:117] + "..."


def main() -> int:
    parser = argparse.ArgumentParser(description="Kafka's command-line tools against a cluster.")
    parser.add_argument("--systems", default=f"{OURS},{KAFKA}")
    parser.add_argument("--only", default="", help="a regular expression for tools and arguments")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for what was seen")
    parser.add_argument("--write", type=Path, default=None, help="the page")
    given = parser.parse_args()
    if given.write is not None and not given.write.absolute().parent.is_dir():
        parser.error(f"--write {given.write}: no such folder")
    steps = [s for s in STEPS if re.search(given.only, f"{s.tool} {s.arguments}")]
    if not steps:
        parser.error(f"--only {given.only}: no step is so")
    try:
        libs = jars()
        found = {name: look(name, libs, steps) for name in given.systems.split(",") if name}
    except (SetupError, UnknownSystem) as lack:
        print(f"tools: {lack}", file=sys.stderr)
        return 254
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        for name, rows in found.items():
            text = json.dumps({key: asdict(seen) for key, seen in rows.items()}, indent=1)
            (given.keep / f"{name}.json").write_text(text)
        for path in given.keep.glob("*.json"):
            found.setdefault(path.stem, kept(json.loads(path.read_text())))
    if given.write is not None:
        given.write.write_text(page(found, version_in(libs) or "unknown"))
    ours = found.get(OURS, {})
    return 0 if all(ours[key(s)].works or s.lacks for s in STEPS if key(s) in ours) else 1


if __name__ == "__main__":
    sys.exit(in_order(main))
