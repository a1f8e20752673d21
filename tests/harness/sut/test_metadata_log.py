"""KRaft's metadata log: partitions' states after each record, elections, torn tails."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.sut.metadata_log import Committed, Elected, read_metadata_log
from nodes.wire.records import build_batch

TOPIC_ID = bytes(range(16))
ID = TOPIC_ID.hex()


def i32s(*values: int) -> bytes:
    return bytes([len(values) + 1]) + struct.pack(f">{len(values)}i", *values)


def message(kind: int, body: bytes, version: int = 0) -> bytes:
    return bytes([1, kind, version]) + body


def topic(name: str, topic_id: bytes = TOPIC_ID) -> bytes:
    return message(2, bytes([len(name) + 1]) + name.encode() + topic_id + b"\0")


def partition(leader: int, *isr: int, topic_id: bytes = TOPIC_ID) -> bytes:
    body = struct.pack(">i", 4) + topic_id + i32s(1, 2, 3) + i32s(*isr) + i32s() + i32s()
    return message(3, body + struct.pack(">iii", leader, 0, 0) + b"\0")


def change(tags: dict[int, bytes]) -> bytes:
    tagged = b"".join(bytes([tag, len(body)]) + body for tag, body in tags.items())
    return message(5, struct.pack(">i", 4) + TOPIC_ID + bytes([len(tags)]) + tagged)


def write(folder: Path, *batches: bytes) -> Path:
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


def batch(at: int, *values: bytes, epoch: int = 7) -> bytes:
    records = [(None, value, 1000 + at) for value in values]
    return build_batch(records, base_offset=at, leader_epoch=epoch)


def test_states_follow_the_records(tmp_path: Path) -> None:
    leader, isr = {1: struct.pack(">i", 2)}, {0: i32s(2)}
    log = write(
        tmp_path,
        batch(0, topic("t"), partition(1, 1, 2, 3)),
        batch(2, change(isr)),
        batch(3, message(17, b"\0"), change(leader), epoch=8),
        batch(5, message(9, TOPIC_ID + b"\0"), change(leader)),
    )
    assigned: Any = {"replicas": (1, 2, 3)}
    assert list(read_metadata_log(log)) == [
        Committed(
            1000, "t", 4, 1, 0, 0, (1, 2, 3), offset=1, controller_epoch=7, topic_id=ID, **assigned
        ),
        Committed(
            1002, "t", 4, 1, 0, 1, (2,), offset=2, controller_epoch=7, topic_id=ID, **assigned
        ),
        Committed(
            1003, "t", 4, 2, 1, 2, (2,), offset=4, controller_epoch=8, topic_id=ID, **assigned
        ),
    ]


def test_who_is_assigned_is_told_until_it_changes(tmp_path: Path) -> None:
    changes = [change({2: i32s(4, 1, 2, 3)}), change({0: i32s(4, 1)}), change({2: i32s(4, 1)})]
    log = write(tmp_path, batch(0, topic("t"), partition(1, 1), *changes))
    found = [state.replicas for state in read_metadata_log(log) if isinstance(state, Committed)]
    assert found == [(1, 2, 3), (4, 1, 2, 3), (4, 1, 2, 3), (4, 1)]


def test_who_is_eligible_is_told_until_it_changes(tmp_path: Path) -> None:
    leader = {1: struct.pack(">i", 3)}
    changes = [change({6: i32s(2, 3)}), change(leader), change({6: i32s()}), change({6: b"\0"})]
    log = write(tmp_path, batch(0, topic("t"), partition(1, 1), *changes))
    found = [state.elr for state in read_metadata_log(log) if isinstance(state, Committed)]
    assert found == [(), (2, 3), (2, 3), (), ()]


def test_the_last_leader_may_lead_again_where_nobody_else_may(tmp_path: Path) -> None:
    """It died alone in sync, and came back after that: Kafka 4 takes it off the eligible ones."""
    none, back = {1: struct.pack(">i", -1)}, {1: struct.pack(">i", 2), 0: i32s(2), 7: i32s()}
    log = write(
        tmp_path,
        batch(0, topic("t"), partition(2, 2)),
        batch(2, change({0: i32s(), 6: i32s(2), 7: i32s(2)} | none)),
        batch(3, change({6: i32s()})),
        batch(4, change(back)),
    )
    found = [state for state in read_metadata_log(log) if isinstance(state, Committed)]
    assert [state.elr for state in found] == [(), (2,), (), ()]
    assert [state.eligible for state in found] == [(), (2,), (2,), ()]
    assert found[2].last_known == (2,)
    # One that is told beside others, or of several, is nobody's successor by itself.
    assert replace(found[2], isr=(1,)).eligible == ()
    assert replace(found[2], last_known=(2, 3)).eligible == ()


def test_a_namesake_has_another_id(tmp_path: Path) -> None:
    other = bytes(16)
    log = write(
        tmp_path,
        batch(0, topic("t"), partition(1, 1), change({1: struct.pack(">i", 2)})),
        batch(3, message(9, TOPIC_ID + b"\0"), topic("t", other), partition(3, 3, topic_id=other)),
    )
    found = [state for state in read_metadata_log(log) if isinstance(state, Committed)]
    told = [(state.leader_epoch, state.topic_id) for state in found]
    assert told == [(0, ID), (1, ID), (0, other.hex())]


def test_a_control_batch_elects(tmp_path: Path) -> None:
    key, value = struct.pack(">hh", 0, 2), struct.pack(">hi", 0, 3)
    control = build_batch([(key, value, 5)], leader_epoch=9, attributes=0x20)
    assert list(read_metadata_log(write(tmp_path, control))) == [Elected(5, 3, 9)]


def test_a_torn_tail_ends_the_log(tmp_path: Path) -> None:
    whole = batch(0, topic("t"), partition(1, 1))
    log = write(tmp_path, whole, batch(2, change({0: i32s(2)}))[:-3])
    assert len(list(read_metadata_log(log))) == 1


def test_a_record_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    log = write(tmp_path, batch(0, partition(1, 1)[:20]))
    with pytest.raises(ValueError, match="a metadata record cannot be read"):
        list(read_metadata_log(log))
