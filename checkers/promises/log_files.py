"""Log files: do logs lie on disk as brokers serve them, and does what lies beside them fit?

A broker may serve for long what its next life will not find: from memory, past an index that leads
astray, beside a checkpoint that says otherwise. So in the end the folders themselves are read
(`log_folder`), as ``kafka-dump-log`` would.

Violations:
- ``not-on-disk``: a broker told an end that its files do not reach, or served records of idempotent
  producers, and its files have no batch of any. What is written, a kill of its process cannot take
  (the page cache is the kernel's), but what it holds back;
- ``batch-damaged``: a batch without its checksum, offsets that do not rise, bytes that are no
  batch: a broker cuts them off when it starts (LogLoader), and follows with whole batches;
- ``index-misleads``: an entry of an offset or time index leads to where no batch is, or beyond what
  is looked for (of a time, beyond the first batch that has it), or there is none amid others:
  readers would be given too few records, or none, or another than the first of that time. The
  index of a segment that Kafka still writes is longer than what it counts, and what a cut took
  stands there until it is overwritten: excused, and counted, where the log can have been cut;
- ``times-otherwise``: a batch says that its latest record is of another time than it is, or a
  segment's latest record is of another time on disk than as it was served: a search for a time
  passes it by, and retention takes it too early or too late;
- ``producer-went-back``: a batch of an idempotent producer is of an older producer epoch than one
  before it, or has a sequence that was there already: no leader takes that (KIP-98);
- ``producers-otherwise``: a producer snapshot lacks the last batch that an idempotent producer had
  in the log up to there: whoever begins with it takes duplicates, or refuses what comes next;
- ``producer-forgotten``: a producer snapshot knows of a batch that is not in the log any more, nor
  a later one of that producer, though its segment is: compaction keeps the last batch of each
  producer, emptied (Cleaner.shouldDiscardBatch). Who makes the snapshots anew, or has the log from
  such a leader, does not know any more what that producer has written;
- ``epochs-otherwise``: leader-epoch-checkpoint gives a record another leader epoch than its batch:
  followers are told to cut too much or too little (KIP-101);
- ``epochs-of-the-past``: leader-epoch-checkpoint begins a leader epoch below the log's start, where
  the one that lies there is to begin (LeaderEpochFileCache.truncateFromStart): who asks where such
  an epoch ends is told of records that are gone;
- ``topic-id-otherwise``: replicas of a topic keep different ids of it, or some keep one and others
  none (KIP-516): in its next life such a broker refuses its leader, or obeys another topic's.

Lawful, and looks similar: a replica of Kafka 2.8 has no topic id yet. The checkpoint may begin
leader epochs of which there are no records, at the log's end or where another begins; below the
log's start it tells of nothing, though the segment is there still. An index may lack entries, or be
missing: it is made anew. A snapshot may know of producers whose records are deleted; one beyond the
log's end is of a log that was cut, and about to be removed. Faults damage logs of brokers that are
down, and those mend them when they start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.committed import committed
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
FOLDERS: Final = "folders of replicas"
LATE: Final = "topic_ids_late"
"""In run.json, of an arm: a replica may do without its topic's id for a while (2.8)."""
_NODE: Final = ["arm", "trial", "topic", "partition", "node"]
_MISLEADS: Final = "index-misleads"
_STALE: Final = "stale-index"
"""Damage that a cut may have left."""
_NOBODY: Final = -1
_TAKEN_DOWN: Final = frozenset({"kill", "stop"})
_BY_SORT: Final = {
    "batch": "batch-damaged",
    "index": _MISLEADS,
    "times": "times-otherwise",
    "producer": "producer-went-back",
    "snapshot": "producers-otherwise",
    "forgotten": "producer-forgotten",
    "epochs": "epochs-otherwise",
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    served = {
        (*_place(row), row["node"]): row
        for row in history.rows("log_end")
        if row["error"] is None and row["log_end_offset"] is not None
    }
    told = history.rows("log_folder")
    read = [row for row in told if row["error"] is None]
    for row in told:
        if row["error"] is not None:
            outcome.unknown(row["arm"], row["trial"], f"{_whose(row)} was not read: {row['error']}")
    for row in read:
        outcome.saw(row["arm"], row["trial"], FOLDERS)
        for finding in _findings(row, served.get((*_place(row), row["node"]))):
            outcome.add(finding)
        for damage in row["damage"]:
            if damage["sort"] != _STALE:
                continue
            if _may_be_cut(history, row):
                outcome.excuse(row["arm"], row["trial"], _MISLEADS, "cut-index", of=FOLDERS)
            else:
                outcome.add(_finding(_MISLEADS, row, f"{damage['file']}: {damage['says']}"))
    for finding in (
        *(*_topic_ids(history, read), *_producers(read)),
        *(*_of_no_producer(history, read), *_times(history, read, served)),
    ):
        outcome.add(finding)
    for key in sorted(served.keys() - {(*_place(row), row["node"]) for row in told}):
        arm, trial, *_ = key
        outcome.unknown(arm, trial, f"nobody tells of {_whose(served[key])}")
    return outcome


def _may_be_cut(history: History, row: Row) -> bool:
    """Whether others tell of what makes a broker cut its log: that another led the partition, or
    that the harness took the broker down."""
    states = committed(history).get(_place(row))
    led = {state.row["leader"] for state in states.states} if states else set()
    if led - {row["node"], None, _NOBODY}:
        return True
    events = rows_of(history, "node_event", (row["arm"], row["trial"]))
    return any(e["node"] == row["node"] and e["event"] in _TAKEN_DOWN for e in events)


def _place(row: Row) -> tuple[Any, ...]:
    return (row["arm"], row["trial"], row["topic"], row["partition"])


def _whose(row: Row) -> str:
    return f"the folder of {row['topic']}-{row['partition']} on node {row['node']}"


def _findings(row: Row, served: Row | None) -> Iterator[Finding]:
    for damage in row["damage"]:
        rule = _BY_SORT.get(damage["sort"])
        if rule is not None:
            yield _finding(rule, row, f"{damage['file']}: {damage['says']}")
    if served is not None and row["end_offset"] < served["log_end_offset"]:
        says = f"it ends at offset {row['end_offset']}; {served['log_end_offset']} was told"
        yield _finding("not-on-disk", row, says)
    start = (served or {}).get("log_start_offset") or row["start_offset"]
    wrong = misplaced(row["epochs"], row["checkpoint"], start)
    if wrong is not None:
        says = "the record at offset {} is of leader epoch {}, and by its checkpoint of {}"
        yield _finding("epochs-otherwise", row, says.format(*wrong))
    past = [entry for entry in row["checkpoint"] if entry["offset"] < start]
    if past and served is not None:
        first = min(past, key=lambda entry: entry["offset"])
        says = f"leader epoch {first['leader_epoch']} begins at {first['offset']} by its checkpoint"
        yield _finding("epochs-of-the-past", row, f"{says}, and its log at {start}")


def misplaced(
    epochs: Sequence[Row], checkpoint: Sequence[Row], start: int
) -> tuple[int, int, int | None] | None:
    """The first record from ``start`` on of which the checkpoint tells another leader epoch: its
    offset, its own leader epoch and the checkpoint's (None: none). Within a run of batches of one
    leader epoch only the first record and those where the checkpoint begins another can differ."""
    begins = sorted((entry["offset"], entry["leader_epoch"]) for entry in checkpoint)
    for run in epochs:
        first, last = max(run["first_offset"], start), run["last_offset"]
        for offset in (first, *(at for at, _ in begins if first < at <= last)):
            if offset > last:
                continue
            told = next((epoch for at, epoch in reversed(begins) if at <= offset), None)
            if told != run["leader_epoch"]:
                return offset, run["leader_epoch"], told
    return None


def _topic_ids(history: History, rows: Sequence[Row]) -> Iterator[Finding]:
    """Of one topic all replicas have one id; with an older release none has any."""
    late = {arm for arm, facts in history.run.arms.items() if facts.get(LATE) is True}
    rows = sorted(
        (row for row in rows if row["topic_id"] is not None or row["arm"] not in late),
        key=lambda row: (row["arm"], row["trial"], row["topic"], str(row["topic_id"])),
    )
    for one, other in pairwise(rows):
        if _place(one)[:3] == _place(other)[:3] and one["topic_id"] != other["topic_id"]:
            says = (
                f"it keeps topic id {other['topic_id']}, and node {one['node']} {one['topic_id']}"
            )
            yield _finding("topic-id-otherwise", other, says)


def _producers(rows: Sequence[Row]) -> Iterator[Finding]:
    """Logs of a partition that begin and end alike, of the same leader epochs, end with the same
    batches of the same producers: whoever leads next knows a repeated batch by them."""
    known: dict[tuple[Any, ...], tuple[Row, list[tuple[int, ...]]]] = {}
    for row in rows:
        if row["producers"] is None:
            continue
        epochs = tuple(tuple(run.values()) for run in row["epochs"] or ())
        log = (*_place(row), row["start_offset"], row["end_offset"], epochs)
        mine = sorted(tuple(one.values()) for one in row["producers"])
        other, theirs = known.setdefault(log, (row, mine))
        if mine != theirs:
            says = "it has the batches of other producers, or others of theirs, than the same log "
            yield _finding("producers-differ", row, f"{says}on node {other['node']}")


def _of_no_producer(history: History, rows: Sequence[Row]) -> Iterator[Finding]:
    bare = {(*_place(row), row["node"]): row for row in rows if row["producers"] == []}
    if not bare:
        return
    served = history.frame("log_read").where("producer_epoch >= 0")
    for one in served.groupBy(*_NODE).count().orderBy(*_NODE).toArrow().to_pylist():
        row = bare.get(tuple(one[name] for name in _NODE))
        if row is not None:
            says = f"no batch in it is an idempotent producer's; {one['count']} records served were"
            yield _finding("not-on-disk", row, says)


def _times(history: History, rows: Sequence[Row], served: Mapping[Any, Row]) -> Iterator[Finding]:
    """One finding a folder. Nothing is appended any more by then; of a segment that the log's start
    lies in, not all is served."""
    folders = {(*_place(row), row["node"]): row for row in rows if row["kept"]}
    segments = [
        {**dict(zip(_NODE, key, strict=True)), "_base": one["base_offset"], "_next": after}
        | {"_newest_ms": one["newest_ms"]}
        for key, row in folders.items()
        if key in served
        for one, after in zip(
            row["kept"],
            [*(other["base_offset"] for other in row["kept"][1:]), served[key]["log_end_offset"]],
            strict=True,
        )
        if one["base_offset"] >= (served[key]["log_start_offset"] or 0)
    ]
    if not segments or not history.has("log_read"):
        return
    kinds = "arm string, trial int, topic string, partition int, node int"
    known = history.table(segments, f"{kinds}, _base bigint, _next bigint, _newest_ms bigint")
    read = history.frame("log_read").where("append_time_ms >= 0")
    read = read.join(F.broadcast(known), _NODE).where("offset >= _base and offset < _next")
    latest = read.groupBy(*_NODE, "_base", "_newest_ms").agg(F.max("append_time_ms").alias("_ms"))
    told: set[tuple[Any, ...]] = set()
    for one in latest.where("_ms <> _newest_ms").orderBy(*_NODE, "_base").toArrow().to_pylist():
        key = tuple(one[name] for name in _NODE)
        if key not in told:
            told.add(key)
            says = f"the latest record of its segment {one['_base']} is of {one['_newest_ms']} ms"
            yield _finding("times-otherwise", folders[key], f"{says}; {one['_ms']} ms was served")


def _finding(rule: str, row: Row, says: str) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    own = {**at, "node": row["node"]}
    picks = (Pick("log_folder", at, rows=9), Pick("log_end", own, rows=1))
    return Finding(rule, f"{_whose(row)}: {says}", row["arm"], row["trial"], picks)


PROMISE: Final = Promise(
    name="log-files",
    says="Logs lie on disk as they are served, with indexes and checkpoints that fit them.",
    source="Kafka's LogSegment, OffsetIndex, TimeIndex, LeaderEpochFileCache (KIP-101), "
    "ProducerStateManager and PartitionMetadataFile (KIP-516)",
    rules={
        "not-on-disk": "What a broker serves lies in its files.",
        "batch-damaged": "Files hold whole batches, in the order of their offsets.",
        "index-misleads": "An index leads to the batches that it is asked for, or before them.",
        "times-otherwise": "A batch, or a segment, has its latest record's time.",
        "producer-went-back": "A producer's epoch never goes back along a log, nor its sequence.",
        "producers-otherwise": "A producer snapshot has the last batch of each producer.",
        "producer-forgotten": "The last batch of a producer stays in the log, if only emptied.",
        "producers-differ": "The same log has the same producers' batches on all replicas.",
        "epochs-otherwise": "By its checkpoint each record has its own leader epoch.",
        "epochs-of-the-past": "Its checkpoint tells of no leader epoch below the log's start.",
        "topic-id-otherwise": "All replicas of a topic keep the same topic id.",
    },
    evidence={FOLDERS: "of nodes that ran at the final read"},
    unknown_when=("a folder cannot be read, or is not told of although its log was read",),
    blind=(
        "folders of nodes that do not run in the end",
        "indexes that lack entries, and what checkpoints of a log directory say of offsets",
        "producer snapshots of another version than 1",
        "the times in batches of a codec whose package is not installed",
        "topics that the run did not make, __consumer_offsets among them",
    ),
    at_rest=frozenset({"times-otherwise", "producers-otherwise", "producers-differ"}),
    check=check,
)
