"""What one poll of librdkafka's leaves as rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from harness.workload.consumer import record_poll


@pytest.mark.parametrize("topic", ["t", None])
def test_an_error_names_a_partition_of_a_topic_or_none(topic: str | None) -> None:
    error = confluent_kafka.KafkaError(confluent_kafka.KafkaError.NOT_COORDINATOR)
    message = SimpleNamespace(error=lambda: error, topic=lambda: topic, partition=lambda: 0)
    rows: list[dict[str, Any]] = []
    recorder: Any = SimpleNamespace(complete=lambda *_operation, **fields: rows.append(fields))
    record_poll(recorder, 3, 0, [message])
    assert [(row["topic"], row["partition"]) for row in rows] == [(topic, topic and 0)]
