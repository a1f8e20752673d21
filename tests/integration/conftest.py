"""One real cluster a module: ZooKeeper, toxiproxy and three brokers, every link behind a proxy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.cluster import Cluster
from harness.runtime.select import get_runtime
from harness.sut.protocol import Planes
from harness.sut.registry import get as get_sut


def _record(_kind: str, /, **_fields: Any) -> None:
    """These tests look at the cluster itself, not at its history."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    runtime = get_runtime("process")
    runtime.prepare()
    made = Cluster(
        runtime,
        get_sut("dualplane"),
        Planes.DUAL,
        dir=folder,
        record=_record,
        rng=random.Random(1),
        session_timeout_ms=10_000,  # nobody dies here: none is to end because of a busy machine
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()
        runtime.close()
