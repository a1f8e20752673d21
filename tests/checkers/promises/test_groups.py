"""Groups, both ways: who is given a partition goes on where the group was."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.promises import polls
from checkers.promises.groups import KEPT, REFUSED, check
from checkers.promises.groups.offices import OFFSETS_TOPIC, TOLD_LATE
from checkers.promises.groups.shown_offsets import SHOWN
from tests.checkers.conftest import ARM, Story, judged_together
from tests.checkers.promises.groups.test_coordinators import GROUP, LATE
from tests.checkers.promises.groups.test_coordinators import story as of_coordinators
from tests.checkers.together import Asks, apart, judging

G = {"group": "g"}


def given(story: Any, t: float, member: str, event: str = "assigned", **more: Any) -> None:
    story.add("assignment", t, process=member, event=event, **{**G, **more})


def poll(story: Any, t: float, member: str, *offsets: int) -> None:
    for offset in offsets:
        story.add("fetch", t, process=member, poll=int(t), offset=offset, value=offset)


def commit(story: Any, t: float, member: str, offset: int, **more: Any) -> None:
    story.add("commit", t, process=member, offset=offset, **{**G, **more})


def handed_over(story: Any, *, begins_at: int = 3) -> None:
    """Member a is given ten records and keeps 3; member b is given the partition after that."""
    story.final_log({v: v for v in range(10)})
    given(story, 10, "a")
    poll(story, 20, "a", 0, 1, 2)
    commit(story, 30, "a", 3)
    given(story, 40, "a", "revoked")
    given(story, 50, "b")
    poll(story, 60, "b", *range(begins_at, 10))
    commit(story, 70, "b", 10)


def asked(story: Any, offset: int, **more: Any) -> None:
    story.add("committed", 90, process="b", offset=offset, **{**G, **more})


@judging(check)
def test_a_sound_history(story: Any) -> Asks:
    handed_over(story)
    asked(story, 10)
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    assert found.evidence[story.arm, 0, KEPT] == 1


@pytest.mark.parametrize(("member", "says"), [("b", ""), ("c", "c committed 1 times for t-0")])
@judging(check)
def test_who_commits_for_what_it_never_had(story: Any, member: str, says: str) -> Asks:
    handed_over(story)
    commit(story, 80, member, 10)
    asked(story, 10)
    found = " | ".join((yield story).unknowns)
    assert bool(found) == bool(says)
    assert says in found


@pytest.mark.parametrize(("t", "unknown"), [(90, False), (65, True)])
@judging(check)
def test_kept_offsets_are_asked_for_after_the_last_commit(
    story: Any, t: float, unknown: bool
) -> Asks:
    handed_over(story)
    asked(story, 10 if t == 90 else 3)
    story.rows["committed"][0] |= {"t": int(t * 1e6), "invoke_t": int((t - 1) * 1e6)}
    found = yield story
    assert not found.counts
    assert any("nobody was told which offset" in why for why in found.unknowns) == unknown


@judging(check)
def test_who_begins_before_the_kept_offset(story: Any) -> Asks:
    handed_over(story, begins_at=1)
    found = yield apart(story)
    assert found.counts == {"group-offset-went-back": 1}
    assert "b of group g was given t-0 and began at offset 1, although 3" in found.findings[0].says


@pytest.mark.parametrize(
    "why", ["not committed", "too late", "nobody knows", "another group", "another partition"]
)
@judging(check)
def test_what_was_not_kept_is_given_again(story: Any, why: str) -> Asks:
    handed_over(story, begins_at=1)
    kept = story.rows["commit"][0]
    if why == "not committed":
        kept["type"] = "fail"
    if why == "nobody knows":
        kept["type"] = "info"
    if why == "too late":
        kept["t"] = 55 * 1_000_000
    if why == "another group":
        kept["group"] = "h"
    if why == "another partition":
        kept["partition"] = 1
    assert not (yield story).counts


@judging(check)
def test_going_on_after_a_reset_is_the_clients_own_business(story: Any) -> Asks:
    handed_over(story, begins_at=1)
    story.add("fetch", 55, process="b", poll=55, type="fail", error=1)
    assert not (yield story).counts


@judging(check)
def test_only_the_first_record_after_an_assignment_counts(story: Any) -> Asks:
    handed_over(story)
    commit(story, 75, "b", 10)
    poll(story, 80, "b", 9)  # the same member, no new assignment: `polls` would know
    assert not (yield story).counts


@pytest.mark.parametrize(("offset", "broken"), [(10, 0), (12, 0), (9, 1), (-1, 1)])
@judging(check)
def test_an_offset_that_the_coordinator_acknowledged_is_kept(
    story: Any, offset: int, broken: int
) -> Asks:
    handed_over(story)
    asked(story, offset)
    found = yield apart(story, "lost") if broken else story
    assert found.counts.get("committed-offset-lost", 0) == broken


@pytest.mark.parametrize(
    ("moved", "t", "late", "lost"),
    [
        (4_000, 5_000, True, 0),
        (4_000, 5_000, False, 1),
        (4_000, 7_100, True, 1),
        (5_010, 5_000, True, 1),
        (None, 5_000, True, 1),
    ],
)
@judging(check)
def test_a_coordinator_that_has_just_begun_may_know_later_what_was_kept(
    story: Any, moved: float | None, t: float, late: bool, lost: int
) -> Asks:
    handed_over(story)
    facts = {**story.run["arms"][story.arm], TOLD_LATE: late}
    story.run = {**story.run, "arms": {**story.run["arms"], story.arm: facts}}
    story.commit(1, 1, 0, topic=OFFSETS_TOPIC)
    if moved is not None:
        story.commit(moved, 2, 1, topic=OFFSETS_TOPIC)
    story.add("committed", t, process="b", offset=9, invoke_t=t - 5, **G)
    found = yield story
    assert found.counts.get("committed-offset-lost", 0) == lost
    rule = (story.arm, 0, "committed-offset-lost", "has-begun", KEPT)
    assert found.excused.get(rule, 0) == 1 - lost


@pytest.mark.parametrize(
    ("t", "type_", "broken"), [(65, "ok", 1), (75, "ok", 0), (65, "info", 0), (75, "fail", 1)]
)
@judging(check)
def test_an_older_offset_may_have_been_committed_since(
    story: Any, t: float, type_: str, broken: int
) -> Asks:
    """By who had polled before a rebalance, and commits after it."""
    handed_over(story)
    commit(story, t, "a", 5, type=type_)
    asked(story, 5)
    assert (yield story).counts.get("committed-offset-lost", 0) == broken


@judging(check)
def test_a_commit_that_may_be_on_its_way_proves_nothing(story: Any) -> Asks:
    handed_over(story)
    commit(story, 95, "b", 11)
    asked(story, 10)
    asked(story, -1, group="another")
    assert not (yield story).counts


@pytest.mark.parametrize(("begins_at", "broken"), [(3, 0), (5, 2)])
@judging(check)
def test_records_that_no_member_was_given(story: Any, begins_at: int, broken: int) -> Asks:
    handed_over(story, begins_at=begins_at)
    assert (yield story).counts.get("group-skipped", 0) == broken


@pytest.mark.parametrize(
    ("lacks", "begins", "broken"),
    [
        (0, {"a": "start", "b": "start"}, 0),
        (2, {"a": "start", "b": "start"}, 2),
        (2, {"a": "start", "b": None}, 0),  # nobody knows where it went from
        (2, {}, 0),
    ],
)
@judging(check)
def test_a_group_that_begins_at_the_start(
    story: Any, lacks: int, begins: dict[str, str | None], broken: int
) -> Asks:
    handed_over(story)
    story.run["trials"] = [
        {"arm": story.arm, "trial": 0, "workloads": [
            {"process": name, "role": "group-consumer", "topics": {"t": []}, "begins": at}
            for name, at in begins.items()
        ]}
    ]  # fmt: skip
    first = [row for row in story.rows["fetch"] if row["offset"] < lacks]
    story.rows["fetch"] = [row for row in story.rows["fetch"] if row not in first]
    found = yield story
    assert found.counts.get("group-skipped", 0) == broken


@judging(check)
def test_a_gap_without_records_is_none(story: Any) -> Asks:
    handed_over(story, begins_at=5)
    story.rows["log_read"] = [r for r in story.rows["log_read"] if r["offset"] not in (3, 4)]
    assert not (yield story).counts


@pytest.mark.parametrize("lack", ["commit", "fetch"])
@judging(check)
def test_a_group_that_did_nothing_is_unknown(story: Any, lack: str) -> Asks:
    handed_over(story)
    story.rows[lack].clear()
    assert (yield story).verdict([(story.arm, 0)])[0] is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("all", ""),
        ("commit", "b was given 60 records, and tells of no commit"),
        ("assignment", "b was given 60 records, and tells of no partition that it was given"),
        ("commit, of few records", ""),
        ("commit, of no member", ""),
        ("commit, of polls that gave nothing", ""),
        ("commit, but one in vain", ""),
    ],
)
@judging(check)
def test_members_tell_of_all_that_they_do(story: Any, how: str, says: str) -> Asks:
    handed_over(story, begins_at=3)
    asked(story, 10)
    role = "consumer" if "no member" in how else "group-consumer"
    member = {"process": "b", "role": role, "topics": {"t": [0]}}
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": [member]}]
    for offset in range(10, 63 if "few" not in how else 12):
        value = None if "nothing" in how else offset
        story.add("fetch", 65, process="b", poll=65, offset=value, value=value)
    kind = how.partition(",")[0]
    if kind != "all":
        rows = story.rows[kind]
        rows[:] = [row for row in rows if row["process"] != "b"]
    if "in vain" in how:
        commit(story, 72, "b", 10, type="fail", error=16)
    found = [why for why in (yield apart(story)).unknowns if " was given " in why]
    assert [why.endswith(says) for why in found] == [True] * bool(says)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("assignment", "group h has members, and no commit of it was acknowledged"),
        ("commit", "group h has commits, and nobody was given a partition as its member"),
        (None, ""),
    ],
)
@judging(check)
def test_a_group_by_another_name(story: Any, kind: str | None, says: str) -> Asks:
    handed_over(story)
    asked(story, 10)
    for row in story.rows[kind] if kind else ():
        row["group"] = "h"
    commit(story, 75, "z", 4, group="i", type="fail", error=25)  # a stranger's, refused
    assert any(says in why for why in (yield story).unknowns) is bool(says)


@pytest.mark.parametrize(("offset", "broken"), [(10, 0), (3, 0), (0, 0), (-1, 0), (11, 1), (5, 1)])
@judging(check)
def test_the_coordinator_keeps_only_what_it_was_asked_to_keep(
    story: Any, offset: int, broken: int
) -> Asks:
    handed_over(story)
    asked(story, offset)
    # 10 is kept: less is lost as well, and whether there is either is asked for all at once.
    found = yield apart(story, "never" if offset > 10 else "both") if broken else story
    assert found.counts.get("committed-never", 0) == broken


@pytest.mark.parametrize(
    ("t", "type_", "group", "broken"),
    [
        (80, "ok", "g", 0),
        (80, "fail", "g", 0),  # a client's first try may have been kept, and its second refused
        (92, "info", "g", 0),  # asked for before the answer came
        (95, "ok", "g", 1),
        (80, "ok", "h", 1),
    ],
)
@judging(check)
def test_whoever_asked_to_keep_it_asked_before(
    story: Any, t: float, type_: str, group: str, broken: int
) -> Asks:
    handed_over(story)
    commit(story, t, "b", 11, type=type_, group=group, invoke_t=t - 3)
    asked(story, 11)
    found = yield apart(story, "never") if broken else story
    assert found.counts.get("committed-never", 0) == broken


@judging(check)
def test_what_was_kept_must_be_asked_for(story: Any) -> Asks:
    handed_over(story)
    given(story, 65, "b", partition=1)
    commit(story, 71, "b", 5, partition=1)
    asked(story, 10)
    (why,) = (yield story).unknowns
    assert "nobody was told which offset of t-1 was kept for group g" in why


@pytest.mark.parametrize(
    ("offsets", "counts"),
    [
        ([(0, 1), (2, 3)], {}),
        ([(5, 6), (7, 8)], {}),  # from what was kept
        ([(0, 1), (1, 2)], {"poll-went-back": 1}),
        ([(0, 1), (5, 6)], {"poll-skipped": 1}),
    ],
)
@judging(polls.check)
def test_members_are_held_to_their_polls_from_one_assignment_to_the_next(
    story: Any, offsets: list[tuple[int, ...]], counts: dict[str, int]
) -> Asks:
    handed_over(story)
    given(story, 80, "a")
    for number, of in enumerate(offsets):
        poll(story, 85 + number, "a", *of)
    assert (yield story).counts == counts


# ---- two at once ---------------------------------------------------------------------------------


def in_turn(story: Any, *, times: int) -> None:
    """Members a and b both have the partition, and commit by turns."""
    story.final_log({v: v for v in range(100)})
    given(story, 10, "a")
    given(story, 12, "b")
    poll(story, 20, "a", *range(50))
    poll(story, 20, "b", *range(50))
    for n in range(times):
        commit(story, 100 + 20 * n, "a", n + 1)
        commit(story, 110 + 20 * n, "b", n + 1)
    commit(story, 100 + 20 * times, "a", times + 1)


@judging(check)
def test_two_members_that_commit_for_one_partition(story: Any) -> Asks:
    in_turn(story, times=3)
    found = yield story
    assert found.counts == {"committed-by-two": 2}  # each of them in the other's term
    says = sorted(finding.says for finding in found.findings)
    assert "b committed 3 times for t-0 while a of group g had it" in says[1]


@pytest.mark.parametrize("why", ["twice only", "refused", "given again", "another"])
@judging(check)
def test_one_member_at_a_time(story: Any, why: str) -> Asks:
    in_turn(story, times=2 if why == "twice only" else 5)
    for row in story.rows["commit"]:
        if row["process"] == "b":
            if why == "refused":
                row["type"] = "fail"
            if why == "another":
                row["group"] = "h"
        elif why == "given again":
            given(story, row["t"] / 1_000_000 - 5, "a")
    assert (yield story).counts == {}


@pytest.mark.parametrize(
    ("outcome", "error", "n", "broken", "refused", "told"),
    [("fail", 25, 3, 0, 3, True), ("fail", 22, 3, 0, 3, True), ("fail", 25, 2, 0, 2, False),
     ("fail", 16, 9, 0, 0, False), ("info", None, 9, 0, 0, False), ("ok", 0, 1, 1, 0, True),
     ("fail", 25, 0, 0, 0, False)],
)  # fmt: skip
@judging(check)
def test_a_stranger_is_refused(
    story: Any, outcome: str, error: int, n: int, broken: int, refused: int, told: bool
) -> Asks:
    """Or obeyed: of one that is neither nobody knows what it would have been."""
    handed_over(story)
    asked(story, 10)
    for number in range(n):
        commit(story, 65 + number, "stranger", 0, type=outcome, error=error)
    workload = {"process": "stranger", "role": "group-stranger", "topics": {}, "nodes": [1]}
    story.run["trials"] = [{"arm": story.arm, "trial": story.trial, "workloads": [workload]}]
    found = yield story
    assert found.counts.get("stranger-committed", 0) == broken
    assert found.evidence[story.arm, 0, REFUSED] == refused
    says = f"stranger: {refused} of its commits were refused as a stranger's: too few to tell"
    assert any(says in why for why in found.unknowns) is not told


@judging(check)
def test_who_was_given_nothing_commits_nothing(story: Any) -> Asks:
    """No coordinator looks at partitions: it is the client's own account that cannot be."""
    handed_over(story)
    commit(story, 71, "b", 5, partition=1)
    asked(story, 10)
    asked(story, 5, partition=1)
    (why,) = (yield story).unknowns
    assert "b committed 1 times for t-1, which it had not been given" in why


# ---- what others were told -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("t", "offset", "node", "broken"),
    [
        (36, 5, 1, 0),  # a member has just asked for it to be kept
        (36, 0, 1, 0),
        (32, 5, 1, 1),  # it had not yet
        (36, 7, 1, 1),
        (36, 7, 2, 1),  # nor of a broker of the past, or none
        (36, -1, 2, 0),
    ],
)
@judging(check)
def test_a_stranger_too_is_told_only_what_somebody_asked_to_be_kept(
    story: Any, t: float, offset: int, node: int, broken: int
) -> Asks:
    del story
    one = told(t, offset, node=node)
    commit(one, 58, "a", 7, type="fail", error=16)
    found = yield apart(one, "never") if broken else one
    assert found.counts.get("committed-never", 0) == broken


def told(t: float = 36, offset: int = 5, **more: Any) -> Story:
    """Members keep 3, then try 5, of which they hear nothing; a stranger asks node 1, coordinator
    since the beginning, and a member asks in the end and is told 3."""
    story = Story()
    stranger = {"process": "x", "role": "group-stranger", "topics": {}, "nodes": [1]}
    trials = [{"arm": ARM, "trial": n, "workloads": [stranger]} for n in range(12)]
    story.run["trials"] = trials  # as many as are told together
    coordinator(story, 1, 1)
    story.final_log({v: v for v in range(10)})
    given(story, 10, "a")
    poll(story, 20, "a", 0, 1, 2)
    commit(story, 30, "a", 3)
    commit(story, 45, "a", 5, type="info", invoke_t=33)
    story.add("committed", t, **{"process": "x", "node": 1, "offset": offset, **G, **more})
    coordinator(story, 60, 2)
    asked(story, 3)
    return story


def coordinator(story: Story, t: float, node: int) -> None:
    """It leads the partition of the group's offsets from now on."""
    number = len(story.rows.get("zk_write", ()))
    story.add(
        "zk_write", t, what="state", step="set" if number else "created", zxid=number + 1,
        topic="__consumer_offsets", leader=node, leader_epoch=number, partition_epoch=number,
        controller_epoch=1, isr=[1, 2], commit_ms=t,
    )  # fmt: skip


def lower_since(**more: Any) -> Story:
    story = told()
    commit(story, 70, "b", 3, **more)
    return story


def loaded() -> Story:
    """Who tells was elected after that was tried, and before it was asked."""
    story = told()
    coordinator(story, 34, 1)
    story.rows["zk_write"].sort(key=lambda row: row["t"])
    for number, row in enumerate(story.rows["zk_write"]):
        row |= {"zxid": number + 1, "leader_epoch": number, "partition_epoch": number}
    return story


def test_what_was_told_of_is_kept(spark: Any) -> None:
    stories = {
        "told while it was not kept": told(),
        "told again": told(50),
        "an older one refused since": lower_since(type="fail"),
        "told what is kept": told(offset=3),
        "told that there is none": told(offset=-1),
        "told by who was just elected": loaded(),
        "an older one kept since": lower_since(),
        "an older one perhaps kept since": lower_since(type="info", invoke_t=20),
        "told afterwards": told(95),
        "by a member": told(process="b"),
    }
    found = judged_together(spark, check, stories)
    wrong = {name: rules for name, (rules, _) in found.items() if rules}
    assert wrong == {name: {"shown-offset-lost": 1} for name in list(stories)[:3]}


def test_what_others_were_told_counts(spark: Any) -> None:
    assert check(told(offset=3).history(spark)).evidence[ARM, 0, SHOWN] == 1


OF_STRANGERS = {
    "it tells what was kept": (2, LATE, 7, 0),
    "it tells a newer one": (2, LATE, 9, 0),
    "it tells an older one": (2, LATE, 6, 1),
    "it knows of none": (2, LATE, -1, 1),
    "amid all that happens": (2, 2_000, -1, 0),
    "another, which may be of the past": (1, LATE, -1, 0),
}


@pytest.mark.parametrize("case", OF_STRANGERS)
@judging(check)
def test_once_all_is_calm_whoever_asks_is_told_what_is_kept(case: str) -> Asks:
    node, t, offset, broken = OF_STRANGERS[case]
    story = of_coordinators()
    stranger = {"process": "x", "role": "group-stranger", "topics": {}, "nodes": [1]}
    story.run["trials"] = [{"arm": story.arm, "trial": story.trial, "workloads": [stranger]}]
    story.add("assignment", 500, process="m", group=GROUP, event="assigned")
    for kept in (6, 7):
        commit(story, 100 * kept, "m", kept, group=GROUP)
    story.add(
        *("committed", t),
        **{"process": "x", "node": node, "group": GROUP, "offset": offset, "invoke_t": t - 1},
    )
    assert (yield story).counts.get("committed-offset-lost", 0) == broken
