"""ZooKeeper's log from its bytes: what a session takes along when it ends."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.zk_writes import writes_of_office

CLOSE = bytes.fromhex("00000002 00000014") + b"/kafka/brokers/ids/2"
CLOSE += bytes.fromhex("00000011") + b"/kafka/controller"
"""As a ZooKeeper 3.9 wrote it, up to the digest that follows (version i32, tree digest i64)."""
DIGEST = bytes.fromhex("00000002 000000143cf89e60")


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def create(path: str, data: str) -> tuple[int, bytes]:
    return 1, text(path) + text(data) + bytes(9)


def multi(*parts: tuple[int, bytes]) -> tuple[int, bytes]:
    body = b"".join(struct.pack(">ii", kind, len(r)) + r for kind, r in parts)
    return 14, struct.pack(">i", len(parts)) + body


def log(folder: Path, *records: tuple[int, bytes]) -> Path:
    content = struct.pack(">4siq", b"ZKLG", 2, 0)
    for zxid, (kind, record) in enumerate(records, start=1):
        body = struct.pack(">qiqqi", 0xABC, 1, zxid, 1_000 + zxid, kind) + record
        content += struct.pack(">qi", 0, len(body)) + body + b"\x42"
    (folder / "log.1").write_bytes(content + bytes(64))
    return folder


def said(folder: Path) -> list[tuple[Any, ...]]:
    return [
        (r["zxid"], r["what"], r["step"], r.get("node")) for r in writes_of_office(folder, "/kafka")
    ]


BEGUN = [
    create("/kafka/brokers/ids/2", "{}"),
    multi(create("/kafka/controller", '{"version":2,"brokerid":2,"timestamp":"0"}')),
    create("/kafka/consumers", ""),
]


@pytest.mark.parametrize("end", [b"", DIGEST])
def test_a_session_that_ends_takes_registration_and_office_along(
    tmp_path: Path, end: bytes
) -> None:
    assert said(log(tmp_path, *BEGUN, (-11, CLOSE + end))) == [
        (1, "broker", "created", 2),
        (2, "controller", "created", 2),
        (4, "broker", "removed", 2),
        (4, "controller", "removed", 2),
    ]


@pytest.mark.parametrize("record", [b"", bytes(4), bytes(4) + DIGEST])
def test_a_session_without_ephemeral_znodes_takes_nothing(tmp_path: Path, record: bytes) -> None:
    """Before 3.6 the entry was empty: who went is not told."""
    assert [zxid for zxid, *_ in said(log(tmp_path, *BEGUN, (-11, record)))] == [1, 2]
