"""Answered: what a controller says that it did, or refused to do, against ZooKeeper's own log, for
`checkers.promises.administration`.

- ``granted-and-not-done``: a controller says that a topic was made, is to be deleted, or that the
  preferred replica of a partition was elected, and nothing of it was written while it was asked
  (within `NEAR_NS`): all three are written before they are answered (ZkAdminManager.createTopics
  and deleteTopics, KafkaController.processReplicaLeaderElection);
  The same of a partition that is to be moved, and of a topic that is to have more: its assignment
  is written then (KafkaController.onPartitionReassignment, AdminZkClient.addPartitions);
- ``refused-and-done``: a topic was made or given more partitions, its deletion or a move begun, or
  a preferred replica elected, and everybody who had asked for that was refused: an error by which
  nothing was done changes nothing;
- ``election-denied``: who asks that the preferred replica of a partition lead is told that it does
  (ELECTION_NOT_NEEDED), and another led all the while, from `NEAR_NS` before that on
  (KafkaController.onReplicaElection looks at nothing else); or that it cannot
  (PREFERRED_LEADER_NOT_AVAILABLE), though it was in sync all the while, ran and was registered
  (Election.leaderForPreferredReplica), for `LIVED_NS`.

Whatever goes on beside it: an answer is a word to be kept. Lawful, and looks similar: who is
refused and asks again; who is told that its time is up, or not at all, or that the broker could not
(`_VAGUE`): it may be done all the same; a leader that changes while an election is asked for. A
move begins with the write that assigns more replicas: what only drops some ends one, or calls it
off. That somebody had the preferred replica elected shows where nothing else can have (`_given`).
Of trials whose log of ZooKeeper was read from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

_GIVES_BACK: Final = "auto.leader.rebalance.enable"
KEPT: Final = "answers to an operator held against ZooKeeper's log"
NOT_DONE, DONE = "granted-and-not-done", "refused-and-done"
DENIED: Final = "election-denied"
NEAR_NS: Final = 200_000_000
_NOT_NEEDED: Final = 84
"""ELECTION_NOT_NEEDED."""
_NOT_AVAILABLE: Final = 80
"""PREFERRED_LEADER_NOT_AVAILABLE."""
LIVED_NS: Final = 5_000_000_000
"""Who ran and was registered for so long is known to live."""
_VAGUE: Final = (None, -1, 7, 13, 56)
"""UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, KAFKA_STORAGE_ERROR."""
Row = Mapping[str, Any]
Trial = tuple[str, int]


def answered(
    history: History,
    trial: Trial,
    log: Sequence[Row],
    outcome: Outcome,
    are_there: Callable[[int, int, int], bool],
) -> list[Finding]:
    """``log``: ZooKeeper's, in its order. ``are_there``: whether a node (the last argument) ran and
    was registered from the one time to the other (ns)."""
    if not any((r["what"], r["step"]) == ("controller_epoch", "created") for r in log):
        return []
    deletions = rows_of(history, "topic_deletion", trial)
    made = [r for r in log if (r["what"], r["step"]) == ("topic", "created")]
    begun = [r for r in deletions if r["step"] == "requested"]
    asked = [r for r in rows_of(history, "admin_request", trial) if r["wanted"] is None]
    found: list[Finding] = []
    for api, done in (("CREATE_TOPICS", made), ("DELETE_TOPICS", begun)):
        requests = [r for r in asked if r["api"] == api]
        found += _not_done(trial, requests, outcome, partial(_of_topic, done))
        found += _done(trial, requests, done, _topic)
    written = [r for r in log if r["what"] == "topic" and r["replicas"]]
    requests = [r for r in asked if r["api"] == "CREATE_PARTITIONS"]
    found += _not_done(trial, requests, outcome, partial(_of_topic, written))
    found += _done(trial, requests, _grown(log), _topic)
    by_itself = history.run.brokers.get(_GIVES_BACK) == "true"
    for api, of, came in (
        ("ALTER_PARTITION_REASSIGNMENTS", _assigned(log), _begun_moves(log)),
        ("ELECT_LEADERS", _elected(log), [] if by_itself else _given(log)),
    ):
        whole = [r for r in asked if r["api"] == api]
        requests = [r for r in whole if r["about"]]
        found += _not_done(trial, requests, outcome, partial(_of_partition, of))
        # That a request as a whole is granted says nothing of its partitions.
        said = [r for r in whole if r["about"] or r["error"] != 0]
        found += _done(trial, said, came, _partition)
    return found + list(_denied(trial, requests, log, outcome, are_there))


def _topic(row: Row) -> str:
    return str(row["topic"])


def _partition(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _of_topic(done: Sequence[Row], request: Row) -> list[Row]:
    return [row for row in done if row["topic"] == request["about"]]


def _of_partition(done: Mapping[str, Sequence[Row]], request: Row) -> Sequence[Row]:
    return done.get(request["about"], ())


def _assigned(log: Sequence[Row]) -> dict[str, list[Row]]:
    """By partition, when its topic's assignment was written: also where it is what it was, since
    who asks twice is granted twice, and nothing tells what was asked for."""
    found: dict[str, list[Row]] = {}
    for row in log:
        if row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
            found.setdefault(_partition(row), []).append(row)
    return found


def _begun_moves(log: Sequence[Row]) -> list[Row]:
    """The writes that assign a partition to more replicas than it had."""
    found: list[Row] = []
    had: dict[str, set[int]] = {}
    for row in log:
        if row["what"] == "topic" and row["step"] == "removed":
            had = {
                place: of for place, of in had.items() if place.rpartition("-")[0] != _topic(row)
            }
        elif row["what"] == "topic" and row["partition"] is not None and row["replicas"]:
            replicas = set(row["replicas"])
            if replicas - had.get(_partition(row), replicas):
                found.append(row)
            had[_partition(row)] = replicas
    return found


def _given(log: Sequence[Row]) -> list[Row]:
    """States in which the first assigned replica leads, and the one of before is in sync as it was:
    nothing but an election of the preferred replica does that (Election.leaderForPreferredReplica),
    where replicas stay what they were. Who dies, or is stopped, leaves the in-sync set."""
    assigned: dict[str, Sequence[int]] = {}
    moved: set[str] = set()
    before: dict[str, Row] = {}
    found = []
    for row in log:
        place = _partition(row)
        if row["what"] == "topic" and row["replicas"]:
            if row["step"] != "created" and assigned.get(place) != row["replicas"]:
                moved.add(place)
            assigned[place] = row["replicas"]
        elif row["what"] == "state" and row["isr"]:
            was = before.get(place)
            before[place] = row
            if was is None or row["step"] != "set" or place in moved or place not in assigned:
                continue
            same = set(was["isr"]) == set(row["isr"]) and was["leader"] in row["isr"]
            if same and was["leader"] != row["leader"] == assigned[place][0]:
                found.append(row)
    return found


def _elected(log: Sequence[Row]) -> dict[str, list[Row]]:
    """By partition, the states in which its first assigned replica led."""
    first: dict[tuple[str, int], int] = {}
    found: dict[str, list[Row]] = {}
    for row in log:
        place = (row["topic"], row["partition"])
        if row["what"] == "topic" and row["replicas"]:
            first[place] = row["replicas"][0]
        elif row["what"] == "state" and row["leader"] == first.get(place, -1):
            found.setdefault(_partition(row), []).append(row)
    return found


def _grown(log: Sequence[Row]) -> list[Row]:
    """The first write of each partition that a topic was given after it was made."""
    made: set[str] = set()
    known: set[tuple[str, int]] = set()
    found = []
    for row in log:
        if row["what"] != "topic" or row["partition"] is None or not row["replicas"]:
            continue
        place = (row["topic"], row["partition"])
        if row["step"] == "created":
            made.add(row["topic"])
        elif row["topic"] in made and place not in known:
            found.append(row)
        known.add(place)
    return found


@dataclass(frozen=True, slots=True)
class _State:
    leader: int
    first: int
    """The preferred replica."""
    isr: Sequence[int]


def _denied(
    trial: Trial,
    requests: Sequence[Row],
    log: Sequence[Row],
    outcome: Outcome,
    are_there: Callable[[int, int, int], bool],
) -> Iterator[Finding]:
    """One finding a partition."""
    told: set[str] = set()
    of: dict[str, list[Row]] = {}
    for row in log:
        of.setdefault(_partition(row), []).append(row)
    for row in requests:
        if row["error"] not in (_NOT_NEEDED, _NOT_AVAILABLE):
            continue
        outcome.saw(*trial, KEPT)
        span = row["invoke_t"] - NEAR_NS, row["t"] + NEAR_NS
        states = list(_states(of.get(row["about"], ()), *span))
        if row["about"] in told or not states or len({one.first for one in states}) > 1:
            continue
        first, leader = states[0].first, states[0].leader
        if any(one.leader == first for one in states):
            continue
        if row["error"] == _NOT_AVAILABLE and not (
            all(first in one.isr for one in states)
            and are_there(row["invoke_t"] - LIVED_NS, span[1], first)
        ):
            continue
        told.add(row["about"])
        topic, _, partition = row["about"].rpartition("-")
        at = {"topic": topic, "partition": int(partition), "what": "state"}
        does = "it did" if row["error"] == _NOT_NEEDED else "it cannot, though it was in sync"
        yield Finding(
            DENIED,
            f"node {row['node']} was asked that {first}, the preferred replica, lead "
            f"{row['about']}, and answered that {does}; {leader} led",
            *trial,
            (_pick(row), Pick("zk_write", at, to_t=span[1], rows=1, last=True)),
        )


def _states(writes: Sequence[Row], from_t: int, to_t: int) -> Iterator[_State]:
    """What a partition was like at any time of that span (ns), by what was written of it."""
    first = state = None
    for row in writes:
        if row["t"] > to_t:
            continue
        if row["t"] > from_t and first is not None and state is not None:
            yield _State(state["leader"], first, state["isr"] or ())
        if row["what"] == "topic" and row["replicas"]:
            first = row["replicas"][0]
        elif row["what"] == "state" and row["leader"] is not None:
            state = row
    if first is not None and state is not None:
        yield _State(state["leader"], first, state["isr"] or ())


def _not_done(
    trial: Trial, requests: Sequence[Row], outcome: Outcome, done: Callable[[Row], Sequence[Row]]
) -> Iterator[Finding]:
    for row in requests:
        if row["error"] != 0:
            continue
        outcome.saw(*trial, KEPT)
        span = row["invoke_t"] - NEAR_NS, row["t"] + NEAR_NS
        if not any(span[0] <= each["t"] <= span[1] for each in done(row)):
            yield Finding(
                NOT_DONE,
                f"node {row['node']} answered {row['api']} {row['about']} as done, and ZooKeeper's "
                "log has nothing of it",
                *trial,
                (_pick(row),),
            )


def _done(
    trial: Trial, requests: Sequence[Row], done: Sequence[Row], name: Callable[[Row], str]
) -> Iterator[Finding]:
    """One finding for each that has that ``name``, and time. Who was answered before then was
    answered for what was done before."""
    for row in {(name(each), each["t"]): each for each in done}.values():
        own = [r for r in requests if r["about"] in (name(row), "")]
        begun = [r for r in own if r["invoke_t"] <= row["t"] + NEAR_NS]
        then = [r for r in begun if r["t"] >= row["t"] - NEAR_NS]
        if not then or any(r["error"] in (0, _NOT_NEEDED) for r in then):
            continue
        if not any(r["error"] in _VAGUE for r in begun):
            last = then[-1]
            yield Finding(
                DONE,
                f"node {last['node']} refused {last['api']} {name(row)} with error "
                f"{last['error']}, and it was done all the same",
                *trial,
                (_pick(last), Pick("zk_write", {"topic": row["topic"]}, rows=2)),
            )


def _pick(row: Row) -> Pick:
    return Pick("admin_request", {"process": row["process"], "op": row["op"]}, rows=1)
