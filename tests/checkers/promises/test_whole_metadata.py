"""Who answers, what is named, and whom as controller: both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.judging.witness import attach
from checkers.promises.whole_metadata import check
from tests.checkers.conftest import Story, judged_together
from tests.checkers.together import Asks, judging

LATE = 20_000
"""Long after all was healed (at 10 s)."""
UNKNOWN_TOPIC = 3


def says(story: Any, t: float, node: int, *partitions: int, **more: Any) -> None:
    """One answer about topic "t" (or another): the partitions that it names."""
    fields = {"controller_id": 1, "read": int(t * 10), "invoke_t": t - 1, **more}
    for partition in partitions:
        known = {"error": 0, "leader": 1, "leader_epoch": 0}
        story.add("metadata", t, node=node, partition=partition, **known, **fields)
    if not partitions:
        unknown = {"type": "fail", "error": UNKNOWN_TOPIC, **fields}
        story.add("metadata", t, node=node, partition=None, **unknown)


def elect(story: Any, t: float, node: int, controller_epoch: int) -> None:
    story.add("controller", t, node=node, event="elected", controller_epoch=controller_epoch)


def calmed(story: Any) -> Any:
    """Two partitions; faults ended at 10 s and every replica caught up by 11 s."""
    for node in (1, 2, 3):
        story.add("node_event", 0, node=node, event="start")
    elect(story, 5, 1, 1)
    story.commit(10, 1, 0)
    story.commit(10, 1, 0, partition=1)
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    for node in (1, 2, 3):
        says(story, LATE, node, 0, 1)
    return story


@judging(check, calm=calmed)
def test_what_is_whole_passes(calm: Any) -> Asks:
    says(calm, 5, 1)  # before it was made
    says(calm, 12, 2)  # just made
    says(calm, 4, 2, controller_id=-1)  # nobody told it yet
    found = yield calm
    assert found.verdict([(calm.arm, 0)]) == (Verdict.VALID, [])
    assert found.evidence[calm.arm, 0, "brokers heard"] == 3


@pytest.mark.parametrize(("untold", "unknown"), [(0, False), (1, False), (3, True), (9, False)])
@judging(check, calm=calmed)
def test_who_leaves_open_who_the_controller_is(calm: Any, untold: int, unknown: bool) -> Asks:
    """Of ten answers of broker 2; where nobody tells of controllers (9), that is another thing."""
    calm.rows["leadership"][0]["source"] = "zk"
    for number in range(9):
        says(calm, LATE + 10 * number + 10, 2, 0, 1)
    for row in calm.rows["metadata"]:
        if untold == 9 or (row["node"] == 2 and row["t"] >= (LATE + 100 - 10 * untold) * 1_000_000):
            row["controller_id"] = None
    found = (yield calm).unknowns
    assert any("do not tell of a controller" in why for why in found) == unknown


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        ("none", 0),
        ("one that lives, late", 1),
        ("one that lives, of two partitions", 1),
        ("one that lives, early", 0),
        ("one that is down", 0),
        ("one that is just back", 0),
        ("one that lives, forged", 0),
    ],
)
@judging(check, calm=calmed)
def test_who_is_called_offline(calm: Any, how: str, broken: int) -> Asks:
    t = 500 if "early" in how else LATE + 10
    says(calm, t, 2, 0, 1)
    for row in calm.rows["metadata"][-2 if "two" in how else -1 :]:
        row["offline"] = [] if how == "none" else [3]
    if "down" in how:
        calm.add("node_event", LATE, node=3, event="kill")
    if "just back" in how:
        calm.add("node_event", LATE - 100, node=3, event="start")
    if "forged" in how:
        calm.add("forged", LATE + 2, node=2, api="UPDATE_METADATA", lie="dead_broker", error=0)
    found = yield calm
    assert found.counts == ({"live-broker-offline": broken} if broken else {})
    assert [e.excuse for e in found.excuses()] == ["forged"] * ("forged" in how)


@pytest.mark.parametrize(
    ("how", "rules", "unknown"),
    [
        ("all", {}, False),
        ("one less, late", {"live-broker-unnamed": 1}, False),
        ("one less, early", {}, False),
        ("one less, which is down", {}, False),
        ("one less, which is just back", {}, False),
        ("one less, forged", {}, False),
        ("one more", {"stranger-named": 1}, False),
        ("never", {}, True),
        ("nobody ever", {}, False),
    ],
)
@judging(check, calm=calmed)
def test_which_brokers_are_named(calm: Any, how: str, rules: dict[str, int], unknown: bool) -> Asks:
    for row in calm.rows["metadata"]:
        row["brokers"] = None if how == "nobody ever" else [3, 1, 2]
    t = 500 if "early" in how else LATE + 10
    says(calm, t, 2, 0, 1)
    listed = [1, 2, 3, 9] if how == "one more" else [1, 2] if "less" in how else [1, 2, 3]
    calm.rows["metadata"][-1]["brokers"] = None if "ever" in how else listed
    if how == "never":
        for row in calm.rows["metadata"]:
            row["brokers"] = None if row["node"] == 2 else row["brokers"]
    if "down" in how:
        calm.add("node_event", LATE, node=3, event="kill")
    if "just back" in how:
        calm.add("node_event", LATE - 100, node=3, event="start")
    if "forged" in how:
        calm.add("forged", LATE + 2, node=2, api="UPDATE_METADATA", lie="dead_broker", error=0)
    found = yield calm
    assert found.counts == rules
    assert bool(found.verdict([(calm.arm, 0)])[1]) == bool(unknown or rules)
    assert [e.excuse for e in found.excuses()] == ["forged"] * ("forged" in how)


FORGOTTEN: dict[str, tuple[list[tuple[int, list[int]]], list[tuple[int, str]], int]] = {
    # what node 2 named when, when node 3 was registered or not, how often it is accused
    "who lives is named on": ([(500, [1, 2, 3]), (600, [1, 2, 3])], [], 0),
    "no more": ([(500, [1, 2, 3]), (600, [1, 2])], [], 1),
    "no more, and then again, twice": (
        [(500, [1, 2, 3]), (600, [1, 2]), (700, [1, 2, 3]), (800, [1, 2])],
        [],
        1,
    ),
    "nobody any more": ([(500, [1, 2, 3]), (600, [])], [], 3),
    "named late": ([(500, [1, 2]), (600, [1, 2, 3])], [], 0),
    "before it is gone": ([(500, [1, 2, 3]), (600, [1, 2])], [(610, "unregistered")], 1),
    "once it is gone": ([(500, [1, 2, 3]), (600, [1, 2])], [(590, "unregistered")], 0),
    "who is back already, of which nobody told it yet": (
        [(500, [1, 2, 3]), (600, [1, 2])],
        [(400, "unregistered"), (450, "registered")],
        0,
    ),
    "who is back, as it knew": (
        [(410, [1, 2, 3]), (420, [1, 2]), (500, [1, 2, 3]), (600, [1, 2])],
        [(400, "unregistered"), (450, "registered")],
        1,
    ),
    "who is back, and was named sooner than that": (
        [(410, [1, 2]), (425, [1, 2, 3]), (600, [1, 2])],
        [(400, "unregistered"), (430, "registered")],
        0,
    ),
    "who is back, and was once named late": (
        [(300, [1, 2]), (350, [1, 2, 3]), (460, [1, 2, 3]), (600, [1, 2])],
        [(400, "unregistered"), (450, "registered")],
        0,
    ),
    "who is back, of which it was told in between alone": (
        [(410, [1, 2, 3]), (440, [1, 2, 3]), (600, [1, 2])],
        [(400, "unregistered"), (430, "registered")],
        0,
    ),
}


@pytest.mark.parametrize("how", [*FORGOTTEN, "no more, forged", "no more, another life",
                                 "no more, at once with it", "no more, to another reader",
                                 "no more, without ZooKeeper", "no more, probed",
                                 "no more, probed for roles", "no more, probed elsewhere",
                                 "no more, probed later", "no more, probed before",
                                 "no more, probed before and given up"])  # fmt: skip
@judging(check, calm=calmed)
def test_who_is_named_is_named_as_long_as_it_is_registered(calm: Any, how: str) -> Asks:
    named, steps, broken = FORGOTTEN[how.partition(",")[0] if how not in FORGOTTEN else how]
    for row in calm.rows["leadership"]:
        row["source"] = "quorum" if "without" in how else "zk"
    for node in (1, 2, 3):
        calm.add("node_event", 2, node=node, event="registered")
    for t, event in steps:
        calm.add("node_event", t, node=3, event=event)
    for number, (t, brokers) in enumerate(named):
        more = {"invoke_t": 499.5} if "at once" in how and number else {}
        says(calm, t, 2, 0, 1, brokers=brokers, **more)
        if "another reader" in how and number:
            for row in calm.rows["metadata"][-2:]:
                row["process"] = "another"
    if "another life" in how:
        for event in ("kill", "start"):
            calm.add("node_event", 550, node=2, event=event)
    if "forged" in how:
        calm.add("forged", 550, node=2, api="UPDATE_METADATA", lie="dead_broker", error=0)
    if "probed" in how:
        api = "LEADER_AND_ISR" if "roles" in how else "UPDATE_METADATA"
        at = 700 if "later" in how else 450 if "before" in how else 550
        own = {"type": "info"} if "given up" in how else {}
        calm.add("probe", at, node=1 if "elsewhere" in how else 2, api=api, invoke_t=at - 5, **own)
    found = yield calm
    rule = "live-broker-forgotten"
    whose_doing = how not in FORGOTTEN and not how.endswith(
        ("roles", "elsewhere", "later", "before")
    )
    assert found.counts.get(rule, 0) == (0 if whose_doing else broken)
    excused = [e.excuse for e in found.excuses() if e.rule == rule]
    assert excused == [
        *["forged"] * ("forged" in how),
        *["probed"] * ("probed" in how and whose_doing),
    ]


@pytest.mark.parametrize("endpoint", ["3@h:93", "3@h:83", "h:83", "?@h:83"])
@judging(check, calm=calmed)
def test_members_are_sent_to_where_their_coordinator_answers(calm: Any, endpoint: str) -> Asks:
    """Of what names nobody `evidence` tells."""
    for row in calm.rows["metadata"]:
        row["asked_at"] = f"h:9{row['node']}"
    calm.add("coordinator", LATE, node=2, group="g", coordinator=3, endpoint=endpoint)
    calm.add("coordinator", LATE, node=1, group="g", coordinator=-1, type="fail", error=15)
    found = yield calm
    assert found.counts == ({"named-elsewhere": 1} if endpoint == "3@h:83" else {})


@pytest.mark.parametrize("how", ["there", "elsewhere", "forged", "nobody asked it", "black box"])
@judging(check, calm=calmed)
def test_clients_are_sent_to_where_brokers_answer_them(calm: Any, spark: Any, how: str) -> Asks:
    at = {1: "h:91", 2: "h:92", 3: "h:93"}
    for row in calm.rows["metadata"]:
        row["asked_at"] = at[row["node"]]
        row["endpoints"] = [f"{node}@{address}" for node, address in at.items()]
    says(calm, LATE + 10, 2, 0, 1)
    other = 4 if "nobody" in how else 3
    wrong = f"{other}@h:93" if how == "there" else f"{other}@h:83"
    calm.rows["metadata"][-1] |= {"asked_at": at[2], "endpoints": [wrong]}
    if how == "forged":
        calm.add("forged", LATE + 2, node=2, api="UPDATE_METADATA", lie="dead_broker", error=0)
    if how == "black box":
        calm.rows["leadership"] = [dict(row, source="shown") for row in calm.rows["leadership"]]
    found = yield calm
    assert found.counts.get("named-elsewhere", 0) == (how == "elsewhere")
    assert [e.excuse for e in found.excuses()] == ["forged"] * (how == "forged")
    if how == "elsewhere":
        (violation,) = attach(calm.history(spark), found.findings)
        assert "node 2 sent clients to h:83 for node 3" in violation.says
        assert {e["asked_at"] for e in violation.events if e.get("asked_at")} == {at[2], at[3]}


@pytest.mark.parametrize("left", [(), (0,)])
@judging(check, calm=calmed)
def test_what_was_named_before_is_not_forgotten(calm: Any, spark: Any, left: Any) -> Asks:
    says(calm, 100, 2, 0, 1)
    says(calm, 200, 2, *left)
    found = yield calm
    assert found.counts["metadata-forgot"] == 2 - len(left)
    violation = attach(calm.history(spark), found.findings)[-1]
    told = [(e["t"] // 1_000_000, e.get("partition")) for e in violation.events if "read" in e]
    assert told[0] == (100, 1)
    assert told[-1][0] == 200


def test_it_may_be_forgotten(spark: Any) -> None:
    whys = ("restarted", "spans it", "under way", "deleted", "deleted meanwhile")
    cases = {why: calmed(Story()) for why in whys}
    for why, calm in cases.items():
        says(calm, 100, 2, 0, 1)
        if why == "restarted":
            calm.add("node_event", 120, node=2, event="kill")
            calm.add("node_event", 130, node=2, event="start")
        if why == "spans it":
            calm.add("node_event", 199.5, node=2, event="start")
        if "deleted" in why:
            calm.add("topic_deletion", 150, step="requested")
            calm.add("topic_deletion", 250, step="gone")
            calm.rows["metadata"] = [r for r in calm.rows["metadata"] if r["t"] < LATE * 1_000_000]
            for node in (1, 2, 3):
                says(calm, LATE, node)
        says(calm, 200, 2, invoke_t={"under way": 99, "deleted meanwhile": 149}.get(why, 199))
    assert judged_together(spark, check, cases) == dict.fromkeys(cases, ({}, []))


@judging(check, calm=calmed)
def test_before_its_deletion_was_asked_for_it_may_not(calm: Any) -> Asks:
    says(calm, 100, 2, 0, 1)
    says(calm, 140, 2, 1)
    calm.add("topic_deletion", 150, step="requested", error_ns=1_000_000)
    says(calm, 200, 2)
    calm.rows["metadata"] = [r for r in calm.rows["metadata"] if r["t"] < LATE * 1_000_000]
    assert (yield calm).counts == {"metadata-forgot": 1}


def test_never_having_heard_of_it(spark: Any) -> None:
    wanted = {"late": 2, "early": 0, "just back": 0, "paused": 0, "just made": 1}
    cases = {case: calmed(Story()) for case in wanted}
    for case, calm in cases.items():
        calm.rows["metadata"] = [r for r in calm.rows["metadata"] if r["node"] != 2]
        if case == "just back":
            calm.add("node_event", LATE - 900, node=2, event="start")
        if case == "paused":
            calm.add("node_event", LATE - 900, node=2, event="pause")
        if case == "just made":
            calm.rows["leadership"] = calm.rows["leadership"][:1]
            calm.commit(LATE - 900, 1, 0, partition=1)
        says(calm, 14_900 if case == "early" else LATE, 2)
    found = judged_together(spark, check, cases)
    assert {case: rules.get("metadata-forgot", 0) for case, (rules, _) in found.items()} == wanted


@judging(check)
def test_without_zookeeper_only_a_runs_own_topics_are_known_to_stay(story: Any) -> Asks:
    story.commit(10, 1, 0, source="controller")
    says(story, 100, 2, 0)
    says(story, 200, 2)
    assert not (yield story).counts
    story.run["topics"] = {"t": {}}
    assert (yield story).counts == {"metadata-forgot": 1}


# -- topics that are gone -------------------------------------------------------------------------


def deleted(story: Any) -> Any:
    """Topic "old" lived on nodes 1 and 2, and was deleted in the middle of the faults."""
    calm = calmed(story)
    topic = {"topic": "old", "what": "topic"}
    calm.add("zk_write", 8, step="created", replicas=[1, 3], zxid=5, **topic)
    calm.add("zk_write", 9, step="set", replicas=[1, 2], zxid=6, **topic)  # moved from 3 to 2
    calm.add("zk_write", 3_000, step="removed", partition=None, zxid=7, commit_ms=3_000, **topic)
    calm.commit(10, 1, 0, topic="old", commit_ms=10)
    calm.add("topic_deletion", 2_000, topic="old", step="requested", commit_ms=2_000)
    calm.add("topic_deletion", 3_000, topic="old", step="gone", commit_ms=3_000)
    for node in (1, 2, 3):
        says(calm, 100, node, 0, topic="old")
        says(calm, LATE, node, topic="old")
    return calm


@judging(check, gone=deleted)
def test_a_topic_that_goes_may_be_named_until_then(gone: Any) -> Asks:
    says(gone, 2_500, 1, 0, topic="old")
    says(gone, 3_001, 1, 0, topic="old", invoke_t=2_990)
    assert (yield gone).verdict([(gone.arm, 0)]) == (Verdict.VALID, [])


def test_who_had_a_replica_knows_at_once(spark: Any) -> None:
    """The others hear of it when their turn comes."""
    wanted = {(1, 3_100): 1, (3, 3_100): 0, (3, 14_900): 0, (3, 15_100): 1}
    cases = {f"{node} at {t}": deleted(Story()) for node, t in wanted}
    for (node, t), gone in zip(wanted, cases.values(), strict=True):
        says(gone, t, node, 0, topic="old")
    found = judged_together(spark, check, cases).values()
    assert [rules.get("metadata-still-names", 0) for rules, _ in found] == [*wanted.values()]


@judging(check, gone=deleted)
def test_a_namesake_is_another_topic(gone: Any) -> Asks:
    gone.commit(4_000, 1, 0, topic="old", commit_ms=4_000)
    says(gone, 4_100, 1, 0, topic="old")
    assert not (yield gone).counts


@judging(check, gone=deleted)
def test_the_last_state_written_down_late_is_no_namesake(gone: Any) -> Asks:
    """What the watch had missed of the deleted topic comes at the end, with its own time."""
    gone.commit(LATE + 1_000, 1, 1, topic="old", commit_ms=1_500)
    says(gone, 3_100, 1, 0, topic="old")
    assert (yield gone).counts == {"metadata-still-names": 1}


@judging(check, gone=deleted)
def test_a_forger_may_bring_a_topic_back(gone: Any) -> Asks:
    lie = {"lie": "future_controller_epoch", "api": "UPDATE_METADATA", "error": 0}
    gone.add("forged", 3_050, node=1, topic="old", leader=1, leader_epoch=1, **lie)
    says(gone, 3_100, 1, 0, topic="old")
    found = yield gone
    assert not found.counts
    assert [(e.rule, e.excuse) for e in found.excuses()] == [("metadata-still-names", "forged")]


# -- the controller -------------------------------------------------------------------------------


@pytest.mark.parametrize("controller_id", [3, 9])
@judging(check, calm=calmed)
def test_a_controller_that_nobody_elected(calm: Any, controller_id: int) -> Asks:
    """With ZooKeeper, whether it is a broker or never was."""
    says(calm, 100, 2, 0, 1, controller_id=controller_id)
    assert (yield calm).counts == {"controller-never-elected": 1}


@pytest.mark.parametrize(
    ("controller_id", "source", "started", "broken"),
    [
        (4, "controller", True, True),
        (3, "controller", True, False),  # any of them hands on what it is asked for
        (-1, "controller", True, False),
        (4, "controller", False, False),
        (4, "shown", True, False),
    ],
)
@judging(check)
def test_a_controller_that_never_was(
    story: Any, controller_id: int, source: str, started: bool, broken: bool
) -> Asks:
    for node in (1, 2, 3) if started else ():
        story.add("node_event", 0, node=node, event="start")
    story.commit(10, 1, 0, source=source)
    for t in (100, 200):
        says(story, t, 2, 0, controller_id=controller_id)
    found = yield story
    assert found.counts == ({"stranger-named": 1} if broken else {})
    if broken:
        assert found.findings[0].says == "node 2 named node 4 as controller, which never was"


@judging(check, calm=calmed)
def test_one_of_whose_election_only_zookeeper_tells(calm: Any) -> Asks:
    """It was stopped before it could say so."""
    office = {"zxid": 7, "step": "set"}
    calm.add("zk_write", 90, what="controller_epoch", controller_epoch=2, **office)
    calm.add("zk_write", 90, what="controller", node=3, **{**office, "step": "created"})
    elect(calm, 150, 1, 3)
    says(calm, 100, 2, 0, 1, controller_id=3)
    assert not (yield calm).counts


@pytest.mark.parametrize(("t", "n"), [(14_900, 0), (15_100, 1)])
@judging(check, calm=calmed)
def test_a_controller_that_has_long_had_a_successor(calm: Any, t: int, n: int) -> Asks:
    elect(calm, 9_000, 2, 2)
    calm.rows["metadata"] = []
    for node in (1, 2):
        says(calm, LATE, node, 0, 1, controller_id=2)
    says(calm, t, 3, 0, 1, controller_id=1)
    found = yield calm
    assert found.counts == ({"controller-superseded": 1} if n else {})


@judging(check, calm=calmed)
def test_a_successor_is_not_forgotten(calm: Any) -> Asks:
    elect(calm, 1_000, 2, 2)
    elect(calm, 9_000, 1, 3)
    calm.rows["controller"][0]["node"] = 3
    says(calm, 500, 2, 0, 1, controller_id=3)
    says(calm, 1_100, 2, 0, 1, controller_id=2)
    assert not (yield calm).counts
    says(calm, 1_200, 2, 0, 1, controller_id=3)
    assert (yield calm).counts == {"controller-went-back": 1}
    calm.add("node_event", 1_150, node=2, event="start")  # which forgets, and hears the old one
    assert not (yield calm).counts


@judging(check, calm=calmed)
def test_a_controller_once_heard_of_is_not_forgotten(calm: Any) -> Asks:
    says(calm, 4, 2, controller_id=-1)  # nobody told it yet
    says(calm, 50, 2, 0, 1)
    assert not (yield calm).counts
    says(calm, 100, 2, 0, 1, controller_id=-1)
    assert (yield calm).counts == {"controller-forgotten": 1}
    calm.add("node_event", 75, node=2, event="start")  # and knows nothing
    assert not (yield calm).counts


@judging(check, calm=calmed)
def test_who_was_elected_again_is_no_ghost(calm: Any) -> Asks:
    elect(calm, 1_000, 2, 2)
    elect(calm, 2_000, 1, 3)
    says(calm, 1_100, 3, 0, 1, controller_id=2)
    says(calm, 2_100, 3, 0, 1, controller_id=1)
    assert not (yield calm).counts


@judging(check)
def test_without_zookeeper_any_broker_is_named(story: Any) -> Asks:
    story.commit(10, 1, 0, source="controller")
    elect(story, 5, 9, 1)
    says(story, 100, 2, 0, controller_id=3)
    assert not (yield story).counts


# -- silence --------------------------------------------------------------------------------------


@judging(check, calm=calmed)
def test_a_broker_that_was_never_heard_is_named(calm: Any) -> Asks:
    calm.rows["metadata"] = [r for r in calm.rows["metadata"] if r["node"] != 2]
    verdict, reasons = (yield calm).verdict([(calm.arm, 0)])
    assert verdict is Verdict.UNKNOWN
    assert reasons == [f"{calm.arm}, trial 0: node 2 never answered a metadata read"]


def test_a_broker_that_falls_silent(spark: Any) -> None:
    wanted = {
        "asked anew": Verdict.INVALID,
        "lost anew": Verdict.INVALID,
        "hangs from before": Verdict.UNKNOWN,
        "not even a connection": Verdict.UNKNOWN,
        "not even a connection for long": Verdict.INVALID,
        "asked late": Verdict.UNKNOWN,
        "dead": Verdict.VALID,
        "just back": Verdict.UNKNOWN,
        "answered late": Verdict.VALID,
        "its fault waited for it in vain": Verdict.INVALID,
        "its fault never ended": Verdict.VALID,
        "its fault never began, and was never healed": Verdict.VALID,
    }
    cases = {case: calmed(Story()) for case in wanted}
    lost = {"type": "info", "node": 2, "topic": None, "partition": None, "failure": "timeout"}
    for case, calm in cases.items():
        calm.rows["metadata"] = [r for r in calm.rows["metadata"] if r["node"] != 2]
        says(calm, 9_000, 2, 0, 1)
        if case == "asked anew":
            calm.add("metadata", LATE, invoke_t=12_000, **lost)
        if case == "lost anew":
            for t in range(12_000, LATE, 500):
                calm.add("metadata", t + 1, invoke_t=t, **lost)
        if case == "hangs from before":
            calm.add("metadata", 19_500, invoke_t=9_500, **lost)
        if case == "not even a connection for long":
            says(calm, LATE + 5_100, 1, 0, 1)
        if case == "asked late":
            calm.add("metadata", LATE, invoke_t=15_500, **lost)
        if case == "dead":
            calm.add("node_event", 9_500, node=2, event="exited")
        if case == "just back":
            calm.add("node_event", 17_000, node=2, event="start")
        if "fault" in case:
            steps = [(8_000, "injected"), (8_500, "heal"), (9_500, "failed")]
            steps = [(8_000, "inject"), (9_500, "failed")] if "began" in case else steps
            for t, phase in (*steps, *([] if "never" in case else [(9_600, "healed")])):
                calm.add("fault", t, fault="kill", id="k", phase=phase, nodes=[2])
            for t in range(9_700, LATE, 1_000):
                calm.add("metadata", t + 500, invoke_t=t, **lost)
        if case == "answered late":
            says(calm, 16_000, 2, 0, 1, invoke_t=12_000)
    for case, (rules, why) in judged_together(spark, check, cases).items():
        verdict = wanted[case]
        assert rules == ({"metadata-mute": 1} if verdict is Verdict.INVALID else {}), case
        assert bool(why) is (verdict is Verdict.UNKNOWN), case


# ---- what never was, and nobody in office --------------------------------------------------------


def logged(story: Any) -> Any:
    """What ZooKeeper's own log has of the two partitions."""
    calmed(story)
    for partition in (0, 1):
        story.add("zk_write", 10, what="state", step="created", zxid=partition, partition=partition)
    return story


def ghostly(how: str) -> Story:
    story = Story()
    logged(story) if how != "a watch alone" else calmed(story)
    match how:
        case "a partition" | "a watch alone":
            says(story, LATE + 1, 2, 0, 1, 7)
        case "a topic":
            says(story, LATE + 1, 2, 0, topic="u")
        case "a topic that is made later" | "a topic that was made":
            made = {"topic": "u", "partition": 0, "replicas": [1, 2], "zxid": 90}
            story.add("zk_write", LATE - 500, what="topic", step="created", **made)
            says(story, LATE - 600 if how.endswith("later") else LATE - 499, 2, 0, topic="u")
        case "a partition that is added later":
            made = {"topic": "t", "partition": 7, "replicas": [1, 2], "zxid": 90}
            story.add("zk_write", LATE - 500, what="topic", step="set", **made)
            says(story, LATE - 600, 2, 0, 1, 7)
        case "a forger's":
            story.add("forged", 50, node=2, api="UPDATE_METADATA", lie="future_leader_epoch",
                      error=0, partition=7, leader=1, leader_epoch=0)  # fmt: skip
            says(story, LATE + 1, 2, 0, 1, 7)
        case "nobody in the end":
            says(story, LATE + 1, 2, 0, 1, controller_id=-1)
        case "nobody before":
            says(story, 100, 2, 0, 1, controller_id=-1)
        case "nobody, just started":
            story.add("node_event", LATE - 100, node=2, event="start")
            says(story, LATE + 1, 2, 0, 1, controller_id=-1)
    return story


BROKEN_GHOSTS = {
    "a partition": {"metadata-ghost": 1},
    "a topic": {"metadata-ghost": 1},
    "a topic that is made later": {"metadata-ghost": 1},
    "a partition that is added later": {"metadata-ghost": 1, "metadata-forgot": 1},
    "nobody in the end": {"controller-unknown": 1},
}
LAWFUL_GHOSTS = (
    *("none", "a watch alone", "a forger's", "nobody before", "nobody, just started"),
    "a topic that was made",
)


def test_what_never_was_and_nobody_in_office(spark: Any) -> None:
    stories = {how: ghostly(how) for how in (*BROKEN_GHOSTS, *LAWFUL_GHOSTS)}
    found = judged_together(spark, check, stories)
    assert {how: rules for how, (rules, _) in found.items() if rules} == BROKEN_GHOSTS


@pytest.mark.parametrize(
    ("began", "elected", "names", "broken"),
    [
        (15_000, 9_000, 1, 1),  # replaced before it began
        (15_000, 9_000, 3, 0),
        (15_000, 12_000, 1, 0),  # just before it began
        (15_000, 15_500, 1, 0),  # replaced while it lived
        (12_500, None, 1, 0),  # not replaced
        (15_000, 9_000, -1, 0),  # nobody told it yet
    ],
)
@judging(check, calm=calmed)
def test_a_controller_that_was_replaced_before_a_broker_began(
    calm: Any, began: float, elected: float | None, names: int, broken: int
) -> Asks:
    calm.add("zk_write", 5, what="controller", step="created", node=1, zxid=1)
    calm.rows["metadata"].clear()
    calm.add("node_event", began - 900, node=2, event="kill")
    calm.add("node_event", began, node=2, event="start")
    last = 1
    if elected is not None:
        last = 3
        elect(calm, elected, 3, 2)
    says(calm, 16_000, 2, 0, 1, controller_id=names)
    for node in (1, 2, 3):
        says(calm, LATE + 9_000, node, 0, 1, controller_id=last)
    found = yield calm
    assert found.counts == ({"controller-of-the-past": 1} if broken else {})
