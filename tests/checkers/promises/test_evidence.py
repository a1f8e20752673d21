"""What was lost in silence makes a run unknown; what only looks like it does not."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from checkers.facts.whole_rows import LEAST, WORDS, lacks
from checkers.history import KINDS
from checkers.judging.outcome import Outcome
from checkers.promises.evidence import check
from tests.checkers.conftest import ARM, MS
from tests.checkers.together import Asks, apart, judging


def file(story: Any, name: str, **more: Any) -> None:
    fields = {
        "rows": 10, "unnumbered": 0, "last_seq": 9, "missing": 0, "repeated": 0, "rejected": 0,
        "torn": 0, "orphans": 0, "first_t": 1_000_000, "backwards_ns": 0, "closed": True,
    }  # fmt: skip
    t = more.pop("t", 60_000)
    story.add("source", t, **{"process": name, "source": name, **fields, **more})


def node(story: Any, number: int, boot: int = 1, **more: Any) -> None:
    name = f"node-{number}"
    # Of a version that ZooKeeper's log, where a test has one, does not have.
    own = {"process": name, "node": number, "boot": boot, "partition_epoch": 7}
    for seq in range(10):
        story.add("isr_change", 20 + seq, seq=seq, **own)
    file(story, name, **{"node": number, "boot": boot, "closed": False, **more})


def sound(story: Any) -> None:
    """Three sources as a run leaves them: a node that died twice, torn; another's parsed log."""
    launched = [{"process": "producer", "role": "producer", "acks": 1, "topics": {"t": [0]}}]
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": launched}]
    file(story, "harness")
    file(story, "producer", orphans=3)
    node(story, 1, boot=1, torn=1)
    node(story, 1, boot=2)
    file(story, "faults-flood-1", unnumbered=10, last_seq=None, closed=False)
    file(story, "node-2", node=2, unnumbered=10, last_seq=None, first_t=None, closed=False)
    for number in (1, 2):
        story.add("node_event", 5, node=number, event="ready", process="harness")


def made_whole(story: Any) -> Any:
    """With what a test's words leave out of a row and every such row says."""
    plain = {"int32": 0, "int64": 0, "string": "x", "bool": False}
    for kind, rows in story.rows.items():
        for row in rows:
            whole = {name: row.get(name) for name in KINDS[kind].all_columns}
            for names in lacks(kind, whole):
                name = names.split("|")[0]
                word = WORDS.get(kind, {}).get(name, [None])[0]
                least = LEAST[kind].get(name, 0)
                row[name] = word or max(least, 0) or plain.get(KINDS[kind].all_columns[name], [])
    return story


def said(outcome: Outcome) -> tuple[str, str]:
    verdict, reasons = outcome.verdict([(ARM, 0)])
    return verdict, " | ".join(reasons)


@judging(check)
def test_a_sound_history_is_valid(story: Any) -> Asks:
    sound(story)
    assert said((yield made_whole(story))) == ("valid", "")


@pytest.mark.parametrize(
    ("name", "fields", "says"),
    [
        ("c", {"rejected": 2000, "reasons": json.dumps({"c.jsonl: not JSON": 1999, "x": 1})},
         "c.jsonl: 2000 lines were rejected: c.jsonl: not JSON (1999); x (1)"),
        ("c", {"missing": 1}, "c.jsonl: 1 of 10 rows are missing"),
        ("c", {"missing": 1, "last_seq": None}, "c.jsonl: 1 rows are missing"),
        ("c", {"repeated": 1}, "twice"),
        ("c", {"torn": 1, "closed": False}, "torn"),
        ("c", {"closed": False}, "did not come to the end"),
        ("c", {"unnumbered": 1}, "1 rows have no number"),
        ("faults-flood-2", {"unnumbered": 9, "last_seq": None, "closed": False},
         "faults-flood-2.jsonl: it has 10 rows, and 9 without a number"),
        ("c", {"backwards_ns": 3_000_000_000}, "went back by 3.0 s"),
        ("c", {"first_t": -9_000_000_000}, "9.0 s before the trial began"),
        ("c", {"t": 70_000}, "10.0 s after the trial's end"),
        ("node-3", {"node": 3, "boot": 2, "missing": 4, "closed": False},
         "node-3.jsonl, boot 2: 4 of 10 rows are missing"),
    ],
)  # fmt: skip
@judging(check)
def test_what_is_missing_is_named(story: Any, name: str, fields: dict[str, Any], says: str) -> Asks:
    sound(story)
    file(story, name, **fields)
    verdict, reasons = said((yield made_whole(story)))
    assert verdict == "unknown"
    assert says in reasons
    assert f"{story.arm}, trial 0" in reasons


@judging(check)
def test_who_was_launched_and_left_no_row(story: Any) -> Asks:
    sound(story)
    story.run["trials"][0]["workloads"].append({"process": "consumer", "role": "consumer"})
    file(story, "consumer", rows=0, last_seq=None, first_t=None, closed=False)
    story.add("node_event", 6, node=3, event="ready", process="harness")
    verdict, reasons = said((yield made_whole(story)))
    assert verdict == "unknown"
    assert "consumer: it was launched, and left no row" in reasons
    assert "node 3: it was ready, and left no row" in reasons


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("a boot", "node 1: it was ready in its boot 3, and left no row of it"),
        ("a boot that ended at once", "node 1: it was ready in its boot 3, and left no row of it"),
        ("a boot of one log", "node 2: it was ready in its boot 2, and left no row of it"),
        ("a boot of one log that ended at once", ""),
        ("rows", "node-1, boot 2: 3 of its 10 rows are not stored"),
        ("a row", ""),
        ("its rows", "node-1, boot 2: 10 of its 10 rows are not stored"),
        ("twice", "node-1, boot 2: 1 of its rows are stored twice"),
        ("one like it", "node-1: 1 rows have numbers that others of it have"),
        ("vague", "node-1: its rows have times that may be off by 3600.0 s"),
        ("a little vague", ""),
    ],
)
@judging(check)
def test_what_is_stored_of_a_broker(story: Any, how: str, says: str) -> Asks:
    sound(story)
    rows = story.rows["isr_change"]
    second = [row for row in rows if row["boot"] == 2]
    for boot in (1, 2):
        story.add("node_event", 5, node=1, boot=boot, event="ready", process="harness")
    match how:
        case "a boot" | "a boot that ended at once":
            story.add("node_event", 9, node=1, boot=3, event="ready", process="harness")
            if how != "a boot":
                story.add("node_event", 10, node=1, boot=3, event="kill", process="harness")
        case "a boot of one log" | "a boot of one log that ended at once":
            # Kafka's own files go on through all its lives; which is whose its lines tell.
            (log,) = (row for row in story.rows["source"] if row["process"] == "node-2")
            log["boot"] = 1
            story.add("node_event", 9, node=2, boot=2, event="ready", process="harness")
            t = 1_008 if how.endswith("at once") else 1_010
            story.add("node_event", t, node=2, boot=2, event="kill", process="harness")
        case "a row" | "rows":
            for row in second[4 : 5 if how == "a row" else 7]:
                rows.remove(row)
        case "its rows":
            rows[:] = [row for row in rows if row not in second]
        case "twice":
            rows.append(dict(second[4]))
        case "one like it":
            rows.append({**second[4], "t": second[4]["t"] + 1})
        case _:
            rows[3]["error_ns"] = 3_600_000_000_000 if how == "vague" else 2_000_000
    made_whole(story)
    verdict, reasons = said((yield apart(story) if how in ("rows", "twice") else story))
    assert verdict == ("unknown" if says else "valid")
    assert says in reasons


@pytest.mark.parametrize(
    ("outcome", "off_s", "verdict"),
    [
        ("info", 20, "valid"),  # since it was begun, and no longer
        ("info", 21, "unknown"),
        ("ok", 20, "unknown"),  # who was answered knows when
    ],
)
@pytest.mark.parametrize("kind", ["produce", "metadata", "listed_offset"])
@judging(check)
def test_what_nobody_saw_end_may_have_ended_at_any_time(
    story: Any, kind: str, outcome: str, off_s: int, verdict: str
) -> Asks:
    """An operation in flight when its client ended: until when it may have gone on is told."""
    sound(story)
    story.add(
        kind, 30_000, invoke_t=10_000, type=outcome, process="producer", node=1,
        error_ns=off_s * 1_000 * MS,
    )  # fmt: skip
    found, reasons = said((yield made_whole(story)))
    assert found == verdict, reasons
    assert (f"producer: its rows have times that may be off by {off_s}.0 s" in reasons) is (
        verdict == "unknown"
    )


def probed(story: Any, how: str, number: int) -> None:
    """The prober's operation of that number, at both ends; of the second ``how`` says what is odd.
    Its broker tells of other things before and after."""
    t, odd, api = 1000 + 1000 * number, number == 1, "LEADER_AND_ISR"
    never = odd and how.endswith("never sent")
    answer = {"type": "fail", "failure": "no free connection"} if never else {"error": 0}
    asked = {"op": 2**31 + number, "planned_t": t, "plane": "data", "process": "prober"}
    story.add("probe", t + 8, node=1, invoke_t=t, seq=number, api=api, **asked, **answer)
    told = not (odd and how.endswith(("untold", "never sent")))
    if told and not how.endswith("no broker tells"):
        own = {"client_id": "prober", "correlation_id": number, "boot": 1, "seq": 1, "api": api}
        error = 11 if odd and how.endswith("otherwise") else 0
        early = 10 if odd and how.endswith("early") else 0
        story.handled(t + 6 - early, 1, process="p", error=error, **own)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("as it should be", ""),
        ("untold", "3 of controller 2's requests to node 1 were answered, and the broker tells of"),
        ("it ended with them", ""),
        ("one untold in between", "1 of controller 2's requests to node 1 are told of by one end"),
        ("one untold, and it ended", ""),
        ("one unsent in between", "1 of controller 2's requests to node 1 are told of by one end"),
        ("one received early", "1 of controller 2's requests to node 1 were received before"),
        ("a request that nobody sent", ""),
        (
            "unsent",
            "3 of controller 2's requests to node 1 were handled, and nobody tells of having",
        ),
        ("received early", "were received before they were sent"),
        ("answered early", "3 of controller 2's requests to node 1 were received before"),
        ("a channel made anew", ""),
        ("a prober's", ""),
        ("a forger's", ""),
        ("a forger's, untold", "3 of strangers' requests to node 1 were answered, and the broker"),
        ("a forger's, unanswered", ""),
        ("a forger's, answered otherwise", "1 of strangers' requests to node 1 were handled other"),
        ("a probe", ""),
        ("a probe, untold", "1 of strangers' requests to node 1 are told of by one end"),
        ("a probe, answered otherwise", "1 of strangers' requests to node 1 were handled other"),
        ("a probe, received early", "1 of strangers' requests to node 1 were received before"),
        ("a probe, never sent", ""),
        ("a probe of which no broker tells", ""),
        ("handled otherwise", "1 of controller 2's requests to node 1 were handled otherwise, or"),
        ("handled twice", "1 of controller 2's requests to node 1 were handled otherwise, or more"),
        ("another controller's", "1 of controller 2's requests to node 1 were handled otherwise"),
        ("a leader more", "1 of controller 2's requests to node 1 were handled otherwise"),
        ("answered otherwise", "1 of controller 2's requests to node 1 were handled otherwise"),
        ("sent twice, and otherwise", ""),
        ("sent at another time", "answered 1 requests that it does not tell of having sent then"),
    ],
)
@judging(check)
def test_both_ends_of_a_request(story: Any, how: str, says: str) -> Asks:
    sound(story)
    story.handled(50, 2)
    for number in range(5):
        same = {"api": "UPDATE_METADATA", "correlation_id": number}
        t, odd, mine = 100 * number + 100, number < 3, {"node": 2, "to": 1, "seq": 1, "boot": 1}
        late = (how == "received early" and odd) or (how == "one received early" and number == 1)
        unsent = (how == "unsent" and odd) or (how == "one unsent in between" and number == 1)
        if not unsent:
            story.add("control_send", t + (50 if late else 0), **mine,
                      controller_epoch=1, broker_epoch=50, partitions=[], **same)  # fmt: skip
        lost = odd if how == "untold" else number < 2 if how == "it ended with them" else False
        if not lost and not (how.startswith("one untold") and number == 2):
            story.handled(t + 20, 1, seq=1, client_id="2", controller_id=2, **same)
        early = how == "answered early" and odd
        story.add("control_response", t + (17 if early else 30), error=0, send_t=t, **mine, **same)
    if "in between" in how or how == "one untold, and it ended":
        for node in (1, 2):  # both tell of other things before and after
            for t in (60, 5_000 if "in between" in how else 1_000):
                own = {"seq": 1, "boot": 1, "client_id": "prober", "correlation_id": 70 + t}
                story.handled(t, node, process="p", **own)
    if how in ("handled otherwise", "sent twice, and otherwise"):
        story.rows["control_request"][1]["controller_epoch"] = 2
    if how == "sent twice, and otherwise":
        story.rows["control_send"].append({**story.rows["control_send"][0], "controller_epoch": 2})
    if how == "a leader more":
        part = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 0, "error": 0}
        story.rows["control_request"][1]["partitions"] = [part]
    if how == "answered otherwise":
        story.rows["control_response"][0]["error"] = 11
    if how == "sent at another time":
        story.rows["control_response"][0]["send_t"] += MS
    if how == "a channel made anew":
        same = {"api": "UPDATE_METADATA", "correlation_id": 0}
        told = {"controller_epoch": 1, "broker_epoch": 50, "partitions": []}
        story.add("control_send", 900, **mine, **told, **same)
        story.handled(950, 1, seq=1, client_id="2", controller_id=2, **same)
    if how == "handled twice":
        story.rows["control_request"].append({**story.rows["control_request"][1], "seq": 1})
    if how == "another controller's":
        story.rows["control_request"][1]["controller_id"] = 8
    if how == "a prober's":
        story.handled(950, 1, seq=1, client_id="prober", correlation_id=77)
    if how == "a request that nobody sent":
        story.handled(950, 1, seq=1, client_id="2", controller_id=2, correlation_id=77)
    for number in range(3 if "forger" in how else 0):
        t, same = 1000 + 10 * number, {"client_id": f"f{number}", "api": "STOP_REPLICA"}
        same |= {"correlation_id": 1}
        answer = {"type": "info"} if "unanswered" in how else {"error": 11}
        story.add("forged", t + 8, node=1, invoke_t=t, seq=1, **same, **answer)
        if how in ("a forger's", "a forger's, answered otherwise"):
            story.handled(t + 6, 1, seq=1, error=11, **same)
    if how == "a forger's, answered otherwise":
        story.rows["forged"][1]["error"] = 0
    for number in range(4 if "a probe" in how and "prober" not in how else 0):
        probed(story, how, number)
    numbered = [row for rows in story.rows.values() for row in rows if row["process"] == "p"]
    for number, row in enumerate(sorted(numbered, key=lambda row: row["t"])):
        row["seq"] = number if "seq" in row else None
    made_whole(story)
    verdict, reasons = said((yield apart(story) if how == "untold" else story))
    assert verdict == ("unknown" if says else "valid"), reasons
    assert says in reasons


@judging(check)
def test_a_system_without_traces_has_none_to_lose(story: Any) -> Asks:
    file(story, "harness")
    file(story, "node-1", node=1, rows=0, last_seq=None, first_t=None, closed=False)
    story.add("node_event", 5, node=1, event="ready", process="harness")
    assert said((yield made_whole(story))) == ("valid", "")


@judging(check)
def test_a_wall_clock_that_was_set(story: Any) -> Asks:
    sound(story)
    story.run["clock"]["error_ns"] = 2_500_000_000
    verdict, reasons = said((yield made_whole(story)))
    assert (verdict, "moved by 2.5 s" in reasons) == ("unknown", True)


@judging(check)
def test_lines_rejected_where_no_file_counted_them(story: Any) -> Asks:
    sound(story)
    story.run["history"] = {"rejected": 7, "rejected_reasons": {"not JSON": 7}}
    verdict, reasons = said((yield made_whole(story)))
    assert (verdict, "7 lines were rejected: not JSON (7)" in reasons) == ("unknown", True)


@judging(check)
def test_a_history_that_nobody_counted_is_unknown(story: Any) -> Asks:
    story.produce(10, 1, 0)
    verdict, reasons = said((yield made_whole(story)))
    assert (verdict, "nobody counted" in reasons) == ("unknown", True)


# ---- what the stored rows themselves say ---------------------------------------------------------


def stored(story: Any) -> Any:
    """Sound, with a producer's operations, and what two brokers and ZooKeeper wrote down."""
    sound(story)
    for name, event, t in (("start", "begin", 1), ("final_read", "end", 60_000)):
        story.add("phase", t, name=name, event=event, process="harness")
    for i in range(600):
        t = 1_000 + 10 * i
        story.produce(t + 5, i, i, process="producer", op=i, invoke_t=t)
    for number in (1, 2):
        story.handled(2_000, number, process=f"node-{number}")
        story.add("metadata_update", 2_000, node=number, leader=1, leader_epoch=0)
        story.add("plane_use", 2_000, node=number, plane="data", api="X", requests=1)
        story.add("leader_change", 2_000, node=number, role="leader", leader=number, leader_epoch=0)
    story.add("truncation", 2_000, node=1, from_offset=8, to_offset=7)
    story.commit(100, 1, 0, isr=[1, 2], commit_ms=100)
    state = {"leader": 1, "leader_epoch": 0, "isr": [1, 2], "partition_epoch": 0}
    story.add("zk_write", 100, what="state", step="created", zxid=1, commit_ms=100, **state)
    return story


@judging(check)
def test_sound_rows(story: Any) -> Asks:
    stored(story)
    story.add("metadata", 3_000, node=1, invoke_t=2_000)
    story.rows["produce"][3]["invoke_t"] += 15 * 1_000_000  # threads overtake each other
    story.rows["produce"][3]["t"] += 15 * 1_000_000
    story.handled(3_000, 1, error_ns=2_000_000, dequeue_t=2_994)  # read off a log, to the ms
    assert said((yield made_whole(story))) == ("valid", "")


def shifted(rows: list[dict[str, Any]], ms: float) -> None:
    for row in rows:
        row["t"] += int(ms * 1_000_000)
        row["invoke_t"] += int(ms * 1_000_000)


def tamper(story: Any, how: str) -> None:
    rows = story.rows
    later = {"zxid": 2, "step": "set", "leader_epoch": 1}
    match how:
        case "answered before it was asked":
            rows["produce"][7]["t"] = rows["produce"][7]["invoke_t"] - 1
        case "handled before it was received":
            rows["control_request"][0]["handled_t"] = rows["control_request"][0]["receive_t"] - 1
        case "a clock that jumped":
            shifted(rows["produce"][280:560], -900)
            shifted(rows["produce"][300:540], -2_000)
        case "outside its file's time":
            shifted(rows["produce"][:1], -1_004.5)
        case "outside the phases":
            for source in rows["source"]:
                source["t"] = 200_000 * 1_000_000
            shifted(rows["produce"][-1:], 90_000)
        case "log unread":
            del rows["zk_write"]
        case "clocks not tied":
            del story.run["clock"]
        case "no node event":
            rows["node_event"].pop()
        case "the last state unseen":
            rows["zk_write"].append({**rows["zk_write"][0], **later})
        case "a state in between unseen":
            first = rows["zk_write"][0]
            rows["zk_write"].insert(0, {**first, "zxid": 0, "leader_epoch": 7})
            first["step"] = "set"
        case "unseen in the last moment":
            story.add("phase", 101, name="settle", event="end", process="harness")
            rows["zk_write"].append({**rows["zk_write"][0], **later})
        case "unseen, and its topic is gone":
            rows["zk_write"].append({**rows["zk_write"][0], **later})
            gone = {"zxid": 3, "what": "topic", "step": "removed", "partition": None}
            rows["zk_write"].append({**rows["zk_write"][0], **gone})
        case kind:
            rows[kind].pop()


@pytest.mark.parametrize(
    "how",
    ["a state in between unseen", "unseen in the last moment", "unseen, and its topic is gone"],
)
@judging(check)
def test_states_that_need_not_be_seen(story: Any, how: str) -> Asks:
    stored(story)
    tamper(story, how)
    assert said((yield made_whole(story))) == ("valid", "")


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("told", ""),
        ("untold", "node 1's log of t-0 begins later, and it tells of no cut of its head"),
        ("its tail was cut", "node 1's log of t-0 begins later, and it tells of no cut of its"),
        ("another replica's", "node 1's log of t-0 begins later, and it tells of no cut of its"),
        ("it begins at 0", ""),
        ("it could not be read", ""),
        ("by who numbers nothing", ""),
    ],
)
@judging(check)
def test_who_cuts_a_logs_head_says_so(story: Any, how: str, says: str) -> Asks:
    stored(story)
    read = {"log_end_offset": 9, "is_leader": True, "node": 1}
    error = "no such log" if how == "it could not be read" else None
    story.add("log_end", 3_000, log_start_offset=0 if "at 0" in how else 4, error=error, **read)
    for number, row in enumerate(story.rows["leader_change"]):
        row["seq"] = None if "numbers nothing" in how else number
    if how in ("told", "its tail was cut", "another replica's"):
        why = "diverging epoch" if "tail" in how else "log start: leader offset increment"
        node = 2 if "another" in how else 1
        story.add("truncation", 2_500, node=node, from_offset=4, to_offset=0, reason=why)
    verdict, reasons = said((yield made_whole(story)))
    assert verdict == ("unknown" if says else "valid"), reasons
    assert says in reasons


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("seen", ""),
        ("one", "node 2 was ready, and nobody saw a connection of it to ZooKeeper"),
        ("to another broker only", "node 2 was ready, and nobody saw a connection of it to"),
        ("none, in containers", ""),
        ("none, of a system that writes no trace", ""),
        ("none, without ZooKeeper", ""),
    ],
)
@judging(check)
def test_who_was_seen_connected(story: Any, how: str, says: str) -> Asks:
    """Where nodes are processes of this machine, a broker that was ready was connected."""
    stored(story)
    arm = story.run["arms"][story.arm]
    arm |= {"runtime": "docker" if "containers" in how else "process", "traces": ["plane_use"]}
    if "no trace" in how:
        arm["traces"] = []
    if "without" in how:
        del story.rows["zk_write"]
        story.rows["leadership"][0]["source"] = "controller"
    for node in (1, 2) if how == "seen" else () if "none" in how else (1,):
        story.add("connection", 90, node=node, to=node, link="zookeeper", connections=1)
    if "another" in how:
        story.add("connection", 90, node=2, to=1, link="inter-broker", connections=1)
    verdict, reasons = said((yield made_whole(story)))
    assert verdict == ("unknown" if says else "valid"), reasons
    assert says in reasons


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("answered before it was asked", "producer, produce: 1 of 600 rows have times that cannot"),
        ("handled before it was received", "control_request: 1 of"),
        ("a clock that jumped", "producer, produce: operations were begun 2."),
        ("outside its file's time", "producer, produce: there are rows from outside the time of"),
        ("outside the phases", "producer, produce: there are rows from outside the trial's phases"),
        ("log unread", "its own log was not read"),
        ("the last state unseen", "ZooKeeper's log has a last state of t-0 that nobody saw"),
        ("clocks not tied", "ZooKeeper's clock cannot be compared"),
        ("no node event", "nobody tells of the life of node 2"),
        ("control_request", "node 2 wrote no row of control_request, as others did"),
        ("metadata_update", "node 2 wrote no row of metadata_update, as others did"),
        ("plane_use", "node 2 wrote no row of plane_use, as others did"),
        ("leader_change", "node 2 wrote no row of leader_change, as others did"),
    ],
)
@judging(check)
def test_rows_that_cannot_be_or_are_not_there(story: Any, how: str, says: str) -> Asks:
    stored(story)
    tamper(story, how)
    made_whole(story)
    verdict, reasons = said((yield apart(story) if how.startswith("answered") else story))
    assert verdict == "unknown"
    assert says in reasons


@judging(check)
def test_who_had_no_replica_leads_and_follows_nothing(story: Any) -> Asks:
    stored(story)
    story.rows["leader_change"].pop()
    story.rows["leadership"][0]["isr"] = [1]
    assert said((yield made_whole(story))) == ("valid", "")


@pytest.mark.parametrize(("leaders", "verdict"), [("shown", "valid"), ("written", "unknown")])
@judging(check)
def test_only_a_black_box_is_known_by_what_it_shows(story: Any, leaders: str, verdict: str) -> Asks:
    """Of a system whose decisions can be read they are: what is judged less of a black box is not
    to be had by forging where a row came from."""
    sound(story)
    story.run["arms"][story.arm]["leaders"] = leaders
    story.add(
        "leadership", 30, topic="t", partition=0, leader=1, leader_epoch=0, partition_epoch=0,
        isr=[1], source="shown", process="harness",
    )  # fmt: skip
    found, reasons = said((yield made_whole(story)))
    assert found == verdict, reasons
    assert ("what brokers showed" in reasons) is (verdict == "unknown")


# ---- rows that say nothing, and rows that are not those that were stored -------------------------


def spoil(story: Any, how: str) -> None:
    """``kind.column``: null in one row; ``kind.column=word``: that word."""
    place, _, word = how.partition("=")
    kind, name = place.split(".")
    number = word.removeprefix("-").isdigit()
    story.rows[kind][-1][name] = int(word) if number else word or None


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("produce.type", "producer, produce: 1 of 600 rows do not say what every such row says"),
        ("produce.type=OK", "producer, produce: 1 of 600 rows do not say"),
        ("produce.partition", "producer, produce: 1 of 600 rows"),
        ("produce.error=7", "producer, produce: 1 of 600 rows do not say"),  # it is ok
        ("produce.leader_epoch", ""),  # most clients do not say it
        ("control_request.error", "node-2, control_request: 1 of 1 rows"),
        ("control_request.plane=both", "node-2, control_request: 1 of 1 rows"),
        ("plane_use.requests", "plane_use: 1 of 2 rows"),
        ("plane_use.requests=0", "plane_use: 1 of 2 rows"),
        (
            "leader_change.leader_epoch",
            "leader_change: 1 of 2 rows do not say what every such row says",
        ),
        ("leader_change.log_end_offset", ""),
        ("leadership.isr", "leadership: 1 of 1 rows do not say"),
        ("zk_write.leader", "zk_write: 1 of 1 rows"),
        ("zk_write.step=undone", "zk_write: 1 of 1 rows"),
        ("truncation.to_offset=9", "truncation: 1 of 1 rows do not say"),  # beyond where it cut
        ("truncation.to_offset=8", ""),
        ("node_event.event=born", "node_event: 1 of 2 rows"),
        ("phase.name", "phase: 1 of 2 rows do not say what every such row says (name)"),
        ("phase.t", "phase: 1 of 2 rows do not say what every such row says (t)"),
        ("node_event.t", "node_event: 1 of 2 rows do not say what every such row says (t)"),
        ("produce.t", "producer, produce: 1 of 600 rows do not say"),
        ("produce.partition=-1", "producer, produce: 1 of 600 rows do not say"),
        ("control_request.node=1", "node-2, control_request: 1 of 1 rows do not say"),
        ("leader_change.role=follower", "leader_change: 1 of 2 rows do not say"),
        ("leader_change.leader=-2", "leader_change: 1 of 2 rows do not say"),
    ],
)
@judging(check)
def test_rows_that_do_not_say_what_their_kind_says(story: Any, how: str, says: str) -> Asks:
    stored(story)
    made_whole(story)
    spoil(story, how)
    verdict, reasons = said((yield story))
    assert verdict == ("unknown" if says else "valid"), reasons
    assert says in reasons


@judging(check)
def test_what_only_some_rows_of_a_kind_say(story: Any) -> Asks:
    """A removed state has no leader, a topic that went no partition; a failure may have no code."""
    stored(story)
    bare = {"zxid": 5, "commit_ms": 1, "step": "removed"}
    story.add("zk_write", 110, what="state", **bare)
    story.add("zk_write", 110, what="topic", **{**bare, "partition": None})
    story.add("leadership", 120, leader=1, leader_epoch=0, source="shown", process="harness")
    story.run["arms"][story.arm]["leaders"] = "shown"
    for error in ({"error": 7}, {"failure": "timeout"}):
        story.produce(9_000, 700, None, process="producer", type="info", **error)
    story.add("fetch", 9_000, topic=None, partition=None, poll=1, process="producer")
    assert said((yield made_whole(story))) == ("valid", "")


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"produce": {"producer": 600}}, ""),
        ({"produce": {"producer": 601}}, "producer, produce: 600 rows are there, of which 601"),
        ({"produce": {"producer": 599}}, "producer, produce: 600 rows are there, of which 599"),
        ({"produce": {"producer-2": 600}}, "producer-2, produce: 0 rows are there, of which 600"),
        ({"fetch": {"consumer": 1}, "produce": {"producer": 600}}, "consumer, fetch: 0 rows are"),
        ({"phase": {"harness": 1}, "produce": {"producer": 600}}, "harness, phase: 2 rows are"),
    ],
)
@judging(check)
def test_as_many_rows_as_were_stored(
    story: Any, told: dict[str, dict[str, int]], says: str
) -> Asks:
    """Accounts are of files: those of several add up."""
    stored(story)
    others = {k: Counter(r["process"] for r in rows) for k, rows in story.rows.items()}
    del others["source"], others["produce"]
    for kind, of in {**others, **told}.items():
        file(story, f"file-{kind}", stored=json.dumps({kind: of}))
    made_whole(story)
    verdict, reasons = said((yield apart(story) if "601" in says else story))
    assert verdict == ("unknown" if says else "valid"), reasons
    assert says in reasons


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ((1, 2), ""),
        ((1,), "node 1: it left rows of its boot 2, and nobody tells of that start"),
        ((), ""),  # nobody writes down which boot it is
    ],
)
@judging(check)
def test_boots_are_told_of(story: Any, told: tuple[int, ...], says: str) -> Asks:
    sound(story)
    for number, boot in enumerate(told):
        t = 3 if not number else 8
        if number:
            story.add("node_event", 7, node=1, boot=1, event="exited", process="harness")
        story.add("node_event", t, node=1, boot=boot, event="start", process="harness")
    verdict, reasons = said((yield made_whole(story)))
    assert verdict == ("unknown" if says else "valid")
    assert says in reasons
