"""What a fault asks for while it goes on looking, or asks for something else."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Meanwhile:
    """Something that blocks, on a thread of its own."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        """What it raised, once it is over."""
        self._run = run
        self._thread = threading.Thread(target=self._guarded, name="meanwhile", daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> None:
        """Raises what it raised."""
        if self.error is not None:
            raise self.error
