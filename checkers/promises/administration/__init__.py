"""Administration: what an operator asks for comes about, on a cluster that nobody disturbs.

All else is judged of a cluster that works. One that never comes to, or whose controller refuses or
forgets what it is asked for, proves nothing there: its topics are not made, its faults fail. Here
that is somebody's doing. The harness asks the controller as an operator would (kind
``admin_request``), for what any cluster can do: to make topics, to change their configs, to elect,
to move, to delete.

Violations. The first two only where no fault was in place that may concern the controller, and
every broker ran and was registered, from `BEFORE_NS` before on; nor did the office change hands,
from `TAKEN_NS` before on. The third of brokers that ran and were registered all the time, and that
no fault names; the fourth where there was no fault at all:

- ``request-refused``: the controller answers that it cannot do it, with an error by which Kafka
  finds fault with the request, or with itself (`_NEVER`; with a config, where it answers as
  releases since 3.3 do: of others nobody knows which configs they take); whatever goes on, and
  whoever says so, where only the request itself can bring that about (`_WITH_THE_REQUEST`);
- ``request-unanswered``: the controller does not answer within `ANSWER_NS`, longer than the request
  allows it (KafkaController and the purgatories answer by then, if only REQUEST_TIMED_OUT);
- ``never-elected``: `SOON_NS` long a broker is there, and nobody is controller: each stands as soon
  as the office is vacant (KafkaController.elect);
- ``never-told``: who asks a broker for the cluster is told less than all brokers and who the
  controller is, or nothing, `SOON_NS` after all of them had registered and one was in office, and
  all that time (KafkaController.onBrokerStartup sends everybody UpdateMetadata at once);
- ``never-made``: `SOON_NS` after a topic was made, or was given it, or after what was in place then
  was over, a partition of it has no state, so no leader, although a broker of its replicas is there
  to lead it, and gets none of who is in office then (KafkaController.onNewPartitionCreation,
  processPartitionModifications);
- ``impossible-done``, ``refused-otherwise``, ``never-refused``, ``answered-out-of-turn``: of what
  cannot be done (`impossible`), whatever goes on; the second also of what is refused with an error
  that answers other requests alone (`misnamed`);
- ``made-and-denied``: who said that it had made a topic, and ran and was registered ever since,
  says of it that there is none, to who is the first to delete it or gives it more partitions. It
  waits with the first answer until it knows the topic itself (DelayedCreatePartitions);
- ``made-out-of-turn``: a partition that a topic was given has no leader yet, though the controller
  has made a topic that was written later (`in_turn`);
- ``answer-withheld``: it answers only long after what it was asked for was there (`withheld`);
- ``answered-too-soon``: it answers before it knows itself of what it did (`too_soon`);
- ``older-order-stands``: of several orders about one partition the last does not stand
  (`last_order`);
- ``order-forgotten``: who lost its session never answers an order that waited then (`forsaken`);
- ``never-addressed``: who registers is sent nothing in the name of that registration (`welcomed`);
- ``ruler-denies``: who has been controller for `BEFORE_NS`, and whom nothing disturbed since, says
  NOT_CONTROLLER, to anybody;
- ``granted-and-not-done``, ``refused-and-done``, ``election-denied``: what is answered is what
  ZooKeeper's log has (`answered`), whatever goes on.

``never-elected`` and ``never-made`` are read from ZooKeeper's own log; for ``never-told`` that
says who had registered. What only asks (`ASKING`)
is no disturbance.

Lawful, and looks similar: a controller that has just been elected does not know its topics yet and
says so; a topic that is to be deleted is made no more. How long each takes on a busy machine says
nothing: all of it takes milliseconds, and is given many seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.addressees import addressees
from checkers.facts.faults import ASKING, FLOOD, faults_of, faults_within
from checkers.facts.office import elections, in_order, written
from checkers.facts.registrations import absences
from checkers.facts.timeline import FOREVER
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.administration.answered import KEPT, answered
from checkers.promises.administration.forsaken import FORSAKEN, forsaken
from checkers.promises.administration.impossible import REFUSED, impossible, mixes
from checkers.promises.administration.in_turn import MADE_IN_TURN, in_turn
from checkers.promises.administration.last_order import CONTRARY, last_order
from checkers.promises.administration.misnamed import misnamed
from checkers.promises.administration.too_soon import SHOWN, granted, too_soon
from checkers.promises.administration.welcomed import WELCOMED, welcomed
from checkers.promises.administration.withheld import AWAITED, withheld
from checkers.promises.refusals.failures import AUTHORIZER

if TYPE_CHECKING:
    from checkers.history.frames import History

ANSWERED: Final = "requests of an operator"
MADE: Final = "partitions of topics that were made"
BEFORE_NS: Final = 5_000_000_000
TAKEN_NS: Final = 1_000_000_000
ANSWER_NS: Final = 25_000_000_000
SOON_NS: Final = 20_000_000_000
_NOT_CONTROLLER: Final = 41
_ORDERS: Final = ("grow-topic", "recreate-topic", "delete-topic", "delete-topic-away")
"""Faults that ask the controller for something, and keep it from nothing (nor does a flood: it
hears of topics from ZooKeeper)."""
_WAITS: Final = ("unheard-election",)
"""It makes a controller hear late of what it decided, and of nothing else."""
_NO_SUCH: Final = {3: "UNKNOWN_TOPIC_OR_PARTITION", 100: "UNKNOWN_TOPIC_ID"}
_OF_THE_CLUSTER: Final = "METADATA"
"""What each broker is asked for as the cluster comes up; a row is of one that never told."""
_NEVER: Final = {
    -1: "UNKNOWN_SERVER_ERROR",
    17: "INVALID_TOPIC_EXCEPTION",
    37: "INVALID_PARTITIONS",
    38: "INVALID_REPLICATION_FACTOR",
    39: "INVALID_REPLICA_ASSIGNMENT",
    42: "INVALID_REQUEST",
}
_INVALID_CONFIG: Final = {40: "INVALID_CONFIG"}
_FORBIDDEN: Final = {
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    44: "POLICY_VIOLATION",
}
"""What brokers without an authorizer, and without policies, never say."""
_WITH_THE_REQUEST: Final = frozenset({17, 42, *_FORBIDDEN})
"""What only the request itself can bring about, whoever lives, and whatever goes on."""
_POLICIES: Final = ("create.topic.policy.class.name", "alter.config.policy.class.name")
Row = Mapping[str, Any]
Trial = tuple[str, int]


@dataclass(frozen=True)
class _Trial:
    """What is known of one trial; ``rows``: ZooKeeper's own log, in its order."""

    history: History
    key: Trial
    rows: Sequence[Row]

    @cached_property
    def heard_t(self) -> int:
        """When anybody was last heard (ns)."""
        told = [rows_of(self.history, kind, self.key) for kind in ("node_event", "phase", "infra")]
        return max((row["t"] for rows in (*told, self.rows) for row in rows), default=0)

    @cached_property
    def sound(self) -> list[Row]:
        """What an operator asked for that can be done."""
        asked = rows_of(self.history, "admin_request", self.key)
        return [row for row in asked if row["wanted"] is None]

    @cached_property
    def _away(self) -> list[tuple[int, int, int]]:
        """(node, from, to), ns: when a broker was being ended, did not run, or was unregistered."""
        spans: list[tuple[int, int, int]] = []
        since: dict[int, int] = {}
        for row in rows_of(self.history, "node_event", self.key):
            if row["event"] in ("stop", "kill", "exited", "pause"):
                since.setdefault(row["node"], row["t"])
            elif row["event"] in ("start", "resume") and row["node"] in since:
                spans.append((row["node"], since.pop(row["node"]), row["t"]))
        spans += [(node, from_t, FOREVER) for node, from_t in since.items()]
        for (*trial, node), gone in absences(self.history).items():
            if tuple(trial) == self.key:
                spans += [(node, one.from_t, one.to_t or FOREVER) for one in gone]
        return spans

    def is_spared(
        self, from_t: int, to_t: int, node: int | None = None, *, beside: Collection[str] = ()
    ) -> bool:
        """Whether no fault that may concern the broker (None: any) was in place in that span (ns),
        but such as only ask, and those ``beside``."""
        sparing = {*ASKING, *beside}
        return not any(
            (node is None or fault.concerns(node)) and fault.name not in sparing
            for fault in faults_within(self.history, self.key, from_t, to_t)
        )

    def calm(
        self, node: int, from_t: int, to_t: int, for_ns: int, beside: Collection[str]
    ) -> tuple[int, int] | None:
        """The first such span in which one was controller, it and a broker were there, and spared:
        who that was, and its end (ns)."""
        ends = (
            *(fault.to_t for fault in faults_of(self.history, self.key)),
            *(back_t for _, _, back_t in self._away),
            *(one.t + TAKEN_NS for one in elections(self.history).get(self.key, ())),
        )
        for begin in sorted({t for t in (from_t, *ends) if from_t <= t <= to_t - for_ns}):
            until = begin + for_ns
            ruler = self.in_office(begin - TAKEN_NS, until)
            if ruler is not None and all(
                self.are_there(begin, until, one)
                and self.is_spared(begin, until, one, beside=beside)
                for one in (node, ruler)
            ):
                return ruler, until
        return None

    def hears(self, node: int, from_t: int, to_t: int, *, flooded: bool) -> bool:
        """Whether nothing kept a broker from hearing of orders, from `BEFORE_NS` before on: it ran,
        and no fault was in place but such as only order something, and (``flooded``) such as only
        make it wait: floods, and `_WAITS`."""
        begun_t = from_t - BEFORE_NS
        disturbed = any(
            fault.concerns(node)
            and fault.name not in (*ASKING, *_ORDERS)
            and not (flooded and (fault.name.startswith(FLOOD) or fault.name in _WAITS))
            for fault in faults_within(self.history, self.key, begun_t, to_t)
        )
        return not disturbed and self.are_there(begun_t, to_t, node)

    def are_there(self, from_t: int, to_t: int, node: int | None = None) -> bool:
        """Whether the broker (None: every broker) ran all the time, and was registered."""
        return not any(
            node in (None, who) and gone_t < to_t and back_t > from_t
            for who, gone_t, back_t in self._away
        )

    def all_had_come(self, by_t: int, to_t: int) -> bool:
        """Whether no broker was registered for the first time between the two (ns)."""
        first: dict[int, int] = {}
        for row in self.rows:
            if (row["what"], row["step"]) == ("broker", "created"):
                first.setdefault(row["node"], row["t"])
        return not any(by_t < t < to_t for t in first.values())

    def in_office(self, from_t: int, to_t: int) -> int | None:
        """Who was controller all the time, and a moment longer; None: nobody, or not one alone."""
        known = elections(self.history).get(self.key, [])
        vacant = (r["t"] for r in self.rows if (r["what"], r["step"]) == ("controller", "removed"))
        ends = (*(one.t for one in known), *(t - TAKEN_NS for t in vacant))
        if any(from_t < t < to_t for t in ends):
            return None
        before = [one for one in known if one.t <= from_t]
        return before[-1].node if before else None


def check(history: History) -> Outcome:
    outcome = Outcome()
    by_trial: dict[Trial, list[Row]] = {trial: [] for trial in history.trials}
    for row in in_order(history):
        by_trial.setdefault((row["arm"], row["trial"]), []).append(row)
    promised: list[dict[str, Any]] = []
    for key, rows in by_trial.items():
        trial = _Trial(history, key, rows)
        promised += _granted(trial)
        for finding in (
            *(*_asked(trial, outcome), *impossible(history, key, outcome)),
            *(*_vacancies(trial), *_untold(trial, outcome), *_unmade(trial, outcome)),
            *answered(history, key, rows, outcome, trial.are_there),
            *(*_denials(trial, outcome), *misnamed(key, trial.sound)),
            *(*_forgotten(trial), *_in_turn(trial, outcome), *_withheld(trial, outcome)),
            *last_order(history, key, rows, trial.in_office, partial(outcome.saw, *key, CONTRARY)),
            *forsaken(history, key, trial.are_there, partial(outcome.saw, *key, FORSAKEN)),
            *_welcomed(trial, outcome),
        ):
            outcome.add(finding)
    for finding in too_soon(history, outcome, promised):
        outcome.add(finding)
    return outcome


def _asked(trial: _Trial, outcome: Outcome) -> Iterator[Finding]:
    never = _NEVER if mixes(trial.history, trial.key) else _NEVER | _INVALID_CONFIG
    if not {AUTHORIZER, *_POLICIES} & set(trial.history.run.brokers):
        never |= _FORBIDDEN
    for row in rows_of(trial.history, "admin_request", trial.key):
        if row["wanted"] is not None or row["api"] == _OF_THE_CLUSTER:
            continue
        outcome.saw(*trial.key, ANSWERED)
        late = row["error"] is None and row["t"] - row["invoke_t"] >= ANSWER_NS
        if not late and row["error"] not in never:
            continue
        node, begun_t, t = row["node"], row["invoke_t"], row["t"]
        ruled = trial.in_office(begun_t - TAKEN_NS, t) == node
        calm_t = begun_t - BEFORE_NS
        there = trial.are_there(calm_t, t) and trial.all_had_come(calm_t, t)
        calm = ruled and there and trial.is_spared(calm_t, t, node)
        if not calm and row["error"] not in _WITH_THE_REQUEST:
            outcome.unjudged(trial.key[0], "a request of an operator that failed, in unrest")
            continue
        asked = f"was asked for {row['api']} {row['about']}".rstrip()
        took_s = (row["t"] - row["invoke_t"]) / 1e9
        says = f"did not answer in {took_s:.0f} s" if late else f"said {never[row['error']]}"
        yield Finding(
            "request-unanswered" if late else "request-refused",
            f"node {node}, which was controller, {asked}, on a cluster that nobody disturbed, and "
            f"{says}"
            if calm
            else f"node {node} {asked}, which was sound, and {says}",
            *trial.key,
            (Pick("admin_request", {"node": node, "op": row["op"], "about": row["about"]}),),
        )


def _welcomed(trial: _Trial, outcome: Outcome) -> Iterator[Finding]:
    sent: dict[tuple[int, int], int] = {}
    for row in addressees(trial.history).get(trial.key, ()):
        sent.setdefault((row["to"], row["broker_epoch"]), row["t"])
    if not sent:
        return
    ends: dict[int, int] = {}
    registered = []
    for row in reversed(trial.rows):
        if row["what"] == "broker" and row["step"] in ("created", "removed"):
            if row["step"] == "created":
                registered.append((row, ends.get(row["node"], trial.heard_t)))
            ends[row["node"]] = row["t"]
    saw = partial(outcome.saw, *trial.key, WELCOMED)
    yield from welcomed(trial.key, registered[::-1], sent, trial.calm, saw)


def _in_turn(trial: _Trial, outcome: Outcome) -> Iterator[Finding]:
    dying = {row["topic"] for row in rows_of(trial.history, "topic_deletion", trial.key)}

    is_fit = partial(trial.hears, flooded=True)
    saw = partial(outcome.saw, *trial.key, MADE_IN_TURN)
    yield from in_turn(trial.key, trial.rows, dying, is_fit, saw)


def _withheld(trial: _Trial, outcome: Outcome) -> Iterator[Finding]:
    def is_fit(node: int, from_t: int, to_t: int) -> bool:
        ruled = trial.in_office(from_t - TAKEN_NS, to_t) == node
        return ruled and trial.hears(node, from_t, to_t, flooded=False)

    dying = rows_of(trial.history, "topic_deletion", trial.key)
    saw = partial(outcome.saw, *trial.key, AWAITED)
    yield from withheld(trial.key, trial.sound, trial.rows, dying, is_fit, saw)


def _granted(trial: _Trial) -> Iterator[dict[str, Any]]:
    dying = rows_of(trial.history, "topic_deletion", trial.key)
    is_fit = partial(trial.hears, flooded=True)
    yield from granted(trial.key, trial.sound, trial.rows, dying, is_fit)


def _denials(trial: _Trial, outcome: Outcome) -> Iterator[Finding]:
    """One finding a broker, whatever it was asked for."""
    told: set[int] = set()
    for row in rows_of(trial.history, "admin_request", trial.key):
        node, calm_t = row["node"], row["invoke_t"] - BEFORE_NS
        if row["error"] != _NOT_CONTROLLER or node in told:
            continue
        if trial.in_office(calm_t, row["t"]) != node:
            continue
        if not trial.are_there(calm_t, row["t"], node) or not trial.is_spared(
            calm_t, row["t"], node
        ):
            outcome.unjudged(trial.key[0], "a controller that said that it was none, in unrest")
            continue
        told.add(node)
        yield Finding(
            "ruler-denies",
            f"node {node}, which had been controller for {BEFORE_NS / 1e9:.0f} s, was asked for "
            f"{row['api']} {row['about']}, and said that it was none",
            *trial.key,
            (
                Pick(
                    "controller",
                    {"node": node, "event": "elected"},
                    to_t=row["t"],
                    rows=1,
                    last=True,
                ),
                Pick(
                    "admin_request",
                    {"node": node, "op": row["op"], "process": row["process"]},
                    rows=1,
                ),
            ),
        )


def _forgotten(trial: _Trial) -> Iterator[Finding]:
    """One finding a topic, whatever goes on."""
    made: dict[str, Row] = {}
    rows = (r for r in rows_of(trial.history, "admin_request", trial.key) if r["wanted"] is None)
    for row in sorted(rows, key=lambda r: r["invoke_t"]):
        topic, denied = row["about"], row["error"] in _NO_SUCH
        if row["api"] == "CREATE_TOPICS":
            if row["type"] == "ok":
                made[topic] = row
            continue
        if row["api"] not in ("DELETE_TOPICS", "CREATE_PARTITIONS") or topic not in made:
            continue
        known, node = made[topic], row["node"]
        asked_later = row["invoke_t"] > known["t"] and node == known["node"]
        if denied and asked_later and trial.are_there(known["invoke_t"], row["t"], node):
            del made[topic]
            yield Finding(
                "made-and-denied",
                f"node {node} had made {topic}, was asked for {row['api']}, and said "
                f"{_NO_SUCH[row['error']]}",
                *trial.key,
                tuple(
                    Pick("admin_request", {"node": node, "op": r["op"], "about": topic}, rows=1)
                    for r in (known, row)
                ),
            )
        elif row["api"] == "DELETE_TOPICS":
            del made[topic]


def _vacancies(trial: _Trial) -> Iterator[Finding]:
    """The office stood empty from a row of ZooKeeper's log on: the one that emptied it, or by which
    the first broker came."""
    registered: set[int] = set()
    holder: int | None = None
    since: Row | None = None
    for row in (*trial.rows, None):
        until_t = trial.heard_t if row is None else row["t"]
        filled = row is None or row["what"] == "controller"
        gone = row is not None and (row["what"], row["step"]) == ("broker", "removed")
        if since is not None and (filled or gone):
            span = since["t"], since["t"] + SOON_NS
            able = {
                n for n in registered if trial.is_spared(*span, n) and trial.are_there(*span, n)
            }
            if until_t >= span[1] and able:
                yield _vacant(trial, since, able)
                return
            since = None
        if row is None:
            return
        if row["what"] == "broker":
            registered = registered - {row["node"]} if gone else registered | {row["node"]}
        elif row["what"] == "controller":
            holder = None if row["step"] == "removed" else row["node"]
        if holder is None and registered and since is None and row["what"] != "state":
            since = row


def _vacant(trial: _Trial, since: Row, able: set[int]) -> Finding:
    return Finding(
        "never-elected",
        f"brokers {sorted(able)} ran and were registered, nobody disturbed them, and nobody was "
        f"controller in {SOON_NS / 1e9:.0f} s",
        *trial.key,
        (written(since),),
    )


def _untold(trial: _Trial, outcome: Outcome) -> Iterator[Finding]:
    """The first broker of all that were asked: nobody asks on after it."""
    started = {r["node"] for r in rows_of(trial.history, "node_event", trial.key)} - {None}
    for row in rows_of(trial.history, "admin_request", trial.key):
        if row["api"] != _OF_THE_CLUSTER:
            continue
        span = row["invoke_t"] - SOON_NS, row["t"]
        come = {r["node"] for r in trial.rows if (r["what"], r["step"]) == ("broker", "created")}
        calm = trial.is_spared(*span) and trial.are_there(*span) and trial.all_had_come(*span)
        if not started <= come or not calm or trial.in_office(*span) is None:
            outcome.unjudged(trial.key[0], "a broker that did not tell of the cluster, in unrest")
            continue
        yield Finding(
            "never-told",
            f"node {row['node']} was asked for all brokers and the controller, "
            f"{SOON_NS / 1e9:.0f} s after every broker had registered and one was controller, and "
            f"told: {row['failure']}",
            *trial.key,
            (
                Pick("zk_write", {"what": "controller"}, rows=1, last=True),
                Pick("admin_request", {"node": row["node"], "op": row["op"]}, rows=1),
            ),
        )


def _unmade(trial: _Trial, outcome: Outcome) -> Iterator[Finding]:
    """One finding a topic."""
    stated: dict[tuple[str, int], int] = {}
    for row in trial.rows:
        if row["what"] == "state":
            stated.setdefault((row["topic"], row["partition"]), row["t"])
    dying = {row["topic"] for row in rows_of(trial.history, "topic_deletion", trial.key)}
    told: set[str] = set()
    for row in _given(trial.rows):
        outcome.saw(*trial.key, MADE)
        # Who hears of nothing meanwhile looks again when it is over (ZooKeeper's SetWatches).
        beside = faults_within(trial.history, trial.key, row["t"], row["t"] + 1)
        since_t = max([row["t"], *(f.to_t for f in beside if f.name not in _ORDERS)])
        topic, due_t = row["topic"], since_t + SOON_NS
        made_t = stated.get((topic, row["partition"]))
        # Late is lawful, but not what only the next controller does.
        ruled = made_t is not None and trial.in_office(row["t"], made_t) is not None
        by_it = made_t is not None and (made_t <= due_t or ruled)
        if by_it or topic in dying or topic in told or trial.heard_t < due_t:
            continue
        from_t = row["t"] - BEFORE_NS
        span = since_t, due_t
        calm = trial.is_spared(*span, beside=_ORDERS) and trial.are_there(*span)
        if not calm or trial.in_office(*span) is None:
            outcome.unjudged(trial.key[0], "a partition without a state, in unrest")
            continue
        told.add(topic)
        yield Finding(
            "never-made",
            f"topic {topic} was {'made' if row['step'] == 'created' else 'grown'} with replicas "
            f"{list(row['replicas'])} of partition {row['partition']}, and "
            f"{(due_t - row['t']) / 1e9:.0f} s later it had no state, though for the last "
            f"{SOON_NS / 1e9:.0f} of them nobody disturbed the controller, and all brokers ran",
            *trial.key,
            (Pick("zk_write", {"what": "controller"}, from_t=from_t, rows=1), written(row)),
        )


def _given(log: Sequence[Row]) -> Iterator[Row]:
    """The first write of each partition in the life of its topic, which began in this log."""
    known: dict[str, set[int]] = {}
    for row in log:
        topic, partition = row["topic"], row["partition"]
        if row["what"] != "topic":
            continue
        if row["step"] == "removed":
            known.pop(topic, None)
        elif partition is not None and (row["step"] == "created" or topic in known):
            of = known.setdefault(topic, set())
            if partition not in of:
                yield row
            of.add(partition)


PROMISE: Final = Promise(
    name="administration",
    says="What an operator asks for comes about, on a cluster that nobody disturbs.",
    source="KafkaController (elect, onNewPartitionCreation), KafkaApis, ZkAdminManager",
    rules={
        "made-out-of-turn": "Partitions and topics are made in the order they were written in.",
        "older-order-stands": "Of orders that contradict each other the last one stands.",
        "never-addressed": "Who registers is told of the cluster, in that registration's name.",
        "order-forgotten": "Who waits for a controller that loses its office is told of that.",
        "request-refused": "A sound request of an operator is not refused.",
        "request-unanswered": "A controller answers whom it is asked by.",
        "impossible-done": "What cannot be done is refused.",
        "refused-otherwise": "What cannot be done is refused with the error that says why.",
        "never-refused": "Who asks for what cannot be done is told so.",
        "answered-out-of-turn": "On one connection answers come in the order of the requests.",
        "granted-and-not-done": "What a controller says that it did is done.",
        "refused-and-done": "What a controller refuses does not come about.",
        "made-and-denied": "Who has made a topic knows it until it is deleted.",
        "election-denied": "Who asks for the preferred leader is not told that it leads when it "
        "does not.",
        "answer-withheld": "Who asks for what is done then is told so at once.",
        "answered-too-soon": "Who is told that something was done can see it at who says so.",
        "ruler-denies": "Who is controller does not answer that it is none.",
        "never-elected": "Where brokers live, one of them is controller.",
        "never-told": "Every broker knows all brokers, and who is controller.",
        "never-made": "A partition of a topic that is made, or grows, gets a leader.",
    },
    evidence={
        ANSWERED: "by what was asked for, each try",
        REFUSED: "and were refused, by any broker",
        KEPT: "of topics made and deleted, partitions moved, and preferred replicas elected",
        AWAITED: "by ZooKeeper's log, of controllers that nothing disturbed",
        SHOWN: "asked of it afterwards, by ZooKeeper's log of what that was",
        WELCOMED: "which was one for a while, and it and who had registered undisturbed",
        FORSAKEN: "given while it was cut from ZooKeeper, and answered by it afterwards or never",
        CONTRARY: "given one after the other, while the controller waited for ZooKeeper",
        MADE_IN_TURN: "by the order of ZooKeeper's own log",
        MADE: "by ZooKeeper's log, or that were given more of them",
    },
    blind=(
        "of what cannot be done: answers that send elsewhere, or say to try again",
        "refusals, and lost or late answers, beside a fault, or an election of a controller",
        "elections that were refused, and came about, of partitions that were moved, and where "
        "controllers give leaderships back by themselves",
        "errors that a controller may give in that moment, above all those that say: try again",
        "without ZooKeeper: all of it",
    ),
    timed=frozenset(
        {
            *("request-unanswered", "answer-withheld", "never-refused"),
            *("never-elected", "never-told", "never-made"),
            *("older-order-stands", "order-forgotten", "never-addressed"),
        }
    ),
    patient=frozenset({"order-forgotten"}),
    check=check,
)
