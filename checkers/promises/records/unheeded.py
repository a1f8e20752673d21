"""Leaders that go by settings of before, for `checkers.promises.records`.

A topic is given ``message.timestamp.type=LogAppendTime`` while it is written to (faults
``alter-topic``, ``unseen-settings``). Every broker hears of that: by a notification that it
watches, or, when its ZooKeeper session ended meanwhile, because it looks for what it missed with
the next one (ZkNodeChangeNotificationListener). So once all is calm every leader dates what it
appends, and its answers say when that was (KIP-32).

- ``setting-unheeded``: an answer to what was sent then says nothing of it.

Lawful, and looks similar: what was sent before; acks=0, which nobody answers; a setting that was
altered once more; a topic that was deleted; a black box, of which nobody knows what it makes of
configurations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.calm import calm
from checkers.facts.details import details
from checkers.facts.leadership import TP, black_boxes
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "setting-unheeded"
HEEDED: Final = "acknowledged records of topics whose settings were changed"
ALTERED: Final = ("alter-topic", "unseen-settings")
_SETTING: Final = "message.timestamp.type"
_BY_BROKER: Final = "LogAppendTime"


def judge_unheeded(history: History, outcome: Outcome) -> None:
    owed = _owed(history)
    if not owed:
        return
    table = history.table(owed, "arm string, trial int, topic string, owed_t bigint, id string")
    acked = history.frame("produce").where("type = 'ok' and acks != 0 and offset >= 0")
    late = acked.join(F.broadcast(table), ["arm", "trial", "topic"]).where("invoke_t > owed_t")
    missing = F.coalesce("log_append_time_ms", F.lit(-1)) < 0
    sums = late.groupBy(*TP, "id").agg(
        F.count("*").alias("n"),
        F.count(F.when(missing, 1)).alias("missing"),
        F.min_by("value", F.when(missing, F.col("t"))).alias("value"),
    )
    for row in sums.orderBy(*TP).toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], HEEDED, row["n"])
        if row["missing"]:
            outcome.add(_finding(row), row["missing"])


def _owed(history: History) -> list[dict[str, Any]]:
    """By topic that was given `_BY_BROKER` last: from when on (ns) all go by it, and the fault."""
    boxes, quiet = set(black_boxes(history)), calm(history)
    gone = {(row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")}
    last: dict[tuple[str, int, str], dict[str, Any]] = {}
    for row in history.rows("fault"):
        if row["fault"] in ALTERED and row["phase"] == "injected":
            last[row["arm"], row["trial"], details(row)["topic"]] = row
    found = []
    for (arm, trial, topic), row in last.items():
        dates = details(row)["configs"].get(_SETTING) == _BY_BROKER
        if not dates or arm in boxes or (arm, trial, topic) in gone:
            continue
        then = quiet.get((arm, trial))
        if then is not None:
            at = {"arm": arm, "trial": trial, "topic": topic, "id": row["id"]}
            found.append({**at, "owed_t": then.owed_from(row["t"])})
    return found


def _finding(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        RULE,
        f"{row['missing']} of {row['n']} acknowledgements of {row['topic']}-{row['partition']} say "
        "nothing of when the record was appended, though all was calm since its topic had been "
        "given LogAppendTime",
        row["arm"],
        row["trial"],
        (
            Pick("fault", {"id": row["id"], "phase": "injected"}, rows=1),
            Pick("produce", {**at, "value": row["value"]}, rows=1),
        ),
    )
