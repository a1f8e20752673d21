"""Replicas: do all logs of a partition say the same, up to what was committed?

Guarantee: below the high watermark an offset holds one record (value, leader epoch, time) in every
replica of the in-sync set, for ever; the high watermark never goes back behind what a consumer has
read or acks=all has promised; leader epochs only grow along a log; a log has no holes.

Violations, at the final read, when the cluster has come to rest:
- ``replica-differs``: two replicas hold different records at an offset that both must agree on;
- ``replica-hole``: a replica lacks a record that the leader has and that it must have, in its midst
  or at its end, were it all of them; or the leader's own log leaps over an offset;
- ``high-watermark-went-back``: the final leader's high watermark is below a record that a consumer
  was given or that acks=all acknowledged;
- ``high-watermark-behind``: an in-sync follower's high watermark stays behind the leader's although
  nothing more is written: its consumers, and its own election, would lack committed records;
- ``high-watermark-beyond-end``: a broker that took up a role said that its high watermark lay
  beyond its own log's end (UnifiedLog never lets it): what it committed it does not have;
- ``high-watermark-ahead``: a broker took a high watermark into a leader epoch, or had told an end
  before it, that lay beyond the log of a member of the in-sync set (`ahead`): it calls committed
  what is not;
- ``log-went-back``: a broker's log ended earlier than it had, with no truncation in between
  (`kept_logs`);
- ``promised-and-cut``: a broker cut, by its own word, what acks=all had promised while it was in
  sync (`kept_logs`), whether or not it is lost;
- ``cut-in-sync``: a broker cut its log in the leader epoch in which it had come into sync
  (`cut_in_sync`): it was counted in sync with a log that parted from its leader's;
- ``cut-while-fetching``: a follower cut what the same leader had given it in that leader epoch
  (`cut_while_fetching`);
- ``cut-while-leading``: a broker cut its log while it led (`cut_while_fetching`);
- ``cut-below-watermark``: a broker cut what it had said to be committed (`cut_below`);
- ``high-watermark-forgotten``: a broker that began anew takes nothing for committed, and had
  written down that something was (`forgotten`);
- ``high-watermark-fell``: a broker took up a role with a lower high watermark than one before, and
  no leader since had begun with such a one (`fallen_marks`);
- ``high-watermark-stuck``: the final leader's high watermark stays below its log's end although all
  replicas are in sync and have what it has: what is not committed then never will be;
- ``epoch-never-committed``: a log has records of a leader epoch that ZooKeeper's log does not have;
- ``epochs-out-of-order``: of one log, a later record has an older leader epoch (KIP-101's cache
  would then lead a follower to cut at the wrong place).

Up to where: `checkers.facts.replicas`. Of high watermarks at rest nothing is said of a trial that
was ended before it came to rest. Lawful and alike: a follower that is not in sync may differ
beyond its own high watermark until it truncates; a partition that takes records in LogAppendTime
has gaps in time, never in offsets; compaction and aborted transactions leave holes (compacted
topics are excused, transactions there are none).

Unknown: a replica that could not be read although its node ran, or every follower of a trial; one
that was in sync in the end, or a whole partition, of which no log was read; logs of which none, or
two, or another than the committed one is the leader's; a log that tells of one offset twice, or of
a high watermark beyond its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.leadership import Key, key_of
from checkers.facts.replicas import Replica, proved, replicas
from checkers.facts.segments import fallen
from checkers.judging.excuses import excuses
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick
from checkers.promises.replicas.agreement import COMPARED, Found, disagreements, found_at, place_of
from checkers.promises.replicas.ahead import TAKEN, judge_ahead
from checkers.promises.replicas.cut_below import cut_below
from checkers.promises.replicas.cut_in_sync import cut_in_sync
from checkers.promises.replicas.cut_while_fetching import cut_while_fetching
from checkers.promises.replicas.fallen_marks import RAISED, fallen_marks
from checkers.promises.replicas.forgotten import BEGUN, forgotten
from checkers.promises.replicas.kept_logs import Shrunk, kept_logs
from checkers.promises.replicas.unread import unread

if TYPE_CHECKING:
    from checkers.history.frames import History

FOLLOWERS: Final = "followers' logs"
ENDS: Final = "ends of logs held against earlier ones"
Row = Mapping[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("log_end"):
        if history.has("produce"):
            outcome.unknowns.append("no final log was read")
        return outcome
    _unreadable(history, outcome)
    for arm, trial, why in unread(history):
        outcome.unknown(arm, trial, why)
    for found in _watermarks(history):
        _add(history, outcome, found)
    kept = kept_logs(history)
    for (arm, trial), n in kept.compared.items():
        outcome.saw(arm, trial, ENDS, n)
    for (arm, trial), n in kept.taken.items():
        outcome.excuse(arm, trial, "log-went-back", "taken", of=ENDS, n=n)
    for one in kept.shrunk:
        outcome.add(_went_back(one))
    for one in kept.cut:
        _add(history, outcome, Found(one.key, _cut_too_far(one)))
    for found in (*cut_in_sync(history), *cut_while_fetching(history), *cut_below(history)):
        _add(history, outcome, found)
    for found in (*forgotten(history, outcome), *fallen_marks(history, outcome)):
        _add(history, outcome, found)
    for beyond in _beyond_end(history):
        outcome.add(beyond)
    for found in (*judge_ahead(history, outcome), *disagreements(history, outcome)):
        _add(history, outcome, found)
    return outcome


def _add(history: History, outcome: Outcome, found: Found) -> None:
    """What an excuse covers is counted instead; nobody can say since when a record was there."""
    excuse, rule = excuses(history).of(*found.key, 0), found.finding.rule
    if excuse is not None:
        outcome.excuse(*found.key[:2], rule, excuse, of=COMPARED, n=found.n)
        return
    outcome.add(found.finding, found.n)


def _proof(one: Shrunk) -> Pick:
    at = {"topic": one.key[2], "partition": one.key[3], "t": one.had["t"]}
    own = {"node": one.node} if one.had_kind == "leader_change" else {"value": one.had["value"]}
    return Pick(one.had_kind, {**at, **own}, rows=1)


def _went_back(one: Shrunk) -> Finding:
    arm, trial, topic, partition = one.key
    at = {"topic": topic, "partition": partition, "node": one.node}
    return Finding(
        "log-went-back",
        f"node {one.node}'s log of {topic}-{partition} had all below {one.before}, and later ended "
        f"at {one.after}; it had told of no truncation",
        arm,
        trial,
        (
            _proof(one),
            Pick(one.has_kind, {**at, "t": one.has["t"]}, rows=1),
        ),
    )


def _cut_too_far(one: Shrunk) -> Finding:
    arm, trial, topic, partition = one.key
    at = {"topic": topic, "partition": partition, "node": one.node}
    return Finding(
        "promised-and-cut",
        f"node {one.node} cut {topic}-{partition} down to offset {one.after}, though acks=all had "
        f"been given up to {one.before - 1} while it was in sync",
        arm,
        trial,
        (_proof(one), Pick(one.has_kind, {**at, "t": one.has["t"]}, rows=1)),
    )


def _beyond_end(history: History) -> Iterator[Finding]:
    """By the broker's own word, told in one breath."""
    for row in history.rows("leader_change"):
        end, mark = row["log_end_offset"], row["high_watermark"]
        if None in (end, mark) or end < 0 or mark <= end:
            continue
        at = {"topic": row["topic"], "partition": row["partition"], "node": row["node"]}
        yield Finding(
            "high-watermark-beyond-end",
            f"node {row['node']} took up leader epoch {row['leader_epoch']} of {row['topic']}-"
            f"{row['partition']} with a high watermark of {mark}, its log ending at {end}",
            row["arm"],
            row["trial"],
            (Pick("leader_change", {**at, "t": row["t"]}, rows=1),),
        )


def _unreadable(history: History, outcome: Outcome) -> None:
    """Who could not be read; a node that somebody left down is no wonder, and named."""
    down = _down(history)
    leaders = {one.key for one in replicas(history)}
    for key in sorted({key_of(row) for row in history.rows("log_end")} - leaders):
        outcome.unknown(*key[:2], f"no leader's log of {place_of(key)} was read")
    for one in replicas(history):
        arm, trial = one.key[:2]
        figures = outcome.arm(arm)
        figures["replicas"] = figures.get("replicas", 0) + (one.error is None)
        if one.error is None:
            outcome.saw(arm, trial, FOLLOWERS, int(not one.is_leader))
        elif (arm, trial, one.node) in down:
            outcome.unjudged(arm, f"replicas of node {one.node}, which was down at the end")
        else:
            outcome.unknown(
                arm, trial, f"node {one.node}'s replica of {place_of(one.key)}: {one.error}"
            )
    followed = {one.key[:2] for one in replicas(history) if not one.is_leader}
    for arm, trial in sorted(followed):
        if not outcome.evidence[arm, trial, FOLLOWERS]:
            outcome.unknown(arm, trial, "no follower's log was read")


def _down(history: History) -> set[tuple[str, int, int]]:
    """Nodes that the harness took down and did not start again."""
    last: dict[tuple[str, int, int], str] = {}
    for row in history.rows("node_event"):
        if row["event"] in ("kill", "stop", "stopped", "pause", "start", "resume", "exited"):
            last[row["arm"], row["trial"], row["node"]] = row["event"]
    return {key for key, event in last.items() if event in ("kill", "stop", "stopped", "pause")}


# -- high watermarks ----------------------------------------------------------------------------


def _watermarks(history: History) -> Iterator[Found]:
    known, restless = proved(history), {*fallen(history), *_hurried(history)}
    leaders = {one.key: one for one in replicas(history) if one.is_leader}
    by_key: dict[Key, list[Replica]] = {}
    for one in replicas(history):
        by_key.setdefault(one.key, []).append(one)
    for one in replicas(history):
        if one.error is not None or one.high_watermark is None:
            continue
        at = {"topic": one.key[2], "partition": one.key[3]}
        ends = Pick("log_end", at, rows=9)
        if one.is_leader:
            for kind, how, where in (
                ("read", "a consumer was given", "fetch"),
                ("acked", "acks=all acknowledged", "produce"),
            ):
                offset, value = known.get(one.key, {}).get(kind, (-1, None))
                if one.high_watermark <= offset:
                    says = (
                        f"{place_of(one.key)}: the final leader's (node {one.node}) high watermark "
                        f"is {one.high_watermark}, although {how} offset {offset}"
                    )
                    pick = Pick(where, {**at, "offset": offset, "value": value}, rows=1)
                    yield found_at("high-watermark-went-back", says, one.key, pick, ends)
            if one.key[:2] not in restless and _is_stuck(one, by_key[one.key]):
                says = (
                    f"{place_of(one.key)}: the final leader's (node {one.node}) high watermark "
                    f"stayed at {one.high_watermark}, below the log's end {one.end}, to which all "
                    "replicas came"
                )
                yield found_at("high-watermark-stuck", says, one.key, ends)
            continue
        leader_hw = leaders[one.key].high_watermark or 0
        if one.in_sync and one.key[:2] not in restless and one.high_watermark < leader_hw:
            says = (
                f"{place_of(one.key)}: in-sync node {one.node}'s high watermark stayed at "
                f"{one.high_watermark}, the leader's being {leader_hw}"
            )
            yield found_at("high-watermark-behind", says, one.key, ends)


def _hurried(history: History) -> set[tuple[str, int]]:
    """Trials whose logs were read without waiting for the cluster to come to rest: somebody ended
    the run, or a client of it had died. A follower may hear of the last commit later than that."""
    of: dict[tuple[str, int], set[str]] = {}
    for row in history.rows("phase"):
        of.setdefault((row["arm"], row["trial"]), set()).add(row["name"])
    return {
        trial
        for trial, names in of.items()
        if "final_read" in names and not names & {"quiesce", "settle"}
    }


def _is_stuck(leader: Replica, of: list[Replica]) -> bool:
    """Its log ends above its high watermark, and so do those of all replicas, each in sync."""
    if leader.end is None or leader.high_watermark is None or leader.high_watermark >= leader.end:
        return False
    return len(of) > 1 and all(one.in_sync and (one.end or 0) >= leader.end for one in of)


PROMISE: Final = Promise(
    name="replicas",
    says="All logs of a partition say the same, up to what was committed.",
    source="Kafka's high watermark and UnifiedLog; KIP-101, KIP-279",
    rules={
        "replica-differs": "All replicas agree up to the high watermark.",
        "replica-hole": "A replica lacks nothing below the high watermark.",
        "high-watermark-went-back": "The high watermark stays above what was read or promised.",
        "high-watermark-behind": "At rest, an in-sync follower's high watermark is its leader's.",
        "high-watermark-beyond-end": "No high watermark lies beyond the log's own end.",
        "high-watermark-ahead": "No high watermark lies beyond the log of one who is in sync.",
        "log-went-back": "A log keeps what it has, but for truncations that its broker tells of.",
        "promised-and-cut": "Nobody cuts what acks=all promised while it was in sync.",
        "cut-in-sync": "Who has come into sync cuts nothing in that leader epoch.",
        "cut-while-fetching": "Who has begun to fetch cuts nothing in that leader epoch.",
        "cut-while-leading": "Who leads cuts nothing.",
        "cut-below-watermark": "Nobody cuts what it called committed.",
        "high-watermark-forgotten": "Who begins anew has the high watermark that it wrote down.",
        "high-watermark-fell": "A broker's high watermark falls to no less than a leader's.",
        "high-watermark-stuck": "At rest, what all replicas have is committed.",
        "epoch-never-committed": "Logs have records of committed leader epochs only.",
        "epochs-out-of-order": "Along a log leader epochs only grow.",
    },
    evidence={
        COMPARED: "at offsets of which two replicas have one",
        FOLLOWERS: "read to their ends",
        "offsets": "below what was committed, in any log",
        ENDS: "as brokers took up roles, and in the end",
        BEGUN: "by partition, of brokers that had written one down",
        RAISED: "of brokers that took up roles one after another, whose leaders told theirs",
        TAKEN: "of brokers that took up roles in a leader epoch, two of the in-sync set among them",
    },
    unknown_when=(
        "a replica could not be read although its node ran, or was in sync and was not read",
        "no follower was read",
        "what was read contradicts itself, or what was committed",
    ),
    blind=(
        "what differed and agreed again before the end",
        "high watermarks with which leader epochs began, of topics that were made again",
        "ends and high watermarks that a broker does not tell as it takes up a role",
        "high watermarks with which brokers begin anew, and that are not 0",
    ),
    timed=frozenset({"high-watermark-behind", "high-watermark-stuck"}),
    at_rest=frozenset({"high-watermark-behind", "high-watermark-stuck"}),
    check=check,
)
