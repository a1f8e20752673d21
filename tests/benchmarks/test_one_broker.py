"""What the benchmarks know about answers, and how they confine a broker."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.one_broker import FIRST_ERROR_AT, TOPIC, OneBroker
from nodes.wire.produce_codec import encode_produce_response


@pytest.mark.parametrize("partitions", [1, 20])
def test_where_an_answer_has_its_first_error(partitions: int) -> None:
    rows = [(TOPIC, i, 0x0102, -1, -1, -1) for i in range(partitions)]
    answer = encode_produce_response(7, 1, rows)
    assert answer[FIRST_ERROR_AT : FIRST_ERROR_AT + 2] == b"\1\2"


def test_a_broker_is_kept_to_one_core() -> None:
    core = max(os.sched_getaffinity(0))
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        OneBroker(0, 0, 0, -1, process.pid).keep_to(core)
        assert os.sched_getaffinity(process.pid) == {core}
    finally:
        process.communicate(b"\n", timeout=10)
