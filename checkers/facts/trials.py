"""What happened in one trial: its rows, without a look at those of all the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkers.history.frames import History


def rows_of(history: History, kind: str, trial: tuple[str, int]) -> list[dict[str, Any]]:
    """The trial's rows of a kind that does not grow with the load, in order of ``t``."""

    def make() -> dict[tuple[str, int], list[dict[str, Any]]]:
        found: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for row in history.rows(kind):
            found.setdefault((row["arm"], row["trial"]), []).append(row)
        return found

    by_trial: dict[tuple[str, int], list[dict[str, Any]]] = history.memo(f"{kind} by trial", make)
    return by_trial.get(trial, [])
