"""What brokers answer in each version of a request that they serve: it is to be the same.

A client of years ago and one of today ask for the same things in other versions of a request, and
in other forms: for all by an empty list or by null, by name or by id, one by one or together. All
clients here are new ones. So once the load has ended each running node is asked the same question
in all of its forms, and each answer is held against that of the newest version: what both versions
can say must be said in both, alike (Kafka's message schemas: a later version adds fields, and takes
none for another).

Rows: ``described``, one a form (`checkers.promises.descriptions` judges them): `SAME`, or what is
said otherwise. What changes between two answers in the newest version has no truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from crc32c import crc32c

from faults.protocol import Link
from harness.cluster.ask import CLIENT_ID, NoAnswer, ask, request, served
from harness.cluster.errors import StateUnreadable
from harness.cluster.final_read import PROCESS
from harness.cluster.view import ZookeeperView
from nodes.wire.apis import SUPPORTED, ApiKey
from nodes.wire.client import Connection, RequestTimedOut, WireClientError
from nodes.wire.codec import WireError
from nodes.wire.plan import fields_of

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

BY_VERSION: Final = " by version"
"""Behind the name of an API, in such rows."""
SAME: Final = "the same"
_TIMEOUT_S: Final = 10.0
_OFFSETS_TOPIC: Final = "__consumer_offsets"
_NO_MORE: Final = {"allow_auto_topic_creation": False}
"""Who asks for topics wants no new ones."""
_EARLIEST, _LATEST = -2, -1
_GROUPS: Final = 3
"""So many groups of a coordinator are asked for."""
_SHOWN: Final = 3
"""So many differences of a form are written down."""
_BYTES: Final = 1
"""A fetch is given one batch."""
_IGNORED: Final = frozenset(
    {
        *("throttle_time", "session_id", "error_message", "synonyms", "documentation"),
        *("supported_features", "finalized_features", "finalized_features_epoch"),
        *("zk_migration_ready", "current_leader", "diverging_epoch", "snapshot_id"),
        *("node_endpoints", "total_bytes", "usable_bytes", "aborted_transactions"),
        *("topic_authorized_operations", "cluster_authorized_operations"),
        "authorized_operations",
    }
)
"""What is no answer to the question, what may be left out, and what passes (room on a disk)."""
_KEYS: Final = (
    *("name", "topic", "topic_id", "partition_index", "partition", "node_id", "broker_id"),
    *("group_id", "key", "api_key", "resource_name", "member_id", "log_dir"),
)
"""Fields by which the entries of a list are told apart, the first that there is."""
_OLDER_WORDS: Final = frozenset({("offset_not_available", "leader_not_available")})
"""What a newer version says, and older ones in its place, which do not know it (KIP-207)."""
_FAILED: Final = (WireClientError, WireError, OSError)
Said = dict[str, tuple[str, str]]
"""Where in an answer (with the names of entries) -> where in its schema, and what is said."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way to ask: in which version, and what the request has; ``says``: how, beside that."""

    version: int
    fields: Mapping[str, Any]
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question in all its forms, the one to be held against first. ``part``: what of an answer
    is compared; ``counts``: whether an entry of a list in it is; ``ignores``: fields."""

    api: ApiKey
    about: str
    forms: Sequence[Form]
    part: Callable[[Any], Any] = lambda answer: answer
    counts: Callable[[Any], bool] = lambda _entry: True
    ignores: frozenset[str] = _IGNORED


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a node is asked about."""

    topics: Sequence[str]
    led: Mapping[str, Sequence[tuple[int, int]]]
    """By topic: partitions that it leads, and in which leader epoch."""
    partitions: Mapping[str, Sequence[int]]
    has_groups: bool
    all_live: bool
    """Whether every replica of every partition is on a broker that lives."""
    has_controller: bool
    """Whether one broker is controller: without ZooKeeper any may be named, in each answer."""
    served: Mapping[int, tuple[int, int]]
    ids: Mapping[str, Any] = field(default_factory=dict)
    groups: Sequence[str] = ()

    def versions(self, api: ApiKey) -> list[int]:
        """Those that the node serves, and that can be written here, the newest first."""
        if api not in self.served:
            return []
        (low, high), (served_low, served_high) = SUPPORTED[api], self.served[api]
        return list(range(min(high, served_high), max(low, served_low) - 1, -1))


def record_versions(cluster: Cluster, topics: Sequence[str]) -> None:
    """A row for each form of each question to each running node, but the one that it is held
    against; none of a node that answers none."""
    there = {s.topic for s in cluster.view.partitions()}
    topics = [topic for topic in topics if topic in there]
    for node in cluster.node_ids:
        if not cluster.nodes.is_running(node):
            continue
        address = cluster.address(node, Link.CLIENT, direct=True)
        try:
            asked = _asked(cluster, node, address, topics)
        except (NoAnswer, StateUnreadable):
            continue  # judged by those who ask as clients do
        for question in questions(asked):
            api = question.api.display_name + BY_VERSION
            for key, told, known in compared(question, address):
                cluster.record(
                    "described",
                    process=PROCESS,
                    node=node,
                    api=api,
                    name=question.about,
                    key=key,
                    told=told,
                    truth=SAME,
                    known=known,
                )


def _asked(cluster: Cluster, node: int, address: tuple[str, int], topics: Sequence[str]) -> _Asked:
    states = cluster.view.partitions()
    led: dict[str, list[tuple[int, int]]] = {}
    partitions: dict[str, list[int]] = {}
    for s in states:
        if s.topic in topics:
            partitions.setdefault(s.topic, []).append(s.partition)
            if s.leader == node:
                led.setdefault(s.topic, []).append((s.partition, s.leader_epoch))
    has_groups = any(s.topic == _OFFSETS_TOPIC for s in states)
    live = set(cluster.view.live_brokers())
    all_live = all(live.issuperset(s.replicas) for s in states)
    has_controller = isinstance(cluster.view, ZookeeperView)
    ranges = served(address, _TIMEOUT_S)
    asked = _Asked(topics, led, partitions, has_groups, all_live, has_controller, ranges)
    newest = next(iter(asked.versions(ApiKey.METADATA)), 0)
    ids: dict[str, Any] = {}
    if newest >= 10:  # the first with topic ids
        fields = {"topics": [{"name": topic} for topic in topics], **_NO_MORE}
        named = request(ApiKey.METADATA, newest, **fields)
        ids = {str(t.name): t.topic_id for t in ask(address, named, _TIMEOUT_S).topics}
    listed = ask(address, request(ApiKey.LIST_GROUPS, 0), _TIMEOUT_S) if has_groups else None
    groups = sorted(str(g.group_id) for g in listed.groups) if listed else []
    return replace(asked, ids=ids, groups=groups[:_GROUPS])


# ---- the questions -------------------------------------------------------------------------------


def questions(asked: _Asked) -> Iterator[Question]:
    """Those that the node serves in more than one form."""
    for question in (
        *map(partial(_but_the_controller, asked), _of_the_cluster(asked)),
        *_of_logs(asked),
        *(_of_groups(asked) if asked.has_groups else ()),
    ):
        if len(question.forms) > 1:
            yield question


def _but_the_controller(asked: _Asked, question: Question) -> Question:
    if asked.has_controller:
        return question
    return replace(question, ignores=question.ignores | {"controller_id"})


def _alike(asked: _Asked, api: ApiKey, about: str, /, *others: Form, **fields: Any) -> Question:
    """Asked with the same fields in each version."""
    forms = [Form(version, fields) for version in asked.versions(api)]
    return Question(api=api, about=about, forms=[*forms, *others] if forms else [])


def _of_the_cluster(asked: _Asked) -> Iterator[Question]:
    # The oldest tells of no replica that is away, and had no other word for that.
    metadata = [v for v in asked.versions(ApiKey.METADATA) if v or asked.all_live]
    yield Question(
        api=ApiKey.METADATA,
        about="all topics",
        # The oldest cannot say null.
        forms=[Form(v, {"topics": None if v else [], **_NO_MORE}) for v in metadata],
    )
    yield Question(
        api=ApiKey.METADATA,
        about="no topic",
        forms=[Form(v, {"topics": [], **_NO_MORE}) for v in metadata if v],
    )
    named = [{"name": topic} for topic in asked.topics]
    by_id = [
        Form(v, {"topics": [{"name": None, "topic_id": i} for i in asked.ids.values()]}, ", by id")
        for v in metadata[:1]
        if v >= 12 and asked.ids and all(i is not None for i in asked.ids.values())
    ]
    yield Question(
        api=ApiKey.METADATA,
        about="topics",
        forms=[*(Form(v, {"topics": named, **_NO_MORE}) for v in metadata), *by_id],
    )
    yield _alike(asked, ApiKey.DESCRIBE_CLUSTER, "the cluster")
    yield _alike(
        *(asked, ApiKey.API_VERSIONS, "what is served"),
        client_software_name="biplane",
        client_software_version="1",
    )
    resources = [
        {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
        for topic in asked.topics
    ]
    yield _alike(asked, ApiKey.DESCRIBE_CONFIGS, "topics", resources=resources)
    yield _alike(asked, ApiKey.DESCRIBE_LOG_DIRS, "all logs", topics=None)


def _of_logs(asked: _Asked) -> Iterator[Question]:
    if not asked.led:
        return
    for about, timestamp in (("beginnings", _EARLIEST), ("ends", _LATEST)):
        at = {"current_leader_epoch": -1, "timestamp": timestamp}
        topics = [
            {"name": topic, "partitions": [{"partition_index": p, **at} for p, _ in each]}
            for topic, each in asked.led.items()
        ]
        yield _alike(asked, ApiKey.LIST_OFFSETS, about, replica_id=-1, topics=topics)
    ends = [
        {
            "topic": topic,
            "partitions": [
                {"partition": p, "current_leader_epoch": -1, "leader_epoch": epoch}
                for p, epoch in each
            ],
        }
        for topic, each in asked.led.items()
    ]
    yield _alike(
        *(asked, ApiKey.OFFSET_FOR_LEADER_EPOCH, "ends of leader epochs"),
        replica_id=-1,
        topics=ends,
    )
    yield from _of_records(asked)


def _of_records(asked: _Asked) -> Iterator[Question]:
    """The first records of a log that begins at 0, one partition a topic."""
    for topic, each in asked.led.items():
        at = {"partition": each[0][0], "fetch_offset": 0, "partition_max_bytes": _BYTES}
        whole = {"last_fetched_epoch": -1, "current_leader_epoch": -1, "log_start_offset": -1}
        forms = [
            Form(
                version,
                {
                    **{"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": _BYTES},
                    **{"isolation_level": 0, "session_id": 0, "session_epoch": -1},
                    "topics": [
                        {
                            **(
                                {"topic": topic} if version < 13 else {"topic_id": asked.ids[topic]}
                            ),
                            "partitions": [{**at, **whole}],
                        }
                    ],
                },
            )
            for version in asked.versions(ApiKey.FETCH)
            if version < 13 or asked.ids.get(topic) is not None
        ]
        yield Question(
            api=ApiKey.FETCH,
            about=f"the first records of {topic}-{each[0][0]}",
            forms=forms,
            part=_only_partition,
        )


def _only_partition(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def _of_groups(asked: _Asked) -> Iterator[Question]:
    find = asked.versions(ApiKey.FIND_COORDINATOR)
    yield Question(
        api=ApiKey.FIND_COORDINATOR,
        about="a group",
        forms=[
            Form(v, {"coordinator_keys": ["a group"]} if v >= 4 else {"key": "a group"})
            for v in find
        ],
        part=lambda answer: answer.coordinators[0] if hasattr(answer, "coordinators") else answer,
    )
    yield _alike(asked, ApiKey.LIST_GROUPS, "groups")
    for group in asked.groups:
        yield _alike(asked, ApiKey.DESCRIBE_GROUPS, f"group {group}", groups=[group])
        yield Question(
            api=ApiKey.OFFSET_FETCH,
            about=f"positions of {group}",
            forms=list(_positions(asked, group)),
            part=lambda answer: answer.groups[0] if hasattr(answer, "groups") else answer,
            counts=lambda entry: _is_position_in(entry, asked.topics),
        )


def _positions(asked: _Asked, group: str) -> Iterator[Form]:
    """Of each partition, by name, and of all, which the oldest version cannot ask for."""
    named = [
        {"name": topic, "partition_indexes": list(each)} for topic, each in asked.partitions.items()
    ]
    for topics, says in ((named, ""), (None, ", all")):
        for version in asked.versions(ApiKey.OFFSET_FETCH):
            if topics is None and version < 2:
                continue
            one = {"group_id": group, "topics": topics}
            whole = {"groups": [one]} if version >= 8 else one
            yield Form(version, {**whole, "require_stable": False}, says)


def _is_position_in(entry: Any, topics: Sequence[str]) -> bool:
    """Of who is asked for all there may be more, and nobody says where there is none."""
    if hasattr(entry, "committed_offset"):
        return int(entry.committed_offset) >= 0
    return str(entry.name) in topics and any(int(p.committed_offset) >= 0 for p in entry.partitions)


# ---- the answers ---------------------------------------------------------------------------------


def compared(question: Question, address: tuple[str, int]) -> Iterator[tuple[str, str, bool]]:
    """Of each form but the first: how it is asked; `SAME`, or what is said otherwise; and whether
    what the first one says stood still meanwhile. Of the first itself when it is not answered, and
    another is; nothing where none is: that is judged by those who ask as clients do. There is no
    truth where one took too long."""
    first, *others = question.forms
    with Connection(*address, CLIENT_ID, _TIMEOUT_S) as connection:
        try:
            newest = _answer(connection, question, first)
        except RequestTimedOut:
            return
        except _FAILED as error:
            if any(_is_answered(connection, question, form) for form in others):
                yield _how(first), f"no answer: {type(error).__name__}", True
            return
        told = [(form, *_held_against(newest, connection, question, form)) for form in others]
        try:
            stands = newest == _answer(connection, question, first)
        except _FAILED:
            return
    for form, says, in_time in told:
        yield _how(form), says, stands and in_time


def _how(form: Form) -> str:
    return f"version {form.version}{form.says}"


def _is_answered(connection: Connection, question: Question, form: Form) -> bool:
    try:
        _answer(connection, question, form)
    except _FAILED:
        return False
    return True


def _held_against(
    newest: _Answer, connection: Connection, question: Question, form: Form
) -> tuple[str, bool]:
    try:
        otherwise = list(_differences(newest, _answer(connection, question, form)))
    except RequestTimedOut as error:
        return str(error), False
    except _FAILED as error:
        return f"no answer: {type(error).__name__}", True
    return "; ".join(otherwise[:_SHOWN]) or SAME, True


@dataclass(frozen=True, slots=True)
class _Answer:
    said: Said
    schema: frozenset[str]
    """All that the version can say."""


def _answer(connection: Connection, question: Question, form: Form) -> _Answer:
    answer = connection.request(request(question.api, form.version, **form.fields))
    part = question.part(answer)
    said = dict(_said(part, question))
    return _Answer(said, frozenset(_schema(type(part), question.ignores)))


def _differences(newest: _Answer, other: _Answer) -> Iterator[str]:
    both = newest.schema & other.schema
    for place in sorted(newest.said.keys() | other.said.keys()):
        where, new = newest.said.get(place, ("", None))
        where_other, old = other.said.get(place, ("", None))
        differs = new != old and (new, old) not in _OLDER_WORDS
        if (where or where_other) in both and differs:
            yield f"{place}: {old}, and in the newest {new}"


def _said(
    entity: Any, question: Question, at: str = "", where: str = ""
) -> Iterator[tuple[str, tuple[str, str]]]:
    kind: Any = type(entity)
    for plan in fields_of(kind):
        if plan.name in question.ignores:
            continue
        value, schema = getattr(entity, plan.name), f"{where}/{plan.name}"
        place = f"{at}/{plan.name}" if at else plan.name
        if plan.entity is None:
            yield place, (schema, _text(value))
        elif plan.many:
            for entry in value or ():
                if question.counts(entry):
                    yield from _said(entry, question, f"{place} {_key(entry)}", schema)
        elif value is not None:
            yield from _said(value, question, place, schema)


def _schema(entity_class: Any, ignores: frozenset[str], where: str = "") -> Iterator[str]:
    for plan in fields_of(entity_class):
        if plan.name in ignores:
            continue
        schema = f"{where}/{plan.name}"
        if plan.entity is None:
            yield schema
        else:
            yield from _schema(plan.entity, ignores, schema)


def _key(entry: Any) -> str:
    return next((str(getattr(entry, name)) for name in _KEYS if hasattr(entry, name)), "")


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes, {crc32c(bytes(value)):08x}"
    if isinstance(value, tuple | list):
        return str([_text(each) for each in value])
    return str(getattr(value, "name", value))
