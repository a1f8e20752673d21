"""Recovery: whatever a fault took away comes back once it is healed.

From the end of healing to the end of the load, which goes on for that: each for itself,

    node           runs, is registered and answers
    partition      is led, its in-sync set is full, and its preferred leader leads where the
                   controller gives leaderships back by itself (auto.leader.rebalance.enable)
    producer       each partition that it writes to takes a record, with its acks, and still does so
                   in the last seconds (`checkers.facts.clients.END_NS`)
    consumer       each partition that has new records gives one
    reader, prober each broker that it asks answers it
    administration every deletion and reassignment ends; no log of a deleted topic is left behind,
                   and none on a broker that it was moved off; and no settings of one, which the
                   next topic of that name would have (TopicDeletionManager.completeDeleteTopic)

The cluster's own state is read past every proxy when the load ends (kind ``final_state``); where
something has not recovered by then, the harness goes on looking and the load goes on. What still
has not is a violation where it was looked at long enough (`LONG_NS`, and longer on a machine that
stood still, or is busy) and tried often enough (`ATTEMPTS`), and
`unknown` where it was not. Never silence. And what takes no record while nothing is in place
between one fault and the next: ``not-accepted``, `between_faults`; who is back then and in no
in-sync set: ``left-out``, `left_out`.

Lawful, and looks similar:
- a fault that was injected and not healed: what it names (all, when it names nothing) is not
  judged, but `unknown`. A node that the harness could not start again is such a one;
- a node that the plan took down and left down: what needs it is excused, and counted. A partition
  needs every replica that is to be in sync, and one to lead it;
- a replica that is out of sync and catches up (its log's end comes nearer to its leader's): slow,
  and no more. One whose log does not move although its leader's is longer is stuck; one that is
  as long as its leader's and still not in sync is kept out;
- acks=all while the in-sync set is not full: NOT_ENOUGH_REPLICAS is lawful. The in-sync set itself
  is judged;
- a client that hardly tried, because the machine was busy: `unknown`;
- a log that was moved off a broker which was away at some time: nobody tells that one, when it is
  back, to delete it (Kafka's stray logs);
- a client that keeps its records back, or has got stuck, and asks no broker for them: `unknown`.
  Each try counts that a broker was asked for (`checkers.facts.clients.asked`), and of a consumer's
  time that in which it had asked (``waiting``), at least half of which it takes;
- acks=0: nobody answers.

Blind: systems and scenarios without a client of that kind; a client that cannot find a leader to
send to offers nothing, or asks nobody, which is `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from checkers.facts.after_healing import AfterHealing, At, Trial
from checkers.facts.calm import brokers
from checkers.facts.clients import END_NS, Sum, healed_trials, sums, waited_ns
from checkers.facts.committed import committed
from checkers.facts.leadership import Key
from checkers.facts.topics import is_gone
from checkers.history.run_info import Workload
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.recovery.between_faults import BETWEEN, between_faults
from checkers.promises.recovery.left_out import BACK, left_out

if TYPE_CHECKING:
    from checkers.history.frames import History

LONG_NS: Final = 8_000_000_000
"""What a healthy cluster does in milliseconds, and one on a busy machine in a second or two."""
ATTEMPTS: Final = 10
_STOOD: Final = 10
"""So many times as long as the machine stood still is waited longer: sessions that ended meanwhile,
and what was late for that, come back in that time, too."""


_GIVES_BACK: Final = "auto.leader.rebalance.enable"


def check(history: History) -> Outcome:
    outcome = Outcome()
    seen: dict[Trial, AfterHealing] = {}
    for key, found in healed_trials(history).items():
        if isinstance(found, str):
            outcome.unknown(*key, found)
        else:
            seen[key] = found
    between_faults(history, outcome)
    for finding in left_out(history, outcome):
        outcome.add(finding)
    if not seen:
        return outcome
    gives_back = history.run.brokers.get(_GIVES_BACK) == "true"
    for each in seen.values():
        _unseen(history, outcome, each)
        _nodes(outcome, each)
        _partitions(outcome, each, gives_back=gives_back)
        _others(outcome, each)
    by_client: dict[tuple[Trial, str], list[Sum]] = {}
    new: dict[tuple[Trial, At], Sum] = {}
    for one in sums(history):
        by_client.setdefault((one.key, one.process), []).append(one)
        if one.kind == "produce" and one.at is not None and one.acked_t is not None:
            known = new.get((one.key, one.at))
            if known is None or one.acked_t < (known.acked_t or 0):
                new[one.key, one.at] = one
    for each in seen.values():
        workloads = history.run.workloads.get(each.key)
        if workloads is None:
            outcome.unjudged(each.key[0], "clients: run.json does not say which were launched")
        for workload in workloads or ():
            mine = by_client.get((each.key, workload.process), [])
            if workload.role == "consumer":
                _consumer(history, outcome, each, workload, mine, new)
            elif workload.acks:
                _producer(outcome, each, workload, mine)
            else:
                _asker(outcome, each, workload, mine)
    return outcome


# -- the state in the end --------------------------------------------------------------------------


def _unseen(history: History, outcome: Outcome, seen: AfterHealing) -> None:
    """What there was, and of which nobody told how it was in the end."""
    for node in sorted(brokers(history).get(seen.key, set()) - seen.nodes.keys()):
        outcome.unknown(*seen.key, f"how node {node} was in the end was not read")
    for key in _partitions_of(history).get(seen.key, ()):
        if not is_gone(history, key[:3]) and key[2:] not in seen.partitions:
            outcome.unknown(*seen.key, f"how {key[2]}-{key[3]} was in the end was not read")


def _partitions_of(history: History) -> dict[Trial, list[Key]]:
    """By trial, every partition of which anything was committed."""

    def make() -> dict[Trial, list[Key]]:
        found: dict[Trial, list[Key]] = {}
        for key in sorted(committed(history)):
            found.setdefault(key[:2], []).append(key)
        return found

    by_trial: dict[Trial, list[Key]] = history.memo("partitions by trial", make)
    return by_trial


def _nodes(outcome: Outcome, seen: AfterHealing) -> None:
    for node, row in sorted(seen.nodes.items()):
        outcome.saw(*seen.key, "nodes")
        told = (row["running"], row["registered"], row["answers"])
        if None in told:
            outcome.unknown(*seen.key, f"of node {node} it was not told how it was in the end")
            continue
        if row["running"] and row["registered"] and row["answers"]:
            continue
        why = seen.cannot_serve([node])
        if why is not None:
            outcome.unknown(*seen.key, f"node {node} is not back: {why}")
        elif seen.left_down([node]):
            outcome.excuse(*seen.key, "never-back", "left-down", of="nodes")
        else:
            lacks = "is not registered" if not row["registered"] else "does not answer"
            _judge(
                outcome,
                seen,
                "never-back",
                f"node {node} runs and {lacks}",
                row["lasting_ns"],
                (
                    Pick("node_event", {"node": node}, rows=3, last=True),
                    Pick("final_state", {"what": "node", "node": node}),
                ),
            )


def _partitions(outcome: Outcome, seen: AfterHealing, *, gives_back: bool) -> None:
    """``gives_back``: controllers of this run were told to give leaderships back."""
    for (topic, partition), row in sorted(seen.partitions.items()):
        outcome.saw(*seen.key, "partitions")
        if gives_back and row["gives_back"] is None:
            says = f"whether {topic}-{partition} was to be given back was not told"
            outcome.unknown(*seen.key, says)
        replicas, isr = row["replicas"] or [], set(row["isr"] or ())
        out = [node for node in replicas if node not in isr]
        is_whole = row["leader"] >= 0 and not out
        is_away = is_whole and bool(row["gives_back"]) and row["leader"] != replicas[0]
        if is_whole and not is_away:
            continue
        name = f"{topic}-{partition}"
        why = seen.cannot_serve(replicas)
        if why is not None:
            outcome.unknown(*seen.key, f"{name} is not whole: {why}")
            continue
        blamed = [n for n in out if not seen.left_down([n])]
        if not is_away and not blamed and (row["leader"] >= 0 or seen.left_down(replicas)):
            outcome.excuse(*seen.key, "never-in-sync", "left-down", of="partitions")
            continue
        at = {"topic": topic, "partition": partition}
        picks = (
            Pick("leadership", at, rows=2, last=True),
            Pick("fault", {"phase": "healed"}, rows=1, last=True),
            Pick("final_state", at, rows=8),
        )
        if row["leader"] < 0:
            says = f"{name} has no leader, although of its replicas {replicas} some run"
            _judge(outcome, seen, "never-led", says, row["lasting_ns"], picks)
            continue
        if is_away:
            says = f"{name} is led by {row['leader']}, and was not given back to {replicas[0]}"
            _judge(outcome, seen, "never-given-back", says, row["lasting_ns"], picks)
            continue
        for node in blamed:
            slow = seen.may_be_slow(node, topic, partition, row["leader"])
            if slow is not None:
                outcome.unknown(*seen.key, f"{name}: replica {node} is not in sync: {slow}")
                continue
            says = f"{name}: replica {node} never came in sync again ({sorted(isr)} of {replicas})"
            _judge(outcome, seen, "never-in-sync", says, row["lasting_ns"], picks)


_ADMINISTRATION: Final = {
    "deletion": "the deletion of {topic} never ended",
    "reassignment": "the reassignment of {topic} never ended",
    "leftover": "node {node} still has the log of {topic}-{partition}, which is deleted or moved",
    "settings": "topic {topic} is gone, and what was configured for it is still there",
}
_LEFT: Final = ("leftover", "settings")


def _others(outcome: Outcome, seen: AfterHealing) -> None:
    for row in seen.others:
        if row["what"] not in _ADMINISTRATION:
            outcome.unknown(*seen.key, f"the state in the end was not read: {row['failure']}")
            continue
        outcome.saw(*seen.key, "administration under way")
        says = _ADMINISTRATION[row["what"]].format(**row)
        at_home = (row["topic"], row["partition"]) in seen.partitions
        if row["what"] == "leftover" and at_home and row["node"] in seen.was_away:
            outcome.unjudged(seen.key[0], "logs that moved off brokers which were away")
            continue
        # Any broker may hold it up: it waits for each replica.
        why = seen.cannot_serve(seen.nodes)
        if why is not None:
            outcome.unknown(*seen.key, f"{says}: {why}")
        elif seen.left_down(seen.nodes):
            outcome.excuse(*seen.key, "never-ended", "left-down", of="administration under way")
        else:
            rule = "left-behind" if row["what"] in _LEFT else "never-ended"
            at = {"topic": row["topic"]}
            picks = (
                Pick("topic_deletion", at),
                Pick("replica_stop", at),
                Pick("final_state", {"what": row["what"], **at}),
            )
            _judge(outcome, seen, rule, says, row["lasting_ns"], picks)


def _judge(
    outcome: Outcome,
    seen: AfterHealing,
    rule: str,
    says: str,
    lasting_ns: int | None,
    picks: tuple[Pick, ...],
) -> None:
    """A violation when it was looked at long enough, else `unknown`."""
    seconds = (lasting_ns or 0) / 1e9
    if (lasting_ns or 0) >= _long_ns(seen):
        says = f"{says}, {seconds:.1f} s after the last fault was healed"
        outcome.add(Finding(rule, says, *seen.key, picks))
    else:
        says = f"{says}, which was looked at for {seconds:.1f} s only: too short to tell"
        outcome.unknown(*seen.key, f"{says}{_slow(seen)}")


def _long_ns(seen: AfterHealing) -> int:
    return int(seen.patience * LONG_NS) + _STOOD * seen.stood_ns


def _slow(seen: AfterHealing) -> str:
    if seen.stood_ns:
        return f" on a machine that stood still for {seen.stood_ns / 1e9:.1f} s"
    if seen.patience > 1:
        return f" on a machine where all took {seen.patience:.1f} times as long"
    return ""


# -- what clients lived since ----------------------------------------------------------------------


def _producer(outcome: Outcome, seen: AfterHealing, workload: Workload, mine: list[Sum]) -> None:
    level = "all" if workload.acks == -1 else str(workload.acks)
    by_partition = {one.at: one for one in mine if one.kind == "produce"}
    for at in sorted((t, p) for t, ps in workload.topics.items() for p in ps):
        found = by_partition.get(at)
        outcome.saw(*seen.key, f"partitions written to with acks={level}")
        stops = found is not None and _stops(seen, found)
        if found is not None and found.since_ok and not stops:
            continue
        tries, asked, last_t = (0, 0, None) if found is None else _tried(found, stops=stops)
        name, last = f"{at[0]}-{at[1]}", "the last " if stops else ""
        says = f"{workload.process}: {name} took none of {last}{tries} records (acks={level})"
        why = _cannot_be_asked(outcome, seen, at, "never-accepted", f"acks={level}")
        if why is not None:
            if why:
                outcome.unknown(*seen.key, f"{says}: {why}")
            continue
        tried_ns = 0 if last_t is None else END_NS if stops else last_t - seen.since_t
        if asked < ATTEMPTS or tried_ns < _long_ns(seen):
            says = f"{says} in {tried_ns / 1e9:.1f} s"
            few = f"nobody tells that a broker was asked for more than {asked} of them"
            why = "too little to tell" if asked == tries else few
            outcome.unknown(*seen.key, f"{says}: {why}{_slow(seen)}")
            continue
        where = {"topic": at[0], "partition": at[1]}
        outcome.add(
            Finding(
                "never-accepted",
                f"{says} in {tried_ns / 1e9:.1f} s, after the last fault was healed",
                *seen.key,
                (
                    Pick("fault", {"phase": "healed"}, rows=1, last=True),
                    Pick("leadership", where, rows=1, last=True),
                    Pick("produce", {**where, "process": workload.process}, from_t=seen.since_t),
                    Pick("final_state", {"what": "partition", **where}),
                ),
            )
        )


def _tried(found: Sum, *, stops: bool) -> tuple[int, int, int | None]:
    """How many records were offered of which none was taken, of how many of them a broker was asked
    (`checkers.facts.clients.asked`), and when the last of those was offered."""
    if stops:
        return found.end_begun, found.end_asked, found.last_asked_t
    return found.since_begun, found.since_asked, found.last_asked_t


def _stops(seen: AfterHealing, found: Sum) -> bool:
    """Whether it took records after healing, and takes none any more."""
    took = bool(found.since_ok) and not found.end_ok
    return took and found.end_begun >= ATTEMPTS and seen.looked_ns >= END_NS


def _cannot_be_asked(
    outcome: Outcome, seen: AfterHealing, at: At, rule: str, of: str
) -> str | None:
    """Why a partition need not serve: a reason for `unknown`, "" when it is excused (and that was
    counted), None when it has to."""
    state = seen.partitions.get(at)
    if state is None:
        return "it does not exist in the end"
    replicas = state["replicas"] or []
    why = seen.cannot_serve(replicas)
    if why is not None:
        return why
    whole = state["leader"] >= 0 and set(state["isr"] or ()) == set(replicas)
    if whole:
        return None
    if seen.left_down(replicas):
        what = "partitions read by consumers" if of == "" else f"partitions written to with {of}"
        outcome.excuse(*seen.key, rule, "left-down", of=what)
        return ""
    return "its in-sync set is not full, which is judged by itself"


def _consumer(
    history: History,
    outcome: Outcome,
    seen: AfterHealing,
    workload: Workload,
    mine: list[Sum],
    new: Mapping[tuple[Trial, At], Sum],
) -> None:
    """``new``: by partition, of the producer that was the first to be acknowledged."""
    given = {one.at for one in mine if one.since_delivered}
    polls, last_t = _tries(mine), max((one.last_invoke_t or 0 for one in mine), default=0)
    for at in sorted((t, p) for t, ps in workload.topics.items() for p in ps):
        produced = new.get((seen.key, at))
        if produced is None or produced.acked_t is None:
            continue  # there was nothing to be given; whether it takes anything is judged apart
        outcome.saw(*seen.key, "partitions read by consumers")
        if at in given:
            continue
        says = f"{workload.process}: {at[0]}-{at[1]} gave none of {produced.acked} new records"
        why = _cannot_be_asked(outcome, seen, at, "never-delivered", "")
        if why is not None:
            if why:
                outcome.unknown(*seen.key, f"{says}: {why}")
            continue
        polled_ns = max(0, last_t - produced.acked_t)
        says = f"{says} in {polls} polls over {polled_ns / 1e9:.1f} s"
        if polls < ATTEMPTS or polled_ns < _long_ns(seen):
            outcome.unknown(*seen.key, f"{says}: too little to tell{_slow(seen)}")
            continue
        asked_ns = waited_ns(history, seen.key, workload.process, at, produced.acked_t)
        if 2 * asked_ns < polled_ns:
            why = f"nobody tells that a broker was asked for more than {asked_ns / 1e9:.1f} s"
            outcome.unknown(*seen.key, f"{says}: {why}")
            continue
        where = {"topic": at[0], "partition": at[1]}
        outcome.add(
            Finding(
                "never-delivered",
                f"{says}, after the last fault was healed",
                *seen.key,
                (
                    Pick("fault", {"phase": "healed"}, rows=1, last=True),
                    Pick("produce", {**where, "type": "ok"}, from_t=seen.since_t),
                    Pick("waiting", {**where, "process": workload.process}, rows=1, last=True),
                    Pick("fetch", {**where, "process": workload.process}, rows=1, last=True),
                    Pick("fetch", {"process": workload.process}, from_t=seen.since_t, rows=1),
                ),
            )
        )


def _tries(mine: list[Sum]) -> int:
    """How often a client tried in all: it numbers its operations."""
    first = [one.first_op for one in mine if one.first_op is not None]
    last = [one.last_op for one in mine if one.last_op is not None]
    return max(last) - min(first) + 1 if first else 0


def _asker(outcome: Outcome, seen: AfterHealing, workload: Workload, mine: list[Sum]) -> None:
    # One connection, and a long time-out: who gets no answer need not ask often. That the client
    # was alive and asked is shown by what it asked the others.
    lively = _tries(mine) >= ATTEMPTS * len(workload.nodes) and any(
        one.since_answers for one in mine
    )
    by_node = {one.node: one for one in mine}
    for node in workload.nodes:
        outcome.saw(*seen.key, "brokers asked by readers and probers")
        found = by_node.get(node)
        if found is not None and found.since_answers:
            continue
        asked = 0 if found is None else found.since_rows
        says = f"{workload.process}: node {node} answered none of {asked} requests"
        why = seen.cannot_serve([node])
        if why is not None:
            outcome.unknown(*seen.key, f"{says}: {why}")
            continue
        if seen.left_down([node]):
            outcome.excuse(
                *seen.key, "never-answered", "left-down", of="brokers asked by readers and probers"
            )
            continue
        if seen.looked_ns < _long_ns(seen) or (asked < ATTEMPTS and not lively):
            seconds = seen.looked_ns / 1e9
            says = f"{says} in {seconds:.1f} s"
            outcome.unknown(*seen.key, f"{says}: too little to tell{_slow(seen)}")
            continue
        whom = {"node": node, "process": workload.process}
        kind = "probe" if workload.role == "prober" else "metadata"
        outcome.add(
            Finding(
                "never-answered",
                f"{says} in {seen.looked_ns / 1e9:.1f} s after the last fault was healed",
                *seen.key,
                (
                    Pick("fault", {"phase": "healed"}, rows=1, last=True),
                    Pick(kind, whom, from_t=seen.since_t),
                    Pick("final_state", {"what": "node", "node": node}),
                ),
            )
        )


PROMISE: Final = Promise(
    name="recovery",
    says="Whatever a fault took away comes back once it is healed.",
    source="Kafka's replication and controller: each waits for nothing but time and its peers",
    rules={
        "never-back": "A node that runs registers and answers.",
        "never-led": "A partition of which a replica runs has a leader.",
        "never-in-sync": "Every replica whose broker runs comes in sync again.",
        "never-given-back": "A controller that gives leaderships back gives all of them back.",
        "not-accepted": "What is whole takes records with acks=all between faults, too.",
        "left-out": "Who is back comes in sync before the next fault, where there is time.",
        "never-accepted": "Every partition takes records to the end, with each level of acks.",
        "never-delivered": "Every consumer is given new records of every partition.",
        "never-answered": "Every broker answers those that ask it.",
        "never-ended": "Deletions and reassignments end.",
        "left-behind": "Logs and settings of deleted topics, and logs that moved, are gone.",
    },
    evidence={
        "nodes": "brokers whose state was read in the end",
        "partitions": "partitions whose state was read in the end",
        "partitions written to with acks=1": "by producer",
        "partitions written to with acks=all": "by producer",
        BETWEEN: "by producer, where nothing was in place for long enough",
        BACK: "by ZooKeeper's log, where nothing was in place for long enough",
        "partitions read by consumers": "that had new records",
        "brokers asked by readers and probers": "by client",
        "administration under way": "deletions, reassignments, logs and settings found in the end",
    },
    unknown_when=(
        "what did not recover was looked at for too short a time, or tried too seldom",
        "nobody tells that a broker was asked for what it did not take, or give",
        "a fault was not healed, or a node ended by itself, where it matters",
        "the state in the end was not read, of a node or a partition",
        "a node does not run, and nobody had taken it down; leaderships are given back, and of a "
        "partition that is not told",
    ),
    blind=(
        "clients of a kind that a scenario does not have; acks=0",
        "connections that a broker closes because they are idle, or too many",
        "notifications that nobody takes out of ZooKeeper (/config/changes, "
        "/isr_change_notification), and elections asked for by znode",
    ),
    timed=frozenset({"not-accepted", "left-out"}),
    patient=frozenset({"left-out"}),
    check=check,
)
