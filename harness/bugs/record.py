"""What was found, in words: lines for the terminal, and docs/track-record.md."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from checkers.judging.verdict import RESULTS_FILE, Verdict
from harness.bugs.book import Bug
from harness.bugs.play import BROKEN, MENDED, Try, is_found, is_of, witness_of
from harness.studies.ledger import Entry, commits, rate

_EVENTS: Final = 8
_LEFT_OUT: Final = ("f", "arm", "trial", "boot", "error_ns", "process")
_COMMAND: Final = "biplane reproduce"


def line(one: Try) -> str:
    """One try in one line."""
    entry = one.entry
    said = "found" if one.found else entry.verdict
    rules = ", ".join(entry.rules) or "; ".join(entry.reasons[:1])
    when = f"{entry.seconds:.0f} s" if one.new else "kept from before"
    what = f"{one.bug.id} on {entry.play.sut} ({one.side}), try {entry.play.seed}"
    return f"{what}: {said} ({when}){': ' + rules if rules else ''}"


def story(bug: Bug, tries: Sequence[Try]) -> Iterator[str]:
    """Both verdicts, the witness and the plan."""
    broken = [t for t in tries if t.side == BROKEN]
    mended = [t for t in tries if t.side == MENDED]
    yield ""
    yield f"{bug.id}: {bug.title}"
    yield f"  {bug.broken} has it: found in {sum(t.found for t in broken)} of {len(broken)} tries"
    sound = sum(t.entry.verdict == Verdict.VALID for t in mended)
    if bug.mended:
        yield f"  {bug.mended} mended it: valid in {sound} of {len(mended)} tries"
    else:
        yield "  it is open: no mended release is played"
    yield "  plan:"
    for entry in bug.plan.entries:
        params = json.dumps(dict(entry.params))
        yield f"    {entry.at_ms:>6} ms, {entry.duration_ms} ms: {entry.fault} {params}"
    for one in [t for t in broken if t.found][:1]:
        yield from _witness(bug, Path(one.entry.folder))


def _witness(bug: Bug, folder: Path) -> Iterator[str]:
    path = folder / RESULTS_FILE
    if not path.is_file():
        return
    found = witness_of(bug, json.loads(path.read_text()))
    if found is None:
        return
    rule, violation = found
    yield f"  witness ({rule}): {violation['says']}"
    events = violation["events"]
    first = events[0]["t"] if events else 0
    for event in events[-_EVENTS:]:
        yield f"    {(event['t'] - first) / 1e6:>9.1f} ms {event.get('f', '?')} {_fields(event)}"
    yield f"  report: {folder / 'report.html'}"


def _fields(event: Mapping[str, Any]) -> str:
    shown = {k: v for k, v in event.items() if v is not None and k != "t" and k not in _LEFT_OUT}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def write(
    bugs: Mapping[str, Bug], entries: Iterable[Entry], out: Path, not_shown: str = ""
) -> Path:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(page(bugs, list(entries), not_shown)) + "\n")
    return out


def page(bugs: Mapping[str, Bug], entries: Sequence[Entry], not_shown: str = "") -> Iterator[str]:
    """The page: a table, each bug in words, and what could not be shown (bugs/NOT-SHOWN.md). Only
    of what was played by the files as they are."""
    of = {bug.id: [e for e in entries if is_of(bug, e)] for bug in bugs.values()}
    counted = sorted(chain(*of.values()), key=lambda entry: str(entry.extra.get("date")))
    yield "# Track record"
    yield ""
    yield (
        "Genuine bugs of Apache Kafka, each found on a genuine release that has it and absent from "
        "one in which it is mended, if any is. Rates are of whole runs, with 95% intervals; a "
        "try is found when the rule was broken, and one that came to no verdict (`unknown`) counts "
        "as not found, and as not valid. Made by `biplane track-record` from "
        f"{len(counted)} runs{commits(counted)} ([ledger](track-record.jsonl)), which "
        "`biplane reproduce ID --tries N` played; runs of a bug's file as it once was do not count."
    )
    yield ""
    yield (
        "| bug | found on | rule | hit rate | median time | mended in | valid there | command |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for bug in bugs.values():
        yield _row(bug, of[bug.id])
    for bug in bugs.values():
        yield ""
        yield f"## {bug.id}: {bug.title}"
        yield ""
        yield " ".join(bug.says.split())
        yield ""
        faults = ", ".join(f"`{e.fault}` at {e.at_ms / 1000:g} s" for e in bug.plan.entries)
        yield f"Releases: {bug.releases}. Plan: {faults} ([file](../bugs/{bug.id}.toml))."
    yield from _otherwise(bugs, of)
    if not_shown:
        yield ""
        yield not_shown.strip()


def _otherwise(bugs: Mapping[str, Bug], of: Mapping[str, Sequence[Entry]]) -> Iterator[str]:
    """The tries that were not what the page promises, one by one."""
    told = []
    for bug in bugs.values():
        for entry in of[bug.id]:
            broken = entry.play.bug == BROKEN
            if is_found(bug, entry) if broken else entry.verdict == Verdict.VALID:
                continue
            why = "; ".join(entry.rules or entry.reasons[:2]) or "no rule was broken"
            wanted = "not found" if broken else "where it is mended"
            when = f"{entry.extra.get('date')}, commit {entry.extra.get('commit')}"
            told.append(f"- {bug.id}, {wanted} ({entry.play.sut}, {when}): {entry.verdict}: {why}")
    if told:
        yield from ("", "## Tries that went otherwise", "", *told)


def _row(bug: Bug, entries: Sequence[Entry]) -> str:
    broken = [e for e in entries if e.play.bug == BROKEN]
    mended = [e for e in entries if e.play.bug == MENDED]
    found = [e for e in broken if is_found(bug, e)]
    fired = [r for r in bug.found_by if any(r in e.rules for e in found)] or list(bug.found_by)
    seconds = f"{statistics.median(e.seconds for e in found):.0f} s" if found else "-"
    sound = sum(e.verdict == Verdict.VALID for e in mended)
    cells = (
        bug.id,
        f"{bug.sut} {bug.broken}",
        "; ".join(fired),
        rate(len(found), len(broken)),
        seconds,
        (bug.mended or "open") + (" with " + _settings(bug) if bug.mended_config else ""),
        rate(sound, len(mended)),
        f"`{_COMMAND} {bug.id}`",
    )
    return f"| {' | '.join(cells)} |"


def _settings(bug: Bug) -> str:
    return ", ".join(f"{name}={value}" for name, value in bug.mended_config.items())
