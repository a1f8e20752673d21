"""The same requests about groups, careless and hostile ones among them, to this broker and to
Apache Kafka: the same answers, and the same who wait.

Each story is one group's: requests drawn from a seed, with members, generations and static ids that
fit now and then. Member ids are each broker's own; in a story they are called by the request that
they were given in. What Kafka draws by chance (who leads after a leader left, which of two equally
wanted strategies is chosen) ends a story. Left out is where the two are known to differ:

* groups of which nothing came (this broker forgets them at once, Kafka with its next check), and
  empty ones that somebody was given an id for (this broker waits for him): every story begins with
  a generation, and ends with what may delete its group;
* where Kafka trips: subscriptions that are none, OffsetFetch of no groups, strategies named twice;
* answers to what was asked twice (Kafka says some of it twice, too): such rows count once.

``BIPLANE_GROUPS_STORIES`` and ``BIPLANE_GROUPS_SEED`` ask for more, or for others.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import select
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.one_broker import create_topic, one_broker
from harness.runtime.protocol import SetupError
from harness.sut.kafka_jars import ZOOKEEPER_LINE, libs_dir
from nodes.wire.apis import SUPPORTED, ApiKey, request_class
from nodes.wire.client import Connection
from nodes.wire.codec import build, decode_response, encode_request

pytestmark = pytest.mark.cluster

STORIES = int(os.environ.get("BIPLANE_GROUPS_STORIES", "40"))
SEED = int(os.environ.get("BIPLANE_GROUPS_SEED", "291"))
PATIENCE_S = 60.0
QUIET_S = 0.1
"""Who has not answered by then, when the other has not either, is taken to wait."""
LONG = timedelta(minutes=20)
"""No session and no rebalance ends in a story: what waits does so for others."""
CONFIGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "4",
    "offset.metadata.max.bytes": "10",
}
WAITS = "waits"
CLOSED = "closed"

Call = tuple[ApiKey, int, dict[str, Any]]


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


SUBSCRIPTIONS = [subscription("load"), subscription("load", "other"), subscription()]


class Side:
    """One broker: what it was asked and has not answered yet, and its names for members."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._waiting: dict[int, tuple[socket.socket, bytearray, ApiKey, int]] = {}
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._answers: dict[int, Any] = {}

    def ask(self, number: int, call: Call) -> None:
        api, version, fields = call
        entity = build(request_class(api, version), **self._with_ids(fields))
        sock = socket.create_connection(("127.0.0.1", self._port), PATIENCE_S)
        sock.sendall(encode_request(entity, number, "client"))
        sock.setblocking(False)
        self._waiting[number] = (sock, bytearray(), api, version)

    @property
    def waiting(self) -> set[int]:
        return set(self._waiting)

    @property
    def sockets(self) -> list[socket.socket]:
        return [sock for sock, *_ in self._waiting.values()]

    def read(self) -> None:
        for number, (sock, got, api, version) in list(self._waiting.items()):
            try:
                while chunk := sock.recv(65536):
                    got.extend(chunk)
            except BlockingIOError:
                if len(got) < 4 or len(got) < 4 + struct.unpack_from(">i", got)[0]:
                    continue
                answer = plain(decode_response(api, version, bytes(got[4:]))[1])
                self._learn(number, api, answer)
                self._answers[number] = answer
            else:
                self._answers[number] = CLOSED
            sock.close()
            del self._waiting[number]

    def take(self) -> dict[int, Any]:
        """What was answered since: with names, however late the answer came that gave one."""
        taken = {number: self._with_names(answer) for number, answer in self._answers.items()}
        self._answers.clear()
        return taken

    def forget(self) -> None:
        """The story is over."""
        for sock in self.sockets:
            sock.close()
        for held in (self._waiting, self._ids, self._names, self._answers):
            held.clear()

    def _learn(self, number: int, api: ApiKey, answer: Mapping[str, Any]) -> None:
        member_id = answer.get("member_id")
        if api is ApiKey.JOIN_GROUP and member_id and member_id not in self._names:
            name = f"M{number}"
            self._ids[name], self._names[member_id] = member_id, name

    def _with_ids(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: self._with_ids(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [self._with_ids(item, key) for item in value]
        return self._ids.get(value, value) if key == "member_id" else value

    def _with_names(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: self._with_names(v, k) for k, v in value.items() if k != "throttle_time"}
        if isinstance(value, list):
            rows = {json.dumps(self._with_names(item), sort_keys=True) for item in value}
            return [json.loads(row) for row in sorted(rows)]
        if key in ("member_id", "leader"):
            # One of whom its client has not heard yet has no name.
            return self._names.get(value, "?" if len(value) > 30 else value)
        return value


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is None or isinstance(value, bool | str):
        return value
    return int(getattr(value, "value", value))


class Story:
    """Draws requests of one group. `hear` what was answered, and what fits becomes likelier."""

    def __init__(self, rng: random.Random, group: str) -> None:
        self._rng = rng
        self.group = group
        self._generation = 0
        self._members: list[str] = []
        self._static: dict[str, str] = {}
        self._asked_as: dict[int, str | None] = {}

    def calls(self) -> Iterator[tuple[int, Call]]:
        yield 1, self._join(3, member_id="", protocol_type="consumer", names=["range"])
        draws = [self._joins] * 5 + [self._syncs] * 4 + [self._heartbeats] * 2
        draws += [self._leaves, self._commits, self._commits, self._fetches, self._describes]
        length = self._rng.choice([10, 20, 30])
        for number in range(2, length):
            call = self._rng.choice(draws)()
            if call[0] is ApiKey.JOIN_GROUP:
                self._asked_as[number] = call[2].get("group_instance_id")
            yield number, call
        yield length, self._describes()
        yield length + 1, self._deletes()

    def hear(self, number: int, answer: Any) -> None:
        if answer == CLOSED or "generation_id" not in answer:
            return
        name = answer["member_id"]
        if name == f"M{number}":
            self._members.append(name)
            if (instance := self._asked_as.get(number)) is not None:
                self._static[name] = instance
        if answer["error_code"] == 0:
            self._generation = answer["generation_id"]

    # ---- parts -----------------------------------------------------------------------------------

    def _version(self, api: ApiKey) -> int:
        low, high = SUPPORTED[api]
        return self._rng.choice([high, high, self._rng.randint(low, high)])

    def _member(self) -> str:
        known = self._members[-5:] if self._rng.random() < 0.85 else []
        return self._rng.choice(known or ["", "", "bogus"])

    def _instance(self, member: str) -> str | None:
        if self._rng.random() < 0.8:
            return self._static.get(member)
        return self._rng.choice(["i1", "i2", "", None])

    def _a_generation(self) -> int:
        now = self._generation
        return self._rng.choice([now] * 8 + [-1, 0, now - 1, now + 1, 2**31 - 1, -(2**31)])

    def _group_id(self, *others: str) -> str:
        return self._rng.choice([self.group] * 20 + ["", *others])

    def _any_group_id(self) -> str:
        """For requests that make no group."""
        return self._group_id(f"not {self.group}")

    def _topics(self, row: Any) -> list[dict[str, Any]]:
        name = self._rng.choice(["load", "load", "other", "nope", "", "__consumer_offsets"])
        indexes = self._rng.sample([0, 1, 2, 7, -1, 2**31 - 1], self._rng.randint(1, 3))
        return [{"name": name, "partitions": [row(index) for index in indexes]}]

    # ---- requests --------------------------------------------------------------------------------

    def _join(
        self, version: int, *, member_id: str, protocol_type: str, names: Sequence[str], **more: Any
    ) -> Call:
        fields = {
            "group_id": self.group,
            "session_timeout": LONG,
            "rebalance_timeout": LONG,
            "member_id": member_id,
            "protocol_type": protocol_type,
            "protocols": [
                {"name": name, "metadata": self._rng.choice(SUBSCRIPTIONS)} for name in names
            ],
            **more,
        }
        return ApiKey.JOIN_GROUP, version, fields

    def _joins(self) -> Call:
        rng, member = self._rng, self._member()
        names = rng.choice([["range"]] * 4 + [["range", "sticky"], ["sticky", "range"], ["x"], []])
        more: dict[str, Any] = {"group_id": self._group_id()}
        if rng.random() < 0.1:
            more["session_timeout"] = timedelta(milliseconds=rng.choice([0, -1, 2**31 - 1]))
        return self._join(
            self._version(ApiKey.JOIN_GROUP),
            member_id=member,
            protocol_type=rng.choice(["consumer"] * 9 + ["connect", ""]),
            names=names,
            group_instance_id=self._instance(member),
            **more,
        )

    def _syncs(self) -> Call:
        rng, member = self._rng, self._member()
        assigned = rng.choice([self._members, self._members, [*self._members, "bogus"], []])
        fields = {
            "group_id": self._any_group_id(),
            "generation_id": self._a_generation(),
            "member_id": member,
            "group_instance_id": self._instance(member),
            "protocol_type": rng.choice(["consumer"] * 8 + [None, "x"]),
            "protocol_name": rng.choice(["range"] * 8 + [None, "x"]),
            "assignments": [{"member_id": m, "assignment": m.encode()} for m in assigned],
        }
        return ApiKey.SYNC_GROUP, self._version(ApiKey.SYNC_GROUP), fields

    def _heartbeats(self) -> Call:
        member = self._member()
        fields = {
            "group_id": self._any_group_id(),
            "generation_id": self._a_generation(),
            "member_id": member,
            "group_instance_id": self._instance(member),
        }
        return ApiKey.HEARTBEAT, self._version(ApiKey.HEARTBEAT), fields

    def _leaves(self) -> Call:
        members = [self._member() for _ in range(self._rng.randint(0, 2))]
        fields = {
            "group_id": self._any_group_id(),
            "member_id": self._member(),
            "members": [{"member_id": m, "group_instance_id": self._instance(m)} for m in members],
        }
        return ApiKey.LEAVE_GROUP, self._version(ApiKey.LEAVE_GROUP), fields

    def _commits(self) -> Call:
        rng, member = self._rng, self._member()

        def row(index: int) -> dict[str, Any]:
            said = rng.choice(["", "ten letter", "eleven more"])
            return {
                "partition_index": index,
                "committed_offset": rng.choice([0, 77, -1, 2**63 - 1]),
                "committed_metadata": said,
            }

        fields = {
            "group_id": self._group_id(),
            "generation_id_or_member_epoch": self._a_generation(),
            "member_id": member,
            "group_instance_id": self._instance(member),
            "retention_time": -1,
            "topics": self._topics(row),
        }
        return ApiKey.OFFSET_COMMIT, self._version(ApiKey.OFFSET_COMMIT), fields

    def _fetches(self) -> Call:
        topics = [{"name": "load", "partition_indexes": (0, 1, 7)}]
        version = self._version(ApiKey.OFFSET_FETCH)
        asked = self._rng.choice([topics, None]) if version >= 2 else topics
        groups = [{"group_id": self._any_group_id(), "topics": asked}]
        fields = {"group_id": self._any_group_id(), "topics": asked, "groups": groups}
        return ApiKey.OFFSET_FETCH, version, fields

    def _deletes(self) -> Call:
        if self._rng.random() < 0.5:
            groups = {"groups_names": [self.group, "", f"not {self.group}"]}
            return ApiKey.DELETE_GROUPS, self._version(ApiKey.DELETE_GROUPS), groups
        topics = self._topics(lambda index: {"partition_index": index})
        return ApiKey.OFFSET_DELETE, 0, {"group_id": self.group, "topics": topics}

    def _describes(self) -> Call:
        fields = {
            "groups": [self.group, f"not {self.group}"],
            "include_authorized_operations": self._rng.random() < 0.5,
        }
        return ApiKey.DESCRIBE_GROUPS, self._version(ApiKey.DESCRIBE_GROUPS), fields


def settle(sides: Sequence[Side]) -> None:
    """Until both have answered the same, and what they have not is taken to wait at both."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        for side in sides:
            side.read()
        one, other = (side.waiting for side in sides)
        sockets = [sock for side in sides for sock in side.sockets]
        if not sockets:
            return
        ready, _, _ = select.select(sockets, [], [], QUIET_S)
        if not ready and one == other:
            return


def by_chance(one: Any, other: Any) -> bool:
    """Whether two answers to a join differ in what Kafka leaves to chance."""
    return (
        isinstance(one, dict)
        and isinstance(other, dict)
        and one.get("error_code") == other.get("error_code") == 0
        and any(one.get(what) != other.get(what) for what in ("leader", "protocol_name"))
    )


def play(story: Story, ours: Side, kafkas: Side) -> str | None:
    """What differed, with all that led to it."""
    told: list[str] = []
    for number, call in story.calls():
        for side in (ours, kafkas):
            side.ask(number, call)
        told.append(f"{number}: {call[0].name} v{call[1]} {call[2]}")
        settle((ours, kafkas))
        answers, theirs = ours.take(), kafkas.take()
        for heard in sorted({*answers, *theirs}):
            one, other = answers.get(heard, WAITS), theirs.get(heard, WAITS)
            told.append(f"   {heard} -> {one}")
            if by_chance(one, other):
                return None
            if one != other:
                return "\n".join([*told, f"   Kafka: {heard} -> {other}"])
            story.hear(heard, one)
    return None


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    """(this broker, Apache Kafka), each with its groups' topic."""
    try:
        kafka: Path = libs_dir(ZOOKEEPER_LINE)
    except SetupError as lacking:
        pytest.skip(str(lacking))
    with (
        one_broker(dual=True, partitions=3, overrides=CONFIGS) as ours,
        one_broker(dual=True, partitions=3, overrides=CONFIGS, kafka=kafka) as theirs,
    ):
        for broker in (ours, theirs):
            with Connection("127.0.0.1", broker.client_port, "test", PATIENCE_S) as client:
                create_topic(client, 2, "other")
                wait_for_coordinator(client)
        yield Side(ours.client_port), Side(theirs.client_port)


def wait_for_coordinator(client: Connection) -> None:
    """Until the groups' topic is there, and each of its partitions is coordinated."""
    find = build(request_class(ApiKey.FIND_COORDINATOR, 4), coordinator_keys=["g"], key_type=0)
    groups = [{"group_id": f"g{i}", "topics": None} for i in range(30)]
    fetch = build(request_class(ApiKey.OFFSET_FETCH, 8), groups=groups)
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        errors = {int(row.error_code) for row in client.request(find).coordinators}
        errors |= {int(row.error_code) for row in client.request(fetch).groups}
        if errors == {0}:
            return
        assert time.monotonic() < deadline_s, errors
        time.sleep(0.1)


def test_the_same_is_answered(sides: tuple[Side, Side]) -> None:
    rng = random.Random(SEED)
    differing = []
    for number in range(STORIES):
        difference = play(Story(rng, f"g{number}"), *sides)
        if difference is not None:
            differing.append(difference)
        for side in sides:
            side.forget()
    assert not differing, f"{len(differing)} of {STORIES} stories:\n" + "\n\n".join(differing[:3])
