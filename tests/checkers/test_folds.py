"""What is judged by blocks, or by one pass in order of time, against a look at everything."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from unittest import mock

import pytest

from checkers.facts import blocks
from checkers.facts.accounts import accounts
from checkers.facts.replicas import replicas
from checkers.history import frames
from checkers.promises import controller_queues, groups, polls
from checkers.promises.controller_queues import UNSEEN
from checkers.promises.replicas.agreement import COMPARED, disagreements, place_of
from checkers.promises.replicas.kept_logs import _MARGIN_NS, _in_sync, kept_logs
from tests.checkers.conftest import MS, Story

# ---- logs ----------------------------------------------------------------------------------------


def logs_of(rng: random.Random, partition: int) -> dict[int, dict[int, tuple[int, int]]]:
    """By node, offset -> (value, leader epoch): alike, but for what was done to some."""
    length = rng.choice([1, 63, 64, 65, 128, 200])
    whole = {n: (1_000 * partition + n, n // 50) for n in range(length)}
    logs = {node: dict(whole) for node in (1, 2, 3)}
    for _ in range(rng.choice([0, 0, 1, 2, 5])):
        log = logs[rng.choice([1, 2, 2, 3])]
        if not log:
            continue
        at = rng.choice([min(log), max(log), rng.choice(sorted(log))])
        value, epoch = log[at]
        change = rng.choice(["hole", "hole", "block", "value", "epoch", "head", "tail"])
        if change == "hole":
            del log[at]
        elif change == "value":
            log[at] = (value + 7_000_000, epoch)
        elif change == "epoch":
            log[at] = (value, epoch + rng.choice([-1, 1]))
        else:
            low = {"block": at // 64 * 64, "head": 0, "tail": at}[change]
            high = {"block": low + 64, "head": at, "tail": length}[change]
            for offset in [n for n in log if low <= n < high]:
                del log[offset]
    return logs


def told(story: Story, partition: int, logs: dict[int, dict[int, tuple[int, int]]]) -> None:
    story.commit(1, 1, 0, partition=partition, isr=[1, 2] if partition % 2 else [1, 2, 3])
    for node, log in logs.items():
        for offset, (value, epoch) in log.items():
            story.add("log_read", 90_000, node=node, offset=offset, value=value,
                      leader_epoch=epoch, partition=partition)  # fmt: skip
        end = max(log, default=-1) + 1
        story.add("log_end", 90_000, node=node, log_start_offset=0, log_end_offset=end,
                  high_watermark=end, is_leader=node == 1, partition=partition)  # fmt: skip


@pytest.mark.parametrize("few", [blocks.FEW, 1], ids=["few", "many"])
def test_logs_are_compared_as_if_record_by_record(
    spark: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "FEW", few)
    rng, story = random.Random(3), Story()
    logs = {partition: logs_of(rng, partition) for partition in range(60)}
    for partition, of in logs.items():
        told(story, partition, of)
    history = story.history(spark)
    outcome = controller_queues.check(history)  # an empty one
    found: Counter[tuple[str, int]] = Counter()
    firsts = set()
    for one in disagreements(history, outcome):
        found[one.finding.rule, one.key[3]] += one.n
        if one.finding.rule == "replica-hole":
            firsts.add((one.finding.picks[1].where["node"], one.key[3], one.finding.says[-8:]))
    wanted: Counter[tuple[str, int]] = Counter()
    missing, compared, offsets = set(), 0, 0
    for partition, of in logs.items():
        bounds = {one.node: one.bound for one in replicas(history) if one.key[3] == partition}
        own = {node: {o: v for o, v in log.items() if o < bounds[node]} for node, log in of.items()}
        for offset in set().union(*own.values()):
            records = [log[offset] for log in own.values() if offset in log]
            compared += len(records) if len(records) > 1 else 0
            offsets += 1
            wanted["replica-differs", partition] += len(set(records)) > 1
        for node, log in own.items():
            lacks = sorted(set(range(bounds[node])) - set(log))
            wanted["replica-hole", partition] += len(lacks)
            if lacks:
                missing.add((node, partition, f"first at offset {lacks[0]}"[-8:]))
            spans: dict[int, list[int]] = {}
            for offset, (_, epoch) in of[node].items():
                spans.setdefault(epoch, []).append(offset)
            before = -1
            for epoch in sorted(spans):
                wanted["epochs-out-of-order", partition] += min(spans[epoch]) < before
                before = max(before, *spans[epoch])
    assert +found == +wanted
    assert firsts == missing
    assert outcome.evidence[story.arm, 0, COMPARED] == compared
    assert outcome.evidence[story.arm, 0, "offsets"] == offsets
    assert {rule for rule, _ in found} == {"replica-differs", "replica-hole", "epochs-out-of-order"}
    assert place_of((story.arm, 0, "t", 1)) == "t-1"


# ---- what was known of a log before --------------------------------------------------------------


def test_what_was_promised_is_found_as_if_pair_by_pair(spark: Any) -> None:
    rng, story = random.Random(5), Story()
    for partition in range(12):
        at = 0
        for number in range(rng.randint(1, 12)):
            at += rng.randint(1, 3_000)
            isr = rng.sample([1, 2, 3], rng.randint(1, 3))
            story.commit(at, 1, 0, isr=isr, partition_epoch=number, partition=partition)
        for number in range(rng.randint(0, 60)):
            begin = rng.randint(0, at + 2_000)
            story.produce(begin + rng.choice([0, 1, 700]), number, rng.randint(0, 99), acks=-1,
                          invoke_t=begin, partition=partition)  # fmt: skip
        for node in (1, 2, 3):
            for _ in range(rng.randint(0, 6)):
                story.add("leader_change", rng.randint(0, at + 3_000), node=node, leader_epoch=0,
                          role="follower", leader=1, log_end_offset=rng.randint(0, 120),
                          partition=partition)  # fmt: skip
    history = story.history(spark)
    found = kept_logs(history)
    promised = {
        (one.key[3], one.node, one.has["t"], one.before)
        for one in found.shrunk
        if one.had_kind == "produce"
    }
    said: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in sorted(story.rows["leader_change"], key=lambda row: row["t"]):
        said.setdefault((row["partition"], row["node"]), []).append(row)
    wanted, compared = set(), 0
    for (partition, node), roles in said.items():
        spans = _in_sync(history, (story.arm, 0, "t", partition), node)
        for number, row in enumerate(roles):
            before = [span for span in spans if span[0] < row["t"]]
            known = -1
            if before:
                begin, over = before[-1]
                until = min(over, row["t"]) - _MARGIN_NS
                known = max(
                    (
                        p["offset"] + 1
                        for p in story.rows["produce"]
                        if p["partition"] == partition and p["invoke_t"] > begin and p["t"] < until
                    ),
                    default=-1,
                )
            earlier = number and roles[number - 1]["log_end_offset"] > row["log_end_offset"]
            compared += bool(number) + (known >= 0 and not earlier)
            if not earlier and known > row["log_end_offset"]:
                wanted.add((partition, node, row["t"], known))
    assert promised == wanted
    assert promised
    assert found.compared[story.arm, 0] == compared


# ---- queues --------------------------------------------------------------------------------------


def test_queues_are_counted_as_if_pair_by_pair(spark: Any) -> None:
    """Requests that stay in a queue for any time, and looks that say any number."""
    rng, story = random.Random(7), Story()
    sends, looks = [], []
    for to in (1, 2, 3):
        enqueued, sent = 0, 0
        for number in range(120):
            enqueued += rng.choice([0, 1, 5, 40])
            sent = max(enqueued, sent) + rng.choice([0, 1, 20])
            sends.append((to, enqueued * MS, sent * MS))
            story.add("control_send", sent, node=9, boot=1, to=to, api="UPDATE_METADATA", attempt=1,
                      partitions=[], correlation_id=number, controller_epoch=1, broker_epoch=7,
                      enqueue_t=enqueued)  # fmt: skip
        for _ in range(60):
            t = rng.randint(0, enqueued)
            look = {"size": rng.randint(0, 9), "taken": rng.randint(0, 120)}
            look |= {"from_t": (t - rng.choice([0, 1, 30])) * MS}
            look |= {"queue_time_max_us": 1_000 * rng.randint(0, 60)}
            row = story.add("channel_queue", t, node=9, boot=1, to=to, queue_time_p99_us=0, **look)
            looks.append(row)
    wanted: Counter[str] = Counter()
    for look in {tuple(sorted(look.items())): look for look in looks}.values():
        own = [(e, s) for to, e, s in sends if to == look["to"]]
        begun, at = look["from_t"], look["t"]
        if begun < own[0][0] or at > own[-1][0]:
            continue
        before = [None, *(s for _, s in own)]
        low = sum(e <= begun and s > at for e, s in own)
        high = sum(e <= at and s >= begun for e, s in own)
        wanted["queue-size"] += not low - UNSEEN <= look["size"] <= high
        taken = sum(s < begun for _, s in own), sum(s <= at for _, s in own) + 1
        wanted["queue-count"] += not taken[0] <= look["taken"] <= taken[1]
        least = max(
            (b - e for (e, s), b in zip(own, before, strict=False) if s < begun and b), default=0
        )
        most = max((min(s, at) - e for e, s in own if e <= at), default=0)
        told_ns = look["queue_time_max_us"] * 1_000
        wanted["queue-time"] += told_ns + MS < least or told_ns > most + MS
    assert controller_queues.check(story.history(spark)).counts == dict(wanted)
    assert min(wanted.values()) > 50  # more than were once looked at


# ---- groups --------------------------------------------------------------------------------------


def test_kept_offsets_are_found_as_if_pair_by_pair(spark: Any) -> None:
    rng, story = random.Random(9), Story()
    for partition in range(5):
        place = {"partition": partition, "group": "g"}
        for number in range(80):
            t = 100 * rng.randint(1, 400)
            story.add("commit", t, process=f"c{number % 2}", offset=rng.randint(0, 50), **place)
        for number in range(300):
            offset = rng.randint(0, 55)
            story.add("committed", 100 * rng.randint(0, 420) + 1, process=f"c{number}",
                      offset=offset, **place)  # fmt: skip
    wanted: Counter[str] = Counter()
    for answer in story.rows["committed"]:
        own = [c for c in story.rows["commit"] if c["partition"] == answer["partition"]]
        kept = [c for c in own if c["t"] < answer["invoke_t"]]
        newest = max(((c["offset"], c["invoke_t"]) for c in kept), default=(-1, 0))
        again = any(c["offset"] == answer["offset"] and c["t"] >= newest[1] for c in own)
        wanted["committed-offset-lost"] += answer["offset"] < newest[0] and not again
        wanted["committed-never"] += answer["offset"] > 0 and not any(
            c["offset"] == answer["offset"] and c["invoke_t"] <= answer["t"] for c in own
        )
    story.add("assignment", 1, process="nobody", group="g", event="assigned", partition=99)
    found = groups.check(story.history(spark)).counts
    assert {rule: found[rule] for rule in wanted} == dict(wanted)
    assert sum(wanted.values()) > 500


def test_two_members_at_once_are_counted_however_long_their_terms(spark: Any) -> None:
    """Terms of a second and of a minute; each pair of terms that overlap, once."""
    story = Story()
    for number in range(40):
        begin = 70_000 * number
        length = 1_000 if number % 2 else 60_000
        for member, later in (("a", 0), ("b", 10)):
            story.add("assignment", begin + later, process=member, group="g", event="assigned")
            for one in range(5):
                t = begin + 20 + later + length * one // 5
                story.add("commit", t, process=member, group="g", offset=1)
    counts = groups.check(story.history(spark)).counts
    assert counts["committed-by-two"] == 80


# ---- values --------------------------------------------------------------------------------------


EARLY = [
    (5, range(200), 0),
    (-10_000, range(200), 200),  # a reader whose clock is another's
    (-10_000, range(64, 66), 2),  # the first of a block
    (-10_000, range(199, 200), 1),  # the last
    (-15, range(199, 200), 1),  # by less than the block took
]


@pytest.fixture(scope="module")
def early_readers(spark: Any) -> dict[int, dict[int, list[dict[str, Any]]]]:
    """By how many rows are few, and by number of `EARLY`: accounts of what was sent and read."""
    told: dict[str, list[dict[str, Any]]] = {}
    for number, (shift_ms, of, _) in enumerate(EARLY):
        story = Story(trial=number)
        story.final_log({value: value for value in range(200)})
        for value in range(200):
            t = 20_000 + 10 * value
            story.produce(t, value, value, invoke_t=t - 1)
            read_t = t + (shift_ms if value in of else 5)
            story.add("fetch", read_t, process="c", offset=value, value=value, leader_epoch=0)
        for kind, rows in story.rows.items():
            told.setdefault(kind, []).extend(rows)
    found: dict[int, dict[int, list[dict[str, Any]]]] = {}
    for few in (0, 10**9):
        with mock.patch.object(frames, "LIGHT_ROWS", few):
            for row in accounts(frames.History.of(spark, told, Story().run)):
                found.setdefault(few, {}).setdefault(row["trial"], []).append(row)
    return found


@pytest.mark.parametrize("rows", [0, 10**9])
@pytest.mark.parametrize(("shift_ms", "of", "early"), EARLY)
def test_who_reads_before_anything_was_sent(
    early_readers: Any, rows: int, shift_ms: int, of: range, early: int
) -> None:
    found = early_readers[rows][EARLY.index((shift_ms, of, early))]
    assert sum(row["n"] for row in found) == 200
    assert sum(row["n"] for row in found if row["early"]) == early


@pytest.mark.parametrize("rows", [0, 10**9])
def test_many_rows_are_those_of_which_nobody_knows_better(
    spark: Any, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(frames, "LIGHT_ROWS", rows)
    story = Story()
    story.produce(1, 1, 1)
    history = story.history(spark)
    assert history.many("produce") is (rows == 0)
    assert not history.many("fetch")


# ---- polls ---------------------------------------------------------------------------------------

BACK, SKIPPED, LOST = "poll-went-back", "poll-skipped", "position-lost"
POLLED: list[tuple[list[tuple[int, ...]], set[str]]] = [
    ([(0, 1), (2,), (3, 4)], set()),
    ([(3, 4), (5,)], set()),
    ([(0, 1), (1, 2)], {BACK}),
    ([(0, 1), (1,), (2,)], {BACK}),
    ([(0, 1), (3, 2), (4,)], {BACK}),  # by number
    ([(0, 2, 1), (3,)], {BACK}),
    ([(0,), (2,), (3,)], {SKIPPED}),
    ([(0, 2), (3,)], {SKIPPED}),
    ([(0, 1), (), (2,)], {LOST}),
    ([(), (2, 3)], set()),
]
"""Offsets of each poll in the order in which they were given; a poll of none was a reset."""


@pytest.mark.parametrize("few", [0, 10**9])
def test_who_was_given_other_than_the_next_offset(spark: Any, few: int) -> None:
    told: dict[str, list[dict[str, Any]]] = {}
    for trial, (each, _) in enumerate(POLLED):
        story = Story(trial=trial)
        story.final_log({offset: offset for offset in range(6)})
        for number, offsets in enumerate(each):
            for offset in offsets:
                seq = sum(len(row) for row in story.rows.values())
                story.add("fetch", 10 + number, offset=offset, value=offset, poll=number,
                          process="c", seq=seq)  # fmt: skip
            if not offsets:
                story.add("fetch", 10 + number, type="fail", error=1, poll=number, process="c")
        for kind, rows in story.rows.items():
            told.setdefault(kind, []).extend(rows)
    with mock.patch.object(frames, "LIGHT_ROWS", few):
        found = polls.check(frames.History.of(spark, told, Story().run))
    broken = {(one.trial, one.rule) for one in found.findings}
    assert broken == {(n, rule) for n, (_, rules) in enumerate(POLLED) for rule in rules}
