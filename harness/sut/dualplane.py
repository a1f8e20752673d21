"""The bundled dual-plane server: ``python -m nodes server.properties``.

Its evidence is its trace, one JSON row an event in the history's own schema, so nothing has to be
parsed or converted: rows are read back as they are.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from faults.protocol import Capability, Link
from harness.runtime.protocol import ProcessSpec, Programs, Ready, Role, SetupError
from harness.sut.broker_properties import FIRST_LOOK_MS, broker_properties, render
from harness.sut.protocol import (
    ClockTie,
    GaugesPage,
    NodeLayout,
    Planes,
    Ports,
    SupportLayout,
)
from harness.sut.trace_file import read_trace
from nodes.config import CONFIGS
from nodes.mutants import MUTANTS

_TRACE: Final = "trace.jsonl"
_METRICS_URL: Final = "metrics.url"


class DualPlaneServer:
    """See the module and `harness.sut.protocol.SystemUnderTest`."""

    name: Final = "dualplane"
    capabilities: Final = frozenset(
        {
            Capability.CONTROLLED_STOP,
            Capability.LINKS,
            Capability.ZOOKEEPER,
            Capability.CONTROL_REQUESTS,
            Capability.CHANNEL_METRICS,
            Capability.EXCEPTIONS,
            Capability.LOG_FILES,
            Capability.ELECT_LEADERS,
            Capability.ALTER_PARTITION,
            Capability.STRICT_MIN_ISR,
        }
    )
    traces: Final = frozenset({"control_request", "metadata_update", "plane_use"})
    plane_modes: Final = frozenset(Planes)
    planted_bugs: Final = frozenset(MUTANTS)
    configs: Final = CONFIGS
    first_look_ms: Final = FIRST_LOOK_MS

    def prepare(self, programs: Programs) -> None:
        _source_root()

    def version(self, programs: Programs) -> str:
        other = os.environ.get("BIPLANE_NODES")
        try:
            own = version("biplane")
        except PackageNotFoundError:
            own = "unknown"
        return f"{own}, sources of {other}" if other else own

    def support_specs(
        self, layout: SupportLayout, ports: Ports
    ) -> tuple[Sequence[ProcessSpec], Mapping[str, str]]:
        return (), {}

    def node_spec(
        self, layout: NodeLayout, planes: Planes, overrides: Mapping[str, str]
    ) -> ProcessSpec:
        config = broker_properties(layout, planes)
        config["biplane.trace.path"] = str(layout.dir / _TRACE)
        if planes is Planes.PRIORITY:
            config["biplane.plane.mode"] = "priority"
        config["biplane.metrics.host"] = layout.bind[Link.CLIENT].host
        root = _source_root()
        return ProcessSpec(
            name=layout.name,
            role=Role.NODE,
            argv=(layout.programs.python, "-m", "nodes", str(layout.dir / "server.properties")),
            workdir=layout.dir,
            files={"server.properties": render(config, overrides)},
            # The tree's own sources, wherever the interpreter lives: an image needs no rebuild.
            env={"PYTHONPATH": str(root), "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"},
            ports={link.value: address.port for link, address in layout.bind.items()},
            ready=Ready(pattern=r"started \(kafka\.server\.KafkaServer\)", timeout_s=60.0),
            mounts=(root / "nodes",),
        )

    def log_dir(self, layout: NodeLayout) -> Path:
        return layout.dir / "data"

    def gauges_page(self, layout: NodeLayout) -> GaugesPage | None:
        try:
            said = (self.log_dir(layout) / _METRICS_URL).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        port = urlsplit(said.strip()).port
        return GaugesPage(url=f"http://{layout.direct[Link.CLIENT].host}:{port}/mbeans")

    def evidence(self, layout: NodeLayout, clock: ClockTie) -> Iterator[Mapping[str, Any]]:
        return read_trace(layout.dir / _TRACE)


def _source_root() -> Path:
    """The folder that holds the package 'nodes' to be run: ``BIPLANE_NODES``, or this tree."""
    other = os.environ.get("BIPLANE_NODES")
    if other:
        if not (Path(other) / "nodes" / "__main__.py").is_file():
            raise SetupError(f"BIPLANE_NODES={other}: no package 'nodes' there; unset it")
        return Path(other).resolve()
    spec = importlib.util.find_spec("nodes")  # found, not imported
    if spec is None or spec.origin is None:
        raise SetupError("the package 'nodes' is not installed; reinstall biplane")
    return Path(spec.origin).resolve().parent.parent
