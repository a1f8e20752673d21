"""A copy of the broker's package with one change in it, to be run instead of the real one.

    <folder>/nodes/...           the package, one file of it mutated
    <folder>/nodes/_mutation.py  what the mutated place reports to
    <folder>/reached, differed   made by a broker that came by, and that saw a difference

Brokers take their sources from the folder that ``BIPLANE_NODES`` names (`harness.sut.dualplane`).
"""

from __future__ import annotations

import importlib.util
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.studies.mutation.operators import Site, mutate, sites

ROOMS: Final = ("nodes/core", "nodes/replication", "nodes/controller", "nodes/log")
_REPORTS: Final = '''"""Where a mutated place tells that it was reached, and made a difference."""

import pathlib

_FOLDER = pathlib.Path(__file__).parent.parent
_told = set()


def _tell(what):
    if what not in _told:
        _told.add(what)
        (_FOLDER / what).touch()


def reached(value=None):
    _tell("reached")
    return value


def differs(old, new):
    _tell("reached")
    if bool(old) != bool(new):
        _tell("differed")
    return new
'''


@dataclass(frozen=True, slots=True)
class Generated:
    """One generated mutant. ``path`` is below the source root, as nodes/core/isr.py."""

    path: str
    site: Site

    @property
    def name(self) -> str:
        file = self.path.removeprefix("nodes/").removesuffix(".py")
        return f"{file}:{self.site.operator}:{self.site.number}"

    @property
    def says(self) -> str:
        return f"{self.path}:{self.site.line}: {self.site.says}"

    @property
    def is_effect(self) -> bool:
        """Whether being reached is all that can be told of it: an effect was left out or moved."""
        return self.site.operator in ("call-omitted", "write-omitted", "exchanged")


def source_root() -> Path:
    """Where the real package lies."""
    spec = importlib.util.find_spec("nodes")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package 'nodes' is not installed; run: make setup")
    return Path(spec.origin).resolve().parent.parent


def everything(root: Path, rooms: Sequence[str] = ROOMS) -> Iterator[Generated]:
    """Every mutant that the rooms have, in a fixed order."""
    for room in rooms:
        for file in sorted((root / room).glob("*.py")):
            path = str(file.relative_to(root))
            for site in sites(file.read_text()):
                yield Generated(path, site)


def draw(root: Path, seed: int, count: int, rooms: Sequence[str] = ROOMS) -> list[Generated]:
    """``count`` of them by seed, spread over rooms and operators: a file with many comparisons does
    not crowd out the others."""
    rng = random.Random(f"mutants:{seed}")
    shelves: dict[tuple[str, str], list[Generated]] = {}
    for one in everything(root, rooms):
        shelves.setdefault((str(Path(one.path).parent), one.site.operator), []).append(one)
    for shelf in shelves.values():
        rng.shuffle(shelf)
    order = sorted(shelves)
    rng.shuffle(order)
    drawn: list[Generated] = []
    while order and len(drawn) < count:
        for key in list(order):
            if len(drawn) < count:
                drawn.append(shelves[key].pop())
            if not shelves[key]:
                order.remove(key)
    return drawn


def find(root: Path, name: str) -> Generated:
    """The mutant of that name; KeyError when there is none (its file may have changed)."""
    path = f"nodes/{name.partition(':')[0]}.py"
    if (root / path).is_file():
        for site in sites((root / path).read_text()):
            if Generated(path, site).name == name:
                return Generated(path, site)
    raise KeyError(f"no mutant {name!r}: its file has no such site")


def lay(root: Path, one: Generated, folder: Path) -> Path:
    """Make the overlay of one mutant in ``folder`` (made anew)."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "nodes", folder / "nodes", ignore=shutil.ignore_patterns("__pycache__"))
    target = folder / one.path
    target.write_text(mutate(target.read_text(), one.site.operator, one.site.number))
    (folder / "nodes" / "_mutation.py").write_text(_REPORTS)
    return folder


def was(folder: Path, what: str) -> bool:
    """Whether a broker of that overlay reported ``reached`` or ``differed``."""
    return (folder / what).exists()
