"""Refusals: a request is refused when it is stale and only then, with Kafka's error, and for good.

What must not be accepted at all is `checkers.promises.fencing`. This is the other half, Kafka's
table (KafkaApis, ReplicaManager.becomeLeaderOrFollower and stopReplicas; broker epochs first):

    request                                     must be refused with
    older broker epoch (-1 passes)              77 STALE_BROKER_EPOCH
    older controller epoch                      11 STALE_CONTROLLER_EPOCH
    LeaderAndIsr, leader epoch older or equal   11 for that partition
    StopReplica, leader epoch older (and >= 0)  74 FENCED_LEADER_EPOCH for that partition

Violations:
- ``refused-with-wrong-error``: certainly stale, and refused with another error than that;
- ``current-epoch-refused``: refused with 77 although its broker epoch is the newest that ZooKeeper
  has registered for that broker; with 11 although its controller epoch is the newest that anybody
  was elected with; or, a partition, with 11 although its leader epoch is above every one that the
  broker can have known (KAFKA-9839 is of this kind: the broker stays behind for good);
- ``failed-in-handling``: a controller's own request, or a partition of it, answered with an error
  that Kafka has for no such request (`failures`): not refused, but failed;
- ``accepted-but-not-applied``: a LeaderAndIsr that was accepted for a partition, in whose leader
  epoch the broker neither led nor followed;
- ``refused-but-applied``: a change that bears the number of a refused request, traced while that
  was being handled.

Lawful and alike: a broker that registers anew knows of it before the watch does (`LATE_WATCH_NS`);
a forger who came from the future, and was believed, has everybody else refused; a disk that failed
(56) and another topic id (103) are looked at before leader epochs; authorization (29, 31, 58).
Blind: a broker epoch that ZooKeeper never had (KRaft); state that changes without a trace.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

from checkers.facts.control_requests import (
    ID,
    PLACE,
    REQUEST,
    answered_leader_epochs,
    counted,
    known_leader_epochs,
    requests,
    without_anew,
)
from checkers.facts.details import details
from checkers.facts.lives import with_start
from checkers.facts.unions import united
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import Sort, add, one_of_each, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.refusals.applied import judge_applied
from checkers.promises.refusals.failures import APPLIED, REQUESTS, judge_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

STALE_CONTROLLER_EPOCH: Final = 11
FENCED_LEADER_EPOCH: Final = 74
STALE_BROKER_EPOCH: Final = 77
_UNAUTHORIZED: Final = (29, 31, 58)
_LOOKED_AT_BEFORE: Final = (56, 103)
LATE_WATCH_NS: Final = 2_000_000_000
"""So much later may the watch see what a broker or controller knew when ZooKeeper answered it."""
REFUSED: Final = "refused control requests"
Row = Mapping[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("control_request") and not history.has("forged"):
        return outcome
    answered = Answered(set(), set())
    for row in counted(history):
        outcome.saw(row["arm"], row["trial"], REQUESTS, row["n"])
        outcome.saw(row["arm"], row["trial"], REFUSED, row["n"] if row["error"] else 0)
        answered.errors.add(row["error"] or 0)
    answered.of_partitions.update(_partition_errors(history))
    suspects = (
        ("refused-with-wrong-error", _wrong_says, _wrong_errors(history, answered)),
        ("refused-with-wrong-error", _wrong_says, _wrong_partition_errors(history, answered)),
        *(("current-epoch-refused", _current_says, rows)
          for rows in _current_refused(history, outcome, answered)),
        ("current-epoch-refused", _unheard_says, _current_leader_epoch_refused(history, answered)),
    )  # fmt: skip
    asked = [
        rows.withColumn(_WAY, F.lit(number))
        for number, (_, _, rows) in enumerate(suspects)
        if rows is not None
    ]
    if asked:
        together = functools.reduce(united, asked)
        # A forged request shows twice: as the forger saw it and as the broker did.
        once = one_of_each(together, (_WAY, *_ONE), ["begin_t", "source"])
        rules, words = [rule for rule, _, _ in suspects], [says for _, says, _ in suspects]
        found = tally(once, None, partial(_sort, rules))
        add(outcome, found, partial(_finding, words))
    if answered.without() | {error for _, error in answered.of_partitions} - {0}:
        judge_applied(history, outcome)
    judge_failures(history, outcome)
    return outcome


_WAY: Final = "_way"
"""By which of the ways to break a rule a row is suspect."""
_ONE: Final = (
    *("arm", "trial", "node", "api", "correlation_id", "topic", "partition"),
    *("what", "older", "newer", "error", "must"),
)


def _sort(rules: Sequence[str], row: Row) -> Sort:
    order = (row[_WAY], row["begin_t"], row["node"], row["correlation_id"])
    return Sort((), order, rules[row[_WAY]])


class Answered(NamedTuple):
    """What was answered at all, from which most runs can be cleared: the errors of whole requests
    (0: none), and (api, error) of partitions."""

    errors: set[int]
    of_partitions: set[tuple[str, int]]

    def without(self, *errors: int) -> set[int]:
        """The errors of whole requests, but for these."""
        return self.errors - {0, *errors}


def _partition_errors(history: History) -> list[tuple[str, int]]:
    lived = history.frame("control_request").select("api", F.explode("partitions").alias("p"))
    forged = history.frame("forged").select("api", F.col("partition_error").alias("error"))
    both = lived.select("api", F.col("p.error").alias("error")).unionAll(forged)
    found = both.where("error is not null").distinct().collect()
    return [(row["api"], row["error"]) for row in found]


# -- the right error ----------------------------------------------------------------------------


def _wrong_errors(history: History, answered: Answered) -> DataFrame | None:
    """Requests that were certainly stale as a whole, and how they were answered."""
    if not answered.without(*_UNAUTHORIZED, STALE_BROKER_EPOCH):
        return None
    rows = requests(history).where("life is not null and error is not null")
    stated = rows.where("own_broker_epoch is not null")
    stated = stated.withColumnRenamed("own_broker_epoch", "_own")
    own = stated.groupBy(*ID, "_own").agg(F.min("end_t").alias("_t"))
    accepted = rows.where("error = 0").withColumnRenamed("controller_epoch", "_heard")
    heard = accepted.groupBy(*ID, "_heard").agg(F.min("end_t").alias("_t"))
    refused = rows.where(F.col("error") != 0).where(~F.col("error").isin(*_UNAUTHORIZED))
    by_broker = refused.where(f"broker_epoch >= 0 and error <> {STALE_BROKER_EPOCH}")
    by_broker = by_broker.join(F.broadcast(own), ID).where("_own > broker_epoch and _t < begin_t")
    by_controller = refused.where(~F.col("error").isin(STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH))
    by_controller = by_controller.join(F.broadcast(heard), ID)
    by_controller = by_controller.where("_heard > controller_epoch and _t < begin_t")
    parts = []
    for frame, what, newer, must in (
        (by_broker, "broker_epoch", "_own", STALE_BROKER_EPOCH),
        (by_controller, "controller_epoch", "_heard", STALE_CONTROLLER_EPOCH),
    ):
        each = frame.groupBy(*ID, *REQUEST, "begin_t", "t", "error", F.col(what).alias("older"))
        suspects = each.agg(F.max(newer).alias("newer")).withColumn("must", F.lit(must))
        parts.append(_shaped(suspects, what.replace("_", " ")))
    # Broker epochs are looked at first.
    return one_of_each(parts[0].unionByName(parts[1]), (*ID, *REQUEST, "t"), ["what"])


def _wrong_partition_errors(history: History, answered: Answered) -> DataFrame | None:
    """Partitions whose leader epoch was certainly older than one that the broker had accepted."""
    right = {
        (api, FENCED_LEADER_EPOCH if api == "STOP_REPLICA" else STALE_CONTROLLER_EPOCH)
        for api, _ in answered.of_partitions
    }
    odd = answered.of_partitions - right
    if not any(error not in (0, *_LOOKED_AT_BEFORE) for _, error in odd):
        return None
    rows = answered_leader_epochs(history).where("life is not null and error <> 0")
    fenced = F.when(F.col("api") == "STOP_REPLICA", FENCED_LEADER_EPOCH).otherwise(
        STALE_CONTROLLER_EPOCH
    )
    rows = rows.withColumn("must", fenced)
    rows = rows.where(F.col("error") != F.col("must"))
    rows = rows.where(~F.col("error").isin(*_LOOKED_AT_BEFORE))
    found = rows.join(known_leader_epochs(history), PLACE)
    found = without_anew(history, found.where("newer > leader_epoch and known_t < begin_t"))
    each = found.groupBy(*PLACE, *REQUEST, "begin_t", "t", "error", "must", "leader_epoch")
    suspects = each.agg(F.max("newer").alias("newer")).withColumnRenamed("leader_epoch", "older")
    return _shaped(suspects, "leader epoch")


def _shaped(rows: DataFrame, what: str) -> DataFrame:
    """Suspects of every kind in the same columns: refused with ``older`` although, or because, the
    broker knew ``newer``."""
    known = set(rows.columns)
    types = {"topic": "string", "partition": "int", "newer": "long", "must": "int"}
    columns = [
        (F.col(name) if name in known else F.lit(None)).cast(kind).alias(name)
        for name, kind in types.items()
    ]
    older = F.col("older").cast("long").alias("older")
    names = [name for name in (*ID, *REQUEST, "begin_t", "t", "error") if name in known]
    return rows.select(*names, older, *columns, F.lit(what).alias("what"))


def _wrong_says(row: Row) -> str:
    return (
        f"node {row['node']} refused {row['api']} no. {row['correlation_id']}{_for(row)} with "
        f"{row['what']} {row['older']} (it knew {row['newer']}) with error {row['error']}, not "
        f"{row['must']}"
    )


def _for(row: Row) -> str:
    return "" if row["topic"] is None else f" for {row['topic']}-{row['partition']}"


# -- refused although current -------------------------------------------------------------------


def _current_refused(history: History, outcome: Outcome, answered: Answered) -> Iterator[DataFrame]:
    refused = requests(history).where(
        F.col("error").isin(STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH)
    )
    for code, what, newest in (
        (STALE_BROKER_EPOCH, "broker_epoch", _registered(history)),
        (STALE_CONTROLLER_EPOCH, "controller_epoch", _elected(history)),
    ):
        if not newest:
            for arm in history.arms:
                outcome.unjudged(arm, f"refusals with {code}: nobody tells the true {what}")
            continue
        if code not in answered.errors:
            continue
        table = history.table(
            newest, "arm string, trial int, _node int, _epoch bigint, _from bigint"
        )
        rows = refused.where(F.col("error") == code)
        joined = rows.join(F.broadcast(table), ["arm", "trial"])
        known = joined.where("_node is null or _node = node").where("_from <= end_t")
        each = known.groupBy(
            "arm", "trial", "node", *REQUEST, "begin_t", "t", "error", F.col(what).alias("older")
        ).agg(F.max("_epoch").alias("newer"))
        yield _shaped(each.where("older >= newer"), what.replace("_", " "))


def _current_says(row: Row) -> str:
    return (
        f"node {row['node']} refused {row['api']} no. {row['correlation_id']} with error "
        f"{row['error']} although its {row['what']} {row['older']} is the newest that there was "
        f"({row['newer']})"
    )


def _registered(history: History) -> list[dict[str, Any]]:
    """Broker epochs as ZooKeeper has them, each from when the broker may have known it."""
    found = []
    for row in history.rows("node_event"):
        epoch = details(row).get("broker_epoch")
        if row["event"] == "registered" and isinstance(epoch, int):
            found.append(_newest(row, row["node"], epoch))
    return found


def _elected(history: History) -> list[dict[str, Any]]:
    """Controller epochs of elections, and those of forgers who were believed (by that broker)."""
    elected = [
        _newest(row, None, row["controller_epoch"])
        for row in history.rows("controller")
        if row["event"] == "elected" and row["controller_epoch"] is not None
    ]
    if not elected:
        return []
    believed = [
        _newest({**row, "t": row["invoke_t"]}, row["node"], row["controller_epoch"])
        for row in history.rows("forged")
        if row["controller_epoch"] is not None and row["error"] in (0, None)
    ]
    return elected + believed


def _newest(row: Any, node: int | None, epoch: int) -> dict[str, Any]:
    from_t = row["t"] - (row["error_ns"] or 0) - LATE_WATCH_NS
    return {
        "arm": row["arm"], "trial": row["trial"], "_node": node, "_epoch": epoch, "_from": from_t,
    }  # fmt: skip


def _current_leader_epoch_refused(history: History, answered: Answered) -> DataFrame | None:
    """A LeaderAndIsr's partition refused although its leader epoch is above all that the broker
    accepted, or says it did, since it was started and until it had answered: a broker that shuts
    down serves on. Who was refused for the whole request is not judged here: the partitions' own
    errors say nothing then."""
    if ("LEADER_AND_ISR", STALE_CONTROLLER_EPOCH) not in answered.of_partitions:
        return None
    rows = answered_leader_epochs(history).where("life is not null and api = 'LEADER_AND_ISR'")
    rows = rows.where(F.col("error") == STALE_CONTROLLER_EPOCH)
    rows = with_start(history, rows, F.col("begin_t"))
    at = [name for name in PLACE if name != "life"]
    known = known_leader_epochs(history, in_one_life=False)
    known = known.select(*at, "newer", "known_t", "known_from").alias("k")
    same = (F.col("newer") >= F.col("leader_epoch")) & (F.col("known_from") <= F.col("end_t"))
    same = same & (F.col("known_t") >= F.col("started_t"))
    for name in at:
        same = same & (F.col(f"r.{name}") == F.col(f"k.{name}"))
    suspects = rows.alias("r").join(known, same, "left_anti")
    return _shaped(suspects.withColumnRenamed("leader_epoch", "older"), "leader epoch")


def _unheard_says(row: Row) -> str:
    return (
        f"node {row['node']} refused {row['api']} no. {row['correlation_id']}{_for(row)} with "
        f"error {STALE_CONTROLLER_EPOCH} although its leader epoch {row['older']} is newer than "
        "any that it had accepted"
    )


def _finding(words: Sequence[Callable[[Row], str]], rule: str, row: Row) -> Finding:
    at = None if row["topic"] is None else (row["topic"], row["partition"])
    node = {"node": row["node"]}
    same = {**node, "api": row["api"], "correlation_id": row["correlation_id"]}
    picks = [
        Pick("node_event", {**node, "event": "registered"}, to_t=row["t"], last=True, rows=1),
        Pick("controller", {"event": "elected"}, to_t=row["t"], last=True, rows=1),
        Pick("control_request", same, row["begin_t"], row["t"], at=at, rows=1),
    ]
    if at is not None:
        epochs = {**node, "topic": at[0], "partition": at[1]}
        picks.append(Pick("leader_change", epochs, to_t=row["t"], last=True, rows=1))
    if row["source"] == "forged":
        picks.append(Pick("forged", same, row["t"], row["t"], rows=1))
    return Finding(rule, words[row[_WAY]](row), row["arm"], row["trial"], tuple(picks))


PROMISE: Final = Promise(
    name="refusals",
    says="A stale control request is refused with Kafka's error for it and changes nothing; a "
    "current one is not refused.",
    source="KafkaApis, ReplicaManager.becomeLeaderOrFollower and stopReplicas; KIP-380; KAFKA-9839",
    rules={
        "refused-with-wrong-error": "A stale request is refused with Kafka's error for it.",
        "current-epoch-refused": "A request with the newest epochs is not refused as stale.",
        "accepted-but-not-applied": "An accepted LeaderAndIsr makes a leader or a follower.",
        "failed-in-handling": "A controller's request is handled or refused; it does not fail.",
        "refused-but-applied": "A refused request changes nothing.",
    },
    evidence={
        REQUESTS: "as brokers handled them, and forged ones as answered",
        REFUSED: "those with an error of their own",
        APPLIED: "of brokers that number their rows",
    },
    unknown_when=("a broker says that its disk failed, and nobody had broken it",),
    blind=(
        "broker epochs that ZooKeeper never had (KRaft)",
        "changes that leave no trace",
        "what a forger was to be answered and never was: only its broker tells of it then",
    ),
    check=check,
)
