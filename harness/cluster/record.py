"""How the cluster writes history events: one callable, given by the run."""

from __future__ import annotations

from typing import Any, Protocol


class Record(Protocol):
    """Appends one event of a kind (checkers/history.py). Thread-safe; ``t`` (now) and ``process``
    are filled in when absent."""

    def __call__(self, kind: str, /, **fields: Any) -> None: ...
