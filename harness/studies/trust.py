"""`biplane trust`: how often is each planted bug found, and how often is a sound system accused?

    bug x scenario x seeds     detection: verdicts, rules, rates with their intervals, time to find
    no bug x scenario x seeds  false alarms, on each system under test and plane mode

Plays are drawn in turn (one seed of everything, then the next), so that whatever the budget leaves
undone is spread evenly. They are kept in a ledger (`harness.studies.ledger`): stopped, or out of
budget, it goes on with the same command; the page is made from those of all stores
(`harness.studies.kept`) that were played with the same profile and time limit. Unknown runs are
counted as what they are: a bug that made a run `unknown` was not found, and a sound run that is
`unknown` proves nothing. A genuine system may have genuine bugs: where a run of one of Kafka's
broke just what open bugs of the book break (`harness.bugs.book`), these are named beside it. It
counts as accused: a rule's name proves no cause.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from checkers.judging.verdict import Verdict
from harness.bugs.book import Bug, load_all
from harness.bugs.play import MENDED
from harness.studies.ledger import Budget, Entry, Play, by, commits, rate, read
from harness.studies.playing import Desk
from nodes.mutants import MUTANTS

LEDGER: Final = "trust.jsonl"
TRACK_RECORD: Final = "track-record.jsonl"


def plays(
    *,
    bugs: Sequence[str],
    scenarios: Sequence[str],
    seeds: Sequence[int],
    planes: Sequence[str],
    suts: Sequence[str],
) -> Iterator[Play]:
    """One seed of everything, then the next, each in an order drawn by it: what a budget leaves
    undone is a bit of everything. A bug is played in its own scenario, dual planes."""
    for seed in seeds:
        every = [
            Play(scenario=MUTANTS[bug].scenario, seed=seed, planes="dual", bug=bug) for bug in bugs
        ]
        every += [
            Play(scenario=scenario, seed=seed, planes=mode, sut=sut)
            for sut in suts
            for mode in planes
            for scenario in scenarios
        ]
        random.Random(f"trust:{seed}").shuffle(every)
        yield from every


def study(
    wanted: Iterable[Play],
    desk: Desk,
    budget: Budget,
    tell: Callable[[Entry], None],
    extra: Mapping[str, str] | None = None,
) -> bool:
    """Play what was not played yet; False when the budget was spent before the end. One run is
    played while the one before it is judged. ``extra`` is kept with each."""
    ended = True
    for one in wanted:
        if one in desk:
            continue
        if budget.is_spent:
            ended = False
            break
        desk.play(one, extra=lambda: extra or {})
        for entry in desk.collect(but=1):
            tell(entry)
    for entry in desk.collect():
        tell(entry)
    return ended


def genuine(entry: Entry, book: Mapping[str, Bug]) -> list[str]:
    """The open bugs that break all that the run broke; none where one rule is left."""
    if not entry.found or not _is_kafka(entry):
        return []
    mine = [bug for bug in book.values() if bug.is_open and {*bug.found_by} & {*entry.rules}]
    left = set(entry.rules).difference(*(bug.found_by for bug in mine))
    return [] if left else [bug.id for bug in mine]


def _is_kafka(entry: Entry) -> bool:
    return entry.play.sut.startswith("kafka")


def _book(entries: Iterable[Entry]) -> Mapping[str, Bug]:
    """Of bugs that those could meet: our broker has none of Kafka's."""
    return load_all() if any(map(_is_kafka, entries)) else {}


def exit_code(entries: Iterable[Entry], *, ended: bool = True) -> int:
    """1: a sound run is invalid, or a bug was never found; 2: all else that is no certainty, and
    what was not played (not ``ended``)."""
    entries = [e for e in entries if e.verdict != "skipped"]
    sound = [e for e in entries if not e.play.bug]
    found = {bug: any(e.found for e in of) for (bug,), of in by(_with_bug(entries), "bug").items()}
    if any(e.found for e in sound) or not all(found.values()):
        return Verdict.INVALID.exit_code
    if any(e.verdict == Verdict.UNKNOWN for e in entries) or not entries or not ended:
        return Verdict.UNKNOWN.exit_code
    return Verdict.VALID.exit_code


def _with_bug(entries: Iterable[Entry]) -> list[Entry]:
    return [e for e in entries if e.play.bug]


# -- the page -----------------------------------------------------------------------------------


def page(entries: Sequence[Entry], command: str, mended: Iterable[Entry] = ()) -> str:
    """Markdown; ``command`` is what makes it again. ``mended``: of the track record, the runs of
    releases in which a bug is mended (`harness.bugs.play`): sound ones, too."""
    entries = [e for e in entries if e.verdict != "skipped"]
    lines = [
        "# How far a verdict can be trusted",
        "",
        f"Made by `{command}` from {len(entries)} runs{commits(entries)}; not written by hand. The "
        "same command with more seeds or a larger budget goes on, and the page grows with its "
        "[ledger](trust.jsonl). Rates come with their 95% interval (Wilson): of a few runs it is "
        "wide.",
        "",
        *_totals(entries),
        "",
        "## Planted bugs: are they found?",
        "",
        "*Found*: the run was `invalid`. *Time*: from the start of chaos to the last event of the "
        "first witness, median; the run's own length besides.",
        "",
        "| bug | scenario | found | by | unknown | time | run |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_bug_row(bug, of) for (bug,), of in sorted(by(_with_bug(entries), "bug").items())]
    lines += [
        "",
        "## Sound systems: is anybody accused?",
        "",
        "| system | planes | scenario | valid | unknown | invalid |",
        "|---|---|---|---|---|---|",
    ]
    sound = [e for e in entries if not e.play.bug]
    groups = sorted(by(sound, "sut", "planes", "scenario").items())
    lines += [_sound_row(key, of) for key, of in groups]
    lines += ["", *_mended(mended), *_unknowns(entries), *_accused(sound)]
    return "\n".join(lines) + "\n"


def _totals(entries: Sequence[Entry]) -> list[str]:
    bugs = _with_bug(entries)
    sound = [e for e in entries if not e.play.bug]
    by_bug = [any(e.found for e in of) for of in by(bugs, "bug").values()]
    counts = Counter(e.verdict for e in sound)
    return [
        f"- Planted bugs that were found in at least one run: {rate(sum(by_bug), len(by_bug))}.",
        f"- Runs with a planted bug that were `invalid`: "
        f"{rate(sum(e.found for e in bugs), len(bugs))}.",
        f"- Sound runs that were `invalid`: {rate(counts['invalid'], len(sound))}; "
        f"`unknown`: {rate(counts['unknown'], len(sound))}.",
    ]


def _bug_row(bug: str, of: list[Entry]) -> str:
    found = [e for e in of if e.found]
    rules = Counter(rule for e in found for rule in e.rules)
    by_rule = ", ".join(f"{rule} ({n})" for rule, n in rules.most_common(3)) or "-"
    unknown = sum(e.verdict == Verdict.UNKNOWN for e in of)
    times = [e.found_ms for e in found if e.found_ms is not None]
    time_s = f"{statistics.median(times) / 1000:.1f} s" if times else "-"
    run_s = f"{statistics.median(e.seconds for e in of):.0f} s"
    cells = (f"`{bug}`", of[0].play.scenario, rate(len(found), len(of)), by_rule, unknown, time_s)
    return f"| {' | '.join(map(str, (*cells, run_s)))} |"


def _sound_row(key: tuple[str, ...], of: list[Entry]) -> str:
    counts = Counter(e.verdict for e in of)
    cells = [*key, rate(counts["valid"], len(of)), counts["unknown"], counts["invalid"]]
    return f"| {' | '.join(map(str, cells))} |"


def _mended(entries: Iterable[Entry]) -> list[str]:
    groups = sorted(by((e for e in entries if e.play.bug == MENDED), "sut", "planes").items())
    if not groups:
        return []
    lines = [
        "## Releases in which a bug is mended",
        "",
        "By that bug's plan, as many times as the [track record](track-record.md) has tried it, "
        "which says what came of those that were not valid: sound runs, too.",
        "",
        "| system | planes | bugs | valid | unknown | invalid |",
        "|---|---|---|---|---|---|",
    ]
    for (sut, planes), of in groups:
        bugs = ", ".join(sorted({e.play.scenario for e in of}))
        lines.append(_sound_row((sut, planes, bugs), of))
    return [*lines, ""]


def _unknowns(entries: Iterable[Entry]) -> list[str]:
    unknown = [e for e in entries if e.verdict == Verdict.UNKNOWN]
    if not unknown:
        return []
    lines = ["## Why runs were unknown", ""]
    return [*lines, *(f"- {_name(e.play)}: {'; '.join(e.reasons[:2])}" for e in unknown), ""]


def _accused(sound: Iterable[Entry]) -> list[str]:
    accused = [e for e in sound if e.found]
    if not accused:
        return []
    lines = ["## Sound systems that were accused", ""]
    book = _book(accused)
    for e in accused:
        ids = genuine(e, book)
        bugs = f" (which {', '.join(ids)} would break)" if ids else ""
        lines.append(f"- {_name(e.play)}{bugs}: {'; '.join(e.reasons[:2] or e.rules)}")
    return [*lines, ""]


def _name(play: Play) -> str:
    bug = f"{play.bug}, " if play.bug else ""
    return f"{bug}{play.sut}, {play.scenario}, {play.planes}, seed {play.seed}"


def save_page(entries: Sequence[Entry], command: str, out: Path) -> Path:
    """Beside it may lie the track record's ledger."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(entries, command, read(out.with_name(TRACK_RECORD))))
    return out
