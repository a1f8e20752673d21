"""ZooKeeper's tree in memory, for tests that look at the *order* of a controller's steps.

No time, and one thread at a time: what a controller writes to ZooKeeper and what it tells brokers
stand in one list, and somebody else's write can be put exactly between two of its own. Everything
above the session (`nodes.coordination.zk`) is the real thing; that this tree answers as a real
ZooKeeper does is `test_memory`'s business. Sessions are as `nodes.coordination.session` has them: a
watch is armed by reading what a handler is registered for, and fires once.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    ZookeeperError,
)
from kazoo.protocol.states import ZnodeStat

from nodes.coordination.errors import SessionClosed, SessionExpired
from nodes.coordination.requests import (
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Outcome,
    Request,
    SetData,
)
from nodes.coordination.session import ChangeHandler, ChildChangeHandler, StateHandler

_session_ids = itertools.count(0x1000)


@dataclass(frozen=True)
class Node:
    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    cversion: int = 0
    owner: int = 0
    ctime_ms: int = 0


class MemoryZooKeeper:
    """`before`: called with (session, write) before each write. `after`: with the outcome, too.
    `now_ms`: when znodes are made."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"/": Node(b"", 0, 0, 0)}
        self.zxid = 100
        self.sessions: list[MemorySession] = []
        self.before: Callable[[MemorySession, Request], object] = lambda _session, _write: None
        self.after: Callable[[MemorySession, Request, Outcome], None] = lambda *_: None
        self.now_ms: Callable[[], int] = lambda: 0

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return [
            p.removeprefix(prefix)
            for p in self.nodes
            if p.startswith(prefix) and p != "/" and "/" not in p.removeprefix(prefix)
        ]

    def stat(self, path: str) -> ZnodeStat:
        n = self.nodes[path]
        return ZnodeStat(
            n.czxid, n.mzxid, n.ctime_ms, n.mzxid, n.version, n.cversion, 0, n.owner, len(n.data),
            len(self.children(path)), n.pzxid,
        )  # fmt: skip

    def answer(self, session: MemorySession, request: Request) -> Outcome:
        match request:
            case GetData(path):
                session.arm(session.data_watches, path, path in self.nodes)
                if path not in self.nodes:
                    return Outcome(request, None, NoNodeError())
                return Outcome(request, (self.nodes[path].data, self.stat(path)))
            case Exists(path):
                session.arm(session.data_watches, path, True)
                return Outcome(request, self.stat(path) if path in self.nodes else None)
            case GetChildren(path, watch):
                if path not in self.nodes:
                    return Outcome(request, None, NoNodeError())
                if watch and path in session.child_handlers:
                    session.child_watches.add(path)
                return Outcome(request, (self.children(path), self.stat(path)))
        self.before(session, request)
        outcome = self._written(session, request)
        self.after(session, request, outcome)
        return outcome

    def _written(self, session: MemorySession, request: Any) -> Outcome:
        self.zxid += 1
        saved = dict(self.nodes)
        events: list[tuple[str, str]] = []
        operations = request.operations if isinstance(request, Multi) else (request,)
        results: list[Any] = []
        for operation in operations:
            try:
                results.append(self._apply(session, operation, events))
            except ZookeeperError as error:
                self.nodes = saved
                if not isinstance(request, Multi):
                    return Outcome(request, None, error)
                rest = len(operations) - len(results) - 1
                before = [RolledBackError() for _ in results]
                after = [RuntimeInconsistency() for _ in range(rest)]
                return Outcome(request, [*before, error, *after])
        for kind, path in events:
            for other in list(self.sessions):
                other.tell(kind, path)
        return Outcome(request, results if isinstance(request, Multi) else results[0])

    def _apply(self, session: MemorySession, operation: Any, events: list[tuple[str, str]]) -> Any:
        path = operation.path
        node = self.nodes.get(path)
        if isinstance(operation, Create):
            return self._create(session, operation, events)
        if node is None:
            raise NoNodeError
        if operation.version not in (-1, node.version):
            raise BadVersionError
        match operation:
            case Check():
                return True
            case SetData(_, data):
                self.nodes[path] = replace(
                    node, data=data, mzxid=self.zxid, version=node.version + 1
                )
                events.append(("changed", path))
                return self.stat(path)
            case Delete():
                if self.children(path):
                    raise NotEmptyError
                del self.nodes[path]
                self._touch_parent(path, events)
                events.append(("deleted", path))
                return True

    def _create(
        self, session: MemorySession, operation: Create, events: list[tuple[str, str]]
    ) -> str:
        path, parent = operation.path, operation.path.rpartition("/")[0] or "/"
        if parent not in self.nodes:
            raise NoNodeError
        if self.nodes[parent].owner:
            raise NoChildrenForEphemeralsError
        if operation.sequential:
            path += f"{self.nodes[parent].cversion:010d}"
        if path in self.nodes:
            raise NodeExistsError
        owner = session.session_id if operation.ephemeral else 0
        self.nodes[path] = Node(
            operation.data, self.zxid, self.zxid, self.zxid, owner=owner, ctime_ms=self.now_ms()
        )
        self._touch_parent(path, events)
        events.append(("created", path))
        return path

    def _touch_parent(self, path: str, events: list[tuple[str, str]]) -> None:
        parent = path.rpartition("/")[0] or "/"
        node = self.nodes[parent]
        self.nodes[parent] = replace(node, pzxid=self.zxid, cversion=node.cversion + 1)
        events.append(("children", parent))

    def end(self, session: MemorySession) -> None:
        """The session is over: its ephemeral znodes go, whoever watches them hears of it."""
        if session in self.sessions:
            self.sessions.remove(session)
            for path in [p for p, n in self.nodes.items() if n.owner == session.session_id]:
                self._written(session, Delete(path))

    def contents(self) -> dict[str, bytes]:
        return {path: node.data for path, node in copy.copy(self.nodes).items()}


class MemorySession:
    """As ZooKeeperSession, for one thread. `expire` ends it; `renew` begins the next."""

    def __init__(self, zookeeper: MemoryZooKeeper, *_: Any, **__: Any) -> None:
        self.zookeeper = zookeeper
        self.session_id = next(_session_ids)
        self.data_watches: set[str] = set()
        self.child_watches: set[str] = set()
        self.change_handlers: dict[str, ChangeHandler] = {}
        self.child_handlers: dict[str, ChildChangeHandler] = {}
        self.state_handlers: list[StateHandler] = []
        self.is_closed = False
        zookeeper.sessions.append(self)

    is_connected = True

    def start(self) -> None: ...
    def stop_waiting(self) -> None: ...
    def ensure_chroot(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True
        self.zookeeper.end(self)

    def request(self, request: Request) -> Outcome:
        return self.pipeline([request])[0]

    def pipeline(self, requests: Sequence[Request]) -> list[Outcome]:
        outcomes = []
        for request in requests:
            if self.is_closed:
                raise SessionClosed
            if self not in self.zookeeper.sessions:
                raise SessionExpired
            outcomes.append(self.zookeeper.answer(self, request))
        return outcomes

    def register_change_handler(self, handler: ChangeHandler) -> None:
        self.change_handlers[handler.path] = handler

    def unregister_change_handler(self, path: str) -> None:
        self.change_handlers.pop(path, None)

    def register_child_handler(self, handler: ChildChangeHandler) -> None:
        self.child_handlers[handler.path] = handler

    def unregister_child_handler(self, path: str) -> None:
        self.child_handlers.pop(path, None)

    def register_state_handler(self, handler: StateHandler) -> None:
        self.state_handlers.append(handler)

    def arm(self, watches: set[str], path: str, exists: bool) -> None:
        if exists and path in self.change_handlers:
            watches.add(path)

    def tell(self, kind: str, path: str) -> None:
        if kind == "children":
            if path in self.child_watches:
                self.child_watches.discard(path)
                if path in self.child_handlers:
                    self.child_handlers[path].children_changed()
            return
        armed = (
            [self.data_watches, self.child_watches] if kind == "deleted" else [self.data_watches]
        )
        told = {"created": "created", "deleted": "deleted", "changed": "data_changed"}[kind]
        for watches in armed:
            if path in watches:  # of both kinds: told twice, by kazoo
                watches.discard(path)
                if path in self.change_handlers:
                    getattr(self.change_handlers[path], told)()

    def expire(self) -> None:
        """Ends the session, without a word to whom it belonged."""
        self.zookeeper.end(self)
        self.data_watches.clear()
        self.child_watches.clear()

    def renew(self) -> None:
        """The next session."""
        self.session_id = next(_session_ids)
        self.zookeeper.sessions.append(self)


class SharedSession(MemorySession):
    """One of a tree that several threads use, each for one call at a time."""

    _turn = threading.RLock()

    def pipeline(self, requests: Sequence[Request]) -> list[Outcome]:
        with self._turn:
            return super().pipeline(requests)

    def close(self) -> None:
        with self._turn:
            super().close()
