"""What the controller is made of, as its event handlers see it.

    KafkaController      the door: API, session, election, failover
      ├ events           one queue, one thread                    event_manager
      ├ context          what it knows                            context
      ├ channels         what brokers are told through            channel_manager, send_thread
      ├ partitions, replicas, deletions    the state machines     partition_machine,
      │                                                           replica_machine, deletion
      ├ states           writes to ZooKeeper                      state_writer
      └ handlers         one file a family of events              broker_changes, topic_changes,
                                                                  elections, reassignment, ...

Everything but `channels` belongs to the event thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nodes.config import BrokerConfig
from nodes.controller.channel_manager import ControllerChannelManager
from nodes.controller.context import ControllerContext
from nodes.controller.deletion import TopicDeletionManager
from nodes.controller.event_manager import ControllerEventManager, Event
from nodes.controller.partition_machine import PartitionStateMachine
from nodes.controller.replica_machine import ReplicaStateMachine
from nodes.controller.request_batch import ControllerRequestBatch
from nodes.controller.state_writer import PartitionStateWriter
from nodes.coordination.zk import KafkaZkClient
from nodes.core.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Made once by KafkaController."""

    config: BrokerConfig
    zk: KafkaZkClient
    context: ControllerContext
    events: ControllerEventManager
    channels: ControllerChannelManager
    states: PartitionStateWriter
    batch: ControllerRequestBatch
    partitions: PartitionStateMachine
    replicas: ReplicaStateMachine
    deletions: TopicDeletionManager
    is_active: Callable[[], bool]

    def put(self, event: Event) -> None:
        """Enqueue something for the event thread. Any thread."""
        self.events.put(event)

    def send_update_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Tell brokers about partitions, and (always) about the live brokers."""
        send_update_metadata(self.batch, broker_ids, partitions)


def send_update_metadata(
    batch: ControllerRequestBatch,
    broker_ids: Iterable[int],
    partitions: Iterable[TopicPartition],
) -> None:
    batch.new_batch()
    batch.add_update_metadata(broker_ids, partitions)
    batch.send()
