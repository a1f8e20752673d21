"""The figures that arms are compared by, and what they amount to in a sentence.

Pure functions over the content of ``results.json``; the page and the terminal share them. An effect
that is absent is said to be absent, with what in the results explains it: a ratio near 1 may mean
that planes do not matter, or just as well that the flood never filled a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from harness.report import units
from harness.report.run_folder import order_arms

Results = Mapping[str, Any]
Format = Callable[..., str]

CLEAR: Final = 1.5
"""From this ratio on two arms are said to differ; below, that they hardly do."""
_WAITED_MS: Final = 5.0
"""A stage whose p99 stays below this did not make anybody wait."""

STAGES: Final[Mapping[str, str]] = {
    "queue": "in the controller's queue",
    "wire": "on the wire and unread in the socket",
    "blocked": "read, but blocked on a full request queue",
    "request_queue": "in the broker's request queue",
    "handler": "in its handler",
    "response": "on the way back",
}
"""Where a controller request can be, in order."""

CAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "avoidable": (
        "avoidable",
        "appended after the LeaderAndIsr that demotes the leader had been sent to it: handled on "
        "arrival, it would have saved the record",
    ),
    "edge": ("at the edge", "within the clocks' error of that moment: avoidable or not"),
    "between": (
        "between commit and sending",
        "appended after the next leader was committed, before the LeaderAndIsr was sent",
    ),
    "before_commit": (
        "lawful lag",
        "appended before the next leader was committed: a follower in the ISR lagged, which acks=1 "
        "allows",
    ),
    "undated": ("undated", "cut, but no commit or no LeaderAndIsr is known to date it by"),
    "unclean": ("unclean election", "the topic allows electing a replica that lacks records"),
    "deleted": ("topic deleted", "the topic was deleted"),
    "damage": ("torn log", "a fault tore the end of that broker's log"),
    "forged": ("forged request", "a forged request that Kafka cannot see through was accepted"),
    "compacted": ("compacted", "the topic is compacted"),
    "stranded": ("stranded", "its broker was still down at the end: nothing had to be cut"),
    "held": ("held", "its broker still holds it and has yet to follow the next leader"),
    "removed": ("replica moved", "its broker is no replica of that partition any more"),
    "untraced": ("untraced", "the brokers do not say when they truncate"),
    "untold": ("untold", "nobody says whether the topic was created again: unknown"),
    "unread": ("unread", "its broker's log could not be read: unknown"),
    "undecided": ("undecided", "no leadership was recorded: unknown"),
    "unclassified": ("unclassified", "more were lost than are classified: unknown"),
    "unexplained": ("unexplained", "it did not go with its leader's demotion: a violation"),
    "acked_all": ("acks=all", "acknowledged with acks=all: a violation"),
}
"""Why an acknowledged record is gone: a short name and what it means. In order of interest."""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """``path``: check, then names below ``checks.<check>.arms.<arm>``. ``compared``: whether its
    ratio between arms says anything (how often something was tried does not)."""

    label: str
    path: tuple[str, ...]
    write: Format
    compared: bool = True


GROUPS: Final[Mapping[str, tuple[KeyFigure, ...]]] = {
    "Control latency: probes on a clock, while faults were in place": (
        KeyFigure("p50", ("controller-latency", "probe", "p50_ms"), units.ms),
        KeyFigure("p99", ("controller-latency", "probe", "p99_ms"), units.ms),
        KeyFigure("max", ("controller-latency", "probe", "max_ms"), units.ms),
        KeyFigure("probes", ("controller-latency", "probe", "count"), units.count, False),
        KeyFigure(
            "p50 without a fault", ("controller-latency", "probe_idle", "p50_ms"), units.ms, False
        ),
        KeyFigure("never answered", ("controller-latency", "probes_unanswered"), units.count),
    ),
    "Control latency: the controller's own requests to the same brokers, under the same faults": (
        KeyFigure("p50", ("controller-latency", "own", "p50_ms"), units.ms),
        KeyFigure("p99", ("controller-latency", "own", "p99_ms"), units.ms),
        KeyFigure("requests", ("controller-latency", "own", "count"), units.count, False),
    ),
    "Control latency: all of the controller's own requests, there and back": (
        KeyFigure("p50", ("controller-latency", "round_trip", "p50_ms"), units.ms),
        KeyFigure("p99", ("controller-latency", "round_trip", "p99_ms"), units.ms),
        KeyFigure("max", ("controller-latency", "round_trip", "max_ms"), units.ms),
        KeyFigure("requests", ("controller-latency", "round_trip", "count"), units.count, False),
        KeyFigure("sent again", ("controller-latency", "retries"), units.count),
    ),
    "Records lost although acknowledged with acks=1": (
        KeyFigure("avoidable", ("truncation-loss", "avoidable"), units.count),
        KeyFigure(
            "avoidable, of those acknowledged", ("truncation-loss", "avoidable_share"), units.share
        ),
        KeyFigure("lawful lag", ("truncation-loss", "lost", "before_commit"), units.count),
        KeyFigure("acknowledged", ("truncation-loss", "acked_1"), units.count, False),
    ),
    "Stale metadata": (
        KeyFigure(
            "time that the flooded broker was behind, summed",
            ("stale-metadata", "propagation_applied_flooded", "stale_time_ms"),
            units.ms,
        ),
        KeyFigure(
            "from commit to the flooded broker's cache, p50",
            ("stale-metadata", "propagation_applied_flooded", "p50_ms"),
            units.ms,
        ),
        KeyFigure(
            "the floor: to brokers beside the flood, p50",
            ("stale-metadata", "propagation_applied_beside", "p50_ms"),
            units.ms,
            False,
        ),
        KeyFigure(
            "time that all brokers were behind, summed, flood or not",
            ("stale-metadata", "propagation_applied", "stale_time_ms"),
            units.ms,
        ),
        KeyFigure(
            "from commit to a broker's cache, p99",
            ("stale-metadata", "propagation_applied", "p99_ms"),
            units.ms,
        ),
        KeyFigure("stale answers to clients", ("stale-metadata", "stale_share"), units.share),
        KeyFigure("age of stale answers, p99", ("stale-metadata", "staleness", "p99_ms"), units.ms),
    ),
    "Availability after a leader was committed": (
        KeyFigure("leader ready, p50", ("availability", "leader_ready", "p50_ms"), units.ms),
        KeyFigure("first produce, p50", ("availability", "first_produce", "p50_ms"), units.ms),
        KeyFigure(
            "first produce with acks=1, p50",
            ("availability", "first_produce_acks_1", "p50_ms"),
            units.ms,
        ),
        KeyFigure(
            "first produce with acks=all, p50",
            ("availability", "first_produce_acks_all", "p50_ms"),
            units.ms,
        ),
        KeyFigure("first fetch, p50", ("availability", "first_fetch", "p50_ms"), units.ms),
        KeyFigure("longest held acks=all produce", ("availability", "held_longest_ms"), units.ms),
    ),
    "Topic deletion, from its request": (
        KeyFigure("gone from ZooKeeper, p50", ("topic-deletion", "deletion", "p50_ms"), units.ms),
        KeyFigure("gone from ZooKeeper, max", ("topic-deletion", "deletion", "max_ms"), units.ms),
        KeyFigure("last replica stopped, p50", ("topic-deletion", "stopped", "p50_ms"), units.ms),
        KeyFigure("deletions", ("topic-deletion", "deletion", "count"), units.count, False),
    ),
}

_ZERO_WHEN_COUNTED: Final[Mapping[tuple[str, ...], str]] = {
    ("truncation-loss", "lost", "before_commit"): "acked_1"
}
"""Counts that are only written down when there are any, and the sibling that shows it was asked."""


def value(results: Results, arm: str, path: tuple[str, ...]) -> float | None:
    """One figure of one arm; None when it was not measured."""
    found = _under(results, arm, path)
    sibling = _ZERO_WHEN_COUNTED.get(path)
    if found is None and sibling is not None:
        return 0.0 if _under(results, arm, (path[0], sibling)) is not None else None
    return found


def _under(results: Results, arm: str, path: tuple[str, ...]) -> float | None:
    found: Any = figures(results, path[0], arm)
    for name in path[1:]:
        found = found.get(name) if isinstance(found, Mapping) else None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if is_number else None


def figures(results: Results, check: str, arm: str) -> Mapping[str, Any]:
    """Everything that a check measured in an arm."""
    body = (results.get("checks") or {}).get(check) or {}
    found = (body.get("arms") or {}).get(arm)
    return found if isinstance(found, Mapping) else {}


def pairs(results: Results) -> list[tuple[str, str]]:
    """Arms of one system that differ in their planes, the elder plane mode first."""
    arms = results.get("arms") or {}
    return [
        (a, b)
        for a, b in combinations(order_arms(arms), 2)
        if arms[a].get("sut") == arms[b].get("sut")
        and arms[a].get("planes") != arms[b].get("planes")
    ]


def ratio(left: float | None, right: float | None) -> float | None:
    """left / right; None when there is nothing to divide by."""
    return left / right if left is not None and right else None


def short_names(results: Results) -> dict[str, str]:
    """Arms by what tells them apart: the planes alone when there is one system."""
    arms = results.get("arms") or {}
    systems = {facts.get("sut") for facts in arms.values()}
    names = {arm: str(facts.get("planes") or arm) for arm, facts in arms.items()}
    alike = len(set(names.values())) < len(names)
    return {arm: arm for arm in arms} if len(systems) > 1 or alike else names


# -- in a sentence --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Effect:
    """What a pair of arms shows on one question. ``sign``: seen | absent | reverse | unmeasured."""

    question: str
    sign: str
    says: str


def effects(results: Results) -> list[Effect]:
    """KIP-291's three questions, for every pair of arms."""
    name = short_names(results)
    found = []
    for a, b in pairs(results):
        names = (name[a], name[b])
        found += [
            _latency(results, (a, b), names),
            _loss(results, (a, b), names),
            _stale(results, (a, b), names),
        ]
    return found


def _latency(results: Results, arms: tuple[str, str], names: tuple[str, str]) -> Effect:
    """What probes show, held against what the controller's own requests show."""
    probed = _stage_effect(results, arms, names)
    own = [
        value(results, arm, ("controller-latency", "own", q)) for arm in arms for q in _OWN_FIGURES
    ]
    a50, a_count, b50, b_count = own
    if (
        value(results, arms[0], ("controller-latency", "probe", "p50_ms")) is None
        or probed.sign == "unmeasured"
    ):
        return probed
    if a50 is None or b50 is None or min(a_count or 0, b_count or 0) < _NEEDED:
        least = units.words(int(min(a_count or 0, b_count or 0)), "request")
        says = f" The controller's own requests are too few to say the same ({least} in an arm)."
        return Effect(probed.question, probed.sign, probed.says + says)
    r50 = ratio(a50, b50)
    (a, b), of_probes = names, _ratio_of(results, arms, ("controller-latency", "probe", "p50_ms"))
    says = (
        f" The controller's own requests there took {units.ms(a50)} and {units.ms(b50)} at p50 "
        f"({a} over {b}: {units.times(r50)})."
    )
    if r50 is None or of_probes is None or (r50 >= CLEAR) == (of_probes >= CLEAR):
        return Effect(probed.question, probed.sign, probed.says + says)
    says += (
        " The two disagree: what the probes show is not what the controller's own requests met, "
        "and nothing is claimed of the planes."
    )
    return Effect(probed.question, "absent", probed.says + says)


_OWN_FIGURES: Final = ("p50_ms", "count")
_NEEDED: Final = 5
"""Of a handful of requests no quantile says anything."""


def _ratio_of(results: Results, arms: tuple[str, str], path: tuple[str, ...]) -> float | None:
    left, right = (value(results, arm, path) for arm in arms)
    return ratio(left, right)


def _stage_effect(results: Results, arms: tuple[str, str], names: tuple[str, str]) -> Effect:
    question = "control latency"
    for stage, what in (("probe", "a control probe"), ("round_trip", "a controller request")):
        paths = [("controller-latency", stage, q) for q in ("p50_ms", "p99_ms")]
        found = [value(results, arm, path) for arm in arms for path in paths]
        a50, a99, b50, b99 = found
        if a50 is None or a99 is None or b50 is None or b99 is None:
            continue
        counts = [value(results, arm, ("controller-latency", stage, "count")) for arm in arms]
        least = int(min(count or 0 for count in counts))
        if least < _NEEDED:
            few = f"{units.words(least, what.split()[-1])} in an arm: too few to compare planes by."
            return Effect(question, "unmeasured", few)
        (a, b), r50, r99 = names, ratio(a50, b50), ratio(a99, b99)
        says = (
            f"In {a}, {what} took {units.ms(a50)} at p50 and {units.ms(a99)} at p99; in {b}, "
            f"{units.ms(b50)} and {units.ms(b99)}"
        )
        ratios = [r for r in (r50, r99) if r is not None]
        compared = f" ({a} over {b}: {units.times(r50)} and {units.times(r99)})."
        if ratios and max(ratios) >= CLEAR and min(ratios) > 1 / CLEAR:
            return Effect(question, "seen", f"{says}{compared}")
        if ratios and max(ratios) >= CLEAR:
            return Effect(
                question,
                "seen",
                f"{says}{compared} Not at every quantile: {_longest(results, arms[1], b)}",
            )
        if ratios and min(ratios) <= 1 / CLEAR:
            return Effect(
                question,
                "reverse",
                f"{says}{compared} {b} is slower: {_longest(results, arms[1], b)}",
            )
        return Effect(
            question, "absent", f"{says}: hardly a difference. {_why_no_wait(results, arms, names)}"
        )
    return Effect(question, "unmeasured", _not_measured(results, "controller-latency"))


def _why_no_wait(results: Results, arms: tuple[str, str], names: tuple[str, str]) -> str:
    waits = [
        value(results, arms[0], ("controller-latency", s, "p99_ms"))
        for s in ("wire", "blocked", "request_queue")
    ]
    known = [w for w in waits if w is not None]
    if known and max(known) < _WAITED_MS:
        faults = figures(results, "activity", arms[0]).get("faults") or {}
        flooded = any("flood" in str(fault) for fault in faults)
        cause = (
            "the flood did not fill the request queue" if flooded else "nothing flooded the broker"
        )
        return (
            f"Controller requests did not wait in {names[0]} either (request queue p99 "
            f"{units.ms(waits[2])}): {cause}, so that there was nothing to get past."
        )
    return _longest(results, arms[1], names[1])


def _longest(results: Results, arm: str, name: str) -> str:
    """Where requests of an arm were longest, at p99."""
    found = {s: value(results, arm, ("controller-latency", s, "p99_ms")) for s in STAGES}
    known = {s: v for s, v in found.items() if v is not None}
    if not known:
        return f"where time went in {name} was not traced."
    stage = max(known, key=lambda s: known[s])
    return (
        f"at p99, controller requests in {name} were longest {STAGES[stage]} "
        f"({units.ms(known[stage])})."
    )


def _loss(results: Results, arms: tuple[str, str], names: tuple[str, str]) -> Effect:
    question = "avoidable loss"
    found = [value(results, arm, ("truncation-loss", "avoidable")) for arm in arms]
    acked = [value(results, arm, ("truncation-loss", "acked_1")) or 0 for arm in arms]
    lost = [n for n in found if n is not None]
    if len(lost) < len(arms):
        return Effect(question, "unmeasured", _not_measured(results, "truncation-loss"))
    if lost[0] or lost[1]:
        amounts = [
            f"{units.count(n)} of {units.count(of)}" for n, of in zip(lost, acked, strict=True)
        ]
        says = (
            "Acknowledged acks=1 records that a LeaderAndIsr handled on arrival would have saved: "
            f"{amounts[0]} in {names[0]}, {amounts[1]} in {names[1]}"
            f"{_at_most(results, arms, lost)}."
        )
        shares = [n / of if of else 0.0 for n, of in zip(lost, acked, strict=True)]
        if shares[0] >= CLEAR * shares[1] and lost[0]:
            return Effect(question, "seen", says)
        sign = "reverse" if shares[1] >= CLEAR * shares[0] else "absent"
        return Effect(question, sign, f"{says} A control plane of its own did not help here.")
    return Effect(
        question,
        "absent",
        f"No avoidable acks=1 loss in either arm: {_why_no_loss(results, arms, acked)}",
    )


def _at_most(results: Results, arms: tuple[str, str], lost: list[float]) -> str:
    """How many more may have been, within the clocks' error."""
    most = [value(results, arm, ("truncation-loss", "avoidable_at_most")) for arm in arms]
    more = [units.count((m or n) - n) for m, n in zip(most, lost, strict=True)]
    if more == ["0", "0"]:
        return ""
    return f" (and at most {more[0]} and {more[1]} more, within the clocks' error)"


def _why_no_loss(results: Results, arms: tuple[str, str], acked: list[float]) -> str:
    if not any(acked):
        return "nothing was acknowledged with acks=1."
    causes: dict[str, int] = {}
    for arm in arms:
        for cause, n in (figures(results, "truncation-loss", arm).get("lost") or {}).items():
            causes[cause] = causes.get(cause, 0) + int(n)
    if causes:
        parts = [f"{n:,} {CAUSES.get(c, (c, ''))[0]}" for c, n in causes.items() if n]
        return f"the records lost had other causes ({', '.join(parts)})."
    changes = sum(int(figures(results, "activity", arm).get("leader_changes") or 0) for arm in arms)
    if not changes:
        return "no leader changed, so that nobody had to truncate."
    return (
        f"leaders changed {units.words(changes, 'time')}, and no truncation cut an acknowledged "
        "record: followers were in step, or nobody wrote to a leader that had been demoted."
    )


_FLOODED: Final = ("stale-metadata", "propagation_applied_flooded", "stale_time_ms")
_BEHIND: Final = ("stale-metadata", "propagation_applied", "stale_time_ms")
_FLOOR: Final = ("stale-metadata", "propagation_applied_beside", "p50_ms")
_PROMISED: Final = 10.0
"""How many times less stale time a control plane of its own is expected to leave; where a run shows
less, its figures must say what stands in the way."""


def _stale(results: Results, arms: tuple[str, str], names: tuple[str, str]) -> Effect:
    question = "stale metadata"
    for path, what, write in (
        (
            _FLOODED,
            "A broker that was being flooded was behind the committed leader, partition by "
            "partition, for",
            units.ms,
        ),
        (
            _BEHIND,
            "Brokers, partition by partition, were behind the committed leader for",
            units.ms,
        ),
        (("stale-metadata", "stale_share"), "Of all answers to clients, stale were", units.share),
    ):
        a, b = (value(results, arm, path) for arm in arms)
        if a is None or b is None:
            continue
        says = f"{what} {write(a)} in {names[0]} and {write(b)} in {names[1]}"
        r = ratio(a, b)
        if r is None:
            return Effect(question, "seen" if a else "absent", f"{says}.")
        says += f" ({names[0]} over {names[1]}: {units.times(r)})."
        if path == _FLOODED:
            says += _remainder(results, arms, names)
        if r >= CLEAR:
            return Effect(question, "seen", says)
        if r <= 1 / CLEAR:
            return Effect(question, "reverse", f"{says} {names[1]} was told later.")
        return Effect(
            question, "absent", f"{says} Hardly a difference. {_why_no_wait(results, arms, names)}"
        )
    return Effect(question, "unmeasured", _not_measured(results, "stale-metadata"))


def _remainder(results: Results, arms: tuple[str, str], names: tuple[str, str]) -> str:
    """What the flooded broker's figure leaves out, and the floor that every epoch pays, however a
    broker's planes are: it stands in all sums, and keeps their ratio down."""
    a, b = (value(results, arm, _FLOODED) or 0.0 for arm in arms)
    all_a, all_b = (value(results, arm, _BEHIND) for arm in arms)
    says = ""
    if all_a is not None and all_b is not None:
        says += (
            f" Over all brokers and the whole run it is {units.ms(all_a)} and {units.ms(all_b)} "
            f"({units.times(ratio(all_a, all_b))}): brokers and times without a flood add "
            f"{units.ms(all_a - a)} and {units.ms(all_b - b)}."
        )
    floor_a, floor_b = (value(results, arm, _FLOOR) for arm in arms)
    if floor_a is None or floor_b is None:
        return says
    says += (
        f" The floor, from a commit to a broker that nobody floods, is {units.ms(floor_a)} and "
        f"{units.ms(floor_b)} at p50."
    )
    reached = ratio(a, b)
    epochs_a, epochs_b = (value(results, arm, (*_FLOODED[:2], "count")) for arm in arms)
    if reached is not None and reached < _PROMISED and epochs_a and epochs_b:
        each = a / epochs_a
        says += (
            f" {units.times(reached)} is less than {units.times(_PROMISED)}: the floor makes "
            f"{units.share(min(1.0, epochs_b * floor_b / b))} of what is left in {names[1]}, and "
            f"in {names[0]} an epoch was {units.ms(each)} late on average, "
            f"{units.times(ratio(each, floor_a))} its floor."
        )
    return says


_SUBJECTS: Final = {
    "controller-latency": "control latency",
    "truncation-loss": "losses",
    "stale-metadata": "stale metadata",
}


def _not_measured(results: Results, check: str) -> str:
    """Why there are no figures of a check in both arms."""
    subject, body = _SUBJECTS[check], (results.get("checks") or {}).get(check)
    if body is None:
        return f"Not looked at: the scenario does not ask for the check {check}."
    reasons = body.get("reasons") or []
    why = str(reasons[0]).splitlines()[0] if reasons else "an arm lacks what they are made of."
    return f"There are no figures of {subject} to compare: {why}"
