"""Leader epochs that were over, by partition: from when on no record of them can have been taken in
that is in the final log.

Who takes up the lead in a leader epoch appends in that epoch from then on, to a log that has all
that it will ever have of earlier ones (`leader_change`). So nothing that was sent later is of an
earlier epoch in the log of the final leader: since that one took up its last lead; and since
anybody took up the lead in a later epoch of which that log has records (`log_folder`).

A later epoch of which it has none says nothing: whoever led in it may have had no followers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from checkers.facts.leadership import Key, key_of
from checkers.facts.topics import made_again

if TYPE_CHECKING:
    from checkers.history.frames import History


def over_since(
    history: History, final_leaders: Mapping[Key, Mapping[str, Any]]
) -> dict[tuple[Key, int], int]:
    """By partition and leader epoch, since when (ns, at the latest) it was over, of those that are
    in the final leader's files. ``final_leaders``: by partition, its `log_end` row."""
    led = _led(history)
    files = {(key_of(r), r["node"]): r["epochs"] or [] for r in history.rows("log_folder")}
    found: dict[tuple[Key, int], int] = {}
    for key, end in final_leaders.items():
        own = sorted(each["leader_epoch"] for each in files.get((key, end["node"]), ()))
        took = {epoch: t for (epoch, _), t in led.get(key, {}).items() if epoch in own}
        last = max((one for one in led.get(key, {}) if one[1] == end["node"]), default=None)
        if last is not None:
            took[last[0]] = led[key][last]
        for epoch in own:
            times = [t for later, t in took.items() if later > epoch]
            if times:
                found[key, epoch] = min(times)
    return found


def _led(history: History) -> dict[Key, dict[tuple[int, int], int]]:
    """By partition, (leader epoch, node) and when (ns) that first told of leading in it, of the
    last of the topic's lives."""
    again = made_again(history)
    found: dict[Key, dict[tuple[int, int], int]] = {}
    for row in history.rows("leader_change"):
        key = key_of(row)
        t = row["t"] + (row["error_ns"] or 0)
        if row["role"] == "leader" and row["leader"] == row["node"] and t > again.get(key[:3], 0):
            of = found.setdefault(key, {})
            one = (row["leader_epoch"], row["node"])
            of[one] = min(t, of.get(one, t))
    return found
