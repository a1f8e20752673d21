"""By which listener controllers speak while a cluster is given its control plane."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.planes.mixed import past_its_listener
from tests.checkers.conftest import ARM, MS, Story
from tests.checkers.together import said_of_each

CONTROL, BETWEEN = "CONTROLLER", "REPLICATION"


def spoke(
    story: Story, t: float, controller: int, node: int, listener: str, plane: str, **more: Any
) -> None:
    fields = {"api": "UPDATE_METADATA", "controller_epoch": int(t), "correlation_id": int(t)}
    fields |= {"client_id": str(controller), "controller_id": controller, **more}
    story.add("control_request", t, node=node, listener=listener, plane=plane, **fields)


def upgraded() -> Story:
    """Brokers 1 and 2, restarted in turn: round 1 is over at 5 s, round 2 at 9 s. Controllers are 2
    as it was begun, 1 as it came from round 1, and 2 again, with the name."""
    story = Story()
    for node in (1, 2):
        for t in (1_000, 2_000 + node, 6_000 + 2_000 * (node == 1)):
            story.add("node_event", t, node=node, event="start")
    ends = {"round_ends_ns": [5_000 * MS, 9_000 * MS]}
    fault = {"fault": "plane-upgrade", "id": "upgrade", "phase": "injected", "took_hold": True}
    story.add("fault", 9_500, **fault, detail=json.dumps(ends))
    spoke(story, 1_500, 2, 1, BETWEEN, "data")
    spoke(story, 5_500, 1, 2, BETWEEN, "data")
    spoke(story, 6_500, 1, 2, BETWEEN, "data")  # who has a control plane by now
    spoke(story, 7_000, 2, 1, CONTROL, "data")  # who has none yet
    spoke(story, 7_500, 2, 2, CONTROL, "control")
    return story


def without(row: int) -> Callable[[Story], Any]:
    return lambda story: story.rows["control_request"].pop(row)


BROKEN: dict[str, Callable[[Story], Any]] = {
    "with the name": lambda s: spoke(s, 7_600, 2, 1, BETWEEN, "data"),
    "without it": lambda s: spoke(s, 6_600, 1, 2, CONTROL, "control"),
    "without it, to who has none": lambda s: spoke(s, 5_600, 1, 2, CONTROL, "data"),
}
LAWFUL: dict[str, Callable[[Story], Any]] = {
    "as it is": lambda s: None,
    "of a forger": lambda s: spoke(s, 7_600, 2, 1, BETWEEN, "data", client_id="forger-3"),
    "once all is done": lambda s: spoke(s, 9_600, 2, 1, BETWEEN, "data"),  # the others' matter
    "an upgrade that failed": lambda s: (
        s.rows["fault"][0].update(took_hold=False),
        spoke(s, 7_600, 2, 1, BETWEEN, "data"),
    ),
    "no control plane": lambda s: (without(4)(s), spoke(s, 7_600, 2, 1, BETWEEN, "data")),
    "who never started": lambda s: spoke(s, 7_600, 3, 1, BETWEEN, "data"),
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    def says(rows: dict[str, list[dict[str, Any]]]) -> Any:
        for finding, n in past_its_listener(History.of(spark, rows, upgraded().run)):
            assert (finding.rule, n) == ("past-its-listener", 1)
            yield (ARM, finding.trial), finding.says

    return said_of_each({**BROKEN, **LAWFUL}, upgraded, says)


@pytest.mark.parametrize("why", [*BROKEN, *LAWFUL])
def test_whose_listener(told: dict[str, list[str]], why: str) -> None:
    assert len(told.get(why, [])) == (why in BROKEN)
