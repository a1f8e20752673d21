"""Tells this broker of configs that were changed in ZooKeeper while it runs (Kafka's
ZkConfigManager and ZkNodeChangeNotificationListener).

Whoever changes the configs of an entity (any broker, or an administrator's tool) writes the whole
of them to `/config/<type>/<name>` and then a numbered notification under `/config/changes`. Every
broker watches the notifications, and reads the entity again for each that is new to it. Old ones
are removed by whoever comes by.

A watch fires once, and a session that ended took its watches with it: children are read with the
watch armed each time, and once more after a new session.

Threads: one of its own, on which `changed` is called; watch callbacks only wake it.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from kazoo.exceptions import KazooException

from nodes.coordination import znodes
from nodes.coordination.errors import CoordinationError
from nodes.coordination.session import ChildChangeHandler, StateHandler
from nodes.coordination.zk import KafkaZkClient
from nodes.core.rules import RULES, Rules

log = logging.getLogger("kafka.common.ZkNodeChangeNotificationListener")

EXPIRATION_MS: Final = 15 * 60 * 1000
_NUMBERED: Final = re.compile("config_change_([0-9]{1,19})")
_RETRY_S: Final = 1.0
_JOIN_S: Final = 0.5

ConfigsChanged = Callable[[str, str, Mapping[str, str]], None]
"""(entity type, name, all of its overrides): ``("topics", "t", {...})``."""


class ConfigChanges:
    """`startup` once the broker can take in changes; `shutdown` before the session ends."""

    def __init__(
        self,
        zk: KafkaZkClient,
        changed: ConfigsChanged,
        *,
        rules: Rules = RULES,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._zk = zk
        self._changed = changed
        self._rules = rules
        self._now_ms = now_ms
        self._last = -1
        self._due: dict[tuple[str, str], None] = {}
        """Entities whose change is known and not yet taken in: a session may end in between."""
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(
            target=self._run, name="/config/changes-event-process-thread", daemon=True
        )

    def startup(self) -> None:
        self._zk.register_znode_child_change_handler(
            ChildChangeHandler(znodes.CONFIG_CHANGES, self._wake.set)
        )
        if self._rules.looks_for_what_it_missed():
            self._zk.register_state_change_handler(
                StateHandler(before_new_session=lambda: None, after_new_session=self._wake.set)
            )
        self._wake.set()
        self._thread.start()

    def shutdown(self) -> None:
        self._stopped = True
        self._zk.unregister_znode_child_change_handler(znodes.CONFIG_CHANGES)
        self._wake.set()
        if self._thread.is_alive():
            # Not for long: it may be waiting for a ZooKeeper that is gone. The session ends that.
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped:
                return
            try:
                self._process()
            except Exception:
                if self._stopped:
                    return
                log.exception("Changes of configs could not be read; trying again")
                time.sleep(_RETRY_S)
                self._wake.set()

    def _process(self) -> None:
        """Read what is new. Reading the list arms the watch again."""
        numbered = sorted(
            (int(found[1]), name)
            for name in self._zk.watch_config_changes()
            if (found := _NUMBERED.fullmatch(name))
        )
        for number, name in numbered:
            if number <= self._last:
                continue
            entity = self._zk.get_config_change(name)
            if entity is not None:
                self._due[entity] = None
            self._last = number
        for entity_type, entity_name in list(self._due):
            configs = self._zk.get_entity_configs(entity_type, entity_name)
            log.info("Processing override for entityPath: %s/%s", entity_type, entity_name)
            try:
                self._changed(entity_type, entity_name, configs)
            except (CoordinationError, KazooException):
                raise  # what it had to read could not be read: it is due still
            except Exception:
                # Somebody wrote nonsense past our validation: that entity alone keeps what it had.
                log.exception("Configs of %s/%s are ignored", entity_type, entity_name)
            del self._due[entity_type, entity_name]
        self._zk.delete_old_config_changes(
            [name for _, name in numbered], self._now_ms() - EXPIRATION_MS
        )
