"""What the end of a session does to what it knew: watches of the old one tell nothing in the next
(Kafka's ZooKeeperClient.reinitialize; whoever wants to know asks again)."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.protocol.states import KazooState

from nodes.coordination import session as session_module
from nodes.coordination.errors import SessionExpired
from nodes.coordination.requests import GetChildren, GetData
from nodes.coordination.session import ChangeHandler, ChildChangeHandler, StateHandler
from nodes.coordination.session import ZooKeeperSession as Session


class Answer:
    """kazoo's asynchronous result, which is there at once."""

    exception = None

    def __init__(self, value: Any) -> None:
        self.value = value

    def rawlink(self, done: Any) -> None:
        done(self)


class Stat:
    def __init__(self, number: int) -> None:
        self.mzxid = self.pzxid = number


class Kazoo:
    """What is at "/x" and below it now."""

    client_state = "CONNECTED"

    def __init__(self, *_: Any, **__: Any) -> None:
        self.number = 1
        self.asked: list[str] = []

    def add_listener(self, _listener: Any) -> None: ...

    def get_async(self, path: str, watch: Any) -> Answer:
        self.asked.append("data")
        return Answer((b"", Stat(self.number)))

    def exists_async(self, path: str, watch: Any) -> Answer:
        self.asked.append("exists")
        return Answer(Stat(self.number))

    def get_children_async(self, path: str, watch: Any, include_data: bool) -> Answer:
        self.asked.append("children")
        return Answer(([], Stat(self.number)))


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> Session:
    monkeypatch.setattr(session_module, "KazooClient", Kazoo)
    made = Session("zoo:1", session_timeout_ms=1, connection_timeout_ms=1, max_in_flight_requests=9)
    made.register_change_handler(ChangeHandler("/x", data_changed=lambda: told.append("changed")))
    made.register_child_handler(ChildChangeHandler("/x", lambda: told.append("children")))
    made.register_state_handler(
        StateHandler(lambda: told.append("before"), lambda: told.append("after"))
    )
    made._on_state(KazooState.CONNECTED)
    made.request(GetData("/x"))
    made.request(GetChildren("/x"))
    client: Any = made._client
    client.asked.clear()
    return made


def test_back_in_the_same_session_changes_are_told(session: Session, told: list[str]) -> None:
    client: Any = session._client
    session._on_state(KazooState.SUSPENDED)
    client.number = 2
    session._on_state(KazooState.CONNECTED)
    assert client.asked == ["exists", "children"]
    assert told == ["changed", "children"]
    session._on_state(KazooState.SUSPENDED)
    session._on_state(KazooState.CONNECTED)
    assert told == ["changed", "children"], "once"


def test_in_the_next_session_nothing_of_the_old_one_is_told(
    session: Session, told: list[str]
) -> None:
    """Only that it ended, before the next begins, and that the next has begun."""
    client: Any = session._client
    session._on_state(KazooState.SUSPENDED)
    client.number = 2
    session._on_state(KazooState.LOST)
    assert told == ["before"]
    with pytest.raises(SessionExpired):
        session.wait_until_connected()
    session._on_state(KazooState.CONNECTED)
    assert told == ["before", "after"]
    session._on_state(KazooState.SUSPENDED)
    session._on_state(KazooState.CONNECTED)
    assert told == ["before", "after"]
    assert client.asked == []


def test_a_first_connection_is_no_new_session(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    monkeypatch.setattr(session_module, "KazooClient", Kazoo)
    made = Session("zoo:1", session_timeout_ms=1, connection_timeout_ms=1, max_in_flight_requests=9)
    made.register_state_handler(
        StateHandler(lambda: told.append("before"), lambda: told.append("after"))
    )
    made._on_state(KazooState.CONNECTED)
    assert told == []
    assert made.is_connected


@pytest.mark.parametrize("most", [1, 3, 11])
def test_so_many_requests_may_be_under_way(most: int) -> None:
    """``zookeeper.max.in.flight.requests``; the next one waits for an answer."""
    made = Session(
        "zoo:1", session_timeout_ms=1, connection_timeout_ms=1, max_in_flight_requests=most
    )
    begun = [made._in_flight.acquire(blocking=False) for _ in range(most + 1)]
    assert begun == [True] * most + [False]
