"""Departures: is a broker that is gone replaced by those who live?

Guarantee: when a broker's registration is gone the controller elects others for what it led, and
takes it out of the in-sync sets that others are in; nothing else could (KafkaController's
onBrokerFailure). A controller that is new in office does so for whoever is gone by then.

Violations, `LIMIT_NS` after both the broker was gone and a controller was in office, with nothing
wrong with that one meanwhile:
- ``dead-leads``: a partition is still led by a broker that is gone, though another registered
  broker is in its in-sync set;
- ``dead-in-sync``: a broker that is gone is still in the in-sync set of a partition, beside one
  that is registered: acks=all waits for it in vain.
And sooner: ``dead-elected``, a broker was elected whose registration had been gone for `KNOWN_NS`,
by a controller that was in office all the while; ``dead-named`` and ``dead-not-offline``, a client
was told of it as if it were there (`still_named`). Who is back leads nothing in a
leader epoch of before: ``led-on`` (`began_anew`). Nothing is made with who is away in sync:
``dead-made-in-sync``, `made_in_sync`. Who lives and gets nothing is
dropped by its leader: ``lagging-in-sync``, ``lagging-for-long``, `lagging`, and nobody sooner:
``dropped-too-soon``, `dropped_early`; who is one round of fetching behind is let in:
``not-let-in``, `lagging`; and nobody waits for who is out of sync: ``held-up``, `held_up`; nor at
who leads no more, or has no replica: ``left-waiting``, `left_waiting`; nor when what it waits for
has come about: ``left-unanswered``; but for as long as it allows: ``given-up-too-soon``,
`left_unanswered`; and no longer: ``kept-waiting``, `kept_waiting`; and with acks=1 for nobody:
``one-kept-waiting``, `one_kept_waiting`. Who has no disk left is a departure, too:
``went-on-without-a-disk``, `went_on`.

Excused, and counted: what a fault may have kept the controller from knowing, by the harness, whose
fault names it; answers of a broker that a fault names are not judged, and counted. Unknown: who was
gone, and still named, when the load ended, for too short a time to be held against anybody.

Lawful, and similar: the last member of a set stays in it (it may come back with everything); topics
that are being deleted are left as they are; a controller that a fault names, that is paused, or
that is just being replaced, decides when it can. It is read from ZooKeeper's own log, and from the
watch of registrations; times are used only as distances of seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.faults import faults_of
from checkers.facts.in_sync_writes import MAY_JOIN
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order, written
from checkers.facts.timeline import FOREVER
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.departures.answered_late import IN_TURN, answered_late
from checkers.promises.departures.began_anew import ANEW, began_anew
from checkers.promises.departures.dropped_early import BEGUN, dropped_early
from checkers.promises.departures.held_up import OFFERED, held_up
from checkers.promises.departures.kept_waiting import HELD_TO, kept_waiting
from checkers.promises.departures.lagging import AFAR, HELD, SOON, from_afar, lagging, too_soon
from checkers.promises.departures.left_unanswered import TIMED, given_up_too_soon, left_unanswered
from checkers.promises.departures.left_waiting import WAITED, left_waiting
from checkers.promises.departures.made_in_sync import MADE, made_in_sync
from checkers.promises.departures.one_kept_waiting import ANSWERED, one_kept_waiting
from checkers.promises.departures.still_named import NAMED, OFFLINE, still_named
from checkers.promises.departures.went_on import FAILED, went_on

if TYPE_CHECKING:
    from checkers.history.frames import History

LIMIT_NS: Final = 5_000_000_000
"""A controller decides in milliseconds; on a busy machine in a second."""
KNOWN_NS: Final = 2_000_000_000
"""So long after a registration is gone its controller knows."""
TAKES_OVER_NS: Final = 2_000_000_000
"""Who is new in office, or just had a fault, has everything to tell everybody before it tells of
one more who is gone (KafkaController.onControllerFailover)."""
SUCCEEDS_NS: Final = 5_000_000_000
"""And who succeeds another reads everything anew before that, which took one on a busy machine five
seconds."""
REPLACED: Final = "departures that a controller had to answer"
ELECTED: Final = "leaders elected"
Row = Mapping[str, Any]
Trial = tuple[str, int]


@dataclass(slots=True)
class _Cluster:
    """One trial's ZooKeeper as of one moment."""

    gone: dict[int, Row] = field(default_factory=dict)
    """Brokers that were registered once, and by which row they ceased to be."""
    controller: int | None = None
    succeeds: bool = False
    """Whether another was the controller before."""
    states: dict[Key, Row] = field(default_factory=dict)
    dying: set[str] = field(default_factory=set)
    disturbed: dict[int | None, int] = field(default_factory=dict)
    """How many faults are in place that name a broker (None: that name nobody)."""
    able_since: int | None = None
    """Since when (ns) the present controller can decide; None: it cannot."""
    absent: dict[int, int] = field(default_factory=dict)
    """Since when (ns) a broker is gone and its controller can say so."""
    absences: list[tuple[int, int, int]] = field(default_factory=list)
    """Those that are over: broker, from, to."""
    owed: dict[tuple[Key, int], int] = field(default_factory=dict)
    """Since when (ns) the present controller owes a decision about a partition and who is gone."""
    let_in: set[tuple[Key, int]] = field(default_factory=set)
    """Who was taken into an in-sync set, in the same leader epoch, when it was gone already."""
    leaders_let_in: bool = False
    """Whether leaders may do that (`MAY_JOIN`)."""

    @property
    def can_decide(self) -> bool:
        one = self.controller
        if one is None or one in self.gone:
            return False
        return not self.disturbed.get(one) and not self.disturbed.get(None)

    def owes(self, key: Key, node: int) -> bool:
        """Whether somebody who lives could take the place of ``node``, which is gone."""
        row = self.states[key]
        isr = set(row["isr"] or ())
        named = node in isr or row["leader"] == node
        return named and key[2] not in self.dying and bool(isr - set(self.gone))


def check(history: History) -> Outcome:
    outcome = Outcome()
    by_trial: dict[Trial, list[Row]] = {}
    for row in in_order(history):
        by_trial.setdefault((row["arm"], row["trial"]), []).append(row)
    for trial, rows in by_trial.items():
        for finding in _judge(history, outcome, trial, rows):
            outcome.add(finding)
    told = still_named(history, outcome, _absences(history), partial(_besides, history))
    kept = (
        *held_up(history, outcome),
        *left_waiting(history, outcome),
        *given_up_too_soon(history, outcome),
        *left_unanswered(history),
        *kept_waiting(history, outcome),
        *one_kept_waiting(history, outcome),
        *went_on(history, outcome),
        *answered_late(history, outcome),
    )
    anew = began_anew(history, outcome, partial(_besides, history), partial(_end, history))
    lag = (
        *lagging(history, outcome),
        *too_soon(history, outcome),
        *from_afar(history, outcome),
        *dropped_early(history, outcome),
    )
    made = made_in_sync(history, outcome)
    for finding in (*told, *anew, *lag, *kept, *made):
        outcome.add(finding)
    for arm, _ in sorted(set(history.trials) - set(by_trial)):
        what = "who is gone, and still leads, is in sync or named; who lags, and is kept or dropped"
        outcome.unjudged(arm, f"without ZooKeeper's own log: {what}")
    return outcome


def _judge(history: History, outcome: Outcome, trial: Trial, rows: list[Row]) -> Iterator[Finding]:
    facts = history.run.arms.get(trial[0], {})
    cluster = _Cluster(leaders_let_in=facts.get(MAY_JOIN) is True)
    events: list[tuple[int, int, str, Any]] = []
    for number, row in enumerate(rows):
        events.append((row["t"], number, "row", row))
    for t, step, what in _besides(history, trial):
        events.append((t, -1, step, what))
    end_t = _end(history, trial)
    # ZooKeeper's rows in their own order where its clock does not tell; the rest between them.
    for t, _, step, what in sorted(events, key=lambda event: event[:2]):
        if end_t is not None and t > end_t:
            break
        yield from _late(outcome, trial, cluster, t)
        if step == "row" and what["what"] == "state" and what["topic"] is not None:
            yield from _elected(outcome, trial, cluster, what)
        _take(cluster, step, what)
        _settle(outcome, trial, cluster, t)
    if end_t is not None:
        yield from _late(outcome, trial, cluster, end_t)
        _left_over(outcome, trial, cluster, end_t)
        _absences(history)[trial] = [
            *cluster.absences,
            *((node, since_t, end_t) for node, since_t in cluster.absent.items()),
        ]


def _absences(history: History) -> dict[Trial, list[tuple[int, int, int]]]:
    """By trial: (broker, from, to) in which it was gone and nothing kept its controller from saying
    so (ns)."""
    known: dict[Trial, list[tuple[int, int, int]]] = history.memo("absences", dict)
    return known


def _take(cluster: _Cluster, step: str, what: Any) -> None:
    if step == "begun":
        for node in what:
            cluster.disturbed[node] = cluster.disturbed.get(node, 0) + 1
    elif step == "over":
        for node in what:
            cluster.disturbed[node] -= 1
    elif step == "dying":
        cluster.dying.add(what)
    elif step == "unregistered":
        cluster.gone[what["node"]] = what
    elif step == "registered":
        cluster.gone.pop(what["node"], None)
    elif what["what"] == "broker" and what["node"] is not None:
        if what["step"] == "removed":
            cluster.gone[what["node"]] = what
        else:
            cluster.gone.pop(what["node"], None)
    elif what["what"] == "controller":
        cluster.controller = None if what["step"] == "removed" else what["node"]
        cluster.succeeds |= what["step"] == "removed"
        cluster.owed.clear()
        cluster.able_since = None
        cluster.absences += [(node, t0, what["t"]) for node, t0 in cluster.absent.items()]
        cluster.absent.clear()
    elif what["what"] == "state" and what["topic"] is not None:
        if what["step"] == "removed":
            cluster.states.pop(key_of(what), None)
        else:
            _let_in(cluster, what)
            cluster.states[key_of(what)] = what
    elif what["what"] == "topic" and what["step"] == "removed":
        for key in [key for key in cluster.states if key[2] == what["topic"]]:
            del cluster.states[key]
        cluster.dying.discard(what["topic"])


def _let_in(cluster: _Cluster, row: Row) -> None:
    """Note whom a leader takes in that is gone, for as long as it is in."""
    key, old = key_of(row), cluster.states.get(key_of(row))
    isr, before = set(row["isr"] or ()), set((old or {}).get("isr") or ())
    cluster.let_in = {one for one in cluster.let_in if one[0] != key or one[1] in isr}
    if old is not None and old["leader_epoch"] == row["leader_epoch"]:
        cluster.let_in |= {(key, node) for node in (isr - before) & set(cluster.gone)}


def _settle(outcome: Outcome, trial: Trial, cluster: _Cluster, t: int) -> None:
    """What is owed from now on, and what no more. It counts as judged when it was done."""
    for node, since_t in list(cluster.absent.items()):
        if node not in cluster.gone or not cluster.can_decide:
            cluster.absences.append((node, since_t, t))
            del cluster.absent[node]
    if not cluster.can_decide:
        cluster.owed.clear()
        cluster.able_since = None
        return
    if cluster.able_since is None:
        cluster.able_since = t
    for node in cluster.gone:
        takes_ns = SUCCEEDS_NS if cluster.succeeds else TAKES_OVER_NS
        cluster.absent.setdefault(node, max(t, cluster.able_since + takes_ns))
    for key, node in list(cluster.owed):
        gone, known = node in cluster.gone, key in cluster.states
        if gone and known and cluster.owes(key, node):
            continue
        del cluster.owed[key, node]
        if gone and known and key[2] not in cluster.dying:
            outcome.saw(*trial, REPLACED)
    for node in cluster.gone:
        for key in cluster.states:
            if cluster.owes(key, node):
                cluster.owed.setdefault((key, node), t)


def _elected(outcome: Outcome, trial: Trial, cluster: _Cluster, row: Row) -> Iterator[Finding]:
    """Whether who leads from now on had been gone for long."""
    key, node = key_of(row), row["leader"]
    before = cluster.states.get(key)
    if node is None or node < 0 or row["step"] == "removed":
        return
    if before is not None and before["leader"] == node:
        return
    outcome.saw(*trial, ELECTED)
    gone = cluster.gone.get(node)
    if gone is None:
        return
    known_t = max(gone["t"], cluster.able_since or row["t"]) + KNOWN_NS
    if cluster.able_since is None and row["t"] >= gone["t"] + KNOWN_NS:
        outcome.excuse(*trial, "dead-elected", "disturbed", of=ELECTED)
    elif row["t"] >= known_t:
        yield Finding(
            "dead-elected",
            f"{key[2]}-{key[3]} was given leader {node}, whose registration had been gone for "
            f"{(row['t'] - gone['t']) / 1e9:.1f} s, by controller epoch {row['controller_epoch']}",
            *trial,
            (_gone(gone), written(row)),
        )


def _late(outcome: Outcome, trial: Trial, cluster: _Cluster, t: int) -> Iterator[Finding]:
    """What should have been done by ``t``; each told once."""
    for (key, node), since_t in list(cluster.owed.items()):
        if t - since_t < LIMIT_NS or since_t < 0:
            continue
        cluster.owed[key, node] = -1
        outcome.saw(*trial, REPLACED)
        row = cluster.states[key]
        leads = row["leader"] == node
        if cluster.leaders_let_in and (key, node) in cluster.let_in:
            outcome.excuse(*trial, "dead-in-sync", "let-in-leaving", of=REPLACED)
            continue
        yield Finding(
            "dead-leads" if leads else "dead-in-sync",
            f"{key[2]}-{key[3]} {'is led by' if leads else 'has in sync'} node {node} "
            f"{(t - since_t) / 1e9:.1f} s after its registration was gone and node "
            f"{cluster.controller} was the controller; in sync: {list(row['isr'] or ())}",
            *trial,
            (written(row), _gone(cluster.gone[node])),
        )


def _left_over(outcome: Outcome, trial: Trial, cluster: _Cluster, end_t: int) -> None:
    """What nobody had answered when the load ended, and cannot be held against anybody."""
    for (key, _), since_t in cluster.owed.items():
        if since_t >= 0:
            seconds = (end_t - since_t) / 1e9
            says = f"{key[2]}-{key[3]} still named who was gone, {seconds:.1f} s after it could"
            outcome.unknown(*trial, f"{says} be known: too early to tell")
    if cluster.can_decide:
        return
    for node in cluster.gone:
        for key in cluster.states:
            if cluster.owes(key, node):
                outcome.saw(*trial, REPLACED)
                rule = "dead-leads" if cluster.states[key]["leader"] == node else "dead-in-sync"
                outcome.excuse(*trial, rule, "disturbed", of=REPLACED)


def _gone(row: Row) -> Pick:
    """How it is known that a broker was gone."""
    if "zxid" in row:
        return written(row)
    return Pick("node_event", {"node": row["node"], "event": "unregistered", "t": row["t"]}, rows=1)


def _end(history: History, trial: Trial) -> int | None:
    """When the load ended (ns): after that brokers are stopped for good."""
    looked = [
        row["t"] for row in rows_of(history, "phase", trial) if row["name"] in ("quiesce", "settle")
    ]
    return max(looked, default=None)


def _besides(history: History, trial: Trial) -> Iterator[tuple[int, str, Any]]:
    """Faults, from their beginning until they were healed, by the brokers that they ever name;
    deletions that were asked for; pauses, whether a fault names whom it paused or not; and
    registrations as they were watched: those that a session's end takes with it ZooKeeper's log
    does not tell of one by one."""
    for fault in faults_of(history, trial):
        named: list[int | None] = [*sorted(fault.nodes)] or [None]
        yield fault.from_t, "begun", named
        if fault.to_t < FOREVER:
            yield fault.to_t, "over", named
    paused: set[int] = set()
    events = rows_of(history, "node_event", trial)
    for row in events:
        if row["node"] is None:
            continue
        if row["event"] == "pause" and row["node"] not in paused:
            paused.add(row["node"])
            yield row["t"], "begun", [row["node"]]
        elif row["event"] in ("resume", "kill", "exited") and row["node"] in paused:
            paused.discard(row["node"])
            yield row["t"], "over", [row["node"]]
    for row in rows_of(history, "topic_deletion", trial):
        if row["step"] == "requested":
            yield row["t"], "dying", row["topic"]
    for row in events:
        if row["event"] in ("registered", "unregistered"):
            yield row["t"], row["event"], row


PROMISE: Final = Promise(
    name="departures",
    says="A broker that is gone is replaced by those who live.",
    source="KafkaController.onBrokerFailure and onReplicasBecomeOffline; KIP-380",
    rules={
        "dead-leads": "A partition is led by one who lives, if any is in sync.",
        "dead-in-sync": "Who is gone leaves the in-sync sets that others are in.",
        "dead-elected": "Nobody is elected who is known to be gone.",
        "dead-made-in-sync": "Who is gone is not in the first in-sync set of what is made.",
        "dead-named": "Clients are not sent to who is known to be gone.",
        "dead-not-offline": "Replicas on who is known to be gone are told to be offline.",
        "led-on": "Who began anew leads nothing in a leader epoch of before (KIP-380).",
        "lagging-in-sync": "Who gets nothing, though its leader takes records, is dropped.",
        "lagging-for-long": "The same, for five seconds more: on a busy machine as well.",
        "dropped-too-soon": "Who lags for less than replica.lag.time.max.ms stays in sync.",
        "not-let-in": "Who is one round of fetching behind, and no more, comes into sync.",
        "held-up": "acks=all does not wait for who is out of sync.",
        "left-waiting": "Who waits at a leader that leads no more is told so at once.",
        "left-unanswered": "acks=all is acknowledged as soon as it is committed.",
        "given-up-too-soon": "acks=all is waited for as long as its sender allows.",
        "kept-waiting": "acks=all is waited for no longer than its sender allows.",
        "one-kept-waiting": "acks=1 is answered as soon as its leader has the record.",
        "went-on-without-a-disk": "Whose only log directory fails ends at once (KIP-112).",
        "answered-late": "Who is told of a later record has been told of the earlier one.",
    },
    evidence={
        REPLACED: "by partition: who was gone led it or was in sync, and another lived",
        ELECTED: "by partition, its first one among them",
        MADE: "by partition, whatever kept its controller from deciding",
        NAMED: "of brokers that no fault named",
        OFFLINE: "of brokers that no fault named, by readers that write that down",
        ANEW: "by partition, of which the controller of before decided again",
        HELD: "than replica.lag.time.max.ms, by the harness",
        BEGUN: "by partition and leader epoch, members that stay for a while",
        AFAR: "by the harness, over links on which answers are late",
        SOON: "for however long, by the harness, by stopping them or their links",
        OFFERED: "for long, in sets that nothing was done to, and that were large enough",
        WAITED: "sent by producers that name one partition and one broker",
        TIMED: "sent by producers that name one partition, and say how long they wait",
        HELD_TO: "by producers that name one partition, acks=all",
        ANSWERED: "by producers that name one partition, on topics with LogAppendTime",
        FAILED: "by the harness, in its only log directory",
        IN_TURN: "by producer and partition",
    },
    unknown_when=("who was gone is still named when the load ends, too early to tell",),
    blind=(
        "brokers that were away for less than 5 s, and were never replaced",
        "a controller that a fault names, while it does",
        "replicas that are told to be offline, and are not",
        "acks=all that is held up for less than 2.5 s",
        "who is named as live for less than 3 s after it is gone",
        "replicas not told to be offline for less than 2 s after their broker is named no more",
        "acks=all whose answers are lost, to producers that do not say how long they wait, or are "
        "all late together",
        "followers that go on fetching, and lag all the while",
        "without ZooKeeper: who is gone, and who lags; what acks=all waits for is judged",
    ),
    timed=frozenset(
        {
            "dead-leads",
            "dead-in-sync",
            "dead-elected",
            "dead-named",
            "dead-not-offline",
            "led-on",
            "lagging-in-sync",
            "lagging-for-long",
            "dropped-too-soon",
            "not-let-in",
            "held-up",
            "left-waiting",
            "left-unanswered",
            "kept-waiting",
            "one-kept-waiting",
            "went-on-without-a-disk",
            "answered-late",
        }
    ),
    patient=frozenset({"dead-leads", "dead-in-sync", "dead-elected", "led-on", "lagging-for-long"}),
    check=check,
)
