"""Never given: members of groups poll, and no member is ever given a partition, for
`checkers.promises.groups`.

Who polls joins its group again and again (KIP-62), and a coordinator that answers gives the members
that it has the partitions there are. Once every fault is healed, and brokers have had their time
(`checkers.facts.calm`), nothing keeps them from it: where a member of a group then polls for
`POLLED_NS`, and no member of that group was given anything at any time, nobody coordinates it.
Where nobody says to which group a member belongs, all of a trial count as one.

Where any member was given anything, others are judged by what they were given (`polls`, `groups`):
a group may have more members than partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "group-never-formed"
POLLED_NS: Final = 2_000_000_000
_MEMBERS: Final = "arm string, trial int, process string, _group string, _since bigint"


def never_given(history: History) -> Iterator[Finding]:
    given = {(row["arm"], row["trial"], row["group"]) for row in history.rows("assignment")}
    given |= {(arm, trial, None) for arm, trial, _ in given}
    members = [
        {
            **{"arm": trial[0], "trial": trial[1], "process": one.process, "_group": one.group},
            "_since": of.healed_t + of.needed_ns,
        }
        for trial, of in calm(history).items()
        for one in history.run.workloads.get(trial, ())
        if one.role == "group-consumer" and (*trial, one.group) not in given
    ]
    if not members or not history.has("fetch"):
        return
    by = ["arm", "trial", "process"]
    polls = history.frame("fetch").join(F.broadcast(history.table(members, _MEMBERS)), by)
    spans = polls.where("invoke_t >= _since").groupBy(*by, "_group")
    found = spans.agg(F.count("*").alias("n"), F.max(F.col("t") - F.col("_since")).alias("lasted"))
    told: set[tuple[str, int, str | None]] = set()
    for row in found.where(f"lasted >= {POLLED_NS}").orderBy(*by).toArrow().to_pylist():
        trial = row["arm"], row["trial"]
        if (*trial, row["_group"]) in told:
            continue
        told.add((*trial, row["_group"]))
        of = "a group" if row["_group"] is None else f"group {row['_group']}"
        yield Finding(
            RULE,
            f"no member of {of} was ever given a partition, though {row['process']} polled "
            f"{row['n']} times, until {row['lasted'] / 1e9:.1f} s after brokers had had their time",
            *trial,
            (
                Pick("fault", {"phase": "healed"}, rows=1, last=True),
                Pick("fetch", {"process": row["process"]}, rows=2, last=True),
            ),
        )
