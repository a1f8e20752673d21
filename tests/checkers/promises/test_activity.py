"""Faults drawn at random get in each other's way: lawful while most of them took hold."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.facts.courses import PHASES
from checkers.history.run_info import RunInfo
from checkers.judging.outcome import Outcome
from checkers.promises import activity
from tests.checkers.together import Asks, judging


def drawn(story: Any, held: int, failed: int, vain: int = 0) -> None:
    story.run["expectations"] = {"faults_may_collide": True, "faults": ["kill", "flood", "toxic"]}
    story.produce(10, 1, 0)
    for number in range(held + failed + vain):
        fault = {"fault": "kill", "id": f"kill-{number}"}
        if number < held:
            story.add("fault", 20, phase="injected", took_hold=True, **fault)
        elif number < held + failed:
            story.add("fault", 20, phase="failed", detail="no such leader", **fault)
        else:
            story.add("fault", 20, phase="injected", took_hold=False, **fault)


@judging(activity.check)
def test_what_collided_is_counted(story: Any) -> Asks:
    drawn(story, held=2, failed=1, vain=1)
    found = yield story
    assert not found.unknowns
    assert found.arms[story.arm]["collided_faults"] == 2


@judging(activity.check)
def test_when_most_collided_nothing_was_tried(story: Any) -> Asks:
    drawn(story, held=1, failed=2)
    found = yield story
    assert len(found.unknowns) == 2
    assert "not put in place: no such leader" in found.unknowns[0]


@judging(activity.check)
def test_nobody_may_collide_unless_the_run_says_so(story: Any) -> Asks:
    drawn(story, held=2, failed=1)
    story.run["expectations"] = {}
    assert len((yield story).unknowns) == 1


@pytest.mark.parametrize(
    ("answers", "tried"), [(("info", "info"), 0), (("info", "ok"), 1), ((), 1)]
)
@judging(activity.check)
def test_a_forger_that_nobody_answered_tried_nothing(
    story: Any, answers: tuple[str, ...], tried: int
) -> Asks:
    story.produce(10, 1, 0)
    for phase in ("injected", "healed"):
        story.add("fault", 20, phase=phase, took_hold=True, fault="forged-requests", id="forged-0")
    for answer in answers:
        story.add("forged", 25, process="forger-forged-0", node=1, type=answer, lie="x")
    says = [one for one in (yield story).unknowns if "forged" in one]
    assert len(says) == 1 - tried
    assert all("no broker answered" in one for one in says)


# ---- each client, entry, trial and phase for itself ----------------------------------------------

PRODUCER = {"process": "p", "role": "producer", "acks": -1, "topics": {"a": [0], "b": [0]}}
CONSUMER = {"process": "c", "role": "consumer", "topics": {"a": [0]}}
READER = {"process": "r", "role": "metadata-reader", "topics": {"a": []}, "nodes": [1, 2]}
PROBER = {"process": "q", "role": "prober", "nodes": [2]}


def produced(story: Any, topic: str, n: int = 10, acks: int = -1, **more: Any) -> None:
    for i in range(n):
        story.produce(10 + i, i, i, acks=acks, topic=topic, process="p", **more)


def sound(story: Any, *workloads: dict[str, Any], rounds: int = 1) -> dict[str, Any]:
    """A trial of which everything is known: returns its record."""
    for name in PHASES:
        for event in ("begin", "end"):
            story.add("phase", 5, name=name, event=event)
    entries = [{"id": "kill-0", "fault": "kill"}, {"id": "kill-1", "fault": "kill"}]
    for entry in entries:
        for phase in ("inject", "injected", "healed"):
            story.add("fault", 20, phase=phase, took_hold=True, **entry)
    record = {"arm": story.arm, "trial": 0, "planned": entries, "workloads": [*workloads]}
    story.run["trials"] = [record]
    story.run["expectations"] = {"rounds": rounds, "faults": ["kill"]}
    produced(story, "a")
    produced(story, "b")
    return record


def answered(story: Any, kind: str, process: str, node: int, n: int = 3, **more: Any) -> None:
    for i in range(n):
        story.add(kind, 30 + i, process=process, node=node, **more)


def unknowns(found: Outcome) -> str:
    return " | ".join(found.unknowns)


@judging(activity.check)
def test_a_trial_in_which_everything_happened(story: Any) -> Asks:
    sound(story, PRODUCER, CONSUMER, READER, PROBER)
    for i in range(10):
        story.add("fetch", 40, process="c", poll=i, topic="a", offset=i)
    for node in (1, 2):
        answered(story, "metadata", "r", node, topic="a")
    answered(story, "probe", "q", 2, planned_t=1)
    assert unknowns((yield story)) == ""


@judging(activity.check)
def test_each_topic_and_level_of_acks_for_itself(story: Any) -> Asks:
    other = {"process": "o", "role": "direct-producer", "acks": 1, "topics": {"a": [0]}}
    sound(story, {**PRODUCER, "topics": {"a": [0], "b": [0], "c": [0]}}, other)
    produced(story, "c", n=30, type="info", error=6)
    produced(story, "c", n=9)
    found = unknowns((yield story))
    assert "p (producer): it had accepted 9 records of c (acks=all), fewer than 10" in found
    assert "o (direct-producer): it had accepted 0 records of a (acks=1)" in found
    assert " of b " not in found


@pytest.mark.parametrize(("n", "lacks"), [(10, False), (9, True)])
@judging(activity.check)
def test_with_acks_0_nobody_answers(story: Any, n: int, lacks: bool) -> Asks:
    silent = {"process": "z", "role": "producer", "acks": 0, "topics": {"a": [0]}}
    sound(story, PRODUCER, silent)
    for i in range(n):
        story.produce(50, i, -1, acks=0, topic="a", process="z", type="info")
    assert ("z (producer): it sent 9" in unknowns((yield story))) == lacks


@judging(activity.check)
def test_a_consumer_that_was_given_nothing(story: Any) -> Asks:
    sound(story, PRODUCER, CONSUMER)
    for i in range(500):
        story.add("fetch", 40, process="c", poll=i, topic=None, partition=None)
    assert "c (consumer): it was given 0 records of a" in unknowns((yield story))


@judging(activity.check)
def test_a_broker_that_never_answered(story: Any) -> Asks:
    sound(story, PRODUCER, READER, PROBER)
    answered(story, "metadata", "r", 1, n=100)
    answered(story, "metadata", "r", 2, n=50, type="info")
    answered(story, "probe", "q", 1, n=50, planned_t=1)
    found = unknowns((yield story))
    assert "r (metadata-reader): node 2 answered it 0 times" in found
    assert "q (prober): node 2 answered it 0 times" in found
    assert "node 1" not in found


@judging(activity.check)
def test_a_plan_half_played(story: Any) -> Asks:
    record = sound(story, PRODUCER)
    record["planned"] = [*record["planned"], {"id": "late", "fault": "kill"}]
    assert unknowns((yield story)) == f"{story.arm}, trial 0: fault late (kill) was never played"
    story.run["expectations"]["faults_may_collide"] = True
    assert "fault late (kill) was never played" in unknowns((yield story))


@judging(activity.check)
def test_what_came_in_another_trial_did_not_come_in_this_one(story: Any) -> Asks:
    """Of an old run, too, which says only which faults there were to be."""
    sound(story)
    story.trial = 1
    produced(story, "a")
    story.run["trials"] = [{"arm": story.arm, "trial": t} for t in (0, 1)]
    story.run["expectations"]["rounds"] = 2
    assert unknowns((yield story)) == f"{story.arm}, trial 1: fault kill never came"


@judging(activity.check)
def test_what_succeeds_in_one_trial_and_never_in_another(story: Any) -> Asks:
    sound(story)
    story.trial = 1
    story.read(10, 1, 0)
    story.run["trials"] = []
    story.run["expectations"] = {}
    found = unknowns((yield story))
    assert "trial 1: no produce succeeded, as it did in other trials" in found
    assert "trial 0: no metadata succeeded" in found


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("nothing asked for", "run.json asks for no promise to be judged"),
        ("no trial", "run.json knows how many trials there were to be, and of none"),
        ("a trial twice", "run.json has this trial more than once"),
        ("a trial more", "trial 3: there are rows of it, and run.json does not know it"),
        ("an arm more", "bp-dual: there are rows of it, and run.json does not know this arm"),
        ("a client more", "x: it wrote down operations, and run.json does not know it"),
        ("a fault more", "fault kill-2 (kill) was played, and not planned so"),
        ("another fault", "fault kill-1 (pause) was played, and not planned so"),
        ("all as it says", ""),
        ("an old run", ""),
        ("faults, and no plan", "fault kill-0 (kill) was played, and not planned so"),
        ("no word of a plan", "run.json does not say which faults were planned"),
        ("no word of clients", "run.json does not say which clients were launched"),
        ("no word of a plan, an old run", ""),
        ("a role that nobody knows", "p (proudcer): nobody knows what it was for; allowed: "),
        ("a client for nothing", "p (producer): run.json does not say which topics, or which"),
        ("a reader for nothing", "r (metadata-reader): run.json does not say which topics, or"),
        ("less of an arm, without a word", "run.json does not say why polls is not judged there"),
        ("less of the whole", "polls was to be judged there, and run.json does not ask for it"),
        ("less of an arm, and why", ""),
        (
            "all of an arm, and why not",
            "run.json says that polls is judged there, and why it is not",
        ),
        ("less of an arm, of before reasons were given", ""),
    ],
)
@judging(activity.check)
def test_what_run_json_claims(story: Any, how: str, says: str) -> Asks:
    record = sound(story, PRODUCER)
    match how:
        case "nothing asked for":
            story.run["expectations"]["checks"] = []
        case "all as it says":
            story.run["expectations"]["checks"] = ["epochs"]
        case "all of an arm, and why not":
            story.run["expectations"]["checks"] = ["epochs", "polls"]
            own = {"checks": ["epochs", "polls"], "not_judged": {"polls": "it lacks it"}}
            story.run["arms"][story.arm] |= own
        case _ if how.startswith("less of"):
            asked, own = (["epochs", "polls"], ["epochs"])[:: -1 if "whole" in how else 1]
            story.run["expectations"]["checks"] = asked
            facts = story.run["arms"][story.arm]
            facts |= {"checks": own, "not_judged": {"polls": "it lacks it"} if "why" in how else {}}
            if "before" in how:
                del facts["not_judged"]
        case "no trial":
            story.run["trials"] = []
        case "a trial twice":
            story.run["trials"].append(dict(record))
        case "a trial more" | "an arm more":
            story.trial, story.arm = (3, story.arm) if "trial" in how else (0, "bp-dual")
            produced(story, "a")
        case "a client more" | "an old run":
            story.produce(10, 77, 77, acks=-1, topic="a", process="x")
            if how == "an old run":
                del record["workloads"]
        case "faults, and no plan":
            record["planned"] = []
        case "no word of a plan" | "no word of a plan, an old run":
            story.run["version"] = 1 if "old" in how else 2
            del record["planned"]
        case "no word of clients":
            story.run["version"] = 2
            del record["workloads"]
        case "a role that nobody knows":
            record["workloads"] = [{**PRODUCER, "role": "proudcer"}]
        case "a client for nothing":
            record["workloads"] = [{**PRODUCER, "topics": {}}]
        case "a reader for nothing":
            record["workloads"].append({**READER, "nodes": []})
        case "a fault more" | "another fault":
            one = {"id": "kill-2", "fault": "kill"}
            if how == "another fault":
                story.rows["fault"] = [r for r in story.rows["fault"] if r["id"] != "kill-1"]
                one = {"id": "kill-1", "fault": "pause"}
            for phase in ("inject", "injected", "healed"):
                story.add("fault", 20, phase=phase, took_hold=True, **one)
    found = unknowns((yield story))
    assert says in found
    assert bool(found) == bool(says)


@pytest.mark.parametrize("rounds", [1, 3])
@judging(activity.check)
def test_every_round_that_was_asked_for(story: Any, rounds: int) -> Asks:
    sound(story, PRODUCER, rounds=rounds)
    found = unknowns((yield story))
    missing = [t for t in (1, 2) if f"trial {t}: the run was to have this trial" in found]
    assert missing == ([] if rounds == 1 else [1, 2])


@pytest.mark.parametrize("name", ["chaos", "settle", "final_read"])
@judging(activity.check)
def test_a_trial_that_ended_before_its_time(story: Any, name: str) -> Asks:
    sound(story, PRODUCER)
    phases = story.rows["phase"]
    phases[:] = [r for r in phases if r["name"] != name]
    assert unknowns((yield story)) == f"{story.arm}, trial 0: its phase {name} is missing"


@judging(activity.check)
def test_nobody_looks_on_where_replicas_were_waited_for_in_vain(story: Any) -> Asks:
    sound(story, PRODUCER)
    phases = story.rows["phase"]
    phases[:] = [r for r in phases if r["name"] != "settle"]
    story.add("phase", 6, name="quiesce", event="timeout")
    assert unknowns((yield story)) == ""


@judging(activity.check)
def test_empty_polls_are_no_success(story: Any) -> Asks:
    for i in range(50):
        story.add("fetch", 40 + i, process="c", poll=i, topic=None, partition=None)
    assert unknowns((yield story)) == f"{story.arm}, trial 0: no operation succeeded"


@pytest.mark.parametrize(("broken_ms", "is_shown"), [(None, False), (70, False), (50, True)])
@judging(activity.check)
def test_who_fails_a_client_after_its_disk_was_broken_is_named(
    story: Any, broken_ms: int | None, is_shown: bool
) -> Asks:
    sound(story, PRODUCER)
    story.add("commit", 60, type="info", error=56)
    if broken_ms is not None:
        story.add("fault", broken_ms, fault="wipe-disk", id="kill-0", phase="inject")
    outcome = yield story
    says = "1 of commit were answered with error 56"
    assert any(says in why for why in outcome.not_judged) == is_shown
    assert any(says in why for why in outcome.unknowns) == (not is_shown)


# ---- what was done, and when ---------------------------------------------------------------------


def played(story: Any, *workloads: dict[str, Any]) -> dict[str, Any]:
    """Sound, with faults for two seconds, in which the producer writes."""
    record = sound(story, PRODUCER, *workloads)
    record["planned"] = [{"id": "kill-0", "fault": "kill", "at_ms": 500, "duration_ms": 1000}]
    story.rows["fault"].clear()
    for phase, t in (
        ("inject", 10_500),
        ("injected", 10_600),
        ("heal", 11_500),
        ("healed", 11_900),
    ):
        story.add("fault", t, phase=phase, took_hold=True, id="kill-0", fault="kill")
    for row in story.rows["phase"]:
        if row["name"] == "chaos":
            row["t"] = (10_000 if row["event"] == "begin" else 12_000) * 1_000_000
    for i in range(10):
        for topic in ("a", "b"):
            story.produce(10_100 + 100 * i, i, i, acks=-1, topic=topic, process="p")
    return record


@judging(activity.check)
def test_a_trial_in_which_faults_were_played_under_load(story: Any) -> Asks:
    played(story)
    assert unknowns((yield story)) == ""


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("idle", "p (producer): it tried fewer than 3 times while faults were played"),
        ("under way all the while", ""),
        ("acks", "it was to write with acks=all, and wrote with 1, all"),
        ("no offsets", "30 of its 40 acknowledgements name no offset"),
        ("few offsets lacking", ""),
        ("early", "fault kill-0 (kill) was healed 0.9 s before its time"),
        ("a little early", ""),
        ("late", ""),
        ("never healed", "fault kill-0 (kill) was never healed"),
        ("after the phase", "was begun after the phase in which faults are played"),
        ("no plan", "fault kill never came"),
    ],
)
@judging(activity.check)
def test_what_was_not_done_as_planned(story: Any, how: str, says: str) -> Asks:
    record = played(story)
    produce, fault = story.rows["produce"], story.rows["fault"]
    late = [row for row in produce if row["t"] > 10_000_000_000]
    match how:
        case "idle":
            produce[:] = [row for row in produce if row not in late]
        case "under way all the while":
            for row in late:
                row |= {"invoke_t": 9_000_000_000, "t": 13_000_000_000}
        case "acks":
            produce[3]["acks"] = 1
        case "no offsets":
            for row in produce[:30]:
                row["offset"] = -1
        case "few offsets lacking":
            for row in produce[:10]:
                row["offset"] = -1
        case "early" | "a little early" | "late":
            by_ms = {"early": -900, "a little early": -400, "late": 3_000}[how]
            for row in fault[2:]:
                row["t"] += by_ms * 1_000_000
        case "never healed":
            fault.pop()
        case "after the phase":
            fault[0]["t"] = 14_000_000_000
        case "no plan":
            record["planned"] = []
            fault.clear()
    found = unknowns((yield story))
    assert says in found
    assert bool(found) == bool(says)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("none", "0 of its 20 records for a-0 were accepted while faults were played, and 20 of"),
        ("one", "1 of its 20 records for a-0"),
        ("a quarter", ""),
        ("other acks", ""),
        ("another partition", ""),
        ("others late", ""),
        ("few others", ""),
    ],
)
@judging(activity.check)
def test_who_is_not_served_while_another_is(story: Any, how: str, says: str) -> Asks:
    other = {**PRODUCER, "process": "q", "acks": 1 if how == "other acks" else -1}
    played(story, other)
    story.rows["produce"] = [row for row in story.rows["produce"] if row["topic"] != "a"]
    served = {"none": 0, "one": 1, "a quarter": 5}.get(how, 0)
    for i in range(20):
        at, late = {"topic": "a", "process": "p", "acks": -1}, how == "others late"
        refused = {"type": "info", "failure": "_MSG_TIMED_OUT"} if i >= served else {}
        story.produce(10_100 + 50 * i, i, i if i < served else None, **at, **refused)
        at = {"topic": "a", "process": "q", "acks": other["acks"]}
        if how == "another partition":
            at["partition"] = 1
        if how != "few others" or i < 9:
            t = 10_150 + 50 * i + 1_500 * late
            story.produce(t, 100 + i, 100 + i, **at, invoke_t=10_100 + 50 * i)
    for process in ("p", "q"):  # enough in all, before
        for topic in ("a", "b"):
            acks = -1 if process == "p" else other["acks"]
            for i in range(10):
                story.produce(9_000 + i, 200 + i, 200 + i, acks=acks, topic=topic, process=process)
    found = unknowns((yield story))
    assert says in found
    assert bool(found) == bool(says)


SAID: dict[str, Any] = {
    "expectations": {"rounds": 1},
    "arms": {"a": {"sut": "bp", "planes": "dual"}},
    "trials": [{
        "arm": "a", "trial": 0, "topics": {"t": {}}, "faults": ["pause"],
        "planned": [{"id": "p", "fault": "pause"}],
        "workloads": [
            {"process": "p", "role": "producer", "topics": {"t": [0]}, "acks": 1,
             "delivery": "once"},
            {"process": "r", "role": "metadata-reader", "topics": {"made-later": []}},
        ],
    }],
}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("run_id", "r", ""),
        ("arms.a.planes", None, "does not say what a is: there is no planes"),
        ("arms.a.sut", None, "does not say what a is: there is no sut"),
        ("arms", {}, "does not say what a is: there is no sut"),
        (
            "trials.0.planned",
            [{"id": "k", "fault": "kill"}],
            "names other faults than its plan has",
        ),
        ("trials.0.planned", [{"id": "k", "fault": "pause"}, {"id": "l", "fault": "pause"}], ""),
        ("trials.0.faults", [], "names other faults than its plan has"),
        ("trials.0.faults", None, ""),
        ("expectations.rounds", 0, "knows of 0 rounds, and has this trial"),
        ("expectations.rounds", None, ""),
        ("trials.0.topics", {}, "does not say what topic t of p is"),
        ("trials.0.topics", {"u": {}}, "does not say what topic t of p is"),
        ("topics", {"t": {}}, ""),
        ("trials.0.workloads.0.acks", None, "does not say with which acks p writes"),
        ("trials.0.workloads.0.delivery", None, ""),  # as often as it likes
    ],
)
def test_what_a_run_lacks_of_itself(place: str, value: Any, says: str) -> None:
    """No Spark: nothing but run.json is asked."""
    run = copy.deepcopy(SAID)
    at: Any = run
    *path, last = place.split(".")
    for name in path:
        at = at[int(name)] if name.isdigit() else at[name]
    at[last] = value
    history: Any = SimpleNamespace(run=RunInfo.from_dict(run))
    found = list(activity._incomplete(history, ("a", 0)))
    assert says in found if says else not found


def test_rounds_of_merged_runs_are_not_counted() -> None:
    run = {**copy.deepcopy(SAID), "merged": ["x", "y"]}
    run["expectations"]["rounds"] = 0
    history: Any = SimpleNamespace(run=RunInfo.from_dict(run))
    assert not list(activity._incomplete(history, ("a", 0)))


@pytest.mark.parametrize(("slowness", "says"), [(6, ""), (12, "was given 2.0 times as long")])
@judging(activity.check)
def test_how_much_longer_a_busy_machine_is_given_is_told(
    story: Any, slowness: int, says: str
) -> Asks:
    for name, t in (("heal", 8_000), ("quiesce", 30_000)):
        story.add("phase", t, name=name, event="end")
    story.strain(8_000, slowness)
    told = [why for why in (yield story).not_judged if "the machine was busy" in why]
    assert len(told) == bool(says)
    assert says in "".join(told)


@pytest.mark.parametrize(
    ("arm", "sut", "planes", "says"),
    [
        ("bp-x-dual", "bp-x", "dual", ""),
        ("bp-x-dual", "bp-x", "single", "says that bp-x-dual is bp-x with planes single"),
        ("bp-x-dual", "bp", "dual", "says that bp-x-dual is bp with planes dual"),
        ("mine", "bp", "dual", ""),
        ("this-one", "bp", "dual", ""),
    ],
)
def test_what_an_arm_is_called(arm: str, sut: str, planes: str, says: str) -> None:
    run = copy.deepcopy(SAID) | {"arms": {arm: {"sut": sut, "planes": planes}}}
    run["trials"][0]["arm"] = arm
    history: Any = SimpleNamespace(run=RunInfo.from_dict(run))
    assert list(activity._incomplete(history, (arm, 0))) == ([says] if says else [])
