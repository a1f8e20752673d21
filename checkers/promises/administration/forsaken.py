"""Orders that a controller drops with its session, for `checkers.promises.administration`.

What waits in a controller's queue as its session ends may not be acted upon any more: it is
dropped, and each who waits for an answer is told NOT_CONTROLLER, to ask the next one
(ControllerEventManager.clearAndPut, KafkaController.preempt).

- ``order-forgotten``: a controller was cut from ZooKeeper until another was in office, was given
  orders meanwhile, and had not answered one of them `TOLD_NS` after it could hear of that, though
  it ran and had registered anew for most of that time.

The harness gives such orders, and says when it let the controller go (fault ``forsaken-orders``).
They elect leaders, or move replicas, and where that does not come about a controller answers as
soon as it is that request's turn. Lawful, and looks similar: a connection that is lost at once; any
answer, whatever it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import all_details
from checkers.facts.faults import faults_of
from checkers.facts.trials import rows_of
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "order-forgotten"
FORSAKEN: Final = "orders that a controller lost its session with"
TOLD_NS: Final = 20_000_000_000
_BACK_NS: Final = 10_000_000_000
"""In which who can reach ZooKeeper again has registered anew."""
_FAULT: Final = "forsaken-orders"
_ORDERS: Final = ("ELECT_LEADERS", "ALTER_PARTITION_REASSIGNMENTS")
Row = Mapping[str, Any]
Trial = tuple[str, int]


def forsaken(
    history: History,
    trial: Trial,
    are_there: Callable[[int, int, int], bool],
    saw: Callable[[int], object],
) -> Iterator[Finding]:
    """``are_there``: whether a broker ran, and was registered, from when to when (ns);
    ``saw``: how many orders were judged."""
    for fault in faults_of(history, trial):
        detail = all_details(fault.rows) if fault.name == _FAULT else {}
        if "let_go_t" not in detail:
            continue
        node, let_go_t = int(detail["forsaken"]), int(detail["let_go_t"])
        for row in rows_of(history, "admin_request", trial):
            given = fault.from_t <= row["invoke_t"] <= let_go_t
            if not given or row["node"] != node or row["api"] not in _ORDERS:
                continue
            if row["error"] is not None:
                saw(1)
            elif row["t"] - let_go_t >= TOLD_NS and are_there(let_go_t + _BACK_NS, row["t"], node):
                saw(1)
                yield Finding(
                    RULE,
                    f"node {node}, as controller, was asked for {row['api']}, lost its session "
                    f"while that waited, and had not answered {(row['t'] - let_go_t) / 1e9:.0f} s "
                    "after it could hear of that",
                    *trial,
                    (
                        Pick("admin_request", {"process": row["process"], "op": row["op"]}, rows=1),
                        Pick("fault", {"id": fault.id}),
                        Pick("zk_write", {"what": "controller"}, from_t=fault.from_t, rows=2),
                    ),
                )
