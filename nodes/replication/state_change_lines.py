"""A broker's lines in the state-change log, in Kafka's words (ReplicaManager, Partition,
ZkMetadataCache). `request` is always the whole request of a controller."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from nodes.core.types import TopicPartition
from nodes.replication.control_requests import StopState
from nodes.replication.model import LeaderAndIsrState
from nodes.state_change_log import data, of_broker, topic_id_text

_DELETED_LEADER = -2


def name_of(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


class Lines:
    """`log` is for what has no method of its own. Any thread."""

    def __init__(self, broker_id: int) -> None:
        self.log = of_broker(broker_id)

    # ---- requests --------------------------------------------------------------------------------

    def handling(self, api: str, correlation_id: int, request: Any, partitions: int) -> None:
        self.log.info(
            "Handling %s request correlationId %d from controller %d for %d partitions",
            api, correlation_id, request.controller_id, partitions,
        )  # fmt: skip

    def received_leader_and_isr(self, correlation_id: int, request: Any) -> None:
        if not self.log.traces:
            return
        for topic in request.topic_states:
            for state in topic.partition_states:
                self.log.trace(
                    "Received LeaderAndIsr request %s correlation id %d from controller %d epoch "
                    "%d",
                    data(state, topicName=topic.topic_name), correlation_id,
                    request.controller_id, request.controller_epoch,
                )  # fmt: skip

    def finished_leader_and_isr(
        self, correlation_id: int, request: Any, partitions: int, elapsed_ms: int
    ) -> None:
        self.log.info(
            "Finished LeaderAndIsr request in %dms correlationId %d from controller %d for %d "
            "partitions",
            elapsed_ms, correlation_id, request.controller_id, partitions,
        )  # fmt: skip

    def received_stop_replica(self, correlation_id: int, request: Any) -> None:
        """Versions before 3 name partitions without states, and no broker of today sends them."""
        if not self.log.traces:
            return
        for topic in getattr(request, "topic_states", ()):
            for state in topic.partition_states:
                self.log.trace(
                    "Received StopReplica request %s correlation id %d from controller %d epoch %d "
                    "for partition %s-%d",
                    data(state), correlation_id, request.controller_id, request.controller_epoch,
                    topic.topic_name, state.partition_index,
                )  # fmt: skip

    def updated_metadata(self, correlation_id: int, request: Any, deleted: int) -> None:
        states = [
            (t.topic_name, state) for t in request.topic_states for state in t.partition_states
        ]
        said_by = (request.controller_id, request.controller_epoch, correlation_id)
        for topic, state in states if self.log.traces else ():
            if state.leader == _DELETED_LEADER:
                self.log.trace(
                    "Deleted partition %s-%d from metadata cache in response to UpdateMetadata "
                    "request sent by controller %d epoch %d with correlation id %d",
                    topic, state.partition_index, *said_by,
                )  # fmt: skip
            else:
                self.log.trace(
                    "Cached leader info %s for partition %s-%d in response to UpdateMetadata "
                    "request sent by controller %d epoch %d with correlation id %d",
                    data(state, topicName=topic), topic, state.partition_index, *said_by,
                )  # fmt: skip
        self.log.info(
            "Add %d partitions and deleted %d partitions from metadata cache in response to "
            "UpdateMetadata request sent by controller %d epoch %d with correlation id %d",
            len(states) - deleted, deleted, *said_by,
        )  # fmt: skip

    # ---- what is refused -------------------------------------------------------------------------

    def ignored_controller(self, correlation_id: int, request: Any, known_epoch: int) -> None:
        """A controller epoch of old: nothing of the request counts."""
        self.log.warning(
            "Ignoring %s request from controller %d with correlation id %d since its controller "
            "epoch %d is old. Latest known controller epoch is %d",
            type(request).__name__.removesuffix("Request"), request.controller_id, correlation_id,
            request.controller_epoch, known_epoch,
        )  # fmt: skip

    def ignored_epoch(
        self, correlation_id: int, request: Any, state: LeaderAndIsrState, known_epoch: int
    ) -> None:
        text = (
            "Ignoring LeaderAndIsr request from controller %d with correlation id %d epoch %d for "
            "partition %s since its associated leader epoch %d "
        )
        values = (
            request.controller_id, correlation_id, request.controller_epoch, name_of(state.tp),
            state.leader_epoch,
        )  # fmt: skip
        if state.leader_epoch == known_epoch:
            self.log.info(text + "matches the current leader epoch", *values)
        else:
            text += "is smaller than the current leader epoch %d"
            self.log.warning(text, *values, known_epoch)

    def ignored_stranger(self, correlation_id: int, request: Any, state: LeaderAndIsrState) -> None:
        self.log.warning(
            "Ignoring LeaderAndIsr request from controller %d with correlation id %d epoch %d for "
            "partition %s as itself is not in assigned replica list %s",
            request.controller_id, correlation_id, request.controller_epoch, name_of(state.tp),
            ",".join(map(str, state.replicas)),
        )  # fmt: skip

    def ignored_stop(
        self, correlation_id: int, request: Any, state: StopState, known_epoch: int
    ) -> None:
        self.log.warning(
            "Ignoring StopReplica request (delete=%s) from controller %d with correlation id %d "
            "epoch %d for partition %s since its associated leader epoch %d is smaller than the "
            "current leader epoch %d",
            "true" if state.delete else "false", request.controller_id, correlation_id,
            request.controller_epoch, name_of(state.tp), state.leader_epoch, known_epoch,
        )  # fmt: skip

    def ignored_offline(
        self, what: str, correlation_id: int, request: Any, tp: TopicPartition
    ) -> None:
        self.log.warning(
            "Ignoring %s from controller %d with correlation id %d epoch %d for partition %s as "
            "the local replica for the partition is in an offline log directory",
            what, request.controller_id, correlation_id, request.controller_epoch,
            name_of(tp),
        )  # fmt: skip

    # ---- roles -----------------------------------------------------------------------------------

    def takes_topic_id(self, correlation_id: int, request: Any, state: LeaderAndIsrState) -> None:
        self.log.info(
            "Updating log for %s to assign topic ID %s from LeaderAndIsr request from controller "
            "%d with correlation id %d epoch %d",
            name_of(state.tp), topic_id_text(state.topic_id), request.controller_id,
            correlation_id, request.controller_epoch,
        )  # fmt: skip

    def lacks_topic_id(
        self, correlation_id: int, request: Any, state: LeaderAndIsrState, known_id: UUID
    ) -> None:
        self.log.info(
            "Updating PartitionFetchState for %s to remove log topic ID %s since LeaderAndIsr "
            "request from controller %d with correlation id %d epoch %d did not contain a topic ID",
            name_of(state.tp), topic_id_text(known_id), request.controller_id, correlation_id,
            request.controller_epoch,
        )  # fmt: skip

    def unavailable_leader(
        self, correlation_id: int, request: Any, state: LeaderAndIsrState
    ) -> None:
        self.log.error(
            "Received LeaderAndIsrRequest with correlation id %d from controller %d epoch %d for "
            "partition %s (last update controller epoch %d) but cannot become follower since the "
            "new leader %d is unavailable.",
            correlation_id, request.controller_id, request.controller_epoch, name_of(state.tp),
            state.controller_epoch, state.leader,
        )  # fmt: skip

    def role(
        self,
        state: LeaderAndIsrState,
        role: str,
        log_end_offset: int,
        high_watermark: int,
        previous_leader: int | None,
        previous_epoch: int,
        *,
        is_under_min_isr: bool,
    ) -> None:
        """What became of one partition. The same leader epoch again is no new beginning. Too small
        an in-sync set is said of who led before, too (Kafka asks before it leads)."""
        topic_id = "None" if state.topic_id is None else f"Some({topic_id_text(state.topic_id)})"
        name = name_of(state.tp)
        if state.leader_epoch == previous_epoch:
            self.log.info(
                "Skipped the become-%s state change for %s with topic id %s since it is already "
                "%s with leader epoch %d.",
                role, name, topic_id, "the leader" if role == "leader" else "a follower",
                state.leader_epoch,
            )  # fmt: skip
            return
        before = "None" if previous_leader is None else f"Some({previous_leader})"
        if role == "leader":
            self.log.info(
                "Leader %s with topic id %s starts at leader epoch %d from offset %d with "
                "partition epoch %d, high watermark %d, ISR %s, adding replicas %s and removing "
                "replicas %s %s. Previous leader %s and previous leader epoch was %d.",
                name, topic_id, state.leader_epoch, log_end_offset, state.partition_epoch,
                high_watermark, _ids(state.isr), _ids(state.adding_replicas),
                _ids(state.removing_replicas), "(under-min-isr)" if is_under_min_isr else "",
                before, previous_epoch,
            )  # fmt: skip
        else:
            self.log.info(
                "Follower %s starts at leader epoch %d from offset %d with partition epoch %d and "
                "high watermark %d. Current leader is %d. Previous leader %s and previous leader "
                "epoch was %d.",
                name, state.leader_epoch, log_end_offset, state.partition_epoch, high_watermark,
                state.leader, before, previous_epoch,
            )  # fmt: skip


def _ids(broker_ids: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, broker_ids))}]"
