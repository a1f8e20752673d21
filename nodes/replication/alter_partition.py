"""Asks the controller to commit changes of ISRs (Kafka's AlterPartitionManager, KIP-497).

One request is in flight; proposals that arrive meanwhile wait and go together in the next one. A
partition has at most one proposal out: a second is refused to the caller, who proposes again later.
A proposal is sent until the controller has answered it *for its partition*. A lost connection, a
change of controllers or a refusal of the request as a whole only delay it: whether the controller
applied it is then unknown, and sending the same again is safe, because it carries the partition
epoch that it builds on.

Threads: `submit` from any; everything else, the answers included, on one thread.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.partition import IsrAnswer, IsrProposal
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.build import build
from nodes.wire.client import Connection

if TYPE_CHECKING:
    from nodes.config import BrokerConfig

log = logging.getLogger("kafka.server.AlterPartitionManager")

VERSION: Final = 3
RETRY_S: Final = 0.05
Answer = Callable[[IsrAnswer], None]


class ControllerChannel(Protocol):
    """A way to the present controller. `request` blocks and raises on any failure; the next call
    looks for the controller anew."""

    def request(self, entity: Any) -> Any: ...

    def close(self) -> None: ...


class RemoteController:
    """Finds the controller in the metadata cache and asks it on the listener that controllers use:
    the control plane's, else the inter-broker one."""

    def __init__(
        self,
        config: BrokerConfig,
        controller_id: Callable[[], int],
        resolve: Callable[[int], tuple[str, int] | None],
    ) -> None:
        self._controller_id = controller_id
        self._resolve = resolve
        self._client_id = str(config.broker_id)
        self._timeout_s = config.controller_socket_timeout_ms / 1000
        self._connection: Connection | None = None
        self._connected_to = -1

    def request(self, entity: Any) -> Any:
        controller_id = self._controller_id()
        connection = self._connection
        if connection is None or controller_id != self._connected_to:
            self.close()
            endpoint = self._resolve(controller_id)
            if endpoint is None:
                raise ConnectionError("no controller is known")
            connection = Connection(*endpoint, self._client_id, self._timeout_s)
            self._connection, self._connected_to = connection, controller_id
        try:
            return connection.request(entity)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class AlterPartitionManager:
    """See the module's text."""

    def __init__(
        self, broker_id: int, channel: ControllerChannel, broker_epoch: Callable[[], int]
    ) -> None:
        self._broker_id = broker_id
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._pending: dict[TopicPartition, tuple[IsrProposal, Answer]] = {}
        self._changed = threading.Condition(threading.Lock())
        self._is_running = True
        self._thread = threading.Thread(
            target=self._run,
            name=f"zk-broker-{broker_id}-to-controller-alter-partition-channel-manager",
            daemon=True,
        )

    def startup(self) -> None:
        self._thread.start()

    def shutdown(self) -> None:
        with self._changed:
            self._is_running = False
            self._changed.notify()
        self._channel.close()
        if self._thread.is_alive():
            self._thread.join(5)

    def submit(self, tp: TopicPartition, proposal: IsrProposal, answer: Answer) -> bool:
        """Takes a proposal; False when an older one of this partition is still out. `answer` is
        called once, on this manager's thread."""
        with self._changed:
            if tp in self._pending:
                return False
            self._pending[tp] = (proposal, answer)
            self._changed.notify()
            return True

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._is_running and not self._pending:
                    self._changed.wait()
                if not self._is_running:
                    return
                batch = dict(self._pending)
            if not self._send(batch):
                with self._changed:
                    if self._is_running:
                        self._changed.wait_for(lambda: not self._is_running, RETRY_S)

    def _send(self, batch: dict[TopicPartition, tuple[IsrProposal, Answer]]) -> bool:
        """One exchange; False when the whole of it must be tried again."""
        try:
            response = self._channel.request(self._request(batch))
        except Exception as error:
            log.info("[broker-%d] AlterPartition will be retried: %s", self._broker_id, error)
            return False
        error_code = int(response.error_code)
        if error_code:
            # NOT_CONTROLLER: the next attempt finds the new one. STALE_BROKER_EPOCH: our new
            # registration is under way.
            log.info(
                "[broker-%d] AlterPartition was refused with %s and will be retried",
                self._broker_id, Errors(error_code).name,
            )  # fmt: skip
            return False
        answers = self._answers(batch, response)
        with self._changed:
            for tp in answers:
                self._pending.pop(tp, None)
        for tp, answer in answers.items():
            try:
                batch[tp][1](answer)
            except Exception:
                log.exception("the answer for %s could not be taken in", tp)
        return len(answers) == len(batch)

    def _request(self, batch: dict[TopicPartition, tuple[IsrProposal, Answer]]) -> Any:
        topics: dict[uuid.UUID | None, list[dict[str, Any]]] = {}
        for tp, (proposal, _answer) in batch.items():
            topics.setdefault(proposal.topic_id, []).append(
                {
                    "partition_index": tp.partition,
                    "leader_epoch": proposal.leader_epoch,
                    "partition_epoch": proposal.partition_epoch,
                    "new_isr_with_epochs": [
                        # With ZooKeeper no broker knows the others' epochs: -1 is not checked.
                        {"broker_id": replica, "broker_epoch": -1}
                        for replica in proposal.isr
                    ],
                }
            )
        return build(
            request_class(ApiKey.ALTER_PARTITION, VERSION),
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            topics=[{"topic_id": i, "partitions": rows} for i, rows in topics.items()],
        )

    @staticmethod
    def _answers(
        batch: dict[TopicPartition, tuple[IsrProposal, Answer]], response: Any
    ) -> dict[TopicPartition, IsrAnswer]:
        """Answers by partition; those that the controller left out are missing."""
        by_id = {(p.topic_id, tp.partition): tp for tp, (p, _answer) in batch.items()}
        answers = {}
        for topic in response.topics:
            for row in topic.partitions:
                tp = by_id.get((topic.topic_id, int(row.partition_index)))
                if tp is not None:
                    answers[tp] = IsrAnswer(
                        int(row.error_code),
                        int(row.leader_epoch),
                        int(row.partition_epoch),
                        tuple(map(int, row.isr)),
                    )
        return answers
