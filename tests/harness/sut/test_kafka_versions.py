"""Any release of Kafka by number: what is brought for it, and what it can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.protocol import Capability
from harness.arms import settled_s as slowest
from harness.settings import Settings, SettingsError
from harness.sut import kafka_jars, registry
from harness.sut.kafka_jars import libs_dir, pom, release_of
from harness.sut.kafka_versions import Mode, UnknownVersion, Version, parse_version
from harness.sut.protocol import (
    HasOldReleases,
    KnowsItsCoordinators,
    LooksAfterLogs,
    Planes,
    UnknownSystem,
    limits_of,
)
from harness.trial import Arm
from nodes.properties import parse_properties
from tests.harness.sut.test_systems import layout


def test_versions_are_numbers_not_texts() -> None:
    assert parse_version("3.10.1", Mode.KRAFT) > parse_version("3.9.2", Mode.KRAFT)
    assert str(parse_version("2.8.0", Mode.ZOOKEEPER)) == "2.8.0"


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("4.0.0", Mode.ZOOKEEPER),  # gone
        ("3.2.3", Mode.KRAFT),  # a preview
        ("0.11.0.3", Mode.ZOOKEEPER),
        ("2.8", Mode.ZOOKEEPER),
        ("latest", Mode.KRAFT),
        ("2.8.0/../x", Mode.ZOOKEEPER),
    ],
)
def test_what_is_no_release_of_a_mode_is_refused(text: str, mode: Mode) -> None:
    with pytest.raises(UnknownVersion, match=f"in {mode} mode; allowed: "):
        parse_version(text, mode)


@pytest.mark.parametrize(
    ("name", "control_requests", "planes"),
    [
        ("kafka-zk@2.1.1", False, {Planes.SINGLE}),
        ("kafka-zk@2.4.1", False, {Planes.SINGLE, Planes.DUAL}),
        ("kafka-zk@3.3.2", False, {Planes.SINGLE, Planes.DUAL}),
        ("kafka-zk@3.4.0", True, {Planes.SINGLE, Planes.DUAL}),
        ("kafka-zk@3.9.2", True, {Planes.SINGLE, Planes.DUAL}),
        ("kafka-kraft@3.3.2", False, {Planes.DUAL}),
        ("kafka-kraft@4.3.1", False, {Planes.DUAL}),
    ],
)
def test_what_a_release_can_do(name: str, control_requests: bool, planes: set[Planes]) -> None:
    sut = registry.get(name)
    assert (Capability.CONTROL_REQUESTS in sut.capabilities) is control_requests
    assert sut.plane_modes == planes
    assert sut.name == name.replace("@", "-")


@pytest.mark.parametrize(
    ("version", "by_znode", "fetch", "settled_s"),
    [
        ("2.1.1", True, 10, 10.0),
        ("2.3.1", True, 11, 10.0),
        ("2.4.0", False, 11, 10.0),
        ("2.8.0", False, 11, 5.0),
    ],
)
def test_old_releases_are_asked_in_their_own_way(
    version: str, by_znode: bool, fetch: int, settled_s: float
) -> None:
    sut = registry.get(f"kafka-zk@{version}")
    assert isinstance(sut, HasOldReleases)
    assert (sut.orders_by_znode, sut.fetch_version) == (by_znode, fetch)
    dual = Arm(sut=registry.get("dualplane"), planes=Planes.SINGLE)
    assert slowest([dual, Arm(sut=sut, planes=Planes.SINGLE)]) == settled_s
    assert slowest([dual]) == 0.0
    assert not isinstance(registry.get("dualplane"), HasOldReleases)


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("kafka-zk@2.6.3", False),
        ("kafka-zk@2.7.0", True),
        ("kafka-kraft@3.3.2", True),
        ("dualplane", True),
    ],
)
def test_who_asks_the_controller_for_in_sync_sets(name: str, has: bool) -> None:
    assert (Capability.ALTER_PARTITION in registry.get(name).capabilities) is has


@pytest.mark.parametrize(
    ("name", "has"), [("kafka-zk@3.6.2", False), ("kafka-zk@3.7.0", True), ("dualplane", True)]
)
def test_who_commits_nothing_while_too_few_are_in_sync(name: str, has: bool) -> None:
    assert (Capability.STRICT_MIN_ISR in registry.get(name).capabilities) is has


@pytest.mark.parametrize(("release", "served"), [("2.1.1", False), ("2.2.0", True)])
def test_where_logs_end_is_asked_of_who_knows(release: str, served: bool) -> None:
    limits = limits_of(registry.get(f"kafka-zk@{release}"))
    assert ("offset-reader" in limits.unserved) is not served
    assert ("offsets" in limits.unjudged, "log-starts" in limits.unjudged) == (not served,) * 2


@pytest.mark.parametrize(
    ("name", "ms"),
    [
        ("kafka-zk@3.7.1", 30_000),
        ("kafka-zk@3.8.0", 1_000),
        ("kafka-kraft@3.7.1", 30_000),
        ("kafka-kraft@4.0.0", 1_000),
        ("dualplane", 1_000),
    ],
)
def test_who_can_be_told_to_look_after_its_logs_at_once(name: str, ms: int) -> None:
    sut = registry.get(name)
    assert isinstance(sut, LooksAfterLogs)
    assert sut.first_look_ms == ms


@pytest.mark.parametrize(("release", "told"), [("1.0.2", False), ("2.0.1", False), ("2.1.0", True)])
def test_before_leader_epochs_are_told_nothing_is_judged_by_them(release: str, told: bool) -> None:
    sut = registry.get(f"kafka-zk@{release}")
    limits = limits_of(sut)
    assert ("metadata-reader" in limits.unserved) is not told
    assert ("stale-metadata" in limits.unjudged) is not told
    assert {"offset-reader", "offsets"} <= limits.unserved.keys() | limits.unjudged.keys()
    assert isinstance(sut, HasOldReleases)
    assert sut.epoch_after_office is not told
    assert sut.unclean_elections_wait is not told
    assert sut.fetch_version == (10 if told else 6)


@pytest.mark.parametrize(("release", "may"), [("2.2.0", True), ("2.3.1", False), ("3.9.2", False)])
def test_who_calls_a_group_that_is_gone_one_without_that_member(release: str, may: bool) -> None:
    sut = registry.get(f"kafka-zk@{release}")
    assert isinstance(sut, HasOldReleases)
    assert sut.dead_groups_unknown is may


@pytest.mark.parametrize(("release", "may"), [("2.3.1", True), ("2.4.1", False), ("3.9.2", False)])
def test_who_leaves_those_waiting_whose_leader_puts_its_replica_aside(
    release: str, may: bool
) -> None:
    sut = registry.get(f"kafka-zk@{release}")
    assert isinstance(sut, HasOldReleases)
    assert sut.stopped_leave_waiting is may


@pytest.mark.parametrize(("release", "may"), [("2.3.1", True), ("2.4.1", False), ("3.9.2", False)])
def test_who_has_no_error_for_records_that_break_a_rule(release: str, may: bool) -> None:
    sut = registry.get(f"kafka-zk@{release}")
    assert isinstance(sut, HasOldReleases)
    assert sut.records_corrupt is may


@pytest.mark.parametrize(("release", "may"), [("2.4.1", True), ("2.5.0", False), ("3.9.2", False)])
def test_who_tells_no_epoch_of_who_has_no_leader(release: str, may: bool) -> None:
    sut = registry.get(f"kafka-zk@{release}")
    assert isinstance(sut, HasOldReleases)
    assert sut.leaderless_untold is may


@pytest.mark.parametrize(
    ("name", "late"),
    [("kafka-zk@2.7.1", False), ("kafka-zk@2.8.2", True), ("kafka-zk@3.0.2", False)],
)
def test_who_keeps_topic_ids_late(name: str, late: bool) -> None:
    sut = registry.get(name)
    assert isinstance(sut, HasOldReleases)
    assert sut.topic_ids_late is late


@pytest.mark.parametrize(("release", "may"), [("3.2.3", True), ("3.3.0", False), ("3.9.2", False)])
def test_who_lets_brokers_join_that_are_being_stopped(release: str, may: bool) -> None:
    sut = registry.get(f"kafka-zk@{release}")
    assert isinstance(sut, HasOldReleases)
    assert sut.stopping_may_join is may


@pytest.mark.parametrize(
    ("release", "mixes"), [("3.2.3", True), ("3.3.0", False), ("3.9.2", False)]
)
def test_who_refuses_a_wrong_config_as_a_wrong_request(release: str, mixes: bool) -> None:
    sut = registry.get(f"kafka-zk@{release}")
    assert isinstance(sut, HasOldReleases)
    assert sut.mixes_config_errors is mixes


@pytest.mark.parametrize(
    ("name", "late"), [("kafka-kraft@3.9.2", False), ("kafka-kraft@4.0.0", True)]
)
def test_whose_new_coordinators_tell_positions_late(name: str, late: bool) -> None:
    sut = registry.get(name)
    assert isinstance(sut, KnowsItsCoordinators)
    assert sut.positions_told_late is late
    assert not isinstance(registry.get("dualplane"), KnowsItsCoordinators)


@pytest.mark.parametrize(
    ("name", "untold"),
    [
        ("kafka-zk@3.4.1", False), ("kafka-zk@3.5.0", True), ("kafka-kraft@3.9.1", True),
        ("kafka-zk@3.9.2", False), ("kafka-kraft@4.0.1", True), ("kafka-kraft@4.0.2", False),
        ("kafka-kraft@4.3.1", False),
    ],
)  # fmt: skip
def test_who_tells_old_clients_of_no_refusal(name: str, untold: bool) -> None:
    sut = registry.get(name)
    assert isinstance(sut, KnowsItsCoordinators)
    assert sut.old_clients_untold is untold


def test_without_a_release_a_system_is_what_it_was() -> None:
    assert registry.get("kafka-zk").name == "kafka-zk"
    assert Capability.CONTROL_REQUESTS in registry.get("kafka-zk").capabilities
    assert registry.get("kafka-kraft").plane_modes == {Planes.DUAL}


@pytest.mark.parametrize("name", ["kafka-zk@4.0.0", "kafka-zk@", "dualplane@3.9.2", "rabbit@1.0.0"])
def test_a_system_of_no_release_is_named_with_what_is_allowed(name: str) -> None:
    with pytest.raises(UnknownSystem, match=f"{name}.*allowed"):
        registry.get(name)


def test_one_option_names_the_release_of_each_system_of_kafkas() -> None:
    suts = Settings.of(sut="dualplane,kafka-zk,kafka-zk@2.8.0", kafka_version="2.8.1").suts
    assert suts == ("dualplane", "kafka-zk@2.8.1", "kafka-zk@2.8.0")
    with pytest.raises(SettingsError, match="--kafka-version: allowed with"):
        Settings.of(kafka_version="2.8.1")


def coordinates(version: str) -> str:
    return pom(release_of(parse_version(version, Mode.ZOOKEEPER), Mode.ZOOKEEPER))


def test_each_release_is_brought_with_what_it_needs() -> None:
    assert "<artifactId>kafka_2.12</artifactId><version>2.5.0<" in coordinates("2.5.0")
    assert "slf4j-log4j12" in coordinates("2.8.1")
    assert "slf4j-reload4j" in coordinates("3.6.2")
    for old in ("2.1.1", "2.3.1"):
        assert "<artifactId>zookeeper</artifactId><version>3.5.7<" in coordinates(old)
    assert "zookeeper</artifactId>" not in coordinates("2.8.1")
    kraft = pom(release_of(parse_version("4.0.0", Mode.KRAFT), Mode.KRAFT))
    assert "log4j-slf4j-impl" in kraft


def test_a_release_is_found_where_it_was_brought_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_jars, "home", lambda: tmp_path)
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    pinned = tmp_path / "other"
    pinned.mkdir()
    (pinned / "kafka_2.13-3.9.2.jar").touch()
    monkeypatch.setenv("BIPLANE_KAFKA_LIBS", str(pinned))
    release = release_of(Version(2, 8, 1), Mode.ZOOKEEPER)
    with pytest.raises(kafka_jars.SetupError, match=r"make kafka VERSION=2\.8\.1"):
        libs_dir(release)
    libs = tmp_path / "kafka-2.8.1" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka_2.12-2.8.1.jar").touch()
    assert libs_dir(release) == libs
    assert release.version == (2, 8, 1)


@pytest.mark.parametrize(
    ("version", "named"), [("3.3.2", False), ("3.8.0", False), ("4.3.1", True)]
)
def test_a_controller_is_advertised_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, named: bool
) -> None:
    monkeypatch.setattr(kafka_jars, "home", lambda: tmp_path)
    libs = tmp_path / f"kafka-{version}" / "libs"
    libs.mkdir(parents=True)
    (libs / f"kafka_2.13-{version}.jar").touch()
    place = layout(tmp_path, Planes.DUAL)
    spec = registry.get(f"kafka-kraft@{version}").node_spec(place, Planes.DUAL, {})
    written = parse_properties(spec.files["server.properties"])
    assert ("CONTROLLER" in written["advertised.listeners"]) is named
    assert "CONTROLLER" in written["listeners"]
    assert "REPLICATION" in written["advertised.listeners"]
    logging = "log4j2.properties" if version.startswith("4") else "log4j.properties"
    assert "BrokerMetadataPublisher" in spec.files[logging]
    assert any(f"/{logging}" in word for word in spec.argv)
