"""What the checkers' tests share: one Spark session, and a way to tell a history in few words."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import pytest

from checkers import sail
from checkers.history import KINDS, OPERATIONS
from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from checkers.spark import cores, end, engine, sail_session, session
from tests.checkers.together import judged_apart, play

MS = 1_000_000
SECOND_MS = 1_000
ARM = "bp-single"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Whoever judges small histories where nobody is named; by ``BIPLANE_SPARK_MASTER`` another.
    Ended: a JVM would otherwise outlive pytest's captured streams."""
    chosen = engine(rows=0)
    yield sail_session() if chosen == sail.MASTER else session(chosen)
    end()


@pytest.fixture(scope="session")
def jvm() -> Iterator[Any]:
    with in_a_jvm():
        found = session(f"local[{cores()}]")
    yield found
    end()


@pytest.fixture(scope="module")
def spark_itself(jvm: Any) -> Iterator[Any]:
    """Spark, in a JVM, for the tests of a file: whose subject it is, or which hold it against what
    the others are judged by. In one process the two take turns."""
    with in_a_jvm():
        yield jvm


@contextlib.contextmanager
def in_a_jvm() -> Iterator[None]:
    client = os.environ.pop(sail.CLIENT, None)
    yield
    if client is not None:
        os.environ[sail.CLIENT] = client


class Story:
    """A history under construction. Times are given in milliseconds, stored in nanoseconds."""

    def __init__(self, arm: str = ARM, trial: int = 0) -> None:
        self.arm, self.trial = arm, trial
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self.run: dict[str, Any] = {
            "run_id": "r",
            "scenario": "s",
            "seed": 1,
            "arms": {arm: {"sut": "bp", "planes": "single"}},
            "clock": {"monotonic_minus_wall_ns": 0, "error_ns": 100_000},
        }
        self.apart: Hashable = None
        """With whom it is judged: see `tests.checkers.together.apart`."""
        self._op = 0

    def add(self, kind: str, t: float, **fields: Any) -> dict[str, Any]:
        row = {"t": int(t * MS), "process": fields.pop("process", "p"), **fields}
        for name in ("invoke_t", "planned_t", "receive_t", "enqueue_t", "dequeue_t", "handled_t",
                     "send_t"):  # fmt: skip
            if isinstance(row.get(name), int | float):
                row[name] = int(row[name] * MS)
        if kind in OPERATIONS:
            self._op += 1
            row = {"type": "ok", "op": self._op, "invoke_t": row["t"] - MS, **row}
        if "topic" in KINDS[kind].columns:
            row = {"topic": "t", "partition": 0, **row}
        if "whole" in KINDS[kind].columns and row.get("offset") is not None:
            row = {"whole": True, **row}
        row |= {"arm": self.arm, "trial": self.trial}
        self.rows.setdefault(kind, []).append(row)
        return row

    # -- the words that most tests use ------------------------------------------------------------

    def commit(self, t: float, leader: int, leader_epoch: int, **more: Any) -> None:
        fields = {"partition_epoch": leader_epoch, "isr": [1, 2, 3], "source": "zk", **more}
        self.add("leadership", t, leader=leader, leader_epoch=leader_epoch, **fields)

    def read(self, t: float, node: int, leader_epoch: int, **more: Any) -> None:
        self.add("metadata", t, node=node, leader_epoch=leader_epoch, **{"leader": 1, **more})

    def produce(self, t: float, value: int, offset: int | None, acks: int = 1, **more: Any) -> None:
        self.add("produce", t, value=value, offset=offset, acks=acks, **more)

    def strain(self, t: float, slowness: int, seconds: int = 6) -> None:
        """From then on, all that works takes so many times as long as alone."""
        for second in range(1, seconds + 1):
            self.add(
                "strain",
                t + 1_000 * second,
                process="pulse",
                ran_ns=10_000_000,
                waited_ns=(slowness - 1) * 10_000_000,
            )

    def final_log(
        self, values: dict[int, int], node: int = 1, *, leader: bool = True, **more: Any
    ) -> None:
        """``values``: offset -> value. Dense logs only need what they hold."""
        topic = {k: more.pop(k) for k in ("topic", "partition") if k in more}
        epoch = more.pop("leader_epoch", 0)
        for offset, value in values.items():
            self.add(
                "log_read", 90_000, node=node, offset=offset, value=value, leader_epoch=epoch,
                **topic,
            )  # fmt: skip
        end = max(values, default=-1) + 1
        fields = {
            "log_start_offset": 0, "log_end_offset": end, "high_watermark": end,
            "is_leader": leader, **more,
        }  # fmt: skip
        self.add("log_end", 90_000, node=node, **topic, **fields)

    def handled(self, t: float, node: int, **more: Any) -> None:
        """A control request whose handling took the millisecond before t."""
        times = {"receive_t": t - 4, "enqueue_t": t - 3, "dequeue_t": t - 2, "handled_t": t - 1}
        fields = {
            "api": "UPDATE_METADATA", "correlation_id": int(t), "client_id": "c", "error": 0,
            "controller_id": 9, "controller_epoch": 1, "broker_epoch": 50, "own_broker_epoch": 50,
            "partitions": [], "plane": "data",
        }  # fmt: skip
        self.add("control_request", t, node=node, **{**fields, **times, **more})

    def history(self, spark: Any) -> History:
        return History.of(spark, self.rows, self.run)


def judged_together(
    spark: Any, check: Callable[[History], Outcome], stories: Mapping[str, Story]
) -> dict[str, tuple[dict[str, int], list[str]]]:
    """By name of the story, its findings by rule (of each the first few) and why its trial is
    unknown: what judging it alone gives (`tests.checkers.together`)."""
    found: dict[str, tuple[dict[str, int], list[str]]] = {}
    for name, outcome in judged_apart(spark, check, stories).items():
        _, reasons = outcome.verdict([(ARM, 0)])
        rules = Counter(finding.rule for finding in outcome.findings)
        found[name] = (dict(rules), [why for why in reasons if ", trial 0: " in why])
    return found


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture(scope="module")
def played(request: Any, spark: Any) -> dict[str, BaseException | None]:
    """Of the module's tests that ask (`tests.checkers.together`), by id: what each failed with."""
    return play(spark, [i for i in request.session.items if i.module is request.module])
