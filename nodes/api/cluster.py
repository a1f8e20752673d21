"""DescribeCluster: the brokers and the controller, without any topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nodes.api.answers import CLUSTER_OPERATIONS, NO_OPERATIONS, answer
from nodes.api.metadata import broker_rows
from nodes.core.errors import Errors

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

ENDPOINT_OF_BROKERS: Final = 1
MISMATCHED_ENDPOINT_TYPE: Final = 114
UNSUPPORTED_ENDPOINT_TYPE: Final = 115
_ENDPOINT_OF_CONTROLLERS: Final = 2
_NOBODY: Final = -1


class ClusterApi:
    """Stateless; runs on any handler thread."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe_cluster(self, request: Request) -> None:
        body = request.body
        endpoint_type = int(getattr(body, "endpoint_type", ENDPOINT_OF_BROKERS))
        if endpoint_type != ENDPOINT_OF_BROKERS:
            error = UNSUPPORTED_ENDPOINT_TYPE
            message = f"Unsupported endpoint type {endpoint_type}"
            if endpoint_type == _ENDPOINT_OF_CONTROLLERS:
                error = MISMATCHED_ENDPOINT_TYPE
                message = (
                    "The request was sent to an endpoint of type BROKER, but we wanted an endpoint "
                    "of type CONTROLLER"
                )
            answer(
                request,
                error_code=error,
                error_message=message,
                endpoint_type=ENDPOINT_OF_BROKERS,
                cluster_id="",
                controller_id=_NOBODY,
                brokers=[],
            )
            return
        snapshot = self._services.metadata_cache.snapshot
        brokers = broker_rows(snapshot, request.listener)
        # Whom the client could not reach by this answer is not named to it.
        told = {row["node_id"] for row in brokers}
        controller_id = snapshot.controller_id if snapshot.controller_id in told else _NOBODY
        answer(
            request,
            error_code=Errors.NONE,
            endpoint_type=ENDPOINT_OF_BROKERS,
            cluster_id=self._services.cluster_id,
            controller_id=controller_id,
            brokers=[{"broker_id": row.pop("node_id"), **row} for row in brokers],
            cluster_authorized_operations=(
                CLUSTER_OPERATIONS if body.include_cluster_authorized_operations else NO_OPERATIONS
            ),
        )
