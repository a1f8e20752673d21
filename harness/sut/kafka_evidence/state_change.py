"""``state-change.log``: what a broker did with controller requests, partition by partition.

Brokers handle these requests one at a time a thread, and write the request first and the partitions
after it, so that the lines of one thread between two ``Handling`` lines belong together. Rows:

    Leader T-P ... starts at leader epoch      leader_change, with the log's end at that moment
    Follower T-P starts at leader epoch        the same; the end is truncations cut from it
    Cached leader info                         metadata_update, dated by the update's last line
    Deleted partition T-P from metadata cache  metadata_update with leader -2
    Received StopReplica request               replica_stop, unless an ``Ignoring`` line follows
                                               (one that deletes is dated by `broker.date_stops`)

Releases before 2.6 say less. A ``Completed ... become-leader transition`` stands for the first two
(a leader's log end is in ``server.log``, a follower's nowhere), an update's last ``Cached`` line
for the line that ends it; and a stop, which had no leader epoch (-1), is told as it is handled, not
in which request it came. A transition is
``Completed``, too, of which it was said before that there is no such leader to follow: nothing was
taken up then, not even the epoch (ReplicaManager.makeFollowers).

A controller's own lines (``Sending ...``, ``Changed state ...``) say what it decided. They are
known and make no rows: when a request left is in ``control-sends.log``, what was committed in
ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.sut.kafka_evidence.lines import LogLine, Tally, read_lines
from harness.sut.kafka_evidence.stamps import Stamps
from harness.sut.kafka_evidence.values import parse_data

_BROKER: Final = re.compile(r"\[Broker id=\d+\] ")
_HANDLING: Final = re.compile(
    r"Handling (LeaderAndIsr|StopReplica) request correlationId (\d+) from controller (-?\d+) for"
)
_RECEIVED: Final = re.compile(
    r"Received LeaderAndIsr request (\w+\(.*\)) correlation id (\d+) from controller -?\d+ "
    r"epoch (-?\d+)$"
)
_LEADER: Final = re.compile(
    r"Leader (\S+)-(\d+)(?: with topic id .*)? starts at leader epoch (\d+) from offset (\d+) with "
    r"(?:partition epoch (\d+),? )?(?:and )?high watermark (\d+),? ISR \[([\d,]*)\]"
)
_FOLLOWER: Final = re.compile(
    r"Follower (\S+)-(\d+) starts at leader epoch (\d+) from offset (\d+) with "
    r"(?:partition epoch (\d+),? )?(?:and )?high watermark (\d+)\."
    r"(?: Current leader is (-?\d+)\.)?"
)
_COMPLETED: Final = re.compile(
    r"Completed LeaderAndIsr request correlationId (\d+) from controller -?\d+ epoch -?\d+ for the "
    r"become-(leader|follower) transition for partition (\S+)-(\d+)"
)
_CACHED: Final = re.compile(
    r"Cached leader info (\w+\(.*\)) for partition (\S+)-(\d+) in response to UpdateMetadata "
    r"request sent by controller (-?\d+) epoch (-?\d+) with correlation id (\d+)"
)
_DELETED: Final = re.compile(
    r"Deleted partition (\S+)-(\d+) from metadata cache in response to UpdateMetadata request sent "
    r"by controller (-?\d+) epoch (-?\d+) with correlation id (\d+)"
)
_UPDATED: Final = re.compile(
    r"Add \d+ partitions and deleted \d+ partitions from metadata cache in response to "
    r"UpdateMetadata request sent by controller -?\d+ epoch -?\d+ with correlation id (\d+)"
)
_STOP: Final = re.compile(
    r"Received StopReplica request (\w+\(.*\)) correlation id (\d+) from controller (-?\d+) epoch "
    r"(-?\d+) for partition (\S+)-(\d+)$"
)
_STOP_IGNORED: Final = re.compile(
    r"Ignoring StopReplica request .*correlation id (\d+) .*for partition (\S+)-(\d+) "
)
_STOPS_IGNORED: Final = re.compile(
    r"Ignoring StopReplica request from controller -?\d+ with correlation id (\d+) since its"
)
_KNOWN: Final = re.compile(
    r"(Finished|Handling|Completed|Ignoring|Skipped the |Stopped fetchers|Updating log|"
    r"Updating PartitionFetchState|Sending |Sent |Received response|Changed |Initiated state|"
    r"Found deleted partitions|Started |Failed |Deleted \d|Error while|Not sending|"
    r"Leader not yet assigned|Received update metadata request with correlation id|Cannot |"
    r"Transitioning \d|Creating new partition|Truncated logs and|Finished handling stop|"
    r"Received (stop replica|LeaderAndIsrRequest|UpdateMetadataRequest) |Deleting \d|Unable to |"
    r"Expected partition |Topic I[dD] in memory|A ZooKeeper client exception |"
    r"The topic partition \S+ was marked |While handling full )"
)
_OLD_RECEIVED: Final = re.compile(  # until 2.3; its lists have no brackets
    r"Received LeaderAndIsr request PartitionState\(controllerEpoch=(-?\d+), leader=(-?\d+), "
    r"leaderEpoch=(-?\d+), .*\) correlation id (\d+) from controller -?\d+ epoch -?\d+ "
    r"for partition (\S+)-(\d+)$"
)
_UNFOLLOWED: Final = re.compile(
    r"Received LeaderAndIsrRequest .* for partition (\S+)-(\d+) .*cannot become follower since the "
    r"new leader -?\d+ is unavailable"
)
_OLD_STOP: Final = re.compile(
    r"Handling stop replica \(delete=(true|false)\) for partition (\S+)-(\d+)$"
)
_NO_EPOCH: Final = -1
"""What later brokers take a request of that time for (LeaderAndIsr.NoEpoch)."""
_DELETED_LEADER: Final = -2
_UPDATE_MS: Final = 1000
"""Between two lines of one update lies no more."""
_NONE: Final[Mapping[tuple[str, int, int], tuple[int, int | None]]] = {}
Row = dict[str, Any]


@dataclass(slots=True)
class _Handling:
    """What one thread is doing. ``states``: the partitions of a LeaderAndIsr as they were sent;
    ``updates`` and ``stops`` wait for the line that confirms or takes them back; ``until_ms`` is
    the time of the last update."""

    correlation_id: int | None = None
    states: dict[tuple[str, int], Row] = field(default_factory=dict)
    until_ms: int = 0
    updates: list[Row] = field(default_factory=list)
    stops: dict[tuple[int, str, int], tuple[int, Row]] = field(default_factory=dict)


def read_state_changes(
    path: Path,
    stamps: Stamps,
    tally: Tally,
    *,
    start_lines: bool = True,
    starts: Mapping[tuple[str, int, int], tuple[int, int | None]] = _NONE,
) -> Iterator[Row]:
    """Rows of one node, in the order of its lines but for those that wait (see the module).

    Without ``start_lines`` (releases before 2.6), ``starts`` is `broker.ServerLog.starts`."""
    threads: dict[str, _Handling] = {}
    for line in read_lines(path, tally):
        prefix = _BROKER.match(line.message)
        if prefix is None:
            known = line.message.startswith("[Controller id=")
            _count(path, line, tally, "ignored" if known else "unknown")
            continue
        handling = threads.setdefault(line.thread, _Handling())
        text = line.message[prefix.end() :]
        try:
            rows = None if start_lines else _older_line(text, line, stamps, handling, starts)
            rows = _broker_line(text, line, stamps, handling) if rows is None else rows
        except (ValueError, KeyError, TypeError):
            rows = None
        if rows is not None:
            tally.count(path.name, "known")
            yield from rows
        else:
            _count(path, line, tally, "ignored" if _KNOWN.match(text) else "unknown")
    for handling in threads.values():
        yield from _stops(handling, stamps)
        if not start_lines:
            yield from _updates(handling, stamps)


def _count(path: Path, line: LogLine, tally: Tally, what: str) -> None:
    if what == "unknown":
        tally.unknown(path.name, line.message)
    else:
        tally.count(path.name, what)


def _broker_line(text: str, line: LogLine, stamps: Stamps, now: _Handling) -> list[Row] | None:
    """The rows that a line yields; None when it is none of this module's."""
    if found := _HANDLING.match(text):
        done = _stops(now, stamps)
        now.correlation_id, now.states = int(found[2]), {}
        return done
    if found := _RECEIVED.match(text):
        state = parse_data(found[1])
        at = (str(state["topicName"]), int(state["partitionIndex"]))
        now.states[at] = state
        return []
    if found := _LEADER.match(text):
        return [_led(found, stamps, line, now, "leader", stamps.node)]
    if found := _FOLLOWER.match(text):
        sent = now.states.get((found[1], int(found[2])), {})
        leader = int(found[7]) if found[7] else sent.get("leader")
        return [_led(found, stamps, line, now, "follower", leader)]
    if found := _CACHED.match(text):
        state = parse_data(found[1])
        now.updates.append(
            {
                "topic": found[2],
                "partition": int(found[3]),
                "leader": state["leader"],
                "leader_epoch": state["leaderEpoch"],
                "controller_epoch": state["controllerEpoch"],
                "correlation_id": int(found[6]),
            }
        )
        return []
    if found := _DELETED.match(text):
        now.updates.append(
            {
                "topic": found[1],
                "partition": int(found[2]),
                "leader": _DELETED_LEADER,
                "controller_epoch": int(found[4]),
                "correlation_id": int(found[5]),
            }
        )
        return []
    if found := _UPDATED.match(text):
        updates, now.updates = now.updates, []
        mine = [u for u in updates if u["correlation_id"] == int(found[1])]
        return [stamps.row("metadata_update", line.wall_ms, **update) for update in mine]
    return _stop_line(text, line, now)


def _led(
    found: re.Match[str],
    stamps: Stamps,
    line: LogLine,
    now: _Handling,
    role: str,
    leader: int | None,
) -> Row:
    topic, partition = found[1], int(found[2])
    return stamps.row(
        "leader_change",
        line.wall_ms,
        topic=topic,
        partition=partition,
        role=role,
        leader=leader,
        leader_epoch=int(found[3]),
        controller_epoch=now.states.get((topic, partition), {}).get("controllerEpoch"),
        correlation_id=now.correlation_id,
        log_end_offset=int(found[4]),
        high_watermark=int(found[6]),
    )


def _older_line(
    text: str,
    line: LogLine,
    stamps: Stamps,
    now: _Handling,
    starts: Mapping[tuple[str, int, int], tuple[int, int | None]],
) -> list[Row] | None:
    """What a release before 2.6 says in other words; None for all else."""
    if found := _OLD_RECEIVED.match(text):
        epochs = zip(("controllerEpoch", "leader", "leaderEpoch"), found.groups(), strict=False)
        now.states[found[5], int(found[6])] = {name: int(value) for name, value in epochs}
        return []
    if found := _UNFOLLOWED.match(text):
        now.states.pop((found[1], int(found[2])), None)
        return []
    if found := _COMPLETED.match(text):
        topic, partition = found[3], int(found[4])
        state = now.states.get((topic, partition))
        if state is None:
            return []
        end, mark = starts.get((topic, partition, state["leaderEpoch"]), (None, None))
        return [
            stamps.row(
                "leader_change",
                line.wall_ms,
                topic=topic,
                partition=partition,
                role=found[2],
                leader=state["leader"],
                leader_epoch=state["leaderEpoch"],
                controller_epoch=state["controllerEpoch"],
                correlation_id=int(found[1]),
                log_end_offset=end,
                high_watermark=mark,
            )
        ]
    if found := _OLD_STOP.match(text):
        stop = {"topic": found[2], "partition": int(found[3]), "delete": found[1] == "true"}
        return [stamps.row("replica_stop", line.wall_ms, **stop, leader_epoch=_NO_EPOCH)]
    update = _CACHED.match(text) or _DELETED.match(text)
    if update is None:
        return None
    correlation_id = int(update[update.re.groups])
    # A new connection counts its requests from 0 again: the same number may be another request.
    long_ago = line.wall_ms - now.until_ms > _UPDATE_MS
    ended = long_ago or any(u["correlation_id"] != correlation_id for u in now.updates)
    done = _updates(now, stamps) if ended else []
    now.until_ms = line.wall_ms
    _broker_line(text, line, stamps, now)
    return done


def _updates(now: _Handling, stamps: Stamps) -> list[Row]:
    """The update that has come to its end, dated by its last line."""
    updates, now.updates = now.updates, []
    return [stamps.row("metadata_update", now.until_ms, **update) for update in updates]


def _stop_line(text: str, line: LogLine, now: _Handling) -> list[Row] | None:
    if found := _STOP.match(text):
        state = parse_data(found[1])
        key = (int(found[2]), found[5], int(found[6]))
        now.stops[key] = (
            line.wall_ms,
            {
                "topic": found[5],
                "partition": int(found[6]),
                "leader_epoch": state.get("leaderEpoch"),
                "controller_epoch": int(found[4]),
                "correlation_id": int(found[2]),
                "delete": bool(state.get("deletePartition")),
            },
        )
        return []
    if found := _STOP_IGNORED.match(text):
        now.stops.pop((int(found[1]), found[2], int(found[3])), None)
        return []
    if found := _STOPS_IGNORED.match(text):
        refused = int(found[1])
        now.stops = {key: stop for key, stop in now.stops.items() if key[0] != refused}
        return []
    return None


def _stops(now: _Handling, stamps: Stamps) -> list[Row]:
    stops, now.stops = now.stops, {}
    return [stamps.row("replica_stop", wall_ms, **stop) for wall_ms, stop in stops.values()]
