"""The harness's side of the frame proxy: how it is started, and its orders."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final

from kio.schema.errors import ErrorCode

from faults.protocol import FaultFailed, FrameCount, Link
from harness.frames.wire import api_key
from harness.runtime.protocol import Address, ProcessSpec, Ready, Role, Runtime

NAME: Final = "frame-proxy"
_CONFIG: Final = "config.json"
_TIMEOUT_S: Final = 5.0
_SOURCES: Final = Path(__file__).resolve().parents[2]
Ways = Mapping[tuple[int, Link], Address]


class FrameProxyClient:
    """Implements `faults.protocol.Frames`. Thread-safe; a connection an order.

    Making one allocates its ports; `spec` is to be run before the first order."""

    def __init__(
        self, runtime: Runtime, to: Ways, dir: Path, told: Mapping[int, Address] | None = None
    ) -> None:
        """``to``: the listener of each (node, link). ``told``: where clients are told that brokers
        are, by id, if not what those say themselves."""
        self._control = Address(runtime.address(NAME), runtime.allocate_port(NAME))
        self.through: Final[Ways] = {
            way: Address(runtime.address(NAME), runtime.allocate_port(NAME)) for way in to
        }
        """Where it listens for each of them."""
        self._lock = Lock()
        routes = [
            {
                "node": node,
                "link": str(link),
                "listen": str(self.through[node, link]),
                "to": str(at),
            }
            for (node, link), at in to.items()
        ]
        addresses = {str(node): str(at) for node, at in (told or {}).items()}
        config = {"control": str(self._control), "routes": routes, "addresses": addresses}
        ports = {f"{node}-{link}": at.port for (node, link), at in self.through.items()}
        self.spec: Final = ProcessSpec(
            name=NAME,
            role=Role.TOXIPROXY,
            argv=(runtime.programs.python, "-m", "harness.frames", str(dir / _CONFIG)),
            workdir=dir,
            files={_CONFIG: json.dumps(config, indent=2) + "\n"},
            env={"PYTHONPATH": str(_SOURCES), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"},
            ports={"control": self._control.port, **ports},
            ready=Ready(pattern=r"^ready$", timeout_s=60.0),
        )

    def check(self) -> None:
        """Raise unless it answers; for the health monitor."""
        self._order({"ping": True})

    def add(
        self,
        rule_id: str,
        *,
        api: str,
        action: str,
        direction: str = "request",
        node: int | None = None,
        link: Link | None = None,
        client: str | None = None,
        skip: int = 0,
        times: int = 0,
        delay_ms: int = 0,
        error: str | None = None,
    ) -> None:
        key = api_key(api)
        if key is None:
            raise FaultFailed(f"frames: {api!r} is no API")
        code = 0 if error is None else error_code(error)
        rule = {
            "id": rule_id,
            "api": key,
            "action": action,
            "direction": direction,
            "node": node,
            "link": None if link is None else str(link),
            "client": client,
            "skip": skip,
            "times": times,
            "delay_ms": delay_ms,
            "error_code": code,
        }
        self._order({"add": rule})

    def remove(self, rule_id: str) -> FrameCount:
        return _count(self._order({"remove": rule_id}))

    def count(self, rule_id: str) -> FrameCount:
        return _count(self._order({"count": rule_id}))

    def _order(self, order: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            with (
                self._lock,
                socket.create_connection(self._control, _TIMEOUT_S) as connection,
                connection.makefile("rwb") as stream,
            ):
                stream.write(json.dumps(order).encode() + b"\n")
                stream.flush()
                line = stream.readline()
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            raise FaultFailed(f"the frame proxy does not answer: {error}") from error
        if "error" in answer:
            raise FaultFailed(f"the frame proxy refused {order}: {answer['error']}")
        return dict(answer)


class NoFrames:
    """Where no frame proxy is in the way."""

    def add(self, rule_id: str, **_: Any) -> None:
        raise FaultFailed(f"{rule_id}: no frame proxy is in the way; the plan needs none")

    def remove(self, rule_id: str) -> FrameCount:
        return FrameCount(matched=0, applied=0)

    def count(self, rule_id: str) -> FrameCount:
        return FrameCount(matched=0, applied=0)


def error_code(name: str) -> int:
    """Kafka's name of an error -> its code. Raises `FaultFailed`."""
    try:
        return int(ErrorCode[name.lower()])
    except KeyError:
        raise FaultFailed(f"frames: {name!r} is no error of Kafka's") from None


def _count(answer: Mapping[str, Any]) -> FrameCount:
    return FrameCount(matched=int(answer["matched"]), applied=int(answer["applied"]))
