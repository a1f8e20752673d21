"""Where requests meet their handlers (Kafka's KafkaApis).

One dictionary from API key to handler; each family of requests is a module of its own. A handler
answers its request exactly once, at once or later from another thread, whatever happens:

* an ApiError becomes the answer, in every place that the API has for an error;
* anything else is logged with its stack and answered UNKNOWN_SERVER_ERROR;
* if even that cannot be written, the connection is closed.

So a handler thread never dies of a request, and a client never waits for an answer that is not to
come.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from nodes.api.acls import no_authorizer
from nodes.api.alter_configs import AlterConfigsApi
from nodes.api.api_versions import api_versions
from nodes.api.auto_topics import AutoTopicCreation
from nodes.api.cluster import ClusterApi
from nodes.api.configs import ConfigApi
from nodes.api.control import ControlApis
from nodes.api.delayed import DelayedOperations
from nodes.api.elections import ElectionApis
from nodes.api.failures import fail
from nodes.api.fetch import FetchApi
from nodes.api.groups import GroupApis
from nodes.api.log_dirs import LogDirApi
from nodes.api.metadata import MetadataApi
from nodes.api.offsets import OffsetApis
from nodes.api.produce import ProduceApi
from nodes.api.producer_ids import ProducerIdApi
from nodes.api.producers import ProducersApi
from nodes.api.record_deletion import RecordDeletionApi
from nodes.api.topics import TopicApis
from nodes.core.errors import ApiError, Errors
from nodes.groups.timer import Timer
from nodes.wire.apis import SUPPORTED, ApiKey

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

log = logging.getLogger("kafka.server.KafkaApis")

Handler = Callable[["Request"], None]


class KafkaApis:
    """`handle` is called by the handler threads of both planes and never raises."""

    def __init__(self, services: Services) -> None:
        self._broker_id = services.config.broker_id
        self._timer = Timer(f"ExpirationReaper-{self._broker_id}-topic", services.now_ns)
        self._delayed = DelayedOperations(self._timer)
        self._handlers = _handlers(services, self._delayed)

    def handle(self, request: Request) -> None:
        """Handle one request: it is answered exactly once, now or later."""
        try:
            self._handlers[request.api_key](request)
        except ApiError as error:
            self._fail(request, error.error, str(error))
        except Exception:
            log.exception(
                "[KafkaApi-%d] Unexpected error handling request %r", self._broker_id, request
            )
            self._fail(request, Errors.UNKNOWN_SERVER_ERROR, None)

    def _fail(self, request: Request, error: int, message: str | None) -> None:
        try:
            fail(request, error, message)
        except Exception:
            log.exception("[KafkaApi-%d] No answer to %r could be made", self._broker_id, request)
            request.close_connection()

    def shutdown(self) -> None:
        """Answer what waits for metadata and end the expiry thread."""
        self._delayed.finish_all()
        self._timer.shutdown()


def _handlers(services: Services, delayed: DelayedOperations) -> dict[int, Handler]:
    auto_topics = AutoTopicCreation(services.config, services.admin)
    control = ControlApis(services, delayed)
    topics = TopicApis(services, delayed)
    elections = ElectionApis(services, delayed)
    offsets = OffsetApis(services)
    groups = GroupApis(services, auto_topics)
    configs = AlterConfigsApi(services)
    handlers: dict[int, Handler] = {
        ApiKey.PRODUCE: ProduceApi(services).produce,
        ApiKey.FETCH: FetchApi(services).fetch,
        ApiKey.LIST_OFFSETS: offsets.list_offsets,
        ApiKey.METADATA: MetadataApi(services, auto_topics).metadata,
        ApiKey.LEADER_AND_ISR: control.leader_and_isr,
        ApiKey.STOP_REPLICA: control.stop_replica,
        ApiKey.UPDATE_METADATA: control.update_metadata,
        ApiKey.CONTROLLED_SHUTDOWN: control.controlled_shutdown,
        ApiKey.OFFSET_COMMIT: groups.offset_commit,
        ApiKey.OFFSET_FETCH: groups.offset_fetch,
        ApiKey.FIND_COORDINATOR: groups.find_coordinator,
        ApiKey.JOIN_GROUP: groups.join_group,
        ApiKey.HEARTBEAT: groups.heartbeat,
        ApiKey.LEAVE_GROUP: groups.leave_group,
        ApiKey.SYNC_GROUP: groups.sync_group,
        ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
        ApiKey.LIST_GROUPS: groups.list_groups,
        ApiKey.API_VERSIONS: api_versions,
        ApiKey.CREATE_TOPICS: topics.create_topics,
        ApiKey.DELETE_TOPICS: topics.delete_topics,
        ApiKey.DELETE_RECORDS: RecordDeletionApi(services).delete_records,
        ApiKey.INIT_PRODUCER_ID: ProducerIdApi(services).init_producer_id,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
        ApiKey.DESCRIBE_ACLS: no_authorizer,
        ApiKey.CREATE_ACLS: no_authorizer,
        ApiKey.DELETE_ACLS: no_authorizer,
        ApiKey.DESCRIBE_CONFIGS: ConfigApi(services).describe_configs,
        ApiKey.ALTER_CONFIGS: configs.alter_configs,
        ApiKey.DESCRIBE_LOG_DIRS: LogDirApi(services).describe_log_dirs,
        ApiKey.CREATE_PARTITIONS: topics.create_partitions,
        ApiKey.DELETE_GROUPS: groups.delete_groups,
        ApiKey.ELECT_LEADERS: elections.elect_leaders,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: elections.alter_reassignments,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: elections.list_reassignments,
        ApiKey.OFFSET_DELETE: groups.offset_delete,
        ApiKey.ALTER_PARTITION: control.alter_partition,
        ApiKey.DESCRIBE_CLUSTER: ClusterApi(services).describe_cluster,
        ApiKey.DESCRIBE_PRODUCERS: ProducersApi(services).describe_producers,
    }
    missing = SUPPORTED.keys() - handlers.keys()
    assert not missing, f"APIs that are offered but not handled: {missing}"
    # Plain integers as keys: a request carries one, and an IntEnum compares more slowly.
    return {int(key): handler for key, handler in handlers.items()}
