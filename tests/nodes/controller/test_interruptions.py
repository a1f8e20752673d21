"""Every scenario, interrupted before each of the controller's writes: by a successor whom it has
not noticed: no write of the old one counts any more, nothing of what it had decided is said, and
the new one brings it to the same end."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from kazoo.exceptions import NodeExistsError

from tests.nodes.controller.scenarios import ALL
from tests.nodes.controller.transcript import Office
from tests.scenarios import Scenario, play

USURPER, SUCCESSOR = 99, 77
WRITE = re.compile(r"zk [-+=]")
REFUSED = re.compile(r"zk [-+=].* -> BadVersionError|channel - \d+|answer .*|states of .*")


def writes_of(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], int]:
    """What it says undisturbed, and how many of it are writes of one who is in office."""
    lines = play(scenario, Office(monkeypatch))
    return lines, sum(bool(WRITE.match(line)) for line in lines)


def disturbed(scenario: Scenario, office: Office) -> list[str]:
    """What follows may presuppose what was prevented: then it does not follow."""
    try:
        return play(scenario, office)
    except NodeExistsError:
        office.run()
        return office.told()


class Interrupted(Office):
    """`when` counts writes after the scenario's `yield`."""

    armed: tuple[int, Any] | None = None

    def told(self) -> list[str]:
        lines = super().told()
        if self.armed is not None:
            self.before_write(*self.armed)
            self.armed = None
        return lines


@pytest.mark.parametrize("name", [n for n in ALL if not n.startswith("office: does_not")])
def test_who_was_succeeded_changes_and_says_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-6082: its writes need the epoch znode's version; a mismatch ends the event."""
    lines, writes = writes_of(ALL[name], monkeypatch)
    for number in range(1, writes + 1):
        office = Interrupted(monkeypatch)

        def usurp(office: Office = office) -> None:
            office.said.append("usurped")
            office.usurp(USURPER)

        office.armed = (number, usurp)
        told = disturbed(ALL[name], office)
        at = told.index("usurped")
        assert told[:at] == lines[:at], "the same up to there"
        after = told[at + 1 :]
        assert after
        assert [line for line in after if not REFUSED.fullmatch(line)] == []
        for broker_id, controller in office.controllers.items():
            assert controller.active_controller_id == USURPER
            assert controller.controller_epoch == 0, "it has forgotten everything"
            assert not office.channels[broker_id].open
        asked = sum(line.startswith("answer") for line in lines)
        assert sum(line.startswith("answer") for line in told) == asked, "all are answered"


def settled(office: Office) -> dict[str, Any]:
    """What is left for a reader to see once all brokers have answered: not the epochs."""
    if SUCCESSOR not in office.controllers:
        office.candidate(SUCCESSOR)
    office.run()
    for _ in range(5):
        office.answer()
    seen: dict[str, Any] = {"logs": office.hosted}
    for path, data in office.zookeeper.contents().items():
        if path.endswith("/state"):
            state = json.loads(data)
            seen[path] = (state["leader"], sorted(state["isr"]))
        elif path.startswith("/brokers/topics/") and data:
            znode = json.loads(data)
            seen[path] = {k: v for k, v in znode.items() if k != "topic_id"}
        elif path.startswith(("/admin", "/config/topics", "/brokers/topics")):
            seen[path] = data
    return seen


OTHERWISE = {
    "elections: by_itself",
    "brokers: one_goes_one_comes_one_bounces",
    "brokers: bounces",
    "disks: loses_a_disk",
}
"""What ZooKeeper does not tell a successor: that a broker was away, that a disk failed; and what
the successor does at a time of its own."""


@pytest.mark.parametrize("name", sorted(ALL.keys() - OTHERWISE))
def test_the_next_one_brings_it_to_the_same_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is elected in the middle of what the old one does, and begins at once; what the old one
    had sent arrives, the answers are lost."""
    lines, writes = writes_of(ALL[name], monkeypatch)
    if any(line.startswith("answer") for line in lines):
        return  # who asked would have to ask again
    whole = Office(monkeypatch)
    play(ALL[name], whole)
    end = settled(whole)
    for number in range(1, writes + 1):
        office = Interrupted(monkeypatch)

        def succeed(office: Office = office) -> None:
            office.admin.delete_recursive("/controller")
            office.step(office.candidate(SUCCESSOR))

        office.armed = (number, succeed)
        play(ALL[name], office)
        assert settled(office) == end, (number, lines)
