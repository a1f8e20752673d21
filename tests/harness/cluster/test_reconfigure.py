"""Properties that change over restarts: what a node is started with, and who refuses to start."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from faults.protocol import FaultFailed, Link
from harness.cluster import fleet
from harness.cluster.cluster import Cluster
from harness.runtime.process import ProcessRuntime
from harness.runtime.tools import find_toxiproxy
from harness.sut.dualplane import DualPlaneServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_toxiproxy() is None, reason="no toxiproxy-server: make setup"),
]
NAME = "control.plane.listener.name"


def planned(tmp_path: Path, late: Collection[Link] = (), **overrides: str) -> Cluster:
    """Nothing of it runs."""
    return Cluster(
        ProcessRuntime(),
        DualPlaneServer(),
        "dual",
        dir=tmp_path / "cluster",
        record=lambda *_args, **_fields: None,
        rng=random.Random(1),
        overrides={NAME: "", **overrides},
        late_links=late,
    )


def properties(cluster: Cluster, node: int) -> dict[str, str]:
    text = cluster.nodes._specs[node].files["server.properties"]
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_listener_that_comes_late(tmp_path: Path) -> None:
    cluster = planned(tmp_path, {Link.CONTROL})
    try:
        first = properties(cluster, 1)
        assert "CONTROLLER" not in "".join(first.values())
        assert NAME not in first
        assert "control" not in cluster.nodes._specs[1].ports
        cluster.nodes.reconfigure(1, {NAME: ""})
        listening = properties(cluster, 1)
        for name in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
            assert "CONTROLLER" in listening[name]
            assert "CONTROLLER" not in properties(cluster, 2)[name]
        assert NAME not in listening
        control = cluster.address(1, Link.CONTROL)
        assert f"CONTROLLER://{control}" in listening["advertised.listeners"]
        given: list[Any] = []
        cluster.nodes._handles[1] = SimpleNamespace(respec=given.append)  # type: ignore[assignment]
        cluster.nodes.reconfigure(1, {NAME: "CONTROLLER"})
        assert given == [cluster.nodes._specs[1]]  # for its next start
        assert properties(cluster, 1) == {**listening, NAME: "CONTROLLER"}
        with pytest.raises(FaultFailed, match="no node 9"):
            cluster.nodes.reconfigure(9, {})
    finally:
        cluster.stop()
        cluster.runtime.close()


def test_the_name_of_a_listener_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By the real program, in a folder of its own: the node's own start is not counted."""
    cluster = planned(tmp_path, {Link.CONTROL})
    try:
        before = properties(cluster, 2)
        says = cluster.nodes.refusal(2, {NAME: "CONTROLLER"}, without=[Link.CONTROL])
        assert NAME in says
        assert properties(cluster, 2) == before
        assert not (cluster.layout(2).dir / "output.log").exists()
    finally:
        cluster.stop()
        cluster.runtime.close()


def test_who_starts_has_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_READY_TIMEOUT_S", 1.0)
    cluster = planned(tmp_path, {Link.CONTROL})  # there is no ZooKeeper: it waits for one
    try:
        with pytest.raises(FaultFailed, match="node-2-try-1 to end"):
            cluster.nodes.refusal(2, {}, without=[Link.CONTROL])
        assert not [h for h in cluster.runtime.handles() if h.alive]
    finally:
        cluster.stop()
        cluster.runtime.close()
