"""The three images that a cluster in containers needs: finding them, and building them.

``python -m harness.runtime.docker_images`` (``make image``) builds; `image` finds. Bases, chosen by
one setting (``IMAGES=auto|public|local``; default auto):

- ``public``: ``python:3.12-slim`` and ``zookeeper``, from their registry;
- ``local``: a base made on the spot with debootstrap (containers/base.sh; root, a minute), the
  broker's packages as wheels downloaded on this host, ZooKeeper from the jars that PySpark ships;
- ``auto``: public if the registry answers, else local, saying so.

toxiproxy is a static binary, which `harness.runtime.tools` finds or builds: it needs no base.
``$BIPLANE_TOXIPROXY_IMAGE`` names another image to be used in its place.

A tag is a hash of what the runtime relies on (the recipe and the packages' versions, not the
broker's own sources, which are mounted): a stale image is a missing one. ``latest`` is tagged
besides, for docker-compose.yml.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from docker.errors import ImageNotFound

from harness.runtime import paths, tools
from harness.runtime.docker_engine import EngineFailed, connect, engine_errors, one_line
from harness.runtime.protocol import SetupError

PYTHON: Final = "/opt/app/bin/python"
JAVA: Final = "java"
ZOOKEEPER_CLASS_PATH: Final = "/opt/zookeeper/*"
TOXIPROXY_BINARY: Final = "/toxiproxy-server"
MEND: Final = f"make it: {paths.make_or('image', 'python -m harness.runtime.docker_images')}"

_LOCAL_BASE: Final = "biplane-base:bookworm"
_LOCAL_PYTHON: Final = "3.11"
_PUBLIC_PYTHON: Final = "python:3.12-slim"
_PUBLIC_ZOOKEEPER: Final = "zookeeper:3.9"
_TOXIPROXY_SETTING: Final = "BIPLANE_TOXIPROXY_IMAGE"


class Image(StrEnum):
    """The value is the repository's name."""

    NODE = "biplane-node"
    JAVA = "biplane-zookeeper"  # ZooKeeper's, and for brokers that are Java programs
    TOXIPROXY = "biplane-toxiproxy"


_RECIPES: Final[Mapping[Image, Sequence[str]]] = {
    Image.NODE: ("Dockerfile", "containers/healthcheck.py"),
    Image.JAVA: ("containers/zookeeper.Dockerfile", "containers/zookeeper-public.Dockerfile"),
    Image.TOXIPROXY: ("containers/toxiproxy.Dockerfile",),
}


def tag(image: Image) -> str:
    """The name that this tree's recipe gives the image."""
    if image is Image.TOXIPROXY and (other := os.environ.get(_TOXIPROXY_SETTING)):
        return other
    digest = hashlib.sha256()
    for relative in _RECIPES[image]:
        digest.update((paths.recipes() / relative).read_bytes())
    if image is Image.NODE:
        digest.update("\n".join(node_requirements()).encode())
    if image is Image.TOXIPROXY:
        digest.update(tools.TOXIPROXY_VERSION.encode())
    return f"{image}:{digest.hexdigest()[:12]}"


def require() -> None:
    """See that every image is there. Raises `SetupError` naming those that are not."""
    client, missing = connect(), []
    for image in Image:
        try:
            with engine_errors(f"looking for the image {tag(image)}"):
                client.images.get(tag(image))
        except EngineFailed as e:
            if not isinstance(e.__cause__, ImageNotFound):
                raise SetupError(str(e)) from e
            missing.append(tag(image))
    if missing:
        raise SetupError(f"no image {', '.join(missing)} on the Docker engine; {MEND}")


def node_requirements() -> list[str]:
    """What the broker's image installs: the group ``nodes`` of pyproject.toml, pinned there."""
    with (paths.recipes() / "pyproject.toml").open("rb") as file:
        groups = tomllib.load(file)["project"]["optional-dependencies"]
    return [str(requirement) for requirement in groups["nodes"]]


# ---- building --------------------------------------------------------------------------------


def build(bases: str = "auto") -> list[str]:
    """Build all three; quick when nothing changed. Returns a line for each."""
    client = connect()
    public = _reach_registry(client) if bases == "auto" else bases == "public"
    lines = []
    for image, make in (
        (Image.NODE, _build_node),
        (Image.JAVA, _build_java),
        (Image.TOXIPROXY, _build_toxiproxy),
    ):
        begun = time.monotonic()
        if image is Image.TOXIPROXY and _TOXIPROXY_SETTING in os.environ:
            with engine_errors(f"pulling {tag(image)}"):
                client.images.pull(tag(image))
        else:
            make(client, public)
        with engine_errors(f"looking at {tag(image)}"):
            size = client.images.get(tag(image)).attrs["Size"] / 1e6
        lines.append(f"image: {tag(image)}, {size:.0f} MB ({time.monotonic() - begun:.1f} s)")
    return lines


def pull_if_absent(client: Any, reference: str) -> None:
    """Raises EngineFailed when the image is neither here nor to be had."""
    with engine_errors(f"pulling {reference}"):
        try:
            client.images.get(reference)
        except ImageNotFound:
            client.images.pull(reference)


def _reach_registry(client: Any) -> bool:
    """Whether public bases can be had: already here, or pulled now."""
    for base in (_PUBLIC_PYTHON, _PUBLIC_ZOOKEEPER):
        try:
            pull_if_absent(client, base)
        except EngineFailed as e:
            print(f"image: no image registry can be reached ({e}); building on a base made here")
            return False
    return True


def _local_base(client: Any) -> str:
    try:
        with engine_errors(f"looking for {_LOCAL_BASE}"):
            client.images.get(_LOCAL_BASE)
    except EngineFailed as e:
        if not isinstance(e.__cause__, ImageNotFound):
            raise
        print("image: making a base with debootstrap (a minute)", flush=True)
        made = subprocess.run(
            ["bash", str(paths.recipes() / "containers" / "base.sh"), _LOCAL_BASE],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise SetupError(one_line(made.stderr)) from None
    return _LOCAL_BASE


def _build_node(client: Any, public: bool) -> None:
    arguments = {"BASE": _PUBLIC_PYTHON}
    with _node_context() as context:
        if not public:
            _download_wheels(context / "wheels")
            arguments = {
                "BASE": _local_base(client),
                "PIP_ARGS": "--no-index --find-links=/wheels",
            }
        build_image(client, tag(Image.NODE), context, arguments)


@contextmanager
def _node_context() -> Iterator[Path]:
    """What the Dockerfile copies from: the checkout itself, or as much of one as pip brought."""
    if paths.in_checkout():
        yield paths.PACKAGES
        return
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        shutil.copytree(paths.recipes(), context, dirs_exist_ok=True)
        nodes, compiled = paths.PACKAGES / "nodes", shutil.ignore_patterns("__pycache__")
        shutil.copytree(nodes, context / "nodes", ignore=compiled)
        (context / "wheels").mkdir()
        yield context


def _download_wheels(folder: Path) -> None:
    """The broker's packages for the local base's Python: pip in a build has no certificates for
    an index that is not a public one."""
    wanted = node_requirements()
    stamp = folder / ".wanted"
    if stamp.exists() and stamp.read_text().split() == wanted:
        return
    for old in folder.glob("*.whl"):
        old.unlink()
    machine = platform.machine()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["-d", str(folder), "--python-version", _LOCAL_PYTHON, "--implementation", "cp"]
    command += ["--platform", f"manylinux2014_{machine}", "--platform", f"manylinux_2_28_{machine}"]
    command += ["--only-binary=:all:", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(
            f"downloading the broker's packages failed ({one_line(done.stderr)[-200:]}); "
            f"see: {' '.join(command[1:4])} -d wheels ..."
        )
    stamp.write_text("\n".join(wanted) + "\n")


def _build_java(client: Any, public: bool) -> None:
    if public:
        recipe, arguments = "zookeeper-public.Dockerfile", {"BASE": _PUBLIC_ZOOKEEPER}
    else:
        recipe, arguments = "zookeeper.Dockerfile", {"BASE": _local_base(client)}
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        shutil.copy(paths.recipes() / "containers" / recipe, context / "Dockerfile")
        if not public:
            (context / "jars").mkdir()
            for jar in tools.find_zookeeper_jars():
                shutil.copy(jar, context / "jars")
        build_image(client, tag(Image.JAVA), context, arguments)


def _build_toxiproxy(client: Any, public: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        shutil.copy(paths.recipes() / "containers" / "toxiproxy.Dockerfile", context / "Dockerfile")
        shutil.copy(tools.require_toxiproxy(), context / tools.TOXIPROXY_BINARY)
        (context / tools.TOXIPROXY_BINARY).chmod(0o755)
        build_image(client, tag(Image.TOXIPROXY), context, {})


def build_image(
    client: Any, reference: str, context: Path, arguments: dict[str, str], *, latest: bool = True
) -> None:
    """Build the Dockerfile of ``context``; ``latest``: tag it so besides."""
    said: list[str] = []
    repository = reference.rpartition(":")[0]
    with engine_errors(f"building {reference}"):
        stream = client.api.build(
            path=str(context),
            buildargs=arguments,
            tag=reference,
            rm=True,
            forcerm=True,
            decode=True,
        )
        for part in stream:
            if "error" in part:
                raise SetupError(
                    f"building {reference} failed: {one_line(part['error'])}; its output ended: "
                    f"{one_line(' '.join(said[-5:]))[-300:]}"
                )
            said.append(str(part.get("stream", "")))
        if latest:
            client.images.get(reference).tag(repository, "latest")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the images that --runtime=docker needs.")
    parser.add_argument(
        "--bases",
        choices=("auto", "public", "local"),
        default=os.environ.get("IMAGES") or "auto",
        help="public images, or all made on this machine (default: $IMAGES, else auto)",
    )
    try:
        for line in build(parser.parse_args().bases):
            print(line)
    except (SetupError, EngineFailed) as e:
        print(f"image: {e}", file=sys.stderr)
        return 254
    return 0


if __name__ == "__main__":
    sys.exit(main())
