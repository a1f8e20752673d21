"""A broker dies a moment after a topic was made again; what it kept of the former is there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed

OWNER = 2
FORMER = 30


@pytest.fixture
def alone(ctx: Any, logs: Any) -> Any:
    """One broker has the topic alone; its namesake has a record more at each look."""
    cluster = ctx.cluster
    cluster.add_topic("alone", {0: [OWNER]})
    logs(OWNER, "alone-0", FORMER)
    cluster.namesake = None
    delete, create, sleep = cluster.delete_topic, cluster.create_topic, ctx.sleep

    def delete_topic(topic: str) -> None:
        delete(topic)
        shutil.rmtree(f"{cluster.log_dir(OWNER)}/alone-0")

    def create_topic(topic: str, assignment: Any, configs: Any) -> None:
        create(topic, assignment, configs)
        cluster.namesake = 0

    def rest(seconds: float) -> None:
        sleep(seconds)
        if cluster.namesake is not None and cluster.running[OWNER]:
            cluster.namesake += 1
            logs(OWNER, "alone-0", cluster.namesake)

    cluster.delete_topic, cluster.create_topic, ctx.sleep = delete_topic, create_topic, rest
    return cluster


def play(ctx: Any, entry: Any, **params: Any) -> Any:
    fault = build(entry("namesake", partition="alone-0", **{"apart_ms": 1, "look_ms": 1, **params}))
    try:
        fault.inject(ctx)
    finally:
        fault.heal(ctx)
    assert ctx.cluster.running[OWNER]
    return fault


def test_its_broker_is_stopped_before_and_killed_after(ctx: Any, entry: Any, alone: Any) -> None:
    fault = play(ctx, entry, records=20, few=3)
    assert [call[0] for call in alone.calls] == [
        *("delete_records", "stop", "start", "delete_topic", "create_topic", "kill", "start")
    ]
    assert alone.calls[0] == ("delete_records", OWNER, "alone", 0, FORMER)
    assert fault.nodes == [OWNER]
    assert fault.took_hold
    assert fault.detail["begins"] == FORMER
    assert 3 <= fault.detail["took"] < FORMER


def test_a_namesake_that_has_more_already_shows_nothing(ctx: Any, entry: Any, alone: Any) -> None:
    fault = play(ctx, entry, records=1, few=FORMER)
    assert fault.took_hold is False
    assert fault.detail["took"] >= FORMER


@pytest.mark.parametrize("assignment", [{0: [2, 3]}, {0: [2], 1: [3]}])
def test_nobody_else_may_have_it(
    ctx: Any, entry: Any, alone: Any, assignment: dict[int, list[int]]
) -> None:
    alone.add_topic("alone", assignment)
    with pytest.raises(FaultFailed, match="of one partition and one replica"):
        play(ctx, entry)
    assert not alone.calls


def test_the_topic_goes_once_the_broker_wrote_down_what_it_has(
    ctx: Any, entry: Any, alone: Any
) -> None:
    """Else it writes that down when the namesake is there, and the former's is forgotten."""
    checkpoint = Path(alone.log_dir(OWNER)) / "log-start-offset-checkpoint"
    checkpoint.write_text("0")
    rest, begun, looks = ctx.sleep, alone.start, []

    def sleep(seconds: float) -> None:
        rest(seconds)
        if looks and looks[-1] < 5:
            looks.append(looks[-1] + 1)
            if looks[-1] == 5:
                os.utime(checkpoint, ns=(1, 1))
                alone.calls.append(("written",))

    def start(node: int, **how: Any) -> None:
        begun(node, **how)
        looks.append(0)

    ctx.sleep, alone.start = sleep, start
    play(ctx, entry, look_ms=20_000)
    said = [call[0] for call in alone.calls]
    assert said.index("start") < said.index("written") < said.index("delete_topic")
