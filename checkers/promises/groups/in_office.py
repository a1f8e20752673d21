"""Coordinators that waver before all is calm, for `checkers.promises.groups`.

`denying` asks of the end of a run. But a coordinator is in office from when it has loaded a group
to when it is told that another leads the group's partition, or that it is to lead in another epoch
(GroupCoordinator.onElection, onResignation), whatever happens to others meanwhile. So who answered
as a group's coordinator, and leads its partition all along since, in one leader epoch, with nothing
that keeps it from answering,

- ``coordinator-denies``: does not answer that it loads the group, that it is no coordinator of it,
  or, to who only asks, that there is none.

And who does not lead the partition is no coordinator:

- ``another-coordinates``: a broker acted as one that had not led the partition by then; or one that
  had answered that it is none, or had said that it follows there, or holds no replica any more,
  long enough ago to have let go of its groups (as long as for all that is owed in calm), and did
  not begin to lead it since. Whatever else it leads: groups are of a partition, each by itself.

Lawful, and looks similar: who has begun to lead and has not heard, or not read all, and answers as
its predecessor once did (it has `HEARD_NS`, and until it says that it leads in that epoch, where
brokers say so); who still acts, and has not heard of its successor; heartbeats, and SyncGroup's
REBALANCE_IN_PROGRESS, which are answered blindly while a group loads; that there is no coordinator
(15), to who wants something written, where too few are in sync; who took a forger's order for the
partition.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.calm import UNSURE_NS, calm
from checkers.facts.committed import State
from checkers.facts.forgeries import taken_in
from checkers.facts.leadership import SHOWN
from checkers.facts.timeline import FOREVER
from checkers.judging.courses import in_courses
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.groups.denying import DONE, KINDS, OTHER, RULE
from checkers.promises.groups.living_groups import REBALANCE_IN_PROGRESS
from checkers.promises.groups.offices import MOVED_NS, OFFSETS_TOPIC, Offices, offices, partition_of

if TYPE_CHECKING:
    from checkers.history.frames import History

IN_OFFICE: Final = "questions to coordinators in office"
HEARD_NS: Final = 3_000_000_000
"""So long after it was committed a broker may not have heard that it leads."""
_STOOD_NS: Final = 5_000_000_000
"""How long after a trouble of its own a broker may go on with what it knew before."""
NOT_COORDINATOR: Final = 16
_DENIED: Final = frozenset({14, NOT_COORDINATOR})
"""COORDINATOR_LOAD_IN_PROGRESS, and that it is another."""
_NONE: Final = 15
"""COORDINATOR_NOT_AVAILABLE."""
_READS: Final = frozenset({"committed", "ask", "see", "own", "look", "describe"})
_BLIND: Final = frozenset({"live", "beat", "last"})
_BY: Final = ("arm", "trial", "group")
Row = Mapping[str, Any]
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Heard:
    """``roles``: by arm, trial, partition and node, when it said that it leads, by leader epoch;
    ``steps``: by the same, when it said that it leads or does not, in order; ``tells``: arms,
    trials and nodes that say so of anything; ``forged``: from when on somebody may have been given
    a forger's order for its groups (ns)."""

    roles: Mapping[tuple[str, int, int, int], Mapping[int, int]]
    steps: Mapping[tuple[str, int, int, int], Sequence[tuple[int, bool]]]
    tells: frozenset[tuple[str, int, int]]
    forged: Mapping[tuple[str, int, int], int]


def in_office(history: History, outcome: Outcome) -> Iterator[tuple[Finding, int]]:
    kinds = [kind for kind in KINDS if history.has(kind)]
    if not kinds:
        return
    frames = []
    for kind in kinds:
        rows = history.frame(kind).where(
            "node is not null and group is not null and type != 'info' and invoke_t is not null"
        )
        step = F.col("step") if kind == "group_step" else F.lit(kind)
        names = (*_BY, "node", "invoke_t", "t", F.coalesce("error", F.lit(0)).alias("error"))
        frames.append(rows.select(*names, step.alias("step"), F.lit(kind).alias("kind")))
    asked = functools.reduce(lambda one, other: one.unionAll(other), frames)
    owed = {trial: of.needed_ns for trial, of in calm(history).items()}
    judge = partial(_of_group, offices(history), _heard(history), owed)
    yield from in_courses(outcome, asked, _BY, ["t", "invoke_t"], judge)


def _heard(history: History) -> _Heard:
    roles: dict[tuple[str, int, int, int], dict[int, int]] = {}
    steps: dict[tuple[str, int, int, int], list[tuple[int, bool]]] = {}
    tells = set()
    for row in (*history.rows("leader_change"), *history.rows("replica_stop")):
        leads = row.get("role") == "leader"
        if "role" in row:
            tells.add((row["arm"], row["trial"], row["node"]))
        if row["topic"] == OFFSETS_TOPIC:
            of = (row["arm"], row["trial"], row["partition"], row["node"])
            steps.setdefault(of, []).append((row["t"], leads))
            if leads:
                epochs = roles.setdefault(of, {})
                epochs[row["leader_epoch"]] = max(row["t"], epochs.get(row["leader_epoch"], 0))
    forged: dict[tuple[str, int, int], int] = {}
    for lie in taken_in(history):
        if lie["api"] != "UPDATE_METADATA" and lie["topic"] in (None, OFFSETS_TOPIC):
            place = (lie["arm"], lie["trial"], lie["node"])
            forged[place] = min(lie["invoke_t"], forged.get(place, FOREVER))
    in_order = {of: sorted(told) for of, told in steps.items()}
    return _Heard(roles, in_order, frozenset(tells), forged)


def _of_group(
    offices: Offices,
    heard: _Heard,
    owed: Mapping[tuple[str, int], int],
    rows: Sequence[Row],
    outcome: Outcome,
) -> Iterator[Finding]:
    arm, trial, group = (rows[0][name] for name in _BY)
    states = offices.of(arm, trial, group)
    # Of a black box nobody knows when a leader was committed.
    if not states or any(state.row["source"] == SHOWN for state in states):
        return
    partition = partition_of(group, len(offices.states[arm, trial]))
    needed_ns = owed.get((arm, trial), UNSURE_NS)
    for node in sorted({row["node"] for row in rows}):
        own = [row for row in rows if row["node"] == node]
        place = (arm, trial, node)
        spans = list(_spans(offices, heard, states, place, partition))
        steps = heard.steps.get((arm, trial, partition, node), ())
        found = (
            *_denials(spans, needed_ns, own, outcome),
            *_acts(offices, states, steps, needed_ns, own),
        )
        for row, finding in found:
            if row["t"] >= heard.forged.get(place, FOREVER):
                outcome.excuse(arm, trial, finding.rule, "forged", of=IN_OFFICE)
            else:
                yield finding


def _spans(
    offices: Offices,
    heard: _Heard,
    states: Sequence[State],
    place: tuple[str, int, int],
    partition: int,
) -> Iterator[Span]:
    """From when to when (ns) a broker certainly knew that it leads the partition, in one leader
    epoch, with nothing that kept it from answering."""
    arm, trial, node = place
    roles = heard.roles.get((arm, trial, partition, node), {})
    began: State | None = None
    for at, state in enumerate(states):
        leads = state.row["leader"] == node
        same = began is not None and state.row["leader_epoch"] == began.row["leader_epoch"]
        began = (began if same else state) if leads else None
        after = states[at + 1] if at + 1 < len(states) else None
        goes_on = after is not None and _same(after, state)
        if began is None or goes_on:
            continue
        since = began.t + HEARD_NS
        if place in heard.tells:
            told_t = roles.get(state.row["leader_epoch"])
            if told_t is None:
                continue
            since = max(since, told_t)
        to_t = FOREVER if after is None else after.t - MOVED_NS
        for begin, end in sorted(offices.troubles.get(place, ())):
            if begin < to_t and end + HEARD_NS > since:
                if since < begin:
                    yield since, begin
                since = max(since, end + HEARD_NS)
        if since < to_t:
            yield since, to_t


def _same(one: State, other: State) -> bool:
    names = ("leader", "leader_epoch")
    return all(one.row[name] == other.row[name] for name in names)


def _tells(row: Row) -> bool:
    """Whether who answered so has read the group."""
    blind = row["step"] in _BLIND
    blind = blind or (row["step"] == "sync" and row["error"] == REBALANCE_IN_PROGRESS)
    return row["error"] in DONE and not blind


def _denies(row: Row) -> bool:
    return row["error"] in _DENIED or (row["error"] == _NONE and row["step"] in _READS)


def _denials(
    spans: Sequence[Span], needed_ns: int, rows: Sequence[Row], outcome: Outcome
) -> Iterator[tuple[Row, Finding]]:
    """``rows``: one broker's, in order of their answers; of each time in office the first.
    ``needed_ns``: after so long it has read its groups, whatever it has answered."""
    for since, to_t in spans:
        served: Row | None = None
        for row in rows:
            if row["invoke_t"] < since or row["t"] > to_t:
                continue
            known = served is not None and row["invoke_t"] >= served["t"]
            if known or row["invoke_t"] > since + needed_ns:
                outcome.saw(row["arm"], row["trial"], IN_OFFICE)
                if _denies(row):
                    yield row, _denied(since, served if known else None, row)
                    break
            if served is None and _tells(row):
                served = row


def _acts(
    offices: Offices,
    states: Sequence[State],
    steps: Sequence[tuple[int, bool]],
    needed_ns: int,
    rows: Sequence[Row],
) -> Iterator[tuple[Row, Finding]]:
    """``rows``: one broker's, in order of their answers; ``steps``: when it said that it leads or
    does not; ``needed_ns``: after so long it has let go of its groups."""
    led = list(_led(states, rows[0]["node"]))
    first_t = min((begin for begin, _ in led), default=FOREVER)
    early = next((r for r in rows if r["error"] in DONE and r["t"] < first_t), None)
    if early is not None:
        yield early, _acted("whose partition it had not led by then", early)
        return

    def may_lead(row: Row, from_t: int) -> bool:
        """Since then, as far as others know; or it had a trouble of its own."""
        known = any(begin <= row["t"] and end >= from_t for begin, end in led)
        return known or offices.had_trouble(row, from_t - _STOOD_NS, row["t"])

    gone: Row | None = None
    for row in (row for row in rows if _tells(row) or _says_gone(row)):
        if _says_gone(row):
            gone = row
            continue
        if gone is not None and row["invoke_t"] > gone["t"] and not may_lead(row, gone["invoke_t"]):
            yield row, _acted(_ago(row, gone["t"], "it is none"), row, gone)
            return
        said_t = _said_so(steps, row["t"])
        if said_t is None:
            continue
        from_t = said_t + needed_ns
        if row["invoke_t"] > from_t and not may_lead(row, from_t):
            yield row, _acted(_ago(row, said_t, "it does not lead there"), row)
            return


def _said_so(steps: Sequence[tuple[int, bool]], at_t: int) -> int | None:
    """Since when it has said all along that it does not lead."""
    from_t = None
    for t, leads in steps:
        if t <= at_t:
            from_t = None if leads else t if from_t is None else from_t
    return from_t


def _ago(row: Row, t: int, what: str) -> str:
    ago = (row["invoke_t"] - t) / 1e6
    return f"{ago:.0f} ms after it had said that {what}; it has not begun to lead since"


def _led(states: Sequence[State], node: int) -> Iterator[Span]:
    """From when to when (ns) it may have taken itself for the partition's leader."""
    for at, state in enumerate(states):
        if state.row["leader"] == node:
            end = states[at + 1].t + HEARD_NS if at + 1 < len(states) else FOREVER
            yield state.t - (state.row["error_ns"] or 0) - MOVED_NS, end


def _says_gone(row: Row) -> bool:
    """Not of what was to be written: that fails first, and the group is let go of afterwards."""
    return row["error"] == NOT_COORDINATOR and row["step"] in _READS | _BLIND


def _denied(since: int, served: Row | None, row: Row) -> Finding:
    from_t, what = (since, "known that it leads") if served is None else (served["t"], "done so")
    return _finding(
        RULE,
        row,
        f"denied that it coordinates group {row['group']} ({row['step']}, error {row['error']}), "
        f"{(row['invoke_t'] - from_t) / 1e6:.0f} ms after it had {what}; it led the group's "
        "partition all along",
        *(() if served is None else (served,)),
    )


def _acted(after: str, row: Row, *before: Row) -> Finding:
    says = f"acted as the coordinator of group {row['group']} ({row['step']}, error {row['error']})"
    return _finding(OTHER, row, f"{says}, {after}", *before)


def _finding(rule: str, row: Row, says: str, *before: Row) -> Finding:
    return Finding(
        rule,
        f"node {row['node']} {says}",
        row["arm"],
        row["trial"],
        tuple(
            Pick(one["kind"], {"node": one["node"], "t": one["t"]}, rows=1)
            for one in (*before, row)
        ),
    )
