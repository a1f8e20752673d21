"""Append times beside what the harness's clock says.

Wall clocks are tied to the monotonic one by the run (`run.json`), which says how far they moved
against each other; `SLACK_NS` on top for what a clock's daemon may do meanwhile. Brokers that write
nothing of the history may run on machines with clocks of their own: `ELSEWHERE_NS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from checkers.history.frames import History

SLACK_NS: Final = 50_000_000
ELSEWHERE_NS: Final = 1_000_000_000


def slack_ns(history: History) -> Column:
    """By how much a row's append time may be off."""
    run = history.run
    # Who writes rows of the history reads the harness's own clocks.
    here = [arm for arm, facts in run.arms.items() if facts.get("traces")]
    return F.when(F.col("arm").isin(here), SLACK_NS).otherwise(ELSEWHERE_NS) + run.clock_error_ns
