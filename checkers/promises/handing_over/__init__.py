"""Handing over: does a broker that is stopped in order let others lead before it goes?

Guarantee: a broker that is asked to stop asks the controller first (ControlledShutdown), which
elects another in-sync replica for all that it leads; only then does it close its session
(KafkaServer.controlledShutdown, KafkaController.doControlledShutdown). Without it those partitions
have no leader until the controller has seen the broker vanish: no record is lost by that, and every
client waits.

Violations, for a stop that ended in order:
- ``left-leading``: when the broker's registration went it was the leader of a partition that it
  had led when its stop began, although another registered broker that was not being stopped was in
  sync then and now;
- ``left-in-sync``: when its registration went it was in the in-sync set of a partition, as it had
  been without a break since its stop began, although another registered broker that was not being
  stopped was in sync then and now: who writes with acks=all waits for it until it is found dead.
  The election that takes the lead from it takes it out (Election.leaderForControlledShutdown), and
  where it follows it is taken offline;
- ``joined-while-stopping``: its controller had let another lead in its place, and took it back into
  an in-sync set before its registration went (KIP-841): who writes there with acks=all waits for it
  as well. Until 3.3 Apache Kafka does so;
- ``stayed-on``: it led nothing any more that another replica could lead, and was registered still
  `LINGER_NS` later. Who is told that partitions remain asks again every 5 s
  (controlled.shutdown.retry.backoff.ms), and goes after the third time without having been
  relieved: 10 s after the first. What has one replica nobody else could lead, and it does not
  remain (KafkaController.doControlledShutdown);
- ``asked-again``: others had been elected for all that it led, and more than `ANSWERED_NS` later
  its controller was asked once more to let it go (as brokers count what they serve, by the second):
  the answer to the first had named what it led no more;
- ``would-not-hear``: it did not let its controller's orders come while it was being relieved
  (`hearing`).

Lawful, and similar: a broker that is killed or was too slow to stop hands nothing over; so does one
whose followers lag. A controller that changes, or that a fault disturbs, meanwhile may not have
heard of it: a stop is judged where no other fault was in place, all other brokers ran and the
office did not change hands, from `SETTLED_NS` before its beginning to `ASKED_NS` after it, or to
its end. What is not judged is named.
With ``controlled.shutdown.enable=false`` nobody is asked: not for scenarios that set it.

Who led what and who was registered is read from ZooKeeper's own log, in its own order; only the
stop's beginning is held against its times, which are widened by their error.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import details
from checkers.facts.faults import Fault, faults_of
from checkers.facts.in_sync_writes import MAY_JOIN
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import in_order, written
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.handing_over.hearing import relieving, unheard

if TYPE_CHECKING:
    from checkers.history.frames import History

SETTLED_NS: Final = 2_000_000_000
"""So long after an election, or after a fault was healed, brokers know their controller."""
ASKED_NS: Final = 2_000_000_000
"""So long after it was told to stop a broker has asked for the first time, and been answered."""
HANDED: Final = "partitions led by a broker that was stopped in order"
LEFT: Final = "partitions followed in sync by a broker that was stopped in order"
LINGER_NS: Final = 8_000_000_000
"""Much longer than a broker takes to go once it has been relieved (0.2 s here, 2 s of Apache
Kafka's, twice that on a busy machine), and less than who asks three times waits between."""
STOPS: Final = "stops in order"
ANSWERED_NS: Final = 1_000_000_000
"""All elections are held before the answer; who is told that partitions remain waits for 5 s."""
_ASKS: Final = "CONTROLLED_SHUTDOWN"
REGISTERED: Final = "registrations of brokers"
Row = Mapping[str, Any]
Trial = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Stop:
    """``gone``: the row by which its registration went."""

    node: int
    began_t: int
    ended_t: int
    gone: Row


@dataclass(frozen=True, slots=True)
class _Held:
    """A partition in which a stopped broker was in sync, and ``led`` perhaps, when its stop began:
    its state ``now``, when the registration went, and whether the broker ``was_without`` meanwhile,
    out of the in-sync set for any time."""

    key: Key
    led: bool
    now: Row
    was_without: bool


@dataclass(frozen=True, slots=True)
class _Span:
    """From when until when (ns; None: for ever) there was something the matter."""

    of: Any
    from_t: int
    to_t: int | None

    def meets(self, from_t: int, to_t: int) -> bool:
        return self.from_t < to_t and (self.to_t is None or self.to_t > from_t)


def check(history: History) -> Outcome:
    outcome = Outcome()
    written_by: dict[Trial, list[Row]] = {}
    for row in in_order(history):
        written_by.setdefault((row["arm"], row["trial"]), []).append(row)
    relieved: list[dict[str, Any]] = []
    may_join = {arm for arm, facts in history.run.arms.items() if facts.get(MAY_JOIN) is True}
    for trial, rows in written_by.items():
        events = rows_of(history, "node_event", trial)
        outcome.saw(*trial, REGISTERED, sum(_is_registration(row) for row in rows))
        down = _down(events)
        dying = {row["topic"] for row in rows_of(history, "topic_deletion", trial)}
        load_end_t = _load_end(rows_of(history, "phase", trial))
        for stop in _stops(events, rows, load_end_t):
            if stop is None:
                what = "a stop in order after which ZooKeeper's log tells of no end of registration"
                outcome.unjudged(trial[0], what)
                continue
            outcome.saw(*trial, STOPS)
            why = _unfit(stop, rows, faults_of(history, trial), down)
            if why is not None:
                outcome.unjudged(trial[0], f"a stop in order {why}")
                continue
            for one in _in_sync(stop, rows, down, dying):
                outcome.saw(*trial, HANDED if one.led else LEFT)
                if one.led and one.now["leader"] == stop.node:
                    outcome.add(_finding("left-leading", "the leader", trial, stop, one))
                elif one.now["leader"] != stop.node and not one.was_without:
                    outcome.add(_finding("left-in-sync", "in the in-sync set", trial, stop, one))
            for one in _joined(stop, rows) if trial[0] not in may_join else ():
                what = "back in the in-sync set"
                outcome.add(_finding("joined-while-stopping", what, trial, stop, one))
            until_t = relieving(stop.node, stop.began_t, stop.gone, rows)
            relieved.append(
                {
                    **{"arm": trial[0], "trial": trial[1], "stopped": stop.node},
                    **{"began_t": stop.began_t, "until_t": until_t},
                }
            )
            relieved_t = _relieved(stop, rows)
            why = _unfit(stop, rows, faults_of(history, trial), down, whole=True)
            if why is not None or relieved_t is None:
                continue
            lingered_ns = stop.gone["t"] - _error(stop.gone) - relieved_t
            if lingered_ns > LINGER_NS:
                outcome.add(_stayed(trial, stop, lingered_ns))
            for row in _asked_again(stop, relieved_t, rows_of(history, "plane_use", trial)):
                outcome.add(_again(trial, stop, row, relieved_t))
    for row in unheard(history, relieved):
        outcome.add(_would_not_hear(row))
    for arm, _ in sorted(set(history.trials) - set(written_by)):
        outcome.unjudged(arm, "without ZooKeeper's own log: who led what when it was stopped")
    return outcome


def _is_registration(row: Row) -> bool:
    return (row["what"], row["step"]) == ("broker", "created")


def _load_end(phases: Sequence[Row]) -> int | None:
    """When the load ended (ns): after that all are stopped, and nobody is left to take over."""
    return max((r["t"] for r in phases if r["name"] in ("quiesce", "settle")), default=None)


def _stops(
    events: Sequence[Row], rows: Sequence[Row], load_end_t: int | None
) -> Iterator[_Stop | None]:
    """Each that the broker ended by itself, while the run went on: until its load ended or, where
    nobody tells of that, until the last start. None: one that took no registration with it."""
    began: dict[int, int] = {}
    last_t = load_end_t
    if last_t is None:
        last_t = max((row["t"] for row in events if row["event"] == "start"), default=0)
    for row in events:
        if row["event"] == "stop":
            began[row["node"]] = row["t"]
        elif row["event"] == "stopped" and row["node"] in began:
            began_t = began.pop(row["node"])
            if row["t"] > last_t or not details(row).get("graceful", True):
                continue
            for gone in rows:
                mine = (gone["what"], gone["step"], gone["node"]) == (
                    "broker",
                    "removed",
                    row["node"],
                )
                if (
                    mine
                    and began_t <= gone["t"] + _error(gone)
                    and gone["t"] <= row["t"] + SETTLED_NS
                ):
                    yield _Stop(row["node"], began_t, row["t"], gone)
                    break
            else:
                yield None


def _down(events: Sequence[Row]) -> list[_Span]:
    """Where brokers were being stopped, paused or not running."""
    found: list[_Span] = []
    since: dict[int, int] = {}
    for row in events:
        if row["event"] in ("stop", "kill", "exited", "pause"):
            since.setdefault(row["node"], row["t"])
        elif row["event"] in ("start", "resume") and row["node"] in since:
            found.append(_Span(row["node"], since.pop(row["node"]), row["t"]))
    return found + [_Span(node, t, None) for node, t in since.items()]


def _unfit(
    stop: _Stop,
    rows: Sequence[Row],
    faults: Sequence[Fault],
    down: Sequence[_Span],
    *,
    whole: bool = False,
) -> str | None:
    """Why it cannot be said what should have come of a stop; None: it can. Its own fault is the one
    that began last before it. ``whole``: to its end, however long it took."""
    asked_t = stop.ended_t if whole else stop.began_t + ASKED_NS
    from_t, to_t = stop.began_t - SETTLED_NS, min(stop.ended_t, asked_t)
    near = [fault for fault in faults if fault.meets(from_t, to_t)]
    own = max((f.from_t for f in near if f.from_t <= stop.began_t), default=None)
    for fault in near:
        if fault.from_t != own:
            return f"while {fault.name} was in place, or had just been"
    if any(span.of != stop.node and span.meets(from_t, to_t) for span in down):
        return "while another broker was away, or had just been"
    for row in rows:
        if row["zxid"] >= stop.gone["zxid"]:
            break
        if row["what"] == "controller" and from_t < row["t"] + _error(row) < to_t:
            return "while the office of controller changed hands"
    return None


def _in_sync(
    stop: _Stop, rows: Sequence[Row], down: Sequence[_Span], dying: Container[str]
) -> Iterator[_Held]:
    """Where the broker was in sync when its stop began and another, in sync all the time, could
    lead."""
    then: dict[Key, Row] = {}
    now: dict[Key, Row] = {}
    without: set[Key] = set()
    registered: set[int] = set()
    for row in rows:
        if row["zxid"] >= stop.gone["zxid"]:
            break
        before = row["t"] + _error(row) < stop.began_t
        if row["what"] == "broker":
            if row["step"] == "removed":
                registered.discard(row["node"])
            elif before:
                registered.add(row["node"])
        elif row["what"] == "state" and row["topic"] is not None:
            for states in (now, then) if before else (now,):
                if row["step"] == "removed":
                    states.pop(key_of(row), None)
                else:
                    states[key_of(row)] = row
            if not before and stop.node not in (row["isr"] or ()):
                without.add(key_of(row))
    gone_t = stop.gone["t"] + _error(stop.gone)
    away = {span.of for span in down if span.meets(stop.began_t - SETTLED_NS, gone_t)}
    able = registered - away - {stop.node}
    for key, row in then.items():
        if stop.node not in (row["isr"] or ()) or key not in now or key[2] in dying:
            continue
        if able & set(row["isr"] or ()) & set(now[key]["isr"] or ()):
            yield _Held(key, row["leader"] == stop.node, now[key], key in without)


def _joined(stop: _Stop, rows: Sequence[Row]) -> Iterator[_Held]:
    """Where it came back into sync after another had been elected in its place."""
    now: dict[Key, Row] = {}
    relieved = False
    joined: set[Key] = set()
    for row in rows:
        if row["zxid"] >= stop.gone["zxid"]:
            break
        if row["what"] != "state" or row["step"] == "removed" or row["topic"] is None:
            continue
        before, now[key_of(row)] = now.get(key_of(row)), row
        if before is None or row["t"] + _error(row) < stop.began_t:
            continue
        was_in, is_in = (stop.node in (state["isr"] or ()) for state in (before, row))
        relieved |= before["leader"] == stop.node != row["leader"] and was_in and not is_in
        if relieved and is_in and not was_in and key_of(row) not in joined:
            joined.add(key_of(row))
            yield _Held(key_of(row), before["leader"] == stop.node, row, was_without=True)


def _relieved(stop: _Stop, rows: Sequence[Row]) -> int | None:
    """From when on (ns, at the latest) it led nothing that another replica could lead; None: it led
    such a partition to the end."""
    led: set[Key] = set()
    alone: set[Key] = set()
    since_t = stop.began_t
    for row in rows:
        if row["zxid"] >= stop.gone["zxid"]:
            break
        if row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
            if len(row["replicas"]) == 1:
                alone.add(key_of(row))
                led.discard(key_of(row))
            else:
                alone.discard(key_of(row))
        if row["what"] != "state" or row["topic"] is None or key_of(row) in alone:
            continue
        if row["step"] != "removed" and row["leader"] == stop.node:
            led.add(key_of(row))
        elif key_of(row) in led:
            led.discard(key_of(row))
            since_t = max(since_t, row["t"] + _error(row))
    return None if led else since_t


def _asked_again(stop: _Stop, relieved_t: int, use: Sequence[Row]) -> Iterator[Row]:
    """The row that says so; none of who had led nothing: it may be long in asking at all."""
    if relieved_t == stop.began_t:
        return
    for row in use:
        begun_t = row["t"] - row["interval_ns"]
        if row["api"] == _ASKS and relieved_t + ANSWERED_NS < begun_t < stop.gone["t"]:
            yield row
            return


def _would_not_hear(row: Row) -> Finding:
    lost, stopped = row["lost"], row["stopped"]
    after_ms = (lost["send_t"] - row["began_t"]) / 1e6
    return Finding(
        "would-not-hear",
        f"node {stopped} was stopped in order, and {after_ms:.0f} ms later, while its controller "
        f"was relieving it, {lost['api']} of node {row['node']} did not reach it",
        row["arm"],
        row["trial"],
        (
            Pick("node_event", {"node": stopped, "event": "stop"}, row["began_t"], row["began_t"]),
            Pick("control_response", {"node": row["node"], "to": stopped}, lost["t"], lost["t"]),
        ),
    )


def _again(trial: Trial, stop: _Stop, row: Row, relieved_t: int) -> Finding:
    later_s = (row["t"] - row["interval_ns"] - relieved_t) / 1e9
    return Finding(
        "asked-again",
        f"node {stop.node} was stopped in order, and more than {later_s:.1f} s after others led "
        f"all that it had led node {row['node']} was asked once more to let it go",
        *trial,
        (
            Pick("node_event", {"node": stop.node, "event": "stop"}),
            Pick("plane_use", {"node": row["node"], "api": _ASKS}, row["t"], row["t"], rows=1),
            written(stop.gone),
        ),
    )


def _stayed(trial: Trial, stop: _Stop, lingered_ns: int) -> Finding:
    return Finding(
        "stayed-on",
        f"node {stop.node} was stopped in order and led nothing any more, and was registered for "
        f"{lingered_ns / 1e9:.1f} s after that",
        *trial,
        (Pick("node_event", {"node": stop.node, "event": "stop"}), written(stop.gone)),
    )


def _error(row: Row) -> int:
    return int(row["error_ns"] or 0)


def _finding(rule: str, what: str, trial: Trial, stop: _Stop, one: _Held) -> Finding:
    took_s = (stop.gone["t"] - stop.began_t) / 1e9
    return Finding(
        rule,
        f"node {stop.node} was stopped in order and went {took_s:.1f} s later, still {what} of "
        f"{one.key[2]}-{one.key[3]}, with {list(one.now['isr'])} in sync",
        *trial,
        (
            written(one.now),
            Pick("node_event", {"node": stop.node, "event": "stop"}),
            written(stop.gone),
        ),
    )


PROMISE: Final = Promise(
    name="handing-over",
    says="A broker that is stopped in order lets others lead before it goes.",
    source="KafkaServer.controlledShutdown, KafkaController.doControlledShutdown",
    rules={
        "left-leading": "A partition that a stopped broker led, and another could lead, is given "
        "to that other before the broker goes.",
        "left-in-sync": "A stopped broker leaves the in-sync sets that others are in before it "
        "goes.",
        "joined-while-stopping": "A broker that is being stopped does not come back into sync.",
        "stayed-on": "A stopped broker that leads nothing any more goes soon.",
        "asked-again": "A stopped broker that leads nothing any more is told so at once.",
        "would-not-hear": "A stopped broker hears its controller's orders until it is relieved.",
    },
    evidence={
        REGISTERED: "all that there were: no stop in between is missed",
        STOPS: "by broker and stop; the one at the run's end is none",
        HANDED: "by partition, where somebody else could lead it",
        LEFT: "by partition, where its leader, or somebody else in sync, stays",
    },
    blind=(
        "a stop beside another fault, or beside an election of a controller",
        "how long a stop takes, up to 12 s, but for who asks twice and had led something",
        "of systems whose brokers do not count what they serve: who asks twice",
        "who hears nothing any more, where all was written before the first order was sent",
        "without ZooKeeper: all of it",
    ),
    timed=frozenset({"left-leading", "left-in-sync", "stayed-on", "asked-again"}),
    check=check,
)
