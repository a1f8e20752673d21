"""kill -9 of the harness at random moments: `clean` leaves nothing of it and touches nothing else.

``BIPLANE_KILLS=20`` for the long version.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.runtime import docker_images
from harness.runtime.docker import DockerRuntime
from harness.runtime.docker_clean import clean
from harness.runtime.docker_disk import can_bound, mounted
from harness.runtime.docker_engine import LABEL_OWNER, LABEL_RUN, connect, is_alive
from harness.runtime.docker_images import Image

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

_KILLS = int(os.environ.get("BIPLANE_KILLS", "3"))
_VICTIM = Path(__file__).with_name("kill_victim.py")
_LATEST_S = 3.0


@dataclass
class Foreign:
    """Somebody else's things."""

    container: str
    network: str
    volume: str

    def survive(self) -> bool:
        api = connect().api
        return (
            api.inspect_container(self.container)["State"]["Running"]
            and api.inspect_network(self.network)["Id"] == self.network
            and api.inspect_volume(self.volume)["Name"] == self.volume
        )


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    api = connect().api
    name = f"foreign-{os.getpid()}"
    network = api.create_network(name)["Id"]
    volume = api.create_volume(name, labels={"whose": "not ours"})["Name"]
    container = api.create_container(
        docker_images.tag(Image.NODE),
        command=["sleep", "600"],
        labels={"whose": "not ours"},
        host_config=api.create_host_config(init=True, binds=[f"{volume}:/data"]),
        networking_config=api.create_networking_config({name: api.create_endpoint_config()}),
    )["Id"]
    api.start(container)
    yield Foreign(container, network, volume)
    api.remove_container(container, force=True)
    api.remove_network(network)
    api.remove_volume(volume)


def left_behind() -> list[Any]:
    """Whatever is labelled and belongs to no living harness."""
    api, filters = connect().api, {"label": LABEL_OWNER}
    things = api.containers(all=True, filters=filters) + api.networks(filters=filters)
    things += api.volumes(filters=filters)["Volumes"] or []
    return [t for t in things if not is_alive(t["Labels"][LABEL_OWNER])] + [
        folder for owner, folder in mounted() if not is_alive(owner)
    ]


def test_clean_after_kill_9(foreign: Foreign, home: Path, tmp_path: Path) -> None:
    living = DockerRuntime("living")
    living.prepare()
    rng = random.Random(1)
    arguments = ["mount"] if can_bound() else []
    try:
        for _ in range(_KILLS):
            victim = subprocess.Popen(
                [sys.executable, str(_VICTIM), str(tmp_path), *arguments],
                stdout=subprocess.PIPE,
                env={**os.environ, "BIPLANE_HOME": str(home)},
            )
            assert victim.stdout is not None
            assert victim.stdout.readline() == b"making\n"
            time.sleep(rng.uniform(0.0, _LATEST_S))  # a random moment: that is what is tested
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            victim.stdout.close()
            lines = clean(home / "engine")
            assert left_behind() == [], lines
            assert all("foreign" not in line and "living" not in line for line in lines)
        assert foreign.survive()
        assert connect().api.networks(filters={"label": f"{LABEL_RUN}=living"})
        assert len(list((home / "engine").glob("*.json"))) == 1
    finally:
        living.close()


def test_clean_finds_nothing_when_all_is_well(home: Path) -> None:
    runtime = DockerRuntime("well")
    runtime.prepare()
    runtime.close()
    assert [line for line in clean(home / "engine") if "well" in line] == []
