"""What a cluster tells whoever asks: by requests that only read, ApiVersions, Metadata and
DescribeConfigs; and what stands in the way of testing it.

Nothing is created, not even by accident: Metadata is asked without topic creation. What it costs is
a few requests a broker, however many topics there are, besides one list of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kio.schema.errors import ErrorCode

from harness.cluster import state
from harness.cluster.ask import CLIENT_ID, METADATA_VERSION, error_name, request
from harness.runtime.protocol import Address
from harness.sut.external.form import ClusterForm
from nodes.wire.apis import ApiKey
from nodes.wire.client import Connection, WireClientError
from nodes.wire.codec import WireError

READS: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS})
"""All that is ever asked here."""
_TIMEOUT_S: Final = 5.0
_BROKER_RESOURCE: Final = 4
CONFIGS: Final = (
    "control.plane.listener.name",
    "delete.topic.enable",
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
    "broker.session.timeout.ms",
    "process.roles",
    "auto.leader.rebalance.enable",
    "unclean.leader.election.enable",
    "replica.lag.time.max.ms",
)
_DEFAULT_SESSION_MS: Final = 18_000
NEEDED: Final[Mapping[ApiKey, int]] = {
    ApiKey.METADATA: 7,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 3,
    ApiKey.LIST_OFFSETS: 4,
    ApiKey.PRODUCE: 3,
}
"""The versions that a run asks every broker for at least; Fetch is its file's to say."""


@dataclass(slots=True, kw_only=True)
class BrokerSeen:
    """What one broker told."""

    node: int
    address: Address
    failure: str | None = None
    """Why it did not answer; None: it did."""
    apis: dict[int, tuple[int, int]] = field(default_factory=dict)
    configs: dict[str, str] = field(default_factory=dict)
    configs_failure: str | None = None
    cluster_id: str | None = None
    controller: int = -1
    members: dict[int, str] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)

    def has(self, api: ApiKey, version: int = 0) -> bool:
        low, high = self.apis.get(int(api), (0, -1))
        return low <= version <= high


@dataclass(frozen=True, slots=True)
class Partition:
    """As a broker tells it."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class ZookeeperSeen:
    """What ZooKeeper has of the brokers."""

    failure: str | None = None
    controller: int | None = None
    controller_epoch: int | None = None
    brokers: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class Seen:
    """What a cluster looked like at one moment."""

    brokers: dict[int, BrokerSeen]
    zookeeper: ZookeeperSeen | None = None

    @property
    def answering(self) -> list[BrokerSeen]:
        return [broker for broker in self.brokers.values() if broker.failure is None]

    @property
    def partitions(self) -> Sequence[Partition]:
        """As the first broker that answers has them."""
        return self.answering[0].partitions if self.answering else ()

    def config(self, name: str) -> str | None:
        return next((b.configs[name] for b in self.answering if name in b.configs), None)


def look(form: ClusterForm) -> Seen:
    """Ask all brokers at once, and ZooKeeper where there is one. Raises nothing: what did not
    answer says so."""
    with ThreadPoolExecutor(len(form.ids) + 1, thread_name_prefix="biplane-look") as pool:
        brokers = pool.map(lambda node: _broker(node, form.address(node)), form.ids)
        zookeeper = None if form.zookeeper is None else pool.submit(_zookeeper, form)
        return Seen(
            brokers={broker.node: broker for broker in brokers},
            zookeeper=None if zookeeper is None else zookeeper.result(),
        )


def _broker(node: int, address: Address) -> BrokerSeen:
    seen = BrokerSeen(node=node, address=address)
    try:
        with Connection(*address, CLIENT_ID, _TIMEOUT_S) as connection:
            _ask(connection, seen)
            _ask_configs(connection, seen)
    except (WireClientError, WireError, OSError) as error:
        seen.failure = str(error)
    return seen


def _ask(connection: Connection, seen: BrokerSeen) -> None:
    versions = connection.request(request(ApiKey.API_VERSIONS, 0))
    seen.apis = {
        int(key.api_key): (int(key.min_version), int(key.max_version)) for key in versions.api_keys
    }
    if not seen.has(ApiKey.METADATA, METADATA_VERSION):
        raise WireError(f"it has no Metadata {METADATA_VERSION} (Kafka 2.1)")
    metadata = connection.request(
        request(ApiKey.METADATA, METADATA_VERSION, topics=None, allow_auto_topic_creation=False)
    )
    seen.cluster_id = metadata.cluster_id
    seen.controller = int(metadata.controller_id)
    seen.members = {int(b.node_id): f"{b.host}:{b.port}" for b in metadata.brokers}
    seen.partitions = [
        Partition(
            str(topic.name),
            int(p.partition_index),
            int(p.leader_id),
            tuple(int(n) for n in p.replica_nodes),
            tuple(int(n) for n in p.isr_nodes),
        )
        for topic in metadata.topics
        for p in topic.partitions
    ]


def _ask_configs(connection: Connection, seen: BrokerSeen) -> None:
    """It has said who is in its cluster by then: one that hangs up on this question (Tansu does, on
    a broker's configs) tells no configs, and is not silent."""
    if not seen.has(ApiKey.DESCRIBE_CONFIGS, 1):
        seen.configs_failure = "it has no DescribeConfigs 1"
        return
    resource = {
        "resource_type": _BROKER_RESOURCE,
        "resource_name": str(seen.node),
        "configuration_keys": list(CONFIGS),
    }
    asked = request(ApiKey.DESCRIBE_CONFIGS, 1, resources=[resource], include_synonyms=False)
    try:
        answer = connection.request(asked)
    except (WireClientError, WireError, OSError) as error:
        seen.configs_failure = f"it does not answer DescribeConfigs: {error}"
        return
    for result in answer.results:
        if int(result.error_code) == ErrorCode.invalid_request:
            # Kafka: "Unexpected broker id, expected 2, but received 1".
            raise WireError(f"it is not broker {seen.node} ({result.error_message})")
        if int(result.error_code):
            seen.configs_failure = error_name(int(result.error_code))
        seen.configs |= {str(c.name): str(c.value) for c in result.configs if c.value is not None}


def _zookeeper(form: ClusterForm) -> ZookeeperSeen:
    """Read by a session of its own, which makes no znode."""
    client = KazooClient(hosts=form.zookeeper_hosts, timeout=_TIMEOUT_S)
    seen = ZookeeperSeen()
    try:
        client.start(timeout=_TIMEOUT_S)
        seen.brokers = tuple(
            sorted(int(node) for node in client.get_children(form.chroot + state.BROKER_IDS))
        )
        seen.controller = state.parse_controller(client.get(form.chroot + state.CONTROLLER)[0])
        seen.controller_epoch = int(client.get(form.chroot + state.CONTROLLER_EPOCH)[0])
    except (KazooException, KazooTimeoutError, ValueError, KeyError) as error:
        seen.failure = f"{form.zookeeper}: {error!r}"
    finally:
        client.stop()
        client.close()
    return seen


def session_timeout_ms(form: ClusterForm, seen: Seen) -> int:
    """After which a silent broker is given up."""
    if form.session_timeout_ms is not None:
        return form.session_timeout_ms
    roles = seen.config("process.roles")
    name = "broker.session.timeout.ms" if roles else "zookeeper.session.timeout.ms"
    said = seen.config(name)
    return int(said) if said is not None and said.isdigit() else _DEFAULT_SESSION_MS


# -- what stands in the way -----------------------------------------------------------------------


def unknown(form: ClusterForm, seen: Seen) -> Iterator[str]:
    """What did not answer: nothing can be said of it."""
    for broker in seen.brokers.values():
        if broker.failure is not None:
            yield f"broker {broker.node} ({broker.address}) does not answer: {broker.failure}"
    if seen.zookeeper is not None and seen.zookeeper.failure is not None:
        yield f"ZooKeeper does not answer: {seen.zookeeper.failure}"


def obstacles(form: ClusterForm, seen: Seen) -> Iterator[str]:
    """Why nothing may be played there as it stands, of what did answer."""
    listed = set(form.ids)
    for broker in seen.answering:
        unlisted = sorted(set(broker.members) - listed)
        if unlisted:
            yield (
                f"broker {broker.node} names broker {unlisted[0]} "
                f"({broker.members[unlisted[0]]}), which is not listed; list all brokers"
            )
        gone = sorted(listed - set(broker.members))
        if gone:
            yield f"broker {broker.node} does not know broker {gone[0]}: it is not in its cluster"
        for api, version in {**NEEDED, ApiKey.FETCH: form.fetch_version}.items():
            if not broker.has(api, version):
                yield f"broker {broker.node} has no {api.display_name} {version}"
    ids = sorted({str(broker.cluster_id) for broker in seen.answering})
    if len(ids) > 1:
        yield f"its brokers are of different clusters: {', '.join(ids)}"
    sick = [p for p in seen.partitions if p.leader < 0 or set(p.isr) != set(p.replicas)]
    if sick:
        one = sick[0]
        yield (
            f"{len(sick)} partitions are not led or not in sync everywhere, such as "
            f"{one.topic}-{one.partition} (in sync {list(one.isr)} of {list(one.replicas)}); "
            "allowed: a cluster at rest"
        )
    if seen.config("delete.topic.enable") == "false":
        yield "delete.topic.enable is false: what biplane makes could not be removed"
    if form.planes == "single" and seen.config("control.plane.listener.name"):
        yield "its brokers have control.plane.listener.name; allowed: planes: dual"
    known = seen.zookeeper
    if known is not None and known.failure is None and set(known.brokers) != listed:
        yield f"ZooKeeper has brokers {list(known.brokers)}, listed are {sorted(listed)}"


def warnings(form: ClusterForm, seen: Seen) -> Iterator[str]:
    """What whoever owns it should know before a fault is played."""
    alone = [p for p in seen.partitions if len(p.replicas) == 1]
    if alone:
        topics = sorted({p.topic for p in alone})
        yield (
            f"{len(alone)} partitions of {len(topics)} topics have one replica, such as "
            f"{topics[0]}: they are away while their broker is"
        )
    if seen.config("unclean.leader.election.enable") == "true":
        yield "unclean.leader.election.enable is true: records that were acknowledged may be lost"
    if seen.config("auto.leader.rebalance.enable") == "true":
        yield "auto.leader.rebalance.enable is true: leaders move by themselves"


def abilities(seen: Seen) -> Mapping[str, Any]:
    """What all brokers that answer have: by API, the versions."""
    found = {}
    for api in (ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS):
        found[api.name] = bool(seen.answering) and all(b.has(api) for b in seen.answering)
    return found
