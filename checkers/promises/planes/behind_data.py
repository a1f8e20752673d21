"""Behind data: requests of a control plane that take as long as those of the flood beside it, for
`checkers.promises.planes`.

A broker with a control plane takes up controllers' requests whatever its data plane is at: their
queue, processor and handler are their own (KIP-291). Where the harness floods a broker's data plane
and probes its control plane, it knows how long requests take by both: a probe from when it was due
to its answer; a request of the flood, on the average, as long as all connections together waited,
divided by how many requests were answered (Little's law; every connection has one under way). On
one queue both take about the same. Here half of that is too much, at the median: a slow machine
makes both slow. So do requests of the controller itself, which sends the next one only when it has
the answer: from when it began to send each to when it had that. They are few, and come from another
broker than the flooded one.

Lawful, and looks similar: single probes that wait, for a disk or a core; a broker that another
fault names meanwhile (it is stopped, or its link is slow) is not judged; a flood that does not fill
the queue makes nobody wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.faults import ASKING, faults_within
from checkers.facts.floods import Flood, floods
from checkers.facts.timeline import FROM, TO, Timeline
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "waits-behind-data"
PROBED: Final = "probes of control planes beside a flood"
SHARE: Final = 0.5
"""Of what a request of the flood takes. Dual planes were seen at 0.01 to 0.05 of it (the Java
broker on two busy cores), one plane at 0.7 to 1."""
FEWEST: Final = 20
"""A median of fewer says little."""
FEWEST_OWN: Final = 5
"""Of a controller's own: it sends a few to each broker as a leader moves."""
ANSWERED: Final = "controllers' requests to flooded brokers"


def behind_data(history: History, outcome: Outcome, dual: set[str]) -> Iterator[Finding]:
    judged = [
        flood
        for flood in floods(history)
        if flood.arm in dual and flood.queue_places is not None and not disturbed(history, flood)
    ]
    if not judged:
        return
    spans = [
        {"arm": f.arm, "trial": f.trial, "node": f.node, FROM: f.from_t, TO: f.to_t, "number": n}
        for n, f in enumerate(judged)
    ]
    beside = Timeline(spans, ("arm", "trial", "node"), {"number": "int"})
    if history.has("probe"):
        probes = history.frame("probe").where("type = 'ok' and plane = 'control'")
        # One that is not answered keeps the next ones back: they count from when they were planned.
        probes = probes.select("arm", "trial", "node", F.col("planned_t").alias("begun_t"), "t")
        for number, row in _medians(history, beside, probes):
            flood, data_ns = judged[number], mean_ns(judged[number])
            if row["n"] < FEWEST or data_ns is None:
                outcome.unjudged(flood.arm, "control planes beside a flood: too few probes to tell")
                continue
            outcome.saw(flood.arm, flood.trial, PROBED, row["n"])
            if row["median_ns"] > SHARE * data_ns:
                yield _finding(flood, row, data_ns)
    if history.has("control_response"):
        for number, row in _medians(history, beside, _answered(history)):
            flood, data_ns = judged[number], mean_ns(judged[number])
            if row["n"] < FEWEST_OWN or data_ns is None:
                continue
            if disturbed(history, flood, whoever=True):
                continue
            outcome.saw(flood.arm, flood.trial, ANSWERED, row["n"])
            if row["median_ns"] > SHARE * data_ns:
                yield _finding_own(flood, row, data_ns)


def _medians(
    history: History, beside: Timeline, took: DataFrame
) -> list[tuple[int, dict[str, Any]]]:
    """By the flood's number: how many were begun beside it, what half of them took at least (ns),
    and when the slowest ended."""
    inside = beside.during(history, took, F.col("begun_t"), F.col("begun_t"))
    lasted = F.col("t") - F.col("begun_t")
    found = inside.groupBy("number").agg(
        F.count("*").alias("n"),
        F.percentile_approx(lasted, 0.5).alias("median_ns"),
        F.max_by("t", lasted).alias("t"),
    )
    rows = found.orderBy("number").toArrow().to_pylist()
    return [(row["number"], row) for row in rows]


def _answered(history: History) -> DataFrame:
    """Requests of controllers to other brokers, each with when it was sent and answered."""
    heard = history.frame("control_response").where("error is not null and node != to")
    return heard.select(
        "arm", "trial", F.col("to").alias("node"), F.col("send_t").alias("begun_t"), "t"
    )


def mean_ns(flood: Flood) -> float | None:
    """How long its requests take; None when none was answered."""
    waited = answered = 0
    for rows in flood.workers.values():
        for row in rows:
            if flood.from_t < row["t"] <= flood.to_t:
                waited += (row["connections"] or 0) * (row["interval_ns"] or 0)
                answered += row["completed"] or 0
    return waited / answered if answered else None


def disturbed(history: History, flood: Flood, *, whoever: bool = False) -> bool:
    """Whether anything but floods was done to its broker (or to ``whoever``) while it lay there;
    that its leaderships are given to others is no reason for it to be slow."""
    own = {each.id for each in floods(history)}
    return any(
        (whoever or flood.node in fault.nodes)
        for fault in faults_within(history, (flood.arm, flood.trial), flood.from_t, flood.to_t)
        if fault.id not in own and fault.name not in ASKING
    )


def _finding(flood: Flood, row: dict[str, Any], data_ns: float) -> Finding:
    what = f"{row['n']} probes of node {flood.node}'s control plane"
    pick = Pick("probe", {"node": flood.node, "t": row["t"]}, rows=1)
    return _behind(flood, row, data_ns, what, pick)


def _finding_own(flood: Flood, row: dict[str, Any], data_ns: float) -> Finding:
    what = f"{row['n']} requests of a controller to node {flood.node}'s control plane"
    pick = Pick("control_response", {"to": flood.node, "t": row["t"]}, rows=1)
    return _behind(flood, row, data_ns, what, pick)


def _behind(flood: Flood, row: dict[str, Any], data_ns: float, what: str, pick: Pick) -> Finding:
    return Finding(
        RULE,
        f"half of {what} took more than {row['median_ns'] / 1e6:.0f} ms while {flood.fault} lay on "
        f"its data plane, whose own requests took {data_ns / 1e6:.0f} ms on the average: they wait "
        "for each other",
        flood.arm,
        flood.trial,
        (
            Pick("fault", {"id": flood.id}, rows=2),
            pick,
            Pick("flood", {"id": flood.id, "node": flood.node}, from_t=row["t"], rows=1),
        ),
    )
