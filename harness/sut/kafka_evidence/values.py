"""The text that Kafka's generated classes give of themselves, read back.

    LeaderAndIsrPartitionState(topicName='t', partitionIndex=0, isr=[1, 2], addingReplicas=[])

becomes ``{"topicName": "t", "partitionIndex": 0, "isr": [1, 2], "addingReplicas": []}``. Strings
are quoted and never escaped (no name in a control request can hold a quote), numbers and ids are
bare.
"""

from __future__ import annotations

import re
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"'([^']*)'|([A-Za-z_]\w*)([(=])|([\[\](){},])|([^\s,\[\](){}=']+)|(\s+)"
)


def parse_data(text: str) -> dict[str, Any]:
    """The fields of one object, whatever its class. Raises `ValueError` when it is not one."""
    reader = _Reader(text)
    value = reader.value()
    if not isinstance(value, dict):
        raise ValueError(f"not an object: {text[:80]!r}")
    return value


class _Reader:
    """Recursive descent; ``_at`` is the position of the next token."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def value(self) -> Any:
        token = self._next()
        if token[1] is not None:
            return token[1]
        if token[2] is not None and token[3] == "(":
            return self._fields()
        if token[4] == "[":
            return self._items()
        if token[5] is not None:
            return _bare(token[5])
        raise self._error()

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self._skip(")"):
            return fields
        while True:
            token = self._next()
            if token[2] is None or token[3] != "=":
                raise self._error()
            fields[token[2]] = self.value()
            if self._skip(")"):
                return fields
            if not self._skip(","):
                raise self._error()

    def _items(self) -> list[Any]:
        items: list[Any] = []
        if self._skip("]"):
            return items
        while True:
            items.append(self.value())
            if self._skip("]"):
                return items
            if not self._skip(","):
                raise self._error()

    def _next(self) -> re.Match[str]:
        while True:
            token = _TOKEN.match(self._text, self._at)
            if token is None:
                raise self._error()
            self._at = token.end()
            if token[6] is None:
                return token

    def _skip(self, sign: str) -> bool:
        at = self._at
        token = self._next()
        if token[4] == sign:
            return True
        self._at = at
        return False

    def _error(self) -> ValueError:
        return ValueError(f"unreadable at {self._at}: {self._text[self._at : self._at + 40]!r}")


def _bare(text: str) -> Any:
    if text == "null":
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
