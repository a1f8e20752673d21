"""DescribeConfigs: the configs of topics and of this broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import answer
from nodes.api.config_entries import (
    Entry,
    Source,
    broker_entries,
    dynamic_entries,
    topic_entries,
)
from nodes.api.topic_names import is_legal
from nodes.core.errors import ApiError, Errors
from nodes.dynamic_configs import DEFAULT_ENTITY

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4

Row = dict[str, Any]


class ConfigApi:
    """Stateless; runs on any handler thread (a topic costs a ZooKeeper round trip)."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe_configs(self, request: Request) -> None:
        synonyms = bool(request.body.include_synonyms)
        answer(request, results=[self._describe(r, synonyms) for r in request.body.resources])

    def _describe(self, resource: Any, synonyms: bool) -> Row:
        row: Row = {
            "error_code": Errors.NONE,
            "error_message": None,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
            "configs": [],
        }
        try:
            entries = self._entries(int(resource.resource_type), str(resource.resource_name))
        except ApiError as error:
            return {**row, "error_code": error.error, "error_message": str(error)}
        wanted = resource.configuration_keys
        row["configs"] = [
            _config_row(entry, synonyms) for entry in entries if not wanted or entry.name in wanted
        ]
        return row

    def _entries(self, resource_type: int, name: str) -> Iterable[Entry]:
        if resource_type == TOPIC_RESOURCE:
            if not is_legal(name):
                raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, f"Topic name {name!r} is illegal")
            if not self._services.metadata_cache.contains(name):
                raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} is not known")
            overrides = self._services.admin.topic_configs(name)
            return topic_entries(self._of_broker(), overrides)
        if resource_type == BROKER_RESOURCE:
            own = str(self._services.config.broker_id)
            if name not in ("", own):
                text = f"Unexpected broker id, expected {own} or empty string, but received {name}"
                raise ApiError(Errors.INVALID_REQUEST, text)
            if name == "":
                of_all = self._services.broker_configs(DEFAULT_ENTITY)
                return dynamic_entries(of_all, Source.DYNAMIC_DEFAULT_BROKER)
            return self._of_broker().values()
        raise ApiError(Errors.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")

    def _of_broker(self) -> dict[str, Entry]:
        return entries_of_broker(self._services)


def entries_of_broker(services: Services) -> dict[str, Entry]:
    """This broker's configs as they are now."""
    of, config = services.broker_configs, services.config
    return broker_entries(config, of(DEFAULT_ENTITY), of(str(config.broker_id)))


def _config_row(entry: Entry, synonyms: bool) -> Row:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": False,
        "synonyms": [
            {"name": name, "value": value, "source": source}
            for name, value, source in (entry.synonyms if synonyms else ())
        ],
        "config_type": entry.value_type,
        "documentation": None,
    }


def created_topic_rows(entries: Iterable[Entry]) -> list[Row]:
    """The same entries as CreateTopics (version 5 on) returns them."""
    return [
        {
            "name": entry.name,
            "value": entry.value,
            "read_only": entry.read_only,
            "config_source": entry.source,
            "is_sensitive": False,
        }
        for entry in entries
    ]
