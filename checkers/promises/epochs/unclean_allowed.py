"""Partitions that an operator allowed an unclean election, for `checkers.promises.epochs`.

A partition whose last members in sync are dead has no leader, whoever else lives. When its topic is
allowed unclean elections, the controller, which hears of that as every broker does, elects at once
(KafkaController.processTopicUncleanLeaderElectionEnable): nothing else need happen.

- ``allowed-and-not-led``: for `LIMIT_NS` since that was answered (fault ``unclean-allowed``) one of
  the replicas was registered and had been seen ready, the same controller was in office, no other
  fault was in place, and nobody led.

Without ZooKeeper a controller looks every five minutes, and does so since 3.9 alone: nobody is
judged. Nor is who elects on another occasion only, as Apache Kafka did until 2.1 (`WAITS`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import all_details
from checkers.facts.faults import Fault, faults
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order
from checkers.facts.unhindered import one_there, unhindered
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "allowed-and-not-led"
ALLOWED: Final = "partitions without a leader that were allowed an unclean election"
LIMIT_NS: Final = 5_000_000_000
"""It takes some tenths of a second."""
WAITS: Final = "unclean_elections_wait"
"""In run.json, of an arm: what is allowed is made use of when something else happens."""
_FAULT: Final = "unclean-allowed"


def unclean_allowed(history: History, outcome: Outcome) -> Iterator[Finding]:
    for fault in faults(history):
        detail = all_details(fault.rows) if fault.name == _FAULT else {}
        if not {"allowed_t", "looked_until_t", "partition"} <= detail.keys():
            continue
        if history.run.arms.get(fault.trial[0], {}).get(WAITS):
            outcome.unjudged(
                fault.trial[0], "unclean elections that are allowed, and not asked for"
            )
        else:
            yield from _of(history, outcome, fault, detail)


def _of(
    history: History, outcome: Outcome, fault: Fault, detail: dict[str, Any]
) -> Iterator[Finding]:
    topic, _, number = str(detail["partition"]).rpartition("-")
    key: Key = (*fault.trial, topic, int(number))
    allowed_t, until_t = int(detail["allowed_t"]), int(detail["looked_until_t"])
    led_t = _led(history, key, allowed_t)
    within = allowed_t, until_t if led_t is None else min(led_t, until_t)
    begin, end = unhindered(history, fault.trial, topic, within, one_there, partition=key[3])
    late = end - begin > LIMIT_NS
    if led_t is not None or late:
        outcome.saw(*fault.trial, ALLOWED)
    if late:
        yield _finding(key, fault, begin, end)


def _led(history: History, key: Key, since_t: int) -> int | None:
    """When it was led, then or later (ns); None: never."""
    states = [
        row
        for row in in_order(history)
        if row["what"] == "state" and row["leader"] is not None and key_of(row) == key
    ]
    before = [row for row in states if row["t"] <= since_t]
    if before and before[-1]["leader"] >= 0:
        return since_t
    later = (row["t"] for row in states if row["t"] > since_t and row["leader"] >= 0)
    return next(later, None)


def _finding(key: Key, fault: Fault, begin: int, end: int) -> Finding:
    where = {"topic": key[2], "partition": key[3]}
    return Finding(
        RULE,
        f"{key[2]}-{key[3]}, without a leader, was allowed an unclean election, and nobody led it "
        f"for {(end - begin) / 1e9:.1f} s in which one of its replicas lived",
        *key[:2],
        (
            Pick("fault", {"id": fault.id}, last=True, rows=1),
            Pick("zk_write", {"what": "broker"}, to_t=end, rows=3, last=True),
            Pick("zk_write", {"what": "state", **where}, to_t=end, rows=1, last=True),
        ),
    )
