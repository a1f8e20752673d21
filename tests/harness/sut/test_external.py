"""A cluster that runs already: what is played there and touched, and what stands in the way."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from faults.plan import Plan
from faults.protocol import Capability, Entry, FaultFailed, Link, PartitionState
from faults.registry import FAULTS
from harness.arms import Skipped, arms_of, plan_of
from harness.cluster.external import ExternalCluster, cluster_of
from harness.consent import with_consent
from harness.probe import IN_THE_WAY, NO_ANSWER, READY, in_words, probed
from harness.run import record_run
from harness.run_record import not_judged
from harness.runtime.process import ProcessRuntime
from harness.runtime.protocol import Address, Programs, SetupError
from harness.scenarios import SCENARIOS
from harness.scenarios.base import Stage
from harness.settings import PROFILES, Settings, SettingsError
from harness.sut.external import system as system_module
from harness.sut.external.asked import BrokerSeen, Partition, Seen, obstacles, unknown, warnings
from harness.sut.external.here import NEVER, lacking
from harness.sut.external.owed import Owed
from harness.sut.external.own import Own, OwnAdmin, OwnToldView, OwnView, apart
from harness.sut.external.system import ExternalSystem
from harness.sut.protocol import HasPlantedBugs, IsDescribed, RunsAlready, limits_of
from nodes.wire.apis import SUPPORTED, ApiKey

WAYS = "ways: {start: [a], stop: [b], kill: [c], pause: [d], resume: [e]}\n"
APIS = {int(api): bounds for api, bounds in SUPPORTED.items()}
TOKEN = "biplane-0badcafe"


def brokers(count: int = 3, more: str = "") -> str:
    rows = "".join(
        f"  {n}: {{client: '127.0.0.1:{9000 + n}'{more}}}\n" for n in range(1, count + 1)
    )
    return f"cluster: 1\nname: theirs\nbrokers:\n{rows}"


def seen(count: int = 3, **changes: Any) -> Seen:
    found = {
        node: BrokerSeen(
            node=node,
            address=Address("127.0.0.1", 9000 + node),
            apis=dict(APIS),
            cluster_id="abc",
            members={n: f"k{n}:9092" for n in range(1, count + 1)},
            partitions=[Partition("orders", 0, 1, (1, 2, 3), (1, 2, 3))],
        )
        for node in range(1, count + 1)
    }
    for name, value in changes.items():
        setattr(found[2], name, value)
    return Seen(brokers=found)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(text: str = brokers() + WAYS, found: Seen | None = None) -> ExternalSystem:
        (tmp_path / "theirs.yaml").write_text(text)
        monkeypatch.setattr(system_module, "look", lambda _form: found or seen())
        return ExternalSystem(tmp_path / "theirs.yaml")

    return make


def entry(fault: str, **params: Any) -> Entry:
    return Entry(id=fault, fault=fault, at_ms=0, duration_ms=100, params=params)


# -- what can be played ---------------------------------------------------------------------------


def test_what_it_can_do_follows_from_its_commands_and_from_what_its_brokers_answer(
    system: Any, tmp_path: Path
) -> None:
    assert system().capabilities == {
        Capability.KILL,
        Capability.PAUSE,
        Capability.CONTROLLED_STOP,
        Capability.ELECT_LEADERS,
    }
    assert system(brokers()).capabilities == {Capability.ELECT_LEADERS}
    old = seen(apis={k: v for k, v in APIS.items() if k != ApiKey.ELECT_LEADERS})
    assert system(brokers(), old).capabilities == set()
    (tmp_path / "logs").mkdir()
    assert Capability.LOG_FILES in system(brokers(more=", logs: logs")).capabilities
    assert Capability.LOG_FILES not in system(brokers(more=", logs: elsewhere")).capabilities


ALL = frozenset(Capability) - {Capability.LINKS, Capability.FRAMES}


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (entry("toxic", link="client", kind="latency"), None),
        (entry("toxic", kind="latency"), None),
        (entry("link-down", link=["client"]), None),
        (entry("link-down", link=["client", "inter-broker"]), "links between brokers"),
        (entry("toxic", link="inter-broker", kind="latency"), "links between brokers"),
        (entry("isolate"), "links between brokers"),
        (entry("unanswered-kill", partition="t-0"), None),
        (entry("lagged-kill", partition="t-0"), "links between brokers"),
        (entry("kill", target="1"), None),
        (entry("torn-tail"), "damages logs"),
        (entry("wipe-disk"), "removes logs"),
        (entry("broker-config"), "changes settings"),
        (entry("frames"), "needs frames"),
    ],
)
def test_a_link_is_there_for_clients_only(one: Entry, why: str | None) -> None:
    found = lacking(one, ALL)
    assert (found is None) if why is None else (found is not None and why in found)


def test_whatever_writes_to_log_folders_or_settings_is_known() -> None:
    """Who reads a broker's log folder and changes something in it must be listed as never played;
    who is added later, too."""
    changes = ("write_bytes", "unlink", "rmtree", "truncate(", "reconfigure", "set_broker_config")
    found = set()
    for name, fault in FAULTS.items():
        module = Path(__import__(fault.__module__, fromlist=["x"]).__file__ or "")
        text = module.read_text()
        if any(f"{change}" in text for change in changes) or "lose_disk(" in text:
            found.add(name)
    assert found <= set(NEVER), found - set(NEVER)
    assert {"torn-tail", "wipe-disk", "last-standing"} <= found


def test_commands_that_lack_cost_their_faults_and_not_the_scenario(system: Any) -> None:
    sut = system(brokers() + "ways: {start: [a], stop: [b]}\n")
    plan = plan_of(SCENARIOS["broker-restart"], Settings.of(seed=1))
    kept, skipped = sut.playable(plan)
    assert {e.fault for e in kept.entries} == {"stop"}
    assert {e.fault: why for e, why in skipped} == {
        "pause": "needs commands for pause and resume",
        "lagged-kill": "needs commands for kill and start, links between brokers that can be cut, "
        "log folders that can be read from here",
    }


def test_scenarios_are_played_in_full_in_part_or_not_at_all(system: Any) -> None:
    found = {one.scenario: one for one in probed(system(), Settings.of(seed=0)).scenarios}
    assert found["lone-broker"].how == "full"
    assert found["broker-restart"].how == "part"
    assert set(found["broker-restart"].skipped) == {"lagged-kill"}
    assert found["log-recovery"].how == "no"
    assert "torn-tail: damages logs" in found["log-recovery"].why_not[0]
    assert "lacks control-requests" in found["overloaded-controller"].why_not[-1]
    assert "epochs" in found["broker-restart"].judged
    assert found["broker-restart"].not_judged["fencing"] == "it lacks control-requests"
    assert not set(found["broker-restart"].judged) & set(found["broker-restart"].not_judged)
    assert found["mixture"].how in ("part", "full")


def test_what_was_not_played_is_said_beside_the_verdict(system: Any) -> None:
    scenario, settings = SCENARIOS["broker-restart"], Settings.of(seed=1)
    said = not_judged(scenario, settings, system(), plan_of(scenario, settings))
    assert said["the fault lagged-kill"].startswith("not played: needs links between brokers")
    assert "the fault stop" not in said


def test_without_commands_only_what_takes_none_is_played(system: Any) -> None:
    settings = Settings.of(seed=0, sut=f"external:{system(brokers()).file}")
    assert arms_of(SCENARIOS["request-flood"], settings)
    with pytest.raises(Skipped, match="plays none of its faults"):
        arms_of(SCENARIOS["broker-restart"], settings)


def test_it_is_a_black_box_with_a_description_and_no_planted_bugs(system: Any) -> None:
    sut = system()
    assert isinstance(sut, RunsAlready)
    assert isinstance(sut, IsDescribed)
    assert not isinstance(sut, HasPlantedBugs)
    limits = limits_of(sut)
    assert (limits.leaders, limits.state, limits.takes_configs) == ("shown", "clients", False)
    with_zookeeper = system(brokers() + "zookeeper: 'zk:2181/kafka'\n")
    assert limits_of(with_zookeeper).state == "store"
    assert (with_zookeeper.form.zookeeper_hosts, with_zookeeper.form.chroot) == (
        "zk:2181",
        "/kafka",
    )


# -- names of its own -----------------------------------------------------------------------------

STAGE = Stage(nodes=(1, 2, 3), controller=1, victim=2, profile=PROFILES["ci"])


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_name_of_a_scenarios_is_left(name: str) -> None:
    """Whatever a scenario calls its topics and groups: not one of them reaches the cluster."""
    scenario = SCENARIOS[name]
    plan = plan_of(scenario, Settings.of(seed=3, profile="ci"))
    topics = {topic.name for topic in scenario.topics(STAGE)}
    own, own_plan = apart(scenario, plan, STAGE, TOKEN)
    assert {t.name for t in own.topics(STAGE)} == {f"{TOKEN}-{topic}" for topic in topics}
    groups = {r.params["group"] for r in scenario.workloads(STAGE) if "group" in r.params}
    for role in own.workloads(STAGE):
        said = json.dumps(dict(role.params))
        for text in (*topics, *groups):
            assert f'"{text}"' not in said
    for before, after in zip(plan.entries, own_plan.entries, strict=True):
        assert (after.fault, after.at_ms, after.duration_ms) == (
            before.fault,
            before.at_ms,
            before.duration_ms,
        )
        for text in _texts(after.params):
            bare = text.partition(":")[2] or text
            assert bare not in topics
            assert not any(bare.startswith(f"{topic}-") for topic in topics), text
    own_plan.check()  # every fault can be built of what it is given now


def _texts(value: Any) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [t for one in (*value.keys(), *value.values()) for t in _texts(one)]
    return [t for one in value for t in _texts(one)] if isinstance(value, list | tuple) else []


def test_faults_that_make_topics_name_them_after_the_token() -> None:
    plan = Plan.of(1, [entry("flood-produce"), entry("topic-churn"), entry("kill", target="1")])
    scenario = SCENARIOS["request-flood"]
    ids = [e.id for e in apart(scenario, plan, STAGE, TOKEN)[1].entries]
    assert sorted(ids) == sorted([f"{TOKEN}-flood-produce", f"{TOKEN}-topic-churn", "kill"])


class Whole:
    """A cluster's state with somebody else's topics in it."""

    def partitions(self, topic: str | None = None) -> Sequence[PartitionState]:
        return [
            PartitionState(name, 0, 1, 0, (1,), (1,), 0, 0)
            for name in ("orders", f"{TOKEN}-kept", "__consumer_offsets")
            if topic in (None, name)
        ]

    def pending(self) -> Sequence[tuple[str, str]]:
        return [("deletion", "orders"), ("deletion", f"{TOKEN}-kept")]


def test_only_its_own_topics_are_seen() -> None:
    own = Own(TOKEN)
    view = OwnView(Whole(), own)  # type: ignore[arg-type]
    assert view.partitions() == []
    own.made(f"{TOKEN}-kept")
    assert [s.topic for s in view.partitions()] == [f"{TOKEN}-kept"]
    assert view.partitions("orders") == []
    assert [s.topic for s in view.partitions("__consumer_offsets")] == ["__consumer_offsets"]
    assert view.pending() == [("deletion", f"{TOKEN}-kept")]
    told = OwnToldView({}, own)
    assert told.wanted(None) == [{"name": f"{TOKEN}-kept"}]
    assert told.wanted("orders") == []


def test_whatever_is_not_its_own_is_not_touched(tmp_path: Path) -> None:
    owed = Owed(tmp_path / "owed.json", file=tmp_path, text="", token=TOKEN)
    admin = OwnAdmin(Whole(), None, Own(TOKEN), owed)  # type: ignore[arg-type]
    for refused in (
        lambda: admin.create_topic("orders-2", {0: [1]}, {}),
        lambda: admin.delete_topic("orders"),
        lambda: admin.elect_preferred([(f"{TOKEN}-kept", 0), ("orders", 0)]),
        lambda: admin.reassign({("orders", 0): [1]}),
        lambda: admin.delete_topic("__consumer_offsets"),
    ):
        with pytest.raises(FaultFailed, match="is not this run's"):
            refused()
    with pytest.raises(FaultFailed, match="its owner's"):
        admin.set_broker_config(1, "a", "b")
    with pytest.raises(FaultFailed, match="no ZooKeeper"):
        admin.remove_controller()
    assert not list(tmp_path.glob("*.json"))


# -- the cluster ----------------------------------------------------------------------------------


def test_a_run_gives_back_no_log_directory_that_is_not_its_own(system: Any, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    sut = system(brokers(more=", logs: logs") + WAYS)
    runtime = ProcessRuntime()
    try:
        cluster = cluster_of(
            runtime,
            sut,
            next(iter(sut.plane_modes)),
            dir=tmp_path / "run",
            record=lambda *_, **__: None,
            rng=random.Random(1),
        )
        assert isinstance(cluster, ExternalCluster)
        assert cluster.log_dirs == []
        assert cluster.nodes.log_dir(1) == str(tmp_path / "logs")
        assert cluster.address(1, Link.CLIENT, direct=True) == ("127.0.0.1", 9001)
        proxy = cluster.address(1, Link.CLIENT)
        assert proxy.host == "127.0.0.1"
        assert proxy.port != 9001
        with pytest.raises(FaultFailed, match="no inter-broker link"):
            cluster.links.address(1, Link.INTER_BROKER)
        assert Capability.FRAMES not in cluster.capabilities
        assert cluster.owns(f"{cluster.own.token}-kept")
        assert not cluster.owns("orders")
    finally:
        runtime.close()


# -- what stands in the way -----------------------------------------------------------------------


def changed(**changes: Any) -> Seen:
    return seen(**changes)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (seen(members=dict.fromkeys((1, 2, 3, 4), "x:1")), "names broker 4"),
        (seen(members={1: "x:1", 2: "x:2"}), "does not know broker 3"),
        (seen(cluster_id="other"), "different clusters: abc, other"),
        (seen(apis={**APIS, int(ApiKey.PRODUCE): (9, 11)}), "broker 2 has no Produce 3"),
        (seen(apis={**APIS, int(ApiKey.FETCH): (4, 10)}), "broker 2 has no Fetch 11"),
        (seen(configs={"delete.topic.enable": "false"}), "could not be removed"),
        (seen(configs={"control.plane.listener.name": "C"}), "planes: dual"),
    ],
)
def test_what_stands_in_the_way_is_refused(system: Any, found: Seen, says: str) -> None:
    sut = system(found=found)
    assert any(says in line for line in obstacles(sut.form, found)), list(
        obstacles(sut.form, found)
    )
    with pytest.raises(SetupError, match=r"theirs\.yaml: "):
        sut.prepare(Programs(python="", java=""))
    assert probed(sut, Settings.of(seed=0)).exit_code == IN_THE_WAY


@pytest.mark.parametrize("isr", [(1, 2), ()])
def test_a_cluster_that_is_not_whole_is_left_alone(system: Any, isr: tuple[int, ...]) -> None:
    found = seen()
    found.brokers[1].partitions = [Partition("orders", 7, 1 if isr else -1, (1, 2, 3), isr)]
    sut = system(found=found)
    with pytest.raises(SetupError, match=r"orders-7 \(in sync .*allowed: a cluster at rest"):
        sut.prepare(Programs(python="", java=""))


def test_who_does_not_answer_makes_it_unknown(system: Any) -> None:
    found = seen(failure="refused")
    sut = system(found=found)
    assert list(unknown(sut.form, found)) == ["broker 2 (127.0.0.1:9002) does not answer: refused"]
    assert probed(sut, Settings.of(seed=0)).exit_code == NO_ANSWER
    with pytest.raises(SetupError, match="does not answer"):
        sut.prepare(Programs(python="", java=""))


def test_where_nobody_answers_one_line_says_so_and_no_scenario_is_refused(system: Any) -> None:
    found = seen(failure="refused")  # one of three
    told = list(in_words(probed(system(found=found), Settings.of(seed=0))))
    assert any("lone-broker: " in line for line in told)
    for broker in found.brokers.values():
        broker.failure = "refused"
    told = list(in_words(probed(system(found=found), Settings.of(seed=0))))
    assert "none of its brokers answers" in told[-1]
    assert not any("lone-broker: " in line for line in told)


def test_a_sound_cluster_is_ready_and_its_owner_told_what_to_expect(system: Any) -> None:
    found = seen(configs={"unclean.leader.election.enable": "true"})
    found.brokers[1].partitions.append(Partition("logs", 0, 2, (2,), (2,)))
    sut = system(found=found)
    sut.prepare(Programs(python="", java=""))
    told = probed(sut, Settings.of(seed=0))
    assert (told.exit_code, told.in_the_way) == (READY, [])
    assert len(list(warnings(sut.form, found))) == 2
    assert told.notes[0].startswith("1 partitions of 1 topics have one replica, such as logs")
    json.dumps(dataclasses.asdict(told))
    assert sut.session_timeout_ms == 18_000
    found.brokers[1].configs |= {"zookeeper.session.timeout.ms": "2500"}
    assert sut.session_timeout_ms == 2500


# -- consent --------------------------------------------------------------------------------------


def test_nothing_is_played_before_somebody_said_yes(
    system: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sut = system()
    scenario = SCENARIOS["broker-restart"]
    settings = Settings.of(sut=f"external:{sut.file}", seed=1, store=tmp_path / "store")
    assert not with_consent(settings, [scenario]).agreed  # no terminal here
    with pytest.raises(SettingsError, match="nobody agreed"):
        record_run(scenario, settings, lambda *_: None)
    assert not (tmp_path / "store").exists()
    with pytest.raises(SettingsError, match="nobody agreed"):
        with_consent(settings, [scenario], asks=lambda _: False)
    assert with_consent(settings, [scenario], asks=lambda _: True).agreed
    asked = capsys.readouterr().out
    assert "broker 3 at 127.0.0.1:9003" in asked
    assert "kill" in asked
    assert "broker-restart" in asked
    ours = Settings.of(seed=1)
    assert with_consent(ours, [scenario], asks=lambda _: pytest.fail("asked")) == ours
