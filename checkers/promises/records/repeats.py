"""Batches that were sent once more, for `checkers.promises.records`.

A producer whose connection breaks before the answer comes sends again what is unanswered, up to
five batches. Its leader, and who leads next, knows the last five batches of each producer and says
where they are (KIP-98, KAFKA-5494; ProducerStateEntry.findDuplicateBatch). One that knows fewer
refuses what it has, or takes it once more: the producer gives up, or is told another offset.
Here a client does so with batches that were acknowledged (`repeated` rows), so that it is known
where they are.

Nothing is said of an answer that is about something else (who leads, replicas, time), nor of a
broker that did not lead by ZooKeeper or the metadata log, in one leader epoch, from when it was
asked to when it had answered: a leader that was deposed does not have what its successor took.

Lawful, and looks similar: a leader that loaded what it knows since the batch was first sent
(`checkers.facts.producer_memory`) knows one batch alone. Counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import key_of
from checkers.facts.producer_memory import leader_at, loaded_since
from checkers.judging.excuses import excuses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

REPEATED: Final = "batches sent once more"
REFUSED: Final = "repeat-refused"
OTHERWISE: Final = "repeat-told-otherwise"
_UNKNOWN_BATCH: Final = (45, 46, 47, 59, 90)
"""OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH,
UNKNOWN_PRODUCER_ID, PRODUCER_FENCED."""


def judge_repeats(history: History, outcome: Outcome, of: str) -> None:
    """``of``: what its excuses are shares of."""
    if not history.has("repeated"):
        return
    codes = ", ".join(map(str, _UNKNOWN_BATCH))
    asked = history.frame("repeated").where("node is not null and topic is not null")
    by = asked.where("type = 'ok'").groupBy("arm", "trial").count()
    for row in by.orderBy("arm", "trial").toArrow().to_pylist():
        outcome.saw(row["arm"], row["trial"], REPEATED, row["count"])
    odd = asked.where(f"error in ({codes}) or (type = 'ok' and not offset <=> first_offset)")
    known = excuses(history)
    for row in odd.orderBy("arm", "trial", "t", "op").toArrow().to_pylist():
        key = key_of(row)
        led = leader_at(history, key, row["t"])
        if led is None:
            says = f"nobody tells who led {row['topic']}-{row['partition']} as a batch was repeated"
            outcome.unknown(*key[:2], says)
            continue
        if led[1] != row["node"] or led != leader_at(history, key, row["invoke_t"]):
            continue
        excuse = known.of(*key, row["t"])
        newest = row["later"] == 0
        if excuse is not None:
            outcome.excuse(*key[:2], _rule(row), excuse, of=of)
        elif loaded_since(history, key, row["node"], row["first_t"], row["t"], newest=newest):
            figures = outcome.arm(row["arm"])
            figures["repeats_forgotten"] = figures.get("repeats_forgotten", 0) + 1
        else:
            outcome.add(_finding(row))


def _rule(row: Mapping[str, Any]) -> str:
    return OTHERWISE if row["type"] == "ok" else REFUSED


def _finding(row: Mapping[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    says = f"offset {row['offset']}" if row["type"] == "ok" else f"error {row['error']}"
    return Finding(
        _rule(row),
        f"value {row['value']}, acknowledged at offset {row['first_offset']} of {row['topic']}-"
        f"{row['partition']}, with {row['later']} batches of its producer after it, was sent to "
        f"its leader {row['node']} once more, and answered with {says}",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {**at, "value": row["value"]}, rows=1),
            Pick("repeated", {**at, "value": row["value"], "t": row["t"]}, rows=1),
            Pick("log_read", {**at, "value": row["value"]}, rows=3),
        ),
    )
