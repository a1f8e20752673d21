"""A log directory that fails under a broker that runs (fault ``fail-disk``): it ends, and at once,
when it has no other (KIP-112, LogManager.handleLogDirFailure). For `checkers.promises.departures`.

That it went on is the harness's own word, which had made sure that nothing could be made there, saw
it write to what it had open, and waited for many times as long as a log's segment lasts. That
others then lead what it led, and that nothing is lost, others judge: to them it is a broker that
was killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from checkers.facts.details import details
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "went-on-without-a-disk"
FAILED: Final = "log directories that failed under a broker"
FAULT: Final = "fail-disk"


def went_on(history: History, outcome: Outcome) -> Iterator[Finding]:
    for row in history.rows("fault"):
        if row["fault"] != FAULT or row["phase"] != "injected" or not row["took_hold"]:
            continue
        trial = (row["arm"], row["trial"])
        outcome.saw(*trial, FAILED)
        for node in details(row).get("went_on") or ():
            says = f"nothing could be written to the log directory of broker {node}, and it went on"
            yield Finding(RULE, says, *trial, (Pick("fault", {"id": row["id"]}, rows=2),))
