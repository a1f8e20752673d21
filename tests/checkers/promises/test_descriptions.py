"""What operators are told, each lie as a history that is caught beside one that is not."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.excuses import EXCUSES
from checkers.promises.descriptions import TOLD, UNTOLD, check
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

NODES = (1, 2)
OF_ZOOKEEPER = {
    ("Metadata", "", "cluster id"): "abc",
    ("Metadata", "", "broker 2"): "127.0.0.1:9002",
    ("Metadata", "t", "topic id"): "Q3o-BIrrTv2gu74u48kt6g",
    ("Metadata", "t-0", "replicas"): "[1, 2]",
    ("DescribeCluster", "", "controller"): "1",
    ("DescribeConfigs", "t", "min.insync.replicas"): "2",
}
OWN = {
    ("DescribeLogDirs", "t-0", "bytes"): "4000",
    ("DescribeLogDirs", "t-0", "offset lag"): "0",
    ("DescribeLogDirs", "t-0", "is future"): "False",
}
GROUPS = ("ListGroups", "", "groups")
"""How many each coordinates."""
NEW_ID = ("InitProducerId", "", "new producer id")
GAUGE = ("MBeans", "", "UnderReplicatedPartitions")
HELD_UP = ("ListPartitionReassignments", "called-off", "topics that move")
NEW_EPOCH = ("InitProducerId", "", "its epoch")
MOVE = ("ListPartitionReassignments", "called-off", "move")
FILE = ("DescribeConfigs of itself", "", "broker.id")
"""Each has its own."""
PRODUCER = ("DescribeProducers", "t-0", "producer 9")
Key = tuple[str, str, str]


def tell(story: Story, node: int, key: Key, told: str | None, **more: Any) -> None:
    api, name, part = key
    at = {"node": node, "api": api, "name": name, "key": part}
    story.add("described", 92_000, **{**at, "told": told, "known": False, **more})


def sound(story: Story, changed: dict[tuple[int, Key], str | None], *, known: bool = True) -> Story:
    """Two replicas, node 1 leads; ``changed``: what is told otherwise. ``known``: by ZooKeeper."""
    for node in NODES:
        story.add(
            "log_end", 90_000, node=node, log_start_offset=0, log_end_offset=40,
            high_watermark=40, is_leader=node == 1,
        )  # fmt: skip
        story.add(
            "log_folder", 91_000, node=node, segments=1, batches=40, start_offset=0, end_offset=40,
            epochs=[], checkpoint=[], damage=[],
            producers=[{"producer_id": 9, "producer_epoch": 1, "last_sequence": 39}],
        )  # fmt: skip
        for key, truth in OF_ZOOKEEPER.items():
            told = changed.get((node, key), truth)
            tell(story, node, key, told, truth=truth if known else None, known=known)
        for key, truth in OWN.items():
            tell(story, node, key, changed.get((node, key), truth), truth=truth, known=True)
        tell(story, node, GROUPS, str(node))
        tell(story, node, NEW_ID, changed.get((node, NEW_ID), str(1000 * node)))
        tell(story, node, NEW_EPOCH, changed.get((node, NEW_EPOCH), "0"), truth="0", known=known)
        own = str(node)
        tell(story, node, FILE, changed.get((node, FILE), own), truth=own, known=True)
    tell(story, 1, PRODUCER, changed.get((1, PRODUCER), "epoch 1, sequence 39"))
    tell(story, 1, GAUGE, changed.get((1, GAUGE), "3"), truth="3", known=True)
    listed = ("ListPartitionReassignments", "", "topics that move")
    tell(story, 1, listed, changed.get((1, listed), "[]"), truth="[]", known=True)
    tell(story, 1, HELD_UP, changed.get((1, HELD_UP), "['t']"), truth="['t']", known=True)
    moved = "on [1, 2, 3], to come [3], to go [2]"
    tell(story, 1, MOVE, changed.get((1, MOVE), moved), truth=moved, known=True)
    return story


LIES: dict[str, tuple[int, Key, str | None, str]] = {
    "another id of the cluster": (2, ("Metadata", "", "cluster id"), "abd", "cluster-otherwise"),
    "another address": (1, ("Metadata", "", "broker 2"), "127.0.0.1:1", "cluster-otherwise"),
    "a broker left out": (1, ("Metadata", "", "broker 2"), None, "cluster-otherwise"),
    "another topic id": (2, ("Metadata", "t", "topic id"), "another", "topic-otherwise"),
    "no topic id": (2, ("Metadata", "t", "topic id"), None, "topic-otherwise"),
    "other replicas": (2, ("Metadata", "t-0", "replicas"), "[2, 1]", "topic-otherwise"),
    "another controller": (1, ("DescribeCluster", "", "controller"), "2", "cluster-otherwise"),
    "another value": (
        1, ("DescribeConfigs", "t", "min.insync.replicas"), "1", "settings-otherwise",
    ),
    "a setting left out": (
        2, ("DescribeConfigs", "t", "min.insync.replicas"), None, "settings-otherwise",
    ),
    "an id that is in a log": (2, NEW_ID, "9", "producer-id-twice"),
    "an id that another gives": (2, NEW_ID, "1000", "producer-id-twice"),
    "another size": (2, ("DescribeLogDirs", "t-0", "bytes"), "4001", "log-otherwise"),
    "behind itself": (2, ("DescribeLogDirs", "t-0", "offset lag"), "3", "log-otherwise"),
    "another sequence": (1, PRODUCER, "epoch 1, sequence 38", "producers-otherwise"),
    "nobody lags": (1, GAUGE, "0", "gauge-otherwise"),
    "a gauge that is not there": (1, GAUGE, None, "gauge-otherwise"),
    "a move that is none": (
        1, ("ListPartitionReassignments", "", "topics that move"), "['t']", "moves-otherwise",
    ),
    "a move that is not told": (1, HELD_UP, "[]", "moves-otherwise"),
    "who comes goes": (1, MOVE, "on [1, 2, 3], to come [2], to go [3]", "moves-otherwise"),
    "a partition's move is not told": (1, MOVE, None, "moves-otherwise"),
    "a later epoch": (2, NEW_EPOCH, "1", "producer-id-aged"),
    "another's setting": (2, FILE, "1", "settings-otherwise"),
    "a setting that its file does not have": (2, FILE, None, "settings-otherwise"),
}  # fmt: skip


@judging(check)
def test_a_sound_history(story: Any) -> Asks:
    outcome = yield sound(story, {})
    assert not outcome.counts
    assert not outcome.unknowns
    assert outcome.evidence[story.arm, 0, TOLD] == 31


@pytest.mark.parametrize("lie", LIES)
@judging(check)
def test_each_rule(story: Any, lie: str) -> Asks:
    node, key, told, rule = LIES[lie]
    outcome = yield sound(story, {(node, key): told})
    assert dict(outcome.counts) == {rule: 1}
    assert outcome.findings[0].says.startswith(f"node {node} says by {key[0]}")


@pytest.mark.parametrize(
    ("key", "truth", "odd"),
    [
        (("Metadata", "t", "topic id"), "another", True),
        (("Metadata", "t", "topic id"), None, True),
        (("DescribeLogDirs", "t-0", "bytes"), "9", False),
    ],
)
@judging(check)
def test_what_two_brokers_are_asked_has_one_truth(
    story: Any, key: Key, truth: str | None, odd: bool
) -> Asks:
    """Both lie in the same way: what is told is what is held to be true. A log has its own size."""
    sound(story, {(2, key): truth})
    for row in story.rows["described"]:
        if row["node"] == 2 and (row["api"], row["name"], row["key"]) == key:
            row["truth"] = truth
    outcome = yield story
    assert not outcome.counts
    assert bool(outcome.unknowns) == odd


@judging(check)
def test_moves_that_one_controller_listed_the_next_need_not(story: Any) -> Asks:
    sound(story, {})
    listed = ("ListPartitionReassignments", "", "topics that move")
    tell(story, 2, listed, "[]", truth="[]", known=True)
    outcome = yield story
    assert not outcome.counts
    assert not outcome.unknowns


@judging(check)
def test_a_setting_that_nobody_made(story: Any) -> Asks:
    sound(story, {})
    for node in NODES:
        tell(story, node, ("DescribeConfigs", "t", "cleanup.policy"), "compact", known=True)
    outcome = yield story
    assert dict(outcome.counts) == {"settings-otherwise": 2}


@pytest.mark.parametrize("lie", [lie for lie in LIES if LIES[lie][1] in OF_ZOOKEEPER])
@judging(check)
def test_where_nobody_else_knows_brokers_agree(story: Any, lie: str) -> Asks:
    """But on who is controller: without ZooKeeper any broker may be named."""
    node, key, told, _rule = LIES[lie]
    outcome = yield sound(story, {(node, key): told}, known=False)
    assert dict(outcome.counts) == ({} if key[2] == "controller" else {"brokers-disagree": 1})


@judging(check)
def test_a_log_that_is_not_described(story: Any) -> Asks:
    outcome = yield sound(story, {(2, key): None for key in OWN})
    assert dict(outcome.counts) == {"log-otherwise": 3}


@judging(check)
def test_a_leader_that_forgot_a_producer(story: Any) -> Asks:
    outcome = yield sound(story, {(1, PRODUCER): None})
    assert dict(outcome.counts) == {"producers-otherwise": 1}


@judging(check)
def test_a_producer_of_whom_no_record_is_left(story: Any) -> Asks:
    sound(story, {})
    tell(story, 1, ("DescribeProducers", "t-0", "producer 8"), "epoch 0, sequence 3")
    assert not (yield story).counts


@judging(check)
def test_gauges_are_each_brokers_own(story: Any) -> Asks:
    """What has no truth may be said, and need not be the same everywhere."""
    sound(story, {})
    tell(story, 1, GAUGE, "2")
    tell(story, 2, GAUGE, "0")
    outcome = yield story
    assert not outcome.counts
    assert not outcome.unknowns


@judging(check)
def test_who_told_its_gauges_only_has_described_nothing(story: Any) -> Asks:
    sound(story, {})
    story.add("log_end", 90_000, node=3, log_start_offset=0, log_end_offset=40, is_leader=False)
    tell(story, 3, GAUGE, "0", truth="0", known=True)
    outcome = yield story
    assert outcome.unknowns == [f"{story.arm}, trial 0: nobody tells what node 3 describes"]


@judging(check)
def test_an_api_that_is_not_answered(story: Any) -> Asks:
    sound(story, {})
    story.add("described", 92_000, node=2, api="DescribeProducers", error="gone")
    outcome = yield story
    assert not outcome.counts
    assert outcome.unknowns == [
        f"{story.arm}, trial 0: DescribeProducers got no answer of node 2: gone"
    ]


@pytest.mark.parametrize(
    ("error", "known", "denies"),
    [
        ("NOT_LEADER_OR_FOLLOWER", True, True),
        ("UNKNOWN_TOPIC_OR_PARTITION", True, True),
        ("NOT_LEADER_OR_FOLLOWER", False, False),  # it may have led no more
        ("KAFKA_STORAGE_ERROR", True, False),
    ],
)
@judging(check)
def test_a_leader_that_says_that_it_is_none(
    story: Any, error: str, known: bool, denies: bool
) -> Asks:
    sound(story, {})
    story.add("described", 92_000, node=1, api="ListOffsets", error=error, known=known)
    outcome = yield story
    assert outcome.counts == ({"leader-denies-operator": 1} if denies else {})
    assert bool(outcome.unknowns) is not denies


@judging(check)
def test_a_node_that_nobody_asked(story: Any) -> Asks:
    sound(story, {})
    story.add("log_end", 90_000, node=3, log_start_offset=0, log_end_offset=40, is_leader=False)
    outcome = yield story
    assert outcome.unknowns == [f"{story.arm}, trial 0: nobody tells what node 3 describes"]


@judging(check)
def test_a_value_of_which_one_node_says_nothing(story: Any) -> Asks:
    sound(story, {})
    tell(story, 1, ("Metadata", "", "broker 1"), "127.0.0.1:9001", truth=None)
    outcome = yield story
    assert outcome.unknowns == [
        f"{story.arm}, trial 0: nobody tells what node 2 says by Metadata of  broker 1"
    ]


@pytest.mark.parametrize(
    ("missing", "leaders", "unknown"),
    [
        ("ListPartitionReassignments", "written", True),
        ("DescribeLogDirs", "written", True),
        ("ListGroups", "written", True),
        ("DescribeCluster", "written", False),  # an older release
        ("ListPartitionReassignments", "shown", False),
        ("ListPartitionReassignments", "in a quorum", False),  # no ZooKeeper to hold it against
        (None, "written", False),
    ],
)
@judging(check)
def test_an_api_by_which_nobody_tells_anything(
    story: Any, missing: str | None, leaders: str, unknown: bool
) -> Asks:
    known = leaders != "in a quorum"
    story.run["arms"][story.arm]["leaders"] = leaders if known else "written"
    every = ("DescribeCluster", "Metadata", "DescribeLogDirs", "ListGroups")
    for api in (*every, "ListPartitionReassignments"):
        if api != missing:
            on_disk = api == "DescribeLogDirs"
            truth = {"truth": "so", "known": True} if known or on_disk else {"truth": None}
            tell(story, 1, (api, "", "something"), "so", **truth)
    outcome = yield story
    says = f"{story.arm}, trial 0: nobody tells what any node says by {missing}"
    assert outcome.unknowns == ([says] if unknown else [])


NEWEST = ("ListOffsets", "t-0", "newest record")
RECORDS = ((0, 1_000), (1, 1_010), (2, 1_050), (3, 1_050), (4, 1_020))
"""Offset and time of each record of node 1's log, which leads."""


def with_records(
    story: Story, told: str, *, start: int = 0, committed: int = 5, **topic: Any
) -> Story:
    dated = {"configs": {"message.timestamp.type": "LogAppendTime"}}
    story.run["topics"] = {"t": topic or dated}
    story.add(
        "log_end", 90_000, node=1, log_start_offset=start, log_end_offset=5,
        high_watermark=committed, is_leader=True,
    )  # fmt: skip
    for offset, time_ms in RECORDS[start:]:
        story.add("log_read", 90_001, node=1, offset=offset, append_time_ms=time_ms)
        story.add("log_read", 90_001, node=2, offset=offset, append_time_ms=9_000)
    tell(story, 1, NEWEST, told)
    return story


NEWEST_TOLD: dict[str, tuple[str, dict[str, Any], bool]] = {
    "the first of the latest": ("offset 2, time 1050", {}, True),
    "the last of the latest": ("offset 3, time 1050", {}, True),
    "the last by offset": ("offset 4, time 1020", {}, False),
    "another time": ("offset 2, time 1051", {}, False),
    "another offset": ("offset 1, time 1050", {}, False),
    "another offset, dated by its client": ("offset 1, time 1050", {"configs": {}}, True),
    "beyond the end": ("offset 5, time 1050", {}, False),
    "none": ("offset -1, time -1", {}, False),
    "none, where retention takes them": (
        "offset -1, time -1", {"configs": {"retention.ms": "1000"}}, True,
    ),
    "one that was deleted": ("offset 3, time 1050", {"start": 4}, True),
    "none, where one is left": ("offset -1, time -1", {"start": 4}, False),
    "none, where it is not committed": ("offset -1, time -1", {"committed": 2}, True),
    "none of none": ("offset -1, time -1", {"start": 5}, True),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "key", "may", "lawful"),
    [
        ("refused: positions of a group", "version 1", False, False),
        ("refused: positions of a group", "version 1", True, True),
        ("refused: positions of a group", "version 2", True, False),
        ("positions of a group", "version 1", True, False),
    ],
)
@judging(check)
def test_who_refuses_an_old_client_tells_it(
    story: Any, name: str, key: str, may: bool, lawful: bool
) -> Asks:
    """But for a system of which it is known that it does not."""
    story.run["arms"][story.arm] = {**story.run["arms"].get(story.arm, {}), UNTOLD: may}
    sound(story, {})
    for node, told in ((1, "errors: no error"), (2, "the same")):
        at = ("OffsetFetch by version", name, key)
        tell(story, node, at, told, truth="the same", known=True)
    outcome = yield story
    assert outcome.counts == ({} if lawful else {"versions-disagree": 1})
    excused = [(one.rule, one.excuse, one.n) for one in outcome.excuses()]
    assert excused == [("versions-disagree", "refusal-untold", 1)] * lawful
    assert "refusal-untold" in EXCUSES


@pytest.mark.parametrize("case", NEWEST_TOLD)
@judging(check)
def test_the_newest_record(story: Any, case: str) -> Asks:
    told, more, lawful = NEWEST_TOLD[case]
    outcome = yield with_records(story, told, **more)
    assert dict(outcome.counts) == ({} if lawful else {"newest-otherwise": 1})


@pytest.mark.parametrize(
    ("api", "told", "truth", "known", "rule"),
    [
        ("Metadata by version", "the same", "the same", True, None),
        ("Metadata by version", "topics t: None", "the same", True, "versions-disagree"),
        ("Metadata by version", "topics t: None", "the same", False, None),
        ("CreateTopics asked for", "3 partitions", "3 partitions", True, None),
        ("CreateTopics asked for", "4 partitions", "3 partitions", True, "operation-otherwise"),
    ],
)
@judging(check)
def test_what_one_broker_says_in_two_ways_or_was_asked_for(
    story: Any, api: str, told: str, truth: str, known: bool, rule: str | None
) -> Asks:
    """Of one broker alone: another need not say so."""
    sound(story, {})
    tell(story, 1, (api, "all topics", "version 0"), told, truth=truth, known=known)
    tell(story, 2, (api, "all topics", "version 0"), truth, truth=truth, known=known)
    outcome = yield story
    assert outcome.counts == ({rule: 1} if rule else {})
    assert not outcome.unknowns


@judging(check)
def test_who_was_asked_in_all_versions_has_described_nothing(story: Any) -> Asks:
    sound(story, {})
    story.add("log_end", 90_000, node=3, log_start_offset=0, log_end_offset=40, is_leader=False)
    same = "the same"
    for node in (*NODES, 3):
        tell(story, node, ("Fetch by version", "t", "version 4"), same, truth=same, known=True)
    outcome = yield story
    assert outcome.unknowns == [f"{story.arm}, trial 0: nobody tells what node 3 describes"]


@judging(check)
def test_one_of_those_that_are_asked_in_all_versions_was_not(story: Any) -> Asks:
    sound(story, {})
    same = "the same"
    tell(story, 1, ("Fetch by version", "t", "version 4"), same, truth=same, known=True)
    says = "nobody tells what node 2 says in which version of a request"
    assert (yield story).unknowns == [f"{story.arm}, trial 0: {says}"]


@judging(check)
def test_what_was_asked_in_all_versions_is_not_known_by_zookeeper(story: Any) -> Asks:
    """Without it nobody is asked what is being moved."""
    sound(story, {}, known=False)
    moves, rows = "ListPartitionReassignments", story.rows["described"]
    rows[:] = [r for r in rows if r["api"] not in (moves, GAUGE[0])]
    same = "the same"
    for node in NODES:
        tell(story, node, ("Fetch by version", "t", "version 4"), same, truth=same, known=True)
    outcome = yield story
    assert not outcome.unknowns
