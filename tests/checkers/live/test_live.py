"""What a watch says while a run goes on: what is certain, in time, and nothing that is not.

Stories are told together, each a trial of its own, since Spark's jobs take long however small.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.live.intake import HOLD_NS
from checkers.live.offsets import JUDGED_BY, LATE_NS
from checkers.live.watch import exercise
from checkers.promises import promise
from tests.checkers.conftest import MS, SECOND_MS, Story, judged_together
from tests.checkers.live.conftest import END_MS, Growing, found

Tell = Callable[[Story], None]
FENCING, SHOWN, EPOCHS = "fencing", "stale-metadata", "epochs"


# -- epochs that came after a newer one -----------------------------------------------------------


def old_controller(s: Story, **more: Any) -> None:
    s.handled(1_000, 1, controller_epoch=5)
    s.handled(2_000, 1, **{"controller_epoch": 4, **more})


def old_registration(s: Story, **more: Any) -> None:
    s.handled(1_000, 1, own_broker_epoch=60, broker_epoch=60)
    s.handled(2_000, 1, **{"own_broker_epoch": 60, "broker_epoch": 50, **more})


def _led(s: Story, t: float, leader_epoch: int, **more: Any) -> None:
    part = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": leader_epoch, "error": 0}
    s.handled(t, 1, **{"api": "LEADER_AND_ISR", "partitions": [part], **more})


def old_leader(s: Story) -> None:
    _led(s, 11_000, 7)
    _led(s, 12_000, 6)


def went_back(s: Story, **more: Any) -> None:
    s.commit(500, 1, 3)
    s.commit(900, 1, 4)
    s.read(1_000, 1, 4, process="reader")
    s.read(2_000, more.pop("node", 1), 3, process="reader", **more)


def killed(tell: Tell, at_ms: float = 1_500) -> Tell:
    def told(s: Story) -> None:
        s.add("node_event", at_ms, node=1, event="kill", process="harness")
        s.add("node_event", at_ms + 1, node=1, event="start", process="harness")
        tell(s)

    return told


def stopped(tell: Tell, *, delete: bool = False, at_ms: float = 1_500) -> Tell:
    def told(s: Story) -> None:
        s.add("replica_stop", at_ms, node=1, delete=delete, leader_epoch=8)
        tell(s)

    return told


def stopped_again(s: Story) -> None:
    """Obeyed before the replica was stopped, and lawfully once more after it."""
    stopped(old_leader, at_ms=12_500)(s)
    _led(s, 13_000, 6)


def newer_again(s: Story) -> None:
    """Stopped between, but the newer epoch was told of once more since."""
    stopped(old_leader, at_ms=11_200)(s)
    _led(s, 11_500, 7)


def stop_refused(s: Story) -> None:
    part = {"topic": "t", "partition": 0, "leader_epoch": -1, "error": 11}
    s.handled(11_500, 1, api="STOP_REPLICA", error=11, partitions=[part])
    old_leader(s)


def deleted_elsewhere(s: Story) -> None:
    s.add("replica_stop", 1_500, node=2, delete=True, leader_epoch=8)
    went_back(s)


def made_again(s: Story) -> None:
    s.commit(500, 1, 4, incarnation="a")
    s.commit(1_500, 1, 0, incarnation="b")
    s.read(1_000, 1, 4, process="reader")
    s.read(2_000, 1, 0, process="reader")


def lied_to(s: Story) -> None:
    s.add(
        "forged", 1_800, node=1, api="UPDATE_METADATA", lie="none", error=0, partition_error=0,
        controller_id=9, controller_epoch=1, broker_epoch=50, leader_epoch=3, process="forger",
    )  # fmt: skip
    went_back(s)


ORDERED: dict[str, tuple[Tell, str | None, set[str]]] = {
    "an old controller": (old_controller, FENCING, {"stale-controller-epoch-accepted"}),
    "an old registration": (old_registration, FENCING, {"stale-broker-epoch-accepted"}),
    "an old leader": (old_leader, FENCING, {"stale-leader-epoch-accepted"}),
    "metadata went back": (went_back, SHOWN, {"metadata-went-back"}),
    "refused": (lambda s: old_controller(s, error=11), FENCING, set()),
    "another broker": (lambda s: went_back(s, node=2), SHOWN, set()),
    "overlapping": (lambda s: went_back(s, invoke_t=999), SHOWN, set()),
    "unregistered": (lambda s: old_registration(s, broker_epoch=-1), FENCING, set()),
    "killed between, obeys": (killed(old_controller), FENCING, set()),
    "killed between, shows": (killed(went_back), SHOWN, set()),
    "killed before": (killed(old_controller, 100), FENCING, {"stale-controller-epoch-accepted"}),
    "stopped between": (stopped(old_leader, at_ms=11_500), None, set()),
    "stopped before": (stopped(old_leader), FENCING, {"stale-leader-epoch-accepted"}),
    "stopped after": (stopped(old_leader, at_ms=13_000), FENCING, {"stale-leader-epoch-accepted"}),
    "stopped after, and again": (stopped_again, FENCING, {"stale-leader-epoch-accepted"}),
    "stopped, and newer again": (newer_again, FENCING, {"stale-leader-epoch-accepted"}),
    "stopping refused": (stop_refused, FENCING, {"stale-leader-epoch-accepted"}),
    "deleted": (stopped(went_back, delete=True), None, set()),
    "deleted elsewhere": (deleted_elsewhere, None, set()),
    "made again": (made_again, None, set()),
    "lied to": (lied_to, SHOWN, set()),
}


@pytest.fixture(scope="module")
def ordered(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    stories = [_told(tell) for tell, _, _ in ORDERED.values()]
    rules = found(spark, tmp_path_factory.mktemp("ordered"), stories)
    return dict(zip(ORDERED, rules, strict=True))


def _told(tell: Tell) -> Story:
    story = Story()
    tell(story)
    return story


@pytest.mark.parametrize("name", ORDERED)
def test_what_came_after_a_newer_epoch(name: str, ordered: dict[str, set[str]]) -> None:
    assert ordered[name] == ORDERED[name][2]


@pytest.mark.parametrize("name", [FENCING, SHOWN])
def test_judging_all_of_it_says_the_same(name: str, spark: Any) -> None:
    own = {n: rules for n, (_, of, rules) in ORDERED.items() if of == name}
    judged = judged_together(spark, promise(name).check, {n: _told(ORDERED[n][0]) for n in own})
    kept = {"metadata-went-back", *(r for r in promise(FENCING).rules)}
    assert {n: set(rules) & kept for n, (rules, _) in judged.items()} == own


def random_requests(seed: int) -> Story:
    """Controllers, registrations and lives at random; most of what is stale is refused."""
    rng, story = random.Random(seed), Story()
    epochs = {"controller_epoch": 1, "own_broker_epoch": 50}
    for t in range(1_000, 1_000 + 60 * rng.randint(5, 20), 60):
        if rng.random() < 0.1:
            story.add("node_event", t - 30, node=1, event="kill", process="harness")
        for name in epochs:
            epochs[name] += rng.random() < 0.15
        said = {name: epoch - (rng.random() < 0.06) for name, epoch in epochs.items()}
        story.handled(
            t, rng.choice((1, 2)), controller_epoch=said["controller_epoch"],
            broker_epoch=said["own_broker_epoch"], own_broker_epoch=epochs["own_broker_epoch"],
            error=rng.choice((0, 0, 0, 11)),
        )  # fmt: skip
        story.read(t + 5, 1, epochs["controller_epoch"] - (rng.random() < 0.03), process="reader")
    return story


def test_of_any_history_it_says_what_judging_says_however_it_came(
    spark: Any, tmp_path: Path
) -> None:
    """Not one more, and not one less: of these rules nothing is left to the end."""
    stories = {str(seed): random_requests(seed) for seed in range(12)}
    expected: dict[str, set[str]] = {name: set() for name in stories}
    for name in (FENCING, SHOWN):
        for story, (rules, _) in judged_together(spark, promise(name).check, stories).items():
            expected[story] |= set(rules) & {*promise(FENCING).rules, "metadata-went-back"}
    assert 2 < sum(map(bool, expected.values())) < 12
    for number, looks in enumerate(((END_MS,), (1_400, 2_100, END_MS))):
        told = found(spark, tmp_path / str(number), list(stories.values()), looks)
        assert dict(zip(stories, told, strict=True)) == expected


# -- what was committed, and who acts on it -------------------------------------------------------


def two_leaders(s: Story) -> None:
    s.commit(1_000, 1, 3, partition_epoch=3, incarnation="a")
    s.commit(2_000, 2, 3, partition_epoch=4, incarnation="a")


def epoch_fell(s: Story) -> None:
    s.commit(1_000, 1, 3, partition_epoch=3, incarnation="a")
    s.commit(2_000, 2, 2, partition_epoch=4, incarnation="a")


def led_by_another(s: Story) -> None:
    s.commit(1_000, 1, 3, partition_epoch=3)
    s.add("leader_change", 2_000, node=2, role="leader", leader=2, leader_epoch=3, boot=1)


def lawful_move(s: Story) -> None:
    s.commit(1_000, 1, 3, partition_epoch=3)
    s.commit(2_000, 2, 4, partition_epoch=4)
    s.add("leader_change", 2_100, node=2, role="leader", leader=2, leader_epoch=4, boot=1)


def role_fell(s: Story) -> None:
    s.add("leader_change", 1_000, node=2, role="follower", leader=1, leader_epoch=4, boot=1)
    s.add("leader_change", 2_000, node=2, role="follower", leader=1, leader_epoch=3, boot=1)


def namesake(s: Story) -> None:
    s.commit(1_000, 1, 3, partition_epoch=3, incarnation="a")
    s.commit(2_000, 2, 3, partition_epoch=4, incarnation="a")
    s.commit(2_500, 1, 0, partition_epoch=0, incarnation="b")


DECIDED: dict[str, tuple[Tell, set[str]]] = {
    "two leaders": (two_leaders, {"two-leaders-in-epoch"}),
    "an epoch that fell": (epoch_fell, {"leader-epoch-went-back"}),
    "led by another": (led_by_another, {"led-by-another"}),
    "a role that fell": (role_fell, {"role-went-back"}),
    "a lawful move": (lawful_move, set()),
    "a topic that is made again": (namesake, set()),
}


def test_decisions_are_judged_as_they_come(spark: Any, tmp_path: Path) -> None:
    stories = {name: _told(tell) for name, (tell, _) in DECIDED.items()}
    told = found(spark, tmp_path, list(stories.values()))
    assert dict(zip(stories, told, strict=True)) == {n: rules for n, (_, rules) in DECIDED.items()}
    judged = judged_together(spark, promise(EPOCHS).check, stories)
    for name, (_, rules) in DECIDED.items():
        assert rules <= set(judged[name][0])


# -- acknowledged, and not what was read ----------------------------------------------------------


def fetched(s: Story, t: float, offset: int, value: int | None, **more: Any) -> None:
    s.add("fetch", t, offset=offset, value=value, **{"process": "consumer", "poll": int(t), **more})


def acked(s: Story, t: float, offset: int, value: int, **more: Any) -> None:
    s.produce(t, value, offset, -1, **{"process": "producer", **more})


def three(s: Story, *, but: int | None = None, **more: Any) -> None:
    """Offsets 0 to 2 are acknowledged, and read but for one."""
    for offset in range(3):
        acked(s, 1_000 + offset, offset, 10 + offset)
        if offset != but:
            fetched(s, 2_000 + offset, offset, 10 + offset, **more)


def other_value(s: Story) -> None:
    three(s, but=1)
    fetched(s, 2_001, 1, 99)


def foreign_value(s: Story) -> None:
    three(s, but=1)
    fetched(s, 2_001, 1, None)


def other_reader(s: Story) -> None:
    fetched(s, 2_000, 0, 1)
    fetched(s, 2_000, 0, 2, process="another")


def reset(s: Story) -> None:
    three(s, but=1)
    s.add("fetch", 2_001, type="info", failure="_AUTO_OFFSET_RESET", process="consumer", poll=5)


def member(s: Story) -> None:
    three(s, but=1)
    s.add("assignment", 500, group="g", event="assigned", process="consumer")


def forged_order(s: Story) -> None:
    three(s, but=1)
    s.add(
        "forged", 1_500, node=1, api="LEADER_AND_ISR", lie="none", error=0, partition_error=0,
        process="forger", leader_epoch=9,
    )  # fmt: skip


def torn_log(s: Story, **detail: Any) -> None:
    three(s, but=1)
    says = json.dumps(detail)
    s.add("fault", 1_500, fault="torn-tail", id="x", phase="injected", detail=says, process="n")


def acked_twice(s: Story) -> None:
    acked(s, 1_000, 0, 1)
    acked(s, 1_500, 0, 2)


def acked_again(s: Story) -> None:
    """An idempotent producer's second answer for the same record."""
    acked(s, 1_000, 5, 1)
    acked(s, 1_500, 5, 1)


def read_again(s: Story, at_ms: float = 4_000) -> None:
    """It goes back, and is given something else."""
    three(s)
    fetched(s, at_ms, 1, 98)


def begun_later(s: Story) -> None:
    three(s, but=0)


def slow_ack(s: Story) -> None:
    """Who had read it by then is not known any more."""
    three(s, but=1)
    s.rows["produce"] = [row for row in s.rows["produce"] if row["offset"] != 1]
    acked(s, 60_000, 1, 11, invoke_t=60_000 - LATE_NS / MS / 2 - 1)


def not_promised(s: Story) -> None:
    three(s, but=1)
    for row in s.rows["produce"]:
        row["acks"] = 1


OFFSETS: dict[str, tuple[Tell, set[str]]] = {
    "skipped": (lambda s: three(s, but=1), {"acked-skipped"}),
    "another value": (other_value, {"acked-not-read"}),
    "no value of ours": (foreign_value, {"acked-not-read"}),
    "two readers": (other_reader, {"read-twice-otherwise"}),
    "all read": (three, set()),
    "not read yet": (lambda s: three(s, but=2), set()),
    "begun later": (begun_later, set()),
    "reset": (reset, set()),
    "a group's member": (member, set()),
    "a forged order": (forged_order, set()),
    "a torn log": (torn_log, set()),
    "a log torn there": (lambda s: torn_log(s, partition="t-0", from_offset=1), set()),
    "a log torn elsewhere": (lambda s: torn_log(s, partition="t-1"), {"acked-skipped"}),
    "a log torn above": (lambda s: torn_log(s, from_offset=2), {"acked-skipped"}),
    "a log that was added to": (lambda s: torn_log(s, mode="garbage"), {"acked-skipped"}),
    "acknowledged twice": (acked_twice, {"acked-twice-otherwise"}),
    "acknowledged again": (acked_again, set()),
    "read again, otherwise": (read_again, {"acked-not-read"}),
    "an acknowledgement that came late": (slow_ack, set()),
    "acks=1": (not_promised, set()),
}


@pytest.mark.parametrize("looks", [(END_MS,), (1_500, 3_001, 3_003, END_MS)], ids=["one", "many"])
def test_what_consumers_read_is_held_against_what_was_promised(
    looks: tuple[float, ...], spark: Any, tmp_path: Path
) -> None:
    stories = [_told(tell) for tell, _ in OFFSETS.values()]
    apart = [list(OFFSETS).index("a torn log")]  # nobody knows which
    told = dict(zip(OFFSETS, found(spark, tmp_path, stories, looks, apart), strict=True))
    assert told == {name: rules for name, (_, rules) in OFFSETS.items()}


@pytest.mark.parametrize("log", [{0: 10, 2: 12}, {0: 10, 1: 11, 2: 12}, {0: 10, 1: 99, 2: 12}])
def test_judging_comes_to_one_of_what_it_may_become(log: dict[int, int], spark: Any) -> None:
    """Whatever the final log holds, a promise is broken."""
    stories = {name: _told(OFFSETS[name][0]) for name in ("skipped", "another value")}
    for s in stories.values():
        s.commit(100, 1, 0)
        s.final_log(log)
    judged = [
        judged_together(spark, promise(name).check, stories)
        for name in ("truncation-loss", "polls")
    ]
    for name, live in (("skipped", "acked-skipped"), ("another value", "acked-not-read")):
        rules = {rule for of in judged for rule in of[name][0]}
        assert rules & JUDGED_BY[live], (name, rules)


NOTHING_NEW = {"f": "fetch", "t": 4_000 * MS, "type": "ok", "process": "idle", "poll": 1}


def test_whoever_is_elected_uncleanly_may_lack_anything(spark: Any, tmp_path: Path) -> None:
    story = _told(OFFSETS["another value"][0])
    story.commit(1_000, 1, 3, partition_epoch=3, isr=[1, 3])
    story.commit(2_000, 2, 4, partition_epoch=4, isr=[2])
    allowed = Growing(spark, tmp_path / "a", [story], unclean=True)
    assert not allowed.look(END_MS)
    not_allowed = Growing(spark, tmp_path / "b", [story]).look(END_MS)
    assert {one.rule for one in not_allowed} == {
        "acked-not-read", "unclean-election", "isr-grew-in-election"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("then", "rule"),
    [
        (lambda s: acked(s, 9_000, 1, 99), "acked-twice-otherwise"),
        (lambda s: fetched(s, 9_000, 1, 99), "acked-not-read"),
        (lambda s: fetched(s, 9_000, 7, 7), None),
        (lambda s: fetched(s, 9_000, 8, 8), "acked-skipped"),  # 7 was for another look, too
    ],
)
def test_what_nothing_new_is_said_of_is_still_held_to(
    spark: Any, tmp_path: Path, then: Tell, rule: str | None
) -> None:
    story = Story()
    for offset in range(9):
        acked(story, 1_000 + offset, offset, offset)
        if offset < 7:
            fetched(story, 1_100 + offset, offset, offset)
    acked(story, 5_000, 9, 9)  # in between only what is newer is spoken of
    then(story)
    growing = Growing(spark, tmp_path, [story])
    assert not growing.look(3_000)
    assert not growing.look(7_000)
    assert {one.rule for one in growing.look(12_000)} == ({rule} if rule else set())


def test_what_is_settled_is_forgotten(spark: Any, tmp_path: Path) -> None:
    story = Story()
    for offset in range(300):
        acked(story, 1_000 + offset, offset, offset)
        if offset < 290:
            fetched(story, 1_100 + offset, offset, offset)
    growing = Growing(spark, tmp_path, [story])
    assert not growing.look(5_000)
    (seen,) = growing.watch._seen.values()
    assert seen.offsets.open is not None
    assert seen.offsets.open.num_rows == 300  # whoever reads them again soon is held to them
    growing._left = [(tmp_path / "trials" / "bp-single-0" / "live" / "x.jsonl", NOTHING_NEW)]
    assert not growing.look(2_000 + LATE_NS / MS + 5_000)
    assert seen.offsets.open is not None
    assert sorted(seen.offsets.open["offset"].to_pylist()) == list(range(290, 300))


def test_too_many_are_left_to_the_end_and_counted(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkers.live.offsets.MOST", 4)
    story = Story()
    for offset in range(10):
        acked(story, 1_000 + offset, offset, offset)
    for offset in (0, 9):  # what lies between may be read by somebody who is not known yet
        fetched(story, 50_000 + offset, offset, offset)
    growing = Growing(spark, tmp_path, [story])
    assert not growing.look(5_000)
    assert not growing.look(60_000)
    assert growing.watch.left_out["offsets"] >= 6


def believed_late(s: Story, *, error: int = 0) -> None:
    """A forger's order shows at once; its answer comes seconds later."""
    for t, phase in ((1_300, "inject"), (1_310, "injected"), (6_100, "healed")):
        s.add("fault", t, fault="forged-requests", id="f", phase=phase, process="nemesis")
    s.commit(1_000, 1, 3, partition_epoch=3)
    s.read(1_200, 2, 4, process="reader")
    s.add("leader_change", 1_500, node=2, role="leader", leader=2, leader_epoch=3, boot=1)
    s.read(1_600, 2, 3, process="reader")
    for api in ("LEADER_AND_ISR", "UPDATE_METADATA"):
        s.add(
            "forged", 6_000, invoke_t=1_400, node=2, api=api, lie="none", error=error,
            partition_error=0, leader_epoch=3, process="forger",
        )  # fmt: skip


def test_while_a_forger_waits_for_its_answers_nobody_is_accused(spark: Any, tmp_path: Path) -> None:
    stories = [_told(believed_late), _told(lambda s: believed_late(s, error=11))]
    looks = (3_000, 5_000, 9_000)
    told = found(spark, tmp_path, stories, looks, apart=[0, 1])
    assert told == [set(), {"led-by-another", "metadata-went-back"}]


# -- when it is told ------------------------------------------------------------------------------


def test_it_waits_for_what_may_excuse_and_no_longer(spark: Any, tmp_path: Path) -> None:
    hold_ms = HOLD_NS / MS
    growing = Growing(spark, tmp_path, [_told(old_controller)])
    assert not growing.look(1_999 + hold_ms)
    (told,) = growing.look(2_001 + hold_ms)
    assert told.rule == "stale-controller-epoch-accepted"
    assert told.t == 1_998 * MS  # when it was taken from the queue
    assert not growing.look(9 * SECOND_MS)  # once


def test_a_death_that_is_read_later_still_excuses(spark: Any, tmp_path: Path) -> None:
    growing = Growing(spark, tmp_path, [_told(killed(old_controller))])
    row = next(one for one in growing._left if one[1].get("event") == "kill")
    late = [one for one in growing._left if one[1]["f"] == "node_event"]
    growing._left = [one for one in growing._left if one not in late]
    assert not growing.look(2_500)
    growing._left = late  # the harness writes what it gathered
    assert not growing.look(2_900)
    assert not growing.look(END_MS)
    assert row[1]["t"] == 1_500 * MS


def test_what_is_left_is_looked_at_in_the_end(spark: Any, tmp_path: Path) -> None:
    growing = Growing(spark, tmp_path, [_told(old_controller)])
    (told,) = growing.look(2_000, last=True)
    assert told.says == ("node 1 obeyed controller epoch 4 after it had accepted a newer one")


def test_what_it_is_made_ready_with_is_sound(spark: Any) -> None:
    exercise(spark)  # it would say what is not


def test_figures_are_those_of_the_last_half_minute(spark: Any, tmp_path: Path) -> None:
    story = Story()
    went_back(story)
    for t, took_ms in ((1_000, 500), (50_000, 4), (50_100, 8)):
        story.add("probe", t + took_ms, planned_t=t, invoke_t=t, node=1, process="prober")
    growing = Growing(spark, tmp_path, [story])
    growing.look(10_000)
    first = growing.watch.figures.now()["bp-single"]
    assert first["control"]["max_ms"] == 500
    assert first["staleness"]["count"] == 1
    assert first["staleness"]["max_ms"] == pytest.approx(1_999 - 900)
    growing.look(60_000)
    later = growing.watch.figures.now()["bp-single"]
    assert later["control"] == {"count": 2, "p50_ms": pytest.approx(4, rel=0.03),
                                "p99_ms": pytest.approx(8, rel=0.03), "max_ms": 8}  # fmt: skip
    assert "staleness" not in later
