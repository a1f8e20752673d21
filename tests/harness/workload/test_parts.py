"""The small parts that every role stands on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.history import problem_with
from checkers.history.schema import SENT
from harness.workload import LiveRecorder, WorkloadError, WorkloadSpec
from harness.workload.offset_reader import OffsetReader
from harness.workload.offset_reader import Params as OffsetParams
from harness.workload.outcomes import produce_outcome
from harness.workload.pacing import Clock, is_busy
from harness.workload.prober import Params as ProberParams
from harness.workload.produce_frames import ProduceFrames
from harness.workload.producer import Params as ProducerParams
from harness.workload.producer import Producer
from harness.workload.roles import role
from harness.workload.sent import Sent
from harness.workload.told import told
from harness.workload.values import (
    MIN_BYTES,
    NO_VALUE,
    decode,
    decode_value,
    encode_key,
    encode_value,
    headers_for,
    is_whole,
)
from nodes.wire.codec import WireError, parse_body, parse_header
from nodes.wire.records import build_batch, check_crc, iter_records


def spec(**fields: Any) -> WorkloadSpec:
    return WorkloadSpec(
        **{
            "role": "producer",
            "process": "p",
            "output": "x.jsonl",
            "bootstrap": {1: "127.0.0.1:9092"},
            "params": {"topics": {"t": 1}},
            **fields,
        }
    )


# ---- specs ---------------------------------------------------------------------------------------


def test_a_spec_survives_json(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(spec(params={"topics": {"t": 3}, "acks": 1}).to_json())
    loaded = WorkloadSpec.load(path)
    assert loaded == spec(params={"topics": {"t": 3}, "acks": 1})
    assert loaded.address(1) == ("127.0.0.1", 9092)
    assert loaded.read_params(ProducerParams).topics == {"t": 3}


def test_integer_keys_and_whole_rates_come_back_from_json(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    params = {
        "zookeeper": "z:1",
        "listeners": {2: {"control": "127.0.0.1:5"}},
        "topics": ["t"],
        "rate_per_s": 5,
    }
    path.write_text(spec(role="prober", params=params).to_json())
    read = WorkloadSpec.load(path).read_params(ProberParams)
    assert read.listeners == {2: {"control": "127.0.0.1:5"}}
    assert read.topics == ("t",)
    assert read.rate_per_s == 5.0


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"role": "juggler"}, ["role", "juggler", "consumer"]),
        ({"bootstrap": {1: "nowhere"}}, ["bootstrap", "nowhere", "host:port"]),
        ({"params": {}}, ["params.topics", "required"]),
        ({"params": {"topics": {"t": 1}, "akcs": 1}}, ["params.akcs", "unknown", "acks"]),
        ({"params": {"topics": {"t": 1}, "acks": "all"}}, ["params.acks", "'all'", "int"]),
        ({"params": {"topics": {"t": 1}, "acks": 2}}, ["params.acks", "2", "-1"]),
        ({"params": {"topics": {"t": 1}, "value_bytes": 4}}, ["value_bytes", "8"]),
        (
            {"role": "direct-producer", "params": {"topic": "t", "target": 9}},
            ["params.target", "9", "1"],
        ),
        (
            {"role": "prober", "params": {"zookeeper": "z:1", "listeners": {"1": {"moon": "a:1"}}}},
            ["params.listeners", "moon", "control"],
        ),
    ],
)
def test_a_bad_spec_is_named(fields: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(WorkloadError) as error:
        role(spec(**fields))
    for text in named:
        assert text in str(error.value)


# ---- the recorder --------------------------------------------------------------------------------


def test_what_is_recorded_is_in_the_file_in_order(tmp_path: Path, rows: Any) -> None:
    path = tmp_path / "live" / "p.jsonl"
    with LiveRecorder(path, "p-1") as recorder:
        recorder.invoke("produce", 7, 100, topic="t", partition=0, value=3, acks=1)
        recorder.complete("produce", 7, "ok", 100, 150, topic="t", partition=0, value=3, acks=1)
        recorder.event("node_event", node=1, event="kill")
        recorder.event("forged", process="forger", op=1)
    found = rows(path)
    assert [row["f"] for row in found] == ["produce", "produce", "node_event", "forged", "source"]
    assert [problem_with(row) for row in found] == [None] * 5
    assert [row["seq"] for row in found] == [0, 1, 2, 3, 4]
    assert found[4]["closed"] is True
    assert (found[1]["invoke_t"], found[1]["t"], found[1]["op"]) == (100, 150, 7)
    assert found[3]["process"] == "forger"


def test_lines_reach_the_file_without_a_flush(tmp_path: Path, rows: Any, wait_until: Any) -> None:
    with LiveRecorder(tmp_path / "p.jsonl", "p") as recorder:
        recorder.event("infra", component="worker", reason="r")
        wait_until(lambda: rows(tmp_path / "p.jsonl"))


def test_many_threads_lose_nothing(tmp_path: Path, rows: Any) -> None:
    with LiveRecorder(tmp_path / "p.jsonl", "p", flush_interval_s=0.001) as recorder:

        def work(base: int) -> None:
            for op in range(base, base + 2000):
                recorder.invoke("probe", op, op)

        threads = [threading.Thread(target=work, args=(i * 2000,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = rows(tmp_path / "p.jsonl")
    assert sorted(row["op"] for row in found[:-1]) == list(range(8000))
    assert sorted(row["seq"] for row in found) == list(range(8001))


_LIMITED = """
import resource, sys, time
from harness.workload import recorder as module
from harness.workload.recorder import LiveRecorder, RecorderFailed
module._LAST_TRIES_S = 0.05
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
recorder = LiveRecorder(sys.argv[1], "p", flush_interval_s=0.001)
resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))  # in the middle of a row
for op in range(20):
    recorder.invoke("probe", op, op)
while not recorder.failing:
    time.sleep(0.001)
recorder.invoke("probe", 20, 20)
if sys.argv[2] == "lifted":
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
try:
    recorder.close()
except RecorderFailed as error:
    sys.exit(str(error))
"""


def limited(path: Path, what: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _LIMITED, str(path), what]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_write_that_failed_loses_nothing_and_is_told(tmp_path: Path, rows: Any) -> None:
    done = limited(tmp_path / "p.jsonl", "lifted")
    assert done.returncode == 0
    (said,) = done.stderr.splitlines()
    assert "p.jsonl: it cannot be written: [Errno 27] File too large" in said
    found = rows(tmp_path / "p.jsonl")
    assert [row["seq"] for row in found] == list(range(23))
    assert [row["op"] for row in found if row["f"] == "probe"] == list(range(21))
    (told,) = [row for row in found if row["f"] == "infra"]
    assert told["component"] == "recorder"
    assert "File too large" in told["reason"]
    assert found[-1]["closed"] is True


def test_a_process_whose_history_is_cut_off_does_not_end_as_if_all_were_well(
    tmp_path: Path,
) -> None:
    done = limited(tmp_path / "p.jsonl", "kept")
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert (tmp_path / "p.jsonl").stat().st_size == 700


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    recorder = LiveRecorder(tmp_path / "p.jsonl", "p")
    recorder.close()
    recorder.close()


def test_the_hot_path_is_cheap(tmp_path: Path) -> None:
    """About 1 us. Held against what nobody can save, a row serialised and kept, in turns: a machine
    that is busy, or short of memory, slows both."""
    fields = {
        "topic": "t",
        "partition": 0,
        "value": 7,
        "acks": 1,
        "offset": 7,
        "error": 0,
    }
    row = {"f": "produce", "process": "producer-1", "type": "ok", "op": 7, "t": 123_456_789_999}
    row |= {"invoke_t": 123_456_789_012, **fields}
    with LiveRecorder(tmp_path / "p.jsonl", "producer-1", flush_interval_s=60) as recorder:

        def record() -> None:
            recorder.complete("produce", 7, "ok", 123_456_789_012, 123_456_789_999, **fields)

        def keep() -> None:
            kept.append(orjson.dumps(row))

        def taken_ns(work: Callable[[], None]) -> int:
            started = time.thread_time_ns()
            for _ in range(100):
                work()
            return time.thread_time_ns() - started

        kept: deque[bytes] = deque()
        # Of two that were measured in one moment: a lucky one is nobody else's measure.
        ratios = [taken_ns(record) / taken_ns(keep) for _ in range(101)]
    assert median(ratios) < 5  # about 2.2


_LAUNCHED = """
import sys
from harness.workload.__main__ import main
assert main(["", "no-such-spec.json"]) == 2
import nodes.wire.apis
print(sys.modules["hypothesis"])
"""


@pytest.mark.slow
def test_a_role_does_not_pay_for_what_tests_need() -> None:
    """kio imports hypothesis where it can: most of what a role imports."""
    command = [sys.executable, "-c", _LAUNCHED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["None"]


# ---- clocks and values ---------------------------------------------------------------------------


def test_a_clock_keeps_its_plan_whenever_it_is_asked() -> None:
    clock = Clock(1000, 0)
    assert clock.take(-1) is None
    assert [clock.take(2_500_000) for _ in range(4)] == [0, 1_000_000, 2_000_000, None]
    assert clock.wait_s(2_500_000, 1.0) == pytest.approx(0.0005)


@given(
    rate=st.floats(1, 10_000),
    steps=st.lists(st.integers(0, 3_000_000_000), max_size=30),
    behind_ns=st.integers(0, 1_000_000_000),
)
def test_ticks_are_in_order_due_and_never_too_old(
    rate: float, steps: list[int], behind_ns: int
) -> None:
    clock, now, last = Clock(rate, 0, max_behind_ns=behind_ns), 0, -1
    for step in steps:
        now += step
        for _ in range(5):
            planned = clock.take(now)
            if planned is None:
                break
            assert last < planned <= now
            assert now - planned <= behind_ns + 1e9 / rate + 1
            last = planned


@given(value=st.integers(-(2**63), 2**63 - 1), size=st.integers(MIN_BYTES, 200))
def test_values_come_back(value: int, size: int) -> None:
    data = encode_value(value, size)
    assert len(data) == size
    assert decode_value(data) == value
    assert is_whole(encode_key(value), data, headers_for(size))


def test_who_has_no_value_is_told_by_its_key() -> None:
    key = encode_key(7)
    assert encode_value(7, NO_VALUE) is None
    assert decode(key, None) == 7
    assert is_whole(key, None, headers_for(NO_VALUE))
    assert not is_whole(key, None, headers_for(8))
    assert not is_whole(key, encode_value(7, 8), headers_for(NO_VALUE))
    assert decode(None, None) is decode(b"short", None) is None


@pytest.mark.parametrize("data", [b"", b"short", b"12345678x"])
def test_foreign_records_have_no_value(data: bytes) -> None:
    assert decode_value(data) is decode(encode_key(7), data) is None
    assert not is_whole(encode_key(7), data, headers_for(8))


@pytest.mark.parametrize(
    ("key", "data", "headers"),
    [
        (None, encode_value(7, 64), headers_for(64)),
        (encode_key(8), encode_value(7, 64), headers_for(64)),
        (encode_key(7), encode_value(7, 63), headers_for(64)),
        (encode_key(7), encode_value(7, 64) + b"x", headers_for(65)),
        (encode_key(7), encode_value(7, 64), None),
        (encode_key(7), encode_value(7, 64), [*headers_for(64), *headers_for(64)]),
        (encode_key(7), encode_value(7, 64), [("bytes", None)]),
    ],
)
def test_what_was_altered_is_not_whole(key: Any, data: bytes, headers: Any) -> None:
    assert is_whole(encode_key(7), encode_value(7, 64), headers_for(64))
    assert not is_whole(key, data, headers)


@given(value=st.integers(0, 2**62), timestamp_ms=st.integers(0, 2**42), size=st.integers(8, 300))
def test_patched_frames_are_sound_requests(value: int, timestamp_ms: int, size: int) -> None:
    frames = ProduceFrames("t", 3, acks=1, timeout_ms=1000, value_bytes=size, client_id="direct")
    frames.frame(1, 1)
    frame = frames.frame(value, timestamp_ms)[4:]
    header = parse_header(frame)
    request = parse_body(header, frame)
    (partition,) = request.topic_data[0].partition_data
    assert (request.acks, partition.index, header.client_id) == (1, 3, "direct")
    assert check_crc(partition.records)
    (record,) = iter_records(partition.records)
    assert decode_value(record.value) == value
    assert is_whole(record.key, record.value, record.headers)
    assert record.timestamp_ms == timestamp_ms


@pytest.mark.parametrize(
    ("error", "acks", "outcome"),
    [
        (0, 1, "ok"),
        (0, -1, "ok"),
        (0, 0, "info"),
        (6, 1, "info"),
        (7, -1, "info"),
        (20, -1, "info"),
        (3, -1, "info"),
        (19, -1, "fail"),
        (10, 1, "fail"),
        (-1, 1, "info"),
    ],
)
def test_outcomes(error: int, acks: int, outcome: str) -> None:
    assert produce_outcome(error, acks) == outcome


def test_specs_are_plain_json() -> None:
    assert json.loads(spec().to_json())["bootstrap"] == {"1": "127.0.0.1:9092"}


# ---- pauses --------------------------------------------------------------------------------------


@given(start_ms=st.integers(0, 10**9), busy_ms=st.integers(1, 50), idle_ms=st.integers(1, 50))
def test_all_of_a_machine_pause_at_the_same_moments(
    start_ms: int, busy_ms: int, idle_ms: int
) -> None:
    cycle = [
        is_busy((start_ms + i) * 1_000_000, busy_ms, idle_ms) for i in range(busy_ms + idle_ms)
    ]
    assert sum(cycle) == busy_ms
    assert sum(a != b for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)) == 2  # one pause


def test_without_a_pause_it_is_always_busy() -> None:
    assert all(is_busy(t, busy_ms, 0) for t in range(0, 10**9, 10**6) for busy_ms in (0, 5))
    with pytest.raises(ValueError, match="idle_ms"):
        ProducerParams(topics={"t": 1}, idle_ms=5)
    assert ProducerParams(topics={"t": 1}, idle_ms=5, busy_ms=1).idle_ms == 5


@pytest.mark.parametrize(
    ("asks", "params"),
    [
        ("group-absent", {"group": "g", "session_ms": 100, "rebalance_ms": 1_000}),
        ("group-couple", {"group": "g"}),
        ("group-keeper", {"topic": "t"}),
        ("group-pair", {"group": "g", "topic": "t"}),
        ("group-riser", {"group": "g", "topic": "t"}),
        ("group-stranger", {"group": "g", "topics": {"t": 1}}),
        ("joint-producer", {"topics": {"t": 1}}),
        ("metadata-reader", {"topics": ["t"]}),
        ("offset-reader", {"topics": {"t": 1}}),
        ("record-deleter", {"topics": {"t": 1}}),
        ("refused-asker", {"topic": "t"}),
    ],
)
def test_who_would_never_ask_is_refused(asks: str, params: dict[str, Any]) -> None:
    assert role(spec(role=asks, params=params | {"rate_per_s": 0.1}))
    with pytest.raises(WorkloadError, match=rf"{asks}.*'params.rate_per_s': allowed: above 0"):
        role(spec(role=asks, params=params | {"rate_per_s": 0}))


def test_times_of_all_ages_are_asked_for_again() -> None:
    plan = spec(role="offset-reader", params={"topics": {"t": 1}})
    reader = OffsetReader(plan, plan.read_params(OffsetParams))
    for found_ms in (*range(0, 20_000, 10), 5, 19_999):
        reader._remember(("t", 0), found_ms)
    times = reader._times["t", 0]
    assert all(b - a > 100 for a, b in pairwise(times))
    assert len(times) > 150
    asked = set()
    for number in range(3 * len(times)):
        reader._asked = number
        asked.add(reader._fields("again", 0, 0)["t", 0]["asked_ms"])
    assert asked == set(times)


def test_of_what_is_given_the_last_batch_may_be_cut_off() -> None:
    """As Kafka cuts it, at whatever byte; what is no batch is told."""
    first = build_batch([(None, b"a", 1), (None, b"b", 1)], base_offset=5, leader_epoch=3)
    second = build_batch([(None, b"c", 1)], base_offset=7, leader_epoch=4)
    both = {"high_watermark": 9, "log_start_offset": 0}
    plan = spec(role="offset-reader", params={"topics": {"t": 1}})
    reader = OffsetReader(plan, plan.read_params(OffsetParams))
    little = {"max_bytes": 1, "partition_max_bytes": 1}

    def read(records: bytes | None) -> dict[str, int]:
        return reader._given(("t", 0), little, SimpleNamespace(records=records, **both))

    def told(found_end: int, leader_epoch: int, of: bytes) -> dict[str, int]:
        sizes = {"given_bytes": len(of), "first_bytes": len(first) if of else 0}
        return {**both, "found_end": found_end, "leader_epoch": leader_epoch, **sizes}

    assert read(None) == told(-1, -1, b"")
    assert read(first + second) == told(8, 4, first + second)
    for size in range(len(second)):
        assert read(first + second[:size]) == told(7, 3, first + second[:size])
    with pytest.raises(WireError):
        read(first + bytes(80))


class _GivenUp:
    """A client whose broker refused what had to come next at t-1."""

    def poll(self, _timeout_s: float) -> int:
        says = "ProduceRequest for t [1] with 1 message(s) failed due to sequence desynchronization"
        raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(45, says, True))


class _Rows:
    def __init__(self) -> None:
        self.told: list[tuple[str, Any, Any]] = []

    def complete(self, _kind: str, _op: int, outcome: str, *_: Any, **fields: Any) -> None:
        self.told.append((outcome, fields["error"], fields["failure"]))


def test_what_made_a_producer_give_up_is_told_of_the_refused_partition() -> None:
    plan = spec(role="producer", params={"topics": {"t": 2}, "acks": -1, "idempotent": True})
    producer = Producer(plan, plan.read_params(ProducerParams))
    rows, gone = _Rows(), confluent_kafka.KafkaError(confluent_kafka.KafkaError._PURGE_QUEUE)
    producer._poll(_GivenUp(), 0)
    for partition in (0, 1):
        place = {"topic": "t", "partition": partition, "value": 1, "acks": -1}
        producer._delivered(rows, 0, 0, place, gone, None)  # type: ignore[arg-type]
    assert rows.told == [("info", None, "_PURGE_QUEUE"), ("info", 45, "_PURGE_QUEUE")]


def statistics(sent: int) -> str:
    partitions = {"-1": {"txmsgs": 0}, "0": {"txmsgs": 7}, "1": {"txmsgs": sent}}
    return json.dumps({"name": "p", "topics": {"t": {"topic": "t", "partitions": partitions}}})


@pytest.mark.parametrize(
    ("told", "invoke_t", "sent"),
    [
        ([], 5, False),
        ([(10, 1)], 5, False),  # it may have been before
        ([(10, 1), (20, 2)], 5, True),
        ([(10, 1), (20, 2)], 10, True),
        ([(10, 1), (20, 2)], 11, False),
        ([(10, 1), (20, 2), (30, 2), (40, 2)], 15, False),  # nothing any more
        ([(10, 1), (20, 1), (30, 2)], 15, True),
    ],
)
def test_of_what_nobody_answered_it_is_told_if_any_was_sent(
    told: list[tuple[int, int]], invoke_t: int, sent: bool
) -> None:
    now = [0]
    kept = Sent(lambda: now[0])
    for now[0], count in told:
        kept.told(statistics(count))
    assert kept.failure("_MSG_TIMED_OUT", "t", 1, invoke_t).endswith(SENT) is sent
    assert kept.failure("_MSG_TIMED_OUT", "u", 1, invoke_t) == "_MSG_TIMED_OUT"


def test_what_else_a_client_raises_is_its_end() -> None:
    class Ends:
        def poll(self, _timeout_s: float) -> int:
            raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(1, "x"))

    plan = spec(role="producer", params={"topics": {"t": 1}})
    with pytest.raises(confluent_kafka.KafkaException):
        Producer(plan, plan.read_params(ProducerParams))._poll(Ends(), 0)


# ---- what run.json says of a producer ------------------------------------------------------------


@pytest.mark.parametrize(
    ("role_name", "more", "delivery"),
    [
        ("producer", {}, "once-a-leader"),  # librdkafka sends again what "not the leader" refused
        ("producer", {"idempotent": True}, "idempotent"),
        ("producer", {"retries": 3}, None),
        ("direct-producer", {"topic": "t"}, "once"),
    ],
)
def test_how_often_a_producer_sends(
    role_name: str, more: dict[str, Any], delivery: str | None
) -> None:
    params = {"topics": {"t": 1}, "acks": -1, **more}
    assert told(spec(role=role_name, params=params)).get("delivery") == delivery


@pytest.mark.parametrize("allowed_ms", [None, 750])
def test_how_long_a_producer_lets_its_broker_wait(allowed_ms: int | None) -> None:
    params = {"topic": "t", "acks": -1, "ack_timeout_ms": allowed_ms}
    assert told(spec(role="direct-producer", params=params)).get("ack_timeout_ms") == allowed_ms


class Refusing:
    """A librdkafka producer that takes nothing."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def produce(self, *_: Any, **__: Any) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (BufferError("full"), "queue full"),
        (
            confluent_kafka.KafkaException(
                confluent_kafka.KafkaError(confluent_kafka.KafkaError._UNKNOWN_TOPIC)
            ),
            "_UNKNOWN_TOPIC",
        ),
    ],
)
def test_what_the_client_itself_refuses_was_never_sent(
    tmp_path: Path, error: Exception, why: str
) -> None:
    """A broker that has forgotten its topics must not end the producer."""
    producer = Producer(spec(), ProducerParams(topics={"t": 1}))
    with closing(LiveRecorder(tmp_path / "p.jsonl", "p")) as recorder:
        producer._offer(Refusing(error), recorder, 0)
    rows = [orjson.loads(line) for line in (tmp_path / "p.jsonl").read_bytes().splitlines()]
    rows = [row for row in rows if row["f"] == "produce"]
    assert [(row["type"], row.get("failure")) for row in rows] == [("invoke", None), ("fail", why)]
    assert producer._unanswered == 0
