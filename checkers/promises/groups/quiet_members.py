"""Members of groups that tell of only a part of what they do, for `checkers.promises.groups`.

A member is given partitions, is given their records, and commits how far it came. One that was
given records all along, and tells of no partition that it was given, or of no commit that it tried,
kept that to itself, or it was lost: where its group would go on nobody can say of its records.

Of clients that were launched as members. Who was given too little to come to a commit is not asked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from checkers.history.frames import History

ENOUGH: Final = 50
"""Records: a member commits more often than that."""
_MEMBER: Final = "group-consumer"


def quiet_members(history: History) -> Iterator[tuple[str, int, str]]:
    """Arm, trial and why."""
    members = [
        {"arm": arm, "trial": trial, "process": one.process}
        for (arm, trial), workloads in history.run.workloads.items()
        for one in workloads
        if one.role == _MEMBER
    ]
    if not members:
        return
    names = ("arm", "trial", "process")
    told = {"fetch": "offset is not null and type = 'ok'", "commit": "true", "assignment": "true"}
    frames = [
        history.frame(kind).where(condition).select(*names, F.lit(kind).alias("kind"))
        for kind, condition in told.items()
    ]
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    table = history.table(members, "arm string, trial int, process string")
    counts = (F.count(F.when(F.col("kind") == kind, 1)).alias(kind) for kind in told)
    sums = rows.join(F.broadcast(table), [*names]).groupBy(*names).agg(*counts)
    for row in sums.where(f"fetch >= {ENOUGH}").orderBy(*names).toArrow().to_pylist():
        for kind, what in (("commit", "commit"), ("assignment", "partition that it was given")):
            if not row[kind]:
                says = f"{row['process']} was given {row['fetch']} records, and tells of no {what}"
                yield row["arm"], row["trial"], says
