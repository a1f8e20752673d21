"""A run that never took place: live files as a harness would leave them, finished and judged by the
harness's own code, so that a report can be made of it without a cluster.

Two arms, two rounds. Broker 2 is flooded while it loses the leadership of three partitions; in the
single arm its control requests wait behind the flood, it goes on acknowledging with acks=1, and
truncates later. In the single arm a forged request of an old controller is accepted: a violation.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.history import LiveTrial, finish

S, MS = 1_000_000_000, 1_000_000
TOPIC, PARTITIONS = "acks1", 3
NODES, CONTROLLER, VICTIM, HEIR = (1, 2, 3), 1, 2, 3
OFFSET_NS = -1_795_000_000 * S  # monotonic minus wall
FLOOD = (0.8, 7.4)  # seconds of chaos
MOVES = (2.0, 3.6, 5.2)
CHAOS_S, END_S = 4.0, 16.0
ARMS = {"dualplane-single": "single", "dualplane-dual": "dual"}


class Trial:
    """Writes one trial's live rows."""

    def __init__(self, arm: str, trial: int, start: int) -> None:
        self.planes = ARMS[arm]
        self.rng = random.Random(f"{arm}:{trial}")
        self.start = start
        self.rows: list[dict[str, Any]] = []
        self.number = 0
        self.told: dict[tuple[int, int], list[tuple[int, int]]] = {}  # (node, partition)

    def at(self, chaos_s: float) -> int:
        return self.start + int((CHAOS_S + chaos_s) * S)

    def row(self, f: str, t: int, process: str, **fields: Any) -> None:
        self.rows.append({"f": f, "t": t, "process": process, **fields})

    def wait_ns(self, node: int, t: int) -> int:
        """How long a control request that arrives now waits in the request queue."""
        flooded = node == VICTIM and self.at(FLOOD[0]) <= t < self.at(FLOOD[1])
        if flooded and self.planes == "single":
            return int(self.rng.lognormvariate(0, 0.4) * 420 * MS)
        return int(self.rng.lognormvariate(0, 0.8) * 0.05 * MS)

    # -- the parts of a trial ---------------------------------------------------------------------

    def play(self) -> list[dict[str, Any]]:
        for name, begin, end in (
            ("start", -CHAOS_S, -1.2),
            ("warmup", -1.2, 0.0),
            ("chaos", 0.0, 8.0),
            ("heal", 8.0, 8.1),
            ("quiesce", 8.1, 9.5),
            ("final_read", 9.5, 11.0),
        ):
            self.row("phase", self.at(begin), "harness", name=name, event="begin")
            self.row("phase", self.at(end), "harness", name=name, event="end")
        for node in NODES:
            for event, at in (("start", -3.9), ("ready", -2.6 + 0.1 * node)):
                self.row("node_event", self.at(at), "harness", node=node, event=event)
        self.row("controller", self.at(-2.5), "node-1", node=1, event="elected", controller_epoch=1)
        self.faults()
        for partition in range(PARTITIONS):
            self.partition(partition)
        self.probes()
        self.reads()
        if self.planes == "single":
            self.forge()
        return self.rows

    def faults(self) -> None:
        entries: list[tuple[str, str, float, float, list[int], dict[str, Any]]] = [
            ("flood", "flood-heavy-produce", *FLOOD, [VICTIM], {"connections": {"2": 640}})
        ]
        for index, move_s in enumerate(MOVES):
            entries.append((f"move-{index}", "move-leadership", move_s, move_s, [2, 3], {}))
        for name, fault, begin, end, nodes, detail in entries:
            lag = 0.3 if fault.startswith("flood") else 0.02
            for phase, at in (
                ("inject", begin - lag),
                ("injected", begin + 0.001),
                ("heal", end + 0.001),
                ("healed", end + 0.002),
            ):
                self.row(
                    "fault",
                    self.at(at),
                    "harness",
                    fault=fault,
                    id=name,
                    phase=phase,
                    nodes=nodes,
                    took_hold=True if phase in ("injected", "healed") else None,
                    detail=json.dumps(detail),
                )

    def partition(self, partition: int) -> None:
        """Leadership, what brokers are told of it, producers and the final logs."""
        moved = self.at(MOVES[partition])
        obeyed = {}
        for leader_epoch, t, leader in ((0, self.at(-1.0), VICTIM), (1, moved, HEIR)):
            self.row(
                "leadership",
                t,
                "zk-watch",
                topic=TOPIC,
                partition=partition,
                leader=leader,
                leader_epoch=leader_epoch,
                controller_epoch=1,
                partition_epoch=leader_epoch,
                isr=list(NODES),
                source="zk",
            )
            for node in NODES:
                done = self.control("LEADER_AND_ISR", node, t, partition, leader, leader_epoch)
                self.row(
                    "leader_change",
                    done,
                    f"node-{node}",
                    node=node,
                    boot=1,
                    topic=TOPIC,
                    partition=partition,
                    role="leader" if node == leader else "follower",
                    leader=leader,
                    leader_epoch=leader_epoch,
                    controller_epoch=1,
                )
                obeyed[node, leader_epoch] = done
                told = self.control("UPDATE_METADATA", node, done, partition, leader, leader_epoch)
                self.row(
                    "metadata_update",
                    told,
                    f"node-{node}",
                    node=node,
                    boot=1,
                    topic=TOPIC,
                    partition=partition,
                    leader=leader,
                    leader_epoch=leader_epoch,
                    controller_epoch=1,
                )
                self.told.setdefault((node, partition), []).append((told, leader_epoch))
        self.produce(partition, moved, obeyed[VICTIM, 1], obeyed[HEIR, 1])

    def control(
        self, api: str, node: int, t: int, partition: int, leader: int, leader_epoch: int
    ) -> int:
        """One controller request there and back; answers when it was handled."""
        self.number += 1
        state = {
            "topic": TOPIC,
            "partition": partition,
            "leader": leader,
            "leader_epoch": leader_epoch,
        }
        same = {"api": api, "correlation_id": self.number, "controller_epoch": 1}
        sent = t + self.rng.randint(100_000, 900_000)
        self.row(
            "control_send",
            sent,
            "node-1",
            node=CONTROLLER,
            boot=1,
            to=node,
            broker_epoch=50 + node,
            enqueue_t=t + 60_000,
            attempt=1,
            partitions=[state],
            **same,
        )
        received = sent + self.rng.randint(80_000, 400_000)
        queued = received + 20_000
        taken = queued + self.wait_ns(node, received)
        handled = taken + self.rng.randint(150_000, 2_500_000)
        answered = handled + self.rng.randint(40_000, 200_000)
        self.row(
            "control_request",
            answered,
            f"node-{node}",
            node=node,
            boot=1,
            version=7,
            client_id="1",
            plane="data" if self.planes == "single" else "control",
            listener="CONTROLLER",
            controller_id=CONTROLLER,
            broker_epoch=50 + node,
            own_broker_epoch=50 + node,
            receive_t=received,
            enqueue_t=queued,
            dequeue_t=taken,
            handled_t=handled,
            error=0,
            partitions=[{**state, "error": 0}],
            **same,
        )
        self.row(
            "control_response",
            answered + 100_000,
            "node-1",
            node=CONTROLLER,
            boot=1,
            to=node,
            api=api,
            correlation_id=self.number,
            send_t=sent,
            error=0,
        )
        return handled

    def produce(self, partition: int, moved: int, demoted: int, promoted: int) -> None:
        """100 records/s with acks=1 to whoever takes them; the old leader until it is demoted."""
        old: list[tuple[int, int]] = []  # (value, t) by offset
        value, t = partition * 1_000_000, self.at(0.0)
        while t < demoted:
            old.append((value, t))
            value, t = value + 1, t + 10 * MS
        kept = [entry for entry in old if entry[1] < moved]
        new, t = list(kept), max(t, promoted)
        while t < self.at(8.0):
            new.append((value, t))
            value, t = value + 1, t + 10 * MS
        for log, node, epoch in ((old, VICTIM, 0), (new, HEIR, 1)):
            for offset, (own, appended) in enumerate(log):
                if node == HEIR and offset < len(kept):
                    continue
                self.number += 1
                self.row(
                    "produce",
                    appended + 3 * MS,
                    f"direct-producer-{partition}",
                    node=node,
                    type="ok",
                    op=self.number,
                    invoke_t=appended - MS,
                    topic=TOPIC,
                    partition=partition,
                    value=own,
                    acks=1,
                    offset=offset,
                    log_append_time_ms=(appended - OFFSET_NS) // MS,
                    leader_epoch=epoch,
                )
        self.row(
            "truncation",
            demoted + 4 * MS,
            "node-2",
            node=VICTIM,
            boot=1,
            topic=TOPIC,
            partition=partition,
            leader_epoch=1,
            from_offset=len(old),
            to_offset=len(kept),
            reason="diverging epoch",
        )
        self.final(partition, [own for own, _ in new], len(kept))

    def final(self, partition: int, values: list[int], kept: int) -> None:
        at = {"topic": TOPIC, "partition": partition}
        for node in NODES:
            self.row(
                "log_end",
                self.at(10.0),
                "harness",
                node=node,
                log_start_offset=0,
                log_end_offset=len(values),
                high_watermark=len(values),
                is_leader=node == HEIR,
                **at,
            )
            for offset, value in enumerate(values):
                self.row(
                    "log_read",
                    self.at(10.0),
                    "harness",
                    node=node,
                    offset=offset,
                    value=value,
                    whole=True,
                    leader_epoch=0 if offset < kept else 1,
                    **at,
                )

    def probes(self) -> None:
        for index in range(90):
            planned = self.at(-0.8 + index / 10)
            took = self.wait_ns(VICTIM, planned) + self.rng.randint(500_000, 4_000_000)
            lost = self.planes == "single" and index == 60
            self.row(
                "probe",
                planned + (2 * S if lost else took),
                "prober",
                node=VICTIM,
                type="info" if lost else "ok",
                op=index,
                invoke_t=planned,
                planned_t=planned,
                failure="timeout" if lost else None,
                api="LEADER_AND_ISR" if index % 2 else "UPDATE_METADATA",
                plane="data" if self.planes == "single" else "control",
            )

    def reads(self) -> None:
        read = 0
        for tick in range(160):
            for node in NODES:
                t, read = self.at(0.05 * tick), read + 1
                for partition in range(PARTITIONS):
                    shown = [e for at, e in sorted(self.told[node, partition]) if at <= t]
                    if shown:
                        self.row(
                            "metadata",
                            t + MS,
                            "metadata-reader",
                            node=node,
                            type="ok",
                            op=read * PARTITIONS + partition,
                            invoke_t=t,
                            topic=TOPIC,
                            partition=partition,
                            read=read,
                            leader=HEIR if shown[-1] else VICTIM,
                            leader_epoch=shown[-1],
                            isr=list(NODES),
                        )

    def forge(self) -> None:
        self.row(
            "forged",
            self.at(6.2),
            "forger",
            node=HEIR,
            type="ok",
            op=1,
            invoke_t=self.at(6.19),
            error=0,
            topic=TOPIC,
            partition=0,
            api="LEADER_AND_ISR",
            plane="control",
            lie="stale_controller_epoch",
            controller_id=CONTROLLER,
            controller_epoch=0,
            broker_epoch=53,
            leader=VICTIM,
            leader_epoch=9,
            partition_error=0,
            correlation_id=77,
            client_id="forger",
        )


def write_run(folder: Path, rounds: int = 2) -> Path:
    """A finished run, not judged yet."""
    done: list[LiveTrial] = []
    trials = []
    folder.mkdir(parents=True, exist_ok=True)
    for index, (arm, trial) in enumerate((a, t) for t in range(rounds) for a in ARMS):
        played = Trial(arm, trial, (1000 + 20 * index) * S)
        rows = sorted(played.play(), key=lambda row: row["t"])
        live = folder / "trials" / f"{arm}-{trial}" / "live"
        live.mkdir(parents=True)
        (live / "all.jsonl").write_bytes(
            b"".join(orjson.dumps(r, option=orjson.OPT_APPEND_NEWLINE) for r in rows)
        )
        done.append(LiveTrial(live, arm, trial, played.at(12.0)))
        topics = {TOPIC: {"configs": {"message.timestamp.type": "LogAppendTime"}}}
        trials.append({"arm": arm, "trial": trial, "failure": None, "topics": topics})
    report = finish(folder / "history", done)
    assert report.rejected == 0, report.reasons
    (folder / "run.json").write_text(json.dumps(_run(trials, dict(report.rows))))
    (folder / "plan.json").write_text(json.dumps(_plan()))
    return folder


def _run(trials: list[dict[str, Any]], rows: dict[str, int]) -> dict[str, Any]:
    profile = {"name": "smoke", "chaos_s": 8.0, "warmup_s": 1.0, "rounds": 2, "says": "minutes"}
    return {
        "version": 1,
        "run_id": "20260102T030405-7",
        "scenario": "acks1-truncation",
        "conjecture": "A flooded leader that is demoted loses fewer acknowledged records.",
        "seed": 7,
        "settings": {
            "profile": profile,
            "seed": 7,
            "store": "store",
            "runtime": "process",
            "suts": ["dualplane"],
            "planes": None,
            "plan": None,
            "mutants": ["skip-controller-epoch-check"],
            "overrides": {"queued.max.requests": "400"},
        },
        "runtime": "process",
        "arms": {
            arm: {
                "sut": "dualplane",
                "sut_version": "0.1.0",
                "planes": planes,
                "runtime": "process",
            }
            for arm, planes in ARMS.items()
        },
        "expectations": {
            "checks": ["truncation-loss", "stale-metadata", "controller-latency", "fencing"],
            "leader_changes_planned": True,
            "faults": ["flood-heavy-produce", "move-leadership"],
        },
        "machine": {"python": "3.11.7", "system": "Linux 6.1", "biplane": "0.1.0"},
        "clock": {"monotonic_minus_wall_ns": OFFSET_NS, "error_ns": 1_000_100},
        "trials": trials,
        "history": {"version": 1, "rows": rows, "rejected": 0, "torn_lines": 1, "orphans": 2},
    }


def _plan() -> dict[str, Any]:
    flood = {"target": "leader:victim-0", "connections": 640, "partitions": 20}
    entries = [
        {"id": "flood", "fault": "flood-heavy-produce", "at_ms": 500, "duration_ms": 6900}
        | {"params": flood}
    ]
    entries += [
        {"id": f"move-{i}", "fault": "move-leadership", "at_ms": int(s * 1000) - 20}
        | {"duration_ms": 0, "params": {"partitions": f"{TOPIC}-{i}"}}
        for i, s in enumerate(MOVES)
    ]
    return {"version": 1, "seed": 11, "entries": entries}


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its history, without results.json."""
    return write_run(tmp_path_factory.mktemp("report") / "finished")


@pytest.fixture(scope="session")
def judged_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, judged in Spark."""
    from checkers.check import check_run

    folder = write_run(tmp_path_factory.mktemp("report") / "judged")
    check_run(folder)
    return folder
