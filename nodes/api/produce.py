"""Produce: the hot path of a broker.

Nearly every request of a loaded broker has one partition and one record batch, so that case goes a
short way through: no intermediate maps, a bound callback instead of closures over the request, and
a templated response (nodes.wire.produce_codec). The general case does the same with dictionaries.

The records are looked at only as far as Kafka does before the log sees them (ProduceRequest's
`validateRecords`): exactly one batch, of magic 2. CRC and contents are the log's business.

acks=0 has no response: success just lets the connection go on, failure closes it, which is the only
way for its client to learn that it should look for another leader.
"""

from __future__ import annotations

import logging
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import millis
from nodes.api.failures import fail
from nodes.api.produce_frame import SingleProduce
from nodes.api.topic_names import INTERNAL
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.model import ProduceResult
from nodes.wire.produce_codec import encode_produce_response

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

log = logging.getLogger("kafka.server.KafkaApis")

ADMIN_CLIENT_ID: Final = "__admin_client"
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53

_BATCH_OVERHEAD: Final = 12  # base offset and length: what a batch's length does not count
_MIN_BATCH_LENGTH: Final = 14  # Kafka's LegacyRecord.RECORD_OVERHEAD_V0
_HEADER_SIZE: Final = 61
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_BATCH: Final = struct.Struct(">8xi4xb4xh")
"""A batch's length, magic and attributes."""
_COMPRESSION_MASK: Final = 0x07
_ZSTD: Final = 4
_TRANSACTIONAL: Final = 0x10
_FIRST_WITH_ZSTD: Final = 7

_NONE: Final = 0
_UNKNOWN_TOPIC: Final = int(Errors.UNKNOWN_TOPIC_OR_PARTITION)


class ProduceApi:
    """Stateless; runs on any handler thread, its callbacks on any thread at all."""

    def __init__(self, services: Services) -> None:
        self._broker_id = services.config.broker_id
        self._cache = services.metadata_cache
        self._replica_manager = services.replica_manager

    def produce(self, request: Request) -> None:
        body = request.body
        if type(body) is SingleProduce:
            self._produce_one(request, body)
        else:
            self._produce_many(request, body.topic_data)

    # ---- one partition ---------------------------------------------------------------------------

    def _produce_one(self, request: Request, body: SingleProduce) -> None:
        tp, acks = body.tp, body.acks
        error = self._refusal(request, tp, body.records)
        if error:
            if error == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                fail(request, error)
            else:
                _finish_one(request, tp, acks, ProduceResult(error))
            return
        self._replica_manager.append_single(
            tp,
            body.records,
            acks,
            body.timeout_ms,
            partial(_finish_one, request, tp, acks),
            request.is_abandoned,
        )

    def _refusal(self, request: Request, tp: TopicPartition, records: bytes | None) -> int:
        """Why this partition's records do not get as far as a log; 0 when they do."""
        partitions = self._cache.snapshot.topics.get(tp[0])
        if partitions is None or tp[1] not in partitions:
            return _UNKNOWN_TOPIC
        if tp[0] in INTERNAL and request.client_id != ADMIN_CLIENT_ID:
            return int(Errors.INVALID_TOPIC_EXCEPTION)
        return validate_records(records, request.api_version)

    # ---- several partitions ----------------------------------------------------------------------

    def _produce_many(self, request: Request, topics: Any) -> None:
        body = request.body
        entries: dict[TopicPartition, bytes] = {}
        refused: dict[TopicPartition, ProduceResult] = {}
        order: dict[TopicPartition, None] = {}
        for topic in topics:
            for data in topic.partition_data:
                tp = TopicPartition(topic.name, data.index)
                order[tp] = None
                error = self._refusal(request, tp, data.records)
                if error == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    fail(request, error)
                    return
                if error:
                    refused[tp] = ProduceResult(error)
                else:
                    entries[tp] = data.records
        acks = int(body.acks)
        respond = partial(_finish_many, request, acks, order, refused)
        if entries:
            self._replica_manager.append_records(
                millis(body.timeout), acks, entries, respond, request.is_abandoned
            )
        else:
            respond({})


def validate_records(records: bytes | None, version: int) -> int:
    """The error of a partition's records that are not exactly one batch of magic 2, else 0.

    The walk over the buffer is Kafka's: a batch that does not fit into it does not count as one.
    """
    if records is None or len(records) < _HEADER_SIZE:
        return _refused_stump(records)
    length, magic, attributes = _BATCH.unpack_from(records)
    if length < _MIN_BATCH_LENGTH:
        return int(Errors.CORRUPT_MESSAGE)
    if magic != _MAGIC:
        return int(Errors.INVALID_RECORD if 0 <= magic < _MAGIC else Errors.CORRUPT_MESSAGE)
    if length + _BATCH_OVERHEAD != len(records):
        # Cut short: no whole batch. Longer: a second one, or garbage that Kafka calls one.
        return int(Errors.INVALID_RECORD)
    if attributes & _TRANSACTIONAL:
        return TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if attributes & _COMPRESSION_MASK == _ZSTD and version < _FIRST_WITH_ZSTD:
        return int(Errors.UNSUPPORTED_COMPRESSION_TYPE)
    return _NONE


def _refused_stump(records: bytes | None) -> int:
    """The error of what is too short to be a batch of magic 2."""
    if records is None or len(records) <= _MAGIC_AT:
        return int(Errors.INVALID_RECORD)
    length = int.from_bytes(records[8:12], "big", signed=True)
    if length < _MIN_BATCH_LENGTH or records[_MAGIC_AT] > _MAGIC:
        return int(Errors.CORRUPT_MESSAGE)
    if records[_MAGIC_AT] == _MAGIC and length + _BATCH_OVERHEAD == len(records):
        return int(Errors.CORRUPT_MESSAGE)  # whole by its own account, but without a full header
    return int(Errors.INVALID_RECORD)


def _finish_one(request: Request, tp: TopicPartition, acks: int, result: ProduceResult) -> None:
    if acks:
        if result.error:
            request.errors = (result.error,)
        request.respond(
            encode_produce_response(request.api_version, request.correlation_id, ((*tp, *result),))
        )
    elif result.error:
        _close(request, {tp: result})
    else:
        request.respond_nothing()


def _finish_many(
    request: Request,
    acks: int,
    order: dict[TopicPartition, None],
    refused: dict[TopicPartition, ProduceResult],
    appended: dict[TopicPartition, ProduceResult],
) -> None:
    results = {**appended, **refused}
    if acks:
        rows = [(*tp, *results[tp]) for tp in order]
        request.errors = [result.error for result in results.values()]
        rows.sort(key=lambda row: row[0])  # those of one topic together; stable otherwise
        request.respond(encode_produce_response(request.api_version, request.correlation_id, rows))
    elif any(result.error for result in results.values()):
        _close(request, results)
    else:
        request.respond_nothing()


def _close(request: Request, results: dict[TopicPartition, ProduceResult]) -> None:
    errors = {str(tp): result.error for tp, result in results.items() if result.error}
    log.info(
        "Closing connection due to error during produce request with correlation id %d from client "
        "id %s with ack=0. Error codes: %s",
        request.correlation_id,
        request.client_id,
        errors,
    )
    request.errors = [result.error for result in results.values()]
    request.close_connection()
