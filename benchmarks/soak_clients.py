"""The clients of a soak: hostile ones, each a role and a thread, and ordinary ones.

Every role is bounded in rate and in what it keeps open, so that growth is the broker's doing. A
role's work is `act`, called again and again; `held` are sockets that stay open meanwhile. What a
role makes up (groups, topics, client ids) bears the run's marker.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.one_broker import TOPIC, produce_frame
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.client import Connection, WireClientError
from nodes.wire.codec import build, encode_request

BULK_PARTITION: Final = 0
"""Holds more than a fetch may take."""
BUSY_PARTITION: Final = 1
"""Is written to all the time."""
STILL_PARTITION: Final = 2
"""Is never written to."""

FETCH_BYTES: Final = 55 * 1024 * 1024
DAYS_MS: Final = 2**31 - 1
MAX_SESSION_MS: Final = 1_800_000
_MEMBER_ID_REQUIRED: Final = 79
_PATIENCE_S: Final = 30.0


@dataclass(kw_only=True)
class Target:
    """Whom to trouble, and how it is called in what they make up."""

    port: int
    marker: str
    seed: int = 1


@dataclass
class Role:
    """One kind of client. `act` returns how often it did what it is there for."""

    target: Target
    pause_s: float
    act: Callable[[Role], int]
    attempts: int = 0
    held: list[socket.socket] = field(default_factory=list)
    random: random.Random = field(default_factory=random.Random)
    memory: dict[str, Any] = field(default_factory=dict)

    def dial(self, *, receive_bytes: int | None = None) -> socket.socket:
        """A connection that counts as this role's until `drop_all`."""
        made = socket.socket()
        self.held.append(made)
        made.settimeout(_PATIENCE_S)
        if receive_bytes is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        made.connect(("127.0.0.1", self.target.port))
        return made

    def drop_all(self) -> None:
        for sock in self.held:
            sock.close()
        self.held.clear()
        connection = self.memory.pop("connection", None)
        if connection is not None:
            connection.close()

    def connection(self) -> Connection:
        """One that is used again and again."""
        if "connection" not in self.memory:
            client_id = f"soak-{self.target.marker}"
            self.memory["connection"] = Connection(
                "127.0.0.1", self.target.port, client_id, _PATIENCE_S
            )
        found: Connection = self.memory["connection"]
        return found

    def name(self) -> str:
        return f"{self.target.marker}-{self.random.getrandbits(64):016x}"


# ---- hostile roles -------------------------------------------------------------------------------


def never_read(role: Role) -> int:
    """Asks for all that may be asked for, once, and reads nothing of it."""
    if role.held:
        return 0
    for _ in range(role.memory["count"]):
        role.dial(receive_bytes=4096).sendall(fetch_frame(BULK_PARTITION, 0, max_wait_ms=0))
    return len(role.held)


def phantom_groups(role: Role) -> int:
    """Asks for member ids in groups of random names, for as long as it is allowed, and does not
    come back; now and then joins one and is never heard of again."""
    given = 0
    for _ in range(20):
        answer = role.connection().request(_join(role.name(), 5, session_ms=MAX_SESSION_MS))
        given += answer.error_code.value == _MEMBER_ID_REQUIRED
    if role.random.random() < 0.05:
        role.connection().request(_join(role.name(), 2, session_ms=6000))
    return given


def ask_for_unknown_groups(role: Role) -> int:
    """Heartbeats, positions and descriptions of groups that do not exist."""
    connection, name = role.connection(), role.name()
    for api, version, fields in (
        (ApiKey.HEARTBEAT, 3, {"group_id": name, "generation_id": 1, "member_id": "m"}),
        (ApiKey.OFFSET_FETCH, 5, {"group_id": name, "topics": None}),
        (ApiKey.DESCRIBE_GROUPS, 3, {"groups": [name]}),
        (ApiKey.LEAVE_GROUP, 2, {"group_id": name, "member_id": "m"}),
    ):
        connection.request(_entity(api, version, **fields))
    return 4


def heartbeats(role: Role) -> int:
    """A lawful member that shows itself far too often, with the longest of sessions."""
    connection = role.connection()
    if "member" not in role.memory:
        group_id = role.name()
        joined = connection.request(_join(group_id, 2, session_ms=MAX_SESSION_MS))
        ours = {"group_id": group_id, "generation_id": joined.generation_id}
        ours["member_id"] = joined.member_id
        assignments = [{"member_id": joined.member_id, "assignment": b""}]
        connection.request(_entity(ApiKey.SYNC_GROUP, 2, **ours, assignments=assignments))
        role.memory["member"] = ours
    beat = _entity(ApiKey.HEARTBEAT, 2, **role.memory["member"])
    for _ in range(50):
        if connection.request(beat).error_code.value:
            raise ConnectionError("the member was dropped")
    return 50


def endless_produces(role: Role) -> int:
    """acks=all, and all the time in the world for it."""
    frame = bytearray(produce_frame(BUSY_PARTITION, value_bytes=100, acks=-1))
    at = frame.index(struct.pack(">hi", -1, 30000)) + 2
    frame[at : at + 4] = struct.pack(">i", role.random.choice((DAYS_MS, -1, -(2**31))))
    sock = role.held[0] if role.held else role.dial()
    for _ in range(20):
        sock.sendall(frame)
        (size,) = struct.unpack(">i", receive(sock, 4))
        receive(sock, size)
    return 20


def patient_fetches(role: Role) -> int:
    """Fetches that would wait for weeks: for more than ever comes, and left behind."""
    frame = fetch_frame(STILL_PARTITION, 0, max_wait_ms=DAYS_MS)
    for _ in range(5):
        role.dial().sendall(frame)
    while len(role.held) > 20:
        role.held.pop(0).close()
    return 5


def satisfied_fetches(role: Role) -> int:
    """Fetches that would wait for weeks, and get what they wait for at once."""
    connection = role.connection()
    offset = role.memory.get("offset", 0)
    fetch = _fetch(BUSY_PARTITION, offset, max_wait_ms=DAYS_MS, max_bytes=65536, min_bytes=1)
    (answer,) = connection.request(fetch).responses
    (partition,) = answer.partitions
    role.memory["offset"] = max(offset, partition.high_watermark)
    return 1


def random_bytes(role: Role) -> int:
    """Frames of the right size with anything in them, and bytes that are no frame at all."""
    for _ in range(5):
        body = role.random.randbytes(role.random.randrange(1, 2000))
        head = struct.pack(">i", len(body)) if role.random.random() < 0.7 else b""
        if role.random.random() < 0.3:
            # A header that can be read, and nonsense behind it.
            body = struct.pack(">hhih", role.random.randrange(70), role.random.randrange(13), 1, -1)
            body += role.random.randbytes(50)
            if body[:2] in _ORDERS:
                continue
            head = struct.pack(">i", len(body))
        sock = role.dial()
        sock.sendall(head + body)
    while len(role.held) > 10:
        role.held.pop(0).close()
    return 5


def half_frames(role: Role) -> int:
    """Claims large frames, sends the beginning of each, and stays."""
    for _ in range(2):
        sock = role.dial()
        sock.sendall(struct.pack(">i", 90 * 1024 * 1024) + bytes(64 * 1024))
    while len(role.held) > 20:
        role.held.pop(0).close()
    return 2


def wrong_lengths(role: Role) -> int:
    for size in (-1, -(2**31), 2**31 - 1, 104857601):
        sock = role.dial()
        sock.sendall(struct.pack(">i", size) + b"x" * 100)
    role.drop_all()
    return 4


def churn(role: Role) -> int:
    """Connects and leaves, politely and not, some without waiting for what they asked for. Little
    enough of that to leave a slow machine time for others."""
    for number in range(10):
        sock = role.dial()
        if number % 2:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if number % 3 == 0:
            sock.sendall(fetch_frame(BULK_PARTITION, 0, max_wait_ms=0, max_bytes=1024 * 1024))
    role.drop_all()
    return 10


def wandering_names(role: Role) -> int:
    """Topics whose names would be paths."""
    marker = role.target.marker
    paths = ("../{}", "../../{}", "/tmp/{}", "a/../../{}", "{}\0")
    names = [path.format(marker) for path in paths]
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    connection = role.connection()
    answer = connection.request(_entity(ApiKey.CREATE_TOPICS, 5, topics=topics, timeout=1000))
    if not all(topic.error_code.value for topic in answer.topics):
        raise ConnectionError("a topic was made whose name is a path")
    connection.request(_entity(ApiKey.METADATA, 5, topics=[{"name": name} for name in names]))
    return len(names)


ROLES: Final[Mapping[str, tuple[Callable[[Role], int], float]]] = {
    "never_read": (never_read, 1.0),
    "phantom_groups": (phantom_groups, 0.1),
    "ask_for_unknown_groups": (ask_for_unknown_groups, 0.1),
    "heartbeats": (heartbeats, 0.1),
    "endless_produces": (endless_produces, 0.1),
    "patient_fetches": (patient_fetches, 0.2),
    "satisfied_fetches": (satisfied_fetches, 0.02),
    "random_bytes": (random_bytes, 0.2),
    "half_frames": (half_frames, 0.5),
    "wrong_lengths": (wrong_lengths, 0.3),
    "churn": (churn, 0.5),
    "wandering_names": (wandering_names, 1.0),
}
"""What each does, and its pause in between."""


@contextlib.contextmanager
def hostile_clients(
    target: Target, fetchers: int, names: Collection[str] = ()
) -> Iterator[dict[str, Role]]:
    """These roles (none: all) at work, for the length of a ``with``; all their connections are
    closed after."""
    roles = {}
    stop = threading.Event()
    threads = []
    for number, (name, (act, pause_s)) in enumerate(ROLES.items()):
        if names and name not in names:
            continue
        role = Role(target, pause_s, act, random=random.Random(target.seed + number))
        role.memory["count"] = fetchers
        roles[name] = role
        threads.append(threading.Thread(target=_play, args=(role, stop), name=name, daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield roles
    finally:
        stop.set()
        for thread in threads:
            thread.join(2 * _PATIENCE_S)
        for role in roles.values():
            role.drop_all()


def _play(role: Role, stop: threading.Event) -> None:
    while not stop.wait(role.pause_s):
        try:
            role.attempts += role.act(role)
        except (OSError, WireClientError):
            # Hostile clients are cut off now and then; they begin again.
            role.drop_all()
            role.memory.pop("member", None)


# ---- requests ------------------------------------------------------------------------------------

_ORDERS: Final = {
    struct.pack(">h", key)
    for key in (*range(4, 8), 19, 20, 21, 22, 23, 33, 37, 42, 43, 44, 45, 47, 56)
}
"""Api keys whose nonsense might come out as a lawful order to change the cluster."""


def _entity(api: ApiKey, version: int, **fields: Any) -> Any:
    return build(request_class(api, version), **fields)


def _join(group_id: str, version: int, *, session_ms: int) -> Any:
    return _entity(
        ApiKey.JOIN_GROUP,
        version,
        group_id=group_id,
        member_id="",
        session_timeout=session_ms,
        rebalance_timeout=session_ms,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )


def _fetch(partition: int, offset: int, *, max_wait_ms: int, max_bytes: int, min_bytes: int) -> Any:
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return _entity(
        ApiKey.FETCH,
        4,
        replica_id=-1,
        max_wait=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        topics=[{"topic": TOPIC, "partitions": [asked]}],
    )


def fetch_frame(
    partition: int, offset: int, *, max_wait_ms: int, max_bytes: int = FETCH_BYTES
) -> bytes:
    """A Fetch that is content with no less than it may have; by default as much as a broker
    gives."""
    entity = _fetch(
        partition, offset, max_wait_ms=max_wait_ms, max_bytes=max_bytes, min_bytes=max_bytes
    )
    return encode_request(entity, 1, "soak")


def receive(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        if not chunk:
            raise ConnectionError("closed by the broker")
        data += chunk
    return data
