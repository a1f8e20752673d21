"""`biplane guarantees`: every promise that the checkers hold a system to, on one page.

Made from what the code says of itself: each promise's `PROMISE` (`checkers.promises`), the
scenarios that ask for it, and the planted bugs that it is to find (`nodes.mutants`). Which field of
which answer they judge is declared (`harness.studies.answers`). Nothing else on the page is written
by hand; a test holds ``docs/guarantees.md`` to it. Whether they are found, and how often, is
measured by `biplane mutants`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from checkers.judging.excuses import EXCUSES
from checkers.judging.outcome import EXCUSED_SHARE
from checkers.judging.promise import Promise
from checkers.promises import promises
from harness.scenarios import SCENARIOS
from harness.scenarios.base import EVERYWHERE
from harness.studies.answers import section
from nodes.mutants import MUTANTS

_HEAD = """# What biplane holds a broker to

Made by `biplane guarantees --out docs/guarantees.md` from the code; not written by hand. The
last table is declared (harness/studies/answers.toml).

A run is `valid` when every promise of its scenario had evidence enough, in each arm and trial for
itself, and none was broken; `invalid` when one was, with a witness; `unknown` otherwise. Each rule
below is the name of a violation in `results.json` and in the report. No finding of a trial in which
the wall clock was set proves anything: logs and ZooKeeper are dated by it.
"""


def page() -> str:
    """The whole page, as Markdown."""
    return "\n".join(
        [_HEAD, *_contents(), *(_section(p) for p in promises()), *_excuses(), *section()]
    )


def write(out: Path) -> Path:
    """Write the page to ``out``."""
    out.write_text(page())
    return out


def _contents() -> Iterator[str]:
    yield "| promise | in a sentence | rules |"
    yield "|---|---|---|"
    for promise in promises():
        yield f"| [{promise.name}](#{promise.name}) | {promise.says} | {len(promise.rules)} |"
    yield ""


def _section(promise: Promise) -> str:
    lines = [f"## {promise.name}", "", f"{promise.says} *Source: {promise.source}.*", ""]
    if promise.rules:
        lines += ["| rule | what should hold |", "|---|---|"]
        lines += [f"| `{rule}` | {says} |" for rule, says in promise.rules.items()]
        lines.append("")
    evidence = "; ".join(f"{what} ({says})" for what, says in promise.evidence.items())
    lines.append(f"- **Evidence**, in each arm and trial: {evidence}.")
    if promise.unknown_when:
        lines.append(f"- **Unknown** when {'; '.join(promise.unknown_when)}.")
    if promise.timed:
        timed = ", ".join(f"`{rule}`" for rule in promise.rules if rule in promise.timed)
        lines.append(f"- **Proves nothing of a trial in which the machine stood still**: {timed}.")
    if promise.patient:
        patient = ", ".join(f"`{rule}`" for rule in promise.rules if rule in promise.patient)
        lines.append(f"- Only where it stood still for a second and more: {patient}.")
    if promise.at_rest:
        held = ", ".join(f"`{rule}`" for rule in promise.rules if rule in promise.at_rest)
        lines.append(f"- **Proves nothing where records were appended in the end still**: {held}.")
    if promise.blind:
        lines.append(f"- **Blind** to {'; '.join(promise.blind)}.")
    lines.append(f"- **Scenarios**: {_scenarios(promise)}.")
    bugs = [f"`{m.name}` ({m.scenario})" for m in MUTANTS.values() if m.found_by == promise.name]
    if bugs:
        lines.append(f"- **Planted bugs** that it is to find: {', '.join(bugs)}.")
    return "\n".join([*lines, ""])


def _scenarios(promise: Promise) -> str:
    if promise.name in (*EVERYWHERE, "activity"):
        return "all"
    asked = [name for name, s in SCENARIOS.items() if promise.name in s.checks]
    return ", ".join(f"`{name}`" for name in asked) or "none asks for it"


def _excuses() -> Iterator[str]:
    yield "## What is excused"
    yield ""
    yield (
        "A loss that is lawful is counted, by arm, trial and rule, and shown in the report. "
        "Nothing is excused on the word of the suspect alone, and where more than "
        f"{EXCUSED_SHARE:.0%} of what was judged in a trial had to be excused, it is `unknown`."
    )
    yield ""
    yield "| excuse | because | witness |"
    yield "|---|---|---|"
    for name, excuse in EXCUSES.items():
        yield f"| `{name}` | {excuse.because} | {excuse.witness} |"
    yield ""
