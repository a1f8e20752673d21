"""``server.log`` and ``controller.log``: boots, registrations, truncations, ISRs, elections.

    starting (kafka.server.KafkaServer)           a boot begins (its number is counted); without
                                                  ZooKeeper: [ControllerServer id=2] Starting
                                                  controller (kafka.server.ControllerServer)
    Kafka version: 3.9.2                          of the line that these parsers are for
    Registered broker 1 ... (broker epoch): 71    which broker epoch it has from now on
    [UnifiedLog ...] Truncating to offset 8       truncation; "has no effect" lines are none ([Log
                                                  ...] before 3.1), nor are those of the quorum's
    Added fetcher ... (T-P -> InitialFetchState   how far a follower's log reaches by now
    Log for partition T-P is renamed to           when a StopReplica that deletes had been applied
    [Partition ...] ISR updated to 1,3            isr_change ([1,3] in 2.x)
    [Partition ...] T-P starts at leader epoch    whom it leads from which offset on (until 2.5)
    1 successfully elected as the controller      controller, elected
    Epoch incremented to 4                        controller, elected (before 2.1; Incremented epoch
                                                  to 4 in 1.0)
    Resigned                                      controller, resigned

A truncation's line tells where to, not where from: the log's end is taken from the broker's last
``leader_change`` for that partition, and after a first cut from that one's own end. The fetcher
from the leader before is stopped a moment after that line and may append meanwhile, so where the
next one begins (``InitialFetchState``: the log's end, or no more than that) counts too, and is the
end that such a ``leader_change`` tells (`end_follows`). And the line is written only where the log
reached beyond what it is cut to (``UnifiedLog.truncateTo``), by one record at least. Releases
before 2.6 do not tell a follower's end: such a cut reaches to `BEYOND`, for it takes whatever lies
there. A log that is begun anew at or beyond its end has nothing there to lose: no row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError
from harness.sut.kafka_evidence.lines import Tally, read_lines
from harness.sut.kafka_evidence.sends import Failure
from harness.sut.kafka_evidence.stamps import Stamps

_VERSION: Final = re.compile(r"Kafka version ?: (\S+)")
_REGISTERED: Final = re.compile(r"Registered broker \d+ at path .* czxid \(broker epoch\): (\d+)")
_TRUNCATING: Final = re.compile(
    r"\[(?:Unified)?Log partition=(\S+)-(\d+), [^\]]*\] Truncating to offset (\d+)"
)
_TRUNCATE_FULLY: Final = re.compile(
    r"\[(?:Unified)?Log partition=(\S+)-(\d+), [^\]]*\] Truncate and start at offset (\d+)"
)
_FETCHES: Final = re.compile(
    r"\[ReplicaFetcherManager on broker \d+\] Added fetcher to broker \d+ "
)
_FROM: Final = re.compile(r"(\S+)-(\d+) -> InitialFetchState\(.*?,(\d+),(\d+)\)")
_RENAMED: Final = re.compile(r"Log for partition (\S+)-(\d+) is renamed to ")
_ISR: Final = re.compile(
    r"\[Partition (\S+)-(\d+) broker=\d+\] ISR updated (?:from AlterIsr )?to \[?([\d,]*)\]? .*"
    r"(?:zkV|v)ersion updated to \[?(\d+)\]?"
)
_NAME: Final = re.compile(r"^\[\w+ id=\d+\] ")
_STARTS: Final = re.compile(
    r"\[Partition \S+ broker=\d+\] (\S+)-(\d+) starts at [Ll]eader [Ee]poch (\d+) from offset "
    r"(\d+)(?: with high watermark (\d+))?\. "
)
_ELECTED: Final = re.compile(
    r"\[Controller id=\d+\] (?:\d+ successfully elected as the controller\. )?"
    r"(?:Epoch incremented|Incremented epoch) to (\d+)"
)
_RESIGNED: Final = re.compile(r"\[Controller id=\d+\] Resigned$")
_FAILS: Final = re.compile(r".* fails to send request .* to broker \S+ \(id: (\d+) ")
_QUORUM: Final = "__cluster_metadata"
"""KRaft's own log: cut by who loses its office in the quorum, and no partition of clients'."""
_FETCHER: Final = re.compile(r"ReplicaFetcherThread-\d+-(\d+)$")
_DONE_NS: Final = 5_000_000_000
"""Within that a request is done in which a broker began to fetch."""
BEYOND: Final = 2**61
"""More than the end of any log."""
Row = dict[str, Any]


@dataclass(slots=True)
class ServerLog:
    """What other files' rows need of ``server.log``. Times are wall ms."""

    starts_ms: list[int] = field(default_factory=list)
    registered: list[tuple[int, int]] = field(default_factory=list)
    """(when, broker epoch)."""
    cuts: list[tuple[int, str, int, int, str, bool]] = field(default_factory=list)
    """(when, topic, partition, to offset, reason, whether all of it goes)."""
    fetches: dict[tuple[str, int, int], list[tuple[int, int]]] = field(default_factory=dict)
    """By topic, partition and leader epoch, when and where it began to fetch."""
    renamed: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    """When the log of a partition was put aside to be deleted."""
    isrs: list[tuple[int, str, int, list[int], int, int | None]] = field(default_factory=list)
    """(when, topic, partition, ISR, partition epoch, leader epoch where this log tells)."""
    leads: dict[tuple[str, int], int] = field(default_factory=dict)
    """In which leader epoch it began to lead last, where this log tells. In the other log a change
    is told when the request is done: too late for what was done meanwhile."""
    version: str | None = None
    starts: dict[tuple[str, int, int], tuple[int, int | None]] = field(default_factory=dict)
    """By topic, partition and leader epoch, its log's end and high watermark when it began to lead.
    Releases up to 2.5 say so here, later ones in ``state-change.log``."""


def read_server_log(path: Path, tally: Tally, *, line_of_kafka: str, start: str) -> ServerLog:
    """``line_of_kafka``: what its version must begin with; ``start``: the logger and message that
    begin a boot, as ``message (logger)``, without the name that a server puts before what it says
    (``[ControllerServer id=2]``). Raises `HistoryError` for another Kafka, and where it started
    without saying so: whatever is told by boot would be told of one."""
    log = ServerLog()
    for line in read_lines(path, tally):
        known = "known"
        if f"{_NAME.sub('', line.message)} ({line.logger})" == start:
            log.starts_ms.append(line.wall_ms)
        elif found := _VERSION.match(line.message):
            log.version = found[1]
            if not found[1].startswith(line_of_kafka):
                raise HistoryError(
                    f"{path}: it was written by Kafka {found[1]}; allowed: "
                    f"{line_of_kafka}{'x' * line_of_kafka.endswith('.')}"
                )
        elif found := _REGISTERED.match(line.message):
            log.registered.append((line.wall_ms, int(found[1])))
        elif found := _TRUNCATING.match(line.message) or _TRUNCATE_FULLY.match(line.message):
            if found[1] == _QUORUM:
                known = "ignored"
            else:
                cut = (line.wall_ms, found[1], int(found[2]), int(found[3]), line.thread)
                log.cuts.append((*cut, found.re is _TRUNCATE_FULLY))
        elif _FETCHES.match(line.message):
            for topic, partition, epoch, offset in _FROM.findall(line.message):
                key = topic.rpartition("(")[2], int(partition), int(epoch)
                log.fetches.setdefault(key, []).append((line.wall_ms, int(offset)))
        elif found := _RENAMED.match(line.message):
            log.renamed.setdefault((found[1], int(found[2])), []).append(line.wall_ms)
        elif found := _ISR.match(line.message):
            isr = [int(n) for n in found[3].split(",") if n]
            at = (found[1], int(found[2]))
            log.isrs.append((line.wall_ms, *at, isr, int(found[4]), log.leads.get(at)))
        elif found := _STARTS.match(line.message):
            mark = None if found[5] is None else int(found[5])
            log.starts[found[1], int(found[2]), int(found[3])] = (int(found[4]), mark)
            log.leads[found[1], int(found[2])] = int(found[3])
        else:
            known = "ignored"
        tally.count(path.name, known)
    if log.version is not None and not log.starts_ms:
        raise HistoryError(
            f"{path}: Kafka {log.version} started, and no line says when; allowed: a line "
            f"{start!r} for each start"
        )
    return log


def date_stops(log: ServerLog, stamps: Stamps, stops: Iterable[Row]) -> list[Row]:
    """`replica_stop` rows, those that delete dated by the log's renaming: their own line is written
    when the request is looked at, before the locks and the disk. A renaming belongs to the last
    such request before it; one that found no log keeps its line's time."""
    ordered = sorted(stops, key=lambda row: int(row["t"]))
    begun: dict[tuple[str, int], list[tuple[int, Row]]] = {}
    for row in ordered:
        if row["delete"]:
            begun.setdefault((row["topic"], row["partition"]), []).append((row["t"], row))
    for at, times_ms in log.renamed.items():
        for t in map(stamps.t, times_ms):
            before = [row for begun_t, row in begun.get(at, ()) if begun_t <= t]
            if before:
                before[-1]["t"] = t
    return ordered


def end_follows(log: ServerLog, stamps: Stamps, changes: Iterable[Row]) -> list[Row]:
    """`leader_change` rows, a follower's with its log's end as it began to fetch in that leader
    epoch: the fetcher from the leader before appends until then, and that leader may count it
    (ReplicaManager.makeFollowers, applyLocalFollowersDelta)."""
    found: list[Row] = []
    next_t: dict[tuple[str, int], float] = {}
    for row in sorted(changes, key=lambda row: int(row["t"]), reverse=True):
        at, end = (row["topic"], row["partition"]), row["log_end_offset"]
        if row["role"] == "follower" and end is not None:
            begun = log.fetches.get((*at, row["leader_epoch"]), ())
            times = [(stamps.t(wall_ms), offset) for wall_ms, offset in begun]
            its = [one for one in times if row["t"] <= one[0] < next_t.get(at, math.inf)]
            end = _last(end, min(its, default=(0, 0))[1])
        next_t[at] = row["t"]
        found.append({**row, "log_end_offset": end})
    return found[::-1]


def log_rows(
    log: ServerLog, stamps: Stamps, changes: Iterable[Row], *, start_lines: bool = True
) -> Iterator[Row]:
    """`truncation` and `isr_change` rows; ``changes`` are the node's own ``leader_change`` rows,
    which tell a follower's end where there are ``start_lines``."""
    by_partition: dict[tuple[str, int], list[Row]] = {}
    for row in changes:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    ends: dict[tuple[str, int, int], int] = {}
    for wall_ms, topic, partition, to_offset, thread, all_of_it in log.cuts:
        change = _fetching(by_partition.get((topic, partition), []), stamps.t(wall_ms), thread)
        epoch = change["leader_epoch"] if change else None
        end = change["log_end_offset"] if change else None
        end = BEYOND if end is None and not start_lines else end
        key = (topic, partition, change["t"] if change else 0)
        begun = log.fetches.get((topic, partition, epoch), ()) if epoch is not None else ()
        fetched_from = max(((at, o) for at, o in begun if at <= wall_ms), default=(0, 0))[1]
        end = ends.get(key, _last(end, fetched_from))
        ends[key] = to_offset
        if all_of_it and end is not None and end <= to_offset:
            continue
        yield stamps.row(
            "truncation",
            wall_ms,
            topic=topic,
            partition=partition,
            leader_epoch=epoch,
            from_offset=_last(end, to_offset + 1),
            to_offset=to_offset,
            reason=f"by {thread}",
        )
    for wall_ms, topic, partition, isr, partition_epoch, led_in in log.isrs:
        change = _before(by_partition.get((topic, partition), []), stamps.t(wall_ms))
        told = change["leader_epoch"] if change else None
        yield stamps.row(
            "isr_change",
            wall_ms,
            topic=topic,
            partition=partition,
            isr=isr,
            leader_epoch=told if led_in is None else led_in,
            partition_epoch=partition_epoch,
        )


def _last(end: int | None, at_least: int) -> int | None:
    """A log's end, of which it is known besides that it is no smaller than that."""
    return None if end is None else max(end, at_least)


def _fetching(changes: list[Row], t: int, thread: str) -> Row | None:
    """The change after which a thread cut a log: the last one before or, where that is none that
    made it fetch from whom the thread does, the next one that did. Before 2.6 a change is told when
    its request is done, and what is cut for it may be cut by then."""
    before, found = _before(changes, t), _FETCHER.match(thread)
    if found is None:
        return before
    role = ("follower", int(found[1]))
    if before is not None and (before["role"], before["leader"]) == role:
        return before
    its = (c for c in changes if t < c["t"] <= t + _DONE_NS and (c["role"], c["leader"]) == role)
    return min(its, key=lambda c: int(c["t"]), default=before)


def _before(changes: list[Row], t: int) -> Row | None:
    return max((c for c in changes if c["t"] <= t), key=lambda c: int(c["t"]), default=None)


def read_controller_log(
    path: Path, stamps: Stamps, tally: Tally
) -> tuple[list[Row], list[Failure]]:
    """`controller` rows, and the send threads' complaints for `read_sends`."""
    rows: list[Row] = []
    failures: list[Failure] = []
    controller_epoch: int | None = None
    for line in read_lines(path, tally):
        known = "known"
        if found := _ELECTED.match(line.message):
            controller_epoch = int(found[1])
            rows.append(
                stamps.row(
                    "controller", line.wall_ms, event="elected", controller_epoch=controller_epoch
                )
            )
        elif _RESIGNED.match(line.message):
            if controller_epoch is not None:
                rows.append(
                    stamps.row(
                        "controller",
                        line.wall_ms,
                        event="resigned",
                        controller_epoch=controller_epoch,
                    )
                )
                controller_epoch = None
        elif found := _FAILS.match(line.message):
            failures.append(Failure(line.wall_ms, int(found[1]), "disconnect"))
        else:
            known = "ignored"
        tally.count(path.name, known)
    return rows, failures
