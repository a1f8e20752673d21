"""Leaders that go by settings of before, for `checkers.promises.records`.

A topic is given ``message.timestamp.type=LogAppendTime`` while it is written to, or that is taken
from it (faults ``alter-topic``, ``unseen-settings``). Every broker hears of that: by a notification
that it watches, or because it looks for what it missed (`checkers.facts.altered`). So once all is
calm every leader dates what it appends, and its answers say when that was (KIP-32), or none does: a
setting that a topic has no more is the broker's default again (LogConfig.fromProps).

- ``setting-unheeded``: an answer to what was sent then says nothing of it, or does, and should not.

Lawful, and looks similar: what was sent before; acks=0, which nobody answers; a setting that was
altered once more, or may have been, as nobody answered; a topic that was deleted; a black box, of
which nobody knows what it makes of configurations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.altered import altered
from checkers.facts.leadership import TP
from checkers.history.run_info import dated_by_brokers
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "setting-unheeded"
HEEDED: Final = "acknowledged records of topics whose settings were changed"
_BY_BROKER: Final = "LogAppendTime"


def judge_unheeded(history: History, outcome: Outcome) -> None:
    owed = _owed(history)
    if not owed:
        return
    kinds = "arm string, trial int, topic string, owed_t bigint, id string, dates int"
    table = history.table(owed, kinds)
    acked = history.frame("produce").where("type = 'ok' and acks != 0 and offset >= 0")
    late = acked.join(F.broadcast(table), ["arm", "trial", "topic"]).where("invoke_t > owed_t")
    wrong = (F.coalesce("log_append_time_ms", F.lit(-1)) >= 0) != (F.col("dates") == 1)
    sums = late.groupBy(*TP, "id", "dates").agg(
        F.count("*").alias("n"),
        F.count(F.when(wrong, 1)).alias("wrong"),
        F.min_by("value", F.when(wrong, F.col("t"))).alias("value"),
    )
    for row in sums.orderBy(*TP).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], HEEDED, row["n"])
        if row["wrong"]:
            outcome.add(_finding(row), row["wrong"])


def _owed(history: History) -> list[dict[str, Any]]:
    """By topic that was altered: from when on (ns) all go by that, the fault, and whether brokers
    date what they append then."""
    return [
        {
            **dict(zip(("arm", "trial", "topic"), topic, strict=True)),
            "id": of.id,
            "dates": int(dated_by_brokers(of.configs, history.run.brokers)),
            "owed_t": of.owed_t,
        }
        for topic, of in altered(history).items()
        if of is not None
    ]


def _finding(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        RULE,
        f"{row['wrong']} of {row['n']} acknowledgements of {row['topic']}-{row['partition']} say "
        f"{'nothing of ' if row['dates'] else ''}when the record was appended, though all was calm "
        f"since its topic had been {'given' if row['dates'] else 'left without'} {_BY_BROKER}",
        row["arm"],
        row["trial"],
        (
            Pick("fault", {"id": row["id"], "phase": "injected"}, rows=1),
            Pick("produce", {**at, "value": row["value"]}, rows=1),
        ),
    )
