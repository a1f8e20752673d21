"""The page of `biplane mutate`: how much is noticed, by what, and every mutant that is not."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.studies.ledger import Entry, commits, rate
from harness.studies.mutation.power import Attempts, fate
from harness.studies.mutation.survey import WATCHED, Survey

FATES: Final[Mapping[str, str]] = {
    "found": "a run was `invalid`",
    "stopped": "every run was `unknown`: the cluster did not start, or proved nothing",
    "survived": "every run that could notice was played, and none did",
    "open": "not found so far, and not every scenario and seed that could notice was played",
    "listed": "not found, and below it says why no client, replica or operator could notice",
    "equal": "its place was reached, and the change never made a difference",
    "unreached": "no run came by its place",
}
_EFFECTIVE: Final = ("found", "stopped", "survived", "open", "listed")


def reasons(path: Path) -> dict[str, str]:
    """Why nobody could notice a mutant, by its name: a file of tables with ``name``, ``change`` and
    ``why``. ValueError names what is wrong with it."""
    if not path.exists():
        return {}
    found: dict[str, str] = {}
    for number, table in enumerate(tomllib.loads(path.read_text()).get("mutant", []), start=1):
        if not (table.keys() == {"name", "change", "why"} and all(table.values())):
            raise ValueError(f"{path}, table {number}: it needs name, change and why, and no more")
        found[table["name"]] = table["why"]
    return found


def page(
    done: Sequence[Attempts],
    *,
    survey: Survey,
    sound: Sequence[Entry],
    reasons: Mapping[str, str],
    command: str,
) -> str:
    """Markdown. ``sound``: the survey's runs, in which the broker was as it is."""
    fates = [(now, fate(now, survey, reasons)) for now in done]
    counts = Counter(word for _, word in fates)
    effective = sum(counts[word] for word in _EFFECTIVE)
    runs = [entry for now in done for entry in now.entries]
    first = [now.entries[0].found for now in done if now.entries]
    unlisted = effective - counts["listed"]
    lines = [
        "# Generated mutants: what the harness notices",
        "",
        f"Made by `{command}`{commits([*sound, *runs])}; not written by hand. The same command "
        "goes on from the ledger in its store; with a larger number it draws more. Rates come "
        "with their 95% interval (Wilson).",
        "",
        f"{len(fates)} mutants were drawn by seed from the broker's own source, evenly over its "
        "rooms and the ways to change it. One run of each scenario with every place watched told "
        "where each could make a difference; there it was played, one run after another, until a "
        f"run was `invalid` ({len(runs)} runs). Of the {effective} that were reached and changed "
        f"something, or may have, {counts['found']} were found: "
        f"**{rate(counts['found'], effective)}**; without those that nobody could notice "
        f"**{rate(counts['found'], unlisted)}**. What was stopped or is open counts as not found. "
        f"Of the {len(first)} that were played, the first run alone found "
        f"**{rate(sum(first), len(first))}**.",
        "",
        "| fate | mutants | means |",
        "|---|---|---|",
        *(f"| {name} | {counts[name]} | {says} |" for name, says in FATES.items()),
        "",
        *_sound(sound),
        "## Power",
        "",
        "*Alone*, of a scenario: no other could have noticed, as far as the survey saw; of a rule: "
        "no other rule was broken in that run. *Only here*: places of all that there are whose "
        "change makes a difference in this scenario and in no other.",
        "",
        *_by_scenario(fates, survey),
        "",
        *_by_rule(fates),
        "",
        "## Not found",
        "",
        *_not_found(fates, reasons),
        "## Each",
        "",
        "| mutant | change | fate | runs | by | unit test |",
        "|---|---|---|---|---|---|",
        *(_row(now, word) for now, word in sorted(fates, key=_rank)),
    ]
    return "\n".join(lines) + "\n"


_Fated = tuple[Attempts, str]


def _sound(sound: Sequence[Entry]) -> list[str]:
    counts = Counter(e.verdict for e in sound if e.verdict != "skipped")
    lines = [
        f"The survey's runs were sound ones: {counts['valid']} valid, {counts['unknown']} unknown, "
        f"{counts['invalid']} invalid.",
        "",
    ]
    return (
        lines
        + [
            f"- {e.play.scenario}: {e.verdict}: {'; '.join(e.reasons[:2])}"
            for e in sound
            if e.verdict in ("invalid", "unknown")
        ]
        + [""] * any(e.verdict in ("invalid", "unknown") for e in sound)
    )


def _by_scenario(fates: Sequence[_Fated], survey: Survey) -> list[str]:
    played: Counter[str] = Counter()
    found: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for now, _ in fates:
        for entry in now.entries:
            played[entry.play.scenario] += 1
            found[entry.play.scenario] += entry.found
            alone[entry.play.scenario] += entry.found and bool(survey.alone(now.one))
    rows = [
        f"| {s} | {played[s]} | {found[s]} | {alone[s]} | {len(survey.reached.get(s, ()))} "
        f"| {len(survey.differed.get(s, ()))} | {_only(s, survey)} |"
        for s in sorted({*survey.reached, *played}, key=lambda s: (-found[s], s))
    ]
    head = (
        "| scenario | mutants played | found | alone | places reached | would differ | only here |"
    )
    return [head, "|---|---|---|---|---|---|---|", *rows]


def _only(scenario: str, survey: Survey) -> int:
    others = [names for s, names in survey.differed.items() if s != scenario]
    return len(survey.differed.get(scenario, frozenset()).difference(*others))


def _by_rule(fates: Sequence[_Fated]) -> list[str]:
    finds: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    for now, _ in fates:
        for entry in now.entries:
            if entry.found:
                finds.update(entry.rules)
                alone.update(entry.rules if len(entry.rules) == 1 else ())
    order = sorted(finds, key=lambda r: (-finds[r], r))
    rows = [f"| {rule} | {finds[rule]} | {alone[rule]} |" for rule in order]
    return ["| rule | finds | alone |", "|---|---|---|", *rows]


def _not_found(fates: Sequence[_Fated], reasons: Mapping[str, str]) -> list[str]:
    lines: list[str] = []
    for now, word in sorted(fates, key=_rank):
        if word in ("survived", "listed", "open", "stopped"):
            tried = ", ".join(f"{e.play.scenario} ({e.verdict})" for e in now.entries) or "no run"
            lines += [
                f"- **{word}** `{now.one.name}`: `{now.one.says}`. {_of(now)}Played: {tried}."
            ]
            if word == "listed":
                lines[-1] += f" {reasons[now.one.name]}"
    return [*lines, ""] if lines else ["None.", ""]


def _of(now: Attempts) -> str:
    return f"{len(now.left)} runs are left to be tried. " if now.left else ""


def _rank(of: _Fated) -> tuple[int, str]:
    order = ("survived", "open", "stopped", "listed", "found", "equal", "unreached")
    return order.index(of[1]), of[0].one.name


def _row(now: Attempts, word: str) -> str:
    found = next((e for e in now.entries if e.found), None)
    by = f"{found.play.scenario}: {', '.join(found.rules[:2])}" if found else ""
    if word == "stopped":
        by = next((e.reasons[0][:120] for e in now.entries if e.reasons), "")
    unit = next((str(e.extra["unit"]) for e in now.entries if e.extra.get("unit")), "")
    change = now.one.says.replace("|", "\\|")
    cells = (f"`{now.one.name}`", f"`{change}`", word, len(now.entries), by.replace("|", "/"), unit)
    return f"| {' | '.join(map(str, cells))} |"


def sound_entries(entries: Sequence[Entry], digest: str) -> list[Entry]:
    """The survey's runs of the sources of that digest."""
    return [e for e in entries if e.play.bug == WATCHED + digest]
