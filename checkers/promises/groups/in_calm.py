"""From when on who is asked about a group is to know who coordinates it, for
`checkers.promises.groups`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.calm import Debts
from checkers.promises.groups.offices import offices

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

BY: Final = ["arm", "trial", "group", "node"]
_IN_CALM: Final = "arm string, trial int, group string, node int, _owed bigint, _leads int"


def in_calm(history: History, last: Iterable[Mapping[str, Any]]) -> DataFrame | None:
    """``last``: by `BY`, when each broker was last asked (``t``, ns). By the same, since when all
    is calm for it (``_owed``, ns), and whether it has led the group's partition from then to the
    end (``_leads``). None: nothing is known of any."""
    rows = list(last)
    ends: dict[tuple[str, int], int] = {}
    for row in rows:
        trial = (row["arm"], row["trial"])
        ends[trial] = max(row["t"], ends.get(trial, 0))
    debts, found, known = Debts(history, ends), [], offices(history)
    for row in rows:
        states = known.of(row["arm"], row["trial"], row["group"])
        leader = states[-1].row["leader"] if states else None
        if leader is None or leader < 0:
            continue
        since = debts.owed_from((row["arm"], row["trial"], row["node"]), states[-1].t)
        if since is not None:
            place = {name: row[name] for name in BY}
            found.append({**place, "_owed": since, "_leads": int(leader == row["node"])})
    return history.table(found, _IN_CALM) if found else None
