"""Consumer groups over the wire: from requests to GroupCoordinator and back.

Answers differ between versions mostly in which fields there are; where they differ in more it is
said beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import GROUP_OPERATIONS, NO_OPERATIONS, answer, by_topic, millis
from nodes.api.failures import fail
from nodes.api.topic_names import OFFSETS_TOPIC
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition, as_long
from nodes.groups.group import JoinRequest, JoinResult, SyncResult
from nodes.groups.messages import CommittedOffset

if TYPE_CHECKING:
    from nodes.api.auto_topics import AutoTopicCreation
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53

_FIRST_WITH_KNOWN_MEMBER_IDS: Final = 4
_FIRST_WITH_NULL_PROTOCOL: Final = 7
_FIRST_WITH_SKIPPED_ASSIGNMENTS: Final = 9
_FIRST_LEAVING_TOGETHER: Final = 3
_FIRST_FETCHING_GROUPS: Final = 8
_FIRST_WITH_COORDINATORS: Final = 4

_NO_RETENTION: Final = -1

Row = dict[str, Any]


class GroupApis:
    """Stateless; runs on handler threads, its callbacks on any thread at all."""

    def __init__(self, services: Services, auto_topics: AutoTopicCreation) -> None:
        self._services = services
        self._groups = services.groups
        self._auto_topics = auto_topics

    # ---- FindCoordinator -------------------------------------------------------------------------

    def find_coordinator(self, request: Request) -> None:
        body = request.body
        key_type = int(getattr(body, "key_type", GROUP_KEY))
        if request.api_version >= _FIRST_WITH_COORDINATORS:
            rows = [
                {"key": key, **self._coordinator(request, key_type, str(key))}
                for key in body.coordinator_keys
            ]
            answer(request, coordinators=rows)
            return
        row = self._coordinator(request, key_type, str(body.key))
        answer(request, **row)

    def _coordinator(self, request: Request, key_type: int, key: str) -> Row:
        if key_type == TRANSACTION_KEY:
            return _nowhere(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not served")
        if key_type != GROUP_KEY:
            return _nowhere(Errors.INVALID_REQUEST, f"Unknown coordinator type {key_type}")
        cache = self._services.metadata_cache
        if not cache.contains(OFFSETS_TOPIC):
            self._auto_topics.create([OFFSETS_TOPIC])
            return _nowhere(Errors.COORDINATOR_NOT_AVAILABLE)
        state = cache.partition_state(OFFSETS_TOPIC, self._groups.partition_for(key))
        endpoint = None if state is None else cache.broker_endpoint(state.leader, request.listener)
        if state is None or endpoint is None:
            return _nowhere(Errors.COORDINATOR_NOT_AVAILABLE)
        host, port = endpoint
        return {
            "error_code": Errors.NONE,
            "error_message": "",
            "node_id": state.leader,
            "host": host,
            "port": port,
        }

    # ---- members ---------------------------------------------------------------------------------

    def join_group(self, request: Request) -> None:
        body, version = request.body, request.api_version
        instance_id = getattr(body, "group_instance_id", None)
        session_timeout_ms = millis(body.session_timeout)
        rebalance_timeout = getattr(body, "rebalance_timeout", None)
        join = JoinRequest(
            group_id=str(body.group_id),
            member_id=body.member_id,
            instance_id=instance_id,
            client_id=request.client_id or "",
            client_host=f"/{request.client_host}",
            # Version 0 has one timeout for both.
            rebalance_timeout_ms=(
                session_timeout_ms if rebalance_timeout is None else millis(rebalance_timeout)
            ),
            session_timeout_ms=session_timeout_ms,
            protocol_type=body.protocol_type,
            protocols=tuple((p.name, bytes(p.metadata)) for p in body.protocols),
            requires_member_id=version >= _FIRST_WITH_KNOWN_MEMBER_IDS and instance_id is None,
            may_skip_assignment=version >= _FIRST_WITH_SKIPPED_ASSIGNMENTS,
        )

        def respond(result: JoinResult) -> None:
            protocol = result.protocol
            if protocol is None and version < _FIRST_WITH_NULL_PROTOCOL:
                protocol = ""
            answer(
                request,
                error_code=result.error,
                generation_id=result.generation,
                protocol_type=result.protocol_type,
                protocol_name=protocol,
                leader=result.leader,
                skip_assignment=result.skip_assignment,
                member_id=result.member_id,
                members=[
                    {"member_id": member_id, "group_instance_id": instance, "metadata": metadata}
                    for member_id, instance, metadata in result.members
                ],
            )

        self._groups.join(join, respond)

    def sync_group(self, request: Request) -> None:
        body = request.body
        protocol_type = getattr(body, "protocol_type", None)
        protocol_name = getattr(body, "protocol_name", None)
        # From version 5 on a member has to say what it thinks it has joined.
        if request.api_version >= 5 and (protocol_type is None or protocol_name is None):
            answer(request, error_code=Errors.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
            return

        def respond(result: SyncResult) -> None:
            answer(
                request,
                error_code=result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol,
                assignment=result.assignment,
            )

        self._groups.sync(
            str(body.group_id),
            int(body.generation_id),
            body.member_id,
            getattr(body, "group_instance_id", None),
            (protocol_type, protocol_name),
            {a.member_id: bytes(a.assignment) for a in body.assignments},
            respond,
        )

    def heartbeat(self, request: Request) -> None:
        body = request.body
        error = self._groups.heartbeat(
            str(body.group_id),
            int(body.generation_id),
            body.member_id,
            getattr(body, "group_instance_id", None),
        )
        answer(request, error_code=error)

    def leave_group(self, request: Request) -> None:
        body = request.body
        if request.api_version < _FIRST_LEAVING_TOGETHER:
            error, errors = self._groups.leave(str(body.group_id), [(body.member_id, None)])
            answer(request, error_code=error or errors[0])
            return
        leaving = [(m.member_id, m.group_instance_id) for m in body.members]
        error, errors = self._groups.leave(str(body.group_id), leaving)
        answer(
            request,
            error_code=error,
            members=[
                {"member_id": member_id, "group_instance_id": instance_id, "error_code": code}
                for (member_id, instance_id), code in zip(leaving, errors, strict=False)
            ],
        )

    # ---- offsets ---------------------------------------------------------------------------------

    def offset_commit(self, request: Request) -> None:
        """Partitions that do not exist fail by themselves."""
        body = request.body
        now_ms = self._groups.now_ms()
        # Versions 2 to 4 may ask for a time of their own.
        retention_ms = int(getattr(body, "retention_time", _NO_RETENTION))
        expires_ms = -1 if retention_ms == _NO_RETENTION else max(0, as_long(now_ms + retention_ms))
        errors: dict[TopicPartition, Errors] = {}
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for topic in body.topics:
            for p in topic.partitions:
                tp = TopicPartition(str(topic.name), int(p.partition_index))
                errors[tp] = Errors.UNKNOWN_TOPIC_OR_PARTITION
                if self._services.metadata_cache.partition_state(*tp) is not None:
                    offsets[tp] = CommittedOffset(
                        int(p.committed_offset),
                        int(getattr(p, "committed_leader_epoch", -1)),
                        p.committed_metadata or "",
                        now_ms,
                        expires_ms,
                    )

        def respond(results: Mapping[TopicPartition, Errors]) -> None:
            grouped = by_topic(
                (tp.topic, {"partition_index": tp.partition, "error_code": code})
                for tp, code in {**errors, **results}.items()
            )
            topics = [{"name": name, "partitions": rows} for name, rows in grouped.items()]
            answer(request, topics=topics)

        if not offsets:
            respond({})
            return
        self._groups.commit_offsets(
            str(body.group_id),
            int(body.generation_id_or_member_epoch),
            body.member_id,
            getattr(body, "group_instance_id", None),
            offsets,
            respond,
        )

    def offset_fetch(self, request: Request) -> None:
        body = request.body
        if request.api_version >= _FIRST_FETCHING_GROUPS:
            rows = []
            for group in body.groups:
                error, topics = self._offsets(str(group.group_id), group.topics)
                rows.append({"group_id": group.group_id, "topics": topics, "error_code": error})
            answer(request, groups=rows)
            return
        error, topics = self._offsets(str(body.group_id), body.topics)
        if error:
            fail(request, error)
        else:
            answer(request, topics=topics, error_code=Errors.NONE)

    def _offsets(self, group_id: str, topics: Iterable[Any] | None) -> tuple[int, list[Row]]:
        partitions = (
            None
            if topics is None
            else [TopicPartition(str(t.name), int(p)) for t in topics for p in t.partition_indexes]
        )
        error, found = self._groups.fetch_offsets(group_id, partitions)
        return error, _offset_rows(found)

    # ---- looking at groups -----------------------------------------------------------------------

    def list_groups(self, request: Request) -> None:
        states = getattr(request.body, "states_filter", ())
        error, groups = self._groups.list_groups(states)
        rows = [
            {"group_id": g.group_id, "protocol_type": g.protocol_type, "group_state": g.state}
            for g in groups
        ]
        answer(request, error_code=error, groups=rows)

    def describe_groups(self, request: Request) -> None:
        body = request.body
        wants_operations = getattr(body, "include_authorized_operations", False)
        rows = []
        for group_id in body.groups:
            group = self._groups.describe(str(group_id))
            rows.append(
                {
                    "error_code": group.error,
                    "group_id": group_id,
                    "group_state": group.state,
                    "protocol_type": group.protocol_type,
                    "protocol_data": group.protocol,
                    "members": [
                        {
                            "member_id": m.member_id,
                            "group_instance_id": m.instance_id,
                            "client_id": m.client_id,
                            "client_host": m.client_host,
                            "member_metadata": m.metadata,
                            "member_assignment": m.assignment,
                        }
                        for m in group.members
                    ],
                    "authorized_operations": (
                        GROUP_OPERATIONS if wants_operations and not group.error else NO_OPERATIONS
                    ),
                }
            )
        answer(request, groups=rows)

    # ---- deleting --------------------------------------------------------------------------------

    def delete_groups(self, request: Request) -> None:
        results = self._groups.deletion.delete_groups(str(g) for g in request.body.groups_names)
        rows = [{"group_id": group, "error_code": error} for group, error in results.items()]
        answer(request, results=rows)

    def offset_delete(self, request: Request) -> None:
        """Partitions that do not exist fail by themselves."""
        body, cache = request.body, self._services.metadata_cache
        asked = [
            TopicPartition(str(topic.name), int(p.partition_index))
            for topic in body.topics
            for p in topic.partitions
        ]
        known = [tp for tp in asked if cache.partition_state(*tp) is not None]
        error, results = self._groups.deletion.delete_offsets(str(body.group_id), known)
        grouped = by_topic(
            (
                tp.topic,
                {
                    "partition_index": tp.partition,
                    "error_code": results.get(tp, Errors.UNKNOWN_TOPIC_OR_PARTITION),
                },
            )
            for tp in asked
            if not error
        )
        topics = [{"name": name, "partitions": rows} for name, rows in grouped.items()]
        answer(request, error_code=error, topics=topics)


def _offset_rows(found: Mapping[TopicPartition, CommittedOffset | None]) -> list[Row]:
    """A partition without a position is answered with offset -1 and no error."""
    grouped = by_topic(
        (
            tp.topic,
            {
                "partition_index": tp.partition,
                "committed_offset": -1 if committed is None else committed.offset,
                "committed_leader_epoch": -1 if committed is None else committed.leader_epoch,
                "metadata": "" if committed is None else committed.metadata,
                "error_code": Errors.NONE,
            },
        )
        for tp, committed in found.items()
    )
    return [{"name": name, "partitions": rows} for name, rows in grouped.items()]


def _nowhere(error: int, message: str = "") -> Row:
    return {"error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}
