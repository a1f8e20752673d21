"""How a broker takes its leave: ControlledShutdown to the controller, before anything is stopped.

Sent over the inter-broker listener, as in Kafka (it does not use the control plane, KIP-702). The
controller is looked up anew for each attempt. Success is an answer without error that lists no
partition. There are `controlled.shutdown.max.retries` attempts in all, as in Kafka in spite of the
name. Failing all of them the broker stops anyway: its leaders then move when its session is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from nodes.config import BrokerConfig
from nodes.coordination.errors import CoordinationError
from nodes.coordination.zk import KafkaZkClient
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.client import Connection
from nodes.wire.codec import build
from nodes.wire.errors import WireClientError, WireError

log = logging.getLogger("kafka.server.KafkaServer")

_VERSION = 3


def controlled_shutdown(
    config: BrokerConfig,
    zk: KafkaZkClient,
    broker_epoch: Callable[[], int],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Ask to be relieved until it is granted; False when the broker goes without."""
    log.info("Starting controlled shutdown")
    for retries_left in reversed(range(config.controlled_shutdown_max_retries)):
        try:
            remaining = _attempt(config, zk, broker_epoch())
        except (WireClientError, WireError, CoordinationError, _Refused) as problem:
            log.warning("Controlled shutdown attempt failed: %s", problem)
        else:
            if not remaining:
                log.info("Controlled shutdown request returned successfully")
                return True
            log.info("Remaining partitions to move: %s", ", ".join(remaining))
        if retries_left:
            sleep(config.controlled_shutdown_retry_backoff_ms / 1000)
    log.warning(
        "Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed"
    )
    return False


class _Refused(Exception):
    """The attempt could not be made, or was answered with an error."""


def _attempt(config: BrokerConfig, zk: KafkaZkClient, broker_epoch: int) -> list[str]:
    """One attempt: the partitions that are still ours."""
    controller_id = zk.get_controller_id() if zk.is_connected else None
    if controller_id is None:
        raise _Refused("no controller is known")
    controller = zk.get_broker(controller_id)
    listener = config.inter_broker_listener_name
    endpoint = None if controller is None else controller.endpoint(listener)
    if endpoint is None:
        raise _Refused(f"controller {controller_id} has no listener {listener}")
    request = build(
        request_class(ApiKey.CONTROLLED_SHUTDOWN, _VERSION),
        broker_id=config.broker_id,
        broker_epoch=broker_epoch,
    )
    client_id, timeout_s = str(config.broker_id), config.request_timeout_ms / 1000
    with Connection(endpoint.host, endpoint.port, client_id, timeout_s) as connection:
        connection.connect(config.controller_socket_timeout_ms / 1000)
        response = connection.request(request)
    error = int(response.error_code.value)
    if error:
        raise _Refused(f"controller {controller_id} answered with error {error}")
    return [f"{p.topic_name}-{p.partition_index}" for p in response.remaining_partitions]
