"""A cluster that runs already, as a system under test.

What it can do follows from its file and from what its brokers answer; they are asked once, when
that is first of interest. It is judged as a black box: what clients are shown is the proof of what
was committed (`harness.sut.described` says what that leaves unjudged).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from faults.plan import Plan
from faults.protocol import Capability, Entry
from harness.runtime.protocol import ProcessSpec, Programs, Ready, Role, SetupError
from harness.sut.external.asked import Seen, abilities, look, obstacles, session_timeout_ms, unknown
from harness.sut.external.form import ClusterForm, command_of, read_cluster
from harness.sut.external.here import playable
from harness.sut.protocol import ClockTie, Limits, NodeLayout, Planes, Ports, SupportLayout
from nodes.wire.apis import ApiKey

_UNTOLD: Final = {"succession": "nobody tells who was elected controller"}


class ExternalSystem:
    """See the module and `harness.sut.protocol.RunsAlready`."""

    traces: Final[frozenset[str]] = frozenset()

    def __init__(self, file: Path) -> None:
        """Raises `DescriptionError`."""
        self.file: Final = file.absolute()
        self.form: Final[ClusterForm] = read_cluster(file)
        self.description: Final = file.read_text()
        self.name: Final = self.form.name
        self.plane_modes: Final = frozenset({Planes(self.form.planes)})
        self._seen: Seen | None = None

    @property
    def seen(self) -> Seen:
        """What its brokers told when they were first asked."""
        if self._seen is None:
            self._seen = look(self.form)
        return self._seen

    @property
    def capabilities(self) -> frozenset[Capability]:
        ways, able = self.form.ways, set[Capability]()
        if ways.kill:
            able.add(Capability.KILL)
        if ways.stop:
            able.add(Capability.CONTROLLED_STOP)
        if ways.pause:
            able.add(Capability.PAUSE)
        if all(_readable(self._logs(node)) for node in self.form.ids):
            able.add(Capability.LOG_FILES)
        has = abilities(self.seen)
        moves = (ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        if all(has[api.name] for api in moves):
            able.add(Capability.ELECT_LEADERS)
        return frozenset(able)

    @property
    def limits(self) -> Limits:
        form = self.form
        return Limits(
            nodes=len(form.ids),
            first_node=form.ids[0],
            takes_configs=False,
            runtime="process",
            state="clients" if form.zookeeper is None else "store",
            leaders="shown",
            read_as_consumer=form.final_read_as == "consumer",
            fetch_version=form.fetch_version,
            mute=True,
            clock_error_ms=form.clock_error_ms,
            unjudged=_UNTOLD,
        )

    @property
    def session_timeout_ms(self) -> int:
        return session_timeout_ms(self.form, self.seen)

    def playable(self, plan: Plan) -> tuple[Plan, list[tuple[Entry, str]]]:
        return playable(plan, self.capabilities)

    def prepare(self, programs: Programs) -> None:
        """Raises `SetupError` while something stands in the way."""
        found = [*unknown(self.form, self.seen), *obstacles(self.form, self.seen)]
        if found:
            more = f" (and {len(found) - 1} more: biplane probe {self.file})" * (len(found) > 1)
            raise SetupError(f"{self.file}: {found[0]}{more}")

    def version(self, programs: Programs) -> str:
        return self.form.version

    def support_specs(
        self, layout: SupportLayout, ports: Ports
    ) -> tuple[Sequence[ProcessSpec], Mapping[str, str]]:
        return (), {}

    def node_spec(
        self, layout: NodeLayout, planes: Planes, overrides: Mapping[str, str]
    ) -> ProcessSpec:
        """What is on record of a broker: it is started by its own command, or not at all."""
        return ProcessSpec(
            name=layout.name,
            role=Role.NODE,
            argv=command_of(self.form, "start", layout.node, self.file.parent) or (),
            workdir=layout.dir,
            ready=Ready(timeout_s=self.form.ways.within_s),
        )

    def log_dir(self, layout: NodeLayout) -> Path:
        """Of somebody else: read, and never written nor removed."""
        return self._logs(layout.node) or layout.dir / "data"

    def evidence(self, layout: NodeLayout, clock: ClockTie) -> Iterator[Mapping[str, Any]]:
        return iter(())

    def _logs(self, node: int) -> Path | None:
        given = self.form.broker(node).logs
        return None if given is None else self.file.parent / Path(given).expanduser()


def _readable(folder: Path | None) -> bool:
    return folder is not None and os.access(folder, os.R_OK | os.X_OK)


def external(text: str) -> ExternalSystem:
    """What ``--sut=external:PATH`` names. Raises `DescriptionError`."""
    return ExternalSystem(Path(text).expanduser())
