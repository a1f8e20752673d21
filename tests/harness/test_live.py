"""The process beside a run: it is ended whatever it does, and what it says is told once."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from checkers.live import LIVE_FILE
from harness import live
from harness.live import in_words, panel, read, unconfirmed, watched
from harness.progress import Shown

FINDING = {
    "what": "finding", "promise": "truncation-loss", "rule": "acked-skipped", "arm": "a",
    "trial": 0, "says": "it is gone", "t": 1, "lag_ms": 2400,
}  # fmt: skip
CONTROL = {"count": 5, "p50_ms": 1.0, "p99_ms": 8.0, "max_ms": 9.0}
FIGURES = {
    "what": "figures", "t": 2, "looks": 3, "took_s": 0.2, "cpu_s": 7.0, "rows": 10,
    "arms": {"a": {"control": CONTROL}},
}  # fmt: skip
ENDED = {"what": "ended", "looks": 3, "cpu_s": 7.0, "left_out": {"lines": 2, "offsets": 0}}


def write(folder: Path, *entries: Any) -> None:
    data = b"".join(orjson.dumps(entry) + b"\n" for entry in entries)
    (folder / LIVE_FILE).write_bytes(data)


class Program:
    """Stands in for Python: what the watch is run by."""

    def __init__(self, folder: Path, body: str) -> None:
        self.path = folder / "program"
        self.path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
        self.path.chmod(0o755)


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have a run watched by a program; answers what was said and noted."""

    def watch(
        body: str, block: Any = None, begin_s: float = 0.1
    ) -> tuple[list[str], list[list[str]]]:
        said: list[str] = []
        noted: list[list[str]] = []
        program = Program(tmp_path, body)
        monkeypatch.setattr(live, "sys", SimpleNamespace(executable=str(program.path)))
        monkeypatch.setattr(live, "_BEGIN_S", begin_s)
        shown = Shown(lambda *_: None, said.append, lambda lines: noted.append(list(lines)))
        with watched(tmp_path, shown):
            if block is not None:
                block(said)
        return said, noted

    return watch


_BEGAN = '{"what": "began"}\n'
_SAYS = f"""
import json
with open(os.path.join(sys.argv[3], {LIVE_FILE!r}), "a") as out:
    for entry in {[FINDING, FIGURES]!r}:
        out.write(json.dumps(entry) + "\\n")
    out.flush()
    sys.stdin.read()
    out.write(json.dumps({ENDED!r}) + "\\n")
"""


def test_what_it_finds_is_told_once_and_it_ends_with_the_run(watch: Any) -> None:
    said, noted = watch(_SAYS, lambda said: _until(lambda: said))
    assert [line.split(": ")[1] for line in said] == [
        "truncation-loss",
        "3 looks, 7 CPU-s; not looked at",
    ]
    assert said[0].endswith("it is gone (a, trial 0; told 2.4 s after it)")
    assert noted[-1] == []


def test_the_run_begins_when_it_is_ready(watch: Any, tmp_path: Path) -> None:
    body = f"time.sleep(0.3)\nopen({str(tmp_path / LIVE_FILE)!r}, 'w').write({_BEGAN!r})"
    there: list[Any] = []
    watch(f"{body}\nsys.stdin.read()", lambda _: there.extend(read(tmp_path)), 30.0)
    assert there == [{"what": "began"}]


def test_one_that_fails_is_named_and_fails_nothing(watch: Any, tmp_path: Path) -> None:
    said, _ = watch("print('no java', file=sys.stderr); sys.exit(3)")
    assert said == [f"live: the watch ended with 3: {tmp_path / 'live.log'}"]
    assert "no java" in (tmp_path / "live.log").read_text()


def test_one_that_does_not_end_is_ended(
    watch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_END_S", 0.2)
    pid = tmp_path / "pid"
    body = f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(999)"
    said, _ = watch(body, lambda _: _until(lambda: pid.exists() and pid.read_text()))
    assert said[0].startswith("live: the watch ended with -9")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_it_ends_when_the_run_is_interrupted(watch: Any) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch("sys.stdin.read()", interrupted)


def _until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    assert read(tmp_path) == []
    write(tmp_path, FINDING)
    with (tmp_path / LIVE_FILE).open("ab") as file:
        file.write(b'{"what": "fig')
    assert read(tmp_path) == [FINDING]


def test_a_panel_has_figures_and_what_is_broken() -> None:
    assert panel([]) == ["nothing yet"]
    assert panel([FIGURES, FINDING, FINDING]) == [
        "a: control latency p99 8\N{NO-BREAK SPACE}ms of 5, in the last half minute",
        "broken: truncation-loss: acked-skipped",
    ]
    assert in_words(FIGURES) is None


@pytest.mark.parametrize(
    ("rule", "confirmed"),
    [
        ("acked-all-lost", True),
        ("poll-skipped", True),
        ("inconsistent-offset", False),
        (None, False),
    ],
)
def test_what_judging_does_not_come_to_is_named(
    rule: str | None, confirmed: bool, tmp_path: Path
) -> None:
    write(tmp_path, FINDING, FIGURES)
    counts = {rule: 3} if rule else {}
    results = {"checks": {"some": {"violation_counts": counts}, "other": {}}}
    lines = unconfirmed(tmp_path, results)
    assert lines == ([] if confirmed else ["live: not confirmed by the whole history: it is gone"])
