"""Log starts: does a log begin where it was told to, and stay so?

Guarantee (KIP-107): who has records deleted (DeleteRecords) is answered with a low watermark when
no live replica can be read below it any more. From then on whoever leads tells no earlier
beginning, and nothing above what was asked for is touched.

Violations:
- ``deleted-too-little``: a deletion was answered with a lower low watermark than it had asked for;
- ``deletion-refused``: a deletion was refused as out of range (OFFSET_OUT_OF_RANGE), although the
  broker had told before that its log ends there, or later, and told the same leader epoch as its
  own before that and after: a leader's high watermark, up to which it deletes, does not go back;
- ``deleted-alone``: a deletion was answered with success while a replica that was in sync and
  registered stood still, and could not have done it (`deleted_alone`);
- ``deleted-uncommitted``: a deletion was done beyond what was committed: beyond the end of the
  final log, or beyond an end that the same broker told later;
- ``begins-beyond-end``: a broker told an end that is below a beginning that it had told before: it
  deleted what is not committed, whatever it answered;
- ``start-went-back``: an earlier beginning was told than a low watermark answered before;
- ``served-below-start``: who asks, as a consumer, for an offset below a low watermark answered
  before is not refused (OFFSET_OUT_OF_RANGE: it is to look where the log begins, and begin there);
- ``start-left-behind``: in the end the log of a replica that is in sync begins before a low
  watermark that was answered before the last fault was healed;
- ``never-deleted``: when all faults were healed and all replicas in sync, no deletion in a
  partition that asked for more than was asked for before was answered with success, and several
  timed out, or were refused though they asked for no more than is there, and not by brokers that do
  not lead. Who asks again is told what was done meanwhile: that proves nothing of who waits;
- ``waits-for-the-gone``: the same while some replicas' brokers were gone, and all others were in
  sync (`without_the_gone`).

What begins too late is another promise's (`checkers.promises.truncation_loss`: log-start-moved;
`checkers.promises.offsets`: begins-otherwise).

Lawful, and looks similar: a leader moves its own start at once, and tells so, before its followers
have heard of it: only an answer counts; but it moves it within what is committed, and what is
committed grows in a log however often it changes hands (UnifiedLog.updateLogStartOffset moves a
high watermark with the start). Starts are written to disk once a minute
(``log.flush.start.offset.checkpoint.interval.ms``), and a replica that is not registered need not
have deleted anything when the answer comes: whoever was away hears of the start with the first
records that it is given. Once one leads that was given none since it came back, what was answered
before binds nobody any more, and what is answered from then on does; but who is the only replica
knows all that was deleted, unless it was killed: a broker that stops in order writes starts down
(LogManager.shutdown). A leader that was succeeded while it was paused or cut off goes on telling of
its own log until it hears of that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.facts.after_healing import AfterHealing
from checkers.facts.clients import healed_trials
from checkers.facts.leadership import TP, Key, key_of, leadership
from checkers.facts.replicas import last_isrs
from checkers.facts.timeline import FOREVER, FROM, TO, Timeline, steps
from checkers.facts.trials import rows_of
from checkers.facts.unions import united
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.log_starts.deleted_alone import STOOD, deleted_alone
from checkers.promises.log_starts.without_the_gone import without_the_gone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

Row = Mapping[str, Any]
ANSWERED: Final = "deletions of records answered"
TOLD: Final = "beginnings of logs told"
BELOW: Final = "reads before a log's beginning answered"
KEPT: Final = "replicas that began later in the end"
_BACK: Final = "start-went-back"
_IN_VAIN: Final = "deletion-refused"
_SERVED: Final = "served-below-start"
_EARLIEST: Final = -2
_LATEST: Final = -1
_REFUSED: Final = 1
"""OFFSET_OUT_OF_RANGE."""
_LAWFUL: Final = (0, _REFUSED, 6)
"""What is no deletion in vain; by NOT_LEADER_OR_FOLLOWER who is asked sends one elsewhere."""
_TIMED_OUT: Final = 7
_WAITED_NS: Final = 900_000_000
_SETTLED_NS: Final = 2_000_000_000
TRIES: Final = 3
"""So many that came to nothing are no accident."""
_SPANS: Final = "arm string, trial int, topic string, partition int, _since bigint, _until bigint"
_SINCE, _UNTIL = "_since_t", "_until_t"
"""The time (ns) in which answers bind each other (`_together`)."""


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("records_deleted"):
        return outcome
    answered = history.frame("records_deleted").where("topic is not null")
    sums = answered.groupBy(*TP).agg(
        F.count(F.when(F.col("type") == "ok", 1)).alias("ok"),
        F.count("error").alias("said"),
    )
    partitions = {key_of(row): row for row in sums.toArrow().to_pylist()}
    spans = [
        {**dict(zip(TP, key, strict=True)), FROM: from_t, TO: to_t}
        for key in partitions
        for from_t, to_t in steps(_doubts(history, key))
    ]
    together = partial(_together, history, Timeline(spans, TP))
    for (arm, trial, *_), row in partitions.items():
        outcome.saw(arm, trial, ANSWERED, row["ok"])
        if not row["said"]:
            outcome.unjudged(arm, "deletions of records, which no broker answered")
    done = history.keep(
        "records deleted and answered", lambda: answered.where("type = 'ok' and low_watermark >= 0")
    )
    told = history.frame("listed_offset").where("type = 'ok' and topic is not null and offset >= 0")
    told = told.join(F.broadcast(sums.select(*TP)), TP)
    every = history.keep("told of logs that are shortened", lambda: told)
    begun = every.where(f"asked_ms = {_EARLIEST}")
    for row in begun.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], TOLD, row["count"])
    bound = [*TP, _SINCE]
    told, promised = together(every), together(done)
    judged = told.where(f"asked_ms = {_EARLIEST}")
    little = done.where("low_watermark < offset").withColumn("_known", F.col("offset"))
    broken = _broken("deleted-too-little", little)
    broken = broken.unionByName(_broken(_IN_VAIN, _in_vain(every, answered)))
    alone = deleted_alone(history, outcome, answered, partitions)
    if alone is not None:
        broken = broken.unionByName(_broken("deleted-alone", alone))
    broken = broken.unionByName(_broken("deleted-uncommitted", _uncommitted(history, every, done)))
    back = _after(judged, promised, bound).where("offset < _known")
    broken = broken.unionByName(
        _broken(_BACK, _of_leaders(history, outcome, back.drop("_at"), partitions, _BACK, TOLD))
    )
    if history.has("read_below"):
        read = history.frame("read_below").where(f"topic is not null and error in (0, {_REFUSED})")
        below = _after(together(read), promised, bound).where("offset < _known").drop("_at")
        for row in below.groupBy("arm", "trial").count().toArrow().to_pylist():
            outcome.saw(row["arm"], row["trial"], BELOW, row["count"])
        served = below.where("error = 0")
        served = _of_leaders(history, outcome, served, partitions, _SERVED, BELOW)
        broken = broken.unionByName(_broken(_SERVED, served))
    begins = judged.select(*bound, "node", "t", F.col("offset").alias("low_watermark"))
    ends = told.where(f"asked_ms = {_LATEST}")
    below = _after(ends, begins, [*bound, "node"]).where("offset < _known")
    broken = broken.unionByName(_broken("begins-beyond-end", below))
    add(outcome, tally(broken, None, _sort), _told_finding)
    for finding in _left_behind(history, outcome, promised.where(f"{_UNTIL} = {FOREVER}")):
        outcome.add(finding)
    for finding in (*_never(history, answered), *_waiting(history, answered, partitions)):
        outcome.add(finding)
    return outcome


# -- what was told --------------------------------------------------------------------------------


def _together(history: History, spans: Timeline, rows: DataFrame) -> DataFrame:
    """Rows (with ``invoke_t`` and ``t``) that were asked and answered while no doubtful leader
    began, with that time (`_SINCE`, `_UNTIL`)."""
    rows = spans.at(history, rows, F.col("t"), "inner").where(f"invoke_t >= {FROM}")
    return rows.withColumnsRenamed({FROM: _SINCE, TO: _UNTIL})


def _after(told: DataFrame, done: DataFrame, by: list[str]) -> DataFrame:
    """``told`` with ``_known``: the highest low watermark answered before it was asked."""
    asked = told.withColumn("_at", F.col("invoke_t")).withColumn("_low", F.lit(None).cast("long"))
    answers = done.select(*by, F.col("t").alias("_at"), F.col("low_watermark").alias("_low"))
    rows = united(asked, answers)
    order = Window.partitionBy(*by).orderBy("_at", F.col("_low").isNotNull())
    known = F.max("_low").over(order.rowsBetween(Window.unboundedPreceding, 0))
    return rows.withColumn("_known", known).where("_low is null and _known is not null")


def _of_leaders(
    history: History,
    outcome: Outcome,
    back: DataFrame,
    partitions: Iterable[Key],
    rule: str,
    of: str,
) -> DataFrame:
    """Without what former leaders told, which is counted."""
    spans = list(_succeeded(history, partitions))
    if not spans:
        return back
    rows = Timeline(spans, (*TP, "node")).at(history, back, F.col("t"))
    former = rows.where(f"{FROM} is not null").groupBy("arm", "trial").count()
    for row in former.toArrow().to_pylist():
        outcome.excuse(row["arm"], row["trial"], rule, "succeeded", of=of, n=row["count"])
    return rows.where(f"{FROM} is null")


def _uncommitted(history: History, told: DataFrame, done: DataFrame) -> DataFrame:
    """Against the final log, and against ends that the same broker told later: ends of others may
    be those of leaders of the past."""
    ends = F.broadcast(leaders_table(history).select(*TP, "log_end"))
    beyond = done.join(ends, TP).where("low_watermark > log_end")
    beyond = beyond.select(*TP, "node", "t", "offset", F.col("log_end").alias("_known"))
    latest = _after(told.where(f"asked_ms = {_LATEST}"), done, [*TP, "node"])
    deleted, end = F.col("_known").alias("offset"), F.col("offset").alias("_known")
    later = latest.where("offset < _known").select(*TP, "node", "t", deleted, end)
    return beyond.unionByName(later)


def _in_vain(told: DataFrame, answered: DataFrame) -> DataFrame:
    """Refused as out of range by who led, in one leader epoch, and had told of an end up to there
    (``_known``)."""
    ends = told.where(f"asked_ms = {_LATEST} and leader_epoch >= 0")
    end = F.struct(F.col("leader_epoch").alias("epoch"), F.col("offset").alias("end"))
    by = Window.partitionBy(*TP, "node")
    mine = [*TP, "node", "t", "invoke_t", "offset"]
    asked = answered.where(f"error = {_REFUSED} and offset >= 0").select(*mine)
    asked = asked.withColumn("_asked", F.lit(True))
    before = asked.withColumn("_at", F.col("invoke_t"))
    known = ends.select(*TP, "node", F.col("t").alias("_at"), end.alias("_told"))
    order = by.orderBy("_at", F.col("_asked").isNull())
    so_far = order.rowsBetween(Window.unboundedPreceding, 0)
    rows = united(before, known).withColumn("_before", F.max("_told").over(so_far))
    rows = rows.where("_asked and offset <= _before.end").drop("_told", "_at")
    after = rows.withColumn("_at", F.col("t"))
    later = ends.select(*TP, "node", F.col("invoke_t").alias("_at"), end.alias("_told"))
    order = by.orderBy(F.desc("_at"), F.col("_asked").isNull())  # from the end backwards
    from_now = order.rowsBetween(Window.unboundedPreceding, 0)
    rows = united(after, later)
    rows = rows.withColumn("_after", F.last("_told", ignorenulls=True).over(from_now))
    rows = rows.where("_asked and _after.epoch = _before.epoch")
    return rows.withColumn("_known", F.col("_before.end"))


def _broken(rule: str, rows: DataFrame) -> DataFrame:
    """``_known``: what the offset contradicts."""
    known = F.col("_known").cast("long").alias("known")
    return rows.select(*TP, "node", "t", "offset", known, F.lit(rule).alias("rule"))


def _sort(row: Row) -> Sort:
    return Sort((), (row["t"],), row["rule"])


def _told_finding(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    place = f"{row['topic']}-{row['partition']}"
    says = {
        "deleted-too-little": "broker {node} answered that it had deleted {place} up to offset "
        "{known}, and its low watermark is below that",
        _IN_VAIN: "broker {node} refused to delete {place} up to offset {offset} as out of range, "
        "although it had told {known} as its end before, and led all the while",
        "deleted-alone": "broker {node} answered that {place} is deleted up to offset {offset}, "
        "while a replica in sync stood still that had been asked for {known} at most",
        "deleted-uncommitted": "broker {node} deleted {place} up to offset {offset}; no more than "
        "{known} was committed",
        "begins-beyond-end": "broker {node} told offset {offset} as the end of {place}, although "
        "it had told {known} as its beginning before",
        _SERVED: "broker {node} served {place} from offset {offset}, although a low watermark of "
        "{known} had been answered before",
        "start-went-back": "broker {node} told offset {offset} as the beginning of {place}, "
        "although a low watermark of {known} had been answered before",
    }[rule].format(place=place, **{k: row[k] for k in ("node", "offset", "known")})
    answer = Pick("records_deleted", {**at, "type": "ok"}, to_t=row["t"], last=True, rows=1)
    kind = {_SERVED: "read_below", _IN_VAIN: "records_deleted"}.get(rule, "listed_offset")
    told = Pick(kind, {**at, "node": row["node"], "t": row["t"]}, rows=1)
    return Finding(rule, says, row["arm"], row["trial"], (answer, told, Pick("log_end", at)))


# -- who may begin earlier ------------------------------------------------------------------------


def _succeeded(history: History, partitions: Iterable[Key]) -> Iterator[dict[str, Any]]:
    """Spans (ns) in which a broker had led a partition, and another one may have by commit: from
    the earliest moment of its successor's epoch until it certainly leads again."""
    led = leadership(history)
    for key in partitions:
        since: dict[int, int] = {}
        for before, after in pairwise(led[key].epochs if key in led else ()):
            begun = after.committed_t if after.earliest_t is None else after.earliest_t
            if before.leader is not None and before.leader != after.leader:
                since.setdefault(before.leader, before.valid_from if begun is None else begun)
            if after.leader in since and after.committed_t is not None:
                span = {FROM: since.pop(after.leader), TO: after.committed_t}
                yield {**dict(zip(TP, key, strict=True)), "node": after.leader, **span}
        for node, from_t in since.items():
            yield {**dict(zip(TP, key, strict=True)), "node": node, FROM: from_t, TO: FOREVER}


def _doubts(history: History, key: Key) -> list[int]:
    """When (ns, ascending) one began to lead whose log may lawfully begin earlier."""
    followed: dict[int, list[Row]] = {}
    taken = [row for row in history.rows("leader_change") if key_of(row) == key]
    if not taken:
        return _returns(history, key[:2])
    alone, found = len({row["node"] for row in taken}) == 1, set()
    for row in taken:
        if row["role"] == "follower":
            followed.setdefault(row["node"], []).append(row)
            continue
        node = (*key[:2], row["node"])
        back = _back(history, node, row["t"])
        if back is None or (alone and _remembers(history, node, back)):
            continue
        if not _was_given(followed.get(row["node"], ()), row, back):
            found.add(row["t"] + (row["error_ns"] or 0))
    return sorted(found)


def _returns(history: History, trial: tuple[str, int]) -> list[int]:
    """When (ns, ascending) anybody was begun anew, or went on: where brokers do not tell since when
    they lead (a black box), any of them may from then on, until it is registered and deletes."""
    found, lives = [], Counter[int]()
    for row in rows_of(history, "node_event", trial):
        lives[row["node"]] += row["event"] == "start"
        again = row["event"] in ("start", "ready") and lives[row["node"]] > 1
        if again or row["event"] == "resume":
            found.append(row["t"])
    return sorted(found)


def _remembers(history: History, node: tuple[str, int, int], back: int) -> bool:
    """Whether it had been stopped in order, or paused, and not killed, whenever it came back so
    far."""
    ways = {"kill", "exited", "stopped", "pause"}
    events = [
        row["event"]
        for row in rows_of(history, "node_event", node[:2])
        if row["node"] == node[2] and row["t"] < back and row["event"] in ways
    ]
    return bool(events) and not {"kill", "exited"} & set(events)


def _was_given(followed: Iterable[Row], leads: Row, back: int) -> bool:
    """Whether it was given any record since it came back, and with it the log's start."""
    first = next((row for row in followed if row["t"] >= back), None)
    if first is None:
        return False
    before, now = first["log_end_offset"], leads["log_end_offset"]
    return None not in (before, now) and bool(now > before)


def _back(history: History, node: tuple[str, int, int], t: int) -> int | None:
    """When that node last was begun anew, or went on, before ``t``; None: it was never away."""
    found, lives = None, 0
    for row in rows_of(history, "node_event", node[:2]):
        if row["node"] != node[2] or row["t"] > t:
            continue
        lives += row["event"] == "start"
        if row["event"] == "resume" or (row["event"] == "start" and lives > 1):
            found = row["t"]
    return found


# -- in the end -----------------------------------------------------------------------------------


def _left_behind(history: History, outcome: Outcome, done: DataFrame) -> Iterator[Finding]:
    """``done``: deletions whose answers bind until the end."""
    healed = healed_trials(history)
    since = {key: of.since_t for key, of in healed.items() if isinstance(of, AfterHealing)}
    table = [{"arm": arm, "trial": trial, "_healed": t} for (arm, trial), t in since.items()]
    if not table:
        return
    times = F.broadcast(history.table(table, "arm string, trial int, _healed bigint"))
    low = done.join(times, ["arm", "trial"]).where("t < _healed")
    low = low.groupBy(*TP).agg(F.max("low_watermark").alias("low"))
    owed = {key_of(row): row["low"] for row in low.toArrow().to_pylist() if row["low"] > 0}
    in_sync = last_isrs(history)
    for row in history.rows("log_end"):
        key = key_of(row)
        if key not in owed or row["error"] is not None:
            continue
        if row["node"] not in in_sync.get(key, ()):
            continue
        outcome.saw(*key[:2], KEPT)
        if (row["log_start_offset"] or 0) < owed[key]:
            at = {"topic": row["topic"], "partition": row["partition"]}
            yield Finding(
                "start-left-behind",
                f"the log of {row['topic']}-{row['partition']} on node {row['node']} begins at "
                f"offset {row['log_start_offset']} in the end; a low watermark of {owed[key]} was "
                "answered long before",
                *key[:2],
                (
                    Pick("records_deleted", {**at, "low_watermark": owed[key]}, rows=1),
                    Pick("log_end", at),
                ),
            )


def _never(history: History, answered: DataFrame) -> Iterator[Finding]:
    trials = {key: of for key, of in healed_trials(history).items() if isinstance(of, AfterHealing)}
    begun: dict[Key, int] = {}
    for row in history.rows("leadership"):  # who has yet to catch up is waited for
        key = key_of(row)
        if key[:2] in trials:
            begun[key] = max(begun.get(key, trials[key[:2]].since_t), row["t"])
    spans = [
        {**dict(zip(TP, key, strict=True)), "_since": t + _SETTLED_NS, "_until": FOREVER}
        for key, t in begun.items()
    ]
    led = leadership(history)
    for row in _tried_in_vain(history, answered, spans):
        if row["told"] and led[key_of(row)].shown:  # since when all are in sync, nobody knows
            continue
        of = trials[row["arm"], row["trial"]]
        state = of.partitions.get((row["topic"], row["partition"]))
        replicas = set(state["replicas"] or ()) if state is not None else set()
        if state is None or set(state["isr"] or ()) != replicas:
            continue
        if of.cannot_serve(replicas) is not None or of.left_down(replicas):
            continue
        yield _never_done("never-deleted", "after all was healed, with all replicas in sync", row)


def _waiting(history: History, answered: DataFrame, partitions: Iterable[Key]) -> Iterator[Finding]:
    """One finding a partition."""
    told: set[Key] = set()
    spans = list(without_the_gone(history, list(partitions)))
    for row in _tried_in_vain(history, answered, spans):
        if key_of(row) not in told:
            told.add(key_of(row))
            when = "while brokers of its replicas were gone, with all others in sync"
            yield _never_done("waits-for-the-gone", when, row)


def _tried_in_vain(
    history: History, answered: DataFrame, spans: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Spans (`_SPANS`) in which nothing that asked for more than before was done, and `TRIES`
    came to nothing, with ``vain``: how many; ``told``: how many were answered with success."""
    if not spans:
        return []
    times = F.broadcast(history.table(list(spans), _SPANS))
    late = _with_asked(answered).join(times, TP).where("invoke_t >= _since and t <= _until")
    # Who does not give the replicas the time to do it is told so.
    soon = (F.col("error") == _TIMED_OUT) & (F.col("t") - F.col("invoke_t") < _WAITED_NS)
    vain = ~F.col("error").isin(*_LAWFUL) & ~soon
    done = F.col("type") == "ok"
    sums = late.groupBy(*TP, F.col("_since").alias("since")).agg(
        F.count(F.when(done & (F.col("offset") > F.col("_asked")), 1)).alias("ok"),
        F.count(F.when(done, 1)).alias("told"),
        F.count(F.when(vain, 1)).alias("vain"),
        F.max(F.when(vain, F.col("error"))).alias("error"),
    )
    found = sums.where(f"ok = 0 and vain >= {TRIES}").orderBy(*TP, "since")
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return rows


def _never_done(rule: str, when: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        rule,
        f"{row['vain']} deletions of records of {row['topic']}-{row['partition']} timed out or "
        f"were refused for nothing, and none that asked for more than before was done {when}",
        *(row["arm"], row["trial"]),
        (
            Pick("records_deleted", {**at, "error": row["error"]}, from_t=row["since"], rows=3),
            Pick("log_end", at),
        ),
    )


def _with_asked(answered: DataFrame) -> DataFrame:
    """With ``_asked``: up to where somebody had been asked before to delete, and did not refuse."""
    order = Window.partitionBy(*TP).orderBy("invoke_t")
    taken = F.when(F.col("type") != "fail", F.col("offset"))
    before = F.max(taken).over(order.rowsBetween(Window.unboundedPreceding, -1))
    return answered.withColumn("_asked", F.coalesce(before, F.lit(0)))


PROMISE: Final = Promise(
    name="log-starts",
    says="A log begins where it was told to, on every replica, and stays so.",
    source="KIP-107; Kafka's ReplicaManager.deleteRecords, DelayedDeleteRecords and "
    "UnifiedLog.maybeIncrementLogStartOffset",
    rules={
        "deleted-too-little": "A deletion that succeeded has deleted all that it was asked for.",
        _IN_VAIN: "Nobody is refused to delete what its leader has told of.",
        "deleted-alone": "A deletion succeeds when every live replica has done it.",
        "deleted-uncommitted": "Nothing is deleted that is not committed.",
        "begins-beyond-end": "A log begins within what is committed.",
        "start-went-back": "Below an answered low watermark no leader can be read any more.",
        "served-below-start": "Who asks for what is deleted is refused.",
        "start-left-behind": "Every replica's log begins where the deletion's answer said.",
        "never-deleted": "A deletion is done once all replicas can do it.",
        "waits-for-the-gone": "A deletion waits for no replica whose broker is gone.",
    },
    evidence={
        ANSWERED: "with success",
        TOLD: "by leaders of partitions whose records are deleted",
        BELOW: "of which deletions had been answered",
        STOOD: "of partitions that it holds, in sync",
        KEPT: "held against low watermarks that had been answered before healing",
    },
    blind=(
        "deletions that were answered before one led that was away, and was given no record since "
        "it came back, unless it is the only replica and was stopped in order: starts are written "
        "to disk once a minute",
    ),
    timed=frozenset({"start-left-behind", "never-deleted", "waits-for-the-gone"}),
    check=check,
)
