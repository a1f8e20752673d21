"""Records: is in the log what was sent, as often as it may be, and nothing that certainly failed?

Guarantee, by how a producer sends (`checkers.history.run_info.Workload.delivery`):

    once        it sends a record at most once (no retries): the record is in the log at most once,
                and not at all when the answer was a definite failure
    once-a-leader  it sends again only when the leader answered that it is none: the same of one
                leader epoch, and of answers that came too soon for a second try (`NO_RETRY_NS`).
                Kafka says so, too, of a record that it has appended, when it loses the leadership
                before acks=all is met (DelayedProduce): the next leader may have it twice. What
                was appended under a leader epoch that was not over is not of an earlier try
                (`failed_writes`). It also does, unasked, when another broker tells it of no such
                leader (`checkers.facts.unnamed`): excused
    idempotent  it sends again until it is answered (KIP-98): the record is in the log once, and a
                producer's records of one partition stand there in the order in which it sent them.
                The promise is one of a producer epoch: librdkafka begins a new one when sequences
                are refused as out of order, and may send again what is there in the old one
    unknown     it may send again, and is promised nothing about it: what took longer than
                `NO_RETRY_NS` may be there twice, or be there although the last try failed. Counted

Violations:
- ``duplicate-append``: a record that was sent once is in the final log more than once;
- ``idempotent-duplicate``, ``idempotent-reordered``: of an idempotent producer; and
  ``idempotent-unmarked``: one in a batch that names no producer, so that nobody knows it again;
- ``sequence-refused``: one was refused the sequence that must come next, and had to give up
  (`refused_sequences`);
- ``repeat-refused``, ``repeat-told-otherwise``: one of an idempotent producer's last five batches
  was sent to its leader once more, which does not know it, or tells another place (`repeats`);
- ``failed-write-visible``: the operation certainly failed, and its record is in the final log;
- ``failed-write-read``: the same, and a consumer was given it, wherever it is now (Jepsen's G1a);
- ``acknowledged-nowhere``: an acknowledgement names no offset (`unplaced`);
- ``append-time-missing``: an acknowledgement says nothing of when the record was appended, though
  its topic has LogAppendTime (`untimed`);
- ``setting-unheeded``: the same, though its topic was given LogAppendTime while it was written to,
  and all has been calm since (`unheeded`);
- ``append-time-wrong``: a record's append time is not what its producer was told, or not of the
  time at which it was sent (`append_times`);
- ``append-times-fell``: along a log, in one leader epoch, append times fall (`append_order`);
- ``misplaced``: a record is in the log of another partition than the one that it was sent to;
- ``outlived-topic``: a record is in the final log that was acknowledged before its topic was
  deleted and made again. (Not of who may have sent it again unasked: that may land late);
- ``past-epoch``: a record is in the final log in a leader epoch that was over before it was sent
  (`checkers.facts.past_epochs`): whoever asks where that epoch ends is told too much (KIP-101);
- ``phantom``: a record is in the final log that no client sent, where run.json names all clients
  and each came to the end of what it had to say;
- ``refused-for-nothing``: a record, or a question, was answered with an error that nothing in a run
  can bring about, or that Kafka does not have for it; ``failed-for-nothing``: with
  UNKNOWN_SERVER_ERROR; ``refused-in-calm``: a record, once all was calm, because there is no such
  partition, or another leads it (`refused_writes`);
- ``altered``: a record was read whose key, value or headers nobody sent so (`altered`);
- ``sent-in-vain``: a record that was sent with acks=0 once all was calm is not in the final log
  (`unanswered`);
- ``cut-off``: who sent a record lost its connection to a broker to which nothing was done
  (`cut_off`);
- ``read-before-sent``: a consumer was given a record before its producer had offered it;
- ``read-otherwise``: a record was given to a consumer under another leader epoch than it has in the
  final log.

A definite failure is an answer after which nothing can have been appended; what is not, is not
believed (`checkers.facts.accounts.INDEFINITE_ERRORS`). Lawful and alike: an operation that nobody
knows the end of may have landed; without idempotence, two records in flight may change places when
their leader does.

Counted: duplicates that may be retries, records that nobody offered. Unknown: a value that was
offered twice, since then nothing can be said of it.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import DELIVERIES, accounts, leaders_table
from checkers.facts.details import all_details
from checkers.facts.faults import faults
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.records.altered import WHOLE, judge_altered
from checkers.promises.records.append_order import fallen_times
from checkers.promises.records.append_times import mistimed
from checkers.promises.records.cut_off import cut_off
from checkers.promises.records.failed_writes import judge_failed
from checkers.promises.records.refused_sequences import refused_sequences
from checkers.promises.records.refused_writes import (
    FAILED,
    IN_CALM,
    judge_failures,
    judge_refused,
    refused_in_calm,
)
from checkers.promises.records.repeats import REPEATED, judge_repeats
from checkers.promises.records.sent_again import judge_again
from checkers.promises.records.unanswered import SENT, judge_unanswered
from checkers.promises.records.unheeded import HEEDED, judge_unheeded
from checkers.promises.records.unplaced import unplaced
from checkers.promises.records.untimed import DATED, judge_untimed

if TYPE_CHECKING:
    from checkers.history.frames import History

OFFERED: Final = "records offered"
FOUND: Final = "records of the final logs"
ORDERED: Final = "records in an idempotent producer's order"
TIMED: Final = "append times held against the answer"


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("produce"):
        return outcome
    if not history.has("log_read"):
        outcome.unknowns.append("no final log was read")
        return outcome
    told_all = _told_all(history)
    for arm, _ in sorted(told_all & _flooded(history)):
        outcome.unjudged(arm, "records that nobody sent: a flood wrote to a topic of the load")
    told_all -= _flooded(history)
    for row in accounts(history):
        _judge(outcome, row, told_all)
    if any(figures.get("sent_again") for figures in outcome.arms.values()):
        judge_again(history, outcome, OFFERED)
    if any(figures.get("failed_after_retries") for figures in outcome.arms.values()):
        judge_failed(history, outcome, OFFERED)
    for refused in judge_refused(history):
        outcome.add(refused)
    for refused in refused_sequences(history, outcome, OFFERED):
        outcome.add(refused)
    judge_repeats(history, outcome, OFFERED)
    for finding, n in (
        *(
            *cut_off(history, outcome),
            *judge_failures(history),
            *unplaced(history),
            *refused_in_calm(history, outcome, OFFERED),
        ),
        *_reordered(history, outcome),
        *fallen_times(history),
    ):
        outcome.add(finding, n)
    for row in mistimed(history):
        outcome.saw(row["arm"], row["trial"], TIMED, row["compared"])
        if row["wrong"]:
            outcome.add(_mistimed(row), row["wrong"])
    judge_untimed(history, outcome)
    judge_unheeded(history, outcome)
    judge_altered(history, outcome)
    judge_unanswered(history, outcome)
    return outcome


def _told_all(history: History) -> set[tuple[str, int]]:
    """The trials of which every record that was sent is known: all clients are named, and each that
    writes came to its end, with nothing missing."""
    whole = {
        (row["arm"], row["trial"], row["process"])
        for row in history.rows("source")
        if row["closed"] and not (row["missing"] or row["rejected"] or row["torn"])
    }
    writers = {
        key: [w.process for w in workloads if w.acks is not None]
        for key, workloads in history.run.workloads.items()
    }
    return {k for k, of in writers.items() if of and all((*k, process) in whole for process in of)}


def _flooded(history: History) -> set[tuple[str, int]]:
    """Trials in which a flood wrote to a topic that is not its own (`faults.flood.produce`)."""
    return {one.trial for one in faults(history) if all_details(one.rows).get("writes_to")}


def _judge(outcome: Outcome, row: dict[str, Any], told_all: Container[tuple[str, int]]) -> None:
    arm, trial, n = row["arm"], row["trial"], row["n"]
    figures = outcome.arm(arm)
    outcome.saw(arm, trial, FOUND, row["found"])
    if not row["offered"]:
        figures["foreign_records"] = figures.get("foreign_records", 0) + row["found"]
        if row["found"] and (arm, trial) in told_all:
            _all(outcome, row, "phantom", "was sent by nobody, yet it is in the final log")
        return
    outcome.saw(arm, trial, OFFERED, n)
    if row["again"]:
        outcome.unknown(arm, trial, f"{n} values were offered twice, the first {row['lowest']}")
        return
    if row["misread"]:
        _all(outcome, row, "read-otherwise", "was read under another leader epoch than it has")
    if row["early"]:
        _all(outcome, row, "read-before-sent", "was given to a consumer before it was offered")
    if row["strayed"]:
        _all(outcome, row, "misplaced", "is in the log of a partition that it was not sent to")
    by_leader = row["delivery"] == DELIVERIES["once-a-leader"]
    idempotent = row["delivery"] == DELIVERIES["idempotent"]
    certain = row["quick"] == 1 or (row["delivery"] > 0 and not by_leader)
    if row["past"]:
        _all(outcome, row, "past-epoch", "was sent after the leader epoch that it has was over")
    if row["outlived"] and (row["quick"] == 1 or row["delivery"] == DELIVERIES["once"]):
        says = "was acknowledged before its topic was deleted and made again, and is in the new log"
        _all(outcome, row, "outlived-topic", says)
    if row["copies"] > 1:
        figures["duplicates"] = figures.get("duplicates", 0) + n
        again = (by_leader or idempotent) and row["apart"] and row["quick"] != 1
        if by_leader and not again and not certain:
            figures["sent_again"] = figures.get("sent_again", 0) + n
        elif certain and not again:
            rule = "idempotent-duplicate" if idempotent else "duplicate-append"
            how = "by an idempotent producer" if idempotent else "once"
            _all(outcome, row, rule, f"sent {how}, is in the final log more than once")
    if row["failed"] and row["copies"]:
        if certain:
            says = "certainly failed, yet it is in the final log"
            _all(outcome, row, "failed-write-visible", says)
        else:
            figures["failed_after_retries"] = figures.get("failed_after_retries", 0) + n
    if row["failed"] and row["given"] and certain:
        _all(outcome, row, "failed-write-read", "certainly failed, yet a consumer was given it")


def _all(outcome: Outcome, row: dict[str, Any], rule: str, says: str) -> None:
    named = sorted({row["lowest"], row["highest"]})
    for number, value in enumerate(named):
        picks = (
            Pick("produce", {"value": value}, rows=2),
            Pick("fetch", {"value": value}, rows=2),
            Pick("log_read", {"value": value}, rows=6),
        )
        found = Finding(rule, f"value {value}, {says}", row["arm"], row["trial"], picks)
        outcome.add(found, 1 if number else row["n"] - len(named) + 1)


def _reordered(history: History, outcome: Outcome) -> list[tuple[Finding, int]]:
    """Values of one producer grow with each record that it sends."""
    own = [
        {"arm": a, "trial": t, "process": p}
        for (a, t, p), d in history.run.deliveries().items()
        if d == "idempotent"
    ]
    if not own:
        return []
    table = history.table(own, "arm string, trial int, process string")
    keys = ["arm", "trial", "topic", "partition"]
    sent = history.frame("produce").join(F.broadcast(table), ["arm", "trial", "process"])
    sent = sent.where("value is not null").select(*keys, "process", "value").distinct()
    leaders = leaders_table(history).select(*keys, "leader_node")
    final = history.frame("log_read").join(F.broadcast(leaders), keys).where("node = leader_node")
    life = F.coalesce("producer_epoch", F.lit(-1)).alias("_life")
    final = final.select(*keys, "value", "offset", "producer_epoch", life)
    rows = final.join(sent, [*keys, "value"])
    order = Window.partitionBy(*keys, "process", "_life").orderBy("offset")
    rows = rows.withColumn("_before", F.lag("value").over(order))
    back, bare = F.col("value") < F.col("_before"), F.col("producer_epoch") == -1
    counted = rows.groupBy(*keys, "process").agg(
        F.count("*").alias("records"),
        F.sum(back.cast("int")).alias("n"),
        F.min(F.when(back, F.struct("offset", "value", "_before"))).alias("first"),
        F.count(F.when(bare, 1)).alias("bare"),
        F.min(F.when(bare, F.struct("offset", "value"))).alias("first_bare"),
    )
    found = []
    for row in counted.collect():
        outcome.saw(row["arm"], row["trial"], ORDERED, row["records"])
        if row["n"]:
            found.append((_reordering(row), row["n"]))
        if row["bare"]:
            found.append((_unmarked(row), row["bare"]))
    return found


def _unmarked(row: Any) -> Finding:
    value, at = row["first_bare"]["value"], {"topic": row["topic"], "partition": row["partition"]}
    says = (
        f"{row['process']}'s value {value} is at {row['topic']}-{row['partition']} offset "
        f"{row['first_bare']['offset']} as nobody's: sent again it would be taken again"
    )
    picks = tuple(Pick(kind, {**at, "value": value}, rows=2) for kind in ("produce", "log_read"))
    return Finding("idempotent-unmarked", says, row["arm"], row["trial"], picks)


def _reordering(row: Any) -> Finding:
    first, place = row["first"], f"{row['topic']}-{row['partition']}"
    at = {"topic": row["topic"], "partition": row["partition"]}
    picks = tuple(
        Pick(kind, {**at, "value": value}, rows=2)
        for value in (first["value"], first["_before"])
        for kind in ("produce", "log_read")
    )
    says = (
        f"{row['process']}'s value {first['value']} is at {place} offset {first['offset']}, after "
        f"value {first['_before']}, which it sent later"
    )
    return Finding("idempotent-reordered", says, row["arm"], row["trial"], picks)


def _mistimed(row: dict[str, Any]) -> Finding:
    one, at = row["example"], {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        "append-time-wrong",
        f"value {one['value']} at offset {one['offset']} of {row['topic']}-{row['partition']} has "
        f"the append time {one['stored_ms']}; its producer was told {one['told_ms']}, and sent and "
        "heard of it at another time than that",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {**at, "value": one["value"], "t": one["t"]}, rows=1),
            Pick("log_read", {**at, "offset": one["offset"]}, rows=3),
        ),
    )


PROMISE: Final = Promise(
    name="records",
    says="In the log is what was sent, as often as it may be, and nothing that certainly failed.",
    source="Jepsen's Kafka workload (duplicate, G1a); KIP-98 (idempotent producer)",
    rules={
        "duplicate-append": "A record that was sent once is in the log once.",
        "idempotent-duplicate": "An idempotent producer's record is in the log once.",
        "idempotent-unmarked": "An idempotent producer's record is kept as that producer's.",
        "idempotent-reordered": "An idempotent producer's records stand in the order of sending.",
        "sequence-refused": "An idempotent producer is not refused the sequence that comes next.",
        "repeat-refused": "An idempotent producer's last five batches may be sent again.",
        "repeat-told-otherwise": "What is sent again is where it was said to be.",
        "failed-write-visible": "A record whose write certainly failed is not in the log.",
        "misplaced": "A record is in the log of the partition to which it was sent.",
        "past-epoch": "A record has the leader epoch in which it was taken.",
        "outlived-topic": "A topic's records go with it, whatever is made of its name.",
        "phantom": "In the log are only records that somebody sent.",
        "cut-off": "Who sends a record to a broker that nothing was done to is answered.",
        "refused-for-nothing": "A sound record, or question, is not refused as if it were none.",
        FAILED: "No broker fails a client, unless its disk was broken.",
        IN_CALM: "Who finds the leader is not told, once all is calm, that it does not lead.",
        "altered": "A record keeps the key, value and headers that it was sent with.",
        "sent-in-vain": "What is sent with acks=0 is appended, if nothing is in its way.",
        "read-before-sent": "No consumer is given a record that nobody has sent yet.",
        "read-otherwise": "A record keeps the leader epoch under which it was read.",
        "failed-write-read": "No consumer is given a record whose write certainly failed.",
        "acknowledged-nowhere": "Who is told that a record is there is told at which offset.",
        "setting-unheeded": "A leader goes by its topic's settings as they are.",
        "append-time-missing": "Who dates what is appended says so to who sent it.",
        "append-time-wrong": "A record's append time is when it was appended, and as was told.",
        "append-times-fell": "A leader dates no record before one that it appended earlier.",
    },
    evidence={
        OFFERED: "by producers, whatever came of it",
        FOUND: "of the final leaders",
        WHOLE: "by consumers and at the end: key, value and headers",
        ORDERED: "where there is such a producer",
        REPEATED: "of an idempotent producer's last five, acknowledged both times",
        SENT: "by who asks for no answer, on partitions whose leader stayed",
        HEEDED: "while it was written to, and after all was calm",
        DATED: "by who has LogAppendTime, and is no black box",
        TIMED: "of acknowledged records, on topics with LogAppendTime",
    },
    unknown_when=(
        "no final log was read",
        "a value was offered twice",
    ),
    blind=(
        "duplicates of a producer that may retry and took long, and what is in the log although "
        "its last try failed: an earlier one may have landed",
        "duplicates with acks=0",
        "of more than 200,000 records, one that is as it should be, with its neighbours, but was "
        "given before it was offered, by less than its producer takes to send 64",
        "what a leader appended twice while another broker told clients of no such leader, of who "
        "sends again only to another one",
        "without ZooKeeper, and of who may send again unasked: records of a topic's earlier life",
        "append times where nobody was to be told any; producer epochs of who is not idempotent",
        "what an idempotent producer is told of its epoch, or of a duplicate, if it goes on: its "
        "client begins a new epoch by itself",
    ),
    timed=frozenset({IN_CALM}),
    check=check,
)
