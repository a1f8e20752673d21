"""Controller latency: where did a controller request wait?

    controller                                    broker
    enqueue_t --queue--> send t --wire--> receive_t --blocked--> enqueue_t --request_queue-->
                                          dequeue_t --handler--> handled_t --response--> t
    send_t ------------------------- round_trip -------------------------> response t

``wire`` is the network *and* the time unread in the socket while a network thread is frozen by a
full queue: no broker-side figure shows that, so it is measured from the sender's row to the
receiver's.
``probe`` is a harmless request on a clock, counted from when it was planned, so that a late answer
cannot delay (and flatter) the next; a probe that was never answered counts up to when it was given
up. Probes are the harness's and not the controller's, whose own requests may go another way:
``own`` is the round trip of those, under the same faults, at the same brokers.

Nothing here is a violation: latency is measured, by arm, API, plane, broker and fault segment, and
compared between arms. Retries and requests that failed are counted. A check without any request of
the control plane says nothing (`unknown`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.histogram import Histogram, bucket_of, gather, grouped
from checkers.facts.segments import QUIET, with_segment
from checkers.facts.spans import earliest, latest
from checkers.facts.unions import BY_OTHERS, by_two
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

STAGES: Final = (
    "queue",
    "wire",
    "blocked",
    "request_queue",
    "handler",
    "response",
    "round_trip",
    "probe",
)
OWN: Final = "own"
"""Figure: what the controller's own requests say of what the probes were sent to find out."""
CONTROL_APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
REFUSED_SHARE: Final = 0.25
"""Of the probes that were answered: where more were refused, they say nothing of handling."""
WIRE_LIMIT_NS: Final = 120_000_000_000
"""A request that arrived so long after it was sent is taken for another with the same number."""
_KEYS: Final = ["arm", "stage", "api", "plane", "node", "segment"]


def check(history: History) -> Outcome:
    outcome = Outcome()
    parts = [
        part(history)
        for kind, part in (
            ("control_request", _handled),
            ("control_response", _round_trips),
            ("control_send", _sent),
            ("probe", _probes),
        )
        if history.has(kind)
    ]
    if history.has("control_send") and history.has("control_request"):
        parts.append(_wire(history))
    if not parts:
        return outcome
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    rows = with_segment(history, rows.where("latency_ns is not null"), F.col("at_t"))
    rows = rows.withColumn("bucket", bucket_of(F.col("latency_ns")))
    # One pass: latencies by what they are of, and how many there were in each trial.
    found = by_two(
        rows,
        [*_KEYS, "bucket"],
        ["arm", "trial"],
        F.count("*").alias("n"),
        F.greatest(F.max("latency_ns"), F.lit(0)).alias("max_ns"),
        F.sum("retried").alias("retried"),
        F.sum("failed").alias("failed"),
    )
    counted = grouped(found)
    for row in counted:
        if row[BY_OTHERS]:
            outcome.saw(row["arm"], row["trial"], "control requests and probes", row["n"])
    _figures(outcome, [row for row in counted if not row[BY_OTHERS]])
    if history.has("probe"):
        _refused(history, outcome)
    return outcome


def _refused(history: History, outcome: Outcome) -> None:
    """Probes that were answered with an error measure how soon a broker refuses."""
    answered = history.frame("probe").where("type = 'ok'")
    refused = F.count(F.when(F.col("error") != 0, 1))
    by = answered.groupBy("arm", "trial").agg(F.count("*").alias("n"), refused.alias("refused"))
    for row in by.toArrow().to_pylist():
        if row["refused"] > REFUSED_SHARE * row["n"]:
            why = f"{row['refused']} of {row['n']} answered probes were refused"
            outcome.unknown(row["arm"], row["trial"], why)


def _figures(outcome: Outcome, rows: list[dict[str, Any]]) -> None:
    faulted = {r["arm"] for r in rows if r["stage"] == "probe" and r["segment"] != QUIET}

    def figure(row: dict[str, Any]) -> str:
        """Probes tell what faults do: those sent while none was in place are the floor beside."""
        idle = row["stage"] == "probe" and row["segment"] == QUIET and row["arm"] in faulted
        return "probe_idle" if idle else str(row["stage"])

    probed: dict[str, set[int]] = {}
    for row in rows:
        if row["stage"] == "probe":
            probed.setdefault(row["arm"], set()).add(row["node"])
    found: dict[tuple[str, str], Histogram] = {}
    for row in rows:
        names = [figure(row)] + ([OWN] if _own(row, probed) else [])
        for name in names:
            histogram = found.setdefault((row["arm"], name), Histogram())
            histogram.add(row["bucket"], row["n"], row["max_ns"])
    for (arm, name), histogram in found.items():
        outcome.arm(arm)[name] = histogram.summary()
    for dimension in ("api", "plane", "node", "segment"):
        for (arm, stage, value), histogram in gather(rows, "arm", "stage", dimension).items():
            if value is not None:
                table = outcome.arm(arm).setdefault(f"{stage}_by_{dimension}", {})
                table[str(value)] = histogram.summary()
    for row in rows:
        figures = outcome.arm(row["arm"])
        if row["stage"] == "queue":
            figures["retries"] = figures.get("retries", 0) + (row["retried"] or 0)
        if row["stage"] in ("round_trip", "probe"):
            name = "unanswered" if row["stage"] == "round_trip" else "probes_unanswered"
            figures[name] = figures.get(name, 0) + (row["failed"] or 0)
    outcome.figures["latency"] = [
        {k: r[k] for k in (*_KEYS, "bucket", "n", "max_ns")} for r in rows
    ]


def _own(row: dict[str, Any], probed: dict[str, set[int]]) -> bool:
    """The controller's own requests that say what probes say: there and back, while a fault was in
    place, to the brokers that were probed (all, where none was)."""
    here = row["node"] in probed.get(row["arm"], {row["node"]})
    return row["stage"] == "round_trip" and row["segment"] != QUIET and here


def _row(
    stage: str,
    at: str,
    latency: Column,
    *,
    node: str = "node",
    plane: str | None = "plane",
    retried: Column | None = None,
    failed: Column | None = None,
) -> list[Column]:
    """The columns of one stage's latencies."""
    return [
        F.col("arm"),
        F.col("trial"),
        F.lit(stage).alias("stage"),
        F.col("api"),
        (F.col(plane) if plane else F.lit(None).cast("string")).alias("plane"),
        F.col(node).alias("node"),
        F.col(at).alias("at_t"),
        latency.alias("latency_ns"),
        (retried if retried is not None else F.lit(0)).cast("int").alias("retried"),
        (failed if failed is not None else F.lit(0)).cast("int").alias("failed"),
    ]


def _handled(history: History) -> DataFrame:
    """The four stages inside a broker: one scan, four rows a request."""
    rows = history.frame("control_request").where(F.col("api").isin(*CONTROL_APIS))
    stages = F.expr(
        "explode(array("
        "named_struct('stage', 'blocked', 'ns', enqueue_t - receive_t), "
        # Kafka's request log counts the blocked time in; then there is no enqueue_t.
        "named_struct('stage', 'request_queue', 'ns', dequeue_t - coalesce(enqueue_t, receive_t)), "
        "named_struct('stage', 'handler', 'ns', handled_t - dequeue_t), "
        "named_struct('stage', 'response', 'ns', t - handled_t)))"
    )
    each = rows.select("arm", "trial", "api", "plane", "node", "receive_t", stages.alias("s"))
    columns = _row("", "receive_t", F.col("s.ns"))
    columns[2] = F.col("s.stage").alias("stage")
    return each.select(*columns)


def _round_trips(history: History) -> DataFrame:
    rows = history.frame("control_response")
    failed = F.col("failure").isNotNull() & (F.col("failure") != "removed")
    latency = F.col("t") - F.col("send_t")
    return rows.select(
        *_row("round_trip", "send_t", latency, node="to", plane=None, failed=failed.cast("int"))
    )


def _sent(history: History) -> DataFrame:
    """Time in the controller's queue for that broker, up to this attempt."""
    rows = history.frame("control_send")
    retried = (F.col("attempt") > 1).cast("int")
    latency = F.col("t") - F.col("enqueue_t")
    return rows.select(*_row("queue", "t", latency, node="to", plane=None, retried=retried))


def _probes(history: History) -> DataFrame:
    rows = history.frame("probe")
    failed = (F.col("type") != "ok").cast("int")
    latency = F.col("t") - F.coalesce("planned_t", "invoke_t")
    start = rows.withColumn("_planned_t", F.coalesce("planned_t", "invoke_t"))
    return start.select(*_row("probe", "_planned_t", latency, failed=failed))


def _wire(history: History) -> DataFrame:
    """From the controller's send to the broker having read the request whole.

    Numbers start again when a channel is rebuilt, so of several sends with the same number the
    latest before the arrival is meant.
    """
    keys = ["arm", "trial", "api", "correlation_id", "controller_epoch"]
    sends = history.frame("control_send").select(
        *keys,
        F.col("node").alias("controller_id"),
        F.col("to").alias("node"),
        F.col("t").alias("_sent_t"),
        earliest(F.col("t")).alias("_sent_from"),
    )
    rows = history.frame("control_request").where("receive_t is not null")
    rows = rows.withColumn("_receive_by", latest(F.col("receive_t")))
    rows = rows.select(*keys, "controller_id", "node", "plane", "receive_t", "_receive_by")
    joined = rows.join(sends, [*keys, "controller_id", "node"]).where(
        (F.col("_sent_from") <= F.col("_receive_by"))
        & (F.col("receive_t") - F.col("_sent_t") < WIRE_LIMIT_NS)
    )
    last = joined.groupBy(*keys, "controller_id", "node", "plane", "receive_t").agg(
        F.max("_sent_t").alias("_sent_t")
    )
    # Times with an error may stand the wrong way round by less than it.
    wire = F.greatest(F.col("receive_t") - F.col("_sent_t"), F.lit(0))
    return last.select(*_row("wire", "_sent_t", wire))


PROMISE: Final = Promise(
    name="controller-latency",
    says="Where controller requests waited. Measured, never a violation.",
    source="KIP-291, motivation; ControllerChannelManager's RequestSendThread",
    rules={},
    evidence={"control requests and probes": "each stage of each request counts"},
    unknown_when=("more than a quarter of the answered probes were refused",),
    blind=(
        "Kafka promises no time: a request that waits long is shown, and accused only of what it "
        "leads to (stale-metadata, availability), or beside a flood (planes)",
    ),
    check=check,
)
