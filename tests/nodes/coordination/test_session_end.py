"""What the end of a session does to what it knew: watches of the old one tell nothing in the next
(Kafka's ZooKeeperClient.reinitialize; whoever wants to know asks again)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.states import KazooState, KeeperState

from nodes.coordination import session as session_module
from nodes.coordination.errors import SessionClosed, SessionExpired, ZooKeeperTimeout
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
    def stop(self) -> None: ...
    def close(self) -> None: ...

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
def test_so_many_requests_may_be_under_way(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """``zookeeper.max.in.flight.requests``; the next one waits for an answer."""
    waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()

    class Slow(Kazoo):
        def get_async(self, path: str, watch: Any) -> Any:
            answer = Answer((b"", Stat(1)))
            return SimpleNamespace(rawlink=lambda done: waiting.put(lambda: done(answer)))

    monkeypatch.setattr(session_module, "KazooClient", Slow)
    made = Session(
        "zoo:1", session_timeout_ms=1, connection_timeout_ms=1, max_in_flight_requests=most
    )
    made._on_state(KazooState.CONNECTED)
    asks = threading.Thread(target=made.pipeline, args=([GetData("/x")] * (most + 1),), daemon=True)
    asks.start()
    first = [waiting.get(timeout=60) for _ in range(most)]
    assert not made._in_flight.acquire(blocking=False)
    assert waiting.empty()
    for answer in first:
        answer()
    waiting.get(timeout=60)()
    asks.join(60)
    assert not asks.is_alive()
    begun = [made._in_flight.acquire(blocking=False) for _ in range(most + 1)]
    assert begun == [True] * most + [False], "each answer makes room for one"


@pytest.mark.parametrize(
    ("happens", "error"),
    [
        (lambda s: s._on_state(KazooState.CONNECTED), None),
        (lambda s: s._on_state(KazooState.LOST), SessionExpired),
        (lambda s: s.stop_waiting(), SessionClosed),
        (lambda s: s.close(), SessionClosed),
    ],
    ids=["back", "over", "the broker ends", "closed"],
)
def test_who_waits_for_zookeeper_waits_no_longer_than_that(
    session: Session, happens: Callable[[Session], None], error: type[Exception] | None
) -> None:
    """A broker that is cut off can end; KafkaController.shutdown does not wait for ZooKeeper."""
    session._on_state(KazooState.SUSPENDED)
    waiting: Any = session._connected
    found: list[type[Exception] | None] = []

    def wait() -> None:
        try:
            session.wait_until_connected()
        except Exception as problem:
            found.append(type(problem))
        else:
            found.append(None)

    other = threading.Thread(target=wait, daemon=True)
    other.start()
    while not waiting._waiters:
        assert other.is_alive(), "it waits"
    happens(session)
    other.join(30)
    assert found == [error]


def test_a_client_whose_thread_died_is_started_again(session: Session, told: list[str]) -> None:
    """kazoo's connection thread ends with an error that it does not know. On a thread of its own,
    which keeps no process alive: kazoo's waits for nobody here."""
    client: Any = session._client
    done: list[tuple[str, bool]] = []
    ended = threading.Event()

    def note(what: str) -> None:
        thread = threading.current_thread()
        done.append((f"{thread.name}: {what}", thread.daemon))

    client.stop = lambda: note("stop")
    client.start_async = lambda: (note("start"), ended.set())
    session._on_state(KazooState.SUSPENDED)
    session._on_state(KazooState.LOST)
    assert done == [], "it goes on by itself"
    told.clear()
    client.client_state = KeeperState.CLOSED
    session._on_state(KazooState.LOST)
    assert told == ["before"]
    assert ended.wait(60)
    assert done == [("zk-restart: stop", True), ("zk-restart: start", True)]


def test_a_session_is_asked_for_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """``zookeeper.session.timeout.ms`` of the server, ``zookeeper.connection.timeout.ms`` of
    ourselves; who is not reached in that time is given up."""
    asked: list[Any] = []

    class Unreachable(Kazoo):
        hosts = "zoo:1"

        def __init__(self, *args: Any, **options: Any) -> None:
            asked.append((*args, options["timeout"]))

        def start_async(self) -> Any:
            return SimpleNamespace(wait=asked.append)

        def stop(self) -> None:
            asked.append("stopped")

    monkeypatch.setattr(session_module, "KazooClient", Unreachable)
    made = Session(
        "zoo:1", session_timeout_ms=7000, connection_timeout_ms=3000, max_in_flight_requests=1
    )
    with pytest.raises(ZooKeeperTimeout, match="within 3000 ms"):
        made.start()
    assert asked == [("zoo:1", 7), 3, "stopped"]
