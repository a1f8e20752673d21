"""What brokers describe to an operator, once the load has ended, beside what is so.

What ``kafka-configs --describe``, ``kafka-log-dirs``, ``kafka-reassign-partitions --list``,
``kafka-transactions describe-producers``, ``kafka-get-offsets --time max-timestamp``,
``kafka-consumer-groups --list`` and any tool's list of brokers and topics show comes from answers
that no producer or consumer asks for. So each running node is asked for all of them, past its
proxy, and each value is written down beside what ZooKeeper, or its own folders, held before and
after: a truth that changed meanwhile is none. Of groups nobody holds one but who coordinates them
(`checkers.promises.groups.listed_groups`), of records nobody but their log; of a broker's own
settings the file that it was started with does. Each is asked for a producer id as well, which
nobody may have had before. Their metrics go with it
(`harness.cluster.gauges`).

Rows: ``described``, one a value (`checkers.promises.descriptions` judges them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from faults.protocol import Capability, FaultFailed, Link, View
from harness.cluster.ask import NoAnswer, ask, error_name, request, served
from harness.cluster.errors import StateUnreadable
from harness.cluster.final_read import PROCESS
from harness.cluster.gauges import record_gauges
from harness.cluster.state import topic_id_of
from harness.cluster.view import ZookeeperView
from nodes.wire.apis import ApiKey

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

_TIMEOUT_S: Final = 10.0
_TIMEOUT_MS: Final = 8_000
_FIRST_EPOCH: Final = 0
"""Of a new producer id (KIP-98)."""
_TRANSACTION_MS: Final = 60_000
"""Of transactions, of which none is begun: to be said all the same."""
_MAX_TIMESTAMP: Final = -3
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_OF_THE_TOPIC: Final = 1
"""ConfigSource DYNAMIC_TOPIC_CONFIG: set for the topic itself."""
_OF_THE_FILE: Final = 4
"""ConfigSource STATIC_BROKER_CONFIG."""
OF_ITSELF: Final = " of itself"
"""Behind the name of DescribeConfigs: of a broker's own settings."""
_FILE: Final = "server.properties"
_VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.METADATA: 10,  # the first with topic ids
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.LIST_OFFSETS: 7,  # the first that finds the record of the latest time (KIP-734)
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_GROUPS: 0,
    ApiKey.INIT_PRODUCER_ID: 0,
}
"""The oldest version that says what is needed. Who does not serve it is not asked."""

_OF_BROKERS: Final = (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER)
"""Asked by the listener of brokers as well, right after that of clients: who asks there is told
where they are there (KIP-103), whatever others were told a moment ago."""
_AMONG_BROKERS: Final = ", among brokers"

_OF_LEADERS: Final = (ApiKey.DESCRIBE_PRODUCERS, ApiKey.LIST_OFFSETS)
"""Asked for what the node leads, and nothing else."""
_HEARS_S: Final = 5.0
"""So long is who was just elected given to hear of it."""

Key = tuple[str, str]
"""Of what it is told (a topic, a partition; "": the cluster), and which value of it."""
Values = dict[Key, str]
Told = Iterator[tuple[Key, str]]
Truth = dict[ApiKey, Values]


class _RefusedByLeader(NoAnswer):
    """Of what the node leads by what is committed, before it was asked and after it."""


def record_descriptions(cluster: Cluster, topics: Sequence[str]) -> None:
    """A row for each value that a running node tells or, by ZooKeeper, should tell; of an API that
    it serves and does not answer, one row with the ``error``, ``known`` where it was asked for what
    it led all the while."""
    there = {s.topic for s in cluster.view.partitions()}
    topics = [topic for topic in topics if topic in there]
    for node in cluster.node_ids:
        if not cluster.nodes.is_running(node):
            continue
        record_gauges(cluster, node)
        address = cluster.address(node, Link.CLIENT, direct=True)
        for api in _served(address):
            record = partial(
                cluster.record, "described", process=PROCESS, node=node, api=api.display_name
            )
            try:
                rows = _described(cluster, node, api, topics)
            except (NoAnswer, StateUnreadable) as error:
                record(error=str(error), known=isinstance(error, _RefusedByLeader))
                continue
            for row in rows:
                record(**row)
            if api == ApiKey.DESCRIBE_CONFIGS:
                _record_own_settings(cluster, node, address)


def _record_own_settings(cluster: Cluster, node: int, address: tuple[str, int]) -> None:
    """A row for each setting of its file that the node describes; none where there is no such file
    to be read. Others than these it may have been given meanwhile: they lie above the file's."""
    try:
        held = _settings(Path(cluster.layout(node).dir) / _FILE)
        told = _ask_own_settings(address, node)
    except (NoAnswer, OSError):
        return  # judged by those who ask for topics' settings
    for name in sorted(held.keys() & told.keys()):
        cluster.record(
            "described",
            process=PROCESS,
            node=node,
            api=ApiKey.DESCRIBE_CONFIGS.display_name + OF_ITSELF,
            name="",
            key=name,
            told=told[name],
            truth=held[name],
            known=True,
        )


def _settings(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text().splitlines())
    return {name.strip(): value.strip() for name, _, value in lines if value}


def _ask_own_settings(address: tuple[str, int], node: int) -> dict[str, str | None]:
    """What the node says that its file has, of every setting: by its synonyms, and by its value
    where nothing lies above them. Raises `NoAnswer`."""
    resource = {"resource_type": _BROKER_RESOURCE, "resource_name": str(node)}
    asked = {"resources": [{**resource, "configuration_keys": None}], "include_synonyms": True}
    api = ApiKey.DESCRIBE_CONFIGS
    (result,) = ask(address, request(api, _VERSIONS[api], **asked), _TIMEOUT_S).results
    _sound(result.error_code)
    return {str(one.name): _of_the_file(one) for one in result.configs if not one.is_sensitive}


def _of_the_file(config: Any) -> str | None:
    said = [
        str(one.value)
        for one in config.synonyms
        if (int(one.source), one.name) == (_OF_THE_FILE, config.name)
    ]
    if int(config.config_source) >= _OF_THE_FILE and said != [str(config.value)]:
        said = [f"{config.value}, by its synonyms {said}"]
    return said[0] if said else None


def record_moves(cluster: Cluster, occasion: str) -> None:
    """A row for each, by that ``name``, of what the active controller lists as being moved, while
    ZooKeeper holds a move that a fault keeps from its end; none where it does not serve that."""
    node, api = cluster.view.controller(), ApiKey.LIST_PARTITION_REASSIGNMENTS
    if node is None or not isinstance(cluster.view, ZookeeperView):
        return
    if api not in _served(cluster.address(node, Link.CLIENT, direct=True)):
        return
    asked = {"node": node, "api": api.display_name}
    try:
        rows = _described(cluster, node, api, ())
    except (NoAnswer, StateUnreadable) as error:
        cluster.record("described", **asked, error=str(error))
        return
    for row in rows:
        what = f"{row['name']} {row['key']}".strip()
        cluster.record("described", **asked, **{**row, "name": occasion, "key": what})


def _described(
    cluster: Cluster, node: int, api: ApiKey, topics: Sequence[str]
) -> Sequence[dict[str, Any]]:
    """Raises `NoAnswer`, and `StateUnreadable` of a node that nobody tells what is so."""
    check_takes_part(cluster.view, node)
    before = _truth(cluster, node, topics)
    if api == ApiKey.LIST_PARTITION_REASSIGNMENTS and _controller(before) != str(node):
        return []  # nobody else knows
    address = cluster.address(node, Link.CLIENT, direct=True)
    led = _led(cluster, node, topics)
    try:
        told = dict(_ask(address, api, topics, led))
        if api in _OF_BROKERS:
            told |= dict(_told_among_brokers(cluster, node, api, topics))
    except NoAnswer as error:
        if led and api in _OF_LEADERS and led == _led(cluster, node, topics):
            raise _RefusedByLeader(str(error)) from error
        raise
    rows = list(compared(api, told, before, _truth(cluster, node, topics)))
    check_takes_part(cluster.view, node)
    return rows


def check_takes_part(view: View, node: int) -> None:
    """A broker without a session, and one of a cluster without a controller, hears of no change,
    and cannot tell what is so: raises `StateUnreadable`."""
    if node not in view.live_brokers():
        raise StateUnreadable("it is not registered, and hears of nothing")
    if view.controller() is None:
        raise StateUnreadable("there is no controller to tell it of anything")


def compared(api: ApiKey, told: Values, before: Truth, after: Truth) -> Iterator[dict[str, Any]]:
    """Columns ``name``, ``key``, ``told`` (None: nothing), ``truth`` (None: there should be
    nothing) and ``known``, whether there is a truth."""
    held, held_after = before.get(api), after.get(api)
    read = held is not None and held_after is not None
    held, held_after = held or {}, held_after or {}
    named = {name for name, _ in told}
    for key in sorted(told.keys() | held.keys()):
        name, part = key
        if api == ApiKey.METADATA and name not in named | {""}:
            continue  # who does not name a topic is judged from what clients were told
        # What is set for a topic ZooKeeper holds whole, and what is being moved.
        whole = api in (ApiKey.DESCRIBE_CONFIGS, ApiKey.LIST_PARTITION_REASSIGNMENTS)
        known = read and held.get(key) == held_after.get(key) and (key in held or whole)
        truth = held.get(key) if known else None
        yield {"name": name, "key": part, "told": told.get(key), "truth": truth, "known": known}


# ---- what is so ----------------------------------------------------------------------------------


def _truth(cluster: Cluster, node: int, topics: Sequence[str]) -> Truth:
    """What ZooKeeper holds of it, and the node's folders; nothing where they cannot be read."""
    try:
        return _in_zookeeper(cluster, topics) | _in_folders(cluster, node, topics)
    except (StateUnreadable, OSError):
        return {}


def _in_folders(cluster: Cluster, node: int, topics: Sequence[str]) -> Truth:
    """Of the replicas that the node should have."""
    if Capability.LOG_FILES not in cluster.capabilities:
        return {}
    log_dir, held = Path(cluster.nodes.log_dir(node)), Values()
    for s in cluster.view.partitions():
        if s.topic in topics and node in s.replicas:
            name = f"{s.topic}-{s.partition}"
            size = sum(file.stat().st_size for file in (log_dir / name).glob("*.log"))
            held |= {(name, "bytes"): str(size), (name, "offset lag"): "0"}
            held[name, "is future"] = str(False)
    return {ApiKey.DESCRIBE_LOG_DIRS: held}


def _in_zookeeper(cluster: Cluster, topics: Sequence[str]) -> Truth:
    view = cluster.view
    if not isinstance(view, ZookeeperView):
        return {}
    whole = dict(_of_cluster(cluster, view))
    moving = sorted(topic for what, topic in view.pending() if what == "reassignment")
    return {
        ApiKey.METADATA: whole | dict(_of_topics(view, topics)),
        ApiKey.DESCRIBE_CLUSTER: whole,
        ApiKey.DESCRIBE_CONFIGS: {
            (topic, key): value for topic in topics for key, value in view.settings(topic).items()
        },
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {
            ("", "topics that move"): str(moving),
            **dict(_of_moves(view)),
        },
        ApiKey.INIT_PRODUCER_ID: {("", "its epoch"): str(_FIRST_EPOCH)},
    }


def _controller(truth: Truth) -> str | None:
    return truth.get(ApiKey.DESCRIBE_CLUSTER, {}).get(("", "controller"))


def _of_cluster(cluster: Cluster, view: ZookeeperView) -> Told:
    cluster_id, controller = view.cluster_id(), view.controller()
    if cluster_id is not None:
        yield ("", "cluster id"), cluster_id
    if controller is not None:
        yield ("", "controller"), str(controller)
    registered = view.registrations()
    yield ("", "brokers"), str(sorted(registered))
    for node, registration in registered.items():
        for link, where in ((Link.CLIENT, ""), (Link.INTER_BROKER, _AMONG_BROKERS)):
            host, port = cluster.address(node, link)
            # Somebody else's brokers may be reached here by other names than they go by.
            if any((at.host, at.port) == (host, port) for at in registration.endpoints):
                yield ("", f"broker {node}{where}"), _place(host, port, registration.rack)


def _of_topics(view: ZookeeperView, topics: Sequence[str]) -> Told:
    live = set(view.live_brokers())
    for topic in view.topics():
        if topic.name not in topics:
            continue
        if topic.topic_id is not None:
            yield (topic.name, "topic id"), topic.topic_id
        yield (topic.name, "is internal"), str(False)
        for partition, replicas in topic.replicas.items():
            name = f"{topic.name}-{partition}"
            yield (name, "replicas"), str(list(replicas))
            if set(replicas) <= live:
                yield (name, "offline replicas"), str([])


def _of_moves(view: ZookeeperView) -> Told:
    for topic in view.topics():
        for partition, adding in topic.adding.items():
            moved = (topic.replicas[partition], adding, topic.removing[partition])
            yield (f"{topic.name}-{partition}", "move"), _move(*moved)


def _move(replicas: Sequence[int], adding: Sequence[int], removing: Sequence[int]) -> str:
    return f"on {list(replicas)}, to come {list(adding)}, to go {list(removing)}"


def _place(host: str, port: int, rack: str | None) -> str:
    return f"{host}:{port}" + (f", rack {rack}" if rack else "")


# ---- what is told --------------------------------------------------------------------------------


def _served(address: tuple[str, int]) -> list[ApiKey]:
    """Who does not even answer this is judged by those who ask as clients do."""
    try:
        ranges = served(address, _TIMEOUT_S)
    except NoAnswer:
        return []
    return [
        api
        for api, version in _VERSIONS.items()
        if api in ranges and ranges[api][0] <= version <= ranges[api][1]
    ]


def _led(cluster: Cluster, node: int, topics: Sequence[str]) -> dict[str, list[int]]:
    led: dict[str, list[int]] = {}
    for s in cluster.view.partitions():
        if s.topic in topics and s.leader == node:
            led.setdefault(s.topic, []).append(s.partition)
    return led


def _ask(
    address: tuple[str, int],
    api: ApiKey,
    topics: Sequence[str],
    led: Mapping[str, Sequence[int]],
) -> Told:
    """Raises `NoAnswer`, also for an answer that is an error."""
    fields: dict[str, Any]
    match api:
        case ApiKey.METADATA:
            fields, read = {"topics": [{"name": topic} for topic in topics]}, _metadata
        case ApiKey.DESCRIBE_CLUSTER:
            fields, read = {}, _cluster
        case ApiKey.DESCRIBE_CONFIGS:
            resources = [
                {"resource_type": _TOPIC_RESOURCE, "resource_name": t, "configuration_keys": None}
                for t in topics
            ]
            fields, read = {"resources": resources}, _configs
        case ApiKey.DESCRIBE_LOG_DIRS:
            fields, read = {"topics": None}, _log_dirs
        case ApiKey.DESCRIBE_PRODUCERS:
            asked = [{"name": topic, "partition_indexes": each} for topic, each in led.items()]
            fields, read = {"topics": asked}, _producers
        case ApiKey.LIST_OFFSETS:
            fields, read = {"replica_id": -1, "isolation_level": 0, "topics": _newest(led)}, _found
        case ApiKey.LIST_GROUPS:
            fields, read = {}, _groups
        case ApiKey.INIT_PRODUCER_ID:
            fields, read = (
                {"transactional_id": None, "transaction_timeout": _TRANSACTION_MS},
                _producer_id,
            )
        case _:
            fields, read = {"timeout": _TIMEOUT_MS, "topics": None}, _reassignments
    # Who fetches its first block of producer ids in the background has none at first (KIP-730).
    waits = {ApiKey.INIT_PRODUCER_ID: _TIMEOUT_S, **dict.fromkeys(_OF_LEADERS, _HEARS_S)}
    tries = Retrying(
        stop=stop_after_delay(waits.get(api, 0)),
        wait=wait_fixed(0.1),
        retry=retry_if_exception_type(NoAnswer),
        reraise=True,
    )
    told = tries(
        lambda: list(read(ask(address, request(api, _VERSIONS[api], **fields), _TIMEOUT_S)))
    )
    for key, value in told:
        if api != ApiKey.DESCRIBE_LOG_DIRS or key[0].rpartition("-")[0] in topics:
            yield key, value


def _told_among_brokers(cluster: Cluster, node: int, api: ApiKey, topics: Sequence[str]) -> Told:
    """Where the brokers are, as the listener of brokers tells it. Raises `NoAnswer`."""
    try:
        address = cluster.address(node, Link.INTER_BROKER, direct=True)
    except FaultFailed:
        return  # somebody else's brokers, which are reached by one listener alone
    for (name, key), value in _ask(address, api, topics, {}):
        if not name and key.startswith("broker "):
            yield (name, f"{key}{_AMONG_BROKERS}"), value


def _sound(code: Any) -> None:
    if int(code):
        raise NoAnswer(error_name(int(code)))


def _metadata(answer: Any) -> Told:
    yield from _who(answer, {int(b.node_id): b for b in answer.brokers})
    for topic in answer.topics:
        if int(topic.error_code):
            continue
        if topic.topic_id is not None:
            yield (topic.name, "topic id"), topic_id_of(topic.topic_id)
        yield (topic.name, "is internal"), str(bool(topic.is_internal))
        for p in topic.partitions:
            name = f"{topic.name}-{int(p.partition_index)}"
            yield (name, "replicas"), str([int(n) for n in p.replica_nodes])
            yield (name, "offline replicas"), str([int(n) for n in p.offline_replicas])


def _cluster(answer: Any) -> Told:
    _sound(answer.error_code)
    yield from _who(answer, {int(b.broker_id): b for b in answer.brokers})


def _who(answer: Any, brokers: Mapping[int, Any]) -> Told:
    yield ("", "cluster id"), str(answer.cluster_id)
    yield ("", "controller"), str(int(answer.controller_id))
    yield ("", "brokers"), str(sorted(brokers))
    for node, at in brokers.items():
        yield ("", f"broker {node}"), _place(at.host, int(at.port), at.rack)


def _configs(answer: Any) -> Told:
    for result in answer.results:
        _sound(result.error_code)
        for config in result.configs:
            if int(config.config_source) == _OF_THE_TOPIC:
                yield (result.resource_name, config.name), str(config.value)


def _log_dirs(answer: Any) -> Told:
    for folder in answer.results:
        _sound(folder.error_code)
        for topic in folder.topics:
            for p in topic.partitions:
                name = f"{topic.name}-{int(p.partition_index)}"
                yield (name, "bytes"), str(int(p.partition_size))
                yield (name, "offset lag"), str(int(p.offset_lag))
                yield (name, "is future"), str(bool(p.is_future_key))


def _producers(answer: Any) -> Told:
    for topic in answer.topics:
        for p in topic.partitions:
            _sound(p.error_code)
            for one in p.active_producers:
                name = f"{topic.name}-{int(p.partition_index)}"
                says = f"epoch {int(one.producer_epoch)}, sequence {int(one.last_sequence)}"
                yield (name, f"producer {int(one.producer_id)}"), says


def _newest(led: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    asked = {"current_leader_epoch": -1, "timestamp": _MAX_TIMESTAMP}
    return [
        {"name": topic, "partitions": [{"partition_index": p, **asked} for p in each]}
        for topic, each in led.items()
    ]


def _found(answer: Any) -> Told:
    for topic in answer.topics:
        for p in topic.partitions:
            _sound(p.error_code)
            name = f"{topic.name}-{int(p.partition_index)}"
            yield (name, "newest record"), f"offset {int(p.offset)}, time {int(p.timestamp)}"


def _groups(answer: Any) -> Told:
    """How many first: who lists none was asked all the same."""
    _sound(answer.error_code)
    yield ("", "groups"), str(len(answer.groups))
    for group in answer.groups:
        yield (str(group.group_id), "protocol type"), str(group.protocol_type)


def _producer_id(answer: Any) -> Told:
    _sound(answer.error_code)
    yield ("", "new producer id"), str(int(answer.producer_id))
    yield ("", "its epoch"), str(int(answer.producer_epoch))


def _reassignments(answer: Any) -> Told:
    _sound(answer.error_code)
    yield ("", "topics that move"), str(sorted(str(topic.name) for topic in answer.topics))
    for topic in answer.topics:
        for p in topic.partitions:
            moved = (p.replicas, p.adding_replicas, p.removing_replicas)
            told = _move(*([int(node) for node in nodes] for nodes in moved))
            yield (f"{topic.name}-{int(p.partition_index)}", "move"), told
