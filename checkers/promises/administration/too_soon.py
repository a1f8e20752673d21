"""Who is told of something that the teller does not know yet, for
`checkers.promises.administration`.

With ZooKeeper a controller is told of its own decisions by its own UpdateMetadata, like any broker,
and whoever asked for a topic, or for an election, is answered when it has come: what is granted
then shows in the metadata of the broker that granted it (DelayedCreatePartitions and
DelayedElectLeader, which wait for MetadataCache), so that whoever asked may go on from there.

- ``answered-too-soon``: a controller says that it made a topic, or that the preferred replica of a
  partition leads, and whoever asks the same broker for its metadata afterwards, within `SOON_NS`,
  is told that there is no such topic, or of an older leader epoch than that of the election.

Lawful, and looks similar: both questions under way at once; an election of long before, and any
that nothing in ZooKeeper's log tells the leader epoch of; a topic that is to be deleted; a broker
that has begun anew since. What a fault does to the controller, or a forger tells it, is the
fault's; a flood only makes it wait, as does what it is told late of its own decision. Without
ZooKeeper a controller answers for the quorum, and not for any broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.administration.withheld import by_topic, done_by

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "answered-too-soon"
SHOWN: Final = "answers about what a controller had said that it did"
SOON_NS: Final = 2_000_000_000
_UNKNOWN_TOPIC: Final = 3
_KINDS: Final = ("CREATE_TOPICS", "ELECT_LEADERS")
_TABLE: Final = (
    "arm string, trial int, node int, topic string, _partition int, _epoch int, _op bigint, "
    "_process string, _api string, _from bigint, _to bigint"
)
Row = Mapping[str, Any]
Trial = tuple[str, int]


def granted(
    trial: Trial,
    requests: Sequence[Row],
    log: Sequence[Row],
    dying: Sequence[Row],
    is_fit: Callable[[int, int, int], bool],
) -> Iterator[dict[str, Any]]:
    """What each answer promises, as a row: of which topic, and (of an election) of which partition
    and leader epoch. ``requests``, ``log``, ``dying``: as `withheld.withheld` has them;
    ``is_fit``: of a broker, and from when until when (ns), whether nothing disturbed it."""
    doomed, by = {row["topic"] for row in dying}, by_topic(log)
    for request in requests:
        if request["api"] not in _KINDS or request["error"] != 0 or not request["about"]:
            continue
        of = done_by(request, by, dying)
        until_t = request["t"] + SOON_NS
        if of is None or of["t"] < request["invoke_t"] or of["topic"] in doomed:
            continue
        if not is_fit(request["node"], request["invoke_t"], until_t):
            continue
        elects = request["api"] == "ELECT_LEADERS"
        yield {
            **{"arm": trial[0], "trial": trial[1], "node": request["node"], "topic": of["topic"]},
            "_partition": of["partition"] if elects else None,
            "_epoch": of["leader_epoch"] if elects else None,
            **{"_op": request["op"], "_process": request["process"], "_api": request["api"]},
            **{"_from": request["t"], "_to": until_t},
        }


def too_soon(
    history: History, outcome: Outcome, promised: Sequence[dict[str, Any]]
) -> Iterator[Finding]:
    """One finding for each kind of request and trial."""
    if not promised or not history.has("metadata"):
        return
    table = F.broadcast(history.table(promised, _TABLE))
    rows = history.frame("metadata").where("type = 'ok' and topic is not null")
    rows = rows.join(table, ["arm", "trial", "node", "topic"])
    rows = rows.where("invoke_t > _from and t <= _to")
    of_it = F.col("_partition").isNull() | (F.col("partition") == F.col("_partition"))
    older = (F.col("leader_epoch") >= 0) & (F.col("leader_epoch") < F.col("_epoch"))
    unknown = F.col("_partition").isNull() & (F.col("error") == _UNKNOWN_TOPIC)
    wrong = F.coalesce(older, F.lit(False)) | F.coalesce(unknown, F.lit(False))
    what = ("node", "topic", "_partition", "_epoch", "_op", "_process")
    sums = (
        rows.where(of_it)
        .groupBy("arm", "trial", "_api")
        .agg(
            F.count("*").alias("asked"),
            F.min(F.when(wrong, F.struct("t", "invoke_t", "_from", *what))).alias("first"),
        )
    )
    for row in sums.orderBy("arm", "trial", "_api").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], SHOWN, row["asked"])
        if row["first"] is not None:
            yield _finding(row, row["first"])


def _finding(row: Row, first: Row) -> Finding:
    after_ms = (first["invoke_t"] - first["_from"]) / 1e6
    if first["_partition"] is None:
        what = f"it had made topic {first['topic']}, and that there is none"
    else:
        place = f"{first['topic']}-{first['_partition']}"
        what = f"its preferred replica led {place}, and of a leader epoch before {first['_epoch']}"
    return Finding(
        RULE,
        f"node {first['node']} said that {what} to who asked {after_ms:.0f} ms later",
        row["arm"],
        row["trial"],
        (
            Pick("admin_request", {"process": first["_process"], "op": first["_op"]}, rows=1),
            Pick("metadata", {"node": first["node"], "t": first["t"]}, rows=2),
        ),
    )
