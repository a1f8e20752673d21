"""Goodbyes: who asks a controller to be relieved before it stops, for `checkers.promises.fencing`.

A ControlledShutdown names the registration of who asks (KIP-380), as it may come late: from a
broker that has stopped since, and is back. The controller that knows of the new registration must
refuse it (STALE_BROKER_EPOCH, KafkaController.doControlledShutdown); else it takes the broker for
one that shuts down, which leads nothing and is in no in-sync set, for as long as it lives.

- ``stale-shutdown-accepted``: the request of a former registration is answered without error,
  though that controller had sent the broker something as to a newer one, or another error than
  Kafka's is given. What it sends tells what it knows.

Lawful, and looks similar: a controller that has not heard of the new registration obeys; one that
is none any more (11, 41); one for which the broker is gone, as its registration was a moment ago
(8, and -1, by which Kafka trips).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.registrations import absences, was_absent
from checkers.history.schema import SHUTDOWN
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "stale-shutdown-accepted"
GOODBYES: Final = "goodbyes of former registrations"
_STALE: Final = 77
_NO_CONTROLLER: Final = (11, 41)
_GONE: Final = (-1, 8)
_HEARD_NS: Final = 3_000_000_000
"""So late a controller may hear of a registration."""
Place = tuple[str, int, int, int]
"""Arm, trial, controller and broker."""


def goodbyes(history: History, outcome: Outcome) -> Iterator[Finding]:
    said = [row for row in history.rows("forged") if row["api"] == SHUTDOWN]
    if not said:
        return
    known = _known(history)
    for row in sorted(said, key=lambda row: int(row["t"])):
        trial = (row["arm"], row["trial"])
        if row["error"] is None:
            outcome.unjudged(row["arm"], "goodbyes that nobody answered")
            continue
        newer = [
            (t, epoch)
            for epoch, t in known.get((*trial, row["node"], row["broker"]), {}).items()
            if epoch > row["broker_epoch"] and t < row["invoke_t"]
        ]
        if not newer:
            outcome.unjudged(row["arm"], "goodbyes to who may not know that the broker is back")
            continue
        gone = was_absent(
            absences(history).get((*trial, row["broker"]), ()), row["invoke_t"], _HEARD_NS
        )
        if row["error"] in _NO_CONTROLLER or (gone and row["error"] in _GONE):
            outcome.unjudged(row["arm"], "goodbyes to no controller, or of a broker that is gone")
            continue
        outcome.saw(*trial, GOODBYES)
        if row["error"] == _STALE:
            continue
        t, epoch = max(newer)
        told = "obeyed" if row["error"] == 0 else f"refused with {row['error']}"
        after_ms = (row["invoke_t"] - t) / 1e6
        to = {"node": row["node"], "to": row["broker"], "broker_epoch": epoch}
        yield Finding(
            RULE,
            f"controller {row['node']} {told} a ControlledShutdown of broker {row['broker']} with "
            f"broker epoch {row['broker_epoch']}, {after_ms:.0f} ms after it had sent that one a "
            f"request with {epoch}",
            *trial,
            (
                Pick("control_send", to, rows=1),
                Pick("forged", {"api": SHUTDOWN, "t": row["t"]}, rows=1),
            ),
        )


def _known(history: History) -> dict[Place, dict[int, int]]:
    """By controller and broker, each broker epoch that it sent, and by when (ns)."""
    if not history.has("control_send"):
        return {}
    sent = history.frame("control_send").where("`to` is not null and broker_epoch is not null")
    late = F.min(F.col("t") + F.coalesce("error_ns", F.lit(0))).alias("t")
    found: dict[Place, dict[int, int]] = {}
    by = ("arm", "trial", "node", "to")
    for row in sent.groupBy(*by, "broker_epoch").agg(late).toArrow().to_pylist():
        place = (row["arm"], row["trial"], row["node"], row["to"])
        found.setdefault(place, {})[row["broker_epoch"]] = row["t"]
    return found
