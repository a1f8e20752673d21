"""What waits is told when its client has gone, whichever API it came through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nodes.wire.apis import ApiKey
from nodes.wire.records import build_batch

BATCH = build_batch([(None, b"value", 1_700_000_000_000)])
DAYS_MS = 2**31 - 1


@pytest.mark.slow
def test_a_fetch_of_somebody_who_left_is_answered(node: Any) -> None:
    node.lead("t")
    leaving, staying = (SimpleNamespace(fd=1, hung_up=False) for _ in range(2))
    asked = {
        "replica_id": -1,
        "max_wait": DAYS_MS,
        "min_bytes": 1,
        "max_bytes": 1000,
        "topics": [{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 100}]}],
    }
    gone, there = (node.send(ApiKey.FETCH, 11, connection=c, **asked) for c in (leaving, staying))
    assert not gone.is_done
    leaving.hung_up = True
    assert gone.wait()
    assert not there.is_done
    staying.fd = -1
    there.wait()


@pytest.mark.parametrize(
    ("owner", "method", "api", "fields"),
    [
        ("manager", "append_single", ApiKey.PRODUCE, [0]),
        ("manager", "append_records", ApiKey.PRODUCE, [0, 1]),
        ("deletions", "delete", ApiKey.DELETE_RECORDS, []),
    ],
)
def test_who_waits_is_passed_on(
    node: Any,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
    method: str,
    api: ApiKey,
    fields: list[int],
) -> None:
    node.lead("t", 2)
    passed: list[Any] = []
    where = node.manager if owner == "manager" else node.manager.deletions
    monkeypatch.setattr(where, method, lambda *given: passed.append(given[-1]))
    connection = SimpleNamespace(fd=1, hung_up=False)
    if api is ApiKey.PRODUCE:
        rows = [{"index": index, "records": BATCH} for index in fields]
        topics = [{"name": "t", "partition_data": rows}]
        more: Any = {"transactional_id": None, "acks": -1, "topic_data": topics}
        node.send(api, 9, connection=connection, timeout=DAYS_MS, **more)
    else:
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}]
        node.send(api, 2, connection=connection, timeout=DAYS_MS, topics=topics)
    (is_abandoned,) = passed
    assert not is_abandoned()
    connection.hung_up = True
    assert is_abandoned()
