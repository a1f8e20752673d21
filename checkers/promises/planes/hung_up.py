"""Whom a broker hangs up on, for `checkers.promises.planes`.

Whoever asks too much waits: a request that finds its queue full holds its network thread, and with
it all of that thread's connections (RequestChannel.sendRequest), which is what KIP-291 is about. It
costs nobody its connection, and neither does silence, for `connections.max.idle.ms` (10 minutes):
a controller has nothing to say for long, and finds its connection as it left it.

- ``hung-up``: a client that asks one thing at a time, or a flood, lost its connection instead of
  being answered; or a controller the one that had been answered on before, and is still in office.

Lawful, and looks similar: whatever may cost a broker's connections (`checkers.facts.connections`),
which is counted; a controller that resigns, or gives a broker up, in the middle of a request: its
channel ends there. Of controllers that number what they tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.connections import LOST, unasked
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History
    from checkers.judging.outcome import Outcome

RULE: Final = "hung-up"
IDLE_NS: Final = 300_000_000_000
"""Half of what connections.max.idle.ms is by default: whoever was silent for less is kept."""
_ASK: Final = ("metadata", "probe", "listed_offset", "epoch_end", "read_at")
_OF_CLIENTS: Final = ("client",)
_OF_CONTROLLERS: Final = ("inter-broker", "control")
_OF_FLOODS: Final = (*_OF_CLIENTS, *_OF_CONTROLLERS)
_SLOT_NS: Final = 100_000_000
_WAY: Final = ("arm", "trial", "node", "boot", "to")
_CHANNEL: Final = (*_WAY, "controller_epoch", "broker_epoch")


def hung_up(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    """By kind, who asked and whom: the first, and how often."""
    for kind in _ASK:
        if history.has(kind):
            yield from _clients(history, outcome, kind)
    yield from _floods(history, outcome)
    if history.has("control_send") and history.has("control_response"):
        yield from _controllers(history, outcome)


def _clients(history: History, outcome: Outcome, kind: str) -> Iterator[tuple[Finding, int]]:
    lost = history.frame(kind).where("type = 'info' and error is null and node is not null")
    lost = lost.where(F.col("failure") == LOST)
    names = ["arm", "trial", "process", "node"]
    slots = lost.groupBy(*names, F.expr(f"t div {_SLOT_NS}").alias("_slot")).agg(
        F.countDistinct("op").alias("n"), F.min("invoke_t").alias("from_t"), F.min("t").alias("t")
    )
    rows = slots.orderBy("t", *names).toArrow().to_pylist()
    for row, n in _unasked(history, outcome, rows, ("process", "node"), ("node",), _OF_CLIENTS):
        own = {"process": row["process"], "node": row["node"]}
        yield (
            Finding(
                RULE,
                f"broker {row['node']}, to which nothing was done, hung up on {row['process']}, "
                f"which waited for an answer ({kind}), {n} times",
                row["arm"],
                row["trial"],
                (
                    Pick("node_event", {"node": row["node"]}, to_t=row["t"], last=True, rows=1),
                    Pick(kind, {**own, "t": row["t"]}, rows=1),
                ),
            ),
            n,
        )


def _floods(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    rows = [
        {**row, "n": row["lost"], "from_t": row["t"] - (row["interval_ns"] or 0)}
        for row in history.rows("flood")
        if row["lost"] and row["node"] is not None
    ]
    for row, n in _unasked(history, outcome, rows, ("id", "node"), ("node",), _OF_FLOODS):
        own = {"node": row["node"], "id": row["id"]}
        yield (
            Finding(
                RULE,
                f"broker {row['node']}, to which nothing else was done, hung up on {n} connections "
                f"of flood {row['id']} on which an answer was awaited",
                row["arm"],
                row["trial"],
                (
                    Pick("node_event", {"node": row["node"]}, to_t=row["t"], last=True, rows=1),
                    Pick("flood", {**own, "t": row["t"]}, rows=1),
                ),
            ),
            n,
        )


def _controllers(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    ends = history.frame("control_response").where("seq is not null")
    ends = ends.select(
        *(*_WAY, "correlation_id", "send_t", "failure"),
        F.col("t").alias("end_t"),
        F.col("error").isNotNull().alias("answered"),
    )
    sent = history.frame("control_send").where("seq is not null and boot is not null")
    tries = sent.select(
        *(*_CHANNEL, "seq", "correlation_id", "api"), F.col("t").alias("send_t")
    ).join(ends, [*_WAY, "correlation_id", "send_t"], "left")
    channel = Window.partitionBy(*_CHANNEL).orderBy("seq")
    lost = (
        tries.select(
            "*",
            F.lag("end_t").over(channel).alias("from_t"),
            F.lag("answered").over(channel).alias("_kept"),
            F.lead("send_t").over(channel).alias("_next_t"),
        )
        .where("_kept and _next_t is not null")
        .where(F.col("failure") == LOST)
        .where(f"send_t - from_t < {IDLE_NS}")
        .select(*_WAY, "api", "send_t", "from_t", F.col("end_t").alias("t"), F.lit(1).alias("n"))
    )
    rows = lost.orderBy("t", *_WAY).toArrow().to_pylist()
    for row, n in _unasked(history, outcome, rows, ("node", "to"), ("node", "to"), _OF_CONTROLLERS):
        own = {"node": row["node"], "to": row["to"]}
        yield (
            Finding(
                RULE,
                f"broker {row['to']}, to which nothing was done, hung up on controller "
                f"{row['node']} {n} times, first {(row['send_t'] - row['from_t']) / 1e9:.1f} s "
                f"after it had answered it ({row['api']} was not)",
                row["arm"],
                row["trial"],
                (
                    Pick("control_response", {**own, "t": row["from_t"]}, rows=1),
                    Pick("control_send", {**own, "t": row["send_t"]}, rows=1),
                    Pick("control_response", {**own, "t": row["t"]}, rows=1),
                ),
            ),
            n,
        )


def _unasked(
    history: History,
    outcome: Outcome,
    rows: list[dict[str, Any]],
    by: tuple[str, ...],
    ends: tuple[str, ...],
    links: tuple[str, ...],
) -> list[tuple[dict[str, Any], int]]:
    found, others = unasked(history, rows, by, ends, links)
    for arm, n in others.items():
        outcome.unjudged(arm, f"{n} connections that may have gone, told of by {' and '.join(by)}")
    return found
