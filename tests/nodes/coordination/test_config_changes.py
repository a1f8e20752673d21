"""Every broker hears of configs that were changed in ZooKeeper (the server, or its tree in
memory)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from nodes.coordination.config_changes import EXPIRATION_MS, ConfigChanges
from nodes.coordination.errors import SessionExpired
from nodes.coordination.requests import Create
from nodes.coordination.zk import KafkaZkClient
from nodes.coordination.znodes import CONFIG_CHANGES


class Heard:
    """What a broker was told, in order."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.rows: list[tuple[str, str, dict[str, str]]] = []

    def __call__(self, entity_type: str, name: str, configs: Mapping[str, str]) -> None:
        with self._changed:
            self.rows.append((entity_type, name, dict(configs)))
            self._changed.notify_all()
        if configs.get("a") == "nonsense":
            raise ValueError("nonsense")

    def until(self, *rows: tuple[str, str, dict[str, str]]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.rows == list(rows), 60), self.rows


@pytest.fixture
def connect(connect_to_either: Callable[..., KafkaZkClient]) -> Callable[..., KafkaZkClient]:
    return connect_to_either


@pytest.fixture
def listen(connect: Callable[..., KafkaZkClient]) -> Iterator[Callable[..., Heard]]:
    running: list[ConfigChanges] = []

    def make(zk: KafkaZkClient | None = None, **options: Any) -> Heard:
        heard = Heard()
        changes = ConfigChanges(zk or connect(), heard, **options)
        changes.startup()
        running.append(changes)
        return heard

    yield make
    for changes in running:
        changes.shutdown()


def change(zk: KafkaZkClient, name: str, **configs: str) -> tuple[str, str, dict[str, str]]:
    zk.set_or_create_entity_configs("topics", name, configs)
    zk.create_config_change_notification(f"topics/{name}")
    return "topics", name, configs


def test_all_brokers_hear_of_all_changes(zk: KafkaZkClient, listen: Callable[..., Heard]) -> None:
    everybody = [listen(), listen()]
    rows = []
    for number in range(3):
        rows.append(change(zk, "t", a=str(number)))
        for heard in everybody:
            heard.until(*rows)


def test_what_was_changed_before(zk: KafkaZkClient, listen: Callable[..., Heard]) -> None:
    change(zk, "t", a="1")
    row = change(zk, "t", a="2")
    listen().until(row)


def test_nonsense_does_not_end_it(zk: KafkaZkClient, listen: Callable[..., Heard]) -> None:
    heard = listen()
    first = change(zk, "t", a="nonsense")
    heard.until(first)
    for hostile in ("no entity", "topics/..", "topics/a/b", "brokers/../x", "users//y", "/z", "t/"):
        zk.create_config_change_notification(hostile)
    heard.until(first, change(zk, "u", a="1"))


def test_names_that_are_no_notification(zk: KafkaZkClient, listen: Callable[..., Heard]) -> None:
    """Whoever can write there must not be able to stop it."""
    for hostile in ("config_change_\u00b2", "config_change_", "config_change_x", "other"):
        zk._session.request(Create(f"{CONFIG_CHANGES}/{hostile}", b"{}")).get()
    row = change(zk, "t", a="1")
    listen().until(row)


def test_old_notifications_are_removed(zk: KafkaZkClient, listen: Callable[..., Heard]) -> None:
    """ZkNodeChangeNotificationListener's changeExpirationMs."""
    assert EXPIRATION_MS == 900_000
    row = change(zk, "t", a="1")
    later_ms = time.time_ns() // 1_000_000 + EXPIRATION_MS + 60_000
    listen(now_ms=lambda: later_ms).until(row)
    deadline = time.monotonic() + 60
    while zk.get_children(CONFIG_CHANGES):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("connect_to_either", ["in memory"], indirect=True)
def test_what_was_changed_between_two_sessions(
    connect: Callable[..., KafkaZkClient], listen: Callable[..., Heard]
) -> None:
    """The watch went with the session; the next one reads what it has missed."""
    zk, ours = connect(), connect()
    heard = listen(ours)
    rows = [change(zk, "t", a="1")]
    heard.until(*rows)
    session: Any = ours._session
    session.expire()
    rows.append(change(zk, "t", a="2"))
    session.renew()
    assert heard.rows == rows[:1]
    for handler in session.state_handlers:
        handler.after_new_session()
    heard.until(*rows)
    rows.append(change(zk, "t", a="3"))
    heard.until(*rows)


@pytest.mark.parametrize("when", ["read", "taken in"])
def test_a_session_that_ends_meanwhile_costs_no_change(
    connect: Callable[..., KafkaZkClient],
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    """Its configs could not be read, or not what taking them in had to read: it is tried again,
    though its notification has been seen; what was told is not told again."""
    zk, ours = connect(), connect()
    monkeypatch.setattr("nodes.coordination.config_changes._RETRY_S", 0.01)
    rows = [change(zk, "t", a="1"), change(zk, "u", a="2"), change(zk, "v", a="3")]
    failures, told = [True], []
    heard = threading.Event()
    read = ours.get_entity_configs

    def fail(name: str) -> None:
        if name == "u" and failures:
            failures.pop()
            raise SessionExpired("planted")

    def reads(entity_type: str, name: str) -> dict[str, str]:
        if when == "read":
            fail(name)
        return read(entity_type, name)

    def takes_in(entity_type: str, name: str, configs: Mapping[str, str]) -> None:
        if when == "taken in":
            fail(name)
        told.append((entity_type, name, dict(configs)))
        if name == "v":
            heard.set()

    monkeypatch.setattr(ours, "get_entity_configs", reads)
    changes = ConfigChanges(ours, takes_in)
    changes.startup()
    try:
        assert heard.wait(60)
    finally:
        changes.shutdown()
    assert (told, failures) == (rows, [])
