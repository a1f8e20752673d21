"""What a scenario is: one conjecture, the arms it compares, and how to put it to the test.

A scenario is data plus three small functions: which topics, which workloads, which plan. It knows
nothing of processes, proxies or Spark; `harness.run` does the rest, the same for every scenario.
What a scenario ``needs`` is checked against the system and the runtime; a lack skips it, visibly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.plan import Plan
from faults.protocol import Capability
from harness.settings import Profile
from harness.sut.protocol import Planes


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic under test; ``assignment`` is partition -> replicas, the first being preferred."""

    name: str
    assignment: Mapping[int, Sequence[int]]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a scenario knows of the cluster that it is about to play on."""

    nodes: tuple[int, ...]
    controller: int
    victim: int
    """A broker that is not the controller: whom floods and kills are meant for by default."""
    profile: Profile

    @property
    def others(self) -> tuple[int, ...]:
        """Every broker but the victim, the controller last."""
        rest = [n for n in self.nodes if n not in (self.victim, self.controller)]
        return (*rest, self.controller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One workload process: see harness/workload. The run adds addresses, output and seed."""

    role: str
    process: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One conjecture. ``checks`` name checkers (checkers/check.py); ``leader_changes``: the plan
    moves leaders, so that a history without a change proves nothing."""

    name: str
    conjecture: str
    planes: tuple[Planes, ...]
    needs: frozenset[Capability]
    topics: Callable[[Stage], Sequence[Topic]]
    workloads: Callable[[Stage], Sequence[Role]]
    plan: Callable[[random.Random, Profile], Plan]
    checks: tuple[str, ...]
    leader_changes: bool
    overrides: Mapping[str, str] = field(default_factory=dict)
    session_timeout_ms: int = 6000
    quiesce_s: float = 20.0
    """How long replicas may take to agree after the last fault was healed."""


def spread(
    partitions: int, brokers: Sequence[int], replication_factor: int
) -> dict[int, list[int]]:
    """Replicas round robin over ``brokers``: leaders spread evenly."""
    count = len(brokers)
    return {
        p: [brokers[(p + r) % count] for r in range(replication_factor)] for p in range(partitions)
    }


def led_by(leader: int, others: Sequence[int], partitions: int) -> dict[int, list[int]]:
    """Every partition led by ``leader``, the others its followers in turn."""
    return {
        p: [leader, *(others[(p + i) % len(others)] for i in range(len(others)))]
        for p in range(partitions)
    }


LOG_APPEND_TIME: Mapping[str, str] = {"message.timestamp.type": "LogAppendTime"}
"""On topics under test: the append time tells avoidable loss from lawful loss."""


def trial_folder(run: Path, arm: str, trial: int) -> Path:
    """Where one trial of one arm keeps its live files, node folders and logs."""
    return run / "trials" / f"{arm}-{trial}"
