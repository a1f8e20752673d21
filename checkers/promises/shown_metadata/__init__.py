"""Shown metadata: are the leader and the in-sync set that brokers show with an epoch the true ones?

`stale-metadata` asks how old the leader epochs are that brokers show; here is what they show with
them. An answer is held against everything that was committed in its leader epoch.

At any time, for nothing lawful brings it about:

- ``metadata-wrong-leader``: a leader that is not the one committed in that leader epoch (an epoch
  has one). No leader (-1) comes lawfully with LEADER_NOT_AVAILABLE or LISTENER_NOT_FOUND, when the
  broker thinks the leader dead; without an error only where none was committed;
- ``metadata-isr-never-committed``: an in-sync set that was never committed in that leader epoch,
  or not until `EARLY_NS` later. Brokers tell it whole, dead members as well (Metadata 1 and up), in
  any order. One that was committed and is old is lawful: shrinking and growing reach brokers by the
  controller's next word;
- ``metadata-error-otherwise``: an error that does not fit the leader beside it. Who names no leader
  says so with an error, whether it thinks the leader dead or none was committed, or clients take -1
  for a broker; who names one has nothing to excuse (MetadataCache.getPartitionMetadata:
  REPLICA_NOT_AVAILABLE is for Metadata 0, which tells no leader epochs);
- ``metadata-replicas-never-assigned``: replicas that the partition was never given
  (`shown_replicas`);
- ``metadata-leader-denied``: no leader, by who names it as live (`denied_leaders`);
- ``metadata-epoch-untold``: a partition without a leader epoch (`untold_epochs`);
- ``metadata-not-taken-in``: an older state than one that the broker had acknowledged to have been
  told (`taken_in_metadata`).

And where a set lasts while the load goes on:

- ``metadata-isr-outlived``: another in-sync set than the last one, long after its commit
  (`outlived_sets`).

Once all is calm (`checkers.facts.calm`: what is judged was asked for later than a broker may take
after healing, after its own return, and after the commit):

- ``metadata-no-leader``: no leader, although one is committed and alive;
- ``metadata-isr-behind``: the last leader epoch with an in-sync set that is not the last. A leader
  that writes in-sync sets itself (`checkers.facts.in_sync_writes`) tells of all that it leads when
  it has done with them (ReplicaManager.maybePropagateIsrChanges): its time runs from the last.

Unknown: a trial in which more than a quarter of what brokers showed in the end (each broker that
answers, of each partition of the topics that were asked for) came before they owed anything, was
not shown, or lacked a leader epoch, a leader or an in-sync set; or in which calm never came. What a
forger told is the forger's (`checkers.facts.forgeries`), and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.answers import deletion_steps, named, shown_rows
from checkers.facts.calm import Debts, Node
from checkers.facts.committed import Committed, committed
from checkers.facts.decisions import from_log, lives
from checkers.facts.in_sync_writes import leaders_write
from checkers.facts.leadership import TP, Key, black_boxes, key_of
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.tally import RULE, Sort, add, by_rule, tally
from checkers.judging.witness import Finding, Pick
from checkers.promises.shown_metadata.denied_leaders import denied_leaders
from checkers.promises.shown_metadata.outlived_sets import OUTLIVED, outlived
from checkers.promises.shown_metadata.shown_replicas import behind, never_assigned
from checkers.promises.shown_metadata.taken_in_metadata import HELD, not_taken_in
from checkers.promises.shown_metadata.untold_epochs import untold_epochs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

UNJUDGED_SHARE: Final = 0.25
"""Of the (broker, partition) pairs of a trial: where more were asked for the last time before they
owed anything, too little was judged."""
EARLY_NS: Final = 2_000_000_000
"""So much two clocks may be apart."""
NO_LEADER: Final = -1
_NO_LEADER_ERRORS: Final = (5, 72)
"""LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND."""
_MS: Final = 1_000_000
_ANSWERS: Final = "answers about a partition"
_PAIRS: Final = "last answers"
Row = Mapping[str, Any]
Trial = tuple[str, int]


def check(history: History) -> Outcome:
    outcome = Outcome()
    if not history.has("metadata"):
        return outcome
    for arm in black_boxes(history):
        outcome.unjudged(arm, "in-sync sets, and which of two leaders was committed: see epochs")
    rows = _against_commits(history, shown_rows(history))
    _totals(history, outcome, rows)
    true = rows.where("not forged")
    _at_any_time(outcome, true)
    _in_the_end(history, outcome, true)
    shown = (
        *(*never_assigned(history), *behind(history), *untold_epochs(history, outcome)),
        *outlived(history, outcome),
        *denied_leaders(history),
    )
    for finding, n in (*shown, *not_taken_in(history, outcome)):
        outcome.add(finding, n)
    return outcome


def _totals(history: History, outcome: Outcome, rows: DataFrame) -> None:
    unseen = F.max((~F.col("forged") & F.col("unseen")).cast("int"))
    sums = rows.groupBy("arm", "trial", "forged").agg(
        F.sum("n").alias("n"), unseen.alias("unseen"), F.max("last_t").alias("end_t")
    )
    for row in sums.toArrow().to_pylist():
        trial = (row["arm"], row["trial"])
        outcome.saw(*trial, _ANSWERS, row["n"])
        figures = outcome.arm(row["arm"])
        figures["answers"] = figures.get("answers", 0) + row["n"]
        if row["forged"]:
            outcome.excuse(*trial, "metadata-wrong-leader", "forged", of=_ANSWERS, n=row["n"])
        if row["unseen"]:
            what = "answers with leader epochs of which nobody saw the commit (see stale-metadata)"
            outcome.unjudged(row["arm"], what)


def _against_commits(history: History, rows: DataFrame) -> DataFrame:
    """Add ``leaders`` and ``isrs``: what was committed in that leader epoch; ``since_t``: when that
    in-sync set was at the earliest (ns; null: nobody knows); and ``unseen``."""
    known = [
        {
            **dict(zip(TP, key, strict=True)),
            "leader_epoch": epoch,
            "leaders": sorted(of.leaders.get(epoch, ())),
            "isrs": "".join(map(_named, sorted(of.isrs.get(epoch, ())))),
        }
        for key, of in committed(history).items()
        for epoch in of.leaders.keys() | of.isrs.keys()
    ]
    table = history.table(
        known,
        "arm string, trial int, topic string, partition int, leader_epoch int, "
        "leaders array<bigint>, isrs string",
    )
    found = rows.join(F.broadcast(table), [*TP, "leader_epoch"], "left")
    dated = [
        {
            **dict(zip(TP, key, strict=True)),
            **{"leader_epoch": epoch, "_own": _named(isr), "since_t": min(times.values())},
        }
        for key, of in committed(history).items()
        for epoch, sets in of.isrs.items()
        for isr, times in sets.items()
        if all(times.values())
    ]
    since = history.table(
        dated,
        "arm string, trial int, topic string, partition int, leader_epoch int, _own string, "
        "since_t bigint",
    )
    text = F.concat(F.lit("["), F.concat_ws(",", F.col("isr").cast("array<string>")), F.lit("]"))
    found = found.withColumn("_own", text)
    found = found.join(F.broadcast(since), [*TP, "leader_epoch", "_own"], "left")
    size = F.coalesce(F.size("leaders"), F.lit(0))
    return found.withColumn("unseen", (size <= 0) | F.col("leader").isNull())


def _named(isr: Iterable[int]) -> str:
    return f"[{','.join(str(node) for node in isr)}]"


# -- at any time ----------------------------------------------------------------------------------


def _at_any_time(outcome: Outcome, rows: DataFrame) -> None:
    shown = F.coalesce(F.array_contains("leaders", F.col("leader").cast("bigint")), F.lit(False))
    none = (F.col("leader") == NO_LEADER) & (F.coalesce("error", F.lit(0)) != 0)
    wrong = ~F.col("unseen") & ~shown & ~none
    never = F.col("isr").isNotNull() & (F.coalesce("isrs", F.lit("")) != "")
    never = never & ~F.coalesce(F.col("isrs").contains(F.col("_own")), F.lit(False))
    early = F.coalesce(F.col("first_t") < F.col("since_t") - EARLY_NS, F.lit(False))
    names_none, says_so = F.col("leader") == NO_LEADER, F.col("error").isin(*_NO_LEADER_ERRORS)
    rules = {
        "metadata-wrong-leader": wrong,
        "metadata-isr-never-committed": never | early,
        "metadata-error-otherwise": F.coalesce(
            F.when(names_none, ~says_so).otherwise(F.coalesce("error", F.lit(0)) != 0),
            F.lit(False),
        ),
    }
    odd = by_rule(rows, rules)
    add(outcome, tally(odd, None, _sort), _at_any_time_finding)


def _sort(row: Row) -> Sort:
    order = (*key_of(row), row["node"], row["first_t"], row["leader_epoch"])
    return Sort((), order, row[RULE])


def _at_any_time_finding(rule: str, row: Row) -> Finding:
    epoch = row["leader_epoch"]
    if rule == "metadata-wrong-leader":
        says = f"leader {row['leader']} in leader epoch {epoch}, in which {_or(row['leaders'])} "
        return _finding(rule, says + "was committed", row)
    if rule == "metadata-error-otherwise":
        says = f"leader {row['leader']} in leader epoch {epoch}, and error {row['error']} beside it"
        return _finding(rule, says, row)
    if row["since_t"] is not None:
        late = (row["since_t"] - row["first_t"]) / 1e9
        says = f"in-sync set {row['isr']} in leader epoch {epoch} {late:.1f} s before that was "
        return _finding(rule, says + "committed", row)
    isrs = row["isrs"].split("]")[:-1][:5]
    were = ", ".join(f"{one.replace(',', ', ')}]" for one in isrs)
    says = f"in-sync set {row['isr']} in leader epoch {epoch}; committed were only {were}"
    return _finding(rule, says, row)


# -- in the end -----------------------------------------------------------------------------------


def _in_the_end(history: History, outcome: Outcome, rows: DataFrame) -> None:
    """Each broker's last answers about each partition that is still there."""
    whole = F.col("leader").isNotNull() & F.col("isr").isNotNull()
    seen = rows.groupBy(*TP, "node").agg(
        F.max("last_t").alias("end_t"),
        F.max("last_invoke_t").alias("last_invoke_t"),
        F.max(F.when(whole, F.col("last_invoke_t"))).alias("whole_invoke_t"),
    )
    places = sorted(seen.toArrow().to_pylist(), key=lambda row: (*key_of(row), row["node"]))
    ends: dict[Trial, int] = {}
    for row in places:
        trial = (row["arm"], row["trial"])
        ends[trial] = max(ends.get(trial, 0), row["end_t"])
    known, debts = committed(history), Debts(history, ends)
    changed = _last_changes(history, known, ends)
    early: Counter[Trial] = Counter()
    judged = []
    unshown = _to_be_shown(history, known) - {(key_of(row), row["node"]) for row in places}
    for key, _ in sorted(unshown):
        state = known[key].as_of(ends.get(key[:2], 0))
        if state is not None and key[:3] not in deletion_steps(history):
            outcome.saw(*key[:2], _PAIRS)
            early[key[:2]] += 1
    for row in places:
        key = key_of(row)
        state = known.get(key, Committed()).as_of(ends[key[:2]])
        if state is None or key[:3] in deletion_steps(history):
            continue
        outcome.saw(*key[:2], _PAIRS)
        owed_t = debts.owed_from((*key[:2], row["node"]), state.t)
        late = owed_t is not None and row["last_invoke_t"] > owed_t
        if _has_successor(history, key, state.row, ends[key[:2]]):
            early[key[:2]] += 1
            continue
        early[key[:2]] += not (late and (row["whole_invoke_t"] or 0) > (owed_t or 0))
        if late:
            told_t = changed.get((*key[:2], state.row["leader"]), 0)
            isr_owed_t = debts.owed_from((*key[:2], row["node"]), state.t, told_t)
            last = _last_state(debts, row, state.row, owed_t)
            judged.append({**last, "isr_owed_t": isr_owed_t})
    if judged:
        _against_the_last(history, outcome, debts, rows, judged)
    for (arm, number), n in sorted(early.items()):
        pairs = outcome.evidence[arm, number, _PAIRS]
        figures = outcome.arm(arm)
        figures["not_judged"] = figures.get("not_judged", 0) + n
        if n > UNJUDGED_SHARE * pairs:
            why = f"{n} of {pairs} {_PAIRS} did not come, told too little, or came before anything"
            outcome.unknown(arm, number, f"{why} was owed, more than {UNJUDGED_SHARE:.0%}")


def _last_changes(
    history: History, known: Mapping[Key, Committed], ends: Mapping[Trial, int]
) -> dict[tuple[str, int, int], int]:
    """By leader that writes in-sync sets itself: when it last wrote any (ns)."""
    found: dict[tuple[str, int, int], int] = {}
    for key, of in known.items():
        if not leaders_write(history, key[0]):
            continue
        for before, now in pairwise(of.states):
            same = before.row["leader_epoch"] == now.row["leader_epoch"]
            if same and now.t <= ends.get(key[:2], 0):
                leader = (*key[:2], now.row["leader"])
                found[leader] = max(found.get(leader, 0), now.t)
    return found


def _has_successor(history: History, key: Key, row: Row, end_t: int) -> bool:
    """Whether ZooKeeper's own log has a later state by then that its watch did not tell of
    (`evidence`): then brokers may show that one."""
    offset_ns = history.run.clock_offset_ns
    if offset_ns is None or key[:2] not in from_log(history):
        return False
    of = lives(history).get(key)
    return any(
        state.partition_epoch > (row["partition_epoch"] or 0)
        and state.commit_ms is not None
        and state.commit_ms * _MS + offset_ns <= end_t
        for state in (of[-1] if of else ())
    )


def _to_be_shown(history: History, known: Mapping[Key, Committed]) -> set[tuple[Key, int]]:
    """Each partition of a topic that brokers told of, at each broker that told of anything."""
    brokers: dict[Trial, set[int]] = {}
    topics = set()
    for one in named(history):
        brokers.setdefault(one.topic[:2], set()).add(one.node)
        topics.add(one.topic)
    return {(key, node) for key in known if key[:3] in topics for node in brokers[key[:2]]}


def _last_state(debts: Debts, row: Row, state: Row, owed_t: int | None) -> dict[str, Any]:
    leads = state["leader"]
    led = leads is not None and leads >= 0 and debts.standing((*key_of(row)[:2], leads)).up
    last = None if state["isr"] is None else ",".join(str(n) for n in sorted(state["isr"]))
    return {
        **{name: row[name] for name in (*TP, "node")},
        "leader_epoch": state["leader_epoch"],  # an older one is `stale-metadata`'s
        "owed_t": owed_t,
        "leads": leads if led else None,
        "last_isr": last,
    }


def _against_the_last(
    history: History,
    outcome: Outcome,
    debts: Debts,
    rows: DataFrame,
    judged: list[dict[str, Any]],
) -> None:
    table = history.table(
        judged,
        "arm string, trial int, topic string, partition int, node int, leader_epoch int, "
        "owed_t bigint, leads int, last_isr string, isr_owed_t bigint",
    )
    late = rows.join(F.broadcast(table), [*TP, "node", "leader_epoch"])
    late = late.where("last_invoke_t > owed_t")
    own = F.concat_ws(",", F.col("isr").cast("array<string>"))
    none = (F.col("leader") == NO_LEADER) & F.col("leads").isNotNull()
    behind = F.col("isr").isNotNull() & (own != F.col("last_isr"))
    behind = behind & (F.col("last_invoke_t") > F.col("isr_owed_t"))
    odd = by_rule(late, {"metadata-no-leader": none, "metadata-isr-behind": behind})
    found = tally(odd, None, partial(_late_sort, debts.deafness))
    add(outcome, found, _late_finding)
    for (arm, trial, rule, excused), n in found.in_order():
        if excused:
            outcome.excuse(arm, trial, rule, "forged", of=_PAIRS, n=n)


def _late_sort(deaf: Callable[[Node, int], bool], row: Row) -> Sort:
    key, rule = key_of(row), row[RULE]
    excused = deaf((*key[:2], row["node"]), row["last_invoke_t"])
    order = (*key, row["node"], row["first_t"])
    return Sort((*key[:2], rule, excused), order, None if excused else rule)


def _late_finding(rule: str, row: Row) -> Finding:
    if rule == "metadata-no-leader":
        says = (
            f"no leader in leader epoch {row['leader_epoch']} long after all was healed; node "
            f"{row['leads']} leads and is alive"
        )
    else:
        last = f"[{row['last_isr'].replace(',', ', ')}]"
        says = f"in-sync set {row['isr']} long after all was healed; {last} was committed last"
    return _finding(rule, says, row)


def _or(values: Iterable[int]) -> str:
    return " or ".join(str(value) for value in sorted(values))


def _finding(rule: str, says: str, row: Row) -> Finding:
    arm, trial, topic, partition = key_of(row)
    at = {"topic": topic, "partition": partition}
    answer = {**at, "node": row["node"], "leader": row["leader"]}
    answer["leader_epoch"] = row["leader_epoch"]
    return Finding(
        rule,
        f"node {row['node']} showed {topic}-{partition} with {says}",
        arm,
        trial,
        (
            Pick("leadership", {**at, "leader_epoch": row["leader_epoch"]}, rows=2, last=True),
            Pick(
                "metadata_update",
                {**at, "node": row["node"]},
                to_t=row["last_t"],
                rows=1,
                last=True,
            ),
            Pick("metadata", answer, from_t=row["first_t"], to_t=row["first_t"], rows=1),
            Pick("metadata", answer, from_t=row["last_t"], to_t=row["last_t"], rows=1),
        ),
    )


PROMISE: Final = Promise(
    name="shown-metadata",
    says="The leader and in-sync set that a broker shows are the committed ones of their epoch.",
    source="Kafka's MetadataCache, UpdateMetadata and AlterPartition (KIP-497)",
    rules={
        "metadata-wrong-leader": "The leader shown is the one committed in that leader epoch.",
        "metadata-isr-never-committed": "An in-sync set shown was committed by then in that epoch.",
        "metadata-error-otherwise": "Who names no leader says why, and nobody else does.",
        "metadata-epoch-untold": "Who names a leader, or none, tells the leader epoch.",
        "metadata-leader-denied": "Who names a broker as live does not hide that it leads.",
        "metadata-no-leader": "A partition with a live leader is not shown without one for long.",
        "metadata-replicas-never-assigned": "The replicas shown were given to the partition.",
        "metadata-replicas-behind": "The last replicas reach every live broker.",
        "metadata-isr-behind": "The last in-sync set reaches every live broker.",
        "metadata-isr-outlived": "An in-sync set that lasts is shown by all that nothing disturbs.",
        "metadata-not-taken-in": "What a broker acknowledged to have been told it shows.",
    },
    evidence={
        _ANSWERS: "metadata answers of one broker about one partition",
        _PAIRS: "by broker and partition, what it showed in the end",
        OUTLIVED: "of brokers that no fault named",
        HELD: "about a partition, of controllers that say which state they tell",
    },
    unknown_when=(
        "more than a quarter of the brokers' last answers did not come, came before they owed the "
        "truth, or lacked leader epoch, leader or in-sync set",
    ),
    blind=(
        "racks; without ZooKeeper, which replicas are shown of what was moved, or deleted",
        "what was shown in the end of topics that were deleted, their namesakes included",
        "while the load lasts: the cluster's id, whether a topic is internal; what a client may do",
    ),
    timed=frozenset(
        {
            *("metadata-no-leader", "metadata-isr-behind", "metadata-replicas-behind"),
            "metadata-isr-outlived",
        }
    ),
    check=check,
)
