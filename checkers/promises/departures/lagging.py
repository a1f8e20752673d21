"""Lagging: whoever is kept from fetching for far longer than replica.lag.time.max.ms, and stays in
sync, or for less, and is dropped, for `checkers.promises.departures`.

The harness keeps a follower from fetching (fault ``isr-lag``: it is stopped, or its leader's link
is cut), or from ever having what its leader has though it fetches again and again (``trickle``),
and says from when on and under which limit. Its leader is to drop it (KIP-16) within one and a half
times that, which is how often leaders look; `SLACK_NS` more, and it is a violation
(``lagging-in-sync``). Who is kept from it for `LONG_NS` beyond that, and is in sync all the while,
is so on a busy machine, too (``lagging-for-long``).

Until that limit it lags by nothing that counts, and stays (``dropped-too-soon``): each set without
it costs a commit, and acks=all a replica. It had what its leader has when it was last answered, a
moment before it was stopped: acks=all was acknowledged, before it was dropped, to a record that was
sent to that partition by then, or at most a quarter of the limit before. Who is in sync may lag
already; of those nobody knows since when, and they are not judged. That holds for whatever else it
followed its leader in, in sync: the same fetches bring that. Who does not wait for the limit drops
most of them too soon, and fewer than half of them prove nothing.

Who fetches again, but over so long a way that some records are written before each answer is there,
is one round behind, never more, and has not lagged (Replica.updateFetchStateOrThrow counts what the
fetch before was answered with): its leader waits for it with what it commits
(Partition.maybeIncrementLeaderHW), so that it is let in (``not-let-in``), and it stays
(``dropped-too-soon``). Where fewer than min.insync.replicas are in sync a leader commits nothing,
and lets in who has what was committed before, however far behind: where more than one has to be,
nobody is judged.

Lawful, and looks similar: a follower of a leader that takes no records lacks nothing, and stays; a
leader that dies or is deposed meanwhile begins to count anew; no controller, no smaller set. So
only where clients had a record acknowledged (acks=1) by that partition in the first half of that
time, no other leader was committed in it, and controller and follower stayed what they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.details import all_details
from checkers.facts.faults import Fault, faults
from checkers.facts.lives import runs
from checkers.facts.office import in_order, written
from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from checkers.history.frames import History

RULE: Final = "lagging-in-sync"
HELD: Final = "followers kept from fetching for long"
SOON: Final = "followers kept from fetching and dropped"
AFAR: Final = "followers that came back one round behind"
SLACK_NS: Final = 3_000_000_000
"""For a busy machine: the look, the proposal, and its commit take milliseconds."""
LONG: Final = "lagging-for-long"
LONG_NS: Final = 5_000_000_000
"""As long as what is held against somebody on a busy machine."""
LET_IN_NS: Final = 2_000_000_000
"""Beyond that, who has come back has caught up, and is committed in sync."""
_FAULT: Final = "isr-lag"
_WAYS: Final = ("pause", "cut", "trickle")
_SPANS: Final = (
    "topic string, partition int, arm string, trial int, _number int, _from bigint, _to bigint"
)
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Held:
    """``due_t``: when the smaller set had to be there."""

    trial: tuple[str, int]
    topic: str
    partition: int
    leader: int
    nodes: frozenset[int]
    from_t: int
    due_t: int
    let_go_t: int
    lag_ns: int

    @property
    def known(self) -> dict[str, Any]:
        return {"topic": self.topic, "partition": self.partition}


def lagging(history: History, outcome: Outcome) -> Iterator[Finding]:
    held = list(_held(history))
    if not held or not history.has("produce"):
        return
    written_to = _written_to(history, held)
    rows = in_order(history)
    for number, one in enumerate(held):
        mine = [row for row in rows if (row["arm"], row["trial"]) == one.trial]
        disturbed = number not in written_to or not _undisturbed(one, mine)
        if disturbed or _others_stopped(history, one):
            outcome.unjudged(one.trial[0], "a follower that was kept from fetching, in unrest")
            continue
        outcome.saw(*one.trial, HELD)
        states = _kept_in(one, mine)
        if states:
            yield _finding(RULE, one, states[-1])
        longer = replace(one, due_t=one.due_t + LONG_NS)
        if not states or one.let_go_t < longer.due_t or not _undisturbed(longer, mine):
            continue
        states = _kept_in(longer, mine)
        if states and not _others_stopped(history, longer):
            yield _finding(LONG, longer, states[-1])


def _kept_in(one: _Held, rows: list[Row]) -> list[Row]:
    """The states of its partition until it was due, if all that were in force since it was held
    have it in sync."""
    states = [row for row in rows if _is_of(one, row) and row["t"] <= one.due_t]
    always = all(one.nodes & set(row["isr"] or ()) for row in _since(states, one.from_t))
    return states if always else []


def too_soon(history: History, outcome: Outcome) -> Iterator[Finding]:
    """Of who was stopped or cut off at once; who trickles began to lag nobody knows when."""
    rows = in_order(history)
    found: list[tuple[_Held, Row]] = []
    for one in _all_held(history, ("pause", "cut")):
        near = [
            row
            for row in rows
            if (row["arm"], row["trial"]) == one.trial
            and (row["what"] == "state" and row["isr"])
            and row["t"] < one.due_t
        ]
        for place in sorted({(row["topic"], row["partition"]) for row in near}):
            states = [row for row in near if (row["topic"], row["partition"]) == place]
            dropped = _dropped(one, states)
            if dropped is None:
                continue
            found.append((one, dropped))
    had_all = _had_all(history, found)
    dropped_by: dict[tuple[str, int], list[tuple[_Held, Row, int]]] = {}
    for number, (one, dropped) in enumerate(found):
        if number in had_all:
            outcome.saw(*one.trial, SOON)
            dropped_by.setdefault(one.trial, []).append((one, dropped, had_all[number]))
        else:
            says = (
                "a follower that was dropped, and may have lagged before it was kept from fetching"
            )
            outcome.unjudged(one.trial[0], says)
    for trial, drops in sorted(dropped_by.items()):
        early = [(one, row) for one, row, had_all_t in drops if _is_early(one, row, had_all_t)]
        if 2 * len(early) >= len(drops):
            yield from (_soon(one, row) for one, row in early)
        elif early:
            says = (
                f"{len(early)} of {len(drops)} followers dropped too soon: fewer than half of them"
            )
            outcome.unjudged(trial[0], says)


def from_afar(history: History, outcome: Outcome) -> Iterator[Finding]:
    rows = in_order(history)
    for fault, detail in _faults(history, ("cut",)):
        if detail.get("far_until_t") is None:
            continue
        one = replace(_of_detail(fault.trial, detail), from_t=int(detail["let_go_t"]))
        one = replace(one, due_t=one.from_t + one.lag_ns * 3 // 2 + LET_IN_NS)
        mine = [row for row in rows if (row["arm"], row["trial"]) == one.trial]
        states = _since([row for row in mine if _is_of(one, row)], one.from_t)
        joined = next((row for row in states if one.nodes <= set(row["isr"] or ())), None)
        is_in = joined is not None and joined["t"] <= one.due_t
        until_t = int(detail["far_until_t"])
        looked = replace(one, due_t=until_t if is_in else one.due_t)
        if not history.has("produce") or not _written_to(history, [one]):
            outcome.unjudged(one.trial[0], "a follower that came back, and nobody wrote meanwhile")
            continue
        least = history.run.topic(*one.trial, one.topic).min_insync_replicas
        if least > 1 or not _undisturbed(looked, mine) or _others_stopped(history, looked):
            outcome.unjudged(one.trial[0], "a follower that came back one round behind, in unrest")
            continue
        outcome.saw(*one.trial, AFAR)
        if not is_in:
            if states and until_t >= one.due_t:
                yield _afar("not-let-in", one, joined or states[-1])
            continue
        assert joined is not None
        for row in states:
            if joined["t"] < row["t"] <= until_t and not one.nodes <= set(row["isr"] or ()):
                yield _afar("dropped-too-soon", one, row)
                break


def _afar(rule: str, one: _Held, state: Row) -> Finding:
    after_s = (state["t"] - one.from_t) / 1e9
    return Finding(
        rule,
        f"leader {one.leader} of {one.topic}-{one.partition} had {list(state['isr'] or ())} in "
        f"sync {after_s:.2f} s after {sorted(one.nodes)} could fetch again, one round behind",
        *one.trial,
        (
            Pick("fault", {"fault": _FAULT}, from_t=one.from_t - SLACK_NS, last=True, rows=1),
            written(state),
        ),
    )


def _had_all(history: History, drops: Sequence[tuple[_Held, Row]]) -> dict[int, int]:
    """By the number of a drop, when the last record was sent (ns) that acks=all was acknowledged to
    before it: by then, but for one fetch, every member had had all that its leader had
    (Replica.updateFetchStateOrThrow). Not of those of whom that is too long ago."""
    if not drops or not history.has("produce"):
        return {}
    spans = [
        {
            **{"arm": one.trial[0], "trial": one.trial[1], "_number": number},
            **{"topic": row["topic"], "partition": row["partition"]},
            **{"_from": one.from_t - one.lag_ns // 4, "_to": row["t"] - (row["error_ns"] or 0)},
        }
        for number, (one, row) in enumerate(drops)
    ]
    table = F.broadcast(history.table(spans, _SPANS))
    acked = history.frame("produce").where("type = 'ok' and acks = -1")
    found = acked.join(table, ["arm", "trial", "topic", "partition"])
    found = found.where("invoke_t > _from and t < _to")
    last = found.groupBy("_number").agg(F.max("invoke_t").alias("_t")).toArrow().to_pylist()
    return {row["_number"]: row["_t"] for row in last}


def _is_early(one: _Held, dropped: Row, had_all_t: int) -> bool:
    """A quarter of the limit is left for the fetch."""
    at: int = dropped["t"] + (dropped["error_ns"] or 0)
    return at < min(one.from_t, had_all_t) + one.lag_ns * 3 // 4


def _dropped(one: _Held, states: list[Row]) -> Row | None:
    """The first of a partition's states, in order, without somebody who was in sync as it was kept
    from fetching; None also where another led a moment before that, or later."""
    lately = _since(states, one.from_t - one.lag_ns)
    members = one.nodes & set(_since(states, one.from_t)[0]["isr"] or ())
    if any(row["leader"] != one.leader for row in lately):
        return None
    after = (row for row in states if row["t"] > one.from_t)
    return next((row for row in after if members - set(row["isr"] or ())), None)


def _held(history: History) -> Iterator[_Held]:
    """Those that lasted until the smaller set was due."""
    for one in _all_held(history, _WAYS):
        if one.let_go_t >= one.due_t:
            yield one


def _all_held(history: History, ways: Collection[str]) -> Iterator[_Held]:
    for fault, detail in _faults(history, ways):
        yield _of_detail(fault.trial, detail)


def _faults(history: History, ways: Collection[str]) -> Iterator[tuple[Fault, dict[str, Any]]]:
    for fault in faults(history):
        if fault.name != _FAULT:
            continue
        detail = all_details(fault.rows)
        if detail.get("how") in ways and "held_t" in detail:
            yield fault, detail


def _of_detail(trial: tuple[str, int], detail: Mapping[str, Any]) -> _Held:
    lag_ns = int(detail["lag_ms"]) * 1_000_000
    topic, _, partition = str(detail["partition"]).rpartition("-")
    return _Held(
        trial,
        topic,
        int(partition),
        int(detail["leader"]),
        frozenset(map(int, detail["held"])),
        int(detail["held_t"]),
        int(detail["held_t"]) + lag_ns * 3 // 2 + SLACK_NS,
        int(detail.get("let_go_t") or 0),
        lag_ns,
    )


def _written_to(history: History, held: list[_Held]) -> set[int]:
    """Of which of them a record was offered and acknowledged in the first half of its time."""
    spans = [
        {
            **one.known,
            "arm": one.trial[0],
            "trial": one.trial[1],
            "_number": number,
            "_from": one.from_t,
            "_to": (one.from_t + one.due_t) // 2,
        }
        for number, one in enumerate(held)
    ]
    table = history.table(spans, _SPANS)
    acked = history.frame("produce").where("type = 'ok' and acks = 1")
    found = acked.join(F.broadcast(table), ["arm", "trial", "topic", "partition"])
    found = found.where("invoke_t > _from and t < _to").select("_number").distinct()
    return {row["_number"] for row in found.toArrow().to_pylist()}


def _undisturbed(one: _Held, rows: list[Row]) -> bool:
    """No leader, controller or registration changed until it was due."""
    for row in rows:
        if not one.from_t - SLACK_NS <= row["t"] <= one.due_t:
            continue
        if row["what"] in ("controller", "broker"):
            return False
        if _is_of(one, row) and row["leader"] != one.leader:
            return False
    return True


def _others_stopped(history: History, one: _Held) -> bool:
    """Somebody did not run for a while, and not as who is kept from fetching."""
    return any(
        node not in one.nodes
        and (arm, trial) == one.trial
        and any(not on and one.from_t - SLACK_NS <= t <= one.due_t for t, on in steps)
        for (arm, trial, node), steps in runs(history).items()
    )


def _is_of(one: _Held, row: Row) -> bool:
    return row["what"] == "state" and (row["topic"], row["partition"]) == (one.topic, one.partition)


def _since(states: list[Row], t: int) -> list[Row]:
    """Those in force at that time or later."""
    before = [row for row in states if row["t"] <= t]
    return [*before[-1:], *(row for row in states if row["t"] > t)]


def _finding(rule: str, one: _Held, state: Row) -> Finding:
    took_s = (one.due_t - one.from_t) / 1e9
    return Finding(
        rule,
        f"leader {one.leader} of {one.topic}-{one.partition} took records while "
        f"{sorted(one.nodes)} could fetch nothing, and had them in sync {took_s:.1f} s later",
        *one.trial,
        (
            Pick("fault", {"fault": _FAULT}, from_t=one.from_t - SLACK_NS, rows=2),
            Pick("produce", {**one.known, "acks": 1, "type": "ok"}, from_t=one.from_t, rows=1),
            written(state),
        ),
    )


def _soon(one: _Held, state: Row) -> Finding:
    after_s = (state["t"] - one.from_t) / 1e9
    return Finding(
        "dropped-too-soon",
        f"leader {one.leader} of {state['topic']}-{state['partition']} had {list(state['isr'])} in "
        f"sync, and not all of {sorted(one.nodes)}, {after_s:.2f} s after these were kept from "
        f"fetching; it is to wait for {one.lag_ns / 1e9:.2f} s",
        *one.trial,
        (
            Pick("fault", {"fault": _FAULT}, from_t=one.from_t - SLACK_NS, rows=2),
            written(state),
        ),
    )
