"""A signal at any step of a trial: all that was begun is ended, once, in order, and the trial says
so by a KeyboardInterrupt. The parts are stand-ins that write down what is asked of them; what
real ones do is seen in tests/integration/test_signals.py."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults.plan import Plan
from harness import interrupts
from harness import trial as module
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from harness.sut.protocol import Planes
from harness.sut.registry import get
from harness.trial import TrialRunner
from harness.trial_result import Arm

STEPS = (
    *("cluster starts", "topics", "client launched", "client ready", "schedule prepares"),
    *("schedule starts", "schedule heals", "rest", "client stops", "final read"),
    *("cluster stops", "evidence", "recorder closes"),
)
"""In the order in which a trial that nobody interrupts does them."""
ENDING = ("cluster stops", "evidence", "recorder closes")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {n: signal.signal(n, signal.SIG_DFL) for n in interrupts.SIGNALS}
    interrupts.install()
    yield
    interrupts.forget()
    for number, handler in before.items():
        signal.signal(number, handler)


class Parts:
    """What a trial is made of. ``at``: who sends the signal, half-way through what it does; with
    " twice": when it does so for the second time."""

    def __init__(self, at: str, again: bool) -> None:
        self.at, self.times = at.removesuffix(" twice"), at.endswith(" twice")
        self.again, self.done = again, list[str]()

    def does(self, what: str, result: Any = None) -> Callable[..., Any]:
        def do(*_: Any, **__: Any) -> Any:
            if what == self.at and self.done.count(what) == self.times:
                signal.raise_signal(signal.SIGTERM)
            elif self.again:
                signal.raise_signal(signal.SIGINT) if interrupts.pending() else None
            self.done.append(what)
            return result() if callable(result) else result

        return do

    def client(self) -> Any:
        return SimpleNamespace(
            spec=SimpleNamespace(process="p", role="producer"),
            pid=1,
            alive=lambda: True,
            wait_ready=self.does("client ready"),
            tell_to_end=self.does("client told"),
            stop=self.does("client stops", 0),
        )


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool], list[str]]:
    def play(at: str, again: bool) -> list[str]:
        parts = Parts(at, again)
        does = parts.does
        cluster = SimpleNamespace(
            log_dirs=[],
            node_ids=(),
            capabilities=frozenset(),
            start=does("cluster starts"),
            stop=does("cluster stops"),
            wind_up=does("nobody waits"),
        )
        schedule = SimpleNamespace(
            prepare=does("schedule prepares"),
            start=does("schedule starts"),
            join=lambda **_: True,
            stop=does("schedule stops"),
            heal_all=does("schedule heals"),
        )
        recorder = SimpleNamespace(event=lambda *_, **__: None, close=does("recorder closes"))
        runner = TrialRunner(
            SCENARIOS["broker-restart"],
            Arm(sut=get("dualplane"), planes=Planes.DUAL),
            0,
            plan=Plan.of(1, []),
            settings=Settings.of(store=tmp_path, seed=1, time_limit_s=1),
            runtime=SimpleNamespace(capabilities=frozenset()),  # type: ignore[arg-type]
            folder=tmp_path,
            progress=lambda _: None,
            on_stopping=does("the judge starts"),
        )
        for name, part in (
            ("_stage", does("stage")),
            ("_create_topics", does("topics")),
            ("_schedule", lambda *_: schedule),
            ("_workload_spec", lambda *_: None),
            ("_chaos", lambda *_: schedule.start()),
            ("_come_to_rest", does("rest")),
            ("_collect_evidence", does("evidence")),
        ):
            monkeypatch.setattr(runner, name, part)
        runner.scenario = SimpleNamespace(  # type: ignore[assignment]
            workloads=lambda _: [SimpleNamespace(role="producer", needs=frozenset())],
            session_timeout_ms=1,
            overrides={},
            late_links=(),
        )
        for name, part in (
            ("cluster_of", lambda *_, **__: cluster),
            ("LiveRecorder", lambda *_, **__: recorder),
            ("told", lambda _: {}),
            ("launch", does("client launched", parts.client)),
            ("final_read", does("final read")),
        ):
            monkeypatch.setattr(module, name, part)
        monkeypatch.setattr(runner.settings.profile.__class__, "warmup_s", 0.0, raising=False)
        interrupted = False
        try:
            runner.run()
        except KeyboardInterrupt:
            interrupted = True
        assert interrupted is bool(at)
        assert runner.result.end_t
        return parts.done

    return play


def test_a_trial_that_nobody_interrupts(play: Callable[[str, bool], list[str]]) -> None:
    done = play("", False)
    assert (
        [step for step in done if step in STEPS]
        == [
            *STEPS[: STEPS.index("client stops") + 1],
            *("client stops", "schedule heals"),  # both know that they are done
            *STEPS[STEPS.index("final read") :],
        ]
    )
    assert "nobody waits" not in done
    assert "the judge starts" in done


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_one_that_is_interrupted(
    step: str, again: bool, play: Callable[[str, bool], list[str]]
) -> None:
    done = play(step, again)
    assert done[-3:] == list(ENDING)
    assert ("the judge starts" in done) == (step in ENDING)
    assert [done.count(each) for each in ENDING] == [1, 1, 1]
    after = STEPS.index(step) + 1
    if STEPS.index(step) >= STEPS.index("client launched"):
        assert {"client launched", "client stops"} <= {*done}
        assert done.index("client stops") < done.index("cluster stops")
    if after > STEPS.index("topics") + 1:
        assert "schedule stops" in done or step in ("client launched", "client ready")
        assert "schedule heals" in done
    skipped = [each for each in STEPS[after:] if each not in (*ENDING, "client stops")]
    if step not in ENDING:
        assert not {*skipped} - {"schedule heals"} & {*done}


@pytest.mark.parametrize("step", ["client stops", "schedule heals"])
def test_what_is_being_undone_is_undone(step: str, play: Callable[[str, bool], list[str]]) -> None:
    done = play(f"{step} twice", True)
    assert done.count(step) == 2
    assert done[-3:] == list(ENDING)
