"""What was asked of groups with a member that goes on saying that it lives (role group-pair), for
`checkers.promises.groups`: who hears of a rebalance (`told_members`), who is known to the next
coordinator (`known_members`), and of which generation it is then (`later_generations`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.judging.courses import Judge, in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding

if TYPE_CHECKING:
    from checkers.history.frames import History

REBALANCE_IN_PROGRESS: Final = 27
_NAMES: Final = ("arm", "trial", "group", "node", "step", "type", "error", "keep_ms", "generation")
Row = Mapping[str, Any]


def living_groups(
    history: History, outcome: Outcome, steps: tuple[str, ...], judge: Judge
) -> Iterator[tuple[Finding, int]]:
    """Each group judged by its `group_step` rows of these steps in order of time."""
    if not history.has("group_step"):
        return
    found = history.frame("group_step").where("group is not null")
    found = found.where(found.step.isin(*steps))
    living = found.where("step = 'live'").select("arm", "trial", "group").distinct()
    found = found.join(living, ["arm", "trial", "group"], "left_semi")
    rows = found.select(*_NAMES, "invoke_t", "t")
    yield from in_courses(outcome, rows, ["arm", "trial", "group"], ["t", "invoke_t"], judge)


def group_of(rows: list[Row]) -> tuple[str, int, str]:
    """Arm, trial and group of a course."""
    return rows[0]["arm"], rows[0]["trial"], rows[0]["group"]
