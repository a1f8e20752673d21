"""KIP-291, Compatibility and Migration: two rounds of rolling restarts, and no change while a
broker runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from benchmarks.one_broker import free_port
from nodes.wire.apis import ApiKey
from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import RunningBroker, eventually
from tests.kip291.registry import Registry
from tests.kip291.requests import leader_told, metadata, produce, produce_error, request

Start = Callable[..., RunningBroker]
BEFORE, FIRST, SECOND = "before", "first round", "second round"


@pytest.fixture
def registry(zookeeper: str, zookeeper_chroot: str) -> Iterator[Registry]:
    made = Registry(zookeeper + zookeeper_chroot)
    yield made
    made.close()


class Cluster:
    """Two brokers that are restarted one after the other, each with ports of its own for good."""

    def __init__(self, start: Start, registry: Registry) -> None:
        self._start, self.registry = start, registry
        self._ports = {
            b: {n: free_port() for n in ("CLIENT", "REPLICATION", "CONTROLLER")} for b in (1, 2)
        }
        self.stage: dict[int, str] = {}
        self.brokers: dict[int, RunningBroker] = {}
        self._topics = 0

    def restart(self, broker_id: int, stage: str) -> None:
        if broker_id in self.brokers:
            self.brokers[broker_id].stop()
        names = ["CLIENT", "REPLICATION"] + (["CONTROLLER"] if stage != BEFORE else [])
        ports = self._ports[broker_id]
        self.stage[broker_id] = stage
        self.brokers[broker_id] = self._start(
            "dual" if stage == SECOND else "single",
            folder=f"broker-{broker_id}",
            broker_id=str(broker_id),
            listeners=",".join(f"{name}://127.0.0.1:{ports[name]}" for name in names),
        )
        eventually(lambda: self.registry.broker_ids() >= self.brokers.keys())

    def check(self) -> None:
        """The cluster does its work (a topic with two replicas is made, led and written to with
        acks=all), and each broker was told of it where the present controller's configuration
        says."""
        eventually(lambda: self.registry.controller_id() in self.brokers)
        topic = f"t{self._topics}"
        self._topics += 1
        self.registry.create_topic(topic, [list(self.brokers)])
        eventually(lambda: self.registry.state(topic))
        leader = int((self.registry.state(topic) or {})["leader"])
        for broker in self.brokers.values():
            client = broker.client(f"asks-{topic}")
            eventually(lambda c=client: _knows(c.ask(metadata(topic)), leader))
        answer = self.brokers[leader].client("p").ask(produce(topic, acks=-1))
        assert produce_error(answer) == 0
        controller = self.registry.controller_id() or 0
        expected = "CONTROLLER" if self.stage[controller] == SECOND else "REPLICATION"
        for broker_id, broker in self.brokers.items():
            newest = [s for s in list(broker.gate.seen) if s.api is ApiKey.UPDATE_METADATA][-1]
            assert newest.listener == expected
            own_plane = self.stage[broker_id] == SECOND and expected == "CONTROLLER"
            assert newest.plane == ("control" if own_plane else "data")
            assert newest.client_id == str(controller)

    def stop(self) -> None:
        for broker in self.brokers.values():
            broker.stop()


def _knows(answer: object, leader: int) -> bool:
    topics = answer.topics  # type: ignore[attr-defined]
    return bool(topics[0].error_code == 0 and leader_told(answer) == leader)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_two_rounds_of_rolling_restarts(
    start: Start, registry: Registry, order: tuple[int, int]
) -> None:
    """First round: add the endpoint to listeners, without the name; nobody uses it. Second round:
    set the name. At every step, with every mixture of configurations and whichever broker is the
    controller, controllers reach all brokers: by the new endpoint if the controller has the name
    (the others have the endpoint by now, and serve it in their data plane until their turn), by the
    inter-broker one if not."""
    cluster = Cluster(start, registry)
    for broker_id in (1, 2):
        cluster.restart(broker_id, BEFORE)
    cluster.check()
    for stage in (FIRST, SECOND):
        for broker_id in order:
            cluster.restart(broker_id, stage)
            cluster.check()
    assert {b.is_dual for b in cluster.brokers.values()} == {True}


def test_the_way_back(start: Start, registry: Registry) -> None:
    """The rounds in reverse: first the name goes, then the endpoint may."""
    cluster = Cluster(start, registry)
    for broker_id in (1, 2):
        cluster.restart(broker_id, SECOND)
    cluster.check()
    for stage in (FIRST, BEFORE):
        for broker_id in (1, 2):
            cluster.restart(broker_id, stage)
            cluster.check()


def test_one_round_will_not_do(start: Start, registry: Registry) -> None:
    """Listener and name at once, while another broker has neither: who has the name cannot speak
    to that one and cannot take office. It passes until who has no name holds it, and the cluster
    works as before; it works with both planes when nobody is without the listener."""
    cluster = Cluster(start, registry)
    for broker_id in (1, 2):
        cluster.restart(broker_id, BEFORE)
    cluster.restart(1, SECOND)
    eventually(lambda: registry.controller_id() == 2)
    cluster.check()
    epoch = registry.controller_epoch()
    registry.depose_controller()
    eventually(lambda: registry.controller_epoch() > epoch and registry.controller_id() == 2)
    cluster.check()
    told = [s for s in list(cluster.brokers[1].gate.seen) if s.listener == "CONTROLLER"]
    assert not told, "half of an office"
    cluster.restart(2, SECOND)
    cluster.check()


# ---- not while it runs ---------------------------------------------------------------------------

INVALID_REQUEST = 42
BROKER = 4


def describe(names: list[str]) -> object:
    resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": names}
    return request(ApiKey.DESCRIBE_CONFIGS, 2, resources=[resource], include_synonyms=False)


def alter(name: str, value: str | None, *, incremental: bool, resource: str = "1") -> object:
    entry = {"name": name, "value": value}
    if incremental:
        entry["config_operation"] = 0  # type: ignore[assignment]
    row = {"resource_type": BROKER, "resource_name": resource, "configs": [entry]}
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS if incremental else ApiKey.ALTER_CONFIGS
    return request(api, 0, resources=[row], validate_only=False)


@pytest.mark.parametrize("incremental", [True, False])
@pytest.mark.parametrize("resource", ["1", ""])
@pytest.mark.parametrize("planes", ["single", "dual"])
def test_the_name_cannot_be_changed_while_a_broker_runs(
    start: Start, planes: str, resource: str, incremental: bool
) -> None:
    """It is not among the configs that can be updated dynamically, of one broker or of all."""
    broker = start(planes)
    client = broker.client()
    for value in ("CLIENT", "CONTROLLER", "9093", ""):
        entity = alter(
            "control.plane.listener.name", value, incremental=incremental, resource=resource
        )
        (row,) = client.ask(entity).responses
        assert row.error_code == INVALID_REQUEST
        expected = "Cannot update these configs dynamically: Set(control.plane.listener.name)"
        assert row.error_message == expected
    (told,) = client.ask(describe(["control.plane.listener.name"])).results
    (entry,) = told.configs
    assert entry.read_only
    assert entry.value == ("CONTROLLER" if planes == "dual" else None)


def test_what_can_be_changed_can(start: Start) -> None:
    """The twin: a dynamic config is taken."""
    client = start("dual").client()
    entity = alter("leader.replication.throttled.rate", "1000", incremental=True)
    (row,) = client.ask(entity).responses
    assert row.error_code == 0


def test_a_name_in_zookeeper_changes_nothing(start: Start, registry: Registry) -> None:
    """Even somebody who writes it into ZooKeeper behind the broker's back gets no control plane."""
    broker = start("single")
    before = {t.name for t in threading.enumerate()}
    registry.set_broker_configs(1, {"control.plane.listener.name": "CONTROLLER"})
    registry.create_topic("marker", [[1]])
    eventually(
        lambda: broker.client().ask(metadata("marker")).topics[0].error_code == 0, "told after it"
    )
    after = {t.name for t in threading.enumerate()}
    assert not any(n.startswith("control-plane") for n in after - before)
    newest = [s for s in broker.gate.seen if s.api is ApiKey.UPDATE_METADATA][-1]
    assert (newest.listener, newest.plane) == ("REPLICATION", "data")


# ---- what stays as it is -------------------------------------------------------------------------


def test_fetchers_go_on_to_use_the_inter_broker_listener(start: Start, registry: Registry) -> None:
    """Only what controllers send takes the new way: replication stays on the inter-broker
    listener."""
    leader, follower = start("dual"), start("dual", broker_id="2")
    eventually(lambda: registry.broker_ids() == {1, 2})
    registry.create_topic("t", [[1, 2]])
    eventually(lambda: any(s.api is ApiKey.FETCH for s in list(leader.gate.seen)))
    fetches = [s for s in list(leader.gate.seen) if s.api is ApiKey.FETCH]
    assert {(s.listener, s.plane) for s in fetches} == {("REPLICATION", "data")}
    assert not any(s.api is ApiKey.FETCH for s in list(follower.gate.seen))


@pytest.mark.parametrize("planes", ["single", "dual"])
def test_what_brokers_ask_the_controller(
    start: Start, registry: Registry, listener: Callable[[], ControlListener], planes: str
) -> None:
    """AlterPartition goes where the controller's own requests go, as Kafka's channel to the
    controller does; ControlledShutdown takes the inter-broker listener (see KIP-702)."""
    first = start(planes)
    second = start(
        planes,
        broker_id="2",
        controlled_shutdown_enable="true",
        controlled_shutdown_max_retries="1",
        controlled_shutdown_retry_backoff_ms="1",
        replica_lag_time_max_ms="600",
    )
    never_fetches = listener()
    registry.register(3, [(name, never_fetches.port) for name in first.ports])
    registry.create_topic("t", [[2, 3]])
    eventually(lambda: (registry.state("t") or {}).get("isr") == [2])
    asked = {s for s in list(first.gate.seen) if s.api is ApiKey.ALTER_PARTITION}
    expected = ("CONTROLLER", "control") if planes == "dual" else ("REPLICATION", "data")
    assert {(s.listener, s.plane) for s in asked} == {expected}
    second.server.shutdown()
    asked = {s for s in list(first.gate.seen) if s.api is ApiKey.CONTROLLED_SHUTDOWN}
    assert {(s.listener, s.plane) for s in asked} == {("REPLICATION", "data")}
