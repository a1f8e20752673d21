"""Every way to and from a node leads through toxiproxy, one proxy a way: each can fail alone.

    clients ─────────▶ [node-1 client]       ─▶ CLIENT listener
    other brokers ───▶ [node-1 inter-broker] ─▶ REPLICATION listener
    controllers ─────▶ [node-1 control]      ─▶ CONTROLLER listener      (dual planes only)
    node 1 ──────────▶ [node-1 zookeeper]    ─▶ ZooKeeper                (its own session's way)

Nodes advertise the proxies, so a controller or a follower cannot help passing them. A node without
a control listener has no control proxy: `Link.CONTROL` then means its inter-broker proxy, which is
the path that its controller requests take.

The client library, toxiproxy-python, keeps the server's host and port on a class, sets no time
limit and obeys ``HTTP_PROXY``. `_Api` sees to all three: calls are made one at a time under a lock
which first points the class at this server, through a session that has a timeout and ignores the
environment. A refused connection is tried again for a moment (the server was just started); nothing
else is.

Healing (`reset`, `enable`, `remove_toxic`) is idempotent: an absent toxic counts as removed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, TypeVar

import requests
import toxiproxy.api
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from faults.protocol import FaultFailed, Link
from harness.runtime.protocol import Address

T = TypeVar("T")

TOXIC_KINDS: Final = (
    *("latency", "bandwidth", "slow_close", "timeout", "reset_peer", "slicer", "limit_data"),
)
_TIMEOUT_S: Final = 10.0


class _Session:
    """Stands in for the module ``requests`` inside toxiproxy-python: time limit, no HTTP_PROXY."""

    def __init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False

    def get(self, url: str, **kwargs: Any) -> requests.Response:
        return self._session.get(url, timeout=_TIMEOUT_S, **kwargs)

    def post(self, url: str, **kwargs: Any) -> requests.Response:
        return self._session.post(url, timeout=_TIMEOUT_S, **kwargs)

    def delete(self, url: str, **kwargs: Any) -> requests.Response:
        return self._session.delete(url, timeout=_TIMEOUT_S, **kwargs)


class _Api:
    """The server's API. Thread-safe, for several servers in one process."""

    _lock = Lock()  # of the class: the library's host and port are the process's

    def __init__(self, server: Address) -> None:
        self._server = server

    def call(self, action: Callable[[toxiproxy.Toxiproxy], T]) -> T:
        for attempt in Retrying(
            retry=retry_if_exception_type(requests.ConnectionError),
            stop=stop_after_delay(2.0),
            wait=wait_fixed(0.05),
            reraise=True,
        ):
            with attempt, self._lock:
                if not isinstance(toxiproxy.api.requests, _Session):
                    toxiproxy.api.requests = _Session()
                server = toxiproxy.Toxiproxy()
                server.update_api_consumer(self._server.host, self._server.port)
                return action(server)
        raise AssertionError("unreachable: Retrying returns or raises")


class ToxiproxyLinks:
    """Implements `faults.protocol.Links`. Thread-safe.

    ``proxies`` maps (node, link) to (where it listens, what it leads to); it is fixed for the
    cluster's life. `open` makes the proxies.
    """

    def __init__(
        self,
        api: Address,
        proxies: Mapping[tuple[int, Link], tuple[Address, Address]],
        *,
        bind_host: str,
        through: Mapping[tuple[int, Link], Address] | None = None,
    ) -> None:
        """``through``: what stands between a proxy and the listener that it leads to, if anything
        does."""
        self._api = _Api(api)
        self._through = dict(through or {})
        self._proxies = dict(proxies)
        self._bind_host = bind_host
        self._handles: dict[tuple[int, Link], Any] = {}

    @property
    def keys(self) -> Sequence[tuple[int, Link]]:
        """Every proxy that there is."""
        return tuple(self._proxies)

    def open(self) -> None:
        """Make every proxy. The upstreams need not listen yet."""
        for (node, link), (listen, upstream) in self._proxies.items():
            self._handles[node, link] = self._create(
                f"node-{node}-{link}",
                Address(self._bind_host, listen.port),
                self._through.get((node, link), upstream),
            )

    def _create(self, name: str, listen: Address, upstream: Address) -> Any:
        def create(server: toxiproxy.Toxiproxy) -> Any:
            try:
                return server.create(name=name, listen=str(listen), upstream=str(upstream))
            except KeyError as e:  # how the library reports a refused creation
                raise FaultFailed(f"toxiproxy could not listen on {listen} for {name}") from e

        return self._call(create)

    def add_toxic(
        self,
        node: int,
        link: Link,
        *,
        name: str,
        kind: str,
        stream: str,
        toxicity: float,
        attributes: Mapping[str, int],
    ) -> None:
        """See `faults.protocol.Links`. Raises `FaultFailed` when toxiproxy refuses it."""
        where = f"toxic {name!r} on node {node}'s {link} link"
        if kind not in TOXIC_KINDS:
            raise FaultFailed(f"{where}: unknown kind {kind!r}; allowed: {', '.join(TOXIC_KINDS)}")
        if stream not in ("upstream", "downstream"):
            raise FaultFailed(f"{where}: stream {stream!r}; allowed: upstream, downstream")
        proxy = self._proxy(node, link)
        try:
            self._call(
                lambda _: proxy.add_toxic(
                    name=name,
                    type=kind,
                    stream=stream,
                    toxicity=toxicity,
                    attributes=dict(attributes),
                )
            )
        except InvalidToxic as e:
            raise FaultFailed(f"{where}: refused by toxiproxy: {e}") from e
        except ProxyExists as e:
            raise FaultFailed(f"{where}: a toxic of that name exists already") from e

    def remove_toxic(self, node: int, link: Link, *, name: str) -> None:
        proxy = self._proxy(node, link)

        def destroy(_: toxiproxy.Toxiproxy) -> None:
            with contextlib.suppress(NotFound):
                proxy.destroy_toxic(name)

        self._call(destroy)

    def toxics(self, node: int, link: Link) -> Mapping[str, str]:
        """Name -> kind of the toxics that toxiproxy says are in place."""
        proxy = self._proxy(node, link)
        return self._call(lambda _: {name: toxic.type for name, toxic in proxy.toxics().items()})

    def disable(self, node: int, link: Link) -> None:
        """Drop its connections and refuse new ones."""
        self._switch(node, link, on=False)

    def enable(self, node: int, link: Link) -> None:
        self._switch(node, link, on=True)

    def _switch(self, node: int, link: Link, *, on: bool) -> None:
        proxy = self._proxy(node, link)

        def switch(server: toxiproxy.Toxiproxy) -> bool:
            proxy.enable() if on else proxy.disable()
            return bool(server.get_proxy(proxy.name).enabled)  # the library hides refusals

        if self._call(switch) is not on:
            raise FaultFailed(f"toxiproxy did not switch {proxy.name} {'on' if on else 'off'}")

    def address(self, node: int, link: Link, *, direct: bool = False) -> tuple[str, int]:
        listen, upstream = self._proxies[self._key(node, link)]
        return upstream if direct else listen

    def reset(self) -> None:
        """Every proxy on, no toxics anywhere: the state after `open`."""
        self._call(lambda t: t.reset())

    def check(self) -> None:
        """Raise unless the server answers; for the health monitor."""
        self._call(lambda t: t.proxies())

    def _key(self, node: int, link: Link) -> tuple[int, Link]:
        key = (node, link)
        if key not in self._proxies and link is Link.CONTROL:
            key = (node, Link.INTER_BROKER)
        if key not in self._proxies:
            allowed = ", ".join(f"{n}/{k}" for n, k in self._proxies)
            raise FaultFailed(f"node {node} has no {link} link; allowed: {allowed}")
        return key

    def _proxy(self, node: int, link: Link) -> Any:
        key = self._key(node, link)
        try:
            return self._handles[key]
        except KeyError:
            raise FaultFailed(f"the {link} link of node {node} is not open yet") from None

    def _call(self, action: Callable[[toxiproxy.Toxiproxy], T]) -> T:
        try:
            return self._api.call(action)
        except requests.RequestException as e:
            raise FaultFailed(f"toxiproxy does not answer: {e}") from e
