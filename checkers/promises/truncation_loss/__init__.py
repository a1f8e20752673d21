"""Truncation loss: which acknowledged records are gone, which of them need not have been?

Guarantee: a record acknowledged with acks=all, or read by a consumer, stays in the log at its
offset; one acknowledged with acks=1 is lost only to a truncation (of its leader, demoted).

Violations:
- ``acked-all-lost`` / ``acked-all-moved``: acknowledged with acks=all and not in the final log (not
  at its offset), without an excuse (`checkers.judging.excuses`);
- ``read-then-gone`` / ``read-then-changed``: a consumer read it, and the final log does not have
  it there;
- ``acked-twice-otherwise`` / ``acked-not-read``: in a partition whose final log nobody read, or
  before that log's beginning, two records were acknowledged with acks=all at one offset, or a
  consumer read another than the one that was (`unread`);
- ``acked-below-min-isr``: acknowledged with acks=all while fewer than min.insync.replicas were in
  sync, as its leader knew (`too_few`), whether or not it is lost; ``appended-below-min-isr``:
  appended then, and refused only afterwards;
- ``refused-above-min-isr``: refused with acks=all for too few in sync, while enough were
  (`refused_all`);
- ``given-below-min-isr``: sent and given to a consumer while fewer than that were in sync
  (`given_too_few`);
- ``acked-without-in-sync``: offered and acknowledged with acks=all while a member of the in-sync
  set did not run (`all_in_sync`), whether or not it is lost;
- ``unexplained-loss``: acknowledged with acks=1 and gone, although it did not go with its leader's
  demotion (`checkers.judging.acks_one`) and no excuse accounts for it. A truncation explains it
  only where ZooKeeper had demoted the broker, and the final log shows that the next leader cannot
  have had the record;
- ``unexplained-truncation``: a broker cut its log although ZooKeeper had not committed anybody for
  it to follow; ``unexplained-removal``: it deleted its replica although the topic was not deleted
  and it is a replica in the end (`checkers.facts.cuts`), whether or not a record is lost by it;
- ``log-start-moved``: a replica's log begins above 0 although retention cannot bite within the run
  (and nobody deletes records). What lies below is lost, not purged.

Counted, lawful (acks=1), tied to its truncation (`checkers.facts.cuts`):
- ``before_commit``  appended before the next leader was committed: an in-sync follower lagged;
- ``between``        after that, but before the demoting LeaderAndIsr was sent to the broker;
- ``avoidable``      after it was sent: handled on arrival, it would have saved the record. This is
                     the figure that KIP-291 is about;
- ``edge``           within the clocks' errors of ``send_t``;  ``undated``: no send or commit known.

When a record was appended is known to a span of time: between invocation and acknowledgement, and
within its log append time's millisecond, widened by the error of the tie between the clocks. Both
spans hold, so their intersection does. acks=0 records are counted, never held against anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.accounts import accounts, final_leaders, lawful_start
from checkers.facts.cuts import Cut, cuts
from checkers.facts.disputes import disputed, disputes
from checkers.facts.leadership import Key, key_of
from checkers.judging.excuses import EXCUSES, Excuses, excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import Sort, add, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.truncation_loss.all_in_sync import UNABLE, judge_all_in_sync
from checkers.promises.truncation_loss.given_too_few import TAKEN, judge_given
from checkers.promises.truncation_loss.lost import LEVELS, judge_lost
from checkers.promises.truncation_loss.refused_all import refused_all
from checkers.promises.truncation_loss.too_few import OFFERED, judge_too_few
from checkers.promises.truncation_loss.unread import judge_unread

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
READ: Final = "offsets that a consumer read"
CUTS: Final = "truncations and removals"


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("log_end") or not final_leaders(history):
        if history.has("produce"):
            outcome.unknowns.append("no final log was read: of most records nothing can be said")
            judge_unread(history, outcome, excuses(history), of=LEVELS[-1])
        return outcome
    _count(history, outcome)
    known = excuses(history)
    judge_unread(history, outcome, known, of=LEVELS[-1])
    judge_lost(history, outcome, known)
    judge_too_few(history, outcome, known)
    judge_given(history, outcome, known)
    for refused in refused_all(history):
        outcome.add(refused)
    judge_all_in_sync(history, outcome, known)
    _judge_read(history, outcome, known)
    _judge_cuts(history, outcome, known)
    _judge_starts(history, outcome)
    return outcome


def _count(history: History, outcome: Outcome) -> None:
    """Totals by class; what could not be read makes the check unknown."""
    totals: Counter[tuple[str, str]] = Counter()
    unread: Counter[tuple[str, int]] = Counter()
    for row in accounts(history):
        arm, name, n = row["arm"], row["class"], row["n"]
        if name is None:  # it was only read
            continue
        if name in ("present", "moved", "absent", "purged", "unread"):
            level = "acked_all" if row["acks"] == -1 else "acked_1"
            outcome.saw(arm, row["trial"], LEVELS[-1 if row["acks"] == -1 else 1], n)
            totals[arm, level] += n
            totals[arm, f"{level}_{name}"] += n
            if name == "unread":
                unread[arm, row["trial"]] += n
        else:
            totals[arm, name.replace("unacked", "acks_0").replace("-", "_")] += n
    for (arm, key), n in sorted(totals.items()):
        outcome.arm(arm)[key] = n
    levels = set(LEVELS.values())
    seen = {(arm, trial) for arm, trial, what in outcome.evidence if what in levels}
    for arm, trial in sorted(set(history.expected(PROMISE.name)) - seen):
        outcome.unknown(arm, trial, "no record was acknowledged")
    for (arm, trial), n in sorted(unread.items()):
        outcome.unknowns.append(
            f"{arm}, trial {trial}: {n} acknowledged records lie in partitions whose final log "
            "could not be read"
        )


# -- read and gone --------------------------------------------------------------------------------


def _judge_read(history: History, outcome: Outcome, known: Excuses) -> None:
    if not history.has("fetch"):
        return
    for row in disputes(history):
        outcome.saw(row["arm"], row["trial"], READ, row["n_read"])
    rows, n = disputed(history, "gone", "changed")
    if not n:
        return
    found = tally(rows, n, partial(_sort, known))
    add(outcome, found, _read_finding)
    for (arm, trial, topic, partition, rule, excuse), n_of in found.in_order():
        figures = outcome.arm(arm)
        name = "read_then_lost" if excuse is None else f"read_then_lost_{excuse}"
        figures[name] = figures.get(name, 0) + n_of
        if excuse is not None:
            outcome.excuse(arm, trial, rule, excuse, of=READ, n=n_of)
        if excuse == "untold":
            outcome.unknown(arm, trial, f"{topic}-{partition}: {EXCUSES[excuse].because}")


def _sort(known: Excuses, row: Row) -> Sort:
    key, rule = key_of(row), _read_rule(row)
    excuse = known.of(*key, row["first_read_t"], row["offset"])
    order = (row["first_read_t"], *key, row["offset"])
    return Sort((*key, rule, excuse), order, rule if excuse is None else None)


def _read_rule(row: Any) -> str:
    return "read-then-gone" if row["class"] == "gone" else "read-then-changed"


def _read_finding(rule: str, row: Row) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    gone = row["class"] == "gone"
    instead = "nothing is there" if gone else f"value {row['log_value']} is there"
    return Finding(
        rule,
        f"a consumer read value {row['read_value']} at {row['topic']}-{row['partition']} offset "
        f"{row['offset']}; in the final log {instead}",
        row["arm"],
        row["trial"],
        (
            Pick("produce", {**at, "value": row["read_value"]}, rows=1),
            Pick("fetch", {**at, "offset": row["offset"]}, rows=2),
            Pick("leadership", at, from_t=row["first_read_t"]),
            Pick("truncation", at, from_t=row["first_read_t"]),
            Pick("log_read", {**at, "offset": row["offset"]}),
            Pick("log_end", {**at, "is_leader": True}, rows=1),
        ),
    )


# -- logs that got shorter ------------------------------------------------------------------------


def _judge_cuts(history: History, outcome: Outcome, known: Excuses) -> None:
    """Each truncation and removal by itself: what a follower cuts and fetches anew may not be lost
    in this run, and would be had its leader died."""
    for key, of in sorted(cuts(history).items()):
        outcome.saw(*key[:2], CUTS, len(of))
        for cut in of:
            if cut.wrong is None:
                continue
            excuse = known.from_outside(key, cut.cut_t)
            if excuse is not None:
                outcome.excuse(*key[:2], _cut_rule(cut), excuse, of=CUTS)
            else:
                outcome.add(_cut_finding(key, cut))


def _cut_rule(cut: Cut) -> str:
    return "unexplained-removal" if cut.whole else "unexplained-truncation"


def _cut_finding(key: Key, cut: Cut) -> Finding:
    arm, trial, topic, partition = key
    at = {"topic": topic, "partition": partition}
    own = {**at, "node": cut.node}
    if cut.whole:
        says = f"node {cut.node} deleted its replica of {topic}-{partition}, whose topic was not "
        says += f"deleted: {cut.wrong}"
        what = Pick("replica_stop", {**own, "delete": True}, from_t=cut.cut_t, rows=1)
        return Finding(_cut_rule(cut), says, arm, trial, (what, Pick("log_end", own, rows=1)))
    offsets = {"from_offset": cut.from_offset, "to_offset": cut.to_offset}
    says = (
        f"node {cut.node} cut {topic}-{partition} from offset {cut.from_offset} to "
        f"{cut.to_offset}, although {cut.wrong}"
    )
    picks = (
        Pick("leadership", at, to_t=cut.cut_t, last=True),
        Pick("leader_change", own, to_t=cut.cut_t, last=True, rows=1),
        Pick("truncation", {**own, **offsets}, rows=1),
        Pick("leadership", at, from_t=cut.cut_t, rows=1),
    )
    return Finding(_cut_rule(cut), says, arm, trial, picks)


def _judge_starts(history: History, outcome: Outcome) -> None:
    for row in history.rows("log_end"):
        start = row["log_start_offset"]
        if row["error"] is not None or start is None or start <= lawful_start(history, row):
            continue
        at = {"topic": row["topic"], "partition": row["partition"]}
        says = (
            f"the log of {row['topic']}-{row['partition']} on node {row['node']} begins at offset "
            f"{start}, and no retention can have moved its start"
        )
        picks = (
            Pick("log_end", {**at, "node": row["node"]}, rows=1),
            Pick("produce", {**at, "type": "ok"}, rows=1),
            Pick("truncation", {**at, "node": row["node"]}),
        )
        outcome.add(Finding("log-start-moved", says, row["arm"], row["trial"], picks))


PROMISE: Final = Promise(
    name="truncation-loss",
    says="What was promised stays; what acks=1 loses is tied to a truncation.",
    source="Kafka's acks, UnifiedLog and ReplicaFetcherThread; KIP-101, KIP-279, KIP-291 "
    "(motivation); Jepsen: lost write; Raft: log matching",
    rules={
        "acked-all-lost": "A record acknowledged with acks=all stays.",
        "acked-all-moved": "A record acknowledged with acks=all stays at its offset.",
        "read-then-gone": "A record that a consumer has read stays.",
        "read-then-changed": "An offset that a consumer has read holds the same record for ever.",
        "acked-twice-otherwise": "acks=all acknowledges one record at an offset.",
        "acked-not-read": "What acks=all acknowledged at an offset is what consumers read there.",
        "given-below-min-isr": "Nothing is committed while too few are in sync (KIP-966).",
        "refused-above-min-isr": "acks=all is not refused for too few in sync while enough are.",
        "acked-below-min-isr": "acks=all is acknowledged only while min.insync.replicas are in "
        "sync.",
        "appended-below-min-isr": "Who knows that acks=all cannot be kept appends nothing.",
        "acked-without-in-sync": "acks=all is acknowledged when all that are in sync have it.",
        "unexplained-loss": "An acks=1 record is lost only with its leader's demotion, to a leader "
        "that never had it.",
        "unexplained-truncation": "A broker cuts its log only to follow a committed leader.",
        "unexplained-removal": "A replica is deleted only with its topic, or when it is moved.",
        "log-start-moved": "A log begins at 0 unless its topic's retention can have moved that.",
    },
    evidence={
        LEVELS[1]: "offered with acks=1, and answered",
        LEVELS[-1]: "offered with acks=all, and answered",
        READ: "each once, whoever read it",
        CUTS: "of which brokers told",
        TAKEN: "and its leader knew, of systems that commit none of them then",
        OFFERED: "and its leader knew, whatever came of them",
        UNABLE: "by partition and broker, whatever came of them",
    },
    unknown_when=(
        "a partition's final log could not be read",
        "records are lost, and the log of a running broker that may hold them could not be read",
        "leader epochs went back, and nothing says whether the topic was created again",
        "acks=all was given long after too few were in sync, by a leader that never said it knew",
    ),
    blind=(
        "when acks=0 records went",
        "acks=all while too few were in sync, until the leader said that it knew",
        "truncations that a broker does not tell of, where nothing is lost by them",
        "who is out of sync and cuts more than parted from its leader's log, if it gets that back",
        "unexplained truncations and removals of a system that tells of none",
    ),
    check=check,
)
