"""Rows that do not say what every row of their kind says: without it no promise can count them.

A row without a partition, a type or an epoch falls out of every join and filter, and nobody misses
it: the checks see less, and find less. So what every writer of a kind puts into each of its rows,
whatever the system, is asked of each row that is stored; and of names and errors, which are few,
that it is one of them; of texts that are read, that they can be; of counts and offsets, that they
can be, and are in the order that they have. Not asked for: what some system, version or answer does
not tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.answerable import ERRORS, NAMES_LEADER
from checkers.facts.courses import PHASES
from checkers.history import KINDS
from checkers.history.schema import SHUTDOWN

if TYPE_CHECKING:
    from pyspark.sql import Column

VOID: Final = "do not say what every such row says"
"""What is said of such rows."""
Row = Mapping[str, Any]
_THERE: Final = object()
"""In a condition: the column is not null."""
_STAYS: Final = object()
"""In a condition: it is not what stands for the leader of a topic that is being deleted."""
_DELETED: Final = -2


@dataclass(frozen=True, slots=True)
class Need:
    """Columns (``a|b``: one of them) that are not null in rows of which ``when`` holds: each column
    has one of those words, or is there (`_THERE`, `_STAYS`)."""

    columns: tuple[str, ...]
    when: tuple[tuple[str, Any], ...] = ()


def _need(columns: str, **when: Any) -> Need:
    return Need(tuple(columns.split()), tuple(when.items()))


_TP: Final = "topic partition"
_OK: Final = ("ok",)
_OPERATION: Final = (_need("type op invoke_t"), _need("error|failure", type=("fail", "info")))
NEEDS: Final[Mapping[str, tuple[Need, ...]]] = {
    "produce": (*_OPERATION, _need(f"{_TP} value acks")),
    "fetch": (
        *(*_OPERATION, _need("poll")),
        _need("partition offset leader_epoch whole", type=_OK, topic=_THERE),
        _need(_TP, type=_OK, offset=_THERE),
    ),
    "waiting": (_need(f"node {_TP} from_t"),),
    "repeated": (*_OPERATION, _need(f"node {_TP} value first_t first_offset later")),
    "assignment": (_need(f"{_TP} group event"),),
    "commit": (*_OPERATION, _need(f"{_TP} group offset")),
    "committed": (*_OPERATION, _need("group"), _need("partition offset", type=_OK, topic=_THERE)),
    "listed_offset": (
        *(*_OPERATION, _need("node")),
        _need(f"{_TP} asked_ms believed_epoch offset", type=_OK),
    ),
    "epoch_end": (
        *(*_OPERATION, _need("node")),
        _need(f"{_TP} believed_epoch asked_epoch leader_epoch offset", type=_OK),
    ),
    "group_step": (
        *(*_OPERATION, _need("node group step"), _need("offset", type=_OK)),
        _need("state", type=_OK, step=("look", "describe")),
    ),
    "admin_request": (*_OPERATION, _need("node api about error|failure")),
    "coordinator": (*_OPERATION, _need("node group"), _need("coordinator", type=_OK)),
    "read_at": (
        *(*_OPERATION, _need("node")),
        _need(f"{_TP} offset believed_epoch high_watermark found_end", type=_OK),
    ),
    "read_below": (*_OPERATION, _need("node"), _need(f"{_TP} offset", type=_OK)),
    "records_deleted": (
        *(*_OPERATION, _need("node")),
        _need(f"{_TP} offset low_watermark", type=_OK),
    ),
    "metadata": (
        *(*_OPERATION, _need("node read")),
        _need("topic leader isr", type=_OK, partition=_THERE),
    ),
    "probe": (*_OPERATION, _need("node planned_t api plane")),
    "control_send": (
        _need("node to api correlation_id controller_epoch broker_epoch attempt partitions"),
    ),
    "control_response": (_need("node to api correlation_id send_t error|failure"),),
    "channel_queue": (_need("node to from_t size taken"),),
    "control_request": (
        _need("node api correlation_id client_id plane controller_id controller_epoch"),
        _need("broker_epoch receive_t dequeue_t handled_t error partitions"),
    ),
    "plane_use": (_need("node plane listener api interval_ns requests"),),
    "leadership": (
        _need(f"{_TP} leader leader_epoch source"),
        _need("controller_epoch partition_epoch isr", source=("zk", "controller")),
    ),
    "zk_write": (
        _need("zxid what step"),
        _need(_TP, what=("state",)),
        _need(
            "leader leader_epoch controller_epoch partition_epoch isr",
            what=("state",),
            step=("created", "set"),
        ),
        _need("topic", what=("topic",)),
        _need("partition replicas", what=("topic",), step=("created", "set")),
        _need("node", what=("controller", "broker")),
        _need("controller_epoch", what=("controller_epoch",)),
    ),
    "topic_deletion": (_need("topic step"),),
    "leader_change": (_need(f"node {_TP} role leader leader_epoch"),),
    "replica_stop": (_need(f"node {_TP} leader_epoch delete"),),
    "truncation": (_need(f"node {_TP} from_offset to_offset"),),
    # Kafka's line about a partition that is deleted tells of no epoch.
    "metadata_update": (_need(f"node {_TP} leader"), _need("leader_epoch", leader=_STAYS)),
    "isr_change": (_need(f"node {_TP} isr leader_epoch partition_epoch"),),
    "controller": (_need("node event controller_epoch"),),
    "exception": (_need("node error place says logger"),),
    "fault": (_need("fault phase"),),
    "flood": (_need("node id interval_ns connections sent completed errors"),),
    "forged": (
        *(*_OPERATION, _need("node api plane controller_id controller_epoch broker_epoch")),
        _need("correlation_id client_id"),
        _need("broker", api=(SHUTDOWN,)),
    ),
    "node_event": (_need("node event"),),
    "phase": (_need("name event"),),
    "connection": (_need("node to link connections"),),
    "infra": (_need("component reason"),),
    "standstill": (_need("lasting_ns"),),
    "clock_set": (_need("by_ns"),),
    "strain": (_need("ran_ns waited_ns"),),
    "source": (_need("source rows missing repeated rejected torn closed"),),
    "final_state": (
        _need("what"),
        _need("node", what=("node", "replica")),
        _need(f"{_TP} leader leader_epoch isr replicas", what=("partition",)),
        _need(f"{_TP} log_end_offset earlier_end_offset", what=("replica",)),
    ),
    "log_read": (_need(f"node {_TP} offset leader_epoch append_time_ms whole"),),
    "log_end": (
        _need(f"node {_TP}"),
        _need("log_start_offset log_end_offset is_leader", error=(None,)),
    ),
    "log_folder": (
        _need(f"node {_TP}"),
        _need(
            "segments batches start_offset end_offset producers epochs checkpoint damage",
            error=(None,),
        ),
    ),
    "described": (_need("node api"), _need("name key known", error=(None,))),
}
_INTS: Final = ("int32", "int64")
_APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
_PLANES: Final = ("control", "data")
_TYPES: Final = ("ok", "fail", "info")
_LIES: Final = (
    *("stale_controller_epoch", "stale_broker_epoch", "stale_leader_epoch"),
    "future_controller_epoch",
)
_STEPS: Final = (
    *("commit", "ask", "delete", "join", "look", "enter", "leave", "beat"),
    *("raise", "see", "sync", "live", "keep", "part", "last", "spare", "clear"),
    *("describe", "own"),
)
_STATES: Final = (
    *("Dead", "Empty", "Stable", "PreparingRebalance", "CompletingRebalance"),
    *("Assigning", "Reconciling", ""),  # none, with an error
)
_NAMES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    **{kind: {"type": _TYPES} for kind in ("produce", "fetch", "commit", "committed", "metadata")},
    **{kind: {"type": _TYPES} for kind in ("listed_offset", "epoch_end")},
    **{
        kind: {"type": _TYPES}
        for kind in ("records_deleted", "read_at", "read_below", "coordinator", "repeated")
    },
    "admin_request": {"type": _TYPES},
    "group_step": {"type": _TYPES, "step": _STEPS, "state": _STATES},
    "probe": {"type": _TYPES, "api": _APIS, "plane": _PLANES},
    "forged": {"type": _TYPES, "api": (*_APIS, SHUTDOWN), "plane": _PLANES, "lie": _LIES},
    "assignment": {"event": ("assigned", "revoked", "lost")},
    "control_send": {"api": _APIS},
    "control_response": {"api": _APIS},
    "control_request": {"api": _APIS, "plane": _PLANES},
    "plane_use": {"plane": _PLANES},
    "leadership": {"source": ("zk", "controller", "shown")},
    "zk_write": {
        "what": ("state", "topic", "controller", "controller_epoch", "broker"),
        "step": ("created", "set", "removed"),
    },
    "topic_deletion": {"step": ("requested", "gone")},
    "leader_change": {"role": ("leader", "follower")},
    "controller": {"event": ("elected", "resigned")},
    "fault": {"phase": ("inject", "injected", "heal", "healed", "failed")},
    "node_event": {
        "event": (
            *("start", "ready", "stop", "stopped", "kill", "pause", "resume", "exited"),
            *("registered", "unregistered"),
        )
    },
    "phase": {
        "name": PHASES,
        "event": ("begin", "end", "timeout"),
    },
    "connection": {"link": ("client", "inter-broker", "control", "zookeeper")},
    "final_state": {
        "what": (
            *("partition", "replica", "node", "deletion", "reassignment", "leftover"),
            *("settings", "unread"),
        )
    },
}
WORDS: Final[Mapping[str, Mapping[str, tuple[Any, ...]]]] = {
    kind: {**_NAMES.get(kind, {}), **({"error": ERRORS[kind]} if kind in ERRORS else {})}
    for kind in _NAMES.keys() | ERRORS.keys()
}
RISING: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "truncation": (("to_offset", "from_offset"),),
    "log_end": (("log_start_offset", "log_end_offset"),),
    "channel_queue": (("queue_time_p99_us", "queue_time_max_us"),),
    "epoch_end": (("leader_epoch", "asked_epoch"), ("asked_epoch", "believed_epoch")),
}
"""Of each pair the second is never less than the first, where both are there."""
_LEAST_OF: Final[Mapping[str, int]] = {
    **dict.fromkeys(("node", "to", "partition", "partition_epoch", "controller_epoch"), 0),
    **dict.fromkeys(("op", "read", "poll", "sent", "completed", "errors", "bytes"), 0),
    **dict.fromkeys(("size", "taken", "queue_time_p99_us", "connections", "lasting_ns"), 0),
    **dict.fromkeys(("log_start_offset", "log_end_offset", "high_watermark"), 0),
    **dict.fromkeys(("from_offset", "to_offset", "zxid"), 0),
    **dict.fromkeys(("boot", "attempt", "interval_ns"), 1),
    **dict.fromkeys(("offset", "believed_epoch", "asked_epoch", "error"), -1),
    "leader": _DELETED,
}
"""By a column's name, whatever the kind."""
_MORE: Final[Mapping[str, Mapping[str, int]]] = {
    "plane_use": {"requests": 1},  # what nobody asked is not told of
    "log_read": {"offset": 0},
    "commit": {"offset": 0},
    "leader_change": {"leader_epoch": 0},
    "isr_change": {"leader_epoch": 0},
    "forged": {"controller_epoch": -1},  # a forger may say anything
}
LEAST: Final[Mapping[str, Mapping[str, int]]] = {
    kind: {n: _LEAST_OF[n] for n in of.all_columns if n in _LEAST_OF and of.all_columns[n] in _INTS}
    | dict(_MORE.get(kind, {}))
    for kind, of in KINDS.items()
}
_PLACED: Final = "^-?[0-9]+@"
FORMS: Final[Mapping[str, Mapping[str, str]]] = {
    "coordinator": {"endpoint": _PLACED},
    "metadata": {"endpoints": _PLACED},
}
"""Of texts that are read: what each (of a list, each of its own) looks like, as a pattern."""
_OF_NODES: Final = frozenset(
    {
        *("control_send", "control_response", "control_request", "channel_queue", "plane_use"),
        *("leadership", "leader_change", "replica_stop", "truncation", "metadata_update"),
        *("isr_change", "controller", "exception", "source"),
    }
)
"""What a broker writes of itself: its rows bear its number, which is in its name."""
_NODE: Final = "node-"
_UNHURT: Final = frozenset(
    {
        *("produce", "commit", "committed", "listed_offset", "epoch_end"),
        *("records_deleted", "read_at", "read_below", "coordinator", "group_step", "repeated"),
        "admin_request",
    }
)
"""Operations that are `ok` only without an error; others are answered, whatever the answer."""

ANSWERED: Final[Mapping[str, tuple[str, ...]]] = {
    "produce": ("offset",),
    "repeated": ("offset",),
    "committed": ("offset",),
    "listed_offset": ("offset", "found_ms", "leader_epoch"),
    "epoch_end": ("leader_epoch", "offset"),
    "coordinator": ("coordinator",),
    "metadata": ("leader", "leader_epoch"),
}
"""What only an answer that is `ok` tells: of others it is null, or -1."""


def lacking(kind: str) -> Column:
    """Of a frame of that kind: whether a row lacks what every row of it says. Told to Spark as one
    text: of column by column it would be thousands of calls."""
    from pyspark.sql import functions as F

    return F.expr(" or ".join(_lacking(kind)))


def _lacking(kind: str) -> Iterator[str]:
    """In SQL, each way in which a row may lack something."""
    yield from ("t is null", "process is null")
    for need in NEEDS.get(kind, ()):
        holds = " and ".join(_when(name, words) for name, words in need.when) or "true"
        none = (
            " and ".join(f"`{name}` is null" for name in names.split("|")) for names in need.columns
        )
        yield f"({holds} and ({' or '.join(none)}))"
    for name, words in WORDS.get(kind, {}).items():
        yield f"not {_is_one_of(name, words, unless='true')}"
    for name, least in LEAST.get(kind, {}).items():
        yield f"coalesce(`{name}` < {least}, false)"
    for name, form in FORMS.get(kind, {}).items():
        texts = f"`{name}`" if _is_list(kind, name) else f"array(`{name}`)"
        yield f"coalesce(exists({texts}, text -> text not rlike '{form}'), false)"
    for low, high in RISING.get(kind, ()):
        yield f"coalesce(`{high}` < `{low}`, false)"
    for name in ANSWERED.get(kind, ()):
        yield f"coalesce(type <> 'ok' and `{name}` >= 0, false)"
    if kind in _OF_NODES:
        own = f"concat('{_NODE}', coalesce(string(node), '?'))"
        yield f"(process rlike '^{_NODE}[0-9]+$' and process <> {own})"
    if kind == "leader_change":
        leads = "coalesce(leader = node, role = 'leader')"
        yield f"coalesce((role = 'leader') <> {leads}, false)"
    if kind == "metadata":
        named = f"(leader >= 0) <> (error in ({_listed(NAMES_LEADER)}))"
        yield f"coalesce(`partition` is not null and type = 'ok' and {named}, false)"
    if kind == "coordinator":  # nobody is named together with an error
        yield "coalesce(type = 'ok' and coordinator < 0, false)"
    if kind in _UNHURT:
        yield "coalesce(type = 'ok' and error <> 0, false)"


def _is_list(kind: str, name: str) -> bool:
    return KINDS[kind].all_columns[name].startswith("list")


def _when(name: str, words: Any) -> str:
    if words is _THERE:
        return f"`{name}` is not null"
    if words is _STAYS:
        return f"`{name}` <> {_DELETED}"
    return f"`{name}` is null" if words == (None,) else _is_one_of(name, words, unless="false")


def _is_one_of(name: str, words: Iterable[Any], *, unless: str) -> str:
    """``unless``: what holds where nothing is there."""
    return f"coalesce(`{name}` in ({_listed(words)}), {unless})"


def _listed(words: Iterable[Any]) -> str:
    """Names, which hold no quote, and numbers."""
    return ", ".join(f"'{word}'" if isinstance(word, str) else str(word) for word in words)


def lacks(kind: str, row: Row) -> Iterator[str]:
    """What one row lacks, by column."""
    yield from (name for name in ("t", "process") if row[name] is None)
    for need in NEEDS.get(kind, ()):
        if all(_holds(row[name], words) for name, words in need.when):
            for names in need.columns:
                if all(row[name] is None for name in names.split("|")):
                    yield names
    for name, words in WORDS.get(kind, {}).items():
        if row[name] is not None and row[name] not in words:
            yield name
    for name, least in LEAST.get(kind, {}).items():
        if row[name] is not None and row[name] < least:
            yield name
    for name, form in FORMS.get(kind, {}).items():
        texts = row[name] if _is_list(kind, name) else [row[name]]
        if any(text is not None and not re.search(form, text) for text in texts or ()):
            yield name
    for low, high in RISING.get(kind, ()):
        if None not in (row[low], row[high]) and row[high] < row[low]:
            yield high
    for name in ANSWERED.get(kind, ()):
        if row["type"] not in (None, "ok") and row[name] is not None and row[name] >= 0:
            yield name
    if _of_another(kind, row):
        yield "node"
    known = kind == "leader_change" and None not in (row["leader"], row["node"])
    if known and (row["role"] == "leader") != (row["leader"] == row["node"]):
        yield "role"
    if kind == "metadata" and row["partition"] is not None and row["type"] == "ok":
        known = None not in (row["leader"], row["error"])
        if known and (row["leader"] >= 0) != (row["error"] in NAMES_LEADER):
            yield "error"
    if kind == "coordinator" and row["type"] == "ok" and (row["coordinator"] or 0) < 0:
        yield "coordinator"
    if kind in _UNHURT and row["type"] == "ok" and row["error"]:
        yield "error"


def _of_another(kind: str, row: Row) -> bool:
    """Whether a broker's own row bears another number than its name has."""
    number = str(row["process"]).removeprefix(_NODE)
    own = kind in _OF_NODES and number.isdigit() and row["process"] == f"{_NODE}{number}"
    return own and str(row["node"]) != number


def _holds(value: Any, words: Any) -> bool:
    if words is _STAYS:
        return value is not None and value != _DELETED
    return value is not None if words is _THERE else value in words
