"""IncrementalAlterConfigs and AlterConfigs: configs of topics, and what of a broker's may change.

Any broker takes them: the overrides are written to ZooKeeper as a whole and every broker is told by
a notification (nodes.coordination.config_changes), itself included. So an answer says that a change
was accepted; it takes effect everywhere a moment later, as in Kafka.

Of a broker's own configs those can be set while it runs that are the defaults of its topics, and
the throttles of reassignments, which are kept and shown, but nothing is throttled here. Any other
is refused, in Kafka's words for configs that cannot be updated dynamically.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import answer
from nodes.api.config_entries import DYNAMIC_LOG_CONFIGS, default_of, is_list
from nodes.api.configs import BROKER_RESOURCE, TOPIC_RESOURCE
from nodes.api.topic_names import is_legal
from nodes.config import ConfigError
from nodes.core.config_alterations import Alteration, altered
from nodes.core.errors import ApiError, Errors
from nodes.dynamic_configs import DEFAULT_ENTITY, overridden

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.coordination.admin import TopicResult
    from nodes.network.request_channel import Request

_THROTTLES: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_NATURAL: Final = re.compile("[0-9]{1,19}")

Row = dict[str, Any]
Change = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From an entity's present overrides to its new ones."""


class AlterConfigsApi:
    """Stateless; blocks its handler thread on ZooKeeper, as Kafka does."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def incremental_alter_configs(self, request: Request) -> None:
        def change_of(resource: Any) -> Change:
            rows = [
                Alteration(str(c.name), int(c.config_operation), c.value) for c in resource.configs
            ]
            return lambda now: altered(now, rows, is_list=is_list, default_of=default_of)

        self._alter(request, change_of)

    def alter_configs(self, request: Request) -> None:
        """Replaces all overrides of each entity: what is not named is not overridden any more."""

        def change_of(resource: Any) -> Change:
            rows = [Alteration(str(c.name), 0, c.value) for c in resource.configs]
            return lambda _: altered({}, rows, is_list=is_list, default_of=default_of)

        self._alter(request, change_of)

    def _alter(self, request: Request, change_of: Callable[[Any], Change]) -> None:
        body = request.body
        seen = Counter((int(r.resource_type), str(r.resource_name)) for r in body.resources)
        rows: list[Row] = []
        for resource in body.resources:
            key = (int(resource.resource_type), str(resource.resource_name))
            try:
                if seen[key] > 1:
                    text = "Each resource must appear at most once."
                    raise ApiError(Errors.INVALID_REQUEST, text)
                self._apply(*key, change_of(resource), validate_only=bool(body.validate_only))
                error, message = Errors.NONE, None
            except ApiError as refused:
                error, message = refused.error, str(refused)
            rows.append(
                {
                    "error_code": error,
                    "error_message": message,
                    "resource_type": key[0],
                    "resource_name": key[1],
                }
            )
        answer(request, responses=rows)

    def _apply(self, resource_type: int, name: str, change: Change, *, validate_only: bool) -> None:
        admin = self._services.admin
        result: TopicResult
        if resource_type == TOPIC_RESOURCE:
            if not is_legal(name):
                raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, f"Topic name {name!r} is illegal")
            if not self._services.metadata_cache.contains(name):
                text = f"The topic '{name}' does not exist."
                raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, text)
            wanted = change(admin.topic_configs(name))
            result = admin.alter_topic_configs(name, wanted, validate_only=validate_only)
        elif resource_type == BROKER_RESOURCE:
            entity = self._broker_entity(name)
            wanted = change(admin.broker_configs(entity))
            self._check_dynamic(wanted)
            result = admin.alter_broker_configs(entity, wanted, validate_only=validate_only)
        else:
            raise ApiError(Errors.INVALID_REQUEST, f"Unknown resource type {resource_type}")
        if result.error:
            raise ApiError(result.error, result.message or "")

    def _broker_entity(self, name: str) -> str:
        own = self._services.config.broker_id
        if name == "":
            return DEFAULT_ENTITY
        if not _INTEGER.fullmatch(name):
            text = f"Node id must be an integer, but it is: {name}"
            raise ApiError(Errors.INVALID_REQUEST, text)
        if int(name) != own:
            text = f"Unexpected broker id, expected {own}, but received {name}"
            raise ApiError(Errors.INVALID_REQUEST, text)
        return str(own)

    def _check_dynamic(self, configs: Mapping[str, str]) -> None:
        fixed = sorted(configs.keys() - _THROTTLES - DYNAMIC_LOG_CONFIGS)
        if fixed:
            text = f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
            raise ApiError(Errors.INVALID_REQUEST, text)
        for name in configs.keys() & _THROTTLES:
            value = configs[name]
            if not _NATURAL.fullmatch(value) or int(value) >= 2**63:
                problem = "not a number of bytes a second"
                text = f"Invalid value {value} for configuration {name}: {problem}"
                raise ApiError(Errors.INVALID_REQUEST, text)
        of_logs = {name: configs[name] for name in configs.keys() & DYNAMIC_LOG_CONFIGS}
        try:
            overridden(self._services.config, of_logs)
        except ConfigError as refused:
            raise ApiError(Errors.INVALID_REQUEST, str(refused)) from None
