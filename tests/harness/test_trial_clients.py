"""How a trial ends its clients: senders one after the other, consumers together after them; and
who of them had ended before anybody asked is told apart from who was quick."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults.plan import Plan
from harness.scenarios import SCENARIOS
from harness.scenarios.base import Role
from harness.settings import Settings
from harness.sut.protocol import Planes
from harness.sut.registry import get
from harness.trial import TrialRunner
from harness.trial_result import Arm


class Client:
    """Ends as soon as it is told to; or had ``ended`` before."""

    def __init__(self, process: str, role: str, done: list[str], ended: bool) -> None:
        self.spec = SimpleNamespace(process=process, role=role)
        self.pid, self._done, self._lives = id(self), done, not ended

    def alive(self) -> bool:
        return self._lives

    def tell_to_end(self) -> None:
        self._done.append(f"{self.spec.process} told")
        self._lives = False

    def stop(self) -> int:
        self._done.append(f"{self.spec.process} waited for")
        return 0

    def last_words(self) -> str:
        return ""


def runner_of(folder: Path, sut: str) -> TrialRunner:
    return TrialRunner(
        SCENARIOS["broker-restart"],
        Arm(sut=get(sut), planes=Planes.SINGLE),
        0,
        plan=Plan.of(1, []),
        settings=Settings.of(store=folder, seed=1),
        runtime=SimpleNamespace(capabilities=frozenset()),  # type: ignore[arg-type]
        folder=folder,
        progress=lambda _: None,
    )


@pytest.mark.parametrize(
    ("sut", "left_out"), [("kafka-zk@2.1.1", {"offset-reader"}), ("kafka-zk@2.2.0", set())]
)
def test_who_would_ask_what_a_release_does_not_know_is_left_out(
    tmp_path: Path, sut: str, left_out: set[str]
) -> None:
    runner = runner_of(tmp_path, sut)
    cluster: Any = SimpleNamespace(capabilities=frozenset())
    roles = [Role(role=name, process=name, params={}) for name in ("producer", "offset-reader")]
    assert {role.role for role in roles if runner._unserved(role, cluster)} == left_out
    prober = Role(role="prober", process="prober")
    assert runner._unserved(prober, cluster) == f"{runner.arm.sut.name} lacks control-requests"


@pytest.fixture
def end(tmp_path: Path) -> Callable[..., tuple[list[str], list[str]]]:
    """What was done, in order, and who is said to have failed."""

    def end(*clients: tuple[str, str], ended: str = "", over: bool = False) -> Any:
        done: list[str] = []
        failed: list[str] = []
        runner = runner_of(tmp_path, "dualplane")
        if over:
            runner._over.set()
        started = [Client(name, role, done, name == ended) for name, role in clients]
        recorder = SimpleNamespace(event=lambda _, reason, **__: failed.append(reason.split()[1]))
        runner._stop_workloads(started, recorder)  # type: ignore[arg-type]
        return done, failed

    return end


CLIENTS = (("reader", "consumer"), ("sender", "producer"), ("tail", "consumer"))


def test_consumers_are_told_together_when_nobody_sends_any_more(end: Any) -> None:
    done, failed = end(*CLIENTS)
    assert done == [
        *("sender told", "sender waited for", "reader told", "tail told"),
        *("reader waited for", "tail waited for"),
    ]
    assert not failed, "who ends as soon as it is told has not failed"


def test_when_all_is_over_all_are_told_at_once(end: Any) -> None:
    done, failed = end(*CLIENTS, over=True)
    assert done[:3] == ["reader told", "sender told", "tail told"]
    assert not failed


@pytest.mark.parametrize("ended", [name for name, _ in CLIENTS])
@pytest.mark.parametrize("over", [False, True])
def test_who_had_ended_before_is_said_to_have_failed(end: Any, ended: str, over: bool) -> None:
    assert end(*CLIENTS, ended=ended, over=over)[1] == [ended]
