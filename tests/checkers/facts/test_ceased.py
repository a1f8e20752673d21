"""Clients that ask no more of one sort, while they ask all else, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.facts.ceased import ceased
from checkers.history.frames import History
from checkers.judging.outcome import Outcome
from tests.checkers.conftest import ARM, Story
from tests.checkers.together import Asks, judging

HEALED, END = 40_000, 60_000
NODES = (1, 2, 3)
CLIENTS = {
    "reader": "metadata-reader",
    "offsets": "offset-reader",
    "keeper": "group-keeper",
    "stranger": "group-stranger",
    "all": "producer",
    "given": "consumer",
}
Row = dict[str, Any]


def sound() -> Story:
    """Every half second each client asks each broker all that it has to ask, to the end."""
    story = Story()
    workloads = [{"process": name, "role": role} for name, role in CLIENTS.items()]
    story.run["trials"] = [{"arm": ARM, "trial": 0, "workloads": workloads}]
    story.add("phase", HEALED, name="heal", event="end")
    story.add("phase", HEALED + 1, name="quiesce", event="begin")
    story.add("phase", END, name="settle", event="end")
    for node in NODES:
        state = {"running": True, "registered": True, "answers": True}
        story.add("final_state", END, what="node", node=node, topic=None, partition=None, **state)
    for t in range(1_000, END, 500):
        story.add("produce", t, process="all", value=t, acks=-1, offset=t)
        story.add("fetch", t, process="given", poll=t)
        for node in NODES:
            story.read(t, node, 0, process="reader", read=t + node)
            for asked in ({"asked_ms": -1}, {"asked_ms": -2}, {"believed_epoch": 3}):
                about = {"node": node, "process": "offsets", **asked}
                story.add("listed_offset", t, **{"believed_epoch": -1, "asked_ms": -1, **about})
            for step in ("look", "ask", "beat", *(("commit", "delete") if node == 2 else ())):
                story.add("group_step", t, node=node, process="keeper", group="g", step=step)
            story.add("commit", t, node=node, process="stranger", group="g", offset=1)
    return story


def without(which: Callable[[Row], bool], from_t: float, to_t: float = END) -> Callable[[], Story]:
    def made() -> Story:
        story = sound()
        for rows in story.rows.values():
            rows[:] = [
                row
                for row in rows
                if not ("invoke_t" in row and from_t <= row["t"] / 1e6 <= to_t and which(row))
            ]
        return story

    return made


def of(process: str, **fields: Any) -> Callable[[Row], bool]:
    wanted = {"process": process, **fields}
    return lambda row: all(row.get(name) == value for name, value in wanted.items())


def told(make: Callable[[], Story], tell: Callable[[Story], Any]) -> Callable[[], Story]:
    def made() -> Story:
        story = make()
        tell(story)
        return story

    return made


def state(story: Story, **fields: Any) -> None:
    next(row for row in story.rows["final_state"] if row["node"] == 2).update(fields)


def unhealed(story: Story) -> None:
    for t, phase in ((30_000, "inject"), (30_001, "injected")):
        story.add("fault", t, fault="link-down", id="cut", phase=phase, nodes=[2])


LATE = 50_000
LOOKS = without(of("keeper", step="look", node=2), LATE)
STORIES: dict[str, tuple[Callable[[], Story], list[str]]] = {
    "sound": (sound, []),
    "one step, of one broker": (
        LOOKS,
        ["keeper (group-keeper): it asked node 2 (group_step look)"],
    ),
    "one step, of all": (
        without(of("keeper", step="ask"), LATE),
        [f"keeper (group-keeper): it asked node {node} (group_step ask)" for node in NODES],
    ),
    "in the last seconds alone": (without(of("keeper", step="look", node=2), END - 5_000), []),
    "before all is healed": (without(of("keeper", step="look", node=2), 1_000, HEALED), []),
    "a step that coordinators alone are asked for": (
        without(of("keeper", step="delete"), LATE),
        ["keeper (group-keeper): there is no group_step delete of it for the last"],
    ),
    "nobody coordinates for long": (without(of("keeper", step="delete"), 5_000, HEALED), []),
    "a step that comes when it comes": (without(of("keeper", step="beat"), 5_000), []),
    "where logs begin": (
        without(of("offsets", asked_ms=-2), LATE),
        [f"offsets (offset-reader): it asked node {n} (listed_offset beginning)" for n in NODES],
    ),
    "where logs end, by who believes in another epoch": (
        without(of("offsets", believed_epoch=3, node=1), LATE),
        ["offsets (offset-reader): it asked node 1 (listed_offset by another epoch)"],
    ),
    "metadata of one broker": (
        without(of("reader", node=3), LATE),
        ["reader (metadata-reader): it asked node 3 (metadata)"],
    ),
    "commits of a stranger": (
        without(of("stranger", node=1), LATE),
        ["stranger (group-stranger): it asked node 1 (commit)"],
    ),
    "a hole in the middle": (
        without(of("reader"), 10_000, 31_000),
        ["reader (metadata-reader): there is no metadata of it for 22.0 s"],
    ),
    "a hole of one sort in the middle": (
        without(of("offsets", asked_ms=-2), 10_000, 31_000),
        ["offsets (offset-reader): there is no listed_offset beginning of it for 22.0 s"],
    ),
    "a hole that faults may make": (without(of("reader"), 10_000, 29_000), []),
    "a producer that offers nothing more": (
        without(of("all"), 39_000),
        ["all (producer): there is no produce of it for the last 21"],
    ),
    "a producer that pauses": (without(of("all"), 45_000), []),
    "a consumer that polls no more for long": (
        without(of("given"), 10_000, 31_000),
        ["given (consumer): there is no fetch of it for 22.0 s"],
    ),
    "of a broker that does not run": (told(LOOKS, lambda s: state(s, running=False)), []),
    "of one that is cut off": (told(LOOKS, unhealed), []),
    "on a busy machine": (
        told(
            without(of("keeper", step="look", node=2), END - 11_000),
            lambda s: s.strain(HEALED, 12),
        ),
        [],
    ),
    "on a busy machine, for long": (
        told(
            without(of("keeper", step="look", node=2), END - 14_000),
            lambda s: s.strain(HEALED, 12),
        ),
        ["keeper (group-keeper): it asked node 2 (group_step look)"],
    ),
    "on a machine that stood still": (
        told(LOOKS, lambda s: s.add("standstill", 55_000, lasting_ns=5_000_000_000)),
        [],
    ),
    "nobody says who was launched": (told(LOOKS, lambda s: s.run.update(trials=[])), []),
    "nobody looked on": (
        told(LOOKS, lambda s: s.rows["phase"].pop()),
        [],
    ),
}


def check(history: History) -> Outcome:
    outcome = Outcome()
    for key, why in ceased(history):
        outcome.unknown(*key, why)
    return outcome


@pytest.mark.parametrize("name", STORIES)
@judging(check)
def test_who_stops_asking_one_thing_is_missed(name: str) -> Asks:
    make, wanted = STORIES[name]
    found = (yield make()).unknowns
    assert len(found) == len(wanted), found
    for says, why in zip(wanted, sorted(found), strict=True):
        assert says in why
