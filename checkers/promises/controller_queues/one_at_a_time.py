"""Whether requests leave a channel one at a time, for `checkers.promises.controller_queues`.

A send thread takes a request from its queue, and keeps to it until it is answered: when the
connection breaks it sends the same again, and again, as long as the channel lasts
(RequestSendThread.doWork). So a broker is never told of two changes at once, in whatever order, and
misses none while its controller is in office.

- ``two-in-flight``: the next request of a channel was sent before the one before it had ended;
- ``given-up``: after a request that came to nothing, the same channel sent another;
- ``tried-at-once``: it was tried again after less than `PAUSE_NS`, not 100 ms later: whoever cannot
  be reached is called on thousands of times a second, each time in the log.

Lawful, and looks similar: the last one of a channel, whose controller resigned, or whose broker
went. Of controllers that number what they tell, and by what they say of each try's end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

BESIDE: Final = "two-in-flight"
GIVEN_UP: Final = "given-up"
AT_ONCE: Final = "tried-at-once"
PAUSE_NS: Final = 50_000_000
"""Half of RequestSendThread's; of its own clock, which counts from before it begins to wait."""
_WAY: Final = ("arm", "trial", "node", "boot", "to")
_TRY: Final = (*_WAY, "correlation_id", "send_t")


def one_at_a_time(history: History) -> Iterator[tuple[Finding, int]]:
    """By rule, controller and broker: the first, and how often it was so."""
    if not (history.has("control_send") and history.has("control_response")):
        return
    ends = history.frame("control_response").where("seq is not null")
    ends = ends.select(*_TRY, F.col("t").alias("end_t"), F.col("error").isNull().alias("vain"))
    item = F.xxhash64("api", "enqueue_t", F.to_json("partitions"))
    sent = history.frame("control_send").where("seq is not null and boot is not null")
    tries = sent.select(
        *(*_WAY, "controller_epoch", "broker_epoch", "seq", "correlation_id", "api"),
        F.col("t").alias("send_t"),
        item.alias("item"),
    ).join(ends, [*_TRY], "left")
    channel = Window.partitionBy(*_WAY, "controller_epoch", "broker_epoch").orderBy("seq")
    following = (F.lead(name).over(channel).alias(f"_{name}") for name in ("send_t", "item"))
    each = tries.select("*", *following).where("_send_t is not null")
    rule = F.when(F.expr("end_t is null or end_t > _send_t"), BESIDE)
    rule = rule.when(F.expr("vain and item != _item"), GIVEN_UP)
    rule = rule.when(F.expr(f"vain and _send_t - end_t < {PAUSE_NS}"), AT_ONCE)
    each = each.withColumn("rule", rule).where("rule is not null")
    found = each.groupBy("rule", *_WAY[:3], "to").agg(
        F.min(F.struct("send_t", "_send_t", "api", "correlation_id")).alias("first"),
        F.count("*").alias("n"),
    )
    for row in found.orderBy("rule", *_WAY[:3], "to").toArrow().to_pylist():
        first, own = row["first"], {"node": row["node"], "to": row["to"]}
        then = _THEN[row["rule"]]
        finding = Finding(
            row["rule"],
            f"controller {row['node']} sent broker {row['to']} {first['api']} (number "
            f"{first['correlation_id']}), {then}",
            row["arm"],
            row["trial"],
            (
                Pick("control_send", {**own, "t": first["send_t"]}, rows=1),
                Pick("control_response", {**own, "send_t": first["send_t"]}, rows=1),
                Pick("control_send", {**own, "t": first["_send_t"]}, rows=1),
            ),
        )
        yield finding, row["n"]


_THEN: Final = {
    BESIDE: "and the next one before that had ended",
    GIVEN_UP: "which came to nothing, and then another",
    AT_ONCE: "which came to nothing, and the same again at once",
}
