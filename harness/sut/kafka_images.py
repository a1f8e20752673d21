"""Kafka in an image: for the docker runtime, jars need not be on this host.

``python -m harness.sut.kafka_images`` (``make kafka-images``) builds an image a release: from the
public ``apache/kafka`` where its registry can be reached (``IMAGES=auto|public|local``, as for the
other images), else from jars that are here, on the image that runs ZooKeeper. They are found by
their labels (`docker_software`); one made elsewhere does as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from harness.runtime import docker_images, paths
from harness.runtime.docker_engine import EngineFailed, connect
from harness.runtime.protocol import SetupError
from harness.sut.kafka_jars import KRAFT_LINE, ZOOKEEPER_LINE, Release, libs_dir, version_in

_RECIPE: Final = "kafka.Dockerfile"
_PUBLIC: Final = "apache/kafka"
_REPOSITORY: Final = "biplane-kafka"


def build(release: Release, bases: str) -> str:
    """Returns the image's name. Raises `SetupError` or `EngineFailed`."""
    client = connect()
    public = f"{_PUBLIC}:{release.pinned}"
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        shutil.copy(paths.recipes() / "containers" / _RECIPE, context / "Dockerfile")
        libs = context / "libs"
        if bases == "public" or (bases == "auto" and _is_there(client, public)):
            libs.mkdir()
            base, version = public, release.pinned
        else:
            found = libs_dir(release)
            shutil.copytree(found, libs, ignore=lambda _, names: _not_jars(names))
            base = docker_images.tag(docker_images.Image.JAVA)
            version = version_in(found) or "unknown"
        reference = f"{_REPOSITORY}:{version}"
        docker_images.build_image(
            client, reference, context, {"BASE": base, "VERSION": version}, latest=False
        )
    return reference


def _is_there(client: Any, reference: str) -> bool:
    """Here already, or pulled now."""
    try:
        docker_images.pull_if_absent(client, reference)
    except EngineFailed as e:
        print(f"image: {reference} cannot be had ({e}); using the jars on this machine")
        return False
    return True


def _not_jars(names: list[str]) -> list[str]:
    return [name for name in names if not name.endswith(".jar")]


def main() -> int:
    parser = argparse.ArgumentParser(description="Put Apache Kafka into images.")
    parser.add_argument(
        "--bases",
        choices=("auto", "public", "local"),
        default=os.environ.get("IMAGES") or "auto",
        help="the public image, or one of the jars on this machine (default: $IMAGES, else auto)",
    )
    bases = parser.parse_args().bases
    for release in (ZOOKEEPER_LINE, KRAFT_LINE):
        try:
            print(f"image: {build(release, bases)}", flush=True)
        except (SetupError, EngineFailed) as e:
            print(f"image: {e}", file=sys.stderr)
            return 254
    return 0


if __name__ == "__main__":
    sys.exit(main())
