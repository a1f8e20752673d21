"""What the controller answers to those who asked it for something."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from nodes.coordination.errors import CoordinationError
from nodes.core.errors import Errors


class ElectionType(IntEnum):
    """On the wire of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome for one partition. `leader` is the one elected, -1 where none was."""

    error: Errors = Errors.NONE
    message: str | None = None
    leader: int = -1


class StateChangeFailed(Exception):
    """A transition was refused: nobody may lead, or another controller wrote the state."""


def why_unanswered(error: Exception) -> Errors:
    """What who asked is told when the event was cut short: another controller has been elected, or
    this one's session is over; or something went wrong."""
    if isinstance(error, CoordinationError):
        return Errors.NOT_CONTROLLER
    return Errors.UNKNOWN_SERVER_ERROR
