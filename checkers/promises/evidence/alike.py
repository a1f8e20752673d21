"""What a writer says in some rows of a sort, and leaves out of others of the same sort.

Which columns a system fills in differs: what no row has nobody can miss. But one program writes all
rows of a kind, and fills in the same columns each time that the same happened: an operation that
went well, a partition's answer, a state that was written. A column that is null in some of them was
lost, and whatever is judged by it falls out of the count.

Brokers of one cluster are one program as well: of what they number each fills in what others do.

``_SORTS`` says of which sort a row is; ``_EITHER`` what may be there or not, for all one knows. An
idempotent producer that had to send again is not always told an offset (librdkafka takes
DUPLICATE_SEQUENCE_NUMBER for success): such an acknowledgement is of a sort of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import NO_RETRY_NS
from checkers.history import KINDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

Trial = tuple[str, int]
_OPERATION: Final = ("type", "error is null")
_SORTS: Final[Mapping[str, tuple[str, ...]]] = {
    "produce": (*_OPERATION, "failure = 'unanswered'"),  # acks=0: as it should be, if not ok
    "fetch": (*_OPERATION, "offset is null", "topic is null"),
    "commit": _OPERATION,
    "committed": (*_OPERATION, "topic is null"),
    "listed_offset": (*_OPERATION, "asked_ms < 0", "node"),
    "epoch_end": (*_OPERATION, "node"),
    "read_at": (*_OPERATION, "node"),
    "coordinator": (*_OPERATION, "node"),
    "metadata": (
        *(*_OPERATION, "error <> 0", "partition is null", "topic is null", "brokers is null"),
        "node",
    ),
    "probe": (*_OPERATION, "node"),
    "forged": (*_OPERATION, "api", "lie", "topic is null", "node"),
    "control_send": ("api",),  # StopReplica tells no state of a partition
    "control_response": ("error is null",),
    "control_request": ("api", "client_id", "error = 0"),
    "channel_queue": (),
    "plane_use": (),
    "leadership": ("source",),
    "zk_write": ("what", "step"),
    "topic_deletion": ("step",),
    "leader_change": ("role",),
    "replica_stop": (),
    "truncation": ("reason",),
    "metadata_update": ("leader = -2",),  # of a partition that is deleted
    "isr_change": (),
    "controller": ("event",),
    "exception": (),
    "flood": (),
    "assignment": ("event",),
    "waiting": (),
    "connection": (),
    "final_state": ("what",),
    "log_read": (),
    **dict.fromkeys(("log_end", "log_folder", "described"), ("error is null",)),
    "node_event": ("event",),
    "fault": ("phase",),
    "phase": (),
}
_EITHER: Final = {
    "fetch": ("value",),  # null of a record that is not a workload's
    "log_read": ("value",),
    "leadership": ("commit_ms",),
    "final_state": ("lasting_ns", "failure", "gives_back"),
    "node_event": ("detail", "boot"),  # a harness of before counted no starts
    "fault": ("nodes", "took_hold", "detail"),
    # What was known of a log that could not be read to its end.
    "log_end": ("log_start_offset", "log_end_offset", "high_watermark", "is_leader"),
    "described": ("told", "truth"),
    "log_folder": ("topic_id",),  # who keeps none is a finding (`checkers.promises.log_files`)
}
_WRITER: Final = (
    "if(_numbered and process rlike '^node-[0-9]+$', 'brokers', coalesce(process, '?'))"
)
"""Who writes alike."""
_NOT_ASKED: Final = ("error_ns", "process")


def unlike(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: whose rows of a kind differ in which columns."""
    again = _sent_again(history)
    parts = [
        _rows(history, kind, again if kind == "produce" else ())
        for kind in _SORTS
        if history.has(kind)
    ]
    if not parts:
        return []
    rows: DataFrame = functools.reduce(lambda one, other: one.unionAll(other), parts)
    each = rows.groupBy("arm", "trial", "kind", "process", "sort").agg(
        F.bit_or("there").alias("_some"), F.bit_and("there").alias("_all")
    )
    each = each.withColumn("odd", F.col("_some").bitwiseXOR(F.col("_all"))).where("odd <> 0")
    found = each.groupBy("arm", "trial", "kind", "process").agg(F.bit_or("odd").alias("odd"))
    told = []
    for row in found.toArrow().to_pylist():
        names = [n for i, n in enumerate(_columns(row["kind"])) if row["odd"] >> i & 1]
        says = f"some rows have no {', '.join(names)}, and others that tell of the same have"
        told.append(((row["arm"], row["trial"]), f"{row['process']}, {row['kind']}: {says}"))
    return sorted(told)


def _columns(kind: str) -> list[str]:
    besides = (*_NOT_ASKED, *_EITHER.get(kind, ()))
    return [name for name in KINDS[kind].all_columns if name not in besides]


def _sent_again(history: History) -> tuple[str, ...]:
    """Which `produce` rows are of an idempotent producer that had time to send again, and was told
    no offset."""
    names = {name for (*_, name), how in history.run.deliveries().items() if how == "idempotent"}
    if not names:
        return ()
    mine = ", ".join("'" + name.replace("'", "''") + "'" for name in sorted(names))
    slow = f"t - invoke_t >= {NO_RETRY_NS}"
    return (f"type = 'ok' and offset is null and {slow} and process in ({mine})",)


def _rows(history: History, kind: str, more: tuple[str, ...]) -> DataFrame:
    there = (f"if(`{name}` is null, 0L, {1 << i}L)" for i, name in enumerate(_columns(kind)))
    sorts = {f"_sort{i}": one for i, one in enumerate((*_SORTS[kind], *more))}
    # One text each: column by column it would be hundreds of calls to Spark a kind.
    rows = history.frame(kind).selectExpr(
        *("arm", "trial", "process", "seq is not null as _numbered"),
        *(f"{one} as {name}" for name, one in sorts.items()),
        f"{' | '.join(there)} as there",
    )
    if history.many(kind):  # put into words once for all that say the same
        rows = rows.distinct()
    said = (f"coalesce(string({name}), '?')" for name in sorts)
    return rows.select(
        "arm",
        "trial",
        F.lit(kind).alias("kind"),
        F.expr(_WRITER).alias("process"),
        F.expr(f"concat_ws('|', {', '.join(said)})" if sorts else "''").alias("sort"),
        "there",
    )
