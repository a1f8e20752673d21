"""Recovery: whatever a fault took away comes back once it is healed.

From the end of healing to the end of the load, which goes on for that: each for itself,

    node           runs, is registered and answers
    partition      is led, and its in-sync set is full
    producer       each partition that it writes to takes a record, with its acks
    consumer       each partition that has new records gives one
    reader, prober each broker that it asks answers it
    administration every deletion and reassignment ends; no log of a deleted topic is left behind

The cluster's own state is read past every proxy when the load ends (kind ``final_state``); where
something has not recovered by then, the harness goes on looking and the load goes on. What still
has not is a violation where it was looked at long enough (`LONG_NS`) and tried often enough
(`ATTEMPTS`), and `unknown` where it was not. Never silence.

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
- acks=0: nobody answers.

Blind: systems and scenarios without a client of that kind; a client that cannot find a leader to
send to offers nothing, which is `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts import served_again
from checkers.facts.after_healing import AfterHealing, At, Row, Trial, after_healing
from checkers.history.run_info import Workload
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

LONG_NS: Final = 8_000_000_000
"""What a healthy cluster does in milliseconds, and one on a busy machine in a second or two."""
ATTEMPTS: Final = 10


def check(history: History) -> Outcome:
    outcome = Outcome()
    seen: dict[Trial, AfterHealing] = {}
    for key in sorted(set(history.trials) | set(history.run.trials)):
        found = after_healing(history, key)
        if isinstance(found, str):
            outcome.unknown(*key, found)
        else:
            seen[key] = found
    if not seen:
        return outcome
    for each in seen.values():
        _nodes(outcome, each)
        _partitions(outcome, each)
        _others(outcome, each)
    produced = served_again.produced(history, seen)
    consumed, polls = served_again.consumed(history, seen)
    answered = served_again.answered(history, seen)
    for each in seen.values():
        workloads = history.run.workloads.get(each.key)
        if workloads is None:
            outcome.unjudged(each.key[0], "clients: run.json does not say which were launched")
        for workload in workloads or ():
            _producer(outcome, each, workload, produced)
            _consumer(outcome, each, workload, produced, consumed, polls)
            _asker(outcome, each, workload, answered)
    return outcome


# -- the state in the end --------------------------------------------------------------------------


def _nodes(outcome: Outcome, seen: AfterHealing) -> None:
    for node, row in sorted(seen.nodes.items()):
        outcome.saw(*seen.key, "nodes")
        if row["running"] and row["registered"] and row["answers"]:
            continue
        why = seen.cannot_serve([node])
        if why is not None:
            outcome.unknown(*seen.key, f"node {node} is not back: {why}")
        elif not row["running"]:
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


def _partitions(outcome: Outcome, seen: AfterHealing) -> None:
    for (topic, partition), row in sorted(seen.partitions.items()):
        outcome.saw(*seen.key, "partitions")
        replicas, isr = row["replicas"] or [], set(row["isr"] or ())
        out = [node for node in replicas if node not in isr]
        if row["leader"] >= 0 and not out:
            continue
        name = f"{topic}-{partition}"
        why = seen.cannot_serve(replicas)
        if why is not None:
            outcome.unknown(*seen.key, f"{name} is not whole: {why}")
            continue
        blamed = [n for n in out if not seen.left_down([n])]
        if not blamed and (row["leader"] >= 0 or seen.left_down(replicas)):
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
        for node in blamed:
            slow = _is_catching_up(seen, node, topic, partition, row["leader"])
            if slow is not None:
                outcome.unknown(*seen.key, f"{name}: replica {node} is not in sync: {slow}")
                continue
            says = f"{name}: replica {node} never came in sync again ({sorted(isr)} of {replicas})"
            _judge(outcome, seen, "never-in-sync", says, row["lasting_ns"], picks)


def _is_catching_up(
    seen: AfterHealing, node: int, topic: str, partition: int, leader: int
) -> str | None:
    """Why a replica that is out of sync may only be slow; None when it is stuck, or kept out."""
    own = seen.replicas.get((node, topic, partition))
    of_leader = seen.replicas.get((leader, topic, partition))
    if own is None or of_leader is None:
        return "where its log ends was not told"
    moved = own["log_end_offset"] - own["earlier_end_offset"]
    added = of_leader["log_end_offset"] - of_leader["earlier_end_offset"]
    before = of_leader["earlier_end_offset"] - own["earlier_end_offset"]
    lag = of_leader["log_end_offset"] - own["log_end_offset"]
    # Behind by less than what came in a quarter of the time: nothing is left to wait for.
    is_abreast = own["log_end_offset"] >= of_leader["earlier_end_offset"] and 4 * lag <= added
    if moved <= 0 or is_abreast:
        return None
    return f"it is catching up, {before} and then {lag} records behind"


_ADMINISTRATION: Final = {
    "deletion": "the deletion of {topic} never ended",
    "reassignment": "the reassignment of {topic} never ended",
    "leftover": "{topic} is deleted, and node {node} still has the log of partition {partition}",
}


def _others(outcome: Outcome, seen: AfterHealing) -> None:
    for row in seen.others:
        if row["what"] not in _ADMINISTRATION:
            outcome.unknown(*seen.key, f"the state in the end was not read: {row['failure']}")
            continue
        outcome.saw(*seen.key, "administration under way")
        says = _ADMINISTRATION[row["what"]].format(**row)
        # Any broker may hold it up: it waits for each replica.
        why = seen.cannot_serve(seen.nodes)
        if why is not None:
            outcome.unknown(*seen.key, f"{says}: {why}")
        elif seen.left_down(seen.nodes):
            outcome.excuse(*seen.key, "never-ended", "left-down", of="administration under way")
        else:
            rule = "left-behind" if row["what"] == "leftover" else "never-ended"
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
    if (lasting_ns or 0) >= LONG_NS:
        says = f"{says}, {seconds:.1f} s after the last fault was healed"
        outcome.add(Finding(rule, says, *seen.key, picks))
    else:
        outcome.unknown(
            *seen.key, f"{says}, which was looked at for {seconds:.1f} s only: too short to tell"
        )


# -- what clients lived since ----------------------------------------------------------------------


def _producer(
    outcome: Outcome, seen: AfterHealing, workload: Workload, produced: list[dict[str, Any]]
) -> None:
    if workload.acks is None or workload.acks == 0:
        return
    level = "all" if workload.acks == -1 else str(workload.acks)
    mine = {
        (row["topic"], row["partition"]): row
        for row in produced
        if (row["arm"], row["trial"], row["process"]) == (*seen.key, workload.process)
    }
    for at in sorted((t, p) for t, ps in workload.topics.items() for p in ps):
        row = mine.get(at, {"ok": 0, "attempts": 0, "last_t": None})
        outcome.saw(*seen.key, f"partitions written to with acks={level}")
        if row["ok"]:
            continue
        name = f"{at[0]}-{at[1]}"
        says = f"{workload.process}: {name} took none of {row['attempts']} records (acks={level})"
        why = _cannot_be_asked(outcome, seen, at, "never-accepted", f"acks={level}")
        if why is not None:
            if why:
                outcome.unknown(*seen.key, f"{says}: {why}")
            continue
        tried_ns = 0 if row["last_t"] is None else row["last_t"] - seen.since_t
        if row["attempts"] < ATTEMPTS or tried_ns < LONG_NS:
            seconds = tried_ns / 1e9
            outcome.unknown(*seen.key, f"{says} in {seconds:.1f} s: too little to tell")
            continue
        where = {"topic": at[0], "partition": at[1]}
        outcome.add(
            Finding(
                "never-accepted",
                f"{says} in {tried_ns / 1e9:.1f} s after the last fault was healed",
                *seen.key,
                (
                    Pick("fault", {"phase": "healed"}, rows=1, last=True),
                    Pick("leadership", where, rows=1, last=True),
                    Pick("produce", {**where, "process": workload.process}, from_t=seen.since_t),
                    Pick("final_state", {"what": "partition", **where}),
                ),
            )
        )


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
    outcome: Outcome,
    seen: AfterHealing,
    workload: Workload,
    produced: list[dict[str, Any]],
    consumed: set[tuple[Any, ...]],
    polls: Mapping[tuple[Any, ...], Row],
) -> None:
    if workload.role != "consumer":
        return
    new: dict[At, tuple[int, int]] = {}
    for row in produced:
        if (row["arm"], row["trial"]) == seen.key and row["acked"]:
            at = (row["topic"], row["partition"])
            known, first_t = new.get(at, (0, row["acked_t"]))
            new[at] = (known + row["acked"], min(first_t, row["acked_t"]))
    poll = polls.get((*seen.key, workload.process), {"polls": 0, "last_t": seen.since_t})
    for at in sorted((t, p) for t, ps in workload.topics.items() for p in ps):
        if at not in new:
            continue  # there was nothing to be given; whether it takes anything is judged apart
        outcome.saw(*seen.key, "partitions read by consumers")
        if (*seen.key, workload.process, *at) in consumed:
            continue
        records, first_t = new[at]
        says = f"{workload.process}: {at[0]}-{at[1]} gave none of {records} new records"
        why = _cannot_be_asked(outcome, seen, at, "never-delivered", "")
        if why is not None:
            if why:
                outcome.unknown(*seen.key, f"{says}: {why}")
            continue
        waited_ns = poll["last_t"] - first_t
        if poll["polls"] < ATTEMPTS or waited_ns < LONG_NS:
            says = f"{says} in {poll['polls']} polls over {max(0, waited_ns) / 1e9:.1f} s"
            outcome.unknown(*seen.key, f"{says}: too little to tell")
            continue
        where = {"topic": at[0], "partition": at[1]}
        outcome.add(
            Finding(
                "never-delivered",
                f"{says} in {poll['polls']} polls over {waited_ns / 1e9:.1f} s, after the last "
                "fault was healed",
                *seen.key,
                (
                    Pick("fault", {"phase": "healed"}, rows=1, last=True),
                    Pick("produce", {**where, "type": "ok"}, from_t=seen.since_t),
                    Pick("fetch", {**where, "process": workload.process}, rows=1, last=True),
                    Pick("fetch", {"process": workload.process}, from_t=seen.since_t, rows=1),
                ),
            )
        )


def _asker(
    outcome: Outcome,
    seen: AfterHealing,
    workload: Workload,
    answered: Mapping[tuple[Any, ...], dict[int, Row]],
) -> None:
    none = {"answers": 0, "attempts": 0}
    mine = answered.get((*seen.key, workload.process), {})
    for node in workload.nodes:
        outcome.saw(*seen.key, "brokers asked by readers and probers")
        row = mine.get(node, none)
        if row["answers"]:
            continue
        says = f"{workload.process}: node {node} answered none of {row['attempts']} requests"
        why = seen.cannot_serve([node])
        if why is not None:
            outcome.unknown(*seen.key, f"{says}: {why}")
            continue
        if seen.left_down([node]):
            outcome.excuse(
                *seen.key, "never-answered", "left-down", of="brokers asked by readers and probers"
            )
            continue
        # One connection, and a long time-out: it need not try often. That it lives the others tell.
        elsewhere = max((r["answers"] for n, r in mine.items() if n != node), default=0)
        if seen.looked_ns < LONG_NS or max(elsewhere, row["attempts"]) < ATTEMPTS:
            seconds = seen.looked_ns / 1e9
            outcome.unknown(*seen.key, f"{says} in {seconds:.1f} s: too little to tell")
            continue
        asked = {"node": node, "process": workload.process}
        kind = "probe" if workload.role == "prober" else "metadata"
        outcome.add(
            Finding(
                "never-answered",
                f"{says} in {seen.looked_ns / 1e9:.1f} s after the last fault was healed",
                *seen.key,
                (
                    Pick("fault", {"phase": "healed"}, rows=1, last=True),
                    Pick(kind, asked, from_t=seen.since_t),
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
        "never-accepted": "Every partition takes records again, with each level of acks.",
        "never-delivered": "Every consumer is given new records of every partition.",
        "never-answered": "Every broker answers those that ask it.",
        "never-ended": "Deletions and reassignments end.",
        "left-behind": "The logs of a deleted topic are gone.",
    },
    evidence={
        "nodes": "brokers whose state was read in the end",
        "partitions": "partitions whose state was read in the end",
        "partitions written to with acks=1": "by producer",
        "partitions written to with acks=all": "by producer",
        "partitions read by consumers": "that had new records",
        "brokers asked by readers and probers": "by client",
        "administration under way": "deletions, reassignments and logs found in the end",
    },
    unknown_when=(
        "what did not recover was looked at for too short a time, or tried too seldom",
        "a fault was not healed, or a node ended by itself, where it matters",
        "the state in the end was not read",
    ),
    blind=("clients of a kind that a scenario does not have; acks=0",),
    check=check,
)
