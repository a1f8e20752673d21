"""What the harness and its clients say that they did, in an order in which it can have been done.

All promises go by the harness's own rows: when faults were in place, which node ran when, when all
was healed. They are few, one program writes them, and each has its place:

    phases   each begins once, ends once and after that, and the next one begins then
    faults   inject, then injected or failed, then healing, then healed; on the same nodes
    nodes    started when it does not run, ready when it does, and ended before it is started again;
             resumed when it was paused
    members  of groups are given what they do not have, and lose what they have (`assignment`)

and one has to do with the other: who is killed, stopped or paused once faults are played is named
by a fault of that time, or held up by it as the controller (``detail``); and whoever is named by a
kill, stop or pause that was put in place was killed, stopped or paused then; a flood's workers
reach whom it names, and count from one row to the next; a forger's requests go to whom it names,
and where it says how many it sent, and how many were answered, it has told of each. One trial is
played after the other: two of one time are one, told twice.

Lawful, and similar: a fault that failed and healed again and again; a kill of a node that is being
stopped, or is paused; a resume of one that was killed; what a trial that was cut short left undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import all_details, details

if TYPE_CHECKING:
    from checkers.history.frames import History

PHASES: Final = ("start", "warmup", "chaos", "heal", "quiesce", "settle", "final_read")
_STEPS: Final = ("inject", "injected", "heal", "healed")
_ENDS: Final = frozenset({"kill", "stop", "stopped", "exited"})
_RUNS: Final = frozenset({"ready", "pause", "stop"})
_DOINGS: Final = frozenset({"kill", "stop", "pause"})
"""What only a fault does to a node. The last word of faults' names that do nothing else."""
_COUNTED_NS: Final = 100_000_000
_FORGES: Final = "forged"
FORGER: Final = "forger-"
"""So begins the name of such a fault's process, which its id ends."""
Row = Mapping[str, Any]
Trial = tuple[str, int]


def contradictions(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, what cannot have been, in words."""
    phases, faults = _by_trial(history.rows("phase")), _by_trial(history.rows("fault"))
    events, floods = _by_trial(history.rows("node_event")), _by_trial(history.rows("flood"))
    forged, given = _by_trial(history.rows("forged")), _by_trial(history.rows("assignment"))
    for key in sorted(phases.keys() | faults.keys() | events.keys()):
        played = _by_id(faults.get(key, []))
        for why in (
            *_phases(phases.get(key, [])),
            *_faults(played),
            *_lives(events.get(key, [])),
            *_hands(phases.get(key, []), played, events.get(key, [])),
            *_floods(played, floods.get(key, [])),
            *_counted(floods.get(key, [])),
            *_forged(played, forged.get(key, [])),
            *_given(given.get(key, [])),
        ):
            yield key, why
    if not history.run.merged:
        yield from _at_once(phases)


def _at_once(phases: Mapping[Trial, list[Row]]) -> Iterator[tuple[Trial, str]]:
    """Of trials whose phases are known: which began before another one was over."""
    spans = sorted((rows[0]["t"], rows[-1]["t"], key) for key, rows in phases.items())
    over_t, last = -1, ("", -1)
    for begun_t, ended_t, key in spans:
        if begun_t < over_t:
            yield key, f"it was played while trial {last[1]} of {last[0]} was"
        if ended_t > over_t:
            over_t, last = ended_t, key


def _by_trial(rows: Iterable[Row]) -> dict[Trial, list[Row]]:
    """In their order: of one moment, as they were written."""
    found: dict[Trial, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row["t"], row["seq"] or 0)):
        found.setdefault((row["arm"], row["trial"]), []).append(row)
    return found


def _by_id(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["id"] or row["fault"] or "?", []).append(row)
    return found


def _phases(rows: list[Row]) -> Iterator[str]:
    ends: dict[tuple[str, str], int] = {}
    for row in rows:
        one = (row["name"], row["event"])
        if one in ends and row["event"] != "timeout":
            yield f"its phase {one[0]} has more than one {one[1]}"
        ends.setdefault(one, row["t"])
    there = [(n, e) for n in PHASES for e in ("begin", "end") if (n, e) in ends]
    for before, after in pairwise(there):
        if ends[before] > ends[after]:
            yield f"its phase {after[0]}'s {after[1]} came before {before[0]}'s {before[1]}"


def _faults(played: Mapping[str, list[Row]]) -> Iterator[str]:
    for name, rows in played.items():
        first = {row["phase"]: row["t"] for row in reversed(rows)}
        last = {row["phase"]: row["t"] for row in rows}
        steps = [step for step in _STEPS if step in first]
        for before, after in pairwise(steps):
            if first[before] > last[after]:
                yield f"fault {name} ({rows[0]['fault']}) was {after} before it was {before}"
        named = [row["nodes"] for row in rows if row["phase"] in _STEPS[1:] and "injected" in first]
        # While it is in place it may come to more: each row names all so far.
        if any(set(one or ()) - set(later or ()) for one, later in pairwise(named)):
            yield f"fault {name} ({rows[0]['fault']}) was on other nodes than it was healed on"
        if "injected" in first and "inject" not in first:
            yield f"fault {name} ({rows[0]['fault']}) was put in place, and nobody set about it"


def _lives(rows: Iterable[Row]) -> Iterator[str]:
    runs: dict[int, bool] = {}
    paused: set[int] = set()
    for row in rows:
        node, event = row["node"], row["event"]
        if event == "pause":
            paused.add(node)
        elif event == "resume" and node not in paused:
            yield f"node {node} was resumed, and nobody had paused it"
        if event == "start":
            if runs.get(node):
                yield f"node {node} was started though it ran: nobody saw it end"
            runs[node] = True
        elif event in _RUNS and not runs.setdefault(node, True):
            yield f"node {node} did not run, and of it there is an event {event!r}"
        elif event in _ENDS:
            runs[node] = False


def _hands(
    phases: Iterable[Row], played: Mapping[str, list[Row]], events: Iterable[Row]
) -> Iterator[str]:
    """Who was ended or paused, and by what."""
    begun_t = next((r["t"] for r in phases if (r["name"], r["event"]) == ("chaos", "begin")), None)
    windows = [(rows[0]["t"], _over(rows), _named(rows)) for rows in played.values()]
    done = [row for row in events if row["event"] in _DOINGS]
    for row in done:
        if begun_t is None or row["t"] < begun_t:
            continue
        if not any(
            since <= row["t"] <= until and row["node"] in of for since, until, of in windows
        ):
            yield f"node {row['node']} had an event {row['event']!r}, and no fault of then names it"
    for name, rows in played.items():
        held = [row for row in rows if row["phase"] == "injected" and row["took_hold"] is not False]
        doing = str(rows[0]["fault"]).rpartition("-")[2]
        if doing not in _DOINGS or not held:
            continue
        for node in sorted(set(held[0]["nodes"] or ()) - _let_go(held[0])):
            if not any(
                row["node"] == node
                and row["event"] == doing
                and rows[0]["t"] <= row["t"] <= _over(rows)
                for row in done
            ):
                says = f"fault {name} ({rows[0]['fault']}) was in place on node {node}"
                yield f"{says}, and that node has no such event"


def _let_go(row: Row) -> set[int]:
    """Of a fault's nodes: who lost its office before the fault came to what it does."""
    succeeded = details(row).get("succeeded")
    return set(succeeded) if isinstance(succeeded, list) else set()


def _floods(played: Mapping[str, list[Row]], reached: Iterable[Row]) -> Iterator[str]:
    """Whom a flood was laid on, and whom its workers reached."""
    nodes: dict[str, set[int]] = {}
    for row in reached:
        nodes.setdefault(row["id"], set()).add(row["node"])
    for name, rows in played.items():
        named = {n for row in rows if row["phase"] == "injected" for n in row["nodes"] or ()}
        if name in nodes and named and nodes[name] != named:
            says = f"fault {name} ({rows[0]['fault']}) names nodes {sorted(named)}"
            yield f"{says}, and its workers reached {sorted(nodes[name])}"


def _counted(rows: Iterable[Row]) -> Iterator[str]:
    """A flood worker counts from one row to the next."""
    last: dict[tuple[Any, ...], int] = {}
    for row in rows:
        worker = (row["process"], row["id"], row["node"])
        since_t = row["t"] - (row["interval_ns"] or 0)
        if worker in last and abs(since_t - last[worker]) > _COUNTED_NS:
            yield f"flood {row['id']}: what its worker counted is not of the time between its rows"
        last[worker] = row["t"]


def _forged(played: Mapping[str, list[Row]], told: Sequence[Row]) -> Iterator[str]:
    """Whom a forger says that it turned to, and what it says in the end that it sent, against its
    requests."""
    for name, rows in played.items():
        if not str(rows[0]["fault"]).startswith(_FORGES):
            continue
        own = [row for row in told if row["process"] == f"{FORGER}{name}"]
        asked = {row["node"] for row in own}
        named = {n for row in rows for n in row["nodes"] or ()}
        if named and asked - named:
            says = f"fault {name} ({rows[0]['fault']}) names nodes {sorted(named)}"
            yield f"{says}, and its requests went to {sorted(asked)}"
        there = {"sent": len(own), "answered": sum(row["type"] == "ok" for row in own)}
        for row in (row for row in rows if row["phase"] == "healed"):
            for what, n in there.items():
                said = details(dict(row)).get(what, n)
                if said != n:
                    yield f"fault {name} ({row['fault']}) {what} {said} requests, and tells of {n}"


def _given(rows: Iterable[Row]) -> Iterator[str]:
    """A member of a group is given what it does not have, and loses what it has, all of it before
    it is given anything anew (librdkafka's assignors are eager): each member's first row that
    cannot be."""
    held: set[tuple[Any, ...]] = set()
    told: set[str] = set()
    losing: set[tuple[Any, ...]] = set()
    for row in rows:
        place = tuple(row[name] for name in ("process", "group", "topic", "partition"))
        had, who = place in held, row["process"]
        if had == (row["event"] == "assigned") and who not in told:
            told.add(who)
            how = "was given, and had" if had else "lost, and did not have"
            yield f"{who} {how}, partition {row['topic']}-{row['partition']} of its group"
        if row["event"] != "assigned":
            held.discard(place)
            losing.add(place[:2])
            continue
        kept = [one for one in held if one[:2] == place[:2]] if place[:2] in losing else []
        if kept and who not in told:
            told.add(who)
            yield f"{who} was given partitions of its group anew, and had {len(kept)} of before"
        losing.discard(place[:2])
        held.add(place)


def _over(rows: Iterable[Row]) -> int:
    """When a fault was healed (ns); one that never was is not over."""
    return max((row["t"] for row in rows if row["phase"] == "healed"), default=2**62)


def _named(rows: Sequence[Row]) -> set[int]:
    """The nodes that a fault names as its own, and the controller that it held up to have its
    way."""
    held_up = all_details(dict(row) for row in rows).get("controller")
    found = {node for row in rows for node in row["nodes"] or ()}
    return found | ({held_up} if isinstance(held_up, int) else set())
