"""What a CI keeps of `pytest harness/`: JUnit properties, a step summary, a folder of artefacts.

JUnit's XML is pytest's own (`--junitxml`); each scenario's test case carries the run's verdict,
seed, report and key figures as properties, since a failed case alone does not say whether it was
`invalid` or `unknown`. The step summary is Markdown, appended to the file that GitHub names in
GITHUB_STEP_SUMMARY. The artefact folder holds what is looked at (reports, results, plans, the table
of runs); of runs that were not valid also their evidence, so that they can be judged elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

SUMMARY: Final = "GITHUB_STEP_SUMMARY"


def append_summary(path: str | None, text: str) -> None:
    """Nothing where there is no such file. A summary that cannot be written fails nothing."""
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as summary:
            summary.write(f"{text.rstrip()}\n\n")
    except OSError:
        return
