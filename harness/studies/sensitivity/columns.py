"""Columns that are not broken: no broker, and no witness beside it, says them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

_WRITER: Final = "its writer's own account: who wrote the row down, when, as which"
_HARNESS: Final = "what the harness did, or saw of its own machine"
_ASKED: Final = "what was asked, by the harness or a client of its"
_CLIENT: Final = "a client's own word for what it did"

_EVERYWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("t", "process", "node", "boot", "error_ns", "seq"), _WRITER),
    **dict.fromkeys(("op", "invoke_t", "planned_t", "poll", "read", "from_t"), _WRITER),
    "failure": "a client's own word for why there is no answer",
}
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("fault", "flood", "node_event", "phase", "infra"), _HARNESS),
    **dict.fromkeys(("standstill", "clock_set", "strain", "source", "connection"), _HARNESS),
    **dict.fromkeys(("waiting", "assignment"), _CLIENT),
}
_COLUMNS: Final[Mapping[str, str]] = {
    "produce": "topic partition value acks leader_epoch",
    "fetch": "topic partition",
    "commit": "topic partition group offset",
    "committed": "topic partition group",
    "group_step": "group step keep_ms offers",
    "admin_request": "api about wanted",
    "coordinator": "group",
    "listed_offset": "topic partition asked_ms believed_epoch",
    "epoch_end": "topic partition believed_epoch asked_epoch",
    "records_deleted": "topic partition offset",
    "read_at": "topic partition offset believed_epoch max_bytes partition_max_bytes "
    "max_wait_ms min_bytes",
    "read_below": "topic partition offset",
    "repeated": "topic partition value leader_epoch first_t first_offset later",
    "metadata": "asked_at",
    "probe": "api plane",
    "plane_metric": "name mbean attribute",
    "forged": "topic partition api plane lie controller_id controller_epoch broker_epoch leader "
    "leader_epoch correlation_id client_id broker",
    "log_read": "topic partition",
    "log_end": "topic partition",
    "log_folder": "topic partition",
    "described": "api name key known",
}
"""By kind, what was asked."""


def is_left_out(kind: str, column: str) -> bool:
    return why_left_out(kind, column) is not None


def why_left_out(kind: str, column: str) -> str | None:
    """None: it is broken."""
    if kind in _KINDS:
        return _KINDS[kind]
    if column in _COLUMNS.get(kind, "").split():
        return _ASKED
    return _EVERYWHERE.get(column)


def left_out() -> Iterator[tuple[str, list[str]]]:
    """By reason: which columns, or kinds."""
    found: dict[str, list[str]] = {}
    for name, why in (*_EVERYWHERE.items(), *_KINDS.items()):
        found.setdefault(why, []).append(name)
    for kind, names in _COLUMNS.items():
        found.setdefault(_ASKED, []).extend(f"{kind}.{name}" for name in names.split())
    yield from found.items()
