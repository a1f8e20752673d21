"""Metrics of planes: ten seconds of a flood on broker 2, and what it says of itself meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.promises.planes import check
from checkers.promises.planes.metrics import AT_REST, RESTED, TOLD
from tests.checkers.conftest import ARM, Story, judged_together

MS = 1_000_000
NETWORK = "kafka.network:type="
HANDLERS = "kafka.server:type=KafkaRequestHandlerPool,name="
RULE, RESTLESS = "plane-metric-otherwise", "at-rest-otherwise"


def metrics(second: bool) -> dict[tuple[str, str], float]:
    """As they are when it has lain there for a while (``second``), and as it set in."""
    sockets, queues = f"{NETWORK}SocketServer,name=", f"{NETWORK}RequestChannel,name="
    requests = f"{NETWORK}RequestMetrics,name="
    return {
        (f"{queues}RequestQueueSize", "Value"): 497 if second else 0,
        (f"{queues}ControlPlaneRequestQueueSize", "Value"): 0,
        (f"{sockets}NetworkProcessorAvgIdlePercent", "Value"): 0.1 if second else 1,
        (f"{sockets}ControlPlaneNetworkProcessorAvgIdlePercent", "Value"): 0.97,
        (f"{sockets}ExpiredConnectionsKilledCount", "Value"): 0,
        (f"{sockets}ControlPlaneExpiredConnectionsKilledCount", "Value"): 0,
        (f"{HANDLERS}RequestHandlerAvgIdlePercent", "Count"): 30e9 + 0.2e9 * second,
        (f"{HANDLERS}ControlPlaneRequestHandlerAvgIdlePercent", "Count"): 30e9 + 8.5e9 * second,
        (f"{requests}RequestsPerSec,request=Produce,version=7", "Count"): 900 + 4_600 * second,
        (f"{requests}RequestsPerSec,request=LeaderAndIsr,version=7", "Count"): 3 + 39 * second,
        (f"{requests}RequestQueueTimeMs,request=Produce", "50thPercentile"): 800,
        (f"{requests}RequestQueueTimeMs,request=LeaderAndIsr", "50thPercentile"): 1.5,
    }


def told(
    *,
    planes: str = "dual",
    controller: int = 1,
    node: int = 2,
    toxic: bool = False,
    connections: int = 640,
    until: float = 19_900,
    long_at_first: bool = False,
    **changed: float,
) -> Story:
    """640 connections and 500 answers a second, from 10 to 20 s; a probe of the control plane every
    250 ms, answered in 3 ms. ``changed``: what the second reading says otherwise, by the part of
    its name that is unique; ``until``: when it was made (ms); ``long_at_first``: the data plane's
    queue was long already when the first one was made."""
    story = Story()
    story.run["arms"][story.arm]["planes"] = planes
    story.add("controller", 0, node=controller, event="elected", controller_epoch=1)
    detail = json.dumps({"queue_places": 500, "connections": {"2": connections}})
    for t, phase in ((10_000, "injected"), (20_000, "healed")):
        of = {"id": "f", "fault": "flood-heavy-produce", "phase": phase, "nodes": [2]}
        story.add("fault", t, detail=detail, took_hold=True, **of)
        if toxic:
            story.add("fault", t + 1, id="x", fault="toxic", phase=phase, nodes=[2])
    for t in range(10_500, 20_001, 500):
        numbers = {"interval_ns": 500 * MS, "connections": connections, "sent": 250}
        more = {"completed": 250, "latency_max_ns": 1_500 * MS, "errors": 0}
        story.add("flood", t, id="f", node=2, process="flood-f-1", **numbers, **more)
    plane = "control" if planes == "dual" else "data"
    for number in range(40):
        sent = 10_100 + 250 * number
        probe = {"op": number, "invoke_t": sent, "planned_t": sent, "api": "LEADER_AND_ISR"}
        story.add("probe", sent + 3, process="prober", node=2, plane=plane, **probe)
    for second, t in ((False, 10_050), (True, until)):
        values = metrics(second)
        if long_at_first and not second:
            values[f"{NETWORK}RequestChannel,name=RequestQueueSize", "Value"] = 499
        for part, value in changed.items() if second else ():
            (key,) = (
                key for key in values if part in f"{key[0]},".replace("=", "").replace(",", "")
            )
            values[key] = value
        for (mbean, attribute), value in values.items():
            if planes != "dual" and "ControlPlane" in mbean and "Socket" not in mbean:
                continue
            row = {"mbean": mbean, "attribute": attribute, "value": str(value)}
            story.add("plane_metric", t, from_t=int((t - 20) * MS), node=node, name="f", **row)
    return story


WRONG: dict[str, dict[str, Any]] = {
    "the control plane's queue is the data plane's": {"nameControlPlaneRequestQueue": 497},
    "its handler": {"nameControlPlaneRequestHandler": 30.2e9},
    "its network thread": {"nameControlPlaneNetwork": 0.1},
    "the data plane's queue is the control plane's": {"nameRequestQueueSize": 0},
    "its handlers": {"nameRequestHandlerAvg": 38.5e9},
    "its network threads": {"nameNetworkProcessor": 0.99, "nameControlPlaneNetwork": 0.72},
    "connections expired": {"nameControlPlaneExpired": 3},
    "requests are not counted": {"requestProduceversion7": 2_000},
    "control requests are not counted": {"requestLeaderAndIsrversion7": 3},
    "control requests are counted twice": {"requestLeaderAndIsrversion7": 81},
    "a flood that waits for nothing": {"QueueTimeMsrequestProduce": 2},
    "and for seconds that are none": {"QueueTimeMsrequestProduce": 800_000},
    "the control plane's queue is full": {"nameControlPlaneRequestQueue": 20},
    "the controller's wait as long as the flood's": {"QueueTimeMsrequestLeaderAndIsr": 800},
    "one plane, and its queue": {"planes": "single", "nameRequestQueueSize": 0},
}
LAWFUL: dict[str, dict[str, Any]] = {
    "as asked": {},
    "one waits": {"nameControlPlaneRequestQueue": 1, "until": 19_852},
    "one plane": {"planes": "single"},
    "a queue that was just being emptied": {"nameRequestQueueSize": 100},
    "a queue that was empty for a moment": {"nameRequestQueueSize": 0, "long_at_first": True},
    "network threads of other listeners": {"nameNetworkProcessor": 0.72},
    "a busy machine": {"nameControlPlaneRequestHandler": 36e9, "nameControlPlaneNetwork": 0.6},
    "the last ones are counted late": {"requestLeaderAndIsrversion7": 3 + 38},
    "the controller itself": {"controller": 2, "nameControlPlaneRequestHandler": 30.2e9},
    "a link was slow meanwhile": {"toxic": True, "nameRequestQueueSize": 0},
    "no more connections than places": {"connections": 400, "nameRequestQueueSize": 0},
    "whoever floods waits for a core": {"QueueTimeMsrequestProduce": 60},
    "a short flood": {"until": 11_000, "nameRequestQueueSize": 0},
    "another broker's": {"node": 3, "nameRequestQueueSize": 0},
}


def test_a_planes_metrics_tell_what_was_asked_of_it(spark: Any) -> None:
    stories = {name: told(**changed) for name, changed in (WRONG | LAWFUL).items()}
    found = judged_together(spark, check, stories)
    assert {name: rules.get(RULE, 0) for name, (rules, _) in found.items()} == {
        **dict.fromkeys(WRONG, 1),
        **dict.fromkeys(LAWFUL, 0),
    }
    outcome = check(told().history(spark))
    assert outcome.evidence[ARM, 0, TOLD] == 12
    assert any(
        "controller's own" in why for why in check(told(controller=2).history(spark)).not_judged
    )


def test_no_queue_holds_more_than_it_has_places(spark: Any) -> None:
    data, control = "nameRequestQueueSize", "nameControlPlaneRequestQueue"
    stories = {
        "full": told(**{data: 500, control: 20}),
        "overfull": told(**{data: 501}),
        "a short flood": told(until=11_000, **{data: 637}),
        "of the control plane": told(**{control: 21}),
    }
    found = judged_together(spark, check, stories)
    assert {name for name, (rules, _) in found.items() if rules.get("queue-overfull")} == {
        *("overfull", "a short flood", "of the control plane"),
    }


@pytest.mark.parametrize(("places", "size", "overfull"), [(1000, 501, 0), (20, 499, 1)])
def test_a_queue_has_as_many_places_as_it_was_given(
    spark: Any, places: int, size: int, overfull: int
) -> None:
    story = told(nameRequestQueueSize=size)
    story.run["settings"] = {"overrides": {"queued.max.requests": str(places)}}
    assert check(story.history(spark)).counts.get("queue-overfull", 0) == overfull


def resting(
    *,
    idle_s: float = 9.9,
    network: tuple[float, float] = (0.99, 0.99),
    queue: int = 0,
    until: float = 20_000,
    busy_ms: int = 0,
    planes: str = "dual",
    controller: int = 1,
    answered: bool = True,
) -> Story:
    """Once the load has ended, from 10 s to 20 s; the controller's one request takes ``busy_ms``.
    ``idle_s``: what the control plane's handler waited meanwhile, by its metric."""
    story = Story()
    story.run["arms"][story.arm]["planes"] = planes
    story.add("controller", 0, node=controller, event="elected", controller_epoch=1)
    way = {"node": 1, "boot": 1, "to": 2, "api": "LEADER_AND_ISR", "correlation_id": 1}
    story.add("control_send", 12_000, enqueue_t=12_000 * MS, attempt=1, **way)
    if answered:
        story.add("control_response", 12_000 + busy_ms, send_t=12_000, error=0, **way)
    for second, t in ((False, 10_000), (True, until)):
        values = {
            (f"{HANDLERS}ControlPlaneRequestHandlerAvgIdlePercent", "Count"): 30e9
            + idle_s * 1e9 * second,
            (f"{NETWORK}SocketServer,name=ControlPlaneNetworkProcessorAvgIdlePercent", "Value"): (
                network[second]
            ),
            (f"{NETWORK}SocketServer,name=NetworkProcessorAvgIdlePercent", "Value"): 0.98,
            (f"{NETWORK}RequestChannel,name=ControlPlaneRequestQueueSize", "Value"): queue,
            (f"{NETWORK}RequestChannel,name=RequestQueueSize", "Value"): 0,
        }
        for (mbean, attribute), value in values.items():
            row = {"mbean": mbean, "attribute": attribute, "value": str(value)}
            story.add("plane_metric", t, from_t=int((t - 20) * MS), node=2, name=AT_REST, **row)
    return story


def stood_still(story: Story, until: int, lasting: int, trial: int = 0) -> Story:
    """In ms."""
    story.add("standstill", until, process="pulse", lasting_ns=lasting * MS)["trial"] = trial
    return story


def test_a_plane_that_nobody_asks_is_idle(spark: Any) -> None:
    wrong = {
        "waits that have ended": resting(idle_s=0),
        "a machine that stood still before": stood_still(resting(idle_s=0), 9_900, 5_000),
        "a machine that stood still for a moment": stood_still(resting(idle_s=0), 15_000, 800),
        "more than all the time": resting(idle_s=22.5),
        "its network thread": resting(network=(0.1, 0.1)),
        "nobody waits in it": resting(queue=3),
    }
    lawful = {
        "idle": resting(),
        "its network thread waited for a core": resting(network=(0.98, 0.1)),
        "in both a little": resting(network=(0.8, 0.83)),
        "and so it did before": resting(network=(0.1, 0.98)),
        "asked all the while": resting(busy_ms=7_900, idle_s=2),
        "of whom it is not told for how long": resting(answered=False, idle_s=0),
        "twice in no time": resting(until=11_500, idle_s=0),
        "a machine that stood still": stood_still(resting(idle_s=0), 15_000, 1_200),
        "and once more": stood_still(stood_still(resting(idle_s=0), 13_000, 600), 15_000, 600),
        "the controller itself": resting(controller=2, idle_s=0),
        "one plane": resting(planes="single", idle_s=0),
    }
    found = judged_together(spark, check, wrong | lawful)
    assert {name for name, (rules, _) in found.items() if rules.get(RESTLESS)} == set(wrong)
    outcome = check(resting().history(spark))
    assert outcome.evidence[ARM, 0, RESTED] == 5
    elsewhere = stood_still(resting(idle_s=0), 15_000, 5_000, trial=1)
    (finding,) = check(elsewhere.history(spark)).findings
    assert "0% idle, while nobody waited for it for 100%" in finding.says


def test_a_number_that_comes_again_is_of_another_connection(spark: Any) -> None:
    """Of five requests the answers are counted once, whatever is sent under their numbers later."""
    stories = {}
    for name, counted in (("once", 5), ("twice", 10)):
        story = told(requestLeaderAndIsrversion7=3 + 39 + counted)
        way = {"node": 1, "boot": 1, "to": 2, "api": "LEADER_AND_ISR"}
        for number in range(5):
            for sent in (12_000 + 100 * number, 19_950 + 10 * number):
                own = {**way, "correlation_id": number}
                story.add("control_send", sent, enqueue_t=sent * MS, attempt=1, **own)
                answer = {"send_t": sent, "error": 0}
                story.add("control_response", sent + 4, **answer, **own)
        stories[name] = story
    found = judged_together(spark, check, stories)
    assert {name: rules.get(RULE, 0) for name, (rules, _) in found.items()} == {
        "once": 0,
        "twice": 1,
    }


def test_one_plane_tells_of_no_other(spark: Any) -> None:
    story = told(planes="single")
    mbean = f"{NETWORK}RequestChannel,name=ControlPlaneRequestQueueSize"
    row = {"mbean": mbean, "attribute": "Value", "value": "0"}
    story.add("plane_metric", 19_900, from_t=19_880 * MS, node=2, name="f", **row)
    (finding,) = check(story.history(spark)).findings
    assert finding.rule == RULE
    assert "no control plane" in finding.says


def test_no_answer_is_no_metric(spark: Any) -> None:
    story = told(nameRequestQueueSize=0)
    for row in story.rows["plane_metric"]:
        row |= {"error": "timed out", "value": None}
    none = told()
    del none.rows["plane_metric"]
    for one in (story, none):
        outcome = check(one.history(spark))
        assert not outcome.findings
        assert any("told any" in why for why in outcome.not_judged)
