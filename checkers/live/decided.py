"""What was committed, and who acts on it: the promise `epochs` over what is known by now.

Its rows do not grow with the load and no later row takes back what follows from them, so that it is
judged as it stands, from a watch's commits and brokers' own words, without a Spark job. Topics that
are deleted are left to the end, for their namesakes begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from checkers.live.accusation import Accusation
from checkers.live.intake import Intake
from checkers.promises.epochs import PROMISE

if TYPE_CHECKING:
    from checkers.history.frames import History

TOLD_BY: Final = frozenset({"leadership", "leader_change"})
CERTAIN: Final = frozenset(
    {"leader-epoch-went-back", "leader-epoch-jumped", "two-leaders-in-epoch", "unclean-election",
     "isr-grew-in-election", "leader-not-in-sync", "isr-empty", "led-by-another", "role-went-back"}
)  # fmt: skip
"""What the rest of `epochs` needs is told at the end: ZooKeeper's own log, whole topics."""
_UNCLEAN: Final = frozenset({"unclean-election", "isr-grew-in-election"})
"""Lawful where brokers allow it."""


def accused(history: History, intake: Intake) -> Iterator[Accusation]:
    """``history``: all `leadership`, `leader_change` and `forged` rows so far."""
    for finding in PROMISE.check(history).findings:
        where = finding.picks[0].where if finding.picks else {}
        at = (where.get("topic"), where.get("partition"))
        quiet = intake.silenced
        if finding.rule not in CERTAIN or at[0] in quiet.topics or at in quiet.unheard:
            continue
        if finding.rule in _UNCLEAN and quiet.unclean:
            continue
        yield Accusation(
            promise=PROMISE.name,
            rule=finding.rule,
            arm=finding.arm,
            trial=finding.trial,
            says=finding.says,
            t=_last(intake, at),
            place=(*at, finding.says),
        )


def _last(intake: Intake, at: tuple[Any, Any]) -> int:
    """When the newest row about that partition was written."""
    return max(
        (
            row["t"]
            for kind in TOLD_BY
            for row in intake.small[kind]
            if (row.get("topic"), row.get("partition")) == at
        ),
        default=0,
    )
