"""A whole cluster in containers, the faults that only they have, and the table of the docs."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from checkers.history import problem_with
from faults.protocol import Capability, Entry, FaultFailed, Link
from faults.registry import build
from harness.cluster.ask import NoAnswer, cluster_idea
from harness.cluster.cluster import Cluster
from harness.runtime.docker import DockerRuntime
from harness.runtime.process import ProcessRuntime
from harness.studies.client_view import (
    BEGIN,
    END,
    LACKS,
    RUNTIMES,
    SHOWN,
    Seen,
    look,
    read_table,
    table,
    write_into,
)
from harness.sut.dualplane import DualPlaneServer
from harness.sut.protocol import ClockTie

pytestmark = [
    pytest.mark.docker,
    pytest.mark.cluster,
    pytest.mark.usefixtures("engine"),
    pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: cuts and disks need root"),
]


_DOCS = Path(__file__).parents[3] / "docs" / "docker.md"


class Rows(list[dict[str, Any]]):
    """A history in memory; every event must fit the schema."""

    def record(self, kind: str, /, **fields: Any) -> None:
        row = {"f": kind, "t": time.monotonic_ns(), "process": "test", **fields}
        assert problem_with(row) is None, problem_with(row)
        self.append(row)


@contextmanager
def asked_all_the_time(cluster: Cluster, node: int) -> Iterator[None]:
    done = threading.Event()
    address = cluster.address(node, Link.CLIENT, direct=True)

    def ask() -> None:
        while not done.is_set():
            with suppress(NoAnswer):
                cluster_idea(address, 1.0)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_faults_of_containers_on_a_cluster(home: Path, tmp_path: Path) -> None:
    rows = Rows()
    cluster = Cluster(
        DockerRuntime(),
        DualPlaneServer(),
        "dual",
        dir=tmp_path / "cluster",
        record=rows.record,
        rng=random.Random(1),
        session_timeout_ms=3000,
        disk_bytes=32 << 20,
    )
    entries = [
        ("packet-cut", {"target": "1", "peers": "2", "direction": "out"}),
        ("cpu-limit", {"target": "2", "cpus": 0.01}),
        ("memory-limit", {"target": "3"}),
        ("disk-full", {"target": "1"}),
        ("disconnect", {"target": "controller", "until_unregistered": True}),
    ]
    with cluster:
        cluster.admin.create_topic("t", {0: [1, 2, 3]}, {})
        context = cluster.context(store=tmp_path / "faults", stopping=lambda: False)
        for number, (name, params) in enumerate(entries):
            fault = build(Entry(id=f"f{number}", fault=name, at_ms=0, duration_ms=0, params=params))
            with asked_all_the_time(cluster, 2):  # an idle broker hardly needs a CPU
                fault.inject(context)
            assert fault.took_hold, name
            if name == "packet-cut":
                assert not cluster.machines.reaches(1, 2, 0.5)
                assert cluster.machines.reaches(2, 1, 20.0)  # the other way stands
                assert cluster.machines.reaches(1, 3, 20.0)
            if name == "disk-full":
                cluster.nodes.kill(1)
            fault.heal(context)
            fault.heal(context)
            if not cluster.nodes.is_running(1):
                cluster.nodes.start(1)
            assert cluster.wait_full_isr(["t"], 60), name
        evidence = [
            list(DualPlaneServer().evidence(cluster.layout(node), _any_tie()))
            for node in cluster.node_ids
        ]
    assert all(evidence)
    assert {row["boot"] for row in evidence[0]} >= {1, 2}  # what was said before kill -9 as well
    assert not [row for row in rows if row["f"] == "infra"]


def test_a_runtime_without_them_says_what_it_lacks(tmp_path: Path) -> None:
    cluster = Cluster(
        ProcessRuntime(),
        DualPlaneServer(),
        "dual",
        dir=tmp_path / "cluster",
        record=Rows().record,
        rng=random.Random(1),
    )
    try:
        with pytest.raises(FaultFailed, match="the process runtime lacks network-detach"):
            cluster.machines.disconnect(1)
        assert Capability.PACKET_CUTS not in cluster.capabilities
    finally:
        cluster.stop()


def test_what_a_client_sees(home: Path, tmp_path: Path) -> None:
    """The docs' table says what is seen. ``BIPLANE_CLIENT_VIEW=all``: the whole of it is looked at,
    in both runtimes, and written anew when something differs."""
    tmp_path.chmod(0o755)
    everything = os.environ.get("BIPLANE_CLIENT_VIEW") == "all"
    names = list(SHOWN) if everything else ["none", "pause", "toxic reset_peer", "disconnect"]
    runtimes = RUNTIMES if everything else ("docker",)
    found = {runtime: look(runtime, tmp_path, names) for runtime in runtimes}
    told = read_table(_DOCS.read_text())
    differences = [
        f"{runtime}, {name}, {way}: {told[name, way, runtime]} in the docs, {seen} seen"
        for runtime, looked in found.items()
        for (name, way), seen in looked.items()
        if seen.open != LACKS and told[name, way, runtime] != seen
    ]
    if everything and differences:
        write_into(_DOCS, table(found))
    assert not differences


def test_the_table_is_made_of_what_was_seen(tmp_path: Path) -> None:
    well = Seen(open="acknowledged", new="acknowledged", healed="acknowledged")
    cut = Seen(open="silence", new="no connection", healed="acknowledged")
    lacking = Seen(open=LACKS, new=LACKS, healed=LACKS)
    reset = {"process": "reset", "docker": "silence"}
    found = {
        runtime: {
            ("none", "direct"): well,
            ("pause", "direct"): Seen(open="closed", new=reset[runtime], healed="-"),
            ("disconnect", "direct"): cut if runtime == "docker" else lacking,
        }
        for runtime in RUNTIMES
    }
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_into(page, table(found))
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| pause | direct | closed | process: reset; docker: silence | - |" in text
    assert "| disconnect (docker only) | direct | silence | no connection | acknowledged |" in text
    read = read_table(text)
    for runtime in RUNTIMES:
        assert read["none", "direct", runtime] == well
        assert read["pause", "direct", runtime] == found[runtime]["pause", "direct"]
    assert read["disconnect", "direct", "docker"] == cut


def _any_tie() -> ClockTie:
    return ClockTie(monotonic_minus_wall_ns=0, error_ns=0)
