"""An engine to test with, or a loud reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.runtime import docker_images
from harness.runtime.docker import DockerRuntime
from harness.runtime.docker_engine import connect
from harness.runtime.protocol import SetupError


@pytest.fixture(scope="session")
def engine() -> None:
    """Skips unless an engine answers and the images are there."""
    try:
        connect()
        docker_images.require()
    except SetupError as e:
        pytest.skip(f"NOT TESTED in containers: {e}")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A BIPLANE_HOME of the test's own: its clean() must not meet other harnesses' records."""
    monkeypatch.setenv("BIPLANE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def runtime(engine: None, home: Path) -> Iterator[DockerRuntime]:
    runtime = DockerRuntime()
    runtime.prepare()
    yield runtime
    runtime.close()
