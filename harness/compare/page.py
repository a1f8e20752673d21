"""The comparison's page: Markdown, one table a question, every figure with its spread.

A figure is the median over the rounds, its range in brackets; a ratio is the median of the rounds'
own ratios (arms of one round met the same machine), its range in brackets as well. Where the range
holds 1 the page says that the rounds do not agree on a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, Final

from harness.compare.figures import Round, read_round
from harness.compare.picture import latency_svg
from harness.compare.rounds import Comparison
from harness.report import units
from harness.report.run_folder import RunFolder

PAGE: Final = "compare.md"
PICTURE: Final = "latency.svg"
Format = Callable[..., str]


class Line:
    """One line of a table. ``of``: the scenario whose rounds it is read from; ``better``: "less",
    "more", or "" when neither is."""

    def __init__(self, label: str, of: str, name: str, write: Format, better: str = "less") -> None:
        self.label, self.of, self.name, self.write, self.better = label, of, name, write, better


def _per_s(value: float | None) -> str:
    return units.count(None if value is None else round(value))


_FLOOD, _ACKS1 = "request-flood", "acks1-truncation"
TABLES: Final[Mapping[str, tuple[str, tuple[Line, ...]]]] = {
    "Control requests": (
        "Round trip of a control request to the flooded broker, sent on a clock and counted from "
        "its planned time; idle is the same before the flood.",
        (
            Line("flooded, p50", _FLOOD, "flooded_p50_ms", units.ms),
            Line("flooded, p99", _FLOOD, "flooded_p99_ms", units.ms),
            Line("flooded, max", _FLOOD, "flooded_max_ms", units.ms),
            Line("idle, p50", _FLOOD, "idle_p50_ms", units.ms),
            Line("idle, p99", _FLOOD, "idle_p99_ms", units.ms),
            Line("controller's own, p50", _FLOOD, "round_trip_p50_ms", units.ms),
            Line("controller's own, p99", _FLOOD, "round_trip_p99_ms", units.ms),
            Line("controller's own, max", _FLOOD, "round_trip_max_ms", units.ms),
        ),
    ),
    "Stale metadata": (
        "From the commit of a leader until brokers told clients of it. Brokers that are not "
        "flooded count as well; they gain nothing.",
        (
            Line("brokers behind, summed", _FLOOD, "stale_time_ms", units.ms),
            Line("commit to cache, p50", _FLOOD, "propagation_p50_ms", units.ms),
            Line("commit to cache, p99", _FLOOD, "propagation_p99_ms", units.ms),
            Line("commit to cache, p99 (a leader demoted)", _ACKS1, "propagation_p99_ms", units.ms),
            Line("stale answers", _FLOOD, "stale_share", units.share),
        ),
    ),
    "Records lost although acknowledged with acks=1": (
        "The flooded broker is demoted while producers write to it. Avoidable: appended after the "
        "LeaderAndIsr had been sent to it. Lawful lag: appended before the next leader was "
        "committed; no control plane can change that.",
        (
            Line("avoidable", _ACKS1, "avoidable", units.count),
            Line("within the clocks' error of it", _ACKS1, "edge", units.count),
            Line("lawful lag", _ACKS1, "before_commit", units.count),
            Line("acknowledged", _ACKS1, "acked_1", units.count, ""),
            Line("cut off by brokers, their own lines", _ACKS1, "cut_records", units.count),
        ),
    ),
    "Availability": (
        "From the commit of a new leader to its first acknowledged produce.",
        (
            Line("first produce, p50", _ACKS1, "first_produce_p50_ms", units.ms),
            Line("first produce, max", _ACKS1, "first_produce_max_ms", units.ms),
        ),
    ),
    "Throughput": (
        "Requests a second that the flood got answered (20 partitions each).",
        (
            Line("request-flood", _FLOOD, "flood_per_s", _per_s, "more"),
            Line("acks1-truncation", _ACKS1, "flood_per_s", _per_s, "more"),
        ),
    ),
}


def write_page(comparison: Comparison) -> Path:
    """Write (again) the page of a stored comparison; answers its path."""
    rounds = _all_rounds(comparison)
    path = comparison.folder / PAGE
    path.write_text(render(comparison, rounds))
    (comparison.folder / PICTURE).write_text(latency_svg([r for r in rounds if r.probes]))
    return path


def publish(comparison: Comparison, out: Path) -> Path:
    """The page as ``out``, to stand alone: its picture beside it, no links into a store."""
    rounds = _all_rounds(comparison)
    picture = out.with_suffix(".svg")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(comparison, rounds, picture=picture.name, published=True))
    picture.write_text(latency_svg([r for r in rounds if r.probes]))
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
    lines = [f"# {_title(comparison)}", "", *_how(comparison, rounds), ""]
    lines += [f"![Control requests under a flood, every round]({picture})", ""]
    for title, (says, table) in TABLES.items():
        body = [row for line in table if (row := _row(line, arms, rounds)) is not None]
        if body:
            lines += [f"## {title}", "", says, "", *_header(arms), *body, ""]
            lines += [*_sentences(title, table[0], arms, rounds), ""]
    if same := _undecided(arms, rounds):
        lines += ["## Where the rounds show no difference", "", *same, ""]
    lines += ["## What stands behind the figures", "", *_BEHIND, ""]
    lines += ["## Rounds", "", *_runs(comparison, published), ""]
    if published:
        lines += ["## To repeat it", "", *_repeat(comparison), ""]
    return "\n".join(lines)


_BEHIND: Final = (
    "- The flood: 640 connections, dialled beforehand, each with one produce request of 20 "
    "partitions in flight, acks=1, at one broker whose queue holds 500 requests. Fewer "
    "connections, lighter requests or acks=all with replicas leave the queue half empty and show "
    "nothing.",
    "- With one queue a control request waits for the whole of it: queued requests over requests "
    "handled a second. What is left with a queue of its own is the request's own work and the "
    "competition for processors.",
    "- The controller's own requests go to all brokers, two of which are not flooded: their "
    "medians say little.",
    "- Idle tails are the machine's: brokers run in small, freshly started virtual machines "
    "(384 MiB, first-tier compiler only) and share the processors with the load and each other.",
    "- A lost record is one that was acknowledged and is not in the final log. Each one was found "
    "in a range that its broker said it had truncated; a run with one that was not is `invalid`. "
    "Brokers cut more than was acknowledged: answers that never arrived.",
    "- Appended when: the record's own log append time, milliseconds, tied to the monotonic clock "
    "with its error (run.json); what lies within the error of the sending is counted apart.",
)


def _undecided(arms: Sequence[str], rounds: Sequence[Round]) -> list[str]:
    """Figures of which the rounds do not all say the same, for each pair of arms."""
    found = []
    for title, (_, table) in TABLES.items():
        for line in table:
            for a, b in compared(arms):
                left, right = _values(line, a, rounds), _values(line, b, rounds)
                both = [(left[n], right[n]) for n in left.keys() & right.keys()]
                agreed = all(x > y for x, y in both) or all(x < y for x, y in both)
                if len(both) > 1 and not agreed:
                    pair = f"{_short(arms, a)} and {_short(arms, b)}"
                    found.append(f"- {title}: {line.label} ({pair}).")
    return found


def _repeat(comparison: Comparison) -> list[str]:
    scenarios = " ".join(f"--scenario={name}" for name in comparison.scenarios)
    seed = min(int(entry["seed"]) for entry in comparison.runs)
    return [
        "```",
        "make setup kafka",
        f"biplane compare --sut={','.join(comparison.suts)} "
        f"--planes={','.join(comparison.planes)} {scenarios} --rounds={comparison.rounds} "
        f"--seed={seed} --into=store/compare/again --out=docs/again.md",
        "```",
    ]


def _all_rounds(comparison: Comparison) -> list[Round]:
    rounds: list[Round] = []
    for entry in comparison.runs:
        folder = comparison.folder / entry["folder"]
        rounds += read_round(folder, entry["scenario"], entry["round"])
    return rounds


def _title(comparison: Comparison) -> str:
    systems = units.listed(list(comparison.suts))
    return f"{systems}: {' against '.join(comparison.planes)}"


def _how(comparison: Comparison, rounds: Sequence[Round]) -> list[str]:
    facts = RunFolder.open(comparison.folder / comparison.runs[0]["folder"]).run
    versions = {str(a.get("sut_version")) for a in (facts.get("arms") or {}).values()}
    settings = facts.get("settings") or {}
    profile = settings.get("profile") or {}
    machine = facts.get("machine") or {}
    verdicts = {r.verdict for r in rounds}
    return [
        f"{units.words(comparison.rounds, 'round')}, arms in turn and their order turned each "
        f"round; version {units.listed(sorted(versions))}; three brokers, ZooKeeper and toxiproxy "
        f"on one machine ({machine.get('system', 'unknown')}, "
        f"{machine.get('processors', '?')} processors, shared with the load).",
        f"A trial: {profile.get('warmup_s')} s of warm-up, {profile.get('chaos_s')} s with faults. "
        f"Verdicts of the runs: {units.listed(sorted(verdicts))}.",
        "A figure is the median over the rounds, its range in brackets; a ratio is the median of "
        "the rounds' own.",
    ]


def _arms(comparison: Comparison, rounds: Sequence[Round]) -> list[str]:
    present = {r.arm for r in rounds}
    order = [f"{sut}-{planes}" for sut in comparison.suts for planes in comparison.planes]
    return [arm for arm in order if arm in present]


def _short(arms: Sequence[str], arm: str) -> str:
    systems = {a.rsplit("-", 1)[0] for a in arms}
    return arm.rsplit("-", 1)[1] if len(systems) == 1 else arm


def _header(arms: Sequence[str]) -> list[str]:
    names = [_short(arms, arm) for arm in arms]
    ratios = [f"{_short(arms, a)} / {_short(arms, b)}" for a, b in compared(arms)]
    cells = ["", *names, *ratios]
    return [f"| {' | '.join(cells)} |", f"|{'---|' * len(cells)}"]


def compared(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Arms that differ in one thing only: the planes, or the system."""
    pairs = []
    for a, b in combinations(arms, 2):
        (sut_a, planes_a), (sut_b, planes_b) = a.rsplit("-", 1), b.rsplit("-", 1)
        if (sut_a == sut_b) != (planes_a == planes_b):
            pairs.append((a, b))
    return pairs


def _row(line: Line, arms: Sequence[str], rounds: Sequence[Round]) -> str | None:
    by_arm = {arm: _values(line, arm, rounds) for arm in arms}
    if not any(by_arm.values()):
        return None
    cells = [_spread(list(by_arm[arm].values()), line.write) for arm in arms]
    cells += [_spread(ratios(by_arm[a], by_arm[b]), units.times) for a, b in compared(arms)]
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


def _sentences(title: str, line: Line, arms: Sequence[str], rounds: Sequence[Round]) -> list[str]:
    """What the first line of a table amounts to, for each pair of arms."""
    said = []
    for a, b in compared(arms):
        left, right = _values(line, a, rounds), _values(line, b, rounds)
        if not left or not right:
            continue
        names = (_short(arms, a), _short(arms, b))
        ends = f"{line.write(median(left.values()))} in {names[0]}, " + (
            f"{line.write(median(right.values()))} in {names[1]}"
        )
        each = ratios(left, right)
        said.append(f"- {line.label}: {ends}; {_agreement(each, left, right, names)}.")
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
        lines.append(
            f"| {entry['round'] + 1} | {entry['scenario']} | {entry['seed']} | "
            f"{entry['verdict']} | {run} |"
        )
    return lines
