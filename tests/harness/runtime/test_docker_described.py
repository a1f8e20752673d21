"""A described broker whose nodes are containers of an image that its file names."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from faults.protocol import Link
from harness.cluster.cluster import Cluster
from harness.runtime import docker_images
from harness.runtime.docker import DockerRuntime
from harness.runtime.protocol import SetupError
from harness.sut.described import DescribedSystem
from tests.integration.test_described import DESCRIPTION, ROOT, produce, told_at

pytestmark = [pytest.mark.docker, pytest.mark.cluster, pytest.mark.usefixtures("engine", "home")]


def cluster_of(image: str, folder: Path) -> Cluster:
    text = DESCRIPTION.replace("{{python}}", docker_images.PYTHON).replace("ROOT", str(ROOT))
    file = folder / "strange.yaml"
    file.write_text(text.replace("start:\n", f"start:\n  image: {image}\n"))
    return Cluster(
        DockerRuntime(),
        DescribedSystem(file),
        "dual",
        dir=folder / "cluster",
        record=lambda *_args, **_fields: None,
        rng=random.Random(1),
        session_timeout_ms=4000,
    )


def test_a_life_in_an_image(tmp_path: Path) -> None:
    cluster = cluster_of(docker_images.tag(docker_images.Image.NODE), tmp_path)
    try:
        with cluster:
            cluster.admin.create_topic("t", {0: [1, 2, 3]}, {})
            produce(cluster, range(5))
            cluster.nodes.kill(1)
            cluster.nodes.start(1)
            proxies = {node: cluster.address(node, Link.CLIENT) for node in (1, 2, 3)}
            assert told_at(proxies[2]) == proxies
            produce(cluster, range(5))
    finally:
        cluster.runtime.close()


def test_an_image_that_cannot_be_had_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"strange\.yaml: field start\.image: .*no/such-broker"):
        cluster_of("localhost:1/no/such-broker:1", tmp_path)._start()
