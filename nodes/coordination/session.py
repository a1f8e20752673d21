"""One ZooKeeper session that heals itself, in Kafka's terms (Kafka's ZooKeeperClient), on kazoo.

A broker has one session, and its life decides what the broker may believe of itself:

    connected --cut--> disconnected --reached in time--> connected     same session: nothing lost
                                    --reached too late-> expired       ephemerals gone, new session

*Disconnected.* Nothing can be known: the session may have been expired by the server long ago.
Requests wait (a request whose answer was lost is sent again, so a caller must expect its own
earlier success), watches are put back on return, and what they would have told is told then.
Nobody is notified, so a controller that is cut off goes on with what it has: that is the zombie.

*Expired.* Known only when ZooKeeper is reached again. Every waiting request fails with
`SessionExpired`; then the state handler's `before_new_session` runs *to its end* on kazoo's
connection thread, so that no new session begins before the controller has taken note; the new
session follows, then `after_new_session`.

Threads: any thread may send requests, except kazoo's own (callbacks must not block). Watch handlers
run on kazoo's callback thread and state handlers on its connection thread: they may only enqueue
events, `before_new_session` may wait for its event to be taken.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import EventType, KazooState, KeeperState

from nodes.coordination.errors import (
    RequestTooLarge,
    SessionClosed,
    SessionExpired,
    ZooKeeperTimeout,
)
from nodes.coordination.requests import (
    MAX_REQUEST_BYTES,
    Exists,
    GetChildren,
    GetData,
    Outcome,
    Request,
    size_of,
    submit,
)

log = logging.getLogger(__name__)

_RECONNECT: Final = {"max_tries": -1, "delay": 0.1, "backoff": 1.5, "max_delay": 1.0}
"""How kazoo dials again: soon, for ever, and out of step with other brokers (it adds jitter)."""


@dataclass(frozen=True, slots=True)
class ChangeHandler:
    """Told once per armed watch on a znode; reading it arms (Kafka's ZNodeChangeHandler)."""

    path: str
    created: Callable[[], None] = lambda: None
    deleted: Callable[[], None] = lambda: None
    data_changed: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class ChildChangeHandler:
    """Told once per armed watch on a znode's children."""

    path: str
    children_changed: Callable[[], None]


@dataclass(frozen=True, slots=True)
class StateHandler:
    """Told about the end of a session and the start of the next (Kafka's StateChangeHandler)."""

    before_new_session: Callable[[], None]
    after_new_session: Callable[[], None]


class ZooKeeperSession:
    """See the module. `start` once, `close` once; everything else is thread-safe in between."""

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        max_in_flight_requests: int,
    ) -> None:
        self._connection_timeout_ms = connection_timeout_ms
        self._in_flight = threading.Semaphore(max_in_flight_requests)
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._connected = threading.Condition(self._lock)
        self._state = KazooState.LOST
        self._closed = False
        self._impatient = False
        self._had_session = False
        self._change_handlers: dict[str, ChangeHandler] = {}
        self._child_handlers: dict[str, ChildChangeHandler] = {}
        self._state_handlers: list[StateHandler] = []
        self._seen_nodes: dict[str, int | None] = {}  # armed: mzxid, None while there is no node
        self._seen_children: dict[str, int] = {}  # armed: pzxid
        self._client = KazooClient(
            hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry=dict(_RECONNECT),
            logger=log,
        )
        self._client.add_listener(self._on_state)

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect; raise ZooKeeperTimeout when that takes longer than the connection timeout."""
        event = self._client.start_async()
        if not event.wait(self._connection_timeout_ms / 1000):
            self.close()
            raise ZooKeeperTimeout(
                f"zookeeper.connect: no connection to {self._client.hosts} within "
                f"{self._connection_timeout_ms} ms (zookeeper.connection.timeout.ms)"
            )

    def stop_waiting(self) -> None:
        """From now on a request that cannot reach ZooKeeper fails with SessionClosed, at once.

        For a broker that shuts down while it is cut off; while connected nothing changes.
        """
        with self._lock:
            self._impatient = True
            connected = self._state == KazooState.CONNECTED
            self._connected.notify_all()
        if not connected:
            self._fail_waiting(SessionClosed())

    def close(self) -> None:
        """End the session: its ephemeral nodes vanish at once. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._connected.notify_all()
        self._fail_waiting(SessionClosed())
        self._client.stop()
        self._client.close()

    def ensure_chroot(self) -> None:
        """Make the path that the connection string ends with."""
        self._client.ensure_path("/")

    @property
    def session_id(self) -> int:
        """The current session's id, the ephemeralOwner of its nodes; 0 while there is none."""
        client_id = self._client.client_id
        return 0 if client_id is None or client_id[0] is None else int(client_id[0])

    @property
    def is_connected(self) -> bool:
        return bool(self._state == KazooState.CONNECTED)

    # ---- requests ------------------------------------------------------------------------------

    def request(self, request: Request) -> Outcome:
        """One request, waiting out disconnections."""
        return self.pipeline([request])[0]

    def pipeline(self, requests: Sequence[Request]) -> list[Outcome]:
        """Many requests at once, answered in their order.

        Those whose answer got lost with the connection are sent again once it is back. Raises
        SessionExpired or SessionClosed, never a connection error.
        """
        outcomes: list[Outcome | None] = [
            Outcome(request, None, RequestTooLarge(size))
            if (size := size_of(request)) > MAX_REQUEST_BYTES
            else None
            for request in requests
        ]
        remaining = [index for index, outcome in enumerate(outcomes) if outcome is None]
        while remaining:
            futures = [self._send(requests[index]) for index in remaining]
            lost = []
            for index, future in zip(remaining, futures, strict=True):
                outcome = self._outcome(requests[index], future)
                if isinstance(outcome.error, ConnectionLoss):
                    lost.append(index)
                outcomes[index] = outcome
            remaining = lost
            if remaining:
                self.wait_until_connected()
        return [outcome for outcome in outcomes if outcome is not None]

    def wait_until_connected(self) -> None:
        """Block until ZooKeeper is reached; raise when the session turns out to be over."""
        with self._lock:
            self._connected.wait_for(
                lambda: self._must_not_wait or self._state != KazooState.SUSPENDED
            )
            if self._must_not_wait:
                raise SessionClosed
            if self._state == KazooState.LOST:
                raise SessionExpired

    @property
    def _must_not_wait(self) -> bool:
        """Under the lock."""
        return self._closed or (self._impatient and self._state != KazooState.CONNECTED)

    def _send(self, request: Request) -> Future[Any]:
        self._in_flight.acquire()
        future: Future[Any] = Future()
        with self._lock:
            if self._must_not_wait:
                self._in_flight.release()
                raise SessionClosed
            self._waiting.add(future)
        watched = self._is_watched(request)
        answer = submit(self._client, request, self._on_watch if watched else None)

        def done(result: Any) -> None:
            self._in_flight.release()
            with self._lock:
                self._waiting.discard(future)
            error = result.exception
            if watched and (error is None or isinstance(request, Exists)):
                self._remember(request, result.value)
            try:
                if error is None:
                    future.set_result(result.value)
                else:
                    future.set_exception(error)
            except InvalidStateError:
                pass  # it had failed already, with the session

        answer.rawlink(done)
        return future

    def _outcome(self, request: Request, future: Future[Any]) -> Outcome:
        try:
            return Outcome(request, future.result())
        except (SessionExpiredError, ConnectionClosedError) as error:
            if self._closed:
                raise SessionClosed from error
            raise SessionExpired from error
        except (SessionExpired, SessionClosed, CancelledError):
            raise
        except Exception as error:
            return Outcome(request, None, error)

    def _fail_waiting(self, error: Exception) -> None:
        """Release every caller. (kazoo would fail its requests only after its state listener.)"""
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            try:
                future.set_exception(error)
            except InvalidStateError:
                continue

    # ---- watches -------------------------------------------------------------------------------

    def register_change_handler(self, handler: ChangeHandler) -> None:
        """From now on reads of its path set a watch; the next read arms it."""
        self._change_handlers[handler.path] = handler

    def unregister_change_handler(self, path: str) -> None:
        self._change_handlers.pop(path, None)

    def register_child_handler(self, handler: ChildChangeHandler) -> None:
        self._child_handlers[handler.path] = handler

    def unregister_child_handler(self, path: str) -> None:
        self._child_handlers.pop(path, None)

    def register_state_handler(self, handler: StateHandler) -> None:
        self._state_handlers.append(handler)

    def _is_watched(self, request: Request) -> bool:
        match request:
            case GetData() | Exists():
                return request.path in self._change_handlers
            case GetChildren():
                return request.watch and request.path in self._child_handlers
            case _:
                return False

    def _remember(self, request: Request, value: Any) -> None:
        """What the armed watch is relative to, so that a change missed while cut off is noticed."""
        match request:
            case Exists():
                self._seen_nodes[request.path] = None if value is None else value.mzxid
            case GetData():
                self._seen_nodes[request.path] = value[1].mzxid
            case GetChildren():
                self._seen_children[request.path] = value[1].pzxid

    def _on_watch(self, event: Any) -> None:
        """On kazoo's callback thread. Events without a type only tell that watches were dropped."""
        if event.type == EventType.CHILD:
            self._seen_children.pop(event.path, None)
            self._children_changed(event.path)
        elif event.type != EventType.NONE:
            self._seen_nodes.pop(event.path, None)
            self._node_changed(event.path, event.type)

    def _node_changed(self, path: str, event_type: str) -> None:
        handler = self._change_handlers.get(path)
        if handler is None:
            return
        if event_type == EventType.CREATED:
            handler.created()
        elif event_type == EventType.DELETED:
            handler.deleted()
        else:
            handler.data_changed()

    def _children_changed(self, path: str) -> None:
        handler = self._child_handlers.get(path)
        if handler is not None:
            handler.children_changed()

    def _rearm(self) -> None:
        """Back in the same session: set the watches again and tell what changed in the meantime.

        Kafka's client gets this from the server (SetWatches); kazoo forgets its watches.
        """
        for path, mzxid in list(self._seen_nodes.items()):
            answer = submit(self._client, Exists(path), self._on_watch)
            answer.rawlink(lambda result, p=path, z=mzxid: self._compare_node(p, z, result))
        for path, pzxid in list(self._seen_children.items()):
            answer = submit(self._client, GetChildren(path), self._on_watch)
            answer.rawlink(lambda result, p=path, z=pzxid: self._compare_children(p, z, result))

    def _compare_node(self, path: str, mzxid: int | None, result: Any) -> None:
        if result.exception is not None:
            return  # cut off again: the record stays, and so does the duty
        now = None if result.value is None else result.value.mzxid
        if now == mzxid or path not in self._seen_nodes:
            return
        self._seen_nodes[path] = now
        if mzxid is None:
            self._node_changed(path, EventType.CREATED)
        elif now is None:
            self._node_changed(path, EventType.DELETED)
        else:
            self._node_changed(path, EventType.CHANGED)

    def _compare_children(self, path: str, pzxid: int, result: Any) -> None:
        if result.exception is None and path in self._seen_children:
            now = result.value[1].pzxid
            if now != pzxid:
                self._seen_children[path] = now
                self._children_changed(path)

    # ---- the session's states ------------------------------------------------------------------

    def _on_state(self, state: str) -> None:
        """On kazoo's connection thread; while it runs here, no new session can begin."""
        with self._lock:
            previous, self._state = self._state, state
            closed = self._closed
            self._connected.notify_all()
            must_not_wait = self._must_not_wait
        if closed:
            return
        if must_not_wait:
            self._fail_waiting(SessionClosed())
        if state == KazooState.LOST:
            log.warning("ZooKeeper session expired")
            self._seen_nodes.clear()
            self._seen_children.clear()
            self._fail_waiting(SessionExpired())
            self._tell("before_new_session")
            if self._client.client_state == KeeperState.CLOSED:
                # kazoo's connection thread died of an unexpected error: only a restart helps.
                threading.Thread(target=self._restart, name="zk-restart", daemon=True).start()
        elif state == KazooState.CONNECTED and previous == KazooState.SUSPENDED:
            self._rearm()
        elif state == KazooState.CONNECTED and self._had_session:
            self._tell("after_new_session")
        self._had_session = True

    def _restart(self) -> None:
        self._client.stop()
        self._client.start_async()

    def _tell(self, moment: str) -> None:
        for handler in list(self._state_handlers):
            try:
                getattr(handler, moment)()
            except Exception:
                log.exception("State handler failed (%s)", moment)
