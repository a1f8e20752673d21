"""Our own entities against bytes that kio 0.5.0 wrote (golden/README.md)."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from kio.serial import entity_reader

from nodes.wire.apis import SUPPORTED, ApiKey, request_class, response_class
from nodes.wire.codec import build
from nodes.wire.compiled import checker, writer

GOLDEN = [
    json.loads(line)
    for line in (Path(__file__).parent / "golden/control_apis.jsonl").read_text().splitlines()
]
CONTROL_APIS = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
)


def with_uuids(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: uuid.UUID(item) if name == "topic_id" and item else with_uuids(item)
            for name, item in value.items()
        }
    return [with_uuids(item) for item in value] if isinstance(value, list) else value


def class_of(case: dict[str, Any]) -> Any:
    side = request_class if case["message"].endswith("Request") else response_class
    return side(case["api_key"], case["version"])


@pytest.mark.parametrize(
    "case", GOLDEN, ids=[f"{c['message']}-v{c['version']}-{i % 2}" for i, c in enumerate(GOLDEN)]
)
def test_bytes_are_those_of_kio_0_5(case: dict[str, Any]) -> None:
    entity_class = class_of(case)
    assert entity_class.__name__ == case["message"]
    entity = build(entity_class, **with_uuids(case["values"]))
    golden = bytes.fromhex(case["hex"])
    parts: list[bytes | memoryview] = []
    writer(entity_class)(parts.append, entity)
    assert b"".join(parts) == golden
    assert checker(entity_class)(golden, 0, len(golden), []) == len(golden)
    assert entity_reader(entity_class)(golden, 0) == (entity, len(golden))


def test_golden_covers_every_version() -> None:
    covered = {(case["api_key"], case["version"], case["message"][-8:]) for case in GOLDEN}
    for api in CONTROL_APIS:
        low, high = SUPPORTED[api]
        for version in range(low, high + 1):
            assert (api, version, "Response") in covered
    assert len({(key, version) for key, version, _ in covered}) == 16
