"""What a broker of Apache Kafka is told to write down, and how dear that is.

Kafka has no trace of its own for a harness. Its loggers have all that is needed:

    file                 logger                                        says
    server.log           everything at INFO                            starts, truncations, ISRs
    state-change.log     state.change.logger TRACE                     each partition's transitions
    controller.log       kafka.controller TRACE                        elections, resignations
    control-sends.log    NetworkClient DEBUG, control requests only    when the controller sent what
    control-requests.log kafka.request.logger DEBUG, the same          timings, epochs, errors
    control-receipts.log RequestChannel$, KafkaApis TRACE, the same    receipt and start of handling
    metadata.log         BrokerMetadataPublisher DEBUG (Kafka 4)       how far the cache has come

How much is `Detail`. The files have only control requests in them, but Kafka builds the text of
*every* request before a filter can drop it, so the last two slow a flooded broker: on two cores its
throughput falls to 0.65 with the request log and to 0.45 with the receipts as well. Measurements of
time and throughput are therefore taken with QUIET, which costs only as much as there are control
requests; what is lost is when a request was received and what it had for a broker epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from harness.runtime.protocol import SetupError

OVERRIDE: Final = "biplane.kafka.evidence"
"""An override of this name chooses the `Detail`; the broker never sees it."""
CONTROL_APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")

SERVER: Final = "server.log"
STATE_CHANGE: Final = "state-change.log"
CONTROLLER: Final = "controller.log"
SENDS: Final = "control-sends.log"
REQUESTS: Final = "control-requests.log"
RECEIPTS: Final = "control-receipts.log"
METADATA: Final = "metadata.log"

_PATTERN: Final = "[%d{ISO8601}] %p [%t] %m (%c)%n"


class Detail(StrEnum):
    """How much a broker writes down."""

    QUIET = "quiet"
    REQUESTS = "requests"
    RECEIPTS = "receipts"


def detail_of(overrides: Mapping[str, str]) -> tuple[Detail, dict[str, str]]:
    """The chosen detail and the overrides that are the broker's own."""
    rest = {name: value for name, value in overrides.items() if name != OVERRIDE}
    chosen = overrides.get(OVERRIDE, Detail.REQUESTS)
    try:
        return Detail(chosen), rest
    except ValueError:
        allowed = ", ".join(Detail)
        raise SetupError(f"config {OVERRIDE}: {chosen!r}; allowed: {allowed}") from None


def log4j(detail: Detail) -> str:
    """log4j 1 properties (Kafka 3); the folder is the system property ``kafka.logs.dir``."""
    lines = [
        "log4j.rootLogger=INFO, stdout, server",
        "log4j.appender.stdout=org.apache.log4j.ConsoleAppender",
        *_layout("stdout"),
        *_file("server", SERVER),
        *_file("state", STATE_CHANGE),
        *_file("controller", CONTROLLER),
        *_file("sends", SENDS),
        *_only("sends", [f"{verb} {api} re" for api in CONTROL_APIS for verb in _SEND_VERBS]),
        "log4j.logger.org.apache.zookeeper=WARN",
        *_logger("state.change.logger", "TRACE", "state"),
        *_logger("kafka.controller", "TRACE", "controller"),
        *_logger("org.apache.kafka.clients.NetworkClient", "DEBUG", "sends"),
    ]
    if detail is not Detail.QUIET:
        lines += _file("requests", REQUESTS)
        lines += _only("requests", [f'"{api}"' for api in CONTROL_APIS])
        lines += _logger("kafka.request.logger", "DEBUG", "requests")
    if detail is Detail.RECEIPTS:
        lines += _file("receipts", RECEIPTS)
        lines += _only("receipts", [f"apiKey={api}" for api in CONTROL_APIS])
        lines += _logger("kafka.network.RequestChannel$", "TRACE", "receipts")
        # What KafkaApis says at INFO (an old broker epoch refused) goes to the root as well.
        lines += [
            "log4j.logger.kafka.server.KafkaApis=TRACE, receipts",
            "log4j.appender.stdout.Threshold=INFO",
            "log4j.appender.server.Threshold=INFO",
        ]
    return "".join(f"{line}\n" for line in lines)


def log4j_kraft() -> str:
    """log4j 1 properties (Kafka 3 in KRaft mode): the files of `log4j2`."""
    lines = [
        "log4j.rootLogger=INFO, stdout, server",
        "log4j.appender.stdout=org.apache.log4j.ConsoleAppender",
        *_layout("stdout"),
        *_file("server", SERVER),
        *_file("state", STATE_CHANGE),
        *_file("metadata", METADATA),
        *_logger("state.change.logger", "TRACE", "state"),
        *_logger("kafka.server.metadata.BrokerMetadataPublisher", "DEBUG", "metadata"),
    ]
    return "".join(f"{line}\n" for line in lines)


def log4j2() -> str:
    """log4j 2 properties (Kafka 4). There are no control requests: three files say everything."""
    lines = ["status=error", "rootLogger.level=INFO"]
    for name, file in (("server", SERVER), ("state", STATE_CHANGE), ("metadata", METADATA)):
        lines += [
            f"appender.{name}.type=File",
            f"appender.{name}.name={name}",
            f"appender.{name}.fileName=${{sys:kafka.logs.dir}}/{file}",
            *_layout2(name),
        ]
    lines += ["appender.stdout.type=Console", "appender.stdout.name=stdout", *_layout2("stdout")]
    lines += [
        "rootLogger.appenderRef.stdout.ref=stdout",
        "rootLogger.appenderRef.server.ref=server",
    ]
    for name, logger, level in (
        ("state", "state.change.logger", "TRACE"),
        ("metadata", "kafka.server.metadata.BrokerMetadataPublisher", "DEBUG"),
    ):
        lines += [
            f"logger.{name}.name={logger}",
            f"logger.{name}.level={level}",
            f"logger.{name}.additivity=false",
            f"logger.{name}.appenderRef.{name}.ref={name}",
        ]
    return "".join(f"{line}\n" for line in lines)


def _layout2(name: str) -> list[str]:
    return [
        f"appender.{name}.layout.type=PatternLayout",
        f"appender.{name}.layout.pattern=[%d{{yyyy-MM-dd HH:mm:ss,SSS}}] %p [%t] %m (%c)%n",
    ]


_SEND_VERBS: Final = ("Sending", "Received")


def _layout(name: str) -> list[str]:
    return [
        f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.{name}.layout.ConversionPattern={_PATTERN}",
    ]


def _file(name: str, file: str) -> list[str]:
    return [
        f"log4j.appender.{name}=org.apache.log4j.FileAppender",
        f"log4j.appender.{name}.File=${{kafka.logs.dir}}/{file}",
        *_layout(name),
    ]


def _only(name: str, strings: list[str]) -> list[str]:
    """Let an appender pass lines that hold one of the strings."""
    lines = []
    for number, string in enumerate(strings, start=1):
        prefix = f"log4j.appender.{name}.filter.{number:02}"
        lines += [
            f"{prefix}=org.apache.log4j.varia.StringMatchFilter",
            f"{prefix}.StringToMatch={string}",
            f"{prefix}.AcceptOnMatch=true",
        ]
    return [*lines, f"log4j.appender.{name}.filter.99=org.apache.log4j.varia.DenyAllFilter"]


def _logger(name: str, level: str, appender: str) -> list[str]:
    return [f"log4j.logger.{name}={level}, {appender}", f"log4j.additivity.{name}=false"]
