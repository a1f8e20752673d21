"""SIGTERM, SIGINT or SIGHUP at any moment of a run: it ends with 2, nothing that it started is
left, and what it had recorded is kept.

A run is stopped at a step and so many milliseconds later that are drawn by seed, sometimes twice.
The steps are all that a run tells of, from the room that it needs to its report. Just before,
everything that it runs by then is written down (pid and start time); afterwards none of that may be
there, nor anything below its store or in its folder for temporary files. By default each signal is
tried once: at the start, while a broker is paused and another flooded, and while all of it is being
ended.
``BIPLANE_SIGNALS`` is how many, ``BIPLANE_SIGNAL_SEED`` repeats the choices, and with
``BIPLANE_SIGNAL_RUNTIME=docker`` no container or network of the run may be there either.
"""

from __future__ import annotations

import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from faults.plan import Plan
from faults.protocol import Entry
from harness.runtime.paths import bin_dir
from harness.runtime.registry import boot_id, start_ticks
from harness.runtime.tools import find_toxiproxy

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(find_toxiproxy() is None, reason="no toxiproxy-server: make setup"),
]

ROOT = Path(__file__).resolve().parents[2]
FEW = 3
COUNT = int(os.environ.get("BIPLANE_SIGNALS", FEW))
SEED = int(os.environ.get("BIPLANE_SIGNAL_SEED", "2906"))
RUNTIME = os.environ.get("BIPLANE_SIGNAL_RUNTIME", "process")
FIRST, LAST = "1 trial needs", "writing the report"
STEPS = {
    **{FIRST: 0.5, "starting": 4.0, "warm-up": 1.5, "chaos": 3.0, "pause": 1.5, "healing": 1.5},
    **{"quiescing": 1.5, "looking on": 1.5, "reading every replica's log": 0.5, "stopping": 1.5},
    **{"finishing the history": 1.5, "checking": 2.0, LAST: 0.1},
}
"""As the run tells of them (it may skip one, see `Run.reach`), and how long each takes, about [s]:
a signal comes within that time."""
UP = tuple(STEPS)[2:8]
"""Brokers run, a moment later, too."""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_COMMANDS = {
    "biplane run": ["-c", "from harness.cli import main; main()", "run", "broker-restart"],
    "pytest": ["-m", "pytest", "harness/", "-k", "broker-restart", "-p", "no:cacheprovider"],
}
_LIGHT = {"target": "controller", "connections": 8, "partitions": 2}
PLAN = Plan.of(
    1,
    [
        Entry(id="p", fault="pause", at_ms=700, duration_ms=1500, params={"target": "2"}),
        Entry(id="f", fault="flood-heavy-produce", at_ms=100, duration_ms=2000, params=_LIGHT),
    ],
)
_BEGIN = """
import fcntl, os, signal, sys, termios
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
if os.isatty(0):
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""A shell's background job, which this may be part of, ignores some of them."""
Id = tuple[int, int]
"""A process: pid and start time, which nobody has after it."""


@dataclass(frozen=True)
class Moment:
    """``second``: another signal comes so long after the first; ``group``: they go to all that is
    in its process group, as those of `timeout` and of a terminal do."""

    command: str
    step: str
    after_s: float
    number: int
    second_s: float | None
    group: bool

    def __str__(self) -> str:
        name = signal.Signals(self.number).name
        again = "" if self.second_s is None else f" and again {self.second_s * 1000:.0f} ms later"
        to = " to its group" if self.group else ""
        return f"{self.command}, {self.step} + {self.after_s * 1000:.0f} ms: {name}{to}{again}"


def moments(seed: int, count: int) -> list[Moment]:
    """Every step and every signal before any comes twice."""
    rng = random.Random(seed)
    steps = [step for _ in range(count) for step in rng.sample(list(STEPS), len(STEPS))]
    return [
        Moment(
            command=list(_COMMANDS)[n % 2],
            step=steps[n],
            after_s=rng.choice((0.0, rng.random() * 0.1, rng.random())) * STEPS[steps[n]],
            number=SIGNALS[n % len(SIGNALS)],
            second_s=rng.random() * 0.5 if rng.random() < 0.5 else None,
            group=rng.random() < 0.5,
        )
        for n in range(count)
    ]


def parents() -> dict[int, int]:
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            found[int(folder.name)] = int(stat[1])
    return found


def descendants(pid: int) -> set[Id]:
    above = parents()
    found: set[Id] = set()
    for each in above:
        at: int | None = each
        while at is not None and at not in (0, pid):
            at = above.get(at)
        ticks = start_ticks(each)
        if at == pid and each != pid and ticks is not None:
            found.add((each, ticks))
    return found


def below(store: Path) -> list[str]:
    """The command lines of processes that run in the store, or with an argument from there."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            place = os.readlink(folder / "cwd")
        except OSError:
            continue
        if any(str(store) in word for word in (place, *words)):
            found.append(f"{folder.name}: {' '.join(words)}")
    return found


class Run:
    """One run of the harness in a process of its own."""

    def __init__(self, command: str, folder: Path, stream: int | None = None) -> None:
        """``stream``: a terminal's end, to be the session's own terminal."""
        self.store, self.home = folder / "store", folder / "home"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.home.mkdir(parents=True)
        (self.home / "bin").symlink_to(bin_dir())
        self.output = folder / "output.log"
        PLAN.save(folder / "plan.json")
        options = ["--planes=dual", "--time-limit=3", f"--plan={folder / 'plan.json'}"]
        options.append(f"--runtime={RUNTIME}")
        options.append(f"--store={self.store}")
        first = [sys.executable, "-c", _BEGIN]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*first, sys.executable, *_COMMANDS[command], *options],
                cwd=ROOT,
                env={
                    **os.environ,
                    "BIPLANE_HOME": str(self.home),
                    "TMPDIR": str(self.temporary),
                    "PYTHONUNBUFFERED": "1",
                },
                stdin=subprocess.DEVNULL if stream is None else stream,
                stdout=output if stream is None else stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.identity = f"{self.process.pid}:{start_ticks(self.process.pid)}:{boot_id()}"

    def contained(self) -> list[str]:
        """Containers and networks that it made, and that are there."""
        if RUNTIME != "docker":
            return []
        from harness.runtime.docker_engine import LABEL_OWNER, connect

        api, filters = connect().api, {"label": f"{LABEL_OWNER}={self.identity}"}
        networks = [each["Name"] for each in api.networks(filters=filters)]
        return [
            *networks,
            *(each["Names"][0] for each in api.containers(all=True, filters=filters)),
        ]

    def told(self) -> str:
        return self.output.read_text(errors="replace")

    def reach(self, step: str, wait_until: Callable[..., None]) -> None:
        """On a busy machine (several at once) the last steps were more than 240 s away."""
        reached = f": {step}"
        wait_until(lambda: reached in self.told() or self.process.poll() is not None, 600.0)

    def end(self, number: int, second_s: float | None = None, group: bool = False) -> set[Id]:
        """Everything that it ran by then."""
        send = os.killpg if group else os.kill
        ran = descendants(self.process.pid)
        send(self.process.pid, number)
        if second_s is not None:
            time.sleep(second_s)  # the moment is the point, not a condition
            ran |= descendants(self.process.pid)
            with suppress(ProcessLookupError):
                send(self.process.pid, number)
        self.process.wait(120)
        return ran


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    runs: list[Run] = []

    def start(command: str) -> Run:
        runs.append(Run(command, tmp_path))
        return runs[-1]

    yield start
    for each in runs:  # of a test that failed: in order, or its containers stay
        each.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            each.process.wait(120)
        each.process.kill()
        each.process.wait()


@pytest.mark.parametrize("moment", moments(SEED, COUNT), ids=str)
def test_nothing_is_left_and_what_was_recorded_is_kept(
    moment: Moment, run: Callable[[str], Run], wait_until: Callable[..., None]
) -> None:
    running = run(moment.command)
    running.reach(moment.step, wait_until)
    time.sleep(moment.after_s)
    made = running.contained()
    ran = running.end(moment.number, moment.second_s, moment.group)
    told = running.told()
    told_its_verdict = re.search(r"^broker-restart: (valid|invalid|unknown) ", told, re.MULTILINE)
    assert running.process.returncode == 2 or (moment.step == LAST and told_its_verdict), told
    assert not [one for one in ran if start_ticks(one[0]) == one[1]], told
    assert not below(running.store), told
    assert running.contained() == []
    assert made or RUNTIME == "process" or moment.step not in UP
    assert not list((running.home / "processes").glob("*"))
    assert not list(running.temporary.iterdir())
    assert "Traceback" not in told
    assert "\tat " not in told, "a JVM's"
    records = list(running.store.glob("broker-restart/*/run.json"))
    if moment.step == FIRST and not records:
        return  # nothing had begun
    (record,) = records
    if (record.parent / "trials").exists():
        assert json.loads(record.read_text())["history"]["rows"]
    assert str(record.parent) in told


@pytest.mark.parametrize("command", list(_COMMANDS) if COUNT > FEW else ["pytest"])
def test_a_terminal_that_goes_away_ends_it_in_order(
    command: str, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    terminal, its_end = pty.openpty()
    running = Run(command, tmp_path, stream=its_end)
    os.close(its_end)
    read = b""
    while b"chaos" not in read:
        read += os.read(terminal, 4096)
    ran = descendants(running.process.pid)
    os.close(terminal)
    try:
        assert running.process.wait(120) == 2
    finally:
        running.process.kill()
    assert ran
    assert not [one for one in ran if start_ticks(one[0]) == one[1]]
    assert not below(running.store)
    assert list(running.store.glob("broker-restart/*/history/f=phase"))


@pytest.mark.parametrize("step", ["chaos", "checking"] if COUNT > FEW else ["chaos"])
def test_nothing_outlives_a_harness_that_is_killed(
    step: str, run: Callable[[str], Run], wait_until: Callable[..., None]
) -> None:
    running = run("biplane run")
    running.reach(step, wait_until)
    wait_until(lambda: descendants(running.process.pid))
    ran = running.end(signal.SIGKILL)
    assert ran
    wait_until(lambda: not [one for one in ran if start_ticks(one[0]) == one[1]])
    wait_until(lambda: not below(running.store))
