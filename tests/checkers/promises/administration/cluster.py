"""A cluster of three that nobody disturbs, told by its rows, for the tests of `administration`."""

from __future__ import annotations

from collections.abc import Iterator

from tests.checkers.conftest import Story

ASKED = 40_000
"""When (ms) an operator asks, where nothing else is said."""


class Cluster:
    """Three brokers from 1 s on; node 2 is elected at 2 s; heard until 90 s."""

    def __init__(self, *, elected: bool = True) -> None:
        self.story = Story()
        self._zxid: Iterator[int] = iter(range(1, 1_000))
        for node in (1, 2, 3):
            self.event(500, node, "start")
            self.wrote(1_000 + node, "broker", "created", node=node)
        if elected:
            self.elected(2_000, 2, 1)
        self.story.add("phase", 90_000, name="settle", event="end")

    def wrote(self, t: float, what: str, step: str, **fields: object) -> None:
        zxid = fields.pop("zxid", None) or next(self._zxid)
        where = {"topic": None, "partition": None} | fields
        self.story.add("zk_write", t, zxid=zxid, what=what, step=step, **where)

    def elected(self, t: float, node: int, epoch: int) -> None:
        zxid = next(self._zxid)
        self.wrote(t, "controller", "created", node=node, zxid=zxid)
        self.wrote(t, "controller_epoch", "set", controller_epoch=epoch, zxid=zxid)

    def event(self, t: float, node: int, event: str) -> None:
        self.story.add("node_event", t, node=node, event=event)

    def fault(self, name: str, from_t: float, to_t: float, nodes: list[int]) -> None:
        more = {"fault": name, "id": name, "nodes": nodes, "detail": "{}"}
        for t, phase in (
            (from_t, "inject"),
            (from_t, "injected"),
            (to_t, "heal"),
            (to_t, "healed"),
        ):
            self.story.add("fault", t, phase=phase, **more)

    def asked(
        self, error: int | None, t: float = ASKED, *, took: float = 10, node: int = 2
    ) -> None:
        came_of = "info" if error is None else "fail" if error else "ok"
        fields = {"type": came_of, "error": error, "failure": "timeout" if error is None else None}
        more = {"node": node, "api": "CREATE_TOPICS", "about": "t"}
        self.story.add("admin_request", t + took, invoke_t=t, **more, **fields)

    def untold(self, t: float = 62_000, node: int = 1) -> None:
        """Asked for the cluster, a minute after it was started."""
        told = {"type": "info", "error": None, "failure": "brokers [], controller -1"}
        more = {"node": node, "api": "METADATA", "about": "", **told}
        self.story.add("admin_request", t + 10, invoke_t=t, **more)

    def made(self, t: float = 20_000, *, state_after: float | None = None) -> None:
        one = {"topic": "t", "partition": 0}
        self.wrote(t, "topic", "created", replicas=[1, 3], **one)
        if state_after is not None:
            state = {"leader": 1, "leader_epoch": 0, "isr": [1, 3], "controller_epoch": 1}
            self.wrote(t + state_after, "state", "created", **state, **one)
