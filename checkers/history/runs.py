"""Which runs lie below a place: a run's own folder, a scenario's, or a whole store.

store/<scenario>/<run id>/run.json      a run id begins with its local time: 20260102T030405-7
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checkers.history.schema import HistoryError
from checkers.history.store import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEEPEST: Final = 3
_STAMP: Final = "%Y%m%dT%H%M%S"


def runs_at(
    where: str, spark: SparkSession | None = None, *, since_s: float | None = None
) -> list[str]:
    """The runs at or below ``where``, in order of their names. ``since_s``: only such as began at
    that Unix time or later (by their id; one that tells no time is in).

    A place without any run is a `HistoryError`, one whose runs are all older is none.
    """
    store = open_store(where, spark)
    if store.exists("run.json") or store.exists("history"):
        return [where]
    found = list(_below(store, "", _DEEPEST))
    if not found:
        raise HistoryError(f"{where}: there is no run in it; allowed: a run's folder or a store")
    base = where.rstrip("/")
    return [
        f"{base}/{path}" for path in sorted(found) if since_s is None or _begun(path) >= since_s
    ]


def _below(store: Store, path: str, depth: int) -> Iterator[str]:
    for name in store.names(path):
        below = f"{path}/{name}" if path else name
        if name[0] in "_." or not depth:
            continue
        if store.exists(f"{below}/run.json") or store.exists(f"{below}/history"):
            yield below
        else:
            yield from _below(store, below, depth - 1)


def _begun(path: str) -> float:
    """When a run began, as its id says; infinity where it does not."""
    try:
        return time.mktime(time.strptime(path.rpartition("/")[2].partition("-")[0], _STAMP))
    except ValueError:
        return float("inf")
