"""What needs no engine: errors in one line each, identities, routes, recipes."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from docker.errors import APIError

from harness.runtime import docker_engine, docker_images
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
        ("unix:///nonexistent/docker.sock", "no Docker engine answers at .*; start it: "),
        ("tcp://192.0.2.1:2375", "is not on this host"),
    ],
)
def test_no_engine(where: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", where)
    with pytest.raises(SetupError, match=says) as caught:
        docker_engine._dial()
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_engine_that_one_may_not_use(tmp_path: Path) -> None:
    forbidden = tmp_path / "forbidden"
    forbidden.mkdir(mode=0o700)
    script = (
        "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "from harness.runtime.docker_engine import _dial\n"
        "_dial()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import harness.runtime.docker_engine\n" + script],
        env={**os.environ, "DOCKER_HOST": f"unix://{forbidden}/docker.sock"},
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
