"""Roles and their orders, listeners and their planes, run.json and who did what: each at odds, and
what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from checkers.history.frames import History
from checkers.promises.evidence.claims import (
    missent,
    not_wiped,
    otherwise_set,
    unasked_for,
    unfounded,
    unplanned,
)
from checkers.promises.evidence.known_brokers import unheard_of
from checkers.promises.evidence.known_topics import unmade
from checkers.promises.evidence.listeners import of_both_planes, uncounted
from checkers.promises.evidence.orders import unordered, unretried, unsent
from checkers.promises.evidence.untold import untold
from tests.checkers.conftest import MS, Story

PART = {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 3, "error": 0}
ORDERED_BY = {
    "leader_change": "LEADER_AND_ISR",
    "metadata_update": "UPDATE_METADATA",
    "replica_stop": "STOP_REPLICA",
}


def ordered(
    t: float = 108, boot: int = 1, seq: int | None = 1, kind: str = "leader_change", **more: Any
) -> Story:
    """Broker 1 was ordered to follow in leader epoch 3, and was asked something else later."""
    story = Story()
    own = {"api": ORDERED_BY[kind], "correlation_id": 7, "partitions": [PART], "boot": 1, "seq": 0}
    story.handled(110, 1, **own)
    story.handled(500, 1, correlation_id=8, boot=1, seq=9)
    said = {"leader_epoch": 3, "correlation_id": 7, "controller_epoch": 1}
    if kind != "replica_stop":
        said["leader"] = 2
    story.add(kind, t, node=1, boot=boot, seq=seq, **{**said, **more})
    return story


def ordered_in_another_boot() -> Story:
    story = ordered(boot=2)
    story.handled(600, 1, correlation_id=9, boot=2, seq=3)
    return story


def twice() -> Story:
    story = ordered()
    story.rows["leader_change"].append({**story.rows["leader_change"][0], "seq": 2})
    return story


def undone(kind: str, error: int = 0, partition_error: int = 0) -> Story:
    """Another partition was ordered in the same request; nothing came of it."""
    story = ordered(kind=kind)
    more = {**PART, "partition": 5, "error": partition_error}
    request = story.rows["control_request"][0]
    if error:
        more_of = {**request, "error": error, "correlation_id": 9, "partitions": [more]}
        story.rows["control_request"].append(more_of)
    else:
        request["partitions"] = [PART, more]
    return story


def ordered_by_another_api() -> Story:
    story = ordered(kind="metadata_update")
    story.rows["control_request"][0]["api"] = "LEADER_AND_ISR"
    return story


def decided(by: int, **role: Any) -> Story:
    """ZooKeeper's log has leader epoch 3 by that controller."""
    story = ordered(**role)
    state = {"what": "state", "step": "set", "leader": 2, "leader_epoch": 3, "isr": [2]}
    story.add("zk_write", 50, zxid=9, controller_epoch=by, **state)
    return story


ROLES: dict[str, tuple[Story, str]] = {
    "as ordered": (ordered(), ""),
    "twice": (twice(), "1 roles"),
    "before it came": (ordered(t=105), "1 roles"),
    "when it was answered": (ordered(t=115), "LATE"),
    "when it was answered, by less than the error": (ordered(t=110, error_ns=2_000_000), ""),
    "before it came, by less than the error": (ordered(t=105, error_ns=1_000_000), ""),
    "in another epoch": (ordered(leader_epoch=4), "1 roles"),
    "under another leader": (ordered(leader=3), "1 roles"),
    "decided by another controller": (ordered(controller_epoch=2), ""),
    "under a controller that neither decided nor ordered it": (
        decided(3, controller_epoch=2),
        "OTHER roles",
    ),
    "under the controller that decided": (decided(2, controller_epoch=2), ""),
    "under the controller that orders": (decided(2), ""),
    "metadata under another controller": (
        ordered(kind="metadata_update", controller_epoch=2),
        "OTHER states of its metadata",
    ),
    "stopped under another controller": (
        ordered(kind="replica_stop", controller_epoch=2),
        "OTHER ends of replicas",
    ),
    "metadata under nobody": (ordered(kind="metadata_update", controller_epoch=None), ""),
    "of another partition": (ordered(partition=1), "1 roles"),
    "by another request": (ordered(correlation_id=8), "1 roles"),
    "in another boot, of which nothing is told": (ordered(boot=2), ""),
    "in another boot": (ordered_in_another_boot(), "1 roles"),
    "at the last request": (ordered(t=505, leader_epoch=4), ""),
    "within the error": (ordered(t=499, leader_epoch=4, error_ns=2_000_000), ""),
    "of a system's own log": (ordered(seq=None, leader_epoch=4), ""),
    "nobody says which": (ordered(correlation_id=None, leader_epoch=4), ""),
    "metadata as ordered": (ordered(kind="metadata_update"), ""),
    "metadata of another leader": (
        ordered(kind="metadata_update", leader=1),
        "1 states of its metadata",
    ),
    "metadata by what orders roles": (ordered_by_another_api(), "1 states of its metadata"),
    "metadata that was never taken in": (undone("metadata_update"), "UNDONE"),
    "metadata of a refused request": (undone("metadata_update", error=11), ""),
    "a replica never stopped": (undone("replica_stop"), "UNDONE"),
    "a replica that could not be stopped": (undone("replica_stop", partition_error=9), ""),
    "a role never taken up": (undone("leader_change"), ""),  # another promise's
    "stopped as ordered": (ordered(kind="replica_stop", delete=True), ""),
    "another stopped": (ordered(kind="replica_stop", topic="u"), "1 ends of replicas"),
}


def test_what_brokers_did_and_nobody_ordered(spark: Any) -> None:
    found = unordered(_as_trials(spark, [story for story, _ in ROLES.values()]))
    told = {list(ROLES)[key[1]]: says for key, says in found}
    assert told.keys() == {name for name, (_, says) in ROLES.items() if says}
    for name, says in told.items():
        if ROLES[name][1] == "UNDONE":
            assert says.startswith("node 1 accepted orders of 1 "), name
        elif ROLES[name][1] == "LATE":
            assert says.startswith("node 1 took up 1 roles when the request that ordered it"), name
        elif ROLES[name][1].startswith("OTHER "):
            what = ROLES[name][1].removeprefix("OTHER ")
            assert says.startswith(f"node 1 took up 1 {what} under the controller epoch"), name
        else:
            assert says.startswith(f"node 1 took up {ROLES[name][1]} that no request"), name


def sent_and_answered(**answer: Any) -> Story:
    story = Story()
    one = {"node": 1, "to": 2, "api": "UPDATE_METADATA", "correlation_id": 7, "boot": 1}
    for t in (10, 20):  # of a channel that was rebuilt: the numbers begin again
        story.add("control_send", t, seq=t, **one)
    told = {"seq": 30, "error": 0, "send_t": 20, **one, **answer}
    story.add("control_response", 30, **told)
    return story


ANSWERS: dict[str, tuple[Story, bool]] = {
    "to what was sent": (sent_and_answered(), False),
    "to the first of that number": (sent_and_answered(send_t=10), False),
    "to what was sent at another time": (sent_and_answered(send_t=11), True),
    "of another number": (sent_and_answered(correlation_id=8), True),
    "of another broker": (sent_and_answered(to=3), True),
    "in another boot": (sent_and_answered(boot=2), True),
    "of a system's own log": (sent_and_answered(seq=None, send_t=11), False),
    "nobody says when": (sent_and_answered(send_t=None), False),
}


def test_answers_to_what_was_never_sent(spark: Any) -> None:
    found = unsent(_as_trials(spark, [story for story, _ in ANSWERS.values()]))
    assert [list(ANSWERS)[key[1]] for key, _ in found] == [
        n for n, (_, odd) in ANSWERS.items() if odd
    ]
    assert found[0][1].startswith("controller 1 was answered 1 requests")


def tried(*items: tuple[int, int, int], boot: int = 1, seq: bool = True) -> Story:
    """(enqueue_t, attempt, to) of what a controller sent, in order."""
    story = Story()
    for n, (enqueued, attempt, to) in enumerate(items):
        fields = {"node": 1, "to": to, "api": "UPDATE_METADATA", "correlation_id": n, "boot": boot}
        fields |= {"attempt": attempt, "enqueue_t": enqueued, "partitions": [], "process": "node-1"}
        story.add("control_send", 100 + n, seq=n if seq else None, controller_epoch=1, **fields)
    return story


TRIES: dict[str, tuple[Story, bool]] = {
    "one after the other": (tried((1, 1, 2), (2, 1, 2)), False),
    "once more": (tried((1, 1, 2), (1, 2, 2), (1, 3, 2), (2, 1, 2)), False),
    "once more, and another broker's in between": (
        tried((1, 1, 2), (1, 1, 3), (1, 2, 2)),
        False,
    ),
    "never before": (tried((1, 2, 2), (2, 1, 2)), True),
    "another before": (tried((1, 1, 2), (2, 2, 2)), True),
    "one is missing": (tried((1, 1, 2), (1, 3, 2)), True),
    "to another broker": (tried((1, 1, 2), (1, 2, 3)), True),
    "by a system's own log": (tried((1, 2, 2), seq=False), False),
}


def test_what_was_never_tried_before(spark: Any) -> None:
    found = unretried(_as_trials(spark, [story for story, _ in TRIES.values()]))
    assert [list(TRIES)[key[1]] for key, _ in found] == [n for n, (_, odd) in TRIES.items() if odd]
    assert all(says.startswith("controller 1 tried 1 requests again of") for _, says in found)


def planes(*told: tuple[str, str, int]) -> Story:
    """(listener, plane, boot) of what one broker counted; its controller came by CONTROLLER."""
    story = Story()
    story.handled(10, 1, listener="CONTROLLER", plane="control", boot=1)
    for listener, plane, boot in told:
        use = {"api": "FETCH", "interval_ns": 1, "requests": 1, "boot": boot}
        story.add("plane_use", 20, node=1, listener=listener, plane=plane, **use)
    return story


LISTENERS: dict[str, tuple[Story, bool]] = {
    "each its own": (planes(("CONTROLLER", "control", 1), ("CLIENT", "data", 1)), False),
    "one of both": (planes(("CONTROLLER", "data", 1), ("CLIENT", "data", 1)), True),
    "one after the other": (planes(("CONTROLLER", "data", 2), ("CLIENT", "data", 1)), False),
    "two of one": (planes(("REPLICATION", "data", 1), ("CLIENT", "data", 1)), False),
}


def test_listeners_of_both_planes(spark: Any) -> None:
    found = of_both_planes(_as_trials(spark, [story for story, _ in LISTENERS.values()]))
    assert [list(LISTENERS)[key[1]] for key, _ in found] == ["one of both"]
    assert "its listener CONTROLLER was served by both planes" in found[0][1]


UNCOUNTED: dict[str, tuple[Story, bool]] = {
    "counted": (planes(("CONTROLLER", "control", 1)), False),
    "counted in another life": (planes(("CONTROLLER", "control", 2)), False),
    "others are counted": (planes(("CLIENT", "data", 1)), True),
    "who counts nothing": (planes(), False),
}


def test_listeners_of_which_nobody_counts(spark: Any) -> None:
    found = uncounted(_as_trials(spark, [story for story, _ in UNCOUNTED.values()]))
    assert [list(UNCOUNTED)[key[1]] for key, _ in found] == ["others are counted"]
    assert "by its listener CONTROLLER, and it counted none there" in found[0][1]


def two_brokers(kind: str = "", **more: Any) -> Story:
    """Of which all that is told is true, and a row more."""
    story = Story()
    for node in (1, 2):
        story.add("node_event", 1, node=node, event="registered")
        story.read(10, node, 0, process="r")
        story.handled(20, node)
        story.add("leader_change", 20, node=node, role="follower", leader=3 - node)
        story.add("connection", 20, node=node, to=3 - node, link="control", connections=1)
    if kind:
        story.add(kind, 30, **more)
    return story


def nobody() -> Story:
    story = two_brokers("connection", node=5, to=1)
    story.rows["node_event"].clear()
    return story


STRANGERS: dict[str, tuple[Story, str]] = {
    "as it was": (two_brokers(), ""),
    "connected to another": (two_brokers("connection", node=1, to=3), "connection"),
    "connected from another": (two_brokers("connection", node=3, to=1), "connection"),
    "asked of another": (two_brokers("metadata", node=3), "metadata"),
    "handled by another": (two_brokers("control_request", node=3), "control_request"),
    "cut by another": (two_brokers("truncation", node=3), "truncation"),
    "nobody's": (two_brokers("log_end"), ""),
    "nobody tells of any broker": (nobody(), ""),
}


def test_brokers_that_nobody_tells_of(spark: Any) -> None:
    found = list(unheard_of(_as_trials(spark, [story for story, _ in STRANGERS.values()])))
    told = {list(STRANGERS)[key[1]]: says for key, says in found}
    assert told == {
        name: f"{kind}: there are rows of nodes [3], of which nobody else tells"
        for name, (_, kind) in STRANGERS.items()
        if kind
    }


def of_topics(edit: Callable[[Story], Any], log_begins: bool = True) -> Story:
    """Partitions 0 and 1 of t were made, and 0 of u, which is gone; clients tell of them."""
    story = Story()
    if log_begins:
        story.add("zk_write", 1, what="controller_epoch", step="created", topic=None)
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        made = {"what": "topic", "step": "created", "replicas": [1]}
        story.add("zk_write", 2, topic=topic, partition=partition, **made)
    story.add("zk_write", 9, what="topic", step="removed", topic="u", partition=None)
    story.add("listed_offset", 8, topic="u", node=1, offset=1)
    story.add("listed_offset", 12, topic="u", node=1, type="fail", error=3)
    story.read(12, 1, 0, partition=1)
    story.add("metadata", 12, node=1, topic="never", partition=None, error=3, type="fail")
    story.add("forged", 12, node=1, topic="never", api="STOP_REPLICA")
    edit(story)
    return story


def unlogged_write(story: Story) -> None:
    story.rows["zk_write"].clear()
    story.produce(13, 1, None, topic="v")


UNMADE: dict[str, tuple[Story, str]] = {
    "as it was": (of_topics(lambda s: None), ""),
    "a question": (
        of_topics(lambda s: s.add("listed_offset", 13, topic="v", node=1, type="fail", error=6)),
        "listed_offset",
    ),
    "a write of another partition": (
        of_topics(lambda s: s.produce(13, 1, None, partition=2, type="info")),
        "produce",
    ),
    "a cut": (
        of_topics(lambda s: s.add("truncation", 13, topic="tx", node=1)),
        "truncation",
    ),
    "in the end": (
        of_topics(lambda s: s.add("final_state", 13, topic="tx", what="partition")),
        "final_state",
    ),
    "nobody read the log": (of_topics(unlogged_write), ""),
    "the log begins later": (
        of_topics(lambda s: s.produce(13, 1, None, topic="v"), log_begins=False),
        "",
    ),
}


def test_partitions_that_nobody_made(spark: Any) -> None:
    found = unmade(_as_trials(spark, [story for story, _ in UNMADE.values()]))
    told = {list(UNMADE)[key[1]]: says for key, says in found}
    assert told == {
        name: f"{kind}: there are 1 rows of partitions that by ZooKeeper's log nobody made"
        for name, (_, kind) in UNMADE.items()
        if kind
    }


def claimed(edit: Callable[[Story, dict[str, Any]], Any]) -> Story:
    story = Story()
    trial = {
        "arm": story.arm,
        "topics": {"t": {"assignment": {"0": [1, 2]}}},
        "workloads": [{"process": "r", "role": "metadata-reader", "topics": {}, "nodes": [1, 2]}],
    }
    story.add("zk_write", 1, what="topic", step="created", zxid=1, replicas=[1, 2])
    for node in (1, 2):
        story.read(10, node, 0, process="r")
    edit(story, trial)
    story.run["trials"] = [trial]
    return story


WRITES = {"process": "p", "role": "producer", "topics": {"t": [0]}, "acks": -1}
CLAIMS: dict[str, tuple[Story, str]] = {
    "as it was": (claimed(lambda s, t: None), ""),
    "a topic more": (
        claimed(lambda s, t: t["topics"].update(u={"assignment": {"0": [1]}})),
        "run.json has a topic u, and ZooKeeper's log never made it",
    ),
    "other replicas": (
        claimed(lambda s, t: t["topics"]["t"]["assignment"].update({"0": [2, 1]})),
        "run.json has a topic t with other replicas than ZooKeeper's log made it with",
    ),
    "a partition more": (
        claimed(lambda s, t: t["topics"]["t"]["assignment"].update({"1": [1, 2]})),
        "run.json has a topic t with other replicas than ZooKeeper's log made it with",
    ),
    "made again, with others": (
        claimed(
            lambda s, t: s.add(
                "zk_write", 9, what="topic", step="created", zxid=7, replicas=[2, 1]
            )
        ),
        "",
    ),
    "a topic that was to be there already": (
        claimed(lambda s, t: t["topics"].update(u={"configs": {}})),
        "",
    ),
    "nobody reads the log": (claimed(lambda s, t: s.rows["zk_write"].clear()), ""),
    "a broker less": (
        claimed(lambda s, t: t["workloads"][0].update(nodes=[1])),
        "r: it asked nodes [2], of which run.json does not know",
    ),
    "a broker that nobody asked": (  # `activity` misses its answers
        claimed(lambda s, t: t["workloads"][0].update(nodes=[1, 2, 3])),
        "",
    ),
    "records for another partition": (
        claimed(lambda s, t: (t["workloads"].append(WRITES), s.produce(20, 1, 1, partition=1))),
        "p: it wrote to, or was given, 1 partitions that were not for it, by run.json, the first "
        "t-1",
    ),
    "records for another topic": (
        claimed(lambda s, t: (t["workloads"].append(WRITES), s.produce(20, 1, 1, topic="u"))),
        "p: it wrote to, or was given, 1 partitions that were not for it, by run.json, the first "
        "u-0",
    ),
    "records for its own": (
        claimed(lambda s, t: (t["workloads"].append(WRITES), s.produce(20, 1, 1))),
        "",
    ),
    "records for all of a topic": (
        claimed(
            lambda s, t: (
                t["workloads"].append({**WRITES, "topics": {"t": []}}),
                s.produce(20, 1, 1, partition=1),
            )
        ),
        "",
    ),
    "one that asks nobody by itself": (
        claimed(lambda s, t: t["workloads"][0].update(nodes=[])),
        "",
    ),
}  # fmt: skip


def test_what_run_json_has_and_nobody_saw(spark: Any) -> None:
    stories = [story for story, _ in CLAIMS.values()]
    found = unfounded(_as_trials(spark, stories))
    told = {list(CLAIMS)[key[1]]: why for key, why in found}
    assert told == {name: says for name, (_, says) in CLAIMS.items() if says}


def described(held: dict[str, str], *, altered: bool = False) -> Story:
    """A topic that is to be made with min.insync.replicas=2, and what ZooKeeper holds of it."""
    story = Story()
    topic = {"configs": {"min.insync.replicas": "2"}}
    story.run["trials"] = [{"arm": story.arm, "topics": {"t": topic}}]
    for key, truth in held.items():
        about = {"api": "DescribeConfigs", "name": "t", "key": key, "told": truth}
        story.add("described", 20_000, node=1, truth=truth, known=True, **about)
    if altered:
        change = {"api": "ALTER_CONFIGS", "about": "t", "node": 1, "error": 0}
        story.add("admin_request", 5_000, invoke_t=4_900, **change)
    return story


SET: dict[str, tuple[Story, str]] = {
    "as it was made": (described({"min.insync.replicas": "2"}), ""),
    "with less": (
        described({"min.insync.replicas": "1"}),
        "topic t has min.insync.replicas=1, and run.json says 2",
    ),
    "with more of its own": (
        described({"min.insync.replicas": "2", "retention.ms": "9"}),
        "topic t has retention.ms=9, and run.json does not say so",
    ),
    "with something else": (
        described({"cleanup.policy": "delete"}),
        "topic t has cleanup.policy=delete, and run.json does not say so; "
        "topic t has min.insync.replicas=None, and run.json says 2",
    ),
    "changed by an operator": (described({"min.insync.replicas": "1"}, altered=True), ""),
    "not described": (described({}), ""),
}


def test_topics_that_were_made_otherwise(spark: Any) -> None:
    told: dict[str, list[str]] = {}
    for key, why in otherwise_set(_as_trials(spark, [story for story, _ in SET.values()])):
        told.setdefault(list(SET)[key[1]], []).append(why)
    found = {name: "; ".join(whys) for name, whys in told.items()}
    assert found == {name: says for name, (_, says) in SET.items() if says}


def sent(delivery: str | None, producer_epoch: int | None, role: str = "producer") -> Story:
    """A producer's two records, of which the final logs have the second."""
    story = Story()
    client = {"process": "p", "role": role, "acks": -1, "delivery": delivery}
    story.run["trials"] = [{"arm": story.arm, "workloads": [client]}]
    for value in (1, 2):
        story.produce(10 + value, value, value)
    at = {"topic": "t", "partition": 0, "leader_epoch": 0, "node": 1}
    story.add("log_read", 90, offset=2, value=2, producer_epoch=producer_epoch, **at)
    return story


SENT: dict[str, tuple[Story, str]] = {
    "idempotent": (sent("idempotent", 0), ""),
    "plain": (sent("once-a-leader", -1), ""),
    "plain, said to be idempotent": (sent("idempotent", -1), "of no idempotent producer"),
    "idempotent, said to be plain": (sent("once-a-leader", 0), "of an idempotent producer"),
    "nobody says": (sent(None, 0), ""),
    "a log of before epochs were read": (sent("idempotent", None), ""),
    "one that numbers its own batches": (sent("once", 0, "joint-producer"), ""),
}


def test_producers_that_send_otherwise(spark: Any) -> None:
    found = missent(_as_trials(spark, [story for story, _ in SENT.values()]))
    told = {list(SENT)[key[1]]: why for key, why in found}
    assert told.keys() == {name for name, (_, says) in SENT.items() if says}
    assert all(SENT[name][1] in why for name, why in told.items())


def asked(invoke_t: float, api: str = "ELECT_LEADERS", **more: Any) -> Story:
    """Leaders are moved between 2 and 3 s; faults are played from 1 to 9 s."""
    story = Story()
    for t, event in ((1_000, "begin"), (9_000, "end")):
        story.add("phase", t, name="chaos", event=event)
    for t, phase in ((2_000, "inject"), (3_000, "healed")):
        story.add("fault", t, id="m", fault="move-leadership", phase=phase, detail="{}")
    about = {"node": 1, "api": api, "about": "t-0", "error": 0, **more}
    story.add("admin_request", invoke_t + 20, invoke_t=invoke_t, **about)
    return story


def flooded(story: Story) -> Story:
    for t, phase in ((4_000, "inject"), (6_000, "healed")):
        story.add("fault", t, id="f", fault="flood-heavy-produce", phase=phase, detail="{}")
    return story


def again(first: Story, invoke_t: float, **more: Any) -> Story:
    about = {"node": 1, "api": "ELECT_LEADERS", "about": "t-0", "error": 0, **more}
    first.add("admin_request", invoke_t + 20, invoke_t=invoke_t, **about)
    return first


def in_vain(invoke_t: float = 2_900) -> Story:
    """It lasts until 3.2 s, longer than the fault."""
    story = asked(invoke_t, type="fail", error=41)
    story.rows["admin_request"][-1]["t"] = 3_200_000_000
    return story


ASKED: dict[str, tuple[Story, bool]] = {
    "once more": (again(in_vain(), 3_300), False),
    "once more, and once more": (
        again(again(in_vain(), 3_300, type="info", error=None), 3_400),
        False,
    ),
    "once more, long after": (again(in_vain(), 5_300), True),
    "something else": (again(in_vain(), 3_300, api="DELETE_TOPICS"), True),
    "though it was done": (again(asked(2_900), 3_300), True),
    "beside the first one": (again(in_vain(), 3_100), True),
    "what nobody had asked for, once more": (again(asked(5_000, type="fail"), 5_100), True),
    "a flood's topic": (flooded(asked(5_000, "CREATE_TOPICS")), False),
    "what no flood asks for": (flooded(asked(5_000)), True),
    "by a fault": (asked(2_500), False),
    "by nobody": (asked(5_000), True),
    "as the run is set up": (asked(500, "CREATE_TOPICS"), False),
    "once all is over": (asked(9_500), False),
    "what cannot be done": (asked(5_000, wanted=39), False),
}


def test_what_no_fault_asked_for(spark: Any) -> None:
    found = list(unplanned(_as_trials(spark, [story for story, _ in ASKED.values()])))
    assert [list(ASKED)[key[1]] for key, _ in found] == [n for n, (_, odd) in ASKED.items() if odd]
    says = {list(ASKED)[key[1]]: why for key, why in found}
    assert says["by nobody"].endswith("are of no fault, the first ELECT_LEADERS t-0")
    assert says["what nobody had asked for, once more"].startswith("2 requests")


def made(t: float, *about: str, topic: str = "u") -> Story:
    """A topic that is made at ``t``; faults are played from 1 to 9 s."""
    story = Story()
    for at, event in ((1_000, "begin"), (9_000, "end")):
        story.add("phase", at, name="chaos", event=event)
    story.add("zk_write", t, what="topic", step="created", zxid=1, topic=topic, replicas=[1])
    for name in about:
        asked = {"node": 1, "api": "CREATE_TOPICS", "about": name, "error": 0}
        story.add("admin_request", t + 20, invoke_t=t - 20, **asked)
    return story


MADE: dict[str, tuple[Story, bool]] = {
    "asked for": (made(5_000, "u"), False),
    "nobody asked for it": (made(5_000), True),
    "another was asked for": (made(5_000, "v"), True),
    "as the run is set up": (made(500), False),
    "by brokers for themselves": (made(5_000, topic="__consumer_offsets"), False),
}


def test_topics_that_nobody_asked_for(spark: Any) -> None:
    found = list(unasked_for(_as_trials(spark, [story for story, _ in MADE.values()])))
    assert [list(MADE)[key[1]] for key, _ in found] == [n for n, (_, odd) in MADE.items() if odd]
    assert found[0][1].endswith("nobody asked for them, the first u")


def elected(*, tells: bool = True, died: float | None = None) -> Story:
    """Node 1 leads something, and is the controller by ZooKeeper's log from 5 s on."""
    story = Story()
    role = {"node": 1, "role": "leader", "leader": 1, "leader_epoch": 0, "log_end_offset": 0}
    story.add("leader_change", 1_000, topic="t", partition=0, **role)
    story.add("zk_write", 5_000, what="controller", step="created", node=1, zxid=9)
    if tells:
        story.add("controller", 5_100, node=1, event="elected", controller_epoch=1)
    if died is not None:
        story.add("node_event", died, node=1, event="kill")
    return story


ELECTED: dict[str, tuple[Story, bool]] = {
    "it says so": (elected(), False),
    "it does not": (elected(tells=False), True),
    "it died at once": (elected(tells=False, died=6_000), False),
    "it died long after": (elected(tells=False, died=16_000), True),
}


def test_controllers_that_tell_of_no_election(spark: Any) -> None:
    history = _as_trials(spark, [story for story, _ in ELECTED.values()])
    says = "ZooKeeper's log has node 1 as the controller, which tells of no election"
    for (arm, trial), (_, odd) in zip(history.trials, ELECTED.values(), strict=True):
        assert (says in list(untold(history, (arm, trial)))) == odd


def _as_trials(spark: Any, stories: list[Story]) -> History:
    """Each story a trial of one history: Spark's jobs take long, however small."""
    rows: dict[str, list[dict[str, Any]]] = {}
    trials = []
    for number, story in enumerate(stories):
        trials += [{**one, "trial": number} for one in story.run.get("trials", ())]
        for kind, items in story.rows.items():
            rows.setdefault(kind, []).extend({**row, "trial": number} for row in items)
    return History.of(spark, rows, {**stories[0].run, "trials": trials})


def wiped(end: int | None, *more: tuple[float, int], **hold: Any) -> Story:
    """Node 2 dies, its disk is wiped at 3 s, and it takes up a role at 5 s."""
    story = Story()
    for t, phase in ((2_000, "inject"), (3_000, "injected"), (4_000, "heal")):
        told = {"took_hold": True, **hold} if phase == "injected" else {}
        fields = {"fault": "wipe-disk", "phase": phase, "nodes": [2], "detail": "{}", **told}
        story.add("fault", t, id="w", **fields)
    role = {"node": 2, "role": "follower", "leader": 1, "leader_epoch": 1}
    for t, offset in ((1_000, 7), (5_000, end), *more):
        story.add("leader_change", t, **role, log_end_offset=offset)
    return story


def lost(end: int) -> Story:
    """The same, by a story that ends much later and names another broker, too."""
    story = wiped(end, took_hold=False)
    told = {"emptied": {"node": 2, "t": 3_000 * MS}}
    story.add("fault", 7_000, id="l", fault="last-standing", nodes=[1, 2], detail=json.dumps(told))
    return story


WIPED: dict[str, tuple[Story, bool]] = {
    "empty": (wiped(0), False),
    "not empty": (wiped(7), True),
    "empty, and filled": (wiped(0, (6_000, 9)), False),
    "nobody says": (wiped(None), False),
    "it did not take hold": (wiped(7, took_hold=False), False),
    "empty, by a story": (lost(0), False),
    "not empty, by a story": (lost(7), True),
}


def test_whose_disk_was_wiped_comes_back_with_nothing(spark: Any) -> None:
    found = list(not_wiped(_as_trials(spark, [story for story, _ in WIPED.values()])))
    assert [list(WIPED)[key[1]] for key, _ in found] == [n for n, (_, odd) in WIPED.items() if odd]
    assert found[-1][1].startswith("l says")
    assert found[0][1] == "w says that it wiped node 2's disk, which came back with logs"
