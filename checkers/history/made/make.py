"""Writing a made history: as a run's folder, with its truth beside it (``truth.json``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checkers.history.made.bulk import (
    PROBES_A_ROUND,
    Records,
    probes,
    read_metadata,
    stale_reads,
)
from checkers.history.made.layout import ARMS, NODES, OFFSET_NS, SHAPES, TOPIC, Layout, S, Times
from checkers.history.made.plants import PLANTS, differing, numbered
from checkers.history.made.small import GONE, GROUPED, Small
from checkers.history.schema import VERSION, HistoryError, arrow_schema
from checkers.history.writer import HistoryWriter

if TYPE_CHECKING:
    import pyarrow as pa

TRUTH_FILE: Final = "truth.json"
_FOLLOWER: Final = 1
"""Never leads: its log may differ without anything being lost."""
CHECKS: Final = (
    *("activity", "evidence", "recovery", "stale-metadata", "shown-metadata", "whole-metadata"),
    *("epochs", "departures", "truncation-loss", "controller-latency", "controller-queues"),
    *("planes", "fencing", "refusals", "succession", "availability", "topic-deletion"),
    *("replicas", "records", "polls", "log-files", "descriptions", "exceptions", "groups"),
)
"""What a made history has evidence for: no broker is stopped in it (`handing-over`)."""
__all__ = ["CHECKS", "SHAPES", "TRUTH_FILE", "Truth", "make"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is in the history. ``planted``: by rule, how often it is broken, all in the first trial
    of the first arm; ``stale_reads``: answers of a leader that was replaced before, in each
    trial (lawful: the broker had not been told yet)."""

    rows: int
    trials: int
    planted: dict[str, int]
    acked_all: int
    acked_1: int
    stale_reads: int
    probes: int


def make(
    out: Path, *, rows: int, shape: str = "load", plants: Mapping[str, int] | None = None
) -> Truth:
    """Write a run's folder of about ``rows`` rows. `HistoryError` when that cannot be."""
    layout = Layout.of(shape, rows)
    planted = dict(plants or {})
    for name, n in planted.items():
        most = PLANTS[name].most(layout)
        if n > most:
            raise HistoryError(f"--plant {name}={n}; allowed with these rows: up to {most}")
    if out.exists() and any(out.iterdir()):
        raise HistoryError(f"{out}: it is not empty; allowed: a new folder")
    out.mkdir(parents=True, exist_ok=True)
    trials: list[dict[str, Any]] = []
    begin = 1_000 * S
    with HistoryWriter(out / "history") as writer:
        for trial in range(layout.trials):
            for arm, planes in ARMS.items():
                times = Times(begin=begin, rounds=layout.rounds)
                begin += layout.trial_ns
                small = Small(layout, times, planes)
                own = planted if not trials else {}
                for kind, table in _tables(layout, times, small, planes, own):
                    writer.add(kind, table, arm=arm, trial=trial)
                trials.append(_trial(small, arm, trial))
    total = sum(writer.manifest.rows.values())
    offered = layout.partitions * layout.log_length
    truth = Truth(
        rows=total,
        trials=len(trials),
        planted=planted,
        acked_all=(offered + layout.partitions * (layout.log_length % 2)) // 2,
        acked_1=(offered - layout.partitions * (layout.log_length % 2)) // 2,
        stale_reads=stale_reads(layout),
        probes=PROBES_A_ROUND * (layout.rounds + 1),
    )
    (out / "run.json").write_text(json.dumps(_run(layout, trials, writer.manifest.rows)) + "\n")
    (out / TRUTH_FILE).write_text(json.dumps(asdict(truth), indent=1) + "\n")
    return truth


def _tables(
    layout: Layout, times: Times, small: Small, planes: str, planted: Mapping[str, int]
) -> Iterator[tuple[str, pa.Table]]:
    import pyarrow as pa

    for kind, found in small.rows.items():
        yield kind, pa.Table.from_pylist(found, schema=arrow_schema(kind))
    for table in read_metadata(layout, times):
        yield "metadata", table
    for table in probes(layout, times, planes):
        yield "probe", table
    differ = planted.get("replica-differs", 0)
    for partition in range(layout.partitions):
        records = Records(layout, times, partition)
        yield "produce", records.produced(op=numbered(records, planted))
        yield "fetch", records.fetched()
        own = differ // layout.partitions + (partition < differ % layout.partitions)
        for number, node in enumerate(NODES):
            begin = times.final_read + layout.log_length * 1_000 * (
                number * layout.partitions + partition
            )
            changed = {"value": differing(records, own)} if own and node == _FOLLOWER else {}
            yield "log_read", records.logged(node, begin, **changed)
    for name, n in planted.items():
        yield from PLANTS[name].rows(layout, times, n)


def _trial(small: Small, arm: str, trial: int) -> dict[str, Any]:
    config = {"configs": {"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2"}}
    return {
        "arm": arm,
        "trial": trial,
        "failure": None,
        "topics": dict.fromkeys((TOPIC, GROUPED, GONE), config),
        "faults": ["flood-heavy-produce", "move-leadership"],
        "planned": list(small.planned()),
        "workloads": small.workloads(),
    }


def _run(layout: Layout, trials: list[dict[str, Any]], rows: Mapping[str, int]) -> dict[str, Any]:
    return {
        "version": VERSION,
        "run_id": f"made-{layout.shape}",
        "scenario": f"made-{layout.shape}",
        "seed": 0,
        "arms": {
            arm: {"sut": "dualplane", "planes": planes, "runtime": "process"}
            for arm, planes in ARMS.items()
        },
        "expectations": {
            "checks": list(CHECKS),
            "leader_changes_planned": True,
            "settling_ms": 2_000,
            "faults": ["flood-heavy-produce", "move-leadership"],
            "faults_may_collide": False,
            "rounds": layout.trials,
        },
        "settings": {"overrides": {}},
        "clock": {"monotonic_minus_wall_ns": OFFSET_NS, "error_ns": 100_000},
        "trials": trials,
        "history": {"version": VERSION, "rows": dict(rows), "rejected": 0},
    }
