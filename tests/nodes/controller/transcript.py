"""Everything that a controller does, in order, as lines of text: what it writes to ZooKeeper, which
channels it opens and closes, what it sends to whom.

    zk + t-0 leader 1 epoch 0 isr 1,2 by 1        created (``=`` set, ``-`` deleted)
    zk = t-0 @0 leader 2 epoch 1 isr 2 by 1       over version 0 of the znode
    channel + 3
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 1,2 offline 1

"1.1 >" is the controller's id and epoch; "epoch 1.1" a leader epoch and a partition epoch. A write
that is not conditioned on the epoch znode's version is marked ``unfenced``, a request whose broker
epoch is not its receiver's ``stale``, a topic id that is not the topic's ``wrong id``; one that was
refused tells by what. What stands in no line did not happen.

Of requests that one batch sends, brokers are in order of their ids: in Kafka their order is a
map's. A controller is driven by the test's own thread, through `Office.run`.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import pytest
from kazoo.exceptions import RolledBackError, RuntimeInconsistency

from nodes.config import BrokerConfig
from nodes.controller import controller as controller_module
from nodes.controller.context import PartitionAndReplica
from nodes.controller.controller import KafkaController
from nodes.controller.event_manager import ControllerEventManager
from nodes.controller.results import Result
from nodes.coordination import zk as zk_module
from nodes.coordination.requests import Check, Create, Delete, Multi, Outcome, Request, SetData
from nodes.coordination.zk import KafkaZkClient
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker, EndPoint
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.metrics import Metrics
from nodes.trace import Trace
from nodes.wire.apis import ApiKey, request_class, response_class
from nodes.wire.codec import build
from tests.nodes.controller.memory import MemorySession, MemoryZooKeeper

Sent = tuple[int, str, str]
"""Broker, API, what was said."""


def broker(broker_id: int, port: int = 9092) -> Broker:
    return Broker(
        broker_id, (EndPoint("PLAINTEXT", "PLAINTEXT", f"host{broker_id}", port),), rack=None
    )


class Channels:
    """In place of ControllerChannelManager: keeps what is sent, until `Office.answer`."""

    def __init__(self, office: Office, config: BrokerConfig) -> None:
        self._office = office
        self.open: set[int] = set()
        self.waiting: list[tuple[int, Any]] = []
        self.controller_id = config.broker_id

    def startup(self, brokers: Iterable[Broker]) -> None:
        for each in brokers:
            self.add_broker(each)

    def shutdown(self) -> None:
        for broker_id in sorted(self.open):
            self.remove_broker(broker_id)

    def add_broker(self, added: Broker) -> None:
        if added.id not in self.open:
            self.open.add(added.id)
            self._office.said.append(f"channel + {added.id}")

    def remove_broker(self, broker_id: int) -> None:
        if broker_id in self.open:
            self.open.discard(broker_id)
            self.waiting = [w for w in self.waiting if w[0] != broker_id]
            self._office.said.append(f"channel - {broker_id}")

    def send(self, broker_id: int, item: Any) -> None:
        if broker_id in self.open:
            self.waiting.append((broker_id, item))
            self._office.sent(broker_id, item.entity)
            self._office.arrived(broker_id, item.entity)


class Office:
    """A cluster of which only ZooKeeper and the controllers exist."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.zookeeper = MemoryZooKeeper()
        self.said: list[Any] = []
        self.configs: dict[str, str] = {}
        self.controllers: dict[int, KafkaController] = {}
        self.channels: dict[int, Channels] = {}
        self.sessions: dict[int, MemorySession] = {}
        self.answers: Callable[[int, Any, str, int], int] = lambda *_: 0
        self.hosted: set[tuple[int, str, int]] = set()
        """(broker, topic, partition) of each log that there is, if all that is sent arrives."""
        self._before: list[Callable[[MemorySession, Request], None]] = []
        self.zookeeper.before = lambda *write: [happens(*write) for happens in self._before]
        self.zookeeper.after = self._written
        monkeypatch.setattr(zk_module, "ZooKeeperSession", self._session)
        monkeypatch.setattr(controller_module, "ControllerChannelManager", self._channels)
        monkeypatch.setattr(ControllerEventManager, "start", lambda _events: None)
        self.admin = self._client()

    def _session(self, *_: Any, **__: Any) -> MemorySession:
        return MemorySession(self.zookeeper)

    def _client(self) -> KafkaZkClient:
        client = KafkaZkClient("memory", 1000, now_ms=lambda: 7)
        client.start()
        return client

    def _channels(self, config: BrokerConfig, *_: Any, **__: Any) -> Channels:
        made = self.channels[config.broker_id] = Channels(self, config)
        return made

    # ---- who there is ----------------------------------------------------------------------------

    def start(self, *others: int, **configs: str) -> KafkaController:
        """Broker 1 is the controller; the others are only brokers."""
        self.join(*others)
        made = self.candidate(1, **configs)
        self.run()
        return made

    def join(self, *broker_ids: int) -> None:
        """Brokers that register, in sessions of their own."""
        for broker_id in broker_ids:
            client = self._client()
            client.register_broker(broker(broker_id))
            self.sessions[broker_id] = client._session  # type: ignore[assignment]

    def leave(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.sessions.pop(broker_id).expire()

    def candidate(self, broker_id: int, **configs: str) -> KafkaController:
        """A broker with a controller; `run` lets it stand. All have the same configs."""
        self.configs |= configs
        client = self._client()
        self.sessions[broker_id] = client._session  # type: ignore[assignment]
        properties = {
            "broker.id": str(broker_id),
            "zookeeper.connect": "memory:1",
            "listeners": "PLAINTEXT://127.0.0.1:1",
            "auto.leader.rebalance.enable": "false",
            **self.configs,
        }
        made = KafkaController(
            BrokerConfig.from_properties(properties),
            client,
            broker(broker_id),
            Trace(),
            Metrics(),
            broker_epoch=client.register_broker(broker(broker_id)),
            now_ns=lambda: 0,
        )
        made.startup()
        self.controllers[broker_id] = made
        return made

    def topic(self, name: str, *replicas: Iterable[int], topic_id: int = 0) -> None:
        """As an administrator makes one: the znode of its assignment."""
        rows = {
            TopicPartition(name, p): ReplicaAssignment(tuple(r)) for p, r in enumerate(replicas)
        }
        number = topic_id or sum(map(ord, name))
        self.admin.create_topic_assignment(name, UUID(int=number), rows)

    # ---- what happens ----------------------------------------------------------------------------

    def run(self) -> None:
        """All that waits in event queues, oldest first, until nothing does."""
        while waiting := [
            (c._events._queue[0].enqueue_ns, broker_id, c)
            for broker_id, c in self.controllers.items()
            if c._events._queue
        ]:
            self.step(min(waiting, key=lambda w: w[:2])[2])

    def step(self, controller: KafkaController) -> str:
        """One event."""
        queued = controller._events._queue.popleft()
        queued.started.set()
        controller._process(queued.event)
        return queued.event.name

    def expire(self, broker_id: int) -> None:
        """A controller's session is over, and it hears of it; a new one begins, and not before the
        event thread has taken note of the end of the old one."""
        session, made = self.sessions[broker_id], self.controllers[broker_id]
        session.expire()
        for handler in session.state_handlers:
            ending = threading.Thread(target=handler.before_new_session)
            ending.start()
            while not made._events._queue:
                assert ending.is_alive(), "it says that the session is over"
                ending.join(0.001)
            ending.join(0.02)
            assert ending.is_alive(), "it waits"
            assert [q.event.name for q in made._events._queue] == ["Expire"]
            self.step(made)
            ending.join(60)
            assert not ending.is_alive()
        session.renew()
        for handler in session.state_handlers:
            handler.after_new_session()
        self.run()

    def answer(self, *apis: ApiKey) -> None:
        """Brokers answer what they were sent so far (only these APIs), by `answers`; then `run`."""
        for made in self.channels.values():
            waiting, made.waiting = made.waiting, []
            for broker_id, item in waiting:
                if not apis or item.entity.__api_key__ in apis:
                    item.on_response(self._answer(broker_id, item.entity))
                else:
                    made.waiting.append((broker_id, item))
        self.run()

    def _answer(self, broker_id: int, entity: Any) -> Any:
        api = ApiKey(entity.__api_key__)
        fields: dict[str, Any] = {"error_code": 0}
        if api is not ApiKey.UPDATE_METADATA:
            rows = [
                (
                    t,
                    p.partition_index,
                    self.answers(broker_id, api, t.topic_name, p.partition_index),
                )
                for t in entity.topic_states
                for p in t.partition_states
            ]
        if api is ApiKey.LEADER_AND_ISR:
            fields["topics"] = [
                {
                    "topic_id": topic.topic_id,
                    "partition_errors": [
                        {"partition_index": p, "error_code": e} for t, p, e in rows if t is topic
                    ],
                }
                for topic in entity.topic_states
            ]
        elif api is ApiKey.STOP_REPLICA:
            fields["partition_errors"] = [
                {"topic_name": t.topic_name, "partition_index": p, "error_code": e}
                for t, p, e in rows
            ]
        return build(response_class(entity.__api_key__, entity.__version__), **fields)

    def before_write(self, number: int, happens: Callable[[], None]) -> None:
        """Something that happens just before the controllers' `number`th write from now on."""
        left = itertools.count(1)

        def before(session: MemorySession, write: Request) -> None:
            if self._is_controllers(session) and _is_fenced(write) and next(left) == number:
                happens()

        self._before.append(before)

    def usurp(self, broker_id: int) -> None:
        """Another broker is elected, although there is a controller."""
        self.admin.delete_recursive("/controller")
        self.admin.register_controller(broker_id)

    # ---- what it is asked ------------------------------------------------------------------------

    def ask(self, method: Callable[..., None], *args: Any) -> None:
        """Calls one of the controller's methods; its answer becomes a line."""
        method(*args, lambda *answer: self.said.append("answer " + _answer(answer)))
        self.run()

    def alter_isr(
        self, leader: int, partition: str, isr: Iterable[int], *, by: int = 1, **said: Any
    ) -> None:
        """A leader's AlterPartition, with the epochs that it should have but for `said`."""
        topic, _, index = partition.rpartition("-")
        tp = TopicPartition(topic, int(index))
        found = self.admin.get_topic_partition_states([tp]).get(tp)
        state = found and found.leader_and_isr
        (known,) = self.admin.get_replica_assignment_and_topic_id_for_topics([topic]) or [None]
        node = self.zookeeper.nodes.get(f"/brokers/ids/{leader}")
        row = {
            "partition_index": tp.partition,
            "leader_epoch": state.leader_epoch if state else 0,
            "partition_epoch": state.partition_epoch if state else 0,
            "leader_recovery_state": 0,
            "new_isr_with_epochs": [{"broker_id": i, "broker_epoch": -1} for i in isr],
            **{k: v for k, v in said.items() if k not in ("broker_epoch", "topic_id")},
        }
        request = build(
            request_class(ApiKey.ALTER_PARTITION, 3),
            broker_id=leader,
            broker_epoch=said.get("broker_epoch", node.czxid if node else 0),
            topics=[
                {
                    "topic_id": said.get("topic_id", known.topic_id if known else UUID(int=404)),
                    "partitions": [row],
                }
            ],
        )
        self.ask(self.controllers[by].alter_partitions, request)

    def look(self, topic: str, by: int = 1) -> None:
        """A line of the states that a topic's partitions and replicas are in."""
        context = self.controllers[by]._parts.context
        rows = []
        for tp in context.partitions_for_topic(topic):
            replicas = [
                f"{r} {context.replica_state(PartitionAndReplica(tp, r)).name}"
                for r in context.partition_replica_assignment(tp)
            ]
            rows.append(f"{tp.partition} {context.partition_state(tp).name}: {', '.join(replicas)}")
        self.said.append(f"states of {topic}: {'; '.join(rows) or 'none'}")

    def told(self) -> list[str]:
        """The lines since the last call."""
        lines: list[str] = []
        for api, group in itertools.groupby(
            self.said, key=lambda s: s[1] if isinstance(s, tuple) else None
        ):
            if api is None:
                lines += group
                continue
            for batch in _batches(list(group)):
                by_text: dict[str, list[int]] = {}
                for broker_id, _, text in sorted(batch):
                    by_text.setdefault(text, []).append(broker_id)
                for text, broker_ids in by_text.items():
                    head, _, rest = text.partition(">")
                    lines.append(f"{head}> {_ids(broker_ids)}{rest}")
        self.said.clear()
        return lines

    # ---- how it reads ----------------------------------------------------------------------------

    def sent(self, broker_id: int, entity: Any) -> None:
        api = ApiKey(entity.__api_key__)
        node = self.zookeeper.nodes.get(f"/brokers/ids/{broker_id}")
        stale = "" if node and node.czxid == entity.broker_epoch else " stale"
        head = f"{entity.controller_id}.{entity.controller_epoch} > {api.display_name}{stale}"
        if api is ApiKey.UPDATE_METADATA:
            head += " live " + ",".join(str(b.id_) for b in entity.live_brokers)
            text = _metadata
        elif api is ApiKey.LEADER_AND_ISR:
            head += " leaders " + ",".join(str(b.broker_id) for b in entity.live_leaders)
            text = _role
        else:
            text = _stop
        partitions = []
        for topic in entity.topic_states:
            for p in topic.partition_states:
                wrong = "" if self._is_id_of(topic) else " wrong id"
                partitions.append((topic.topic_name, p.partition_index, f"{text(p)}{wrong}"))
        body = "; ".join(f"{t}-{p} {said}" for t, p, said in sorted(partitions))
        self.said.append((broker_id, api.display_name, f"{head}: {body}" if body else head))

    def arrived(self, broker_id: int, entity: Any) -> None:
        if entity.__api_key__ == ApiKey.UPDATE_METADATA:
            return
        for topic in entity.topic_states:
            for p in topic.partition_states:
                log = (broker_id, str(topic.topic_name), int(p.partition_index))
                if entity.__api_key__ == ApiKey.LEADER_AND_ISR:
                    self.hosted.add(log)
                elif p.delete_partition:
                    self.hosted.discard(log)

    def _is_id_of(self, topic: Any) -> bool:
        if not hasattr(topic, "topic_id"):
            return True
        known = self.admin.get_replica_assignment_and_topic_id_for_topics([topic.topic_name])
        return not known or known[0].topic_id == topic.topic_id

    def _is_controllers(self, session: MemorySession) -> bool:
        return any(self.sessions.get(i) is session for i in self.controllers)

    def _written(self, session: MemorySession, request: Request, outcome: Outcome) -> None:
        if not self._is_controllers(session):
            return
        fence = "" if _is_fenced(request) else "unfenced "
        operations = request.operations if isinstance(request, Multi) else (request,)
        results = outcome.value if isinstance(outcome.value, list) else [outcome.error]
        consequences = (type(None), RolledBackError, RuntimeInconsistency)
        failed = next(
            (
                type(r).__name__
                for r in results
                if isinstance(r, Exception) and not isinstance(r, consequences)
            ),
            "",
        )
        lines = ", ".join(_write(o) for o in operations if not isinstance(o, Check))
        self.said.append(f"{fence}zk {lines}" + (f" -> {failed}" if failed else ""))


def _is_fenced(request: Request) -> bool:
    """Whether a write is refused once there is another controller."""
    operations = request.operations if isinstance(request, Multi) else ()
    return [o.path for o in operations if isinstance(o, Check)] == ["/controller_epoch"]


def _batches(sent: list[Sent]) -> list[list[Sent]]:
    """A batch sends a broker one request of a kind."""
    batches: list[list[Sent]] = [[]]
    for one in sent:
        if any(one[0] == earlier[0] for earlier in batches[-1]):
            batches.append([])
        batches[-1].append(one)
    return batches


def _ids(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers)) or "nobody"


def _role(p: Any) -> str:
    adding = f" adding {_ids(p.adding_replicas)}" if p.adding_replicas else ""
    removing = f" removing {_ids(p.removing_replicas)}" if p.removing_replicas else ""
    recovering = " recovering" if p.leader_recovery_state else ""
    new = " new" if p.is_new else ""
    return (
        f"leader {p.leader} epoch {p.leader_epoch}.{p.partition_epoch} by {p.controller_epoch} "
        f"isr {_ids(p.isr)} of {_ids(p.replicas)}{adding}{removing}{recovering}{new}"
    )


def _metadata(p: Any) -> str:
    offline = f" offline {_ids(p.offline_replicas)}" if p.offline_replicas else ""
    return (
        f"leader {p.leader} epoch {p.leader_epoch}.{p.zk_version} by {p.controller_epoch} "
        f"isr {_ids(p.isr)} of {_ids(p.replicas)}{offline}"
    )


def _stop(p: Any) -> str:
    return f"epoch {p.leader_epoch}" + (" delete" if p.delete_partition else "")


def _write(operation: Any) -> str:
    path = operation.path
    if isinstance(operation, Delete):
        return f"- {path}"
    sign = "+" if isinstance(operation, Create) else "="
    at = ""
    if isinstance(operation, SetData) and operation.version != -1:
        at = f" @{operation.version}"
    if path.endswith("/state"):
        topic, partition = path.split("/")[3], path.split("/")[5]
        s = json.loads(operation.data)
        recovering = " recovering" if s.get("leader_recovery_state") else ""
        return (
            f"{sign} {topic}-{partition}{at} leader {s['leader']} epoch {s['leader_epoch']} "
            f"isr {_ids(s['isr'])} by {s['controller_epoch']}{recovering}"
        )
    if path.startswith("/brokers/topics/") and operation.data:
        znode = json.loads(operation.data)
        parts = [f"{p}:{_ids(r)}" for p, r in sorted(znode["partitions"].items())]
        adding = [f"{p}:{_ids(r)}" for p, r in sorted(znode["adding_replicas"].items())]
        removing = [f"{p}:{_ids(r)}" for p, r in sorted(znode["removing_replicas"].items())]
        return " ".join(
            [f"{sign} {path}{at}", *parts]
            + (["adding", *adding] if adding else [])
            + (["removing", *removing] if removing else [])
        )
    if path in ("/controller", "/controller_epoch") or path.startswith("/brokers/ids"):
        return f"{sign} {path}{at}" + (" ephemeral" if getattr(operation, "ephemeral", 0) else "")
    data = operation.data.decode() if operation.data else ""
    return f"{sign} {path}{at}{' ' + data if data else ''}"


def _answer(answer: tuple[Any, ...]) -> str:
    """Of the controller's methods: errors, what is left, partitions and their results."""
    return ", ".join(_said(part) for part in answer)


def _said(part: Any) -> str:
    match part:
        case Errors():
            return part.name
        case Result():
            leader = f" leader {part.leader}" if part.leader >= 0 else ""
            return f"{part.error.name}{leader}"
        case ReplicaAssignment():
            text = _ids(part.replicas)
            text += f" adding {_ids(part.adding_replicas)}" if part.adding_replicas else ""
            return text + (
                f" removing {_ids(part.removing_replicas)}" if part.removing_replicas else ""
            )
        case {"topics": topics, "error_code": error, "throttle_time": 0}:
            rows = [_altered(p) for t in topics for p in t["partitions"]]
            return ", ".join([Errors(error).name, *rows])
        case dict():
            rows = [f"{tp.topic}-{tp.partition} {_said(r)}" for tp, r in sorted(part.items())]
            return ", ".join(rows) or "none"
        case _:
            return ",".join(f"{tp.topic}-{tp.partition}" for tp in sorted(part)) or "none"


def _altered(row: dict[str, Any]) -> str:
    error = Errors(row["error_code"])
    if error:
        return f"{row['partition_index']} {error.name}"
    recovering = " recovering" if row["leader_recovery_state"] else ""
    return (
        f"{row['partition_index']} leader {row['leader_id']} epoch {row['leader_epoch']}."
        f"{row['partition_epoch']} isr {_ids(row['isr'])}{recovering}"
    )
