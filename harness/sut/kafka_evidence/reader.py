"""All files of one node, in the order in which they need each other.

Beside the rows a summary is left in the node's folder: which files, how many of their lines were
known, ignored, unknown or torn, and the version that the broker said it is. The harness puts it
into run.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError
from harness.sut import kafka_logging as files
from harness.sut.kafka_evidence.broker import (
    ServerLog,
    date_stops,
    end_follows,
    log_rows,
    read_controller_log,
    read_server_log,
)
from harness.sut.kafka_evidence.lines import Tally
from harness.sut.kafka_evidence.publishes import publish_rows
from harness.sut.kafka_evidence.requests import BrokerEpochs, read_receipts, read_requests
from harness.sut.kafka_evidence.sends import read_sends
from harness.sut.kafka_evidence.stamps import Stamps
from harness.sut.kafka_evidence.state_change import read_state_changes
from harness.sut.kafka_versions import (
    Version,
    has_request_log,
    has_send_lines,
    has_start_lines,
)
from harness.sut.metadata_log import FOLDER as METADATA_FOLDER
from harness.sut.metadata_log import Committed, Elected, read_metadata_log
from harness.sut.protocol import EVIDENCE_SUMMARY, ClockTie, NodeLayout

_UNTOLD: Final = "not told by this release"
KRAFT_START: Final = "Starting controller (kafka.server.ControllerServer)"
START: Final = "starting (kafka.server.KafkaServer)"
"""What begins a boot, as `read_server_log` takes it: without ZooKeeper, and with it."""
_OUTPUT: Final = "output.log"
"""What a node printed (`harness.runtime`): it is there when the node was started."""
Row = dict[str, Any]


def read_evidence(
    layout: NodeLayout, clock: ClockTie, *, line_of_kafka: str, version: Version
) -> Iterator[Row]:
    """History rows of one node over all of its boots. Raises `HistoryError`: see `lines`.

    ``version``: whose lines they are, as far as releases differ."""
    folder, tally = layout.dir, Tally()
    server = read_server_log(folder / files.SERVER, tally, line_of_kafka=line_of_kafka, start=START)
    stamps = Stamps(layout.node, clock, tuple(server.starts_ms))
    changes: list[Row] = []
    stops: list[Row] = []
    starts = has_start_lines(version)
    for row in read_state_changes(
        folder / files.STATE_CHANGE, stamps, tally, start_lines=starts, starts=server.starts
    ):
        if row["f"] == "leader_change":
            changes.append(row)
        elif row["f"] == "replica_stop":
            stops.append(row)
        else:
            yield row
    yield from end_follows(server, stamps, changes)
    yield from date_stops(server, stamps, stops)
    yield from log_rows(server, stamps, changes, start_lines=starts)
    controller, failures = read_controller_log(folder / files.CONTROLLER, stamps, tally)
    yield from controller
    sends = has_send_lines(version)
    if sends:
        yield from read_sends(folder / files.SENDS, stamps, tally, failures)
    receipts = read_receipts(folder / files.RECEIPTS, tally)
    epochs = BrokerEpochs(server.registered)
    yield from read_requests(folder / files.REQUESTS, stamps, tally, epochs, receipts)
    untold = [] if sends else [files.SENDS]
    untold += [] if has_request_log(version) else [files.REQUESTS]
    _finish(layout, tally, server, clock, line_of_kafka, untold)


def read_kraft_evidence(
    layout: NodeLayout, clock: ClockTie, *, line_of_kafka: str, version: Version, data: Path
) -> Iterator[Row]:
    """The same of a node without ZooKeeper: ``data`` holds its copy of the metadata log.

    Every node tells what its own copy holds, so a commit is told more than once, with one time.
    """
    folder, tally = layout.dir, Tally()
    server = read_server_log(
        folder / files.SERVER, tally, line_of_kafka=line_of_kafka, start=KRAFT_START
    )
    stamps = Stamps(layout.node, clock, tuple(server.starts_ms))
    changes = [
        row
        for row in read_state_changes(
            folder / files.STATE_CHANGE,
            stamps,
            tally,
            start_lines=has_start_lines(version),
            starts=server.starts,
        )
        if row["f"] == "leader_change"
    ]
    yield from end_follows(server, stamps, changes)
    yield from log_rows(server, stamps, changes)
    events = list(read_metadata_log(data / METADATA_FOLDER))
    states = [event for event in events if isinstance(event, Committed)]
    yield from publish_rows(folder / files.METADATA, states, stamps, tally)
    for event in events:
        if isinstance(event, Elected):
            if event.controller == layout.node:
                yield stamps.row(
                    "controller",
                    event.wall_ms,
                    event="elected",
                    controller_epoch=event.controller_epoch,
                )
        else:
            yield stamps.row(
                "leadership",
                event.wall_ms,
                topic=event.topic,
                partition=event.partition,
                leader=event.leader,
                leader_epoch=event.leader_epoch,
                controller_epoch=event.controller_epoch,
                partition_epoch=event.partition_epoch,
                isr=list(event.isr),
                elr=list(event.eligible),
                replicas=list(event.replicas),
                source="controller",
                commit_ms=event.wall_ms,
                incarnation=event.topic_id,
            )
    _finish(layout, tally, server, clock, line_of_kafka, [])


def _finish(
    layout: NodeLayout,
    tally: Tally,
    server: ServerLog,
    clock: ClockTie,
    line_of_kafka: str,
    untold: list[str],
) -> None:
    """Refuse what was not understood, and say what was, and which files a release cannot fill."""
    folder = layout.dir
    tally.refuse_strangers(folder, line_of_kafka)
    if files.SERVER not in tally.counts and (folder / _OUTPUT).exists():
        raise HistoryError(
            f"{folder / files.SERVER}: nothing was written to it although the broker was started "
            f"(see {folder / _OUTPUT}); allowed: jars with log4j and its binding to slf4j"
        )
    summary = {"version": server.version, "clock_error_ns": clock.error_ns, **tally.to_dict()}
    summary |= {"untold": dict.fromkeys(untold, _UNTOLD)}
    (folder / EVIDENCE_SUMMARY).write_text(json.dumps(summary, indent=2) + "\n")
