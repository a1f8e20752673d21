"""What a run says of itself: on a log each step once, and lines that stay wherever it is shown."""

from __future__ import annotations

import io

import pytest

from harness.progress import Shown, show_progress, tolerant


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_line_stays(stream: io.StringIO) -> None:
    with show_progress(stream) as shown:
        shown("mixture a 1/2", "chaos, 3 s left")
        shown.say("round 1: [valid] " + "x" * 200)
    assert "round 1: [valid] " + "x" * 200 in stream.getvalue()


def test_a_panel_shows_what_is_noted_last() -> None:
    terminal = Terminal()
    with show_progress(terminal) as shown:
        shown("mixture a 1/2", "chaos")
        shown.note(["broken: [fencing]"])
    assert "broken: [fencing]" in terminal.getvalue()
    log = io.StringIO()
    with show_progress(log) as shown:
        shown.note(["broken"])
    assert not log.getvalue()


def test_a_terminal_that_is_gone_is_no_obstacle() -> None:
    def gone(*_: object) -> None:
        raise OSError("gone")

    shown = tolerant(Shown(gone, gone, gone))
    shown("where", "what")
    shown.say("line")
    shown.note(["line"])


def test_a_log_has_each_step_once() -> None:
    log = io.StringIO()
    with show_progress(log) as shown:
        for left in (3, 2, 1):
            shown("mixture a 1/2", f"chaos, {left} s left")
            if left > 1:
                shown("mixture a 1/2", "kill: injected")
        shown("mixture a 1/2", "healing")
        shown("mixture a 2/2", "chaos, 3 s left")
    assert [line.partition("] ")[2] for line in log.getvalue().splitlines()] == [
        "mixture a 1/2: chaos",
        "mixture a 1/2: kill: injected",
        "mixture a 1/2: healing",
        "mixture a 2/2: chaos",
    ]


@pytest.mark.parametrize(
    "what",
    [
        "ending: node-2 exit code 1, killed by SIGKILL, 3 s after it was told to stop",
        "not in runs.parquet ([Errno 28] No space left, 'store'): biplane index store",
    ],
)
def test_a_log_has_the_whole_of_what_is_no_counter(what: str) -> None:
    log = io.StringIO()
    with show_progress(log) as shown:
        shown("mixture a 1/2", "chaos, 3 s left, kill in place")
        shown("mixture a 1/2", what)
    told = [line.partition("] ")[2] for line in log.getvalue().splitlines()]
    assert told == ["mixture a 1/2: chaos", f"mixture a 1/2: {what}"]
