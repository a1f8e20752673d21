"""Whom a broker hangs up on, and requests that one handler cannot have handled: both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.facts.connections import NEAR_NS
from checkers.promises.planes import check
from checkers.promises.planes.hung_up import IDLE_NS
from tests.checkers.conftest import MS, Story, judged_together

WAY: dict[str, Any] = {"node": 1, "boot": 1, "to": 2, "api": "UPDATE_METADATA"}
ANSWERED, SENT, LOST, AGAIN = 5_000, 10_000, 10_100, 10_300
NEAR = NEAR_NS // MS


def quiet(since: float = 10) -> Story:
    told = Story()
    for node in (1, 2):
        told.add("node_event", since, node=node, event="start")
    return told


def sent(told: Story, t: float, end: float, number: int, **more: Any) -> None:
    failure = more.pop("failure", None)
    seq = more.pop("seq", 2 * number)
    fields = {"controller_epoch": 1, "broker_epoch": 7, "attempt": 1, "partitions": [], **more}
    told.add("control_send", t, **WAY, correlation_id=number, seq=seq, **fields)
    told.add(
        *("control_response", end), **WAY, correlation_id=number, send_t=t, failure=failure,
        seq=None if seq is None else seq + 1, error=None if failure else 0,
    )  # fmt: skip


def channel(
    failure: str = "disconnect", *, first: str | None = None, answered: float = ANSWERED, **of: Any
) -> Story:
    """Answered, silent for some seconds, cut off, and answered again. ``of``: the last one."""
    told = quiet(answered - 4_000)
    numbered = {"seq": None} if "seq" in of else {}
    sent(told, answered - 20, answered, 1, failure=first, **numbered)
    sent(told, SENT, LOST, 2, failure=failure, **numbered)
    if of.get("seq") != "last":
        sent(told, AGAIN, AGAIN + 10, 3, **of)
    return told


def asker(kind: str = "metadata", **more: Any) -> Story:
    told = quiet()
    how = {"type": "info", "error": None, "failure": "disconnect", "invoke_t": SENT, **more}
    told.add(kind, LOST, node=2, **how)
    return told


def fault(name: str, *nodes: int, told: Story | None = None, **detail: Any) -> Story:
    told = asker() if told is None else told
    for t, phase in ((9_000, "inject"), (9_100, "injected"), (20_000, "healed")):
        told.add(
            "fault", t, id="f", fault=name, phase=phase, nodes=nodes, detail=json.dumps(detail)
        )
    return told


def event(t: float, what: str, node: int = 2, told: Story | None = None) -> Story:
    told = channel() if told is None else told
    told.add("node_event", t, node=node, event=what)
    return told


BROKEN: dict[str, Callable[[], Story]] = {
    "a controller that was silent": channel,
    "as another was killed": lambda: event(LOST, "kill", node=3),
    "long before it ended": lambda: event(LOST + NEAR + 10, "kill"),
    "who reads metadata": asker,
    "who asks for offsets": lambda: asker("listed_offset"),
    "who asks for epochs": lambda: asker("epoch_end"),
    "who reads": lambda: asker("read_at"),
    "a prober": lambda: asker("probe"),
    "flooded": lambda: fault("flood-produce", 2),
    "the controller flooded": lambda: fault("flood-fetch", 1, told=channel()),
    "who floods": lambda: flooded(3),
    "its followers cut off": lambda: fault("isr-lag", 2, links=["inter-broker"]),
    "the followers of another cut off": lambda: fault(
        "isr-lag-succeeded", 3, told=channel(), links=["inter-broker", "control"]
    ),
    "one of its followers paused": lambda: fault("isr-lag", 2, told=channel(), how="pause"),
    "a slow way to ZooKeeper": lambda: fault("toxic", 2, links=["zookeeper"]),
}
LAWFUL: dict[str, Callable[[], Story]] = {
    "no answer in time": lambda: channel("timeout"),
    "never answered before": lambda: channel(first="timeout"),
    "silent for long": lambda: channel(answered=SENT - 1_000 - IDLE_NS // MS),
    "the last of its controller": lambda: channel(controller_epoch=2),
    "the last to that life": lambda: channel(broker_epoch=9),
    "the last": lambda: channel(seq="last"),
    "of a controller that nobody numbered": lambda: channel(seq=None),
    "it had been killed meanwhile": lambda: event(ANSWERED + 100, "kill"),
    "it was killed then": lambda: event(LOST + NEAR - 10, "kill"),
    "the controller was paused": lambda: event(8_000, "pause", node=1),
    "a link was down": lambda: fault("link-down", 2, told=channel()),
    "the controller was cut off": lambda: fault("isolate", 1, told=channel()),
    "a fault that names nobody": lambda: fault("isolate"),
    "a storm of connections": lambda: fault("flood-connections", 2),
    "a slow way for clients": lambda: fault("toxic", 2, links=["client"]),
    "a slow way for its controller": lambda: fault("toxic", 2, told=channel(), links=["control"]),
    "a slow way for brokers, its controller one": lambda: fault(
        "toxic", 2, told=channel(), links=["inter-broker"]
    ),
    "its followers cut off, by the way of clients": lambda: fault(
        "isr-lag", 2, links=["client", "inter-broker"]
    ),
    "its followers cut off, by the controller's way": lambda: fault(
        "isr-lag-succeeded", 2, told=channel(), links=["inter-broker", "control"]
    ),
    "who floods, with other errors": lambda: flooded(0),
    "who floods, and does not tell": lambda: flooded(None),
    "who floods with connections": lambda: flooded(3, "flood-connections"),
    "who floods, as it was killed": lambda: event(LOST + 100, "kill", told=flooded(3)),
    "its time was over": lambda: asker(failure="timeout"),
    "answered with an error": lambda: asker(type="fail", error=3, failure=None),
    "asked of nobody": lambda: _of_nobody(asker()),
}


def _of_nobody(told: Story) -> Story:
    told.rows["metadata"][0]["node"] = None
    return told


def flooded(lost: int | None, name: str = "flood-produce") -> Story:
    told = fault(name, 2, told=quiet())
    reached = {"sent": 90, "completed": 80, "errors": 10, "connections": 640}
    told.add("flood", LOST, node=2, id="f", interval_ns=250 * MS, lost=lost, **reached)
    return told


def handled(*spans: tuple[float, float], plane: str = "control", **more: Any) -> Story:
    """Requests that were begun with and done at these times, of two controllers."""
    told = quiet()
    told.run["arms"][told.arm]["planes"] = "dual"
    for number, (begin, end) in enumerate(spans):
        each = {name: of[number] for name, of in more.items()}
        at = {"boot": 1, "seq": number, "node": 2, "dequeue_t": begin, "handled_t": end, **each}
        told.handled(end + 1, plane=plane, controller_id=8 + number, listener="L", **at)
    return told


TOGETHER: dict[str, Callable[[], Story]] = {
    "before the end of the other": lambda: handled((100, 110), (109, 120)),
    "within the other": lambda: handled((100, 130), (105, 110)),
    "told in another order": lambda: handled((109, 120), (100, 110)),
}
IN_TURN: dict[str, Callable[[], Story]] = {
    "at once after the other": lambda: handled((100, 110), (110, 120)),
    "as far as its clock tells": lambda: handled(
        (100, 110), (109, 120), error_ns=(600_000, 600_000)
    ),
    "by a data plane": lambda: handled((100, 110), (105, 120), plane="data"),
    "by another broker": lambda: handled((100, 110), (105, 120), node=(2, 1)),
    "in its next life": lambda: handled((100, 110), (105, 120), boot=(1, 2)),
    "by one that nobody numbered": lambda: handled((100, 110), (105, 120), seq=(None, None)),
    "never begun with": lambda: handled((100, 110), (0, 105)),
}
CASES: dict[str, tuple[Callable[[], Story], dict[str, int]]] = {
    **{name: (made, {"hung-up": 1}) for name, made in BROKEN.items()},
    **{name: (made, {}) for name, made in LAWFUL.items()},
    **{name: (made, {"handled-together": 1}) for name, made in TOGETHER.items()},
    **{name: (made, {}) for name, made in IN_TURN.items()},
}


@pytest.fixture(scope="module")
def judged(spark: Any) -> Any:
    return judged_together(spark, check, {name: made() for name, (made, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_who_waits_and_who_is_silent(judged: Any, name: str) -> None:
    rules, _ = judged[name]
    ours = {rule: n for rule, n in rules.items() if rule in ("hung-up", "handled-together")}
    assert ours == CASES[name][1]


def test_each_is_counted_and_named(spark: Any) -> None:
    told = channel()
    told.add("metadata", LOST, process="r", node=2, type="info", failure="disconnect")
    told.add("metadata", LOST + 300, process="r", node=2, type="info", failure="disconnect")
    found = check(told.history(spark))
    assert found.counts["hung-up"] == 3
    says = [finding.says for finding in found.findings if finding.rule == "hung-up"]
    assert says == [
        "broker 2, to which nothing was done, hung up on r, which waited for an answer (metadata), "
        "2 times",
        "broker 2, to which nothing was done, hung up on controller 1 1 times, first 5.0 s after "
        "it had answered it (UPDATE_METADATA was not)",
    ]


def test_what_may_have_gone_is_counted(spark: Any) -> None:
    told = event(8_000, "pause", node=1)
    found = check(told.history(spark))
    assert f"{told.arm}: 1 connections that may have gone, told of by node and to" in (
        found.not_judged
    )
