"""Random histories, judged by Spark and by plain Python that shares no code with it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from checkers.facts.accounts import accounts
from checkers.facts.disputes import disputes
from checkers.promises.fencing import check as fencing
from checkers.promises.replicas import check as replicas


@pytest.mark.parametrize("seed", [1, 2])
def test_what_became_of_every_value(story: Any, spark: Any, seed: int) -> None:
    rng = random.Random(seed)
    logs: dict[int, dict[int, int]] = {p: {} for p in range(3)}
    offers = []
    for value in range(400):
        partition, acks = rng.randrange(4), rng.choice([0, 1, -1])  # partition 3 is never read
        offset = len(logs.get(partition, {}))
        fate = rng.choice(["there"] * 4 + ["lost", "elsewhere"])
        if partition in logs:
            if fate == "elsewhere":
                logs[partition][offset] = -1
                offset += 1
            logs[partition][offset] = value if fate != "lost" else -1
        type_ = rng.choice(["ok", "ok", "ok", "info", "fail"])
        told = offset - (fate == "elsewhere") if type_ == "ok" and acks else None
        story.produce(10, value, told, acks=acks, partition=partition, type=type_,
                      error=10 if type_ == "fail" else 0)  # fmt: skip
        offers.append((value, partition, told, acks, type_))
    for partition, log in logs.items():
        story.final_log({o: v if v >= 0 else 10_000 * partition + 1000 + o for o, v in log.items()},
                        partition=partition)  # fmt: skip
    expected: Counter[str] = Counter()
    for value, partition, told, acks, type_ in offers:
        where = [o for o, v in logs.get(partition, {}).items() if v == value]
        if type_ == "ok" and acks:
            name = "unread" if partition == 3 else "absent"
            name = ("present" if told in where else "moved") if where else name
        elif type_ == "fail":
            name = "failed-landed" if where else "failed"
        else:
            name = ("info" if acks else "unacked") + ("-landed" if where else "-missing")
        expected[name] += 1
    found: Counter[str] = Counter()
    for row in accounts(story.history(spark)):
        if row["class"] != "foreign":
            found[row["class"]] += row["n"]
    assert found == expected


@pytest.mark.parametrize("seed", [1, 2])
def test_what_every_witness_says_of_an_offset(story: Any, spark: Any, seed: int) -> None:
    rng = random.Random(seed)
    log = {offset: offset for offset in range(120)}
    other = {o: v + 1000 * (rng.random() < 0.1) for o, v in log.items() if o < 100}
    own_hw, leader_hw, start = 70, 110, 15
    story.run["topics"] = {"t": {"configs": {"retention.ms": "1000"}}}
    story.final_log(log, high_watermark=leader_hw, log_start_offset=start)
    story.final_log(other, 2, leader=False, high_watermark=own_hw, log_start_offset=start)
    read = {o: o + 5000 * (rng.random() < 0.1) for o in rng.sample(range(140), 80)}
    for offset, value in read.items():
        story.add("fetch", 50, offset=offset, value=value, poll=offset)
    expected: Counter[str] = Counter()
    for offset in log.keys() | read.keys():
        if offset >= start and offset in read and offset not in log:
            expected["gone"] += 1
        elif offset >= start and offset in read and read[offset] != log[offset]:
            expected["changed"] += 1
        else:
            expected["agreed"] += 1
    found: Counter[str] = Counter()
    for row in disputes(story.history(spark)):
        found[row["class"]] += row["n"]
    assert found == expected
    differ = sum(other[o] != log[o] for o in range(start, own_hw))
    assert replicas(story.history(spark)).counts["replica-differs"] == differ


@pytest.mark.parametrize("seed", [1, 2])
def test_who_accepted_an_older_controller(story: Any, spark: Any, seed: int) -> None:
    rng = random.Random(seed)
    requests = []
    for number in range(150):
        t, node = 100 + 7 * number, rng.randint(1, 3)
        epoch, error = max(1, number // 30 - rng.choice([0] * 9 + [1])), rng.choice([0, 0, 0, 11])
        story.handled(t, node, controller_epoch=epoch, error=error, correlation_id=number)
        requests.append((t - 2, t - 1, node, epoch, error))
    restarts = {2: 500}
    story.add("node_event", restarts[2], node=2, event="start")
    expected = sum(
        any(
            error == earlier[4] == 0
            and earlier[2] == node
            and earlier[3] > epoch
            and earlier[1] < begin
            and not earlier[1] < restarts.get(node, -1) <= begin
            for earlier in requests
        )
        for begin, _, node, epoch, error in requests
    )
    counts = fencing(story.history(spark)).counts
    assert counts.get("stale-controller-epoch-accepted", 0) == expected
    assert expected
