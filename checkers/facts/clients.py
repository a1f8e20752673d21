"""What each client did and was given: in all, and since the last fault was healed.

Sums are made in Spark, in one job that several promises share: by client, and by partition (who
produces or consumes) or broker (who asks each by itself). They do not grow with the load.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.after_healing import AfterHealing, At, Trial, after_healing
from checkers.facts.histogram import grouped
from checkers.facts.unions import is_true, named
from checkers.history.schema import SENT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

OPERATIONS: Final = ("produce", "fetch", "metadata", "probe")
END_NS: Final = 8_000_000_000
"""Of a load that goes on so long after healing: its end."""
SOON_NS: Final = 1_000_000_000
_BY: Final = ("arm", "trial", "kind", "process", "topic", "partition", "node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Operations of one kind of one client, with one partition or broker. Times in ns."""

    key: Trial
    kind: str
    process: str
    at: At | None
    """The partition, of produces and of polls that gave something of it."""
    node: int | None
    """The broker, of metadata reads and probes."""
    rows: int
    ok: int
    fail: int
    info: int
    delivered: int
    """Those that are `ok` and in which something happened: an empty poll is `ok`, too."""

    # Of those that ended after healing and were begun while the load went on:
    since_rows: int
    since_ok: int
    since_delivered: int
    since_answers: int
    since_begun: int
    """Those that were begun after healing, too."""
    since_asked: int
    last_asked_t: int | None
    """Those of them of which a broker was asked (`asked`), and when the last was begun."""
    last_invoke_t: int | None
    first_op: int | None
    last_op: int | None
    in_chaos: int
    """Those that were under way while faults were played."""
    chaos_ok: int
    soon_ok: int
    """Of these, those that are `ok`, and those that were after `SOON_NS` at most."""
    acks_low: int | None
    acks_high: int | None
    """The lowest and highest acks that it asked for; None of what is no produce."""
    end_begun: int
    end_asked: int
    end_ok: int
    """Of the last `END_NS` of the load, all after healing: those that were begun and ended then,
    those of them of which a broker was asked, and those that are `ok`."""
    unplaced: int
    """Those that are `ok` and name no offset."""
    acked: int
    """Records that were begun after healing, accepted, and have an offset to be read at."""
    acked_t: int | None
    """When the first of them was acknowledged."""


def sums(history: History) -> list[Sum]:
    """Made once a history."""
    found: list[Sum] = history.memo("client sums", lambda: _sums(history))
    return found


def healed_trials(history: History) -> dict[Trial, AfterHealing | str]:
    """What is known of every trial since its faults were healed, or why nothing is."""

    def gather() -> dict[Trial, AfterHealing | str]:
        keys = sorted(set(history.trials) | set(history.run.trials))
        return {key: after_healing(history, key) for key in keys}

    found: dict[Trial, AfterHealing | str] = history.memo("healed trials", gather)
    return found


def chaos(history: History) -> dict[Trial, tuple[int, int]]:
    """By trial, from when until when faults were played (ns), where that was told."""
    ends: dict[tuple[Trial, str], int] = {}
    for row in history.rows("phase"):
        if row["name"] == "chaos":
            ends.setdefault(((row["arm"], row["trial"]), row["event"]), row["t"])
    begun = {trial for trial, event in ends if event == "begin"}
    return {t: (ends[t, "begin"], ends[t, "end"]) for t in begun if (t, "end") in ends}


def waited_ns(history: History, key: Trial, process: str, at: At, from_t: int) -> int:
    """For how long (ns) a consumer certainly asked a broker for a partition, and was given nothing
    of it, from ``from_t`` (ns) on; of one suspect, as each costs a query."""
    if not history.has("waiting"):
        return 0
    own: dict[str, str | int] = {"arm": key[0], "trial": key[1], "process": process}
    own |= {"topic": at[0], "partition": at[1]}
    rows = history.frame("waiting").where(F.col("from_t") >= from_t)
    for name, value in own.items():
        rows = rows.where(F.col(name) == value)
    summed = rows.agg(F.sum(F.col("t") - F.col("from_t")).alias("ns")).toArrow().to_pylist()
    return int(summed[0]["ns"] or 0)


def asked() -> Column:
    """Whether a row shows that a broker was asked: it answered, or the client says whom it asked,
    or that it sent something. A library may take records and send none, which no broker is to blame
    for."""
    said = F.coalesce(F.col("failure").endswith(SENT), F.lit(False))
    return F.col("error").isNotNull() | F.col("node").isNotNull() | said


def _sums(history: History) -> list[Sum]:
    kinds = [kind for kind in OPERATIONS if history.has(kind)]
    if not kinds:
        return []
    rows = functools.reduce(lambda a, b: a.unionAll(b), [_rows(history, kind) for kind in kinds])
    ok, since = F.col("type") == "ok", F.col("_since_t").isNotNull()
    happened = ok & ((F.col("kind") != "fetch") | F.col("offset").isNotNull())
    begun = F.when(since & (F.col("invoke_t") >= F.col("_since_t")), F.col("invoke_t"))
    acked = ok & (F.col("offset") >= 0) & begun.isNotNull()
    soon = F.col("t") - F.col("invoke_t") <= SOON_NS

    def count(condition: Any) -> Any:
        return F.count(F.when(condition, 1))

    found = rows.groupBy(*_BY).agg(
        F.count("*").alias("rows"),
        count(ok).alias("ok"),
        count(F.col("type") == "fail").alias("fail"),
        count(F.col("type") == "info").alias("info"),
        count(happened).alias("delivered"),
        count(since).alias("since_rows"),
        count(since & ok).alias("since_ok"),
        count(since & happened).alias("since_delivered"),
        count(since & (ok | F.col("error").isNotNull())).alias("since_answers"),
        F.count(begun).alias("since_begun"),
        F.count(F.when(F.col("_asked"), begun)).alias("since_asked"),
        F.max(F.when(F.col("_asked"), begun)).alias("last_asked_t"),
        F.max(F.when(since, F.col("invoke_t"))).alias("last_invoke_t"),
        F.min(F.when(since, F.col("op"))).alias("first_op"),
        F.max(F.when(since, F.col("op"))).alias("last_op"),
        count(F.col("_in_chaos")).alias("in_chaos"),
        count(F.col("_in_chaos") & ok).alias("chaos_ok"),
        count(F.col("_in_chaos") & ok & soon).alias("soon_ok"),
        count(F.col("_in_end")).alias("end_begun"),
        count(F.col("_in_end") & F.col("_asked")).alias("end_asked"),
        count(F.col("_in_end") & ok).alias("end_ok"),
        count(ok & (F.coalesce("offset", F.lit(-1)) < 0)).alias("unplaced"),
        F.min("acks").alias("acks_low"),
        F.max("acks").alias("acks_high"),
        count(acked).alias("acked"),
        F.min(F.when(acked, F.col("t"))).alias("acked_t"),
    )
    return [_sum(row) for row in grouped(found)]


def _sum(row: dict[str, Any]) -> Sum:
    fields = {name: row[name] for name in row if name not in ("arm", "trial", "topic", "partition")}
    at = None if row["topic"] is None else (row["topic"], row["partition"])
    return Sum(key=(row["arm"], row["trial"]), at=at, **fields)


def _rows(history: History, kind: str) -> DataFrame:
    """With ``_since_t``: when the trial's faults were healed, of operations that ended after it and
    were begun while the load went on."""
    spans = [
        {"arm": key[0], "trial": key[1], "_healed_t": s.since_t, "_until_t": s.until_t}
        for key, s in healed_trials(history).items()
        if not isinstance(s, str)
    ]
    table = history.table(spans, "arm string, trial int, _healed_t bigint, _until_t bigint")
    frame = history.frame(kind).join(F.broadcast(table), ["arm", "trial"], "left")
    played = [
        {"arm": key[0], "trial": key[1], "_from_t": span[0], "_to_t": span[1]}
        for key, span in chaos(history).items()
    ]
    phases = history.table(played, "arm string, trial int, _from_t bigint, _to_t bigint")
    frame = frame.join(F.broadcast(phases), ["arm", "trial"], "left")
    late = (F.col("t") >= F.col("_healed_t")) & (F.col("invoke_t") <= F.col("_until_t"))
    in_chaos = (F.col("t") >= F.col("_from_t")) & (F.col("invoke_t") <= F.col("_to_t"))
    end_t = F.greatest(F.col("_until_t") - END_NS, F.col("_healed_t"))
    by_partition = kind in ("produce", "fetch")
    here, none = F.col, F.lit(None)
    return frame.select(
        "arm",
        "trial",
        named(kind),
        "process",
        (here("topic") if by_partition else none.cast("string")).alias("topic"),
        (here("partition") if by_partition else none.cast("int")).alias("partition"),
        (none.cast("int") if by_partition else here("node")).alias("node"),
        (here("offset") if by_partition else none.cast("bigint")).alias("offset"),
        "type",
        "error",
        "op",
        "invoke_t",
        "t",
        F.when(late, F.col("_healed_t")).alias("_since_t"),
        is_true(in_chaos).alias("_in_chaos"),
        is_true(late & (F.col("t") >= end_t)).alias("_in_end"),
        (asked() | (here("type") == "ok")).alias("_asked"),
        (here("acks") if kind == "produce" else none.cast("int")).alias("acks"),
    )
