"""KIP-291, Proposed Changes: what is done with a request is the same on either plane ("handled in
the same way as being done today"), and who is dialled at the control listener is settled in a few
places. So hardly anything of a broker may know of planes; whatever begins to needs a test of its
own in here, and a line in the tables below."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import nodes
from nodes.config import BrokerConfig
from nodes.metrics import Metrics
from nodes.network.processor import Processor
from nodes.network.socket_server import SocketServer
from tests.kip291.parts import MAP

ROOT: Final = Path(nodes.__file__).parent
PLANES: Final = {
    ("network/processor.py", "Processor.__init__"),
    ("network/processor.py", "Processor._dispatch"),  # hands it on
    ("network/request_channel.py", "Request.__init__"),
    ("network/socket_server.py", "SocketServer.start_handlers"),
    ("network/socket_server.py", "SocketServer.enable_request_processing"),
    ("network/socket_server.py", "SocketServer.served"),
    ("network/socket_server.py", "SocketServer._add_listener"),
    ("api/control.py", "ControlApis._finish.on_sent"),  # its evidence
}
"""Who reads or writes what a request's or a thread's plane is. Nobody of them asks which."""
COMPARE: Final = {("network/socket_server.py", "SocketServer._prepare")}
"""Who does something else on one plane than on the other: asks for a priority."""
NAMES: Final = {
    ("config.py", "BrokerConfig.plane_mode"),
    ("config.py", "BrokerConfig.control_plane_endpoint"),
    ("config.py", "BrokerConfig.data_plane_endpoints"),
    ("config.py", "BrokerConfig.controller_listener_name"),
    ("network/socket_server.py", "SocketServer.__init__"),
    ("controller/channel_manager.py", "ControllerChannelManager.__init__"),
    ("replication/replica_manager.py", "ReplicaManager.__init__"),  # AlterPartition's way
    ("replication/replica_manager.py", "ReplicaManager._remote_leader"),  # handed to a rule
}
"""Who asks for the control listener's name or endpoint."""
_NAMES: Final = (
    "control_plane_listener_name",
    "controller_listener_name",
    "control_plane_endpoint",
    "data_plane_endpoints",
    "plane_mode",
)


@cache
def functions() -> list[tuple[tuple[str, str], list[ast.AST]]]:
    """What `read` reads, once."""
    return list(read())


def read() -> Iterator[tuple[tuple[str, str], list[ast.AST]]]:
    """((module, qualified name), the nodes of its body without those of functions inside)."""

    def walk(node: ast.AST, path: str, where: str, own: list[ast.AST]) -> Iterator[Any]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{where}.{child.name}".lstrip(".")
                inside: list[ast.AST] = []
                yield from walk(child, path, name, inside)
                yield (path, name), inside
            else:
                own.append(child)
                yield from walk(child, path, where, own)

    for file in sorted(ROOT.rglob("*.py")):
        path = str(file.relative_to(ROOT))
        if path.split("/", maxsplit=1)[0] != "mutants":
            yield from walk(ast.parse(file.read_text(encoding="utf-8")), path, "", [])


def who(*names: str) -> set[tuple[str, str]]:
    return {
        place
        for place, body in functions()
        if any(isinstance(node, ast.Attribute) and node.attr in names for node in body)
    }


@pytest.mark.slow
def test_a_requests_plane_changes_nothing_of_what_is_done() -> None:
    assert who("plane") == PLANES
    comparing = {
        place
        for place, body in functions()
        for node in body
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        if "plane" in (getattr(side, "attr", ""), getattr(side, "id", ""))
    }
    assert comparing == COMPARE


@pytest.mark.slow
def test_few_know_the_control_listener() -> None:
    """So replication, clients, coordinators and a broker's leave go where they went before."""
    assert who(*_NAMES) == NAMES


@pytest.mark.parametrize("pool", ["-1", "104857600"])
def test_network_threads_differ_in_their_plane_alone(pool: str) -> None:
    """A processor of the control plane reads, parses, expires, counts and answers as the others do:
    it has the same limits, the same clock, the same parser, the same quotas and the same pool."""
    config = BrokerConfig.from_properties(
        {
            "broker.id": "1",
            "zookeeper.connect": "unused:1",
            "listeners": "CLIENT://:0,CONTROLLER://:0,REPLICATION://:0",
            "listener.security.protocol.map": MAP,
            "inter.broker.listener.name": "REPLICATION",
            "control.plane.listener.name": "CONTROLLER",
            "num.network.threads": "2",
            "queued.max.request.bytes": pool,
        }
    )

    def parse(frame: bytes) -> tuple[Any, Any]:
        raise AssertionError("nobody is connected")

    server = SocketServer(config, parse, Metrics())
    made = [processor for parts in server._planes() for processor in parts.processors()]
    assert [p.plane for p in made] == ["control", "data", "data", "data", "data"]
    assert len({type(p) for p in made}) == 1
    own = {"_wake_fd", "_next_expiry_ns", "id", "listener", "plane", "_channel"}
    for processor in made:
        for name, value in settings(processor).items():
            if name not in own:
                assert value == settings(made[0])[name], f"{processor.listener}: {name}"
    for parts in server._planes():
        for listener in parts.listeners:
            listener.acceptor.close()
        for processor in parts.processors():
            processor._close_all()


def settings(processor: Processor) -> dict[str, Any]:
    """What it was made with; partials by what they are of, as each has one of its own."""
    kinds = (int, str, float, type(None))
    found = {}
    for name, value in vars(processor).items():
        if isinstance(value, kinds):
            found[name] = value
        elif name in ("_quotas", "_pool"):
            found[name] = id(value)
        elif callable(value) and name in ("_parse", "_now_ns"):
            partly = getattr(value, "func", None)
            found[name] = (partly or value, getattr(value, "args", ()))
    return found
