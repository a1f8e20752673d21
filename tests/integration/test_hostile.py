"""Hostile strangers on every listener of a running broker, while a client of each goes on working.

Whatever they send, the broker lives, keeps neither files, threads nor memory, and answers the
others within a second. What must be answered, and how, is the unit tests' business: here it is
enough that each frame is answered or its connection closed. Control requests carry an epoch that is
over, or a stranger could lawfully change the cluster (Kafka guards nothing without an authorizer).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.protocol import Link
from harness.cluster.ask import NoAnswer, ask, request
from harness.cluster.cluster import Cluster
from harness.cluster.errors import ClusterError
from nodes.core.errors import Errors
from nodes.wire.apis import ApiKey
from nodes.wire.client import Connection
from nodes.wire.codec import encode_request
from nodes.wire.records import build_batch
from tests.integration.fuzzing import damaged_requests
from tests.integration.stalls import Ruler, Span, kept_waiting_s

pytestmark = pytest.mark.cluster

NODE = 1
TOPIC = "bystander"
LINKS = (Link.CLIENT, Link.INTER_BROKER, Link.CONTROL)
SEED = int(os.environ.get("BIPLANE_FUZZ_SEED", "291"))
FRAMES = int(os.environ.get("BIPLANE_FUZZ_FRAMES", "1500"))
PATIENCE_S = 3.0
WAITING = {"FETCH", "JOIN_GROUP", "SYNC_GROUP", "PRODUCE", "ELECT_LEADERS", "DELETE_RECORDS"}
"""What may lawfully keep its client waiting for longer than that."""
SHORTLY_S = 0.5
"""So long an answer of theirs is waited for: that it comes is not asked for, and some come late."""
STALL_S = 2.0
"""As long as a broker may keep a bystander waiting, while there is a processor for both."""
TIMEOUT_S = 5.0
MEMORY_KIB = 192 << 10
"""How far resident memory may grow in all: allocators do not give everything back."""

SIZE = struct.Struct(">i")


def framed(payload: bytes, size: int | None = None) -> bytes:
    return SIZE.pack(len(payload) if size is None else size) + payload


def header(api: int, version: int, *, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", api, version, 7, 1) + b"x" + b"\0" * flexible


CLIENT_HELLO = bytes.fromhex("16030102000100") + b"\1\xfc\3\3" + bytes(504)
BATCH = build_batch([(b"key", b"value", 1)])


def produced(records: bytes, *, index: int = 0, topic: str = TOPIC) -> bytes:
    entity = request(
        ApiKey.PRODUCE,
        8,
        acks=1,
        timeout=1000,
        topic_data=[{"name": topic, "partition_data": [{"index": index, "records": records}]}],
    )
    return encode_request(entity, 7, "x")


def damaged(position: int, fmt: str, value: int) -> bytes:
    batch = bytearray(BATCH)
    struct.pack_into(fmt, batch, position, value)
    return bytes(batch)


def metadata(names: list[str]) -> bytes:
    return encode_request(
        request(ApiKey.METADATA, 9, topics=[{"name": name} for name in names]), 7, "x"
    )


BAD_BYTES = {
    "nothing": b"",
    "a zero size": framed(b""),
    "a negative size": SIZE.pack(-1),
    "the most negative size": SIZE.pack(-(2**31)),
    "an oversized frame": SIZE.pack(2**31 - 1) + bytes(1000),
    "one byte too much": SIZE.pack(104_857_601),
    "a short frame": framed(b"\0\3\0"),
    "no such api": framed(struct.pack(">hhih", 999, 0, 1, -1)),
    "a negative api": framed(struct.pack(">hhih", -3, 0, 1, -1)),
    "no such version": framed(struct.pack(">hhih", 3, 99, 1, -1)),
    "ApiVersions of the future": framed(struct.pack(">hhih", 18, 99, 1, -1)),
    "a client id without end": framed(struct.pack(">hhih", 3, 1, 1, 32767) + b"x"),
    "TLS": CLIENT_HELLO,
    "HTTP": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    "a huge array": framed(header(3, 1) + SIZE.pack(2**31 - 1)),
    "a negative array": framed(header(3, 1) + SIZE.pack(-2)),
    "a huge compact array": framed(header(3, 9, flexible=True) + b"\xff\xff\xff\xff\x0f"),
    "a varint without end": framed(header(3, 9, flexible=True) + b"\xff" * 200),
    "two million topics": framed(header(3, 1) + SIZE.pack(2_000_000) + bytes(4_000_000)),
    "deep nesting": framed(
        header(1, 4) + struct.pack(">iiiibi", -1, 0, 0, 0, 0, 90_000) + struct.pack(
            ">hii", 0, 1, 0) * 90_000
    ),
    "an array of nulls": framed(header(3, 1) + SIZE.pack(1) + b"\xff\xff"),
    "names of a megabyte": metadata(["x" * (1 << 20)]),
    "an empty name": metadata([""]),
    "20,000 names": metadata([f"n{i}" for i in range(20_000)]),
    "names that leave the folder": metadata(["../../x", "/", "\0", "..", "é"]),
}  # fmt: skip
BAD_BATCHES = {
    "no records": b"",
    "half a header": BATCH[:40],
    "a wrong checksum": damaged(30, ">b", 77),
    "a length that lies": damaged(8, ">i", 2**31 - 1),
    "a negative length": damaged(8, ">i", -1),
    "a negative count": damaged(57, ">i", -1),
    "magic 9": damaged(16, ">b", 9),
    "two batches": BATCH * 2,
    "garbage behind": BATCH + b"\0" * 50,
    "a bomb": build_batch([(b"k", bytes(1 << 20), 1)] * 32, attributes=1),
}


class Bystander(threading.Thread):
    """One connection that asks and asks, on one listener; on the client's it produces as well."""

    def __init__(self, address: tuple[str, int], produces: bool) -> None:
        super().__init__(daemon=True)
        self.waits: list[Span] = []
        self.answers = 0
        self.failure: BaseException | None = None
        self._address = address
        self._produces = produces
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            with Connection(*self._address, "bystander", TIMEOUT_S) as connection:
                while not self._stopping.wait(0.02) or self.answers < 5:
                    start = time.monotonic()
                    answer = connection.request(self._question())
                    self.waits.append(Span(start, time.monotonic()))
                    self.answers += 1
                    if self._produces:
                        assert not answer.responses[0].partition_responses[0].error_code
        except BaseException as e:
            self.failure = e

    def _question(self) -> Any:
        if not self._produces:
            return request(ApiKey.METADATA, 8, topics=[{"name": TOPIC}])
        rows = [{"name": TOPIC, "partition_data": [{"index": 0, "records": BATCH}]}]
        return request(ApiKey.PRODUCE, 8, acks=-1, timeout=5000, topic_data=rows)

    def finish(self, overslept: list[Span]) -> None:
        self._stopping.set()
        self.join(30)
        assert not self.is_alive()
        assert self.failure is None, repr(self.failure)
        assert self.answers
        assert max(kept_waiting_s(wait, overslept) for wait in self.waits) < STALL_S


class Usage:
    """What the broker's process holds."""

    def __init__(self, cluster: Cluster) -> None:
        pid = cluster.nodes.pid(NODE)
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in status)
        self.pid = pid
        self.files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        self.threads = int(fields["Threads"])
        self.memory_kib = int(fields["VmRSS"].split()[0])


@pytest.fixture(scope="module")
def baseline(cluster: Cluster) -> Usage:
    """Taken once everything is there that is made on demand, the groups' topic included."""
    cluster.admin.create_topic(TOPIC, {0: [1, 2, 3]}, {"min.insync.replicas": "2"})
    address = cluster.address(NODE, Link.CLIENT, direct=True)
    find = request(ApiKey.FIND_COORDINATOR, 2, key="any", key_type=0)
    cluster.wait_until("a coordinator", lambda: not ask(address, find, TIMEOUT_S).error_code, 20)
    assert cluster.wait_full_isr(None, 20)
    for link in LINKS:
        for frame in BAD_BYTES.values():  # whatever is allocated once, is allocated now
            answered_or_closed(cluster, link, frame)
    return Usage(cluster)


@pytest.fixture
def watched(cluster: Cluster, baseline: Usage) -> Iterator[None]:
    """The three bystanders, and a look at what is left afterwards."""
    bystanders = [
        Bystander(cluster.address(NODE, link, direct=True), link is Link.CLIENT) for link in LINKS
    ]
    ruler = Ruler()
    for thread in (ruler, *bystanders):
        thread.start()
    try:
        yield
    finally:
        ruler.finish()
        for bystander in bystanders:
            bystander.finish(ruler.overslept)

    def recovered() -> bool:
        usage = Usage(cluster)
        assert usage.pid == baseline.pid
        assert usage.memory_kib < baseline.memory_kib + MEMORY_KIB
        return usage.files <= baseline.files + 8 and usage.threads <= baseline.threads + 2

    try:
        cluster.wait_until("the broker to let go of files and threads", recovered, 60)
    except ClusterError:
        assert vars(Usage(cluster)) == vars(baseline)


def dial(cluster: Cluster, link: Link) -> socket.socket:
    made = socket.create_connection(cluster.address(NODE, link, direct=True), TIMEOUT_S)
    made.settimeout(TIMEOUT_S)
    return made


def answered_or_closed(cluster: Cluster, link: Link, data: bytes) -> bytes:
    """The beginning of the answer, empty when there was none. Too few bytes are an open end."""
    with dial(cluster, link) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(64)
    return b""


def test_bytes_that_are_no_request(cluster: Cluster, watched: None) -> None:
    for link in LINKS:
        for data in BAD_BYTES.values():
            answered_or_closed(cluster, link, data)


def test_batches_that_lie(cluster: Cluster, watched: None) -> None:
    with Connection(*cluster.address(NODE, Link.CLIENT, direct=True), "x", TIMEOUT_S) as connection:
        for says, records in BAD_BATCHES.items():
            for index in (0, -1, 2**31 - 1):
                frame = produced(records, index=index)
                answer = connection.send_raw(frame)
                (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(TOPIC) + 4 + 4)
                fine = says == "a bomb" and index == 0  # a broker keeps what it need not open
                assert (error == 0) == fine, (says, index, error)


def test_counts_that_the_records_do_not_bear_out(cluster: Cluster, watched: None) -> None:
    """Or one small batch would move the log's end by two thousand million."""
    batch = bytearray(BATCH)
    struct.pack_into(">i", batch, 23, 2**31 - 2)
    struct.pack_into(">i", batch, 57, 2**31 - 1)
    struct.pack_into(">I", batch, 17, checksum(bytes(batch[21:])))
    with Connection(*cluster.address(NODE, Link.CLIENT, direct=True), "x", TIMEOUT_S) as connection:
        answer = connection.send_raw(produced(bytes(batch)))
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(TOPIC) + 4 + 4)
    assert error == 87  # INVALID_RECORD


def checksum(data: bytes) -> int:
    from crc32c import crc32c

    return int(crc32c(data))


def test_every_request_damaged(cluster: Cluster, watched: None) -> None:
    """``BIPLANE_FUZZ_FRAMES`` of them (20,000 is the project's claim; the default fits a short
    run): each is answered, refused by closing, or waits for something that its connection's end
    ends."""
    connections: dict[Link, socket.socket] = {}
    try:
        for number, (name, payload) in enumerate(damaged_requests(SEED, FRAMES)):
            link = LINKS[number % 3]
            connection = connections.pop(link, None) or dial(cluster, link)
            may_wait = name.split()[0] in WAITING
            try:
                if answers(connection, payload, SHORTLY_S if may_wait else PATIENCE_S):
                    connections[link] = connection
                    continue
            except TimeoutError:
                assert may_wait, name
            except ConnectionError:
                pass  # reset: closed with bytes of ours unread
            connection.close()
    finally:
        for connection in connections.values():
            connection.close()


def answers(connection: socket.socket, payload: bytes, timeout_s: float) -> bool:
    """Whether a whole answer came; False when the connection was closed instead."""
    connection.settimeout(timeout_s)
    connection.sendall(framed(payload))
    size = read_exactly(connection, 4)
    return size is not None and read_exactly(connection, SIZE.unpack(size)[0]) is not None


def read_exactly(connection: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def test_half_frames_held_open_by_hundreds(cluster: Cluster, watched: None) -> None:
    whole = metadata([TOPIC])
    with contextlib.ExitStack() as held:
        for number in range(400):
            connection = held.enter_context(dial(cluster, LINKS[number % 3]))
            half = SIZE.pack(100_000_000) + bytes(1000) if number % 2 else whole[:-1]
            connection.sendall(half[: 1 + number % len(half)])
        time.sleep(1.5)  # the bystanders are watching


def test_readers_that_never_read(cluster: Cluster, watched: None) -> None:
    """They are answered once each, as far as their sockets take it, and cost nobody else."""
    burst = metadata([f"n{i}" for i in range(2000)]) * 200
    with contextlib.ExitStack() as held:
        for number in range(12):
            connection = held.enter_context(dial(cluster, LINKS[number % 3]))
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.send(burst)
        time.sleep(1.0)


def test_thousands_come_and_go(cluster: Cluster, watched: None) -> None:
    reset = struct.pack("ii", 1, 0)
    for number in range(3000):
        with dial(cluster, LINKS[number % 3]) as connection:
            if number % 2:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            if number % 5 == 0:
                connection.sendall(b"\0\0\0")


def test_requests_too_large_to_be_carried_out(cluster: Cluster, watched: None) -> None:
    """Each is answered in good time, or ends its connection (a text of more than 16 bits, as in
    Kafka), and nothing of it is done."""
    controller = cluster.view.controller()
    assert controller is not None
    address = cluster.address(controller, Link.CLIENT, direct=True)
    before = [topic.name for topic in cluster.view.topics()]
    for count in (10**6, 2**31 - 1):
        row = {"num_partitions": count, "replication_factor": 1}
        topics = [{"name": "large", **row}]
        answer = ask(address, request(ApiKey.CREATE_TOPICS, 5, topics=topics), TIMEOUT_S)
        assert answer.topics[0].error_code == Errors.POLICY_VIOLATION
        grown = [{"name": TOPIC, "count": count, "assignments": None}]
        answer = ask(address, request(ApiKey.CREATE_PARTITIONS, 1, topics=grown), TIMEOUT_S)
        assert answer.results[0].error_code == Errors.POLICY_VIOLATION
    value = ",".join(["0:1"] * (1 << 19))
    name = "leader.replication.throttled.replicas"
    configs = [{"name": name, "config_operation": 0, "value": value}]
    resources = [{"resource_type": 2, "resource_name": TOPIC, "configs": configs}]
    entity = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
    with pytest.raises(NoAnswer, match="closed by the peer"):
        ask(address, entity, TIMEOUT_S)
    assert [topic.name for topic in cluster.view.topics()] == before
    assert cluster.view.controller() == controller


def test_pipelined_requests_with_one_correlation_id(cluster: Cluster, watched: None) -> None:
    """Thousands on one connection, all sent before the first answer is read, one half-closed."""
    frame, count = metadata([TOPIC]), 5000
    for link in LINKS:
        with dial(cluster, link) as connection:
            connection.settimeout(60.0)  # what takes how long is the bystanders' business
            sender = threading.Thread(target=connection.sendall, args=(frame * count,))
            sender.start()
            for _ in range(count):
                size = read_exactly(connection, 4)
                assert size is not None
                assert read_exactly(connection, SIZE.unpack(size)[0]) is not None
            sender.join()
            connection.sendall(frame)
            connection.shutdown(socket.SHUT_WR)
            assert read_exactly(connection, 4) is not None


def test_floods_of_members(cluster: Cluster, watched: None) -> None:
    """More than a group may have, and groups by the hundred; they wait, and go away unanswered."""
    fields = {
        "session_timeout": 6000,
        "rebalance_timeout": 6000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"x" * 100}],
    }
    with contextlib.ExitStack() as held:
        for number in range(300):
            group = "crowd" if number % 2 else f"crowd-{number}"
            entity = request(ApiKey.JOIN_GROUP, 2, group_id=group, **fields)
            connection = held.enter_context(dial(cluster, Link.CLIENT))
            connection.sendall(encode_request(entity, number, "crowd"))
        time.sleep(1.0)  # the bystanders are watching
