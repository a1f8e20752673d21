"""ZooKeeper's log, one write after the other, and who comes and goes, for tests of `epochs`."""

from __future__ import annotations

from typing import Any

from tests.checkers.conftest import MS, Story


class ZookeepersLog:
    def __init__(self) -> None:
        self.story = Story()
        self.zxid = 0

    def write(self, t: float, what: str, step: str, **fields: Any) -> None:
        self.zxid += 1
        self.story.add("zk_write", t, what=what, step=step, zxid=self.zxid, error_ns=MS, **fields)

    def comes(self, t: float, node: int) -> None:
        self.write(t, "broker", "created", node=node)
        self.story.add("node_event", t + 100, node=node, event="ready")

    def goes(self, t: float, node: int) -> None:
        self.write(t, "broker", "removed", node=node)

    def office(self, t: float, node: int) -> None:
        self.write(t, "controller", "created", node=node)
