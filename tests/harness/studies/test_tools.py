"""Kafka's command-line tools: what is asked, and the page that says what came of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.studies.tools.__main__ import KAFKA, OURS, Seen, key, page
from harness.studies.tools.steps import FILES, MAINS, STEPS, Step

ROOT = Path(__file__).parents[3]
ASKED_FOR = {
    "kafka-dump-log",
    "kafka-topics",
    "kafka-configs",
    "kafka-consumer-groups",
    "kafka-reassign-partitions",
    "kafka-leader-election",
    "kafka-delete-records",
    "kafka-log-dirs",
    "kafka-producer-perf-test",
}
PLACES = {"bootstrap": "h:1", "folder": "/f", "segment": "/s.log", "index": "/s.index",
          "offsets": "/o.log"}  # fmt: skip


def test_every_tool_is_asked_for_its_main_uses() -> None:
    asked = {tool: [s for s in STEPS if s.tool == tool] for tool in MAINS}
    assert {tool for tool, steps in asked.items() if steps} >= ASKED_FOR
    assert all(len(asked[tool]) >= 2 for tool in ASKED_FOR)
    assert len({key(step) for step in STEPS}) == len(STEPS)


@pytest.mark.parametrize("step", STEPS, ids=key)
def test_each_step_can_be_asked(step: Step) -> None:
    re.compile(step.says)
    command = step.command_line(**PLACES)
    assert ("--bootstrap-server" in command) != (
        step.tool in ("kafka-producer-perf-test", "kafka-dump-log")
    )
    named = [word.removeprefix("/f/") for word in command if word.startswith("/f/")]
    assert all(name in FILES for name in named)


def seen(step: Step, *, works: bool, said: str = "", code: int | None = None) -> Seen:
    return Seen(step.exit if code is None else code, said, works)


def test_the_page_tells_what_works_from_what_does_not() -> None:
    create, exists = STEPS[0], STEPS[1]
    found = {
        OURS: {
            key(create): seen(create, works=True, said="noise\nCreated topic tools."),
            key(exists): seen(
                exists,
                works=False,
                code=2,
                said="java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
                "PolicyViolationException: a | b",
            ),
        },
        KAFKA: {
            key(create): seen(create, works=True, said="Created topic tools."),
            key(exists): seen(exists, works=True, said="Topic 'tools' already exists."),
        },
    }
    text = page(found, "3.9.2")
    assert "1 of 2 steps work" in text
    rows = [line for line in text.splitlines() if line.startswith("| kafka-topics")]
    assert rows[0].endswith("| 0 | works | Created topic tools. | the same |")
    assert "| 2 | **differs** | PolicyViolationException: a \\| b | works |" in rows[1]


def test_the_page_that_is_kept_has_every_step() -> None:
    text = (ROOT / "docs/tools.md").read_text()
    for step in STEPS:
        assert f"| {step.tool} | `{step.arguments}` |" in text, (
            "run: python -m harness.studies.tools"
        )
