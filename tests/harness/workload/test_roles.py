"""Every role as the process that a run starts, against brokers that speak the protocol.

Raw clients meet the two mini brokers of conftest; librdkafka's meet its own mock cluster, a foreign
implementation. (All of them also work against Apache Kafka 3.9.2, which is too slow to start here.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from faults.protocol import PartitionState
from harness.cluster.state import Endpoint, Registration
from harness.workload import WorkloadError, launch
from harness.workload.control_messages import leader_and_isr, update_metadata
from harness.workload.tails import MAX_WAIT_MS
from harness.workload.zk_state import Snapshot
from nodes.wire.apis import ApiKey
from nodes.wire.codec import parse_body, parse_header
from tests.harness.workload.conftest import GIVEN, READY_S, done, sound

pytestmark = pytest.mark.slow


# ---- the joint producer --------------------------------------------------------------------------


def test_all_that_a_broker_leads_is_written_to_in_one_request_and_answered_each_by_itself(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.partitions, mini.refused = 3, {1}
    plan = spec("joint-producer", topics={"t": 3}, rate_per_s=200, first_value=1000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.values) > 20)
        with mini.lock:
            mini.leader, mini.leader_epoch = 2, 1
            mini.told = {1: (1, 0), 2: (1, 0)}  # until it is refused
        wait_until(lambda: any(row.get("error") == 6 for row in rows(plan.output)))
        mini.told.clear()
        wait_until(lambda: {node for node, _ in mini.values} == {1, 2})
        assert workload.stop() == 0
    assert set(mini.together) <= {1, 2, 3}
    assert 3 in mini.together
    found = done(sound(rows(plan.output)))
    acked = [row for row in found if row["type"] == "ok"]
    assert {row["value"] for row in acked} <= {value for _, value in mini.values}
    assert {(row["node"], row["leader_epoch"], row["partition"]) for row in acked} >= {
        *((1, 0, 0), (1, 0, 2)),
        *((2, 1, 0), (2, 1, 2)),
    }
    assert {row["type"] for row in found if row["error"] == 10} == {"fail"}
    assert {row["partition"] for row in found if row["error"] == 10} == {1}
    assert {row["type"] for row in found if row["error"] == 6} == {"info"}
    assert {row["acks"] for row in found} == {-1}
    assert len({row["value"] for row in found}) == len({row["op"] for row in found}) == len(found)


def test_who_has_not_heard_of_a_move_is_refused_beside_others(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """Every other request to a broker has a record that it refuses; nobody is asked for that."""
    mini.partitions, mini.led = 3, {2: 2}
    plan = spec("joint-producer", topics={"t": 3}, rate_per_s=200, strays=True)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: {1, 2, 3} <= set(mini.together) and len(mini.values) > 40)
        assert workload.stop() == 0
    found = done(sound(rows(plan.output)))
    assert {(r["node"], r["partition"], r["type"], r["error"]) for r in found} == {
        *((1, 0, "ok", 0), (1, 1, "ok", 0), (2, 2, "ok", 0)),
        *((1, 2, "info", 6), (2, 0, "info", 6), (2, 1, "info", 6)),
    }
    assert len(mini.asked) < len(mini.together) / 4
    assert len({row["value"] for row in found}) == len(found)


def test_producer_epochs_are_raised_after_so_many_batches_and_after_what_was_not_acknowledged(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("joint-producer", topics={"t": 1}, rate_per_s=100, raises=3)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.batches) > 8)
        with mini.lock:
            mini.produce_error, at = 19, len(mini.batches)
        wait_until(lambda: len(mini.batches) > at + 2)
        assert workload.stop() == 0
    assert {one[0] for one in mini.batches} == {7_000}
    assert [one[1:] for one in mini.batches[:7]] == [
        *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0))
    ]
    refused = [one[1:] for one in mini.batches[at : at + 3]]
    assert [sequence for _, sequence in refused[1:]] == [0, 0]
    assert refused[2][0] == refused[1][0] + 1 == refused[0][0] + 2
    sound(rows(plan.output))


def test_what_was_acknowledged_is_sent_once_more_while_it_is_one_of_the_last_five(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("joint-producer", topics={"t": 1}, rate_per_s=100, raises=20, repeats=3)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.batches) > 40)
        assert workload.stop() == 0
    found = done(sound(rows(plan.output)))
    first = {row["value"]: row for row in found if row["f"] == "produce"}
    again = [row for row in found if row["f"] == "repeated" and row["type"] == "ok"]
    assert {row["later"] for row in again} == {0, 1, 2, 3, 4}
    seen: list[tuple[int, int, int]] = []
    repeats = [at for at, one in enumerate(mini.batches) if one in seen or seen.append(one)]
    assert len(repeats) == len(again)
    for at, row in zip(repeats, again, strict=True):
        one = mini.batches[at]
        fresh = [other for n, other in enumerate(mini.batches[:at]) if n not in repeats]
        assert fresh.index(one) == len(fresh) - 1 - row["later"]
        assert fresh[-1][1] == one[1]
        assert row["first_t"] == first[row["value"]]["invoke_t"]
        assert row["first_offset"] == first[row["value"]]["offset"]
        assert (row["node"], row["leader_epoch"]) == (1, 0)


def test_who_has_no_producer_id_sends_nothing_once_more(spec: Any) -> None:
    plan = spec("joint-producer", topics={"t": 1}, repeats=3)
    with pytest.raises(WorkloadError, match=r"params\.repeats"), launch(plan) as workload:
        workload.wait_ready(READY_S)


def test_who_leaves_writes_last_what_has_no_value_and_another_comes(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("joint-producer", topics={"t": 1}, rate_per_s=100, raises=2, leaves=True)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.batches) > 7)
        assert workload.stop() == 0
    assert mini.batches[:7] == [
        *((7_000, 0, 0), (7_000, 0, 1), (7_000, 1, 0)),
        *((7_001, 0, 0), (7_001, 0, 1), (7_001, 1, 0), (7_002, 0, 0)),
    ]
    assert mini.erased == [one for one in mini.batches if one[1]]
    assert {row["type"] for row in done(sound(rows(plan.output)))} == {"ok"}


def test_only_who_has_a_producer_id_can_leave(spec: Any) -> None:
    plan = spec("joint-producer", topics={"t": 1}, leaves=True)
    with pytest.raises(WorkloadError, match=r"params\.leaves"), launch(plan) as workload:
        workload.wait_ready(READY_S)


def test_leaders_of_a_topic_that_was_made_again_are_followed(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.leader, mini.leader_epoch = 1, 5
    plan = spec("joint-producer", topics={"t": 1}, acks=1, rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: mini.values)
        mini.produce_error = 3  # it is gone
        wait_until(lambda: any(row.get("error") == 3 for row in rows(plan.output)))
        with mini.lock:
            mini.produce_error, mini.leader, mini.leader_epoch = 0, 2, 0
        wait_until(lambda: {node for node, _ in mini.values} == {1, 2})
        assert workload.stop() == 0
    acked = [row for row in done(sound(rows(plan.output))) if row["type"] == "ok"]
    assert {(row["node"], row["leader_epoch"]) for row in acked} == {(1, 5), (2, 0)}


def test_of_what_nobody_answers_each_partition_leaves_a_row(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.partitions = 2
    plan = spec("joint-producer", topics={"t": 2}, rate_per_s=100, timeout_ms=2000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: mini.values)
        mini.silent.add(1)
        wait_until(lambda: any(r.get("failure") == "timeout" for r in rows(plan.output)))
        before = len(mini.values)
        mini.silent.clear()
        wait_until(lambda: len(mini.values) > before + 4)  # what was lost, and more
    lost = [row for row in done(sound(rows(plan.output))) if row.get("failure") == "timeout"]
    assert {(row["type"], row["partition"]) for row in lost} == {("info", 0), ("info", 1)}


# ---- the direct producer -------------------------------------------------------------------------


def test_a_leader_that_is_the_last_to_hear_of_it_is_asked_again(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("direct-producer", topic="t", rate_per_s=100, connections=4, first_value=1000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.values) > 5)
        with mini.lock:
            mini.told = {1: (2, 1), 2: (2, 1)}
            mini.leader = 3  # 1 leads no more, and 2 has not heard that it does
        wait_until(lambda: any((r["error"], r["node"]) == (6, 2) for r in done(rows(plan.output))))
        with mini.lock:
            mini.leader, mini.leader_epoch = 2, 1
        wait_until(lambda: any(node == 2 for node, _ in mini.values))
        assert workload.stop() == 0


def test_it_stays_until_refused_and_then_follows_the_newer_epoch(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.told[2] = (1, 0)  # broker 2 is behind with its news
    plan = spec("direct-producer", topic="t", rate_per_s=500, connections=4, first_value=1000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.values) > 20)
        with mini.lock:
            mini.leader, mini.leader_epoch = 2, 1
            mini.told[1] = (1, 0)
        wait_until(lambda: len([a for a in mini.asked if a == 2]) > 3)
        with mini.lock:
            before = len(mini.values)
            assert {node for node, _ in mini.values} == {1}
            mini.told.clear()
        wait_until(lambda: len(mini.values) > before + 20)
        assert workload.stop() == 0
    found = done(sound(rows(plan.output)))
    acked = [row for row in found if row["type"] == "ok"]
    assert sorted(row["value"] for row in acked) == sorted(value for _, value in mini.values)
    assert {(row["node"], row["leader_epoch"]) for row in acked} == {(1, 0), (2, 1)}
    refused = [row for row in found if row["error"] == 6]
    assert refused
    assert {row["type"] for row in refused} == {"info"}
    assert acked[0]["log_append_time_ms"] == 1_700_000_000_000
    assert len({row["value"] for row in found}) == len(found)


def test_a_chosen_broker_is_kept_to_even_if_it_does_not_lead(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("direct-producer", topic="t", target=2, rate_per_s=200, connections=2)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: any(row.get("error") == 6 for row in rows(plan.output)))
        with mini.lock:
            mini.leader_epoch = 1  # news that it may follow
        wait_until(lambda: len(mini.values) > 5)
    first = min(done(rows(plan.output)), key=lambda row: row["op"])
    assert (first["node"], first["error"]) == (2, 6)


def test_who_is_patient_waits_for_its_broker_to_lead_again_and_then_follows(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("direct-producer", topic="t", rate_per_s=200, target=1, patience_ms=3000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: mini.values)
        with mini.lock:
            mini.leader, mini.leader_epoch = 2, 1
        wait_until(lambda: any(row.get("error") == 6 for row in rows(plan.output)))
        before = len(mini.asked)
        wait_until(lambda: len(mini.asked) > before + 5)
        with mini.lock:
            written = len(mini.values)
            mini.leader, mini.leader_epoch = 1, 2
        wait_until(lambda: len(mini.values) > written)
        with mini.lock:
            assert {node for node, _ in mini.values} == {1}
            mini.leader, mini.leader_epoch = 2, 3
        wait_until(lambda: mini.values[-1][0] == 2)


@pytest.mark.parametrize(("params", "asked_ms"), [({}, 4000), ({"ack_timeout_ms": 700}, 700)])
def test_how_long_a_broker_is_to_wait_for_replication(
    mini: Any, spec: Any, wait_until: Any, params: dict[str, int], asked_ms: int
) -> None:
    plan = spec("direct-producer", topic="t", rate_per_s=100, timeout_ms=4000, **params)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: mini.values)
    assert mini.ack_timeouts == {asked_ms}


def test_unanswered_produces_are_info_and_the_connection_is_made_anew(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("direct-producer", topic="t", rate_per_s=100, connections=2, timeout_ms=150)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: mini.values)
        mini.silent.add(1)
        wait_until(lambda: any(row.get("failure") == "timeout" for row in rows(plan.output)))
        mini.silent.clear()
        before = len(mini.values)
        wait_until(lambda: len(mini.values) > before + 5)
    lost = [row for row in done(sound(rows(plan.output))) if row.get("failure") == "timeout"]
    assert {row["type"] for row in lost} == {"info"}


def test_a_leader_that_comes_back_with_the_same_epoch_is_taken_again(
    mini: Any, spec: Any, wait_until: Any
) -> None:
    plan = spec("direct-producer", topic="t", rate_per_s=200, connections=1, timeout_ms=50)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: mini.values)
        mini.silent.add(1)  # its only connection times out: every way to the leader is down
        asked = len(mini.asked)
        wait_until(lambda: len(mini.asked) > asked)
        mini.silent.clear()
        before = len(mini.values)
        wait_until(lambda: len(mini.values) > before + 5)


# ---- the offset reader ---------------------------------------------------------------------------


def test_who_leads_tells_of_offsets_and_epochs_and_refuses_who_believes_in_the_past(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.leader_epoch = 4
    plan = spec("offset-reader", topics={"t": 1}, rate_per_s=100)

    refusals = {(2, "listed_offset", 6), (2, "epoch_end", 6)}  # who does not lead says so
    refusals |= {(1, "listed_offset", 74), (1, "listed_offset", 75)}
    refusals |= {(1, "read_at", 74), (1, "read_at", 75), (2, "read_at", 6)}

    def refused(found: list[dict[str, Any]]) -> set[tuple[int, str, int]]:
        return {(r["node"], r["f"], r["error"]) for r in found if r["type"] == "fail"}

    def asked_all() -> bool:
        found = done(rows(plan.output))
        ok = [row for row in found if row["type"] == "ok"]
        asked = {row["asked_ms"] for row in ok if "asked_ms" in row}
        ends = {row["asked_epoch"] for row in ok if "asked_epoch" in row}
        seen = {1, 2, 3, 4} <= ends and {98_000} <= asked
        seen = seen and any(row.get("max_bytes") == 32_768 for row in ok)
        return len(asked) > 4 and seen and refusals <= refused(found)

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(asked_all)
        assert workload.stop() == 0
    found = done(sound(rows(plan.output)))
    assert refused(found) == refusals
    ok = [row for row in found if row["type"] == "ok"]
    assert {row["node"] for row in ok} == {1}
    listed = {(r["asked_ms"], r["offset"], r["found_ms"]) for r in ok if r["f"] == "listed_offset"}
    assert {(-1, 100, -1), (-2, 0, -1)} <= listed
    # Asked by the wall clock: beyond all that there is. Again for what a segment ended with.
    by_time = {(asked_ms, offset) for asked_ms, offset, _ in listed if asked_ms >= 0}
    assert {(asked_ms, offset) for asked_ms, offset in by_time if offset >= 0} == {(98_000, 98)}
    ends = {(r["believed_epoch"], r["asked_epoch"], r["offset"]) for r in ok if "asked_epoch" in r}
    assert ends == {(4, 4, 50), (4, 3, 40), (4, 2, 30), (4, 1, 20)}
    told = ("believed_epoch", "offset", "high_watermark", "found_end", "leader_epoch")
    every = [row for row in ok if row["f"] == "read_at"]
    reads = [row for row in every if row["max_bytes"] < 64 * 1024]
    assert {tuple(r[name] for name in told) for r in reads} == {
        (4, 100, 100, -1, -1),
        (4, 50, 100, 99, 3),
    }
    # A little of what is before the end: a byte in all, or some, or all; each is told what it was.
    asked = ("offset", "max_bytes", "partition_max_bytes", "given_bytes", "first_bytes")
    assert {tuple(r[name] for name in asked) for r in reads} == {
        (100, 4096, 4096, 0, 0),
        (50, 1, 4096, 2 * len(GIVEN[0]) + 1, len(GIVEN[0])),
        (50, 400, 4096, 2 * len(GIVEN[0]) + 1, len(GIVEN[0])),
        (50, 32768, 32768, 2 * len(GIVEN[0]) + 1, len(GIVEN[0])),
    }
    # Where it ends: what is there, and then what comes next, for which the broker is to wait.
    asked = ("believed_epoch", "offset", "found_end", "max_wait_ms", "min_bytes")
    waits = [tuple(r.get(name) for name in asked) for r in every if r["max_bytes"] == 64 * 1024]
    assert {one for one in waits if not one[3]} == {(4, 95, 99, 0, 0)}
    assert {one for one in waits if one[3]} == {
        *((4, 99, 99, MAX_WAIT_MS, 1), (4, 99, 99, MAX_WAIT_MS, 2_000)),
    }


def test_an_offset_reader_whose_broker_is_gone_goes_on_with_the_other(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("offset-reader", topics={"t": 1}, rate_per_s=100, timeout_ms=2000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        mini.silent.add(1)
        wait_until(lambda: any(r.get("failure") == "timeout" for r in rows(plan.output)))
        before = len(done(rows(plan.output)))
        wait_until(lambda: len(done(rows(plan.output))) > before + 3)
        mini.silent.clear()
    lost = [row for row in done(sound(rows(plan.output))) if row.get("failure")]
    assert {(row["node"], row["type"], row.get("topic")) for row in lost} == {(1, "info", None)}


# ---- who deletes records -------------------------------------------------------------------------


def test_all_but_the_newest_records_are_deleted_and_none_that_nobody_wrote(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("record-deleter", topics={"t": 2}, rate_per_s=100, kept=30)

    def seen() -> set[tuple[Any, ...]]:
        return {
            (r["node"], r.get("partition"), r["type"], r.get("error"), r.get("offset"))
            for r in done(rows(plan.output))
            if r["f"] == "records_deleted"
        }

    wanted = {
        *((1, 0, "ok", 0, 70), (1, 1, "info", 7, 70)),
        *((1, 0, "fail", 1, 1_000_100), (2, 0, "fail", 6, 70)),
        (1, 0, "fail", 1, 101),  # told twice that its log ends at 100
    }
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: wanted <= seen())
        mini.silent.add(1)
        workload.stop()
    found = done(sound(rows(plan.output)))
    told = {(r["node"], r.get("asked_ms"), r["offset"]) for r in found if r["type"] == "ok"}
    assert {(1, -1, 100), (1, -2, 0), (1, None, 70)} <= told
    deletions = [r for r in found if r["f"] == "records_deleted"]
    assert {r["low_watermark"] for r in deletions if r["type"] == "ok"} == {70}
    # Who told no end, or no end twice, is not asked for the next record.
    assert {r["node"] for r in deletions if r["offset"] == 101} == {1}
    ends = [r["t"] for r in found if (r["node"], r.get("asked_ms")) == (1, -1)]
    nexts = [r["invoke_t"] for r in deletions if r["offset"] == 101]
    assert sorted(set(ends))[1] < min(nexts)


def test_after_a_while_no_more_is_deleted_than_before(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """But once: where nothing was written by then it may be late."""
    mini.end = 20
    plan = spec("record-deleter", topics={"t": 1}, rate_per_s=100, kept=30, until_ms=0)

    def asked(kind: str, **fields: int) -> list[int]:
        found = [r for r in done(rows(plan.output)) if r["f"] == kind and r["node"] == 1]
        return [r["t"] for r in found if fields.items() <= r.items()]

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(asked("listed_offset", offset=20)) > 3)
        mini.end = 100
        wait_until(lambda: asked("records_deleted", offset=70))
        mini.end = 200
        wait_until(lambda: len(asked("listed_offset", offset=200)) > 3)
        told = asked("listed_offset", offset=200)[-1]
        wait_until(lambda: asked("records_deleted", offset=70)[-1] > told)
        workload.stop()
    found = done(sound(rows(plan.output)))
    deletions = {r["offset"] for r in found if r["f"] == "records_deleted"}
    assert {70} == {offset for offset in deletions if offset < 1_000_000}, "nor what is not there"


def test_who_told_where_a_log_begins_is_asked_for_the_record_before(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("record-deleter", topics={"t": 2}, rate_per_s=100)

    def read() -> set[tuple[Any, ...]]:
        found = [r for r in done(rows(plan.output)) if r["f"] == "read_below"]
        return {tuple(r[n] for n in ("node", "partition", "offset", "type")) for r in found}

    def asked_often() -> bool:
        return sum(r.get("asked_ms") == -2 for r in done(rows(plan.output))) > 8

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(asked_often)
        assert not read()  # before the first record there never was one
        mini.begins = 70
        wait_until(lambda: {(1, 0, 69, "ok"), (1, 1, 69, "fail")} <= read())
        workload.stop()
    assert read() == {(1, 0, 69, "ok"), (1, 1, 69, "fail")}
    sound(rows(plan.output))


def test_who_has_just_come_back_tells_where_a_log_begins_before_it_deletes(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """What came back with it would be gone before anybody saw it. It is away again and again: the
    next question is another one each time."""
    plan = spec("record-deleter", topics={"t": 1}, rate_per_s=100, kept=30, timeout_ms=60)
    deleted, begun = ("records_deleted", None, "ok"), ("listed_offset", -2, "ok")

    def asked() -> list[tuple[Any, ...]]:
        found = [r for r in done(rows(plan.output)) if r["node"] == 1]
        return [(r["f"], r.get("asked_ms"), r["type"]) for r in found]

    def lost() -> int:
        return sum(kind == "info" for *_, kind in asked())

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        for times in range(1, 13):
            wait_until(lambda: deleted in asked()[-8:])
            more = len(asked()) + times
            wait_until(lambda more=more: len(asked()) >= more)
            mini.silent.add(1)
            wait_until(lambda times=times: lost() >= times)
            mini.silent.clear()
        wait_until(lambda: deleted in asked()[-8:])
        workload.stop()
    sound(rows(plan.output))
    heard = False
    for row in asked():
        assert heard or row != deleted
        heard = row == begun or (heard and row[2] != "info")


def test_a_deletion_that_nobody_answers_may_have_been_done(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.unanswered.add(ApiKey.DELETE_RECORDS)
    plan = spec("record-deleter", topics={"t": 2}, rate_per_s=100, timeout_ms=300)

    def lost() -> set[int]:
        found = [r for r in done(rows(plan.output)) if r.get("failure") == "timeout"]
        return {r["partition"] for r in found if r["f"] == "records_deleted"}

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: lost() == {0, 1})
        mini.unanswered.clear()
        workload.stop()
    sound(rows(plan.output))


def test_a_deletion_in_flight_in_the_end_may_have_been_done(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.unanswered.add(ApiKey.DELETE_RECORDS)
    plan = spec("record-deleter", topics={"t": 2}, rate_per_s=100, kept=30, timeout_ms=60_000)

    def asked() -> bool:
        return any(r["f"] == "records_deleted" for r in rows(plan.output))

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(asked)
        assert workload.stop() == 0
    found = [r for r in done(sound(rows(plan.output))) if r["f"] == "records_deleted"]
    told = {(r["node"], r["partition"], r["offset"], r["type"], r["failure"]) for r in found}
    assert {(1, p, 70, "info", "the run ended") for p in (0, 1)} <= told


# ---- the metadata reader -------------------------------------------------------------------------


def test_each_broker_is_asked_for_its_own_idea(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.told[2] = (1, 7)
    plan = spec("metadata-reader", topics=["t"], rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(done(rows(plan.output))) > 10)
    found = done(sound(rows(plan.output)))
    assert {(row["node"], row["leader_epoch"]) for row in found} == {(1, 0), (2, 7)}
    assert {(row["type"], row["leader"], tuple(row["isr"])) for row in found} == {("ok", 1, (1, 2))}
    assert {(tuple(row["replicas"]), tuple(row["offline"])) for row in found} == {((1, 2), (2,))}
    assert len({row["read"] for row in found}) == len(found)


def test_where_brokers_are_is_told_once_an_answer(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("metadata-reader", topics=["t", "nope"], rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(done(rows(plan.output))) > 10)
    at = mini.bootstrap
    for row in done(sound(rows(plan.output))):
        told = (row.get("endpoints"), row.get("asked_at"))
        once = ([f"{node}@{at[node]}" for node in (1, 2)], at[row["node"]])
        assert told == (once if row["topic"] == "t" else (None, None))


def test_the_live_brokers_of_an_answer_are_told_once(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("metadata-reader", topics=["t", "nope"], rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(done(rows(plan.output))) > 10)
    told: dict[tuple[int, int], list[Any]] = {}
    for row in done(sound(rows(plan.output))):
        told.setdefault((row["node"], row["read"]), []).append(row.get("brokers"))
    assert {tuple(map(str, brokers)) for brokers in told.values()} == {("[1, 2]", "None")}


def test_a_broker_that_is_gone_is_info_and_the_other_goes_on(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    # Long enough that the other, who answers at once, is never taken for gone on a busy machine.
    plan = spec("metadata-reader", topics=["t"], rate_per_s=100, timeout_ms=2000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: rows(plan.output))
        mini.silent.add(1)
        wait_until(lambda: any(r.get("failure") == "timeout" for r in rows(plan.output)))
        mini.silent.clear()
    timeouts = [row for row in done(sound(rows(plan.output))) if row.get("failure")]
    assert {(row["node"], row["type"]) for row in timeouts} == {(1, "info")}


def test_an_unknown_topic_is_a_failed_read(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("metadata-reader", topics=["nope"], rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: done(rows(plan.output)))
    found = done(sound(rows(plan.output)))
    told = {(r["type"], r["topic"], r["error"], r.get("partition"), r["node"]) for r in found}
    assert told == {("fail", "nope", 3, None, node) for node in (1, 2)}


def test_every_topic_that_was_asked_for_leaves_a_row(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """One that is unknown beside one that is known does not vanish from the history."""
    plan = spec("metadata-reader", topics=["t", "nope", "unnamed"], rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(done(rows(plan.output))) > 10)
    reads: dict[tuple[int, int], set[tuple[Any, ...]]] = {}
    for row in done(sound(rows(plan.output))):
        said = (row["topic"], row.get("partition"), row["type"], row["error"], row.get("failure"))
        reads.setdefault((row["node"], row["read"]), set()).add(said)
        assert row["controller_id"] == mini.CONTROLLER
    each = {
        ("t", 0, "ok", 0, None),
        ("nope", None, "fail", 3, "no partition was told"),
        ("unnamed", None, "fail", 0, "not named"),
    }
    assert set(map(frozenset, reads.values())) == {frozenset(each)}


# ---- librdkafka ----------------------------------------------------------------------------------


def test_producer_and_consumer_meet_a_foreign_cluster(
    spec: Any, rows: Any, wait_until: Any
) -> None:
    mock = confluent_kafka.Producer({"test.mock.num.brokers": 2, "bootstrap.servers": "x"})
    brokers = mock.list_topics(timeout=60).brokers
    bootstrap = {node: f"{broker.host}:{broker.port}" for node, broker in brokers.items()}
    produce = spec(
        "producer", bootstrap, topics={"rd": 2}, rate_per_s=300, first_value=50, value_bytes=20
    )
    consume = spec("consumer", bootstrap, topics={"rd": 2}, poll_ms=50)
    with launch(produce) as producer, launch(consume) as consumer:
        producer.wait_ready(READY_S)
        consumer.wait_ready(READY_S)
        wait_until(lambda: len([r for r in rows(consume.output) if r.get("value")]) > 50)
        assert producer.stop() == 0
        acked = [row for row in done(sound(rows(produce.output))) if row["type"] == "ok"]
        wait_until(lambda: len([r for r in rows(consume.output) if r.get("value")]) >= len(acked))
        assert consumer.stop() == 0
    read = {
        (row["partition"], row["offset"]): row["value"]
        for row in sound(rows(consume.output))
        if row.get("value") is not None
    }
    assert {(row["partition"], row["offset"]): row["value"] for row in acked} == read
    assert min(read.values()) == 50


def test_a_tail_reader_begins_at_the_end(spec: Any, rows: Any, wait_until: Any) -> None:
    mock = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "x"})
    brokers = mock.list_topics(timeout=60).brokers
    bootstrap = {node: f"{broker.host}:{broker.port}" for node, broker in brokers.items()}
    produce = spec("producer", bootstrap, topics={"rd": 1}, rate_per_s=300, value_bytes=20)
    with launch(produce) as producer:
        producer.wait_ready(READY_S)
        wait_until(lambda: len(done(rows(produce.output))) > 100)
        consume = spec("consumer", bootstrap, topics={"rd": 1}, poll_ms=50, late_ms=100)
        with launch(consume) as consumer:
            consumer.wait_ready(READY_S)  # it says so before it comes
            wait_until(lambda: len([r for r in rows(consume.output) if r.get("value")]) > 50)
            assert consumer.stop() == 0
        assert producer.stop() == 0
    read = [row["offset"] for row in sound(rows(consume.output)) if row.get("value") is not None]
    assert read[0] > 100
    assert read == list(range(read[0], read[0] + len(read)))


def test_nobody_there(spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = spec("metadata-reader", {1: "127.0.0.1:1"}, topics=["t"])
    with pytest.raises(WorkloadError, match="not ready within"), launch(plan) as workload:
        workload.wait_ready(0.5)
    assert not workload.alive()


# ---- the process ---------------------------------------------------------------------------------


def test_bad_parameters_end_it_with_words(spec: Any) -> None:
    plan = spec("metadata-reader", topics=["t"], colour="red")
    with pytest.raises(WorkloadError, match="colour"), launch(plan) as workload:
        workload.wait_ready(READY_S)


@pytest.mark.parametrize("how", ["sigterm", "parent dies"])
def test_it_ends_with_its_parent_and_on_sigterm(
    spec: Any, how: str, tmp_path: Path, wait_until: Any
) -> None:
    plan = spec("metadata-reader", topics=["t"])
    if how == "sigterm":
        with launch(plan) as workload:
            workload.wait_ready(READY_S)
            os.kill(workload.pid, signal.SIGTERM)
            wait_until(lambda: not workload.alive())
            assert workload.exit_code == 0
        return
    (tmp_path / "plan.json").write_text(plan.to_json())
    code = (
        "import sys, os; from pathlib import Path; from harness.workload import *;"
        f"w = launch(WorkloadSpec.load(Path({str(tmp_path / 'plan.json')!r})));"
        f"w.wait_ready({READY_S}); print(w.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    orphan = int(parent.stdout)

    def gone() -> bool:
        try:
            return Path(f"/proc/{orphan}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    wait_until(gone)


# ---- probes --------------------------------------------------------------------------------------

SNAPSHOT = Snapshot(
    version=1,
    controller=2,
    controller_epoch=9,
    brokers={
        n: Registration(
            node=n,
            broker_epoch=100 + n,
            endpoints=(Endpoint(listener="CLIENT", host="h", port=90 + n, security_protocol=0),),
            rack=None,
        )
        for n in (1, 2)
    },
    partitions=(
        PartitionState("t", 0, 1, 3, (1, 2), (1, 2), 8, 4),
        PartitionState("t", 1, 2, 6, (2, 3), (2, 3), 8, 7),
    ),
    topic_ids={"t": "AAAAAAAAAAAAAAAAAAAABQ"},
)


def parsed(frame: bytes | None) -> Any:
    assert frame is not None
    return parse_body(parse_header(frame[4:]), frame[4:])


def test_probes_say_what_is_committed() -> None:
    request = parsed(leader_and_isr(SNAPSHOT, 1, "probe"))
    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (2, 9, 101)
    (topic,) = request.topic_states
    assert topic.topic_id == uuid.UUID(int=5)
    (state,) = topic.partition_states
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 3, 4)
    assert leader_and_isr(SNAPSHOT, 3, "probe") is None


def test_metadata_probes_name_no_partition_unless_told() -> None:
    request = parsed(update_metadata(SNAPSHOT, 2, "probe"))
    assert not request.topic_states
    assert [broker.id_ for broker in request.live_brokers] == [1, 2]
    named = parsed(update_metadata(SNAPSHOT, 2, "probe", ["t"]))
    (topic,) = named.topic_states
    assert [s.leader_epoch for s in topic.partition_states] == [3, 6]
    assert list(topic.partition_states[1].offline_replicas) == [3]
