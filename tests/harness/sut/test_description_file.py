"""Description files: what is wrong with one is said by file, line and field, with what is right."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.sut.description import Description, json_schema
from harness.sut.description_file import (
    MOST_BYTES,
    DescriptionError,
    parse_description,
    read_description,
)

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "adapters").glob("*.yaml"))
LEAST = """adapter: 1
name: mine
start:
  argv: [broker, 8080]
"""


def parse(text: str) -> Description:
    return parse_description(text.encode(), "mine.yaml")


def refusal(text: str) -> str:
    with pytest.raises(DescriptionError) as refused:
        parse(text)
    return str(refused.value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_comes_along_is_valid_and_short(file: Path) -> None:
    assert read_description(file).name == file.stem
    assert len(file.read_text().splitlines()) <= 100


def test_there_are_files_to_be_tested() -> None:
    assert "apache-kafka" in [file.stem for file in FILES]


def test_the_documents_own_files_are_valid() -> None:
    text = (ROOT / "docs/adapters.md").read_text()
    files = re.findall(r"^```yaml\n(adapter: 1.*?)^```$", text, re.MULTILINE | re.DOTALL)
    first, whole = map(parse, files)
    assert (first.name, first.unused()) == ("my-broker", [])
    assert (whole.name, whole.unused()) == ("old-kafka", [])
    for file in FILES:
        assert f"`{file.name}`" in text


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((ROOT / "adapters/schema.json").read_text())
    assert published == json_schema(), "biplane adapter schema --out adapters/schema.json"


def test_the_least_that_there_may_be() -> None:
    found = parse(LEAST)
    assert (found.start.argv, found.links, found.planes) == (
        ["broker", "8080"],
        ["client"],
        ["single"],
    )
    assert (found.coordination, found.evidence.kind) == ("none", "none")


@pytest.mark.parametrize(
    ("more", "line", "field", "says"),
    [
        ("nods: 3\n", 5, "nods", "no such field; allowed: adapter, name, says"),
        ("nodes: many\n", 5, "nodes", "'many': input should be a valid integer"),
        ("nodes: 10\n", 5, "nodes", "less than or equal to 9"),
        ("first_node: -1\n", 5, "first_node", "greater than or equal to 0"),
        ("links: [client, moon]\n", 5, "links[1]", "allowed: 'client', 'inter-broker', 'control'"),
        ("links: [inter-broker]\n", 5, "links", "'client' must be among them"),
        ("planes: [dual]\n", 5, "planes", "'dual' needs 'control'"),
        ("links: [client, control]\n", 5, "links", "'control' needs 'dual'"),
        ("capabilities: [log-files]\n", 5, "capabilities", "'log-files' needs 'log_dir'"),
        ("capabilities: [control-requests]\n", 5, "capabilities", "needs coordination zookeeper"),
        ("\nfind:\n  jars: {any_of: [], mend: x}\n", 7, "find.jars.any_of", "at least 1 item"),
        ("find:\n  jars: {any_of: [a]}\n", 6, "find.jars.mend", "is missing; allowed: What brings"),
        (
            "find:\n  jars: {any_off: [a], any_of: [a], mend: x}\n",
            6,
            "find.jars.any_off",
            "any_of, ",
        ),
        ("find:\n  My_Jars: {any_of: [a], mend: x}\n", 6, "find.My_Jars", "letters a-z, digits"),
        ("find:\n  node: {any_of: [a], mend: x}\n", 6, "find.node", "is a placeholder already"),
        ("files:\n  ../x: {text: y}\n", 6, "files.../x", "leaves the node's folder"),
        ("files:\n  /etc/x: {text: y}\n", 6, "files./etc/x", "leaves the node's folder"),
        ("files:\n  x: {text: y, properties: {a: b}}\n", 6, "files.x", "either 'text' or"),
        ("files:\n  x:\n    properties: {a: [1]}\n", 7, "files.x.properties.a", "a text, a number"),
        ("files:\n  x: {text: '{{client.bin}}'}\n", 6, "files.x.text", "did you mean client.bind?"),
        ("files:\n  x: {text: '{{control.bind}}'}\n", 6, "files.x.text", "is no placeholder"),
        ("log_dir: '{{dir'\n", 5, "log_dir", "without its '}}'"),
        ("lists:\n  all: {each: '{{peer.moon}}'}\n", 6, "lists.all.each", "peer.client"),
        ("ready: {ports: [control]}\n", 5, "ready.ports[0]", "'control' is not among 'links'"),
        ("stop: {signal: KILL}\n", 5, "stop.signal", "allowed: 'TERM', 'INT'"),
        ("evidence: {kind: kafka-logs}\n", 5, "evidence", "'release' goes with"),
        ("metrics: {gauges: {LeaderCount: x}}\n", 5, "metrics", "needs coordination zookeeper"),
        ("metrics: {gauges: {Leaders: x}}\n", 5, "metrics.gauges.Leaders", "LeaderCount"),
        ("metrics: {gauges: {}}\n", 5, "metrics.gauges", "1"),
        ("files:\n  x: {text: '{{metrics.bind}}'}\n", 6, "files.x.text", "is no placeholder"),
        ("  image: a/b:1\n", 5, "start.image", "needs {{client.advertised}}"),
        (
            "  image: a/b:1\n  env: {J: '{{java}}'}\n",
            5,
            "start.image",
            "{{java}} is this machine's",
        ),
        (
            "evidence: {kind: kafka-logs, release: 3.9.2}\n",
            5,
            "evidence.kind",
            "needs coordination",
        ),
        ("name: again\n", 5, "name", "a second time (first in line 2)"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(more: str, line: int, field: str, says: str) -> None:
    found = refusal(LEAST + more)
    assert found.startswith(f"mine.yaml, line {line}: field {field}: ")
    assert says in found


def test_what_a_file_asks_for_and_never_uses_is_named() -> None:
    coordinated = LEAST + "coordination: zookeeper\nfiles:\n  x: {text: 'a {{ zookeeper }}'}\n"
    assert parse(LEAST).unused() == ["client.bind"]
    assert parse(coordinated).unused() == ["client.bind", "session-timeout-ms"]
    served = coordinated + "metrics: {gauges: {LeaderCount: x}}\n"
    assert parse(served).unused() == ["client.bind", "session-timeout-ms", "metrics.bind"]


def test_who_is_given_no_address_to_advertise_tells_its_own() -> None:
    text = LEAST + "files:\n  x: {text: '{{client.advertised.port}}'}\n"
    listed = LEAST + "lists:\n  all: {each: '{{peer.client}}'}\n"
    assert not parse(LEAST).advertises
    assert parse(text).advertises
    assert parse(listed).advertises


def test_a_control_listener_is_no_placeholder_where_not_all_planes_have_one() -> None:
    both = LEAST + "links: [client, control]\nplanes: [single, dual]\nfiles:\n  x:\n"
    own = "    properties: {a: b}\n    dual: {c: '{{control.bind}}'}\n"
    assert parse(both + own).files["x"].dual
    assert "control.bind" in refusal(both + "    properties: {c: '{{control.bind}}'}\n")


def test_all_faults_are_told_at_once() -> None:
    assert len(refusal(LEAST + "nods: 1\nmembers: dead\n").splitlines()) == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "line 1: allowed: fields"),
        (b"- a\n", "line 1: allowed: fields"),
        (b"\xff\xfe", "not UTF-8"),
        (b"a: b: c\n", "line 1: not YAML: mapping values are not allowed here"),
        (b"[" * 200_000, "line 1: too deep; allowed: a few levels"),
        (b"a:\n " + b"- " * 20_000, "line 2: too deep"),
        (b"a: &x [1]\nb: *x\n", "line 1: an alias; allowed: the text itself"),
        (b"a: !!python/object/apply:os.system [ls]\n", "line 1: a tag"),
        (b"a: 2026-13-45\n", "not YAML"),
        (b"? [a, b]\n: c\n", "mine.yaml"),
        (b"a: \x00\n", "mine.yaml"),
    ],
)
def test_hostile_files_are_refused_in_words(content: bytes, says: str) -> None:
    with pytest.raises(DescriptionError) as refused:
        parse_description(content, "mine.yaml")
    assert says in str(refused.value)


def test_a_file_that_is_none_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="No such file"):
        read_description(tmp_path / "nowhere.yaml")
    with pytest.raises(DescriptionError, match="Is a directory"):
        read_description(tmp_path)
    large = tmp_path / "large.yaml"
    large.write_bytes(LEAST.encode() + b"#" * MOST_BYTES)
    with pytest.raises(DescriptionError, match="larger than 256 KiB"):
        read_description(large)


def test_truths_and_numbers_are_texts_as_brokers_read_them() -> None:
    found = parse(LEAST + "files:\n  x:\n    properties: {a: no, b: 5, c: 1.5, d: 'yes'}\n")
    assert found.files["x"].properties == {"a": "false", "b": "5", "c": "1.5", "d": "yes"}
