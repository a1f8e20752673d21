"""The files of bugs: the corpus as it is, and files that cannot be meant."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from checkers.promises import promises
from faults.plan import PlanError
from faults.registry import FAULTS
from harness.bugs.book import FOLDER, Bug, BugError, load, load_all
from harness.bugs.scenario import profile_of, scenario_of
from harness.scenarios.base import Stage, checks_for
from harness.sut import registry

CORPUS = Path(__file__).resolve().parents[3] / FOLDER
GOOD = """
id = "KAFKA-1"
title = "a thing goes wrong"
says = "It goes wrong. It should not."
sut = "kafka-zk"
releases = "2.4.0 to 2.5.0"
broken = "2.5.0"
mended = "2.5.1"
found_by = ["recovery: never-in-sync"]
[load]
topic = "t"
[topics.t]
partitions = 2
leader = "victim"
[[plan]]
id = "k"
fault = "kill"
at_ms = 1
params = { target = "leader:t-0" }
"""


def written(folder: Path, text: str, name: str = "KAFKA-1") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("bug", load_all(CORPUS).values(), ids=lambda bug: bug.id)
def test_every_bug_of_the_corpus_can_be_played(bug: Bug) -> None:
    for release in {bug.broken, bug.mended or bug.broken}:
        sut = registry.get(f"{bug.sut}@{release}")
        assert bug.planes in sut.plane_modes
        scenario = scenario_of(bug, {})
        asked = checks_for(scenario.checks, [sut.capabilities])
        assert set(bug.checks) <= set(asked), "what finds it must be judged on that release"
    rules = {f"{p.name}: {rule}" for p in promises() for rule in p.rules}
    assert set(bug.found_by) <= rules
    assert bug.broken != bug.mended or bug.mended_config
    assert bug.plan.duration_ms <= bug.load.chaos_s * 1000
    assert len(bug.says.split(".")) <= 4, "two sentences"
    for entry in bug.plan.entries:
        assert FAULTS[entry.fault]
        aimed = [entry.params.get(name, "") for name in ("target", "sender")]
        assert not any(str(target).isdigit() for target in aimed), "roles, not numbers"


def test_a_file_is_a_bug(tmp_path: Path) -> None:
    bug = load(written(tmp_path, GOOD))
    assert (bug.id, bug.broken, bug.mended, bug.checks) == (
        *("KAFKA-1", "2.5.0", "2.5.1"),
        ("recovery",),
    )
    said_otherwise = GOOD.replace("a thing", "something") + "# a comment\n"
    assert bug.digest == load(written(tmp_path, said_otherwise)).digest, "it is played the same"
    for old, new in (("at_ms = 1", "at_ms = 2"), ("2.5.1", "2.5.2"), ("partitions = 2", "")):
        assert bug.digest != load(written(tmp_path, GOOD.replace(old, new))).digest
    written(tmp_path, GOOD)
    assert list(load_all(tmp_path)) == ["KAFKA-1"]


def test_a_bug_is_a_scenario_of_roles(tmp_path: Path) -> None:
    text = GOOD.replace('topic = "t"', 'topic = "t"\nacks_one_per_s = 7')
    text = text.replace("[load]", '[config]\n"num.io.threads" = "2"\n[load]')
    bug = load(written(tmp_path, text))
    scenario = scenario_of(bug, {"a.b": "c"})
    stage = Stage(nodes=(1, 2, 3), controller=3, victim=1, profile=profile_of(bug))
    (topic,) = scenario.topics(stage)
    assert topic.assignment == {0: [1, 2, 3], 1: [1, 3, 2]}
    assert scenario.overrides == {"a.b": "c", "num.io.threads": "2"}
    assert scenario.plan(random.Random(0), stage.profile) == bug.plan
    roles = scenario.workloads(stage)
    rates = {r.params["acks"]: r.params["rate_per_s"] for r in roles if r.role == "producer"}
    assert rates == {-1: 300.0, 1: 7}
    assert {"producer", "consumer", "metadata-reader"} <= {role.role for role in roles}


def test_a_topic_may_be_apart_from_the_controller(tmp_path: Path) -> None:
    bug = load(written(tmp_path, GOOD.replace('"victim"', '"apart"\nreplicas = 2')))
    stage = Stage(nodes=(1, 2, 3), controller=2, victim=1, profile=profile_of(bug))
    (topic,) = scenario_of(bug, {}).topics(stage)
    assert topic.assignment == {0: [1, 3], 1: [3, 1]}


def test_who_writes_with_acks_one_may_be_left_out(tmp_path: Path) -> None:
    bug = load(written(tmp_path, GOOD.replace('topic = "t"', 'topic = "t"\nacks_one_per_s = 0')))
    stage = Stage(nodes=(1, 2, 3), controller=3, victim=1, profile=profile_of(bug))
    roles = scenario_of(bug, {}).workloads(stage)
    assert [r.params["acks"] for r in roles if r.role == "producer"] == [-1]


def test_static_members_share_a_group_each_by_its_own_name(tmp_path: Path) -> None:
    bug = load(written(tmp_path, GOOD.replace('topic = "t"', 'topic = "t"\nstatic_members = 2')))
    stage = Stage(nodes=(1, 2, 3), controller=3, victim=1, profile=profile_of(bug))
    members = [r for r in scenario_of(bug, {}).workloads(stage) if r.role == "group-consumer"]
    assert len({member.params["group"] for member in members}) == 1
    names = [member.params["client"]["group.instance.id"] for member in members]
    assert len(set(names)) == 2


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('id = "KAFKA-1"', 'id = "kafka 1"', "id: 'kafka 1'"),
        ('id = "KAFKA-1"', 'id = "KAFKA-2"', "id: 'KAFKA-2'; allowed: the file's name"),
        ('sut = "kafka-zk"', 'sut = "dualplane"', "sut: 'dualplane'; allowed: kafka-zk"),
        ('"recovery: never-in-sync"', '"never"', "found_by: allowed"),
        ('topic = "t"', 'topic = "u"', "load.topic: 'u'; allowed: t"),
        ('leader = "victim"', 'leader = "2"', "topics.t.leader: '2'; allowed: spread, victim"),
        ("partitions = 2", "partitions = 0", "topics.t.partitions: 0; allowed: a number"),
        ("partitions = 2", "colour = 2", "topics.t.colour: is unknown"),
        ('title = "a thing goes wrong"', "", "title: None; allowed: a text"),
        ('title = "a', 'weight = "a', "title: None"),
        ('releases = "2.4.0 to 2.5.0"', 'releases = "x"\nheight = 1', "height: is unknown"),
        ("[load]", "[load", "KAFKA-1.toml: "),
        ("[load]", "[load]\nchaos_s = 0", "load.chaos_s: 0; allowed: a number above 0"),
        ('sut = "kafka-zk"', 'sut = "kafka-zk"\nleader_changes = 1', "leader_changes: 1; allowed"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_file_and_field(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in GOOD
    with pytest.raises(BugError, match=says) as refused:
        load(written(tmp_path, GOOD.replace(old, new)))
    assert str(tmp_path) in str(refused.value)


def test_a_plan_is_checked_as_every_plan(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"fault.*'eat' is not allowed"):
        load(written(tmp_path, GOOD.replace('fault = "kill"', 'fault = "eat"')))


def test_a_folder_without_bugs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BugError, match="no bug's file in it"):
        load_all(tmp_path)
