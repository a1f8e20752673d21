"""The harness's own rows cannot contradict each other; what only looks odd may be."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.facts.courses import PHASES, contradictions
from checkers.history import KINDS
from checkers.history.run_info import RunInfo
from tests.checkers.conftest import Story


class Rows:
    """The rows of a story as a history gives them: absent columns are null."""

    def __init__(self, story: Story) -> None:
        self._rows = story.rows
        self.run = RunInfo.from_dict(story.run)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        columns = dict.fromkeys(KINDS[kind].all_columns)
        return [{**columns, **row} for row in self._rows.get(kind, [])]


def node(story: Story, t: float, event: str, number: int = 1) -> None:
    story.add("node_event", t, node=number, event=event)


def fault(story: Story, name: str, *steps: tuple[float, str], **more: Any) -> None:
    for t, phase in steps:
        story.add("fault", t, fault=name, id=f"{name}-0", phase=phase, **{"nodes": [1], **more})


def played() -> Story:
    """Node 1 is killed in chaos, and comes back."""
    story = Story()
    for number, name in enumerate(PHASES):
        story.add("phase", 100 * number, name=name, event="begin")
        story.add("phase", 100 * number + 100, name=name, event="end")
    for number in (1, 2):
        node(story, 10, "start", number)
        node(story, 20, "ready", number)
    fault(story, "kill", (210, "inject"), (220, "injected"), (290, "heal"), (299, "healed"))
    node(story, 215, "kill")
    node(story, 292, "start")
    node(story, 298, "ready")
    return story


def phase_at(story: Story, name: str, event: str, t: float) -> None:
    (row,) = (r for r in story.rows["phase"] if (r["name"], r["event"]) == (name, event))
    row["t"] = int(t * 1_000_000)


def tamper(story: Story, how: str) -> None:
    events = story.rows["node_event"]
    match how:
        case "chaos ends before it begins":
            phase_at(story, "chaos", "end", 150)
        case "healed before chaos":
            phase_at(story, "heal", "begin", 110)
            phase_at(story, "heal", "end", 120)
        case "two chaos phases":
            story.add("phase", 250, name="chaos", event="begin")
        case "healed before it was put in place":
            story.rows["fault"][3]["t"] = story.rows["fault"][0]["t"] - 1
        case "healed on another node":
            story.rows["fault"][3]["nodes"] = [2]
        case "put in place by nobody":
            del story.rows["fault"][0]
        case "nobody saw it end":
            events.remove(events[4])
        case "ready before it was started":
            events[0]["t"], events[1]["t"] = events[1]["t"], events[0]["t"]
        case "another node was killed":
            events[4]["node"] = 2
        case "another node is named":
            for row in story.rows["fault"]:
                row["nodes"] = [2]
        case "killed by nobody":
            node(story, 250, "kill", 2)
        case "resumed by nobody's pause":
            node(story, 250, "resume", 2)
        case "killed after the fault was over":
            node(story, 310, "kill", 2)
        case "a flood on another":
            fault(story, "flood", (230, "inject"), (240, "injected"), (280, "healed"))
            for t, reached in ((250, 1), (260, 2)):
                story.add("flood", t, id="flood-0", node=reached)
        # -- lawful ------------------------------------------------------------------------------
        case "waited in vain":
            story.add("phase", 450, name="quiesce", event="timeout")
        case "healed again and again":
            fault(story, "toxic", (230, "inject"), (240, "failed"), (300, "heal"), (310, "failed"),
                  (320, "heal"), (330, "healed"))  # fmt: skip
        case "cut short":
            story.rows["phase"] = story.rows["phase"][:5]
        case "killed while it was paused":
            fault(story, "pause", (225, "inject"), (226, "injected"), (280, "healed"), nodes=[2])
            fault(story, "toxic", (226, "inject"), (227, "injected"), (281, "healed"), nodes=[2])
            node(story, 225, "pause", 2)
            node(story, 228, "kill", 2)
            node(story, 279, "resume", 2)
            node(story, 280, "start", 2)
        case "named in the details":
            detail = '{"controller":2}'
            fault(story, "oust", (225, "inject"), (230, "injected"), (240, "healed"), nodes=[],
                  detail=detail)  # fmt: skip
            node(story, 226, "pause", 2)
        case "stopped while it warmed up":
            node(story, 150, "stop", 2)
            node(story, 160, "stopped", 2)
            node(story, 170, "start", 2)
        case "one lost its office before, and another was killed":
            detail = '{"succeeded":[2]}'
            for row in story.rows["fault"][1:]:
                row |= {"nodes": [2, 1], "detail": detail}
        case "it failed, and nobody was killed":
            fault(story, "stop", (230, "inject"), (240, "failed"), (250, "healed"), nodes=[2])
        case "a flood":
            fault(story, "flood", (230, "inject"), (240, "injected"), (280, "healed"), nodes=[1, 2])
            for t, reached in ((250, 1), (260, 2)):
                story.add("flood", t, id="flood-0", node=reached)
        case "a flood of which nothing is told":
            fault(story, "flood", (230, "inject"), (240, "injected"), (280, "healed"))
        case "at one moment":
            phase_at(story, "warmup", "end", 200)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("chaos ends before it begins", "its phase chaos's end came before chaos's begin"),
        ("healed before chaos", "its phase heal's begin came before chaos's end"),
        ("two chaos phases", "its phase chaos has more than one begin"),
        ("healed before it was put in place", "fault kill-0 (kill) was healed before it was heal"),
        ("healed on another node", "fault kill-0 (kill) was on other nodes than it was healed on"),
        ("put in place by nobody", "and nobody set about it"),
        ("nobody saw it end", "node 1 was started though it ran: nobody saw it end"),
        ("ready before it was started", "node 1 was started though it ran"),
        ("another node was killed", "node 2 had an event 'kill', and no fault of then names it"),
        ("another node is named", "fault kill-0 (kill) was in place on node 2, and that node has"),
        (
            "a flood on another",
            "fault flood-0 (flood) names nodes [1], and its workers reached [1, ",
        ),
        ("killed by nobody", "node 2 had an event 'kill', and no fault of then names it"),
        ("killed after the fault was over", "node 2 had an event 'kill'"),
        ("resumed by nobody's pause", "node 2 was resumed, and nobody had paused it"),
    ],
)
def test_what_cannot_have_been(how: str, says: str) -> None:
    story = played()
    tamper(story, how)
    found: Any = Rows(story)
    assert any(key == (story.arm, 0) and says in why for key, why in contradictions(found))


@pytest.mark.parametrize(
    "how",
    [
        *("as it was", "waited in vain", "healed again and again", "cut short", "at one moment"),
        *("killed while it was paused", "named in the details", "stopped while it warmed up"),
        "one lost its office before, and another was killed",
        *("it failed, and nobody was killed", "a flood", "a flood of which nothing is told"),
    ],
)
def test_what_can_have_been(how: str) -> None:
    story = played()
    tamper(story, how)
    found: Any = Rows(story)
    assert list(contradictions(found)) == []


@pytest.mark.parametrize(
    ("begins", "merged", "odd"),
    [
        (800, False, False),
        (700, False, False),
        (699, False, True),
        (0, False, True),
        (0, True, False),
    ],
)
def test_trials_are_played_one_after_the_other(begins: float, merged: bool, odd: bool) -> None:
    """Those of several runs, laid beside each other, need not have been."""
    story, other = played(), Story("bp-dual")
    story.run["merged"] = ["a", "b"] if merged else None
    for name, event in (("start", "begin"), ("final_read", "end")):
        other.add("phase", begins + (event == "end"), name=name, event=event)
    story.rows["phase"] += other.rows["phase"]
    found: Any = Rows(story)
    told = [why for _, why in contradictions(found)]
    assert ["it was played while trial 0 of" in why for why in told] == [True] * odd


@pytest.mark.parametrize(
    ("how", "odd"),
    [("as it was", 0), ("a row is gone", 1), ("other intervals", 2), ("a little off", 0),
     ("of two workers", 0), ("one row of another time", 2)],
)  # fmt: skip
def test_a_flood_is_counted_from_row_to_row(how: str, odd: int) -> None:
    story = played()
    for n in range(3):
        counted = {"id": "flood-0", "node": 1, "interval_ns": 1_000_000_000, "process": "w"}
        story.add("flood", 1_000 * (n + 1), **counted)
        if how == "of two workers":
            story.add("flood", 1_000 * (n + 1) + 300, **{**counted, "process": "v"})
    rows = story.rows["flood"]
    if how == "a row is gone":
        del rows[1]
    if how == "other intervals":
        for row in rows:
            row["interval_ns"] *= 1_000
    if how == "a little off":
        rows[1]["t"] += 90_000_000
    if how == "one row of another time":
        rows[1]["t"] += 400_000_000
    found: Any = Rows(story)
    told = [why for _, why in contradictions(found) if "is not of the time between" in why]
    assert len(told) == odd


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("as many", None),
        ("one lost", "fault forged-0 (forged) sent 3 requests, and tells of 2"),
        ("one more answered", "fault forged-0 (forged) answered 2 requests, and tells of 3"),
        ("all lost", "fault forged-0 (forged) sent 3 requests, and tells of 0"),
        ("another forger's", None),
        ("nobody counted", None),
        ("to another", "fault forged-0 (forged) names nodes [1], and its requests went to [1, 2]"),
        ("to fewer", None),
        ("to another, whom it named later", None),
        ("to another, whom it named at first", "fault forged-0 (forged) was on other nodes than"),
    ],
)
def test_a_forger_tells_of_what_it_sent(how: str, says: str | None) -> None:
    story = played()
    detail = "{}" if how == "nobody counted" else '{"sent": 3, "answered": 2}'
    steps = ((210, "inject"), (220, "injected"), (290, "heal"), (299, "healed"))
    nodes = [1, 2] if how == "to fewer" else [1]
    fault(story, "forged", *steps, detail=detail, nodes=nodes)
    for n in range(0 if how == "all lost" else 2 if how == "one lost" else 3):
        ok = n < 2 or how == "one more answered"
        to = 2 if how.startswith("to another") and n == 1 else 1
        story.add(
            "forged", 230 + n, type="ok" if ok else "info", process="forger-forged-0", node=to
        )
    if "whom it named" in how:  # at another turn the target was another broker
        forged = [row for row in story.rows["fault"] if row["fault"] == "forged"]
        for row in forged[2:] if "later" in how else forged[:2]:
            row["nodes"] = [1, 2]
    if how == "another forger's":
        story.add("forged", 240, process="forger-forged-1")
    found = [why for _, why in contradictions(Rows(story))]  # type: ignore[arg-type]
    assert bool(found) == (says is not None)
    assert all(why.startswith(str(says)) for why in found[:1])


ASSIGNED: dict[str, tuple[list[tuple[str, str, int]], str]] = {
    "in turns": ([("m", "assigned", 0), ("m", "revoked", 0), ("m", "assigned", 0)], ""),
    "thrown out, and back": ([("m", "assigned", 0), ("m", "lost", 0), ("m", "assigned", 0)], ""),
    "two partitions": ([("m", "assigned", 0), ("m", "assigned", 1), ("m", "revoked", 0)], ""),
    "given anew, and kept one of before": (
        [("m", "assigned", 0), ("m", "assigned", 1), ("m", "revoked", 0), ("m", "assigned", 2)],
        "m was given partitions of its group anew, and had 1 of before",
    ),
    "given anew when it had lost all": (
        [
            *(("m", "assigned", 0), ("m", "assigned", 1), ("m", "revoked", 0), ("m", "revoked", 1)),
            *(("m", "assigned", 2), ("m", "assigned", 0)),
        ],
        "",
    ),
    "two members": ([("m", "assigned", 0), ("n", "assigned", 0), ("m", "revoked", 0)], ""),
    "given what it has": (
        [("m", "assigned", 0), ("m", "assigned", 0), ("m", "revoked", 0)],
        "m was given, and had, partition t-0 of its group",
    ),
    "loses what it has not": (
        [("m", "assigned", 0), ("m", "revoked", 1)],
        "m lost, and did not have, partition t-1 of its group",
    ),
    "loses it twice": (
        [("m", "assigned", 0), ("m", "revoked", 0), ("m", "lost", 0)],
        "m lost, and did not have, partition t-0 of its group",
    ),
}


@pytest.mark.parametrize("name", ASSIGNED)
def test_what_members_are_given_and_lose(name: str) -> None:
    story = played()
    for t, (member, event, partition) in enumerate(ASSIGNED[name][0]):
        story.add("assignment", t, process=member, event=event, partition=partition, group="g")
    found = [why for _, why in contradictions(Rows(story))]  # type: ignore[arg-type]
    assert found == ([ASSIGNED[name][1]] if ASSIGNED[name][1] else [])
