"""The tree in memory answers and tells as a real ZooKeeper does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from nodes.coordination.requests import (
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Request,
    SetData,
)
from nodes.coordination.session import ChangeHandler, ChildChangeHandler
from nodes.coordination.zk import KafkaZkClient
from tests.nodes.controller.memory import MemorySession, MemoryZooKeeper

PATHS = ("/a", "/a/b", "/a/b/c", "/a/d", "/e")


def draw(rng: random.Random) -> Request:
    path = rng.choice(PATHS)
    version = rng.choice((-1, -1, 0, 1))
    data = rng.choice((b"", b"x", b"yy"))
    write: Any = rng.choice(
        (
            Create(path, data, ephemeral=rng.random() < 0.3 and path.count("/") > 1),
            Create(path, data),
            Create(path + "/n-", data, sequential=True),
            SetData(path, data, version),
            Delete(path, version),
        )
    )
    check = Check(rng.choice(PATHS), rng.choice((0, 0, 1, 2)))
    return rng.choice(
        (GetData(path), Exists(path), GetChildren(path), write, write, Multi((check, write)))
    )


def plain(value: Any) -> Any:
    """What may be compared: not times, not transaction numbers, not session numbers."""
    match value:
        case Exception():
            return type(value).__name__
        case list() | tuple() if not hasattr(value, "czxid"):
            return [plain(v) for v in value]
        case _ if hasattr(value, "czxid"):
            return (
                value.version, value.cversion, bool(value.ephemeralOwner), value.dataLength,
                value.numChildren, value.czxid == value.mzxid,
            )  # fmt: skip
        case _:
            return value


def ask(session: Any, request: Request) -> Any:
    outcome = session.request(request)
    if outcome.error is not None:
        return plain(outcome.error)
    if isinstance(request, GetChildren):
        names, stat = outcome.value
        return sorted(names), plain(stat)
    return plain(outcome.value)


def watch(session: Any, told: list[tuple[str, str]]) -> None:
    for path in PATHS:
        session.register_change_handler(
            ChangeHandler(
                path,
                created=lambda p=path: told.append(("created", p)),  # type: ignore[misc]
                deleted=lambda p=path: told.append(("deleted", p)),  # type: ignore[misc]
                data_changed=lambda p=path: told.append(("changed", p)),  # type: ignore[misc]
            )
        )
        session.register_child_handler(
            ChildChangeHandler(path, lambda p=path: told.append(("children", p)))  # type: ignore[misc]
        )


@pytest.mark.parametrize("seed", range(6))
def test_the_same_requests_have_the_same_answers_and_wake_the_same_watches(
    seed: int, zookeeper: str, zookeeper_chroot: str, wait_until: Callable[..., None]
) -> None:
    rng = random.Random(seed)
    clients = [KafkaZkClient(zookeeper + zookeeper_chroot, 30_000) for _ in range(2)]
    for client in clients:
        client.start()
    tree = MemoryZooKeeper()
    real, memory = [c._session for c in clients], [MemorySession(tree) for _ in clients]
    heard: list[list[tuple[str, str]]] = [[], [], [], []]
    for session, told in zip([*real, *memory], heard, strict=True):
        watch(session, told)
    requests = [(rng.randrange(2), draw(rng)) for _ in range(120)]
    for who, request in requests:
        assert ask(real[who], request) == ask(memory[who], request), request
    for ours, theirs in zip(heard[2:], heard[:2], strict=True):
        wait_until(lambda o=ours, t=theirs: len(t) >= len(o))
        assert sorted(theirs) == sorted(ours)
    memory[1].close()
    clients[1].close()
    for path in PATHS:
        assert ask(real[0], Exists(path)) == ask(memory[0], Exists(path))
    clients[0].close()
