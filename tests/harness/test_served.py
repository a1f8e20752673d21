"""Who still waits for something: read from live files that grow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkers.history.run_info import RunInfo
from harness.history.served import Served, in_words
from harness.scenarios import SCENARIOS
from harness.scenarios.base import Stage
from harness.settings import PROFILES
from harness.workload import WorkloadSpec
from harness.workload.told import told

PRODUCER = {"process": "p", "role": "producer", "acks": -1, "topics": {"t": [0, 1]}}
CONSUMER = {"process": "c", "role": "consumer", "topics": {"t": [0, 1]}}
READER = {"process": "r", "role": "metadata-reader", "topics": {"t": []}, "nodes": [1, 2]}


def write(live: Path, process: str, *rows: dict[str, Any] | str) -> None:
    with (live / f"{process}.jsonl").open("a") as file:
        for row in rows:
            file.write(row if isinstance(row, str) else json.dumps(row) + "\n")


def produce(partition: int, kind: str = "ok") -> dict[str, Any]:
    return {"f": "produce", "type": kind, "topic": "t", "partition": partition}


def test_a_producer_waits_for_each_of_its_partitions(tmp_path: Path) -> None:
    write(tmp_path, "p", produce(0))
    served = Served(tmp_path, [PRODUCER])
    assert len(served.waiting()) == 2  # what was before does not count
    write(tmp_path, "p", produce(0, "invoke"), produce(0, "info"), produce(1))
    assert served.waiting() == [("produce", "t", 0, "p")]
    assert in_words(served.waiting()[0]) == "p (produce) at t-0"
    write(tmp_path, "p", json.dumps(produce(0)))  # not yet a whole line
    assert served.waiting()
    write(tmp_path, "p", "\n")
    assert not served.waiting()


def test_nobody_waits_for_acks_0(tmp_path: Path) -> None:
    assert not Served(tmp_path, [{**PRODUCER, "acks": 0}]).waiting()


def test_a_consumer_waits_where_something_was_produced(tmp_path: Path) -> None:
    served = Served(tmp_path, [PRODUCER, CONSUMER])
    write(tmp_path, "p", produce(0), produce(1))
    fetch = {"f": "fetch", "type": "ok", "topic": "t"}
    write(tmp_path, "c", {**fetch, "topic": None}, {**fetch, "partition": 1, "offset": 7})
    assert served.waiting() == [("fetch", "t", 0, "c")]
    assert not Served(tmp_path, [CONSUMER]).waiting()


def test_an_error_is_an_answer_and_a_lost_connection_is_none(tmp_path: Path) -> None:
    served = Served(tmp_path, [READER])
    write(tmp_path, "r", {"f": "metadata", "type": "info", "node": 2, "failure": "timeout"},
          {"f": "metadata", "type": "fail", "node": 1, "error": 3}, "no json\n")  # fmt: skip
    assert served.waiting() == [("answer", 2, "r")]
    assert in_words(served.waiting()[0]) == "r by broker 2"


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_scenarios_workloads_can_be_told(name: str, tmp_path: Path) -> None:
    """And read back: what run.json says of them is what the checks expect."""
    stage = Stage(nodes=(1, 2, 3), controller=1, victim=2, profile=PROFILES["smoke"])
    records = []
    for role in SCENARIOS[name].workloads(stage):
        params = dict(role.params)
        if role.role == "prober":
            params["listeners"] = {n: {"control": "h:1"} for n in params.pop("nodes", stage.nodes)}
        bootstrap = {n: f"h:{n}" for n in stage.nodes}
        records.append(
            told(
                WorkloadSpec(
                    role=role.role,
                    process=role.process,
                    output="x",
                    bootstrap=bootstrap,
                    params=params,
                )
            )
        )
    run = {"trials": [{"arm": "a", "trial": 0, "workloads": json.loads(json.dumps(records))}]}
    workloads = RunInfo.from_dict(run).workloads["a", 0]
    assert len(workloads) == len(records)
    for workload in workloads:
        produces = workload.role.endswith("producer")
        assert (workload.acks is not None) == produces
        assert bool(workload.nodes) == (workload.role in ("metadata-reader", "prober"))
        reads = workload.role in ("consumer", "group-consumer")
        assert (workload.begins is not None) == reads
        assert (workload.group is not None) == (workload.role == "group-consumer")
        late = workload.process == "tail-reader"
        assert workload.begins in (None, "end" if late else "start")
        if produces or workload.role == "consumer":
            assert all(workload.topics.values())
    assert Served(tmp_path, records).waiting()
