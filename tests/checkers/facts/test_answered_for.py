"""What clients saw of brokers against what these tell of themselves: less counted than answered,
shown before it was taken in, asked no more; and what looks alike and is lawful."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.history.frames import History
from checkers.promises.evidence.askers import passed_over, unasked
from checkers.promises.evidence.counted import overanswered, overlapping, undercounted
from checkers.promises.evidence.orders import overlooked, unlooked
from checkers.promises.evidence.own_epochs import never_registered
from checkers.promises.evidence.taken_in import shown_untaken
from tests.checkers.conftest import Story
from tests.checkers.together import said_of_each

Edit = Callable[[Story], Any]
S = 1_000_000_000


def sound() -> Story:
    """Broker 1 counts for 20 s; a reader reads once a second, and two control requests come."""
    story = Story()
    for name, event, t in (("settle", "begin", 10_000), ("settle", "end", 19_000)):
        story.add("phase", t, name=name, event=event)
    use = {"node": 1, "boot": 1, "plane": "data", "interval_ns": S, "process": "node-1"}
    for n in range(1, 21):
        own = {**use, "listener": "CLIENT", "api": "METADATA"}
        story.add("plane_use", 1_000 * n, seq=n, requests=1, **own)
    own = {"listener": "REPLICATION", "api": "UPDATE_METADATA"}
    story.add("plane_use", 5_000, seq=40, requests=2, **use, **own)
    for n in range(20):
        for partition in (0, 1):
            story.read(1_000 * n + 500, 1, 3, op=n, partition=partition, process="reader")
    for n, t in enumerate((4_300, 4_600)):
        story.handled(t, 1, boot=1, seq=50 + n, listener="REPLICATION")
        for partition in (0, 1):
            more = {"leader_epoch": 3, "leader": 1, "seq": 60 + 2 * n + partition, "boot": 1}
            story.add("metadata_update", 300, node=1, partition=partition, **more)
    return story


def flood(story: Story, t: float, completed: int, fault: str = "flood-produce") -> None:
    """It lay there for a second, and was counted ten times."""
    for phase, at in (("inject", t - 1_000), ("injected", t - 900), ("heal", t + 100)):
        story.add("fault", at, fault=fault, id="f", phase=phase, nodes=[1], took_hold=True)
    use = {"node": 1, "boot": 1, "plane": "data", "interval_ns": S, "process": "node-1"}
    story.add("plane_use", 6_000, seq=90, requests=10, listener="CLIENT", api="PRODUCE", **use)
    own = {"id": "f", "interval_ns": S // 4, "connections": 5, "sent": completed, "errors": 0}
    for at in (t - 250, t):
        story.add("flood", at, node=1, process="flood-f-1-1", completed=completed, **own)


def change(kind: str, number: int, **fields: Any) -> Edit:
    return lambda story: story.rows[kind][number].update(fields)


def drop(kind: str, rows: Callable[[dict[str, Any]], bool]) -> Edit:
    return lambda story: story.rows[kind].__setitem__(
        slice(None), [row for row in story.rows[kind] if not rows(row)]
    )


def api(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda row: row["api"] == name


ONE_READ = "node 1 counted 19 METADATA requests in its boot 1, and 20 rows of metadata"
UNCOUNTED: dict[str, tuple[Edit, str]] = {
    "as it was": (lambda s: None, ""),
    "a second's reads": (drop("plane_use", lambda row: row["t"] == 7_000 * 10**6), ONE_READ),
    "all reads": (  # it is known to have counted for a second only
        drop("plane_use", api("METADATA")),
        "node 1 counted 0 METADATA requests in its boot 1, and 1 rows of metadata",
    ),
    "all controller requests": (
        drop("plane_use", api("UPDATE_METADATA")),
        "node 1 counted 0 UPDATE_METADATA requests in its boot 1, and 2 rows of control_request",
    ),
    "one of them": (
        change("plane_use", 20, requests=1),
        "node 1 counted 1 UPDATE_METADATA requests in its boot 1, and 2 rows of control_request",
    ),
    "by another listener": (
        change("plane_use", 20, listener="CLIENT"),
        "node 1 counted 0 UPDATE_METADATA requests in its boot 1, and 2 rows of control_request",
    ),
    "more than anybody tells of": (change("plane_use", 3, requests=9), ""),
    "one more": (
        lambda s: s.handled(4_800, 1, boot=1, seq=70, listener="REPLICATION"),
        "node 1 counted 2 UPDATE_METADATA requests in its boot 1, and 3 rows of control_request",
    ),
    "one more as it began to count": (
        lambda s: s.handled(100, 1, boot=1, seq=70, listener="REPLICATION"),
        "",
    ),
    "one more as it counted last": (
        lambda s: s.handled(19_900, 1, boot=1, seq=70, listener="REPLICATION"),
        "",
    ),
    "a read that nobody answered": (
        lambda s: s.add("metadata", 8_800, node=1, op=99, type="info", process="reader"),
        "",
    ),
    "a read that was refused": (
        lambda s: s.add("metadata", 8_800, node=1, op=99, type="fail", error=3, process="reader"),
        "node 1 counted 20 METADATA requests in its boot 1, and 21 rows of metadata",
    ),
    "a flood of less": (lambda s: flood(s, 8_000, 5), ""),
    "a flood of more": (
        lambda s: flood(s, 8_000, 6),
        "node 1 counted 10 PRODUCE requests in its boot 1, and 12 requests of flood tell of its",
    ),
    "a flood of fetches, and none was counted": (
        lambda s: flood(s, 8_000, 5, "flood-fetch"),
        "node 1 counted 0 FETCH requests in its boot 1, and 10 requests of flood tell of its",
    ),
    "a flood of connections": (lambda s: flood(s, 8_000, 9, "flood-connections"), ""),
    "a flood as it counts no more": (lambda s: flood(s, 30_000, 9), ""),
    "a flood in which nobody was answered": (lambda s: flood(s, 8_000, 0), ""),
    "of a boot that counts no more": (
        lambda s: s.add("metadata", 30_000, node=1, op=99, process="reader"),
        "",
    ),
    "of a broker that does not count": (lambda s: s.read(8_800, 2, 3, op=99), ""),
}


def test_less_counted_than_answered(spark: Any) -> None:
    edits = {name: edit for name, (edit, _) in UNCOUNTED.items()}
    told = said_of_each(edits, sound, lambda rows: undercounted(History.of(spark, rows)))
    for name, (_, says) in UNCOUNTED.items():
        found = told.get(name, [])
        assert len(found) == bool(says), (name, found)
        assert all(one.startswith(says) for one in found), (name, found)


OVERANSWERED: dict[str, tuple[Edit, bool]] = {
    "as many as it had sent": (lambda s: flood(s, 8_000, 5), False),
    "later than it had sent them": (
        lambda s: (flood(s, 8_000, 5), change("flood", -1, sent=2)(s),
                   change("flood", -2, sent=8)(s)),
        False,
    ),
    "one more than it ever sent": (
        lambda s: (flood(s, 8_000, 5), change("flood", -1, completed=6)(s)),
        True,
    ),
    "by another flood, which sent more": (
        lambda s: (flood(s, 8_000, 5), change("flood", -1, completed=6)(s),
                   change("flood", -2, process="flood-f-1-2", sent=9)(s)),
        True,
    ),
}  # fmt: skip


def test_no_more_answers_than_requests(spark: Any) -> None:
    edits = {name: edit for name, (edit, _) in OVERANSWERED.items()}
    told = said_of_each(edits, sound, lambda rows: overanswered(History.of(spark, rows)))
    assert told.keys() == {name for name, (_, odd) in OVERANSWERED.items() if odd}
    assert told["one more than it ever sent"][0].endswith("was answered 11 times, and sent 10")


OVERLAPPING: dict[str, tuple[Edit, bool]] = {
    "as it was": (lambda s: None, False),
    "a longer time": (change("plane_use", 6, interval_ns=S + 1), True),
    "a shorter time than others of the same moment": (
        change("plane_use", 20, interval_ns=S // 2),
        True,
    ),
    "a time in which nobody asked": (
        drop("plane_use", lambda row: row["t"] == 7_000 * 10**6),
        False,
    ),
    "from before another boot": (
        lambda s: [row.update(boot=2) for row in s.rows["plane_use"] if late(row)],
        False,
    ),
    "by who numbers nothing": (
        lambda s: [row.update(seq=None, interval_ns=9 * S) for row in s.rows["plane_use"]],
        False,
    ),
}


def test_one_time_counted_twice(spark: Any) -> None:
    edits = {name: edit for name, (edit, _) in OVERLAPPING.items()}
    told = said_of_each(edits, sound, lambda rows: overlapping(History.of(spark, rows)))
    assert told.keys() == {name for name, (_, odd) in OVERLAPPING.items() if odd}
    says = "node 1, boot 1: what it counted at 1 moments is of a time in which it had counted"
    assert all(len(of) == 1 and of[0].startswith(says) for of in told.values())


UNTAKEN: dict[str, tuple[Edit, int]] = {
    "as it was": (lambda s: None, 0),
    "taken in later": (
        lambda s: [row.update(t=1_501 * 10**6) for row in s.rows["metadata_update"]],
        2,
    ),
    "and told of it a moment later": (
        lambda s: [row.update(t=1_499 * 10**6) for row in s.rows["metadata_update"]],
        0,
    ),
    "one was never taken in": (drop("metadata_update", lambda row: row["partition"] == 1), 1),
    "an epoch that never came": (change("metadata", 7, leader_epoch=4), 1),
    "once sooner, once again": (change("metadata_update", 0, t=1_501 * 10**6), 0),
    "by who numbers nothing": (
        lambda s: [row.update(seq=None, t=S) for row in s.rows["metadata_update"]],
        0,
    ),
    "shown by who tells of nothing": (lambda s: s.read(100, 2, 9), 0),
    "no epoch was shown": (change("metadata", 7, leader_epoch=None), 0),
    "a read that failed": (
        change("metadata", 7, leader_epoch=4, type="fail", error=5),
        0,
    ),
}


def test_shown_before_it_was_taken_in(spark: Any) -> None:
    edits = {name: edit for name, (edit, _) in UNTAKEN.items()}
    told = said_of_each(edits, sound, lambda rows: shown_untaken(History.of(spark, rows)))
    for name, (_, n) in UNTAKEN.items():
        says = f"node 1 showed {n} leader epochs that it does not tell of"
        found = told.get(name, [])
        assert [one.startswith(says) for one in found] == [True] * bool(n), (name, found)


def late(row: dict[str, Any]) -> bool:
    return bool(row["t"] > 10_000 * 10**6)


def short(story: Story) -> None:
    story.rows["phase"][1]["t"] = 13_000 * 10**6


def stepped(name: str) -> Edit:
    """One question for a group, early."""
    return lambda s: s.add(
        *("group_step", 2_000),
        **{"process": "other", "op": 1, "type": "ok", "invoke_t": 1_990, "error": 0},
        **{"node": 3, "group": "g", "step": name, "offset": -1},
    )


UNASKED: dict[str, tuple[tuple[Edit, ...], bool]] = {
    "as it was": ((), False),
    "no more": ((drop("metadata", late),), True),
    "no more, and the load ended soon": ((drop("metadata", late), short), False),
    "another broker, once": ((lambda s: s.read(2_000, 2, 3, process="reader"),), True),
    "by who tells of some answers only": ((stepped("describe"),), False),
    "by who does not go round": ((lambda s: s.produce(2_000, 1, 1, node=2),), False),
    "in vain": ((lambda s: [r.update(type="info") for r in s.rows["metadata"] if late(r)],), False),
}


@pytest.mark.parametrize("broken", [True, False])
def test_who_is_asked_no_more(spark: Any, broken: bool) -> None:
    def all_of(edits: tuple[Edit, ...]) -> Edit:
        return lambda story: [edit(story) for edit in edits]

    edits = {name: all_of(of) for name, (of, wanted) in UNASKED.items() if wanted is broken}
    told = said_of_each(edits, sound, lambda rows: unasked(History.of(spark, rows)))
    assert set(told) == (set(edits) if broken else set())
    for (says,) in told.values():
        assert says.startswith("reader had asked node ")
        assert says.endswith("(metadata), and asked it no more once all was healed")


def between(from_ms: float, to_ms: float) -> Callable[[dict[str, Any]], bool]:
    return lambda row: bool(from_ms * 10**6 < row["t"] < to_ms * 10**6)


def elsewhere(story: Story) -> None:
    """The reader asks another broker as well, from beginning to end."""
    for n in range(20):
        story.read(1_000 * n + 600, 2, 3, op=40 + n, process="reader")


def long_ask(story: Story) -> None:
    drop("metadata", between(5_000, 11_000))(story)
    story.add("metadata", 10_900, invoke_t=5_000, node=1, op=90, type="info", process="reader")


PASSED: dict[str, tuple[tuple[Edit, ...], bool]] = {
    "as it was": ((elsewhere,), False),
    "for six seconds": ((drop("metadata", between(5_000, 11_000)), elsewhere), True),
    "from the beginning": ((drop("metadata", between(0, 6_000)), elsewhere), True),
    "to the end": ((drop("metadata", between(13_000, 20_000)), elsewhere), True),
    "for three seconds": ((drop("metadata", between(5_000, 8_000)), elsewhere), False),
    "it waited for the answer": ((long_ask, elsewhere), False),
    "it began later itself": ((drop("metadata", between(0, 6_000)),), False),
    "the broker counted nothing": (
        (
            drop("metadata", between(5_000, 11_000)),
            drop("plane_use", between(5_500, 10_500)),
            elsewhere,
        ),
        False,
    ),
}


def test_who_is_passed_over(spark: Any) -> None:
    def all_of(edits: tuple[Edit, ...]) -> Edit:
        return lambda story: [edit(story) for edit in edits]

    edits = {name: all_of(of) for name, (of, _) in PASSED.items()}
    told = said_of_each(edits, sound, lambda rows: passed_over(History.of(spark, rows)))
    assert {name for name, (_, wanted) in PASSED.items() if wanted} == set(told)
    for (says,) in told.values():
        assert says.startswith("reader did not ask node 1 (metadata) for seconds")


def queues(*looked: int, long_ms: float = 4_000, seq: int | None = 1) -> Edit:
    """Controller 1 sends to brokers 2 and 3."""

    def edit(story: Story) -> None:
        for to in (2, 3):
            for t in (1_000, 1_000 + long_ms):
                story.add("control_send", t, node=1, to=to, seq=seq, controller_epoch=1)
        for to in looked:
            story.add("channel_queue", 2_000, node=1, to=to)

    return edit


def sends(story: Story, t: float, controller_epoch: int) -> None:
    story.add("control_send", t, node=4, to=2, seq=1, controller_epoch=controller_epoch)


QUEUES: dict[str, tuple[Edit, bool]] = {
    "both": (queues(2, 3), False),
    "one": (queues(2), True),
    "none at all": (queues(), False),
    "none, of another controller": (
        lambda s: (
            queues(2, 3)(s),
            [sends(s, t, 2) for t in (9_000, 14_000)],
        ),
        True,
    ),
    "none, of two short reigns": (
        lambda s: (queues(2, 3)(s), sends(s, 9_000, 2), sends(s, 14_000, 3)),
        False,
    ),
    "one, of a short reign": (queues(2, long_ms=2_000), False),
    "one, of who numbers nothing": (queues(2, seq=None), False),
}


def test_at_whose_queue_nobody_looked(spark: Any) -> None:
    edits = {name: edit for name, (edit, _) in QUEUES.items()}
    told = said_of_each(edits, Story, lambda rows: unlooked(History.of(spark, rows)))
    assert {name for name, (_, wanted) in QUEUES.items() if wanted} == set(told)
    assert told["one"] == [
        "nobody looked at controller 1's queue to node 3, as somebody did at others"
    ]


def looked_at(*spans: tuple[int, int], sent: tuple[int, ...], to: int = 2) -> Edit:
    """The queue to broker 2 each 250 ms within these spans (ms); requests at these times."""

    def edit(story: Story) -> None:
        for begin, end in spans:
            for t in range(begin, end, 250):
                story.add("channel_queue", t, node=1, to=2, size=0, taken=0)
        for n, t in enumerate(sent):
            story.add("control_send", t, node=1, to=to, api="UPDATE_METADATA", seq=n)

    return edit


LOOKS: dict[str, tuple[Edit, bool]] = {
    "all the while": (looked_at((0, 20_000), sent=(100, 9_000, 19_000)), False),
    "not for seconds": (looked_at((0, 6_000), (12_000, 20_000), sent=(100, 9_000, 19_000)), True),
    "no more": (looked_at((0, 6_000), sent=(100, 9_000, 19_000)), True),
    "only later": (looked_at((12_000, 20_000), sent=(100, 9_000, 19_000)), True),
    "as nothing was sent": (looked_at((0, 6_000), (12_000, 20_000), sent=(100, 19_000)), False),
    "its last ones": (looked_at((0, 6_000), sent=(100, 5_000, 9_000)), False),
    "before it left office": (
        looked_at((0, 6_000), (60_000, 66_000), sent=(100, 5_900, 60_100)),
        False,
    ),
    "to whom nobody looks": (looked_at((0, 6_000), sent=(100, 9_000, 19_000), to=3), False),
}


def test_when_nobody_looked_at_a_queue(spark: Any) -> None:
    edits = {name: edit for name, (edit, _) in LOOKS.items()}
    told = said_of_each(edits, Story, lambda rows: overlooked(History.of(spark, rows)))
    assert {name for name, (_, wanted) in LOOKS.items() if wanted} == set(told)
    assert told["no more"] == [
        "nobody looked at controller 1's queue to node 2 for seconds in which it sent 1 requests"
    ]


def own_epoch(
    *epochs: int | None,
    node: int = 1,
    logged: bool = True,
    seq: int | None = 1,
    later_ms: int = 0,
) -> Edit:
    """Broker 1 registered twice, with 20 and 30."""

    def edit(story: Story) -> None:
        for zxid in (20, 30) if logged else ():
            own = {"what": "broker", "step": "created", "node": 1}
            story.add("zk_write", zxid, zxid=zxid, **own)
        for n, epoch in enumerate(epochs):
            story.handled(100 + n + later_ms, node, own_broker_epoch=epoch, seq=seq)

    return edit


OWN: dict[str, tuple[Edit, bool]] = {
    "its registrations": (own_epoch(20, 30, 30), False),
    "another": (own_epoch(20, 25), True),
    "of before, once more": (own_epoch(30, 20), False),
    "of before, still": (own_epoch(20, later_ms=2_000), True),
    "the last one, long since": (own_epoch(30, later_ms=9_000), False),
    "one to come": (own_epoch(20, 31), True),
    "of before the log begins": (own_epoch(7, 20), False),
    "none yet": (own_epoch(-1, None, 20), False),
    "of who is not in the log": (own_epoch(25, node=2), False),
    "without a log": (own_epoch(25, logged=False), False),
    "of who numbers nothing": (own_epoch(25, seq=None), False),
}


def test_broker_epochs_that_were_never_registered(spark: Any) -> None:
    edits = {name: edit for name, (edit, _) in OWN.items()}
    told = said_of_each(edits, Story, lambda rows: never_registered(History.of(spark, rows)))
    assert {name for name, (_, wanted) in OWN.items() if wanted} == set(told)
    (says,) = told["another"]
    assert says.startswith("node 1 held 25 for its broker epoch in 1 requests, and never")
    (says,) = told["of before, still"]
    assert says.endswith("in requests until 2.1 s after it had registered anew")
