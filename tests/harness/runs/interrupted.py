"""A plugin for `pytest harness/` in tests, beside `played`: SIGTERM comes as a scenario is played,
or as what came of all is told. Loaded with ``-p tests.harness.runs.interrupted``."""

from __future__ import annotations

import os
import signal
from typing import Any

from harness.runs import ci
from tests.harness.runs import played

STEP = "BIPLANE_INTERRUPTED"


def _before(does: Any) -> Any:
    def interrupted(*args: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return does(*args)

    return interrupted


if os.environ[STEP] == "told":
    ci.summary = _before(ci.summary)
else:
    played.play = _before(played.play)
