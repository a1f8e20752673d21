"""Who waits for what is done, for `checkers.promises.administration`.

Whoever asks for a topic, for more partitions, for an election or for a deletion is answered when
the controller's broker knows of what came of it, which its own UpdateMetadata tells it: that wakes
who waits (DelayedCreatePartitions, DelayedDeleteTopics and DelayedElectLeader of Kafka, by
KafkaApis.handleUpdateMetadataRequest). If nothing does, the answer comes as its time is up, and
says that it was done, or that it was not: late, and right.

- ``answer-withheld``: a controller that nothing disturbed answers later than `WITHHELD_NS` after
  all that was asked for stood in ZooKeeper: each partition of a topic has a leader, the preferred
  replica leads, the topic is gone.

Lawful, and looks similar: who asks again, for what was there when it asked, is answered at once,
and so is nobody whose controller lost its office meanwhile; a topic whose deletion was asked for
before it was made; one that was made again; a leader that led for a moment. How long what was asked
for takes itself says nothing here: a broker that is away holds a deletion up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from checkers.facts.office import written
from checkers.judging.witness import Finding, Pick

RULE: Final = "answer-withheld"
AWAITED: Final = "answers that came when what was asked for was there"
WITHHELD_NS: Final = 5_000_000_000
"""Milliseconds, for who is not disturbed; and less than anybody allows a request here."""
_ANSWERED: Final = (0, 7)
"""NONE, REQUEST_TIMED_OUT."""
_MAKING: Final = ("CREATE_TOPICS", "CREATE_PARTITIONS")
Row = Mapping[str, Any]
Trial = tuple[str, int]


def withheld(
    trial: Trial,
    requests: Sequence[Row],
    log: Sequence[Row],
    dying: Sequence[Row],
    is_fit: Callable[[int, int, int], bool],
    saw: Callable[[], object],
) -> Iterator[Finding]:
    """``requests``: an operator's sound ones; ``log``: ZooKeeper's own, in its order; ``dying``:
    `topic_deletion`; ``is_fit``: of a controller, and from when until when (ns), whether it was in
    office, and nothing can have kept it from hearing; ``saw``: of each that is judged. One finding
    for each kind of request."""
    of = by_topic(log)
    told: set[str] = set()
    for request in requests:
        if request["error"] not in _ANSWERED or not request["about"]:
            continue
        done = done_by(request, of, dying)
        if done is None or not is_fit(request["node"], request["invoke_t"], request["t"]):
            continue
        saw()
        late_ns = request["t"] - max(done["t"], request["invoke_t"])
        if late_ns < WITHHELD_NS or request["api"] in told:
            continue
        told.add(request["api"])
        yield Finding(
            RULE,
            f"node {request['node']}, which was controller, was asked for {request['api']} "
            f"{request['about']}, and answered {late_ns / 1e9:.1f} s after it was done",
            *trial,
            (
                Pick("admin_request", {"process": request["process"], "op": request["op"]}, rows=1),
                written(done),
            ),
        )


def by_topic(log: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in log:
        if row["topic"] is not None:
            found.setdefault(row["topic"], []).append(row)
    return found


def done_by(request: Row, of: Mapping[str, Sequence[Row]], dying: Sequence[Row]) -> Row | None:
    """The write after which nothing was left to wait for, until the answer; None: there is none,
    or it was undone. ``of``: ZooKeeper's log, `by_topic`."""
    api, about, t = request["api"], request["about"], request["t"]
    if api == "ELECT_LEADERS":
        topic, _, partition = about.rpartition("-")
        return _elected([r for r in of.get(topic, ()) if r["t"] <= t], int(partition))
    rows = [r for r in of.get(about, ()) if r["t"] <= t]
    if api == "DELETE_TOPICS":
        lives = [r for r in rows if r["what"] == "topic"]
        return lives[-1] if lives and lives[-1]["step"] == "removed" else None
    if api not in _MAKING or any(r["topic"] == about and r["t"] <= t for r in dying):
        return None
    return _made(rows)


def _made(rows: Sequence[Row]) -> Row | None:
    """The last first state of all partitions."""
    assigned = {r["partition"] for r in rows if r["what"] == "topic"} - {None}
    states: dict[int, Row] = {}
    for row in rows:
        if row["what"] == "state" and row["leader"] is not None:
            states.setdefault(row["partition"], row)
    if not assigned or not assigned <= states.keys():
        return None
    return max((states[p] for p in assigned), key=lambda r: int(r["t"]))


def _elected(rows: Sequence[Row], partition: int) -> Row | None:
    """Since when its first assigned replica has led."""
    first: int | None = None
    since: Row | None = None
    for row in rows:
        if row["partition"] != partition:
            continue
        if row["what"] == "topic" and row["replicas"]:
            first = row["replicas"][0]
        elif row["what"] == "state" and row["leader"] is not None:
            leads = row["leader"] == first
            since = (since or row) if leads else None
    return since
