"""What a run shows while it goes on: on a terminal a live line and a panel, on a CI's log one line
a phase; and lines that stay."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

Report = Callable[[str, str], None]
_COUNTED: Final = re.compile(r", \d+ s left\b.*", re.DOTALL)
"""What is told again and again with other figures, as "chaos, 3 s left, pause in place"."""


def _nowhere(_: Any) -> None:
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class Shown:
    """``report``: where a run has got to (where, what); ``say``: a line that stays; ``note``: what
    the panel shows from now on, nothing on a log."""

    report: Report
    say: Callable[[str], None] = _nowhere
    note: Callable[[Sequence[str]], None] = _nowhere

    def __call__(self, where: str, what: str) -> None:
        self.report(where, what)


def tolerant(report: Report) -> Shown:
    """The same, for those who have something to end: a terminal that is gone is no obstacle."""
    shown = report if isinstance(report, Shown) else Shown(report)

    def tell(where: str, what: str) -> None:
        with suppress(OSError, ValueError):
            shown.report(where, what)

    def say(line: str) -> None:
        with suppress(OSError, ValueError):
            shown.say(line)

    def note(lines: Sequence[str]) -> None:
        with suppress(OSError, ValueError):
            shown.note(lines)

    return Shown(tell, say, note)


@contextmanager
def show_progress(stream: TextIO) -> Iterator[Shown]:
    """Yield a function (where, what). On a log, a step is printed once, without what is left of it
    and what follows that."""
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
    progress = Progress(*columns, console=console)
    task = progress.add_task("run", total=None, where="", what="")
    noted: list[str] = []

    def screen() -> Group:
        text = Text("\n".join(noted), no_wrap=True, overflow="ellipsis")
        return Group(progress, *([Panel(text, title="live", title_align="left")] if noted else ()))

    with Live(console=console, transient=True, refresh_per_second=8, get_renderable=screen):
        yield Shown(
            lambda where, what: progress.update(task, where=where, what=what),
            lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True),
            lambda lines: noted.__setitem__(slice(None), list(lines)),
        )


def _lines(stream: TextIO) -> Shown:
    begun = time.monotonic()
    last: tuple[str, str] = ("", "")
    counted: tuple[str, str] = ("", "")

    def report(where: str, what: str) -> None:
        nonlocal last, counted
        step = (where, _COUNTED.sub("", what))
        if step[1] != what:
            if step == counted:
                return  # although something else was told meanwhile
            counted = step
        if step != last:
            last = step
            print(
                f"[{time.monotonic() - begun:6.1f} s] {where}: {step[1]}", file=stream, flush=True
            )

    return Shown(report, lambda line: print(line, file=stream, flush=True))
