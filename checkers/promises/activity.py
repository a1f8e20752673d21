"""Activity: did anything happen that the other checks could have judged?

A run in which nothing happened proves nothing. Unknown, never valid, when in any (arm, trial) that
the run was to have:

- there is no row at all, or no operation succeeded;
- a fault could not be put in place, was seen not to take hold, or an expected one never came;
- a flood set in and did not last: it died, stalled or ran thin (`checkers.facts.floods`); where
  the run says that its faults may collide (drawn at random, a flood's broker may be killed), both
  are counted only, and it takes more than half of the faults failing;
- leadership changes were planned, and no partition changed its leader;
- something that the run stands on failed (``infra`` rows), or the trial was cut short;
- a node ended by itself (``exited``: nobody had killed or stopped it): out of memory, a port that
  was taken, a bug of its own. What the others prove was not proved of the system as planned.

This check has no violations.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.floods import broken_off, floods
from checkers.facts.leadership import leadership
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise

if TYPE_CHECKING:
    from checkers.history.frames import History

OPERATIONS: Final = ("produce", "fetch", "metadata", "probe")
Trial = tuple[str, int]


def check(history: History) -> Outcome:
    outcome = Outcome()
    trials = sorted(set(history.trials) | set(history.run.trials))
    outcome.unknowns += history.run.failures
    if not trials:
        outcome.unknowns.append("the history has no trial")
    for arm in history.run.arms:
        if arm not in {a for a, _ in trials}:
            outcome.unknowns.append(f"{arm}: the run was to have this arm; there is no trial of it")
    _operations(history, outcome, trials)
    _faults(history, outcome, trials)
    _floods(history, outcome)
    _leader_changes(history, outcome, trials)
    for row in history.rows("infra"):
        outcome.unknowns.append(
            f"{row['arm']}, trial {row['trial']}: {row['component']} failed: {row['reason']}"
        )
    for row in history.rows("node_event"):
        if row["event"] == "exited":
            outcome.unknowns.append(
                f"{row['arm']}, trial {row['trial']}: node {row['node']} ended by itself: "
                f"{_last_words(row['detail'])}"
            )
    outcome.unknowns = list(dict.fromkeys(outcome.unknowns))
    return outcome


_TELLING: Final = ("Error", "Exception", "ERROR", "FATAL", "refus", "Terminating")


def _last_words(detail: str | None) -> str:
    """Its exit code and the last line of its output that sounds like a reason."""
    try:
        facts = json.loads(detail or "{}")
    except ValueError:
        facts = {}
    lines = [line.strip() for line in str(facts.get("output", "")).splitlines() if line.strip()]
    telling = [ln for ln in lines if any(t in ln for t in _TELLING) and not ln.startswith("at ")]
    last = (telling or lines or ["it printed nothing"])[-1]
    return f"exit code {facts.get('exit_code')}, {last[:300]}"


def _operations(history: History, outcome: Outcome, trials: list[Trial]) -> None:
    counts: dict[tuple[str, int, str, str], int] = {}
    present = [kind for kind in OPERATIONS if history.has(kind)]
    frames = [
        history.frame(kind).select(
            "arm",
            "trial",
            F.lit(kind).alias("kind"),
            "type",
            _delivered(kind).cast("int").alias("delivered"),
        )
        for kind in present
    ]
    if frames:
        rows = frames[0]
        for frame in frames[1:]:
            rows = rows.unionAll(frame)
        found = rows.groupBy("arm", "trial", "kind", "type").agg(
            F.count("*").alias("n"), F.sum("delivered").alias("delivered")
        )
        for row in found.collect():
            name = row["type"] or "none"
            figures = outcome.arm(row["arm"]).setdefault(row["kind"], {})
            figures[name] = figures.get(name, 0) + row["n"]
            if name == "ok":
                counts[row["arm"], row["trial"], row["kind"], name] = row["delivered"] or 0
    for arm, trial in trials:
        succeeded = sum(n for (a, t, _, _), n in counts.items() if (a, t) == (arm, trial))
        outcome.saw(arm, trial, "successful operations", succeeded)
        if not succeeded:
            outcome.unknowns.append(f"{arm}, trial {trial}: no operation succeeded")


def _delivered(kind: str) -> Any:
    """An empty poll is `ok` and yet nothing happened in it."""
    return F.col("offset").isNotNull() if kind == "fetch" else F.lit(True)


def _faults(history: History, outcome: Outcome, trials: list[Trial]) -> None:
    steps: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in history.rows("fault"):
        steps.setdefault((row["arm"], row["trial"], row["id"] or row["fault"]), []).append(row)
    held: dict[Trial, set[str]] = {}
    lacking: dict[Trial, list[str]] = {}
    for (arm, trial, entry), rows in steps.items():
        name, where = rows[0]["fault"], f"{arm}, trial {trial}"
        phases = {row["phase"] for row in rows}
        observed = {row["took_hold"] for row in rows} - {None}
        figures = outcome.arm(arm).setdefault("faults", {})
        figures[name] = figures.get(name, 0) + 1
        if "injected" not in phases:
            why = next((r["detail"] for r in rows if r["phase"] == "failed"), None)
            says = f"{where}: fault {entry} ({name}) was not put in place: {why}"
            lacking.setdefault((arm, trial), []).append(says)
        elif observed == {False}:
            says = f"{where}: fault {entry} ({name}) did not take hold"
            lacking.setdefault((arm, trial), []).append(says)
        else:
            held.setdefault((arm, trial), set()).add(name)
            if "failed" in phases:
                outcome.unknowns.append(f"{where}: fault {entry} ({name}) failed on the way")
    may_collide = history.run.faults_may_collide
    for (arm, trial), says_of in lacking.items():
        planned = sum((a, t) == (arm, trial) for a, t, _ in steps)
        if not may_collide or 2 * len(says_of) > planned:
            outcome.unknowns += says_of
        else:
            figures = outcome.arm(arm)
            figures["collided_faults"] = figures.get("collided_faults", 0) + len(says_of)
    for arm, trial in trials if not may_collide else ():
        for name in history.run.faults_of(arm, trial):
            known = {row["fault"] for row in history.rows("fault") if row["arm"] == arm}
            if name not in held.get((arm, trial), set()) and name not in known:
                outcome.unknowns.append(f"{arm}, trial {trial}: fault {name} never came")


def _floods(history: History, outcome: Outcome) -> None:
    """What every flood reached, and whether it did to its end."""
    for flood in floods(history):
        seconds = (flood.to_t - flood.from_t) / 1e9
        completed = flood.completed(end=flood.to_t)
        outcome.arm(flood.arm).setdefault("floods", []).append(
            {
                "id": flood.id,
                "trial": flood.trial,
                "node": flood.node,
                "seconds": round(seconds, 3),
                "completed": completed,
                "completed_per_s": round(completed / seconds, 1) if seconds > 0 else None,
                "fewest_connections": flood.fewest_connections(),
            }
        )
    for flood, why in broken_off(history) if not history.run.faults_may_collide else ():
        outcome.unknowns.append(f"{flood.arm}, trial {flood.trial}: {why}")


def _leader_changes(history: History, outcome: Outcome, trials: list[Trial]) -> None:
    """A change: an epoch committed with another leader than the one seen before it."""
    seen: dict[Trial, int] = {}
    for key, of in leadership(history).items():
        for before, epoch in pairwise(of.commits):
            if before.incarnation == epoch.incarnation and before.leader != epoch.leader:
                seen[key[:2]] = seen.get(key[:2], 0) + 1
    for (arm, _), changes in seen.items():
        figures = outcome.arm(arm)
        figures["leader_changes"] = figures.get("leader_changes", 0) + changes
    if history.run.leader_changes_planned:
        for arm, trial in trials:
            if not seen.get((arm, trial)):
                outcome.unknowns.append(
                    f"{arm}, trial {trial}: leadership was to change, and never did"
                )


PROMISE: Final = Promise(
    name="activity",
    says="Something happened that could be judged: operations, faults, leader changes.",
    source="Jepsen: a run in which nothing happened proves nothing",
    rules={},
    evidence={"successful operations": "produces, deliveries, metadata reads and probes"},
    unknown_when=(
        "no operation succeeded",
        "a fault was not put in place, did not take hold or never came",
        "a flood did not last",
        "leaders were to change and did not",
        "something that the run stands on failed, or a node ended by itself",
    ),
    check=check,
)
