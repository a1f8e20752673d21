"""Where Kafka's jars come from, what its brokers are told, and refusals."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.runtime.protocol import Programs, SetupError, Software
from harness.sut import kafka_jars
from harness.sut.kafka_jars import KRAFT_LINE, ZOOKEEPER_LINE, find_jars, libs_dir, pom, version_in
from harness.sut.kafka_jvm import HEAP_VARIABLE, jvm_options
from harness.sut.kafka_logging import OVERRIDE, Detail, detail_of, log4j
from harness.sut.registry import get, use_distribution


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_jars, "home", lambda: tmp_path / "home")
    for name in ("BIPLANE_KAFKA_LIBS", "BIPLANE_KAFKA4_LIBS", "KAFKA_HOME"):
        monkeypatch.delenv(name, raising=False)


def kafka(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True)
    (folder / f"kafka_2.13-{version}.jar").touch()
    (folder / f"kafka-clients-{version}.jar").touch()
    return folder


def test_without_jars_one_line_says_what_would_mend_it() -> None:
    with pytest.raises(SetupError, match=r"make kafka .*--kafka-home.*--runtime=docker") as refused:
        libs_dir(ZOOKEEPER_LINE)
    assert "\n" not in str(refused.value)


def test_a_distribution_is_used_when_it_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libs = kafka(tmp_path / "dist" / "libs", "3.9.1")
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "dist"))
    assert libs_dir(ZOOKEEPER_LINE) == libs
    assert version_in(libs) == "3.9.1"


def test_a_distribution_of_another_version_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka(tmp_path / "dist" / "libs", "4.0.0")
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "dist"))
    with pytest.raises(SetupError, match=r"KAFKA_HOME names .*, which holds Kafka 4\.0\.0"):
        libs_dir(ZOOKEEPER_LINE)
    fetched = kafka(kafka_jars.fetched_dir(ZOOKEEPER_LINE), ZOOKEEPER_LINE.pinned)
    assert libs_dir(ZOOKEEPER_LINE) == fetched


def test_what_is_named_holds_some_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though one that would do is here: nobody is to believe that it was theirs."""
    kafka(kafka_jars.fetched_dir(ZOOKEEPER_LINE), ZOOKEEPER_LINE.pinned)
    for name, said in (("KAFKA_HOME", "dist/libs"), ("BIPLANE_KAFKA_LIBS", "dist")):
        monkeypatch.setenv(name, str(tmp_path / "dist"))
        with pytest.raises(SetupError, match=f"{name} names {tmp_path}/{said}, which holds no"):
            libs_dir(ZOOKEEPER_LINE)
        with pytest.raises(SetupError, match=name):
            find_jars(ZOOKEEPER_LINE, Programs(python="python", java="java"))
        monkeypatch.delenv(name)
    monkeypatch.setenv("BIPLANE_KAFKA4_LIBS", str(tmp_path / "dist"))  # of another system
    assert libs_dir(ZOOKEEPER_LINE)


@pytest.mark.parametrize(
    ("version", "suts", "says"),
    [
        ("3.9.1", ["kafka-zk"], None),
        ("3.9.1", ["kafka-zk", "kafka-kraft"], None),
        ("2.8.1", ["kafka-zk@2.8.1"], None),
        ("3.9.1", ["dualplane", "kafka-zk"], None),
        ("3.9.1", ["dualplane", "kafka-kraft"], r"holds Kafka 3\.9\.1; allowed: .* 4 \(KRaft"),
        ("3.9.1", ["file:adapters/apache-kafka.yaml", "kafka-kraft"], None),
        (None, ["file:adapters/apache-kafka.yaml"], "holds no Kafka; allowed: "),
        ("3.9.1", ["file:adapters/apache-kafka.yaml"], None),
        ("3.9.1", ["kafka-kraft"], r"holds Kafka 3\.9\.1; allowed: .* Apache Kafka 4 \(KRaft"),
        ("4.1.0", ["kafka-zk"], r"holds Kafka 4\.1\.0; allowed: .* Apache Kafka 3\.9 "),
        ("2.8.1", ["kafka-zk"], r"holds Kafka 2\.8\.1; .* another release by --kafka-version"),
        ("2.8.2", ["kafka-zk@2.8.1"], r"holds Kafka 2\.8\.2; allowed: .* 2\.8\.1 "),
        (None, ["kafka-zk", "kafka-kraft"], r"holds no Kafka; .* 3\.9 .* or 4 "),
    ],
)
def test_what_the_option_names_is_used(
    version: str | None,
    suts: list[str],
    says: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_HOME", "put back when the test is over")
    if version is not None:
        kafka(tmp_path / "dist" / "libs", version)
    if says is None:
        use_distribution(tmp_path / "dist", suts)
        assert os.environ["KAFKA_HOME"] == str(tmp_path / "dist")
    else:
        with pytest.raises(SetupError, match=f"^--kafka-home: {tmp_path}/dist/libs {says}"):
            use_distribution(tmp_path / "dist", suts)


@pytest.mark.parametrize("sut", ["dualplane", "file:adapters/kfake.yaml", "external:theirs.yaml"])
def test_the_option_is_refused_where_nobody_would_use_it(
    sut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HOME", "put back when the test is over")
    kafka(tmp_path / "libs", "3.9.1")
    with pytest.raises(SetupError, match=r"^--kafka-home: none of these systems is Apache Kafka"):
        use_distribution(tmp_path, [sut])


def test_a_folder_that_the_environment_names_is_not_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "nowhere"))
    sut = get("file:adapters/apache-kafka.yaml")
    with pytest.raises(SetupError, match=r"KAFKA_HOME names .*/nowhere, which is not there"):
        sut.prepare(Programs(java="java", python="python"))


def test_an_image_that_holds_the_jars_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def image(name: str, version: str) -> Software:
        where = f"{name}:{version}"
        return Software(name=name, version=version, path=Path("/opt/libs"), image=where)

    held = (image("rabbit", "3.9.9"), image("kafka", "4.3.1"), image("kafka", "3.9.2"))
    programs = Programs(python="python", java="java", software=held)
    kafka(kafka_jars.fetched_dir(ZOOKEEPER_LINE), "3.9.0")
    jars = find_jars(ZOOKEEPER_LINE, programs)
    assert (jars.folder, jars.version, jars.software) == (Path("/opt/libs"), "3.9.2", held[2])
    assert not jars.mounts
    libs = kafka(tmp_path / "dist" / "libs", "3.9.1")
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "dist"))
    jars = find_jars(ZOOKEEPER_LINE, programs)  # what the user names goes first, if it fits
    assert (jars.folder, jars.version, jars.mounts) == (libs, "3.9.1", (libs,))
    assert find_jars(KRAFT_LINE, programs).software == held[1]
    monkeypatch.delenv("KAFKA_HOME")
    assert find_jars(ZOOKEEPER_LINE, Programs(python="python", java="java")).version == "3.9.0"


def test_fetching_without_maven_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SetupError, match="apt-get install -y maven; or name a distribution"):
        kafka_jars.fetch(ZOOKEEPER_LINE)


def test_versions_are_pinned_in_the_project_that_maven_gets() -> None:
    text = pom(ZOOKEEPER_LINE)
    assert f"<version>{ZOOKEEPER_LINE.pinned}</version>" in text
    assert "slf4j-reload4j" in text
    (tools,) = [line for line in text.splitlines() if "kafka-tools<" in line]
    assert f"<version>{ZOOKEEPER_LINE.pinned}</version><exclusions>" in tools
    assert text.count("<exclusions>") == 1


def test_what_lacks_kafkas_tools_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libs = kafka(tmp_path / "libs", ZOOKEEPER_LINE.pinned)
    monkeypatch.setattr(kafka_jars, "fetched_dir", lambda _: libs)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SetupError, match="no Maven"):
        kafka_jars.fetch(ZOOKEEPER_LINE)
    (libs / f"kafka-tools-{ZOOKEEPER_LINE.pinned}.jar").touch()
    assert kafka_jars.fetch(ZOOKEEPER_LINE) == libs


def test_the_detail_is_an_override_that_the_broker_never_sees() -> None:
    assert detail_of({"a": "b"}) == (Detail.REQUESTS, {"a": "b"})
    assert detail_of({OVERRIDE: "quiet", "a": "b"}) == (Detail.QUIET, {"a": "b"})
    with pytest.raises(SetupError, match="allowed: quiet, requests, receipts"):
        detail_of({OVERRIDE: "loud"})


@pytest.mark.parametrize(
    ("detail", "loggers"),
    [
        (Detail.QUIET, set()),
        (Detail.REQUESTS, {"kafka.request.logger"}),
        (
            Detail.RECEIPTS,
            {"kafka.request.logger", "kafka.network.RequestChannel$", "kafka.server.KafkaApis"},
        ),
    ],
)
def test_a_timed_run_builds_no_text_for_every_request(detail: Detail, loggers: set[str]) -> None:
    dear = {"kafka.request.logger", "kafka.network.RequestChannel$", "kafka.server.KafkaApis"}
    names = [line.partition("=")[0] for line in log4j(detail).splitlines()]
    assert {n.removeprefix("log4j.logger.") for n in names} & dear == loggers
    assert len(names) == len(set(names)), "of two lines with one name log4j takes the last"


def test_kafkas_own_variable_chooses_the_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HEAP_VARIABLE, raising=False)
    assert "-Xmx384m" in jvm_options()
    monkeypatch.setenv(HEAP_VARIABLE, "-Xms1g -Xmx1g")
    options = jvm_options()
    assert options[:2] == ("-Xms1g", "-Xmx1g")
    assert "-Xmx384m" not in options
    assert "-XX:+ExitOnOutOfMemoryError" in options
    monkeypatch.setenv(HEAP_VARIABLE, "-Xmx1g -verbose")
    with pytest.raises(SetupError, match="KAFKA_HEAP_OPTS: '-verbose'; allowed: -Xms, -Xmx"):
        jvm_options()


@pytest.mark.parametrize("there", [True, False])
def test_what_the_first_way_lacks_is_said(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/mvn" if there else None)
    with pytest.raises(SetupError) as refused:
        libs_dir(ZOOKEEPER_LINE)
    assert ("needs Maven, which is not here: apt-get" in str(refused.value)) is not there
