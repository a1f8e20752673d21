"""Why nobody notices some lies, and nobody suffers by them: read by the study, shown on its page.

A key is ``kind.column``, ``kind[sort].column``, either with ``: way``, or all of a breakage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.studies.sensitivity.breaking import Breakage

REASONS: Final[Mapping[str, str]] = {}


def why_unnoticed(one: Breakage) -> str | None:
    """None: nobody said why."""
    of_all = f"{one.kind}.{one.column}"
    keys = (str(one), f"{one.place}: {one.way}", one.place, f"{of_all}: {one.way}", of_all)
    return next((REASONS[key] for key in keys if key in REASONS), None)
