"""What was asked of groups with a member that goes on saying that it lives (role group-pair), for
`checkers.promises.groups`: who hears of a rebalance (`told_members`), and who is known to the next
coordinator (`known_members`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from checkers.history.frames import History

REBALANCE_IN_PROGRESS: Final = 27
_NAMES: Final = ("arm", "trial", "group", "node", "step", "type", "error", "keep_ms")
Group = tuple[str, int, str]
"""Arm, trial and group."""
Row = Mapping[str, Any]


def living_groups(history: History, *steps: str) -> Iterator[tuple[Group, list[Row]]]:
    """Each group, and its `group_step` rows of these steps in order of time."""
    if not history.has("group_step"):
        return
    found = history.frame("group_step").where("group is not null")
    found = found.where(found.step.isin(*steps))
    living = found.where("step = 'live'").select("arm", "trial", "group").distinct()
    found = found.join(living, ["arm", "trial", "group"], "left_semi")
    rows = found.select(*_NAMES, "invoke_t", "t").orderBy("arm", "trial", "group", "t")
    for key, of in groupby(
        rows.toArrow().to_pylist(), key=lambda row: (row["arm"], row["trial"], row["group"])
    ):
        yield key, list(of)
