"""What needs no engine: errors in one line each, identities, routes, recipes."""

from __future__ import annotations

import http.server
import ipaddress
import json
import os
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import requests
from docker.errors import APIError

from harness.runtime import docker_engine, docker_images, paths
from harness.runtime.docker_clean import clean
from harness.runtime.docker_engine import EngineFailed, Owner, engine_errors, identity, is_alive
from harness.runtime.docker_images import Image
from harness.runtime.docker_network import host_routes
from harness.runtime.protocol import SetupError

_GOOD_VERSION = {"Version": "24.0.7", "ApiVersion": "1.43"}
_GOOD_INFO = {"OSType": "linux", "OperatingSystem": "Debian GNU/Linux 12", "SecurityOptions": []}
_ROUTES = """Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def test_an_engine_that_will_do() -> None:
    docker_engine._check(_GOOD_VERSION, _GOOD_INFO)


@pytest.mark.parametrize(
    ("version", "info", "says"),
    [
        ({"Version": "19.03.5", "ApiVersion": "1.40"}, {}, "too old, at least 20.10"),
        ({}, {"OperatingSystem": "Docker Desktop"}, "--runtime=process"),
        ({}, {"SecurityOptions": ["name=seccomp", "name=rootless"]}, "rootless"),
    ],
)
def test_an_engine_that_will_not_do(
    version: dict[str, str], info: dict[str, object], says: str
) -> None:
    with pytest.raises(SetupError, match=says):
        docker_engine._check(_GOOD_VERSION | version, _GOOD_INFO | info)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("unix:///nonexistent/docker.sock", "no Docker engine answers at .*no such file.*start it"),
        ("tcp://192.0.2.1:2375", "is not on this host"),
    ],
)
def test_no_engine(where: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", where)
    with pytest.raises(SetupError, match=says) as caught:
        docker_engine._dial()
    assert "\n" not in str(caught.value)


def test_an_engine_that_left_its_socket_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "s"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
    with pytest.raises(SetupError, match=r"no Docker engine answers at .*refused.*; start it: "):
        docker_engine._dial()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"Version": "19.03.5", "ApiVersion": "1.40"}, r"19\.03\.5 .*too old.*upgrade it"),
        ({"Version": "1.0", "ApiVersion": "1.12"}, "too old|no Docker engine that can be used"),
        ("hello", "no Docker engine that can be used .*; look at: docker version"),
    ],
)
def test_something_else_that_answers(
    answer: object, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that says what an old engine says, or nothing that makes sense."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None:
            """Nothing."""

    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
    docker_engine.connect.cache_clear()
    with socketserver.UnixStreamServer(str(tmp_path / "s"), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with pytest.raises(SetupError, match=says) as refused:
                docker_engine.connect()
            assert "\n" not in str(refused.value)
        finally:
            server.shutdown()
            thread.join()
            docker_engine.connect.cache_clear()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_engine_that_one_may_not_use() -> None:
    """As an engine's socket is for those who are not of its group."""
    script = (
        "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "from harness.runtime.docker_engine import _dial\n"
        "_dial()\n"
    )
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as engine:
        door = Path(folder) / "s"
        engine.bind(str(door))
        engine.listen()
        door.chmod(0o660)
        door.parent.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", "import harness.runtime.docker_engine\n" + script],
            env={**os.environ, "DOCKER_HOST": f"unix://{door}"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert "SetupError: not permitted to use the Docker engine" in done.stderr


def test_failures_later_on_are_one_line() -> None:
    with (
        pytest.raises(EngineFailed, match=r"starting x: port is taken$"),
        engine_errors("starting x"),
    ):
        raise APIError("500", explanation="port\n is taken")
    with pytest.raises(EngineFailed, match="does not answer"), engine_errors("starting x"):
        raise requests.ConnectionError("gone")


def test_owners_are_told_apart_by_more_than_their_pid() -> None:
    mine = identity(os.getpid())
    assert is_alive(mine)
    pid, ticks, boot = mine.split(":")
    assert not is_alive(f"{pid}:{int(ticks) + 1}:{boot}")
    assert not is_alive(f"{pid}:{ticks}:another-boot")
    assert not is_alive("")
    assert not is_alive("x:y")
    assert Owner.of_this_process("r1").labels["biplane.run"] == "r1"


def test_routes_of_the_host() -> None:
    assert host_routes(_ROUTES) == [ipaddress.IPv4Network("192.0.2.0/24")]


def test_a_tag_follows_its_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = docker_images.tag(Image.NODE)
    assert tag.startswith("biplane-node:")
    monkeypatch.setattr(docker_images, "node_requirements", lambda: ["other==1"])
    assert docker_images.tag(Image.NODE) != tag
    monkeypatch.setenv("BIPLANE_TOXIPROXY_IMAGE", "mine:1")
    assert docker_images.tag(Image.TOXIPROXY) == "mine:1"


def test_the_brokers_image_has_no_more_than_the_brokers_packages() -> None:
    names = {requirement.partition("==")[0] for requirement in docker_images.node_requirements()}
    assert "kio" in names
    assert not names & {"pyspark", "pytest", "docker"}


def test_clean_without_an_engine_says_so_only_when_there_is_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker_engine.connect.cache_clear()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    try:
        assert clean(tmp_path) == []
        (tmp_path / "left.json").write_text('{"run": "r", "owner": "1:1:elsewhere"}')
        (line,) = clean(tmp_path)
        assert "1 runs" in line
        assert "no Docker engine answers" in line
        assert (tmp_path / "left.json").exists()
    finally:
        docker_engine.connect.cache_clear()


@pytest.mark.parametrize(
    ("answers", "host", "code", "says"),
    [
        (True, "", 0, "no\n"),
        (False, "tcp://192.0.2.1:2375", 1, "start it there, or unset DOCKER_HOST\n"),
    ],
)
def test_an_engine_that_is_somebody_elses_is_left_alone(
    answers: bool, host: str, code: int, says: str, tmp_path: Path
) -> None:
    stub = tmp_path / "docker"
    stub.write_text(f"#!/bin/sh\nexit {0 if answers else 1}\n")
    stub.chmod(0o755)
    script = paths.PACKAGES / "containers" / "engine.sh"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f". {script}; docker_up; echo $ENGINE_STARTED"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "DOCKER_HOST": host, "ENGINE": "/no"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stdout.endswith(says)
    assert done.stdout.count("\n") == 1
