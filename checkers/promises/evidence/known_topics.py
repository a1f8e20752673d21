"""Rows about a partition that nobody ever made: nobody could write to it, ask for it, or lead it.

ZooKeeper's own log, where it is read from the cluster's beginning, has every partition that there
was. A row that names another names one wrongly; whatever is judged by partition passes it over.

Lawful, and similar: what is asked of a topic before it is made, or when it is gone; a topic that a
broker does not know (a row without a partition); what forgers name.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from checkers.facts.unions import named
from checkers.history import KINDS

if TYPE_CHECKING:
    from checkers.history.frames import History

Trial = tuple[str, int]
_TP: Final = ("topic", "partition")
_BESIDES: Final = frozenset({"forged", "zk_write", "log_read"})
"""Kinds that are not looked at; what logs have of another partition is held against who wrote it
(`checkers.promises.records`)."""


def unmade(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: how many rows of which kind."""
    made: dict[Trial, set[tuple[str, int]]] = {}
    whole: set[Trial] = set()
    for row in history.rows("zk_write"):
        key = (row["arm"], row["trial"])
        if (row["what"], row["step"]) == ("controller_epoch", "created"):
            whole.add(key)
        if row["topic"] is not None and row["partition"] is not None:
            made.setdefault(key, set()).add((row["topic"], row["partition"]))
    known = {key for key in whole if made.get(key)}
    kinds = [k for k, of in KINDS.items() if set(_TP) <= of.columns.keys() and k not in _BESIDES]
    frames = [
        history.frame(kind)
        .where("topic is not null and partition is not null")
        .select("arm", "trial", named(kind), *_TP)
        for kind in kinds
        if history.has(kind)
    ]
    if not frames or not known:
        return []
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    counts: dict[tuple[Trial, str], int] = {}
    for row in rows.groupBy("arm", "trial", "kind", *_TP).count().toArrow().to_pylist():
        key = (row["arm"], row["trial"])
        if key in known and (row["topic"], row["partition"]) not in made[key]:
            one = (key, row["kind"])
            counts[one] = counts.get(one, 0) + row["count"]
    return [
        (key, f"{kind}: there are {n} rows of partitions that by ZooKeeper's log nobody made")
        for (key, kind), n in sorted(counts.items())
    ]
