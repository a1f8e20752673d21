"""The comparison's page: Markdown, one table a question, every figure with its spread.

A figure is the median over the rounds, its range in brackets; a ratio is the median of the rounds'
own ratios (arms of one round met the same machine), its range in brackets as well. Where the range
holds 1 the page says that the rounds do not agree on a difference. Rounds that were played without
their floods stand beside the others, as the floor below which no control plane can bring a figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, Final

from harness.report import units
from harness.report.run_folder import RunFolder
from harness.studies.compare.figures import Round, read_round
from harness.studies.compare.picture import latency_svg
from harness.studies.compare.rounds import Comparison
from harness.studies.compare.tables import BEHIND, TABLES, Format, Line

PAGE: Final = "compare.md"
PICTURE: Final = "latency.svg"


def write_page(comparison: Comparison) -> Path:
    """Write (again) the page of a stored comparison; answers its path."""
    rounds = _all_rounds(comparison)
    path = comparison.folder / PAGE
    path.write_text(render(comparison, rounds))
    (comparison.folder / PICTURE).write_text(
        latency_svg([r for r in rounds if r.probes and not r.idle])
    )
    return path


def publish(comparison: Comparison, out: Path) -> Path:
    """The page as ``out``, to stand alone: its picture beside it, no links into a store."""
    rounds = _all_rounds(comparison)
    picture = out.with_suffix(".svg")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(comparison, rounds, picture=picture.name, published=True))
    picture.write_text(latency_svg([r for r in rounds if r.probes and not r.idle]))
    return out


def render(
    comparison: Comparison,
    rounds: Sequence[Round],
    *,
    picture: str = PICTURE,
    published: bool = False,
) -> str:
    """The page's text."""
    arms = _arms(comparison, rounds)
    idle = [r for r in rounds if r.idle]
    rounds = [r for r in rounds if not r.idle]
    lines = [f"# {_title(comparison)}", "", *_how(comparison, rounds + idle), ""]
    lines += [*_in_short(arms, rounds, idle), ""]
    lines += [f"![Control requests under a flood, every round]({picture})", ""]
    for title, (says, table) in TABLES.items():
        body = [
            row
            for line in table
            if not (line.floor and idle) and (row := _row(line, arms, rounds, idle)) is not None
        ]
        if body:
            lines += [f"## {title}", "", says, "", *_header(arms, idle), *body, ""]
            for line in table:
                lines += _sentences(line, arms, rounds, idle) if line.said else []
            lines += [*_agreement_of_losses(table, rounds), ""]
    if same := _undecided(arms, rounds, floor=not idle):
        lines += ["## Where the rounds show no difference", "", *same, ""]
    lines += ["## What stands behind the figures", "", *BEHIND, ""]
    lines += ["## Rounds", "", *_runs(comparison, published), ""]
    if published:
        lines += ["## To repeat it", "", *_repeat(comparison), ""]
    return "\n".join(lines)


def _in_short(arms: Sequence[str], rounds: Sequence[Round], idle: Sequence[Round]) -> list[str]:
    """One line a question and pair of arms: medians, and how many rounds say the same."""
    body = []
    for title, (_, table) in TABLES.items():
        for line in table:
            for a, b in compared(arms) if line.said else ():
                left, right = _values(line, a, rounds), _values(line, b, rounds)
                both = [(left[n], right[n]) for n in sorted(left.keys() & right.keys())]
                if not both:
                    continue
                each = ratios(left, right)
                cells = [
                    f"{title}: {line.label}",
                    f"{line.write(median(left.values()))} in {_short(arms, a)}",
                    f"{line.write(median(right.values()))} in {_short(arms, b)}",
                    units.times(median(each)) if each else units.NOT_MEASURED,
                    f"{sum(x > y for x, y in both)} of {len(both)}",
                ]
                if idle:
                    floors = [[*_values(line, arm, idle).values()] for arm in (a, b)]
                    cells.append(", ".join(_middle(line, floor) for floor in floors))
                body.append(f"| {' | '.join(cells)} |")
    heads = ["", "", "", "ratio", "rounds with the first higher"] + ["without the flood"] * bool(
        idle
    )
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *body] if body else []


def _middle(line: Line, values: Sequence[float]) -> str:
    return line.write(median(values) if values else None)


def _undecided(arms: Sequence[str], rounds: Sequence[Round], floor: bool) -> list[str]:
    """Figures of which the rounds do not all say the same, for each pair of arms."""
    found = []
    for title, (_, table) in TABLES.items():
        for line in table:
            for a, b in compared(arms) if floor or not line.floor else ():
                left, right = _values(line, a, rounds), _values(line, b, rounds)
                both = [(left[n], right[n]) for n in left.keys() & right.keys()]
                if len(both) > 1 and not _all_differ(both):
                    higher = sum(x > y for x, y in both)
                    lower = sum(x < y for x, y in both)
                    found.append(
                        f"- {title}: {line.label} ({_short(arms, a)} higher in {higher}, "
                        f"{_short(arms, b)} in {lower} of {units.words(len(both), 'round')})."
                    )
    return found


def _all_differ(both: Sequence[tuple[float, float]]) -> bool:
    return all(x > y for x, y in both) or all(x < y for x, y in both)


def _agreement_of_losses(table: Sequence[Line], rounds: Sequence[Round]) -> list[str]:
    """Whether what is lost is what brokers said they cut, over all rounds and arms."""
    if not any(line.name == "lost_uncut" for line in table):
        return []
    lost = [r.values.get("lost") or 0.0 for r in rounds]
    uncut = [r.values.get("lost_uncut") or 0.0 for r in rounds]
    inside = sum(lost) - sum(uncut)
    return [
        f"- Of all {units.count(sum(lost))} lost records of all rounds, {units.count(inside)} lie "
        "in a range that a broker wrote down as truncated."
    ]


def _repeat(comparison: Comparison) -> list[str]:
    scenarios = " ".join(f"--scenario={name}" for name in comparison.scenarios)
    idle = comparison.rounds(idle=True)
    return [
        "```",
        "make setup kafka",
        f"biplane compare --sut={','.join(comparison.suts)} "
        f"--planes={','.join(comparison.planes)} {scenarios} --rounds={comparison.rounds()} "
        f"{f'--idle={idle} ' * bool(idle)}--seed={comparison.seed} --into=store/compare/again "
        "--out=docs/again.md",
        "```",
        "",
        "A comparison can be made in pieces, as this one was: the same command with `--rounds=1` "
        "and one scenario continues what `--into` holds; `--rounds=0 --out=...` writes the page "
        "again.",
    ]


def _all_rounds(comparison: Comparison) -> list[Round]:
    rounds: list[Round] = []
    for entry in comparison.runs:
        folder = comparison.folder / entry["folder"]
        idle = bool(entry.get("idle"))
        rounds += read_round(folder, entry["scenario"], entry["round"], idle)
    return rounds


def _title(comparison: Comparison) -> str:
    if len(comparison.planes) > 1:
        planes = " against ".join(comparison.planes)
        return f"{units.listed(list(comparison.suts))}: {planes} plane, measured (KIP-291)"
    return f"{' against '.join(comparison.suts)}, {comparison.planes[0]} plane, measured"


def _how(comparison: Comparison, rounds: Sequence[Round]) -> list[str]:
    facts = RunFolder.open(comparison.folder / comparison.runs[0]["folder"]).run
    versions = {str(a.get("sut_version")) for a in (facts.get("arms") or {}).values()}
    settings = facts.get("settings") or {}
    profile = settings.get("profile") or {}
    machine = facts.get("machine") or {}
    verdicts = {r.verdict for r in rounds}
    idle = comparison.rounds(idle=True)
    floor = f" and {units.words(idle, 'round')} without floods" if idle else ""
    chance = 2 ** (min(_played(comparison).values(), default=1) - 1)
    by_chance = f", which chance alone would do once in {chance} times" if chance > 1 else ""
    return [
        f"{_rounds_of_each(comparison)}{floor}, arms in turn and "
        f"their order turned each round; version {units.listed(sorted(versions))}; three brokers, "
        "ZooKeeper and toxiproxy "
        f"on one machine ({machine.get('system', 'unknown')}, "
        f"{machine.get('processors', '?')} processors, shared with the load).",
        f"A trial: {profile.get('warmup_s')} s of warm-up, {profile.get('chaos_s')} s with faults. "
        f"Verdicts of the runs: {units.listed(sorted(verdicts))}.",
        "A figure is the median over the rounds, its range in brackets; a ratio is the median of "
        "the rounds' own, without those in which the second arm has nothing. Arms are said to "
        f"differ when all rounds agree{by_chance}.",
    ]


def _played(comparison: Comparison) -> dict[str, int]:
    """Rounds with floods, by scenario; scenarios that have none are left out."""
    counts = {name: comparison.played(name, idle=False) for name in comparison.scenarios}
    return {name: count for name, count in counts.items() if count}


def _rounds_of_each(comparison: Comparison) -> str:
    counts = _played(comparison)
    if len(set(counts.values())) < 2:
        return f"{units.words(comparison.rounds(), 'round')} of each scenario"
    each = [f"{units.words(count, 'round')} of {name}" for name, count in counts.items()]
    return units.listed(each)


def _arms(comparison: Comparison, rounds: Sequence[Round]) -> list[str]:
    present = {r.arm for r in rounds}
    order = [f"{sut}-{planes}" for sut in comparison.suts for planes in comparison.planes]
    return [arm for arm in order if arm in present]


def _short(arms: Sequence[str], arm: str) -> str:
    systems = {a.rsplit("-", 1)[0] for a in arms}
    return arm.rsplit("-", 1)[1] if len(systems) == 1 else arm


def _header(arms: Sequence[str], idle: Sequence[Round]) -> list[str]:
    names = [_short(arms, arm) for arm in arms]
    pairs = [f"{_short(arms, a)} / {_short(arms, b)}" for a, b in compared(arms)]
    floors = [f"{name}, no flood" for name in names] if idle else []
    cells = ["", *names, *pairs, *floors]
    return [f"| {' | '.join(cells)} |", f"|{'---|' * len(cells)}"]


def compared(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Arms that differ in one thing only: the planes, or the system."""
    pairs = []
    for a, b in combinations(arms, 2):
        (sut_a, planes_a), (sut_b, planes_b) = a.rsplit("-", 1), b.rsplit("-", 1)
        if (sut_a == sut_b) != (planes_a == planes_b):
            pairs.append((a, b))
    return pairs


def _row(
    line: Line, arms: Sequence[str], rounds: Sequence[Round], idle: Sequence[Round]
) -> str | None:
    by_arm = {arm: _values(line, arm, rounds) for arm in arms}
    if not any(by_arm.values()):
        return None
    cells = [_spread(list(by_arm[arm].values()), line.write) for arm in arms]
    cells += [_spread(ratios(by_arm[a], by_arm[b]), units.times) for a, b in compared(arms)]
    if idle:
        cells += [_spread(list(_values(line, arm, idle).values()), line.write) for arm in arms]
    return f"| {line.label} | {' | '.join(cells)} |"


def _values(line: Line, arm: str, rounds: Sequence[Round]) -> dict[int, float]:
    found: dict[int, float] = {}
    for one in rounds:
        value = one.values.get(line.name)
        if one.arm == arm and one.scenario == line.of and value is not None:
            found[one.number] = value
    return found


def ratios(left: Mapping[int, float], right: Mapping[int, float]) -> list[float]:
    """Round by round; a round in which the right one is nothing has no ratio."""
    return [left[n] / right[n] for n in sorted(left.keys() & right.keys()) if right[n]]


def _spread(values: Sequence[float], write: Format) -> str:
    if not values:
        return units.NOT_MEASURED
    low, high = min(values), max(values)
    middle = write(median(values))
    return middle if len(values) == 1 or low == high else f"{middle} [{write(low)}, {write(high)}]"


def _sentences(
    line: Line, arms: Sequence[str], rounds: Sequence[Round], idle: Sequence[Round]
) -> list[str]:
    """What a line amounts to, for each pair of arms."""
    said = []
    for a, b in compared(arms):
        left, right = _values(line, a, rounds), _values(line, b, rounds)
        if not left or not right:
            continue
        names = (_short(arms, a), _short(arms, b))
        floors = [_values(line, arm, idle) for arm in (a, b)]
        calm = (
            f" Without the flood: {line.write(median(floors[0].values()))} and "
            f"{line.write(median(floors[1].values()))}."
            if all(floors)
            else ""
        )
        said.append(
            f"- {line.label}: {line.write(median(left.values()))} in {names[0]}, "
            f"{line.write(median(right.values()))} in {names[1]}; "
            f"{_agreement(ratios(left, right), left, right, names)}.{calm}"
        )
    return said


def _agreement(
    each: Sequence[float], left: Mapping[int, float], right: Mapping[int, float], names: Any
) -> str:
    pairs = [(left[n], right[n]) for n in sorted(left.keys() & right.keys())]
    if pairs and all(a > b for a, b in pairs):
        by = f", {units.times(median(each))} at the median" if each else ""
        return f"{names[0]} is higher in every round{by}"
    if pairs and all(a < b for a, b in pairs):
        by = f", {units.times(1 / median(each))} at the median" if each and median(each) else ""
        return f"{names[1]} is higher in every round{by}"
    return "the rounds do not agree on a difference"


def _runs(comparison: Comparison, published: bool) -> list[str]:
    lines = ["| round | scenario | seed | verdict | run |", "|---|---|---|---|---|"]
    for entry in comparison.runs:
        folder = str(entry["folder"])
        run = Path(folder).name if published else f"[report]({folder}/report.html)"
        number = f"{entry['round'] + 1}{', no flood' if entry.get('idle') else ''}"
        lines.append(
            f"| {number} | {entry['scenario']} | {entry['seed']} | {entry['verdict']} | {run} |"
        )
    return lines
