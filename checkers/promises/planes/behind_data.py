"""Behind data: requests of a control plane that take as long as those of the flood beside it, for
`checkers.promises.planes`.

A broker with a control plane takes up controllers' requests whatever its data plane is at: their
queue, processor and handler are their own (KIP-291). Where the harness floods a broker's data plane
and probes its control plane, it knows how long requests take by both: a probe from when it was due
to its answer; a request of the flood, on the average, as long as all connections together waited,
divided by how many requests were answered (Little's law; every connection has one under way). On
one queue both take about the same. Here half of that is too much, at the median: a slow machine
makes both slow.

Lawful, and looks similar: single probes that wait, for a disk or a core; a broker that another
fault names meanwhile (it is stopped, or its link is slow) is not judged; a flood that does not fill
the queue makes nobody wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.faults import ASKING, faults_of
from checkers.facts.floods import Flood, floods
from checkers.facts.timeline import FROM, TO, Timeline
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "waits-behind-data"
PROBED: Final = "probes of control planes beside a flood"
SHARE: Final = 0.5
"""Of what a request of the flood takes. Dual planes were seen at 0.01 to 0.05 of it (the Java
broker on two busy cores), one plane at 0.7 to 1."""
FEWEST: Final = 20
"""A median of fewer says little."""


def behind_data(history: History, outcome: Outcome, dual: set[str]) -> Iterator[Finding]:
    if not history.has("probe"):
        return
    judged = [
        flood
        for flood in floods(history)
        if flood.arm in dual and flood.queue_places is not None and not _disturbed(history, flood)
    ]
    if not judged:
        return
    spans = [
        {"arm": f.arm, "trial": f.trial, "node": f.node, FROM: f.from_t, TO: f.to_t, "number": n}
        for n, f in enumerate(judged)
    ]
    beside = Timeline(spans, ("arm", "trial", "node"), {"number": "int"})
    probes = history.frame("probe").where("type = 'ok' and plane = 'control'")
    probes = probes.select("arm", "trial", "node", "planned_t", "t")
    # One that is not answered keeps the next ones back: they count from when they were planned.
    inside = beside.during(history, probes, F.col("planned_t"), F.col("planned_t"))
    took = F.col("t") - F.col("planned_t")
    found = inside.groupBy("number").agg(
        F.count("*").alias("n"),
        F.percentile_approx(took, 0.5).alias("median_ns"),
        F.max_by("t", took).alias("t"),
    )
    for row in found.orderBy("number").toArrow().to_pylist():
        flood = judged[row["number"]]
        data_ns = _mean_ns(flood)
        if row["n"] < FEWEST or data_ns is None:
            outcome.unjudged(flood.arm, "control planes beside a flood: too few probes to tell")
            continue
        outcome.saw(flood.arm, flood.trial, PROBED, row["n"])
        if row["median_ns"] > SHARE * data_ns:
            yield _finding(flood, row, data_ns)


def _mean_ns(flood: Flood) -> float | None:
    """How long its requests take; None when none was answered."""
    waited = answered = 0
    for rows in flood.workers.values():
        for row in rows:
            if flood.from_t < row["t"] <= flood.to_t:
                waited += (row["connections"] or 0) * (row["interval_ns"] or 0)
                answered += row["completed"] or 0
    return waited / answered if answered else None


def _disturbed(history: History, flood: Flood) -> bool:
    """Whether anything but floods was done to its broker while it lay there; that its leaderships
    are given to others is no reason for it to be slow."""
    own = {each.id for each in floods(history)}
    return any(
        flood.node in fault.nodes and fault.meets(flood.from_t, flood.to_t)
        for fault in faults_of(history, (flood.arm, flood.trial))
        if fault.id not in own and fault.name not in ASKING
    )


def _finding(flood: Flood, row: dict[str, Any], data_ns: float) -> Finding:
    return Finding(
        RULE,
        f"half of {row['n']} probes of node {flood.node}'s control plane took more than "
        f"{row['median_ns'] / 1e6:.0f} ms while {flood.fault} lay on its data plane, whose own "
        f"requests took {data_ns / 1e6:.0f} ms on the average: they wait for each other",
        flood.arm,
        flood.trial,
        (
            Pick("fault", {"id": flood.id}, rows=2),
            Pick("probe", {"node": flood.node, "t": row["t"]}, rows=1),
            Pick("flood", {"id": flood.id, "node": flood.node}, from_t=row["t"], rows=1),
        ),
    )
