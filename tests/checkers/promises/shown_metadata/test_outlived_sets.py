"""In-sync sets that are shown long after another was committed; both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.facts.in_sync_writes import LEADERS
from checkers.promises.shown_metadata import check
from tests.checkers.conftest import ARM, Story, judged_together

SHRUNK, GROWN = 30_000, 45_000
"""Between them node 3 is not in sync; what is shown must be that from 35 s on."""
RULE = "metadata-isr-outlived"


def told() -> Story:
    """Node 2 is controller from 10 s on; node 1 leads."""
    made = Story()
    office = {"what": "controller", "step": "created", "node": 2, "zxid": 5}
    made.add("zk_write", 10_000, **office, topic=None, partition=None)
    raised = {"what": "controller_epoch", "step": "set", "zxid": 5, "controller_epoch": 1}
    made.add("zk_write", 10_000, **raised, topic=None, partition=None)
    for zxid, (t, isr) in enumerate(
        ((11_000, [1, 2, 3]), (SHRUNK, [1, 2]), (GROWN, [1, 2, 3])), start=10
    ):
        state = {"what": "state", "step": "set", "leader": 1, "leader_epoch": 3, "isr": isr}
        made.add("zk_write", t, **state, zxid=zxid, partition_epoch=zxid, controller_epoch=1)
        made.commit(t, 1, 3, isr=isr, partition_epoch=zxid, controller_epoch=1)
    return made


def shown(t: float, isr: list[int], *, node: int = 1, epoch: int = 3, **more: Any) -> Story:
    made = told()
    made.read(t, node, epoch, isr=isr, **more)
    return made


def beside(fault: Callable[[Story], object], *, node: int = 1) -> Story:
    made = shown(44_000, [1, 2, 3], node=node)
    fault(made)
    return made


def faulted(from_t: float, to_t: float, *nodes: int, fault: str = "toxic") -> Callable[..., None]:
    def add(made: Story) -> None:
        for t, phase in ((from_t, "inject"), (from_t, "injected"), (to_t, "healed")):
            names = {"id": "f", "fault": fault, "nodes": list(nodes), "detail": "{}"}
            made.add("fault", t, phase=phase, **names)

    return add


def elected(made: Story) -> None:
    at = {"topic": None, "partition": None, "zxid": 11}
    made.add("zk_write", 33_000, what="controller", step="removed", node=2, **at)


def away(made: Story) -> None:
    for t, event in ((9_000, "registered"), (31_000, "unregistered"), (36_000, "registered")):
        made.add("node_event", t, node=1, event=event)


def by_leaders() -> Story:
    made = shown(44_000, [1, 2, 3])
    made.run["arms"][ARM][LEADERS] = True
    return made


CASES: dict[str, tuple[Callable[[], Story], int]] = {
    "the set of before": (lambda: shown(44_000, [1, 2, 3]), 1),
    "by the controller itself": (lambda: shown(44_000, [1, 2, 3], node=2), 1),
    "the last one, in another order": (lambda: shown(44_000, [2, 1]), 0),
    "soon": (lambda: shown(34_000, [1, 2, 3]), 0),
    "when it has grown again": (lambda: shown(46_000, [1, 2, 3]), 0),
    "asked for before it was owed": (lambda: shown(44_000, [1, 2, 3], invoke_t=34_000), 0),
    "of another leader epoch": (lambda: shown(44_000, [1, 2, 3], epoch=2), 0),
    "no set": (lambda: shown(44_000, None), 0),  # type: ignore[arg-type]
    "a fault of another broker": (lambda: beside(faulted(32_000, 50_000, 3)), 1),
    "a fault of who answers": (lambda: beside(faulted(32_000, 50_000, 1)), 0),
    "one that was over": (lambda: beside(faulted(20_000, 29_000, 1)), 1),
    "a fault of the controller": (lambda: beside(faulted(32_000, 50_000, 2)), 0),
    "one that was just over": (lambda: beside(faulted(29_000, 40_000, 2)), 0),
    "one that was over for long": (lambda: beside(faulted(29_000, 37_000, 2)), 1),
    "a fault that names nobody": (lambda: beside(faulted(32_000, 50_000)), 0),
    "one that only asks": (lambda: beside(faulted(32_000, 50_000, 2, fault="reassign")), 1),
    "who is controller changes": (lambda: beside(elected), 0),
    "who answers was not registered": (lambda: beside(away), 0),
    "leaders write themselves": (by_leaders, 0),
}


def test_a_set_that_lasts_is_shown(spark: Any) -> None:
    found = judged_together(spark, check, {name: make() for name, (make, _) in CASES.items()})
    wrong = {name: rules.get(RULE, 0) for name, (rules, _) in found.items()}
    assert wrong == {name: n for name, (_, n) in CASES.items()}
