"""Each controller request as its two ends tell of it, held against each other.

A controller writes down that it sends (`control_send`) and what was answered (`control_response`),
a broker what it handled (`control_request`). By (controller, broker, api, number): whoever answered
handled, whoever handled was sent to, and each came before the next. Numbers begin again when a
channel is rebuilt, so of each number only the first of each end are compared: the first arrival
cannot be before the first send, nor the first answer before the first handling.

And they tell of the same: the controller, epochs and partitions that were handled are those of a
send, the answer is one that was given, and nothing is handled more often than it was sent.

Of ends that number their rows, so that none can be missing unnoticed. A controller's client id is
its broker's; a forger (`forged`) has one of its own for each request, and a prober (`probe`) its
name for all, and its operations' numbers. One pass; a few numbers a pair leave Spark.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.spans import earliest, latest
from checkers.history.schema import SHUTDOWN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

STRANGERS: Final = "strangers"
"""Who speaks as a controller and is none: forgers and probers."""
_PAIR: Final = ("arm", "trial", "sender", "broker")
_ONE: Final = (*_PAIR, "client_id", "api", "correlation_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Of one sender (a controller's id, or `STRANGERS`) and one broker: how many requests were
    ``unsent`` (handled, and that controller had not sent them), ``untold`` (answered, and the
    broker had not handled them), ``early`` (received before they were sent, or answered before they
    were handled), ``unlike`` (handled otherwise, or more often, than it was sent, or answered
    otherwise than it was handled). ``sure``: those of the first two of which the end that is silent
    went on to tell of other things, in the same boot: who is killed may take with it what it was
    about to tell, and nothing else."""

    key: tuple[str, int]
    sender: str
    broker: int
    unsent: int
    untold: int
    early: int
    unlike: int
    sure: int


def told(history: History) -> list[Told]:
    if not (history.has("control_send") and history.has("control_request")):
        return []
    parts = [_sent(history), _handled(history), _answered(history)]
    parts += [_asked_by(history, kind) for kind in _STRANGE if history.has(kind)]
    rows: DataFrame = functools.reduce(lambda a, b: a.unionAll(b), parts)
    each = rows.groupBy(*_ONE).agg(
        *(F.min(name).alias(name) for name in _TIMES),
        *(F.collect_set(name).alias(name) for name in _SAID),
        F.count("sent_t").alias("sends"),
        F.count("received_t").alias("arrivals"),
    )
    sent, received = F.col("sent_t"), F.col("received_t")
    unsent = received.isNotNull() & sent.isNull() & (F.col("sender") != STRANGERS)
    untold = F.col("answered_t").isNotNull() & received.isNull()
    early = F.coalesce(received < sent, F.lit(False))
    early = early | F.coalesce(F.col("answered_t") < F.col("handled_t"), F.lit(False))
    more = (F.col("arrivals") > F.col("sends")) & (F.col("sends") > 0)
    unlike = _unlike() | (more & (F.col("sender") != STRANGERS))
    each = _with_silent(history, each, unsent, untold)
    sure = (unsent | untold) & F.col("_lived_on")
    counts = {"unsent": unsent, "untold": untold, "early": early, "unlike": unlike, "sure": sure}
    found = each.groupBy(*_PAIR).agg(
        *(F.sum(of.cast("int")).alias(name) for name, of in counts.items())
    )
    return [
        Told(key=(row.pop("arm"), row.pop("trial")), **row) for row in found.toArrow().to_pylist()
    ]


def _with_silent(history: History, each: DataFrame, unsent: Column, untold: Column) -> DataFrame:
    """Add ``_lived_on``: whether the end that does not tell of a request told of something before
    it, and in the same boot of something `_AFTER_NS` later."""
    by = ("arm", "trial", "node", "boot")
    rows = [
        history.frame(kind).where("seq is not null and boot is not null").select(*by, "t")
        for kind in ("plane_use", "control_request", "control_send")
        if history.has(kind)
    ]
    told = functools.reduce(lambda one, other: one.unionAll(other), rows)
    boots = told.groupBy(*by).agg(F.min("t").alias("_from_t"), F.max("t").alias("_to_t"))
    boots = boots.withColumnsRenamed({name: f"_{name}" for name in by})
    # Each end of a request that is odd, and when that end must have had it.
    end = F.when(untold, F.col("broker")).when(unsent, F.col("sender").try_cast("int"))
    begun = F.coalesce("sent_t", "received_t", "answered_t")
    over = F.greatest("received_t", "answered_t") + _AFTER_NS
    same = (
        (F.col("arm") == F.col("_arm"))
        & (F.col("trial") == F.col("_trial"))
        & (end == F.col("_node"))
        & (begun >= F.col("_from_t"))
        & (over <= F.col("_to_t"))
    )
    joined = each.join(F.broadcast(boots), same, "left")
    return joined.withColumn("_lived_on", F.col("_boot").isNotNull())


_AFTER_NS: Final = 1_000_000_000
_TIMES: Final = ("sent_t", "received_t", "handled_t", "answered_t")
_SAID: Final = ("asked", "taken", "gave", "got")
"""What was sent and handled, folded; which error was given and received."""


def _unlike() -> Column:
    """Whether one end tells of something that the other does not. A number may have been used
    again: each that is told is among those of the other end, if that tells of any."""
    found = F.lit(False)
    for mine, other in (("taken", "asked"), ("got", "gave")):
        odd = F.size(F.array_except(mine, other)) > 0
        found = found | (odd & (F.size(other) > 0))
    return found


def _body(controller: str) -> Column:
    """What a request says, but for the answers in it; ``controller``: the column that has who it is
    of."""
    parts = F.transform("partitions", lambda p: F.struct(*(p[n] for n in _PART)))
    whole = F.to_json(F.array_sort(parts))
    return F.xxhash64(controller, "controller_epoch", "broker_epoch", whole)


_PART: Final = ("topic", "partition", "leader", "leader_epoch")


def _row(sender: Column, client: Column, broker: str, **told: Column) -> list[Column]:
    none = F.lit(None).cast("bigint")
    return [
        F.col("arm"),
        F.col("trial"),
        sender.alias("sender"),
        F.col(broker).alias("broker"),
        client.alias("client_id"),
        F.col("api"),
        F.col("correlation_id"),
        *(told.get(name, none).cast("bigint").alias(name) for name in (*_TIMES, *_SAID)),
    ]


def _sent(history: History) -> DataFrame:
    rows = history.frame("control_send").where("seq is not null and node is not null")
    own = F.col("node").cast("string")
    return rows.select(*_row(own, own, "to", sent_t=earliest(F.col("t")), asked=_body("node")))


def _handled(history: History) -> DataFrame:
    rows = history.frame("control_request").where("seq is not null and receive_t is not null")
    rows = rows.where("client_id is not null")
    times = {
        "received_t": latest(F.col("receive_t")),
        "handled_t": earliest(F.coalesce("handled_t", "receive_t")),
        "taken": _body("controller_id"),
        "gave": F.col("error"),
    }
    client = F.col("client_id")
    sender = F.when(client.rlike("^[0-9]+$"), client).otherwise(F.lit(STRANGERS))
    return rows.select(*_row(sender, client, "node", **times))


def _answered(history: History) -> DataFrame:
    rows = history.frame("control_response").where("seq is not null and error is not null")
    own = F.col("node").cast("string")
    got = F.col("error")
    return rows.select(*_row(own, own, "to", answered_t=latest(F.col("t")), got=got))


_STRANGE: Final = {
    "forged": ("client_id", "correlation_id"),
    "probe": ("process", f"cast(op & {2**31 - 1} as int)"),
}
"""By kind of a stranger's request: its client id, and its number."""


def _asked_by(history: History, kind: str) -> DataFrame:
    """Answered as a whole: brokers that do not number their rows are left out by their ends, and so
    is a prober of whom no broker tells."""
    client, number = _STRANGE[kind]
    traced = history.frame("control_request").where("seq is not null")
    rows = history.frame(kind).where(f"seq is not null and {client} is not null")
    rows = rows.where(F.col("api") != SHUTDOWN)  # no controller's, and brokers do not trace it
    rows = rows.withColumns({"client_id": F.col(client), "correlation_id": F.expr(number)})
    of = [("arm", "trial", "node"), *([("arm", "trial", "client_id")] if kind == "probe" else [])]
    for by in of:
        known = traced.select(*by).distinct()
        rows = rows.join(F.broadcast(known), [*by], "left_semi")
    answered = (F.col("type") == "ok") & F.col("error").isNotNull()
    times = {
        "sent_t": F.col("invoke_t"),
        "answered_t": F.when(answered, F.col("t")),
        "got": F.when(answered, F.col("error")),
    }
    return rows.select(*_row(F.lit(STRANGERS), F.col("client_id"), "node", **times))
