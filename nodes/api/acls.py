"""DescribeAcls, CreateAcls and DeleteAcls: there is no authorizer, and that is the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.api.failures import fail
from nodes.core.errors import Errors

if TYPE_CHECKING:
    from nodes.network.request_channel import Request


def no_authorizer(request: Request) -> None:
    fail(request, Errors.SECURITY_DISABLED, "No Authorizer is configured on the broker.")
