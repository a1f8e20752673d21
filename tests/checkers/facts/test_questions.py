"""What clients that ask several things in turn never asked, or whom, or about what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.facts.questions import left_out
from checkers.history.frames import History
from tests.checkers.conftest import Story

READER, KEEPER, STRANGER = "offset-reader", "group-keeper", "group-stranger"
ASKER = "refused-asker"
APIS = (
    *("CREATE_TOPICS", "DELETE_TOPICS", "CREATE_PARTITIONS", "ALTER_PARTITION_REASSIGNMENTS"),
    *("ELECT_LEADERS", "INCREMENTAL_ALTER_CONFIGS", "DELETE_RECORDS"),
)
OF_TOPICS = "metadata-reader"
Rows = dict[str, list[dict[str, Any]]]


def sound() -> Story:
    """Three brokers, of which the second leads, and two partitions; everything is asked for 6 s."""
    story = Story()
    for node in (1, 2, 3):
        story.add("node_event", 5, node=node, event="ready")
        for t in range(1_000, 7_000, 500):
            for partition in (0, 1):
                reads(story, t, node, partition)
            leads = {} if node == 2 else {"type": "fail", "error": 16, "offset": -1}
            for step in ("commit", "ask", "delete", "join", "look", "clear"):
                about = {"group": "kept", "step": step, "node": node, "process": KEEPER}
                story.add("group_step", t, **{"error": 0, "offset": 7, **about, **leads})
            for topic in ("t", "u"):
                number = (t - 1_000) // 500 * 3 + node - 1
                story.read(t, node, 0, topic=topic, process=OF_TOPICS, read=number, error=0)
            for api in APIS:
                story.add("admin_request", t, node=node, process=ASKER, api=api, wanted=39)
            asked = {"node": node, "process": STRANGER, "group": "g"}
            story.add("commit", t, **asked, type="fail", error=25, offset=0)
            story.add("committed", t, **asked, offset=3)
            story.add("coordinator", t, **asked, error=0, coordinator=2)
    return story


def reads(story: Story, t: int, node: int, partition: int) -> None:
    asked = {"node": node, "partition": partition, "process": READER}
    told: dict[str, Any] = {"error": 0, "offset": 5, "leader_epoch": 1, **asked}
    if node != 2:
        told |= {"type": "fail", "error": 6, "offset": -1, "leader_epoch": -1}
    for asked_ms in (-1, -2, 1_700_000_000_000):
        story.add("listed_offset", t, **told, asked_ms=asked_ms, believed_epoch=-1)
    fenced = {"type": "fail", "error": 74, "offset": -1, "leader_epoch": -1, **asked}
    story.add("listed_offset", t, **fenced, asked_ms=-1, believed_epoch=0)
    story.add("epoch_end", t, **told, asked_epoch=0, believed_epoch=1)
    story.add("read_at", t, **told, believed_epoch=1)


def without(kind: str, condition: Callable[[dict[str, Any]], bool]) -> Callable[[Rows], None]:
    def edit(rows: Rows) -> None:
        rows[kind] = [row for row in rows[kind] if not condition(row)]

    return edit


def refused(rows: Rows) -> None:
    for row in rows["epoch_end"]:
        row |= {"type": "fail", "error": 6, "leader_epoch": -1}


def still_in_its_first_epoch(rows: Rows) -> None:
    """Nobody can ask where an epoch before it ended."""
    rows["epoch_end"] = []
    for row in rows["listed_offset"]:
        row["leader_epoch"] = min(row["leader_epoch"], 0)


def over_at_once(rows: Rows) -> None:
    kinds = ("listed_offset", "epoch_end", "read_at", "group_step", "commit", "committed")
    for kind in (*kinds, "coordinator", "admin_request"):
        rows[kind] = [row for row in rows[kind] if row["t"] < 2_000 * 1_000_000]
    rows["epoch_end"] = []


def gone(rows: Rows) -> None:
    """Topic u is deleted: no broker knows it any more, and each says so."""
    for row in rows["metadata"]:
        if row["topic"] == "u" and row["t"] > 4_000 * 1_000_000:
            row |= {"type": "fail", "error": 3, "partition": None, "leader": None}


def never_ready(rows: Rows) -> None:
    rows["node_event"] = [row for row in rows["node_event"] if row["node"] != 3]
    for kind in ("listed_offset", "epoch_end", "read_at", "admin_request"):
        rows[kind] = [row for row in rows[kind] if row["node"] != 3]


def soon_away(rows: Rows) -> None:
    """Before there was a second leader epoch."""
    without("listed_offset", lambda r: r["node"] == 3 and r["t"] > 3_000 * 1_000_000)(rows)
    without("epoch_end", lambda r: r["node"] == 3)(rows)
    without("read_at", lambda r: r["node"] == 3 and r["t"] > 3_000 * 1_000_000)(rows)


EDITS: dict[str, tuple[Callable[[Rows], None], str | None]] = {
    "sound": (lambda rows: None, None),
    "no ends": (
        without("listed_offset", lambda r: r["asked_ms"] == -1 and r["believed_epoch"] < 0),
        "offset-reader (offset-reader): nobody answered it when it asked where logs end",
    ),
    "no beginnings": (
        without("listed_offset", lambda r: r["asked_ms"] == -2),
        "offset-reader (offset-reader): nobody answered it when it asked where logs begin",
    ),
    "no times": (
        without("listed_offset", lambda r: r["asked_ms"] > 0),
        "offset-reader (offset-reader): nobody answered it when it asked where records of a time "
        "are",
    ),
    "no other beliefs": (
        without("listed_offset", lambda r: r["believed_epoch"] >= 0),
        "offset-reader (offset-reader): nobody answered it when it asked anything, as one who "
        "believes in another leader epoch",
    ),
    "no epochs": (
        without("epoch_end", lambda r: True),
        "offset-reader (offset-reader): nobody answered it when it asked where leader epochs end",
    ),
    "no reads": (
        without("read_at", lambda r: True),
        "offset-reader (offset-reader): nobody answered it when it asked for what is at the end",
    ),
    "epochs refused": (
        refused,
        "offset-reader (offset-reader): nobody answered it when it asked where leader epochs end",
    ),
    "a partition": (
        without("listed_offset", lambda r: r["partition"] == 0),
        "offset-reader (offset-reader): it never asked about t-0",
    ),
    "a partition of one broker": (
        without("listed_offset", lambda r: r["partition"] == 1 and r["node"] == 3),
        "offset-reader (offset-reader): it never asked node 3 about t-1",
    ),
    "no asks": (
        without("group_step", lambda r: r["step"] == "ask"),
        "group-keeper (group-keeper): nobody answered it when it asked for a position",
    ),
    "no deletions": (
        without("group_step", lambda r: r["step"] == "delete"),
        "group-keeper (group-keeper): nobody answered it when it asked to delete a group",
    ),
    "no joins": (
        without("group_step", lambda r: r["step"] == "join"),
        "group-keeper (group-keeper): nobody answered it when it asked to join a group",
    ),
    "no looks": (
        without("group_step", lambda r: r["step"] == "look"),
        "group-keeper (group-keeper): nobody answered it when it asked who is in a group",
    ),
    "no positions deleted": (
        without("group_step", lambda r: r["step"] == "clear"),
        "group-keeper (group-keeper): nobody answered it when it asked to delete a position",
    ),
    "a topic": (
        without("metadata", lambda r: r["topic"] == "u"),
        "metadata-reader (metadata-reader): nobody told it of topic u",
    ),
    "a topic from some time on": (
        without("metadata", lambda r: r["topic"] == "u" and r["t"] > 4_000 * 1_000_000),
        "metadata-reader (metadata-reader): 15 of 36 answers say nothing of topic u",
    ),
    "a topic that is gone, once it is": (
        lambda rows: (gone(rows), without("metadata", lambda r: r["error"] == 3)(rows))[1],
        "metadata-reader (metadata-reader): 15 of 36 answers say nothing of topic u",
    ),
    "a broker": (
        without("group_step", lambda r: r["node"] == 1),
        "group-keeper (group-keeper): it never asked node 1, or was answered by errors alone",
    ),
    "no moves": (
        without("admin_request", lambda r: r["api"] == "ALTER_PARTITION_REASSIGNMENTS"),
        "refused-asker (refused-asker): nobody answered it when it asked for moves that cannot be "
        "made",
    ),
    "a broker of which nothing impossible was asked": (
        without("admin_request", lambda r: r["node"] == 2),
        "refused-asker (refused-asker): it never asked node 2, or was answered by errors alone",
    ),
    "no coordinator": (
        without("coordinator", lambda r: True),
        "group-stranger (group-stranger): nobody answered it when it asked who coordinates its "
        "group",
    ),
    "no commits": (
        without("commit", lambda r: True),
        "group-stranger (group-stranger): nobody answered it when it asked to keep a position",
    ),
    "a broker of one kind": (
        without("coordinator", lambda r: r["node"] == 1),
        "group-stranger (group-stranger): it never asked node 1 (coordinator), which it asked "
        "other things",
    ),
    # Lawful, and looks similar.
    "a topic that is gone": (gone, None),
    "the last answer, in part": (
        without("metadata", lambda r: r["topic"] == "u" and r["read"] == 35),
        None,
    ),
    "answers that were lost": (
        lambda rows: [
            row.update(topic=None, partition=None, error=None, failure="timeout", type="info")
            for row in rows["metadata"]
            if row["t"] > 5_000 * 1_000_000
        ],
        None,
    ),
    "a broker that was soon away": (soon_away, None),
    "the first epoch goes on": (still_in_its_first_epoch, None),
    "over at once": (over_at_once, None),
    "a broker that never came up": (never_ready, None),
}


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, list[str]]:
    """All edits as trials of one history."""
    rows: Rows = {}
    workloads: list[dict[str, Any]] = [
        {"process": role, "role": role} for role in (READER, KEEPER, STRANGER, ASKER)
    ]
    workloads.append({"process": OF_TOPICS, "role": OF_TOPICS, "topics": {"t": [], "u": []}})
    for number, (edit, _) in enumerate(EDITS.values()):
        own = sound().rows
        edit(own)
        for kind, items in own.items():
            rows.setdefault(kind, []).extend({**row, "trial": number} for row in items)
    arm = sound().arm
    trials = [{"arm": arm, "trial": n, "workloads": workloads} for n in range(len(EDITS))]
    found = left_out(History.of(spark, rows, {**sound().run, "trials": trials}))
    names = list(EDITS)
    by: dict[str, list[str]] = {name: [] for name in names}
    for (_, trial), why in found:
        by[names[trial]].append(why)
    return by


@pytest.mark.parametrize("name", EDITS)
def test_what_was_left_out_is_told(name: str, told: dict[str, list[str]]) -> None:
    says = EDITS[name][1]
    assert told[name] == ([] if says is None else [says])
