"""Code that trips over itself, beside what faults bring about."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.exceptions import BOOTS, OF_MISTAKES, check
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging


def boots(story: Story) -> Story:
    for boot in (1, 2):
        story.add("source", 90_000, process="node-1", node=1, boot=boot, source="node-1", rows=9)
    story.add("source", 90_000, process="producer", source="producer", rows=9)
    return story


def met(story: Story, error: str, logger: str = "l") -> Story:
    at = {"process": "node-1", "node": 1, "boot": 2, "place": "config_changes.py:118 _process"}
    story.add("exception", 5_000, error=error, says="no attribute '_now_ms'", logger=logger, **at)
    return story


@pytest.mark.parametrize("error", sorted(OF_MISTAKES))
@judging(check)
def test_a_mistake_in_a_program(story: Any, error: str) -> Asks:
    outcome = yield met(boots(story), error)
    assert dict(outcome.counts) == {"unexpected-exception": 1}
    says = outcome.findings[0].says
    assert says.startswith(f"node 1 met {error.removeprefix('builtins.')} in config_changes.py:118")


@pytest.mark.parametrize(
    "error",
    [
        *("builtins.OSError", "builtins.ConnectionResetError", "builtins.TimeoutError"),
        *("builtins.ValueError", "kazoo.exceptions.ConnectionLoss", "nodes.core.errors.ApiError"),
    ],
)
@judging(check)
def test_what_faults_bring_about(story: Any, error: str) -> Asks:
    outcome = yield met(boots(story), error)
    assert not outcome.counts
    assert outcome.evidence[story.arm, 0, BOOTS] == 2


@pytest.mark.parametrize(
    ("logger", "error", "is_mistake"),
    [
        ("kafka.controller.KafkaController", "builtins.ValueError", True),
        ("kafka.controller.KafkaController", "nodes.coordination.errors.ControllerMoved", False),
        ("kafka.controller.RequestSendThread", "builtins.ValueError", False),
    ],
)
@judging(check)
def test_what_a_controllers_event_ends_with(
    story: Any, logger: str, error: str, is_mistake: bool
) -> Asks:
    outcome = yield met(boots(story), error, logger)
    assert bool(outcome.counts) is is_mistake


@judging(check)
def test_clients_are_not_asked(story: Any) -> Asks:
    story.add("source", 90_000, process="producer", source="producer", rows=9)
    outcome = yield story
    assert not outcome.evidence[story.arm, 0, BOOTS]
