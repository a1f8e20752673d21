"""event_words: every kind of row has a sentence, also when fields are missing."""

from __future__ import annotations

import pytest

from checkers.history import KINDS
from harness.report.event_words import error_name, rest, sentence, who

SILENT = {"flood"}  # a sample of a counter: its fields say it all


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_can_be_told_without_its_fields(kind: str) -> None:
    said = sentence({"f": kind, "t": 5, "process": "p"})
    assert bool(said) != (kind in SILENT)


def test_a_produce() -> None:
    row = {"f": "produce", "t": 5_000_000, "invoke_t": 2_000_000, "type": "ok", "value": 7}
    row |= {"topic": "t", "partition": 0, "acks": -1, "offset": 3}
    said = sentence(row).replace("\N{NO-BREAK SPACE}", " ")
    assert said == "value 7 offered to t-0 with acks=all: ok after 3 ms, at offset 3"


def test_nobody_knows() -> None:
    row = {"f": "produce", "t": 5, "type": "info", "value": 7, "error": 6}
    assert "nobody knows what came of it: NOT_LEADER_OR_FOLLOWER" in sentence(row)


def test_a_refusal_is_named() -> None:
    row = {"f": "control_request", "t": 5, "node": 2, "api": "LEADER_AND_ISR", "error": 11}
    assert "answered STALE_CONTROLLER_EPOCH" in sentence(row)
    assert error_name(None) == "no answer"
    assert error_name(4242) == "ERROR_4242"


def test_the_state_in_the_end() -> None:
    row = {"f": "final_state", "t": 5, "what": "node", "node": 2, "running": True}
    assert sentence(row) == "in the end, node 2 is not: registered, answers"
    row |= {"what": "partition", "topic": "t", "partition": 0, "leader": 1, "isr": [1, 3]}
    assert sentence(row) == "in the end, t-0 is led by 1, ISR [1, 3] of ?"
    assert "deletion of t is still under way" in sentence({**row, "what": "deletion"})


def test_where_a_log_ends() -> None:
    row = {"f": "listed_offset", "t": 5, "type": "ok", "node": 2, "topic": "t", "partition": 0}
    row |= {"asked_ms": -1, "offset": 7, "leader_epoch": 3}
    assert sentence(row) == "node 2 was asked where t-0 ends: offset 7, leader epoch 3"
    at = {**row, "asked_ms": 99, "offset": -1, "leader_epoch": None}
    assert sentence(at).endswith("has its first record at or after 99 ms: nowhere")
    epoch = {**row, "f": "epoch_end", "asked_epoch": 2, "type": "fail", "error": 6}
    assert "where leader epoch 2 ends in t-0: failed: NOT_LEADER_OR_FOLLOWER" in sentence(epoch)


def test_who_waits_where_a_log_ends() -> None:
    row = {"f": "read_at", "t": 5, "node": 2, "topic": "t", "partition": 0, "offset": 9}
    row |= {"type": "ok", "error": 0, "believed_epoch": 3, "found_end": 10, "max_wait_ms": 0}
    assert "leader epoch 3: up to offset 10 was given" in sentence(row)
    waits = {**row, "max_wait_ms": 1_500, "min_bytes": 1}
    assert "leader epoch 3 and would wait 1500 ms for 1 bytes: " in sentence(waits)


def test_what_brokers_are_asked_of_records_and_groups() -> None:
    row = {"f": "records_deleted", "t": 5, "node": 2, "topic": "t", "partition": 0, "offset": 9}
    done = {**row, "type": "ok", "error": 0, "low_watermark": 9}
    assert sentence(done).startswith("node 2 was told to let t-0 begin at offset 9: ")
    assert sentence(done).endswith(", low watermark 9")
    late = sentence({**row, "type": "info", "error": 7, "low_watermark": -1})
    assert "REQUEST_TIMED_OUT" in late
    assert "watermark" not in late
    named = {"f": "coordinator", "t": 5, "node": 2, "group": "g", "type": "ok", "coordinator": 3}
    assert sentence(named) == "node 2 was asked who coordinates group g: node 3"
    nobody = {**named, "type": "fail", "error": 15, "coordinator": -1}
    assert "COORDINATOR_NOT_AVAILABLE" in sentence(nobody)
    step = {"f": "group_step", "t": 5, "node": 2, "group": "g", "type": "ok", "error": 0}
    assert sentence({**step, "step": "ask", "offset": 7}).endswith(", offset 7")
    assert "delete of group g" in sentence({**step, "step": "delete", "offset": -1})


def test_what_brokers_tell_clients() -> None:
    told = {"f": "metadata", "t": 5, "node": 2, "topic": "t", "error": 0, "controller_id": 3}
    whole = {**told, "partition": 0, "leader": 1, "leader_epoch": 4, "isr": [1, 2]}
    assert sentence(whole) == (
        "node 2 told a client: t-0 is led by 1 at leader epoch 4, ISR [1, 2]; the controller is 3"
    )
    unknown = {**told, "error": 3, "controller_id": None}
    assert sentence(unknown) == (
        "node 2 told a client no partition of t: UNKNOWN_TOPIC_OR_PARTITION"
    )
    lost = {"f": "metadata", "t": 5, "node": 2, "type": "info", "failure": "timeout"}
    assert "nobody knows what came of it: timeout" in sentence(lost)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"what": "controller_epoch", "controller_epoch": 4}, "the controller epoch is 4"),
        ({"what": "controller", "step": "created", "node": 1}, "node 1 is the controller"),
        (
            {"what": "controller", "step": "removed", "node": 1},
            "node 1 is no longer the controller",
        ),
        ({"what": "topic", "topic": "t", "partition": 0, "replicas": [1]}, "t-0 has replicas [1]"),
        ({"what": "topic", "topic": "t", "step": "removed"}, "the topic of t is removed"),
        ({"what": "broker", "node": 2, "step": "created"}, "the registration of node 2 is made"),
    ],
)
def test_what_zookeepers_log_says(row: dict[str, object], said: str) -> None:
    assert (
        sentence({"f": "zk_write", "t": 5, "zxid": 9, **row}) == f"ZooKeeper's log, zxid 9: {said}"
    )


def test_who_and_what_else() -> None:
    row = {"f": "x", "t": 1, "process": "node-2", "node": 2, "receive_t": 2_000_000_000, "isr": [1]}
    assert who(row) == "node-2"
    assert who({**row, "process": "forger"}) == "forger (node 2)"
    assert rest(row, 1_000_000_000) == "receive_t=1.000000 s, isr=[1]"


def test_a_leader_that_was_shown_is_not_called_committed() -> None:
    row = {"f": "leadership", "t": 5, "topic": "t", "partition": 0, "leader": 1, "leader_epoch": 4}
    says = sentence({**row, "source": "shown", "node": 2})
    assert says == "node 2 shows, first of all, t-0 led by 1 at leader epoch 4"
    assert sentence({**row, "source": "zk", "isr": [1]}).startswith("committed: t-0 is led by 1")
