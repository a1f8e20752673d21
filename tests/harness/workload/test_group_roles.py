"""The roles that speak of groups, as the processes that a run starts, against two brokers that
speak the protocol."""

from __future__ import annotations

from typing import Any

import pytest

from harness.workload import launch
from harness.workload.group_stranger import NOBODY
from nodes.wire.apis import ApiKey
from tests.harness.workload.conftest import READY_S, done, sound

pytestmark = pytest.mark.slow


# ---- groups without members ----------------------------------------------------------------------


def test_a_group_is_kept_asked_for_and_deleted_and_then_the_next(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("group-keeper", topic="t", rate_per_s=200, asks=3)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.deleted) > 3)
        workload.stop()
    found = [r for r in done(sound(rows(plan.output))) if r["type"] == "ok"]
    first = [r["step"] for r in found if r["group"] == "kept-0"]
    assert first[:5] == ["commit", "ask", "ask", "ask", "delete"]
    assert set(first[5:]) == {"ask"}, "what is deleted is asked for from then on"
    assert {r["offset"] for r in found if r["step"] == "commit"} == {7}
    assert {r["node"] for r in found} == {1}
    refused = {(r["node"], r["error"]) for r in done(rows(plan.output)) if r["type"] == "fail"}
    assert (2, 16) in refused
    assert {"kept-0", "kept-1", "kept-2"} <= mini.deleted


def test_some_groups_are_kept_for_a_time_and_some_only_visited(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("group-keeper", topic="t", rate_per_s=200, asks=2, keep_ms=50, visits=True)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: {"kept-0", "kept-3"} <= mini.deleted)
        wait_until(lambda: any(r.get("state") for r in done(rows(plan.output))))
        workload.stop()
    found = [r for r in done(sound(rows(plan.output))) if r["node"] == 1]
    kept = {(r["group"], r.get("keep_ms")) for r in found if r["step"] == "commit"}
    assert {("kept-0", None), ("kept-1", 50), ("kept-3", None)} <= kept
    brief = [r["step"] for r in found if r["group"] == "kept-1"]
    assert (brief[:3], set(brief[3:])) == (["commit", "ask", "ask"], {"ask"})
    first, *later = (r for r in found if r["group"] == "kept-2")
    assert [first[name] for name in ("step", "type", "error", "keep_ms")] == [
        *("join", "fail", 79, 1_000)
    ]
    assert {(r["step"], r["type"], r["state"]) for r in later} == {
        ("look", "ok", "PreparingRebalance")
    }
    assert not mini.deleted & {"kept-1", "kept-2"}


def test_of_some_groups_only_the_position_is_deleted(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """One that they never had before it, and between the two it is asked for."""
    plan = spec("group-keeper", topic="t", rate_per_s=200, asks=2, clears=True)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: ("kept-3", 0) in mini.cleared)
        workload.stop()
    found = [r for r in done(sound(rows(plan.output))) if r["node"] == 1]
    steps = [r["step"] for r in found if r["group"] == "kept-1"]
    assert steps[:5] == ["commit", "spare", "ask", "ask", "clear"]
    assert set(steps[5:]) == {"ask"}, "what is deleted is asked for from then on"
    assert mini.cleared[:4] == [("kept-1", 1), ("kept-1", 0), ("kept-3", 1), ("kept-3", 0)]
    assert {r["type"] for r in found} == {"ok"}
    refused = {
        (r["step"], r["error"]) for r in done(rows(plan.output)) if r["node"] == 2 and r["error"]
    }
    assert {("spare", 16), ("clear", 16)} <= refused
    assert {"kept-0", "kept-2"} <= mini.deleted


def test_a_position_is_raised_by_one_and_looked_at_by_another(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """On a connection of its own: also while who raises it waits for an answer."""
    mini.unanswered.add(ApiKey.OFFSET_COMMIT)
    plan = spec("group-riser", group="g", topic="t", rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: sum(r["step"] == "see" for r in done(rows(plan.output))) > 5)
        mini.unanswered.clear()
        wait_until(lambda: len(mini.commits) > 10)
        workload.stop()
    found = done(sound(rows(plan.output)))
    raised = [r["offset"] for r in found if r["step"] == "raise"]
    assert sorted(raised) == list(range(1, len(raised) + 1)), "each once"
    assert {(r["step"], r["node"], r["type"]) for r in found if r["error"] is not None} == {
        *(("raise", 1, "ok"), ("raise", 2, "fail"), ("see", 1, "ok"), ("see", 2, "fail"))
    }
    assert {r["offset"] for r in found if r["step"] == "see"} == {-1}
    assert {(g, member) for _, g, member in mini.commits} == {(-1, "")}


def test_a_position_is_looked_at_when_it_is_not_raised_any_more(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("group-riser", group="g", topic="t", rate_per_s=100, raises_ms=300)

    def seen() -> list[int]:
        """By op, since it was raised for the last time."""
        steps = done(rows(plan.output))
        last = max((r["op"] for r in steps if r["step"] == "raise"), default=2**62)
        return [r["op"] for r in steps if r["step"] == "see" and r["op"] > last]

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(seen()) > 60)
        workload.stop()
    found = done(sound(rows(plan.output)))
    assert any(r["step"] == "raise" and r["type"] == "ok" for r in found)
    assert len({r["node"] for r in found if r["op"] in seen()}) == 2


def test_of_two_members_one_waits_for_what_it_is_given(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """From the broker that let it in; the other one, who is to assign, says nothing."""
    mini.unanswered.add(ApiKey.SYNC_GROUP)
    plan = spec("group-couple", group="g", rate_per_s=100, stays_ms=400, timeout_ms=1_000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: sum(r["step"] == "sync" for r in done(rows(plan.output))) > 2)
        workload.stop()
    found = done(sound(rows(plan.output)))
    joined = {(r["node"], r["type"], r["error"]) for r in found if r["step"] == "enter"}
    assert joined == {(1, "fail", 79), (1, "ok", 0), (2, "fail", 16)}
    waited = [r for r in found if r["step"] == "sync"]
    assert {(r["node"], r["type"]) for r in waited} == {(1, "info")}
    assert max(r["t"] - r["invoke_t"] for r in waited) >= 400_000_000


def test_who_was_let_in_is_never_heard_of_again_and_the_next_one_comes(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("group-absent", group="g", rate_per_s=100, session_ms=400, rebalance_ms=9_000)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: sum(r["step"] == "sync" for r in done(rows(plan.output))) > 2)
        workload.stop()
    found = done(sound(rows(plan.output)))
    assert {(r["step"], r["error"]) for r in found if r["node"] == 2} == {("enter", 16)}
    mine = [(r["step"], r["error"]) for r in found if r["node"] == 1]
    assert mine[:6] == [("enter", 79), ("enter", 0), ("sync", 0)] * 2
    assert {r["keep_ms"] for r in found if r["step"] == "enter"} == {400}


def test_every_other_one_has_less_time_to_join_anew(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    waits = {"session_ms": 9_000, "rebalance_ms": 4_000, "hurried_ms": 700}
    plan = spec("group-absent", group="g", rate_per_s=100, **waits)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: sum(r["step"] == "sync" for r in done(rows(plan.output))) > 4)
        workload.stop()
    found = [r for r in done(sound(rows(plan.output))) if r["node"] == 1]
    kept = [r["keep_ms"] for r in found if r["step"] == "enter"]
    assert kept[:8] == [4_000, 4_000, 700, 700] * 2
    assert mini.rebalance_ms == {4_000, 700}


def test_every_other_one_leaves_while_the_next_one_waits(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    waits = {"session_ms": 9_000, "rebalance_ms": 4_000, "leaves": True}
    plan = spec("group-absent", group="g", rate_per_s=5, **waits)

    def parts() -> list[dict[str, Any]]:
        return [r for r in done(rows(plan.output)) if r["step"] == "part"]

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: any(r["step"] == "sync" for r in done(rows(plan.output))))
        mini.unanswered.add(ApiKey.JOIN_GROUP)
        wait_until(parts)
        workload.stop()
    (part,) = parts()
    assert (part["node"], part["type"], part["error"]) == (1, "ok", 0)
    sound(rows(plan.output))


def test_of_two_members_one_stays_and_the_other_comes_and_goes(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """What was read is committed before the host joins anew; it is alone before another comes."""
    mini.beats += [0, 27]
    plan = spec("group-pair", group="g", topic="t", rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: any(r["step"] == "part" for r in done(rows(plan.output))))
        mini.left.clear()  # or nobody could be in that group any more
        mini.beats.append(27)
        wait_until(lambda: any(r["step"] == "last" for r in done(rows(plan.output))))
        workload.stop()
    found = done(sound(rows(plan.output)))
    assert {(r["step"], r["error"]) for r in found if r["node"] == 2} == {
        *(("enter", 16), ("live", 16))
    }
    mine = [r for r in found if r["node"] == 1]
    assert [(r["step"], r["error"]) for r in mine][:3] == [
        *(("enter", 79), ("enter", 0), ("sync", 0))
    ]
    last = next(r for r in mine if r["step"] == "last")
    assert (last["type"], last["keep_ms"]) == ("ok", 1_500)
    assert {r["keep_ms"] for r in mine if r["step"] == "enter"} == {1_500, 4_000}
    offered = {(r["offers"], r.get("protocol")) for r in mine if r["step"] == "enter"}
    assert {("range", None), ("range", "range")} <= offered
    assert offered <= {(o, p) for o in ("sticky,range", "range") for p in (None, "range")}
    kept = [r for r in mine if r["step"] == "keep"]
    assert [(r["error"], r["offset"]) for r in kept[:1]] == [(22, 1)], "as it answers"
    assert {(g, member) for _, g, member in mini.commits} == {(1, "come-back-with-this")}
    assert {(r["error"], r["offset"]) for r in mine if r["step"] == "own"} == {(0, -1)}
    told = {(r["step"], r["otherwise"]) for r in mine if r.get("otherwise") is not None}
    assert {("enter", "nobody leads"), ("sync", "")} <= told, "as it answers"
    steps = [r["step"] for r in mine if r["step"] in ("enter", "part", "last", "sync")]
    assert steps.index("last") - steps.index("part") > 2, "the host is alone between"


def test_a_member_holds_what_its_group_is_said_to_be_like_against_what_it_is(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """Once the group is stable; before, nobody says what its members were given."""
    plan = spec("group-pair", group="g", topic="t", rate_per_s=100)

    def described() -> set[tuple[str, str | None]]:
        found = [r for r in done(rows(plan.output)) if r["step"] == "describe"]
        assert {(r["node"], r["error"]) for r in found} <= {(1, 0)}
        return {(r["state"], r.get("otherwise")) for r in found}

    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(described)
        assert {otherwise for _, otherwise in described()} == {None}
        with mini.lock:
            mini.leader_epoch = 1  # the group is stable from now on
        wait_until(lambda: ("Stable", "client '' of m-1") in described())
        workload.stop()
    sound(rows(plan.output))


def test_some_groups_are_joined_and_left_in_order(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("group-keeper", topic="t", rate_per_s=200, asks=1, leaves=True)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: {"kept-1", "kept-3"} <= mini.left)
        workload.stop()
    found = [r for r in done(sound(rows(plan.output))) if (r["node"], r["group"]) == (1, "kept-1")]
    assert [(r["step"], r["type"], r["error"]) for r in found] == [
        *(("enter", "fail", 79), ("enter", "ok", 0), ("leave", "ok", 0), ("beat", "fail", 25))
    ]
    assert found[0]["keep_ms"] == 6_000
    assert {"kept-0", "kept-2"} <= mini.deleted


def test_a_group_is_joined_again_and_again_by_who_never_comes_back(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    """Each asks for an id, and joins with it; between, another group is kept and deleted."""
    plan = spec("group-keeper", topic="t", rate_per_s=200, asks=1, waits="waiters")
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: {"kept-1", "kept-3"} <= mini.deleted)
        workload.stop()
    found = [r for r in done(sound(rows(plan.output))) if (r["node"], r["group"]) == (1, "waiters")]
    answers = [(r["step"], r["type"], r["error"]) for r in found]
    assert answers[:4] == [("enter", "fail", 79), ("enter", "ok", 0)] * 2
    assert {r["keep_ms"] for r in found} == {4_000}


# ---- the stranger to a group ---------------------------------------------------------------------


def test_a_stranger_speaks_for_members_of_the_past_and_for_nobody(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    plan = spec("group-stranger", group="g", topics={"t": 2}, rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: (1, 0, NOBODY) in mini.commits)
        assert not [member for _, _, member in mini.commits if member != NOBODY]
        with mini.lock:
            mini.leader_epoch = 1  # the group is stable from now on
        wait_until(lambda: {(1, 0, "m-1"), (1, 12, NOBODY)} <= set(mini.commits))
        assert workload.stop() == 0
    mine = {generation for _, generation, member in mini.commits if member == "m-1"}
    assert mine == {0, 1_000_000}
    nobody = {generation for node, generation, member in mini.commits if member == NOBODY}
    assert nobody - {0, 1_000_000} == set(range(1, 13))
    found = done(sound(rows(plan.output)))
    told = {(row["f"], row["node"], row["type"], row.get("error")) for row in found}
    named = {(r["node"], r["coordinator"]) for r in found if r["f"] == "coordinator"}
    assert named == {(1, 1), (2, 1)}
    described = [r for r in found if r["f"] == "group_step"]
    assert {(r["step"], r["node"], r["state"], r["untold"]) for r in described} == {
        ("describe", 1, "Stable", 1)
    }
    (at,) = {r["endpoint"] for r in found if r["f"] == "coordinator"}
    assert at == "1@h:1"
    refused, obeyed = ("commit", 1, "fail", 22), ("commit", 1, "ok", 0)
    assert {refused, obeyed, ("commit", 2, "fail", 16)} <= told
    mine = [row for row in found if row["f"] == "commit"]
    assert {(row["group"], row["topic"], row["offset"]) for row in mine} == {("g", "t", 0)}
    assert {row["partition"] for row in mine} == {0, 1}


def test_a_stranger_asks_whose_instances_members_are(
    mini: Any, spec: Any, rows: Any, wait_until: Any
) -> None:
    mini.leader_epoch, mini.statics = 1, {"s": "one", "other": "another"}
    statics = {"s": "one", "other": "one"}
    plan = spec("group-stranger", group="g", topics={"t": 1}, rate_per_s=100, statics=statics)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.commits) > 20)
        assert workload.stop() == 0
    assert {member for _, _, member in mini.commits} == {NOBODY, "m-1"}
    told = [row for row in done(sound(rows(plan.output))) if row["f"] == "group_step"]
    assert {(row["group"], row["untold"], row.get("otherwise")) for row in told} == {
        *(("g", 1, None), ("s", 0, "")),
        ("other", 0, "instance 'another' of m-1"),
    }
    assert len({row["op"] for row in told}) == len(told)


def test_a_stranger_asks_what_is_kept(mini: Any, spec: Any, rows: Any, wait_until: Any) -> None:
    plan = spec("group-stranger", group="g", topics={"t": 3}, rate_per_s=100)
    with launch(plan) as workload:
        workload.wait_ready(READY_S)
        wait_until(lambda: len(mini.commits) > 20)
        assert workload.stop() == 0
    told = [row for row in done(rows(plan.output)) if row["f"] == "committed"]
    assert {(row["node"], row["group"], row["type"]) for row in told} == {(1, "g", "ok")}
    assert {(row["partition"], row["offset"]) for row in told} == {(0, -1), (2, 2)}
    assert all(row["invoke_t"] < row["t"] for row in told)
