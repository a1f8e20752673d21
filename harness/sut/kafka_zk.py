"""Apache Kafka in ZooKeeper mode with its own jars: 3.9, the last line that has it, or any release
from 2.1 on (``--kafka-version``). What a release cannot do: `kafka_versions`.

With and without ``control.plane.listener.name``. Where the jars come from: `kafka_jars`. What its
brokers write down: `kafka_logging`; how that becomes history rows: `kafka_evidence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from faults.protocol import Capability
from harness.runtime.protocol import ProcessSpec, Programs, Ready, Role
from harness.sut.broker_properties import broker_properties, render
from harness.sut.kafka_evidence import read_evidence
from harness.sut.kafka_jars import ZOOKEEPER_LINE, find_jars, release_of
from harness.sut.kafka_jvm import jvm_options
from harness.sut.kafka_logging import Detail, detail_of, log4j
from harness.sut.kafka_versions import (
    Mode,
    Version,
    calls_dead_groups_unknown,
    calls_records_corrupt,
    first_look_ms,
    has_alter_partition,
    has_control_plane,
    has_request_log,
    has_strict_min_isr,
    in_sync_sets_told_s,
    keeps_topic_ids_late,
    leaves_leaderless_untold,
    leaves_waiting_at_stops,
    lets_unclean_elections_wait,
    lets_who_stops_join,
    mixes_config_errors,
    newest_plain_fetch,
    raises_epoch_later,
    takes_orders_by_request,
    takes_our_control_requests,
    tells_committed_ends,
    tells_leader_epochs,
    tells_old_clients_nothing,
    tells_positions_late,
)
from harness.sut.protocol import ClockTie, Limits, NodeLayout, Planes, Ports, SupportLayout

_BY_EPOCHS: Final = ("stale-metadata", "shown-metadata", "whole-metadata", "descriptions")
"""Checks that hold leader epochs against each other as clients were told them."""
_WITH_EPOCHS: Final = (
    *("metadata-reader", "direct-producer", "joint-producer", "group-stranger", "refused-asker"),
)
"""Roles that ask in versions that have them."""


class KafkaZk:
    """See the module and `harness.sut.protocol.SystemUnderTest`."""

    kind: Final = "kafka-zk"
    mode: Final = Mode.ZOOKEEPER
    traces: Final = frozenset[str]()

    def __init__(self, version: Version | None = None) -> None:
        """None: 3.9, as it was pinned or as it is on this machine."""
        self.release: Final = ZOOKEEPER_LINE if version is None else release_of(version, self.mode)
        self._version = self.release.version
        self.name: Final = self.kind if version is None else f"{self.kind}-{version}"
        able = {
            Capability.CONTROLLED_STOP,
            Capability.LINKS,
            Capability.ZOOKEEPER,
            Capability.LOG_FILES,
            Capability.ELECT_LEADERS,
        }
        if takes_our_control_requests(self._version):
            able.add(Capability.CONTROL_REQUESTS)
        if has_alter_partition(self._version):
            able.add(Capability.ALTER_PARTITION)
        if has_strict_min_isr(self._version):
            able.add(Capability.STRICT_MIN_ISR)
        self.capabilities: Final = frozenset(able)
        dual = {Planes.DUAL} if has_control_plane(self._version) else set()
        self.plane_modes: Final = frozenset({Planes.SINGLE} | dual)

    @property
    def orders_by_znode(self) -> bool:
        return not takes_orders_by_request(self._version)

    @property
    def limits(self) -> Limits:
        unjudged: dict[str, str] = {}
        unserved: dict[str, str] = {}
        if not tells_committed_ends(self._version):
            why = "before 2.2 new leaders tell ends before what was acknowledged (KIP-207)"
            unjudged |= dict.fromkeys(("offsets", "log-starts"), why)
            unserved |= dict.fromkeys(("offset-reader", "record-deleter"), why)
        if not tells_leader_epochs(self._version):
            why = "before 2.1 clients are told no leader epochs (KIP-320)"
            unjudged |= dict.fromkeys(_BY_EPOCHS, why)
            unserved |= dict.fromkeys(_WITH_EPOCHS, why)
        return Limits(unjudged=unjudged, unserved=unserved)

    @property
    def topic_ids_late(self) -> bool:
        return keeps_topic_ids_late(self._version)

    @property
    def stopping_may_join(self) -> bool:
        return lets_who_stops_join(self._version)

    @property
    def mixes_config_errors(self) -> bool:
        return mixes_config_errors(self._version)

    @property
    def records_corrupt(self) -> bool:
        return calls_records_corrupt(self._version)

    @property
    def leaderless_untold(self) -> bool:
        return leaves_leaderless_untold(self._version)

    @property
    def stopped_leave_waiting(self) -> bool:
        return leaves_waiting_at_stops(self._version)

    @property
    def epoch_after_office(self) -> bool:
        return raises_epoch_later(self._version)

    @property
    def unclean_elections_wait(self) -> bool:
        return lets_unclean_elections_wait(self._version)

    @property
    def dead_groups_unknown(self) -> bool:
        return calls_dead_groups_unknown(self._version)

    @property
    def positions_told_late(self) -> bool:
        return tells_positions_late(self._version)

    @property
    def old_clients_untold(self) -> bool:
        return tells_old_clients_nothing(self._version)

    @property
    def first_look_ms(self) -> int:
        return first_look_ms(self._version)

    @property
    def settled_s(self) -> float:
        return in_sync_sets_told_s(self._version)

    @property
    def fetch_version(self) -> int:
        return newest_plain_fetch(self._version)

    def prepare(self, programs: Programs) -> None:
        find_jars(self.release, programs)
        jvm_options()

    def version(self, programs: Programs) -> str:
        return find_jars(self.release, programs).version

    def support_specs(
        self, layout: SupportLayout, ports: Ports
    ) -> tuple[Sequence[ProcessSpec], Mapping[str, str]]:
        return (), {}

    def node_spec(
        self, layout: NodeLayout, planes: Planes, overrides: Mapping[str, str]
    ) -> ProcessSpec:
        detail, own = detail_of(overrides)
        if not has_request_log(self._version):
            detail = Detail.QUIET
        config = broker_properties(layout, planes)
        config["log.cleaner.dedupe.buffer.size"] = "2097152"
        jars = find_jars(self.release, layout.programs)
        return ProcessSpec(
            name=layout.name,
            role=Role.NODE,
            argv=(
                layout.programs.java,
                *jvm_options(),
                f"-Dkafka.logs.dir={layout.dir}",
                f"-Dlog4j.configuration=file:{layout.dir}/log4j.properties",
                *("-cp", f"{jars.folder}/*"),
                "kafka.Kafka",
                str(layout.dir / "server.properties"),
            ),
            workdir=layout.dir,
            files={
                "server.properties": render(config, own),
                "log4j.properties": log4j(detail),
            },
            ports={link.value: address.port for link, address in layout.bind.items()},
            ready=Ready(pattern=r"started \(kafka\.server\.KafkaServer\)", timeout_s=60.0),
            mounts=jars.mounts,
            software=jars.software,
        )

    def log_dir(self, layout: NodeLayout) -> Path:
        return layout.dir / "data"

    def evidence(self, layout: NodeLayout, clock: ClockTie) -> Iterator[Mapping[str, Any]]:
        return read_evidence(layout, clock, line_of_kafka=self.release.line, version=self._version)
