"""The docker runtime with real containers: life cycle, hardening, limits, disks, cuts."""

from __future__ import annotations

import io
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from faults.protocol import Capability
from harness.runtime import docker_images
from harness.runtime.docker import DockerRuntime
from harness.runtime.docker_engine import connect
from harness.runtime.docker_handle import DockerHandle
from harness.runtime.docker_images import Image
from harness.runtime.protocol import (
    Address,
    Isolation,
    ProcessSpec,
    Ready,
    Role,
    RuntimeFailed,
    SetupError,
    Software,
    StartFailed,
)

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

# Answers each line with the monotonic clock; writes what it is asked to.
_SERVER = """
import os, signal, socket, struct, sys, threading, time
s = socket.create_server(("0.0.0.0", int(sys.argv[1])))
signal.signal(signal.SIGTERM, lambda *_: os._exit(3))
open("trace", "a").write("up\\n")
print("up", os.getuid(), flush=True)
def serve(c):
    with c, c.makefile("rwb", buffering=0) as f:
        for line in f:
            try:
                if line == b"work\\n":
                    end = time.monotonic() + 1
                    while time.monotonic() < end: pass
                if line == b"reset\\n":
                    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    f.close(); c.close(); return
                if line.startswith(b"write "):
                    with open("disk/" + str(time.monotonic_ns()), "wb", buffering=0) as d:
                        d.write(b"x" * int(line.split()[1])); os.fsync(d.fileno())
                f.write(b"%d\\n" % time.monotonic_ns())
            except OSError as e:
                f.write(b"error %d\\n" % e.errno)
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""
_ENOSPC = 28


def spec(runtime: DockerRuntime, tmp_path: Path, name: str = "s", **more: Any) -> ProcessSpec:
    port = runtime.allocate_port(name)
    fields: dict[str, Any] = {
        "name": name,
        "role": Role.NODE,
        "argv": (runtime.programs.python, "-I", "server.py", str(port)),
        "workdir": tmp_path / name,
        "files": {"server.py": _SERVER},
        "ports": {"main": port},
        "ready": Ready(ports=("main",), pattern="^up", timeout_s=60),
    }
    return ProcessSpec(**(fields | more))


def started(runtime: DockerRuntime, wanted: ProcessSpec) -> DockerHandle:
    handle = runtime.spawn(wanted)
    handle.wait_ready()
    assert isinstance(handle, DockerHandle)
    return handle


def dial(runtime: DockerRuntime, handle: DockerHandle) -> socket.socket:
    address = (runtime.address(handle.spec.name), handle.spec.ports["main"])
    return socket.create_connection(address, 5)


def ask(connection: socket.socket, line: bytes = b"what time is it\n") -> bytes:
    connection.sendall(line)
    return connection.recv(100)


def test_life_cycle(runtime: DockerRuntime, tmp_path: Path) -> None:
    handle = started(runtime, spec(runtime, tmp_path))
    assert (handle.alive, handle.starts, handle.exit_code) == (True, 1, None)
    with pytest.raises(RuntimeFailed, match="runs already"):
        handle.start()
    connection = dial(runtime, handle)
    assert ask(connection)
    handle.kill()
    handle.kill()
    assert (handle.alive, handle.pid, handle.exit_code) == (False, None, -9)
    assert connection.recv(100) == b""  # its kernel said goodbye
    with pytest.raises(OSError, match=r"No route to host|timed out"):
        dial(runtime, handle)
    handle.start()
    handle.wait_ready()
    assert handle.starts == 2
    assert (tmp_path / "s" / "trace").read_text() == "up\nup\n"  # home, in spite of kill -9
    assert handle.output.read_text().count("up") == 2
    handle.pause()
    assert handle.paused
    assert handle.alive
    assert handle.terminate(30)
    assert (handle.paused, handle.exit_code) == (False, 3)


def test_connections_are_faithful(runtime: DockerRuntime, tmp_path: Path) -> None:
    handle = started(runtime, spec(runtime, tmp_path))
    with pytest.raises(ConnectionResetError):
        ask(dial(runtime, handle), b"reset\n")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((runtime.address("s"), 1), 5)


def test_a_paused_process_can_be_killed_and_resumed(runtime: DockerRuntime, tmp_path: Path) -> None:
    handle = started(runtime, spec(runtime, tmp_path))
    connection = dial(runtime, handle)
    handle.pause()
    connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        ask(connection)
    handle.resume()
    handle.resume()
    connection.settimeout(60)
    assert connection.recv(100)
    handle.pause()
    handle.kill()
    assert not handle.alive
    with pytest.raises(RuntimeFailed, match="does not run"):
        handle.pause()


def test_its_clock_is_the_hosts(runtime: DockerRuntime, tmp_path: Path) -> None:
    connection = dial(runtime, started(runtime, spec(runtime, tmp_path)))
    for _ in range(20):
        before = time.monotonic_ns()
        there = int(ask(connection))
        assert before <= there <= time.monotonic_ns()


def test_another_clock_is_refused(
    runtime: DockerRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.runtime.docker_handle.boot_id", lambda: "another kernel")
    with pytest.raises(StartFailed, match="another clock"):
        started(runtime, spec(runtime, tmp_path))


def test_it_is_shut_in(runtime: DockerRuntime, tmp_path: Path) -> None:
    handle = started(runtime, spec(runtime, tmp_path, memory_bytes=256 << 20))
    seen = connect().api.inspect_container(handle.container)
    host = seen["HostConfig"]
    user = "10001" if os.geteuid() == 0 else str(os.getuid())
    assert f"up {user}" in handle.output.read_text()
    assert host["CapDrop"] == ["ALL"]
    assert not host["Privileged"]
    assert host["ReadonlyRootfs"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert host["Memory"] == host["MemorySwap"] == 256 << 20
    assert host["PidsLimit"] > 0
    assert not host["PortBindings"]
    assert not any(seen["NetworkSettings"]["Ports"].values())
    (network,) = seen["NetworkSettings"]["Networks"]
    assert connect().api.inspect_network(network)["Internal"]
    assert seen["Config"]["Labels"]["biplane.run"]


def test_a_program_that_will_not_start_shows_why(runtime: DockerRuntime, tmp_path: Path) -> None:
    python = runtime.programs.python
    wanted = spec(runtime, tmp_path, argv=(python, "-c", "raise SystemExit('no listener')"))
    with pytest.raises(StartFailed, match=r"s exited with 1; (.|\n)*no listener"):
        started(runtime, wanted)


@pytest.mark.parametrize("role", [Role.NODE, Role.TOXIPROXY])
def test_an_image_that_will_not_start_is_named(
    role: Role, runtime: DockerRuntime, tmp_path: Path
) -> None:
    """toxiproxy's has no shell: what it said is fetched from the engine."""
    wanted = spec(runtime, tmp_path, role=role, argv=("/no/such/program",))
    says = r"the image biplane-\S+ cannot run /no/such/program for s \(.*\); .* make image$"
    with pytest.raises(SetupError, match=says) as refused:
        started(runtime, wanted)
    assert "\n" not in str(refused.value)


def test_an_image_without_a_shell_is_named(runtime: DockerRuntime, tmp_path: Path) -> None:
    tag = "biplane-test-empty:1"
    with io.BytesIO(b"FROM scratch\nLABEL empty=1\n") as recipe:
        list(connect().api.build(fileobj=recipe, tag=tag, rm=True, decode=True))
    try:
        software = Software(name="s", version="1", path=Path("/"), image=tag)
        with pytest.raises(SetupError, match=f"the image {tag} cannot run .* for s"):
            started(runtime, spec(runtime, tmp_path, software=software))
    finally:
        runtime.close()
        connect().api.remove_image(tag)


def test_a_process_may_run_from_an_image_of_its_own(runtime: DockerRuntime, tmp_path: Path) -> None:
    tag = "biplane-test-software:1"
    recipe = f"FROM {docker_images.tag(Image.NODE)}\n"
    recipe += "LABEL biplane.software=rabbit biplane.software.version=7 biplane.software.path=/r\n"
    with io.BytesIO(recipe.encode()) as file:
        list(connect().api.build(fileobj=file, tag=tag, rm=True, decode=True))
    try:
        found = [each for each in DockerRuntime().programs.software if each.name == "rabbit"]
        assert found == [Software(name="rabbit", version="7", path=Path("/r"), image=tag)]
        handle = started(runtime, spec(runtime, tmp_path, software=found[0]))
        assert connect().api.inspect_container(handle.container)["Config"]["Image"] == tag
    finally:
        runtime.close()
        connect().api.remove_image(tag)


def test_a_missing_image_is_named(
    engine: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIPLANE_TOXIPROXY_IMAGE", "biplane-missing:1")
    with pytest.raises(SetupError, match=r"no image biplane-missing:1 .*; make it: make image"):
        DockerRuntime().prepare()


def test_a_command_before_the_first_start(runtime: DockerRuntime, tmp_path: Path) -> None:
    python = runtime.programs.python
    first = (python, "-c", "open('formatted', 'a').write('x')")
    handle = started(runtime, spec(runtime, tmp_path, first=first))
    handle.kill()
    handle.start()
    assert (tmp_path / "s" / "formatted").read_text() == "x"
    broken = spec(runtime, tmp_path, name="t", first=(python, "-c", "raise SystemExit('no disk')"))
    with pytest.raises(StartFailed, match=r"exited with 1(.|\n)*no disk"):
        runtime.spawn(broken)


def test_off_the_network_and_on_again(runtime: DockerRuntime, tmp_path: Path) -> None:
    handle = started(runtime, spec(runtime, tmp_path))
    connection = dial(runtime, handle)
    assert ask(connection)
    runtime.detach("s")
    runtime.detach("s")
    connection.settimeout(0.3)
    with pytest.raises(TimeoutError):
        ask(connection)
    runtime.attach("s")
    runtime.attach("s")
    connection.settimeout(60)
    assert connection.recv(100)  # the same connection, at the same address
    runtime.detach("s")
    handle.kill()
    runtime.attach("s")
    handle.start()
    handle.wait_ready()
    assert ask(dial(runtime, handle))


def test_packets_of_a_pair_are_dropped(runtime: DockerRuntime, tmp_path: Path) -> None:
    if Capability.PACKET_CUTS not in runtime.capabilities:
        pytest.skip("NOT TESTED: packet cuts need root, nsenter and iptables")
    server = started(runtime, spec(runtime, tmp_path, "server"))
    started(runtime, spec(runtime, tmp_path, "near"))
    started(runtime, spec(runtime, tmp_path, "far"))
    port = server.spec.ports["main"]
    address = Address(runtime.address("server"), port)
    assert runtime.reaches("near", address, 20.0)
    runtime.cut("server", "near", [port])
    runtime.cut("server", "near", [port])
    assert not runtime.reaches("near", address, 0.5)
    assert runtime.reaches("far", address, 20.0)
    assert ask(dial(runtime, server))
    runtime.mend("server", "near", [port])
    runtime.mend("server", "near", [port])
    assert runtime.reaches("near", address, 20.0)


def test_limits_of_cpu_and_memory(runtime: DockerRuntime, tmp_path: Path) -> None:
    handle = started(runtime, spec(runtime, tmp_path))
    before = runtime.usage("s")
    assert before.memory_bytes > 0
    runtime.limit_cpus("s", 0.1)
    connection = dial(runtime, handle)
    connection.settimeout(60)
    ask(connection, b"work\n")
    held_back = runtime.usage("s").throttled_periods
    assert held_back > before.throttled_periods
    runtime.limit_cpus("s", None)
    inspected = connect().api.inspect_container(handle.container)["HostConfig"]
    assert inspected["CpuQuota"] <= 0
    runtime.limit_memory("s", 64 << 20)
    assert connect().api.inspect_container(handle.container)["HostConfig"]["Memory"] == 64 << 20
    runtime.limit_memory("s", None)
    assert connect().api.inspect_container(handle.container)["HostConfig"]["Memory"] > 1 << 30
    with pytest.raises(RuntimeFailed, match="limiting the memory of s"):
        runtime.limit_memory("s", 4096)


def test_a_full_disk_survives_kill(runtime: DockerRuntime, tmp_path: Path) -> None:
    if Capability.BOUNDED_DISK not in runtime.capabilities:
        pytest.skip("NOT TESTED: bounded disks need root")
    disk = tmp_path / "s" / "disk"
    handle = started(runtime, spec(runtime, tmp_path, disk=disk, disk_bytes=8 << 20))
    assert not ask(dial(runtime, handle), b"write 1000\n").startswith(b"error")
    assert runtime.fill_disk("s") > 7 << 20
    assert ask(dial(runtime, handle), b"write 100000\n") == b"error %d\n" % _ENOSPC
    handle.kill()
    handle.start()
    handle.wait_ready()
    assert runtime.disk_free_bytes("s") == 0
    assert ask(dial(runtime, handle), b"write 100000\n") == b"error %d\n" % _ENOSPC
    runtime.free_disk("s")
    runtime.free_disk("s")
    assert not ask(dial(runtime, handle), b"write 100000\n").startswith(b"error")
    runtime.close()
    assert not disk.is_mount()


def test_close_leaves_nothing(runtime: DockerRuntime, tmp_path: Path, home: Path) -> None:
    handle = started(runtime, spec(runtime, tmp_path))
    label = {"label": f"biplane.run={runtime._owner.run}"}
    api = connect().api
    assert len(api.containers(all=True, filters=label)) == 1
    assert len(api.networks(filters=label)) == 1
    (record,) = (home / "engine").glob("*.json")
    assert json.loads(record.read_text())["run"] == runtime._owner.run
    runtime.close()
    runtime.close()
    assert not handle.alive
    assert not api.containers(all=True, filters=label)
    assert not api.networks(filters=label)
    assert not record.exists()
    with pytest.raises(RuntimeFailed, match="closed"):
        runtime.spawn(spec(runtime, tmp_path, "again"))


def test_capabilities_are_backed(runtime: DockerRuntime) -> None:
    assert isinstance(runtime, Isolation)
    assert {Capability.KILL, Capability.NETWORK_DETACH} <= runtime.capabilities
    assert runtime.address("a") != runtime.address("b")
    assert runtime.address("a") == runtime.address("a")
