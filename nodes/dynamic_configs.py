"""Configs of a broker that change while it runs (Kafka's DynamicBrokerConfig).

They are in ZooKeeper: of all brokers under ``/config/brokers/<default>``, of one under its id, the
nearer over the farther, and both over the broker's file. Those that take effect here are the
defaults of topics that set nothing themselves (Kafka's DynamicLogConfig); which they are is in
`nodes.api.config_entries`. Of the others throttles are kept and shown, and nothing else is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from nodes.config import BrokerConfig, ConfigError

log = logging.getLogger("kafka.server.DynamicBrokerConfig")

ENTITY_TYPE: Final = "brokers"
DEFAULT_ENTITY: Final = "<default>"
"""Under this name ZooKeeper keeps what was set for all brokers at once."""


def overridden(config: BrokerConfig, configs: Mapping[str, str]) -> BrokerConfig:
    """`config` with these as if its file had them (none of them is derived from others), validated
    as a whole; what it says that it was `given` stays. Raises ConfigError."""
    parsed = BrokerConfig.from_properties({**config.given, **configs})
    fields = (name.replace(".", "_") for name in configs)
    return config.replace(**{field: getattr(parsed, field) for field in fields})


class DynamicConfigs:
    """What was set for brokers, as this one has taken it in last: it tells of itself what it goes
    by, not what somebody has just written, and need not ask ZooKeeper for it (Kafka's
    DynamicBrokerConfig.currentDynamicBrokerConfigs). Any thread."""

    def __init__(self, broker_id: int, read: Callable[[str, str], Mapping[str, str]]) -> None:
        """`read` gives an entity's configs; it is asked at once."""
        self._broker_id, self._read = broker_id, read
        self._known: Mapping[str, Mapping[str, str]] = {}
        self.take_in()

    def take_in(self) -> None:
        """Read all of it anew."""
        names = (DEFAULT_ENTITY, str(self._broker_id))
        self._known = {name: self._read(ENTITY_TYPE, name) for name in names}

    def of(self, entity: str) -> Mapping[str, str]:
        """`DEFAULT_ENTITY`, or this broker's id."""
        return self._known.get(entity, {})


def current(
    config: BrokerConfig, of: Callable[[str], Mapping[str, str]], may_change: Collection[str]
) -> BrokerConfig:
    """`config` as it is now; `of` gives what was set for an entity. What somebody wrote past all
    validation counts for nothing, nor does any config that may not change."""
    found = {**of(DEFAULT_ENTITY), **of(str(config.broker_id))}
    for name, value in found.items():
        if name in may_change:
            try:
                config = overridden(config, {name: value})
            except ConfigError as problem:
                log.error("What was set while brokers run is ignored: %s", problem)
    return config
