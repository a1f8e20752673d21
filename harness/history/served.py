"""Who has been served since the last fault was healed: read from the live files as they grow.

A partition may be led, its in-sync set full, and refuse whatever is produced to it. Only clients
see that, and their rows are judged after the run; but how long they go on trying is decided while
it lasts. So the trial looks into their files, and lets them try longer where somebody still waits.
Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

Need = tuple[Any, ...]
_PRODUCERS: Final = ("producer", "direct-producer", "joint-producer")


class Served:
    """``workloads``: as `harness.workload.told` tells of them. Owned by one thread."""

    def __init__(self, live: Path, workloads: Sequence[Mapping[str, Any]]) -> None:
        self._live, self._workloads = live, list(workloads)
        self._read_to = {each["process"]: self._size(each["process"]) for each in workloads}
        self._seen: set[Need] = set()
        self._needs = {need for each in workloads for need in needs(each)}

    def waiting(self) -> list[Need]:
        """Those that have not been served since this object was made. A consumer waits only for
        partitions to which something was produced."""
        for each in self._workloads:
            process = each["process"]
            for row in self._new_rows(process):
                self._seen |= set(told_by(process, row))
        produced = {need[1:3] for need in self._seen if need[0] == "produce"}
        return sorted(
            (
                need
                for need in self._needs - self._seen
                if need[0] != "fetch" or need[1:3] in produced
            ),
            key=str,
        )

    def _new_rows(self, process: str) -> Iterable[Mapping[str, Any]]:
        """The whole lines that came since the last look."""
        try:
            with self._path(process).open("rb") as file:
                file.seek(self._read_to[process])
                data = file.read()
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        self._read_to[process] += whole
        for line in data[:whole].splitlines():
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue  # finishing will name it
            if isinstance(row, dict):
                yield row

    def _path(self, process: str) -> Path:
        return self._live / f"{process}.jsonl"

    def _size(self, process: str) -> int:
        try:
            return self._path(process).stat().st_size
        except OSError:
            return 0


def needs(workload: Mapping[str, Any]) -> Iterable[Need]:
    """What one workload has to be given to be called served."""
    process, role = workload["process"], workload["role"]
    partitions = [(t, p) for t, ps in workload.get("topics", {}).items() for p in ps]
    if role in _PRODUCERS and workload["acks"] != 0:
        yield from (("produce", t, p, process) for t, p in partitions)
    elif role == "consumer":
        yield from (("fetch", t, p, process) for t, p in partitions)
    else:
        yield from (("answer", node, process) for node in workload.get("nodes", ()))


def in_words(need: Need) -> str:
    match need:
        case ("answer", node, process):
            return f"{process} by broker {node}"
        case (what, topic, partition, process):
            return f"{process} ({what}) at {topic}-{partition}"
    raise ValueError(need)


def told_by(process: str, row: Mapping[str, Any]) -> Iterable[Need]:
    """Which needs a live row says are met."""
    succeeded = row.get("type") == "ok"
    match row.get("f"):
        case "produce" if succeeded:
            yield ("produce", row.get("topic"), row.get("partition"), process)
        case "fetch" if succeeded and row.get("offset") is not None:
            yield ("fetch", row.get("topic"), row.get("partition"), process)
        case "metadata" | "probe" if succeeded or row.get("error") is not None:
            yield ("answer", row.get("node"), process)
