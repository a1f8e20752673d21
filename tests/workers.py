"""How workers of pytest-xdist share the tests (`make test`, `make unit`): three on two cores, as
whoever starts clusters mostly waits for them.

What must not be divided is a *share*, played in order by one worker: all that starts clusters or
containers (two floods at once would measure each other), the promises' tests and all others that
need Spark (in each share one session, warm), and every other file (its fixtures are made once). The
large shares come first, as any worker has time; the files follow. All but the first step back for
clusters (`nice`): a broker that gets no time is no different from one that is broken.

A test's share goes to the scheduler with its id, and nowhere else: reports and ``--lf`` know tests
by their own names. Without xdist nothing of this has a say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

_CLUSTERS: Final = "clusters"
_SPARK: Final = "spark"
_PROMISES: Final = "spark: promises"
_NICE: Final = 5
_SLOW_MARKS: Final = ("zookeeper", "slow")
_MARK: Final = "@@"


def share(item: pytest.Item) -> str:
    if item.get_closest_marker("cluster") or item.get_closest_marker("docker"):
        return _CLUSTERS
    if item.get_closest_marker("spark"):
        return _PROMISES if "promises" in item.path.parts else _SPARK
    return item.nodeid.partition("::")[0]


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The same, share by share: what takes long first, so that nobody waits for it at the end."""
    shares: dict[str, list[pytest.Item]] = {_CLUSTERS: [], _PROMISES: [], _SPARK: []}
    for item in items:
        shares.setdefault(share(item), []).append(item)
    slow = [name for name, its in shares.items() if any(map(_is_slow, its))]
    names = [_CLUSTERS, _PROMISES, _SPARK, *slow, *shares]
    return [item for name in dict.fromkeys(names) for item in shares[name]]


def _is_slow(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(mark) for mark in _SLOW_MARKS)


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Whoever is not at clusters leaves them the cores, from its first test on."""
    if is_worker(item.config) and share(item) != _CLUSTERS:
        os.nice(max(0, _NICE - os.nice(0)))


@dataclass(frozen=True, slots=True)
class _Shared:
    nodeid: str


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> Iterator[None]:
    """xdist tells its scheduler of the ids here, and takes nothing else of the items."""
    items = session.items
    if is_worker(session.config):
        told: Any = [_Shared(f"{item.nodeid}{_MARK}{share(item)}") for item in items]
        session.items = told
    try:
        return (yield)
    finally:
        session.items = items


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByShare(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.rpartition(_MARK)[2]

    config.option.loadscopereorder = False  # see `in_order`
    return ByShare(config, log)
