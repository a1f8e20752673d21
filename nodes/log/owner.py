"""What a log tells its owner, the log manager: called under the log's lock unless said otherwise,
so nothing of this may call back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nodes.log.upkeep import KeptLog


class LogOwner(Protocol):
    """See the module's text."""

    def failed(self, directory: Path, error: OSError) -> None:
        """A log directory refused to be written."""

    def rolled(self, log: KeptLog, upto: int) -> None:
        """A new segment begins at `upto`: what lies below is to be flushed, soon but not now."""

    def positions_lowered(self, log: KeptLog) -> None:
        """The recovery point or the start went back: what the checkpoints say of this log is wrong.
        Called without the log's lock."""

    def start_moved(self, log: KeptLog, from_offset: int, reason: str) -> None:
        """`log_start_offset` rose: the records from `from_offset` up to it may not be read."""


class Nobody:
    """For logs without a manager."""

    def failed(self, directory: Path, error: OSError) -> None:
        pass

    def rolled(self, log: KeptLog, upto: int) -> None:
        pass

    def positions_lowered(self, log: KeptLog) -> None:
        pass

    def start_moved(self, log: KeptLog, from_offset: int, reason: str) -> None:
        pass
