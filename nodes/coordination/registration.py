"""An ephemeral znode that says "this process lives" (Kafka's CheckedEphemeral, KAFKA-7165).

"It exists already" has four meanings when one registers, told apart by the session that owns it:

- ours now: the request was sent twice, because its first answer was lost. We are registered.
- ours of an earlier session, which the server has not cleaned up (ZOOKEEPER-2985): replace it.
- a foreign one: another process has our id, or our previous life was killed less than a session
  timeout ago. That registration is its property until it expires; Kafka gives up at once, here a
  caller may wait for that.
- gone while we looked: try again.
"""

from __future__ import annotations

import logging
import time

from kazoo.exceptions import NodeExistsError, NoNodeError

from nodes.coordination.requests import Create, Delete, GetData, Multi, SetData
from nodes.coordination.session import ZooKeeperSession

log = logging.getLogger("kafka.zk.KafkaZkClient")

_POLL_S = 0.05


class EphemeralRegistration:
    """Remembers which session registered last. Used by one thread at a time."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._registered_session_id = -1

    def create(self, path: str, data: bytes, *, wait_ms: int) -> int:
        """Create the znode and answer its czxid; NodeExistsError when a foreign one stays."""
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            czxid = self._attempt(path, data, may_wait=time.monotonic() < deadline)
            if czxid is not None:
                self._registered_session_id = self._session.session_id
                return czxid
            time.sleep(_POLL_S)

    def _attempt(self, path: str, data: bytes, *, may_wait: bool) -> int | None:
        """One try; None to try again."""
        # Creating and setting in one multi is how the czxid comes back with the answer.
        multi = Multi((Create(path, ephemeral=True), SetData(path, data, 0)))
        created, stat = self._session.request(multi).get()
        if not isinstance(created, Exception) and not isinstance(stat, Exception):
            return int(stat.czxid)
        if not isinstance(created, NodeExistsError):
            raise created if isinstance(created, Exception) else stat
        outcome = self._session.request(GetData(path))
        if isinstance(outcome.error, NoNodeError):
            return None
        _, existing = outcome.get()
        owner = existing.ephemeralOwner
        if owner == self._session.session_id:
            return int(existing.czxid)
        if owner == self._registered_session_id:
            log.info("Replacing %s of this broker's expired session 0x%x", path, owner)
            gone = self._session.request(Delete(path))
            if not isinstance(gone.error, NoNodeError):
                gone.get()
            return None
        if may_wait:
            return None
        log.error(
            "%s exists and its owner 0x%x is not the current session 0x%x",
            path,
            owner,
            self._session.session_id,
        )
        raise NodeExistsError(f"{path} is registered by another session (0x{owner:x})")
