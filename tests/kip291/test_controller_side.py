"""KIP-291, Proposed Changes, on the controller: which endpoint it dials, and how it learns of it.

The brokers it tells are listening sockets with a registration in ZooKeeper, each listener a socket
of its own, so that a dial is seen where it arrives. What looks from outside only is held against
Apache Kafka 3.9, too, where its jars are.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodes.core.brokers import Broker, EndPoint
from nodes.wire.apis import ApiKey
from tests.kip291.cluster import IDS, NAMES, Controller, names_of
from tests.kip291.kafka import KafkaBroker
from tests.kip291.parts import RunningBroker, eventually
from tests.kip291.registry import Registry
from tests.kip291.requests import metadata, request
from tests.nodes.controller import transcript


@pytest.fixture(scope="module", params=["biplane", "kafka"])
def dual(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Registry]]:
    """One broker for the module, and the registry that it reads."""
    chroot = f"{zookeeper}/kip291-controller-{request.param}"
    folder = tmp_path_factory.mktemp(request.param)
    broker: Any
    if request.param == "kafka":
        broker = KafkaBroker(chroot, folder)
    else:
        broker = RunningBroker(chroot, folder, control_plane_listener_name="CONTROLLER")
    registry = Registry(chroot)
    eventually(lambda: registry.controller_id() == 1)
    yield broker, registry
    registry.close()
    broker.stop()


@pytest.fixture
def controller(dual: tuple[Any, Registry]) -> Iterator[Controller]:
    made = Controller(*dual)
    yield made
    made.clear()


@pytest.fixture
def own_controller(
    start: Callable[..., RunningBroker], zookeeper: str, zookeeper_chroot: str
) -> Iterator[Callable[..., Controller]]:
    """A controller of this project, for one test, with configs of its own."""
    made: list[Controller] = []

    def make(planes: str, **properties: str) -> Controller:
        broker = start(planes, **properties)
        made.append(Controller(broker, Registry(zookeeper + zookeeper_chroot)))
        return made[-1]

    yield make
    for each in made:
        each.clear()
        each.registry.close()


# ---- which endpoint ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], ("REPLICATION", "CONTROLLER", "CLIENT")])
def test_brokers_are_dialled_at_their_control_listener(
    controller: Controller, order: tuple[str, ...]
) -> None:
    """The controller looks up, among the endpoints that each broker has registered, the one under
    the name that its own ``control.plane.listener.name`` has, and uses no other for what it sends,
    wherever in the list it is."""
    brokers = [controller.join(*order), controller.join(*order)]
    for broker in brokers:
        broker.until_told("CONTROLLER")
    topic = controller.topic(brokers[0].id, brokers[1].id)
    for broker in brokers:
        eventually(lambda b=broker: b["CONTROLLER"].of(ApiKey.LEADER_AND_ISR))
    eventually(lambda: controller.registry.state(topic))
    for broker in brokers:
        assert broker.dialled() == {"CONTROLLER"}
        assert broker["CONTROLLER"].connections == 1


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]])
def test_without_the_name_brokers_are_dialled_at_the_inter_broker_listener(
    own_controller: Callable[..., Controller], order: tuple[str, ...]
) -> None:
    """If the name is not set, the inter-broker listener's endpoint is used as before, even of
    brokers that have one of that name."""
    controller = own_controller("single")
    broker = controller.join(*order)
    broker.until_told("REPLICATION")
    assert broker.dialled() == {"REPLICATION"}


def test_the_controllers_own_name_decides(own_controller: Callable[..., Controller]) -> None:
    """What the listener is called is the controller's configuration, not a constant, and not what
    other brokers are configured with (which nobody registers)."""
    controller = own_controller(
        "dual",
        control_plane_listener_name="BOSS",
        listeners="CONTROLLER://127.0.0.1:0,REPLICATION://127.0.0.1:0,BOSS://127.0.0.1:0",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,BOSS:PLAINTEXT",
    )
    broker = controller.join("CONTROLLER", "REPLICATION", "BOSS")
    broker.until_told("BOSS")
    assert broker.dialled() == {"BOSS"}


def test_a_broker_without_the_listener_holds_up_all_that_come_and_go(
    controller: Controller,
) -> None:
    """A broker that the first round of the migration left out: ControllerChannelManager.addBroker
    throws BrokerEndPointNotAvailableException, which ends the event. Neither it nor who comes after
    it is taken in, nobody who goes is given up; a controller that is in office stays. All is made
    good once it is gone, and it is told, too, when it has the listener."""
    before = controller.join(*NAMES)
    control = controller.settle(before)
    left_out = controller.join("REPLICATION", "CLIENT")
    late = controller.join(*NAMES)
    topic = controller.topic(before.id)  # behind the two registrations
    eventually(lambda: any(names_of(r) == {topic} for r in control.of(ApiKey.UPDATE_METADATA)))

    def live() -> set[int]:
        updates = control.of(ApiKey.UPDATE_METADATA)
        return {b.id_ for b in updates[-1].entity.live_brokers}

    assert live() == {1, before.id}
    assert controller.registry.controller_id() == 1
    assert not late["CONTROLLER"].received
    assert left_out.dialled() == set()
    controller.leave(late)
    controller.leave(left_out)
    after = controller.join(*NAMES)
    after.until_told("CONTROLLER")
    eventually(lambda: live() == {1, before.id, after.id})
    again = controller.join(*NAMES, broker_id=left_out.id)
    again.until_told("CONTROLLER")


def test_a_dead_broker_is_not_noticed_beside_one_without_the_listener(
    controller: Controller,
) -> None:
    """The other half of it: what a dead broker led has no new leader until then, and its channel
    goes on as well (channels of who comes are opened before any of who went is ended)."""
    leader, other = controller.join(*NAMES), controller.join(*NAMES)
    control = controller.settle(leader)
    controller.settle(other)
    topic = controller.topic(leader.id, other.id)
    eventually(lambda: (controller.registry.state(topic) or {}).get("leader") == leader.id)
    left_out = controller.join("REPLICATION", "CLIENT")
    controller.leave(leader)
    marker = controller.topic(other.id)
    eventually(lambda: controller.registry.state(marker))
    assert (controller.registry.state(topic) or {})["leader"] == leader.id
    eventually(lambda: any(marker in names_of(r) for r in control.of(ApiKey.UPDATE_METADATA)))
    controller.leave(left_out)
    eventually(lambda: (controller.registry.state(topic) or {})["leader"] == other.id)


def test_nobody_takes_office_beside_a_broker_without_the_listener(
    controller: Controller,
) -> None:
    """Who is elected then opens its channels, throws, and gives ``/controller`` back at once
    (KafkaController.elect, triggerControllerMove): the controller epoch rises and rises until that
    broker is gone."""
    registry = controller.registry
    left_out = controller.join("REPLICATION", "CLIENT")
    epoch = registry.controller_epoch()
    registry.depose_controller()
    eventually(lambda: registry.controller_epoch() > epoch + 3)
    controller.leave(left_out)
    eventually(lambda: registry.controller_id() == 1)
    broker = controller.join(*NAMES)
    broker.until_told("CONTROLLER")
    assert left_out.dialled() == set()


def test_the_controller_tells_itself_at_its_control_listener(controller: Controller) -> None:
    """Its own broker is told like any other, over the network."""
    names = {"CONTROLLER", "REPLICATION", "CLIENT"}
    pairs = controller.registry.registration(1)["endpoints"]
    assert {p.partition("://")[0] for p in pairs} == names
    if isinstance(controller.broker, RunningBroker):
        controller.broker.until_told()
        seen = [s for s in controller.broker.gate.seen if s.api is ApiKey.UPDATE_METADATA]
        assert seen
        assert {s.listener for s in seen} == {"CONTROLLER"}
    else:
        assert "Controller-1-to-broker-1-send-thread" in controller.broker.threads()


# ---- how it learns of it -------------------------------------------------------------------------


def test_the_registration_has_every_endpoint(controller: Controller) -> None:
    """Upon startup a broker publishes all advertised endpoints, the control listener's among them,
    with the protocol of each, in ``/brokers/ids/<id>``."""
    found = controller.registry.registration(1)
    ports = controller.broker.ports
    assert set(found["endpoints"]) == {f"{n}://127.0.0.1:{p}" for n, p in ports.items()}
    assert found["listener_security_protocol_map"] == dict.fromkeys(NAMES, "PLAINTEXT")


def test_the_registration_of_a_later_session_has_every_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker whose session has ended registers itself again (processRegisterBrokerAndReelect),
    and whoever is the controller then dials it at the same listener."""
    endpoints = tuple(EndPoint(name, "PLAINTEXT", "h", 9000 + i) for i, name in enumerate(NAMES))
    monkeypatch.setattr(transcript, "broker", lambda broker_id: Broker(broker_id, endpoints, "r"))
    office = transcript.Office(monkeypatch)
    made = office.start()
    epochs = [made.broker_epoch]
    for _ in range(2):
        office.expire(1)
        office.run()
        registered = office.admin.get_broker(1)
        assert registered is not None
        assert (registered.endpoints, registered.rack) == (endpoints, "r")
        epochs.append(made.broker_epoch)
    assert epochs == sorted(set(epochs))


@pytest.mark.parametrize("version", [4, 5])
def test_the_controller_learns_of_endpoints_from_registrations(
    controller: Controller, version: int
) -> None:
    """It reads ``/brokers/ids``; nothing has to be configured about other brokers."""
    listener = controller.listener()
    broker_id = next(IDS)
    ports = [("REPLICATION", 9), ("CONTROLLER", listener.port), ("CLIENT", 9)]
    controller.registry.register(broker_id, ports, version=version)
    try:
        eventually(lambda: listener.of(ApiKey.UPDATE_METADATA))
    finally:
        controller.registry.unregister(broker_id)


def test_a_broker_that_comes_back_elsewhere_is_dialled_there(controller: Controller) -> None:
    """The endpoint is the present registration's."""
    before = controller.join(*NAMES)
    before.until_told("CONTROLLER")
    controller.leave(before)
    after = controller.join(*NAMES, broker_id=before.id)
    controller.settle(after)
    assert after["CONTROLLER"].of(ApiKey.LEADER_AND_ISR)
    assert after.dialled() == {"CONTROLLER"}
    assert before["CONTROLLER"].connections == 1
    epochs = {r.entity.broker_epoch for r in after["CONTROLLER"].received}
    assert epochs == {controller.registry.broker_epoch(after.id)}


def test_brokers_are_told_of_every_endpoint(controller: Controller) -> None:
    """UpdateMetadata carries each broker's endpoints by listener name, so that each listener's
    clients get their own; leaders are named by their inter-broker endpoint."""
    broker = controller.join(*NAMES)
    broker.until_told("CONTROLLER")
    eventually(
        lambda: any(
            {b.id_ for b in r.entity.live_brokers} >= {1, broker.id}
            for r in broker["CONTROLLER"].of(ApiKey.UPDATE_METADATA)
        )
    )
    newest = broker["CONTROLLER"].of(ApiKey.UPDATE_METADATA)[-1].entity
    own = next(b for b in newest.live_brokers if b.id_ == broker.id)
    assert {(e.listener, e.port) for e in own.endpoints} == {
        (name, each.port) for name, each in broker.listeners.items()
    }
    controller.topic(broker.id)
    eventually(lambda: broker["CONTROLLER"].of(ApiKey.LEADER_AND_ISR))
    told = broker["CONTROLLER"].of(ApiKey.LEADER_AND_ISR)[0].entity
    (leader,) = told.live_leaders
    assert (leader.broker_id, leader.port) == (broker.id, broker["REPLICATION"].port)


# ---- what is sent there --------------------------------------------------------------------------


def test_one_request_in_flight_and_the_rest_in_order(controller: Controller) -> None:
    """The footnote on the queue's size: a controller waits for each answer before it sends the next
    request to the same broker, on one connection."""
    broker = controller.join(*NAMES)
    control = controller.settle(broker)
    before = len(control.received)
    control.flowing.clear()
    topics = []
    for _ in range(4):  # one by one, or the controller would tell of several at once
        topic = controller.topic(broker.id)
        eventually(lambda t=topic: controller.registry.state(t))
        topics.append(topic)
    eventually(lambda: len(control.received) > before)
    assert len(control.received) == before + 1, "all is decided, one is sent"
    control.flowing.set()
    last = topics[-1]
    eventually(lambda: any(names_of(r) == {last} for r in control.of(ApiKey.UPDATE_METADATA)))
    seen = control.received[before:]
    assert [(r.api, name) for r in seen for name in names_of(r)] == [
        (api, topic) for topic in topics for api in (ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA)
    ]
    numbers = [r.header.correlation_id for r in seen]
    assert numbers == sorted(numbers)
    assert {r.connection for r in seen} == {1}


def _closes(received: Any, frame: bytes) -> bytes | None:
    return None


def _wrong_correlation_id(received: Any, frame: bytes) -> bytes:
    number = (received.header.correlation_id + 7).to_bytes(4, "big")
    return frame[:4] + number + frame[8:]


def _cut_short(received: Any, frame: bytes) -> bytes:
    return (5).to_bytes(4, "big") + frame[4:8] + b"\0"


@pytest.mark.parametrize("spoil", [_closes, _wrong_correlation_id, _cut_short])
def test_whatever_fails_is_sent_again(controller: Controller, spoil: Callable[..., Any]) -> None:
    """A request that got no proper answer (a closed connection, an answer to another request, bytes
    that are none) is sent again, the same, before anything else, on a new connection, until it gets
    one."""
    broker = controller.join(*NAMES)
    control = controller.settle(broker)
    before = len(control.received)
    failures = 3
    count = itertools.count()

    def answer(received: Any, frame: bytes) -> bytes | None:
        return spoil(received, frame) if next(count) < failures else frame

    control.answer_with = answer
    topic = controller.topic(broker.id)
    eventually(lambda: any(names_of(r) == {topic} for r in control.of(ApiKey.UPDATE_METADATA)))
    tries = control.received[before : before + failures + 1]
    assert [r.api for r in tries] == [ApiKey.LEADER_AND_ISR] * (failures + 1)
    assert all(r.entity == tries[0].entity for r in tries)
    assert len({r.connection for r in tries}) == failures + 1
    after = control.received[before + failures + 1]
    assert after.api is ApiKey.UPDATE_METADATA, "nothing overtook it"


def test_silence_is_a_failure_after_the_request_timeout(
    own_controller: Callable[..., Controller],
) -> None:
    """A broker that reads and does not answer in ``request.timeout.ms`` is sent the same again."""
    controller = own_controller("dual", request_timeout_ms="500")
    broker = controller.join(*NAMES)
    control = controller.settle(broker)
    before = len(control.received)
    silent = [True, True]
    control.answer_with = lambda _, frame: b"" if silent and silent.pop() else frame
    topic = controller.topic(broker.id)
    eventually(lambda: any(names_of(r) == {topic} for r in control.of(ApiKey.UPDATE_METADATA)))
    seen = control.received[before:]
    tries = list(itertools.takewhile(lambda r: r.api is ApiKey.LEADER_AND_ISR, seen))
    assert len(tries) >= 3, "twice in vain; more, where this machine was slow to answer"
    assert all(r.entity == tries[0].entity for r in tries)
    assert len({r.connection for r in tries}) == len(tries)


def test_tries_are_a_tenth_of_a_second_apart(controller: Controller) -> None:
    """RequestSendThread pauses 100 ms between tries: never less, as the connection is closed only
    after the arrival was noted; not always much more, as not every pause is long by chance."""
    broker = controller.join(*NAMES)
    control = controller.settle(broker)
    before = len(control.received)
    control.answer_with = _closes
    controller.topic(broker.id)
    eventually(lambda: len(control.received) >= before + 11)
    control.answer_with = lambda _, frame: frame
    at_ns = [r.at_ns for r in control.received[before : before + 11]]
    gaps_ms = sorted((b - a) / 1e6 for a, b in itertools.pairwise(at_ns))
    assert 95 < gaps_ms[0] < 1000


def test_tries_end_with_the_registration(controller: Controller) -> None:
    """A request is tried again until its broker is removed; then its thread ends."""
    broker = controller.join(*NAMES)
    broker.until_told("CONTROLLER")
    thread = f"Controller-1-to-broker-{broker.id}-send-thread"
    assert thread in _thread_names(controller.broker)
    broker["CONTROLLER"].close()
    controller.topic(broker.id)
    controller.leave(broker)
    eventually(lambda: thread not in _thread_names(controller.broker))


def _thread_names(broker: Any) -> list[str]:
    if isinstance(broker, RunningBroker):
        return [t.name for t in threading.enumerate()]
    found: list[str] = broker.threads()
    return found


# ---- the same broker, looked at from outside -----------------------------------------------------


def test_its_planes_have_kafkas_threads(controller: Controller) -> None:
    """One acceptor, one network thread, one handler, under the names that Kafka gives them; the
    processor of the control plane is number 0."""
    names = _thread_names(controller.broker)
    ports = controller.broker.ports
    control = sorted(n for n in names if n.startswith("control-plane"))
    assert control == [
        "control-plane-kafka-network-thread-1-ListenerName(CONTROLLER)-PLAINTEXT-0",
        "control-plane-kafka-request-handler-0",
        "control-plane-kafka-socket-acceptor-ListenerName(CONTROLLER)-PLAINTEXT-"
        f"{ports['CONTROLLER']}",
    ]
    for name in ("REPLICATION", "CLIENT"):
        acceptor = f"data-plane-kafka-socket-acceptor-ListenerName({name})-PLAINTEXT-{ports[name]}"
        assert acceptor in names
    assert "data-plane-kafka-request-handler-0" in names
    network = [n for n in names if n.startswith("data-plane-kafka-network-thread-1-")]
    assert len(network) == 2
    assert not any("CONTROLLER" in n for n in network)


@pytest.mark.parametrize("resource", ["1", ""])
def test_it_refuses_to_change_the_name(controller: Controller, resource: str) -> None:
    """``control.plane.listener.name`` cannot be updated while a broker runs."""
    client = controller.broker.client("admin")
    entry = {"name": "control.plane.listener.name", "value": "CLIENT", "config_operation": 0}
    row = {"resource_type": 4, "resource_name": resource, "configs": [entry]}
    entity = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, resources=[row], validate_only=False)
    (answer,) = client.ask(entity).responses
    client.close()
    assert answer.error_code == 42
    expected = "Cannot update these configs dynamically: Set(control.plane.listener.name)"
    assert answer.error_message == expected


@pytest.mark.parametrize("name", NAMES)
def test_every_listener_answers_with_its_own_endpoint(controller: Controller, name: str) -> None:
    """The control listener is a listener like others: whoever asks there is told of its endpoint
    (and nothing keeps clients away, see KIP-702)."""
    client = controller.broker.client("c", name)
    port = controller.broker.ports[name]

    def told() -> bool:
        brokers = client.ask(metadata()).brokers
        return any((b.node_id, b.port) == (1, port) for b in brokers)

    eventually(told)
    client.close()
