"""Activity: did anything happen that the other checks could have judged?

A run in which nothing happened proves nothing. Unknown, never valid, when in any (arm, trial) that
the run was to have:

- there is no row at all, or no operation succeeded;
- a fault could not be put in place, was seen not to take hold, or an expected one never came;
- leadership changes were planned, and no partition changed its leader;
- something that the run stands on failed (``infra`` rows), or the trial was cut short.

This check has no violations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.leadership import TP, sightings
from checkers.outcome import Outcome

if TYPE_CHECKING:
    from checkers.frames import History

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
    _leader_changes(history, outcome, trials)
    for row in history.rows("infra"):
        outcome.unknowns.append(
            f"{row['arm']}, trial {row['trial']}: {row['component']} failed: {row['reason']}"
        )
    outcome.unknowns = list(dict.fromkeys(outcome.unknowns))
    return outcome


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
        outcome.looked_at += succeeded
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
    for (arm, trial, entry), rows in steps.items():
        name, where = rows[0]["fault"], f"{arm}, trial {trial}"
        phases = {row["phase"] for row in rows}
        observed = {row["took_hold"] for row in rows} - {None}
        figures = outcome.arm(arm).setdefault("faults", {})
        figures[name] = figures.get(name, 0) + 1
        if "injected" not in phases:
            why = next((r["detail"] for r in rows if r["phase"] == "failed"), None)
            outcome.unknowns.append(f"{where}: fault {entry} ({name}) was not put in place: {why}")
        elif observed == {False}:
            outcome.unknowns.append(f"{where}: fault {entry} ({name}) did not take hold")
        else:
            held.setdefault((arm, trial), set()).add(name)
            if "failed" in phases:
                outcome.unknowns.append(f"{where}: fault {entry} ({name}) failed on the way")
    for arm, trial in trials:
        for name in history.run.faults:
            known = {row["fault"] for row in history.rows("fault") if row["arm"] == arm}
            if name not in held.get((arm, trial), set()) and name not in known:
                outcome.unknowns.append(f"{arm}, trial {trial}: fault {name} never came")


def _leader_changes(history: History, outcome: Outcome, trials: list[Trial]) -> None:
    """A partition changed its leader when two different ones were seen in one incarnation."""
    seen: dict[Trial, int] = {}
    if history.has("leadership"):
        each = (
            sightings(history)
            .groupBy(*TP, "incarnation")
            .agg(
                F.count_distinct("leader").alias("leaders"),
                (F.max("leader_epoch") - F.min("leader_epoch")).alias("changes"),
            )
        )
        rows = (
            each.where("leaders > 1").groupBy("arm", "trial").agg(F.sum("changes").alias("changes"))
        )
        for row in rows.collect():
            seen[row["arm"], row["trial"]] = row["changes"]
            figures = outcome.arm(row["arm"])
            figures["leader_changes"] = figures.get("leader_changes", 0) + row["changes"]
    if history.run.leader_changes_planned:
        for arm, trial in trials:
            if not seen.get((arm, trial)):
                outcome.unknowns.append(
                    f"{arm}, trial {trial}: leadership was to change, and never did"
                )
