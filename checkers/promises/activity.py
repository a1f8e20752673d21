"""Activity: did anything happen that the other checks could have judged?

A run in which nothing happened proves nothing. Unknown, never valid, when in any (arm, trial) that
the run was to have (each arm, as many rounds as were asked for):

- there is no row at all, or no operation succeeded;
- run.json asks for nothing to be judged, or for less than it names of an arm, has a trial twice, or
  does not know an arm, a trial, a client or a fault of which there are rows; or it does not say
  what was planned and launched, or what for, what an arm is, or what a client's topic is, or names
  other faults than it planned, or calls an arm what it is not;
- a client that was launched had less than a minimum of success, each for itself: a producer on each
  of its topics (with acks=0, where nobody answers: less than a minimum was sent), a consumer on
  each of its, a reader or prober with each broker that it asks; one that asks several things in
  turn (`checkers.facts.questions`) was told nothing of a sort, or left out a broker or a partition,
  or stopped asking a sort, or asked none of it for long (`checkers.facts.ceased`);
- a client that writes or asks did not try while faults were played, or wrote with other acks than
  it was launched with, or was answered next to nothing while another was served (`_beside`);
- a phase of the trial is missing: it ended before its time;
- an entry of the plan was never played, could not be put in place, was seen not to take hold, was
  never healed, or was healed before its time;
- a flood set in, and nobody tells what it did;
- a flood set in and did not last: it died, stalled or ran thin (`checkers.facts.floods`); where
  the run says that its faults may collide (drawn at random, a flood's broker may be killed), both
  are counted only, and it takes more than half of a trial's faults failing. Even then each entry of
  the plan must have had its turn;
- leadership changes were planned, and no partition changed its leader;
- something that the run stands on failed (``infra`` rows), or the trial was cut short;
- a broker failed a client by its own answer, though nobody had broken its disk (`failings`);
- a node ended by itself (``exited``: nobody had killed or stopped it): out of memory, a port that
  was taken, a bug of its own. What the others prove was not proved of the system as planned.

What was launched and planned is told by run.json; of an old run nobody knows, and only what its
rows show is held against it: an operation that succeeds in one trial and in another never does.

This check has no violations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.ceased import ceased
from checkers.facts.clients import Sum, chaos, sums
from checkers.facts.courses import FORGER, PHASES
from checkers.facts.details import details
from checkers.facts.failings import failed_clients
from checkers.facts.faults import FLOOD, faults, faults_of
from checkers.facts.floods import broken_off, floods
from checkers.facts.leadership import leadership
from checkers.facts.questions import left_out
from checkers.facts.strain import patience_of
from checkers.history.run_info import Planned, Workload
from checkers.judging.outcome import Outcome
from checkers.judging.promise import Promise

if TYPE_CHECKING:
    from checkers.history.frames import History

RECORDS: Final = 10
"""So many each producer must have had accepted, and each consumer been given, on each topic."""
ANSWERS: Final = 3
"""So many each broker must have given each client that asks it by itself."""
EARLY_NS: Final = 500_000_000
TELLING: Final = 2
"""From this version on run.json says of each trial what was planned, and who was launched."""
UNPLACED_SHARE: Final = 0.25
"""A retry that the broker knows is acknowledged without an offset: few are."""
LONG_NS: Final = 1_000_000_000
SERVED: Final = 10
"""So many of another's show that a client could have been served as well: a slow machine lets one
wait that offers more than is taken, and still takes some of it."""
_MS: Final = 1_000_000
Trial = tuple[str, int]


def check(history: History) -> Outcome:
    outcome = Outcome()
    trials = sorted(set(history.trials) | set(history.run.trials))
    outcome.unknowns += history.run.failures
    if not trials:
        outcome.unknowns.append("the history has no trial")
    for arm in history.run.arms:
        if arm not in {a for a, _ in trials}:
            outcome.unknowns.append(f"{arm}: the run was to have this arm; there is no trial of it")
        elif history.run.rounds is not None:
            played = {trial for a, trial in trials if a == arm}
            for trial in sorted(set(range(history.run.rounds)) - played):
                outcome.unknown(arm, trial, "the run was to have this trial; there is none")
    _claimed(history, outcome)
    found = _operations(history, outcome, trials)
    _clients(history, outcome, trials, found)
    for key, why in (*left_out(history), *ceased(history)):
        outcome.unknown(*key, why)
    for one in failed_clients(history):
        arm, trial = one.trial
        if one.broken:
            why = f"trial {trial}, {one.says}, after the harness had broken its disk"
            outcome.unjudged(arm, why)
        else:
            outcome.unknown(arm, trial, f"{one.says}, and nobody had broken its disk")
    for (arm, trial), times in sorted(patience_of(history).items()):
        says = f"trial {trial}: the machine was busy: who was late once all was healed"
        outcome.unjudged(arm, f"{says} was given {times:.1f} times as long")
    _phases(history, outcome, trials)
    _faults(history, outcome, trials)
    _floods(history, outcome)
    _leader_changes(history, outcome, trials)
    for row in history.rows("infra"):
        outcome.unknowns.append(
            f"{row['arm']}, trial {row['trial']}: {row['component']} failed: {row['reason']}"
        )
    for row in history.rows("node_event"):
        if row["event"] == "exited":
            outcome.unknowns.append(
                f"{row['arm']}, trial {row['trial']}: node {row['node']} ended by itself: "
                f"{_last_words(details(row))}"
            )
    outcome.unknowns = list(dict.fromkeys(outcome.unknowns))
    return outcome


_TELLING: Final = ("Error", "Exception", "ERROR", "FATAL", "refus", "Terminating")


def _last_words(facts: Mapping[str, Any]) -> str:
    """Its exit code and the last line of its output that sounds like a reason."""
    lines = [line.strip() for line in str(facts.get("output", "")).splitlines() if line.strip()]
    telling = [ln for ln in lines if any(t in ln for t in _TELLING) and not ln.startswith("at ")]
    last = (telling or lines or ["it printed nothing"])[-1]
    return f"exit code {facts.get('exit_code')}, {last[:300]}"


def _claimed(history: History, outcome: Outcome) -> None:
    """What run.json says of the run's size, against what there is. A run of which it knows no trial
    is an old one, or no run at all."""
    run = history.run
    if run.checks is not None and not run.checks:
        outcome.unknowns.append("run.json asks for no promise to be judged")
    if run.rounds is not None and not run.trials:
        outcome.unknowns.append("run.json knows how many trials there were to be, and of none")
    for arm, trial in sorted(key for key, n in Counter(run.trials).items() if n > 1):
        outcome.unknown(arm, trial, "run.json has this trial more than once")
    for arm, trial in sorted(set(history.trials) - set(run.trials)) if run.trials else ():
        outcome.unknown(arm, trial, "there are rows of it, and run.json does not know it")
    for key in sorted(set(run.trials)) if (run.version or 0) >= TELLING else ():
        if key not in run.planned:
            outcome.unknown(*key, "run.json does not say which faults were planned")
        if key not in run.workloads:
            outcome.unknown(*key, "run.json does not say which clients were launched")
        for why in _incomplete(history, key):
            outcome.unknown(*key, f"run.json {why}")
    for arm in sorted({arm for arm, _ in history.trials} - set(run.arms)) if run.arms else ():
        outcome.unknowns.append(f"{arm}: there are rows of it, and run.json does not know this arm")
    outcome.unknowns += _not_asked(history)


_MODES: Final = ("single", "dual", "priority")
"""An arm is called by its system and the planes of that."""


def _incomplete(history: History, key: Trial) -> Iterator[str]:
    """What of a trial that is told of run.json lacks."""
    run, (arm, trial) = history.run, key
    for name in ("sut", "planes"):
        if run.arms.get(arm, {}).get(name) is None:
            yield f"does not say what {arm} is: there is no {name}"
    facts = run.arms.get(arm, {})
    name, _, mode = arm.rpartition("-")
    if mode in _MODES and (facts.get("sut", name), facts.get("planes", mode)) != (name, mode):
        yield f"says that {arm} is {facts.get('sut')} with planes {facts.get('planes')}"
    if run.rounds is not None and trial >= run.rounds and not run.merged:
        yield f"knows of {run.rounds} rounds, and has this trial"
    if key in run.played and {one.fault for one in run.planned.get(key, ())} != {*run.played[key]}:
        yield "names other faults than its plan has"
    made = {topic for *of, topic in run.topics if tuple(of) == key} | set(run.topics_everywhere)
    for workload in run.workloads.get(key, ()):
        writes = _KIND_OF.get(workload.role) == "produce"
        if writes and workload.acks is None:
            yield f"does not say with which acks {workload.process} writes"
        used = workload.topics if _KIND_OF.get(workload.role) in ("produce", "fetch") else ()
        for topic in sorted(set(used) - made):
            yield f"does not say what topic {topic} of {workload.process} is"


def _not_asked(history: History) -> Iterator[str]:
    """Where run.json is not of one mind about what is judged of which arm: what is asked for of the
    whole is judged of each, or there is a reason why not."""
    asked = set(history.run.checks or ())
    for arm, facts in sorted(history.run.arms.items()):
        own, silent = facts.get("checks"), facts.get("not_judged")
        if own is None or silent is None or not asked:
            continue  # of before it was said, or nobody said what to judge
        for name in sorted(asked - set(own) - set(silent)):
            yield f"{arm}: run.json does not say why {name} is not judged there"
        for name in sorted(set(own) & set(silent)):
            yield f"{arm}: run.json says that {name} is judged there, and why it is not"
        for name in sorted(set(own) - asked):
            yield f"{arm}: {name} was to be judged there, and run.json does not ask for it"


def _operations(history: History, outcome: Outcome, trials: list[Trial]) -> list[Sum]:
    found = sums(history)
    counts: Counter[Trial] = Counter()
    for each in found:
        figures = outcome.arm(each.key[0]).setdefault(each.kind, {})
        known = {"ok": each.ok, "fail": each.fail, "info": each.info}
        for name, n in {**known, "none": each.rows - sum(known.values())}.items():
            if n:
                figures[name] = figures.get(name, 0) + n
        counts[each.key] += each.delivered
    for key in trials:
        outcome.saw(*key, "successful operations", counts[key])
        if not counts[key]:
            outcome.unknown(*key, "no operation succeeded")
    return found


def _clients(history: History, outcome: Outcome, trials: list[Trial], found: list[Sum]) -> None:
    """Every client for itself; where nobody says who was launched: every kind of operation."""
    succeeding = {each.kind for each in found if each.delivered}
    by_trial: dict[Trial, list[Sum]] = {}
    for each in found:
        by_trial.setdefault(each.key, []).append(each)
    played = {key for key, (from_t, to_t) in chaos(history).items() if to_t - from_t >= LONG_NS}
    for key in trials:
        mine = by_trial.get(key, [])
        workloads = history.run.workloads.get(key)
        if workloads is None:
            seen = {each.kind for each in mine if each.delivered}
            for kind in sorted(succeeding - seen - {"probe"}):  # not every system can be probed
                outcome.unknown(*key, f"no {kind} succeeded, as it did in other trials")
            continue
        known = {workload.process for workload in workloads}
        for stranger in sorted({each.process for each in mine} - known):
            says = "it wrote down operations, and run.json does not know it"
            outcome.unknown(*key, f"{stranger}: {says}")
        for workload in workloads:
            own = [each for each in mine if each.process == workload.process]
            strange = _strange(workload, own, played=key in played)
            beside = _beside(own, mine) if key in played else ()
            for lack in (*_lacks(workload, own), *strange, *beside):
                outcome.unknown(*key, f"{workload.process} ({workload.role}): {lack}")


def _lacks(workload: Workload, own: list[Sum]) -> list[str]:
    """What one client had too little of."""
    if workload.role not in _ROLES:
        return [f"nobody knows what it was for; allowed: {', '.join(sorted(_ROLES))}"]
    kind = _KIND_OF.get(workload.role)
    if kind is None:
        return []
    if not (workload.topics if kind in ("produce", "fetch") else workload.nodes):
        return ["run.json does not say which topics, or which brokers, it was for"]
    unanswered = workload.acks == 0
    by: Counter[Any] = Counter()
    for each in own:
        if each.kind == kind:
            by[each.at[0] if each.at else each.node] += each.rows if unanswered else each.delivered
    if kind in ("produce", "fetch"):
        verb = "was given" if kind == "fetch" else "sent" if unanswered else "had accepted"
        level = "" if workload.acks is None else f" (acks={_LEVELS[workload.acks]})"
        return [
            f"it {verb} {by[topic]} records of {topic}{level}, fewer than {RECORDS}"
            for topic in workload.topics
            if by[topic] < RECORDS
        ]
    return [
        f"node {node} answered it {by[node]} times, fewer than {ANSWERS}"
        for node in workload.nodes
        if by[node] < ANSWERS
    ]


def _strange(workload: Workload, own: list[Sum], *, played: bool) -> list[str]:
    """Whether it did what it was launched for, and while it mattered; consumers just poll."""
    kind = _KIND_OF.get(workload.role)
    mine = [each for each in own if each.kind == kind]
    found = []
    if played and kind not in (None, "fetch") and sum(each.in_chaos for each in mine) < ANSWERS:
        found.append(f"it tried fewer than {ANSWERS} times while faults were played")
    asked = {a for each in mine for a in (each.acks_low, each.acks_high)} - {None}
    if workload.acks is not None and asked - {workload.acks}:
        levels = ", ".join(sorted(_LEVELS.get(a, str(a)) for a in asked if a is not None))
        found.append(f"it was to write with acks={_LEVELS[workload.acks]}, and wrote with {levels}")
    unplaced, ok = sum(each.unplaced for each in mine), sum(each.ok for each in mine)
    if workload.acks and unplaced > UNPLACED_SHARE * ok:
        found.append(f"{unplaced} of its {ok} acknowledgements name no offset")
    return found


def _beside(own: list[Sum], all_of: list[Sum]) -> Iterator[str]:
    """Where next to nothing of one was accepted while faults were played, and others who asked the
    same of that partition were served at once: nobody knows why."""
    for each in own:
        if each.kind != "produce" or not each.acks_low:
            continue
        for other in all_of:
            alike = (other.kind, other.at, other.acks_low) == (each.kind, each.at, each.acks_low)
            if not alike or other.soon_ok < SERVED:
                continue
            as_well = each.in_chaos * other.soon_ok / other.in_chaos
            if as_well >= SERVED and each.chaos_ok < ANSWERS:
                topic, partition = each.at or ("", -1)
                yield (
                    f"{each.chaos_ok} of its {each.in_chaos} records for {topic}-{partition} were "
                    f"accepted while faults were played, and {other.soon_ok} of {other.process}'s "
                    f"{other.in_chaos} within a second"
                )
                break


_KIND_OF: Final = {
    "producer": "produce",
    "direct-producer": "produce",
    "joint-producer": "produce",
    "consumer": "fetch",
    "group-consumer": "fetch",
    "metadata-reader": "metadata",
    "prober": "probe",
}
_ROLES: Final = _KIND_OF.keys() | {
    *("group-stranger", "group-keeper", "group-riser", "group-couple", "group-pair"),
    "group-absent",
    *("offset-reader", "record-deleter", "refused-asker"),
}
_LEVELS: Final = {-1: "all", 0: "0", 1: "1"}


def _phases(history: History, outcome: Outcome, trials: list[Trial]) -> None:
    """Of trials whose plan is known: that they came to their end."""
    steps = {(r["arm"], r["trial"], r["name"], r["event"]) for r in history.rows("phase")}
    for key in trials:
        if key not in history.run.planned:
            continue
        vain = (*key, "quiesce", "timeout") in steps  # then nobody looks on
        for name in PHASES:
            ended = (*key, name, "end") in steps
            if not ended and not (name == "settle" and vain):
                begun = (*key, name, "begin") in steps
                how = "did not end" if begun else "is missing"
                outcome.unknown(*key, f"its phase {name} {how}")


def _faults(history: History, outcome: Outcome, trials: list[Trial]) -> None:
    lacking: dict[Trial, list[str]] = {}
    unheard = _unheard(history)
    for fault in faults(history):
        (arm, trial), entry, name, rows = fault.trial, fault.id, fault.name, fault.rows
        where, phases = f"{arm}, trial {trial}", fault.phases
        observed = {row["took_hold"] for row in rows} - {None}
        figures = outcome.arm(arm).setdefault("faults", {})
        figures[name] = figures.get(name, 0) + 1
        if "injected" not in phases:
            why = next((r["detail"] for r in rows if r["phase"] == "failed"), None)
            says = f"{where}: fault {entry} ({name}) was not put in place: {why}"
            lacking.setdefault((arm, trial), []).append(says)
        elif observed == {False}:
            says = f"{where}: fault {entry} ({name}) did not take hold"
            lacking.setdefault((arm, trial), []).append(says)
        elif (arm, trial, entry) in unheard:
            says = f"{where}: fault {entry} ({name}): no broker answered what it forged"
            lacking.setdefault((arm, trial), []).append(says)
        elif "failed" in phases:
            outcome.unknowns.append(f"{where}: fault {entry} ({name}) failed on the way")
        elif "healed" not in phases and (arm, trial) in history.run.planned:
            outcome.unknowns.append(f"{where}: fault {entry} ({name}) was never healed")
    may_collide = history.run.faults_may_collide
    known: dict[Trial, Counter[str]] = {}
    for fault in faults(history):
        known.setdefault(fault.trial, Counter())[fault.name] += 1
    for (arm, trial), says_of in lacking.items():
        planned = known[arm, trial].total()
        if not may_collide or 2 * len(says_of) > planned:
            outcome.unknowns += says_of
        else:
            figures = outcome.arm(arm)
            figures["collided_faults"] = figures.get("collided_faults", 0) + len(says_of)
    phases_of = chaos(history)
    for key in trials:
        entries = {entry.id: entry.fault for entry in history.run.planned.get(key, ())}
        played = {fault.id: fault for fault in faults_of(history, key)}
        for one, fault in sorted(played.items()) if key in history.run.planned else ():
            if entries.get(one) != fault.name:
                says = f"fault {one} ({fault.name}) was played, and not planned so"
                outcome.unknown(*key, says)
        for planned_entry in history.run.planned.get(key, ()):
            which = f"{planned_entry.id} ({planned_entry.fault})"
            if planned_entry.id not in played:
                outcome.unknown(*key, f"fault {which} was never played")
                continue
            rows = played[planned_entry.id].rows
            if key in phases_of and (why := _untimely(planned_entry, rows, phases_of[key])):
                outcome.unknown(*key, f"fault {which} {why}")
        if may_collide or history.run.planned.get(key):
            continue
        for name in history.run.faults_of(*key):
            if name not in known.get(key, ()):
                outcome.unknown(*key, f"fault {name} never came")


def _unheard(history: History) -> set[tuple[str, int, str]]:
    """Forgers (by the id of their fault) that no broker answered: nothing was tried on them."""
    answered: dict[tuple[str, int, str], bool] = {}
    for row in history.rows("forged"):
        key = (row["arm"], row["trial"], str(row["process"]).removeprefix(FORGER))
        answered[key] = answered.get(key, False) or row["type"] != "info"
    return {key for key, any_of in answered.items() if not any_of}


def _untimely(entry: Planned, rows: Sequence[dict[str, Any]], span: tuple[int, int]) -> str | None:
    """Whether it was played at another time than planned. Offsets count from the phase's begin; to
    be late is the machine's business, to be early nobody's."""
    begun = [row["t"] for row in rows if row["phase"] == "inject"]
    healed = [row["t"] for row in rows if row["phase"] in ("heal", "healed")]
    planned_t = span[0] + (entry.at_ms + entry.duration_ms) * _MS
    if healed and min(healed) < planned_t - EARLY_NS:
        return f"was healed {(planned_t - min(healed)) / 1e9:.1f} s before its time"
    if begun and min(begun) > span[1] + LONG_NS:
        return "was begun after the phase in which faults are played"
    return None


def _floods(history: History, outcome: Outcome) -> None:
    """What every flood reached, and whether it did to its end."""
    for flood in floods(history):
        seconds = (flood.to_t - flood.from_t) / 1e9
        completed = flood.completed(end=flood.to_t)
        outcome.arm(flood.arm).setdefault("floods", []).append(
            {
                "id": flood.id,
                "trial": flood.trial,
                "node": flood.node,
                "seconds": round(seconds, 3),
                "completed": completed,
                "completed_per_s": round(completed / seconds, 1) if seconds > 0 else None,
                "fewest_connections": flood.fewest_connections(),
            }
        )
    seen = {(flood.arm, flood.trial, flood.id) for flood in floods(history)}
    for row in history.rows("fault") if not history.run.faults_may_collide else ():
        one = (row["arm"], row["trial"], row["id"] or row["fault"])
        in_place = row["phase"] == "injected" and row["took_hold"] is not False
        if in_place and (row["fault"] or "").startswith(FLOOD) and one not in seen:
            outcome.unknown(*one[:2], f"flood {one[2]}: nobody tells on whom it lay")
    wrote = {(row["arm"], row["trial"], row["id"]) for row in history.rows("flood")}
    for flood in floods(history):
        if (flood.arm, flood.trial, flood.id) not in wrote:
            outcome.unknown(flood.arm, flood.trial, f"flood {flood.id}: nobody tells what it did")
    for flood, why in broken_off(history) if not history.run.faults_may_collide else ():
        outcome.unknowns.append(f"{flood.arm}, trial {flood.trial}: {why}")


def _leader_changes(history: History, outcome: Outcome, trials: list[Trial]) -> None:
    """A change: an epoch committed with another leader than the one seen before it. One who goes
    without a successor is none: whatever is deleted ends so."""
    seen: dict[Trial, int] = {}
    for key, of in leadership(history).items():
        for before, epoch in pairwise(of.commits):
            successor = epoch.leader not in (None, -1, before.leader)
            if before.incarnation == epoch.incarnation and successor:
                seen[key[:2]] = seen.get(key[:2], 0) + 1
    for (arm, _), changes in seen.items():
        figures = outcome.arm(arm)
        figures["leader_changes"] = figures.get("leader_changes", 0) + changes
    if history.run.leader_changes_planned:
        for arm, trial in trials:
            if not seen.get((arm, trial)):
                outcome.unknowns.append(
                    f"{arm}, trial {trial}: leadership was to change, and never did"
                )


PROMISE: Final = Promise(
    name="activity",
    says="Something happened that could be judged: operations, faults, leader changes.",
    source="Jepsen: a run in which nothing happened proves nothing",
    rules={},
    evidence={"successful operations": "produces, deliveries, metadata reads and probes"},
    unknown_when=(
        "no operation succeeded, or a client had less than a minimum of success",
        "an arm, a trial or a phase that was to be is missing, or there is one that was not to be",
        "a client, or a fault, of which run.json knows nothing",
        "a client that writes or asks was idle while faults were played, or wrote with other acks; "
        "one that was answered next to nothing, and another on that partition all the while",
        "a client that asks several things in turn was told nothing of a sort, or left out a "
        "broker or a partition; answers to a reader say nothing of a topic that it asks for",
        "a client asked no more of one sort, or a broker no more, or nothing of a sort for long",
        "an entry of the plan was never played, not put in place, did not take hold, was never "
        "healed or healed early",
        "a flood did not last, or nobody answered a forger",
        "leaders were to change and did not",
        "something that the run stands on failed, or a node ended by itself",
        "a broker failed a client (UNKNOWN_SERVER_ERROR, KAFKA_STORAGE_ERROR), and no disk was "
        "broken",
    ),
    blind=(
        "how much a flood asked at a time, if it asked and was answered all the while",
        "promises that run.json names nowhere, though its scenario has them",
    ),
    check=check,
)
