"""Plain znodes: read, write, make and delete by path, under `KafkaZkClient`'s vocabulary.

`_write` is where the controller's fence is: with an `epoch_zk_version` each write becomes a multi
that also checks the version of `/controller_epoch`, and raises `ControllerMoved` when that has
changed. A session that has expired cannot write at all; the fence is for a controller that was
succeeded while its session lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from nodes.coordination import znodes
from nodes.coordination.requests import (
    ANY_VERSION,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Outcome,
    Request,
    SetData,
    Write,
    conditioned,
    unwrap,
)
from nodes.coordination.session import ZooKeeperSession

UNKNOWN_VERSION = -2


class ZNodeAccess:
    """Blocking and thread-safe, like the session that it uses."""

    def __init__(self, session: ZooKeeperSession, *, checks_controller_znode: bool = True) -> None:
        """`checks_controller_znode`: see `nodes.core.rules`; without, there is no fence."""
        self._session = session
        self._checks_controller_znode = checks_controller_znode

    def get_data_and_version(self, path: str) -> tuple[bytes | None, int]:
        """(data, version); (None, UNKNOWN_VERSION) without a znode."""
        data, stat = self._data(path)
        return data, UNKNOWN_VERSION if stat is None else stat.version

    def conditional_update_path(self, path: str, data: bytes, expected_version: int) -> int | None:
        """Write over a known version: the new one, or None when it was not that any more."""
        outcome = self._session.request(SetData(path, data, expected_version))
        if isinstance(outcome.error, BadVersionError | NoNodeError):
            return None
        return int(outcome.get().version)

    def set_or_create(self, path: str, data: bytes) -> None:
        outcome = self._session.request(SetData(path, data))
        if isinstance(outcome.error, NoNodeError):
            self.make_sure_persistent_path_exists(path.rpartition("/")[0])
            outcome = self._session.request(Create(path, data))
            if isinstance(outcome.error, NodeExistsError):
                outcome = self._session.request(SetData(path, data))
        outcome.get()

    def path_exists(self, path: str) -> bool:
        return self._session.request(Exists(path)).get() is not None

    def get_children(self, path: str) -> list[str]:
        return self._children(path)

    def make_sure_persistent_path_exists(self, path: str) -> None:
        parts = path.strip("/").split("/")
        if not path.strip("/") or self.path_exists(path):
            return
        for depth in range(1, len(parts) + 1):
            outcome = self._session.request(Create("/" + "/".join(parts[:depth])))
            if not isinstance(outcome.error, NodeExistsError):
                outcome.get()

    def _data(self, path: str) -> tuple[bytes | None, Any]:
        outcome = self._session.request(GetData(path))
        if isinstance(outcome.error, NoNodeError):
            return None, None
        data, stat = outcome.get()
        return data, stat

    def _children(self, path: str, *, watch: bool = False) -> list[str]:
        outcome = self._session.request(GetChildren(path, watch))
        if isinstance(outcome.error, NoNodeError):
            return []
        return list(outcome.get()[0])

    def _write(self, writes: Sequence[Write], epoch_zk_version: int) -> list[Outcome]:
        """Pipelined writes, each conditioned on the controller epoch (not with ANY_VERSION)."""
        if epoch_zk_version == ANY_VERSION or not self._checks_controller_znode:
            return self._session.pipeline(list(writes))
        requests: list[Request] = [
            conditioned(write, znodes.CONTROLLER_EPOCH, epoch_zk_version) for write in writes
        ]
        return [unwrap(outcome) for outcome in self._session.pipeline(requests)]

    def _delete(self, paths: Sequence[str], epoch_zk_version: int) -> None:
        for outcome in self._write([Delete(path) for path in paths], epoch_zk_version):
            if not isinstance(outcome.error, NoNodeError):
                outcome.get()

    def delete_recursive(self, path: str, epoch_zk_version: int = ANY_VERSION) -> None:
        """Delete a znode and all below it; what is gone already is no error."""
        outcome = self._session.request(GetChildren(path, watch=False))
        if isinstance(outcome.error, NoNodeError):
            return
        names, _ = outcome.get()
        for name in names:
            self.delete_recursive(f"{path}/{name}", epoch_zk_version)
        self._delete([path], epoch_zk_version)
