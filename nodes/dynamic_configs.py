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


def current(
    config: BrokerConfig,
    read: Callable[[str, str], Mapping[str, str]],
    may_change: Collection[str],
) -> BrokerConfig:
    """`config` as ZooKeeper has it now; `read` gives an entity's configs. What somebody wrote past
    all validation counts for nothing, nor does any config that may not change."""
    found = {**read(ENTITY_TYPE, DEFAULT_ENTITY), **read(ENTITY_TYPE, str(config.broker_id))}
    for name, value in found.items():
        if name in may_change:
            try:
                config = overridden(config, {name: value})
            except ConfigError as problem:
                log.error("What was set while brokers run is ignored: %s", problem)
    return config
