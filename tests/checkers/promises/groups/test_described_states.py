"""What state a group is said to be in, while its member lives (``state-otherwise``): both ways."""

from __future__ import annotations

from typing import Any

from checkers.judging.outcome import Outcome
from checkers.promises.groups.described_states import STATES, described_states
from tests.checkers.conftest import Story, judged_together
from tests.checkers.together import judged_apart


def check(history: Any) -> Outcome:
    outcome = Outcome()
    for finding, n in described_states(history, outcome):
        outcome.add(finding, n)
    return outcome


LIVE, LATER = ("live", 100, {}), ("live", 300, {})


def told(state: str, *others: tuple[str, float, dict[str, Any]], **more: Any) -> Story:
    """At 200 ms somebody asked for it, 10 ms before; ``others``: what else the member asked for."""
    story = Story()
    for step, t, own in (*others, ("describe", 200, {"state": state, **more})):
        about = {"process": "pair", "group": "g", "node": 2, "invoke_t": t - 10, "error": 0}
        story.add("group_step", t, **{**about, "step": step, "type": "ok", **own})
    return story


UNTOLD, GONE = ({"type": "fail", "error": error} for error in (27, 25))
ANEW = ("live", 300, UNTOLD)
STORIES: dict[str, tuple[Story, int]] = {
    "stable": (told("Stable", LIVE, LATER), 0),
    "empty": (told("Empty", LIVE, LATER), 1),
    "dead": (told("Dead", LIVE, LATER), 1),
    "about to form": (told("PreparingRebalance", LIVE, LATER), 1),
    "in no state": (told("", LIVE, LATER), 1),
    "refused": (told("", LIVE, LATER, type="fail", error=16), 0),
    "the member is told to join anew": (told("Empty", LIVE, ANEW), 1),
    "and the group is said to form without it": (told("CompletingRebalance", LIVE, ANEW), 1),
    "the group was about to form": (told("PreparingRebalance", LIVE, ANEW), 0),
    "the group was stable by then": (told("Stable", LIVE, ANEW), 0),
    "the member is known no more": (told("Empty", LIVE, ("live", 300, GONE)), 0),
    "it joined anew before": (told("Empty", LIVE, ("enter", 250, {}), ANEW), 0),
    "the member was told to join anew": (told("Empty", ("live", 100, UNTOLD), LATER), 0),
    "nobody asked before": (told("Empty", LATER), 0),
    "nobody asked after": (told("Empty", LIVE), 0),
    "it joined in between": (told("Empty", LIVE, ("enter", 180, {}), LATER), 0),
    "it is given something in between": (told("Empty", LIVE, ("sync", 250, {}), LATER), 0),
    "it was still asking": (told("Empty", ("live", 195, {}), LATER), 0),
    "it asked already": (told("Empty", LIVE, ("live", 205, {})), 0),
    "another broker says so": (told("Empty", LIVE, LATER, node=3), 0),
    "of another group": (told("Empty", LIVE, LATER, group="h"), 0),
    "another asks": (told("Empty", LIVE, LATER, process="stranger"), 0),
    "it asks for other things as well": (
        told("Empty", LIVE, ("own", 150, {}), ("keep", 250, {}), LATER),
        1,
    ),
}


def test_in_which_state_a_group_is(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in STORIES.items()})
    counts = {name: rules.get("state-otherwise", 0) for name, (rules, _) in found.items()}
    assert counts == {name: n for name, (_, n) in STORIES.items()}


def test_how_often_it_could_be_told(spark: Any) -> None:
    found = judged_apart(spark, check, {name: STORIES[name][0] for name in ("stable", "refused")})
    assert [sum(one.evidence.values()) for one in found.values()] == [1, 0]
    assert {name for one in found.values() for *_, name in one.evidence} == {STATES}
