"""The first witness of a broken promise, told on the timeline of its partition.

A witness is the few rows that prove a violation. To somebody who did not write the check they say
little by themselves: who led the partition meanwhile, who was down, which fault was in place? That
is gathered here from the history, as data; `witness_picture` draws it and
`sections.first_witness` tells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from checkers.facts.cuts import AT_THE_START
from harness.report import event_words
from harness.report.run_folder import Row
from harness.report.story import Story
from harness.report.timeline import FaultTime

Event = Mapping[str, Any]
_KINDS: Final = {
    "leadership": ("node", "leader", "leader_epoch", "isr", "partition_epoch", "process"),
    "leader_change": ("node", "role", "leader", "leader_epoch", "log_end_offset", "process"),
    "truncation": ("node", "from_offset", "to_offset", "reason", "leader_epoch", "process"),
    "replica_stop": ("node", "delete", "process"),
}
"""Of its partition, what is told beside the witness."""
_BEFORE_NS: Final = 2_000_000_000
_ROWS: Final = 30


@dataclass(frozen=True, slots=True)
class Broken:
    """A violation with the check that found it."""

    check: str
    promise: str
    rule: str
    should: str
    says: str
    arm: str
    trial: int
    events: list[Event]

    @property
    def seen_t(self) -> int:
        """When the last thing that proves it happened."""
        return int(self.events[-1]["t"])


@dataclass(frozen=True, slots=True)
class Lead:
    """One leader epoch of the partition: committed at ``t``, until the next one (or the end)."""

    t: int
    until_t: int
    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Duty:
    """What a broker did in the partition for a while: leader, follower."""

    node: int
    role: str
    t: int
    until_t: int


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. ``number``: its place in the witness, counted from 1; None: it is
    told to make the witness understood."""

    t: int
    who: str
    says: str
    number: int | None = None
    node: int | None = None
    meanwhile: str = ""


@dataclass(slots=True)
class WitnessStory:
    """``partition``: (topic, partition), None where the violation is of no partition."""

    broken: Broken
    partition: tuple[str, int] | None
    begin_t: int
    end_t: int
    leads: list[Lead] = field(default_factory=list)
    duties: list[Duty] = field(default_factory=list)
    faults: list[tuple[FaultTime, int, int]] = field(default_factory=list)
    down: list[tuple[int, int, int]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    left_out: int = 0

    @property
    def witness(self) -> list[Line]:
        return [line for line in self.lines if line.number is not None]

    @property
    def nodes(self) -> list[int]:
        found = {d.node for d in self.duties} | {n for n, _, _ in self.down}
        found |= {line.node for line in self.witness if line.node is not None}
        return sorted(found)


def first_broken(story: Story) -> Broken | None:
    """See `first_of`."""
    return first_of(story.checks())


def first_of(checks: Mapping[str, Mapping[str, Any]]) -> Broken | None:
    """Of all that were found the one that was to be seen first; of equals the first check's.
    ``checks``: of results.json."""
    found = []
    for name, check in checks.items():
        for violation in check.get("violations") or []:
            events = [e for e in violation.get("events") or [] if isinstance(e.get("t"), int)]
            if events:
                events.sort(key=lambda event: event["t"])
                rule = str(violation.get("rule"))
                found.append(
                    Broken(
                        name,
                        str(check.get("says") or ""),
                        rule,
                        str((check.get("rules") or {}).get(rule) or ""),
                        str(violation.get("says") or ""),
                        str(violation.get("arm")),
                        int(violation.get("trial") or 0),
                        events,
                    )
                )
    return min(found, key=lambda broken: broken.seen_t) if found else None


def tell(story: Story, broken: Broken) -> WitnessStory:
    """Gather what belongs to it. Of a history that is not there only the witness is told."""
    key = (broken.arm, broken.trial)
    clock = story.clocks.get(key)
    begin_t, end_t = broken.events[0]["t"] - _BEFORE_NS, broken.seen_t
    if clock is not None:
        begin_t = max(begin_t, min(clock.start_t, broken.events[0]["t"]))
    told = WitnessStory(broken, partition_of(broken.events), begin_t, end_t)
    told.faults = [
        (fault, *span)
        for fault in story.faults.get(key, [])
        if (span := fault.span(max(end_t, clock.end_t if clock else end_t))) is not None
        and span[0] <= end_t
        and span[1] >= begin_t
    ]
    told.down = [
        (node, begin, end)
        for (*of, node), spans in sorted(story.down.items())
        if tuple(of) == key
        for begin, end in spans
        if begin <= end_t and end >= begin_t
    ]
    rows = list(_of_partition(story, key, told.partition))
    told.leads = _leads(rows, end_t)
    told.duties = _duties(rows, told.down, end_t)
    told.lines, told.left_out = _lines(told, rows)
    return told


def partition_of(events: Iterable[Event]) -> tuple[str, int] | None:
    """The first that a witness names, be it among those that a request carried."""
    carried = None
    for event in events:
        if event.get("topic") is not None and event.get("partition") is not None:
            return str(event["topic"]), int(event["partition"])
        for part in event.get("partitions") or ():
            if carried is None and isinstance(part, Mapping) and part.get("topic") is not None:
                carried = (str(part["topic"]), int(part.get("partition") or 0))
    return carried


def _of_partition(
    story: Story, key: tuple[str, int], partition: tuple[str, int] | None
) -> Iterator[Row]:
    """In order of time; of a leader that several tell of the first word only."""
    if partition is None:
        return
    rows: list[Row] = []
    for kind, columns in _KINDS.items():
        for row in story.folder.rows(kind, ("partition", *columns), topic=partition[0]):
            if (row["arm"], row["trial"]) == key and row["partition"] == partition[1]:
                rows.append({"f": kind, "topic": partition[0], **row})
    rows.sort(key=lambda row: row["t"] or 0)
    committed: set[tuple[Any, ...]] = set()
    for row in rows:
        if row["f"] == "leadership":
            state = (row.get("leader_epoch"), row.get("partition_epoch"), str(row.get("isr")))
            if state in committed:
                continue
            committed.add(state)
        yield row


def _leads(rows: Iterable[Row], end_t: int) -> list[Lead]:
    firsts: dict[int, Row] = {}
    for row in rows:
        if row["f"] == "leadership" and row["leader_epoch"] is not None:
            firsts.setdefault(row["leader_epoch"], row)
    ordered = [firsts[leader_epoch] for leader_epoch in sorted(firsts)]
    ends = [*(row["t"] for row in ordered[1:]), end_t][: len(ordered)]
    return [
        Lead(row["t"], max(row["t"], until), int(row["leader"]), int(row["leader_epoch"]))
        for row, until in zip(ordered, ends, strict=True)
        if row["t"] <= end_t and row["leader"] is not None
    ]


def _duties(rows: Iterable[Row], down: list[tuple[int, int, int]], end_t: int) -> list[Duty]:
    """From a broker's word that it leads or follows (of one that is coming up: from its serving)
    until its next one, or until it is down."""
    changes: dict[int, list[tuple[int, str]]] = {}
    for row in rows:
        if row["f"] in ("leader_change", "replica_stop") and row["node"] is not None:
            role = str(row.get("role")) if row["f"] == "leader_change" else ""
            changes.setdefault(row["node"], []).append((row["t"], role))
    found = []
    for node, steps in sorted(changes.items()):
        own = [(begin, end) for of, begin, end in down if of == node]
        for index, (told_t, role) in enumerate(steps):
            until = steps[index + 1][0] if index + 1 < len(steps) else end_t
            t = max([told_t, *(end for begin, end in own if begin <= told_t < end)])
            until = min([until, *(begin for begin, _ in own if begin > t)])
            if role and t <= min(end_t, until):
                found.append(Duty(node, role, t, max(t, min(until, end_t))))
    return found


def _lines(told: WitnessStory, rows: Iterable[Row]) -> tuple[list[Line], int]:
    """The witness, and around it what happened in its partition and to the cluster."""
    proof = {(e.get("f"), e["t"], e.get("node")) for e in told.broken.events}
    lines = [
        Line(
            event["t"],
            event_words.who(event),
            event_words.sentence(event),
            number,
            event.get("node") if isinstance(event.get("node"), int) else None,
            _meanwhile(told, event["t"]),
        )
        for number, event in enumerate(told.broken.events, 1)
    ]
    others = [
        Line(row["t"], event_words.who(row), event_words.sentence(row), node=row.get("node"))
        for row in rows
        if (row["f"], row["t"], row.get("node")) not in proof and not _is_upkeep(row)
    ]
    for fault, begin, end in told.faults:
        where = f" on {', '.join(f'node {n}' for n in fault.nodes)}" if fault.nodes else ""
        others.append(Line(begin, "harness", f"the fault {fault.fault} is in place{where}"))
        if fault.healed_t is not None:
            others.append(Line(end, "harness", f"the fault {fault.fault}{where} is healed"))
    for node, begin, end in told.down:
        others.append(Line(begin, "harness", f"node {node} is down", node=node))
        others.append(Line(end, "harness", f"node {node} serves again", node=node))
    last_before = max((o.t for o in others if o.t < told.begin_t), default=None)
    near = [o for o in others if told.begin_t <= o.t <= told.end_t or o.t == last_before]
    moments = [line.t for line in lines]
    near.sort(key=lambda o: min(abs(o.t - t) for t in moments))
    room = max(0, _ROWS - len(lines))
    kept = sorted([*lines, *near[:room]], key=lambda line: (line.t, line.number or 0))
    return kept, max(0, len(near) - room)


def _is_upkeep(row: Row) -> bool:
    """Old records that went as they were to: many, and they say nothing of who led."""
    return row["f"] == "truncation" and str(row.get("reason")).startswith(AT_THE_START)


def _meanwhile(told: WitnessStory, t: int) -> str:
    """Who led by then, who was down and what was in place."""
    parts = []
    for lead in told.leads:
        if lead.t <= t <= lead.until_t:
            who = f"node {lead.leader} leads" if lead.leader >= 0 else "nobody leads"
            parts = [f"{who} (leader epoch {lead.leader_epoch})"]
    parts += [f"node {node} is down" for node, begin, end in told.down if begin <= t < end]
    names = dict.fromkeys(fault.fault for fault, begin, end in told.faults if begin <= t < end)
    parts += [f"{name} in place" for name in names]
    return "; ".join(parts)
