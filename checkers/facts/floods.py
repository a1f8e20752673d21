"""Floods: on whom each lay, from when to when, and whether it lasted.

A fault's ``took_hold`` says that a flood set in. What it reached after that is in the ``flood``
rows that its workers write on a clock (every 250 ms), and a flood that broke off half way proves
as little as one that never came. So between ``injected`` and ``heal`` a flood is held against five
questions, by broker and worker process:

    died      a worker ended before it was told to (the fault says so when it is healed), or wrote
              nothing more
    silent    a worker wrote nothing for a while, and then went on: stopped, or starved
    stalled   a worker went on asking and got no good answer
    thin      a flood that is to fill a request queue had no more connections than the queue places
    light     it had the connections, and yet no more requests under way than that: all that were
              answered, each for as long as the longest one, are fewer (Little's law)

A flooded broker may be slow: what is too long is `TOLERANCE_NS`. A broker that was down or paused
on purpose, or cut off by another fault, excuses the last three; a worker has no such excuse, since
it lives beside the broker. A worker that had sent as much as the plan lets it is done, not dead.

Flood rows do not grow with the load (a few a second and worker): plain Python on the driver.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.facts.details import all_details
from checkers.facts.faults import faults, faults_of
from checkers.facts.timeline import FOREVER, FROM, TO, Timeline, merged
from checkers.facts.trials import rows_of

if TYPE_CHECKING:
    from checkers.history.frames import History

TOLERANCE_NS: Final = 2_000_000_000
"""Several times the slowest answer seen from a flooded broker (0.85 s, Apache Kafka with 640
connections on a busy machine), and eight of a worker's intervals."""
GRACE_NS: Final = 5_000_000_000
"""After a broker came back: hundreds of connections are dialled anew."""
_DOWN: Final = frozenset({"stop", "stopped", "kill", "pause", "exited"})
_UP: Final = frozenset({"ready", "resume"})
_CUT_OFF: Final = frozenset({"disconnect", "disk-full"})
"""Faults after which a broker cannot serve a flood, although its process runs."""
_ON_PROXIES: Final = frozenset({"toxic", "link-down", "isolate"})
"""The same for floods that go through the client link's proxy."""

Row = Mapping[str, Any]
Span = tuple[int, int]


@dataclass(slots=True)
class Flood:
    """One flood on one broker; in place during [from_t, to_t) (ns)."""

    arm: str
    trial: int
    id: str
    fault: str
    node: int
    from_t: int
    to_t: int
    queue_places: int | None = None
    """queued.max.requests, when the flood is to fill the queue."""
    proxied: bool = False
    ended: dict[str, int] = field(default_factory=dict)
    """Workers that had ended, unasked, when the flood was to be healed: their exit codes."""
    bounded: frozenset[str] = frozenset()
    """Workers that ended because they had sent as much as the plan lets them."""
    workers: dict[str, list[Row]] = field(default_factory=dict)
    """``flood`` rows by worker process, in order of time."""

    def completed(
        self, begin: int | None = None, end: int = FOREVER, process: str | None = None
    ) -> int:
        """Requests answered in intervals that ended in (begin, end]; by default since it set in."""
        begin = self.from_t if begin is None else begin
        of = self.workers.values() if process is None else [self.workers.get(process, [])]
        return sum(r["completed"] or 0 for rows in of for r in rows if begin < r["t"] <= end)

    def connections(self) -> Iterator[tuple[int, int, int]]:
        """(from, to, open connections of all workers), adjoining, while it was in place. A row's
        count was taken at the end of its interval and stands for all of it; a worker that wrote
        nothing more has none."""
        held = {process: rows[0]["connections"] or 0 for process, rows in self.workers.items()}
        edges = [
            (row["t"] - (row["interval_ns"] or 0), process, row["connections"] or 0)
            for process, rows in self.workers.items()
            for row in rows
        ]
        last = {process: rows[-1]["t"] for process, rows in self.workers.items()}
        edges += [
            (t, process, 0)
            for process, t in last.items()
            if self.to_t - t > TOLERANCE_NS and process not in self.bounded
        ]
        edges.sort()
        ends = [begin for begin, _, _ in edges[1:]] + [self.to_t]
        for (begin, process, count), end in zip(edges, ends, strict=False):
            held[process] = count
            since, until = max(begin, self.from_t), min(end, self.to_t)
            if until > since:
                yield since, until, sum(held.values())

    def fewest_connections(self) -> int | None:
        return min((held for _, _, held in self.connections()), default=None)


def floods(history: History) -> list[Flood]:
    """Every flood that set in, by broker, in order of time; gathered once a history."""
    found: list[Flood] = history.memo("floods", lambda: _gather(history))
    return found


def flooded(history: History) -> Timeline:
    """By broker, when any flood lay on it."""

    def make() -> Timeline:
        spans: dict[tuple[str, int, int], list[Span]] = {}
        for flood in floods(history):
            node = (flood.arm, flood.trial, flood.node)
            spans.setdefault(node, []).append((flood.from_t, flood.to_t))
        return Timeline(
            [
                {"arm": arm, "trial": trial, "node": node, FROM: begin, TO: end}
                for (arm, trial, node), of in spans.items()
                for begin, end in merged(of)
            ],
            ("arm", "trial", "node"),
        )

    found: Timeline = history.memo("flooded", make)
    return found


def flooded_at(history: History, trial: tuple[str, int], t: int) -> frozenset[int]:
    """The brokers that a flood lay on at ``t`` (ns)."""

    def make() -> dict[tuple[str, int], list[tuple[int, frozenset[int]]]]:
        changes: dict[tuple[str, int], dict[int, Counter[int]]] = {}
        for flood in floods(history):
            if flood.from_t < flood.to_t:
                of = changes.setdefault((flood.arm, flood.trial), {})
                of.setdefault(flood.from_t, Counter())[flood.node] += 1
                of.setdefault(flood.to_t, Counter())[flood.node] -= 1
        found: dict[tuple[str, int], list[tuple[int, frozenset[int]]]] = {}
        for key, of in changes.items():
            under: Counter[int] = Counter()
            found[key] = []
            for at, change in sorted(of.items()):
                under.update(change)
                found[key].append((at, frozenset(node for node, n in under.items() if n > 0)))
        return found

    steps = history.memo("flooded at", make).get(trial, [])
    place = bisect_right(steps, t, key=lambda step: step[0])
    nodes: frozenset[int] = steps[place - 1][1] if place else frozenset()
    return nodes


def _gather(history: History) -> list[Flood]:
    reached: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for done in history.rows("flood"):
        reached.setdefault((done["arm"], done["trial"], done["id"]), []).append(done)
    found = []
    for fault in faults(history):
        key, rows = (*fault.trial, fault.id), fault.rows
        begun = next((r for r in rows if r["phase"] == "injected"), None)
        detail = all_details(rows)
        dialled = detail.get("connections")
        targets = {int(n) for n in dialled} if isinstance(dialled, Mapping) else set()
        targets |= {r["node"] for r in reached.get(key, ()) if r["node"] is not None}
        if begun is None or begun["took_hold"] is False or not targets:
            continue
        over = next((r["t"] for r in rows if r["phase"] in ("heal", "healed")), None)
        for node in sorted(targets):
            flood = Flood(*key, begun["fault"] or "?", node, begun["t"], over or _end(history, key))
            flood.queue_places = detail.get("queue_places")
            flood.proxied = bool(detail.get("proxied"))
            flood.ended = dict(detail.get("ended") or {})
            flood.bounded = frozenset(detail.get("bounded") or ())
            for done in reached.get(key, ()):
                if done["node"] == node:
                    flood.workers.setdefault(done["process"], []).append(done)
            found.append(flood)
    return sorted(found, key=lambda f: (f.arm, f.trial, f.from_t, f.node))


def _end(history: History, key: tuple[str, int, str]) -> int:
    """Of a flood that was never healed: the trial's last milestone."""
    times: list[int] = [
        row["t"] for kind in ("phase", "fault", "flood") for row in rows_of(history, kind, key[:2])
    ]
    return max(times)


# -- whether it lasted ----------------------------------------------------------------------------


def broken_off(history: History) -> Iterator[tuple[Flood, str]]:
    """Each flood that did not last, and why, in words."""
    excuses: dict[tuple[str, int, int, bool], list[Span]] = {}
    zeros = _zeros(history)
    for flood in floods(history):
        place = (flood.arm, flood.trial, flood.node, flood.proxied)
        if place not in excuses:
            excuses[place] = _excused(history, flood)
        excused = excuses[place]
        clock = _Clock.of(zeros, flood)
        gone = list(_gone(flood, clock))
        if not flood.workers:
            yield flood, f"{_name(flood)}: no worker wrote down what it reached"
        yield from ((flood, why) for why in gone)
        yield from ((flood, why) for why in _stalled(flood, excused, clock))
        if not gone:
            yield from ((flood, why) for why in _thin(flood, excused, clock))
            yield from ((flood, why) for why in _light(flood, excused))


def _name(flood: Flood) -> str:
    return f"fault {flood.id} ({flood.fault}) on broker {flood.node}"


def _gone(flood: Flood, clock: _Clock) -> Iterator[str]:
    """Workers that died, or were silent for a while."""
    for process, rows in flood.workers.items():
        code = flood.ended.get(process)
        inside = [r["t"] for r in rows if flood.from_t < r["t"] <= flood.to_t]
        last = max(inside, default=flood.from_t)
        done = flood.completed(end=last, process=process)
        quiet = flood.to_t - last > TOLERANCE_NS
        if code is not None or (quiet and process not in flood.bounded):
            how = "wrote nothing more" if code is None else f"ended with {_ending(code)}"
            yield (
                f"{_name(flood)} died {clock.at(last)}, {_s(flood.to_t - last)} before it was to "
                f"end: worker {process} {how}; {done:,} requests were completed by then, none after"
            )
        for begin, end in _holes([flood.from_t, *inside]):
            before = flood.completed(end=begin, process=process)
            after = flood.completed(begin=end, process=process)
            yield (
                f"{_name(flood)} fell silent {clock.at(begin)} for {_s(end - begin)}: worker "
                f"{process} wrote nothing; {before:,} requests were completed before, {after:,} "
                "after"
            )


def _holes(times: Sequence[int]) -> Iterator[Span]:
    for before, after in pairwise(times):
        if after - before > TOLERANCE_NS:
            yield before, after


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _stalled(flood: Flood, excused: Sequence[Span], clock: _Clock) -> Iterator[str]:
    """Spans in which a worker that asks was answered nothing, or nothing but errors."""
    for process, rows in flood.workers.items():
        if flood.queue_places is None and not any(r["sent"] for r in rows):
            continue  # it holds connections and asks nothing
        idle = [
            (max(flood.from_t, r["t"] - (r["interval_ns"] or 0)), min(r["t"], flood.to_t))
            for r in rows
            if flood.from_t < r["t"] and (r["completed"] or 0) <= (r["errors"] or 0)
        ]
        for begin, end in _too_long(idle, excused):
            before = flood.completed(end=begin, process=process)
            during = flood.completed(begin, end, process)
            errors = f", {during:,} errors" if during else ""
            after = flood.completed(begin=end, process=process)
            yield (
                f"{_name(flood)} stalled {clock.at(begin)} for {_s(end - begin)}: no request of "
                f"worker {process} was completed{errors}; {before:,} were before, {after:,} after"
            )


def _thin(flood: Flood, excused: Sequence[Span], clock: _Clock) -> Iterator[str]:
    """Spans in which the request queue could not have been full."""
    places = flood.queue_places
    if places is None:
        return
    steps = list(flood.connections())
    spans = [(begin, end) for begin, end, held in steps if held <= places]
    for begin, end in _too_long(spans, excused):
        few = min(held for since, until, held in steps if since < end and until > begin)
        before, after = flood.completed(end=begin), flood.completed(begin=begin)
        yield (
            f"{_name(flood)} ran thin {clock.at(begin)} for {_s(end - begin)}: {few} connections, "
            f"no more than queued.max.requests={places}, cannot fill the request queue; {before:,} "
            f"requests were completed before, {after:,} after"
        )


def _light(flood: Flood, excused: Sequence[Span]) -> Iterator[str]:
    """Whether the request queue was not full on the average, whatever was connected. What was under
    way in the end was answered to nobody: it counts as one more answer a connection."""
    places, span_ns = flood.queue_places, flood.to_t - flood.from_t
    meets = any(off < flood.to_t and on > flood.from_t for off, on in excused)
    rows = [r for of in flood.workers.values() for r in of if flood.from_t < r["t"] <= flood.to_t]
    longest = [row["latency_max_ns"] or 0 for row in rows]
    if places is None or flood.bounded or meets or span_ns <= TOLERANCE_NS or not any(longest):
        return
    held = sum(max(r["connections"] or 0 for r in of) for of in flood.workers.values() if of)
    waited = sum((r["completed"] or 0) * ns for r, ns in zip(rows, longest, strict=True))
    at_once = (waited + held * max(longest)) / span_ns
    if at_once < places:
        yield (
            f"{_name(flood)} was light: {at_once:.0f} requests at most were under way on the "
            f"average, too few for the {places} places of the request queue"
        )


def _too_long(spans: Iterable[Span], excused: Sequence[Span]) -> Iterator[Span]:
    """What is left of adjoining spans without the excused times, where longer than tolerated."""
    whole: list[list[int]] = []
    for begin, end in sorted(s for s in spans if s[1] > s[0]):
        # Rows of one worker adjoin to the nanosecond.
        if whole and begin <= whole[-1][1]:
            whole[-1][1] = max(whole[-1][1], end)
        else:
            whole.append([begin, end])
    for begin, end in whole:
        at = begin
        for off, on in [*sorted(excused), (end, end)]:
            if min(off, end) - at > TOLERANCE_NS:
                yield at, min(off, end)
            at = max(at, on)


# -- excuses --------------------------------------------------------------------------------------


def _excused(history: History, flood: Flood) -> list[Span]:
    """When the flooded broker could not answer, by somebody's plan."""
    here = (flood.arm, flood.trial)
    found: list[Span] = []
    down_t: int | None = None
    for row in rows_of(history, "node_event", here):
        if row["node"] != flood.node:
            continue
        if row["event"] in _DOWN and down_t is None:
            down_t = row["t"]
        elif row["event"] in _UP and down_t is not None:
            found.append((down_t, row["t"] + GRACE_NS))
            down_t = None
    if down_t is not None:
        found.append((down_t, FOREVER))
    hindering = _CUT_OFF | (_ON_PROXIES if flood.proxied else frozenset())
    for fault in faults_of(history, here):
        if fault.name in hindering and flood.node in fault.nodes:
            found.append((fault.from_t, fault.to_t + GRACE_NS))
    return found


def _zeros(history: History) -> dict[tuple[str, int], int]:
    """By trial, when its chaos phase began."""
    found: dict[tuple[str, int], int] = {}
    for row in history.rows("phase"):
        if (row["name"], row["event"]) == ("chaos", "begin"):
            found.setdefault((row["arm"], row["trial"]), row["t"])
    return found


@dataclass(frozen=True, slots=True)
class _Clock:
    """Times as a reader counts them: from the beginning of the trial's chaos phase."""

    zero_t: int
    what: str

    @classmethod
    def of(cls, zeros: Mapping[tuple[str, int], int], flood: Flood) -> _Clock:
        zero_t = zeros.get((flood.arm, flood.trial))
        if zero_t is None:
            return cls(flood.from_t, "after it had set in")
        return cls(zero_t, "into chaos")

    def at(self, t: int) -> str:
        return f"{_s(t - self.zero_t)} {self.what}"


def _s(span_ns: int) -> str:
    return f"{span_ns / 1e9:.1f} s"
