"""The first signal is obeyed, once, and not in the middle of what must not be done by half."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import interrupts, run

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    taken = [*NUMBERS, signal.SIGALRM]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in taken}
    interrupts.install()
    yield
    interrupts.forget()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_each_is_a_keyboard_interrupt(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    assert not interrupts.pending()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)
    assert interrupts.pending()
    assert number.name in capfd.readouterr().err


def test_a_second_one_does_not_cut_off_what_ends_the_run() -> None:
    ended = []

    def run() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            for number in NUMBERS:
                signal.raise_signal(number)
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert ended


def test_what_must_not_be_done_by_half_is_done_first() -> None:
    done = []

    def run() -> None:
        with interrupts.uninterrupted():
            with interrupts.uninterrupted():
                signal.raise_signal(signal.SIGTERM)
            assert interrupts.pending()
            done.append(True)
        done.append(False)

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [True]


def test_a_run_that_is_judged_gives_its_logs_back_whole_and_says_where_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Interrupted after its verdict was written."""
    removed = []

    def remove(recorded: run.Recorded) -> None:
        signal.raise_signal(signal.SIGTERM)
        removed.append(recorded.folder)

    monkeypatch.setattr(run, "judge", lambda _: {"verdict": "valid", "reasons": []})
    monkeypatch.setattr(run, "write_report", lambda _: None)
    monkeypatch.setattr(run, "note", lambda *_: None)
    monkeypatch.setattr(run, "remove_log_dirs", remove)
    recorded = run.Recorded(
        scenario="x", folder=tmp_path, log_dirs=[], keep_data=False, seconds=0.0
    )
    with pytest.raises(run.Stopped, match=str(tmp_path)):
        run.conclude(recorded, lambda *_: None)
    assert removed == [tmp_path]


@pytest.mark.parametrize("ends", [run.Stopped, ValueError])
def test_a_signal_that_ended_the_jvm_first_ends_the_run_in_order(
    ends: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`timeout` sends it to the whole group: what fails by it is no crash. The twin: no signal."""

    def judge(_: Path) -> None:
        if ends is run.Stopped:
            signal.raise_signal(signal.SIGTERM)
        raise ValueError("the JVM is gone")

    monkeypatch.setattr(interrupts, "_is_between", lambda _: True)  # it is put off
    monkeypatch.setattr(run, "judge", judge)
    recorded = run.Recorded(
        scenario="x", folder=tmp_path, log_dirs=[], keep_data=False, seconds=0.0
    )
    with pytest.raises(ends):
        run.conclude(recorded, lambda *_: None)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_program_undoes_what_it_did_and_ends_with_2(number: signal.Signals) -> None:
    undone = []

    def program() -> int:
        try:
            signal.raise_signal(number)
        finally:
            undone.append(number)
        return 0

    assert interrupts.in_order(program) == 2
    assert undone == [number]
    assert interrupts.in_order(lambda: 7) == 7


def test_nothing_came_nothing_happens() -> None:
    with interrupts.uninterrupted():
        pass
    interrupts.check()


def test_it_is_obeyed_although_what_was_being_done_failed() -> None:
    def run() -> None:
        with interrupts.uninterrupted():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("no")

    with pytest.raises(KeyboardInterrupt):
        run()


def test_one_that_a_destructor_swallowed_is_raised_again() -> None:
    class Held:
        pass

    def swallows(_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        held = Held()
        told = weakref.ref(held, swallows)
        del held
        assert told() is None
    finally:
        sys.unraisablehook = hook
    with pytest.raises(KeyboardInterrupt):
        interrupts.check()


class Holds:
    """What `threading.Condition` is: a lock that Python code takes and gives back."""

    def __init__(self, meet: str) -> None:
        self.lock = threading.Lock()
        self._meet = meet

    def __enter__(self) -> None:
        self.lock.acquire()
        self._signal("__enter__")

    def __exit__(self, *_: object) -> None:
        self._signal("__exit__")
        self.lock.release()

    def __del__(self) -> None:
        self._signal("__del__")

    def _signal(self, where: str) -> None:
        if self._meet == where:
            self._meet = ""
            interrupts._on_signal(signal.SIGTERM, sys._getframe(1))


@pytest.mark.parametrize("meet", ["__enter__", "__exit__", "__del__"])
def test_one_that_comes_between_two_steps_is_obeyed_a_moment_later(meet: str) -> None:
    """Else the lock is never given back, or Python drops the exception."""
    held = Holds(meet)
    lock = held.lock

    def run() -> None:
        nonlocal held
        with held:
            if meet == "__enter__":
                time.sleep(30)
        del held
        time.sleep(30)

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert not lock.locked()
    assert time.monotonic() - started < 20


def test_one_that_comes_as_a_condition_lets_go_of_its_lock() -> None:
    """In `threading.Condition.wait`, before its ``finally``."""

    class Lock(threading.RLock().__class__):  # type: ignore[misc]
        def _release_save(self) -> object:
            state = super()._release_save()
            interrupts._on_signal(signal.SIGTERM, sys._getframe(1))
            return state

    condition = threading.Condition(Lock())
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), condition:
        condition.wait(30)
    assert time.monotonic() - started < 20


def test_who_never_gets_what_it_waits_for_is_not_waited_for() -> None:
    class Waits:
        def __enter__(self) -> None:
            signal.raise_signal(signal.SIGINT)
            time.sleep(30)

        def __exit__(self, *_: object) -> None: ...

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Waits():
        pass
    assert time.monotonic() - started < 20


def test_once_the_outcome_is_told_none_changes_it() -> None:
    interrupts.settle()
    for number in NUMBERS:
        signal.raise_signal(number)


def test_other_threads_hold_nothing_up() -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with interrupts.uninterrupted():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert inside.wait(30)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        leave.set()
        thread.join()


@pytest.mark.parametrize("ignored", [True, False])
def test_nohup_is_respected(ignored: bool) -> None:
    code = (
        "import os, signal\n"
        f"signal.signal(signal.SIGHUP, signal.{'SIG_IGN' if ignored else 'SIG_DFL'})\n"
        "from harness import interrupts\n"
        "interrupts.install()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=False, stderr=subprocess.PIPE
    )
    assert (done.returncode == 0) == ignored


def test_a_terminal_that_is_gone_is_no_reason_to_fail() -> None:
    """Of what comes next: what is printed goes nowhere, through whatever descriptor. Others, and
    terminals that are there, are left alone."""
    (lost, its_end), (kept, other_end) = pty.openpty(), pty.openpty()
    again = os.dup(its_end)
    read, write = os.pipe()
    os.close(lost)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        assert [os.write(end, b"stopped") for end in (its_end, again)] == [7, 7]
        os.write(other_end, b"here")
        assert os.read(kept, 10) == b"here"
        os.write(write, b"here")
        assert os.read(read, 10) == b"here"
    finally:
        for descriptor in (its_end, again, kept, other_end, read, write):
            os.close(descriptor)
