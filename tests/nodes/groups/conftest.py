"""A coordinator over logs in memory. Appends complete at once, later, or with an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.core.rules import RULES
from nodes.core.types import TopicPartition
from nodes.groups.coordinator import GroupCoordinator
from nodes.groups.group import JoinRequest, JoinResult, SyncResult
from nodes.groups.store import OFFSETS_TOPIC
from nodes.replication.model import ProduceResult
from nodes.wire.records import iter_batches, rewrite_base


class MemoryLog:
    def __init__(self) -> None:
        self.data = b""
        self.log_start_offset = 0
        self.log_end_offset = 0

    def append(self, batch: bytes) -> None:
        placed = bytearray(batch)
        rewrite_base(placed, 0, self.log_end_offset, 0)
        self.data += bytes(placed)
        self.log_end_offset += next(iter_batches(placed)).header.last_offset_delta + 1

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int | None = None, min_one: bool = True
    ) -> bytes:
        """One batch at a time, so that readers have to go on."""
        for view in iter_batches(self.data):
            if view.header.next_offset > offset:
                return self.data[view.position : view.position + view.size_bytes]
        return b""


class MemoryReplicas:
    """What a coordinator needs of a ReplicaManager."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.rules = RULES
        self.acks: list[int] = []
        self.error = 0
        self.is_held = False
        self.held: list[Callable[[], None]] = []

    def log(self, partition: int) -> MemoryLog:
        return self.logs.setdefault(TopicPartition(OFFSETS_TOPIC, partition), MemoryLog())

    def partition(self, tp: TopicPartition) -> Any:
        # It knows nothing to be committed yet: what there is counts all the same.
        return SimpleNamespace(log=self.log(tp.partition), high_watermark=0)

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, bytes],
        respond: Callable[[dict[TopicPartition, ProduceResult]], None],
    ) -> None:
        self.acks.append(required_acks)
        results = {}
        for tp, batch in entries.items():
            at = self.log(tp.partition).log_end_offset
            results[tp] = ProduceResult(self.error, -1 if self.error else at)
            if not self.error:
                self.log(tp.partition).append(batch)
        if self.is_held:
            self.held.append(lambda: respond(results))
        else:
            respond(results)

    def release(self) -> None:
        self.is_held = False
        held, self.held = self.held, []
        for answer in held:
            answer()


class Answer:
    def __init__(self) -> None:
        self._done = threading.Event()
        self.value: Any = None

    def __call__(self, value: Any) -> None:
        assert not self._done.is_set(), "answered twice"
        self.value = value
        self._done.set()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self) -> Any:
        assert self._done.wait(60), "no answer"
        return self.value


class Client:
    """One member, request by request."""

    def __init__(
        self, coordinator: GroupCoordinator, group_id: str = "g", instance_id: str | None = None
    ) -> None:
        self.coordinator = coordinator
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.is_leader = False

    def send_join(self, **changes: Any) -> Answer:
        fields: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "rebalance_timeout_ms": 10_000,
            "session_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": (("range", b"sub"),),
            "requires_member_id": False,
            "may_skip_assignment": False,
        }
        answer = Answer()
        self.coordinator.join(JoinRequest(**(fields | changes)), answer)
        return answer

    def joined(self, answer: Answer) -> JoinResult:
        result: JoinResult = answer.wait()
        self.member_id = result.member_id
        self.generation = result.generation
        self.is_leader = result.leader == result.member_id
        return result

    def join(self, **changes: Any) -> JoinResult:
        return self.joined(self.send_join(**changes))

    def send_sync(self, assignments: Mapping[str, bytes] | None = None) -> Answer:
        answer = Answer()
        self.coordinator.sync(
            self.group_id,
            self.generation,
            self.member_id,
            self.instance_id,
            ("consumer", "range"),
            assignments or {},
            answer,
        )
        return answer

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> SyncResult:
        result: SyncResult = self.send_sync(assignments).wait()
        return result

    def heartbeat(self) -> int:
        return int(
            self.coordinator.heartbeat(
                self.group_id, self.generation, self.member_id, self.instance_id
            )
        )

    def leave(self) -> int:
        _, (error,) = self.coordinator.leave(self.group_id, [(self.member_id, self.instance_id)])
        return int(error)

    def commit(self, offsets: Mapping[TopicPartition, Any], **changes: Any) -> Answer:
        """The answer is one error, where all positions share it."""
        fields = {"generation": self.generation, "member_id": self.member_id} | changes
        answer = Answer()
        self.coordinator.commit_offsets(
            self.group_id,
            fields["generation"],
            fields["member_id"],
            self.instance_id,
            offsets,
            lambda errors: answer(errors if len({*errors.values()}) > 1 else min(errors.values())),
        )
        return answer


class StillClock:
    """Time that passes when a test says so: no deadline is missed because the machine is busy."""

    def __init__(self) -> None:
        self._now_ns = time.monotonic_ns()

    def __call__(self) -> int:
        return self._now_ns

    def advance(self, ms: int) -> None:
        self._now_ns += ms * 1_000_000


def make_config(**changes: Any) -> Any:
    fields = {
        "broker_id": 1,
        "offsets_topic_num_partitions": 4,
        "offsets_commit_timeout_ms": 1000,
        "offset_metadata_max_bytes": 10,
        "offsets_retention_minutes": 1,
        "offsets_retention_check_interval_ms": 3_600_000,
        "group_min_session_timeout_ms": 10,
        "group_max_session_timeout_ms": 100_000,
        "group_max_size": 3,
        "group_initial_rebalance_delay_ms": 0,
    }
    return SimpleNamespace(**(fields | changes))


@pytest.fixture
def replicas() -> MemoryReplicas:
    return MemoryReplicas()


@pytest.fixture
def make_coordinator(replicas: MemoryReplicas) -> Iterator[Callable[..., GroupCoordinator]]:
    made: list[GroupCoordinator] = []

    def make(
        *,
        owns: bool = True,
        clock: StillClock | None = None,
        partition_count: int = 0,
        now_ms: Callable[[], int] = lambda: 1_700_000_000_000,
        **changes: Any,
    ) -> GroupCoordinator:
        manager: Any = replicas
        coordinator = GroupCoordinator(make_config(**changes), manager, now_ms=now_ms)
        if clock is not None:
            coordinator.timer._now_ns = clock
        coordinator.startup(partition_count)
        made.append(coordinator)
        if owns:
            for partition in range(4):
                coordinator.on_election(partition)
            wait_for(lambda: coordinator.list_groups(())[0] == 0)
        return coordinator

    yield make
    for coordinator in made:
        coordinator.shutdown()


@pytest.fixture
def coordinator(make_coordinator: Callable[..., GroupCoordinator]) -> GroupCoordinator:
    return make_coordinator()


@pytest.fixture
def make_client(coordinator: GroupCoordinator) -> Callable[..., Client]:
    return lambda **fields: Client(coordinator, **fields)


@pytest.fixture
def clock() -> StillClock:
    """To be handed to `make_coordinator`, for its sessions and rebalances."""
    return StillClock()


@pytest.fixture
def until() -> Callable[..., None]:
    return wait_for


@pytest.fixture
def client_of() -> type[Client]:
    return Client


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.002)
