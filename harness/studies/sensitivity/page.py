"""The page of `biplane sensitivity`: by column, which rules notice a lie in it, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from checkers.judging.verdict import Verdict
from harness.studies.ledger import Entry, commits
from harness.studies.sensitivity.breaking import ALWAYS, ONCE, Breakage
from harness.studies.sensitivity.columns import left_out
from harness.studies.sensitivity.reasons import unnoticed, why_unnoticed

_RULES: Final = 3
Told = tuple[Breakage, Entry]


def page(entries: Iterable[Entry], command: str) -> str:
    """Markdown; ``command`` is what makes it again."""
    told = [(Breakage.of(entry.play.bug), entry) for entry in entries]
    runs = sorted({_run(entry) for _, entry in told})
    lines = [
        "# Sensitivity: which lies would be noticed?",
        "",
        f"Made by `{command}`{commits(entry for _, entry in told)} "
        "([ledger](sensitivity.jsonl)); not written by hand. Recorded runs that were `valid` are "
        "broken, one column of one kind of event at a time, and judged again: *once*, in one row; "
        "*always*, in all of one broker's rows from the middle on, as by a bug. *Noticed*: "
        "`invalid`. *Doubted*: `unknown`, by the evidence's own contradictions. What was neither "
        "passes as `valid`.",
        "",
        f"Of {len(runs)} runs: {', '.join(runs)}.",
        "",
        "| width | copies | noticed | doubted | unnoticed, with a reason | unnoticed |",
        "|---|---|---|---|---|---|",
        *(
            _total(width, [one for one in told if one[0].width == width])
            for width in (ALWAYS, ONCE)
        ),
        "",
        "## Unnoticed",
        "",
        "Ways in which no run's copy was noticed or doubted; in (brackets) why that is no harm.",
        "",
        "| column | always | once |",
        "|---|---|---|",
        *_unnoticed(told),
        "",
        "## Every column",
        "",
        "How many of the copies were noticed or doubted, and by what above all.",
        "",
        "| column | always | once |",
        "|---|---|---|",
        *_columns(told),
        "",
        "## Left out",
        "",
        *(f"- {why}: {', '.join(f'`{name}`' for name in names)}." for why, names in left_out()),
    ]
    return "\n".join(lines) + "\n"


def _run(entry: Entry) -> str:
    play = entry.play
    return f"{play.scenario} ({play.sut}, {play.planes}, seed {play.seed})"


def _total(width: str, told: Sequence[Told]) -> str:
    counts = Counter(entry.verdict for _, entry in told)
    listed = sum(
        entry.verdict == Verdict.VALID and why_unnoticed(one) is not None for one, entry in told
    )
    cells = (len(told), counts["invalid"], counts["unknown"], listed, counts["valid"] - listed)
    return f"| {width} | {' | '.join(map(str, cells))} |"


def _by_column(told: Iterable[Told]) -> dict[str, list[Told]]:
    found: dict[str, list[Told]] = {}
    for one, entry in sorted(told, key=lambda each: (each[0].place, each[0])):
        found.setdefault(one.place, []).append((one, entry))
    return found


def _unnoticed(told: Iterable[Told]) -> Iterator[str]:
    for column, of in _by_column(told).items():
        cells = [_ways(one for one in of if one[0].width == width) for width in (ALWAYS, ONCE)]
        if any(cells):
            yield f"| `{column}` | {' | '.join(cells)} |"


def _ways(told: Iterable[Told]) -> str:
    """Those that no run's copy was noticed by."""
    reasons: dict[str | None, list[str]] = {}
    for one in unnoticed(entry for _, entry in told):
        reasons.setdefault(why_unnoticed(one), []).append(one.way)
    return "; ".join(
        ", ".join(ways) + (f" ({why})" if why else "") for why, ways in reasons.items()
    )


def _columns(told: Iterable[Told]) -> Iterator[str]:
    for column, of in _by_column(told).items():
        cells = [
            _noticed([entry for one, entry in of if one.width == width]) for width in (ALWAYS, ONCE)
        ]
        yield f"| `{column}` | {' | '.join(cells)} |"


def _noticed(of: Sequence[Entry]) -> str:
    if not of:
        return "-"
    found = [entry for entry in of if entry.verdict != Verdict.VALID]
    by = Counter(rule.partition(": ")[2] for entry in found for rule in entry.rules)
    doubts = sum(entry.verdict == Verdict.UNKNOWN for entry in found)
    words = [f"`{rule}`" for rule, _ in by.most_common(_RULES)]
    words += [f"{doubts} doubted"] if doubts else []
    return f"{len(found)}/{len(of)}{': ' if words else ''}{', '.join(words)}"
