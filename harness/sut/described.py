"""A broker by description alone: ``--sut=file:my-broker.yaml``, no Python needed.

The file's form: `harness.sut.description`. How much of such a system can be judged follows from
what its file says of coordination and evidence: `limits`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from faults.protocol import Capability, Link
from harness.runtime.paths import home
from harness.runtime.protocol import (
    Address,
    ProcessSpec,
    Programs,
    Ready,
    Role,
    SetupError,
    Software,
)
from harness.sut.description import SIGNALS, Description, File, Find
from harness.sut.description_file import read_description
from harness.sut.kafka_evidence import read_evidence, read_kraft_evidence
from harness.sut.kafka_versions import Mode, parse_version
from harness.sut.protocol import (
    ClockTie,
    GaugesPage,
    Limits,
    NodeLayout,
    Planes,
    Ports,
    SupportLayout,
)
from harness.sut.templates import address_names, cluster_id, fill, joined
from harness.sut.trace_file import read_trace

_CLUSTER_ID: Final = "cluster-id"
_METRICS: Final = "metrics"
_VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
_NOT_MEANT: Final = frozenset({"replication"})
"""Abilities of the file that are no capability, but a limit where they lack."""


class DescribedSystem:
    """See the module and `harness.sut.protocol.SystemUnderTest`."""

    def __init__(self, file: Path) -> None:
        """Raises `DescriptionError`."""
        self._file = file.absolute()
        self._is = read_description(file)
        self.description: Final = file.read_text()
        self.name: Final = self._is.name
        self.traces: Final = frozenset(self._is.evidence.rows)
        self.plane_modes: Final = frozenset(Planes(name) for name in self._is.planes)
        self.capabilities: Final = _capabilities(self._is)
        self._found: dict[str, str] = {}

    @property
    def limits(self) -> Limits:
        described = self._is
        told = described.coordination != "zookeeper" and described.evidence.kind != "kafka-logs"
        return Limits(
            nodes=described.nodes,
            first_node=described.first_node,
            replicates="replication" in described.capabilities,
            advertises=described.advertises,
            takes_configs=any(file.takes_configs for file in described.files.values()),
            runtime="docker" if described.start.image else "process",
            state="clients" if described.coordination == "none" else "store",
            leaders="shown" if told else "written",
            fixed_members=described.members == "fixed",
            read_as_consumer=described.final_read_as == "consumer",
            fetch_version=described.fetch_version,
            mute=described.evidence.kind == "none",
            unjudged={"succession": "nobody tells who was elected controller"} if told else {},
        )

    def unused(self) -> list[str]:
        """Placeholders of what its file asks for that stand nowhere in it."""
        return self._is.unused()

    def lacking(self) -> Iterator[str]:
        """What its file looks for in vain on this machine, each with what brings it."""
        for name, wanted in self._is.find.items():
            try:
                _find(wanted, name, self._file)
            except SetupError as error:
                yield str(error)

    def prepare(self, programs: Programs) -> None:
        for name, wanted in self._is.find.items():
            self._found[name] = _find(wanted, name, self._file)

        if self._software is not None:
            self._have(self._software.image)

    @property
    def _software(self) -> Software | None:
        """What its image holds, where it has one."""
        image, version = self._is.start.image, self._is.version
        if image is None:
            return None
        return Software(name=self.name, version=version, path=Path("/"), image=image)

    def _have(self, image: str) -> None:
        from harness.runtime.docker_engine import EngineFailed, connect
        from harness.runtime.docker_images import pull_if_absent

        try:
            pull_if_absent(connect(), image)
        except EngineFailed as error:
            raise SetupError(f"{self._file}: field start.image: {error}") from error

    def version(self, programs: Programs) -> str:
        return self._is.version

    def support_specs(
        self, layout: SupportLayout, ports: Ports
    ) -> tuple[Sequence[ProcessSpec], Mapping[str, str]]:
        extras = {_CLUSTER_ID: cluster_id(str(layout.dir))}
        for node in layout.nodes if self._is.metrics else ():
            extras[f"{_METRICS}-{node}"] = str(ports.allocate_port(f"node-{node}"))
        return (), extras

    def gauges_page(self, layout: NodeLayout) -> GaugesPage | None:
        metrics, port = self._is.metrics, self._metrics_port(layout)
        if metrics is None or port is None:
            return None
        at = Address(layout.direct[Link.CLIENT].host, port)
        return GaugesPage(url=f"http://{at}{metrics.path}", samples=dict(metrics.gauges.items()))

    def _metrics_port(self, layout: NodeLayout) -> int | None:
        port = layout.extras.get(f"{_METRICS}-{layout.node}")
        return None if port is None else int(port)

    def node_spec(
        self, layout: NodeLayout, planes: Planes, overrides: Mapping[str, str]
    ) -> ProcessSpec:
        if not self._found.keys() >= self._is.find.keys():
            self.prepare(layout.programs)
        values, metrics = self._values(layout), self._metrics_port(layout)
        start, ready = self._is.start, self._is.ready
        return ProcessSpec(
            name=layout.name,
            role=Role.NODE,
            argv=tuple(fill(text, values) for text in start.argv),
            first=tuple(fill(text, values) for text in start.first),
            env={name: fill(text, values) for name, text in start.env.items()},
            workdir=layout.dir,
            software=self._software,
            mounts=tuple(map(Path, self._found.values())) if self._software else (),
            files={
                path: _content(file, values, overrides, dual=Link.CONTROL in layout.bind)
                for path, file in self._is.files.items()
            },
            ports={link.value: address.port for link, address in layout.bind.items()}
            | ({} if metrics is None else {_METRICS: metrics}),
            ready=Ready(
                ports=tuple(name for name in ready.ports if Link(name) in layout.bind),
                pattern=ready.output,
                timeout_s=ready.within_s,
            ),
            stop_signal=SIGNALS[self._is.stop.signal],
        )

    def log_dir(self, layout: NodeLayout) -> Path:
        given = self._is.log_dir
        return Path(fill(given, self._values(layout))) if given else layout.dir / "data"

    def evidence(self, layout: NodeLayout, clock: ClockTie) -> Iterator[Mapping[str, Any]]:
        evidence = self._is.evidence
        if evidence.file is not None:
            return read_trace(layout.dir / evidence.file)
        if evidence.release is None:
            return iter(())
        zookeeper = self._is.coordination == "zookeeper"
        version = parse_version(evidence.release, Mode.ZOOKEEPER if zookeeper else Mode.KRAFT)
        line = str(version)
        if zookeeper:
            return read_evidence(layout, clock, line_of_kafka=line, version=version)
        data = self.log_dir(layout)
        return read_kraft_evidence(layout, clock, line_of_kafka=line, version=version, data=data)

    def _values(self, layout: NodeLayout) -> dict[str, str]:
        """Every placeholder of one node."""
        values = {
            "node": str(layout.node),
            "nodes": str(len(layout.nodes)),
            "name": layout.name,
            "dir": str(layout.dir),
            "home": str(home()),
            "here": str(self._file.parent),
            "java": layout.programs.java,
            "python": layout.programs.python,
            "zookeeper": layout.zookeeper,
            "cluster-id": layout.extras.get(_CLUSTER_ID, ""),
            "session-timeout-ms": str(layout.session_timeout_ms),
            **self._found,
        }
        ways: list[tuple[str, Mapping[Link, Address]]] = [
            ("bind", layout.bind),
            ("advertised", layout.advertised),
            ("direct", layout.direct),
        ]
        for way, addresses in ways:
            for link, address in addresses.items():
                values |= address_names(f"{link.value}.{way}", address)
        port = self._metrics_port(layout)
        if port is not None:
            at = Address(layout.bind[Link.CLIENT].host, port)
            values |= address_names(f"{_METRICS}.bind", at)
        for name, peers in self._is.lists.items():
            each = (_peer(values, node, of) for node, of in sorted(layout.peers.items()))
            values[name] = joined(peers.each, peers.join, each)
        return values


def described(text: str) -> DescribedSystem:
    """What ``--sut=file:PATH`` names. Raises `DescriptionError`."""
    return DescribedSystem(Path(text).expanduser())


def _capabilities(description: Description) -> frozenset[Capability]:
    able = {Capability(name) for name in description.capabilities if name not in _NOT_MEANT}
    if {"client", "inter-broker"} <= set(description.links):
        able.add(Capability.LINKS)
    if description.coordination == "zookeeper":
        able.add(Capability.ZOOKEEPER)
    return frozenset(able)


def _peer(values: Mapping[str, str], node: int, of: Mapping[Link, Address]) -> dict[str, str]:
    found = {**values, "peer": str(node)}
    for link, address in of.items():
        found |= address_names(f"peer.{link.value}", address)
    return found


def _content(
    file: File, values: Mapping[str, str], overrides: Mapping[str, str], *, dual: bool
) -> str:
    """``dual``: whether it has a control listener; a node may be given one by a fault alone."""
    if file.properties is None:
        return fill(file.text or "", values)
    own = file.dual if dual else file.single
    merged = {name: fill(text, values) for name, text in {**file.properties, **own}.items()}
    if file.takes_configs:
        merged |= overrides
    return "".join(f"{name}={value}\n" for name, value in merged.items() if value != "")


def _find(wanted: Find, name: str, file: Path) -> str:
    """Raises `SetupError` with what mends it."""
    looked = []
    for place in wanted.any_of:
        variables = _VARIABLE.findall(place)
        if any(not os.environ.get(variable) for variable in variables):
            looked.append(f"{place} (not set)")
            continue
        for variable in variables:
            given = os.environ[variable]
            if given.startswith("/") and not Path(given).exists():  # meant, and not to be passed by
                raise SetupError(f"{file}: {variable} names {given}, which is not there")
        text = _VARIABLE.sub(lambda match: os.environ[match[1]], place)
        if "/" not in text:
            program = shutil.which(text)
            if program is not None:
                return program
            looked.append(f"{text} on PATH")
            continue
        path = file.parent / Path(text).expanduser()
        if path.exists():
            return str(path.resolve())
        looked.append(str(path))
    raise SetupError(f"{file}: {name!r} was not found ({'; '.join(looked)}); {wanted.mend}")
