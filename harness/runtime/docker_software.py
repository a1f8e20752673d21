"""Systems that lie in images: whoever has such an image needs none of the system on this host.

An image says so by its labels, whoever made it: ``biplane.software=kafka``,
``biplane.software.version=3.9.2``, ``biplane.software.path=/opt/kafka/libs`` (as
containers/kafka.Dockerfile does).

It must hold what runs the system, too (a Java). Images that no name leads to (an older build) do
not count; of several, the newest comes first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from harness.runtime.docker_engine import EngineFailed, engine_errors
from harness.runtime.protocol import SetupError, Software

LABEL: Final = "biplane.software"
LABEL_VERSION: Final = f"{LABEL}.version"
LABEL_PATH: Final = f"{LABEL}.path"


def find(client: Any) -> tuple[Software, ...]:
    """What the engine's images hold. Raises `SetupError` when it cannot be asked."""
    try:
        with engine_errors("looking for images that hold systems"):
            images = client.api.images(filters={"label": LABEL})
    except EngineFailed as e:
        raise SetupError(str(e)) from e
    found = []
    for image in sorted(images, key=lambda image: -int(image["Created"])):
        labels = image["Labels"]
        named = [tag for tag in image["RepoTags"] or () if not tag.startswith("<none>")]
        if named and labels.get(LABEL_VERSION) and labels.get(LABEL_PATH):
            found.append(
                Software(
                    name=labels[LABEL],
                    version=labels[LABEL_VERSION],
                    path=Path(labels[LABEL_PATH]),
                    image=named[0],
                )
            )
    return tuple(found)
