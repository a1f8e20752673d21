"""Offsets: does a leader tell where its log begins, ends, and changed hands?

Guarantee: who asks a leader (ListOffsets, OffsetForLeaderEpoch) is told what the log then says. A
consumer begins to read there, goes on there after a time, and finds out there whether its log was
cut; a follower cuts its own log there.

Violations:
- ``begins-otherwise``: told another beginning than the log's;
- ``begins-in-another-epoch``: told, with the beginning, a leader epoch later than the one of the
  record there (an earlier one is lawful: of an epoch in which nothing was kept; none (-1) as well;
  its own of a leader that had no record there as it took up the lead is excused);
- ``end-too-early``: told an end that lies below a record that acks=all had acknowledged before;
- ``end-never-committed``: told an end beyond what was committed, or none at all (to one who would
  be refused by who does not lead, or knows no end yet): no record is before it in the final log, or
  one of a later leader epoch than the one of the leader that told it, or one that was appended only
  after it was told;
- ``time-otherwise``: told a record for a time that is not the first at or after it, or whose time
  or leader epoch is another in the final log;
- ``time-missed``: told that there is none at or after a time, by a broker that had told an end
  beyond such a record before, or when one had been acknowledged with acks=all, of a leader epoch
  that the broker had told of (BIPLANE-2: a genuine bug of Kafka's);
- ``epoch-ends-otherwise``: told another end of a leader epoch than the log has: where its first
  record of a later epoch is; or, with the end, another epoch than the newest up to the one that was
  asked for of which it has records (a follower would keep what it has of one that nobody else has);
- ``own-epoch-ends-otherwise``: a leader that is asked where its own leader epoch ends does not know
  it, or tells an end that lies below a record that acks=all had acknowledged before, or behind one
  that it took in only after it was asked: it has begun that epoch before anybody can ask, and it
  goes on to the end of the log, wherever it is;
- ``fence-ignored``: told an end to one who believed in a leader epoch of the past (KIP-320), or
  anything, by a broker that had taken up a later one;
- ``end-in-another-epoch``: told, with its end, an older leader epoch than the newest in which the
  broker had begun to lead by then, or none, though it tells them (ListOffsets 4, KIP-320);
- ``unheard-epoch-served``: told an end to one who believed in a later leader epoch than its own;
- ``fenced-for-nothing``, ``called-unknown``: refused such a one for the other reason (`fenced`);
- ``fetch-fence-ignored``, ``fetch-unheard-served``, ``given-beyond-end``,
  ``watermark-told-otherwise``, ``start-told-otherwise``, ``given-in-another-epoch``,
  ``read-refused``: the same of who reads there (`reads`);
- ``given-too-much``, ``given-nothing``: gave more than it was asked for, or nothing to who asked
  for little (`sizes`);
- ``answered-too-soon``, ``answered-with-too-little``, ``answered-late``: did not wait for who asked
  for that, or not for what was asked for, or for too long (`waits`).

Lawful, and looks similar: a leader that was deposed and has not heard of it tells an older end, in
its own leader epoch; nobody is told a new leader's end before all of the epochs before are
committed (OFFSET_NOT_AVAILABLE, KIP-207: a failed operation); an epoch's end that was never
committed may be cut: ends are judged only as told by leaders of whose own epoch the final log has a
record, which has their log up to there; a log whose beginning retention may move.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.facts.told_numbers import monotonic_ns
from checkers.facts.unions import united
from checkers.judging.excuses import excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.offsets.fenced import REFUSED, fenced, served
from checkers.promises.offsets.reads import READS, reads
from checkers.promises.offsets.sizes import sizes
from checkers.promises.offsets.waits import WAITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

ANSWERS: Final = "offsets told"
ENDS: Final = "ends of past leader epochs told"
OWN: Final = "ends of leaders' own leader epochs told"
_OF_EPOCHS: Final = (ENDS, OWN)
_KINDS: Final = {
    **dict.fromkeys(_OF_EPOCHS, "epoch_end"),
    ANSWERS: "listed_offset",
    **dict.fromkeys((READS, WAITS), "read_at"),
}
_APART_NS: Final = 20_000_000
"""So much may a record's time be off against the harness's clock, besides the tie's own error."""
_TP: Final = ["arm", "trial", "topic", "partition"]
_ROW: Final = [*_TP, "node", "t", "invoke_t", "offset", "leader_epoch", "believed_epoch"]
_LATEST, _EARLIEST = -1, -2
_LATER: Final = "begins-in-another-epoch"
_EMPTY: Final = "empty"
"""What would be such, and is excused."""


def check(history: History) -> Outcome:
    outcome = Outcome()
    found = []
    if history.has("listed_offset"):
        found += _listed(history, outcome)
    if history.has("epoch_end"):
        found += [
            _epoch_ends(history, outcome),
            *_own_ends(history, outcome),
            _ends_of_the_past(history),
        ]
    if history.has("read_at"):
        log = history.keep("offsets' log", lambda: _log(history))
        found += [*reads(history, outcome, log), *sizes(history)]
    if not found:
        return outcome
    known = excuses(history)
    for finding, n in fenced(history, outcome, known):
        outcome.add(finding, n)
    # One row for each rule and partition: its first, and how many there are.
    broken = functools.reduce(lambda one, other: one.unionByName(other), found)
    first = broken.groupBy(*_TP, "rule", "of").agg(
        F.count("*").alias("n"),
        F.min_by(F.struct("node", "t", "asked", "offset", "known"), "t").alias("row"),
    )
    for row in first.orderBy("rule", *_TP).toArrow().to_pylist():
        place = (row["arm"], row["trial"], row["topic"], row["partition"])
        excuse = known.of(*place, row["row"]["t"])
        if row["rule"] == _EMPTY:
            outcome.excuse(*place[:2], _LATER, _EMPTY, of=row["of"], n=row["n"])
        elif excuse is not None:
            outcome.excuse(*place[:2], row["rule"], excuse, of=row["of"], n=row["n"])
        else:
            outcome.add(_finding(row), row["n"])
    return outcome


def _listed(history: History, outcome: Outcome) -> list[DataFrame]:
    told = history.frame("listed_offset").where("type = 'ok' and topic is not null")
    told = told.select(*_ROW, "asked_ms", "found_ms")
    told = told.join(F.broadcast(leaders_table(history).drop("leader_node")), _TP)
    every = Window.partitionBy("arm", "trial", "node")
    told = told.withColumn("_tells", F.max("leader_epoch").over(every) >= 0)
    told = history.keep("offsets told", lambda: told)
    for row in told.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], ANSWERS, row["count"])
    log = history.keep("offsets' log", lambda: _log(history))
    latest = told.where(f"asked_ms = {_LATEST}")
    return [
        _broken(
            "begins-otherwise",
            told.where(f"asked_ms = {_EARLIEST} and (offset < 0 or offset > log_start)"),
            F.col("log_start"),
        ),
        *_begins_later(history, told, log),
        _broken(
            "unheard-epoch-served",
            latest.where("leader_epoch >= 0 and leader_epoch < believed_epoch"),
            F.col("believed_epoch"),
        ),
        _broken(
            "fence-ignored",
            latest.where("believed_epoch >= 0 and leader_epoch > believed_epoch"),
            F.col("believed_epoch"),
        ),
        _broken(
            "fence-ignored",
            served(history, told.where(f"asked_ms != {_LATEST}")),
            F.col("believed_epoch"),
        ),
        *_in_another_epoch(history, latest),
        _too_early(history, latest, log),
        _never_committed(latest, log),
        _no_end(latest),
        _by_time(told.where("asked_ms >= 0 and offset >= 0"), log),
        _missed(history, told, latest, log),
    ]


def _log(history: History) -> DataFrame:
    """The final log, with the newest time before each record, and up to it; ``there_t``: from when
    on (ns, the harness's clock) the record can have been there, null where the clocks are not tied.
    """
    leaders = F.broadcast(leaders_table(history).select(*_TP, "leader_node"))
    log = history.frame("log_read").join(leaders, _TP).where("node = leader_node")
    order = Window.partitionBy(*_TP).orderBy("offset")
    newest = F.max("append_time_ms").over(order.rowsBetween(Window.unboundedPreceding, 0))
    tie, off = history.run.clock_offset_ns, history.run.clock_error_ns + _APART_NS
    there = F.lit(None) if tie is None else monotonic_ns(F.col("append_time_ms"), tie - off)
    there = F.when(F.col("append_time_ms") >= 0, there).cast("long").alias("there_t")
    newest = newest.alias("newest_ms")
    log = log.select(*_TP, "offset", "leader_epoch", "append_time_ms", newest, there)
    return log.withColumn("before_ms", F.lag("newest_ms").over(order))


def _broken(rule: str, rows: DataFrame, known: Any, of: str = ANSWERS) -> DataFrame:
    """``known``: what the answer should have been, or contradicts."""
    asked = "asked_epoch" if of in _OF_EPOCHS else "asked_ms"
    return rows.select(
        *_TP,
        "node",
        "t",
        F.col(asked).cast("long").alias("asked"),
        "offset",
        known.cast("long").alias("known"),
        F.lit(rule).alias("rule"),
        F.lit(of).alias("of"),
    )


def _begins_later(history: History, told: DataFrame, log: DataFrame) -> list[DataFrame]:
    """Against the record that is at that beginning in the final log. A leader that begins with an
    empty log notes its own epoch there (Partition.makeLeader), whatever its successor has: that is
    excused where ZooKeeper has it as the leader of that epoch, and acks=all had promised nobody a
    record there."""
    here = [*_TP, "node", "leader_epoch", "offset"]
    led = history.frame("leader_change").where("role = 'leader'")
    empty = led.withColumnRenamed("log_end_offset", "offset").select(
        *here, F.lit(1).alias("_empty")
    )
    committed = (
        history.frame("leadership")
        .where("leader >= 0")
        .select(*_TP, F.col("leader").alias("node"), "leader_epoch", F.lit(1).alias("_led"))
    )
    promised = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    promised = promised.groupBy(*_TP, "offset").agg(F.min("t").alias("_promised_t"))
    there = log.select(*_TP, "offset", F.col("leader_epoch").alias("_in"))
    rows = told.where(f"asked_ms = {_EARLIEST}").join(there, [*_TP, "offset"])
    rows = rows.where("_in >= 0 and leader_epoch > _in")
    rows = rows.join(empty.distinct(), here, "left")
    rows = rows.join(committed.distinct(), here[:-1], "left")
    rows = rows.join(promised, [*_TP, "offset"], "left")
    lawful = F.expr(
        "_empty is not null and _led is not null and coalesce(_promised_t >= invoke_t, true)"
    )
    return [
        _broken(_LATER, rows.where(~lawful), F.col("_in")),
        _broken(_EMPTY, rows.where(lawful), F.col("_in")),
    ]


def _in_another_epoch(history: History, latest: DataFrame) -> list[DataFrame]:
    """With an end goes the leader's own epoch, whatever is in the log. Not of topics that are
    deleted: those of a namesake begin anew."""
    gone = {(row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")}
    led = [
        {name: row[name] for name in (*_TP, "node", "leader_epoch", "t")}
        for row in history.rows("leader_change")
        if row["role"] == "leader" and (row["arm"], row["trial"], row["topic"]) not in gone
    ]
    if not led:
        return []
    begun = history.table(
        [{**row, "_at": row["t"], "known": row["leader_epoch"]} for row in led],
        "arm string, trial int, topic string, partition int, node int, _at bigint, known int",
    )
    rows = latest.where("_tells").withColumn("_at", F.col("invoke_t"))
    rows = united(rows, begun)
    order = Window.partitionBy(*_TP, "node").orderBy("_at", F.col("known").isNotNull())
    so_far = F.max("known").over(order.rowsBetween(Window.unboundedPreceding, 0))
    rows = rows.withColumn("_led", so_far).where("leader_epoch < _led")
    return [_broken("end-in-another-epoch", rows, F.col("_led"))]


def _too_early(history: History, latest: DataFrame, log: DataFrame) -> DataFrame:
    rows = _before_acked(history, latest, log)
    return _broken("end-too-early", rows, F.col("known"))


def _before_acked(history: History, told: DataFrame, log: DataFrame) -> DataFrame:
    """Ends that do not lie behind what had been acknowledged (``known``)."""
    rows = _with_acked(history, told).where("offset <= known")
    # Of a later epoch than the leader's own: one of the past, who cannot know.
    there = log.select(*_TP, F.col("offset").alias("known"), F.col("leader_epoch").alias("_in"))
    return rows.join(there, [*_TP, "known"]).where("_in <= leader_epoch")


def _with_acked(history: History, asked: DataFrame) -> DataFrame:
    """``known``: the highest offset that had been acknowledged before it was asked."""
    acked = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    acked = acked.select(*_TP, F.col("t").alias("_at"), F.col("offset").alias("_acked"))
    rows = asked.withColumn("_at", F.col("invoke_t"))
    rows = rows.withColumn("_acked", F.lit(None).cast("long"))
    rows = united(rows, acked)
    order = Window.partitionBy(*_TP).orderBy("_at", F.col("_acked").isNotNull())
    so_far = F.max("_acked").over(order.rowsBetween(Window.unboundedPreceding, 0))
    return rows.withColumn("known", so_far).where("_acked is null")


def _never_committed(latest: DataFrame, log: DataFrame) -> DataFrame:
    offset, epoch = (F.col("offset") + 1).alias("offset"), F.col("leader_epoch").alias("_in")
    last = log.select(*_TP, offset, epoch, "there_t")
    rows = latest.where("offset > log_start").join(last, [*_TP, "offset"], "left")
    later = "(_in is not null and leader_epoch >= 0 and _in > leader_epoch)"
    rows = rows.where(f"offset > log_end or {later} or coalesce(t < there_t, false)")
    return _broken("end-never-committed", rows, F.col("log_end"))


def _no_end(latest: DataFrame) -> DataFrame:
    """Every log has an end."""
    return _broken("end-never-committed", latest.where("offset < 0"), F.col("log_end"))


def _by_time(told: DataFrame, log: DataFrame) -> DataFrame:
    there = log.withColumnRenamed("leader_epoch", "_in")
    rows = told.where("offset >= log_start").join(there, [*_TP, "offset"], "left")
    wrong = (
        "offset >= log_end or found_ms < asked_ms or before_ms >= asked_ms or "
        "append_time_ms != found_ms or (_tells and leader_epoch != _in)"
    )
    return _broken("time-otherwise", rows.where(wrong), F.col("found_ms"))


def _missed(history: History, told: DataFrame, latest: DataFrame, log: DataFrame) -> DataFrame:
    """Against the highest end that the same broker had told before it was asked, and the highest
    offset that had been acknowledged by then, in a leader epoch that it had told of."""
    vain = told.where("asked_ms >= 0 and offset < 0").withColumn("_at", F.col("invoke_t"))
    ends = latest.select(
        *_TP,
        "node",
        F.col("t").alias("_at"),
        F.col("offset").alias("_end"),
        F.col("leader_epoch").alias("_led"),
    )
    rows = united(vain, ends)
    order = Window.partitionBy(*_TP, "node").orderBy("_at", F.col("_end").isNotNull())
    before = order.rowsBetween(Window.unboundedPreceding, 0)
    rows = rows.withColumn("_told", F.max("_end").over(before) - 1)
    rows = rows.withColumn("_lately", F.max("_led").over(before))
    rows = _with_acked(history, rows.where("_end is null and _told is not null"))
    there = log.select(*_TP, F.col("offset").alias("known"), F.col("leader_epoch").alias("_in"))
    rows = rows.join(there, [*_TP, "known"], "left")
    mine = F.expr("case when _in <= _lately then known end")
    rows = rows.withColumn("known", F.greatest("_told", mine)).where("known >= 0")
    there = log.select(*_TP, F.col("offset").alias("known"), "newest_ms")
    rows = rows.join(there, [*_TP, "known"]).where("newest_ms >= asked_ms")
    return _broken("time-missed", rows, F.col("known"))


def _epoch_ends(history: History, outcome: Outcome) -> DataFrame:
    told = history.frame("epoch_end").where("type = 'ok' and topic is not null")
    told = told.where("asked_epoch < believed_epoch").select(*_ROW, "asked_epoch")
    leaders = leaders_table(history).where("log_start = 0").select(*_TP, "leader_node")
    log = history.frame("log_read").join(F.broadcast(leaders), _TP).where("node = leader_node")
    begins = log.groupBy(*_TP, "leader_epoch").agg(F.min("offset").alias("begin"))
    begins = F.broadcast(history.keep("leader epochs of the final log", lambda: begins))
    own = begins.select(*_TP, F.col("leader_epoch").alias("believed_epoch"))
    judged = told.join(own, [*_TP, "believed_epoch"])
    judged = history.keep("ends of leader epochs told", lambda: judged)
    for row in judged.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], ENDS, row["count"])
    later = begins.withColumnRenamed("leader_epoch", "_later")
    after = F.col("_later") > F.col("asked_epoch")
    ends = (
        judged.join(later, _TP)
        .groupBy(*_ROW, "asked_epoch")
        .agg(
            F.min(F.when(after, F.col("begin"))).alias("known"),
            F.max(F.when(~after, F.col("_later"))).alias("_newest"),
        )
    )
    # One in which nothing was kept is forgotten when the next begins where it did, and before all
    # that it knows a leader answers of the one that it was asked for (LeaderEpochFileCache).
    otherwise = "offset != known or leader_epoch != coalesce(_newest, asked_epoch)"
    wrong = ends.where(f"known is not null and ({otherwise})")
    return _broken("epoch-ends-otherwise", wrong, F.col("known"), ENDS)


def _own_ends(history: History, outcome: Outcome) -> list[DataFrame]:
    """Who answers has the epoch that it was asked in: others are refused, either way."""
    own = history.frame("epoch_end").where("type = 'ok' and topic is not null")
    own = own.where("asked_epoch >= 0 and asked_epoch = believed_epoch")
    own = history.keep("ends of own epochs", lambda: own.select(*_ROW, "asked_epoch"))
    for row in own.groupBy("arm", "trial").count().toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], OWN, row["count"])
    unknown = own.where("leader_epoch != asked_epoch or offset < 0")
    known = own.where("leader_epoch = asked_epoch and offset >= 0")
    log = history.keep("offsets' log", lambda: _log(history))
    early = _before_acked(history, known, log)
    # Its last record by that answer is one that it took in later, in that same leader epoch.
    end, in_it = (F.col("offset") + 1).alias("offset"), F.col("leader_epoch").alias("_in")
    last = log.select(*_TP, end, in_it, "there_t", F.col("offset").alias("known"))
    far = known.join(last, [*_TP, "offset"]).where("_in = leader_epoch and t < there_t")
    return [
        _broken("own-epoch-ends-otherwise", rows, of, OWN)
        for rows, of in ((unknown, F.lit(-1)), (early, F.col("known")), (far, F.col("known")))
    ]


def _ends_of_the_past(history: History) -> DataFrame:
    told = history.frame("epoch_end").where("type = 'ok' and topic is not null")
    behind = served(history, told.select(*_ROW, "asked_epoch"))
    return _broken("fence-ignored", behind, F.col("believed_epoch"), ENDS)


def _finding(row: Mapping[str, Any]) -> Finding:
    one, rule = row["row"], row["rule"]
    place = f"{row['topic']}-{row['partition']}"
    at = {"topic": row["topic"], "partition": row["partition"]}
    told = f"broker {one['node']} told offset {one['offset']} of {place}"
    says = _SAYS[rule].format(told=told, place=place, **one)
    kind = _KINDS[row["of"]]
    picks = [Pick(kind, {**at, "node": one["node"], "t": one["t"]}, rows=1)]
    shown = one["known"] if rule in _SHOWS_KNOWN else one["offset"]
    if rule == "end-too-early":
        picks.insert(0, Pick("produce", {**at, "offset": shown}, rows=1))
    picks.append(Pick("log_read", {**at, "offset": shown}))
    return Finding(rule, says, row["arm"], row["trial"], tuple(picks))


_SAYS: Final = {
    "begins-otherwise": "{told} as its beginning, which is {known}",
    "begins-in-another-epoch": "{told} as its beginning, in a leader epoch later than "
    "{known}, that of the record there",
    "fence-ignored": "{told} to one who believed in leader epoch {known}, of the past",
    "end-in-another-epoch": "{told} as its end, in an older leader epoch than {known}, in which it "
    "had begun to lead",
    "unheard-epoch-served": "{told} as its end to one who believed in leader epoch {known}, of "
    "which it had not heard",
    "end-too-early": "{told} as its end, although {known} had been acknowledged with acks=all",
    "end-never-committed": "{told} as its end; what is before that in the final log (which ends at "
    "{known}) is of a later leader epoch, or was appended after that, or is nothing",
    "time-otherwise": "{told} as the first record at or after {asked} ms, and that it is of "
    "{known} ms; the final log says otherwise",
    "time-missed": "broker {node} told of no record of {place} at or after {asked} ms; there is "
    "one up to offset {known}, and it had told of an end after that, or acks=all had promised it",
    "epoch-ends-otherwise": "{told} as the end of leader epoch {asked}, or of another than the "
    "newest up to that one; the first record of a later one is at {known}",
    "own-epoch-ends-otherwise": "{told} as the end of its own leader epoch {asked}; it is to know "
    "that epoch, and to end behind what acks=all had been promised, and before what came later "
    "({known})",
    "fetch-fence-ignored": "broker {node} served a read of {place} to one who believed in leader "
    "epoch {asked}; it had told of epoch {known} before",
    "fetch-unheard-served": "broker {node} served a read of {place} to one who believed in leader "
    "epoch {asked}; it told of epoch {known} afterwards",
    "given-beyond-end": "broker {node} gave a consumer {place} up to offset {offset}; the end that "
    "it told next, in the same leader epoch, is {known}",
    "watermark-told-otherwise": "broker {node} told a consumer that {place} is committed up to "
    "{offset}; what was told or acknowledged in the same leader epoch, or the log, says {known}",
    "given-in-another-epoch": "broker {node} gave a consumer {place} up to offset {offset}, the "
    "last record under another leader epoch than it has in the final log, which is {known}",
    "read-refused": "broker {node} told who read {place} in leader epoch {asked} that offset "
    "{offset} is out of range; an end of {known} had been told before, in that same epoch",
    "start-told-otherwise": "{told} as its beginning to who read it, which is {known}",
    "given-too-much": "broker {node} gave {known} bytes to who had asked for {asked} at most, of "
    "{place} among them, and in more than one batch",
    "given-nothing": "broker {node} gave nothing at all to who had asked for {asked} bytes at "
    "most, and for {place} from offset {offset} on, which it told to be committed up to {known}",
    "answered-too-soon": "broker {node} gave nothing of {place} from offset {offset} on to one who "
    "wanted it to wait {asked} ms for a record, before these were over",
    "answered-with-too-little": "broker {node} gave {known} bytes of {place} from offset {offset} "
    "on to one who wanted it to wait for {asked}, before the time was up",
    "answered-late": "broker {node} let one who asked for {place} from offset {offset} on wait "
    "until {asked} ms were over; it had told an end of {known} a second before",
}
_SHOWS_KNOWN: Final = ("begins-otherwise", "end-too-early", "time-missed", "epoch-ends-otherwise")

PROMISE: Final = Promise(
    name="offsets",
    says="A leader tells where its log begins, ends, and changed hands.",
    source="Kafka's Partition.fetchOffsetForTimestamp and lastOffsetForLeaderEpoch; KIP-74, "
    "KIP-101, KIP-207, KIP-320",
    rules={
        "begins-otherwise": "The beginning told is the log's.",
        "begins-in-another-epoch": "With the beginning its record's leader epoch is told.",
        "end-too-early": "The end told is behind all that acks=all has acknowledged.",
        "end-never-committed": "The end told is of what is committed, and stays.",
        "time-otherwise": "The record told for a time is the first at or after it.",
        "time-missed": "Who has a record at or after a time tells of one.",
        "epoch-ends-otherwise": "A leader epoch ends where the first record of a later one is.",
        "own-epoch-ends-otherwise": "A leader knows its own leader epoch, which ends with its log.",
        "fence-ignored": "Who believes in a leader epoch of the past is refused.",
        "end-in-another-epoch": "With the end the leader's own leader epoch is told.",
        "unheard-epoch-served": "Who knows of a later leader epoch than its broker is refused.",
        "fetch-fence-ignored": "No records for who believes in a leader epoch of the past.",
        "fetch-unheard-served": "No records for who knows of a later leader epoch.",
        "given-beyond-end": "Who reads is given what is committed, and no more.",
        "watermark-told-otherwise": "Who reads is told how far its leader has committed.",
        "start-told-otherwise": "Who reads is told where the log begins.",
        "given-in-another-epoch": "A record keeps the leader epoch under which it was read.",
        "read-refused": "Who reads where an end was told is not out of range.",
        "given-too-much": "Who reads is given no more than asked for, or one batch (KIP-74).",
        "given-nothing": "Who asks for little is given one batch all the same (KIP-74).",
        "answered-too-soon": "Who waits for records is given some, or waits as long as asked for.",
        "answered-with-too-little": "Who waits for so many bytes is given as many, or waits on.",
        "answered-late": "Who waits for a record is answered when there is one.",
        "fenced-for-nothing": "Nobody is told that the newest leader epoch is of the past.",
        "called-unknown": "Nobody is told that a leader epoch is unknown to who had taken it up.",
    },
    evidence={
        ANSWERS: "by leaders: beginnings, ends, and records by time",
        ENDS: "by leaders of whose own leader epoch the final log has a record",
        OWN: "to those who asked in that epoch",
        READS: "by brokers that served them",
        WAITS: "of partitions that had nothing more to give",
        REFUSED: "because of that, by brokers asked each by itself",
    },
    blind=(
        "the record of the highest timestamp, and the end for followers",
        "ends of leader epochs of logs that retention may shorten",
    ),
    timed=frozenset({"answered-late"}),
    check=check,
)
