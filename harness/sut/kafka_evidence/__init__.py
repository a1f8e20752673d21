"""Apache Kafka's log4j files read as history rows."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.sut.protocol import ClockTie, NodeLayout


def read_evidence(layout: NodeLayout, clock: ClockTie) -> Iterator[Mapping[str, Any]]:
    return iter(())
