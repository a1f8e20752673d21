"""What brokers did at a controller's order, against the orders that they tell of.

A broker leads or follows, takes leaders into its metadata and stops replicas because a request says
so, and writes down which (``correlation_id``): a request that it tells of has come by then, is not
handled yet, and has the same partition, leader and leader epoch; it does it once for each. The
controller epoch is the request's; of a role it may also be that of who wrote the state, by
ZooKeeper's log. Who accepts such a request does what it says. And what a controller was answered,
it had sent: at the time and under the number that the answer's row names.

Of ends that number their rows; and of a boot only what came before its last request, since who dies
at it does not tell of that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.spans import earliest, latest
from checkers.facts.unions import united

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

_ACTS: Final = {
    "leader_change": ("LEADER_AND_ISR", "roles", ("leader", "leader_epoch")),
    "metadata_update": ("UPDATE_METADATA", "states of its metadata", ("leader", "leader_epoch")),
    "replica_stop": ("STOP_REPLICA", "ends of replicas", ("leader_epoch",)),
}
"""By kind: what orders it, what it is in words, and what both say of the partition."""
_ALWAYS: Final = ("metadata_update", "replica_stop")
"""Done whenever it is accepted. (Of roles: `checkers.promises.refusals.applied`.)"""
_BOOT: Final = ("arm", "trial", "node", "boot")
_ONE: Final = (*_BOOT, "kind", "correlation_id", "_says")
Trial = tuple[str, int]


def unordered(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: what brokers did that no request of which they tell had ordered yet, or
    more often than they were ordered to, or when that was answered; and what they accepted, and do
    not tell of having done."""
    kinds = [kind for kind in _ACTS if history.has(kind)]
    if not kinds or not history.has("control_request"):
        return []
    handled = history.frame("control_request").where("seq is not null and boot is not null")
    last = handled.groupBy(*_BOOT).agg(F.max("t").alias("_last_t"))
    each = handled.select(
        *(*_BOOT, "api", "correlation_id"),
        F.col("controller_epoch").alias("_by"),
        (F.coalesce("error", F.lit(-1)) == 0).alias("_taken"),
        earliest(F.col("receive_t")).alias("_came_t"),
        latest(F.col("handled_t")).alias("_over_t"),
        F.explode("partitions").alias("p"),
    )
    rows = functools.reduce(
        lambda one, other: one.unionAll(other),
        [part for kind in kinds for part in (_orders(each, kind), _acts(history, kind))],
    )
    found = rows.groupBy(*_ONE).agg(
        *(F.min(name).alias(name) for name in ("_came_t", "_t")),
        *(F.max(name).alias(name) for name in ("_over_t", "_begun_t")),
        *(F.count(name).alias(f"{name}s") for name in ("_came_t", "_t")),
        *(F.collect_set(name).alias(f"{name}s") for name in ("_by", "_under")),
        F.max("_taken").alias("_taken"),
    )
    found = found.join(F.broadcast(last), [*_BOOT])
    early = "_t < _last_t and (_came_t is null or _t < _came_t or _ts > _came_ts)"
    other = "_t < _last_t and size(_bys) > 0 and size(array_except(_unders, _bys)) > 0"
    late = "_begun_t > _over_t"
    always = F.col("kind").isin(*_ALWAYS) & F.col("_t").isNull() & F.col("_taken")
    counts = found.groupBy("arm", "trial", "node", "kind").agg(
        F.count(F.when(F.expr(early), 1)).alias("odd"),
        F.count(F.when(F.expr(other), 1)).alias("other"),
        F.count(F.when(always, 1)).alias("undone"),
        F.count(F.when(F.expr(late), 1)).alias("late"),
    )
    counts = counts.where("odd > 0 or other > 0 or undone > 0 or late > 0")
    return sorted(_in_words(counts.toArrow().to_pylist()))


def _in_words(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Trial, str]]:
    for row in rows:
        key, what = (row["arm"], row["trial"]), _ACTS[row["kind"]][1]
        if row["odd"]:
            says = f"node {row['node']} took up {row['odd']} {what} that no request which it tells"
            yield key, f"{says} of had ordered yet, or more often than one did"
        if row["other"]:
            says = f"node {row['node']} took up {row['other']} {what} under the controller epoch"
            yield key, f"{says} of nobody who had ordered or decided it"
        if row["late"]:
            says = f"node {row['node']} took up {row['late']} {what} when the request that ordered"
            yield key, f"{says} it had been handled"
        if row["undone"]:
            says = f"node {row['node']} accepted orders of {row['undone']} {what}"
            yield key, f"{says}, and does not tell of having done it"


def _orders(each: DataFrame, kind: str) -> DataFrame:
    api, _, names = _ACTS[kind]
    partition = F.coalesce("p.error", F.lit(0)) == 0
    return each.where(F.col("api") == api).select(
        *_BOOT,
        F.lit(kind).alias("kind"),
        "correlation_id",
        _says("p.topic", "p.partition", *(f"p.{n}" for n in names)),
        *("_came_t", "_over_t"),
        *(F.lit(None).cast("bigint").alias(name) for name in ("_t", "_begun_t")),
        F.col("_by").cast("int").alias("_by"),
        F.lit(None).cast("int").alias("_under"),
        (F.col("_taken") & partition).alias("_taken"),
    )


def _acts(history: History, kind: str) -> DataFrame:
    rows = history.frame(kind).where("seq is not null and correlation_id is not null")
    under = F.col("controller_epoch")
    if kind == "leader_change":
        rows = rows.join(F.broadcast(_decided(history)), [*_STATE], "left")
        under = F.when(~F.array_contains("_deciders", under), under)
    return rows.select(
        *_BOOT,
        F.lit(kind).alias("kind"),
        "correlation_id",
        _says("topic", "partition", *_ACTS[kind][2]),
        *(F.lit(None).cast("bigint").alias(name) for name in ("_came_t", "_over_t")),
        latest(F.col("t")).alias("_t"),
        earliest(F.col("t")).alias("_begun_t"),
        F.lit(None).cast("int").alias("_by"),
        under.cast("int").alias("_under"),
        F.lit(None).cast("boolean").alias("_taken"),
    )


_STATE: Final = ("arm", "trial", "topic", "partition", "leader_epoch")


def _decided(history: History) -> DataFrame:
    """``_deciders``: by leader epoch, under which controller epochs ZooKeeper's log has it."""
    by: dict[tuple[Any, ...], set[int]] = {}
    for row in history.rows("zk_write"):
        if row["what"] == "state" and row["controller_epoch"] is not None:
            by.setdefault(tuple(row[name] for name in _STATE), set()).add(row["controller_epoch"])
    rows = [
        {**dict(zip(_STATE, state, strict=True)), "_deciders": sorted(epochs)}
        for state, epochs in by.items()
    ]
    columns = "arm string, trial int, topic string, partition int, leader_epoch int"
    return history.table(rows, f"{columns}, _deciders array<bigint>")


def _says(*names: str) -> Column:
    return F.xxhash64(*names).alias("_says")


def unsent(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: answers to what the controller does not tell of having sent then."""
    if not (history.has("control_send") and history.has("control_response")):
        return []
    by = (*_BOOT, "to", "api", "correlation_id")
    numbered = "seq is not null and boot is not null"
    sent = history.frame("control_send").where(numbered).select(*by, "t")
    got = history.frame("control_response").where(f"{numbered} and send_t is not null")
    got = got.withColumn("t", F.col("send_t"))
    lone = got.join(sent, [*by, "t"], "left_anti").groupBy("arm", "trial", "node").count()
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"controller {row['node']} was answered {row['count']} requests that it does not tell "
            "of having sent then",
        )
        for row in lone.toArrow().to_pylist()
    )


def unretried(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: sends that are not the first of their item, and do not follow the one
    before (`control_send`, ``attempt``). A send thread keeps to an item until it is through."""
    if not history.has("control_send"):
        return []
    channel = Window.partitionBy(*_BOOT, "to").orderBy("seq")
    item = F.xxhash64("api", "enqueue_t", "controller_epoch", F.to_json("partitions"))
    sent = history.frame("control_send").where("seq is not null and boot is not null")
    each = sent.select(*_BOOT, "to", "seq", "attempt", item.alias("item"))
    each = each.select(
        *(*_BOOT, "attempt", "item"),
        *(F.lag(name).over(channel).alias(f"_{name}") for name in ("attempt", "item")),
    )
    follows = F.expr("_item = item and _attempt = attempt - 1")
    odd = each.where((F.col("attempt") > 1) & ~F.coalesce(follows, F.lit(False)))
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"controller {row['node']} tried {row['count']} requests again of which it had not "
            "tried the same before",
        )
        for row in odd.groupBy("arm", "trial", "node").count().toArrow().to_pylist()
    )


LOOKED_NS: Final = 3_000_000_000
"""A queue that lasts as long is looked at: several times a second."""


IDLE_NS: Final = 2_000_000_000
"""While a controller is in office its queues are looked at several times in that."""


def overlooked(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: queues of a controller at which nobody looked for seconds, before and
    after something was sent from them."""
    if not (history.has("control_send") and history.has("channel_queue")):
        return []
    by = ("arm", "trial", "node", "to")
    looks = history.frame("channel_queue").select(*by, F.col("t").alias("look_t"))
    known = looks.select(*by).distinct()
    sent = history.frame("control_send").where("seq is not null").select(*by, "t")
    sent = sent.join(F.broadcast(known), [*by], "left_semi")
    whole = sent.groupBy(*by).agg(F.min("t").alias("_first_t"), F.max("t").alias("_last_t"))
    rows = united(looks.select(*by, F.col("look_t").alias("t"), "look_t"), sent)
    # Both ways from their beginning: towards the end Spark would begin anew at every row.
    place, so_far = Window.partitionBy(*by), (Window.unboundedPreceding, 0)
    before = F.max("look_t").over(place.orderBy("t").rowsBetween(*so_far))
    after = F.min("look_t").over(place.orderBy(F.col("t").desc()).rowsBetween(*so_far))
    rows = rows.select("*", before.alias("_before_t"), after.alias("_after_t"))
    rows = rows.where("look_t is null").join(F.broadcast(whole), [*by])
    early = F.col("t") - F.coalesce("_before_t", "_first_t") > IDLE_NS
    late = F.coalesce("_after_t", "_last_t") - F.col("t") > IDLE_NS
    found = rows.where(early & late).groupBy(*by).count()
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"nobody looked at controller {row['node']}'s queue to node {row['to']} for seconds in "
            f"which it sent {row['count']} requests",
        )
        for row in found.toArrow().to_pylist()
    )


def unlooked(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: queues of a controller at which nobody looked, though somebody looked at
    others (`channel_queue`)."""
    if not (history.has("control_send") and history.has("channel_queue")):
        return []
    by = ("arm", "trial", "node", "to")
    looked = history.frame("channel_queue").select(*by).distinct()
    sent = history.frame("control_send").where("seq is not null")
    reigns = sent.groupBy(*by, "controller_epoch").agg((F.max("t") - F.min("t")).alias("_long"))
    long = reigns.where(F.col("_long") >= LOOKED_NS).select(*by).distinct()
    long = long.join(F.broadcast(looked.select(*by[:2]).distinct()), [*by[:2]], "left_semi")
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"nobody looked at controller {row['node']}'s queue to node {row['to']}, as somebody "
            "did at others",
        )
        for row in long.join(F.broadcast(looked), [*by], "left_anti").toArrow().to_pylist()
    )
