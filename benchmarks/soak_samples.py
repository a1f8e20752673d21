"""What one can see of a broker's process from outside, and what that says about leaks.

Everything comes from ``/proc``, the broker's folder and its metrics; `judge` is a pure function of
what was seen.
"""

from __future__ import annotations

import os
import re
import time
import urllib.request
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

GROWTH_LIMIT: Final = 1.3
"""How much more memory than in the beginning is still no leak."""

_MIB: Final = 1024 * 1024
_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_numgroups"
_PURGATORY: Final = "kafka_server_delayedoperationpurgatory_"
_LINE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_KNOWN: Final = {"server.properties", "broker.log", "zk.properties", "zk.log", "zookeeper"}
"""What `one_broker` puts beside the logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptors:
    """Open descriptors of a process, by what they are. `strays`: files outside ``log.dirs`` that it
    may write to."""

    sockets: int
    logs: int
    others: int
    strays: frozenset[str] = frozenset()

    @property
    def total(self) -> int:
        return self.sockets + self.logs + self.others


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One moment. Sizes of what the broker holds come from its metrics: `timer_entries` of all its
    timers, `waiting` requests in its purgatories (without groups' sessions)."""

    at_s: float
    rss_bytes: int
    descriptors: Descriptors
    threads: int
    groups: float = 0
    timer_entries: float = 0
    waiting: float = 0
    produced: int = 0
    consumed: int = 0


@dataclass(slots=True, kw_only=True)
class Soaked:
    """All that a run found out."""

    calm: Sample
    """Before any hostile client."""
    loaded: Sequence[Sample]
    after: Sample
    """Everybody has gone."""
    reference_s: float
    """When memory should have found its level."""
    stray_files: Sequence[str] = ()
    attempts: dict[str, int] = field(default_factory=dict)
    """How often each role did what it is there for."""


def read_sample(
    pid: int, log_dirs: Path, metrics_port: int, since_s: float, produced: int, consumed: int
) -> Sample:
    """Raises OSError when the broker is gone."""
    status = Path(f"/proc/{pid}/status").read_text()
    metrics = read_metrics(metrics_port)

    def total(name: str) -> float:
        return sum(value for key, _, value in metrics if key == name)

    return Sample(
        at_s=time.monotonic() - since_s,
        rss_bytes=_field(status, "VmRSS") * 1024,
        descriptors=read_descriptors(pid, log_dirs),
        threads=_field(status, "Threads"),
        groups=total(_GROUPS),
        timer_entries=total(f"{_PURGATORY}timerentries"),
        waiting=sum(
            value
            for key, labels, value in metrics
            if key == f"{_PURGATORY}numdelayedoperations" and "Rebalance" not in labels
        ),
        produced=produced,
        consumed=consumed,
    )


def _field(status: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
    if found is None:
        raise OSError(f"the process has ended: no {name}")
    return int(found[1])


def read_metrics(port: int) -> list[tuple[str, str, float]]:
    """(name, labels, value) of everything that the broker exports."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return [(name, labels or "", float(value)) for name, labels, value in _LINE.findall(text)]


def read_descriptors(pid: int, log_dirs: Path) -> Descriptors:
    folder = Path(f"/proc/{pid}/fd")
    targets = []
    for entry in folder.iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            flags = re.search(
                r"flags:\s+(\d+)", Path(f"/proc/{pid}/fdinfo/{entry.name}").read_text()
            )
            is_writable = flags is not None and bool(int(flags[1], 8) & os.O_ACCMODE)
            targets.append((os.readlink(entry), is_writable))
    return sort_descriptors(targets, log_dirs)


def sort_descriptors(targets: Iterable[tuple[str, bool]], log_dirs: Path) -> Descriptors:
    """`targets`: where each leads, and whether it may be written to."""
    sockets = logs = others = 0
    strays = set()
    for target, is_writable in targets:
        if target.startswith("socket:"):
            sockets += 1
        elif target.startswith(f"{log_dirs}/"):
            logs += 1
        else:
            others += 1
            if is_writable and target.startswith("/") and not target.startswith("/dev/"):
                strays.add(target)
    return Descriptors(sockets=sockets, logs=logs, others=others, strays=frozenset(strays))


def stray_files(folder: Path, log_dirs: Path, around: Iterable[Path], marker: str) -> list[str]:
    """Files beside the logs that nobody put there, and any near by that bears `marker`, which
    clients put into every name that they made up."""
    found = [str(path) for path in folder.iterdir() if path != log_dirs and path.name not in _KNOWN]
    for place in around:
        found += [str(path) for path in place.iterdir() if marker in path.name]
    return sorted(set(found))


def judge(soaked: Soaked, client_limit_mib: float | None = None) -> list[str]:
    """What is wrong, in words; nothing when the broker leaks nothing."""
    calm, after, loaded = soaked.calm, soaked.after, soaked.loaded
    settled = [sample for sample in loaded if sample.at_s >= soaked.reference_s]
    if len(settled) < 2:
        return ["too short: nothing was sampled after memory should have found its level"]
    wrong = []
    idle = sorted(role for role, count in soaked.attempts.items() if not count)
    if idle or not soaked.attempts:
        wrong.append(f"these clients did nothing: {', '.join(idle) or 'none was there'}")
    first, last = settled[0], settled[-1]
    if last.rss_bytes > first.rss_bytes * GROWTH_LIMIT:
        wrong.append(
            f"memory grew from {first.rss_bytes / _MIB:.0f} MiB at {first.at_s:.0f} s to "
            f"{last.rss_bytes / _MIB:.0f} MiB at {last.at_s:.0f} s"
        )
    if client_limit_mib is not None:
        cost = client_cost_bytes(soaked) / _MIB
        if cost > client_limit_mib:
            wrong.append(f"the clients cost {cost:.0f} MiB, more than {client_limit_mib:.0f}")
    for what, before, now in (
        ("sockets", calm.descriptors.sockets, after.descriptors.sockets),
        ("descriptors of no socket and no log", calm.descriptors.others, after.descriptors.others),
        ("operations still waiting", 0, int(after.waiting)),
    ):
        if now > before:
            wrong.append(f"{what}: {before} before, {now} after everybody had gone")
    new = after.descriptors.strays - calm.descriptors.strays
    for sample in loaded:
        new |= sample.descriptors.strays - calm.descriptors.strays
    if new or soaked.stray_files:
        wrong.append(f"files outside log.dirs: {', '.join(sorted({*new, *soaked.stray_files}))}")
    if not last.produced or after.consumed < after.produced:
        wrong.append(
            f"ordinary clients: {after.produced} records acknowledged, {after.consumed} read"
        )
    return wrong


def client_cost_bytes(soaked: Soaked) -> int:
    """What the broker holds for all clients at the most, beyond what it needs when calm."""
    return max(sample.rss_bytes for sample in soaked.loaded) - soaked.calm.rss_bytes


def table(soaked: Soaked) -> str:
    """One line a sample: the calm before, the load, the calm after."""
    heads = ("", "s", "RSS MiB", "sockets", "logs", "other", "threads")
    more = ("groups", "timers", "waiting", "produced", "consumed")
    lines = [" ".join(f"{head:>8}" for head in (*heads, *more))]
    rows = [("calm", soaked.calm), *(("load", s) for s in soaked.loaded), ("after", soaked.after)]
    for phase, s in rows:
        numbers = (
            *(s.at_s, s.rss_bytes / _MIB),
            *(s.descriptors.sockets, s.descriptors.logs, s.descriptors.others, s.threads),
            *(s.groups, s.timer_entries, s.waiting, s.produced, s.consumed),
        )
        lines.append(f"{phase:>8} " + " ".join(f"{number:8.0f}" for number in numbers))
    return "\n".join(lines)
