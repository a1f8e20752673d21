"""Thrown out: a member of a group that polls is told that it is none any more, for
`checkers.promises.groups`.

A member's heartbeats keep its session alive for as long as it polls (KIP-62); only who says nothing
for ``session.timeout.ms`` is removed. Once every fault is healed, and brokers have had their time
(`checkers.facts.calm`), nothing keeps heartbeats from arriving: then nobody loses its partitions so
(the event ``lost``), and all that a rebalance takes from it is revoked in order; and no commit of
its is refused because it were none, or of another generation, though nobody of its group was given
or lost anything for `AROUND_NS`.

Lawful, and looks similar: a coordinator that is away for longer than a session, or forgets its
members as it goes; a member that was stopped itself, or polls too seldom, which the time between
its own polls shows.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "thrown-out"
STAYED: Final = "members of groups once all was calm"
POLLS_NS: Final = 1_500_000_000
"""Who lets so much pass between two polls may not have run."""
AROUND_NS: Final = 5_000_000_000
"""A member that was given its partitions before that is of the present generation."""
_DENIED: Final = (22, 25, 82)
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
_SPANS: Final = "arm string, trial int, process string, _from bigint, _to bigint"


def thrown_out(history: History, outcome: Outcome) -> Iterator[Finding]:
    since = {
        trial: of.healed_t + of.needed_ns for trial, of in calm(history).items() if of.healed_t
    }
    last: dict[tuple[str, int, str], int] = {}
    moves: dict[tuple[str, int, str], list[int]] = {}
    for row in history.rows("assignment"):
        who = (row["arm"], row["trial"], row["process"])
        last[who] = max(row["t"], last.get(who, 0))
        insort(moves.setdefault((*who[:2], row["group"]), []), row["t"])
    spans = [
        {"arm": arm, "trial": trial, "process": process, "_from": since[arm, trial], "_to": last_t}
        for (arm, trial, process), last_t in last.items()
        if (arm, trial) in since
    ]
    if not spans or not history.has("fetch"):
        return
    by = ["arm", "trial", "process"]
    polls = history.frame("fetch").join(F.broadcast(history.table(spans, _SPANS)), by)
    polls = (
        polls.where("t >= _from")
        .groupBy(*by)
        .agg(F.count("*").alias("n"), F.max(F.col("t") - F.col("invoke_t")).alias("longest"))
    )
    alive = {
        (row["arm"], row["trial"], row["process"])
        for row in polls.where(f"longest < {POLLS_NS}").toArrow().to_pylist()
    }
    for arm, trial, _ in sorted(alive):
        outcome.saw(arm, trial, STAYED)
    told: set[tuple[str, int, str]] = set()
    for row in history.rows("assignment"):
        who = (row["arm"], row["trial"], row["process"])
        late = row["t"] >= since.get(who[:2], row["t"] + 1)
        if row["event"] != "lost" or not late or who not in alive or who in told:
            continue
        told.add(who)
        yield Finding(
            RULE,
            f"{who[2]} was told that it is no member of group {row['group']} any more, and lost "
            f"{row['topic']}-{row['partition']}, though it polled, and all faults were healed "
            f"{(row['t'] - since[who[:2]]) / 1e9:.1f} s before, and more",
            *who[:2],
            (
                Pick(
                    "assignment",
                    {"process": who[2], "group": row["group"]},
                    to_t=row["t"],
                    last=True,
                ),
                Pick("fetch", {"process": who[2]}, to_t=row["t"], last=True, rows=1),
            ),
        )
    refused = history.frame("commit").where(F.col("error").isin(*_DENIED))
    refused = refused.join(F.broadcast(history.table(spans, _SPANS)), by)
    refused = refused.where("invoke_t > _from and t < _to")
    for row in refused.orderBy(*by, "t").toArrow().to_pylist():
        who = (row["arm"], row["trial"], row["process"])
        moved = moves.get((*who[:2], row["group"]), [])
        still = bisect_left(moved, row["invoke_t"] - AROUND_NS) == bisect_left(moved, row["t"])
        if who in alive and who not in told and still:
            told.add(who)
            yield _refused(row)


def _refused(row: Mapping[str, Any]) -> Finding:
    own = {"process": row["process"], "group": row["group"]}
    return Finding(
        RULE,
        f"{row['process']} was refused a commit with error {row['error']}, as if it were no member "
        f"of group {row['group']}, or of another generation; all was calm, and it had polled, and "
        "kept what it had been given",
        row["arm"],
        row["trial"],
        (
            Pick("assignment", own, to_t=row["t"], last=True, rows=1),
            Pick("commit", {**own, "t": row["t"]}, rows=1),
        ),
    )
