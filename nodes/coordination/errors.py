"""What can go wrong between a broker and ZooKeeper.

::

    CoordinationError
    ├── ZooKeeperTimeout   no connection within the configured time (at startup only)
    ├── SessionExpired     the session is over: ephemeral nodes are gone, nothing waiting was done
    │                      for sure
    ├── SessionClosed      this client was closed
    ├── ControllerMoved    another broker has been elected: the write was refused, nothing changed
    └── RequestTooLarge    ZooKeeper would not read so much: the request was not sent

kazoo's own exceptions (NoNodeError, NodeExistsError, BadVersionError, ...) pass through for the
answers that callers decide upon. A lost connection is no error here: requests wait it out.
"""

from __future__ import annotations


class CoordinationError(Exception):
    """Base of everything below."""


class ZooKeeperTimeout(CoordinationError):
    """ZooKeeper could not be reached in time."""


class SessionExpired(CoordinationError):
    """The session expired before the request was answered; it may or may not have been applied."""


class SessionClosed(CoordinationError):
    """The client has been closed."""


class ControllerMoved(CoordinationError):
    """The controller epoch's znode has another version than this controller's: it was replaced."""


class RequestTooLarge(CoordinationError):
    """A write is larger than ZooKeeper reads (its ``jute.maxbuffer``). It was not sent: the server
    would close the connection, and the write would be repeated on the next one, for ever."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"A write of {size_bytes} bytes is larger than ZooKeeper takes.")
