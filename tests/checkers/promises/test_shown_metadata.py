"""Leaders and in-sync sets as brokers show them, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.in_sync_writes import LEADERS
from checkers.judging.verdict import Verdict
from checkers.judging.witness import attach
from checkers.promises.shown_metadata import check
from checkers.promises.shown_metadata.taken_in_metadata import HELD
from tests.checkers.conftest import Story, judged_together
from tests.checkers.together import Asks, judging

LATE = 20_000
"""Long after all was healed (at 10 s)."""


def calmed(story: Any) -> Any:
    """Faults ended at 10 s and every replica caught up by 11 s; two epochs were committed."""
    story.commit(0, 1, 0, isr=[1, 2, 3])
    story.commit(1_000, 2, 1, isr=[2, 3])
    story.commit(2_000, 2, 1, partition_epoch=2, isr=[2, 3, 1])
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    return story


def shown(story: Any, t: float, leader: int, leader_epoch: int, **more: Any) -> None:
    fields = {"leader": leader, "leader_epoch": leader_epoch, "error": 0, "isr": [1, 2, 3], **more}
    story.add("metadata", t, node=fields.pop("node", 3), **fields)


@judging(check, calm=calmed)
def test_what_is_true_passes(calm: Any) -> Asks:
    shown(calm, 500, 1, 0, isr=[3, 1, 2])  # in any order
    shown(calm, 1_500, 2, 1, isr=[2, 3])
    shown(calm, 1_600, 1, 0, isr=[1, 2, 3])  # old, which is another promise's
    shown(calm, 9_000, 2, 1, isr=[2, 3])  # grown since; the controller's word may be under way
    shown(calm, LATE, 2, 1, isr=[1, 2, 3])
    found = yield calm
    assert found.verdict([(calm.arm, 0)]) == (Verdict.VALID, [])
    assert found.evidence[calm.arm, 0, "answers about a partition"] == 5


@judging(check, calm=calmed)
def test_the_wrong_leader_is_found_at_any_time(calm: Any, spark: Any) -> Asks:
    shown(calm, 1_500, 1, 1, isr=[2, 3])
    shown(calm, LATE, 2, 1)
    found = yield calm
    assert found.counts == {"metadata-wrong-leader": 1}
    (violation,) = attach(calm.history(spark), found.findings)
    assert next((e["f"], e["leader"]) for e in violation.events) == ("leadership", 2)
    assert ("metadata", 1) in [(e["f"], e["leader"]) for e in violation.events]


@pytest.mark.parametrize(
    ("slowness", "asked", "is_late"),
    [(6, 17_000, True), (12, 17_000, False), (12, 20_100, True), (90, 30_100, True)],
)
@judging(check, calm=calmed)
def test_a_busy_machine_is_given_longer(
    calm: Any, slowness: int, asked: float, is_late: bool
) -> Asks:
    """Four times as long at most."""
    calm.add("phase", 10_000, name="heal", event="end")
    calm.strain(10_000, slowness, seconds=1)
    shown(calm, asked, 2, 1, isr=[2, 3])
    assert (yield calm).counts == ({"metadata-isr-behind": 1} if is_late else {})


@pytest.mark.parametrize(
    ("error", "rules"),
    [(5, {}), (72, {}), (0, {"metadata-wrong-leader": 1, "metadata-error-otherwise": 1})],
)
@judging(check, calm=calmed)
def test_no_leader_is_said_with_an_error(calm: Any, error: int, rules: Any) -> Asks:
    """A broker that thinks the leader dead says so: a controlled shutdown's moment."""
    shown(calm, 1_500, -1, 1, error=error)
    shown(calm, LATE, 2, 1)
    assert (yield calm).counts == rules


@judging(check, calm=calmed)
def test_a_leader_shown_where_none_was_committed(calm: Any) -> Asks:
    calm.commit(3_000, -1, 2, partition_epoch=3, isr=[2])
    calm.commit(4_000, 2, 3, partition_epoch=4, isr=[2])
    shown(calm, 3_500, -1, 2, isr=[2], error=5)
    shown(calm, 3_600, 2, 2, isr=[2])
    shown(calm, LATE, 2, 3, isr=[2])
    assert (yield calm).counts == {"metadata-wrong-leader": 1}


@pytest.mark.parametrize(
    ("leader", "error", "rules"),
    [
        (-1, 5, {}),
        (-1, 0, {"metadata-error-otherwise": 1}),  # clients would take it for broker -1
        (2, 0, {}),
        (-1, 9, {"metadata-error-otherwise": 1}),
        (2, 5, {"metadata-error-otherwise": 1}),  # clients would not ask it
        (2, 9, {"metadata-error-otherwise": 1}),  # as to who asks by version 0
    ],
)
@judging(check, calm=calmed)
def test_an_error_that_does_not_fit_the_leader(
    calm: Any, leader: int, error: int, rules: Any
) -> Asks:
    """Where none was committed, and where one is."""
    calm.commit(3_000, -1, 2, partition_epoch=3, isr=[2])
    calm.commit(4_000, 2, 3, partition_epoch=4, isr=[2])
    shown(calm, 4_500, leader, 2 if leader < 0 else 3, isr=[2], error=error)
    shown(calm, LATE, 2, 3, isr=[2])
    assert (yield calm).counts == rules


@judging(check, calm=calmed)
def test_namesakes_are_not_accused_of_each_other(calm: Any) -> Asks:
    calm.commit(5_000, 3, 0, partition_epoch=0, isr=[3], commit_ms=5_000)
    shown(calm, 5_500, 3, 0, isr=[3])
    shown(calm, 5_600, 1, 0, isr=[1, 2, 3])
    assert not (yield calm).counts


@pytest.mark.parametrize(
    ("t", "undated", "early"),
    [
        (3_800, None, True),
        (4_200, None, False),
        (6_100, None, False),
        (3_800, 7, True),  # the same commit, as another tells of it
        (3_800, 5, False),  # of before
    ],
)
@judging(check, calm=calmed)
def test_an_in_sync_set_before_its_time(
    calm: Any, t: float, undated: int | None, early: bool
) -> Asks:
    if undated is not None:
        calm.commit(3_000, 2, 1, partition_epoch=undated, isr=[1, 2], source="controller")
    calm.commit(6_000, 2, 1, partition_epoch=7, isr=[1, 2], commit_ms=6_000)
    calm.commit(7_000, 2, 1, partition_epoch=8, isr=[1, 2, 3], commit_ms=7_000)
    shown(calm, t, 2, 1, isr=[2, 1])
    shown(calm, LATE, 2, 1, isr=[1, 2, 3])
    found = yield calm
    assert found.counts == ({"metadata-isr-never-committed": 1} if early else {})
    assert all("2.2 s before that was committed" in one.says for one in found.findings)


@judging(check, calm=calmed)
def test_an_in_sync_set_of_nobodys(calm: Any) -> Asks:
    shown(calm, 1_500, 2, 1, isr=[2])
    shown(calm, 1_600, 2, 1, isr=[1, 2, 3])  # committed in that epoch, if later
    shown(calm, LATE, 2, 1, isr=[1, 2, 3])
    found = yield calm
    assert found.counts == {"metadata-isr-never-committed": 1}
    assert "[2]" in found.findings[0].says


@judging(check, calm=calmed)
def test_what_the_log_alone_holds_was_committed(calm: Any) -> Asks:
    """A set that was overwritten before the watch read it."""
    state = {"leader": 2, "leader_epoch": 1, "partition_epoch": 2, "isr": [2]}
    calm.add("zk_write", 1_400, what="state", step="set", zxid=9, **state)
    shown(calm, 1_500, 2, 1, isr=[2])
    shown(calm, LATE, 2, 1, isr=[1, 2, 3])
    assert not (yield calm).counts


def test_no_leader_for_long(spark: Any) -> None:
    ends = ("late", "early", "dead leader", "paused broker", "never healed")
    cases = {end: calmed(Story()) for end in ends}
    for end, calm in cases.items():
        calm.add("node_event", 0, node=2, event="start")
        calm.add("node_event", 0, node=3, event="start")
        if end == "dead leader":
            calm.add("node_event", 12_000, node=2, event="kill")
        if end == "paused broker":
            calm.add("node_event", LATE - 1, node=3, event="resume")
        if end == "never healed":
            calm.add("fault", 500, fault="cut", id="a", phase="injected")
        shown(calm, 14_900 if end == "early" else LATE, -1, 1, error=5)
        shown(calm, LATE, 2, 1, node=1)
    found = judged_together(spark, check, cases)
    assert {end: rules for end, (rules, _) in found.items() if rules} == {
        "late": {"metadata-no-leader": 1}
    }


def test_an_in_sync_set_that_stays_old(spark: Any) -> None:
    cases = {"14900": calmed(Story()), "15100": calmed(Story())}
    for t, calm in cases.items():
        shown(calm, LATE, 2, 1, isr=[1, 2, 3], node=1)
        shown(calm, int(t), 2, 1, isr=[2, 3])
    found = judged_together(spark, check, cases)
    assert [rules for rules, _ in found.values()] == [{}, {"metadata-isr-behind": 1}]


@pytest.mark.parametrize(
    ("own", "leader", "epoch", "found"),
    [(True, 2, 1, False), (True, 3, 1, True), (True, 2, 2, True), (False, 2, 1, True)],
)
@judging(check, calm=calmed)
def test_who_leads_tells_of_in_sync_sets_when_it_has_done_with_all(
    calm: Any, own: bool, leader: int, epoch: int, found: bool
) -> Asks:
    """Of another partition that it leads; not another leader's, nor by an election, nor where the
    controller writes them."""
    calm.run["arms"][calm.arm][LEADERS] = own
    calm.commit(LATE - 200, leader, 1, partition=1, isr=[leader])
    calm.commit(LATE - 100, leader, epoch, partition=1, partition_epoch=1, isr=[leader, 1])
    shown(calm, LATE, 2, 1, isr=[2, 3])
    assert (yield calm).counts == ({"metadata-isr-behind": 1} if found else {})


@judging(check, calm=calmed)
def test_an_in_sync_set_that_shrank_just_now_may_be_under_way(calm: Any) -> Asks:
    calm.commit(LATE - 100, 2, 1, partition_epoch=3, isr=[2, 3])
    shown(calm, LATE, 2, 1, isr=[1, 2, 3])
    assert not (yield calm).counts


@judging(check, calm=calmed)
def test_what_came_after_the_last_read_was_not_to_be_shown(calm: Any) -> Asks:
    """Brokers are stopped at the end, and say goodbye to each other."""
    calm.commit(LATE + 500, -1, 2, partition_epoch=3, isr=[2])
    shown(calm, LATE, 2, 1, isr=[2, 3])
    assert (yield calm).counts == {"metadata-isr-behind": 1}


@judging(check, calm=calmed)
def test_a_row_written_late_is_dated_by_the_store(calm: Any) -> Asks:
    """What the watch had missed is written down after the end, with ZooKeeper's time."""
    calm.commit(LATE + 500, 2, 1, partition_epoch=3, isr=[2, 3], commit_ms=3_000)
    shown(calm, LATE, 2, 1, isr=[2, 3])
    assert (yield calm).verdict([(calm.arm, 0)]) == (Verdict.VALID, [])


@pytest.mark.parametrize(
    ("commit_ms", "counts"), [(3_000, {}), (2_000, {"metadata-isr-behind": 1}), (LATE + 500, None)]
)
@judging(check, calm=calmed)
def test_what_only_zookeepers_own_log_tells_may_be_shown(
    calm: Any, commit_ms: int, counts: dict[str, int] | None
) -> Asks:
    """Its watch had ended: brokers know better. Of what came after the last read they do not."""
    state = {"leader": 2, "leader_epoch": 1, "controller_epoch": 1, "isr": [2, 3]}
    version = 2 if commit_ms == 2_000 else 3
    calm.add("zk_write", commit_ms, what="state", step="set", zxid=1, commit_ms=commit_ms,
             partition_epoch=version, **state)  # fmt: skip
    shown(calm, LATE, 2, 1, isr=[2, 3])
    found = yield calm
    assert found.counts == ({"metadata-isr-behind": 1} if counts is None else counts)
    assert bool(found.unknowns) is (counts == {})


@judging(check, calm=calmed)
def test_too_many_that_owed_nothing_are_unknown(calm: Any) -> Asks:
    for node in (1, 2, 3):
        shown(calm, LATE if node == 1 else 12_000, 2, 1, node=node)
    verdict, reasons = (yield calm).verdict([(calm.arm, 0)])
    assert verdict is Verdict.UNKNOWN
    assert "2 of 3 last answers" in reasons[0]


@judging(check, calm=calmed)
def test_epochs_that_nobody_saw_committed_are_named(calm: Any) -> Asks:
    shown(calm, 1_500, 1, 7)
    shown(calm, LATE, 2, 1)
    found = yield calm
    assert not found.counts
    assert "nobody saw the commit" in found.not_judged[0]


def forge(story: Any, t: float, lie: str, **more: Any) -> None:
    fields = {"error": 0, "leader": 1, "leader_epoch": 1, "api": "UPDATE_METADATA", **more}
    story.add("forged", t, node=3, lie=lie, **fields)


@judging(check, calm=calmed)
def test_a_forgers_word_is_his_until_the_next_true_one(calm: Any) -> Asks:
    forge(calm, 3_000, "future_controller_epoch")
    calm.add("metadata_update", 2_999.5, node=3, leader=1, leader_epoch=1)  # the forged one itself
    shown(calm, 3_100, 1, 1)
    for t in range(10):
        shown(calm, LATE + t, 2, 1)
    found = yield calm
    assert not found.counts
    assert sum(found.excused.values()) == 11  # the lie is believed for ever: nothing is judged
    assert found.verdict([(calm.arm, 0)])[0] is Verdict.UNKNOWN
    calm.add("metadata_update", 5_000, node=3, leader=2, leader_epoch=1)
    found = yield calm
    assert sum(found.excused.values()) == 1
    assert found.verdict([(calm.arm, 0)]) == (Verdict.VALID, [])
    shown(calm, 5_100, 1, 1)
    assert (yield calm).counts == {"metadata-wrong-leader": 1}


@pytest.mark.parametrize("lie", ["stale_controller_epoch", "stale_broker_epoch"])
@judging(check, calm=calmed)
def test_a_lie_that_must_be_seen_excuses_nothing(calm: Any, lie: str) -> Asks:
    forge(calm, 3_000, lie)
    shown(calm, 3_100, 1, 1)
    shown(calm, LATE, 2, 1)
    assert (yield calm).counts == {"metadata-wrong-leader": 1}


@judging(check, calm=calmed)
def test_a_lie_ends_with_the_life_that_heard_it(calm: Any) -> Asks:
    forge(calm, 3_000, "future_controller_epoch")
    calm.add("node_event", 4_000, node=3, event="kill")
    calm.add("node_event", 4_500, node=3, event="start")
    shown(calm, 5_100, 1, 1)
    calm.add("metadata_update", 8_000, node=3, leader=2, leader_epoch=1)  # of the next life
    shown(calm, LATE, 2, 1)
    assert (yield calm).counts == {"metadata-wrong-leader": 1}


@judging(check, calm=calmed)
def test_who_was_turned_against_its_controller_is_excused_for_what_it_missed(calm: Any) -> Asks:
    """The lie was about another topic; news of this one could not come through either."""
    forge(calm, 1_500, "future_controller_epoch", topic="other")
    for _ in range(4):
        shown(calm, LATE, 2, 1, isr=[1, 2, 3], node=1)
    shown(calm, LATE, 2, 1, isr=[2, 3])
    found = yield calm
    assert not found.counts
    assert [(e.rule, e.excuse, e.n) for e in found.excuses()] == [
        ("metadata-isr-behind", "forged", 1)
    ]


@judging(check)
def test_a_metadata_log_that_one_copy_alone_holds_is_not_owed(story: Any) -> Asks:
    """KRaft: the deposed controller's own log ends with what was never committed."""
    copies: dict[str, Any] = {"source": "controller", "isr": [1, 2]}
    for node in (1, 2):
        story.commit(0, 1, 0, process=f"node-{node}", **copies)
    story.commit(1_000, 1, 0, **{**copies, "partition_epoch": 1, "isr": [1]}, process="node-1")
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    shown(story, LATE, 1, 0, isr=[1, 2], controller_id=3)
    assert not (yield story).counts
    story.commit(1_000, 1, 0, **{**copies, "partition_epoch": 1, "isr": [1]}, process="node-2")
    assert (yield story).counts == {"metadata-isr-behind": 1}


@pytest.mark.parametrize(
    ("lack", "says"),
    [({}, False), ({"leader_epoch": None}, True), ({"leader": None}, True), ({"isr": None}, True)],
)
@judging(check, calm=calmed)
def test_what_is_not_shown_wholly_is_not_judged(
    calm: Any, lack: dict[str, Any], says: bool
) -> Asks:
    """Broker 2 tells all; broker 3 tells all but something."""
    shown(calm, LATE, 2, 1, isr=[1, 2, 3], node=2)
    calm.add("metadata", LATE, **{"node": 3, "leader": 2, "leader_epoch": 1, "isr": [1, 2, 3],
                                  "error": 0, **lack})  # fmt: skip
    found = yield calm
    assert not found.counts
    assert [("1 of 2 last answers" in why) for why in found.unknowns] == ([True] if says else [])


@judging(check, calm=calmed)
def test_a_partition_that_a_broker_never_showed_was_not_judged(calm: Any) -> Asks:
    shown(calm, LATE, 2, 1, isr=[1, 2, 3], node=2)
    calm.add("metadata", LATE, node=3, topic="u", leader=1, leader_epoch=0, isr=[1], error=0)
    assert any("1 of 3 last answers" in why or "of 2 last" in why for why in (yield calm).unknowns)


# ---- replicas ------------------------------------------------------------------------------------


def moved(story: Any, *given: list[int]) -> Any:
    """A partition that was given these replicas, one set after the other."""
    for zxid, replicas in enumerate(given or ([3, 1, 2], [4, 3, 1, 2], [4, 3, 1]), 5):
        step = {"what": "topic", "step": "set", "zxid": zxid, "replicas": replicas}
        story.add("zk_write", zxid, **step)
    return calmed(story)


@pytest.mark.parametrize(
    ("replicas", "more", "found"),
    [
        ([3, 1, 2], {}, 0),  # of before it moved
        ([4, 1, 3], {}, 1),  # the preferred leader comes first, and the others in their order
        ([1, 4, 3], {"type": "fail"}, 0),
        ([4, 3, 1, 2], {}, 0),
        (None, {}, 0),
        ([], {"error": 3}, 0),
        ([3, 1], {}, 1),
        ([4, 3, 1, 5], {}, 1),
        ([3, 1], {"topic": "u"}, 0),  # of which the log has nothing
        ([3, 1], {"type": "fail"}, 0),
    ],
)
@judging(check, moved=moved)
def test_the_replicas_shown_were_given(moved: Any, replicas: Any, more: Any, found: int) -> Asks:
    shown(moved, LATE, 2, 1)
    for t in (LATE + 1, LATE + 2):
        shown(moved, t, 2, 1, **{"replicas": replicas, **more})
    outcome = yield moved
    assert outcome.counts.get("metadata-replicas-never-assigned", 0) == 2 * found
    if found:
        (finding,) = (f for f in outcome.findings if "replicas" in f.rule)
        assert "which it never was given" in finding.says


@pytest.mark.parametrize(
    ("replicas", "asked", "found"),
    [
        ([3, 1, 2], {}, False),
        ([1, 3, 2], {}, True),
        ([3, 1], {}, True),
        ([1, 3, 2], {"about": "t-0", "error": 0}, False),
        ([1, 3, 2], {"about": "t-1", "error": 0}, True),
        ([1, 3, 2], {"about": "", "failure": "lost"}, False),
        ([1, 3, 2], {"about": "t", "error": 0, "api": "DELETE_TOPICS"}, False),
        ([1, 3, 2], {"about": "t-0", "error": 0, "api": "ELECT_LEADERS"}, True),
    ],
)
@judging(check)
def test_without_zookeeper_a_partition_keeps_the_replicas_that_it_was_made_with(
    story: Any, replicas: list[int], asked: dict[str, Any], found: bool
) -> Asks:
    made = {"t": {"assignment": {"0": [3, 1, 2]}}}
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "topics": made}]
    for process in ("node-1", "node-2"):
        story.commit(1, 1, 1, source="controller", process=process, controller_epoch=1)
    if asked:
        move = {"node": 1, "api": "ALTER_PARTITION_REASSIGNMENTS", "type": "fail", **asked}
        story.add("admin_request", 1_000, **move)
    shown(story, LATE, 2, 1, replicas=replicas)
    counts = (yield story).counts
    assert counts.get("metadata-replicas-never-assigned", 0) == found


def moved_by_the_quorum(story: Any) -> Any:
    """The same without ZooKeeper: two copies of the metadata log tell of each state."""
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    made = {"t": {"assignment": {"0": [3, 1, 2]}}}
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "topics": made}]
    for step, replicas in enumerate(([3, 1, 2], [4, 3, 1, 2], [4, 3, 1], [9])):
        state = {"replicas": replicas, "isr": [3, 1], "partition_epoch": step, "commit_ms": step}
        # The last one lies at the end of one copy alone: it was never committed.
        for process in ("node-1", "node-2")[: 1 if replicas == [9] else 2]:
            story.commit(1 + step, 3, 0, source="controller", process=process, **state)
    return story


@pytest.mark.parametrize(
    ("t", "replicas", "rule"),
    [
        (5, [3, 1, 2], None),
        (5, [4, 3, 1, 2], None),
        (LATE, [4, 3, 1], None),
        (LATE, [3, 1, 2], "metadata-replicas-behind"),
        (LATE, [4, 3], "metadata-replicas-never-assigned"),
        (5, [4, 1, 3], "metadata-replicas-never-assigned"),
        (5, [9], "metadata-replicas-never-assigned"),
    ],
)
@judging(check, quorum=moved_by_the_quorum)
def test_the_metadata_log_tells_who_is_assigned(
    quorum: Any, t: float, replicas: list[int], rule: str | None
) -> Asks:
    for node in (2, 3):
        quorum.add("node_event", 1, node=node, event="start")
    shown(quorum, t, 3, 0, replicas=replicas)
    shown(quorum, LATE + 5_000, 3, 0, replicas=[4, 3, 1])
    counts = (yield quorum).counts
    assert {name for name in counts if "replicas" in name} >= ({rule} if rule else set())
    assert bool([name for name in counts if "replicas" in name]) is bool(rule)


@pytest.mark.parametrize(
    ("t", "replicas", "more", "found"),
    [
        (LATE, [3, 1, 2], {}, 1),  # of before it moved
        (LATE, [4, 3, 1, 2], {}, 1),  # as it moved
        (LATE, [4, 3, 1], {}, 0),
        (LATE, [1, 4, 3], {}, 1),
        (9_000, [3, 1, 2], {}, 0),  # the controller's word may be under way
        (LATE, [3, 1, 2], {"node": 2}, 0),  # who is gone
        (LATE, None, {}, 0),
        (LATE, [3, 1, 2], {"topic": "u"}, 0),
    ],
)
@judging(check, moved=moved)
def test_the_last_replicas_reach_every_broker(
    moved: Any, t: float, replicas: Any, more: Any, found: int
) -> Asks:
    for node in (2, 3):
        moved.add("node_event", 100, node=node, event="start")
    moved.add("node_event", 9_500, node=2, event="kill")
    for later in (0, 1):
        shown(moved, t + later, 2, 1, **{"replicas": replicas, **more})
    shown(moved, LATE + 5_000, 2, 1, replicas=[4, 3, 1])
    assert (yield moved).counts.get("metadata-replicas-behind", 0) == 2 * found


@judging(check, moved=moved)
def test_replicas_of_a_topic_that_was_deleted_are_owed_to_nobody(moved: Any) -> Asks:
    moved.add("node_event", 100, node=3, event="start")
    moved.add("topic_deletion", 15_000, step="requested")
    shown(moved, LATE, 2, 1, replicas=[3, 1, 2])
    assert "metadata-replicas-behind" not in (yield moved).counts


# ---- what brokers had acknowledged ---------------------------------------------------------------

IN = "metadata-not-taken-in"


def acknowledged(again_ms: float = 0, **more: Any) -> Story:
    """In leader epoch 1 the in-sync set is [2, 3] from 1 s on (partition epoch 1), [2] from 2 s on
    (2), and [2, 3] again from ``again_ms`` on (3). Node 3 acknowledges each 10 ms later."""
    story = Story()
    states = [(1_000, 1, [2, 3]), (2_000, 2, [2])]
    for t, partition_epoch, isr in (*states, *(((again_ms, 3, [2, 3]),) if again_ms else ())):
        state = {"leader": 2, "leader_epoch": 1, "partition_epoch": partition_epoch, "isr": isr}
        story.commit(t, 2, 1, partition_epoch=partition_epoch, isr=isr)
        story.add("zk_write", t, zxid=int(t), what="state", step="set", controller_epoch=1, **state)
        one = {"node": 1, "boot": 1, "to": 3, "api": "UPDATE_METADATA", "correlation_id": int(t)}
        parts = [{"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 1}]
        send = {**one, "partitions": parts, "partition_epochs": [partition_epoch]}
        story.add("control_send", t + 5, seq=int(t), controller_epoch=1, enqueue_t=t + 4, **send)
        answer = {**one, "error": 0, **more}
        story.add("control_response", t + 10, seq=int(t) + 1, send_t=t + 5, **answer)
    return story


def asked_at(story: Story, t: float, *isr: int, leader_epoch: int = 1, **more: Any) -> Story:
    shown(story, t, 2, leader_epoch, isr=list(isr), **{"invoke_t": t - 1, **more})
    return story


def restarted(story: Story) -> Story:
    story.add("node_event", 2_500, node=3, event="kill")
    story.add("node_event", 2_600, node=3, event="start")
    return story


def read_late(story: Story) -> Story:
    """The controller was stopped before it read the answer, and the broker died meanwhile."""
    for row in story.rows["control_response"]:
        row["t"] = 2_700 * 1_000_000
    return restarted(story)


def probed(story: Story) -> Story:
    workload = {"process": "prober", "role": "prober", "topics": {}, "nodes": [3]}
    story.run["trials"] = [{"arm": story.arm, "trial": story.trial, "workloads": [workload]}]
    parts = [{"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 1, "error": 0}]
    story.handled(2_300, 3, client_id="prober", partitions=parts)
    return story


def lied_to(story: Story) -> Story:
    lie = {"lie": "future_controller_epoch", "api": "UPDATE_METADATA", "leader_epoch": 1}
    story.add("forged", 2_400, node=3, error=0, client_id="f", correlation_id=1, **lie)
    return story


def gone(story: Story) -> Story:
    story.add("topic_deletion", 5_000, step="requested")
    return story


ACKNOWLEDGED = {
    "the newest": (asked_at(acknowledged(), 2_500, 2), 0),
    "an older one": (asked_at(acknowledged(), 2_500, 2, 3), 1),
    "again and again": (asked_at(asked_at(acknowledged(), 2_500, 2, 3), 2_600, 2, 3), 1),
    "asked before": (asked_at(acknowledged(), 2_012, 2, 3, invoke_t=2_009), 0),
    "asked as it came": (asked_at(acknowledged(), 2_012, 2, 3, invoke_t=2_010), 0),
    "of another broker": (asked_at(acknowledged(), 2_500, 2, 3, node=1), 0),
    "right again in the end": (asked_at(acknowledged(3_000), 2_500, 2, 3), 1),
    "as it is again": (asked_at(acknowledged(3_000), 3_500, 2, 3), 0),
    "as it is again just now": (asked_at(acknowledged(2_499), 2_500, 2, 3), 0),
    "refused": (asked_at(acknowledged(error=11), 2_500, 2, 3), 0),
    "nobody knows": (asked_at(acknowledged(error=None), 2_500, 2, 3), 0),
    "in another life": (asked_at(restarted(acknowledged()), 2_700, 2, 3), 0),
    "answered in another life": (asked_at(read_late(acknowledged()), 2_800, 2, 3), 0),
    "what a prober told": (asked_at(probed(acknowledged()), 2_500, 2, 3), 0),
    "what a forger told": (asked_at(lied_to(acknowledged()), 2_500, 2, 3), 0),
    "never committed": (asked_at(acknowledged(), 2_500, 1), 0),  # another rule's
    "a topic that is deleted": (asked_at(gone(acknowledged()), 2_500, 2, 3), 0),
}


def test_brokers_show_what_they_acknowledged(spark: Any) -> None:
    stories = {name: story for name, (story, _) in ACKNOWLEDGED.items()}
    found = judged_together(spark, check, stories)
    told = {name: rules.get(IN, 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in ACKNOWLEDGED.items()}


def test_an_older_leader_than_was_acknowledged(spark: Any) -> None:
    story = acknowledged()
    state = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "isr": [2, 3]}
    story.add("zk_write", 500, zxid=5, what="state", step="created", controller_epoch=1, **state)
    found = check(asked_at(story, 2_500, 2, 3, leader_epoch=0).history(spark))
    assert found.counts[IN] == 1
    assert found.evidence[story.arm, 0, HELD] == 1
    violation = next(v for v in attach(story.history(spark), found.findings) if v.rule == IN)
    assert [e["f"] for e in violation.events] == ["zk_write", "control_send", "metadata"]
