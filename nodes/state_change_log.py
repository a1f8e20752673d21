"""What controllers decide and brokers obey, as lines of Kafka's ``state-change.log``.

Everything goes to the logger ``state.change.logger``, whatever module it comes from, with Kafka's
prefixes (``[Controller id=1 epoch=3]``, ``[Broker id=2]``), levels and words, so that whoever reads
Kafka's state-change log reads this one. One line a request is INFO; one line a partition, and every
answer, is TRACE (see ``biplane.log.levels``), as building those costs.
"""

from __future__ import annotations

import base64
import dataclasses
import logging
from enum import Enum
from typing import Any, Final
from uuid import UUID

TRACE: Final = 5
"""log4j's TRACE, below Python's DEBUG."""

logging.addLevelName(TRACE, "TRACE")

_logger = logging.getLogger("state.change.logger")


class StateChangeLog:
    """One speaker's way to the logger."""

    __slots__ = ("_prefix",)

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @property
    def traces(self) -> bool:
        """Whether TRACE lines are wanted: ask before building many."""
        return _logger.isEnabledFor(TRACE)

    def trace(self, text: str, *values: object) -> None:
        self._log(TRACE, text, values)

    def info(self, text: str, *values: object) -> None:
        self._log(logging.INFO, text, values)

    def warning(self, text: str, *values: object) -> None:
        self._log(logging.WARNING, text, values)

    def error(self, text: str, *values: object) -> None:
        self._log(logging.ERROR, text, values)

    def exception(self, text: str, *values: object) -> None:
        _logger.exception(self._prefix + text, *values)

    def _log(self, level: int, text: str, values: tuple[object, ...]) -> None:
        _logger.log(level, self._prefix + text, *values)


def of_controller(controller_id: int, controller_epoch: int) -> StateChangeLog:
    return StateChangeLog(f"[Controller id={controller_id} epoch={controller_epoch}] ")


def of_broker(broker_id: int) -> StateChangeLog:
    return StateChangeLog(f"[Broker id={broker_id}] ")


def data(entity: Any, name: str | None = None, /, **first: Any) -> str:
    """An entity as Kafka's generated classes print themselves; `first` are fields that Kafka's
    class has and the wire keeps elsewhere (a partition's topic)."""
    fields = {_camel(spec.name): getattr(entity, spec.name) for spec in dataclasses.fields(entity)}
    text = ", ".join(f"{field}={_text(value)}" for field, value in {**first, **fields}.items())
    return f"{name or type(entity).__name__}({text})"


def topic_id_text(topic_id: UUID | None) -> str:
    """Kafka's Uuid: base64 without padding."""
    return base64.urlsafe_b64encode((topic_id or UUID(int=0)).bytes).decode().rstrip("=")


def _camel(name: str) -> str:
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in rest)


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, UUID):
        return topic_id_text(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_text, value))}]"
    if dataclasses.is_dataclass(value):
        return data(value)
    return str(value)
