"""Records that a consumer was never given, nor anything after them, for `checkers.promises.polls`
(Jepsen's unseen).

Who reads a partition and goes on polling is owed what acks=all acknowledged:

- before the faults were healed, once it polled for `_LONG_ENOUGH_NS` after that;
- later on, so long before its last poll;

if it was given nothing more of the partition for as long. Who goes on is slow, and no more: whether
it would have come to what it is owed nobody can say.

In between, from `_A_WHILE_NS` on, nobody can say (`unknown`), unless it lacks the last of each of
its partitions, of which it has several: a consumer that is to end polls on until nothing more
comes, when nobody writes any more, and what holds up one of them does not hold up all. A member of
a group stands for all of it. On a busy machine `_LONG_ENOUGH_NS` is longer
(`checkers.facts.strain`). Blind: what was acknowledged in the last second before a consumer's
last poll. Who asked no broker for it, for half of that time at least, is not known to be owed
anything (``waiting``); a group is owed it whoever of it asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.clients import waited_ns
from checkers.facts.segments import fallen
from checkers.facts.strain import patience_of
from checkers.judging.excuses import Excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

DELIVERED: Final = "records delivered"
_LONG_ENOUGH_NS: Final = 5_000_000_000
"""For a consumer to be given what was there when the last fault was healed."""
_DRAINED_NS: Final = 1_500_000_000
_A_WHILE_NS: Final = 1_000_000_000
"""Who was given nothing new in so long, but had no longer, is not known to be stuck."""
Row = Mapping[str, Any]
Trial = tuple[str, int]
_GROUP: Final = "group "
_TP: Final = ["arm", "trial", "topic", "partition"]


def judge_unseen(history: History, outcome: Outcome, known: Excuses) -> None:
    """What was acknowledged, against the last that each consumer was given of that partition, among
    those that polled long enough after healing."""
    healed: dict[Trial, int] = {}
    down = fallen(history)
    for row in history.rows("phase"):
        here = (row["arm"], row["trial"])
        if row["name"] == "heal" and row["event"] == "end" and here not in down:
            healed[row["arm"], row["trial"]] = row["t"]
    for arm in sorted({a for a, _ in history.trials} - {a for a, _ in healed}):
        outcome.unjudged(arm, "records that were never delivered: nobody tells when it was healed")
    if not healed or not history.has("produce"):
        return
    patience = patience_of(history)
    long_ns = {trial: int(_LONG_ENOUGH_NS * patience.get(trial, 1.0)) for trial in healed}
    rows = _behind(history, healed, long_ns)
    at_its_end = _without_any_last(rows)
    for row in rows:
        arm, trial = row["arm"], row["trial"]
        polled_ns = row["_last_poll_t"] - row["_healed_t"]
        was_patient = polled_ns > row["_long_ns"]
        outcome.saw(arm, trial, "partitions that a consumer was patient with", int(was_patient))
        missed = _missed_in_the_end(row, was_patient)
        if missed is None:
            continue
        one, certain = missed
        certain = certain or (arm, trial, row["reader"]) in at_its_end
        owed_t = max(one["t"], row["_healed_t"])
        owed_ns = row["_last_poll_t"] - owed_t
        excuse = known.of(arm, trial, row["topic"], row["partition"], owed_t)
        if excuse is not None:
            outcome.excuse(arm, trial, "never-delivered", excuse, of=DELIVERED)
            continue
        seconds = owed_ns / 1e9
        if not certain:
            says = (
                f"{row['reader']} was given nothing of {_place(row)} after offset {row['_given']}"
            )
            why = f"and {one['offset']} had been acknowledged {seconds:.1f} s before its last poll"
            calm_s = (row["_last_poll_t"] - row["_given_t"]) / 1e9
            short = "too short to tell"
            if owed_ns > row["_long_ns"]:
                short = f"it was given something {calm_s:.1f} s before that: too slow to tell"
            outcome.unknown(arm, trial, f"{says}, {why}: {short}")
            continue
        asked_ns = _asked_ns(history, row, owed_t)
        if asked_ns is not None:
            outcome.unknown(
                *(arm, trial),
                f"{row['reader']} was never given {_place(row)} offset {one['offset']}, and nobody "
                f"tells that it asked a broker for it for more than {asked_ns / 1e9:.1f} s",
            )
            continue
        at = {**_at(row), "offset": row["_given"]}
        outcome.add(
            Finding(
                "never-delivered",
                f"{row['reader']} polled for {seconds:.1f} s and was never given {_place(row)} "
                f"offset {one['offset']}, acknowledged before; its last was {row['_given']}",
                arm,
                trial,
                (
                    Pick("produce", {**_at(row), "value": one["value"]}, rows=1),
                    Pick("fetch", at, rows=1),
                    Pick("fetch", {"type": "ok"}, last=True, rows=2),
                ),
            )
        )


def _asked_ns(history: History, row: Row, owed_t: int) -> int | None:
    """For how long (ns) it asked a broker meanwhile, where that is less than half of the time that
    it is owed something; None: it is not, or a group's."""
    if row["reader"].startswith(_GROUP):
        return None
    from_t = max(row["_given_t"], owed_t)
    place = (row["topic"], row["partition"])
    asked_ns = waited_ns(history, (row["arm"], row["trial"]), row["reader"], place, from_t)
    return None if 2 * asked_ns >= row["_last_poll_t"] - from_t else asked_ns


def _behind(
    history: History, healed: Mapping[Trial, int], long_ns: Mapping[Trial, int]
) -> list[dict[str, Any]]:
    """By partition and reader that went on polling: the last that it was given (``_given``, at
    ``_given_t``); of what was acknowledged beyond that the highest: before healing (``early``),
    long before its last poll (``old``), and a while before it (``late``); how much was acknowledged
    by then at all (``owed``)."""
    table = history.table(
        [
            {"arm": key[0], "trial": key[1], "_healed_t": at_t, "_long_ns": long_ns[key]}
            for key, at_t in healed.items()
        ],
        "arm string, trial int, _healed_t bigint, _long_ns bigint",
    )
    reads = _readers(history).join(F.broadcast(table), ["arm", "trial"])
    polls = reads.groupBy("arm", "trial", "reader").agg(F.max("t").alias("_last_poll_t"))
    given = (
        reads.where("type = 'ok' and offset >= 0")
        .groupBy(*_TP, "reader", "_healed_t", "_long_ns")
        .agg(F.max("offset").alias("_given"), F.max("t").alias("_given_t"))
    )
    patient = given.join(F.broadcast(polls), ["arm", "trial", "reader"])
    patient = patient.where(f"_last_poll_t > _healed_t + {_A_WHILE_NS}")
    acked = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    # Few first: of what comes first Sail makes the table that the others are looked up in.
    acked = F.broadcast(patient).join(acked.select(*_TP, "offset", "value", "t"), _TP)
    one, t = F.struct("offset", "value", "t"), F.col("t")
    beyond = F.col("offset") > F.col("_given")
    old = t < F.col("_last_poll_t") - F.col("_long_ns")
    late = t < F.col("_last_poll_t") - _A_WHILE_NS
    found = acked.groupBy(*patient.columns).agg(
        F.max(F.when(beyond & (t < F.col("_healed_t")), one)).alias("early"),
        F.max(F.when(beyond & old, one)).alias("old"),
        F.max(F.when(beyond & late, one)).alias("late"),
        F.count(F.when(late, 1)).alias("owed"),
    )
    return list(found.toArrow().to_pylist())


def _without_any_last(rows: Iterable[Row]) -> set[tuple[str, int, str]]:
    """Readers of several partitions that were not given the last record of any of them, though they
    were given nothing else for `_DRAINED_NS`."""
    found: dict[tuple[str, int, str], list[bool]] = {}
    for row in rows:
        late = row["late"]
        if row["owed"]:
            lacks = late is not None and (
                row["_last_poll_t"] - max(row["_given_t"], late["t"]) > _DRAINED_NS
            )
            found.setdefault((row["arm"], row["trial"], row["reader"]), []).append(lacks)
    return {reader for reader, lacks in found.items() if len(lacks) > 1 and all(lacks)}


def _missed_in_the_end(row: Row, was_patient: bool) -> tuple[Row, bool] | None:
    """The record that should have come, and whether that is certain."""
    early, old, late = row["early"], row["old"], row["late"]
    still_ns = row["_last_poll_t"] - row["_given_t"]
    if early is not None:
        return early, was_patient and still_ns > row["_long_ns"]
    if old is not None and still_ns > row["_long_ns"]:
        return old, was_patient
    if late is not None and still_ns > _A_WHILE_NS:
        return late, False
    return None


def _readers(history: History) -> DataFrame:
    """`fetch` rows with ``reader``: the process, or the group that it is a member of."""
    members = history.frame("assignment").select("arm", "trial", "process", "group").distinct()
    rows = history.frame("fetch").join(F.broadcast(members), ["arm", "trial", "process"], "left")
    return rows.withColumn("reader", F.coalesce(F.concat(F.lit(_GROUP), "group"), "process"))


def _at(row: Any) -> dict[str, Any]:
    return {"topic": row["topic"], "partition": row["partition"]}


def _place(row: Any) -> str:
    return f"{row['topic']}-{row['partition']}"
