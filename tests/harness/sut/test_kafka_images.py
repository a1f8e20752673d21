"""Kafka's images: on what they are built, and what is put into them. The engine is not asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.runtime import docker_images
from harness.runtime.docker_images import Image
from harness.runtime.protocol import SetupError
from harness.sut import kafka_images, kafka_jars
from harness.sut.kafka_jars import KRAFT_LINE, ZOOKEEPER_LINE


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was handed to the builder: (reference, arguments, files of libs/)."""
    made: list[Any] = []

    def build_image(
        _client: Any, reference: str, context: Path, arguments: dict[str, str], *, latest: bool
    ) -> None:
        assert "biplane.software=kafka" in (context / "Dockerfile").read_text()
        assert not latest
        made.append((reference, arguments, sorted(p.name for p in (context / "libs").iterdir())))

    monkeypatch.setattr(docker_images, "build_image", build_image)
    monkeypatch.setattr(kafka_images, "connect", lambda: None)
    monkeypatch.setattr(kafka_jars, "home", lambda: tmp_path)
    for name in ("BIPLANE_KAFKA_LIBS", "BIPLANE_KAFKA4_LIBS", "KAFKA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return made


def test_on_the_public_image_nothing_is_added(built: list[Any]) -> None:
    assert kafka_images.build(KRAFT_LINE, "public") == f"biplane-kafka:{KRAFT_LINE.pinned}"
    base = f"apache/kafka:{KRAFT_LINE.pinned}"
    expected = {"BASE": base, "VERSION": KRAFT_LINE.pinned}
    assert built == [(f"biplane-kafka:{KRAFT_LINE.pinned}", expected, [])]


def test_of_jars_on_this_host_with_their_own_version(
    built: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libs = tmp_path / "mine"
    libs.mkdir()
    for name in ("kafka_2.13-3.9.1.jar", "zookeeper-3.8.4.jar", "kafka_2.13-3.9.1.jar.asc"):
        (libs / name).touch()
    monkeypatch.setenv("BIPLANE_KAFKA_LIBS", str(libs))
    assert kafka_images.build(ZOOKEEPER_LINE, "local") == "biplane-kafka:3.9.1"
    ((_, arguments, files),) = built
    assert arguments == {"BASE": docker_images.tag(Image.JAVA), "VERSION": "3.9.1"}
    assert files == ["kafka_2.13-3.9.1.jar", "zookeeper-3.8.4.jar"]


def test_without_jars_it_is_refused(built: list[Any]) -> None:
    with pytest.raises(SetupError, match="make kafka"):
        kafka_images.build(ZOOKEEPER_LINE, "local")
    assert built == []
