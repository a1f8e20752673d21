"""A cluster that somebody else started: probed, tested, found wrong, and left as it was."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kazoo.client import KazooClient

from checkers.judging.verdict import Verdict
from faults.protocol import Link
from harness.cli import command
from harness.cluster.ask import ask, request
from harness.cluster.external import ExternalCluster
from harness.run import Outcome, conclude, record_run
from harness.runtime.paths import registry_dir
from harness.runtime.process import ProcessRuntime
from harness.runtime.protocol import Address
from harness.runtime.registry import records
from harness.runtime.tools import find_toxiproxy
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from harness.sut.external.asked import READS
from harness.sut.external.leaving import delete_topics
from harness.sut.external.owed import owed_dir
from harness.sut.external.system import ExternalSystem
from harness.sut.external.ways import Sign, sign_of_life
from nodes.wire.apis import ApiKey
from nodes.wire.codec import parse_body, parse_header
from tests.checkers.test_cluster import asked_for
from tests.integration.standalone import Recorder, Standalone

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(find_toxiproxy() is None, reason="no toxiproxy-server: make setup"),
]
ROOT = Path(__file__).resolve().parents[2]
FOREIGN = 25
"""Records of somebody else's."""
_THEIRS = {"orders", "__consumer_offsets"}


def answers(cluster: Standalone, node: int) -> bool:
    address = Address("127.0.0.1", cluster.ports[node][0])
    return sign_of_life(address) is Sign.ANSWERS


def started(
    folder: Path, zookeeper: str, wait_until: Callable[..., None], mutants: str = ""
) -> Standalone:
    cluster = Standalone(folder, zookeeper, mutants=mutants)
    cluster.start(wait_until, lambda node: answers(cluster, node))
    whole = {str(node) for node in cluster.ids}
    wait_until(lambda: all(members(cluster, node) == whole for node in cluster.ids))
    return cluster


def metadata(cluster: Standalone, node: int, topics: list[dict[str, str]] | None = None) -> Any:
    address = Address("127.0.0.1", cluster.ports[node][0])
    entity = request(ApiKey.METADATA, 7, topics=topics, allow_auto_topic_creation=False)
    return ask(address, entity, 10.0)


def members(cluster: Standalone, node: int) -> set[str]:
    with contextlib.suppress(Exception):
        return {str(int(b.node_id)) for b in metadata(cluster, node).brokers}
    return set()


def topics(cluster: Standalone, node: int) -> dict[str, dict[int, tuple[list[int], set[int]]]]:
    """By topic and partition: replicas, and those in sync."""
    return {
        str(t.name): {
            int(p.partition_index): (
                [int(n) for n in p.replica_nodes],
                {int(n) for n in p.isr_nodes},
            )
            for p in t.partitions
        }
        for t in metadata(cluster, node).topics
    }


@pytest.fixture(scope="module")
def theirs(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: str, wait_until: Callable[..., None]
) -> Iterator[Standalone]:
    """With a topic of theirs, ``orders``, in it."""
    folder = tmp_path_factory.mktemp("theirs") / "cluster"
    cluster = started(folder, f"{zookeeper}/theirs", wait_until)
    try:
        controller = Address("127.0.0.1", cluster.ports[int(metadata(cluster, 1).controller_id)][0])
        made = {"name": "orders", "num_partitions": 1, "replication_factor": 3}
        fields = {**made, "assignments": [], "configs": [{"name": "segment.ms", "value": "77777"}]}
        ask(controller, request(ApiKey.CREATE_TOPICS, 3, topics=[fields], timeout=10_000), 30.0)
        wait_until(lambda: all("orders" in topics(cluster, node) for node in cluster.ids))
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
        for number in range(FOREIGN):
            producer.produce("orders", str(number).encode(), partition=0)
        assert producer.flush(60) == 0
        yield cluster
    finally:
        cluster.end()


def foreign_records(cluster: Standalone) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "x"})
    try:
        consumer.assign([TopicPartition("orders", 0, 0)])
        found: list[bytes] = []
        deadline = time.monotonic() + 60
        _, end = consumer.get_watermark_offsets(TopicPartition("orders", 0), timeout=30)
        while len(found) < end and time.monotonic() < deadline:
            found += [m.value() for m in consumer.consume(100, 0.5) if m.error() is None]
        return found
    finally:
        consumer.close()


@pytest.fixture
def as_it_was(theirs: Standalone, wait_until: Callable[..., None]) -> Iterator[None]:
    """Afterwards nothing of the harness is left, and nothing of theirs is missing."""
    owed = set(owed_dir().glob("*")) if owed_dir().exists() else set()
    yield
    assert all(answers(theirs, node) for node in theirs.ids)
    for node in theirs.ids:
        wait_until(lambda node=node: set(topics(theirs, node)) <= _THEIRS, 30)
        wait_until(lambda node=node: topics(theirs, node)["orders"][0][1] == {1, 2, 3}, 30)
    assert foreign_records(theirs) == [str(n).encode() for n in range(FOREIGN)]
    assert set(owed_dir().glob("*")) <= owed
    mine = [r for _, r in records(registry_dir()) if r is not None and r.owner_pid == os.getpid()]
    assert [r.name for r in mine] == []


class Znodes:
    """All that ZooKeeper has below a chroot: (version, czxid) by path."""

    def __init__(self, zookeeper: str) -> None:
        hosts, _, self._chroot = zookeeper.partition("/")
        self._client = KazooClient(hosts)

    def read(self) -> Mapping[str, tuple[int, int]]:
        self._client.start(30)
        try:
            return dict(self._below(f"/{self._chroot}"))
        finally:
            self._client.stop()

    def _below(self, path: str) -> Iterator[tuple[str, tuple[int, int]]]:
        names, stat = self._client.get_children(path, include_data=True)
        yield path, (stat.version, stat.czxid)
        for name in names:
            yield from self._below(f"{path}/{name}")


def test_a_probe_asks_and_touches_nothing(
    theirs: Standalone,
    as_it_was: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = Znodes(theirs.zookeeper).read()
    calls = theirs.calls
    recorders = {node: Recorder(theirs.address(node)) for node in theirs.ids}
    try:
        at = {node: recorder.address for node, recorder in recorders.items()}
        file = theirs.file("probed", at, f"zookeeper: {theirs.zookeeper}\n")
        monkeypatch.setattr(sys, "argv", ["biplane", "probe", str(file), "--json"])
        assert command() == 0
    finally:
        for recorder in recorders.values():
            recorder.close()
    told = json.loads(capsys.readouterr().out)
    assert (told["exit_code"], told["in_the_way"], told["no_answer"]) == (0, [], [])
    assert told["zookeeper"]["brokers"] == [1, 2, 3]
    assert told["zookeeper"]["controller"] == int(metadata(theirs, 1).controller_id)
    assert told["session_timeout_ms"] == 2000
    played = {one["scenario"]: one["how"] for one in told["scenarios"]}
    assert (played["broker-restart"], played["log-recovery"]) == ("part", "no")
    for recorder in recorders.values():
        assert {ApiKey(api) for api in recorder.apis} == READS
        for frame in recorder.requests:
            header = parse_header(frame)
            if header.api_key == ApiKey.METADATA:
                assert parse_body(header, frame).allow_auto_topic_creation is False
    assert Znodes(theirs.zookeeper).read() == before
    assert theirs.calls == calls


def test_without_a_yes_nothing_is_played(
    theirs: Standalone,
    as_it_was: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls, store = theirs.calls, tmp_path / "store"
    options = ["run", "broker-restart", f"--sut=external:{theirs.file()}", f"--store={store}"]
    monkeypatch.setattr(sys, "argv", ["biplane", *options])
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    assert command() == 254
    assert "nobody agreed" in capsys.readouterr().err
    assert not store.exists()
    assert theirs.calls == calls


def test_clients_cannot_help_passing_the_proxies(
    theirs: Standalone, as_it_was: None, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    """librdkafka follows what brokers advertise; here that leads to the proxies."""
    sut = ExternalSystem(theirs.file())
    (planes,) = sut.plane_modes
    cluster = ExternalCluster(
        ProcessRuntime(),
        sut,
        planes,
        dir=tmp_path / "run",
        record=lambda *_, **__: None,
        rng=random.Random(1),
    )
    with cluster:
        topic = f"{cluster.own.token}-t"
        cluster.admin.create_topic(topic, {0: [1, 2, 3]}, {})
        assert cluster.wait_full_isr(None, 60)
        first = str(cluster.address(3, Link.CLIENT))
        producer = Producer({"bootstrap.servers": first, "acks": "all", "log_level": 0})
        told = producer.list_topics(topic, timeout=60).brokers
        assert {(n, b.host, b.port) for n, b in told.items()} == {
            (node, *cluster.address(node, Link.CLIENT)) for node in cluster.node_ids
        }
        producer.produce(topic, struct.pack(">q", 1), partition=0)
        assert producer.flush(60) == 0
        cluster.links.disable(1, Link.CLIENT)
        got: list[Any] = []
        producer.produce(
            topic, struct.pack(">q", 2), partition=0, on_delivery=lambda e, _: got.append(e)
        )
        assert producer.flush(3) == 1  # the leader is there, and no way leads to it
        cluster.links.enable(1, Link.CLIENT)
        wait_until(lambda: producer.flush(1) == 0)
        assert got == [None]
        assert "orders" not in {state.topic for state in cluster.view.partitions()}


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Outcome]:
    def played(cluster: Standalone, *checks: str, **settings: Any) -> Outcome:
        """Judged by these ``checks``; by all that the scenario asks for where none is named."""
        asked = Settings.of(
            sut=f"external:{cluster.file()}", store=tmp_path / "store", agreed=True, **settings
        )
        recorded = record_run(SCENARIOS["broker-restart"], asked, lambda *_: None)
        asked_for(recorded.folder, *checks)
        return conclude(recorded, lambda *_: None)

    return played


@pytest.mark.spark
def test_a_sound_cluster_is_tested_and_left_as_it_was(
    theirs: Standalone, as_it_was: None, play: Callable[..., Outcome]
) -> None:
    calls = len(theirs.calls)
    outcome = play(theirs, seed=1, time_limit_s=8)
    assert outcome.verdict is not Verdict.INVALID, outcome.reasons
    record = json.loads((outcome.folder / "run.json").read_text())
    (trial,) = record["trials"]
    assert trial["failure"] is None, trial["failure"]
    own = ["kept", "shortened", "remembered", "elsewhere", "compacted", "left"]
    assert [name.split("-", 2)[2] for name in trial["topics"]] == own
    skipped = [line for line in trial["skipped_faults"] if "lagged-kill" in line]
    assert skipped
    assert "needs links between brokers" in skipped[0]
    assert sorted(set(theirs.calls[calls:])) == ["pause", "resume", "start", "stop"]
    assert (outcome.folder / "theirs.yaml").exists()
    acknowledged = outcome.results["checks"]["truncation-loss"]["arms"]["theirs-single"]
    assert acknowledged


def test_a_run_that_is_stopped_heals_what_it_did(
    theirs: Standalone, as_it_was: None, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    calls = len(theirs.calls)
    file = theirs.file()
    options = ["run", "broker-restart", f"--sut=external:{file}", "--yes", "--seed=1"]
    options += ["--time-limit=60", f"--store={tmp_path / 'store'}"]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.cli", *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            wait_until(lambda: "stop" in theirs.calls[calls:])
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 2, (tmp_path / "output").read_text()
        finally:
            process.kill()
    assert "start" in theirs.calls[calls:]


@pytest.mark.spark
def test_a_bug_is_found_through_the_black_box(
    tmp_path: Path,
    zookeeper: str,
    wait_until: Callable[..., None],
    play: Callable[..., Outcome],
) -> None:
    """Its brokers find records by time that are older than what was asked for."""
    wrong = started(tmp_path / "wrong", f"{zookeeper}/wrong", wait_until, "list-after-a-time")
    try:
        outcome = play(wrong, "offsets", seed=1, time_limit_s=3)
    finally:
        wrong.end()
    assert outcome.verdict is Verdict.INVALID, outcome.reasons
    assert "time-otherwise" in str(outcome.results["checks"]["offsets"]["violations"])


def groups(cluster: Standalone) -> set[str]:
    found: set[str] = set()
    for node in cluster.ids:
        address = Address("127.0.0.1", cluster.ports[node][0])
        listed = ask(address, request(ApiKey.LIST_GROUPS, 0), 10.0).groups
        found |= {str(group.group_id) for group in listed}
    return found


def keep_an_offset(cluster: Standalone, group: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    finally:
        consumer.close()


def test_what_has_its_token_is_all_that_is_deleted(
    theirs: Standalone, as_it_was: None, wait_until: Callable[..., None]
) -> None:
    form = ExternalSystem(theirs.file()).form
    controller = Address("127.0.0.1", theirs.ports[int(metadata(theirs, 1).controller_id)][0])
    made = {"num_partitions": 2, "replication_factor": 2, "assignments": [], "configs": []}
    names = ("biplane-00000001-kept", "flood-biplane-00000001-flood-1-2", "biplane-00000002-kept")
    rows = [{"name": name, **made} for name in names]
    ask(controller, request(ApiKey.CREATE_TOPICS, 3, topics=rows, timeout=10_000), 30.0)
    wait_until(lambda: all(set(names) <= set(topics(theirs, node)) for node in theirs.ids))
    keep_an_offset(theirs, "biplane-00000001-loners", names[0])
    keep_an_offset(theirs, "billing", "orders")
    assert {"billing", "biplane-00000001-loners"} <= groups(theirs)
    assert delete_topics(form, "biplane-00000001") == []
    found = groups(theirs)
    assert "billing" in found
    assert not any("biplane-00000001" in group for group in found)
    left = set(topics(theirs, 2))
    assert {"orders", "biplane-00000002-kept"} <= left
    assert not any("biplane-00000001" in name for name in left)
    assert delete_topics(form, "biplane-00000002") == []
