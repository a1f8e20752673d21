"""What a described broker is run as, and how much of it can be judged."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from checkers.history import HistoryError
from faults.protocol import Capability, Link
from harness.arms import Skipped, arms_of, plan_of
from harness.run_record import asked, lag_max_ms, not_judged
from harness.runtime.protocol import Address, Programs, SetupError
from harness.scenarios import SCENARIOS
from harness.scenarios.base import unheard
from harness.settings import Settings
from harness.sut.described import DescribedSystem
from harness.sut.protocol import (
    ClockTie,
    IsDescribed,
    NodeLayout,
    Planes,
    SupportLayout,
    UnknownSystem,
    limits_of,
)
from harness.sut.registry import get

CLOCK = ClockTie(monotonic_minus_wall_ns=0, error_ns=0)
PROGRAMS = Programs(python="/python", java="/java")
WHOLE = """adapter: 1
name: mine
links: [client, inter-broker, control]
planes: [single, dual]
coordination: zookeeper
capabilities: [controlled-stop, elect-leaders, replication, log-files, control-requests]
log_dir: "{{dir}}/logs"
find:
  lib: {any_of: ["${MINE}/lib", ./lib, no-such-program-anywhere], mend: "install mine"}
lists:
  all: {each: "{{peer}}@{{peer.client.port}}", join: ";"}
files:
  a.properties:
    takes_configs: true
    properties: {id: "{{node}}", me: "{{client.bind}}", size: 1, gone: 2}
    dual: {control: "{{control.advertised}}"}
  b.txt: {text: "{{all}} of {{nodes}}, {{{{not}}\\n"}
start:
  argv: ["{{lib}}/run", "{{java}}", "{{dir}}/a.properties"]
  first: [format, "{{cluster-id}}"]
  env: {WHERE: "{{here}}", ZK: "{{zookeeper}}"}
ready: {ports: [client, control], output: up, within_s: 9}
stop: {signal: INT}
"""


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DescribedSystem:
    monkeypatch.delenv("MINE", raising=False)
    (tmp_path / "lib").mkdir()
    return system(tmp_path, WHOLE)


def system(folder: Path, text: str) -> DescribedSystem:
    file = folder / "mine.yaml"
    file.write_text(text)
    return DescribedSystem(file)


def layout(folder: Path, planes: Planes) -> NodeLayout:
    links = [Link.CLIENT, Link.INTER_BROKER] + [Link.CONTROL] * (planes is Planes.DUAL)
    own = {link: Address("127.0.0.1", 20_000 + n) for n, link in enumerate(links)}
    proxies = {link: Address("127.0.0.1", at.port + 100) for link, at in own.items()}
    return NodeLayout(
        node=2,
        name="node-2",
        dir=folder / "node-2",
        bind=own,
        direct=own,
        advertised=proxies,
        peers={1: proxies, 2: proxies},
        zookeeper="127.0.0.1:9/kafka",
        programs=PROGRAMS,
        nodes=(1, 2),
        extras={"cluster-id": "abc"},
    )


def test_every_placeholder_comes_in_its_place(whole: DescribedSystem, tmp_path: Path) -> None:
    spec = whole.node_spec(layout(tmp_path, Planes.DUAL), Planes.DUAL, {})
    lib, own = tmp_path / "lib", tmp_path / "node-2"
    assert spec.argv == (f"{lib}/run", "/java", f"{own}/a.properties")
    assert spec.first == ("format", "abc")
    assert spec.env == {"WHERE": str(tmp_path), "ZK": "127.0.0.1:9/kafka"}
    assert spec.files["b.txt"] == "1@20100;2@20100 of 2, {{not}}\n"
    assert spec.ports == {"client": 20_000, "inter-broker": 20_001, "control": 20_002}
    assert (spec.ready.ports, spec.ready.pattern) == (("client", "control"), "up")
    assert (spec.ready.timeout_s, spec.stop_signal) == (9.0, 2)
    assert whole.log_dir(layout(tmp_path, Planes.DUAL)) == own / "logs"


def test_planes_and_scenarios_change_the_properties(whole: DescribedSystem, tmp_path: Path) -> None:
    dual = whole.node_spec(layout(tmp_path, Planes.DUAL), Planes.DUAL, {"size": "7", "gone": ""})
    assert dual.files["a.properties"] == (
        "id=2\nme=127.0.0.1:20000\nsize=7\ncontrol=127.0.0.1:20102\n"
    )
    single = whole.node_spec(layout(tmp_path, Planes.SINGLE), Planes.SINGLE, {})
    assert single.files["a.properties"] == "id=2\nme=127.0.0.1:20000\nsize=1\ngone=2\n"
    assert single.ready.ports == ("client",)


def test_a_node_may_begin_without_the_listener_of_its_planes(
    whole: DescribedSystem, tmp_path: Path
) -> None:
    at = layout(tmp_path, Planes.DUAL)
    late = dataclasses.replace(at, bind={k: v for k, v in at.bind.items() if k != Link.CONTROL})
    spec = whole.node_spec(late, Planes.DUAL, {})
    assert "control" not in spec.files["a.properties"]
    assert spec.ready.ports == ("client",)


def test_what_is_not_found_is_said_with_what_mends_it(
    whole: DescribedSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").rmdir()
    other = system(tmp_path, WHOLE)
    with pytest.raises(SetupError, match=r"'lib' was not found .*MINE\}/lib \(not set\).*install"):
        other.prepare(PROGRAMS)
    (tmp_path / "elsewhere/lib").mkdir(parents=True)
    monkeypatch.setenv("MINE", str(tmp_path / "elsewhere"))
    spec = other.node_spec(layout(tmp_path, Planes.DUAL), Planes.DUAL, {})
    assert spec.argv[0] == f"{tmp_path}/elsewhere/lib/run"


def test_a_program_is_found_on_path(tmp_path: Path) -> None:
    text = (
        "adapter: 1\nname: mine\nfind: {sh: {any_of: [sh], mend: x}}\nstart: {argv: ['{{sh}}']}\n"
    )
    spec = system(tmp_path, text).node_spec(layout(tmp_path, Planes.SINGLE), Planes.SINGLE, {})
    assert spec.argv[0].endswith("/sh")


def test_a_cluster_id_is_the_clusters(whole: DescribedSystem, tmp_path: Path) -> None:
    def cluster_id(folder: str) -> str:
        layout = SupportLayout(dir=tmp_path / folder, programs=PROGRAMS, nodes=(1,))
        return whole.support_specs(layout, None)[1]["cluster-id"]  # type: ignore[arg-type]

    assert cluster_id("a") == cluster_id("a") != cluster_id("b")
    assert all(len(i) == 22 and i[0] != "-" for i in map(cluster_id, map(str, range(200))))


def test_with_zookeeper_all_but_the_brokers_own_words_is_known(whole: DescribedSystem) -> None:
    assert {Capability.ZOOKEEPER, Capability.LINKS} <= whole.capabilities
    limits = limits_of(whole)
    assert (limits.state, limits.leaders, limits.takes_configs) == ("store", "written", True)
    assert not limits.unjudged


def test_a_black_box_is_asked_what_it_can_show_and_the_rest_is_named(tmp_path: Path) -> None:
    text = "adapter: 1\nname: box\nlinks: [client, inter-broker]\nstart: {argv: [x]}\n"
    box = system(tmp_path, text + "capabilities: [elect-leaders, replication]\n")
    settings = Settings.of(sut=f"file:{tmp_path}/mine.yaml", seed=1)
    scenario = SCENARIOS["request-flood"]
    assert [arm.label for arm in arms_of(scenario, settings)] == ["box-single"]
    checks = asked((*scenario.checks, "succession", "epochs", "replicas"), [(box, {})])
    assert checks == ["stale-metadata", "truncation-loss", "epochs", "replicas"]
    plan = plan_of(scenario, settings)
    silent = not_judged(scenario, settings, box, plan)
    assert silent["fencing"] == "it lacks control-requests"
    assert silent["succession"] == "nobody tells who was elected controller"
    assert not set(silent) & set(checks)
    handover = not_judged(SCENARIOS["leader-handover"], settings, box, plan)
    assert handover["configs"] == "it was not told num.replica.fetchers"


@pytest.mark.parametrize(
    ("evidence", "leaders", "silent"),
    [("none", "shown", {"succession"}), ("kafka-logs, release: 4.0.0", "written", set())],
)
def test_a_quorum_tells_who_is_controller_and_its_log_what_was_committed(
    tmp_path: Path, evidence: str, leaders: str, silent: set[str]
) -> None:
    text = "adapter: 1\nname: box\nlinks: [client, control]\nplanes: [dual]\n"
    text += "coordination: kraft\nstart: {argv: [x]}\n"
    limits = limits_of(system(tmp_path, f"{text}evidence: {{kind: {evidence}}}\n"))
    assert (limits.state, limits.leaders, set(limits.unjudged)) == ("store", leaders, silent)


def test_another_system_beside_it_is_asked_for_more(tmp_path: Path) -> None:
    text = "adapter: 1\nname: box\nstart: {argv: [x]}\n"
    both = [(system(tmp_path, text), {"fencing": "it is mute"}), (get("dualplane"), {})]
    assert asked(("fencing", "succession"), both) == ["fencing", "succession"]
    assert asked(("fencing", "succession", "epochs"), both[:1]) == ["epochs"]


@pytest.mark.parametrize(
    ("name", "unheard_of"),
    [
        ("broker-restart", {"planes", "fencing", "refusals", "controller-latency"}),
        ("request-flood", {"planes", "fencing", "refusals"}),  # there are probers
        ("zombie-controller", {"planes", "controller-latency"}),  # its forgeries are answered
    ],
)
def test_of_mute_brokers_that_is_judged_which_somebody_else_tells(
    whole: DescribedSystem, name: str, unheard_of: set[str]
) -> None:
    settings = Settings.of(seed=1)
    plan = plan_of(SCENARIOS[name], settings)
    found = unheard(SCENARIOS[name], plan, whole, settings.profile)
    assert set(found) == unheard_of
    assert unheard_of <= set(not_judged(SCENARIOS[name], settings, whole, plan))
    assert unheard(SCENARIOS[name], plan, get("dualplane"), settings.profile) == {}


@pytest.mark.parametrize(
    ("text", "runtime", "says"),
    [
        ("nodes: 1\n", "process", "has 1 of the 3 brokers that it takes"),
        ("links: [client, inter-broker]\n", "process", "does not say of replicas"),
        ("capabilities: [replication]\n", "process", "lacks elect-leaders, links"),
        ("capabilities: [replication]\n", "docker", "runs on this host alone"),
    ],
)
def test_what_it_is_too_little_for_is_skipped_by_name(
    tmp_path: Path, text: str, runtime: str, says: str
) -> None:
    system(tmp_path, "adapter: 1\nname: box\nstart: {argv: [x]}\n" + text)
    settings = Settings.of(sut=f"file:{tmp_path}/mine.yaml", runtime=runtime, seed=1)
    with pytest.raises(Skipped, match=says):
        arms_of(SCENARIOS["request-flood"], settings)


def test_in_an_image_it_has_what_is_found_here_and_runs_there_alone(
    whole: DescribedSystem, tmp_path: Path
) -> None:
    assert whole.node_spec(layout(tmp_path, Planes.DUAL), Planes.DUAL, {}).software is None
    argv = ["{{lib}}/run", "{{client.advertised}}"]
    text = f"adapter: 1\nname: box\nstart: {{image: a/b:1, argv: {argv}}}\n"
    box = system(tmp_path, text + "find: {lib: {any_of: [./lib], mend: x}}\nversion: v7\n")
    box._have = lambda image: pytest.fail(image) if image != "a/b:1" else None  # type: ignore[method-assign]
    spec = box.node_spec(layout(tmp_path, Planes.SINGLE), Planes.SINGLE, {})
    assert spec.software is not None
    assert (spec.software.image, spec.software.version) == ("a/b:1", "v7")
    assert spec.mounts == (tmp_path / "lib",)
    scenario = SCENARIOS["lone-broker"]
    for runtime in ("process", "docker"):
        settings = Settings.of(sut=f"file:{tmp_path}/mine.yaml", runtime=runtime, seed=1)
        if runtime == "docker":
            assert [arm.label for arm in arms_of(scenario, settings)] == ["box-single"]
        else:
            with pytest.raises(Skipped, match="runs in containers alone"):
                arms_of(scenario, settings)


def test_nobody_aims_at_a_controller_that_nobody_knows_for_certain(tmp_path: Path) -> None:
    """Any broker of KRaft's names any broker to its clients."""
    text = "adapter: 1\nname: box\nlinks: [client, inter-broker, control]\nplanes: [dual]\n"
    text += "capabilities: [replication, elect-leaders]\nstart: {argv: [x]}\n"
    settings = Settings.of(sut=f"file:{tmp_path}/mine.yaml", seed=1)
    system(tmp_path, text)
    with pytest.raises(Skipped, match="tells nobody for certain who its active controller is"):
        arms_of(SCENARIOS["controller-pause"], settings)
    system(tmp_path, f"{text}coordination: kraft\n")
    assert arms_of(SCENARIOS["controller-pause"], settings)


def test_a_trace_is_read_as_evidence(tmp_path: Path) -> None:
    text = "adapter: 1\nname: box\nstart: {argv: [x]}\nevidence:\n"
    box = system(tmp_path, text + "  {kind: biplane-trace, file: t.jsonl, rows: [plane_use]}\n")
    at = layout(tmp_path, Planes.SINGLE)
    assert box.traces == {"plane_use"}
    assert list(box.evidence(at, CLOCK)) == []
    at.dir.mkdir()
    (at.dir / "t.jsonl").write_text('{"f":"plane_use","t":1}\n{"f":"plane_u')
    assert list(box.evidence(at, CLOCK)) == [{"f": "plane_use", "t": 1}]
    (at.dir / "t.jsonl").write_text('no row\n{"f":"plane_use","t":1}\n')
    with pytest.raises(HistoryError, match="line 1: not a JSON object"):
        list(box.evidence(at, CLOCK))


def test_its_description_is_kept_with_the_run(whole: DescribedSystem) -> None:
    assert isinstance(whole, IsDescribed)
    assert whole.description == WHOLE
    assert not isinstance(get("dualplane"), IsDescribed)


def test_nothing_is_read_where_nothing_is_written_down(
    whole: DescribedSystem, tmp_path: Path
) -> None:
    assert list(whole.evidence(layout(tmp_path, Planes.DUAL), CLOCK)) == []


def test_a_file_with_a_fault_is_an_unknown_system(tmp_path: Path) -> None:
    with pytest.raises(UnknownSystem, match="No such file"):
        get(f"file:{tmp_path}/nowhere.yaml")
    with pytest.raises(UnknownSystem, match=r"file:DESCRIPTION\.yaml"):
        get("moon")


@pytest.mark.parametrize("name", ["dualplane", "kafka-zk"])
def test_the_limit_of_lag_is_known_where_the_harness_sets_it(
    whole: DescribedSystem, name: str
) -> None:
    plain, short = SCENARIOS["mixture"], SCENARIOS["isr-by-lag"]
    ours, theirs = Settings.of(profile="ci"), {"replica.lag.time.max.ms": "9000"}
    assert lag_max_ms(plain, ours, get(name)) == 30_000
    assert lag_max_ms(short, ours, get(name)) == 1_500
    told = Settings.of(profile="ci", overrides=theirs)
    assert lag_max_ms(short, told, get(name)) == 9_000
    assert lag_max_ms(short, ours, whole) is None
