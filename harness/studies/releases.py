"""`biplane releases`: does each line of Apache Kafka's releases get a verdict, and is what its
brokers say known?

Scenarios are played once on each release that allows them. Of the verdicts the page tells; and of
the lines of its brokers' logs how many a parser should have known and did not: a line that is not
known is evidence that nobody saw.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final

import orjson

from checkers.judging.verdict import Verdict
from harness.runs.rows import RUN_FILE
from harness.studies.ledger import Entry, Play, by, commits
from harness.sut.kafka_versions import Mode, parse_version

LEDGER: Final = "releases.jsonl"
LINES_OF_RELEASES: Final = (
    "kafka-zk@1.1.1",
    "kafka-zk@2.1.1",
    "kafka-zk@2.4.1",
    "kafka-zk@2.8.2",
    "kafka-kraft@3.3.2",
    "kafka-zk@3.6.2",
    "kafka-zk@3.9.2",
    "kafka-kraft@4.3.1",
)
"""One of each that can be judged on (`harness.sut.kafka_versions`)."""
KNOWN: Final = {
    "departures: dead-in-sync": ("KAFKA-3143", (1, 0, 0), (2, 3, 0)),
    "groups: member-fenced": ("KAFKA-10284", (2, 3, 0), (2, 6, 1)),
    "offsets: given-beyond-end": ("KAFKA-9838", (2, 4, 0), (2, 5, 1)),
    "stale-metadata: metadata-never-converged": ("KAFKA-9212", (2, 1, 0), (2, 4, 0)),
    "recovery: left-behind": ("KAFKA-13972", (2, 6, 0), (3, 5, 0)),
}
"""By rule: the bug of Kafka (ZooKeeper mode) that breaks it, the first release that has it, among
those that can be played, and the first without."""
LINES: Final = ("known", "ignored", "unknown")
"""What became of a line that was whole (`harness.sut.kafka_evidence.lines`)."""


def plays(suts: Sequence[str], scenarios: Sequence[str], seeds: Iterable[int]) -> Iterator[Play]:
    """In planes that every release has: single, where they mean anything."""
    for seed, scenario, sut in product(seeds, scenarios, suts):
        planes = "dual" if sut.startswith("kafka-kraft") else "single"
        yield Play(scenario=scenario, seed=seed, planes=planes, sut=sut)


def with_lines(entry: Entry) -> Entry:
    """With the lines of all brokers' logs counted, as long as the run's folder is there."""
    path = Path(entry.folder) / RUN_FILE
    if not entry.folder or not path.is_file():
        return entry
    return replace(entry, extra={**entry.extra, "lines": lines_of(orjson.loads(path.read_bytes()))})


def lines_of(run: dict[str, Any]) -> dict[str, int]:
    """From run.json: what its trials' summaries of evidence say."""
    counted: Counter[str] = Counter()
    for trial in run.get("trials") or ():
        for summary in (trial.get("evidence") or {}).values():
            for counts in summary["lines"].values():
                counted.update(counts)
    return {name: counted[name] for name in LINES}


def page(entries: Sequence[Entry]) -> str:
    """Markdown."""
    played = [entry for entry in entries if entry.verdict != "skipped"]
    lines = [
        "# Releases of Apache Kafka",
        "",
        f"Made by `biplane releases` from {len(played)} runs{commits(played)} "
        "([ledger](releases.jsonl)); not written by hand. *Lines*: of all brokers' logs; *not "
        "known*: those that a parser should have known.",
        "",
        "| release | scenario | valid | unknown | invalid | lines | not known |",
        "|---|---|---|---|---|---|---|",
    ]
    groups = sorted(by(played, "sut", "scenario").items(), key=lambda group: _order(group[0]))
    lines += [_row(key, of) for key, of in groups]
    lines += [
        "",
        "Before 2.1 clients are told no leader epochs (KIP-320), and what is judged by those alone "
        "is not judged there; of 0.11 and before nothing is played.",
    ]
    there = {(entry.play.sut, entry.play.scenario) for entry in played}
    left = [e for e in entries if e.verdict == "skipped"]
    cannot = _cannot(e for e in left if (e.play.sut, e.play.scenario) not in there)
    lines += ["", "Not played there:", "", *cannot] if cannot else []
    causes = sorted({line for entry in played for line in _causes(entry)})
    lines += ["", "What was found:", "", *causes] if causes else []
    unknown = [entry for entry in played if entry.verdict == Verdict.UNKNOWN]
    lines += ["", *_unknown(unknown)] if unknown else []
    return "\n".join(lines) + "\n"


def _cannot(entries: Iterable[Entry]) -> list[str]:
    """By release and reason: which scenarios."""
    found: dict[tuple[str, str], set[str]] = {}
    for entry in entries:
        scenario, sut = entry.play.scenario, entry.play.sut
        why = "; ".join(entry.reasons).removeprefix(f"{scenario}: ").removeprefix(f"{sut} ")
        found.setdefault((sut, why), set()).add(scenario)
    return [
        f"- {sut} {why}: {', '.join(sorted(names))}" for (sut, why), names in sorted(found.items())
    ]


def _causes(entry: Entry) -> Iterator[str]:
    """Of what was found: bugs that are known, and what somebody noted beside the entry."""
    if note := entry.extra.get("note"):
        yield f"- {entry.play.sut}, {entry.play.scenario}, seed {entry.play.seed}: {note}"
    kind, _, release = entry.play.sut.partition("@")
    for rule in KNOWN.keys() & set(entry.rules) if kind == "kafka-zk" and release else ():
        bug, broken, mended = KNOWN[rule]
        if broken <= parse_version(release, Mode.ZOOKEEPER) < mended:
            in_words = ".".join(map(str, mended))
            yield f"- {entry.play.sut}, {rule}: {bug}, mended in {in_words}"


def _unknown(of: Iterable[Entry]) -> Iterator[str]:
    yield "Why runs were unknown:"
    yield ""
    for entry in of:
        play = entry.play
        yield f"- {play.sut}, {play.scenario}, seed {play.seed}: {'; '.join(entry.reasons[:2])}"


def _row(key: tuple[str, ...], of: Sequence[Entry]) -> str:
    sut, scenario = key
    verdicts = Counter(entry.verdict for entry in of)
    counted: Counter[str] = Counter()
    for entry in of:
        counted.update(entry.extra.get("lines") or {})
    every = sum(counted.values())
    share = f"{counted['unknown'] / every:.2%}" if every else "-"
    rules = ", ".join(sorted({rule for entry in of for rule in entry.rules}))
    invalid = f"{verdicts['invalid']}{f' ({rules})' if rules else ''}"
    cells = (sut.replace("@", " "), scenario, verdicts["valid"], verdicts["unknown"], invalid)
    return f"| {' | '.join(map(str, (*cells, every or '-', share)))} |"


def _order(key: tuple[str, ...]) -> tuple[list[int], tuple[str, ...]]:
    """By release, the oldest first."""
    return [int(number) for number in re.findall(r"\d+", key[0])], key
