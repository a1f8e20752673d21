"""What is missing on a machine is named with the command that mends it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.runtime import tools
from harness.runtime.process import ProcessRuntime
from harness.runtime.protocol import SetupError
from harness.runtime.select import UnknownRuntime, get_runtime


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on its PATH but what a test puts there."""
    monkeypatch.setenv("BIPLANE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def program(path: Path, script: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_java_is_missing_or_too_old(bare: Path, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"Java >= 17 not found .* apt-get install"):
        tools.find_java()
    java = program(tmp_path / "jdk" / "bin" / "java")
    (bare / "java").symlink_to(java)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="1.8.0_402"\n')
    with pytest.raises(SetupError, match=r"is Java 8, at least 17 .* apt-get install"):
        tools.find_java()
    (tmp_path / "jdk" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.2"\n')
    assert tools.find_java() == str(bare / "java")


def test_java_that_does_not_start(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bare / "java", "echo 'Error: could not reserve enough space' >&2; exit 1")
    with pytest.raises(SetupError, match=r"does not start \(exit code 1: Error: could .*apt-get"):
        tools.find_java()
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    (tmp_path / "jdk" / "bin" / "java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(SetupError, match=r"jdk/bin/java cannot be run; unset JAVA_HOME or"):
        tools.find_java()
    (tmp_path / "jdk" / "bin" / "java").chmod(0o755)  # a program of no kind
    with pytest.raises(SetupError, match=r"does not start \(Exec format error\); unset JAVA_HOME"):
        tools.find_java()
    program(tmp_path / "good" / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "good"))
    assert tools.find_java() == f"{tmp_path}/good/bin/java"


def test_toxiproxy_is_found_or_built(bare: Path, tmp_path: Path) -> None:
    assert tools.find_toxiproxy() is None
    with pytest.raises(SetupError, match=r"no Go to build it; run: make setup"):
        tools.require_toxiproxy()
    on_path = program(bare / "toxiproxy-server")
    assert tools.require_toxiproxy() == str(on_path)
    own = program(tmp_path / "home" / "bin" / "toxiproxy-server")
    assert tools.require_toxiproxy() == str(own)


def test_building_toxiproxy_names_the_version_and_reports_failure(
    bare: Path, tmp_path: Path
) -> None:
    os.symlink("/bin/cp", bare / "cp")
    program(bare / "go", f'cp {__file__} "$GOBIN/server"; echo "$2" > {tmp_path}/asked')
    assert tools.install_toxiproxy() == str(tmp_path / "home" / "bin" / "toxiproxy-server")
    asked = (tmp_path / "asked").read_text().strip()
    assert asked == "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
    program(bare / "go", "echo no network >&2; exit 1")
    with pytest.raises(SetupError, match=r"failed \(no network\); install it: go install"):
        tools.install_toxiproxy()
    assert [path.name for path in (tmp_path / "home" / "bin").iterdir()] == ["toxiproxy-server"]


def test_the_jars_of_pyspark_hold_zookeeper() -> None:
    names = {jar.name.rsplit("-", 1)[0] for jar in tools.find_zookeeper_jars()}
    assert {"zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java"} <= names


def test_an_unknown_runtime_is_named() -> None:
    with pytest.raises(UnknownRuntime, match=r"unknown runtime 'moon'; allowed: process"):
        get_runtime("moon")


def test_a_home_that_cannot_be_written_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BIPLANE_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(SetupError, match="Not a directory; BIPLANE_HOME names a folder"):
        ProcessRuntime().prepare()
    monkeypatch.setenv("BIPLANE_HOME", str(tmp_path / "new" / "home"))
    tools.require_home()
    assert not list((tmp_path / "new" / "home").iterdir())
