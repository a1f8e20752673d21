"""Succession: when a controller was replaced, did only its successors decide from then on?

Guarantee: controller epochs order everything that is ever decided about a partition. With ZooKeeper
each write of a controller is conditioned on the epoch's znode; without, an entry of the metadata
log is only committed by a majority that knows no newer epoch. So the office may be claimed by two,
and held by one.

A *decision* is a committed state of a partition: its leader, leader epoch and the controller epoch
that it was made under, at a partition epoch. Violations:

- ``old-controller-decided``: of one partition, a later state that an older controller made;
- ``two-decisions``: one partition epoch with two different states;
- ``decided-after-succession``: a state made under an epoch and written after the election of a
  newer one was over, by the clock of whoever stored it (``commit_ms``).

Measured: elections, and ``takeover``: from the fault that put a controller out of office until its
successor says that it was elected.

What proves a decision: a watch of ZooKeeper, or two nodes' copies of the metadata log (the end of
one copy alone may hold what was never committed). Blind: topics that were deleted and created
again; states that do not say under which controller epoch they were made.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.histogram import Histogram, bucket_number
from checkers.facts.leadership import Key, key_of, leadership
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Trial = tuple[str, int]
_MS: Final = 1_000_000


@dataclass(slots=True)
class Decision:
    """One state of one partition, and who told of it. ``written_t``: the first moment (ns) at which
    it can have been written; None when no clock of a store says so."""

    key: Key
    partition_epoch: int
    controller_epoch: int
    leader: int | None
    leader_epoch: int
    written_t: int | None = None
    tellers: set[str] = field(default_factory=set)
    watched: bool = False

    @property
    def proved(self) -> bool:
        return self.watched or len(self.tellers) > 1

    @property
    def pick(self) -> Pick:
        where = {"topic": self.key[2], "partition": self.key[3]}
        epochs = {"partition_epoch": self.partition_epoch, "leader_epoch": self.leader_epoch}
        by = {"controller_epoch": self.controller_epoch, "leader": self.leader}
        return Pick("leadership", {**where, **epochs, **by}, rows=1)


def check(history: History) -> Outcome:
    outcome = Outcome()
    decisions = _decisions(history)
    elections = _elections(history)
    for key, of in decisions.items():
        outcome.saw(*key[:2], "decisions", len(of))
        figures = outcome.arm(key[0])
        figures["decisions"] = figures.get("decisions", 0) + len(of)
        for finding in _violations(key, of, elections.get(key[:2], ())):
            outcome.add(finding)
    for (arm, _), elected in elections.items():
        figures = outcome.arm(arm)
        figures["elections"] = figures.get("elections", 0) + len(elected)
    _takeovers(history, outcome, elections)
    for arm, trial in history.trials:
        if (arm, trial) not in elections:
            outcome.unknowns.append(f"{arm}, trial {trial}: no controller's election was recorded")
    return outcome


def _decisions(history: History) -> dict[Key, list[Decision]]:
    """The proved ones of each partition, by partition epoch."""
    known = leadership(history)
    offset_ns, error_ns = history.run.clock_offset_ns, history.run.clock_error_ns
    found: dict[Key, dict[tuple[Any, ...], Decision]] = {}
    for row in history.rows("leadership"):
        if row["topic"] is None or row["partition_epoch"] is None or row["leader_epoch"] is None:
            continue
        key = key_of(row)
        if (row["controller_epoch"] or -1) < 0 or known[key].incarnations > 1:
            continue
        same = tuple(row[n] for n in ("partition_epoch", "controller_epoch", "leader_epoch"))
        decision = found.setdefault(key, {}).setdefault(
            (*same, row["leader"]), Decision(key, same[0], same[1], row["leader"], same[2])
        )
        decision.tellers.add(row["process"])
        decision.watched = decision.watched or row["source"] == "zk"
        if row["commit_ms"] is not None and offset_ns is not None:
            decision.written_t = row["commit_ms"] * _MS + offset_ns - error_ns
    return {
        key: sorted(
            (d for d in of.values() if d.proved),
            key=lambda d: (d.partition_epoch, d.controller_epoch, d.leader_epoch),
        )
        for key, of in found.items()
    }


def _elections(history: History) -> dict[Trial, list[Row]]:
    """By trial, a row an epoch, in order of their epochs."""
    found: dict[Trial, dict[int, Row]] = {}
    for row in history.rows("controller"):
        if row["event"] == "elected" and row["controller_epoch"] is not None:
            of = found.setdefault((row["arm"], row["trial"]), {})
            of.setdefault(row["controller_epoch"], row)
    return {trial: [of[epoch] for epoch in sorted(of)] for trial, of in found.items()}


def _violations(key: Key, decisions: list[Decision], elected: Sequence[Row]) -> Iterator[Finding]:
    what = f"{key[2]}-{key[3]}"
    newest: Decision | None = None
    for decision in decisions:
        if newest is not None and newest.partition_epoch == decision.partition_epoch:
            yield _finding(
                "two-decisions",
                f"{what} has two states with partition epoch {decision.partition_epoch}: "
                f"{_words(newest)}; {_words(decision)}",
                decision,
                newest.pick,
            )
        elif newest is not None and newest.controller_epoch > decision.controller_epoch:
            yield _finding(
                "old-controller-decided",
                f"{what}: {_words(decision)} came after {_words(newest)}",
                decision,
                newest.pick,
            )
        if newest is None or newest.controller_epoch <= decision.controller_epoch:
            newest = decision
        over = _succeeded_before(decision, elected)
        if over is not None and decision.written_t is not None:
            late_ms = (decision.written_t - _over_t(over)) / _MS
            of = (decision.controller_epoch, over["controller_epoch"])
            yield _finding(
                "decided-after-succession",
                f"{what}: {_words(decision)}, was written at least {late_ms:.0f} ms after "
                f"{over['process']} had been elected with controller epoch {of[1]}",
                decision,
                *(_election(row) for row in elected if row["controller_epoch"] in of),
            )


def _succeeded_before(decision: Decision, elected: Iterable[Row]) -> Row | None:
    """The first newer controller that was certainly in office when the decision was written."""
    for row in elected:
        newer = row["controller_epoch"] > decision.controller_epoch
        if newer and decision.written_t is not None and _over_t(row) < decision.written_t:
            return row
    return None


def _over_t(elected: Row) -> int:
    """When the election was certainly over (ns)."""
    return int(elected["t"] + (elected["error_ns"] or 0))


def _election(row: Row) -> Pick:
    wanted = {"controller_epoch": row["controller_epoch"], "event": "elected"}
    return Pick("controller", wanted, rows=1)


def _words(decision: Decision) -> str:
    return (
        f"leader {decision.leader} with leader epoch {decision.leader_epoch}, by controller epoch "
        f"{decision.controller_epoch}"
    )


def _finding(rule: str, says: str, decision: Decision, *others: Pick) -> Finding:
    return Finding(rule, says, decision.key[0], decision.key[1], (*others, decision.pick))


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
    try:
        detail = json.loads(row["detail"] or "{}")
    except ValueError:
        return None
    epoch = detail.get("successor_epoch") if isinstance(detail, dict) else None
    return epoch if isinstance(epoch, int) else None


PROMISE: Final = Promise(
    name="succession",
    says="Once a controller is replaced, only its successors decide.",
    source="KafkaController's epoch znode (KAFKA-6082); KRaft's quorum",
    rules={
        "old-controller-decided": "No state of an older controller follows one of a newer.",
        "two-decisions": "One partition epoch has one state.",
        "decided-after-succession": "Nobody decides after a successor was elected.",
    },
    evidence={"decisions": "proved states of partitions"},
    unknown_when=("no controller's election was recorded",),
    blind=("topics that were deleted and created again",),
    check=check,
)
