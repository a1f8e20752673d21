"""Configs as clients see them: every topic config with its type, its default and the broker config
behind it, and what of a broker is shown. The table is Kafka 3.9's (LogConfig,
ServerTopicConfigSynonyms), as far as there are such configs here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.api.config_entries import default_of, is_list
from nodes.wire.apis import ApiKey

TOPIC, BROKER = 2, 4
KINDS = {"BOOLEAN": 1, "STRING": 2, "INT": 3, "SHORT": 4, "LONG": 5, "DOUBLE": 6, "LIST": 7}
"""DescribeConfigsResponse.ConfigType."""
OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, OF_FILE, DEFAULT = range(1, 6)
"""DescribeConfigsResponse.ConfigSource."""
MOST = str(2**63 - 1)
TOPICS = {
    # name: (type, default, broker config, another value for that in server.properties)
    "cleanup.policy": ("LIST", "delete", "log.cleanup.policy", "compact"),
    "compression.type": ("STRING", "producer", "compression.type", "lz4"),
    "delete.retention.ms": ("LONG", "86400000", "log.cleaner.delete.retention.ms", "9"),
    "file.delete.delay.ms": ("LONG", "60000", "log.segment.delete.delay.ms", "9"),
    "compression.gzip.level": ("INT", "-1", "compression.gzip.level", "9"),
    "compression.lz4.level": ("INT", "9", "compression.lz4.level", "17"),
    "compression.zstd.level": ("INT", "3", "compression.zstd.level", "-1"),
    "flush.messages": ("LONG", MOST, "log.flush.interval.messages", "9"),
    "flush.ms": ("LONG", MOST, "log.flush.interval.ms", "9"),
    "follower.replication.throttled.replicas": ("LIST", "", None, None),
    "index.interval.bytes": ("INT", "4096", "log.index.interval.bytes", "9"),
    "leader.replication.throttled.replicas": ("LIST", "", None, None),
    "max.compaction.lag.ms": ("LONG", MOST, "log.cleaner.max.compaction.lag.ms", "9"),
    "max.message.bytes": ("INT", "1048588", "message.max.bytes", "9"),
    "message.timestamp.after.max.ms": ("LONG", MOST, "log.message.timestamp.after.max.ms", "9"),
    "message.timestamp.before.max.ms": ("LONG", MOST, "log.message.timestamp.before.max.ms", "9"),
    "message.timestamp.difference.max.ms": (
        "LONG", MOST, "log.message.timestamp.difference.max.ms", "9",
    ),
    "message.timestamp.type": (
        "STRING", "CreateTime", "log.message.timestamp.type", "LogAppendTime",
    ),
    "min.cleanable.dirty.ratio": ("DOUBLE", "0.5", "log.cleaner.min.cleanable.ratio", "0.25"),
    "min.compaction.lag.ms": ("LONG", "0", "log.cleaner.min.compaction.lag.ms", "9"),
    "min.insync.replicas": ("INT", "1", "min.insync.replicas", "2"),
    "preallocate": ("BOOLEAN", "false", "log.preallocate", "true"),
    "retention.bytes": ("LONG", "-1", "log.retention.bytes", "9"),
    "retention.ms": ("LONG", "604800000", "log.retention.ms", "9"),
    "segment.bytes": ("INT", "1073741824", "log.segment.bytes", "99"),
    "segment.index.bytes": ("INT", "10485760", "log.index.size.max.bytes", "99"),
    "segment.jitter.ms": ("LONG", "0", "log.roll.jitter.ms", "9"),
    "segment.ms": ("LONG", "604800000", "log.roll.ms", "9"),
    "unclean.leader.election.enable": (
        "BOOLEAN", "false", "unclean.leader.election.enable", "true",
    ),
}  # fmt: skip


def described(node: Any, kind: int, name: str, keys: Any = None, **more: Any) -> Any:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (result,) = node.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], **more).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def shown(result: Any) -> dict[str, tuple[Any, ...]]:
    """Name -> value, source, type, read only, synonyms."""
    assert (result.error_code, result.error_message) == (0, None)
    assert not any(c.is_sensitive or c.documentation for c in result.configs)
    rows = {
        c.name: (
            c.value, int(c.config_source), int(c.config_type), c.read_only,
            [(s.name, s.value, int(s.source)) for s in c.synonyms],
        )
        for c in result.configs
    }  # fmt: skip
    assert len(rows) == len(result.configs)
    return rows


def synonyms(*rows: tuple[str | None, str, int]) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[0] is not None]


def test_a_topic_that_sets_nothing(node: Any) -> None:
    node.lead("a")
    assert shown(described(node, TOPIC, "a", include_synonyms=True)) == {
        name: (default, DEFAULT, KINDS[kind], False, synonyms((broker, default, DEFAULT)))
        for name, (kind, default, broker, _) in TOPICS.items()
    }


def test_a_topic_of_a_broker_that_sets_everything(make_node: Callable[..., Any]) -> None:
    """What server.properties says is the default of its topics, under its own name."""
    given = {broker: other for _, _, broker, other in TOPICS.values() if broker and other}
    node = make_node(**given)
    node.lead("a")
    found = shown(described(node, TOPIC, "a", include_synonyms=True))
    for name, (kind, default, broker, other) in TOPICS.items():
        value, source = (other, OF_FILE) if other else (default, DEFAULT)
        said = synonyms((broker, value, source))
        assert found[name] == (value, source, KINDS[kind], False, said), name


def test_a_topic_that_sets_everything(node: Any) -> None:
    """Its own values, whatever they are, before the brokers'."""
    node.lead("a")
    node.admin.configs["a"] = {name: f"own-{name}" for name in TOPICS} | {"not.known": "x"}
    found = shown(described(node, TOPIC, "a", include_synonyms=True))
    for name, (kind, default, broker, _) in TOPICS.items():
        own = f"own-{name}"
        said = synonyms((name, own, OF_TOPIC), (broker, default, DEFAULT))
        assert found.pop(name) == (own, OF_TOPIC, KINDS[kind], False, said), name
    said = [("not.known", "x", OF_TOPIC)]
    assert found == {"not.known": ("x", OF_TOPIC, KINDS["STRING"], False, said)}


def test_synonyms_only_when_they_are_asked_for(node: Any) -> None:
    node.lead("a")
    for kind, name in ((TOPIC, "a"), (BROKER, "1")):
        without = shown(described(node, kind, name, include_synonyms=False))
        assert {row[-1] == [] for row in without.values()} == {True}
        assert shown(described(node, kind, name, include_synonyms=True)).keys() == without.keys()


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (None, set(TOPICS)),
        ([], set(TOPICS)),
        (["segment.ms"], {"segment.ms"}),
        (["segment.ms", "retention.ms", "nope"], {"segment.ms", "retention.ms"}),
        (["nope"], set()),
    ],
)
def test_only_what_was_asked_for(node: Any, keys: Any, names: set[str]) -> None:
    node.lead("a")
    assert set(shown(described(node, TOPIC, "a", keys))) == names


def test_what_a_list_is_grown_from() -> None:
    """LogConfig's own defaults and types, whatever this broker's are."""
    assert {name: default_of(name) for name in TOPICS} == {
        name: default for name, (_, default, _, _) in TOPICS.items()
    }
    assert {name for name in TOPICS if is_list(name)} == {
        "cleanup.policy",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
    }
    assert (default_of("not.known"), is_list("not.known")) == (None, False)


@pytest.mark.parametrize("version", [5, 6, 7])
def test_a_new_topic_is_told_with_its_configs(node: Any, version: int) -> None:
    """CreateTopics, from version 5 on: the same entries."""
    row = {
        "name": "a", "num_partitions": 1, "replication_factor": 1, "assignments": [],
        "configs": [{"name": "retention.ms", "value": "7"}],
    }  # fmt: skip
    answer = node.call(ApiKey.CREATE_TOPICS, version, topics=[row], timeout=1000)
    (topic,) = answer.topics
    found = {c.name: (c.value, int(c.config_source), c.read_only) for c in topic.configs}
    assert not any(c.is_sensitive for c in topic.configs)
    expected = {name: (default, DEFAULT, False) for name, (_, default, _, _) in TOPICS.items()}
    assert found == expected | {"retention.ms": ("7", OF_TOPIC, False)}


# ---- brokers -------------------------------------------------------------------------------------

RECORDED = Path(__file__).parents[1] / "kafka_configs.tsv"


OF_TOPICS = {broker for _, _, broker, _ in TOPICS.values() if broker}
"""Those that are a broker's defaults of its topics (DynamicLogConfig)."""


def test_a_brokers_configs_have_kafkas_types_and_few_may_change(node: Any) -> None:
    found = shown(described(node, BROKER, "1", include_synonyms=True))
    rows = [line.split("\t") for line in RECORDED.read_text().splitlines()]
    assert {n: found[n][2] for n, *_ in rows} == {n: KINDS[kind] for n, _, kind, _ in rows}
    assert {name for name, row in found.items() if not row[3]} == OF_TOPICS
    assert [n for n, row in found.items() if row[4] != [(n, row[0], row[1])]] == []
    assert "control.plane.listener.name" in found


@pytest.mark.parametrize(
    ("given", "name", "value", "source"),
    [
        ({}, "control.plane.listener.name", None, DEFAULT),
        ({}, "num.io.threads", "8", DEFAULT),
        ({}, "auto.leader.rebalance.enable", "true", DEFAULT),
        ({}, "log.cleanup.policy", "delete", DEFAULT),
        ({"num.io.threads": "5"}, "num.io.threads", "5", OF_FILE),
        ({"num.io.threads": " 8"}, "num.io.threads", "8", OF_FILE),
        ({"broker.rack": "Rack-a "}, "broker.rack", "Rack-a", OF_FILE),
        ({"log.cleanup.policy": "compact,delete"}, "log.cleanup.policy", "compact,delete", OF_FILE),
        ({"auto.leader.rebalance.enable": "FALSE"}, "auto.leader.rebalance.enable", "false", 4),
        ({"log.cleaner.min.cleanable.ratio": "0.25"}, "log.cleaner.min.cleanable.ratio", "0.25", 4),
    ],
)
def test_values_are_written_as_in_a_file(
    make_node: Callable[..., Any], given: dict[str, str], name: str, value: Any, source: int
) -> None:
    row = shown(described(make_node(**given), BROKER, "1", [name]))[name]
    assert row[:2] == (value, source)


def test_the_planes_are_told(make_node: Callable[..., Any]) -> None:
    """How an operator sees which listener is the control plane's: as it was written."""
    both = "PLAINTEXT://127.0.0.1:9, Controller://127.0.0.1:8"
    node = make_node(
        **{
            "listeners": both,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "control.plane.listener.name": "controller",
        }
    )
    found = {name: row[:2] for name, row in shown(described(node, BROKER, "1")).items()}
    assert found["control.plane.listener.name"] == ("controller", OF_FILE)
    assert found["listeners"] == (both, OF_FILE)
    assert found["listener.security.protocol.map"] == (
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        OF_FILE,
    )


RATE = "leader.replication.throttled.rate"


def test_what_was_set_while_it_ran(node: Any) -> None:
    """The nearer source over the farther: of this broker, of all brokers, of its file."""
    node.admin.configs["broker <default>"] = {RATE: "1", "min.insync.replicas": "3"}
    found = shown(described(node, BROKER, "", include_synonyms=True))
    assert found == {
        name: (value, OF_ALL_BROKERS, KINDS[kind], False, [(name, value, OF_ALL_BROKERS)])
        for name, value, kind in ((RATE, "1", "LONG"), ("min.insync.replicas", "3", "INT"))
    }
    assert shown(described(node, BROKER, "1"))[RATE][:2] == ("1", OF_ALL_BROKERS)
    node.admin.configs["broker 1"] = {RATE: "2", "num.network.threads": "9"}
    found = shown(described(node, BROKER, "1"))
    assert found[RATE][:4] == ("2", OF_BROKER, KINDS["LONG"], False)
    assert found["min.insync.replicas"][:2] == ("3", OF_ALL_BROKERS)
    assert found["num.network.threads"][:2] == ("3", DEFAULT), "it has no effect"


def test_a_topics_default_is_what_its_brokers_say_now(make_node: Callable[..., Any]) -> None:
    """From the nearest to the farthest: of the topic, of this broker, of all, of its file."""
    name = "retention.ms", "log.retention.ms"
    node = make_node(**{name[1]: "4"})
    node.lead("a")

    def told(kind: int, of: str, which: str) -> Any:
        row = shown(described(node, kind, of, [which], include_synonyms=True))[which]
        return row[0], row[1], [(value, source) for _, value, source in row[4]]

    below: list[tuple[str, int]] = [("4", OF_FILE)]
    for entity, value, source in (
        ("broker <default>", "3", OF_ALL_BROKERS), ("broker 1", "2", OF_BROKER),
    ):  # fmt: skip
        node.admin.configs[entity] = {name[1]: value}
        below.insert(0, (value, source))
        assert told(BROKER, "1", name[1]) == told(TOPIC, "a", name[0]) == (value, source, below)
    node.admin.configs["a"] = {name[0]: "1"}
    assert told(TOPIC, "a", name[0]) == ("1", 1, [("1", 1), *below])


# ---- refusals ------------------------------------------------------------------------------------

EXPECTED_ID = "Unexpected broker id, expected 1 or empty string, but received "


@pytest.mark.parametrize(
    ("kind", "name", "error", "message"),
    [
        (TOPIC, "nope", 3, "Topic 'nope' is not known"),
        (TOPIC, "a/b", 17, "Topic name 'a/b' is illegal"),
        (BROKER, "2", 42, f"{EXPECTED_ID}2"),
        (BROKER, "01", 42, f"{EXPECTED_ID}01"),
        (BROKER, "x", 42, f"{EXPECTED_ID}x"),
        (8, "1", 42, "Unsupported resource type: 8"),
        (0, "", 42, "Unsupported resource type: 0"),
    ],
)
def test_what_cannot_be_described(
    node: Any, kind: int, name: str, error: int, message: str
) -> None:
    result = described(node, kind, name)
    assert (result.error_code, result.error_message, list(result.configs)) == (error, message, [])


RATES = (
    RATE, "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second",
)  # fmt: skip
FIXED = (
    "control.plane.listener.name", "inter.broker.listener.name", "listeners",
    "advertised.listeners", "listener.security.protocol.map", "num.network.threads",
    "num.io.threads", "queued.max.requests", "max.connections", "broker.id", "not.known",
)  # fmt: skip


def alter(
    node: Any,
    api: ApiKey,
    kind: int,
    *rows: tuple[str, dict[str, str | None]],
    validate_only: bool = False,
) -> Any:
    def config(name: str, value: str | None) -> dict[str, Any]:
        row = {"name": name, "value": value}
        return row if api is ApiKey.ALTER_CONFIGS else {**row, "config_operation": 0}

    resources = [
        {"resource_type": kind, "resource_name": n, "configs": [config(*c) for c in cs.items()]}
        for n, cs in rows
    ]
    answer = node.call(api, 1, resources=resources, validate_only=validate_only)
    assert [(r.resource_type, r.resource_name) for r in answer.responses] == [
        (kind, name) for name, _ in rows
    ]
    return [(int(r.error_code), r.error_message) for r in answer.responses]


@pytest.mark.parametrize("api", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
class TestAltering:
    @pytest.mark.parametrize("name", ["", "1"])
    @pytest.mark.parametrize("only", [True, False])
    def test_of_a_broker_throttles_and_defaults_of_topics_and_nothing_else(
        self, node: Any, api: ApiKey, name: str, only: bool
    ) -> None:
        """Who only asks whether it would do (`validate_only`) is told the same."""
        for config in RATES:
            assert alter(node, api, BROKER, (name, {config: "7"}), validate_only=only) == [
                (0, None)
            ]
        for _, _, config, value in TOPICS.values():
            if config and value:
                given = {config: value, RATES[-1]: "7"}
                found = alter(node, api, BROKER, (name, given), validate_only=only)
                assert found == [(0, None)], config
        for config in FIXED:
            text = f"Cannot update these configs dynamically: Set({config})"
            found = alter(node, api, BROKER, (name, {config: "7"}), validate_only=only)
            assert found == [(42, text)]
        both = {"num.io.threads": "1", RATE: "1", "broker.id": "1"}
        text = "Cannot update these configs dynamically: Set(broker.id, num.io.threads)"
        assert alter(node, api, BROKER, (name, both), validate_only=only) == [(42, text)]
        if only:
            assert not any(node.admin.configs.values())
            return
        kept = node.admin.configs[f"broker {name or '<default>'}"]
        assert not kept.keys() - set(RATES) - OF_TOPICS, "a refusal keeps nothing of it"
        assert kept[RATES[-1]] == "7"

    @pytest.mark.parametrize(
        ("value", "is_taken"),
        [
            *(("0", True), (MOST, True), (str(2**63), False), ("-1", False), ("x", False)),
            *(("", False), ("²", False), ("9" * 5000, False)),
        ],
    )
    def test_throttles_are_numbers(
        self, node: Any, api: ApiKey, value: str, is_taken: bool
    ) -> None:
        text = f"Invalid value {value} for configuration {RATE}: not a number of bytes a second"
        expected = (0, None) if is_taken else (42, text)
        assert alter(node, api, BROKER, ("1", {RATE: value})) == [expected]

    def test_each_resource_has_an_answer_of_its_own(self, node: Any, api: ApiKey) -> None:
        """One that is refused keeps no other from being altered; one that is named twice is refused
        as often."""
        node.lead("a")
        node.lead("b")
        ask = [("a", "1"), ("b", "2"), ("nope", "3"), ("a", "4"), ("c/d", "5")]
        assert alter(node, api, TOPIC, *((n, {"retention.ms": v}) for n, v in ask)) == [
            (42, "Each resource must appear at most once."),
            (0, None),
            (3, "The topic 'nope' does not exist."),
            (42, "Each resource must appear at most once."),
            (17, "Topic name 'c/d' is illegal"),
        ]
        assert node.admin.configs == {"b": {"retention.ms": "2"}}

    @pytest.mark.parametrize("kind", [0, 1, 3, 8, 16])
    def test_of_other_things_nothing(self, node: Any, api: ApiKey, kind: int) -> None:
        expected = (42, f"Unknown resource type {kind}")
        assert alter(node, api, kind, ("1", {"a": "b"})) == [expected]

    def test_of_another_broker_nothing(self, node: Any, api: ApiKey) -> None:
        text = "Unexpected broker id, expected 1, but received 2"
        assert alter(node, api, BROKER, ("2", {RATE: "1"})) == [(42, text)]
        assert not node.admin.configs
