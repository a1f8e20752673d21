"""Spark and DuckDB say the same of histories that were roughened at random.

Each history is an arm of its own, so that one pass of Spark judges all of them. BIPLANE_OPINIONS
says how many there are (20 in `make test`; 200 take a few minutes).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from checkers.history import frames
from checkers.history.frames import History
from checkers.history.made.bulk import Records, probes, read_metadata
from checkers.history.made.layout import NODES, OFFSET_NS, TOPIC, Layout, S, Times
from checkers.history.made.small import GONE, GROUPED, Small
from checkers.history.parts import stored_schema
from checkers.promises import promise
from tests.checkers.second_opinion import SecondOpinion

HISTORIES = int(os.environ.get("BIPLANE_OPINIONS", "20"))
RULES = (
    "acked-all-lost",
    "acked-all-moved",
    "unexplained-loss",
    "read-then-changed",
    "read-then-gone",
    "metadata-went-back",
    "metadata-never-committed",
    "failed-write-visible",
    "duplicate-append",
    "replica-differs",
    "replica-hole",
    "epochs-out-of-order",
    "epoch-never-committed",
    "misplaced",
    "read-before-sent",
    "read-otherwise",
    "failed-write-read",
    "inconsistent-offset",
    "poll-went-back",
    "poll-skipped",
    "metadata-never-converged",
)
PROMISES = (
    *("truncation-loss", "stale-metadata", "controller-latency", "records", "replicas", "polls"),
)
Rows = dict[str, list[dict[str, Any]]]


def clean(rng: random.Random) -> tuple[Rows, Small]:
    layout = Layout(
        shape="load",
        trials=1,
        rounds=rng.randint(1, 3),
        partitions=rng.randint(1, 3),
        records=rng.randint(16, 40),
    )
    times = Times(begin=1_000 * S, rounds=layout.rounds)
    small = Small(layout, times, "dual")
    rows: Rows = {kind: [dict(row) for row in of] for kind, of in small.rows.items()}

    def add(kind: str, table: pa.Table) -> None:
        rows.setdefault(kind, []).extend(table.to_pylist())

    for table in read_metadata(layout, times):
        add("metadata", table)
    for table in probes(layout, times, "dual"):
        add("probe", table)
    for partition in range(layout.partitions):
        records = Records(layout, times, partition)
        add("produce", records.produced())
        add("fetch", records.fetched())
        for node in NODES:
            add("log_read", records.logged(node, times.final_read))
    return rows, small


# -- what may happen to a history -----------------------------------------------------------------


def in_logs(rows: Rows, rng: random.Random) -> list[dict[str, Any]]:
    """The rows of one record in all logs."""
    chosen = rng.choice(rows["log_read"])
    at = [chosen[name] for name in ("topic", "partition", "offset")]
    return [r for r in rows["log_read"] if [r["topic"], r["partition"], r["offset"]] == at]


def another_record(rows: Rows, rng: random.Random) -> None:
    """What was there is gone, and what nobody offered is in its place."""
    value = rng.randrange(10**12, 10**13)
    for row in in_logs(rows, rng):
        row["value"] = value


def change_places(rows: Rows, rng: random.Random) -> None:
    """Two records of a partition stand in each other's place."""
    one = in_logs(rows, rng)
    place = (one[0]["topic"], one[0]["partition"])
    other = next(
        of
        for of in iter(lambda: in_logs(rows, rng), None)
        if (of[0]["topic"], of[0]["partition"]) == place
    )
    one_value, other_value = one[0]["value"], other[0]["value"]
    for row in one:
        row["value"] = other_value
    for row in other:
        row["value"] = one_value


def again(rows: Rows, rng: random.Random) -> None:
    """A record stands where another should, too."""
    one = in_logs(rows, rng)
    other = in_logs(rows, rng)
    if one[0]["topic"] == other[0]["topic"] and one[0]["partition"] == other[0]["partition"]:
        for row in one:
            row["value"] = other[0]["value"]


def failed(rows: Rows, rng: random.Random) -> None:
    row = rng.choice(rows["produce"])
    row |= {"type": "fail", "error": rng.choice([10, 17, 6, 7]), "offset": None}


def lost_reply(rows: Rows, rng: random.Random) -> None:
    row = rng.choice(rows["produce"])
    row |= {"type": "info", "error": None, "offset": None, "failure": "timeout"}


def read_otherwise(rows: Rows, rng: random.Random) -> None:
    rng.choice(rows["fetch"])["value"] = rng.randrange(10**12, 10**13)


def read_beyond(rows: Rows, rng: random.Random) -> None:
    row = dict(rng.choice(rows["fetch"]))
    rows["fetch"].append({**row, "offset": row["offset"] + 100_000, "value": 10**14})


def shown_before(rows: Rows, rng: random.Random) -> None:
    row = rng.choice(rows["metadata"])
    row["leader_epoch"] = max(0, row["leader_epoch"] - rng.randint(1, 2))


def shown_ahead(rows: Rows, rng: random.Random) -> None:
    rng.choice(rows["metadata"])["leader_epoch"] += rng.randint(1, 5)


def slower(rows: Rows, rng: random.Random) -> None:
    kind = rng.choice(["control_request", "control_response", "probe"])
    rng.choice(rows[kind])["t"] += rng.randrange(10**9)


def unanswered(rows: Rows, rng: random.Random) -> None:
    rng.choice(rows["metadata"])["type"] = "info"


def differs(rows: Rows, rng: random.Random) -> None:
    """One log holds another record than the others."""
    rng.choice(rows["log_read"])["value"] = rng.randrange(10**12, 10**13)


def lacks(rows: Rows, rng: random.Random) -> None:
    """One log has a hole."""
    rows["log_read"].remove(rng.choice(rows["log_read"]))


def of_another_epoch(rows: Rows, rng: random.Random) -> None:
    """One log says that another leader took a record."""
    rng.choice(rows["log_read"])["leader_epoch"] += rng.choice([-1, 1, 10])


def given_in_another_epoch(rows: Rows, rng: random.Random) -> None:
    rng.choice(given(rows))["leader_epoch"] += rng.choice([-1, 1])


def sent_elsewhere(rows: Rows, rng: random.Random) -> None:
    """A record was meant for another partition than it is in."""
    row = rng.choice(rows["produce"])
    there = {r["partition"] for r in rows["produce"] if r["topic"] == row["topic"]}
    row["partition"] = rng.choice(sorted(there - {row["partition"]}) or [row["partition"]])


def given_before(rows: Rows, rng: random.Random) -> None:
    """A consumer is given a record before its producer has it."""
    row = rng.choice(given(rows))
    sent = [r["invoke_t"] for r in rows["produce"] if r["value"] == row["value"]]
    row["t"] = min([row["t"], *(t - 1 for t in sent)])


def read_twice(rows: Rows, rng: random.Random) -> None:
    """Another consumer is given another value."""
    row = rng.choice(given(rows))
    value = rng.randrange(10**12, 10**13)
    rows["fetch"].append({**row, "process": "consumer-2", "value": value})


def given_again(rows: Rows, rng: random.Random) -> None:
    """A consumer is given, in the end, what it was given before."""
    row, last = rng.choice(given(rows)), max(rows["fetch"], key=lambda r: r["poll"] or 0)
    later = {name: last[name] + 1 for name in ("poll", "op", "seq")}
    rows["fetch"].append({**row, **later, "t": last["t"] + 1_000_000, "process": "consumer"})


def never_given(rows: Rows, rng: random.Random) -> None:
    """A consumer is given what comes before and after a record."""
    row = rng.choice(given(rows))
    place = [r["offset"] for r in given(rows) if r["partition"] == row["partition"]]
    if min(place) < row["offset"] < max(place) - 1:
        rows["fetch"].remove(row)


def given(rows: Rows) -> list[dict[str, Any]]:
    return [r for r in rows["fetch"] if r["topic"] == TOPIC and r["process"] == "consumer"]


def behind(rows: Rows, rng: random.Random) -> None:
    """The last that a broker shows of a partition is of the past."""
    one = rng.choice([r for r in rows["metadata"] if r["topic"] == TOPIC])
    at = [one[name] for name in ("node", "partition")]
    own = [r for r in rows["metadata"] if r["topic"] == TOPIC]
    last = max((r for r in own if [r["node"], r["partition"]] == at), key=lambda r: r["invoke_t"])
    last["leader_epoch"] = max(0, last["leader_epoch"] - 1)


CHANGES: tuple[Callable[[Rows, random.Random], None], ...] = (
    another_record,
    change_places,
    again,
    failed,
    lost_reply,
    read_otherwise,
    read_beyond,
    shown_before,
    shown_ahead,
    slower,
    unanswered,
    differs,
    lacks,
    of_another_epoch,
    given_in_another_epoch,
    sent_elsewhere,
    given_before,
    read_twice,
    given_again,
    never_given,
    behind,
)


def roughened(seed: int) -> tuple[Rows, Small]:
    rng = random.Random(seed)
    rows, small = clean(rng)
    for _ in range(rng.randint(0, 12)):
        rng.choice(CHANGES)(rows, rng)
    return rows, small


# -- both opinions --------------------------------------------------------------------------------


def gathered() -> tuple[dict[str, pa.Table], dict[str, Any]]:
    whole: Rows = {}
    arms, trials = {}, []
    config = {"configs": {"message.timestamp.type": "LogAppendTime"}}
    for seed in range(HISTORIES):
        rows, small = roughened(seed)
        arm = f"history-{seed}"
        arms[arm] = {"sut": "dualplane", "planes": "dual"}
        trials.append(
            {
                "arm": arm,
                "trial": 0,
                "topics": dict.fromkeys((TOPIC, GROUPED, GONE), config),
                "workloads": small.workloads(),
            }
        )
        for kind, of in rows.items():
            whole.setdefault(kind, []).extend({**row, "arm": arm, "trial": 0} for row in of)
    tables = {
        kind: pa.Table.from_pylist(of, schema=stored_schema(kind)) for kind, of in whole.items()
    }
    clock = {"monotonic_minus_wall_ns": OFFSET_NS, "error_ns": 100_000}
    return tables, {"arms": arms, "trials": trials, "clock": clock}


@pytest.mark.parametrize("folded", [False, True])
def test_spark_and_duckdb_say_the_same(
    spark: Any, monkeypatch: pytest.MonkeyPatch, folded: bool
) -> None:
    """``folded``: as in a large history, most of which is judged by blocks."""
    if folded:
        monkeypatch.setattr(frames, "LIGHT_ROWS", 0)
    tables, run = gathered()
    second = SecondOpinion(tables)
    second.more()
    rows = {kind: table.to_pylist() for kind, table in tables.items()}
    history = History.of(spark, rows, run)
    counts: Counter[str] = Counter()
    outcomes = {}
    for name in PROMISES:
        outcomes[name] = promise(name).check(history)
        counts.update({r: n for r, n in outcomes[name].counts.items() if r in RULES})
    if folded:  # where nothing else is odd about its block (docs/guarantees.md: blind)
        assert counts.pop("read-before-sent") <= second.violations.pop("read-before-sent")
    assert counts == second.violations
    tried = set(RULES) - ({"read-before-sent"} if folded else set())
    assert {rule for rule, n in counts.items() if n} == tried, "not every rule was tried"
    for arm, own in second.figures.items():
        losses = outcomes["truncation-loss"].arms[arm]
        assert losses["acked_all"] == own["acked_all"]
        assert losses.get("acked_1", 0) == own.get("acked_1", 0)
        shown = outcomes["stale-metadata"].arms[arm]
        assert (shown["reads"], shown["stale_reads"]) == (own["reads"], own["stale"]), arm
        if own["stale"]:
            assert shown["staleness"]["max_ms"] == pytest.approx(own["stalest_ms"], abs=1e-4)
        foreign = outcomes["records"].arms.get(arm, {}).get("foreign_records", 0)
        assert foreign == own["foreign_records"]
        latency = outcomes["controller-latency"].arms[arm]
        for stage in ("blocked", "request_queue", "handler", "response", "round_trip", "queue"):
            found, wanted = latency[stage], own[stage]
            assert found["count"] == wanted["n"], (arm, stage)
            assert found["max_ms"] == pytest.approx(wanted["max_ms"], abs=1e-4)
            for quantile in ("p50_ms", "p99_ms"):  # a bucket is 2.2% wide
                assert found[quantile] == pytest.approx(wanted[quantile], rel=0.012, abs=1e-4)
