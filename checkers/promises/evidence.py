"""Evidence: is all that was seen in the history, and are its times to be trusted?

What is lost in silence cannot be missed by the other checks: a produce that nobody recorded is not
an acknowledged one, a truncation that a node could not write down did not happen. Writers number
their rows, and finishing counts what each live file held (kind ``source``). Unknown, never valid,
in an (arm, trial) in which

- a line was rejected: it could not be read, or did not fit the schema;
- numbers are missing among a writer's rows, or are there twice;
- a writer did not come to the end of what it had to say: a client's or the harness's last row says
  that it is the last. A node's does not, since nodes are killed; their last line may be torn;
- a client that was launched, or (where the others write one) a node, left no row at all;
- a clock went back between two rows, or lies outside the harness's own time in the trial;
- the wall clock moved against the monotonic one: record times mean nothing then.

Lawful, and looks similar: numbers that change places (threads); rows without a number, which are
made from a system's log files; a node's torn last line; an invocation without a completion (kept,
as `info`: counted here).

This check has no violations. Blind: what a node could not write from some moment until its end, and
what it never tried to.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise

if TYPE_CHECKING:
    from checkers.history.frames import History

HARNESS: Final = "harness"
BACKWARDS_NS: Final = 1_000_000_000
"""Threads overtake each other by less: a row is written when its time was read, or soon after."""
OUTSIDE_NS: Final = 5_000_000_000
"""How long before the harness's first row or after its last one another's may lie."""
DRIFT_NS: Final = 1_000_000_000
"""By so much clocks that only drift do not part in a run; a wall clock that was set does."""
_REASONS: Final = 3
Row = dict[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    by_trial: dict[tuple[str, int], list[Row]] = {}
    for row in history.rows("source"):
        by_trial.setdefault((row["arm"], row["trial"]), []).append(row)
    for key in sorted(set(history.trials) | set(history.run.trials)):
        sources = by_trial.get(key, [])
        outcome.saw(*key, "rows of live files", sum(row["rows"] or 0 for row in sources))
        for why in [
            *(why for row in sources for why in _lacks(row)),
            *_absent(history, key, sources),
            *_outside(sources),
        ]:
            outcome.unknown(*key, why)
        figures = outcome.arm(key[0])
        for name in ("rows", "orphans", "unnumbered"):
            figures[name] = figures.get(name, 0) + sum(row[name] or 0 for row in sources)
    counted = sum(row["rejected"] or 0 for row in history.rows("source"))
    if history.run.rejected > counted:
        reasons = _most(history.run.rejected_reasons)
        outcome.unknowns.append(f"run.json: {history.run.rejected} lines were rejected: {reasons}")
    if history.run.clock_error_ns > DRIFT_NS:
        seconds = history.run.clock_error_ns / 1e9
        outcome.unknowns.append(
            f"run.json: the wall clock moved by {seconds:.1f} s against the monotonic clock"
        )
    return outcome


def _lacks(row: Row) -> list[str]:
    """What is wrong with one file by itself."""
    of = f"{row['source']}.jsonl" + (f", boot {row['boot']}" if row["boot"] is not None else "")
    is_node = row["node"] is not None
    numbered = row["last_seq"] is not None
    found = []
    if row["rejected"]:
        reasons = _most(json.loads(row["reasons"] or "{}"))
        found.append(f"{of}: {row['rejected']} lines were rejected: {reasons}")
    if row["missing"]:
        found.append(f"{of}: {row['missing']} of {row['last_seq'] + 1} rows are missing")
    if row["repeated"]:
        found.append(f"{of}: numbers of rows are there twice")
    if row["torn"] and not is_node:
        found.append(f"{of}: its last line is torn, and its writer was not to be killed")
    if numbered and not is_node and not row["closed"]:
        found.append(f"{of}: its writer did not come to the end of what it had to say")
    if numbered and (row["unnumbered"] or 0) > 0:
        found.append(f"{of}: {row['unnumbered']} rows have no number, and others have")
    if (row["backwards_ns"] or 0) > BACKWARDS_NS:
        seconds = row["backwards_ns"] / 1e9
        found.append(f"{of}: the clock went back by {seconds:.1f} s between two rows")
    return found


def _absent(history: History, key: tuple[str, int], sources: list[Row]) -> list[str]:
    """Who should have said something and did not."""
    if not sources:
        return ["nobody counted what the live files held"]
    spoke = {row["process"] for row in sources if row["rows"]}
    found = [
        f"{workload.process}: it was launched, and left no row"
        for workload in history.run.workloads.get(key, ())
        if workload.process not in spoke
    ]
    nodes = {row["node"] for row in sources if row["node"] is not None and row["rows"]}
    started = {
        row["node"] for row in rows_of(history, "node_event", key) if row["event"] == "ready"
    }
    if nodes:  # a system that writes no trace of its own has none to lose
        found += [f"node {n}: it was ready, and left no row" for n in sorted(started - nodes)]
    return found


def _outside(sources: list[Row]) -> list[str]:
    """Times that the harness, whose clock all go by, was not there for."""
    own = next((row for row in sources if row["process"] == HARNESS and row["rows"]), None)
    if own is None or own["first_t"] is None:
        return []
    found = []
    for row in sources:
        if row["first_t"] is None:
            continue
        early, late = own["first_t"] - row["first_t"], row["t"] - own["t"]
        if max(early, late) > OUTSIDE_NS:
            when = "before the trial began" if early > late else "after the trial's end"
            seconds = max(early, late) / 1e9
            found.append(f"{row['source']}.jsonl: it has rows from {seconds:.1f} s {when}")
    return found


def _most(reasons: Any) -> str:
    most = sorted(dict(reasons).items(), key=lambda item: -int(item[1]))[:_REASONS]
    return "; ".join(f"{why} ({n})" for why, n in most) or "no reason is known"


PROMISE: Final = Promise(
    name="evidence",
    says="What was seen is in the history, whole and with true times.",
    source="Jepsen: a test is only as good as its history",
    rules={},
    evidence={"rows of live files": "events that clients, nodes and the harness wrote down"},
    unknown_when=(
        "a line of a live file was rejected",
        "rows are missing from a live file, or its writer did not come to its end",
        "a launched client or a node left no row",
        "a clock went back, lay outside the trial, or was set",
    ),
    blind=("what a node could not write from some moment until its end",),
    check=check,
)
