"""What a soak leaves on the disk, so that it does not grow with the hours.

    valid        the newest few keep everything
    unknown      the first few keep everything: why nothing was proven begins there
    invalid      all keep everything
    all          run.json, plan.json, results.json with its figures, report.html

What goes of a round is its evidence: ``history/``, and ``trials/`` with live files, nodes' folders
and logs. Its run.json says so first, so that whoever finds the rest knows why.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from checkers.judging.verdict import Verdict
from faults.plan import Plan
from harness.disk import MIB, SPARE_BYTES, TRIAL_BYTES, free_bytes, in_words, needed_bytes
from harness.report.units import words
from harness.settings import SettingsError
from harness.soak.account import Round

KEPT: Final = ("run.json", "plan.json", "results.json", "results", "report.html", "live.jsonl")
DROPPED: Final = ("history", "trials")
ROUND_BYTES: Final = 3 * MIB
"""What a round without its evidence leaves; 1.2 MB were seen."""
KEPT_BYTES: Final = 2 * TRIAL_BYTES
"""What a trial of a minute's chaos leaves; 85 MB were seen."""


def to_drop(rounds: Sequence[Round], keep: int) -> list[Round]:
    """The rounds whose evidence goes now."""
    there = [one for one in rounds if not one.dropped]
    valid = [one for one in there if one.verdict == Verdict.VALID]
    first = [one.number for one in rounds if one.verdict == Verdict.UNKNOWN][:keep]
    unknown = [o for o in there if o.verdict == Verdict.UNKNOWN and o.number not in first]
    return [*valid[: max(0, len(valid) - keep)], *unknown]


def drop(run: Path) -> None:
    """Take a run's evidence away. Safe to repeat."""
    path = run / "run.json"
    scratch = path.with_suffix(".tmp")
    scratch.write_text(
        json.dumps({**json.loads(path.read_text()), "evidence_dropped": True}) + "\n"
    )
    scratch.replace(path)
    for name in DROPPED:
        shutil.rmtree(run / name, ignore_errors=True)


def needed(plan: Plan, *, trials: int, keep: int, rounds: int) -> int:
    """About what a soak holds at its fullest, in bytes: sound rounds and such as prove nothing, as
    many as are kept of each, and the one that is being played."""
    whole = min(2 * keep, rounds) * trials * KEPT_BYTES
    return whole + rounds * ROUND_BYTES + needed_bytes(plan, trials)


def room(store: Path, plan: Plan, *, trials: int, keep: int, rounds: int) -> str:
    """What a soak will need of the disk and what there is, in words; `SettingsError` when that is
    not enough."""
    bytes_, free = needed(plan, trials=trials, keep=keep, rounds=rounds), free_bytes(store)
    says = (
        f"about {words(rounds, 'round')} of {words(trials, 'trial')}: {in_words(bytes_)} of "
        f"{in_words(free)} that are free; one round more that is kept: "
        f"{in_words(trials * KEPT_BYTES)}"
    )
    if bytes_ > free:
        raise SettingsError(
            f"--store: {store}: {says}; "
            "free some, name another disk, or ask for less: --time-limit, --keep-rounds"
        )
    return says


def is_tight(store: Path, trials: int) -> bool:
    """Whether one more round, kept, would come near to filling the disk."""
    return free_bytes(store) < trials * KEPT_BYTES + 2 * SPARE_BYTES
