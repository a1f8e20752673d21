"""Systems under test by name: ``dualplane``, ``kafka-zk``, ``kafka-kraft@3.7.1``; any broker by its
description, ``file:my-broker.yaml``; and a cluster that runs already, ``external:cluster.yaml``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.sut import kafka_jars
from harness.sut.dualplane import DualPlaneServer
from harness.sut.kafka_kraft import KafkaKraft
from harness.sut.kafka_versions import ALLOWED, UnknownVersion, parse_version
from harness.sut.kafka_zk import KafkaZk
from harness.sut.protocol import IsDescribed, SystemUnderTest, UnknownSystem

SYSTEMS: Final[Mapping[str, Callable[[], SystemUnderTest]]] = {
    DualPlaneServer.name: DualPlaneServer,
    KafkaZk.kind: KafkaZk,
    KafkaKraft.kind: KafkaKraft,
}
BY_RELEASE: Final[Mapping[str, type[KafkaZk] | type[KafkaKraft]]] = {
    kind.kind: kind for kind in (KafkaZk, KafkaKraft)
}
"""Those of which any release can be had: ``name@release``."""


FILE: Final = "file:"
EXTERNAL: Final = "external:"


def get(name: str) -> SystemUnderTest:
    """Raises `UnknownSystem`; of a description file `DescriptionError`."""
    if name.startswith(FILE):
        from harness.sut.described import described  # its libraries only where they are needed

        return described(name.removeprefix(FILE))
    if name.startswith(EXTERNAL):
        from harness.sut.external.system import external

        return external(name.removeprefix(EXTERNAL))
    kind, at, release = name.partition("@")
    if at and kind in BY_RELEASE:
        chosen = BY_RELEASE[kind]
        try:
            return chosen(parse_version(release, chosen.mode))
        except UnknownVersion as error:
            raise UnknownSystem(f"{name}: {error}") from None
    try:
        return SYSTEMS[name]()
    except KeyError:
        of = "; ".join(f"{k}@RELEASE ({ALLOWED[s.mode]})" for k, s in BY_RELEASE.items())
        allowed = f"{', '.join(SYSTEMS)}; {of}; {FILE}DESCRIPTION.yaml; {EXTERNAL}CLUSTER.yaml"
        raise UnknownSystem(f"unknown system under test {name!r}; allowed: {allowed}") from None


def use_distribution(folder: Path, suts: Sequence[str]) -> None:
    """``--kafka-home``. It must hold what one of the systems would be: nobody is to take a verdict
    on another Kafka for one on theirs. Raises `SetupError`."""
    os.environ["KAFKA_HOME"] = str(folder.absolute())
    systems = [get(name) for name in suts if not name.startswith(EXTERNAL)]
    releases = [s.release for s in systems if isinstance(s, KafkaZk | KafkaKraft)]
    asks = any(isinstance(s, IsDescribed) and "KAFKA_HOME" in s.description for s in systems)
    kafka_jars.refuse_unused(folder.absolute() / "libs", releases, any_release=asks)
