"""Succession: is one controller in office at a time, and does only the one in office decide?

Guarantee: controller epochs order all that is ever decided about a partition. With ZooKeeper an
election is one transaction that takes ``/controller`` and raises ``/controller_epoch`` by one, and
each write of a controller is conditioned on the latter; without, an entry of the metadata log is
only committed by a majority that knows no newer epoch. So the office may be claimed by two, and
held by one.

A *decision* is a committed state of a partition (`checkers.facts.decisions`). Violations:

- ``old-controller-decided``: of one partition, a later state that an older controller made; and of
  all partitions of a metadata log, by the times of its batches: its epochs only grow along it;
- ``two-decisions``: one partition epoch with two different states;
- ``decided-after-succession``: a state made under an epoch and written after the election of a
  newer one was over, by the clock of whoever stored it (``commit_ms``);
- ``decided-out-of-office``: the same by ZooKeeper's own log, which needs no clock: the controller
  epoch in force at the very write was another; or, of a metadata log, an epoch in which no
  controller says that it was elected, though others say so of other epochs;
- ``two-controllers``: one controller epoch, two nodes; or a node that says it was elected in an
  epoch that ZooKeeper's log gave to nobody;
- ``office-without-epoch``: the office was taken without raising the controller epoch by one in the
  same transaction;
- ``sent-out-of-office``: a node sent control requests under a controller epoch that ZooKeeper's log
  never gave it, or had not given it yet. Who was elected and has a successor may go on to send: it
  has not heard of that one, and brokers refuse it (`fencing`);
- ``claimed-otherwise``: a controller says that it committed what ZooKeeper's log does not hold;
- ``never-resigned``: a controller that another succeeded lives on, and by the end of a load that
  went on for 5 s after all was healed it has not said that it resigned: it keeps its channels, and
  all that it knew, for the next time that it is elected (KafkaController.onControllerResignation,
  processExpire).

Lawful, and looks similar: who leads may write in-sync sets itself, under the controller epoch that
made it the leader (`checkers.facts.in_sync_writes`).

Measured: elections, and ``takeover``: from the fault that put a controller out of office until its
successor says that it was elected.

Blind: states that do not say under which controller epoch they were made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.after_healing import after_healing
from checkers.facts.decisions import (
    Decision,
    Life,
    content_of,
    from_copies,
    from_log,
    is_lost,
    lives,
)
from checkers.facts.details import details
from checkers.facts.histogram import Histogram, bucket_number
from checkers.facts.in_sync_writes import Ruled, by_leader
from checkers.facts.leadership import Key, key_of
from checkers.facts.office import elections, in_order, raises_later, taken, written
from checkers.facts.spans import latest
from checkers.facts.trials import rows_of
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Trial = tuple[str, int]
_MS: Final = 1_000_000
LIVED_ON: Final = "controllers that were succeeded, and lived on"
_HEARD_NS: Final = 5_000_000_000
"""So long a broker takes to hear that it is succeeded, once all is healed."""
_ENDS: Final = ("kill", "stop", "stopped", "exited")


def check(history: History) -> Outcome:
    outcome = Outcome()
    told = _told(history)
    for key, of in sorted(lives(history).items()):
        ruled = [[d for d in life if (d.controller_epoch or -1) >= 0] for life in of]
        outcome.saw(*key[:2], "decisions", sum(map(len, ruled)))
        figures = outcome.arm(key[0])
        figures["decisions"] = figures.get("decisions", 0) + sum(map(len, ruled))
        for life in ruled:
            for finding in (*_in_a_row(life), *_too_late(history, life, told.get(key[:2], ()))):
                outcome.add(finding)
    for finding in _along_the_log(history, told):
        outcome.add(finding)
    for rule in (_two_controllers, _out_of_office, _senders):
        for finding in rule(history):
            outcome.add(finding)
    for finding in (
        *_office(history, outcome),
        *_claims(history, outcome),
        *_in_office_for_ever(history, outcome, told),
    ):
        outcome.add(finding)
    for (arm, _), elected in told.items():
        figures = outcome.arm(arm)
        figures["elections"] = figures.get("elections", 0) + len(elected)
    _takeovers(history, outcome, told)
    for arm, trial in history.trials:
        if (arm, trial) not in elections(history):
            outcome.unknown(arm, trial, "no controller's election was recorded")
    return outcome


def _told(history: History) -> dict[Trial, list[Row]]:
    """By trial, an election that its winner told of an epoch, in order of their epochs."""
    found: dict[Trial, dict[int, Row]] = {}
    for row in history.rows("controller"):
        if row["event"] == "elected" and row["controller_epoch"] is not None:
            of = found.setdefault((row["arm"], row["trial"]), {})
            of.setdefault(row["controller_epoch"], row)
    return {trial: [of[epoch] for epoch in sorted(of)] for trial, of in found.items()}


# -- decisions ------------------------------------------------------------------------------------


def _in_a_row(life: Life) -> Iterator[Finding]:
    by_version = sorted(life, key=lambda d: (d.partition_epoch, d.controller_epoch or -1))
    for before, decision in pairwise(by_version):
        if before.partition_epoch == decision.partition_epoch:
            yield _finding(
                "two-decisions",
                f"{_what(decision)} has two states with partition epoch "
                f"{decision.partition_epoch}: {_words(before)}; {_words(decision)}",
                decision,
                before.pick,
            )
    newest: Decision | None = None
    for decision in by_version:
        if newest is not None and _epoch(newest) > _epoch(decision):
            yield _finding(
                "old-controller-decided",
                f"{_what(decision)}: {_words(decision)} came after {_words(newest)}",
                decision,
                newest.pick,
            )
        else:
            newest = decision


def _along_the_log(history: History, told: Mapping[Trial, Sequence[Row]]) -> Iterator[Finding]:
    """Of metadata logs: one finding of each sort in a trial."""
    by_trial: dict[Trial, list[Decision]] = {}
    for key, of in lives(history).items():
        if key[:2] in from_copies(history):
            ruled = (d for life in of for d in life if d.commit_ms is not None and _epoch(d) >= 0)
            by_trial.setdefault(key[:2], []).extend(ruled)
    for trial, decisions in sorted(by_trial.items()):
        newest: Decision | None = None
        for decision in sorted(decisions, key=lambda d: (d.commit_ms or 0, -_epoch(d))):
            if newest is None or _epoch(newest) <= _epoch(decision):
                newest = decision
            elif newest.commit_ms != decision.commit_ms:
                yield _finding(
                    "old-controller-decided",
                    f"{_what(decision)}: {_words(decision)} was written after {_what(newest)}: "
                    f"{_words(newest)}",
                    decision,
                    newest.pick,
                )
                break
        elected = {row["controller_epoch"] for row in told.get(trial, ())}
        strange = [d for d in decisions if elected and _epoch(d) not in elected]
        if strange:
            first = min(strange, key=lambda d: d.commit_ms or 0)
            yield _finding(
                "decided-out-of-office",
                f"{_what(first)}: {_words(first)}, in which nobody says that it was elected",
                first,
                *(_election(row) for row in told[trial][-1:]),
            )


def _too_late(history: History, life: Life, elected: Sequence[Row]) -> Iterator[Finding]:
    """``elected``: in order of their epochs."""
    epochs = [row["controller_epoch"] for row in elected]
    # By election, when it or a later one was first over: most decisions are cleared by that.
    soonest = list(accumulate((_over_t(row) for row in reversed(elected)), min))[::-1]
    before: Ruled | None = None
    for decision in life:
        ruled = (decision.leader, decision.leader_epoch, decision.controller_epoch)
        own, before = by_leader(history, decision.key[0], before, ruled), ruled
        if own:
            continue
        written_t = _written_t(history, decision)
        newer = bisect_right(epochs, _epoch(decision))
        if written_t is None or newer == len(epochs) or soonest[newer] >= written_t:
            continue
        over = next(row for row in elected[newer:] if _over_t(row) < written_t)
        late_ms = (written_t - _over_t(over)) / _MS
        of = (_epoch(decision), over["controller_epoch"])
        yield _finding(
            "decided-after-succession",
            f"{_what(decision)}: {_words(decision)}, was written at least {late_ms:.0f} ms after "
            f"{over['process']} had been elected with controller epoch {of[1]}",
            decision,
            *(_election(row) for row in elected if row["controller_epoch"] in of),
        )


def _written_t(history: History, decision: Decision) -> int | None:
    """The first moment (ns) at which it can have been written; None when no store's clock tells."""
    offset_ns = history.run.clock_offset_ns
    if decision.commit_ms is None or offset_ns is None:
        return None
    return decision.commit_ms * _MS + offset_ns - history.run.clock_error_ns


def _over_t(elected: Row) -> int:
    """When the election was certainly over (ns)."""
    return int(elected["t"] + (elected["error_ns"] or 0))


def _election(row: Row) -> Pick:
    wanted = {"controller_epoch": row["controller_epoch"], "event": "elected"}
    return Pick("controller", wanted, rows=1)


def _epoch(decision: Decision) -> int:
    return -1 if decision.controller_epoch is None else decision.controller_epoch


def _what(decision: Decision) -> str:
    return f"{decision.key[2]}-{decision.key[3]}"


def _words(decision: Decision) -> str:
    return (
        f"leader {decision.leader} with leader epoch {decision.leader_epoch}, by controller epoch "
        f"{decision.controller_epoch}"
    )


def _finding(rule: str, says: str, decision: Decision, *others: Pick) -> Finding:
    return Finding(rule, says, decision.key[0], decision.key[1], (*others, decision.pick))


# -- the office -----------------------------------------------------------------------------------


def _two_controllers(history: History) -> Iterator[Finding]:
    for trial, of in sorted(elections(history).items()):
        holders: dict[int, int] = {}
        given = {e.controller_epoch for e in of if e.zxid is not None}
        for election in of:  # ZooKeeper's word comes first
            epoch = election.controller_epoch
            holder = holders.setdefault(epoch, election.node)
            if holder == election.node and (not given or epoch in given):
                continue
            other = f"node {holder} has it" if holder != election.node else "nobody was given it"
            wanted = {"controller_epoch": epoch}
            yield Finding(
                "two-controllers",
                f"node {election.node} was elected in controller epoch {epoch}; {other}",
                *trial,
                (
                    Pick("zk_write", {**wanted, "what": "controller_epoch"}, rows=1),
                    Pick("zk_write", {"what": "controller"}, last=True),
                    Pick("controller", {**wanted, "event": "elected"}),
                ),
            )


def _senders(history: History) -> Iterator[Finding]:
    """Who sent under which controller epoch, against ZooKeeper's log of elections."""
    written_t = {
        (row["arm"], row["trial"], row["zxid"]): row["t"] - (row["error_ns"] or 0)
        for row in history.rows("zk_write")
        if row["what"] == "controller_epoch"
    }
    given = {
        (trial, one.node, one.controller_epoch): written_t[*trial, one.zxid]
        for trial, of in elections(history).items()
        for one in of
        if one.zxid is not None
    }
    logged = {trial for trial, _, _ in given}
    if not logged or not history.has("control_send"):
        return
    at = latest(F.coalesce("enqueue_t", "t"))
    sent = history.frame("control_send").where("node is not null and controller_epoch is not null")
    by = sent.groupBy("arm", "trial", "node", "controller_epoch")
    for row in by.agg(F.min(at).alias("t"), F.count("*").alias("n")).toArrow().to_pylist():
        trial = (row["arm"], row["trial"])
        elected_t = given.get((trial, row["node"], row["controller_epoch"]))
        if trial not in logged or (elected_t is not None and row["t"] >= elected_t):
            continue
        when = "before it was elected" if elected_t is not None else "which was never given to it"
        own = {"node": row["node"], "controller_epoch": row["controller_epoch"]}
        yield Finding(
            "sent-out-of-office",
            f"node {row['node']} sent {row['n']} control requests under controller epoch "
            f"{row['controller_epoch']}, {when}",
            *trial,
            (
                Pick("zk_write", {"what": "controller_epoch"}, last=True),
                Pick("control_send", own, rows=1),
            ),
        )


def _office(history: History, outcome: Outcome) -> Iterator[Finding]:
    """Whether each controller epoch is the next, and each taking of the office raises it."""
    raised: dict[Trial, Row] = {}
    for row in in_order(history):
        trial = (row["arm"], row["trial"])
        if row["what"] == "controller_epoch" and row["controller_epoch"] is not None:
            before = raised.get(trial)
            raised[trial] = row
            # The first that is seen may be any: the log may begin later than the cluster.
            if before is not None and row["controller_epoch"] != before["controller_epoch"] + 1:
                yield Finding(
                    "office-without-epoch",
                    f"controller epoch {row['controller_epoch']} was written straight after "
                    f"{before['controller_epoch']}",
                    *trial,
                    (written(before), written(row)),
                )
    for row, raise_ in taken(history):
        if raise_ is None and raises_later(history, row["arm"]):
            outcome.unjudged(
                row["arm"], "an office, taken by who may have died before the epoch rose"
            )
        elif raise_ is None:
            yield Finding(
                "office-without-epoch",
                f"node {row['node']} took office without raising the controller epoch",
                row["arm"],
                row["trial"],
                (written(row),),
            )


def _out_of_office(history: History) -> Iterator[Finding]:
    in_force: dict[Trial, Row] = {}
    states: dict[Key, Ruled] = {}
    for row in in_order(history):
        trial = (row["arm"], row["trial"])
        if row["what"] == "controller_epoch":
            in_force[trial] = row
        if row["what"] != "state" or row["controller_epoch"] is None or trial not in in_force:
            continue
        key, ruled = key_of(row), (row["leader"], row["leader_epoch"], row["controller_epoch"])
        before, states[key] = states.get(key), ruled
        if by_leader(history, key[0], before, ruled):
            continue
        office = in_force[trial]
        if office["controller_epoch"] not in (None, row["controller_epoch"]):
            yield Finding(
                "decided-out-of-office",
                f"{row['topic']}-{row['partition']} was given leader {row['leader']} under "
                f"controller epoch {row['controller_epoch']} while {office['controller_epoch']} "
                "was in force",
                *trial,
                (written(office), written(row)),
            )


def _claims(history: History, outcome: Outcome) -> Iterator[Finding]:
    """What writers say that they committed, against ZooKeeper's own log. Of a write that this lacks
    nobody knows what it said."""
    held: dict[Key, set[tuple[Any, ...]]] = {
        key: {state.content for life in of for state in life}
        for key, of in lives(history).items()
        if key[:2] in from_log(history)
    }
    for row in history.rows("leadership"):
        whole = None not in (row["topic"], row["leader_epoch"], row["partition_epoch"])
        if row["source"] != "controller" or not whole or key_of(row) not in held:
            continue
        if content_of(row) in held[key_of(row)]:
            continue
        if is_lost(history, key_of(row), row["partition_epoch"]):
            says = f"ZooKeeper's log of {row['topic']}-{row['partition']} lacks what"
            outcome.unknown(row["arm"], row["trial"], f"{says} {row['process']} committed there")
            continue
        at = {"topic": row["topic"], "partition": row["partition"]}
        version = {**at, "partition_epoch": row["partition_epoch"]}
        yield Finding(
            "claimed-otherwise",
            f"{row['process']} says that it committed leader {row['leader']} of {row['topic']}-"
            f"{row['partition']} with leader epoch {row['leader_epoch']} and partition epoch "
            f"{row['partition_epoch']}, in-sync {row['isr']}; ZooKeeper never held that",
            row["arm"],
            row["trial"],
            (
                Pick("leadership", {**version, "source": "controller"}, rows=1),
                Pick("zk_write", {**version, "what": "state"}, rows=2),
            ),
        )


def _in_office_for_ever(
    history: History, outcome: Outcome, told: Mapping[Trial, Sequence[Row]]
) -> Iterator[Finding]:
    """``told``: in order of their epochs. Where ZooKeeper's log has elections."""
    resigned = {
        (row["arm"], row["trial"], row["node"], row["boot"], row["controller_epoch"]): row["t"]
        for row in history.rows("controller")
        if row["event"] == "resigned"
    }
    for trial, of in sorted(told.items()):
        if all(one.zxid is None for one in elections(history).get(trial, ())):
            continue
        healed = after_healing(history, trial)
        if isinstance(healed, str):
            continue
        events = rows_of(history, "node_event", trial)
        for row, successor in pairwise(of):
            node, owed_t = row["node"], max(healed.since_t, successor["t"]) + _HEARD_NS
            ended = any(
                event["node"] == node and event["event"] in _ENDS and event["t"] > row["t"]
                for event in events
                if event["t"] < healed.until_t
            )
            if ended or owed_t > healed.until_t or healed.cannot_serve([node]) is not None:
                continue
            outcome.saw(*trial, LIVED_ON)
            said_t = resigned.get((*trial, node, row["boot"], row["controller_epoch"]))
            if said_t is None or said_t > healed.until_t:
                yield _never_resigned(trial, row, successor)


def _never_resigned(trial: Trial, row: Row, successor: Row) -> Finding:
    return Finding(
        "never-resigned",
        f"node {row['node']}, elected in controller epoch {row['controller_epoch']}, has not said "
        f"that it resigned, though node {successor['node']} succeeded it",
        *trial,
        (
            _election(row),
            _election(successor),
            Pick("controller", {"node": row["node"], "event": "resigned"}),
        ),
    )


# -- how long -------------------------------------------------------------------------------------


def _takeovers(
    history: History, outcome: Outcome, elections: Mapping[Trial, Iterable[Row]]
) -> None:
    """From ``inject`` of a fault that names a successor's epoch until that epoch was elected."""
    begun: dict[tuple[Any, ...], int] = {}
    times: dict[str, Histogram] = {}
    for row in history.rows("fault"):
        trial = (row["arm"], row["trial"])
        if row["phase"] == "inject":
            begun[*trial, row["id"]] = row["t"]
        epoch = _successor(row) if row["phase"] == "injected" else None
        if epoch is None:
            continue
        elected = [e["t"] for e in elections.get(trial, ()) if e["controller_epoch"] == epoch]
        if not elected:
            outcome.unknowns.append(
                f"{trial[0]}, trial {trial[1]}: a controller with epoch {epoch} was seen in "
                "office; no node says that it was elected"
            )
        elif (*trial, row["id"]) in begun:
            late_ns = max(0, elected[0] - begun[*trial, row["id"]])
            times.setdefault(trial[0], Histogram()).add(bucket_number(late_ns), 1, late_ns)
    for arm, histogram in times.items():
        outcome.arm(arm)["takeover"] = histogram.summary()


def _successor(row: Row) -> int | None:
    epoch = details(row).get("successor_epoch")
    return epoch if isinstance(epoch, int) else None


PROMISE: Final = Promise(
    name="succession",
    says="One controller is in office at a time; once it is replaced only its successors decide.",
    source="KafkaController's epoch znode (KAFKA-6082); KRaft's quorum",
    rules={
        "decided-out-of-office": "Only the controller in office decides.",
        "two-controllers": "One controller epoch has one controller.",
        "sent-out-of-office": "Who sends control requests was elected in their controller epoch.",
        "office-without-epoch": "Who takes office raises the controller epoch by one.",
        "claimed-otherwise": "What a controller says that it committed is committed.",
        "old-controller-decided": "No state of an older controller follows one of a newer.",
        "two-decisions": "One partition epoch has one state.",
        "decided-after-succession": "Nobody decides after a successor was elected.",
        "never-resigned": "Who is succeeded, and lives on, resigns.",
    },
    evidence={
        "decisions": "proved states of partitions",
        LIVED_ON: "of whom it is told whether they resigned",
    },
    unknown_when=(
        "no controller's election was recorded",
        "ZooKeeper's log lacks what a controller says that it committed",
    ),
    blind=(
        "without ZooKeeper: offices, but for the word of those who were elected",
        "what a controller keeps that says that it resigned",
    ),
    timed=frozenset({"never-resigned"}),
    check=check,
)
