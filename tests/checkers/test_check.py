"""Activity, verdicts, loading, judging a stored run, comparing arms."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers import check as check_module
from checkers.check import check_all, check_run, chosen, first_line, run_check
from checkers.history import HistoryError, arrow_schema
from checkers.history.frames import History
from checkers.history.run_info import RunInfo
from checkers.judging.outcome import Outcome
from checkers.judging.verdict import Results, Verdict, merge, worst_exit_code
from checkers.judging.witness import Finding
from checkers.promises import activity, promise, promises


def sound(story: Any) -> None:
    story.commit(0, 1, 0)
    story.commit(50, 2, 1)
    story.produce(20, 1, 0, acks=-1)
    for t in (60, 20_000):
        story.read(t, 1, 1, leader=2, isr=[1, 2, 3])
    story.add("fetch", 30, offset=0, value=1, poll=0)
    story.add("probe", 30, node=1, api="X", plane="data", planned_t=20)
    story.handled(100, 1)
    for node in (1, 2, 3):
        story.final_log({0: 1}, node, leader=node == 2)


def test_activity_of_a_sound_history(story: Any, spark: Any) -> None:
    sound(story)
    story.run["expectations"] = {"leader_changes_planned": True, "faults": ["flood"]}
    for phase in ("injected", "healed"):
        story.add("fault", 20, fault="flood", id="a", phase=phase, took_hold=phase == "healed")
    found = activity.check(story.history(spark))
    assert not found.unknowns
    assert found.arms[story.arm]["leader_changes"] == 1


@pytest.mark.parametrize(
    ("says", "line"),
    [
        ("", "no message"),
        ("one\ntwo", "one"),
        (
            '<RPC that terminated with:\n\tstatus = UNAVAILABLE\n\tdetails = "gone"\n\tmore>',
            '<RPC that terminated with: status = UNAVAILABLE details = "gone"',
        ),
    ],
)
def test_what_an_error_says_in_a_line(says: str, line: str) -> None:
    assert first_line(ValueError(says)) == line


@pytest.mark.parametrize(
    "lack",
    ["operations", "change", "successor", "hold", "injected", "infra", "fault", "arm", "failure"],
)
def test_a_run_in_which_nothing_happened_is_unknown(story: Any, spark: Any, lack: str) -> None:
    sound(story)
    story.run["expectations"] = {"leader_changes_planned": True}
    if lack == "operations":
        for kind in ("produce", "fetch", "metadata", "probe"):
            del story.rows[kind]
    if lack == "change":
        story.rows["leadership"].pop()
    if lack == "successor":
        story.rows["leadership"][-1]["leader"] = -1
    if lack in ("hold", "injected"):
        phase = "injected" if lack == "hold" else "failed"
        story.add("fault", 20, fault="flood", id="a", phase=phase, took_hold=False)
    if lack == "infra":
        story.add("infra", 20, component="zookeeper", reason="died")
    if lack == "fault":
        story.run["expectations"]["faults"] = ["flood"]
    if lack == "arm":
        story.run["arms"]["bp-dual"] = {"sut": "bp", "planes": "dual"}
    if lack == "failure":
        story.run["trials"] = [{"arm": story.arm, "trial": 0, "failure": "no ZooKeeper"}]
    found = activity.check(story.history(spark))
    assert len(found.unknowns) == 1
    assert found.verdict()[0] == Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("played", "unknowns"),
    [
        (["flood"], 0),  # "oust" is nothing that this system could have
        (["flood", "oust"], 1),  # it could, and it never came
        (None, 1),
        ([], 1),  # nothing was left to be played: nothing was tried
    ],
)
def test_what_a_system_cannot_have_is_not_missed(
    story: Any, spark: Any, played: list[str] | None, unknowns: int
) -> None:
    sound(story)
    story.run["expectations"] = {"faults": ["flood", "oust"]}
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "faults": played}]
    story.add("fault", 20, fault="flood", id="a", phase="injected", took_hold=True)
    found = activity.check(story.history(spark))
    assert len(found.unknowns) == unknowns
    assert all("fault oust never came" in why for why in found.unknowns)


@pytest.mark.parametrize(
    ("rule", "stood_still", "verdict"),
    [
        ("late", (0, 1), Verdict.UNKNOWN),
        ("late", (0,), Verdict.INVALID),  # trial 1 has what proves it
        ("late", (), Verdict.INVALID),
        ("lost", (0, 1), Verdict.INVALID),  # whatever the time was
    ],
)
def test_nobody_is_late_while_the_machine_stands_still(
    story: Any, spark: Any, rule: str, stood_still: tuple[int, ...], verdict: Verdict
) -> None:
    def check(_history: History) -> Outcome:
        outcome = Outcome()
        for trial in (0, 1):
            outcome.saw(story.arm, trial, "records")
            for n in range(4):
                outcome.add(Finding(rule, f"{n} of trial {trial}", story.arm, trial, ()), 10)
        return outcome

    for story.trial in stood_still:
        story.add("standstill", 40, process="pulse", lasting_ns=1_500_000_000)
        story.add("standstill", 60, process="pulse", lasting_ns=600_000_000)
    judged = dataclasses.replace(
        promise("records"), check=check, rules={"late": "", "lost": ""}, timed=frozenset({"late"})
    )
    result, _ = run_check(story.history(spark), judged)
    assert result.verdict is verdict
    doubted = stood_still if rule == "late" else ()
    left = [trial for trial in (0, 1) if trial not in doubted]
    assert result.violation_counts == ({rule: 40 * len(left)} if left else {})
    assert {v.trial for v in result.violations} == set(left)
    says = "40 x late, but the machine stood still: 2 times, 2.1 s in all"
    told = [why for why in result.reasons if "stood still" in why]
    assert told == [f"{story.arm}, trial {trial}: {says}" for trial in doubted]


@pytest.mark.parametrize("rule", ["late", "lost"])
@pytest.mark.parametrize(
    ("trials", "verdict"), [((0, 1), Verdict.UNKNOWN), ((0,), Verdict.INVALID), ((), None)]
)
def test_nothing_is_proved_while_the_wall_clock_is_set(
    story: Any, spark: Any, rule: str, trials: tuple[int, ...], verdict: Verdict | None
) -> None:
    """Whatever the rule: logs and ZooKeeper's times are of another clock then."""

    def check(_history: History) -> Outcome:
        outcome = Outcome()
        for trial in (0, 1):
            outcome.saw(story.arm, trial, "records")
            if verdict is not None:
                outcome.add(Finding(rule, f"of trial {trial}", story.arm, trial, ()))
        return outcome

    for story.trial in trials or (0, 1):
        story.add("clock_set", 40, process="pulse", by_ns=-300_000_000)
        story.add("clock_set", 60, process="pulse", by_ns=7_364_000_000)
    judged = dataclasses.replace(
        promise("records"), check=check, rules={"late": "", "lost": ""}, timed=frozenset({"late"})
    )
    result, _ = run_check(story.history(spark), judged)
    assert result.verdict is (verdict or Verdict.VALID)  # who found nothing is not in doubt
    says = f"1 x {rule}, but the wall clock was set meanwhile, by +7.4 s"
    told = [why for why in result.reasons if "clock" in why]
    assert told == [f"{story.arm}, trial {trial}: {says}" for trial in trials]


@pytest.mark.parametrize(
    ("lasting_ns", "verdict"), [(999_999_999, Verdict.INVALID), (1_000_000_000, Verdict.UNKNOWN)]
)
def test_a_moment_is_nothing_to_who_was_given_long(
    story: Any, spark: Any, lasting_ns: int, verdict: Verdict
) -> None:
    def check(_history: History) -> Outcome:
        outcome = Outcome()
        outcome.saw(story.arm, 0, "records")
        outcome.add(Finding("late", "says", story.arm, 0, ()))
        return outcome

    story.add("standstill", 40, process="pulse", lasting_ns=lasting_ns)
    late = frozenset({"late"})
    judged = dataclasses.replace(
        promise("records"), check=check, rules={"late": ""}, timed=late, patient=late
    )
    assert run_check(story.history(spark), judged)[0].verdict is verdict


@pytest.mark.parametrize(
    ("slowness", "since", "late", "patient"),
    [
        (11, 10_000, Verdict.INVALID, Verdict.INVALID),
        (12, 10_000, Verdict.UNKNOWN, Verdict.INVALID),
        (24, 10_000, Verdict.UNKNOWN, Verdict.UNKNOWN),
        (24, 0, Verdict.INVALID, Verdict.INVALID),  # while brokers began
    ],
)
def test_on_a_busy_machine_nobody_is_late(
    story: Any, spark: Any, slowness: int, since: float, late: Verdict, patient: Verdict
) -> None:
    def check(_history: History) -> Outcome:
        outcome = Outcome()
        outcome.saw(story.arm, 0, "records")
        outcome.add(Finding("late", "says", story.arm, 0, ()))
        return outcome

    story.add("phase", 10_000, name="chaos", event="begin")
    story.add("phase", 30_000, name="settle", event="end")
    story.strain(since, slowness)
    history, timed = story.history(spark), frozenset({"late"})
    for those, verdict in ((frozenset(), late), (timed, patient)):
        judged = dataclasses.replace(
            promise("records"), check=check, rules={"late": ""}, timed=timed, patient=those
        )
        result, _ = run_check(history, judged)
        assert result.verdict is verdict
        assert any("the machine was busy" in why for why in result.reasons) is (
            verdict is Verdict.UNKNOWN
        )


@pytest.mark.parametrize(
    ("rule", "component", "verdict"),
    [
        ("stuck", "load", Verdict.UNKNOWN),
        ("stuck", "runtime", Verdict.INVALID),
        ("lost", "load", Verdict.INVALID),
    ],
)
def test_two_looks_at_a_log_that_grows_prove_nothing(
    story: Any, spark: Any, rule: str, component: str, verdict: Verdict
) -> None:
    def check(_history: History) -> Outcome:
        outcome = Outcome()
        outcome.saw(story.arm, 0, "records")
        outcome.add(Finding(rule, "says", story.arm, 0, ()))
        return outcome

    story.add("infra", 40, component=component, reason="records were appended for 20 s")
    judged = dataclasses.replace(
        promise("records"), check=check, rules={"stuck": "", "lost": ""}, at_rest={"stuck"}
    )
    result, _ = run_check(story.history(spark), judged)
    assert result.verdict is verdict
    says = f"{story.arm}, trial 0: 1 x stuck, but records were appended for 20 s"
    assert (says in result.reasons) is (verdict is Verdict.UNKNOWN)


def test_who_is_held_to_a_time_is_a_rule() -> None:
    for each in promises():
        assert each.patient <= each.timed <= set(each.rules), each.name
        assert each.at_rest <= set(each.rules), each.name


def test_a_crashing_checker_is_unknown(story: Any, spark: Any) -> None:
    def crash(_history: History) -> Outcome:
        raise ZeroDivisionError("oh")

    broken = dataclasses.replace(promise("records"), check=crash)
    result, _ = run_check(story.history(spark), broken)
    assert result.verdict is Verdict.UNKNOWN
    assert "ZeroDivisionError: oh" in result.reasons[0]
    assert result.required


@pytest.mark.parametrize(
    ("why", "first"),
    [
        ("harness, phase: 1 of 2 rows do not say what every such row says (t)",
         "the history is spoilt: harness, phase: 1 of 2 rows do not say"),
        ("harness.jsonl: 1 of 10 rows are missing", "the checker crashed: ZeroDivisionError: oh"),
    ],
)  # fmt: skip
def test_who_crashes_over_a_spoilt_row_names_it(
    story: Any, spark: Any, monkeypatch: Any, why: str, first: str
) -> None:
    """Before the line of its own that it crashed in; if there is no such row, that alone."""

    def crash(_history: History) -> Outcome:
        raise ZeroDivisionError("oh")

    def lacks(_history: History) -> Outcome:
        return Outcome(unknowns=[why])

    known = {"records": crash, "evidence": lacks, "activity": activity.check}
    made = {n: dataclasses.replace(promise(n), check=check) for n, check in known.items()}
    monkeypatch.setattr("checkers.check.promise", made.__getitem__)
    sound(story)
    results = check_all(story.history(spark), ["records", "evidence"])
    reasons = results.checks["records"].reasons
    assert reasons[0].startswith(first)
    assert any("ZeroDivisionError" in one for one in reasons)


def never(history: History) -> Outcome:
    """In Python: it asks and asks."""
    while True:
        history.rows("phase")
        time.sleep(0.01)


def never_in_spark(history: History) -> Outcome:
    history.spark.range(10**15).selectExpr("sum(hash(id) % 7)").collect()
    return Outcome()


def at_once(history: History) -> Outcome:
    outcome = Outcome()
    outcome.saw(*history.trials[0], "things")
    return outcome


@pytest.mark.parametrize("slow", [never, never_in_spark])
def test_a_deadline_leaves_the_rest_unknown_and_named(
    story: Any, spark: Any, monkeypatch: pytest.MonkeyPatch, slow: Any
) -> None:
    sound(story)
    how = {"activity": at_once, "records": slow}
    monkeypatch.setattr(
        check_module, "promise", lambda name: dataclasses.replace(promise(name), check=how[name])
    )
    begun = time.monotonic()
    results = check_all(story.history(spark), ["records"], deadline_s=3)
    assert time.monotonic() - begun < 60
    assert results.checks["activity"].verdict is Verdict.VALID
    assert results.checks["records"].verdict is Verdict.UNKNOWN
    assert results.verdict is Verdict.UNKNOWN
    assert results.reasons == ["records: not judged within the deadline of 3 s"]


def test_what_was_never_begun_is_unknown_too(
    story: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound(story)
    monkeypatch.setattr(
        check_module, "promise", lambda name: dataclasses.replace(promise(name), check=never)
    )
    results = check_all(story.history(spark), deadline_s=0)
    assert {check.verdict for check in results.checks.values()} == {Verdict.UNKNOWN}
    assert len(results.reasons) == len(results.checks) == len(promises())


def test_checks_are_chosen_by_name() -> None:
    assert chosen(["fencing"]) == ["activity", "fencing"]
    assert chosen(["stale_metadata"]) == ["activity", "stale-metadata"]
    with pytest.raises(HistoryError, match="truncation-loss"):
        chosen(["nonsense"])


def test_everything_at_once(story: Any, spark: Any) -> None:
    sound(story)
    results = check_all(story.history(spark))
    assert results.verdict is Verdict.VALID, results.reasons
    story.produce(20, 2, 1, acks=-1)
    results = check_all(story.history(spark))
    assert results.verdict is Verdict.INVALID
    assert results.exit_code == 1
    assert results.reasons


def store(story: Any, folder: Path) -> None:
    for kind, rows in story.rows.items():
        target = folder / f"history/f={kind}/arm={story.arm}/trial={story.trial}"
        target.mkdir(parents=True)
        plain = [{k: v for k, v in r.items() if k not in ("arm", "trial")} for r in rows]
        pq.write_table(pa.Table.from_pylist(plain, schema=arrow_schema(kind)), target / "a.parquet")
    (folder / "run.json").write_text(json.dumps(story.run))


def test_a_stored_run_is_judged_and_its_results_are_stored(
    story: Any, spark: Any, tmp_path: Path
) -> None:
    sound(story)
    store(story, tmp_path)
    found = check_run(tmp_path, spark=spark)
    assert found["verdict"] == "valid", found["reasons"]
    assert Results.load(tmp_path).to_dict() == found
    assert (tmp_path / "results" / "latency.parquet").exists()
    uri = check_run(tmp_path.as_uri(), spark=spark, out=tmp_path / "other")
    assert uri["verdict"] == "valid"


def test_results_that_could_not_be_written_are_not_waited_for(
    story: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    sound(story)
    store(story, tmp_path)
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    monkeypatch.setattr("checkers.check.check_all", lambda *_, **__: pytest.fail("was judged"))
    with pytest.raises(HistoryError, match="Read-only file system; allowed: --out with"):
        check_run(tmp_path, spark=spark)


def test_bad_histories_are_refused_by_name(story: Any, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no folder 'history'"):
        History.load(tmp_path, spark=spark)
    (tmp_path / "history/f=nonsense").mkdir(parents=True)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(HistoryError, match="unknown kind"):
        History.load(tmp_path, spark=spark)
    (tmp_path / "history/f=nonsense").rmdir()
    wrong = tmp_path / "history/f=fault/arm=a/trial=0"
    wrong.mkdir(parents=True)
    pq.write_table(pa.table({"t": ["soon"]}), wrong / "a.parquet")
    with pytest.raises(HistoryError, match="'t': type string"):
        History.load(tmp_path, spark=spark)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"seed": "x"}, "seed"),
        ({"expectations": {"checks": "all"}}, "expectations.checks"),
        ({"clock": {"error_ns": 1.5}}, "clock.error_ns"),
        ({"trials": [{"arm": "a"}]}, "trials\\[0\\].trial"),
        ({"version": 99}, "version"),
        ({"clock": {"error_ns": -1}}, "clock.error_ns"),
        ({"expectations": {"settling_ms": -1}}, "expectations.settling_ms"),
        ({"trials": [{"arm": "a", "trial": 0, "workloads": [{"delivery": "twice"}]}]}, "delivery"),
        (
            {"trials": [{"arm": "a", "trial": 0, "workloads": [{"ack_timeout_ms": "2 s"}]}]},
            "ack_timeout_ms",
        ),
        ({"trials": [{"arm": "a", "trial": 0, "workloads": [{"begins": 0}]}]}, "begins"),
        ({"arms": {"a": "dual"}}, "arms.a"),
        ({"arms": {"a": {"sut": 5}}}, "arms.a.sut"),
        ({"arms": {"a": {"planes": ["dual"]}}}, "arms.a.planes"),
        ({"arms": {"a": {"checks": "evidence"}}}, "arms.a.checks"),
        ({"arms": {"a": {"traces": [1]}}}, "arms.a.traces"),
        ({"arms": {"a": {"not_judged": ["polls"]}}}, "arms.a.not_judged"),
        ({"arms": {"a": {"lag_max_ms": "long"}}}, "arms.a.lag_max_ms"),
    ],
)
def test_bad_run_files_are_refused_by_name(data: dict[str, Any], field: str) -> None:
    with pytest.raises(HistoryError, match=field):
        RunInfo.from_dict(data)


def test_what_an_arm_does_not_say_is_null_or_absent() -> None:
    said = {"planes": None, "checks": None, "traces": None, "not_judged": None, "more": 5}
    assert RunInfo.from_dict({"arms": {"a": said, "b": {}}}).arms == {"a": said, "b": {}}


def test_merging() -> None:
    valid, invalid, unknown = Verdict.VALID, Verdict.INVALID, Verdict.UNKNOWN
    assert merge([valid, unknown, invalid]) is invalid
    assert merge([valid, unknown]) is unknown
    assert merge([valid]) is valid
    assert merge([]) is unknown
    assert worst_exit_code([0, 2, 255, 1]) == 1
    assert worst_exit_code([0, 2, 255]) == 255
    assert worst_exit_code([0, 2]) == 2
    assert worst_exit_code([0, 0]) == 0


def test_arms_are_compared(story: Any, spark: Any) -> None:
    for arm, late in (("bp-single", 100), ("bp-dual", 10)):
        story.arm = arm
        story.run["arms"][arm] = {"sut": "bp", "planes": arm.removeprefix("bp-")}
        story.add("probe", 200, node=1, api="X", plane="data", planned_t=200 - late)
    results = check_all(story.history(spark), ["controller-latency"])
    row = results.comparison["bp-single / bp-dual"]["control_p50_ms"]
    assert row["ratio"] == pytest.approx(10, rel=0.06)
