"""What several commands ask for in the same words, checked before anything is begun: a study of two
hours must not find out at its end that its page cannot be written. Part of `harness.cli`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final

import typer


def _room(path: Path | None, *, folder: bool) -> Path | None:
    """Tried, and nothing is left of it: what is there may be read-only, full, of another sort."""
    from checkers.history.store import try_writing

    if path is None:
        return None
    at = path.absolute()
    while not at.exists():
        at = at.parent
    try:
        if folder or at != path.absolute():
            try_writing(at)
        else:
            at.open("ab").close()
    except OSError as error:
        what = "folder" if folder else "file"
        raise typer.BadParameter(
            f"{path}: {error.strerror}; allowed: a {what} that can be written"
        ) from None
    return path


def _file(path: Path | None) -> Path | None:
    found = _room(path, folder=False)
    if found is not None:
        found.absolute().parent.mkdir(parents=True, exist_ok=True)
    return found


def _folder(path: Path | None) -> Path | None:
    return _room(path, folder=True)


def out_file(help: str, *names: str) -> Any:
    """An option that names a file to be written."""
    return typer.Option(*names, help=help, callback=_file)


def out_folder(help: str) -> Any:
    """An argument that names a folder to be made, or to be written into."""
    return typer.Argument(help=help, callback=_folder)


RUN: Final = "A run's folder: `store/<scenario>/<run id>`"
Run = Annotated[Path, typer.Argument(help=RUN)]
WrittenRun = Annotated[Path, out_folder(RUN)]


def room(help: str) -> Any:
    """An option that names such a folder."""
    return typer.Option(help=help, callback=_folder)


Store = Annotated[Path, room("Where runs and ledgers are kept")]


def seconds(text: str | None, option: str) -> float | None:
    """A span of time such as 90s, 30m, 12h or 7d; plain numbers are seconds."""
    from harness.studies.ledger import seconds_of

    try:
        return None if text is None else seconds_of(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from None


def budget(text: str) -> Any:
    """A `Budget` that begins now; one of 0 is spent."""
    from harness.studies.ledger import Budget

    whole_s = 0.0 if text == "0" else seconds(text, "--budget")
    assert whole_s is not None, "a budget has a default"
    return Budget(whole_s)


def pairs(given: list[str], option: str) -> dict[str, str]:
    """``name=value`` arguments."""
    found: dict[str, str] = {}
    for pair in given:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise typer.BadParameter(f"{option} {pair!r}; allowed: name=value")
        if found.setdefault(name, value) != value:
            raise typer.BadParameter(f"{option} {name} is given twice; allowed: one value")
    return found


_THOUSANDS: Final = {"k": 1_000, "M": 1_000_000}


def rows_of(text: str) -> int:
    """A number of rows such as 500, 20k or 10M."""
    factor = _THOUSANDS.get(text[-1:], 1)
    number = text[:-1] if factor > 1 else text
    try:
        rows = float(number) * factor
    except ValueError:
        rows = 0.0
    if not 0.5 < rows < math.inf:
        raise typer.BadParameter(f"--rows {text!r}; allowed: a number, k or M behind it")
    return round(rows)


def _completed(known: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What a shell offers for a word that is begun: of several by comma the last is completed."""

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in known() if name.startswith(begun)]

    return complete


def _scenarios() -> Iterable[str]:
    from harness.scenarios import SCENARIOS

    return SCENARIOS


def _profiles() -> Iterable[str]:
    from harness.settings import PROFILES

    return PROFILES


def _planes() -> Iterable[str]:
    from harness.sut.protocol import Planes

    return [str(mode) for mode in Planes]


def _systems() -> Iterable[str]:
    from harness.sut.registry import EXTERNAL, FILE, SYSTEMS

    return (*SYSTEMS, FILE, EXTERNAL)


def _mutants() -> Iterable[str]:
    from nodes.mutants import MUTANTS

    return MUTANTS


SCENARIO_NAMES: Final = _completed(_scenarios)
PROFILE_NAMES: Final = _completed(_profiles)
PLANE_NAMES: Final = _completed(_planes)
SYSTEM_NAMES: Final = _completed(_systems)
MUTANT_NAMES: Final = _completed(_mutants)


def scenarios(names: list[str] | None) -> list[str]:
    """Known ones; none where none is named."""
    from harness.scenarios import SCENARIOS

    for name in names or []:
        if name not in SCENARIOS:
            raise typer.BadParameter(f"{name!r}; allowed: {', '.join(SCENARIOS)}")
    return names or []


def among(option: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuses what is not allowed, and names what is."""
    every = list(allowed)
    for name in given:
        if name not in every:
            raise typer.BadParameter(f"{option} {name!r}; allowed: {', '.join(every)}")
