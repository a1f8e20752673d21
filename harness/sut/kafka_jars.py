"""Apache Kafka's jars: which versions, where they are looked for, how they are brought.

    BIPLANE_KAFKA_LIBS        a folder of jars (kafka-zk); BIPLANE_KAFKA4_LIBS (kafka-kraft)
    KAFKA_HOME, --kafka-home  a distribution that is there already: its ``libs``, when it fits;
                              what the option names must fit one of the systems
    an image                  of the docker runtime (`kafka_images`)
    .biplane/kafka-<v>/libs   what ``make kafka`` brings from Maven Central

What is named and holds no Kafka at all is refused: a verdict on another would be taken for its own.

Any other release (``make kafka VERSION=2.8.1``, ``--kafka-version=2.8.1``) is looked for in the
last of these places, and KAFKA_HOME where it is exactly that one.

A run never downloads: it names what would mend a lack. `python -m harness.sut.kafka_jars` is the
download (``make kafka``). Every version is pinned here or in `kafka_versions`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.runtime.paths import home, make_or
from harness.runtime.protocol import Programs, SetupError, Software
from harness.sut.kafka_versions import Mode, UnknownVersion, Version, needs_of, parse_version

SOFTWARE: Final = "kafka"
"""What images that hold it are labelled (`harness.runtime.docker_software`)."""
_MODULE: Final = "harness.sut.kafka_jars"
_FETCH_TIMEOUT_S: Final = 900
_INSTALL_MAVEN: Final = "apt-get install -y maven"
_CORE_JAR: Final = re.compile(r"kafka_2\.\d+-(\d+\.\d+\.\d+)\.jar$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One line of Kafka that a system under test needs."""

    line: str
    """What a version must begin with."""
    pinned: str
    """What ``make kafka`` brings."""
    says: str
    variable: str | None
    """The environment variable that names a folder of jars."""
    beside: Sequence[tuple[str, str, str]] = ()
    """Coordinates beside Kafka's own: (group, artifact, version)."""
    alone: Sequence[tuple[str, str, str]] = ()
    """The same, of which only the jar itself is wanted: nothing that it depends on."""
    scala: str = "2.13"

    @property
    def version(self) -> Version:
        """By which its capabilities are known."""
        numbers = [int(n) for n in self.pinned.split(".")[:3]]
        return Version(numbers[0], numbers[1], numbers[2])

    @property
    def brought_by(self) -> str:
        """The command that brings its jars."""
        of = "" if self.variable else f" VERSION={self.pinned}"
        return make_or(f"kafka{of}", f"python -m {_MODULE} --version={self.pinned}")


ZOOKEEPER_LINE: Final = Release(
    line="3.9.",
    pinned="3.9.2",  # the last line with ZooKeeper mode and control.plane.listener.name
    says="3.9 (ZooKeeper mode)",
    variable="BIPLANE_KAFKA_LIBS",
    beside=needs_of(Version(3, 9, 2)).beside,
    alone=(("org.apache.kafka", "kafka-tools", "3.9.2"),),  # kafka-topics and its like
)
KRAFT_LINE: Final = Release(
    line="4.",
    pinned="4.3.1",
    says="4 (KRaft mode)",
    variable="BIPLANE_KAFKA4_LIBS",
    beside=needs_of(Version(4, 3, 1)).beside,
)


def release_of(version: Version, mode: Mode) -> Release:
    """One release alone, whatever else is on this machine."""
    needs = needs_of(version)
    return Release(
        line=str(version),
        pinned=str(version),
        says=f"{version} ({'KRaft' if mode is Mode.KRAFT else 'ZooKeeper'} mode)",
        variable=None,
        beside=needs.beside,
        scala=needs.scala,
    )


def libs_dir(release: Release) -> Path:
    """The folder that holds the release's jars. Raises `SetupError` when there is none."""
    others: list[str] = []
    for name, folder in _named(release):
        if _fits(release, folder):
            return folder
        others.append(f"{name} names {folder}, which holds {_what(folder)}")
    fetched = fetched_dir(release)
    if _fits(release, fetched):
        return fetched
    also = f" ({'; '.join(others)})" if others else ""
    raise SetupError(
        f"Apache Kafka {release.says} is not on this machine{also}; bring it with: "
        f"{release.brought_by} ({_maven()}), {_OTHERWISE}"
    )


_IMAGES: Final = make_or("kafka-images", "python -m harness.sut.kafka_images")
_OTHERWISE: Final = (
    "or name a distribution that you have with --kafka-home or KAFKA_HOME, or use --runtime=docker "
    f"with an image that holds it ({_IMAGES})"
)


def _maven() -> str:
    """Whether the first way is open on this machine, as far as can be told without a network."""
    if shutil.which("mvn") is None:
        return f"needs Maven, which is not here: {_INSTALL_MAVEN}; and a network"
    return "needs a network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Jars:
    """Where a release lies, as its brokers see it."""

    folder: Path
    version: str
    software: Software | None = None
    """What holds it, when it is not a folder of this host."""

    @property
    def mounts(self) -> tuple[Path, ...]:
        return () if self.software else (self.folder,)


def find_jars(release: Release, programs: Programs) -> Jars:
    """What the user names goes before an image, an image before what ``make kafka`` brought.
    Raises `SetupError` when they are nowhere."""
    if not any(_fits(release, folder) for _, folder in _named(release)):
        for each in programs.software:
            if each.name == SOFTWARE and each.version.startswith(release.line):
                return Jars(folder=each.path, version=each.version, software=each)
    libs = libs_dir(release)
    return Jars(folder=libs, version=version_in(libs) or "unknown")


def version_in(libs: Path) -> str | None:
    """The Kafka that lies in a folder; None when none does."""
    if not libs.is_dir():
        return None
    for jar in sorted(libs.iterdir()):
        found = _CORE_JAR.fullmatch(jar.name)
        if found:
            return found[1]
    return None


def _fits(release: Release, folder: Path) -> bool:
    found = version_in(folder)
    return found is not None and found.startswith(release.line)


def fetched_dir(release: Release) -> Path:
    return home() / f"kafka-{release.pinned}" / "libs"


def refuse_unused(libs: Path, releases: Sequence[Release], *, any_release: bool = False) -> None:
    """Raises `SetupError` where a folder that was named would be used for none of these.
    ``any_release``: a description asks for it, and says nothing of its version."""
    if any(_fits(release, libs) for release in releases):
        return
    if any_release and version_in(libs) is not None:
        return
    if not releases and not any_release:
        raise SetupError(
            "--kafka-home: none of these systems is Apache Kafka from a folder; allowed with "
            "--sut=kafka-zk, kafka-kraft, or a description file that asks for ${KAFKA_HOME}"
        )
    wanted = " or ".join(release.says for release in releases) or "distribution"
    raise SetupError(
        f"--kafka-home: {libs} holds {_what(libs)}; allowed: the folder of an Apache Kafka "
        f"{wanted}, or another release by --kafka-version as well"
    )


def _named(release: Release) -> list[tuple[str, Path]]:
    """What the user names, first what goes first. Raises `SetupError` where one holds no Kafka."""
    places: list[tuple[str, Path]] = []
    if release.variable and (libs := os.environ.get(release.variable)):
        places.append((release.variable, Path(libs)))
    if distribution := os.environ.get("KAFKA_HOME"):
        places.append(("KAFKA_HOME", Path(distribution) / "libs"))
    for name, folder in places:
        if version_in(folder) is None:
            raise SetupError(
                f"{name} names {folder}, which holds no Kafka; name one that does, or none for "
                "what make kafka brought"
            )
    return places


def _what(libs: Path) -> str:
    found = version_in(libs)
    return "no Kafka" if found is None else f"Kafka {found}"


# -- make kafka ---------------------------------------------------------------------------------


def pom(release: Release) -> str:
    """A Maven project whose runtime class path is the release."""
    wanted = [("org.apache.kafka", f"kafka_{release.scala}", release.pinned), *release.beside]
    nothing_else = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        "</exclusions>"
    )
    dependencies = "".join(
        f"    <dependency><groupId>{g}</groupId><artifactId>{a}</artifactId>"
        f"<version>{v}</version>{without}</dependency>\n"
        for rows, without in ((wanted, ""), (release.alone, nothing_else))
        for g, a, v in rows
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion>\n"
        "  <groupId>biplane</groupId><artifactId>kafka-jars</artifactId><version>1</version>\n"
        f"  <packaging>pom</packaging>\n  <dependencies>\n{dependencies}  </dependencies>\n"
        "</project>\n"
    )


def fetch(release: Release) -> Path:
    """Bring the pinned jars. Raises `SetupError` with one line of what would mend it."""
    libs = fetched_dir(release)
    if version_in(libs) == release.pinned and all(
        (libs / f"{artifact}-{version}.jar").exists() for _, artifact, version in release.alone
    ):
        return libs
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError(f"no Maven found; install it: {_INSTALL_MAVEN}; {_OTHERWISE}")
    libs.parent.mkdir(parents=True, exist_ok=True)
    project = libs.parent / "pom.xml"
    project.write_text(pom(release))
    command = [maven, "-B", "-q", "-f", str(project), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SetupError(
            f"Maven did not finish in {_FETCH_TIMEOUT_S} s; check the network; {_OTHERWISE}"
        ) from None
    if done.returncode != 0 or version_in(libs) != release.pinned:
        said = (done.stdout + done.stderr).strip().splitlines()
        why = said[0] if said else f"it ended with {done.returncode}"
        raise SetupError(f"Maven could not bring Kafka {release.pinned}: {why}; {_OTHERWISE}")
    return libs


def _wanted(text: str) -> list[Release]:
    """The two pinned ones, or those named. Raises `UnknownVersion`."""
    releases: list[Release] = []
    for name in re.split(r"[\s,]+", text.strip()) if text.strip() else []:
        try:
            releases.append(release_of(parse_version(name, Mode.ZOOKEEPER), Mode.ZOOKEEPER))
        except UnknownVersion as zookeeper:
            try:
                releases.append(release_of(parse_version(name, Mode.KRAFT), Mode.KRAFT))
            except UnknownVersion as kraft:
                raise UnknownVersion(f"{zookeeper}; {kraft}") from None
    return releases or [ZOOKEEPER_LINE, KRAFT_LINE]


def main() -> int:
    parser = argparse.ArgumentParser(description="Bring Apache Kafka's jars from Maven Central.")
    parser.add_argument("--version", default="", help="releases, such as 2.8.1 (default: pinned)")
    try:
        releases = _wanted(parser.parse_args().version)
    except UnknownVersion as error:
        print(f"kafka: {error}", file=sys.stderr)
        return 254
    for release in releases:
        try:
            print(f"Kafka {release.pinned}: {fetch(release)}")
        except SetupError as error:
            print(f"kafka: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
