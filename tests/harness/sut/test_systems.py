"""What a system under test makes of a layout, and what it reads back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from checkers.history import HistoryError
from faults.protocol import Link
from harness.runtime.protocol import Address, Programs
from harness.sut import registry
from harness.sut.broker_properties import LAG_MAX_MS
from harness.sut.dualplane import DualPlaneServer
from harness.sut.kafka_jars import KRAFT_LINE, ZOOKEEPER_LINE
from harness.sut.kafka_kraft import KafkaKraft
from harness.sut.protocol import (
    ClockTie,
    Limits,
    NodeLayout,
    Planes,
    SupportLayout,
    SystemUnderTest,
    first_node_of,
)
from nodes.config import BrokerConfig
from nodes.properties import parse_properties

_CLOCK = ClockTie(monotonic_minus_wall_ns=0, error_ns=0)


@pytest.fixture(autouse=True)
def jars(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release of Kafka that a system may look for, by name."""
    for release in (ZOOKEEPER_LINE, KRAFT_LINE):
        libs = tmp_path_factory.mktemp("libs")
        (libs / f"kafka_2.13-{release.pinned}.jar").touch()
        monkeypatch.setenv(release.variable, str(libs))


def layout(dir: Path, planes: Planes) -> NodeLayout:
    links = [Link.INTER_BROKER, Link.CLIENT] + [Link.CONTROL] * (planes is Planes.DUAL)
    direct = {link: Address("127.0.0.1", 20_000 + n) for n, link in enumerate(links)}
    return NodeLayout(
        node=2,
        name="node-2",
        dir=dir,
        bind=direct,
        direct=direct,
        advertised={link: Address("127.0.0.1", a.port + 100) for link, a in direct.items()},
        zookeeper="127.0.0.1:20200/kafka",
        programs=Programs(python="python", java="java"),
        nodes=(1, 2, 3),
        session_timeout_ms=4000,
    )


def config(
    sut: SystemUnderTest, dir: Path, planes: Planes, overrides: Mapping[str, str]
) -> dict[str, str]:
    spec = sut.node_spec(layout(dir, planes), planes, overrides)
    return parse_properties(spec.files["server.properties"])


@pytest.mark.parametrize("planes", Planes)
def test_a_node_accepts_what_is_written_for_it(tmp_path: Path, planes: Planes) -> None:
    broker = BrokerConfig.from_properties(config(DualPlaneServer(), tmp_path, planes, {}))
    assert broker.plane_mode == planes.value
    assert broker.broker_id == 2
    assert not broker.unknown if hasattr(broker, "unknown") else True


@pytest.mark.parametrize(
    "name", [n for n in registry.SYSTEMS if Planes.SINGLE in registry.get(n).plane_modes]
)
def test_planes_differ_by_the_control_listener_alone(name: str, tmp_path: Path) -> None:
    sut = registry.get(name)
    single = config(sut, tmp_path, Planes.SINGLE, {})
    dual = config(sut, tmp_path, Planes.DUAL, {})
    assert "CONTROLLER" not in str(single)
    assert dual["control.plane.listener.name"] == "CONTROLLER"
    assert "CONTROLLER://127.0.0.1:20102" in dual["advertised.listeners"]
    assert {key for key in dual if dual[key] != single.get(key)} == {
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        "control.plane.listener.name",
    }
    assert dual["zookeeper.session.timeout.ms"] == "4000"
    assert dual["replica.lag.time.max.ms"] == str(LAG_MAX_MS)


def test_overrides_win_and_an_empty_one_removes(tmp_path: Path) -> None:
    overrides = {"num.io.threads": "1", "auto.create.topics.enable": ""}
    written = config(DualPlaneServer(), tmp_path, Planes.SINGLE, overrides)
    assert written["num.io.threads"] == "1"
    assert "auto.create.topics.enable" not in written


def test_the_trace_is_read_back_without_torn_rows(tmp_path: Path) -> None:
    sut = DualPlaneServer()
    place = layout(tmp_path, Planes.DUAL)
    assert list(sut.evidence(place, _CLOCK)) == []
    rows = [{"f": "controller", "t": t, "process": "node-2", "event": "elected"} for t in range(4)]
    lines = [json.dumps(row, separators=(",", ":")) for row in rows]
    torn = lines[1][:25]
    # The second boot's first row follows the row that a kill cut off; the last one is cut off too.
    trace = f"{lines[0]}\n{torn}{lines[2]}\n{lines[3]}\n{torn}"
    (tmp_path / "trace.jsonl").write_text(trace)
    assert list(sut.evidence(place, _CLOCK)) == [rows[0], rows[2], rows[3]]
    (tmp_path / "trace.jsonl").write_text(f"{lines[0]}\ngarbage\n")
    with pytest.raises(HistoryError, match=r"trace\.jsonl, line 2: not a JSON object"):
        list(sut.evidence(place, _CLOCK))


def test_an_unknown_system_is_named() -> None:
    with pytest.raises(ValueError, match=r"unknown system under test 'rabbit'; allowed: dualplane"):
        registry.get("rabbit")


def test_wall_clock_times_are_tied_to_the_monotonic_clock() -> None:
    tie = ClockTie(monotonic_minus_wall_ns=-5_000_000, error_ns=1)
    assert tie.monotonic_ns(12.5) == 7_500_000


def test_kraft_has_voters_behind_proxies_and_no_zookeeper(tmp_path: Path) -> None:
    place = layout(tmp_path, Planes.DUAL)
    peers = {node: {Link.CONTROL: Address("127.0.0.1", 21_000 + node)} for node in place.nodes}
    sut = KafkaKraft()
    support = SupportLayout(dir=tmp_path, programs=place.programs, nodes=place.nodes)
    _, extras = sut.support_specs(support, None)  # type: ignore[arg-type]
    place = dataclasses.replace(place, peers=peers, extras=extras)
    spec = sut.node_spec(place, Planes.DUAL, {"num.io.threads": "1"})
    written = parse_properties(spec.files["server.properties"])
    voters = "1@127.0.0.1:21001,2@127.0.0.1:21002,3@127.0.0.1:21003"
    assert written["controller.quorum.voters"] == voters
    assert written["broker.session.timeout.ms"] == "4000"
    assert written["num.io.threads"] == "1"
    assert int(written["offsets.topic.segment.bytes"]) >= 1 << 20, "or it is never made (KIP-1030)"
    assert not [name for name in written if "zookeeper" in name or name == "broker.id"]
    assert f"--cluster-id={extras['cluster_id']}" in spec.first  # it may begin with a dash
    assert len(extras["cluster_id"]) == 22


def test_every_second_seed_has_a_broker_of_id_0_where_ids_are_free() -> None:
    assert [first_node_of(DualPlaneServer(), seed) for seed in (1, 2, 3, 4)] == [1, 0, 1, 0]

    class Numbered(DualPlaneServer):
        limits = Limits(first_node=0)

    assert {first_node_of(Numbered(), seed) for seed in (1, 2)} == {0}
