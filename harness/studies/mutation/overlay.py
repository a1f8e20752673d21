"""A copy of the broker's package with one change in it, to be run instead of the real one.

    <folder>/nodes/...           the package, one file of it mutated (`lay`), or none of them but
                                 every place watched where it could be (`lay_watched`)
    <folder>/nodes/_mutation.py  what such places report to
    <folder>/told                what brokers of it reported, one line each

Brokers take their sources from the folder that ``BIPLANE_NODES`` names (`harness.sut.dualplane`).
"""

from __future__ import annotations

import compileall
import hashlib
import importlib.util
import os
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from harness.studies.mutation.operators import Site, mutate, sites, watch
from harness.studies.mutation.purity import pure_names

SOURCES: Final = "BIPLANE_NODES"
ROOMS: Final = tuple(
    f"nodes/{room}"
    for room in ("core", "replication", "controller", "log", "groups", "coordination", "api")
)
"""What a broker decides and keeps. Left out: the protocol and the network, in which most changes
make a broker that cannot be started or talked to."""
_REPORTS: Final = '''"""Where mutated and watched places tell that they were reached.

    reached, differed              of the one change that this package has
    reached NAME, differed NAME    of a watched place
"""

import os
import pathlib

_FILE = os.open(
    pathlib.Path(__file__).parent.parent / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
)
_told = set()
_done = set()


def _tell(line):
    if line not in _told:
        _told.add(line)
        os.write(_FILE, (line + "\\n").encode())


def _differ(kind, old, new):
    if kind == "truth":
        return bool(old) != bool(new)
    return old is not new and bool(old != new)


def reached(value=None):
    _tell("reached")
    return value


def differs(kind, old, later):
    _tell("reached")
    try:
        new = later()
    except BaseException:
        _tell("differed")
        raise
    if _differ(kind, old, new):
        _tell("differed")
    return new


def _is_written(before, after):
    try:
        return _differ("value", before(), after())
    except Exception:
        return True


def unwritten(before, after):
    _tell("reached")
    if before is not None and _is_written(before, after):
        _tell("differed")


def passed(name, before, after):
    if name in _done:
        return
    _tell("reached " + name)
    if before is None:
        _done.add(name)
    elif _is_written(before, after):
        _tell("differed " + name)
        _done.add(name)


def watched(key, old, others):
    if key in _done:
        return old
    waiting = False
    for name, kind, later in others():
        _tell("reached " + name)
        if later is None or "differed " + name in _told:
            continue
        try:
            differ = _differ(kind, old, later())
        except Exception:
            differ = True
        if differ:
            _tell("differed " + name)
        else:
            waiting = True
    if not waiting:
        _done.add(key)
    return old
'''


@dataclass(frozen=True, slots=True)
class Generated:
    """One generated mutant. ``path`` is below the source root, as nodes/core/isr.py."""

    path: str
    site: Site

    @property
    def name(self) -> str:
        file = self.path.removeprefix("nodes/").removesuffix(".py")
        return f"{file}:{self.site.mark}"

    @property
    def says(self) -> str:
        return f"{self.path}:{self.site.line}: {self.site.says}"

    @property
    def room(self) -> str:
        return str(Path(self.path).parent)


def source_root() -> Path:
    """Where the real package lies."""
    spec = importlib.util.find_spec("nodes")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package 'nodes' is not installed; run: make setup")
    return Path(spec.origin).resolve().parent.parent


def everything(root: Path, rooms: Sequence[str] = ROOMS) -> Iterator[Generated]:
    """Every mutant that the rooms have, in a fixed order."""
    for path in _files(root, rooms):
        for site in _sites((root / path).read_text(), _known(root)):
            yield Generated(path, site)


@cache
def _sites(text: str, known: frozenset[str]) -> tuple[Site, ...]:
    """A study asks for them over and over; all rooms take seconds."""
    return tuple(sites(text, known))


def _files(root: Path, rooms: Sequence[str]) -> Iterator[str]:
    for room in rooms:
        yield from (str(file.relative_to(root)) for file in sorted((root / room).glob("*.py")))


def _known(root: Path) -> frozenset[str]:
    return pure_names(root / "nodes")


def digest(root: Path, rooms: Sequence[str] = ROOMS) -> str:
    """Changes with any source that mutants are drawn from, and with what draws them."""
    tools = (Path(__file__).parent / name for name in ("operators.py", "overlay.py", "purity.py"))
    texts = b"".join(
        path.read_bytes() for path in (*tools, *(root / p for p in _files(root, rooms)))
    )
    return hashlib.sha256(texts).hexdigest()[:12]


def draw(root: Path, seed: int, count: int, rooms: Sequence[str] = ROOMS) -> list[Generated]:
    """``count`` of them by seed, spread over rooms and operators: a file with many comparisons does
    not crowd out the others."""
    rng = random.Random(f"mutants:{seed}")
    shelves: dict[tuple[str, str], list[Generated]] = {}
    for one in everything(root, rooms):
        shelves.setdefault((one.room, one.site.operator), []).append(one)
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
        for site in sites((root / path).read_text(), _known(root)):
            if Generated(path, site).name == name:
                return Generated(path, site)
    raise KeyError(f"no mutant {name!r}: its file has no such site")


def lay(root: Path, one: Generated, folder: Path) -> Path:
    """Make the overlay of one mutant in ``folder`` (made anew)."""
    _copy(root, folder)
    target = folder / one.path
    known = _known(root)
    target.write_text(mutate(target.read_text(), one.site.operator, one.site.number, known))
    return _compiled(folder)


def lay_watched(root: Path, folder: Path, rooms: Sequence[str] = ROOMS) -> Path:
    """Make a package in ``folder`` that does what the real one does and watches every place."""
    _copy(root, folder)
    for path in _files(root, rooms):
        source = (root / path).read_text()
        (folder / path).write_text(
            watch(source, lambda site, path=path: Generated(path, site).name, _known(root))  # type: ignore[misc]
        )
    return _compiled(folder)


def _copy(root: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "nodes", folder / "nodes")  # with what is compiled, and times kept
    (folder / "nodes" / "_mutation.py").write_text(_REPORTS)


def _compiled(folder: Path) -> Path:
    """Compile what changed, once: three brokers that start together would each do it."""
    compileall.compile_dir(folder / "nodes", quiet=2)
    return folder


@contextmanager
def sources(folder: Path) -> Iterator[None]:
    """Brokers take their sources from there meanwhile."""
    before = os.environ.get(SOURCES)
    os.environ[SOURCES] = str(folder)
    try:
        yield
    finally:
        os.environ.pop(SOURCES, None)
        if before is not None:
            os.environ[SOURCES] = before


def told(folder: Path) -> frozenset[str]:
    """What brokers of that overlay reported: ``reached``, ``differed``, and both with names."""
    path = folder / "told"
    return frozenset(path.read_text().splitlines()) if path.exists() else frozenset()
