"""Apache Kafka in KRaft mode, 4 or any release from 3.3 on: no ZooKeeper, no controller's requests
to brokers.

Every node is broker and controller at once (``process.roles=broker,controller``), three voters in
all, so that what happens to a node happens to a controller: killing, pausing or cutting off the
active controller is killing, pausing or cutting off a node. The controller listener is the node's
CONTROL link, behind a proxy like the others; voters and brokers reach each other through it. There
is one plane mode: metadata have had a listener of their own from the start.

What it lacks, scenarios are told by its capabilities: no ZooKeeper, no requests of a controller to
a broker. Leadership comes from the metadata log itself (`metadata_log`), truncations and the
brokers' own idea from their log4j files.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from faults.protocol import Capability, Link
from harness.runtime.protocol import ProcessSpec, Programs, Ready, Role
from harness.sut.broker_properties import (
    LISTENER_NAMES,
    broker_properties,
    listener_list,
    render,
)
from harness.sut.kafka_evidence import read_kraft_evidence
from harness.sut.kafka_jars import KRAFT_LINE, find_jars, release_of
from harness.sut.kafka_jvm import jvm_options
from harness.sut.kafka_logging import detail_of, log4j2, log4j_kraft
from harness.sut.kafka_versions import (
    Mode,
    Version,
    advertises_controllers,
    first_look_ms,
    has_small_segments,
    logs_with_log4j2,
    tells_old_clients_nothing,
    tells_positions_late,
)
from harness.sut.protocol import ClockTie, NodeLayout, Planes, Ports, SupportLayout

_CLUSTER_ID: Final = "cluster_id"
_ZOOKEEPER_ONLY: Final = (
    "broker.id",
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
    "control.plane.listener.name",
)


class KafkaKraft:
    """See the module and `harness.sut.protocol.SystemUnderTest`."""

    kind: Final = "kafka-kraft"
    mode: Final = Mode.KRAFT
    capabilities: Final = frozenset(
        {
            Capability.CONTROLLED_STOP,
            Capability.LINKS,
            Capability.LOG_FILES,
            Capability.ELECT_LEADERS,
            Capability.ALTER_PARTITION,
        }
    )
    traces: Final = frozenset[str]()
    plane_modes: Final = frozenset({Planes.DUAL})

    def __init__(self, version: Version | None = None) -> None:
        """None: 4, as it was pinned or as it is on this machine."""
        self.release: Final = KRAFT_LINE if version is None else release_of(version, self.mode)
        self.name: Final = self.kind if version is None else f"{self.kind}-{version}"

    @property
    def positions_told_late(self) -> bool:
        return tells_positions_late(self.release.version)

    @property
    def old_clients_untold(self) -> bool:
        return tells_old_clients_nothing(self.release.version)

    @property
    def first_look_ms(self) -> int:
        return first_look_ms(self.release.version)

    def prepare(self, programs: Programs) -> None:
        find_jars(self.release, programs)
        jvm_options()

    def version(self, programs: Programs) -> str:
        return find_jars(self.release, programs).version

    def support_specs(
        self, layout: SupportLayout, ports: Ports
    ) -> tuple[Sequence[ProcessSpec], Mapping[str, str]]:
        unique = uuid.uuid5(uuid.NAMESPACE_URL, str(layout.dir))
        cluster_id = base64.urlsafe_b64encode(unique.bytes).rstrip(b"=").decode()
        return (), {_CLUSTER_ID: cluster_id}

    def node_spec(
        self, layout: NodeLayout, planes: Planes, overrides: Mapping[str, str]
    ) -> ProcessSpec:
        _, own = detail_of(overrides)
        jars = find_jars(self.release, layout.programs)
        if logs_with_log4j2(self.release.version):
            logging, text = "log4j2", log4j2()
            option = f"-Dlog4j2.configurationFile=file:{layout.dir}/log4j2.properties"
        else:
            logging, text = "log4j", log4j_kraft()
            option = f"-Dlog4j.configuration=file:{layout.dir}/log4j.properties"
        java = (
            layout.programs.java,
            *jvm_options(),
            f"-Dkafka.logs.dir={layout.dir}",
            option,
            *("-cp", f"{jars.folder}/*"),
        )
        properties = str(layout.dir / "server.properties")
        # One word with its option: an id may begin with a dash.
        cluster_id = f"--cluster-id={layout.extras.get(_CLUSTER_ID, '')}"
        return ProcessSpec(
            name=layout.name,
            role=Role.NODE,
            argv=(*java, "kafka.Kafka", properties),
            first=(*java, "kafka.tools.StorageTool", "format", cluster_id, "-c", properties),
            workdir=layout.dir,
            files={
                "server.properties": render(_config(layout, self.release.version), own),
                f"{logging}.properties": text,
            },
            ports={link.value: address.port for link, address in layout.bind.items()},
            ready=Ready(pattern=r"Kafka Server started \(kafka\.server\.KafkaRaft", timeout_s=60.0),
            mounts=jars.mounts,
            software=jars.software,
        )

    def log_dir(self, layout: NodeLayout) -> Path:
        return layout.dir / "data"

    def evidence(self, layout: NodeLayout, clock: ClockTie) -> Iterator[Mapping[str, Any]]:
        return read_kraft_evidence(
            layout,
            clock,
            line_of_kafka=self.release.line,
            version=self.release.version,
            data=self.log_dir(layout),
        )


def _config(layout: NodeLayout, version: Version) -> dict[str, str]:
    config = broker_properties(layout, Planes.DUAL)
    if not advertises_controllers(version):
        advertised = dict(layout.advertised)
        advertised.pop(Link.CONTROL, None)
        config["advertised.listeners"] = listener_list(advertised)
    for name in _ZOOKEEPER_ONLY:
        config.pop(name, None)
    if not has_small_segments(version):
        config["offsets.topic.segment.bytes"] = str(1 << 20)
    voters = {node: links[Link.CONTROL] for node, links in sorted(layout.peers.items())}
    beat_ms = max(100, layout.session_timeout_ms // 5)
    return config | {
        "process.roles": "broker,controller",
        "node.id": str(layout.node),
        "controller.listener.names": LISTENER_NAMES[Link.CONTROL],
        "controller.quorum.voters": ",".join(f"{node}@{at}" for node, at in voters.items()),
        # A broker is fenced after the time in which ZooKeeper would end its session.
        "broker.session.timeout.ms": str(layout.session_timeout_ms),
        "broker.heartbeat.interval.ms": str(beat_ms),
        "log.cleaner.dedupe.buffer.size": "2097152",
        "share.coordinator.state.topic.replication.factor": str(min(3, len(layout.nodes))),
    }
