"""KIP-291, Public Interfaces: listeners, ``control.plane.listener.name``, and the chart of how
listeners derive from other configs. (Metrics have `test_metrics`.)"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.config import BrokerConfig, ConfigError
from nodes.core.errors import ApiError
from tests.kip291 import kafka
from tests.kip291.parts import RunningBroker
from tests.kip291.registry import Registry
from tests.kip291.requests import api_versions, metadata

Start = Callable[..., RunningBroker]
BASE = {"broker.id": "1", "zookeeper.connect": "127.0.0.1:1"}
THREE = {
    **BASE,
    "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


def config(**changes: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {**THREE, **{name.replace("_", "."): value for name, value in changes.items()}}
    )


# ---- the config ----------------------------------------------------------------------------------


def test_the_name_is_optional_and_has_no_default() -> None:
    """Without it nothing changes: no listener is a control plane's, whatever it is called."""
    made = config()
    assert made.control_plane_listener_name is None
    assert made.control_plane_endpoint is None
    assert {e.name for e in made.data_plane_endpoints} == {"INTERNAL", "EXTERNAL", "CONTROLLER"}
    assert made.controller_listener_name == "INTERNAL"


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({}, "single"),
        ({"biplane_plane_mode": "priority"}, "priority"),
        ({"control_plane_listener_name": "CONTROLLER"}, "dual"),
    ],
)
@pytest.mark.parametrize("threads", ["1", "8", "64"])
@pytest.mark.parametrize("more", [0, 1, 5, 20])
def test_the_name_alone_makes_two_planes(
    given: dict[str, str], mode: str, threads: str, more: int
) -> None:
    """Whatever else is configured, however many listeners there are."""
    names = ["EXTERNAL", *(f"L{i}" for i in range(more)), "CONTROLLER", "INTERNAL"]
    made = config(
        num_io_threads=threads,
        num_network_threads=threads,
        queued_max_requests=threads,
        broker_id=threads,
        listeners=",".join(f"{name}://127.0.0.1:0" for name in names),
        listener_security_protocol_map=",".join(f"{name}:PLAINTEXT" for name in names),
        **given,
    )
    assert made.plane_mode == mode
    dual = mode == "dual"
    assert (made.control_plane_endpoint is not None) == dual
    data = [name for name in names if not (dual and name == "CONTROLLER")]
    assert [each.name for each in made.data_plane_endpoints] == data
    assert made.controller_listener_name == ("CONTROLLER" if dual else "INTERNAL")


@pytest.mark.parametrize("name", ["CONTROLLER", "controller", " Controller "])
def test_the_named_listener_is_the_control_planes_and_no_data_planes(name: str) -> None:
    """The example of the KIP: of INTERNAL, EXTERNAL and CONTROLLER the last one is for controllers.
    (Kafka compares the raw name in one place, so that ``controller`` binds twice; not here.)"""
    made = config(control_plane_listener_name=name)
    assert made.control_plane_endpoint is not None
    assert made.control_plane_endpoint.name == "CONTROLLER"
    assert [e.name for e in made.data_plane_endpoints] == ["INTERNAL", "EXTERNAL"]
    assert made.controller_listener_name == "CONTROLLER"


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("INTERNAL", "EXTERNAL", "CONTROLLER")))
)
@pytest.mark.parametrize("control", [None, "CONTROLLER"])
def test_listeners_are_known_by_name_in_any_order(
    order: tuple[str, ...], control: str | None
) -> None:
    """A controller looks for brokers at its control listener, else at the inter-broker listener,
    wherever that stands in the list."""
    given = {} if control is None else {"control_plane_listener_name": control}
    made = config(listeners=",".join(f"{name}://127.0.0.1:0" for name in order), **given)
    assert made.controller_listener_name == (control or "INTERNAL")
    assert [e.name for e in made.data_plane_endpoints] == [n for n in order if n != control]


def test_the_example_runs(start: Start, zookeeper: str, zookeeper_chroot: str) -> None:
    """Clients of EXTERNAL and brokers on INTERNAL see their own endpoints; all three are
    registered; the control listener answers, too."""
    broker = start(
        "dual",
        listeners=THREE["listeners"],
        listener_security_protocol_map=THREE["listener.security.protocol.map"],
        inter_broker_listener_name="INTERNAL",
    )
    for name, port in broker.ports.items():
        (told,) = broker.client("c", name).ask(metadata()).brokers
        assert told.port == port, "each listener's clients get that listener's endpoint"
    registry = Registry(zookeeper + zookeeper_chroot)
    try:
        found = registry.registration(1)
    finally:
        registry.close()
    assert found["endpoints"] == [f"{n}://127.0.0.1:{p}" for n, p in broker.ports.items()]
    assert found["listener_security_protocol_map"]["CONTROLLER"] == "PLAINTEXT"
    first = broker.ports["INTERNAL"]
    assert (found["host"], found["port"]) == ("127.0.0.1", first), "the first PLAINTEXT endpoint"
    assert broker.client("c", "CONTROLLER").ask(api_versions()).error_code == 0


REFUSED = [
    ({"control.plane.listener.name": "INTERNAL"}, "inter.broker.listener.name"),
    ({"control.plane.listener.name": "NOWHERE"}, "listener.security.protocol.map"),
    (
        {
            "control.plane.listener.name": "UNBOUND",
            "listener.security.protocol.map": f"{THREE['listener.security.protocol.map']},"
            "UNBOUND:PLAINTEXT",
        },
        "listener",
    ),
    (
        {
            "control.plane.listener.name": "CONTROLLER",
            "advertised.listeners": "INTERNAL://127.0.0.1:2,EXTERNAL://127.0.0.1:3",
        },
        "listener",
    ),
]


@pytest.mark.parametrize(("changes", "named"), REFUSED)
def test_a_name_that_cannot_be_a_control_plane_is_refused(
    changes: dict[str, str], named: str
) -> None:
    """It must be in the protocol map, among the listeners that are advertised (controllers find it
    in ZooKeeper), and not the inter-broker listener."""
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_properties({**THREE, **changes})
    assert refused.value.config == "control.plane.listener.name"
    assert named in str(refused.value)


def _refused_by_nodes(folder: Path, properties: dict[str, str]) -> tuple[int, str]:
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    done = subprocess.run(
        [sys.executable, "-m", "nodes", str(file)],
        capture_output=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.parametrize("subject", ["biplane", "kafka"])
def test_a_broker_that_is_misconfigured_does_not_start(subject: str, tmp_path: Path) -> None:
    """From outside: exit code 1 and the config's name, before anything is bound or registered. (The
    inter-broker listener's name, the likeliest mistake.)"""
    properties = {
        **THREE,
        "control.plane.listener.name": "INTERNAL",
        "log.dirs": str(tmp_path / "data"),
    }
    run: Any = kafka.run_to_its_end if subject == "kafka" else _refused_by_nodes
    code, said = run(tmp_path, properties)
    assert code == 1
    assert "control.plane.listener.name" in said
    assert not (tmp_path / "data").exists()


# ---- the chart -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "listeners", "advertised"),
    [
        # Nothing set: the wildcard on 9092, which is what is advertised, too.
        ({}, "PLAINTEXT://:9092", "PLAINTEXT://:9092"),
        # listeners not set: from host.name and port.
        ({"host.name": "h", "port": "7"}, "PLAINTEXT://h:7", "PLAINTEXT://h:7"),
        ({"port": "7"}, "PLAINTEXT://:7", "PLAINTEXT://:7"),
        # listeners set: host.name and port have no say.
        (
            {"listeners": "PLAINTEXT://l:1", "host.name": "h", "port": "7"},
            "PLAINTEXT://l:1",
            "PLAINTEXT://l:1",
        ),
        # advertised.listeners not set, but one of the old ones: from these, else host and port.
        (
            {"listeners": "PLAINTEXT://l:1", "advertised.host.name": "a", "advertised.port": "8"},
            "PLAINTEXT://l:1",
            "PLAINTEXT://a:8",
        ),
        (
            {"host.name": "h", "port": "7", "advertised.host.name": "a"},
            "PLAINTEXT://h:7",
            "PLAINTEXT://a:7",
        ),
        (
            {"host.name": "h", "port": "7", "advertised.port": "8"},
            "PLAINTEXT://h:7",
            "PLAINTEXT://h:8",
        ),
        # advertised.listeners set: the old ones have no say.
        (
            {
                "listeners": "PLAINTEXT://l:1",
                "advertised.listeners": "PLAINTEXT://b:2",
                "advertised.host.name": "a",
                "advertised.port": "8",
            },
            "PLAINTEXT://l:1",
            "PLAINTEXT://b:2",
        ),
    ],
)
def test_the_chart_of_derived_listeners(
    given: dict[str, str], listeners: str, advertised: str
) -> None:
    """How ``listeners`` and ``advertised.listeners`` derive from older configs."""
    made = BrokerConfig.from_properties({**BASE, **given})
    assert [str(e) for e in made.listeners] == [listeners]
    assert [str(e) for e in made.advertised_listeners] == [advertised]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"security.inter.broker.protocol": "PLAINTEXT"}, "PLAINTEXT"),
        (
            {
                "inter.broker.listener.name": "INTERNAL",
                "listeners": "INTERNAL://h:1,PLAINTEXT://h:2",
                "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            },
            "INTERNAL",
        ),
    ],
)
def test_the_inter_broker_listener_is_derived_as_before(given: dict[str, str], name: str) -> None:
    """From the listener's name, or from the protocol's; a controller without a control plane
    listener uses it."""
    made = BrokerConfig.from_properties({**BASE, **given})
    assert made.inter_broker_listener_name == name
    assert made.controller_listener_name == name


@pytest.mark.parametrize("given", [{"host.name": "h", "port": "7"}, {}])
def test_a_control_plane_needs_listeners_of_its_own(given: dict[str, str]) -> None:
    """The older configs make one listener, the inter-broker one, which cannot be the control
    plane's: whoever wants one lists listeners."""
    with pytest.raises(ConfigError):
        BrokerConfig.from_properties({**BASE, **given, "control.plane.listener.name": "PLAINTEXT"})


def test_listeners_are_found_by_advertised_name_when_addresses_differ() -> None:
    """What is bound and what is advertised may differ in host and port; the name ties them."""
    made = config(
        control_plane_listener_name="CONTROLLER",
        advertised_listeners="CONTROLLER://c:1,EXTERNAL://e:2,INTERNAL://i:3",
    )
    assert made.control_plane_endpoint is not None
    assert made.control_plane_endpoint.host == "127.0.0.1"
    advertised = {e.name: str(e) for e in made.advertised_listeners}
    assert advertised["CONTROLLER"] == "CONTROLLER://c:1"


def test_a_listener_that_is_not_named_need_not_be_advertised() -> None:
    """The twin of the refusal above: as long as no controller is to find it, a listener may be
    bound and kept out of ``advertised.listeners``; with the name set it must be in both."""
    advertised = "INTERNAL://127.0.0.1:2,EXTERNAL://127.0.0.1:3"
    made = config(advertised_listeners=advertised)
    assert {e.name for e in made.listeners} == {"INTERNAL", "EXTERNAL", "CONTROLLER"}
    whole = f"{advertised},CONTROLLER://127.0.0.1:4"
    made = config(advertised_listeners=whole, control_plane_listener_name="CONTROLLER")
    assert made.plane_mode == "dual"


@pytest.mark.parametrize("name", ["", "CONTROLLER"])
def test_a_new_listener_needs_an_entry_in_the_protocol_map(name: str) -> None:
    """Setting ``listener.security.protocol.map`` replaces its default, and every listener must be
    in it, whether it is the control plane's or not."""
    short = "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"
    with pytest.raises(ConfigError, match="no security protocol is defined"):
        config(listener_security_protocol_map=short, control_plane_listener_name=name)


@pytest.mark.parametrize("listener", ["CLIENT", "CONTROLLER"])
def test_an_endpoint_is_one_brokers(
    start: Start, zookeeper: str, zookeeper_chroot: str, listener: str
) -> None:
    """KafkaServer.createBrokerInfo: what another broker has registered, on whichever plane, cannot
    be advertised as well; such a broker does not start, and is not registered."""
    taken = f"{listener}://127.0.0.1:{start('dual').ports[listener]}"
    names = ("CONTROLLER", "REPLICATION", "CLIENT")
    told = ",".join(taken if name == listener else f"{name}://127.0.0.1:0" for name in names)
    with pytest.raises(ApiError, match=f"{re.escape(taken)} is in use by broker 1"):
        start("dual", broker_id="2", advertised_listeners=told)
    registry = Registry(zookeeper + zookeeper_chroot)
    assert registry.broker_ids() == {1}
    registry.close()
