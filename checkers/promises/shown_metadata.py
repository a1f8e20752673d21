"""Shown metadata: are the leader and the in-sync set that brokers show with an epoch the true ones?

`stale-metadata` asks how old the leader epochs are that brokers show; here is what they show with
them. An answer is held against everything that was committed in its leader epoch.

At any time, for nothing lawful brings it about:

- ``metadata-wrong-leader``: a leader that is not the one committed in that leader epoch (an epoch
  has one). No leader (-1) comes lawfully with LEADER_NOT_AVAILABLE or LISTENER_NOT_FOUND, when the
  broker thinks the leader dead; without an error only where none was committed;
- ``metadata-isr-never-committed``: an in-sync set that was never committed in that leader epoch.
  Brokers tell it whole, dead members as well (Metadata 1 and up), in any order. One that was
  committed and is old is lawful: shrinking and growing reach brokers by the controller's next word.

Once all is calm (`checkers.facts.calm`: what is judged was asked for later than a broker may take
after healing, after its own return, and after the commit):

- ``metadata-no-leader``: no leader, although one is committed and alive;
- ``metadata-isr-behind``: the last leader epoch with an in-sync set that is not the last.

Unknown: a trial in which most brokers' last answers came before they owed anything, or in which
calm never came. What a forger told is the forger's (`checkers.facts.forgeries`), and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.answers import Shown, deletion_steps, shown
from checkers.facts.calm import Debts
from checkers.facts.committed import Committed, committed
from checkers.facts.leadership import Key
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

UNJUDGED_SHARE: Final = 0.25
"""Of the (broker, partition) pairs of a trial: where more were asked for the last time before they
owed anything, too little was judged."""
NO_LEADER: Final = -1
_NO_ERROR: Final = (None, 0)
_ANSWERS: Final = "answers about a partition"
_PAIRS: Final = "last answers"
Row = Mapping[str, Any]


def check(history: History) -> Outcome:
    outcome = Outcome()
    true = []
    for one in shown(history):
        trial = one.key[:2]
        outcome.saw(*trial, _ANSWERS, one.n)
        figures = outcome.arm(one.key[0])
        figures["answers"] = figures.get("answers", 0) + one.n
        if one.forged:
            outcome.excuse(*trial, "metadata-wrong-leader", "forged", of=_ANSWERS, n=one.n)
        else:
            true.append(one)
    for finding in (*_at_any_time(history, outcome, true), *_in_the_end(history, outcome, true)):
        outcome.add(finding)
    return outcome


# -- at any time ----------------------------------------------------------------------------------


def _at_any_time(history: History, outcome: Outcome, answers: list[Shown]) -> Iterator[Finding]:
    known = committed(history)
    for one in answers:
        of = known.get(one.key, Committed())
        leaders = of.leaders.get(one.leader_epoch)
        if leaders is None or one.leader is None:
            what = "answers with leader epochs of which nobody saw the commit (see stale-metadata)"
            outcome.unjudged(one.key[0], what)
        elif one.leader not in leaders and (one.leader != NO_LEADER or one.error in _NO_ERROR):
            yield _finding(
                "metadata-wrong-leader",
                f"leader {one.leader} in leader epoch {one.leader_epoch}, in which {_or(leaders)} "
                "was committed",
                one,
            )
        isrs = of.isrs.get(one.leader_epoch)
        if isrs and one.isr is not None and one.isr not in isrs:
            yield _finding(
                "metadata-isr-never-committed",
                f"in-sync set {list(one.isr)} in leader epoch {one.leader_epoch}; committed were "
                f"only {', '.join(str(list(isr)) for isr in sorted(isrs)[:5])}",
                one,
            )


# -- in the end -----------------------------------------------------------------------------------


def _in_the_end(history: History, outcome: Outcome, answers: list[Shown]) -> Iterator[Finding]:
    """Each broker's last answers about each partition that is still there."""
    ends = _ends(answers)
    known, debts = committed(history), Debts(history, ends)
    places: dict[tuple[Key, int], list[Shown]] = {}
    for one in answers:
        places.setdefault((one.key, one.node), []).append(one)
    early: Counter[tuple[str, int]] = Counter()
    for (key, node), of in sorted(places.items()):
        state = known.get(key, Committed()).as_of(ends[key[:2]])
        if state is None or key[:3] in deletion_steps(history):
            continue
        outcome.saw(*key[:2], _PAIRS)
        owed_t = debts.owed_from((*key[:2], node), state.t)
        late = [] if owed_t is None else [one for one in of if one.last_invoke_t > owed_t]
        early[key[:2]] += not late
        for one in late:
            if one.leader_epoch == state.row["leader_epoch"]:  # an older one is `stale-metadata`'s
                yield from _against_the_last(outcome, debts, one, state.row)
    for (arm, trial), n in sorted(early.items()):
        pairs = outcome.evidence[arm, trial, _PAIRS]
        figures = outcome.arm(arm)
        figures["not_judged"] = figures.get("not_judged", 0) + n
        if n > UNJUDGED_SHARE * pairs:
            why = f"{n} of {pairs} {_PAIRS} came before anything was owed, more than"
            outcome.unknown(arm, trial, f"{why} {UNJUDGED_SHARE:.0%}")


def _ends(answers: Iterable[Shown]) -> dict[tuple[str, int], int]:
    ends: dict[tuple[str, int], int] = {}
    for one in answers:
        ends[one.key[:2]] = max(ends.get(one.key[:2], 0), one.last_t)
    return ends


def _against_the_last(outcome: Outcome, debts: Debts, one: Shown, state: Row) -> Iterator[Finding]:
    trial, leads = one.key[:2], state["leader"]
    broken: dict[str, str] = {}
    led = leads is not None and leads >= 0 and debts.standing((*trial, leads)).up
    if one.leader == NO_LEADER and led:
        broken["metadata-no-leader"] = (
            f"no leader in leader epoch {one.leader_epoch} long after all was healed; node {leads} "
            "leads and is alive"
        )
    last = None if state["isr"] is None else tuple(sorted(state["isr"]))
    if None not in (one.isr, last) and one.isr != last:
        broken["metadata-isr-behind"] = (
            f"in-sync set {list(one.isr or ())} long after all was healed; {list(last or ())} was "
            "committed last"
        )
    for rule, says in broken.items():
        if debts.deaf((*trial, one.node), one.last_invoke_t):
            outcome.excuse(*trial, rule, "forged", of=_PAIRS)
        else:
            yield _finding(rule, says, one)


def _or(values: Iterable[int]) -> str:
    return " or ".join(str(value) for value in sorted(values))


def _finding(rule: str, says: str, one: Shown) -> Finding:
    arm, trial, topic, partition = one.key
    at = {"topic": topic, "partition": partition}
    answer = {**at, "node": one.node, "leader_epoch": one.leader_epoch, "leader": one.leader}
    return Finding(
        rule,
        f"node {one.node} showed {topic}-{partition} with {says}",
        arm,
        trial,
        (
            Pick("leadership", {**at, "leader_epoch": one.leader_epoch}, rows=2, last=True),
            Pick("metadata_update", {**at, "node": one.node}, to_t=one.last_t, rows=1, last=True),
            Pick("metadata", answer, from_t=one.first_t, to_t=one.first_t, rows=1),
            Pick("metadata", answer, from_t=one.last_t, to_t=one.last_t, rows=1),
        ),
    )


PROMISE: Final = Promise(
    name="shown-metadata",
    says="The leader and in-sync set that a broker shows are the committed ones of their epoch.",
    source="Kafka's MetadataCache, UpdateMetadata and AlterPartition (KIP-497)",
    rules={
        "metadata-wrong-leader": "The leader shown is the one committed in that leader epoch.",
        "metadata-isr-never-committed": "An in-sync set shown was committed in that leader epoch.",
        "metadata-no-leader": "A partition with a live leader is not shown without one for long.",
        "metadata-isr-behind": "The last in-sync set reaches every live broker.",
    },
    evidence={
        _ANSWERS: "metadata answers of one broker about one partition",
        _PAIRS: "by broker and partition, what it showed in the end",
    },
    unknown_when=(
        "more than a quarter of the brokers' last answers came before they owed the truth",
    ),
    blind=(
        "endpoints, racks, offline replicas and the list of live brokers",
        "what was shown in the end of topics that were deleted, their namesakes included",
    ),
    check=check,
)
