"""Metrics of planes: does each plane's say what was asked of that plane? For
`checkers.promises.planes`.

An operator tells a control plane that is starved from one that is not by KIP-291's metrics alone.
They are read as a flood sets in and before it ends (`plane_metric`); what they have to say then
follows from what the harness itself asked of the broker, on the one plane and not on the other:

- the flood holds more connections than the data plane's queue has places, each with a request under
  way: the queue is long (RequestQueueSize, at one of the readings) and its handlers hardly wait
  (RequestHandlerAvgIdle).
  Of its network threads only those of one listener have more to do; but all together they wait no
  more than those of a control plane that is hardly asked (NetworkProcessorAvgIdle);
- the control plane's one handler waited for no longer than there was between the readings; it and
  the one network thread were busy for no longer than those waited who asked it (probes, the
  controller): each waits for all that is done for its request; and no more than those can wait in
  its queue;
- every request that was answered between the two readings was counted (RequestsPerSec), and none
  that nobody sent; a request of the flood waited in the queue, for no longer than for its answer,
  and half of the controller's for no longer than any of them for its own (RequestQueueTimeMs);
- no authentication can expire where there is none (ExpiredConnectionsKilledCount).

Where there is to be no control plane, nothing is told of its queue or its handler.

And they are read twice once the load has ended (`AT_REST`): a plane that nobody asks anything is
idle all the while, and says so. A broker that counts a wait when it is over is right about a plane
that is asked all the time, and wrong about this one.

- ``plane-metric-otherwise``: a metric says something else beside a flood.
- ``at-rest-otherwise``: it does once the load has ended. No standstill of the machine is an excuse,
  but one between the two readings that took more than a tenth of that time (`_ALIKE`).
- ``queue-overfull``: more requests wait in the queue of a plane than it has places
  (RequestQueueSize above ``queued.max.requests``, or the control plane's above `CONTROL_PLACES`).
  Whoever floods then fills a broker's memory, and no processor is kept from reading
  (RequestChannel's ArrayBlockingQueue). That is no matter of time.

Half of a bound is left to the machine (`SLACK`): a thread that is awake and waits for a core counts
as busy. Not judged: a flood that was broken off, or beside which something else was done to the
broker; the control plane of whoever was the controller then, since brokers ask it there, and nobody
notes how long that took; a broker that gave no metrics.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

from checkers.facts.floods import Flood, broken_off, floods
from checkers.facts.standstills import stood_still_ns
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick
from checkers.promises.planes.behind_data import disturbed, mean_ns

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "plane-metric-otherwise"
RESTLESS: Final = "at-rest-otherwise"
OVERFULL: Final = "queue-overfull"
_PLACES: Final = "queued.max.requests"
CONTROL_PLACES: Final = 20
"""SocketServer.ControlPlaneRequestChannelQueueSize."""
TOLD: Final = "metrics of planes beside a flood"
RESTED: Final = "metrics of control planes at rest"
AT_REST: Final = "at rest"
"""The readings' ``name``, where no fault made them: the harness's own."""
SLACK: Final = 0.5
_QUEUED: Final = 0.1
"""Of its places so many are taken, at the least; seen 0.6 and more."""
_WAITED: Final = 0.01
"""Of what a request of the flood takes half of them wait in the queue, at the least; seen 0.03 and
more: where cores are short, whoever floods waits for one as well. What is not the queue's share is
far less (a handler's work: 0.002), and so is a wrong unit."""
_ALIKE: Final = 0.1
"""By so much two shares of time may differ that are the same."""
SHORTEST_NS: Final = 2_000_000_000
"""Between two readings: a second is what the network threads' idle share is told of."""
MARGIN_NS: Final = 500_000_000
"""A request is counted when its answer has left, by a thread that may wait for a core then."""
_APIS: Final = {
    "LEADER_AND_ISR": "LeaderAndIsr",
    "UPDATE_METADATA": "UpdateMetadata",
    "STOP_REPLICA": "StopReplica",
}
_COUNTED: Final = re.compile(r".*name=RequestsPerSec,request=(\w+)(?:,.*)?")

Place = tuple[str, int, int]
Row = Mapping[str, Any]


class Told(NamedTuple):
    """One reading: by MBean (its name without type) and attribute."""

    from_t: int
    t: int
    values: dict[tuple[str, str], float | None]

    def of(self, name: str, attribute: str = "Value") -> float | None:
        return self.values.get((name, attribute))

    def counted(self) -> dict[str, float]:
        """By API, over all versions."""
        found: dict[str, float] = defaultdict(float)
        for (name, attribute), value in self.values.items():
            api = _COUNTED.fullmatch(name)
            if api and attribute == "Count":
                found[api[1]] += value or 0
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """A control request that somebody sent: from when to when he waited (``t`` None: no answer)."""

    api: str
    on_data_plane: bool
    from_t: int
    t: int | None


def plane_metrics(
    history: History, outcome: Outcome, planes: Mapping[str, Any], office: Collection[Place]
) -> Iterator[Finding]:
    """``planes``: which each arm is to have; ``office``: who ever was controller."""
    readings = _readings(history)
    broken = {(f.arm, f.trial, f.id, f.node) for f, _ in broken_off(history)}
    asked: dict[Place, list[Asked]] | None = None
    for flood in floods(history):
        key = (flood.arm, flood.trial, flood.id, flood.node)
        told = readings.get(key, [])
        if not told:
            outcome.unjudged(flood.arm, "metrics of planes beside a flood: nobody was told any")
            continue
        if planes.get(flood.arm) not in ("dual", None):
            yield from _no_control_plane(flood, told)
        configured = history.run.brokers.get(_PLACES)
        for mbean, words in _overfull(int(configured) if configured else flood.queue_places, told):
            yield _finding(flood, mbean, words, OVERFULL)
        if (
            flood.queue_places is None
            or key in broken
            or len(told) < 2
            or told[-1].from_t - told[0].t < SHORTEST_NS
            or disturbed(history, flood)
        ):
            outcome.unjudged(flood.arm, "metrics beside a flood that was short, light or disturbed")
            continue
        if asked is None:
            asked = _asked(history)
        here = asked.get((*key[:2], flood.node), [])
        outcome.saw(flood.arm, flood.trial, TOLD, len(told[-1].values))
        says = [*_data(flood, told), *_counts(flood, told, here), *_waits(flood, told, here)]
        if planes.get(flood.arm) == "dual":
            if (flood.arm, flood.trial, flood.node) in office:
                outcome.unjudged(flood.arm, "metrics of the controller's own control plane")
            else:
                says += _control(told, here)
        for mbean, words in says:
            yield _finding(flood, mbean, words)
    yield from _at_rest(history, outcome, planes, office, readings)


def _at_rest(
    history: History,
    outcome: Outcome,
    planes: Mapping[str, Any],
    office: Collection[Place],
    readings: Mapping[tuple[str, int, str, int], list[Told]],
) -> Iterator[Finding]:
    """Of brokers with a control plane that were never controller."""
    asked: dict[Place, list[Asked]] | None = None
    for (arm, trial, name, node), told in sorted(readings.items()):
        if name != AT_REST or planes.get(arm) != "dual" or (arm, trial, node) in office:
            continue
        if len(told) < 2 or told[-1].from_t - told[0].t < SHORTEST_NS:
            outcome.unjudged(arm, "metrics at rest: read once, or twice in no time")
            continue
        first, last = told[0], told[-1]
        stood_ns = stood_still_ns(history, (arm, trial), first.from_t, last.t)
        if stood_ns > _ALIKE * (last.from_t - first.t):
            outcome.unjudged(arm, "metrics at rest: the machine stood still meanwhile")
            continue
        if asked is None:
            asked = _asked(history)
        outcome.saw(arm, trial, RESTED, len(told[-1].values))
        for mbean, words in _control(told, asked.get((arm, trial, node), []), at_rest=True):
            metric = mbean.removeprefix("name=")
            yield Finding(
                RESTLESS,
                f"node {node}'s metric {metric} says, once the load has ended: {words}",
                arm,
                trial,
                (Pick("plane_metric", {"node": node, "name": AT_REST}, last=True, rows=3),),
            )


def _readings(history: History) -> dict[tuple[str, int, str, int], list[Told]]:
    found: dict[tuple[Any, ...], dict[int, Told]] = defaultdict(dict)
    for row in history.rows("plane_metric"):
        if row["error"] is not None:
            continue
        key = (row["arm"], row["trial"], row["name"], row["node"])
        one = found[key].setdefault(row["from_t"], Told(row["from_t"], row["t"], {}))
        name = row["mbean"].partition(",")[2]
        one.values[name, row["attribute"]] = None if row["value"] is None else float(row["value"])
    return {key: [told for _, told in sorted(by_t.items())] for key, by_t in found.items()}


def _asked(history: History) -> dict[Place, list[Asked]]:
    """By broker: what controllers, probers and forgers sent there, each attempt for itself."""
    found: dict[Place, list[Asked]] = defaultdict(list)
    if history.has("control_send"):
        names = ["arm", "trial", "node", "boot", "to", "correlation_id", "api"]
        sent = history.frame("control_send").select(*names, F.col("t").alias("from_t"))
        if history.has("control_response"):
            # With each connection numbers begin anew: what is heard is of what was sent then.
            heard = history.frame("control_response").where("error is not null")
            heard = heard.select(*names, F.col("send_t").alias("from_t"), "t").distinct()
            sent = sent.join(heard, [*names, "from_t"], "left")
        else:
            sent = sent.withColumn("t", F.lit(None).cast("long"))
        for row in sent.toArrow().to_pylist():
            place = (row["arm"], row["trial"], row["to"])
            found[place].append(Asked(row["api"], False, row["from_t"], row["t"]))
    for kind in ("probe", "forged"):
        # A row a partition: of one request there may be several.
        requests = {(r["arm"], r["trial"], r["process"], r["op"]): r for r in history.rows(kind)}
        for row in requests.values():
            ended = row["t"] if row["type"] == "ok" else None
            asked = Asked(row["api"], row["plane"] == "data", row["invoke_t"], ended)
            found[row["arm"], row["trial"], row["node"]].append(asked)
    return found


Said = Iterator[tuple[str, str]]
"""(MBean without its type, what is wrong)."""


def _overfull(places_of_data: int | None, told: list[Told]) -> Said:
    for plane, places in (("", places_of_data), ("ControlPlane", CONTROL_PLACES)):
        name = f"name={plane}RequestQueueSize"
        longest = max((one.of(name) or 0 for one in told), default=0)
        if places is not None and longest > places:
            yield name, f"{longest:.0f}, and that queue has {places} places"


def _data(flood: Flood, told: list[Told]) -> Said:
    first, last = told[0], told[-1]
    places = flood.queue_places or 0
    # For a moment it may be empty: where whoever floods has no core, the broker catches up.
    sizes = [size for one in told if (size := one.of("name=RequestQueueSize")) is not None]
    held = flood.fewest_connections()
    if sizes and max(sizes) < _QUEUED * places:
        yield (
            "name=RequestQueueSize",
            f"{max(sizes):.0f} at most, while {held} connections were kept waiting for {places} "
            "places",
        )
    name, waited_ns = _handlers("", first, last)
    if waited_ns is not None and waited_ns / (last.from_t - first.t) > SLACK:
        idle = waited_ns / (last.from_t - first.t)
        yield name, f"{idle:.0%} idle, while the queue was kept full"
    yield from _expired("", last)


def _control(told: list[Told], asked: list[Asked], *, at_rest: bool = False) -> Said:
    """``at_rest``: of metrics that tell of the last second alone the best reading counts, for one
    is as good as another, and a thread may wait for a core in one."""
    first, last = told[0], told[-1]
    span = last.from_t - first.t
    asked = [one for one in asked if not one.on_data_plane]
    name, waited_ns = _handlers("ControlPlane", first, last)
    most_ns = last.t - first.from_t
    if waited_ns is not None and waited_ns > (1 + _ALIKE) * most_ns:
        yield name, f"{waited_ns / 1e9:.1f} s more, of no more than {most_ns / 1e9:.1f} s"
    size = last.of("name=ControlPlaneRequestQueueSize")
    waited = sum(one.from_t <= last.t and (one.t or last.t) >= last.from_t for one in asked)
    if size is not None and size > waited:
        words = f"{size:.0f}, while {waited} requests were under way"
        yield "name=ControlPlaneRequestQueueSize", words
    if all(
        one.t is not None for one in asked if first.from_t <= one.from_t < last.from_t - span / 4
    ):
        busy = _covered(asked, first.t, last.from_t) / span
        waits = f"while nobody waited for it for {1 - busy:.0%} of the time"
        if waited_ns is not None and waited_ns / span < SLACK * (1 - busy):
            yield name, f"{waited_ns / span:.0%} idle, {waits}"
        name = "name=ControlPlaneNetworkProcessorAvgIdlePercent"
        shares = [
            (share, one.of("name=NetworkProcessorAvgIdlePercent") or 0)
            for one in (told if at_rest else [last])
            if (share := one.of(name)) is not None
        ]
        share, others = max(shares, default=(1.0, 1.0))
        least = SLACK * (1 - busy)
        if not at_rest:
            least = max(min(others, 1 - busy) - _ALIKE, least)
        if share < least:
            yield name, f"{share:.0%} idle, those of the data plane {others:.0%}, {waits}"
    yield from _expired("ControlPlane", last)


def _handlers(plane: str, first: Told, last: Told) -> tuple[str, float | None]:
    """The metric, and for how long the plane's handlers waited between two readings (ns, the mean);
    None: it does not say."""
    name = f"name={plane}RequestHandlerAvgIdlePercent"
    before, after = first.of(name, "Count"), last.of(name, "Count")
    if before is None or after is None:
        return name, None
    return name, after - before


def _expired(plane: str, last: Told) -> Said:
    name = f"name={plane}ExpiredConnectionsKilledCount"
    killed = last.of(name)
    if killed:
        yield name, f"{killed:.0f}, while no connection was authenticated"


def _counts(flood: Flood, told: list[Told], asked: list[Asked]) -> Said:
    first, last = told[0], told[-1]
    before, after = first.counted(), last.counted()
    if not before or not after:
        return
    grown = sum(after.values()) - sum(before.values())
    answered = flood.completed(first.t + MARGIN_NS, last.from_t - MARGIN_NS)
    # A row counts what was answered in the interval that ends with it.
    answered -= max(
        (r["completed"] or 0 for rows in flood.workers.values() for r in rows), default=0
    )
    if grown < answered:
        words = f"{grown:.0f} more in all, while the flood alone was given {answered} answers"
        yield "name=RequestsPerSec", words
    for api, name in _APIS.items():
        of = [one for one in asked if one.api == api]
        sure = sum(
            one.t is not None and one.from_t >= first.t and one.t <= last.from_t - MARGIN_NS
            for one in of
        )
        possible = sum(
            one.from_t <= last.t and (one.t is None or one.t >= first.from_t - MARGIN_NS)
            for one in of
        )
        n = after.get(name, 0) - before.get(name, 0)
        if not sure <= n <= possible:
            words = f"{n:.0f} more, while of {sure} to {possible} that were sent the answer left"
            yield f"name=RequestsPerSec,request={name}", words


def _waits(flood: Flood, told: list[Told], asked: list[Asked]) -> Said:
    last = told[-1]
    of_flood = mean_ns(flood)
    waited = last.of("name=RequestQueueTimeMs,request=Produce", "50thPercentile")
    if waited is not None and of_flood is not None and "produce" in flood.fault:
        slowest = max(r["latency_max_ns"] or 0 for rows in flood.workers.values() for r in rows)
        if not _WAITED * of_flood <= waited * 1e6 <= max(2 * slowest, of_flood):
            yield (
                "name=RequestQueueTimeMs,request=Produce",
                f"half of them waited {waited:.0f} ms at most, and half at least, while the "
                f"flood's took {of_flood / 1e6:.0f} ms on the average",
            )
    for api, name in _APIS.items():
        of = [one for one in asked if one.api == api and one.from_t <= last.t]
        longest = max((one.t - one.from_t for one in of if one.t is not None), default=None)
        half = last.of(f"name=RequestQueueTimeMs,request={name}", "50thPercentile")
        if half is None or longest is None or any(one.t is None for one in of):
            continue
        if half * 1e6 > longest:
            yield (
                f"name=RequestQueueTimeMs,request={name}",
                f"half of them waited {half:.1f} ms or more, while nobody waited for an answer "
                f"longer than {longest / 1e6:.1f} ms",
            )


def _no_control_plane(flood: Flood, told: list[Told]) -> Iterator[Finding]:
    for name in ("RequestQueueSize", "RequestHandlerAvgIdlePercent"):
        mbean = f"name=ControlPlane{name}"
        if any(key[0] == mbean and value is not None for key, value in told[-1].values.items()):
            yield _finding(flood, mbean, "something, while there is to be no control plane")


def _covered(asked: list[Asked], from_t: int, to_t: int) -> int:
    """For how long of a span anybody waited (ns)."""
    total, at = 0, from_t
    for sent_t, answered_t in sorted((one.from_t, one.t) for one in asked if one.t is not None):
        begin, end = max(sent_t, at), min(answered_t, to_t)
        if end > begin:
            total, at = total + end - begin, end
    return total


def _finding(flood: Flood, mbean: str, words: str, rule: str = RULE) -> Finding:
    name = mbean.removeprefix("name=")
    return Finding(
        rule,
        f"node {flood.node}'s metric {name} says, while {flood.fault} lies on its data plane: "
        f"{words}",
        flood.arm,
        flood.trial,
        (
            Pick("fault", {"id": flood.id}, rows=2),
            Pick("plane_metric", {"node": flood.node, "name": flood.id}, last=True, rows=3),
        ),
    )
