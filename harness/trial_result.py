"""What a trial is of, and what is known of it besides its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.sut.protocol import Planes, SystemUnderTest

LAST_FAULT_S: Final = 180.0
"""So long after the chaos faults of the plan that are still under way are waited for, and those
that come after them: of brokers that take 20 s to come up half a dozen may have to, one after the
other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What is compared: a system in a plane mode. ``label`` names it in histories and reports."""

    sut: SystemUnderTest
    planes: Planes

    @property
    def label(self) -> str:
        return f"{self.sut.name}-{self.planes}"


@dataclass(slots=True)
class TrialResult:
    """What is known of a trial besides its files."""

    arm: str
    trial: int
    folder: Path
    end_t: int = 0
    failure: str | None = None
    topics: dict[str, dict[str, object]] = field(default_factory=dict)
    faults: list[str] | None = None
    """Those to be played, by name: without the skipped ones. None: it never came to that."""
    planned: list[dict[str, object]] | None = None
    """The plan's entries that were to be played: id, fault, at_ms, duration_ms."""
    workloads: list[dict[str, object]] | None = None
    """The workload processes that were launched: see `harness.workload.told`."""
    skipped_faults: list[str] = field(default_factory=list)
    skipped_roles: list[str] = field(default_factory=list)
    log_dirs: list[Path] = field(default_factory=list)
    """The brokers' own log directories: large, and of no use once a valid run was judged."""
    evidence: dict[str, object] = field(default_factory=dict)
    """By node: what a system that parses log files says of its reading (how many lines it knew)."""
