"""Which way a request takes, and what is said of it (KIP-291)."""

from __future__ import annotations


def controllers_listener(inter_broker: str, control_plane: str | None) -> str:
    """Which listener of a broker its controller talks to (KIP-291)."""
    return control_plane or inter_broker


def replication_listener(inter_broker: str, _control_plane: str | None) -> str:
    """Which listener of its leader a follower fetches from: never the control plane's."""
    return inter_broker


def mutes_who_waits() -> bool:
    """Who has asked something is not listened to before it is answered (SocketServer's mute)."""
    return True


def measures_own_plane() -> bool:
    """The control plane's metrics are of the control plane (KIP-291)."""
    return True


def hears_until_relieved() -> bool:
    """Who stops closes its listeners when it is relieved, not before (KafkaServer.shutdown)."""
    return True
