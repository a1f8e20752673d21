"""Control requests as brokers handled them and as forgers had them answered, in one frame; and
which leader epochs brokers are known to have accepted.

A forged request shows twice: as the forger saw it and as the broker did. ``begin_t`` is the latest
moment before which the broker cannot have looked at it, ``end_t`` the moment by which it had been
answered, both widened by the rows' own error (`checkers.facts.spans`); ``life`` is the broker's
life that it fell into whole, null when none (`checkers.facts.lives`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.histogram import grouped
from checkers.facts.lives import with_life
from checkers.facts.spans import earliest, latest
from checkers.history.schema import FORGER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

CONTROL_APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
ID: Final = ["arm", "trial", "node", "life"]
REQUEST: Final = ["api", "correlation_id", "client_id", "source"]
PLACE: Final = [*ID, "topic", "partition"]
FORGED: Final = f"(coalesce(client_id, '') like '{FORGER}%')"
"""Of a control request: a forger sent it."""
_BINDING: Final = (
    "api = 'LEADER_AND_ISR' and (coalesce({leader}, 0) = node or "
    f"coalesce({{leader}}, 0) >= 0 and not {FORGED}) as binding"
)


def requests(history: History) -> DataFrame:
    """Control requests as brokers handled them and as forgers had them answered."""
    return history.shared("control requests", lambda: _requests(history))


def _requests(history: History) -> DataFrame:
    return with_life(history, all_requests(history), F.col("begin_t"), F.col("end_t"))


def all_requests(history: History) -> DataFrame:
    """Those of `requests`, without their ``life``."""
    lived = (
        history.frame("control_request")
        .where(F.col("api").isin(*CONTROL_APIS))
        .select(
            "arm",
            "trial",
            "node",
            *REQUEST[:3],
            F.lit("control_request").alias("source"),
            "controller_id",
            "controller_epoch",
            "broker_epoch",
            "own_broker_epoch",
            "error",
            F.lit(None).cast("string").alias("lie"),
            earliest(F.coalesce("dequeue_t", "receive_t", "t")).alias("begin_t"),
            latest(F.coalesce("handled_t", "t")).alias("end_t"),
            "t",
        )
    )
    forged = (
        history.frame("forged")
        .where("type = 'ok' and error is not null")
        .select(
            "arm",
            "trial",
            "node",
            *REQUEST[:3],
            F.lit("forged").alias("source"),
            "controller_id",
            "controller_epoch",
            "broker_epoch",
            F.lit(None).cast("long").alias("own_broker_epoch"),
            "error",
            "lie",
            F.col("invoke_t").alias("begin_t"),
            F.col("t").alias("end_t"),
            "t",
        )
    )
    return lived.unionAll(forged).where(F.col("api").isin(*CONTROL_APIS))


def counted(history: History) -> list[dict[str, Any]]:
    """How many requests there were: arm, trial, source, controller_epoch, error, lie, n."""

    def make() -> list[dict[str, Any]]:
        names = ["arm", "trial", "source", "controller_epoch", "error", "lie"]
        return grouped(requests(history).groupBy(*names).count())

    found: list[dict[str, Any]] = history.memo("control requests counted", make)
    return [{**row, "n": row["count"]} for row in found]


def accepted_leader_epochs(history: History) -> DataFrame:
    """Those of `answered_leader_epochs` that were accepted."""
    return answered_leader_epochs(history).where("error = 0")


def answered_leader_epochs(history: History) -> DataFrame:
    """Partitions of LeaderAndIsr and StopReplica requests that were accepted as a whole, one row
    each, with the partition's own ``error``; and ``binding``: whether its epoch is the partition's
    from then on, if it was accepted. What names no leader, or another that the broker does not know
    to live, is answered without error, and changes nothing (ReplicaManager.makeFollowers). A
    controller tells of brokers before it tells who leads; a forger may come to one that has just
    begun, and knows nobody."""
    return history.shared("answered leader epochs", lambda: _answered(history))


def _answered(history: History) -> DataFrame:
    return with_life(history, all_answered(history), F.col("begin_t"), F.col("end_t"))


def all_answered(history: History) -> DataFrame:
    """Those of `answered_leader_epochs`, without their ``life``."""
    rows = history.frame("control_request").where("error = 0 and api != 'UPDATE_METADATA'")
    lived = rows.select(
        *("arm", "trial", "node", *REQUEST[:3]),
        F.lit("control_request").alias("source"),
        earliest(F.coalesce("dequeue_t", "receive_t", "t")).alias("begin_t"),
        latest(F.coalesce("handled_t", "t")).alias("end_t"),
        "t",
        F.explode("partitions").alias("p"),
    )
    part = (
        "p.topic",
        "p.partition",
        "p.leader_epoch",
        "p.error",
        _BINDING.format(leader="p.leader"),
    )
    lived = lived.selectExpr("*", *part).drop("p")
    forged = (
        history.frame("forged")
        .where("type = 'ok' and error = 0 and api != 'UPDATE_METADATA'")
        .select(
            *("arm", "trial", "node", *REQUEST[:3]),
            F.lit("forged").alias("source"),
            F.col("invoke_t").alias("begin_t"),
            F.col("t").alias("end_t"),
            *("t", "topic", "partition", "leader_epoch"),
            F.col("partition_error").alias("error"),
            F.expr(_BINDING.format(leader="leader")),
        )
    )
    both = lived.unionAll(forged)
    return both.where("error is not null and leader_epoch >= 0 and topic is not null")


def known_leader_epochs(history: History, *, in_one_life: bool = True) -> DataFrame:
    """Leader epochs that a broker is known to have accepted: by an answer (LeaderAndIsr), or by its
    own word. `PLACE`, newer, known_t (by when), known_from. ``in_one_life``: only those that were
    certainly accepted within one life."""
    rows = accepted_leader_epochs(history)
    applied = rows.where("binding")
    applied = applied.where("life is not null") if in_one_life else applied
    bound = applied.select(*PLACE, "leader_epoch", "begin_t", "end_t").unionAll(_changes(history))
    return bound.select(
        *PLACE,
        F.col("leader_epoch").alias("newer"),
        F.col("end_t").alias("known_t"),
        F.col("begin_t").alias("known_from"),
    )


def _changes(history: History) -> DataFrame:
    """Epochs that a broker says it applied."""
    rows = history.frame("leader_change").where("leader_epoch >= 0")
    rows = with_life(history, rows, F.col("t"), F.col("t"))
    return rows.select(
        *PLACE,
        "leader_epoch",
        earliest(F.col("t")).alias("begin_t"),
        latest(F.col("t")).alias("end_t"),
    )


def without_anew(history: History, found: DataFrame) -> DataFrame:
    """Drop pairs with a StopReplica of that partition between them: epochs begin anew after it.

    That the broker says it stopped is not enough: somebody must have sent it a StopReplica for the
    partition before, a controller by its own row or a forger.
    """
    key = ["arm", "trial", "node", "topic", "partition"]
    anew = _stopped(history, key).join(_asked_to_stop(history, key), key)
    anew = anew.where("_asked_t <= _stop_t").select(*key, "_stop_t").alias("a")
    same = F.lit(True)
    for name in key:
        same = same & (F.col(f"f.{name}") == F.col(f"a.{name}"))
    # The stop that is itself being judged (StopReplica with an old epoch) does not excuse itself.
    between = (F.col("a._stop_t") >= F.col("f.known_from")) & (
        F.col("a._stop_t") < F.col("f.begin_t")
    )
    return found.alias("f").join(anew, same & between, "left_anti")


def _stopped(history: History, key: list[str]) -> DataFrame:
    """When brokers stopped partitions, by their own word."""
    stopped = history.frame("replica_stop").select(*key, latest(F.col("t")).alias("_stop_t"))
    done = history.frame("control_request").where("api = 'STOP_REPLICA' and error = 0")
    done = done.select("arm", "trial", "node", "t", F.explode("partitions").alias("p"))
    done = done.where("p.error = 0 and coalesce(p.leader_epoch, -1) < 0")
    return stopped.unionAll(
        done.select("arm", "trial", "node", "p.topic", "p.partition", F.col("t").alias("_stop_t"))
    )


def _asked_to_stop(history: History, key: list[str]) -> DataFrame:
    """From when on it may have been asked to, by the word of whoever asked."""
    sent = history.frame("control_send").where("api = 'STOP_REPLICA'")
    sent = sent.select(
        "arm",
        "trial",
        F.col("to").alias("node"),
        earliest(F.col("t")).alias("t"),
        F.explode("partitions").alias("p"),
    )
    by_controllers = sent.select("arm", "trial", "node", "p.topic", "p.partition", "t")
    forged = history.frame("forged").where("api = 'STOP_REPLICA' and topic is not null")
    both = by_controllers.unionAll(forged.select(*key, F.col("invoke_t").alias("t")))
    return both.groupBy(*key).agg(F.min("t").alias("_asked_t"))


def accepted_by(history: History) -> DataFrame:
    """Controllers' requests that, by their own word, were accepted: arm, trial, node (who accepted
    it), t (by when, ns), and what was sent: api, controller_epoch, partitions."""
    same = ["arm", "trial", "node", "boot", "to", "correlation_id"]
    done = history.frame("control_response").where("error = 0")
    done = done.select(*same, latest(F.col("t")).alias("t"))
    sent = history.frame("control_send").select(*same, "api", "controller_epoch", "partitions")
    return sent.join(done, same).drop("node", "boot").withColumnRenamed("to", "node")
