"""Files about clusters that run already: what is wrong with one is said by file, line and field."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.sut.description_file import DescriptionError
from harness.sut.external.form import (
    ClusterForm,
    cluster_schema,
    command_of,
    parse_cluster,
    read_cluster,
)
from harness.sut.protocol import UnknownSystem
from harness.sut.registry import get

ROOT = Path(__file__).resolve().parents[3]
LEAST = """cluster: 1
name: theirs
brokers:
  1: {client: "kafka-1:9092"}
  2: {client: "[::1]:9092", host: two}
"""


def parse(text: str) -> ClusterForm:
    return parse_cluster(text.encode(), "theirs.yaml")


def refusal(text: str) -> str:
    with pytest.raises(DescriptionError) as refused:
        parse(text)
    return str(refused.value)


def test_the_least_that_there_may_be() -> None:
    form = parse(LEAST)
    assert form.ids == (1, 2)
    assert form.address(2) == ("::1", 9092)
    assert (form.planes, form.zookeeper, form.chroot) == ("single", None, "")
    assert command_of(form, "kill", 1, Path("/here")) is None


def test_what_the_documents_show_is_valid() -> None:
    blocks = re.findall(
        r"^```yaml\n(cluster: 1\s.*?)^```$", (ROOT / "docs/adapters.md").read_text(), re.M | re.S
    )
    forms = [parse(block) for block in blocks]
    assert [form.name for form in forms] == ["staging", "compose"]
    for form in forms:
        for command in ("start", "stop", "kill", "pause", "resume"):
            assert command_of(form, command, form.ids[0], ROOT)


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "adapters/cluster-schema.json").read_text())
    mend = "biplane adapter schema --of=cluster --out adapters/cluster-schema.json"
    assert published == cluster_schema(), mend


@pytest.mark.parametrize(
    ("more", "line", "field", "says"),
    [
        ("broker: {}\n", 6, "broker", "no such field; allowed: cluster, name, says"),
        ("  3: {client: kafka-3}\n", 6, "brokers.3.client", "'kafka-3'; allowed: host:port"),
        ("  3: {client: 'kafka-3:0'}\n", 6, "brokers.3.client", "allowed: host:port"),
        ("  3: {client: 'kafka-1:9092'}\n", 6, "brokers.3.client", "is broker 1's"),
        ("  3: {host: x}\n", 6, "brokers.3.client", "is missing; allowed: host:port of a"),
        ("  three: {client: 'x:1'}\n", 6, "brokers.three", "a broker's id, such as 1"),
        ("  3: {client: 'x:1', words: {host: y}}\n", 6, "brokers.3.words.host", "already"),
        ("  3: {client: 'x:1', klient: 1}\n", 6, "brokers.3.klient", "client, host, logs, words"),
        ("ways: {kill: [x]}\n", 6, "ways", "'kill' is allowed with 'start'"),
        ("ways: {pause: [x]}\n", 6, "ways", "'pause' is allowed with 'resume'"),
        ("ways:\n  start: []\n", 7, "ways.start", "at least 1 item"),
        ("ways:\n  start: ssh x\n", 7, "ways.start", "should be a valid list"),
        ("ways:\n  start: [a, '{{hots}}']\n", 7, "ways.start[1]", "did you mean host?"),
        ("ways: {start: ['{{unit}}']}\n", 6, "ways.start[0]", "for broker 1: {{unit}}"),
        ("ways: {env: {A: '{{b}}'}}\n", 6, "ways.env.A", "is no placeholder"),
        ("ways: {within_s: 0}\n", 6, "ways.within_s", "greater than 0"),
        ("zookeeper: zk\n", 6, "zookeeper", "host:port,host:port/chroot"),
        ("zookeeper: 'zk:1/'\n", 6, "zookeeper", "without a slash at its end"),
        ("planes: both\n", 6, "planes", "allowed: 'single', 'dual'"),
        ("name: again\n", 6, "name", "a second time"),
        ("fetch_version: 12\n", 6, "fetch_version", "less than or equal to 11"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(more: str, line: int, field: str, says: str) -> None:
    found = refusal(LEAST + more)
    assert found.startswith(f"theirs.yaml, line {line}: field {field}: "), found
    assert says in found


def test_a_word_of_one_broker_is_needed_of_all() -> None:
    text = LEAST.replace('{client: "kafka-1:9092"}', '{client: "kafka-1:9092", words: {unit: u}}')
    found = refusal(text + "ways: {start: ['{{unit}}']}\n")
    assert "ways.start[0]: for broker 2: {{unit}} is no placeholder" in found


def test_a_command_is_each_brokers_own() -> None:
    form = parse(
        LEAST + "ways: {start: [ssh, '{{host}}', '{{node}}', '{{client}}', '{{here}}/x']}\n"
    )
    assert command_of(form, "start", 1, Path("/f")) == (
        "ssh",
        "kafka-1",
        "1",
        "kafka-1:9092",
        "/f/x",
    )
    assert command_of(form, "start", 2, Path("/f"))[1:3] == ("two", "2")  # type: ignore[index]


@pytest.mark.parametrize(
    ("host", "more", "error_ms"),
    [("127.0.0.1", "", 0), ("kafka-1", "", 500), ("kafka-1", "clocks_within_ms: 20\n", 20)],
)
def test_clocks_elsewhere_may_be_off(host: str, more: str, error_ms: int) -> None:
    text = f"cluster: 1\nname: x\nbrokers: {{1: {{client: '{host}:9092'}}}}\n{more}"
    assert parse(text).clock_error_ms == error_ms


def test_a_file_with_a_fault_is_an_unknown_system(tmp_path: Path) -> None:
    with pytest.raises(UnknownSystem, match="No such file"):
        get(f"external:{tmp_path}/nowhere.yaml")
    (tmp_path / "theirs.yaml").write_text(LEAST)
    assert read_cluster(tmp_path / "theirs.yaml").name == "theirs"
    with pytest.raises(UnknownSystem, match=r"external:CLUSTER\.yaml"):
        get("moon")
