"""Rows whose times do not stand in the order of their numbers, and what only looks like it."""

from __future__ import annotations

from typing import Any

from checkers.promises.evidence.sequences import disordered
from tests.checkers.conftest import Story

Told = tuple[str, float, int | None, dict[str, Any]]


def writes(*rows: Told, clients: tuple[str, ...] = ()) -> Story:
    """(kind, t in ms, number, more) of one writer."""
    story = Story()
    launched = [{"process": name, "role": "producer"} for name in clients]
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "workloads": launched}]
    for kind, t, seq, more in rows:
        story.add(kind, t, seq=seq, **{"process": clients[0] if clients else "w", **more})
    return story


def dense(odd: int, off_ms: float, n: int = 400) -> Story:
    """A client that writes a row each 20 ms; one of them is of another time."""
    times = [20 * seq + (off_ms if seq == odd else 0) for seq in range(n)]
    rows = [("produce", t, seq, {"value": seq}) for seq, t in enumerate(times)]
    return writes(*rows, clients=("c",))


NODE = {"node": 1, "boot": 1}
STORIES: dict[str, tuple[Story, bool]] = {
    "in order": (writes(("phase", 1, 0, {}), ("fault", 2, 1, {}), ("phase", 3, 2, {})), False),
    "one of an earlier time": (writes(("phase", 5_000, 0, {}), ("fault", 2, 1, {})), True),
    "threads that overtake": (writes(("phase", 900, 0, {}), ("fault", 2, 1, {})), False),
    "without numbers": (writes(("phase", 5_000, None, {}), ("fault", 2, 1, {})), False),
    "of unsure time": (
        writes(("phase", 5_000, 0, {}), ("zk_write", 2, 1, {"error_ns": 1_000_000})),
        False,
    ),
    "told afterwards": (writes(("phase", 5_000, 0, {}), ("leadership", 2, 1, {})), False),
    "of two writers": (writes(("phase", 5_000, 0, {}), ("fault", 2, 1, {"process": "v"})), False),
    "of another boot": (
        writes(("isr_change", 5_000, 0, NODE), ("isr_change", 2, 1, {**NODE, "boot": 2})),
        False,
    ),
    "of two kinds of a boot": (
        writes(("isr_change", 5_000, 0, NODE), ("truncation", 2, 1, NODE)),
        True,
    ),
    "a number twice": (writes(("phase", 1, 7, {}), ("fault", 2, 7, {})), True),
    "a number twice, of unsure time": (
        writes(("zk_write", 1, 7, {"error_ns": 1}), ("zk_write", 2, 7, {"error_ns": 1})),
        True,
    ),
    "a client's number twice": (
        writes(*(("produce", 20 * n, min(n, 70), {}) for n in range(72)), clients=("c",)),
        True,
    ),
    "the same number of two blocks": (
        writes(*(("produce", 20 * n, n, {}) for n in (1, 65, 129)), clients=("c",)),
        False,
    ),
    "a client's, in order": (dense(200, 0), False),
    "a client's, 3 s early": (dense(200, -3_000), True),
    "a client's, 3 s late": (dense(200, 3_000), True),
    "a client's, off by less than a block and its threads": (dense(200, 500), False),
}


def test_times_along_the_numbers(spark: Any) -> None:
    from checkers.history.frames import History

    rows: dict[str, list[dict[str, Any]]] = {}
    trials = []
    for number, (story, _) in enumerate(STORIES.values()):
        trials += [{**one, "trial": number} for one in story.run["trials"]]
        for kind, items in story.rows.items():
            rows.setdefault(kind, []).extend({**row, "trial": number} for row in items)
    clients = {one["process"] for trial in trials for one in trial["workloads"]}
    assert clients == {"c"}
    found = disordered(History.of(spark, rows, {**Story().run, "trials": trials}))
    told = [list(STORIES)[key[1]] for key, _ in found]
    assert told == [name for name, (_, odd) in STORIES.items() if odd]
    said = {list(STORIES)[key[1]]: says for key, says in found}
    assert said["one of an earlier time"].startswith("w: rows have times 5.0 s before")
    assert said["a client's number twice"] == "c: 1 rows have numbers that others of it have"
