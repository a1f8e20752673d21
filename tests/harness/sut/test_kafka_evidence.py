# ruff: noqa: E501  (lines of a log are as long as they are)
"""Apache Kafka's log lines (as 3.9.2 wrote them, shortened) become history rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.history import HistoryError, problem_with
from faults.protocol import Link
from harness.runtime.protocol import Address, Programs
from harness.sut.kafka_evidence import read_evidence, reader
from harness.sut.kafka_evidence.broker import read_server_log
from harness.sut.kafka_evidence.lines import Tally, read_lines
from harness.sut.kafka_evidence.publishes import publish_rows
from harness.sut.kafka_evidence.reader import KRAFT_START, START
from harness.sut.kafka_evidence.stamps import Stamps
from harness.sut.kafka_evidence.values import parse_data
from harness.sut.kafka_versions import Version
from harness.sut.metadata_log import Committed, Elected
from harness.sut.protocol import EVIDENCE_SUMMARY, ClockTie, NodeLayout

MS = 1_000_000
NOON_MS = 1_795_262_400_000  # 2026-11-21 12:00:00 UTC
CLOCK = ClockTie(monotonic_minus_wall_ns=-NOON_MS * MS, error_ns=MS)
NEWEST = Version(3, 9, 2)
HANDLER = "control-plane-kafka-request-handler-0"
STATE = (
    "LeaderAndIsrPartitionState(topicName='a-b', partitionIndex=3, controllerEpoch=7, leader=2, "
    "leaderEpoch=5, isr=[2], partitionEpoch=9, replicas=[1, 2], addingReplicas=[], "
    "removingReplicas=[], isNew=false, leaderRecoveryState=0)"
)


def log(
    ms: int,
    message: str,
    logger: str = "state.change.logger",
    thread: str = HANDLER,
    level: str = "INFO",
) -> str:
    second, milli = divmod(ms, 1000)
    return f"[2026-11-21 12:00:{second:02},{milli:03}] {level} [{thread}] {message} ({logger})"


def layout(folder: Path) -> NodeLayout:
    return NodeLayout(
        node=1,
        name="node-1",
        dir=folder,
        bind={Link.CLIENT: Address("127.0.0.1", 1)},
        direct={},
        advertised={},
        zookeeper="",
        programs=Programs(python="python", java="java"),
        nodes=(1, 2, 3),
    )


def write(folder: Path, file: str, lines: Iterable[str]) -> None:
    (folder / file).write_text("".join(f"{line}\n" for line in lines))


def rows(folder: Path, line: str = "3.9.", version: Version = NEWEST) -> list[dict[str, Any]]:
    found = list(read_evidence(layout(folder), CLOCK, line_of_kafka=line, version=version))
    assert [problem_with(row) for row in found] == [None] * len(found)
    return found


def summary(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / EVIDENCE_SUMMARY).read_text()))


def only(folder: Path, kind: str) -> dict[str, Any]:
    (row,) = [row for row in rows(folder) if row["f"] == kind]
    return row


SERVER = "kafka.server.KafkaServer"
FOLLOWS = (
    "[Broker id=1] Follower a-b-3 starts at leader epoch 5 from offset 12 with partition epoch 9 "
    "and high watermark 8. Current leader is 2. Previous leader Some(2) and previous leader epoch "
    "was 5."
)
DEMOTION = [
    log(100, "[Broker id=1] Handling LeaderAndIsr request correlationId 4 from controller 3 for 1 partitions"),
    log(101, f"[Broker id=1] Received LeaderAndIsr request {STATE} correlation id 4 from controller 3 epoch 8"),
    log(102, FOLLOWS),
    log(103, "[Broker id=1] Finished LeaderAndIsr request in 3ms correlationId 4 from controller 3 for 1 partitions"),
]  # fmt: skip


def test_a_demotion_and_its_truncation(tmp_path: Path) -> None:
    write(tmp_path, "state-change.log", DEMOTION)
    unified = "[UnifiedLog partition=a-b-3, dir=/d] "
    write(
        tmp_path,
        "server.log",
        [
            log(10, "starting", SERVER),
            log(120, unified + "Truncating to offset 10", "kafka.log.UnifiedLog", "F"),
            log(130, unified + "Truncating to offset 9", "kafka.log.UnifiedLog", "F"),
            log(140, unified + "Truncating to 9 has no effect as the largest offset in the log is 8"),
        ],
    )  # fmt: skip
    follows, first, second = rows(tmp_path)
    assert follows == {
        "f": "leader_change",
        "t": 102 * MS + MS // 2,
        "process": "node-1",
        "node": 1,
        "boot": 1,
        "error_ns": MS,
        "topic": "a-b",
        "partition": 3,
        "role": "follower",
        "leader": 2,
        "leader_epoch": 5,
        "controller_epoch": 7,  # of whoever wrote the state, not of the sender
        "correlation_id": 4,
        "log_end_offset": 12,
        "high_watermark": 8,
    }
    cuts = [(c["from_offset"], c["to_offset"], c["leader_epoch"]) for c in (first, second)]
    assert cuts == [(12, 10, 5), (10, 9, 5)]


FETCHES = (
    "[ReplicaFetcherManager on broker 1] Added fetcher to broker 2 for partitions HashMap("
    "other-0 -> InitialFetchState(None,BrokerEndPoint(id=2, host=127.0.0.1:9092),5,99), a-b-3 -> "
    "InitialFetchState(Some(bbQ2s9SkS5),BrokerEndPoint[id=2, host=127.0.0.1, port=9092],{})) "
)


@pytest.mark.parametrize(
    ("lines", "cuts"),
    [
        pytest.param([(110, FETCHES.format("5,18")), (120, 17)], [(18, 17)], id="appended-yet"),
        pytest.param([(110, FETCHES.format("5,8")), (120, 10)], [(12, 10)], id="watermark"),
        pytest.param([(110, FETCHES.format("4,18")), (120, 10)], [(12, 10)], id="before-it"),
        pytest.param([(115, 10), (120, FETCHES.format("5,18"))], [(12, 10)], id="after-it"),
        pytest.param([(120, 14)], [(15, 14)], id="untold"),
        pytest.param([(120, 9), (130, 20)], [(12, 9), (21, 20)], id="appended-between"),
        pytest.param([(120, "start at 30")], [], id="begun-anew-beyond"),
        pytest.param([(120, "start at 4")], [(12, 4)], id="begun-anew"),
        pytest.param([(120, 5), (121, "start at 5")], [(12, 5)], id="told-twice"),
    ],
)
def test_where_a_cut_began(
    tmp_path: Path, lines: list[tuple[int, int | str]], cuts: list[tuple[int, int]]
) -> None:
    """The fetcher from the leader before goes on for a moment after the line that tells the end."""

    def says(what: int | str) -> str:
        unified = "[UnifiedLog partition=a-b-3, dir=/d] "
        if isinstance(what, int):
            return f"{unified}Truncating to offset {what}"
        whole = f"{unified}Truncate and {what.replace(' at ', ' at offset ')}, logStartOffset: 4"
        return whole if what.startswith("start") else what

    write(tmp_path, "state-change.log", DEMOTION)
    server = [log(at, says(what)) for at, what in lines]
    write(tmp_path, "server.log", [log(10, "starting", SERVER), *server])
    told = [row for row in rows(tmp_path) if row["f"] == "truncation"]
    assert [(cut["from_offset"], cut["to_offset"]) for cut in told] == cuts


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        pytest.param([(110, FETCHES.format("5,18"))], 18, id="appended-yet"),
        pytest.param([(110, FETCHES.format("5,8"))], 12, id="watermark"),
        pytest.param([(110, FETCHES.format("4,18"))], 12, id="the-epoch-before"),
        pytest.param([(90, FETCHES.format("5,18"))], 12, id="in-a-former-life"),
        pytest.param(
            [(110, FETCHES.format("5,18")), (120, FETCHES.format("5,40"))], 18, id="begun-again"
        ),
        pytest.param([(350, FETCHES.format("5,18"))], 12, id="of-the-next-life"),
        pytest.param([], 12, id="never-fetched"),
    ],
)
def test_a_followers_end_is_where_it_begins_to_fetch(
    tmp_path: Path, lines: list[tuple[int, str]], end: int
) -> None:
    """What the fetcher from the leader before appended yet, that leader may have counted."""
    again = [line.replace(" 12:00:00,1", " 12:00:00,3") for line in DEMOTION]
    write(tmp_path, "state-change.log", DEMOTION + again)
    server = [log(at, says) for at, says in lines]
    write(tmp_path, "server.log", [log(10, "starting", SERVER), *server])
    first, second = (row for row in rows(tmp_path) if row["f"] == "leader_change")
    assert (first["log_end_offset"], first["t"] < second["t"]) == (end, True)
    assert second["log_end_offset"] == (18 if lines and lines[0][0] == 350 else 12)


def test_the_quorums_own_log_is_no_partition_of_clients(tmp_path: Path) -> None:
    """A controller that was paused past its office cuts what it alone had appended there."""
    quorum = "[UnifiedLog partition=__cluster_metadata-0, dir=/d] Truncating to offset 65"
    other = "[UnifiedLog partition=__cluster_metadata-backup-0, dir=/d] Truncating to offset 6"
    write(
        tmp_path,
        "server.log",
        [
            log(10, "starting", SERVER),
            log(120, quorum, "kafka.log.UnifiedLog", "kafka-1-raft-io-thread"),
            log(130, other, "kafka.log.UnifiedLog", "F"),
        ],
    )
    assert only(tmp_path, "truncation")["topic"] == "__cluster_metadata-backup"


def test_a_leader_its_isr_and_boots(tmp_path: Path) -> None:
    write(
        tmp_path,
        "state-change.log",
        [
            log(
                2100,
                "[Broker id=1] Leader a-b-3 with topic id Some(x) starts at leader epoch 6 from "
                "offset 20 with partition epoch 10, high watermark 19, ISR [1,2], adding replicas "
                "[] and removing replicas [] . Previous leader None and previous leader epoch was -1.",
            )
        ],
    )
    isr = "[Partition a-b-3 broker=1] ISR updated to 1 (under-min-isr) and version updated to 11"
    write(
        tmp_path,
        "server.log",
        [
            log(0, "starting", SERVER),
            log(2000, "starting", SERVER),
            log(2200, isr, "kafka.cluster.Partition"),
        ],
    )
    leads, shrunk = rows(tmp_path)
    assert (leads["role"], leads["leader"], leads["log_end_offset"], leads["boot"]) == (
        "leader",
        1,
        20,
        2,
    )
    assert (shrunk["isr"], shrunk["leader_epoch"], shrunk["partition_epoch"]) == ([1], 6, 11)


def test_metadata_is_there_when_the_update_ends(tmp_path: Path) -> None:
    state = STATE.replace("LeaderAndIsrPartition", "UpdateMetadataPartition")
    sent = "UpdateMetadata request sent by controller 3 epoch 8 with correlation id 6"
    write(
        tmp_path,
        "state-change.log",
        [
            log(
                10,
                f"[Broker id=1] Cached leader info {state} for partition a-b-3 in response to {sent}",
            ),
            log(
                11,
                f"[Broker id=1] Deleted partition gone-0 from metadata cache in response to {sent}",
            ),
            log(15, f"[Broker id=1] Add 1 partitions and deleted 1 partitions from metadata cache in response to {sent}"),
        ],
    )  # fmt: skip
    cached, deleted = rows(tmp_path)
    assert (cached["t"], cached["leader_epoch"], cached["correlation_id"]) == (
        15 * MS + MS // 2,
        5,
        6,
    )
    assert (deleted["topic"], deleted["leader"]) == ("gone", -2)


@pytest.mark.parametrize("refused", [None, "all", "one"])
def test_a_stop_that_was_refused_is_none(tmp_path: Path, refused: str | None) -> None:
    stop = "StopReplicaPartitionState(partitionIndex=3, leaderEpoch=-2, deletePartition=true)"
    lines = [
        log(10, "[Broker id=1] Handling StopReplica request correlationId 9 from controller 3 for 1 partitions"),
        log(11, f"[Broker id=1] Received StopReplica request {stop} correlation id 9 from controller 3 epoch 8 for partition a-b-3"),
    ]  # fmt: skip
    if refused == "all":
        lines.append(log(12, "[Broker id=1] Ignoring StopReplica request from controller 3 with correlation id 9 since its controller epoch 8 is old. Latest known controller epoch is 9"))  # fmt: skip
    if refused == "one":
        lines.append(log(12, "[Broker id=1] Ignoring StopReplica request (delete=true) from controller 3 with correlation id 9 epoch 8 for partition a-b-3 since its associated leader epoch 1 is smaller than the current leader epoch 2"))  # fmt: skip
    write(tmp_path, "state-change.log", lines)
    found = rows(tmp_path)
    assert [(r["f"], r["delete"], r["leader_epoch"]) for r in found] == (
        [] if refused else [("replica_stop", True, -2)]
    )


def test_a_stop_is_dated_by_the_renaming_of_its_log(tmp_path: Path) -> None:
    stop = "StopReplicaPartitionState(partitionIndex=3, leaderEpoch=-2, deletePartition=true)"
    lines = []
    for number, ms in enumerate((10, 500, 900)):
        lines += [
            log(ms, f"[Broker id=1] Handling StopReplica request correlationId {number} from controller 3 for 1 partitions"),
            log(ms + 1, f"[Broker id=1] Received StopReplica request {stop} correlation id {number} from controller 3 epoch 8 for partition a-b-3"),
        ]  # fmt: skip
    write(tmp_path, "state-change.log", lines)
    renamed = "Log for partition a-b-3 is renamed to /data/a-b-3.05e3-delete and is scheduled for deletion"
    write(tmp_path, "server.log", [log(ms, renamed, "kafka.log.LogManager") for ms in (40, 930)])
    stops = [row for row in rows(tmp_path) if row["f"] == "replica_stop"]
    # The second found no log to rename: its own line is all that there is.
    assert [row["t"] // MS for row in stops] == [40, 501, 930]


COMPLETED = {
    "requestHeader": {
        "requestApiKeyName": "LEADER_AND_ISR",
        "requestApiVersion": 7,
        "correlationId": 4,
        "clientId": "3",
    },
    "request": {
        "controllerId": 3,
        "controllerEpoch": 8,
        "brokerEpoch": 65,
        "topicStates": [
            {
                "topicName": "a-b",
                "topicId": "X9",
                "partitionStates": [{"partitionIndex": 3, "leader": 2, "leaderEpoch": 5}],
            }
        ],
    },
    "response": {
        "errorCode": 0,
        "topics": [{"topicId": "X9", "partitionErrors": [{"partitionIndex": 3, "errorCode": 11}]}],
    },
    "totalTimeMs": 30.5,
    "requestQueueTimeMs": 10.0,
    "localTimeMs": 20.0,
    "listener": "CONTROLLER",
}


def test_a_request_as_the_request_logger_tells_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        "server.log",
        [log(5, "Registered broker 1 at path /brokers/ids/1 with addresses: x, czxid (broker epoch): 71",
             "kafka.zk.KafkaZkClient")],
    )  # fmt: skip
    line = log(100, f"Completed request:{json.dumps(COMPLETED)}", "kafka.request.logger",
               "control-plane-kafka-network-thread-1-ListenerName(CONTROLLER)-PLAINTEXT-0")  # fmt: skip
    write(tmp_path, "control-requests.log", [line])
    row = only(tmp_path, "control_request")
    times = [row[name] for name in ("receive_t", "dequeue_t", "handled_t", "t")]
    assert times == pytest.approx([70 * MS, 80 * MS, 100 * MS, 100 * MS + MS // 2], abs=1000)
    assert "enqueue_t" not in row  # nobody tells when a blocked put ended
    assert (row["plane"], row["broker_epoch"], row["own_broker_epoch"]) == ("control", 65, 71)
    assert row["partitions"] == [
        {"topic": "a-b", "partition": 3, "leader": 2, "leader_epoch": 5, "error": 11}
    ]


def test_receipts_bound_receipt_and_dequeue(tmp_path: Path) -> None:
    line = log(100, f"Completed request:{json.dumps(COMPLETED)}", "kafka.request.logger")
    write(tmp_path, "control-requests.log", [line])
    header = "RequestHeader(apiKey=LEADER_AND_ISR, apiVersion=7, clientId=3, correlationId=4, headerVersion=2) -- x"
    write(
        tmp_path,
        "control-receipts.log",
        [
            log(68, f"Processor 0 received request: {header}", "kafka.network.RequestChannel$"),
            log(79, f"[KafkaApi-1] Handling request:{header}", "kafka.server.KafkaApis"),
        ],
    )
    row = only(tmp_path, "control_request")
    assert (row["receive_t"], row["dequeue_t"]) == (68 * MS + MS // 2, 79 * MS + MS // 2)


def send(ms: int, correlation_id: int, controller_epoch: int = 8) -> str:
    state = f"LeaderAndIsrTopicState(topicName='a-b', topicId=X9, partitionStates=[{STATE}])"
    data = f"LeaderAndIsrRequestData(controllerId=1, controllerEpoch={controller_epoch}, brokerEpoch=65, topicStates=[{state}], liveLeaders=[])"  # fmt: skip
    header = f"RequestHeader(apiKey=LEADER_AND_ISR, apiVersion=7, clientId=1, correlationId={correlation_id}, headerVersion=2)"  # fmt: skip
    return log(
        ms,
        f"[Controller id=1, targetBrokerId=2] Sending LEADER_AND_ISR request with header {header} and timeout 30000 to node 2: {data}",
        "org.apache.kafka.clients.NetworkClient",
        "Controller-1-to-broker-2-send-thread",
        "DEBUG",
    )  # fmt: skip


def test_sends_retries_and_answers(tmp_path: Path) -> None:
    header = "RequestHeader(apiKey=LEADER_AND_ISR, apiVersion=7, clientId=1, correlationId=5, headerVersion=2)"
    write(
        tmp_path,
        "control-sends.log",
        [
            send(10, 4),
            send(200, 5),
            log(220, f"[Controller id=1, targetBrokerId=2] Received LEADER_AND_ISR response from node 2 for request with header {header}: LeaderAndIsrResponseData(errorCode=0, topics=[])", "org.apache.kafka.clients.NetworkClient"),
            send(300, 6),
        ],
    )  # fmt: skip
    fails = "[RequestSendThread controllerId=1] Controller 1 epoch 8 fails to send request (type: x) to broker 127.0.0.1:5 (id: 2 rack: null). Reconnecting to broker."
    write(tmp_path, "controller.log", [log(90, fails, "kafka.controller.RequestSendThread")])
    found = rows(tmp_path)
    said = [
        (r["f"], r["correlation_id"], r.get("attempt"), r.get("error"), r.get("failure"))
        for r in found
    ]
    assert said == [
        ("control_send", 4, 1, None, None),
        ("control_response", 4, None, None, "disconnect"),
        ("control_send", 5, 2, None, None),
        ("control_response", 5, None, 0, None),
        ("control_send", 6, 1, None, None),  # asked again, answered before: no retry
    ]  # fmt: skip
    assert found[0]["partitions"] == [
        {"topic": "a-b", "partition": 3, "leader": 2, "leader_epoch": 5}
    ]
    assert found[3]["send_t"] == 200 * MS + MS // 2


ELECTED = "1 successfully elected as the controller"
"""Before 2.1 the epoch is raised, and told of, afterwards."""


@pytest.mark.parametrize(
    "elected",
    [
        [f"{ELECTED}. Epoch incremented to 4 and epoch zk version is now 4"],
        [ELECTED, "Incrementing controller epoch in ZooKeeper", "Epoch incremented to 4"],
        [ELECTED, "Incremented epoch to 4", "Ready to serve as the new controller with epoch 4"],
    ],
)
def test_elected_and_resigned(tmp_path: Path, elected: list[str]) -> None:
    controller = "kafka.controller.KafkaController"
    resigned = log(90, "[Controller id=1] Resigned", controller)
    lines = [log(91, f"[Controller id=1] {says}", controller) for says in elected]
    write(tmp_path, "controller.log", [resigned, *lines, resigned])
    found = [(r["f"], r["event"], r["controller_epoch"]) for r in rows(tmp_path)]
    assert found == [("controller", "elected", 4), ("controller", "resigned", 4)]


# -- what is not as it should be ------------------------------------------------------------------


def test_torn_lines_and_continuations_are_told_apart(tmp_path: Path) -> None:
    whole = log(10, "one"), log(30, "three")
    torn = log(20, "two")[:35]
    (tmp_path / "x.log").write_text(
        f"{whole[0]}\n\tat kafka.Kafka(Kafka.scala)\n{torn}{whole[1]}\n{torn}"
    )
    tally = Tally()
    events = list(read_lines(tmp_path / "x.log", tally))
    assert [(e.message, e.wall_ms - NOON_MS) for e in events] == [("one", 10), ("three", 30)]
    assert tally.counts["x.log"] == {"continuation": 1, "torn": 2}


def test_lines_of_another_format_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "state-change.log", ["12:00:00.010 INFO  hello"])
    with pytest.raises(HistoryError, match=r"state-change\.log, line 1: .*allowed: lines of log4j"):
        rows(tmp_path)


def test_lines_of_another_kafka_are_refused(tmp_path: Path) -> None:
    version = log(1, "Kafka version: 2.8.0", "org.apache.kafka.common.utils.AppInfoParser")
    write(tmp_path, "server.log", [version])
    with pytest.raises(HistoryError, match=r"written by Kafka 2\.8\.0; allowed: 3\.9\.x"):
        rows(tmp_path)
    write(tmp_path, "server.log", [])
    write(tmp_path, "state-change.log", [log(i, f"[Broker id=1] Novel {i}") for i in range(20)])
    with pytest.raises(HistoryError, match=r"20 of 20 lines are not as Kafka 3\.9 writes them"):
        rows(tmp_path)


def test_a_few_unknown_lines_are_counted_with_examples(tmp_path: Path) -> None:
    write(tmp_path, "state-change.log", [*DEMOTION, log(200, "[Broker id=1] Novel")])
    assert len(rows(tmp_path)) == 1
    said = summary(tmp_path)
    assert said["lines"]["state-change.log"] == {"known": 3, "ignored": 1, "unknown": 1}
    assert said["unknown"] == {"state-change.log": ["[Broker id=1] Novel"]}


def test_nothing_written_is_nothing_said(tmp_path: Path) -> None:
    assert rows(tmp_path) == []


def test_a_broker_that_ran_and_logged_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("SLF4J: Failed to load class")
    with pytest.raises(
        HistoryError, match=r"server\.log: nothing was written .*log4j and its bind"
    ):
        rows(tmp_path)
    write(tmp_path, "server.log", [log(1, "starting", SERVER)])
    assert rows(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A()", {}),
        ("A(x=null, y=-1, z=true)", {"x": None, "y": -1, "z": True}),
        ("A(h='127.0.0.1', l=[1, 2], b=[B(i=X-_9), B(i='')])",
         {"h": "127.0.0.1", "l": [1, 2], "b": [{"i": "X-_9"}, {"i": ""}]}),
    ],
)  # fmt: skip
def test_generated_text_is_read_back(text: str, value: dict[str, Any]) -> None:
    assert parse_data(text) == value


@pytest.mark.parametrize("text", ["", "x", "A(", "A(x)", "A(x=1", "[1", "A(x=[1)"])
def test_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unreadable|not an object"):
        parse_data(text)


@pytest.mark.parametrize(
    ("start", "message", "logger"),
    [
        (KRAFT_START, "[ControllerServer id=2] Starting controller", "ControllerServer"),
        (START, "starting", "KafkaServer"),
        (START, "[KafkaServer id=0] starting", "KafkaServer"),
    ],
)
def test_each_start_is_counted_whoever_says_so(
    tmp_path: Path, start: str, message: str, logger: str
) -> None:
    lines = [log(ms, message, f"kafka.server.{logger}") for ms in (10, 2_010)]
    write(tmp_path, "server.log", [*lines, log(2_020, "Starting controller 2", logger)])
    found = read_server_log(
        tmp_path / "server.log", Tally(), line_of_kafka="3.9.", start=start
    ).starts_ms
    assert found == [NOON_MS + 10, NOON_MS + 2_010]


def test_a_broker_that_started_without_saying_so_is_refused(tmp_path: Path) -> None:
    version = log(9, "Kafka version: 3.9.2", "org.apache.kafka.common.utils.AppInfoParser")
    write(tmp_path, "server.log", [version])
    with pytest.raises(HistoryError, match=r"Kafka 3\.9\.2 started, and no line says when"):
        rows(tmp_path)
    write(tmp_path, "server.log", [log(1, "starting", SERVER), version])
    assert not rows(tmp_path)


# -- KRaft: how far a broker's cache has come ----------------------------------------------------

PUBLISHER = "kafka.server.metadata.BrokerMetadataPublisher"


def published(ms: int, offset: int, initial: str = "") -> str:
    named = f"OffsetAndEpoch[offset={offset}, epoch=2]"
    at = named if offset > 4 else f"(offset={offset}, leaderEpoch=2)"  # 4.3, 4.0
    at += " with metadata.version 4.3-IV0."
    message = f"[BrokerMetadataPublisher id=1] Publishing {initial}metadata at offset {at}"
    return log(ms, message, PUBLISHER, thread="kafka-1-metadata-loader-event-handler")


def committed(offset: int, partition: int, leader_epoch: int) -> Committed:
    return Committed(
        1, "t", partition, 2, leader_epoch, leader_epoch, (2,), offset=offset, controller_epoch=2
    )


def test_a_cache_has_what_was_published_to_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        "metadata.log",
        [
            published(10, 4, "initial "),
            published(20, 6),
            published(30, 7),
            log(35, "[BrokerMetadataPublisher id=1] Updating metadata.version", PUBLISHER),
            published(40, 7, "initial "),  # the next boot
        ],
    )
    states = [committed(3, 0, 0), committed(5, 0, 1), committed(6, 0, 2), committed(9, 0, 3)]
    tally = Tally()
    found = list(
        publish_rows(
            tmp_path / "metadata.log", states, Stamps(1, CLOCK, (NOON_MS, NOON_MS + 38)), tally
        )
    )
    assert [problem_with(row) for row in found] == [None] * len(found)
    seen = [(row["t"] // MS, row["boot"], row["leader_epoch"]) for row in found]
    assert seen == [(10, 1, 0), (20, 1, 2), (40, 2, 2)]
    assert tally.counts["metadata.log"] == {"known": 4, "ignored": 1}


def test_a_node_tells_what_its_copy_of_the_metadata_log_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = replace(committed(3, 0, 4), elr=(3,), replicas=(2, 1, 3), topic_id="ab")
    states = [state, Elected(5, 1, 7), Elected(6, 2, 8)]
    monkeypatch.setattr(reader, "read_metadata_log", lambda _folder: states)
    lines = [
        log(1, "[ControllerServer id=1] Starting controller", "kafka.server.ControllerServer"),
        log(2, "Kafka version: 3.9.2", "org.apache.kafka.common.utils.AppInfoParser"),
    ]
    write(tmp_path, "server.log", lines)
    found = list(
        reader.read_kraft_evidence(
            layout(tmp_path), CLOCK, line_of_kafka="3.9.", version=NEWEST, data=tmp_path
        )
    )
    assert [problem_with(row) for row in found] == [None] * len(found)
    (told,) = (row for row in found if row["f"] == "leadership")
    wanted = {"leader": 2, "leader_epoch": 4, "partition_epoch": 4, "isr": [2], "elr": [3]}
    wanted |= {"replicas": [2, 1, 3], "incarnation": "ab", "source": "controller"}
    assert wanted.items() <= told.items()
    (own,) = (row for row in found if row["f"] == "controller")
    assert own["controller_epoch"] == 7  # another's election is the other's to tell


def test_what_is_no_publishers_line_is_counted(tmp_path: Path) -> None:
    write(tmp_path, "metadata.log", [log(1, "Something else")])
    tally = Tally()
    assert not list(
        publish_rows(tmp_path / "metadata.log", [], Stamps(1, CLOCK, (NOON_MS,)), tally)
    )
    assert tally.counts["metadata.log"] == {"unknown": 1}
