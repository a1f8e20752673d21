"""Orders that contradict each other, for `checkers.promises.administration`.

A controller does one thing at a time, and what it is asked for first comes first: requests become
events of one queue (ControllerEventManager.put, a LinkedBlockingQueue; KAFKA-5642 on). So of two
orders about one partition that were both carried out the second one stands ("the latest
reassignment always takes precedence", KafkaController.processApiPartitionReassignment).

- ``older-order-stands``: several orders for the replicas of one partition were given, each
  `APART_NS` after the one before and all before the first was answered; each was answered with
  success, and what ZooKeeper's log has last is not what the last one asked for.

The harness gives such orders while the controller waits for ZooKeeper (fault ``contrary-orders``).
Judged where one controller was asked for all, was in office all the time, and refused none. Lawful,
and looks similar: orders that came at once, on connections of their own, whose order nobody knows;
an order that is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import all_details
from checkers.facts.faults import faults_of
from checkers.facts.office import written
from checkers.facts.trials import rows_of
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "older-order-stands"
CONTRARY: Final = "orders that another one contradicts"
APART_NS: Final = 300_000_000
"""By then the one before has come to the queue, on a machine that does not stand still."""
_NEAR_NS: Final = 200_000_000
"""By then, by any clock, what was answered is written."""
_FAULT: Final = "contrary-orders"
_API: Final = "ALTER_PARTITION_REASSIGNMENTS"
Row = Mapping[str, Any]
Trial = tuple[str, int]


def last_order(
    history: History,
    trial: Trial,
    log: Sequence[Row],
    in_office: Callable[[int, int], int | None],
    saw: Callable[[int], object],
) -> Iterator[Finding]:
    """``log``: ZooKeeper's, in its order; ``in_office``: who was controller from when until when
    (ns); ``saw``: how many orders were judged."""
    for fault in faults_of(history, trial):
        detail = all_details(fault.rows) if fault.name == _FAULT else {}
        orders = [list(order) for order in detail.get("orders", ())]
        given = sorted(
            (
                row
                for row in rows_of(history, "admin_request", trial)
                if (row["api"], row["about"]) == (_API, detail.get("partition"))
                and fault.from_t <= row["invoke_t"] <= fault.to_t
            ),
            key=lambda row: int(row["invoke_t"]),
        )
        if not orders or len(given) != len(orders) or not _in_turn(given):
            continue
        from_t, until_t = given[0]["invoke_t"], max(row["t"] for row in given)
        if in_office(from_t, until_t) != given[0]["node"]:
            continue
        writes = [
            row
            for row in log
            if row["what"] == "topic"
            and f"{row['topic']}-{row['partition']}" == detail["partition"]
            and from_t - _NEAR_NS <= row["t"] <= until_t + _NEAR_NS
        ]
        if not writes:
            continue
        saw(len(orders))
        if list(writes[-1]["replicas"] or ()) != orders[-1]:
            yield Finding(
                RULE,
                f"node {given[0]['node']} was ordered one after the other that "
                f"{detail['partition']} be on {', then '.join(map(str, orders))}, and did so each "
                f"time; in the end it is on {list(writes[-1]['replicas'] or ())}",
                *trial,
                (
                    *(_pick(row) for row in given),
                    *(written(row) for row in writes[-2:]),
                ),
            )


def _in_turn(given: Sequence[Row]) -> bool:
    """Whether one broker did all of it, and was asked for each well after the one before."""
    return (
        all(row["error"] == 0 and row["node"] == given[0]["node"] for row in given)
        and all(b["invoke_t"] - a["invoke_t"] >= APART_NS for a, b in pairwise(given))
        and given[-1]["invoke_t"] < min(row["t"] for row in given)
    )


def _pick(row: Row) -> Pick:
    return Pick("admin_request", {"process": row["process"], "op": row["op"]}, rows=1)
