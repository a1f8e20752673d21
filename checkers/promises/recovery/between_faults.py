"""What is served between one fault and the next, for `checkers.promises.recovery`.

A fault that comes later may mend what an earlier one has broken: whoever gave up is told anew with
the next election, and in the end all is well. So it is asked between them, too, wherever nothing
was in place for long enough.

- ``not-accepted``: for `LIMIT_NS` no fault was in place, the partition kept its leader and its
  in-sync set, which was as large as it ever was, no broker had ended by itself, and a producer
  whose records it had taken at other times asked a broker more than a few times with acks=all, and
  none was acknowledged.

Lawful, and looks similar: a client that asks no broker for what it was to write (`unknown`); one
that is offered more than is taken, and has older records acknowledged to the end; an in-sync set
that is not full, or changes meanwhile, has somebody to wait for; topics that are deleted, or were
made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.clients import asked
from checkers.facts.committed import committed
from checkers.facts.faults import faults_of
from checkers.facts.leadership import Key
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "not-accepted"
BETWEEN: Final = "partitions written to with acks=all between faults"
LIMIT_NS: Final = 5_000_000_000
"""What takes milliseconds, and on a busy machine a second or two."""
TRIES: Final = 10
_LATE_NS: Final = LIMIT_NS // 2
"""Who is still worked off for so long before the next fault is served."""
_BY: Final = ("arm", "trial", "topic", "partition")
Row = Mapping[str, Any]
Trial = tuple[str, int]
Span = tuple[int, int]


def between_faults(history: History, outcome: Outcome) -> None:
    spans = [
        {**dict(zip(_BY, key, strict=True)), "from_t": begin, "to_t": end}
        for key in committed(history)
        for begin, end in _quiet(history, key)
    ]
    if not spans or not history.has("produce"):
        return
    table = history.table(
        spans, "arm string, trial int, topic string, partition int, from_t bigint, to_t bigint"
    )
    wanted = F.col("type").isin("ok", "info", "fail") & (F.col("acks") == -1)
    tried = history.frame("produce").where(wanted).join(F.broadcast(table), list(_BY))
    ok = F.col("type") == "ok"
    offered = F.col("invoke_t").between(F.col("from_t"), F.col("to_t"))
    within = offered & (ok | asked())
    is_late = F.col("t") > F.col("to_t") - _LATE_NS
    summed = tried.groupBy(*_BY, "process", "from_t", "to_t").agg(
        F.count_if(offered).alias("offered"),
        F.count_if(within).alias("tries"),
        F.min(F.when(offered, F.col("invoke_t"))).alias("first_t"),
        F.min(F.when(within, F.col("invoke_t"))).alias("first_asked_t"),
        F.count_if(ok & (F.col("t") <= F.col("to_t")) & (offered | is_late)).alias("taken"),
        F.count_if(ok).alias("ever"),
    )
    offered_enough = (F.col("offered") >= TRIES) & (F.col("to_t") - F.col("first_t") >= LIMIT_NS)
    found = tally(summed.where(offered_enough & (F.col("ever") > 0)), None, _sort)
    for (arm, trial, silent), n in found.in_order():
        if silent is None:
            outcome.saw(arm, trial, BETWEEN, n)
        else:
            outcome.unknown(arm, trial, silent)
    add(outcome, found, _finding)


def _sort(row: Row) -> Sort:
    order = (*(row[name] for name in _BY), row["process"], row["from_t"])
    trial = (row["arm"], row["trial"])
    if row["taken"]:
        return Sort((*trial, None), order)
    if row["tries"] >= TRIES and row["to_t"] - row["first_asked_t"] >= LIMIT_NS:
        return Sort((*trial, None), order, RULE)
    where = f"{row['process']}: {row['topic']}-{row['partition']} took none of {row['offered']}"
    why = f"nobody tells that a broker was asked for more than {row['tries']} of them in time"
    return Sort((*trial, f"{where} records (acks=all) between faults: {why}"), order)


def _quiet(history: History, key: Key) -> Iterator[Span]:
    """Where (ns) nothing keeps a partition from taking records."""
    trial = key[:2]
    if key[2] in deleted(history).get(trial, ()):
        return
    states = committed(history)[key].states
    most = max((len(state.row["isr"] or ()) for state in states), default=0)
    for begin, end in gaps(history).get(trial, ()):
        before = [state for state in states if state.t <= begin]
        during = [state for state in states if begin < state.t <= end]
        for state, until in zip(
            [*before[-1:], *during], [*(state.t for state in during), end], strict=False
        ):
            from_t = max(begin, state.t)
            is_full = state.row["leader"] >= 0 and len(state.row["isr"] or ()) == most
            if is_full and until - from_t >= LIMIT_NS:
                yield from_t, until


def gaps(history: History) -> Mapping[Trial, list[Span]]:
    """By trial, from the end of each fault to the begin of the next one; what comes after the last
    is judged by what there is in the end."""

    def make() -> dict[Trial, list[Span]]:
        found: dict[Trial, list[Span]] = {}
        for trial in history.trials:
            exited = [
                r["t"] for r in rows_of(history, "node_event", trial) if r["event"] == "exited"
            ]
            over = 0
            for fault in sorted(faults_of(history, trial), key=lambda one: one.from_t):
                if over and fault.from_t > over and not any(t < fault.from_t for t in exited):
                    found.setdefault(trial, []).append((over, fault.from_t))
                over = max(over, fault.to_t)
        return found

    known: dict[Trial, list[Span]] = history.memo("gaps between faults", make)
    return known


def deleted(history: History) -> Mapping[Trial, set[str]]:
    def make() -> dict[Trial, set[str]]:
        found: dict[Trial, set[str]] = {}
        for row in history.rows("topic_deletion"):
            found.setdefault((row["arm"], row["trial"]), set()).add(row["topic"])
        return found

    topics: dict[Trial, set[str]] = history.memo("topics that were deleted", make)
    return topics


def _finding(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        rule,
        f"{row['process']}: {row['topic']}-{row['partition']} took none of {row['offered']} "
        f"records (acks=all) in {(row['to_t'] - row['from_t']) / 1e9:.1f} s in which no fault was "
        "in place and all of its replicas were in sync",
        row["arm"],
        row["trial"],
        (
            Pick("fault", {"phase": "healed"}, to_t=row["from_t"], rows=1, last=True),
            Pick("leadership", at, to_t=row["from_t"], rows=1, last=True),
            Pick("produce", {**at, "process": row["process"]}, from_t=row["from_t"], rows=3),
        ),
    )
