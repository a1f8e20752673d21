"""Controller queues: do the controller's metrics tell what its queues were like?

KIP-291 asks operators to watch ``QueueSize`` and ``RequestRateAndQueueTimeMs`` of each broker's
channel: they are how an overloaded broker is noticed. So they are written down as a reader of
metrics sees them (`channel_queue`) and held against the requests themselves (`control_send`), which
say when each entered its queue and when it was sent. A queue is first in, first out, and one
request is in flight; so at any moment, with ``from`` and ``to`` the times around the look:

    size   at least those that had entered before ``from`` and were sent after ``to``, but for one
           that is on its way in and one that is being connected for;
           at most those that had entered by ``to`` and were not sent before ``from``
    count  of requests taken from the queue: at least those sent before ``from``; at most those sent
           by ``to``, and the one that is being connected for
    time   the longest stay: at least, of one that was sent, from its entry until the one before it
           was sent; at most until it was sent itself

Only looks from the first request that entered a channel until the first of the next channel are
judged. What never left a queue (the controller resigned, the broker went) left no trace: it may
have entered after the last that did, so that later looks are judged only by what must at least be
there (of requests that are yet to be sent the channel certainly was), not by what may be at most. A
channel is known by the epochs of its controller and of its broker.

That one request is in flight, and none is given up, is judged as well (`one_at_a_time`).
Figures, by arm: how long the queues were and how long requests stayed, as the metrics told it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import RULE, Sort, add, by_rule, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.controller_queues.one_at_a_time import (
    AT_ONCE,
    BESIDE,
    GIVEN_UP,
    one_at_a_time,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

LOOKS: Final = "looks at a controller's queue that its requests tell of"
UNSEEN: Final = 2
"""Requests that may be neither waiting nor sent: on the way in, and being connected for."""
RESERVOIR: Final = 1_000
"""A histogram keeps the newest 1,028 values: of more, the longest may be forgotten."""
_ROUNDED_NS: Final = 1_000_000
"""Kafka's timer is in milliseconds."""
_WAY: Final = ["arm", "trial", "node", "boot", "to"]
_CHANNEL: Final = [*_WAY, "controller_epoch", "broker_epoch"]
_LOOK: Final = ["from_t", "look_t", "size", "taken", "max_ns", "late"]
Row = Mapping[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    for finding, n in one_at_a_time(history):
        outcome.add(finding, n)
    if not history.has("channel_queue"):
        return outcome
    _figures(history, outcome)
    if not history.has("control_send"):
        return outcome
    looks = history.keep("looks at queues", lambda: _looks(history))
    for row in looks.groupBy("arm", "trial").count().collect():
        outcome.saw(row["arm"], row["trial"], LOOKS, row["count"])
    wrong = by_rule(looks, {rule: F.expr(broken) for rule, broken in _RULES.items()})
    add(outcome, tally(wrong, None, _sort), _finding)
    return outcome


def _looks(history: History) -> DataFrame:
    """Each look at a metric, and what the channel's requests say of that moment: requests and looks
    are put in one order of time and counted up, so that a long-lived channel costs what a short one
    does by the request."""
    in_order = Window.partitionBy(*_CHANNEL).orderBy("t", "correlation_id")
    sends = (
        history.frame("control_send")
        .where("attempt = 1 and " + " and ".join(f"{name} is not null" for name in _CHANNEL))
        .select(
            *_CHANNEL,
            "enqueue_t",
            F.col("t").alias("send_t"),
            F.lag("t").over(in_order).alias("before_t"),
        )
    )
    channels = (
        sends.groupBy(*_CHANNEL)
        .agg(F.min("enqueue_t").alias("_first"), F.max("enqueue_t").alias("_last"))
        .withColumn("_next", F.lead("_first").over(Window.partitionBy(*_WAY).orderBy("_first")))
    )
    looked = history.frame("channel_queue").select(
        *_WAY,
        "from_t",
        F.col("t").alias("look_t"),
        "size",
        "taken",
        (F.col("queue_time_max_us") * 1000).alias("max_ns"),
    )
    judged = (
        looked.join(channels, _WAY)
        .where("_first <= from_t and (_next is null or look_t < _next)")
        .withColumn("late", F.expr("cast(look_t > _last as bigint)"))
    )
    steps = _steps(sends, _SEND, enqueue_t=_ENTERED, send_t=_SENT).unionAll(
        _steps(judged, _LOOK, from_t=_BEGUN, look_t=_LOOKED)
    )
    so_far = Window.partitionBy(*_CHANNEL).orderBy("_at", "_step")
    so_far = so_far.rowsBetween(Window.unboundedPreceding, 0)
    ahead = Window.partitionBy(*_CHANNEL).orderBy(F.col("_at").desc(), F.col("_step").desc())
    ahead = ahead.rowsBetween(Window.unboundedPreceding, 0)
    entered, sent = F.col("_step") == _ENTERED, F.col("_step") == _SENT
    counted = steps.select(
        "*",
        F.count(F.when(entered, 1)).over(so_far).alias("_in"),
        F.count(F.when(sent, 1)).over(so_far).alias("_out"),
        F.max(F.when(sent, F.expr("before_t - enqueue_t"))).over(so_far).alias("_behind"),
        F.max(F.when(sent, F.expr("send_t - enqueue_t"))).over(so_far).alias("_stayed"),
        F.min(F.when(sent, F.col("enqueue_t"))).over(ahead).alias("_oldest"),
    )
    each = counted.where(F.col("_step").isin(_BEGUN, _LOOKED)).groupBy(*_CHANNEL, *_LOOK)
    begun, looked_at = F.col("_step") == _BEGUN, F.col("_step") == _LOOKED

    def then(step: Column, name: str) -> Column:
        return F.max(F.when(step, F.col(name)))

    return each.agg(
        # First in, first out: of what had entered by then the first to go are gone.
        F.greatest(then(begun, "_in") - then(looked_at, "_out"), F.lit(0)).alias("waiting_min"),
        (then(looked_at, "_in") - then(begun, "_out")).alias("waiting_max"),
        then(begun, "_out").alias("taken_min"),
        (then(looked_at, "_out") + 1).alias("taken_max"),
        then(begun, "_behind").alias("stayed_min"),
        F.greatest(then(looked_at, "_stayed"), F.col("look_t") - _waits(looked_at)).alias(
            "stayed_max"
        ),
    )


_ENTERED, _BEGUN, _SENT, _LOOKED = range(4)
"""What happens to a channel; of what happens at one moment, in this order."""
_SEND: Final = ["enqueue_t", "send_t", "before_t"]


def _steps(rows: DataFrame, own: list[str], **times: int) -> DataFrame:
    """Each row once for each of its ``times``: `_CHANNEL`, ``_at``, ``_step`` and its own columns,
    the others null."""
    each = F.array(
        *(F.struct(F.col(name).alias("_at"), F.lit(step).alias("_step"))
          for name, step in times.items())
    )  # fmt: skip
    columns = [F.col(n) if n in own else F.lit(None).cast("bigint").alias(n) for n in _ALL]
    return rows.select(*_CHANNEL, *columns, F.inline(each))


_ALL: Final = [*_SEND, *_LOOK]


def _waits(looked_at: Column) -> Column:
    """When the one had entered that waits longest at the look; null: none waits."""
    return F.min(F.when(looked_at & (F.col("_oldest") <= F.col("look_t")), F.col("_oldest")))


def _sort(row: Row) -> Sort:
    order = (row["look_t"], row["arm"], row["trial"], row["node"], row["to"])
    return Sort((), order, row[RULE])


_RULES: Final = {
    "queue-size": f"size < waiting_min - {UNSEEN} or (late = 0 and size > waiting_max)",
    "queue-count": (
        "(taken < taken_min and (late = 0 or waiting_min > 0)) or (late = 0 and taken > taken_max)"
    ),
    "queue-time": (
        f"(taken <= {RESERVOIR} and max_ns + {_ROUNDED_NS} < coalesce(stayed_min, 0)"
        " and (late = 0 or taken >= taken_min))"
        f" or (late = 0 and max_ns > coalesce(stayed_max, 0) + {_ROUNDED_NS})"
    ),
}


def _finding(rule: str, row: Row) -> Finding:
    says = {
        "queue-size": (
            f"QueueSize {row['size']}, where between {max(0, row['waiting_min'] - UNSEEN)} and "
            f"{row['waiting_max']} requests were waiting"
        ),
        "queue-count": (
            f"RequestRateAndQueueTimeMs counted {row['taken']}, where between {row['taken_min']} "
            f"and {row['taken_max']} had been taken"
        ),
        "queue-time": (
            f"RequestRateAndQueueTimeMs had {row['max_ns'] / 1e6:.1f} ms as its longest, where it "
            f"was between {max(0, row['stayed_min'] or 0) / 1e6:.1f} and "
            f"{(row['stayed_max'] or 0) / 1e6:.1f} ms"
        ),
    }[rule]
    between = {"node": row["node"], "to": row["to"]}
    return Finding(
        rule,
        f"controller {row['node']} to broker {row['to']}: {says}",
        row["arm"],
        row["trial"],
        (
            Pick("channel_queue", between, row["look_t"], row["look_t"], rows=1),
            Pick("control_send", between, to_t=row["from_t"], last=True, rows=2),
            Pick("control_send", between, row["look_t"], rows=2),
        ),
    )


def _figures(history: History, outcome: Outcome) -> None:
    rows = (
        history.frame("channel_queue")
        .groupBy("arm", "to")
        .agg(
            F.max("size").alias("size"),
            F.max("queue_time_p99_us").alias("p99_us"),
            F.max("queue_time_max_us").alias("max_us"),
        )
    )
    for row in sorted(rows.collect(), key=lambda r: (r["arm"], r["to"])):
        told = {
            "size_max": row["size"],
            "queue_time_p99_ms": row["p99_us"] / 1000,
            "queue_time_max_ms": row["max_us"] / 1000,
        }
        figures = outcome.arm(row["arm"])
        figures.setdefault("by_broker", {})[str(row["to"])] = told
        for name, figure in told.items():
            figures[name] = max(figures.get(name, 0), figure)


PROMISE: Final = Promise(
    name="controller-queues",
    says="Requests leave a controller's queue one at a time; its metrics tell what it was like.",
    source=(
        "KIP-291, motivation and metrics; ControllerChannelManager's RequestSendThread, QueueSize "
        "and RequestRateAndQueueTimeMs"
    ),
    rules={
        "queue-size": "QueueSize is the number of requests that wait.",
        "queue-count": "RequestRateAndQueueTimeMs counts what was taken from the queue.",
        "queue-time": "RequestRateAndQueueTimeMs has how long requests stayed.",
        BESIDE: "A channel has one request in flight.",
        GIVEN_UP: "What came to nothing is sent again, as long as its channel lasts.",
        AT_ONCE: "Before it is sent again there is a pause.",
    },
    evidence={LOOKS: "several a second, of each broker's channel"},
    unknown_when=("nobody read the metrics while requests were sent",),
    blind=(
        "requests that never left a queue",
        "figures between the longest and the shortest",
        "systems whose metrics nobody writes down (Apache Kafka)",
    ),
    check=check,
)
