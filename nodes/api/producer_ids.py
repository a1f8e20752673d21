"""InitProducerId: an id for an idempotent producer.

Transactions are not served: there is no transaction coordinator. A transactional producer is
refused with an error that its client does not retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nodes.api.answers import answer
from nodes.api.failures import fail
from nodes.core.errors import Errors

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
_NONE: Final = -1


class ProducerIdApi:
    """Stateless; runs on any handler thread (a new block of ids costs a ZooKeeper round trip)."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def init_producer_id(self, request: Request) -> None:
        body = request.body
        producer_id = int(getattr(body, "producer_id", _NONE))
        producer_epoch = int(getattr(body, "producer_epoch", _NONE))
        if (producer_id == _NONE) != (producer_epoch == _NONE) or body.transactional_id == "":
            fail(request, Errors.INVALID_REQUEST)
        elif body.transactional_id is not None:
            fail(request, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        else:
            # A producer that names its old id gets a new one too: only transactions bump epochs.
            answer(
                request,
                error_code=Errors.NONE,
                producer_id=self._services.producer_ids.generate(),
                producer_epoch=0,
            )
