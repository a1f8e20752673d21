"""What notices a generated mutant: which unit tests, which scenario and rule; and what survives.

    unbuilt     the mutated package does not import
    unreached   no run came by the mutated place
    equal       it was reached and made no difference (never another value there)
    found       a run was `invalid`; ``rules`` say by which rule
    noticed     no run was valid or invalid: all `unknown`, as when the cluster does not even start
    survived    it was reached, made a difference (or left an effect out), and a run was `valid`

Unit tests are asked besides (``--unit``): those of the mutant's room, with the mutated package in
the place of the real one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.run import Outcome
from harness.studies.ledger import Budget, Entry, Ledger, Play, entry_of
from harness.studies.mutation import overlay
from harness.studies.mutation.overlay import Generated

PlayIt = Callable[[Play], Outcome]
FIRST: Final[Mapping[str, tuple[str, ...]]] = {
    "nodes/core": ("broker-restart", "zombie-broker", "leader-handover"),
    "nodes/replication": ("broker-restart", "leader-handover", "returning-follower"),
    "nodes/controller": ("broker-restart", "controller-pause", "topic-deletion"),
    "nodes/log": ("log-recovery", "broker-restart", "leader-handover"),
}
"""By room, the scenarios that are likeliest to notice: played first."""
_UNIT: Final[Mapping[str, str]] = {
    "nodes/core": "tests/nodes/core",
    "nodes/replication": "tests/nodes/replication",
    "nodes/controller": "tests/nodes/controller",
    "nodes/log": "tests/nodes/log",
}
_UNIT_TIMEOUT_S: Final = 300
SOURCES: Final = "BIPLANE_NODES"


def order(one: Generated, scenarios: Sequence[str]) -> list[str]:
    """The scenarios, the likeliest first."""
    first = FIRST[str(Path(one.path).parent)]
    return [*(s for s in first if s in scenarios), *(s for s in scenarios if s not in first)]


def hunt(
    mutants: Sequence[Generated],
    *,
    root: Path,
    scratch: Path,
    scenarios: Sequence[str],
    seeds: Sequence[int],
    ledger: Ledger,
    play: PlayIt,
    budget: Budget,
    unit: bool = False,
) -> Iterator[tuple[Generated, list[Entry]]]:
    """Play each until it is found; yields each that is done. Stops when the budget is spent."""
    for one in mutants:
        folder = overlay.lay(root, one, scratch / one.name.replace("/", "-").replace(":", "-"))
        entries: list[Entry] = []
        killed = _unit_tests(root, folder, one) if unit else None
        for seed in seeds:
            for scenario in order(one, scenarios):
                if any(e.found for e in entries):
                    break
                this = Play(scenario=scenario, seed=seed, planes="dual", bug=one.name)
                entry = ledger.get(this)
                if entry is None:
                    if budget.is_spent:
                        return
                    entry = _played(this, folder, play, killed)
                    ledger.add(entry)
                entries.append(entry)
        shutil.rmtree(folder, ignore_errors=True)
        yield one, entries


def _played(this: Play, folder: Path, play: PlayIt, killed: str | None) -> Entry:
    before = os.environ.get(SOURCES)
    os.environ[SOURCES] = str(folder)
    try:
        outcome = play(this)
    finally:
        os.environ.pop(SOURCES, None)
        if before is not None:
            os.environ[SOURCES] = before
    extra = {what: overlay.was(folder, what) for what in ("reached", "differed")}
    return entry_of(this, outcome, {**extra, "unit": killed})


def fate(one: Generated, entries: Sequence[Entry]) -> str:
    """One word of the module's docstring."""
    if any(e.found for e in entries):
        return "found"
    if not any(e.extra.get("reached") for e in entries):
        unknown = all(e.verdict == "unknown" for e in entries)
        return "noticed" if entries and unknown else "unreached"
    if all(e.verdict == "unknown" for e in entries):
        return "noticed"
    if not one.is_effect and not any(e.extra.get("differed") for e in entries):
        return "survived" if _blind(one) else "equal"
    return "survived"


def _blind(one: Generated) -> bool:
    """Whether the place cannot tell if it made a difference: its operands call something."""
    return "(" in one.site.says.partition("  ->  ")[0]


def _unit_tests(root: Path, folder: Path, one: Generated) -> str | None:
    """The first test of the mutant's room that fails; None when all pass."""
    tests = folder / "tests"
    if not tests.exists():
        tests.symlink_to(root / "tests", target_is_directory=True)
    shutil.copy(root / "pyproject.toml", folder / "pyproject.toml")
    where = _UNIT[str(Path(one.path).parent)]
    command = [sys.executable, "-m", "pytest", where, "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_UNIT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{where}: not done in {_UNIT_TIMEOUT_S} s"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if failed:
        return failed[1]
    return None if done.returncode == 0 else f"{where}: exit code {done.returncode}"


# -- the page -----------------------------------------------------------------------------------


def page(done: Sequence[tuple[Generated, Sequence[Entry]]], command: str) -> str:
    """Markdown: fates, what each rule found that nothing else did, and every survivor."""
    fates = [(one, entries, fate(one, entries)) for one, entries in done]
    counts = {name: sum(f == name for *_, f in fates) for name in _FATES}
    effective = counts["found"] + counts["noticed"] + counts["survived"]
    found = counts["found"] + counts["noticed"]
    lines = [
        "# Generated mutants: what the harness notices",
        "",
        f"Made by `{command}`; not written by hand. {len(fates)} mutants were drawn from the "
        "broker's source and played until a run was `invalid`, at most in all scenarios and seeds. "
        f"Of those that were reached and changed anything, {found} of {effective} were noticed.",
        "",
        "| fate | mutants | means |",
        "|---|---|---|",
        *(f"| {name} | {counts[name]} | {says} |" for name, says in _FATES.items()),
        "",
        "## By rule",
        "",
        "| rule | finds | finds alone |",
        "|---|---|---|",
        *_by_rule(fates),
        "",
        "## Each",
        "",
        "| mutant | change | fate | by | unit test |",
        "|---|---|---|---|---|",
        *(_row(one, entries, word) for one, entries, word in sorted(fates, key=_rank)),
    ]
    return "\n".join(lines) + "\n"


_FATES: Final[Mapping[str, str]] = {
    "found": "a run was invalid",
    "noticed": "every run was unknown: the cluster did not start, or proved nothing",
    "survived": "it was reached, changed something, and runs were valid",
    "equal": "it was reached and never made a difference",
    "unreached": "no run came by",
}


def _rank(of: tuple[Generated, Sequence[Entry], str]) -> tuple[int, str]:
    return (list(_FATES).index(of[2]) if of[2] != "survived" else -1, of[0].name)


def _by_rule(fates: Sequence[tuple[Generated, Sequence[Entry], str]]) -> list[str]:
    finds: dict[str, int] = {}
    alone: dict[str, int] = {}
    for _, entries, _ in fates:
        rules = {rule for e in entries if e.found for rule in e.rules}
        for rule in rules:
            finds[rule] = finds.get(rule, 0) + 1
            alone[rule] = alone.get(rule, 0) + (len(rules) == 1)
    order = sorted(finds, key=lambda r: (-finds[r], r))
    return [f"| {rule} | {finds[rule]} | {alone[rule]} |" for rule in order]


def _row(one: Generated, entries: Sequence[Entry], word: str) -> str:
    last = entries[-1] if entries else None
    by = f"{last.play.scenario}: {', '.join(last.rules[:2])}" if last and last.found else ""
    if word == "noticed" and last:
        by = last.reasons[0][:120] if last.reasons else ""
    unit = next((str(e.extra["unit"]) for e in entries if e.extra.get("unit")), "")
    change = one.says.replace("|", "\\|")
    return f"| `{one.name}` | `{change}` | {word} | {by.replace('|', '/')} | {unit} |"
