"""Kept out: all members of a group have given up what they had, and nobody is given anything, for
`checkers.promises.groups`.

A member gives up its partitions to join anew (eager rebalancing), and the coordinator waits with
its answer for those members only that have not joined yet, no longer than for their sessions
(GroupCoordinator.onCompleteJoin). Once every fault is healed, and brokers have had their time
(`checkers.facts.calm`), and each member has given up and polls on, none is left to be waited for:
the next assignment takes milliseconds.

- ``kept-out``: `WAIT_NS` after the last of them gave up nobody has been given anything.

Lawful, and looks similar: the last to give up did so as the load ended, and polls no more; one that
had gone without a word is waited for until its session is over; who polls too seldom comes back
when it polls. So only where each that was ever given something polls all the while, or has not
polled for `GONE_NS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.thrown_out import POLLS_NS

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "kept-out"
ANEW: Final = "groups that gave up everything, once all was calm"
WAIT_NS: Final = 2_500_000_000
"""What takes milliseconds, and on a busy machine a second."""
GONE_NS: Final = 10_000_000_000
"""Longer than any session of a member that goes without a word."""
_SPANS: Final = "arm string, trial int, process string, _number int, _from bigint"


@dataclass(frozen=True, slots=True)
class _Bare:
    """From `from_t` (ns) on none of ``members`` had anything; ``to_t``: until one was given some,
    None: never again."""

    trial: tuple[str, int]
    group: str
    members: frozenset[str]
    from_t: int
    to_t: int | None

    @property
    def is_short(self) -> bool:
        return self.to_t is not None and self.to_t - self.from_t < WAIT_NS


def kept_out(history: History, outcome: Outcome) -> Iterator[Finding]:
    since = {
        trial: of.healed_t + of.needed_ns for trial, of in calm(history).items() if of.healed_t
    }
    long: list[_Bare] = []
    for one in _bare(history):
        if one.from_t < since.get(one.trial, one.from_t + 1):
            continue
        if one.is_short:
            outcome.saw(*one.trial, ANEW)
        else:
            long.append(one)
    if not long or not history.has("fetch"):
        return
    polls = _polls(history, long)
    for number, one in enumerate(long):
        known = [polls.get((number, process)) for process in sorted(one.members)]
        here = [p for p in known if p is not None and _polled_on(p, one)]
        gone = [p for p in known if p is not None and _was_gone(p, one)]
        if len(here) < 2 or len(here) + len(gone) < len(known):
            continue
        outcome.saw(*one.trial, ANEW)
        yield _finding(one)


def _bare(history: History) -> Iterator[_Bare]:
    by_group: dict[tuple[str, int, str], list[Any]] = {}
    for row in sorted(history.rows("assignment"), key=lambda r: r["t"]):
        by_group.setdefault((row["arm"], row["trial"], row["group"]), []).append(row)
    for (arm, trial, group), rows in by_group.items():
        holders: set[str] = set()
        members = frozenset(row["process"] for row in rows)
        from_t: int | None = None
        for row in rows:
            if row["event"] == "assigned":
                holders.add(row["process"])
                if from_t is not None:
                    yield _Bare((arm, trial), group, members, from_t, row["t"])
                from_t = None
            else:
                holders.discard(row["process"])
                from_t = from_t if holders else row["t"]
        if from_t is not None:
            yield _Bare((arm, trial), group, members, from_t, None)


def _polls(history: History, bare: list[_Bare]) -> dict[tuple[int, str], Any]:
    """By the number of a span and member: when it last polled before (``before``) and in the end
    (``after``), and the longest that it took for a poll meanwhile (ns)."""
    rows = [
        {"arm": one.trial[0], "trial": one.trial[1], "process": process}
        | {"_number": number, "_from": one.from_t}
        for number, one in enumerate(bare)
        for process in one.members
    ]
    spans = F.broadcast(history.table(rows, _SPANS))
    polls = history.frame("fetch").join(spans, ["arm", "trial", "process"])
    meanwhile = (F.col("t") > F.col("_from")) & (F.col("invoke_t") < F.col("_from") + WAIT_NS)
    found = polls.groupBy("_number", "process").agg(
        F.max(F.when(F.col("t") <= F.col("_from"), F.col("t"))).alias("before"),
        F.max(F.when(F.col("t") > F.col("_from"), F.col("t"))).alias("after"),
        F.max(F.when(meanwhile, F.col("t") - F.col("invoke_t"))).alias("longest"),
    )
    return {(row["_number"], row["process"]): row for row in found.toArrow().to_pylist()}


def _polled_on(polls: Any, one: _Bare) -> bool:
    """As long as nobody was given anything, at least for as long as that may take."""
    is_on = polls["after"] is not None and polls["after"] >= one.from_t + WAIT_NS
    return is_on and polls["longest"] < POLLS_NS


def _was_gone(polls: Any, one: _Bare) -> bool:
    return polls["after"] is None and polls["before"] < one.from_t - GONE_NS


def _finding(one: _Bare) -> Finding:
    names = ", ".join(sorted(one.members))
    return Finding(
        RULE,
        f"the members of group {one.group} ({names}) had given up all they had, polled on, and "
        f"were given nothing for {WAIT_NS / 1e9:.1f} s and more, long after all was healed",
        *one.trial,
        (
            Pick("assignment", {"group": one.group}, to_t=one.from_t, last=True, rows=2),
            Pick("fetch", {"process": min(one.members)}, from_t=one.from_t, rows=1),
        ),
    )
