"""ZooKeeper requests as values, so that they can be pipelined, repeated and made conditional.

`conditioned` wraps a write of the controller into a multi with a check of `/controller_epoch`'s
version: the server then refuses it if another controller has been elected since (KIP-320's fence
against zombies in ZooKeeper itself). `unwrap` turns the multi's answer back into the write's own,
or raises `ControllerMoved`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kazoo.exceptions import BadVersionError, RolledBackError, RuntimeInconsistency

from nodes.coordination.errors import ControllerMoved

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class GetData:
    """Answers (bytes, stat). Watched when a change handler is registered for the path."""

    path: str


@dataclass(frozen=True, slots=True)
class Exists:
    """Answers stat or None. Watched like GetData."""

    path: str


@dataclass(frozen=True, slots=True)
class GetChildren:
    """Answers (names, stat). Watched when asked for and a child handler is registered."""

    path: str
    watch: bool = True


@dataclass(frozen=True, slots=True)
class Create:
    """Answers the path that was created (which differs with `sequential`)."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Answers the new stat."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Answers True."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Only inside a multi: the znode must have this version."""

    path: str
    version: int


Write = Create | SetData | Delete


@dataclass(frozen=True, slots=True)
class Multi:
    """All or nothing. Answers one result per operation; failures are exception objects."""

    operations: tuple[Write | Check, ...]


Request = GetData | Exists | GetChildren | Create | SetData | Delete | Multi


@dataclass(frozen=True, slots=True)
class Outcome:
    """A request's answer: a value, or kazoo's exception (NoNodeError, BadVersionError, ...)."""

    request: Request
    value: Any
    error: Exception | None = None

    def get(self) -> Any:
        """The value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


MAX_REQUEST_BYTES: Final = 1_000_000
"""A little less than ZooKeeper's default ``jute.maxbuffer`` of 1 MiB, which counts headers too."""


def size_of(request: Request | Check) -> int:
    """About how many bytes a request takes on the wire."""
    match request:
        case Multi(operations):
            return sum(map(size_of, operations))
        case Create(path, data) | SetData(path, data):
            return len(path) + len(data)
        case _:
            return len(request.path)


def submit(client: Any, request: Request, watch: Callable[[Any], None] | None) -> Any:
    """Hand a request to kazoo; returns its asynchronous result at once."""
    match request:
        case GetData(path):
            return client.get_async(path, watch=watch)
        case Exists(path):
            return client.exists_async(path, watch=watch)
        case GetChildren(path):
            return client.get_children_async(path, watch=watch, include_data=True)
        case Create(path, data, ephemeral, sequential):
            return client.create_async(path, data, ephemeral=ephemeral, sequence=sequential)
        case SetData(path, data, version):
            return client.set_async(path, data, version=version)
        case Delete(path, version):
            return client.delete_async(path, version=version)
        case Multi(operations):
            return _transaction(client, operations).commit_async()


def _transaction(client: Any, operations: tuple[Write | Check, ...]) -> Any:
    transaction = client.transaction()
    for operation in operations:
        match operation:
            case Create(path, data, ephemeral, sequential):
                transaction.create(path, data, ephemeral=ephemeral, sequence=sequential)
            case SetData(path, data, version):
                transaction.set_data(path, data, version=version)
            case Delete(path, version):
                transaction.delete(path, version=version)
            case Check(path, version):
                transaction.check(path, version)
    return transaction


def conditioned(write: Write, epoch_path: str, epoch_zk_version: int) -> Multi:
    """The write, to be done only while `epoch_path` has this version."""
    return Multi((Check(epoch_path, epoch_zk_version), write))


def unwrap(outcome: Outcome) -> Outcome:
    """The write's own outcome out of a `conditioned` multi's; raises ControllerMoved."""
    assert isinstance(outcome.request, Multi)
    write = outcome.request.operations[1]
    assert not isinstance(write, Check)
    if outcome.error is not None:
        return Outcome(write, None, outcome.error)
    check, result = outcome.value
    if isinstance(check, BadVersionError):
        raise ControllerMoved(
            "Controller epoch zkVersion check fails: another controller has been elected"
        )
    if isinstance(check, Exception) and not isinstance(check, RolledBackError):
        return Outcome(write, None, check)
    if isinstance(result, RuntimeInconsistency) or not isinstance(result, Exception):
        return Outcome(write, result if not isinstance(result, Exception) else None)
    return Outcome(write, None, result)
