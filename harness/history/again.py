"""Finishing a run's history again: of a run that was killed before its history was whole, or of a
history that was spoilt. The live files are all that it takes, and they stay.

What run.json says of the trials is used where it says anything. A harness that was killed earlier
left no word of them: then every folder of live files is a trial, the run counts as interrupted, and
its verdict cannot be `valid`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.history import HistoryError
from checkers.history.playing import is_played
from harness.history.finish import LiveTrial, finish

_TRIALS: Final = "trials"
_TAIL_BYTES: Final = 1 << 16


def finish_again(run: Path) -> Iterator[str]:
    """Says in lines what it did. Raises `HistoryError` where there is nothing to be finished."""
    from harness.run_record import stored

    if is_played(run):
        raise HistoryError(f"{run}: it is being played; allowed: when that is over")
    path = run / "run.json"
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise HistoryError(f"{path}: cannot be read: {error}") from error
    trials = _told(run, record) or list(_found(run))
    gone = [trial for trial in trials if not any(trial.live.rglob("*.jsonl"))]
    if len(gone) == len(trials):
        raise HistoryError(f"{run / _TRIALS}: there are no live files to be finished")
    if gone and (run / "history").exists():  # it may hold what these held
        raise HistoryError(
            f"{gone[0].live}: no live files; allowed: all trials that run.json names"
        )
    if not record.get("trials"):
        record["interrupted"] = True
        record["trials"] = [
            {"arm": t.arm, "trial": t.trial, "failure": "the harness was killed", "end_t": t.end_t}
            for t in trials
        ]
        yield "run.json names no trial: the harness was killed; the run will be judged unknown"
    report = finish(run / "history", trials)
    record["history"] = stored(report)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(record, indent=2) + "\n")
    scratch.replace(path)
    for trial in trials:
        yield f"{trial.arm}, trial {trial.trial}"
    yield (
        f"{report.rows.total():,} rows; {report.rejected} lines rejected, "
        f"{report.torn_lines} torn, {report.orphans} operations without an end"
    )


def _told(run: Path, record: dict[str, Any]) -> list[LiveTrial]:
    from harness.scenarios.base import trial_folder

    found = []
    for entry in record.get("trials") or []:
        live = trial_folder(run, entry["arm"], entry["trial"]) / "live"
        end_t = entry.get("end_t") or _last_t(live)
        found.append(LiveTrial(live, entry["arm"], entry["trial"], end_t))
    return found


def _found(run: Path) -> Iterator[LiveTrial]:
    for live in sorted((run / _TRIALS).glob("*/live")):
        arm, _, trial = live.parent.name.rpartition("-")
        if arm and trial.isdigit():
            yield LiveTrial(live, arm, int(trial), _last_t(live))


def _last_t(live: Path) -> int:
    """The latest time among the ends of the live files (ns); 0 when they are empty."""
    latest = 0
    for file in live.rglob("*.jsonl"):
        with file.open("rb") as lines:
            lines.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            for line in lines:
                try:
                    latest = max(latest, int(orjson.loads(line)["t"]))
                except (ValueError, TypeError, KeyError):
                    continue  # the middle of a line, or none of ours
    return latest
