"""What the benchmarks know about answers."""

from __future__ import annotations

import pytest

from benchmarks.one_broker import FIRST_ERROR_AT, TOPIC
from nodes.wire.produce_codec import PartitionResult, encode_produce_response


@pytest.mark.parametrize("partitions", [1, 20])
def test_where_an_answer_has_its_first_error(partitions: int) -> None:
    rows = [PartitionResult(TOPIC, i, 0x0102) for i in range(partitions)]
    answer = encode_produce_response(7, 1, rows)
    assert answer[FIRST_ERROR_AT : FIRST_ERROR_AT + 2] == b"\1\2"
