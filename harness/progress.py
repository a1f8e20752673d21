"""Progress on a terminal: one live line on a tty, one line a phase elsewhere (a CI's log)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Report = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Shown:
    """Where a run has got to (`report`: where, what), and lines that stay (`say`)."""

    report: Report
    say: Callable[[str], None]

    def __call__(self, where: str, what: str) -> None:
        self.report(where, what)


def tolerant(report: Report) -> Report:
    """The same, for those who have something to end: a terminal that is gone is no obstacle."""

    def tell(where: str, what: str) -> None:
        with suppress(OSError, ValueError):
            report(where, what)

    return tell


@contextmanager
def show_progress(stream: TextIO) -> Iterator[Shown]:
    """Yield a function (where, what). On a log, a step is printed once, counters left out."""
    if stream.isatty():
        with _live(stream) as shown:
            yield shown
    else:
        yield _lines(stream)


@contextmanager
def _live(stream: TextIO) -> Iterator[Shown]:
    console = Console(file=stream)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[where]}"),
        BarColumn(bar_width=12, pulse_style="cyan"),
        TextColumn("[bold]{task.fields[what]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("run", total=None, where="", what="")
        yield Shown(
            lambda where, what: progress.update(task, where=where, what=what),
            lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True),
        )


def _lines(stream: TextIO) -> Shown:
    begun = time.monotonic()
    last: tuple[str, str] = ("", "")

    def report(where: str, what: str) -> None:
        nonlocal last
        step = (where, what.split(",", maxsplit=1)[0])
        if step != last:
            last = step
            print(
                f"[{time.monotonic() - begun:6.1f} s] {where}: {step[1]}", file=stream, flush=True
            )

    return Shown(report, lambda line: print(line, file=stream, flush=True))
