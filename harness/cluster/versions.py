"""What brokers answer in each version of a request that they serve: it is to be the same.

A client of years ago and one of today ask for the same things in other versions of a request, and
in other forms: for all by an empty list or by null, by name or by id, one by one or together. All
clients here are new ones. So once the load has ended each running node is asked the same question
in all of its forms, and each answer is held against that of the newest version: what both versions
can say must be said in both, alike (Kafka's message schemas: a later version adds fields, and takes
none for another). And who asks for many things at once is told of each what he is told who asks for
it alone, and it is nobody's business who else is asked for: one of them there is not.

Rows: ``described``, one a form (`checkers.promises.descriptions` judges them): `SAME`, or what is
said otherwise. What changes between two answers in the newest version has no truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from crc32c import crc32c
from kio.schema.errors import ErrorCode

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
OFFSETS_TOPIC: Final = "__consumer_offsets"
NEVER_MADE: Final = "never-made-beside-others"
"""A topic or group that there is not. What is said of it is not compared."""
_ALONE, _BESIDE = ", one by one", ", beside what there is not"
_NO_MORE: Final = {"allow_auto_topic_creation": False}
"""Who asks for topics wants no new ones."""
_EARLIEST, _LATEST = -2, -1
_FETCH_BY_ID: Final = 13
"""From this version on a fetch names topics by their ids alone."""
_FIND_MANY, _FETCH_GROUPS = 4, 8
"""From these on coordinators, and positions, of several groups are asked for at once."""
_GROUPS: Final = 3
"""So many groups of a coordinator are asked for."""
_SHOWN: Final = 3
"""So many differences of a form are written down."""
_BYTES: Final = 1
"""A fetch is given one batch."""
_ALL_BYTES: Final = 1_100_000
"""A fetch of many partitions is given of each what there is, and room enough for any batch."""
_MOST: Final = 12
"""So many partitions are asked for together."""
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
    *("name", "topic", "topic_id", "partition_index", "partition", "key", "node_id", "broker_id"),
    *("group_id", "api_key", "resource_name", "member_id", "log_dir", "producer_id"),
)
"""Fields by which the entries of a list are told apart, the first that there is."""
_NEWER_WORDS: Final = ((ApiKey.LIST_OFFSETS, 5, "offset_not_available", "leader_not_available"),)
"""From which version of what on a word is said, and what is said in its place before (KIP-207)."""
_FAILED: Final = (WireClientError, WireError, OSError)
Said = dict[str, tuple[str, str]]
"""Where in an answer (with the names of entries) -> where in its schema, and what is said."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way to ask: in which version, and what the request has; ``says``: how, beside that;
    ``more``: what further requests have, whose answers are taken together with the first one's."""

    version: int
    fields: Mapping[str, Any]
    says: str = ""
    more: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question in all its forms, the one to be held against first. ``part``: what of an answer
    is compared; ``counts``: whether an entry of a list in it is; ``ignores``: fields; ``refused``:
    of an answer nothing counts but its errors, wherever they stand."""

    api: ApiKey
    about: str
    forms: Sequence[Form]
    part: Callable[[Any], Any] = lambda answer: answer
    counts: Callable[[Any], bool] = lambda _entry: True
    ignores: frozenset[str] = _IGNORED
    refused: bool = False


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
        record_compared(cluster, node, address, questions(asked))


def record_compared(
    cluster: Cluster, node: int, address: tuple[str, int], asked: Iterable[Question]
) -> None:
    """A row for each form of these questions, but the one that it is held against."""
    for question in asked:
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
    has_groups = any(s.topic == OFFSETS_TOPIC for s in states)
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


def _together(
    asked: _Asked, api: ApiKey, about: str, asks: Asks, items: Sequence[Any], no_item: Any
) -> Question:
    """Asked with the same fields in each version, and in the newest `_apart`."""
    others = _apart(asked, api, asks, items, no_item)
    return _alike(asked, api, about, *others, **asks(items))


def _rows(
    items: Sequence[tuple[str, Any]],
    name: str,
    row: Callable[[Any], Any],
    partitions: str = "partitions",
) -> list[dict[str, Any]]:
    """Things of topics as a request has them: by topic, each as its ``row``."""
    return [
        {name: topic, partitions: [row(one) for of, one in items if of == topic]}
        for topic in dict.fromkeys(topic for topic, _ in items)
    ]


def _alike(asked: _Asked, api: ApiKey, about: str, /, *others: Form, **fields: Any) -> Question:
    """Asked with the same fields in each version."""
    forms = [Form(version, fields) for version in asked.versions(api)]
    return Question(api=api, about=about, forms=[*forms, *others] if forms else [])


Asks = Callable[[Sequence[Any]], Mapping[str, Any]]
"""What a request has that asks for these things."""


def _apart(
    asked: _Asked, api: ApiKey, asks: Asks, items: Sequence[Any], no_item: Any
) -> list[Form]:
    """Asked for in the newest version one by one, and beside one that there is not."""
    newest = asked.versions(api)[:1]
    rest = [asks([item]) for item in items[1:]]
    return [
        *(Form(v, asks(items[:1]), _ALONE, rest) for v in newest if rest),
        *(Form(v, asks([no_item, *items]), _BESIDE) for v in newest if items),
    ]


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

    def naming(topics: Sequence[str]) -> Mapping[str, Any]:
        return {"topics": [{"name": topic} for topic in topics], **_NO_MORE}

    named = naming(asked.topics)
    by_id = [
        Form(v, {"topics": [{"name": None, "topic_id": i} for i in asked.ids.values()]}, ", by id")
        for v in metadata[:1]
        if v >= 12 and asked.ids and all(i is not None for i in asked.ids.values())
    ]
    yield Question(
        api=ApiKey.METADATA,
        about="topics",
        forms=[
            *(Form(v, named) for v in metadata),
            *by_id,
            *_apart(asked, ApiKey.METADATA, naming, asked.topics, NEVER_MADE),
        ],
    )
    yield _alike(asked, ApiKey.DESCRIBE_CLUSTER, "the cluster")
    yield _alike(
        *(asked, ApiKey.API_VERSIONS, "what is served"),
        client_software_name="biplane",
        client_software_version="1",
    )

    def describing(topics: Sequence[str]) -> Mapping[str, Any]:
        of_all = {"resource_type": 2, "configuration_keys": None}
        return {"resources": [{**of_all, "resource_name": topic} for topic in topics]}

    yield _together(asked, ApiKey.DESCRIBE_CONFIGS, "topics", describing, asked.topics, NEVER_MADE)
    yield _alike(asked, ApiKey.DESCRIBE_LOG_DIRS, "all logs", topics=None)
    lying = [(topic, p) for topic, each in asked.partitions.items() for p in each]
    yield _together(
        *(asked, ApiKey.DESCRIBE_LOG_DIRS, "logs"),
        lambda items: {"topics": _rows(items, "topic", lambda p: p)},
        *(lying[:_MOST], (NEVER_MADE, 0)),
    )


def _of_logs(asked: _Asked) -> Iterator[Question]:
    """Of partitions that the node leads, each with its leader epoch."""
    led = [(topic, one) for topic, each in asked.led.items() for one in each][:_MOST]
    nobodys = (NEVER_MADE, (0, 0))
    if not led:
        return
    for about, timestamp in (("beginnings", _EARLIEST), ("ends", _LATEST)):
        at = {"current_leader_epoch": -1, "timestamp": timestamp}

        def listing(items: Sequence[Any], at: Mapping[str, int] = at) -> Mapping[str, Any]:
            rows = _rows(items, "name", lambda one: {"partition_index": one[0], **at})
            return {"replica_id": -1, "topics": rows}

        yield _together(asked, ApiKey.LIST_OFFSETS, about, listing, led, nobodys)

    def ending(items: Sequence[Any]) -> Mapping[str, Any]:
        of = {"current_leader_epoch": -1}
        rows = _rows(
            items, "topic", lambda one: {"partition": one[0], "leader_epoch": one[1], **of}
        )
        return {"replica_id": -1, "topics": rows}

    about = "ends of leader epochs"
    yield _together(asked, ApiKey.OFFSET_FOR_LEADER_EPOCH, about, ending, led, nobodys)
    yield _together(
        *(asked, ApiKey.DESCRIBE_PRODUCERS, "producers"),
        lambda items: {"topics": _rows(items, "name", lambda one: one[0], "partition_indexes")},
        *(led, nobodys),
    )
    yield from _of_records(asked)
    yield from _of_all_records(asked, led, nobodys)


def _of_records(asked: _Asked) -> Iterator[Question]:
    """The first records of a log that begins at 0, one partition a topic."""
    for topic, each in asked.led.items():
        forms = []
        for version in asked.versions(ApiKey.FETCH):
            by_id = version >= _FETCH_BY_ID
            if by_id and asked.ids.get(topic) is None:
                continue
            of = ("topic_id", asked.ids[topic]) if by_id else ("topic", topic)
            forms.append(Form(version, _fetch([(of[1], each[0])], of[0], _BYTES)))
        yield Question(
            api=ApiKey.FETCH,
            about=f"the first records of {topic}-{each[0][0]}",
            forms=forms,
            part=_only_partition,
        )


def _of_all_records(
    asked: _Asked, led: Sequence[Any], nobodys: tuple[str, Any]
) -> Iterator[Question]:
    """The same of many partitions, by names."""

    def fetching(items: Sequence[Any]) -> Mapping[str, Any]:
        return _fetch(items, "topic", _ALL_BYTES)

    named = replace(asked, served={**asked.served, ApiKey.FETCH: _named(asked)})
    newest = named.versions(ApiKey.FETCH)[:1]
    yield Question(
        api=ApiKey.FETCH,
        about="the first records of what it leads",
        forms=[
            *(Form(v, fetching(led)) for v in newest),
            *_apart(named, ApiKey.FETCH, fetching, led, nobodys),
        ],
    )


def _named(asked: _Asked) -> tuple[int, int]:
    """The versions served that name topics."""
    low, high = asked.served.get(ApiKey.FETCH, (0, -1))
    return low, min(high, _FETCH_BY_ID - 1)


def _fetch(items: Sequence[tuple[Any, Any]], name: str, most_bytes: int) -> dict[str, Any]:
    at = {"fetch_offset": 0, "partition_max_bytes": most_bytes, "log_start_offset": -1}
    at |= {"last_fetched_epoch": -1, "current_leader_epoch": -1}
    return {
        **{"replica_id": -1, "max_wait": 0, "min_bytes": 0, "isolation_level": 0},
        **{"max_bytes": len(items) * most_bytes, "session_id": 0, "session_epoch": -1},
        "topics": _rows(items, name, lambda one: {"partition": one[0], **at}),
    }


def _only_partition(answer: Any) -> Any:
    return answer.responses[0].partitions[0]


def _of_groups(asked: _Asked) -> Iterator[Question]:
    find = asked.versions(ApiKey.FIND_COORDINATOR)
    yield Question(
        api=ApiKey.FIND_COORDINATOR,
        about="a group",
        forms=[
            Form(v, {"coordinator_keys": ["a group"]} if v >= _FIND_MANY else {"key": "a group"})
            for v in find
        ],
        part=lambda answer: answer.coordinators[0] if hasattr(answer, "coordinators") else answer,
    )
    yield from _of_coordinators(asked)
    yield _alike(asked, ApiKey.LIST_GROUPS, "groups")
    yield _together(
        *(asked, ApiKey.DESCRIBE_GROUPS, "groups"),
        lambda groups: {"groups": list(groups)},
        *(asked.groups, NEVER_MADE),
    )
    yield from _of_all_positions(asked)
    for group in asked.groups:
        yield Question(
            api=ApiKey.OFFSET_FETCH,
            about=f"positions of {group}",
            forms=list(_positions(asked, group)),
            part=lambda answer: answer.groups[0] if hasattr(answer, "groups") else answer,
            counts=lambda entry: _is_position_in(entry, asked.topics),
        )


def _of_coordinators(asked: _Asked) -> Iterator[Question]:
    """Of any group there is one, whether that was ever made or not."""

    def finding(keys: Sequence[str]) -> Mapping[str, Any]:
        return {"coordinator_keys": list(keys), "key_type": 0}

    keys = ["a group", "another group", "a third group"]
    newest = asked.versions(ApiKey.FIND_COORDINATOR)[:1]
    if newest and newest[0] >= _FIND_MANY:
        yield Question(
            api=ApiKey.FIND_COORDINATOR,
            about="groups",
            forms=[
                Form(newest[0], finding(keys)),
                *_apart(asked, ApiKey.FIND_COORDINATOR, finding, keys, NEVER_MADE),
            ],
        )


def _of_all_positions(asked: _Asked) -> Iterator[Question]:
    named = [
        {"name": topic, "partition_indexes": list(each)} for topic, each in asked.partitions.items()
    ]

    def fetching(groups: Sequence[str]) -> Mapping[str, Any]:
        rows = [{"group_id": group, "topics": named} for group in groups]
        return {"groups": rows, "require_stable": False}

    newest = asked.versions(ApiKey.OFFSET_FETCH)[:1]
    if newest and newest[0] >= _FETCH_GROUPS:
        yield Question(
            api=ApiKey.OFFSET_FETCH,
            about="positions of groups",
            forms=[
                Form(newest[0], fetching(asked.groups)),
                *_apart(asked, ApiKey.OFFSET_FETCH, fetching, asked.groups, NEVER_MADE),
            ],
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
            whole = {"groups": [one]} if version >= _FETCH_GROUPS else one
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
        answer = _answer(connection, question, form)
        otherwise = list(_differences(newest, answer, _older_words(question.api, form.version)))
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
    said: Said = {}
    for fields in (form.fields, *form.more):
        answer = connection.request(request(question.api, form.version, **fields))
        part = question.part(answer)
        if question.refused:
            errors = ", ".join(sorted(set(_errors(part)))) or "no error"
            return _Answer({"errors": ("/errors", errors)}, frozenset({"/errors"}))
        said.update(_said(part, question))
    return _Answer(said, frozenset(_schema(type(part), question.ignores)))


def _older_words(api: ApiKey, version: int) -> Mapping[Any, str]:
    """By what a newer version says, what that one says, which does not know it."""
    return {new: old for of, since, new, old in _NEWER_WORDS if of == api and version < since}


def _differences(newest: _Answer, other: _Answer, older: Mapping[Any, str]) -> Iterator[str]:
    both = newest.schema & other.schema
    for place in sorted(newest.said.keys() | other.said.keys()):
        where, new = newest.said.get(place, ("", None))
        where_other, old = other.said.get(place, ("", None))
        if (where or where_other) in both and old not in (new, older.get(new, new)):
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
                if _key(entry) != NEVER_MADE and question.counts(entry):
                    yield from _said(entry, question, f"{place} {_key(entry)}", schema)
        elif value is not None:
            yield from _said(value, question, place, schema)


def _errors(entity: Any) -> Iterator[str]:
    kind: Any = type(entity)
    for plan in fields_of(kind):
        value = getattr(entity, plan.name)
        if isinstance(value, ErrorCode):
            if value is not ErrorCode.none:
                yield value.name
        elif plan.entity is not None and value is not None:
            for entry in value if plan.many else (value,):
                yield from _errors(entry)


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
