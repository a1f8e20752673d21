"""Deadlines come in order, cancelled ones never, and what was cancelled takes no room."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from nodes.core.deadlines import SLACK, Deadline, Deadlines

FAR_NS = 2**31 * 1_000_000


def test_in_order_and_never_early() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for due_ns, item in ((30, "c"), (10, "a"), (20, "b"), (10, "a too")):
        deadlines.add(due_ns, item)
    assert deadlines.next_ns == 10
    assert deadlines.take_due(9) == []
    assert deadlines.take_due(20) == ["a", "a too", "b"]
    assert (deadlines.next_ns, len(deadlines), deadlines.items()) == (30, 1, ["c"])
    assert deadlines.take_due(30) == ["c"]
    assert (deadlines.next_ns, len(deadlines), deadlines.entries) == (None, 0, 0)


def test_a_cancelled_one_neither_comes_nor_is_waited_for() -> None:
    deadlines: Deadlines[str] = Deadlines()
    first, second = deadlines.add(10, "first"), deadlines.add(20, "second")
    assert deadlines.cancel(first)
    assert not deadlines.cancel(first)
    assert deadlines.next_ns == 20
    assert deadlines.take_due(20) == ["second"]
    assert not deadlines.cancel(second)
    assert len(deadlines) == 0


def test_renewing_one_of_many_leaves_nothing_behind() -> None:
    """What heartbeats do, with a session that outlasts them all."""
    deadlines: Deadlines[int] = Deadlines()
    members = [deadlines.add(FAR_NS + i, i) for i in range(100)]
    most = 0
    for beat in range(20_000):
        at = beat % len(members)
        deadlines.cancel(members[at])
        members[at] = deadlines.add(FAR_NS + beat, at)
        most = max(most, deadlines.entries)
    assert len(deadlines) == len(members)
    assert most <= 2 * len(members) + SLACK + 1
    assert sorted(deadlines.take_due(2 * FAR_NS)) == list(range(100))


def test_the_cancelled_go_when_the_others_were_taken() -> None:
    deadlines: Deadlines[int] = Deadlines()
    between = deadlines.add(2000, -1)  # keeps the far ones from coming to the top
    far = [deadlines.add(FAR_NS, i) for i in range(1000)]
    for i in range(1000):
        deadlines.add(i, i)
    for deadline in far:
        deadlines.cancel(deadline)
    assert len(deadlines.take_due(1000)) == 1000
    assert deadlines.entries <= 2 + SLACK
    assert between.item == -1


@patch("nodes.core.deadlines.SLACK", 1)
@given(st.lists(st.tuples(st.sampled_from(["add", "cancel", "take"]), st.integers(0, 50))))
def test_as_a_plain_list_would(steps: list[tuple[str, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    plain: dict[int, tuple[int, Deadline[int]]] = {}
    for item, (step, number) in enumerate(steps):
        if step == "add":
            plain[item] = (number, deadlines.add(number, item))
        elif step == "cancel" and plain:
            chosen = sorted(plain)[number % len(plain)]
            assert deadlines.cancel(plain.pop(chosen)[1])
        elif step == "take":
            due = sorted((due_ns, i) for i, (due_ns, _) in plain.items() if due_ns <= number)
            assert deadlines.take_due(number) == [i for _, i in due]
            for _, i in due:
                del plain[i]
        assert len(deadlines) == len(plain)
        assert sorted(deadlines.items()) == sorted(plain)
        assert deadlines.next_ns == min((due_ns for due_ns, _ in plain.values()), default=None)
        assert deadlines.entries <= 2 * len(deadlines) + 1
