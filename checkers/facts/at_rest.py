"""Where nothing came to rest: records were appended while the logs were read in the end.

The harness ends the load, waits until no log grows any more, and gives that up after a while
(`harness.cluster.final_read`, an ``infra`` row): requests of a producer that is gone may lie in a
broker's sockets, and are served one after the other, however slow that is. Two looks at a log are
then looks at two logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from checkers.history.frames import History

LOAD: Final = "load"
"""The component that failed."""


def appending(history: History) -> dict[tuple[str, int], str]:
    """By trial in which it was so, in words."""
    return {
        (row["arm"], row["trial"]): row["reason"]
        for row in history.rows("infra")
        if row["component"] == LOAD
    }
