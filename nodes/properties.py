"""Java's ``.properties`` format, as far as Kafka's configuration files use it.

``key=value``, ``key: value`` or ``key value``; ``#`` and ``!`` start a comment line; a line ending
with an odd number of backslashes goes on in the next one; ``\\uXXXX``, ``\\t``, ``\\n``, ``\\r``,
``\\f`` and escaped separators are understood. A key given twice keeps its last value. Line ends and
blanks are Java's: Python's `str.splitlines` and `str.strip` know many more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])*)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+|$)(.*)", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\r|\n")
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_BLANK = "".join(map(chr, range(ord(" ") + 1)))


def trim(text: str) -> str:
    """Java's ``String.trim``, which Kafka applies to every value."""
    return text.strip(_BLANK)


def java_number(text: str) -> str:
    """ValueError for what Python reads as a number and Java does not: ``1_000``."""
    if "_" in text:
        raise ValueError(text)
    return text


def split(text: str) -> list[str]:
    """Java's ``split("\\s*,\\s*")``, as Kafka's Csv does it: empty parts at the end are left out,
    those before and between stay."""
    parts = _COMMA.split(text)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def parse_properties(text: str) -> dict[str, str]:
    """All entries of the file's text, escapes resolved, values stripped as Kafka strips them.
    Raises ValueError for ``\\u`` without four digits."""
    entries: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _ENTRY.match(line)
        if match is not None:
            entries[_unescape(match.group(1))] = trim(_unescape(match.group(2)))
    return entries


def format_properties(entries: dict[str, str]) -> str:
    """The inverse for plain keys; backslashes and line ends in values are escaped."""
    lines = []
    for key, value in entries.items():
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{key}={escaped}\n")
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[str]:
    """Lines as java.util.Properties joins them; where nothing was joined yet, a comment or a blank
    line is none."""
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    pending: str | None = None
    for raw in lines:
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            pending = None
            continue
        line = (pending or "") + line
        pending = None
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
        else:
            yield line
    if pending is not None:
        yield pending


def _unescape(text: str) -> str:
    def resolve(match: re.Match[str]) -> str:
        code = match.group(1)
        if code[0] == "u" and len(code) == 5:
            return chr(int(code[1:], 16))
        if code == "u":
            raise ValueError("malformed \\uXXXX escape")
        return _CONTROL.get(code, code)

    return _ESCAPE.sub(resolve, text) if "\\" in text else text
