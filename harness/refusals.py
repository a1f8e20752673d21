"""Errors that the user can mend: bad options, plans, histories, a machine that lacks something.

The CLI and the pytest plugin both end with exit code 254 and the error's own line; anything else is
a crash of biplane (255).
"""

from __future__ import annotations

from typing import Final

BAD_ARGUMENTS: Final = 254


def nothing_to_play(error: BaseException) -> bool:
    """Whether the systems lack what was to be played: nothing was proven. Imports late, too."""
    from harness.arms import Skipped

    return isinstance(error, Skipped)


def is_refusal(error: BaseException) -> bool:
    """Whether the message says what to change. Imports late: asked only when something failed."""
    from checkers.history import HistoryError
    from checkers.spark import SparkFailed
    from faults.plan import PlanError
    from harness.bugs.book import BugError
    from harness.runtime.protocol import SetupError
    from harness.runtime.select import UnknownRuntime
    from harness.settings import SettingsError
    from harness.sut.protocol import UnknownSystem

    kinds = (
        *(BugError, HistoryError, PlanError, SettingsError, SetupError, SparkFailed),
        *(UnknownRuntime, UnknownSystem),
    )
    return isinstance(error, kinds)
