"""Control threads are preferred, and they alone: what they start belongs to the data plane."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import pytest

from nodes import priorities
from nodes.priorities import prefer_this_thread

FIFO, OTHER = os.SCHED_FIFO, os.SCHED_OTHER


@dataclass
class Kernel:
    """One thread's scheduling, as far as the kernel grants it; `child` is what it starts."""

    grants: frozenset[str]
    policy: int = OTHER
    nice: int = 0
    resets: bool = False
    asked: list[str] = field(default_factory=list)

    def set_policy(self, policy: int, priority: int) -> None:
        what = "fifo" if policy == FIFO else "other"
        self.asked.append(what)
        if what not in self.grants:
            raise PermissionError(1, what)
        assert (policy, priority) in {(FIFO, 1), (OTHER, 0)}
        self.policy, self.resets = policy, True

    def set_nice(self, value: int) -> None:
        self.asked.append("nice")
        if "nice" not in self.grants:
            raise PermissionError(13, "nice")
        self.nice = value

    @property
    def child(self) -> tuple[int, int]:
        return (OTHER, max(self.nice, 0)) if self.resets else (self.policy, self.nice)


@pytest.mark.parametrize(
    ("grants", "how", "own"),
    [
        ({"fifo", "other", "nice"}, "fifo", (FIFO, 0)),
        ({"fifo"}, "fifo", (FIFO, 0)),
        ({"other", "nice"}, "nice", (OTHER, -20)),
        ({"nice"}, "none", (OTHER, 0)),
        ({"other"}, "none", (OTHER, 0)),
        (set(), "none", (OTHER, 0)),
    ],
)
def test_what_is_granted_is_taken_and_never_inherited(
    grants: set[str], how: str, own: tuple[int, int]
) -> None:
    kernel = Kernel(frozenset(grants))
    assert prefer_this_thread(kernel.set_policy, kernel.set_nice) == how
    assert (kernel.policy, kernel.nice) == own
    assert kernel.child == (OTHER, 0)


def test_a_refusal_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(priorities, "_said_so", threading.Event())
    for _ in range(2):
        kernel = Kernel(frozenset())
        prefer_this_thread(kernel.set_policy, kernel.set_nice)
    assert caplog.text.count("CAP_SYS_NICE") == 1


def test_a_system_without_such_things() -> None:
    def missing(*_values: int) -> None:
        raise AttributeError("sched_setscheduler")

    assert prefer_this_thread(missing, missing) == "none"


REAL = """
import os, sys, threading
from nodes import priorities

def refused(policy, priority):
    if policy == os.SCHED_FIFO:
        raise PermissionError(1, "refused")
    priorities._set_policy(policy, priority)

def state():
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK, os.getpriority(
        os.PRIO_PROCESS, threading.get_native_id())

def control():
    how = priorities.prefer_this_thread(*([refused] if sys.argv[1] == "nice" else []))
    child = threading.Thread(target=lambda: print(*state()))
    print(how, *state())
    child.start()
    child.join()

before = state()
control_thread = threading.Thread(target=control)
control_thread.start()
control_thread.join()
assert state() == before
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's scheduler")
@pytest.mark.parametrize("how", ["fifo", "nice"])
def test_on_this_kernel(how: str) -> None:
    """In a process of its own: a thread that was preferred stays so, and nobody inherits it."""
    inherited = os.getpriority(os.PRIO_PROCESS, 0)  # of whoever runs the tests
    own = {"fifo": (FIFO, inherited), "nice": (OTHER, priorities.NICE)}[how]
    done = subprocess.run(
        [sys.executable, "-c", REAL, how], capture_output=True, text=True, timeout=60, check=True
    )
    control, child = done.stdout.splitlines()
    reset = max(inherited, 0) if control.startswith("none") else 0
    assert child == f"{OTHER} {reset}"
    if not control.startswith(how):
        pytest.skip(f"this kernel grants no more than {control.split()[0]!r} here")
    assert control == f"{how} {own[0]} {own[1]}"
