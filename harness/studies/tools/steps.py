"""What is asked of which tool, in an order in which each finds what it needs.

A step *works* when the tool ends with the exit code that is written here and says what is written
here: a regular expression that only a right answer matches. What Apache Kafka itself refuses is
here, too, with its refusal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

TOPIC: Final = "tools"
GROUP: Final = "readers"
RECORDS: Final = 50_000

MAINS: Final = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
}
"""The nine that were asked for, and the consumer that makes a group for one of them."""
_WITHOUT_BOOTSTRAP: Final = frozenset({"kafka-producer-perf-test", "kafka-dump-log"})


@dataclass(frozen=True, slots=True)
class Step:
    """`arguments` may name ``{bootstrap}``, ``{folder}`` (of the files below), ``{segment}`` (the
    first one of partition 0 on its leader), ``{offsets}`` (one of ``__consumer_offsets``)."""

    tool: str
    arguments: str
    says: str
    """A regular expression, found anywhere in what the tool prints."""
    exit: int = 0
    lacks: str = ""
    """What this broker is known not to have, where the step needs it."""

    def works(self, code: int, said: str) -> bool:
        """Whether it ended and said as a right answer does."""
        return code == self.exit and re.search(self.says, said) is not None

    @property
    def waits(self) -> bool:
        """Whether it looks at what another step has begun and may not have ended."""
        return self.tool == "kafka-reassign-partitions" or "preferred" in self.arguments

    @property
    def main(self) -> str:
        return MAINS[self.tool]

    def command_line(self, **places: object) -> list[str]:
        text = self.arguments.format(**places)
        if self.tool not in _WITHOUT_BOOTSTRAP:
            text = f"--bootstrap-server {places['bootstrap']} {text}"
        return text.split()


_PARTITION: Final = f'"topic":"{TOPIC}","partition":0'
FILES: Final = {
    "topics.json": f'{{"version":1,"topics":[{{"topic":"{TOPIC}"}}]}}',
    "move.json": f'{{"version":1,"partitions":[{{{_PARTITION},"replicas":[3,1]}}]}}',
    "order.json": f'{{"version":1,"partitions":[{{{_PARTITION},"replicas":[1,3]}}]}}',
    "records.json": f'{{"version":1,"partitions":[{{{_PARTITION},"offset":5}}]}}',
    "beyond.json": f'{{"version":1,"partitions":[{{{_PARTITION},"offset":99999999}}]}}',
    "election.json": f'{{"partitions":[{{{_PARTITION}}}]}}',
}

_TOPICS: Final[Sequence[tuple[str, str, int]]] = (
    (
        f"--create --topic {TOPIC} --partitions 3 --replication-factor 3"
        " --config min.insync.replicas=2 --config segment.bytes=1048576",
        rf"Created topic {TOPIC}\.",
        0,
    ),
    (f"--create --topic {TOPIC}", f"Topic '{TOPIC}' already exists", 1),
    (f"--create --if-not-exists --topic {TOPIC}", r"^\s*$", 0),
    (
        "--create --topic none --replication-factor 9",
        "Replication factor: 9 larger than available brokers: 3",
        1,
    ),
    (
        "--create --topic bad --config segment.bytes=x",
        "Invalid value x for configuration segment.bytes",
        1,
    ),
    ("--list", rf"(?m)^{TOPIC}$", 0),
    (
        f"--describe --topic {TOPIC}",
        r"PartitionCount: 3\s+ReplicationFactor: 3\s+Configs: .*min\.insync\.replicas=2",
        0,
    ),
    (f"--alter --topic {TOPIC} --partitions 4", r"^\s*$", 0),
    (f"--alter --topic {TOPIC} --partitions 2", "currently has 4 partitions", 1),
    (
        "--describe --topics-with-overrides",
        rf"Topic: {TOPIC}\s+TopicId: \S+\s+PartitionCount: 4",
        0,
    ),
    ("--describe --under-replicated-partitions", r"^\s*$", 0),
)
_THREADS: Final = "numbers of threads and of connections that change while a broker runs"
_QUOTAS: Final = "quotas of clients"
_CONFIGS: Final[Sequence[tuple[Any, ...]]] = (
    (
        f"--describe --entity-type topics --entity-name {TOPIC}",
        r"min\.insync\.replicas=2 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:min",
        0,
    ),
    (
        f"--alter --entity-type topics --entity-name {TOPIC} --add-config"
        " retention.ms=100000000,max.message.bytes=2000000",
        rf"Completed updating config for topic {TOPIC}\.",
        0,
    ),
    (
        f"--describe --all --entity-type topics --entity-name {TOPIC}",
        r"(?m)^  retention\.ms=100000000 ",
        0,
    ),
    (
        f"--alter --entity-type topics --entity-name {TOPIC} --delete-config retention.ms",
        rf"Completed updating config for topic {TOPIC}\.",
        0,
    ),
    (
        f"--alter --entity-type topics --entity-name {TOPIC} --add-config retention.ms=x",
        "InvalidConfigurationException|InvalidRequestException",
        1,
    ),
    ("--describe --all --entity-type brokers --entity-name 1", r"log\.dirs?=", 0),
    ("--describe --entity-type brokers --entity-default", "Default configs for brokers", 0),
    (
        "--alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=200000000",
        r"Completed updating config for broker 1\.",
        0,
    ),
    (
        "--describe --entity-type brokers --entity-name 1",
        r"log\.retention\.ms=200000000 sensitive=false",
        0,
    ),
    (
        "--alter --entity-type brokers --entity-name 1 --delete-config log.retention.ms",
        r"Completed updating config for broker 1\.",
        0,
    ),
    (
        "--alter --entity-type brokers --entity-name 1 --add-config message.max.bytes=x",
        "InvalidRequestException|InvalidConfigurationException",
        1,
    ),
    (
        "--alter --entity-type brokers --entity-default --add-config max.connections.per.ip=100000",
        "Completed updating default config for brokers in the cluster",
        0,
        _THREADS,
    ),
    (
        "--alter --entity-type brokers --entity-name 1 --add-config"
        " control.plane.listener.name=REPLICATION",
        r"Cannot update these configs dynamically: Set\(control\.plane\.listener\.name\)",
        1,
    ),
    (
        "--describe --entity-type broker-loggers --entity-name 1",
        r"kafka\.\S+=[A-Z]+",
        0,
        "levels of loggers that are shown and changed while a broker runs",
    ),
    (
        "--alter --entity-type clients --entity-name c --add-config producer_byte_rate=100000",
        r"Completed updating config for client c\.",
        0,
        _QUOTAS,
    ),
    ("--describe --entity-type clients --entity-name c", "producer_byte_rate=100000", 0, _QUOTAS),
)
_LOAD: Final[Sequence[tuple[Any, ...]]] = (
    (
        "kafka-producer-perf-test",
        f"--topic {TOPIC} --num-records {RECORDS} --record-size 100 --throughput -1"
        " --producer-props bootstrap.servers={bootstrap} acks=all",
        rf"{RECORDS} records sent",
        0,
    ),
    (
        "kafka-producer-perf-test",
        f"--topic {TOPIC} --num-records {RECORDS} --record-size 100 --throughput -1"
        " --producer-props bootstrap.servers={bootstrap} compression.type=lz4 linger.ms=5",
        rf"{RECORDS} records sent",
        0,
    ),
    (
        "kafka-producer-perf-test",
        f"--topic {TOPIC} --num-records 10 --record-size 100 --throughput -1 --producer-props"
        " bootstrap.servers={bootstrap} max.block.ms=10000 --transactional-id t"
        " --transaction-duration-ms 100",
        "10 records sent",
        0,
        "transactions",
    ),
    (
        "kafka-console-consumer",
        f"--topic {TOPIC} --group {GROUP} --from-beginning --max-messages 500 --timeout-ms 60000",
        "Processed a total of 500 messages",
        0,
    ),
)
_GROUPS: Final[Sequence[tuple[str, str, int]]] = (
    ("--list", rf"(?m)^{GROUP}$", 0),
    ("--list --state", rf"{GROUP}\s+Empty", 0),
    (f"--describe --group {GROUP}", rf"(?m)^{GROUP}\s+{TOPIC}\s+\d\s+\d+\s+\d+\s+\d+\s", 0),
    (f"--describe --group {GROUP} --state", rf"{GROUP}\s+\S+.*Empty\s+0", 0),
    (f"--describe --group {GROUP} --members", "has no active members", 0),
    ("--describe --all-groups --offsets", rf"(?m)^{GROUP}\s+{TOPIC}", 0),
    ("--describe --group unknown", "does not exist|GroupIdNotFoundException", 0),
    (
        f"--reset-offsets --group {GROUP} --topic {TOPIC}:0 --to-offset 3 --dry-run",
        rf"{GROUP}\s+{TOPIC}\s+0\s+3\b",
        0,
    ),
    (
        f"--reset-offsets --group {GROUP} --topic {TOPIC} --to-earliest --execute",
        rf"{GROUP}\s+{TOPIC}\s+0\s+0\b",
        0,
    ),
    (
        f"--reset-offsets --group {GROUP} --topic {TOPIC} --to-datetime 2020-01-01T00:00:00.000"
        " --execute",
        rf"{GROUP}\s+{TOPIC}\s+0\s+0\b",
        0,
    ),
    (
        f"--delete-offsets --group {GROUP} --topic {TOPIC}:0",
        rf"{TOPIC}\s+0\s+Successful",
        0,
    ),
    (f"--delete --group {GROUP}", "Deletion of requested consumer groups .* was successful", 0),
    ("--delete --group unknown", "GroupIdNotFoundException|does not exist", 0),
)
_LOGS: Final[Sequence[tuple[str, str, str, int]]] = (
    (
        "kafka-log-dirs",
        f"--describe --topic-list {TOPIC}",
        rf'"partition":"{TOPIC}-0","size":[1-9]\d*,"offsetLag":0,"isFuture":false',
        0,
    ),
    ("kafka-log-dirs", "--describe --broker-list 2", r'"broker":2,"logDirs":\[\{"partitions":', 0),
    (
        "kafka-dump-log",
        "--files {segment}",
        r"baseOffset: 0 lastOffset: \d+ [\s\S]*isvalid: true",
        0,
    ),
    ("kafka-dump-log", "--files {segment} --print-data-log", r"\| offset: \d+ [\s\S]*payload: ", 0),
    ("kafka-dump-log", "--files {segment} --deep-iteration", r"\| offset: 1 ", 0),
    ("kafka-dump-log", "--files {index} --index-sanity-check", r"passed sanity check", 0),
    (
        "kafka-dump-log",
        "--files {offsets} --offsets-decoder --print-data-log",
        r'(?i)offset_commit|key: offset|"group":"readers"|payload: ',
        0,
    ),
    (
        "kafka-delete-records",
        "--offset-json-file {folder}/records.json",
        rf"partition: {TOPIC}-0\s+low_watermark: 5",
        0,
    ),
    (
        "kafka-delete-records",
        "--offset-json-file {folder}/beyond.json",
        rf"partition: {TOPIC}-0\s+error: .*OffsetOutOfRangeException",
        0,
    ),
)
_MOVES: Final[Sequence[tuple[str, str, str, int]]] = (
    (
        "kafka-reassign-partitions",
        "--generate --topics-to-move-json-file {folder}/topics.json --broker-list 1,2,3",
        r"Proposed partition reassignment configuration\n\{\"version\":1",
        0,
    ),
    (
        "kafka-reassign-partitions",
        "--execute --reassignment-json-file {folder}/move.json",
        rf"Successfully started partition reassignment for {TOPIC}-0",
        0,
    ),
    (
        "kafka-reassign-partitions",
        "--list",
        r"No partition reassignments found|Current partition",
        0,
    ),
    (
        "kafka-reassign-partitions",
        "--verify --reassignment-json-file {folder}/move.json",
        rf"Reassignment of partition {TOPIC}-0 is completed",
        0,
    ),
    (
        "kafka-reassign-partitions",
        "--execute --throttle 100000000 --reassignment-json-file {folder}/move.json",
        r"The inter-broker throttle limit was set to 100000000 B/s",
        0,
    ),
    (
        "kafka-reassign-partitions",
        "--verify --reassignment-json-file {folder}/move.json",
        r"Clearing topic-level throttles on topic",
        0,
    ),
    (
        "kafka-reassign-partitions",
        "--cancel --reassignment-json-file {folder}/move.json",
        r"None of the specified partition reassignments are active",
        0,
    ),
    (
        "kafka-reassign-partitions",
        "--execute --reassignment-json-file {folder}/order.json",
        rf"Successfully started partition reassignment for {TOPIC}-0",
        0,
    ),
    (
        "kafka-leader-election",
        "--election-type preferred --path-to-json-file {folder}/election.json",
        rf"(Successfully completed leader election \(PREFERRED\)|Valid replica already elected) for"
        rf" partitions {TOPIC}-0",
        0,
    ),
    (
        "kafka-leader-election",
        "--election-type preferred --all-topic-partitions",
        r"Valid replica already elected|Successfully completed|^\s*$",
        0,
    ),
    (
        "kafka-leader-election",
        f"--election-type unclean --topic {TOPIC} --partition 0",
        r"Valid replica already elected for partitions",
        0,
    ),
    (
        "kafka-leader-election",
        "--election-type preferred --topic unknown --partition 0",
        r"UnknownTopicOrPartitionException",
        1,
    ),
)
_END: Final[Sequence[tuple[str, str, int]]] = (
    (f"--delete --topic {TOPIC}", r"^\s*$", 0),
    ("--delete --topic unknown", "does not exist as expected", 1),
)

STEPS: Final[tuple[Step, ...]] = (
    *(Step("kafka-topics", *each) for each in _TOPICS),
    *(Step(*each) for each in _LOAD),
    *(Step("kafka-configs", *each) for each in _CONFIGS),
    *(Step("kafka-consumer-groups", *each) for each in _GROUPS),
    *(Step(*each) for each in _LOGS),
    *(Step(*each) for each in _MOVES),
    *(Step("kafka-topics", *each) for each in _END),
)
