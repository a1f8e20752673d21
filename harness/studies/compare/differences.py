"""Two systems under the same plans, laid side by side: where they differ, one of them is wrong.

    biplane run ... --sut=dualplane,kafka-zk --store=DIR     every scenario, all arms in one run
    biplane differences DIR --notes docs/kafka-differences.toml --out docs/kafka-differences.md

For every scenario: the verdict of each arm, then every key figure of each arm and, for each plane
mode, the first system's over the second's. A figure beyond `APART` (either way) is a difference and
wants a note: what it comes from, and Kafka's source as witness. Notes are kept in a TOML file by
figures, because values change with each run and reasons do not; a difference without one is listed
at the end as unexplained, and so is a note that nothing called for: it may have had its time.
What was seen to differ in no key figure is kept there too, with ``seen`` in the place of figures.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.report import units
from harness.report.key_figures import GROUPS, KeyFigure, ratio, value
from harness.report.run_folder import RunFolder
from harness.settings import SettingsError

APART: Final = 2.0
"""Two systems on one noisy machine: a smaller ratio of single runs says nothing."""
_LEAST: Final[Mapping[str, float]] = {"count": 20.0, "ms": 10.0, "share": 0.005}
"""Figures that are smaller on both sides are noise whatever their ratio: a share below this is a
handful of the thousand operations of a short run."""


@dataclass(frozen=True, slots=True)
class Note:
    """``figures``: each "<group>/<label>", or "verdict"; ``scenario``: "" for all. ``seen``: what
    differs instead, when no figure shows it."""

    figures: tuple[str, ...]
    says: str
    witness: str
    scenario: str = ""
    seen: str = ""

    @property
    def title(self) -> str:
        """The figures, those of one group together; or what was seen."""
        if self.seen:
            return self.seen + (f" ({self.scenario})" if self.scenario else "")
        groups: dict[str, list[str]] = {}
        for figure in self.figures:
            group, _, label = figure.rpartition("/")
            groups.setdefault(group, []).append(label)
        named = [f"{g}: {'; '.join(labels)}".removeprefix(": ") for g, labels in groups.items()]
        return " and ".join(named) + (f" ({self.scenario})" if self.scenario else "")


@dataclass(slots=True)
class _Found:
    """Differences that were met, in order, and which notes were used."""

    explained: dict[Note, None] = field(default_factory=dict)
    unexplained: list[str] = field(default_factory=list)


def load_notes(path: Path) -> list[Note]:
    """Raises `SettingsError` naming file and entry."""
    try:
        entries = tomllib.loads(path.read_text()).get("note", [])
        return [
            Note(
                figures=() if "seen" in e else _listed(e["figure"]),
                says=str(e["says"]),
                witness=str(e["witness"]),
                scenario=str(e.get("scenario", "")),
                seen=str(e.get("seen", "")),
            )
            for e in entries
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path}: {error!r}; allowed: [[note]] tables with figure (or seen), says and witness"
        ) from error


def _listed(names: Any) -> tuple[str, ...]:
    return tuple(map(str, names)) if isinstance(names, list) else (str(names),)


def write_differences(store: Path, notes: Sequence[Note], out: Path) -> Path:
    """The page of the newest run of each scenario below ``store`` that had two systems."""
    runs = [run for run in _newest(store) if len(_systems(run)) == 2]
    if not runs:
        raise SettingsError(f"{store}: no run of two systems in it; see `biplane run --sut=a,b`")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(runs, notes))
    return out


def render(runs: Sequence[RunFolder], notes: Sequence[Note]) -> str:
    """The page's text."""
    first, second = _systems(runs[0])
    versions = {
        str(facts.get("sut")): str(facts.get("sut_version"))
        for facts in (runs[0].run.get("arms") or {}).values()
    }
    lines = [
        f"# {first} ({versions.get(first)}) and {second} ({versions.get(second)})",
        "",
        "Made by `biplane differences`; every scenario was run once, all arms with the same plan.",
        f"A ratio is {first} over {second} in one plane mode. Beyond {APART:g} either way "
        "it counts as a difference and is explained below, or listed as unexplained.",
        "",
    ]
    found = _Found()
    for run in runs:
        lines += [*_scenario(run, first, second, notes, found), ""]
    lines += ["## What the differences come from", ""]
    lines += [
        f"- **{n.title}**: {n.says} Witness: {n.witness}" for n in notes if n in found.explained
    ]
    if not found.explained:
        lines.append("Nothing that was seen here has a note.")
    besides = [n for n in notes if n.seen]
    if besides:
        lines += ["", "## Seen besides the figures", ""]
        lines += [f"- **{n.title}**: {n.says} Witness: {n.witness}" for n in besides]
    lines += ["", "## Unexplained", ""]
    lines += [f"- {text}" for text in found.unexplained] or ["None."]
    idle = [n.title for n in notes if not n.seen and n not in found.explained]
    if idle:
        lines += ["", f"Not needed by these runs: the notes on {'; '.join(idle)}."]
    return "\n".join([*lines, ""])


def _newest(store: Path) -> list[RunFolder]:
    """The last run of each scenario, by the name of its folder."""
    latest: dict[str, Path] = {}
    for path in sorted(store.glob("*/*/results.json")):
        latest[path.parent.parent.name] = path.parent
    return [RunFolder.open(folder) for _, folder in sorted(latest.items())]


def _systems(run: RunFolder) -> list[str]:
    facts = (run.run.get("arms") or {}).values()
    return list(dict.fromkeys(str(f.get("sut")) for f in facts))


def arm_verdict(results: Mapping[str, Any], arm: str) -> str:
    """One arm's share in the verdict: whether a violation, or a doubt, is its own."""
    for check in (results.get("checks") or {}).values():
        if any(v.get("arm") == arm for v in check.get("violations") or []):
            return "invalid"
    if results.get("verdict") == "unknown":
        said = [str(r) for r in results.get("reasons") or []]
        others = [a for a in results.get("arms") or {} if a != arm]
        named = [r for r in said if any(f"{a}," in r or f"{a}:" in r for a in [arm, *others])]
        if len(named) < len(said) or any(arm in r for r in said):
            return "unknown"
    return "valid"


def _scenario(
    run: RunFolder, first: str, second: str, notes: Sequence[Note], found: _Found
) -> list[str]:
    arms = dict(run.run.get("arms") or {})
    name = str(run.run.get("scenario"))
    modes = list(dict.fromkeys(str(f.get("planes")) for f in arms.values()))
    pairs = [
        (f"{first}-{m}", f"{second}-{m}")
        for m in modes
        if f"{first}-{m}" in arms and f"{second}-{m}" in arms
    ]
    order = [arm for pair in pairs for arm in pair]
    heads = ["", *order, *(f"ratio, {left.rsplit('-', 1)[1]}" for left, _ in pairs)]
    verdicts = {arm: arm_verdict(run.results, arm) for arm in order}
    lines = [
        f"## {name}",
        "",
        f"Seed {run.run.get('seed')}. {run.run.get('conjecture')}",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        f"| verdict | {' | '.join(verdicts[a] for a in order)} |{' |' * len(pairs)}",
    ]
    for left, right in pairs:
        if verdicts[left] != verdicts[right]:
            _meet(
                found, notes, "verdict", name, f"{left} {verdicts[left]}, {right} {verdicts[right]}"
            )
    for group, figures in GROUPS.items():
        for figure in figures:
            lines += _figure(run.results, name, group, figure, order, pairs, notes, found)
    lines += ["", *(f"- {reason.splitlines()[0]}" for reason in run.results.get("reasons") or [])]
    return lines


def _figure(
    results: Mapping[str, Any],
    scenario: str,
    group: str,
    figure: KeyFigure,
    order: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    notes: Sequence[Note],
    found: _Found,
) -> list[str]:
    values = {arm: value(results, arm, figure.path) for arm in order}
    if all(v is None for v in values.values()):
        return []
    ratios = []
    for left, right in pairs:
        share = ratio(values[left], values[right]) if figure.compared else None
        ratios.append(units.times(share))
        if figure.compared and _apart(figure, values[left], values[right]):
            text = (
                f"{figure.write(values[left])} in {left}, {figure.write(values[right])} in {right}"
            )
            _meet(found, notes, f"{group}/{figure.label}", scenario, text)
    cells = [*(figure.write(values[arm]) for arm in order), *ratios]
    return [f"| {group}: {figure.label} | {' | '.join(cells)} |"]


def _apart(figure: KeyFigure, left: float | None, right: float | None) -> bool:
    """Whether two figures differ by more than noise can."""
    if left is None or right is None:
        return (left is None) != (right is None)
    if max(left, right) < _LEAST.get(figure.write.__name__, 0.0):
        return False
    low, high = sorted((left, right))
    return high > APART * low


def _meet(found: _Found, notes: Sequence[Note], figure: str, scenario: str, text: str) -> None:
    for note in notes:
        if figure in note.figures and note.scenario in ("", scenario):
            found.explained[note] = None
            return
    found.unexplained.append(f"{scenario}, {figure}: {text}")
