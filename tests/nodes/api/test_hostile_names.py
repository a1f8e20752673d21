"""No name that comes over the wire makes, changes or deletes anything outside of the log directory.

Requests go through the real handlers to a real log directory, which lies deep inside a tree of
canaries: files and folders where a name with ``/`` or ``..`` in it would lead. Absolute names lead
into the same tree, so that a broker that obeyed them would do no harm beyond the test's folder.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.client import Connection
from nodes.wire.codec import build
from tests.nodes.api.serving import ANY_PORT, serving

INVALID = int(Errors.INVALID_TOPIC_EXCEPTION)
BROKER_ID, BROKER_EPOCH = 1, 100
CANARY = "canary"
EVIDENCE = ("leader_change", "replica_stop", "metadata_update")
"""What the broker says in its trace that it has done."""
EXAMPLES = settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def lawful(name: str) -> bool:
    """Kafka's rule, spelled out once more."""
    return re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is not None and name not in (".", "..")


# At most three steps up, as the log directory lies deeper than that below the canaries.
UP = st.integers(1, 3).map(lambda steps: "../" * steps)
PIECES = st.sampled_from(
    ["/", "./", "a/", "//", "\0", "\n", " ", "\\", "é", "²", "%2e%2e%2f", "~", "$HOME", "*", ":"]
)
TAILS = st.sampled_from(["", ".", "..", CANARY, f"{CANARY}/t", f"{CANARY}-0/x", "t", "data-evil"])
HOSTILE = st.one_of(
    st.builds(lambda up, piece, tail: up + piece + tail, UP, st.just("") | PIECES, TAILS),
    st.builds(lambda piece, tail: piece + tail, PIECES, TAILS),
    st.builds(lambda tail: f"a/../{tail}", TAILS),
    st.sampled_from(["", ".", "..", "t\n", "a" * 250, "a/b", "/", "..-0/x"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=260),
).filter(lambda name: not lawful(name))
LAWFUL = st.one_of(
    st.text("abcXYZ019._-", min_size=1, max_size=249),
    st.sampled_from(["...", "-", "a-0", "..a", "a..", ".a", "-delete", "x" * 249]),
).filter(lawful)
IMPOSSIBLE = st.sampled_from([-1, -2, -(2**31)])

Tree = Mapping[str, tuple[int, bytes]]


def tree(root: Path, *, but: Path) -> Tree:
    """Everything below a folder, links not followed: type, and what is in it."""
    found: dict[str, tuple[int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if Path(folder, name) != but]
        for name in (*folders, *files):
            path = Path(folder, name)
            kind = stat.S_IFMT(path.lstat().st_mode)
            content = path.read_bytes() if stat.S_ISREG(kind) else b""
            found[str(path)] = kind, content
    return found


class Trap:
    """A node whose log directory is surrounded by canaries."""

    def __init__(self, make_node: Callable[..., Any], root: Path) -> None:
        self.root = root / "trap"
        deep = self.root / "1" / "2" / "3" / "4"
        for folder in (deep, *deep.parents):
            if folder.is_relative_to(self.root):
                for name in (CANARY, f"{CANARY}-0", "t-0", "data-evil-0"):
                    (folder / name / "t-0").mkdir(parents=True)
                    (folder / name / f"{0:020d}.log").write_bytes(b"not a record batch")
                    (folder / name / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        self.data = deep / "data"
        self.node = make_node(
            **ANY_PORT,
            **{
                "log.dirs": str(self.data),
                # Nothing but requests is to make files.
                "replica.high.watermark.checkpoint.interval.ms": str(10**12),
            },
        )
        self.data.mkdir()
        self.now_ms = 0
        manager = self.node.log_manager
        manager.log_dirs[:] = [self.data]
        manager._now_ms = lambda: self.now_ms
        self.before = tree(self.root, but=self.data)

    def name(self, name: str) -> str:
        """An absolute name is led into the tree."""
        return f"{self.root}{name}" if name.startswith("/") else name

    def check(self) -> None:
        assert tree(self.root, but=self.data) == self.before

    def remove_what_is_due(self) -> None:
        self.now_ms += 3_600_000
        self.node.log_manager.cleanup(lambda _tp: None)

    def logs(self) -> set[str]:
        return set(os.listdir(self.data))


@pytest.fixture
def trap(make_node: Callable[..., Any], tmp_path: Path) -> Trap:
    return Trap(make_node, tmp_path)


def state(partition: int, *, leader_epoch: int = 0, epoch_name: str) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "controller_epoch": 1,
        "leader": BROKER_ID,
        "leader_epoch": leader_epoch,
        "isr": [BROKER_ID],
        epoch_name: leader_epoch,
        "replicas": [BROKER_ID],
    }


def order(**fields: Any) -> dict[str, Any]:
    return {
        "controller_id": BROKER_ID,
        "controller_epoch": 1,
        "broker_epoch": BROKER_EPOCH,
        **fields,
    }


def leader_and_isr(version: int, topics: list[tuple[str, int]]) -> dict[str, Any]:
    states = [
        {
            "topic_name": name,
            "topic_id": uuid.uuid4(),
            "partition_states": [state(partition, epoch_name="partition_epoch")],
        }
        for name, partition in topics
    ]
    if version < 5:
        for row in states:
            del row["topic_id"]
    return order(type_=0, topic_states=states, live_leaders=[])


def stop_replica(version: int, topics: list[tuple[str, int]]) -> dict[str, Any]:
    if version < 3:
        rows = [{"name": name, "partition_indexes": [p]} for name, p in topics]
        return order(delete_partitions=True, topics=rows)
    deleting = {"leader_epoch": -2, "delete_partition": True}
    return order(
        topic_states=[
            {"topic_name": name, "partition_states": [{"partition_index": p, **deleting}]}
            for name, p in topics
        ]
    )


def update_metadata(node: Any, topics: list[tuple[str, int]]) -> dict[str, Any]:
    rows = [
        {
            "topic_name": name,
            "topic_id": uuid.uuid4(),
            "partition_states": [state(partition, epoch_name="zk_version")],
        }
        for name, partition in topics
    ]
    return order(topic_states=rows, live_brokers=[node.own_broker()])


def led(answer: Any) -> list[int]:
    if hasattr(answer, "topics"):
        return [int(p.error_code) for topic in answer.topics for p in topic.partition_errors]
    return [int(p.error_code) for p in answer.partition_errors]


def stopped(answer: Any) -> dict[tuple[str, int], int]:
    return {(p.topic_name, p.partition_index): int(p.error_code) for p in answer.partition_errors}


class TestControlRequests:
    @pytest.mark.slow
    @EXAMPLES
    @given(data=st.data())
    def test_hostile_names_do_nothing_and_their_lawful_twins_all(
        self, trap: Trap, data: Any
    ) -> None:
        if data.draw(st.booleans(), "by its name"):
            hostile = (trap.name(data.draw(HOSTILE)), data.draw(st.integers(0, 3)))
        else:
            hostile = (data.draw(LAWFUL), data.draw(IMPOSSIBLE))
        twin = (f"twin-{uuid.uuid4().hex}", 0)
        node, twin_folder = trap.node, f"{twin[0]}-0"
        logs = trap.logs()

        version = data.draw(st.sampled_from([4, 7]), "LeaderAndIsr")
        body = leader_and_isr(version, [hostile, twin])
        answer = node.call(ApiKey.LEADER_AND_ISR, version, **body)
        assert (answer.error_code, led(answer)) == (0, [INVALID, 0])
        assert trap.logs() == logs | {twin_folder}
        assert node.manager.partition(TopicPartition(*hostile)) is None
        trap.check()

        answer = node.call(ApiKey.UPDATE_METADATA, 8, **update_metadata(node, [hostile, twin]))
        assert answer.error_code == INVALID
        assert not {hostile[0], twin[0]} & set(node.cache.topics())
        answer = node.call(ApiKey.UPDATE_METADATA, 8, **update_metadata(node, [twin]))
        assert answer.error_code == 0
        assert node.cache.contains(twin[0])

        version = data.draw(st.sampled_from([2, 4]), "StopReplica")
        answer = node.call(ApiKey.STOP_REPLICA, version, **stop_replica(version, [hostile, twin]))
        assert answer.error_code == 0
        assert stopped(answer) == {hostile: INVALID, twin: 0}
        (renamed,) = trap.logs() - logs
        assert re.fullmatch(rf"{twin_folder}\.[0-9a-f]{{32}}-delete", renamed)
        trap.remove_what_is_due()
        assert trap.logs() == logs
        trap.check()

    @EXAMPLES
    @given(name=LAWFUL, partition=st.integers(0, 99_999))
    @example(name="x" * 249, partition=99_999)
    @example(name="...", partition=0)
    def test_every_lawful_name_is_served(self, trap: Trap, name: str, partition: int) -> None:
        tps = [(name, partition)]
        stop = stop_replica(4, tps)
        trap.node.call(ApiKey.STOP_REPLICA, 4, **stop)
        answer = trap.node.call(ApiKey.LEADER_AND_ISR, 7, **leader_and_isr(7, tps))
        assert led(answer) == [0]
        assert f"{name}-{partition}" in trap.logs()
        answer = trap.node.call(ApiKey.STOP_REPLICA, 4, **stop)
        assert stopped(answer) == {(name, partition): 0}
        assert f"{name}-{partition}" not in trap.logs()
        trap.check()

    def test_a_name_too_long_for_a_folder_is_no_failing_disk(self, trap: Trap) -> None:
        """ENAMETOOLONG would end the broker, as any error of the disk does."""
        failed: list[Any] = []
        trap.node.log_manager._on_failure = lambda *failure: failed.append(failure)
        tps = [("x" * 249, 999_999), ("x" * 249, 99_999)]
        answer = trap.node.call(ApiKey.LEADER_AND_ISR, 4, **leader_and_isr(4, tps))
        assert led(answer) == [INVALID, 0]
        assert failed == []

    def test_a_link_in_the_log_directory_is_not_followed(self, trap: Trap) -> None:
        (trap.data / "linked-0").symlink_to(trap.root / CANARY)
        (trap.data / "dangling-0").symlink_to(trap.root / "made-by-the-broker")
        (trap.data / "other-0").symlink_to(trap.data / "own-0")
        tps = [(name, 0) for name in ("own", "linked", "dangling", "other")]
        answer = trap.node.call(ApiKey.LEADER_AND_ISR, 4, **leader_and_isr(4, tps))
        refused = int(Errors.KAFKA_STORAGE_ERROR)
        assert led(answer) == [0, refused, refused, refused]
        trap.node.call(ApiKey.STOP_REPLICA, 4, **stop_replica(4, tps))
        trap.remove_what_is_due()
        assert trap.logs() == {"linked-0", "dangling-0", "other-0"}
        trap.check()

    def test_stale_requests_are_refused_as_stale(self, trap: Trap) -> None:
        body = leader_and_isr(7, [("..", 0)]) | {"broker_epoch": BROKER_EPOCH - 1}
        answer = trap.node.call(ApiKey.LEADER_AND_ISR, 7, **body)
        assert answer.error_code == Errors.STALE_BROKER_EPOCH
        trap.node.call(
            ApiKey.LEADER_AND_ISR, 7, **(leader_and_isr(7, []) | {"controller_epoch": 9})
        )
        answer = trap.node.call(
            ApiKey.UPDATE_METADATA, 8, **update_metadata(trap.node, [("..", 0)])
        )
        assert answer.error_code == Errors.STALE_CONTROLLER_EPOCH


class TestClients:
    """Names that clients ask for by. What there is not is answered so; nothing comes to be."""

    @EXAMPLES
    @given(name=HOSTILE)
    def test_metadata_creates_nothing(self, trap: Trap, name: str) -> None:
        asked = {"topics": [{"name": trap.name(name)}], "allow_auto_topic_creation": True}
        (topic,) = trap.node.call(ApiKey.METADATA, 9, **asked).topics
        assert topic.error_code == INVALID
        assert trap.logs() == set()
        trap.check()


def test_over_a_socket(trap: Trap) -> None:
    """The same, from a stranger's connection on."""
    names = ["..", "/abs/path", "../canary", "good", "a/b", "good\0"]
    hostile = [(trap.name(name), 0) for name in names]
    with (
        serving(trap.node) as port,
        Connection("127.0.0.1", port, client_id="../../x") as connection,
    ):

        def ask(api: ApiKey, version: int, body: dict[str, Any]) -> Any:
            return connection.request(build(request_class(api, version), **body))

        answer = ask(ApiKey.LEADER_AND_ISR, 4, leader_and_isr(4, hostile))
        assert led(answer) == [INVALID, INVALID, INVALID, 0, INVALID, INVALID]
        answer = ask(ApiKey.STOP_REPLICA, 4, stop_replica(4, hostile))
        assert [code for code in stopped(answer).values() if not code] == [0]
    told = {row["topic"] for kind in EVIDENCE for row in trap.node.trace(kind)}
    assert told == {"good"}
    trap.check()
