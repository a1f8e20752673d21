"""Planes: an arm that is not what its name says, and its lawful twins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.promises.planes import OWN, SEEN, check
from checkers.promises.planes.behind_data import ANSWERED, PROBED
from checkers.promises.planes.held_answers import READY, held_answers
from tests.checkers.conftest import ARM, Story, judged_together
from tests.checkers.together import Asks, apart, judging, ruled

BROKERS = (1, 2, 3)
MS = 1_000_000


def dual(
    story: Any,
    *,
    control: tuple[int, ...] = BROKERS,
    plane: str = "control",
    looked: float = 3_000,
) -> None:
    """Controller 1 sends to three brokers for six seconds, and is connected to ``control``.
    ``looked``: when something else was seen to change."""
    story.run["arms"][story.arm]["planes"] = "dual"
    story.add("controller", 0, node=1, event="elected", controller_epoch=1)
    story.add("connection", looked, node=2, to=3, link="inter-broker", connections=1)
    for broker in BROKERS:
        story.add("connection", 500, node=1, to=broker, link="inter-broker", connections=1)
        if broker in control:
            story.add("connection", 500, node=1, to=broker, link="control", connections=1)
        for number, t in enumerate((1_000, 4_000, 7_000)):
            request(story, t, broker, number, plane=plane)


def request(story: Any, t: int, broker: int, number: int, *, plane: str, sent: bool = True) -> None:
    same = {"api": "LEADER_AND_ISR", "correlation_id": number, "controller_epoch": 1}
    if sent:
        story.add("control_send", t, node=1, to=broker, attempt=1, partitions=[], **same)
    listener = "CONTROLLER" if plane == "control" else "REPLICATION"
    story.handled(t + 10, broker, controller_id=1, plane=plane, listener=listener, **same)


@judging(check)
def test_what_an_arm_of_dual_planes_looks_like(story: Any) -> Asks:
    dual(story)
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    assert found.evidence[story.arm, 0, SEEN] == 3


@judging(check)
def test_a_controllers_request_on_the_data_plane(story: Any) -> Asks:
    dual(story)
    request(story, 8_000, 2, 9, plane="data")
    found = yield apart(story)
    assert found.counts == {"control-request-on-data-plane": 1}
    assert "node 2 handled 1 of controller 1's requests" in found.findings[0].says


@judging(check)
def test_a_strangers_request_on_the_data_plane_is_his_own_business(story: Any) -> Asks:
    dual(story)
    request(story, 8_000, 2, 9, plane="data", sent=False)
    assert not (yield story).counts


@judging(check)
def test_a_controller_that_ignores_the_control_listener(story: Any) -> Asks:
    dual(story, control=(1, 3))
    assert (yield apart(story)).counts == {"controller-past-the-control-listener": 1}


@judging(check)
def test_nobody_may_have_looked_meanwhile(story: Any) -> Asks:
    dual(story, control=(1, 3), looked=600)
    found = yield apart(story)
    assert not found.counts
    assert any("nothing shows that anybody looked" in says for says in found.not_judged)


@judging(check)
def test_a_broker_that_lies_about_its_plane_does_not_hide_it(story: Any) -> Asks:
    dual(story, control=(), plane="control")
    assert (yield story).counts == {"controller-past-the-control-listener": 3}


@judging(check)
def test_a_controller_of_a_moment_may_not_have_been_seen(story: Any) -> Asks:
    dual(story)
    story.add("controller", 7_000, node=3, event="elected", controller_epoch=2)
    same = {"api": "LEADER_AND_ISR", "correlation_id": 1, "controller_epoch": 2, "partitions": []}
    for t in (7_000, 9_000):
        story.add("control_send", t, node=3, to=2, attempt=1, **same)
    assert not (yield story).counts


@pytest.mark.parametrize("ended", ["", "boot", "broker_epoch"])
@judging(check)
def test_moments_in_several_lives_are_no_long_connection(story: Any, ended: str) -> Asks:
    dual(story, control=(1, 3))
    for row in story.rows["control_send"]:
        if ended and row["to"] == 2:
            row[ended] = 1 if row["t"] < 3_000 * MS else 2
    assert bool((yield story).counts) == (not ended)


@pytest.mark.parametrize(("link", "broken"), [("control", 1), ("inter-broker", 0)])
@judging(check)
def test_a_follower_at_the_control_listener(story: Any, link: str, broken: int) -> Asks:
    dual(story)
    for t in (900, 950):
        story.add("connection", t, node=3, to=2, link=link, connections=1)
    assert (yield story).counts.get("data-on-control-plane", 0) == broken


@judging(check)
def test_a_follower_may_turn_to_the_controller(story: Any) -> Asks:
    dual(story)
    story.add("connection", 900, node=3, to=1, link="control", connections=1)
    assert not (yield story).counts


@judging(check)
def test_a_forger_that_has_a_controllers_number(story: Any) -> Asks:
    dual(story)
    forged = {"api": "LEADER_AND_ISR", "correlation_id": 1, "client_id": "forger"}
    story.add("forged", 8_000, node=2, plane="data", controller_epoch=1, **forged)
    story.handled(8_010, 2, controller_id=1, plane="data", controller_epoch=1, **forged)
    assert not (yield story).counts


@pytest.mark.parametrize(("told", "broken"), [("own word", 1), ("zookeeper", 1), ("nobody", 0)])
@judging(check)
def test_a_stranger_is_one_only_where_controllers_are_known(
    story: Any, told: str, broken: int
) -> Asks:
    dual(story)
    story.add("connection", 900, node=3, to=2, link="control", connections=1)
    if told != "own word":
        story.rows["controller"].clear()
    if told == "zookeeper":
        story.add("zk_write", 0, what="controller", step="created", node=1, zxid=1, topic=None)
    found = yield story
    assert found.counts.get("data-on-control-plane", 0) == broken
    assert bool(found.not_judged) == (told == "nobody")


@judging(check)
def test_an_arm_whose_system_shows_no_planes_is_not_judged(story: Any) -> Asks:
    dual(story)
    story.run["arms"][story.arm]["checks"] = ["records"]
    story.add("connection", 900, node=3, to=2, link="control", connections=1)
    assert not (yield story).counts


@judging(check)
def test_who_once_was_controller_may_stay_connected(story: Any) -> Asks:
    dual(story)
    story.add("controller", 100, node=3, event="elected", controller_epoch=2)
    story.add("connection", 9_000, node=3, to=2, link="control", connections=1)
    assert not (yield story).counts


@pytest.mark.parametrize(
    ("plane", "api", "broken"),
    [("control", "FETCH", 1), ("control", "ALTER_PARTITION", 0), ("data", "FETCH", 0)],
)
@judging(check)
def test_what_a_control_plane_serves(story: Any, plane: str, api: str, broken: int) -> Asks:
    dual(story)
    use = {"node": 2, "interval_ns": 10**9, "listener": "CONTROLLER"}
    story.add("plane_use", 2_000, plane=plane, api=api, requests=4, **use)
    story.add("plane_use", 2_000, plane="control", api="LEADER_AND_ISR", requests=4, **use)
    assert (yield apart(story) if broken else story).counts.get(
        "data-on-control-plane", 0
    ) == broken


@pytest.mark.parametrize(("planes", "broken"), [("single", 1), ("priority", 1), ("dual", 0)])
@judging(check)
def test_a_control_plane_where_none_was_asked_for(story: Any, planes: str, broken: int) -> Asks:
    dual(story)
    story.run["arms"][story.arm]["planes"] = planes
    found = (yield story).counts.get("control-plane-unasked", 0)
    assert bool(found) == bool(broken)


@judging(check)
def test_an_arm_whose_controller_said_nothing_is_unknown(story: Any) -> Asks:
    dual(story)
    story.rows.pop("control_send")
    assert (yield story).verdict([(story.arm, 0)])[0] is Verdict.UNKNOWN


@judging(check)
def test_a_run_in_which_nobody_looked_says_so(story: Any) -> Asks:
    dual(story)
    story.rows.pop("connection")
    found = yield story
    assert not found.counts
    assert found.not_judged == [f"{story.arm}: where controllers connected: nobody looked"]


# ---- a control plane that comes while the cluster runs ------------------------------------------


def upgrade(story: Any, *, done: int | None, told_later_ms: int = 0) -> None:
    fault = {"fault": "plane-upgrade", "id": "upgrade"}
    story.add("fault", 100, phase="inject", **fault)
    if done is not None:
        ends = {"round_ends_ns": [500 * MS, done * MS]} if told_later_ms else {}
        fault |= {"phase": "injected", "detail": json.dumps(ends)}
        story.add("fault", done + told_later_ms, took_hold=True, **fault)


@judging(check)
def test_before_its_upgrade_is_done_a_cluster_is_mixed(story: Any) -> Asks:
    dual(story, control=(1, 3))  # and then broker 2 has no control listener yet
    request(story, 8_000, 2, 9, plane="data")
    upgrade(story, done=9_000)
    request(story, 10_000, 1, 11, plane="control")
    assert not (yield story).counts


@judging(check)
def test_after_its_upgrade_a_cluster_has_planes(story: Any) -> Asks:
    dual(story, control=(1, 3))
    upgrade(story, done=900)
    request(story, 10_000, 3, 12, plane="data")
    assert (yield story).counts == {
        "controller-past-the-control-listener": 1,
        "control-request-on-data-plane": 1,
    }


@pytest.mark.parametrize(("t", "broken"), [(850, 0), (1_000, 1)])
@judging(check)
def test_an_upgrade_is_done_with_its_last_restart(story: Any, t: int, broken: int) -> Asks:
    """What its fault does besides, it does with the planes that are there by then."""
    dual(story, control=(1, 2, 3))
    upgrade(story, done=900, told_later_ms=800)
    request(story, t, 3, 12, plane="data")
    request(story, 1_200, 1, 13, plane="control")
    found = yield story
    assert found.counts.get("control-request-on-data-plane", 0) == broken
    assert found.evidence[story.arm, 0, OWN] >= 1


@judging(check)
def test_of_an_upgrade_that_was_never_done_nothing_is_judged(story: Any) -> Asks:
    dual(story, control=())
    request(story, 8_000, 2, 9, plane="data")
    upgrade(story, done=None)
    found = yield story
    assert not found.counts
    assert not found.evidence[story.arm, 0, SEEN]


# ---- who says nothing, and what is counted -------------------------------------------------------


def answered(story: Any) -> None:
    for broker in BROKERS:
        for number, t in enumerate((1_000, 4_000, 7_000)):
            story.add("control_response", t + 20, node=1, to=broker, api="LEADER_AND_ISR",
                      correlation_id=number, send_t=t, error=0)  # fmt: skip


def use(story: Any, node: int, plane: str = "data", api: str = "FETCH", n: int = 5) -> None:
    listener = "CONTROLLER" if plane == "control" else "REPLICATION"
    story.add("plane_use", 2_000, node=node, plane=plane, listener=listener, api=api, requests=n)


@pytest.mark.parametrize("silent", ["nobody", "handled", "use"])
@judging(check)
def test_a_broker_that_says_nothing_is_unknown(story: Any, silent: str) -> Asks:
    dual(story)
    answered(story)
    for broker in BROKERS:
        story.add("node_event", 1, node=broker, event="start")
        if silent != "use" or broker != 2:
            use(story, broker)
    if silent == "handled":
        rows = story.rows["control_request"]
        rows[:] = [row for row in rows if row["node"] != 2]
    asked = story if silent == "nobody" else apart(story)
    verdict, why = (yield asked).verdict([(story.arm, 0)])
    assert verdict is (Verdict.VALID if silent == "nobody" else Verdict.UNKNOWN)
    wanted = {"handled": "answered 3 requests", "use": "tells of no use of its planes"}
    assert silent == "nobody" or wanted[silent] in why[0]


@judging(check)
def test_a_trial_in_which_nobody_looked_or_counted(story: Any) -> Asks:
    dual(story)
    for broker in BROKERS:
        use(story, broker)
    rows = {kind: list(of) for kind, of in story.rows.items()}
    story.trial = 1
    story.rows.clear()
    dual(story)
    del story.rows["connection"]
    for kind, of in rows.items():
        story.rows.setdefault(kind, []).extend(of)
    why = (yield story).unknowns
    assert [("trial 1" in w, "in other trials" in w) for w in why] == [(True, True)] * 2


@pytest.mark.parametrize(
    ("planes", "plane", "others", "rules"),
    [
        ("dual", "data", "another's probe", {"control-request-on-data-plane": 1}),
        ("dual", "data", "another api's probe", {"control-request-on-data-plane": 1}),
        ("dual", "control", None, {}),
        ("dual", "data", None, {"control-request-on-data-plane": 1}),
        ("dual", "data", "probe", {}),
        ("dual", "data", "forged", {}),
        ("single", "data", None, {}),
        ("single", "control", None, {"control-plane-unasked": 1}),
        ("priority", "control", None, {"control-plane-unasked": 1}),
    ],
)
@judging(check)
def test_what_planes_count(
    story: Any, planes: str, plane: str, others: str | None, rules: dict[str, int]
) -> Asks:
    dual(story, plane="control" if planes == "dual" else "data")
    story.run["arms"][story.arm]["planes"] = planes
    use(story, 2, plane, "LEADER_AND_ISR")
    if others is not None:
        served = sum(r["requests"] for r in story.rows["plane_use"] if r["plane"] == plane)
        api = "UPDATE_METADATA" if "api" in others else "LEADER_AND_ISR"
        node = 1 if "another's" in others else 2
        for _ in range(served):
            story.add(others.split()[-1], 1_500, node=node, api=api, plane="data")
    asked = apart(story) if others is None and rules else story
    assert (yield asked).counts == rules


@pytest.mark.parametrize(
    ("planes", "plane", "sender", "rules"),
    [
        ("dual", "data", None, {"broker-request-on-data-plane": 1}),
        ("dual", "data", "forged", {}),
        ("dual", "control", None, {}),
        ("single", "data", None, {}),
    ],
)
@judging(check)
def test_what_brokers_ask_of_the_controller(
    story: Any, planes: str, plane: str, sender: str | None, rules: dict[str, int]
) -> Asks:
    """By its control listener where there is one; where there is none, by their own."""
    dual(story, plane="control" if planes == "dual" else "data")
    story.run["arms"][story.arm]["planes"] = planes
    use(story, 1, plane, "ALTER_PARTITION")
    if sender is not None:
        for _ in range(5):
            story.add(sender, 1_500, node=1, api="ALTER_PARTITION", plane="data")
    assert (yield story).counts == rules


# ---- behind data ---------------------------------------------------------------------------------


def beside_a_flood(
    took_ms: float, *, plane: str = "control", probes: int = 40, queue_places: int | None = 500
) -> Story:
    """100 connections and 500 answers a second: 200 ms each, from 10 to 20 s. Probes every 250 ms,
    a tenth of them slow."""
    story = Story()
    dual(story)
    detail = json.dumps({"queue_places": queue_places, "connections": {"2": 100}})
    for t, phase in ((10_000, "injected"), (20_000, "healed")):
        story.add("fault", t, id="f", fault="flood", phase=phase, nodes=[2], detail=detail)
    for t in range(10_500, 20_001, 500):
        numbers = {"interval_ns": 500 * MS, "connections": 100, "sent": 250, "completed": 250}
        story.add("flood", t, id="f", node=2, process="flood-f-1", errors=0, **numbers)
    for number in range(probes):
        sent = 10_001 + 250 * number
        late = 900 if number % 10 == 9 else took_ms
        story.add("probe", sent + late, node=2, plane=plane, invoke_t=sent, planned_t=sent)
    return story


def unanswered_until(t: float) -> Story:
    """The first probe is not answered sooner, and those that were due are sent then."""
    story = beside_a_flood(3)
    for row in story.rows["probe"]:
        if row["t"] < t * MS:
            row |= {"invoke_t": int(t * MS), "t": int((t + 3) * MS)}
    return story


def with_a_toxic(story: Story, node: int, fault: str = "toxic") -> Story:
    for t, phase in ((12_000, "injected"), (13_000, "healed")):
        story.add("fault", t, id="x", fault=fault, phase=phase, nodes=[node])
    return story


def controlled(took_ms: float, *, requests: int = 9, sender: int = 1) -> Story:
    """Its controller's own requests, one a second, each third of which takes a second."""
    story = beside_a_flood(3)
    for number in range(requests):
        sent, own = 10_001 + 1_000 * number, {"node": sender, "boot": 1, "correlation_id": number}
        late = 900 if number % 3 == 2 else took_ms
        story.add("control_send", sent, to=2, api="UPDATE_METADATA", attempt=1, **own)
        story.add("control_response", sent + late, to=2, error=0, send_t=sent, **own)
    return story


def numbered_again(story: Story) -> Story:
    """The same numbers had been given before, on another connection, and answered at once."""
    for number in range(9):
        sent, own = 2_001 + 100 * number, {"node": 1, "boot": 1, "correlation_id": number}
        story.add("control_send", sent, to=2, api="UPDATE_METADATA", attempt=1, **own)
        story.add("control_response", sent + 3, to=2, error=0, send_t=sent, **own)
    return story


KEPT = ("fault", "flood", "probe", "control_send", "control_response")


def single(story: Story) -> Story:
    story.run["arms"][story.arm]["planes"] = "single"
    story.rows = {kind: story.rows[kind] for kind in KEPT if kind in story.rows}
    return story


def test_a_control_plane_does_not_wait_for_the_data_plane(spark: Any) -> None:
    stories = {
        "as long as data": beside_a_flood(180),
        "with a toxic elsewhere": with_a_toxic(beside_a_flood(180), 1),
        "not at all for long": unanswered_until(21_000),
        "as what it led is given away": with_a_toxic(beside_a_flood(180), 2, "move-leadership"),
        "a slow machine": beside_a_flood(90),
        "at once": beside_a_flood(3),
        "the data plane's own": beside_a_flood(180, plane="data"),
        "too few": beside_a_flood(180, probes=12),
        "no full queue": beside_a_flood(180, queue_places=None),
        "a slow link": with_a_toxic(beside_a_flood(180), 2),
    }
    found = judged_together(spark, check, stories)
    wrong = {name: rules for name, (rules, _) in found.items() if rules}
    assert wrong == {name: {"waits-behind-data": 1} for name in list(stories)[:4]}
    assert not check(single(beside_a_flood(180)).history(spark)).counts


def test_what_a_controller_sends_does_not_wait_for_the_data_plane(spark: Any) -> None:
    stories = {
        "as long as data": controlled(180),
        "as what it led is given away": with_a_toxic(controlled(180), 2, "move-leadership"),
        "by numbers of before": numbered_again(controlled(180)),
        "at once": controlled(3),
        "at once, by numbers of before": numbered_again(controlled(3)),
        "a slow machine": controlled(90),
        "too few": controlled(180, requests=4),
        "with a toxic elsewhere": with_a_toxic(controlled(180), 1),
        "its own controller": controlled(180, sender=2),
    }
    found = judged_together(spark, check, stories)
    wrong = [name for name, (rules, _) in found.items() if "waits-behind-data" in rules]
    assert wrong == list(stories)[:3]
    assert check(controlled(3).history(spark)).evidence[ARM, 0, ANSWERED] == 9
    assert not check(single(controlled(180)).history(spark)).counts


def test_probes_beside_a_flood_count(spark: Any) -> None:
    outcome = check(beside_a_flood(3).history(spark))
    assert outcome.evidence[ARM, 0, PROBED] == 40
    assert any(
        "too few" in why for why in check(beside_a_flood(3, probes=5).history(spark)).not_judged
    )


def left(story: Any, node: int, held_ms: list[float], *, plane: str = "control") -> None:
    for number, ms in enumerate(held_ms):
        t = 20_000 + 500 * number
        story.handled(
            t, node, api="UPDATE_METADATA", controller_id=1, plane=plane, correlation_id=number
        )
        row = story.rows["control_request"][-1]
        row["handled_t"] = row["t"] - int(ms * MS)


@pytest.mark.parametrize(
    ("held_ms", "plane", "n"),
    [
        ([280.0] * 10 + [1.0] * 10, "control", 10),
        ([280.0] * 9 + [1.0] * 11, "control", 0),  # a broker that was stopped for a while
        ([90.0] * 20, "control", 0),
        ([280.0] * 19, "control", 0),  # too few to tell
        ([280.0] * 20, "data", 0),  # its network threads wait for places in its queue
    ],
)
@judging(ruled(held_answers))
def test_answers_that_are_ready_leave(held_ms: list[float], plane: str, n: int) -> Asks:
    story = Story()
    left(story, 2, held_ms, plane=plane)
    left(story, 3, [1.0] * 20)
    found = yield story
    assert found.counts == ({"answer-held": n} if n else {})
    assert found.evidence[story.arm, 0, READY] >= 20
