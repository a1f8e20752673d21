"""The view where there is no ZooKeeper: everybody is asked, nobody is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from harness.cluster import quorum_view
from harness.cluster.errors import StateUnreadable
from harness.cluster.quorum_view import QuorumView
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import build

NOBODY = quorum_view._NOBODY
ADDRESSES = {node: ("127.0.0.1", node) for node in (1, 2, 3)}


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """Set at the end, so that no thread outlives the test."""
    event = threading.Event()
    yield event
    event.set()


def quorum(
    monkeypatch: pytest.MonkeyPatch,
    stuck: threading.Event,
    says: dict[int, tuple[int, int] | None],
) -> list[int]:
    """``says``: (controller, epoch) by node; who is not in it does not answer. Returns who was
    asked, as a list that grows."""
    asked: list[int] = []

    def describe(address: tuple[str, int], _timeout_s: float) -> tuple[int, int] | None:
        asked.append(address[1])
        if address[1] not in says:
            stuck.wait(30.0)
            return None
        return says[address[1]]

    monkeypatch.setattr(quorum_view, "describe_quorum", describe)
    return asked


def test_the_newest_epoch_counts(monkeypatch: pytest.MonkeyPatch, stuck: threading.Event) -> None:
    monkeypatch.setattr(quorum_view, "_GRACE_S", 30.0)  # all answer: whoever is the last to
    quorum(monkeypatch, stuck, {1: (1, 4), 2: NOBODY, 3: (3, 5)})
    view = QuorumView(ADDRESSES, ADDRESSES)
    assert (view.controller(), view.controller_epoch()) == (3, 5)


def test_between_two_controllers_there_is_none(
    monkeypatch: pytest.MonkeyPatch, stuck: threading.Event
) -> None:
    quorum(monkeypatch, stuck, {1: NOBODY, 2: NOBODY, 3: None})
    view = QuorumView(ADDRESSES, ADDRESSES)
    assert (view.controller(), view.controller_epoch()) == (None, 0)


def test_who_is_paused_is_not_waited_for_nor_asked_again(
    monkeypatch: pytest.MonkeyPatch, stuck: threading.Event, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(quorum_view, "_OWED_S", 0.0)
    monkeypatch.setattr(quorum_view, "_TIMEOUT_S", 30.0)
    asked = quorum(monkeypatch, stuck, {1: (1, 4), 3: (1, 4)})
    view = QuorumView(ADDRESSES, ADDRESSES)
    assert view.controller() == 1
    assert view.controller_epoch() == 4
    wait_until(lambda: 2 in asked)  # by a thread that nobody had to wait for
    assert sorted(asked) == [1, 1, 2, 3, 3]


@pytest.mark.slow
def test_when_most_owe_an_answer_all_are_asked_again(
    monkeypatch: pytest.MonkeyPatch, stuck: threading.Event, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(quorum_view, "_OWED_S", 0.0)
    monkeypatch.setattr(quorum_view, "_TIMEOUT_S", 0.5)  # waited for, twice: most never answer
    asked = quorum(monkeypatch, stuck, {1: (1, 4)})
    view = QuorumView(ADDRESSES, ADDRESSES)
    assert view.controller() == 1
    assert view.controller() == 1
    wait_until(lambda: len(asked) == 6)
    assert sorted(asked) == [1, 1, 2, 2, 3, 3]


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_view, "_TIMEOUT_S", 0.2)
    view = QuorumView(ADDRESSES, ADDRESSES)  # nobody listens there
    assert view.broker_epoch(1) is None
    with pytest.raises(StateUnreadable, match="no broker answered"):
        view.live_brokers()


@pytest.mark.parametrize(
    ("adding", "removing", "moving"), [([], [], []), ([4], [], ["t"]), ([], [1], ["t"])]
)
def test_a_topic_that_is_listed_moves_when_replicas_are_added_or_removed(
    monkeypatch: pytest.MonkeyPatch, adding: list[int], removing: list[int], moving: list[str]
) -> None:
    """Tansu lists every partition."""
    partition = {"partition_index": 0, "replicas": [1], "adding_replicas": adding,
                 "removing_replicas": removing}  # fmt: skip
    answer = build(
        response_class(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0),
        topics=[{"name": "t", "partitions": [partition]}],
    )
    monkeypatch.setattr(quorum_view, "ask", lambda *_: answer)
    view = QuorumView(ADDRESSES, ADDRESSES)
    assert sorted(view._moving({"t": None})) == moving
