"""Plans that scenarios draw: repeatable, within their profile's time, on targets that exist."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from checkers.promises import departures
from checkers.promises.departures.lagging import SLACK_NS
from checkers.promises.departures.left_waiting import WAIT_NS as LEFT_WAIT_NS
from checkers.promises.log_starts import TRIES
from checkers.promises.log_starts.without_the_gone import TOLD_NS
from checkers.promises.polls.given_late import WAIT_NS
from checkers.promises.recovery.between_faults import LIMIT_NS
from faults import build
from faults.hung_broker import HungBroker
from faults.plan import Plan
from faults.protocol import Capability, Entry, Link
from faults.reassignment import shifted
from harness.arms import Skipped, arms_of
from harness.scenarios import SCENARIOS
from harness.scenarios.base import REST_MS, Stage, checks_for, rested
from harness.settings import PROFILES, Settings
from harness.workload import record_deleter
from harness.workload.spec import WorkloadSpec
from harness.workload.told import told

ROOT = Path(__file__).resolve().parents[2]
STAGE = Stage(nodes=(1, 2, 3), controller=2, victim=1, profile=PROFILES["smoke"])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_draws_one_plan(name: str, profile: str) -> None:
    scenario = SCENARIOS[name]
    plans = [scenario.plan(random.Random(seed), PROFILES[profile]) for seed in (7, 7, 8)]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]
    assert plans[0].entries
    # A round that a profile is too short for is played whole all the same; a rest comes on top.
    assert plans[0].duration_ms <= max(PROFILES[profile].chaos_s * 1000, 31_000) + REST_MS


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_plan_names_is_a_topic_of_the_scenario(name: str) -> None:
    scenario = SCENARIOS[name]
    known = {t.name for t in scenario.topics(STAGE)} | {"__consumer_offsets"}
    plan = scenario.plan(random.Random(1), PROFILES["ci"])
    for entry in plan.entries:
        target = str(entry.params.get("target", ""))
        _role, _, partition = target.partition(":")
        if "-" in partition:
            assert partition.rsplit("-", 1)[0] in known, entry


RESTED = {
    *("broker-restart", "controller-pause", "disk-lost", "double-failover", "idle-elections"),
    *("isr-by-lag", "lagging-follower", "leader-handover", "log-recovery", "lone-broker"),
    *("preferred-leaders", "zombie-broker"),
}
"""Those that tell a story more than once, or several, with nothing in place between them."""


@pytest.mark.parametrize("name", sorted(RESTED))
def test_nothing_is_in_place_for_a_while_between_two_turns(name: str) -> None:
    """Or the next one would mend what the one before it broke. Not always after the same one, and
    not in a short run."""
    rests = [rest(plan) for plan in plans(name)]
    assert all(longest_ms >= REST_MS > LIMIT_NS / 1e6 for longest_ms, _after in rests)
    turns = {after for _longest_ms, after in rests}
    assert len(turns) > 1 or len(plans(name)[0].entries) == 2 or name in HALVED
    short = SCENARIOS[name].plan(random.Random(1), PROFILES["smoke"])
    assert rest(short)[0] < REST_MS


HALVED = ("disk-lost", "leader-handover", "zombie-broker")
"""Two turns of several faults each."""


def rest(plan: Plan) -> tuple[int, int]:
    """The longest (ms) after the first fault, and after how many of them it comes."""
    over_ms, found = 0, [(0, 0)]
    for number, entry in enumerate(plan.entries):
        if number:
            found.append((entry.at_ms - over_ms, number))
        over_ms = max(over_ms, entry.at_ms + entry.duration_ms)
    return max(found)


def test_what_overlaps_the_rest_puts_it_off() -> None:
    def entry(name: str, at_ms: int, duration_ms: int) -> Entry:
        return Entry(id=name, fault="kill", at_ms=at_ms, duration_ms=duration_ms, params={})

    entries = [entry("b", 3000, 500), entry("a", 100, 2000), entry("long", 200, 2500)]
    ci = PROFILES["ci"]
    begun = {e.id: e.at_ms for e in rested(entries, random.Random(1), ci, [0, 3000])}
    assert begun == {"a": 100, "long": 200, "b": 2700 + REST_MS}
    alone = rested(entries, random.Random(1), ci, [0])
    assert [e.at_ms for e in alone] == [100, 200, 3000]


LEFT_TO_THE_SEED = {
    "mixture": "its faults are drawn",
    "zombie-controller": "a zombie is made in one of two ways, and is one all the same",
}


@pytest.mark.parametrize("name", [n for n in SCENARIOS if n not in LEFT_TO_THE_SEED])
def test_neither_a_seed_nor_a_short_run_leaves_a_situation_out(name: str) -> None:
    """What a bug needs to show must be there in every run that is called valid."""
    plan = SCENARIOS[name].plan
    short = replace(PROFILES["ci"], chaos_s=8.0)
    drawn = [situations(plan(random.Random(seed), short)) for seed in range(20)]
    longest = situations(plan(random.Random(1), PROFILES["nightly"]))
    assert [found ^ longest for found in drawn] == [set()] * len(drawn)


def situations(plan: Plan) -> set[tuple[str, ...]]:
    ways = ("how", "laggard", "way", "kind", "succeeded")
    return {
        (e.fault, *(str(e.params[name]) for name in ways if name in e.params)) for e in plan.entries
    }


def collected(*options: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "harness/", "--collect-only", "-q", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if "test_scenario[" in line]
    return {line.split("[", 1)[1].rstrip("]") for line in lines}


@pytest.mark.slow
def test_a_profile_plays_its_scenarios_and_those_that_are_named() -> None:
    smoke = {name for name, s in SCENARIOS.items() if "smoke" in s.profiles}
    assert "zombie-broker" not in smoke
    assert collected() == smoke
    assert collected("-k", "zombie") == {"zombie-controller"}
    assert collected("-k", "zombie-broker") == {"zombie-broker"}
    assert collected("--profile=ci") == {n for n, s in SCENARIOS.items() if "ci" in s.profiles}


def test_the_readme_lists_each_with_its_conjecture() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| \S", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(SCENARIOS)
    assert set(rows[:4]) == {n for n, s in SCENARIOS.items() if "smoke" in s.profiles}


def test_handed_over_partitions_are_fetched_by_threads_of_their_own() -> None:
    """As the scenario needs it: not by one that may be waiting for the consumers' offsets."""
    from harness.scenarios import leader_handover
    from nodes.core.types import TopicPartition
    from nodes.replication.fetcher_manager import ReplicaFetcherManager

    class Nobody:
        def partition(self, _tp: object) -> None: ...
        def complete_delayed_fetches(self, _tps: object) -> None: ...

    def threads(topic: str, partitions: int) -> set[int]:
        manager = ReplicaFetcherManager(
            Nobody(),  # type: ignore[arg-type]
            lambda _leader, _thread: pytest.fail("nothing is fetched here"),
            fetchers_per_leader=int(leader_handover.FETCHERS),
            max_bytes=1,
            backoff_ms=1,
            now_ns=lambda: 0,
        )
        return {manager._fetcher_id(TopicPartition(topic, p)) for p in range(partitions)}

    own = threads(leader_handover.TOPIC, leader_handover.PARTITIONS)
    assert not own & threads("__consumer_offsets", 3)


def test_a_torn_log_ends_where_a_batch_of_its_leader_ends() -> None:
    """Else who trusts the torn end is stuck behind it, and nobody sees what it would have done."""
    roles = [r for r in SCENARIOS["log-recovery"].workloads(STAGE) if r.role == "producer"]
    producers = [r for r in roles if "recovered" in r.params["topics"]]
    assert len(producers) == 2
    assert all(r.params["client"] == {"batch.num.messages": "1"} for r in producers)


def test_a_broker_that_was_stopped_in_order_is_the_first_to_be_torn() -> None:
    for plan in plans("log-recovery"):
        ahead, first, *others, namesake = plan.entries
        assert (namesake.fault, namesake.after) == ("namesake", others[-1].id)
        assert (ahead.fault, first.after) == ("stopped-ahead", "ahead")
        assert first.params["stopped_first"]
        assert first.params["mode"] == "scrambled"  # only who looks at its checksum sees it
        assert others
        assert not any(entry.params["stopped_first"] for entry in others)
        assert first.at_ms + first.duration_ms < others[0].at_ms


def test_who_is_stopped_ahead_leads_and_is_not_the_controller() -> None:
    """Its times are asked by nobody: Apache Kafka forgets them (BIPLANE-2)."""
    scenario = SCENARIOS["log-recovery"]
    (ahead,) = (t for t in scenario.topics(STAGE) if t.name == "ahead")
    assert ahead.assignment[0][0] == STAGE.victim
    assert len(ahead.assignment[0]) == 3
    roles = [r for r in scenario.workloads(STAGE) if "ahead" in r.params.get("topics", ())]
    assert {(r.role, r.params.get("acks")) for r in roles} == {
        ("producer", -1),
        ("producer", 1),
        ("consumer", None),
    }


# ---- situations brought about on purpose ---------------------------------------------------------


def plans(name: str, profile: str = "ci", seeds: int = 30) -> list[Plan]:
    return [SCENARIOS[name].plan(random.Random(seed), PROFILES[profile]) for seed in range(seeds)]


def test_who_lags_is_who_is_killed() -> None:
    """One entry resolves its target once; a lag and a kill by two entries may hit two brokers."""
    for plan in plans("broker-restart"):
        assert {e.fault for e in plan.entries} <= {"lagged-kill", "stop", "pause"}
        for e in plan.entries:
            if e.fault == "lagged-kill":
                assert str(e.params["partition"]).startswith("kept-")
                assert (e.params["resend"], e.params["longer_ms"]) == (True, 1000)
                assert e.duration_ms > e.params["longer_ms"] + 400  # and it is gone for a while
        targets = [str(e.params["target"]) for e in plan.entries if e.fault == "stop"]
        assert targets[0] == "not-controller"  # which remembers whom it took for stopping
        targets[1:] += [str(e.params["target"]) for e in plan.entries if e.fault == "pause"]
        assert all(target.startswith("leader:") for target in targets[1:])
    assert any(e.fault == "lagged-kill" for e in plans("broker-restart", "smoke")[0].entries)


def test_the_first_to_go_is_stopped_while_nothing_else_is_wrong() -> None:
    for plan in plans("broker-restart"):
        first, second = plan.entries[:2]
        assert first.fault == "stop"
        assert first.at_ms + 1500 < second.at_ms


def test_the_controller_dies_before_it_can_hear_of_a_death() -> None:
    scenario = SCENARIOS["controller-death"]
    topic, aside = scenario.topics(STAGE)
    # Whoever lives leads some of what is written to beside what is refused.
    assert {r[0] for r in aside.assignment.values()} == set(STAGE.nodes)
    assert {r[0] for r in topic.assignment.values()} == set(STAGE.nodes)  # one leads, and lives
    assert topic.assignment[0][0] == STAGE.victim != STAGE.controller
    assert all(len(r) == 3 for r in topic.assignment.values())
    for plan in plans("controller-death"):
        assert {e.fault for e in plan.entries} == {"joint-death"}
        for e in plan.entries:
            assert int(e.params.get("gap_ms", 300)) < scenario.session_timeout_ms / 2
            # Both sessions end, and a successor is held to what it owes for five seconds.
            assert e.duration_ms > 2 * scenario.session_timeout_ms + 5000


def test_each_laggard_has_its_turn_and_is_in_sync_meanwhile() -> None:
    from harness.scenarios import lagging_follower as under_test

    scenario = SCENARIOS["lagging-follower"]
    for plan in plans("lagging-follower"):
        again, *uneven, crossed = plan.entries
        assert (again.fault, crossed.fault) == ("leading-again", "crossed-epochs")
        assert {e.params["laggard"] for e in uneven} == {"successor", "last"}
        lagging = [again, *uneven]
        assert all(int(e.params["lag_ms"]) < scenario.session_timeout_ms for e in lagging)
        # The leader stays away until another was elected: longer than its session.
        assert all(e.duration_ms > scenario.session_timeout_ms for e in uneven)
    assert "replica.lag.time.max.ms" not in scenario.overrides  # 30 s: nobody is dropped
    topic, led_again, of_two = scenario.topics(STAGE)
    assert {tuple(r) for r in topic.assignment.values()} == {(1, 3, 2)}
    assert led_again.assignment == of_two.assignment == {0: [2, 1, 3]}
    assert {r.params.get("acks") for r in scenario.workloads(STAGE)} >= {-1, 1}
    assert under_test.CONFIGS["min.insync.replicas"] == "2"
    # Who writes ahead stays with its leader while another leads: only what is elected lags.
    ahead, taken = (r for r in scenario.workloads(STAGE) if r.role == "direct-producer")
    assert (ahead.params["topic"], ahead.params["target"]) == (led_again.name, STAGE.controller)
    # Who writes to the third goes with its leader.
    assert (taken.params["topic"], taken.params["acks"]) == (of_two.name, 1)
    assert "patience_ms" not in taken.params
    assert ahead.params["patience_ms"] > 2 * under_test.LAG_MS
    assert under_test.AHEAD / under_test.AHEAD_PER_S < under_test.LAG_MS / 1000 / 2


def test_sets_shrink_in_every_way_and_only_by_lag() -> None:
    scenario = SCENARIOS["isr-by-lag"]
    lag_ms = int(scenario.overrides["replica.lag.time.max.ms"])
    assert 1500 <= lag_ms <= 2000
    assert 5 * lag_ms < scenario.session_timeout_ms
    for plan in plans("isr-by-lag"):
        lags = [e for e in plan.entries if e.fault == "isr-lag"]
        assert {e.params["how"] for e in lags} == {"pause", "latency", "cut", "trickle"}
        assert {e.params["lag_ms"] for e in lags} == {lag_ms}
        slow, succeeded = (e for e in plan.entries if e.fault != "isr-lag")
        # Whoever is controller then need not be paused, nor hear of leaders late, any more.
        assert succeeded == plan.entries[-1]
        assert succeeded.after == plan.entries[-2].id
        assert succeeded.fault == "isr-lag-succeeded"
        paused = next(e for e in lags if e.params["how"] == "pause")
        assert slow.at_ms < paused.at_ms < slow.at_ms + slow.duration_ms
        # A leader waits so long for who is not in sync, but was a moment ago.
        assert int(paused.params["unheard_ms"]) > lag_ms
    topic = scenario.topics(STAGE)[0]
    assert topic.configs["min.insync.replicas"] == "2"
    assert {r[0] for r in topic.assignment.values()} == {STAGE.victim}


def test_in_the_end_an_unclean_election_is_allowed_where_nothing_can_be_lost() -> None:
    scenario = SCENARIOS["last-in-sync"]
    (topic,) = (t for t in scenario.topics(STAGE) if t.given_later)
    assert topic.given_later == {"unclean.leader.election.enable": "true"}
    assert not topic.given_later.keys() & topic.configs.keys()
    assert [len(r) for r in topic.assignment.values()] == [2]
    assert STAGE.controller not in topic.assignment[0]
    used = {t for r in scenario.workloads(STAGE) for t in (r.params.get("topics") or ())}
    assert topic.name not in used
    for plan in plans("last-in-sync"):
        *_, before, allowed = plan.entries
        assert (allowed.fault, allowed.after) == ("unclean-allowed", before.id)
        assert allowed.params["partition"] == f"{topic.name}-0"


def test_a_request_waits_for_some_of_its_partitions_and_not_for_others() -> None:
    """Neither its first partition nor its last has the follower that is stopped; one between has
    no other follower."""
    scenario = SCENARIOS["isr-by-lag"]
    (role,) = [r for r in scenario.workloads(STAGE) if r.process == "producer-paired"]
    ((name, partitions),) = role.params["topics"].items()
    (topic,) = [t for t in scenario.topics(STAGE) if t.name == name]
    assert {r[0] for r in topic.assignment.values()} == {STAGE.victim}
    (stopped,) = set(STAGE.nodes) - {STAGE.victim, STAGE.controller}
    waiting = [stopped in topic.assignment[p] for p in range(partitions)]
    assert (waiting[0], any(waiting), waiting[-1]) == (False, True, False)
    assert all(len(r) == 2 for r in topic.assignment.values())
    assert topic.configs["min.insync.replicas"] == "2"


def test_who_waits_for_another_partition_keeps_a_patient_producer_waiting() -> None:
    """Its partition has a follower that goes on; a request for all of them waits for one that does
    not, for longer than it allows; and what it sends is read."""
    scenario = SCENARIOS["isr-by-lag"]
    roles = {r.process: r for r in scenario.workloads(STAGE)}
    patient, joint = roles["patient-producer"], roles["producer-paired"]
    name, partition = patient.params["topic"], patient.params["partition"]
    assert name in joint.params["topics"]
    (topic,) = [t for t in scenario.topics(STAGE) if t.name == name]
    (stopped,) = set(STAGE.nodes) - {STAGE.victim, STAGE.controller}
    assert stopped not in topic.assignment[partition]
    lag_ms = int(scenario.overrides["replica.lag.time.max.ms"])
    assert patient.params["ack_timeout_ms"] <= lag_ms
    assert name in roles["consumer-paired"].params["topics"]


def test_who_is_given_less_than_is_written_lags_though_it_fetches() -> None:
    scenario = SCENARIOS["isr-by-lag"]
    for plan in plans("isr-by-lag"):
        (trickle,) = [e for e in plan.entries if e.params.get("how") == "trickle"]
        name = trickle.params["partition"].rpartition("-")[0]
        (topic,) = [t for t in scenario.topics(STAGE) if t.name == name]
        assert topic.configs["min.insync.replicas"] == "1"  # what is committed runs away from it
        (writer,) = [r for r in scenario.workloads(STAGE) if r.params.get("topic") == name]
        assert topic.assignment[0][0] == writer.params["target"] != STAGE.victim
        fetches_per_s = 1000 / (trickle.params["lag_ms"] // 4)
        fetched = fetches_per_s * int(scenario.overrides["replica.fetch.max.bytes"])
        assert 2 * fetched < writer.params["rate_per_s"] * 64  # bytes of values alone
        # Who leads it is stopped long after: till the smaller set was due (and drops it then).
        due_ms = trickle.at_ms + 1.5 * trickle.params["lag_ms"] + SLACK_NS / 1e6
        stops = [e for e in plan.entries if e.params.get("how") == "pause"]
        assert all(due_ms + 5_000 < e.at_ms for e in stops)


def test_how_many_must_be_in_sync_is_raised_after_the_topic_was_made() -> None:
    topic = SCENARIOS["isr-by-lag"].topics(STAGE)[0]
    assert topic.made_with is not None
    assert {**topic.made_with, "min.insync.replicas": "2"} == topic.configs
    assert topic.made_with["min.insync.replicas"] == "1"


def test_what_a_broker_leads_is_written_to_in_one_request() -> None:
    for name in ("isr-by-lag", "broker-restart"):
        (role,) = [r for r in SCENARIOS[name].workloads(STAGE) if r.process == "joint-producer"]
        topic = SCENARIOS[name].topics(STAGE)[0]
        led = [replicas[0] for replicas in topic.assignment.values()]
        assert role.params["topics"] == {topic.name: len(led)}
        assert max(led.count(node) for node in STAGE.nodes) > 1  # else each is a request alone


@pytest.mark.slow
def test_who_ends_alone_has_what_its_producers_will_send_again() -> None:
    roles = SCENARIOS["lone-broker"].workloads(STAGE)
    idempotent = [r for r in roles if r.params.get("idempotent")]
    assert idempotent
    for role in idempotent:  # each of its batches is the last one
        assert role.params["client"]["max.in.flight.requests.per.connection"] == "1"
    for plan in plans("lone-broker", "nightly"):
        for e in plan.entries:
            assert (e.params.get("held_ms", 0) > 0) == (e.fault in ("kill", "stop"))


@pytest.mark.parametrize("name", ["broker-restart", "double-failover", "lone-broker"])
def test_one_goes_when_the_one_before_is_back(name: str) -> None:
    """However long it takes to stop: a broker on its way out is nobody's aim, and who waits for
    full in-sync sets does not wait in vain."""
    for plan in (*plans(name), *plans(name, "nightly", 5)):
        ids = [entry.id for entry in plan.entries]
        assert [entry.after for entry in plan.entries] == ["", *ids[:-1]]


def test_who_comes_back_last_hears_of_partitions_that_it_has_no_replica_of() -> None:
    scenario = SCENARIOS["broker-restart"]
    (topic,) = [t for t in scenario.topics(STAGE) if t.name == "elsewhere"]
    strangers = [set(STAGE.nodes) - set(r) for r in topic.assignment.values()]
    assert set.union(*strangers) == set(STAGE.nodes)
    (reader,) = [r for r in scenario.workloads(STAGE) if r.role == "metadata-reader"]
    assert topic.name in reader.params["topics"]
    for plan in plans("broker-restart", "smoke"):
        # A pause leaves a broker what it knew.
        assert [e.fault for e in plan.entries] == ["stop", "pause", "lagged-kill"]


@pytest.mark.parametrize("profile", PROFILES)
def test_who_was_away_is_back_before_another_goes(profile: str) -> None:
    for plan in plans("broker-restart", profile):
        for one, following in zip(plan.entries, plan.entries[1:], strict=False):
            assert one.at_ms + one.duration_ms < following.at_ms, (one.id, following.id)


def test_records_are_deleted_where_brokers_come_and_go() -> None:
    """Of each broker's partitions, of topics of their own: what is kept elsewhere stays whole. Of
    one nobody else can tell a broker where its log begins."""
    scenario = SCENARIOS["broker-restart"]
    roles = scenario.workloads(STAGE)
    (deleter,) = [r for r in roles if r.role == "record-deleter"]
    replicas = []
    for name, partitions in deleter.params["topics"].items():
        (topic,) = [t for t in scenario.topics(STAGE) if t.name == name]
        assert {r[0] for r in topic.assignment.values()} == set(STAGE.nodes)
        assert len(topic.assignment) == partitions
        replicas.append({len(r) for r in topic.assignment.values()})
        writers = [r for r in roles if name in r.params["topics"] and r is not deleter]
        assert [(r.role, r.params["acks"]) for r in writers] == [("joint-producer", -1)]
    assert replicas == [{3}, {1}]


def test_nothing_stays_of_what_producers_wrote_last_but_their_names() -> None:
    scenario = SCENARIOS["broker-restart"]
    (leaving,) = [r for r in scenario.workloads(STAGE) if r.params.get("leaves")]
    (topic,) = [t for t in scenario.topics(STAGE) if t.name in leaving.params["topics"]]
    assert topic.configs["cleanup.policy"] == "compact"
    assert int(topic.configs["delete.retention.ms"]) < 1000  # from one compaction to the next
    # A segment is full of those who have left when it is compacted.
    assert leaving.params["raises"] + 1 < 10 * int(topic.configs["segment.ms"]) / 1000
    assert {len(replicas) for replicas in topic.assignment.values()} == {3}


def test_who_leads_unheard_is_sent_acks_all_alone() -> None:
    scenario = SCENARIOS["double-failover"]
    roles = [r for r in scenario.workloads(STAGE) if "acks" in r.params]
    writers = [
        r for r in roles if "unheard" in (r.params.get("topic"), *r.params.get("topics", ()))
    ]
    assert [r.params["acks"] for r in writers] == [-1]
    (topic,) = (t for t in scenario.topics(STAGE) if t.name == "unheard")
    assert topic.configs["min.insync.replicas"] == "2"


@pytest.mark.parametrize("profile", PROFILES)
def test_two_leaders_die_twice(profile: str) -> None:
    for plan in plans("double-failover", profile):
        assert len(plan.entries) >= 2
        uneven = [e for e in plan.entries if e.fault == "uneven-failover"]
        assert {e.params["how"] for e in plan.entries if e not in uneven} == {"kill", "stop"}
        # Who lags is stopped, and stays in office all the same.
        limit_ms = SCENARIOS["double-failover"].session_timeout_ms
        # Who leads in the end takes nothing while it is alone: all of it is acks=all.
        assert {e.params["partition"] for e in uneven} == {"unheard-0"}
        # Neither of the two that die is the controller then, who speaks through what is held back.
        assert plan.entries[0] is uneven[0]
        (topic,) = (t for t in SCENARIOS["double-failover"].topics(STAGE) if t.name == "unheard")
        assert STAGE.controller == topic.assignment[0][-1]
        assert all(e.params["lag_ms"] < limit_ms for e in uneven)
        for one, following in zip(plan.entries, plan.entries[1:], strict=False):
            assert one.at_ms + one.duration_ms < following.at_ms


def test_who_died_ahead_returns_and_its_leader_dies_silent() -> None:
    """Its successor is written to more slowly than it was, and dies while it cannot be heard."""
    from harness.scenarios import returning_leader as under_test
    from harness.scenarios.returning_follower import RETURN_MS

    scenario = SCENARIOS["returning-leader"]
    for plan in plans("returning-leader"):
        ahead, silent, unready, gone = sorted(plan.entries, key=lambda e: e.at_ms)
        found = [e.fault for e in (ahead, silent, unready, gone)]
        assert found == ["lagged-kill", "toxic", "unready-preferred", "kill"]
        assert ahead.params["records"] == under_test.AHEAD
        back_ms = ahead.at_ms + ahead.duration_ms
        assert ahead.duration_ms > scenario.session_timeout_ms  # another was elected
        assert silent.at_ms < back_ms < gone.at_ms < silent.at_ms + silent.duration_ms
        assert back_ms < unready.at_ms < gone.at_ms  # it is asked for when it is back
        # It dies when it is a second or two old, at least.
        assert ahead.at_ms + 1000 + under_test.PATIENCE_MS > gone.at_ms
    (topic,) = scenario.topics(STAGE)
    assert {r[0] for r in topic.assignment.values()} == {STAGE.victim}
    (direct,) = (r for r in scenario.workloads(STAGE) if r.role == "direct-producer")
    assert direct.params["target"] == STAGE.victim
    others = [r for r in scenario.workloads(STAGE) if r.role == "producer"]
    away_s = (under_test.AWAY_MS + RETURN_MS) / 1000
    assert sum(r.params["rate_per_s"] for r in others) * away_s < under_test.AHEAD


def test_leaders_move_while_a_broker_hears_no_controller() -> None:
    for plan in plans("unheard-orders"):
        *turns, blind, gone, bounce, news, settings, removed, growth = plan.entries
        assert [e.fault for e in (bounce, news)] == ["unseen-bounce", "unheard-news"]
        # Whoever comes into office afterwards would look at every topic.
        assert (growth.fault, growth.after) == ("unseen-growth", removed.id)
        assert growth.params["topic"] == news.params["topic"]
        assert [e.fault for e in (settings, removed)] == ["unseen-settings", "remove-controller"]
        assert (bounce.after, news.after) == (gone.id, bounce.id)
        assert (settings.after, removed.after) == (news.id, settings.id)
        # Set for good, and for a topic that was made without it.
        assert settings.params["configs"] == ["message.timestamp.type=LogAppendTime"]
        # Who leads nothing, as one that has just come back, is decided about in no way.
        assert bounce.params == {"target": "other-leader"}
        assert (blind.fault, gone.fault) == ("link-down", "stop")
        assert blind.params == {"target": "controller", "link": "zookeeper"}
        # It goes unseen, and stays away for longer than it may be left in its places.
        assert blind.at_ms < gone.at_ms < blind.at_ms + blind.duration_ms
        seen_ms = blind.at_ms + blind.duration_ms
        assert gone.at_ms + gone.duration_ms - seen_ms > departures.LIMIT_NS / 1e6
        assert blind.duration_ms < SCENARIOS["unheard-orders"].session_timeout_ms / 2
        for deaf, move in zip(turns[::2], turns[1::2], strict=True):
            assert (deaf.fault, move.fault) == ("link-down", "move-leadership")
            assert deaf.params == {"target": "not-controller", "link": "control"}
            assert deaf.at_ms < move.at_ms < deaf.at_ms + deaf.duration_ms


def test_nobody_dies_after_the_stop_whom_the_controller_is_to_give_back() -> None:
    for plan in plans("preferred-leaders"):
        assert [e.fault for e in plan.entries[:3]] == ["kill", "pause", "stop"]
        assert plan.entries[-1].fault == "stop"


def test_who_registers_anew_lets_another_in_before_and_after() -> None:
    """What it says of itself to the controller must not be what it was before."""
    seen = set()
    for plan in plans("preferred-leaders"):
        assert [e.after for e in plan.entries] == ["", *(e.id for e in plan.entries[:-1])]
        kill, pause, stop = (str(e.params["target"]) for e in plan.entries[:3])
        assert kill == stop != pause
        assert {kill, pause} == {"not-controller:0", "not-controller:1"}
        seen.add(pause)
    assert len(seen) == 2


def test_somebody_waits_for_records_most_of_the_time() -> None:
    """Longer than from one to the next, or nobody could tell who is woken from who is not."""
    from harness.scenarios import preferred_leaders as under_test

    scenario = SCENARIOS["preferred-leaders"]
    roles = {r.process: r for r in scenario.workloads(STAGE)}
    writer, reader = roles["producer-awaited"], roles["consumer-awaiting"]
    assert reader.params["topics"] == writer.params["topics"] == {"awaited": len(STAGE.nodes)}
    each_s = len(STAGE.nodes) / writer.params["rate_per_s"]
    assert each_s * 1000 > 1.2 * WAIT_NS / 1e6
    assert reader.params["fetch_wait_ms"] > 2 * each_s * 1000
    (topic,) = (t for t in scenario.topics(STAGE) if t.name == under_test.AWAITED)
    assert {r[0] for r in topic.assignment.values()} == set(STAGE.nodes)
    assert reader.params["client"] == {"fetch.message.max.bytes": "1"}
    counting = roles["consumer-counting"]
    assert counting.params == {**reader.params, "client": {"fetch.min.bytes": "2"}}
    assert each_s * 1000 > int(topic.configs["segment.ms"])


def test_a_groups_coordinator_is_aimed_at() -> None:
    from harness.scenarios import group_rebalance as under_test
    from nodes.groups.store import partition_for

    for group in ("sharers", "a", "polygenelubricants", "a-group-of-some-name"):
        assert under_test.offsets_partition(group, 50) == partition_for(group, 50)
    scenario = SCENARIOS["group-rebalance"]
    partitions = int(scenario.overrides["offsets.topic.num.partitions"])
    where = partition_for(under_test.GROUP, partitions)
    for plan in plans("group-rebalance"):
        moves, (unheard, *deaths, taken) = plan.entries[:3], plan.entries[3:]
        assert [e.fault for e in moves] == ["move-leadership"] * 3
        moved = [str(e.params["partitions"]) for e in moves]
        assert moved[0] == f"__consumer_offsets-{where}" != moved[1]
        assert moves[1].params["times"] == len(STAGE.nodes)  # it goes all the way around
        # The coordinator's partition as well, in two steps: back to who had it first.
        assert moved[2] == moved[0]
        assert {e.params["order"] for e in moves} == {"rotate"}
        assert 1 + moves[2].params["times"] == len(STAGE.nodes)
        assert moves[2].at_ms > moves[0].at_ms + 1500
        # Then whoever coordinates it is succeeded with positions that are nowhere else.
        assert (unheard.fault, unheard.params["partition"]) == ("lagged-move", moved[2])
        assert moves[2].at_ms < unheard.at_ms < deaths[0].at_ms
        coordinators = deaths[::2]
        assert {e.fault for e in coordinators} == {"lagged-kill", "stop"}
        for e in coordinators:
            aim = e.params["partition"] if e.fault == "lagged-kill" else e.params["target"]
            assert str(aim).removeprefix("leader:") == f"__consumer_offsets-{where}"
        assert {e.fault for e in deaths[1::2]} == {"unanswered-kill"}
        # Last, who coordinates it loses its replica, and lives.
        assert taken.fault == "reassign"
        assert taken.params == {"partitions": moved[2], "to": "followers"}
        assert taken.at_ms > deaths[-1].at_ms
        assert taken.after == deaths[-1].id
    roles = list(scenario.workloads(STAGE))
    members = [r for r in roles if r.role == "group-consumer"]
    assert len({(r.process, r.params.get("rejoin_ms")) for r in members}) == 5
    # One is static, and back within its session.
    (static,) = [r for r in members if "group.instance.id" in r.params.get("client", {})]
    assert static.params["rejoin_ms"] < 6_000
    # One lives by its heartbeats alone: it commits more seldom than its session lasts.
    (slow,) = [r for r in members if "commit_ms" in r.params]
    assert slow.params["commit_ms"] > slow.params["session_timeout_ms"]
    assert slow.params["group"] != under_test.GROUP
    (gone,) = [r for r in members if "gone_ms" in r.params]
    # It is missed, and its partitions are others' again, before the load ends: in any profile.
    waited_ms = gone.params["gone_ms"] + gone.params["session_timeout_ms"]
    assert waited_ms < PROFILES["smoke"].chaos_s * 1000 / 2
    least = int(scenario.overrides["group.min.session.timeout.ms"])
    assert least <= gone.params["session_timeout_ms"]
    assert [r.params["idempotent"] for r in roles if r.role == "producer"] == [True, True]
    assert "groups" in scenario.checks
    assert "polls" in scenario.checks  # of a member, from one assignment to the next


def test_an_upgrade_begins_without_the_listener_and_is_held_to_planes() -> None:
    scenario = SCENARIOS["rolling-upgrade"]
    assert scenario.overrides["control.plane.listener.name"] == ""  # removes it
    assert scenario.late_links == {Link.CONTROL}
    assert "planes" in checks_for(scenario.checks, [frozenset(Capability)])
    for profile in PROFILES:
        upgrade, moves = plans("rolling-upgrade", profile)[0].entries
        assert (upgrade.fault, moves.fault) == ("plane-upgrade", "leadership-churn")
        assert moves.at_ms > upgrade.at_ms + 4000  # for then it may be done
    tried = {
        (e.params["wrong_order"], e.params["dynamic"])
        for plan in plans("rolling-upgrade")
        for e in plan.entries
        if e.fault == "plane-upgrade"
    }
    assert tried == {(True, False), (False, True), (True, True)}


def test_an_upgrade_to_planes_is_played_with_those_only() -> None:
    scenario = SCENARIOS["rolling-upgrade"]
    both = arms_of(scenario, Settings.of(planes="single,dual"))
    assert [arm.planes for arm in both] == ["dual"]
    with pytest.raises(Skipped, match="single planes are not its own"):
        arms_of(scenario, Settings.of(planes="single"))
    other = arms_of(SCENARIOS["broker-restart"], Settings.of(planes="priority"))
    assert [arm.planes for arm in other] == ["priority"]


def test_settings_of_topics_are_laid_over_those_of_their_brokers() -> None:
    scenario = SCENARIOS["double-failover"]
    defaults = {name.removeprefix("log.") for name in scenario.overrides}
    assert defaults == {"message.timestamp.type"}
    for topic in scenario.topics(STAGE):
        assert topic.configs
        assert not defaults & topic.configs.keys()


def test_lost_disks_are_followed_by_a_lost_leader() -> None:
    """And who is back finds a log that has lost its head."""
    roles = SCENARIOS["disk-lost"].workloads(STAGE)
    for plan in plans("disk-lost"):
        wipes = [e for e in plan.entries if e.fault == "wipe-disk"]
        kills = [e for e in plan.entries if e.fault == "kill"]
        silences = [e for e in plan.entries if e.fault == "toxic"]
        assert {str(e.params["target"]).split(":")[0] for e in wipes} == {"leader", "successor"}
        assert all(e.duration_ms > SCENARIOS["disk-lost"].session_timeout_ms for e in wipes)
        assert len(kills) == len(silences) == (len(wipes) + 1) // 2
        for kill, silence, wiped in zip(kills, silences, wipes[::2], strict=True):
            back_ms = wiped.at_ms + wiped.duration_ms
            # Who is back gets nothing before its leader is gone: it cannot catch up.
            assert silence.at_ms < back_ms < kill.at_ms < silence.at_ms + silence.duration_ms
            assert silence.params["target"] == kill.params["target"]
            assert kill.params["target"].split(":")[0] == "leader"
        back_ms = min(e.at_ms + e.duration_ms for e in wipes)
        (deleter,) = [r for r in roles if r.role == "record-deleter"]
        assert deleter.params["until_ms"] < back_ms  # and there is more to fetch than it leaves
        failed = plan.entries[-1]
        assert failed.fault == "fail-disk"
        assert failed.after in {e.id for e in (*wipes, *kills, *silences)}


@pytest.mark.parametrize("profile", PROFILES)
def test_partitions_wander_while_a_broker_on_their_way_is_flooded(profile: str) -> None:
    scenario = SCENARIOS["reassignment"]
    for plan in plans("reassignment", profile):
        flood = next(e for e in plan.entries if e.fault == "flood-heavy-produce")
        *moves, replaced, left = (e for e in plan.entries if e.fault == "reassign")
        assert len(moves) >= 2
        assert replaced.params["partitions"] == "shortened-0"
        assert left.params["partitions"] == "left-0"
        assert plan.entries[-1].after == left.id
        # Whoever moves all, or elects a controller amid a move, comes after those before.
        (succeeded,) = (e for e in plan.entries if e.fault == "reassign-succeeded")
        later = [*(move for move in moves if move.id == "wander-on"), succeeded]
        for before, entry in pairwise((*moves, succeeded)):
            assert entry.after == (before.id if entry in later else "")
        for move in moves:
            assert flood.at_ms < move.at_ms < flood.at_ms + flood.duration_ms
        # No two entries move one partition at one time.
        single = [e.params["partitions"] for e in moves if e.id != "wander-on"]
        assert len(set(single)) == len(single)
    wandering = next(t for t in scenario.topics(STAGE) if t.name == "wandering")
    assert all(len(r) < len(STAGE.nodes) for r in wandering.assignment.values())


def test_a_leader_stays_while_its_follower_is_replaced_and_records_are_deleted() -> None:
    scenario = SCENARIOS["reassignment"]
    (topic,) = (t for t in scenario.topics(STAGE) if t.name == "shortened")
    leader, left = topic.assignment[0]
    moved = shifted(topic.assignment[0], STAGE.nodes)
    assert leader in moved
    assert left not in moved
    (deleter,) = (r for r in scenario.workloads(STAGE) if r.role == "record-deleter")
    assert deleter.params["topics"] == {topic.name: 1}


def test_each_leader_in_turn_loses_its_replica_while_acks_all_waits_there() -> None:
    scenario = SCENARIOS["reassignment"]
    (topic,) = (t for t in scenario.topics(STAGE) if t.name == "left")
    replicas = topic.assignment[0]
    (role,) = (r for r in scenario.workloads(STAGE) if r.role == "direct-producer")
    assert (role.params["topic"], role.params["acks"]) == ("left", -1)
    assert role.params["ack_timeout_ms"] > LEFT_WAIT_NS / 1e6
    for plan in plans("reassignment"):
        (entry,) = (e for e in plan.entries if e.id == "left")
        left = set()
        for _ in range(int(entry.params["times"])):
            left.add(replicas[0])
            moved = shifted(replicas, STAGE.nodes)
            assert replicas[0] not in moved
            replicas = moved
        assert left == set(STAGE.nodes)


def test_a_deletion_is_tried_again_and_again_while_somebody_hangs() -> None:
    scenario = SCENARIOS["zombie-broker"]
    (topic,) = (t for t in scenario.topics(STAGE) if t.name == "shortened")
    assert all(len(replicas) == len(STAGE.nodes) for replicas in topic.assignment.values())
    (role,) = (r for r in scenario.workloads(STAGE) if r.role == "record-deleter")
    deleter = record_deleter.Params(**role.params)
    tried_ms = deleter.wait_ms + 1000 * len(record_deleter.QUESTIONS) / deleter.rate_per_s
    for plan in plans("zombie-broker"):
        hung = build(plan.entries[-1])
        assert isinstance(hung, HungBroker)
        assert hung.stays_ms > TOLD_NS / 1e6 + TRIES * tried_ms


def test_elections_come_in_the_pauses_of_every_producer() -> None:
    scenario = SCENARIOS["idle-elections"]
    producers = [r for r in scenario.workloads(STAGE) if r.role == "producer"]
    pauses = {(r.params["busy_ms"], r.params["idle_ms"]) for r in producers}
    ((busy_ms, idle_ms),) = pauses
    assert busy_ms > 0
    assert idle_ms > 3 * scenario.session_timeout_ms  # for a kill and an election in a pause
    for plan in plans("idle-elections"):
        assert {e.params["kill"] for e in plan.entries} == {True, False}


def test_the_flooded_broker_is_the_controller() -> None:
    scenario = SCENARIOS["overloaded-controller"]
    for plan in plans("overloaded-controller"):
        by_fault = {e.fault: e for e in plan.entries}
        flood = by_fault["flood-heavy-produce"]
        assert flood.params["target"] == "controller"
        churn = by_fault["topic-churn"]
        assert flood.at_ms < churn.at_ms
        assert churn.at_ms + churn.duration_ms < flood.at_ms + flood.duration_ms
        # Of an election that it hears of last nobody is told before the flood is over.
        unheard = by_fault["unheard-election"]
        assert unheard.at_ms > flood.at_ms + flood.duration_ms
        assert unheard.after == churn.id
        assert "move-leadership" in by_fault
    prober = next(r for r in scenario.workloads(STAGE) if r.role == "prober")
    assert prober.params["nodes"] == [STAGE.controller]


@pytest.mark.parametrize("name", ["broker-restart", "mixture", "group-rebalance"])
def test_idempotent_producers_have_values_of_their_own(name: str) -> None:
    producers = [r for r in SCENARIOS[name].workloads(STAGE) if r.role == "producer"]
    assert sum(bool(r.params.get("idempotent")) for r in producers) == 2
    gathering = [r for r in producers if r.params.get("linger_ms", 0) > 100]
    assert [r.params["client"]["compression.type"] for r in gathering] == ["lz4"]
    assert len({r.params.get("first_value", 0) for r in producers}) == len(producers)


@pytest.mark.parametrize("name", SCENARIOS)
def test_of_every_role_run_json_can_tell(name: str) -> None:
    """What a client is to do is in its parameters, and those who write have values of their own."""
    writers: dict[str, int] = {}
    for role in SCENARIOS[name].workloads(STAGE):
        params = {**role.params, "listeners": {"1": {}}} if role.role == "prober" else role.params
        who = {"role": role.role, "process": role.process, "output": "unused"}
        record = told(WorkloadSpec(**who, bootstrap={1: "h:1"}, params=params))
        assert (record["process"], record["role"]) == (role.process, role.role)
        if "acks" in record:
            assert record["topics"]
            writers[role.process] = role.params.get("first_value", 0)
    assert len(set(writers.values())) == len(writers)


def test_the_new_ones_are_beyond_smoke() -> None:
    smoke = {name for name, s in SCENARIOS.items() if "smoke" in s.profiles}
    assert smoke == {"request-flood", "acks1-truncation", "broker-restart", "zombie-controller"}


def test_whoever_keeps_groups_asks_all_that_it_is_held_to() -> None:
    """`checkers.facts.questions` holds the role, not each process, to its sorts of questions."""
    keepers = [
        role
        for scenario in SCENARIOS.values()
        for role in scenario.workloads(STAGE)
        if role.role == "group-keeper"
    ]
    assert {role.process for role in keepers} >= {"group-keeper", "group-waiter"}
    assert all(role.params.get("visits") and role.params.get("clears") for role in keepers)


def test_what_crosses_a_move_waits_for_the_moves_before_it() -> None:
    """A flood may hold moves up until it is over: what calls one off, or asks for another order,
    would cross those that are still on their way."""
    for plan in plans("reassignment"):
        moving = [e for e in plan.entries if e.id != "flood" and not e.id.startswith("wander-")]
        by_id = {e.id: e for e in plan.entries}
        assert [e.id for e in moving][:3] == ["succeeded", "called-off", "contrary"]
        for entry in moving:
            assert entry.after is not None
            assert by_id[entry.after].at_ms <= entry.at_ms
        assert [e.after for e in moving[1:]] == [e.id for e in moving[:-1]]
